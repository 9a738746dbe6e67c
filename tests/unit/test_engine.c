/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine as the preload sees it: registers in, results or a reason out.
 * Integer widths, threads, forks, device errors, errno. Each test is a process
 * of its own, as the engine is started once.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/baddevice/device.h"
#include "tests/patience.h"
#include "tests/unit/calls.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

enum {
    N = 48
};

/* A forked child's other threads are gone, not leaked. */
const char *__tsan_default_options(void);
const char *
__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

/* Opened once: ThreadSanitizer's dlopen has a lock that its fork does not hold. */
static void *library;

static void *
sibling(void *original, const char *name)
{
    (void)original;
    return library != NULL ? dlsym(library, name) : NULL;
}

static _Atomic unsigned holds; /* counted in threads, too */
static bool in_handler;

static bool
hold(const struct fy_intercepted *call)
{
    (void)call;
    holds++;
    return !in_handler;
}

static struct {
    uint32_t symbol, function;
} dgemm;

static void
start(const char *settings)
{
    dgemm.symbol = fy_model_find_symbol(model, "dgemm_");
    dgemm.function = FY_TABLE(model, fy_symbol, symbols)[dgemm.symbol].function;
    engine_start(settings, sibling, hold);
}

/* dgemm_(N, N, n, n, n, alpha, a, n, b, n, beta, c, n) */
struct product {
    int64_t n; /* right for both widths */
    double alpha, beta;
    double a[N * N], b[N * N], c[N * N];
    uint64_t stack[9];
    struct fy_registers registers;
    struct fy_intercepted call;
};

static void
prepare(struct product *p)
{
    static char flag = 'N';
    const double *one = &p->alpha, *two = &p->beta;
    const uint64_t stack[9] = {
        (uintptr_t)p->a,
        (uintptr_t)&p->n,
        (uintptr_t)p->b,
        (uintptr_t)&p->n,
        (uintptr_t)two,
        (uintptr_t)p->c,
        (uintptr_t)&p->n,
        1,
        1,
    };

    memcpy(p->stack, stack, sizeof(stack));
    p->registers = (struct fy_registers){
        .integer = {(uintptr_t)&flag, (uintptr_t)&flag, (uintptr_t)&p->n,
                    (uintptr_t)&p->n, (uintptr_t)&p->n, (uintptr_t)one},
        .stack = p->stack,
    };
    p->call = (struct fy_intercepted){
        .symbol = dgemm.symbol,
        .function = dgemm.function,
        .original = sibling(NULL, "dgemm_"),
        .caller = prepare,
        .registers = &p->registers,
    };
}

static struct product *
new_product(void)
{
    struct product *p = calloc(1, sizeof(*p));

    p->n = N;
    p->alpha = 2;
    p->beta = 3;
    for (int i = 0; i < N * N; i++) {
        p->a[i] = i % 7;
        p->b[i] = i % 5;
        p->c[i] = i % 3;
    }
    prepare(p);
    return p;
}

static bool
is_right(const struct product *p)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++) {
                sum += (double)((i + k * N) % 7) * ((k + j * N) % 5);
            }
            if (p->c[i + j * N] != 2 * sum + 3 * ((i + j * N) % 3)) {
                return false;
            }
        }
    }
    return true;
}

static bool
is_untouched(const struct product *p)
{
    for (int i = 0; i < N * N; i++) {
        if (p->c[i] != i % 3) {
            return false;
        }
    }
    return true;
}

START_TEST(product_in_chunks)
{
    start("mode=2;device=host;memory=16384;"
          "force=1");
    struct product *p = new_product();

    errno = 12345;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_NONE);
    ck_assert_int_eq(errno, 12345);
    ck_assert_int_eq(depth, 0);
    ck_assert(is_right(p));
    const struct fy_record_row *row = &record->rows[dgemm.function];
    ck_assert_uint_eq(row->offloaded, 1);
    ck_assert_uint_gt(row->chunks, 1);
    ck_assert_uint_ge(row->bytes_in + row->bytes_out, row->lower_bound_bytes);
    ck_assert_uint_gt(row->device_ns, 0);
    free(p);
}
END_TEST

/* The same names in a library whose INTEGER has 64 bits. */
START_TEST(wide_integers)
{
    library = dlopen("libblas64.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        skip_test("%s is not installed", "libblas64.so.3");
        return;
    }
    start("mode=2;device=host;memory=16384;"
          "force=1;chunk=random:3");
    struct product *p = new_product();

    ck_assert_int_eq(engine->call(&p->call), FY_REASON_NONE);
    ck_assert(is_right(p));
    /* Garbage above 32 bits is a size here, and none that fits. */
    free(p);
    p = new_product();
    p->n |= INT64_C(1) << 32;
    ck_assert_int_ne(engine->call(&p->call), FY_REASON_NONE);
    free(p);
}
END_TEST

START_TEST(narrow_integers)
{
    start("mode=2;device=host;memory=16384;"
          "force=1;chunk=random:3");
    struct product *p = new_product();

    p->n |= INT64_C(1) << 32; /* not part of a 32-bit INTEGER */
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_NONE);
    ck_assert(is_right(p));
    free(p);
}
END_TEST

/* ddot_(n, x, incx, y, incy) and sdot_: results in xmm0. */
START_TEST(returned_numbers)
{
    start("mode=2;device=host;memory=4096;"
          "force=1");
    static double x[3000];
    static float xf[3000];
    int32_t n = 3000, one = 1;
    float single;

    for (int i = 0; i < n; i++) {
        x[i] = i % 10;
        xf[i] = (float)(i % 10);
    }
    struct fy_registers registers = {.integer = {(uintptr_t)&n, (uintptr_t)x,
                                                 (uintptr_t)&one, (uintptr_t)x,
                                                 (uintptr_t)&one}};
    struct fy_intercepted call = {
        .symbol = fy_model_find_symbol(model, "ddot_"),
        .original = sibling(NULL, "ddot_"),
        .registers = &registers,
    };
    call.function = FY_TABLE(model, fy_symbol, symbols)[call.symbol].function;
    ck_assert_int_eq(engine->call(&call), FY_REASON_NONE);
    ck_assert(registers.vector_result[0][0] == 300 * 285.0);

    call.symbol = fy_model_find_symbol(model, "sdot_");
    call.function = FY_TABLE(model, fy_symbol, symbols)[call.symbol].function;
    call.original = sibling(NULL, "sdot_");
    registers.integer[1] = registers.integer[3] = (uintptr_t)xf;
    ck_assert_int_eq(engine->call(&call), FY_REASON_NONE);
    memcpy(&single, &registers.vector_result[0][0], sizeof(single));
    ck_assert(single == 300 * 285.0f);
}
END_TEST

START_TEST(declines)
{
    start("mode=2;device=host;memory=16384;"
          "force=1");
    struct product *p = new_product();

    p->stack[5] = (uintptr_t)(p->a + 1);
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_OVERLAP);
    p->stack[5] = 64;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_UNMAPPED);
    prepare(p);
    p->n = -1;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_BAD_ARGUMENTS);
    p->n = INT32_MAX;
    ck_assert_int_ne(engine->call(&p->call), FY_REASON_NONE);
    p->n = N;
    library = NULL;
    p->call.original = start;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_INTEGER_WIDTH);
    ck_assert(is_untouched(p));
    free(p);
}
END_TEST

START_TEST(unforced)
{
    start("mode=1;device=host;memory=16384");
    struct product *p = new_product();

    ck_assert_int_eq(engine->call(&p->call), FY_REASON_UNPROFITABLE);
    ck_assert(is_untouched(p));
    /* The width of INTEGER is known: what is declined is so without a word. */
    holds = 0;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_UNPROFITABLE);
    p->n = -1;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_BAD_ARGUMENTS);
    ck_assert_uint_eq(holds, 0);
    free(p);
}
END_TEST

START_TEST(handler)
{
    start("mode=2;device=host;memory=16384;"
          "force=1");
    struct product *p = new_product();

    in_handler = true;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_IN_HANDLER);
    in_handler = false;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_NONE);
    ck_assert(is_right(p));
    in_handler = true;
    holds = 0;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_IN_HANDLER);
    ck_assert_uint_eq(holds, 1);
    free(p);
}
END_TEST

START_TEST(no_device)
{
    start("mode=2;device=none;force=1");
    struct product *p = new_product();

    ck_assert_int_eq(engine->call(&p->call), FY_REASON_NO_DEVICE);
    ck_assert(is_untouched(p));
    free(p);
}
END_TEST

/* What names no function of a card is not even bound; the rest asks for one. */
START_TEST(no_card)
{
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    start("mode=2;device=cuda;force=1");
    struct product *p = new_product();
    struct fy_intercepted copy = p->call;

    copy.symbol = fy_model_find_symbol(model, "drotm_");
    copy.function = FY_TABLE(model, fy_symbol, symbols)[copy.symbol].function;
    ck_assert_int_eq(engine->call(&copy), FY_REASON_NO_DEVICE_CALL);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(engine->call(&p->call), FY_REASON_NO_DEVICE);
    }
    free(p);
}
END_TEST

START_TEST(too_little_memory)
{
    start("mode=2;device=host;memory=600;"
          "force=1");
    struct product *p = new_product();
    enum fy_reason reason = engine->call(&p->call);

    ck_assert(reason == FY_REASON_NO_FIT || reason == FY_REASON_NO_DEVICE);
    ck_assert(is_untouched(p));
    free(p);
}
END_TEST

START_TEST(device_errors)
{
    const struct bad_control control = {.fail_at = 40, .fail_count = 1 << 20};
    bad_control_set(NULL, &control);
    start("mode=2;device=host;memory=16384;"
          "force=1");
    struct product *p = new_product();

    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(engine->call(&p->call), FY_REASON_DEVICE_ERROR);
        ck_assert(is_untouched(p));
    }
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_DISABLED);
    free(p);
}
END_TEST

/* Random chunks, so that operands are large enough to stay on the device. */
static const char resident[] =
    "mode=2;device=host;memory=1048576;force=1;chunk=random:3";

/* Calls with one number of A changed before each; *offloaded counts them. Returns false if
 * a result is wrong. */
static bool
products_stay_right(struct product *p, int calls, int *offloaded)
{
    for (int call = 0; call < calls; call++) {
        double before[N * N];
        p->a[call * 97] += 1;
        memcpy(before, p->c, sizeof(before));
        bool ran = engine->call(&p->call) == FY_REASON_NONE;
        *offloaded += ran;
        for (int i = 0; i < N * N; i++) {
            double sum = 0;
            for (int k = 0; ran && k < N; k++) {
                sum += p->a[i % N + k * N] * p->b[k + i / N * N];
            }
            if (p->c[i] != (ran ? 2 * sum + 3 * before[i] : before[i])) {
                return false;
            }
        }
    }
    return true;
}

/* By default operands stay; in a program that uses such a device itself none do. */
START_TEST(operands_stay)
{
    struct bad_control control = {.poison = true};
    int offloaded = 0;
    bad_control_set(NULL, &control);
    start(resident);
    struct product *p = new_product();
    const struct fy_record_row *row = &record->rows[dgemm.function];

    ck_assert(products_stay_right(p, 1, &offloaded));
    ck_assert_uint_eq(row->kept_bytes, 0);
    ck_assert(products_stay_right(p, 3, &offloaded));
    /* Parts of pages, and the page that was changed, do not. */
    ck_assert_uint_gt(row->kept_bytes, 3 * 2 * sizeof(p->a));
    const uint64_t kept = row->kept_bytes;
    control.shared = true;
    bad_control_set(NULL, &control);
    ck_assert(products_stay_right(p, 2, &offloaded));
    ck_assert_uint_eq(row->kept_bytes, kept);
    ck_assert_uint_eq(row->absent[FY_ABSENCE_SHARED_DEVICE], 2);
    /* They were given up then. */
    control.shared = false;
    bad_control_set(NULL, &control);
    ck_assert(products_stay_right(p, 1, &offloaded));
    ck_assert_uint_eq(row->kept_bytes, kept);
    ck_assert_int_eq(offloaded, 7);
    free(p);
}
END_TEST

/* The device fails at each operation of a row of calls whose operands stay. */
START_TEST(device_fails_while_operands_stay)
{
    const struct bad_control control = {.fail_at = (uint64_t)_i * 3 + 40,
                                        .fail_late = _i % 2 != 0,
                                        .poison = true};
    int offloaded = 0;
    bad_control_set(NULL, &control);
    start(resident);
    struct product *p = new_product();
    ck_assert(products_stay_right(p, 6, &offloaded));
    ck_assert_int_ge(offloaded, 5);
    free(p);
}
END_TEST

static void *
many_products(void *wrong)
{
    for (int i = 0; i < 20; i++) {
        struct product *p = new_product();
        if (engine->call(&p->call) != FY_REASON_NONE || !is_right(p)) {
            __atomic_fetch_add((int *)wrong, 1, __ATOMIC_RELAXED);
        }
        free(p);
    }
    return NULL;
}

START_TEST(threads)
{
    pthread_t ids[4];
    int wrong = 0;

    start("mode=2;device=host;memory=16384;force=1;chunk=random:1");
    for (int i = 0; i < 4; i++) {
        pthread_create(&ids[i], NULL, many_products, &wrong);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(ids[i], NULL);
    }
    ck_assert_int_eq(wrong, 0);
}
END_TEST

static void
expect_child(void)
{
    int status;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int wrong = 0;
        alarm((unsigned)patient(60));
        many_products(&wrong);
        _exit(wrong);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x",
                  (unsigned)status);
}

START_TEST(forks)
{
    int wrong = 0;
    pthread_t other;

    start("mode=2;device=host;memory=16384;force=1");
    expect_child(); /* before the first call */
    many_products(&wrong);
    expect_child(); /* after it */
    pthread_create(&other, NULL, many_products, &wrong);
    for (int i = 0; i < 5; i++) {
        expect_child(); /* while another thread is inside */
    }
    pthread_join(other, NULL);
    many_products(&wrong);
    ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(each_decision_is_explained_once)
{
    char path[] = "/tmp/test_engine_XXXXXX", settings[200], line[4][600];
    int file = mkstemp(path), lines = 0;

    ck_assert_int_ge(file, 0);
    snprintf(settings, sizeof(settings),
             "mode=2;device=host;memory=16384;force=1;explain=%s", path);
    start(settings);
    struct product *p = new_product();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(engine->call(&p->call), FY_REASON_NONE);
    }
    p->n = -1;
    ck_assert_int_eq(engine->call(&p->call), FY_REASON_BAD_ARGUMENTS);
    FILE *log = fdopen(file, "r");
    while (lines < 4 && fgets(line[lines], sizeof(line[0]), log)) {
        lines++;
    }
    unlink(path);
    fclose(log);
    ck_assert_int_eq(lines, 2); /* once for each decision */
    ck_assert_ptr_nonnull(strstr(line[0], "dgemm_"));
    ck_assert_ptr_nonnull(strstr(line[0], "m=48"));
    ck_assert_ptr_nonnull(strstr(line[0], "offloaded (axes)"));
    ck_assert_ptr_nonnull(strstr(line[1], "bad-arguments"));
    free(p);
}
END_TEST

int
main(void)
{
    static const char *const files[] = {"blas1.ferry", "blas3.ferry"};
    Suite *suite = suite_create("engine");
    TCase *cases = tcase_create("engine");

    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    library = dlopen("libblas.so.3", RTLD_NOW | RTLD_LOCAL);
    model = calls_model(files, 2);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, product_in_chunks);
    tcase_add_test(cases, wide_integers);
    tcase_add_test(cases, narrow_integers);
    tcase_add_test(cases, returned_numbers);
    tcase_add_test(cases, declines);
    tcase_add_test(cases, unforced);
    tcase_add_test(cases, handler);
    tcase_add_test(cases, no_device);
    tcase_add_test(cases, no_card);
    tcase_add_test(cases, too_little_memory);
    tcase_add_test(cases, device_errors);
    tcase_add_test(cases, operands_stay);
    tcase_add_loop_test(cases, device_fails_while_operands_stay, 0, 40);
    tcase_add_test(cases, threads);
    tcase_add_test(cases, forks);
    tcase_add_test(cases, each_decision_is_explained_once);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
