/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See host_access.h. Short runs are gathered until a system call is worth it;
 * elements that lie apart are read by the stretch, and written one by one, since
 * the bytes between them are not ferry's to write.
 */
#include "config.h"

#include "pager/device/host_access.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

enum {
    PAGE = 4096,
    BOUNCE_BYTES = 8192,
    APART_BYTES = 256,     /* elements further apart are read one by one */
    MOST_BYTES = 64 << 20, /* of one system call; the kernel's bound is 2 GiB */
};

/* A filter refuses the system calls that copy. */
static bool refused;

void
fy_host_access_begin(struct fy_host_access *access, bool writes, bool skips)
{
    access->writes = writes;
    access->skips = skips;
    access->status = FY_OK;
    access->nhost = access->nown = 0;
    access->bytes = 0;
}

static bool
populate(const void *at, size_t size, bool writes)
{
    uintptr_t low = (uintptr_t)at & ~(uintptr_t)(PAGE - 1);
    return syscall(SYS_madvise, low, (uintptr_t)at + size - low,
                   writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}

/*
 * Whether the pages can be had; true as well where the kernel does not say. Of
 * pages that are protected it says EINVAL, too: then one of ferry's tells.
 */
static bool
can_be_populated(const void *at, size_t bytes, bool writes)
{
    char own;
    return populate(at, bytes, writes) ||
           (errno == EINVAL && !populate(&own, 1, true));
}

/*
 * The copy with the sides exchanged: the kernel reaches the memory of the process that
 * is named, here ferry's, by its pages, and the caller's, here the program's, as loads
 * and stores do. Memory of devices (page-locked by CUDA's driver, say) has no pages
 * that the kernel hands out, but can be loaded and stored.
 */
static bool
copy_as_caller(char *host, char *own, size_t bytes, bool writes)
{
    char block[BOUNCE_BYTES]; /* ferry's own side may be such memory, too */
    long call = writes ? SYS_process_vm_readv : SYS_process_vm_writev;
    while (bytes > 0) {
        size_t now = bytes < sizeof block ? bytes : sizeof block;
        struct iovec theirs = {host, now}, ours = {block, now};
        if (writes) {
            memcpy(block, own, now);
        }
        if (syscall(call, gettid(), &theirs, 1, &ours, 1, 0) != (long)now) {
            return false;
        }
        if (!writes) {
            memcpy(own, block, now);
        }
        host += now;
        own += now;
        bytes -= now;
    }
    return true;
}

/* Without the kernel's copy. */
static bool
copy_populated(char *host, char *own, size_t bytes, bool writes)
{
    if (!can_be_populated(host, bytes, writes)) {
        return false;
    }
    memcpy(writes ? host : own, writes ? own : host, bytes);
    return true;
}

/* A store that changes nothing, whatever other threads store: futex(2) adds 0. */
static bool
can_be_stored_to(const void *at)
{
    static uint32_t woken; /* nobody waits for it */
    uintptr_t word = (uintptr_t)at & ~(uintptr_t)3;
    return syscall(SYS_futex, &woken, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0,
                   word, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

bool
fy_host_can_be_had(const void *at, size_t bytes, bool writes)
{
    int saved = errno;
    char own;
    bool can = can_be_populated(at, bytes, writes) ||
               (bytes == 1 && (writes ? can_be_stored_to(at)
                                      : copy_as_caller((char *)(uintptr_t)at,
                                                       &own, 1, false)));
    errno = saved;
    return can;
}

/* Piece by piece: both lists are walked side by side. */
static bool
copy_pieces(const struct iovec *host, unsigned nhost, const struct iovec *own,
            bool writes, bool (*copy)(char *, char *, size_t, bool))
{
    size_t used = 0;
    for (unsigned i = 0; i < nhost; i++) {
        size_t done = 0;
        while (done < host[i].iov_len) {
            size_t left = host[i].iov_len - done, room = own->iov_len - used;
            size_t bytes = left < room ? left : room;
            if (!copy((char *)host[i].iov_base + done,
                      (char *)own->iov_base + used, bytes, writes)) {
                return false;
            }
            done += bytes;
            used += bytes;
            if (used == own->iov_len) {
                own++;
                used = 0;
            }
        }
    }
    return true;
}

/* By this thread's number: the process's is that of its main thread, which may
 * have ended and then has no memory. */
static bool
copy_runs(const struct iovec *host, unsigned nhost, const struct iovec *own,
          unsigned nown, size_t bytes, bool writes)
{
    if (!__atomic_load_n(&refused, __ATOMIC_RELAXED)) {
        long call = writes ? SYS_process_vm_writev : SYS_process_vm_readv;
        long done = syscall(call, gettid(), own, nown, host, nhost, 0);
        if (done >= 0 && (size_t)done == bytes) {
            return true;
        }
        if (done >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return copy_pieces(host, nhost, own, writes, copy_as_caller);
        }
        __atomic_store_n(&refused, true, __ATOMIC_RELAXED);
    }
    return copy_pieces(host, nhost, own, writes, copy_populated);
}

/* Page by page, as far as possible. */
static void
copy_what_goes(struct fy_host_access *access)
{
    unsigned at = 0;
    size_t used = 0;
    for (unsigned i = 0; i < access->nhost; i++) {
        char *host = access->host[i].iov_base;
        size_t left = access->host[i].iov_len;
        while (left > 0) {
            size_t bytes = PAGE - (uintptr_t)host % PAGE;
            size_t room = access->own[at].iov_len - used;
            bytes = bytes < left ? bytes : left;
            bytes = bytes < room ? bytes : room;
            struct iovec to = {host, bytes};
            struct iovec from = {(char *)access->own[at].iov_base + used,
                                 bytes};
            (void)copy_runs(&to, 1, &from, 1, bytes, access->writes);
            host += bytes;
            left -= bytes;
            used += bytes;
            if (used == access->own[at].iov_len) {
                at++;
                used = 0;
            }
        }
    }
}

static void
flush(struct fy_host_access *access)
{
    int saved = errno;
    if (access->bytes > 0 && (access->status == FY_OK || access->skips) &&
        !copy_runs(access->host, access->nhost, access->own, access->nown,
                   access->bytes, access->writes)) {
        access->status = FY_ERR_FAULT;
        if (access->skips) {
            copy_what_goes(access);
        }
    }
    access->nhost = access->nown = 0;
    access->bytes = 0;
    errno = saved;
}

/* Appends to a list, or to its last run. */
static void
append(struct iovec *runs, unsigned *n, char *at, size_t bytes)
{
    if (*n > 0 && (char *)runs[*n - 1].iov_base + runs[*n - 1].iov_len == at) {
        runs[*n - 1].iov_len += bytes;
        return;
    }
    runs[(*n)++] = (struct iovec){at, bytes};
}

static void
add(struct fy_host_access *access, char *host, char *own, size_t bytes)
{
    while (bytes > 0) {
        size_t now = bytes < MOST_BYTES ? bytes : MOST_BYTES;
        if (access->nhost == FY_HOST_ACCESS_RUNS ||
            access->nown == FY_HOST_ACCESS_RUNS ||
            access->bytes + now > MOST_BYTES) {
            flush(access);
        }
        append(access->host, &access->nhost, host, now);
        append(access->own, &access->nown, own, now);
        access->bytes += now;
        host += now;
        own += now;
        bytes -= now;
    }
}

static void
move_elements(char *to, int64_t to_stride, const char *from,
              int64_t from_stride, int64_t n, size_t bytes)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + i * to_stride, from + i * from_stride, bytes);
    }
}

/* A dense row of the program's, by way of a dense block of ferry's. */
static void
by_block(struct fy_host_access *access, char *host, char *own, int64_t n,
         int64_t own_stride, size_t bytes)
{
    char block[BOUNCE_BYTES];
    int64_t most = (int64_t)(sizeof block / bytes);
    while (n > 0 && (access->status == FY_OK || access->skips)) {
        int64_t now = n < most ? n : most;
        size_t length = (size_t)now * bytes;
        if (access->writes) {
            move_elements(block, (int64_t)bytes, own, own_stride, now, bytes);
        }
        flush(access);
        add(access, host, block, length);
        flush(access);
        if (!access->writes && access->status == FY_OK) {
            move_elements(own, own_stride, block, (int64_t)bytes, now, bytes);
        }
        host += length;
        own += now * own_stride;
        n -= now;
    }
}

/* Elements that lie close together, read with the bytes between them. */
static void
by_stretch(struct fy_host_access *access, char *host, char *own, int64_t n,
           int64_t host_stride, int64_t own_stride, size_t bytes)
{
    char block[BOUNCE_BYTES];
    int64_t most = ((int64_t)sizeof block - (int64_t)bytes) / host_stride + 1;
    while (n > 0 && access->status == FY_OK) {
        int64_t now = n < most ? n : most;
        flush(access);
        add(access, host, block, (size_t)((now - 1) * host_stride) + bytes);
        flush(access);
        move_elements(own, own_stride, block, host_stride, now, bytes);
        host += now * host_stride;
        own += now * own_stride;
        n -= now;
    }
}

void
fy_host_access_row(struct fy_host_access *access, char *host, char *own,
                   int64_t n, int64_t host_stride, int64_t own_stride,
                   size_t bytes)
{
    int64_t size = (int64_t)bytes;
    if (host_stride < 0) {
        host += (n - 1) * host_stride;
        own += (n - 1) * own_stride;
        host_stride = -host_stride;
        own_stride = -own_stride;
    }
    if (n == 1 || (host_stride == size && own_stride == size)) {
        add(access, host, own, (size_t)n * bytes);
    } else if (host_stride == size && size <= BOUNCE_BYTES / 8) {
        by_block(access, host, own, n, own_stride, bytes);
    } else if (!access->writes && host_stride > size &&
               host_stride <= APART_BYTES) {
        by_stretch(access, host, own, n, host_stride, own_stride, bytes);
    } else {
        for (int64_t i = 0; i < n; i++) {
            add(access, host + i * host_stride, own + i * own_stride, bytes);
        }
    }
}

int
fy_host_access_end(struct fy_host_access *access)
{
    flush(access);
    return access->status;
}
