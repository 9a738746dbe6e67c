/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the splitting of a stage: its state, and the processes of its
 * copies. split.c delivers, split_parts.c starts and stops, split_sort.c merges.
 */
#ifndef FERRY_PROXY_SERVER_SPLIT_PARTS_H
#define FERRY_PROXY_SERVER_SPLIT_PARTS_H

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include "common/sha256.h"
#include "proxy/server/split.h"

struct fy_split_part {
    uint64_t begin, end; /* range that is still to be fed */
    pid_t pid;
    int in_fd, out_fd; /* our ends, -1: closed */
    bool ended;
    char *output; /* whose turn has not come */
    size_t noutput, room;
};

struct fy_split_state {
    const struct fy_split_job *job;
    uint32_t arg; /* operand of argv, 0: stdin */
    int file;
    struct sigaction pipe_action; /* of SIGPIPE, as the command has it */
    char **copy_argv;
    struct fy_split_part *parts;
    struct fy_split_part last; /* the command over the parts' output */
    struct pollfd *fds;
    struct fy_split_part **owners;
    uint32_t nparts, started, head; /* head: the one whose turn it is */
    uint32_t running;
    size_t waiting_bytes;
    int complaints, complaints_in; /* stderr of all copies */
    uint64_t sum;
    bool found, enough;
    /* The bytes that have left this process. */
    struct fy_sha256 delivered, again;
    uint64_t delivered_bytes, skip_bytes;
    bool is_whole;
};

/* Signals, the pipe of complaints, the last command when there is one. */
int fy_split_prepare(struct fy_split_state *split) FY_MUST_CHECK;
void fy_split_unprepare(struct fy_split_state *split);

/* A copy that reads a pipe: part's pid, in_fd and out_fd. */
int fy_split_start(struct fy_split_state *split, struct fy_split_part *part,
                   char *const *argv) FY_MUST_CHECK;

void fy_split_kill_parts(struct fy_split_state *split);
void fy_split_kill(struct fy_split_state *split); /* and the last one */

/* The parts cannot be used: the command runs whole. Do not return. */
void fy_split_give_up(struct fy_split_state *split) __attribute__((noreturn));
void fy_split_whole(struct fy_split_state *split) __attribute__((noreturn));
void fy_split_die(int number) __attribute__((noreturn));
/* Ends the process because the delivered bytes are not those of the whole
 * command. */
void fy_split_differs(struct fy_split_state *split) __attribute__((noreturn));

void fy_split_feed(struct fy_split_state *split, struct fy_split_part *part);
void fy_split_read_last(struct fy_split_state *split);
void fy_split_close(int *fd);

/* Both end here. */
bool fy_split_hash_equal(struct fy_sha256 *a, struct fy_sha256 *b);

/* split_text.c: whether all of the input is UTF-8 without a NUL. */
bool fy_split_is_text(const struct fy_split_state *split) FY_MUST_CHECK;

/* split_sort.c: sorted parts through `sort -m'; the exit status. */
int fy_split_sort(struct fy_split_state *split);

#endif
