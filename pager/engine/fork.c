/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's fork hooks, a row for each room that has any. All signals are blocked
 * while they run. No lock is held from `before' to `parent' or `child': the program's
 * own handlers run in between, and take locks under which its other threads may be
 * inside a call.
 */
#include "config.h"

#include "pager/engine/fork.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "common/debug.h"
#include "common/signals.h"
#include "pager/bind/handles.h"
#include "pager/device/own_thread.h"

static struct fy_state *state; /* for hooks of pthread_atfork() */

static void
debug_child(void)
{
    fy_debug(ENGINE, "a forked child of %d begins", (int)getppid());
}

static void
learned_reset(void)
{
    fy_learn_after_fork(&state->chooser.learned);
}

static void
memory_reset(void)
{
    fy_memory_after_fork(&state->memory);
}

static void
pool_reset(void)
{
    fy_pool_after_fork_child(&state->pool);
}

/*
 * `before' runs from the first row to the last; `parent', and in the child first all
 * `reset', then all `child', from the last to the first. So a row may use in each of
 * them what rows below it are about. A `reset' makes anew what a thread of the parent
 * may have been changing, locks first of all, and calls nothing else: the child has
 * one thread.
 */
static const struct row {
    const char *of;
    void (*before)(void);
    void (*parent)(void);
    void (*reset)(void);
    void (*child)(void);
} rows[] = {
    {"debug log", NULL, NULL, NULL, debug_child},
    {"handles", NULL, NULL, fy_handles_after_fork, NULL},
    {"statistics", NULL, NULL, learned_reset, NULL},
    {"residency", NULL, NULL, memory_reset, NULL},
    /* The parent's device stays behind with its locks. */
    {"pool", NULL, NULL, pool_reset, NULL},
    /* The child's only thread is the main one. */
    {"threads", NULL, NULL, fy_own_threads_child, NULL},
};

enum {
    ROWS = sizeof(rows) / sizeof(rows[0])
};

/* ThreadSanitizer counts the parent's other threads as running in a child. */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
static void
expect_no_other_thread(bool begins)
{
    if (begins) {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    } else {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
}
#else
static void
expect_no_other_thread(bool begins)
{
    (void)begins;
}
#endif

static void
run(void (*hook)(void))
{
    if (hook) {
        hook();
    }
}

static void
before_fork(void)
{
    sigset_t before;

    fy_signals_block(&before);
    for (unsigned i = 0; i < ROWS; i++) {
        run(rows[i].before);
    }
    fy_signals_restore(&before);
}

static void
after_fork_parent(void)
{
    sigset_t before;

    fy_signals_block(&before);
    for (unsigned i = ROWS; i-- > 0;) {
        run(rows[i].parent);
    }
    fy_signals_restore(&before);
}

static void
after_fork_child(void)
{
    sigset_t before;

    fy_signals_block(&before);
    expect_no_other_thread(true);
    for (unsigned i = ROWS; i-- > 0;) {
        run(rows[i].reset);
    }
    expect_no_other_thread(false);
    for (unsigned i = ROWS; i-- > 0;) {
        run(rows[i].child);
    }
    fy_signals_restore(&before);
}

int
fy_fork_start(struct fy_state *of)
{
    state = of;
    return pthread_atfork(before_fork, after_fork_parent, after_fork_child)
               ? FY_ERR_NOMEM
               : FY_OK;
}
