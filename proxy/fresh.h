/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's caches of a mount, around work that was done behind its back:
 * what was written here is there before a stage begins, and what the stage did
 * is seen here when it has ended. fresh.c tells by what means.
 */
#ifndef FERRY_PROXY_FRESH_H
#define FERRY_PROXY_FRESH_H

#include <stdbool.h>

#include "proxy/spec.h"
#include "proxy/transport.h"

/* Owners of folders after a stage that may have changed them, by path (sorted by
 * strcmp): what their host said. The others' are not known. */
struct fy_owners {
    const struct fy_folder *folders;
    size_t n;
};

/*
 * Everything written through the mount so far is on its host. `doomed': absolute
 * paths of folders that the stage is going to remove, NULL-terminated, or NULL;
 * each gets and loses an entry, so only for what will be gone. Waits for the
 * host. FY_ERR_IO: it does not answer, or a write failed: do not offload.
 */
int fy_fresh_before(const struct fy_mount *mount,
                    const char *const *doomed) FY_MUST_CHECK;

/*
 * `paths': absolute, NULL-terminated: all that a stage may have made, changed
 * or removed, and the folders that they are in. `owners': NULL when the stage
 * cannot have changed any owner. Some
 * round trips a path, eight paths at a time; changes nothing but times of status
 * change (ctime). How many of them may go on being seen as they were, until the
 * mount's own cache ends (sshfs: 20 s).
 */
unsigned fy_fresh_after(const struct fy_mount *mount, const char *const *paths,
                        const struct fy_owners *owners);

#endif
