/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON with bounds and texts that jansson does not give: counts that fit, and
 * strings that no terminal obeys.
 */
#include "config.h"

#include "tools/json.h"

#include "common/plain.h"

uint64_t
fy_json_count(const json_t *object, const char *key)
{
    double number = fy_json_number(object, key);
    if (!(number > 0)) {
        return 0;
    }
    return number < 0x1p63 ? (uint64_t)number : (uint64_t)1 << 63;
}

void
fy_json_write_string(const char *text, FILE *to)
{
    (void)putc('"', to);
    while (*text) {
        size_t n = fy_utf8_bytes(text);
        if (*text == '"' || *text == '\\') {
            (void)fprintf(to, "\\%c", *text);
        } else if (n == 0) {
            (void)fputs("\\ufffd", to);
            n = 1;
        } else if (fy_plain_bytes(text) ==
                   0) { /* its last byte is its number */
            (void)fprintf(to, "\\u%04x", (unsigned char)text[n - 1]);
        } else {
            (void)fwrite(text, 1, n, to);
        }
        text += n;
    }
    (void)putc('"', to);
}
