/* SPDX-License-Identifier: Apache-2.0 */
/* The library of tests/defer/vec.c. */
#ifndef FERRY_TESTS_DEFER_VEC_H
#define FERRY_TESTS_DEFER_VEC_H

extern long vec_calls;

void vec_add(int n, const double *a, const double *b, double *r);
void vec_mul(int n, const double *a, const double *b, double *r);
void vec_sqrt(int n, const double *a, double *r);
void vec_axpy(int n, double alpha, const double *x, double *y);
double vec_sum(int n, const double *a);

#endif
