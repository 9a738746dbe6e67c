/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from elsewhere (a host's words, arguments, names of files, annotations)
 * before it is printed: a terminal obeys control characters. Those are C0, DEL and
 * C1, the latter as one byte and in UTF-8; bytes that are no UTF-8 count as well.
 */
#ifndef FERRY_COMMON_PLAIN_H
#define FERRY_COMMON_PLAIN_H

#include <stddef.h>

/* Bytes of the well-formed UTF-8 character at `text' (NUL-terminated, not at its
 * end); 0: none is there. Any thread; safe in signal handlers. */
size_t fy_utf8_bytes(const char *text);

/* Returns the bytes of the well-formed UTF-8 character at `text', and 0 also
 * for a control character. */
size_t fy_plain_bytes(const char *text);

/* Puts '?' in the place of each byte of `text' that is not plain, but for those
 * in `kept' ("\n" of text with several lines). Keeps the length. */
void fy_plain(char *text, const char *kept);

#endif
