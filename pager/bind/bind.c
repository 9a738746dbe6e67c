/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers to arguments (System V x86-64), arguments to cells, and the choice
 * of a variant. Views are made in views.c.
 */
#include "config.h"

#include "pager/bind/bind.h"

#include <string.h>

#include "pager/device/mapped.h"

enum {
    INTEGER_REGISTERS = 6,
    VECTOR_REGISTERS = 8
};

struct walk {
    const struct fy_registers *registers;
    unsigned integers, vectors, stack;
};

/* One value of up to 8 bytes, or the two halves of a complex double. */
static void
take_vector(struct walk *walk, unsigned parts, union fy_raw *out)
{
    bool in_registers = walk->vectors + parts <= VECTOR_REGISTERS;
    for (unsigned i = 0; i < parts; i++) {
        if (in_registers) {
            memcpy(&out->u[i], &walk->registers->vector[walk->vectors++][0],
                   sizeof(out->u[i]));
        } else {
            out->u[i] = walk->registers->stack[walk->stack++];
        }
    }
}

static void
arguments(const struct fy_model *model, const struct fy_function *function,
          unsigned bits, const struct fy_registers *registers,
          union fy_raw args[FY_MAX_ARGS])
{
    const struct fy_arg *rows = FY_TABLE(model, fy_arg, args) + function->args;
    struct walk walk = {.registers = registers};

    memset(args, 0, sizeof(args[0]) * FY_MAX_ARGS);
    for (unsigned i = 0; i < function->nargs; i++) {
        switch (fy_arg_passed_type(&rows[i], bits)) {
        case FY_T_F32:
        case FY_T_F64:
        case FY_T_C32:
            take_vector(&walk, 1, &args[i]);
            break;
        case FY_T_C64:
            take_vector(&walk, 2, &args[i]);
            break;
        default:
            args[i].u[0] = walk.integers < INTEGER_REGISTERS
                               ? registers->integer[walk.integers++]
                               : registers->stack[walk.stack++];
            break;
        }
    }
}

bool
fy_function_uses_integer(const struct fy_model *model, uint32_t index)
{
    const struct fy_function *f =
        &FY_TABLE(model, fy_function, functions)[index];
    const struct fy_arg *args = FY_TABLE(model, fy_arg, args) + f->args;

    if (f->return_type == FY_T_INTEGER) {
        return true;
    }
    for (unsigned i = 0; i < f->nargs; i++) {
        if (args[i].type == FY_T_INTEGER || args[i].pointee == FY_T_INTEGER) {
            return true;
        }
    }
    return false;
}

/* Returns the place of a cell's bytes; NULL behind a null pointer. */
static const void *
cell_bytes(const struct fy_cell *cell, const union fy_raw *args)
{
    const union fy_raw *arg = &args[cell->arg];
    const char *base;

    switch (cell->kind) {
    case FY_CELL_VALUE:
        return arg;
    case FY_CELL_REFERENCE: /* at offset 0 */
    case FY_CELL_FIELD:
        memcpy(&base, arg, sizeof(base));
        return base ? base + cell->offset : NULL;
    default:
        return NULL;
    }
}

static enum fy_reason
read_cells(const struct fy_model *model, const struct fy_function *function,
           unsigned bits, const union fy_raw *args, fy_handle_lookup *handles,
           bool careful, struct fy_value *cells)
{
    const struct fy_cell *rows =
        FY_TABLE(model, fy_cell, cells) + function->cells;
    struct fy_value maker_cells[FY_MAX_CELLS];
    unsigned maker_arg = FY_MAX_ARGS;
    uint32_t maker = FY_NIL;

    for (unsigned i = 0; i < function->ncells; i++) {
        const struct fy_cell *cell = &rows[i];
        if (cell->kind == FY_CELL_HANDLE) {
            if (cell->arg != maker_arg) {
                maker = handles ? handles(args[cell->arg].u[0], maker_cells)
                                : FY_NIL;
                maker_arg = cell->arg;
            }
            if (maker == FY_NIL || maker != cell->maker) {
                return FY_REASON_UNKNOWN_HANDLE;
            }
            cells[i] = maker_cells[cell->offset];
            continue;
        }
        enum fy_type type = fy_type_resolve((enum fy_type)cell->type, bits);
        if (cell->kind == FY_CELL_ADDRESS) {
            if (!args[cell->arg].p) {
                return FY_REASON_UNMAPPED;
            }
            cells[i] = (struct fy_value){
                .kind = FY_V_POINTER,
                .p = args[cell->arg].u[0] + cell->offset,
            };
            continue;
        }
        const void *bytes = cell_bytes(cell, args);
        union fy_raw copy;
        if (!bytes) {
            return FY_REASON_UNMAPPED;
        }
        if (careful && cell->kind != FY_CELL_VALUE) {
            if (fy_read_mapped(bytes, &copy, fy_type_bytes(type, bits),
                               fy_type_bytes(type, bits))) {
                return FY_REASON_UNMAPPED;
            }
            bytes = &copy;
        }
        cells[i] = fy_raw_value(type, bytes);
    }
    return FY_REASON_NONE;
}

static enum fy_reason
status_reason(int status)
{
    return status == FY_ERR_OVERFLOW ? FY_REASON_OVERFLOW
                                     : FY_REASON_UNSUPPORTED;
}

static enum fy_reason
check_requires(const struct fy_scope *scope)
{
    const struct fy_require *rows = FY_OF(scope, fy_require, requires);

    for (unsigned i = 0; i < scope->function->nrequires; i++) {
        bool holds;
        int status = fy_eval_bool(scope, rows[i].node, &holds);
        if (status) {
            return status_reason(status);
        }
        if (!holds) {
            return (enum fy_reason)rows[i].reason;
        }
    }
    return FY_REASON_NONE;
}

static enum fy_reason
bind_axes(struct fy_bound *bound, const struct fy_scope *scope)
{
    const struct fy_axis *rows = FY_OF(scope, fy_axis, axes);

    for (unsigned i = 0; i < scope->function->naxes; i++) {
        int64_t extent;
        int status = fy_eval_int(scope, rows[i].extent, &extent);
        if (status) {
            return status_reason(status);
        }
        bound->extents[i] = extent < 0 ? 0 : extent;
        bound->axis_cell[i] = rows[i].cell != FY_NIL
                                  ? rows[i].cell
                                  : fy_eval_bare_cell(scope, rows[i].extent);
    }
    return FY_REASON_NONE;
}

/* One variant: arguments are in bound->args. */
static enum fy_reason
bind_variant(struct fy_bound *bound, fy_handle_lookup *handles)
{
    struct fy_scope scope = {bound->model, bound->function, bound->cells, NULL};
    enum fy_reason reason =
        read_cells(bound->model, bound->function, bound->integer_bits,
                   bound->args, handles, false, bound->cells);

    if (reason == FY_REASON_NONE) {
        reason = check_requires(&scope);
    }
    if (reason == FY_REASON_NONE) {
        reason = bind_axes(bound, &scope);
    }
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    scope.extents = bound->extents;
    reason = fy_bind_views(&scope, bound->integer_bits, false, bound->views);
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    bound->flops = 0;
    if (bound->function->flops != FY_NIL &&
        fy_eval_real(&scope, bound->function->flops, &bound->flops)) {
        bound->flops = 0;
    }
    return FY_REASON_NONE;
}

/* Takes arguments from `registers', or when that is NULL from `given'. */
static enum fy_reason
bind_any(const struct fy_model *model, uint32_t function, unsigned bits,
         const struct fy_registers *registers, const union fy_raw *given,
         fy_handle_lookup *handles, struct fy_bound *out)
{
    enum fy_reason first = FY_REASON_UNSUPPORTED;
    bool named = false; /* `first' is a better word than UNKNOWN_HANDLE */

    out->model = model;
    out->integer_bits = (uint8_t)bits;
    for (; function != FY_NIL; function = out->function->next_variant) {
        out->function_index = function;
        out->function = &FY_TABLE(model, fy_function, functions)[function];
        if (bits == 0 && fy_function_uses_integer(model, function)) {
            return FY_REASON_INTEGER_WIDTH;
        }
        if (registers) {
            arguments(model, out->function, bits, registers, out->args);
        } else {
            memcpy(out->args, given, sizeof(out->args));
        }
        enum fy_reason reason = bind_variant(out, handles);
        if (reason == FY_REASON_NONE) {
            return reason;
        }
        if (!named) {
            first = reason;
            named = reason != FY_REASON_UNKNOWN_HANDLE;
        }
    }
    return first;
}

enum fy_reason
fy_bind(const struct fy_model *model, uint32_t function, unsigned integer_bits,
        const struct fy_registers *registers, fy_handle_lookup *handles,
        struct fy_bound *out)
{
    return bind_any(model, function, integer_bits, registers, NULL, handles,
                    out);
}

enum fy_reason
fy_bind_args(const struct fy_model *model, uint32_t function,
             unsigned integer_bits, const union fy_raw args[FY_MAX_ARGS],
             fy_handle_lookup *handles, struct fy_bound *out)
{
    return bind_any(model, function, integer_bits, NULL, args, handles, out);
}

enum fy_reason
fy_bind_cells(const struct fy_model *model, uint32_t function,
              unsigned integer_bits, const struct fy_registers *registers,
              bool careful, struct fy_value cells[FY_MAX_CELLS])
{
    const struct fy_function *row =
        &FY_TABLE(model, fy_function, functions)[function];
    union fy_raw args[FY_MAX_ARGS];

    if (integer_bits == 0 && fy_function_uses_integer(model, function)) {
        return FY_REASON_INTEGER_WIDTH;
    }
    arguments(model, row, integer_bits, registers, args);
    return read_cells(model, row, integer_bits, args, NULL, careful, cells);
}
