/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes moved over the least that any schedule moves, for n x n doubles and a
 * device of limited memory. `traffic [--run] [N [MEMORY-MiB]]': with --run the
 * calls are made and the executor's own count is shown, else the plans'.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "pager/plan/build.h"
#include "tests/unit/calls.h"

struct row {
    const char *name, *signature;
    double products; /* of the bound: products * n^3 / sqrt(S), 0: one pass */
    double matrices; /* ... plus that many n x n */
    double beta;
};

/* Bounds: gemm 2 n^3 / sqrt(S) + n^2; the others as in pager/algo_*.c. */
static const struct row rows[] = {
    {"dgemm_", "tTmnkaA1B2bC3", 2, 1, 0},
    {"dgemm_", "tTmnkaA1B2bC3", 2, 2, 1},
    {"dsymm_", "sumnaA1B2bC3", 1.41421, 1, 0},
    {"dsyrk_", "utnkaA1bC3", 0.70711, 0.5, 0},
    {"dsyr2k_", "utnkaA1B2bC3", 1.41421, 0.5, 0},
    {"dtrmm_", "sutdmnaA1B2", 1, 1, 0},
    {"dtrsm_", "sutdmnaA1B2", 1, 1, 0},
    {"dpotrf_", "unA1i", 0.235702, 0.5, 0},
    {"dgetrf_", "mnA1Bi", 0.66667, 1, 0},
    {"dgemv_", "tmnaA1BxbCy", 0, 0, 1},
    {"daxpy_", "naAxBy", 0, 0, 0},
    {"ddot_", "nAxBy", 0, 0, 0},
};

static void
fill(double *matrix, int64_t n)
{
    uint64_t state = 7;

    for (int64_t i = 0; i < n * n; i++) {
        call_fill(FY_T_F64, &matrix[i], &state);
    }
    for (int64_t i = 0; i < n; i++) {
        matrix[i * n + i] += (double)n;
    }
}

static void
show(const struct row *row, const struct fy_model *model,
     struct call_numbers *numbers, uint64_t memory, bool run)
{
    bool vector = strchr(row->signature, 'm') == NULL && row->products == 0;
    struct call_numbers own = *numbers;
    struct call call;
    struct call_run result;
    double started = fy_clock_seconds(), bound;

    own.beta[0] = row->beta;
    if (vector) {
        own.n = numbers->n * numbers->n;
    }
    if (!call_make(model, row->name, row->signature, &own, &call)) {
        printf("%-8s is not installed\n", row->name);
        return;
    }
    enum fy_reason reason;
    if (run) {
        struct fy_device *device;
        if (fy_device_host.open(memory, &device)) {
            return;
        }
        started = fy_clock_seconds();
        reason = call_chunked(&call, device, false, 0, &result);
        fy_device_host.close(device);
    } else {
        reason = call_planned(&call, memory, &result);
        result.traffic = result.predicted;
    }
    if (reason != FY_REASON_NONE || result.status) {
        printf("%-8s %s %s\n", row->name, fy_reason_word(reason),
               fy_status_text(result.status));
        return;
    }
    double n = (double)numbers->n, s = (double)memory / 8;
    bound = 8 * (row->products * n * n * n / sqrt(s) + row->matrices * n * n);
    if (bound < (double)result.lower_bound_bytes) {
        bound = (double)result.lower_bound_bytes;
    }
    double moved =
        (double)result.traffic.bytes_in + (double)result.traffic.bytes_out;
    printf("%-8s %4g %6llu %8.1f %8.1f %8.1f %7.3f %7.2f %s\n", row->name,
           row->beta, (unsigned long long)result.traffic.chunks,
           (double)result.traffic.bytes_in / (1 << 20),
           (double)result.traffic.bytes_out / (1 << 20), bound / (1 << 20),
           moved / bound, fy_clock_seconds() - started, result.method);
}

int
main(int argc, char **argv)
{
    static const char *const files[] = {"blas1.ferry", "blas2.ferry",
                                        "blas3.ferry", "lapack.ferry"};
    bool run = argc > 1 && strcmp(argv[1], "--run") == 0;
    int first = run ? 2 : 1;
    int64_t n = argc > first ? atoll(argv[first]) : 4096;
    uint64_t memory =
        (uint64_t)((argc > first + 1 ? atof(argv[first + 1]) : 64) * (1 << 20));
    const struct fy_model *model = calls_model(files, 4);
    int32_t info;
    struct call_numbers numbers = {
        .side = 'L',
        .uplo = 'L',
        .transa = 'N',
        .transb = 'N',
        .diag = 'N',
        .m = n,
        .n = n,
        .k = n,
        .order = 102,
        .alpha = {1, 0},
        .ld = {n, n, n},
        .inc = {1, 1},
        .info = &info,
    };

    for (unsigned i = 0; i < 3; i++) {
        numbers.matrix[i] = calloc((size_t)(n * n), sizeof(double));
        if (!numbers.matrix[i]) {
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the program ends */
            return 1;
        }
        if (run) {
            fill(numbers.matrix[i], n);
        }
    }
    printf("n = %lld, %.1f MiB of device memory, doubles\n", (long long)n,
           (double)memory / (1 << 20));
    printf("%-8s %4s %6s %8s %8s %8s %7s %7s\n", "call", "beta", "chunks",
           "MiB in", "MiB out", "bound", "ratio", "seconds");
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        show(&rows[i], model, &numbers, memory, run);
    }
    return 0;
}
