/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consecutive deferred calls that are maps on the device, as one kernel: an element is
 * read once, goes through all of them in registers, and only results with another
 * reader are stored. Calls that cannot be joined stay as they are.
 */
#ifndef FERRY_PAGER_DEFERRED_FUSE_H
#define FERRY_PAGER_DEFERRED_FUSE_H

#include "pager/deferred/run.h"
#include "pager/kernel/source.h"

/* A kernel instead of some calls of a group. */
struct fy_fused {
    unsigned first, ncalls; /* of the group */
    void *function;
    uint16_t nargs;
    uint8_t types[FY_KERNEL_PARAMS];
    uint8_t buffer[FY_KERNEL_PARAMS]; /* of parameters that are addresses */
    struct fy_kernel_param params[FY_KERNEL_PARAMS];
    union fy_raw scalars[FY_KERNEL_PARAMS];
    unsigned nbuffers;
    uint8_t row[FY_KERNEL_BUFFERS];    /* of the range that each buffer is */
    uint8_t access[FY_KERNEL_BUFFERS]; /* 0: it never leaves the registers */
    uint32_t element_bytes[FY_KERNEL_BUFFERS];
};

struct fy_fusion {
    unsigned count;
    struct fy_fused kernels[]; /* in the group's order */
};

/*
 * Finds the kernels and has them compiled. Returns new; none of them is no
 * error. `most': calls of one kernel, 0 for as many as are sensible.
 * FY_ERR_NOMEM; FY_ERR_BUSY: a compiler is stuck, perhaps on a lock that the
 * thread holds for which all this is done: leave the device alone.
 */
int fy_fusion_new(const struct fy_defer_group *group,
                  const struct fy_lease *lease, unsigned most,
                  struct fy_fusion **out) FY_MUST_CHECK;

/* On n elements at these addresses (by buffer; of those with access). */
int fy_fused_launch(const struct fy_fused *fused,
                    const struct fy_device_ops *ops, int64_t n,
                    const uint64_t address[FY_KERNEL_BUFFERS],
                    struct fy_stream *stream) FY_MUST_CHECK;

#endif
