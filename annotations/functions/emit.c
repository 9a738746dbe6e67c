/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last phase: sorts the symbols and lays all tables out in one block.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/functions/compile.h"

fy_str
fy_intern(struct fy_front *front, const char *text)
{
    int is_new;
    if (text[0] == '\0') {
        return 0;
    }
    struct fy_map_entry *entry =
        fy_map_add(&front->arena, &front->strings, text, &is_new);
    if (!is_new) {
        return (fy_str)entry->value;
    }
    size_t bytes = strlen(text) + 1;
    if (front->nstring_bytes == 0) {
        front->nstring_bytes = 1; /* offset 0 is "" */
    }
    if (front->string_capacity - front->nstring_bytes < bytes ||
        front->string_capacity == 0) {
        size_t capacity = (front->string_capacity + bytes) * 2 + 4096;
        char *larger = fy_arena_alloc(&front->arena, capacity);
        if (front->string_bytes) {
            memcpy(larger, front->string_bytes, front->nstring_bytes);
        }
        front->string_bytes = larger;
        front->string_capacity = capacity;
    }
    entry->value = front->nstring_bytes;
    memcpy(front->string_bytes + front->nstring_bytes, text, bytes);
    front->nstring_bytes += bytes;
    return (fy_str)entry->value;
}

static int
by_name(const void *a, const void *b)
{
    const struct fy_unit_symbol *x = a, *y = b;
    return strcmp(x->name, y->name);
}

struct layout {
    uint64_t bytes;
};

static void
place(struct layout *layout, struct fy_table *table, size_t count, size_t bytes)
{
    layout->bytes = (layout->bytes + 7) & ~UINT64_C(7);
    table->offset = (uint32_t)layout->bytes;
    table->count = (uint32_t)count;
    layout->bytes += (uint64_t)count * bytes;
}

static void
fill(struct fy_model *model, const struct fy_table *table, const void *rows,
     size_t bytes)
{
    if (table->count) {
        memcpy((char *)model + table->offset, rows, table->count * bytes);
    }
}

static void
fill_functions(struct fy_front *front, struct fy_model *model)
{
    struct fy_function *functions =
        (void *)((char *)model + model->functions.offset);
    struct fy_arg *args = (void *)((char *)model + model->args.offset);
    struct fy_cell *cells = (void *)((char *)model + model->cells.offset);
    uint32_t nargs = 0, ncells = 0;
    for (size_t i = 0; i < front->nunits; i++) {
        const struct fy_unit *unit = front->units[i];
        functions[i] = unit->row;
        functions[i].args = nargs;
        functions[i].cells = ncells;
        functions[i].ncells = (uint16_t)unit->ncells;
        for (uint16_t k = 0; k < unit->row.nargs; k++) {
            const struct fy_unit_arg *arg = &unit->args[k];
            args[nargs].name = fy_intern(front, arg->name);
            args[nargs].type = arg->resolved.type;
            args[nargs].pointee = arg->resolved.pointee;
            args[nargs].flags = arg->flags;
            if (arg->resolved.layout) {
                args[nargs].struct_bytes = arg->resolved.layout->bytes;
                args[nargs].fields =
                    fy_intern(front, fy_layout_text(front, arg));
            }
            args[nargs++].handle = arg->resolved.handle
                                       ? fy_intern(front, arg->resolved.handle)
                                       : 0;
        }
        if (unit->ncells) {
            memcpy(cells + ncells, unit->cells, unit->ncells * sizeof *cells);
        }
        ncells += (uint32_t)unit->ncells;
    }
}

static void
fill_symbols(struct fy_front *front, struct fy_model *model)
{
    struct fy_symbol *symbols = (void *)((char *)model + model->symbols.offset);
    for (size_t i = 0; i < front->nsymbols; i++) {
        const struct fy_unit_symbol *from = &front->symbol_rows[i];
        symbols[i].name = fy_intern(front, from->name);
        symbols[i].function = from->unit;
        symbols[i].integer_bits = from->integer_bits;
        symbols[i].spelling = from->spelling;
    }
}

struct fy_model *
fy_emit(struct fy_front *front)
{
    struct fy_model head;
    struct layout layout = {sizeof head};
    size_t nargs = 0, ncells = 0;
    memset(&head, 0, sizeof head);
    memcpy(head.magic, FY_MODEL_MAGIC, sizeof head.magic);
    head.version = FY_MODEL_VERSION;
    if (front->nsymbols) {
        qsort(front->symbol_rows, front->nsymbols, sizeof *front->symbol_rows,
              by_name);
    }
    /* All strings must be known before the string table is laid out. */
    for (size_t i = 0; i < front->nsymbols; i++) {
        (void)fy_intern(front, front->symbol_rows[i].name);
    }
    for (size_t i = 0; i < front->nunits; i++) {
        const struct fy_unit *unit = front->units[i];
        nargs += unit->row.nargs;
        ncells += unit->ncells;
        for (uint16_t k = 0; k < unit->row.nargs; k++) {
            (void)fy_intern(front, unit->args[k].name);
            if (unit->args[k].resolved.handle) {
                (void)fy_intern(front, unit->args[k].resolved.handle);
            }
            if (unit->args[k].resolved.layout) {
                (void)fy_intern(front, fy_layout_text(front, &unit->args[k]));
            }
        }
    }
    if (front->nstring_bytes == 0) {
        front->string_bytes = fy_arena_alloc(&front->arena, 1);
        front->nstring_bytes = 1;
    }
    place(&layout, &head.symbols, front->nsymbols, sizeof(struct fy_symbol));
    place(&layout, &head.functions, front->nunits, sizeof(struct fy_function));
    place(&layout, &head.args, nargs, sizeof(struct fy_arg));
    place(&layout, &head.cells, ncells, sizeof(struct fy_cell));
    place(&layout, &head.nodes, front->nnodes, sizeof(struct fy_node));
    place(&layout, &head.lets, front->nlets, sizeof(struct fy_let));
    place(&layout, &head.requires, front->nrequires, sizeof(struct fy_require));
    place(&layout, &head.axes, front->naxes, sizeof(struct fy_axis));
    place(&layout, &head.operands, front->noperands, sizeof(struct fy_operand));
    place(&layout, &head.calls, front->ncalls, sizeof(struct fy_call_row));
    place(&layout, &head.kernels, front->nkernels,
          sizeof(struct fy_kernel_row));
    place(&layout, &head.strings, front->nstring_bytes, 1);
    layout.bytes = (layout.bytes + 7) & ~UINT64_C(7);
    if (layout.bytes > UINT32_MAX) {
        return NULL;
    }
    head.size_bytes = (uint32_t)layout.bytes;
    struct fy_model *model = calloc(1, layout.bytes);
    if (!model) {
        return NULL;
    }
    *model = head;
    fill_symbols(front, model);
    fill_functions(front, model);
    fill(model, &head.nodes, front->nodes, sizeof(struct fy_node));
    fill(model, &head.lets, front->lets, sizeof(struct fy_let));
    fill(model, &head.requires, front->requires, sizeof(struct fy_require));
    fill(model, &head.axes, front->axes, sizeof(struct fy_axis));
    fill(model, &head.operands, front->operands, sizeof(struct fy_operand));
    fill(model, &head.calls, front->calls, sizeof(struct fy_call_row));
    fill(model, &head.kernels, front->kernels, sizeof(struct fy_kernel_row));
    fill(model, &head.strings, front->string_bytes, 1);
    model->content_hash = fy_model_hash(model);
    return model;
}
