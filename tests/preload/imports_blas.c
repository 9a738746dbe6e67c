/* SPDX-License-Identifier: Apache-2.0 */
/* A library with a product of matrices, and what tells ferry the width of its integers; it
 * calls nothing. */
int isamax_(const int *n, const float *x, const int *incx);
void dgemm_(const char *transa, const char *transb, const int *m, const int *n,
            const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc);

void
dgemm_(const char *transa, const char *transb, const int *m, const int *n,
       const int *k, const double *alpha, const double *a, const int *lda,
       const double *b, const int *ldb, const double *beta, double *c,
       const int *ldc)
{
    (void)transa, (void)transb;
    for (int j = 0; j < *n; j++) {
        for (int i = 0; i < *m; i++) {
            double sum = 0;
            for (int l = 0; l < *k; l++) {
                sum += a[l * *lda + i] * b[j * *ldb + l];
            }
            c[j * *ldc + i] = *alpha * sum + *beta * c[j * *ldc + i];
        }
    }
}

int
isamax_(const int *n, const float *x, const int *incx)
{
    int largest = *n > 0;
    for (int i = 1; i < *n; i++) {
        largest = x[i * *incx] > x[(largest - 1) * *incx] ? i + 1 : largest;
    }
    return largest;
}
