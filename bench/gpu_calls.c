/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that bench/gpu times: one way of computing, one or more jobs,
 * each checked. Links neither BLAS nor CUDA: BLAS is preloaded, the rest found
 * by dlopen.
 *
 *   gpu_calls [-r ROUNDS] [-x MILLISECONDS] [-c CALLS] WAY JOB...
 *
 * WAY: blas core ring register registered xt. JOB: ROUTINE:M[:N[:K]], such as
 * dgemm:4096 or dpotrf:1000; of gemv ROUTINE:M[:N]; dgemm+:M has beta = 1, and
 * is not checked. With -x a time is that of
 * calls in a row that take so long, with -c of so many, divided by their number.
 * Prints a line of JSON a job.
 */
#include "config.h"

#include "bench/gpu_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ROUNDS_MAX = 64,
};

struct options {
    int rounds;
    double least_seconds;
    int least_calls;
};

static const struct {
    const char *name;
    enum kind kind;
} kinds[] = {
    {"gemm", KIND_GEMM},   {"gemv", KIND_GEMM}, {"symm", KIND_SYMM},
    {"syrk", KIND_SYRK},   {"trsm", KIND_TRSM}, {"potrf", KIND_POTRF},
    {"getrf", KIND_GETRF},
};

static bool
parse(const char *text, struct job *job)
{
    long long m = 0, n = 0, k = 0;
    const char *sizes = strchr(text, ':');
    bool known = false;
    *job = (struct job){.text = text, .type = text[0]};
    if (sizes == NULL || strchr("sdz", text[0]) == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t length = strlen(kinds[i].name);
        const bool adds = sizes[-1] == '+' && kinds[i].kind == KIND_GEMM;
        if ((size_t)(sizes - text) == length + 1 + adds &&
            strncmp(text + 1, kinds[i].name, length) == 0) {
            job->kind = kinds[i].kind;
            job->vector = strcmp(kinds[i].name, "gemv") == 0;
            job->adds = adds;
            known = true;
        }
    }
    int read = sscanf(sizes, ":%lld:%lld:%lld", &m, &n, &k);
    job->m = m;
    job->n = read < 2 ? m : n;
    job->k = read < 3 ? job->n : k;
    job->n = job->vector ? 1 : job->n;
    /* The check knows real matrices but for products. */
    return known && read >= 1 && m > 0 && job->n > 0 && job->k > 0 &&
           (job->type != 'z' || job->kind == KIND_GEMM);
}

static struct matrix
matrix(const struct job *job, unsigned seed, int64_t rows, int64_t columns,
       enum shape shape)
{
    return (struct matrix){.rows = rows,
                           .columns = columns,
                           .type = job->type,
                           .seed = seed,
                           .shape = shape};
}

static int
make(struct job *job)
{
    static const enum shape of_c[] = {
        [KIND_SYRK] = SHAPE_SYMMETRIC,
        [KIND_POTRF] = SHAPE_DEFINITE,
        [KIND_GETRF] = SHAPE_WHOLE,
    };
    enum kind kind = job->kind;
    bool product = kind == KIND_GEMM || kind == KIND_SYMM;
    int64_t rows = kind == KIND_SYRK || kind == KIND_POTRF ? job->n : job->m;
    job->c = matrix(job, 3, rows, job->n, of_c[kind]);
    if (kind == KIND_GEMM || kind == KIND_SYRK) {
        job->a = matrix(job, 1, kind == KIND_SYRK ? job->n : job->m, job->k,
                        SHAPE_WHOLE);
    } else if (kind == KIND_SYMM || kind == KIND_TRSM) {
        job->a = matrix(job, 1, job->m, job->m,
                        kind == KIND_TRSM ? SHAPE_LOWER : SHAPE_SYMMETRIC);
    }
    if (product) {
        job->b = matrix(job, 2, kind == KIND_SYMM ? job->m : job->k, job->n,
                        SHAPE_WHOLE);
    }
    if (kind == KIND_GETRF) {
        job->pivots = calloc((size_t)job->n + 1, sizeof(int64_t));
        if (job->pivots == NULL) {
            return -1;
        }
    }
    return (job->a.rows > 0 && bench_matrix_make(&job->a) != 0) ||
                   (job->b.rows > 0 && bench_matrix_make(&job->b) != 0) ||
                   bench_matrix_make(&job->c) != 0
               ? -1
               : 0;
}

/* Calls in a row for at least that long; only for what can be repeated. */
static int
sample(const struct way *way, struct job *job, double least_seconds,
       int least_calls, struct times *out, const char **why)
{
    struct times sum = {0, 0};
    int calls = 0;
    do {
        struct times one = {0, 0};
        if (way->run(job, &one, why) != 0) {
            return -1;
        }
        sum.call += one.call;
        sum.copies += one.copies;
        calls++;
    } while (job->kind == KIND_GEMM &&
             (calls < least_calls || sum.call < least_seconds));
    out->call = sum.call / calls;
    out->copies = sum.copies / calls;
    return 0;
}

static void
print_list(const char *name, const struct times *times, int count, bool copies)
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < count; i++) {
        printf("%s%.9g", i == 0 ? "" : ", ",
               copies ? times[i].copies : times[i].call);
    }
    printf("]");
}

static int
run(const struct way *way, struct job *job, const struct options *options)
{
    struct times first, times[ROUNDS_MAX];
    const char *why = "";
    int status = make(job);
    if (status != 0) {
        why = "not enough memory";
    } else {
        status = sample(way, job, 0, 1, &first, &why);
    }
    for (int i = 0; status == 0 && i < options->rounds; i++) {
        if (!bench_is_simulated()) {
            bench_matrix_fill(&job->c); /* it may be an operand, too */
        }
        status = sample(way, job, options->least_seconds, options->least_calls,
                        &times[i], &why);
    }
    printf("{\"job\": \"%s\", \"way\": \"%s\"", job->text, way->name);
    if (status != 0) {
        printf(", \"skip\": \"%s\"}\n", why);
    } else {
        const bool simulated = bench_is_simulated();
        double residual = simulated || job->adds ? 0 : bench_residual(job);
        double bound = bench_bound(job);
        printf(", \"first\": %.9g", first.call);
        print_list("seconds", times, options->rounds, false);
        print_list("copies", times, options->rounds, true);
        printf(", \"residual\": %.3g, \"bound\": %.3g, \"right\": %s}\n",
               residual > 1e300 ? 1e300 : residual, bound,
               residual <= bound ? "true" : "false");
    }
    (void)fflush(stdout);
    free(job->a.data);
    free(job->b.data);
    free(job->c.data);
    free(job->pivots);
    return status;
}

int
main(int argc, char **argv)
{
    struct options options = {.rounds = 3};
    const struct way *way = bench_ways;
    struct job job;
    int option;
    bench_simulate();
    while ((option = getopt(argc, argv, "r:x:c:")) != -1) {
        if (option == 'r') {
            options.rounds = atoi(optarg);
        } else if (option == 'x') {
            options.least_seconds = 1e-3 * atof(optarg);
        } else if (option == 'c') {
            options.least_calls = atoi(optarg);
        } else {
            return EXIT_FAILURE;
        }
    }
    if (optind + 2 > argc || options.rounds < 1 ||
        options.rounds > ROUNDS_MAX) {
        (void)fputs("usage: gpu_calls [-r ROUNDS] [-x MILLISECONDS] [-c CALLS] "
                    "WAY JOB...\n",
                    stderr);
        return EXIT_FAILURE;
    }
    while (way->name != NULL && strcmp(way->name, argv[optind]) != 0) {
        way++;
    }
    for (int i = optind + 1; i < argc; i++) {
        if (way->name == NULL || !parse(argv[i], &job)) {
            (void)fprintf(stderr, "gpu_calls: not known: %s %s\n", argv[optind],
                          argv[i]);
            return EXIT_FAILURE;
        }
        (void)run(way, &job, &options);
    }
    return EXIT_SUCCESS;
}
