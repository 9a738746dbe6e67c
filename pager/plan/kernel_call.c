/* SPDX-License-Identifier: Apache-2.0 */
/* See kernel_call.h. */
#include "config.h"

#include "pager/plan/kernel_call.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)FY_KERNEL_PARAMS <= (int)FY_MAX_SLOTS, "one each");

/* Compiled or found; the variant's slots and grid are filled. */
static int
get_kernel(struct fy_planner *planner, const char *text, const char *file,
           const char *entry, bool fmad, struct fy_variant *variant)
{
    const struct fy_plan_options *options = &planner->options;
    uint8_t types[FY_MAX_SLOTS];
    struct fy_kernel_program program = {.text = text,
                                        .file = file,
                                        .entry = entry,
                                        .fmad = fmad,
                                        .nargs = variant->nslots,
                                        .types = types};

    if (!options->ops->kernel) {
        return FY_ERR_UNSUPPORTED;
    }
    for (unsigned i = 0; i < variant->nslots; i++) {
        types[i] = variant->slots[i].type;
    }
    variant->is_kernel = true;
    variant->return_type = FY_T_VOID;
    return options->ops->kernel(options->device, &program, &variant->function);
}

/* ---- the user's ---- */

/* A number in the type that the kernel takes; NOFIT when it does not fit. */
static int
convert(enum fy_type type, struct fy_slot *slot)
{
    const struct fy_value value =
        fy_raw_value((enum fy_type)slot->type, &slot->value);
    const bool is_real = type == FY_T_F32 || type == FY_T_F64;
    union fy_raw raw = {{0, 0}};

    fy_raw_store(type, &value, &raw);
    const struct fy_value passed = fy_raw_value(type, &raw);
    if (!is_real && (value.kind != FY_V_INT ||
                     (passed.kind == FY_V_INT && passed.i != value.i) ||
                     (type == FY_T_U64 && value.i < 0))) {
        return FY_ERR_NOFIT;
    }
    slot->value = raw;
    slot->type = (uint8_t)type;
    return FY_OK;
}

/* One number of grid or block; an absent one is 1. */
static int
number_of(const struct fy_scope *scope, uint32_t node, int64_t low,
          int64_t high, uint32_t *out)
{
    int64_t value = low;

    if (node != FY_NIL && fy_eval_int(scope, node, &value)) {
        return FY_ERR_UNSUPPORTED;
    }
    if (value > high) {
        return FY_ERR_NOFIT;
    }
    if (value < low) {
        return FY_ERR_UNSUPPORTED;
    }
    *out = (uint32_t)value;
    return FY_OK;
}

static int
fill_grid(const struct fy_scope *scope, const struct fy_kernel_row *kernel,
          struct fy_grid *out)
{
    uint64_t threads = 1;
    int status = number_of(scope, kernel->shared, 0, FY_SHARED_BYTES_MAX,
                           &out->shared_bytes);

    for (unsigned i = 0; i < 3 && status == FY_OK; i++) {
        status =
            number_of(scope, kernel->grid[i], 1,
                      i == 0 ? FY_GRID_X_MAX : FY_GRID_YZ_MAX, &out->grid[i]);
        if (status == FY_OK) {
            status = number_of(scope, kernel->block[i], 1,
                               i == 2 ? FY_BLOCK_Z_MAX : FY_BLOCK_MAX,
                               &out->block[i]);
            threads *= out->block[i];
        }
    }
    return status == FY_OK && threads > FY_BLOCK_MAX ? FY_ERR_NOFIT : status;
}

int
fy_kernel_step(struct fy_planner *planner, const struct fy_scope *scope,
               const struct fy_call_row *row, struct fy_variant *variant)
{
    const struct fy_model *model = scope->model;
    const struct fy_kernel_row *kernel =
        &FY_TABLE(model, fy_kernel_row, kernels)[row->kernel];
    int status = fill_grid(scope, kernel, &variant->grid);

    for (unsigned i = 0; i < variant->nslots && status == FY_OK; i++) {
        if (variant->slots[i].kind == FY_SLOT_VALUE) {
            status = convert((enum fy_type)row->to[i], &variant->slots[i]);
        }
    }
    if (status) {
        return status;
    }
    return get_kernel(planner, fy_model_string(model, kernel->text),
                      fy_model_string(model, kernel->file),
                      fy_model_string(model, row->function), true, variant);
}

/* ---- maps ---- */

/* The value of a scalar parameter, in the whole call. FY_ERR_UNSUPPORTED. */
static int
scalar_of(const struct fy_bound *bound, const struct fy_kernel_param *param,
          union fy_raw *out)
{
    const struct fy_scope scope = {bound->model, bound->function, bound->cells,
                                   bound->extents};
    struct fy_value value;

    if (fy_eval(&scope, param->node, &value) || value.kind == FY_V_COMPLEX ||
        value.kind == FY_V_POINTER ||
        (value.kind == FY_V_REAL) !=
            (param->type == FY_T_F32 || param->type == FY_T_F64)) {
        return FY_ERR_UNSUPPORTED;
    }
    memset(out, 0, sizeof(*out));
    fy_raw_store((enum fy_type)param->type, &value, out);
    return FY_OK;
}

/* The step's operands as buffers of a kernel, and the space that it walks. */
struct map {
    struct fy_map_part part;
    struct fy_kernel_buffer buffers[FY_MAX_OPERANDS];
    uint8_t tiles[FY_MAX_OPERANDS]; /* of each buffer */
    struct fy_kernel_shape shape;
};

static void
add_strides(const struct fy_operand *target, const struct fy_operand *operand,
            const struct fy_tile *tile, int64_t *strides)
{
    for (unsigned k = 0; k < target->naxes; k++) {
        strides[k] = 0;
        for (unsigned j = 0; j < operand->naxes && j < tile->naxes; j++) {
            if (operand->axes[j].axis == target->axes[k].axis) {
                strides[k] = tile->device_stride[j];
            }
        }
    }
}

static int
map_operands(const struct fy_bound *bound, const struct fy_call_row *row,
             const struct fy_device_operands *operands, struct map *map)
{
    const struct fy_operand *rows = FY_OF(bound, fy_operand, operands);
    const struct fy_operand *target = &rows[row->to[0]];
    struct fy_kernel_shape *shape = &map->shape;
    uint8_t number;
    const struct fy_tile *tile =
        operands->tile(operands->state, row->to[0], &number);

    if (!tile || tile->naxes != target->naxes ||
        target->naxes > FY_KERNEL_AXES) {
        return FY_ERR_UNSUPPORTED;
    }
    shape->naxes = target->naxes;
    memcpy(shape->extent, tile->n, sizeof(tile->n[0]) * tile->naxes);
    for (unsigned o = 0; o < bound->function->noperands; o++) {
        map->part.buffer[o] = FY_NO_BUFFER;
        if (rows[o].access == FY_ACCESS_SCRATCH) {
            continue;
        }
        tile = operands->tile(operands->state, o, &number);
        if (!tile) {
            continue;
        }
        unsigned b = shape->nbuffers++;
        map->part.buffer[o] = (uint8_t)b;
        map->tiles[b] = number;
        map->buffers[b].type = (uint8_t)fy_type_resolve(
            (enum fy_type)rows[o].element, bound->integer_bits);
        map->buffers[b].store = true;
        add_strides(target, &rows[o], tile, shape->stride[b]);
    }
    for (uint32_t k = 0; k < row->nargs; k++) {
        if (map->part.buffer[row->to[k]] == FY_NO_BUFFER) {
            return FY_ERR_UNSUPPORTED;
        }
    }
    return FY_OK;
}

static int
map_slots(const struct fy_bound *bound, const struct map *map,
          const struct fy_kernel_text *kernel, struct fy_variant *variant)
{
    variant->nslots = (uint16_t)kernel->nparams;
    for (unsigned i = 0; i < kernel->nparams; i++) {
        const struct fy_kernel_param *param = &kernel->params[i];
        struct fy_slot *slot = &variant->slots[i];
        int status = FY_OK;
        *slot = (struct fy_slot){.kind = FY_SLOT_VALUE, .type = param->type};
        switch (param->kind) {
        case FY_PARAM_EXTENT:
            slot->value.i = map->shape.extent[param->axis];
            break;
        case FY_PARAM_STRIDE:
            slot->value.i = map->shape.stride[param->buffer][param->axis];
            break;
        case FY_PARAM_BUFFER:
            slot->kind = FY_SLOT_TILE;
            slot->tile = map->tiles[param->buffer];
            break;
        default:
            status = scalar_of(bound, param, &slot->value);
            break;
        }
        if (status) {
            return status;
        }
    }
    return FY_OK;
}

int
fy_map_step(struct fy_planner *planner, const struct fy_call_row *row,
            const struct fy_device_operands *operands,
            struct fy_variant *variant)
{
    const struct fy_bound *bound = planner->bound;
    struct fy_kernel_text kernel;
    struct map map;
    int status;

    if (!operands->tile) {
        return FY_ERR_UNSUPPORTED; /* a part of another function's call */
    }
    memset(&map, 0, sizeof(map));
    map.part.model = bound->model;
    map.part.function = bound->function;
    map.part.row = row;
    map.part.integer_bits = bound->integer_bits;
    status = map_operands(bound, row, operands, &map);
    if (status) {
        return status;
    }
    fy_kernel_simplify(&map.shape);
    fy_kernel_grid(&map.shape, variant->grid.grid, variant->grid.block);
    status = fy_kernel_generate(&map.part, 1, map.buffers, map.shape.nbuffers,
                                map.shape.naxes, &kernel);
    if (status) {
        return status;
    }
    status = map_slots(bound, &map, &kernel, variant);
    if (status == FY_OK) {
        status =
            get_kernel(planner, kernel.text,
                       fy_model_string(bound->model, bound->function->name),
                       FY_KERNEL_ENTRY, kernel.fmad, variant);
    }
    free(kernel.text);
    return status;
}
