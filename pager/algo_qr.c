/* SPDX-License-Identifier: Apache-2.0 */
/*
 * geqrf and gels: A = Q R by panels of full height (algo_panels.c): every
 * finished panel applies its reflectors to the others. What comes out is
 * LAPACK's own layout, R and the reflectors of all columns in one order. For
 * gels right hand sides are panels that are not factored, and are solved with R;
 * what LAPACK scales (numbers near the ends of the range) or calls singular is
 * the original's.
 */
#include "config.h"

#include "pager/algo.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = FY_PANEL_ROWS,
    COLUMNS = FY_PANEL_COLUMNS,
    SIDES = FY_PANEL_SIDES,
    ONE = FY_PANEL_ONE,
    FACTORS = FY_PANEL_FACTORS
};
enum {
    FACTOR = 1,
    REFLECT,
    SOLVE,
    MULTIPLY
};
enum {
    WORK_COLUMNS = 64,   /* of LAPACK's blocks, and */
    WORK_TRIANGLE = 4160 /* of their triangular factors */
};

static bool
solves(const struct fy_algo *algo)
{
    return strchr(algo->row->signature, 'C') != NULL;
}

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * With m < n LAPACK makes A = L Q, for which devices have no function. For real
 * matrices that is the QR of A^T, stored in the same places; for complex ones
 * conjugates would have to be made.
 */
static int
turn(struct fy_algo *algo)
{
    const int64_t m = algo->m;

    if (algo->is_complex) {
        return FY_ERR_UNSUPPORTED;
    }
    algo->m = algo->n;
    algo->n = m;
    algo->transa = algo->transa == 'N' ? 'T' : 'N';
    algo->matrices[0].flipped = true;
    return FY_OK;
}

static int
setup(struct fy_algo *algo)
{
    struct fy_matrix *a = &algo->matrices[0], *tau = &algo->matrices[1],
                     *b = &algo->matrices[2];

    if (solves(algo) && algo->m < algo->n && turn(algo)) {
        return FY_ERR_UNSUPPORTED;
    }
    const int64_t factors = least(algo->m, algo->n);
    a->rows = algo->m;
    a->cols = algo->n;
    a->row_cuts = ROWS;
    a->col_cuts = COLUMNS;
    tau->rows = factors;
    tau->cols = 1;
    tau->ld = algo->turned ? 1 : factors;
    tau->row_cuts = FACTORS;
    tau->col_cuts = ONE;
    b->rows = algo->m;
    b->cols = algo->k;
    b->row_cuts = ROWS;
    b->col_cuts = SIDES;
    algo->extent[ROWS] = algo->m;
    algo->extent[COLUMNS] = algo->n;
    algo->extent[SIDES] = solves(algo) ? algo->k : 0;
    algo->extent[ONE] = 1;
    algo->extent[FACTORS] = factors;
    if (solves(algo)) {
        tau->access = FY_ACCESS_INOUT;
    }
    return FY_OK;
}

static char
adjoint(const struct fy_algo *algo)
{
    return algo->is_complex ? 'C' : 'T';
}

/* The reflectors of step k on a panel, from row k on. */
static int
reflect(struct fy_algo *algo, char matrix, uint32_t panel, uint32_t k,
        char trans)
{
    const int64_t row = fy_panel_start(algo, k);
    const struct fy_block blocks[3] = {fy_panel_part('A', k, row),
                                       {'B', k, 0, 0},
                                       fy_panel_part(matrix, panel, row)};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = REFLECT;
    call.side = 'L';
    call.transa = trans;
    call.m = algo->m - row;
    call.n = fy_panel_width(algo, matrix, panel);
    call.k = fy_algo_length(algo, FACTORS, k);
    call.access[0] = call.access[1] = FY_ACCESS_IN;
    call.access[2] = FY_ACCESS_INOUT;
    return fy_algo_call(algo, &call, blocks);
}

static int
reflect_adjoint(struct fy_algo *algo, char matrix, uint32_t panel, uint32_t k)
{
    return reflect(algo, matrix, panel, k, adjoint(algo));
}

static int
reflect_plain(struct fy_algo *algo, char matrix, uint32_t panel, uint32_t k)
{
    return reflect(algo, matrix, panel, k, 'N');
}

/* Rows of step k of a right hand side := R(k, k)^-1 or its adjoint times them. */
static int
divide(struct fy_algo *algo, uint32_t panel, uint32_t k, char trans)
{
    const int64_t row = fy_panel_start(algo, k);
    const struct fy_block blocks[3] = {fy_panel_part('A', k, row),
                                       fy_panel_part('C', panel, row)};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = SOLVE;
    call.side = 'L';
    call.uplo = 'U';
    call.transa = trans;
    call.diag = 'N';
    call.m = fy_panel_width(algo, 'A', k);
    call.n = fy_panel_width(algo, 'C', panel);
    memcpy(call.alpha, fy_one, sizeof(call.alpha));
    call.access[0] = FY_ACCESS_IN;
    call.access[1] = FY_ACCESS_INOUT;
    return fy_algo_call(algo, &call, blocks);
}

/* Rows above step k -= R(0..k, k) times its rows, or with the adjoint its rows
 * -= R(0..k, k)^H times those above. */
static int
subtract(struct fy_algo *algo, uint32_t panel, uint32_t k, char trans)
{
    const int64_t row = fy_panel_start(algo, k);
    const bool up = trans == 'N';
    struct fy_product product = {
        .transa = trans,
        .transb = 'N',
        .alpha = fy_minus_one,
        .beta = fy_one,
        .a = fy_panel_part('A', k, 0),
        .b = fy_panel_part('C', panel, up ? row : 0),
        .c = fy_panel_part('C', panel, up ? 0 : row),
        .m = up ? row : fy_panel_width(algo, 'A', k),
        .n = fy_panel_width(algo, 'C', panel),
        .k = up ? fy_panel_width(algo, 'A', k) : row,
        .c_access = FY_ACCESS_INOUT,
    };
    return row > 0 ? fy_algo_gemm(algo, MULTIPLY, &product) : FY_OK;
}

/* Rows n .. m - 1 of a right hand side := 0, as a product with alpha 0. */
static int
clear(struct fy_algo *algo, uint32_t panel)
{
    static const double zero[2] = {0, 0};
    const uint32_t last = algo->cuts[COLUMNS].count - 1;
    struct fy_product product = {
        .transa = 'N',
        .transb = 'N',
        .alpha = zero,
        .beta = zero,
        .a = fy_panel_part('A', last, algo->n),
        .b = fy_panel_part('C', panel, 0),
        .c = fy_panel_part('C', panel, algo->n),
        .m = algo->m - algo->n,
        .n = fy_panel_width(algo, 'C', panel),
        .k = fy_panel_width(algo, 'A', last),
        .c_access = FY_ACCESS_INOUT,
    };
    return product.m > 0 ? fy_algo_gemm(algo, MULTIPLY, &product) : FY_OK;
}

/* X := R^-1 Q^H B: the least squares. */
static int
solve_super(struct fy_algo *algo, uint32_t a, uint32_t b)
{
    const uint32_t panels = algo->cuts[COLUMNS].count;
    int status = FY_OK;

    for (uint32_t k = 0; status == FY_OK && k < panels; k++) {
        status = fy_panels_apply(algo, reflect_adjoint, 'C', a, b, k);
    }
    for (uint32_t k = panels; status == FY_OK && k-- > 0;) {
        for (uint32_t j = a; status == FY_OK && j < b; j++) {
            status = divide(algo, j, k, 'N');
            if (status == FY_OK) {
                status = subtract(algo, j, k, 'N');
            }
        }
    }
    return status;
}

/* X := Q R^-H B: the least norm. */
static int
solve_adjoint(struct fy_algo *algo, uint32_t a, uint32_t b)
{
    const uint32_t panels = algo->cuts[COLUMNS].count;
    int status = FY_OK;

    for (uint32_t k = 0; status == FY_OK && k < panels; k++) {
        for (uint32_t j = a; status == FY_OK && j < b; j++) {
            status = subtract(algo, j, k, adjoint(algo));
            if (status == FY_OK) {
                status = divide(algo, j, k, adjoint(algo));
            }
        }
    }
    for (uint32_t j = a; status == FY_OK && j < b; j++) {
        status = clear(algo, j);
    }
    for (uint32_t k = panels; status == FY_OK && k-- > 0;) {
        status = fy_panels_apply(algo, reflect_plain, 'C', a, b, k);
    }
    return status;
}

static int
program(struct fy_algo *algo)
{
    const uint32_t steps = algo->cuts[FACTORS].count, size = algo->super_cols;
    const uint32_t sides = solves(algo) ? algo->cuts[SIDES].count : 0;
    int status = fy_panels_factor(algo, FACTOR, steps, reflect_adjoint);

    for (uint32_t a = 0; status == FY_OK && a < sides; a += size) {
        const uint32_t b = a + size < sides ? a + size : sides;
        status = algo->transa == 'N' ? solve_super(algo, a, b)
                                     : solve_adjoint(algo, a, b);
    }
    return status;
}

/* Whether gels would scale the matrices or find nothing in them. */
static bool
is_plain(const struct fy_algo *algo)
{
    const bool is_single =
        algo->element == FY_T_F32 || algo->element == FY_T_C32;
    const double least_number =
        is_single ? FLT_MIN / FLT_EPSILON : DBL_MIN / DBL_EPSILON;

    for (unsigned i = 0; i < 3; i += 2) { /* A and C */
        struct fy_view view;
        fy_algo_view(algo, &algo->matrices[i], &view);
        if (i > 0 && algo->transa != 'N') {
            view.extent[0] = algo->n; /* below there is only room */
        }
        if (!fy_view_is_in_range(&view, (enum fy_type)algo->element,
                                 least_number, 1 / least_number)) {
            return false;
        }
    }
    return true;
}

static int
search(struct fy_algo *algo)
{
    struct fy_planner *planner = algo->planner;
    const size_t bytes = algo->element_bytes;
    const int64_t widest = algo->n > algo->k ? algo->n : algo->k;

    if (solves(algo)) {
        if (!is_plain(algo)) {
            return FY_ERR_UNSUPPORTED;
        }
        planner->factors = calloc((size_t)algo->n, bytes);
        if (!planner->factors) {
            return FY_ERR_NOMEM;
        }
        algo->matrices[1].host = planner->factors;
    }
    if (widest > (INT32_MAX - WORK_TRIANGLE) / WORK_COLUMNS) {
        return FY_ERR_NOFIT;
    }
    algo->lwork = widest * WORK_COLUMNS + WORK_TRIANGLE;
    if (!planner->options.ops->resolve) { /* a device has its own */
        planner->workspace = malloc((size_t)algo->lwork * bytes);
        if (!planner->workspace) {
            return FY_ERR_NOMEM;
        }
    }
    return fy_algo_panels(algo);
}

/* At least what LU of the smaller square moves, and every element once. */
static double
bound(const struct fy_algo *algo, double elements)
{
    const double m = (double)algo->m, n = (double)algo->n;
    const double t = m < n ? m : n;
    const double k = solves(algo) ? (double)algo->k : 0;
    return t * t * ((m < n ? n : m) - t / 3) / sqrt(elements) + m * n + m * k -
           elements;
}

const struct fy_algo_row fy_algo_qr[] = {
    {"geqrf",
     "mnA1BwWi",
     {"geqrf", "ormqr"},
     setup,
     program,
     false,
     bound,
     search,
     FY_DIAGONAL_FINITE},
    {"gels",
     "tmnkA1C3wWi",
     {"geqrf", "ormqr", "trsm", "gemm"},
     setup,
     program,
     false,
     bound,
     search,
     FY_DIAGONAL_REGULAR},
    {NULL},
};
