/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes JSON, see the header. The input is not trusted: depth is
 * bounded, and memory is at most proportional to the text.
 */
#include "config.h"

#include "tools/json.h"

#include "common/plain.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct fy_json_document {
    struct fy_json *values;
    size_t nvalues, room;
    char *strings; /* decoded texts, NUL-terminated, one after the other */
    size_t used;
};

struct parser {
    const char *at, *end;
    struct fy_json_document *document;
    const char *cause; /* of the error at `at' */
};

static bool
fail(struct parser *parser, const char *cause)
{
    parser->cause = cause;
    return false;
}

static void
skip_blanks(struct parser *parser)
{
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): NUL is none */
    while (parser->at < parser->end && memchr(" \t\r\n", *parser->at, 4)) {
        parser->at++;
    }
}

static bool
take_char(struct parser *parser, char c)
{
    if (parser->at == parser->end || *parser->at != c) {
        return false;
    }
    parser->at++;
    return true;
}

static bool
take_word(struct parser *parser, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(parser->end - parser->at) < n ||
        memcmp(parser->at, word, n) != 0) {
        return false;
    }
    parser->at += n;
    return true;
}

/* Four hexadecimal digits. */
static bool
take_unit(struct parser *parser, uint32_t *out)
{
    uint32_t unit = 0;
    if (parser->end - parser->at < 4) {
        return fail(parser, "a short \\u escape");
    }
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): NUL is none */
        const char *digit = memchr(digits, *parser->at++, 32);
        if (!digit) {
            return fail(parser, "a bad \\u escape");
        }
        unit = unit << 4 | (uint32_t)((digit - digits) & 15);
    }
    *out = unit;
    return true;
}

static void
put_utf8(struct fy_json_document *document, uint32_t c)
{
    char *to = document->strings + document->used;
    size_t n = 0;
    if (c < 0x80) {
        to[n++] = (char)c;
    } else if (c < 0x800) {
        to[n++] = (char)(0xc0 | c >> 6);
        to[n++] = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        to[n++] = (char)(0xe0 | c >> 12);
        to[n++] = (char)(0x80 | (c >> 6 & 63));
        to[n++] = (char)(0x80 | (c & 63));
    } else {
        to[n++] = (char)(0xf0 | c >> 18);
        to[n++] = (char)(0x80 | (c >> 12 & 63));
        to[n++] = (char)(0x80 | (c >> 6 & 63));
        to[n++] = (char)(0x80 | (c & 63));
    }
    document->used += n;
}

/* After a backslash. Every escape is at least as long as what it makes. */
static bool
take_escape(struct parser *parser)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (parser->at == parser->end) {
        return fail(parser, "an unfinished string");
    }
    char c = *parser->at++;
    const char *name = memchr(names, c, sizeof names - 1);
    if (name) {
        put_utf8(parser->document, (unsigned char)values[name - names]);
        return true;
    }
    uint32_t unit, low;
    if (c != 'u') {
        return fail(parser, "an unknown escape");
    }
    if (!take_unit(parser, &unit)) {
        return false;
    }
    if (unit >= 0xd800 && unit < 0xdc00 && take_word(parser, "\\u")) {
        if (!take_unit(parser, &low)) {
            return false;
        }
        if (low < 0xdc00 || low > 0xdfff) {
            return fail(parser, "half of a surrogate pair");
        }
        unit = 0x10000 + ((unit & 0x3ff) << 10 | (low & 0x3ff));
    } else if (unit >= 0xd800 && unit < 0xe000) {
        return fail(parser, "half of a surrogate pair");
    }
    if (unit == 0) {
        return fail(parser, "a NUL in a string");
    }
    put_utf8(parser->document, unit);
    return true;
}

static bool
take_string(struct parser *parser, const char **out)
{
    struct fy_json_document *document = parser->document;
    size_t start = document->used;
    if (!take_char(parser, '"')) {
        return fail(parser, "expected a string");
    }
    for (;;) {
        if (parser->at == parser->end) {
            return fail(parser, "an unfinished string");
        }
        char c = *parser->at++;
        if (c == '"') {
            break;
        }
        if ((unsigned char)c < 0x20) {
            return fail(parser, "a control character in a string");
        }
        if (c != '\\') {
            document->strings[document->used++] = c;
        } else if (!take_escape(parser)) {
            return false;
        }
    }
    document->strings[document->used++] = '\0';
    *out = document->strings + start;
    return true;
}

static bool
take_number(struct parser *parser, double *out)
{
    char text[512]; /* 316 for the largest double as reports write it */
    size_t n = 0;
    while (
        parser->at + n < parser->end && n < sizeof text - 1 &&
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): NUL is none */
        memchr("+-.0123456789eE", parser->at[n], 15)) {
        n++;
    }
    memcpy(text, parser->at, n);
    text[n] = '\0';
    char *end;
    double number = strtod(text, &end);
    if (n == 0 || *end || text[0] == '+' || text[0] == '.') {
        return fail(parser, "expected a value");
    }
    if (!isfinite(number)) {
        return fail(parser, "a number out of range");
    }
    parser->at += n;
    *out = number;
    return true;
}

static bool take_value(struct parser *parser, unsigned depth, const char *key,
                       const struct fy_json **out);

/* Members until `closing'; each needs a key when the value is an object. */
static bool
take_members(struct parser *parser, unsigned depth, struct fy_json *parent)
{
    bool object = parent->kind == FY_JSON_OBJECT;
    char closing = object ? '}' : ']';
    const struct fy_json **link = &parent->child;
    skip_blanks(parser);
    if (take_char(parser, closing)) {
        return true;
    }
    do {
        const char *key = NULL;
        const struct fy_json *value;
        skip_blanks(parser);
        if (object) {
            if (!take_string(parser, &key)) {
                return false;
            }
            skip_blanks(parser);
            if (!take_char(parser, ':')) {
                return fail(parser, "expected ':'");
            }
        }
        if (!take_value(parser, depth + 1, key, &value)) {
            return false;
        }
        *link = value;
        link = &((struct fy_json *)value)->next;
        skip_blanks(parser);
    } while (take_char(parser, ','));
    if (!take_char(parser, closing)) {
        return fail(parser,
                    object ? "expected ',' or '}'" : "expected ',' or ']'");
    }
    return true;
}

static bool
take_value(struct parser *parser, unsigned depth, const char *key,
           const struct fy_json **out)
{
    struct fy_json_document *document = parser->document;
    if (depth > FY_JSON_MAX_DEPTH) {
        return fail(parser, "too deeply nested");
    }
    if (document->nvalues == document->room) {
        return fail(parser, "too many values");
    }
    struct fy_json *value = &document->values[document->nvalues++];
    value->key = key;
    *out = value;
    skip_blanks(parser);
    char c = (char)(parser->at < parser->end ? *parser->at : '\0');
    if (c == '{' || c == '[') {
        parser->at++;
        value->kind = c == '{' ? FY_JSON_OBJECT : FY_JSON_ARRAY;
        return take_members(parser, depth, value);
    }
    if (c == '"') {
        value->kind = FY_JSON_STRING;
        return take_string(parser, &value->text);
    }
    if (take_word(parser, "null")) {
        value->kind = FY_JSON_NULL;
    } else if (take_word(parser, "true")) {
        value->kind = FY_JSON_TRUE;
    } else if (take_word(parser, "false")) {
        value->kind = FY_JSON_FALSE;
    } else {
        value->kind = FY_JSON_NUMBER;
        return take_number(parser, &value->number);
    }
    return true;
}

/* No document has more values than commas and opening brackets, plus one. */
static size_t
count_values(const char *text, size_t bytes)
{
    size_t n = 1;
    for (size_t i = 0; i < bytes; i++) {
        n += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return n;
}

int
fy_json_parse(const char *text, size_t bytes, struct fy_json_document **out,
              const struct fy_json **out_root, unsigned *out_line,
              const char **out_cause)
{
    struct fy_json_document *document = calloc(1, sizeof *document);
    if (!document) {
        return FY_ERR_NOMEM;
    }
    document->room = count_values(text, bytes);
    document->values = calloc(document->room, sizeof *document->values);
    document->strings = malloc(bytes + 1);
    if (!document->values || !document->strings) {
        fy_json_free(document);
        return FY_ERR_NOMEM;
    }
    struct parser parser = {.at = text, .end = text + bytes};
    parser.document = document;
    if (take_value(&parser, 0, NULL, out_root)) {
        skip_blanks(&parser);
        if (parser.at == parser.end) {
            *out = document;
            return 0;
        }
        fail(&parser, "something after the value");
    }
    *out_cause = parser.cause;
    *out_line = 1;
    for (const char *c = text; c < parser.at; c++) {
        *out_line += *c == '\n';
    }
    fy_json_free(document);
    return FY_ERR_INVALID;
}

void
fy_json_free(struct fy_json_document *document)
{
    if (!document) {
        return;
    }
    free(document->values);
    free(document->strings);
    free(document);
}

const struct fy_json *
fy_json_member(const struct fy_json *object, const char *key)
{
    if (!object || object->kind != FY_JSON_OBJECT) {
        return NULL;
    }
    for (const struct fy_json *member = object->child; member;
         member = member->next) {
        if (strcmp(member->key, key) == 0) {
            return member;
        }
    }
    return NULL;
}

double
fy_json_number(const struct fy_json *object, const char *key)
{
    const struct fy_json *member = fy_json_member(object, key);
    return member && member->kind == FY_JSON_NUMBER ? member->number : 0;
}

uint64_t
fy_json_count(const struct fy_json *object, const char *key)
{
    double number = fy_json_number(object, key);
    if (!(number > 0)) {
        return 0;
    }
    return number < 0x1p63 ? (uint64_t)number : (uint64_t)1 << 63;
}

void
fy_json_write_string(const char *text, FILE *to)
{
    (void)putc('"', to);
    while (*text) {
        size_t n = fy_utf8_bytes(text);
        if (*text == '"' || *text == '\\') {
            (void)fprintf(to, "\\%c", *text);
        } else if (n == 0) {
            (void)fputs("\\ufffd", to);
            n = 1;
        } else if (fy_plain_bytes(text) ==
                   0) { /* its last byte is its number */
            (void)fprintf(to, "\\u%04x", (unsigned char)text[n - 1]);
        } else {
            (void)fwrite(text, 1, n, to);
        }
        text += n;
    }
    (void)putc('"', to);
}
