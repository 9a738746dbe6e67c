/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The card as gpu_calls uses it by hand: the driver's functions (ferry's own
 * declarations of them, not its code), and the best copies that we know how to
 * write for operands in pageable memory. Trouble ends the program.
 */
#ifndef FERRY_BENCH_GPU_CARD_H
#define FERRY_BENCH_GPU_CARD_H

#include "bench/gpu_calls.h"
#include "pager/device/cuda/driver.h"

enum {
    CARD_THREADS_MAX = 8, /* that copy, each way */
};

struct card {
    struct fy_cuda_driver driver;
    int (*host_register)(void *address, size_t bytes, unsigned flags);
    int (*host_unregister)(void *address);
    int device;
    fy_cuda_handle context, compute;
    void *cublas, *cusolver; /* the libraries; NULL: not there */
    void *blas, *solver;     /* handles on the compute stream */
};

/* One rectangle of host memory and its place on the device. */
struct piece {
    char *host;
    uint64_t device;
    size_t width_bytes, rows, host_pitch, device_pitch;
    fy_cuda_handle event; /* in: it is there; out: it may be copied */
    bool issued;          /* the event is recorded */
};

/* The only card, with the calling thread's context set; NULL and *why. */
struct card *bench_card(const char **why);
void bench_must(const char *what, int result);
uint64_t bench_card_alloc(struct card *card, size_t bytes);
/* A function of a library; NULL: not there. */
void *bench_function(void *library, const char *name);
/* The same into a pointer to a function. */
bool bench_find(void *library, const char *name, void *out);

/*
 * Copies pieces one way, in order, by threads of its own: through page-locked
 * slots, or straight where the memory is page-locked already.
 */
struct mover;
struct mover *bench_mover_start(struct card *card, struct piece *pieces,
                                int count, bool out, bool straight);
/* For the thread that computes: this stream goes on once the piece is there. */
void bench_mover_await(struct mover *mover, int piece, fy_cuda_handle stream);
/* What the stream has done up to here lets the piece be copied out. */
void bench_mover_allow(struct mover *mover, int piece, fy_cuda_handle stream);
/* Waits for all of it. */
void bench_mover_end(struct mover *mover);
/* A whole matrix, through the slots. */
void bench_card_move(struct card *card, const struct matrix *m, uint64_t device,
                     bool out);

/* cuBLAS's gemm of 64-bit integers, or cuBLASXt's: C = A B, or C := A B + C. */
int bench_gemm(void *function, void *handle, char type, const int64_t sizes[3],
               const void *a, int64_t lda, const void *b, int64_t ldb,
               bool adds, void *c, int64_t ldc);

#endif
