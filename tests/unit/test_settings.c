/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/: the settings table, its text form, sizes and bounded buffers.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/settings.h"
#include "tests/unit/runner.h"

START_TEST(test_sizes)
{
    static const struct {
        const char *text;
        int status;
        uint64_t bytes;
    } rows[] = {
        {"0", 0, 0},
        {"4096", 0, 4096},
        {"4096B", 0, 4096},
        {"512k", 0, 512 << 10},
        {"64MiB", 0, 64 << 20},
        {"64M", 0, 64 << 20},
        {"64MB", 0, 64000000},
        {"1GiB", 0, 1 << 30},
        {"2T", 0, UINT64_C(2) << 40},
        {"9223372036854775807", 0, INT64_MAX},
        {"9223372036854775808", FY_ERR_OVERFLOW, 0},
        {"99999999999999999999999", FY_ERR_OVERFLOW, 0},
        {"8388608TiB", FY_ERR_OVERFLOW, 0},
        {"", FY_ERR_INVALID, 0},
        {"MiB", FY_ERR_INVALID, 0},
        {"-1", FY_ERR_INVALID, 0},
        {"+1", FY_ERR_INVALID, 0},
        {" 1", FY_ERR_INVALID, 0},
        {"1 ", FY_ERR_INVALID, 0},
        {"1 MiB", FY_ERR_INVALID, 0},
        {"64mib", FY_ERR_INVALID, 0},
        {"1.5GiB", FY_ERR_INVALID, 0},
        {"0x10", FY_ERR_INVALID, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t bytes = 77;
        errno = 5;
        ck_assert_msg(fy_parse_size(rows[i].text, &bytes) == rows[i].status,
                      "%s", rows[i].text);
        ck_assert_msg(bytes == (rows[i].status ? 77 : rows[i].bytes), "%s",
                      rows[i].text);
        ck_assert_int_eq(errno, 5);
    }
}
END_TEST

START_TEST(test_defaults_match_table)
{
    struct fy_settings built, parsed;
    fy_settings_init(&built);
    memset(&parsed, 0, sizeof parsed);
    size_t count;
    const struct fy_setting *rows = fy_settings_table(&count);
    ck_assert_uint_gt(count, 5);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(fy_settings_set(&parsed, rows[i].flags, rows[i].name,
                                         rows[i].initial, NULL),
                         0);
        ck_assert_uint_gt(strlen(rows[i].help), 10);
    }
    ck_assert_mem_eq(&built, &parsed, sizeof built);
}
END_TEST

START_TEST(test_round_trip)
{
    struct fy_settings in, out;
    fy_settings_init(&in);
    in.mode = FY_MODE_FORCE_COUNT;
    strcpy(in.device, "host");
    in.memory_bytes = 64 << 20;
    in.force = true;
    in.chunk_random = true;
    in.chunk_seed = UINT64_MAX;
    in.check_rate = 0.015625;
    in.check_seed = 7;
    strcpy(in.explain, "/tmp/a;b%c=d%3B");
    strcpy(in.record, "/dev/shm/x");
    memset(in.engine, ';', FY_SETTINGS_PATH_BYTES - 1);
    memset(in.verify, '%', FY_SETTINGS_PATH_BYTES - 1);
    char *text = malloc(FY_SETTINGS_TEXT_BYTES);
    ck_assert_int_eq(fy_settings_encode(&in, text, FY_SETTINGS_TEXT_BYTES), 0);
    ck_assert_int_eq(fy_settings_decode(text, &out, NULL), 0);
    ck_assert_mem_eq(&in, &out, sizeof in);
    ck_assert_int_eq(fy_settings_encode(&in, text, 100), FY_ERR_NOFIT);
    free(text);
}
END_TEST

START_TEST(test_encode_is_short)
{
    struct fy_settings settings;
    char text[64];
    fy_settings_init(&settings);
    ck_assert_int_eq(fy_settings_encode(&settings, text, sizeof text), 0);
    ck_assert_str_eq(text, "");
    settings.mode = FY_MODE_FORCE;
    settings.memory_bytes = 4096;
    ck_assert_int_eq(fy_settings_encode(&settings, text, sizeof text), 0);
    ck_assert_str_eq(text, "mode=2;memory=4096");
}
END_TEST

START_TEST(test_decode_bad)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"mode=9", "mode: expected a number from 0 to 4"},
        {"mode", "an item has no '='"},
        {"device=tpu", "device: expected auto, none, host, cuda or cuda:N"},
        {"memory=lots",
         "memory: expected a size such as 64MiB, 1GiB, 512k or 4096"},
        {"memory=99999999999999999999", "memory: the size is too large"},
        {"force=maybe", "force: expected yes or no"},
        {"chunk=random:", "chunk: the seed after random: must be a number"},
        {"check=1.5", "check: expected a number from 0 to 1, such as 0.01"},
        {"check=.5:x", "check: the seed after the colon must be a number"},
        {"chunk=randomly", "chunk: expected planned, random or random:SEED"},
        {"engine=%", "engine: a malformed or too long value"},
        {"engine=%3", "engine: a malformed or too long value"},
        {"engine=%2F", "engine: a malformed or too long value"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_settings out;
        char text[256], message[256];
        struct fy_buffer why;
        strcpy(text, rows[i].text);
        strcat(text, ";force=yes");
        fy_buffer_start(&why, message, sizeof message);
        ck_assert_int_eq(fy_settings_decode(text, &out, &why), FY_ERR_INVALID);
        ck_assert_str_eq(message, rows[i].why);
        ck_assert(out.force);
        ck_assert_int_eq(out.mode, FY_MODE_NEVER);
        ck_assert_str_eq(out.device, "auto");
    }
}
END_TEST

START_TEST(test_decode_lenient)
{
    struct fy_settings out;
    ck_assert_int_eq(fy_settings_decode(NULL, &out, NULL), 0);
    ck_assert_int_eq(out.mode, FY_MODE_NEVER);
    ck_assert_int_eq(
        fy_settings_decode(";;colour=red;mode=3;annotations=x;", &out, NULL),
        0);
    ck_assert_int_eq(out.mode, FY_MODE_ASK_COUNT);
    ck_assert_str_eq(out.annotations, "");
}
END_TEST

START_TEST(test_origin)
{
    struct fy_settings settings;
    fy_settings_init(&settings);
    ck_assert_int_eq(
        fy_settings_set(&settings, FY_SETTING_USER, "mode", "2", NULL),
        FY_ERR_NOENT);
    ck_assert_int_eq(
        fy_settings_set(&settings, FY_SETTING_USER, "device", "none", NULL), 0);
    ck_assert_str_eq(settings.device, "none");
    char path[FY_SETTINGS_PATH_BYTES + 1];
    memset(path, 'a', sizeof path);
    path[FY_SETTINGS_PATH_BYTES] = '\0';
    ck_assert_int_eq(
        fy_settings_set(&settings, FY_SETTING_USER, "annotations", path, NULL),
        FY_ERR_INVALID);
}
END_TEST

/* A setting of hosts: the last line of the host, else the last one for all. */
START_TEST(test_hosts)
{
    static const char *const bad_tools[] = {"carried", "car", "hosts nas", " ",
                                            "nas carry"};
    static const char *const bad_sizes[] = {"nas", "1.5G", "-1 nas", " 1G"};
    struct fy_settings *settings = malloc(sizeof *settings);
    char message[100], *tools = settings->tools, *store = settings->store;
    struct fy_buffer why;
    fy_settings_init(settings);
    ck_assert_int_eq(fy_tools_setting(tools, "nas"), FY_TOOLS_CARRY);
    ck_assert_uint_eq(fy_store_setting(store, "nas"), 512 << 20);
    static const char *const lines[][2] = {{"tools", "host nas  box\tother"},
                                           {"tools", "same"},
                                           {"tools", "carry box"},
                                           {"store", "1GiB nas"},
                                           {"store", "64M"},
                                           {"store", "0 box"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        ck_assert_int_eq(fy_settings_set(settings, FY_SETTING_USER, lines[i][0],
                                         lines[i][1], NULL),
                         0);
    }
    ck_assert_int_eq(fy_tools_setting(tools, "nas"), FY_TOOLS_HOST);
    ck_assert_int_eq(fy_tools_setting(tools, "other"), FY_TOOLS_HOST);
    ck_assert_int_eq(fy_tools_setting(tools, "box"), FY_TOOLS_CARRY);
    ck_assert_int_eq(fy_tools_setting(tools, "na"), FY_TOOLS_SAME);
    ck_assert_int_eq(fy_tools_setting(tools, "nas2"), FY_TOOLS_SAME);
    ck_assert_int_eq(fy_tools_setting(tools, ""), FY_TOOLS_SAME);
    ck_assert_uint_eq(fy_store_setting(store, "nas"), 1 << 30);
    ck_assert_uint_eq(fy_store_setting(store, "box"), 0);
    ck_assert_uint_eq(fy_store_setting(store, "else"), 64 << 20);
    for (size_t i = 0; i < sizeof bad_tools / sizeof *bad_tools; i++) {
        fy_buffer_start(&why, message, sizeof message);
        ck_assert_msg(fy_settings_set(settings, FY_SETTING_USER, "tools",
                                      bad_tools[i], &why) == FY_ERR_INVALID,
                      "%s", bad_tools[i]);
        ck_assert_str_eq(message,
                         "expected carry, same or host, and perhaps hosts");
    }
    for (size_t i = 0; i < sizeof bad_sizes / sizeof *bad_sizes; i++) {
        ck_assert_msg(fy_settings_set(settings, FY_SETTING_USER, "store",
                                      bad_sizes[i], NULL) == FY_ERR_INVALID,
                      "%s", bad_sizes[i]);
    }
    char many[FY_SETTINGS_HOSTS_BYTES + 10] = "same ";
    memset(many + 5, 'n', FY_SETTINGS_HOSTS_BYTES);
    ck_assert_int_eq(
        fy_settings_set(settings, FY_SETTING_USER, "tools", many, NULL),
        FY_ERR_INVALID);
    ck_assert_int_eq(fy_tools_setting(tools, "nas"), FY_TOOLS_HOST);
    free(settings);
}
END_TEST

START_TEST(test_buffer_bounds)
{
    char text[8];
    struct fy_buffer buffer;
    memset(text, 'x', sizeof text);
    fy_buffer_start(&buffer, text, 7);
    fy_buffer_add(&buffer, "abc");
    fy_buffer_add_number(&buffer, 0);
    ck_assert(!buffer.overflowed);
    fy_buffer_add_number(&buffer, UINT64_MAX);
    ck_assert(buffer.overflowed);
    ck_assert_str_eq(text, "abc018");
    ck_assert_int_eq(text[7], 'x');
    fy_buffer_add(NULL, "nothing happens");
}
END_TEST

START_TEST(test_words)
{
    ck_assert_str_eq(fy_reason_word(FY_REASON_NONE), "none");
    ck_assert_str_eq(fy_reason_word(FY_REASON_INTEGER_WIDTH), "integer-width");
    ck_assert_str_eq(fy_reason_word(FY_REASON_COUNT), "unknown");
    ck_assert_str_eq(fy_status_text(FY_ERR_NOFIT),
                     "does not fit the device's memory");
    ck_assert_str_eq(fy_status_text(-1000), "unknown error");
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("common");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, test_sizes);
    tcase_add_test(tests, test_defaults_match_table);
    tcase_add_test(tests, test_round_trip);
    tcase_add_test(tests, test_encode_is_short);
    tcase_add_test(tests, test_decode_bad);
    tcase_add_test(tests, test_decode_lenient);
    tcase_add_test(tests, test_origin);
    tcase_add_test(tests, test_hosts);
    tcase_add_test(tests, test_buffer_bounds);
    tcase_add_test(tests, test_words);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
