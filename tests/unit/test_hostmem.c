/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped ranges against mappings made here, and overlap of strided views
 * against sets of bytes written out.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pager/device/host_access.h"
#include "pager/execute/hostmem.h"
#include "tests/unit/possible.h"
#include "tests/unit/random.h"
#include "tests/unit/runner.h"

static int
mapped(const void *start, size_t bytes, bool write)
{
    struct fy_range range = {(uintptr_t)start, bytes, write};
    errno = 4242;
    int status = fy_ranges_mapped(&range, 1);
    ck_assert_int_eq(errno, 4242);
    return status;
}

/* From now on ioctl answers ENOTTY, as on kernels without PROCMAP_QUERY. */
static void
forbid_ioctl(void)
{
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = rows};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Five pages: rw, r, none, hole, rw. By query, by text, without either. */
START_TEST(test_mapped_ranges)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 5 * page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    ck_assert_int_eq(mprotect(p + page, page, PROT_READ), 0);
    ck_assert_int_eq(mprotect(p + 2 * page, page, PROT_NONE), 0);
    ck_assert_int_eq(munmap(p + 3 * page, page), 0);
    if (_i == 1) {
        forbid_ioctl();
    }
    if (_i == 2) {
        /* No descriptor left: neither way works, and it must say so. */
        struct rlimit before, none;
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = 0;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
        int status = mapped(p, 1, false);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        ck_assert_int_eq(status, FY_ERR_IO);
        return;
    }
    ck_assert_int_eq(mapped(p, page, true), 0);
    ck_assert_int_eq(mapped(p + 7, page - 7, true), 0);
    ck_assert_int_eq(mapped(p, page + 1, true), FY_ERR_NOENT);
    ck_assert_int_eq(mapped(p, 2 * page, false), 0);
    ck_assert_int_eq(mapped(p, 2 * page + 1, false), FY_ERR_NOENT);
    ck_assert_int_eq(mapped(p + 3 * page, 1, false), FY_ERR_NOENT);
    ck_assert_int_eq(mapped(p + 4 * page, page, true), 0);
    ck_assert_int_eq(mapped(p + page, 4 * page, false), FY_ERR_NOENT);
    ck_assert_int_eq(mapped(NULL, 1, false), FY_ERR_NOENT);
    ck_assert_int_eq(mapped(NULL, 0, false), 0);
    ck_assert_int_eq(mapped(p, SIZE_MAX, false), FY_ERR_NOENT);
    ck_assert_int_eq(mapped("text", 5, true), FY_ERR_NOENT);
    ck_assert_int_eq(mapped("text", 5, false), 0);
    int local = 0;
    ck_assert_int_eq(mapped(&local, sizeof local, true), 0);
}
END_TEST

static bool
naive_overlap(const struct fy_view *a, const struct fy_view *b)
{
    static char seen[2][8192];
    const struct fy_view *views[2] = {a, b};
    memset(seen, 0, sizeof seen);
    for (int which = 0; which < 2; which++) {
        const struct fy_view *v = views[which];
        int64_t n[4] = {1, 1, 1, 1};
        for (int k = 0; k < v->naxes; k++) {
            n[k] = v->extent[k];
        }
        for (int64_t i = 0; i < n[0]; i++) {
            for (int64_t j = 0; j < n[1]; j++) {
                for (int64_t l = 0; l < n[2]; l++) {
                    int64_t d = i + v->sign * j;
                    if (v->sign != 0 && (d < v->lo || d > v->hi)) {
                        continue;
                    }
                    int64_t at =
                        i * v->stride[0] + j * v->stride[1] + l * v->stride[2];
                    for (uint32_t e = 0; e < v->element_bytes; e++) {
                        seen[which]
                            [(intptr_t)v->host + at * v->element_bytes + e] = 1;
                    }
                }
            }
        }
    }
    for (size_t i = 0; i < sizeof seen[0]; i++) {
        if (seen[0][i] && seen[1][i]) {
            return true;
        }
    }
    return false;
}

/* Addresses are small numbers here; nothing is read. */
static struct fy_view
random_view(void)
{
    struct fy_view v = {.element_bytes = (uint32_t)(1 + random_below(8)),
                        .naxes = (uint8_t)(1 + random_below(3))};
    int64_t base = 2500 + random_below(200);
    v.host = (char *)(intptr_t)base;
    for (int k = 0; k < v.naxes; k++) {
        v.extent[k] = random_below(30) == 0 ? 0 : 1 + random_below(6);
        v.stride[k] = random_below(40) - 10;
    }
    return v;
}

/* Arbitrary layouts: the small ones stay within the budget, so it is exact. */
START_TEST(test_overlap_is_exact)
{
    int yes = 0, no = 0;
    for (int round = 0; round < 6000; round++) {
        random_state = (uint64_t)round * 17 + 1;
        struct fy_view a = random_view(), b = random_view();
        bool expected = naive_overlap(&a, &b);
        ck_assert_int_eq(fy_views_overlap(&a, &b), expected);
        ck_assert_int_eq(fy_views_overlap(&b, &a), expected);
        yes += expected;
        no += !expected;
    }
    ck_assert_int_gt(yes, 500);
    ck_assert_int_gt(no, 500);
}
END_TEST

static struct fy_view
block(int64_t at, int64_t rows, int64_t columns, int64_t ld)
{
    return (struct fy_view){.host = (char *)(intptr_t)(1000000 + at * 8),
                            .element_bytes = 8,
                            .naxes = 2,
                            .extent = {rows, columns},
                            .stride = {1, ld}};
}

/* Large blocks of one parent, as factorisations have them. */
START_TEST(test_blocks_of_one_parent)
{
    enum {
        LD = 10000
    };
    struct fy_view left = block(0, 5000, 10000, LD);
    struct fy_view right = block(5000, 5000, 10000, LD);
    ck_assert(!fy_views_overlap(&left, &right));
    struct fy_view wider = block(4999, 5000, 10000, LD);
    ck_assert(fy_views_overlap(&left, &wider));
    struct fy_view row = block(5000, 1, 10000, LD);
    ck_assert(!fy_views_overlap(&left, &row));
    ck_assert(fy_views_overlap(&right, &row));
    struct fy_view column = block((int64_t)LD * 77 + 5000, 5000, 1, LD);
    ck_assert(!fy_views_overlap(&left, &column));
    ck_assert(fy_views_overlap(&right, &column));
    struct fy_view after = block((int64_t)LD * 10000, 5000, 5000, LD);
    ck_assert(!fy_views_overlap(&left, &after));
    struct fy_view none = block(0, 5000, 0, LD);
    ck_assert(!fy_views_overlap(&left, &none));
    struct fy_view reversed = left;
    reversed.host += 4999 * 8;
    reversed.stride[0] = -1;
    ck_assert(!fy_views_overlap(&reversed, &right));
    ck_assert(fy_views_overlap(&reversed, &left));
}
END_TEST

START_TEST(test_triangles_of_one_matrix)
{
    struct fy_view lower = block(0, 100, 100, 120), upper = lower;
    lower.sign = upper.sign = -1;
    lower.lo = 0;
    lower.hi = INT64_MAX;
    upper.lo = INT64_MIN;
    upper.hi = -1;
    ck_assert(!fy_views_overlap(&lower, &upper));
    upper.hi = 0; /* with the diagonal */
    ck_assert(fy_views_overlap(&lower, &upper));
    upper.hi = -1;
    upper.stride[1] = lower.stride[1] = 50; /* columns run into each other */
    ck_assert(fy_views_overlap(&lower, &upper));
}
END_TEST

/* Beyond the budget the answer is yes, soon. */
START_TEST(test_hard_layouts_end)
{
    struct fy_view a = {.host = (char *)16,
                        .element_bytes = 2,
                        .naxes = 4,
                        .extent = {1000, 1000, 1000, 1000},
                        .stride = {3, 6001, 12000007, 30000000007}};
    struct fy_view b = a;
    b.host = (char *)17;
    b.stride[0] = 5;
    b.stride[1] = 7001;
    ck_assert(fy_views_overlap(&a, &b));
}
END_TEST

START_TEST(test_injective)
{
    struct fy_view v = block(0, 10, 10, 10);
    ck_assert(fy_view_is_injective(&v));
    v.stride[1] = 9;
    ck_assert(!fy_view_is_injective(&v));
    v.stride[1] = -10;
    ck_assert(fy_view_is_injective(&v));
    v.stride[1] = 0;
    ck_assert(!fy_view_is_injective(&v));
    v.extent[1] = 1;
    ck_assert(fy_view_is_injective(&v));
}
END_TEST

START_TEST(test_range)
{
    struct fy_view v = block(0, 10, 3, 20);
    struct fy_range range;
    bool overflow;
    v.access = FY_ACCESS_INOUT;
    ck_assert(fy_view_range(&v, &range, &overflow));
    ck_assert_uint_eq(range.start, 1000000);
    ck_assert_uint_eq(range.bytes, 50 * 8);
    ck_assert(range.write);
    v.stride[1] = -20;
    v.access = FY_ACCESS_IN;
    ck_assert(fy_view_range(&v, &range, &overflow));
    ck_assert_uint_eq(range.start, 1000000 - 40 * 8);
    ck_assert_uint_eq(range.bytes, 50 * 8);
    ck_assert(!range.write);
    v.stride[1] = INT64_MAX;
    ck_assert(!fy_view_range(&v, &range, &overflow));
    ck_assert(overflow);
    v.extent[0] = 0;
    ck_assert(!fy_view_range(&v, &range, &overflow));
    ck_assert(!overflow);
}
END_TEST

enum {
    PAGE = 4096,
    DEVICE_PAGES = 8,
    N = 120,
};

/* Memory that the kernel maps without pages it hands out, as drivers do: the buffer of
 * a counter that does not count. Half of its first page may be written. NULL: none can
 * be had. */
static char *
device_memory(void)
{
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE,
                                    .size = sizeof event,
                                    .config = PERF_COUNT_SW_CPU_CLOCK,
                                    .disabled = 1,
                                    .exclude_kernel = 1};
    int fd = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
    char *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, (DEVICE_PAGES + 1) * PAGE,
                             PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED || madvise(at, PAGE, MADV_POPULATE_READ) == 0
               ? NULL
               : at + PAGE / 2;
}

static int
copy(bool writes, char *host, double *own, int64_t n, int64_t stride)
{
    struct fy_host_access access;
    fy_host_access_begin(&access, writes, false);
    fy_host_access_row(&access, host, (char *)own, n, 8 * stride, 8, 8);
    return fy_host_access_end(&access);
}

START_TEST(test_device_memory)
{
    static double own[DEVICE_PAGES * PAGE / 8];
    char *at = device_memory();
    double *host = (double *)(void *)at;
    if (!at) {
        skip_test("no memory of a device here");
        return;
    }
    ck_assert_int_eq(mapped(at, PAGE, true), FY_OK);
    ck_assert(fy_host_can_be_had(at, 1, false));
    ck_assert(fy_host_can_be_had(at, 1, true));
    for (int stride = 1; stride <= 2; stride++) {
        for (int i = 0; i < 2 * N; i++) {
            host[i] = i;
        }
        ck_assert_int_eq(copy(false, at, own, N, stride), FY_OK);
        for (int i = 0; i < N; i++) {
            ck_assert_double_eq(own[i], i * stride);
            own[i] = -i - 1;
        }
        ck_assert_int_eq(copy(true, at, own, N, stride), FY_OK);
        for (int i = 0; i < 2 * N; i++) {
            bool written = i < stride * N && i % stride == 0;
            ck_assert_double_eq(host[i], written ? -(i / stride) - 1 : i);
        }
    }
    /* In several pieces, the last of zeros. */
    memset(own, 1, sizeof own);
    ck_assert_int_eq(copy(false, at, own, DEVICE_PAGES * PAGE / 8, 1), FY_OK);
    ck_assert_int_eq(memcmp(own, at, sizeof own), 0);
    ck_assert_double_eq(own[0], -1);
    ck_assert_double_eq(own[DEVICE_PAGES * PAGE / 8 - 1], 0);
    /* A store to the other pages earns a signal; then they are gone. */
    ck_assert(fy_host_can_be_had(at + PAGE, 1, false));
    ck_assert(!fy_host_can_be_had(at + PAGE, 1, true));
    ck_assert_int_eq(copy(true, at + PAGE, own, N, 1), FY_ERR_FAULT);
    munmap(at - PAGE / 2, (DEVICE_PAGES + 1) * PAGE);
    ck_assert(!fy_host_can_be_had(at, 1, false));
    ck_assert_int_eq(copy(false, at, own, N, 1), FY_ERR_FAULT);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("hostmem");
    TCase *tests = tcase_create("hostmem");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_mapped_ranges, 0, 3);
    tcase_add_test(tests, test_overlap_is_exact);
    tcase_add_test(tests, test_blocks_of_one_parent);
    tcase_add_test(tests, test_triangles_of_one_matrix);
    tcase_add_test(tests, test_hard_layouts_end);
    tcase_add_test(tests, test_injective);
    tcase_add_test(tests, test_range);
    tcase_add_test(tests, test_device_memory);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
