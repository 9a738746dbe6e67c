/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that lives as long as the engine, of which a page costs nothing until it is
 * used. Mapped, since handlers of the program may have interrupted malloc().
 */
#ifndef FERRY_PAGER_BASE_LASTING_H
#define FERRY_PAGER_BASE_LASTING_H

#include <stddef.h>

/* Zeros; NULL: there is none. One system call. Any thread; errno may change. */
void *fy_lasting(size_t bytes);

#endif
