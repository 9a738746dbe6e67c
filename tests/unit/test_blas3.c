/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every level 3 routine, both interfaces, four types: random sizes, flags,
 * leading dimensions and factors, cut to fit a tiny device, against the plain
 * original. Everything undeclared is NaN and must neither matter nor change.
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

struct routine {
    const char *name, *signature;
    bool complex_only;
};

static const struct routine routines[] = {
    {"gemm", "tTmnkaA1B2bC3", false}, {"symm", "sumnaA1B2bC3", false},
    {"hemm", "sumnaA1B2bC3", true},   {"syrk", "utnkaA1bC3", false},
    {"herk", "utnkaA1bC3", true},     {"syr2k", "utnkaA1B2bC3", false},
    {"her2k", "utnkaA1B2bC3", true},  {"trmm", "sutdmnaA1B2", false},
    {"trsm", "sutdmnaA1B2", false},
};

enum {
    ROUTINES = sizeof(routines) / sizeof(routines[0])
};

static const struct fy_model *model;
static uint64_t state = 20260101;

static int64_t
pick(int64_t low, int64_t high)
{
    return low + (int64_t)fy_random_below(&state, (uint64_t)(high - low) + 1);
}

static char
pick_of(const char *letters)
{
    return letters[fy_random_below(&state, strlen(letters))];
}

static void
pick_factor(double out[2], bool complex_type)
{
    switch (fy_random_below(&state, 4)) {
    case 0:
        out[0] = out[1] = 0;
        break;
    case 1:
        out[0] = 1;
        out[1] = 0;
        break;
    default:
        out[0] = (double)pick(-8, 8) / 4;
        out[1] = complex_type ? (double)pick(-8, 8) / 4 : 0;
        break;
    }
}

/* Rows and columns as stored, of the three matrices. */
static void
shapes(const struct routine *routine, const struct call_numbers *numbers,
       int64_t rows[3], int64_t cols[3])
{
    const char *name = routine->name;
    int64_t m = numbers->m, n = numbers->n, k = numbers->k;
    bool ta = numbers->transa != 'N', tb = numbers->transb != 'N';

    rows[2] = m;
    cols[2] = n;
    if (strcmp(name, "gemm") == 0) {
        rows[0] = ta ? k : m;
        cols[0] = ta ? m : k;
        rows[1] = tb ? n : k;
        cols[1] = tb ? k : n;
    } else if (strchr(routine->signature, 's')) {
        rows[0] = cols[0] = numbers->side == 'L' ? m : n;
        rows[1] = m;
        cols[1] = n;
    } else {
        rows[0] = rows[1] = ta ? k : n;
        cols[0] = cols[1] = ta ? n : k;
        rows[2] = n;
    }
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

/* Random numbers into what the call reads; a strong diagonal to solve with. */
static void
fill_inputs(const struct call *call, char type, bool solves)
{
    struct fy_bound bound;
    enum fy_reason reason =
        fy_bind_args(call->model, call->function, 32, call->args, NULL, &bound);
    if (reason != FY_REASON_NONE) {
        return;
    }
    for (unsigned o = 0; o < bound.function->noperands; o++) {
        const struct fy_view *view = &bound.views[o];
        if (view->naxes != 2 || !(view->access & FY_ACCESS_IN)) {
            continue;
        }
        for (int64_t i = 0; i < view->extent[0]; i++) {
            for (int64_t j = 0; j < view->extent[1]; j++) {
                const int64_t lo[FY_MAX_OPERAND_AXES] = {i, j};
                const int64_t one[FY_MAX_OPERAND_AXES] = {1, 1};
                if (fy_view_elements(view, lo, one) == 0) {
                    continue;
                }
                void *element =
                    view->host + (i * view->stride[0] + j * view->stride[1]) *
                                     view->element_bytes;
                call_fill(element_type(type), element, &state);
                if (solves && o == 0) { /* or solutions grow without end */
                    struct fy_value small =
                        fy_raw_value(element_type(type), element);
                    small.r /= 32;
                    small.im /= 32;
                    fy_raw_store(element_type(type), &small, element);
                }
                if (solves && o == 0 && i == j) {
                    struct fy_value strong = {.kind = FY_V_REAL, .r = 4};
                    fy_raw_store(element_type(type), &strong, element);
                }
            }
        }
    }
}

static bool
close_enough(char type, const void *a, const void *b, double bound)
{
    enum fy_type element = element_type(type);
    struct fy_value x = fy_raw_value(element, a), y = fy_raw_value(element, b);

    if (memcmp(a, b, element_bytes(type)) == 0) {
        return true;
    }
    return fabs(x.r - y.r) <= bound && fabs(x.im - y.im) <= bound;
}

/* A library of the device wants an address for every operand: alpha = 0, k = 0
 * and a unit triangle of order 1 leave one of them without any element. */
static bool
touches_all(const struct routine *routine, const struct call_numbers *numbers)
{
    const bool zero = numbers->alpha[0] == 0 &&
                      (numbers->alpha[1] == 0 || /* herk's is real */
                       strcmp(routine->name, "herk") == 0);

    if (strchr(routine->signature, 'd') != NULL && numbers->diag == 'U' &&
        (numbers->side == 'L' ? numbers->m : numbers->n) == 1) {
        return false;
    }
    return numbers->k != 0 && !zero;
}

struct buffers {
    char *base[3];
    size_t bytes[3];
};

/* What a chunked run of a routine gave, for the test's statistics. */
struct outcome {
    unsigned ran, chunked, blocked, declined, unfit, skipped;
};

static void
one_call(const struct routine *routine, char type, bool c_interface,
         struct fy_device *device, bool random, struct outcome *outcome)
{
    bool complex_type = type == 'c' || type == 'z';
    struct call_numbers numbers = {
        .side = pick_of("LR"),
        .uplo = pick_of("LU"),
        .transa = pick_of("NTC"),
        .transb = pick_of("NTC"),
        .diag = pick_of("NU"),
        .m = pick(1, 40),
        .n = pick(1, 40),
        .k = pick(0, 40),
        .order = c_interface ? pick(101, 102) : 102,
    };
    char symbol[32], signature[32];
    int64_t rows[3], cols[3];
    struct buffers mine, theirs;
    struct call call, original;
    struct call_run run;

    pick_factor(numbers.alpha, complex_type);
    pick_factor(numbers.beta, complex_type);
    if (routine->name[0] == 'h' || strncmp(routine->name, "syr", 3) == 0) {
        /* The transposes that these take. */
        numbers.transa =
            routine->name[0] == 'h' ? pick_of("NC") : pick_of("NT");
    }
    shapes(routine, &numbers, rows, cols);
    for (unsigned i = 0; i < 3; i++) {
        int64_t inner = numbers.order == 101 ? cols[i] : rows[i];
        int64_t outer = numbers.order == 101 ? rows[i] : cols[i];
        numbers.ld[i] = (inner < 1 ? 1 : inner) + pick(0, 3);
        mine.bytes[i] =
            (size_t)(numbers.ld[i] * (outer + 1) + 8) * element_bytes(type);
        mine.base[i] = malloc(mine.bytes[i]);
        theirs.base[i] = malloc(mine.bytes[i]);
        memset(mine.base[i], 0xff, mine.bytes[i]);
        numbers.matrix[i] = mine.base[i] + 4 * element_bytes(type);
    }
    snprintf(symbol, sizeof(symbol), c_interface ? "cblas_%c%s" : "%c%s_", type,
             routine->name);
    snprintf(signature, sizeof(signature), "%s%s", c_interface ? "O" : "",
             routine->signature);
    ck_assert_msg(call_make(model, symbol, signature, &numbers, &call),
                  "%s is not annotated or not installed", symbol);
    fill_inputs(&call, type, strcmp(routine->name, "trsm") == 0);

    for (unsigned i = 0; i < 3; i++) {
        memcpy(theirs.base[i], mine.base[i], mine.bytes[i]);
        numbers.matrix[i] = theirs.base[i] + 4 * element_bytes(type);
    }
    ck_assert(call_make(model, symbol, signature, &numbers, &original));
    enum fy_reason reason =
        call_chunked(&call, device, random, (uint64_t)pick(1, 1 << 30), &run);
    call_original(&original, NULL);
    if (reason != FY_REASON_NONE) {
        ck_assert_msg(reason == FY_REASON_EMPTY, "%s: %s", symbol,
                      fy_reason_word(reason));
        outcome->declined++;
    } else if (device->ops->resolve && run.status != FY_OK &&
               !touches_all(routine, &numbers)) {
        outcome->skipped++;
    } else if (run.status == FY_ERR_NOFIT) {
        outcome->unfit++;
    } else {
        ck_assert_msg(run.status == FY_OK, "%s m %d n %d k %d: %s", symbol,
                      (int)numbers.m, (int)numbers.n, (int)numbers.k,
                      fy_status_text(run.status));
        double eps = type == 's' || type == 'c' ? 6e-8 : 1.2e-16;
        double size = (double)(numbers.m + numbers.n + numbers.k + 8);
        for (unsigned i = 0; i < 3; i++) {
            for (size_t at = 0; at < mine.bytes[i]; at += element_bytes(type)) {
                /* Not ck_assert: Check writes a message for each that holds. */
                if (close_enough(type, mine.base[i] + at, theirs.base[i] + at,
                                 256 * size * eps)) {
                    continue;
                }
                ck_abort_msg(
                    "%s (%s) matrix %c element %zu: side %c uplo %c trans "
                    "%c%c diag %c m %d n %d k %d alpha %g beta %g order %d",
                    symbol, run.method, "ABC"[i], at / element_bytes(type),
                    numbers.side, numbers.uplo, numbers.transa, numbers.transb,
                    numbers.diag, (int)numbers.m, (int)numbers.n,
                    (int)numbers.k, numbers.alpha[0], numbers.beta[0],
                    (int)numbers.order);
            }
        }
        outcome->ran++;
        outcome->chunked += run.traffic.chunks > 1;
        outcome->blocked +=
            strcmp(run.method, "whole") != 0 && strcmp(run.method, "axes") != 0;
    }
    for (unsigned i = 0; i < 3; i++) {
        free(mine.base[i]);
        free(theirs.base[i]);
    }
}

/* An empty one is drawn once more. */
static void
one_drawn(const struct routine *routine, char type, bool c_interface,
          struct fy_device *device, bool random, struct outcome *outcome)
{
    unsigned declined = outcome->declined;
    one_call(routine, type, c_interface, device, random, outcome);
    if (outcome->declined > declined) {
        one_call(routine, type, c_interface, device, random, outcome);
    }
}

static void
try_routine(unsigned r, uint64_t memory, bool random, bool vendor,
            unsigned rounds)
{
    const struct routine *routine = &routines[r];
    const char *sanitized = getenv("FERRY_SANITIZED");
    struct outcome outcome = {0};
    struct fy_device *device;

    if (sanitized != NULL && *sanitized != '\0') {
        /* Each takes eight times as long; a search is mostly arithmetic. */
        rounds = random ? (rounds + 2) / 3 : (rounds + 4) / 5;
    }
    ck_assert_int_eq(vendor ? vendor_open(memory, &device)
                            : fy_device_host.open(memory, &device),
                     0);
    for (unsigned round = 0; round < rounds; round++) {
        for (const char *type = "sdcz"; *type; type++) {
            if (routine->complex_only && (*type == 's' || *type == 'd')) {
                continue;
            }
            one_drawn(routine, *type, false, device, random, &outcome);
            one_drawn(routine, *type, true, device, random, &outcome);
        }
    }
    fy_device_host.close(device);
    ck_assert(!vendor || vendor_calls() > outcome.ran);
    /* The test must not pass by declining, or by never cutting anything. */
    unsigned share = outcome.ran > 50 ? 4 : 2; /* few: by chance */
    unsigned part = outcome.ran > 50 ? 4 : 10;
    ck_assert_msg(outcome.ran > share * (outcome.unfit + outcome.declined),
                  "%s: %u ran, %u did not fit, %u declined", routine->name,
                  outcome.ran, outcome.unfit, outcome.declined);
    ck_assert_msg(outcome.chunked * part > outcome.ran,
                  "%s: only %u of %u were cut", routine->name, outcome.chunked,
                  outcome.ran);
    if (strcmp(routine->name, "gemm") != 0) {
        ck_assert_msg(outcome.blocked * part > outcome.ran,
                      "%s: only %u of %u were blocked", routine->name,
                      outcome.blocked, outcome.ran);
    }
}

START_TEST(random_chunks)
{
    try_routine((unsigned)_i, 256 * 1024, true, false, 30);
}
END_TEST

START_TEST(random_chunks_in_little_memory)
{
    try_routine((unsigned)_i, 16 * 1024, true, false, 20);
}
END_TEST

START_TEST(searched_chunks)
{
    try_routine((unsigned)_i, 8 * 1024, false, false, 20);
}
END_TEST

/* By `on cuda', as a device's own library is called. */
START_TEST(functions_of_the_device)
{
    const bool random = _i % 2 == 0;
    try_routine((unsigned)_i / 2, random ? 16 * 1024 : 8 * 1024, random, true,
                8);
}
END_TEST

int
main(void)
{
    static const char *const files[] = {"blas3.ferry", "cblas3.ferry"};
    Suite *suite = suite_create("blas3");
    TCase *cases = tcase_create("blas3");

    model = calls_model(files, 2);
    tcase_set_timeout(cases,
                      300); /* arithmetic, also where it gets little time */
    tcase_add_loop_test(cases, random_chunks, 0, ROUTINES);
    tcase_add_loop_test(cases, random_chunks_in_little_memory, 0, ROUTINES);
    tcase_add_loop_test(cases, searched_chunks, 0, ROUTINES);
    tcase_add_loop_test(cases, functions_of_the_device, 0, 2 * ROUTINES);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
