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

static void
compare(const char *name, double value, double wanted, double eps)
{
    double bound = 64 * eps * fmax(fabs(wanted), 1e-3);
    compared++;
    if (!(fabs(value - wanted) <= bound) && wrong++ < 10) {
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
    vd##name(N, da, dr);                                        \
    vs##name(N, sa, sr);                                        \
    for (int i = 0; i < N; i++) {                               \
        double a = da[i];                                       \
        compare("vd" #name, dr[i], value, 0x1p-52);             \
        a = sa[i];                                              \
        compare("vs" #name, sr[i], value, 0x1p-23);             \
    }                                                           \
    memcpy(dr, da, sizeof dr);                                  \
    vd##name(N, dr, dr);                                        \
    for (int i = 0; i < N; i++) {                               \
        double a = da[i];                                       \
        compare("vd" #name " in place", dr[i], value, 0x1p-52); \
    }
#define BINARY(name, value, range)                              \
    fill(range);                                                \
    vd##name(N, da, db, dr);                                    \
    vs##name(N, sa, sb, sr);                                    \
    for (int i = 0; i < N; i++) {                               \
        double a = da[i], b = db[i];                            \
        compare("vd" #name, dr[i], value, 0x1p-52);             \
        a = sa[i];                                              \
        b = sb[i];                                              \
        compare("vs" #name, sr[i], value, 0x1p-23);             \
    }                                                           \
    memcpy(dr, db, sizeof dr);                                  \
    vd##name(N, da, dr, dr);                                    \
    for (int i = 0; i < N; i++) {                               \
        double a = da[i], b = db[i];                            \
        compare("vd" #name " in place", dr[i], value, 0x1p-52); \
    }

static void
all_of_vml(void)
{
    VML_UNARY(UNARY)
    VML_BINARY(BINARY)
    fill(2);
    vdPowx(N, da, 2.5, dr);
    vsLinearFrac(N, sa, sb, 2, 3, 4, 5, sr);
    for (int i = 0; i < N; i++) {
        compare("vdPowx", dr[i], pow(da[i], 2.5), 0x1p-52);
        compare("vsLinearFrac", sr[i], (2.0 * sa[i] + 3) / (4.0 * sb[i] + 5),
                0x1p-23);
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

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "vml") == 0) {
        all_of_vml();
    } else {
        kernels();
    }
    printf("%lu compared, %lu wrong\n", compared, wrong);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
