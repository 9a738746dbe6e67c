/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithms with tiles beside the matrix (trtri, potri in blocked.ferry), and getri
 * where it does not fit (inverse.c): U's inverse, then what L makes of its columns,
 * whose interchanges are left to the host. Devices have no function for a lone triangle:
 * a block on the diagonal is solved for from the identity, in a tile beside the matrix.
 */
#include "config.h"

#include "pager/blocked/nest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_CUTS,
    UNIT /* both sides of the plan's own matrices */
};
enum {
    TRSM = 1,
    TRMM,
    GEMM
};
enum {
    WIDEST = 2048, /* of blocks: the plan's own matrices are as large */
    ENOUGH = 256,
    SPARE_TILES = 4
};
static const double zero[2] = {0, 0};

static bool
is_lu(const struct fy_algo *algo)
{
    return strcmp(algo->row->name, "getri") == 0;
}

int
fy_tiles_setup(struct fy_algo *algo)
{
    struct fy_matrix *copy = &algo->matrices[1], *unit = &algo->matrices[3];

    if (algo->diag == 'U' && algo->n == 1) {
        return FY_ERR_UNSUPPORTED; /* nothing is accessed */
    }
    copy->row_cuts = copy->col_cuts = UNIT;
    copy->access = FY_ACCESS_INOUT;
    unit->row_cuts = unit->col_cuts = UNIT;
    unit->access = FY_ACCESS_IN;
    return FY_OK;
}

static int64_t
length(const struct fy_algo *algo, uint32_t i)
{
    return fy_algo_length(algo, N_CUTS, i);
}

/* ---- getri ---- */

/* As trtri in blocked.ferry. L is below U: U is taken from a block on the diagonal first,
 * which leaves zeros, and so L as it was. */
static const char invert_upper[] = "for i, j, k down {"
                                   "  k = j < i: trmm(A[k,k], A[k,i]);"
                                   "  j < k < i: gemm(A[j,k], A[k,i], A[j,i]);"
                                   "  j < k = i: trsm(- A[k,k], A[j,k]);"
                                   "  k = i = j: gemm(D, D, = B);"
                                   "  k = i = j: trsm(A[k,k], B);"
                                   "  k = i = j: gemm(D, D, = C[k]);"
                                   "  k = i = j: trmm(A[k,k], C[k]);"
                                   "  k = i = j: gemm(- D, C[k], A[k,k]);"
                                   "  k = i = j: gemm(D, B, A[k,k]);"
                                   "}";

/* B := alpha times A's triangle, or its inverse or adjoint, times B. */
static int
triangle(struct fy_algo *algo, struct fy_block_call *call, struct fy_block a,
         struct fy_block b)
{
    const struct fy_block blocks[3] = {a, b};

    call->uplo = algo->uplo;
    call->diag = algo->diag;
    call->access[0] = FY_ACCESS_IN;
    call->access[1] = FY_ACCESS_INOUT;
    return fy_algo_call(algo, call, blocks);
}

/* A block of n rows and columns := D D: the identity. */
static int
copy_unit(struct fy_algo *algo, struct fy_block to, int64_t n)
{
    struct fy_product product = {
        .transa = 'N',
        .transb = 'N',
        .alpha = fy_one,
        .beta = zero,
        .a = {'D', 0, 0, 0},
        .b = {'D', 0, 0, 0},
        .c = to,
        .m = n,
        .n = n,
        .k = n,
        .c_access = FY_ACCESS_INOUT,
    };
    return fy_algo_gemm(algo, GEMM, &product);
}

/* ---- X L = U^-1 by columns from the last: L's go beside them first ---- */

static struct fy_block
kept(uint32_t k)
{
    return (struct fy_block){'C', k, 0, 0};
}

/* L's column j beside, and U^-1 alone where both were. */
static int
keep(struct fy_algo *algo, uint32_t j)
{
    const uint32_t blocks = algo->cuts[N_CUTS].count;
    const int64_t width = length(algo, j);
    struct fy_block_call call;
    int status = FY_OK;

    for (uint32_t k = j; status == FY_OK && k < blocks; k++) {
        struct fy_product product = {
            .transa = 'N',
            .transb = 'N',
            .alpha = fy_one,
            .beta = zero,
            .a = {'A', k, j, 0},
            .b = {'D', 0, 0, 0},
            .c = kept(k),
            .m = length(algo, k),
            .n = width,
            .k = width,
            .c_access = FY_ACCESS_INOUT,
        };
        status = fy_algo_gemm(algo, GEMM, &product);
    }
    if (status == FY_OK) {
        status = copy_unit(algo, (struct fy_block){'A', j, j, 0}, width);
    }
    memset(&call, 0, sizeof(call));
    call.routine = TRMM;
    call.side = 'L';
    call.transa = 'N';
    call.m = call.n = width;
    memcpy(call.alpha, fy_one, sizeof(call.alpha));
    return status ? status
                  : triangle(algo, &call, kept(j),
                             (struct fy_block){'A', j, j, 0});
}

/* X(i, j) -= X(i, k) L(k, j), which is the first there where L was. */
static int
take(struct fy_algo *algo, uint32_t i, uint32_t j, uint32_t k)
{
    struct fy_product product = {
        .transa = 'N',
        .transb = 'N',
        .alpha = fy_minus_one,
        .beta = i > j && k == j + 1 ? zero : fy_one,
        .a = {'A', i, k, 0},
        .b = kept(k),
        .c = {'A', i, j, 0},
        .m = length(algo, i),
        .n = length(algo, j),
        .k = length(algo, k),
        .c_access = FY_ACCESS_INOUT,
    };
    return fy_algo_gemm(algo, GEMM, &product);
}

/* X(i, j) := X(i, j) L(j, j)^-1 */
static int
divide(struct fy_algo *algo, uint32_t i, uint32_t j)
{
    const struct fy_block blocks[3] = {kept(j), {'A', i, j, 0}};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    call.routine = TRSM;
    call.side = 'R';
    call.uplo = 'L';
    call.transa = 'N';
    call.diag = 'U';
    call.m = length(algo, i);
    call.n = length(algo, j);
    memcpy(call.alpha, fy_one, sizeof(call.alpha));
    call.access[0] = FY_ACCESS_IN;
    call.access[1] = FY_ACCESS_INOUT;
    return fy_algo_call(algo, &call, blocks);
}

static int
solve_all(struct fy_algo *algo)
{
    const uint32_t blocks = algo->cuts[N_CUTS].count, size = algo->macro_cols;
    int status = FY_OK;

    for (uint32_t j = blocks; status == FY_OK && j-- > 0;) {
        status = keep(algo, j);
        for (uint32_t i = 0; status == FY_OK && i < blocks;) {
            const uint32_t end = blocks - i > size ? i + size : blocks;
            for (uint32_t k = j + 1; status == FY_OK && k < blocks; k++) {
                for (uint32_t r = i; status == FY_OK && r < end; r++) {
                    status = take(algo, r, j, k);
                }
            }
            for (; status == FY_OK && i < end; i++) {
                status = divide(algo, i, j);
            }
        }
    }
    return status;
}

static int
remember_swaps(struct fy_algo *algo)
{
    struct fy_planner *planner = algo->planner;
    const enum fy_type type =
        fy_type_resolve(FY_T_INTEGER, planner->bound->integer_bits);
    const uint32_t bytes = fy_type_bytes(type, planner->bound->integer_bits);
    const char *pivots = algo->interchanges;

    planner->swaps = calloc((size_t)algo->n, sizeof(*planner->swaps));
    if (!planner->swaps) {
        return FY_ERR_NOMEM;
    }
    for (int64_t i = 0; i < algo->n; i++) {
        const struct fy_value pivot =
            fy_raw_value(type, pivots + i * (int64_t)bytes);
        planner->swaps[i] = pivot.i - 1;
    }
    fy_algo_view(algo, &algo->matrices[0], &planner->swapped);
    return FY_OK;
}

static int
program(struct fy_algo *algo)
{
    const uint32_t columns = algo->macro_cols;

    algo->macro_cols = algo->macro_rows;
    int status = fy_nest_run(algo, invert_upper);
    algo->macro_cols = columns;
    if (status == FY_OK) {
        status = solve_all(algo);
    }
    return status ? status : remember_swaps(algo);
}

/* ---- sizes ---- */

/* The identity as large as the widest block, and a matrix beside it; for LU a
 * column of blocks, too. */
static int
make_own(struct fy_algo *algo)
{
    const int64_t side = fy_cuts_longest(&algo->cuts[N_CUTS]);
    struct fy_matrix *copy = &algo->matrices[1], *beside = &algo->matrices[2],
                     *unit = &algo->matrices[3];
    struct fy_planner *planner = algo->planner;
    const size_t bytes = algo->element_bytes;
    const size_t elements = (size_t)side * (size_t)side;
    const struct fy_value one = {.kind = FY_V_COMPLEX, .r = 1};
    union fy_raw raw;

    free(planner->factors);
    const size_t column = is_lu(algo) ? (size_t)algo->n * (size_t)side : 0;
    planner->factors = calloc(2 * elements + column, bytes);
    if (!planner->factors) {
        return FY_ERR_NOMEM;
    }
    copy->host = planner->factors;
    unit->host = copy->host + elements * bytes;
    copy->rows = copy->cols = copy->ld = side;
    unit->rows = unit->cols = unit->ld = side;
    if (is_lu(algo)) {
        beside->host = unit->host + elements * bytes;
        beside->rows = algo->n;
        beside->cols = side;
        beside->ld = algo->turned ? side : algo->n;
    }
    algo->extent[UNIT] = side;
    memset(&raw, 0, sizeof(raw));
    fy_raw_store((enum fy_type)algo->element, &one, &raw);
    for (size_t i = 0; i < (size_t)side; i++) {
        memcpy(unit->host + i * ((size_t)side + 1) * bytes, &raw, bytes);
    }
    fy_cuts_free(&algo->cuts[UNIT]);
    return fy_cuts_even(side, 1, 1, &algo->cuts[UNIT]);
}

/* The plan for the blocks that are cut. */
static int
generate(struct fy_algo *algo)
{
    int status = make_own(algo);

    return status ? status : fy_algo_generate(algo);
}

static int
cut(struct fy_algo *algo, int64_t side)
{
    const double tiles = algo->room / (double)side / (double)side;
    const double macro = sqrt(tiles + 1 - SPARE_TILES) - 1;
    const int64_t count = (algo->n + side - 1) / side;

    fy_cuts_free(&algo->cuts[N_CUTS]);
    if (count > FY_MAX_BLOCK_STEPS) {
        return FY_ERR_NOFIT;
    }
    /* s^2 blocks, as many operands twice over, and what is its own. */
    algo->macro_rows = macro >= (double)count ? (uint32_t)count
                       : macro > 1            ? (uint32_t)macro
                                              : 1;
    algo->macro_cols = algo->macro_rows;
    if (is_lu(algo)) { /* a run of a column beside X's and L's blocks */
        algo->macro_cols =
            tiles > 5 ? (uint32_t)fmin(tiles - 4, (double)count) : 1;
    }
    return fy_cuts_even(algo->n, (uint32_t)count, side >= 64 ? 16 : 1,
                        &algo->cuts[N_CUTS]);
}

static int
search_randomly(struct fy_algo *algo)
{
    uint64_t state = algo->planner->options.seed + (uint64_t)algo->n;
    int64_t largest = 1 + (int64_t)fy_random_below(&state, (uint64_t)algo->n);
    int status = FY_ERR_NOFIT;

    for (unsigned round = 0; round < 16 && status == FY_ERR_NOFIT; round++) {
        fy_cuts_free(&algo->cuts[N_CUTS]);
        status = fy_cuts_random(algo->n, largest, 8u << (round / 2), 1, &state,
                                &algo->cuts[N_CUTS]);
        algo->macro_rows = 1 + (uint32_t)fy_random_below(&state, 4);
        algo->macro_cols = 1 + (uint32_t)fy_random_below(&state, 4);
        if (!is_lu(algo)) {
            algo->macro_cols = algo->macro_rows;
        }
        if (status == FY_OK) {
            status = generate(algo);
        }
        largest = round > 10 ? 1 : largest * 2 / 3 + 1;
    }
    return status;
}

/* The plan for blocks of that side. */
static int
make(struct fy_algo *algo, int64_t side)
{
    int status = cut(algo, side);

    return status ? status : generate(algo);
}

static int
search_evenly(struct fy_algo *algo)
{
    /* Blocks that fill the device. */
    static const double parts[] = {4, 8, 16, 30, 60, 120};
    enum {
        COUNT = sizeof(parts) / sizeof(parts[0])
    };
    int64_t sides[COUNT];
    int64_t most = algo->n / 4 > ENOUGH ? algo->n / 4 : ENOUGH;

    most = most < WIDEST ? most : WIDEST;
    most = most < algo->n ? most : algo->n;
    for (unsigned i = 0; i < COUNT; i++) {
        const double side = fmin(sqrt(algo->room / parts[i]), (double)most);
        sides[i] =
            (int64_t)side >= 64 ? (int64_t)side / 16 * 16 : (int64_t)side;
    }
    return fy_algo_cheapest(algo, sides, COUNT, make);
}

int
fy_tiles_search(struct fy_algo *algo)
{
    if (!fy_algo_is_regular(algo)) {
        return FY_ERR_UNSUPPORTED;
    }
    return algo->planner->options.random ? search_randomly(algo)
                                         : search_evenly(algo);
}

static const struct fy_algo_row paged_row = {
    .name = "getri",
    .signature = "nA1BwWi",
    .using = {"trsm", "trmm", "gemm", "getrs"},
    .shapes = "Aij",
    .program = program,
    .diagonal = FY_RESULT_FINITE};

int
fy_algo_invert_paged(struct fy_algo *algo)
{
    struct fy_matrix *a = &algo->matrices[0], *beside = &algo->matrices[2];
    const struct fy_matrix given = *a;

    algo->row = &paged_row;
    algo->interchanges = algo->matrices[1].host;
    memset(algo->matrices, 0, sizeof(algo->matrices));
    memset(algo->extent, 0, sizeof(algo->extent));
    for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
        fy_cuts_free(&algo->cuts[d]);
    }
    a->host = given.host;
    a->ld = given.ld;
    a->access = FY_ACCESS_INOUT;
    a->rows = a->cols = algo->n;
    algo->extent[N_CUTS] = algo->n;
    algo->uplo = 'U'; /* of what nest_call.c takes from A's diagonal */
    algo->diag = 'N';
    int status = fy_tiles_setup(algo);
    beside->row_cuts = N_CUTS;
    beside->col_cuts = UNIT;
    beside->access = FY_ACCESS_INOUT;
    return status ? status : fy_tiles_search(algo);
}
