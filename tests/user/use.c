/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An unmodified program that uses userlib on sizes larger than the device it
 * will be given, and prints every bit of its results as hashes: run with and
 * without ferry the output must be the same text.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "userlib.h"

static uint64_t
hash(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = 1469598103934665603ULL;
    for (size_t i = 0; i < bytes; i++) {
        h = (h ^ p[i]) * 1099511628211ULL;
    }
    return h;
}

static uint64_t state = 88172645463325252ULL;

static double
uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0 - 0.5;
}

static void
fill(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = uniform();
    }
}

static struct image
image_new(int32_t width, int32_t height, size_t pitch)
{
    struct image im = {width, height, pitch, NULL, "image"};
    im.pixels = malloc(pitch * (size_t)height * sizeof(float));
    for (size_t i = 0; i < pitch * (size_t)height; i++) {
        im.pixels[i] = (float)uniform();
    }
    return im;
}

static void
print_image(const char *name, const struct image *im)
{
    printf("%s %016" PRIx64 "\n", name,
           hash(im->pixels, im->pitch * (size_t)im->height * sizeof(float)));
}

static void
use_images(void)
{
    struct image a = image_new(301, 200, 320), b = image_new(301, 200, 301);
    struct image c = image_new(301, 200, 305), wrong = image_new(10, 10, 10);
    image_adjust(&a, 1.5F, -0.25F);
    print_image("adjust", &a);
    printf("multiply %d\n", image_multiply(&c, &a, &b));
    print_image("product", &c);
    printf("multiply %d\n", image_multiply(&wrong, &a, &b));
    print_image("wrong", &wrong);
    printf("sizes %d %d %zu %s\n", a.width, a.height, a.pitch, a.title);
    free(a.pixels);
    free(b.pixels);
    free(c.pixels);
    free(wrong.pixels);
}

static void
use_arrays(void)
{
    enum {
        ROWS = 150,
        COLS = 333,
        BATCH = 40,
        M = 17,
        N = 23
    };
    double *a = malloc(sizeof(double) * ROWS * COLS), sums[ROWS];
    fill(a, (size_t)ROWS * COLS);
    row_sums(ROWS, COLS, a, sums);
    printf("row_sums %016" PRIx64 "\n", hash(sums, sizeof sums));
    printf("peak %a\n", peak((size_t)ROWS * COLS, a));
    printf("peak of none %a\n", peak(0, a));

    double x[BATCH * N], y[BATCH * M];
    fill(x, (size_t)BATCH * N);
    batch_gemv(BATCH, M, N, a, x, y);
    printf("batch_gemv %016" PRIx64 "\n", hash(y, sizeof y));

    uint8_t *bytes = malloc(400000);
    double bins[200];
    for (size_t i = 0; i < 400000; i++) {
        bytes[i] = (uint8_t)((uniform() + 0.5) * 256);
    }
    fill(bins, 200);
    for (int i = 0; i < 200; i++) {
        bins[i] = floor(bins[i] * 100);
    }
    histogram_add(400000, bytes, 200, bins);
    printf("histogram %016" PRIx64 "\n", hash(bins, sizeof bins));

    float *v = malloc(sizeof(float) * 50000);
    for (size_t i = 0; i < 50000; i++) {
        v[i] = (float)(int)(uniform() * 64); /* sums are exact */
    }
    printf("energy %a\n", energy(50000, v));

    struct table *table = table_new(2.25);
    double *out = malloc(sizeof(double) * 10000);
    table_map(table, 10000, a, 3, out);
    printf("table %016" PRIx64 "\n", hash(out, sizeof(double) * 10000));
    table_map(table, 10000, a + 29997, -3, out);
    printf("table backwards %016" PRIx64 "\n",
           hash(out, sizeof(double) * 10000));
    table_free(table);
    free(out);
    free(v);
    free(bytes);
    free(a);
}

int
main(void)
{
    use_images();
    use_arrays();
    return 0;
}
