/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner: turns one bound call into a schedule of chunked calls. Knows
 * axes, annotations and memory sizes, nothing of devices' workings; the same
 * plan runs in the engine, in tests and in `ferry verify'.
 *
 * A plan borrows its model, bound call and target, and must be used by one
 * thread at a time. Nothing here takes a lock.
 */
#ifndef FERRY_PAGER_PLAN_PLAN_H
#define FERRY_PAGER_PLAN_PLAN_H

#include "pager/bind/bind.h"
#include "pager/execute/schedule.h"

/* The code behind an intercepted name. */
struct fy_target {
    void *original;  /* the function the call would have reached */
    uint32_t symbol; /* row of model->symbols it was called by */
    uint8_t integer_bits;
    /* As in struct fy_shim_services; NULL: no siblings. */
    void *(*sibling)(void *original, const char *name);
};

struct fy_plan_options {
    const struct fy_device_ops *ops; /* where chunk calls are launched */
    struct fy_device *device;        /* of `ops'; for resolve(), else unused */
    uint32_t resident; /* bit o: operand o has a mirror and keeps the strides */
    uint32_t kept;     /* bit o: operand o is in a mirror, nearly all of it */
    uint64_t budget_bytes; /* device memory for the tiles of a step */
    /*
     * Bytes that the link carries in about a millisecond, if copies and
     * kernels run side by side. A call that moves many times more (search.c)
     * is cut even if it fits, so that they overlap. 0: it goes whole.
     */
    uint64_t overlap_bytes;
    /* Bytes that it carries while all kernels of the call run; 0: not known. */
    double kernel_bytes;
    bool random; /* random chunk shapes, for tests and verify */
    uint64_t seed;
    uint32_t axes;      /* random: bit a: axis a is cut, and no other; 0: any */
    uint32_t max_steps; /* 0: a default */
    /*
     * Passed for operands that this call must not access; 0: the caller's own
     * pointer. A verifier passes an address that faults.
     */
    uint64_t inactive_address;
    /* Unless NULL, set when the device has no function of a name that the call
     * needs: its error_text() says why. */
    bool *missing;
};

struct fy_plan {
    struct fy_schedule schedule;
    struct fy_traffic predicted; /* as a perfect cache of the budget moves */
    uint64_t lower_bound_bytes;  /* the bytes that any schedule must move */
    double touched_bytes;        /* sum over steps of their tiles */
    /* The plan's end, if copies and kernels overlap as planned, in bytes that the
     * link carries in a single direction meanwhile; 0: nothing overlaps. */
    double end_bytes;
    const char *method; /* "whole", "axes", or an algorithm's name */
};

/*
 * Plans a call; returns new. FY_ERR_NOFIT: no chunk fits the budget;
 * FY_ERR_UNSUPPORTED: the annotation does not allow the chunks that would be
 * needed; FY_ERR_NOMEM.
 */
int fy_plan_new(const struct fy_bound *bound, const struct fy_target *target,
                const struct fy_plan_options *options,
                struct fy_plan **out) FY_MUST_CHECK;
/* Frees the plan, whose schedule runs no more. NULL: fine. */
void fy_plan_free(struct fy_plan *plan);

/*
 * After the schedule has run: the call's return value, chunks combined in a
 * fixed order, in the bytes of its type.
 */
void fy_plan_result(const struct fy_plan *plan, union fy_raw *out);

/* Both count each element of all accessed operands once in each direction: as a
 * schedule of a single chunk, and as a sum of bytes. */
struct fy_traffic fy_least_traffic(const struct fy_view *views,
                                   unsigned nviews);
uint64_t fy_compulsory_bytes(const struct fy_view *views, unsigned nviews);

/*
 * The least any schedule moves with this much device memory: compulsory
 * traffic, or the bound of the call's algorithm where that is larger.
 */
uint64_t fy_lower_bound_bytes(const struct fy_bound *bound,
                              uint64_t memory_bytes);

#endif
