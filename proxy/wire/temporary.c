/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Temporary folders of proxies, see the header.
 */
#include "config.h"

#include "proxy/wire/temporary.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/trust.h"

enum {
    DEPTH_MAX = 200, /* of folders that are removed */
    PLACES = 3,
    TRIES = 10, /* for a folder that a cleaner took before it was locked */
};

#define TEMPORARY "ferry-proxy-"

/*
 * Takes `fd', a folder, and removes its contents. Always by the open folder: processes
 * that outlived a proxy that was killed may exchange folders for links meanwhile.
 */
static void
remove_below(int fd, dev_t device, unsigned depth)
{
    struct stat about;
    struct dirent *entry;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0 ||
            unlinkat(fd, entry->d_name, 0) == 0) {
            continue;
        }
        int below = openat(fd, entry->d_name,
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0 || fstat(below, &about) != 0 || about.st_dev != device ||
            depth == DEPTH_MAX) {
            if (below >= 0) {
                close(below);
            }
            continue;
        }
        (void)fchmod(below, 0700);
        remove_below(below, device, depth + 1);
        (void)unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    }
    closedir(dir);
}

void
fy_temporary_remove(const char *path)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &about) == 0) {
        remove_below(fd, about.st_dev, 0);
    } else if (fd >= 0) {
        close(fd);
    }
    (void)rmdir(path);
}

/* $TMPDIR and the usual ones; false: it is not trusted. */
static bool
find_place(size_t i, char out[PATH_MAX])
{
    const char *places[PLACES] = {getenv("TMPDIR"), "/tmp", "/var/tmp"};
    return places[i] && fy_trusted_folder(places[i], false, out) == 0;
}

static bool
clean(const char *place)
{
    bool cleaned = true;
    DIR *dir = opendir(place);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        struct stat about;
        char path[PATH_MAX];
        if (strncmp(entry->d_name, TEMPORARY, strlen(TEMPORARY)) != 0) {
            continue;
        }
        int fd = openat(dirfd(dir), entry->d_name,
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int n = snprintf(path, sizeof path, "%s/%s", place, entry->d_name);
        if (fd >= 0 && fstat(fd, &about) == 0 && about.st_uid == geteuid() &&
            n > 0 && (size_t)n < sizeof path &&
            flock(fd, LOCK_EX | LOCK_NB) == 0) {
            fy_temporary_remove(path);
            cleaned = cleaned && access(path, F_OK) != 0;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return cleaned;
}

bool
fy_temporary_clean(void)
{
    bool cleaned = true;
    for (size_t i = 0; i < PLACES; i++) {
        char place[PATH_MAX];
        cleaned = (!find_place(i, place) || clean(place)) && cleaned;
    }
    return cleaned;
}

/* A new folder, locked; -1: none. Another process may remove it before it is locked. */
static int
make_locked(const char *place, char path[PATH_MAX])
{
    for (int tries = 0; tries < TRIES; tries++) {
        struct stat opened, named;
        int n = snprintf(path, PATH_MAX, "%s/" TEMPORARY "XXXXXX", place);
        if (n <= 0 || n >= PATH_MAX - 16 || !mkdtemp(path)) {
            return -1;
        }
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX) == 0 && fstat(fd, &opened) == 0 &&
            lstat(path, &named) == 0 && opened.st_ino == named.st_ino) {
            return fd;
        }
        (void)rmdir(path);
        if (fd >= 0) {
            close(fd);
        }
    }
    return -1;
}

int
fy_temporary_start(char path[PATH_MAX])
{
    int fd = -1;
    (void)fy_temporary_clean();
    for (size_t i = 0; i < PLACES && fd < 0; i++) {
        char place[PATH_MAX];
        fd = find_place(i, place) ? make_locked(place, path) : -1;
    }
    if (fd < 0) {
        path[0] = '\0';
    }
    return fd;
}
