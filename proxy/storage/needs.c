/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dynamic linker as a witness, see the header: it is run in the mode in which
 * it only tells what it would load (ldd). Only a linker of the system's is run,
 * one that nobody but root can change; the program itself never is.
 */
#include "config.h"

#include "proxy/storage/needs.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/path.h"
#include "common/whole.h"

enum {
    PARTS_MAX = 64,            /* segments that are looked at */
    TEXT_MAX_BYTES = 64 << 10, /* of what the linker tells */
    NAMES_MAX_BYTES = 4 << 20, /* of an object's symbols */
};

/* The segments of an ELF file; 0: it is none of this machine's kind. */
static unsigned
read_parts(int fd, Elf64_Phdr parts[PARTS_MAX])
{
    Elf64_Ehdr head;
    if (fy_read_whole_at(fd, 0, &head, sizeof head) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB ||
        head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > PARTS_MAX ||
        fy_read_whole_at(fd, head.e_phoff, parts,
                         head.e_phnum * sizeof *parts)) {
        return 0;
    }
    return head.e_phnum;
}

/* ---- what is loaded later -------------------------------------------------------- */

/* Where in the file an address of its image is; UINT64_MAX: nowhere. */
static uint64_t
in_file(const Elf64_Phdr *parts, unsigned n, uint64_t address)
{
    for (unsigned i = 0; i < n; i++) {
        if (parts[i].p_type == PT_LOAD && address >= parts[i].p_vaddr &&
            address - parts[i].p_vaddr < parts[i].p_filesz) {
            return parts[i].p_offset + (address - parts[i].p_vaddr);
        }
    }
    return UINT64_MAX;
}

/* Whether the object asks for dlopen(): its names of symbols hold the word. True
 * also when they cannot be read. */
static bool
loads_more(int fd)
{
    static const char *const words[] = {"dlopen", "dlmopen"};
    Elf64_Phdr parts[PARTS_MAX];
    Elf64_Dyn rows[256];
    uint64_t at = 0, bytes = 0;
    unsigned n = read_parts(fd, parts);
    for (unsigned i = 0; i < n; i++) {
        size_t size =
            parts[i].p_filesz < sizeof rows ? parts[i].p_filesz : sizeof rows;
        if (parts[i].p_type != PT_DYNAMIC ||
            fy_read_whole_at(fd, parts[i].p_offset, rows, size)) {
            continue;
        }
        for (size_t row = 0; row < size / sizeof *rows; row++) {
            at = rows[row].d_tag == DT_STRTAB ? rows[row].d_un.d_ptr : at;
            bytes = rows[row].d_tag == DT_STRSZ ? rows[row].d_un.d_val : bytes;
        }
    }
    at = in_file(parts, n, at);
    char *names = bytes > 0 && bytes <= NAMES_MAX_BYTES && at != UINT64_MAX
                      ? malloc(bytes + 1)
                      : NULL;
    bool found = true;
    if (names && fy_read_whole_at(fd, at, names, bytes) == 0) {
        names[bytes] = '\0';
        found = false;
        for (const char *name = names; !found && name < names + bytes;
             name += strlen(name) + 1) {
            found = strcmp(name, words[0]) == 0 || strcmp(name, words[1]) == 0;
        }
    }
    free(names);
    return found;
}

/* These load by absolute paths, or what changes no result. */
static bool
is_known_to_load(const char *name)
{
    /* libselinux loads a compiler of policies, which no command needs. */
    static const char *const known[] = {"libc.so.6", "libcrypto.so.3",
                                        "libcrypto.so.1.1", "libselinux.so.1"};
    name = fy_path_name(name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i]) == 0) {
            return true;
        }
    }
    return strncmp(name, "ld-linux", 8) == 0;
}

bool
fy_needs_more(const char *path, int program, bool loads_paths,
              const struct fy_needs *needs)
{
    if (!loads_paths && !is_known_to_load(path) && loads_more(program)) {
        return true;
    }
    for (unsigned i = 0; i < needs->n; i++) {
        const struct fy_need *need = &needs->rows[i];
        if (is_known_to_load(need->name)) {
            continue;
        }
        int fd = open(need->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        bool more = fd < 0 || loads_more(fd);
        if (fd >= 0) {
            (void)close(fd);
        }
        if (more) {
            return true;
        }
    }
    return false;
}

/* ---- the linker ---------------------------------------------------------------------- */

int
fy_needs_linker(int fd, char *out)
{
    Elf64_Phdr parts[PARTS_MAX];
    unsigned n = read_parts(fd, parts);
    out[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        if (parts[i].p_type != PT_INTERP) {
            continue;
        }
        if (parts[i].p_filesz >= PATH_MAX) {
            return FY_ERR_OVERFLOW;
        }
        out[parts[i].p_filesz] = '\0';
        return fy_read_whole_at(fd, parts[i].p_offset, out, parts[i].p_filesz);
    }
    return 0;
}

static bool
may_be_asked(const char *linker)
{
    char real[PATH_MAX];
    struct stat about;
    const char *name = strrchr(linker, '/');
    return name && strncmp(name, "/ld-linux", 9) == 0 &&
           realpath(linker, real) && stat(real, &about) == 0 &&
           about.st_uid == 0 && (about.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* All that comes until the end, as a string; NULL: no memory, or too much. */
static char *
read_text(int fd)
{
    char *text = malloc(TEXT_MAX_BYTES + 1);
    size_t used = 0;
    if (text && (fy_read_most(fd, text, TEXT_MAX_BYTES, &used) ||
                 used == TEXT_MAX_BYTES)) {
        free(text);
        return NULL;
    }
    if (text) {
        text[used] = '\0';
    }
    return text;
}

/* Runs it for what it says. Nothing of our environment counts but the path. */
static int
ask(const char *linker, const char *path, const char *library_path,
    char **out_text)
{
    static char trace[] = "LD_TRACE_LOADED_OBJECTS=1";
    static char name[] = "LD_LIBRARY_PATH=";
    char *argv[] = {(char *)(uintptr_t)linker, (char *)(uintptr_t)path, NULL};
    char *env[] = {trace, NULL, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child;
    int ends[2], status = FY_ERR_NOMEM;
    if (library_path) {
        size_t n = sizeof name + strlen(library_path);
        env[1] = malloc(n);
        if (!env[1]) {
            return FY_ERR_NOMEM;
        }
        (void)snprintf(env[1], n, "%s%s", name, library_path);
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        status = FY_ERR_IO;
        goto free_env;
    }
    if (posix_spawn_file_actions_init(&actions) != 0) {
        goto close_ends;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        goto destroy_actions;
    }
    (void)sigemptyset(&none);
    /* Programs of the run watch their pipes for holders: it keeps none. */
    if (posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) ||
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                         O_RDONLY, 0) ||
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                         O_WRONLY, 0) ||
        posix_spawn_file_actions_addclosefrom_np(&actions, 3) ||
        posix_spawnattr_setsigmask(&attributes, &none) ||
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK)) {
        goto destroy_attributes;
    }
    status = FY_ERR_IO;
    if (posix_spawn(&child, linker, &actions, &attributes, argv, env) != 0) {
        goto destroy_attributes;
    }
    (void)close(ends[1]);
    ends[1] = -1;
    *out_text = read_text(ends[0]);
    int ended = 1;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) {
    }
    status = *out_text && ended == 0 ? 0 : FY_ERR_UNSUPPORTED;
    if (status) {
        free(*out_text);
    }
destroy_attributes:
    posix_spawnattr_destroy(&attributes);
destroy_actions:
    posix_spawn_file_actions_destroy(&actions);
close_ends:
    (void)close(ends[0]);
    if (ends[1] >= 0) {
        (void)close(ends[1]);
    }
free_env:
    free(env[1]);
    return status;
}

/* "name => path (address)" and "path (address)"; lines without a path are the
 * kernel's own object. */
static int
read_lines(struct fy_needs *needs)
{
    char *state = NULL;
    for (char *line = strtok_r(needs->text, "\n", &state); line;
         line = strtok_r(NULL, "\n", &state)) {
        line += strspn(line, " \t");
        char *arrow = strstr(line, " => ");
        char *path = arrow ? arrow + 4 : line;
        char *end = strrchr(path, '(');
        if (path[0] != '/' || !end || end == path || end[-1] != ' ') {
            if (arrow) {
                return FY_ERR_UNSUPPORTED; /* "not found" */
            }
            continue;
        }
        end[-1] = '\0';
        if (arrow) {
            *arrow = '\0';
        }
        if (needs->n == FY_NEEDS_MAX) {
            return FY_ERR_OVERFLOW;
        }
        needs->rows[needs->n++] =
            (struct fy_need){.name = fy_path_name(line), .path = path};
    }
    return 0;
}

int
fy_needs_ask(const char *linker, const char *path, const char *library_path,
             struct fy_needs *out)
{
    struct fy_needs needs = {.known = true};
    int status = ask(linker, path, library_path, &needs.text);
    if (status) {
        return status;
    }
    status = read_lines(&needs);
    if (status) {
        fy_needs_clear(&needs);
        return status;
    }
    *out = needs;
    return 0;
}

int
fy_needs_find(const char *path, int fd, const char *library_path,
              bool loads_paths, struct fy_needs *out)
{
    char linker[PATH_MAX];
    struct fy_needs needs = {.known = true};
    int status = fy_needs_linker(fd, linker);
    if (!status && !linker[0]) {
        *out = needs; /* static, or a script */
        return 0;
    }
    if (!status && !may_be_asked(linker)) {
        needs.known = false;
        *out = needs;
        return library_path ? FY_ERR_UNSUPPORTED : 0;
    }
    if (!status) {
        status = fy_needs_ask(linker, path, library_path, &needs);
    }
    if (status) {
        return status;
    }
    if (library_path && fy_needs_more(path, fd, loads_paths, &needs)) {
        status = FY_ERR_UNSUPPORTED;
    }
    if (status) {
        fy_needs_clear(&needs);
        return status;
    }
    *out = needs;
    return 0;
}

void
fy_needs_clear(struct fy_needs *needs)
{
    free(needs->text);
    needs->text = NULL;
    needs->n = 0;
}
