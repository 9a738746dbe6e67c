/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which writes are the client's own. inotify does not say who has written a file, and two
 * writes within a tick of the clock have the same times (on every kernel before Linux
 * 6.13, and on many file systems since). So an own write is made between two marks in the
 * same queue: writes of two files in memory. What comes outside of them is another's.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    INOS = sizeof((struct fy_files_own *)0)->inos / sizeof(uint64_t),
};

void
fy_files_own_open(struct fy_files_own *own)
{
    (void)pthread_mutex_init(&own->lock, NULL);
    for (unsigned i = 0; i < 2; i++) {
        char path[32];
        int fd = memfd_create("ferry", MFD_CLOEXEC);
        fy_files_fd_path(fd, path);
        /* The first descriptor has no events, since Linux 6.14. */
        own->files[i] = fd < 0 ? -1 : open(path, O_WRONLY | O_CLOEXEC);
        if (fd >= 0) {
            (void)close(fd);
        }
    }
}

void
fy_files_own_close(struct fy_files_own *own)
{
    for (unsigned i = 0; i < 2; i++) {
        if (own->files[i] >= 0) {
            (void)close(own->files[i]);
        }
    }
    (void)pthread_mutex_destroy(&own->lock);
}

void
fy_files_own_watch(struct fy_files_own *own, int inotify)
{
    for (unsigned i = 0; i < 2; i++) {
        char path[32];
        fy_files_fd_path(own->files[i], path);
        own->watches[i] = own->files[i] < 0
                              ? -1
                              : inotify_add_watch(inotify, path, IN_MODIFY);
    }
    own->read = own->begun;
    own->now = 0;
}

static void
mark(const struct fy_files_own *own, unsigned which)
{
    (void)!pwrite(own->files[which], "", 1, 0);
}

bool
fy_files_own_begin(struct fy_files_server *server, uint64_t ino)
{
    struct fy_files_own *own = &server->watches.own;
    if (!server->local) { /* nothing is watched */
        return false;
    }
    (void)pthread_mutex_lock(&own->lock);
    own->inos[own->begun++ % INOS] = ino;
    mark(own, 0);
    return true;
}

void
fy_files_own_end(struct fy_files_server *server, bool begun)
{
    if (begun) {
        mark(&server->watches.own, 1);
        (void)pthread_mutex_unlock(&server->watches.own.lock);
    }
}

bool
fy_files_own_read(struct fy_files_own *own, int watch)
{
    bool begin = watch == own->watches[0], end = watch == own->watches[1];
    if (begin) {
        own->now = own->inos[own->read++ % INOS];
    } else if (end) {
        own->now = 0;
    }
    return begin || end;
}
