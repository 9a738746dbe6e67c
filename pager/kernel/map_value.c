/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See map_value.h. It walks the tree at every element, and is slow. Recursion
 * is bounded, as that of all expressions is: the checker has seen to it.
 * Long because every function has its row.
 */
#include "config.h"

#include "pager/kernel/map_value.h"

#include <string.h>

#include "annotations/model/operators.h"
#include "pager/base/libm.h"
#include "pager/kernel/map_type.h"

struct value {
    uint8_t type; /* F32, F64, I64 or FY_MAP_LITERAL, which is in d */
    union {
        float f;
        double d;
        int64_t i;
    };
};

struct walker {
    const struct fy_bound *bound;
    const struct fy_call_row *row;
    const struct fy_node *nodes;
    const struct fy_operand *operands;
    char *const *at;
    struct value stored[FY_MAX_ARGS];
    int status;
};

static struct value node_value(struct walker *w, uint32_t index);

/* ---- types ---- */

static struct value
integer(int64_t i)
{
    return (struct value){.type = FY_T_I64, .i = i};
}

static struct value
real(uint8_t type, double d)
{
    struct value v = {.type = type, .d = d};
    if (type == FY_T_F32) {
        v.f = (float)d;
    }
    return v;
}

/* What does not fit becomes what the processor makes of it, and no trap. */
static int64_t
whole(double d)
{
    return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : INT64_MIN;
}

/* A conversion of C; a literal that stays one is a double. */
static struct value
as_type(struct value v, uint8_t type)
{
    const uint8_t to = type == FY_MAP_LITERAL ? (uint8_t)FY_T_F64 : type;
    if (v.type == FY_T_I64) {
        return to == FY_T_I64   ? v
               : to == FY_T_F32 ? (struct value){.type = to, .f = (float)v.i}
                                : real(to, (double)v.i);
    }
    const double d = v.type == FY_T_F32 ? (double)v.f : v.d;
    return to == FY_T_I64 ? integer(whole(d)) : real(to, d);
}

/* What a value of `type', float or double, makes of it. */
static double
as_double(struct value v, uint8_t type)
{
    v = as_type(v, type);
    return type == FY_T_F32 ? (double)v.f : v.d;
}

static bool
is_true(struct value v)
{
    return v.type == FY_T_I64   ? v.i != 0
           : v.type == FY_T_F32 ? v.f != 0
                                : v.d != 0;
}

/* ---- elements ---- */

static struct value
load(enum fy_type type, const char *at)
{
    union fy_raw raw = {{0, 0}};
    memcpy(&raw, at, fy_type_bytes(type, 64));
    switch (type) {
    case FY_T_F32:
        return (struct value){.type = FY_T_F32, .f = raw.f[0]};
    case FY_T_F64:
        return real(FY_T_F64, raw.d[0]);
    case FY_T_CHAR:
    case FY_T_I8:
        return integer((int8_t)raw.bytes[0]);
    case FY_T_U8:
        return integer(raw.bytes[0]);
    case FY_T_I16:
        return integer((int16_t)raw.u[0]);
    case FY_T_U16:
        return integer((uint16_t)raw.u[0]);
    case FY_T_I32:
        return integer(raw.i32);
    case FY_T_U32:
        return integer((uint32_t)raw.u[0]);
    default:
        return integer(raw.i);
    }
}

static void
put(enum fy_type type, struct value v, char *at)
{
    const uint32_t bytes = fy_type_bytes(type, 64);
    if (type == FY_T_F32) {
        memcpy(at, &v.f, bytes);
    } else if (type == FY_T_F64) {
        memcpy(at, &v.d, bytes);
    } else {
        memcpy(at, &v.i, bytes); /* little-endian: the low bytes */
    }
}

static enum fy_type
element_type(const struct walker *w, uint32_t operand)
{
    return fy_type_resolve((enum fy_type)w->operands[operand].element,
                           w->bound->integer_bits);
}

/* Elements are computed with as float, double or 64-bit integers. */
static uint8_t
computed_type(enum fy_type type)
{
    return type == FY_T_F32 || type == FY_T_F64 ? (uint8_t)type
                                                : (uint8_t)FY_T_I64;
}

static struct value
element(struct walker *w, uint32_t operand)
{
    const enum fy_type type = element_type(w, operand);
    if (!w->at[operand]) {
        return as_type(integer(0), computed_type(type));
    }
    return load(type, w->at[operand]);
}

/* As it lies in memory, and is read back by the maps behind it. */
static struct value
through_element(enum fy_type type, struct value v)
{
    union fy_raw raw;
    put(type, as_type(v, computed_type(type)), (char *)&raw);
    return load(type, (const char *)&raw);
}

/* ---- functions ---- */

static double
erfinv(double x)
{
    if (!(x > -1 && x < 1)) {
        return x == 1 || x == -1 ? copysign(INFINITY, x) : NAN;
    }
    /* Winitzki's start, and Newton's steps. */
    const double l = log1p(-x * x), h = 4.33074675078 + l / 2;
    double y = copysign(sqrt(sqrt(h * h - l / 0.147) - h), x);
    for (int i = 0; i < 4; i++) {
        y -= (erf(y) - x) / (M_2_SQRTPI * exp(-y * y));
    }
    return y;
}

static double
erfcinv(double x)
{
    if (x > 0.1) {
        return x > 1.9 ? -erfcinv(2 - x) : erfinv(1 - x);
    }
    if (!(x > 0)) {
        return x == 0 ? INFINITY : NAN;
    }
    const double l = log(x * (2 - x)), h = 4.33074675078 + l / 2;
    double y = sqrt(sqrt(h * h - l / 0.147) - h);
    for (int i = 0; i < 8; i++) {
        const double slope = M_2_SQRTPI * exp(-y * y);
        y += slope > 0 ? (erfc(y) - x) / slope : 0;
    }
    return y;
}

static double
normcdf(double x)
{
    return erfc(-x * M_SQRT1_2) / 2;
}

static double
normcdfinv(double x)
{
    return -M_SQRT2 * erfcinv(2 * x);
}

static double
ten_to(double x)
{
    return pow(10, x);
}

/* In double and in single precision, of as many arguments as it takes. */
#define ROW(id, arguments, in_double, in_single) \
    case FY_MATH_##id:                           \
        if (type == FY_T_F32) {                  \
            out.f = in_single arguments(f);      \
        } else {                                 \
            out.d = in_double arguments(d);      \
        }                                        \
        break;
#define ONE(x)       (x[0])
#define TWO(x)       (x[0], x[1])
#define THREE(x)     (x[0], x[1], x[2])
#define C1(id, name) ROW(id, ONE, name, name##f)
/* Computed in double also for single precision. */
#define DOUBLE(id, name) ROW(id, ONE, name, (float)name)
#define C2(id, name)     ROW(id, TWO, name, name##f)

static struct value
apply(enum fy_math function, uint8_t type, const double *d, const float *f)
{
    struct value out = {.type = type};
    switch (function) {
        C1(SQRT, sqrt)
        C1(CBRT, cbrt)
        C1(EXP, exp)
        C1(EXP2, exp2)
        DOUBLE(EXP10, ten_to)
        C1(EXPM1, expm1)
        C1(LOG, log)
        C1(LOG2, log2)
        C1(LOG10, log10)
        C1(LOG1P, log1p)
        C1(SIN, sin)
        C1(COS, cos)
        C1(TAN, tan)
        C1(ASIN, asin)
        C1(ACOS, acos)
        C1(ATAN, atan)
        C1(SINH, sinh)
        C1(COSH, cosh)
        C1(TANH, tanh)
        C1(ASINH, asinh)
        C1(ACOSH, acosh)
        C1(ATANH, atanh)
        C1(ERF, erf)
        C1(ERFC, erfc)
        DOUBLE(ERFINV, erfinv)
        DOUBLE(ERFCINV, erfcinv)
        DOUBLE(NORMCDF, normcdf)
        DOUBLE(NORMCDFINV, normcdfinv)
        C1(TGAMMA, tgamma)
        C1(LGAMMA, lgamma)
        C1(FABS, fabs)
        C1(FLOOR, floor)
        C1(CEIL, ceil)
        C1(TRUNC, trunc)
        C1(ROUND, round)
        C1(RINT, rint)
        C2(POW, pow)
        C2(ATAN2, atan2)
        C2(HYPOT, hypot)
        C2(FMOD, fmod)
        C2(REMAINDER, remainder)
        C2(FMIN, fmin)
        C2(FMAX, fmax)
        C2(FDIM, fdim)
        C2(COPYSIGN, copysign)
        C2(NEXTAFTER, nextafter)
        ROW(FMA, THREE, fma, fmaf)
    case FY_MATH_COUNT:
        break;
    }
    return out;
}

static struct value
math(struct walker *w, const struct fy_node *node)
{
    const uint32_t parts[3] = {node->a, node->b, node->c};
    struct value v[3] = {{0}};
    double d[3] = {0};
    float f[3] = {0};
    const unsigned arity = fy_node_arity(node);
    uint8_t common = FY_MAP_LITERAL;
    for (unsigned k = 0; k < arity; k++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): arity <= 3 */
        v[k] = node_value(w, parts[k]);
        common = fy_map_common(common, v[k].type);
    }
    const uint8_t type = fy_map_real(common);
    for (unsigned k = 0; k < arity; k++) {
        if (type == FY_T_F32) {
            f[k] = as_type(v[k], FY_T_F32).f;
        } else {
            d[k] = as_type(v[k], FY_T_F64).d;
        }
    }
    return apply((enum fy_math)node->u.i, type, d, f);
}

/* ---- operators ---- */

/* A comparison, or min or max. */
static struct value
compare(unsigned op, enum fy_relation relation, struct value a, struct value b)
{
    const bool holds = fy_holds(op, relation);
    return fy_operators[op].is_truth ? integer(holds) : holds ? a : b;
}

/* Integers wrap, and what C leaves open is what the kernel makes of it. */
static struct value
of_integers(unsigned op, int64_t a, int64_t b)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
    case FY_OP_ADD:
        return integer((int64_t)(x + y));
    case FY_OP_SUB:
        return integer((int64_t)(x - y));
    case FY_OP_MUL:
        return integer((int64_t)(x * y));
    case FY_OP_DIV:
        return integer(b == 0 ? 0 : b == -1 ? (int64_t)(0 - x) : a / b);
    case FY_OP_MOD:
        return integer(b == 0 || b == -1 ? 0 : a % b);
    default:
        return compare(op, fy_relation_of_integers(a, b), integer(a),
                       integer(b));
    }
}

/*
 * Floats, too, are computed with as doubles: those have more than twice the
 * digits, so that the result, rounded to float, is that of the operation among
 * floats.
 */
static struct value
of_reals(unsigned op, uint8_t type, struct value left, struct value right)
{
    const double a = as_double(left, type), b = as_double(right, type);
    switch (op) {
    case FY_OP_ADD:
        return real(type, a + b);
    case FY_OP_SUB:
        return real(type, a - b);
    case FY_OP_MUL:
        return real(type, a * b);
    case FY_OP_DIV:
        return real(type, a / b);
    default:
        return compare(op, fy_relation_of_reals(a, b), real(type, a),
                       real(type, b));
    }
}

/* A scalar of the call, in the type that a kernel gets it in. */
static struct value
scalar(struct walker *w, uint32_t index, uint8_t type)
{
    const struct fy_scope scope = {w->bound->model, w->bound->function,
                                   w->bound->cells, w->bound->extents};
    struct fy_value value;
    if (type == FY_T_VOID || fy_eval(&scope, index, &value) != 0 ||
        (value.kind != FY_V_REAL && value.kind != FY_V_INT) ||
        (value.kind == FY_V_REAL) != (type != FY_T_I64)) {
        w->status = FY_ERR_UNSUPPORTED;
        return integer(0);
    }
    return type == FY_T_I64 ? integer(value.i) : real(type, value.r);
}

static struct value
binary(struct walker *w, const struct fy_node *node, uint32_t index)
{
    if (w->nodes[node->a].type == FY_T_POINTER ||
        w->nodes[node->b].type == FY_T_POINTER) {
        return scalar(w, index, FY_T_I64);
    }
    const struct value a = node_value(w, node->a);
    if (node->op == FY_OP_AND || node->op == FY_OP_OR) {
        const bool left = is_true(a);
        return integer(left == (node->op == FY_OP_OR)
                           ? left
                           : is_true(node_value(w, node->b)));
    }
    const struct value b = node_value(w, node->b);
    const uint8_t common = fy_map_common(a.type, b.type);
    if (common == FY_T_I64) {
        return of_integers(node->op, a.i, b.i);
    }
    return of_reals(node->op, common, a, b);
}

static struct value
unary(struct walker *w, const struct fy_node *node)
{
    struct value v = node_value(w, node->a);
    if (node->op == FY_OP_NOT) {
        return integer(!is_true(v));
    }
    const bool negate = node->op == FY_OP_NEG;
    if (v.type == FY_T_I64) {
        const int64_t minus = (int64_t)(0 - (uint64_t)v.i);
        return integer(negate || v.i < 0 ? minus : v.i);
    }
    if (v.type == FY_T_F32) {
        v.f = negate ? -v.f : fabsf(v.f);
    } else {
        v.d = negate ? -v.d : fabs(v.d);
    }
    return v;
}

/* Both branches: their types make the result's. */
static struct value
conditional(struct walker *w, const struct fy_node *node)
{
    const bool first = is_true(node_value(w, node->a));
    const struct value b = node_value(w, node->b);
    const struct value c = node_value(w, node->c);
    const uint8_t common = fy_map_common(b.type, c.type);
    struct value v = as_type(first ? b : c, common);
    v.type = common;
    return v;
}

static struct value
node_value(struct walker *w, uint32_t index)
{
    const struct fy_node *node = &w->nodes[index];
    if (w->status != 0) {
        return integer(0);
    }
    switch (node->op) {
    case FY_OP_INT:
        return integer(node->u.i);
    case FY_OP_REAL:
        return real(FY_MAP_LITERAL, node->u.r);
    case FY_OP_CELL:
        return scalar(
            w, index,
            fy_map_cell_type(&FY_OF(w->bound, fy_cell, cells)[node->a]));
    case FY_OP_EXTENT:
    case FY_OP_IN:
        return scalar(w, index, FY_T_I64);
    case FY_OP_ELEMENT:
        return element(w, node->a);
    case FY_OP_VALUE:
        return w->stored[node->a];
    case FY_OP_MATH:
        return math(w, node);
    case FY_OP_NEG:
    case FY_OP_NOT:
    case FY_OP_ABS:
        return unary(w, node);
    case FY_OP_COND:
        return conditional(w, node);
    default:
        return binary(w, node, index);
    }
}

/* ---- a row of maps ---- */

int
fy_map_evaluate(const struct fy_bound *bound, const struct fy_call_row *row,
                char *const *at)
{
    struct walker w = {.bound = bound, .row = row, .at = at};
    w.nodes = FY_TABLE(bound->model, fy_node, nodes);
    w.operands = FY_OF(bound, fy_operand, operands);
    for (uint32_t k = 0; k < row->nargs; k++) {
        const struct value v = node_value(&w, row->args[k]);
        w.stored[k] = through_element(element_type(&w, row->to[k]), v);
        if (!at[row->to[k]]) {
            w.status = FY_ERR_UNSUPPORTED;
        }
    }
    for (uint32_t k = 0; k < row->nargs && w.status == 0; k++) {
        put(element_type(&w, row->to[k]), w.stored[k], at[row->to[k]]);
    }
    return w.status;
}

static bool
count_step(const struct fy_node *node, void *state)
{
    uint32_t *steps = state;
    (void)node;
    ++*steps;
    return true;
}

uint32_t
fy_map_steps(const struct fy_bound *bound, const struct fy_call_row *row)
{
    const struct fy_node *nodes = FY_TABLE(bound->model, fy_node, nodes);
    uint32_t steps = 0;
    for (uint32_t k = 0; k < row->nargs; k++) {
        (void)fy_node_walk(nodes, row->args[k], count_step, &steps);
    }
    return steps;
}
