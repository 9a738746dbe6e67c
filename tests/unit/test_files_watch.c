/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files process tells unasked: changes of watched folders by any process; nothing
 * between a look and its watch is missed; what it cannot tell any more is lost loudly.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/patience.h"
#include "tests/unit/files_client.h"
#include "tests/unit/runner.h"

static struct fy_files_message answer;

static struct {
    unsigned changed, lost, others;
    char name[FY_FILES_NAME_BYTES + 1]; /* of the last one that is no folder */
    uint32_t flags;
    struct fy_files_attr attr;
    uint64_t number;
} told;

static void
on_notice(struct files_client *client, const struct fy_files_message *message)
{
    (void)client;
    told.number = message->number;
    if (message->type == FY_FILES_LOST) {
        told.lost++;
        return;
    }
    ck_assert_int_eq(message->type, FY_FILES_CHANGED);
    told.changed++;
    told.others += (message->flags & FY_FILES_OTHERS) != 0;
    if (message->name.n) {
        memcpy(told.name, message->name.at, message->name.n);
        told.name[message->name.n] = '\0';
        told.flags = message->flags;
        told.attr = message->attr;
    }
}

static int
call(struct fy_files_message request)
{
    return files_call(&files_client, &request, &answer);
}

/* Everything is told now. */
static void
wait_for_notices(void)
{
    files_client.notice = on_notice;
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_BARRIER}),
                     0);
}

/* Likewise; those that came before are forgotten. */
static void
barrier(void)
{
    memset(&told, 0, sizeof told);
    wait_for_notices();
}

/* The number of the folder's watch. */
static uint64_t
watch(const char *folder)
{
    files_client.notice = on_notice;
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_LOOKUP,
                                                    .node = files_node(folder),
                                                    .name = files_text("x")}),
                     0);
    ck_assert_uint_ne(answer.number, 0);
    return answer.number;
}

START_TEST(changes_are_told_before_the_barrier_is_answered)
{
    uint64_t number = watch("");
    files_put("f", "12345");
    barrier();
    ck_assert_uint_eq(told.number, number);
    ck_assert_str_eq(told.name, "f");
    ck_assert_uint_eq(told.flags, FY_FILES_PRESENT | FY_FILES_OTHERS);
    ck_assert_uint_eq(told.attr.size, 5);
    ck_assert_int_eq(chmod(files_place("f"), 0600), 0);
    barrier();
    ck_assert_uint_eq(told.attr.mode, S_IFREG | 0600);
    ck_assert_int_eq(unlink(files_place("f")), 0);
    barrier();
    ck_assert_str_eq(told.name, "f");
    ck_assert_uint_eq(told.flags, 0);
    barrier();
    ck_assert_uint_eq(told.changed, 0);
}
END_TEST

START_TEST(own_writes_are_told_from_those_of_others)
{
    (void)watch("");
    files_put("f", "12345");
    barrier();
    ck_assert_uint_eq(told.flags, FY_FILES_PRESENT | FY_FILES_OTHERS);
    const struct fy_files_message own = {.type = FY_FILES_WRITE,
                                         .node = files_node("f"),
                                         .data = files_text("67890")};
    memset(&told, 0, sizeof told);
    ck_assert_int_eq(call(own), 0);
    wait_for_notices();
    ck_assert_str_eq(told.name, "f");
    ck_assert_uint_eq(told.others, 0);
    ck_assert_int_eq(call(own), 0);
    files_put("f", "abcde");
    ck_assert_int_eq(rename(files_place("f"), files_place("g")), 0);
    wait_for_notices();
    ck_assert_uint_ne(told.others, 0); /* also of the new name */
}
END_TEST

START_TEST(changes_are_told_before_a_lock_is_answered)
{
    (void)watch("");
    for (unsigned i = 0; i < 20; i++) {
        struct fy_files_message lock = {.type = FY_FILES_LOCK,
                                        .node = files_node("f"),
                                        .number = 1,
                                        .mode = F_WRLCK,
                                        .length = INT64_MAX};
        char text[32] = "";
        memset(text, 'x', i + 1);
        files_put("f", text);
        told.changed = 0;
        ck_assert_int_eq(call(lock), 0);
        ck_assert_uint_eq(answer.attr.size, i + 1);
        ck_assert_uint_ne(told.changed, 0);
        ck_assert_uint_eq(told.attr.size, i + 1);
        lock.mode = F_UNLCK;
        ck_assert_int_eq(call(lock), 0);
    }
}
END_TEST

START_TEST(a_folder_that_moves_is_told_under_its_number)
{
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_MAKE,
                                                    .node = files_node(""),
                                                    .name = files_text("d"),
                                                    .mode = S_IFDIR | 0755}),
                     0);
    uint64_t number = answer.number;
    ck_assert_uint_ne(number, 0);
    ck_assert_int_eq(mkdir(files_place("d/e"), 0755), 0);
    uint64_t below = watch("d/e");
    ck_assert_int_eq(
        call((struct fy_files_message){.type = FY_FILES_RENAME,
                                       .node = files_node(""),
                                       .name = files_text("d"),
                                       .other = files_node(""),
                                       .other_name = files_text("g")}),
        0);
    barrier();
    files_put("g/e/f", "1");
    barrier();
    ck_assert_uint_eq(told.lost, 0);
    ck_assert_uint_eq(told.number, below);
    ck_assert_str_eq(told.name, "f");
    /* By another program: its path is not known any more. */
    ck_assert_int_eq(rename(files_place("g"), "/tmp/ferry-files-moved"), 0);
    ck_assert_int_eq(rename("/tmp/ferry-files-moved", files_place("h")), 0);
    barrier();
    files_put("h/e/f", "12");
    barrier();
    ck_assert_uint_eq(told.lost, 1);
    ck_assert_uint_eq(told.number, below);
    ck_assert_uint_eq(watch("h"), number);
}
END_TEST

START_TEST(a_folder_that_is_gone_is_lost)
{
    ck_assert_int_eq(mkdir(files_place("d"), 0755), 0);
    uint64_t number = watch("d");
    ck_assert_int_eq(rmdir(files_place("d")), 0);
    barrier();
    ck_assert_uint_eq(told.lost, 1);
    ck_assert_uint_eq(told.number, number);
}
END_TEST

START_TEST(what_is_forgotten_is_told_no_more)
{
    struct fy_files_out rows = {.n = 0};
    uint64_t number = watch("");
    ck_assert_int_eq(fy_files_number_put(number * 2, &rows), 0);
    struct fy_files_message forget = {.type = FY_FILES_FORGET,
                                      .data = {rows.bytes, rows.n}};
    (void)files_send(&files_client, &forget);
    fy_files_out_free(&rows);
    barrier();
    files_put("f", "");
    barrier();
    ck_assert_uint_eq(told.changed + told.lost, 0);
}
END_TEST

START_TEST(more_changes_than_the_queue_holds_lose_everything)
{
    char name[32];
    (void)watch("");
    memset(&told, 0, sizeof told);
    /* The process stands still meanwhile. */
    ck_assert_int_eq(kill(files_client.server, SIGSTOP), 0);
    for (unsigned i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof name, "f%u", i);
        files_put(name, "");
    }
    ck_assert_int_eq(kill(files_client.server, SIGCONT), 0);
    barrier();
    ck_assert_uint_eq(told.lost, 1);
    ck_assert_uint_eq(told.number & UINT32_MAX, 0);
    uint64_t number = watch("");
    files_put("g", "");
    barrier();
    ck_assert_uint_eq(told.number, number);
}
END_TEST

START_TEST(what_has_no_event_is_told_all_the_same)
{
    files_put("f", "1234");
    int fd = open(files_place("f"), O_RDWR);
    char *map = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    (void)watch("");
    (void)usleep((useconds_t)patient(500000)); /* it is looked at */
    barrier();
    files_put("g", "1"); /* an event of its neighbour hides nothing */
    map[0] = 'x';
    ck_assert_int_eq(msync(map, 4, MS_SYNC), 0);
    do {
        struct fy_files_message notice;
        ck_assert(files_receive(&files_client, &notice));
        on_notice(&files_client, &notice);
    } while (strcmp(told.name, "f") != 0);
    ck_assert_uint_eq(told.lost, 0);
    (void)munmap(map, 4);
    (void)close(fd);
}
END_TEST

int
main(void)
{
    Suite *all = suite_create("files_watch");
    TCase *tests = files_case(all, "watch", 0);
    tcase_add_test(tests, changes_are_told_before_the_barrier_is_answered);
    tcase_add_test(tests, own_writes_are_told_from_those_of_others);
    tcase_add_test(tests, changes_are_told_before_a_lock_is_answered);
    tcase_add_test(tests, a_folder_that_moves_is_told_under_its_number);
    tcase_add_test(tests, a_folder_that_is_gone_is_lost);
    tcase_add_test(tests, what_is_forgotten_is_told_no_more);
    tcase_add_test(tests, more_changes_than_the_queue_holds_lose_everything);
    tcase_add_test(tests, what_has_no_event_is_told_all_the_same);
    return run_suite(all);
}
