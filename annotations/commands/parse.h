/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface between the scanner and the parser of one `command' block.
 */
#ifndef FERRY_ANNOTATIONS_COMMANDS_PARSE_H
#define FERRY_ANNOTATIONS_COMMANDS_PARSE_H

#include "annotations/base/arena.h"
#include "annotations/base/ast.h"
#include "annotations/commands/ast.h"

struct fy_command_text {
    struct fy_arena *arena;
    struct fy_diagnostics *diagnostics;
    const struct fy_source *source;
    struct fy_span end;      /* of the block: its last byte */
    struct cmd_block *block; /* the result */
    /* the scanner's */
    uint32_t offset;
    bool begun, in_title;
    bool stop; /* a limit was passed: the rest of the text is not read */
};

#endif
