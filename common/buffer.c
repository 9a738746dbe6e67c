/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded text, see the header. Refuses to allocate, format or fail: what does
 * not fit is cut off and marked.
 */
#include "config.h"

#include "common/buffer.h"

#include <stdarg.h>
#include <string.h>

void
fy_buffer_start(struct fy_buffer *buffer, char *text, size_t capacity)
{
    buffer->text = text;
    buffer->capacity = capacity;
    buffer->used = 0;
    buffer->overflowed = false;
    text[0] = '\0';
}

void
fy_buffer_add_bytes(struct fy_buffer *buffer, const char *bytes, size_t n)
{
    if (!buffer) {
        return;
    }
    size_t room = buffer->capacity - 1 - buffer->used;
    if (n > room) {
        buffer->overflowed = true;
        n = room;
    }
    memcpy(buffer->text + buffer->used, bytes, n);
    buffer->used += n;
    buffer->text[buffer->used] = '\0';
}

void
fy_buffer_add(struct fy_buffer *buffer, const char *text)
{
    fy_buffer_add_bytes(buffer, text, strlen(text));
}

void
fy_buffer_add_char(struct fy_buffer *buffer, char c)
{
    fy_buffer_add_bytes(buffer, &c, 1);
}

void
fy_buffer_add_number(struct fy_buffer *buffer, uint64_t number)
{
    char digits[20];
    size_t n = sizeof digits;
    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    fy_buffer_add_bytes(buffer, digits + n, sizeof digits - n);
}

void
fy_buffer_printf(struct fy_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    while (*format) {
        size_t plain = strcspn(format, "%");
        fy_buffer_add_bytes(buffer, format, plain);
        format += plain;
        if (format[0] == '%') {
            switch (format[1]) {
            case 's':
                fy_buffer_add(buffer, va_arg(arguments, const char *));
                break;
            case 'c':
                fy_buffer_add_char(buffer, (char)va_arg(arguments, int));
                break;
            case 'u':
                fy_buffer_add_number(buffer, va_arg(arguments, unsigned));
                break;
            case 'l': /* %lu */
                fy_buffer_add_number(buffer, va_arg(arguments, unsigned long));
                format++;
                break;
            default: /* %% */
                fy_buffer_add_char(buffer, format[1]);
            }
            format += 2;
        }
    }
    va_end(arguments);
}
