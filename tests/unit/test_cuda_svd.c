/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of cuSOLVER's gesvd that are computed by polar decomposition, on the
 * fake driver: for every type, shape and kind of matrix U diag(s) V^H is A, both
 * sides are orthogonal and the values are those of gesvd; and where gesvdp is
 * missing memory, refuses, fails or computes wrongly, gesvd's answer comes.
 * Long because the matrices are made and judged here as well.
 */
#include "config.h"

#include <check.h>
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/model.h"
#include "pager/device/cuda/internal.h"
#include "tests/unit/cuda_rig.h"
#include "tests/unit/cuda_run.h"

enum {
    MOST = 40, /* rows and columns */
    PAD = 3,   /* of leading dimensions */
    MEMORY_BYTES = 8 << 20,
};

typedef double complex number;

/* A matrix as LAPACK has it, and the same on the device. */
struct array {
    char type; /* of its elements */
    int64_t rows, columns, ld;
    void *host;
    uint64_t device;
};

struct problem {
    char type, jobu, jobvt;
    int m, n;
    enum {
        RANDOM,
        DEFICIENT,
        ZERO,
        ILL,
        LARGE,
        SMALL,
        NOT_A_NUMBER
    } kind;
};

struct solution {
    struct array a, s, u, vt;
    number original[MOST * MOST];
    int64_t info;
    int status;
};

static size_t
bytes_of(char type)
{
    return type == 'S' ? 4 : type == 'Z' ? 16 : 8;
}

static number
get(const struct array *a, int64_t i, int64_t j)
{
    const int64_t at = j * a->ld + i;
    switch (a->type) {
    case 'S':
        return (double)((const float *)a->host)[at];
    case 'D':
        return ((const double *)a->host)[at];
    case 'C':
        return ((const float complex *)a->host)[at];
    default:
        return ((const number *)a->host)[at];
    }
}

static void
set(const struct array *a, int64_t i, int64_t j, number x)
{
    const int64_t at = j * a->ld + i;
    switch (a->type) {
    case 'S':
        ((float *)a->host)[at] = (float)creal(x);
        break;
    case 'D':
        ((double *)a->host)[at] = creal(x);
        break;
    case 'C':
        ((float complex *)a->host)[at] = (float complex)x;
        break;
    default:
        ((number *)a->host)[at] = x;
        break;
    }
}

/* In [-1, 1], always the same ones. */
static double
next(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return (double)(*state >> 8) / (double)(1 << 23) - 1;
}

static void
fill(const struct problem *p, struct solution *x)
{
    const bool is_complex = p->type == 'C' || p->type == 'Z';
    const double scale = p->kind == LARGE ? 1e18 : p->kind == SMALL ? 1e-18 : 1;
    uint32_t state = 7;
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            number value = next(&state);
            value += is_complex ? next(&state) * I : 0;
            if (p->kind == ZERO) {
                value = 0;
            } else if (p->kind == ILL) {
                value *= pow(10, -(double)j / 3);
            } else if (p->kind == DEFICIENT && j > p->n / 2) {
                value = get(&x->a, i, j - p->n / 2) * 2;
            } else if (p->kind == NOT_A_NUMBER && i == 2 && j == 1) {
                value = NAN;
            }
            set(&x->a, i, j, value * scale);
            x->original[j * MOST + i] = get(&x->a, i, j);
        }
    }
}

static struct array
array_new(const struct fy_device_ops *ops, struct fy_device *device, char type,
          int64_t rows, int64_t columns)
{
    struct array a = {type, rows, columns, rows + PAD, NULL, 0};
    const size_t bytes = (size_t)(a.ld * columns) * bytes_of(type);
    a.host = calloc(1, bytes);
    ck_assert_ptr_nonnull(a.host);
    if (ops->alloc(device, bytes, &a.device) != 0) {
        a.device = 0;
    }
    return a;
}

static struct fy_copy
copy_of(const struct array *a, enum fy_direction direction)
{
    return (struct fy_copy){.direction = direction,
                            .host = a->host,
                            .device = a->device,
                            .element_bytes = (uint32_t)bytes_of(a->type),
                            .naxes = 2,
                            .extent = {a->rows, a->columns},
                            .host_stride = {1, a->ld},
                            .device_stride = {1, a->ld}};
}

/* The launch that annotations/lib/lapack_eigen.ferry makes. */
static int
launch(struct fy_device *device, const struct fy_device_ops *ops,
       struct fy_stream *stream, const struct problem *p, struct solution *x)
{
    static const uint8_t types[] = {
        FY_T_POINTER, FY_T_I64,     FY_T_I64,     FY_T_I64,
        FY_T_I64,     FY_T_POINTER, FY_T_I64,     FY_T_POINTER,
        FY_T_POINTER, FY_T_I64,     FY_T_POINTER, FY_T_I64,
        FY_T_POINTER, FY_T_I64,     FY_T_I64,     FY_T_POINTER};
    static const uint8_t words[16] = {[0] = FY_WORD_CUSOLVER,
                                      [12] = FY_WORD_WORKSPACE,
                                      [13] = FY_WORD_LWORK,
                                      [15] = FY_WORD_INFO};
    char name[64];
    int64_t jobu = (unsigned char)p->jobu, jobvt = (unsigned char)p->jobvt;
    int64_t m = p->m, n = p->n, none = 0;
    void *values[] = {NULL,         &jobu,        &jobvt,        &m,
                      &n,           &x->a.device, &x->a.ld,      &x->s.device,
                      &x->u.device, &x->u.ld,     &x->vt.device, &x->vt.ld,
                      NULL,         NULL,         &none,         NULL};
    struct fy_launch call = {.return_type = FY_T_I32,
                             .nargs = 16,
                             .types = types,
                             .values = values,
                             .words = words,
                             .element_bytes = (uint32_t)bytes_of(p->type),
                             .size_arguments = 1 | 1 << 3 | 1 << 4,
                             .info = &x->info,
                             .status = true};
    (void)snprintf(name, sizeof name, "cusolverDn%cgesvd", p->type);
    call.function = ops->resolve(device, name);
    (void)snprintf(name, sizeof name, "cusolverDn%cgesvd_bufferSize", p->type);
    call.size_function = ops->resolve(device, name);
    return call.function == NULL || call.size_function == NULL
               ? FY_ERR_UNSUPPORTED
               : ops->launch(stream, &call);
}

/* Computes it so often on a device of that much memory; the last result. */
static struct solution *
solve_often(const struct problem *p, uint64_t memory_bytes, int times)
{
    struct solution *x = calloc(1, sizeof *x);
    ck_assert_ptr_nonnull(x);
    const struct fy_device_ops *ops = fy_device_find("cuda");
    struct fy_device *device;
    struct fy_stream *stream = NULL;
    const char real = p->type == 'S' || p->type == 'C' ? 'S' : 'D';
    x->info = -7;
    x->status = ops->open(memory_bytes, &device);
    if (x->status != 0) {
        return x;
    }
    x->a = array_new(ops, device, p->type, p->m, p->n);
    x->s = array_new(ops, device, real, p->n, 1);
    x->u = array_new(ops, device, p->type, p->m, p->jobu == 'A' ? p->m : p->n);
    x->vt = array_new(ops, device, p->type, p->n, p->n);
    fill(p, x);
    if (x->a.device == 0 || x->s.device == 0 || x->u.device == 0 ||
        x->vt.device == 0) {
        x->status = FY_ERR_NOFIT;
    }
    struct array *all[] = {&x->a, &x->s, &x->u, &x->vt};
    if (x->status == 0) {
        x->status = ops->stream_create(device, FY_STREAM_COMPUTE, &stream);
    }
    for (; times > 0; times--) {
        for (int i = 0; x->status == 0 && i < 4; i++) {
            struct fy_copy copy = copy_of(all[i], FY_TO_DEVICE);
            x->status = ops->copy(stream, &copy);
        }
        if (x->status == 0) {
            x->status = launch(device, ops, stream, p, x);
        }
    }
    for (int i = 0; x->status == 0 && i < 4; i++) {
        struct fy_copy copy = copy_of(all[i], FY_TO_HOST);
        x->status = ops->copy(stream, &copy);
    }
    if (stream != NULL) {
        int status = ops->stream_sync(stream);
        x->status = x->status == 0 ? status : x->status;
        ops->stream_destroy(stream);
    }
    ops->close(device);
    return x;
}

static struct solution *
solve(const struct problem *p, uint64_t memory_bytes)
{
    return solve_often(p, memory_bytes, 1);
}

static void
done(struct solution *x)
{
    free(x->a.host);
    free(x->s.host);
    free(x->u.host);
    free(x->vt.host);
    free(x);
}

static double
epsilon(char type)
{
    return type == 'S' || type == 'C' ? 0x1p-23 : 0x1p-52;
}

/* The largest error, in max(m, n) * eps of s[0]; at least 0, NaN for such. */
static double
error_of(const struct problem *p, const struct solution *x)
{
    const double largest = creal(get(&x->s, 0, 0));
    double worst = 0, factor = 0;
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            number sum = -x->original[j * MOST + i];
            for (int64_t k = 0; k < p->n; k++) {
                sum += get(&x->u, i, k) * get(&x->s, k, 0) * get(&x->vt, k, j);
            }
            worst = cabs(sum) <= worst ? worst : cabs(sum);
        }
    }
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            number left = i == j ? -1 : 0, right = left;
            for (int64_t k = 0; k < p->m; k++) {
                left += conj(get(&x->u, k, i)) * get(&x->u, k, j);
            }
            for (int64_t k = 0; k < p->n; k++) {
                right += get(&x->vt, i, k) * conj(get(&x->vt, j, k));
            }
            double off = cabs(left) > cabs(right) ? cabs(left) : cabs(right);
            factor = off <= factor ? factor : off;
        }
    }
    worst = largest == 0 ? worst : worst / largest;
    for (int64_t k = 1; k < p->n; k++) { /* descending */
        if (!(creal(get(&x->s, k, 0)) <= creal(get(&x->s, k - 1, 0)))) {
            return NAN;
        }
    }
    return (worst > factor ? worst : factor) / (p->m * epsilon(p->type));
}

static bool
is_right(const struct problem *p, const struct solution *x)
{
    return x->status == 0 && x->info == 0 && error_of(p, x) < 30;
}

/* ---- every type, shape and matrix ---- */

static const char letters[] = "SDCZ";
static const int shapes[][2] = {{16, 16}, {33, 33}, {40, 17}, {34, 33}};

static unsigned long
gesvds(char type)
{
    char name[64];
    (void)snprintf(name, sizeof name, "cusolverDn%cgesvd", type);
    return cuda_count(name);
}

START_TEST(test_every_shape)
{
    const char type = letters[_i];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int kind = RANDOM; kind <= SMALL; kind++) {
            const int m = shapes[i][0], n = shapes[i][1];
            const char job = m == n && kind % 2 == 0 ? 'A' : 'S';
            struct problem p = {type, job, job == 'A' ? 'S' : 'A', m, n, kind};
            unsigned long polar = cuda_count("cusolverDnXgesvdp");
            unsigned long other = gesvds(type);
            struct solution *x = solve(&p, MEMORY_BYTES);
            ck_assert_msg(is_right(&p, x), "%c %d x %d, kind %d: %d %lld %g",
                          type, m, n, kind, x->status, (long long)x->info,
                          error_of(&p, x));
            ck_assert_uint_eq(cuda_count("cusolverDnXgesvdp"), polar + 1);
            /* Of zeros nothing shows that the values are right. */
            ck_assert_msg(gesvds(type) == other + (kind == ZERO),
                          "%c %d x %d, kind %d: %lu", type, m, n, kind,
                          gesvds(type) - other);
            /* The same values as gesvd's. */
            (void)setenv("FAKECUDA_PERTURBATION", "1", 1);
            cuda_svd_least = MOST + 1;
            struct solution *y = solve(&p, MEMORY_BYTES);
            cuda_svd_least = 16;
            (void)unsetenv("FAKECUDA_PERTURBATION");
            ck_assert(is_right(&p, y));
            for (int64_t k = 0; k < n; k++) {
                double off = cabs(get(&x->s, k, 0) - get(&y->s, k, 0));
                ck_assert_double_le(off, m * epsilon(type) *
                                             creal(get(&y->s, 0, 0)));
            }
            done(x);
            done(y);
        }
    }
    ck_assert_uint_eq(cuda_faults(), 0);
}
END_TEST

/* Vectors that gesvdp does not give, sizes it is not for. */
START_TEST(test_left_to_gesvd)
{
    static const struct problem others[] = {
        {'D', 'A', 'S', 40, 17, RANDOM}, {'D', 'N', 'N', 33, 33, RANDOM},
        {'Z', 'O', 'S', 33, 33, RANDOM}, {'D', 'S', 'N', 33, 20, RANDOM},
        {'D', 'S', 'O', 33, 20, RANDOM}, {'D', 'S', 'S', 33, 15, RANDOM},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        unsigned long before = gesvds(others[i].type);
        struct solution *x = solve(&others[i], MEMORY_BYTES);
        ck_assert_int_eq(x->status, 0);
        ck_assert_int_eq(x->info, 0);
        ck_assert_uint_eq(gesvds(others[i].type), before + 1);
        done(x);
    }
    ck_assert_uint_eq(cuda_count("cusolverDnXgesvdp"), 0);
    ck_assert_uint_eq(cuda_count("cusolverDnXgesvdp_bufferSize"), 0);
}
END_TEST

/* ---- refusals: the same result, by gesvd ---- */

static const struct {
    const char *variable, *value;
} refusals[] = {
    {"FAKECUDA_PERTURBATION", "1e-13"}, /* 8 eps is 1.8e-15 */
    {"FAKECUDA_PERTURBATION", "-1"},
    {"FAKECUDA_PERTURBATION", "nan"},
    {"FAKECUDA_PERTURBATION", "inf"},
    {"FAKECUDA_POLAR_INFO", "3"},
    {"FAKECUDA_POLAR_HOST", "2G"},
    {"FAKECUDA_WRONG", "cusolverDnXgesvdp"},
    {"FAKECUDA_FAIL", "cusolverDnCreateParams:1"},
    {"FAKECUDA_FAIL", "cusolverDnXgesvdp_bufferSize:1:9"},
    {"FAKECUDA_FAIL", "cusolverDnXgesvdp_bufferSize:1:3"},
    {"FAKECUDA_FAIL", "cusolverDnXgesvdp:1:9"},
    {"FAKECUDA_FAIL", "cusolverDnXgesvdp:1:3"},
    {"FAKECUDA_FAIL", "cusolverDnXgesvdp:1:2"},
    {"FAKECUDA_FAIL", "cusolverDnXgesvdp:1:7"},
    {"FAKECUDA_FAIL", "cublasCreate_v2:1:3"},
    {"FAKECUDA_FAIL", "cublasDgeam:1:15"},
    {"FAKECUDA_FAIL", "cublasDgeam:2"},
    {"FAKECUDA_FAIL", "cublasDdgmm:1"},
    {"FAKECUDA_FAIL", "cublasDgemm_v2:1"},
    {"FAKECUDA_FAIL", "cublasDgemm_v2:3"},
    {"FAKECUDA_FAIL", "cublasDnrm2_v2:2"},
    {"FAKECUDA_WRONG", "cublasDgemm_v2"},
};

static const struct problem usual = {'D', 'S', 'S', 40, 33, RANDOM};

static int
solves_by_gesvd(void)
{
    struct solution *x = solve(&usual, MEMORY_BYTES);
    int outcome = !is_right(&usual, x)      ? 1
                  : gesvds('D') != 1        ? 2
                  : cuda_faults() != 0      ? 3
                  : cuda_count("leak") != 0 ? 4
                                            : 0;
    done(x);
    return outcome;
}

START_TEST(test_refusals)
{
    int outcome = cuda_in_child(refusals[_i].variable, refusals[_i].value,
                                solves_by_gesvd);
    ck_assert_msg(outcome == 0, "%s=%s: outcome %d", refusals[_i].variable,
                  refusals[_i].value, outcome);
}
END_TEST

/* A perturbation within the error of LAPACK's own values is none. */
static int
solves_by_polar(void)
{
    struct solution *x = solve(&usual, MEMORY_BYTES);
    int outcome = !is_right(&usual, x) ? 1 : gesvds('D') != 0 ? 2 : 0;
    done(x);
    return outcome;
}

START_TEST(test_small_perturbation)
{
    ck_assert_int_eq(
        cuda_in_child("FAKECUDA_PERTURBATION", "1e-15", solves_by_polar), 0);
}
END_TEST

/* A device that has room for gesvd alone. */
START_TEST(test_no_memory)
{
    uint64_t bytes = 256 << 10;
    for (; bytes > 16 << 10; bytes -= 8 << 10) {
        struct solution *x = solve(&usual, bytes);
        bool fits = x->status == 0;
        ck_assert(fits ? is_right(&usual, x) : x->status == FY_ERR_NOFIT);
        done(x);
        if (!fits) {
            break;
        }
    }
    ck_assert_uint_gt(gesvds('D'), 0);
    ck_assert_uint_gt(cuda_count("cusolverDnXgesvdp"), 0);
    ck_assert_uint_eq(cuda_faults(), 0);
}
END_TEST

/* What one took is there for the next: all of it is needed each time. */
START_TEST(test_memory_comes_back)
{
    struct solution *x = solve_often(&usual, 256 << 10, 20);
    ck_assert(is_right(&usual, x));
    ck_assert_uint_eq(gesvds('D'), 0);
    ck_assert_uint_eq(cuda_count("cusolverDnXgesvdp"), 20);
    ck_assert_uint_eq(cuda_count("cusolverDnCreateParams"),
                      cuda_count("cusolverDnDestroyParams"));
    ck_assert_uint_eq(cuda_count("cuMemHostAlloc"),
                      cuda_count("cuMemFreeHost"));
    ck_assert_uint_eq(cuda_faults(), 0);
    done(x);
}
END_TEST

/* NaN never comes here from a call; it ends as gesvd has it. */
START_TEST(test_nan)
{
    struct problem p = usual;
    p.kind = NOT_A_NUMBER;
    struct solution *x = solve(&p, MEMORY_BYTES);
    ck_assert(x->status == 0 || x->status == FY_ERR_DEVICE);
    ck_assert_uint_eq(gesvds('D'), 1);
    done(x);
}
END_TEST

/* ---- every call fails once ---- */

enum {
    RIGHT,
    REFUSED,
    WRONG,
    STRANGE,
    FAULT
};

static int
run_once(void)
{
    struct solution *x = solve(&usual, MEMORY_BYTES);
    int outcome = x->status == 0 ? RIGHT : REFUSED;
    if (x->status == 0 && !is_right(&usual, x)) {
        outcome = WRONG;
    }
    if (x->status != 0 && x->status != FY_ERR_DEVICE &&
        x->status != FY_ERR_NOFIT && x->status != FY_ERR_NOMEM &&
        x->status != FY_ERR_NOENT && x->status != FY_ERR_UNSUPPORTED) {
        outcome = STRANGE;
    }
    if (outcome <= REFUSED && cuda_faults() > 0) {
        outcome = FAULT;
    }
    done(x);
    return outcome;
}

static int
count_calls(void)
{
    int outcome = run_once();
    unsigned long calls = cuda_count("calls");
    return outcome != RIGHT ? 0 : calls < 250 ? (int)calls : 250;
}

static const int codes[] = {0, 2, 1};

enum {
#ifdef __SANITIZE_THREAD__ /* twenty times as slow */
    STEP = 7
#else
    STEP = 1
#endif
};

START_TEST(test_every_call_fails)
{
    int calls = cuda_in_child(NULL, NULL, count_calls), right = 0;
    ck_assert_int_gt(calls, 50);
    for (int at = 1; at <= calls; at += STEP) {
        char value[32];
        (void)snprintf(value, sizeof value, "%d:%d", at, codes[_i]);
        int outcome = cuda_in_child("FAKECUDA_FAIL_ANY", value, run_once);
        ck_assert_msg(outcome == RIGHT || outcome == REFUSED,
                      "call %d of %d failing with %d: outcome %d", at, calls,
                      codes[_i], outcome);
        right += outcome == RIGHT;
    }
    ck_assert_int_gt(right, 0);
}
END_TEST

START_TEST(test_operations_fail_late)
{
    for (int at = 1; at <= 30; at++) {
        char value[32];
        (void)snprintf(value, sizeof value, "%d", at);
        int outcome = cuda_in_child("FAKECUDA_FAIL_ASYNC", value, run_once);
        ck_assert_msg(outcome == RIGHT || outcome == REFUSED,
                      "operation %d: outcome %d", at, outcome);
    }
}
END_TEST

int
main(int argc, char **argv)
{
    (void)argc;
    cuda_rig_start(argv);
    (void)setenv("FAKECUDA_STRICT", "1", 1);
    (void)setenv("FAKECUDA_DELAY", "5", 1);
    cuda_svd_least = 16;
    Suite *suite = suite_create("cuda_svd");
    TCase *tests = tcase_create("cuda_svd");
    tcase_set_timeout(tests, 300); /* seconds; each takes a few */
    tcase_add_loop_test(tests, test_every_shape, 0, 4);
    tcase_add_test(tests, test_left_to_gesvd);
    tcase_add_loop_test(tests, test_refusals, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(tests, test_small_perturbation);
    tcase_add_test(tests, test_no_memory);
    tcase_add_test(tests, test_memory_comes_back);
    tcase_add_test(tests, test_nan);
    tcase_add_loop_test(tests, test_every_call_fails, 0,
                        (int)(sizeof codes / sizeof codes[0]));
    tcase_add_test(tests, test_operations_fail_late);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
