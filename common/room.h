/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May this process write files? Asked before ferry writes one for itself inside
 * a host program: there the kernel answers a byte beyond `ulimit -f' with
 * SIGXFSZ, which ends programs that never write.
 */
#ifndef FERRY_COMMON_ROOM_H
#define FERRY_COMMON_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if a file of so many bytes is within the limit. Any thread;
 * keeps errno. */
bool fy_may_write(uint64_t bytes);

#endif
