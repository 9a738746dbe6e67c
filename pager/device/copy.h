/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strided copies of exactly the declared elements, for devices whose memory
 * the CPU can address, for staging and for the undo log. No allocation, no
 * lock: safe from any thread.
 */
#ifndef FERRY_PAGER_DEVICE_COPY_H
#define FERRY_PAGER_DEVICE_COPY_H

#include "pager/device/device.h"

/*
 * Copies the elements, in the copy's direction, taking copy->device for an address of
 * this process. The two sides must not overlap. Reads and writes nothing
 * between the elements, also on the side it writes.
 */
void fy_copy_run(const struct fy_copy *copy);

/*
 * Runs a copy whose copy->view.host is the program's memory, which may fault:
 * the kernel copies (host_access.h). FY_ERR_FAULT: not all elements were
 * copied.
 */
int fy_copy_run_host(const struct fy_copy *copy) FY_MUST_CHECK;

/* Runs a copy to the log by the threads of the device, if it has any (NULL: by this one). */
int fy_copy_save(const struct fy_copy *copy,
                 struct fy_device *device) FY_MUST_CHECK;

/* Runs such a copy, and copies all elements that can be accessed. */
int fy_copy_put_back(const struct fy_copy *copy);

#endif
