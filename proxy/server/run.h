/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stage as a process of the storage host: started with exactly the
 * descriptors, environment, signals and limits that the client named, and ended
 * with all that descended from it. Used by the proxy's one thread.
 */
#ifndef FERRY_PROXY_SERVER_RUN_H
#define FERRY_PROXY_SERVER_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buffer.h"
#include "common/status.h"
#include "proxy/sandbox/sandbox.h"
#include "proxy/wire/spec.h"

/* A stage's process, and the proxy's ends of its streams; -1: none. */
struct fy_run {
    pid_t pid;    /* its own session and process group; not yet reaped */
    int started;  /* ends without a byte: it was exec'd; else an int, errno */
    int in;       /* write: its stdin (a pipe, or the terminal) */
    int out;      /* read: its stdout */
    int err;      /* read: its stderr, where that is not its stdout */
    int terminal; /* for the window size */
    int files[3]; /* FY_STREAM_FILE descriptions, kept for their offsets */
};

/*
 * Checks that these three streams can be made: LINK only for stdin, SAME only
 * for stderr. FY_ERR_INVALID with `why'.
 */
int fy_run_check(const struct fy_stage_spec *spec,
                 struct fy_buffer *why) FY_MUST_CHECK;

/*
 * Forks the stage. `files' as fy_policy_check() opened them: taken in every
 * case. spec->copies above 1: as many copies of it, where the invocation allows
 * (split.h). `link': the read end that becomes stdin when that is FY_STREAM_LINK;
 * borrowed, the caller closes its own once the stage has started.
 * Everything
 * that fy_run holds is non-blocking and close-on-exec; nothing else of this
 * process reaches the stage. FY_ERR_IO (errno), FY_ERR_NOMEM, with `why'.
 */
int fy_run_start(const struct fy_stage_spec *spec,
                 const struct fy_invocation *invocation,
                 struct fy_sandbox *sandbox, int files[3], int link,
                 struct fy_run *out, struct fy_buffer *why) FY_MUST_CHECK;

/* Closes *fd unless it is -1, and makes it -1. */
void fy_run_close(int *fd);
/* All of them; the process is left alone. */
void fy_run_clear(struct fy_run *run);

/* ---- run_end.c: descendants of a process
 * ----------------------------------------- */

/*
 * Sends `signal' to every process that descends from `ancestor', itself
 * excluded, and when `session' is not 0 only to those of that session or below
 * the process of that number. How many were found.
 */
unsigned fy_descendants_signal(pid_t ancestor, pid_t session, int signal);

struct fy_descent {
    struct fy_descent *next;
    pid_t session; /* as above */
    uint64_t
        signals;    /* bit n-1: signal n; sent in the order of their numbers */
    bool others;    /* none of the caller's own session */
    unsigned found; /* set by the look */
};

struct fy_process; /* proxy/wire/process.h */

/*
 * Sends signals (bit n-1: signal n) in the order of their numbers to that process, not to
 * another one that has its number now: the start is compared. Any thread.
 */
void fy_process_signal(const struct fy_process *process, uint64_t signals);

/* Sends the signal of each row of the list, by one look at /proc. Any
 * thread. */
void fy_descendants_deliver(pid_t ancestor, struct fy_descent *rows);

/* Returns the number of this process's children that have other sessions:
 * processes that stages left behind, and stages. A cheap look; 0 if the
 * kernel lists no children. */
unsigned fy_strays_count(void);

#endif
