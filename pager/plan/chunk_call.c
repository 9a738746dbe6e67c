/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk of a call is another call with the same annotation: axis cells hold
 * the chunk's extents, stride cells the packed strides of device memory, and
 * the rest of the annotation is evaluated again. This file makes such calls.
 * Long because strides, tiles and arguments of one chunk share its state.
 */
#include "config.h"

#include "pager/plan/device_call.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/model/operators.h"
#include "pager/device/mapped.h"

/*
 * Whether the value of an expression depends on a cell, following conditionals
 * down the branch taken (anything too deep: yes).
 */
static bool
reads_cell(const struct fy_scope *scope, uint32_t node, uint32_t cell,
           unsigned depth, unsigned *steps)
{
    const struct fy_model *model = scope->model;
    const struct fy_node *row;
    unsigned arity;
    bool taken;

    if (node == FY_NIL) {
        return false;
    }
    if (depth > FY_MAX_NODE_DEPTH || node >= model->nodes.count ||
        ++*steps > FY_MAX_NODE_STEPS) {
        return true;
    }
    row = &FY_TABLE(model, fy_node, nodes)[node];
    arity = fy_node_arity(row);
    switch (row->op) {
    case FY_OP_CELL:
        return row->a == cell;
    case FY_OP_COND:
        return fy_eval_bool(scope, row->a, &taken) ||
               reads_cell(scope, row->a, cell, depth + 1, steps) ||
               reads_cell(scope, taken ? row->b : row->c, cell, depth + 1,
                          steps);
    default:
        return (arity > 0 &&
                reads_cell(scope, row->a, cell, depth + 1, steps)) ||
               (arity > 1 && reads_cell(scope, row->b, cell, depth + 1, steps));
    }
}

/*
 * Whether a chunk may choose the value of a cell: it is a stride and nothing
 * else, and every accessed operand whose strides read it has it as a bare one.
 */
static bool
is_free_stride(const struct fy_planner *planner, const struct fy_scope *scope,
               uint32_t cell)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_operand *operands = FY_OF(bound, fy_operand, operands);

    /* The program's function goes by the handle; a device's own is told. */
    if (FY_OF(bound, fy_cell, cells)[cell].kind == FY_CELL_HANDLE &&
        !fy_plan_on_device(planner)) {
        return false;
    }
    for (unsigned a = 0; a < bound->function->naxes; a++) {
        if (fy_axis_uses_cell(bound, a, cell)) {
            return false;
        }
    }
    for (unsigned o = 0; o < bound->function->noperands; o++) {
        if (bound->views[o].naxes == 0) {
            continue;
        }
        for (unsigned k = 0; k < operands[o].naxes; k++) {
            uint32_t node = operands[o].axes[k].stride;
            unsigned steps = 0;
            if (fy_eval_bare_cell(scope, node) == cell &&
                planner->options.resident >> o & 1) {
                return false;
            }
            if (fy_eval_bare_cell(scope, node) != cell &&
                reads_cell(scope, node, cell, 0, &steps)) {
                return false;
            }
        }
    }
    return true;
}

/* Packs an operand's strides from its innermost axis outwards. */
static int
pack_operand(const struct fy_planner *planner, unsigned o,
             struct fy_scope *scope, struct fy_value *cells, bool *packed)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_operand *operand = &FY_OF(bound, fy_operand, operands)[o];
    const struct fy_view *view = &bound->views[o];
    unsigned order[FY_MAX_OPERAND_AXES];
    int64_t span = 1;

    for (unsigned k = 0; k < operand->naxes; k++) {
        order[k] = k;
    }
    for (unsigned i = 0; i < operand->naxes; i++) {
        for (unsigned j = i + 1; j < operand->naxes; j++) {
            int64_t si = llabs(view->stride[order[i]]);
            int64_t sj = llabs(view->stride[order[j]]);
            bool bare_i = fy_eval_bare_cell(
                              scope, operand->axes[order[i]].stride) != FY_NIL;
            bool bare_j = fy_eval_bare_cell(
                              scope, operand->axes[order[j]].stride) != FY_NIL;
            if (sj < si || (sj == si && bare_i && !bare_j)) {
                unsigned t = order[i];
                order[i] = order[j];
                order[j] = t;
            }
        }
    }
    for (unsigned i = 0; i < operand->naxes; i++) {
        const struct fy_operand_axis *axis = &operand->axes[order[i]];
        uint32_t cell = fy_eval_bare_cell(scope, axis->stride);
        int64_t stride, reach;
        if (cell != FY_NIL && cells[cell].kind == FY_V_INT &&
            is_free_stride(planner, scope, cell)) {
            /* A cell two operands share is as large as either needs. */
            if (packed[cell] && cells[cell].i > span) {
                span = cells[cell].i;
            }
            cells[cell].i = span;
            packed[cell] = true;
        }
        int status = fy_eval_int(scope, axis->stride, &stride);
        if (status) {
            return status;
        }
        if (__builtin_mul_overflow(scope->extents[axis->axis] - 1,
                                   llabs(stride), &reach) ||
            __builtin_add_overflow(span, reach, &span)) {
            return FY_ERR_OVERFLOW;
        }
    }
    return FY_OK;
}

static int
pack_strides(const struct fy_planner *planner, struct fy_scope *scope,
             struct fy_value *cells, bool *packed)
{
    const struct fy_bound *bound = planner->bound;

    /* Twice: an early operand may share a cell with a larger, later one. */
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned o = 0; o < bound->function->noperands; o++) {
            if (bound->views[o].naxes == 0) {
                continue;
            }
            int status = pack_operand(planner, o, scope, cells, packed);
            if (status) {
                return status;
            }
        }
    }
    return FY_OK;
}

/*
 * The requirements on a handle's strides held for the call's own; a chunk of a
 * device's own function may have others.
 */
static bool
is_of_packed_handle(const struct fy_scope *scope, uint32_t node,
                    const bool *packed)
{
    const struct fy_cell *cells = FY_OF(scope, fy_cell, cells);

    for (uint32_t c = 0; c < scope->function->ncells; c++) {
        unsigned steps = 0;
        if (packed[c] && cells[c].kind == FY_CELL_HANDLE &&
            reads_cell(scope, node, c, 0, &steps)) {
            return true;
        }
    }
    return false;
}

static int
check_chunk_requires(const struct fy_scope *scope, const bool *packed)
{
    const struct fy_require *rows = FY_OF(scope, fy_require, requires);

    for (unsigned i = 0; i < scope->function->nrequires; i++) {
        bool holds;
        if (is_of_packed_handle(scope, rows[i].node, packed)) {
            continue;
        }
        int status = fy_eval_bool(scope, rows[i].node, &holds);
        if (status) {
            return status;
        }
        /* A later chunk of a sum with beta = 1 may be `empty' by its own. */
        if (!holds && rows[i].reason != FY_REASON_EMPTY) {
            return FY_ERR_UNSUPPORTED;
        }
    }
    return FY_OK;
}

/*
 * Packed strides, or the caller's own where the function asks for more than its
 * operands span (a band with unit diagonal has a row that is not accessed).
 */
static int
pack_or_keep(const struct fy_planner *planner, struct fy_scope *scope,
             struct fy_value *cells)
{
    const struct fy_bound *bound = planner->bound;
    struct fy_value kept[FY_MAX_CELLS];
    bool packed[FY_MAX_CELLS] = {false};
    int status;

    memcpy(kept, cells, sizeof(kept[0]) * bound->function->ncells);
    status = pack_strides(planner, scope, cells, packed);
    if (status == FY_OK) {
        status = check_chunk_requires(scope, packed);
    }
    if (status != FY_ERR_UNSUPPORTED) {
        return status;
    }
    memcpy(cells, kept, sizeof(kept[0]) * bound->function->ncells);
    memset(packed, 0, sizeof(packed));
    return check_chunk_requires(scope, packed);
}

/* The status integer of LAPACK: set when the result is accepted. */
static bool
is_info(const struct fy_bound *bound, unsigned o)
{
    const struct fy_operand *operand = &FY_OF(bound, fy_operand, operands)[o];

    return operand->element == FY_T_INTEGER &&
           operand->access == FY_ACCESS_OUT &&
           strcmp(fy_model_string(bound->model, operand->name), "info") == 0;
}

/* Tiles of the variant, and for each operand its tile's number or -1. */
static int
chunk_tiles(struct fy_planner *planner, const struct fy_chunk *chunk,
            const struct fy_scope *scope, struct fy_variant *variant,
            int tile_of[FY_MAX_OPERANDS], int64_t at_bytes[FY_MAX_OPERANDS])
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_operand *operands = FY_OF(bound, fy_operand, operands);
    const bool on_device = fy_plan_on_device(planner);
    const bool has_info =
        on_device && fy_device_call_has_info(bound->model, bound->function);
    uint32_t turned = 0;
    struct fy_view views[FY_MAX_OPERANDS];
    enum fy_reason reason =
        fy_bind_views(scope, bound->integer_bits, true, views);

    if (reason != FY_REASON_NONE ||
        (on_device && fy_device_call_transposed(scope, &turned))) {
        return FY_ERR_UNSUPPORTED;
    }
    for (unsigned o = 0; o < bound->function->noperands; o++) {
        const struct fy_view *whole = &bound->views[o], *part = &views[o];
        struct fy_tile *tile = &variant->tiles[variant->ntiles];
        tile_of[o] = -1;
        if (part->naxes == 0) {
            continue;
        }
        if (has_info && is_info(bound, o)) {
            planner->info_pointer = whole->host;
            continue;
        }
        if (on_device && operands[o].access == FY_ACCESS_SCRATCH) {
            continue; /* it has its own; query.c knows what comes back */
        }
        if (whole->naxes != part->naxes) {
            return FY_ERR_UNSUPPORTED;
        }
        tile->view = (uint16_t)o;
        tile->access = part->access;
        if (part->access == FY_ACCESS_INOUT && fy_plan_on_device(planner) &&
            fy_device_call_only_reads(bound->model, bound->function, o)) {
            tile->access = FY_ACCESS_IN;
        }
        tile->naxes = part->naxes;
        for (unsigned k = 0; k < part->naxes; k++) {
            tile->n[k] = part->extent[k];
            tile->device_stride[k] = part->stride[k];
            if (k < operands[o].naxes &&
                part->extent[k] != chunk->n[operands[o].axes[k].axis]) {
                return FY_ERR_UNSUPPORTED;
            }
        }
        if (turned >> o & 1) {
            if (part->naxes != 2 || operands[o].at != FY_NIL) {
                return FY_ERR_UNSUPPORTED;
            }
            bool columns = llabs(part->stride[0]) <= llabs(part->stride[1]);
            tile->device_stride[0] = columns ? part->extent[1] : 1;
            tile->device_stride[1] = columns ? 1 : part->extent[0];
        }
        /* A read-only operand may not be written by a part of it. */
        if ((part->access & ~whole->access) != 0 &&
            !(part->access == FY_ACCESS_INOUT &&
              whole->access == FY_ACCESS_OUT)) {
            return FY_ERR_UNSUPPORTED;
        }
        at_bytes[o] = (int64_t)((uint64_t)(uintptr_t)part->host -
                                scope->cells[operands[o].base].p);
        tile_of[o] = variant->ntiles++;
    }
    return FY_OK;
}

/* The operand whose base is `cell' and that has a tile, or -1. */
static int
operand_at(const struct fy_bound *bound, uint32_t cell, const int *tile_of)
{
    const struct fy_operand *operands = FY_OF(bound, fy_operand, operands);
    int found = -1;

    for (unsigned o = 0; o < bound->function->noperands; o++) {
        if (operands[o].base != cell || tile_of[o] < 0) {
            continue;
        }
        if (found >= 0) {
            return -2; /* two tiles behind one pointer */
        }
        found = (int)o;
    }
    return found;
}

static bool
is_base(const struct fy_bound *bound, uint32_t cell)
{
    const struct fy_operand *operands = FY_OF(bound, fy_operand, operands);

    for (unsigned o = 0; o < bound->function->noperands; o++) {
        if (operands[o].base == cell) {
            return true;
        }
    }
    return false;
}

struct chunk_call {
    const struct fy_bound *bound;
    const struct fy_value *cells;
    const int *tile_of;
    const int64_t *at_bytes;
    uint64_t inactive;
    struct fy_variant *variant;
    int image_of[FY_MAX_ARGS];
};

/* The caller's struct behind argument `arg', copied once. */
static int
chunk_image(struct chunk_call *chunk_call, unsigned arg, struct fy_image **out)
{
    struct fy_variant *variant = chunk_call->variant;

    if (chunk_call->image_of[arg] < 0) {
        const struct fy_cell *cells = FY_OF(chunk_call->bound, fy_cell, cells);
        uint32_t least = 0;
        if (variant->nimages == FY_MAX_IMAGES) {
            return FY_ERR_UNSUPPORTED;
        }
        for (unsigned c = 0; c < chunk_call->bound->function->ncells; c++) {
            uint32_t end = cells[c].offset +
                           fy_type_bytes((enum fy_type)cells[c].type, 64);
            if (cells[c].kind == FY_CELL_FIELD && cells[c].arg == arg &&
                end > least) {
                least = end;
            }
        }
        struct fy_image *image = &variant->images[variant->nimages];
        const struct fy_arg *args = FY_OF(chunk_call->bound, fy_arg, args);
        if (args[arg].struct_bytes > least) {
            least = args[arg].struct_bytes;
        }
        if (least > FY_IMAGE_BYTES) {
            return FY_ERR_UNSUPPORTED;
        }
        if (fy_read_mapped(chunk_call->bound->args[arg].p, image->content,
                           least, FY_IMAGE_BYTES)) {
            return FY_ERR_UNSUPPORTED;
        }
        chunk_call->image_of[arg] = variant->nimages++;
    }
    *out = &variant->images[chunk_call->image_of[arg]];
    return FY_OK;
}

/* Whether more than the first scalar behind argument `arg' is read. */
static bool
has_fields(const struct fy_bound *bound, unsigned arg)
{
    const struct fy_cell *cells = FY_OF(bound, fy_cell, cells);

    for (unsigned i = 0; i < bound->function->ncells; i++) {
        if (cells[i].arg == arg && cells[i].kind == FY_CELL_FIELD) {
            return true;
        }
    }
    return false;
}

/* Whether the call writes the field that cell `c' reads. */
static bool
is_written_field(const struct fy_bound *bound, unsigned c)
{
    const struct fy_cell *cells = FY_OF(bound, fy_cell, cells);

    for (unsigned i = 0; i < bound->function->ncells; i++) {
        if (cells[i].kind == FY_CELL_ADDRESS && cells[i].arg == cells[c].arg &&
            cells[i].offset == cells[c].offset && is_base(bound, i)) {
            return true;
        }
    }
    return false;
}

/* A place of an image that belongs to the tile of operand `o'. */
static int
chunk_patch(struct chunk_call *chunk_call, const struct fy_cell *cell,
            unsigned o, uint32_t bytes)
{
    struct fy_variant *variant = chunk_call->variant;

    if (variant->npatches == FY_MAX_PATCHES) {
        return FY_ERR_UNSUPPORTED;
    }
    variant->patches[variant->npatches++] = (struct fy_patch){
        .image = (uint8_t)chunk_call->image_of[cell->arg],
        .tile = (uint8_t)chunk_call->tile_of[o],
        .at = cell->offset,
        .bytes = bytes,
        .offset = -chunk_call->at_bytes[o],
    };
    return FY_OK;
}

/* Puts one cell's value of this chunk where the callee will look for it. */
static int
chunk_cell(struct chunk_call *chunk_call, unsigned c)
{
    const struct fy_bound *bound = chunk_call->bound;
    const struct fy_cell *cell = &FY_OF(bound, fy_cell, cells)[c];
    struct fy_slot *slot = &chunk_call->variant->slots[cell->arg];
    enum fy_type type =
        fy_type_resolve((enum fy_type)cell->type, bound->integer_bits);
    bool base = is_base(bound, c);
    int o = base ? operand_at(bound, c, chunk_call->tile_of) : -1;
    struct fy_value value = chunk_call->cells[c];
    struct fy_image *image;
    int status;

    if (o == -2) {
        return FY_ERR_UNSUPPORTED;
    }
    if (base && o < 0 && chunk_call->inactive) {
        value.p = chunk_call->inactive;
    }
    /* *n beside n[1]: an array of scalars, which is copied as a struct is. */
    switch (cell->kind == FY_CELL_REFERENCE && has_fields(bound, cell->arg)
                ? FY_CELL_FIELD
                : cell->kind) {
    case FY_CELL_VALUE:
        if (o >= 0) {
            slot->kind = FY_SLOT_TILE;
            slot->tile = (uint8_t)chunk_call->tile_of[o];
            slot->offset = -chunk_call->at_bytes[o];
        } else {
            fy_raw_store(type, &value, &slot->value);
        }
        return FY_OK;
    case FY_CELL_REFERENCE:
        if (o >= 0) {
            return FY_ERR_UNSUPPORTED;
        }
        slot->kind = FY_SLOT_REFERENCE;
        fy_raw_store(type, &value, &slot->value);
        slot->given = slot->value;
        return FY_OK;
    case FY_CELL_FIELD:
    case FY_CELL_ADDRESS:
        status = chunk_image(chunk_call, cell->arg, &image);
        if (status) {
            return status;
        }
        slot->kind = FY_SLOT_STRUCT;
        slot->image = (uint32_t)chunk_call->image_of[cell->arg];
        if (cell->kind == FY_CELL_ADDRESS) {
            const struct fy_view *view = &bound->views[o < 0 ? 0 : o];
            return o < 0 ? FY_OK
                         : chunk_patch(chunk_call, cell, (unsigned)o,
                                       (uint32_t)view->extent[0] *
                                           view->element_bytes);
        }
        if (value.kind == FY_V_INT && value.i != bound->cells[c].i &&
            is_written_field(bound, c)) {
            return FY_ERR_UNSUPPORTED; /* the chunk's extent, and a result */
        }
        fy_raw_store(type, &value, image->content + cell->offset);
        return o >= 0 ? chunk_patch(chunk_call, cell, (unsigned)o, 0) : FY_OK;
    default: /* HANDLE: the callee reads the plan; `on host' passes it */
        return FY_OK;
    }
}

static int
chunk_arguments(struct chunk_call *chunk_call)
{
    const struct fy_bound *bound = chunk_call->bound;
    const struct fy_function *function = bound->function;
    const struct fy_arg *args = FY_OF(bound, fy_arg, args);
    struct fy_variant *variant = chunk_call->variant;

    variant->nslots = function->nargs;
    variant->of_itself = true;
    for (unsigned i = 0; i < function->nargs; i++) {
        chunk_call->image_of[i] = -1;
        variant->slots[i] = (struct fy_slot){
            .kind = FY_SLOT_VALUE,
            .type = (uint8_t)fy_arg_passed_type(&args[i], bound->integer_bits),
            .value = bound->args[i],
        };
    }
    for (unsigned c = 0; c < function->ncells; c++) {
        int status = chunk_cell(chunk_call, c);
        if (status) {
            return status;
        }
    }
    fy_variant_add_lengths(variant, args, function->nargs);
    return FY_OK;
}

/* One argument of an `on host' call: a tile's address or a number. */
static int
host_argument(struct chunk_call *chunk_call, const struct fy_scope *scope,
              uint32_t node, struct fy_slot *slot)
{
    const struct fy_bound *bound = chunk_call->bound;
    const struct fy_node *nodes = FY_TABLE(bound->model, fy_node, nodes);
    const struct fy_node *row = &nodes[node];
    struct fy_value value;
    int o = -1;

    while (row->op == FY_OP_COND) { /* between addresses, too */
        bool first;
        if (fy_eval_bool(scope, row->a, &first)) {
            return FY_ERR_UNSUPPORTED;
        }
        node = first ? row->b : row->c;
        row = &nodes[node];
    }
    uint32_t cell = fy_eval_bare_cell(scope, node);
    if (row->op == FY_OP_ADDRESS && row->a < bound->function->noperands) {
        o = chunk_call->tile_of[row->a] >= 0 ? (int)row->a : -1;
        cell = FY_OF(bound, fy_operand, operands)[row->a].base;
    } else if (cell != FY_NIL) {
        o = operand_at(bound, cell, chunk_call->tile_of);
        if (o == -2) {
            return FY_ERR_UNSUPPORTED;
        }
    }
    slot->kind = FY_SLOT_VALUE;
    if (o >= 0) {
        slot->kind = FY_SLOT_TILE;
        slot->type = FY_T_POINTER;
        slot->tile = (uint8_t)chunk_call->tile_of[o];
        slot->offset = -chunk_call->at_bytes[o];
        return FY_OK;
    }
    if (row->op == FY_OP_ADDRESS) {
        value = chunk_call->cells[cell];
    } else if (fy_eval(scope, node, &value)) {
        return FY_ERR_UNSUPPORTED;
    }
    slot->type = value.kind == FY_V_INT       ? FY_T_I64
                 : value.kind == FY_V_REAL    ? FY_T_F64
                 : value.kind == FY_V_POINTER ? FY_T_POINTER
                                              : FY_T_C64;
    if (cell != FY_NIL &&
        (value.kind == FY_V_REAL || value.kind == FY_V_COMPLEX)) {
        /* As the caller has passed it: a float is no double. */
        slot->type = FY_OF(bound, fy_cell, cells)[cell].type;
    }
    fy_raw_store((enum fy_type)slot->type, &value, &slot->value);
    return FY_OK;
}

/* `on host f(...)': arguments by the call's own expressions. */
static int
chunk_host_call(struct chunk_call *chunk_call, const struct fy_scope *scope,
                const struct fy_target *target)
{
    const struct fy_bound *bound = chunk_call->bound;
    const struct fy_call_row *row =
        &FY_TABLE(bound->model, fy_call_row, calls)[bound->function->host_call];
    const char *name = fy_model_string(bound->model, row->function);
    struct fy_variant *variant = chunk_call->variant;

    if (!target->sibling || row->nargs > FY_MAX_ARGS) {
        return FY_ERR_UNSUPPORTED;
    }
    variant->function = target->sibling(target->original, name);
    if (!variant->function) {
        return FY_ERR_UNSUPPORTED;
    }
    variant->nslots = (uint16_t)row->nargs;
    for (unsigned i = 0; i < row->nargs; i++) {
        variant->slots[i] = (struct fy_slot){0};
        int status =
            host_argument(chunk_call, scope, row->args[i], &variant->slots[i]);
        if (status) {
            return status;
        }
    }
    return FY_OK;
}

/* Where an operand of the chunk is, for a function of the device's own. */
static int
device_operand(void *state, unsigned o, struct fy_slot *slot)
{
    const struct chunk_call *chunk_call = state;

    if (o >= chunk_call->bound->function->noperands) {
        return FY_ERR_UNSUPPORTED;
    }
    slot->kind = FY_SLOT_TILE;
    if (chunk_call->tile_of[o] < 0) {
        /* The operand is not accessed (alpha = 0). Libraries of vendors do not
         * promise that, and there is little to compute. */
        return FY_ERR_UNSUPPORTED;
    }
    slot->tile = (uint8_t)chunk_call->tile_of[o];
    slot->offset = -chunk_call->at_bytes[o];
    return FY_OK;
}

/* ... and how its elements lie, for a kernel that walks them itself. */
static const struct fy_tile *
device_tile(void *state, unsigned o, uint8_t *number)
{
    const struct chunk_call *chunk_call = state;

    if (o >= chunk_call->bound->function->noperands ||
        chunk_call->tile_of[o] < 0) {
        return NULL;
    }
    *number = (uint8_t)chunk_call->tile_of[o];
    return &chunk_call->variant->tiles[chunk_call->tile_of[o]];
}

static int
chunk_device_call(struct chunk_call *chunk_call, struct fy_planner *planner,
                  const struct fy_scope *scope)
{
    const struct fy_device_operands operands = {chunk_call, device_operand,
                                                device_tile};
    const struct fy_operand *rows =
        FY_OF(chunk_call->bound, fy_operand, operands);

    const bool ints = fy_device_call_takes_ints(chunk_call->bound->model,
                                                chunk_call->bound->function);

    for (unsigned o = 0; o < chunk_call->bound->function->noperands; o++) {
        struct fy_view *view = &planner->views[o];
        if (!ints || chunk_call->tile_of[o] < 0 ||
            rows[o].element != FY_T_INTEGER ||
            chunk_call->bound->integer_bits == 32) {
            continue;
        }
        /* cuSOLVER's pivots are 32-bit also where the caller's are 64-bit:
         * cuSOLVER reads the low halves. The high halves of results would stay
         * unset. */
        if (view->access != FY_ACCESS_IN || view->naxes != 1) {
            return FY_ERR_UNSUPPORTED;
        }
        if (view->element_bytes == 8) {
            view->element_bytes = 4;
            view->stride[0] *= 2;
        }
    }
    return fy_device_call(planner, scope, &operands, chunk_call->variant);
}

int
fy_chunk_call_self(struct fy_planner *planner, const struct fy_chunk *chunk,
                   struct fy_variant **out)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_function *function = bound->function;
    const struct fy_axis *axes = FY_OF(bound, fy_axis, axes);
    struct fy_value cells[FY_MAX_CELLS];
    int tile_of[FY_MAX_OPERANDS] = {0};
    int64_t at_bytes[FY_MAX_OPERANDS] = {0};
    struct fy_scope scope = {bound->model, function, bound->cells,
                             bound->extents};
    struct chunk_call chunk_call = {.bound = bound,
                                    .cells = cells,
                                    .tile_of = tile_of,
                                    .at_bytes = at_bytes,
                                    .inactive =
                                        planner->options.inactive_address};
    int status;

    memcpy(cells, bound->cells, sizeof(cells[0]) * function->ncells);
    for (unsigned a = 0; a < function->naxes; a++) {
        if (chunk->n[a] != bound->extents[a]) {
            cells[bound->axis_cell[a]].i = chunk->n[a];
            for (unsigned i = 0; i < FY_MAX_ALSO; i++) {
                if (axes[a].also[i] != FY_NIL) {
                    cells[axes[a].also[i]].i = chunk->n[a];
                }
            }
        }
        if (chunk->later & 1u << a) {
            struct fy_value with;
            if (fy_eval(&scope, axes[a].with_node, &with)) {
                return FY_ERR_UNSUPPORTED;
            }
            struct fy_value *cell = &cells[axes[a].with_cell];
            if (cell->kind == FY_V_INT && with.kind == FY_V_INT) {
                cell->i = with.i;
            } else if (cell->kind == FY_V_REAL && with.kind != FY_V_COMPLEX) {
                cell->r = with.kind == FY_V_INT ? (double)with.i : with.r;
            } else if (cell->kind == FY_V_COMPLEX) {
                cell->r = with.kind == FY_V_INT ? (double)with.i : with.r;
                cell->im = with.kind == FY_V_COMPLEX ? with.im : 0;
            } else {
                return FY_ERR_UNSUPPORTED;
            }
        }
    }
    scope.cells = cells;
    scope.extents = chunk->n;
    status = pack_or_keep(planner, &scope, cells);
    if (status) {
        return status;
    }

    struct fy_variant *variant = calloc(1, sizeof(*variant));
    if (!variant) {
        return FY_ERR_NOMEM;
    }
    chunk_call.variant = variant;
    variant->function = planner->target->original;
    variant->return_type = (uint8_t)fy_type_resolve(
        (enum fy_type)function->return_type, bound->integer_bits);
    status = chunk_tiles(planner, chunk, &scope, variant, tile_of, at_bytes);
    if (status == FY_OK) {
        status = fy_plan_on_device(planner)
                     ? chunk_device_call(&chunk_call, planner, &scope)
                 : function->host_call == FY_NIL
                     ? chunk_arguments(&chunk_call)
                     : chunk_host_call(&chunk_call, &scope, planner->target);
    }
    if (status) {
        fy_variant_free(variant);
        return status;
    }
    *out = variant;
    return FY_OK;
}
