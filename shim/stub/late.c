/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of the command to stderr in the middle of its output to stdout. Its
 * proxy takes more of its stdout than a pipe holds; a local command would be
 * blocked in write(2) until its reader has taken enough, and SIGPIPE may end
 * it there, before it complains. So each piece of stderr comes with its place:
 * the bytes of stdout that were written before it, at most. The piece waits
 * until as many were taken or fit into the pipe.
 */
#include "config.h"

#include "shim/stub/local.h"

#include <fcntl.h>
#include <sys/ioctl.h>

enum {
    PIPE_BYTES = 64 << 10, /* of the proxy's pipe: places are that exact */
};

static struct stub_queue late;

int
stub_late_add(uint64_t place, const char *bytes, uint32_t n)
{
    return stub_queue_add(&late, &(struct stub_piece){.place = place, .n = n},
                          bytes);
}

uint64_t
stub_late_place(void)
{
    return late.first ? late.first->place : UINT64_MAX;
}

const char *
stub_late_bytes(uint32_t *out_n)
{
    *out_n = late.first->n;
    return late.first->bytes;
}

void
stub_late_drop(void)
{
    stub_queue_drop(&late);
}

uint64_t
stub_late_reach(const struct stub *stub)
{
    int capacity = fcntl(1, F_GETPIPE_SZ), unread = 0;
    if (capacity < 0 || ioctl(1, FIONREAD, &unread) != 0) {
        return UINT64_MAX;
    }
    capacity = capacity < PIPE_BYTES ? PIPE_BYTES : capacity;
    return stub->outputs[1].written_bytes +
           (uint64_t)(capacity > unread ? capacity - unread : 0);
}
