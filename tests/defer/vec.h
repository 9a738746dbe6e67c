/* SPDX-License-Identifier: Apache-2.0 */
/* The library of tests/defer/vec.c. */
#ifndef FERRY_TESTS_DEFER_VEC_H
#define FERRY_TESTS_DEFER_VEC_H

extern long vec_calls;

void vec_add(int n, const double *a, const double *b, double *r);
void vec_mul(int n, const double *a, const double *b, double *r);
void vec_sqrt(int n, const double *a, double *r);
void vec_axpy(int n, double alpha, const double *x, double *y);
void vec_linear(int n, const double *a, double s, double h, double t, double u,
                double *r);
void vec_halves(int n, const float *a, float s, float *r);
void vec_copy(int n, const double *a, double *r);
void vec_clean(int n, const double *a, double *r); /* not of NaNs */
void vec_touch(int n, double *r);                  /* vec_copy() in place */
double vec_sum(int n, const double *a);

#endif
