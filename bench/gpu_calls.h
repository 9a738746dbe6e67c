/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of gpu_calls, the program that bench/gpu times. Matrices are
 * column-major without padding; their elements are a function of their place,
 * so that a result can be checked without a copy of what it came from.
 */
#ifndef FERRY_BENCH_GPU_CALLS_H
#define FERRY_BENCH_GPU_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum shape {
    SHAPE_WHOLE,
    SHAPE_LOWER,     /* zero above a heavy diagonal */
    SHAPE_SYMMETRIC, /* these three: only the lower triangle is stored */
    SHAPE_DEFINITE,
};

struct matrix {
    void *data;
    int64_t rows, columns;
    char type; /* s, d, z */
    unsigned seed;
    enum shape shape;
};

enum kind {
    KIND_GEMM,  /* C = A B */
    KIND_SYMM,  /* C = A B, A symmetric */
    KIND_SYRK,  /* C = A A^T */
    KIND_TRSM,  /* C := A^-1 C, A lower */
    KIND_POTRF, /* C := L, C = L L^T */
    KIND_GETRF, /* C := L and U, P C = L U */
};

struct job {
    const char *text;
    enum kind kind;
    char type;
    int64_t m, n, k;
    struct matrix a, b, c;
    void *pivots;
    bool wide;   /* pivots are of 64 bits */
    bool vector; /* GEMM with n = 1, by gemv */
    bool adds;   /* GEMM with beta = 1: timed, and not checked */
};

/* One call; seconds of it, and of the copies around it where they are apart. */
struct times {
    double call, copies;
};

struct way {
    const char *name;
    /* 0, or a negative value with *why set to a static text. */
    int (*run)(struct job *job, struct times *times, const char **why);
};

/* gpu_ways.c, gpu_hand.c */
extern const struct way bench_ways[];
int bench_hand_ring(struct job *job, struct times *times, const char **why);
int bench_hand_register(struct job *job, struct times *times, const char **why);
int bench_hand_registered(struct job *job, struct times *times,
                          const char **why);

/* gpu_matrix.c */
typedef void bench_body(void *argument, int thread, int64_t from, int64_t to);
int bench_threads(void);
/* body over 0 .. count - 1 in pieces of `step', by all threads. */
void bench_parallel(int64_t count, int64_t step, bench_body *body,
                    void *argument);
double bench_now(void);
/* Begins simulated time where it can be had (tests/fakecuda/clock.h): then nothing is
 * filled, computed or checked. */
void bench_simulate(void);
bool bench_is_simulated(void);
/* A copy of rows in host memory. */
void bench_copy_rows(char *to, size_t to_pitch, const char *from,
                     size_t from_pitch, size_t width_bytes, size_t rows);
size_t bench_element_bytes(char type);
int bench_matrix_make(struct matrix *m);
void bench_matrix_fill(const struct matrix *m);

/* gpu_check.c: the largest difference relative to the largest value. */
double bench_residual(const struct job *job);
double bench_bound(const struct job *job);

#endif
