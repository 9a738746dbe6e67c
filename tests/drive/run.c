/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one call twice, by libffi, and compares all memory and the result.
 */
#include "config.h"

#include <complex.h>
#include <ffi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"

union result {
    float s;
    double d;
    ffi_arg word;
    char bytes[16];
};

static ffi_type *
scalar_type(char kind)
{
    switch (kind) {
    case 'c':
        return &ffi_type_schar;
    case 'e':
        return &ffi_type_sint;
    case 'i':
        return integer_is_64 ? &ffi_type_sint64 : &ffi_type_sint32;
    case 'l':
        return &ffi_type_uint64;
    case 's':
        return &ffi_type_float;
    case 'd':
        return &ffi_type_double;
    default:
        return &ffi_type_pointer;
    }
}

static void
make(const struct call *call, void *function, bool twin, union result *result)
{
    ffi_type *types[2 * MAX_ARGS];
    void *values[2 * MAX_ARGS], *references[MAX_ARGS];
    size_t one = 1;
    unsigned n = call->nargs;
    for (unsigned i = 0; i < n; i++) {
        const struct argument *arg = &call->args[i];
        void *value = (void *)(twin ? arg->twin_value : arg->value);
        bool by_reference =
            arg->kind != 'b' && arg->kind != 'p' &&
            (call->interface == FORTRAN || is_complex(arg->kind)) &&
            !(call->interface != FORTRAN && arg->kind == 'c');
        references[i] = value;
        types[i] = by_reference ? &ffi_type_pointer : scalar_type(arg->kind);
        values[i] = by_reference ? (void *)&references[i] : value;
        if (call->interface == CBLAS && is_complex(arg->kind)) {
            types[i] = &ffi_type_pointer;
            values[i] = &references[i];
        }
    }
    for (unsigned i = 0; i < call->nhidden; i++, n++) {
        types[n] = &ffi_type_uint64;
        values[n] = &one;
    }
    ffi_cif cif;
    ffi_type *rtype = call->result ? scalar_type(call->result) : &ffi_type_void;
    if (ffi_prep_cif(&cif, FFI_DEFAULT_ABI, n, rtype, types) != FFI_OK) {
        abort();
    }
    memset(result, 0, sizeof *result);
    ffi_call(&cif, FFI_FN(function), result, values);
}

/* |x - y| in units of `unit', or -1 where only equal bits will do. */
static double
distance(char type, const char *x, const char *y, double unit)
{
    double worst = 0;
    unsigned parts = is_complex(type) ? 2 : 1;
    for (unsigned i = 0; i < parts; i++) {
        double a, b;
        if (real_of(type) == 's') {
            float f;
            memcpy(&f, x + 4 * i, 4);
            a = f;
            memcpy(&f, y + 4 * i, 4);
            b = f;
        } else {
            memcpy(&a, x + 8 * i, 8);
            memcpy(&b, y + 8 * i, 8);
        }
        if (isnan(a) && isnan(b)) {
            continue;
        }
        if (isnan(a) || isnan(b) || isinf(a) || isinf(b)) {
            if (a != b) {
                return INFINITY;
            }
            continue;
        }
        worst = fmax(worst, fabs(a - b) / unit);
    }
    return worst;
}

static double
magnitude(char type, const char *x)
{
    double zero[2] = {0, 0};
    double d = distance(type, x, (const char *)zero, 1);
    return isfinite(d) ? d : 0;
}

static bool
is_poison(const char *x)
{
    static const unsigned char pattern[4] = {0xbe, 0xba, 0xfb, 0x7f};
    return memcmp(x, pattern, 4) == 0;
}

/* Element `at' as a complex number. */
static double complex
element(char type, const char *data, int64_t at)
{
    const char *x = data + (size_t)at * type_bytes(type);
    float narrow[2] = {0, 0};
    double wide[2] = {0, 0};
    if (real_of(type) == 's') {
        memcpy(narrow, x, type_bytes(type));
        return narrow[0] + I * narrow[1];
    }
    memcpy(wide, x, type_bytes(type));
    return wide[0] + I * wide[1];
}

/* How far the vectors of both are from being multiples of each other. */
static double
compare_vectors(const struct buffer *buffer, double unit)
{
    double worst = 0;
    for (int64_t v = 0; v < buffer->vectors.count; v++) {
        double complex inner = 0;
        double x2 = 0, y2 = 0, residual = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < buffer->vectors.length; i++) {
                int64_t at =
                    v * buffer->vectors.stride + i * buffer->vectors.step;
                double complex x = element(buffer->type, buffer->data, at);
                double complex y = element(buffer->type, buffer->twin_data, at);
                if (pass == 0) {
                    inner += conj(x) * y;
                    x2 += creal(x * conj(x));
                    y2 += creal(y * conj(y));
                } else {
                    residual = fmax(residual, cabs(inner * x - y));
                }
            }
            if (pass == 0 && (x2 < 0.5 || y2 < 0.5 || cabs(inner) < 0.5)) {
                return INFINITY; /* not unit vectors, or another direction */
            }
            inner /= cabs(inner);
        }
        worst = fmax(worst, residual / unit);
    }
    return worst;
}

/* A size that is at least the other, or the workspace's own. */
static bool
is_size(const struct buffer *buffer, const char *x, const char *y)
{
    if (buffer->type == 'i') {
        int64_t p = 0, q = 0;
        memcpy(&p, x, integer_is_64 ? 8 : 4);
        memcpy(&q, y, integer_is_64 ? 8 : 4);
        return p >= q || p == (int64_t)buffer->elements;
    }
    const double size = creal(element(buffer->type, x, 0));
    return size >= creal(element(buffer->type, y, 0)) ||
           size == (double)buffer->elements;
}

static double
compare(const struct buffer *buffer, double unit, const char **what,
        double *digest)
{
    size_t bytes = type_bytes(buffer->type);
    size_t n = buffer->is_workspace ? buffer->returned : buffer->elements;
    double worst = 0;
    bool compared = false; /* its vectors */
    for (size_t i = 0; i < n; i++) {
        const char *x = buffer->data + i * bytes;
        const char *y = buffer->twin_data + i * bytes;
        if (buffer->type != 'i' && !is_poison(y)) {
            *digest += magnitude(buffer->type, y) * (double)(1 + i % 7);
        }
        if (memcmp(x, y, bytes) == 0) {
            continue;
        }
        *what = buffer->name;
        /* Of what a workspace needs either may be told, or what it has. */
        if (buffer->is_workspace
                ? is_size(buffer, x, y)
                : documented_only && buffer->destroyed && !is_poison(y)) {
            continue;
        }
        if (buffer->type == 'i' || is_poison(x) != is_poison(y)) {
            return -1;
        }
        if (compared) {
            continue;
        }
        compared = buffer->vectors.count > 0;
        double d = compared ? compare_vectors(buffer, unit)
                            : distance(buffer->type, x, y, unit);
        if (isinf(d)) {
            return -1;
        }
        worst = fmax(worst, d);
    }
    /* The margins around it. */
    if (!buffer->is_workspace &&
        (memcmp(buffer->base, buffer->twin,
                (size_t)(buffer->data - buffer->base)) != 0 ||
         memcmp(buffer->data + buffer->elements * bytes,
                buffer->twin_data + buffer->elements * bytes,
                MARGIN_BYTES) != 0)) {
        *what = "margin";
        return -1;
    }
    return worst;
}

/* The largest number in the buffers' (or their twins') first elements. */
static void
scale_call(struct call *call, bool twins)
{
    for (unsigned i = 0; i < call->nbuffers; i++) {
        const struct buffer *b = &call->buffers[i];
        size_t bytes = type_bytes(b->type);
        size_t n = b->is_workspace ? b->returned : b->elements;
        const char *data = twins ? b->twin_data : b->data;
        for (size_t j = 0; j < n && b->type != 'i'; j++) {
            if (!is_poison(data + j * bytes)) {
                call->scale =
                    fmax(call->scale, magnitude(b->type, data + j * bytes));
            }
        }
    }
}

void
snapshot_call(struct call *call)
{
    call->scale = 1;
    for (unsigned i = 0; i < call->nbuffers; i++) {
        struct buffer *b = &call->buffers[i];
        memcpy(b->twin, b->base,
               (size_t)(b->data - b->base) + b->elements * type_bytes(b->type) +
                   MARGIN_BYTES);
    }
    scale_call(call, false);
}

double
compare_call(struct call *call, const char **what, double *digest)
{
    double worst = 0;
    scale_call(call, true);
    double unit = call->growth * type_epsilon(call->type) * call->scale;
    for (unsigned i = 0; i < call->nbuffers; i++) {
        const char *place = "";
        double d = compare(&call->buffers[i], unit, &place, digest);
        if (d < 0) {
            *what = place;
            return d;
        }
        if (d > worst) {
            worst = d;
            *what = place;
        }
    }
    return worst;
}

double
run_call(struct call *call, void *function, void *twin_function,
         const char **what, double *digest)
{
    union result mine, twins;
    snapshot_call(call);
    make(call, twin_function, true, &twins);
    make(call, function, false, &mine);
    *what = "";
    *digest = 0;
    double worst = compare_call(call, what, digest);
    if (worst < 0 || !call->result) {
        return worst;
    }
    bool same = true;
    double d = 0;
    if (call->result == 's' || call->result == 'd') {
        double size_of = magnitude(call->result, twins.bytes);
        *digest += size_of;
        d = distance(call->result, mine.bytes, twins.bytes,
                     call->growth * type_epsilon(call->result) *
                         fmax(call->scale, size_of));
        same = isfinite(d);
    } else if (call->result == 'l') {
        same = mine.word == twins.word;
    } else {
        same = (int32_t)mine.word == (int32_t)twins.word;
    }
    if (!same || d > worst) {
        *what = "result";
    }
    return same ? fmax(worst, d) : -1;
}

void
free_call(struct call *call)
{
    for (unsigned i = 0; i < call->nbuffers; i++) {
        free(call->buffers[i].base);
        free(call->buffers[i].twin);
    }
    call->nbuffers = 0;
}
