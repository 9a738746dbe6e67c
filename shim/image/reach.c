/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ELF files from disk to say what ferry can see of a program (reach.h).
 * The files are anybody's: every offset is checked against the file's size.
 * Long because the readers of a file share its mapping and its bounds.
 */
#include "config.h"

#include "shim/image/reach.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/path.h"
#include "shim/image/head.h"

enum {
    MAX_SCRIPT_DEPTH = 4,
    MAX_SYMBOLS = 1 << 24,
    MAX_SEGMENTS = 65536 / sizeof(Elf64_Phdr), /* the kernel runs no more */
};

extern char **environ;

/* A file, mapped, and what of its dynamic section matters here. */
struct file {
    const uint8_t *bytes;
    size_t size;
    mode_t mode;
    const Elf64_Ehdr *header;
    const Elf64_Phdr *segments;
    const char *interpreter; /* PT_INTERP, or NULL */
    const Elf64_Sym *symbols;
    uint32_t nsymbols;
    const char *strings;
    size_t strings_bytes;
    bool dynamic, symbolic;
};

struct scan {
    const struct fy_model *model;
    fy_reach_report *report;
    void *closure;
    struct fy_buffer *why;
};

static void
tell(const struct scan *scan, enum fy_reach_kind kind, const char *object,
     const char *text, unsigned count, const char *example)
{
    struct fy_reach_finding finding = {kind, object, text, count, example};
    scan->report(scan->closure, &finding);
}

/* ---- files -------------------------------------------------------------- */

static int
open_file(const char *path, struct file *out)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), result = 0;
    *out = (struct file){.bytes = MAP_FAILED};
    if (file < 0) {
        return errno == ENOENT ? FY_ERR_NOENT : FY_ERR_IO;
    }
    if (fstat(file, &status) || !S_ISREG(status.st_mode) ||
        status.st_size < 4) {
        result = FY_ERR_INVALID;
    } else {
        out->size = (size_t)status.st_size;
        out->mode = status.st_mode;
        out->bytes = mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, file, 0);
        if (out->bytes == MAP_FAILED) {
            result = FY_ERR_IO;
        }
    }
    int saved = errno;
    close(file);
    errno = saved;
    return result;
}

static void
close_file(struct file *file)
{
    if (file->bytes != MAP_FAILED) {
        munmap((void *)(uintptr_t)file->bytes, file->size);
    }
}

/* `bytes' at `offset', which must be aligned, or NULL. */
static const void *
at_offset(const struct file *file, uint64_t offset, uint64_t bytes,
          unsigned align)
{
    if (offset > file->size || bytes > file->size - offset || offset % align) {
        return NULL;
    }
    return file->bytes + offset;
}

/* What is at a virtual address, and how many bytes of the file follow. */
static const void *
at_address(const struct file *file, uint64_t address, unsigned align,
           uint64_t *bytes)
{
    for (unsigned i = 0; i < file->header->e_phnum; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
            address - segment->p_vaddr >= segment->p_filesz) {
            continue;
        }
        uint64_t from = address - segment->p_vaddr;
        *bytes = segment->p_filesz - from;
        if (segment->p_offset > UINT64_MAX - from) {
            return NULL;
        }
        return at_offset(file, segment->p_offset + from, *bytes, align);
    }
    return NULL;
}

/* How many symbols the GNU hash table covers; 0 when it is damaged. */
static uint32_t
count_symbols(const uint32_t *table, uint64_t bytes)
{
    uint64_t words = bytes / 4, last = 0;
    if (words < 4) {
        return 0;
    }
    uint64_t buckets = 4 + (uint64_t)table[2] * 2, chains = buckets + table[0];
    if (chains > words) {
        return 0;
    }
    for (uint64_t i = buckets; i < chains; i++) {
        if (table[i] > last) {
            last = table[i];
        }
    }
    if (last < table[1]) {
        return table[1];
    }
    for (; chains + last - table[1] < words; last++) {
        if (table[chains + last - table[1]] & 1) {
            return last < MAX_SYMBOLS ? (uint32_t)last + 1 : 0;
        }
    }
    return 0;
}

/* One more than the last symbol that a relocation table names, or `least'.
   The GNU hash table of a program that defines nothing covers nothing. */
static uint32_t
count_referred(const struct file *file, uint64_t address, uint64_t bytes,
               uint32_t least)
{
    uint64_t room;
    const Elf64_Rela *rows = at_address(file, address, 8, &room);
    if (!rows) {
        return least;
    }
    uint64_t count = (bytes < room ? bytes : room) / sizeof *rows;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t symbol = ELF64_R_SYM(rows[i].r_info);
        if (symbol >= least && symbol < MAX_SYMBOLS) {
            least = (uint32_t)symbol + 1;
        }
    }
    return least;
}

static void
read_symbols(struct file *file, const Elf64_Dyn *entries, size_t count)
{
    uint64_t symbols = 0, strings = 0, size = 0, gnu = 0, sysv = 0, room;
    uint64_t rela = 0, rela_bytes = 0, plt = 0, plt_bytes = 0;
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        uint64_t value = entries[i].d_un.d_val;
        switch (entries[i].d_tag) {
        case DT_SYMTAB:
            symbols = value;
            break;
        case DT_STRTAB:
            strings = value;
            break;
        case DT_STRSZ:
            size = value;
            break;
        case DT_GNU_HASH:
            gnu = value;
            break;
        case DT_HASH:
            sysv = value;
            break;
        case DT_RELA:
            rela = value;
            break;
        case DT_RELASZ:
            rela_bytes = value;
            break;
        case DT_JMPREL:
            plt = value;
            break;
        case DT_PLTRELSZ:
            plt_bytes = value;
            break;
        case DT_SYMBOLIC:
            file->symbolic = true;
            break;
        case DT_FLAGS:
            file->symbolic |= (value & DF_SYMBOLIC) != 0;
            break;
        default:
            break;
        }
    }
    const uint32_t *table;
    if (gnu && (table = at_address(file, gnu, 4, &room))) {
        file->nsymbols = count_symbols(table, room);
    } else if (sysv && (table = at_address(file, sysv, 4, &room)) &&
               room >= 8) {
        file->nsymbols = table[1];
    }
    if (gnu) {
        file->nsymbols = count_referred(file, rela, rela_bytes, file->nsymbols);
        file->nsymbols = count_referred(file, plt, plt_bytes, file->nsymbols);
    }
    file->symbols = at_address(file, symbols, 8, &room);
    if (!file->symbols || room / sizeof(Elf64_Sym) < file->nsymbols) {
        file->nsymbols = 0;
    }
    file->strings = at_address(file, strings, 1, &room);
    file->strings_bytes = size;
    if (!file->strings || size == 0 || room < size ||
        file->strings[size - 1] != '\0') {
        file->nsymbols = 0;
    }
}

/* FY_ERR_INVALID: no ELF file; FY_ERR_UNSUPPORTED: not one of this machine. */
static int
read_elf(struct file *file)
{
    const Elf64_Ehdr *header = file->header = (const void *)file->bytes;
    if (file->size < EI_NIDENT || memcmp(file->bytes, ELFMAG, SELFMAG) != 0) {
        return FY_ERR_INVALID;
    }
    if (file->size < sizeof *header ||
        header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_machine != EM_X86_64) {
        return FY_ERR_UNSUPPORTED;
    }
    file->segments =
        at_offset(file, header->e_phoff,
                  (uint64_t)header->e_phnum * sizeof(Elf64_Phdr), 8);
    if (!file->segments || header->e_phnum > MAX_SEGMENTS ||
        header->e_phentsize != sizeof(Elf64_Phdr) ||
        (header->e_type != ET_EXEC && header->e_type != ET_DYN)) {
        return FY_ERR_INVALID;
    }
    for (unsigned i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_offset > file->size ||
            segment->p_filesz > file->size - segment->p_offset) {
            continue;
        }
        const char *at = (const char *)file->bytes + segment->p_offset;
        if (segment->p_type == PT_INTERP && segment->p_filesz > 1 &&
            at[segment->p_filesz - 1] == '\0') {
            file->interpreter = at;
        }
        if (segment->p_type == PT_DYNAMIC && segment->p_offset % 8 == 0 &&
            !file->dynamic) { /* of many each would be read through */
            file->dynamic = true;
            read_symbols(file, (const void *)at,
                         segment->p_filesz / sizeof(Elf64_Dyn));
        }
    }
    return 0;
}

/* ---- names --------------------------------------------------------------- */

static bool
annotated(const struct fy_model *model, const char *name)
{
    const struct fy_symbol *rows = FY_TABLE(model, fy_symbol, symbols);
    uint32_t low = 0, high = model->symbols.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(name, fy_model_string(model, rows[middle].name));
        if (order == 0) {
            return true;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}

struct found {
    unsigned count;
    const char *example;
};

static void
add(struct found *found, const char *name)
{
    if (found->count++ == 0) {
        found->example = name;
    }
}

static void
look_at(const struct scan *scan, const char *path, const struct file *file,
        bool program)
{
    struct found imports = {0, ""}, defines = {0, ""};
    bool imports_dlopen = false, imports_dlmopen = false;
    const char *last = strrchr(path, '/');
    bool libc = strncmp(last ? last + 1 : path, "libc.so", 7) == 0 ||
                strncmp(last ? last + 1 : path, "libdl.so", 8) == 0;
    for (uint32_t i = 1; i < file->nsymbols; i++) {
        const Elf64_Sym *symbol = &file->symbols[i];
        if (symbol->st_name >= file->strings_bytes ||
            ELF64_ST_BIND(symbol->st_info) == STB_LOCAL) {
            continue;
        }
        const char *name = file->strings + symbol->st_name;
        bool undefined = symbol->st_shndx == SHN_UNDEF;
        if (undefined && strcmp(name, "dlopen") == 0) {
            imports_dlopen = !libc;
        }
        if (undefined && strcmp(name, "dlmopen") == 0) {
            imports_dlmopen = !libc;
        }
        if (annotated(scan->model, name)) {
            add(undefined ? &imports : &defines, name);
        }
    }
    if (imports.count) {
        tell(scan, FY_REACH_IMPORTS, path, "", imports.count, imports.example);
    }
    if (defines.count) {
        tell(scan, program ? FY_REACH_PROGRAM : FY_REACH_DEFINES, path, "",
             defines.count, defines.example);
    }
    if (defines.count && file->symbolic) {
        tell(scan, FY_REACH_SYMBOLIC, path, "", defines.count, defines.example);
    }
    if (imports_dlopen) {
        tell(scan, FY_REACH_DLOPEN, path, "", 0, "");
    }
    if (imports_dlmopen) {
        tell(scan, FY_REACH_DLMOPEN, path, "", 0, "");
    }
}

/* ---- what it loads --------------------------------------------------------- */

static void
look_at_library(const struct scan *scan, const char *path)
{
    struct file file;
    if (open_file(path, &file) == 0 && read_elf(&file) == 0) {
        look_at(scan, path, &file, false);
    }
    close_file(&file);
}

/* A line of the dynamic linker's list: "name => path (address)", "path (address)". */
static void
read_line(const struct scan *scan, const char *program, char *line)
{
    line += strspn(line, " \t");
    line[strcspn(line, "\n")] = '\0';
    char *path = strstr(line, " => ");
    if (path && strcmp(path + 4, "not found") == 0) {
        *path = '\0';
        tell(scan, FY_REACH_MISSING, program, line, 0, "");
        return;
    }
    path = path ? path + 4 : line;
    char *end = strrchr(path, '(');
    if (end && end > path && end[-1] == ' ') {
        end[-1] = '\0';
    }
    if (path[0] == '/') {
        look_at_library(scan, path);
    }
}

/* Our environment, and what makes the dynamic linker print and end (ldd). */
static char **
with_trace(void)
{
    static char trace[] = "LD_TRACE_LOADED_OBJECTS=1";
    size_t count = 0;
    while (environ[count]) {
        count++;
    }
    char **out = calloc(count + 2, sizeof *out);
    if (!out) {
        return NULL;
    }
    memcpy(out, environ, count * sizeof *out);
    out[count] = trace;
    return out;
}

/* The dynamic linker of the program, in the mode in which it only looks. */
static void
list_libraries(const struct scan *scan, const char *program,
               const char *interpreter)
{
    int ends[2];
    pid_t child;
    char *arguments[] = {(char *)interpreter, (char *)program, NULL};
    posix_spawn_file_actions_t actions;
    char **environment = with_trace();
    if (!environment) {
        return;
    }
    if (pipe2(ends, O_CLOEXEC)) {
        free(environment);
        return;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                     O_WRONLY, 0);
    bool started = posix_spawn(&child, interpreter, &actions, NULL, arguments,
                               environment) == 0;
    free(environment);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *from = started ? fdopen(ends[0], "r") : NULL;
    if (from) {
        char *line = NULL;
        size_t room = 0;
        while (getline(&line, &room, from) > 0) {
            read_line(scan, program, line);
        }
        free(line);
        (void)fclose(from);
    } else {
        close(ends[0]);
    }
    while (started && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        continue;
    }
}

/* Whether a file named in the program may be run: glibc's own linker only. */
static bool
trusted_linker(const char *interpreter)
{
    char real[PATH_MAX];
    struct stat status;
    return (strncmp(interpreter, "/lib64/ld-linux-x86-64.so", 25) == 0 ||
            strncmp(interpreter, "/lib/ld-linux-x86-64.so", 23) == 0) &&
           realpath(interpreter, real) && stat(real, &status) == 0 &&
           status.st_uid == 0 && (status.st_mode & 0022) == 0;
}

/* ---- programs ---------------------------------------------------------------- */

/* A path is opened as it is: whether it is a program is said of its bytes. */
static bool
find_program(const char *name, char out[PATH_MAX])
{
    return strchr(name, '/') ? snprintf(out, PATH_MAX, "%s", name) < PATH_MAX
                             : fy_path_search(name, out);
}

static int scan_program(const struct scan *scan, const char *program,
                        unsigned depth);

/* "#!/usr/bin/env python3" and the like. */
static int
scan_script(const struct scan *scan, const char *path, const struct file *file,
            unsigned depth)
{
    char line[256], *words[2] = {NULL, NULL}, *state;
    size_t bytes =
        file->size - 2 < sizeof line - 1 ? file->size - 2 : sizeof line - 1;
    memcpy(line, file->bytes + 2, bytes);
    line[bytes] = '\0';
    line[strcspn(line, "\n")] = '\0';
    words[0] = strtok_r(line, " \t", &state);
    words[1] = words[0] ? strtok_r(NULL, " \t", &state) : NULL;
    if (!words[0]) {
        return FY_ERR_INVALID;
    }
    const char *base = strrchr(words[0], '/');
    const char *interpreter =
        base && strcmp(base, "/env") == 0 && words[1] ? words[1] : words[0];
    tell(scan, FY_REACH_SCRIPT, path, interpreter, 0, "");
    return scan_program(scan, interpreter, depth + 1);
}

static void
scan_elf(const struct scan *scan, const char *path, const struct file *file)
{
    if (!file->interpreter) {
        tell(scan, FY_REACH_STATIC, path, "", 0, "");
        return;
    }
    if (!strstr(file->interpreter, "ld-linux-x86-64.so")) {
        tell(scan, FY_REACH_FOREIGN, path, file->interpreter, 0, "");
        return;
    }
    if (file->mode & (S_ISUID | S_ISGID)) {
        tell(scan, FY_REACH_SETUID, path, "", 0, "");
    }
    look_at(scan, path, file, true);
    if (trusted_linker(file->interpreter)) {
        list_libraries(scan, path, file->interpreter);
    }
}

static int
scan_program(const struct scan *scan, const char *program, unsigned depth)
{
    char path[PATH_MAX];
    struct file file = {.bytes = MAP_FAILED};
    int status =
        find_program(program, path) ? open_file(path, &file) : FY_ERR_NOENT;
    if (status) {
        fy_buffer_add(scan->why, program);
        fy_buffer_add(scan->why, status == FY_ERR_INVALID ? " is not a program"
                                                          : " cannot be read");
        close_file(&file);
        return status;
    }
    if (memcmp(file.bytes, "#!", 2) == 0 && depth < MAX_SCRIPT_DEPTH) {
        status = scan_script(scan, path, &file, depth);
    } else {
        status = read_elf(&file);
        if (status == FY_ERR_UNSUPPORTED) {
            tell(scan, FY_REACH_FOREIGN, path, "", 0, "");
            status = 0;
        } else if (status) {
            fy_buffer_add(scan->why, path);
            fy_buffer_add(scan->why, " is neither a program nor a script");
        } else {
            scan_elf(scan, path, &file);
        }
    }
    close_file(&file);
    return status;
}

int
fy_reach_scan(const char *program, const struct fy_model *model,
              fy_reach_report *report, void *closure, struct fy_buffer *why)
{
    struct scan scan = {model, report, closure, why};
    return scan_program(&scan, program, 0);
}

/* ---- words ---------------------------------------------------------------------- */

static void
add_names(struct fy_buffer *to, const struct fy_reach_finding *finding)
{
    fy_buffer_add_number(to, finding->count);
    fy_buffer_add(to, finding->count == 1 ? " annotated name ("
                                          : " annotated names (");
    fy_buffer_add(to, finding->example);
    fy_buffer_add(to, finding->count == 1 ? ")" : ", ...)");
}

void
fy_reach_describe(const struct fy_reach_finding *finding, struct fy_buffer *to)
{
    fy_buffer_add(to, finding->object);
    switch (finding->kind) {
    case FY_REACH_SCRIPT:
        fy_buffer_add(to, " is a script, run by ");
        fy_buffer_add(to, finding->text);
        break;
    case FY_REACH_IMPORTS:
        fy_buffer_add(to, " calls ");
        add_names(to, finding);
        fy_buffer_add(to, ": seen");
        break;
    case FY_REACH_DEFINES:
        fy_buffer_add(to, " defines ");
        add_names(to, finding);
        break;
    case FY_REACH_STATIC:
        fy_buffer_add(to, " is statically linked: nothing is seen");
        break;
    case FY_REACH_FOREIGN:
        fy_buffer_add(to, " is not for x86-64 with glibc: nothing is seen");
        break;
    case FY_REACH_SETUID:
        fy_buffer_add(to, " is setuid or setgid: ferry stays out of it");
        break;
    case FY_REACH_SYMBOLIC:
        fy_buffer_add(to, " was linked with -Bsymbolic: its own calls of ");
        add_names(to, finding);
        fy_buffer_add(to, " are not seen");
        break;
    case FY_REACH_PROGRAM:
        fy_buffer_add(to, " defines ");
        add_names(to, finding);
        fy_buffer_add(to, " itself: calls of them are not seen");
        break;
    case FY_REACH_DLMOPEN:
        fy_buffer_add(to, " uses dlmopen: what it loads so is not seen");
        break;
    case FY_REACH_DLOPEN:
        fy_buffer_add(to, " loads libraries at run time: calls from and to "
                          "them are seen");
        break;
    case FY_REACH_MISSING:
        fy_buffer_add(to, " needs ");
        fy_buffer_add(to, finding->text);
        fy_buffer_add(to, ", which was not found");
        break;
    }
}

bool
fy_reach_is_foreign(const char *program)
{
    char path[PATH_MAX];
    struct fy_head head;
    if (!find_program(program, path)) {
        return false;
    }
    fy_head_read(AT_FDCWD, path, &head);
    return head.foreign;
}
