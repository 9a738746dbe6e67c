/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `on cuda kernel "file.cu" NAME(...)': a kernel of the user's. Its text goes
 * into the model, so that the checked text is the one that runs. Nothing checks the
 * arguments of a launch later on, so they are compared with the kernel's head
 * here, and a head that is not understood is refused. This is no C++ parser: it
 * knows parameters of plain types, which is all that a call can pass.
 * Long because each thing that may be wrong has a message.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "annotations/functions/compile.h"
#include "common/whole.h"

/* ---- the file ---- */

/* All of an open file, NUL at its end; NULL after an error. */
static char *
read_text(struct fy_front *front, int fd, struct fy_span span, const char *path)
{
    struct stat status;
    size_t have = 0;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        fy_error(front, span, "'%s' is not a regular file", path);
        return NULL;
    }
    if (status.st_size > FY_MAX_KERNEL_BYTES) {
        fy_error(front, span,
                 "'%s' has %lld bytes; a file of kernels has at most %d", path,
                 (long long)status.st_size, FY_MAX_KERNEL_BYTES);
        return NULL;
    }
    char *text = fy_arena_alloc(&front->arena, (size_t)status.st_size + 1);
    if (fy_read_most(fd, text, (size_t)status.st_size, &have) ||
        have < (size_t)status.st_size || memchr(text, '\0', have)) {
        fy_error(front, span, "'%s' cannot be read as text", path);
        return NULL;
    }
    return text;
}

static char *
read_kernel(struct fy_front *front, struct ast_name file, const char *name,
            const char **path)
{
    const char *beside = file.span.source->name;
    const char *slash = strrchr(beside, '/');
    *path = name[0] == '/' || !slash
                ? name
                : fy_arena_print(&front->arena, "%.*s/%s",
                                 (int)(slash - beside), beside, name);
    /* O_NONBLOCK: a FIFO must not hang us; it is refused when stat'ed. */
    int fd = open(*path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        fy_diagnostic_hint(
            /* NOLINTNEXTLINE(concurrency-mt-unsafe): tools have one thread */
            fy_error(front, file.span, "cannot read '%s': %s", *path,
                     strerror(errno)), /* NOLINT(concurrency-mt-unsafe) */
            "the file is looked up beside the annotation file");
        return NULL;
    }
    front->held.file = fd; /* for who catches the longjmp */
    char *text = read_text(front, fd, file.span, *path);
    close(fd);
    front->held.file = -1;
    return text;
}

/* ---- the head of the kernel ---- */

/* Blanks in place of comments and literals. */
static char *
without_comments(struct fy_front *front, const char *text)
{
    char *plain = fy_arena_text(&front->arena, text, strlen(text));
    for (char *at = plain; *at != '\0';) {
        char *end = at + 1;
        if (at[0] == '/' && at[1] == '/') {
            end = at + strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            char *close = strstr(at + 2, "*/");
            end = close ? close + 2 : at + strlen(at);
        } else if (at[0] == '"' || at[0] == '\'') {
            while (*end != '\0' && *end != at[0] && *end != '\n') {
                end += end[0] == '\\' && end[1] != '\0' ? 2 : 1;
            }
            end += *end != '\0';
            /* extern "C" is looked for */
            if (end - at == 3 && at[0] == '"') {
                at = end;
                continue;
            }
        } else {
            at = end;
            continue;
        }
        for (; at < end; at++) {
            *at = *at == '\n' ? '\n' : ' ';
        }
    }
    return plain;
}

static bool
is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const char *
blanks(const char *at)
{
    while (isspace((unsigned char)*at)) {
        at++;
    }
    return at;
}

/* The end of a group that begins with a bracket; NULL: it has none. */
static const char *
group_end(const char *at)
{
    int depth = 0;
    for (; *at != '\0'; at++) {
        depth += *at == '(';
        depth -= *at == ')';
        if (depth == 0) {
            return at + 1;
        }
    }
    return NULL;
}

/* Behind `__global__ ... NAME (' of the kernel, or NULL. *c_name: it is
 * extern "C", as far as can be seen. */
static const char *
find_head(const char *plain, const char *name, bool *c_name)
{
    size_t length = strlen(name);
    for (const char *at = plain; (at = strstr(at, "__global__"));) {
        const char *line = at;
        at += strlen("__global__");
        for (const char *word = at; *word != '\0' && !strchr(";{}", *word);) {
            if (!is_word_char(*word)) {
                if (*word == '(' && !(word = group_end(word))) {
                    return NULL;
                }
                word += *word != '(' && *word != '\0' && !is_word_char(*word);
                continue;
            }
            const char *end = word;
            while (is_word_char(*end)) {
                end++;
            }
            const char *open = blanks(end);
            if ((size_t)(end - word) == length &&
                memcmp(word, name, length) == 0 && *open == '(') {
                const char *quoted = strstr(plain, "\"C\"");
                *c_name = quoted && quoted < line;
                return open + 1;
            }
            word = end;
        }
    }
    return NULL;
}

struct parameter {
    uint8_t type;    /* POINTER: to `pointee' */
    uint8_t pointee; /* VOID: unknown */
    const char *text;
};

/* The enum fy_type of some words of C, FY_T_COUNT: none of the plain ones. */
static uint8_t
type_of_words(const char *const *words, unsigned n)
{
    unsigned longs = 0, shorts = 0, is_unsigned = 0, ints = 0, chars = 0;
    static const struct {
        const char *word;
        uint8_t type;
    } names[] = {
        {"float", FY_T_F32},          {"double", FY_T_F64},
        {"size_t", FY_T_U64},         {"ptrdiff_t", FY_T_I64},
        {"int8_t", FY_T_I8},          {"uint8_t", FY_T_U8},
        {"int16_t", FY_T_I16},        {"uint16_t", FY_T_U16},
        {"int32_t", FY_T_I32},        {"uint32_t", FY_T_U32},
        {"int64_t", FY_T_I64},        {"uint64_t", FY_T_U64},
        {"float2", FY_T_C32},         {"double2", FY_T_C64},
        {"cuFloatComplex", FY_T_C32}, {"cuDoubleComplex", FY_T_C64},
        {"void", FY_T_VOID},
    };
    for (size_t i = 0; n == 1 && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(words[0], names[i].word) == 0) {
            return names[i].type;
        }
    }
    for (unsigned i = 0; i < n; i++) {
        longs += strcmp(words[i], "long") == 0;
        shorts += strcmp(words[i], "short") == 0;
        chars += strcmp(words[i], "char") == 0;
        ints += strcmp(words[i], "int") == 0;
        is_unsigned += strcmp(words[i], "unsigned") == 0;
        if (strcmp(words[i], "long") != 0 && strcmp(words[i], "short") != 0 &&
            strcmp(words[i], "char") != 0 && strcmp(words[i], "int") != 0 &&
            strcmp(words[i], "unsigned") != 0 &&
            strcmp(words[i], "signed") != 0) {
            return FY_T_COUNT;
        }
    }
    if (n == 0 || ints > 1 || chars + shorts + (longs > 0) > 1 ||
        (chars && ints) || is_unsigned > 1) {
        return FY_T_COUNT;
    }
    if (chars) {
        return is_unsigned ? FY_T_U8 : FY_T_I8;
    }
    if (shorts) {
        return is_unsigned ? FY_T_U16 : FY_T_I16;
    }
    if (longs) {
        return is_unsigned ? FY_T_U64 : FY_T_I64;
    }
    return is_unsigned ? FY_T_U32 : FY_T_I32;
}

enum {
    MAX_WORDS = 8
};

/* One parameter, from `at' to `end'; false: it is not understood. */
static bool
parse_parameter(struct fy_front *front, const char *at, const char *end,
                struct parameter *out)
{
    const char *words[MAX_WORDS];
    unsigned n = 0, stars = 0;
    bool named = false; /* the last word may be the parameter's own name */
    while (end > at && isspace((unsigned char)end[-1])) {
        end--;
    }
    while (at < end && isspace((unsigned char)*at)) { /* an empty one ends */
        at++;
    }
    out->text = fy_arena_text(&front->arena, at, (size_t)(end - at));
    out->pointee = FY_T_VOID;
    while (at < end) {
        if (is_word_char(*at) && !isdigit((unsigned char)*at)) {
            const char *begin = at;
            while (at < end && is_word_char(*at)) {
                at++;
            }
            const char *word =
                fy_arena_text(&front->arena, begin, (size_t)(at - begin));
            if (strcmp(word, "const") == 0 || strcmp(word, "volatile") == 0 ||
                strcmp(word, "__restrict__") == 0 ||
                strcmp(word, "__restrict") == 0 ||
                strcmp(word, "__grid_constant__") == 0 ||
                strcmp(word, "struct") == 0) {
                continue;
            }
            if (stars > 0) { /* behind a star there is only the name */
                if (named) {
                    return false;
                }
                named = true;
                continue;
            }
            if (n == MAX_WORDS) {
                return false;
            }
            words[n++] = word;
        } else if (*at == '*' && !named) {
            stars++;
            at++;
        } else if (*at == '[') {
            const char *close = memchr(at, ']', (size_t)(end - at));
            if (!close || stars > 0) {
                return false;
            }
            stars++;
            named = true;
            n -= n > 1;
            at = close + 1;
        } else if (isspace((unsigned char)*at)) {
            at++;
        } else {
            return false; /* references, templates, defaults */
        }
    }
    uint8_t type = type_of_words(words, n);
    if (stars == 0 && type == FY_T_COUNT && n > 1) {
        type = type_of_words(words, n - 1);
    }
    if (stars > 0) {
        out->type = FY_T_POINTER;
        out->pointee = stars > 1            ? FY_T_POINTER
                       : type == FY_T_COUNT ? FY_T_VOID
                                            : type;
        return true;
    }
    out->type = type;
    return type != FY_T_COUNT && type != FY_T_VOID;
}

/* Parameters from behind the '('; -1 after an error. */
static int
parse_head(struct fy_front *front, struct fy_span span, const char *at,
           const char *name, struct parameter *out)
{
    const char *end = group_end(at - 1);
    int n = 0;
    if (!end) {
        fy_error(front, span, "the head of kernel '%.*s' has no end",
                 FY_MAX_QUOTED, name);
        return -1;
    }
    end--;
    const char *only = blanks(at);
    if (only == end ||
        (strncmp(only, "void", 4) == 0 && blanks(only + 4) == end)) {
        return 0;
    }
    while (at < end) {
        const char *stop = at;
        while (stop < end && *stop != ',') {
            stop++;
        }
        if (n == FY_MAX_ARGS) {
            fy_error(front, span, "a kernel has at most %d parameters",
                     FY_MAX_ARGS);
            return -1;
        }
        if (!parse_parameter(front, at, stop, &out[n])) {
            fy_diagnostic_hint(
                fy_error(front, span,
                         "parameter '%.*s' of kernel '%.*s' is not understood",
                         FY_MAX_QUOTED, out[n].text, FY_MAX_QUOTED, name),
                "pointers, and C's own integer and real types, without "
                "typedefs or macros");
            return -1;
        }
        n++;
        at = stop + 1;
    }
    return n;
}

/* ---- arguments ---- */

static bool
is_real_type(uint8_t type)
{
    return type == FY_T_F32 || type == FY_T_F64;
}

static bool
is_same_element(uint8_t declared, uint8_t element)
{
    if (declared == FY_T_VOID || element == FY_T_VOID || declared == element) {
        return true;
    }
    if (element == FY_T_INTEGER) { /* of either width; checked at the call */
        return declared == FY_T_I32 || declared == FY_T_I64;
    }
    return (element == FY_T_CHAR && (declared == FY_T_I8)) ||
           (declared == FY_T_F32 && element == FY_T_C32) ||
           (declared == FY_T_F64 && element == FY_T_C64);
}

static bool
check_argument(struct fy_body *body, const struct ast_expr *expr, uint32_t node,
               const struct parameter *parameter)
{
    struct fy_front *front = body->front;
    const struct fy_node *row = &front->nodes.row[node];
    const bool is_pointer = parameter->type == FY_T_POINTER;
    if (row->op == FY_OP_WORD) {
        if (row->a != FY_WORD_INFO || !is_pointer ||
            parameter->pointee != FY_T_I32) {
            fy_diagnostic_hint(
                fy_error(front, expr->span, "'%s' cannot be passed as '%.*s'",
                         fy_word_text(row->a), FY_MAX_QUOTED, parameter->text),
                "of the device's words a kernel takes info, as int *");
            return false;
        }
        return true;
    }
    if (row->op == FY_OP_SCALAR) {
        fy_diagnostic_hint(
            fy_error(front, expr->span, "a kernel takes scalars by value"),
            "leave the & out");
        return false;
    }
    if ((row->type == FY_T_POINTER) != is_pointer) {
        fy_error(front, expr->span, "this is %s, parameter '%.*s' is %s",
                 is_pointer ? "no operand" : "an address", FY_MAX_QUOTED,
                 parameter->text, is_pointer ? "a pointer" : "a number");
        return false;
    }
    if (row->op == FY_OP_ADDRESS &&
        !is_same_element(parameter->pointee,
                         body->operands[row->a].row.element)) {
        fy_error(front, expr->span,
                 "elements of '%.*s' are of another type than parameter "
                 "'%.*s' says",
                 FY_MAX_QUOTED, body->operands[row->a].name, FY_MAX_QUOTED,
                 parameter->text);
        return false;
    }
    if (!is_pointer && (row->type == FY_T_C64 || parameter->type == FY_T_C32 ||
                        parameter->type == FY_T_C64)) {
        fy_error(front, expr->span, "complex numbers cannot be passed");
        return false;
    }
    if (!is_pointer && row->type == FY_T_F64 &&
        !is_real_type(parameter->type)) {
        fy_error(front, expr->span, "a real number for parameter '%.*s'",
                 FY_MAX_QUOTED, parameter->text);
        return false;
    }
    return true;
}

/* ---- grid, block, shared ---- */

static void
launch_numbers(struct fy_body *body, const struct ast_expr *call,
               uint32_t *nodes, unsigned most)
{
    unsigned n = 0;
    for (const struct ast_expr *e = call->list; e; e = e->next) {
        uint32_t node = fy_node_of_integer(body, e);
        if (n == most) {
            fy_error(body->front, e->span, "'%s' has at most %u number%s",
                     call->name.text, most, most == 1 ? "" : "s");
            return;
        }
        nodes[n++] = node;
        if (node != FY_NIL && body->front->nodes.row[node].op == FY_OP_INT &&
            body->front->nodes.row[node].u.i < (most == 3 ? 1 : 0)) {
            fy_error(body->front, e->span, "this must be positive");
        }
    }
    if (n == 0) {
        fy_error(body->front, call->span, "'%s' takes a number",
                 call->name.text);
    }
}

/* More threads than any block has. */
static void
check_block(struct fy_body *body, const struct fy_kernel_row *kernel,
            struct fy_span span)
{
    int64_t threads = 1;
    for (unsigned i = 0; i < 3; i++) {
        const struct fy_node *node =
            kernel->block[i] == FY_NIL
                ? NULL
                : &body->front->nodes.row[kernel->block[i]];
        if (node && node->op == FY_OP_INT && threads <= 1024 &&
            node->u.i >= 1) {
            threads = node->u.i > 1024 ? 1025 : threads * node->u.i;
        }
    }
    if (threads > 1024) {
        fy_error(body->front, span, "a block has at most 1024 threads");
    }
}

static bool
launch_of(struct fy_body *body, const struct ast_statement *s,
          struct fy_kernel_row *kernel)
{
    const struct ast_expr *grid = NULL, *block = NULL, *shared = NULL;
    memset(kernel->grid, 0xff, sizeof kernel->grid); /* FY_NIL */
    memset(kernel->block, 0xff, sizeof kernel->block);
    kernel->shared = FY_NIL;
    for (const struct ast_expr *e = s->launch; e; e = e->next) {
        const char *name = e->name.text;
        const struct ast_expr **which = strcmp(name, "grid") == 0     ? &grid
                                        : strcmp(name, "block") == 0  ? &block
                                        : strcmp(name, "shared") == 0 ? &shared
                                                                      : NULL;
        if (!which || *which) {
            fy_diagnostic_hint(
                fy_error(body->front, e->span,
                         which ? "'%.*s' stands here twice"
                               : "unexpected '%.*s'",
                         FY_MAX_QUOTED, name),
                "a kernel has grid(...), block(...) and perhaps shared(...)");
            return false;
        }
        *which = e;
    }
    if (!grid || !block) {
        fy_diagnostic_hint(fy_error(body->front, s->word.span,
                                    "how is kernel '%.*s' launched?",
                                    FY_MAX_QUOTED, s->word.text),
                           "write grid(...) block(...) behind it");
        return false;
    }
    launch_numbers(body, grid, kernel->grid, 3);
    launch_numbers(body, block, kernel->block, 3);
    check_block(body, kernel, block->span);
    if (shared) {
        launch_numbers(body, shared, &kernel->shared, 1);
    }
    return true;
}

/* ---- the statement ---- */

static bool
find_parameters(struct fy_body *body, const struct ast_statement *s,
                const char *text, const char *path, const char *name,
                struct parameter *parameters, int *n)
{
    bool c_name = false;
    const char *plain = without_comments(body->front, text);
    const char *head = find_head(plain, name, &c_name);
    if (!head) {
        fy_error(body->front, s->word.span, "'%s' has no kernel '%.*s'", path,
                 FY_MAX_QUOTED, name);
        return false;
    }
    if (!c_name) {
        fy_diagnostic_hint(
            fy_error(body->front, s->word.span,
                     "kernel '%.*s' of '%s' is not found by its plain name",
                     FY_MAX_QUOTED, name, path),
            "write extern \"C\" before its __global__");
        return false;
    }
    *n = parse_head(body->front, s->word.span, head, name, parameters);
    return *n >= 0;
}

void
fy_compile_kernel(struct fy_body *body, const struct ast_statement *s)
{
    struct fy_front *front = body->front;
    const char *name = fy_expand(front, body->unit, s->word);
    const char *file = fy_expand(front, body->unit, s->file);
    struct parameter parameters[FY_MAX_ARGS];
    struct fy_kernel_row kernel;
    struct fy_call_row row;
    const char *path;
    int nparameters = 0;
    if (!name || !file) {
        return;
    }
    const char *text = read_kernel(front, s->file, file, &path);
    if (!text ||
        !find_parameters(body, s, text, path, name, parameters, &nparameters)) {
        return;
    }
    memset(&row, 0, sizeof row);
    memset(&kernel, 0, sizeof kernel);
    row.kind = FY_CALL_KERNEL;
    row.function = fy_intern(front, name);
    unsigned given = 0;
    for (const struct ast_expr *e = s->expr->list; e; e = e->next) {
        given++;
    }
    if (given != (unsigned)nparameters) {
        fy_error(front, s->word.span,
                 "kernel '%.*s' has %d parameters, %u are given", FY_MAX_QUOTED,
                 name, nparameters, given);
        return;
    }
    body->in_call = body->on_device = true;
    for (const struct ast_expr *e = s->expr->list; e; e = e->next) {
        const struct parameter *parameter = &parameters[row.nargs];
        uint32_t node = fy_device_argument(body, e, &row);
        if (node != FY_NIL && check_argument(body, e, node, parameter)) {
            row.to[row.nargs] = parameter->type;
        }
        row.args[row.nargs++] = node;
    }
    body->in_call = body->on_device = false;
    if (!launch_of(body, s, &kernel)) {
        return;
    }
    fy_check_device_result(body, s->name.span);
    kernel.file = fy_intern(front, path);
    kernel.text = fy_intern(front, text);
    row.kernel = (uint32_t)front->kernels.count;
    *FY_APPEND(&front->arena, &front->kernels) = kernel;
    (void)fy_add_call(body, &row, s->word.span);
    for (unsigned o = 0; o < body->noperands; o++) {
        body->written[o] = true;
    }
}
