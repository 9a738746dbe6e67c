/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim/: the two readers of ELF files, doctor's and the generator's, on files
 * with random damage: any answer, but no crash and nothing read outside (the
 * sanitizer builds look). And what the generator promises about its output.
 */
#include "config.h"

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim/image/names.h"
#include "shim/image/reach.h"
#include "tests/unit/random.h"
#include "tests/unit/runner.h"

enum {
    SECONDS = 2, /* for each reader */
};

static char folder[] = "/tmp/ferry-elf-XXXXXX";
static char damaged[64], made[64];

static void
start(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(damaged, sizeof damaged, "%s/damaged", folder);
    snprintf(made, sizeof made, "%s/made", folder);
}

static void
end(void)
{
    unlink(damaged);
    unlink(made);
    rmdir(folder);
}

static char *
read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*bytes);
    ck_assert_uint_eq(fread(text, 1, *bytes, file), *bytes);
    fclose(file);
    return text;
}

static void
write_whole(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

/* Changes a few bytes, most of them where the structure is, or cuts the end. */
static size_t
damage(char *text, size_t bytes)
{
    static const uint64_t values[] = {
        0,       1, 7, 0xff, 0x7fffffff, 0xffffffff, UINT64_MAX, UINT64_MAX / 2,
        1u << 20};
    const Elf64_Ehdr *header = (const void *)text;
    size_t changes = 1 + random_bits() % 4, dynamic = 64;
    const Elf64_Phdr *segments = (const void *)(text + 64);
    for (unsigned i = 0; i < 12 && header->e_phoff == 64; i++) {
        if (segments[i].p_type == PT_DYNAMIC &&
            segments[i].p_offset < bytes - 1024) {
            dynamic = segments[i].p_offset;
        }
    }
    while (changes--) {
        size_t width = (size_t)1 << random_bits() % 4, at;
        uint64_t value =
            values[random_bits() % (sizeof values / sizeof values[0])];
        switch (random_bits() % 4) {
        case 0:
            at = random_bits() % 64;
            break;
        case 1:
            at = 64 + random_bits() % 640;
            break;
        case 2:
            at = dynamic + random_bits() % 512;
            break;
        default:
            at = random_bits() % (bytes < 8192 ? bytes : 8192);
            break;
        }
        if (at + width <= bytes) {
            memcpy(text + at, &value, width);
        }
    }
    return random_bits() % 8 ? bytes : random_bits() % bytes;
}

static void
nothing(void *closure, const struct fy_reach_finding *finding)
{
    char text[4096];
    struct fy_buffer to;
    fy_buffer_start(&to, text, sizeof text);
    fy_reach_describe(finding, &to);
    (*(unsigned *)closure)++;
}

/* A model of one name, enough for both. */
static struct {
    struct fy_model model;
    struct fy_symbol symbols[1];
    struct fy_function functions[1];
    char strings[16];
} m = {
    .model = {.magic = "ferryMDL",
              .version = FY_MODEL_VERSION,
              .size_bytes = sizeof m},
    .symbols = {{.name = 1}},
    .functions = {{.worth = FY_NIL, .next_variant = FY_NIL}},
    .strings = "\0dgemm_",
};

static void
start_model(void)
{
#define TABLE(name)                                                \
    m.model.name.offset = (uint32_t)((char *)m.name - (char *)&m); \
    m.model.name.count = sizeof m.name / sizeof m.name[0]
    TABLE(symbols);
    TABLE(functions);
    TABLE(strings);
#undef TABLE
}

static char *
library(size_t *bytes)
{
    char path[4096];
    const char *build = getenv("FERRY_BUILDDIR");
    snprintf(path, sizeof path, "%s/.libs/libferry.so", build ? build : ".");
    return read_whole(path, bytes);
}

START_TEST(test_reach_damaged)
{
    size_t bytes = 0;
    unsigned findings = 0, rounds = 0;
    char *whole = read_whole("/proc/self/exe", &bytes);
    char *copy = malloc(bytes + 1);
    start_model();
    if (bytes > 1 << 20) {
        bytes = 1 << 20; /* of a sanitized build: the rest is far behind */
    }
    for (time_t until = time(NULL) + SECONDS; time(NULL) < until; rounds++) {
        memcpy(copy, whole, bytes);
        size_t kept = rounds ? damage(copy, bytes) : bytes;
        write_whole(damaged, copy, kept);
        int status = fy_reach_scan(damaged, &m.model, nothing, &findings, NULL);
        ck_assert_int_le(status, 0);
    }
    ck_assert_uint_gt(rounds, 50);
    free(whole);
    free(copy);
}
END_TEST

START_TEST(test_build_damaged)
{
    size_t bytes;
    unsigned made_some = 0, rounds = 0;
    char *whole = library(&bytes);
    ck_assert_ptr_nonnull(whole);
    char *copy = malloc(bytes);
    start_model();
    for (time_t until = time(NULL) + SECONDS; time(NULL) < until; rounds++) {
        memcpy(copy, whole, bytes);
        size_t kept = rounds ? damage(copy, bytes) : bytes;
        write_whole(damaged, copy, kept);
        unlink(made);
        int status = fy_preload_build(damaged, &m.model, made, NULL, NULL);
        ck_assert_int_le(status, 0);
        ck_assert(status == 0 || access(made, F_OK) != 0);
        made_some += status == 0;
        ck_assert(rounds > 0 || status == 0);
    }
    ck_assert_uint_gt(rounds, 50);
    ck_assert_uint_lt(made_some, rounds);
    free(whole);
    free(copy);
}
END_TEST

START_TEST(test_build_output)
{
    char path[4096], text[200];
    size_t first_bytes = 0, second_bytes = 0;
    struct fy_preload_summary summary;
    struct fy_buffer why;
    struct stat status;
    const char *build = getenv("FERRY_BUILDDIR");
    snprintf(path, sizeof path, "%s/.libs/libferry.so", build ? build : ".");
    start_model();
    fy_buffer_start(&why, text, sizeof text);
    ck_assert_int_eq(fy_preload_build(path, &m.model, made, &summary, &why), 0);
    ck_assert_uint_eq(summary.names, 1);
    ck_assert_uint_eq(summary.skipped, 0);
    ck_assert_int_eq(stat(made, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0644);
    ck_assert_uint_eq((uint64_t)status.st_size, summary.bytes);
    char *first = read_whole(made, &first_bytes);
    ck_assert_int_eq(fy_preload_build(path, &m.model, made, NULL, NULL), 0);
    char *second = read_whole(made, &second_bytes);
    ck_assert_uint_eq(first_bytes, second_bytes);
    ck_assert_mem_eq(first, second, first_bytes);
    /* Not from its own output, nor from something else, nor to nowhere. */
    ck_assert_int_eq(fy_preload_build(made, &m.model, damaged, NULL, &why),
                     FY_ERR_INVALID);
    ck_assert_int_eq(fy_preload_build("/bin/sh", &m.model, damaged, NULL, NULL),
                     FY_ERR_INVALID);
    ck_assert_int_eq(
        fy_preload_build("/nowhere/x", &m.model, damaged, NULL, NULL),
        FY_ERR_IO);
    ck_assert_int_eq(fy_preload_build(path, &m.model, "/nowhere/x", NULL, NULL),
                     FY_ERR_IO);
    ck_assert_int_ne(access(damaged, F_OK), 0);
    free(first);
    free(second);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("elf");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, start, end);
    tcase_add_test(tests, test_reach_damaged);
    tcase_add_test(tests, test_build_damaged);
    tcase_add_test(tests, test_build_output);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
