/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Twiddle factors as accurate as their type: angles are reduced to an eighth of
 * a turn in integers, and every factor is one product of two long doubles, so
 * that no error grows with the size of a transform.
 */
#include "config.h"

#include "pager/blocked/fft.h"

#include <complex.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

void
fy_twiddle(int64_t m, int64_t n, int64_t sign, long double out[2])
{
    /* Turns of a quarter, then m / n <= 1/4, folded at an eighth. */
    __int128 scaled = (__int128)4 * m;
    int quarter = (int)(scaled / n);
    __int128 rest = scaled - (__int128)quarter * n; /* of n, a quarter */
    bool folded = 2 * rest > n;
    const long double quarter_turn = acosl(-1.0L) / 2;
    long double angle =
        quarter_turn *
        ((long double)(folded ? n - rest : rest) / (long double)n);
    long double c = cosl(angle), s = sinl(angle);
    long double re = folded ? s : c, im = folded ? c : s;

    for (int i = 0; i < quarter; i++) {
        long double t = re;
        re = -im;
        im = t;
    }
    out[0] = re;
    out[1] = sign < 0 ? -im : im;
}

/* w^m of w = exp(sign 2 pi i / n) from two short tables. */
struct powers {
    int64_t n, step; /* m = high * step + low */
    long double complex *high, *low;
};

static int
powers_new(int64_t n, int64_t sign, struct powers *out)
{
    int64_t step = 1, count;

    while (step < n / step) {
        step *= 2;
    }
    count = n / step + 1;
    out->n = n;
    out->step = step;
    out->high = malloc((size_t)(count + step) * sizeof(*out->high));
    if (!out->high) {
        return FY_ERR_NOMEM;
    }
    out->low = out->high + count;
    for (int64_t i = 0; i < count + step; i++) {
        long double w[2];
        int64_t m = i < count ? i * step : i - count;
        fy_twiddle(m % n, n, sign, w);
        out->high[i] = CMPLXL(w[0], w[1]);
    }
    return FY_OK;
}

/* w^(j k) for k < n1, as a row. */
static void
fill_row(const struct powers *w, int64_t j, int64_t n1, bool is_double,
         char *to)
{
    int64_t m = 0;

    for (int64_t k = 0; k < n1; k++) {
        long double complex x = w->high[m / w->step] * w->low[m % w->step];
        if (is_double) {
            ((double complex *)(void *)to)[k] =
                CMPLX((double)creall(x), (double)cimagl(x));
        } else {
            ((float complex *)(void *)to)[k] =
                CMPLXF((float)creall(x), (float)cimagl(x));
        }
        m += j;
        m -= m >= w->n ? w->n : 0;
    }
}

int
fy_twiddles_new(struct fy_planner *planner, int64_t n1, int64_t n2,
                int64_t sign, bool is_double, uint64_t table_bytes,
                struct fy_twiddles *out)
{
    uint64_t row_bytes = (uint64_t)n1 * (is_double ? 16 : 8);
    struct powers powers;
    int64_t rows = 1;

    if (n1 < 1 || n1 > INT_MAX / 2 || table_bytes < 2 * row_bytes) {
        return FY_ERR_NOFIT;
    }
    while (rows < n2 / rows &&
           (uint64_t)(2 * rows) * row_bytes <= table_bytes &&
           2 * rows * n1 <= INT_MAX) {
        rows *= 2;
    }
    if (rows < 2) {
        rows = 2; /* one row at a time would be a product for each */
    }
    int64_t nbases = (n2 + rows - 1) / rows;
    *out = (struct fy_twiddles){.n1 = n1, .rows = rows};
    out->bases = fy_planner_hold(planner, (uint64_t)nbases * row_bytes);
    out->table = fy_planner_hold(planner, (uint64_t)rows * row_bytes);
    out->spare = fy_planner_hold(planner, (uint64_t)rows * row_bytes);
    if (!out->bases || !out->table || !out->spare) {
        return FY_ERR_NOMEM;
    }
    int status = powers_new(n1 * n2, sign, &powers);
    if (status) {
        return status;
    }
    for (int64_t i = 0; i < nbases; i++) {
        fill_row(&powers, i * rows, n1, is_double,
                 out->bases + (uint64_t)i * row_bytes);
    }
    for (int64_t i = 0; i < rows; i++) {
        fill_row(&powers, i, n1, is_double,
                 out->table + (uint64_t)i * row_bytes);
    }
    free(powers.high);
    return FY_OK;
}
