/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of devices, one row each. A new device is its own file and a row.
 */
#include "config.h"

#include "pager/device/device.h"

#include <string.h>

static const struct fy_device_ops *const devices[] = {
    &fy_device_host,
    &fy_device_cuda,
};

enum {
    UNIT_DIGITS = 3
};

/* ":N" behind a name; nothing is unit 0. */
static bool
parse_unit(const char *text, unsigned *unit)
{
    size_t digits = strlen(text);
    *unit = 0;
    if (digits == 0) {
        return true;
    }
    if (*text != ':' || digits < 2 || digits - 1 > UNIT_DIGITS) {
        return false;
    }
    while (*++text >= '0' && *text <= '9') {
        *unit = *unit * 10 + (unsigned)(*text - '0');
    }
    return *text == '\0';
}

const struct fy_device_ops *
fy_device_find(const char *name)
{
    size_t kind = strcspn(name, ":");
    unsigned unit;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        const struct fy_device_ops *ops = devices[i];
        if (strlen(ops->name) != kind || strncmp(ops->name, name, kind) != 0) {
            continue;
        }
        if (!parse_unit(name + kind, &unit) ||
            (!ops->choose && name[kind] != '\0')) {
            return NULL;
        }
        if (ops->choose) {
            ops->choose(unit);
        }
        return ops;
    }
    return NULL;
}
