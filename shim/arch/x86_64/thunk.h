/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emits x86-64 code: the thunk of a symbol with its compiled `worth', and the
 * stubs of the pool. Runs in the tool that generates the preloaded object,
 * never in a host program. Encodings: Intel SDM volume 2.
 */
#ifndef FERRY_SHIM_ARCH_THUNK_H
#define FERRY_SHIM_ARCH_THUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "annotations/model/model.h"
#include "common/status.h"

enum {
    FY_CODE_MAX_DEPTH = 120, /* bytes; predicates have few registers */
};

/*
 * From an offset of code on, so many bytes lie between rsp and the caller's; and
 * a register (its number in DWARF, 0: none) that the caller may count on has its
 * value `slot' words below the caller's rsp, or (0) where it belongs.
 */
struct fy_code_row {
    uint32_t offset;
    uint8_t depth, reg, slot;
};

/* Code in the making; stops, and remembers, at the end of its room. */
struct fy_code {
    uint8_t *bytes; /* borrowed */
    size_t capacity, used;
    bool overflowed;
    uint64_t address; /* where bytes[0] will be */
    /* For unwinders, borrowed; NULL: no rows are kept. */
    struct fy_code_row *rows;
    unsigned row_capacity, nrows;
};

/* The place of an argument when the function is entered (System V AMD64
 * ABI). */
struct fy_place {
    enum fy_place_kind {
        FY_IN_INTEGER,
        FY_IN_VECTOR,
        FY_ON_STACK
    } kind;
    unsigned index; /* register, in argument order; or word of the stack */
};

/* The place of argument `arg', relative to the function's args. */
struct fy_place fy_abi_place(const struct fy_model *model,
                             const struct fy_function *function, unsigned arg);

/* Words of stack that the arguments take, hidden lengths included. */
unsigned fy_abi_stack_words(const struct fy_model *model,
                            const struct fy_function *function);

/*
 * Appends code that jumps to one of the two ends: `yes' when the function's
 * `worth' holds, or cannot be known (overflow, a null reference), else falls
 * through. On entry rax is free, r11 must stay, and `pushed' words lie between
 * rsp and the return address. FY_ERR_UNSUPPORTED, with nothing appended, for
 * expressions other than integer arithmetic on scalar arguments.
 *
 * The jumps to `yes' are collected in `fixups' (offsets of 32-bit fields).
 */
struct fy_fixups {
    size_t at[256];
    unsigned count;
    bool overflowed;
};
struct fy_predicate {
    const struct fy_model *model;
    const struct fy_function *function;
    unsigned integer_bits; /* 32, 64, or 0: unknown, taken as 32 */
    unsigned pushed;
    unsigned scratch;     /* out: registers pushed beyond rax */
    struct fy_fixups yes; /* out */
};
int fy_predicate_emit(struct fy_code *code,
                      struct fy_predicate *predicate) FY_MUST_CHECK;

/* Pops the registers that the predicate pushed; called at each end of the
 * predicate, with rsp as the predicate left it. */
void fy_predicate_pop(struct fy_code *code,
                      const struct fy_predicate *predicate);

/* Everything a thunk refers to, as addresses in the same space as code's. */
struct fy_thunk_targets {
    uint64_t mode, slot, miss, other, accept;
};

/*
 * Appends the thunk of symbol row `symbol'; *bound gets the offset in `code'
 * of its second entry, *has_predicate whether its `worth' was compiled.
 */
int fy_thunk_emit(struct fy_code *code, const struct fy_model *model,
                  uint32_t symbol, const struct fy_thunk_targets *targets,
                  size_t *bound, bool *has_predicate) FY_MUST_CHECK;

/* Appends a stub: enters the thunk of the binding stored at `cell'. */
void fy_stub_emit(struct fy_code *code, uint64_t cell);

/* ---- bytes ------------------------------------------------------------- */

void fy_code_add(struct fy_code *code, const char *bytes, size_t count);
void fy_code_add32(struct fy_code *code, uint32_t value);
void fy_code_add64(struct fy_code *code, uint64_t value);
/* Records that the code from here on runs at that stack depth, with that
 * register (struct fy_code_row). */
void fy_code_depth(struct fy_code *code, unsigned depth, unsigned reg,
                   unsigned slot);
/* Points the 32-bit field at `at' to the current end. */
void fy_code_patch(struct fy_code *code, size_t at);

#endif
