/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operators and functions of expressions, one row each, and the walk over
 * the parts of a node. Compiler, checks, printers and evaluators read these rows.
 * Plain data and pure functions without libc: any thread, after fork, in signal
 * handlers. Nodes and operators come from a valid model unless a comment says
 * otherwise.
 */
#ifndef FERRY_ANNOTATIONS_MODEL_OPERATORS_H
#define FERRY_ANNOTATIONS_MODEL_OPERATORS_H

#include <stdbool.h>
#include <stdint.h>

#include "annotations/model/model.h"

/* Notation of an operator. */
enum fy_notation {
    FY_NOTATION_OWN, /* its own way; see enum fy_op */
    FY_NOTATION_PREFIX,
    FY_NOTATION_INFIX,
    FY_NOTATION_CALL, /* word(a, ...) */
};

/* Result of comparing two numbers. */
enum fy_relation {
    FY_LESS = 1 << 0,
    FY_EQUAL = 1 << 1,
    FY_GREATER = 1 << 2,
    FY_UNORDERED = 1 << 3, /* a NaN among them */
};

struct fy_operator {
    char word[4];     /* "" where enum fy_op has no operator */
    uint8_t notation; /* enum fy_notation */
    uint8_t arity;    /* a, b, c: so many of them are nodes */
    /*
     * Comparisons: the relations that make it true. min and max: those whose
     * result is the left side. 0: the operator does not compare.
     */
    uint8_t holds;
    bool is_truth; /* the result is 0 or 1 */
    bool is_cheap; /* may stand in `worth', which a thunk computes */
};

struct fy_math_row {
    char word[12];
    uint8_t arity;
    bool is_exact; /* correctly rounded everywhere */
};

extern const struct fy_operator fy_operators[FY_OP_COUNT];
extern const struct fy_math_row fy_maths[FY_MATH_COUNT];

/*
 * Returns the number of operands among a, b, c of any bytes: 0 if they are no
 * operator. The extent of an axis, which FY_OP_EXTENT stands for, does not
 * count.
 */
unsigned fy_node_arity(const struct fy_node *node);

/*
 * Visits a node and all below it, parts after their parent, shared ones each
 * time; ends with false as soon as a visit does. The depth is the expression's.
 */
bool fy_node_walk(const struct fy_node *nodes, uint32_t index,
                  bool (*visit)(const struct fy_node *node, void *state),
                  void *state);

static inline bool
fy_is_comparison(unsigned op)
{
    return fy_operators[op].holds != 0 && fy_operators[op].is_truth;
}

static inline bool
fy_holds(unsigned op, enum fy_relation relation)
{
    return (fy_operators[op].holds & relation) != 0;
}

static inline enum fy_relation
fy_relation_of_integers(int64_t a, int64_t b)
{
    return a < b ? FY_LESS : a > b ? FY_GREATER : FY_EQUAL;
}

static inline enum fy_relation
fy_relation_of_reals(double a, double b)
{
    return a < b    ? FY_LESS
           : a > b  ? FY_GREATER
           : a == b ? FY_EQUAL
                    : FY_UNORDERED;
}

#endif
