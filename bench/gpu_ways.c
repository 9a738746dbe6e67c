/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways of computing a job: the program's own BLAS (which ferry or NVBLAS
 * may take over; the name is looked up as the loader would bind it), cuBLASXt,
 * and cuBLAS or cuSOLVER on operands that are on the card already.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu_card.h"

/* Scalars of every type, by pointer. */
static const float one_s[2] = {1, 0}, zero_s[2] = {0, 0};
static const double one_d[2] = {1, 0}, zero_d[2] = {0, 0};

static const void *
scalar(char type, bool one)
{
    if (type == 's') {
        return one ? one_s : zero_s;
    }
    return one ? one_d : zero_d;
}

int
bench_gemm(void *function, void *handle, char type, const int64_t sizes[3],
           const void *a, int64_t lda, const void *b, int64_t ldb, bool adds,
           void *c, int64_t ldc)
{
    int (*gemm)(void *, int, int, int64_t, int64_t, int64_t, const void *,
                const void *, int64_t, const void *, int64_t, const void *,
                void *, int64_t);
    memcpy(&gemm, &function, sizeof gemm);
    return gemm(handle, 0, 0, sizes[0], sizes[1], sizes[2], scalar(type, true),
                a, lda, b, ldb, scalar(type, adds), c, ldc);
}

/* cuBLAS's function of 64-bit integers, or cuBLASXt's, for a whole job. */
static int
level3(void *function, void *handle, const struct job *job, const void *a,
       const void *b, void *c)
{
    enum {
        LEFT = 0,
        LOWER = 0,
        AS_IT_IS = 0,
        NON_UNIT = 0
    };
    int (*symm)(void *, int, int, int64_t, int64_t, const void *, const void *,
                int64_t, const void *, int64_t, const void *, void *, int64_t);
    int (*syrk)(void *, int, int, int64_t, int64_t, const void *, const void *,
                int64_t, const void *, void *, int64_t);
    int (*trsm)(void *, int, int, int, int, int64_t, int64_t, const void *,
                const void *, int64_t, void *, int64_t);
    const void *one = scalar(job->type, true), *zero = scalar(job->type, false);
    const int64_t sizes[3] = {job->m, job->n, job->k};
    switch (job->kind) {
    case KIND_GEMM:
        return bench_gemm(function, handle, job->type, sizes, a, job->m, b,
                          job->k, job->adds, c, job->m);
    case KIND_SYMM:
        memcpy(&symm, &function, sizeof symm);
        return symm(handle, LEFT, LOWER, job->m, job->n, one, a, job->m, b,
                    job->m, zero, c, job->m);
    case KIND_SYRK:
        memcpy(&syrk, &function, sizeof syrk);
        return syrk(handle, LOWER, AS_IT_IS, job->n, job->k, one, a, job->n,
                    zero, c, job->n);
    default:
        memcpy(&trsm, &function, sizeof trsm);
        return trsm(handle, LEFT, LOWER, AS_IT_IS, NON_UNIT, job->m, job->n,
                    one, a, job->m, c, job->m);
    }
}

static bool
is_factorization(const struct job *job)
{
    return job->kind == KIND_POTRF || job->kind == KIND_GETRF;
}

/* "dgemm" of "dgemm:100:100:100" into a pattern with %c%s in it. */
static void
name_of(const struct job *job, const char *before, const char *after,
        bool capital, char out[64])
{
    int n = (int)strcspn(job->text, "+:");
    (void)snprintf(out, 64, "%s%.*s%s", before, n, job->text, after);
    if (capital) {
        char *letter = out + strlen(before);
        *letter = (char)(*letter - 'a' + 'A');
    }
}

/* ---- the program's own BLAS --------------------------------------------------- */

/* Fortran's calls, with integers that are right for both widths of INTEGER. */
union fortran {
    void *address;
    void (*gemm)(const char *, const char *, const int64_t *, const int64_t *,
                 const int64_t *, const void *, const void *, const int64_t *,
                 const void *, const int64_t *, const void *, void *,
                 const int64_t *, size_t, size_t);
    void (*gemv)(const char *, const int64_t *, const int64_t *, const void *,
                 const void *, const int64_t *, const void *, const int64_t *,
                 const void *, void *, const int64_t *, size_t);
    void (*symm)(const char *, const char *, const int64_t *, const int64_t *,
                 const void *, const void *, const int64_t *, const void *,
                 const int64_t *, const void *, void *, const int64_t *, size_t,
                 size_t);
    void (*syrk)(const char *, const char *, const int64_t *, const int64_t *,
                 const void *, const void *, const int64_t *, const void *,
                 void *, const int64_t *, size_t, size_t);
    void (*trsm)(const char *, const char *, const char *, const char *,
                 const int64_t *, const int64_t *, const void *, const void *,
                 const int64_t *, void *, const int64_t *, size_t, size_t,
                 size_t, size_t);
    void (*potrf)(const char *, const int64_t *, void *, const int64_t *,
                  int64_t *, size_t);
    void (*getrf)(const int64_t *, const int64_t *, void *, const int64_t *,
                  void *, int64_t *);
};

static void
call_fortran(void *address, struct job *job)
{
    union fortran f;
    const void *one = scalar(job->type, true), *zero = scalar(job->type, false);
    const int64_t *m = &job->m, *n = &job->n, *k = &job->k;
    void *a = job->a.data, *b = job->b.data, *c = job->c.data;
    int64_t info = 0;
    memcpy(&f, &address, sizeof f);
    switch (job->kind) {
    case KIND_GEMM:
        if (job->vector) {
            f.gemv("N", m, k, one, a, m, b, n, zero, c, n, 1); /* n is 1 */
            break;
        }
        f.gemm("N", "N", m, n, k, one, a, m, b, k, job->adds ? one : zero, c, m,
               1, 1);
        break;
    case KIND_SYMM:
        f.symm("L", "L", m, n, one, a, m, b, m, zero, c, m, 1, 1);
        break;
    case KIND_SYRK:
        f.syrk("L", "N", n, k, one, a, n, zero, c, n, 1, 1);
        break;
    case KIND_TRSM:
        f.trsm("L", "L", "N", "N", m, n, one, a, m, c, m, 1, 1, 1, 1);
        break;
    case KIND_POTRF:
        f.potrf("L", n, c, n, &info, 1);
        break;
    case KIND_GETRF:
        f.getrf(n, n, c, n, job->pivots, &info);
        break;
    }
    bench_must("info", (int)info);
}

static int
run_blas(struct job *job, struct times *times, const char **why)
{
    static const struct {
        const char *before, *after;
        bool wide;
    } spellings[] = {{"", "_", false},
                     {"scipy_", "_64_", true},
                     {"", "_64_", true},
                     {"scipy_", "_", false}};
    char name[64];
    void *function = NULL;
    for (size_t i = 0;
         function == NULL && i < sizeof spellings / sizeof spellings[0]; i++) {
        name_of(job, spellings[i].before, spellings[i].after, false, name);
        function = dlsym(RTLD_DEFAULT, name);
        job->wide = spellings[i].wide;
    }
    if (function == NULL) {
        *why = "no BLAS is preloaded";
        return -1;
    }
    double start = bench_now();
    call_fortran(function, job);
    times->call = bench_now() - start;
    return 0;
}

/* ---- cuBLASXt ------------------------------------------------------------------- */

static int
run_xt(struct job *job, struct times *times, const char **why)
{
    static void *handle;
    char name[64];
    int (*create)(void **), (*choose)(void *, int, int *), (*dim)(void *, int);
    int (*pin)(void *, int);
    struct card *card = bench_card(why);
    if (card == NULL) {
        return -1;
    }
    name_of(job, "cublasXt", "", true, name);
    void *function = bench_function(card->cublas, name);
    if (function == NULL || is_factorization(job) ||
        !bench_find(card->cublas, "cublasXtCreate", &create) ||
        !bench_find(card->cublas, "cublasXtDeviceSelect", &choose) ||
        !bench_find(card->cublas, "cublasXtSetBlockDim", &dim) ||
        !bench_find(card->cublas, "cublasXtSetPinningMemMode", &pin)) {
        *why = "no cuBLASXt function for it";
        return -1;
    }
    if (handle == NULL) {
        const char *block = getenv("GPU_CALLS_XT_BLOCK");
        int zero = 0, size = block == NULL ? 0 : atoi(block);
        bench_must("cublasXtCreate", create(&handle));
        bench_must("cublasXtDeviceSelect", choose(handle, 1, &zero));
        if (size > 0) {
            bench_must("cublasXtSetBlockDim", dim(handle, size));
        }
        bench_must("cublasXtSetPinningMemMode",
                   pin(handle, getenv("GPU_CALLS_XT_PIN") != NULL));
    }
    double start = bench_now();
    bench_must(name, level3(function, handle, job, job->a.data, job->b.data,
                            job->c.data));
    times->call = bench_now() - start;
    return 0;
}

/* ---- operands on the card --------------------------------------------------------- */

/* Factors C at `c'. */
static void
factor(struct card *card, const struct job *job, void *function, uint64_t c,
       uint64_t work, int elements, uint64_t pivots, uint64_t info)
{
    int (*potrf)(void *, int, int, void *, int, void *, int, int *);
    int (*getrf)(void *, int, int, void *, int, void *, int *, int *);
    int n = (int)job->n;
    void *at = (void *)(uintptr_t)c, *room = (void *)(uintptr_t)work;
    int *failed = (int *)(uintptr_t)info;
    if (job->kind == KIND_POTRF) {
        memcpy(&potrf, &function, sizeof potrf);
        bench_must("potrf",
                   potrf(card->solver, 0, n, at, n, room, elements, failed));
    } else {
        memcpy(&getrf, &function, sizeof getrf);
        bench_must("getrf", getrf(card->solver, n, n, at, n, room,
                                  (int *)(uintptr_t)pivots, failed));
    }
}

static int
work_elements(struct card *card, const struct job *job, void *size, uint64_t c)
{
    int (*of_potrf)(void *, int, int, void *, int, int *);
    int (*of_getrf)(void *, int, int, void *, int, int *);
    int n = (int)job->n, elements = 0;
    void *at = (void *)(uintptr_t)c;
    if (job->kind == KIND_POTRF) {
        memcpy(&of_potrf, &size, sizeof of_potrf);
        bench_must("bufferSize",
                   of_potrf(card->solver, 0, n, at, n, &elements));
    } else {
        memcpy(&of_getrf, &size, sizeof of_getrf);
        bench_must("bufferSize",
                   of_getrf(card->solver, n, n, at, n, &elements));
    }
    return elements;
}

static void
factor_on_card(struct card *card, struct job *job, void *function, void *size,
               uint64_t c, struct times *times)
{
    int elements = work_elements(card, job, size, c);
    struct matrix pivots = {.data = job->pivots,
                            .rows = (job->n + 1) / 2, /* two of 32 bits */
                            .columns = 1,
                            .type = 'd'};
    int32_t failed = 0;
    struct matrix info = {
        .data = &failed, .rows = 1, .columns = 1, .type = 's'};
    uint64_t work = bench_card_alloc(card, ((size_t)elements + 1) *
                                               bench_element_bytes(job->type));
    uint64_t rows = bench_card_alloc(card, (size_t)(job->n + 1) * 4);
    uint64_t flag = bench_card_alloc(card, sizeof failed);
    double start = bench_now();
    factor(card, job, function, c, work, elements, rows, flag);
    bench_must("cuStreamSynchronize", card->driver.stream_sync(card->compute));
    times->call = bench_now() - start;
    job->wide = false;
    if (job->kind == KIND_GETRF) {
        bench_card_move(card, &pivots, rows, true);
    }
    bench_card_move(card, &info, flag, true);
    bench_must("info", failed);
    bench_must("cuMemFree", card->driver.free(work));
    bench_must("cuMemFree", card->driver.free(rows));
    bench_must("cuMemFree", card->driver.free(flag));
}

/* The two functions of cuSOLVER, or the one of cuBLAS. */
static void *
core_function(struct card *card, const struct job *job, void **size)
{
    char name[64];
    *size = NULL;
    if (!is_factorization(job)) {
        name_of(job, "cublas", "_v2_64", true, name);
        return bench_function(card->cublas, name);
    }
    name_of(job, "cusolverDn", "_bufferSize", true, name);
    *size = bench_function(card->cusolver, name);
    name_of(job, "cusolverDn", "", true, name);
    return *size == NULL || card->solver == NULL
               ? NULL
               : bench_function(card->cusolver, name);
}

static int
run_core(struct job *job, struct times *times, const char **why)
{
    struct matrix *all[3] = {&job->a, &job->b, &job->c};
    uint64_t at[3] = {0, 0, 0};
    void *size;
    struct card *card = bench_card(why);
    if (card == NULL) {
        return -1;
    }
    void *function = core_function(card, job, &size);
    if (function == NULL) {
        *why = "no such function of cuBLAS or cuSOLVER";
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        if (all[i]->data != NULL) {
            at[i] = bench_card_alloc(card, (size_t)all[i]->rows *
                                               (size_t)all[i]->columns *
                                               bench_element_bytes(job->type));
        }
    }
    double start = bench_now();
    for (int i = 0; i < 3; i++) {
        if (at[i] != 0) {
            bench_card_move(card, all[i], at[i], false);
        }
    }
    times->copies = bench_now() - start;
    if (is_factorization(job)) {
        factor_on_card(card, job, function, size, at[2], times);
    } else {
        start = bench_now();
        bench_must("cuBLAS",
                   level3(function, card->blas, job, (void *)(uintptr_t)at[0],
                          (void *)(uintptr_t)at[1], (void *)(uintptr_t)at[2]));
        bench_must("cuStreamSynchronize",
                   card->driver.stream_sync(card->compute));
        times->call = bench_now() - start;
    }
    start = bench_now();
    bench_card_move(card, &job->c, at[2], true);
    times->copies += bench_now() - start;
    for (int i = 0; i < 3; i++) {
        if (at[i] != 0) {
            bench_must("cuMemFree", card->driver.free(at[i]));
        }
    }
    return 0;
}

const struct way bench_ways[] = {
    {"blas", run_blas},
    {"core", run_core},
    {"ring", bench_hand_ring},
    {"register", bench_hand_register},
    {"registered", bench_hand_registered},
    {"xt", run_xt},
    {NULL, NULL},
};
