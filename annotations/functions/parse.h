/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface between the scanner and the parser: one text through both.
 */
#ifndef FERRY_ANNOTATIONS_FUNCTIONS_PARSE_H
#define FERRY_ANNOTATIONS_FUNCTIONS_PARSE_H

#include "annotations/base/arena.h"
#include "annotations/base/ast.h"

struct fy_parse {
    struct fy_arena *arena;
    struct fy_diagnostics *diagnostics;
    struct fy_source *source;
    struct ast_file file; /* the result */
    /* the scanner's */
    uint32_t offset;
    unsigned brackets;
    bool stop; /* a limit was passed: the rest of the text is not read */
    uint32_t line_start;         /* offset of the line being scanned */
    uint32_t doc_begin, doc_end; /* run of comment lines; end is that of the
                                  * last one's line, with its newline */
    bool in_doc;
    char current, previous; /* first bytes of the last two tokens */
    unsigned braces;        /* open in a command block */
    uint32_t block_begin;
    const char *block_doc;
};

/*
 * Parses `source' into *out (all lists NULL if nothing could be read). Errors
 * go to `diagnostics'; declarations after an error are kept, so that one run
 * finds several errors. Leaves by arena's longjmp without memory.
 */
void fy_parse_source(struct fy_arena *arena, struct fy_diagnostics *diagnostics,
                     struct fy_source *source, struct ast_file *out);

#endif
