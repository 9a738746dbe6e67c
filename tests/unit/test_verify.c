/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification of calls without a shim: small functions, right and wrong
 * annotations of them, and the kinds of findings that must come out. Calls are
 * handed to the verifier as the shim would hand them.
 */
#include "config.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/annotations.h"
#include "pager/verify.h"
#include "pager/verify_compare.h"
#include "pager/verify_tally.h"
#include "tests/unit/runner.h"

enum {
    CALLS = 12,
    ROOM = 400
};

/* ---- functions that someone may want to annotate ---- */

static void
add(int64_t n, double alpha, const double *x, int64_t incx, double *y)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] += alpha * x[i * incx];
    }
}

static void
copy_matrix(int64_t m, int64_t n, const double *a, int64_t lda, double *b,
            int64_t ldb)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            b[i + j * ldb] = 3 * a[i + j * lda] + 1;
        }
    }
}

static double
total(int64_t n, const double *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
    }
    return sum;
}

/* y := L x, the lower triangle of a; its diagonal is taken as ones. */
static void
lower_times(int64_t n, const double *a, int64_t lda, const double *x, double *y)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i];
        for (int64_t j = 0; j < i; j++) {
            y[i] += a[i + j * lda] * x[j];
        }
    }
}

static void
prefix(int64_t n, const double *x, double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        y[i] = sum += x[i];
    }
}

static void
count_up(int64_t *counter, int64_t n, double *y)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = (double)i;
    }
    ++*counter;
}

static void
refuse_small(int64_t n, double *y)
{
    if (n < 4) {
        exit(9);
    }
    for (int64_t i = 0; i < n; i++) {
        y[i] *= 2;
    }
}

/* ---- calls, as the shim sees them ---- */

struct caller {
    struct fy_registers registers;
    uint64_t stack[8];
    unsigned integers, vectors, stacked;
};

static void
pass(struct caller *c, uint64_t value)
{
    if (c->integers < 6) {
        c->registers.integer[c->integers++] = value;
    } else {
        c->stack[c->stacked++] = value;
    }
}

static void
pass_real(struct caller *c, double value)
{
    c->registers.vector[c->vectors++][0] = value;
}

#define PASS(p) pass(&c, (uint64_t)(uintptr_t)(p))

static double buffer[4][ROOM];
static uint64_t random_state = 88172645463325252u;

static double
random_real(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state % 2000) / 1000 - 1.0005;
}

static int64_t
random_int(int64_t lo, int64_t hi)
{
    return lo +
           (int64_t)((random_real() + 1.01) / 2.01 * (double)(hi - lo + 1));
}

enum which {
    ADD,
    COPY,
    TOTAL,
    LOWER,
    PREFIX,
    COUNT,
    REFUSE
};

static void *
make_call(enum which which, struct caller *out)
{
    struct caller c = {.registers = {.result = {0}}};
    int64_t m = random_int(2, 9), n = random_int(2, 9);
    void *f = NULL;
    for (int b = 0; b < 4; b++) {
        for (int i = 0; i < ROOM; i++) {
            buffer[b][i] = random_real();
        }
    }
    switch (which) {
    case ADD:
        f = (void *)add;
        PASS(n);
        pass_real(&c, random_real());
        PASS(buffer[0]);
        PASS(random_int(1, 3));
        PASS(buffer[1]);
        break;
    case COPY:
        f = (void *)copy_matrix;
        PASS(m);
        PASS(n);
        PASS(buffer[0]);
        PASS(m + random_int(0, 3));
        PASS(buffer[1]);
        PASS(m + random_int(0, 3));
        break;
    case TOTAL:
        f = (void *)total;
        PASS(n);
        PASS(buffer[0]);
        break;
    case LOWER:
        f = (void *)lower_times;
        PASS(n);
        PASS(buffer[0]);
        PASS(n + random_int(0, 2));
        PASS(buffer[1]);
        PASS(buffer[2]);
        break;
    case PREFIX:
        f = (void *)prefix;
        PASS(n);
        PASS(buffer[0]);
        PASS(buffer[1]);
        break;
    case COUNT:
        f = (void *)count_up;
        PASS(buffer[0]);
        PASS(n);
        PASS(buffer[1]);
        break;
    case REFUSE:
        f = (void *)refuse_small;
        PASS(n + 3);
        PASS(buffer[0]);
        break;
    }
    *out = c;
    return f;
}

/* ---- cases ---- */

struct trial_case {
    enum which which;
    const char *finding; /* a kind that must be found; NULL: none at all */
    const char *operand;
    const char *text;
};

#define HEAD_ADD                                                     \
    "function void add(long n, double alpha, double *x, long incx, " \
    "double *y) {\nrequire n > 0 else empty;\n"
#define HEAD_COPY                                                           \
    "function void copy(long m, long n, const double *a, long lda, double " \
    "*b, long ldb) {\nrequire m > 0 && n > 0 else empty;\n"
#define HEAD_TOTAL "function double total(long n, const double *x) {\n"
#define HEAD_LOWER                                                         \
    "function void lower(long n, const double *a, long lda, const double " \
    "*x, double *y) {\naxis i = n, j = n;\n"
#define HEAD_PREFIX \
    "function void prefix(long n, const double *x, double *y) {\n"
#define HEAD_COUNT  "function void count(long *counter, long n, double *y) {\n"
#define HEAD_REFUSE "function void refuse(long n, double *y) {\n"

static const struct trial_case cases[] = {
    {ADD, NULL, NULL,
     HEAD_ADD "axis n split;\nin x[n: incx];\n"
              "inout y[n: 1];\n}"},
    {ADD, "depends-on-undeclared", "x",
     HEAD_ADD "axis n;\nin x[n: incx + 1];\ninout y[n: 1];\n}"},
    {ADD, "outside", "x",
     HEAD_ADD "axis n, h = n - 1;\nin x[h: incx];\ninout y[n: 1];\n}"},
    {ADD, "outside", "y",
     HEAD_ADD "axis n, h = n - 1;\nin x[n: incx];\ninout y[h: 1];\n}"},
    {ADD, "in-modified", "y",
     HEAD_ADD "axis n;\nin x[n: incx];\nin y[n: 1];\n}"},
    {ADD, "depends-on-undeclared", "y",
     HEAD_ADD "axis n;\nin x[n: incx];\nout y[n: 1];\n}"},
    {ADD, "declared-not-written", "x",
     HEAD_ADD "axis n;\ninout x[n: incx];\ninout y[n: 1];\n}"},
    {ADD, "not-written", "x",
     HEAD_ADD "axis n;\nout x[n: incx];\ninout y[n: 1];\n}"},
    {ADD, "declared-not-read", "x",
     HEAD_ADD "axis n, h = n + 1;\nin x[h: incx];\ninout y[n: 1];\n}"},
    {ADD, "not-accessed", "x",
     HEAD_ADD "axis n;\nin x[n: incx] when alpha > 0;\ninout y[n: 1];\n}"},
    {ADD, "opaque-accessed", "-",
     HEAD_ADD "axis n;\nopaque x;\ninout y[n: 1];\n}"},
    {ADD, "invalid", "-",
     HEAD_ADD "axis n;\nin x[n: incx];\ninout y[n: 0];\n}"},
    {COPY, NULL, NULL,
     HEAD_COPY "axis m, n split;\nin a[m: 1, n: lda];\n"
               "out b[m: 1, n: ldb];\n}"},
    {COPY, "undeclared-write", "b",
     HEAD_COPY "axis m, n;\nin a[m: 1, n: lda];\n"
               "out b[m: 1, n: ldb + 1];\n}"},
    {COPY, "note-never-read", "b",
     HEAD_COPY "axis m, n;\nin a[m: 1, n: lda];\ninout b[m: 1, n: ldb];\n}"},
    {PREFIX, NULL, NULL, HEAD_PREFIX "axis n;\nin x[n: 1];\nout y[n: 1];\n}"},
    {PREFIX, "chunks-differ", "y",
     HEAD_PREFIX "axis n split;\nin x[n: 1];\nout y[n: 1];\n}"},
    {TOTAL, NULL, NULL,
     HEAD_TOTAL "axis n split sums into return;\nin x[n: 1];\n}"},
    {TOTAL, "chunks-differ", "-",
     HEAD_TOTAL "axis n split combines max into return;\nin x[n: 1];\n}"},
    {LOWER, NULL, NULL,
     HEAD_LOWER "in a[i: 1, j: lda] lower strict;\nin x[i: 1];\n"
                "out y[i: 1];\n}"},
    {LOWER, "declared-not-read", "a",
     HEAD_LOWER "in a[i: 1, j: lda] lower;\nin x[i: 1];\nout y[i: 1];\n}"},
    {LOWER, "depends-on-undeclared", "a",
     HEAD_LOWER "in a[i: 1, j: lda] upper;\nin x[i: 1];\nout y[i: 1];\n}"},
    {COUNT, "scalar-written", "-",
     HEAD_COUNT "require *counter != 0;\naxis n;\nout y[n: 1];\n}"},
    {REFUSE, NULL, NULL, HEAD_REFUSE "axis n;\ninout y[n: 1];\n}"},
    {REFUSE, "exited", "-", HEAD_REFUSE "axis n split;\ninout y[n: 1];\n}"},
};

/* Whether the file has a finding of that kind and operand. */
static bool
has_finding(const char *path, const struct trial_case *expected, char *all,
            size_t bytes)
{
    char row[4096], key[128];
    bool found = false;
    size_t used = 0;
    FILE *f = fopen(path, "r");
    all[0] = '\0';
    if (f == NULL) {
        return false;
    }
    snprintf(key, sizeof key, "\t%s\t%s\t", expected->operand,
             expected->finding);
    while (fgets(row, sizeof row, f) != NULL) {
        if (expected->finding != NULL && strstr(row, key) != NULL) {
            found = true;
        }
        used += (size_t)snprintf(all + used, bytes - used, "%s", row);
        if (used >= bytes) {
            used = bytes - 1;
        }
    }
    fclose(f);
    return found;
}

START_TEST(finds_what_is_wrong)
{
    const struct trial_case *c = &cases[_i];
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_model *model = NULL;
    if (fy_compile_text("case.ferry", c->text, strlen(c->text), NULL,
                        diagnostics, &model) != 0) {
        fy_diagnostics_print(diagnostics, stderr);
        ck_abort_msg("case %d does not compile", _i);
    }
    fy_diagnostics_free(diagnostics);
    char path[] = "/tmp/ferry-verify-XXXXXX", tally[64], all[8192];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(tally, sizeof tally, "%s.tally", path);

    struct fy_verifier *verifier;
    ck_assert_int_eq(fy_verifier_new(model, path, NULL, &verifier), 0);
    for (int i = 0; i < CALLS; i++) {
        static double before[4][ROOM];
        struct caller caller;
        void *original = make_call(c->which, &caller);
        caller.registers.stack = caller.stack;
        struct fy_intercepted call = {.original = original,
                                      .registers = &caller.registers};
        memcpy(before, buffer, sizeof before);
        fy_verify_intercepted(verifier, &call, 32, NULL);
        /* The program's memory is as it was. */
        ck_assert_int_eq(memcmp(before, buffer, sizeof before), 0);
    }
    fy_verifier_free(verifier);
    struct fy_verify_totals totals;
    ck_assert_int_eq(fy_verify_report(model, path, NULL, &totals), 0);
    ck_assert_int_eq((int)totals.calls, CALLS);
    bool found = has_finding(path, c, all, sizeof all);
    if (c->finding == NULL) {
        ck_assert_msg(totals.findings == 0, "case %d: %s", _i, all);
        ck_assert_int_eq((int)totals.checked, CALLS);
    } else {
        ck_assert_msg(found, "case %d: expected %s of %s, found:\n%s", _i,
                      c->finding, c->operand, all);
    }
    unlink(path);
    unlink(tally);
    free(model);
}
END_TEST

/* ---- bounds and comparison ---- */

enum {
    N = 6,
    X = 0,
    Y,
    Z,
    K,
    W,
    OPERANDS,
    RESULT = FY_MAX_OPERANDS
};

/* One call of a function with operands of all kinds, as verification has it
 * when the original has run. */
struct compared {
    struct fy_bound call;
    struct fy_images images;
    struct fy_model *model;
};

static void
set_cell(struct compared *c, const char *name, struct fy_value value)
{
    const struct fy_function *f = c->call.function;
    const struct fy_cell *cells = FY_TABLE(c->model, fy_cell, cells) + f->cells;
    for (unsigned i = 0; i < f->ncells; i++) {
        if (strcmp(fy_model_string(c->model, cells[i].name), name) == 0) {
            c->call.cells[i] = value;
        }
    }
}

static void
make_compared(struct compared *c, const char *statements)
{
    static const uint32_t bytes[] = {4, 4, 16, 8, 8};
    static const uint8_t access[] = {FY_ACCESS_IN, FY_ACCESS_INOUT,
                                     FY_ACCESS_OUT, FY_ACCESS_OUT,
                                     FY_ACCESS_SCRATCH};
    static char memory[OPERANDS][N * 16];
    char text[600];
    char *base[OPERANDS];
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    memset(c, 0, sizeof *c);
    (void)snprintf(
        text, sizeof text,
        "function double f(int n, float alpha, double beta, float *x,"
        " float *y, complex double *z, long *k, double *w) {"
        " axis i = n; in x[i: 1]; inout y[i: 1]; out z[i: 1];"
        " out k[i: 1]; scratch w[i: 1];"
        " require alpha > 0 || beta > 0; %s }",
        statements);
    ck_assert_int_eq(
        fy_compile_text("t", text, strlen(text), NULL, diagnostics, &c->model),
        FY_OK);
    fy_diagnostics_free(diagnostics);
    c->call.model = c->model;
    c->call.function = FY_TABLE(c->model, fy_function, functions);
    c->call.integer_bits = 32;
    c->call.extents[0] = N;
    ck_assert_uint_eq(c->call.function->noperands, OPERANDS);
    for (int o = 0; o < OPERANDS; o++) {
        base[o] = memory[o];
        c->call.views[o] = (struct fy_view){.host = memory[o],
                                            .element_bytes = bytes[o],
                                            .access = access[o],
                                            .naxes = 1,
                                            .extent = {N},
                                            .stride = {1}};
    }
    ck_assert_int_eq(fy_images_new(c->model, c->call.function, c->call.views,
                                   base, 1 << 20, &c->images),
                     FY_OK);
    c->images.views[OPERANDS] = c->images.views[Z]; /* not the function's */
    c->images.of[OPERANDS] = c->images.of[Z];
    c->images.first[OPERANDS] = c->images.first[Z];
    for (unsigned i = 0; i < c->images.count; i++) {
        struct fy_image *image = &c->images.image[i];
        memset(image->before, 0, (size_t)(image->hi - image->lo));
        memset(image->truth, 0, (size_t)(image->hi - image->lo));
    }
}

static void
free_compared(struct compared *c)
{
    fy_images_free(&c->images);
    free(c->model);
}

/* Element `at' of an operand, before the call or as the original left it. */
static void *
element(struct compared *c, int operand, bool truth, int at)
{
    const struct fy_image *image = &c->images.image[c->images.of[operand]];
    return (truth ? image->truth : image->before) + c->images.first[operand] +
           at * (int64_t)c->images.views[operand].element_bytes;
}

START_TEST(a_bound_is_relative_to_the_largest_values)
{
    /* Scales: of a product of all inputs and scalars larger than 1, a square of
     * the largest input, the operand before and after. */
    static const struct {
        double alpha, beta, x, y, y_after, z, result;
        double scale_y, scale_z, scale_result;
    } rows[] = {
        {2, 3, 4, 5, 6, 7, 8, 120, 120, 120},
        {-2, -3, -4, -5, -6, -7, -8, 120, 120, 120},
        {0.5, 0.25, 4, 3, 1, 1, 1, 16, 16, 16},
        {1, 1, 0.5, 0.5, 70, 80, -90, 70, 80, 90},
        {1, 1, 0.125, 0.5, 0.125, 0.125, 0.125, 0.5, 0.25, 0.25},
        {INFINITY, NAN, 4, 5, 6, INFINITY, NAN, 25, 25, 25},
        {2, 3, INFINITY, 5, NAN, 7, INFINITY, 25, 25, 25},
    };
    struct compared c;
    make_compared(&c, _i ? "error 3 * i;" : "");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        double constant = _i ? 3 * N : 64 + 8 * N;
        union fy_raw result = {.d = {rows[r].result}};
        struct fy_bounds bounds;
        set_cell(&c, "n", (struct fy_value){.kind = FY_V_INT, .i = N, .r = 99});
        set_cell(&c, "alpha",
                 (struct fy_value){.kind = FY_V_REAL, .r = rows[r].alpha});
        set_cell(&c, "beta",
                 (struct fy_value){.kind = FY_V_COMPLEX, .im = rows[r].beta});
        *(float *)element(&c, X, false, N - 1) = (float)rows[r].x;
        *(float *)element(&c, Y, false, 0) = (float)rows[r].y;
        *(float *)element(&c, Y, true, 1) = (float)rows[r].y_after;
        ((double *)element(&c, Z, true, 2))[1] = rows[r].z;
        ((double *)element(&c, Z, false, 2))[1] = 1e6; /* not read */
        *(double *)element(&c, W, false, 2) = 1e6;
        if (isinf(rows[r].x)) {
            *(float *)element(&c, X, false, 0) = 0.5F; /* the largest number */
        }
        c.images.returned[W] = 2;
        fy_bounds_make(&c.call, &c.images, &result, &bounds);
        ck_assert(!bounds.exact);
        double product = rows[r].scale_result;
        ck_assert_double_eq(bounds.scale[Y], rows[r].scale_y);
        ck_assert_double_eq(bounds.bound[Y],
                            constant * FLT_EPSILON * rows[r].scale_y);
        ck_assert_double_eq(bounds.bound[Z],
                            constant * DBL_EPSILON * rows[r].scale_z);
        ck_assert_double_eq(bounds.bound[K], 0); /* integers */
        ck_assert(bounds.scale[X] == 0 && bounds.bound[X] == 0);
        ck_assert(bounds.scale[OPERANDS] == 0);
        ck_assert_double_gt(bounds.bound[W], 0);
        ck_assert_double_eq(bounds.scale[RESULT], product);
        /* As exact as the coarsest input. */
        ck_assert_double_eq(bounds.bound[RESULT],
                            constant * FLT_EPSILON * product);
        c.images.returned[W] = 0;
        fy_bounds_make(&c.call, &c.images, &result, &bounds);
        ck_assert_double_eq(bounds.scale[W], 0);
    }
    free_compared(&c);
}
END_TEST

static bool
differs(struct compared *c, int operand, const struct fy_bounds *bounds,
        const char *got, const char *skip, struct fy_difference *out)
{
    fy_compare_operand(&c->images, (unsigned)operand, got,
                       c->images.image[c->images.of[operand]].truth, skip,
                       bounds, out);
    return out->found;
}

START_TEST(reals_may_differ_by_the_bound)
{
    static const struct {
        double got, want, bound;
        bool differs;
        double distance;
    } rows[] = {
        {1, 1, 0, false, 0},
        {1, 1.5, 0.5, false, 0},
        {1.5, 1, 0.5, false, 0},
        {1, 1.5, 0.25, true, 0.5},
        {1.5, 1, 0.25, true, 0.5},
        {0.0, -0.0, 0, false, 0},
        {INFINITY, INFINITY, 0, false, 0},
        {INFINITY, -INFINITY, 1, true, INFINITY},
        {INFINITY, 1, 1, true, INFINITY},
        {NAN, -NAN, 0, false, 0},
        {NAN, 1, 1, true, INFINITY},
        {1, NAN, 1, true, INFINITY},
    };
    struct compared c;
    make_compared(&c, _i == 2 ? "exact;" : "");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        char got[N * 16] = {0};
        struct fy_bounds bounds = {.exact = _i == 2};
        struct fy_difference difference;
        double *want = element(&c, Z, true, 4);
        bool expected = rows[r].differs || (_i == 2 && rows[r].bound == 0.5);
        int part = _i != 0; /* real, imaginary */
        bounds.bound[Z] = bounds.bound[RESULT] = rows[r].bound;
        want[part] = rows[r].want;
        want[!part] = 7;
        memcpy(got + 4 * sizeof(double[2]), want, sizeof(double[2]));
        ((double *)(void *)got)[4 * 2 + part] = rows[r].got;
        ck_assert_msg(differs(&c, Z, &bounds, got, NULL, &difference) ==
                          expected,
                      "row %zu", r);
        if (expected) {
            ck_assert_str_eq(difference.place, "(4)");
            ck_assert(difference.got == rows[r].got || isnan(rows[r].got));
            ck_assert(difference.want == rows[r].want || isnan(rows[r].want));
        }
        if (rows[r].differs) {
            ck_assert_double_eq(difference.distance, rows[r].distance);
        }
        /* What still is as it was before is left out. */
        ck_assert(!differs(&c, Z, &bounds, got, got, &difference));
        union fy_raw one = {.d = {rows[r].got}}, two = {.d = {rows[r].want}};
        fy_compare_result(c.call.function, 32, &one, &two, &bounds,
                          &difference);
        ck_assert_msg(difference.found == expected, "row %zu", r);
    }
    free_compared(&c);
}
END_TEST

START_TEST(the_worst_element_is_told)
{
    struct compared c;
    struct fy_bounds bounds = {.bound = {0}};
    struct fy_difference difference;
    float got[N] = {0, 3, -5, 5, 1, 0};
    make_compared(&c, "");
    ck_assert(differs(&c, Y, &bounds, (char *)got, NULL, &difference));
    ck_assert_str_eq(difference.place, "(2)"); /* the first of these */
    ck_assert_double_eq(difference.distance, 5);
    ck_assert_double_eq(difference.got, -5);
    /* Inputs are not compared, nor what this call does not access. */
    ck_assert(!differs(&c, X, &bounds, (char *)got, NULL, &difference));
    c.images.views[Y].naxes = 0;
    ck_assert(!differs(&c, Y, &bounds, (char *)got, NULL, &difference));
    free_compared(&c);
}
END_TEST

START_TEST(integers_must_be_equal)
{
    struct compared c;
    struct fy_bounds bounds = {.bound = {0}};
    struct fy_difference difference;
    int64_t got[N] = {0};
    make_compared(&c, "");
    ck_assert(!differs(&c, K, &bounds, (char *)got, NULL, &difference));
    got[3] = INT64_C(1) << 60;
    *(int64_t *)element(&c, K, true, 3) = got[3] + 1; /* equal as doubles */
    ck_assert(differs(&c, K, &bounds, (char *)got, NULL, &difference));
    ck_assert_double_eq(difference.distance, 1);
    *(int64_t *)element(&c, K, true, 3) = got[3];
    ck_assert(!differs(&c, K, &bounds, (char *)got, NULL, &difference));
    free_compared(&c);
}
END_TEST

/* Of scratch: the first elements, so far as the original wrote them. */
START_TEST(what_comes_back_of_scratch_is_compared)
{
    struct compared c;
    struct fy_bounds bounds = {.bound = {0}};
    struct fy_difference difference;
    make_compared(&c, "");
    for (int at = 0; at < 3; at++) {
        double got[N] = {0};
        *(double *)element(&c, W, true, at) = 1;
        c.images.returned[W] = 2;
        ck_assert_int_eq(
            differs(&c, W, &bounds, (char *)got, NULL, &difference), at < 2);
        *(double *)element(&c, W, false, at) = 1; /* was there before */
        ck_assert(!differs(&c, W, &bounds, (char *)got, NULL, &difference));
        *(double *)element(&c, W, false, at) = 2;
        c.images.returned[W] = 0;
        ck_assert(!differs(&c, W, &bounds, (char *)got, NULL, &difference));
        *(double *)element(&c, W, true, at) = 2;
    }
    free_compared(&c);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("verify");
    TCase *c = tcase_create("cases");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, finds_what_is_wrong, 0,
                        sizeof cases / sizeof cases[0]);
    tcase_add_loop_test(c, a_bound_is_relative_to_the_largest_values, 0, 2);
    tcase_add_loop_test(c, reals_may_differ_by_the_bound, 0, 3);
    tcase_add_test(c, the_worst_element_is_told);
    tcase_add_test(c, integers_must_be_equal);
    tcase_add_test(c, what_comes_back_of_scratch_is_compared);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
