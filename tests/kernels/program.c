/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the functions of library.c and compares with its own loops. Prints what
 * is wrong, and how many values were compared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/vml.h"

enum {
    N = 40001,
    M = 123,
    LDA = 150,
    COLUMNS = 301
};

static double da[N], db[N], dr[N];
static float sa[N], sb[N], sr[N], grid[LDA * COLUMNS], before[LDA * COLUMNS];
static unsigned long compared, wrong;
static int count = N; /* of vector math */

static void
compare(const char *name, double value, double wanted, double eps)
{
    double bound = 64 * eps * fmax(fabs(wanted), 1e-3);
    compared++;
    if (value != wanted && !(fabs(value - wanted) <= bound) && wrong++ < 10) {
        printf("%s: %.17g, not %.17g\n", name, value, wanted);
    }
}

static void
fill(int range)
{
    for (int i = 0; i < N; i++) {
        double x = ((i * 7919L) % 10007 + 0.5) / 10008;
        double y = ((i * 104729L) % 10009 + 0.5) / 10010;
        da[i] = range == 0 ? x : range == 1 ? 8 * x - 4 : 1.125 + 3 * x;
        db[i] = range == 0 ? y : range == 1 ? 8 * y - 4 : 1.125 + 3 * y;
        sa[i] = (float)da[i];
        sb[i] = (float)db[i];
    }
}

#define UNARY(name, value, range)                               \
    fill(range);                                                \
    vd##name(count, da, dr);                                    \
    vs##name(count, sa, sr);                                    \
    for (int i = 0; i < count; i++) {                           \
        double a = da[i];                                       \
        compare("vd" #name, dr[i], value, 0x1p-52);             \
        a = sa[i];                                              \
        compare("vs" #name, sr[i], value, 0x1p-23);             \
    }                                                           \
    memcpy(dr, da, sizeof dr);                                  \
    vd##name(count, dr, dr);                                    \
    for (int i = 0; i < count; i++) {                           \
        double a = da[i];                                       \
        compare("vd" #name " in place", dr[i], value, 0x1p-52); \
    }
#define BINARY(name, value, range)                              \
    fill(range);                                                \
    vd##name(count, da, db, dr);                                \
    vs##name(count, sa, sb, sr);                                \
    for (int i = 0; i < count; i++) {                           \
        double a = da[i], b = db[i];                            \
        compare("vd" #name, dr[i], value, 0x1p-52);             \
        a = sa[i];                                              \
        b = sb[i];                                              \
        compare("vs" #name, sr[i], value, 0x1p-23);             \
    }                                                           \
    memcpy(dr, db, sizeof dr);                                  \
    vd##name(count, da, dr, dr);                                \
    for (int i = 0; i < count; i++) {                           \
        double a = da[i], b = db[i];                            \
        compare("vd" #name " in place", dr[i], value, 0x1p-52); \
    }

static void
all_of_vml(void)
{
    VML_UNARY(UNARY)
    VML_BINARY(BINARY)
    fill(2);
    vdPowx(count, da, 2.5, dr);
    vsLinearFrac(count, sa, sb, 2, 3, 4, 5, sr);
    for (int i = 0; i < count; i++) {
        compare("vdPowx", dr[i], pow(da[i], 2.5), 0x1p-52);
        compare("vsLinearFrac", sr[i], (2.0 * sa[i] + 3) / (4.0 * sb[i] + 5),
                0x1p-23);
    }
    /* In place ferry passes the numbers itself, as floats. */
    memcpy(sr, sa, sizeof sr);
    vsLinearFrac(count, sr, sb, 2, 3, 4, 5, sr);
    for (int i = 0; i < count; i++) {
        compare("vsLinearFrac in place", sr[i],
                (2.0 * sa[i] + 3) / (4.0 * sb[i] + 5), 0x1p-23);
    }
}

/* Kernels whose threads meet. */
static void
shared(void)
{
    enum {
        ROWS = 97,
        WIDTH = 131
    };
    static double y[ROWS], wanted[ROWS];
    /* Small integers: every order of a sum gives the same. */
    for (int i = 0; i < ROWS * ROWS; i++) {
        sa[i] = (float)(i % 5 - 2);
        sb[i] = (float)(i % 7 - 3);
        sr[i] = (float)(i % 9);
    }
    take_product(ROWS, sa, sb, sr);
    for (int i = 0; i < ROWS * ROWS; i++) {
        float sum = (float)(i % 9);
        for (int k = 0; k < ROWS; k++) {
            sum -= sa[i % ROWS + k * ROWS] * sb[k + i / ROWS * ROWS];
        }
        compare("take_product", sr[i], sum, 0);
    }
    /* The last of these has no device any more. */
    fill(1);
    for (int k = 0; k < 2; k++) {
        (k == 0 ? row_shares : row_shares_short)(ROWS, WIDTH, da, WIDTH + 5, y);
        for (int i = 0; i < ROWS; i++) {
            wanted[i] = 0;
            for (int j = 0; j < WIDTH; j++) {
                wanted[i] += da[i * (WIDTH + 5) + j];
            }
        }
        for (int i = 0; i < ROWS; i++) {
            double most = 0;
            for (int j = i / 32 * 32; j < i / 32 * 32 + 32 && j < ROWS; j++) {
                most = fmax(most, fabs(wanted[j]));
            }
            compare(k == 0 ? "row_shares" : "row_shares_short", y[i],
                    wanted[i] / most, 0x1p-42);
        }
    }
}

static void
kernels(void)
{
    static int x[N];
    static short y[N];
    fill(1);
    scale(N, 3, da, dr);
    for (int i = 0; i < N; i++) {
        compare("scale", dr[i], 3 * da[i], 0);
        x[i] = i * 37 - 70000;
    }
    counts(N, x, y);
    for (int i = 0; i < N; i++) {
        compare("counts", y[i], (short)(x[i] % 7 == 3 ? -x[i] : x[i] / 2), 0);
    }
    for (int i = 0; i < LDA * COLUMNS; i++) {
        grid[i] = before[i] = sa[i % N];
    }
    grid2(M, COLUMNS, sb, grid, LDA, 0.5F);
    for (int i = 0; i < LDA * COLUMNS; i++) {
        float old = before[i];
        float wanted = i % LDA >= M ? old
                       : old > 0    ? 0.5F * old + sb[i % LDA]
                                    : (float)M;
        compare("grid2", grid[i], wanted, i % LDA >= M ? 0 : 0x1p-23);
    }
    memcpy(dr, da, sizeof dr);
    for (int k = 0; k < 3; k++) {
        broken(N, dr);
    }
    for (int i = 0; i < N; i++) {
        compare("broken", dr[i], da[i] + 3, 0x1p-52);
    }
}

/* For who looks at what maps compute: small, and of many kinds. */
static void
maps(void)
{
    static int x[N];
    static short y[N];
    fill(2);
    for (int i = 0; i < count; i++) {
        x[i] = i * 37 - 7000;
    }
    for (int k = 0; k < 3; k++) {
        black_scholes(count - k, 0.05, 0.25 + k / 8.0, da, db, da + k, dr,
                      dr + N / 2);
        counts(count - k, x, y);
        for (int i = 0; i < LDA * COLUMNS; i++) {
            grid[i] = sa[i % N];
        }
        /* Not sb, of which an element is one of sa: the smallest change of it
         * takes the other branch, and nothing could be told by the results. */
        blend(17 + k, 13, sb + 1, sb + 3, grid, LDA, 0.5F);
    }
}

int
main(int argc, char **argv)
{
    if (argc > 2 && atoi(argv[2]) > 0 && atoi(argv[2]) < N / 2) {
        count = atoi(argv[2]);
    }
    if (argc > 1 && strcmp(argv[1], "vml") == 0) {
        all_of_vml();
    } else if (argc > 1 && strcmp(argv[1], "shared") == 0) {
        shared();
    } else if (argc > 1 && strcmp(argv[1], "maps") == 0) {
        all_of_vml();
        maps();
    } else {
        kernels();
    }
    printf("%lu compared, %lu wrong\n", compared, wrong);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
