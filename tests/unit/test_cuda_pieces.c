/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of pieces, for copies of which no test could move the bytes:
 * gigabytes to terabytes, negative strides, triangles. Elements are drawn at
 * random; each must be in the piece that its indices say, once, and the slot's
 * byte that packing gives it must be the one that the transfer moves to its
 * place on the device. Runs without any driver.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>

#include "pager/device/cuda/pieces.h"
#include "tests/unit/random.h"
#include "tests/unit/runner.h"

enum {
    ROUNDS = 1000,
    DRAWS = 20
};

/* Nested strides in elements, in random order; returns what they span. */
static int64_t
random_strides(const struct fy_copy *c, int64_t *stride)
{
    int order[FY_MAX_OPERAND_AXES] = {0, 1, 2, 3};
    int64_t span = 1;
    for (int k = c->view.naxes - 1; k > 0; k--) {
        int other = (int)random_below(k + 1), swap = order[k];
        order[k] = order[other];
        order[other] = swap;
    }
    for (int i = 0; i < c->view.naxes; i++) {
        int k = order[i];
        stride[k] = span + (random_below(3) == 0 ? random_below(5) : 0);
        span = stride[k] * c->view.extent[k];
        if (random_below(4) == 0) {
            stride[k] = -stride[k];
        }
    }
    return span;
}

/* Up to 2^40 elements, the most of them far above 4 GiB. */
static void
random_copy(struct fy_copy *c)
{
    static const uint32_t sizes[] = {1, 4, 8, 16};
    int64_t left = INT64_C(1) << (20 + random_below(21));
    *c = (struct fy_copy){.view.naxes = (uint8_t)(1 + random_below(4)),
                          .view.element_bytes = sizes[random_below(4)],
                          .view.lo = INT64_MIN,
                          .view.hi = INT64_MAX};
    for (int k = 0; k < c->view.naxes; k++) {
        int64_t n = k == c->view.naxes - 1 ? left : 1 + random_below(left);
        if (k < c->view.naxes - 1 && n > 70000) {
            n = 1 + random_below(70000);
        }
        c->view.extent[k] = n;
        left /= n;
        left = left < 1 ? 1 : left;
    }
    /* Addresses that are never followed, with room on either side. */
    c->view.host = (void *)(uintptr_t)(UINT64_C(1) << 61);
    c->device = UINT64_C(1) << 60;
    (void)random_strides(c, c->view.stride);
    (void)random_strides(c, c->device_stride);
    if (c->view.naxes > 1 && random_below(2)) {
        int64_t n = c->view.extent[0] + c->view.extent[1] + 1;
        c->view.sign = random_below(2) ? 1 : -1;
        c->view.lo = random_below(2 * n) - n;
        if (random_below(2)) {
            c->view.hi = c->view.lo + random_below(n);
        }
        for (int k = 0; k < c->view.naxes; k++) {
            c->view.stride[k] = llabs(c->view.stride[k]);
        }
    }
}

/* The piece that has the element, by the cuts. */
static uint64_t
piece_of(const struct cuda_pieces *p, const int64_t *at)
{
    uint64_t index = 0, below = 1;
    for (int i = 0; i < p->naxes; i++) {
        index += (uint64_t)(at[p->order[i]] / p->chunk[i]) * below;
        below *= (uint64_t)p->count[i];
    }
    return index;
}

/* Where on the device the transfer puts a byte of the slot. */
static uint64_t
device_of(const struct fy_copy *t, uint64_t offset)
{
    uint64_t to = t->device, bytes = t->view.element_bytes;
    for (int k = t->view.naxes - 1; k >= cuda_run_axes(t); k--) {
        uint64_t pitch = (uint64_t)t->view.stride[k] * bytes;
        uint64_t step = offset / pitch;
        ck_assert_uint_lt(step, (uint64_t)t->view.extent[k]);
        offset %= pitch;
        to += step * (uint64_t)t->device_stride[k] * bytes;
    }
    ck_assert_uint_lt(offset, cuda_run_bytes(t));
    return to + offset;
}

/*
 * Where a piece begins, by its first element's distance from the copy's in host
 * memory. A triangle's may begin later than the cuts say.
 */
static void
beginning(const struct fy_copy *c, const struct cuda_pieces *p,
          const struct fy_copy *packing, const int64_t *at, int64_t *lo)
{
    int64_t away = ((char *)packing->view.host - (char *)c->view.host) /
                   (int64_t)c->view.element_bytes;
    for (int i = 0; i < p->naxes; i++) {
        int k = p->order[i];
        lo[k] = at[k] / p->chunk[i] * p->chunk[i];
        if (c->view.sign == 0 || k > 1) {
            away -= lo[k] * c->view.stride[k];
        }
    }
    if (c->view.sign != 0) { /* its strides are positive and nested */
        int far = c->view.stride[1] > c->view.stride[0];
        lo[far] = away / c->view.stride[far];
        away %= c->view.stride[far];
        lo[1 - far] = away / c->view.stride[1 - far];
        away %= c->view.stride[1 - far];
    }
    ck_assert_int_eq(away, 0);
}

static void
check_element(const struct fy_copy *c, const struct cuda_pieces *p,
              const int64_t *at, uint64_t most_bytes)
{
    char *const slot = (char *)(uintptr_t)(UINT64_C(1) << 59);
    int64_t e = c->view.element_bytes, lo[FY_MAX_OPERAND_AXES] = {0};
    uint64_t device = c->device, bytes = c->view.element_bytes;
    struct cuda_piece piece;
    uint64_t index = piece_of(p, at);
    ck_assert_uint_lt(index, p->npieces);
    ck_assert(cuda_piece_at(p, index, slot, &piece));
    const struct fy_copy *packing = &piece.packing;
    uint64_t in_slot = packing->device - (uint64_t)(uintptr_t)slot;
    beginning(c, p, packing, at, lo);
    for (int k = 0; k < c->view.naxes; k++) {
        int64_t inner = at[k] - lo[k];
        ck_assert_int_ge(inner, 0);
        ck_assert_int_lt(inner, packing->view.extent[k]);
        in_slot += (uint64_t)(inner * packing->device_stride[k] * e);
        device += (uint64_t)(at[k] * c->device_stride[k] * e);
        bytes *= (uint64_t)packing->view.extent[k];
    }
    ck_assert_uint_le(bytes, most_bytes);
    ck_assert_uint_le(in_slot, bytes - c->view.element_bytes);
    ck_assert_uint_eq(device_of(&piece.transfer, in_slot), device);
}

START_TEST(test_far_elements)
{
    static const uint64_t rooms[] = {64 << 10, 256 << 10, 4 << 20};
    for (int round = 0; round < ROUNDS; round++) {
        struct fy_copy c;
        struct cuda_pieces p;
        random_copy(&c);
        uint64_t most = rooms[random_below(3)];
        cuda_pieces_init(&p, &c, most);
        for (int i = 0; i < DRAWS; i++) {
            int64_t at[FY_MAX_OPERAND_AXES] = {0};
            for (int k = 0; k < c.view.naxes; k++) {
                at[k] = random_below(4) == 0 ? c.view.extent[k] - 1
                                             : random_below(c.view.extent[k]);
            }
            int64_t d = at[0] + c.view.sign * at[1];
            if (c.view.sign == 0 || (d >= c.view.lo && d <= c.view.hi)) {
                check_element(&c, &p, at, most);
            }
        }
    }
}
END_TEST

/* Pieces as many as the elements need, and no bytes twice. */
START_TEST(test_pieces_add_up)
{
    for (int round = 0; round < 200; round++) {
        struct fy_copy c;
        struct cuda_pieces p;
        struct cuda_piece piece;
        random_copy(&c);
        c.view.sign = 0;
        cuda_pieces_init(&p, &c, 4 << 20);
        if (p.npieces > 3000) {
            continue;
        }
        uint64_t all = 1, sum = 0;
        for (int k = 0; k < c.view.naxes; k++) {
            all *= (uint64_t)c.view.extent[k];
        }
        for (uint64_t i = 0; i < p.npieces; i++) {
            uint64_t part = 1;
            ck_assert(cuda_piece_at(&p, i, (void *)(uintptr_t)4096, &piece));
            ck_assert(piece.whole);
            for (int k = 0; k < c.view.naxes; k++) {
                part *= (uint64_t)piece.packing.view.extent[k];
            }
            sum += part;
        }
        ck_assert_uint_eq(sum, all);
    }
}
END_TEST

/* A matrix of 2^33 bytes, both ways of looking at its last column. */
START_TEST(test_direct_beyond_4_gib)
{
    struct fy_copy t;
    struct fy_copy c = {.view.element_bytes = 8,
                        .view.naxes = 2,
                        .view.extent = {INT64_C(1) << 15, INT64_C(1) << 15},
                        .view.stride = {1, INT64_C(1) << 16},
                        .device_stride = {1, INT64_C(1) << 15},
                        .view.host = (void *)(uintptr_t)(UINT64_C(1) << 61),
                        .device = UINT64_C(1) << 60};
    ck_assert(cuda_copy_direct(&c, &t));
    ck_assert_uint_eq(cuda_run_bytes(&t), UINT64_C(1) << 18);
    ck_assert_int_eq(t.view.naxes, cuda_run_axes(&t) + 1);
    ck_assert_int_eq(t.view.stride[1] * 8, INT64_C(1) << 19);
    c.view.stride[1] = c.device_stride[1] = -(INT64_C(1) << 16);
    ck_assert(cuda_copy_direct(&c, &t));
    uint64_t back = ((UINT64_C(1) << 15) - 1) << 19;
    ck_assert_uint_eq((uint64_t)(uintptr_t)t.view.host,
                      (UINT64_C(1) << 61) - back);
    ck_assert_uint_eq(t.device, (UINT64_C(1) << 60) - back);
    c.view.stride[1] = 1 << 14; /* columns that overlap */
    ck_assert(!cuda_copy_direct(&c, &t));
    c.view.stride[1] = c.device_stride[1] = INT64_C(1) << 15;
    ck_assert(cuda_copy_direct(&c, &t));
    ck_assert_int_eq(t.view.naxes, cuda_run_axes(&t));
    ck_assert_uint_eq(cuda_run_bytes(&t), UINT64_C(1) << 33);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("cuda_pieces");
    TCase *tests = tcase_create("cuda_pieces");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_far_elements);
    tcase_add_test(tests, test_pieces_add_up);
    tcase_add_test(tests, test_direct_beyond_4_gib);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
