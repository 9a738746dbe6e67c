/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a git repository as text that an annotation can look into: a line for
 * each mode that an entry has ("160000" is a repository within the tree) and
 * one for each extension that git cannot do without ("link" leads to more
 * entries in another file). The index is another user's: every length is checked,
 * and what is not exactly as gitformat-index(5) says has no text. Objects are
 * named by SHA-1. Any thread.
 */
#include "config.h"

#include "proxy/storage/index.h"

#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    HEADER_BYTES = 12,
    HASH_BYTES = 20, /* also of the checksum at the end */
    MODE_AT = 24,
    FLAGS_AT = 40 + HASH_BYTES,
    EXTENDED = 1 << 14, /* of the flags: two bytes more of them */
    LENGTH = 0xfff,     /* of the flags: of the name, or as long and longer */
    MODES_MAX = 16,
};

struct index {
    const unsigned char *bytes;
    size_t n; /* without the checksum */
    size_t at;
    unsigned version;
    size_t name_bytes; /* of the last entry's name */
    uint32_t modes[MODES_MAX];
    unsigned nmodes;
};

static uint32_t
number(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return be32toh(value);
}

static bool
note_mode(struct index *index, uint32_t mode)
{
    for (unsigned i = 0; i < index->nmodes; i++) {
        if (index->modes[i] == mode) {
            return true;
        }
    }
    if (index->nmodes == MODES_MAX) {
        return false;
    }
    index->modes[index->nmodes++] = mode;
    return true;
}

/* Of version 4: how many bytes of the former name are dropped. */
static bool
take_varint(struct index *index, size_t *out)
{
    size_t value = 0;
    for (unsigned i = 0; i < 4 && index->at < index->n; i++) {
        unsigned char byte = index->bytes[index->at++];
        value = ((i ? value + 1 : 0) << 7) + (byte & 0x7f);
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* git finds the end of a name by its length; here both must say the same. */
static bool
skip_name(struct index *index, unsigned flags)
{
    size_t dropped = 0, kept = 0;
    if (index->version == 4) {
        if (!take_varint(index, &dropped) || dropped > index->name_bytes) {
            return false;
        }
        kept = index->name_bytes - dropped;
    }
    const unsigned char *name = index->bytes + index->at;
    const unsigned char *end =
        index->at < index->n ? memchr(name, '\0', index->n - index->at) : NULL;
    if (!end) {
        return false;
    }
    index->name_bytes = kept + (size_t)(end - name);
    index->at += (size_t)(end - name) + 1;
    return (flags & LENGTH) == LENGTH ? index->name_bytes >= LENGTH
                                      : index->name_bytes == (flags & LENGTH);
}

static bool
skip_entry(struct index *index)
{
    size_t began = index->at;
    const unsigned char *entry = index->bytes + began;
    if (index->n - began < FLAGS_AT + 4 ||
        !note_mode(index, number(entry + MODE_AT))) {
        return false;
    }
    unsigned flags = (unsigned)entry[FLAGS_AT] << 8 | entry[FLAGS_AT + 1];
    index->at += FLAGS_AT + (flags & EXTENDED ? 4 : 2);
    if (!skip_name(index, flags)) {
        return false;
    }
    if (index->version < 4) { /* one to eight zeroes end it */
        index->at = began + ((index->at - began + 7) & ~(size_t)7);
    }
    return index->at <= index->n;
}

/* Extensions from index->at on, as lines. */
static bool
write_extensions(struct index *index, FILE *to)
{
    while (index->at < index->n) {
        const unsigned char *extension = index->bytes + index->at;
        if (index->n - index->at < 8 ||
            number(extension + 4) > index->n - index->at - 8) {
            return false;
        }
        (void)fprintf(to, "%.4s\n", (const char *)extension);
        index->at += 8 + number(extension + 4);
    }
    return true;
}

bool
fy_index_is(const void *bytes, size_t n)
{
    return n >= HEADER_BYTES && memcmp(bytes, "DIRC", 4) == 0;
}

bool
fy_index_text(const void *bytes, size_t n, char *out, size_t capacity)
{
    struct index index = {.bytes = bytes};
    if (!fy_index_is(bytes, n) || n < HEADER_BYTES + HASH_BYTES) {
        return false;
    }
    index.n = n - HASH_BYTES;
    index.at = HEADER_BYTES;
    index.version = number(index.bytes + 4);
    if (index.version < 2 || index.version > 4) {
        return false;
    }
    for (uint32_t left = number(index.bytes + 8); left; left--) {
        if (!skip_entry(&index)) {
            return false;
        }
    }
    FILE *to = fmemopen(out, capacity, "w");
    if (!to) {
        return false;
    }
    for (unsigned i = 0; i < index.nmodes; i++) {
        (void)fprintf(to, "%06o\n", (unsigned)index.modes[i]);
    }
    bool whole = write_extensions(&index, to);
    whole = fflush(to) == 0 && ftell(to) < (long)capacity && whole;
    return fclose(to) == 0 && whole;
}
