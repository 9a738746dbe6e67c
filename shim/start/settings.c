/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that start.c kept: "key=value" behind each other, separated by ";".
 */
#include "config.h"

#include <string.h>

#include "shim/calls/shim.h"

const char *
fy_settings_text(void)
{
    return fy_settings_kept;
}

static int
hex(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 'a' - 'A';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool
fy_settings_value(const char *key, char *out, size_t capacity)
{
    size_t key_bytes = strlen(key);
    const char *at = fy_settings_kept;
    /* By libc, whose functions are bound here: the exec wrappers, which come next, may
     * be on a small stack and further down it. */
    while (strncmp(at, key, key_bytes) != 0 || at[key_bytes] != '=') {
        at = strchr(at, ';');
        if (!at) {
            return false;
        }
        at++;
    }
    size_t used = 0;
    for (at += key_bytes + 1; *at && *at != ';'; at++) {
        char c = *at;
        if (c == '%' && hex(at[1]) >= 0 && hex(at[2]) >= 0) {
            c = (char)(hex(at[1]) * 16 + hex(at[2]));
            at += 2;
        }
        if (used + 1 >= capacity) {
            return false;
        }
        out[used++] = c;
    }
    out[used] = '\0';
    return used > 0;
}
