/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver: reads files and their imports, runs the phases, and turns
 * running out of memory anywhere below into FY_ERR_NOMEM.
 */
#include "config.h"

#include "annotations/commands/check.h"
#include "annotations/functions/compile.h"
#include "common/whole.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct fy_span no_span;

/* ---- files ---- */

/* Place that asked for a source: an import, or the command line. */
struct request {
    struct fy_span span;
    const struct fy_source *importer;
    unsigned depth;
};

static struct fy_source *
source_new(struct fy_front *front, const char *name, size_t bytes)
{
    struct fy_source *source = fy_arena_alloc(&front->arena, sizeof *source);
    source->name = fy_arena_text(&front->arena, name, strlen(name));
    source->text = fy_arena_alloc(&front->arena, bytes + 2);
    source->bytes = bytes;
    *FY_APPEND(&front->arena, &front->sources) = source;
    return source;
}

static void
index_lines(struct fy_front *front, struct fy_source *source)
{
    const char *end = source->text + source->bytes, *at = source->text;
    size_t count = 1, n = 0;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        count++;
        at++;
    }
    source->lines = fy_arena_array(&front->arena, count, sizeof *source->lines);
    source->nlines = count;
    source->lines[n++] = 0;
    at = source->text;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        source->lines[n++] = (uint32_t)(at - source->text);
    }
}

static void parse_source(struct fy_front *front, struct fy_source *source,
                         unsigned depth);

static void
cannot_read(struct fy_front *front, const struct request *request,
            const char *path, const char *why)
{
    fy_error(front, request->span, "cannot read '%s': %s", path, why);
}

static void
cannot_read_for(struct fy_front *front, const struct request *request,
                const char *path, int error)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): tools compile in one thread */
    cannot_read(front, request, path, strerror(error));
}

/* Reads the rest of `fd' into a new source; NULL after an error. */
static struct fy_source *
read_source(struct fy_front *front, const struct request *request,
            const char *path, int fd, const struct stat *stat)
{
    if (!S_ISREG(stat->st_mode)) {
        cannot_read(front, request, path, "not a regular file");
        return NULL;
    }
    if (stat->st_size > FY_MAX_FILE_BYTES) {
        fy_error(front, request->span,
                 "'%s' has %lld bytes; an annotation file has at most %d", path,
                 (long long)stat->st_size, FY_MAX_FILE_BYTES);
        return NULL;
    }
    size_t capacity = (size_t)stat->st_size, have = 0;
    struct fy_source *source = source_new(front, path, capacity);
    if (fy_read_most(fd, source->text, capacity, &have)) {
        cannot_read_for(front, request, path, errno);
        return NULL;
    }
    source->bytes = have;
    source->text[have] = source->text[have < capacity ? have + 1 : have] = '\0';
    source->device = (uint64_t)stat->st_dev;
    source->inode = (uint64_t)stat->st_ino;
    return source;
}

/* The chain of imports that leads back to `source'. */
static void
cycle(struct fy_front *front, const struct request *request,
      const struct fy_source *source)
{
    const char *chain = source->name;
    for (const struct fy_source *s = request->importer; s && s != source;
         s = s->importer) {
        chain = fy_arena_print(&front->arena, "%s imports %s", s->name, chain);
    }
    fy_diagnostic_hint(fy_error(front, request->span,
                                "import of '%s' is a cycle", source->name),
                       "%s imports %s", source->name, chain);
}

/* Returns true if a title begins there: behind the block's first word, or a
 * comma. The second word of another command's (git diff) is none, and that
 * block may need statements about its first word elsewhere. */
static bool
begins_title(const char *head, size_t at)
{
    while (at > 0 && strchr(" \t\r\n\"", head[at - 1])) {
        at--;
    }
    return at == 0 || head[at - 1] == ',' ||
           (at >= 7 && memcmp(head + at - 7, "command", 7) == 0) ||
           (at >= 6 && memcmp(head + at - 6, "common", 6) == 0);
}

/* Returns true if the head of a block may name the word; quoted words may be
 * spelt in many ways. */
static bool
may_name(const char *head, size_t n, const char *word)
{
    const char *brace = memchr(head, '{', n);
    n = brace ? (size_t)(brace - head) : n;
    if (memchr(head, '\\', n) || memchr(head, '#', n)) {
        return true;
    }
    const char *at = head, *end = head + n;
    while ((at = memmem(at, (size_t)(end - at), word, strlen(word)))) {
        const char *behind = at + strlen(word);
        bool longer = behind < end && /* "comm" of "command" */
                      (isalnum((unsigned char)*behind) || *behind == '_');
        if (!longer && begins_title(head, (size_t)(at - head))) {
            return true;
        }
        at++;
    }
    return false;
}

/* Returns the next place where a keyword of a file's top level may stand,
 * from `at' on; or NULL. */
static const char *
next_keyword(const struct fy_source *source, const char *at,
             const char *keyword)
{
    const char *end = source->text + source->bytes;
    size_t n = strlen(keyword);
    for (; (at = memmem(at, (size_t)(end - at), keyword, n)); at += n) {
        const char *line = at;
        while (line > source->text && line[-1] != '\n') {
            line--;
        }
        if (line[strspn(line, " \t")] != '#' && at + n < end &&
            strchr(" \t\r\n\"", at[n]) &&
            (at == source->text || strchr(" \t\r\n\"};", at[-1]))) {
            return at;
        }
    }
    return NULL;
}

/* Returns true if a file may have a block that names the word, or import one
 * that has: most of them need not be parsed. */
static bool
may_concern(const struct fy_source *source, const char *word)
{
    static const char *const starts[] = {"command", "common"};
    const char *end = source->text + source->bytes;
    if (next_keyword(source, source->text, "import")) {
        return true;
    }
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        const char *at = source->text;
        while ((at = next_keyword(source, at, starts[i]))) {
            if (may_name(at, (size_t)(end - at), word)) {
                return true;
            }
            at += strlen(starts[i]);
        }
    }
    return false;
}

/* The file behind `fd' if it is to be parsed; NULL: known already, or bad. */
static struct fy_source *
read_open(struct fy_front *front, const struct request *request,
          const char *path, int fd)
{
    struct stat status;
    if (fstat(fd, &status)) {
        cannot_read_for(front, request, path, errno);
        return NULL;
    }
    for (size_t i = 0; i < front->sources.count; i++) {
        struct fy_source *old = front->sources.row[i];
        if (old->device != (uint64_t)status.st_dev ||
            old->inode != (uint64_t)status.st_ino || !old->inode) {
            continue;
        }
        if (old->is_open) {
            cycle(front, request, old);
        }
        return NULL; /* once is enough */
    }
    if (front->sources.count >= FY_MAX_FILES ||
        request->depth > FY_MAX_IMPORT_DEPTH) {
        fy_error(front, request->span,
                 "too many files: at most %d, imported %d deep", FY_MAX_FILES,
                 FY_MAX_IMPORT_DEPTH);
        return NULL;
    }
    return read_source(front, request, path, fd, &status);
}

/* Opens and loads; 0 when there is no such file, 1 when it was dealt with. */
static int
load(struct fy_front *front, const struct request *request, const char *path)
{
    /* O_NONBLOCK: a FIFO must not hang us; it is refused when stat'ed. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        if (errno == ENOENT) {
            return 0;
        }
        cannot_read_for(front, request, path, errno);
        return 1;
    }
    front->held.file = fd; /* for who catches the longjmp */
    struct fy_source *source = read_open(front, request, path, fd);
    close(fd);
    front->held.file = -1;
    if (source && (!front->word || may_concern(source, front->word))) {
        source->importer = request->importer;
        parse_source(front, source, request->depth);
    }
    return 1;
}

static void
load_import(struct fy_front *front, const struct fy_source *importer,
            const struct ast_import *import, unsigned depth)
{
    const struct request request = {import->path.span, importer, depth};
    const char *name = import->path.text;
    const char *slash = strrchr(importer->name, '/');
    int found = 0;
    if (name[0] == '\0') {
        fy_error(front, request.span, "the name of a file is empty");
        return;
    }
    if (name[0] == '/' || !slash) {
        found = load(front, &request, name);
    } else {
        found = load(front, &request,
                     fy_arena_print(&front->arena, "%.*s/%s",
                                    (int)(slash - importer->name),
                                    importer->name, name));
    }
    if (!found && name[0] != '/' && front->library_dir) {
        found = load(
            front, &request,
            fy_arena_print(&front->arena, "%s/%s", front->library_dir, name));
    }
    if (!found) {
        fy_diagnostic_hint(fy_error(front, request.span, "cannot find '%.*s'",
                                    FY_MAX_QUOTED, name),
                           "imports are looked up beside the file%s",
                           front->library_dir ? ", then among the shipped ones"
                                              : "");
    }
}

static void
free_entries(struct fy_front *front)
{
    for (unsigned i = 0; i < front->held.nentries; i++) {
        free(front->held.entries[i]);
    }
    free(front->held.entries);
    front->held.entries = NULL;
    front->held.nentries = 0;
}

#define APPEND(type, to, list)                                        \
    do {                                                              \
        struct type **end_ = &(to), *rest_ = (list), *turned_ = NULL; \
        while (rest_) { /* the parser's lists are backwards */        \
            struct type *next_ = rest_->next;                         \
            rest_->next = turned_;                                    \
            turned_ = rest_;                                          \
            rest_ = next_;                                            \
        }                                                             \
        while (*end_)                                                 \
            end_ = &(*end_)->next;                                    \
        *end_ = turned_;                                              \
    } while (0)

static void
parse_commands(struct fy_front *front, struct ast_raw *list)
{
    struct ast_file raws = {0};
    APPEND(ast_raw, raws.commands, list);
    for (const struct ast_raw *raw = raws.commands;
         raw && !fy_diagnostics_full(front->diagnostics); raw = raw->next) {
        if (front->word &&
            !may_name(raw->span.source->text + raw->span.begin,
                      raw->span.end - raw->span.begin, front->word)) {
            continue;
        }
        struct cmd_block *block =
            fy_command_parse(&front->arena, front->diagnostics, raw);
        if (block) {
            block->path = front->path;
            *front->blocks_end = block;
            front->blocks_end = &block->next;
        }
    }
}

static void
parse_source(struct fy_front *front, struct fy_source *source, unsigned depth)
{
    struct ast_file file;
    struct ast_file imports = {0};
    index_lines(front, source);
    fy_parse_source(&front->arena, front->diagnostics, source, &file);
    source->is_open = 1;
    for (struct ast_function *f = file.functions; f; f = f->next) {
        f->path = front->path;
    }
    APPEND(ast_import, imports.imports, file.imports);
    for (const struct ast_import *i = imports.imports;
         i && !fy_diagnostics_full(front->diagnostics); i = i->next) {
        load_import(front, source, i, depth + 1);
    }
    source->is_open = 0;
    if (front->wants_commands) {
        parse_commands(front, file.commands);
    }
    APPEND(ast_family, front->all.families, file.families);
    APPEND(ast_spelling, front->all.spellings, file.spellings);
    APPEND(ast_struct, front->all.structs, file.structs);
    APPEND(ast_handle, front->all.handles, file.handles);
    APPEND(ast_function, front->all.functions, file.functions);
    APPEND(ast_raw, front->all.nests, file.nests);
}

static int
is_annotation(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && dot && strcmp(dot, ".ferry") == 0;
}

/* Compares names without alphasort(), because the order must not depend on
 * the locale. */
static int
by_file_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void
load_folder(struct fy_front *front, const struct request *request,
            const char *path)
{
    int count =
        scandir(path, &front->held.entries, is_annotation, by_file_name);
    if (count < 0) {
        front->held.entries = NULL;
        cannot_read_for(front, request, path, errno);
        return;
    }
    front->held.nentries = (unsigned)count;
    const char **paths =
        fy_arena_array(&front->arena, (size_t)count, sizeof *paths);
    for (int i = 0; i < count; i++) {
        paths[i] = fy_arena_print(&front->arena, "%s/%s", path,
                                  front->held.entries[i]->d_name);
    }
    free_entries(front);
    for (int i = 0; i < count; i++) {
        if (!load(front, request, paths[i])) {
            cannot_read_for(front, request, paths[i], ENOENT);
        }
    }
}

static bool
is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static void
load_path(struct fy_front *front, const char *path)
{
    const struct request request = {no_span, NULL, 0};
    if (is_folder(path)) {
        load_folder(front, &request, path);
        const char *commands =
            fy_arena_print(&front->arena, "%s/commands", path);
        if (front->wants_commands && is_folder(commands)) {
            load_folder(front, &request, commands);
        }
    } else if (!load(front, &request, path)) {
        cannot_read_for(front, &request, path, ENOENT);
    }
}

/* ---- phases ---- */

static void
compile_all(struct fy_front *front)
{
    /* After a syntax error too much is missing for the checks to mean much. */
    if (fy_diagnostics_errors(front->diagnostics) > 0) {
        return;
    }
    fy_declare_all(front);
    if (fy_diagnostics_full(front->diagnostics)) {
        return;
    }
    fy_make_units(front);
    fy_expand_forms(front);
    fy_chain_variants(front);
    for (size_t i = 0;
         i < front->units.count && !fy_diagnostics_full(front->diagnostics);
         i++) {
        fy_make_symbols(front, (uint32_t)i);
    }
    front->body = fy_arena_alloc(&front->arena, sizeof *front->body);
    for (size_t i = 0;
         i < front->units.count && !fy_diagnostics_full(front->diagnostics);
         i++) {
        fy_compile_body(front, (uint32_t)i);
    }
    fy_check_variants(front);
}

static void
load_text(struct fy_front *front, const struct fy_compile_input *input)
{
    if (input->bytes > FY_MAX_FILE_BYTES) {
        fy_error(front, no_span,
                 "'%s' has %zu bytes; an annotation file has at most %d",
                 input->name, input->bytes, FY_MAX_FILE_BYTES);
        return;
    }
    struct fy_source *source = source_new(front, input->name, input->bytes);
    memcpy(source->text, input->text, input->bytes);
    parse_source(front, source, 0);
}

static void
load_input(struct fy_front *front, const struct fy_compile_input *input)
{
    if (input->text) {
        load_text(front, input);
    }
    for (unsigned i = 0; i < input->npaths; i++) {
        front->path = i;
        load_path(front, input->paths[i]);
    }
}

/* After loading; the set stays with `front'. */
static void
compile_commands(struct fy_front *front)
{
    if (fy_diagnostics_errors(front->diagnostics) == 0) {
        fy_command_check_all(&front->arena, front->diagnostics, front->blocks,
                             front->commands);
    }
}

/* The result, when there are no errors. */
static int
hand_out(struct fy_front *front, const struct fy_compile_input *input)
{
    if (fy_diagnostics_errors(front->diagnostics) > 0) {
        return FY_ERR_INVALID;
    }
    if (input->model) {
        struct fy_model *model = fy_emit(front);
        if (!model) {
            return FY_ERR_NOMEM;
        }
        *input->model = model;
    }
    if (input->commands) {
        front->commands->arena.out_of_memory = NULL;
        *input->commands = front->commands;
        front->commands = NULL;
    }
    return FY_OK;
}

int
fy_compile_input(const struct fy_compile_input *input,
                 struct fy_diagnostics *diagnostics)
{
    jmp_buf out_of_memory;
    struct fy_front *front = calloc(1, sizeof *front);
    struct fy_commands *commands =
        front && input->commands ? calloc(1, sizeof *commands) : NULL;
    volatile int status = FY_ERR_NOMEM;
    if (!front || (input->commands && !commands)) {
        free(front);
        return FY_ERR_NOMEM;
    }
    front->held.file = -1;
    front->arena.out_of_memory = &out_of_memory;
    front->arena.limit = (size_t)FY_MAX_MEGABYTES << 20;
    front->diagnostics = diagnostics;
    front->library_dir = input->library_dir;
    front->blocks_end = &front->blocks;
    front->wants_commands = commands;
    front->word = input->word;
    if (commands) {
        commands->arena.out_of_memory = &out_of_memory;
        commands->arena.limit = front->arena.limit;
        front->commands = commands;
    }
    /* Only `front' is used after a longjmp, and it does not change. */
    if (setjmp(out_of_memory) == 0) {
        load_input(front, input);
        if (input->model) {
            compile_all(front);
        }
        if (input->commands) {
            compile_commands(front);
        }
        status = hand_out(front, input);
    } else {
        fy_error(front, no_span,
                 "these annotations need more memory than "
                 "there is, or than %d MiB",
                 FY_MAX_MEGABYTES);
    }
    if (front->held.file >= 0) {
        close(front->held.file);
    }
    free_entries(front);
    fy_commands_free(front->commands);
    fy_arena_free(&front->arena);
    free(front);
    return status;
}

int
fy_compile(const char *const *paths, unsigned npaths, const char *library_dir,
           struct fy_diagnostics *diagnostics, struct fy_model **out)
{
    struct fy_compile_input input = {.paths = paths,
                                     .npaths = npaths,
                                     .library_dir = library_dir,
                                     .model = out};
    return fy_compile_input(&input, diagnostics);
}

int
fy_compile_text(const char *name, const char *text, size_t bytes,
                const char *library_dir, struct fy_diagnostics *diagnostics,
                struct fy_model **out)
{
    struct fy_compile_input input = {.name = name,
                                     .text = text,
                                     .bytes = bytes,
                                     .library_dir = library_dir,
                                     .model = out};
    return fy_compile_input(&input, diagnostics);
}
