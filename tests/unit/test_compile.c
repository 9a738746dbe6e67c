/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler on texts that tests/lang cannot hold: megabytes of one token,
 * bytes of any value, thousands of declarations, layouts against this compiler's
 * own. Each must end with a diagnostic or a model within seconds.
 * Long because each case is a text and what becomes of it.
 */
#include "config.h"

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "annotations/model/annotations.h"
#include "tests/unit/runner.h"

enum {
    MEGABYTE = 1 << 20,
    MANY_SECONDS = 60 /* on a loaded machine, under sanitizers */
};

/* Text that grows. */
struct text {
    char *bytes;
    size_t used, capacity;
};

static void
add(struct text *text, const char *piece, size_t times)
{
    size_t length = strlen(piece);
    while (text->capacity - text->used < length * times + 1) {
        text->capacity = text->capacity * 2 + length * times + 1;
        text->bytes = realloc(text->bytes, text->capacity);
        ck_assert_ptr_nonnull(text->bytes);
    }
    for (size_t i = 0; i < times; i++, text->used += length) {
        memcpy(text->bytes + text->used, piece, length);
    }
    text->bytes[text->used] = '\0';
}

static void
add_number(struct text *text, const char *before, size_t number,
           const char *after)
{
    char piece[256];
    (void)snprintf(piece, sizeof piece, "%s%zu%s", before, number, after);
    add(text, piece, 1);
}

/* Compiles and frees `text'; what is printed of the diagnostics is returned. */
static char *
compile(struct text *text, struct fy_model **model, unsigned *errors)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    char *printed = NULL;
    size_t bytes;
    struct fy_model *result = NULL;
    clock_t begin = clock();
    int status = fy_compile_text("big", text->bytes ? text->bytes : "",
                                 text->used, NULL, diagnostics, &result);
    ck_assert_int_lt((clock() - begin) / CLOCKS_PER_SEC, MANY_SECONDS);
    ck_assert_int_eq(status == FY_OK, fy_diagnostics_errors(diagnostics) == 0);
    ck_assert_int_eq(status == FY_OK, result != NULL);
    if (result) {
        ck_assert_int_eq(fy_model_validate(result, result->size_bytes), FY_OK);
    }
    FILE *to = open_memstream(&printed, &bytes);
    fy_diagnostics_print(diagnostics, to);
    fclose(to);
    *errors = fy_diagnostics_errors(diagnostics);
    fy_diagnostics_free(diagnostics);
    free(text->bytes);
    memset(text, 0, sizeof *text);
    if (model) {
        *model = result;
    } else {
        free(result);
    }
    return printed;
}

/* Exactly this must be among what is printed. */
static void
expect(struct text *text, const char *message)
{
    unsigned errors;
    char *printed = compile(text, NULL, &errors);
    ck_assert_uint_gt(errors, 0);
    ck_assert_msg(strstr(printed, message) != NULL, "wanted '%s' in:\n%.2000s",
                  message, printed);
    ck_assert_uint_lt(strlen(printed), 64 * 1024);
    free(printed);
}

START_TEST(test_one_token)
{
    struct text t = {0};
    add(&t, "handle ", 1);
    add(&t, "a", 3 * MEGABYTE);
    add(&t, ";", 1);
    expect(&t, "error: name of 3145728 bytes; at most 256 are allowed");
    add(&t, "import \"", 1);
    add(&t, "a", 3 * MEGABYTE);
    add(&t, "\";", 1);
    expect(&t, "string of 3145730 bytes; at most 1024 are allowed");
    add(&t, "import \"", 1);
    add(&t, "\\a", MEGABYTE);
    expect(&t, "string without a closing");
    add(&t, "function void f(double *x) { in x[", 1);
    add(&t, "9", 3 * MEGABYTE);
    expect(&t, "number of 3145728 bytes; at most 256 are allowed");
    add(&t, "function void f(double *x) { in x[1.", 1);
    add(&t, "9", 3 * MEGABYTE);
    expect(&t, "number of 3145730 bytes; at most 256 are allowed");
    add(&t, "handle ", 1);
    add(&t, "<p>", MEGABYTE);
    expect(&t, "name of 3145728 bytes; at most 256 are allowed");
}
END_TEST

START_TEST(test_one_byte_many_times)
{
    static const char *const pieces[] = {
        "(",
        "[",
        "{",
        ")",
        "}",
        ";",
        "<",
        "-",
        "!",
        "*",
        "'",
        "\"",
        "\\",
        "#",
        "\n",
        " ",
        "\x80",
        "\x01",
        "a ",
        "in ",
        "in\t",
        "1 ",
        "<p ",
        "?",
        "a?",
        "a,",
        "function ",
        "function void f(){",
        "let ",
        "error;",
        "a->",
        "a.",
        "\"a\"",
        "import \"x\";",
        "\"\n",
        "'a' ",
        "<a:",
        "/",
        "family p:{a:int",
        "struct a{",
        "int a;",
        "&&",
        "f(",
        "1.e",
    };
    const char *sanitized = getenv("FERRY_SANITIZED");
    /* Ten times as slow there; beyond every limit of depth all the same. */
    size_t many = sanitized != NULL && *sanitized != '\0' ? 40000 : 200000;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        for (int where = 0; where < 4; where++) {
            static const char *const before[] = {
                "", "function void f(int a, double *x) { in x[",
                "function void f(", "struct s { "};
            struct text t = {0};
            unsigned errors;
            add(&t, before[where], 1);
            add(&t, pieces[i], many / strlen(pieces[i]));
            char *printed = compile(&t, NULL, &errors);
            if (strcmp(pieces[i], ";") != 0 && strcmp(pieces[i], "#") != 0 &&
                strcmp(pieces[i], "\n") != 0 && strcmp(pieces[i], " ") != 0) {
                ck_assert_msg(errors > 0, "'%s' after '%s'", pieces[i],
                              before[where]);
            }
            ck_assert_uint_lt(strlen(printed), 64 * 1024);
            free(printed);
        }
    }
}
END_TEST

START_TEST(test_every_byte)
{
    for (int c = 0; c < 256; c++) {
        char text[] = "handle h?;\nfunction ? f(int n, double *x) { in x[?]; }";
        struct fy_diagnostics *diagnostics = fy_diagnostics_new();
        struct fy_model *model = NULL;
        for (char *p = text; *p != '\0'; p++) {
            if (*p == '?') {
                *p = (char)c;
            }
        }
        int status = fy_compile_text("bytes", text, sizeof text - 1, NULL,
                                     diagnostics, &model);
        ck_assert_int_eq(status == FY_OK,
                         fy_diagnostics_errors(diagnostics) == 0);
        fy_diagnostics_free(diagnostics);
        free(model);
    }
}
END_TEST

/* Cut anywhere, a good file is a diagnostic or another good file. */
START_TEST(test_truncated_everywhere)
{
    static const char text[] =
        "family p: { s: float };\nspelling fortran integer any: \"<name>_\";\n"
        "struct m { int n; double *d; };\n# doc\n"
        "function fortran void <p>f(char t, integer n, <T> a, <T> *x) {\n"
        "  let u = t in \"Nn\"; require n >= 0 else empty;\n"
        "  axis n split sums into x with a = 1; axis j = n;\n"
        "  inout x[j: u ? 1 : -2] out when a == 0;\n"
        "  flops 2.0e0 * n; also \"g\" integer 64; }\n"
        "function void h(struct m *a) { inout a->d[a->n: inc 1] at 1; }\n";
    for (size_t bytes = 0; bytes <= strlen(text); bytes++) {
        struct fy_diagnostics *diagnostics = fy_diagnostics_new();
        struct fy_model *model = NULL;
        int status =
            fy_compile_text("cut", text, bytes, NULL, diagnostics, &model);
        ck_assert_int_eq(status == FY_OK,
                         fy_diagnostics_errors(diagnostics) == 0);
        fy_diagnostics_free(diagnostics);
        free(model);
    }
}
END_TEST

START_TEST(test_too_much)
{
    struct text t = {0};
    add(&t, " ", 5 * MEGABYTE);
    expect(&t, "'big' has 5242880 bytes; an annotation file has at most "
               "4194304");
    for (size_t i = 0; i < 20000; i++) {
        add_number(&t, "function void f", i, "(double*x){in x[1];}\n");
    }
    expect(&t, "more than 16384 functions, families expanded");
    for (size_t i = 0; i < 2000; i++) {
        add_number(&t, "spelling c: \"", i, "<name>\";\n");
    }
    expect(&t, "more than 1024 spellings");
    add(&t, "function void f(", 1);
    for (size_t i = 0; i < 60; i++) {
        add_number(&t, i ? ", int a" : "int a", i, "");
    }
    add(&t, ") { }", 1);
    expect(&t, "a function has at most 48 arguments");
    add(&t, "function void f(double *x) { in x[1];", 1);
    for (size_t i = 0; i < 80; i++) {
        add_number(&t, "let a", i, " = 1;");
    }
    add(&t, "}", 1);
    expect(&t, "a function has at most 64 lets");
    add(&t, "function void f(double *x) { in x[1];", 1);
    add(&t, "require 1;", 80);
    add(&t, "}", 1);
    expect(&t, "a function has at most 64 requires");
    add(&t, "function void f(const int *n, double *x) { in x[1];", 1);
    for (size_t i = 0; i < 100; i++) {
        add_number(&t, "opaque n; require n[", i % 50, "] > 0");
        add_number(&t, " && n[", 50 + i, "] > 0;");
    }
    add(&t, "}", 1);
    expect(&t, "a function reads at most 96 places");
    add(&t, "struct s { ", 1);
    for (size_t i = 0; i < 300; i++) {
        add_number(&t, "int a", i, ";");
    }
    add(&t, "};", 1);
    expect(&t, "a struct has at most 256 fields");
    add(&t, "function void f(int n, double *x) { in x[1]; on host g(n", 1);
    add(&t, ", n", 60);
    add(&t, ");}", 1);
    expect(&t, "a call has at most 48 arguments");
}
END_TEST

START_TEST(test_too_much_in_a_function)
{
    struct text t = {0};
    add(&t, "function void f(int n, double *x) { in x[1];", 1);
    for (size_t i = 0; i < 64; i++) {
        add(&t, "require n", 1);
        for (size_t k = 0; k < 50; k++) {
            add_number(&t, " + ", i * 64 + k, "");
        }
        add(&t, ";", 1);
    }
    add(&t, "}", 1);
    expect(&t, "function 'f' has too many expressions");
    add(&t, "function void f(int n, double *x) { in x[", 1);
    add(&t, "-", 5000);
    add(&t, "n]; }", 1);
    expect(&t, "too deeply nested");
    add(&t, "function void f(int n, double *x) { in x[", 1);
    add(&t, "n?n:", 5000);
    add(&t, "n]; }", 1);
    expect(&t, "too deeply nested");
    add(&t, "family p: { ", 1);
    add(&t, "r", 200);
    add(&t, ": int };function void <p><p><p>(double *x) { in x[1]; }", 1);
    expect(&t, "name is too long with its placeholders replaced");
}
END_TEST

START_TEST(test_too_many_symbols)
{
    struct text t = {0};
    for (size_t i = 0; i < 1000; i++) {
        add_number(&t, "spelling c: \"", i, "<name>\";\n");
    }
    for (size_t i = 0; i < 300; i++) {
        add_number(&t, "function c void f", i, "(double*x){in x[1];}\n");
    }
    expect(&t, "more than 262144 symbols");
}
END_TEST

START_TEST(test_too_much_memory)
{
    struct text t = {0};
    add(&t, "function void f(double *x) { in x[1]; on cuda g(x", 1);
    add(&t, ",x", 1900000);
    add(&t, "); }", 1);
    expect(&t, "these annotations need more memory than there is, or than 192 "
               "MiB");
}
END_TEST

START_TEST(test_many_combinations)
{
    struct text t = {0};
    static const char *const families[] = {"a", "b", "c"};
    for (size_t f = 0; f < 3; f++) {
        add(&t, "family ", 1);
        add(&t, families[f], 1);
        add(&t, ": { ", 1);
        for (size_t i = 0; i < 16; i++) {
            add_number(&t, "r", i, ": int, ");
        }
        add(&t, "};\n", 1);
    }
    /* 4096 rows each */
    for (size_t i = 0; i < 8; i++) {
        add_number(&t, "function void f", i,
                   "<a>_<b>_<c>(double *x) { in x[1]; }\n");
    }
    expect(&t, "more than 16384 functions");
}
END_TEST

START_TEST(test_many_errors)
{
    struct text t = {0};
    unsigned errors;
    for (size_t i = 0; i < 10000; i++) {
        add_number(&t, "function void f", i,
                   "(int size, double *x) { in x[sizes]; }\n");
    }
    char *printed = compile(&t, NULL, &errors);
    ck_assert_uint_ge(errors, 64);
    ck_assert_uint_lt(strlen(printed), 64 * 1024);
    free(printed);
}
END_TEST

struct inner {
    char c;
    double z[2];
};

struct outer {
    char a;
    short b;
    int c[3];
    float f;
    struct inner inner;
    size_t n;
    char d;
    double *x;
    unsigned char e;
    long long m;
};

START_TEST(test_layout)
{
    static const struct {
        const char *field;
        size_t offset;
    } rows[] = {
        {"a->a", offsetof(struct outer, a)},
        {"a->b", offsetof(struct outer, b)},
        {"a->f", offsetof(struct outer, f)},
        {"a->n", offsetof(struct outer, n)},
        {"a->d", offsetof(struct outer, d)},
        {"a->x", offsetof(struct outer, x)},
        {"a->e", offsetof(struct outer, e)},
        {"a->m", offsetof(struct outer, m)},
    };
    struct text t = {0};
    struct fy_model *model;
    unsigned errors;
    add(&t,
        "struct outer { char a; short b; int c[3]; float f; struct inner "
        "inner; size_t n; char d; double *x; unsigned char e; long long m; };"
        "struct inner { char c; double z[2]; };"
        "function void f(struct outer *a) { inout a->x[a->a + a->b + a->n + "
        "a->d + a->e + a->m] when a->f > 0; }",
        1);
    free(compile(&t, &model, &errors));
    ck_assert_ptr_nonnull(model);
    const struct fy_cell *cells = FY_TABLE(model, fy_cell, cells);
    unsigned seen = 0;
    for (uint32_t i = 0; i < model->cells.count; i++) {
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            if (strcmp(fy_model_string(model, cells[i].name), rows[k].field) ==
                0) {
                ck_assert_uint_eq(cells[i].kind, FY_CELL_FIELD);
                ck_assert_msg(cells[i].offset == rows[k].offset, "%s",
                              rows[k].field);
                seen++;
            }
        }
    }
    ck_assert_uint_eq(seen, sizeof rows / sizeof rows[0]);
    free(model);
}
END_TEST

START_TEST(test_documentation)
{
    struct text t = {0};
    struct fy_model *model;
    unsigned errors;
    add(&t,
        "# not this one\n\nfamily p: { s: float };\n"
        "#   <p>f: x := <T>\n#\n# second  # third\n"
        "function void <p>f(<T> *x) { inout x[1]; } # not this\n"
        "function void g(float *x) { inout x[1]; }\n",
        1);
    free(compile(&t, &model, &errors));
    ck_assert_ptr_nonnull(model);
    const struct fy_function *f = FY_TABLE(model, fy_function, functions);
    ck_assert_str_eq(fy_model_string(model, f[0].doc),
                     "  sf: x := float\n\nsecond  # third");
    ck_assert_str_eq(fy_model_string(model, f[1].doc), "");
    free(model);
}
END_TEST

/* Functions of a later path replace those of earlier ones, variants and all. */
START_TEST(test_later_paths_replace)
{
    static const char *const texts[] = {
        "family p: { s: float, d: double };\n"
        "function void <p>f(int n, <T> *x) { require n > 1; in x[n]; }\n"
        "function void <p>f(int n, <T> *x) { in x[n]; also \"old<p>\"; }\n"
        "function void g(int n, double *x) { in x[n]; }\n",
        "function void df(int n, double *x) { out x[n]; also \"new\"; }\n"
        "function void h(int n, double *x) { in x[n]; }\n"};
    static const char *const names[] = {"df", "g", "h", "new", "olds", "sf"};
    char place[] = "/tmp/ferry-test-XXXXXX", path[2][64];
    const char *const list[] = {path[0], path[1]};
    struct fy_model *model = NULL;
    ck_assert_ptr_nonnull(mkdtemp(place));
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path[i], sizeof path[i], "%s/%d.ferry", place, i);
        FILE *file = fopen(path[i], "w");
        fputs(texts[i], file);
        fclose(file);
    }
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    ck_assert_int_eq(fy_compile(list, 2, NULL, diagnostics, &model), FY_OK);
    fy_diagnostics_free(diagnostics);
    ck_assert_uint_eq(model->functions.count, 5); /* sf twice, g, df, h */
    ck_assert_uint_eq(model->symbols.count, 6);
    const struct fy_symbol *symbols = FY_TABLE(model, fy_symbol, symbols);
    for (int i = 0; i < 6; i++) {
        ck_assert_str_eq(fy_model_string(model, symbols[i].name), names[i]);
    }
    const struct fy_function *f =
        FY_TABLE(model, fy_function, functions) + symbols[0].function;
    ck_assert_uint_eq(f->next_variant, FY_NIL);
    ck_assert_uint_eq(FY_TABLE(model, fy_operand, operands)[f->operands].access,
                      FY_ACCESS_OUT);
    free(model);
    for (int i = 0; i < 2; i++) {
        (void)unlink(path[i]);
    }
    (void)rmdir(place);
}
END_TEST

/* Paths: folders in order, files that cannot be read. */
START_TEST(test_paths)
{
    char place[] = "/tmp/ferry-test-XXXXXX", path[3][64];
    ck_assert_ptr_nonnull(mkdtemp(place));
    const char *const names[] = {"b.ferry", "a.ferry", "c.txt"};
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path[i], sizeof path[i], "%s/%s", place, names[i]);
        FILE *file = fopen(path[i], "w");
        fprintf(file, "function void f%d(double *x) { in x[1]; }\n", i);
        fclose(file);
    }
    const char *const list[] = {place, path[0], "/dev/null",
                                "/nonexistent/x.ferry"};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_model *model = NULL;
    ck_assert_int_eq(fy_compile(list, 2, NULL, diagnostics, &model), FY_OK);
    ck_assert_uint_eq(model->functions.count, 2);
    const struct fy_function *f = FY_TABLE(model, fy_function, functions);
    ck_assert_str_eq(fy_model_string(model, f[0].name), "f1");
    free(model);
    model = NULL;
    ck_assert_int_eq(fy_compile(list, 4, NULL, diagnostics, &model),
                     FY_ERR_INVALID);
    ck_assert_ptr_null(model);
    ck_assert_uint_eq(fy_diagnostics_errors(diagnostics), 2);
    fy_diagnostics_free(diagnostics);
    for (int i = 0; i < 3; i++) {
        (void)unlink(path[i]);
    }
    (void)rmdir(place);
}
END_TEST

/* Chains of imports, and files that are too large. */
START_TEST(test_many_files)
{
    enum {
        CHAIN = 40
    };
    char place[] = "/tmp/ferry-test-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(place));
    for (int i = 0; i < CHAIN; i++) {
        (void)snprintf(path, sizeof path, "%s/f%d.ferry", place, i);
        FILE *file = fopen(path, "w");
        if (i + 1 < CHAIN) {
            fprintf(file, "import \"f%d.ferry\";\n", i + 1);
        } else {
            for (int k = 0; k < 5 * MEGABYTE; k++) {
                putc(' ', file);
            }
        }
        fclose(file);
    }
    for (int i = 0; i < CHAIN; i += CHAIN - 1) {
        struct fy_diagnostics *diagnostics = fy_diagnostics_new();
        struct fy_model *model = NULL;
        const char *const list[] = {path};
        char *printed, wanted[256];
        size_t bytes;
        (void)snprintf(path, sizeof path, "%s/f%d.ferry", place, i);
        ck_assert_int_eq(fy_compile(list, 1, NULL, diagnostics, &model),
                         FY_ERR_INVALID);
        FILE *to = open_memstream(&printed, &bytes);
        fy_diagnostics_print(diagnostics, to);
        fclose(to);
        (void)snprintf(wanted, sizeof wanted,
                       i == 0 ? "too many files: at most 512, imported 32 deep"
                              : "'%s' has 5242880 bytes; an annotation file "
                                "has at most 4194304",
                       path);
        ck_assert_ptr_nonnull(strstr(printed, wanted));
        free(printed);
        fy_diagnostics_free(diagnostics);
    }
    for (int i = 0; i < CHAIN; i++) {
        (void)snprintf(path, sizeof path, "%s/f%d.ferry", place, i);
        (void)unlink(path);
    }
    (void)rmdir(place);
}
END_TEST

/* Files of kernels that no .test file can hold. */
START_TEST(test_kernel_files)
{
    char place[] = "/tmp/ferry-kernels.XXXXXX", path[64], text[256];
    ck_assert_ptr_nonnull(mkdtemp(place));
    (void)snprintf(path, sizeof path, "%s/k.cu", place);
    (void)snprintf(text, sizeof text,
                   "function void f(int n, double *x) { inout x[n]; on cuda "
                   "kernel \"%s\" f(n, x) grid(1) block(1); }",
                   path);
    for (int i = 0; i < 2; i++) {
        char message[128];
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        for (int k = 0; k < (i == 0 ? 8 : 262145); k++) {
            ck_assert_int_ne(fputc(i == 0 ? '\0' : ' ', file), EOF);
        }
        ck_assert_int_eq(fclose(file), 0);
        struct fy_diagnostics *diagnostics = fy_diagnostics_new();
        struct fy_model *model;
        ck_assert_int_eq(fy_compile_text("main", text, strlen(text), NULL,
                                         diagnostics, &model),
                         FY_ERR_INVALID);
        char *printed = NULL;
        size_t bytes;
        FILE *to = open_memstream(&printed, &bytes);
        fy_diagnostics_print(diagnostics, to);
        ck_assert_int_eq(fclose(to), 0);
        if (i == 0) {
            (void)snprintf(message, sizeof message,
                           "'%s' cannot be read as text", path);
        } else {
            (void)snprintf(message, sizeof message,
                           "'%s' has 262145 bytes; a file of kernels has at "
                           "most 262144",
                           path);
        }
        ck_assert_ptr_nonnull(strstr(printed, message));
        free(printed);
        fy_diagnostics_free(diagnostics);
    }
    (void)unlink(path);
    (void)rmdir(place);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("compile");
    TCase *tests = tcase_create("compile");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_one_token);
    tcase_add_test(tests, test_one_byte_many_times);
    tcase_add_test(tests, test_every_byte);
    tcase_add_test(tests, test_truncated_everywhere);
    tcase_add_test(tests, test_too_much);
    tcase_add_test(tests, test_too_much_in_a_function);
    tcase_add_test(tests, test_too_many_symbols);
    tcase_add_test(tests, test_too_much_memory);
    tcase_add_test(tests, test_many_files);
    tcase_add_test(tests, test_kernel_files);
    tcase_add_test(tests, test_many_combinations);
    tcase_add_test(tests, test_many_errors);
    tcase_add_test(tests, test_layout);
    tcase_add_test(tests, test_documentation);
    tcase_add_test(tests, test_later_paths_replace);
    tcase_add_test(tests, test_paths);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
