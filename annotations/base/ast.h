/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Result of the parser: lists of declarations, still with the placeholders of
 * families in their names. Lives in the arena of one compilation; lists are in
 * the order of the text.
 */
#ifndef FERRY_ANNOTATIONS_BASE_AST_H
#define FERRY_ANNOTATIONS_BASE_AST_H

#include <stdbool.h>
#include <stdint.h>

#include "annotations/base/diagnostics.h"

/* Limits of a text, in blocks of both kinds. */
enum {
    FY_MAX_FILE_BYTES = 4 << 20,
    FY_MAX_NAME_BYTES = 256,    /* a name or a number */
    FY_MAX_STRING_BYTES = 1024, /* between the quotes */
    FY_MAX_BRACKETS = 48,       /* open at once */
    FY_MAX_EXPR_DEPTH = 64,     /* of the text; see FY_MAX_NODE_DEPTH */
    FY_MAX_DOC_BYTES = 4096,
};

/* A name or a string, possibly with <placeholders>. */
struct ast_name {
    const char *text; /* NULL: absent */
    struct fy_span span;
};

struct ast_names { /* a list of names, types' words or strings */
    struct ast_name name;
    struct ast_names *next;
};

enum ast_kind {
    AST_INT,
    AST_REAL,
    AST_CHAR,
    AST_NAME,   /* name */
    AST_ARROW,  /* a->name */
    AST_DOT,    /* a.name */
    AST_DEREF,  /* *a */
    AST_INDEX,  /* a[integer] */
    AST_UNARY,  /* op a */
    AST_BINARY, /* a op b; also && || */
    AST_COND,   /* a ? b : c */
    AST_IN,     /* a in name */
    AST_CALL,   /* name(list) */
};

struct ast_expr {
    enum ast_kind kind;
    uint8_t op;     /* enum fy_op of UNARY and BINARY */
    uint16_t depth; /* 1 for a leaf */
    bool bracketed; /* written in parentheses */
    struct fy_span span;
    struct ast_name name;
    int64_t integer;
    double real;
    struct ast_expr *a, *b, *c;
    struct ast_expr *list; /* arguments of a call */
    struct ast_expr *next; /* in such a list */
};

/* One declarator: an argument, a field or a function's head. */
struct ast_declaration {
    struct ast_names *words; /* the type before the stars */
    struct ast_name name;    /* text NULL: unnamed */
    unsigned stars;
    bool is_reference;    /* T &x: passed as a pointer, read plainly */
    int64_t elements;     /* T x[n]; -1: not an array, 0: T x[] */
    struct ast_name from; /* the call that makes this handle */
    struct fy_span span;
    struct ast_declaration *next;
};

struct ast_axis { /* one name of an axis statement */
    struct ast_name name;
    struct ast_expr *extent; /* NULL: the argument of that name */
    struct ast_axis *next;
};

struct ast_dimension { /* one part of an operand's brackets */
    struct ast_expr *axis;
    struct ast_expr *stride; /* NULL: 1 */
    bool is_increment;       /* `inc': counted from the end when negative */
    struct ast_dimension *next;
};

enum ast_clause_kind {
    /* of an operand */
    AST_LOWER, /* expr: when, or NULL */
    AST_UPPER,
    AST_STRICT,
    AST_WHERE,
    AST_WHEN,
    AST_IN_WHEN,
    AST_OUT_WHEN,
    AST_AS,
    AST_AT,
    AST_RETURNS,
    AST_QUERY,
    AST_FAILURE,
    AST_FINITE,
    /* of an axis statement */
    AST_SPLIT,
    AST_SUMS_INTO, /* target, or NULL: the return value; `with' */
    AST_COMBINES,  /* name: hypot, max, min */
    AST_MULTIPLE,  /* expr */
    AST_AXIS_ALSO, /* target: a list of cells */
};

struct ast_clause {
    enum ast_clause_kind kind;
    struct fy_span span;
    struct ast_name name;
    struct ast_expr *expr;   /* condition or value */
    struct ast_expr *target; /* SUMS_INTO: operand */
    struct ast_expr *with;   /* SUMS_INTO: the cell replaced, by expr */
    struct ast_clause *next;
};

struct ast_symbol { /* "name" integer width */
    struct ast_name name;
    int integer_bits; /* 32, 64, 0: any; -1: not said */
    struct ast_symbol *next;
};

enum ast_statement_kind {
    AST_LET,
    AST_REQUIRE,
    AST_AXIS,
    AST_OPERAND,
    AST_OPAQUE,
    AST_AMBIGUOUS,
    AST_FLOPS,
    AST_WORTH,
    AST_ERROR,
    AST_EXACT,
    AST_ALSO,
    AST_BLOCKED,
    AST_ON,
    AST_MAP,
    AST_MAKES,
    AST_FREES,
    AST_STATEMENT_KINDS
};

struct ast_statement {
    enum ast_statement_kind kind;
    bool is_inherited;     /* a form has it of its target */
    struct fy_span span;   /* of its first word */
    struct ast_name name;  /* LET, BLOCKED's algorithm, MAKES; ON: the device */
    struct ast_name word;  /* REQUIRE's reason; ON: the function */
    struct ast_name file;  /* ON: of a kernel; text NULL: none */
    struct ast_expr *base; /* MAP: the place that is written */
    uint8_t access;        /* OPERAND: enum fy_access */
    struct ast_expr *expr; /* value, condition, operand's base, call, OPAQUE */
    struct ast_names *names; /* AMBIGUOUS, BLOCKED using, FREES */
    struct ast_axis *axes;
    struct ast_dimension *dimensions;
    struct ast_clause *clauses;
    struct ast_expr *launch; /* ON, a kernel: calls of grid, block, shared */
    struct ast_symbol *symbols;
    struct ast_statement *next;
};

struct ast_function {
    struct ast_declaration *head; /* words include the interface */
    struct ast_declaration *args;
    struct ast_statement *body;
    struct ast_expr *form_of; /* a call of the target; NULL: no form */
    struct fy_span span;      /* of the name */
    struct fy_span whole;     /* from `function' to its brace */
    const char *doc;          /* "" when there is none */
    unsigned path; /* of those given: later ones replace earlier ones */
    bool failed;   /* said so for one row: the others are not looked at */
    struct ast_function *next;
};

struct ast_row { /* of a family */
    struct ast_name name;
    struct ast_names *type;  /* NULL: it has values only */
    struct ast_expr *values; /* one for each column of the family */
    struct fy_span whole;
    struct ast_row *next;
};

struct ast_family {
    struct ast_name name;
    struct ast_names *columns;
    struct ast_row *rows;
    struct ast_family *next;
};

struct ast_spelling {
    struct ast_name interface;
    int integer_bits;
    struct ast_names *patterns;
    struct ast_spelling *next;
};

struct ast_struct {
    struct ast_name name;
    struct ast_declaration *fields;
    struct ast_struct *next;
};

struct ast_handle {
    struct ast_name name;
    struct ast_handle *next;
};

struct ast_import {
    struct ast_name path;
    struct ast_import *next;
};

/* A `command' or `common' block as text, whose parser is in commands/ast.h; or a
 * `blocked' one, see model/nest.h. */
struct ast_raw {
    struct fy_span span; /* from the word to the closing brace */
    const char *doc;
    const char *name,
        *text; /* of a `blocked' one, once it is declared; or NULL */
    struct ast_raw *next;
};

struct ast_file {
    struct ast_import *imports;
    struct ast_family *families;
    struct ast_spelling *spellings;
    struct ast_struct *structs;
    struct ast_handle *handles;
    struct ast_function *functions;
    struct ast_raw *commands;
    struct ast_raw *nests;
};

#endif
