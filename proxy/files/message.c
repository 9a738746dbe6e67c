/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of `ferry mount': one table of fields, one of the messages that have them.
 * Long because reading and writing of each kind of field stand side by side.
 */
#include "config.h"

#include "proxy/files/message.h"

#include <stdlib.h>
#include <string.h>

enum kind {
    NODE, /* u64, u64, u32 and so many bytes of a path */
    NAME, /* u16 and so many bytes: one component */
    PART, /* the same, or nothing */
    TEXT, /* u32 and so many bytes, none of them NUL */
    U64,
    U32,
    TIME, /* i64, u32 */
    ATTR,
    DATA, /* the rest */
};

/* The fields: letters stand for them in the table of messages. */
static const struct field {
    char letter;
    uint8_t kind;
    uint16_t offset; /* in struct fy_files_message */
    const char *name;
} fields[] = {
#define FIELD(letter, kind, member)                                      \
    {                                                                    \
        letter, kind, offsetof(struct fy_files_message, member), #member \
    }
    FIELD('n', NODE, node),       FIELD('N', NODE, other),
    FIELD('c', NAME, name),       FIELD('C', NAME, other_name),
    FIELD('p', PART, name),       FIELD('t', TEXT, name),
    FIELD('T', TEXT, other_name), FIELD('#', U64, number),
    FIELD('o', U64, offset),      FIELD('O', U64, other_offset),
    FIELD('l', U64, length),      FIELD('k', U64, keep),
    FIELD('f', U32, flags),       FIELD('m', U32, mode),
    FIELD('u', U32, uid),         FIELD('g', U32, gid),
    FIELD('r', U32, rdev),        FIELD('x', U32, mask),
    FIELD('a', TIME, atime),      FIELD('b', TIME, mtime),
    FIELD('A', ATTR, attr),       FIELD('B', ATTR, other_attr),
    FIELD('D', ATTR, third_attr), FIELD('*', DATA, data),
#undef FIELD
};

/* The messages, with meanings of fields whose names do not tell them. */
static const struct row {
    const char *name;
    const char *request, *answer; /* NULL: there is none */
} rows[FY_FILES_TYPES] = {
    /* number: version; offset: the last answer that came; name: the root, absolute there;
     * data: token, or nothing. Answer: length: of a name at most; attr: of the root. */
    [FY_FILES_HELLO] = {"hello", "f#ot*", "f#lugA*"},
    /* Answer: number: of the folder's watch, 0: none; data: a link's target. */
    [FY_FILES_LOOKUP] = {"lookup", "nc", "f#A*"},
    /* length: bytes of answers at most, beyond the first folder. Answer: node, attr: the
     * folder; number: its watch; mask: the errno with which it cannot be read. */
    [FY_FILES_LIST] = {"list", "npfl", "nf#xA*"},
    [FY_FILES_GETATTR] = {"getattr", "n", "A"},
    [FY_FILES_SETATTR] = {"setattr", "nxmuglab",
                          "AB"}, /* length: the size; answer as of write */
    [FY_FILES_READLINK] = {"readlink", "n", "*"},
    [FY_FILES_READ] = {"read", "nol", "A*"},
    /* length: of one file at most. Answer: number: index of the node, from 0; mask: its
     * errno. */
    [FY_FILES_FETCH] = {"fetch", "l*", "#xA*"},
    [FY_FILES_WRITE] = {"write", "no*", "AB"}, /* answer: after, before */
    /* node: the folder; other_name: a link's target. Answer: attr: of the new one,
     * other_attr: of the folder, number: watch of a new folder. */
    [FY_FILES_MAKE] = {"make", "ncTmrfugk", "f#AB"},
    [FY_FILES_LINK] = {"link", "nNc", "AB"}, /* other: the folder */
    /* number: ino of the removed file, 0: any. Answer: attr: of the file that lost the
     * name, nlink 0: it is gone; other_attr: of the folder. */
    [FY_FILES_REMOVE] = {"remove", "ncf#k", "AB"},
    /* number, length: ino of the moved file, and of the replaced one (0: any). Answer:
     * attr: of the moved file, then of both folders. */
    [FY_FILES_RENAME] = {"rename", "ncNCf#lk", "ABD"},
    [FY_FILES_FSYNC] = {"fsync", "nf", "A"},
    [FY_FILES_ALLOCATE] = {"allocate", "nfol",
                           "A"},               /* flags: mode of fallocate(2) */
    [FY_FILES_SEEK] = {"seek", "nof", "o"},    /* flags: whence */
    [FY_FILES_COPY] = {"copy", "noNOl", "lA"}, /* attr: of other */
    [FY_FILES_GETXATTR] = {"getxattr", "nt", "*"},
    [FY_FILES_LISTXATTR] = {"listxattr", "n", "*"},
    [FY_FILES_SETXATTR] = {"setxattr", "ntf*", "A"},
    [FY_FILES_REMOVEXATTR] = {"removexattr", "nt", "A"},
    /* Answer: blocks, free, available; length, keep: files, free ones; mode: size of a
     * block, mask: preferred size; flags: bytes of a name. */
    [FY_FILES_STATFS] = {"statfs", "n", "#oOlkmxf"},
    /* number: owner; mode: F_RDLCK, F_WRLCK, F_UNLCK of Linux; offset, length: first and
     * last byte; uid: process. Answer to a lock that was taken: earlier changes are
     * told already; attr: of the file then. */
    [FY_FILES_LOCK] = {"lock", "nf#molu", "A"},
    [FY_FILES_GETLOCK] = {"getlock", "nf#molu", "molu"},
    /* number: of the first node, the others follow. Answer, data: those that are not
     * held. */
    [FY_FILES_HOLD] = {"hold", "#*", "*"},
    [FY_FILES_BARRIER] = {"barrier", "", ""},
    [FY_FILES_CANCEL] = {"cancel", "#", NULL},
    [FY_FILES_FORGET] = {"forget", "*", NULL},
    [FY_FILES_ACK] = {"ack", "#", NULL},
    /* name "": the folder; offset: so many answers to changing requests (errors too) were
     * sent on this connection before it was looked at. */
    [FY_FILES_CHANGED] = {"changed", "#opfA", NULL},
    [FY_FILES_LOST] = {"lost", "#", NULL},
};

static const struct row *
find_row(unsigned type)
{
    return type < FY_FILES_TYPES && rows[type].name ? &rows[type] : NULL;
}

static const char *
letters_of(const struct row *row, bool answer)
{
    return !row ? NULL : answer ? row->answer : row->request;
}

static const struct field *
find_field(char letter)
{
    const struct field *field = fields;
    while (field->letter != letter) {
        field++;
    }
    return field;
}

bool
fy_files_type_changes(enum fy_files_type type)
{
    switch (type) {
    case FY_FILES_SETATTR:
    case FY_FILES_WRITE:
    case FY_FILES_MAKE:
    case FY_FILES_LINK:
    case FY_FILES_REMOVE:
    case FY_FILES_RENAME:
    case FY_FILES_ALLOCATE:
    case FY_FILES_COPY:
    case FY_FILES_SETXATTR:
    case FY_FILES_REMOVEXATTR:
        return true;
    default:
        return false;
    }
}

const char *
fy_files_type_name(enum fy_files_type type)
{
    const struct row *row = find_row(type);
    return row ? row->name : NULL;
}

bool
fy_files_type_fields(enum fy_files_type type, bool answer,
                     struct fy_buffer *out)
{
    const char *letters = letters_of(find_row(type), answer);
    for (const char *at = letters; at && *at; at++) {
        fy_buffer_printf(out, "%s%s", at == letters ? "" : " ",
                         find_field(*at)->name);
    }
    return letters != NULL;
}

/* ---- numbers ----------------------------------------------------------------------- */

static void
store(char *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (char)(value >> (8 * i));
    }
}

static uint64_t
load(const char *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)(unsigned char)at[i] << (8 * i);
    }
    return value;
}

/* ---- writing ------------------------------------------------------------------------ */

void
fy_files_out_free(struct fy_files_out *out)
{
    free(out->bytes);
    *out = (struct fy_files_out){.n = 0};
}

static int
make_room(struct fy_files_out *out, size_t more)
{
    if (out->capacity - out->n >= more) {
        return 0;
    }
    size_t capacity = 2 * out->capacity + more + 256;
    char *bytes = realloc(out->bytes, capacity);
    if (!bytes) {
        return FY_ERR_NOMEM;
    }
    out->bytes = bytes;
    out->capacity = capacity;
    return 0;
}

static int
put(struct fy_files_out *out, uint64_t value, unsigned bytes)
{
    int status = make_room(out, bytes);
    if (status == 0) {
        store(out->bytes + out->n, value, bytes);
        out->n += bytes;
    }
    return status;
}

/* A length of so many bytes (0: none) and the bytes. */
static int
put_bytes(struct fy_files_out *out, const struct fy_files_bytes *bytes,
          unsigned width, size_t limit)
{
    if (bytes->n > limit) {
        return FY_ERR_OVERFLOW;
    }
    int status = make_room(out, width + bytes->n);
    if (status == 0) {
        store(out->bytes + out->n, bytes->n, width);
        if (bytes->n > 0) {
            memcpy(out->bytes + out->n + width, bytes->at, bytes->n);
        }
        out->n += width + bytes->n;
    }
    return status;
}

int
fy_files_node_put(const struct fy_files_node *node, struct fy_files_out *out)
{
    int status = put(out, node->kept, 8);
    status = status ? status : put(out, node->ino, 8);
    return status ? status
                  : put_bytes(out, &node->path, 4, FY_FILES_PATH_BYTES);
}

int
fy_files_number_put(uint64_t number, struct fy_files_out *out)
{
    return put(out, number, 8);
}

static int
put_time(struct fy_files_out *out, const struct fy_files_time *time)
{
    int status = put(out, (uint64_t)time->seconds, 8);
    return status ? status : put(out, time->ns, 4);
}

/* Numbers of an attribute, in the order of the frame. */
static const struct {
    uint16_t offset;
    uint8_t bytes;
} numbers[] = {
#define NUMBER(member, bytes)                         \
    {                                                 \
        offsetof(struct fy_files_attr, member), bytes \
    }
    NUMBER(ino, 8),      NUMBER(size, 8),
    NUMBER(blocks, 8),   NUMBER(atime.seconds, 8),
    NUMBER(atime.ns, 4), NUMBER(mtime.seconds, 8),
    NUMBER(mtime.ns, 4), NUMBER(ctime.seconds, 8),
    NUMBER(ctime.ns, 4), NUMBER(mode, 4),
    NUMBER(nlink, 4),    NUMBER(uid, 4),
    NUMBER(gid, 4),      NUMBER(rdev, 4),
    NUMBER(blksize, 4),
#undef NUMBER
};

enum {
    NUMBERS = sizeof numbers / sizeof numbers[0],
    ATTR_BYTES = 6 * 8 + 9 * 4,
};

static uint64_t
number_of(const struct fy_files_attr *attr, unsigned i)
{
    const char *at = (const char *)attr + numbers[i].offset;
    return numbers[i].bytes == 8 ? *(const uint64_t *)(const void *)at
                                 : *(const uint32_t *)(const void *)at;
}

static void
set_number(struct fy_files_attr *attr, unsigned i, uint64_t value)
{
    void *at = (char *)attr + numbers[i].offset;
    if (numbers[i].bytes == 8) {
        *(uint64_t *)at = value;
    } else {
        *(uint32_t *)at = (uint32_t)value;
    }
}

static int
put_attr(struct fy_files_out *out, const struct fy_files_attr *attr)
{
    int status = make_room(out, ATTR_BYTES);
    for (unsigned i = 0; i < NUMBERS && status == 0; i++) {
        status = put(out, number_of(attr, i), numbers[i].bytes);
    }
    return status;
}

/* ---- attributes of entries --------------------------------------------------------- */

/* The order in which numbers of an entry are told: mtime first, since the other times are
 * often the same. */
static const uint8_t entry_order[NUMBERS] = {0, 1, 2,  5,  6,  3,  4, 7,
                                             8, 9, 10, 11, 12, 13, 14};

enum {
    MTIME_NS = 6,      /* in numbers[] */
    VARINT_BYTES = 10, /* at most */
};

/* Sets the times that are expected of an entry once the mtime is known. */
static void
expect_times(struct fy_files_attr *expected, unsigned known)
{
    if (known == MTIME_NS) {
        expected->atime = expected->ctime = expected->mtime;
    }
}

/* Folds a difference so that it is a small number if it is small either way. */
static uint64_t
folded(uint64_t value, uint64_t expected, unsigned bytes)
{
    uint64_t d = value - expected;
    d = bytes == 8 ? d : (uint64_t)(int64_t)(int32_t)(uint32_t)d;
    return d << 1 ^ (0 - (d >> 63));
}

/* Puts a u16 with a bit for each number that is not as expected, then these numbers'
 * differences, seven bits a byte, the last byte below 128. */
static int
put_differences(struct fy_files_out *out, const struct fy_files_attr *attr,
                struct fy_files_attr expected)
{
    size_t head = out->n;
    uint64_t differ = 0;
    int status = make_room(out, 2 + NUMBERS * VARINT_BYTES);
    if (status) {
        return status;
    }
    out->n += 2;
    for (unsigned k = 0; k < NUMBERS; k++) {
        unsigned i = entry_order[k];
        uint64_t value = number_of(attr, i), was = number_of(&expected, i);
        if (value != was) {
            differ |= UINT64_C(1) << i;
            uint64_t d = folded(value, was, numbers[i].bytes);
            for (; d > 127; d >>= 7) {
                out->bytes[out->n++] = (char)(d | 128);
            }
            out->bytes[out->n++] = (char)d;
        }
        set_number(&expected, i, value);
        expect_times(&expected, i);
    }
    store(out->bytes + head, differ, 2);
    return 0;
}

static int
put_field(struct fy_files_out *out, const struct fy_files_message *message,
          const struct field *field)
{
    const void *at = (const char *)message + field->offset;
    switch ((enum kind)field->kind) {
    case NODE:
        return fy_files_node_put(at, out);
    case NAME:
    case PART:
        return put_bytes(out, at, 2, FY_FILES_NAME_BYTES);
    case TEXT:
        return put_bytes(out, at, 4, FY_FILES_PATH_BYTES);
    case U64:
        return put(out, *(const uint64_t *)at, 8);
    case U32:
        return put(out, *(const uint32_t *)at, 4);
    case TIME:
        return put_time(out, at);
    case ATTR:
        return put_attr(out, at);
    default:
        return put_bytes(out, at, 0, FY_FILES_FRAME_BYTES);
    }
}

int
fy_files_encode(const struct fy_files_message *message,
                struct fy_files_out *out)
{
    bool answer = (message->frame_flags & FY_FILES_ANSWER) != 0;
    const char *letters = letters_of(find_row(message->type), answer);
    if (!letters) {
        return FY_ERR_INVALID;
    }
    size_t begin = out->n;
    int status = make_room(out, FY_FILES_HEAD_BYTES);
    if (status == 0) {
        out->n += FY_FILES_HEAD_BYTES;
    }
    for (; status == 0 && *letters && message->status == 0; letters++) {
        status = put_field(out, message, find_field(*letters));
    }
    size_t bytes = out->n - begin;
    if (status == 0 && bytes > FY_FILES_FRAME_BYTES + FY_FILES_HEAD_BYTES) {
        status = FY_ERR_OVERFLOW;
    }
    if (status) {
        out->n = begin;
        return status;
    }
    char *head = out->bytes + begin;
    store(head, bytes - FY_FILES_HEAD_BYTES, 4);
    store(head + 4, message->type, 1);
    store(head + 5, message->frame_flags, 1);
    store(head + 6, 0, 2);
    store(head + 8, message->id, 8);
    store(head + 16, (uint32_t)message->status, 4);
    store(head + 20, 0, 4);
    return 0;
}

int
fy_files_data_add(struct fy_files_out *frame, const void *bytes, size_t n)
{
    if (frame->n + n > FY_FILES_DATA_BYTES) {
        return FY_ERR_OVERFLOW;
    }
    int status = make_room(frame, n);
    if (status) {
        return status;
    }
    memcpy(frame->bytes + frame->n, bytes, n);
    frame->n += n;
    store(frame->bytes, frame->n - FY_FILES_HEAD_BYTES, 4);
    return 0;
}

int
fy_files_entry_put(const struct fy_files_entry *entry, struct fy_files_out *out)
{
    size_t begin = out->n;
    int status = put_bytes(out, &entry->name, 2, FY_FILES_NAME_BYTES);
    status = status ? status : put_bytes(out, &entry->target, 2, UINT16_MAX);
    status = status ? status
                    : put_differences(out, &entry->attr,
                                      begin ? out->last
                                            : (struct fy_files_attr){.ino = 0});
    if (status) {
        out->n = begin;
    } else {
        out->last = entry->attr;
    }
    return status;
}

/* ---- reading ------------------------------------------------------------------------ */

/* The next n bytes; NULL: there are not so many. */
static const char *
take(struct fy_files_bytes *from, size_t n)
{
    if (from->n < n) {
        return NULL;
    }
    const char *at = from->at;
    from->at += n;
    from->n -= n;
    return at;
}

static bool
take_number(struct fy_files_bytes *from, unsigned bytes, uint64_t *out)
{
    const char *at = take(from, bytes);
    if (at) {
        *out = load(at, bytes);
    }
    return at != NULL;
}

static bool
take_bytes(struct fy_files_bytes *from, unsigned width, size_t limit,
           struct fy_files_bytes *out)
{
    uint64_t n;
    if (!take_number(from, width, &n) || n > limit) {
        return false;
    }
    *out = (struct fy_files_bytes){take(from, n), n};
    return out->at && (n == 0 || !memchr(out->at, 0, n));
}

static bool
is_component(const char *at, size_t n)
{
    return n > 0 && n <= FY_FILES_NAME_BYTES && !memchr(at, '/', n) &&
           !(at[0] == '.' && (n == 1 || (n == 2 && at[1] == '.')));
}

/* Components joined by one slash each, none at the ends; or "". */
static bool
is_path(const struct fy_files_bytes *path)
{
    size_t at = 0;
    while (at < path->n) {
        const char *slash = memchr(path->at + at, '/', path->n - at);
        size_t n = slash ? (size_t)(slash - path->at) - at : path->n - at;
        if (!is_component(path->at + at, n) || at + n + 1 == path->n) {
            return false;
        }
        at += n + 1;
    }
    return true;
}

bool
fy_files_node_take(struct fy_files_bytes *data, struct fy_files_node *out)
{
    return take_number(data, 8, &out->kept) &&
           take_number(data, 8, &out->ino) &&
           take_bytes(data, 4, FY_FILES_PATH_BYTES, &out->path) &&
           is_path(&out->path) && (out->kept == 0 || out->path.n == 0);
}

bool
fy_files_number_take(struct fy_files_bytes *data, uint64_t *out)
{
    return take_number(data, 8, out);
}

static bool
is_sane(const struct fy_files_attr *attr)
{
    return attr->atime.ns < 1000000000 && attr->mtime.ns < 1000000000 &&
           attr->ctime.ns < 1000000000 && attr->size <= INT64_MAX;
}

static bool
take_attr(struct fy_files_bytes *from, struct fy_files_attr *out)
{
    const char *at = take(from, ATTR_BYTES);
    for (unsigned i = 0; at && i < NUMBERS; i++) {
        set_number(out, i, load(at, numbers[i].bytes));
        at += numbers[i].bytes;
    }
    return at && is_sane(out);
}

static bool
take_varint(struct fy_files_bytes *from, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 7 * VARINT_BYTES; shift += 7) {
        const char *at = take(from, 1);
        if (!at) {
            return false;
        }
        *out |= (uint64_t)(*at & 127) << shift;
        if (!(*at & 128)) {
            return true;
        }
    }
    return false;
}

/* *attr is that of the entry before, and becomes that of the next. */
static bool
take_differences(struct fy_files_bytes *from, struct fy_files_attr *attr)
{
    uint64_t differ, d;
    if (!take_number(from, 2, &differ)) {
        return false;
    }
    for (unsigned k = 0; k < NUMBERS; k++) {
        unsigned i = entry_order[k];
        if (differ >> i & 1) {
            if (!take_varint(from, &d)) {
                return false;
            }
            set_number(attr, i, number_of(attr, i) + (d >> 1 ^ (0 - (d & 1))));
        }
        expect_times(attr, i);
    }
    return is_sane(attr);
}

bool
fy_files_entry_take(struct fy_files_bytes *data, struct fy_files_entry *out)
{
    struct fy_files_bytes rest = *data;
    struct fy_files_attr attr = out->attr;
    if (!take_bytes(&rest, 2, FY_FILES_NAME_BYTES, &out->name) ||
        !is_component(out->name.at, out->name.n) ||
        !take_bytes(&rest, 2, UINT16_MAX, &out->target) ||
        !take_differences(&rest, &attr)) {
        return false;
    }
    out->attr = attr;
    *data = rest;
    return true;
}

static bool
take_field(struct fy_files_bytes *from, struct fy_files_message *message,
           const struct field *field)
{
    void *at = (char *)message + field->offset;
    struct fy_files_bytes *bytes = at;
    struct fy_files_time *time = at;
    uint64_t value = 0;
    bool good;
    switch ((enum kind)field->kind) {
    case NODE:
        return fy_files_node_take(from, at);
    case NAME:
    case PART:
        return take_bytes(from, 2, FY_FILES_NAME_BYTES, bytes) &&
               ((field->kind == PART && bytes->n == 0) ||
                is_component(bytes->at, bytes->n));
    case TEXT:
        return take_bytes(from, 4, FY_FILES_PATH_BYTES, bytes);
    case U64:
        return take_number(from, 8, at);
    case U32:
        good = take_number(from, 4, &value);
        *(uint32_t *)at = (uint32_t)value;
        return good;
    case TIME:
        good = take_number(from, 8, &value);
        time->seconds = (int64_t)value;
        good = good && take_number(from, 4, &value);
        time->ns = (uint32_t)value;
        return good && value < 1000000000;
    case ATTR:
        return take_attr(from, at);
    default:
        *bytes = *from;
        from->at += from->n;
        from->n = 0;
        return true;
    }
}

static int
refuse(struct fy_buffer *why, const struct row *row, const char *what)
{
    fy_buffer_printf(why, "%s: %s", row ? row->name : "message", what);
    return FY_ERR_INVALID;
}

int
fy_files_decode(const void *bytes, size_t n, struct fy_files_message *out,
                size_t *out_bytes, struct fy_buffer *why)
{
    const char *head = bytes;
    *out_bytes = FY_FILES_HEAD_BYTES;
    if (n < FY_FILES_HEAD_BYTES) {
        return FY_ERR_BUSY;
    }
    size_t body = load(head, 4);
    unsigned type = (unsigned)load(head + 4, 1);
    memset(out, 0, sizeof *out);
    out->type = (enum fy_files_type)type;
    out->frame_flags = (uint8_t)load(head + 5, 1);
    out->id = load(head + 8, 8);
    out->status = (int32_t)(uint32_t)load(head + 16, 4);
    const struct row *row = find_row(type);
    bool answer = (out->frame_flags & FY_FILES_ANSWER) != 0;
    const char *letters = letters_of(row, answer);
    if (!letters) {
        return refuse(why, row, "no such type");
    }
    bool unanswered = !row->answer;
    if (body > FY_FILES_FRAME_BYTES || load(head + 6, 2) != 0 ||
        load(head + 20, 4) != 0 || (out->id == 0) != unanswered ||
        out->status > 0 || out->status < -4095 ||
        (!answer && out->status != 0)) {
        return refuse(why, row, "its head is wrong");
    }
    *out_bytes += body;
    if (n - FY_FILES_HEAD_BYTES < body) {
        return FY_ERR_BUSY;
    }
    struct fy_files_bytes from = {head + FY_FILES_HEAD_BYTES, body};
    for (; *letters && out->status == 0; letters++) {
        const struct field *field = find_field(*letters);
        if (!take_field(&from, out, field)) {
            return refuse(why, row, field->name);
        }
    }
    return from.n > 0 ? refuse(why, row, "bytes are left over") : 0;
}
