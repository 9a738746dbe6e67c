/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes ferry's own additions out of an environment again; see the header.
 */
#include "config.h"

#include "common/environment.h"

#include <stdbool.h>
#include <string.h>

static bool
begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Returns true if an entry of LD_PRELOAD is the preloaded library of ferry. */
static bool
is_ours(const char *entry, size_t n)
{
    size_t at = n;
    while (at > 0 && entry[at - 1] != '/') {
        at--;
    }
    return (n - at == sizeof "libferry.so" - 1 &&
            memcmp(entry + at, "libferry.so", n - at) == 0) ||
           (n - at > sizeof "ferry-preload-" - 1 &&
            memcmp(entry + at, "ferry-preload-", sizeof "ferry-preload-" - 1) ==
                0);
}

size_t
fy_environment_copy(const char *text, char *to)
{
    static const char preload[] = "LD_PRELOAD=";
    if (begins(text, "FERRY_SETTINGS=")) {
        return 0;
    }
    size_t used = 0;
    if (!begins(text, preload)) {
        used = strlen(text);
        memcpy(to, text, used);
    } else {
        const char *at = text + sizeof preload - 1;
        memcpy(to, preload, used = sizeof preload - 1);
        while (*at != '\0') {
            size_t n = strcspn(at, ": ");
            if (n > 0 && !is_ours(at, n)) {
                if (used > sizeof preload - 1) {
                    to[used++] = ':';
                }
                memcpy(to + used, at, n);
                used += n;
            }
            at += n;
            at += *at != '\0';
        }
        if (used == sizeof preload - 1) {
            return 0;
        }
    }
    to[used++] = '\0';
    return used;
}
