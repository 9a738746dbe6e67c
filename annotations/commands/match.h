/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt to parse arguments by one block, shared by the argv parser
 * (match.c) and the making of the result (invocation.c).
 */
#ifndef FERRY_ANNOTATIONS_COMMANDS_MATCH_H
#define FERRY_ANNOTATIONS_COMMANDS_MATCH_H

#include "annotations/commands/model.h"

/* Why a block does not parse; its text is made when nobody else parses. */
struct fy_failure {
    const struct fy_entry *entry;
    const char *text;
    const char *about; /* an argument or a name; NULL: none */
    unsigned weight;   /* the heaviest is told */
};

enum fy_weight {
    WEIGHT_WORDS = 1, /* another sub-command */
    WEIGHT_REQUIRE,
    WEIGHT_PARSE,
    WEIGHT_NEVER,
};

struct fy_match {
    struct fy_parsed parsed; /* `times' and `given' are the two below */
    const struct fy_entry *entry;
    const struct fy_block *block;
    const char *const *argv;
    uint32_t argc, next; /* next: the argument to be read */
    uint32_t *times;
    struct fy_given *given;
    const char *const *environment;
    struct fy_failure *failure;
    const struct fy_commands *commands;
    struct fy_buffer *why;
    bool explained;               /* `why' has it */
    bool local;                   /* of fy_invocation_parse_local() */
    const char *const *variables; /* of its first word's blocks */
};

/* Remembers why, unless something heavier is known; always false. */
bool fy_match_fail(struct fy_match *match, enum fy_weight weight,
                   const char *text, const char *about);
/* Reads all arguments by match->block; false: it does not parse. */
bool fy_match_arguments(struct fy_match *match);

/* ---- invocation.c ---- */

/* The blocks of a first word, or NULL. */
const struct fy_command *fy_command_find(const struct fy_commands *commands,
                                         const char *name);

/* As fy_invocation_parse(), or (`local') fy_invocation_parse_local(). `symbol': of a
 * command that another one runs, which runs none itself; NULL: of none. */
int fy_match_parse(const struct fy_commands *commands, const char *name,
                   const char *const *argv, const char *const *environment,
                   const struct fy_path_symbol *symbol, bool local,
                   struct fy_invocation *out,
                   struct fy_buffer *why) FY_MUST_CHECK;

/* ---- runs.c ---- */

/* Adds the meaning of the commands that the arguments tell it to run. On any
 * error match->explained has the reason, and out must be cleared. */
int fy_match_runs(struct fy_match *match,
                  struct fy_invocation *out) FY_MUST_CHECK;

#endif
