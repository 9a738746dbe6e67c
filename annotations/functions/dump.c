/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compiled model as text: as the compiler understood it, families written out,
 * lets in place, every expression fully bracketed. For `ferry check --dump' and
 * for tests; the model must be valid.
 */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "annotations/model/annotations.h"
#include "annotations/model/model.h"
#include "annotations/model/operators.h"

struct dump {
    const struct fy_model *model;
    const struct fy_function *function;
    FILE *to;
};

/* printf; that it failed stays with the stream, for whoever closes it. */
static void __attribute__((format(printf, 2, 3)))
put(const struct dump *dump, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vfprintf(dump->to, format, list);
    va_end(list);
}

static const char *
text(const struct dump *dump, fy_str s)
{
    return fy_model_string(dump->model, s);
}

static void node(const struct dump *dump, uint32_t index);

static void
axis_name(const struct dump *dump, uint32_t index)
{
    const struct fy_axis *axis = &FY_OF(dump, fy_axis, axes)[index];
    if (axis->name) {
        put(dump, "%s", text(dump, axis->name));
    } else {
        node(dump, axis->extent);
    }
}

static void
real(const struct dump *dump, double r)
{
    char digits[40];
    (void)snprintf(digits, sizeof digits, "%.17g", r);
    put(dump, "%s", digits);
    if (!strpbrk(digits, ".en")) {
        put(dump, ".0");
    }
}

/* The description of a plan: an absent part as a dash. */
static void
cufft(const struct dump *dump, uint32_t row)
{
    const struct fy_call_row *plan =
        &FY_TABLE(dump->model, fy_call_row, calls)[row];
    for (uint32_t i = 0; i < plan->nargs; i++) {
        put(dump, "%s", i == 0 ? "(" : ", ");
        if (plan->args[i] == FY_NIL) {
            put(dump, "-");
        } else {
            node(dump, plan->args[i]);
        }
    }
    put(dump, ")");
}

static void
leaf(const struct dump *dump, const struct fy_node *n)
{
    const struct fy_function *f = dump->function;
    const struct fy_cell *cells = FY_TABLE(dump->model, fy_cell, cells);
    const struct fy_operand *operands =
        FY_TABLE(dump->model, fy_operand, operands);
    switch (n->op) {
    case FY_OP_INT:
        if (n->type == FY_T_CHAR && n->u.i > ' ' && n->u.i < 0x7f) {
            put(dump, "'%c'", (int)n->u.i);
        } else {
            put(dump, "%" PRId64, n->u.i);
        }
        break;
    case FY_OP_REAL:
        real(dump, n->u.r);
        break;
    case FY_OP_CELL:
        put(dump, "%s", text(dump, cells[f->cells + n->a].name));
        break;
    case FY_OP_EXTENT:
        put(dump, "extent ");
        axis_name(dump, n->a);
        break;
    case FY_OP_WORD:
        put(dump, "%s", fy_word_text(n->a));
        if (n->a == FY_WORD_WORKSPACE) {
            put(dump, "(%s", text(dump, n->b));
            for (unsigned i = 0; i < 32; i++) {
                if (n->c >> i & 1) {
                    put(dump, " #%u", i);
                }
            }
            put(dump, ")");
        } else if (n->a == FY_WORD_CUFFT) {
            cufft(dump, n->c);
        }
        break;
    case FY_OP_ELEMENT:
        put(dump, "%s[]", text(dump, operands[f->operands + n->a].name));
        break;
    case FY_OP_VALUE:
        put(dump, "value #%u", n->a);
        break;
    default:
        put(dump, "%s&%s", n->b != 0 ? "transposed " : "",
            text(dump, operands[f->operands + n->a].name));
    }
}

static void
call(const struct dump *dump, const struct fy_node *n)
{
    const uint32_t parts[3] = {n->a, n->b, n->c};
    const unsigned arity = fy_node_arity(n);
    put(dump, "%s(",
        n->op == FY_OP_MATH ? fy_maths[n->u.i].word : fy_operators[n->op].word);
    for (unsigned i = 0; i < arity; i++) {
        put(dump, "%s", i ? ", " : "");
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): arity <= 3 */
        node(dump, parts[i]);
    }
    put(dump, ")");
}

static void
node(const struct dump *dump, uint32_t index)
{
    const struct fy_node *n = &FY_TABLE(dump->model, fy_node, nodes)[index];
    const struct fy_operator *row = &fy_operators[n->op];
    if (n->op == FY_OP_SCALAR) {
        put(dump, "address of ");
        node(dump, n->a);
    } else if (row->notation == FY_NOTATION_PREFIX) {
        put(dump, "%s", row->word);
        node(dump, n->a);
    } else if (row->notation == FY_NOTATION_CALL || n->op == FY_OP_MATH) {
        call(dump, n);
    } else if (row->arity == 0) {
        leaf(dump, n);
    } else {
        put(dump, "(");
        node(dump, n->a);
        if (n->op == FY_OP_COND) {
            put(dump, " ? ");
            node(dump, n->b);
            put(dump, " : ");
            node(dump, n->c);
        } else if (n->op == FY_OP_IN) {
            put(dump, " in \"%s\"", text(dump, n->b));
        } else {
            put(dump, " %s ", row->word);
            node(dump, n->b);
        }
        put(dump, ")");
    }
}

/* "before EXPR" when there is one. */
static void
optional(const struct dump *dump, const char *before, uint32_t index)
{
    if (index == FY_NIL) {
        return;
    }
    put(dump, "%s", before);
    node(dump, index);
}

static const char *
type_text(unsigned type)
{
    static const char *const names[] = {
        "void",     "char",    "int8_t",   "uint8_t",       "int16_t",
        "uint16_t", "int32_t", "uint32_t", "int64_t",       "uint64_t",
        "integer",  "float",   "double",   "complex float", "complex double",
        "pointer",  "handle",
    };
    _Static_assert(sizeof names / sizeof names[0] == FY_T_COUNT, "one each");
    return names[type];
}

static void
head(const struct dump *dump)
{
    const struct fy_function *f = dump->function;
    const struct fy_arg *args = FY_OF(dump, fy_arg, args);
    put(dump, "function %s %s %s(", text(dump, f->family),
        type_text(f->return_type), text(dump, f->name));
    for (uint16_t i = 0; i < f->nargs; i++) {
        const struct fy_arg *a = &args[i];
        put(dump, "%s%s", i ? ", " : "",
            a->flags & FY_ARG_CONST ? "const " : "");
        if (a->type == FY_T_POINTER) {
            put(dump, "%s *", type_text(a->pointee));
        } else if (a->type == FY_T_HANDLE) {
            put(dump, "%s ", text(dump, a->handle));
        } else {
            put(dump, "%s %s", type_text(a->type),
                a->flags & FY_ARG_REFERENCE ? "&" : "");
        }
        put(dump, "%s", text(dump, a->name));
        if (a->flags & FY_ARG_HIDDEN_LENGTH) {
            put(dump, " + length");
        }
        if (a->flags & FY_ARG_OPAQUE) {
            put(dump, " opaque");
        }
    }
    put(dump, ")\n");
}

static void
symbols(const struct dump *dump)
{
    const struct fy_symbol *all = FY_TABLE(dump->model, fy_symbol, symbols);
    for (uint32_t i = 0; i < dump->model->symbols.count; i++) {
        if (&FY_TABLE(dump->model, fy_function, functions)[all[i].function] ==
            dump->function) {
            put(dump, "    symbol %s", text(dump, all[i].name));
            if (all[i].integer_bits) {
                put(dump, " integer %u\n", all[i].integer_bits);
            } else {
                put(dump, " integer any\n");
            }
        }
    }
}

static void
handles(const struct dump *dump)
{
    const struct fy_function *f = dump->function;
    const struct fy_cell *cells = FY_OF(dump, fy_cell, cells);
    for (uint16_t i = 0; i < f->ncells; i++) {
        if (cells[i].kind != FY_CELL_HANDLE) {
            continue;
        }
        const struct fy_function *maker =
            &FY_TABLE(dump->model, fy_function, functions)[cells[i].maker];
        const struct fy_cell *there = &FY_TABLE(
            dump->model, fy_cell, cells)[maker->cells + cells[i].offset];
        put(dump, "    cell %s is %s of %s\n", text(dump, cells[i].name),
            text(dump, there->name), text(dump, maker->name));
    }
}

static void
axes(const struct dump *dump)
{
    static const char *const rules[] = {"", " sums", " combines hypot",
                                        " combines max", " combines min"};
    const struct fy_function *f = dump->function;
    const struct fy_axis *rows = FY_OF(dump, fy_axis, axes);
    const struct fy_operand *operands = FY_OF(dump, fy_operand, operands);
    const struct fy_cell *cells = FY_OF(dump, fy_cell, cells);
    for (uint16_t i = 0; i < f->naxes; i++) {
        const struct fy_axis *axis = &rows[i];
        if (!axis->name) {
            continue;
        }
        put(dump, "    axis %s = ", text(dump, axis->name));
        node(dump, axis->extent);
        for (unsigned k = 0; k < FY_MAX_ALSO && axis->also[k] != FY_NIL; k++) {
            put(dump, "%s%s", k ? ", " : " also ",
                text(dump, cells[axis->also[k]].name));
        }
        if (axis->flags & FY_AXIS_SPLIT) {
            put(dump, " split");
        }
        if (axis->multiple != 1) {
            put(dump, " multiple %u", axis->multiple);
        }
        if (axis->flags & FY_AXIS_SUMS) {
            put(dump, " sums into %s",
                text(dump, operands[axis->sums_into].name));
        }
        if (axis->with_cell != FY_NIL) {
            put(dump, " with %s", text(dump, cells[axis->with_cell].name));
            optional(dump, " = ", axis->with_node);
        }
        if (axis->flags & FY_AXIS_RETURN) {
            put(dump, "%s into return", rules[f->return_rule]);
        }
        put(dump, "\n");
    }
}

static void
operand(const struct dump *dump, const struct fy_operand *o)
{
    static const char *const access[] = {"", "in", "out", "inout", "scratch"};
    const struct fy_cell *cells = FY_OF(dump, fy_cell, cells);
    put(dump, "    %s %s %s[", access[o->access], type_text(o->element),
        text(dump, cells[o->base].name));
    for (unsigned i = 0; i < o->naxes; i++) {
        put(dump, "%s", i ? ", " : "");
        axis_name(dump, o->axes[i].axis);
        optional(dump, ": ", o->axes[i].stride);
    }
    put(dump, "]");
    if (o->name != cells[o->base].name) {
        put(dump, " as %s", text(dump, o->name));
    }
    optional(dump, " at ", o->at);
    if (o->sign != 0) {
        put(dump, " where ");
        if (o->lo != FY_NIL) {
            node(dump, o->lo);
            put(dump, " <= ");
        }
        put(dump, "i %c j", o->sign > 0 ? '+' : '-');
        optional(dump, " <= ", o->hi);
    }
    optional(dump, " when ", o->when);
    optional(dump, " out when ", o->out_when);
    optional(dump, " in when ", o->in_when);
    optional(dump, " returns ", o->returns);
    put(dump, "%s", o->flags & FY_OPERAND_AMBIGUOUS ? " ambiguous" : "");
    put(dump, "%s%s%s", o->flags & FY_OPERAND_QUERY ? " query" : "",
        o->flags & FY_OPERAND_FAILURE ? " failure" : "",
        o->flags & FY_OPERAND_FINITE ? " finite" : "");
    if (o->finite_lo != FY_NIL) {
        put(dump, " where ");
        node(dump, o->finite_lo);
        put(dump, " <= i - j");
        optional(dump, " <= ", o->finite_hi);
    }
    put(dump, "\n");
}

static void
maps(const struct dump *dump, const struct fy_call_row *c)
{
    const struct fy_operand *operands = FY_OF(dump, fy_operand, operands);
    for (uint32_t i = 0; i < c->nargs; i++) {
        put(dump, "    map #%u %s = ", i, text(dump, operands[c->to[i]].name));
        node(dump, c->args[i]);
        put(dump, "\n");
    }
}

static void
launch_numbers(const struct dump *dump, const char *name, const uint32_t *nodes,
               unsigned n)
{
    put(dump, " %s(", name);
    for (unsigned i = 0; i < n && nodes[i] != FY_NIL; i++) {
        optional(dump, i ? ", " : "", nodes[i]);
    }
    put(dump, ")");
}

static void
device_call(const struct dump *dump, const char *device, uint32_t row)
{
    if (row == FY_NIL) {
        return;
    }
    const struct fy_call_row *c =
        &FY_TABLE(dump->model, fy_call_row, calls)[row];
    if (c->kind == FY_CALL_MAP) {
        maps(dump, c);
        device_call(dump, device, c->next);
        return;
    }
    const struct fy_kernel_row *kernel =
        c->kind == FY_CALL_KERNEL
            ? &FY_TABLE(dump->model, fy_kernel_row, kernels)[c->kernel]
            : NULL;
    put(dump, "    on %s ", device);
    if (kernel) {
        put(dump, "kernel \"%s\" ", text(dump, kernel->file));
    }
    put(dump, "%s(", text(dump, c->function));
    for (uint32_t i = 0; i < c->nargs; i++) {
        put(dump, "%s", i ? ", " : "");
        if (kernel && c->to[i] != FY_T_POINTER) {
            put(dump, "(%s)", type_text(c->to[i]));
        }
        node(dump, c->args[i]);
    }
    put(dump, ")");
    if (kernel) {
        launch_numbers(dump, "grid", kernel->grid, 3);
        launch_numbers(dump, "block", kernel->block, 3);
        if (kernel->shared != FY_NIL) {
            launch_numbers(dump, "shared", &kernel->shared, 1);
        }
    }
    put(dump, "\n");
    device_call(dump, device, c->next);
}

static void
function(const struct dump *dump)
{
    const struct fy_function *f = dump->function;
    const struct fy_require *requires = FY_OF(dump, fy_require, requires);
    const struct fy_operand *operands = FY_OF(dump, fy_operand, operands);
    head(dump);
    symbols(dump);
    handles(dump);
    if (f->flags & FY_FN_MAKES) {
        put(dump, "    makes a handle\n");
    }
    if (f->flags & FY_FN_FREES) {
        put(dump, "    frees its handle\n");
    }
    for (uint16_t i = 0; i < f->nrequires; i++) {
        optional(dump, "    require ", requires[i].node);
        put(dump, " else %s\n", fy_reason_word(requires[i].reason));
    }
    axes(dump);
    for (uint16_t i = 0; i < f->noperands; i++) {
        operand(dump, &operands[i]);
    }
    optional(dump, "    flops ", f->flops);
    put(dump, "%s", f->flops == FY_NIL ? "" : "\n");
    optional(dump, "    worth ", f->worth);
    put(dump, "%s", f->worth == FY_NIL ? "" : "\n");
    optional(dump, "    error ", f->error);
    put(dump, "%s", f->error == FY_NIL ? "" : "\n");
    if (f->flags & FY_FN_EXACT) {
        put(dump, "    exact\n");
    }
    if (f->blocked_by) {
        put(dump, "    blocked by %s using %s\n", text(dump, f->blocked_by),
            text(dump, f->blocked_using));
    }
    device_call(dump, "host", f->host_call);
    device_call(dump, "cuda", f->cuda_call);
    if (f->next_variant != FY_NIL) {
        put(dump, "    else the next variant\n");
    }
}

void
fy_model_dump(const struct fy_model *model, FILE *to)
{
    struct dump dump = {.model = model, .to = to};
    for (uint32_t i = 0; i < model->functions.count; i++) {
        dump.function = &FY_TABLE(model, fy_function, functions)[i];
        function(&dump);
    }
}
