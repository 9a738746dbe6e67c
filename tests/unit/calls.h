/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls for tests and benchmarks: arguments by BLAS letters, poisoned buffers,
 * the plain original, and the same call cut into chunks on a host device.
 */
#ifndef FERRY_TESTS_UNIT_CALLS_H
#define FERRY_TESTS_UNIT_CALLS_H

#include "annotations/model/annotations.h"
#include "pager/execute/executor.h"
#include "pager/plan/plan.h"

/*
 * Width of INTEGER as chunked calls are bound, 32 unless a test says 64; those
 * must not reach the installed library then. Scalars are right for both.
 */
extern unsigned calls_integer_bits;

/* Shipped annotation files of srcdir, compiled; exits the test when it cannot. */
const struct fy_model *calls_model(const char *const *files, unsigned count);
/* A symbol of the installed BLAS or LAPACK, or NULL. */
void *calls_symbol(const char *name);

/* What the letters of a signature stand for. */
struct call_numbers {
    char side, uplo, transa, transb, diag;
    int64_t m, n, k, order;
    double alpha[2], beta[2];
    int64_t ld[3];
    void *matrix[3];
    int64_t inc[2];
    void *info;
    void *work; /* w, of `lwork' elements: W */
    int64_t lwork;
};

struct call {
    const struct fy_model *model;
    uint32_t symbol, function;
    void *original;
    union fy_raw args[FY_MAX_ARGS], scalars[FY_MAX_ARGS];
    unsigned nargs;
};

/*
 * Fills a call of the named symbol. The signature has a letter per argument, as
 * in pager/blocked/algo.h with w and W, O for the C interface's order, x y for increments of the
 * first and second vector. False when the symbol is not annotated or installed.
 */
bool call_make(const struct fy_model *model, const char *symbol,
               const char *signature, const struct call_numbers *numbers,
               struct call *out);

/* The call as it stands, through a device without a limit. */
void call_original(const struct call *call, union fy_raw *result);

struct call_run {
    int status; /* of planning or running */
    const char *method;
    struct fy_traffic traffic, predicted;
    uint64_t lower_bound_bytes;
    union fy_raw result;
};

/* Binds, plans and runs on `device' in chunks; budget 0: all of it. */
enum fy_reason call_chunked(const struct call *call, struct fy_device *device,
                            bool random, uint64_t seed, struct call_run *run);
/* Binds and plans only, as for a device of that size. */
enum fy_reason call_planned(const struct call *call, uint64_t budget_bytes,
                            struct call_run *run);

/* Fills an element of a type with a number in [-1, 1], or with NaN. */
void call_fill(enum fy_type type, void *element, uint64_t *state);

#endif
