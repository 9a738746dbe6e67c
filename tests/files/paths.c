/* SPDX-License-Identifier: Apache-2.0 */
/* Awkward paths; see differ.h. */
#include "config.h"

#include "tests/files/differ.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const path_forms[] = {
    "",
    ".",
    "..",
    "./",
    "f",
    "f/",
    "f/.",
    "f/..",
    "f/x",
    "f/x/",
    "new",
    "new/",
    "new/.",
    "./new",
    "d",
    "d/",
    "d/.",
    "d/..",
    "d/../f",
    "d/f",
    "d/new",
    "d//f",
    "d/f/",
    "d/new/",
    "full/",
    "full/.",
    "none/x",
    "none/../f",
    "lf/",
    "lf/x",
    "ld/",
    "ld/.",
    "ld/f",
    "ld/new",
    "ld/../f",
    "lnone/",
    "lnone/x",
    "loop",
    "loop/",
    "loop/x",
    "up/f",
    "shut/in",
    "shut/new",
    "shut/none/x",
    "chain40",
    "chain41",
    "\xff\xfe\x80",
    "\xc3\x28 new",
    "a\nb",
    "-",
    "~",
    "*",
    " ",
    "...",
    ".new",
    "@255",
    "@256",
    "@255/",
    "d/@255",
    "d/@256",
    "@4095",
    "@4096",
    "@256/..",
    "\\",
    "\xc3\xa4",
    "a\xcc\x88",
    NULL,
};

/* What the forms speak of. */
void
path_tree(struct side *side)
{
    char name[32] = "f", next[32];
    object_make(side, "f", FILE_10);
    object_make(side, "d", FOLDER);
    object_make(side, "d/f", FILE_10);
    object_make(side, "full", FOLDER_FULL);
    object_make(side, "shut", FOLDER_MODE_0);
    MUST(side, symlink("f", "lf"));
    MUST(side, symlink("d", "ld"));
    MUST(side, symlink("nothing", "lnone"));
    MUST(side, symlink("loop", "loop"));
    MUST(side, symlink("d/..", "up"));
    /* Of the links of the chain all but the last two lie in a folder of their own. */
    MUST(side, mkdir("c", 0755));
    MUST(side, symlink("../f", "c/1"));
    for (unsigned i = 2; i <= 39; i++) {
        snprintf(next, sizeof(next), "c/%u", i);
        snprintf(name, sizeof(name), "%u", i - 1);
        MUST(side, symlink(name, next));
    }
    MUST(side, symlink("c/39", "chain40"));
    MUST(side, symlink("chain40", "chain41"));
}

const char *
path_of(const char *form)
{
    static char paths[2][8192];
    static unsigned turn;
    char *at = strchr(form, '@');
    if (!at) {
        return form;
    }
    char *path = paths[turn++ % 2], *rest;
    size_t n = (size_t)(at - form), bytes = strtoul(at + 1, &rest, 10);
    memcpy(path, form, n);
    memset(path + n, 'n', bytes);
    for (size_t i = 0; bytes > 1000 && i < bytes - 1; i++) { /* "././ ... f" */
        path[i] = i % 2 ? '/' : '.';
    }
    path[n + bytes - 1] = bytes > 1000 ? 'f' : 'n';
    strcpy(path + n + bytes, rest);
    return path;
}
