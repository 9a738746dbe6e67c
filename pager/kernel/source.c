/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See source.h. The text is written in one pass: every node of an
 * expression becomes one constant of the kernel, equal nodes the same one, with
 * every conversion written out, so that nothing is left to C's promotions.
 * Long because the writer's state is shared by one case for each kind of node.
 */
#include "config.h"

#include "pager/kernel/source.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/operators.h"
#include "pager/kernel/map_type.h"

enum {
    MAX_TEXT_BYTES = 1 << 20,
    MAX_KNOWN = 4096, /* nodes of one part */
    BLOCK_THREADS = 256,
    MAX_BLOCKS = 1 << 16,
    MAX_BLOCKS_YZ = 65535,
};

/* A node that has its constant. */
struct known {
    uint32_t node;
    uint32_t name; /* v<name> */
    uint8_t type;
};

struct writer {
    char *text;
    size_t used, room;
    bool failed, unsupported;
    const struct fy_kernel_buffer *buffers;
    unsigned nbuffers, naxes;
    struct fy_kernel_text *out;
    /* of each buffer: the constant that holds its element now; 0: none */
    uint32_t current[FY_KERNEL_BUFFERS];
    bool read[FY_KERNEL_BUFFERS], written[FY_KERNEL_BUFFERS];
    uint32_t names;
    /* of the part being written */
    const struct fy_map_part *part;
    unsigned number;
    uint32_t before[FY_KERNEL_BUFFERS]; /* current, when the part began */
    uint32_t stored[FY_MAX_ARGS];       /* by its maps */
    struct known *known;
    unsigned nknown;
};

static void __attribute__((format(printf, 2, 3)))
put(struct writer *w, const char *format, ...)
{
    va_list list;
    for (;;) {
        size_t room = w->room - w->used;
        va_start(list, format);
        int n = vsnprintf(w->text + w->used, room, format, list);
        va_end(list);
        if (n < 0) {
            w->failed = true;
            return;
        }
        if ((size_t)n < room) {
            w->used += (size_t)n;
            return;
        }
        if (w->room >= MAX_TEXT_BYTES) {
            w->unsupported = true;
            w->used = 0;
            return;
        }
        char *larger = realloc(w->text, w->room * 2);
        if (!larger) {
            w->failed = true;
            w->used = 0;
            return;
        }
        w->text = larger;
        w->room *= 2;
    }
}

static const char *
type_word(uint8_t type)
{
    switch (type) {
    case FY_T_F32:
        return "float";
    case FY_T_F64:
        return "double";
    case FY_T_CHAR:
    case FY_T_I8:
        return "signed char";
    case FY_T_U8:
        return "unsigned char";
    case FY_T_I16:
        return "short";
    case FY_T_U16:
        return "unsigned short";
    case FY_T_I32:
        return "int";
    case FY_T_U32:
        return "unsigned int";
    case FY_T_I64:
        return "long long";
    default:
        return NULL;
    }
}

static const struct fy_node *
node_at(const struct writer *w, uint32_t index)
{
    return &FY_TABLE(w->part->model, fy_node, nodes)[index];
}

/* ---- parameters ---- */

static unsigned
add_param(struct writer *w, struct fy_kernel_param param)
{
    struct fy_kernel_text *out = w->out;
    for (unsigned i = 0; i < out->nparams; i++) {
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bytes */
        if (memcmp(&out->params[i], &param, sizeof param) == 0) {
            return i;
        }
    }
    if (out->nparams == FY_KERNEL_PARAMS) {
        w->unsupported = true;
        return 0;
    }
    out->params[out->nparams] = param;
    return out->nparams++;
}

static struct fy_kernel_param
param_of(unsigned kind, uint8_t type)
{
    struct fy_kernel_param param;
    memset(&param, 0, sizeof param); /* compared as bytes */
    param.kind = (uint8_t)kind;
    param.type = type;
    return param;
}

/* What has no name in a kernel: evaluated before the launch. */
static unsigned
scalar_param(struct writer *w, uint32_t node, uint8_t type)
{
    struct fy_kernel_param param = param_of(FY_PARAM_SCALAR, type);
    param.part = (uint8_t)w->number;
    param.node = node;
    return add_param(w, param);
}

static unsigned
buffer_param(struct writer *w, unsigned buffer)
{
    struct fy_kernel_param param = param_of(FY_PARAM_BUFFER, FY_T_POINTER);
    param.buffer = (uint8_t)buffer;
    return add_param(w, param);
}

static unsigned
axis_param(struct writer *w, unsigned kind, unsigned buffer, unsigned axis)
{
    struct fy_kernel_param param = param_of(kind, FY_T_I64);
    param.buffer = (uint8_t)buffer;
    param.axis = (uint8_t)axis;
    return add_param(w, param);
}

/* ---- values ---- */

/* Elements are computed with as float, double or long long. */
static uint8_t
computed_type(uint8_t type)
{
    return type == FY_T_F32 || type == FY_T_F64 ? type : FY_T_I64;
}

static uint32_t node_name(struct writer *w, uint32_t index, uint8_t *type);

static void
element_index(struct writer *w, unsigned buffer)
{
    for (unsigned a = 0; a < w->naxes; a++) {
        put(w, "%si%u * p%u", a ? " + " : "", a,
            axis_param(w, FY_PARAM_STRIDE, buffer, a));
    }
}

/* The element of an operand as the part found it. */
static uint32_t
element(struct writer *w, uint32_t operand, uint8_t *type)
{
    unsigned b =
        operand < FY_MAX_OPERANDS ? w->part->buffer[operand] : FY_NO_BUFFER;
    if (b == FY_NO_BUFFER) { /* not there in this call: never used */
        const struct fy_operand *rows = FY_OF(w->part, fy_operand, operands);
        *type = computed_type(rows[operand].element);
        put(w, "        const %s v%u = 0;\n", type_word(*type), ++w->names);
        return w->names;
    }
    if (b >= w->nbuffers || !type_word(w->buffers[b].type)) {
        w->unsupported = true;
        return 0;
    }
    *type = computed_type(w->buffers[b].type);
    if (w->before[b] == 0) {
        unsigned pointer = buffer_param(w, b);
        uint32_t name = ++w->names;
        put(w, "        const %s v%u = (%s)p%u[", type_word(*type), name,
            type_word(*type), pointer);
        element_index(w, b);
        put(w, "];\n");
        w->before[b] = name;
        w->read[b] = true;
        if (w->current[b] == 0) {
            w->current[b] = name;
        }
    }
    return w->before[b];
}

static uint32_t
known_node(const struct writer *w, uint32_t index, uint8_t *type)
{
    for (unsigned i = 0; i < w->nknown; i++) {
        if (w->known[i].node == index) {
            *type = w->known[i].type;
            return w->known[i].name;
        }
    }
    return 0;
}

/* A real literal takes the type that it meets. */
static uint8_t
literal_as(uint8_t type)
{
    return type == FY_MAP_LITERAL ? (uint8_t)FY_T_F64 : type;
}

static void
put_name(struct writer *w, uint32_t name, uint8_t type, uint8_t as)
{
    if (type == as) {
        put(w, "v%u", name);
    } else {
        put(w, "(%s)v%u", type_word(as), name);
    }
}

static uint32_t
define(struct writer *w, uint8_t type)
{
    put(w, "        const %s v%u = ", type_word(literal_as(type)), ++w->names);
    return w->names;
}

static uint32_t
math(struct writer *w, const struct fy_node *node, uint8_t *type)
{
    const uint32_t parts[3] = {node->a, node->b, node->c};
    uint32_t names[3];
    uint8_t types[3], common = FY_MAP_LITERAL;
    const unsigned arity = fy_node_arity(node);
    for (unsigned i = 0; i < arity; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): arity <= 3 */
        names[i] = node_name(w, parts[i], &types[i]);
        common = fy_map_common(common, types[i]);
    }
    *type = fy_map_real(common);
    const uint8_t as = literal_as(*type);
    uint32_t name = define(w, as);
    put(w, "%s%s(", fy_maths[node->u.i].word, as == FY_T_F32 ? "f" : "");
    for (unsigned i = 0; i < arity; i++) {
        put(w, "%s", i ? ", " : "");
        put_name(w, names[i], literal_as(types[i]), as);
    }
    put(w, ");\n");
    return name;
}

static uint32_t
binary(struct writer *w, const struct fy_node *node, uint32_t index,
       uint8_t *type)
{
    const struct fy_operator *row = &fy_operators[node->op];
    uint8_t ta, tb;
    if (node_at(w, node->a)->type == FY_T_POINTER ||
        node_at(w, node->b)->type == FY_T_POINTER) {
        *type = FY_T_I64; /* compared before the launch */
        uint32_t name = define(w, *type);
        put(w, "p%u;\n", scalar_param(w, index, FY_T_I64));
        return name;
    }
    uint32_t a = node_name(w, node->a, &ta), b = node_name(w, node->b, &tb);
    const bool logical = node->op == FY_OP_AND || node->op == FY_OP_OR;
    uint8_t common = fy_map_common(ta, tb);
    *type = row->is_truth ? (uint8_t)FY_T_I64 : common;
    uint32_t name = define(w, *type);
    const uint8_t as = literal_as(common);
    ta = literal_as(ta);
    tb = literal_as(tb);
    if (logical) {
        put(w, "v%u != 0 %s v%u != 0;\n", a, row->word, b);
    } else if (node->op == FY_OP_MIN || node->op == FY_OP_MAX) {
        put_name(w, a, ta, as);
        put(w, " %s ", node->op == FY_OP_MIN ? "<" : ">");
        put_name(w, b, tb, as);
        put(w, " ? ");
        put_name(w, a, ta, as);
        put(w, " : ");
        put_name(w, b, tb, as);
        put(w, ";\n");
    } else if (row->notation != FY_NOTATION_INFIX) {
        w->unsupported = true;
    } else if (as == FY_T_I64 &&
               (node->op == FY_OP_DIV || node->op == FY_OP_MOD)) {
        /* What C leaves open must not stop a CPU that runs this. */
        put(w, "v%u == 0 ? 0 : v%u == -1 ? ", b, b);
        if (node->op == FY_OP_DIV) {
            put(w, "(long long)(0ULL - (unsigned long long)v%u)", a);
        } else {
            put(w, "0");
        }
        put(w, " : v%u %s v%u;\n", a, row->word, b);
    } else if (node->op <= FY_OP_MUL && as == FY_T_I64) {
        /* Wraps where C would leave it open. */
        put(w,
            "(long long)((unsigned long long)v%u %s "
            "(unsigned long long)v%u);\n",
            a, row->word, b);
    } else {
        put_name(w, a, ta, as);
        put(w, " %s ", row->word);
        put_name(w, b, tb, as);
        put(w, ";\n");
    }
    return name;
}

static uint32_t
unary(struct writer *w, const struct fy_node *node, uint8_t *type)
{
    uint8_t inner;
    uint32_t a = node_name(w, node->a, &inner);
    *type = node->op == FY_OP_NOT ? (uint8_t)FY_T_I64 : inner;
    uint32_t name = define(w, *type);
    if (node->op == FY_OP_NOT) {
        put(w, "v%u == 0;\n", a);
    } else if (inner == FY_T_I64) { /* wraps, as binary() does */
        if (node->op == FY_OP_ABS) {
            put(w, "v%u >= 0 ? v%u : ", a, a);
        }
        put(w, "(long long)(0ULL - (unsigned long long)v%u);\n", a);
    } else if (node->op == FY_OP_NEG) {
        put(w, "-v%u;\n", a);
    } else {
        put(w, "%s(v%u);\n", inner == FY_T_F32 ? "fabsf" : "fabs", a);
    }
    return name;
}

static uint32_t
conditional(struct writer *w, const struct fy_node *node, uint8_t *type)
{
    uint8_t ta, tb, tc;
    uint32_t a = node_name(w, node->a, &ta);
    uint32_t b = node_name(w, node->b, &tb);
    uint32_t c = node_name(w, node->c, &tc);
    *type = fy_map_common(tb, tc);
    uint32_t name = define(w, *type);
    put(w, "v%u != 0 ? ", a);
    put_name(w, b, literal_as(tb), literal_as(*type));
    put(w, " : ");
    put_name(w, c, literal_as(tc), literal_as(*type));
    put(w, ";\n");
    return name;
}

static uint32_t
cell(struct writer *w, const struct fy_node *node, uint32_t index,
     uint8_t *type)
{
    const struct fy_cell *row = &FY_OF(w->part, fy_cell, cells)[node->a];
    *type = fy_map_cell_type(row);
    if (*type == FY_T_VOID) {
        w->unsupported = true;
        return 0;
    }
    uint32_t name = define(w, *type);
    put(w, "p%u;\n", scalar_param(w, index, *type));
    return name;
}

/* Without a decimal point: which one printf() writes is the host program's
 * choice, by its locale. */
static void
put_real(struct writer *w, double value)
{
    int exponent;
    double fraction = frexp(value, &exponent);
    if (!isfinite(value)) {
        w->unsupported = true;
        return;
    }
    put(w, "%s0x%" PRIx64 "p%d;\n", value < 0 ? "-" : "",
        (uint64_t)ldexp(fabs(fraction), DBL_MANT_DIG), exponent - DBL_MANT_DIG);
}

static uint32_t
new_name(struct writer *w, uint32_t index, uint8_t *type)
{
    const struct fy_node *node = node_at(w, index);
    uint32_t name;
    *type = FY_T_I64;
    switch (node->op) {
    case FY_OP_INT:
        name = define(w, FY_T_I64);
        /* INT64_MIN has no literal. */
        put(w, "%" PRId64 "LL%s;\n",
            node->u.i == INT64_MIN ? node->u.i + 1 : node->u.i,
            node->u.i == INT64_MIN ? " - 1" : "");
        return name;
    case FY_OP_REAL:
        *type = FY_MAP_LITERAL;
        name = define(w, FY_T_F64);
        put_real(w, node->u.r);
        return name;
    case FY_OP_CELL:
        return cell(w, node, index, type);
    case FY_OP_EXTENT:
    case FY_OP_IN:
        name = define(w, FY_T_I64);
        put(w, "p%u;\n", scalar_param(w, index, FY_T_I64));
        return name;
    case FY_OP_ELEMENT:
        return element(w, node->a, type);
    case FY_OP_VALUE: {
        unsigned to = w->part->row->to[node->a];
        *type = computed_type(w->buffers[w->part->buffer[to]].type);
        return w->stored[node->a];
    }
    case FY_OP_MATH:
        return math(w, node, type);
    case FY_OP_NEG:
    case FY_OP_NOT:
    case FY_OP_ABS:
        return unary(w, node, type);
    case FY_OP_COND:
        return conditional(w, node, type);
    default:
        return binary(w, node, index, type);
    }
}

/* The constant that holds a node, written when it is new. */
static uint32_t
node_name(struct writer *w, uint32_t index, uint8_t *type)
{
    *type = FY_T_I64;
    uint32_t name = known_node(w, index, type);
    if (name != 0 || w->failed || w->unsupported) {
        return name;
    }
    name = new_name(w, index, type);
    if (w->nknown == MAX_KNOWN) {
        w->unsupported = true;
    } else {
        w->known[w->nknown++] = (struct known){index, name, *type};
    }
    return name;
}

/* ---- the kernel ---- */

/* One map: its value in the type of the element that it is stored as. */
static void
store(struct writer *w, uint32_t k)
{
    unsigned b = w->part->buffer[w->part->row->to[k]];
    uint8_t type;
    if (b >= w->nbuffers || !type_word(w->buffers[b].type)) {
        w->unsupported = true;
        return;
    }
    uint32_t value = node_name(w, w->part->row->args[k], &type);
    const uint8_t element_type = w->buffers[b].type;
    uint32_t name = define(w, computed_type(element_type));
    if (computed_type(element_type) == FY_T_I64 && element_type != FY_T_I64) {
        put(w, "(%s)", type_word(element_type));
    }
    put(w, "(%s)v%u;\n", type_word(computed_type(element_type)), value);
    w->stored[k] = name;
    w->current[b] = name;
    w->written[b] = true;
}

static void
write_part(struct writer *w, const struct fy_map_part *part, unsigned number)
{
    w->part = part;
    w->number = number;
    w->nknown = 0;
    memcpy(w->before, w->current, sizeof w->before);
    if (part->function->flags & FY_FN_EXACT) {
        w->out->fmad = false;
    }
    for (uint32_t k = 0; k < part->row->nargs; k++) {
        store(w, k);
    }
}

static void
write_body(struct writer *w, const struct fy_map_part *parts, unsigned nparts)
{
    static const char *const begin[FY_KERNEL_AXES] = {
        "(long long)blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.y",
        "blockIdx.z", "0"};
    static const char *const step[FY_KERNEL_AXES] = {
        "(long long)gridDim.x * blockDim.x", "gridDim.y", "gridDim.z", "1"};
    for (unsigned a = w->naxes; a-- > 0;) {
        put(w, "    for (long long i%u = %s; i%u < p%u; i%u += %s)%s\n", a,
            begin[a], a, axis_param(w, FY_PARAM_EXTENT, 0, a), a, step[a],
            a == 0 ? " {" : "");
    }
    for (unsigned i = 0; i < nparts; i++) {
        write_part(w, &parts[i], i);
    }
    for (unsigned b = 0; b < w->nbuffers; b++) {
        if (!w->written[b] || !w->buffers[b].store) {
            continue;
        }
        put(w, "        p%u[", buffer_param(w, b));
        element_index(w, b);
        put(w, "] = (%s)v%u;\n", type_word(w->buffers[b].type), w->current[b]);
    }
    put(w, "    }\n}\n");
}

/* The parameters are known when the body is. */
static void
write_head(struct writer *w, const struct fy_kernel_text *of)
{
    put(w, "extern \"C\" __global__ void " FY_KERNEL_ENTRY "(");
    for (unsigned i = 0; i < of->nparams; i++) {
        const struct fy_kernel_param *param = &of->params[i];
        const bool pointer = param->kind == FY_PARAM_BUFFER;
        put(w, "%s%s%s%s p%u", i ? ",\n    " : "",
            pointer && !w->written[param->buffer] ? "const " : "",
            type_word(pointer ? w->buffers[param->buffer].type : param->type),
            pointer ? " *" : "", i);
    }
    put(w, ")\n{\n");
}

int
fy_kernel_generate(const struct fy_map_part *parts, unsigned nparts,
                   const struct fy_kernel_buffer *buffers, unsigned nbuffers,
                   unsigned naxes, struct fy_kernel_text *out)
{
    struct fy_kernel_text text = {.fmad = true};
    struct writer w = {.buffers = buffers,
                       .nbuffers = nbuffers,
                       .naxes = naxes,
                       .out = &text,
                       .room = 8192};
    char *body = NULL;
    int status = FY_ERR_UNSUPPORTED;
    if (nparts == 0 || nparts > UINT8_MAX || nbuffers > FY_KERNEL_BUFFERS ||
        naxes == 0 || naxes > FY_KERNEL_AXES) {
        return status;
    }
    w.known = malloc(MAX_KNOWN * sizeof *w.known);
    w.text = malloc(w.room);
    if (!w.known || !w.text) {
        status = FY_ERR_NOMEM;
        goto free_text;
    }
    write_body(&w, parts, nparts);
    body = w.text;
    w.text = malloc(w.room);
    if (!w.text) {
        status = FY_ERR_NOMEM;
        goto free_text;
    }
    if (!w.failed && !w.unsupported) {
        w.used = 0;
        write_head(&w, &text);
        put(&w, "%s", body);
    }
    if (w.failed) {
        status = FY_ERR_NOMEM;
    } else if (!w.unsupported) {
        text.text = w.text;
        *out = text;
        w.text = NULL;
        status = FY_OK;
    }

free_text:
    free(body);
    free(w.text);
    free(w.known);
    return status;
}

/* ---- the launch ---- */

static int64_t
width(const struct fy_kernel_shape *shape, unsigned axis)
{
    int64_t sum = 0;
    for (unsigned b = 0; b < shape->nbuffers; b++) {
        int64_t stride = shape->stride[b][axis];
        stride = stride < 0 ? -stride : stride;
        sum = sum > INT64_MAX - stride ? INT64_MAX : sum + stride;
    }
    return sum;
}

static void
swap_axes(struct fy_kernel_shape *shape, unsigned a, unsigned c)
{
    int64_t t = shape->extent[a];
    shape->extent[a] = shape->extent[c];
    shape->extent[c] = t;
    for (unsigned b = 0; b < shape->nbuffers; b++) {
        t = shape->stride[b][a];
        shape->stride[b][a] = shape->stride[b][c];
        shape->stride[b][c] = t;
    }
}

static void
drop_axis(struct fy_kernel_shape *shape, unsigned axis)
{
    for (unsigned a = axis; a + 1 < shape->naxes; a++) {
        swap_axes(shape, a, a + 1);
    }
    shape->naxes--;
}

/* Whether axis a + 1 goes on where axis a ends, in every buffer. */
static bool
goes_on(const struct fy_kernel_shape *shape, unsigned a)
{
    int64_t next, elements;
    if (__builtin_mul_overflow(shape->extent[a], shape->extent[a + 1],
                               &elements)) {
        return false;
    }
    for (unsigned b = 0; b < shape->nbuffers; b++) {
        if (__builtin_mul_overflow(shape->stride[b][a], shape->extent[a],
                                   &next) ||
            next != shape->stride[b][a + 1]) {
            return false;
        }
    }
    return true;
}

void
fy_kernel_simplify(struct fy_kernel_shape *shape)
{
    for (unsigned a = shape->naxes; a-- > 0 && shape->naxes > 1;) {
        if (shape->extent[a] == 1) {
            drop_axis(shape, a);
        }
    }
    for (unsigned a = 0; a < shape->naxes; a++) {
        for (unsigned c = a + 1; c < shape->naxes; c++) {
            if (width(shape, c) < width(shape, a)) {
                swap_axes(shape, a, c);
            }
        }
    }
    for (unsigned a = 0; a + 1 < shape->naxes;) {
        if (!goes_on(shape, a)) {
            a++;
            continue;
        }
        shape->extent[a] *= shape->extent[a + 1];
        drop_axis(shape, a + 1);
    }
}

void
fy_kernel_grid(const struct fy_kernel_shape *shape, uint32_t grid[3],
               uint32_t block[3])
{
    for (unsigned i = 0; i < 3; i++) {
        int64_t n = i < shape->naxes ? shape->extent[i] : 1;
        int64_t most = i == 0 ? MAX_BLOCKS : MAX_BLOCKS_YZ;
        block[i] = i == 0 ? BLOCK_THREADS : 1;
        int64_t blocks = (n - 1) / block[i] + 1;
        grid[i] = (uint32_t)(blocks > most ? most : blocks);
    }
}
