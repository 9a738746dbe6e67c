/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An algorithm as a loop nest over blocks, in text:
 *
 *   nest     := { "for" ["any"] outer "," inner "," step body ["down" body] }
 *   body     := "{" { when ":" routine "(" [factor] operand { "," operand } ");" } "}"
 *   when     := variable ("=" | "!" | "<" | ">") variable { ... }, as in `i > j = k'
 *   factor   := "-" | "a" (alpha) | "c" (alpha, its conjugate in Hermitian ones)
 *   operand  := ["="] matrix ["[" variable ["," variable] "]"] ["'"]
 *
 * "=": it is overwritten, not added to. "'": the adjoint. Without a variable: the first
 * block, as much of it as block k has.
 *
 * A call's last operand is what it writes. i, j and k are blocks along the first
 * dimension, o along the second, l and s along the third. Macro-blocks of rows i and
 * columns j, o or s are walked with `outer' outside; with i and j, those of the lower
 * triangle. For each macro-block, every step makes, block by block, the calls whose
 * `when' holds; the steps of the macro-block's own rows go row by row. `any': the steps
 * are a sum, whose order is free. `down': i and k count from the last block. A second
 * body follows the first before `outer' goes on.
 *
 * One text serves every call. It is written for the left side and for a lower triangle
 * of A: for the right side rows and columns change places. Of a triangle, a block that
 * is not stored is the adjoint of the one across, and a call that would write there is
 * replaced by its adjoint. A matrix that the call says is transposed is so as a whole.
 */
#ifndef FERRY_PAGER_BLOCKED_NEST_H
#define FERRY_PAGER_BLOCKED_NEST_H

#include "pager/blocked/algo.h"

/* A := X^H X of the lower triangle X; `diagonal' does that for A[k,k]. */
#define FY_NEST_SQUARE(diagonal)                   \
    "for i, j, k {"                                \
    "  k = i > j: trmm(A[k,k]', A[k,j]);" diagonal \
    "  k > i = j: syrk(A[k,i]', A[i,i]);"          \
    "  k > i > j: gemm(A[k,i]', A[k,j], A[i,j]);"  \
    "}"

enum {
    FY_MAX_NEST_CALLS = 9,
    FY_NEST_VARIABLES = 'z' + 1
};

struct fy_nest_operand {
    char matrix;   /* 0: not accessed */
    char row, col; /* variables, or 0 */
    bool adjoint, fresh;
};

struct fy_nest_call {
    char when[8]; /* without blanks */
    char factor;  /* '+': none */
    uint8_t routine;
    uint8_t noperands;
    struct fy_nest_operand operands[3];
};

struct fy_nest_body {
    bool down;
    unsigned ncalls;
    struct fy_nest_call calls[FY_MAX_NEST_CALLS];
};

struct fy_nest {
    bool any;
    char outer, inner, step;
    unsigned nbodies;
    struct fy_nest_body bodies[2];
};

/* Where a walk is: positions by variable, from the last block where `reversed'. */
struct fy_nest_place {
    uint32_t at[FY_NEST_VARIABLES];
    bool reversed;
};

unsigned fy_nest_dimension(char variable);
/* Whether the call's own transposition is that matrix's. */
bool fy_nest_is_turnable(const struct fy_algo *algo, char matrix);
/* Makes the steps of a nest; algo->row->shapes is of its matrices. */
int fy_nest_run(struct fy_algo *algo, const char *text) FY_MUST_CHECK;
/* Reads one loop and moves *text behind it; false: malformed. */
bool fy_nest_read(const struct fy_algo *algo, const char **text,
                  struct fy_nest *out) FY_MUST_CHECK;
/* One call. `first': its result has its value of before the call, which beta scales. */
int fy_nest_call(struct fy_algo *algo, const struct fy_nest_call *call,
                 const struct fy_nest_place *place, bool first) FY_MUST_CHECK;

#endif
