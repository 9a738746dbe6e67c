/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads how a program's file begins, and tells whether glibc's dynamic linker
 * would load ferry into it. Uses only system calls that programs make at their
 * start, too; allocates nothing, takes no lock: for the exec wrappers, also in
 * a vfork child, and the tool.
 */
#ifndef FERRY_SHIM_IMAGE_HEAD_H
#define FERRY_SHIM_IMAGE_HEAD_H

#include <elf.h>
#include <stdbool.h>

enum {
    FY_HEAD_BYTES = 256, /* the kernel's own limit for a #! line */
};

struct fy_head {
    long bytes; /* as read; 0: it cannot be read */
    /*
     * An ELF file, or a script for one, that is not for this machine or names
     * another dynamic linker than glibc's: a preloaded object would stop it.
     */
    bool foreign;
    union {
        Elf64_Ehdr elf;
        char text[FY_HEAD_BYTES]; /* terminated */
    } u;
};

/* Names as openat(2) does; path NULL: `dir' is the file itself. */
void fy_head_read(int dir, const char *path, struct fy_head *out);

/* Returns true if the file has a whole ELF header, of any machine. */
bool fy_head_is_elf(const struct fy_head *head);

#endif
