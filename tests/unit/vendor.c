/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names and argument orders of cuBLAS on the installed BLAS. What a real
 * library refuses (a code it does not know, a null matrix, a leading dimension
 * that is too small) makes a status that is not 0, which fails the step.
 */
#include "config.h"

#include "tests/unit/vendor.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/calls.h"

static unsigned ncalls;
static struct fy_device_ops ops;

static const char trans_letter[] = "NTC", fill_letter[] = "LU",
                  side_letter[] = "LR", diag_letter[] = "NU";

/* The Fortran routine of a type; missing ones end the test. */
static void *
routine(char type, const char *name)
{
    char symbol[32];

    ncalls++;
    (void)snprintf(symbol, sizeof(symbol), "%c%s_", type, name);
    return calls_symbol(symbol);
}

static bool
in(int code, int most)
{
    return code >= 0 && code <= most;
}

static int
gemm(char type, int ta, int tb, int m, int n, int k, const void *alpha,
     const void *a, int lda, const void *b, int ldb, const void *beta, void *c,
     int ldc)
{
    void (*f)(const char *, const char *, const int *, const int *, const int *,
              const void *, const void *, const int *, const void *,
              const int *, const void *, void *, const int *);
    *(void **)&f = routine(type, "gemm");
    if (!f || !in(ta, 2) || !in(tb, 2) || !a || !b || !c) {
        return 7;
    }
    f(&trans_letter[ta], &trans_letter[tb], &m, &n, &k, alpha, a, &lda, b, &ldb,
      beta, c, &ldc);
    return 0;
}

static int
symm(char type, const char *name, int side, int fill, int m, int n,
     const void *alpha, const void *a, int lda, const void *b, int ldb,
     const void *beta, void *c, int ldc)
{
    void (*f)(const char *, const char *, const int *, const int *,
              const void *, const void *, const int *, const void *,
              const int *, const void *, void *, const int *);
    *(void **)&f = routine(type, name);
    if (!f || !in(side, 1) || !in(fill, 1) || !a || !b || !c) {
        return 7;
    }
    f(&side_letter[side], &fill_letter[fill], &m, &n, alpha, a, &lda, b, &ldb,
      beta, c, &ldc);
    return 0;
}

static int
syrk(char type, const char *name, int fill, int trans, int n, int k,
     const void *alpha, const void *a, int lda, const void *beta, void *c,
     int ldc)
{
    void (*f)(const char *, const char *, const int *, const int *,
              const void *, const void *, const int *, const void *, void *,
              const int *);
    *(void **)&f = routine(type, name);
    if (!f || !in(fill, 1) || !in(trans, 2) || !a || !c) {
        return 7;
    }
    f(&fill_letter[fill], &trans_letter[trans], &n, &k, alpha, a, &lda, beta, c,
      &ldc);
    return 0;
}

static int
syr2k(char type, const char *name, int fill, int trans, int n, int k,
      const void *alpha, const void *a, int lda, const void *b, int ldb,
      const void *beta, void *c, int ldc)
{
    void (*f)(const char *, const char *, const int *, const int *,
              const void *, const void *, const int *, const void *,
              const int *, const void *, void *, const int *);
    *(void **)&f = routine(type, name);
    if (!f || !in(fill, 1) || !in(trans, 2) || !a || !b || !c) {
        return 7;
    }
    f(&fill_letter[fill], &trans_letter[trans], &n, &k, alpha, a, &lda, b, &ldb,
      beta, c, &ldc);
    return 0;
}

static int
triangle(char type, const char *name, int side, int fill, int trans, int diag,
         int m, int n, const void *alpha, const void *a, int lda, void *b,
         int ldb)
{
    void (*f)(const char *, const char *, const char *, const char *,
              const int *, const int *, const void *, const void *, const int *,
              void *, const int *);
    *(void **)&f = routine(type, name);
    if (!f || !in(side, 1) || !in(fill, 1) || !in(trans, 2) || !in(diag, 1) ||
        !a || !b) {
        return 7;
    }
    f(&side_letter[side], &fill_letter[fill], &trans_letter[trans],
      &diag_letter[diag], &m, &n, alpha, a, &lda, b, &ldb);
    return 0;
}

/* One name per type and function, as the library exports them. */
#define SYMM(P, type, name)                                               \
    static int P##name(void *h, int side, int fill, int m, int n,         \
                       const void *alpha, const void *a, int lda,         \
                       const void *b, int ldb, const void *beta, void *c, \
                       int ldc)                                           \
    {                                                                     \
        (void)h;                                                          \
        return symm(type, #name, side, fill, m, n, alpha, a, lda, b, ldb, \
                    beta, c, ldc);                                        \
    }
#define SYRK(P, type, name)                                                 \
    static int P##name(void *h, int fill, int trans, int n, int k,          \
                       const void *alpha, const void *a, int lda,           \
                       const void *beta, void *c, int ldc)                  \
    {                                                                       \
        (void)h;                                                            \
        return syrk(type, #name, fill, trans, n, k, alpha, a, lda, beta, c, \
                    ldc);                                                   \
    }
#define SYR2K(P, type, name)                                                \
    static int P##name(void *h, int fill, int trans, int n, int k,          \
                       const void *alpha, const void *a, int lda,           \
                       const void *b, int ldb, const void *beta, void *c,   \
                       int ldc)                                             \
    {                                                                       \
        (void)h;                                                            \
        return syr2k(type, #name, fill, trans, n, k, alpha, a, lda, b, ldb, \
                     beta, c, ldc);                                         \
    }
#define ALL(P, type)                                                           \
    static int P##gemm(void *h, int ta, int tb, int m, int n, int k,           \
                       const void *alpha, const void *a, int lda,              \
                       const void *b, int ldb, const void *beta, void *c,      \
                       int ldc)                                                \
    {                                                                          \
        (void)h;                                                               \
        return gemm(type, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c,     \
                    ldc);                                                      \
    }                                                                          \
    SYMM(P, type, symm)                                                        \
    SYRK(P, type, syrk)                                                        \
    SYR2K(P, type, syr2k)                                                      \
    static int P##trmm(void *h, int side, int fill, int trans, int diag,       \
                       int m, int n, const void *alpha, const void *a,         \
                       int lda, const void *b, int ldb, void *c, int ldc)      \
    {                                                                          \
        (void)h;                                                               \
        if (b != c || ldb != ldc) {                                            \
            return 15;                                                         \
        }                                                                      \
        return triangle(type, "trmm", side, fill, trans, diag, m, n, alpha, a, \
                        lda, c, ldc);                                          \
    }                                                                          \
    static int P##trsm(void *h, int side, int fill, int trans, int diag,       \
                       int m, int n, const void *alpha, const void *a,         \
                       int lda, void *b, int ldb)                              \
    {                                                                          \
        (void)h;                                                               \
        return triangle(type, "trsm", side, fill, trans, diag, m, n, alpha, a, \
                        lda, b, ldb);                                          \
    }

/* ---- cuSOLVER's names on the installed LAPACK ----------------------------------- */

enum {
    LWORK = 77
};
static char handle, work;

static int
size(const void *h, int most, int *elements)
{
    *elements = LWORK;
    return h == &handle && most >= 0 ? 0 : 3;
}

/* ints on the device, whatever LAPACK's integers are: here they are the same. */
#define SOLVER(P, type)                                                        \
    static int P##getrf_size(void *h, int m, int n, void *a, int lda, int *w)  \
    {                                                                          \
        return a && lda >= m ? size(h, n, w) : 7;                              \
    }                                                                          \
    static int P##potrf_size(void *h, int fill, int n, void *a, int lda,       \
                             int *w)                                           \
    {                                                                          \
        return a && lda >= n && in(fill, 1) ? size(h, n, w) : 7;               \
    }                                                                          \
    static int P##getrf(void *h, int m, int n, void *a, int lda, void *space,  \
                        int *pivots, int *info)                                \
    {                                                                          \
        void (*f)(const int *, const int *, void *, const int *, int *,        \
                  int *);                                                      \
        *(void **)&f = routine(type, "getrf");                                 \
        if (!f || h != &handle || space != &work || !a || !pivots || !info) {  \
            return 7;                                                          \
        }                                                                      \
        f(&m, &n, a, &lda, pivots, info);                                      \
        return 0;                                                              \
    }                                                                          \
    static int P##potrf(void *h, int fill, int n, void *a, int lda,            \
                        void *space, int lwork, int *info)                     \
    {                                                                          \
        void (*f)(const char *, const int *, void *, const int *, int *);      \
        *(void **)&f = routine(type, "potrf");                                 \
        if (!f || h != &handle || space != &work || lwork != LWORK || !a ||    \
            !info || !in(fill, 1)) {                                           \
            return 7;                                                          \
        }                                                                      \
        f(&fill_letter[fill], &n, a, &lda, info);                              \
        return 0;                                                              \
    }                                                                          \
    static int P##potrs(void *h, int fill, int n, int sides, void *a, int lda, \
                        void *b, int ldb, int *info)                           \
    {                                                                          \
        void (*f)(const char *, const int *, const int *, void *, const int *, \
                  void *, const int *, int *);                                 \
        *(void **)&f = routine(type, "potrs");                                 \
        if (!f || h != &handle || !a || !b || !info || !in(fill, 1)) {         \
            return 7;                                                          \
        }                                                                      \
        f(&fill_letter[fill], &n, &sides, a, &lda, b, &ldb, info);             \
        return 0;                                                              \
    }                                                                          \
    static int P##getrs(void *h, int trans, int n, int sides, void *a,         \
                        int lda, const int *pivots, void *b, int ldb,          \
                        int *info)                                             \
    {                                                                          \
        void (*f)(const char *, const int *, const int *, void *, const int *, \
                  const int *, void *, const int *, int *);                    \
        *(void **)&f = routine(type, "getrs");                                 \
        if (!f || h != &handle || !a || !b || !pivots || !info ||              \
            !in(trans, 2)) {                                                   \
            return 7;                                                          \
        }                                                                      \
        f(&trans_letter[trans], &n, &sides, a, &lda, pivots, b, &ldb, info);   \
        return 0;                                                              \
    }                                                                          \
    static int P##laswp(void *h, int n, void *a, int lda, int k1, int k2,      \
                        const int *pivots, int step)                           \
    {                                                                          \
        void (*f)(const int *, void *, const int *, const int *, const int *,  \
                  const int *, const int *);                                   \
        *(void **)&f = routine(type, "laswp");                                 \
        if (!f || h != &handle || !a || !pivots) {                             \
            return 7;                                                          \
        }                                                                      \
        f(&n, a, &lda, &k1, &k2, pivots, &step);                               \
        return 0;                                                              \
    }

SOLVER(S, 's')
SOLVER(D, 'd')
SOLVER(C, 'c')
SOLVER(Z, 'z')

ALL(S, 's')
ALL(D, 'd')
ALL(C, 'c')
ALL(Z, 'z')
SYMM(C, 'c', hemm)
SYMM(Z, 'z', hemm)
SYRK(C, 'c', herk)
SYRK(Z, 'z', herk)
SYR2K(C, 'c', her2k)
SYR2K(Z, 'z', her2k)

#define ROW(P, name)                                     \
    {                                                    \
        "cublas" #P #name "_v2", (void (*)(void))P##name \
    }
#define ROWS(P)                                                            \
    ROW(P, gemm), ROW(P, symm), ROW(P, syrk), ROW(P, syr2k), ROW(P, trmm), \
        ROW(P, trsm)

#define SOLVER_ROW(P, name)                            \
    {                                                  \
        "cusolverDn" #P #name, (void (*)(void))P##name \
    }
#define SIZE_ROW(P, name)                                                   \
    {                                                                       \
        "cusolverDn" #P #name "_bufferSize", (void (*)(void))P##name##_size \
    }
#define SOLVER_ROWS(P)                                                  \
    SOLVER_ROW(P, getrf), SOLVER_ROW(P, getrs), SOLVER_ROW(P, potrf),   \
        SOLVER_ROW(P, potrs), SOLVER_ROW(P, laswp), SIZE_ROW(P, getrf), \
        SIZE_ROW(P, potrf)

static const struct {
    const char *name;
    void (*function)(void);
} rows[] = {
    SOLVER_ROWS(S), SOLVER_ROWS(D), SOLVER_ROWS(C), SOLVER_ROWS(Z),
    ROWS(S),        ROWS(D),        ROWS(C),        ROWS(Z),
    ROW(C, hemm),   ROW(Z, hemm),   ROW(C, herk),   ROW(Z, herk),
    ROW(C, her2k),  ROW(Z, her2k),
};

static void *
resolve(struct fy_device *device, const char *name)
{
    size_t n = strlen(name);

    (void)device;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        size_t plain = strlen(rows[i].name);
        /* On x86-64 an int argument is the low half of a 64-bit one. */
        if (strncmp(rows[i].name, name, plain) == 0 &&
            (n == plain || strcmp(name + plain, "_64") == 0)) {
            void *function;
            memcpy(&function, &rows[i].function, sizeof(function));
            return function;
        }
    }
    return NULL;
}

/* Says what the workspace's function is asked with: the arguments in front. */
static int
ask_size(const struct fy_launch *launch, void *const *values, unsigned front)
{
    int (*four)(void *, int, int, void *, int, int *);
    int elements = 0;
    void *pointers[5];
    int numbers[5];

    if (!launch->size_function || front != 5 || launch->element_bytes < 4) {
        return FY_ERR_INVALID;
    }
    for (unsigned i = 0; i < front; i++) {
        memcpy(&pointers[i], values[i], sizeof(pointers[i]));
        memcpy(&numbers[i], values[i], sizeof(numbers[i]));
    }
    *(void **)&four = launch->size_function;
    if (four(pointers[0], numbers[1], numbers[2], pointers[3], numbers[4],
             &elements)) {
        return FY_ERR_DEVICE;
    }
    return elements == LWORK ? FY_OK : FY_ERR_DEVICE;
}

/* The host device knows no words: they are put in place here. */
static int
launch_words(struct fy_stream *stream, const struct fy_launch *launch)
{
    static const int lwork = LWORK;
    const void *pointers[FY_MAX_ARGS];
    void *values[FY_MAX_ARGS];
    struct fy_launch plain = *launch;

    if (!launch->words || launch->nargs > FY_MAX_ARGS) {
        return fy_device_host.launch(stream, launch);
    }
    for (unsigned i = 0; i < launch->nargs; i++) {
        values[i] = &pointers[i];
        switch (launch->words[i]) {
        case FY_WORD_CUBLAS:
        case FY_WORD_CUSOLVER:
            pointers[i] = &handle;
            break;
        case FY_WORD_INFO: /* its low half */
            pointers[i] = launch->info;
            break;
        case FY_WORD_WORKSPACE:
            pointers[i] = &work;
            if (ask_size(launch, values, i)) {
                return FY_ERR_DEVICE;
            }
            break;
        case FY_WORD_LWORK:
            pointers[i] = NULL;
            memcpy(&pointers[i], &lwork, sizeof(lwork));
            break;
        default:
            values[i] = launch->values[i];
            break;
        }
    }
    plain.values = values;
    return fy_device_host.launch(stream, &plain);
}

int
vendor_open(uint64_t memory_bytes, struct fy_device **out)
{
    int status = fy_device_host.open(memory_bytes, out);

    if (status == FY_OK) {
        ops = fy_device_host;
        ops.resolve = resolve;
        ops.launch = launch_words;
        (*out)->ops = &ops;
    }
    return status;
}

unsigned
vendor_calls(void)
{
    return ncalls;
}
