/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of `on cuda f(...)': besides expressions, words
 * that the device fills in (a library's handle, a workspace), scalars by
 * address, and the codes of cuBLAS for the letters and numbers of BLAS.
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"

static const char *const words[FY_WORD_COUNT] = {
    [FY_WORD_CUBLAS] = "cublas", [FY_WORD_CUSOLVER] = "cusolver",
    [FY_WORD_INFO] = "info",     [FY_WORD_WORKSPACE] = "workspace",
    [FY_WORD_LWORK] = "lwork",   [FY_WORD_CUFFT] = "cufft",
};

const char *
fy_word_text(unsigned word)
{
    return word > FY_WORD_NONE && word < FY_WORD_COUNT ? words[word] : "";
}

static enum fy_word
find_word(const char *name)
{
    for (unsigned i = 1; i < FY_WORD_COUNT; i++) {
        if (strcmp(words[i], name) == 0) {
            return (enum fy_word)i;
        }
    }
    return FY_WORD_NONE;
}

bool
fy_is_device_word(const char *name)
{
    return find_word(name) != FY_WORD_NONE;
}

static uint32_t
make(struct fy_body *body, unsigned op, uint8_t type, uint32_t a, uint32_t b,
     uint32_t c, struct fy_span span)
{
    return fy_node_of_parts(body, op, type, (uint32_t[3]){a, b, c}, span);
}

/* ---- codes --------------------------------------------------------------------- */

/* x is one of the letters, or that number of CBLAS, ? yes : no. */
static uint32_t
choose(struct fy_body *body, uint32_t x, const char *letters, int64_t code,
       uint32_t yes, uint32_t no, struct fy_span span)
{
    uint32_t test;
    if (body->front->nodes.row[x].type == FY_T_CHAR) {
        test = make(body, FY_OP_IN, FY_T_I64, x,
                    fy_intern(body->front, letters), 0, span);
    } else {
        uint32_t wanted = fy_node_of_number(body, code, span);
        test = wanted == FY_NIL
                   ? FY_NIL
                   : make(body, FY_OP_EQ, FY_T_I64, x, wanted, 0, span);
    }
    if (test == FY_NIL || yes == FY_NIL || no == FY_NIL) {
        return FY_NIL;
    }
    return make(body, FY_OP_COND, FY_T_I64, test, yes, no, span);
}

static const struct code {
    const char *name;
    const char *letters; /* of the value 0 */
    int64_t code;        /* likewise, in CBLAS */
} codes[] = {
    {"op", "Nn", 111},
    {"fill", "Ll", 122},
    {"side", "Ll", 141},
    {"diag", "Nn", 131},
};

/* An operand's address, its two axes the other way round on the device. */
static uint32_t
transposed(struct fy_body *body, const struct ast_expr *expr)
{
    const struct fy_node *node;
    uint32_t x;
    if (!expr->list || expr->list->next) {
        fy_error(body->front, expr->span, "'transposed' takes one argument");
        return FY_NIL;
    }
    x = fy_node_of_expr(body, expr->list);
    if (x == FY_NIL) {
        return FY_NIL;
    }
    node = &body->front->nodes.row[x];
    if (node->op != FY_OP_ADDRESS || body->operands[node->a].row.naxes != 2) {
        fy_error(body->front, expr->list->span,
                 "'transposed' takes an operand of two axes");
        return FY_NIL;
    }
    return make(body, FY_OP_ADDRESS, FY_T_POINTER, node->a, 1, 0, expr->span);
}

bool
fy_device_function(struct fy_body *body, const struct ast_expr *expr,
                   uint32_t *out)
{
    const struct code *code = NULL;
    if (strcmp(expr->name.text, "transposed") == 0) {
        *out = transposed(body, expr);
        return true;
    }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(codes[i].name, expr->name.text) == 0) {
            code = &codes[i];
        }
    }
    if (!code) {
        return false;
    }
    *out = FY_NIL;
    if (!expr->list || expr->list->next) {
        fy_error(body->front, expr->span, "'%s' takes one argument",
                 code->name);
        return true;
    }
    uint32_t x = fy_node_of_expr(body, expr->list);
    if (x == FY_NIL) {
        return true;
    }
    if (body->front->nodes.row[x].type != FY_T_CHAR &&
        body->front->nodes.row[x].type != FY_T_I64) {
        fy_error(body->front, expr->list->span,
                 "'%s' takes a letter of BLAS or a number of CBLAS",
                 code->name);
        return true;
    }
    uint32_t zero = fy_node_of_number(body, 0, expr->span);
    uint32_t rest = fy_node_of_number(body, 1, expr->span);
    if (code == codes) { /* none, transposed, conjugate transposed */
        uint32_t two = fy_node_of_number(body, 2, expr->span);
        rest = choose(body, x, "Tt", 112, rest, two, expr->span);
    }
    *out = choose(body, x, code->letters, code->code, zero, rest, expr->span);
    return true;
}

/* ---- arguments ------------------------------------------------------------------ */

/* A number, which the device is given in the type of the first operand. */
static bool
is_number(const struct fy_body *body, const struct fy_node *node)
{
    const uint8_t type =
        body->noperands > 0 ? body->operands[0].row.element : FY_T_VOID;
    if (node->op == FY_OP_NEG) {
        node = &body->front->nodes.row[node->a];
    }
    return (node->op == FY_OP_INT || node->op == FY_OP_REAL) &&
           (type == FY_T_F32 || type == FY_T_F64 || type == FY_T_C32 ||
            type == FY_T_C64);
}

static uint32_t
scalar(struct fy_body *body, const struct ast_expr *expr)
{
    uint32_t a = fy_node_of_expr(body, expr->a);
    if (a == FY_NIL) {
        return FY_NIL;
    }
    const struct fy_node *node = &body->front->nodes.row[a];
    if (is_number(body, node)) {
        return make(body, FY_OP_SCALAR, FY_T_POINTER, a, 0, 0, expr->span);
    }
    if ((node->op != FY_OP_CELL && node->op != FY_OP_COND) ||
        node->type == FY_T_POINTER) {
        fy_error(body->front, expr->span,
                 "& takes a scalar argument of the call, or a number");
        return FY_NIL;
    }
    return make(body, FY_OP_SCALAR, FY_T_POINTER, a, 0, 0, expr->span);
}

/* Which of the arguments in front the function that tells the size takes. */
static bool
size_arguments(struct fy_body *body, const struct ast_expr *list,
               const struct fy_call_row *row, uint32_t *out)
{
    uint32_t at = 0;
    *out = 0;
    for (const struct ast_expr *e = list; e; e = e->next) {
        uint32_t node = fy_device_argument(body, e, row);
        if (node == FY_NIL) {
            return false;
        }
        while (at < row->nargs && row->args[at] != node) {
            at++;
        }
        if (at == row->nargs || at >= 32) {
            fy_error(body->front, e->span,
                     "this is no argument in front of the workspace, or not in "
                     "their order");
            return false;
        }
        *out |= UINT32_C(1) << at++;
    }
    return true;
}

static uint32_t
workspace(struct fy_body *body, const struct ast_expr *expr,
          const struct fy_call_row *row)
{
    const struct ast_expr *size = expr->list;
    uint32_t arguments = 0;
    if (!size || size->next ||
        (size->kind != AST_NAME && (size->kind != AST_CALL || !size->list))) {
        fy_error(body->front, expr->span,
                 "'workspace' takes the name of the function that tells its "
                 "size, or a call of it");
        return FY_NIL;
    }
    const char *name = fy_expand(body->front, body->unit, size->name);
    if (!name || !size_arguments(body, size->list, row, &arguments)) {
        return FY_NIL;
    }
    return make(body, FY_OP_WORD, FY_T_POINTER, FY_WORD_WORKSPACE,
                fy_intern(body->front, name), arguments, expr->span);
}

/* ---- plans of cuFFT ----------------------------------------------------------- */

static const char cufft_hint[] =
    "cufft(BATCH, size(N, ...), from(STRIDE, DISTANCE), to(STRIDE, DISTANCE))";

/*
 * The integers of one part, `name(a, b, ...)': `least' of them at least, `most'
 * at most, to args[at] on. How many there were, or 0 after an error.
 */
static unsigned
cufft_part(struct fy_body *body, const struct ast_expr *part, const char *name,
           struct fy_call_row *row, unsigned at, unsigned least, unsigned most)
{
    unsigned count = 0;
    if (part->kind != AST_CALL || strcmp(part->name.text, name) != 0) {
        fy_diagnostic_hint(
            fy_error(body->front, part->span, "this must be '%s(...)'", name),
            "%s", cufft_hint);
        return 0;
    }
    for (const struct ast_expr *e = part->list; e; e = e->next) {
        if (count == most) {
            count++;
            break;
        }
        row->args[at + count] = fy_node_of_integer(body, e);
        if (row->args[at + count++] == FY_NIL) {
            return 0;
        }
    }
    if (count < least || count > most) {
        fy_error(body->front, part->span,
                 "'%s' takes at least %u and at most %u integers", name, least,
                 most);
        return 0;
    }
    return count;
}

/*
 * cufft(batch, size(n0, n1, n2), from(stride, distance, row1, row2), to(...)):
 * the integers as a row of the calls table.
 */
static uint32_t
cufft(struct fy_body *body, const struct ast_expr *expr)
{
    struct fy_front *front = body->front;
    const struct ast_expr *part[4] = {NULL};
    struct fy_call_row row = {.nargs = FY_CUFFT_ARGUMENTS};
    unsigned count = 0;
    for (const struct ast_expr *e = expr->list; e && count < 5; e = e->next) {
        if (count < 4) {
            part[count] = e;
        }
        count++;
    }
    for (unsigned i = 0; i < FY_MAX_ARGS; i++) {
        row.args[i] = FY_NIL;
    }
    if (count != 4) {
        fy_diagnostic_hint(
            fy_error(front, expr->span, "'cufft' takes four arguments"), "%s",
            cufft_hint);
        return FY_NIL;
    }
    row.args[FY_CUFFT_BATCH] = fy_node_of_integer(body, part[0]);
    unsigned rank = cufft_part(body, part[1], "size", &row, FY_CUFFT_N, 1, 3);
    if (row.args[FY_CUFFT_BATCH] == FY_NIL || rank == 0 ||
        cufft_part(body, part[2], "from", &row, FY_CUFFT_FROM, 2, 1 + rank) ==
            0 ||
        cufft_part(body, part[3], "to", &row, FY_CUFFT_TO, 2, 1 + rank) == 0) {
        return FY_NIL;
    }
    uint32_t index = (uint32_t)front->calls.count;
    *FY_APPEND(&front->arena, &front->calls) = row;
    return make(body, FY_OP_WORD, FY_T_I64, FY_WORD_CUFFT, 0, index,
                expr->span);
}

uint32_t
fy_device_argument(struct fy_body *body, const struct ast_expr *expr,
                   const struct fy_call_row *row)
{
    enum fy_word word = FY_WORD_NONE;
    if (expr->kind == AST_NAME || expr->kind == AST_CALL) {
        word = find_word(expr->name.text);
    }
    if (expr->kind == AST_UNARY && expr->op == FY_OP_SCALAR) {
        return scalar(body, expr);
    }
    if (expr->kind == AST_CALL && word == FY_WORD_WORKSPACE) {
        return workspace(body, expr, row);
    }
    if (expr->kind == AST_CALL && word == FY_WORD_CUFFT) {
        return cufft(body, expr);
    }
    if (expr->kind != AST_NAME || word == FY_WORD_NONE ||
        word == FY_WORD_WORKSPACE || word == FY_WORD_CUFFT) {
        return fy_node_of_expr(body, expr);
    }
    return make(body, FY_OP_WORD,
                word == FY_WORD_LWORK ? FY_T_I64 : FY_T_POINTER, word, 0, 0,
                expr->span);
}

void
fy_device_call_check(struct fy_body *body, const struct ast_statement *s,
                     const struct fy_call_row *row)
{
    for (unsigned i = 0; i < body->noperands; i++) {
        const struct fy_operand_info *operand = &body->operands[i];
        if (operand->row.returns != FY_NIL &&
            !(operand->row.flags & (FY_OPERAND_QUERY | FY_OPERAND_FAILURE))) {
            fy_diagnostic_hint(
                fy_error(body->front, s->word.span,
                         "nothing says what comes back in '%.*s'",
                         FY_MAX_QUOTED, operand->name),
                "the device has a workspace of its own: add `query' or "
                "`failure' behind `returns'");
        }
    }
    unsigned workspaces = 0, infos = 0, plans = 0;
    for (uint32_t i = 0; i < row->nargs; i++) {
        if (row->args[i] == FY_NIL) {
            return; /* told already */
        }
        const struct fy_node *node = &body->front->nodes.row[row->args[i]];
        if (node->op != FY_OP_WORD) {
            continue;
        }
        workspaces += node->a == FY_WORD_WORKSPACE;
        infos += node->a == FY_WORD_INFO;
        plans += node->a == FY_WORD_CUFFT;
        if (node->a == FY_WORD_LWORK && workspaces == 0) {
            fy_error(body->front, s->word.span,
                     "'lwork' stands behind 'workspace(...)'");
        }
    }
    if (workspaces > 1 || infos > 1 || plans > 1 || plans + workspaces > 1) {
        fy_error(body->front, s->word.span,
                 "a call has one workspace or plan, and one info at most");
    }
    fy_check_device_result(body, s->name.span);
}
