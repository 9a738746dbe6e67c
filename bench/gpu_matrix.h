/* SPDX-License-Identifier: Apache-2.0 */
/* What gpu_calls' check knows of its matrices beyond the header of all. */
#ifndef FERRY_BENCH_GPU_MATRIX_H
#define FERRY_BENCH_GPU_MATRIX_H

#include "bench/gpu_calls.h"

/* Above the diagonal of what is stored as a triangle: nobody's to read or write. */
#define SENTINEL 7.0

/* As it was filled; part 1 is the imaginary one. */
double bench_element(const struct matrix *m, int64_t i, int64_t j, int part);

#endif
