/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text in a block of fixed size that the caller owns: appends stop at its end
 * and are remembered, nothing is allocated, errno is left alone. For messages
 * and settings inside a host program, where stdio and malloc are out of bounds.
 */
#ifndef FERRY_COMMON_BUFFER_H
#define FERRY_COMMON_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fy_buffer {
    char *text;      /* always NUL-terminated; borrowed */
    size_t capacity; /* bytes of it, with the NUL; at least 1 */
    size_t used;     /* bytes before the NUL */
    bool overflowed; /* something did not fit */
};

/* Makes an empty buffer over `capacity' >= 1 bytes at `text' (borrowed). */
void fy_buffer_start(struct fy_buffer *buffer, char *text, size_t capacity);

/*
 * Each appends as much as fits; `buffer' may be NULL: then nothing happens.
 * Not thread safe in itself; safe in signal handlers and after fork.
 */
void fy_buffer_add_bytes(struct fy_buffer *buffer, const char *bytes, size_t n);
void fy_buffer_add(struct fy_buffer *buffer, const char *text);
void fy_buffer_add_char(struct fy_buffer *buffer, char c);
void fy_buffer_add_number(struct fy_buffer *buffer, uint64_t number);
/* `format' has only %s, %c, %u, %lu and %%. */
void fy_buffer_printf(struct fy_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
