/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict numbers and sizes from text: digits only, no sign, no blanks, no
 * locale; errno is left alone. Declared in settings.h.
 */
#include "config.h"

#include "common/settings.h"

#include <string.h>

/* Leading digits; *rest is what follows. */
static int
scan(const char *text, uint64_t *out, const char **rest)
{
    uint64_t number = 0;
    if (*text < '0' || *text > '9') {
        return FY_ERR_INVALID;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number)) {
            return FY_ERR_OVERFLOW;
        }
    }
    *out = number;
    *rest = text;
    return 0;
}

int
fy_parse_number(const char *text, uint64_t *out)
{
    uint64_t number;
    const char *rest;
    int status = scan(text, &number, &rest);
    if (status) {
        return status;
    }
    if (*rest) {
        return FY_ERR_INVALID;
    }
    *out = number;
    return 0;
}

int
fy_parse_size(const char *text, uint64_t *out_bytes)
{
    static const struct {
        const char *unit;
        uint64_t bytes;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"k", UINT64_C(1) << 10},
        {"K", UINT64_C(1) << 10},
        {"KiB", UINT64_C(1) << 10},
        {"M", UINT64_C(1) << 20},
        {"MiB", UINT64_C(1) << 20},
        {"G", UINT64_C(1) << 30},
        {"GiB", UINT64_C(1) << 30},
        {"T", UINT64_C(1) << 40},
        {"TiB", UINT64_C(1) << 40},
        {"kB", UINT64_C(1000)},
        {"KB", UINT64_C(1000)},
        {"MB", UINT64_C(1000000)},
        {"GB", UINT64_C(1000000000)},
        {"TB", UINT64_C(1000000000000)},
    };
    uint64_t number;
    const char *unit;
    int status = scan(text, &number, &unit);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].unit) != 0) {
            continue;
        }
        if (__builtin_mul_overflow(number, units[i].bytes, &number) ||
            number > INT64_MAX) {
            return FY_ERR_OVERFLOW;
        }
        *out_bytes = number;
        return 0;
    }
    return FY_ERR_INVALID;
}
