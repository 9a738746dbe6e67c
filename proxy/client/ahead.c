/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the names of what a stage will write, while ssh logs in: sshfs keeps the
 * attributes that come with them, so that storage/fresh.c looks up without asking. One
 * look-up after the other would be asked for, as sshfs serves one at a time in each
 * folder. What the stage changes is told by its host and made fresh like all else.
 * The folders of one depth are read together, then those of the next, as long as an
 * answer comes before the login ends.
 *
 * A command that runs locally on a mount of ferry: the mount is told of the operands that the
 * annotation says are read, or of all words, and fetches them while the command starts
 * (proxy/files/client/control.h). Nothing waits for a mount.
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
#include "common/path.h"
#include "proxy/client/stage.h"
#include "proxy/files/client/control.h"
#include "proxy/storage/control.h"
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

/* ---- commands that run locally ------------------------------------------------------------ */

static const char *const lines[] = {
    FY_FILES_CONTROL_WORDS,
    FY_FILES_CONTROL_FILES,
    FY_FILES_CONTROL_NAMES,
    FY_FILES_CONTROL_TREES,
};

enum kind {
    WORDS,
    FILES,
    NAMES,
    TREES,
};

/* A request to a mount. */
struct request {
    char bytes[FY_FILES_CONTROL_LINE + FY_FILES_CONTROL_BLOCK];
    size_t used, head; /* head: bytes before the first word */
};

static void
add_text(struct request *request, const char *text)
{
    size_t n = strlen(text) + 1;
    if (n <= sizeof request->bytes - request->used) {
        memcpy(request->bytes + request->used, text, n);
        request->used += n;
    }
}

static void
begin(struct request *request, enum kind kind, const char *folder)
{
    request->used = (size_t)(stpcpy(stpcpy(request->bytes, lines[kind]), "\n") -
                             request->bytes);
    add_text(request, folder);
    request->head = request->used;
}

static void
tell(const struct request *request, const struct fy_mount *mount)
{
    if (request->used > request->head) {
        fy_control_tell(mount->control, request->bytes, request->used);
    }
}

/* Returns the kind of the operand; WORDS: it is not read. */
static enum kind
kind_of(const struct fy_invocation *invocation, const struct fy_use *use)
{
    if (use->is_stdin || use->access == FY_ACCESS_OUT ||
        use->kind == FY_USE_FOLDER) {
        return WORDS;
    }
    return fy_invocation_is(invocation, FY_TRAIT_WALKS) ? NAMES
           : use->kind == FY_USE_TREE                   ? TREES
                                                        : FILES;
}

static void
tell_operands(struct request *request, const struct stage *stage,
              const struct fy_invocation *invocation, const char *cwd,
              const struct fy_mount *mount)
{
    for (enum kind kind = FILES; kind <= TREES; kind++) {
        char base[PATH_MAX], path[PATH_MAX];
        strcpy(base, cwd);
        begin(request, kind, "/");
        for (uint32_t i = 0; i < invocation->nuses; i++) {
            const struct fy_use *use = &invocation->uses[i];
            if (fy_path_join(base, stage->argv[use->arg] + use->offset, path)) {
                continue;
            }
            if (use->kind == FY_USE_FOLDER) {
                strcpy(base, path);
            } else if (kind_of(invocation, use) == kind &&
                       fy_path_is_beneath(path, mount->path)) {
                add_text(request, path);
            }
        }
        bool walks = fy_invocation_is(invocation, FY_TRAIT_WALKS);
        if (kind == (walks ? NAMES : TREES) && invocation->reads_cwd &&
            invocation->cwd_is_tree && fy_path_is_beneath(cwd, mount->path)) {
            add_text(request, cwd);
        }
        tell(request, mount);
    }
}

/* Words with the path, or from the working folder, where that is above the mount or below. */
static void
tell_words(struct request *request, const char *const *argv, const char *cwd,
           const struct fy_mount *mount)
{
    size_t n = strcmp(cwd, "/") == 0 ? 0 : strlen(cwd);
    bool below = fy_path_is_beneath(cwd, mount->path);
    bool above = fy_path_is_beneath(mount->path, cwd);
    begin(request, WORDS, cwd);
    for (; argv[0] && argv[1]; argv++) {
        if (below || strstr(argv[1], mount->path) ||
            (above && strstr(argv[1], mount->path + n + 1))) {
            add_text(request, argv[1]);
        }
    }
    tell(request, mount);
}

/* Without asking a file system. False: it is not known. */
static bool
find_cwd(const struct stage *stage, char out[PATH_MAX])
{
    char link[32];
    if (stage->facts.cwd[0]) {
        strcpy(out, stage->facts.cwd);
        return true;
    }
    (void)snprintf(link, sizeof link, "/proc/%d/cwd", stage->hello.pid);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0 && out[0] == '/';
}

void
fy_foresee_words(const struct fy_mount *mounts, unsigned nmounts,
                 const char *const *argv)
{
    struct request *request = NULL;
    char cwd[PATH_MAX];
    for (unsigned i = 0; i < nmounts; i++) {
        if (!(mounts[i].traits & FY_MOUNT_TOLD)) {
            continue;
        }
        request = request ? request : malloc(sizeof *request);
        if (!request || !getcwd(cwd, sizeof cwd)) {
            break;
        }
        tell_words(request, argv, cwd, &mounts[i]);
    }
    free(request);
}

void
fy_foresee(const struct stage *stage)
{
    const struct fy_session *session = stage->session;
    const char *name = fy_path_name(stage->facts.path);
    struct request *request = NULL;
    struct fy_invocation found, *invocation = NULL;
    char cwd[PATH_MAX];
    for (unsigned i = 0; i < session->nmounts; i++) {
        const struct fy_mount *mount = &session->mounts[i];
        if (!(mount->traits & FY_MOUNT_TOLD)) {
            continue;
        }
        if (!request) {
            request = malloc(sizeof *request);
            if (!request || !find_cwd(stage, cwd)) {
                break;
            }
            struct fy_buffer none;
            char text[8];
            fy_buffer_start(&none, text, sizeof text);
            invocation = fy_invocation_parse_local(
                             session->options.commands, name, stage->argv,
                             stage->env, &found, &none) == 0
                             ? &found
                             : NULL;
        }
        if (invocation) {
            tell_operands(request, stage, invocation, cwd, mount);
        } else {
            tell_words(request, stage->argv, cwd, mount);
        }
    }
    if (invocation) {
        fy_invocation_clear(invocation);
    }
    free(request);
}
