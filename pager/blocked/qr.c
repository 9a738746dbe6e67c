/* SPDX-License-Identifier: Apache-2.0 */
/*
 * geqrf and gels: A = Q R by panels of full height (panels.c): every
 * finished panel applies its reflectors to the others. What comes out is
 * LAPACK's own layout, R and the reflectors of all columns in one order. For
 * gels right hand sides are panels that are not factored, and are solved with R;
 * what LAPACK scales (numbers near the ends of the range) or calls singular is
 * the original's.
 */
#include "config.h"

#include "pager/blocked/algo.h"

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
    return strchr(algo->row->signature, 'C');
}

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * With m < n LAPACK makes A = L Q, for which devices have no function. That is
 * the QR of A^T, stored in the same places: A^T = P R gives L = R^T, Q = P^T, and
 * the rows that LAPACK stores for Q are the columns of P's reflectors, with no
 * conjugate in complex ones, either. Right hand sides, which then want P^T and
 * conjugates of P, are transposed as well: B^T is multiplied from the right, where
 * P and P^H do.
 */
static void
turn(struct fy_algo *algo)
{
    const int64_t m = algo->m;

    algo->m = algo->n;
    algo->n = m;
    algo->transa = algo->transa == 'N' ? 'T' : 'N';
    algo->matrices[0].flipped = true;
    algo->matrices[2].flipped = algo->is_complex;
}

/* Complex right hand sides of a turned call lie transposed. */
static bool
from_right(const struct fy_algo *algo)
{
    return algo->matrices[2].flipped;
}

static int
setup(struct fy_algo *algo)
{
    struct fy_matrix *a = &algo->matrices[0], *tau = &algo->matrices[1],
                     *b = &algo->matrices[2];

    if (solves(algo) && algo->m < algo->n) {
        turn(algo);
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
    b->rows = from_right(algo) ? algo->k : algo->m;
    b->cols = from_right(algo) ? algo->m : algo->k;
    b->row_cuts = from_right(algo) ? SIDES : ROWS;
    b->col_cuts = from_right(algo) ? ROWS : SIDES;
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

/* A panel from that row on; of B^T, a strip from that column on. */
static struct fy_block
part(const struct fy_algo *algo, char matrix, uint32_t panel, int64_t row)
{
    if (matrix == 'C' && from_right(algo)) {
        return (struct fy_block){'C', panel, 0,
                                 row * fy_panel_width(algo, 'C', panel)};
    }
    return fy_panel_part(matrix, panel, row);
}

/* The reflectors of step k on a panel, from row k on; B^T gets the other
 * adjoint from the right: (P^T B)^T = B^T P, (conj(P) B)^T = B^T P^H. */
static int
reflect(struct fy_algo *algo, char matrix, uint32_t panel, uint32_t k,
        char trans)
{
    const int64_t row = fy_panel_start(algo, k);
    const struct fy_block blocks[3] = {fy_panel_part('A', k, row),
                                       {'B', k, 0, 0},
                                       part(algo, matrix, panel, row)};
    const bool right = matrix == 'C' && from_right(algo);
    const int64_t rows = algo->m - row;
    const int64_t width = fy_panel_width(algo, matrix, panel);
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = REFLECT;
    call.side = right ? 'R' : 'L';
    call.transa = trans;
    if (right) {
        call.transa = trans == 'N' ? 'C' : 'N';
    }
    call.m = right ? width : rows;
    call.n = right ? rows : width;
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

/* Rows of step k of a right hand side := R(k, k)^-1 or its adjoint times them;
 * of B^T: with conj(R) for R, and R^T for the adjoint. */
static int
divide(struct fy_algo *algo, uint32_t panel, uint32_t k, char trans)
{
    const int64_t row = fy_panel_start(algo, k);
    const struct fy_block blocks[3] = {fy_panel_part('A', k, row),
                                       part(algo, 'C', panel, row)};
    const bool right = from_right(algo);
    const int64_t rows = fy_panel_width(algo, 'A', k);
    const int64_t width = fy_panel_width(algo, 'C', panel);
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = SOLVE;
    call.side = right ? 'R' : 'L';
    call.uplo = 'U';
    call.transa = trans;
    if (right) {
        call.transa = trans == 'N' ? 'C' : 'N';
    }
    call.diag = 'N';
    call.m = right ? width : rows;
    call.n = right ? rows : width;
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
    if (from_right(algo)) {
        product.a = part(algo, 'C', panel, up ? row : 0);
        product.b = fy_panel_part('A', k, 0);
        product.c = part(algo, 'C', panel, up ? 0 : row);
        product.transa = 'N';
        product.transb = up ? 'C' : 'N';
        product.n = product.m;
        product.m = fy_panel_width(algo, 'C', panel);
    }
    return row > 0 ? fy_algo_gemm(algo, MULTIPLY, &product) : FY_OK;
}

/* Rows n .. m - 1 of a right hand side := 0, as a product with alpha 0. */
static int
clear(struct fy_algo *algo, uint32_t panel)
{
    static const double zero[2] = {0, 0};
    const uint32_t last = algo->cuts[COLUMNS].count - 1;
    const int64_t rows = algo->m - algo->n;
    const int64_t width = fy_panel_width(algo, 'C', panel);
    const struct fy_block factor = fy_panel_part('A', last, algo->n),
                          solved = part(algo, 'C', panel, 0);
    const bool right = from_right(algo);
    struct fy_product product = {
        .transa = 'N',
        .transb = right ? 'T' : 'N',
        .alpha = zero,
        .beta = zero,
        .a = right ? solved : factor,
        .b = right ? factor : solved,
        .c = part(algo, 'C', panel, algo->n),
        .m = right ? width : rows,
        .n = right ? rows : width,
        .k = fy_panel_width(algo, 'A', last),
        .c_access = FY_ACCESS_INOUT,
    };
    return rows > 0 ? fy_algo_gemm(algo, MULTIPLY, &product) : FY_OK;
}

/* X := R^-1 Q^H B: the least squares. */
static int
solve_macro(struct fy_algo *algo, uint32_t a, uint32_t b)
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
    const uint32_t steps = algo->cuts[FACTORS].count, size = algo->macro_cols;
    const uint32_t sides = solves(algo) ? algo->cuts[SIDES].count : 0;
    int status = fy_panels_factor(algo, FACTOR, steps, reflect_adjoint);

    for (uint32_t a = 0; status == FY_OK && a < sides; a += size) {
        const uint32_t b = a + size < sides ? a + size : sides;
        status = algo->transa == 'N' ? solve_macro(algo, a, b)
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
            /* Below there is only room. */
            view.extent[from_right(algo) ? 1 : 0] = algo->n;
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
    {.name = "geqrf",
     .signature = "mnA1BwWi",
     .using = {"geqrf", "ormqr"},
     .setup = setup,
     .program = program,
     .bound = bound,
     .search = search,
     .diagonal = FY_DIAGONAL_FINITE},
    {.name = "gels",
     .signature = "tmnkA1C3wWi",
     .using = {"geqrf", "ormqr", "trsm", "gemm"},
     .setup = setup,
     .program = program,
     .bound = bound,
     .search = search,
     .diagonal = FY_DIAGONAL_REGULAR},
    {NULL},
};
