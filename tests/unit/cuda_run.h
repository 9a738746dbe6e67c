/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One offloaded call from end to end on the CUDA device of the fake driver, in
 * the steps that the tests of its troubles put something between.
 */
#ifndef FERRY_TESTS_UNIT_CUDA_RUN_H
#define FERRY_TESTS_UNIT_CUDA_RUN_H

#include "pager/device/device.h"

enum {
    CUDA_RUN_N =
        192, /* its matrices are larger than what goes without the ring */
    CUDA_RUN_BYTES = 4 << 20,
};

struct cuda_run {
    const struct fy_device_ops *ops;
    struct fy_device *device;
    struct fy_stream *in, *compute, *out;
    struct fy_event *copied, *computed;
    uint64_t a, c;
    double *host_a, *host_c;
    int64_t info;
    int status; /* the first error */
};

/* The device, its streams, events and buffers. */
bool cuda_run_begin(struct cuda_run *run, uint64_t memory_bytes);
/* A = I, C = 3 I; C := A A + C = 4 I, and its Cholesky factor 2 I. */
void cuda_run_enqueue(struct cuda_run *run, bool factor);
void cuda_run_drain(struct cuda_run *run);
void cuda_run_end(struct cuda_run *run);
/* Whether C is that diagonal, and its padding untouched. */
bool cuda_run_is_right(const struct cuda_run *run, double diagonal);

/* Records the first error; whether there is none so far. */
bool cuda_run_keeps(struct cuda_run *run, int status);
struct fy_copy cuda_run_copy(enum fy_direction direction, double *host,
                             uint64_t device);
/* C = A A + C by cuBLAS. */
int cuda_run_gemm(struct cuda_run *run, int lda);
/* Cholesky of C by cuSOLVER: a workspace, and an integer that comes back. */
int cuda_run_potrf(struct cuda_run *run);

/* How often the fake has seen a call, by name. */
unsigned long cuda_count(const char *name);
/*
 * How often it has seen what no caller may do: memory freed in use, copies from
 * memory that is not page-locked, workspaces that race, foreign streams ...
 */
unsigned long cuda_faults(void);
/* Runs `body' in a child with one more variable; its exit status, -1: killed. */
int cuda_in_child(const char *variable, const char *value, int (*body)(void));

#endif
