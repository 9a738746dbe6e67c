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
    if (front->string_bytes.count == 0) {
        front->string_bytes.count = 1; /* offset 0 is "" */
    }
    if (front->string_bytes.capacity - front->string_bytes.count < bytes ||
        front->string_bytes.capacity == 0) {
        size_t capacity = (front->string_bytes.capacity + bytes) * 2 + 4096;
        char *larger = fy_arena_alloc(&front->arena, capacity);
        if (front->string_bytes.row) {
            memcpy(larger, front->string_bytes.row, front->string_bytes.count);
        }
        front->string_bytes.row = larger;
        front->string_bytes.capacity = capacity;
    }
    entry->value = front->string_bytes.count;
    memcpy(front->string_bytes.row + front->string_bytes.count, text, bytes);
    front->string_bytes.count += bytes;
    return (fy_str)entry->value;
}

static int
by_name(const void *a, const void *b)
{
    const struct fy_unit_symbol *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* A table of the model, and its rows; NULL: they are filled in one by one. */
struct table {
    struct fy_table *table;
    const void *rows;
    size_t count, bytes;
};

static uint64_t
place(const struct table *tables, size_t n, uint64_t at)
{
    for (size_t i = 0; i < n; i++) {
        at = (at + 7) & ~UINT64_C(7);
        tables[i].table->offset = (uint32_t)at;
        tables[i].table->count = (uint32_t)tables[i].count;
        at += (uint64_t)tables[i].count * tables[i].bytes;
    }
    return (at + 7) & ~UINT64_C(7);
}

static void
fill_functions(struct fy_front *front, struct fy_model *model)
{
    struct fy_function *functions =
        (void *)((char *)model + model->functions.offset);
    struct fy_arg *args = (void *)((char *)model + model->args.offset);
    struct fy_cell *cells = (void *)((char *)model + model->cells.offset);
    uint32_t nargs = 0, ncells = 0;
    for (size_t i = 0; i < front->units.count; i++) {
        const struct fy_unit *unit = front->units.row[i];
        functions[i] = unit->row;
        functions[i].args = nargs;
        functions[i].cells = ncells;
        functions[i].ncells = (uint16_t)unit->cells.count;
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
        if (unit->cells.count) {
            memcpy(cells + ncells, unit->cells.row,
                   unit->cells.count * sizeof *cells);
        }
        ncells += (uint32_t)unit->cells.count;
    }
}

static void
fill_symbols(struct fy_front *front, struct fy_model *model)
{
    struct fy_symbol *symbols = (void *)((char *)model + model->symbols.offset);
    for (size_t i = 0; i < front->symbol_rows.count; i++) {
        const struct fy_unit_symbol *from = &front->symbol_rows.row[i];
        symbols[i].name = fy_intern(front, from->name);
        symbols[i].function = from->unit;
        symbols[i].integer_bits = from->integer_bits;
        symbols[i].spelling = from->spelling;
    }
}

#define ROWS(name)                                      \
    {                                                   \
        &head.name, front->name.row, front->name.count, \
            sizeof *front->name.row                     \
    }

struct fy_model *
fy_emit(struct fy_front *front)
{
    struct fy_model head;
    size_t nargs = 0, ncells = 0;
    memset(&head, 0, sizeof head);
    memcpy(head.magic, FY_MODEL_MAGIC, sizeof head.magic);
    head.version = FY_MODEL_VERSION;
    if (front->symbol_rows.count) {
        qsort(front->symbol_rows.row, front->symbol_rows.count,
              sizeof *front->symbol_rows.row, by_name);
    }
    /* All strings must be known before the string table is laid out. */
    for (size_t i = 0; i < front->symbol_rows.count; i++) {
        (void)fy_intern(front, front->symbol_rows.row[i].name);
    }
    for (size_t i = 0; i < front->units.count; i++) {
        const struct fy_unit *unit = front->units.row[i];
        nargs += unit->row.nargs;
        ncells += unit->cells.count;
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
    if (front->string_bytes.count == 0) {
        front->string_bytes.row = fy_arena_alloc(&front->arena, 1);
        front->string_bytes.count = 1;
    }
    const struct table tables[] = {
        {&head.symbols, NULL, front->symbol_rows.count,
         sizeof(struct fy_symbol)},
        {&head.functions, NULL, front->units.count, sizeof(struct fy_function)},
        {&head.args, NULL, nargs, sizeof(struct fy_arg)},
        {&head.cells, NULL, ncells, sizeof(struct fy_cell)},
        ROWS(nodes),
        ROWS(lets),
        ROWS(requires),
        ROWS(axes),
        ROWS(operands),
        ROWS(calls),
        ROWS(kernels),
        {&head.strings, front->string_bytes.row, front->string_bytes.count, 1},
    };
    const size_t ntables = sizeof tables / sizeof *tables;
    const uint64_t bytes = place(tables, ntables, sizeof head);
    if (bytes > UINT32_MAX) {
        return NULL;
    }
    head.size_bytes = (uint32_t)bytes;
    struct fy_model *model = calloc(1, bytes);
    if (!model) {
        return NULL;
    }
    *model = head;
    fill_symbols(front, model);
    fill_functions(front, model);
    for (size_t i = 0; i < ntables; i++) {
        if (tables[i].rows && tables[i].count) {
            memcpy((char *)model + tables[i].table->offset, tables[i].rows,
                   tables[i].count * tables[i].bytes);
        }
    }
    model->content_hash = fy_model_hash(model);
    return model;
}
