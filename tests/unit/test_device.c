/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of devices, and strided copies against a copy element by
 * element, in random shapes between bytes that must not change.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "pager/device/copy.h"
#include "pager/device/device.h"
#include "tests/unit/possible.h"
#include "tests/unit/random.h"
#include "tests/unit/runner.h"

START_TEST(test_find)
{
    ck_assert_ptr_eq(fy_device_find("host"), &fy_device_host);
    ck_assert_ptr_null(fy_device_find("hos"));
    ck_assert_ptr_null(fy_device_find(""));
}
END_TEST

/*
 * Random strides that keep elements apart: axes nested in random order, with
 * gaps, some descending. Returns how many elements the whole takes, and in
 * *origin where element (0, 0, ...) lies.
 */
static int64_t
random_strides(int naxes, const int64_t *extent, int64_t *stride,
               int64_t *origin)
{
    int order[FY_MAX_OPERAND_AXES] = {0, 1, 2, 3};
    for (int k = naxes - 1; k > 0; k--) {
        int other = (int)random_below(k + 1), swap = order[k];
        order[k] = order[other];
        order[other] = swap;
    }
    int64_t span = 1;
    *origin = 0;
    for (int i = 0; i < naxes; i++) {
        int k = order[i];
        int64_t gap = random_below(2) ? 0 : random_below(3);
        stride[k] = span + gap;
        span = stride[k] * (extent[k] > 0 ? extent[k] : 1);
        if (random_below(4) == 0) {
            *origin += (extent[k] > 0 ? extent[k] - 1 : 0) * stride[k];
            stride[k] = -stride[k];
        }
    }
    return span;
}

/* The definition of fy_copy, element by element; counts them. */
static uint64_t
copy_simply(const struct fy_copy *c)
{
    int64_t n[FY_MAX_OPERAND_AXES] = {1, 1, 1, 1}, i[FY_MAX_OPERAND_AXES];
    uint64_t count = 0;
    for (int k = 0; k < c->view.naxes; k++) {
        n[k] = c->view.extent[k];
    }
    for (i[3] = 0; i[3] < n[3]; i[3]++) {
        for (i[2] = 0; i[2] < n[2]; i[2]++) {
            for (i[1] = 0; i[1] < n[1]; i[1]++) {
                for (i[0] = 0; i[0] < n[0]; i[0]++) {
                    int64_t d = i[0] + c->view.sign * i[1], host = 0,
                            device = 0;
                    if (c->view.sign != 0 &&
                        (d < c->view.lo || d > c->view.hi)) {
                        continue;
                    }
                    for (int k = 0; k < c->view.naxes; k++) {
                        host += i[k] * c->view.stride[k];
                        device += i[k] * c->device_stride[k];
                    }
                    char *h =
                        (char *)c->view.host + host * c->view.element_bytes;
                    char *d_at = (char *)(uintptr_t)c->device +
                                 device * c->view.element_bytes;
                    if (c->direction == FY_TO_DEVICE) {
                        memcpy(d_at, h, c->view.element_bytes);
                    } else {
                        memcpy(h, d_at, c->view.element_bytes);
                    }
                    count++;
                }
            }
        }
    }
    return count;
}

static void
fill(char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (char)random_below(256);
    }
}

static void
random_constraint(struct fy_copy *c)
{
    c->view.sign = random_below(2) ? 1 : -1;
    c->view.lo = random_below(24) - 12;
    c->view.hi = c->view.lo + random_below(12) - 1;
    if (random_below(3) == 0) {
        c->view.lo = INT64_MIN;
    } else if (random_below(3) == 0) {
        c->view.hi = INT64_MAX;
    }
}

/* As a container's filter may: this process may not have the kernel copy. */
static bool
refuse_kernel_copies(void)
{
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rows / sizeof rows[0], rows};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum way {
    PLAIN,
    BY_KERNEL,
    PUT_BACK,
    REFUSED,
    WAYS
};

static void
copy_by(enum way way, const struct fy_copy *c)
{
    if (way == PLAIN) {
        fy_copy_run(c);
    } else if (way == PUT_BACK) {
        ck_assert_int_eq(fy_copy_put_back(c), 0);
    } else {
        ck_assert_int_eq(fy_copy_run_host(c), 0);
    }
}

START_TEST(test_copies_of_any_shape)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 8, 12, 16};
    if (_i == REFUSED && !refuse_kernel_copies()) {
        skip_test("no seccomp filter can be set");
        return;
    }
    for (int round = 0; round < 4000; round++) {
        struct fy_copy c = {0};
        int64_t host_origin, device_origin;
        random_state = (uint64_t)round * 31 + 7;
        c.direction = random_below(2) ? FY_TO_DEVICE : FY_TO_HOST;
        c.view.element_bytes = sizes[random_below(7)];
        c.view.naxes = (uint8_t)(1 + random_below(4));
        for (int k = 0; k < c.view.naxes; k++) {
            c.view.extent[k] = random_below(40) == 0 ? 0 : 1 + random_below(7);
        }
        if (random_below(16) == 0) {
            c.view.naxes = 1; /* longer than what one system call takes */
            c.view.extent[0] = 1 + random_below(20000);
        }
        if (c.view.naxes > 1 && random_below(2)) {
            random_constraint(&c);
        }
        size_t guard = 64, e = c.view.element_bytes;
        size_t host_bytes =
            (size_t)random_strides(c.view.naxes, c.view.extent, c.view.stride,
                                   &host_origin) *
                e +
            2 * guard;
        size_t device_bytes =
            (size_t)random_strides(c.view.naxes, c.view.extent, c.device_stride,
                                   &device_origin) *
                e +
            2 * guard;
        char *host = malloc(host_bytes), *device = malloc(device_bytes);
        char *host2 = malloc(host_bytes), *device2 = malloc(device_bytes);
        fill(host, host_bytes);
        fill(device, device_bytes);
        memcpy(host2, host, host_bytes);
        memcpy(device2, device, device_bytes);

        c.view.host = host + guard + (size_t)host_origin * e;
        c.device =
            (uint64_t)(uintptr_t)(device + guard + (size_t)device_origin * e);
        uint64_t elements = fy_view_all_elements(&c.view);
        copy_by((enum way)_i, &c);
        c.view.host = host2 + guard + (size_t)host_origin * e;
        c.device =
            (uint64_t)(uintptr_t)(device2 + guard + (size_t)device_origin * e);
        ck_assert_uint_eq(copy_simply(&c), elements);
        ck_assert_mem_eq(host, host2, host_bytes);
        ck_assert_mem_eq(device, device2, device_bytes);
        free(host);
        free(device);
        free(host2);
        free(device2);
    }
}
END_TEST

/* Columns of 100 numbers in five pages, of which the third cannot be accessed. */
static void
in_part(struct fy_copy *c, char *pages, double *own)
{
    *c = (struct fy_copy){.view.element_bytes = sizeof(double),
                          .view.naxes = 2,
                          .view.extent = {100, 20},
                          .view.stride = {1, 128},
                          .device_stride = {1, 100},
                          .view.host = pages,
                          .device = (uint64_t)(uintptr_t)own};
}

START_TEST(test_faults_are_told)
{
    static double own[2000];
    char *pages = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct fy_copy c;

    ck_assert_ptr_ne(pages, MAP_FAILED);
    if (_i && !refuse_kernel_copies()) {
        skip_test("no seccomp filter can be set");
        return;
    }
    for (int i = 0; i < 2000; i++) {
        own[i] = i;
    }
    in_part(&c, pages, own);
    c.direction = FY_TO_HOST;
    ck_assert_int_eq(mprotect(pages + 2 * 4096, 4096, PROT_NONE), 0);
    errno = 4711;
    ck_assert_int_eq(fy_copy_run_host(&c), FY_ERR_FAULT);
    memset(pages, 0, 2 * 4096);
    ck_assert_int_eq(fy_copy_put_back(&c), FY_ERR_FAULT);
    c.direction = FY_TO_DEVICE;
    ck_assert_int_eq(fy_copy_run_host(&c), FY_ERR_FAULT);
    ck_assert_int_eq(errno, 4711);
    ck_assert_int_eq(mprotect(pages + 2 * 4096, 4096, PROT_READ), 0);
    c.direction = FY_TO_HOST;
    ck_assert_int_eq(fy_copy_run_host(&c), FY_ERR_FAULT);
    ck_assert_int_eq(mprotect(pages, 5 * 4096, PROT_READ | PROT_WRITE), 0);
    for (int j = 0; j < 20; j++) {
        const double *column = (const double *)(void *)pages + 128 * (size_t)j;
        bool missing = j / 4 == 2; /* four columns a page */
        ck_assert(column[99] == (missing ? 0 : 100 * j + 99));
        ck_assert(column[100] == 0);
    }
    munmap(pages, 5 * 4096);
}
END_TEST

/* A tile's constraint declares the same elements as the view's. */
START_TEST(test_shifted_constraint)
{
    for (int round = 0; round < 2000; round++) {
        struct fy_copy c = {.view.naxes = 2, .view.extent = {1, 1}};
        random_state = (uint64_t)round * 13 + 5;
        random_constraint(&c);
        int64_t i = random_below(20), j = random_below(20);
        int64_t d = i + c.view.sign * j;
        bool declared = d >= c.view.lo && d <= c.view.hi;
        fy_view_shift(&c.view, i, j);
        ck_assert_uint_eq(fy_view_all_elements(&c.view), declared);
    }
}
END_TEST

START_TEST(test_extreme_constraints)
{
    struct fy_copy c = {.view.element_bytes = 8,
                        .view.naxes = 2,
                        .view.sign = -1,
                        .view.extent = {1000000007, 998244353},
                        .view.lo = INT64_MIN,
                        .view.hi = INT64_MAX};
    ck_assert_uint_eq(fy_view_all_elements(&c.view),
                      1000000007ULL * 998244353ULL);
    c.view.lo = INT64_MAX;
    ck_assert_uint_eq(fy_view_all_elements(&c.view), 0);
    c.view.lo = 0; /* the lower triangle: columns 0 .. n1 - 1 */
    ck_assert_uint_eq(fy_view_all_elements(&c.view),
                      1000000007ULL * 998244353ULL -
                          998244353ULL * 998244352ULL / 2);
    c.view.hi = INT64_MIN;
    ck_assert_uint_eq(fy_view_all_elements(&c.view), 0);
    c.view.hi = INT64_MAX - 1;
    fy_view_shift(&c.view, 0, INT64_MAX);
    ck_assert_int_eq(c.view.hi, INT64_MAX);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("device");
    TCase *tests = tcase_create("device");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_find);
    tcase_add_loop_test(tests, test_copies_of_any_shape, 0, WAYS);
    tcase_add_loop_test(tests, test_faults_are_told, 0, 2);
    tcase_add_test(tests, test_shifted_constraint);
    tcase_add_test(tests, test_extreme_constraints);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
