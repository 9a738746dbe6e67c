/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 against the examples of FIPS 180-2, NIST's long message and sha256sum;
 * by the processor's instructions for it and in C.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/sha256.h"
#include "tests/unit/possible.h"
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

/* Lengths on both sides of each block's end, at odd addresses. */
START_TEST(instructions_compute_what_c_does)
{
    static unsigned char bytes[64 * 67 + 1];
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof bytes; i++) {
        state = state * 1664525U + 1013904223U;
        bytes[i] = (unsigned char)(state >> 24);
    }
    if (!fy_sha256_is_fast()) {
        skip_test("the processor has no instructions for SHA-256");
        return;
    }
    for (size_t n = 0; n < sizeof bytes / 64; n++) {
        uint32_t plain[8], fast[8];
        for (unsigned i = 0; i < 8; i++) {
            state = state * 1664525U + 1013904223U;
            plain[i] = fast[i] = state;
        }
        fy_sha256_plain(plain, bytes + n % 2, n);
        fy_sha256_fast(fast, bytes + n % 2, n);
        ck_assert_mem_eq(fast, plain, sizeof plain);
    }
}
END_TEST

START_TEST(files_hash_as_by_sha256sum)
{
    static const size_t sizes[] = {1, 55, 56, 63, 64, 65, 4096, 1000003};
    char name[] = "/tmp/ferry-sha256-XXXXXX", command[64], said[65], own[65];
    char *bytes = malloc(1000003);
    int fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < 1000003; i++) {
        bytes[i] = (char)(i * i / 3);
    }
    (void)snprintf(command, sizeof command, "sha256sum <%s", name);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ck_assert_int_eq(pwrite(fd, bytes, sizes[i], 0), (ssize_t)sizes[i]);
        FILE *from = popen(command, "re");
        ck_assert_ptr_nonnull(from);
        ck_assert_ptr_nonnull(fgets(said, sizeof said, from));
        ck_assert_int_eq(pclose(from), 0);
        print_hash(bytes, sizes[i], 777, own);
        ck_assert_str_eq(own, said);
    }
    ck_assert_int_eq(close(fd) | unlink(name), 0);
    free(bytes);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("sha256");
    TCase *tcase = tcase_create("sha256");
    tcase_add_test(tcase, test_examples);
    tcase_add_test(tcase, test_pieces);
    tcase_add_test(tcase, instructions_compute_what_c_does);
    tcase_add_test(tcase, files_hash_as_by_sha256sum);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
