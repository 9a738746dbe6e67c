/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/storage/tools.c: identities of programs and scripts, hashes of configuration
 * and folders, locales.
 */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/sandbox/sandbox.h"
#include "proxy/storage/tools.h"
#include "tests/unit/runner.h"

static char folder[] = "/tmp/ferry-tools-XXXXXX";

static void
setup(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void
teardown(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static const char *
put(const char *name, const void *bytes, size_t n)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    fclose(file);
    return path;
}

static const char *
put_text(const char *name, const char *text)
{
    return put(name, text, strlen(text));
}

START_TEST(test_programs)
{
    char one[256], two[256];
    ck_assert_int_eq(fy_tool_identity("/bin/cat", one, sizeof one), 0);
    ck_assert_int_eq(strncmp(one, "build-id:", 9), 0);
    ck_assert_uint_eq(strlen(one), 9 + 40 + 11 + 32);
    ck_assert_int_eq(strncmp(one + 49, "/libraries:", 11), 0);
    ck_assert_int_eq(fy_tool_identity("/bin/ls", two, sizeof two), 0);
    ck_assert_str_ne(one, two);
    /* readelf agrees. */
    char line[256] = "";
    FILE *readelf = popen("readelf -n /bin/ls 2>/dev/null | "
                          "sed -n 's/.*Build ID: //p'",
                          "r");
    ck_assert_ptr_nonnull(readelf);
    if (fgets(line, sizeof line, readelf)) {
        line[strcspn(line, "\n")] = '\0';
        ck_assert_int_eq(strncmp(two + 9, line, strlen(line)), 0);
    }
    pclose(readelf);
    ck_assert_int_eq(fy_tool_identity("/bin/cat", two, 10), FY_ERR_OVERFLOW);
    ck_assert_int_eq(fy_tool_identity("/bin/cat", two, sizeof two), 0);
    ck_assert_str_eq(one, two); /* from the cache */
    ck_assert_int_eq(fy_tool_identity("/no/such", two, sizeof two), FY_ERR_IO);
    ck_assert_int_ne(fy_tool_identity("/tmp", two, sizeof two), 0);
    ck_assert_int_ne(fy_tool_identity("/dev/null", two, sizeof two), 0);
}
END_TEST

/* What the linker would load counts, and only that. */
START_TEST(test_search_path)
{
    char plain[256], with[256], command[512], path[160];
    ck_assert_int_eq(fy_tool_identity("/bin/cat", plain, sizeof plain), 0);
    ck_assert_int_eq(
        fy_tool_identity_with("/bin/cat", folder, false, with, sizeof with), 0);
    ck_assert_str_eq(plain, with);
    snprintf(path, sizeof path, "/no/such:%s:/usr", folder);
    ck_assert_int_eq(
        fy_tool_identity_with("/bin/cat", path, false, with, sizeof with), 0);
    ck_assert_str_eq(plain, with);
    /* The same build-id, other bytes; in a folder that was asked just now. */
    snprintf(command, sizeof command,
             "cp \"$(ldd /bin/cat | sed -n 's/.*libc.so.6 => \\([^ ]*\\).*/"
             "\\1/p')\" %s/libc.so.6 && printf x >> %s/libc.so.6",
             folder, folder);
    ck_assert_int_eq(system(command), 0);
    for (int i = 0; i < 2; i++) { /* the second from the cache, if at all */
        ck_assert_int_eq(
            fy_tool_identity_with("/bin/cat", folder, false, with, sizeof with),
            0);
        ck_assert_str_ne(plain, with);
    }
    ck_assert_int_eq(fy_tool_identity("/bin/cat", with, sizeof with), 0);
    ck_assert_str_eq(plain, with);
    snprintf(path, sizeof path, "%s/libc.so.6", folder);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(
        fy_tool_identity_with("/bin/cat", folder, false, with, sizeof with), 0);
    ck_assert_str_eq(plain, with);
    /* What is not even a library ends the linker, as it would the program. */
    put_text("libc.so.6", "nothing of the kind");
    ck_assert_int_ne(
        fy_tool_identity_with("/bin/cat", folder, false, with, sizeof with), 0);
}
END_TEST

/* A program that loads libraries by names may find others on a search path; one that
 * names them by absolute paths, as its annotation says, may not. */
START_TEST(test_loads_paths)
{
    char with[256], command[512], path[160];
    put_text("load.c", "#include <dlfcn.h>\n"
                       "int main(void) { return !dlopen(\"x\", RTLD_NOW); }\n");
    snprintf(path, sizeof path, "%s/load", folder);
    snprintf(command, sizeof command, "cc -o %s %s.c -ldl", path, path);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(
        fy_tool_identity_with(path, folder, false, with, sizeof with),
        FY_ERR_UNSUPPORTED);
    ck_assert_int_eq(
        fy_tool_identity_with(path, folder, true, with, sizeof with), 0);
}
END_TEST

START_TEST(test_loaders_variables)
{
    static const char *const bad[] = {"LD_PRELOAD=x", "LD_AUDIT=x",
                                      "LD_DEBUG=all", "LD_NEW_THING=1",
                                      "GCONV_PATH=/x"};
    static const char *const good[] = {
        "LD_PRELOAD=", "LD_LIBRARY_PATH=/x", "LD_RUN_PATH=/x",
        "LD=gold",     "LDFLAGS=-s",         "LD_LIBRARY_PATH_modshare=/x:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(fy_loads_code(bad[i]), "%s", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(!fy_loads_code(good[i]), "%s", good[i]);
    }
}
END_TEST

START_TEST(test_changed)
{
    char one[256], two[256];
    const char *path = put_text("x", "aaaa");
    ck_assert_int_eq(fy_tool_identity(path, one, sizeof one), 0);
    ck_assert_str_eq(one,
                     "sha256:61be55a8e2f6b4e172338bddf184d6dbee29c98853e0a0"
                     "485ecee7f27b9af0b4");
    path = put_text("x", "bbbb"); /* same size, perhaps the same time */
    ck_assert_int_eq(fy_tool_identity(path, two, sizeof two), 0);
    ck_assert_str_ne(one, two);
}
END_TEST

START_TEST(test_scripts)
{
    char one[512], shell[256];
    ck_assert_int_eq(fy_tool_identity("/bin/sh", shell, sizeof shell), 0);
    ck_assert_int_eq(
        fy_tool_identity(put_text("s", "#! /bin/sh -e\n"), one, sizeof one), 0);
    ck_assert_ptr_nonnull(strchr(one, '+'));
    ck_assert_str_eq(strchr(one, '+') + 1, shell);
    static const char *const bad[] = {"#!/usr/bin/env python3\n", "#!sh\n",
                                      "#!\n", "#!/no/such/thing\n",
                                      "#!/bin/sh"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(
            fy_tool_identity(put_text("s", bad[i]), one, sizeof one) != 0, "%s",
            bad[i]);
    }
    /* Its own interpreter. */
    char text[160];
    snprintf(text, sizeof text, "#!%s/s\n", folder);
    ck_assert_int_ne(fy_tool_identity(put_text("s", text), one, sizeof one), 0);
}
END_TEST

START_TEST(test_damaged_programs)
{
    static unsigned char bytes[1 << 16];
    FILE *file = fopen("/bin/cat", "r");
    ck_assert_ptr_nonnull(file);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    ck_assert_uint_gt(n, 1000);
    /* Any byte of the head and of the notes may be anything. */
    unsigned seed = 12345;
    for (unsigned i = 0; i < 400; i++) {
        unsigned char saved[8];
        size_t at[8];
        for (unsigned j = 0; j < 8; j++) {
            seed = seed * 1103515245 + 12345;
            at[j] = (seed >> 8) % 1200;
            saved[j] = bytes[at[j]];
            bytes[at[j]] = (unsigned char)(seed >> 20);
        }
        char one[256];
        seed = seed * 1103515245 + 12345;
        size_t cut = i % 3 ? n : (seed >> 8) % n + 1;
        (void)(fy_tool_identity(put("d", bytes, cut), one, sizeof one) == 0);
        for (unsigned j = 8; j-- > 0;) {
            bytes[at[j]] = saved[j];
        }
    }
}
END_TEST

START_TEST(test_configs)
{
    static const unsigned char none[32];
    static const unsigned char empty[4] = {0xe3, 0xb0, 0xc4, 0x42};
    unsigned char one[32], two[32];
    memset(one, 7, sizeof one);
    ck_assert_int_eq(fy_config_hash("/no/such/file", one), 0);
    ck_assert_mem_eq(one, none, 32);
    ck_assert_int_eq(fy_config_hash("/etc/passwd/x", one), 0);
    ck_assert_mem_eq(one, none, 32);
    ck_assert_int_eq(fy_config_hash(put_text("c", ""), one), 0);
    ck_assert_mem_eq(one, empty, 4);
    static char large[(1 << 20) + 1];
    ck_assert_int_eq(fy_config_hash(put("c", large, 1 << 20), one), 0);
    ck_assert_int_eq(fy_config_hash(put("c", large, sizeof large), one), 0);
    ck_assert_int_eq(fy_config_hash(put("d", large, sizeof large), two), 0);
    ck_assert_mem_eq(one, two, 32);
    large[sizeof large - 1] = 1;
    const char *path = put("d", large, sizeof large);
    ck_assert_int_eq(fy_config_hash(path, two), 0);
    ck_assert_mem_ne(one, two, 32);
    memcpy(one, two, 32);
    ck_assert_int_eq(truncate(path, (16 << 20) + 1), 0);
    ck_assert_int_eq(fy_config_hash(path, two), FY_ERR_OVERFLOW);
    ck_assert_mem_eq(one, two, 32);
    /* A large one that is not new is remembered, and its copy is not. */
    static const char old[] = "/usr/lib/x86_64-linux-gnu/libc.a";
    char command[256];
    snprintf(command, sizeof command, "cp %s %s", old, path);
    if (system(command) == 0) {
        ck_assert_int_eq(fy_config_hash(old, one), 0);
        ck_assert_int_eq(fy_config_hash(old, two), 0);
        ck_assert_mem_eq(one, two, 32);
        ck_assert_int_eq(fy_config_hash(path, two), 0);
        ck_assert_mem_eq(one, two, 32);
    }
    ck_assert_int_eq(fy_config_hash("/dev/null", one), FY_ERR_IO);
}
END_TEST

START_TEST(test_folders)
{
    unsigned char one[32], two[32];
    char a[64], b[64], command[512];
    snprintf(a, sizeof a, "%s/a", folder);
    snprintf(b, sizeof b, "%s/b", folder);
    /* Made in another order, by other inodes. */
    snprintf(command, sizeof command,
             "cd %s && mkdir a b && touch a/x a/y b/y b/x && mkdir a/z b/z && "
             "touch -d @1000 a b",
             folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(fy_config_hash(a, one), 0);
    ck_assert_int_eq(fy_config_hash(b, two), 0);
    ck_assert_mem_eq(one, two, 32);
    static const char *const changes[] = {
        "touch -d @1001 b",
        "touch b/w; touch -d @1000 b",
        "rm b/w; rmdir b/z; touch b/z; touch -d @1000 b",
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        snprintf(command, sizeof command, "cd %s && %s", folder, changes[i]);
        ck_assert_int_eq(system(command), 0);
        ck_assert_int_eq(fy_config_hash(b, two), 0);
        ck_assert_mem_ne(one, two, 32);
    }
}
END_TEST

START_TEST(test_locales)
{
    char text[256];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    static const char *const good[][3] = {
        {NULL},
        {"LANG=C", NULL},
        {"LC_ALL=POSIX", "LANG=xx_XX", NULL},
        {"LC_ALL=", "LANG=C.UTF-8", NULL},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(fy_locales_fit(good[i], true, &why), "%zu: %s", i, text);
    }
    static const char *const bad[][3] = {
        {"LANG=xx_XX.UTF-8", NULL},         {"LANG=C", "LC_TIME=xx_XX", NULL},
        {"LANG=C", "LC_PAPER=xx_XX", NULL}, {"LC_ALL=../../etc", NULL},
        {"LOCPATH=/tmp", "LANG=C", NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_buffer_start(&why, text, sizeof text);
        ck_assert_msg(!fy_locales_fit(bad[i], false, &why), "%zu", i);
        ck_assert_uint_gt(why.used, 0);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("tools");
    TCase *tests = tcase_create("tools");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_programs);
    tcase_add_test(tests, test_search_path);
    tcase_add_test(tests, test_loads_paths);
    tcase_add_test(tests, test_loaders_variables);
    tcase_add_test(tests, test_changed);
    tcase_add_test(tests, test_scripts);
    tcase_add_test(tests, test_damaged_programs);
    tcase_add_test(tests, test_configs);
    tcase_add_test(tests, test_folders);
    tcase_add_test(tests, test_locales);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
