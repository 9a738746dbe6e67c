/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syrk and herk: C := alpha op(A) op(A)^T + beta C on one triangle; syr2k and
 * her2k with two such products. Blocks on C's diagonal are calls of the same
 * function, all others are gemm.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_CUTS,
    SAME_CUTS,
    K_CUTS
};
enum {
    GEMM = 1
};
enum {
    MAX_GATHERED = 512
};

static int
setup(struct fy_algo *algo)
{
    bool plain = algo->transa == 'N';

    if (algo->transa != 'N' && !algo->is_complex) {
        algo->transa = 'T';
    }
    for (unsigned i = 0; i < 2; i++) {
        algo->matrices[i].rows = plain ? algo->n : algo->k;
        algo->matrices[i].cols = plain ? algo->k : algo->n;
        algo->matrices[i].row_cuts = plain ? N_CUTS : K_CUTS;
        algo->matrices[i].col_cuts = plain ? K_CUTS : N_CUTS;
    }
    algo->matrices[2].rows = algo->matrices[2].cols = algo->n;
    algo->matrices[2].triangle = algo->uplo;
    algo->extent[N_CUTS] = algo->extent[SAME_CUTS] = algo->n;
    algo->extent[K_CUTS] = algo->k;
    return FY_OK;
}

/* Block (i, l) of op(X). */
static struct fy_block
operand(const struct fy_algo *algo, char matrix, uint32_t i, uint32_t l)
{
    bool plain = algo->transa == 'N';
    return (struct fy_block){matrix, plain ? i : l, plain ? l : i, 0};
}

/* One or two products on a block of C; l is FY_NIL when there is nothing to add. */
static int
update(struct fy_algo *algo, uint32_t r, uint32_t c, uint32_t l, bool first)
{
    bool plain = algo->transa == 'N', two = strchr(algo->row->signature, 'B');
    bool adds = l != FY_NIL;
    char turned = fy_algo_adjoint(algo);
    uint8_t written = algo->matrices[2].access;
    struct fy_block blocks[3] = {{0}};
    struct fy_block_call call;
    double other[2] = {algo->alpha[0],
                       algo->hermitian ? -algo->alpha[1] : algo->alpha[1]};
    int status;

    if (!first) {
        written = FY_ACCESS_INOUT;
    }
    memset(&call, 0, sizeof(call));
    call.n = fy_algo_length(algo, N_CUTS, c);
    call.k = adds ? fy_algo_length(algo, K_CUTS, l) : 0;
    memcpy(call.alpha, algo->alpha, sizeof(call.alpha));
    memcpy(call.beta, first ? algo->beta : fy_one, sizeof(call.beta));
    if (r == c) {
        call.routine = FY_SELF;
        call.uplo = algo->uplo;
        call.transa = algo->transa;
        call.access[0] = call.access[1] = adds ? FY_ACCESS_IN : 0;
        call.access[2] = written;
        if (adds) {
            blocks[0] = operand(algo, 'A', r, l);
            blocks[1] = two ? operand(algo, 'B', r, l)
                            : (struct fy_block){'C', r, r, 0};
        }
        blocks[two ? 2 : 1] = (struct fy_block){'C', r, r, 0};
        return fy_algo_call(algo, &call, blocks);
    }
    struct fy_product product = {
        .transa = (char)(plain ? 'N' : turned),
        .transb = (char)(plain ? turned : 'N'),
        .alpha = algo->alpha,
        .beta = call.beta,
        .c = {'C', r, c, 0},
        .m = fy_algo_length(algo, N_CUTS, r),
        .n = call.n,
        .k = call.k,
        .c_access = written,
    };
    if (adds) {
        product.a = operand(algo, 'A', r, l);
        product.b = operand(algo, two ? 'B' : 'A', c, l);
    }
    status = fy_algo_gemm(algo, GEMM, &product);
    if (status || !two || !adds) {
        return status;
    }
    product.a = operand(algo, 'B', r, l);
    product.b = operand(algo, 'A', c, l);
    product.alpha = other;
    product.beta = fy_one;
    product.c_access = FY_ACCESS_INOUT;
    return fy_algo_gemm(algo, GEMM, &product);
}

/* Supers of C that are computed together, panel by panel of A (and B). */
struct gathered {
    uint32_t macros[MAX_GATHERED][2]; /* first block row and column */
    unsigned count;
    double elements;      /* of C on the device */
    unsigned char *lines; /* by macro-block: its rows of op(A) are needed */
    double line_elements;
};

static int
update_macro(struct fy_algo *algo, const uint32_t at[2], uint32_t l, bool first)
{
    uint32_t blocks = algo->cuts[N_CUTS].count, size = algo->macro_rows;
    bool lower = algo->uplo == 'L';

    for (uint32_t i = at[0]; i < at[0] + size && i < blocks; i++) {
        for (uint32_t j = at[1]; j < at[1] + size && j <= i; j++) {
            int status = update(algo, lower ? i : j, lower ? j : i, l, first);
            if (status) {
                return status;
            }
        }
    }
    return FY_OK;
}

static int
compute(struct fy_algo *algo, struct gathered *all)
{
    bool accessed = algo->matrices[0].access && algo->extent[K_CUTS] > 0;
    uint32_t steps = accessed ? algo->cuts[K_CUTS].count : 1;

    for (uint32_t s = 0; s < steps; s++) {
        uint32_t l = algo->flip ? steps - 1 - s : s;
        for (unsigned i = 0; i < all->count; i++) {
            int status = update_macro(algo, all->macros[i],
                                      accessed ? l : FY_NIL, s == 0);
            if (status) {
                return status;
            }
        }
    }
    algo->flip = !algo->flip;
    all->count = 0;
    all->elements = all->line_elements = 0;
    memset(all->lines, 0, algo->cuts[N_CUTS].count);
    return FY_OK;
}

/* Elements of the macro-block of rows i, columns j (block indices) on the device. */
static double
macro_elements(const struct fy_algo *algo, uint32_t i, uint32_t j)
{
    const struct fy_cuts *cuts = &algo->cuts[N_CUTS];
    uint32_t size = algo->macro_rows;
    uint32_t i_end = i + size < cuts->count ? i + size : cuts->count;
    uint32_t j_end = j + size < cuts->count ? j + size : cuts->count;
    double elements = 0;

    for (uint32_t r = i; r < i_end; r++) {
        uint32_t last = j_end < r + 1 ? j_end : r + 1;
        elements += (double)fy_cuts_length(cuts, r) *
                    (double)(cuts->start[last] - cuts->start[j]);
    }
    return elements;
}

/* Adds a macro-block, after computing what is gathered when it would be too much. */
static int
gather(struct fy_algo *algo, struct gathered *all, uint32_t i, uint32_t j)
{
    const struct fy_cuts *cuts = &algo->cuts[N_CUTS];
    double depth = algo->extent[K_CUTS] > 0
                       ? (double)fy_cuts_longest(&algo->cuts[K_CUTS])
                       : 0;
    double operands = strchr(algo->row->signature, 'B') ? 2 : 1;
    double more = macro_elements(algo, i, j), lines = 0;
    uint32_t size = algo->macro_rows;
    const uint32_t line[2] = {i, j};
    int status = FY_OK;

    for (unsigned side = 0; side < (i == j ? 1 : 2); side++) {
        uint32_t end =
            line[side] + size < cuts->count ? line[side] + size : cuts->count;
        if (!all->lines[line[side]]) {
            lines += (double)(cuts->start[end] - cuts->start[line[side]]);
        }
    }
    /* A panel and a part of the next one must fit beside the macro-blocks. */
    bool full = all->elements + more +
                    (all->line_elements + lines) * operands * depth * 1.25 >
                algo->room;
    if (algo->planner->options.random) {
        full = all->count >= algo->macro_cols;
    }
    if (all->count > 0 && (full || all->count == MAX_GATHERED)) {
        status = compute(algo, all);
        if (status) {
            return status;
        }
        return gather(algo, all, i, j);
    }
    all->macros[all->count][0] = i;
    all->macros[all->count++][1] = j;
    all->elements += more;
    all->line_elements += lines;
    all->lines[i] = all->lines[j] = 1;
    return FY_OK;
}

static int
program(struct fy_algo *algo)
{
    uint32_t blocks = algo->cuts[N_CUTS].count, size = algo->macro_rows;
    struct gathered all = {.count = 0};
    bool forward = true;
    int status = FY_OK;

    all.lines = calloc(blocks, 1);
    if (!all.lines) {
        return FY_ERR_NOMEM;
    }
    for (uint32_t i = 0; status == FY_OK && i < blocks; i += size) {
        uint32_t count = i / size + 1;
        for (uint32_t s = 0; status == FY_OK && s < count; s++) {
            status =
                gather(algo, &all, i, (forward ? s : count - 1 - s) * size);
        }
        forward = !forward;
    }
    if (status == FY_OK && all.count > 0) {
        status = compute(algo, &all);
    }
    free(all.lines);
    return status;
}

/* n^2 k / sqrt(2 S) and the triangle (Beaumont et al. 2022). */
static double
bound(const struct fy_algo *algo, double elements)
{
    double n = (double)algo->n, k = (double)algo->k;
    double products = strchr(algo->row->signature, 'B') ? 2 : 1;
    return products * n * n * k / sqrt(2 * elements) + n * (n + 1) / 2;
}

const struct fy_algo_row fy_algo_rank_k[] = {
    {"syrk",
     "utnkaA1bC3",
     {"gemm"},
     setup,
     program,
     true,
     bound,
     NULL,
     FY_DIAGONAL_ANY},
    {"herk",
     "utnkaA1bC3",
     {"gemm"},
     setup,
     program,
     true,
     bound,
     NULL,
     FY_DIAGONAL_ANY},
    {NULL},
};

const struct fy_algo_row fy_algo_rank_2k[] = {
    {"syr2k",
     "utnkaA1B2bC3",
     {"gemm"},
     setup,
     program,
     true,
     bound,
     NULL,
     FY_DIAGONAL_ANY},
    {"her2k",
     "utnkaA1B2bC3",
     {"gemm"},
     setup,
     program,
     true,
     bound,
     NULL,
     FY_DIAGONAL_ANY},
    {NULL},
};
