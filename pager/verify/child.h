/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs an experiment in a forked child, so that the host program goes on whatever the
 * experiment does (fault, call exit, hang). Parts of the child's memory that must
 * survive it lie in a shared mapping.
 */
#ifndef FERRY_PAGER_VERIFY_CHILD_H
#define FERRY_PAGER_VERIFY_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum fy_child_end {
    FY_CHILD_DONE,    /* the body returned */
    FY_CHILD_FAULT,   /* a signal of its own making: `signal', `address' */
    FY_CHILD_EXITED,  /* something called exit(): `exit_status' */
    FY_CHILD_KILLED,  /* by another process; nothing can be concluded */
    FY_CHILD_TIMEOUT, /* did not end in time, and was ended */
};

/* Lies in shared memory: the child writes, the parent reads after it ended. */
struct fy_child_report {
    int32_t end; /* enum fy_child_end */
    int32_t signal;
    int32_t exit_status;
    bool write;       /* the fault was a write */
    bool has_address; /* the fault has an address */
    uint64_t address;
    /*
     * Called in the child, in the signal handler, before it ends: finds out
     * the meaning of `address' in the call. May be NULL. Set by the body.
     */
    void (*on_fault)(struct fy_child_report *report, void *context);
    void *context;
};

/* Anonymous shared memory of zeros; NULL when there is none. */
void *fy_shared_new(size_t bytes);
void fy_shared_free(void *shared, size_t bytes);

struct fy_bound;

/*
 * Makes the mappings that a call's operands touch private to a child and
 * writable, with their contents. FY_ERR_IO, FY_ERR_NOMEM: some are not, and
 * the call must not be made there.
 */
int fy_child_own(const struct fy_bound *call) FY_MUST_CHECK;

/*
 * In a child: how many bytes it has written to files that were open, standard
 * output and error among them, stdio's buffers included; -1 when unknown.
 */
int64_t fy_child_written(void);

/*
 * Forks, runs body(context) in the child with 0 on /dev/null and every file that
 * is open for writing replaced by memory of the child's, waits at most timeout_ms, and fills *report (in shared memory). FY_ERR_IO when no
 * child could be made. Leaves errno alone; hides the child's SIGCHLD from the
 * host as far as that is possible. The child's memory is a copy: only shared
 * mappings tell what it did. Any thread.
 */
int fy_isolated_run(void (*body)(void *context), void *context,
                    unsigned timeout_ms,
                    struct fy_child_report *report) FY_MUST_CHECK;

#endif
