/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the start of programs, see the header. */
#include "config.h"

#include "shim/image/head.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/arch/x86_64/raw.h"

enum {
    MAX_SCRIPTS = 4, /* one for the other, as the kernel has it */
    MAX_SEGMENTS = 32,
    NAME_BYTES = 32, /* of the end of a dynamic linker's name */
};

bool
fy_head_is_elf(const struct fy_head *head)
{
    return head->bytes >= (long)sizeof head->u.elf &&
           memcmp(head->u.text, ELFMAG, SELFMAG) == 0;
}

/* The dynamic linkers of glibc, and its name for the Linux Standard Base. */
static bool
is_glibc(const char *linker)
{
    return strstr(linker, "/ld-linux-x86-64.so") ||
           strstr(linker, "/ld-lsb-x86-64.so");
}

static bool
read_at(long file, uint64_t from, void *to, size_t bytes)
{
    return fy_raw(SYS_pread64, file, (long)to, (long)bytes, (long)from, 0, 0) ==
           (long)bytes;
}

/* The segment with the name of a program's dynamic linker. Inlined, like the
 * next functions: a handler's stack has little room below the wrappers. */
static inline __attribute__((always_inline)) bool
find_linker(long file, const struct fy_head *head, Elf64_Phdr *out)
{
    const Elf64_Ehdr *elf = &head->u.elf;
    for (unsigned i = 0; i < elf->e_phnum && i < MAX_SEGMENTS; i++) {
        uint64_t from = elf->e_phoff + (uint64_t)i * sizeof *out;
        if (elf->e_phentsize != sizeof *out) {
            return false;
        }
        if (from < FY_HEAD_BYTES &&
            from + sizeof *out <= (uint64_t)head->bytes) {
            memcpy(out, head->u.text + from, sizeof *out);
        } else if (!read_at(file, from, out, sizeof *out)) {
            return false;
        }
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): read_at()
         * fills it */
        if (out->p_type == PT_INTERP) {
            return out->p_filesz > 0;
        }
    }
    return false;
}

/* `linker': the file itself has the name of musl's. */
static bool
is_foreign(long file, bool linker, const struct fy_head *head)
{
    union {
        Elf64_Phdr segment;
        char name[NAME_BYTES + 1];
    } u;
    if (!fy_head_is_elf(head)) {
        return false;
    }
    if (head->u.elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        head->u.elf.e_machine != EM_X86_64) {
        return true;
    }
    if (!find_linker(file, head, &u.segment)) {
        return linker;
    }
    uint64_t end = u.segment.p_offset + u.segment.p_filesz;
    size_t bytes =
        u.segment.p_filesz < NAME_BYTES ? u.segment.p_filesz : NAME_BYTES;
    if (!read_at(file, end - bytes, u.name, bytes)) {
        return false;
    }
    u.name[bytes] = '\0';
    return !is_glibc(u.name);
}

/* The path may lie in the overwritten memory. */
static __attribute__((noinline)) void
read_one(int dir, const char *path, struct fy_head *out)
{
    long file = path ? fy_raw(SYS_openat, dir, (long)path,
                              O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0)
                     : dir;
    bool linker = path && strstr(path, "/ld-musl-"), opened = path;
    out->bytes = 0;
    out->foreign = false;
    if (file >= 0) {
        long n = fy_raw(SYS_pread64, file, (long)&out->u, FY_HEAD_BYTES - 1, 0,
                        0, 0);
        out->bytes = n < 0 ? 0 : n;
        out->foreign = is_foreign(file, linker, out);
        if (opened) {
            fy_raw(SYS_close, file, 0, 0, 0, 0, 0);
        }
    }
    out->u.text[out->bytes] = '\0';
}

/* The program of a #! line, terminated in place; NULL: none, or cut off. */
static char *
script_of(struct fy_head *head)
{
    if (head->bytes < 2 || memcmp(head->u.text, "#!", 2) != 0) {
        return NULL;
    }
    char *start = head->u.text + 2 + strspn(head->u.text + 2, " \t");
    char *end = start + strcspn(start, " \t\n");
    if (!*end || end == start) {
        return NULL;
    }
    *end = '\0';
    return start;
}

/* Returns true if the interpreter that the script's line names cannot load
 * ferry. A function of its own, because its frame is larger than small
 * stacks of handlers should pay for each program. */
static __attribute__((noinline)) bool
leads_to_foreign(const struct fy_head *script)
{
    struct fy_head head = *script;
    for (int i = 0; i < MAX_SCRIPTS; i++) {
        const char *name = script_of(&head);
        if (!name) {
            break;
        }
        read_one(AT_FDCWD, name, &head);
    }
    return head.foreign;
}

void
fy_head_read(int dir, const char *path, struct fy_head *out)
{
    read_one(dir, path, out);
    if (out->bytes >= 2 && memcmp(out->u.text, "#!", 2) == 0) {
        out->foreign = leads_to_foreign(out);
    }
}
