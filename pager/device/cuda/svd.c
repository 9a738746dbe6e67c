/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large singular value decompositions with vectors: cuSOLVER's gesvd iterates by
 * QR and leaves most of a card idle, its gesvdp (polar decomposition and an
 * eigensolver) does not. A launch of gesvd is computed by gesvdp from a copy of
 * A where there is memory for that, and by gesvd itself after any refusal: A is
 * still there. What gesvdp answers is taken only when it is found right: NVIDIA
 * documents that it perturbs A where a singular value is close to zero, and
 * that h_err_sigma says by how much. Issuing threads only, but for cuda_svd_new.
 */
#include "config.h"

#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/model.h"
#include "pager/base/libm.h"
#include "pager/device/cuda/internal.h"

/* cusolverDn?gesvd(handle, jobu, jobvt, m, n, A, lda, S, U, ldu, VT, ldvt,
 * work, lwork, rwork, info) */
enum {
    JOBU = 1,
    JOBVT,
    ROWS,
    COLUMNS,
    A,
    LDA,
    S,
    U,
    LDU,
    VT,
    LDVT,
    WORK,
    LWORK,
    RWORK,
    INFO,
    ARGUMENTS
};

enum {
    ALIGN = 256,
    WITH_VECTORS = 1, /* CUSOLVER_EIG_MODE_VECTOR */
    ECONOMIC = 1,
    NO_TRANSPOSE = 0, /* cublasOperation_t */
    TRANSPOSE = 1,
    ADJOINT = 2,
    RIGHT = 1, /* CUBLAS_SIDE_RIGHT */
    /* Of eps: LAPACK promises a small multiple of eps * s[0] for each value
     * (Users' Guide, error bounds for the SVD). */
    MOST_PERTURBATION = 8,
    /* Of max(m, n) * eps * |A|: LAPACK's testers take 30, in other norms. */
    MOST_RESIDUAL = 4,
};

/* cuSOLVER asks for little memory of the host: a gigabyte is none of it. */
static const size_t most_host_bytes = (size_t)1 << 30;

/* An A100 needs less than half of gesvd's time at 400 columns, and the more
 * columns the less (tensor4all/tenferro-rs, issue 1849). */
int64_t cuda_svd_least = 512;

typedef int decomposer(void *handle, void *params, int job, int economic,
                       int64_t m, int64_t n, int type_a, void *a, int64_t lda,
                       int type_s, void *s, int type_u, void *u, int64_t ldu,
                       int type_v, void *v, int64_t ldv, int type, void *work,
                       size_t work_bytes, void *host_work, size_t host_bytes,
                       int *info, double *perturbation);

struct functions {
    int (*params_new)(void **params);
    int (*params_free)(void *params);
    int (*size)(void *handle, void *params, int job, int economic, int64_t m,
                int64_t n, int type_a, const void *a, int64_t lda, int type_s,
                const void *s, int type_u, const void *u, int64_t ldu,
                int type_v, const void *v, int64_t ldv, int type,
                size_t *work_bytes, size_t *host_bytes);
    decomposer *svd;
    /* cuBLAS; geam, gemm and nrm2 of A's type, dgmm of the real one */
    int (*geam)(void *handle, int op_a, int op_b, int m, int n,
                const void *alpha, const void *a, int lda, const void *beta,
                const void *b, int ldb, void *c, int ldc);
    int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k,
                const void *alpha, const void *a, int lda, const void *b,
                int ldb, const void *beta, void *c, int ldc);
    int (*dgmm)(void *handle, int side, int m, int n, const void *a, int lda,
                const void *x, int incx, void *c, int ldc);
    int (*nrm2)(void *handle, int n, const void *x, int incx, void *result);
};

/* The letters of a type in names, cudaDataType, and the size of its elements. */
struct type {
    const char *letter, *real, *norm;
    int data, real_data;
    unsigned bytes;
    bool is_double, is_complex;
};

static const struct type types[] = {
    {"S", "S", "Snrm2", 0, 0, 4, false, false},
    {"D", "D", "Dnrm2", 1, 1, 8, true, false},
    {"C", "S", "Scnrm2", 4, 0, 8, false, true},
    {"Z", "D", "Dznrm2", 5, 1, 16, true, true},
};

struct cuda_svd {
    const struct type *type;
    struct functions f;
    int64_t m, n, lda, ldu, ldvt;
    uint64_t a, s, u, vt;
};

/* What one decomposition has while it is computed. */
struct work {
    void *solver, *blas, *params;
    void *host;    /* cuSOLVER's workspace there */
    void *answers; /* pinned: the singular values, then an int of cuSOLVER's */
    uint64_t device;
    void *copy, *v, *work; /* in `device' */
    size_t work_bytes, host_bytes;
    double perturbation;
};

/* ---- which launches ---- */

static bool
find(struct cuda_device *device, const char *before, const char *letter,
     const char *after, void *out)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s%s%s", before, letter, after);
    void *function = device->base.ops->resolve(&device->base, name);
    memcpy(out, &function, sizeof function);
    return function != NULL;
}

static bool
find_all(struct cuda_device *device, const struct type *t, struct functions *f)
{
    return find(device, "cusolverDnCreateParams", "", "", &f->params_new) &&
           find(device, "cusolverDnDestroyParams", "", "", &f->params_free) &&
           find(device, "cusolverDnXgesvdp_bufferSize", "", "", &f->size) &&
           find(device, "cusolverDnXgesvdp", "", "", &f->svd) &&
           find(device, "cublas", t->letter, "geam", &f->geam) &&
           find(device, "cublas", t->letter, "gemm_v2", &f->gemm) &&
           find(device, "cublas", t->real, "dgmm", &f->dgmm) &&
           find(device, "cublas", t->norm, "_v2", &f->nrm2);
}

static bool
integer(const struct fy_launch *launch, unsigned i, int64_t *out)
{
    int narrow;
    switch (launch->types[i]) {
    case FY_T_I32:
        memcpy(&narrow, launch->values[i], sizeof narrow);
        *out = narrow;
        return true;
    case FY_T_I64:
    case FY_T_U64:
    case FY_T_POINTER:
        memcpy(out, launch->values[i], sizeof *out);
        return true;
    default:
        return false;
    }
}

static bool
address(const struct fy_launch *launch, unsigned i, uint64_t *out)
{
    int64_t value;
    if (!integer(launch, i, &value)) {
        return false;
    }
    *out = (uint64_t)value;
    return value != 0;
}

static const struct type *
type_of(struct cuda_device *device, const void *gesvd)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        void *function;
        if (find(device, "cusolverDn", types[i].letter, "gesvd", &function) &&
            function == gesvd) {
            return &types[i];
        }
    }
    return NULL;
}

/*
 * Both sides' vectors, of which gesvdp gives min(m, n). Values alone need no
 * iteration on vectors, which is what gesvd is slow at.
 */
static bool
reads(const struct fy_launch *launch, struct cuda_svd *svd)
{
    int64_t jobu, jobvt;
    if (!integer(launch, JOBU, &jobu) || !integer(launch, JOBVT, &jobvt) ||
        !integer(launch, ROWS, &svd->m) || !integer(launch, COLUMNS, &svd->n) ||
        !integer(launch, LDA, &svd->lda) || !integer(launch, LDU, &svd->ldu) ||
        !integer(launch, LDVT, &svd->ldvt) || !address(launch, A, &svd->a) ||
        !address(launch, S, &svd->s) || !address(launch, U, &svd->u) ||
        !address(launch, VT, &svd->vt)) {
        return false;
    }
    /* The checks count in ints: elements, and reals of a complex column. */
    return svd->n >= cuda_svd_least && svd->m >= svd->n &&
           (jobu == 'S' || (jobu == 'A' && svd->m == svd->n)) &&
           (jobvt == 'S' || jobvt == 'A') && svd->lda >= svd->m &&
           svd->ldu >= svd->m && svd->ldvt >= svd->n && svd->lda <= INT_MAX &&
           svd->ldu <= INT_MAX / 2 && svd->ldvt <= INT_MAX &&
           svd->m <= INT_MAX / svd->n;
}

struct cuda_svd *
cuda_svd_new(struct cuda_device *device, const struct fy_launch *launch)
{
    struct cuda_svd svd = {0};
    if (launch->nargs != ARGUMENTS || launch->words == NULL ||
        launch->words[0] != FY_WORD_CUSOLVER ||
        launch->words[WORK] != FY_WORD_WORKSPACE ||
        launch->words[LWORK] != FY_WORD_LWORK ||
        launch->words[INFO] != FY_WORD_INFO || !launch->status ||
        launch->grid != NULL || !reads(launch, &svd)) {
        return NULL;
    }
    svd.type = type_of(device, launch->function);
    if (svd.type == NULL || !find_all(device, svd.type, &svd.f)) {
        return NULL;
    }
    struct cuda_svd *out = malloc(sizeof *out);
    if (out != NULL) {
        *out = svd;
    }
    return out;
}

/* ---- one decomposition ---- */

static void *
at(uint64_t device)
{
    return (void *)(uintptr_t)device;
}

static uint64_t
aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static double
epsilon(const struct cuda_svd *svd)
{
    return svd->type->is_double ? DBL_EPSILON : (double)FLT_EPSILON;
}

static size_t
value_bytes(const struct cuda_svd *svd)
{
    return (size_t)svd->n * (svd->type->is_double ? 8 : 4);
}

static double
value(const struct cuda_svd *svd, const struct work *w, int64_t i)
{
    return svd->type->is_double ? ((const double *)w->answers)[i]
                                : (double)((const float *)w->answers)[i];
}

/* Handles, sizes and memory. False: something is not to be had. */
static bool
prepare(struct fy_stream *s, const struct cuda_svd *svd, struct work *w)
{
    const struct type *t = svd->type;
    const uint64_t copy = aligned((uint64_t)svd->m * svd->n * t->bytes);
    const uint64_t v = aligned((uint64_t)svd->n * svd->n * t->bytes);
    if (cuda_launch_handle(s, FY_CUDA_CUSOLVER, &w->solver) != 0 ||
        cuda_launch_handle(s, FY_CUDA_CUBLAS, &w->blas) != 0 ||
        svd->f.params_new(&w->params) != 0) {
        return false;
    }
    /* Before there is memory: NVIDIA's sizes depend on the shape alone. */
    if (svd->f.size(w->solver, w->params, WITH_VECTORS, ECONOMIC, svd->m,
                    svd->n, t->data, at(svd->a), svd->m, t->real_data,
                    at(svd->s), t->data, at(svd->u), svd->ldu, t->data,
                    at(svd->vt), svd->n, t->data, &w->work_bytes,
                    &w->host_bytes) != 0 ||
        w->host_bytes > most_host_bytes ||
        w->work_bytes > UINT64_MAX / 2 - copy - v) {
        return false;
    }
    w->host = malloc(w->host_bytes == 0 ? 1 : w->host_bytes);
    if (w->host == NULL || s->device->driver->host_alloc(
                               &w->answers, value_bytes(svd) + ALIGN, 0) != 0) {
        return false;
    }
    if (cuda_memory_take(s->device, copy + v + w->work_bytes, true,
                         &w->device) != 0) {
        w->device = 0;
        return false;
    }
    w->copy = at(w->device);
    w->v = at(w->device + copy);
    w->work = at(w->device + copy + v);
    return true;
}

/* Nothing runs on the stream. */
static void
finish(struct fy_stream *s, const struct cuda_svd *svd, struct work *w)
{
    if (w->device != 0) {
        cuda_memory_release(s->device, w->device, true);
    }
    if (w->answers != NULL) {
        (void)s->device->driver->host_free(w->answers);
    }
    free(w->host);
    if (w->params != NULL) {
        (void)svd->f.params_free(w->params);
    }
}

/* Submits it: from a copy, as cuSOLVER destroys what it is given. */
static bool
decompose(const struct cuda_svd *svd, struct work *w, uint64_t info)
{
    static const double one[2] = {1}, zero[2];
    static const float one_float[2] = {1}, zero_float[2];
    const struct type *t = svd->type;
    const void *alpha = t->is_double ? (const void *)one : one_float;
    const void *beta = t->is_double ? (const void *)zero : zero_float;
    const int m = (int)svd->m, n = (int)svd->n;
    w->perturbation = NAN;
    return svd->f.geam(w->blas, NO_TRANSPOSE, NO_TRANSPOSE, m, n, alpha,
                       at(svd->a), (int)svd->lda, beta, w->copy, m, w->copy,
                       m) == 0 &&
           svd->f.svd(w->solver, w->params, WITH_VECTORS, ECONOMIC, svd->m,
                      svd->n, t->data, w->copy, svd->m, t->real_data,
                      at(svd->s), t->data, at(svd->u), svd->ldu, t->data, w->v,
                      svd->n, t->data, w->work, w->work_bytes, w->host,
                      w->host_bytes, at(info), &w->perturbation) == 0;
}

/* What cuSOLVER says of it, read back. */
static bool
is_accepted(const struct cuda_svd *svd, const struct work *w)
{
    int info;
    const double largest = value(svd, w, 0);
    memcpy(&info, (const char *)w->answers + value_bytes(svd), sizeof info);
    if (info != 0 || !(largest > 0) || !isfinite(largest)) {
        return false;
    }
    for (int64_t i = 1; i < svd->n; i++) {
        if (!(value(svd, w, i) >= 0) ||
            !(value(svd, w, i) <= value(svd, w, i - 1))) {
            return false;
        }
    }
    /* Nobody says whether it is relative to A's norm: small by both. */
    return w->perturbation >= 0 && w->perturbation <= MOST_PERTURBATION *
                                                          epsilon(svd) *
                                                          fmin(largest, 1);
}

static bool
norm_of(const struct cuda_svd *svd, const struct work *w, const void *x,
        int64_t elements, double *out)
{
    double wide = NAN;
    float narrow = NAN;
    void *result = svd->type->is_double ? (void *)&wide : &narrow;
    if (svd->f.nrm2(w->blas, (int)elements, x, 1, result) != 0) {
        return false;
    }
    *out = svd->type->is_double ? wide : (double)narrow;
    return true;
}

/*
 * Whether the n columns of q are orthogonal and of length 1, as far as the norm
 * of Q^H Q shows it: no proof, but no other matrix than the one meant has it.
 */
static bool
is_unitary(const struct cuda_svd *svd, const struct work *w, const void *q,
           int64_t m, int64_t ld, const void *one, const void *zero)
{
    const int adjoint = svd->type->is_complex ? ADJOINT : TRANSPOSE;
    const int n = (int)svd->n;
    double norm;
    return svd->f.gemm(w->blas, adjoint, NO_TRANSPOSE, n, n, (int)m, one, q,
                       (int)ld, q, (int)ld, zero, w->copy, n) == 0 &&
           norm_of(svd, w, w->copy, svd->n * svd->n, &norm) &&
           fabs(norm / sqrt((double)svd->n) - 1) <=
               (double)svd->m * epsilon(svd);
}

/*
 * Whether A V = U diag(s) by the norm of the difference, V and U being unitary.
 * The copy of A is of no use any more; a column of complex numbers is scaled as
 * twice as many reals. Then V^H to its place.
 */
static bool
is_right(const struct cuda_svd *svd, struct work *w)
{
    static const double numbers[3][2] = {{1}, {0}, {-1}};
    static const float floats[3][2] = {{1}, {0}, {-1}};
    const struct type *t = svd->type;
    const void *one = t->is_double ? (const void *)numbers[0] : floats[0];
    const void *zero = t->is_double ? (const void *)numbers[1] : floats[1];
    const void *minus = t->is_double ? (const void *)numbers[2] : floats[2];
    const int m = (int)svd->m, n = (int)svd->n;
    const int reals = t->is_complex ? 2 : 1;
    double residual, norm = 0;
    for (int64_t i = 0; i < svd->n; i++) {
        norm = hypot(norm, value(svd, w, i));
    }
    return svd->f.dgmm(w->blas, RIGHT, reals * m, n, at(svd->u),
                       reals * (int)svd->ldu, at(svd->s), 1, w->copy,
                       reals * m) == 0 &&
           svd->f.gemm(w->blas, NO_TRANSPOSE, NO_TRANSPOSE, m, n, n, one,
                       at(svd->a), (int)svd->lda, w->v, n, minus, w->copy,
                       m) == 0 &&
           norm_of(svd, w, w->copy, svd->m * svd->n, &residual) &&
           residual <= MOST_RESIDUAL * (double)svd->m * epsilon(svd) * norm &&
           is_unitary(svd, w, w->v, svd->n, svd->n, one, zero) &&
           is_unitary(svd, w, at(svd->u), svd->m, svd->ldu, one, zero) &&
           svd->f.geam(w->blas, t->is_complex ? ADJOINT : TRANSPOSE,
                       NO_TRANSPOSE, n, n, one, w->v, n, zero, at(svd->vt),
                       (int)svd->ldvt, at(svd->vt), (int)svd->ldvt) == 0;
}

int
cuda_svd_issue(struct fy_stream *s, const struct cuda_svd *svd, uint64_t info,
               bool *done)
{
    const struct fy_cuda_driver *driver = s->device->driver;
    struct work w = {0};
    int result = 0, last = 0; /* `last' not 0: work may still run */
    bool good = prepare(s, svd, &w);
    if (good) {
        good = decompose(svd, &w, info);
        /* h_err_sigma is the host's: there when the stream is through. */
        result = driver->stream_sync(s->handle);
        if (result == 0 && good) {
            result = driver->copy_out(w.answers, svd->s, value_bytes(svd),
                                      s->handle);
        }
        if (result == 0 && good) {
            result = driver->copy_out((char *)w.answers + value_bytes(svd),
                                      info, sizeof(int), s->handle);
        }
        if (result == 0 && good) {
            result = driver->stream_sync(s->handle);
        }
        good = good && result == 0 && is_accepted(svd, &w) && is_right(svd, &w);
        last = driver->stream_sync(s->handle);
        result = result == 0 ? last : result;
    }
    int status =
        cuda_status(s->device, "a singular value decomposition", result);
    if (last == 0) {
        finish(s, svd, &w);
    } else if (cuda_is_dead(s->device)) {
        free(w.host); /* nothing runs there, and nothing can be freed there */
    }
    *done = good && result == 0;
    return status;
}
