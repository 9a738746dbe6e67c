/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of several threads with one set of matrices: `threads THREADS
 * ROUNDS SEED [warm]'. Every thread has rows of its own in matrices of all of them and
 * calls gemm, gemv, syrk, trsm, potrf and getrf there, with inputs that all
 * share; each result is compared with what plain loops say, and the rows
 * between are to stay as they were. Meanwhile children are forked that call as
 * well, and threads come that leave in the middle by pthread_exit() or are
 * cancelled; at the end the process exits with a thread at work. Run by
 * tests/judges/run. What it prints depends on its arguments alone.
 */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    N = 20,   /* of a thread's part */
    GAP = 3,  /* rows between parts that belong to nobody */
    MOST = 8, /* threads that stay */
    PARTS = MOST + 3,
    LD = PARTS * (N + GAP),
    VISITORS = 3, /* threads that leave, a round */
};

extern void dgemm_(const char *, const char *, const int *, const int *,
                   const int *, const double *, const double *, const int *,
                   const double *, const int *, const double *, double *,
                   const int *, size_t, size_t);
extern void dgemv_(const char *, const int *, const int *, const double *,
                   const double *, const int *, const double *, const int *,
                   const double *, double *, const int *, size_t);
extern void dsyrk_(const char *, const char *, const int *, const int *,
                   const double *, const double *, const int *, const double *,
                   double *, const int *, size_t, size_t);
extern void dtrsm_(const char *, const char *, const char *, const char *,
                   const int *, const int *, const double *, const double *,
                   const int *, double *, const int *, size_t, size_t, size_t,
                   size_t);
extern void dpotrf_(const char *, const int *, double *, const int *, int *,
                    size_t);
extern void dgetrf_(const int *, const int *, double *, const int *, int *,
                    int *);

static const int n = N, ld = LD, one_step = 1;
static const double one = 1, minus = -1, none;

/* Inputs of all: any A and B, a unit lower triangle L, A A' + N I. */
static double shared_a[N * N], shared_b[N * N], shared_l[N * N],
    shared_s[N * N];
static double product[N * N]; /* A B */

/* Of all threads, part by part in the rows. */
static double outputs[LD * N];
static double vectors[LD];

static int wrongs; /* atomic */
static int calls;  /* atomic */

static unsigned
next(unsigned *state)
{
    *state = *state * 1103515245U + 12345U;
    return *state >> 16;
}

static void
make_inputs(unsigned seed)
{
    for (int i = 0; i < N * N; i++) {
        shared_a[i] = (int)(next(&seed) % 17) - 8;
        shared_b[i] = (int)(next(&seed) % 13) - 6;
    }
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++) {
            double sum = i == j ? N : 0, both = 0;
            for (int k = 0; k < N; k++) {
                sum += shared_a[i + N * k] * shared_a[j + N * k];
                both += shared_a[i + N * k] * shared_b[k + N * j];
            }
            shared_s[i + N * j] = sum;
            product[i + N * j] = both;
            shared_l[i + N * j] = i == j  ? 1
                                  : i > j ? ((int)(next(&seed) % 5) - 2) / 8.0
                                          : 0;
        }
    }
    for (int i = 0; i < LD * N; i++) {
        outputs[i] = -1;
    }
    for (int i = 0; i < LD; i++) {
        vectors[i] = -1;
    }
}

static double *
part_of(int part)
{
    return outputs + (size_t)part * (N + GAP);
}

static void
fill(double *c, const double *from)
{
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++) {
            c[i + (size_t)LD * j] = from ? from[i + N * j] : 0;
        }
    }
}

static int
differs(double got, double expected)
{
    return !(fabs(got - expected) <= 1e-8 * (1 + fabs(expected)));
}

/* Each call's result in c[] or y[], against loops; how many elements differ. */

static int
try_gemm(double *c)
{
    int bad = 0;
    fill(c, NULL);
    dgemm_("N", "N", &n, &n, &n, &one, shared_a, &n, shared_b, &n, &none, c,
           &ld, 1, 1);
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++) {
            bad += differs(c[i + (size_t)LD * j], product[i + N * j]);
        }
    }
    return bad;
}

static int
try_gemv(double *y)
{
    int bad = 0;
    dgemv_("N", &n, &n, &one, shared_a, &n, shared_b, &one_step, &none, y,
           &one_step, 1);
    for (int i = 0; i < N; i++) {
        bad += differs(y[i], product[i]);
    }
    return bad;
}

static int
try_syrk(double *c)
{
    int bad = 0;
    fill(c, shared_b);
    dsyrk_("L", "N", &n, &n, &one, shared_a, &n, &none, c, &ld, 1, 1);
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++) {
            double sum = shared_s[i + N * j] - (i == j ? N : 0);
            bad += differs(c[i + (size_t)LD * j],
                           i >= j ? sum : shared_b[i + N * j]);
        }
    }
    return bad;
}

/* X of L X = - A B. */
static int
try_trsm(double *c)
{
    int bad = 0;
    fill(c, product);
    dtrsm_("L", "L", "N", "U", &n, &n, &minus, shared_l, &n, c, &ld, 1, 1, 1,
           1);
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int k = 0; k <= i; k++) {
                sum += shared_l[i + N * k] * c[k + (size_t)LD * j];
            }
            bad += differs(sum, -product[i + N * j]);
        }
    }
    return bad;
}

static int
try_potrf(double *c)
{
    int bad = 0, info = -1;
    fill(c, shared_s);
    dpotrf_("L", &n, c, &ld, &info, 1);
    for (int j = 0; j < N && info == 0; j++) {
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int k = 0; k <= j; k++) {
                sum += c[i + (size_t)LD * k] * c[j + (size_t)LD * k];
            }
            bad += differs(i >= j ? sum : c[i + (size_t)LD * j],
                           shared_s[i + N * j]);
        }
    }
    return bad + (info != 0);
}

static int
try_getrf(double *c)
{
    int bad = 0, info = -1, pivots[N], rows[N];
    fill(c, shared_s);
    for (int j = 0; j < N; j++) { /* so that rows are exchanged */
        c[(size_t)LD * j] = shared_a[j];
        rows[j] = j;
    }
    dgetrf_(&n, &n, c, &ld, pivots, &info);
    for (int i = 0; i < N && info == 0; i++) {
        if (pivots[i] <= i || pivots[i] > N) {
            return 1;
        }
        int row = rows[i];
        rows[i] = rows[pivots[i] - 1];
        rows[pivots[i] - 1] = row;
    }
    for (int j = 0; j < N && info == 0; j++) {
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int k = 0; k <= j && k <= i; k++) {
                sum += (k == i ? 1 : c[i + (size_t)LD * k]) *
                       c[k + (size_t)LD * j];
            }
            bad += differs(sum, rows[i] == 0 ? shared_a[j]
                                             : shared_s[rows[i] + N * j]);
        }
    }
    return bad + (info != 0);
}

static void
try_one(int part, unsigned which)
{
    static int (*const tries[])(double *) = {try_gemm, try_syrk, try_trsm,
                                             try_potrf, try_getrf};
    static const char *const names[] = {"gemm",  "syrk",  "trsm",
                                        "potrf", "getrf", "gemv"};
    int bad = which < 5 ? tries[which](part_of(part))
                        : try_gemv(vectors + (size_t)part * (N + GAP));
    if (bad) {
        fprintf(stderr, "part %d: %d elements of %s are wrong\n", part, bad,
                names[which]);
        __atomic_fetch_add(&wrongs, 1, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

struct worker {
    pthread_t thread;
    int part, rounds;
    unsigned seed;
    int at_work; /* atomic */
};

static void *
stay(void *argument)
{
    struct worker *w = argument;
    for (int i = 0; i < w->rounds; i++) {
        for (unsigned k = 0; k < 6; k++) {
            try_one(w->part, (k + (unsigned)w->part + next(&w->seed) % 2) % 6);
        }
    }
    return NULL;
}

/* One call, and gone, from below another function. */
static void *
leave(void *argument)
{
    struct worker *w = argument;
    try_one(w->part, next(&w->seed) % 6);
    pthread_exit(NULL);
}

/* Calls until it is cancelled, which may come in any call. */
static void *
go_on(void *argument)
{
    struct worker *w = argument;
    for (;;) {
        unsigned which = next(&w->seed) % 6;
        __atomic_store_n(&w->at_work, 1, __ATOMIC_RELEASE);
        try_one(w->part, which);
        pthread_testcancel();
    }
    return NULL;
}

static void
begin(struct worker *w, void *(*body)(void *))
{
    if (pthread_create(&w->thread, NULL, body, w) != 0) {
        perror("pthread_create");
        exit(2);
    }
}

static void
child(int part)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        wrongs = 0;
        try_one(part, 0);
        try_one(part, 3);
        _exit(wrongs != 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "a child is wrong\n");
        __atomic_fetch_add(&wrongs, 1, __ATOMIC_RELAXED);
    }
}

/* What lies between the parts, and in no part at all. */
static int
is_touched(void)
{
    int touched = 0;
    for (int i = 0; i < LD; i++) {
        if (i % (N + GAP) < N) {
            continue;
        }
        touched += vectors[i] != -1;
        for (int j = 0; j < N; j++) {
            touched += outputs[i + (size_t)LD * j] != -1;
        }
    }
    return touched;
}

int
main(int argc, char **argv)
{
    static struct worker workers[PARTS]; /* one works when this has ended */
    bool warm = argc > 4;                /* before there are threads */
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    int rounds = argc > 2 ? atoi(argv[2]) : 1;
    unsigned seed = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    if (threads < 1 || threads > MOST || rounds < 1) {
        return 2;
    }
    make_inputs(seed);
    for (int i = 0; i < PARTS; i++) {
        workers[i] = (struct worker){
            .part = i, .rounds = rounds, .seed = seed + 7 * (unsigned)i};
    }
    if (warm) {
        try_one(0, 0);
    }
    struct worker *visitors = workers + MOST;
    for (int i = 0; i < threads; i++) {
        begin(&workers[i], stay);
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < VISITORS; i++) {
            visitors[i].at_work = 0;
            begin(&visitors[i], i == 0 ? leave : go_on);
        }
        child(MOST);
        for (int i = 1; i < VISITORS; i++) {
            while (!__atomic_load_n(&visitors[i].at_work, __ATOMIC_ACQUIRE)) {
                usleep(1000);
            }
            pthread_cancel(visitors[i].thread);
        }
        for (int i = 0; i < VISITORS; i++) {
            pthread_join(visitors[i].thread, NULL);
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    int made = threads * rounds * 6 + rounds;
    printf("%d threads, %d rounds: %d wrong, %d touched, %s\n", threads, rounds,
           wrongs, is_touched(), calls >= made ? "all called" : "calls lack");
    fflush(stdout);
    begin(&workers[0], go_on);
    while (!__atomic_load_n(&workers[0].at_work, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }
    return wrongs != 0;
}
