/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a struct to CBOR, by its table. Every key is written, in the order of the
 * table, so that equal structs give equal bytes.
 */
#include "config.h"

#include "proxy/wire/specs.h"

#include <stdlib.h>
#include <string.h>

#include <cbor.h>

/* Integers lie in the structs in their own widths. */
static uint64_t
load_number(const void *at, size_t bytes)
{
    switch (bytes) {
    case 2:
        return *(const uint16_t *)at;
    case 4:
        return *(const uint32_t *)at;
    default:
        return *(const uint64_t *)at;
    }
}

static int64_t
load_signed(const void *at, size_t bytes)
{
    return bytes == 4 ? *(const int32_t *)at : *(const int64_t *)at;
}

struct writer {
    unsigned char *bytes;
    size_t n, capacity;
    int status;
};

/* Room for that many bytes more, or NULL. */
static unsigned char *
make_room(struct writer *w, size_t more)
{
    if (w->status) {
        return NULL;
    }
    if (more > FY_SPEC_MAX_BYTES || w->n > FY_SPEC_MAX_BYTES - more) {
        w->status = FY_ERR_OVERFLOW;
        return NULL;
    }
    if (w->capacity - w->n < more) {
        size_t capacity = 2 * w->capacity + more + 512;
        unsigned char *bytes = realloc(w->bytes, capacity);
        if (!bytes) {
            w->status = FY_ERR_NOMEM;
            return NULL;
        }
        w->bytes = bytes;
        w->capacity = capacity;
    }
    return w->bytes + w->n;
}

enum {
    ITEM_BYTES = 9
}; /* an item's head at most */

static void
put_head(struct writer *w, size_t (*encode)(size_t, unsigned char *, size_t),
         size_t n)
{
    unsigned char *at = make_room(w, ITEM_BYTES);
    if (at) {
        w->n += encode(n, at, ITEM_BYTES);
    }
}

static void
put_number(struct writer *w, uint64_t number)
{
    unsigned char *at = make_room(w, ITEM_BYTES);
    if (at) {
        w->n += cbor_encode_uint(number, at, ITEM_BYTES);
    }
}

static void
put_signed(struct writer *w, int64_t number)
{
    if (number >= 0) {
        put_number(w, (uint64_t)number);
        return;
    }
    unsigned char *at = make_room(w, ITEM_BYTES);
    if (at) {
        w->n += cbor_encode_negint((uint64_t) - (number + 1), at, ITEM_BYTES);
    }
}

static void
put_raw(struct writer *w, const void *bytes, size_t n)
{
    unsigned char *at = make_room(w, n);
    if (at && n) {
        memcpy(at, bytes, n);
        w->n += n;
    }
}

static void
put_bytes(struct writer *w, const void *bytes, size_t n)
{
    put_head(w, cbor_encode_bytestring_start, n);
    put_raw(w, bytes, n);
}

static void
put_real(struct writer *w, double number)
{
    unsigned char *at = make_room(w, ITEM_BYTES);
    if (at) {
        w->n += cbor_encode_double(number, at, ITEM_BYTES);
    }
}

static void put_map(struct writer *w, const struct fy_spec_shape *shape,
                    const char *from);

static void
put_field(struct writer *w, const struct fy_spec_field *field, const char *from)
{
    const void *at = from + field->at;
    uint32_t count = 0;
    if (field->kind == FY_SPEC_STRINGS || field->kind == FY_SPEC_MAPS) {
        memcpy(&count, from + field->count_at, sizeof count);
        put_head(w, cbor_encode_array_start, count);
    }
    switch (field->kind) {
    case FY_SPEC_NUMBER:
        put_number(w, load_number(at, field->bytes));
        break;
    case FY_SPEC_SIGNED:
        put_signed(w, load_signed(at, field->bytes));
        break;
    case FY_SPEC_BOOLEAN: {
        unsigned char *to = make_room(w, 1);
        if (to) {
            w->n += cbor_encode_bool(*(const bool *)at, to, 1);
        }
        break;
    }
    case FY_SPEC_REAL:
        put_real(w, *(const double *)at);
        break;
    case FY_SPEC_BYTES:
    case FY_SPEC_BINARY: {
        const struct fy_bytes *bytes = at;
        put_bytes(w, bytes->at, bytes->n);
        break;
    }
    case FY_SPEC_STRINGS: {
        const struct fy_bytes *strings = *(const struct fy_bytes *const *)at;
        for (uint32_t i = 0; i < count; i++) {
            put_bytes(w, strings[i].at, strings[i].n);
        }
        break;
    }
    case FY_SPEC_LIMITS: {
        const uint64_t(*limits)[2] = at;
        put_head(w, cbor_encode_array_start, FY_SPEC_NLIMITS);
        for (int i = 0; i < FY_SPEC_NLIMITS; i++) {
            put_head(w, cbor_encode_array_start, 2);
            put_number(w, limits[i][0]);
            put_number(w, limits[i][1]);
        }
        break;
    }
    case FY_SPEC_HASH:
        put_bytes(w, at, FY_SPEC_HASH_BYTES);
        break;
    case FY_SPEC_MAP:
        put_map(w, field->shape, at);
        break;
    case FY_SPEC_MAPS: {
        const char *maps = *(const char *const *)at;
        for (uint32_t i = 0; i < count; i++) {
            put_map(w, field->shape, maps + i * field->shape->bytes);
        }
        break;
    }
    }
}

/* A key that the other side must know is left out where it says nothing. */
static bool
is_written(const struct fy_spec_field *field, const char *from)
{
    uint32_t count = 1;
    bool is_set = true;
    if ((field->kind == FY_SPEC_MAPS || field->kind == FY_SPEC_STRINGS) &&
        field->name[0] == '!') {
        memcpy(&count, from + field->count_at, sizeof count);
    } else if (field->kind == FY_SPEC_BOOLEAN && field->name[0] == '!') {
        memcpy(&is_set, from + field->at, sizeof is_set);
    } else if (field->kind == FY_SPEC_NUMBER && field->name[0] == '!') {
        is_set = load_number(from + field->at, field->bytes) != 0;
    }
    return count > 0 && is_set;
}

static void
put_map(struct writer *w, const struct fy_spec_shape *shape, const char *from)
{
    unsigned count = 0;
    for (unsigned i = 0; i < shape->n; i++) {
        count += is_written(&shape->fields[i], from);
    }
    put_head(w, cbor_encode_map_start, count);
    for (unsigned i = 0; i < shape->n; i++) {
        if (!is_written(&shape->fields[i], from)) {
            continue;
        }
        size_t n = strlen(shape->fields[i].name);
        put_head(w, cbor_encode_string_start, n);
        put_raw(w, shape->fields[i].name, n);
        put_field(w, &shape->fields[i], from);
    }
}

int
fy_spec_encode(const struct fy_spec_shape *shape, const void *from, char **out,
               size_t *out_bytes)
{
    struct writer w = {0};
    put_map(&w, shape, from);
    put_raw(&w, "", 1); /* the NUL that a decoder may want; not counted */
    if (w.status) {
        free(w.bytes);
        return w.status;
    }
    *out = (char *)w.bytes;
    *out_bytes = w.n - 1;
    return FY_OK;
}
