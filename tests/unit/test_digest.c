/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256, also where memory ends: a digest or none, never a crash of libcrypto,
 * which opens no configuration for it, and is loaded by much hashing only, in
 * the middle of digests. Each try is a separate process.
 */
#include "config.h"

#include "proxy/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sha256.h"
#include "tests/unit/runner.h"

enum {
    NO_LIMIT = 3, /* exit status: it cannot be tried */
};

START_TEST(test_value)
{
    static const unsigned char expected[32] = {
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
        0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
        0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    unsigned char found[32];
    fy_digest_of("abc", 3, found);
    ck_assert_mem_eq(found, expected, sizeof found);
    struct fy_digest *digest = fy_digest_new();
    ck_assert_ptr_nonnull(digest);
    fy_digest_add(digest, "a", 1);
    fy_digest_add(digest, "bc", 2);
    memset(found, 0, sizeof found);
    fy_digest_end(digest, found);
    ck_assert_mem_eq(found, expected, sizeof found);
    fy_digest_free(digest);
}
END_TEST

static bool
has_libcrypto(void)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    ck_assert_ptr_nonnull(maps);
    while (!found && fgets(line, sizeof line, maps)) {
        found = strstr(line, "/libcrypto.so") != NULL;
    }
    (void)fclose(maps);
    return found;
}

/* 64 digests that grow at the same time, each by pieces of another length: some
 * of them have part of a block waiting when libcrypto takes over. */
START_TEST(test_much)
{
    enum {
        DIGESTS = 64,
        ROUNDS = 180
    };
    static unsigned char bytes[DIGESTS + ROUNDS];
    struct fy_digest *digests[DIGESTS];
    struct fy_sha256 expected[DIGESTS];
    for (unsigned i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * i + 7);
    }
    for (unsigned i = 0; i < DIGESTS; i++) {
        digests[i] = fy_digest_new();
        ck_assert_ptr_nonnull(digests[i]);
        fy_sha256_start(&expected[i]);
    }
    ck_assert_msg(!has_libcrypto(), "it is loaded for nothing");
    for (unsigned turn = 0; turn < ROUNDS; turn++) {
        for (unsigned i = 0; i < DIGESTS; i++) {
            fy_digest_add(digests[i], bytes + turn, i);
            fy_sha256_add(&expected[i], bytes + turn, i);
        }
    }
    ck_assert_msg(has_libcrypto(), "much is hashed slowly");
    for (unsigned i = 0; i < DIGESTS; i++) {
        unsigned char found[32], right[32];
        fy_digest_end(digests[i], found);
        fy_sha256_end(&expected[i], right);
        ck_assert_mem_eq(found, right, sizeof right);
        fy_digest_free(digests[i]);
    }
}
END_TEST

/* The events of the folder whose configuration OPENSSL_CONF names. */
START_TEST(test_no_configuration)
{
    static const char much[1 << 20]; /* more than is hashed without libcrypto */
    char folder[] = "/tmp/fydigest.XXXXXX", file[64];
    unsigned char found[32];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(file, sizeof file, "%s/openssl.cnf", folder);
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(setenv("OPENSSL_CONF", file, 1), 0);
    int events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    ck_assert_int_ge(inotify_add_watch(events, folder, IN_OPEN), 0);
    fy_digest_of(much, sizeof much, found);
    ck_assert_msg(has_libcrypto(), "it was not loaded");
    char event[512];
    ssize_t n = read(events, event, sizeof event);
    ck_assert_msg(n < 0 && errno == EAGAIN, "it was opened");
    fd = open(file, O_RDONLY | O_CLOEXEC); /* what such an event looks like */
    ck_assert_int_gt(read(events, event, sizeof event), 0);
    close(fd);
    close(events);
    ck_assert_int_eq(unlink(file) || rmdir(folder), 0);
}
END_TEST

/* No address is left but for about so many bytes of the heap. */
static bool
use_up_all_but(size_t bytes)
{
    struct block {
        struct block *next;
    } *kept = NULL, *block;
    void *volatile wasted; /* or the compiler would do without */
    /* Small ones: they come from the heap itself. */
    for (size_t got = 0; got < bytes; got += 512) {
        block = malloc(512 - 16);
        if (!block) {
            return false;
        }
        block->next = kept;
        kept = block;
    }
    const struct rlimit none = {.rlim_cur = 1, .rlim_max = 1};
    if (setrlimit(RLIMIT_AS, &none) != 0) {
        return false;
    }
    for (size_t n = 1 << 20; n >= 16; n /= 2) {
        do {
            wasted = malloc(n);
        } while (wasted);
    }
    while (kept) {
        block = kept;
        kept = block->next;
        free(block);
    }
    return true;
}

/* Of 512 bytes times the number of the row. */
START_TEST(test_little_memory)
{
    pid_t child = fork();
    if (child == 0) {
        unsigned char out[32];
        fy_digest_of("abc", 3, out);
        unsigned char again[32];
        if (!use_up_all_but((size_t)_i * 512)) {
            _exit(NO_LIMIT);
        }
        fy_digest_of("abc", 3, again);
        struct fy_digest *digest = fy_digest_new();
        if (digest) {
            fy_digest_add(digest, "abc", 3);
            fy_digest_end(digest, again);
        }
        _exit(memcmp(out, again, sizeof out) == 0 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
    ck_assert_msg(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NO_LIMIT,
                  "status %d", WEXITSTATUS(status));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("digest");
    TCase *core = tcase_create("core");
    tcase_add_test(core, test_value);
    tcase_add_test(core, test_much);
    tcase_add_test(core, test_no_configuration);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_loop_test(core, test_little_memory, 0, 64);
#endif
    suite_add_tcase(suite, core);
    return run_suite(suite);
}
