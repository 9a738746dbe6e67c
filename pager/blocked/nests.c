/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithms that annotation files declare: what the planner knows of them, and the
 * least that each moves.
 */
#include "config.h"

#include "pager/blocked/nest.h"

#include <math.h>
#include <string.h>

/* ---- bounds ---- */

/* n^2 k / sqrt(2 S) and the triangle (Beaumont et al. 2022). */
static double
rank_bound(const struct fy_algo *algo, double elements)
{
    double n = (double)algo->n, k = (double)algo->k;
    double products = strchr(algo->row->signature, 'B') ? 2 : 1;
    return products * n * n * k / sqrt(2 * elements) + n * (n + 1) / 2;
}

/* flops / sqrt(S) and B once. */
static double
triangle_bound(const struct fy_algo *algo, double elements)
{
    double m = (double)algo->m, n = (double)algo->n;
    double order = algo->side == 'L' ? m : n;
    return m * n * order / sqrt(elements) + m * n;
}

/* Both sweeps as trsm's, less what is on the device before each part. */
static double
solve_bound(const struct fy_algo *algo, double elements)
{
    const double n = (double)algo->n, k = (double)algo->k;
    return 2 * n * n * k / sqrt(elements) + n * k - 2 * elements;
}

/* n^3 / (3 sqrt(2 S)) and the triangle (Beaumont et al. 2022), and the solves. */
static double
definite_bound(const struct fy_algo *algo, double elements)
{
    const double n = (double)algo->n;
    return n * n * n / (3 * sqrt(2 * elements)) + n * (n + 1) / 2 +
           solve_bound(algo, elements);
}

/* As Cholesky's, which has as many operations as each part, less what is on the device
 * before. */
static double
inverse_bound(const struct fy_algo *algo, double elements)
{
    const double n = (double)algo->n;
    const double part = n * n * n / (3 * sqrt(2 * elements)) - elements;
    const bool product = strcmp(algo->row->name, "potri") == 0;

    return (product ? 2 * part : part) + n * (n + 1) / 2;
}

/* Of the others: each operand of a product may serve twice, as in symm, potrf and
 * lauum (Beaumont et al. 2022). */
static double
flops_bound(const struct fy_algo *algo, double elements)
{
    const struct fy_bound *bound = algo->planner->bound;
    const double flops = bound->flops / (algo->is_complex ? 4 : 1);
    double written = 0;

    for (unsigned i = 0; i < bound->function->noperands; i++) {
        const struct fy_view *view = &bound->views[i];
        if (view->naxes >= 2 && (view->access & FY_ACCESS_OUT)) {
            written += (double)fy_view_all_elements(view);
        }
    }
    return flops / sqrt(2 * elements) + written;
}

static const struct {
    const char *name;
    double (*bound)(const struct fy_algo *algo, double elements);
} bounds[] = {
    {"syrk", rank_bound},     {"herk", rank_bound},
    {"syr2k", rank_bound},    {"her2k", rank_bound},
    {"trmm", triangle_bound}, {"trsm", triangle_bound},
    {"potrs", solve_bound},   {"posv", definite_bound},
    {"trtri", inverse_bound}, {"potri", inverse_bound},
};

/* ---- rows ---- */

/* The functions behind `using', without the prefix that gemm has. */
static void
list_functions(struct fy_algo *algo, const char *prefix)
{
    const struct fy_bound *bound = algo->planner->bound;
    const char *list =
        fy_model_string(bound->model, bound->function->blocked_using);
    const size_t skip = strlen(prefix);
    unsigned count = 0;

    for (; *list; list += strspn(list, " ")) {
        const size_t length = strcspn(list, " ");
        char *name = algo->declared.names[count];
        if (count + 1 < FY_MAX_ROUTINES && length > skip &&
            length - skip < sizeof(algo->declared.names[0])) {
            memcpy(name, list + skip, length - skip);
            name[length - skip] = '\0';
            if (strcmp(name, algo->declared.row.name) != 0) {
                algo->declared.row.using[count++] = name;
            }
        }
        list += length;
    }
}

int
fy_nest_declared(struct fy_algo *algo)
{
    const struct fy_bound *bound = algo->planner->bound;
    struct fy_nest_reader reader = {
        .at = fy_model_string(bound->model, bound->function->blocked_nest)};
    struct fy_algo_row *row = &algo->declared.row;
    struct fy_nest nest;
    char prefix[32];

    if (!fy_nest_read_head(&reader, &algo->declared.head) ||
        fy_algo_prefix(bound, prefix, sizeof(prefix))) {
        return FY_ERR_UNSUPPORTED;
    }
    *row = (struct fy_algo_row){
        .name = fy_model_string(bound->model, bound->function->blocked_by),
        .signature = algo->declared.signature,
        .nest = reader.at,
        .extents = algo->declared.head.extents,
        .shapes = algo->declared.head.shapes,
        .hermitian = algo->declared.head.hermitian,
        .bound = flops_bound,
        .setup = fy_nest_setup,
        .sizes = algo->declared.head.tiles ? &fy_tiles_sizes : NULL,
    };
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        if (strcmp(bounds[i].name, row->name) == 0) {
            row->bound = bounds[i].bound;
        }
    }
    list_functions(algo, prefix);
    if (!fy_nest_read(&reader, &nest)) {
        return FY_ERR_UNSUPPORTED;
    }
    row->gathers = nest.any && (nest.outer == 'j' || nest.inner == 'j');
    algo->row = row;
    return fy_algo_signature(bound->function, bound->model,
                             algo->declared.signature);
}
