/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/sha256.c against the examples of FIPS 180-2 and NIST's long message.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sha256.h"
#include "tests/unit/runner.h"

static void
print_hash(const char *text, size_t n, size_t step, char out[65])
{
    struct fy_sha256 hash;
    unsigned char bytes[32];
    fy_sha256_start(&hash);
    for (size_t at = 0; at < n; at += step) {
        fy_sha256_add(&hash, text + at, n - at < step ? n - at : step);
    }
    fy_sha256_end(&hash, bytes);
    for (int i = 0; i < 32; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

START_TEST(test_examples)
{
    static const char *const rows[][2] = {
        {"",
         "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc",
         "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[65];
        print_hash(rows[i][0], strlen(rows[i][0]), 1000, out);
        ck_assert_str_eq(out, rows[i][1]);
    }
}
END_TEST

START_TEST(test_pieces)
{
    size_t n = 1000000;
    char *text = malloc(n);
    ck_assert_ptr_nonnull(text);
    memset(text, 'a', n);
    static const size_t steps[] = {1, 3, 63, 64, 65, 1000, 65536, 1000000};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char out[65];
        print_hash(text, n, steps[i], out);
        ck_assert_str_eq(
            out,
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
    free(text);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("sha256");
    TCase *tcase = tcase_create("sha256");
    tcase_add_test(tcase, test_examples);
    tcase_add_test(tcase, test_pieces);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
