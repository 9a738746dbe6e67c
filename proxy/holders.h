/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds the ends of a pipe, and what they are doing with it, as /proc has
 * it. The facts by which two stages are joined: a stage may only write past the
 * real pipe when nobody but the two stubs holds its ends.
 *
 * A look is not atomic: a process may fork or close while it goes on. Only what
 * two looks in a row agree on counts, and only for "nobody else holds it".
 * Any thread.
 */
#ifndef FERRY_PROXY_HOLDERS_H
#define FERRY_PROXY_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/status.h"

enum fy_holder_state {
    FY_HOLDER_RUNS,   /* nothing can be said: it may close, fork or exec */
    FY_HOLDER_READS,  /* blocked in reading this very pipe */
    FY_HOLDER_WRITES, /* blocked in writing to it */
    FY_HOLDER_POLLS,  /* blocked in poll, select, epoll */
    FY_HOLDER_WAITS,  /* blocked in waiting for a child or a signal */
};

struct fy_holder {
    pid_t pid;
    unsigned pipe;       /* index of the inodes that were asked for */
    bool reads, writes;  /* has it open for that */
    uint8_t state;       /* enum fy_holder_state, of its main thread */
    uint64_t exec_inode; /* of the program it runs: tells when it exec'd */
};

struct fy_holders {
    struct fy_holder *at; /* owned; by pid, then pipe */
    unsigned n;
    bool incomplete; /* a process that may hold one could not be looked into */
};

/* Clock ticks since boot, as starttime in /proc/PID/stat; 0: unknown. */
uint64_t fy_holders_now(void);

/*
 * Looks for pipes with these inode numbers (of fstat) in every process that
 * began at or after `since_ticks'; older ones cannot have them. Replaces what
 * *out had. FY_ERR_IO: no /proc; FY_ERR_NOMEM. Then *out is as it was.
 */
int fy_holders_find(const uint64_t *inodes, unsigned n, uint64_t since_ticks,
                    struct fy_holders *out) FY_MUST_CHECK;

/* Same holders with the same ends of pipe i; states do not count. */
bool fy_holders_same(const struct fy_holders *a, const struct fy_holders *b,
                     unsigned i);
void fy_holders_clear(struct fy_holders *holders);

#endif
