/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of calls of tests/defer/vec.c that a device may make one kernel of, or
 * must not. `fused CASE' prints what the program sees: the same with and without
 * ferry, to the bit; `fused' names the cases. Run by fused.sh, which counts
 * kernels and bytes.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/defer/cases.h"
#include "tests/defer/vec.h"

enum {
    PAGE = 4096,
    N = 20 * PAGE / 8, /* doubles: whole pages, nothing at the ends */
    MANY = 30,         /* vectors: more than a kernel has buffers */
    NUMBERS = 40 /* calls with four numbers: more than it has parameters */
};

/* A mapping of its own. */
static void *
pages(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        abort();
    }
    return at;
}

static double *
vector(int seed)
{
    double *v = pages(N * sizeof *v);
    for (int i = 0; i < N; i++) {
        v[i] = 1 + ((i * 7L + seed * 13L) % 1000) / 1024.0;
    }
    return v;
}

static void
show(const char *what, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t hash = 1469598103934665603U;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ at[i]) * 1099511628211U;
    }
    printf("%s %016llx\n", what, (unsigned long long)hash);
}

static void
show_vector(const char *what, const double *v)
{
    show(what, v, N * sizeof *v);
}

/* One result of two inputs; t and u are passed on. */
static void
chain(void)
{
    double *a = vector(1), *b = vector(2), *t = vector(3), *u = vector(4);
    double *r = vector(5);
    vec_add(N, a, b, t);
    vec_sqrt(N, t, u);
    vec_mul(N, u, a, r);
    vec_add(N, r, b, r);
    munmap(t, N * sizeof *t); /* nobody will look at them */
    munmap(u, N * sizeof *u);
    show_vector("r", r);
}

/* The same vector in and out, also by a function called otherwise then. */
static void
in_place(void)
{
    double *a = vector(1), *b = vector(2);
    vec_mul(N, a, a, a);
    vec_copy(N, a, a);
    vec_add(N, a, b, a);
    vec_sqrt(N, a, a);
    vec_copy(N, a, b);
    vec_mul(N, a, b, b);
    show_vector("a", a);
    show_vector("b", b);
}

/* What s was made of is gone when it is computed, if order is lost. */
static void
overwritten(void)
{
    double *a = vector(1), *b = vector(2), *r = vector(3), *s = vector(4);
    vec_add(N, a, b, r);
    vec_mul(N, r, a, s);
    vec_mul(N, b, b, r);
    vec_sqrt(N, a, b);
    vec_add(N, r, b, a);
    show_vector("s", s);
    show_vector("r", r);
    show_vector("b", b);
    show_vector("a", a);
}

/* Not looked at first, but then. */
static void
passed_on(void)
{
    double *a = vector(1), *b = vector(2), *t = vector(3), *r = vector(4);
    vec_add(N, a, b, t);
    vec_mul(N, t, t, r);
    vec_sqrt(N, r, r);
    show_vector("r", r);
    show_vector("t", t);
}

/* A function of a library between maps. */
static void
mixed(void)
{
    double *a = vector(1), *b = vector(2), *r = vector(3), *s = vector(4);
    vec_add(N, a, b, r);
    vec_mul(N, r, a, r);
    vec_axpy(N, 0.5, a, r);
    vec_sqrt(N, r, s);
    vec_mul(N, s, r, s);
    show_vector("s", s);
    show_vector("r", r);
}

static void
many(void)
{
    double *v[MANY];
    for (int i = 0; i < MANY; i++) {
        v[i] = vector(i);
    }
    for (int i = 2; i < MANY; i++) {
        vec_add(N, v[i - 1], v[i - 2], v[i]);
        vec_sqrt(N, v[i], v[i]);
    }
    for (int i = 0; i < MANY; i++) {
        show_vector("v", v[i]);
    }
}

static void
numbers(void)
{
    double *a = vector(1);
    for (int i = 0; i < NUMBERS; i++) {
        vec_linear(N, a, 1 + i / 64.0, 0.25, 0.5, 1 + i / 32.0, a);
    }
    show_vector("a", a);
}

/* The same memory as floats, and as half as many doubles. */
static void
sizes(void)
{
    double *a = vector(1);
    char *shared = pages(N * sizeof *a);
    float f[2 * N];
    for (int i = 0; i < 2 * N; i++) {
        f[i] = 1 + (float)(i % 1000) / 1024;
    }
    memcpy(shared, f, sizeof f);
    for (int i = 0; i < 3; i++) {
        vec_halves(2 * N, (void *)shared, 1.5F, (void *)shared);
        vec_mul(N, (void *)shared, a, (void *)shared);
    }
    show("shared", shared, N * sizeof *a);
}

static const struct test_case cases[] = {
    {"chain", chain},
    {"in-place", in_place},
    {"overwritten", overwritten},
    {"passed-on", passed_on},
    {"mixed", mixed},
    {"many", many},
    {"numbers", numbers},
    {"sizes", sizes},
};

int
main(int argc, char **argv)
{
    return run_cases(cases, sizeof cases / sizeof cases[0], NULL, argc, argv);
}
