/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output that waits for its reader. A command that is blocked in write(2) is
 * ended by a signal at once; its stub must not sit in write(2) itself by then,
 * or the word that the signal ended the command lies unread behind the bytes.
 * So once a signal was passed on, what cannot be written at once waits here:
 * at most FY_STUB_WINDOW_BYTES and what belongs to them.
 */
#include "config.h"

#include "shim/stub/local.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct piece {
    struct piece *next;
    int fd;
    size_t at, n;
    char bytes[];
};

static struct piece *first, **last = &first;
static size_t held_bytes;

int
stub_hold(int fd, const void *bytes, size_t n)
{
    struct piece *piece = malloc(sizeof *piece + n);
    if (!piece) {
        return -1;
    }
    *piece = (struct piece){.fd = fd, .n = n};
    memcpy(piece->bytes, bytes, n);
    *last = piece;
    last = &piece->next;
    held_bytes += n;
    return 0;
}

size_t
stub_held_bytes(void)
{
    return held_bytes;
}

int
stub_held_fd(void)
{
    return first ? first->fd : -1;
}

static void
drop_first(void)
{
    struct piece *piece = first;
    held_bytes -= piece->n - piece->at;
    first = piece->next;
    if (!first) {
        last = &first;
    }
    free(piece);
}

int
stub_held_write(bool waits, int *out_fd)
{
    while (first) {
        struct pollfd room = {.fd = first->fd, .events = POLLOUT};
        if (poll(&room, 1, waits ? -1 : 0) == 0) {
            return 0;
        }
        /* A pipe that has room takes this much without blocking. */
        size_t n = first->n - first->at;
        n = n < PIPE_BUF ? n : PIPE_BUF;
        ssize_t written = write(first->fd, first->bytes + first->at, n);
        if (written >= 0) {
            first->at += (size_t)written;
            held_bytes -= (size_t)written;
        } else if (errno == EAGAIN && !waits) {
            return 0;
        } else if (errno != EAGAIN && errno != EINTR) {
            int error = errno;
            *out_fd = first->fd;
            drop_first();
            return error;
        }
        if (first->at == first->n) {
            drop_first();
        }
    }
    return 0;
}
