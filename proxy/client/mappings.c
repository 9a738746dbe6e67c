/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dirty pages of FUSE mappings. syncfs(2) is no help: since Linux 6.18 it only
 * wakes the flusher threads of a FUSE file system, and before that its WRITE
 * requests waited in a queue. close(2) is: the kernel writes all dirty pages of the
 * file through FUSE and waits for the answers (fuse_flush()), whichever descriptor
 * is closed. A mapping that is removed is written back by the kernel at once, so
 * that only mappings that exist count. The kernel is asked for those alone that are
 * shared and of a file (Linux 6.11), 2 us a process and 20 ns a mapping;
 * older ones list all, 0.2 us a mapping.
 */
#include "config.h"

#include "proxy/client/mappings.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/path.h"
#include "common/procmap.h"
#include "proxy/storage/mounts.h"
#include "proxy/wire/process.h"

static const char removed[] = " (deleted)";

struct mapped {
    uint64_t end, device, inode;
    char path[PATH_MAX];
};

/* The next shared mapping of a file from `at' on. FY_ERR_NOENT: there is none;
 * FY_ERR_UNSUPPORTED: the kernel cannot be asked so; FY_ERR_BUSY: the thread has
 * ended, or is the kernel's; FY_ERR_IO: it cannot be told. */
static int
query(int maps, uint64_t at, struct mapped *out)
{
    struct fy_procmap query = {
        .size = sizeof query,
        .query_flags =
            FY_PROCMAP_SHARED | FY_PROCMAP_OR_NEXT | FY_PROCMAP_OF_FILE,
        .query_addr = at,
        .vma_name_size = sizeof out->path,
        .vma_name_addr = (uintptr_t)out->path,
    };
    out->path[0] = '\0';
    if (ioctl(maps, FY_PROCMAP_QUERY, &query) != 0) {
        return errno == ENOENT                      ? FY_ERR_NOENT
               : errno == ESRCH                     ? FY_ERR_BUSY
               : errno == ENOTTY || errno == EINVAL ? FY_ERR_UNSUPPORTED
                                                    : FY_ERR_IO;
    }
    out->end = query.vma_end;
    out->device = makedev(query.dev_major, query.dev_minor);
    out->inode = query.inode;
    return 1;
}

/* The same of the text: 1, or FY_ERR_NOENT. The lines of others are skipped, those of
 * private mappings, nearly all, without parsing them. */
static int
read_line(FILE *text, struct mapped *out)
{
    char line[PATH_MAX + 128];
    while (fgets(line, sizeof line, text)) {
        const char *access = strchr(line, ' '); /* " rw-s" */
        unsigned high, low;
        int name = 0;
        if (access && strnlen(access, 5) == 5 && access[4] == 's' &&
            sscanf(access, " %*4s %*s %x:%x %" SCNu64 " %n", &high, &low,
                   &out->inode, &name) == 3 &&
            name > 0 && access[name] == '/') {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(out->path, sizeof out->path, "%s", access + name);
            out->device = makedev(high, low);
            return 1;
        }
    }
    return FY_ERR_NOENT;
}

/*
 * Whether `path' leads to the mapped file's file system, by the list of mounts alone:
 * the process may see other mounts, and a mount that this process sees may hang.
 */
static bool
leads_there(const struct mapped *mapped, const char *path)
{
    char *text = fy_mountinfo_read();
    struct fy_mount_table table;
    const struct fy_mount_line *last = NULL;
    if (!text || fy_mount_table_parse(text, &table) != 0) {
        free(text);
        return false;
    }
    for (size_t i = 0; i < table.n; i++) {
        const struct fy_mount_line *line = &table.lines[i];
        if (fy_path_is_beneath(path, line->point) &&
            (!last || strlen(line->point) >= strlen(last->point))) {
            last = line;
        }
    }
    bool leads = last && last->device == mapped->device;
    fy_mount_table_clear(&table);
    free(text);
    return leads;
}

/*
 * The file of that path, if it is the one that is mapped, is opened and closed.
 * FY_ERR_NOENT: no such name.
 */
static int
write_named(const struct mapped *mapped, const char *path)
{
    if (!leads_there(mapped, path)) {
        return FY_ERR_IO;
    }
    char link[40];
    struct stat about;
    int named = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (named < 0) {
        return errno == ENOENT ? FY_ERR_NOENT : FY_ERR_IO;
    }
    int status = FY_ERR_IO;
    if (fstat(named, &about) == 0 && about.st_dev == mapped->device &&
        about.st_ino == mapped->inode && S_ISREG(about.st_mode)) {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", named);
        int fd = open(link, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno == EACCES) {
            fd = open(link, O_WRONLY | O_CLOEXEC);
        }
        status = fd >= 0 && close(fd) == 0 ? 0 : FY_ERR_IO;
    }
    close(named);
    return status;
}

/* A removed file has no name by which a command could read it, unless the
 * kernel's mark is wrong (classify.h). */
static int
write_back(const struct mapped *mapped)
{
    char path[PATH_MAX];
    size_t n = strlen(mapped->path), mark = sizeof removed - 1;
    int status = write_named(mapped, mapped->path);
    if (status && n > mark && strcmp(mapped->path + n - mark, removed) == 0) {
        memcpy(path, mapped->path, n - mark);
        path[n - mark] = '\0';
        (void)write_named(mapped, path);
        return 0;
    }
    return status ? FY_ERR_IO : 0;
}

/* Of one thread's process; takes `maps'. FY_ERR_BUSY: the thread has ended, or is
 * the kernel's, and shows no mappings. */
static int
write_all(int maps, uint64_t device, bool *out_some)
{
    struct mapped mapped;
    uint64_t last = 0;
    FILE *text = NULL;
    int status = 0, found = query(maps, 0, &mapped);
    if (found == FY_ERR_UNSUPPORTED) {
        text = fdopen(maps, "re");
        int first = text ? fgetc(text) : EOF;
        if (first != EOF) {
            (void)ungetc(first, text);
        }
        found = !text          ? FY_ERR_IO
                : first == EOF ? FY_ERR_BUSY
                               : read_line(text, &mapped);
    }
    while (!status && found > 0) {
        if (mapped.device == device && mapped.inode != last) {
            *out_some = true;
            last = mapped.inode;
            status = write_back(&mapped);
        }
        found =
            text ? read_line(text, &mapped) : query(maps, mapped.end, &mapped);
    }
    if (text) {
        (void)fclose(text);
    } else {
        close(maps);
    }
    return status || found == FY_ERR_NOENT ? status : found;
}

/* Whether a process has ended, or is shown to others, by the error of open(2). */
static bool
is_hidden(void)
{
    return errno == ENOENT || errno == ESRCH || errno == EACCES ||
           errno == EPERM;
}

/* As write_all(). FY_ERR_NOENT: the thread is hidden. */
static int
write_thread(int proc, const char *thread, uint64_t device, bool *out_some)
{
    char path[72];
    (void)snprintf(path, sizeof path, "%.63s/maps", thread);
    int maps = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (maps < 0) {
        return is_hidden() ? FY_ERR_NOENT : FY_ERR_IO;
    }
    return write_all(maps, device, out_some);
}

/* By any of its threads: the first one may have ended. */
static int
write_process(int proc, const char *process, uint64_t device, bool *out_some)
{
    char thread[64];
    int status = write_thread(proc, process, device, out_some);
    if (status == FY_ERR_BUSY) {
        DIR *threads = fy_threads_open(proc, process);
        if (!threads && !is_hidden()) {
            return FY_ERR_IO;
        }
        while ((status == FY_ERR_BUSY || status == FY_ERR_NOENT) &&
               fy_threads_next(threads, process, thread)) {
            status = write_thread(proc, thread, device, out_some);
        }
        fy_threads_close(threads);
    }
    return status == FY_ERR_BUSY || status == FY_ERR_NOENT ? 0 : status;
}

int
fy_mappings_write(uint64_t device, bool *out_some)
{
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    int status = processes ? 0 : FY_ERR_IO;
    *out_some = false;
    while (!status && (entry = readdir(processes))) {
        if (isdigit((unsigned char)entry->d_name[0])) {
            status = write_process(dirfd(processes), entry->d_name, device,
                                   out_some);
        }
    }
    if (processes) {
        closedir(processes);
    }
    return status;
}
