/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syrk and herk: C := alpha op(A) op(A)^T + beta C on one triangle; syr2k and
 * her2k with two such products. Blocks on C's diagonal are calls of the same
 * function, all others are gemm.
 */
#include "config.h"

#include "pager/algo.h"

#include <math.h>
#include <string.h>

enum {
    N_CUTS,
    SAME_CUTS,
    K_CUTS
};
enum {
    GEMM = 1
};

static int
setup(struct fy_algo *algo)
{
    bool plain = algo->transa == 'N';

    if (algo->transa != 'N' && !algo->is_complex)
        algo->transa = 'T';
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
    return (struct fy_block){matrix, plain ? i : l, plain ? l : i};
}

/* One or two products on a block of C; l is FY_NIL when there is nothing to add. */
static int
update(struct fy_algo *algo, uint32_t r, uint32_t c, uint32_t l, bool first)
{
    bool plain = algo->transa == 'N',
         two = strchr(algo->row->signature, 'B') != NULL;
    bool adds = l != FY_NIL;
    char turned = fy_algo_adjoint(algo);
    uint8_t written = algo->matrices[2].access;
    struct fy_block blocks[3] = {{0}};
    struct fy_block_call call;
    double other[2] = {algo->alpha[0],
                       algo->hermitian ? -algo->alpha[1] : algo->alpha[1]};
    int status;

    if (!first)
        written = FY_ACCESS_INOUT;
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
            blocks[1] =
                two ? operand(algo, 'B', r, l) : (struct fy_block){'C', r, r};
        }
        blocks[two ? 2 : 1] = (struct fy_block){'C', r, r};
        return fy_algo_call(algo, &call, blocks);
    }
    struct fy_product product = {
        .transa = plain ? 'N' : turned,
        .transb = plain ? turned : 'N',
        .alpha = algo->alpha,
        .beta = call.beta,
        .c = {'C', r, c},
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
    if (status || !two || !adds)
        return status;
    product.a = operand(algo, 'B', r, l);
    product.b = operand(algo, 'A', c, l);
    product.alpha = other;
    product.beta = fy_one;
    product.c_access = FY_ACCESS_INOUT;
    return fy_algo_gemm(algo, GEMM, &product);
}

/* Blocks of C in supers I, J on or below the diagonal, mirrored for upper. */
static int
super(struct fy_algo *algo, uint32_t first_row, uint32_t first_col,
      uint32_t size)
{
    uint32_t blocks = algo->cuts[N_CUTS].count;
    bool accessed = algo->matrices[0].access && algo->extent[K_CUTS] > 0;
    uint32_t steps = accessed ? algo->cuts[K_CUTS].count : 1;

    for (uint32_t s = 0; s < steps; s++) {
        uint32_t l = algo->flip ? steps - 1 - s : s;
        for (uint32_t i = first_row; i < first_row + size && i < blocks; i++) {
            for (uint32_t j = first_col; j < first_col + size && j <= i; j++) {
                bool lower = algo->uplo == 'L';
                int status = update(algo, lower ? i : j, lower ? j : i,
                                    accessed ? l : FY_NIL, s == 0);
                if (status)
                    return status;
            }
        }
    }
    algo->flip = !algo->flip;
    return FY_OK;
}

static int
program(struct fy_algo *algo)
{
    uint32_t blocks = algo->cuts[N_CUTS].count;
    uint32_t size = algo->super_rows;
    bool forward = true;

    for (uint32_t i = 0; i < blocks; i += size) {
        uint32_t count = i / size + 1;
        for (uint32_t s = 0; s < count; s++) {
            uint32_t j = (forward ? s : count - 1 - s) * size;
            int status = super(algo, i, j, size);
            if (status)
                return status;
        }
        forward = !forward;
    }
    return FY_OK;
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
    {"syrk", "utnkaA1bC3", {"gemm"}, setup, program, bound},
    {"herk", "utnkaA1bC3", {"gemm"}, setup, program, bound},
    {NULL},
};

const struct fy_algo_row fy_algo_rank_2k[] = {
    {"syr2k", "utnkaA1B2bC3", {"gemm"}, setup, program, bound},
    {"her2k", "utnkaA1B2bC3", {"gemm"}, setup, program, bound},
    {NULL},
};
