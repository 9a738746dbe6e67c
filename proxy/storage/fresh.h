/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's caches of a mount, after work that was done behind its back: what
 * the stage did is seen here when it has ended. fresh.c tells by what means.
 */
#ifndef FERRY_PROXY_STORAGE_FRESH_H
#define FERRY_PROXY_STORAGE_FRESH_H

#include <stdbool.h>

#include "proxy/wire/spec.h"
#include "proxy/wire/transport.h"

/* The host's answer about the mount after a stage; each list sorted by path
 * (strcmp), paths NUL-terminated. */
struct fy_told {
    const struct fy_bytes *changed; /* the names found to have changed */
    size_t nchanged;
    bool owners; /* may have been changed: those of `folders' are known, others
                  * are not */
    const struct fy_folder *folders;
    size_t nfolders;
    const struct fy_link_told *links; /* the links among `changed' */
    size_t nlinks;
    const struct fy_file_told *files; /* the regular files among them */
    size_t nfiles;
};

/*
 * `paths': absolute, NULL-terminated: all that a stage may have made, changed
 * or removed, and the folders that they are in. `told': NULL when their host said
 * nothing. Some round trips a path, eight paths at a time; changes nothing but times of status
 * change (ctime). How many of them may go on being seen as they were, until the
 * mount's own cache ends (sshfs: 20 s).
 */
unsigned fy_fresh_after(const struct fy_mount *mount, const char *const *paths,
                        const struct fy_told *told);

/*
 * Before a stage that will write in the folder `path': names and attributes there
 * and in the folders below are asked for, depth by depth, as long as an answer comes
 * before `until_ns' (CLOCK_MONOTONIC) at `trip_ns' a round trip.
 */
void fy_fresh_ahead(const char *path, uint64_t trip_ns, uint64_t until_ns);

#endif
