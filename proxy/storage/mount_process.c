/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process serves a FUSE mount, and what its command line says.
 * Believes no owner of a file in /proc: root owns those of each process that
 * cannot be dumped, and any user can have one. The ids of /proc/PID/status
 * count, and the connection to the kernel that the process has open.
 */
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/path.h"
#include "common/whole.h"
#include "proxy/storage/mounts.h"

bool
fy_mount_user(const struct fy_mount_line *line, uid_t *out)
{
    unsigned uid;
    const char *at = strstr(line->options, "user_id=");
    if (!at || sscanf(at, "user_id=%u", &uid) != 1 ||
        (uid != 0 && uid != getuid())) {
        return false;
    }
    *out = uid;
    return true;
}

/* The bytes of a file of the process, NUL-terminated; 0: it cannot be read. */
static size_t
read_file(int process, const char *name, char *out, size_t capacity)
{
    int fd = openat(process, name, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    if (fd < 0) {
        return 0;
    }
    (void)!fy_read_most(fd, out, capacity - 1, &used);
    close(fd);
    out[used] = '\0';
    return used;
}

/* Real, effective, saved and file system's id are all `id'. */
static bool
are_all(const char *status, const char *name, unsigned id)
{
    unsigned ids[4];
    const char *at = strstr(status, name);
    return at &&
           sscanf(at + strlen(name), "%u%u%u%u", &ids[0], &ids[1], &ids[2],
                  &ids[3]) == 4 &&
           ids[0] == id && ids[1] == id && ids[2] == id && ids[3] == id;
}

/*
 * Whether it is wholly this user's. A setuid program that has become root keeps
 * the group of the user who started it, and the words that this user gave it.
 */
static bool
is_of(int process, uid_t user)
{
    char status[4096]; /* ids are in its first lines */
    return read_file(process, "status", status, sizeof status) > 0 &&
           are_all(status, "\nUid:", user) &&
           (user != 0 || are_all(status, "\nGid:", 0));
}

static bool
is_named(int process, const char *const *names)
{
    char comm[32];
    size_t n = read_file(process, "comm", comm, sizeof comm);
    comm[n > 0 ? n - 1 : 0] = '\0';
    while (*names && strcmp(comm, *names) != 0) {
        names++;
    }
    return *names;
}

/* What one of its descriptors, a name in its folder fd, says. */
static enum fy_serves
descriptor_serves(int process, int folder, const char *name, uint64_t device)
{
    static const char number[] = "\nfuse_connection:";
    char text[512];
    ssize_t n = readlinkat(folder, name, text, sizeof text);
    if (n != 9 || memcmp(text, "/dev/fuse", 9) != 0) {
        return FY_SERVES_NOTHING;
    }
    (void)snprintf(text, sizeof text, "fdinfo/%.20s", name);
    char info[512];
    unsigned connection;
    const char *at = read_file(process, text, info, sizeof info) > 0
                         ? strstr(info, number)
                         : NULL;
    if (!at || sscanf(at + sizeof number - 1, "%u", &connection) != 1) {
        return FY_SERVES_SOME;
    }
    return major(device) == 0 && minor(device) == connection ? FY_SERVES_THIS
                                                             : FY_SERVES_OTHER;
}

static enum fy_serves
serves(int process, uint64_t device)
{
    enum fy_serves best = FY_SERVES_NOTHING;
    DIR *folder = fy_folder_open(process, "fd");
    const struct dirent *entry;
    if (!folder) {
        return FY_SERVES_PERHAPS;
    }
    while ((entry = readdir(folder))) {
        enum fy_serves one =
            descriptor_serves(process, dirfd(folder), entry->d_name, device);
        best = one > best ? one : best;
    }
    closedir(folder);
    return best;
}

/*
 * Through one descriptor of its folder, which another process with the same
 * number never gets. The ids are asked for before and after: between them it may
 * have started another program.
 */
static enum fy_serves
look(int process, const struct fy_mount_line *line, uid_t user,
     const char *const *names, char *cmdline, size_t *out_bytes)
{
    if (!is_named(process, names) || !is_of(process, user)) {
        return FY_SERVES_NOTHING;
    }
    enum fy_serves how = serves(process, line->device);
    *out_bytes = read_file(process, "cmdline", cmdline, FY_MOUNT_CMDLINE_BYTES);
    return *out_bytes > 0 && *out_bytes < FY_MOUNT_CMDLINE_BYTES - 1 &&
                   is_of(process, user)
               ? how
               : FY_SERVES_NOTHING;
}

void
fy_mount_processes(const struct fy_mount_line *line, const char *proc,
                   const char *const *names,
                   void (*visit)(const char *cmdline, size_t n, pid_t pid,
                                 enum fy_serves how, void *data),
                   void *data)
{
    uid_t user;
    DIR *folder = fy_mount_user(line, &user) ? opendir(proc) : NULL;
    char *cmdline = malloc(FY_MOUNT_CMDLINE_BYTES);
    const struct dirent *entry;
    while (folder && cmdline && (entry = readdir(folder))) {
        int process = isdigit((unsigned char)entry->d_name[0])
                          ? openat(dirfd(folder), entry->d_name,
                                   O_PATH | O_DIRECTORY | O_CLOEXEC)
                          : -1;
        size_t n;
        if (process < 0) {
            continue;
        }
        enum fy_serves how = look(process, line, user, names, cmdline, &n);
        if (how >= FY_SERVES_PERHAPS) {
            visit(cmdline, n, (pid_t)atoi(entry->d_name), how, data);
        }
        close(process);
    }
    if (folder) {
        closedir(folder);
    }
    free(cmdline);
}
