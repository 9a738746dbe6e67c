/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of devices, one row each. A new device is its own file and a row.
 */
#include "config.h"

#include "pager/device.h"

#include <string.h>

static const struct fy_device_ops *const devices[] = {
    &fy_device_host,
};

const struct fy_device_ops *
fy_device_find(const char *name)
{
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        if (strcmp(devices[i]->name, name) == 0) {
            return devices[i];
        }
    }
    return NULL;
}
