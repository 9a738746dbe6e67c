/* SPDX-License-Identifier: Apache-2.0
 *
 * Fourier transforms by their definition, split at the factors of the length:
 * short, for every length, and fast enough for tests.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/fft.h"

static int64_t
smallest_factor(int64_t n)
{
    for (int64_t factor = 2; factor * factor <= n; factor++) {
        if (n % factor == 0) {
            return factor;
        }
    }
    return n;
}

/* out[k] = sum of in[j * stride] * root[j * k * step]: n elements, step roots
 * of a whole turn of whole = n * step. */
static void
split(const double complex *in, int64_t stride, double complex *out, int64_t n,
      const double complex *root, int64_t step, double complex *spare)
{
    int64_t factor = smallest_factor(n), part = n / factor, whole = n * step;

    if (n == 1) {
        out[0] = in[0];
        return;
    }
    for (int64_t i = 0; i < factor; i++) {
        split(in + i * stride, stride * factor, out + i * part, part, root,
              step * factor, spare);
    }
    memcpy(spare, out, (size_t)n * sizeof(*out));
    for (int64_t k = 0; k < n; k++) {
        double complex sum = 0;

        for (int64_t i = 0; i < factor; i++) {
            sum += spare[i * part + k % part] * root[i * k % n * step % whole];
        }
        out[k] = sum;
    }
}

/*
 * exp(sign 2 pi i j / n), exact where that is 1, i, -1 or -i and as symmetric as
 * the circle: transforms of small whole numbers are whole then, as programs expect.
 */
static double complex
root_of_one(int64_t j, int64_t n, int sign)
{
    int64_t at = 4 * j, quarter = n;
    bool below = at > 2 * quarter;
    at = below ? 4 * quarter - at : at;
    bool left = at > quarter;
    at = left ? 2 * quarter - at : at;
    bool steep = 2 * at > quarter;
    at = steep ? quarter - at : at;
    double angle = acos(-1.0) / 2 * (double)at / (double)quarter;
    double x = steep ? sin(angle) : cos(angle);
    double y = steep ? cos(angle) : sin(angle);
    return CMPLX(left ? -x : x, below == (sign > 0) ? -y : y);
}

/* One axis: count lines of n elements, stride apart within a line. */
static bool
transform_axis(double complex *data, int64_t before, int64_t n, int64_t after,
               int sign)
{
    double complex *root = malloc((size_t)n * 4 * sizeof(*root));
    double complex *line = root + n, *out = line + n, *spare = out + n;

    if (root == NULL) {
        return false;
    }
    for (int64_t j = 0; j < n; j++) {
        root[j] = root_of_one(j, n, sign);
    }
    for (int64_t i = 0; i < before * after; i++) {
        double complex *at = data + i / after * n * after + i % after;

        for (int64_t j = 0; j < n; j++) {
            line[j] = at[j * after];
        }
        split(line, 1, out, n, root, 1, spare);
        for (int64_t j = 0; j < n; j++) {
            at[j * after] = out[j];
        }
    }
    free(root);
    return true;
}

bool
fft_transform(double complex *data, int rank, const int64_t *n, int sign)
{
    int64_t all = 1, before = 1;
    bool done = true;

    for (int axis = 0; axis < rank; axis++) {
        all *= n[axis];
    }
    for (int axis = 0; axis < rank && done; axis++) {
        done =
            transform_axis(data, before, n[axis], all / before / n[axis], sign);
        before *= n[axis];
    }
    return done;
}
