/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of `on cuda f(...)' for one chunk: numbers of the chunk, tiles'
 * addresses, scalars by address, and words that the device fills in when it
 * issues the call. Integers are the C int of the vendor's libraries: what is
 * larger goes to the function's form with 64-bit integers, when there is one.
 */
#include "config.h"

#include "pager/device_call.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

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

static const struct fy_call_row *
call_of(const struct fy_model *model, const struct fy_function *function)
{
    return function->cuda_call == FY_NIL
               ? NULL
               : &FY_TABLE(model, fy_call_row, calls)[function->cuda_call];
}

bool
fy_device_call_has_info(const struct fy_model *model,
                        const struct fy_function *function)
{
    const struct fy_call_row *row = call_of(model, function);

    for (uint32_t i = 0; row && i < row->nargs; i++) {
        const struct fy_node *node =
            &FY_TABLE(model, fy_node, nodes)[row->args[i]];
        if (node->op == FY_OP_WORD && node->a == FY_WORD_INFO) {
            return true;
        }
    }
    return false;
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

static int
scalar(struct maker *maker, uint32_t index, struct fy_slot *slot)
{
    const struct fy_scope *scope = maker->scope;
    const unsigned bits = maker->planner->bound->integer_bits;
    uint32_t cell = fy_eval_bare_cell(scope, index);

    if (cell == FY_NIL) {
        return FY_ERR_UNSUPPORTED;
    }
    const struct fy_cell *row =
        FY_TABLE(scope->model, fy_cell, cells) + scope->function->cells + cell;
    slot->kind = FY_SLOT_REFERENCE;
    slot->type = FY_T_POINTER;
    fy_raw_store(fy_type_resolve((enum fy_type)row->type, bits),
                 &scope->cells[cell], &slot->value);
    return FY_OK;
}

static int
word(struct maker *maker, const struct fy_node *node, struct fy_slot *slot)
{
    const struct fy_planner *planner = maker->planner;
    const struct fy_model *model = maker->scope->model;

    slot->kind = FY_SLOT_WORD;
    slot->word = (uint8_t)node->a;
    slot->type = node->a == FY_WORD_LWORK ? FY_T_I64 : FY_T_POINTER;
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
    maker->variant->size_function = planner->options.ops->resolve(
        planner->options.device, fy_model_string(model, node->b));
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

int
fy_device_call(struct fy_planner *planner, const struct fy_scope *scope,
               const struct fy_device_operands *operands,
               struct fy_variant *variant)
{
    const struct fy_call_row *row = call_of(scope->model, scope->function);
    struct maker maker = {planner, scope, operands, variant, false};
    char name[NAME_BYTES];

    if (!row || row->nargs > FY_MAX_ARGS) {
        return FY_ERR_UNSUPPORTED;
    }
    variant->nslots = (uint16_t)row->nargs;
    for (unsigned i = 0; i < row->nargs; i++) {
        variant->slots[i] = (struct fy_slot){0};
        int status = argument(&maker, row->args[i], &variant->slots[i]);
        if (status) {
            return status;
        }
    }
    int n = snprintf(name, sizeof(name), "%s%s",
                     fy_model_string(scope->model, row->function),
                     maker.wide ? "_64" : "");
    if (n < 0 || (size_t)n >= sizeof(name)) {
        return FY_ERR_UNSUPPORTED;
    }
    /* A workspace's size is an int: wide calls have none. */
    if (maker.wide && variant->size_function) {
        return FY_ERR_UNSUPPORTED;
    }
    variant->function =
        planner->options.ops->resolve(planner->options.device, name);
    variant->return_type = FY_T_I32;
    variant->on_device = true;
    return variant->function ? FY_OK : FY_ERR_UNSUPPORTED;
}
