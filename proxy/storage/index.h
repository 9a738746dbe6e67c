/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A git index as lines of text, for annotations' `absent ... matching'.
 */
#ifndef FERRY_PROXY_STORAGE_INDEX_H
#define FERRY_PROXY_STORAGE_INDEX_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the `n' bytes begin as an index does. */
bool fy_index_is(const void *bytes, size_t n);

/*
 * Writes into `out' (`capacity' bytes, ended by NUL) a line for each mode of an
 * entry, in octal, and one for each extension. False: it is none that this reads, or `out' is too small. No
 * allocation is kept; any thread.
 */
bool fy_index_text(const void *bytes, size_t n, char *out, size_t capacity);

#endif
