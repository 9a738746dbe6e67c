/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine with a host device that does wrong what the variable BADDEVICE
 * says. A copy of ferry loads this object instead of the built engine:
 * tests/baddevice/ferry.sh makes that copy.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/baddevice/device.h"

__attribute__((constructor)) static void
spoil(void)
{
    const char *text = getenv("BADDEVICE");
    struct bad_control control;
    if (text == NULL || bad_control_parse(text, &control) != 0) {
        (void)fprintf(stderr, "baddevice: BADDEVICE is no list of faults\n");
        abort();
    }
    bad_control_set(NULL, &control);
}
