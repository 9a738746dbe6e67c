/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/wire/seal.c: what was sent is what is opened, and nothing else is: no changed
 * bit, no other order, number or direction, no length beyond the limit.
 */
#include "config.h"

#include <check.h>
#include <string.h>

#include "proxy/wire/seal.h"
#include "tests/unit/runner.h"

enum {
    RECORD_BYTES = 300
};

static struct fy_seal *client, *server;
static unsigned char body[FY_SEAL_MAX_BYTES + 1];

static void
start(void)
{
    ck_assert_int_eq(fy_seal_new(true, &client), 0);
    ck_assert_int_eq(fy_seal_new(false, &server), 0);
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (unsigned char)(i * 7);
    }
}

static void
stop(void)
{
    fy_seal_free(client);
    fy_seal_free(server);
}

/* A record of n bytes of `body', given in two parts. */
static void
make(struct fy_seal *from, size_t n, unsigned char *out)
{
    const struct iovec parts[2] = {{body, n / 3}, {body + n / 3, sizeof body}};
    ck_assert_int_eq(fy_seal_close(from, parts, n, out), 0);
    memcpy(out + FY_SEAL_HEAD_BYTES, body, n);
}

START_TEST(what_is_sent_is_opened)
{
    static unsigned char record[FY_SEAL_HEAD_BYTES + FY_SEAL_MAX_BYTES];
    static const size_t sizes[] = {1, 15, 16, 17, 1000, FY_SEAL_MAX_BYTES};
    start();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = 0, whole = FY_SEAL_HEAD_BYTES + sizes[i];
        make(i % 2 ? client : server, sizes[i], record);
        struct fy_seal *to = i % 2 ? server : client;
        ck_assert_int_eq(fy_seal_open(to, record, 0, &n), FY_ERR_BUSY);
        ck_assert_int_eq(fy_seal_open(to, record, 1, &n), FY_ERR_BUSY);
        ck_assert_int_eq(fy_seal_open(to, record, whole - 1, &n), FY_ERR_BUSY);
        ck_assert_uint_eq(n, 0);
        ck_assert_int_eq(fy_seal_open(to, record, whole, &n), 0);
        ck_assert_uint_eq(n, sizes[i]);
    }
    stop();
}
END_TEST

/* Bit by bit: the length may ask for more, but nothing is ever opened. */
START_TEST(a_bit_is_noticed)
{
    unsigned char record[FY_SEAL_HEAD_BYTES + RECORD_BYTES];
    size_t n;
    for (size_t bit = 0; bit < 8 * sizeof record; bit++) {
        start();
        make(client, RECORD_BYTES, record);
        record[bit / 8] ^= (unsigned char)(1 << bit % 8);
        int status = fy_seal_open(server, record, sizeof record, &n);
        ck_assert_msg(status == FY_ERR_INVALID ||
                          (status == FY_ERR_BUSY && bit / 8 < 4),
                      "bit %zu", bit);
        stop();
    }
}
END_TEST

START_TEST(order_and_direction_are_noticed)
{
    unsigned char one[FY_SEAL_HEAD_BYTES + RECORD_BYTES];
    unsigned char two[sizeof one];
    size_t n;
    start();
    make(client, RECORD_BYTES, one);
    make(client, RECORD_BYTES, two);
    ck_assert_int_eq(fy_seal_open(client, one, sizeof one, &n), FY_ERR_INVALID);
    ck_assert_int_eq(fy_seal_open(server, two, sizeof two, &n), FY_ERR_INVALID);
    stop();
    start();
    make(client, RECORD_BYTES, one);
    ck_assert_int_eq(fy_seal_open(server, one, sizeof one, &n), 0);
    ck_assert_int_eq(fy_seal_open(server, one, sizeof one, &n), FY_ERR_INVALID);
    stop();
}
END_TEST

START_TEST(lengths_are_bounded)
{
    unsigned char head[FY_SEAL_HEAD_BYTES] = {FY_SEAL_FIRST_BYTE};
    const struct iovec part = {body, sizeof body};
    size_t n;
    start();
    ck_assert_int_eq(fy_seal_open(server, head, sizeof head, &n),
                     FY_ERR_INVALID);
    head[2] = FY_SEAL_MAX_BYTES >> 8;
    head[3] = 1;
    ck_assert_int_eq(fy_seal_open(server, head, sizeof head, &n),
                     FY_ERR_INVALID);
    ck_assert_int_eq(fy_seal_close(client, &part, 0, head), FY_ERR_INVALID);
    ck_assert_int_eq(fy_seal_close(client, &part, sizeof body, head),
                     FY_ERR_INVALID);
    stop();
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("seal");
    TCase *tcase = tcase_create("seal");
    tcase_add_test(tcase, what_is_sent_is_opened);
    tcase_add_test(tcase, a_bit_is_noticed);
    tcase_add_test(tcase, order_and_direction_are_noticed);
    tcase_add_test(tcase, lengths_are_bounded);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
