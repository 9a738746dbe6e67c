/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a preload object for the tests of shim/ from a model built by hand, so
 * that they need nothing of the annotation language:
 *
 *   make_preload LIBFERRY OUT 'NAME KIND ARGS [WORTH...]'...
 *   make_preload reach PROGRAM 'NAME KIND ARGS'...   what doctor would say
 *   make_preload record FILE [NAMES]   makes, or prints, a file of counters
 *
 * KIND: c, f (Fortran), m (makes a handle), x (frees one), v (another variant of
 * the one before); ARGS: one letter
 * each, by reference c i d z (hidden lengths for c) and p an array; by value I int, L
 * long, Q unsigned long, U unsigned, H short, B char, D double, F float, Z complex double, C complex
 * float, P pointer; - is none. WORTH in postfix: aN an argument, integers,
 * + - * < <= > >= == != && || ! min max abs neg ?: in:SET.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/record.h"
#include "shim/image/names.h"
#include "shim/image/reach.h"

enum {
    MAX_SYMBOLS = 4096,
    MAX_NODES = 65536,
    STRING_BYTES = 1 << 20,
};

static struct fy_symbol symbols[MAX_SYMBOLS];
static struct fy_function functions[MAX_SYMBOLS];
static struct fy_arg args[MAX_NODES];
static struct fy_cell cells[MAX_NODES];
static struct fy_node nodes[MAX_NODES];
static char strings[STRING_BYTES];
static uint32_t nfunctions, nsymbols, nargs, nnodes, nstrings = 1;

static void
die(const char *text, const char *what)
{
    fprintf(stderr, "make_preload: %s: %s\n", text, what);
    exit(2);
}

static fy_str
add_string(const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (nstrings + bytes > STRING_BYTES) {
        die("too many strings", text);
    }
    memcpy(strings + nstrings, text, bytes);
    nstrings += (uint32_t)bytes;
    return (fy_str)(nstrings - bytes);
}

static void
add_arg(char letter)
{
    static const struct {
        char letter;
        uint8_t type;
        uint16_t flags;
    } rows[] = {
        {'c', FY_T_CHAR, FY_ARG_REFERENCE | FY_ARG_HIDDEN_LENGTH},
        {'i', FY_T_INTEGER, FY_ARG_REFERENCE},
        {'d', FY_T_F64, FY_ARG_REFERENCE},
        {'z', FY_T_C64, FY_ARG_REFERENCE},
        {'p', FY_T_POINTER, 0},
        {'I', FY_T_I32, 0},
        {'L', FY_T_I64, 0},
        {'Q', FY_T_U64, 0},
        {'U', FY_T_U32, 0},
        {'H', FY_T_I16, 0},
        {'B', FY_T_CHAR, 0},
        {'D', FY_T_F64, 0},
        {'F', FY_T_F32, 0},
        {'Z', FY_T_C64, 0},
        {'C', FY_T_C32, 0},
        {'P', FY_T_POINTER, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].letter != letter) {
            continue;
        }
        args[nargs] =
            (struct fy_arg){.type = rows[i].type, .flags = rows[i].flags};
        cells[nargs] = (struct fy_cell){
            .arg = (uint16_t)(nargs - functions[nfunctions].args),
            .kind = rows[i].flags & FY_ARG_REFERENCE ? FY_CELL_REFERENCE
                                                     : FY_CELL_VALUE,
            .type = rows[i].type};
        nargs++;
        return;
    }
    die("unknown argument letter", (char[]){letter, 0});
}

static uint32_t
add_worth(char *words)
{
    static const struct {
        const char *word;
        int op, arity;
    } rows[] = {
        {"+", FY_OP_ADD, 2},   {"-", FY_OP_SUB, 2},   {"*", FY_OP_MUL, 2},
        {"<", FY_OP_LT, 2},    {"<=", FY_OP_LE, 2},   {">", FY_OP_GT, 2},
        {">=", FY_OP_GE, 2},   {"==", FY_OP_EQ, 2},   {"!=", FY_OP_NE, 2},
        {"&&", FY_OP_AND, 2},  {"||", FY_OP_OR, 2},   {"!", FY_OP_NOT, 1},
        {"min", FY_OP_MIN, 2}, {"max", FY_OP_MAX, 2}, {"abs", FY_OP_ABS, 1},
        {"neg", FY_OP_NEG, 1}, {"?:", FY_OP_COND, 3}, {"/", FY_OP_DIV, 2},
    };
    uint32_t stack[64];
    unsigned depth = 0;
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        struct fy_node node = {.type = FY_T_I64};
        size_t i = 0, count = sizeof rows / sizeof rows[0];
        while (i < count && strcmp(rows[i].word, word) != 0) {
            i++;
        }
        if (i < count) {
            node.op = (uint8_t)rows[i].op;
            if (depth < (unsigned)rows[i].arity) {
                die("too few operands", word);
            }
            depth -= (unsigned)rows[i].arity;
            node.a = stack[depth];
            node.b = rows[i].arity > 1 ? stack[depth + 1] : 0;
            node.c = rows[i].arity > 2 ? stack[depth + 2] : 0;
        } else if (strncmp(word, "in:", 3) == 0 && depth > 0) {
            node.op = FY_OP_IN;
            node.a = stack[--depth];
            node.b = add_string(word + 3);
        } else if (word[0] == 'a') {
            node.op = FY_OP_CELL;
            node.a = (uint32_t)strtoul(word + 1, NULL, 10);
        } else {
            char *end;
            node.op = FY_OP_INT;
            node.u.i = strtoll(word, &end, 10);
            if (*end) {
                die("not a number or operator", word);
            }
        }
        if (depth == 64 || nnodes == MAX_NODES) {
            die("expression too large", word);
        }
        nodes[nnodes] = node;
        stack[depth++] = nnodes++;
    }
    if (depth > 1) {
        die("operands left over", "worth");
    }
    return depth ? stack[0] : FY_NIL;
}

static void
add_function(const char *spec)
{
    char *copy = strdup(spec), *name = strtok(copy, " "),
         *kind = strtok(NULL, " "), *letters = strtok(NULL, " "),
         *worth = strtok(NULL, "");
    if (!letters) {
        die("incomplete", spec);
    }
    struct fy_function *f = &functions[nfunctions];
    *f = (struct fy_function){.name = add_string(name),
                              .next_variant = FY_NIL,
                              .args = nargs,
                              .cells = nargs,
                              .flops = FY_NIL,
                              .worth = FY_NIL,
                              .error = FY_NIL,
                              .host_call = FY_NIL,
                              .cuda_call = FY_NIL};
    if (kind[0] == 'f') {
        f->flags = FY_FN_FORTRAN;
    }
    if (kind[0] == 'm') {
        f->flags = FY_FN_MAKES | FY_FN_OBSERVE_ONLY;
    }
    if (kind[0] == 'x') {
        f->flags = FY_FN_FREES | FY_FN_OBSERVE_ONLY;
    }
    for (; letters[0] != '-' && *letters; letters++) {
        add_arg(*letters);
    }
    f->nargs = f->ncells = (uint16_t)(nargs - f->args);
    if (worth) {
        f->worth = add_worth(worth);
    }
    if (kind[0] == 'v') {
        functions[nfunctions - 1].next_variant = nfunctions;
    } else {
        symbols[nsymbols++] = (struct fy_symbol){
            .name = f->name, .function = nfunctions, .integer_bits = 32};
    }
    nfunctions++;
    free(copy);
}

static int
by_name(const void *a, const void *b)
{
    const struct fy_symbol *left = a, *right = b;
    return strcmp(strings + left->name, strings + right->name);
}

static void
put(char *model, size_t *used, struct fy_table *table, const void *rows,
    uint32_t count, size_t bytes)
{
    table->offset = (uint32_t)*used;
    table->count = count;
    memcpy(model + *used, rows, count * bytes);
    *used = (*used + count * bytes + 7) & ~(size_t)7;
}

static void
print_finding(void *closure, const struct fy_reach_finding *finding)
{
    char text[8192];
    struct fy_buffer to;
    (void)closure;
    fy_buffer_start(&to, text, sizeof text);
    fy_reach_describe(finding, &to);
    puts(text);
}

static int
make_record(const char *path, uint32_t rows)
{
    struct fy_record head = {.version = 1, .nrows = rows};
    struct fy_record_row row;
    memcpy(head.magic, FY_RECORD_MAGIC, sizeof head.magic);
    memset(&row, 0, sizeof row);
    FILE *file = fopen(path, "w");
    if (!file) {
        die("cannot write", path);
    }
    fwrite(&head, sizeof head, 1, file);
    for (uint32_t i = 0; i < rows; i++) {
        fwrite(&row, sizeof row, 1, file);
    }
    return fclose(file);
}

/* One line per row: calls, declines as word=count, whether time was taken. */
static int
print_record(const char *path)
{
    struct fy_record head;
    struct fy_record_row row;
    FILE *file = fopen(path, "r");
    if (!file || fread(&head, sizeof head, 1, file) != 1) {
        die("cannot read", path);
    }
    while (fread(&row, sizeof row, 1, file) == 1) {
        printf("calls=%llu", (unsigned long long)row.calls);
        for (unsigned i = 0; i < FY_REASON_COUNT; i++) {
            if (row.declined[i]) {
                printf(" %s=%llu", fy_reason_word(i),
                       (unsigned long long)row.declined[i]);
            }
        }
        printf(" timed=%d\n", row.original_ns != 0);
    }
    return fclose(file);
}

int
main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "record") == 0) {
        return make_record(argv[2], (uint32_t)atoi(argv[3]));
    }
    if (argc == 3 && strcmp(argv[1], "record") == 0) {
        return print_record(argv[2]);
    }
    if (argc < 3) {
        die("usage", "make_preload LIBFERRY OUT SPEC...");
    }
    for (int i = 3; i < argc; i++) {
        add_function(argv[i]);
    }
    qsort(symbols, nsymbols, sizeof symbols[0], by_name);
    char *bytes = calloc(1, 64 << 20);
    struct fy_model *model = (void *)bytes;
    size_t used = (sizeof *model + 7) & ~(size_t)7;
    memcpy(model->magic, FY_MODEL_MAGIC, 8);
    model->version = FY_MODEL_VERSION;
#define PUT(table, rows, count) \
    put(bytes, &used, &model->table, rows, count, sizeof *(rows))
    PUT(symbols, symbols, nsymbols);
    PUT(functions, functions, nfunctions);
    PUT(args, args, nargs);
    PUT(cells, cells, nargs);
    PUT(nodes, nodes, nnodes);
    PUT(strings, strings, nstrings);
    model->size_bytes = (uint32_t)used;
    struct fy_preload_summary summary;
    char text[256];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    if (strcmp(argv[1], "reach") == 0) {
        if (fy_reach_scan(argv[2], model, print_finding, NULL, &why)) {
            die("reach", text);
        }
        free(bytes);
        return 0;
    }
    int status = fy_preload_build(argv[1], model, argv[2], &summary, &why);
    if (status) {
        die(fy_status_text(status), text);
    }
    printf("names=%u skipped=%u predicates=%u uncompiled=%u bytes=%llu\n",
           summary.names, summary.skipped, summary.predicates,
           summary.uncompiled, (unsigned long long)summary.bytes);
    free(bytes);
    return 0;
}
