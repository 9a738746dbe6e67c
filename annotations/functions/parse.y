/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of annotation files. Only structure is checked here; names, types
 * and meaning are the checker's (compile.c and its neighbours). Every list is
 * built backwards and turned round when it is complete. Long because a grammar
 * cannot be spread over files.
 */
%code top {
#include "config.h"

#include <string.h>

#include "annotations/model/model.h"
#include "annotations/functions/parse.h"

/* The parser's stack lives in the arena too: leaving by longjmp loses nothing.
 * A file that needs more than this is refused, whatever memory there is. */
#define YYMALLOC(bytes) fy_arena_alloc(parse->arena, bytes)
#define YYFREE(memory)  ((void)(memory))
#define YYMAXDEPTH      2000
#define YYLLOC_DEFAULT(current, rhs, n)                                        \
    do {                                                                       \
        (current).source = parse->source;                                      \
        (current).begin = (n) ? YYRHSLOC(rhs, 1).begin : YYRHSLOC(rhs, 0).end; \
        (current).end = YYRHSLOC(rhs, n).end;                                  \
    } while (0)
}

%code requires {
#include "annotations/base/ast.h"
#include "annotations/functions/parse.h"
#ifndef YY_TYPEDEF_YY_SCANNER_T
#define YY_TYPEDEF_YY_SCANNER_T
typedef void *yyscan_t;
#endif
}

%code provides {
int fy_yylex(FY_YYSTYPE *value, struct fy_span *location, yyscan_t scanner);
}

%define api.pure full
%define api.prefix {fy_yy}
%define api.location.type {struct fy_span}
%define parse.error custom
%locations
%lex-param {yyscan_t scanner}
%parse-param {yyscan_t scanner} {struct fy_parse *parse}

%union {
    int64_t integer;
    double real;
    int number;
    struct ast_name name;
    struct ast_names *names;
    struct ast_expr *expr;
    struct ast_declaration *declaration;
    struct ast_axis *axis;
    struct ast_dimension *dimension;
    struct ast_clause *clause;
    struct ast_symbol *symbol;
    struct ast_statement *statement;
    struct ast_row *row;
}

%code {
static void fy_yyerror(const struct fy_span *span, yyscan_t scanner,
                       struct fy_parse *parse, const char *message);
static struct ast_expr *expr_new(struct fy_parse *parse, enum ast_kind kind,
                                 struct fy_span span, struct ast_expr *a,
                                 struct ast_expr *b, struct ast_expr *c);
static struct ast_expr *binary(struct fy_parse *parse, enum fy_op op,
                               struct fy_span span, struct ast_expr *a,
                               struct ast_expr *b);
static struct ast_expr *unary(struct fy_parse *parse, enum fy_op op,
                              struct fy_span span, struct ast_expr *a);
static struct ast_names *names_push(struct fy_parse *parse,
                                    struct ast_names *list,
                                    struct ast_name name);
static struct ast_declaration *
declaration_new(struct fy_parse *parse, struct fy_span span,
                struct ast_names *words, unsigned stars, bool is_reference,
                struct ast_name name, int64_t elements);
static struct ast_declaration *
declarator(struct fy_parse *parse, struct fy_span span,
           struct ast_declaration *before, unsigned stars,
           struct ast_name name, int64_t elements);
static struct ast_clause *clause_new(struct fy_parse *parse,
                                     enum ast_clause_kind kind,
                                     struct fy_span span,
                                     struct ast_expr *expr);
static struct ast_statement *statement_new(struct fy_parse *parse,
                                           enum ast_statement_kind kind,
                                           struct fy_span span);
static int width(struct fy_parse *parse, int64_t bits, struct fy_span span);
static const struct ast_name no_name;

#define NEW(type) ((struct type *)fy_arena_alloc(parse->arena, sizeof(struct type)))
#define REVERSE(type, list)                                                    \
    do {                                                                       \
        struct type *reversed_ = NULL, *rest_ = (list);                        \
        while (rest_) {                                                        \
            struct type *next_ = rest_->next;                                  \
            rest_->next = reversed_;                                           \
            reversed_ = rest_;                                                 \
            rest_ = next_;                                                     \
        }                                                                      \
        (list) = reversed_;                                                    \
    } while (0)
#define PUSH(list, item)                                                       \
    do {                                                                       \
        (item)->next = (list);                                                 \
        (list) = (item);                                                       \
    } while (0)
}

%token <name> NAME "a name" STRING "a string"
%token <integer> INTEGER "an integer" CHARACTER "a character"
%token <real> REAL "a real number"
%token <name> COMMAND_BLOCK "a command block" /* all of it; text: its doc */
%token <name> NEST_BLOCK "a blocked algorithm"     /* likewise */
%token BAD "unreadable text"
%token ARROW "'->'" AND "'&&'" OR "'||'" EQ "'=='" NE "'!='" LE "'<='" GE "'>='"
%token IN_SET "'in' before a string"
%token <name> ALSO "'also'" AMBIGUOUS "'ambiguous'" AS "'as'" AT "'at'" AXIS "'axis'" BLOCKED "'blocked'"
%token <name> BY "'by'" COMBINES "'combines'" ELSE "'else'" ERROR "'error'"
%token <name> EXACT "'exact'" FAILURE "'failure'" FAMILY "'family'"
%token <name> FINITE "'finite'" FLOPS "'flops'" FORM "'form'" FREES "'frees'"
%token <name> FROM "'from'" FUNCTION "'function'" HANDLE "'handle'"
%token <name> IMPORT "'import'" IN "'in'" INC "'inc'" INOUT "'inout'"
%token <name> INTEGER_WORD "'integer'" INTO "'into'" LET "'let'" LOWER "'lower'"
%token <name> MAKES "'makes'" MAP "'map'" MULTIPLE "'multiple'" ON "'on'" OPAQUE "'opaque'"
%token <name> OUT "'out'" QUERY "'query'" REQUIRE "'require'" RETURN "'return'"
%token <name> RETURNS "'returns'" SCRATCH "'scratch'" SPELLING "'spelling'"
%token <name> SPLIT "'split'" STRICT "'strict'" STRUCT "'struct'" SUMS "'sums'"
%token <name> UPPER "'upper'" USING "'using'" WHEN "'when'" WHERE "'where'"
%token <name> WITH "'with'" WORTH "'worth'"
%token ';' "';'" ',' "','" ':' "':'" '(' "'('" ')' "')'" '[' "'['" ']' "']'"
%token '{' "'{'" '}' "'}'" '=' "'='" '?' "'?'" '*' "'*'" '+' "'+'" '-' "'-'"
%token '/' "'/'" '%' "'%'" '<' "'<'" '>' "'>'" '!' "'!'" '.' "'.'" '&' "'&'"
%token YYEOF 0 "the end of the file"

%type <name> name word path_name
%type <names> words names strings columns
%type <number> stars bits
%type <integer> extent_of_array
%type <expr> expr path paths cell cells primary postfix unary product sum relation equality
%type <expr> conjunction disjunction call_args call_list launch values
%type <declaration> declaration declarations args fields field
%type <axis> axis_items axis_item
%type <dimension> dimensions dimension
%type <clause> axis_clauses axis_clause clauses clause
%type <symbol> symbols symbol
%type <statement> statement statements access operand form_body
%type <row> rows row

/* A condition belongs to the nearest word that takes one. */
%precedence LOW
%precedence WHEN LOWER

%%

file: %empty | file item ;

item:
    IMPORT STRING ';' {
        struct ast_import *import = NEW(ast_import);
        import->path = $2;
        PUSH(parse->file.imports, import);
    }
  | FAMILY name columns ':' '{' rows '}' ';' {
        struct ast_family *family = NEW(ast_family);
        REVERSE(ast_row, $6);
        family->name = $2;
        family->columns = $3;
        family->rows = $6;
        PUSH(parse->file.families, family);
    }
  | SPELLING name bits ':' strings ';' {
        struct ast_spelling *spelling = NEW(ast_spelling);
        REVERSE(ast_names, $5);
        spelling->interface = $2;
        spelling->integer_bits = $3;
        spelling->patterns = $5;
        PUSH(parse->file.spellings, spelling);
    }
  | STRUCT name '{' fields '}' ';' {
        struct ast_struct *structure = NEW(ast_struct);
        REVERSE(ast_declaration, $4);
        structure->name = $2;
        structure->fields = $4;
        PUSH(parse->file.structs, structure);
    }
  | HANDLE name ';' {
        struct ast_handle *handle = NEW(ast_handle);
        handle->name = $2;
        PUSH(parse->file.handles, handle);
    }
  | FUNCTION declaration '(' args ')' '{' statements '}' {
        struct ast_function *function = NEW(ast_function);
        REVERSE(ast_declaration, $4);
        REVERSE(ast_statement, $7);
        function->head = $2;
        function->args = $4;
        function->body = $7;
        function->span = $2->name.text ? $2->name.span : @2;
        function->whole = @$;
        function->doc = $1.text;
        PUSH(parse->file.functions, function);
    }
  | FORM declaration '(' args ')' '=' name '(' call_args ')' form_body {
        struct ast_function *form = NEW(ast_function);
        REVERSE(ast_declaration, $4);
        form->head = $2;
        form->args = $4;
        form->body = $11;
        form->form_of = expr_new(parse, AST_CALL, @7, NULL, NULL, NULL);
        form->form_of->name = $7;
        form->form_of->list = $9;
        form->span = $2->name.text ? $2->name.span : @2;
        form->whole = @$;
        form->doc = $1.text;
        PUSH(parse->file.functions, form);
    }
  | COMMAND_BLOCK {
        struct ast_raw *raw = NEW(ast_raw);
        raw->span = $1.span;
        raw->doc = $1.text;
        PUSH(parse->file.commands, raw);
    }
  | NEST_BLOCK {
        struct ast_raw *raw = NEW(ast_raw);
        raw->span = $1.span;
        PUSH(parse->file.nests, raw);
    }
  | ';'
  | error ';' { yyerrok; }
  | error '}' { yyerrok; }
  | error COMMAND_BLOCK { yyerrok; }
  | error NEST_BLOCK { yyerrok; }
  ;

rows: row | rows ',' row { $3->next = $1; $$ = $3; } | rows ',' ;
row:
    name values ':' words {
        REVERSE(ast_names, $4);
        $$ = NEW(ast_row);
        $$->name = $1;
        $$->values = $2;
        $$->type = $4;
        $$->whole = @$;
    }
  | name '(' call_args ')' {
        $$ = NEW(ast_row);
        $$->name = $1;
        $$->values = $3;
        $$->whole = @$;
    }
  ;
form_body:
    ';' { $$ = NULL; }
  | '{' statements '}' { REVERSE(ast_statement, $2); $$ = $2; }
  ;
columns:
    %empty { $$ = NULL; }
  | '(' names ')' { REVERSE(ast_names, $2); $$ = $2; }
  ;
values: %empty { $$ = NULL; } | '(' call_args ')' { $$ = $2; } ;

bits:
    %empty { $$ = -1; }
  | INTEGER_WORD INTEGER { $$ = width(parse, $2, @2); }
  | INTEGER_WORD name {
        if (strcmp($2.text, "any") != 0)
            fy_diagnostic_hint(
                fy_diagnostics_add(parse->diagnostics, FY_SEVERITY_ERROR, @2,
                                   "unknown integer width '%.*s'",
                                   FY_MAX_QUOTED, $2.text),
                "write 32, 64 or any");
        $$ = 0;
    }
  ;

strings:
    STRING { $$ = names_push(parse, NULL, $1); }
  | strings ',' STRING { $$ = names_push(parse, $1, $3); }
  ;

/* Backwards; one declaration may have several declarators. */
fields:
    %empty { $$ = NULL; }
  | fields error ';' { $$ = $1; yyerrok; }
  | fields field ';' {
        struct ast_declaration *first = $2;
        while (first->next)
            first = first->next;
        first->next = $1;
        $$ = $2;
    }
  ;
field:
    declaration
  | field ',' name extent_of_array {
        $$ = declarator(parse, @3, $1, 0, $3, $4);
    }
  | field ',' stars name extent_of_array {
        $$ = declarator(parse, @4, $1, (unsigned)$3, $4, $5);
    }
  ;

args:
    %empty { $$ = NULL; }
  | declarations
  ;
declarations:
    declaration
  | declarations ',' declaration { $3->next = $1; $$ = $3; }
  ;

/* The last of the words is the declared name when no star stands before it. */
declaration:
    words extent_of_array {
        struct ast_name name = no_name;
        if ($1->next) {
            name = $1->name;
            $1 = $1->next;
        }
        $$ = declaration_new(parse, @$, $1, 0, false, name, $2);
    }
  | words stars extent_of_array {
        $$ = declaration_new(parse, @$, $1, (unsigned)$2, false, no_name, $3);
    }
  | words stars name extent_of_array {
        $$ = declaration_new(parse, @$, $1, (unsigned)$2, false, $3, $4);
    }
  | words '&' name {
        $$ = declaration_new(parse, @$, $1, 0, true, $3, -1);
    }
  | words FROM name {
        struct ast_name name = no_name;
        if ($1->next) {
            name = $1->name;
            $1 = $1->next;
        }
        $$ = declaration_new(parse, @$, $1, 0, false, name, -1);
        $$->from = $3;
    }
  ;

extent_of_array:
    %empty { $$ = -1; }
  | '[' ']' { $$ = 0; }
  | '[' INTEGER ']' { $$ = $2; }
  ;

stars: '*' { $$ = 1; } | stars '*' { $$ = $1 + 1; } ;

words:
    word { $$ = names_push(parse, NULL, $1); }
  | words word { $$ = names_push(parse, $1, $2); }
  ;

statements:
    %empty { $$ = NULL; }
  | statements statement {
        if ($2) {
            $2->next = $1;
            $$ = $2;
        } else {
            $$ = $1;
        }
    }
  ;

statement:
    ';' { $$ = NULL; }
  | error ';' { $$ = NULL; yyerrok; }
  | LET name '=' expr ';' {
        $$ = statement_new(parse, AST_LET, @1);
        $$->name = $2;
        $$->expr = $4;
    }
  | REQUIRE expr ';' {
        $$ = statement_new(parse, AST_REQUIRE, @1);
        $$->expr = $2;
    }
  | REQUIRE expr ELSE name ';' {
        $$ = statement_new(parse, AST_REQUIRE, @1);
        $$->expr = $2;
        $$->word = $4;
    }
  | AXIS axis_items axis_clauses ';' {
        $$ = statement_new(parse, AST_AXIS, @1);
        REVERSE(ast_axis, $2);
        REVERSE(ast_clause, $3);
        $$->axes = $2;
        $$->clauses = $3;
    }
  | access operand ';' {
        $$ = $2;
        $$->access = $1->access;
        $$->span = @1;
    }
  | OPAQUE paths ';' {
        $$ = statement_new(parse, AST_OPAQUE, @1);
        REVERSE(ast_expr, $2);
        $$->expr = $2;
    }
  | AMBIGUOUS names ';' {
        $$ = statement_new(parse, AST_AMBIGUOUS, @1);
        REVERSE(ast_names, $2);
        $$->names = $2;
    }
  | FLOPS expr ';' {
        $$ = statement_new(parse, AST_FLOPS, @1);
        $$->expr = $2;
    }
  | WORTH expr ';' {
        $$ = statement_new(parse, AST_WORTH, @1);
        $$->expr = $2;
    }
  | ERROR expr ';' {
        $$ = statement_new(parse, AST_ERROR, @1);
        $$->expr = $2;
    }
  | EXACT ';' { $$ = statement_new(parse, AST_EXACT, @1); }
  | ALSO symbols ';' {
        $$ = statement_new(parse, AST_ALSO, @1);
        REVERSE(ast_symbol, $2);
        $$->symbols = $2;
    }
  | BLOCKED BY name ';' {
        $$ = statement_new(parse, AST_BLOCKED, @1);
        $$->name = $3;
    }
  | BLOCKED BY name USING names ';' {
        $$ = statement_new(parse, AST_BLOCKED, @1);
        REVERSE(ast_names, $5);
        $$->name = $3;
        $$->names = $5;
    }
  | ON name name '(' call_args ')' ';' {
        $$ = statement_new(parse, AST_ON, @1);
        $$->name = $2;
        $$->word = $3;
        $$->expr = expr_new(parse, AST_CALL, @3, NULL, NULL, NULL);
        $$->expr->name = $3;
        $$->expr->list = $5;
    }
  | ON name name STRING name '(' call_args ')' launch ';' {
        if (strcmp($3.text, "kernel") != 0)
            fy_diagnostic_hint(
                fy_diagnostics_add(parse->diagnostics, FY_SEVERITY_ERROR, @4,
                                   "unexpected '\"%.*s\"'", FY_MAX_QUOTED,
                                   $4.text),
                "a kernel of a file is written `on cuda kernel \"FILE\" "
                "NAME(...)'");
        REVERSE(ast_expr, $9);
        $$ = statement_new(parse, AST_ON, @1);
        $$->name = $2;
        $$->word = $5;
        $$->file = $4;
        $$->launch = $9;
        $$->expr = expr_new(parse, AST_CALL, @5, NULL, NULL, NULL);
        $$->expr->name = $5;
        $$->expr->list = $7;
    }
  | MAP path '=' expr ';' {
        $$ = statement_new(parse, AST_MAP, @1);
        $$->base = $2;
        $$->expr = $4;
    }
  | MAKES name ';' {
        $$ = statement_new(parse, AST_MAKES, @1);
        $$->name = $2;
    }
  | FREES names ';' {
        $$ = statement_new(parse, AST_FREES, @1);
        REVERSE(ast_names, $2);
        $$->names = $2;
    }
  ;

access:
    IN { $$ = statement_new(parse, AST_OPERAND, @1); $$->access = FY_ACCESS_IN; }
  | OUT { $$ = statement_new(parse, AST_OPERAND, @1); $$->access = FY_ACCESS_OUT; }
  | INOUT {
        $$ = statement_new(parse, AST_OPERAND, @1);
        $$->access = FY_ACCESS_INOUT;
    }
  | SCRATCH {
        $$ = statement_new(parse, AST_OPERAND, @1);
        $$->access = FY_ACCESS_SCRATCH;
    }
  ;

operand: path '[' dimensions ']' clauses {
        $$ = statement_new(parse, AST_OPERAND, @1);
        REVERSE(ast_dimension, $3);
        REVERSE(ast_clause, $5);
        $$->expr = $1;
        $$->dimensions = $3;
        $$->clauses = $5;
    }
  | path clauses {
        $$ = statement_new(parse, AST_OPERAND, @1);
        REVERSE(ast_clause, $2);
        $$->expr = $1;
        $$->clauses = $2;
    }
  ;

dimensions:
    dimension
  | dimensions ',' dimension { $3->next = $1; $$ = $3; }
  ;

dimension:
    expr { $$ = NEW(ast_dimension); $$->axis = $1; }
  | expr ':' expr {
        $$ = NEW(ast_dimension);
        $$->axis = $1;
        $$->stride = $3;
    }
  | expr ':' INC expr {
        $$ = NEW(ast_dimension);
        $$->axis = $1;
        $$->stride = $4;
        $$->is_increment = true;
    }
  ;

clauses: %empty { $$ = NULL; } | clauses clause { $2->next = $1; $$ = $2; } ;

clause:
    LOWER %prec LOW { $$ = clause_new(parse, AST_LOWER, @$, NULL); }
  | LOWER WHEN expr { $$ = clause_new(parse, AST_LOWER, @1, $3); }
  | UPPER %prec LOW { $$ = clause_new(parse, AST_UPPER, @$, NULL); }
  | UPPER WHEN expr { $$ = clause_new(parse, AST_UPPER, @1, $3); }
  | STRICT %prec LOW { $$ = clause_new(parse, AST_STRICT, @$, NULL); }
  | STRICT WHEN expr { $$ = clause_new(parse, AST_STRICT, @1, $3); }
  | WHERE expr { $$ = clause_new(parse, AST_WHERE, @1, $2); }
  | WHEN expr { $$ = clause_new(parse, AST_WHEN, @1, $2); }
  | IN WHEN expr { $$ = clause_new(parse, AST_IN_WHEN, @1, $3); }
  | OUT WHEN expr { $$ = clause_new(parse, AST_OUT_WHEN, @1, $3); }
  | AS name { $$ = clause_new(parse, AST_AS, @1, NULL); $$->name = $2; }
  | AT expr { $$ = clause_new(parse, AST_AT, @1, $2); }
  | RETURNS expr { $$ = clause_new(parse, AST_RETURNS, @1, $2); }
  | QUERY { $$ = clause_new(parse, AST_QUERY, @$, NULL); }
  | FAILURE { $$ = clause_new(parse, AST_FAILURE, @$, NULL); }
  | FINITE %prec LOW { $$ = clause_new(parse, AST_FINITE, @$, NULL); }
  | FINITE LOWER WHEN expr UPPER WHEN expr {
        $$ = clause_new(parse, AST_FINITE, @1, $4);
        $$->with = $7;
    }
  ;

axis_items:
    axis_item
  | axis_items ',' axis_item { $3->next = $1; $$ = $3; }
  ;
axis_item:
    name { $$ = NEW(ast_axis); $$->name = $1; }
  | name '=' expr { $$ = NEW(ast_axis); $$->name = $1; $$->extent = $3; }
  ;

axis_clauses:
    %empty { $$ = NULL; }
  | axis_clauses axis_clause { $2->next = $1; $$ = $2; }
  ;
axis_clause:
    SPLIT { $$ = clause_new(parse, AST_SPLIT, @$, NULL); }
  | SUMS INTO RETURN { $$ = clause_new(parse, AST_SUMS_INTO, @$, NULL); }
  | SUMS INTO path %prec LOW {
        $$ = clause_new(parse, AST_SUMS_INTO, @$, NULL);
        $$->target = $3;
    }
  | SUMS INTO path WITH cell '=' expr {
        $$ = clause_new(parse, AST_SUMS_INTO, @$, $7);
        $$->target = $3;
        $$->with = $5;
    }
  | COMBINES name INTO RETURN {
        $$ = clause_new(parse, AST_COMBINES, @$, NULL);
        $$->name = $2;
    }
  | MULTIPLE expr { $$ = clause_new(parse, AST_MULTIPLE, @$, $2); }
  | ALSO cells {
        REVERSE(ast_expr, $2);
        $$ = clause_new(parse, AST_AXIS_ALSO, @1, NULL);
        $$->target = $2;
    }
  ;

symbols: symbol | symbols ',' symbol { $3->next = $1; $$ = $3; } ;
symbol: STRING bits {
        $$ = NEW(ast_symbol);
        $$->name = $1;
        $$->integer_bits = $2;
    }
  ;

names:
    name { $$ = names_push(parse, NULL, $1); }
  | names ',' name { $$ = names_push(parse, $1, $3); }
  ;

call_args: %empty { $$ = NULL; } | call_list { REVERSE(ast_expr, $1); $$ = $1; } ;
call_list: expr | call_list ',' expr { $3->next = $1; $$ = $3; } ;

/* grid(x, y, z), block(x, y, z), shared(bytes); backwards. */
launch:
    %empty { $$ = NULL; }
  | launch name '(' call_args ')' {
        $$ = expr_new(parse, AST_CALL, @2, NULL, NULL, NULL);
        $$->name = $2;
        $$->list = $4;
        $$->next = $1;
    }
  ;

/* A place: name, a->name, p.name. */
path:
    path_name {
        $$ = expr_new(parse, AST_NAME, @1, NULL, NULL, NULL);
        $$->name = $1;
    }
  | path ARROW name {
        $$ = expr_new(parse, AST_ARROW, @$, $1, NULL, NULL);
        $$->name = $3;
    }
  | path '.' name {
        $$ = expr_new(parse, AST_DOT, @$, $1, NULL, NULL);
        $$->name = $3;
    }
  ;
path_name: name ;

paths: path | paths ',' path { $3->next = $1; $$ = $3; } ;
cells: cell | cells ',' cell { $3->next = $1; $$ = $3; } ;
cell: path | '*' path { $$ = expr_new(parse, AST_DEREF, @$, $2, NULL, NULL); } ;

primary:
    INTEGER {
        $$ = expr_new(parse, AST_INT, @1, NULL, NULL, NULL);
        $$->integer = $1;
    }
  | REAL {
        $$ = expr_new(parse, AST_REAL, @1, NULL, NULL, NULL);
        $$->real = $1;
    }
  | CHARACTER {
        $$ = expr_new(parse, AST_CHAR, @1, NULL, NULL, NULL);
        $$->integer = $1;
    }
  | '(' expr ')' { $$ = $2; $$->bracketed = true; }
  ;

postfix:
    primary
  | path
  | path '[' INTEGER ']' {
        $$ = expr_new(parse, AST_INDEX, @$, $1, NULL, NULL);
        $$->integer = $3;
    }
  | path_name '(' call_args ')' {
        $$ = expr_new(parse, AST_CALL, @$, NULL, NULL, NULL);
        $$->name = $1;
        $$->list = $3;
        for (const struct ast_expr *e = $3; e; e = e->next)
            if (e->depth >= $$->depth)
                $$->depth = (uint16_t)(e->depth + 1);
    }
  ;

unary:
    postfix
  | '-' unary { $$ = unary(parse, FY_OP_NEG, @$, $2); }
  | '!' unary { $$ = unary(parse, FY_OP_NOT, @$, $2); }
  | '*' unary { $$ = expr_new(parse, AST_DEREF, @$, $2, NULL, NULL); }
  | '&' unary { $$ = unary(parse, FY_OP_SCALAR, @$, $2); }
  ;

product:
    unary
  | product '*' unary { $$ = binary(parse, FY_OP_MUL, @2, $1, $3); }
  | product '/' unary { $$ = binary(parse, FY_OP_DIV, @2, $1, $3); }
  | product '%' unary { $$ = binary(parse, FY_OP_MOD, @2, $1, $3); }
  ;
sum:
    product
  | sum '+' product { $$ = binary(parse, FY_OP_ADD, @2, $1, $3); }
  | sum '-' product { $$ = binary(parse, FY_OP_SUB, @2, $1, $3); }
  ;
relation:
    sum
  | relation '<' sum { $$ = binary(parse, FY_OP_LT, @2, $1, $3); }
  | relation '>' sum { $$ = binary(parse, FY_OP_GT, @2, $1, $3); }
  | relation LE sum { $$ = binary(parse, FY_OP_LE, @2, $1, $3); }
  | relation GE sum { $$ = binary(parse, FY_OP_GE, @2, $1, $3); }
  | sum IN_SET STRING {
        $$ = expr_new(parse, AST_IN, @$, $1, NULL, NULL);
        $$->name = $3;
    }
  ;
equality:
    relation
  | equality EQ relation { $$ = binary(parse, FY_OP_EQ, @2, $1, $3); }
  | equality NE relation { $$ = binary(parse, FY_OP_NE, @2, $1, $3); }
  ;
conjunction:
    equality
  | conjunction AND equality { $$ = binary(parse, FY_OP_AND, @2, $1, $3); }
  ;
disjunction:
    conjunction
  | disjunction OR conjunction { $$ = binary(parse, FY_OP_OR, @2, $1, $3); }
  ;
expr:
    disjunction
  | disjunction '?' expr ':' expr {
        $$ = expr_new(parse, AST_COND, @$, $1, $3, $5);
    }
  ;

/* Words of a head; `from' ends them. */
word:
    NAME | ALSO | AMBIGUOUS | AS | AT | AXIS | BLOCKED | BY | COMBINES | ELSE
  | ERROR
  | EXACT | FAILURE | FAMILY | FINITE | FLOPS | FORM { $1.text = "form"; $1.span = @1; $$ = $1; } | FREES | FUNCTION { $1.text = "function"; $1.span = @1; $$ = $1; }
  | HANDLE | IMPORT | IN | INOUT | INTEGER_WORD | INTO | LET | LOWER | MAKES
  | MAP | MULTIPLE | ON | OPAQUE | OUT | QUERY | REQUIRE | RETURNS | SCRATCH
  | SPELLING | SPLIT | STRICT | STRUCT | SUMS | UPPER | USING | WHEN | WHERE
  | WITH | WORTH
  ;
name: word | FROM ;

%%

static void
limit_depth(struct fy_parse *parse, const struct ast_expr *expr)
{
    if (expr->depth <= FY_MAX_EXPR_DEPTH || parse->stop)
        return;
    fy_diagnostic_hint(
        fy_diagnostics_add(parse->diagnostics, FY_SEVERITY_ERROR, expr->span,
                           "expression is nested more than %d deep",
                           FY_MAX_EXPR_DEPTH),
        "use `let' to name parts of the expression");
    parse->stop = true;
}

static struct ast_expr *
expr_new(struct fy_parse *parse, enum ast_kind kind, struct fy_span span,
         struct ast_expr *a, struct ast_expr *b, struct ast_expr *c)
{
    struct ast_expr *expr = NEW(ast_expr);
    expr->kind = kind;
    expr->span = span;
    expr->a = a;
    expr->b = b;
    expr->c = c;
    if (a)
        expr->depth = a->depth;
    if (b && b->depth > expr->depth)
        expr->depth = b->depth;
    if (c && c->depth > expr->depth)
        expr->depth = c->depth;
    expr->depth++;
    limit_depth(parse, expr);
    return expr;
}

/* `span' is the operator's: carets about types point at it. */
static struct ast_expr *
binary(struct fy_parse *parse, enum fy_op op, struct fy_span span,
       struct ast_expr *a, struct ast_expr *b)
{
    struct ast_expr *expr = expr_new(parse, AST_BINARY, span, a, b, NULL);
    expr->op = (uint8_t)op;
    return expr;
}

static struct ast_expr *
unary(struct fy_parse *parse, enum fy_op op, struct fy_span span,
      struct ast_expr *a)
{
    struct ast_expr *expr = expr_new(parse, AST_UNARY, span, a, NULL, NULL);
    expr->op = (uint8_t)op;
    return expr;
}

static struct ast_names *
names_push(struct fy_parse *parse, struct ast_names *list, struct ast_name name)
{
    struct ast_names *item = NEW(ast_names);
    item->name = name;
    item->next = list;
    return item;
}

/* `words' come backwards. */
static struct ast_declaration *
declaration_new(struct fy_parse *parse, struct fy_span span,
                struct ast_names *words, unsigned stars, bool is_reference,
                struct ast_name name, int64_t elements)
{
    struct ast_declaration *declaration = NEW(ast_declaration);
    REVERSE(ast_names, words);
    declaration->words = words;
    declaration->stars = stars;
    declaration->is_reference = is_reference;
    declaration->name = name;
    declaration->elements = elements;
    declaration->span = span;
    return declaration;
}

/* One more of the type of `before', pushed in front of it. */
static struct ast_declaration *
declarator(struct fy_parse *parse, struct fy_span span,
           struct ast_declaration *before, unsigned stars,
           struct ast_name name, int64_t elements)
{
    struct ast_declaration *declaration = NEW(ast_declaration);
    declaration->words = before->words;
    declaration->stars = stars;
    declaration->name = name;
    declaration->elements = elements;
    declaration->span = span;
    PUSH(before, declaration);
    return before;
}

static struct ast_clause *
clause_new(struct fy_parse *parse, enum ast_clause_kind kind,
           struct fy_span span, struct ast_expr *expr)
{
    struct ast_clause *clause = NEW(ast_clause);
    clause->kind = kind;
    clause->span = span;
    clause->expr = expr;
    return clause;
}

static struct ast_statement *
statement_new(struct fy_parse *parse, enum ast_statement_kind kind,
              struct fy_span span)
{
    struct ast_statement *statement = NEW(ast_statement);
    statement->kind = kind;
    statement->span = span;
    return statement;
}

static int
width(struct fy_parse *parse, int64_t bits, struct fy_span span)
{
    if (bits == 32 || bits == 64)
        return (int)bits;
    fy_diagnostic_hint(
        fy_diagnostics_add(parse->diagnostics, FY_SEVERITY_ERROR, span,
                           "an integer cannot have %lld bits",
                           (long long)bits),
        "write 32, 64 or any");
    return 0;
}

/* bison's own complaints: only that its stack is full. */
static void
fy_yyerror(const struct fy_span *span, yyscan_t scanner,
           struct fy_parse *parse, const char *message)
{
    (void)scanner;
    (void)message;
    if (!parse->stop)
        fy_diagnostics_add(parse->diagnostics, FY_SEVERITY_ERROR, *span,
                           "too deeply nested");
    parse->stop = true;
}

/* "expected ';' or ','"; names stand for all the words that may be one. */
static const char *
expected(const yypcontext_t *context, struct fy_parse *parse)
{
    enum { MOST = 4 };
    yysymbol_kind_t all[YYNTOKENS];
    const char *text = "";
    int n = yypcontext_expected_tokens(context, all, YYNTOKENS);
    bool any_name = false;
    int shown = 0, kept = 0;
    for (int i = 0; i < n; i++)
        any_name = any_name || all[i] == YYSYMBOL_NAME;
    for (int i = 0; i < n; i++)
        if (!any_name || all[i] < YYSYMBOL_ALSO || all[i] > YYSYMBOL_WORTH)
            all[kept++] = all[i];
    if (kept > MOST || kept == 0)
        return "";
    for (; shown < kept; shown++)
        text = fy_arena_print(parse->arena, "%s%s%s", text,
                              shown == 0          ? ", expected "
                              : shown + 1 == kept ? " or "
                                                  : ", ",
                              yysymbol_name(all[shown]));
    return text;
}

/* A word the grammar would have taken here and that was perhaps meant. */
static void
suggest_word(const yypcontext_t *context, struct fy_parse *parse,
             const struct fy_span *span, struct fy_diagnostic *diagnostic)
{
    yysymbol_kind_t all[YYNTOKENS];
    int n = yypcontext_expected_tokens(context, all, YYNTOKENS);
    bool any_name = false, semicolon = false;
    struct fy_suggestion suggestion = {
        .wanted = fy_arena_text(parse->arena,
                                parse->source->text + span->begin,
                                span->end - span->begin)};
    for (int i = 0; i < n; i++) {
        any_name = any_name || all[i] == YYSYMBOL_NAME;
        semicolon = semicolon || strcmp(yysymbol_name(all[i]), "';'") == 0;
    }
    for (int i = 0; i < n && !any_name; i++) {
        const char *name = yysymbol_name(all[i]);
        if (all[i] >= YYSYMBOL_ALSO && all[i] <= YYSYMBOL_WORTH)
            fy_suggestion_try(
                &suggestion, /* without its quotes */
                fy_arena_text(parse->arena, name + 1, strlen(name) - 2));
    }
    if (yypcontext_token(context) == YYSYMBOL_NAME)
        fy_diagnostic_suggest(diagnostic, &suggestion);
    if (semicolon && n > 2 && n < YYNTOKENS / 2)
        fy_diagnostic_hint(diagnostic, "is a ';' missing before it?");
}

static int
yyreport_syntax_error(const yypcontext_t *context, yyscan_t scanner,
                      struct fy_parse *parse)
{
    yysymbol_kind_t found = yypcontext_token(context);
    const struct fy_span *span = yypcontext_location(context);
    struct fy_diagnostic *diagnostic;
    (void)scanner;
    if (parse->stop || found == YYSYMBOL_BAD ||
        fy_diagnostics_full(parse->diagnostics))
        return 0; /* said already */
    if (found == YYSYMBOL_NAME || found == YYSYMBOL_INTEGER ||
        found == YYSYMBOL_REAL || found == YYSYMBOL_STRING ||
        found == YYSYMBOL_CHARACTER) {
        uint32_t bytes = span->end - span->begin;
        diagnostic = fy_diagnostics_add(
            parse->diagnostics, FY_SEVERITY_ERROR, *span,
            "unexpected '%.*s'%s",
            (int)(bytes < FY_MAX_QUOTED ? bytes : FY_MAX_QUOTED),
            parse->source->text + span->begin, expected(context, parse));
    } else {
        diagnostic = fy_diagnostics_add(
            parse->diagnostics, FY_SEVERITY_ERROR, *span, "unexpected %s%s",
            found == YYSYMBOL_YYEOF ? "end of the file" : yysymbol_name(found),
            expected(context, parse));
    }
    if (found != YYSYMBOL_YYEOF)
        suggest_word(context, parse, span, diagnostic);
    return 0;
}
