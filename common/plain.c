/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that no terminal obeys, see the header.
 */
#include "config.h"

#include "common/plain.h"

#include <stdbool.h>
#include <string.h>

size_t
fy_utf8_bytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t n = c[0] < 0x80                   ? 1
               : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
               : (c[0] & 0xf0) == 0xe0       ? 3
               : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
        (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f)) {
        return 0;
    }
    return n;
}

size_t
fy_plain_bytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    bool control = c[0] < 0x20 || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0);
    return control ? 0 : fy_utf8_bytes(text);
}

void
fy_plain(char *text, const char *kept)
{
    while (*text) {
        size_t n = strchr(kept, *text) ? 1 : fy_plain_bytes(text);
        if (n == 0) {
            *text = '?';
            n = 1;
        }
        text += n;
    }
}
