/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the names of what a stage will write, while ssh logs in: sshfs keeps the
 * attributes that come with them, so that storage/fresh.c looks up without asking. One
 * look-up after the other would be asked for, as sshfs serves one at a time in each
 * folder. What the stage changes is told by its host and made fresh like all else.
 * The folders of one depth are read together, then those of the next, as long as an
 * answer comes before the login ends.
 */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/storage/fresh.h"

enum {
    READERS = 10,     /* so many requests libfuse serves at a time */
    FOLDERS_MAX = 64, /* of one depth */
    BELOW_MAX = 12,   /* of a folder with more folders none is read: its names
                       * are mostly hashes */
    TRIPS = 3,        /* the names of a folder, and one to spare */
    NAMES_BYTES_MAX =
        256 << 10, /* of a folder, a few thousand names: sshfs answers with
                                  * all at once, which the stage waits for */
};

/* The folders of one depth: names beneath the top. */
struct depth {
    char *names[FOLDERS_MAX];
    unsigned n;
};

struct reading {
    int top;
    uint64_t trip_ns, until_ns;
    struct depth now, next;
    pthread_mutex_t lock; /* of `taken' and `next' */
    unsigned taken;
};

static bool
is_time_left(const struct reading *reading)
{
    return fy_clock_ns() + TRIPS * reading->trip_ns < reading->until_ns;
}

/* NULL: it cannot be read, is behind a link, or large. */
static DIR *
open_names(int top, const char *name)
{
    struct open_how how;
    memset(&how, 0, sizeof how);
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
    struct stat about;
    int fd = (int)syscall(SYS_openat2, top, name, &how, sizeof how);
    bool small =
        fd >= 0 && fstat(fd, &about) == 0 && about.st_size <= NAMES_BYTES_MAX;
    DIR *dir = small ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir) {
        close(fd);
    }
    return dir;
}

static void
clear(struct depth *depth)
{
    while (depth->n) {
        free(depth->names[--depth->n]);
    }
}

/* Adds `name' of the folder `above'. */
static void
add(struct depth *depth, const char *above, const char *name)
{
    size_t n = strlen(above) + strlen(name) + 2;
    char *path = depth->n < FOLDERS_MAX ? malloc(n) : NULL;
    if (path) {
        (void)snprintf(path, n, "%s/%s", above, name);
        depth->names[depth->n++] = path;
    }
}

static void
read_names(struct reading *reading, const char *name)
{
    struct depth below = {.n = 0};
    DIR *dir = open_names(reading->top, name);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (entry->d_type == DT_DIR && below.n <= BELOW_MAX &&
            strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0) {
            add(&below, name, entry->d_name);
        }
    }
    if (dir) {
        closedir(dir);
    }
    (void)pthread_mutex_lock(&reading->lock);
    while (below.n && below.n <= BELOW_MAX && reading->next.n < FOLDERS_MAX) {
        reading->next.names[reading->next.n++] = below.names[--below.n];
    }
    (void)pthread_mutex_unlock(&reading->lock);
    clear(&below);
}

static void *
run(void *context)
{
    struct reading *reading = context;
    for (;;) {
        (void)pthread_mutex_lock(&reading->lock);
        unsigned i = reading->taken++;
        (void)pthread_mutex_unlock(&reading->lock);
        if (i >= reading->now.n || !is_time_left(reading)) {
            return NULL;
        }
        read_names(reading, reading->now.names[i]);
    }
}

static void
read_depth(struct reading *reading)
{
    pthread_t threads[READERS];
    unsigned started = 0;
    reading->taken = 0;
    while (started + 1 < reading->now.n && started < READERS - 1 &&
           pthread_create(&threads[started], NULL, run, reading) == 0) {
        started++;
    }
    (void)run(reading);
    while (started) {
        pthread_join(threads[--started], NULL);
    }
}

void
fy_fresh_ahead(const char *path, uint64_t trip_ns, uint64_t until_ns)
{
    struct reading reading = {.trip_ns = trip_ns,
                              .until_ns = until_ns,
                              .lock = PTHREAD_MUTEX_INITIALIZER};
    if (!is_time_left(&reading)) {
        return;
    }
    /* The host may have put a link in the middle, which would lead out of the mount. */
    struct open_how how;
    memset(&how, 0, sizeof how);
    how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS;
    reading.top = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (reading.top < 0) {
        return;
    }
    add(&reading.now, ".", ".");
    while (reading.now.n) {
        read_depth(&reading);
        clear(&reading.now);
        reading.now = reading.next;
        reading.next.n = 0;
    }
    close(reading.top);
    (void)pthread_mutex_destroy(&reading.lock);
}
