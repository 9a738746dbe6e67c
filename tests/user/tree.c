/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree [-p] [FOLDER...]: the names below each folder, sorted, with -p the mode of each.
 * A command that ferry was never told of: tree.ferry says what it reads and prints.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int failed;

static int
is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void
show(const char *folder, int depth, int modes)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, is_shown, alphasort);
    if (n < 0) {
        perror(folder);
        failed = 1;
        return;
    }
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct stat about;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (lstat(path, &about) != 0) {
            memset(&about, 0, sizeof about);
        }
        printf("%*s", 4 * depth, "");
        if (modes) {
            printf("[%06o] ", (unsigned)about.st_mode);
        }
        printf("%s\n", entries[i]->d_name);
        if (S_ISDIR(about.st_mode)) {
            show(path, depth + 1, modes);
        }
        free(entries[i]);
    }
    free(entries);
}

int
main(int argc, char **argv)
{
    int modes = argc > 1 && strcmp(argv[1], "-p") == 0;
    int first = 1 + modes;
    for (int i = first; i < argc; i++) {
        printf("%s\n", argv[i]);
        show(argv[i], 1, modes);
    }
    if (first == argc) {
        show(".", 0, modes);
    }
    return failed;
}
