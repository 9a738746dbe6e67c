/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of `ferry mount': every message of the table goes there and back, none is
 * taken that is cut off, and a spoilt one is refused or says the same again.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proxy/files/message.h"
#include "tests/unit/runner.h"

static const struct fy_files_attr attr = {
    .ino = 0x1122334455667788,
    .size = 1 << 20,
    .blocks = 2048,
    .atime = {-5, 1},
    .mtime = {1700000000, 999999999},
    .ctime = {1, 0},
    .mode = S_IFREG | 0644,
    .nlink = 2,
    .uid = 1000,
    .gid = UINT32_MAX,
    .rdev = 7,
    .blksize = 4096,
};

/* A message of the type in which every field has a value of its own. */
static struct fy_files_message
sample(unsigned type, bool answer)
{
    bool unanswered = !fy_files_type_fields(type, true, NULL);
    return (struct fy_files_message){
        .type = (enum fy_files_type)type,
        .frame_flags = answer ? FY_FILES_ANSWER | FY_FILES_MORE : 0,
        .id = unanswered ? 0 : UINT64_C(1) << 40,
        .node = {.ino = 3, .path = {"a/b", 3}},
        .other = {.kept = 5},
        .name = {"name", 4},
        .other_name = {"other", 5},
        .number = 11,
        .offset = 12,
        .other_offset = 13,
        .length = 14,
        .keep = 15,
        .flags = 16,
        .mode = 17,
        .uid = 18,
        .gid = 19,
        .rdev = 20,
        .mask = 21,
        .atime = {-22, 23},
        .mtime = {24, 25},
        .attr = attr,
        .other_attr = attr,
        .third_attr = attr,
        .data = {"d\0ata", 5},
    };
}

/* Decodes exactly these bytes, in a block of their size. */
static int
decode(const char *bytes, size_t n, struct fy_files_out *again)
{
    char text[128];
    struct fy_buffer why;
    struct fy_files_message message;
    size_t used;
    char *block = malloc(n ? n : 1);
    ck_assert_ptr_nonnull(block);
    memcpy(block, bytes, n);
    fy_buffer_start(&why, text, sizeof text);
    int status = fy_files_decode(block, n, &message, &used, &why);
    again->n = 0;
    if (status == 0) {
        ck_assert_uint_le(used, n);
        ck_assert_int_eq(fy_files_encode(&message, again), 0);
    } else if (status == FY_ERR_BUSY) {
        ck_assert_uint_gt(used, n);
    } else {
        ck_assert_int_eq(status, FY_ERR_INVALID);
        ck_assert_uint_gt(strlen(text), 0);
    }
    free(block);
    return status;
}

START_TEST(every_message_goes_there_and_back)
{
    struct fy_files_out again = {.n = 0};
    unsigned messages = 0;
    for (unsigned i = 0; i < 2 * FY_FILES_TYPES; i++) {
        struct fy_files_message message = sample(i / 2, i % 2);
        struct fy_files_out out = {.n = 0};
        if (!fy_files_type_fields(i / 2, i % 2, NULL)) {
            ck_assert_int_eq(fy_files_encode(&message, &out), FY_ERR_INVALID);
            continue;
        }
        messages++;
        ck_assert_int_eq(fy_files_encode(&message, &out), 0);
        ck_assert_msg(decode(out.bytes, out.n, &again) == 0, "%s",
                      fy_files_type_name(i / 2));
        ck_assert_uint_eq(out.n, again.n);
        ck_assert_int_eq(memcmp(out.bytes, again.bytes, out.n), 0);
        for (size_t n = 0; n < out.n; n++) {
            ck_assert_int_eq(decode(out.bytes, n, &again), FY_ERR_BUSY);
        }
        /* The same with another length in its head: cut off, or left over. */
        for (size_t n = FY_FILES_HEAD_BYTES; n < out.n; n++) {
            size_t body = n - FY_FILES_HEAD_BYTES;
            char *head = out.bytes;
            char before[2] = {head[0], head[1]};
            head[0] = (char)body;
            head[1] = (char)(body >> 8);
            int status = decode(out.bytes, n, &again);
            ck_assert(status == FY_ERR_INVALID ||
                      (again.n == n && memcmp(again.bytes, out.bytes, n) == 0));
            memcpy(head, before, 2);
        }
        fy_files_out_free(&out);
    }
    ck_assert_uint_gt(messages, 50);
    fy_files_out_free(&again);
}
END_TEST

START_TEST(a_spoilt_message_is_refused_or_says_the_same_again)
{
    struct fy_files_out again = {.n = 0};
    for (unsigned i = 0; i < 2 * FY_FILES_TYPES; i++) {
        struct fy_files_message message = sample(i / 2, i % 2);
        struct fy_files_out out = {.n = 0};
        if (fy_files_encode(&message, &out)) {
            continue;
        }
        for (size_t at = 0; at < out.n; at++) {
            static const unsigned char masks[] = {1, 0x80, 0xff, '/' ^ 'a'};
            for (size_t j = 0; j < sizeof masks; j++) {
                out.bytes[at] ^= (char)masks[j];
                if (decode(out.bytes, out.n, &again) == 0) {
                    ck_assert_uint_le(again.n, out.n);
                    ck_assert_int_eq(memcmp(again.bytes, out.bytes, again.n),
                                     0);
                }
                out.bytes[at] ^= (char)masks[j];
            }
        }
        fy_files_out_free(&out);
    }
    fy_files_out_free(&again);
}
END_TEST

START_TEST(names_and_paths_stay_below)
{
    static const char *const bad[] = {"/",  "/a",   "a/",   "a//b", ".",
                                      "..", "a/..", "../a", "a/./b"};
    struct fy_files_out out = {.n = 0}, again = {.n = 0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fy_files_message message = {
            .type = FY_FILES_GETATTR,
            .id = 1,
            .node = {.path = {bad[i], strlen(bad[i])}}};
        out.n = 0;
        ck_assert_int_eq(fy_files_encode(&message, &out), 0);
        ck_assert_msg(decode(out.bytes, out.n, &again) == FY_ERR_INVALID, "%s",
                      bad[i]);
        message = (struct fy_files_message){
            .type = FY_FILES_REMOVE, .id = 1, .name = {bad[i], strlen(bad[i])}};
        out.n = 0;
        ck_assert_int_eq(fy_files_encode(&message, &out), 0);
        ck_assert_msg(decode(out.bytes, out.n, &again) == FY_ERR_INVALID, "%s",
                      bad[i]);
    }
    char *name = malloc(FY_FILES_PATH_BYTES + 1);
    ck_assert_ptr_nonnull(name);
    memset(name, 'x', FY_FILES_PATH_BYTES + 1);
    struct fy_files_message message = {
        .type = FY_FILES_GETATTR,
        .id = 1,
        .node = {.path = {name, FY_FILES_PATH_BYTES + 1}}};
    out.n = 0;
    ck_assert_int_eq(fy_files_encode(&message, &out), FY_ERR_OVERFLOW);
    ck_assert_uint_eq(out.n, 0);
    message.node.path.n = FY_FILES_NAME_BYTES + 1;
    ck_assert_int_eq(fy_files_encode(&message, &out), 0);
    ck_assert_int_eq(decode(out.bytes, out.n, &again), FY_ERR_INVALID);
    free(name);
    fy_files_out_free(&out);
    fy_files_out_free(&again);
}
END_TEST

/* Attributes of every shape behind each other, from a generator. */
START_TEST(entries_go_there_and_back)
{
    enum {
        ROWS = 400
    };
    static struct fy_files_attr sent[ROWS];
    struct fy_files_out out = {.n = 0};
    uint64_t state = 1;
    for (unsigned i = 0; i < ROWS; i++) {
        struct fy_files_attr *at = &sent[i];
        uint64_t draws[8];
        for (unsigned k = 0; k < 8; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            draws[k] =
                i % 3 ? state >> (k * 7 + i % 5) : (uint64_t)k << (i % 60);
        }
        *at = (struct fy_files_attr){.ino = draws[0],
                                     .size = draws[1] >> 1,
                                     .blocks = draws[2],
                                     .mode = (uint32_t)draws[3],
                                     .nlink = (uint32_t)draws[4],
                                     .uid = UINT32_MAX - i % 2,
                                     .rdev = (uint32_t)draws[5],
                                     .blksize = 4096};
        at->mtime.seconds = (int64_t)draws[6] * (i % 2 ? -1 : 1);
        at->mtime.ns = (uint32_t)(draws[7] % 1000000000);
        at->ctime = at->mtime;
        at->atime.ns = i % 4 ? at->mtime.ns : 999999999;
        struct fy_files_entry entry = {.name = {"name", 1 + i % 4},
                                       .attr = *at};
        ck_assert_int_eq(fy_files_entry_put(&entry, &out), 0);
    }
    struct fy_files_bytes data = {out.bytes, out.n};
    struct fy_files_entry entry = {.attr.ino = 0};
    for (unsigned i = 0; i < ROWS; i++) {
        ck_assert(fy_files_entry_take(&data, &entry));
        ck_assert_uint_eq(entry.name.n, 1 + i % 4);
        ck_assert_mem_eq(&entry.attr, &sent[i], sizeof entry.attr);
    }
    ck_assert_uint_eq(data.n, 0);
    /* A number that has no end; a size and a time that cannot be. */
    static const char *const bad[] = {
        "\1\0n\0\0\1\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1",
        "\1\0n\0\0\2\0\1", "\1\0n\0\0\100\0\1"};
    static const size_t lengths[] = {18, 8, 8};
    for (unsigned i = 0; i < 3; i++) {
        entry.attr = (struct fy_files_attr){.ino = 0};
        data = (struct fy_files_bytes){bad[i], lengths[i]};
        ck_assert(!fy_files_entry_take(&data, &entry));
        ck_assert_uint_eq(data.n, lengths[i]);
    }
    fy_files_out_free(&out);
}
END_TEST

START_TEST(rows_go_there_and_back)
{
    const struct fy_files_entry entry = {
        .name = {"n", 1}, .target = {"../t", 4}, .attr = attr};
    const struct fy_files_node node = {.ino = 3, .path = {"a/b", 3}};
    struct fy_files_out out = {.n = 0};
    struct fy_files_node node_back;
    uint64_t number;
    ck_assert_int_eq(fy_files_entry_put(&entry, &out), 0);
    size_t first = out.n;
    ck_assert_int_eq(fy_files_entry_put(&entry, &out), 0);
    for (size_t n = 0; n <= out.n; n++) {
        struct fy_files_bytes data = {out.bytes, n};
        struct fy_files_entry entry_back = {.attr.ino = 0};
        unsigned rows = 0;
        while (fy_files_entry_take(&data, &entry_back)) {
            rows++;
            ck_assert_uint_eq(entry_back.attr.ino, attr.ino);
            ck_assert_uint_eq(entry_back.target.n, 4);
        }
        ck_assert_uint_eq(rows, (n >= first) + (n == out.n));
        ck_assert_uint_eq(data.n, n == out.n ? 0 : n >= first ? n - first : n);
    }
    out.n = 0;
    ck_assert_int_eq(fy_files_node_put(&node, &out), 0);
    struct fy_files_bytes data = {out.bytes, out.n};
    ck_assert(fy_files_node_take(&data, &node_back));
    ck_assert_uint_eq(node_back.path.n, 3);
    data = (struct fy_files_bytes){out.bytes, out.n - 1};
    ck_assert(!fy_files_node_take(&data, &node_back));
    out.n = 0;
    ck_assert_int_eq(fy_files_number_put(UINT64_MAX, &out), 0);
    data = (struct fy_files_bytes){out.bytes, out.n};
    ck_assert(fy_files_number_take(&data, &number));
    ck_assert_uint_eq(number, UINT64_MAX);
    ck_assert(!fy_files_number_take(&data, &number));
    fy_files_out_free(&out);
}
END_TEST

START_TEST(data_that_is_added_is_the_rest_of_the_frame)
{
    struct fy_files_message write = {.type = FY_FILES_WRITE,
                                     .id = 7,
                                     .offset = 5,
                                     .node = {.path = {"f", 1}},
                                     .data = {"one", 3}};
    static char rest[FY_FILES_DATA_BYTES];
    struct fy_files_out frame = {.n = 0};
    struct fy_files_message found;
    size_t n;
    ck_assert_int_eq(fy_files_encode(&write, &frame), 0);
    ck_assert_int_eq(fy_files_data_add(&frame, " two", 4), 0);
    ck_assert_int_eq(fy_files_decode(frame.bytes, frame.n, &found, &n, NULL),
                     0);
    ck_assert_uint_eq(n, frame.n);
    ck_assert_uint_eq(found.offset, 5);
    ck_assert_uint_eq(found.data.n, 7);
    ck_assert_int_eq(memcmp(found.data.at, "one two", 7), 0);
    ck_assert_int_eq(fy_files_data_add(&frame, rest, sizeof rest),
                     FY_ERR_OVERFLOW);
    ck_assert_int_eq(fy_files_data_add(&frame, rest, sizeof rest - frame.n), 0);
    ck_assert_int_eq(fy_files_decode(frame.bytes, frame.n, &found, &n, NULL),
                     0);
    fy_files_out_free(&frame);
}
END_TEST

int
main(void)
{
    Suite *all = suite_create("files_message");
    TCase *tests = tcase_create("messages");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_message_goes_there_and_back);
    tcase_add_test(tests, data_that_is_added_is_the_rest_of_the_frame);
    tcase_add_test(tests, a_spoilt_message_is_refused_or_says_the_same_again);
    tcase_add_test(tests, names_and_paths_stay_below);
    tcase_add_test(tests, entries_go_there_and_back);
    tcase_add_test(tests, rows_go_there_and_back);
    suite_add_tcase(all, tests);
    return run_suite(all);
}
