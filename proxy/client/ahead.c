/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the names of what a stage will write, while ssh logs in: sshfs keeps the
 * attributes that come with them, so that storage/fresh.c looks up without asking. One
 * look-up after the other would be asked for, as sshfs serves one at a time in each
 * folder. What the stage changes is told by its host and made fresh like all else.
 */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/storage/fresh.h"

enum {
    BELOW_MAX = 8, /* folders in it that are read, too: libfuse serves 10 */
};

struct below {
    int folder;
    char name[NAME_MAX + 1];
};

/* NULL: it cannot be read. */
static DIR *
open_names(int folder, const char *name)
{
    int fd =
        openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir) {
        close(fd);
    }
    return dir;
}

static void *
read_names(void *context)
{
    const struct below *below = context;
    DIR *dir = open_names(below->folder, below->name);
    while (dir && readdir(dir)) {
    }
    if (dir) {
        closedir(dir);
    }
    return NULL;
}

void
fy_fresh_ahead(const char *path)
{
    struct below below[BELOW_MAX];
    pthread_t threads[BELOW_MAX];
    unsigned n = 0, started = 0;
    DIR *dir = open_names(AT_FDCWD, path);
    struct dirent *entry;
    while (dir && n < BELOW_MAX && (entry = readdir(dir))) {
        struct stat about;
        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(dir), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) !=
                0 ||
            !S_ISDIR(about.st_mode)) {
            continue;
        }
        below[n].folder = dirfd(dir);
        strcpy(below[n++].name, entry->d_name);
    }
    while (started < n && pthread_create(&threads[started], NULL, read_names,
                                         &below[started]) == 0) {
        started++;
    }
    while (started) {
        pthread_join(threads[--started], NULL);
    }
    if (dir) {
        closedir(dir);
    }
}
