/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of reports beside jansson. Borrows every value; any thread.
 */
#ifndef FERRY_TOOLS_JSON_H
#define FERRY_TOOLS_JSON_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* Flags for reading reports: every number is a double, no member stands
 * twice. */
#define FY_JSON_FLAGS (JSON_DECODE_INT_AS_REAL | JSON_REJECT_DUPLICATES)

/* A number member, 0 without. */
static inline double
fy_json_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* A number member as a count: not negative, at most 2^63. */
uint64_t fy_json_count(const json_t *object, const char *key);

/* The text quoted; bytes that are no UTF-8 become U+FFFD. */
void fy_json_write_string(const char *text, FILE *to);

#endif
