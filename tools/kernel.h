/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the features of this kernel that ferry uses, by asking the kernel.
 */
#ifndef FERRY_TOOLS_KERNEL_H
#define FERRY_TOOLS_KERNEL_H

/* Each returns NULL when it works, else why not (static or strerror text). */
const char *fy_kernel_userfaultfd(int *out_kernel_faults);
const char *fy_kernel_pagemap_scan(void);
const char *fy_kernel_procmap_query(void);

#endif
