/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/wire/compress.c: streams come back as they were, line by line where they
 * must, in bounded memory; anything else is refused.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/wire/compress.h"
#include "tests/unit/runner.h"

struct block {
    char *bytes;
    size_t n, capacity;
};

static int
collect(void *context, const void *bytes, size_t n)
{
    struct block *block = context;
    if (block->n + n > block->capacity) {
        block->capacity = 2 * block->capacity + n;
        block->bytes = realloc(block->bytes, block->capacity);
        ck_assert_ptr_nonnull(block->bytes);
    }
    memcpy(block->bytes + block->n, bytes, n);
    block->n += n;
    return 0;
}

static int
refuse(void *context, const void *bytes, size_t n)
{
    (void)context;
    (void)bytes;
    (void)n;
    return FY_ERR_BUSY;
}

/* Compressed in pieces of `piece' bytes, new in *out. */
static void
squeeze(const char *bytes, size_t n, size_t piece, bool flush,
        struct block *out)
{
    struct fy_squeeze *squeeze = NULL;
    *out = (struct block){0};
    ck_assert_int_eq(fy_squeeze_new(0, &squeeze), 0);
    for (size_t i = 0; i < n; i += piece) {
        size_t k = n - i < piece ? n - i : piece;
        ck_assert_int_eq(
            fy_squeeze_add(squeeze, bytes + i, k, flush, collect, out), 0);
    }
    ck_assert_int_eq(fy_squeeze_end(squeeze, collect, out), 0);
    fy_squeeze_free(squeeze);
}

static void
comes_back(const char *bytes, size_t n, const struct block *packed, size_t give,
           size_t room)
{
    struct fy_unsqueeze *unsqueeze = NULL;
    char *to = malloc(room);
    size_t got = 0;
    ck_assert_ptr_nonnull(to);
    ck_assert_int_eq(fy_unsqueeze_new(&unsqueeze), 0);
    for (size_t i = 0; i < packed->n; i += give) {
        size_t k = packed->n - i < give ? packed->n - i : give, taken = 0;
        ck_assert_int_eq(fy_unsqueeze_add(unsqueeze, packed->bytes + i, k), 0);
        do {
            ck_assert_int_eq(fy_unsqueeze_take(unsqueeze, to, room, &taken), 0);
            ck_assert_uint_le(taken, n - got);
            ck_assert_mem_eq(to, bytes + got, taken);
            got += taken;
        } while (taken);
    }
    ck_assert_uint_eq(got, n);
    ck_assert_uint_eq(fy_unsqueeze_waiting(unsqueeze), 0);
    fy_unsqueeze_free(unsqueeze);
    free(to);
}

static char *
sample(size_t n, bool noise)
{
    char *bytes = malloc(n + 1);
    uint32_t state = 7;
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525U + 1013904223U;
        bytes[i] = noise ? (char)(state >> 24) : "abc \n"[(state >> 24) % 5];
    }
    return bytes;
}

START_TEST(streams_come_back)
{
    static const size_t sizes[] = {0, 1, 1000, 300000, 5000000};
    static const size_t pieces[] = {1 << 20, 1, 333, 65536, 65536};
    static const size_t gives[] = {1, 1, 7, 1000, 100000};
    static const size_t rooms[] = {10, 1, 1, 4096, 65536};
    size_t n = sizes[_i % 5];
    struct block packed;
    char *bytes = sample(n, _i >= 5);
    squeeze(bytes, n, pieces[_i % 5], _i % 2, &packed);
    if (n >= 300000 && _i < 5) {
        ck_assert_uint_lt(packed.n, n / 2);
    }
    comes_back(bytes, n, &packed, gives[_i % 5], rooms[_i % 5]);
    free(packed.bytes);
    free(bytes);
}
END_TEST

/* Compressed, stored, compressed, in frames of its own. */
START_TEST(it_changes_its_mind)
{
    static const double links[] = {0, 1e6, 0, 5e6, 1e10};
    struct fy_squeeze *squeezer = NULL;
    struct block packed = {0};
    size_t n = 1000000, used[6] = {0};
    char *bytes = sample(n, false);
    ck_assert_int_eq(fy_squeeze_new(0, &squeezer), 0);
    for (size_t i = 0; i < n; i += 50000) {
        fy_squeeze_set(squeezer, links[i / 200000], 400e6);
        ck_assert_int_eq(fy_squeeze_add(squeezer, bytes + i, 50000,
                                        i % 100000 == 0, collect, &packed),
                         0);
        used[i / 200000 + 1] = packed.n;
    }
    ck_assert_int_eq(fy_squeeze_end(squeezer, collect, &packed), 0);
    ck_assert_uint_gt(used[1], 200000);
    ck_assert_uint_lt(used[2] - used[1], 100000);
    ck_assert_uint_gt(used[3] - used[2], 200000);
    ck_assert_uint_lt(used[4] - used[3], 100000);
    ck_assert_uint_gt(used[5] - used[4], 200000);
    comes_back(bytes, n, &packed, 7777, 4096);
    fy_squeeze_free(squeezer);
    free(packed.bytes);
    free(bytes);
}
END_TEST

START_TEST(noise_is_stored_soon)
{
    struct fy_squeeze *squeezer = NULL;
    struct block packed = {0};
    size_t n = 4000000, before = 0, more = 0;
    char *bytes = sample(n, true);
    ck_assert_int_eq(fy_squeeze_new(0, &squeezer), 0);
    for (size_t i = 0; i < n; i += 50000) {
        fy_squeeze_set(squeezer, 1e6, 400e6);
        before = packed.n;
        ck_assert_int_eq(
            fy_squeeze_add(squeezer, bytes + i, 50000, true, collect, &packed),
            0);
        more = packed.n - before;
    }
    ck_assert_uint_eq(more, 50003); /* one raw block */
    ck_assert_int_eq(fy_squeeze_end(squeezer, collect, &packed), 0);
    comes_back(bytes, n, &packed, 65536, 65536);
    fy_squeeze_free(squeezer);
    free(packed.bytes);
    free(bytes);
}
END_TEST

START_TEST(a_flushed_line_is_there_at_once)
{
    struct fy_squeeze *squeezer = NULL;
    struct fy_unsqueeze *unsqueeze = NULL;
    char to[100];
    ck_assert_int_eq(fy_squeeze_new(3, &squeezer), 0);
    ck_assert_int_eq(fy_unsqueeze_new(&unsqueeze), 0);
    for (int i = 0; i < 100; i++) {
        struct block packed = {0};
        size_t n = 0;
        ck_assert_int_eq(
            fy_squeeze_add(squeezer, "one line\n", 9, true, collect, &packed),
            0);
        ck_assert_int_eq(fy_unsqueeze_add(unsqueeze, packed.bytes, packed.n),
                         0);
        ck_assert_int_eq(fy_unsqueeze_take(unsqueeze, to, sizeof to, &n), 0);
        ck_assert_uint_eq(n, 9);
        ck_assert_mem_eq(to, "one line\n", 9);
        free(packed.bytes);
    }
    fy_squeeze_free(squeezer);
    fy_unsqueeze_free(unsqueeze);
}
END_TEST

/* 1 GiB of zeros is some 30 KiB; nobody has to take more than he can hold. */
START_TEST(a_bomb_goes_off_slowly)
{
    struct fy_squeeze *squeezer = NULL;
    struct fy_unsqueeze *unsqueeze = NULL;
    struct block packed = {0};
    static char zeros[1 << 20], to[4096];
    ck_assert_int_eq(fy_squeeze_new(0, &squeezer), 0);
    for (int i = 0; i < 64; i++) {
        ck_assert_int_eq(fy_squeeze_add(squeezer, zeros, sizeof zeros, false,
                                        collect, &packed),
                         0);
    }
    ck_assert_int_eq(fy_squeeze_end(squeezer, collect, &packed), 0);
    ck_assert_uint_lt(packed.n, 100000);
    ck_assert_int_eq(fy_unsqueeze_new(&unsqueeze), 0);
    ck_assert_int_eq(fy_unsqueeze_add(unsqueeze, packed.bytes, packed.n), 0);
    size_t n = 0, got = 0;
    do {
        ck_assert_int_eq(fy_unsqueeze_take(unsqueeze, to, sizeof to, &n), 0);
        got += n;
    } while (n);
    ck_assert_uint_eq(got, 64 << 20);
    ck_assert_uint_eq(fy_unsqueeze_waiting(unsqueeze), 0);
    fy_unsqueeze_free(unsqueeze);
    fy_squeeze_free(squeezer);
    free(packed.bytes);
}
END_TEST

START_TEST(what_is_broken_is_refused)
{
    struct block packed;
    char *bytes = sample(100000, false), to[70000];
    squeeze(bytes, 100000, 5000, true, &packed);
    for (size_t at = 0; at <= packed.n; at += at < 100 ? 1 : 397) {
        struct fy_unsqueeze *unsqueeze = NULL;
        size_t n = 0, got = 0;
        int status = 0;
        bool same = true;
        ck_assert_int_eq(fy_unsqueeze_new(&unsqueeze), 0);
        if (at < packed.n) {
            packed.bytes[at] ^= 0x55;
        }
        ck_assert_int_eq(fy_unsqueeze_add(unsqueeze, packed.bytes, packed.n),
                         0);
        if (at == packed.n) {
            ck_assert_int_eq(fy_unsqueeze_add(unsqueeze, "x", 1), 0);
        }
        do {
            status = fy_unsqueeze_take(unsqueeze, to, sizeof to, &n);
            same &=
                status || (got + n <= 100000 && !memcmp(bytes + got, to, n));
            got += status ? 0 : n;
        } while (!status && n);
        /* What came out may be wrong, but never of the right length. */
        ck_assert(status == FY_ERR_INVALID || same);
        ck_assert(status == FY_ERR_INVALID || got != 100000 || same);
        if (at < packed.n) {
            packed.bytes[at] ^= 0x55;
        }
        fy_unsqueeze_free(unsqueeze);
    }
    struct fy_unsqueeze *unsqueeze = NULL;
    static char much[FY_UNSQUEEZE_MAX_BYTES];
    ck_assert_int_eq(fy_unsqueeze_new(&unsqueeze), 0);
    ck_assert_int_eq(fy_unsqueeze_add(unsqueeze, much, sizeof much), 0);
    ck_assert_int_eq(fy_unsqueeze_add(unsqueeze, much, 1), FY_ERR_OVERFLOW);
    fy_unsqueeze_free(unsqueeze);
    struct fy_squeeze *squeezer = NULL;
    ck_assert_int_eq(fy_squeeze_new(20, &squeezer), FY_ERR_INVALID);
    ck_assert_int_eq(fy_squeeze_new(0, &squeezer), 0);
    ck_assert_int_eq(fy_squeeze_add(squeezer, "x", 1, true, refuse, NULL),
                     FY_ERR_BUSY);
    fy_squeeze_free(squeezer);
    free(packed.bytes);
    free(bytes);
}
END_TEST

START_TEST(it_pays_where_the_link_is_slow)
{
    ck_assert(fy_squeeze_pays(1e6, 400e6, 0));
    ck_assert(fy_squeeze_pays(125e6, 400e6, 0.5));
    ck_assert(!fy_squeeze_pays(1.25e9, 400e6, 0.2)); /* 10 Gbit/s */
    ck_assert(!fy_squeeze_pays(350e6, 400e6, 0.2));
    ck_assert(!fy_squeeze_pays(1e6, 400e6, 0.95)); /* it does not shrink */
    ck_assert(!fy_squeeze_pays(0, 400e6, 0));      /* nobody knows */
    ck_assert(fy_squeeze_pays(1e6, 0, 0));
    ck_assert_double_gt(fy_squeeze_speed(), 1e6);
    ck_assert_double_eq(fy_squeeze_speed(), fy_squeeze_speed());
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("compress");
    TCase *tcase = tcase_create("compress");
    tcase_add_loop_test(tcase, streams_come_back, 0, 10);
    tcase_add_test(tcase, it_changes_its_mind);
    tcase_add_test(tcase, noise_is_stored_soon);
    tcase_add_test(tcase, a_flushed_line_is_there_at_once);
    tcase_add_test(tcase, a_bomb_goes_off_slowly);
    tcase_add_test(tcase, what_is_broken_is_refused);
    tcase_add_test(tcase, it_pays_where_the_link_is_slow);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
