/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of findings and how they look in a terminal. Text from annotation
 * files is shown with control bytes replaced, and long lines cut around the
 * caret, so that no file can garble a terminal or flood a log.
 */
#include "config.h"

#include "annotations/base/diagnostics.h"

#include "common/plain.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXCERPT_BYTES = 100, /* of a source line */
    EXCERPT_BEFORE = 60, /* of them before the caret, at least when cut */
    NAME_BYTES = 64,     /* longest name compared for a suggestion */
};

struct fy_diagnostic {
    struct fy_span span; /* compared only; its source may be gone */
    enum fy_severity severity;
    char *file; /* NULL: no place */
    uint32_t line, column;
    char *text, *hint;
    char *excerpt;         /* of the line, NULL: none */
    unsigned caret, width; /* in the excerpt */
};

struct fy_diagnostics {
    struct fy_diagnostic items[FY_MAX_DIAGNOSTICS];
    unsigned count, errors, warnings;
};

struct fy_diagnostics *
fy_diagnostics_new(void)
{
    return calloc(1, sizeof(struct fy_diagnostics));
}

void
fy_diagnostics_free(struct fy_diagnostics *diagnostics)
{
    if (!diagnostics) {
        return;
    }
    for (unsigned i = 0; i < diagnostics->count; i++) {
        free(diagnostics->items[i].file);
        free(diagnostics->items[i].text);
        free(diagnostics->items[i].hint);
        free(diagnostics->items[i].excerpt);
    }
    free(diagnostics);
}

unsigned
fy_diagnostics_errors(const struct fy_diagnostics *diagnostics)
{
    return diagnostics->errors;
}

unsigned
fy_diagnostics_warnings(const struct fy_diagnostics *diagnostics)
{
    return diagnostics->warnings;
}

int
fy_diagnostics_full(const struct fy_diagnostics *diagnostics)
{
    return diagnostics->errors >= FY_MAX_DIAGNOSTICS;
}

/* printf into new memory, control bytes replaced; NULL when there is none. */
static char *
print_new(const char *format, va_list list)
{
    va_list again;
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text) {
        (void)vsnprintf(text, (size_t)length + 1, format, again);
        fy_plain(text, "");
    }
    va_end(again);
    return text;
}

void
fy_span_position(struct fy_span span, uint32_t *line, uint32_t *column)
{
    const struct fy_source *source = span.source;
    size_t low = 0, high = source->nlines; /* line low begins at or before */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (source->lines[middle] <= span.begin) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *line = (uint32_t)low + 1;
    *column = span.begin - source->lines[low] + 1;
}

static void
quote_line(struct fy_diagnostic *diagnostic, struct fy_span span)
{
    const struct fy_source *source = span.source;
    size_t start = span.begin - (diagnostic->column - 1);
    size_t end = span.begin, offset = 0;
    while (end < source->bytes && source->text[end] != '\n' &&
           source->text[end] != '\r') {
        end++;
    }
    if (end - start > EXCERPT_BYTES && span.begin - start > EXCERPT_BEFORE) {
        offset = span.begin - start - EXCERPT_BEFORE;
    }
    size_t length = end - start - offset;
    if (length > EXCERPT_BYTES) {
        length = EXCERPT_BYTES;
    }
    diagnostic->excerpt = malloc(length + 1);
    if (!diagnostic->excerpt) {
        return;
    }
    memcpy(diagnostic->excerpt, source->text + start + offset, length);
    diagnostic->excerpt[length] = '\0';
    for (char *c = diagnostic->excerpt; (c = strchr(c, '\t'));) {
        *c = ' ';
    }
    fy_plain(diagnostic->excerpt, "");
    diagnostic->caret = (unsigned)(span.begin - start - offset);
    size_t width = span.end > span.begin ? span.end - span.begin : 1;
    if (diagnostic->caret + width > length) {
        width = length > diagnostic->caret ? length - diagnostic->caret : 1;
    }
    diagnostic->width = (unsigned)width;
}

struct fy_diagnostic *
fy_diagnostics_add(struct fy_diagnostics *diagnostics,
                   enum fy_severity severity, struct fy_span span,
                   const char *format, ...)
{
    for (unsigned i = 0; i < diagnostics->count && span.source; i++) {
        const struct fy_diagnostic *old = &diagnostics->items[i];
        if (old->severity == severity && old->span.source == span.source &&
            old->span.begin == span.begin) {
            return NULL;
        }
    }
    if (severity == FY_SEVERITY_ERROR) {
        diagnostics->errors++;
    } else {
        diagnostics->warnings++;
    }
    if (diagnostics->count == FY_MAX_DIAGNOSTICS) {
        return NULL;
    }
    struct fy_diagnostic *diagnostic =
        &diagnostics->items[diagnostics->count++];
    va_list list;
    va_start(list, format);
    diagnostic->text = print_new(format, list);
    va_end(list);
    diagnostic->severity = severity;
    diagnostic->span = span;
    if (span.source) {
        diagnostic->file = strdup(span.source->name);
        fy_span_position(span, &diagnostic->line, &diagnostic->column);
        if (span.source->bytes > 0) {
            quote_line(diagnostic, span);
        }
    }
    return diagnostic;
}

void
fy_diagnostic_hint(struct fy_diagnostic *diagnostic, const char *format, ...)
{
    if (!diagnostic || diagnostic->hint) {
        return;
    }
    va_list list;
    va_start(list, format);
    diagnostic->hint = print_new(format, list);
    va_end(list);
}

void
fy_diagnostics_print(const struct fy_diagnostics *diagnostics, FILE *to)
{
    for (unsigned i = 0; i < diagnostics->count; i++) {
        const struct fy_diagnostic *d = &diagnostics->items[i];
        if (d->file) {
            (void)fprintf(to, "%s:%u:%u: ", d->file, d->line, d->column);
        }
        (void)fprintf(to, "%s: %s\n",
                      d->severity == FY_SEVERITY_ERROR ? "error" : "warning",
                      d->text ? d->text : "(no memory for the text)");
        if (d->excerpt) {
            (void)fprintf(to, "    %s\n    %*s^", d->excerpt, (int)d->caret,
                          "");
            for (unsigned k = 1; k < d->width; k++) {
                (void)fputc('~', to);
            }
            (void)fputc('\n', to);
        }
        if (d->hint) {
            (void)fprintf(to, "    hint: %s\n", d->hint);
        }
    }
    unsigned total = diagnostics->errors + diagnostics->warnings;
    if (total > diagnostics->count) {
        (void)fprintf(to, "... and %u more\n", total - diagnostics->count);
    }
}

/* Optimal string alignment distance; both at most NAME_BYTES long. */
static unsigned
distance(const char *a, size_t na, const char *b, size_t nb)
{
    unsigned rows[3][NAME_BYTES + 1];
    for (size_t j = 0; j <= nb; j++) {
        rows[0][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= na; i++) {
        unsigned *row = rows[i % 3], *up = rows[(i + 2) % 3],
                 *up2 = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best) {
                best = up[j] + 1;
            }
            if (row[j - 1] + 1 < best) {
                best = row[j - 1] + 1;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best) {
                best = up2[j - 2] + 1;
            }
            row[j] = best;
        }
    }
    return rows[na % 3][nb];
}

void
fy_suggestion_try(struct fy_suggestion *suggestion, const char *name)
{
    size_t wanted = strlen(suggestion->wanted), length = strlen(name);
    if (wanted == 0 || length == 0 || wanted > NAME_BYTES ||
        length > NAME_BYTES || wanted > length + 3 || length > wanted + 3) {
        return;
    }
    /* A one-letter name has no near neighbours, only other names. */
    unsigned limit = wanted < 2 ? 0 : wanted < 4 ? 1 : wanted < 8 ? 2 : 3;
    unsigned d = distance(suggestion->wanted, wanted, name, length);
    if (d > limit || (suggestion->best && d >= suggestion->distance)) {
        return;
    }
    suggestion->best = name;
    suggestion->distance = d;
}

void
fy_diagnostic_suggest(struct fy_diagnostic *diagnostic,
                      const struct fy_suggestion *suggestion)
{
    if (suggestion->best) {
        fy_diagnostic_hint(diagnostic, "did you mean '%s'?", suggestion->best);
    }
}
