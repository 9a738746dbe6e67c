/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many kinds of content does a file have? Cuts it into blocks, counts the
 * byte values of each, and finds how much of their variance the first few
 * principal components explain. Plain C and CBLAS; knows nothing of ferry.
 */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BLOCK = 256,
    VALUES = 256,
    COMPONENTS = 4,
    ROUNDS = 60
};

/* One row of counts for each block of the file; NULL when it has too few. */
static double *
read_counts(const char *path, int *out_blocks)
{
    unsigned char block[BLOCK];
    size_t room = 1024, n = 0;
    double *counts = malloc(room * VALUES * sizeof *counts);
    FILE *file = fopen(path, "rb");
    if (!file || !counts) {
        free(counts);
        return NULL;
    }
    while (fread(block, 1, BLOCK, file) == BLOCK) {
        if (n == room) {
            room *= 2;
            counts = realloc(counts, room * VALUES * sizeof *counts);
            if (!counts) {
                break;
            }
        }
        double *row = counts + n++ * VALUES;
        for (int i = 0; i < VALUES; i++) {
            row[i] = 0;
        }
        for (int i = 0; i < BLOCK; i++) {
            row[block[i]] += 1;
        }
    }
    fclose(file);
    *out_blocks = (int)n;
    return counts;
}

int
main(int argc, char **argv)
{
    int blocks = 0;
    double *x = argc == 2 ? read_counts(argv[1], &blocks) : NULL;
    if (!x || blocks < 2) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the program ends */
        fprintf(stderr, "usage: blocks FILE\n");
        return 1;
    }
    for (int j = 0; j < VALUES; j++) {
        double mean = 0;
        for (int i = 0; i < blocks; i++) {
            mean += x[(size_t)i * VALUES + j] / blocks;
        }
        for (int i = 0; i < blocks; i++) {
            x[(size_t)i * VALUES + j] -= mean;
        }
    }
    printf("%d blocks of %d byte counts: %zu MiB\n", blocks, VALUES,
           (size_t)blocks * VALUES * sizeof *x >> 20);

    /* The covariance: the long call, over all of the data. */
    static double c[VALUES][VALUES], v[VALUES][COMPONENTS],
        w[VALUES][COMPONENTS];
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, VALUES, VALUES, blocks,
                1.0 / (blocks - 1), x, VALUES, x, VALUES, 0.0, c[0], VALUES);
    double total = 0;
    for (int i = 0; i < VALUES; i++) {
        total += c[i][i];
        for (int k = 0; k < COMPONENTS; k++) {
            v[i][k] = (i + k) % 7 - 3 + (i == k);
        }
    }
    /* Orthogonal iteration: many small calls. */
    double weight[COMPONENTS] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, VALUES,
                    COMPONENTS, VALUES, 1.0, c[0], VALUES, v[0], COMPONENTS,
                    0.0, w[0], COMPONENTS);
        for (int k = 0; k < COMPONENTS; k++) {
            for (int l = 0; l < k; l++) {
                double r = cblas_ddot(VALUES, &w[0][l], COMPONENTS, &w[0][k],
                                      COMPONENTS);
                cblas_daxpy(VALUES, -r, &w[0][l], COMPONENTS, &w[0][k],
                            COMPONENTS);
            }
            weight[k] = cblas_dnrm2(VALUES, &w[0][k], COMPONENTS);
            cblas_dscal(VALUES, weight[k] > 0 ? 1 / weight[k] : 0, &w[0][k],
                        COMPONENTS);
        }
        cblas_dcopy(VALUES * COMPONENTS, w[0], 1, v[0], 1);
    }
    double sum = 0;
    for (int k = 0; k < COMPONENTS; k++) {
        sum += weight[k];
        printf("  first %d components explain %.4f %%\n", k + 1,
               100 * sum / total);
    }
    free(x);
    return fflush(stdout) != 0;
}
