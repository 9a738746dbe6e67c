/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment as it would be without ferry: no FERRY_SETTINGS, and no
 * preloaded library of ferry's in LD_PRELOAD. For ferry-stub and for
 * ferry's own programs. Safe anywhere; nothing is allocated.
 */
#ifndef FERRY_COMMON_ENVIRONMENT_H
#define FERRY_COMMON_ENVIRONMENT_H

#include <stddef.h>

/*
 * Copies one NAME=VALUE to `to', which has room for all of it. The bytes with
 * the NUL; 0: nothing is left of it.
 */
size_t fy_environment_copy(const char *text, char *to);

#endif
