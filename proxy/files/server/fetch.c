/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FETCH: many small files by one request. A file that changed while it was read is read
 * again. Four system calls a file: openat2, read, fstat, close.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    TRIES = 3,
    SAY_BYTES = 256 << 10, /* frames that are sent together */
};

/* Longer than the steps of file systems' clocks. */
#define SETTLED_SECONDS 2

/* Up to `want' bytes from the begin. How many, or a negative errno. */
static ssize_t
read_begin(int fd, char *to, size_t want)
{
    size_t done = 0;
    while (done < want) {
        ssize_t n = pread(fd, to + done, want - done, (off_t)done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        done += (size_t)n;
        if (n == 0 || done < want) {
            break; /* the end, or nearly: its size tells */
        }
    }
    return (ssize_t)done;
}

static bool
same(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Whether its last change was before `began', by the clock of this kernel. */
static bool
is_settled(const struct fy_files_server *server, const struct stat *about,
           const struct timespec *began)
{
    return server->local && about->st_dev == server->root_dev &&
           about->st_ctim.tv_sec + SETTLED_SECONDS < began->tv_sec;
}

/* Its begin and its attributes, which belong together. How many bytes, or a negative
 * errno. */
static ssize_t
read_file(struct fy_files_server *server, int fd, char *to, size_t want,
          const struct timespec *began, struct stat *about)
{
    struct stat before;
    ssize_t n = read_begin(fd, to, want);
    if (n == -EISDIR) {
        return n;
    }
    if (fstat(fd, about) != 0) {
        return -errno;
    }
    if (!S_ISREG(about->st_mode)) {
        return -EINVAL;
    }
    for (unsigned i = 0; n >= 0 && i < TRIES; i++) {
        off_t most =
            about->st_size < (off_t)want ? about->st_size : (off_t)want;
        if (n == most && is_settled(server, about, began)) {
            break;
        }
        before = *about;
        n = read_begin(fd, to, want);
        if (fstat(fd, about) != 0) {
            return -errno;
        }
        if (n == most && same(&before, about)) {
            break;
        }
        n = i + 1 == TRIES && n >= 0 ? -EAGAIN : n;
    }
    return n;
}

/* Of one node; fills in the answer. Negative errno. */
static int
fetch(struct fy_files_request *request, const struct fy_files_node *node,
      char *to, const struct timespec *began, struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    struct fy_files_object *object = NULL;
    struct stat about;
    int fd;
    if (node->kept) {
        int status = fy_files_borrow(server, node, FY_FILES_READS, &object);
        if (status) {
            return status;
        }
        fd = object->reads;
    } else {
        fd = fy_files_open(server, &node->path,
                           O_RDONLY | O_NONBLOCK | O_NOCTTY);
    }
    if (fd < 0) {
        return fd == -ELOOP ? -EINVAL : fd;
    }
    ssize_t n =
        read_file(server, fd, to, request->message.length, began, &about);
    if (n >= 0 && node->ino &&
        fy_files_ino(server, about.st_dev, about.st_ino) != node->ino) {
        n = -ESTALE;
    }
    if (object) {
        fy_files_return(server, object);
    } else {
        (void)close(fd);
    }
    if (n >= 0) {
        fy_files_attr_of(server, &about, &answer->attr);
        answer->data = (struct fy_files_bytes){to, (size_t)n};
    }
    return n < 0 ? (int)n : 0;
}

int
fy_files_fetch(struct fy_files_request *request,
               struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    struct fy_files_bytes rows = request->message.data;
    struct fy_files_node node;
    struct timespec began;
    if (request->message.length > FY_FILES_DATA_BYTES) {
        return -EINVAL;
    }
    fy_files_resolved(request);
    char *to = malloc(request->message.length + 1);
    if (!to) {
        return -ENOMEM;
    }
    int status = rows.n ? 0 : -EINVAL;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &began);
    for (uint64_t i = 0; rows.n && !status; i++) {
        answer->data.n = 0;
        answer->number = i;
        if (!fy_files_node_take(&rows, &node)) {
            status = -EINVAL;
            break;
        }
        int failed = request->cancelled
                         ? -EINTR
                         : fetch(request, &node, to, &began, answer);
        answer->mask = failed ? (uint32_t)-failed : 0;
        if (failed) {
            answer->attr = (struct fy_files_attr){.ino = 0};
        }
        answer->frame_flags = FY_FILES_ANSWER | (rows.n ? FY_FILES_MORE : 0);
        if (fy_files_encode(answer, &request->scratch)) {
            status = -ENOMEM;
        }
        if (request->scratch.n >= SAY_BYTES) {
            fy_files_say(server, &request->scratch, request->epoch);
            request->scratch.n = 0;
        }
    }
    free(to);
    if (request->scratch.n) {
        fy_files_say(server, &request->scratch, request->epoch);
    }
    answer->frame_flags = FY_FILES_ANSWER;
    return status ? status : FY_FILES_SAID;
}
