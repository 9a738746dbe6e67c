/* SPDX-License-Identifier: Apache-2.0 */
/*
 * potrf: A = L L^H or U^H U, left-looking by macro-blocks of blocks. Written for the
 * lower triangle; the upper one is its mirror image. A diagonal block that is
 * not positive definite ends in the original on restored inputs, so that info
 * and the partial result are its own. potrs solves with such a factor, forward
 * and backward by macro-blocks of right hand sides, and posv does both.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include <math.h>
#include <string.h>

enum {
    N_CUTS,
    SAME_CUTS,
    SIDES
};
enum {
    TRSM = 1,
    GEMM,
    SYRK,
    FACTOR /* of posv; potrf calls itself */
};

static bool
solves(const struct fy_algo *algo)
{
    return strchr(algo->row->signature, 'C');
}

static bool
factors(const struct fy_algo *algo)
{
    return strcmp(algo->row->name, "potrs") != 0;
}

static int
setup(struct fy_algo *algo)
{
    struct fy_matrix *a = &algo->matrices[0], *b = &algo->matrices[2];

    a->rows = a->cols = algo->n;
    a->triangle = algo->uplo;
    b->rows = algo->n;
    b->cols = algo->k;
    b->col_cuts = SIDES;
    algo->extent[N_CUTS] = algo->extent[SAME_CUTS] = algo->n;
    algo->extent[SIDES] = solves(algo) ? algo->k : 0;
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
    call.routine = solves(algo) ? FACTOR : FY_SELF;
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

/* Updates of the macro-block's blocks by finished column k. */
static int
update_macro(struct fy_algo *algo, uint32_t first_row, uint32_t end_row,
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

/* Rows [i, i_end) of the columns [j, j_end), whose diagonal macro-block is `top'. */
static int
finish_macro(struct fy_algo *algo, uint32_t i, uint32_t i_end, uint32_t j,
             uint32_t j_end)
{
    int status = FY_OK;

    for (uint32_t k = 0; status == FY_OK && k < j; k++) {
        status = update_macro(algo, i, i_end, j, j_end, k);
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
            status = update_macro(algo, i, i_end, k + 1, j_end, k);
        }
    }
    return status;
}

static int
factor_all(struct fy_algo *algo, uint32_t blocks, uint32_t size)
{
    int status = FY_OK;

    for (uint32_t j = 0; j < blocks; j += size) {
        uint32_t j_end = least(j + size, blocks);
        for (uint32_t i = j; status == FY_OK && i < blocks; i += size) {
            status = finish_macro(algo, i, least(i + size, blocks), j, j_end);
        }
        if (status) {
            return status;
        }
    }
    return status;
}

/* ---- right hand sides: X := L^-1 B, then L^-H of that ---- */

struct sweep {
    uint32_t blocks, side, side_end;
    bool back;
    char trans; /* of the stored triangle */
};

/* The p-th block row in the order of finishing. */
static uint32_t
turn(const struct sweep *sweep, uint32_t p)
{
    return sweep->back ? sweep->blocks - 1 - p : p;
}

/* Rows t -= L(t, x), or L(x, t)^H, times the finished rows x. */
static int
subtract(struct fy_algo *algo, const struct sweep *sweep, uint32_t t,
         uint32_t x)
{
    int status = FY_OK;

    for (uint32_t o = sweep->side; status == FY_OK && o < sweep->side_end;
         o++) {
        struct fy_product product = {
            .transa = sweep->trans,
            .transb = 'N',
            .alpha = fy_minus_one,
            .beta = fy_one,
            .a = t > x ? block(algo, t, x) : block(algo, x, t),
            .b = {'C', x, o, 0},
            .c = {'C', t, o, 0},
            .m = fy_algo_length(algo, N_CUTS, t),
            .n = fy_algo_length(algo, SIDES, o),
            .k = fy_algo_length(algo, N_CUTS, x),
            .c_access = FY_ACCESS_INOUT,
        };
        status = fy_algo_gemm(algo, GEMM, &product);
    }
    return status;
}

static int
divide(struct fy_algo *algo, const struct sweep *sweep, uint32_t t)
{
    int status = FY_OK;

    for (uint32_t o = sweep->side; status == FY_OK && o < sweep->side_end;
         o++) {
        const struct fy_block blocks[3] = {block(algo, t, t), {'C', t, o, 0}};
        struct fy_block_call call;
        memset(&call, 0, sizeof(call));
        call.routine = TRSM;
        call.side = 'L';
        call.uplo = algo->uplo;
        call.transa = sweep->trans;
        call.diag = 'N';
        call.m = fy_algo_length(algo, N_CUTS, t);
        call.n = fy_algo_length(algo, SIDES, o);
        memcpy(call.alpha, fy_one, sizeof(call.alpha));
        call.access[0] = FY_ACCESS_IN;
        call.access[1] = FY_ACCESS_INOUT;
        status = fy_algo_call(algo, &call, blocks);
    }
    return status;
}

/* Block rows [a, b) of the order: by all before them, then by themselves. */
static int
solve_macro(struct fy_algo *algo, const struct sweep *sweep, uint32_t a,
            uint32_t b)
{
    int status = FY_OK;

    for (uint32_t p = 0; status == FY_OK && p < b; p++) {
        if (p >= a) {
            status = divide(algo, sweep, turn(sweep, p));
        }
        for (uint32_t q = p < a ? a : p + 1; status == FY_OK && q < b; q++) {
            status = subtract(algo, sweep, turn(sweep, q), turn(sweep, p));
        }
    }
    return status;
}

static int
solve_all(struct fy_algo *algo, uint32_t blocks, uint32_t size)
{
    const uint32_t sides = algo->cuts[SIDES].count;
    const uint32_t wide = least(size, sides);
    /* As many blocks in a macro-block. */
    const uint32_t high =
        size / wide >= blocks ? blocks : least(size / wide * size, blocks);
    int status = FY_OK;

    for (uint32_t o = 0; o < sides; o += wide) {
        for (unsigned back = 0; back < 2; back++) {
            const struct sweep sweep = {
                .blocks = blocks,
                .side = o,
                .side_end = least(o + wide, sides),
                .back = back,
                .trans = (char)((algo->uplo == 'L') == (back == 0)
                                    ? 'N'
                                    : fy_algo_adjoint(algo)),
            };
            for (uint32_t a = 0; status == FY_OK && a < blocks; a += high) {
                status = solve_macro(algo, &sweep, a, least(a + high, blocks));
            }
        }
        if (status) {
            return status;
        }
    }
    return status;
}

static int
program(struct fy_algo *algo)
{
    uint32_t blocks = algo->cuts[N_CUTS].count;
    uint32_t size = least(algo->macro_rows, algo->macro_cols);
    int status = FY_OK;

    if (factors(algo)) {
        status = factor_all(algo, blocks, size);
    }
    if (status == FY_OK && solves(algo)) {
        status = solve_all(algo, blocks, size);
    }
    return status;
}

/* potrs: what a factor cannot be divided by is the original's. */
static int
search(struct fy_algo *algo)
{
    if (!fy_algo_is_regular(algo)) {
        return FY_ERR_UNSUPPORTED;
    }
    return algo->planner->options.random ? fy_algo_random(algo)
                                         : fy_algo_search(algo);
}

/* n^3 / (3 sqrt(2 S)) and the triangle (Beaumont et al. 2022); both sweeps of
 * right hand sides as trsm's, less what is on the device before each part. */
static double
bound(const struct fy_algo *algo, double elements)
{
    const double n = (double)algo->n, k = (double)algo->k;
    double words = 0;

    if (factors(algo)) {
        words += n * n * n / (3 * sqrt(2 * elements)) + n * (n + 1) / 2;
    }
    if (solves(algo)) {
        words += 2 * n * n * k / sqrt(elements) + n * k - 2 * elements;
    }
    return words;
}

const struct fy_algo_row fy_algo_cholesky[] = {
    {"potrf",
     "unA1i",
     {"trsm", "gemm", "syrk"},
     setup,
     program,
     false,
     bound,
     NULL,
     FY_DIAGONAL_REGULAR},
    {"potrs",
     "unkA1C3i",
     {"trsm", "gemm"},
     setup,
     program,
     false,
     bound,
     search,
     FY_DIAGONAL_ANY},
    {"posv",
     "unkA1C3i",
     {"trsm", "gemm", "syrk", "potrf"},
     setup,
     program,
     false,
     bound,
     NULL,
     FY_DIAGONAL_REGULAR},
    {NULL},
};
