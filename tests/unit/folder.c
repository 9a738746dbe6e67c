/* SPDX-License-Identifier: Apache-2.0 */
/* See folder.h. */
#include "config.h"

#include "tests/unit/folder.h"

#include <check.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char folder_root[64];

static int
drop(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

void
folder_setup(void)
{
    (void)snprintf(folder_root, sizeof folder_root, "/tmp/fyfolder.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder_root));
}

void
folder_teardown(void)
{
    (void)nftw(folder_root, drop, 8, FTW_DEPTH | FTW_PHYS);
}

const char *
folder_place(const char *below)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", folder_root, below);
    for (char *at = path + strlen(folder_root); (at = strchr(at + 1, '/'));) {
        *at = '\0';
        ck_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
    return path;
}

void
folder_copy(const char *from, const char *below)
{
    char block[4096];
    size_t bytes;
    FILE *in = fopen(from, "r"), *out = fopen(folder_place(below), "w");
    ck_assert_ptr_nonnull(in);
    ck_assert_ptr_nonnull(out);
    while ((bytes = fread(block, 1, sizeof block, in)) > 0) {
        ck_assert_uint_eq(fwrite(block, 1, bytes, out), bytes);
    }
    ck_assert_int_eq(fclose(out), 0);
    (void)fclose(in);
}

void
folder_put(const char *below)
{
    const char *build = getenv("FERRY_BUILDDIR");
    char from[PATH_MAX];
    (void)snprintf(from, sizeof from, "%s/tests/unit/.libs/constructor.so",
                   build == NULL ? "." : build);
    folder_copy(from, below);
}
