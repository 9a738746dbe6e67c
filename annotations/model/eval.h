/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates the expressions of a compiled annotation over the values of one
 * call's cells. No allocation, no libc call that could take a lock, bounded
 * depth: safe from any thread and in signal handlers.
 */
#ifndef FERRY_ANNOTATIONS_MODEL_EVAL_H
#define FERRY_ANNOTATIONS_MODEL_EVAL_H

#include <stdbool.h>

#include "annotations/model/model.h"
#include "common/status.h"

enum fy_value_kind {
    FY_V_INT,
    FY_V_REAL,
    FY_V_COMPLEX,
    FY_V_POINTER
};

struct fy_value {
    uint8_t kind; /* enum fy_value_kind; a char is FY_V_INT */
    int64_t i;    /* INT */
    double r, im; /* REAL (r), COMPLEX */
    uint64_t p;   /* POINTER */
};

/* One call, or one chunk of it: the numbers its expressions stand for. */
struct fy_scope {
    const struct fy_model *model;
    const struct fy_function *function;
    const struct fy_value *cells; /* function->ncells values */
    const int64_t *extents;       /* function->naxes values, or NULL */
};

/*
 * The value of `node'. FY_ERR_OVERFLOW when an integer operation leaves 63
 * bits, FY_ERR_INVALID on division by zero or a malformed model; `out' is set
 * on success only.
 */
int fy_eval(const struct fy_scope *scope, uint32_t node,
            struct fy_value *out) FY_MUST_CHECK;

/*
 * Each is fy_eval() and a conversion: to an integer (FY_ERR_INVALID: not exact), to
 * a real number (FY_ERR_INVALID: no number), to its truth.
 */
int fy_eval_int(const struct fy_scope *scope, uint32_t node,
                int64_t *out) FY_MUST_CHECK;
int fy_eval_real(const struct fy_scope *scope, uint32_t node,
                 double *out) FY_MUST_CHECK;
int fy_eval_bool(const struct fy_scope *scope, uint32_t node,
                 bool *out) FY_MUST_CHECK;

/*
 * The cell that `node' is in this scope, following conditionals and lets down
 * the branch taken: "ta ? lda : 1" gives lda's cell when ta holds. FY_NIL when
 * it is anything but a bare cell.
 */
uint32_t fy_eval_bare_cell(const struct fy_scope *scope, uint32_t node);

/* Bytes of one value of a type; 0 for void. integer_bits is 32 or 64. */
uint32_t fy_type_bytes(enum fy_type type, unsigned integer_bits);

#endif
