/* SPDX-License-Identifier: Apache-2.0 */
/* The library of wronglib.c; elements of matrices stand in columns. */
#ifndef FERRY_TESTS_VERIFY_WRONGLIB_H
#define FERRY_TESTS_VERIFY_WRONGLIB_H

struct resampling {
    const float *in;
    float *out;
    const float *window; /* 4 */
    long frames, used, generated;
    double ratio;
    int histogram[4];
};

int resample(struct resampling *r);  /* counts in used, generated, histogram */
void amplify(struct resampling *r);  /* adds to generated */
void shift(const int *n, double *x); /* x := x + n[1], for n[0] of them */
void fill_even(int n, const double *x, double *y); /* y(0), y(2), ... */
void add_to(int n, const double *x, double *y);    /* y := x + y */
/* c := a b + beta c; a is m x k, b is k x n */
void product(int m, int n, int k, const double *a, int lda, const double *b,
             int ldb, double beta, double *c, int ldc);
void look_at(int n, const double *x); /* adds to a variable of the library */
double what_was_seen(void);
void sort(int n, double *x);
void magnitudes(int n, double *x);             /* x := |x| */
void at_least(int n, double least, double *x); /* x := max(x, least) */
void saturate(int n, double *x);               /* into 0 ... 1 */
void add_bytes(int n, const unsigned char *x, unsigned char *y); /* up to 255 */
void cover(int n, double by, double *x); /* x(i) := i by: reads nothing */
void parts_of_one(int n, const double *x, double *y); /* fractions */
void roots(int n, const double *x, double *y);        /* errno = EDOM below 0 */
/* y := x + 2 y without the last x */
void all_but_last(int n, const double *x, double *y);
void doubles(int n, const double *x, double *y); /* y := 2 x, prints n */

#endif
