/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of `on cuda f(...)' for one chunk: numbers of the chunk, tiles'
 * addresses, scalars by address, and words that the device fills in when it
 * issues the call. Integers are the C int of the vendor's libraries: what is
 * larger goes to the function's form with 64-bit integers, when there is one.
 */
#include "config.h"

#include "pager/plan/device_call.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pager/plan/kernel_call.h"

enum {
    NAME_BYTES = 128
};

struct maker {
    struct fy_planner *planner;
    const struct fy_scope *scope;
    const struct fy_device_operands *operands;
    struct fy_variant *variant;
    bool wide; /* some integer needs 64 bits */
};

static const struct fy_node *
node_of(const struct fy_scope *scope, uint32_t index)
{
    return &FY_TABLE(scope->model, fy_node, nodes)[index];
}

/* The step behind `row', or the first. */
static const struct fy_call_row *
step_of(const struct fy_model *model, const struct fy_function *function,
        const struct fy_call_row *row)
{
    uint32_t index = row ? row->next : function->cuda_call;

    return index == FY_NIL ? NULL : &FY_TABLE(model, fy_call_row, calls)[index];
}

bool
fy_device_call_has_info(const struct fy_model *model,
                        const struct fy_function *function)
{
    const struct fy_call_row *row = NULL;

    while ((row = step_of(model, function, row))) {
        for (uint32_t i = 0; row->kind != FY_CALL_MAP && i < row->nargs; i++) {
            const struct fy_node *node =
                &FY_TABLE(model, fy_node, nodes)[row->args[i]];
            if (node->op == FY_OP_WORD && node->a == FY_WORD_INFO) {
                return true;
            }
        }
    }
    return false;
}

bool
fy_device_call_takes_ints(const struct fy_model *model,
                          const struct fy_function *function)
{
    const struct fy_call_row *row = NULL;

    while ((row = step_of(model, function, row))) {
        if (row->kind != FY_CALL_MAP) {
            return true;
        }
    }
    return false;
}

bool
fy_device_call_only_reads(const struct fy_model *model,
                          const struct fy_function *function, unsigned operand)
{
    const struct fy_call_row *row = step_of(model, function, NULL);
    uint32_t address[2] = {FY_NIL, FY_NIL};
    unsigned count = 0;
    bool plan = false;

    if (!row || row->kind != FY_CALL_LIBRARY || row->next != FY_NIL) {
        return false;
    }
    for (uint32_t i = 0; i < row->nargs; i++) {
        const struct fy_node *node =
            &FY_TABLE(model, fy_node, nodes)[row->args[i]];
        plan = plan || (node->op == FY_OP_WORD && node->a == FY_WORD_CUFFT);
        if (node->op == FY_OP_ADDRESS && count < 2) {
            address[count++] = node->a;
        }
    }
    return plan && count == 2 && address[0] == operand &&
           address[1] != operand &&
           FY_TABLE(model, fy_operand, operands)[function->operands + operand]
                   .in_when != FY_NIL;
}

/* Down the branches that are taken, to something that is no conditional. */
static uint32_t
taken(const struct fy_scope *scope, uint32_t index)
{
    for (unsigned depth = 0; depth < FY_MAX_NODE_DEPTH; depth++) {
        const struct fy_node *node = node_of(scope, index);
        bool yes;
        if (node->op != FY_OP_COND) {
            return index;
        }
        if (fy_eval_bool(scope, node->a, &yes)) {
            return FY_NIL;
        }
        index = yes ? node->b : node->c;
    }
    return FY_NIL;
}

int
fy_device_call_transposed(const struct fy_scope *scope, uint32_t *out)
{
    const struct fy_call_row *row = NULL;
    uint32_t seen[2] = {0, 0};

    while ((row = step_of(scope->model, scope->function, row))) {
        /* Maps go by the strides that there are. */
        for (uint32_t i = 0; row->kind != FY_CALL_MAP && i < row->nargs; i++) {
            uint32_t index = taken(scope, row->args[i]);
            if (index == FY_NIL) {
                return FY_ERR_UNSUPPORTED;
            }
            const struct fy_node *node = node_of(scope, index);
            if (node->op == FY_OP_ADDRESS && node->a < FY_MAX_OPERANDS) {
                seen[node->b & 1] |= UINT32_C(1) << node->a;
            }
        }
    }
    *out = seen[1];
    return seen[0] & seen[1] ? FY_ERR_UNSUPPORTED : FY_OK;
}

/* A number by address, in the type of the first operand's elements. */
static int
number(const struct fy_scope *scope, uint32_t index, struct fy_slot *slot)
{
    struct fy_value value;

    if (scope->function->noperands == 0 || fy_eval(scope, index, &value) ||
        (value.kind != FY_V_INT && value.kind != FY_V_REAL)) {
        return FY_ERR_UNSUPPORTED;
    }
    const enum fy_type type =
        (enum fy_type)FY_OF(scope, fy_operand, operands)[0].element;
    if (type != FY_T_F32 && type != FY_T_F64 && type != FY_T_C32 &&
        type != FY_T_C64) {
        return FY_ERR_UNSUPPORTED;
    }
    slot->kind = FY_SLOT_REFERENCE;
    slot->type = FY_T_POINTER;
    fy_raw_store(type, &value, &slot->value);
    return FY_OK;
}

static int
scalar(struct maker *maker, uint32_t index, struct fy_slot *slot)
{
    const struct fy_scope *scope = maker->scope;
    const unsigned bits = maker->planner->bound->integer_bits;
    const unsigned op = node_of(scope, index)->op;

    if (op == FY_OP_INT || op == FY_OP_REAL || op == FY_OP_NEG) {
        return number(scope, index, slot);
    }
    uint32_t cell = fy_eval_bare_cell(scope, index);
    if (cell == FY_NIL) {
        return FY_ERR_UNSUPPORTED;
    }
    const struct fy_cell *row = FY_OF(scope, fy_cell, cells) + cell;
    slot->kind = FY_SLOT_REFERENCE;
    slot->type = FY_T_POINTER;
    fy_raw_store(fy_type_resolve((enum fy_type)row->type, bits),
                 &scope->cells[cell], &slot->value);
    return FY_OK;
}

/* ---- plans of transforms ---- */

static int
integer(const struct fy_scope *scope, uint32_t node, int64_t absent,
        int64_t *out)
{
    if (node == FY_NIL) {
        *out = absent;
        return FY_OK;
    }
    return fy_eval_int(scope, node, out) ? FY_ERR_UNSUPPORTED : FY_OK;
}

/* One side; `half' of the last axis is there. */
static int
transform_side(const struct fy_scope *scope, const uint32_t *args,
               const struct fy_transform *t, unsigned rank, bool half,
               struct fy_transform_side *side)
{
    int status = integer(scope, args[0], 0, &side->stride);

    if (status == FY_OK) {
        status = integer(scope, args[1], 0, &side->distance);
    }
    side->embed[0] = t->n[0];
    for (unsigned i = 0; status == FY_OK && i < rank; i++) {
        int64_t there = half && i == rank - 1 ? t->n[i] / 2 + 1 : t->n[i];
        side->embed[i] = there;
        if (i > 0) {
            status = integer(scope, args[1 + i], there, &side->embed[i]);
        }
        if (status == FY_OK && side->embed[i] < there) {
            status = FY_ERR_UNSUPPORTED;
        }
    }
    if (side->stride < 1 || side->distance < 0) {
        status = FY_ERR_UNSUPPORTED;
    }
    return status;
}

/* Axes of one element are left out, but for the last one. */
static int
drop_axis(struct fy_transform *t, unsigned axis)
{
    struct fy_transform_side *sides[] = {&t->from, &t->to};

    for (unsigned s = 0; s < 2; s++) {
        int64_t *embed = sides[s]->embed;
        /* The elements between those of the axes in front. */
        if (axis > 0 && __builtin_mul_overflow(embed[axis], embed[axis + 1],
                                               &embed[axis + 1])) {
            return FY_ERR_OVERFLOW;
        }
        for (unsigned i = axis; i + 1 < t->rank; i++) {
            embed[i] = embed[i + 1];
        }
    }
    for (unsigned i = axis; i + 1 < t->rank; i++) {
        t->n[i] = t->n[i + 1];
    }
    t->rank--;
    return FY_OK;
}

/*
 * That all elements of one side can be counted; and the distance of a single
 * transform, which means nothing, as that of dense ones.
 */
static int
check_side(const struct fy_transform *t, struct fy_transform_side *side)
{
    int64_t inner = 1, between, span;

    for (unsigned i = 0; i < t->rank; i++) {
        if (__builtin_mul_overflow(inner, side->embed[i], &inner)) {
            return FY_ERR_OVERFLOW;
        }
    }
    if (__builtin_mul_overflow(inner, side->stride, &inner)) {
        return FY_ERR_OVERFLOW;
    }
    if (t->batch == 1) {
        side->distance = inner;
    }
    if (__builtin_mul_overflow(t->batch - 1, side->distance, &between) ||
        __builtin_add_overflow(inner, between, &span) ||
        span > INT64_MAX / 64) {
        return FY_ERR_OVERFLOW;
    }
    /* cuFFT's documents do not say what becomes of transforms of one and the
     * same input. */
    return side->distance < 1 ? FY_ERR_UNSUPPORTED : FY_OK;
}

static int
transform_of(const struct fy_scope *scope, uint32_t row,
             struct fy_transform *out)
{
    const uint32_t *args = FY_TABLE(scope->model, fy_call_row, calls)[row].args;
    struct fy_transform t = {.kind = out->kind, .is_double = out->is_double};
    int status = integer(scope, args[FY_CUFFT_BATCH], 0, &t.batch);

    while (t.rank < 3 && args[FY_CUFFT_N + t.rank] != FY_NIL) {
        int64_t *n = &t.n[t.rank++];
        if (status == FY_OK) {
            status = integer(scope, args[FY_CUFFT_N + t.rank - 1], 0, n);
        }
        if (status == FY_OK && *n < 1) {
            status = FY_ERR_UNSUPPORTED;
        }
    }
    if (status || t.batch < 1) {
        return FY_ERR_UNSUPPORTED;
    }
    status = transform_side(scope, args + FY_CUFFT_FROM, &t, t.rank,
                            t.kind == FY_TRANSFORM_C2R, &t.from);
    if (status == FY_OK) {
        status = transform_side(scope, args + FY_CUFFT_TO, &t, t.rank,
                                t.kind == FY_TRANSFORM_R2C, &t.to);
    }
    for (unsigned axis = t.rank; status == FY_OK && axis-- > 0;) {
        if (axis + 1u < t.rank && t.n[axis] == 1) {
            status = drop_axis(&t, axis);
        }
    }
    if (status == FY_OK) {
        status = check_side(&t, &t.from);
    }
    if (status == FY_OK) {
        status = check_side(&t, &t.to);
    }
    if (status == FY_OK) {
        *out = t;
    }
    return status;
}

/* The functions that execute plans, by what they do. */
static const struct {
    const char *single, *wide;
    uint8_t kind;
} executors[] = {
    {"cufftExecC2C", "cufftExecZ2Z", FY_TRANSFORM_C2C},
    {"cufftExecR2C", "cufftExecD2Z", FY_TRANSFORM_R2C},
    {"cufftExecC2R", "cufftExecZ2D", FY_TRANSFORM_C2R},
};

/*
 * The function for the type of the first operand in the arguments: annotations
 * of both precisions name one. NULL: it executes no plan.
 */
static const char *
executor(const struct maker *maker, const struct fy_call_row *row,
         const char *name, struct fy_transform *transform)
{
    const struct fy_scope *scope = maker->scope;
    const struct fy_operand *operands = FY_OF(scope, fy_operand, operands);
    bool is_double = false;

    for (uint32_t i = 0; i < row->nargs; i++) {
        const struct fy_node *node = node_of(scope, row->args[i]);
        if (node->op == FY_OP_ADDRESS) {
            is_double = operands[node->a].element == FY_T_F64 ||
                        operands[node->a].element == FY_T_C64;
            break;
        }
    }
    for (size_t i = 0; i < sizeof(executors) / sizeof(executors[0]); i++) {
        if (strcmp(name, executors[i].single) == 0 ||
            strcmp(name, executors[i].wide) == 0) {
            transform->kind = executors[i].kind;
            transform->is_double = is_double;
            return is_double ? executors[i].wide : executors[i].single;
        }
    }
    return NULL;
}

void *
fy_device_transform(const struct fy_planner *planner, unsigned kind,
                    bool is_double)
{
    for (size_t i = 0; i < sizeof(executors) / sizeof(executors[0]); i++) {
        if (executors[i].kind == kind) {
            return planner->options.ops->resolve(
                planner->options.device,
                is_double ? executors[i].wide : executors[i].single);
        }
    }
    return NULL;
}

/* A function that the call needs, which is noted when the device has none. */
static void *
needed_function(const struct fy_planner *planner, const char *name)
{
    const struct fy_plan_options *options = &planner->options;
    void *function = options->ops->resolve(options->device, name);

    if (!function && options->missing) {
        *options->missing = true;
    }
    return function;
}

static int
word(struct maker *maker, const struct fy_node *node, struct fy_slot *slot)
{
    const struct fy_planner *planner = maker->planner;
    const struct fy_model *model = maker->scope->model;

    slot->kind = FY_SLOT_WORD;
    slot->word = (uint8_t)node->a;
    slot->type = node->a == FY_WORD_LWORK   ? FY_T_I64
                 : node->a == FY_WORD_CUFFT ? FY_T_I32
                                            : FY_T_POINTER;
    if (node->a == FY_WORD_CUFFT) {
        return maker->variant->transform.kind == 0
                   ? FY_ERR_UNSUPPORTED
                   : transform_of(maker->scope, node->c,
                                  &maker->variant->transform);
    }
    if (node->a == FY_WORD_INFO) {
        maker->planner->uses_info = true;
    }
    if (node->a != FY_WORD_WORKSPACE) {
        return FY_OK;
    }
    if (maker->scope->function->noperands == 0) {
        return FY_ERR_UNSUPPORTED;
    }
    const struct fy_operand *operand = &FY_TABLE(
        model, fy_operand, operands)[maker->scope->function->operands];
    maker->variant->element_bytes = fy_type_bytes(
        (enum fy_type)operand->element, planner->bound->integer_bits);
    maker->variant->size_arguments = node->c;
    maker->variant->size_function =
        needed_function(planner, fy_model_string(model, node->b));
    return maker->variant->size_function ? FY_OK : FY_ERR_UNSUPPORTED;
}

static int
argument(struct maker *maker, uint32_t index, struct fy_slot *slot)
{
    const struct fy_scope *scope = maker->scope;
    struct fy_value value;

    index = taken(scope, index);
    if (index == FY_NIL) {
        return FY_ERR_UNSUPPORTED;
    }
    const struct fy_node *node = node_of(scope, index);
    switch (node->op) {
    case FY_OP_WORD:
        return word(maker, node, slot);
    case FY_OP_SCALAR:
        return scalar(maker, node->a, slot);
    case FY_OP_ADDRESS:
        slot->type = FY_T_POINTER;
        return maker->operands->address(maker->operands->state, node->a, slot);
    default:
        break;
    }
    if (fy_eval(scope, index, &value) || value.kind == FY_V_COMPLEX ||
        value.kind == FY_V_POINTER) {
        return FY_ERR_UNSUPPORTED;
    }
    slot->kind = FY_SLOT_VALUE;
    slot->type = value.kind == FY_V_REAL ? FY_T_F64 : FY_T_I64;
    fy_raw_store((enum fy_type)slot->type, &value, &slot->value);
    if (value.kind == FY_V_INT && (value.i > INT_MAX || value.i < INT_MIN)) {
        maker->wide = true;
    }
    return FY_OK;
}

/* The function itself, by the width that its numbers need. */
static int
library_function(struct maker *maker, const char *function)
{
    const struct fy_plan_options *options = &maker->planner->options;
    struct fy_variant *variant = maker->variant;
    const char *wide = maker->wide ? "_64" : "";
    char name[NAME_BYTES];
    size_t length = strlen(function);

    if (length + sizeof("_v2_64") > sizeof(name)) {
        return FY_ERR_UNSUPPORTED;
    }
    /* A workspace's size is an int: wide calls have none. */
    if (maker->wide && variant->size_function) {
        return FY_ERR_UNSUPPORTED;
    }
    /*
     * cuBLAS's header defines many of its names as those with _v2 behind, and
     * its library still has the plain ones: functions of other arguments.
     */
    variant->function = NULL;
    if (strncmp(function, "cublas", 6) == 0 && !strstr(function, "_v2")) {
        (void)snprintf(name, sizeof(name), "%s_v2%s", function, wide);
        variant->function = options->ops->resolve(options->device, name);
    }
    if (!variant->function) {
        (void)snprintf(name, sizeof(name), "%s%s", function, wide);
        variant->function = needed_function(maker->planner, name);
    }
    variant->return_type = FY_T_I32;
    return variant->function ? FY_OK : FY_ERR_UNSUPPORTED;
}

static int
fill_step(struct maker *maker, const struct fy_call_row *row)
{
    struct fy_variant *variant = maker->variant;

    variant->on_device = true;
    if (row->kind == FY_CALL_MAP) {
        return fy_map_step(maker->planner, row, maker->operands, variant);
    }
    if (row->nargs > FY_MAX_ARGS) {
        return FY_ERR_UNSUPPORTED;
    }
    const char *function = fy_model_string(maker->scope->model, row->function);
    const char *executes =
        row->kind == FY_CALL_LIBRARY
            ? executor(maker, row, function, &variant->transform)
            : NULL;
    if (executes) {
        function = executes;
    }
    variant->nslots = (uint16_t)row->nargs;
    for (unsigned i = 0; i < row->nargs; i++) {
        variant->slots[i] = (struct fy_slot){0};
        int status = argument(maker, row->args[i], &variant->slots[i]);
        if (status) {
            return status;
        }
    }
    return row->kind == FY_CALL_KERNEL
               ? fy_kernel_step(maker->planner, maker->scope, row, variant)
               : library_function(maker, function);
}

int
fy_device_call(struct fy_planner *planner, const struct fy_scope *scope,
               const struct fy_device_operands *operands,
               struct fy_variant *variant)
{
    const struct fy_call_row *row =
        step_of(scope->model, scope->function, NULL);
    struct maker maker = {planner, scope, operands, variant, false};

    if (!row) {
        return FY_ERR_UNSUPPORTED;
    }
    for (;;) {
        int status = fill_step(&maker, row);
        row = step_of(scope->model, scope->function, row);
        if (status || !row) {
            return status;
        }
        struct fy_variant *next = calloc(1, sizeof(*next));
        if (!next) {
            return FY_ERR_NOMEM;
        }
        maker.variant->then = next;
        maker.variant = next;
        maker.wide = false;
    }
}
