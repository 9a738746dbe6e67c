/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of an object a call finds stale after every kind of change, with each
 * request to the kernel failing in turn. Random programs are in tests/program/resident.c.
 * Long because each change is made between the same calls.
 */
#define _GNU_SOURCE
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pager/memory/memory.h"
#include "tests/unit/runner.h"

enum {
    PAGES = 64,
    BYTES = PAGES * FY_PAGE_BYTES,
};

static struct fy_memory memory;
static struct fy_device *device;
static char *host;
static unsigned requests, failing; /* the request that fails; 0: none */
static int failure;
static unsigned why; /* the last operand has no object: enum fy_absence */

static int
fails(int fd, unsigned long request, void *argument)
{
    if (++requests == failing) {
        errno = failure;
        return -1;
    }
    return ioctl(fd, request, argument);
}

static void
begin_with(enum fy_residency residency)
{
    memset(&memory, 0, sizeof(memory));
    requests = failing = 0;
    memory.watch.control = fails;
    ck_assert_int_eq(fy_memory_start(&memory, residency, 0), 0);
    ck_assert_int_eq(fy_device_host.open(4 << 20, &device), 0);
    host = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(host, MAP_FAILED);
    memset(host, 1, BYTES);
}

static void
begin(void)
{
    begin_with(FY_RESIDENCY_WRITE_THROUGH);
}

static void
end(void)
{
    fy_memory_evict(&memory, UINT64_MAX);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    fy_pages_close(&memory.watch);
    fy_compare_end(&memory.compare);
    device->ops->close(device);
    (void)munmap(host, BYTES);
}

/* One call on bytes at .. at + n - 1: what it has to copy, or -1 without an object. */
static int64_t
use(size_t at, size_t n, enum fy_access access, bool ok)
{
    struct fy_view view = {.host = host + at,
                           .element_bytes = 1,
                           .access = (uint8_t)access,
                           .naxes = 1,
                           .extent = {(int64_t)n},
                           .stride = {1},
                           .lo = INT64_MIN,
                           .hi = INT64_MAX};
    struct fy_hold hold;
    uint64_t budget = 2 << 20;
    fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
    for (why = 0; why < FY_ABSENCE_COUNT && hold.absent[why] == 0;) {
        why++;
    }
    if (hold.count == 0) {
        return -1;
    }
    ck_assert_uint_eq(why, FY_ABSENCE_COUNT);
    int64_t stale = (int64_t)hold.stale_bytes;
    ck_assert_ptr_eq(fy_hold_find(&hold, &view), &hold.rows[0]);
    hold.rows[0].placed = true;
    if (access != FY_ACCESS_IN && ok) {
        memset(host + at, 3, n);
    }
    fy_memory_release(&memory, &hold, ok ? FY_HOLD_RAN : FY_HOLD_FAILED);
    return stale;
}

START_TEST(test_writes_are_found)
{
    int ends[2];
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    host[FY_PAGE_BYTES * 5] = 7;
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), FY_PAGE_BYTES);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(read(ends[0], host + 9, 1), 1);
    close(ends[0]);
    close(ends[1]);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), FY_PAGE_BYTES);
    (void)madvise(host + 2 * FY_PAGE_BYTES, 3 * FY_PAGE_BYTES, MADV_DONTNEED);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 3 * FY_PAGE_BYTES);
    end();
}
END_TEST

START_TEST(test_what_is_not_aligned_has_no_object)
{
    struct fy_hold hold;
    uint64_t budget = 2 << 20;
    begin();
    for (unsigned at = 0; at < 24; at += 8) {
        struct fy_view view = {.host = host + at,
                               .element_bytes = 16,
                               .access = FY_ACCESS_IN,
                               .naxes = 1,
                               .extent = {BYTES / 32},
                               .stride = {1}};
        fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
        ck_assert_uint_eq(hold.count, at % 16 == 0);
        fy_memory_release(&memory, &hold, FY_HOLD_UNUSED);
    }
    end();
}
END_TEST

/* Each object has its own pages, and a result those of its operand. */
START_TEST(test_objects_side_by_side)
{
    const size_t half = BYTES / 2;
    begin();
    for (int round = 0; round < 2; round++) {
        const int64_t stale = round == 0 ? (int64_t)half : 0;
        ck_assert_int_eq(use(0, half, FY_ACCESS_IN, true), stale);
        ck_assert_int_eq(use(half, half, FY_ACCESS_IN, true), stale);
    }
    host[half + 5] = 7;
    ck_assert_int_eq(use(0, half, FY_ACCESS_IN, true), 0);
    ck_assert_int_eq(use(half, half, FY_ACCESS_IN, true), FY_PAGE_BYTES);
    ck_assert_int_eq(use(0, half, FY_ACCESS_OUT, true), 0);
    ck_assert_int_eq(use(half, half, FY_ACCESS_IN, true), 0);
    end();
}
END_TEST

START_TEST(test_another_mapping_ends_the_object)
{
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    (void)mmap(host + 8 * FY_PAGE_BYTES, 8 * FY_PAGE_BYTES,
               PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
               -1, 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
    ck_assert_uint_eq(why, FY_ABSENCE_REMAPPED);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    end();
}
END_TEST

/* A scan tells nothing of addresses that have no mapping. */
START_TEST(test_no_mapping)
{
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    const size_t gone = _i ? 9 * FY_PAGE_BYTES : BYTES - 8 * FY_PAGE_BYTES;
    (void)munmap(host + 8 * FY_PAGE_BYTES, gone);
    int64_t stale = use(0, BYTES, FY_ACCESS_IN, true);
    ck_assert(stale == -1 || stale == (int64_t)gone);
    end();
}
END_TEST

/* A part of a page is never clean, also for a later, larger operand. */
START_TEST(test_parts_of_pages_are_copied)
{
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_eq(use(100, BYTES - 200, FY_ACCESS_IN, true),
                     2 * FY_PAGE_BYTES - 200);
    ck_assert_int_eq(use(100, BYTES - 200, FY_ACCESS_IN, true),
                     2 * FY_PAGE_BYTES - 200);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 2 * FY_PAGE_BYTES);
    end();
}
END_TEST

START_TEST(test_results_are_clean_and_failures_are_not)
{
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_OUT, true), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_INOUT, false), 0);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    end();
}
END_TEST

static struct fy_view
view_of(size_t n, enum fy_access access)
{
    return (struct fy_view){.host = host,
                            .element_bytes = 1,
                            .access = (uint8_t)access,
                            .naxes = 1,
                            .extent = {(int64_t)n},
                            .stride = {1},
                            .lo = INT64_MIN,
                            .hi = INT64_MAX};
}

/* Before a call the last ones say how much it may find; a call that is declined then
 * loses nothing, and an object that it would have been the first to use is not kept. */
START_TEST(test_expected)
{
    const uint64_t looked = _i ? BYTES : 0;
    struct fy_hold hold;
    uint64_t budget = 2 << 20;
    begin_with(_i ? FY_RESIDENCY_COMPARE : FY_RESIDENCY_WRITE_THROUGH);
    struct fy_view views[] = {view_of(BYTES, FY_ACCESS_IN)};
    ck_assert_uint_eq(fy_memory_expect(&memory, views, 1).kept_bytes, 0);
    fy_memory_hold(&memory, device, views, 1, &budget, 0, &hold);
    fy_memory_release(&memory, &hold, FY_HOLD_UNUSED);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    struct fy_memory_guess guess = fy_memory_expect(&memory, views, 1);
    ck_assert_uint_eq(guess.kept_bytes, BYTES);
    ck_assert_uint_eq(guess.hashed_bytes, looked);
    host[FY_PAGE_BYTES * 5] = 7;
    fy_memory_hold(&memory, device, views, 1, &budget, 0, &hold);
    ck_assert_uint_eq(hold.hashed_bytes, looked);
    ck_assert_uint_eq(hold.kept_bytes, BYTES - FY_PAGE_BYTES);
    fy_memory_release(&memory, &hold, FY_HOLD_UNUSED);
    guess = fy_memory_expect(&memory, views, 1);
    ck_assert_uint_eq(guess.kept_bytes, BYTES - FY_PAGE_BYTES);
    /* The original writes a result: those pages are stale, and no others. */
    views[0] = view_of(BYTES, FY_ACCESS_INOUT);
    ck_assert_uint_eq(fy_memory_expect(&memory, views, 1).hashed_bytes,
                      2 * looked);
    fy_memory_hold(&memory, device, views, 1, &budget, 0, &hold);
    fy_memory_release(&memory, &hold, FY_HOLD_UNUSED);
    host[FY_PAGE_BYTES * 7] = 7;
    int64_t stale = use(0, BYTES, FY_ACCESS_IN, true);
    ck_assert_int_ge(stale, 2 * FY_PAGE_BYTES);
    ck_assert(_i == 0 || stale == 2 * FY_PAGE_BYTES);
    /* Where hashing does not pay there is nothing new to compare. */
    fy_memory_compare(&memory, false);
    fy_memory_evict(&memory, UINT64_MAX);
    ck_assert_uint_eq(fy_memory_expect(&memory, views, 1).kept_bytes, 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), _i ? -1 : BYTES);
    end();
}
END_TEST

/* Data that is written between any two calls, or never read, is watched no longer. */
START_TEST(test_waste_ends)
{
    begin();
    int objects = 0, written = 0, unused = 0;
    for (int i = 0; i < 100; i++) {
        memset(host, i, BYTES);
        objects += use(0, BYTES, _i ? FY_ACCESS_OUT : FY_ACCESS_IN, true) >= 0;
        written += why == FY_ABSENCE_WRITTEN;
        unused += why == FY_ABSENCE_UNUSED;
    }
    ck_assert_int_gt(written, 0);
    ck_assert_int_eq(objects + written + unused, 100);
    ck_assert_int_le(objects, _i ? 12 : 6);
    end();
}
END_TEST

/* Two operands in one object that the program has written are one bad use. */
START_TEST(test_waste_counts_a_call_once)
{
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    for (int i = 0; i < 2; i++) {
        struct fy_view halves[] = {view_of(BYTES / 2, FY_ACCESS_IN),
                                   view_of(BYTES / 2, FY_ACCESS_IN)};
        struct fy_hold hold;
        uint64_t budget = 2 << 20;
        halves[1].host += BYTES / 2;
        memset(host, i, BYTES);
        fy_memory_hold(&memory, device, halves, 2, &budget, 0, &hold);
        ck_assert_uint_eq(hold.count, 2);
        hold.rows[0].placed = hold.rows[1].placed = true;
        fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    }
    end();
}
END_TEST

/* Pages of a result are not looked at before they are there. */
START_TEST(test_results_are_looked_at_once)
{
    struct fy_hold hold;
    uint64_t budget = 2 << 20;
    begin();
    struct fy_view view = view_of(BYTES, FY_ACCESS_OUT);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    requests = 0;
    fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
    ck_assert_uint_eq(hold.count, 1);
    ck_assert_uint_eq(requests, 1); /* takes the protection off */
    fy_memory_release(&memory, &hold, FY_HOLD_UNUSED);
    end();
}
END_TEST

/* A mirror that other calls needed before it was used again is not made again at once. */
START_TEST(test_evicted_unused)
{
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    fy_memory_evict(&memory, 1);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    fy_memory_evict(&memory, 1);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
    end();
}
END_TEST

START_TEST(test_shared_memory_has_no_object)
{
    begin();
    (void)mmap(host, BYTES, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
    ck_assert_uint_eq(why, FY_ABSENCE_UNWATCHED);
    end();
}
END_TEST

/* Returns a descriptor by which pages may be pinned: a ring, a driver that ferry does not
 * know, a file opened with O_DIRECT; -1: not here. */
static int
pinning(int kind)
{
    char parameters[120] = {0};
    static const char *const files[] = {"/dev/kmsg", "/proc/self/exe"};
    return kind == 0 ? (int)syscall(425 /* io_uring_setup */, 4, parameters)
                     : open(files[kind - 1],
                            O_RDONLY | O_CLOEXEC | (kind == 2 ? O_DIRECT : 0));
}

/* Pinned memory can be written unseen: nothing becomes resident, and not for a while. */
START_TEST(test_pinned_memory)
{
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    int ring = pinning(_i);
    if (ring >= 0) {
        ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
        host[0] = 9; /* as a registration of the buffer does */
        ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
        close(ring);
        int uses = 1;
        ck_assert_uint_eq(why, FY_ABSENCE_PINNED);
        while (use(0, BYTES, FY_ACCESS_IN, true) == -1) {
            ck_assert_uint_eq(why, FY_ABSENCE_PINNED);
            ck_assert_int_lt(uses++, 200);
        }
        ck_assert_int_ge(uses, 60);
    }
    end();
}
END_TEST

/* An object that was dropped has left its pages protected: the next one has them pinned
 * without a write. */
START_TEST(test_pinned_before_the_object)
{
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    fy_memory_evict(&memory, 1);
    int ring = pinning(0);
    if (ring >= 0) {
        ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
        close(ring);
    }
    end();
}
END_TEST

/* The ring has no descriptor any more: the kernel counts the pages. */
START_TEST(test_pinned_memory_of_a_closed_ring)
{
    char parameters[120] = {0};
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    struct iovec all = {host, BYTES};
    int ring = (int)syscall(425 /* io_uring_setup */, 4, parameters);
    uint64_t update[2] = {UINT32_MAX, (uint64_t)ring};
    if (ring >= 0 &&
        syscall(427, ring, 0 /* IORING_REGISTER_BUFFERS */, &all, 1) == 0 &&
        syscall(427, ring, 20 /* IORING_REGISTER_RING_FDS */, update, 1) == 1) {
        close(ring);
        ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
        ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
    }
    end();
}
END_TEST

/* Memory that is watched can be registered with no other userfaultfd: once the program has
 * one, also before the first operand, nothing is watched. */
START_TEST(test_userfaultfd_of_the_program)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    int own = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* USER_MODE_ONLY */);
    ck_assert_int_eq(ioctl(own, UFFDIO_API, &api), 0);
    if (_i == 0) { /* as the shim tells of it */
        fy_memory_unwatch(&memory);
    } else { /* it is seen with the next page that was written */
        host[0] = 9;
        ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
    }
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    range.range.start = (uintptr_t)host;
    range.range.len = BYTES;
    ck_assert_int_eq(ioctl(own, UFFDIO_REGISTER, &range), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
    end();
    begin();
    ck_assert_int_eq(memory.watch.fd, -1);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
    end();
    begin_with(FY_RESIDENCY_AUTO);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    close(own);
    end();
}
END_TEST

/* A number that the program has closed, and given to another file, is left alone. */
START_TEST(test_descriptor_of_another)
{
    int ends[2];
    char c = 0;
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(dup2(ends[1], memory.watch.fd), memory.watch.fd);
    int number = memory.watch.fd;
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
    end();
    ck_assert_int_eq(write(number, "x", 1), 1);
    ck_assert_int_eq(read(ends[0], &c, 1), 1);
    close(number);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* The child has no object, and does not keep the parent's memory watched. */
START_TEST(test_forked_child)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    int status = 1, ends[2];
    char c;
    begin_with(_i ? FY_RESIDENCY_COMPARE : FY_RESIDENCY_WRITE_THROUGH);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        fy_memory_after_fork(&memory);
        bool good = use(0, BYTES, FY_ACCESS_IN, true) == -1 &&
                    fy_memory_bytes(&memory) == 0;
        close(ends[1]);
        _exit(read(ends[0], &c, 1) != 0 || !good);
    }
    close(ends[0]);
    if (_i == 0) {
        int own =
            (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* USER_MODE_ONLY */);
        ck_assert_int_eq(ioctl(own, UFFDIO_API, &api), 0);
        /* It may not have come so far. */
        range.range.start = (uintptr_t)host;
        range.range.len = BYTES;
        fy_memory_unwatch(&memory);
        while (ioctl(own, UFFDIO_REGISTER, &range) != 0) {
            ck_assert_int_eq(errno, EBUSY);
            (void)usleep(1000);
        }
        close(own);
    } else {
        ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    }
    close(ends[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    end();
}
END_TEST

/* Private memory by `compare', shared memory by `auto'. */
START_TEST(test_contents_are_compared)
{
    const int kind = _i ? MAP_SHARED : MAP_PRIVATE;
    begin_with(_i ? FY_RESIDENCY_AUTO : FY_RESIDENCY_COMPARE);
    ck_assert_ptr_eq(mmap(host, BYTES, PROT_READ | PROT_WRITE,
                          kind | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     host);
    memset(host, 1, BYTES);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    host[FY_PAGE_BYTES * 5] = 7;
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), FY_PAGE_BYTES);
    host[FY_PAGE_BYTES * 5] = 1;
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), FY_PAGE_BYTES);
    memset(host, 1, BYTES); /* the same bytes again */
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    ck_assert_int_eq(use(100, BYTES - 200, FY_ACCESS_IN, true),
                     2 * FY_PAGE_BYTES - 200);
    /* Another mapping with other bytes in half of it. */
    (void)mmap(host, BYTES, PROT_READ | PROT_WRITE,
               kind | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memset(host + BYTES / 2, 1, BYTES / 2);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true),
                     BYTES / 2 + FY_PAGE_BYTES);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_OUT, true), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_INOUT, true), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_INOUT, false), 0);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    (void)munmap(host + 8 * FY_PAGE_BYTES, BYTES - 8 * FY_PAGE_BYTES);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), -1);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    end();
}
END_TEST

/* A thread writes while the call copies: the mirror may have either content. */
START_TEST(test_writes_during_a_call)
{
    struct fy_hold hold;
    uint64_t budget = 2 << 20;
    begin_with(_i ? FY_RESIDENCY_COMPARE : FY_RESIDENCY_WRITE_THROUGH);
    const struct fy_view view = view_of(BYTES, FY_ACCESS_IN);
    fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
    ck_assert_uint_eq(hold.count, 1);
    hold.rows[0].placed = true;
    host[FY_PAGE_BYTES * 5] = 7;
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    host[FY_PAGE_BYTES * 6] = 7;
    /* Neither content of page 5 is known to be the mirror's. */
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 2 * FY_PAGE_BYTES);
    host[FY_PAGE_BYTES * 5] = 1;
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), FY_PAGE_BYTES);
    /* The old content comes back behind the call, which may have copied the other. */
    host[FY_PAGE_BYTES * 9] = 3;
    fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
    hold.rows[0].placed = true;
    host[FY_PAGE_BYTES * 9] = 4;
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    host[FY_PAGE_BYTES * 9] = 3;
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), FY_PAGE_BYTES);
    end();
}
END_TEST

/* The memory of a result is pinned while the call runs. */
START_TEST(test_pinned_result)
{
    struct fy_hold hold;
    uint64_t budget = 2 << 20;
    begin();
    const struct fy_view view = view_of(BYTES, FY_ACCESS_OUT);
    fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
    ck_assert_uint_eq(hold.count, 1);
    hold.rows[0].placed = true;
    int ring = pinning(0);
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    if (ring >= 0) {
        close(ring);
        ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    }
    end();
}
END_TEST

/* The program makes a userfaultfd while a call has an object: it goes with the call. */
START_TEST(test_dropped_during_a_call)
{
    struct fy_hold hold;
    uint64_t budget = 2 << 20, stale;
    begin();
    const struct fy_view view = view_of(BYTES, FY_ACCESS_IN);
    fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
    ck_assert_uint_eq(hold.count, 1);
    hold.rows[0].placed = true;
    fy_memory_unwatch(&memory);
    uintptr_t at = hold.rows[0].lo;
    ck_assert(fy_held_stale(&hold.rows[0], &at, &stale));
    ck_assert_uint_eq(stale, BYTES);
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    end();
}
END_TEST

/* The descriptor has a number that programs do not count on, and is none of theirs; with
 * few numbers pages are compared. */
START_TEST(test_descriptor_number)
{
    struct rlimit before, few;
    begin();
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_ge(memory.watch.fd, 900);
    ck_assert_int_eq(fcntl(memory.watch.fd, F_GETFD), FD_CLOEXEC);
    end();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 100;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    begin_with(FY_RESIDENCY_AUTO);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), BYTES);
    ck_assert_int_eq(memory.watch.fd, -1);
    ck_assert_int_eq(use(0, BYTES, FY_ACCESS_IN, true), 0);
    end();
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}
END_TEST

/* The gaps of a result are not in the mirror: its pages are stale. */
START_TEST(test_gaps_of_results)
{
    struct fy_hold hold;
    uint64_t budget = 2 << 20;
    begin_with(_i ? FY_RESIDENCY_COMPARE : FY_RESIDENCY_WRITE_THROUGH);
    const struct fy_view view = {.host = host,
                                 .element_bytes = 1,
                                 .access = FY_ACCESS_OUT,
                                 .naxes = 2,
                                 .extent = {FY_PAGE_BYTES / 2, PAGES},
                                 .stride = {1, FY_PAGE_BYTES},
                                 .lo = INT64_MIN,
                                 .hi = INT64_MAX};
    fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
    ck_assert_uint_eq(hold.count, 1);
    hold.rows[0].placed = true;
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    const size_t span = BYTES - FY_PAGE_BYTES / 2;
    ck_assert_int_eq(use(0, span, FY_ACCESS_IN, true), (int64_t)span);
    /* As a factorisation in place, and solutions with the factor. */
    for (int i = 0; i < 2; i++) {
        fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
        ck_assert_uint_eq(hold.count, 1);
        hold.rows[0].placed = true;
        fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    }
    ck_assert_int_eq(use(0, span, FY_ACCESS_IN, true), (int64_t)span);
    ck_assert_int_eq(use(0, span, FY_ACCESS_IN, true), FY_PAGE_BYTES / 2);
    end();
}
END_TEST

/* Each request in turn fails in each way: no object, or one that misses nothing. */
START_TEST(test_requests_fail)
{
    static const int failures[] = {EAGAIN, EEXIST, EBUSY,
                                   ENOMEM, EPERM,  EFAULT};
    for (unsigned which = 1; which < 16; which++) {
        for (unsigned f = 0; f < sizeof(failures) / sizeof(*failures); f++) {
            begin();
            requests = 0;
            failing = which;
            failure = failures[f];
            (void)use(0, BYTES, FY_ACCESS_OUT, true);
            host[FY_PAGE_BYTES * 3] = 8;
            int64_t stale = use(0, BYTES, FY_ACCESS_IN, true);
            ck_assert(stale == -1 || stale >= FY_PAGE_BYTES);
            host[FY_PAGE_BYTES * 4] = 8;
            stale = use(0, BYTES, FY_ACCESS_IN, true);
            ck_assert(stale == -1 || stale >= FY_PAGE_BYTES);
            end();
        }
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("objects");
    /* What the kernel offers is asked of the kernel, not of ferry. */
    struct utsname kernel;
    bool watches = true;
    unsigned major = 0, minor = 0;
    long fd = syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* USER_MODE_ONLY */);
    if (uname(&kernel) == 0 &&
        sscanf(kernel.release, "%u.%u", &major, &minor) == 2 &&
        (major < 6 || (major == 6 && minor < 11))) {
        puts("skip memory: needs Linux 6.11");
        watches = false;
    } else if (fd < 0) {
        puts("skip memory: no userfaultfd");
        watches = false;
    }
    if (fd >= 0) {
        (void)close((int)fd);
    }
    tcase_add_loop_test(tcase, test_contents_are_compared, 0, 2);
    tcase_add_loop_test(tcase, test_writes_during_a_call, watches ? 0 : 1, 2);
    tcase_add_loop_test(tcase, test_gaps_of_results, watches ? 0 : 1, 2);
    tcase_add_loop_test(tcase, test_expected, watches ? 0 : 1, 2);
    tcase_add_loop_test(tcase, test_forked_child, watches ? 0 : 1, 2);
    suite_add_tcase(suite, tcase);
    if (!watches) {
        return run_suite(suite);
    }
    tcase_add_test(tcase, test_writes_are_found);
    tcase_add_test(tcase, test_what_is_not_aligned_has_no_object);
    tcase_add_test(tcase, test_objects_side_by_side);
    tcase_add_test(tcase, test_another_mapping_ends_the_object);
    tcase_add_loop_test(tcase, test_no_mapping, 0, 2);
    tcase_add_test(tcase, test_parts_of_pages_are_copied);
    tcase_add_test(tcase, test_results_are_clean_and_failures_are_not);
    tcase_add_loop_test(tcase, test_waste_ends, 0, 2);
    tcase_add_test(tcase, test_waste_counts_a_call_once);
    tcase_add_test(tcase, test_results_are_looked_at_once);
    tcase_add_test(tcase, test_evicted_unused);
    tcase_add_test(tcase, test_shared_memory_has_no_object);
    tcase_add_loop_test(tcase, test_pinned_memory, 0, 3);
    tcase_add_test(tcase, test_pinned_memory_of_a_closed_ring);
    tcase_add_test(tcase, test_pinned_before_the_object);
    tcase_add_test(tcase, test_pinned_result);
    tcase_add_test(tcase, test_dropped_during_a_call);
    tcase_add_test(tcase, test_descriptor_number);
    tcase_add_loop_test(tcase, test_userfaultfd_of_the_program, 0, 2);
    tcase_add_test(tcase, test_descriptor_of_another);
    tcase_add_test(tcase, test_requests_fail);
    return run_suite(suite);
}
