/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of one `command' or `common' block. Only structure is checked
 * here; what names mean is check.c's. Every list is built backwards and
 * turned round when it is complete.
 * Long because a grammar cannot be spread over files.
 */
%code top {
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/commands/command.h"
#include "annotations/commands/parse.h"

/* As in functions/parse.y: leaving by longjmp loses nothing. */
#define YYMALLOC(bytes) fy_arena_alloc(parse->arena, bytes)
#define YYFREE(memory)  ((void)(memory))
#define YYMAXDEPTH      400
#define YYLLOC_DEFAULT(current, rhs, n)                                        \
    do {                                                                       \
        (current).source = parse->source;                                      \
        (current).begin = (n) ? YYRHSLOC(rhs, 1).begin : YYRHSLOC(rhs, 0).end; \
        (current).end = YYRHSLOC(rhs, n).end;                                  \
    } while (0)
}

%code requires {
#include "annotations/commands/parse.h"
#ifndef YY_TYPEDEF_YY_SCANNER_T
#define YY_TYPEDEF_YY_SCANNER_T
typedef void *yyscan_t;
#endif
}

%code provides {
int fy_cclex(FY_CCSTYPE *value, struct fy_span *location, yyscan_t scanner);
}

%define api.pure full
%define api.prefix {fy_cc}
%define api.location.type {struct fy_span}
%define parse.error custom
%locations
%lex-param {yyscan_t scanner}
%parse-param {yyscan_t scanner} {struct fy_command_text *parse}

%union {
    int64_t integer;
    double real;
    int number;
    struct ast_name name;
    struct ast_names *names;
    struct cmd_condition *condition;
    struct cmd_form *form;
    struct cmd_clause *clause;
    struct cmd_value *value;
    struct cmd_item *item;
    struct cmd_statement *statement;
    struct cmd_title *title;
}

%code {
static void fy_ccerror(const struct fy_span *span, yyscan_t scanner,
                       struct fy_command_text *parse, const char *message);
static struct cmd_condition *condition_new(struct fy_command_text *parse,
                                           enum cmd_op op, struct fy_span span,
                                           struct cmd_condition *a,
                                           struct cmd_condition *b);
static struct cmd_condition *about(struct fy_command_text *parse,
                                   enum cmd_op op, struct fy_span span,
                                   struct ast_name name);
static struct ast_names *names_push(struct fy_command_text *parse,
                                    struct ast_names *list,
                                    struct ast_name name);
static struct cmd_form *form_new(struct fy_command_text *parse,
                                 struct ast_name name,
                                 enum cmd_argument argument);
static struct cmd_clause *clause_new(struct fy_command_text *parse,
                                     enum cmd_clause_kind kind,
                                     struct fy_span span,
                                     struct cmd_condition *condition);
static struct cmd_value *value_new(struct fy_command_text *parse,
                                   struct ast_name name,
                                   struct cmd_clause *clauses);
static struct cmd_item *item_new(struct fy_command_text *parse,
                                 struct fy_span span, struct cmd_form *forms,
                                 struct cmd_value *values);
static struct cmd_statement *statement_new(struct fy_command_text *parse,
                                           enum cmd_statement_kind kind,
                                           struct fy_span span,
                                           struct cmd_condition *condition);

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
}

%token <name> NAME "a name" STRING "a string" FLAG "a flag" VERB "a verb" TRAIT "a statement"
%token <name> ASSIGNMENT "a name with '='"
%token <name> COMMAND "'command'" COMMON "'common'"
%token <integer> INTEGER "an integer"
%token <real> REAL "a real number"
%token BAD "unreadable text"
%token AND "'&&'" OR "'||'" EQ "'=='" NE "'!='" LE "'<='" GE "'>='" DOTS "'...'"
%token ABSENT "'absent'" BEFORE "'before'" COUNT "'count'" DASH "'dash'" ENV "'env'" ENVIRONMENT "'environment'"
%token FALSE_WORD "'false'" FLAG_WORD "'flag'" FOLDER "'folder'"
%token FOLLOWS "'follows'" IN "'in'" INOUT "'inout'" KEEPS "'keeps'" CARRIES "'carries'" MAKES "'makes'" MATCHES "'matches'"
%token MATCHING "'matching'"
%token MERGE "'merge'" NEVER "'never'" NUMBER "'number'" ONLY "'only'" OPERAND "'operand'"
%token OPTION "'option'" OUT "'out'" PRESENT "'present'"
%token READS "'reads'" REQUIRE "'require'" RUNS "'runs'" SPLIT "'split'" STDIN "'stdin'"
%token STDOUT "'stdout'" STYLE "'style'" TREE "'tree'"
%token TRUE_WORD "'true'" UNLESS "'unless'" UNTIL "'until'" VALUE_WORD "'value'" WHEN "'when'"
%token WITH "'with'" WORK "'work'" WRITES "'writes'"
%token ';' "';'" ',' "','" '(' "'('" ')' "')'" '[' "'['" ']' "']'"
%token '{' "'{'" '}' "'}'" '=' "'='" '?' "'?'" '<' "'<'" '>' "'>'" '!' "'!'"
%token YYEOF 0 "the end of the block"

%type <names> title_words strings names variables
%type <title> titles title
%type <name> title_word reference matching with variable verb
%type <number> is_common compare equality
%type <integer> integer
%type <real> real
%type <condition> condition conjunction unary primary when
%type <form> forms form flag_forms flag_form
%type <clause> clauses clause
%type <value> values operand_name
%type <item> flags flag options option operands operand
%type <statement> statements statement

/* A condition belongs to the nearest word that takes one. */
%precedence LOW
%precedence WHEN UNLESS

%%

block:
    is_common titles '{' statements '}' {
        struct cmd_block *block = NEW(cmd_block);
        REVERSE(cmd_title, $2);
        REVERSE(cmd_statement, $4);
        block->is_common = $1 != 0;
        block->titles = $2;
        block->statements = $4;
        block->span = @1;
        parse->block = block;
    }
  | error '}'
  ;
is_common: COMMAND { $$ = 0; } | COMMON { $$ = 1; } ;

titles: title | titles ',' title { $3->next = $1; $$ = $3; } ;
title:
    title_words {
        REVERSE(ast_names, $1);
        $$ = NEW(cmd_title);
        $$->words = $1;
        $$->span = @$;
    }
  ;
title_words:
    title_word { $$ = names_push(parse, NULL, $1); }
  | title_words title_word { $$ = names_push(parse, $1, $2); }
  ;
title_word: NAME | STRING ;

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
  | FLAG_WORD flags ';' {
        REVERSE(cmd_item, $2);
        $$ = statement_new(parse, CMD_FLAG, @1, NULL);
        $$->items = $2;
    }
  | OPTION options ';' {
        REVERSE(cmd_item, $2);
        $$ = statement_new(parse, CMD_OPTION, @1, NULL);
        $$->items = $2;
    }
  | NUMBER FLAG ';' {
        struct ast_name name = $2;
        name.text++; /* NUM of -NUM */
        $$ = statement_new(parse, CMD_NUMBER, @1, NULL);
        $$->items = item_new(parse, @2, NULL, value_new(parse, name, NULL));
    }
  | OPERAND operands ';' {
        REVERSE(cmd_item, $2);
        $$ = statement_new(parse, CMD_OPERAND, @1, NULL);
        $$->items = $2;
    }
  | STDIN when ';' { $$ = statement_new(parse, CMD_STDIN, @1, $2); }
  | STDOUT NAME when ';' {
        $$ = statement_new(parse, CMD_STDOUT, @1, $3);
        $$->words = names_push(parse, NULL, $2);
    }
  | REQUIRE condition ';' { $$ = statement_new(parse, CMD_REQUIRE, @1, $2); }
  | NEVER STRING ';' {
        $$ = statement_new(parse, CMD_NEVER, @1, NULL);
        $$->words = names_push(parse, NULL, $2);
    }
  | NEVER condition STRING ';' {
        $$ = statement_new(parse, CMD_NEVER, @1, $2);
        $$->words = names_push(parse, NULL, $3);
    }
  | NEVER WHEN condition STRING ';' {
        $$ = statement_new(parse, CMD_NEVER, @1, $3);
        $$->words = names_push(parse, NULL, $4);
    }
  | READS NAME when ';' {
        $$ = statement_new(parse, CMD_READS, @1, $3);
        $$->words = names_push(parse, NULL, $2);
    }
  | READS NAME TREE when ';' {
        $$ = statement_new(parse, CMD_READS, @1, $4);
        $$->words = names_push(parse, NULL, $2);
        $$->is_tree = true;
    }
  | READS strings when ';' {
        REVERSE(ast_names, $2);
        $$ = statement_new(parse, CMD_CONFIGS, @1, $3);
        $$->words = $2;
    }
  | CARRIES strings when ';' {
        REVERSE(ast_names, $2);
        $$ = statement_new(parse, CMD_CARRIES, @1, $3);
        $$->words = $2;
    }
  | WRITES NAME when ';' {
        $$ = statement_new(parse, CMD_WRITES, @1, $3);
        $$->words = names_push(parse, NULL, $2);
    }
  | WRITES NAME strings when ';' {
        REVERSE(ast_names, $3);
        $$ = statement_new(parse, CMD_WRITES, @1, $4);
        $$->words = names_push(parse, $3, $2);
    }
  | WRITES NAME MAKES strings when ';' {
        REVERSE(ast_names, $4);
        $$ = statement_new(parse, CMD_WRITES, @1, $5);
        $$->words = names_push(parse, $4, $2);
        $$->how = FY_WRITTEN_MAKES;
    }
  | WRITES NAME KEEPS strings when ';' {
        REVERSE(ast_names, $4);
        $$ = statement_new(parse, CMD_WRITES, @1, $5);
        $$->words = names_push(parse, $4, $2);
        $$->how = FY_WRITTEN_KEEPS;
    }
  | WORK real when ';' {
        $$ = statement_new(parse, CMD_WORK, @2, $3);
        $$->number = $2;
    }
  | ABSENT strings matching when ';' {
        REVERSE(ast_names, $2);
        $$ = statement_new(parse, CMD_ABSENT, @1, $4);
        $$->words = $2;
        $$->text = $3;
    }
  | PRESENT strings matching when ';' {
        REVERSE(ast_names, $2);
        $$ = statement_new(parse, CMD_PRESENT, @1, $4);
        $$->words = $2;
        $$->text = $3;
    }
  | ENVIRONMENT variables ';' {
        REVERSE(ast_names, $2);
        $$ = statement_new(parse, CMD_ENVIRONMENT, @1, NULL);
        $$->words = $2;
    }
  | TRAIT when ';' {
        $$ = statement_new(parse, CMD_TRAIT, @1, $2);
        $$->words = names_push(parse, NULL, $1);
    }
  | verb NAME when ';' {
        $$ = statement_new(parse, CMD_TRAIT, @1, $3);
        $$->words = names_push(parse, names_push(parse, NULL, $2), $1);
    }
  | SPLIT NAME with when ';' {
        $$ = statement_new(parse, CMD_SPLIT, @1, $4);
        $$->words = names_push(parse, NULL, $2);
        $$->text = $3;
    }
  | MERGE NAME when ';' {
        $$ = statement_new(parse, CMD_MERGE, @1, $3);
        $$->words = names_push(parse, NULL, $2);
    }
  | STYLE names ';' {
        REVERSE(ast_names, $2);
        $$ = statement_new(parse, CMD_STYLE, @1, NULL);
        $$->words = $2;
    }
  ;

/* The first word of a trait of two. */
verb: VERB | MAKES { $$ = (struct ast_name){.text = "makes", .span = @1}; } ;
matching:
    %empty { $$ = (struct ast_name){.text = NULL}; }
  | MATCHING STRING { $$ = $2; }
  ;
with:
    %empty { $$ = (struct ast_name){.text = NULL}; }
  | WITH STRING { $$ = $2; }
  ;
strings:
    STRING { $$ = names_push(parse, NULL, $1); }
  | strings ',' STRING { $$ = names_push(parse, $1, $3); }
  ;
variables:
    variable { $$ = names_push(parse, NULL, $1); }
  | variables ',' variable { $$ = names_push(parse, $1, $3); }
  ;
variable: NAME | STRING ;
names:
    NAME { $$ = names_push(parse, NULL, $1); }
  | names ',' NAME { $$ = names_push(parse, $1, $3); }
  ;
real: INTEGER { $$ = (double)$1; } | REAL ;

when:
    %empty { $$ = NULL; }
  | WHEN condition { $$ = $2; }
  | UNLESS condition { $$ = condition_new(parse, CMD_NOT, @2, $2, NULL); }
  | WHEN condition UNLESS condition {
        $$ = condition_new(parse, CMD_AND, @$, $2,
                           condition_new(parse, CMD_NOT, @4, $4, NULL));
    }
  ;

/* ---- flags, options, operands ---- */

flags: flag | flags ',' flag { $3->next = $1; $$ = $3; } | flags ',' ;
flag:
    flag_forms {
        REVERSE(cmd_form, $1);
        $$ = item_new(parse, @$, $1, NULL);
    }
  ;
flag_forms: flag_form | flag_forms flag_form { $2->next = $1; $$ = $2; } ;
flag_form:
    FLAG { $$ = form_new(parse, $1, CMD_ARGUMENT_NONE); }
  | STRING { $$ = form_new(parse, $1, CMD_ARGUMENT_NONE); }
  ;

options: option | options ',' option { $3->next = $1; $$ = $3; } | options ',' ;
option:
    forms {
        REVERSE(cmd_form, $1);
        $$ = item_new(parse, @$, $1, NULL);
    }
  | forms values {
        REVERSE(cmd_form, $1);
        REVERSE(cmd_value, $2);
        $$ = item_new(parse, @$, $1, $2);
    }
  | forms clause clauses {
        /* Clauses of a value that is named in brackets. */
        REVERSE(cmd_form, $1);
        REVERSE(cmd_clause, $3);
        $2->next = $3;
        $$ = item_new(parse, @$, $1, value_new(parse, (struct ast_name){.span = @2}, $2));
    }
  ;
forms: form | forms form { $2->next = $1; $$ = $2; } ;
form:
    flag_form
  | ASSIGNMENT {
        $$ = form_new(parse, $1, CMD_ARGUMENT_NEXT);
        $$->is_assignment = true;
    }
  | flag_form '[' '=' NAME ']' {
        $$ = $1;
        $$->argument = CMD_ARGUMENT_EQUALS;
        $$->value = $4;
    }
  | flag_form '[' NAME ']' {
        $$ = $1;
        $$->argument = CMD_ARGUMENT_ATTACHED;
        $$->value = $3;
    }
  ;
values:
    NAME clauses {
        REVERSE(cmd_clause, $2);
        $$ = value_new(parse, $1, $2);
    }
  | values NAME clauses {
        REVERSE(cmd_clause, $3);
        $$ = value_new(parse, $2, $3);
        $$->next = $1;
    }
  ;

operands: operand | operands ',' operand { $3->next = $1; $$ = $3; } | operands ',' ;
operand:
    operand_name clauses {
        REVERSE(cmd_clause, $2);
        $1->clauses = $2;
        $$ = item_new(parse, @1, NULL, $1);
    }
  ;
operand_name:
    NAME { $$ = value_new(parse, $1, NULL); }
  | NAME '?' { $$ = value_new(parse, $1, NULL); $$->is_optional = true; }
  | NAME DOTS { $$ = value_new(parse, $1, NULL); $$->is_repeated = true; }
  ;

clauses: %empty { $$ = NULL; } | clauses clause { $2->next = $1; $$ = $2; } ;
clause:
    IN { $$ = clause_new(parse, CMD_CLAUSE_IN, @1, NULL); }
  | OUT { $$ = clause_new(parse, CMD_CLAUSE_OUT, @1, NULL); }
  | INOUT { $$ = clause_new(parse, CMD_CLAUSE_INOUT, @1, NULL); }
  | FOLDER { $$ = clause_new(parse, CMD_CLAUSE_FOLDER, @1, NULL); }
  | DASH { $$ = clause_new(parse, CMD_CLAUSE_DASH, @1, NULL); }
  | TREE %prec LOW { $$ = clause_new(parse, CMD_CLAUSE_TREE, @1, NULL); }
  | TREE WHEN condition { $$ = clause_new(parse, CMD_CLAUSE_TREE, @1, $3); }
  | TREE UNLESS condition {
        $$ = clause_new(parse, CMD_CLAUSE_TREE, @1,
                        condition_new(parse, CMD_NOT, @3, $3, NULL));
    }
  | FOLLOWS %prec LOW { $$ = clause_new(parse, CMD_CLAUSE_FOLLOWS, @1, NULL); }
  | FOLLOWS WHEN condition {
        $$ = clause_new(parse, CMD_CLAUSE_FOLLOWS, @1, $3);
    }
  | FOLLOWS UNLESS condition {
        $$ = clause_new(parse, CMD_CLAUSE_FOLLOWS, @1,
                        condition_new(parse, CMD_NOT, @3, $3, NULL));
    }
  | RUNS { $$ = clause_new(parse, CMD_CLAUSE_RUNS, @1, NULL); }
  | RUNS STRING {
        $$ = clause_new(parse, CMD_CLAUSE_RUNS, @$, NULL);
        $$->text = $2;
    }
  | UNTIL STRING {
        $$ = clause_new(parse, CMD_CLAUSE_UNTIL, @$, NULL);
        $$->text = $2;
    }
  | WHEN condition { $$ = clause_new(parse, CMD_CLAUSE_WHEN, @1, $2); }
  | UNLESS condition {
        $$ = clause_new(parse, CMD_CLAUSE_WHEN, @1,
                        condition_new(parse, CMD_NOT, @2, $2, NULL));
    }
  ;

/* ---- conditions ---- */

condition:
    conjunction
  | condition OR conjunction { $$ = condition_new(parse, CMD_OR, @$, $1, $3); }
  ;
conjunction:
    unary
  | conjunction AND unary { $$ = condition_new(parse, CMD_AND, @$, $1, $3); }
  ;
unary: primary | '!' unary { $$ = condition_new(parse, CMD_NOT, @$, $2, NULL); } ;
primary:
    '(' condition ')' { $$ = $2; }
  | TRUE_WORD { $$ = condition_new(parse, CMD_TRUE, @1, NULL, NULL); }
  | FALSE_WORD { $$ = condition_new(parse, CMD_FALSE, @1, NULL, NULL); }
  | reference { $$ = about(parse, CMD_GIVEN, @1, $1); }
  | reference equality STRING {
        $$ = about(parse, CMD_EQUAL, @1, $1);
        $$->text = $3;
        if ($2)
            $$ = condition_new(parse, CMD_NOT, @$, $$, NULL);
    }
  | COUNT '(' reference ')' compare integer {
        $$ = about(parse, CMD_COUNT, @3, $3);
        $$->compare = (uint8_t)$5;
        $$->number = $6;
    }
  | VALUE_WORD '(' reference ')' compare integer {
        $$ = about(parse, CMD_VALUE, @3, $3);
        $$->compare = (uint8_t)$5;
        $$->number = $6;
    }
  | MATCHES '(' reference ',' STRING ')' {
        $$ = about(parse, CMD_MATCHES, @3, $3);
        $$->text = $5;
    }
  | ONLY '(' reference ',' STRING ')' {
        $$ = about(parse, CMD_ONLY, @3, $3);
        $$->text = $5;
    }
  | BEFORE '(' reference ',' reference ')' {
        $$ = about(parse, CMD_BEFORE, @3, $3);
        $$->text = $5;
    }
  | ENV '(' variable ')' { $$ = about(parse, CMD_ENV, @3, $3); }
  ;
reference: NAME | FLAG | STRING ;
equality: EQ { $$ = 0; } | NE { $$ = 1; } ;
compare:
    EQ { $$ = CMD_EQ; } | NE { $$ = CMD_NE; } | LE { $$ = CMD_LE; }
  | GE { $$ = CMD_GE; } | '<' { $$ = CMD_LT; } | '>' { $$ = CMD_GT; }
  ;
integer:
    INTEGER
  | FLAG {
        /* -5 is a flag to the scanner */
        char *end;
        $$ = strtoll($1.text, &end, 10);
        if (*end != '\0')
            fy_diagnostics_add(parse->diagnostics, FY_SEVERITY_ERROR, @1,
                               "not a number");
    }
  ;

%%

static struct cmd_condition *
condition_new(struct fy_command_text *parse, enum cmd_op op,
              struct fy_span span, struct cmd_condition *a,
              struct cmd_condition *b)
{
    struct cmd_condition *condition = NEW(cmd_condition);
    condition->op = (uint8_t)op;
    condition->span = span;
    condition->a = a;
    condition->b = b;
    return condition;
}

static struct cmd_condition *
about(struct fy_command_text *parse, enum cmd_op op, struct fy_span span,
      struct ast_name name)
{
    struct cmd_condition *condition =
        condition_new(parse, op, span, NULL, NULL);
    condition->name = name;
    return condition;
}

static struct ast_names *
names_push(struct fy_command_text *parse, struct ast_names *list,
           struct ast_name name)
{
    struct ast_names *item = NEW(ast_names);
    item->name = name;
    item->next = list;
    return item;
}

static struct cmd_form *
form_new(struct fy_command_text *parse, struct ast_name name,
         enum cmd_argument argument)
{
    struct cmd_form *form = NEW(cmd_form);
    form->name = name;
    form->argument = (uint8_t)argument;
    return form;
}

static struct cmd_clause *
clause_new(struct fy_command_text *parse, enum cmd_clause_kind kind,
           struct fy_span span, struct cmd_condition *condition)
{
    struct cmd_clause *clause = NEW(cmd_clause);
    clause->kind = (uint8_t)kind;
    clause->span = span;
    clause->condition = condition;
    return clause;
}

static struct cmd_value *
value_new(struct fy_command_text *parse, struct ast_name name,
          struct cmd_clause *clauses)
{
    struct cmd_value *value = NEW(cmd_value);
    value->name = name;
    value->clauses = clauses;
    return value;
}

static struct cmd_item *
item_new(struct fy_command_text *parse, struct fy_span span,
         struct cmd_form *forms, struct cmd_value *values)
{
    struct cmd_item *item = NEW(cmd_item);
    item->forms = forms;
    item->values = values;
    item->span = span;
    return item;
}

static struct cmd_statement *
statement_new(struct fy_command_text *parse, enum cmd_statement_kind kind,
              struct fy_span span, struct cmd_condition *condition)
{
    struct cmd_statement *statement = NEW(cmd_statement);
    statement->kind = (uint8_t)kind;
    statement->span = span;
    statement->condition = condition;
    return statement;
}

/* bison's own complaints: only that its stack is full. */
static void
fy_ccerror(const struct fy_span *span, yyscan_t scanner,
           struct fy_command_text *parse, const char *message)
{
    (void)scanner;
    (void)message;
    if (!parse->stop)
        fy_diagnostics_add(parse->diagnostics, FY_SEVERITY_ERROR, *span,
                           "too deeply nested");
    parse->stop = true;
}

/* "expected ';' or ','", and the keyword that was perhaps meant. */
static void
describe(const yypcontext_t *context, struct fy_command_text *parse,
         const struct fy_span *span, const char **expected,
         struct fy_suggestion *suggestion)
{
    enum { MOST = 4 };
    yysymbol_kind_t all[YYNTOKENS];
    int n = yypcontext_expected_tokens(context, all, YYNTOKENS);
    *expected = "";
    for (int i = 0; i < n && n <= MOST; i++)
        *expected = fy_arena_print(parse->arena, "%s%s%s", *expected,
                                   i == 0       ? ", expected "
                                   : i + 1 == n ? " or "
                                                : ", ",
                                   yysymbol_name(all[i]));
    suggestion->wanted =
        fy_arena_text(parse->arena, parse->source->text + span->begin,
                      span->end - span->begin);
    for (int i = 0; i < n; i++) {
        const char *name = yysymbol_name(all[i]);
        for (unsigned t = 0; all[i] == YYSYMBOL_VERB && t < FY_TRAITS; t++)
            fy_suggestion_try(
                suggestion, fy_arena_text(parse->arena, fy_trait_words[t],
                                          strcspn(fy_trait_words[t], " ")));
        if (all[i] >= YYSYMBOL_ABSENT && all[i] <= YYSYMBOL_WRITES)
            fy_suggestion_try(
                suggestion, /* without its quotes */
                fy_arena_text(parse->arena, name + 1, strlen(name) - 2));
    }
}

static int
yyreport_syntax_error(const yypcontext_t *context, yyscan_t scanner,
                      struct fy_command_text *parse)
{
    yysymbol_kind_t found = yypcontext_token(context);
    const struct fy_span *span = yypcontext_location(context);
    struct fy_diagnostic *diagnostic;
    struct fy_suggestion suggestion = {0};
    const char *expected;
    (void)scanner;
    if (parse->stop || found == YYSYMBOL_BAD ||
        fy_diagnostics_full(parse->diagnostics))
        return 0; /* said already */
    if (found == YYSYMBOL_YYEOF)
        span = &parse->end;
    describe(context, parse, span, &expected, &suggestion);
    if (found >= YYSYMBOL_NAME && found <= YYSYMBOL_REAL) {
        uint32_t bytes = span->end - span->begin;
        diagnostic = fy_diagnostics_add(
            parse->diagnostics, FY_SEVERITY_ERROR, *span,
            "unexpected '%.*s'%s",
            (int)(bytes < FY_MAX_QUOTED ? bytes : FY_MAX_QUOTED),
            parse->source->text + span->begin, expected);
    } else {
        diagnostic = fy_diagnostics_add(parse->diagnostics, FY_SEVERITY_ERROR,
                                        *span, "unexpected %s%s",
                                        yysymbol_name(found), expected);
    }
    if (found == YYSYMBOL_NAME)
        fy_diagnostic_suggest(diagnostic, &suggestion);
    return 0;
}
