/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trmm and trsm: B := alpha op(A) B or alpha B op(A), and the solutions X of
 * op(A) X = alpha B or X op(A) = alpha B, in place. A's blocks off the
 * diagonal are gemm. All of B's blocks along the triangle's dimension are put
 * in the order in which they are finished; macro-blocks are runs of that order.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    M_CUTS,
    N_CUTS
};
enum {
    GEMM = 1
};

struct sweep {
    struct fy_algo *algo;
    bool left, solves, ascending;
    uint32_t blocks, others; /* along the triangle, along the other side */
    unsigned along, across;  /* dimensions */
    uint32_t macro, macro_others;
    unsigned char *touched; /* by block and other: not the caller's any more */
};

static int
setup(struct fy_algo *algo)
{
    bool left = algo->side == 'L';
    struct fy_matrix *a = &algo->matrices[0], *b = &algo->matrices[1];

    if (algo->transa == 'C' && !algo->is_complex) {
        algo->transa = 'T';
    }
    a->rows = a->cols = left ? algo->m : algo->n;
    a->row_cuts = a->col_cuts = left ? M_CUTS : N_CUTS;
    a->triangle = algo->uplo;
    a->strict = algo->diag == 'U';
    b->rows = algo->m;
    b->cols = algo->n;
    b->row_cuts = M_CUTS;
    b->col_cuts = N_CUTS;
    algo->extent[M_CUTS] = algo->m;
    algo->extent[N_CUTS] = algo->n;
    return FY_OK;
}

/* The p-th block along the triangle in the order of finishing. */
static uint32_t
turn(const struct sweep *sweep, uint32_t p)
{
    return sweep->ascending ? p : sweep->blocks - 1 - p;
}

static struct fy_block
block_of_b(const struct sweep *sweep, uint32_t t, uint32_t other)
{
    return (struct fy_block){'B', sweep->left ? t : other,
                             sweep->left ? other : t, 0};
}

/* B(t) := alpha B(t) times, or solved with, A's diagonal block. */
static int
diagonal(struct sweep *sweep, uint32_t t, uint32_t other)
{
    struct fy_algo *algo = sweep->algo;
    unsigned char *touched = &sweep->touched[(size_t)t * sweep->others + other];
    const struct fy_block blocks[3] = {{'A', t, t, 0},
                                       block_of_b(sweep, t, other)};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = FY_SELF;
    call.side = algo->side;
    call.uplo = algo->uplo;
    call.transa = algo->transa;
    call.diag = algo->diag;
    call.m = fy_algo_length(algo, M_CUTS, blocks[1].row);
    call.n = fy_algo_length(algo, N_CUTS, blocks[1].col);
    memcpy(call.alpha, *touched ? fy_one : algo->alpha, sizeof(call.alpha));
    call.access[0] = FY_ACCESS_IN;
    call.access[1] = *touched ? FY_ACCESS_INOUT : algo->matrices[1].access;
    *touched = 1;
    return fy_algo_call(algo, &call, blocks);
}

/* B(t) gets op(A)(t, x) B(x), or B(x) op(A)(x, t). */
static int
update(struct sweep *sweep, uint32_t t, uint32_t x, uint32_t other)
{
    struct fy_algo *algo = sweep->algo;
    unsigned char *touched = &sweep->touched[(size_t)t * sweep->others + other];
    bool plain = algo->transa == 'N';
    uint32_t row = sweep->left ? t : x, col = sweep->left ? x : t;
    struct fy_block a = {'A', plain ? row : col, plain ? col : row, 0};
    struct fy_block b = block_of_b(sweep, x, other);
    struct fy_block c = block_of_b(sweep, t, other);
    struct fy_product product = {
        .transa = (char)(sweep->left ? algo->transa : 'N'),
        .transb = (char)(sweep->left ? 'N' : algo->transa),
        .alpha = sweep->solves ? fy_minus_one : algo->alpha,
        .beta = sweep->solves && !*touched ? algo->alpha : fy_one,
        .a = sweep->left ? a : b,
        .b = sweep->left ? b : a,
        .c = c,
        .m = fy_algo_length(algo, M_CUTS, c.row),
        .n = fy_algo_length(algo, N_CUTS, c.col),
        .k = fy_algo_length(algo, sweep->along, x),
        .c_access = FY_ACCESS_INOUT,
    };
    *touched = 1;
    return fy_algo_gemm(algo, GEMM, &product);
}

/* All updates of blocks [a, b) of the order by block p, for one macro-block. */
static int
update_run(struct sweep *sweep, uint32_t a, uint32_t b, uint32_t p,
           uint32_t other, uint32_t end)
{
    for (uint32_t q = a; q < b; q++) {
        for (uint32_t o = other; o < end; o++) {
            int status = update(sweep, turn(sweep, q), turn(sweep, p), o);
            if (status) {
                return status;
            }
        }
    }
    return FY_OK;
}

static int
diagonal_run(struct sweep *sweep, uint32_t p, uint32_t other, uint32_t end)
{
    for (uint32_t o = other; o < end; o++) {
        int status = diagonal(sweep, turn(sweep, p), o);
        if (status) {
            return status;
        }
    }
    return FY_OK;
}

/* Solve: what is finished updates the macro-block, then the macro-block itself. */
static int
solve_macro(struct sweep *sweep, uint32_t a, uint32_t b, uint32_t other,
            uint32_t end)
{
    int status = FY_OK;

    for (uint32_t p = 0; status == FY_OK && p < a; p++) {
        status = update_run(sweep, a, b, p, other, end);
    }
    for (uint32_t p = a; status == FY_OK && p < b; p++) {
        status = diagonal_run(sweep, p, other, end);
        if (status == FY_OK) {
            status = update_run(sweep, p + 1, b, p, other, end);
        }
    }
    return status;
}

/* Multiply: blocks later in the order are still the caller's. */
static int
multiply_macro(struct sweep *sweep, uint32_t a, uint32_t b, uint32_t other,
               uint32_t end)
{
    int status = FY_OK;

    for (uint32_t p = a; status == FY_OK && p < b; p++) {
        status = diagonal_run(sweep, p, other, end);
        for (uint32_t q = p + 1; status == FY_OK && q < b; q++) {
            status = update_run(sweep, p, p + 1, q, other, end);
        }
    }
    for (uint32_t q = b; status == FY_OK && q < sweep->blocks; q++) {
        status = update_run(sweep, a, b, q, other, end);
    }
    return status;
}

/* alpha = 0: B is set to zero, A is not read. */
static int
clear(struct fy_algo *algo)
{
    for (uint32_t i = 0; i < algo->cuts[M_CUTS].count; i++) {
        for (uint32_t j = 0; j < algo->cuts[N_CUTS].count; j++) {
            static const double zero[2] = {0, 0};
            struct fy_product product = {
                .transa = 'N',
                .transb = 'N',
                .alpha = zero,
                .beta = zero,
                .c = {'B', i, j, 0},
                .m = fy_algo_length(algo, M_CUTS, i),
                .n = fy_algo_length(algo, N_CUTS, j),
                .c_access = algo->matrices[1].access,
            };
            int status = fy_algo_gemm(algo, GEMM, &product);
            if (status) {
                return status;
            }
        }
    }
    return FY_OK;
}

static int
program(struct fy_algo *algo)
{
    bool left = algo->side == 'L';
    bool lower = (algo->uplo == 'L') == (algo->transa == 'N');
    bool solves = strcmp(algo->row->name, "trsm") == 0;
    struct sweep sweep = {
        .algo = algo,
        .left = left,
        .solves = solves,
        /* Solving starts at the block that depends on no other. */
        .ascending = (lower == left) == solves,
        .along = left ? M_CUTS : N_CUTS,
        .across = left ? N_CUTS : M_CUTS,
        .macro = left ? algo->macro_rows : algo->macro_cols,
        .macro_others = left ? algo->macro_cols : algo->macro_rows,
    };
    int status = FY_OK;

    if (!algo->matrices[0].access && algo->alpha[0] == 0 &&
        algo->alpha[1] == 0) {
        return clear(algo);
    }
    sweep.blocks = algo->cuts[sweep.along].count;
    sweep.others = algo->cuts[sweep.across].count;
    sweep.touched = calloc((size_t)sweep.blocks * sweep.others + 1, 1);
    if (!sweep.touched) {
        return FY_ERR_NOMEM;
    }
    for (uint32_t o = 0; status == FY_OK && o < sweep.others;
         o += sweep.macro_others) {
        uint32_t end = o + sweep.macro_others < sweep.others
                           ? o + sweep.macro_others
                           : sweep.others;
        for (uint32_t a = 0; status == FY_OK && a < sweep.blocks;
             a += sweep.macro) {
            uint32_t b =
                a + sweep.macro < sweep.blocks ? a + sweep.macro : sweep.blocks;
            status = solves ? solve_macro(&sweep, a, b, o, end)
                            : multiply_macro(&sweep, a, b, o, end);
        }
    }
    free(sweep.touched);
    return status;
}

/* flops / sqrt(S) and B once. */
static double
bound(const struct fy_algo *algo, double elements)
{
    double m = (double)algo->m, n = (double)algo->n;
    double order = algo->side == 'L' ? m : n;
    return m * n * order / sqrt(elements) + m * n;
}

const struct fy_algo_row fy_algo_triangle[] = {
    {"trmm",
     "sutdmnaA1B2",
     {"gemm"},
     setup,
     program,
     false,
     bound,
     NULL,
     FY_DIAGONAL_ANY},
    {"trsm",
     "sutdmnaA1B2",
     {"gemm"},
     setup,
     program,
     false,
     bound,
     NULL,
     FY_DIAGONAL_ANY},
    {NULL},
};
