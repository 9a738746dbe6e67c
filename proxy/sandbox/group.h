/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control group (cgroup v2) for each stage, where this process may make one: what
 * a stage starts cannot leave it, so what is left behind is known and ended at once.
 * Where none can be had, the tree of processes is looked at (server/run.h). One thread.
 */
#ifndef FERRY_PROXY_SANDBOX_GROUP_H
#define FERRY_PROXY_SANDBOX_GROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fy_groups {
    char path[PATH_MAX]; /* of this process, below its own group; "": none */
    int lock;            /* its descriptor; -1 without a path */
    uint64_t made;
};

struct fy_group {
    uint64_t number; /* 0: none */
    int join;        /* write "0" to enter it; -1 */
};

/* Makes the folder; path stays "" where that cannot be. */
void fy_groups_open(struct fy_groups *groups);
/* Ends and removes all of them. */
void fy_groups_close(struct fy_groups *groups);

/* A new one in *out, or none. `memory_bytes': what the kernel is to bound where it
 * can; 0: nothing. */
void fy_group_new(struct fy_groups *groups, uint64_t memory_bytes,
                  struct fy_group *out);
/* Its processes, at most `capacity'; how many. */
size_t fy_group_list(const struct fy_groups *groups, uint64_t number,
                     pid_t *out, size_t capacity);
/* SIGKILL to all at once. */
void fy_group_kill(const struct fy_groups *groups, uint64_t number);
/* Whether it was empty, and is gone. */
bool fy_group_remove(const struct fy_groups *groups, uint64_t number);

#endif
