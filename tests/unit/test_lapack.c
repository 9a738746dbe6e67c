/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factorisations that do not fit the device: Cholesky and LU by blocks, the
 * solvers on top, against the plain originals; and the ones that fail half way,
 * which must leave everything to the original. Long because every routine has
 * its shapes, its troubles and its undoing.
 */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pager/plan/build.h"
#include "tests/unit/calls.h"
#include "tests/unit/runner.h"
#include "tests/unit/vendor.h"

static const struct fy_model *model;
static struct fy_device *device;
static uint64_t state = 99;

enum {
    N = 90,
    SIDES = 40,
    MOST = 16 * (N + 5) * (N + 5)
};

static int64_t info_cell, wide_pivots[N];
static int32_t other_info, pivots[N], other_pivots[N];
static char a[MOST], b[MOST], same_a[MOST], same_b[MOST];

/* The caller's info, in the width of its integers. */
static int64_t
info(void)
{
    return calls_integer_bits == 64 ? info_cell : (int32_t)info_cell;
}

static uint32_t
element_bytes(char type)
{
    return type == 's' ? 4 : type == 'z' ? 16 : 8;
}

static enum fy_type
element_type(char type)
{
    return type == 's'   ? FY_T_F32
           : type == 'd' ? FY_T_F64
           : type == 'c' ? FY_T_C32
                         : FY_T_C64;
}

/* Random, `diagonal' added to the diagonal; the rest of the buffer is NaN. */
static void
fill(char type, char *matrix, int64_t rows, int64_t cols, int64_t ld,
     double diagonal)
{
    memset(matrix, 0xff, MOST);
    for (int64_t j = 0; j < cols; j++) {
        for (int64_t i = 0; i < rows; i++) {
            char *at = matrix + (i + j * ld) * element_bytes(type);
            call_fill(element_type(type), at, &state);
            struct fy_value value = fy_raw_value(element_type(type), at);
            if (i == j) {
                value.r += diagonal;
                value.im = 0;
            }
            fy_raw_store(element_type(type), &value, at);
        }
    }
}

static void
compare(char type, const char *what, const char *x, const char *y, double bound)
{
    for (size_t at = 0; at < MOST; at += element_bytes(type)) {
        struct fy_value p = fy_raw_value(element_type(type), x + at);
        struct fy_value q = fy_raw_value(element_type(type), y + at);
        /* Not ck_assert: Check writes a message for each that holds. */
        if (memcmp(x + at, y + at, element_bytes(type)) != 0 &&
            !(fabs(p.r - q.r) <= bound && fabs(p.im - q.im) <= bound)) {
            ck_abort_msg("%s element %zu: %g and %g", what,
                         at / element_bytes(type), p.r, q.r);
        }
    }
}

static double
bound_of(char type)
{
    return type == 's' || type == 'c' ? 2e-3 : 1e-11;
}

static struct call_numbers
numbers_of(int64_t m, int64_t n)
{
    struct call_numbers numbers = {
        .m = m,
        .n = n,
        .k = SIDES,
        .ld = {m + 3, 0, m + 2},
        .matrix = {a, calls_integer_bits == 64 ? (void *)wide_pivots : pivots,
                   b},
        .info = &info_cell,
    };
    return numbers;
}

/* Runs both ways; the chunked one must have gone as `method'. */
static void
both(const char *symbol, const char *signature, struct call_numbers *numbers,
     uint64_t seed, const char *method)
{
    struct call call, original;
    struct call_run run;

    ck_assert_msg(call_make(model, symbol, signature, numbers, &call), "%s",
                  symbol);
    numbers->matrix[0] = same_a;
    numbers->matrix[1] = other_pivots;
    numbers->matrix[2] = same_b;
    numbers->info = &other_info;
    ck_assert(call_make(model, symbol, signature, numbers, &original));
    memcpy(same_a, a, MOST);
    memcpy(same_b, b, MOST);
    info_cell = other_info = -7;
    memset(wide_pivots, 0xff, sizeof(wide_pivots));
    enum fy_reason reason = call_chunked(&call, device, seed != 0, seed, &run);
    ck_assert_msg(reason == FY_REASON_NONE && run.status == FY_OK, "%s: %s, %s",
                  symbol, fy_reason_word(reason), fy_status_text(run.status));
    ck_assert_str_eq(run.method, method);
    ck_assert_uint_gt(run.traffic.chunks, 1);
    call_original(&original, NULL);
    ck_assert_int_eq(info(), 0);
    ck_assert_int_eq(other_info, 0);
    for (unsigned i = 0; calls_integer_bits == 64 && i < N; i++) {
        pivots[i] = (int32_t)wide_pivots[i];
        ck_assert(wide_pivots[i] == pivots[i] || wide_pivots[i] == -1);
    }
}

START_TEST(lu)
{
    for (const char *type = "sdcz"; *type; type++) {
        struct call_numbers numbers = numbers_of(N + 2, N);
        char symbol[16];
        snprintf(symbol, sizeof(symbol), "%cgetrf_", *type);
        fill(*type, a, N + 2, N, N + 5, 0);
        both(symbol, "mnA1Bi", &numbers, (uint64_t)_i, "getrf");
        ck_assert_mem_eq(pivots, other_pivots, sizeof(pivots));
        compare(*type, symbol, a, same_a, bound_of(*type));
    }
}
END_TEST

START_TEST(solver)
{
    for (const char *type = "sdcz"; *type; type++) {
        struct call_numbers numbers = numbers_of(N, N);
        char symbol[16];
        snprintf(symbol, sizeof(symbol), "%cgesv_", *type);
        fill(*type, a, N, N, N + 3, 6);
        fill(*type, b, N, SIDES, N + 2, 0);
        both(symbol, "nkA1BC3i", &numbers, (uint64_t)_i, "gesv");
        ck_assert_mem_eq(pivots, other_pivots, sizeof(pivots));
        compare(*type, symbol, a, same_a, bound_of(*type));
        compare(*type, symbol, b, same_b, bound_of(*type));
    }
}
END_TEST

START_TEST(cholesky)
{
    for (const char *type = "sdcz"; *type; type++) {
        for (const char *uplo = "LU"; *uplo; uplo++) {
            struct call_numbers numbers = numbers_of(N, N);
            char symbol[16];
            numbers.uplo = *uplo;
            snprintf(symbol, sizeof(symbol), "%cpotrf_", *type);
            fill(*type, a, N, N, N + 3, 2 * N);
            both(symbol, "unA1i", &numbers, (uint64_t)_i, "potrf");
            compare(*type, symbol, a, same_a, bound_of(*type));
        }
    }
}
END_TEST

START_TEST(square_of_a_triangle)
{
    for (unsigned s = 0; s < 8; s++) {
        const char type = "sdcz"[s % 4];
        struct call_numbers numbers = numbers_of(N, N);
        char symbol[16];
        numbers.uplo = s < 4 ? 'L' : 'U';
        snprintf(symbol, sizeof(symbol), "%clauum_", type);
        fill(type, a, N, N, N + 3, 3);
        both(symbol, "unA1i", &numbers, (uint64_t)_i, "lauum");
        compare(type, symbol, a, same_a, bound_of(type));
    }
}
END_TEST

/* Both triangles of a symmetric matrix, or of a factor of one, and solutions. */
START_TEST(definite_solvers)
{
    for (unsigned s = 0; s < 16; s++) {
        const char type = "sdcz"[s % 4];
        const bool factors = s / 4 % 2;
        struct call_numbers numbers = numbers_of(N, N);
        char symbol[16];
        numbers.uplo = s < 8 ? 'L' : 'U';
        snprintf(symbol, sizeof(symbol), "%cpo%s_", type,
                 factors ? "sv" : "trs");
        fill(type, a, N, N, N + 3, factors ? 2 * N : 9);
        fill(type, b, N, SIDES, N + 2, 0);
        both(symbol, "unkA1C3i", &numbers, (uint64_t)_i,
             factors ? "posv" : "potrs");
        compare(type, symbol, a, same_a, bound_of(type));
        compare(type, symbol, b, same_b, bound_of(type));
        if (!factors) {
            ck_assert_mem_eq(a, same_a, MOST);
        }
    }
}
END_TEST

/* One row, one side, and what no block divides. */
START_TEST(odd_definite_solvers)
{
    static const int64_t sizes[] = {1, 2, 3, 17, 33};

    for (unsigned s = 0; s < 100; s++) {
        const char type = "sdcz"[(s + (unsigned)_i) % 4];
        const bool factors = s % 2;
        const int64_t n = sizes[s % 5];
        struct call_numbers numbers = numbers_of(n, n), same;
        struct call call, original;
        struct call_run run;
        char symbol[16];

        numbers.uplo = s / 50 ? 'L' : 'U';
        numbers.k = sizes[s / 5 % 5];
        same = numbers;
        same.matrix[0] = same_a;
        same.matrix[2] = same_b;
        same.info = &other_info;
        snprintf(symbol, sizeof(symbol), "%cpo%s_", type,
                 factors ? "sv" : "trs");
        fill(type, a, n, n, n + 3, 2 * (double)n);
        fill(type, b, n, numbers.k, n + 2, 0);
        memcpy(same_a, a, MOST);
        memcpy(same_b, b, MOST);
        info_cell = other_info = -7;
        ck_assert(call_make(model, symbol, "unkA1C3i", &numbers, &call));
        ck_assert(call_make(model, symbol, "unkA1C3i", &same, &original));
        ck_assert_int_eq(call_chunked(&call, device, true, (uint64_t)_i, &run),
                         FY_REASON_NONE);
        ck_assert_msg(run.status == FY_OK, "%s %d: %s", symbol, (int)n,
                      fy_status_text(run.status));
        call_original(&original, NULL);
        ck_assert_int_eq(info(), 0);
        compare(type, symbol, a, same_a, bound_of(type));
        compare(type, symbol, b, same_b, bound_of(type));
    }
}
END_TEST

/* ---- inverses of triangles, and from Cholesky's factors ---- */

enum {
    TRIANGLES = 6 /* trtri with both diagonals, and potri, of two triangles */
};

/* Row `kind' of those: its symbol, signature and numbers, and a in place. */
static const char *
triangle_to_invert(char type, unsigned kind, int64_t n,
                   struct call_numbers *numbers, char symbol[16])
{
    *numbers = numbers_of(n, n);
    numbers->uplo = kind % 2 ? 'U' : 'L';
    numbers->diag = kind / 2 == 1 ? 'U' : 'N';
    snprintf(symbol, 16, "%c%s_", type, kind / 2 == 2 ? "potri" : "trtri");
    fill(type, a, n, n, n + 3, 4);
    for (int64_t i = 0; i < n * (n + 3); i++) { /* well conditioned */
        char *at = a + (size_t)i * element_bytes(type);
        struct fy_value value = fy_raw_value(element_type(type), at);
        if (i % (n + 3) != i / (n + 3)) {
            value.r /= (double)n;
            value.im /= (double)n;
            fy_raw_store(element_type(type), &value, at);
        }
    }
    memcpy(same_a, a, MOST);
    info_cell = other_info = -7;
    return kind / 2 == 2 ? "unA1i" : "udnA1i";
}

static void
inverse_agrees(char type, unsigned kind, int64_t n, uint64_t seed)
{
    struct call_numbers numbers;
    struct call call, original;
    struct call_run run;
    char symbol[16];
    const char *signature = triangle_to_invert(type, kind, n, &numbers, symbol);

    ck_assert(call_make(model, symbol, signature, &numbers, &call));
    numbers.matrix[0] = same_a;
    numbers.info = &other_info;
    ck_assert(call_make(model, symbol, signature, &numbers, &original));
    ck_assert_int_eq(call_chunked(&call, device, seed != 0, seed, &run),
                     FY_REASON_NONE);
    ck_assert_msg(run.status == FY_OK, "%s %d: %s", symbol, (int)n,
                  fy_status_text(run.status));
    if (n == N) {
        ck_assert_str_eq(run.method, kind / 2 == 2 ? "potri" : "trtri");
        ck_assert_uint_gt(run.traffic.chunks, 1);
    }
    call_original(&original, NULL);
    ck_assert_int_eq(info(), 0);
    ck_assert_int_eq(other_info, 0);
    compare(type, symbol, a, same_a, bound_of(type));
}

START_TEST(triangular_inverses)
{
    for (unsigned s = 0; s < 4 * TRIANGLES; s++) {
        inverse_agrees("sdcz"[s % 4], s / 4, N, (uint64_t)_i);
    }
}
END_TEST

START_TEST(odd_triangular_inverses)
{
    static const int64_t sizes[] = {1, 2, 3, 17, 33};

    for (unsigned s = 0; s < 5 * TRIANGLES; s++) {
        if (s % 5 == 0 && s / 5 / 2 == 1) {
            continue; /* nothing is accessed */
        }
        inverse_agrees("sdcz"[(s + (unsigned)_i) % 4], s / 5, sizes[s % 5],
                       1 + (uint64_t)_i);
    }
}
END_TEST

/* Singular, not finite, or infinite when it is inverted. */
START_TEST(triangular_inverses_of_others)
{
    for (unsigned s = 0; s < 5 * TRIANGLES; s++) {
        const unsigned trouble = s / TRIANGLES;
        struct call_numbers numbers;
        struct call call;
        struct call_run run;
        char symbol[16];
        const char *signature =
            triangle_to_invert('d', s % TRIANGLES, N, &numbers, symbol);
        double *matrix = (double *)(void *)a;
        const size_t low = 80 + 20 * (size_t)(N + 3),
                     high = 20 + 80 * (size_t)(N + 3);
        double *inside = &matrix[numbers.uplo == 'L' ? low : high];

        if (numbers.diag == 'U' && trouble < 2) {
            continue; /* the diagonal is not read */
        }
        switch (trouble) {
        case 0:
            matrix[(size_t)50 * (N + 4)] = 0;
            break;
        case 1:
            matrix[(size_t)50 * (N + 4)] = NAN;
            break;
        case 2:
            *inside = NAN;
            break;
        case 3:
            *inside = INFINITY;
            break;
        default: /* a product of two of them is too large */
            for (unsigned i = 0; i < 2; i++) {
                const size_t row = 40 + 20 * (size_t)i, column = row - 20;
                matrix[numbers.uplo == 'L' ? row + column * (N + 3)
                                           : column + row * (N + 3)] = 1e200;
            }
            break;
        }
        memcpy(same_a, a, MOST);
        ck_assert(call_make(model, symbol, signature, &numbers, &call));
        ck_assert_int_eq(
            call_chunked(&call, device, _i != 0, (uint64_t)_i, &run),
            FY_REASON_NONE);
        ck_assert_msg(run.status != FY_OK, "%s, trouble %u", symbol, trouble);
        ck_assert_mem_eq(a, same_a, MOST);
        ck_assert_int_eq(info(), -7);
    }
}
END_TEST

/* With a unit diagonal what stands there is neither read nor written. */
START_TEST(unit_diagonals)
{
    for (unsigned s = 0; s < 2; s++) {
        struct call_numbers numbers;
        struct call call;
        struct call_run run;
        char symbol[16];
        const char *signature =
            triangle_to_invert('d', 2 + s, N, &numbers, symbol);
        double *matrix = (double *)(void *)a, *before = (void *)same_a;

        for (size_t i = 0; i < N; i++) {
            matrix[i * (N + 4)] = before[i * (N + 4)] = i % 2 ? NAN : 0;
        }
        ck_assert(call_make(model, symbol, signature, &numbers, &call));
        ck_assert_int_eq(
            call_chunked(&call, device, _i != 0, (uint64_t)_i, &run),
            FY_REASON_NONE);
        ck_assert_int_eq(run.status, FY_OK);
        for (size_t i = 0; i < N; i++) {
            ck_assert_mem_eq(&matrix[i * (N + 4)], &before[i * (N + 4)],
                             sizeof(double));
        }
        ck_assert_int_eq(info(), 0);
    }
}
END_TEST

/* ---- QR: LAPACK's own R, reflectors and factors, whatever the panels ---- */

enum {
    LWORK = 64 * (N + SIDES)
};
static char tau[16 * N], same_tau[16 * N], work[16 * LWORK],
    same_work[16 * LWORK];

static void
both_qr(char type, const char *name, const char *signature,
        struct call_numbers *numbers, uint64_t seed)
{
    const double bound = bound_of(type);
    struct call call, original;
    struct call_run run;
    char symbol[16];

    snprintf(symbol, sizeof(symbol), "%c%s_", type, name);
    numbers->work = work;
    numbers->lwork = LWORK;
    memset(work, 0, sizeof(work));
    memset(same_work, 0, sizeof(same_work));
    ck_assert(call_make(model, symbol, signature, numbers, &call));
    numbers->matrix[0] = same_a;
    numbers->matrix[1] = same_tau;
    numbers->matrix[2] = same_b;
    numbers->info = &other_info;
    numbers->work = same_work;
    ck_assert(call_make(model, symbol, signature, numbers, &original));
    memcpy(same_a, a, MOST);
    memcpy(same_b, b, MOST);
    info_cell = other_info = -7;
    ck_assert_int_eq(call_chunked(&call, device, seed != 0, seed, &run),
                     FY_REASON_NONE);
    ck_assert_msg(run.status == FY_OK, "%s: %s", symbol,
                  fy_status_text(run.status));
    ck_assert_str_eq(run.method, name);
    ck_assert_uint_gt(run.traffic.chunks, 1);
    call_original(&original, NULL);
    ck_assert_int_eq(info(), 0);
    ck_assert_int_eq(other_info, 0);
    compare(type, symbol, a, same_a, bound);
    /* The best size, of the whole call. */
    struct fy_value size = fy_raw_value(element_type(type), work);
    struct fy_value best = fy_raw_value(element_type(type), same_work);
    ck_assert_msg(size.r >= best.r && size.r <= LWORK * 64, "work: %g", size.r);
}

START_TEST(qr)
{
    static const int64_t shapes[][2] = {{N, N}, {N, N / 3}, {N / 3, N}};
    for (const char *type = "sdcz"; *type; type++) {
        for (unsigned s = 0; s < 3; s++) {
            int64_t m = shapes[s][0], n = shapes[s][1];
            struct call_numbers numbers = numbers_of(m, n);
            numbers.matrix[1] = tau;
            fill(*type, a, m, n, m + 3, 1);
            memset(tau, 0, sizeof(tau));
            memset(same_tau, 0, sizeof(same_tau));
            both_qr(*type, "geqrf", "mnA1BwWi", &numbers, (uint64_t)_i);
            for (int64_t i = 0; i < (m < n ? m : n); i++) {
                size_t at = (size_t)i * element_bytes(*type);
                struct fy_value p = fy_raw_value(element_type(*type), tau + at);
                struct fy_value q =
                    fy_raw_value(element_type(*type), same_tau + at);
                ck_assert_double_le(fabs(p.r - q.r), bound_of(*type));
            }
        }
    }
}
END_TEST

START_TEST(least_squares)
{
    for (const char *type = "sdcz"; *type; type++) {
        for (unsigned turned = 0; turned < 2; turned++) {
            struct call_numbers numbers = numbers_of(N, N / 2);
            numbers.transa = (char)(!turned                        ? 'N'
                                    : *type == 'c' || *type == 'z' ? 'C'
                                                                   : 'T');
            fill(*type, a, N, N / 2, N + 3, 4);
            fill(*type, b, N, SIDES, N + 2, 0);
            both_qr(*type, "gels", "tmnkA1C3wWi", &numbers, (uint64_t)_i);
            compare(*type, "b", b, same_b, bound_of(*type));
        }
    }
}
END_TEST

/* As QR of the transpose: the same factors and reflectors as LQ. */
START_TEST(least_norm)
{
    for (const char *type = "sdcz"; *type; type++) {
        for (unsigned turned = 0; turned < 2; turned++) {
            struct call_numbers numbers = numbers_of(N / 2, N);
            numbers.transa = (char)(!turned                        ? 'N'
                                    : *type == 'c' || *type == 'z' ? 'C'
                                                                   : 'T');
            numbers.ld[2] = N + 2;
            fill(*type, a, N / 2, N, N / 2 + 3, 4);
            fill(*type, b, N, SIDES, N + 2, 0);
            both_qr(*type, "gels", "tmnkA1C3wWi", &numbers, (uint64_t)_i);
            compare(*type, "b", b, same_b, bound_of(*type));
        }
    }
}
END_TEST

/* Sizes that no panel divides, one column, one row, one side. */
START_TEST(odd_shapes)
{
    static const int64_t sizes[] = {1, 2, 3, 17, 33};
    static const char types[] = "sdcz";
    const unsigned count = sizeof(sizes) / sizeof(sizes[0]);

    for (unsigned s = 0; s < count * count * 2; s++) {
        const int64_t m = sizes[s % count], n = sizes[s / count % count];
        const char type = types[(s + (unsigned)_i) % 4];
        const bool solves = s >= count * count;
        struct call_numbers numbers = numbers_of(m, n), same;
        struct call call, original;
        struct call_run run;
        char symbol[16];

        snprintf(symbol, sizeof(symbol), "%c%s_", type,
                 solves ? "gels" : "geqrf");
        numbers.transa = (char)(s % 2 == 0                   ? 'N'
                                : type == 'c' || type == 'z' ? 'C'
                                                             : 'T');
        numbers.k = sizes[(s + 3) % count];
        numbers.ld[2] = 40;
        numbers.matrix[1] = tau;
        numbers.work = work;
        numbers.lwork = LWORK;
        same = numbers;
        same.matrix[0] = same_a;
        same.matrix[1] = same_tau;
        same.matrix[2] = same_b;
        same.info = &other_info;
        same.work = same_work;
        fill(type, a, m, n, m + 3, 6);
        fill(type, b, m > n ? m : n, numbers.k, 40, 0);
        memcpy(same_a, a, MOST);
        memcpy(same_b, b, MOST);
        memset(tau, 0, sizeof(tau));
        memset(same_tau, 0, sizeof(same_tau));
        info_cell = other_info = -7;
        const char *signature = solves ? "tmnkA1C3wWi" : "mnA1BwWi";
        ck_assert(call_make(model, symbol, signature, &numbers, &call));
        ck_assert(call_make(model, symbol, signature, &same, &original));
        ck_assert_int_eq(call_chunked(&call, device, true, (uint64_t)_i, &run),
                         FY_REASON_NONE);
        ck_assert_msg(run.status == FY_OK, "%s %d x %d: %s", symbol, (int)m,
                      (int)n, fy_status_text(run.status));
        call_original(&original, NULL);
        ck_assert_int_eq(info(), 0);
        compare(type, symbol, a, same_a, bound_of(type));
        compare(type, symbol, b, same_b, bound_of(type));
        for (int64_t i = 0; !solves && i < (m < n ? m : n); i++) {
            const size_t at = (size_t)i * element_bytes(type);
            const struct fy_value p =
                fy_raw_value(element_type(type), tau + at);
            const struct fy_value q =
                fy_raw_value(element_type(type), same_tau + at);
            ck_assert_double_le(fabs(p.r - q.r), bound_of(type));
        }
    }
}
END_TEST

/* ---- the inverse: A stays as a whole, panels of it come ---- */

/* Factors of a random matrix in a and same_a, interchanges in all arrays. */
static void
factored(char type, int64_t n, struct call_numbers *numbers)
{
    struct call call;
    char symbol[16];

    *numbers = numbers_of(n, n);
    fill(type, a, n, n, n + 3, 1);
    numbers->matrix[1] = other_pivots;
    numbers->info = &other_info;
    snprintf(symbol, sizeof(symbol), "%cgetrf_", type);
    ck_assert(call_make(model, symbol, "mnA1Bi", numbers, &call));
    call_original(&call, NULL);
    memcpy(same_a, a, MOST);
    memcpy(pivots, other_pivots, sizeof(pivots));
    for (int64_t i = 0; i < n; i++) {
        wide_pivots[i] = pivots[i];
    }
    *numbers = numbers_of(n, n);
    numbers->work = work;
    numbers->lwork = LWORK;
    info_cell = -7;
}

START_TEST(inverse)
{
    static const int64_t sizes[] = {1, 2, 19, N}; /* one does not fit */

    for (unsigned s = 0; s < 16; s++) {
        const char type = "sdcz"[s % 4];
        const int64_t n = sizes[s / 4];
        struct call_numbers numbers;
        struct call call, original;
        struct call_run run;
        char symbol[16];

        factored(type, n, &numbers);
        snprintf(symbol, sizeof(symbol), "%cgetri_", type);
        ck_assert(call_make(model, symbol, "nA1BwWi", &numbers, &call));
        numbers.matrix[0] = same_a;
        numbers.matrix[1] = other_pivots;
        numbers.info = &other_info;
        numbers.work = same_work;
        ck_assert(call_make(model, symbol, "nA1BwWi", &numbers, &original));
        memset(work, 0, sizeof(work));
        memset(same_work, 0, sizeof(same_work));
        ck_assert_int_eq(
            call_chunked(&call, device, _i != 0, (uint64_t)_i, &run),
            FY_REASON_NONE);
        if (n == N) {
            ck_assert_int_ne(run.status, FY_OK);
            ck_assert_mem_eq(a, same_a, MOST);
            continue;
        }
        ck_assert_msg(run.status == FY_OK, "%s: %s", symbol,
                      fy_status_text(run.status));
        ck_assert_str_eq(run.method, "getri");
        call_original(&original, NULL);
        ck_assert_int_eq(info(), 0);
        compare(type, symbol, a, same_a, 20 * bound_of(type));
        ck_assert_double_eq(fy_raw_value(element_type(type), work).r, LWORK);
        ck_assert_mem_eq(pivots, other_pivots, sizeof(pivots));
    }
}
END_TEST

/* Singular, not finite, or no interchanges of getrf's. */
START_TEST(inverse_of_others)
{
    for (unsigned s = 0; s < 8; s++) {
        const unsigned kind = s % 4;
        const int64_t n = s < 4 ? 19 : N;
        struct call_numbers numbers;
        struct call call;
        struct call_run run;

        factored('d', n, &numbers);
        double *element = (double *)(void *)a;
        if (kind < 2) {
            element[(n + 3) * 7 + (kind == 0 ? 7 : 3)] = kind == 0 ? 0 : NAN;
        }
        if (kind == 2 || kind == 3) {
            wide_pivots[5] = pivots[5] = kind == 2 ? (int32_t)n + 1 : 2;
        }
        memcpy(same_a, a, MOST);
        memset(work, 1, sizeof(work));
        memset(same_work, 1, sizeof(same_work));
        ck_assert(call_make(model, "dgetri_", "nA1BwWi", &numbers, &call));
        ck_assert_int_eq(call_chunked(&call, device, true, (uint64_t)_i, &run),
                         FY_REASON_NONE);
        ck_assert_int_ne(run.status, FY_OK);
        ck_assert_mem_eq(a, same_a, MOST);
        ck_assert_mem_eq(work, same_work, sizeof(work));
        ck_assert_int_eq(info(), -7);
    }
}
END_TEST

/* A NaN gets to the diagonal of the factor, and the original gets the call. */
START_TEST(not_a_number)
{
    static const struct {
        const char *symbol, *signature;
        int row, column;
    } rows[] = {
        {"dpotrf_", "unA1i", 70, 3},    {"dpotrf_", "unA1i", 89, 89},
        {"dgetrf_", "mnA1Bi", 50, 20},  {"dgetrf_", "mnA1Bi", 2, 80},
        {"dgesv_", "nkA1BC3i", 7, 40},  {"dposv_", "unkA1C3i", 80, 2},
        {"dposv_", "unkA1C3i", 88, -1}, /* of B */
    };

    for (unsigned r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct call_numbers numbers = numbers_of(N, N);
        struct call call;
        struct call_run run;

        numbers.uplo = 'L';
        fill('d', a, N, N, N + 3, 2 * N);
        fill('d', b, N, SIDES, N + 2, 0);
        if (rows[r].column < 0) {
            ((double *)(void *)b)[rows[r].row] = NAN;
        } else {
            ((double *)(void *)a)[rows[r].row + rows[r].column * (N + 3)] = NAN;
        }
        memcpy(same_a, a, MOST);
        memcpy(same_b, b, MOST);
        info_cell = -7;
        ck_assert(call_make(model, rows[r].symbol, rows[r].signature, &numbers,
                            &call));
        ck_assert_int_eq(
            call_chunked(&call, device, _i != 0, (uint64_t)_i, &run),
            FY_REASON_NONE);
        ck_assert_int_eq(run.status, FY_ERR_UNSUPPORTED);
        ck_assert_mem_eq(a, same_a, MOST);
        ck_assert_mem_eq(b, same_b, MOST);
        ck_assert_int_eq(info(), -7);
    }
}
END_TEST

/* More panels than steps are not even counted out: that would take 8 GiB. */
START_TEST(too_many_panels)
{
    struct call_numbers numbers = numbers_of(3, 3);
    struct call call;
    struct call_run run;

    numbers.k = 1 << 30;
    ck_assert(call_make(model, "dgesv_", "nkA1BC3i", &numbers, &call));
    ck_assert_int_eq(call_planned(&call, 1024, &run), FY_REASON_NONE);
    ck_assert_int_eq(run.status, FY_ERR_NOFIT);
}
END_TEST

/* What LAPACK calls singular, scales, or has no plan for is the original's. */
START_TEST(least_squares_of_others)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        struct call_numbers numbers = numbers_of(N, N / 2);
        struct call call;
        struct call_run run;

        numbers.transa = 'N';
        numbers.work = work;
        numbers.lwork = LWORK;
        fill('d', a, N, N / 2, N + 3, 4);
        fill('d', b, N, SIDES, N + 2, 0);
        double *column = (double *)(void *)a + (size_t)20 * (N + 3);
        for (int i = 0; i < N; i++) {
            column[i] = kind == 0 ? 0 : kind == 1 ? column[i] * 1e305 : NAN;
        }
        memcpy(same_a, a, MOST);
        memcpy(same_b, b, MOST);
        memset(work, 1, sizeof(work));
        memset(same_work, 1, sizeof(same_work));
        info_cell = -7;
        ck_assert(call_make(model, "dgels_", "tmnkA1C3wWi", &numbers, &call));
        ck_assert_int_eq(
            call_chunked(&call, device, _i != 0, (uint64_t)_i, &run),
            FY_REASON_NONE);
        ck_assert_int_ne(run.status, FY_OK);
        ck_assert_mem_eq(a, same_a, MOST);
        ck_assert_mem_eq(b, same_b, MOST);
        ck_assert_mem_eq(work, same_work, sizeof(work));
        ck_assert_int_eq(info(), -7);
    }
}
END_TEST

/* Right hand sides are cut when the factor fits. */
START_TEST(right_hand_sides)
{
    struct call_numbers numbers = numbers_of(20, 20);

    numbers.k = 90;
    numbers.ld[0] = numbers.ld[2] = 23;
    fill('d', a, 20, 20, 23, 40);
    fill('d', b, 20, 90, 23, 0);
    numbers.uplo = 'L';
    both("dpotrs_", "unkA1C3i", &numbers, (uint64_t)_i, "potrs");
    compare('d', "dpotrs_", b, same_b, 1e-11);
}
END_TEST

/* What cannot be finished is undone: the original tells how far it came. */
START_TEST(not_definite_or_singular)
{
    struct call_numbers numbers = numbers_of(N, N);
    struct call call;
    struct call_run run;

    numbers.uplo = 'L';
    fill('d', a, N, N, N + 3, 2 * N);
    ((double *)(void *)a)[(size_t)60 * (N + 3) + 60] = -1;
    memcpy(same_a, a, MOST);
    info_cell = -7;
    ck_assert(call_make(model, "dpotrf_", "unA1i", &numbers, &call));
    ck_assert_int_eq(call_chunked(&call, device, _i != 0, (uint64_t)_i, &run),
                     FY_REASON_NONE);
    ck_assert_int_eq(run.status, FY_ERR_UNSUPPORTED);
    ck_assert_mem_eq(a, same_a, MOST);
    ck_assert_int_eq(info(), -7);

    fill('d', b, N, SIDES, N + 2, 0);
    memcpy(same_b, b, MOST);
    ck_assert(call_make(model, "dposv_", "unkA1C3i", &numbers, &call));
    ck_assert_int_eq(call_chunked(&call, device, _i != 0, (uint64_t)_i, &run),
                     FY_REASON_NONE);
    ck_assert_int_eq(run.status, FY_ERR_UNSUPPORTED);
    ck_assert_mem_eq(a, same_a, MOST);
    ck_assert_mem_eq(b, same_b, MOST);
    ck_assert_int_eq(info(), -7);

    numbers.ld[0] = N + 3;
    fill('d', a, N, N, N + 3, 0);
    for (int i = 0; i < N; i++) {
        ((double *)(void *)a)[(size_t)30 * (N + 3) + (size_t)i] = 0;
    }
    memcpy(same_a, a, MOST);
    ck_assert(call_make(model, "dgetrf_", "mnA1Bi", &numbers, &call));
    ck_assert_int_eq(call_chunked(&call, device, _i != 0, (uint64_t)_i, &run),
                     FY_REASON_NONE);
    ck_assert_int_eq(run.status, FY_ERR_UNSUPPORTED);
    ck_assert_mem_eq(a, same_a, MOST); /* pivots are for the original to set */
    ck_assert_int_eq(info(), -7);
}
END_TEST

static void
open_device(void)
{
    /* LU needs two panels of full height. */
    ck_assert_int_eq(fy_device_host.open(14 * 1024, &device), 0);
}

static void
open_vendor(void)
{
    ck_assert_int_eq(vendor_open(14 * 1024, &device), 0);
}

/* Its integers are 32 bits wide, the caller's 64. */
static void
open_wide_vendor(void)
{
    open_vendor();
    calls_integer_bits = 64;
}

static void
close_device(void)
{
    fy_device_host.close(device);
}

/* Returns the number of ways to cut a call: 0 as planned, the others at random. Two for
 * ./check, where sanitizers are slow. */
static int
seeds(int all)
{
    const char *tier = getenv("FERRY_TEST_TIER");

    return tier && strcmp(tier, "edit") == 0 ? 2 : all;
}

int
main(void)
{
    static const char *const files[] = {"lapack.ferry",
                                        "../../tests/unit/lauum.ferry"};
    Suite *suite = suite_create("lapack");
    TCase *cases = tcase_create("lapack");

    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    model = calls_model(files, 2);
    tcase_add_checked_fixture(cases, open_device, close_device);
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, lu, 0, seeds(5));
    tcase_add_loop_test(cases, solver, 0, seeds(5));
    tcase_add_loop_test(cases, cholesky, 0, seeds(5));
    tcase_add_loop_test(cases, square_of_a_triangle, 0, seeds(5));
    tcase_add_loop_test(cases, definite_solvers, 0, seeds(5));
    tcase_add_loop_test(cases, odd_definite_solvers, 0, seeds(4));
    tcase_add_loop_test(cases, triangular_inverses, 0, seeds(5));
    tcase_add_loop_test(cases, odd_triangular_inverses, 0, seeds(4));
    tcase_add_loop_test(cases, triangular_inverses_of_others, 0, 3);
    tcase_add_loop_test(cases, unit_diagonals, 0, 3);
    tcase_add_loop_test(cases, qr, 0, seeds(5));
    tcase_add_loop_test(cases, least_squares, 0, seeds(5));
    tcase_add_loop_test(cases, least_squares_of_others, 0, seeds(5));
    tcase_add_loop_test(cases, least_norm, 0, seeds(5));
    tcase_add_test(cases, too_many_panels);
    tcase_add_loop_test(cases, odd_shapes, 0, seeds(4));
    tcase_add_loop_test(cases, inverse, 1, 1 + seeds(3)); /* 0: whole */
    tcase_add_loop_test(cases, inverse_of_others, 0, 2);
    tcase_add_loop_test(cases, not_a_number, 0, 2);
    tcase_add_loop_test(cases, right_hand_sides, 0, seeds(5));
    tcase_add_loop_test(cases, not_definite_or_singular, 0, seeds(5));
    suite_add_tcase(suite, cases);
    /* By `on cuda', as a device's own libraries are called. */
    cases = tcase_create("device");
    tcase_add_checked_fixture(cases, open_vendor, close_device);
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, lu, 0, seeds(5));
    tcase_add_loop_test(cases, solver, 0, seeds(5));
    tcase_add_loop_test(cases, cholesky, 0, seeds(5));
    tcase_add_loop_test(cases, definite_solvers, 0, seeds(5));
    tcase_add_loop_test(cases, odd_definite_solvers, 0, seeds(4));
    tcase_add_loop_test(cases, triangular_inverses, 0, seeds(5));
    tcase_add_loop_test(cases, odd_triangular_inverses, 0, seeds(4));
    tcase_add_loop_test(cases, triangular_inverses_of_others, 0, 3);
    tcase_add_loop_test(cases, unit_diagonals, 0, 3);
    tcase_add_loop_test(cases, right_hand_sides, 0, seeds(5));
    tcase_add_loop_test(cases, not_definite_or_singular, 0, seeds(5));
    tcase_add_loop_test(cases, inverse, 0, 3);
    tcase_add_loop_test(cases, inverse_of_others, 0, 2);
    tcase_add_loop_test(cases, not_a_number, 0, 2);
    suite_add_tcase(suite, cases);
    cases = tcase_create("wide");
    tcase_add_checked_fixture(cases, open_wide_vendor, close_device);
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, lu, 0, seeds(5));
    tcase_add_loop_test(cases, solver, 0, seeds(5));
    tcase_add_loop_test(cases, inverse, 0, 3);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
