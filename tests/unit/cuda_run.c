/* SPDX-License-Identifier: Apache-2.0 */
/* See cuda_run.h. */
#include "config.h"

#include "tests/patience.h"
#include "tests/unit/cuda_run.h"

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/model/model.h"

unsigned long
cuda_count(const char *name)
{
    unsigned long (*count)(const char *);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(driver);
    *(void **)&count = dlsym(driver, "fakecuda_count");
    ck_assert_ptr_nonnull(count);
    unsigned long calls = count(name);
    dlclose(driver);
    return calls;
}

bool
cuda_run_keeps(struct cuda_run *run, int status)
{
    if (run->status == 0) {
        run->status = status;
    }
    return run->status == 0;
}

struct fy_copy
cuda_run_copy(enum fy_direction direction, double *host, uint64_t device)
{
    return (struct fy_copy){.direction = direction,
                            .view.host = (char *)host,
                            .device = device,
                            .view.element_bytes = 8,
                            .view.naxes = 2,
                            .view.extent = {CUDA_RUN_N, CUDA_RUN_N},
                            .view.stride = {1, CUDA_RUN_N + 1},
                            .device_stride = {1, CUDA_RUN_N}};
}

int
cuda_run_gemm(struct cuda_run *run, int lda)
{
    static const uint8_t types[] = {
        FY_T_POINTER, FY_T_I32,     FY_T_I32, FY_T_I32, FY_T_I32,
        FY_T_I32,     FY_T_POINTER, FY_T_U64, FY_T_I32, FY_T_U64,
        FY_T_I32,     FY_T_POINTER, FY_T_U64, FY_T_I32};
    static const uint8_t words[14] = {FY_WORD_CUBLAS};
    static const double one = 1;
    const void *alpha = &one;
    int n = CUDA_RUN_N, none = 0;
    void *values[] = {NULL,    &none, &none,   &n,   &n,     &n,      &alpha,
                      &run->a, &lda,  &run->a, &lda, &alpha, &run->c, &n};
    struct fy_launch launch = {.return_type = FY_T_I32,
                               .nargs = 14,
                               .types = types,
                               .values = values,
                               .words = words,
                               .status = true};
    launch.function = run->ops->resolve(run->device, "cublasDgemm_v2");
    return launch.function == NULL ? FY_ERR_UNSUPPORTED
                                   : run->ops->launch(run->compute, &launch);
}

int
cuda_run_potrf(struct cuda_run *run)
{
    static const uint8_t types[] = {FY_T_POINTER, FY_T_I32,    FY_T_I32,
                                    FY_T_U64,     FY_T_I32,    FY_T_POINTER,
                                    FY_T_I64,     FY_T_POINTER};
    static const uint8_t words[] = {
        FY_WORD_CUSOLVER, FY_WORD_NONE,      FY_WORD_NONE,  FY_WORD_NONE,
        FY_WORD_NONE,     FY_WORD_WORKSPACE, FY_WORD_LWORK, FY_WORD_INFO};
    int n = CUDA_RUN_N, lower = 0;
    void *values[] = {NULL, &lower, &n, &run->c, &n, NULL, NULL, NULL};
    struct fy_launch launch = {.return_type = FY_T_I32,
                               .nargs = 8,
                               .types = types,
                               .values = values,
                               .words = words,
                               .element_bytes = 8,
                               .info = &run->info,
                               .status = true};
    launch.function = run->ops->resolve(run->device, "cusolverDnDpotrf");
    launch.size_function =
        run->ops->resolve(run->device, "cusolverDnDpotrf_bufferSize");
    return launch.function == NULL || launch.size_function == NULL
               ? FY_ERR_UNSUPPORTED
               : run->ops->launch(run->compute, &launch);
}

bool
cuda_run_begin(struct cuda_run *run, uint64_t memory_bytes)
{
    memset(run, 0, sizeof *run);
    run->ops = fy_device_find("cuda");
    run->info = -7;
    run->host_a = calloc((size_t)(CUDA_RUN_N + 1) * CUDA_RUN_N, sizeof(double));
    run->host_c = calloc((size_t)(CUDA_RUN_N + 1) * CUDA_RUN_N, sizeof(double));
    if (run->host_a == NULL || run->host_c == NULL ||
        !cuda_run_keeps(run, run->ops->open(memory_bytes, &run->device))) {
        return false;
    }
    const struct fy_device_ops *ops = run->ops;
    return cuda_run_keeps(run, ops->stream_create(
                                   run->device, FY_STREAM_COPY_IN, &run->in)) &&
           cuda_run_keeps(run,
                          ops->stream_create(run->device, FY_STREAM_COMPUTE,
                                             &run->compute)) &&
           cuda_run_keeps(run,
                          ops->stream_create(run->device, FY_STREAM_COPY_OUT,
                                             &run->out)) &&
           cuda_run_keeps(run, ops->event_create(run->device, &run->copied)) &&
           cuda_run_keeps(run,
                          ops->event_create(run->device, &run->computed)) &&
           cuda_run_keeps(
               run,
               ops->alloc(run->device, CUDA_RUN_N * CUDA_RUN_N * 8, &run->a)) &&
           cuda_run_keeps(
               run,
               ops->alloc(run->device, CUDA_RUN_N * CUDA_RUN_N * 8, &run->c));
}

void
cuda_run_enqueue(struct cuda_run *run, bool factor)
{
    const struct fy_device_ops *ops = run->ops;
    for (int i = 0; i < CUDA_RUN_N; i++) {
        run->host_a[(CUDA_RUN_N + 1) * i + i] = 1;
        run->host_c[(CUDA_RUN_N + 1) * i + i] = 3;
    }
    struct fy_copy a = cuda_run_copy(FY_TO_DEVICE, run->host_a, run->a);
    struct fy_copy c = cuda_run_copy(FY_TO_DEVICE, run->host_c, run->c);
    if (cuda_run_keeps(run, ops->copy(run->in, &a)) &&
        cuda_run_keeps(run, ops->copy(run->in, &c)) &&
        cuda_run_keeps(run, ops->event_record(run->in, run->copied)) &&
        cuda_run_keeps(run, ops->event_wait(run->compute, run->copied)) &&
        cuda_run_keeps(run, cuda_run_gemm(run, CUDA_RUN_N)) &&
        (!factor || cuda_run_keeps(run, cuda_run_potrf(run))) &&
        cuda_run_keeps(run, ops->event_record(run->compute, run->computed)) &&
        cuda_run_keeps(run, ops->event_wait(run->out, run->computed)) &&
        cuda_run_keeps(run, ops->event_sync(run->computed))) {
        c.direction = FY_TO_HOST;
        (void)cuda_run_keeps(run, ops->copy(run->out, &c));
    }
}

void
cuda_run_drain(struct cuda_run *run)
{
    struct fy_stream *streams[] = {run->compute, run->in, run->out};
    for (int i = 0; i < 3; i++) {
        if (streams[i] != NULL) {
            (void)cuda_run_keeps(run, run->ops->stream_sync(streams[i]));
        }
    }
}

void
cuda_run_end(struct cuda_run *run)
{
    if (run->device != NULL) {
        const struct fy_device_ops *ops = run->ops;
        ops->stream_destroy(run->in);
        ops->stream_destroy(run->compute);
        ops->stream_destroy(run->out);
        ops->event_destroy(run->copied);
        ops->event_destroy(run->computed);
        ops->close(run->device);
    }
    free(run->host_a);
    free(run->host_c);
}

bool
cuda_run_is_right(const struct cuda_run *run, double diagonal)
{
    for (int j = 0; j < CUDA_RUN_N; j++) {
        for (int i = 0; i <= CUDA_RUN_N; i++) {
            double expected = i == j ? diagonal : 0;
            if (run->host_c[(CUDA_RUN_N + 1) * j + i] != expected) {
                return false;
            }
        }
    }
    return true;
}

int
cuda_in_child(const char *variable, const char *value, int (*body)(void))
{
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (variable != NULL) {
            (void)setenv(variable, value, 1);
        }
        alarm((unsigned)patient(300));
        int outcome = body();
        _exit(outcome);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

unsigned long
cuda_faults(void)
{
    static const char *const notes[] = {
        "unpinned",   "free-in-use",    "illegal-address",
        "bad-copy",   "bad-stream",     "bad-event",
        "bad-handle", "workspace-race", "small-workspace",
    };
    unsigned long faults = 0;
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        faults += cuda_count(notes[i]);
    }
    return faults;
}
