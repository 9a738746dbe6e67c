/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table a message: its keys, where each lies in the struct, and what it may
 * hold. The encoder, the decoder and PROTOCOL.md's test read the same rows.
 * libcbor's streaming half does the items: nothing is allocated before its
 * length is known to lie within the bytes that came, and nesting is counted.
 */
#include "config.h"

#include "proxy/spec.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cbor.h>

enum {
    MAX_DEPTH = 16,
    NLIMITS = 16,
    HASH_BYTES = 32,
    MAX_SHOWN = 40, /* bytes of a foreign key in a message */
};

/* ---- the tables ---- */

enum kind {
    NUMBER, /* an unsigned integer of `bytes' bytes, at most `most' */
    SIGNED, /* an integer of `bytes' bytes, `least' .. `most' */
    BOOLEAN,
    REAL,    /* finite, not negative */
    BYTES,   /* no NUL within */
    BINARY,  /* any bytes */
    STRINGS, /* array of BYTES; the count lies at count_at */
    LIMITS,  /* 16 pairs */
    HASH,    /* 32 bytes */
    MAP,     /* a struct of `shape' */
    MAPS,    /* array of them; the count lies at count_at */
};

struct shape;

struct field {
    const char *name;
    enum kind kind;
    bool required;
    size_t at, bytes, count_at;
    int64_t least;
    uint64_t most;
    const struct shape *shape;
};

struct shape {
    const char *name;
    const struct field *fields;
    unsigned n;
    size_t bytes;
};

#define SIZE(s, m) sizeof(((struct s *)NULL)->m)
#define N(s, key, req, m, max)                                        \
    {                                                                 \
        .name = key, .kind = NUMBER, .required = req,                 \
        .at = offsetof(struct s, m), .bytes = SIZE(s, m), .most = max \
    }
#define I(s, key, req, m, min, max)                                     \
    {                                                                   \
        .name = key, .kind = SIGNED, .required = req,                   \
        .at = offsetof(struct s, m), .bytes = SIZE(s, m), .least = min, \
        .most = max                                                     \
    }
#define F(s, key, what, req, m)                     \
    {                                               \
        .name = key, .kind = what, .required = req, \
        .at = offsetof(struct s, m)                 \
    }
#define A(s, key, what, req, m, c, sub)                                 \
    {                                                                   \
        .name = key, .kind = what, .required = req,                     \
        .at = offsetof(struct s, m), .count_at = offsetof(struct s, c), \
        .shape = sub                                                    \
    }
#define M(s, key, req, m, sub)                     \
    {                                              \
        .name = key, .kind = MAP, .required = req, \
        .at = offsetof(struct s, m), .shape = sub  \
    }
#define SHAPE(id, text, type)                                          \
    static const struct shape id##_shape = {                           \
        text, id##_fields, sizeof id##_fields / sizeof id##_fields[0], \
        sizeof(struct type)}

static const struct field tool_fields[] = {
    F(fy_tool, "path", BYTES, true, path),
    F(fy_tool, "identity", BINARY, true, identity),
};
SHAPE(tool, "tool", fy_tool);

static const struct field stream_fields[] = {
    N(fy_stream_spec, "kind", true, kind, FY_STREAM_SAME),
    F(fy_stream_spec, "path", BYTES, false, path),
    I(fy_stream_spec, "offset", false, offset, 0, INT64_MAX),
    N(fy_stream_spec, "flags", false, flags, UINT32_MAX),
    N(fy_stream_spec, "inode", false, inode, UINT64_MAX),
    N(fy_stream_spec, "stage", false, stage, UINT64_MAX),
};
SHAPE(stream, "stream", fy_stream_spec);

static const struct field config_fields[] = {
    F(fy_config_hash, "path", BYTES, true, path),
    F(fy_config_hash, "sha256", HASH, true, sha256),
};
SHAPE(config, "config", fy_config_hash);

static const struct field stage_fields[] = {
    N(fy_stage_spec, "stage", true, stage, UINT64_MAX),
    M(fy_stage_spec, "tool", true, tool, &tool_shape),
    A(fy_stage_spec, "argv", STRINGS, true, argv, argc, NULL),
    A(fy_stage_spec, "env", STRINGS, true, env, envc, NULL),
    F(fy_stage_spec, "mount", BYTES, true, mount),
    F(fy_stage_spec, "root", BYTES, true, root),
    F(fy_stage_spec, "cwd", BYTES, true, cwd),
    N(fy_stage_spec, "umask", true, umask, 0777),
    I(fy_stage_spec, "nice", false, nice, -20, 19),
    N(fy_stage_spec, "ignored", false, ignored, UINT64_MAX),
    F(fy_stage_spec, "limits", LIMITS, false, limits),
    N(fy_stage_spec, "rows", false, rows, UINT16_MAX),
    N(fy_stage_spec, "columns", false, columns, UINT16_MAX),
    M(fy_stage_spec, "in", true, in, &stream_shape),
    M(fy_stage_spec, "out", true, out, &stream_shape),
    M(fy_stage_spec, "err", true, err, &stream_shape),
    N(fy_stage_spec, "copies", false, copies, UINT32_MAX),
    F(fy_stage_spec, "compress", BOOLEAN, false, compress),
    A(fy_stage_spec, "configs", MAPS, false, configs, nconfigs, &config_shape),
};
SHAPE(stage, "stage", fy_stage_spec);

static const struct field hello_fields[] = {
    N(fy_hello, "version", true, version, UINT32_MAX),
    F(fy_hello, "ferry", BYTES, true, ferry),
    N(fy_hello, "uid", true, uid, UINT32_MAX),
    N(fy_hello, "gid", true, gid, UINT32_MAX),
    F(fy_hello, "user", BYTES, false, user),
    F(fy_hello, "host", BYTES, false, host),
    F(fy_hello, "kernel", BYTES, false, kernel),
    F(fy_hello, "machine", BYTES, false, machine),
    N(fy_hello, "cores", false, cores, UINT32_MAX),
    F(fy_hello, "load", REAL, false, load),
    N(fy_hello, "memory", false, memory_bytes, UINT64_MAX),
    F(fy_hello, "speed", REAL, false, speed),
    F(fy_hello, "spaces", BOOLEAN, false, spaces),
    F(fy_hello, "all-users", BOOLEAN, false, all_users),
    N(fy_hello, "landlock", false, landlock, UINT32_MAX),
    N(fy_hello, "stages-max", false, stages_max, UINT32_MAX),
    N(fy_hello, "stages-now", false, stages_now, UINT32_MAX),
};
SHAPE(hello, "hello", fy_hello);

static const struct field probe_fields[] = {
    F(fy_probe, "mount", BYTES, true, mount),
    F(fy_probe, "root", BYTES, true, root),
    F(fy_probe, "cwd", BYTES, true, cwd),
    A(fy_probe, "paths", STRINGS, true, paths, npaths, NULL),
    F(fy_probe, "tree", BOOLEAN, false, tree),
};
SHAPE(probe, "probe", fy_probe);

static const struct field probe_result_fields[] = {
    N(fy_probe_result, "bytes", true, bytes, UINT64_MAX),
    N(fy_probe_result, "files", true, files, UINT64_MAX),
    F(fy_probe_result, "complete", BOOLEAN, true, complete),
};
SHAPE(probe_result, "probe-result", fy_probe_result);

static const struct field touched_fields[] = {
    A(fy_touched, "paths", STRINGS, true, paths, npaths, NULL),
    F(fy_touched, "complete", BOOLEAN, true, complete),
};
SHAPE(touched, "touched", fy_touched);

static const char *
kind_text(enum kind kind)
{
    switch (kind) {
    case NUMBER:
        return "unsigned";
    case SIGNED:
        return "integer";
    case BOOLEAN:
        return "boolean";
    case REAL:
        return "number";
    case BYTES:
        return "bytes";
    case BINARY:
        return "bytes";
    case STRINGS:
        return "array of bytes";
    case LIMITS:
        return "16 pairs of unsigned";
    case HASH:
        return "32 bytes";
    case MAP:
        return "map";
    case MAPS:
        return "array of maps";
    }
    return "";
}

bool
fy_spec_key(unsigned i, struct fy_spec_key *out)
{
    static const struct shape *const shapes[] = {
        &hello_shape,  &stage_shape, &tool_shape,         &stream_shape,
        &config_shape, &probe_shape, &probe_result_shape, &touched_shape,
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        if (i < shapes[s]->n) {
            const struct field *field = &shapes[s]->fields[i];
            *out =
                (struct fy_spec_key){shapes[s]->name, field->name,
                                     kind_text(field->kind), field->required};
            return true;
        }
        i -= shapes[s]->n;
    }
    return false;
}

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

static int64_t
load_signed(const void *at, size_t bytes)
{
    return bytes == 4 ? *(const int32_t *)at : *(const int64_t *)at;
}

/* ---- encoding ---- */

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

static void put_map(struct writer *w, const struct shape *shape,
                    const char *from);

static void
put_field(struct writer *w, const struct field *field, const char *from)
{
    const void *at = from + field->at;
    uint32_t count = 0;
    if (field->kind == STRINGS || field->kind == MAPS) {
        memcpy(&count, from + field->count_at, sizeof count);
        put_head(w, cbor_encode_array_start, count);
    }
    switch (field->kind) {
    case NUMBER:
        put_number(w, load_number(at, field->bytes));
        break;
    case SIGNED:
        put_signed(w, load_signed(at, field->bytes));
        break;
    case BOOLEAN: {
        unsigned char *to = make_room(w, 1);
        if (to) {
            w->n += cbor_encode_bool(*(const bool *)at, to, 1);
        }
        break;
    }
    case REAL:
        put_real(w, *(const double *)at);
        break;
    case BYTES:
    case BINARY: {
        const struct fy_bytes *bytes = at;
        put_bytes(w, bytes->at, bytes->n);
        break;
    }
    case STRINGS: {
        const struct fy_bytes *strings = *(const struct fy_bytes *const *)at;
        for (uint32_t i = 0; i < count; i++) {
            put_bytes(w, strings[i].at, strings[i].n);
        }
        break;
    }
    case LIMITS: {
        const uint64_t(*limits)[2] = at;
        put_head(w, cbor_encode_array_start, NLIMITS);
        for (int i = 0; i < NLIMITS; i++) {
            put_head(w, cbor_encode_array_start, 2);
            put_number(w, limits[i][0]);
            put_number(w, limits[i][1]);
        }
        break;
    }
    case HASH:
        put_bytes(w, at, HASH_BYTES);
        break;
    case MAP:
        put_map(w, field->shape, at);
        break;
    case MAPS: {
        const char *maps = *(const char *const *)at;
        for (uint32_t i = 0; i < count; i++) {
            put_map(w, field->shape, maps + i * field->shape->bytes);
        }
        break;
    }
    }
}

static void
put_map(struct writer *w, const struct shape *shape, const char *from)
{
    put_head(w, cbor_encode_map_start, shape->n);
    for (unsigned i = 0; i < shape->n; i++) {
        size_t n = strlen(shape->fields[i].name);
        put_head(w, cbor_encode_string_start, n);
        put_raw(w, shape->fields[i].name, n);
        put_field(w, &shape->fields[i], from);
    }
}

static int
encode(const struct shape *shape, const void *from, char **out,
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

/* ---- items ---- */

enum item_type {
    ITEM_NONE,
    ITEM_NUMBER,
    ITEM_NEGATIVE, /* -1 - number */
    ITEM_BYTES_,
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
    item_number(context, ITEM_BYTES_, n);
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

static int
fail(struct reader *r, const char *shape, const char *key, const char *what)
{
    fy_buffer_add(r->why, shape);
    if (key) {
        fy_buffer_add(r->why, ": ");
        fy_buffer_add(r->why, key);
    }
    fy_buffer_add(r->why, ": ");
    fy_buffer_add(r->why, what);
    return FY_ERR_INVALID;
}

/* The next item's head, and all of a string. NULL, or what is wrong. */
static const char *
next_item(struct reader *r, struct item *item)
{
    *item = (struct item){0};
    struct cbor_decoder_result result = cbor_stream_decode(
        (cbor_data)r->at, (size_t)(r->end - r->at), &callbacks, item);
    if (result.status == CBOR_DECODER_NEDATA) {
        return "longer than the message";
    }
    if (result.status != CBOR_DECODER_FINISHED || item->type == ITEM_NONE) {
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
    if (item.type != ITEM_BYTES_) {
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

static int get_map(struct reader *r, const struct shape *shape, char *to);

static const char *
get_strings(struct reader *r, const struct field *field, uint64_t count,
            char *to)
{
    struct fy_bytes *strings = NULL;
    if (count > FY_SPEC_MAX_STRINGS) {
        return "too many";
    }
    if (count && !(strings = calloc(count, sizeof *strings))) {
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
    if (count != NLIMITS) {
        return "must be 16 pairs";
    }
    for (int i = 0; i < NLIMITS; i++) {
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
get_maps(struct reader *r, const struct shape *shape, const struct field *field,
         uint64_t count, char *to)
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
get_number(const struct field *field, const struct item *item, void *at)
{
    if (field->kind == NUMBER) {
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
get_field(struct reader *r, const struct shape *shape,
          const struct field *field, char *to)
{
    void *at = to + field->at;
    struct item item;
    const char *wrong;
    if (field->kind == MAP) {
        return get_map(r, field->shape, at);
    }
    if (field->kind == BYTES || field->kind == BINARY) {
        wrong = take_bytes(r, field->kind == BINARY, at);
        return wrong ? fail(r, shape->name, field->name, wrong) : FY_OK;
    }
    wrong = next_item(r, &item);
    if (!wrong &&
        (field->kind == STRINGS || field->kind == MAPS ||
         field->kind == LIMITS) &&
        item.type != ITEM_ARRAY) {
        wrong = "must be an array";
    }
    if (wrong) {
        return fail(r, shape->name, field->name, wrong);
    }
    switch (field->kind) {
    case NUMBER:
    case SIGNED:
        wrong = get_number(field, &item, at);
        break;
    case BOOLEAN:
        if (item.type != ITEM_BOOLEAN) {
            wrong = "must be a boolean";
        } else {
            *(bool *)at = item.number != 0;
        }
        break;
    case REAL:
        wrong = get_real(&item, at);
        break;
    case STRINGS:
        wrong = get_strings(r, field, item.number, to);
        break;
    case LIMITS:
        wrong = get_limits(r, item.number, at);
        break;
    case HASH:
        if (item.type != ITEM_BYTES_ || item.number != HASH_BYTES) {
            wrong = "must be 32 bytes";
        } else {
            memcpy(at, item.bytes, HASH_BYTES);
        }
        break;
    case MAPS:
        return get_maps(r, shape, field, item.number, to);
    case MAP:
    case BYTES:
    case BINARY:
        break;
    }
    return wrong ? fail(r, shape->name, field->name, wrong) : FY_OK;
}

/* A key that nobody here knows: passed over, unless it says '!'. */
static int
get_unknown(struct reader *r, const struct shape *shape, const char *key,
            size_t n)
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
get_map(struct reader *r, const struct shape *shape, char *to)
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

static int
decode(const struct shape *shape, char *bytes, size_t n, void *to,
       struct fy_buffer *why)
{
    struct reader r = {bytes, bytes + n, why};
    if (n > FY_SPEC_MAX_BYTES) {
        return fail(&r, shape->name, NULL, "is too long");
    }
    int status = get_map(&r, shape, to);
    if (!status && r.at != r.end) {
        status = fail(&r, shape->name, NULL, "something follows");
    }
    return status;
}

/* ---- the messages ---- */

int
fy_stage_spec_encode(const struct fy_stage_spec *spec, char **out,
                     size_t *out_bytes)
{
    return encode(&stage_shape, spec, out, out_bytes);
}

/* What no table says. */
static int
check_stage(const struct fy_stage_spec *spec, struct fy_buffer *why)
{
    struct reader r = {NULL, NULL, why};
    const struct fy_stream_spec *streams[] = {&spec->in, &spec->out,
                                              &spec->err};
    static const char *const names[] = {"in", "out", "err"};
    if (!spec->argc) {
        return fail(&r, "stage", "argv", "is empty");
    }
    if (spec->argc > FY_SPEC_MAX_STRINGS - spec->envc) {
        return fail(&r, "stage", "env", "too many");
    }
    if (!spec->copies) {
        return fail(&r, "stage", "copies", "must be at least 1");
    }
    for (int i = 0; i < 3; i++) {
        enum fy_stream_kind kind = streams[i]->kind;
        if (kind == FY_STREAM_FILE && !streams[i]->path.n) {
            return fail(&r, "stage", names[i], "a file without a path");
        }
        if ((kind == FY_STREAM_LINK && i != 0) ||
            (kind == FY_STREAM_SAME && i != 2)) {
            return fail(&r, "stage", names[i], "this kind cannot be here");
        }
    }
    return FY_OK;
}

int
fy_stage_spec_decode(char *bytes, size_t n, struct fy_stage_spec *out,
                     struct fy_buffer *why)
{
    struct fy_stage_spec spec = {.copies = 1};
    memset(spec.limits, 0xff, sizeof spec.limits);
    int status = decode(&stage_shape, bytes, n, &spec, why);
    if (!status) {
        status = check_stage(&spec, why);
    }
    if (status) {
        fy_stage_spec_clear(&spec);
        return status;
    }
    *out = spec;
    return FY_OK;
}

void
fy_stage_spec_clear(struct fy_stage_spec *spec)
{
    free(spec->argv);
    free(spec->env);
    free(spec->configs);
    spec->argv = spec->env = NULL;
    spec->configs = NULL;
    spec->argc = spec->envc = spec->nconfigs = 0;
}

int
fy_hello_encode(const struct fy_hello *hello, char **out, size_t *out_bytes)
{
    return encode(&hello_shape, hello, out, out_bytes);
}

int
fy_hello_decode(char *bytes, size_t n, struct fy_hello *out,
                struct fy_buffer *why)
{
    struct fy_hello hello = {0};
    int status = decode(&hello_shape, bytes, n, &hello, why);
    if (!status) {
        *out = hello;
    }
    return status;
}

int
fy_probe_encode(const struct fy_probe *probe, char **out, size_t *out_bytes)
{
    return encode(&probe_shape, probe, out, out_bytes);
}

int
fy_probe_decode(char *bytes, size_t n, struct fy_probe *out,
                struct fy_buffer *why)
{
    struct fy_probe probe = {0};
    int status = decode(&probe_shape, bytes, n, &probe, why);
    if (status) {
        fy_probe_clear(&probe);
        return status;
    }
    *out = probe;
    return FY_OK;
}

void
fy_probe_clear(struct fy_probe *probe)
{
    free(probe->paths);
    probe->paths = NULL;
    probe->npaths = 0;
}

int
fy_probe_result_encode(const struct fy_probe_result *result, char **out,
                       size_t *out_bytes)
{
    return encode(&probe_result_shape, result, out, out_bytes);
}

int
fy_probe_result_decode(char *bytes, size_t n, struct fy_probe_result *out,
                       struct fy_buffer *why)
{
    struct fy_probe_result result = {0};
    int status = decode(&probe_result_shape, bytes, n, &result, why);
    if (!status) {
        *out = result;
    }
    return status;
}

int
fy_touched_encode(const struct fy_touched *touched, char **out,
                  size_t *out_bytes)
{
    return encode(&touched_shape, touched, out, out_bytes);
}

int
fy_touched_decode(char *bytes, size_t n, struct fy_touched *out,
                  struct fy_buffer *why)
{
    struct fy_touched touched = {0};
    int status = decode(&touched_shape, bytes, n, &touched, why);
    if (status) {
        fy_touched_clear(&touched);
        return status;
    }
    *out = touched;
    return FY_OK;
}

void
fy_touched_clear(struct fy_touched *touched)
{
    free(touched->paths);
    touched->paths = NULL;
    touched->npaths = 0;
}
