/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of carried files and closures: only whole files of the named content are kept,
 * what was used least lately goes first, and nothing that another user can change is used.
 */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sha256.h"
#include "common/whole.h"
#include "proxy/storage/closure.h"
#include "proxy/storage/store.h"
#include "tests/unit/runner.h"

static char home[128], why_text[300];
static struct fy_buffer why;
static struct fy_store *store;

static void
setup(void)
{
    strcpy(home, "/tmp/ferry-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    ck_assert_int_eq(unsetenv("XDG_CACHE_HOME"), 0);
    fy_buffer_start(&why, why_text, sizeof why_text);
    ck_assert_int_eq(fy_store_open(home, 1000, &why, &store), 0);
}

static void
teardown(void)
{
    char command[200];
    fy_store_close(store);
    snprintf(command, sizeof command, "rm -rf %s", home);
    ck_assert_int_eq(system(command), 0);
}

/* Puts a text; its hash in `out'. */
static int
put(const char *text, unsigned char out[32])
{
    fy_sha256_of(text, strlen(text), out);
    fy_buffer_start(&why, why_text, sizeof why_text);
    return fy_store_put(store, out, text, strlen(text), &why);
}

/* The path of a content in the store, or of a file in it. */
static const char *
path_of(const unsigned char *hash, const char *name)
{
    static char path[400];
    int n = snprintf(path, sizeof path, "%s/.cache/ferry/store/%s", home,
                     name ? name : "");
    for (size_t i = 0; hash && i < 32; i++) {
        n += snprintf(path + n, sizeof path - (size_t)n, "%02x", hash[i]);
    }
    return path;
}

START_TEST(deleted_store_is_made_anew)
{
    unsigned char hash[32], other[32];
    char command[500];
    struct stat about;
    ck_assert_int_eq(put("one", hash), 0);
    snprintf(command, sizeof command, "rm -rf %s/.cache", home);
    ck_assert_int_eq(system(command), 0);
    ck_assert(!fy_store_has(store, hash));
    ck_assert_int_eq(put("two", other), 0);
    ck_assert_int_eq(put("one", hash), 0);
    ck_assert(fy_store_has(store, hash));
    ck_assert_int_eq(stat(path_of(other, NULL), &about), 0);
    ck_assert_int_eq(fy_store_show(store, "/usr/bin/x", hash), 0);
}
END_TEST

START_TEST(keeps_what_was_named)
{
    unsigned char hash[32], other[32];
    struct stat about;
    ck_assert_int_eq(put("one", hash), 0);
    ck_assert(fy_store_has(store, hash));
    ck_assert_int_eq(put("one", hash), 0); /* twice is once */
    ck_assert_int_eq(stat(path_of(hash, NULL), &about), 0);
    ck_assert_uint_eq(about.st_mode & 07777, 0500);
    fy_sha256_of("two", 3, other);
    ck_assert(!fy_store_has(store, other));
    ck_assert_int_eq(fy_store_put(store, other, "one", 3, &why),
                     FY_ERR_INVALID);
    ck_assert(!fy_store_has(store, other));
    ck_assert_int_eq(access(path_of(other, NULL), F_OK), -1);
}
END_TEST

/* A clock that was wrong: what seems to be used in the future stays whole, and goes last. */
START_TEST(takes_any_time)
{
    unsigned char hashes[3][32];
    char text[3][400];
    const time_t seconds[] = {4000000000, 0, 1000};
    for (int i = 0; i < 3; i++) {
        const struct timespec times[] = {{seconds[i], 0}, {seconds[i], 0}};
        memset(text[i], 'a' + i, 399);
        text[i][399] = '\0';
        ck_assert_int_eq(put(text[i], hashes[i]), 0);
        ck_assert_int_eq(
            utimensat(AT_FDCWD, path_of(hashes[i], NULL), times, 0), 0);
    }
    ck_assert_int_eq(access(path_of(hashes[0], NULL), F_OK), 0);
    ck_assert_int_eq(access(path_of(hashes[1], NULL), F_OK), -1);
    ck_assert(fy_store_has(store, hashes[2]));
    /* The file of a proxy that writes now, with a time that is no longer or not yet. */
    int fd = open(path_of(NULL, "new-1-7"), O_WRONLY | O_CREAT, 0600);
    const struct timespec later[] = {{4000000000, 0}, {4000000000, 0}};
    ck_assert_int_eq(futimens(fd, later), 0);
    close(fd);
    struct fy_store *other;
    ck_assert_int_eq(fy_store_open(home, 1000, &why, &other), 0);
    ck_assert_int_eq(access(path_of(NULL, "new-1-7"), F_OK), 0);
    fy_store_close(other);
}
END_TEST

/* Another user's file of the name is no content, nor a folder. */
START_TEST(believes_no_other_user)
{
    unsigned char hash[32];
    ck_assert_int_eq(put("one", hash), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(path_of(hash, NULL), 65534, 65534), 0);
        ck_assert(!fy_store_has(store, hash));
        ck_assert_int_eq(fy_store_show(store, "/usr/bin/x", hash),
                         FY_ERR_NOENT);
        ck_assert_int_eq(put("one", hash), 0);
        ck_assert(fy_store_has(store, hash));
    }
    ck_assert_int_eq(unlink(path_of(hash, NULL)), 0);
    ck_assert_int_eq(mkdir(path_of(hash, NULL), 0500), 0);
    ck_assert(!fy_store_has(store, hash));
    ck_assert_int_eq(put("one", hash), FY_ERR_IO);
    ck_assert_int_eq(rmdir(path_of(hash, NULL)), 0);
}
END_TEST

/* A file that was cut off, exchanged for a link or made writable is no content. */
START_TEST(believes_only_its_own_files)
{
    unsigned char hash[32];
    ck_assert_int_eq(put("one", hash), 0);
    ck_assert_int_eq(chmod(path_of(hash, NULL), 0700), 0);
    ck_assert(!fy_store_has(store, hash));
    ck_assert_int_eq(fy_store_show(store, "/usr/bin/x", hash), FY_ERR_NOENT);
    ck_assert_int_eq(unlink(path_of(hash, NULL)), 0);
    ck_assert_int_eq(symlink("/bin/sh", path_of(hash, NULL)), 0);
    ck_assert(!fy_store_has(store, hash));
    ck_assert_int_eq(fy_store_show(store, "/usr/bin/x", hash), FY_ERR_NOENT);
    ck_assert_int_eq(put("one", hash), 0); /* in its place */
    ck_assert(fy_store_has(store, hash));
}
END_TEST

START_TEST(lets_the_oldest_go)
{
    unsigned char hashes[4][32];
    char text[4][300];
    for (int i = 0; i < 3; i++) {
        const struct timespec times[] = {{1000 + i, 0}, {1000 + i, 0}};
        memset(text[i], 'a' + i, 299);
        text[i][299] = '\0';
        ck_assert_int_eq(put(text[i], hashes[i]), 0);
        ck_assert_int_eq(
            utimensat(AT_FDCWD, path_of(hashes[i], NULL), times, 0), 0);
    }
    ck_assert_int_eq(fy_store_show(store, "/usr/bin/b", hashes[1]), 0);
    ck_assert(fy_store_has(store, hashes[0])); /* which uses it */
    memset(text[3], 'z', 299);
    text[3][299] = '\0';
    ck_assert_int_eq(put(text[3], hashes[3]), 0);
    ck_assert(fy_store_has(store, hashes[0]));
    ck_assert(!fy_store_has(store, hashes[1]));
    ck_assert(fy_store_has(store, hashes[2]));
    /* A stage goes on seeing it. */
    char path[400], found[300];
    snprintf(path, sizeof path, "%s/usr/bin/b", fy_store_image(store));
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq(fy_read_whole(fd, found, 299), 0);
    close(fd);
    ck_assert_int_eq(found[0], 'b');
    char large[1001] = "";
    memset(large, 'x', 1000);
    ck_assert_int_eq(put(large, hashes[0]), 0);
    static char larger[1002];
    memset(larger, 'x', 1001);
    ck_assert_int_eq(put(larger, hashes[0]), FY_ERR_OVERFLOW);
    /* With a lower limit only the next file fits. */
    fy_store_limit(store, 300);
    ck_assert_int_eq(put("two", hashes[1]), 0);
    ck_assert(!fy_store_has(store, hashes[0]));
    ck_assert(fy_store_has(store, hashes[1]));
}
END_TEST

START_TEST(refuses_a_folder_of_others)
{
    struct fy_store *other;
    char folder[200];
    snprintf(folder, sizeof folder, "%s/.cache/ferry", home);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    fy_buffer_start(&why, why_text, sizeof why_text);
    ck_assert_int_eq(fy_store_open(home, 1000, &why, &other),
                     FY_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(why_text, "can be changed"), "%s", why_text);
    ck_assert_int_eq(chmod(folder, 0700), 0);
    fy_buffer_start(&why, why_text, sizeof why_text);
    ck_assert_int_ne(fy_store_open("", 1000, &why, &other), 0);
    ck_assert_int_ne(fy_store_open("/proc/none", 1000, &why, &other), 0);
}
END_TEST

START_TEST(shows_files_at_their_paths)
{
    static const char *const bad[] = {
        "/",         "usr/bin/x",  "/usr//x",   "/usr/../x", "/usr/./x",
        "/usr/x/",   "/proc/x",    "/dev/x",    "/sys/x",    "/tmp/x",
        "/var/tmp/", "/var/tmp/x", "/usr/x/..", ""};
    unsigned char one[32], two[32];
    char path[400];
    struct stat about;
    ck_assert_int_eq(put("one", one), 0);
    ck_assert_int_eq(put("two", two), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(fy_store_show(store, bad[i], one) == FY_ERR_INVALID, "%s",
                      bad[i]);
    }
    ck_assert_int_eq(fy_store_show(store, "/usr/bin/x", one), 0);
    ck_assert_int_eq(fy_store_show(store, "/usr/bin/x", one), 0);
    ck_assert_int_eq(fy_store_show(store, "/usr/bin/x", two), FY_ERR_BUSY);
    ck_assert_int_eq(fy_store_show(store, "/usr/bin/x/y", two), FY_ERR_IO);
    ck_assert_int_eq(fy_store_make_point(store, "/mnt/data"), 0);
    ck_assert_int_eq(fy_store_make_point(store, "/usr/bin/x"), 0);
    const char *image = fy_store_image(store);
    snprintf(path, sizeof path, "%s/mnt/data", image);
    ck_assert_int_eq(stat(path, &about), 0);
    ck_assert(S_ISDIR(about.st_mode));
    char kept[400];
    snprintf(kept, sizeof kept, "%s", image);
    fy_store_close(store);
    ck_assert_int_eq(access(kept, F_OK), -1);
    /* One that a killed proxy has left goes, one that is in use stays. */
    ck_assert_int_eq(fy_store_open(home, 1000, &why, &store), 0);
    snprintf(kept, sizeof kept, "%s", fy_store_image(store));
    ck_assert_int_eq(mkdir(path_of(NULL, "image-1-7"), 0755), 0);
    struct fy_store *other;
    ck_assert_int_eq(fy_store_open(home, 1000, &why, &other), 0);
    ck_assert_int_eq(access(path_of(NULL, "image-1-7"), F_OK), -1);
    ck_assert_int_eq(access(kept, F_OK), 0);
    fy_store_close(other);
}
END_TEST

/* ---- closures ----------------------------------------------------------------------- */

static const struct fy_closure_file *
find(const struct fy_closure *closure, const char *end)
{
    for (unsigned i = 0; i < closure->n; i++) {
        size_t n = strlen(closure->files[i].path), least = strlen(end);
        if (n >= least &&
            strcmp(closure->files[i].path + n - least, end) == 0) {
            return &closure->files[i];
        }
    }
    return NULL;
}

START_TEST(closes_over_libraries)
{
    char path[200], key[2][FY_CLOSURE_KEY_BYTES];
    struct fy_closure *closure = calloc(1, sizeof *closure);
    ck_assert_int_eq(fy_closure_add_program(closure, "/bin/ls", true, &why), 0);
    ck_assert_str_eq(closure->files[0].path, "/bin/ls");
    ck_assert(closure->files[0].executes);
    ck_assert_ptr_nonnull(find(closure, "/libc.so.6"));
    ck_assert_ptr_nonnull(find(closure, "/ld-linux-x86-64.so.2"));
    ck_assert_uint_ge(closure->kernel, 0x20600); /* of libc */
    ck_assert_uint_lt(closure->kernel, 0x70000);
    unsigned n = closure->n;
    fy_closure_key(closure, key[0]);
    ck_assert_int_eq(fy_closure_add_program(closure, "/bin/ls", true, &why), 0);
    ck_assert_int_eq(fy_closure_add_file(closure, "/no/such"), 0);
    ck_assert_uint_eq(closure->n, n);
    snprintf(path, sizeof path, "%s/data/sub", home);
    char command[900];
    snprintf(command, sizeof command, "mkdir -p %s && echo x >%s/f", path,
             path);
    ck_assert_int_eq(system(command), 0);
    snprintf(path, sizeof path, "%s/data/", home);
    ck_assert_int_eq(fy_closure_add_file(closure, path), 0);
    ck_assert_uint_eq(closure->n, n + 1);
    ck_assert_ptr_nonnull(find(closure, "/data/sub/f"));
    fy_closure_key(closure, key[1]);
    ck_assert_str_ne(key[0], key[1]);
    fy_closure_free(closure);
}
END_TEST

START_TEST(refuses_what_cannot_be_carried)
{
    char path[200], command[900];
    struct fy_closure *closure = calloc(1, sizeof *closure);
    snprintf(path, sizeof path, "%s/script", home);
    snprintf(command, sizeof command,
             "echo '#!/bin/sh' >%s && chmod 755 %s && cp /bin/true %s.set && "
             "chmod 4755 %s.set",
             path, path, path, path);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(fy_closure_add_program(closure, path, true, &why),
                     FY_ERR_UNSUPPORTED);
    strcat(path, ".set");
    ck_assert_int_eq(fy_closure_add_program(closure, path, true, &why),
                     FY_ERR_UNSUPPORTED);
    ck_assert_int_eq(fy_closure_add_program(closure, "/no/such", true, &why),
                     FY_ERR_IO);
    fy_closure_free(closure);
}
END_TEST

/* Proxies of a user that start at once clean each other's images away, if nothing holds
 * them: a folder that is not yet locked. */
START_TEST(has_an_image_beside_a_cleaner)
{
    enum {
        ROUNDS = 400
    };
    pid_t pid = fork();
    while (pid == 0) {
        fy_buffer_start(&why, why_text, sizeof why_text);
        fy_store_close(store);
        if (fy_store_open(home, 1000, &why, &store)) {
            _exit(1);
        }
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct fy_store *other;
        ck_assert_int_eq(fy_store_open(home, 1000, &why, &other), 0);
        const char *image = fy_store_image(other);
        ck_assert_ptr_nonnull(image);
        ck_assert_int_eq(access(image, X_OK), 0);
        fy_store_close(other);
    }
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("store");
    TCase *tests = tcase_create("store");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, keeps_what_was_named);
    tcase_add_test(tests, deleted_store_is_made_anew);
    tcase_add_test(tests, believes_only_its_own_files);
    tcase_add_test(tests, takes_any_time);
    tcase_add_test(tests, believes_no_other_user);
    tcase_add_test(tests, lets_the_oldest_go);
    tcase_add_test(tests, refuses_a_folder_of_others);
    tcase_add_test(tests, shows_files_at_their_paths);
    tcase_add_test(tests, has_an_image_beside_a_cleaner);
    tcase_add_test(tests, closes_over_libraries);
    tcase_add_test(tests, refuses_what_cannot_be_carried);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
