/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files process, asked by a client over a socketpair: locks between owners, the
 * order of requests that overlap, what a hostile client gets.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "proxy/files/server/serve.h"
#include "tests/unit/files_client.h"
#include "tests/unit/runner.h"

static struct fy_files_message answer;

static int
call(struct fy_files_message request)
{
    return files_call(&files_client, &request, &answer);
}

/* ---- locks ------------------------------------------------------------------------------------ */

static struct fy_files_message
lock_of(uint64_t owner, uint32_t mode, uint32_t flags, uint64_t first,
        uint64_t last)
{
    return (struct fy_files_message){.type = FY_FILES_LOCK,
                                     .node = files_node("f"),
                                     .number = owner,
                                     .mode = mode,
                                     .flags = flags,
                                     .offset = first,
                                     .length = last};
}

START_TEST(record_locks_hold_between_owners_and_with_programs_here)
{
    files_put("f", "0123456789");
    ck_assert_int_eq(call(lock_of(1, F_WRLCK, 0, 0, 4)), 0);
    ck_assert_int_eq(call(lock_of(1, F_WRLCK, 0, 2, 6)), 0);
    ck_assert_int_eq(call(lock_of(2, F_RDLCK, 0, 3, 9)), -EAGAIN);
    ck_assert_int_eq(call(lock_of(2, F_RDLCK, 0, 7, 9)), 0);
    struct fy_files_message get = lock_of(3, F_WRLCK, 0, 0, INT64_MAX);
    get.type = FY_FILES_GETLOCK;
    ck_assert_int_eq(call(get), 0);
    ck_assert_uint_eq(answer.mode, F_WRLCK);
    ck_assert_uint_eq(answer.offset, 0);
    ck_assert_uint_eq(answer.length, 6);
    int fd = open(files_place("f"), O_RDWR);
    struct flock mine = {.l_type = F_WRLCK, .l_len = 1};
    ck_assert_int_eq(fcntl(fd, F_SETLK, &mine), -1);
    ck_assert_int_eq(call(lock_of(1, F_UNLCK, 0, 0, INT64_MAX)), 0);
    ck_assert_int_eq(fcntl(fd, F_SETLK, &mine), 0);
    ck_assert_int_eq(call(lock_of(1, F_WRLCK, 0, 0, 0)), -EAGAIN);
    (void)close(fd);
    ck_assert_int_eq(call(lock_of(1, 77, 0, 0, 0)), -EINVAL);
    ck_assert_int_eq(call(lock_of(1, F_WRLCK, 0, 5, 4)), -EINVAL);
    ck_assert_int_eq(call(lock_of(1, F_WRLCK, FY_FILES_FLOCK, 0, 0)), 0);
    ck_assert_int_eq(call(lock_of(2, F_RDLCK, FY_FILES_FLOCK, 0, 0)), -EAGAIN);
    ck_assert_int_eq(call(lock_of(1, F_UNLCK, FY_FILES_ALL, 0, 0)), 0);
    ck_assert_int_eq(call(lock_of(2, F_RDLCK, FY_FILES_FLOCK, 0, 0)), 0);
}
END_TEST

START_TEST(a_waiting_lock_comes_or_is_cancelled)
{
    files_put("f", "0123456789");
    ck_assert_int_eq(call(lock_of(1, F_WRLCK, 0, 0, 4)), 0);
    struct fy_files_message waits = lock_of(2, F_WRLCK, FY_FILES_WAIT, 0, 0);
    uint64_t id = files_send(&files_client, &waits);
    struct fy_files_message also = lock_of(3, F_WRLCK, FY_FILES_WAIT, 1, 1);
    uint64_t other = files_send(&files_client, &also);
    (void)usleep(20000);
    struct fy_files_message cancel = {.type = FY_FILES_CANCEL, .number = id};
    (void)files_send(&files_client, &cancel);
    ck_assert(files_receive(&files_client, &answer));
    ck_assert_uint_eq(answer.id, id);
    ck_assert_int_eq(answer.status, -EINTR);
    struct fy_files_message unlock = lock_of(1, F_UNLCK, 0, 0, INT64_MAX);
    uint64_t last = files_send(&files_client, &unlock);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(files_receive(&files_client, &answer));
        ck_assert(answer.id == other || answer.id == last);
        ck_assert_int_eq(answer.status, 0);
    }
    ck_assert_int_eq(call(lock_of(2, F_WRLCK, 0, 1, 1)), -EAGAIN);
}
END_TEST

START_TEST(locks_are_given_back_when_the_client_is_gone)
{
    files_put("f", "0123456789");
    ck_assert_int_eq(call(lock_of(1, F_WRLCK, 0, 0, 4)), 0);
    struct fy_files_message waits = lock_of(2, F_WRLCK, FY_FILES_WAIT, 0, 0);
    (void)files_send(&files_client, &waits);
    (void)usleep(20000);
    files_close(&files_client);
    int fd = open(files_place("f"), O_RDWR);
    struct flock mine = {.l_type = F_WRLCK, .l_len = 1};
    ck_assert_int_eq(fcntl(fd, F_SETLK, &mine), 0);
    (void)close(fd);
    files_open(&files_client, files_root, 0);
}
END_TEST

/* ---- order ------------------------------------------------------------------------------------ */

START_TEST(requests_that_are_sent_together_are_done_in_order)
{
    char name[32], path[64], text[16];
    uint64_t last = 0;
    enum {
        FILES = 200
    };
    for (unsigned i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof name, "d%u", i);
        struct fy_files_message folder = {.type = FY_FILES_MAKE,
                                          .node = files_node(""),
                                          .name = files_text(name),
                                          .mode = S_IFDIR | 0755};
        (void)files_send(&files_client, &folder);
        struct fy_files_message file = {.type = FY_FILES_MAKE,
                                        .node = files_node(name),
                                        .name = files_text("f"),
                                        .mode = S_IFREG | 0644};
        (void)files_send(&files_client, &file);
        (void)snprintf(path, sizeof path, "%s/f", name);
        for (unsigned j = 0; j < 4; j++) {
            (void)snprintf(text, sizeof text, "%u", j);
            struct fy_files_message write = {.type = FY_FILES_WRITE,
                                             .node = files_node(path),
                                             .data = files_text(text)};
            (void)files_send(&files_client, &write);
        }
        struct fy_files_message cut = {.type = FY_FILES_SETATTR,
                                       .node = files_node(path),
                                       .mask = FY_FILES_SET_SIZE};
        (void)files_send(&files_client, &cut);
        struct fy_files_message write = {.type = FY_FILES_WRITE,
                                         .node = files_node(path),
                                         .data = files_text("end")};
        (void)files_send(&files_client, &write);
        struct fy_files_message rename = {.type = FY_FILES_RENAME,
                                          .node = files_node(name),
                                          .name = files_text("f"),
                                          .other = files_node(name),
                                          .other_name = files_text("g")};
        last = files_send(&files_client, &rename);
    }
    for (unsigned i = 0; i < FILES * 9; i++) {
        do { /* notices come between */
            ck_assert(files_receive(&files_client, &answer));
        } while (answer.id == 0);
        ck_assert_msg(answer.status == 0, "%d of %s", answer.status,
                      fy_files_type_name(answer.type));
    }
    (void)last;
    for (unsigned i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof path, "d%u/g", i);
        files_expect(path, "end");
    }
}
END_TEST

START_TEST(nothing_is_changed_where_nothing_may_be)
{
    files_put("f", "x");
    ck_assert_int_eq(files_make(&files_client, "", "g", ""), -EROFS);
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_REMOVE,
                                                    .node = files_node(""),
                                                    .name = files_text("f")}),
                     -EROFS);
    static const enum fy_files_type types[] = {
        FY_FILES_SETATTR,  FY_FILES_WRITE,    FY_FILES_LINK,
        FY_FILES_ALLOCATE, FY_FILES_SETXATTR, FY_FILES_REMOVEXATTR};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        ck_assert_int_eq(
            call((struct fy_files_message){.type = types[i],
                                           .node = files_node("f"),
                                           .name = files_text("user.a")}),
            -EROFS);
    }
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_READ,
                                                    .node = files_node("f"),
                                                    .length = 1}),
                     0);
}
END_TEST

/* ---- hostile clients ------------------------------------------------------------------------------ */

START_TEST(nonsense_ends_the_connection)
{
    const char bytes[64] = {1, 2, 3, 4};
    files_send_bytes(&files_client, bytes, sizeof bytes);
    ck_assert(!files_receive(&files_client, &answer));
    files_close(&files_client);
    files_start(&files_client, files_root);
    struct fy_files_message early = {.type = FY_FILES_STATFS};
    (void)files_send(&files_client, &early);
    ck_assert(!files_receive(&files_client, &answer));
    files_close(&files_client);
    files_open(&files_client, files_root, 0);
    struct fy_files_message again = {.type = FY_FILES_HELLO,
                                     .number = FY_FILES_VERSION};
    ck_assert_int_eq(call(again), -EINVAL);
}
END_TEST

START_TEST(new_files_belong_to_their_maker)
{
    if (geteuid() != 0) {
        return; /* another user cannot give files away */
    }
    files_close(&files_client);
    files_open(&files_client, files_root, FY_FILES_USERS);
    ck_assert_int_eq(chmod(files_root, 0700), 0);
    static const uint32_t types[] = {S_IFREG, S_IFDIR, S_IFIFO, S_IFLNK};
    for (unsigned i = 0; i < 4; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "n%u", i);
        struct fy_files_message make = {.type = FY_FILES_MAKE,
                                        .node = files_node(""),
                                        .name = files_text(name),
                                        .other_name = files_text("t"),
                                        .mode = types[i] | 0600,
                                        .uid = 12345,
                                        .gid = 54321};
        ck_assert_int_eq(call(make), 0);
        ck_assert_uint_eq(answer.attr.uid, 12345);
        ck_assert_uint_eq(files_look(name).st_gid, 54321);
    }
    struct fy_files_message nobody = {.type = FY_FILES_MAKE,
                                      .node = files_node(""),
                                      .name = files_text("x"),
                                      .mode = S_IFREG | 0600,
                                      .uid = UINT32_MAX};
    ck_assert_int_eq(call(nobody), -EINVAL);
    /* The process is root again: it writes to what is another's. */
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_WRITE,
                                                    .node = files_node("n0"),
                                                    .data = files_text("x")}),
                     0);
}
END_TEST

START_TEST(a_file_without_rights_is_written_by_who_made_it)
{
    if (geteuid() == 0) {
        files_close(&files_client);
        ck_assert_int_eq(chmod(files_root, 0777), 0);
        ck_assert_int_eq(seteuid(12345), 0);
        files_open(&files_client, files_root, 0);
        ck_assert_int_eq(seteuid(0), 0);
    }
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_MAKE,
                                                    .node = files_node(""),
                                                    .name = files_text("f"),
                                                    .mode = S_IFREG | 0444}),
                     0);
    uint64_t ino = answer.attr.ino;
    (void)usleep(400000);
    ck_assert_int_eq(call((struct fy_files_message){
                         .type = FY_FILES_WRITE,
                         .node = {.ino = ino, .path = files_text("f")},
                         .data = files_text("x")}),
                     0);
    files_expect("f", "x");
}
END_TEST

/* ---- a connection that breaks ---------------------------------------------------------------- */

static unsigned char token[FY_FILES_TOKEN_BYTES];

/* Another connection to the same process; its hello's answer is in `answer'. */
static int
come_back(uint64_t last)
{
    int fd = fy_files_reach(token, sizeof token);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
    if (files_client.socket >= 0) {
        (void)close(files_client.socket);
    }
    files_client.socket = fd;
    files_client.in_bytes = files_client.used = 0;
    return call(
        (struct fy_files_message){.type = FY_FILES_HELLO,
                                  .number = FY_FILES_VERSION,
                                  .offset = last,
                                  .data = {(const char *)token, sizeof token}});
}

static void
say_hello(void)
{
    files_lingers = true;
    files_close(&files_client);
    files_start(&files_client, files_root);
    ck_assert_int_eq(call((struct fy_files_message){
                         .type = FY_FILES_HELLO, .number = FY_FILES_VERSION}),
                     0);
    ck_assert_uint_eq(answer.data.n, sizeof token);
    memcpy(token, answer.data.at, sizeof token);
}

static void
end_mount(void)
{
    struct fy_files_message over = {.type = FY_FILES_ACK, .number = UINT64_MAX};
    (void)files_send(&files_client, &over);
}

START_TEST(nothing_is_done_twice_after_a_break)
{
    say_hello();
    files_put("f", "1");
    struct fy_files_message rename = {.type = FY_FILES_RENAME,
                                      .node = files_node(""),
                                      .name = files_text("f"),
                                      .other = files_node(""),
                                      .other_name = files_text("g")};
    uint64_t id = files_send(&files_client, &rename);
    struct fy_files_message lock = {.type = FY_FILES_LOCK,
                                    .node = files_node("g"),
                                    .number = 1,
                                    .mode = F_WRLCK,
                                    .length = 9};
    ck_assert_int_eq(call(lock), 0);
    (void)close(files_client.socket);
    files_client.socket = -1;
    (void)usleep(20000);
    ck_assert_int_eq(come_back(id - 1), 0);
    ck_assert_uint_eq(answer.flags & FY_FILES_RESUMED, FY_FILES_RESUMED);
    rename.id = id;
    rename.frame_flags = FY_FILES_AGAIN;
    (void)files_send(&files_client, &rename);
    do {
        ck_assert(files_receive(&files_client, &answer));
    } while (answer.id == 0);
    ck_assert_uint_eq(answer.id, id);
    ck_assert_int_eq(answer.status, 0);
    files_expect("g", "1");
    lock.number = 2;
    ck_assert_int_eq(call(lock), -EAGAIN);
    struct fy_files_message ack = {.type = FY_FILES_ACK, .number = id};
    (void)files_send(&files_client, &ack);
    (void)files_send(&files_client, &rename);
    do {
        ck_assert(files_receive(&files_client, &answer));
    } while (answer.id == 0);
    ck_assert_int_eq(answer.status, -ENOENT);
    end_mount();
}
END_TEST

START_TEST(a_stranger_does_not_come_in)
{
    say_hello();
    (void)close(files_client.socket);
    files_client.socket = -1;
    token[FY_FILES_TOKEN_BYTES - 1] ^= 1;
    files_client.socket = fy_files_reach(token, sizeof token);
    ck_assert_int_ge(files_client.socket, 0);
    ck_assert_int_eq(fcntl(files_client.socket, F_SETFL, 0), 0);
    struct fy_files_message hello = {
        .type = FY_FILES_HELLO,
        .number = FY_FILES_VERSION,
        .data = {(const char *)token, sizeof token}};
    (void)files_send(&files_client, &hello);
    ck_assert(!files_receive(&files_client, &answer));
    token[FY_FILES_TOKEN_BYTES - 1] ^= 1;
    ck_assert_int_eq(come_back(0), 0);
    /* Nor does a mount suffer from who only knocks. */
    int knock = fy_files_reach(token, sizeof token);
    ck_assert_int_ge(knock, 0);
    ck_assert_int_eq(write(knock, "x", 1), 1);
    (void)close(knock);
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_BARRIER}),
                     0);
    end_mount();
    token[0] ^= 1;
    ck_assert_int_lt(fy_files_reach(token, sizeof token), 0);
}
END_TEST

START_TEST(writes_that_were_sent_are_done_though_the_connection_breaks)
{
    say_hello();
    ck_assert_int_eq(files_make(&files_client, "", "f", ""), 0);
    enum {
        WRITES = 500
    };
    uint64_t first = 0;
    for (unsigned i = 0; i < WRITES; i++) {
        struct fy_files_message write = {.type = FY_FILES_WRITE,
                                         .node = files_node("f"),
                                         .offset = i,
                                         .data = files_text("x")};
        uint64_t id = files_send(&files_client, &write);
        first = first ? first : id;
    }
    (void)shutdown(files_client.socket, SHUT_RDWR);
    ck_assert_int_eq(come_back(first - 1), 0);
    for (unsigned i = 0; i < WRITES; i++) {
        struct fy_files_message write = {.type = FY_FILES_WRITE,
                                         .frame_flags = FY_FILES_AGAIN,
                                         .id = first + i,
                                         .node = files_node("f"),
                                         .offset = i,
                                         .data = files_text("x")};
        (void)files_send(&files_client, &write);
    }
    unsigned seen = 0;
    while (seen < WRITES) {
        ck_assert(files_receive(&files_client, &answer));
        ck_assert_int_eq(answer.status, 0);
        seen += answer.id != 0;
    }
    ck_assert_int_eq(files_look("f").st_size, WRITES);
    end_mount();
}
END_TEST

int
main(void)
{
    Suite *all = suite_create("files_order");
    TCase *locks = files_case(all, "locks", 0);
    TCase *order = files_case(all, "order", 0);
    TCase *read_only = files_case(all, "read_only", FY_FILES_READ_ONLY);
    tcase_add_test(locks,
                   record_locks_hold_between_owners_and_with_programs_here);
    tcase_add_test(locks, a_waiting_lock_comes_or_is_cancelled);
    tcase_add_test(locks, locks_are_given_back_when_the_client_is_gone);
    tcase_add_test(order, requests_that_are_sent_together_are_done_in_order);
    tcase_add_test(read_only, nothing_is_changed_where_nothing_may_be);
    tcase_add_test(order, nonsense_ends_the_connection);
    tcase_add_test(order, a_file_without_rights_is_written_by_who_made_it);
    tcase_add_test(order, new_files_belong_to_their_maker);
    tcase_add_test(order, nothing_is_done_twice_after_a_break);
    tcase_add_test(order, a_stranger_does_not_come_in);
    tcase_add_test(order,
                   writes_that_were_sent_are_done_though_the_connection_breaks);
    return run_suite(all);
}
