/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One `command' or `common' block as it is written, and the parser that makes
 * it of a block's text. Lives in the arena of a compilation.
 */
#ifndef FERRY_ANNOTATIONS_COMMANDS_AST_H
#define FERRY_ANNOTATIONS_COMMANDS_AST_H

#include "annotations/base/arena.h"
#include "annotations/base/ast.h"

enum cmd_op {
    CMD_TRUE,
    CMD_FALSE,
    CMD_GIVEN,   /* name */
    CMD_ENV,     /* name */
    CMD_EQUAL,   /* name == text */
    CMD_MATCHES, /* name, text is the expression */
    CMD_ONLY,    /* ... of every value */
    CMD_COUNT,   /* count(name) compare number */
    CMD_VALUE,   /* value(name) compare number */
    CMD_BEFORE,  /* before(name, text): values, the first of each */
    CMD_NOT,     /* a */
    CMD_AND,     /* a, b */
    CMD_OR,
};

enum cmd_compare {
    CMD_EQ,
    CMD_NE,
    CMD_LT,
    CMD_LE,
    CMD_GT,
    CMD_GE
};

struct cmd_condition {
    uint8_t op, compare;
    struct fy_span span;
    struct cmd_condition *a, *b;
    struct ast_name name, text;
    int64_t number;
};

enum cmd_argument { /* argument of a spelling */
    CMD_ARGUMENT_NONE,
    CMD_ARGUMENT_NEXT,     /* attached or the next word */
    CMD_ARGUMENT_EQUALS,   /* [=VALUE]: attached only, after '=' */
    CMD_ARGUMENT_ATTACHED, /* [VALUE]: attached only */
};

struct cmd_form { /* one spelling of a flag or an option */
    struct ast_name name;
    uint8_t argument;
    bool is_assignment;    /* if= */
    struct ast_name value; /* of a bracket */
    struct cmd_form *next;
};

enum cmd_clause_kind {
    CMD_CLAUSE_IN,
    CMD_CLAUSE_OUT,
    CMD_CLAUSE_INOUT,
    CMD_CLAUSE_TREE,
    CMD_CLAUSE_FOLDER,
    CMD_CLAUSE_FOLLOWS,
    CMD_CLAUSE_DASH,
    CMD_CLAUSE_WHEN,
    CMD_CLAUSE_RUNS,  /* text: the word for paths; NULL: at its end */
    CMD_CLAUSE_UNTIL, /* text */
};

struct cmd_clause {
    uint8_t kind;
    struct fy_span span;
    struct cmd_condition *condition; /* NULL: always */
    struct ast_name text;            /* of `runs' and `until' */
    struct cmd_clause *next;
};

struct cmd_value { /* of an option, or an operand */
    struct ast_name name;
    bool is_optional, is_repeated;
    struct cmd_clause *clauses;
    struct cmd_value *next;
};

struct cmd_item { /* a flag, an option, or an operand (no forms) */
    struct cmd_form *forms;
    struct cmd_value *values;
    struct fy_span span;
    struct cmd_item *next;
};

enum cmd_statement_kind {
    CMD_FLAG,
    CMD_OPTION,
    CMD_NUMBER,
    CMD_OPERAND,
    CMD_STDIN,
    CMD_STDOUT,
    CMD_REQUIRE,
    CMD_NEVER,
    CMD_READS,   /* a folder: words */
    CMD_CONFIGS, /* files: words */
    CMD_CARRIES, /* files of the program's own: words */
    CMD_WRITES,  /* CMD_READS for writing; then the form of the write */
    CMD_WORK,
    CMD_SPLIT,
    CMD_MERGE,
    CMD_STYLE,
    CMD_ABSENT,
    CMD_PRESENT,
    CMD_ENVIRONMENT, /* words */
    CMD_TRAIT,       /* words: the verb, its object if it has one */
};

struct cmd_statement {
    uint8_t kind;
    bool is_tree;
    uint8_t how; /* enum fy_written_how */
    struct fy_span span;
    struct cmd_item *items;
    struct ast_names *words;
    struct ast_name text;            /* of `matching' */
    struct cmd_condition *condition; /* NULL: always */
    double number;
    struct cmd_statement *next;
};

struct cmd_title { /* "git status": one name of a block */
    struct ast_names *words;
    struct fy_span span;
    struct cmd_title *next;
};

struct cmd_block {
    bool is_common;
    struct cmd_title *titles;
    struct cmd_statement *statements;
    struct fy_span span; /* of its first word */
    const char *doc;
    unsigned path; /* of the list that is compiled */
    struct cmd_block *next;
    struct cmd_block *next_common; /* the checker's */
    struct cmd_block *next_path;   /* the first one of a later path */
};

/*
 * Returns the block of the text `raw', or NULL after an error that leaves
 * none. Errors go to `diagnostics'. Leaves by arena's longjmp without memory.
 */
struct cmd_block *fy_command_parse(struct fy_arena *arena,
                                   struct fy_diagnostics *diagnostics,
                                   const struct ast_raw *raw);

#endif
