/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups, see the header. A proxy holds a lock (flock) on its folder, so that
 * the next one removes what a killed one left behind. Process numbers would not tell:
 * proxies of several PID namespaces may have one folder for their groups.
 */
#include "config.h"

#include "proxy/sandbox/group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "ferry-proxy-"

enum {
    MAX_NAMES = 100, /* that are tried */
};

static bool
write_text(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written =
        fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        (void)close(fd);
    }
    return written;
}

/* Where the one hierarchy is mounted as a whole. */
static bool
find_mount(char out[PATH_MAX])
{
    char line[2 * PATH_MAX], root[PATH_MAX];
    FILE *file = fopen("/proc/self/mountinfo", "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        found = strstr(line, " - cgroup2 ") &&
                sscanf(line, "%*d %*d %*s %4095s %4095s", root, out) == 2 &&
                strcmp(root, "/") == 0 && !strchr(out, '\\');
    }
    if (file) {
        (void)fclose(file);
    }
    return found;
}

/* The group that this process is in, as a folder. */
static bool
find_own(char out[PATH_MAX])
{
    char line[PATH_MAX], mount[PATH_MAX];
    FILE *file = fopen("/proc/self/cgroup", "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        found =
            strncmp(line, "0::/", 4) == 0 && strncmp(line, "0::/..", 6) != 0;
    }
    if (file) {
        (void)fclose(file);
    }
    if (!found || !find_mount(mount)) {
        return false;
    }
    const char *path = line[4] ? line + 3 : "";
    int n = snprintf(out, PATH_MAX, "%s%s", mount, path);
    return n > 0 && n < PATH_MAX - 64;
}

/* The folders in `path', of groups, and itself. Those with processes stay. */
static void
remove_all(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            (void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    (void)rmdir(path);
}

/* Opens and locks a folder; -1: it is another's, or gone. */
static int
lock_folder(const char *path)
{
    struct stat opened, named;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstat(fd, &opened) == 0 && lstat(path, &named) == 0 &&
        opened.st_ino == named.st_ino) {
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return -1;
}

/* Of proxies that are no more. */
static void
remove_abandoned(const char *own)
{
    char path[PATH_MAX + 256];
    DIR *dir = opendir(own);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, NAME, sizeof NAME - 1) != 0) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", own, entry->d_name);
        int lock = lock_folder(path);
        if (lock >= 0) {
            remove_all(path);
            (void)close(lock);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

void
fy_groups_open(struct fy_groups *groups)
{
    char own[PATH_MAX];
    *groups = (struct fy_groups){.made = 0, .lock = -1};
    if (!find_own(own)) {
        return;
    }
    remove_abandoned(own);
    /* Another proxy may remove it before it is locked: then the next name. Only this
     * user may open it, and so lock it. */
    for (unsigned i = 0; i < MAX_NAMES && groups->lock < 0; i++) {
        int n = snprintf(groups->path, sizeof groups->path, "%s/" NAME "%d-%u",
                         own, (int)getpid(), i);
        if (n <= 0 || (size_t)n >= sizeof groups->path) {
            break;
        }
        if (mkdir(groups->path, 0700) == 0) {
            groups->lock = lock_folder(groups->path);
        } else if (errno != EEXIST) {
            break;
        }
    }
    if (groups->lock < 0) {
        groups->path[0] = '\0';
        return;
    }
    (void)write_text(groups->path, "cgroup.subtree_control", "+memory");
}

static void
name_group(const struct fy_groups *groups, uint64_t number,
           char out[PATH_MAX + 32])
{
    (void)snprintf(out, PATH_MAX + 32, "%s/%" PRIu64, groups->path, number);
}

void
fy_group_new(struct fy_groups *groups, uint64_t memory_bytes,
             struct fy_group *out)
{
    char path[PATH_MAX + 32], file[PATH_MAX + 64], text[32];
    *out = (struct fy_group){.join = -1};
    if (!groups->path[0]) {
        return;
    }
    name_group(groups, ++groups->made, path);
    if (mkdir(path, 0755) != 0) {
        return;
    }
    if (memory_bytes) {
        (void)snprintf(text, sizeof text, "%" PRIu64, memory_bytes);
        (void)write_text(path, "memory.max", text);
    }
    (void)snprintf(file, sizeof file, "%s/cgroup.procs", path);
    out->join = open(file, O_WRONLY | O_CLOEXEC);
    out->number = groups->made;
}

size_t
fy_group_list(const struct fy_groups *groups, uint64_t number, pid_t *out,
              size_t capacity)
{
    char path[PATH_MAX + 32], file[PATH_MAX + 64];
    name_group(groups, number, path);
    (void)snprintf(file, sizeof file, "%s/cgroup.procs", path);
    FILE *list = fopen(file, "re");
    size_t n = 0;
    int pid;
    while (list && n < capacity && fscanf(list, "%d", &pid) == 1) {
        out[n++] = pid;
    }
    if (list) {
        (void)fclose(list);
    }
    return n;
}

void
fy_group_kill(const struct fy_groups *groups, uint64_t number)
{
    char path[PATH_MAX + 32];
    pid_t pids[256];
    if (!number) {
        return;
    }
    name_group(groups, number, path);
    if (!write_text(path, "cgroup.kill", "1")) { /* before Linux 5.14 */
        size_t n = fy_group_list(groups, number, pids, 256);
        for (size_t i = 0; i < n; i++) {
            (void)kill(pids[i], SIGKILL);
        }
    }
}

bool
fy_group_remove(const struct fy_groups *groups, uint64_t number)
{
    char path[PATH_MAX + 32];
    name_group(groups, number, path);
    return rmdir(path) == 0 || errno == ENOENT;
}

void
fy_groups_close(struct fy_groups *groups)
{
    if (groups->path[0]) {
        remove_all(groups->path);
        (void)close(groups->lock);
        groups->path[0] = '\0';
    }
}
