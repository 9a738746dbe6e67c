/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector routines of the fake cuBLAS. Those with a result on the host wait
 * for it before they return, as the real ones do.
 */
#include "config.h"

#include <complex.h>
#include <string.h>

#include "tests/fakecuda/blas.h"
#include "tests/fakecuda/netlib.h"

#define INVALID CUBLAS_STATUS_INVALID_VALUE
#define FINE    CUBLAS_STATUS_SUCCESS

typedef const void *word;
typedef void axpy(word, word, word, word, word, word);
typedef void scal(word, word, word, word);
typedef void copy(word, word, word, word, word);
typedef float sdot(word, word, word, word, word);
typedef double ddot(word, word, word, word, word);
typedef float complex cdot(word, word, word, word, word);
typedef double complex zdot(word, word, word, word, word);
typedef float snrm2(word, word, word);
typedef double dnrm2(word, word, word);
typedef int64_t iamax(word, word, word);

static int
check_axpy(struct blas_call *call)
{
    if (call->alpha == NULL ||
        blas_use_vector(call, call->x, call->n, call->incx, false) != FINE ||
        blas_use_vector(call, call->y, call->n, call->incy, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_axpy(struct blas_call *call)
{
    axpy *function = (axpy *)netlib_routine("?axpy_", call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&call->n, call->alpha_value, blas_at(call->x), &call->incx,
             blas_at(call->y), &call->incy);
    return CUDA_SUCCESS;
}

static int
check_scal(struct blas_call *call)
{
    if (call->alpha == NULL || call->incx <= 0 ||
        blas_use_vector(call, call->x, call->n, call->incx, true) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
run_scal(struct blas_call *call)
{
    scal *function = (scal *)netlib_routine("?scal_", call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&call->n, call->alpha_value, blas_at(call->x), &call->incx);
    return CUDA_SUCCESS;
}

/* A complex vector by a real number. */
static int
run_rscal(struct blas_call *call)
{
    scal *function = (scal *)netlib_routine(
        call->type == 'C' ? "?sscal_" : "?dscal_", call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&call->n, call->alpha_value, blas_at(call->x), &call->incx);
    return CUDA_SUCCESS;
}

static int
check_pair(struct blas_call *call, bool write_x, bool write_y)
{
    if (blas_use_vector(call, call->x, call->n, call->incx, write_x) != FINE ||
        blas_use_vector(call, call->y, call->n, call->incy, write_y) != FINE) {
        return INVALID;
    }
    return FINE;
}

static int
check_copy(struct blas_call *call)
{
    return check_pair(call, false, true);
}

static int
check_swap(struct blas_call *call)
{
    return check_pair(call, true, true);
}

static int
run_pair(struct blas_call *call, const char *name)
{
    copy *function = (copy *)netlib_routine(name, call->type);

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function(&call->n, blas_at(call->x), &call->incx, blas_at(call->y),
             &call->incy);
    return CUDA_SUCCESS;
}

static int
run_copy(struct blas_call *call)
{
    return run_pair(call, "?copy_");
}

static int
run_swap(struct blas_call *call)
{
    return run_pair(call, "?swap_");
}

/* Where an answer goes: the host, or the device by pointer mode. */
static int
answer(const struct blas_call *call, const void *value, size_t bytes)
{
    void *to = call->device_scalars
                   ? fakecuda_at((uintptr_t)call->result, bytes)
                   : call->result;

    if (to == NULL) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memcpy(to, value, bytes);
    return CUDA_SUCCESS;
}

static int
check_dot(struct blas_call *call)
{
    return call->result == NULL ? INVALID : check_pair(call, false, false);
}

static int
run_dot_named(struct blas_call *call, const char *name)
{
    void *function = netlib_routine(name, call->type);
    union {
        float s;
        double d;
        float complex c;
        double complex z;
    } value;

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    switch (call->type) {
    case 'S':
        value.s = ((sdot *)function)(&call->n, blas_at(call->x), &call->incx,
                                     blas_at(call->y), &call->incy);
        break;
    case 'D':
        value.d = ((ddot *)function)(&call->n, blas_at(call->x), &call->incx,
                                     blas_at(call->y), &call->incy);
        break;
    case 'C':
        value.c = ((cdot *)function)(&call->n, blas_at(call->x), &call->incx,
                                     blas_at(call->y), &call->incy);
        break;
    default:
        value.z = ((zdot *)function)(&call->n, blas_at(call->x), &call->incx,
                                     blas_at(call->y), &call->incy);
        break;
    }
    return answer(call, &value, blas_bytes(call));
}

static int
run_dot(struct blas_call *call)
{
    return run_dot_named(call, "?dot_");
}

static int
run_dotu(struct blas_call *call)
{
    return run_dot_named(call, "?dotu_");
}

static int
run_dotc(struct blas_call *call)
{
    return run_dot_named(call, "?dotc_");
}

static int
check_norm(struct blas_call *call)
{
    return call->result == NULL
               ? INVALID
               : blas_use_vector(call, call->x, call->n, call->incx, false);
}

/* Fortran's names of the complex ones begin with the type of the answer. */
static int
run_norm(struct blas_call *call, const char *real, const char *complex_s,
         const char *complex_d)
{
    void *function;
    float single;
    double full;

    switch (call->type) {
    case 'C':
        function = netlib_routine(complex_s, 'S');
        break;
    case 'Z':
        function = netlib_routine(complex_d, 'D');
        break;
    default:
        function = netlib_routine(real, call->type);
        break;
    }
    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (call->type == 'S' || call->type == 'C') {
        single = ((snrm2 *)function)(&call->n, blas_at(call->x), &call->incx);
        return answer(call, &single, sizeof(single));
    }
    full = ((dnrm2 *)function)(&call->n, blas_at(call->x), &call->incx);
    return answer(call, &full, sizeof(full));
}

static int
run_nrm2(struct blas_call *call)
{
    return run_norm(call, "?nrm2_", "?cnrm2_", "?znrm2_");
}

static int
run_asum(struct blas_call *call)
{
    return run_norm(call, "?asum_", "?casum_", "?zasum_");
}

static int
run_amax(struct blas_call *call)
{
    const char *name;

    switch (call->type) {
    case 'S':
        name = "?samax_";
        break;
    case 'D':
        name = "?damax_";
        break;
    case 'C':
        name = "?camax_";
        break;
    default:
        name = "?zamax_";
        break;
    }
    iamax *function = (iamax *)netlib_routine(name, 'I');
    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    int64_t wide = function(&call->n, blas_at(call->x), &call->incx);
    int narrow = (int)wide;
    return call->integer_bytes == 8 ? answer(call, &wide, sizeof(wide))
                                    : answer(call, &narrow, sizeof(narrow));
}

const struct blas_routine blas_axpy = {check_axpy, run_axpy, 0, 0, 0};
const struct blas_routine blas_scal = {check_scal, run_scal, 0, 0, 0};
const struct blas_routine blas_rscal = {check_scal, run_rscal, true, 0, 0};
const struct blas_routine blas_copy = {check_copy, run_copy, 0, 0, 0};
const struct blas_routine blas_swap = {check_swap, run_swap, 0, 0, 0};
const struct blas_routine blas_dot = {check_dot, run_dot, 0, 0, true};
const struct blas_routine blas_dotu = {check_dot, run_dotu, 0, 0, true};
const struct blas_routine blas_dotc = {check_dot, run_dotc, 0, 0, true};
const struct blas_routine blas_nrm2 = {check_norm, run_nrm2, 0, 0, true};
const struct blas_routine blas_asum = {check_norm, run_asum, 0, 0, true};
const struct blas_routine blas_amax = {check_norm, run_amax, 0, 0, true};
