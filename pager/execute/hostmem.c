/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings are asked for through raw system calls on a descriptor that lives
 * only for the question.
 */
#include "config.h"

#include "pager/execute/hostmem.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/procmap.h"
#include "pager/device/host_access.h"

static bool
allows(bool readable, bool writable, const struct fy_range *range)
{
    return range->write ? writable : readable;
}

/* Bit 4 of ecx of leaf 7: the system uses protection keys. A hypervisor answers. */
static bool
has_keys(void)
{
    static int8_t known; /* 0: not asked yet */
    unsigned a = 0, b = 0, c = 0, d = 0;
    int8_t answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer == 0) {
        bool has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 4 & 1);
        answer = has ? 1 : -1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer > 0;
}

/* Whether this thread's protection keys allow it too: those of a mapping are alike. */
static bool
keys_allow(uint64_t at, const struct fy_range *range)
{
    return !has_keys() ||
           fy_host_can_be_had((const void *)(uintptr_t)at, 1, range->write);
}

/* 1: mapped, 0: not, -1: this kernel does not answer. */
static int
query_range(int fd, const struct fy_range *range)
{
    uint64_t at = range->start, end = at + range->bytes;
    while (at < end) {
        struct fy_procmap q = {.size = sizeof q, .query_addr = at};
        if (syscall(SYS_ioctl, fd, FY_PROCMAP_QUERY, &q) != 0) {
            return errno == ENOENT ? 0 : -1;
        }
        if (!allows((q.vma_flags & FY_PROCMAP_READABLE) != 0,
                    (q.vma_flags & FY_PROCMAP_WRITABLE) != 0, range) ||
            !keys_allow(at, range)) {
            return 0;
        }
        at = q.vma_end;
    }
    return 1;
}

/*
 * Reads maps a piece at a time: this thread's, for those of a main thread that
 * has ended are empty.
 */
struct maps {
    int fd;
    size_t at, end;
    char text[2048];
};

/* The next byte, '\0' at the end, -1 on an error. */
static int
next_byte(struct maps *m)
{
    if (m->at == m->end) {
        long got;
        do {
            got = syscall(SYS_read, m->fd, m->text, sizeof m->text);
        } while (got < 0 && errno == EINTR);
        if (got <= 0) {
            return got == 0 ? '\0' : -1;
        }
        m->at = 0;
        m->end = (size_t)got;
    }
    return (unsigned char)m->text[m->at++];
}

static int
next_hex(struct maps *m, uint64_t *out)
{
    uint64_t value = 0;
    for (;;) {
        int c = next_byte(m);
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            *out = value;
            return c;
        }
    }
}

/* One line "start-end rwxp ...": 1, at the end 0, -1 on an error. */
static int
next_mapping(struct maps *m, uint64_t *start, uint64_t *end, bool *readable,
             bool *writable)
{
    int c = next_hex(m, start);
    if (c == '\0') {
        return 0;
    }
    if (c != '-' || next_hex(m, end) != ' ') {
        return -1;
    }
    *readable = next_byte(m) == 'r';
    *writable = next_byte(m) == 'w';
    do {
        c = next_byte(m);
    } while (c > 0 && c != '\n');
    return c < 0 ? -1 : 1;
}

/* The same question of the text, one range at a time: few and rare. */
static int
read_range(const struct fy_range *range)
{
    struct maps m = {.at = 0};
    uint64_t at = range->start, stop = at + range->bytes, start, end;
    bool readable, writable;
    m.fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps",
                        O_RDONLY | O_CLOEXEC);
    if (m.fd < 0) {
        return -1;
    }
    int status = 1;
    while (at < stop && status > 0) {
        status = next_mapping(&m, &start, &end, &readable, &writable);
        if (status <= 0 || end <= at) {
            continue;
        }
        if (start > at || !allows(readable, writable, range) ||
            !keys_allow(at, range)) {
            status = 0;
        }
        at = end;
    }
    (void)syscall(SYS_close, m.fd);
    return status;
}

int
fy_ranges_mapped(const struct fy_range *ranges, size_t count)
{
    int saved_errno = errno, status = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps",
                          O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < count && status == 0; i++) {
        if (ranges[i].bytes == 0) {
            continue;
        }
        if (ranges[i].start > UINTPTR_MAX - ranges[i].bytes) {
            status = FY_ERR_NOENT;
            continue;
        }
        int mapped = fd < 0 ? -1 : query_range(fd, &ranges[i]);
        if (mapped < 0) {
            mapped = read_range(&ranges[i]);
        }
        if (mapped <= 0) {
            status = mapped == 0 ? FY_ERR_NOENT : FY_ERR_IO;
        }
    }
    if (fd >= 0) {
        (void)syscall(SYS_close, fd);
    }
    errno = saved_errno;
    return status;
}
