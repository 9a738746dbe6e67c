/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of the environment that make a program load other code.
 */
#include "config.h"

#include <string.h>

#include "proxy/storage/tools.h"

/* Load code or name files to write. A `*' at the end stands for anything. */
static const char *const loaders[] = {
    "LD_*",         "GCONV_PATH",      "GETCONF_DIR",     "MALLOC_TRACE",
    "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "BASH_ENV",
};

/* The name of NAME=VALUE is in the list. */
static bool
is_listed(const char *entry, const char *const *list, size_t n)
{
    size_t bytes = strcspn(entry, "=");
    for (size_t i = 0; i < n; i++) {
        size_t least = strlen(list[i]);
        if (list[i][least - 1] == '*'
                ? strncmp(entry, list[i], least - 1) == 0
                : least == bytes && memcmp(entry, list[i], least) == 0) {
            return true;
        }
    }
    return false;
}

bool
fy_loads_code(const char *entry)
{
    static const char *const harmless[] = {
        /* The identity says what it leads to, and stages do without it. */
        "LD_LIBRARY_PATH",
        /* The linker's that makes programs; modules' own notes; what makes a
         * program resolve its symbols earlier. */
        "LD_RUN_PATH", "LD_OPTIONS", "LD_LIBRARY_PATH_*", "LD_BIND_NOW"};
    const char *value = strchr(entry, '=');
    return value && value[1] &&
           is_listed(entry, loaders, sizeof loaders / sizeof loaders[0]) &&
           !is_listed(entry, harmless, sizeof harmless / sizeof harmless[0]);
}
