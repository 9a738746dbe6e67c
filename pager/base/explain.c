/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the decision log, see explain.h.
 */
#include "config.h"

#include "pager/base/explain.h"

#include <string.h>

#include "common/lines.h"
#include "pager/base/lasting.h"

enum {
    LINES = 4096,    /* of one process, at most */
    TOLD = 2 * LINES /* slots for the hashes of what was told */
};

/* Words without a lock: a handler of the program may interrupt here. */
struct explained {
    unsigned lines;
    uint64_t told[TOLD];
    char path[]; /* of the file */
};

static struct explained *explained; /* NULL: nothing is to be told */

void
fy_explain_to(const char *path)
{
    if (path && *path) {
        explained = fy_lasting(sizeof(*explained) + strlen(path) + 1);
        if (explained) {
            strcpy(explained->path, path);
        }
    }
}

bool
fy_explains(void)
{
    return explained;
}

static bool
is_full(void)
{
    return __atomic_load_n(&explained->lines, __ATOMIC_RELAXED) >= LINES;
}

bool
fy_explain_once(uint64_t hash)
{
    for (unsigned i = 0; i < TOLD; i++) {
        uint64_t *slot = &explained->told[(hash / 2 + i) % TOLD];
        uint64_t seen = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (seen == 0 && !is_full() &&
            __atomic_compare_exchange_n(slot, &seen, hash, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return !is_full() && __atomic_fetch_add(&explained->lines, 1,
                                                    __ATOMIC_RELAXED) < LINES;
        }
        if (seen == hash || seen == 0) {
            return false;
        }
    }
    return false;
}

void
fy_explain_write(const char *line, size_t bytes)
{
    (void)fy_lines_append(explained->path, line, bytes);
}
