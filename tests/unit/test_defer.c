/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred calls in process, so that sanitizers see them: the engine on the host
 * device, with functions of tests/defer/vec.c that are called as the preload
 * would. Vectors are mappings of their own; what may be taken is decided here,
 * not by pager/deferred/where.c, which refuses the allocators of sanitizers. Skipped
 * where the kernel or its settings have no userfaultfd for us.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pager/deferred/where.h"
#include "tests/defer/vec.h"
#include "tests/unit/calls.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

enum {
    PAGE = 4096,
    N = 20 * PAGE / 8,
    TAKEN = N - PAGE / 8, /* the first page is not */
    THREADS = 4,
};

const char *__tsan_default_options(void);
const char *
__tsan_default_options(void)
{
    return "report_thread_leaks=0"; /* ferry's own threads do not end */
}

/* ---- instead of pager/deferred/where.c ---- */

static size_t may_hold = SIZE_MAX;

bool
fy_may_take_at_all(void)
{
    return true;
}

bool
fy_may_take(uintptr_t start, size_t bytes)
{
    (void)start;
    (void)bytes;
    return true;
}

size_t
fy_may_hold(void)
{
    return may_hold;
}

bool
fy_takes_locks(const void *function)
{
    (void)function;
    return false;
}

/* ---- the preload's part ---- */

static void *
sibling(void *original, const char *name)
{
    (void)original;
    (void)name;
    return NULL;
}

static uint32_t
function_of(const char *name)
{
    return FY_TABLE(model, fy_symbol,
                    symbols)[fy_model_find_symbol(model, name)]
        .function;
}

static const struct fy_record_row *
row_of(const char *name)
{
    return &record->rows[function_of(name)];
}

/*
 * A counter, after whatever stands before: a touch, in which it is counted, is
 * an ordinary read to compilers and sanitizers.
 */
static uint64_t
counted(const uint64_t *counter)
{
    __asm__ volatile("" ::: "memory");
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}
#define COUNTED(name, field) counted(&row_of(name)->field)

/* name(N, a, b, r), or name(N, a, r) without b. */
static void
call(const char *name, void (*original)(void), const double *a, const double *b,
     double *r)
{
    struct fy_registers registers = {
        .integer = {N, (uintptr_t)a, b ? (uintptr_t)b : (uintptr_t)r,
                    (uintptr_t)r}};
    const struct fy_intercepted intercepted = {
        .symbol = fy_model_find_symbol(model, name),
        .function = function_of(name),
        .original = (void *)(uintptr_t)original,
        .caller = (void *)(uintptr_t)call,
        .registers = &registers,
    };
    ck_assert_int_eq(engine->call(&intercepted), FY_REASON_NONE);
}

static void
add(const double *a, const double *b, double *r)
{
    call("vec_add", (void (*)(void))vec_add, a, b, r);
}

static void
mul(const double *a, const double *b, double *r)
{
    call("vec_mul", (void (*)(void))vec_mul, a, b, r);
}

static void
root(const double *a, double *r)
{
    call("vec_sqrt", (void (*)(void))vec_sqrt, a, NULL, r);
}

static double *
vector(double first)
{
    double *v = mmap(NULL, N * sizeof(*v), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(v != MAP_FAILED);
    for (int i = 0; i < N; i++) {
        v[i] = first + i % 100;
    }
    return v;
}

static void
drop(double *v)
{
    ck_assert_int_eq(munmap(v, N * sizeof(*v)), 0);
}

/* Says so and returns false where nothing can be deferred. */
static bool
start(void)
{
    engine_start("mode=2;device=host;force=1;defer=1", sibling, NULL);
    double *a = vector(1), *r = vector(0);
    add(a, a, r);
    bool able = COUNTED("vec_add", chunks) == 0; /* nothing has run */
    ck_assert(r[N / 2] == 2 * a[N / 2]);
    drop(a);
    drop(r);
    uint64_t *counters = (uint64_t *)record->rows;
    for (size_t i = 0; i < record->nrows * sizeof(record->rows[0]) / 8; i++) {
        __atomic_store_n(&counters[i], 0, __ATOMIC_RELEASE);
    }
    if (!userfaultfd_here()) {
        skip_test("no userfaultfd with kernel faults");
        return false;
    }
    ck_assert_msg(able, "nothing is deferred here");
    return true;
}

START_TEST(test_who_moved_what)
{
    if (!start()) {
        return;
    }
    double *a = vector(1), *b = vector(2), *t = vector(3), *r = vector(4);
    add(a, b, t);
    mul(t, a, r);
    root(r, r);
    ck_assert_uint_eq(COUNTED("vec_add", bytes_in), 0);
    /* In steps: they are functions of one library, and rounded alike. */
    for (int i = 0; i < N; i++) {
        double x = 1 + i % 100, y = 2 + i % 100, z = r[i] * r[i];
        ck_assert(z > (x + y) * x * (1 - 1e-15) &&
                  z < (x + y) * x * (1 + 1e-15));
    }
    ck_assert_uint_eq(COUNTED("vec_add", bytes_in), 2 * TAKEN * 8);
    ck_assert_uint_eq(COUNTED("vec_add", bytes_out), 0);
    ck_assert_uint_eq(COUNTED("vec_mul", bytes_in), 0);
    ck_assert_uint_eq(COUNTED("vec_mul", bytes_out), 0);
    ck_assert_uint_eq(COUNTED("vec_sqrt", bytes_out), TAKEN * 8);
    ck_assert_uint_eq(COUNTED("vec_add", chunks) + COUNTED("vec_mul", chunks) +
                          COUNTED("vec_sqrt", chunks),
                      3);
    ck_assert(t[N - 1] == a[N - 1] + b[N - 1]); /* once more, alone */
    ck_assert_uint_eq(COUNTED("vec_add", bytes_out), TAKEN * 8);
}
END_TEST

/* Arrays that the program has freed, and calls still need, are not piled up. */
START_TEST(test_what_is_held_is_bounded)
{
    if (!start()) {
        return;
    }
    double *a = vector(1), *r = vector(2);
    may_hold = 3 * N * sizeof(*a);
    for (int i = 0; i < 8; i++) {
        double *t = vector(i);
        add(a, t, t);
        mul(t, r, r);
        drop(t);
    }
    ck_assert_uint_gt(COUNTED("vec_add", chunks),
                      0); /* nobody has touched it */
    double wanted = 2 + 7;
    for (int i = 0; i < 8; i++) {
        wanted *= 8 + i + 7;
    }
    ck_assert(r[7] == 9.0 * 15 * 16 * 17 * 18 * 19 * 20 * 21 * 22);
    ck_assert(wanted == r[7]);
}
END_TEST

/* Before and after what pages do not tell of. */
START_TEST(test_change)
{
    if (!start()) {
        return;
    }
    double *a = vector(1), *r = vector(0);
    add(a, a, r);
    engine->before_change();
    ck_assert_uint_eq(COUNTED("vec_add", bytes_out), TAKEN * 8);
    mul(a, a, r); /* not put off */
    ck_assert_uint_eq(COUNTED("vec_mul", bytes_out), N * 8);
    engine->after_change();
    add(r, a, r);
    ck_assert_uint_eq(COUNTED("vec_add", bytes_out), TAKEN * 8);
    ck_assert(r[N - 1] == a[N - 1] * a[N - 1] + a[N - 1]);
}
END_TEST

static double *shared; /* written by nobody */

static void *
work(void *argument)
{
    int seed = *(const int *)argument;
    double *x = vector(seed), *y = vector(1), *z = vector(2);

    for (int i = 0; i < 12; i++) {
        add(shared, x, y);
        mul(y, x, z);
        root(z, z);
        if (i % 3 == seed % 3) {
            ck_assert(y[i] == shared[i] + x[i]);
            x[i] += 1;
        }
        if (i % 4 == 1) { /* all of it anew, part of it gone */
            drop(y);
            y = vector(5);
            ck_assert_int_eq(madvise(z, 4 * PAGE, MADV_DONTNEED), 0);
            ck_assert(z[0] == 0 && z[4 * PAGE / 8] > 0);
        }
    }
    for (int i = 0; i < N; i++) {
        double want = (shared[i] + x[i]) * x[i];
        ck_assert(z[i] * z[i] >= want * (1 - 1e-15) - 1e3);
    }
    drop(x);
    drop(y);
    drop(z);
    return NULL;
}

START_TEST(test_threads)
{
    pthread_t threads[THREADS];
    int seeds[THREADS];

    if (!start()) {
        return;
    }
    shared = vector(3);
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = i + 1;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < N; i++) {
        ck_assert(shared[i] == 3 + i % 100);
    }
}
END_TEST

/* A child by a bare system call: ThreadSanitizer does not survive that. */
#ifndef __SANITIZE_THREAD__
START_TEST(test_bare_child)
{
    int status;

    if (!start()) {
        return;
    }
    double *a = vector(1), *r = vector(0);
    add(a, a, r);
    pid_t child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        /* Dropped before it has been filled, or after: zeros. */
        bool right = madvise(r, 4 * PAGE, MADV_DONTNEED) == 0 && r[0] == 0 &&
                     r[N - 1] == 2 * a[N - 1];
        _exit(right ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(r[0] == 2 && r[N - 1] == 2 * a[N - 1]);
}
END_TEST
#endif

int
main(void)
{
    static const char *const files[] = {"../../tests/defer/vec.ferry"};
    Suite *suite = suite_create("defer");
    TCase *cases = tcase_create("defer");

    model = calls_model(files, 1);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, test_who_moved_what);
    tcase_add_test(cases, test_what_is_held_is_bounded);
    tcase_add_test(cases, test_change);
    tcase_add_test(cases, test_threads);
#ifndef __SANITIZE_THREAD__
    tcase_add_test(cases, test_bare_child);
#endif
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
