/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output that waits for its reader. A command that is blocked in write(2) is
 * ended by a signal at once; its stub must not sit in write(2) itself by then,
 * or the word that the signal ended the command lies unread behind the bytes.
 * So once a signal was passed on, bytes that cannot be written at once wait
 * here: at most FY_STUB_WINDOW_BYTES and their heads.
 */
#include "config.h"

#include "shim/stub/local.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct stub_queue held;
static size_t held_bytes;

int
stub_queue_add(struct stub_queue *queue, const struct stub_piece *head,
               const void *bytes)
{
    struct stub_piece *piece = malloc(sizeof *piece + head->n);
    if (!piece) {
        return -1;
    }
    *piece = *head;
    memcpy(piece->bytes, bytes, head->n);
    *(queue->first ? &queue->last->next : &queue->first) = piece;
    queue->last = piece;
    return 0;
}

void
stub_queue_drop(struct stub_queue *queue)
{
    struct stub_piece *piece = queue->first;
    queue->first = piece->next;
    free(piece);
}

int
stub_hold(int fd, const void *bytes, uint32_t n)
{
    if (stub_queue_add(&held, &(struct stub_piece){.fd = fd, .n = n}, bytes)) {
        return -1;
    }
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
    return held.first ? held.first->fd : -1;
}

int
stub_held_write(bool waits, int *out_fd)
{
    while (held.first) {
        struct stub_piece *first = held.first;
        struct pollfd room = {.fd = first->fd, .events = POLLOUT};
        if (poll(&room, 1, waits ? -1 : 0) == 0) {
            return 0;
        }
        /* A pipe that has room takes this much without blocking. */
        size_t n = first->n - first->at;
        n = n < PIPE_BUF ? n : PIPE_BUF;
        ssize_t written = write(first->fd, first->bytes + first->at, n);
        if (written >= 0) {
            first->at += (uint32_t)written;
            held_bytes -= (size_t)written;
        } else if (errno == EAGAIN && !waits) {
            return 0;
        } else if (errno != EAGAIN && errno != EINTR) {
            int error = errno;
            *out_fd = first->fd;
            held_bytes -= first->n - first->at;
            stub_queue_drop(&held);
            return error;
        }
        if (first->at == first->n) {
            stub_queue_drop(&held);
        }
    }
    return 0;
}
