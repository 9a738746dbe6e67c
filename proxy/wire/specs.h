/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of spec*.c: a message is a table of its keys, with the place of each
 * in its struct and its permitted values.
 */
#ifndef FERRY_PROXY_WIRE_SPECS_H
#define FERRY_PROXY_WIRE_SPECS_H

#include "proxy/wire/spec.h"

enum {
    FY_SPEC_NLIMITS = 16,
    FY_SPEC_HASH_BYTES = 32
};

enum fy_spec_kind {
    FY_SPEC_NUMBER, /* an unsigned integer of `bytes' bytes, at most `most' */
    FY_SPEC_SIGNED, /* an integer of `bytes' bytes, `least' .. `most' */
    FY_SPEC_BOOLEAN,
    FY_SPEC_REAL,    /* finite, not negative */
    FY_SPEC_BYTES,   /* no NUL within */
    FY_SPEC_BINARY,  /* any bytes */
    FY_SPEC_STRINGS, /* array of BYTES; the count lies at count_at */
    FY_SPEC_LIMITS,  /* 16 pairs */
    FY_SPEC_HASH,    /* 32 bytes */
    FY_SPEC_MAP,     /* a struct of `shape' */
    FY_SPEC_MAPS,    /* array of them; the count lies at count_at */
};

struct fy_spec_shape;

struct fy_spec_field {
    const char *name;
    enum fy_spec_kind kind;
    bool required;
    size_t at, bytes, count_at;
    int64_t least;
    uint64_t most;
    const struct fy_spec_shape *shape;
};

struct fy_spec_shape {
    const char *name;
    const struct fy_spec_field *fields;
    unsigned n;
    size_t bytes;
};

/* As in spec.h, for any message. */
int fy_spec_encode(const struct fy_spec_shape *shape, const void *from,
                   char **out, size_t *out_bytes) FY_MUST_CHECK;
/* Into *to, whose defaults are set; after an error it has no arrays. */
int fy_spec_decode(const struct fy_spec_shape *shape, char *bytes, size_t n,
                   void *to, struct fy_buffer *why) FY_MUST_CHECK;
/* Frees the message's arrays; it has none then. */
void fy_spec_clear(const struct fy_spec_shape *shape, void *message);
/* Writes "SHAPE: KEY: WHAT" into why (key may be NULL); returns
 * FY_ERR_INVALID. */
int fy_spec_wrong(struct fy_buffer *why, const char *shape, const char *key,
                  const char *what) FY_MUST_CHECK;

#endif
