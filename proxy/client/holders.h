/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that hold the ends of pipes, read from /proc. A process of this run
 * that cannot be read is reported, so that nothing is concluded from it.
 */
#ifndef FERRY_PROXY_CLIENT_HOLDERS_H
#define FERRY_PROXY_CLIENT_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/status.h"

enum {
    FY_HOLDERS_MAX = 32
}; /* of one pipe that are told apart */

struct fy_holder {
    pid_t pid;
    bool reads, writes; /* it holds that end */
    /*
     * The holder does not seem to be on its way to another program, or to a pipe's end
     * that it will close: it waits for something else than a file, is stopped, or
     * computes. How long it has run, or waited for a processor, says nothing.
     */
    bool settled;
};

enum fy_hidden {
    FY_HIDDEN_NONE,
    FY_HIDDEN_MOVING, /* some, which do something: perhaps they just exec */
    FY_HIDDEN_SETTLED,
};

struct fy_pipe_holders {
    uint64_t device, inode; /* set by the caller */
    struct fy_holder holders[FY_HOLDERS_MAX];
    unsigned n;
    bool more; /* than that many */
};

struct fy_holders;

/* Remembers the processes that run now: they cannot hold pipes that are made
 * later. FY_ERR_NOMEM. */
int fy_holders_new(struct fy_holders **out) FY_MUST_CHECK;
void fy_holders_free(struct fy_holders *holders);

/*
 * Fills the rows. This process is left out. *out_hidden: some process that may
 * be of this run could not be looked at. FY_ERR_IO: no /proc.
 */
int fy_holders_scan(struct fy_holders *holders, struct fy_pipe_holders *pipes,
                    unsigned npipes, enum fy_hidden *out_hidden) FY_MUST_CHECK;

/*
 * Descriptors beyond 2 that `pid' would hand to the program it runs, less those
 * that this process had inherited itself when fy_holders_new() was called: what
 * all processes of the run have is no input of one. *out_pipes: how many of them are ends of pipes
 * without a name; the result counts the others. UINT_MAX: not known.
 */
unsigned fy_holders_extra(const struct fy_holders *holders, pid_t pid,
                          unsigned *out_pipes);

/* Whether this process, and so those that it was started by, may have that file or
 * pipe as well. */
bool fy_holders_inherited(const struct fy_holders *holders, uint64_t device,
                          uint64_t inode);

/*
 * Whether `pid' alone has the file whose name in /proc/PID/fd is `path', so that no
 * other process sees where its position is. False also when that is not known.
 */
bool fy_holders_alone(const struct fy_holders *holders, const char *path,
                      uint64_t device, uint64_t inode, pid_t pid);

/*
 * The same of a descriptor that this process may have been started with, and has
 * itself: no other process moves the file's position. With `waiting' parents of `pid'
 * may have it that do nothing until `pid' ends (dash redirects a command's output
 * in the shell itself). May take 5 ms for each such parent.
 */
bool fy_holders_only(const struct fy_holders *holders, const char *path,
                     uint64_t device, uint64_t inode, pid_t pid, bool waiting);

/* Whether the pipe that `pid' has as fd 0 holds data; true also when that
 * is not known. */
bool fy_pipe_has_data(pid_t pid);

#endif
