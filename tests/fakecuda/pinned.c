/* SPDX-License-Identifier: Apache-2.0
 *
 * Registered host memory as a card sees it: the page frames that were there when
 * it was registered, whatever the program has mapped at those addresses since.
 * io_uring's registered buffers are that, pinned by the kernel as for a driver;
 * a copy is a read or write between them and the file that is device memory.
 * Where io_uring is not to be had, the addresses are used ("blind").
 */
#include "config.h"

#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/fakecuda/machine.h"

#define PIECE_BYTES ((size_t)512 << 20) /* io_uring takes up to 1 GiB */
#define MAX_PIECES  64

struct fake_pin {
    int ring;
    uint64_t start;
    size_t bytes;
    char *rings;
    size_t rings_bytes;
    struct io_uring_sqe *entries;
    size_t entries_bytes;
    unsigned *submit_tail, *submit_mask, *submit_array;
    unsigned *done_head, *done_mask;
    struct io_uring_cqe *done;
};

static bool
map_rings(struct fake_pin *pin, const struct io_uring_params *p)
{
    size_t submit = p->sq_off.array + p->sq_entries * sizeof(unsigned);
    size_t done = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);

    if ((p->features & IORING_FEAT_SINGLE_MMAP) == 0) {
        return false;
    }
    pin->rings_bytes = submit > done ? submit : done;
    pin->entries_bytes = p->sq_entries * sizeof(struct io_uring_sqe);
    pin->rings = mmap(NULL, pin->rings_bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED, pin->ring, IORING_OFF_SQ_RING);
    pin->entries = mmap(NULL, pin->entries_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED, pin->ring, IORING_OFF_SQES);
    if (pin->rings == MAP_FAILED || (void *)pin->entries == MAP_FAILED) {
        return false;
    }
    pin->submit_tail = (void *)(pin->rings + p->sq_off.tail);
    pin->submit_mask = (void *)(pin->rings + p->sq_off.ring_mask);
    pin->submit_array = (void *)(pin->rings + p->sq_off.array);
    pin->done_head = (void *)(pin->rings + p->cq_off.head);
    pin->done_mask = (void *)(pin->rings + p->cq_off.ring_mask);
    pin->done = (void *)(pin->rings + p->cq_off.cqes);
    return true;
}

struct fake_pin *
fake_pin_new(uint64_t address, size_t bytes)
{
    struct fake_pin *pin = calloc(1, sizeof(*pin));
    struct io_uring_params p = {0};
    struct iovec pieces[MAX_PIECES];
    unsigned count = 0;

    if (pin == NULL || bytes > PIECE_BYTES * MAX_PIECES) {
        free(pin);
        return NULL;
    }
    pin->start = address;
    pin->bytes = bytes;
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        pieces[count].iov_base = (void *)(uintptr_t)(address + at);
        pieces[count++].iov_len =
            bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
    }
    pin->ring = (int)syscall(SYS_io_uring_setup, 1, &p);
    if (pin->ring < 0) {
        free(pin);
        return NULL;
    }
    if (!map_rings(pin, &p) ||
        syscall(SYS_io_uring_register, pin->ring, IORING_REGISTER_BUFFERS,
                pieces, count) != 0) {
        fake_pin_free(pin);
        return NULL;
    }
    return pin;
}

void
fake_pin_free(struct fake_pin *pin)
{
    if (pin == NULL) {
        return;
    }
    (void)syscall(SYS_io_uring_register, pin->ring, IORING_UNREGISTER_BUFFERS,
                  NULL, 0);
    if (pin->entries != NULL && (void *)pin->entries != MAP_FAILED) {
        (void)munmap(pin->entries, pin->entries_bytes);
    }
    if (pin->rings != NULL && (void *)pin->rings != MAP_FAILED) {
        (void)munmap(pin->rings, pin->rings_bytes);
    }
    (void)close(pin->ring);
    free(pin);
}

/* One operation, which is over when this returns: its result. */
static int
operate(struct fake_pin *pin, uint64_t host, size_t bytes, int file,
        uint64_t offset, bool to_host)
{
    unsigned tail = *pin->submit_tail, at = tail & *pin->submit_mask;
    struct io_uring_sqe *entry = &pin->entries[at];

    memset(entry, 0, sizeof(*entry));
    entry->opcode = to_host ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
    entry->fd = file;
    entry->addr = host;
    entry->len = (unsigned)bytes;
    entry->off = offset;
    entry->buf_index = (uint16_t)((host - pin->start) / PIECE_BYTES);
    pin->submit_array[at] = at;
    __atomic_store_n(pin->submit_tail, tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, pin->ring, 1, 1, IORING_ENTER_GETEVENTS,
                NULL, 0) != 1) {
        return -1;
    }
    unsigned head = *pin->done_head;
    int result = pin->done[head & *pin->done_mask].res;
    __atomic_store_n(pin->done_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

bool
fake_pin_copy(struct fake_pin *pin, uint64_t host, size_t bytes, int file,
              uint64_t offset, bool to_host)
{
    while (bytes > 0) {
        size_t left = PIECE_BYTES - (host - pin->start) % PIECE_BYTES;
        int moved = operate(pin, host, bytes < left ? bytes : left, file,
                            offset, to_host);
        if (moved <= 0) {
            return false;
        }
        host += (size_t)moved;
        offset += (size_t)moved;
        bytes -= (size_t)moved;
    }
    return true;
}
