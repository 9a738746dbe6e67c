/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From CBOR to a struct, by its table; nothing that comes is trusted. libcbor's
 * streaming half reads the items: nothing is allocated before its length is
 * known to lie within the bytes that came, and nesting is counted.
 */
#include "config.h"

#include "proxy/wire/specs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cbor.h>

enum {
    MAX_DEPTH = 16,
    MAX_SHOWN = 40, /* bytes of a foreign key in a message */
};

static void
store_number(void *at, size_t bytes, uint64_t number)
{
    switch (bytes) {
    case 2:
        *(uint16_t *)at = (uint16_t)number;
        break;
    case 4:
        *(uint32_t *)at = (uint32_t)number;
        break;
    default:
        *(uint64_t *)at = number;
        break;
    }
}

/* ---- items ---- */

enum item_type {
    ITEM_NONE,
    ITEM_NUMBER,
    ITEM_NEGATIVE, /* -1 - number */
    ITEM_STRING,
    ITEM_TEXT,
    ITEM_ARRAY,
    ITEM_MAP,
    ITEM_REAL,
    ITEM_BOOLEAN,
    ITEM_TAG,
    ITEM_SIMPLE,  /* null, undefined */
    ITEM_ENDLESS, /* of indefinite length */
};

struct item {
    enum item_type type;
    uint64_t number;
    double real;
    const unsigned char *bytes;
};

struct reader {
    char *at, *end;
    struct fy_buffer *why;
    bool no_memory;
};

static void
item_number(void *context, enum item_type type, uint64_t number)
{
    struct item *item = context;
    item->type = type;
    item->number = number;
}

#define NUMBER_CALLBACK(name, type, item_type)   \
    static void name(void *context, type number) \
    {                                            \
        item_number(context, item_type, number); \
    }
NUMBER_CALLBACK(on_uint8, uint8_t, ITEM_NUMBER)
NUMBER_CALLBACK(on_uint16, uint16_t, ITEM_NUMBER)
NUMBER_CALLBACK(on_uint32, uint32_t, ITEM_NUMBER)
NUMBER_CALLBACK(on_uint64, uint64_t, ITEM_NUMBER)
NUMBER_CALLBACK(on_negint8, uint8_t, ITEM_NEGATIVE)
NUMBER_CALLBACK(on_negint16, uint16_t, ITEM_NEGATIVE)
NUMBER_CALLBACK(on_negint32, uint32_t, ITEM_NEGATIVE)
NUMBER_CALLBACK(on_negint64, uint64_t, ITEM_NEGATIVE)
NUMBER_CALLBACK(on_array, size_t, ITEM_ARRAY)
NUMBER_CALLBACK(on_map, size_t, ITEM_MAP)
NUMBER_CALLBACK(on_tag, uint64_t, ITEM_TAG)
NUMBER_CALLBACK(on_boolean, bool, ITEM_BOOLEAN)

static void
on_bytes(void *context, cbor_data bytes, size_t n)
{
    item_number(context, ITEM_STRING, n);
    ((struct item *)context)->bytes = bytes;
}

static void
on_text(void *context, cbor_data bytes, size_t n)
{
    item_number(context, ITEM_TEXT, n);
    ((struct item *)context)->bytes = bytes;
}

static void
on_double(void *context, double number)
{
    item_number(context, ITEM_REAL, 0);
    ((struct item *)context)->real = number;
}

static void
on_float(void *context, float number)
{
    on_double(context, (double)number);
}

static void
on_simple(void *context)
{
    item_number(context, ITEM_SIMPLE, 0);
}

static void
on_endless(void *context)
{
    item_number(context, ITEM_ENDLESS, 0);
}

static const struct cbor_callbacks callbacks = {
    .uint8 = on_uint8,
    .uint16 = on_uint16,
    .uint32 = on_uint32,
    .uint64 = on_uint64,
    .negint8 = on_negint8,
    .negint16 = on_negint16,
    .negint32 = on_negint32,
    .negint64 = on_negint64,
    .byte_string = on_bytes,
    .byte_string_start = on_endless,
    .string = on_text,
    .string_start = on_endless,
    .array_start = on_array,
    .indef_array_start = on_endless,
    .map_start = on_map,
    .indef_map_start = on_endless,
    .tag = on_tag,
    .float2 = on_float,
    .float4 = on_float,
    .float8 = on_double,
    .null = on_simple,
    .undefined = on_simple,
    .boolean = on_boolean,
    .indef_break = on_endless,
};

int
fy_spec_wrong(struct fy_buffer *why, const char *shape, const char *key,
              const char *what)
{
    fy_buffer_add(why, shape);
    if (key) {
        fy_buffer_printf(why, ": %s", key);
    }
    fy_buffer_printf(why, ": %s", what);
    return FY_ERR_INVALID;
}

static int
fail(struct reader *r, const char *shape, const char *key, const char *what)
{
    return fy_spec_wrong(r->why, shape, key, what);
}

/* The next item's head, and all of a string. NULL, or the error. */
static const char *
next_item(struct reader *r, struct item *item)
{
    *item = (struct item){0};
    struct cbor_decoder_result result = cbor_stream_decode(
        (cbor_data)r->at, (size_t)(r->end - r->at), &callbacks, item);
    if (result.status == CBOR_DECODER_NEDATA) {
        return "longer than the message";
    }
    if (result.status != CBOR_DECODER_FINISHED) {
        return "not CBOR";
    }
    r->at += result.read;
    if (item->type == ITEM_ENDLESS) {
        return "of indefinite length";
    }
    /* Each element takes a byte at least. */
    uint64_t left = (uint64_t)(r->end - r->at);
    if ((item->type == ITEM_ARRAY && item->number > left) ||
        (item->type == ITEM_MAP && item->number > left / 2)) {
        return "longer than the message";
    }
    return NULL;
}

/* Passes over one value that nobody here knows. */
static const char *
skip(struct reader *r, unsigned depth)
{
    struct item item;
    const char *wrong = next_item(r, &item);
    if (wrong) {
        return wrong;
    }
    uint64_t more = 0;
    if (item.type == ITEM_ARRAY) {
        more = item.number;
    } else if (item.type == ITEM_MAP) {
        more = 2 * item.number;
    } else if (item.type == ITEM_TAG) {
        more = 1;
    }
    if (more && depth == MAX_DEPTH) {
        return "nested too deeply";
    }
    for (; more; more--) {
        wrong = skip(r, depth + 1);
        if (wrong) {
            return wrong;
        }
    }
    return NULL;
}

/* A byte string moves over its own head by a byte, to make room for a NUL. */
static const char *
take_bytes(struct reader *r, bool binary, struct fy_bytes *out)
{
    struct item item;
    const char *wrong = next_item(r, &item);
    if (wrong) {
        return wrong;
    }
    if (item.type != ITEM_STRING) {
        return "must be a byte string";
    }
    size_t n = (size_t)item.number;
    char *from = r->at - n, *to = from - 1;
    if (!binary && memchr(from, 0, n)) {
        return "holds a NUL";
    }
    memmove(to, from, n);
    to[n] = 0;
    *out = (struct fy_bytes){to, n};
    return NULL;
}

/* ---- decoding ---- */

static int get_map(struct reader *r, const struct fy_spec_shape *shape,
                   char *to);

static const char *
get_strings(struct reader *r, const struct fy_spec_field *field, uint64_t count,
            char *to)
{
    struct fy_bytes *strings = NULL;
    if (count > FY_SPEC_MAX_STRINGS) {
        return "too many";
    }
    if (count && !(strings = calloc(count, sizeof *strings))) {
        r->no_memory = true;
        return "no memory";
    }
    memcpy(to + field->at, &strings, sizeof(struct fy_bytes *));
    uint32_t n = (uint32_t)count;
    memcpy(to + field->count_at, &n, sizeof n);
    for (uint32_t i = 0; i < n; i++) {
        const char *wrong = take_bytes(r, false, &strings[i]);
        if (wrong) {
            return wrong;
        }
    }
    return NULL;
}

static const char *
get_limits(struct reader *r, uint64_t count, uint64_t (*limits)[2])
{
    struct item item;
    if (count != FY_SPEC_NLIMITS) {
        return "must be 16 pairs";
    }
    for (int i = 0; i < FY_SPEC_NLIMITS; i++) {
        const char *wrong = next_item(r, &item);
        if (wrong) {
            return wrong;
        }
        if (item.type != ITEM_ARRAY || item.number != 2) {
            return "must be 16 pairs";
        }
        for (int k = 0; k < 2; k++) {
            wrong = next_item(r, &item);
            if (wrong) {
                return wrong;
            }
            if (item.type != ITEM_NUMBER) {
                return "must be unsigned integers";
            }
            limits[i][k] = item.number;
        }
    }
    return NULL;
}

static int
get_maps(struct reader *r, const struct fy_spec_shape *shape,
         const struct fy_spec_field *field, uint64_t count, char *to)
{
    char *maps = NULL;
    if (count > FY_SPEC_MAX_STRINGS) {
        return fail(r, shape->name, field->name, "too many");
    }
    if (count && !(maps = calloc(count, field->shape->bytes))) {
        return FY_ERR_NOMEM;
    }
    memcpy(to + field->at, &maps, sizeof(char *));
    uint32_t n = (uint32_t)count;
    memcpy(to + field->count_at, &n, sizeof n);
    for (uint32_t i = 0; i < n; i++) {
        int status = get_map(r, field->shape, maps + i * field->shape->bytes);
        if (status) {
            return status;
        }
    }
    return FY_OK;
}

static const char *
get_number(const struct fy_spec_field *field, const struct item *item, void *at)
{
    if (field->kind == FY_SPEC_NUMBER) {
        if (item->type != ITEM_NUMBER) {
            return "must be an unsigned integer";
        }
        if (item->number > field->most) {
            return "is too large";
        }
        store_number(at, field->bytes, item->number);
        return NULL;
    }
    if (item->type != ITEM_NUMBER && item->type != ITEM_NEGATIVE) {
        return "must be an integer";
    }
    if (item->number > INT64_MAX) {
        return "is out of range";
    }
    int64_t number = (int64_t)item->number;
    number = item->type == ITEM_NEGATIVE ? -1 - number : number;
    if (number < field->least ||
        (number >= 0 && (uint64_t)number > field->most)) {
        return "is out of range";
    }
    store_number(at, field->bytes, (uint64_t)number);
    return NULL;
}

static const char *
get_real(const struct item *item, double *out)
{
    double number;
    if (item->type == ITEM_REAL) {
        number = item->real;
    } else if (item->type == ITEM_NUMBER) {
        number = (double)item->number;
    } else {
        return "must be a number";
    }
    if (!isfinite(number) || number < 0) {
        return "must be finite and not negative";
    }
    *out = number;
    return NULL;
}

static int
get_field(struct reader *r, const struct fy_spec_shape *shape,
          const struct fy_spec_field *field, char *to)
{
    void *at = to + field->at;
    struct item item;
    const char *wrong;
    if (field->kind == FY_SPEC_MAP) {
        return get_map(r, field->shape, at);
    }
    if (field->kind == FY_SPEC_BYTES || field->kind == FY_SPEC_BINARY) {
        wrong = take_bytes(r, field->kind == FY_SPEC_BINARY, at);
        return wrong ? fail(r, shape->name, field->name, wrong) : FY_OK;
    }
    wrong = next_item(r, &item);
    if (!wrong &&
        (field->kind == FY_SPEC_STRINGS || field->kind == FY_SPEC_MAPS ||
         field->kind == FY_SPEC_LIMITS) &&
        item.type != ITEM_ARRAY) {
        wrong = "must be an array";
    }
    if (wrong) {
        return fail(r, shape->name, field->name, wrong);
    }
    switch (field->kind) {
    case FY_SPEC_NUMBER:
    case FY_SPEC_SIGNED:
        wrong = get_number(field, &item, at);
        break;
    case FY_SPEC_BOOLEAN:
        if (item.type != ITEM_BOOLEAN) {
            wrong = "must be a boolean";
        } else {
            *(bool *)at = item.number != 0;
        }
        break;
    case FY_SPEC_REAL:
        wrong = get_real(&item, at);
        break;
    case FY_SPEC_STRINGS:
        wrong = get_strings(r, field, item.number, to);
        break;
    case FY_SPEC_LIMITS:
        wrong = get_limits(r, item.number, at);
        break;
    case FY_SPEC_HASH:
        if (item.type != ITEM_STRING || item.number != FY_SPEC_HASH_BYTES) {
            wrong = "must be 32 bytes";
        } else {
            memcpy(at, item.bytes, FY_SPEC_HASH_BYTES);
        }
        break;
    case FY_SPEC_MAPS:
        return get_maps(r, shape, field, item.number, to);
    case FY_SPEC_MAP:
    case FY_SPEC_BYTES:
    case FY_SPEC_BINARY:
        break;
    }
    return wrong ? fail(r, shape->name, field->name, wrong) : FY_OK;
}

/* A key that nobody here knows: passed over, unless it says '!'. */
static int
get_unknown(struct reader *r, const struct fy_spec_shape *shape,
            const char *key, size_t n)
{
    char shown[MAX_SHOWN + 1];
    size_t k = 0;
    for (; k < n && k < MAX_SHOWN; k++) {
        shown[k] = (char)(key[k] >= ' ' && key[k] < 0x7f ? key[k] : '?');
    }
    shown[k] = 0;
    if (n && key[0] == '!') {
        return fail(r, shape->name, shown, "is required and not known here");
    }
    const char *wrong = skip(r, 1);
    return wrong ? fail(r, shape->name, shown, wrong) : FY_OK;
}

static int
get_map(struct reader *r, const struct fy_spec_shape *shape, char *to)
{
    struct item item;
    uint64_t seen = 0;
    const char *wrong = next_item(r, &item);
    if (!wrong && item.type != ITEM_MAP) {
        wrong = "must be a map";
    }
    if (wrong) {
        return fail(r, shape->name, NULL, wrong);
    }
    for (uint64_t left = item.number; left; left--) {
        struct item key;
        wrong = next_item(r, &key);
        if (!wrong && key.type != ITEM_TEXT) {
            wrong = "a key that is no text";
        }
        if (wrong) {
            return fail(r, shape->name, NULL, wrong);
        }
        const char *name = (const char *)key.bytes;
        unsigned i = 0;
        while (i < shape->n &&
               (strlen(shape->fields[i].name) != key.number ||
                memcmp(shape->fields[i].name, name, (size_t)key.number) != 0)) {
            i++;
        }
        int status;
        if (i == shape->n) {
            status = get_unknown(r, shape, name, (size_t)key.number);
        } else if (seen & (UINT64_C(1) << i)) {
            status =
                fail(r, shape->name, shape->fields[i].name, "is there twice");
        } else {
            seen |= UINT64_C(1) << i;
            status = get_field(r, shape, &shape->fields[i], to);
        }
        if (status) {
            return status;
        }
    }
    for (unsigned i = 0; i < shape->n; i++) {
        if (shape->fields[i].required && !(seen & (UINT64_C(1) << i))) {
            return fail(r, shape->name, shape->fields[i].name, "is missing");
        }
    }
    return FY_OK;
}

void
fy_spec_clear(const struct fy_spec_shape *shape, void *message)
{
    for (unsigned i = 0; i < shape->n; i++) {
        const struct fy_spec_field *field = &shape->fields[i];
        if (field->kind == FY_SPEC_STRINGS || field->kind == FY_SPEC_MAPS) {
            char *at = (char *)message + field->at;
            void *array;
            memcpy(&array, at, sizeof array);
            free(array);
            memset(at, 0, sizeof array);
            memset((char *)message + field->count_at, 0, sizeof(uint32_t));
        }
    }
}

int
fy_spec_decode(const struct fy_spec_shape *shape, char *bytes, size_t n,
               void *to, struct fy_buffer *why)
{
    struct reader r = {bytes, bytes + n, why, false};
    if (n > FY_SPEC_MAX_BYTES) {
        return fail(&r, shape->name, NULL, "is too long");
    }
    int status = get_map(&r, shape, to);
    if (!status && r.at != r.end) {
        status = fail(&r, shape->name, NULL, "something follows");
    }
    if (status) {
        fy_spec_clear(shape, to);
    }
    return r.no_memory ? FY_ERR_NOMEM : status;
}
