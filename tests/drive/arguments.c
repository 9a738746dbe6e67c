/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of one random call: numbers, flags and poisoned memory laid
 * out as BLAS, CBLAS and LAPACKE want it.
 */
#include "config.h"

#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"

bool integer_is_64, documented_only;

size_t
type_bytes(char type)
{
    switch (type) {
    case 's':
        return 4;
    case 'd':
    case 'c':
        return 8;
    case 'z':
        return 16;
    default:
        return integer_is_64 ? 8 : 4;
    }
}

double
type_epsilon(char type)
{
    return real_of(type) == 's' ? 0x1p-23 : 0x1p-52;
}

uint64_t
random_bits(struct call *call)
{
    call->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = call->random;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int64_t
random_int(struct call *call, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(random_bits(call) % (uint64_t)(hi - lo + 1));
}

double
random_unit(struct call *call)
{
    return (double)(int64_t)random_bits(call) * 0x1p-63;
}

int64_t
random_size(struct call *call)
{
    if (random_int(call, 0, 19) == 0) {
        return 0;
    }
    if (random_int(call, 0, 9) == 0) {
        return 1;
    }
    return random_int(call, 1, call->max_size);
}

static struct argument *
push(struct call *call, const char *name, char kind)
{
    if (call->nargs == MAX_ARGS) {
        abort();
    }
    struct argument *arg = &call->args[call->nargs++];
    memset(arg, 0, sizeof *arg);
    snprintf(arg->name, sizeof arg->name, "%s", name);
    arg->kind = kind;
    arg->buffer = -1;
    return arg;
}

static void
set(struct argument *arg, const void *value, size_t bytes)
{
    memcpy(arg->value, value, bytes);
    memcpy(arg->twin_value, value, bytes);
}

void
layout(struct call *call)
{
    if (call->interface == FORTRAN) {
        return;
    }
    int order = random_int(call, 0, 1) ? 101 : 102;
    call->row_major = order == 101;
    set(push(call, "order", 'e'), &order, sizeof order);
}

/* CBLAS' number of a letter, by what the argument is called. */
static int
enumerator(const char *name, char letter)
{
    if (!strncmp(name, "trans", 5)) {
        return letter == 'N' ? 111 : letter == 'T' ? 112 : 113;
    }
    if (!strcmp(name, "uplo")) {
        return letter == 'U' ? 121 : 122;
    }
    if (!strcmp(name, "diag")) {
        return letter == 'N' ? 131 : 132;
    }
    return letter == 'L' ? 141 : 142;
}

char
flag(struct call *call, const char *name, const char *letters)
{
    char letter = letters[random_int(call, 0, (int64_t)strlen(letters) - 1)];
    if (call->interface == CBLAS) {
        int number = enumerator(name, letter);
        set(push(call, name, 'e'), &number, sizeof number);
        return letter;
    }
    char written = letter;
    if (random_int(call, 0, 3) == 0) {
        written = (char)(letter + 'a' - 'A');
    }
    set(push(call, name, 'c'), &written, 1);
    call->nhidden += call->interface == FORTRAN;
    return letter;
}

int64_t
size(struct call *call, const char *name, int64_t value)
{
    struct argument *arg = push(call, name, 'i');
    int32_t narrow = (int32_t)value;
    if (integer_is_64) {
        set(arg, &value, sizeof value);
    } else {
        set(arg, &narrow, sizeof narrow);
    }
    return value;
}

unsigned
scalar(struct call *call, const char *name, char type)
{
    unsigned is = 0;
    int64_t dice = random_int(call, 0, 9);
    double re = random_unit(call), im = random_unit(call);
    if (dice < 2) {
        re = im = 0;
        is = IS_ZERO;
    } else if (dice < 4) {
        re = 1;
        im = 0;
        is = IS_ONE;
    }
    double pair[2] = {re, im};
    float narrow[2] = {(float)re, (float)im};
    set(push(call, name, type),
        real_of(type) == 's' ? (void *)narrow : (void *)pair, type_bytes(type));
    return is;
}

void
pointer(struct call *call, const char *name, const void *value,
        const void *twin_value)
{
    struct argument *arg = push(call, name, 'p');
    memcpy(arg->value, &value, sizeof value);
    memcpy(arg->twin_value, &twin_value, sizeof twin_value);
}

/* Bytes that are a quiet NaN in every type and an absurd INTEGER. */
static void
poison(char *at, size_t bytes)
{
    static const unsigned char pattern[4] = {0xbe, 0xba, 0xfb, 0x7f};
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (char)pattern[i % 4];
    }
}

struct buffer *
array(struct call *call, const char *name, char type, size_t elements)
{
    if (call->nbuffers == MAX_BUFFERS) {
        abort();
    }
    struct buffer *buffer = &call->buffers[call->nbuffers];
    memset(buffer, 0, sizeof *buffer);
    snprintf(buffer->name, sizeof buffer->name, "%s", name);
    buffer->type = type;
    buffer->elements = elements;
    /* A margin on both sides, and any alignment an element may have. */
    size_t bytes = type_bytes(type);
    size_t margin = MARGIN_BYTES;
    if (!call->aligned) {
        margin += bytes * (size_t)random_int(call, 0, 7);
    }
    size_t total = (margin + elements * bytes + MARGIN_BYTES + 63) / 64 * 64;
    buffer->base = aligned_alloc(64, total);
    buffer->twin = aligned_alloc(64, total);
    if (!buffer->base || !buffer->twin) {
        abort();
    }
    poison(buffer->base, total);
    buffer->data = buffer->base + margin;
    buffer->twin_data = buffer->twin + margin;
    struct argument *arg = push(call, name, 'b');
    arg->buffer = (int)call->nbuffers++;
    memcpy(arg->value, &buffer->data, sizeof buffer->data);
    memcpy(arg->twin_value, &buffer->twin_data, sizeof buffer->twin_data);
    return buffer;
}

struct buffer *
workspace(struct call *call, const char *name, char type, size_t elements,
          size_t returned)
{
    struct buffer *buffer = array(call, name, type, elements);
    buffer->is_workspace = true;
    buffer->returned = returned;
    return buffer;
}

void
fill(struct call *call, struct buffer *buffer, size_t at, double scale,
     double shift)
{
    double pair[2] = {scale * random_unit(call) + shift,
                      scale * random_unit(call)};
    float narrow[2] = {(float)pair[0], (float)pair[1]};
    size_t bytes = type_bytes(buffer->type);
    memcpy(buffer->data + at * bytes,
           real_of(buffer->type) == 's' ? (void *)narrow : (void *)pair, bytes);
}

void
set_integer(struct buffer *buffer, size_t at, int64_t value)
{
    int32_t narrow = (int32_t)value;
    size_t bytes = type_bytes('i');
    memcpy(buffer->data + at * bytes,
           integer_is_64 ? (void *)&value : (void *)&narrow, bytes);
}

/* Element (i, j) of a shape, stored at `at'. */
static void
place(struct call *call, struct buffer *buffer, const struct shape *shape,
      int64_t i, int64_t j, size_t at)
{
    double scale = shape->scale == 0 ? 1 : shape->scale;
    if (shape->unread || (shape->uplo == 'U' && i > j) ||
        (shape->uplo == 'L' && i < j) || (shape->unit && i == j)) {
        return;
    }
    fill(call, buffer, at, scale,
         i == j ? shape->diagonal + shape->step * (double)i : 0);
    if (i == j && shape->real_diagonal && is_complex(buffer->type)) {
        size_t half = type_bytes(buffer->type) / 2;
        memset(buffer->data + at * 2 * half + half, 0, half);
    }
}

struct buffer *
matrix(struct call *call, const char *name, char type,
       const struct shape *shape, const char *ld_name)
{
    bool row = call->row_major;
    int64_t inner = row ? shape->n : shape->m;
    int64_t outer = row ? shape->m : shape->n;
    int64_t ld =
        most(1, inner) + random_int(call, 0, 2) * random_int(call, 0, 4);
    struct buffer *buffer = array(call, name, type, (size_t)(ld * outer));
    for (int64_t i = 0; i < shape->m; i++) {
        for (int64_t j = 0; j < shape->n; j++) {
            place(call, buffer, shape, i, j,
                  (size_t)(row ? i * ld + j : i + j * ld));
        }
    }
    size(call, ld_name, ld);
    return buffer;
}

void
unique_up_to_factor(const struct call *call, struct buffer *buffer,
                    bool columns, int64_t count, int64_t length)
{
    /* The leading dimension is the argument behind the matrix. */
    const struct argument *arg = &call->args[0];
    while (arg->kind != 'b' || &call->buffers[arg->buffer] != buffer) {
        arg++;
    }
    int64_t ld = 0;
    memcpy(&ld, arg[1].value, type_bytes('i'));
    bool adjacent = columns == call->row_major;
    buffer->vectors.count = count;
    buffer->vectors.length = length;
    buffer->vectors.stride = adjacent ? 1 : ld;
    buffer->vectors.step = adjacent ? ld : 1;
}

struct buffer *
band(struct call *call, const char *name, const struct shape *shape, int64_t kl,
     int64_t ku, const char *ld_name)
{
    bool row = call->row_major;
    int64_t ld = kl + ku + 1 + random_int(call, 0, 2) * random_int(call, 0, 4);
    struct buffer *buffer = array(call, name, call->type,
                                  (size_t)(ld * (row ? shape->m : shape->n)));
    for (int64_t i = 0; i < shape->m; i++) {
        for (int64_t j = most(0, i - kl); j <= least(shape->n - 1, i + ku);
             j++) {
            place(call, buffer, shape, i, j,
                  (size_t)(row ? kl + j - i + i * ld : ku + i - j + j * ld));
        }
    }
    size(call, ld_name, ld);
    return buffer;
}

struct buffer *
packed(struct call *call, const char *name, const struct shape *shape)
{
    int64_t n = shape->n;
    struct buffer *buffer =
        array(call, name, call->type, (size_t)(n * (n + 1) / 2));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = shape->uplo == 'L' ? 0 : i;
             j < (shape->uplo == 'L' ? i + 1 : n); j++) {
            /* A row-major triangle is the other triangle by columns. */
            int64_t r = call->row_major ? j : i, c = call->row_major ? i : j;
            bool lower = (shape->uplo == 'L') != call->row_major;
            place(call, buffer, shape, i, j,
                  (size_t)(lower ? r + c * (2 * n - c - 1) / 2
                                 : r + c * (c + 1) / 2));
        }
    }
    return buffer;
}

struct buffer *
vector(struct call *call, const char *name, char type, int64_t n, bool negative,
       bool unread, const char *inc_name)
{
    int64_t inc = random_int(call, 0, 1) ? 1 : random_int(call, 1, 4);
    struct buffer *buffer =
        array(call, name, type, (size_t)(n > 0 ? 1 + (n - 1) * inc : 0));
    for (int64_t i = 0; i < n && !unread; i++) {
        fill(call, buffer, (size_t)(i * inc), 1, 0);
    }
    if (negative && random_int(call, 0, 2) == 0) {
        inc = -inc;
    }
    size(call, inc_name, inc);
    return buffer;
}

void
info(struct call *call)
{
    if (call->interface == FORTRAN) {
        set_integer(array(call, "info", 'i', 1), 0, 77);
    }
}
