/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symm and hemm: C := alpha A B + beta C or alpha B A + beta C, A symmetric
 * with one triangle stored. Diagonal blocks of A are calls of the same
 * function; the others are gemm with the stored block or its transpose.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include <math.h>
#include <string.h>

enum {
    M_CUTS,
    N_CUTS
};
enum {
    GEMM = 1
};

static int
setup(struct fy_algo *algo)
{
    bool left = algo->side == 'L';
    struct fy_matrix *a = &algo->matrices[0];

    a->rows = a->cols = left ? algo->m : algo->n;
    a->row_cuts = a->col_cuts = left ? M_CUTS : N_CUTS;
    a->triangle = algo->uplo;
    for (unsigned i = 1; i < 3; i++) {
        algo->matrices[i].rows = algo->m;
        algo->matrices[i].cols = algo->n;
        algo->matrices[i].row_cuts = M_CUTS;
        algo->matrices[i].col_cuts = N_CUTS;
    }
    algo->extent[M_CUTS] = algo->m;
    algo->extent[N_CUTS] = algo->n;
    return FY_OK;
}

/* C(i, j) gets A(i, x) B(x, j), or B(i, x) A(x, j). */
static int
update(struct fy_algo *algo, uint32_t i, uint32_t j, uint32_t x, bool first)
{
    bool left = algo->side == 'L';
    uint32_t row = left ? i : x, col = left ? x : j; /* of A, as a whole */
    bool stored = (algo->uplo == 'L') == (row > col);
    uint8_t written = first ? algo->matrices[2].access : FY_ACCESS_INOUT;
    struct fy_block a = {'A', row, col, 0};
    struct fy_block b = {'B', left ? x : i, left ? j : x, 0};
    struct fy_block c = {'C', i, j, 0};
    const double *beta = first ? algo->beta : fy_one;
    int64_t m = fy_algo_length(algo, M_CUTS, i);
    int64_t n = fy_algo_length(algo, N_CUTS, j);

    if (row == col) {
        const struct fy_block blocks[3] = {a, b, c};
        struct fy_block_call call;
        memset(&call, 0, sizeof(call));
        call.routine = FY_SELF;
        call.side = algo->side;
        call.uplo = algo->uplo;
        call.m = m;
        call.n = n;
        memcpy(call.alpha, algo->alpha, sizeof(call.alpha));
        memcpy(call.beta, beta, sizeof(call.beta));
        call.access[0] = call.access[1] = FY_ACCESS_IN;
        call.access[2] = written;
        return fy_algo_call(algo, &call, blocks);
    }
    if (!stored) {
        a = (struct fy_block){'A', col, row, 0};
    }
    char turn = (char)(stored ? 'N' : fy_algo_adjoint(algo));
    struct fy_product product = {
        .transa = (char)(left ? turn : 'N'),
        .transb = (char)(left ? 'N' : turn),
        .alpha = algo->alpha,
        .beta = beta,
        .a = left ? a : b,
        .b = left ? b : a,
        .c = c,
        .m = m,
        .n = n,
        .k = fy_algo_length(algo, left ? M_CUTS : N_CUTS, x),
        .c_access = written,
    };
    return fy_algo_gemm(algo, GEMM, &product);
}

/* C(i, j) := beta C(i, j). */
static int
scale(struct fy_algo *algo, uint32_t i, uint32_t j)
{
    struct fy_product product = {
        .transa = 'N',
        .transb = 'N',
        .alpha = algo->alpha,
        .beta = algo->beta,
        .c = {'C', i, j, 0},
        .m = fy_algo_length(algo, M_CUTS, i),
        .n = fy_algo_length(algo, N_CUTS, j),
        .c_access = algo->matrices[2].access,
    };
    return fy_algo_gemm(algo, GEMM, &product);
}

static int
macro(struct fy_algo *algo, uint32_t first_row, uint32_t first_col)
{
    uint32_t rows = algo->cuts[M_CUTS].count, cols = algo->cuts[N_CUTS].count;
    uint32_t steps = algo->side == 'L' ? rows : cols;
    bool adds = algo->matrices[0].access != 0;

    if (!adds) {
        steps = 1;
    }
    for (uint32_t s = 0; s < steps; s++) {
        uint32_t x = algo->flip ? steps - 1 - s : s;
        for (uint32_t i = first_row;
             i < first_row + algo->macro_rows && i < rows; i++) {
            for (uint32_t j = first_col;
                 j < first_col + algo->macro_cols && j < cols; j++) {
                int status =
                    adds ? update(algo, i, j, x, s == 0) : scale(algo, i, j);
                if (status) {
                    return status;
                }
            }
        }
    }
    algo->flip = !algo->flip;
    return FY_OK;
}

static int
program(struct fy_algo *algo)
{
    uint32_t rows = algo->cuts[M_CUTS].count, cols = algo->cuts[N_CUTS].count;
    uint32_t turns = (cols + algo->macro_cols - 1) / algo->macro_cols;
    bool forward = true;

    for (uint32_t i = 0; i < rows; i += algo->macro_rows) {
        for (uint32_t s = 0; s < turns; s++) {
            uint32_t j = (forward ? s : turns - 1 - s) * algo->macro_cols;
            int status = macro(algo, i, j);
            if (status) {
                return status;
            }
        }
        forward = !forward;
    }
    return FY_OK;
}

/* gemm's 2 m n k / sqrt(S) with S counted twice, as each a serves twice. */
static double
bound(const struct fy_algo *algo, double elements)
{
    double m = (double)algo->m, n = (double)algo->n;
    double k = algo->side == 'L' ? m : n;
    return 2 * m * n * k / sqrt(2 * elements) + m * n;
}

const struct fy_algo_row fy_algo_symmetric[] = {
    {"symm",
     "sumnaA1B2bC3",
     {"gemm"},
     setup,
     program,
     false,
     bound,
     NULL,
     FY_DIAGONAL_ANY},
    {"hemm",
     "sumnaA1B2bC3",
     {"gemm"},
     setup,
     program,
     false,
     bound,
     NULL,
     FY_DIAGONAL_ANY},
    {NULL},
};
