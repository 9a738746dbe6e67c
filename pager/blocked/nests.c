/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms that are loop nests (nest.h), and the least that each moves. */
#include "config.h"

#include "pager/blocked/nest.h"

#include <math.h>
#include <string.h>

static const char rank_k[] = "for any i, j, l {"
                             "  i = j: self(a A[i,l], C[i,i]);"
                             "  i > j: gemm(a A[i,l], A[j,l]', C[i,j]);"
                             "}";

static const char rank_2k[] = "for any i, j, l {"
                              "  i = j: self(a A[i,l], B[i,l], C[i,i]);"
                              "  i > j: gemm(a A[i,l], B[j,l]', C[i,j]);"
                              "  i > j: gemm(c B[i,l], A[j,l]', C[i,j]);"
                              "}";

static const char symmetric[] = "for any i, o, k {"
                                "  i = k: self(a A[k,k], B[k,o], C[k,o]);"
                                "  i ! k: gemm(a A[i,k], B[k,o], C[i,o]);"
                                "}";

static const char multiply[] = "for o, i, k down {"
                               "  i < k: gemm(a A[i,k], B[k,o], B[i,o]);"
                               "  i = k: self(a A[k,k], B[k,o]);"
                               "}";

static const char solve[] = "for o, i, k {"
                            "  i = k: self(A[k,k], B[k,o]);"
                            "  i > k: gemm(- A[i,k], B[k,o], B[i,o]);"
                            "}";

#define FACTOR                                      \
    "for j, i, k {"                                 \
    "  i = j = k: potrf(A[k,k]);"                   \
    "  i > j = k: trsm(A[k,k]', A[i,k]);"           \
    "  i = j > k: syrk(- A[i,k], A[i,i]);"          \
    "  i > j > k: gemm(- A[i,k], A[j,k]', A[i,j]);" \
    "}"

#define SOLVE                                  \
    "for s, i, k {"                            \
    "  i = k: trsm(A[k,k], C[k,s]);"           \
    "  i > k: gemm(- A[i,k], C[k,s], C[i,s]);" \
    "} down {"                                 \
    "  i = k: trsm(A[k,k]', C[k,s]);"          \
    "  i > k: gemm(- A[i,k], C[k,s], C[i,s]);" \
    "}"

/* n^2 k / sqrt(2 S) and the triangle (Beaumont et al. 2022). */
static double
rank_bound(const struct fy_algo *algo, double elements)
{
    double n = (double)algo->n, k = (double)algo->k;
    double products = strchr(algo->row->signature, 'B') ? 2 : 1;
    return products * n * n * k / sqrt(2 * elements) + n * (n + 1) / 2;
}

/* gemm's 2 m n k / sqrt(S) with S counted twice, as each a serves twice. */
static double
symmetric_bound(const struct fy_algo *algo, double elements)
{
    double m = (double)algo->m, n = (double)algo->n;
    double k = algo->side == 'L' ? m : n;
    return 2 * m * n * k / sqrt(2 * elements) + m * n;
}

/* flops / sqrt(S) and B once. */
static double
triangle_bound(const struct fy_algo *algo, double elements)
{
    double m = (double)algo->m, n = (double)algo->n;
    double order = algo->side == 'L' ? m : n;
    return m * n * order / sqrt(elements) + m * n;
}

/* n^3 / (3 sqrt(2 S)) and the triangle (Beaumont et al. 2022); lauum has as many
 * operations. */
static double
factor_bound(const struct fy_algo *algo, double elements)
{
    const double n = (double)algo->n;
    return n * n * n / (3 * sqrt(2 * elements)) + n * (n + 1) / 2;
}

/* Both sweeps as trsm's, less what is on the device before each part. */
static double
solve_bound(const struct fy_algo *algo, double elements)
{
    const double n = (double)algo->n, k = (double)algo->k;
    return 2 * n * n * k / sqrt(elements) + n * k - 2 * elements;
}

static double
both_bound(const struct fy_algo *algo, double elements)
{
    return factor_bound(algo, elements) + solve_bound(algo, elements);
}

/* potrs: what a factor cannot be divided by is the original's. */
static int
search_solve(struct fy_algo *algo)
{
    if (!fy_algo_is_regular(algo)) {
        return FY_ERR_UNSUPPORTED;
    }
    return algo->planner->options.random ? fy_algo_random(algo)
                                         : fy_algo_search(algo);
}

#define RANK_ROW(CALL, HERMITIAN, SIGNATURE, SHAPES, NEST)                  \
    {                                                                       \
        .name = (CALL), .hermitian = (HERMITIAN), .signature = (SIGNATURE), \
        .using = {"gemm"}, .extents = "nnk", .shapes = (SHAPES),            \
        .nest = (NEST), .gathers = true, .bound = rank_bound                \
    }
#define SIDE_ROW(CALL, HERMITIAN, SIGNATURE, SHAPES, NEST, BOUND)           \
    {                                                                       \
        .name = (CALL), .hermitian = (HERMITIAN), .signature = (SIGNATURE), \
        .using = {"gemm"}, .extents = "mn", .shapes = (SHAPES),             \
        .nest = (NEST), .bound = (BOUND)                                    \
    }

const struct fy_algo_row fy_algo_nests[] = {
    RANK_ROW("syrk", false, "utnkaA1bC3", "A'il Cij", rank_k),
    RANK_ROW("herk", true, "utnkaA1bC3", "A'il Cij", rank_k),
    RANK_ROW("syr2k", false, "utnkaA1B2bC3", "A'il B'il Cij", rank_2k),
    RANK_ROW("her2k", true, "utnkaA1B2bC3", "A'il B'il Cij", rank_2k),
    SIDE_ROW("symm", false, "sumnaA1B2bC3", "Aik Bko Cio", symmetric,
             symmetric_bound),
    SIDE_ROW("hemm", true, "sumnaA1B2bC3", "Aik Bko Cio", symmetric,
             symmetric_bound),
    SIDE_ROW("trmm", false, "sutdmnaA1B2", "A'ik Bio", multiply,
             triangle_bound),
    SIDE_ROW("trsm", false, "sutdmnaA1B2", "A'ik Bio", solve, triangle_bound),
    {.name = "potrf",
     .hermitian = true,
     .signature = "unA1i",
     .using = {"trsm", "gemm", "syrk"},
     .extents = "nn",
     .shapes = "Aij",
     .nest = FACTOR,
     .bound = factor_bound,
     .diagonal = FY_DIAGONAL_REGULAR},
    {.name = "potrs",
     .hermitian = true,
     .signature = "unkA1C3i",
     .using = {"trsm", "gemm"},
     .extents = "nnk",
     .shapes = "Aij Cis",
     .nest = SOLVE,
     .bound = solve_bound,
     .search = search_solve},
    {.name = "posv",
     .hermitian = true,
     .signature = "unkA1C3i",
     .using = {"trsm", "gemm", "syrk", "potrf"},
     .extents = "nnk",
     .shapes = "Aij Cis",
     .nest = FACTOR SOLVE,
     .bound = both_bound,
     .diagonal = FY_DIAGONAL_REGULAR},
    {.name = "lauum",
     .hermitian = true,
     .signature = "unA1i",
     .using = {"trmm", "gemm", "syrk"},
     .extents = "nn",
     .shapes = "Aij",
     .nest = FY_NEST_SQUARE("k = i = j: self(A[k,k]);"),
     .bound = factor_bound},
    {NULL},
};
