/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that a block of bytes is a model, for blocks that come from a file.
 * Calls nothing and allocates nothing; its time is bounded whatever the bytes
 * are. Everything a reader may index is in range afterwards.
 */
#include "config.h"

#include <stdbool.h>
#include <stddef.h>

#include "annotations/model/annotations.h"
#include "annotations/model/eval.h"
#include "annotations/model/model.h"
#include "annotations/model/nest.h"
#include "annotations/model/operators.h"

enum {
    MAX_TOTAL_STEPS = 1 << 26
}; /* nodes visited, for the whole model */

struct check {
    const struct fy_model *model;
    const struct fy_function *function;
    uint32_t total_steps;
    unsigned steps; /* of the current root */
    bool in_extent; /* extents do not refer to extents */
    bool in_call;   /* addresses are allowed */
    bool on_device; /* ... and words and scalars by address, as a root */
    const struct fy_call_row *map; /* elements are allowed */
    uint32_t map_number;           /* ... and values of maps before this */
};

static bool
is_string(const struct check *check, fy_str s)
{
    return s < check->model->strings.count;
}

/* Rows first .. first + n - 1 are in the table. */
static bool
is_range(const struct fy_table *table, uint32_t first, uint32_t n)
{
    return first <= table->count && n <= table->count - first;
}

static bool
is_table(const struct fy_model *model, const struct fy_table *table,
         size_t row_bytes)
{
    return table->offset % 8 == 0 && table->offset >= sizeof *model &&
           table->offset <= model->size_bytes &&
           table->count <= (model->size_bytes - table->offset) / row_bytes;
}

static bool is_node(struct check *check, uint32_t index, unsigned depth);

/* The description of a plan: its nodes lie before the word's. */
static bool
is_cufft(struct check *check, uint32_t row, uint32_t index, unsigned depth)
{
    const struct fy_model *model = check->model;
    if (row >= model->calls.count) {
        return false;
    }
    const struct fy_call_row *call = &FY_TABLE(model, fy_call_row, calls)[row];
    bool good = call->nargs == FY_CUFFT_ARGUMENTS;
    for (uint32_t i = 0; good && i < FY_CUFFT_ARGUMENTS; i++) {
        good =
            call->args[i] == FY_NIL
                ? i != FY_CUFFT_BATCH && i != FY_CUFFT_N &&
                      i != FY_CUFFT_FROM && i != FY_CUFFT_FROM + 1 &&
                      i != FY_CUFFT_TO && i != FY_CUFFT_TO + 1
                : call->args[i] < index && is_node(check, call->args[i], depth);
    }
    return good;
}

static bool
is_node(struct check *check, uint32_t index, unsigned depth)
{
    const struct fy_model *model = check->model;
    if (index >= model->nodes.count || depth >= FY_MAX_NODE_DEPTH ||
        ++check->steps > FY_MAX_NODE_STEPS ||
        ++check->total_steps > MAX_TOTAL_STEPS) {
        return false;
    }
    const struct fy_node *node = &FY_TABLE(model, fy_node, nodes)[index];
    const uint32_t parts[3] = {node->a, node->b, node->c};
    if (node->op >= FY_OP_COUNT || node->type >= FY_T_COUNT) {
        return false;
    }
    const unsigned nparts = fy_node_arity(node);
    for (unsigned i = 0; i < nparts; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): arity <= 3 */
        if (parts[i] >= index || !is_node(check, parts[i], depth + 1)) {
            return false;
        }
    }
    switch (node->op) {
    case FY_OP_CELL:
        return node->a < check->function->ncells;
    case FY_OP_ADDRESS:
        return check->in_call && node->a < check->function->noperands &&
               node->b <= (check->on_device ? 1 : 0);
    case FY_OP_WORD:
        return check->on_device && depth == 0 && node->a > FY_WORD_NONE &&
               node->a < FY_WORD_COUNT && is_string(check, node->b) &&
               (node->a == FY_WORD_WORKSPACE) == (node->b != 0) &&
               (node->a != FY_WORD_CUFFT ||
                is_cufft(check, node->c, index, depth + 1));
    case FY_OP_SCALAR:
        return check->on_device && depth == 0;
    case FY_OP_ELEMENT:
        return check->map && node->a < check->function->noperands;
    case FY_OP_VALUE:
        return check->map && node->a < check->map_number;
    case FY_OP_MATH:
        return check->map && node->u.i >= 0 && node->u.i < FY_MATH_COUNT;
    case FY_OP_IN:
        return is_string(check, node->b);
    case FY_OP_EXTENT: { /* is_axis() lets none refer to another */
        const struct fy_axis *axes =
            FY_TABLE(model, fy_axis, axes) + check->function->axes;
        return !check->in_extent && node->a < check->function->naxes &&
               is_node(check, axes[node->a].extent, depth + 1);
    }
    default:
        return true;
    }
}

static bool
is_root(struct check *check, uint32_t node)
{
    check->steps = 0;
    return is_node(check, node, 0);
}

static bool
is_root_or_nil(struct check *check, uint32_t node)
{
    return node == FY_NIL || is_root(check, node);
}

static bool
is_cell(const struct check *check, const struct fy_cell *cell)
{
    const struct fy_model *model = check->model;
    if (!is_string(check, cell->name) || cell->arg >= check->function->nargs ||
        cell->type >= FY_T_COUNT || cell->pointee >= FY_T_COUNT ||
        cell->kind > FY_CELL_ADDRESS) {
        return false;
    }
    if (cell->kind != FY_CELL_HANDLE) {
        return cell->offset < (1U << 30);
    }
    if (cell->maker >= model->functions.count) {
        return false;
    }
    const struct fy_function *maker =
        &FY_TABLE(model, fy_function, functions)[cell->maker];
    if (cell->offset >= maker->ncells ||
        !is_range(&model->cells, maker->cells, maker->ncells)) {
        return false;
    }
    return FY_TABLE(model, fy_cell, cells)[maker->cells + cell->offset].kind !=
           FY_CELL_HANDLE;
}

static bool
is_axis(struct check *check, const struct fy_axis *axis)
{
    const struct fy_function *function = check->function;
    check->in_extent = true;
    bool good = is_root(check, axis->extent);
    check->in_extent = false;
    for (unsigned i = 0; i < FY_MAX_ALSO; i++) {
        good = good &&
               (axis->also[i] == FY_NIL || axis->also[i] < function->ncells);
    }
    return good && is_string(check, axis->name) && axis->multiple >= 1 &&
           axis->flags <= (FY_AXIS_SPLIT | FY_AXIS_SUMS | FY_AXIS_RETURN) &&
           (axis->sums_into != FY_NIL || !(axis->flags & FY_AXIS_SUMS)) &&
           (axis->cell == FY_NIL || axis->cell < function->ncells) &&
           (axis->sums_into == FY_NIL ||
            axis->sums_into < function->noperands) &&
           (axis->with_cell == FY_NIL || (axis->with_cell < function->ncells &&
                                          is_root(check, axis->with_node)));
}

static bool
is_operand(struct check *check, const struct fy_operand *operand)
{
    const struct fy_function *function = check->function;
    if (!is_string(check, operand->name) || operand->base >= function->ncells ||
        fy_type_bytes(operand->element, 32) == 0 ||
        operand->access < FY_ACCESS_IN || operand->access > FY_ACCESS_SCRATCH ||
        operand->naxes > FY_MAX_OPERAND_AXES || operand->sign < -1 ||
        operand->sign > 1 || operand->flags >= FY_OPERAND_FINITE << 1 ||
        (operand->sign != 0 && operand->naxes < 2)) {
        return false;
    }
    const struct fy_cell *cells = FY_OF(check, fy_cell, cells);
    if (cells[operand->base].type != FY_T_POINTER) {
        return false;
    }
    for (unsigned i = 0; i < operand->naxes; i++) {
        if (operand->axes[i].axis >= function->naxes ||
            !is_root(check, operand->axes[i].stride)) {
            return false;
        }
    }
    return is_root_or_nil(check, operand->at) &&
           is_root_or_nil(check, operand->lo) &&
           is_root_or_nil(check, operand->hi) &&
           is_root_or_nil(check, operand->when) &&
           is_root_or_nil(check, operand->out_when) &&
           is_root_or_nil(check, operand->in_when) &&
           is_root_or_nil(check, operand->finite_lo) &&
           is_root_or_nil(check, operand->finite_hi) &&
           is_root_or_nil(check, operand->returns);
}

static bool
is_map(struct check *check, const struct fy_call_row *call)
{
    bool good = call->nargs > 0;
    check->map = call;
    for (uint32_t i = 0; good && i < call->nargs; i++) {
        check->map_number = i;
        good = call->to[i] < check->function->noperands &&
               is_root(check, call->args[i]);
    }
    check->map = NULL;
    return good;
}

static bool
is_kernel(struct check *check, const struct fy_call_row *call)
{
    if (call->kernel >= check->model->kernels.count) {
        return false;
    }
    const struct fy_kernel_row *kernel =
        &FY_TABLE(check->model, fy_kernel_row, kernels)[call->kernel];
    bool good = is_string(check, kernel->file) &&
                is_string(check, kernel->text) &&
                is_root_or_nil(check, kernel->shared);
    for (unsigned i = 0; i < 3; i++) {
        good = good && is_root_or_nil(check, kernel->grid[i]) &&
               is_root_or_nil(check, kernel->block[i]);
    }
    for (uint32_t i = 0; i < call->nargs; i++) {
        good = good && call->to[i] < FY_T_COUNT;
    }
    return good;
}

/* One step; *next is the one behind it. */
static bool
is_step(struct check *check, uint32_t row, bool on_device, uint32_t *next)
{
    if (row >= check->model->calls.count) {
        return false;
    }
    const struct fy_call_row *call =
        &FY_TABLE(check->model, fy_call_row, calls)[row];
    if (!is_string(check, call->function) || call->nargs > FY_MAX_ARGS ||
        call->kind > FY_CALL_MAP || (!on_device && call->kind != 0) ||
        (call->next != FY_NIL && (!on_device || call->next <= row))) {
        return false;
    }
    *next = call->next;
    if (call->kind == FY_CALL_MAP) {
        return is_map(check, call);
    }
    if (call->kind == FY_CALL_KERNEL && !is_kernel(check, call)) {
        return false;
    }
    check->in_call = true;
    check->on_device = on_device;
    bool good = true;
    for (uint32_t i = 0; good && i < call->nargs; i++) {
        good = is_root(check, call->args[i]);
    }
    check->in_call = check->on_device = false;
    return good;
}

static bool
is_call(struct check *check, uint32_t row, bool on_device)
{
    bool good = true;
    while (good && row != FY_NIL) {
        good = is_step(check, row, on_device, &row);
    }
    return good;
}

/* A blocked algorithm, or none. */
static bool
is_nest(const struct check *check, fy_str text)
{
    if (text == 0 || !is_string(check, text)) {
        return text == 0;
    }
    struct fy_nest_reader reader = {.at = fy_model_string(check->model, text)};
    return fy_nest_check(&reader);
}

/* Everything of one function that does not need its tables. */
static bool
is_function_row(const struct check *check, uint32_t index)
{
    const struct fy_model *model = check->model;
    const struct fy_function *f = check->function;
    if (f->next_variant != FY_NIL &&
        (f->next_variant <= index ||
         f->next_variant >= model->functions.count)) {
        return false;
    }
    return is_string(check, f->name) && is_string(check, f->family) &&
           is_string(check, f->file) && is_string(check, f->blocked_by) &&
           is_string(check, f->blocked_using) &&
           is_nest(check, f->blocked_nest) && is_string(check, f->doc) &&
           f->return_type < FY_T_COUNT && f->return_rule <= FY_RETURN_MIN &&
           f->nargs <= FY_MAX_ARGS && f->ncells <= FY_MAX_CELLS &&
           f->naxes <= FY_MAX_AXES && f->noperands <= FY_MAX_OPERANDS &&
           is_range(&model->args, f->args, f->nargs) &&
           is_range(&model->cells, f->cells, f->ncells) &&
           is_range(&model->axes, f->axes, f->naxes) &&
           is_range(&model->operands, f->operands, f->noperands) &&
           is_range(&model->requires, f->requires, f->nrequires) &&
           is_range(&model->lets, f->lets, f->nlets);
}

static bool
is_function(struct check *check, uint32_t index)
{
    const struct fy_model *model = check->model;
    const struct fy_function *f =
        &FY_TABLE(model, fy_function, functions)[index];
    check->function = f;
    if (!is_function_row(check, index)) {
        return false;
    }
    const struct fy_arg *args = FY_TABLE(model, fy_arg, args) + f->args;
    for (uint16_t i = 0; i < f->nargs; i++) {
        if (!is_string(check, args[i].name) || args[i].type >= FY_T_COUNT ||
            args[i].pointee >= FY_T_COUNT ||
            !is_string(check, args[i].handle) ||
            !is_string(check, args[i].fields)) {
            return false;
        }
    }
    const struct fy_cell *cells = FY_TABLE(model, fy_cell, cells) + f->cells;
    for (uint16_t i = 0; i < f->ncells; i++) {
        if (!is_cell(check, &cells[i])) {
            return false;
        }
    }
    const struct fy_axis *axes = FY_TABLE(model, fy_axis, axes) + f->axes;
    for (uint16_t i = 0; i < f->naxes; i++) {
        if (!is_axis(check, &axes[i])) {
            return false;
        }
    }
    const struct fy_operand *operands =
        FY_TABLE(model, fy_operand, operands) + f->operands;
    for (uint16_t i = 0; i < f->noperands; i++) {
        if (!is_operand(check, &operands[i])) {
            return false;
        }
    }
    const struct fy_require *requires =
        FY_TABLE(model, fy_require, requires) + f->requires;
    for (uint16_t i = 0; i < f->nrequires; i++) {
        if (!is_root(check, requires[i].node) ||
            requires[i].reason >= FY_REASON_COUNT) {
            return false;
        }
    }
    const struct fy_let *lets = FY_TABLE(model, fy_let, lets) + f->lets;
    for (uint16_t i = 0; i < f->nlets; i++) {
        if (!is_string(check, lets[i].name) || !is_root(check, lets[i].node)) {
            return false;
        }
    }
    return is_root_or_nil(check, f->flops) && is_root_or_nil(check, f->worth) &&
           is_root_or_nil(check, f->error) &&
           is_call(check, f->host_call, false) &&
           is_call(check, f->cuda_call, true);
}

static bool
are_symbols(const struct check *check)
{
    const struct fy_model *model = check->model;
    const struct fy_symbol *symbols = FY_TABLE(model, fy_symbol, symbols);
    for (uint32_t i = 0; i < model->symbols.count; i++) {
        const struct fy_symbol *s = &symbols[i];
        if (!is_string(check, s->name) ||
            s->function >= model->functions.count ||
            (s->integer_bits != 0 && s->integer_bits != 32 &&
             s->integer_bits != 64)) {
            return false;
        }
        if (i > 0 &&
            fy_model_compare_names(fy_model_string(model, symbols[i - 1].name),
                                   fy_model_string(model, s->name)) >= 0) {
            return false;
        }
    }
    return true;
}

static bool
are_tables(const struct fy_model *model)
{
    if (!is_table(model, &model->symbols, sizeof(struct fy_symbol)) ||
        !is_table(model, &model->functions, sizeof(struct fy_function)) ||
        !is_table(model, &model->args, sizeof(struct fy_arg)) ||
        !is_table(model, &model->cells, sizeof(struct fy_cell)) ||
        !is_table(model, &model->nodes, sizeof(struct fy_node)) ||
        !is_table(model, &model->lets, sizeof(struct fy_let)) ||
        !is_table(model, &model->requires, sizeof(struct fy_require)) ||
        !is_table(model, &model->axes, sizeof(struct fy_axis)) ||
        !is_table(model, &model->operands, sizeof(struct fy_operand)) ||
        !is_table(model, &model->calls, sizeof(struct fy_call_row)) ||
        !is_table(model, &model->kernels, sizeof(struct fy_kernel_row)) ||
        !is_table(model, &model->strings, 1) || model->strings.count == 0) {
        return false;
    }
    const char *strings = (const char *)model + model->strings.offset;
    return strings[0] == '\0' && strings[model->strings.count - 1] == '\0';
}

int
fy_model_validate(const void *bytes, size_t nbytes)
{
    const struct fy_model *model = bytes;
    static const char magic[] = FY_MODEL_MAGIC;
    if (nbytes < sizeof *model || (uintptr_t)bytes % 8 != 0) {
        return FY_ERR_INVALID;
    }
    for (size_t i = 0; i < sizeof model->magic; i++) {
        if (model->magic[i] != magic[i]) {
            return FY_ERR_INVALID;
        }
    }
    if (model->version != FY_MODEL_VERSION || model->size_bytes > nbytes ||
        model->size_bytes < sizeof *model ||
        model->content_hash != fy_model_hash(model) || !are_tables(model)) {
        return FY_ERR_INVALID;
    }
    struct check check = {.model = model};
    if (!are_symbols(&check)) {
        return FY_ERR_INVALID;
    }
    for (uint32_t i = 0; i < model->functions.count; i++) {
        if (!is_function(&check, i)) {
            return FY_ERR_INVALID;
        }
    }
    return FY_OK;
}
