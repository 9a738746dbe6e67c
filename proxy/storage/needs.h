/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the dynamic linker loads with a program, by asking the linker itself: two
 * hosts have the same command only if these files are the same too, and a search
 * path in the environment is harmless only if it changes none of them.
 */
#ifndef FERRY_PROXY_STORAGE_NEEDS_H
#define FERRY_PROXY_STORAGE_NEEDS_H

#include <stdbool.h>

#include "common/status.h"

enum {
    FY_NEEDS_MAX = 128,
};

struct fy_need {
    const char *name; /* as the program asks for it */
    const char *path; /* what is loaded */
};

struct fy_needs {
    struct fy_need rows[FY_NEEDS_MAX]; /* in the order of loading */
    unsigned n;
    bool known; /* false: it has a linker that is not asked */
    char *text; /* what the rows borrow from */
};

/*
 * Of the program at `path', open as `fd'. `library_path': of absolute folders, as
 * in LD_LIBRARY_PATH, or NULL. `loads_paths': the program itself loads no more by
 * names. Starts a process; any thread. FY_ERR_UNSUPPORTED: a library is missing, or
 * there is a library_path and the program loads more at run time by names that are
 * not known before. FY_ERR_IO, FY_ERR_NOMEM, FY_ERR_OVERFLOW.
 */
int fy_needs_find(const char *path, int fd, const char *library_path,
                  bool loads_paths, struct fy_needs *out) FY_MUST_CHECK;
/* Asks `linker', which the caller trusts, about the program at `path'. Starts a process; any
 * thread. FY_ERR_UNSUPPORTED: a library is missing. FY_ERR_IO, FY_ERR_NOMEM,
 * FY_ERR_OVERFLOW. */
int fy_needs_ask(const char *linker, const char *path, const char *library_path,
                 struct fy_needs *out) FY_MUST_CHECK;
/* Returns true if the program or a library may load more at run time, by names that are
 * not known before. */
bool fy_needs_more(const char *path, int program, bool loads_paths,
                   const struct fy_needs *needs);
/* Frees the text; the rows are gone. Any thread. */
void fy_needs_clear(struct fy_needs *needs);

/* The path of the linker that the kernel starts for the program open as `fd'
 * (readable), "" when it has none. `out': PATH_MAX bytes. FY_ERR_IO,
 * FY_ERR_OVERFLOW. Any thread. */
int fy_needs_linker(int fd, char *out) FY_MUST_CHECK;

#endif
