/* SPDX-License-Identifier: Apache-2.0 */
/*
 * potrf: A = L L^H or U^H U, left-looking by supers of blocks. Written for the
 * lower triangle; the upper one is its mirror image. A diagonal block that is
 * not positive definite ends in the original on restored inputs, so that info
 * and the partial result are its own.
 */
#include "config.h"

#include "pager/algo.h"

#include <math.h>
#include <string.h>

enum {
    N_CUTS,
    SAME_CUTS
};
enum {
    SYRK = 1,
    GEMM,
    TRSM
};

static int
setup(struct fy_algo *algo)
{
    struct fy_matrix *a = &algo->matrices[0];

    a->rows = a->cols = algo->n;
    a->triangle = algo->uplo;
    algo->extent[N_CUTS] = algo->extent[SAME_CUTS] = algo->n;
    return FY_OK;
}

/* Block (i, j), i >= j, of the factor, or of its mirror image. */
static struct fy_block
block(const struct fy_algo *algo, uint32_t i, uint32_t j)
{
    bool lower = algo->uplo == 'L';
    return (struct fy_block){'A', lower ? i : j, lower ? j : i, 0};
}

/* A(i, j) -= L(i, k) L(j, k)^H */
static int
update(struct fy_algo *algo, uint32_t i, uint32_t j, uint32_t k)
{
    bool lower = algo->uplo == 'L';
    char turned = fy_algo_adjoint(algo);
    int64_t rows = fy_algo_length(algo, N_CUTS, i);
    int64_t cols = fy_algo_length(algo, N_CUTS, j);

    if (i == j) {
        const struct fy_block blocks[3] = {block(algo, i, k),
                                           block(algo, i, i)};
        struct fy_block_call call;
        memset(&call, 0, sizeof(call));
        call.routine = SYRK;
        call.uplo = algo->uplo;
        call.transa = (char)(lower ? 'N' : turned);
        call.n = rows;
        call.k = fy_algo_length(algo, N_CUTS, k);
        memcpy(call.alpha, fy_minus_one, sizeof(call.alpha));
        memcpy(call.beta, fy_one, sizeof(call.beta));
        call.access[0] = FY_ACCESS_IN;
        call.access[2] = FY_ACCESS_INOUT;
        return fy_algo_call(algo, &call, blocks);
    }
    struct fy_product product = {
        .transa = (char)(lower ? 'N' : turned),
        .transb = (char)(lower ? turned : 'N'),
        .alpha = fy_minus_one,
        .beta = fy_one,
        .a = lower ? block(algo, i, k) : block(algo, j, k),
        .b = lower ? block(algo, j, k) : block(algo, i, k),
        .c = block(algo, i, j),
        .m = lower ? rows : cols,
        .n = lower ? cols : rows,
        .k = fy_algo_length(algo, N_CUTS, k),
        .c_access = FY_ACCESS_INOUT,
    };
    return fy_algo_gemm(algo, GEMM, &product);
}

static int
factor(struct fy_algo *algo, uint32_t k)
{
    const struct fy_block blocks[3] = {block(algo, k, k)};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = FY_SELF;
    call.uplo = algo->uplo;
    call.n = fy_algo_length(algo, N_CUTS, k);
    call.access[0] = FY_ACCESS_INOUT;
    return fy_algo_call(algo, &call, blocks);
}

/* A(i, k) := A(i, k) L(k, k)^-H */
static int
solve(struct fy_algo *algo, uint32_t i, uint32_t k)
{
    bool lower = algo->uplo == 'L';
    const struct fy_block blocks[3] = {block(algo, k, k), block(algo, i, k)};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = TRSM;
    call.side = lower ? 'R' : 'L';
    call.uplo = algo->uplo;
    call.transa = fy_algo_adjoint(algo);
    call.diag = 'N';
    call.m = fy_algo_length(algo, N_CUTS, lower ? i : k);
    call.n = fy_algo_length(algo, N_CUTS, lower ? k : i);
    memcpy(call.alpha, fy_one, sizeof(call.alpha));
    call.access[0] = FY_ACCESS_IN;
    call.access[1] = FY_ACCESS_INOUT;
    return fy_algo_call(algo, &call, blocks);
}

static uint32_t
least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Updates of the super's blocks by finished column k. */
static int
update_super(struct fy_algo *algo, uint32_t first_row, uint32_t end_row,
             uint32_t first_col, uint32_t end_col, uint32_t k)
{
    for (uint32_t i = first_row; i < end_row; i++) {
        for (uint32_t j = first_col; j < least(end_col, i + 1); j++) {
            int status = update(algo, i, j, k);
            if (status) {
                return status;
            }
        }
    }
    return FY_OK;
}

/* Rows [i, i_end) of the columns [j, j_end), whose diagonal super is `top'. */
static int
finish_super(struct fy_algo *algo, uint32_t i, uint32_t i_end, uint32_t j,
             uint32_t j_end)
{
    int status = FY_OK;

    for (uint32_t k = 0; status == FY_OK && k < j; k++) {
        status = update_super(algo, i, i_end, j, j_end, k);
    }
    for (uint32_t k = j; status == FY_OK && k < j_end; k++) {
        if (i == j) {
            status = factor(algo, k);
        }
        for (uint32_t r = i == j ? k + 1 : i; status == FY_OK && r < i_end;
             r++) {
            status = solve(algo, r, k);
        }
        if (status == FY_OK) {
            status = update_super(algo, i, i_end, k + 1, j_end, k);
        }
    }
    return status;
}

static int
program(struct fy_algo *algo)
{
    uint32_t blocks = algo->cuts[N_CUTS].count;
    uint32_t size = least(algo->super_rows, algo->super_cols);
    int status = FY_OK;

    for (uint32_t j = 0; j < blocks; j += size) {
        uint32_t j_end = least(j + size, blocks);
        for (uint32_t i = j; status == FY_OK && i < blocks; i += size) {
            status = finish_super(algo, i, least(i + size, blocks), j, j_end);
        }
        if (status) {
            return status;
        }
    }
    return status;
}

/* n^3 / (3 sqrt(2 S)) and the triangle (Beaumont et al. 2022). */
static double
bound(const struct fy_algo *algo, double elements)
{
    double n = (double)algo->n;
    return n * n * n / (3 * sqrt(2 * elements)) + n * (n + 1) / 2;
}

const struct fy_algo_row fy_algo_cholesky[] = {
    {"potrf",
     "unA1i",
     {"syrk", "gemm", "trsm"},
     setup,
     program,
     false,
     bound,
     NULL,
     FY_DIAGONAL_REGULAR},
    {NULL},
};
