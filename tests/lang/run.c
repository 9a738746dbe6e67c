/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the .test files here and the examples of the manual, and prints TAP. A .test
 * file is a list of cases:
 *
 *     === title
 *     --- text                   what main.ferry holds
 *     --- file NAME              one more file beside it (any number)
 *     --- model                  fy_model_dump() of the result, if there is one,
 *                                and fy_commands_dump()
 *     --- argv                   command lines, one a line, words by blanks; a
 *                                line that begins with NAME=VALUE words
 *     --- invocations            what each means: fy_invocation_dump(), or why
 *                                it is not offloaded
 *     --- diagnostics            what fy_diagnostics_print() prints
 *
 * Everything must be exactly as written. With FERRY_UPDATE=1 in the environment
 * the files are rewritten with what came out: read the difference before it is
 * committed. Of a manual page (*.5), every literal block after a line
 *     .\" example
 * is a case that must compile without any finding; after `.\" imports NAME' it
 * is a file for the examples that follow.
 */
#include "config.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "annotations/commands/command.h"
#include "annotations/model/annotations.h"
#include "common/buffer.h"

enum {
    MAX_FILES = 8,
    MAX_WORDS = 64
};

struct section {
    char name[64];
    char *text; /* malloc */
};

struct one_case {
    char *title;
    struct section files[MAX_FILES]; /* [0] is main.ferry */
    unsigned nfiles;
    char *model, *diagnostics, *argv, *invocations;
};

static unsigned count, failures;
static char *library_dir;

static void __attribute__((noreturn)) die(const char *what, const char *name)
{
    printf("Bail out! %s: %s (%s)\n", what, name, strerror(errno));
    exit(99);
}

static void *
must(void *memory)
{
    if (!memory) {
        die("no memory", "");
    }
    return memory;
}

static char *
read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t bytes = 0;
    FILE *copy = open_memstream(&text, &bytes);
    int c;
    if (!file || !copy) {
        die("cannot read", path);
    }
    while ((c = getc(file)) != EOF) {
        putc(c, copy);
    }
    fclose(file);
    fclose(copy);
    return must(text);
}

static void
write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file)) {
        die("cannot write", path);
    }
}

/* "# " before every line. */
static void
comment(const char *title, const char *text)
{
    printf("# %s:\n", title);
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        printf("#   %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

/* The folder of shipped annotations is elsewhere on every machine. */
static void
hide_library(char *text)
{
    static const char name[] = "<library>";
    size_t n = strlen(library_dir);
    if (n < sizeof name - 1) {
        return;
    }
    for (char *at = text; (at = strstr(at, library_dir));) {
        memcpy(at, name, sizeof name - 1);
        memmove(at + sizeof name - 1, at + n, strlen(at + n) + 1);
    }
}

/* What each command line of `lines' means. */
static void
print_invocations(const struct fy_commands *commands, const char *lines,
                  FILE *to)
{
    char *copy = must(strdup(lines)), *rest = copy, *line;
    while ((line = strsep(&rest, "\n"))) {
        const char *words[MAX_WORDS + 1] = {NULL};
        const char *environment[MAX_WORDS + 1] = {NULL};
        unsigned nwords = 0, nenvironment = 0;
        struct fy_invocation invocation;
        struct fy_buffer why;
        char text[256], *word;
        if (line[0] == '\0') {
            continue;
        }
        fprintf(to, "$ %s\n", line);
        while ((word = strsep(&line, " ")) && nwords < MAX_WORDS) {
            if (nwords == 0 && strchr(word, '=') && nenvironment < MAX_WORDS) {
                environment[nenvironment++] = word;
            } else {
                words[nwords++] = strcmp(word, "''") == 0 ? "" : word;
            }
        }
        if (nwords == 0) {
            die("no command", "argv");
        }
        fy_buffer_start(&why, text, sizeof text);
        int status = fy_invocation_parse(commands, words[0], words, environment,
                                         &invocation, &why);
        if (status == FY_OK) {
            fy_invocation_dump(&invocation, words, to);
            fy_invocation_clear(&invocation);
        } else {
            fprintf(to, "(%s) %s\n", fy_status_text(status), text);
        }
    }
    free(copy);
}

/* Compiles main.ferry; *model, *diagnostics and *invocations are new texts. */
static void
compile(const char *lines, char **model_text, char **diagnostics_text,
        char **invocations)
{
    const char *path = "main.ferry";
    struct fy_diagnostics *diagnostics = must(fy_diagnostics_new());
    struct fy_model *model = NULL;
    struct fy_commands *commands = NULL;
    size_t bytes;
    FILE *to = must(open_memstream(model_text, &bytes));
    int status = fy_compile_with_commands(&path, 1, library_dir, diagnostics,
                                          &model, &commands);
    if ((status == FY_OK) != (model != NULL) ||
        (status == FY_OK) != (fy_diagnostics_errors(diagnostics) == 0)) {
        fputs("(status and diagnostics disagree)\n", to);
    }
    if (model) {
        if (fy_model_validate(model, model->size_bytes)) {
            fputs("(the model is not valid)\n", to);
        }
        fy_model_dump(model, to);
        fy_commands_dump(commands, to);
    }
    fclose(to);
    to = must(open_memstream(invocations, &bytes));
    if (commands && lines) {
        print_invocations(commands, lines, to);
    }
    fclose(to);
    to = must(open_memstream(diagnostics_text, &bytes));
    fy_diagnostics_print(diagnostics, to);
    fclose(to);
    hide_library(*diagnostics_text);
    free(model);
    fy_commands_free(commands);
    fy_diagnostics_free(diagnostics);
}

/* An expected text: from the file; NULL means "none". */
static bool
same(const char *what, const char *expected, const char *found)
{
    if (strcmp(expected ? expected : "", found) == 0) {
        return true;
    }
    comment("expected", expected ? expected : "");
    comment(what, found);
    return false;
}

static void
run_case(struct one_case *c, const char *file, FILE *update)
{
    char *model, *diagnostics, *invocations;
    for (unsigned i = 0; i < c->nfiles; i++) {
        write_file(i == 0 ? "main.ferry" : c->files[i].name, c->files[i].text);
    }
    compile(c->argv, &model, &diagnostics, &invocations);
    bool good = same("model", c->model, model);
    good = same("invocations", c->invocations, invocations) && good;
    good = same("diagnostics", c->diagnostics, diagnostics) && good;
    printf("%sok %u - %s: %s\n", good ? "" : "not ", ++count, file, c->title);
    failures += !good;
    for (unsigned i = 0; i < c->nfiles; i++) {
        (void)unlink(i == 0 ? "main.ferry" : c->files[i].name);
    }
    if (update) {
        fprintf(update, "=== %s\n--- text\n%s", c->title, c->files[0].text);
        for (unsigned i = 1; i < c->nfiles; i++) {
            fprintf(update, "--- file %s\n%s", c->files[i].name,
                    c->files[i].text);
        }
        if (model[0]) {
            fprintf(update, "--- model\n%s", model);
        }
        if (diagnostics[0]) {
            fprintf(update, "--- diagnostics\n%s", diagnostics);
        }
        if (c->argv) {
            fprintf(update, "--- argv\n%s--- invocations\n%s", c->argv,
                    invocations);
        }
    }
    free(invocations);
    free(model);
    free(diagnostics);
}

static void
clear_case(struct one_case *c)
{
    for (unsigned i = 0; i < c->nfiles; i++) {
        free(c->files[i].text);
    }
    free(c->title);
    free(c->model);
    free(c->diagnostics);
    free(c->argv);
    free(c->invocations);
    memset(c, 0, sizeof *c);
}

/* The section that begins at `line' ("--- name"): where its text goes. */
static char **
section(struct one_case *c, const char *line, size_t length, const char *file)
{
    static const char more[] = "--- file ";
    if (length == 8 && strncmp(line, "--- text", 8) == 0 && c->nfiles == 0) {
        return &c->files[c->nfiles++].text;
    }
    if (length == 9 && strncmp(line, "--- model", 9) == 0) {
        return &c->model;
    }
    if (length == 8 && strncmp(line, "--- argv", 8) == 0) {
        return &c->argv;
    }
    if (length == 15 && strncmp(line, "--- invocations", 15) == 0) {
        return &c->invocations;
    }
    if (length == 15 && strncmp(line, "--- diagnostics", 15) == 0) {
        return &c->diagnostics;
    }
    if (length > 9 && strncmp(line, more, 9) == 0 && c->nfiles > 0 &&
        c->nfiles < MAX_FILES && length - 9 < sizeof c->files[0].name) {
        memcpy(c->files[c->nfiles].name, line + 9, length - 9);
        return &c->files[c->nfiles++].text;
    }
    die("bad section", file);
}

static void
append(char **to, const char *text, size_t length)
{
    size_t old = *to ? strlen(*to) : 0;
    *to = must(realloc(*to, old + length + 1));
    memcpy(*to + old, text, length);
    (*to)[old + length] = '\0';
}

static void
run_tests(const char *name, const char *text, FILE *update)
{
    struct one_case c = {0};
    char **to = NULL;
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        size_t whole = length + (text[length] == '\n');
        if (strncmp(text, "=== ", 4) == 0) {
            if (c.title) {
                run_case(&c, name, update);
            }
            clear_case(&c);
            append(&c.title, text + 4, length - 4);
            to = NULL;
        } else if (strncmp(text, "--- ", 4) == 0 && c.title) {
            to = section(&c, text, length, name);
            append(to, "", 0);
        } else if (to) {
            append(to, text, whole);
        } else if (update) {
            fprintf(update, "%.*s", (int)whole, text);
        }
        text += whole;
    }
    if (c.title) {
        run_case(&c, name, update);
    }
    clear_case(&c);
}

/* ---- the manual ---- */

/* One mdoc line without its escapes. */
static void
append_plain(char **to, const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\\' && i + 1 < length && line[i + 1] == '&') {
            i++;
        } else if (line[i] == '\\' && i + 1 < length && line[i + 1] == 'e') {
            append(to, "\\", 1);
            i++;
        } else if (line[i] == '\\' && i + 1 < length && line[i + 1] == '-') {
            append(to, "-", 1);
            i++;
        } else {
            append(to, line + i, 1);
        }
    }
    append(to, "\n", 1);
}

static void
run_manual(const char *name, const char *text)
{
    static const char example[] = ".\\\" example";
    static const char imports[] = ".\\\" imports ";
    struct one_case c = {0};
    struct section imported[MAX_FILES];
    unsigned nimported = 0, line_number = 0;
    bool wanted = false, inside = false;
    char import_name[64] = "";
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        line_number++;
        if (strncmp(text, example, strlen(example)) == 0) {
            wanted = true;
            import_name[0] = '\0';
        } else if (strncmp(text, imports, strlen(imports)) == 0) {
            wanted = true;
            (void)snprintf(import_name, sizeof import_name, "%.*s",
                           (int)(length - strlen(imports)),
                           text + strlen(imports));
        } else if (wanted && strncmp(text, ".Bd -literal", 12) == 0) {
            char title[32];
            (void)snprintf(title, sizeof title, "line %u", line_number);
            clear_case(&c);
            append(&c.title, title, strlen(title));
            append(&c.files[0].text, "", 0);
            c.nfiles = 1;
            inside = true;
            wanted = false;
        } else if (inside && strncmp(text, ".Ed", 3) == 0) {
            inside = false;
            if (import_name[0] && nimported < MAX_FILES) {
                (void)snprintf(imported[nimported].name, sizeof import_name,
                               "%s", import_name);
                write_file(import_name, c.files[0].text);
                nimported++;
            } else {
                char *model, *diagnostics, *invocations;
                write_file("main.ferry", c.files[0].text);
                compile(NULL, &model, &diagnostics, &invocations);
                bool good =
                    model[0] != '\0' && same("diagnostics", "", diagnostics);
                printf("%sok %u - %s: %s\n", good ? "" : "not ", ++count, name,
                       c.title);
                failures += !good;
                free(model);
                free(diagnostics);
                free(invocations);
                (void)unlink("main.ferry");
            }
        } else if (inside) {
            append_plain(&c.files[0].text, text, length);
        }
        text += length + (text[length] == '\n');
    }
    for (unsigned i = 0; i < nimported; i++) {
        (void)unlink(imported[i].name);
    }
    clear_case(&c);
}

static void
run_file(const char *path, const char *place)
{
    const char *update = getenv("FERRY_UPDATE");
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    bool manual = dot && strcmp(dot, ".5") == 0;
    char *text = read_file(path);
    FILE *to = NULL;
    if (!manual && update && update[0] == '1') {
        to = must(fopen(path, "wb"));
    }
    if (chdir(place)) {
        die("cannot enter", place);
    }
    if (manual) {
        run_manual(name, text);
    } else {
        run_tests(name, text, to);
    }
    if (to) {
        fclose(to);
    }
    free(text);
}

/* Every file that matches, below the source folder. */
static void
run_all(const char *source, const char *pattern, const char *place)
{
    char *path = NULL;
    glob_t found;
    append(&path, source, strlen(source));
    append(&path, pattern, strlen(pattern));
    if (glob(path, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            run_file(found.gl_pathv[i], place);
        }
    }
    globfree(&found);
    free(path);
}

int
main(int argc, char **argv)
{
    const char *given = getenv("FERRY_SRCDIR");
    char place[] = "/tmp/ferry-lang-XXXXXX";
    char *start = must(getcwd(NULL, 0)), *source;
    /* Absolute: the cases run in a folder of their own. */
    if (!(source = realpath(given ? given : ".", NULL)) || !mkdtemp(place)) {
        die("cannot make", place);
    }
    append(&library_dir, source, strlen(source));
    append(&library_dir, "/annotations/lib", 16);
    for (int i = 1; i < argc; i++) {
        if (chdir(start)) {
            die("cannot enter", start);
        }
        run_file(argv[i], place);
    }
    if (argc == 1) {
        run_all(source, "/tests/lang/*.test", place);
        run_all(source, "/docs/ferry-annotations.5", place);
    }
    if (chdir(start) || rmdir(place)) {
        printf("# %s is left behind\n", place);
    }
    printf("1..%u\n", count);
    free(start);
    free(source);
    free(library_dir);
    return failures || count == 0 ? 1 : 0;
}
