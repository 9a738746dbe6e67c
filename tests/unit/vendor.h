/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device with functions of its own, for tests of `on cuda' without any CUDA:
 * the host device, and cuBLAS's names made from the installed BLAS.
 */
#ifndef FERRY_TESTS_UNIT_VENDOR_H
#define FERRY_TESTS_UNIT_VENDOR_H

#include "pager/device/device.h"

/* An open host device that launches cuBLAS's functions; close as ever. */
int vendor_open(uint64_t memory_bytes, struct fy_device **out);
/* Calls of its functions so far. */
unsigned vendor_calls(void);

#endif
