/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine on the CUDA device of the fake driver: calls whose memory runs out
 * are cut smaller and at last left to the original, calls of many threads run
 * beside one another, and a device that has failed is left with its reason.
 * Each test is a process of its own, as the engine is started once. Long because
 * all of them share the calls and their checks.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pager/decide/choice.h"
#include "pager/device/cuda/driver.h"
#include "tests/patience.h"
#include "tests/unit/calls.h"
#include "tests/unit/cuda_rig.h"
#include "tests/unit/cuda_run.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/runner.h"

static struct fy_chooser chooser; /* of tests that start no engine */
static struct fy_pool pool;

static void
finish(void)
{
    explained_end();
    ck_assert_uint_eq(cuda_faults(), 0);
    ck_assert_uint_eq(cuda_count("race"), 0);
}

/* C += A B, all n by n in arrays with that leading dimension. */
static enum fy_reason
gemm(int n, const double *a, const double *b, double *c, int ld)
{
    char none = 'N';
    double one = 1;
    const void *const args[] = {&none, &none,     &n,  &n,        &n,
                                &one,  (void *)a, &ld, (void *)b, &ld,
                                &one,  c,         &ld};
    return engine_call("dgemm_", 13, args);
}

/* The lower triangle of C += A A^T. */
static enum fy_reason
syrk(int n, const double *a, double *c, int ld)
{
    char lower = 'L', none = 'N';
    double one = 1;
    const void *const args[] = {&lower,    &none, &n,   &n, &one,
                                (void *)a, &ld,   &one, c,  &ld};
    return engine_call("dsyrk_", 10, args);
}

static enum fy_reason
potrf(int n, double *a, int ld, int *info)
{
    char lower = 'L';
    const void *const args[] = {&lower, &n, a, &ld, info};
    return engine_call("dpotrf_", 5, args);
}

/* Small whole numbers: sums of them are exact. */
static double
number(int i, int j)
{
    return (i * 7 + j * 3) % 5 - 2;
}

static double *
new_matrix(int n, int ld)
{
    double *a = malloc(sizeof(double) * (size_t)n * (size_t)ld);
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < ld; i++) {
            a[i + j * ld] = number(i, j);
        }
    }
    return a;
}

/* Element (i, j) of A B, where A and B are such matrices. */
static double
product(int n, int i, int j)
{
    double sum = 0;
    for (int k = 0; k < n; k++) {
        sum += number(i, k) * number(k, j);
    }
    return sum;
}

static bool
is_product(int n, const double *c, int times)
{
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n; i++) {
            if (c[i + j * n] != number(i, j) + times * product(n, i, j)) {
                return false;
            }
        }
    }
    return true;
}

/* --- memory --- */

enum {
    N = 300,
    N_BYTES = N * N * 8, /* 0.7 MB */
};

/* A product on this much memory; what it comes to, and whether it is right. */
static enum fy_reason
one_product(void)
{
    double *a = new_matrix(N, N), *c = new_matrix(N, N);
    enum fy_reason reason = gemm(N, a, a, c, N);
    ck_assert(is_product(N, c, reason == FY_REASON_NONE ? 1 : 0));
    free(a);
    free(c);
    return reason;
}

static uint64_t
chunks_of(const char *name)
{
    uint32_t symbol = fy_model_find_symbol(model, name);
    return record->rows[FY_TABLE(model, fy_symbol, symbols)[symbol].function]
        .chunks;
}

/* A library that finds no memory for itself: again with more left for it. */
static const struct shortage {
    const char *fail;
    enum fy_reason reason;
} shortages[] = {
    {"cublasDgemm_v2:1:3", FY_REASON_NONE},
    {"cublasCreate_v2:1:3", FY_REASON_NONE},
    {"cublasDgemm_v2:1:3,cublasDgemm_v2:2:3,cublasDgemm_v2:3:3",
     FY_REASON_NONE},
    {"cublasCreate_v2:1:1", FY_REASON_NONE},          /* NOT_INITIALIZED */
    {"cublasCreate_v2:1+:1", FY_REASON_DEVICE_ERROR}, /* nor with less */
    {"cublasDgemm_v2:1+:3", FY_REASON_NO_FIT},
    {"cublasCreate_v2:1+:3", FY_REASON_NO_FIT},
    {"cuMemCreate:1+:2", FY_REASON_NO_FIT},
    {"cuMemMap:1+:2", FY_REASON_NO_FIT},
    {"cuMemCreate:4+:2", FY_REASON_NONE}, /* what it has is enough */
};

START_TEST(test_memory_runs_out)
{
    const struct shortage *row = &shortages[_i];
    (void)setenv("FAKECUDA_FAIL", row->fail, 1);
    (void)setenv("FAKECUDA_MEMORY", "256M", 1); /* little for a library */
    engine_start_on_card("memory=8M;");
    ck_assert_int_eq(one_product(), row->reason);
    if (row->reason == FY_REASON_NO_FIT) {
        const char *said =
            strstr(row->fail, "cublas") ? "ALLOC_FAILED" : "out of memory";
        ck_assert_msg(strstr(explained(), said) != NULL, "%s", explained());
        ck_assert_int_eq(one_product(), FY_REASON_NO_FIT);
    }
    finish();
}
END_TEST

static uint64_t
take(const struct fy_cuda_driver *driver, size_t bytes)
{
    fy_cuda_handle context, popped;
    uint64_t address;
    ck_assert_int_eq(driver->context_retain(&context, 0), 0);
    ck_assert_int_eq(driver->context_push(context), 0);
    ck_assert_int_eq(driver->alloc(&address, bytes), 0);
    ck_assert_int_eq(driver->context_pop(&popped), 0);
    return address;
}

static void
give(const struct fy_cuda_driver *driver, uint64_t address)
{
    fy_cuda_handle context, popped;
    ck_assert_int_eq(driver->context_retain(&context, 0), 0);
    ck_assert_int_eq(driver->context_push(context), 0);
    ck_assert_int_eq(driver->free(address), 0);
    ck_assert_int_eq(driver->context_pop(&popped), 0);
}

/* The program, or another, has taken the card's memory, and gives it back. */
START_TEST(test_card_without_memory)
{
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    (void)setenv("FAKECUDA_MEMORY", "64M", 1);
    (void)setenv("FAKECUDA_GRANULARITY", "64K", 1);
    ck_assert_int_eq(fy_cuda_driver_get(&driver, why), 0);
    uint64_t most = take(driver, (63 << 20) + (700 << 10));
    engine_start_on_card("memory=32M;");
    ck_assert_int_eq(one_product(), FY_REASON_NO_FIT);
    ck_assert_msg(strstr(explained(), "device memory") != NULL, "%s",
                  explained());
    give(driver, most);
    most = take(driver, 56 << 20);
    ck_assert_int_eq(one_product(), FY_REASON_NONE);
    uint64_t tight = chunks_of("dgemm_");
    give(driver, most);
    ck_assert_int_eq(one_product(), FY_REASON_NONE);
    ck_assert_uint_eq(chunks_of("dgemm_") - tight, 1);
    finish();
}
END_TEST

/* Nearly full, but not for a limit that fits into what is left. */
START_TEST(test_small_limit_on_full_card)
{
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    (void)setenv("FAKECUDA_DIRTY", "4K", 1);
    ck_assert_int_eq(fy_cuda_driver_get(&driver, why), 0);
    uint64_t most = take(driver, (size_t)940 << 20);
    engine_start_on_card("memory=16M;");
    ck_assert_int_eq(one_product(), FY_REASON_NONE);
    give(driver, most);
    finish();
}
END_TEST

/* cuSOLVER counts that workspace in 32 bits. */
START_TEST(test_large_eigenproblem_stays)
{
    char vectors = 'V', lower = 'L';
    int n = 32767 + _i, lwork = INT_MAX, info = -7;
    double none;
    const void *const args[] = {&vectors, &lower, &n,     &none, &n,
                                &none,    &none,  &lwork, &info};
    engine_start_on_card("memory=8M;");
    ck_assert_int_eq(engine_call("dsyev_", 9, args) == FY_REASON_UNSUPPORTED,
                     _i);
    ck_assert_uint_eq(cuda_count("cusolverDnDsyevd_bufferSize"), 0);
    finish();
}
END_TEST

/* --- threads --- */

enum {
    THREADS = 8,
    ROUNDS = 6,
    SIZE = 64, /* of each thread's part */
    WHOLE = THREADS * SIZE,
};

struct worker {
    pthread_t thread;
    int number;
    double *shared;             /* a matrix of which all threads write parts */
    int offloaded, busy, wrong; /* calls */
};

static void
note_call(struct worker *w, enum fy_reason reason, bool right)
{
    w->offloaded += reason == FY_REASON_NONE;
    w->busy += reason == FY_REASON_DEVICE_BUSY;
    w->wrong +=
        !right || (reason != FY_REASON_NONE && reason != FY_REASON_DEVICE_BUSY);
}

static void
check_syrk(struct worker *w)
{
    double *a = new_matrix(SIZE, SIZE), *c = new_matrix(SIZE, SIZE);
    enum fy_reason reason = syrk(SIZE, a, c, SIZE);
    bool right = true;
    for (int j = 0; j < SIZE; j++) {
        for (int i = 0; i < SIZE; i++) {
            double sum = number(i, j);
            for (int k = 0; i >= j && reason == 0 && k < SIZE; k++) {
                sum += number(i, k) * number(j, k);
            }
            right = right && c[i + j * SIZE] == sum;
        }
    }
    note_call(w, reason, right);
    free(a);
    free(c);
}

/* Of 4 I + 1 1^T / n: positive definite. */
static void
check_potrf(struct worker *w)
{
    double *a = new_matrix(SIZE, SIZE);
    int info = -7;
    bool right = true;
    for (int j = 0; j < SIZE; j++) {
        for (int i = 0; i < SIZE; i++) {
            a[i + j * SIZE] = 1.0 / SIZE + (i == j ? 4 : 0);
        }
    }
    enum fy_reason reason = potrf(SIZE, a, SIZE, &info);
    for (int j = 0; reason == 0 && j < SIZE; j++) {
        for (int i = j; i < SIZE; i++) {
            double sum = 0;
            for (int k = 0; k <= j; k++) {
                sum += a[i + k * SIZE] * a[j + k * SIZE];
            }
            right = right &&
                    fabs(sum - 1.0 / SIZE - (i == j ? 4 : 0)) < 1e-13 * SIZE;
        }
    }
    note_call(w, reason, right && (reason != 0 || info == 0));
    free(a);
}

/*
 * Rows of its own of the shared matrix, between those of other threads: what is
 * not its own, it never writes.
 */
static void
check_gemm(struct worker *w, int *times)
{
    double *a = new_matrix(SIZE, WHOLE), *mine = w->shared + w->number * SIZE;
    enum fy_reason reason = gemm(SIZE, a, a, mine, WHOLE);
    bool right = true;
    *times += reason == FY_REASON_NONE;
    for (int j = 0; j < SIZE; j++) {
        for (int i = 0; i < SIZE; i++) {
            right = right && mine[i + j * WHOLE] ==
                                 number(i, j) + *times * product(SIZE, i, j);
        }
    }
    note_call(w, reason, right);
    free(a);
}

static void *
work(void *argument)
{
    struct worker *w = argument;
    int times = 0;
    for (int i = 0; i < ROUNDS; i++) {
        check_gemm(w, &times);
        if (w->number % 2 == 0) {
            check_syrk(w);
        } else {
            check_potrf(w);
        }
    }
    return NULL;
}

/* In little memory they take turns, in more they run beside one another. */
static const char *const room[] = {"memory=256K;", "memory=64M;"};

START_TEST(test_threads)
{
    struct worker workers[THREADS];
    double *shared = malloc(sizeof(double) * SIZE * WHOLE);
    int offloaded = 0;
    (void)setenv("FAKECUDA_GRANULARITY", "64K", 1);
    engine_start_on_card(room[_i]);
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.number = t, .shared = shared};
        for (int j = 0; j < SIZE; j++) {
            for (int i = 0; i < SIZE; i++) {
                shared[t * SIZE + i + j * WHOLE] = number(i, j);
            }
        }
    }
    for (int t = 0; t < THREADS; t++) {
        ck_assert_int_eq(
            pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        ck_assert_int_eq(pthread_join(workers[t].thread, NULL), 0);
        ck_assert_msg(workers[t].wrong == 0, "thread %d: %d of %d wrong: %s", t,
                      workers[t].wrong, 2 * ROUNDS, explained());
        offloaded += workers[t].offloaded;
    }
    ck_assert_int_gt(offloaded, 0);
    free(shared);
    finish();
}
END_TEST

/* --- processes --- */

enum {
    PROCESSES = 4
};

/* Each has a card's worth of ambition; one is killed in the middle. */
START_TEST(test_processes_share_a_card)
{
    char machine[] = "/tmp/test_cuda_engine_machine_XXXXXX";
    pid_t pids[PROCESSES + 1];
    int file = mkstemp(machine), status, offloading = 0;
    ck_assert_int_ge(file, 0);
    (void)setenv("FAKECUDA_SHARED", machine, 1);
    (void)setenv("FAKECUDA_MEMORY", "12M", 1);
    (void)setenv("FAKECUDA_GRANULARITY", "64K", 1);
    for (int i = 0; i <= PROCESSES; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] == 0) {
            int offloaded = 0;
            alarm((unsigned)patient(250));
            engine_start_on_card("memory=8M;");
            /* The last one goes on until it is killed. */
            for (int n = 0; n < 6 || i == PROCESSES; n++) {
                enum fy_reason reason = one_product();
                ck_assert(reason == FY_REASON_NONE ||
                          reason == FY_REASON_NO_FIT);
                offloaded += reason == FY_REASON_NONE;
            }
            finish();
            _exit(offloaded > 0 ? 0 : 2);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_msg(status == 0 || status == 2 << 8, "process %d: %#x", i,
                      (unsigned)status);
        offloading += status == 0;
        if (i == 0) {
            ck_assert_int_eq(kill(pids[PROCESSES], SIGKILL), 0);
        }
    }
    ck_assert_int_eq(waitpid(pids[PROCESSES], &status, 0), pids[PROCESSES]);
    ck_assert_int_gt(offloading, 0);
    (void)unlink(machine);
}
END_TEST

/* --- errors --- */

/* Three errors of one kind, or one that no context survives: off, and why. */
START_TEST(test_failed_device_says_why)
{
    (void)setenv(
        "FAKECUDA_FAIL",
        _i == 0 ? "cublasDgemm_v2:1+:13" : "cuMemcpyHtoDAsync_v2:1:700", 1);
    engine_start_on_card("memory=8M;");
    for (int i = 0; i < (_i == 0 ? 3 : 1); i++) {
        ck_assert_int_eq(one_product(), FY_REASON_DEVICE_ERROR);
    }
    ck_assert_int_eq(one_product(), FY_REASON_DISABLED);
    const char *off = strstr(explained(), "disabled");
    ck_assert_msg(off != NULL, "%s", explained());
    ck_assert_msg(strstr(off, _i == 0 ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                      : "ILLEGAL_ADDRESS") != NULL,
                  "%s", off);
    finish();
}
END_TEST

/* No device: every function's first call says why, not only the very first. */
START_TEST(test_no_device_says_why_again)
{
    double *a = new_matrix(SIZE, SIZE), *c = new_matrix(SIZE, SIZE);
    (void)setenv("FAKECUDA_FAIL", "cuInit:1:999", 1);
    engine_start_on_card("memory=8M;");
    ck_assert_int_eq(gemm(SIZE, a, a, c, SIZE), FY_REASON_NO_DEVICE);
    ck_assert_int_eq(syrk(SIZE, a, c, SIZE), FY_REASON_NO_DEVICE);
    const char *second = strstr(explained(), "dsyrk");
    ck_assert_ptr_nonnull(second);
    ck_assert_msg(strstr(second, "cuInit") != NULL, "%s", second);
    free(a);
    free(c);
    finish();
}
END_TEST

/* Files of rates that are old, or that calls contradict, are not believed. What an opening
 * took is known without the card. */
START_TEST(test_rates_are_forgotten)
{
    static struct fy_settings settings;
    char folder[] = "/tmp/test_cuda_engine_XXXXXX", pattern[64];
    char note[FY_POOL_NOTE_BYTES];
    struct fy_choice choice = {.model = {0.01, 0.01}};
    struct fy_lease lease;
    glob_t found;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(settings.rates, sizeof(settings.rates), "%s/rates", folder);
    /* Of a card, by its number. */
    (void)snprintf(pattern, sizeof(pattern), "%s/rates-[0-9a-f]*", folder);
    for (int round = 0; round < 3; round++) {
        /* Measured, read, and measured again since the file is old. */
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            fy_choice_start(&chooser, &settings, "cuda");
            const double opens = fy_choice_rates(&chooser)->open_seconds;
            bool learned = round == 0 ? opens == 0.3 : opens >= 0.5;
            ck_assert_int_eq(fy_pool_start(&pool, fy_device_find("cuda"), 0),
                             0);
            ck_assert_int_eq(
                fy_pool_take(&pool, 1 << 20, 1 << 20, INFINITY, note, &lease),
                FY_REASON_NONE);
            fy_choice_opened(&chooser, 0.5);
            fy_choice_measure(&chooser, &lease, NULL);
            if (round == 0) {
                (void)fy_choice_ran(&chooser, &choice, 0.01);
            }
            bool measured = cuda_count("cublasDgemm_v2") > 0;
            for (int i = 0; round == 2 && i < 64; i++) {
                (void)fy_choice_ran(&chooser, &choice,
                                    i < 32 && i % 8 ? 0.05 : 0.009);
            }
            bool kept = glob(pattern, 0, NULL, &found) == 0;
            for (int i = 0; round == 2 && i < 16; i++) {
                (void)fy_choice_ran(&chooser, &choice, 0.05);
            }
            _exit(measured != (round != 1) || !kept || !learned);
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        status = glob(pattern, 0, NULL, &found);
        ck_assert_int_eq(status, round == 2 ? GLOB_NOMATCH : 0);
        if (round == 1) {
            const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
            ck_assert_int_eq(utimensat(-1, found.gl_pathv[0], old, 0), 0);
        }
        globfree(&found);
    }
    (void)snprintf(pattern, sizeof(pattern), "%s/rates-opening-*", folder);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    ck_assert_int_eq(unlink(found.gl_pathv[0]), 0);
    globfree(&found);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* Where a test says so the clock goes by what the card is asked to do: 10 us an
 * operation, 30 ms a product, 700 ms the library's handle and the first product of
 * either type. */
static bool goes_by_operations;

uint64_t __real_fy_clock_ns(void);
uint64_t __wrap_fy_clock_ns(void);

uint64_t
__wrap_fy_clock_ns(void)
{
    if (!goes_by_operations) {
        return __real_fy_clock_ns();
    }
    unsigned long single = cuda_count("cublasSgemm_v2");
    unsigned long twice = cuda_count("cublasDgemm_v2");
    unsigned firsts =
        (cuda_count("cublasCreate_v2") > 0) + (single > 0) + (twice > 0);
    return UINT64_C(10000) * (1 + cuda_count("operations")) +
           UINT64_C(30000000) * (single + twice) + UINT64_C(700000000) * firsts;
}

/* What a library's first use of all takes, its handle and the first product of
 * either type, is no part of a rate that is kept. */
START_TEST(test_first_use_is_no_rate)
{
    char note[FY_POOL_NOTE_BYTES];
    struct fy_rates cold, warm;
    struct fy_lease lease;
    (void)setenv("FAKECUDA_DELAY", "0", 1);
    ck_assert_int_eq(fy_pool_start(&pool, fy_device_find("cuda"), 0), 0);
    ck_assert_int_eq(
        fy_pool_take(&pool, 1 << 20, 1 << 20, INFINITY, note, &lease),
        FY_REASON_NONE);
    fy_rates_default("cuda", &cold);
    warm = cold;
    goes_by_operations = true;
    ck_assert_int_eq(
        fy_calibrate_card(lease.executor, lease.device, 0.25, &cold), 0);
    ck_assert_int_eq(
        fy_calibrate_card(lease.executor, lease.device, 0.25, &warm), 0);
    ck_assert_double_gt(8 * cold.device_flops_f32, warm.device_flops_f32);
    ck_assert_double_gt(8 * cold.device_flops_f64, warm.device_flops_f64);
    goes_by_operations = false;
    fy_pool_release(&pool, &lease);
}
END_TEST

/* A program that has loaded the driver starts it itself, or said --early. */
START_TEST(test_program_starts_cuda_first)
{
    ck_assert_ptr_nonnull(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    engine_start_on_card(_i == 0 ? "memory=8M;" : "memory=8M;early=1;");
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(one_product(),
                         _i == 0 ? FY_REASON_NO_DEVICE : FY_REASON_NONE);
    }
    ck_assert_int_eq(strstr(explained(), "--early") != NULL, _i == 0);
    ck_assert_uint_eq(cuda_count("cuInit"), _i);
    finish();
}
END_TEST

/* Rates of a card are kept in a file; a process that may write none does not meet
 * its limit because of that. */
START_TEST(test_rates_and_a_limit)
{
    static struct fy_settings settings;
    char folder[] = "/tmp/test_cuda_engine_XXXXXX", pattern[64];
    char note[FY_POOL_NOTE_BYTES];
    struct rlimit before, none;
    struct fy_lease lease;
    glob_t found;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(settings.rates, sizeof(settings.rates), "%s/rates", folder);
    (void)snprintf(pattern, sizeof(pattern), "%s/*", folder);
    fy_choice_start(&chooser, &settings, "cuda");
    ck_assert_int_eq(fy_pool_start(&pool, fy_device_find("cuda"), 0), 0);
    ck_assert_int_eq(
        fy_pool_take(&pool, 1 << 20, 1 << 20, INFINITY, note, &lease),
        FY_REASON_NONE);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    /* Without assertions, which write files. */
    bool limited = setrlimit(RLIMIT_FSIZE, _i ? &none : &before) == 0;
    fy_choice_measure(&chooser, &lease, NULL);
    limited = setrlimit(RLIMIT_FSIZE, &before) == 0 && limited;
    ck_assert(limited);
    fy_pool_release(&pool, &lease);
    int status = glob(pattern, 0, NULL, &found);
    ck_assert_int_eq(status, _i ? GLOB_NOMATCH : 0);
    if (status == 0) {
        ck_assert_int_eq(unlink(found.gl_pathv[0]), 0);
        globfree(&found);
    }
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

int
main(int argc, char **argv)
{
    static const char *const files[] = {"blas1.ferry", "blas3.ferry",
                                        "lapack.ferry", "lapack_eigen.ferry"};
    (void)argc;
    cuda_rig_start(argv);
    (void)setenv("FAKECUDA_STRICT", "1", 1);
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    model = calls_model(files, 4);
    Suite *suite = suite_create("cuda_engine");
    TCase *tests = tcase_create("cuda_engine");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_memory_runs_out, 0,
                        (int)(sizeof(shortages) / sizeof(shortages[0])));
    tcase_add_test(tests, test_card_without_memory);
    tcase_add_test(tests, test_small_limit_on_full_card);
    tcase_add_loop_test(tests, test_large_eigenproblem_stays, 0, 2);
    tcase_add_loop_test(tests, test_threads, 0, 2);
    tcase_add_test(tests, test_processes_share_a_card);
    tcase_add_loop_test(tests, test_failed_device_says_why, 0, 2);
    tcase_add_test(tests, test_no_device_says_why_again);
    tcase_add_loop_test(tests, test_program_starts_cuda_first, 0, 2);
    tcase_add_loop_test(tests, test_rates_and_a_limit, 0, 2);
    tcase_add_test(tests, test_rates_are_forgotten);
    tcase_add_test(tests, test_first_use_is_no_rate);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
