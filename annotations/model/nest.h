/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blocked algorithm: `blocked NAME { head loops }' of an annotation file. The compiler
 * checks the text and the pager runs it; both read it here.
 *
 *   head     := { clause ";" }
 *   clause   := "over" variable "<" size { "," variable "<" size }
 *             | matrix ["'"] "[" variable "," variable "]" { "," ... }
 *             | "tile" "B" "," "identity" "D" | "hermitian" | "needs" "regular" "A" | "leaves" ("regular" | "finite") "A"
 *   loops    := { "for" ["any"] outer "," inner "," step body ["down" body] }
 *   body     := "{" { [when ":"] function "(" [factor] operand { "," operand } ");" } "}"
 *   when     := variable ("=" | "!" | "<" | ">") variable { ... }, as in `i > j = k'
 *   factor   := "-" | "alpha" | "conj alpha" (its conjugate in Hermitian ones)
 *   operand  := ["="] matrix ["[" variable ["," variable] "]"] ["'"]
 *
 * In the head "over" gives the sizes that are cut, and "'" is on the matrices which the
 * call's own transposition is of. "hermitian": complex ones are, not symmetric. "needs":
 * A is divided by. "leaves": what A must be afterwards, or the original has the call.
 * "tile": B and D are as large as the largest block, B beside A and D the identity.
 *
 * In an operand "=": it is overwritten, not added to. "'": the adjoint. Without a
 * variable: the first block, as much of it as block k has.
 *
 * A call's last operand is what it writes. i, j and k are blocks along the first
 * dimension, o along the second, l and s along the third. Macro-blocks of rows i and
 * columns j, o or s are walked with `outer' outside; with i and j, those of the lower
 * triangle. For each macro-block, every step makes, block by block, the calls whose
 * `when' holds; the steps of the macro-block's own rows go row by row. `any': the steps
 * are a sum, whose order is free; of a triangle as many macro-blocks as fit go together.
 * `down': i and k count from the last block. A second body follows the first before
 * `outer' goes on.
 *
 * One text serves every call. It is written for the left side and for a lower triangle
 * of A: for the right side rows and columns change places. Of a triangle, a block that
 * is not stored is the adjoint of the one across, and a call that would write there is
 * replaced by its adjoint. A matrix that the call says is transposed is so as a whole.
 *
 * The pager's own algorithms have loops over panels, too: columns of full height, as
 * many at a time as fit.
 *
 *   loops    := "for" ["each"] panel "," step body { ("then" | "down") body }
 *   operand  := ["="] ["unit" | "upper"] matrix "[" [rows ","] column "]" ["'"]
 *   rows     := "k" | "k" ":" | "k" "+" ":" | ":" "k"
 *
 * j is a panel of A, s one of C, and k a step: the rows as high as panel k is wide, those
 * from there on, those below and those above. e is the last step. The operands are the
 * function's, in its order; a product's factor may be "0". A call without rows is none.
 * "each": one panel at a time. "unit", "upper": the triangle that a solve takes.
 *
 * Thread-safe: no function here keeps a state.
 */
#ifndef FERRY_ANNOTATIONS_MODEL_NEST_H
#define FERRY_ANNOTATIONS_MODEL_NEST_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FY_MAX_NEST_CALLS = 9,
    FY_NEST_VARIABLES = 'z' + 1,
};

struct fy_nest_operand {
    char matrix;   /* 0: not accessed */
    char row, col; /* variables, or 0 */
    bool adjoint, fresh;
    /* In a panel: */
    char
        rows; /* '=': those of the step; '>': from there on; 'v' below; '^' above */
    char triangle; /* '1': lower, unit; 'U': upper */
};

struct fy_nest_call {
    char when[8]; /* without blanks */
    char name[16];
    char factor;     /* '+': none */
    uint8_t routine; /* of the name: the pager's */
    uint8_t noperands;
    struct fy_nest_operand operands[3];
};

struct fy_nest_body {
    bool down;
    unsigned ncalls;
    struct fy_nest_call calls[FY_MAX_NEST_CALLS];
};

struct fy_nest {
    bool any, each;
    char outer, inner, step; /* inner 0: of panels */
    unsigned nbodies;
    struct fy_nest_body bodies[3];
};

/* Condition that a diagonal, or a whole matrix, must meet. */
enum fy_nest_leaves {
    FY_NEST_ANYTHING,
    FY_NEST_REGULAR, /* the diagonal: finite and not 0 */
    FY_NEST_FINITE,  /* all that is written */
};

struct fy_nest_head {
    bool hermitian, divides, tiles;
    uint8_t leaves;  /* enum fy_nest_leaves */
    char extents[4]; /* by dimension: the letter of its size */
    char shapes[24]; /* "A'il Cij": matrices, variables of rows and columns */
};

struct fy_nest_reader {
    const char *at;       /* text that is read next; after an error its place */
    const char *expected; /* there */
};

/* The whole, and that loops, indices and shapes agree. False: see below. */
bool fy_nest_check(struct fy_nest_reader *reader);
/* Reads the head, up to the first loop. False: malformed; `reader' has the
 * place and the reason. */
bool fy_nest_read_head(struct fy_nest_reader *reader, struct fy_nest_head *out);
/* One loop. Likewise. */
bool fy_nest_read(struct fy_nest_reader *reader, struct fy_nest *out);
/* Returns true if another loop follows. */
bool fy_nest_more(struct fy_nest_reader *reader);
/* The dimension, 0 to 2, that a variable counts the blocks of. */
unsigned fy_nest_dimension(char variable);

#endif
