/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the effect of signals on a process that does not catch them. Any
 * thread.
 */
#ifndef FERRY_PROXY_WIRE_SIGNALS_H
#define FERRY_PROXY_WIRE_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if it ends a process that does not catch it. */
bool fy_signal_ends(uint32_t signal);
/* Returns true if a process can have died of it: no stop, none that is
 * ignored. */
bool fy_signal_kills(int64_t signal);

#endif
