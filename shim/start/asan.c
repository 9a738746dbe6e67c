/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs with a shared libasan want it to be the first library of all and end
 * where another one is preloaded. The check is meant for programs without it
 * in front of libc; ours is in front of both and takes no function that libasan
 * does. So the option is set that its manual has for this, by the function its
 * runtime asks; ASAN_OPTIONS counts more, as ever. A program that
 * defines the function itself keeps its own.
 */
#include "config.h"

#include "shim/calls/shim.h"

__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}
