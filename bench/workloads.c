/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads of Offload Annotations (Yuan et al., ATC '20) as C programs
 * that know nothing of ferry: chains of vector math (Black-Scholes, haversine),
 * and BLAS and LAPACK (PCA, truncated SVD, distances of DBSCAN).
 *
 *   workloads NAME N [ROUNDS]
 *
 * N is the number of options, places or rows. Prints one line of JSON: seconds
 * of each round after one that is not counted, and sums of the results, which
 * are the same with and without ferry up to rounding. Data is made from a fixed
 * seed; BLAS and LAPACK by LD_PRELOAD. Run by hand and by bench/gpu.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/vml.h"

enum {
    MAX_ROUNDS = 16,
    PCA_COLUMNS = 512,
    PCA_COMPONENTS = 10,
    SVD_COLUMNS = 512,
    SVD_RANK = 64,
    SVD_ITERATIONS = 5,
    DBSCAN_COLUMNS = 256,
    DBSCAN_ROWS = 4096, /* whose distances are looked at together */
    SUMS = 3,
};

/* Fortran's; from whichever BLAS and LAPACK the process was started with. */
typedef const double *in;
typedef const int *num;
typedef const char *letter;
static struct {
    void (*dgemm)(letter, letter, num, num, num, in, in, num, in, num, in,
                  double *, num);
    void (*dgemv)(letter, num, num, in, in, num, in, num, in, double *, num);
    void (*dger)(num, num, in, in, num, in, num, double *, num);
    void (*dsyrk)(letter, letter, num, num, in, in, num, in, double *, num);
    void (*dsyevd)(letter, letter, num, double *, num, double *, double *, num,
                   int *, num, int *);
    void (*dgeqrf)(num, num, double *, num, double *, double *, num, int *);
    void (*dorgqr)(num, num, num, double *, num, in, double *, num, int *);
    void (*dgesdd)(letter, num, num, double *, num, double *, double *, num,
                   double *, num, double *, num, int *, int *);
} la;

struct workload {
    const char *name;
    void *(*make)(int n);
    void (*run)(void *data, int n, double *sums);
};

static uint64_t state = 88172645463325252u;

/* Uniform in [low, high). */
static double
draw(double low, double high)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return low + (high - low) * ((double)(state >> 11) * 0x1p-53);
}

static void *
room(size_t elements)
{
    void *all = malloc(elements ? elements * sizeof(double) : 1);

    if (!all) {
        fprintf(stderr, "workloads: no memory for %zu doubles\n", elements);
        exit(1);
    }
    return all;
}

static double *
drawn(size_t elements, double low, double high)
{
    double *all = room(elements);

    for (size_t i = 0; i < elements; i++) {
        all[i] = draw(low, high);
    }
    return all;
}

static double
sum(const double *values, size_t elements)
{
    double all = 0.0;

    for (size_t i = 0; i < elements; i++) {
        all += values[i];
    }
    return all;
}

static void
must(int info, const char *what)
{
    if (info != 0) {
        fprintf(stderr, "workloads: %s: info %d\n", what, info);
        exit(1);
    }
}

static void
find(void *function, const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);

    if (!address) {
        fprintf(stderr, "workloads: nobody has %s: preload a LAPACK\n", name);
        exit(1);
    }
    memcpy(function, &address, sizeof(address));
}

static void
find_all(void)
{
    find(&la.dgemm, "dgemm_");
    find(&la.dgemv, "dgemv_");
    find(&la.dger, "dger_");
    find(&la.dsyrk, "dsyrk_");
    find(&la.dsyevd, "dsyevd_");
    find(&la.dgeqrf, "dgeqrf_");
    find(&la.dorgqr, "dorgqr_");
    find(&la.dgesdd, "dgesdd_");
}

static void
scale(int n, const double *a, double by, double *r)
{
    vdLinearFrac(n, a, a, by, 0.0, 0.0, 1.0, r);
}

static void
shift(int n, const double *a, double by, double *r)
{
    vdLinearFrac(n, a, a, 1.0, by, 0.0, 1.0, r);
}

/* ---- Black-Scholes: 32 calls, four inputs, two results ------------------- */

enum {
    PRICE,
    STRIKE,
    YEARS,
    VOLATILITY,
    CALL,
    PUT,
    D1,
    D2,
    DISCOUNT,
    DEVIATION,
    SCRATCH,
    OPTION_VECTORS
};

static void *
make_options(int n)
{
    double **v = malloc(OPTION_VECTORS * sizeof(*v));

    if (!v) {
        exit(1);
    }
    v[PRICE] = drawn((size_t)n, 10.0, 50.0);
    v[STRIKE] = drawn((size_t)n, 10.0, 50.0);
    v[YEARS] = drawn((size_t)n, 1.0, 2.0);
    v[VOLATILITY] = drawn((size_t)n, 0.1, 0.5);
    for (int i = CALL; i < OPTION_VECTORS; i++) {
        v[i] = calloc((size_t)n, sizeof(double));
        if (!v[i]) {
            exit(1);
        }
    }
    return v;
}

/* The normal distribution's integral up to x, in place: 4 calls. */
static void
normal(int n, double *x)
{
    scale(n, x, 0.70710678118654752440, x);
    vdErf(n, x, x);
    scale(n, x, 0.5, x);
    shift(n, x, 0.5, x);
}

static void
run_options(void *data, int n, double *sums)
{
    double **v = data;
    double *d1 = v[D1], *d2 = v[D2], *e = v[DISCOUNT], *dev = v[DEVIATION];
    double *t = v[SCRATCH];
    const double rate = 0.02;

    /* d1 = (log(price / strike) + (rate + vol^2 / 2) years) / dev */
    vdSqr(n, v[VOLATILITY], t);
    scale(n, t, 0.5, t);
    shift(n, t, rate, t);
    vdMul(n, t, v[YEARS], t);
    vdDiv(n, v[PRICE], v[STRIKE], d1);
    vdLn(n, d1, d1);
    vdAdd(n, d1, t, d1);
    vdSqrt(n, v[YEARS], dev);
    vdMul(n, v[VOLATILITY], dev, dev);
    vdDiv(n, d1, dev, d1);
    vdSub(n, d1, dev, d2);
    normal(n, d1);
    normal(n, d2);
    /* e = strike exp(-rate years) */
    scale(n, v[YEARS], -rate, e);
    vdExp(n, e, e);
    vdMul(n, v[STRIKE], e, e);
    /* call = price d1 - e d2; put = e (1 - d2) - price (1 - d1) */
    vdMul(n, v[PRICE], d1, v[CALL]);
    vdMul(n, e, d2, t);
    vdSub(n, v[CALL], t, v[CALL]);
    scale(n, d2, -1.0, d2);
    shift(n, d2, 1.0, d2);
    vdMul(n, e, d2, v[PUT]);
    scale(n, d1, -1.0, d1);
    shift(n, d1, 1.0, d1);
    vdMul(n, v[PRICE], d1, t);
    vdSub(n, v[PUT], t, v[PUT]);
    sums[0] = sum(v[CALL], (size_t)n);
    sums[1] = sum(v[PUT], (size_t)n);
}

/* ---- haversine: distances of n places to one, 16 calls -------------------- */

enum {
    LATITUDE,
    LONGITUDE,
    MILES,
    HALF,
    COSINE,
    PLACE_VECTORS
};

static void *
make_places(int n)
{
    double **v = malloc(PLACE_VECTORS * sizeof(*v));

    if (!v) {
        exit(1);
    }
    v[LATITUDE] = drawn((size_t)n, -1.5, 1.5);
    v[LONGITUDE] = drawn((size_t)n, -3.0, 3.0);
    for (int i = MILES; i < PLACE_VECTORS; i++) {
        v[i] = calloc((size_t)n, sizeof(double));
        if (!v[i]) {
            exit(1);
        }
    }
    return v;
}

static void
run_places(void *data, int n, double *sums)
{
    double **v = data;
    double *a = v[MILES], *b = v[HALF], *c = v[COSINE];
    const double latitude = 0.70984286, longitude = -1.29744104;

    shift(n, v[LATITUDE], -latitude, a);
    scale(n, a, 0.5, a);
    vdSin(n, a, a);
    vdSqr(n, a, a);
    shift(n, v[LONGITUDE], -longitude, b);
    scale(n, b, 0.5, b);
    vdSin(n, b, b);
    vdSqr(n, b, b);
    vdCos(n, v[LATITUDE], c);
    scale(n, c, cos(latitude), c);
    vdMul(n, b, c, b);
    vdAdd(n, a, b, a);
    vdSqrt(n, a, a);
    vdAsin(n, a, a);
    scale(n, a, 2.0, a);
    scale(n, a, 3959.0, a);
    sums[0] = sum(a, (size_t)n);
}

/* ---- PCA: n rows of PCA_COLUMNS, row by row in memory --------------------- */

/* Low rank and noise, so that the components are well defined. */
static double *
rows_of(int n, int columns)
{
    double *x = drawn((size_t)n * (size_t)columns, -0.1, 0.1);

    for (int i = 0; i < n; i++) {
        double *row = x + (size_t)i * (size_t)columns;
        for (int k = 0; k < 8; k++) {
            double weight = draw(-1.0, 1.0) * (8 - k);
            for (int j = k; j < columns; j += 8) {
                /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): drawn() fills it */
                row[j] += weight;
            }
        }
    }
    return x;
}

static void *
make_pca(int n)
{
    find_all();
    return rows_of(n, PCA_COLUMNS);
}

static void
run_pca(void *data, int n, double *sums)
{
    int d = PCA_COLUMNS, k = PCA_COMPONENTS, one = 1, info, minus = -1;
    size_t elements = (size_t)n * (size_t)d;
    double *x = room(elements), *ones = room((size_t)n);
    double *mean = room((size_t)d), *scores = room((size_t)n * (size_t)k);
    double *covariance = calloc((size_t)d * (size_t)d, sizeof(double));
    double *values = room((size_t)d), *work, best, by, zero = 0.0, unit = 1.0;
    int *iwork, lwork, liwork;

    memcpy(x, data, elements * sizeof(*x));
    for (int i = 0; i < n; i++) {
        ones[i] = 1.0;
    }
    /* Fortran sees the columns-by-rows transpose. */
    by = 1.0 / n;
    la.dgemv("N", &d, &n, &by, x, &d, ones, &one, &zero, mean, &one);
    by = -1.0;
    la.dger(&d, &n, &by, mean, &one, ones, &one, x, &d);
    by = 1.0 / (n - 1);
    la.dsyrk("U", "N", &d, &n, &by, x, &d, &zero, covariance, &d);
    la.dsyevd("V", "U", &d, covariance, &d, values, &best, &minus, &liwork,
              &minus, &info);
    must(info, "dsyevd");
    lwork = (int)best;
    work = room((size_t)lwork);
    iwork = malloc((size_t)liwork * sizeof(*iwork));
    la.dsyevd("V", "U", &d, covariance, &d, values, work, &lwork, iwork,
              &liwork, &info);
    must(info, "dsyevd");
    la.dgemm("T", "N", &k, &n, &d, &unit,
             covariance + (size_t)(d - k) * (size_t)d, &d, x, &d, &zero, scores,
             &k);
    sums[0] = sum(values + d - k, (size_t)k);
    for (size_t i = 0; i < (size_t)n * (size_t)k; i++) {
        sums[1] += scores[i] * scores[i];
    }
    free(x);
    free(ones);
    free(mean);
    free(scores);
    free(covariance);
    free(values);
    free(work);
    free(iwork);
}

/* ---- truncated SVD: subspace iteration from a random start ---------------- */

static void *
make_svd(int n)
{
    find_all();
    return rows_of(n, SVD_COLUMNS);
}

/* An orthonormal basis of the columns of q, in place. */
static void
orthonormal(int rows, int columns, double *q)
{
    double *tau = room((size_t)columns), *work, best[2];
    int minus = -1, lwork, info;

    la.dgeqrf(&rows, &columns, q, &rows, tau, &best[0], &minus, &info);
    must(info, "dgeqrf");
    la.dorgqr(&rows, &columns, &columns, q, &rows, tau, &best[1], &minus,
              &info);
    must(info, "dorgqr");
    lwork = (int)fmax(best[0], best[1]);
    work = room((size_t)lwork);
    la.dgeqrf(&rows, &columns, q, &rows, tau, work, &lwork, &info);
    must(info, "dgeqrf");
    la.dorgqr(&rows, &columns, &columns, q, &rows, tau, work, &lwork, &info);
    must(info, "dorgqr");
    free(tau);
    free(work);
}

static void
run_svd(void *data, int n, double *sums)
{
    int d = SVD_COLUMNS, k = SVD_RANK, minus = -1, info, lwork;
    double *x = data, *y = room((size_t)n * (size_t)k);
    double *b = room((size_t)d * (size_t)k), *values = room((size_t)k);
    double *vt = room((size_t)k * (size_t)k), *u = room((size_t)d * (size_t)k);
    double *work, best, unit = 1.0, zero = 0.0;
    int *iwork = malloc(8 * (size_t)k * sizeof(*iwork));

    for (int i = 0; i < d * k; i++) {
        b[i] = sin(1.0 + i); /* no start that depends on the round */
    }
    for (int i = 0; i < SVD_ITERATIONS; i++) {
        la.dgemm("T", "N", &n, &k, &d, &unit, x, &d, b, &d, &zero, y, &n);
        orthonormal(n, k, y);
        la.dgemm("N", "N", &d, &k, &n, &unit, x, &d, y, &n, &zero, b, &d);
        if (i + 1 < SVD_ITERATIONS) {
            orthonormal(d, k, b);
        }
    }
    la.dgesdd("S", &d, &k, b, &d, values, u, &d, vt, &k, &best, &minus, iwork,
              &info);
    must(info, "dgesdd");
    lwork = (int)best;
    work = room((size_t)lwork);
    la.dgesdd("S", &d, &k, b, &d, values, u, &d, vt, &k, work, &lwork, iwork,
              &info);
    must(info, "dgesdd");
    sums[0] = sum(values, 8);
    sums[1] = values[0];
    free(y);
    free(b);
    free(values);
    free(vt);
    free(u);
    free(work);
    free(iwork);
}

/* ---- DBSCAN: how many neighbours each of n points has --------------------- */

static void *
make_points(int n)
{
    find_all();
    return rows_of(n, DBSCAN_COLUMNS);
}

static void
run_points(void *data, int n, double *sums)
{
    int d = DBSCAN_COLUMNS;
    double *x = data, *norms = room((size_t)n), minus_two = -2.0, zero = 0.0;
    double *g = room((size_t)DBSCAN_ROWS * (size_t)n), radius = 0.0;
    uint64_t neighbours = 0;

    for (int i = 0; i < n; i++) {
        const double *row = x + (size_t)i * (size_t)d;
        norms[i] = 0.0;
        for (int j = 0; j < d; j++) {
            norms[i] += row[j] * row[j];
        }
        radius += norms[i] / n;
    }
    for (int first = 0; first < n; first += DBSCAN_ROWS) {
        int rows = n - first < DBSCAN_ROWS ? n - first : DBSCAN_ROWS;
        la.dgemm("T", "N", &n, &rows, &d, &minus_two, x, &d,
                 x + (size_t)first * (size_t)d, &d, &zero, g, &n);
        for (int i = 0; i < rows; i++) {
            const double *row = g + (size_t)i * (size_t)n;
            double limit = radius - norms[first + i];
            unsigned near = 0;
            for (int j = 0; j < n; j++) {
                near += row[j] + norms[j] <= limit;
            }
            neighbours += near;
        }
    }
    sums[0] = (double)neighbours;
    free(norms);
    free(g);
}

static const struct workload workloads[] = {
    {"black-scholes", make_options, run_options},
    {"haversine", make_places, run_places},
    {"pca", make_pca, run_pca},
    {"truncated-svd", make_svd, run_svd},
    {"dbscan", make_points, run_points},
};

static double
now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int
main(int argc, char **argv)
{
    const struct workload *workload = NULL;
    long n = argc > 2 ? atol(argv[2]) : 0;
    long rounds = argc > 3 ? atol(argv[3]) : 3;
    double seconds[MAX_ROUNDS + 1], sums[SUMS];
    void *data;

    for (size_t i = 0; argc > 1 && i < sizeof(workloads) / sizeof(*workloads);
         i++) {
        if (strcmp(workloads[i].name, argv[1]) == 0) {
            workload = &workloads[i];
        }
    }
    if (!workload || n < 1024 || n > INT32_MAX || rounds < 1 ||
        rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: workloads black-scholes | haversine | pca | "
                        "truncated-svd | dbscan N [ROUNDS]\n"
                        "N: 1024 or more; ROUNDS: 1 to 16\n");
        return 2;
    }
    data = workload->make((int)n);
    for (long i = 0; i <= rounds; i++) {
        memset(sums, 0, sizeof(sums));
        seconds[i] = now();
        workload->run(data, (int)n, sums);
        seconds[i] = now() - seconds[i];
    }
    printf("{\"name\": \"%s\", \"n\": %ld, \"seconds\": [", workload->name, n);
    for (long i = 1; i <= rounds; i++) {
        printf("%s%.6f", i > 1 ? ", " : "", seconds[i]);
    }
    printf("], \"sums\": [%.15g, %.15g, %.15g]}\n", sums[0], sums[1], sums[2]);
    return 0;
}
