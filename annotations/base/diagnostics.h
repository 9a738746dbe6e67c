/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings about annotation text: the place, the fault, and a hint for its
 * author. The list keeps its own copies, so it outlives the texts.
 */
#ifndef FERRY_ANNOTATIONS_BASE_DIAGNOSTICS_H
#define FERRY_ANNOTATIONS_BASE_DIAGNOSTICS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct fy_diagnostics; /* an ordered list of errors and warnings */

/* Returns new, empty, or NULL. A list has no lock: one thread at a time. */
struct fy_diagnostics *fy_diagnostics_new(void);
/* Frees the list and the findings that _add() returned. */
void fy_diagnostics_free(struct fy_diagnostics *diagnostics);
/* Each counts all findings of that severity, those beyond
 * FY_MAX_DIAGNOSTICS, too. */
unsigned fy_diagnostics_errors(const struct fy_diagnostics *diagnostics);
unsigned fy_diagnostics_warnings(const struct fy_diagnostics *diagnostics);
/* file:line:column: error: text, the source line, a caret, a hint. */
void fy_diagnostics_print(const struct fy_diagnostics *diagnostics, FILE *to);

/* One text. */
struct fy_source {
    const char *name; /* as diagnostics show it */
    char *text;       /* followed by two NULs */
    size_t bytes;     /* without them */
    uint32_t *lines;  /* offsets of line starts */
    size_t nlines;
    uint64_t device, inode; /* of its file; 0, 0 for a text in memory */
    const struct fy_source *importer; /* NULL for a top file */
    int is_open; /* its imports are being read: importing it is a cycle */
};

/* Bytes begin .. end - 1 of a source; source NULL: no place. */
struct fy_span {
    const struct fy_source *source;
    uint32_t begin, end;
};

enum fy_severity {
    FY_SEVERITY_ERROR,
    FY_SEVERITY_WARNING
};

enum {
    FY_MAX_DIAGNOSTICS = 64, /* kept; more are only counted */
    FY_MAX_QUOTED = 40,      /* bytes of a name quoted in a message */
};

struct fy_diagnostic;

/*
 * Adds a finding; drops a second one of the same severity that begins at the
 * same place, because the rows of a family repeat their common faults. Returns
 * the finding for a hint (borrowed until the next call), or NULL if dropped.
 */
struct fy_diagnostic *fy_diagnostics_add(struct fy_diagnostics *diagnostics,
                                         enum fy_severity severity,
                                         struct fy_span span,
                                         const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Returns true if there are so many errors that the compiler stops. */
int fy_diagnostics_full(const struct fy_diagnostics *diagnostics);

/* Adds a hint for the author; `diagnostic' may be NULL. */
void fy_diagnostic_hint(struct fy_diagnostic *diagnostic, const char *format,
                        ...) __attribute__((format(printf, 2, 3)));

/* Line and column (both from 1, columns in bytes) of a span's begin. */
void fy_span_position(struct fy_span span, uint32_t *line, uint32_t *column);

/* The known name nearest to one that is not. */
struct fy_suggestion {
    const char *wanted;
    const char *best; /* NULL: nothing near */
    unsigned distance;
};

/*
 * Makes `name' (borrowed) the best if it is nearer to `wanted' than the best so far:
 * at most 3 edits away, fewer for a short name. `best' is NULL before the first try.
 */
void fy_suggestion_try(struct fy_suggestion *suggestion, const char *name);
/* The hint "did you mean 'best'?" when there is one. */
void fy_diagnostic_suggest(struct fy_diagnostic *diagnostic,
                           const struct fy_suggestion *suggestion);

/* For a struct with the member `diagnostics'. */
#define fy_error(front, span, ...)                                    \
    fy_diagnostics_add((front)->diagnostics, FY_SEVERITY_ERROR, span, \
                       __VA_ARGS__)
#define fy_warning(front, span, ...)                                    \
    fy_diagnostics_add((front)->diagnostics, FY_SEVERITY_WARNING, span, \
                       __VA_ARGS__)

#endif
