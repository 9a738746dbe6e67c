/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host device does wrong, as text. A test that runs a whole program
 * names it in the variable BADDEVICE, which tests/baddevice/engine.c reads.
 */
#include "config.h"

#include "tests/baddevice/device.h"

#include <string.h>

/* A decimal number at *text, which moves behind it. No locale, no errno. */
static int
parse_number(const char **text, uint64_t *out)
{
    uint64_t value = 0;
    const char *p = *text;
    if (*p < '0' || *p > '9') {
        return FY_ERR_INVALID;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            return FY_ERR_INVALID;
        }
    }
    *text = p;
    *out = value;
    return 0;
}

int
bad_control_parse(const char *text, struct bad_control *out)
{
    static const char *const keys[] = {
        "fail:", "count:", "late:",   "corrupt:", "latency:",
        "seed:", "guard:", "poison:", "every:"};
    enum {
        KEYS = sizeof keys / sizeof keys[0]
    };
    uint64_t values[KEYS] = {0};
    while (*text != '\0') {
        size_t k = 0;
        while (k < KEYS && strncmp(text, keys[k], strlen(keys[k])) != 0) {
            k++;
        }
        if (k == KEYS) {
            return FY_ERR_INVALID;
        }
        text += strlen(keys[k]);
        if (parse_number(&text, &values[k]) != 0) {
            return FY_ERR_INVALID;
        }
        if (*text == ',') {
            text++;
        } else if (*text != '\0') {
            return FY_ERR_INVALID;
        }
    }
    *out = (struct bad_control){
        .fail_at = values[0],
        .fail_count = values[1],
        .fail_late = values[2] != 0,
        .corrupt_at = values[3],
        .latency_ns = values[4],
        .seed = values[5],
        .guard = values[6] != 0,
        .poison = values[7] != 0,
        .fail_every = values[8],
    };
    return 0;
}
