/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands: the memory a call touches, element (i, j, ...) at base + at +
 * sum(index * stride), and the conditions under which it does.
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"
#include "annotations/model/eval.h"

struct fy_operand_info *
fy_body_find_operand(struct fy_body *body, const char *name)
{
    for (unsigned i = 0; i < body->noperands; i++) {
        if (strcmp(body->operands[i].name, name) == 0) {
            return &body->operands[i];
        }
    }
    return NULL;
}

/* op(a, b, c); FY_NIL when a part is missing. */
static uint32_t
make_of(struct fy_body *body, unsigned op, const uint32_t parts[3],
        struct fy_span span)
{
    if (parts[0] == FY_NIL || parts[1] == FY_NIL || parts[2] == FY_NIL) {
        return FY_NIL;
    }
    return fy_node_of_parts(body, op, FY_T_I64, parts, span);
}

static uint32_t
make(struct fy_body *body, unsigned op, uint32_t a, uint32_t b,
     struct fy_span span)
{
    return make_of(body, op, (uint32_t[3]){a, b}, span);
}

static uint32_t
make_cond(struct fy_body *body, uint32_t a, uint32_t b, uint32_t c,
          struct fy_span span)
{
    return make_of(body, FY_OP_COND, (uint32_t[3]){a, b, c}, span);
}

/* The unnamed axis of that extent. */
static uint32_t
unnamed_axis(struct fy_body *body, uint32_t extent, struct fy_span span)
{
    for (unsigned i = 0; i < body->naxes; i++) {
        if (body->axes[i].anonymous && body->axes[i].row.extent == extent) {
            return i;
        }
    }
    if (body->naxes == FY_MAX_AXES) {
        fy_error(body->front, span,
                 "a function has at most %d axes, unnamed ones included",
                 FY_MAX_AXES);
        return FY_NIL;
    }
    struct fy_axis_info *axis = &body->axes[body->naxes];
    memset(axis, 0, sizeof *axis);
    axis->name = "";
    axis->span = span;
    axis->anonymous = true;
    axis->spanned = true;
    axis->row.extent = extent;
    axis->row.multiple = 1;
    memset(axis->row.also, 0xff, sizeof axis->row.also); /* FY_NIL */
    axis->row.cell = axis->row.sums_into = FY_NIL;
    axis->row.with_cell = axis->row.with_node = FY_NIL;
    return body->naxes++;
}

/* The axis that `expr' names, or an unnamed one of that extent. */
static uint32_t
axis_of(struct fy_body *body, const struct ast_expr *expr)
{
    struct fy_front *front = body->front;
    if (expr->kind == AST_NAME) {
        const char *name = fy_expand(front, body->unit, expr->name);
        struct fy_axis_info *axis = name ? fy_body_find_axis(body, name) : NULL;
        if (axis) {
            axis->spanned = true;
            return (uint32_t)(axis - body->axes);
        }
        if (!name) {
            return FY_NIL;
        }
    }
    body->in_axis_extent = true;
    uint32_t extent = fy_node_of_integer(body, expr);
    body->in_axis_extent = false;
    return extent == FY_NIL ? FY_NIL : unnamed_axis(body, extent, expr->span);
}

/* at + (stride < 0 ? (1 - extent) * stride : 0) */
static uint32_t
increment(struct fy_body *body, uint32_t at, uint32_t axis, uint32_t stride,
          struct fy_span span)
{
    uint32_t zero = fy_node_int(body, 0), one = fy_node_int(body, 1);
    uint32_t n = make(body, FY_OP_EXTENT, axis, 0, span);
    uint32_t back = make(body, FY_OP_MUL, make(body, FY_OP_SUB, one, n, span),
                         stride, span);
    uint32_t here = make_cond(body, make(body, FY_OP_LT, stride, zero, span),
                              back, zero, span);
    return at == FY_NIL ? here : make(body, FY_OP_ADD, at, here, span);
}

static void
dimensions(struct fy_body *body, struct fy_operand *row,
           const struct ast_statement *statement, uint32_t *at)
{
    struct fy_front *front = body->front;
    for (const struct ast_dimension *d = statement->dimensions; d;
         d = d->next) {
        if (row->naxes == FY_MAX_OPERAND_AXES) {
            fy_error(front, d->axis->span, "an operand spans at most %d axes",
                     FY_MAX_OPERAND_AXES);
            return;
        }
        if (!d->stride && statement->dimensions->next) {
            fy_diagnostic_hint(
                fy_error(front, d->axis->span, "this axis has no stride"),
                "write [axis: stride, ...]; only a single axis may leave it "
                "out");
        }
        uint32_t axis = axis_of(body, d->axis);
        uint32_t stride = d->stride ? fy_node_of_integer(body, d->stride)
                                    : fy_node_int(body, 1);
        if (axis == FY_NIL || stride == FY_NIL) {
            continue;
        }
        for (unsigned i = 0; i < row->naxes; i++) {
            if (row->axes[i].axis == axis && !body->axes[axis].anonymous) {
                fy_diagnostic_hint(
                    fy_error(front, d->axis->span,
                             "axis '%.*s' is spanned twice", FY_MAX_QUOTED,
                             body->axes[axis].name),
                    "one axis with the sum of the strides is the diagonal; "
                    "a square needs two axes: axis i = %.*s, j = %.*s",
                    FY_MAX_QUOTED, body->axes[axis].name, FY_MAX_QUOTED,
                    body->axes[axis].name);
            }
        }
        row->axes[row->naxes].axis = axis;
        row->axes[row->naxes++].stride = stride;
        if (d->is_increment && d->stride) {
            *at = increment(body, *at, axis, stride, d->stride->span);
        }
    }
}

/* ---- where the elements are: triangles and bands ---- */

/* Returns true if `expr' is the name of the operand's k-th axis. */
static bool
names_axis(struct fy_body *body, const struct fy_operand *row, unsigned k,
           const struct ast_expr *expr)
{
    if (expr->kind != AST_NAME || expr->bracketed) {
        return false;
    }
    const char *name = fy_expand(body->front, body->unit, expr->name);
    const struct fy_axis_info *axis = &body->axes[row->axes[k].axis];
    return name && !axis->anonymous && strcmp(axis->name, name) == 0;
}

/* +1 for i + j, -1 for i - j, else 0. */
static int
index_sum(struct fy_body *body, const struct fy_operand *row,
          const struct ast_expr *expr)
{
    if (expr->kind != AST_BINARY || expr->bracketed ||
        (expr->op != FY_OP_ADD && expr->op != FY_OP_SUB) ||
        !names_axis(body, row, 0, expr->a) ||
        !names_axis(body, row, 1, expr->b)) {
        return 0;
    }
    return expr->op == FY_OP_ADD ? 1 : -1;
}

static bool
is_compare(const struct ast_expr *expr, unsigned op)
{
    return expr->kind == AST_BINARY && !expr->bracketed && expr->op == op;
}

/* lo <= i + j <= hi, with either bound left out; >= the other way round. */
static void
where(struct fy_body *body, struct fy_operand *row,
      const struct ast_clause *clause)
{
    const struct ast_expr *e = clause->expr, *lo = NULL, *hi = NULL;
    unsigned op = is_compare(e, FY_OP_GE) ? FY_OP_GE : FY_OP_LE;
    int sign = 0;
    if (is_compare(e, op)) {
        if (is_compare(e->a, op)) {
            sign = index_sum(body, row, e->a->b);
            lo = e->a->a;
            hi = e->b;
        } else if ((sign = index_sum(body, row, e->b)) != 0) {
            lo = e->a;
        } else {
            sign = index_sum(body, row, e->a);
            hi = e->b;
        }
    }
    if (sign == 0) {
        fy_diagnostic_hint(
            fy_error(body->front, clause->span,
                     "`where' bounds the sum or the difference of the "
                     "operand's first two axes"),
            "write where LO <= i + j <= HI or where LO <= i - j <= HI, with "
            "its first axis for i and its second for j");
        return;
    }
    if (op == FY_OP_GE) {
        const struct ast_expr *swap = lo;
        lo = hi;
        hi = swap;
    }
    row->sign = (int8_t)sign;
    if (lo) {
        row->lo = fy_node_of_integer(body, lo);
    }
    if (hi) {
        row->hi = fy_node_of_integer(body, hi);
    }
}

/* lower: i - j >= 0; strict: >= 1; with a condition: or unbounded. */
static void
triangle(struct fy_body *body, struct fy_operand *row,
         const struct ast_clause *lower, const struct ast_clause *upper,
         const struct ast_clause *strict)
{
    uint32_t zero = fy_node_int(body, 0);
    struct fy_span span = (lower ? lower : upper)->span;
    row->sign = -1;
    uint32_t low = zero, high = zero;
    if (strict) {
        low = fy_node_int(body, 1);
        high = fy_node_int(body, -1);
        if (strict->expr) {
            uint32_t when = fy_node_of_expr(body, strict->expr);
            low = make_cond(body, when, low, zero, strict->span);
            high = make_cond(body, when, high, zero, strict->span);
        }
    }
    if (lower) {
        row->lo = low;
        if (lower->expr) {
            row->lo = make_cond(body, fy_node_of_expr(body, lower->expr), low,
                                fy_node_int(body, -FY_UNBOUNDED), span);
        }
    }
    if (upper) {
        row->hi = high;
        if (upper->expr) {
            row->hi = make_cond(body, fy_node_of_expr(body, upper->expr), high,
                                fy_node_int(body, FY_UNBOUNDED), span);
        }
    }
    if (lower && upper && (!lower->expr || !upper->expr)) {
        fy_diagnostic_hint(
            fy_error(body->front, upper->span,
                     "both triangles at once leave only the diagonal"),
            "say when: lower when uplo in \"Ll\" upper when uplo in \"Uu\"");
    }
}

/* ---- clauses ---- */

static const char *
clause_name(enum ast_clause_kind kind)
{
    static const char *const names[] = {
        "lower", "upper", "strict",  "where", "when",    "in when", "out when",
        "as",    "at",    "returns", "query", "failure", "finite",
    };
    return kind <= AST_FINITE ? names[kind] : "?";
}

/* One of each kind, by kind. */
static void
sort_clauses(struct fy_body *body, const struct ast_statement *statement,
             const struct ast_clause **by_kind)
{
    for (const struct ast_clause *c = statement->clauses; c; c = c->next) {
        if (by_kind[c->kind]) {
            fy_error(body->front, c->span, "`%s' stands here twice",
                     clause_name(c->kind));
        }
        by_kind[c->kind] = c;
    }
}

static void
constraints(struct fy_body *body, struct fy_operand *row,
            const struct ast_clause **by_kind)
{
    const struct ast_clause *first = by_kind[AST_LOWER]   ? by_kind[AST_LOWER]
                                     : by_kind[AST_UPPER] ? by_kind[AST_UPPER]
                                                          : by_kind[AST_WHERE];
    if (!first) {
        if (by_kind[AST_STRICT]) {
            fy_error(body->front, by_kind[AST_STRICT]->span,
                     "`strict' belongs to `lower' or `upper'");
        }
        return;
    }
    if (row->naxes < 2) {
        fy_error(body->front, first->span, "`%s' needs two axes",
                 clause_name(first->kind));
        return;
    }
    if (by_kind[AST_WHERE] && first != by_kind[AST_WHERE]) {
        fy_error(body->front, by_kind[AST_WHERE]->span,
                 "`where' and a triangle cannot stand together");
        return;
    }
    if (first == by_kind[AST_WHERE]) {
        where(body, row, first);
    } else {
        triangle(body, row, by_kind[AST_LOWER], by_kind[AST_UPPER],
                 by_kind[AST_STRICT]);
    }
}

static void
conditions(struct fy_body *body, struct fy_operand *row,
           const struct ast_clause **by_kind)
{
    struct {
        enum ast_clause_kind kind;
        uint32_t *node;
    } rows[] = {{AST_WHEN, &row->when},
                {AST_OUT_WHEN, &row->out_when},
                {AST_IN_WHEN, &row->in_when}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct ast_clause *clause = by_kind[rows[i].kind];
        if (!clause) {
            continue;
        }
        *rows[i].node = fy_node_of_expr(body, clause->expr);
        if (i > 0 && row->access != FY_ACCESS_INOUT) {
            fy_diagnostic_hint(fy_error(body->front, clause->span,
                                        "`%s' is for inout operands",
                                        clause_name(clause->kind)),
                               "`when' says when an operand is accessed at "
                               "all");
        }
    }
}

/* Bytes must be known to be copied. */
static int
element_type(struct fy_body *body, struct fy_operand *row,
             const struct fy_cell *cell, const struct ast_expr *path)
{
    if (cell->type != FY_T_POINTER) {
        fy_diagnostic_hint(
            fy_error(body->front, path->span, "'%.*s' is not a pointer",
                     FY_MAX_QUOTED,
                     fy_path_text(body->front, body->unit, path)),
            "an operand is an array: declare it `T *'");
        return -1;
    }
    if (cell->pointee == FY_T_VOID) {
        fy_diagnostic_hint(
            fy_error(body->front, path->span,
                     "what '%.*s' points to has no size", FY_MAX_QUOTED,
                     fy_path_text(body->front, body->unit, path)),
            "declare the element's type in the head, or `opaque'");
        return -1;
    }
    row->element = cell->pointee;
    return 0;
}

/* All elements of a field, which is a scalar or an array of fixed length. */
static void
written_field(struct fy_body *body, struct fy_operand *row,
              const struct ast_statement *statement, uint32_t elements,
              const struct ast_clause **by_kind)
{
    if (!(row->access & FY_ACCESS_OUT)) {
        fy_diagnostic_hint(
            fy_error(body->front, statement->span,
                     "a field is declared only when it is written"),
            "the call reads all of the struct; write out or inout");
    }
    if (by_kind[AST_AT]) {
        fy_error(body->front, by_kind[AST_AT]->span,
                 "`at' is for what a pointer leads to");
    }
    uint32_t axis =
        unnamed_axis(body, fy_node_int(body, elements), statement->expr->span);
    if (axis != FY_NIL) {
        row->axes[0].axis = axis;
        row->axes[0].stride = fy_node_int(body, 1);
        row->naxes = 1;
    }
}

/* The head promises that nothing is written there. */
static void
check_const(struct fy_body *body, const struct fy_operand *row,
            const struct fy_cell *cell, const struct ast_statement *statement)
{
    const struct fy_unit_arg *arg = &body->unit->args[cell->arg];
    if (cell->kind == FY_CELL_FIELD || !arg->resolved.is_const ||
        row->access == FY_ACCESS_IN) {
        return;
    }
    fy_diagnostic_hint(fy_error(body->front, statement->span,
                                "'%.*s' is written, but the head says const",
                                FY_MAX_QUOTED, arg->name),
                       "write `in', or take const out of the head");
}

/* Where a device without the scratch gets results from, and operands that it
 * must not be given. */
static void
flags(struct fy_body *body, struct fy_operand *row,
      const struct ast_clause **by_kind)
{
    const struct ast_clause *query = by_kind[AST_QUERY];
    const struct ast_clause *failure = by_kind[AST_FAILURE];
    const struct ast_clause *finite = by_kind[AST_FINITE];
    if ((query || failure) && !by_kind[AST_RETURNS]) {
        fy_error(body->front, (query ? query : failure)->span,
                 "`%s' says more of `returns'", query ? "query" : "failure");
    }
    if (query && failure) {
        fy_error(body->front, failure->span,
                 "`query' and `failure' cannot stand together");
    }
    if (finite && (!(row->access & FY_ACCESS_IN) || row->element < FY_T_F32 ||
                   row->element > FY_T_C64 || row->naxes > 2)) {
        fy_error(body->front, finite->span,
                 "`finite' is for vectors and matrices of floating point "
                 "numbers that are read");
    }
    if (finite && finite->expr) {
        uint32_t zero = fy_node_int(body, 0);
        row->finite_lo =
            make_cond(body, fy_node_of_expr(body, finite->expr), zero,
                      fy_node_int(body, -FY_UNBOUNDED), finite->span);
        row->finite_hi =
            make_cond(body, fy_node_of_expr(body, finite->with), zero,
                      fy_node_int(body, FY_UNBOUNDED), finite->span);
        if (row->naxes != 2) {
            fy_error(body->front, finite->span, "a triangle needs two axes");
        }
    }
    row->flags = (uint16_t)((query ? FY_OPERAND_QUERY : 0) |
                            (failure ? FY_OPERAND_FAILURE : 0) |
                            (finite ? FY_OPERAND_FINITE : 0));
}

void
fy_compile_operand(struct fy_body *body, const struct ast_statement *statement)
{
    struct fy_front *front = body->front;
    const struct ast_clause *by_kind[AST_FINITE + 1] = {0};
    struct fy_operand row;
    memset(&row, 0, sizeof row);
    row.access = statement->access;
    row.at = row.lo = row.hi = FY_NIL;
    row.when = row.out_when = row.in_when = row.returns = FY_NIL;
    row.finite_lo = row.finite_hi = FY_NIL;
    uint32_t line, column;
    fy_span_position(statement->span, &line, &column);
    row.line = line;
    uint32_t elements = 0; /* of a field of a struct that is written */
    uint32_t cell = statement->dimensions
                        ? fy_cell_of_path(front, body->unit, statement->expr)
                        : fy_cell_of_written_field(front, body->unit,
                                                   statement->expr, &elements);
    if (cell == FY_NIL) {
        return;
    }
    body->unit->args[body->unit->cells.row[cell].arg].used = true;
    if (element_type(body, &row, &body->unit->cells.row[cell],
                     statement->expr)) {
        return;
    }
    row.base = (uint16_t)cell;
    check_const(body, &row, &body->unit->cells.row[cell], statement);
    sort_clauses(body, statement, by_kind);
    const char *name = by_kind[AST_AS]
                           ? fy_expand(front, body->unit, by_kind[AST_AS]->name)
                           : fy_path_text(front, body->unit, statement->expr);
    if (!name) {
        return;
    }
    if (fy_body_find_operand(body, name)) {
        fy_diagnostic_hint(fy_error(front, statement->expr->span,
                                    "operand '%.*s' is declared twice",
                                    FY_MAX_QUOTED, name),
                           "a second view of the same memory needs a name of "
                           "its own: as NAME");
        return;
    }
    if (elements > 0) {
        written_field(body, &row, statement, elements, by_kind);
    } else {
        dimensions(body, &row, statement, &row.at);
    }
    if (by_kind[AST_AT]) {
        uint32_t at = fy_node_of_integer(body, by_kind[AST_AT]->expr);
        row.at = row.at == FY_NIL
                     ? at
                     : make(body, FY_OP_ADD, row.at, at, by_kind[AST_AT]->span);
    }
    if (by_kind[AST_RETURNS]) {
        row.returns = fy_node_of_integer(body, by_kind[AST_RETURNS]->expr);
        if (row.access != FY_ACCESS_SCRATCH || row.naxes != 1) {
            fy_error(front, by_kind[AST_RETURNS]->span,
                     "`returns' is for scratch operands of one axis");
        }
    }
    flags(body, &row, by_kind);
    constraints(body, &row, by_kind);
    conditions(body, &row, by_kind);
    if (body->noperands == FY_MAX_OPERANDS) {
        fy_error(front, statement->expr->span,
                 "a function has at most %d operands", FY_MAX_OPERANDS);
        return;
    }
    row.name = fy_intern(front, name);
    body->operands[body->noperands++] =
        (struct fy_operand_info){.row = row, .name = name, .ast = statement};
}
