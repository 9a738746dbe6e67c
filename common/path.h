/* SPDX-License-Identifier: Apache-2.0 */
/* Paths, as the kernel and execvp(3) read them. Any thread. */
#ifndef FERRY_COMMON_PATH_H
#define FERRY_COMMON_PATH_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "common/status.h"

/*
 * The executable file that execvp(3) would start: the name itself where it has
 * a slash, else the first by PATH (/bin:/usr/bin where that is not set). False:
 * none; `out' is then "" and errno ENOENT. One thread at a time: getenv(3).
 */
bool fy_path_search(const char *name, char out[PATH_MAX]);

/* The part behind the last slash: all of a path without one. */
static inline const char *
fy_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The entries of the folder `path', as openat(2) takes it; the caller closes them. NULL
 * with errno. */
DIR *fy_folder_open(int at, const char *path);

/* Returns true if the path is the folder or beneath it, judged by their
 * texts: both absolute and without "." and ".."; slashes at the folder's end
 * do not count. */
bool fy_path_is_beneath(const char *path, const char *folder);

/*
 * Joins `text' to the absolute folder `base', without "." and doubled slashes.
 * ".." is followed only where it is certain: in front of a text, on a physical
 * base. FY_ERR_INVALID elsewhere, FY_ERR_OVERFLOW beyond PATH_MAX.
 */
int fy_path_join(const char *base, const char *text,
                 char out[PATH_MAX]) FY_MUST_CHECK;

/* Copies an absolute path without "." and doubled slashes. False: it is relative, has "..",
 * is "/" or too long. */
bool fy_path_plain(const char *path, char out[PATH_MAX]) FY_MUST_CHECK;

/* Replaces the octal escapes of mountinfo(5) and of nfsd's etab, in place. */
void fy_path_unescape(char *path);

#endif
