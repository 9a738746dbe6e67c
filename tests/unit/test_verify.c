/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification of calls without a shim: small functions, right and wrong
 * annotations of them, and the kinds of findings that must come out. Calls are
 * handed to the verifier as the shim would hand them.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/model/annotations.h"
#include "pager/verify/tally.h"
#include "pager/verify/verify.h"
#include "tests/unit/random.h"
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

static double
random_real(void)
{
    return (double)(random_bits() % 2000) / 1000 - 1.0005;
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

int
main(void)
{
    Suite *suite = suite_create("verify");
    TCase *c = tcase_create("cases");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, finds_what_is_wrong, 0,
                        sizeof cases / sizeof cases[0]);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
