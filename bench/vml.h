/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector math with the prototypes of MKL's, for the programs here: what
 * annotations/lib/vml.ferry describes, in a library that is free. n elements
 * each; results may be an input.
 */
#ifndef FERRY_BENCH_VML_H
#define FERRY_BENCH_VML_H

void vdAdd(int n, const double *a, const double *b, double *r);
void vdSub(int n, const double *a, const double *b, double *r);
void vdMul(int n, const double *a, const double *b, double *r);
void vdDiv(int n, const double *a, const double *b, double *r);
void vdSqr(int n, const double *a, double *r);
void vdSqrt(int n, const double *a, double *r);
void vdExp(int n, const double *a, double *r);
void vdLn(int n, const double *a, double *r);
void vdErf(int n, const double *a, double *r);
void vdSin(int n, const double *a, double *r);
void vdCos(int n, const double *a, double *r);
void vdAsin(int n, const double *a, double *r);
/* r = (scale_a * a + shift_a) / (scale_b * b + shift_b) */
void vdLinearFrac(int n, const double *a, const double *b, double scale_a,
                  double shift_a, double scale_b, double shift_b, double *r);

#endif
