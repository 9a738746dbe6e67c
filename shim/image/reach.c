/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the calls of a program that ferry can see, by libelf (reach.h). The
 * files are anybody's.
 */
#include "config.h"

#include "shim/image/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/path.h"
#include "shim/image/head.h"

enum {
    MAX_SCRIPT_DEPTH = 4,
    MAX_SYMBOLS = 1 << 20,
};

struct scan {
    const struct fy_model *model;
    fy_reach_report *report;
    void *closure;
    struct fy_buffer *why;
};

static void
tell(const struct scan *scan, enum fy_reach_kind kind, const char *object,
     const char *text, unsigned count)
{
    struct fy_reach_finding finding = {kind, object, text, count};
    scan->report(scan->closure, &finding);
}

static bool
is_annotated(const struct fy_model *model, const char *name)
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

/* Tells how many annotated names one table of dynamic symbols asks for, and one.
 * FY_ERR_INVALID if the table cannot be read. */
static int
look_at_symbols(const struct scan *scan, const char *path, Elf *elf,
                Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    const char *example = "";
    unsigned count = 0;
    GElf_Sym symbol;
    if (!data) {
        return FY_ERR_INVALID;
    }
    for (int i = 1; i < MAX_SYMBOLS && gelf_getsym(data, i, &symbol); i++) {
        const char *name =
            symbol.st_shndx == SHN_UNDEF
                ? elf_strptr(elf, header->sh_link, symbol.st_name)
                : NULL;
        if (name && is_annotated(scan->model, name)) {
            example = count++ ? example : name;
        }
    }
    if (count) {
        tell(scan, FY_REACH_IMPORTS, path, example, count);
    }
    return FY_OK;
}

static bool
has_linker(Elf *elf)
{
    size_t count = 0;
    GElf_Phdr segment;
    (void)elf_getphdrnum(elf, &count);
    for (size_t i = 0; i < count && gelf_getphdr(elf, (int)i, &segment); i++) {
        if (segment.p_type == PT_INTERP) {
            return true;
        }
    }
    return false;
}

static int
scan_elf(const struct scan *scan, const char *path, int file)
{
    GElf_Ehdr head;
    GElf_Shdr header;
    Elf_Scn *section = NULL;
    int status = FY_OK;
    (void)elf_version(EV_CURRENT);
    Elf *elf = elf_begin(file, ELF_C_READ, NULL);
    if (!elf || !gelf_getehdr(elf, &head) ||
        (head.e_type != ET_EXEC && head.e_type != ET_DYN)) {
        (void)elf_end(elf);
        return FY_ERR_INVALID;
    }
    if (!has_linker(elf)) {
        tell(scan, FY_REACH_STATIC, path, "", 0);
    } else {
        while ((section = elf_nextscn(elf, section))) {
            /* Only the first table: libelf keeps the content of each. */
            if (gelf_getshdr(section, &header) &&
                header.sh_type == SHT_DYNSYM) {
                status = look_at_symbols(scan, path, elf, section, &header);
                break;
            }
        }
    }
    (void)elf_end(elf);
    return status;
}

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
scan_script(const struct scan *scan, const char *path, char *line,
            unsigned depth)
{
    char *words[2] = {NULL, NULL}, *state;
    line[strcspn(line, "\n")] = '\0';
    words[0] = strtok_r(line + 2, " \t", &state);
    words[1] = words[0] ? strtok_r(NULL, " \t", &state) : NULL;
    if (!words[0]) {
        return FY_ERR_INVALID;
    }
    const char *base = strrchr(words[0], '/');
    const char *interpreter =
        base && strcmp(base, "/env") == 0 && words[1] ? words[1] : words[0];
    tell(scan, FY_REACH_SCRIPT, path, interpreter, 0);
    return scan_program(scan, interpreter, depth + 1);
}

static bool
is_elf(const struct fy_head *head)
{
    return head->bytes > EI_CLASS && memcmp(head->u.text, ELFMAG, SELFMAG) == 0;
}

static int
scan_file(const struct scan *scan, const char *path, int file,
          const struct stat *status, unsigned depth)
{
    struct fy_head head;
    fy_head_read(AT_FDCWD, path, &head);
    if (memcmp(head.u.text, "#!", 2) == 0 && depth < MAX_SCRIPT_DEPTH) {
        return scan_script(scan, path, head.u.text, depth);
    }
    if (!is_elf(&head)) {
        return FY_ERR_INVALID;
    }
    if (head.foreign || head.u.text[EI_CLASS] != ELFCLASS64) {
        tell(scan, FY_REACH_FOREIGN, path, "", 0);
        return FY_OK;
    }
    if (status->st_mode & (S_ISUID | S_ISGID)) {
        tell(scan, FY_REACH_SETUID, path, "", 0);
    }
    return scan_elf(scan, path, file);
}

static int
scan_program(const struct scan *scan, const char *program, unsigned depth)
{
    char path[PATH_MAX];
    struct stat status;
    int file = find_program(program, path)
                   ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
                   : -1;
    if (file < 0) {
        fy_buffer_printf(scan->why, "%s cannot be read", program);
        return errno == ENOENT ? FY_ERR_NOENT : FY_ERR_IO;
    }
    int result = fstat(file, &status) || !S_ISREG(status.st_mode)
                     ? FY_ERR_INVALID
                     : scan_file(scan, path, file, &status, depth);
    if (result == FY_ERR_INVALID && depth == 0) {
        fy_buffer_printf(scan->why, "%s is neither a program nor a script",
                         path);
    }
    (void)close(file);
    return result;
}

int
fy_reach_scan(const char *program, const struct fy_model *model,
              fy_reach_report *report, void *closure, struct fy_buffer *why)
{
    struct scan scan = {model, report, closure, why};
    return scan_program(&scan, program, 0);
}

void
fy_reach_describe(const struct fy_reach_finding *finding, struct fy_buffer *to)
{
    fy_buffer_add(to, finding->object);
    switch (finding->kind) {
    case FY_REACH_SCRIPT:
        fy_buffer_printf(to, " is a script, run by %s", finding->text);
        break;
    case FY_REACH_IMPORTS:
        fy_buffer_printf(
            to, " calls %u%s%s%s", finding->count,
            finding->count == 1 ? " annotated name (" : " annotated names (",
            finding->text, finding->count == 1 ? "): seen" : ", ...): seen");
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
