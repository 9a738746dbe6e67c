/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of one compilation of command blocks, shared by check.c (blocks),
 * declare.c (flags, options, operands) and resolve.c (conditions).
 */
#ifndef FERRY_ANNOTATIONS_COMMANDS_CHECK_H
#define FERRY_ANNOTATIONS_COMMANDS_CHECK_H

#include "annotations/base/arena.h"
#include "annotations/base/ast.h"
#include "annotations/commands/model.h"

struct fy_command_check {
    struct fy_diagnostics *diagnostics;
    struct fy_commands *set;
    struct fy_arena *arena;    /* the set's */
    struct fy_arena *scratch;  /* of the compilation */
    struct cmd_block *commons; /* by next_common */
    /* the block that is being compiled */
    struct fy_block *block;
    bool is_sub; /* its `common' options stand before a sub-command */
    size_t slots_capacity, conditions_capacity, lists_capacity;
    size_t operands_capacity, forms_capacity[2];
    struct fy_map spellings[2]; /* of own and common: index + 1 */
    size_t nconditions, nlists;
    bool in_common;   /* compiling a statement of `common' */
    bool in_presence; /* ... whether an operand is there */
    bool too_many;    /* said already */
};

/* A string of the compilation in the set's memory. */
const char *fy_command_keep(struct fy_command_check *check, const char *text);
/* Says once that a block is too large. */
void fy_command_too_many(struct fy_command_check *check, struct fy_span span,
                         const char *what, unsigned most);

/* ---- declare.c ---- */

/* Counts the declarations of the statements, and makes room for all that
 * were counted at once, so that the tables need not grow. */
void fy_command_expect(struct fy_command_check *check,
                       const struct cmd_statement *statements);
void fy_command_reserve(struct fy_command_check *check);
/* The order of `count' texts by strcmp(); those that are equal as they come. */
void fy_command_sort(const char *const *texts, unsigned count, uint16_t *order);
/* Declares the flag, option, number or operand of a statement; the
 * conditions come later (fy_command_clauses). */
void fy_command_declare(struct fy_command_check *check,
                        const struct cmd_statement *statement);
/* The conditions of its clauses; slots from *slot on, in the same order. */
void fy_command_clauses(struct fy_command_check *check,
                        const struct cmd_statement *statement, unsigned *slot);
/* Sorts the tables that were filled. */
void fy_command_finish_forms(struct fy_command_check *check);
/* The table that declarations go to now. */
struct fy_forms *fy_command_forms(struct fy_command_check *check);
/* The spelling of exactly that text, or NULL; `common': of those options. */
const struct fy_form *fy_command_find_form(const struct fy_command_check *check,
                                           bool common, const char *text);

/* Notes that the block reads a variable of the environment, or all that begin
 * alike ("X*"); an error if `name' is no such name. */
void fy_command_variable(struct fy_command_check *check, struct ast_name name);

/* ---- declare_runs.c ---- */

/* `runs' and `until' among the clauses of one value. */
void fy_command_take_run(struct fy_command_check *check, struct fy_slot *slot,
                         const struct cmd_value *value);
/* Checks that a command may stand there; `is_alone': as its option's only
 * value. */
void fy_command_check_run(struct fy_command_check *check,
                          const struct fy_slot *slot, bool is_alone);

/* ---- resolve.c ---- */

/* The node of a condition; NULL: FY_ALWAYS. After an error FY_NEVER. */
uint16_t fy_command_condition(struct fy_command_check *check,
                              const struct cmd_condition *condition);
uint16_t fy_command_either(struct fy_command_check *check, uint16_t a,
                           uint16_t b);
/* The compiled expression, NULL after an error. */
const regex_t *fy_command_regex(struct fy_command_check *check,
                                struct ast_name text);
/* FY_ALWAYS and FY_NEVER. */
void fy_command_first_conditions(struct fy_command_check *check);

/* ---- check.c ---- */

/* Returns a block with the statements that it inherits, for names that begin
 * with `first'. */
const struct fy_block *fy_command_block(struct fy_command_check *check,
                                        const struct cmd_block *own,
                                        const char *first, bool is_sub);

/* ---- names.c ---- */

/* Returns true if a block has a name that begins with that word. */
bool fy_command_is_for(const struct cmd_block *block, const char *word);
/* Compiles `blocks' into the empty set. Errors go to `diagnostics'. */
void fy_command_check_all(struct fy_arena *scratch,
                          struct fy_diagnostics *diagnostics,
                          struct cmd_block *blocks, struct fy_commands *set);

/* ---- reach.c ---- */

/* Warns of blocks behind one that takes all they would. */
void fy_command_check_reach(struct fy_diagnostics *diagnostics,
                            const struct fy_command *command);

#endif
