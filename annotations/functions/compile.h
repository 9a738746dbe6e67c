/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One compilation, between the parser and the flat model. The work goes in
 * phases, each over all functions: declare (names.c), heads with their families
 * expanded (head.c) and forms (form.c), bodies (body.c, axis.c, operand.c, expression.c), the checks that
 * need everything (variants.c), emission (emit.c).
 */
#ifndef FERRY_ANNOTATIONS_FUNCTIONS_COMPILE_H
#define FERRY_ANNOTATIONS_FUNCTIONS_COMPILE_H

#include "annotations/functions/parse.h"
#include "annotations/model/annotations.h"
#include "annotations/model/operators.h"

enum {
    FY_MAX_FILES = 512,
    FY_MAX_IMPORT_DEPTH = 32,
    FY_MAX_FUNCTIONS = 16384, /* of one compilation, families expanded */
    FY_MAX_SYMBOLS = 262144,
    FY_MAX_FUNCTION_FAMILIES = 3, /* of one function */
    FY_MAX_FORM_DEPTH = 16,       /* forms of forms */
    FY_MAX_FAMILY_ROWS = 64,
    FY_MAX_SPELLINGS = 1024,     /* patterns of all interfaces */
    FY_MAX_EXPANDED_BYTES = 256, /* a name with its placeholders replaced */
    FY_MAX_MEGABYTES = 192,      /* of memory for one compilation */
    FY_MAX_LETS = 64,
    FY_MAX_REQUIRES = 64,
    FY_MAX_STRUCT_FIELDS = 256,
    FY_MAX_STRUCT_BYTES = 1 << 24,
    FY_MAX_STRUCT_DEPTH = 16,
    FY_MAX_FUNCTION_NODES = 4096,
};

struct fy_layout_field {
    const char *name;
    uint8_t type, pointee;
    bool is_array;
    bool has_pointer; /* is one, or an array or a struct with one in it */
    uint32_t offset;
    uint32_t elements; /* of an array, else 1 */
};

struct fy_layout { /* a struct, as the SysV ABI lays it out */
    const struct ast_struct *ast;
    uint32_t bytes, alignment;
    size_t nfields;
    struct fy_layout_field *fields;
    uint8_t state; /* 0 not laid out, 1 in progress, 2 done */
};

/* A C type, resolved. */
struct fy_resolved {
    uint8_t type, pointee; /* enum fy_type */
    bool is_const, is_reference;
    const struct fy_layout *layout; /* layout of the object that a pointer
                                     * points to */
    const char *handle;
};

struct fy_binding { /* a family and the row taken */
    const struct ast_family *family;
    const struct ast_row *row;
    uint8_t type, real_type; /* of the row; VOID: not a number */
    const char *type_text, *real_text;
};

struct fy_family_info {
    const struct ast_family *ast;
    unsigned nrows;
    struct fy_binding rows[FY_MAX_FAMILY_ROWS];
    const char *upper; /* its name in capitals: <P> */
    const char *title; /* its name with one capital: <Symv> */
};

struct fy_unit_arg {
    const char *name;
    struct fy_span span;
    struct fy_resolved resolved;
    struct ast_name from;
    uint16_t flags; /* enum fy_arg_flag */
    bool used;      /* operand, scalar, opaque: accounted for */
    uint32_t maker; /* handle with `from': unit index, else FY_NIL */
};

/* A function with its families bound: one row of the model's table. */
struct fy_unit {
    struct ast_function *ast;
    const struct ast_statement *body; /* the ast's; of a form its expansion */
    struct fy_binding bindings[FY_MAX_FUNCTION_FAMILIES];
    unsigned nbindings;
    const char *name;
    const char *interface; /* "c" when the head has none */
    bool has_interface, is_fortran, uses_integer, failed;
    struct fy_resolved result;
    struct fy_unit_arg *args;
    FY_ROWS(struct fy_cell) cells; /* names are intern()ed already */
    uint32_t first;                /* first variant, or itself */
    uint32_t last; /* of the first variant: newest in the chain */
    struct fy_function row;
};

struct fy_let_info {
    const char *name;
    uint32_t node;
};

/* A symbol before the table is sorted. */
struct fy_unit_symbol {
    const char *name;
    uint32_t unit;
    uint8_t integer_bits, spelling;
};

struct fy_node_note {
    uint16_t depth; /* of eval()'s recursion */
    uint16_t steps; /* nodes visited, saturating */
    uint32_t chain; /* same hash, same function */
};

struct cmd_block;
struct fy_commands;

/* Resources outside the arena while a longjmp may happen. */
struct fy_held {
    int file; /* -1: none */
    struct dirent **entries;
    unsigned nentries;
};

/* The names of each kind. */
struct fy_known {
    struct fy_map families, family_uppers, structs, handles, interfaces,
        functions, symbols;
};

struct fy_front {
    struct fy_arena arena;
    struct fy_diagnostics *diagnostics;
    const char *library_dir;
    unsigned path; /* of the list given to fy_compile(), from 0 */
    struct fy_held held;
    FY_ROWS(struct fy_source *) sources;
    struct ast_file all; /* of every file */
    /* command blocks, in order */
    bool wants_commands;
    const char *word; /* of the only ones that are wanted; NULL: all */
    struct cmd_block *blocks, **blocks_end;
    struct fy_commands *commands; /* owned until they are handed out */
    struct fy_known known;
    struct fy_family_info *family_rows;
    struct fy_layout *layouts;
    unsigned layout_depth;
    FY_ROWS(struct fy_unit *) units;
    FY_ROWS(struct fy_unit_symbol) symbol_rows;
    bool too_many;        /* a number limit was reported */
    struct fy_body *body; /* the one being compiled */
    /* the model's tables, growing */
    struct fy_map strings;
    FY_ROWS(char) string_bytes;
    FY_ROWS(struct fy_node) nodes;
    FY_ROWS(struct fy_node_note) notes; /* of each node */
    FY_ROWS(struct fy_let) lets;
    FY_ROWS(struct fy_require) requires;
    FY_ROWS(struct fy_axis) axes;
    FY_ROWS(struct fy_operand) operands;
    FY_ROWS(struct fy_call_row) calls;
    FY_ROWS(struct fy_kernel_row) kernels;
};

/* Knowledge of an axis or an operand while a body is compiled. */
struct fy_axis_info {
    struct fy_axis row;
    const char *name; /* "" when anonymous */
    struct fy_span span;
    const struct ast_clause *clauses;
    bool spanned, anonymous;
};

struct fy_operand_info {
    struct fy_operand row;
    const char *name;
    const struct ast_statement *ast;
};

/* One body being compiled. */
/* A value that a map names for the maps behind it. */
struct fy_temp_info {
    const char *name;
    struct fy_span span;
    uint32_t node;
    unsigned row; /* of rows begun, when it was named */
    bool used;
};

struct fy_body {
    struct fy_front *front;
    struct fy_unit *unit;
    struct fy_let_info lets[FY_MAX_LETS];
    unsigned nlets;
    struct fy_axis_info axes[FY_MAX_AXES];
    unsigned naxes;
    struct fy_operand_info operands[FY_MAX_OPERANDS];
    unsigned noperands;
    unsigned nrequires;
    uint32_t nodes_begin;
    uint32_t heads[256]; /* node hash chains of this function */
    bool in_axis_extent; /* axis names mean their extent's own node */
    bool in_call;        /* operand names mean addresses */
    bool on_device;      /* ... and a device's functions are known */
    bool in_map;         /* operand names mean elements */
    uint32_t last_call;  /* of the steps on the device */
    uint32_t map_row;    /* the row that a map may still join, or FY_NIL */
    unsigned rows;       /* of the steps, begun */
    unsigned infos;      /* of all steps */
    uint32_t map_of[FY_MAX_OPERANDS]; /* last map in it of each operand */
    bool written[FY_MAX_OPERANDS];    /* by some step before */
    struct fy_temp_info temps[FY_MAX_LETS];
    unsigned ntemps;
    bool failed;
};

/* ---- messages ---- */

/* "%s" for a place: "file:line" of a span, in the arena. */
const char *fy_place(struct fy_front *front, struct fy_span span);

/* ---- compile.c ---- */

/* The text to compile, in memory or in files, and the parts wanted of it. */
struct fy_compile_input {
    const char *name, *text; /* text NULL: paths */
    size_t bytes;
    const char *const *paths;
    unsigned npaths;
    const char *library_dir;
    struct fy_model **model;       /* NULL: functions are parsed only */
    struct fy_commands **commands; /* NULL: command blocks are skipped */
    const char *word; /* only blocks of this first word; NULL: all */
};

/*
 * Compiles the text or the files of `input'. *input->model and
 * *input->commands are new, and set on success only. FY_ERR_INVALID:
 * `diagnostics' has errors, those from before count; FY_ERR_NOMEM. Blocks for
 * files.
 */
int fy_compile_input(const struct fy_compile_input *input,
                     struct fy_diagnostics *diagnostics);

/* ---- names.c: declarations of files; families; placeholders ---- */

void fy_declare_all(struct fy_front *front);
/* Every name of a map, for one that is in none. */
void fy_suggest_names(struct fy_suggestion *suggestion,
                      const struct fy_map *names);
/* Returns true for T, R, ops, ...: the placeholders that a row offers
 * besides its name. */
bool fy_is_fixed_placeholder(const char *name);
/*
 * `name' with its placeholders replaced by the unit's rows; NULL after an
 * error. Plain names come back as they are.
 */
const char *fy_expand(struct fy_front *front, const struct fy_unit *unit,
                      struct ast_name name);
/*
 * The value that a name <column> or <column:family>, whole, has in the unit's rows;
 * NULL: the name is none.
 */
const struct ast_expr *fy_value_of_row(struct fy_front *front,
                                       const struct fy_unit *unit,
                                       struct ast_name name);
/* Same for documentation: unknown placeholders stay. */
const char *fy_expand_doc(struct fy_front *front, const struct fy_unit *unit,
                          const char *text);

/* ---- types.c ---- */

/* 0 and *out, or -1 after an error. `unit' may be NULL (no families). */
int fy_resolve_type(struct fy_front *front, const struct fy_unit *unit,
                    const struct ast_names *words, unsigned stars,
                    bool is_reference, struct fy_resolved *out);
void fy_layout_all(struct fy_front *front);
/* "OFFSET NAME\n" of each field of the struct that an argument points to. */
const char *fy_layout_text(struct fy_front *front,
                           const struct fy_unit_arg *arg);
/* A field of that struct; NULL: it has none of that name. */
const struct fy_layout_field *fy_layout_field(const struct fy_unit_arg *arg,
                                              const char *name);
bool fy_is_integer_type(uint8_t type); /* of C, INTEGER included */
/* Returns true if a word may stand in a type, which tells it from an
 * interface's name. */
bool fy_is_type_word(const struct fy_front *front, const char *word);

/* ---- head.c: units, variants, symbols ---- */

void fy_make_units(struct fy_front *front);
void fy_make_symbols(struct fy_front *front, uint32_t unit);
struct fy_unit_arg *fy_unit_find_arg(struct fy_unit *unit, const char *name);

/* ---- form.c ---- */

/* In place of each form stands a unit for each variant of its target; and values of
 * families' rows in place of their columns. */
void fy_expand_forms(struct fy_front *front);

/* ---- cell.c ---- */

/*
 * The cell that a path (name, a->b, p.n, *n, n[3]) stands for in `unit', made
 * when it is new; FY_NIL when it is none, after an error.
 */
uint32_t fy_cell_of_path(struct fy_front *front, struct fy_unit *unit,
                         const struct ast_expr *path);
/*
 * The cell that is the address of a field a->b, which the call writes; *elements
 * is how many there are. FY_NIL after an error.
 */
uint32_t fy_cell_of_written_field(struct fy_front *front, struct fy_unit *unit,
                                  const struct ast_expr *path,
                                  uint32_t *elements);
/* Marks the argument or field that a path of `opaque' names. */
void fy_cell_make_opaque(struct fy_front *front, struct fy_unit *unit,
                         const struct ast_expr *path);
/* The text of a path, for names of cells and operands; NULL: not a path. */
const char *fy_path_text(struct fy_front *front, const struct fy_unit *unit,
                         const struct ast_expr *path);

/* ---- expression.c ---- */

/* The node of `expr', or FY_NIL after an error. */
uint32_t fy_node_of_expr(struct fy_body *body, const struct ast_expr *expr);
/* Same, for an integer; says so when it is of another type. */
uint32_t fy_node_of_integer(struct fy_body *body, const struct ast_expr *e);
/* The operators that are written as calls: min, max, abs. */
void fy_suggest_operators(struct fy_suggestion *suggestion);
uint32_t fy_node_make(struct fy_body *body, struct fy_node node,
                      struct fy_span span);
/* Adds a node of an operator, a type and up to three parts. */
uint32_t fy_node_of_parts(struct fy_body *body, unsigned op, uint8_t type,
                          const uint32_t parts[3], struct fy_span span);
uint32_t fy_node_of_number(struct fy_body *body, int64_t i,
                           struct fy_span span);
/* Adds a node for an integer, at the place of the function's head. */
uint32_t fy_node_int(struct fy_body *body, int64_t i);

/* ---- device_call.c ---- */

/* An argument of an `on cuda' call, behind those in `row'; FY_NIL after an
 * error. */
uint32_t fy_device_argument(struct fy_body *body, const struct ast_expr *expr,
                            const struct fy_call_row *row);
/* Returns true if the device fills in the value of this name: cublas, info,
 * ... */
bool fy_is_device_word(const char *name);
/* op, fill, side, diag: false when it is none of them. */
bool fy_device_function(struct fy_body *body, const struct ast_expr *expr,
                        uint32_t *out);
/* Checks the call as a whole. */
void fy_device_call_check(struct fy_body *body, const struct ast_statement *s,
                          const struct fy_call_row *row);

/* ---- map.c ---- */

/* Appends a step on the device; it stands in front->calls. */
struct fy_call_row *fy_add_call(struct fy_body *body,
                                const struct fy_call_row *row,
                                struct fy_span span);
/* Checks the result of a function that runs on the device. */
void fy_check_device_result(struct fy_body *body, struct fy_span span);
/* A call in a map; false after an error. */
bool fy_map_function(struct fy_body *body, const struct ast_expr *expr,
                     uint32_t *out);
/* A name in a map; *known false: it is neither operand nor named value. */
uint32_t fy_map_name(struct fy_body *body, const struct ast_expr *expr,
                     bool *known);
void fy_compile_map(struct fy_body *body, const struct ast_statement *s);
void fy_finish_maps(struct fy_body *body);

/* ---- kernel.c ---- */

void fy_compile_kernel(struct fy_body *body, const struct ast_statement *s);

/* ---- operand.c ---- */

void fy_compile_operand(struct fy_body *body,
                        const struct ast_statement *statement);
struct fy_operand_info *fy_body_find_operand(struct fy_body *body,
                                             const char *name);

/* ---- axis.c ---- */

void fy_compile_axis(struct fy_body *body,
                     const struct ast_statement *statement);
/* After all operands: sums, with, spans. */
void fy_finish_axes(struct fy_body *body);
struct fy_axis_info *fy_body_find_axis(struct fy_body *body, const char *name);

/* ---- blocked.c ---- */

/* Checks the algorithms that files declare. */
void fy_declare_nests(struct fy_front *front);
void fy_compile_blocked(struct fy_body *body, const struct ast_statement *s);

/* ---- body.c ---- */

void fy_compile_body(struct fy_front *front, uint32_t unit);

/* ---- variants.c ---- */

/* Drops functions that a later path replaces, chains the variants of each name
 * and finds the makers of handles. */
void fy_chain_variants(struct fy_front *front);
/* Variants that can never be reached; after all bodies. */
void fy_check_variants(struct fy_front *front);

/* ---- emit.c ---- */

fy_str fy_intern(struct fy_front *front, const char *text);
/* The finished block (malloc), or NULL without memory. */
struct fy_model *fy_emit(struct fy_front *front);

#endif
