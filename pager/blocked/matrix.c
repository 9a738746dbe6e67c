/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that all blocked algorithms ask of their matrices and cuts.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include <stdlib.h>
#include <string.h>

const double fy_one[2] = {1, 0}, fy_minus_one[2] = {-1, 0};

char
fy_algo_adjoint(const struct fy_algo *algo)
{
    return algo->hermitian ? 'C' : 'T';
}

int64_t
fy_algo_length(const struct fy_algo *algo, unsigned dimension, uint32_t i)
{
    return fy_cuts_length(&algo->cuts[dimension], i);
}

int
fy_algo_identity(struct fy_algo *algo, unsigned dimension, bool tile)
{
    const unsigned cut = (unsigned)__builtin_ctz(algo->row->sizes->free);
    const int64_t side = fy_cuts_longest(&algo->cuts[cut]);
    struct fy_matrix *unit = &algo->matrices[3], *beside = &algo->matrices[1];
    const size_t bytes = algo->element_bytes;
    const size_t square = (size_t)side * (size_t)side * bytes;
    const struct fy_value one = {.kind = FY_V_COMPLEX, .r = 1};
    union fy_raw raw;

    free(algo->planner->factors);
    algo->planner->factors = calloc(tile ? 2 : 1, square);
    if (!algo->planner->factors) {
        return FY_ERR_NOMEM;
    }
    unit->host = algo->planner->factors;
    unit->rows = unit->cols = unit->ld = side;
    algo->extent[dimension] = side;
    if (tile) {
        beside->host = unit->host + square;
        beside->rows = beside->cols = beside->ld = side;
    }
    memset(&raw, 0, sizeof(raw));
    fy_raw_store((enum fy_type)algo->element, &one, &raw);
    for (size_t i = 0; i < (size_t)side; i++) {
        memcpy(unit->host + i * ((size_t)side + 1) * bytes, &raw, bytes);
    }
    return FY_OK;
}

void
fy_algo_view(const struct fy_algo *algo, const struct fy_matrix *matrix,
             struct fy_view *view)
{
    *view = (struct fy_view){.lo = INT64_MIN, .hi = INT64_MAX};
    if (!matrix->access) {
        return;
    }
    view->host = matrix->host;
    view->element_bytes =
        matrix->element_bytes ? matrix->element_bytes : algo->element_bytes;
    view->access = matrix->access;
    view->once = matrix->once;
    view->naxes = 2;
    view->extent[0] = matrix->rows;
    view->extent[1] = matrix->cols;
    const bool rows = (algo->row_major || algo->turned) != matrix->flipped;
    view->stride[rows ? 1 : 0] = 1;
    view->stride[rows ? 0 : 1] = matrix->ld;
    if (matrix->narrow) {
        view->element_bytes /= 2;
        view->stride[0] *= 2;
        view->stride[1] *= 2;
    }
    if (matrix->triangle) {
        view->sign = -1;
        if (matrix->triangle == 'L') {
            view->lo = matrix->strict ? 1 : 0;
        } else {
            view->hi = matrix->strict ? -1 : 0;
        }
    }
}
