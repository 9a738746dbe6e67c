/* SPDX-License-Identifier: Apache-2.0 */
/* What the host device does wrong, as text; see control.c. */
#ifndef FERRY_TESTS_BADDEVICE_CONTROL_H
#define FERRY_TESTS_BADDEVICE_CONTROL_H

#include "pager/device/host/host.h"

/*
 * Reads "fail:N,count:N,every:N,late:1,corrupt:N,latency:NS,seed:N,guard:1,poison:1",
 * keys in any order, each optional. FY_ERR_INVALID on anything else.
 */
int control_parse(const char *text, struct fy_host_control *out) FY_MUST_CHECK;

#endif
