/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `on cuda f(...)': a chunk as a call of the device's own library. Private to the
 * planner.
 */
#ifndef FERRY_PAGER_PLAN_DEVICE_CALL_H
#define FERRY_PAGER_PLAN_DEVICE_CALL_H

#include "pager/plan/build.h"

/* Returns true if this plan's device runs functions of its own, not the
 * program's. */
static inline bool
fy_plan_on_device(const struct fy_planner *planner)
{
    return planner->options.ops->resolve;
}

/* Returns true if the function's call on the device tells success by a
 * status integer in device memory (`info'), which then is no output that the
 * device has to store. */
bool fy_device_call_has_info(const struct fy_model *model,
                             const struct fy_function *function);

/*
 * Returns true if the function's call on the device only reads an operand that
 * the program's own may destroy: the input of transforms to another array.
 * (The device's copy may be spoiled: it is good for one call.)
 */
bool fy_device_call_only_reads(const struct fy_model *model,
                               const struct fy_function *function,
                               unsigned operand);
/* Bit o: operand o lies transposed on the device. FY_ERR_UNSUPPORTED when it
 * would have to lie both ways. */
int fy_device_call_transposed(const struct fy_scope *scope,
                              uint32_t *out) FY_MUST_CHECK;
/* Returns true if some step is a function or a kernel whose integers are C's
 * int; maps know the width of theirs. */
bool fy_device_call_takes_ints(const struct fy_model *model,
                               const struct fy_function *function);

/* The device's function that executes transforms of that kind; NULL: none. */
void *fy_device_transform(const struct fy_planner *planner, unsigned kind,
                          bool is_double);

/* Places of the operands of the call. */
struct fy_device_operands {
    void *state;
    /* Fills kind, tile and offset; FY_ERR_UNSUPPORTED when there is none. */
    int (*address)(void *state, unsigned operand, struct fy_slot *slot);
    /* The operand's tile, and its number for a slot; NULL: it has none, or this
     * member is not set. */
    const struct fy_tile *(*tile)(void *state, unsigned operand,
                                  uint8_t *number);
};

/*
 * Fills function and slots of a variant for a call of scope->function with
 * these cells, and one more variant for each further step. FY_ERR_UNSUPPORTED:
 * the device has no such function, or a number does not fit the type that its
 * library takes; FY_ERR_NOFIT: more threads than can be launched; else the
 * device's own error for a kernel.
 */
int fy_device_call(struct fy_planner *planner, const struct fy_scope *scope,
                   const struct fy_device_operands *operands,
                   struct fy_variant *variant) FY_MUST_CHECK;

#endif
