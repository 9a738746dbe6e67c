/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that all blocked algorithms ask of their matrices and cuts.
 */
#include "config.h"

#include "pager/blocked/algo.h"

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
