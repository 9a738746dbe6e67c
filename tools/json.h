/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON, as little of it as reports need. Values form a tree of first-child and
 * next-sibling links in one array; numbers are doubles.
 */
#ifndef FERRY_TOOLS_JSON_H
#define FERRY_TOOLS_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

enum fy_json_kind {
    FY_JSON_NULL,
    FY_JSON_FALSE,
    FY_JSON_TRUE,
    FY_JSON_NUMBER,
    FY_JSON_STRING,
    FY_JSON_ARRAY,
    FY_JSON_OBJECT,
};

enum {
    FY_JSON_MAX_DEPTH = 32
};

struct fy_json {
    enum fy_json_kind kind;
    const char *key;  /* in an object; NUL-terminated UTF-8, else NULL */
    const char *text; /* STRING */
    double number;    /* NUMBER */
    const struct fy_json *child, *next; /* ARRAY, OBJECT; siblings */
};

struct fy_json_document; /* owns a tree and its strings */

/*
 * Parses one value with nothing after it. FY_ERR_INVALID sets *out_line (from
 * 1) and *out_cause (static text). *out and *out_root are set on success.
 */
int fy_json_parse(const char *text, size_t bytes, struct fy_json_document **out,
                  const struct fy_json **out_root, unsigned *out_line,
                  const char **out_cause) FY_MUST_CHECK;

void fy_json_free(struct fy_json_document *document);

/* The member of an object by name, or NULL (also for what is no object). */
const struct fy_json *fy_json_member(const struct fy_json *object,
                                     const char *key);

/* A number member, 0 without; and as a count: not negative, at most 2^63. */
double fy_json_number(const struct fy_json *object, const char *key);
uint64_t fy_json_count(const struct fy_json *object, const char *key);

/* The text quoted; bytes that are no UTF-8 become U+FFFD. */
void fy_json_write_string(const char *text, FILE *to);

#endif
