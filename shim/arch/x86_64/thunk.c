/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of thunks and stubs (thunk.h), and the argument order of the System
 * V AMD64 ABI. Tool side: no host program runs this file, only its output.
 */
#include "config.h"

#include "shim/arch/x86_64/thunk.h"

#include <string.h>

#include "shim/arch/x86_64/layout.h"
#include "shim/image/image.h"

enum {
    TAIL_BYTES = 64, /* of a thunk, after its body */
};

#define CODE(code, bytes) fy_code_add(code, bytes, sizeof(bytes) - 1)

void
fy_code_add(struct fy_code *code, const char *bytes, size_t count)
{
    if (count > code->capacity - code->used) {
        code->overflowed = true;
        return;
    }
    memcpy(code->bytes + code->used, bytes, count);
    code->used += count;
}

void
fy_code_add32(struct fy_code *code, uint32_t value)
{
    char bytes[4];
    memcpy(bytes, &value, sizeof bytes);
    fy_code_add(code, bytes, sizeof bytes);
}

void
fy_code_add64(struct fy_code *code, uint64_t value)
{
    char bytes[8];
    memcpy(bytes, &value, sizeof bytes);
    fy_code_add(code, bytes, sizeof bytes);
}

void
fy_code_depth(struct fy_code *code, unsigned depth, unsigned reg, unsigned slot)
{
    if (!code->rows) {
        return;
    }
    if (code->nrows == code->row_capacity) {
        code->overflowed = true;
        return;
    }
    code->rows[code->nrows++] =
        (struct fy_code_row){.offset = (uint32_t)code->used,
                             .depth = (uint8_t)depth,
                             .reg = (uint8_t)reg,
                             .slot = (uint8_t)slot};
}

/* with int3 */
static void
align(struct fy_code *code, size_t to)
{
    while (code->used % to && !code->overflowed) {
        CODE(code, "\xcc");
    }
}

/* A 32-bit offset from its own end, plus `after' bytes, to `address'. */
static void
add_relative(struct fy_code *code, uint64_t address, unsigned after)
{
    uint64_t end = code->address + code->used + 4 + after;
    fy_code_add32(code, (uint32_t)(address - end));
}

void
fy_code_patch(struct fy_code *code, size_t at)
{
    if (code->overflowed) {
        return;
    }
    uint32_t distance = (uint32_t)(code->used - (at + 4));
    memcpy(code->bytes + at, &distance, sizeof distance);
}

/* ---- arguments ---------------------------------------------------------- */

struct abi {
    unsigned integers, vectors, words;
};

static struct fy_place
take(struct abi *abi, const struct fy_arg *arg)
{
    unsigned type = arg->type, vectors = 0, words = 1;
    if (!(arg->flags & FY_ARG_REFERENCE)) {
        vectors = type == FY_T_F32 || type == FY_T_F64 || type == FY_T_C32;
        if (type == FY_T_C64) {
            vectors = words = 2;
        }
    }
    if (vectors && abi->vectors + vectors <= 8) {
        abi->vectors += vectors;
        return (struct fy_place){FY_IN_VECTOR, abi->vectors - vectors};
    }
    if (!vectors && abi->integers < 6) {
        return (struct fy_place){FY_IN_INTEGER, abi->integers++};
    }
    abi->words += words;
    return (struct fy_place){FY_ON_STACK, abi->words - words};
}

struct fy_place
fy_abi_place(const struct fy_model *model, const struct fy_function *function,
             unsigned arg)
{
    const struct fy_arg *args = FY_TABLE(model, fy_arg, args) + function->args;
    struct abi abi = {0, 0, 0};
    struct fy_place place = {FY_ON_STACK, 0};
    for (unsigned i = 0; i <= arg; i++) {
        place = take(&abi, &args[i]);
    }
    return place;
}

unsigned
fy_abi_stack_words(const struct fy_model *model,
                   const struct fy_function *function)
{
    const struct fy_arg *args = FY_TABLE(model, fy_arg, args) + function->args;
    static const struct fy_arg length = {.type = FY_T_U64};
    struct abi abi = {0, 0, 0};
    for (unsigned i = 0; i < function->nargs; i++) {
        (void)take(&abi, &args[i]);
    }
    for (unsigned i = 0; i < function->nargs; i++) {
        if (args[i].flags & FY_ARG_HIDDEN_LENGTH) {
            (void)take(&abi, &length);
        }
    }
    return abi.words;
}

/* ---- thunks --------------------------------------------------------------- */

static void
emit_accept(struct fy_code *code, const struct fy_thunk_targets *targets)
{
    CODE(code, "\x58"); /* pop %rax */
    fy_code_depth(code, 8, 0, 0);
    CODE(code, "\xe9"); /* jmp accept */
    add_relative(code, targets->accept, 0);
}

/*
 * One variant of the function after the other: a call that is worth it for any
 * of them is for the engine. False when the code cannot say so.
 */
static bool
emit_predicates(struct fy_code *code, const struct fy_model *model,
                const struct fy_symbol *row,
                const struct fy_thunk_targets *targets)
{
    const struct fy_function *functions =
        FY_TABLE(model, fy_function, functions);
    CODE(code, "\xf6\x05"); /* testb $1, mode(%rip) */
    add_relative(code, targets->mode, 1);
    CODE(code, "\x01\x0f\x84"); /* jz other */
    add_relative(code, targets->other, 0);
    for (uint32_t i = row->function; i != FY_NIL;
         i = functions[i].next_variant) {
        struct fy_predicate predicate = {.model = model,
                                         .function = &functions[i],
                                         .integer_bits = row->integer_bits,
                                         .pushed = 1};
        if (functions[i].worth == FY_NIL ||
            fy_predicate_emit(code, &predicate) != 0) {
            return false;
        }
        fy_predicate_pop(code, &predicate);
        CODE(code, "\xe9"); /* jmp past the other end */
        size_t no = code->used;
        fy_code_add32(code, 0);
        for (unsigned k = 0; k < predicate.yes.count; k++) {
            fy_code_patch(code, predicate.yes.at[k]);
        }
        fy_predicate_pop(code, &predicate);
        emit_accept(code, targets);
        fy_code_patch(code, no);
        fy_code_depth(code, 16, 0, 0);
    }
    CODE(code, "\x58"); /* pop %rax */
    fy_code_depth(code, 8, 0, 0);
    CODE(code, "\x41\xff\x63\x10"); /* jmp *16(%r11) */
    _Static_assert(FY_BINDING_TARGET == 0x10, "the jump above");
    return !code->overflowed;
}

static void
emit_body(struct fy_code *code, const struct fy_model *model, uint32_t symbol,
          const struct fy_thunk_targets *targets, bool *has_predicate)
{
    size_t start = code->used;
    /* The tail must fit behind the body. */
    struct fy_code body = *code;
    body.capacity -= body.capacity < TAIL_BYTES ? body.capacity : TAIL_BYTES;
    *has_predicate = emit_predicates(
        &body, model, FY_TABLE(model, fy_symbol, symbols) + symbol, targets);
    if (*has_predicate) {
        code->used = body.used;
        code->nrows = body.nrows;
        return;
    }
    code->used = start;
    CODE(code, "\xe9"); /* jmp other: it looks at the mode */
    add_relative(code, targets->other, 0);
}

int
fy_thunk_emit(struct fy_code *code, const struct fy_model *model,
              uint32_t symbol, const struct fy_thunk_targets *targets,
              size_t *bound, bool *has_predicate)
{
    size_t to_miss[2];
    CODE(code, "\x50"); /* push %rax */
    fy_code_depth(code, 16, 0, 0);
    CODE(code, "\x4c\x8b\x1d"); /* mov slot(%rip), %r11 */
    add_relative(code, targets->slot, 0);
    CODE(code, "\x4d\x85\xdb\x0f\x84"); /* test %r11, %r11; jz miss */
    to_miss[0] = code->used;
    fy_code_add32(code, 0);
    CODE(code, "\x48\x8b\x44\x24\x08" /* mov 8(%rsp), %rax */
               "\x49\x2b\x03"         /* sub (%r11), %rax */
               "\x49\x3b\x43\x08"     /* cmp 8(%r11), %rax */
               "\x0f\x83");           /* jae miss */
    _Static_assert(FY_BINDING_LOW == 0 && FY_BINDING_SIZE == 8, "see above");
    to_miss[1] = code->used;
    fy_code_add32(code, 0);
    size_t entry = code->used;
    emit_body(code, model, symbol, targets, has_predicate);
    fy_code_patch(code, to_miss[0]);
    fy_code_patch(code, to_miss[1]);
    fy_code_depth(code, 16, 0, 0);
    CODE(code, "\x41\xbb"); /* mov $symbol, %r11d */
    fy_code_add32(code, symbol);
    CODE(code, "\xe9"); /* jmp miss */
    add_relative(code, targets->miss, 0);
    align(code, 16);
    *bound = entry;
    return code->overflowed ? FY_ERR_OVERFLOW : 0;
}

void
fy_stub_emit(struct fy_code *code, uint64_t cell)
{
    CODE(code, "\x50\x4c\x8b\x1d"); /* push %rax; mov cell(%rip), %r11 */
    add_relative(code, cell, 0);
    CODE(code, "\x41\xff\x63\x18"); /* jmp *24(%r11) */
    _Static_assert(FY_BINDING_BOUND == 0x18 && FY_STUB_BYTES == 16,
                   "the jump above");
    align(code, FY_STUB_BYTES);
}
