/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files process, asked by a client over a socketpair: what each request does to a
 * real folder, and the errno of each that cannot be carried out. Long because each
 * request has its case.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/patience.h"
#include "tests/unit/files_client.h"
#include "tests/unit/runner.h"

static struct fy_files_message answer;

static int
call(struct fy_files_message request)
{
    return files_call(&files_client, &request, &answer);
}

static int
make(const char *folder, const char *name, uint32_t mode)
{
    return call((struct fy_files_message){.type = FY_FILES_MAKE,
                                          .node = files_node(folder),
                                          .name = files_text(name),
                                          .mode = mode,
                                          .flags = FY_FILES_EXCLUSIVE});
}

/* ---- names ------------------------------------------------------------------------------ */

START_TEST(lookup_tells_attributes_targets_and_absence)
{
    files_put("f", "hello");
    ck_assert_int_eq(symlink("to/somewhere", files_place("l")), 0);
    struct fy_files_message lookup = {.type = FY_FILES_LOOKUP,
                                      .node = files_node(""),
                                      .name = files_text("f")};
    ck_assert_int_eq(call(lookup), 0);
    struct stat about = files_look("f");
    ck_assert_uint_eq(answer.flags, FY_FILES_PRESENT);
    ck_assert_uint_eq(answer.attr.ino, about.st_ino);
    ck_assert_uint_eq(answer.attr.size, 5);
    ck_assert_uint_eq(answer.attr.mode, about.st_mode);
    ck_assert_int_eq(answer.attr.mtime.seconds, about.st_mtim.tv_sec);
    ck_assert_uint_eq(answer.attr.mtime.ns, (uint32_t)about.st_mtim.tv_nsec);
    lookup.name = files_text("l");
    ck_assert_int_eq(call(lookup), 0);
    ck_assert(S_ISLNK(answer.attr.mode));
    files_same(&answer, "to/somewhere");
    lookup.name = files_text("absent");
    ck_assert_int_eq(call(lookup), 0);
    ck_assert_uint_eq(answer.flags, 0);
    lookup.node = files_node("absent");
    ck_assert_int_eq(call(lookup), -ENOENT);
    lookup.node = files_node("f");
    ck_assert_int_eq(call(lookup), -ENOTDIR);
    lookup.node = files_node("l");
    ck_assert_int_lt(call(lookup), 0);
    lookup.node = (struct fy_files_node){.ino = 1};
    ck_assert_int_eq(call(lookup), -ESTALE);
    lookup.node = (struct fy_files_node){.kept = 9};
    ck_assert_int_eq(call(lookup), -ENOENT);
}
END_TEST

START_TEST(make_makes_each_kind)
{
    ck_assert_int_eq(make("", "f", S_IFREG | 0640), 0);
    ck_assert_uint_eq(answer.flags, FY_FILES_MADE);
    ck_assert_uint_eq(answer.attr.mode, S_IFREG | 0640);
    ck_assert_uint_eq(answer.other_attr.ino, files_look("").st_ino);
    ck_assert_uint_eq(files_look("f").st_mode, S_IFREG | 0640);
    ck_assert_int_eq(make("", "f", S_IFREG | 0640), -EEXIST);
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_MAKE,
                                                    .node = files_node(""),
                                                    .name = files_text("f"),
                                                    .mode = S_IFREG | 0600}),
                     0);
    ck_assert_uint_eq(answer.flags, 0);
    ck_assert_uint_eq(answer.attr.mode, S_IFREG | 0640);
    ck_assert_int_eq(make("", "d", S_IFDIR | 0777), 0);
    ck_assert_uint_eq(files_look("d").st_mode, S_IFDIR | 0777);
    ck_assert_int_eq(make("d", "p", S_IFIFO | 0600), 0);
    ck_assert(S_ISFIFO(files_look("d/p").st_mode));
    ck_assert_int_eq(call((struct fy_files_message){
                         .type = FY_FILES_MAKE,
                         .node = files_node("d"),
                         .name = files_text("l"),
                         .other_name = files_text("../../etc/passwd"),
                         .mode = S_IFLNK | 0777}),
                     0);
    char target[64];
    ck_assert_int_eq(readlink(files_place("d/l"), target, sizeof target), 16);
    ck_assert_int_eq(make("d", "x", 0600), -EINVAL);
    ck_assert_int_eq(make("d", "x", S_IFREG | S_ISUID | 0700), -EPERM);
    ck_assert_int_eq(make("d", "x", S_IFCHR | 0600), -EPERM);
    ck_assert_int_eq(make("absent", "x", S_IFREG | 0600), -ENOENT);
    ck_assert_int_eq(make("f", "x", S_IFREG | 0600), -ENOTDIR);
}
END_TEST

START_TEST(a_path_never_follows_a_link)
{
    ck_assert_int_eq(mkdir(files_place("d"), 0755), 0);
    ck_assert_int_eq(symlink("/etc", files_place("out")), 0);
    ck_assert_int_eq(symlink("d", files_place("in")), 0);
    files_put("d/f", "x");
    const char *paths[] = {"out/passwd", "in/f", "in", "out"};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_lt(
            call((struct fy_files_message){.type = FY_FILES_READ,
                                           .node = files_node(paths[i]),
                                           .length = 100}),
            0);
    }
    ck_assert_int_lt(make("out", "x", S_IFREG | 0600), 0);
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_GETATTR,
                                                    .node = files_node("out")}),
                     0);
    ck_assert(S_ISLNK(answer.attr.mode));
}
END_TEST

START_TEST(link_remove_and_rename_tell_what_is_left)
{
    files_put("f", "1");
    ck_assert_int_eq(mkdir(files_place("d"), 0755), 0);
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_LINK,
                                                    .node = files_node("f"),
                                                    .other = files_node("d"),
                                                    .name = files_text("g")}),
                     0);
    ck_assert_uint_eq(answer.attr.nlink, 2);
    ck_assert_uint_eq(answer.other_attr.ino, files_look("d").st_ino);
    struct fy_files_message remove = {.type = FY_FILES_REMOVE,
                                      .node = files_node(""),
                                      .name = files_text("f"),
                                      .number = 1};
    ck_assert_int_eq(call(remove), -ESTALE);
    remove.number = files_look("f").st_ino;
    ck_assert_int_eq(call(remove), 0);
    ck_assert_uint_eq(answer.attr.nlink, 1);
    ck_assert_int_eq(call(remove), -ENOENT);
    remove = (struct fy_files_message){.type = FY_FILES_REMOVE,
                                       .node = files_node(""),
                                       .name = files_text("d")};
    ck_assert_int_eq(call(remove), -EISDIR);
    remove.flags = FY_FILES_FOLDER;
    ck_assert_int_eq(call(remove), -ENOTEMPTY);
    struct fy_files_message rename = {.type = FY_FILES_RENAME,
                                      .node = files_node("d"),
                                      .name = files_text("g"),
                                      .other = files_node(""),
                                      .other_name = files_text("h")};
    files_put("h", "2");
    rename.flags = RENAME_NOREPLACE;
    ck_assert_int_eq(call(rename), -EEXIST);
    rename.flags = 64;
    ck_assert_int_eq(call(rename), -EINVAL);
    rename.flags = 0;
    rename.length = 1;
    ck_assert_int_eq(call(rename), -ESTALE);
    rename.length = files_look("h").st_ino;
    rename.number = files_look("d/g").st_ino;
    ck_assert_int_eq(call(rename), 0);
    ck_assert_uint_eq(answer.attr.ino, rename.number);
    ck_assert_uint_eq(answer.other_attr.ino, files_look("d").st_ino);
    ck_assert_uint_eq(answer.third_attr.ino, files_look("").st_ino);
    files_expect("h", "1");
    ck_assert_int_eq(call(remove), 0);
    ck_assert_uint_eq(answer.attr.nlink, 0);
}
END_TEST

START_TEST(what_is_kept_outlives_its_name)
{
    files_put("f", "one");
    files_put("g", "two");
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_REMOVE,
                                                    .node = files_node(""),
                                                    .name = files_text("f"),
                                                    .keep = 7}),
                     0);
    ck_assert_uint_eq(answer.attr.nlink, 0);
    struct fy_files_message read = {
        .type = FY_FILES_READ, .node = {.kept = 7}, .length = 100};
    ck_assert_int_eq(call(read), 0);
    files_same(&answer, "one");
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_WRITE,
                                                    .node = {.kept = 7},
                                                    .offset = 3,
                                                    .data = files_text("!")}),
                     0);
    ck_assert_uint_eq(answer.attr.size, 4);
    ck_assert_uint_eq(answer.other_attr.size, 3);
    files_put("h", "three");
    struct fy_files_message rename = {.type = FY_FILES_RENAME,
                                      .node = files_node(""),
                                      .name = files_text("h"),
                                      .other = files_node(""),
                                      .other_name = files_text("g"),
                                      .keep = 7};
    ck_assert_int_eq(call(rename), -EEXIST);
    rename.keep = 8;
    ck_assert_int_eq(call(rename), 0);
    read.node.kept = 8;
    ck_assert_int_eq(call(read), 0);
    files_same(&answer, "two");
    struct fy_files_out rows = {.n = 0};
    ck_assert_int_eq(fy_files_number_put(7 * 2 + 1, &rows), 0);
    struct fy_files_message forget = {.type = FY_FILES_FORGET,
                                      .data = {rows.bytes, rows.n}};
    (void)files_send(&files_client, &forget);
    fy_files_out_free(&rows);
    read.node.kept = 7;
    ck_assert_int_eq(call(read), -ESTALE);
}
END_TEST

/* ---- contents ------------------------------------------------------------------------------ */

START_TEST(what_is_made_can_be_held_and_emptied)
{
    struct fy_files_message make = {.type = FY_FILES_MAKE,
                                    .node = files_node(""),
                                    .name = files_text("f"),
                                    .mode = S_IFREG | 0400,
                                    .flags = FY_FILES_TRUNCATE,
                                    .keep = 5};
    struct fy_files_message write = {.type = FY_FILES_WRITE,
                                     .node = {.kept = 5},
                                     .data = files_text("text")};
    ck_assert_int_eq(call(make), 0);
    ck_assert_uint_eq(answer.flags, FY_FILES_MADE);
    ck_assert_int_eq(call(write), 0);
    files_expect("f", "text");
    /* Another file has its name meanwhile: that one is not written. */
    char *before = strdup(files_place("f"));
    ck_assert_int_eq(rename(before, files_place("g")), 0);
    free(before);
    files_put("f", "another");
    write.offset = 4;
    ck_assert_int_eq(call(write), 0);
    files_expect("g", "texttext");
    files_expect("f", "another");
    ck_assert_int_eq(call(make), -EEXIST); /* the number */
    make.keep = 6;
    make.flags = 0;
    files_put("f", "another");
    ck_assert_int_eq(call(make), 0);
    ck_assert_uint_eq(answer.flags, 0);
    files_expect("f", "another");
    make.keep = 0;
    make.flags = FY_FILES_TRUNCATE;
    ck_assert_int_eq(call(make), 0);
    ck_assert_uint_eq(answer.attr.size, 0);
    files_expect("f", "");
    /* What is no file is left alone, and what a link leads to. */
    make.keep = 8;
    make.name = files_text("l");
    ck_assert_int_eq(symlink("g", files_place("l")), 0);
    ck_assert_int_eq(call(make), -EEXIST);
    make.name = files_text("d");
    ck_assert_int_eq(mkdir(files_place("d"), 0700), 0);
    ck_assert_int_eq(call(make), -EEXIST);
    make.name = files_text("p");
    ck_assert_int_eq(mkfifo(files_place("p"), 0600), 0);
    ck_assert_int_eq(call(make), -EEXIST);
    files_expect("g", "texttext");
    write.node.kept = 8;
    ck_assert_int_eq(call(write), -ESTALE);
}
END_TEST

static bool
is_open_for_writing(const char *name)
{
    int fd = open(files_place(name), O_RDONLY | O_CLOEXEC);
    bool refused = fcntl(fd, F_SETLEASE, F_RDLCK) != 0;
    (void)close(fd);
    return refused;
}

START_TEST(what_is_open_at_the_client_is_held)
{
    struct fy_files_out rows = {0};
    struct fy_files_node absent = files_node("absent"), f = files_node("f"),
                         g = files_node("g");
    files_put("f", "one");
    files_put("g", "two");
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_WRITE,
                                                    .node = f,
                                                    .data = files_text("O")}),
                     0);
    ck_assert_int_eq(fy_files_node_put(&f, &rows), 0);
    ck_assert_int_eq(fy_files_node_put(&absent, &rows), 0);
    ck_assert_int_eq(fy_files_node_put(&g, &rows), 0);
    struct fy_files_message hold = {
        .type = FY_FILES_HOLD, .number = 20, .data = {rows.bytes, rows.n}};
    ck_assert_int_eq(call(hold), 0);
    uint64_t number = 0;
    ck_assert(fy_files_number_take(&answer.data, &number));
    ck_assert_uint_eq(number, 21);
    ck_assert_uint_eq(answer.data.n, 0);
    ck_assert_int_eq(call(hold), 0); /* again: they are held already */
    ck_assert(fy_files_number_take(&answer.data, &number));
    ck_assert_uint_eq(answer.data.n, 0);
    /* Nothing is open for writing, a moment after the write. */
    for (long i = patient(1200); i > 0 && is_open_for_writing("f"); i--) {
        (void)usleep(50000);
    }
    ck_assert(!is_open_for_writing("f"));
    ck_assert_int_eq(unlink(files_place("f")), 0);
    ck_assert_int_eq(unlink(files_place("g")), 0);
    files_put("f", "another");
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_WRITE,
                                                    .node = {.kept = 20},
                                                    .offset = 1,
                                                    .data = files_text("N")}),
                     0);
    struct fy_files_message read = {
        .type = FY_FILES_READ, .node = {.kept = 20}, .length = 100};
    ck_assert_int_eq(call(read), 0);
    files_same(&answer, "ONe");
    read.node.kept = 22;
    ck_assert_int_eq(call(read), 0);
    files_same(&answer, "two");
    read.node.kept = 21;
    ck_assert_int_eq(call(read), -ESTALE);
    files_expect("f", "another");
    hold.data.n--;
    ck_assert_int_eq(call(hold), -EINVAL);
    fy_files_out_free(&rows);
}
END_TEST

START_TEST(read_and_write_name_their_offsets)
{
    ck_assert_int_eq(files_make(&files_client, "", "f", "0123456789"), 0);
    ck_assert_uint_eq(answer.attr.size, answer.attr.size);
    struct fy_files_message read = {.type = FY_FILES_READ,
                                    .node = files_node("f"),
                                    .offset = 4,
                                    .length = 3};
    ck_assert_int_eq(call(read), 0);
    files_same(&answer, "456");
    ck_assert_uint_eq(answer.attr.size, 10);
    read.offset = 100;
    ck_assert_int_eq(call(read), 0);
    ck_assert_uint_eq(answer.data.n, 0);
    read.offset = UINT64_MAX;
    ck_assert_int_eq(call(read), -EINVAL);
    read = (struct fy_files_message){
        .type = FY_FILES_READ, .node = files_node(""), .length = 1};
    ck_assert_int_eq(call(read), -EISDIR);
    ck_assert_int_eq(make("", "p", S_IFIFO | 0600), 0);
    read.node = files_node("p");
    ck_assert_int_eq(call(read), -EINVAL);
    struct fy_files_message write = {.type = FY_FILES_WRITE,
                                     .node = files_node("f"),
                                     .offset = INT64_MAX,
                                     .data = files_text("x")};
    ck_assert_int_eq(call(write), -EFBIG);
    write.offset = 8;
    write.data = files_text("abc");
    ck_assert_int_eq(call(write), 0);
    ck_assert_uint_eq(answer.other_attr.size, 10);
    ck_assert_uint_eq(answer.attr.size, 11);
    files_expect("f", "01234567abc");
    struct fy_files_message sync = {.type = FY_FILES_FSYNC,
                                    .node = files_node("f")};
    ck_assert_int_eq(call(sync), 0);
    sync.node = files_node("");
    ck_assert_int_eq(call(sync), 0);
    sync.node = files_node("absent");
    ck_assert_int_eq(call(sync), -ENOENT);
}
END_TEST

START_TEST(holes_space_and_copies)
{
    files_put("f", "0123456789");
    files_put("g", "");
    struct fy_files_message allocate = {.type = FY_FILES_ALLOCATE,
                                        .node = files_node("f"),
                                        .offset = 1 << 20,
                                        .length = 4096};
    int status = call(allocate);
    if (status != -EOPNOTSUPP) {
        ck_assert_int_eq(status, 0);
        ck_assert_uint_eq(answer.attr.size, (1 << 20) + 4096);
    }
    allocate.length = UINT64_MAX;
    ck_assert_int_eq(call(allocate), -EINVAL);
    struct fy_files_message seek = {
        .type = FY_FILES_SEEK, .node = files_node("f"), .flags = SEEK_DATA};
    ck_assert_int_eq(call(seek), 0);
    ck_assert_uint_eq(answer.offset, 0);
    seek.flags = SEEK_END;
    ck_assert_int_eq(call(seek), -EINVAL);
    seek.flags = SEEK_HOLE;
    seek.offset = UINT64_C(1) << 40;
    ck_assert_int_eq(call(seek), -ENXIO);
    struct fy_files_message copy = {.type = FY_FILES_COPY,
                                    .node = files_node("f"),
                                    .offset = 2,
                                    .other = files_node("g"),
                                    .other_offset = 1,
                                    .length = 5};
    ck_assert_int_eq(call(copy), 0);
    ck_assert_uint_eq(answer.length, 5);
    ck_assert_uint_eq(answer.attr.size, 6);
    copy.node = files_node("absent");
    ck_assert_int_eq(call(copy), -ENOENT);
    copy.node = files_node("f");
    copy.offset = UINT64_MAX;
    ck_assert_int_eq(call(copy), -EINVAL);
}
END_TEST

START_TEST(fetch_answers_each_node_in_order)
{
    struct fy_files_out rows = {.n = 0};
    static const char *const names[] = {"a", "absent", "b", "d", "l"};
    files_put("a", "first");
    files_put("b", "second");
    ck_assert_int_eq(mkdir(files_place("d"), 0755), 0);
    ck_assert_int_eq(symlink("a", files_place("l")), 0);
    for (size_t i = 0; i < 5; i++) {
        const struct fy_files_node node = files_node(names[i]);
        ck_assert_int_eq(fy_files_node_put(&node, &rows), 0);
    }
    struct fy_files_message fetch = {
        .type = FY_FILES_FETCH, .length = 4, .data = {rows.bytes, rows.n}};
    ck_assert_int_eq(call(fetch), 0);
    static const uint32_t errors[] = {0, ENOENT, 0, EISDIR, EINVAL};
    static const char *const texts[] = {"firs", "", "seco", "", ""};
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_uint_eq(answer.number, i);
        ck_assert_uint_eq(answer.mask, errors[i]);
        files_same(&answer, texts[i]);
        ck_assert_uint_eq(answer.attr.size, i == 0 ? 5 : i == 2 ? 6 : 0);
        ck_assert_int_eq((answer.frame_flags & FY_FILES_MORE) != 0, i < 4);
        ck_assert(i == 4 || files_receive(&files_client, &answer));
    }
    fetch.length = UINT64_MAX;
    ck_assert_int_eq(call(fetch), -EINVAL);
    fetch.length = 4;
    fetch.data.n -= 1;
    int status = call(fetch);
    while (status == 0 && answer.frame_flags & FY_FILES_MORE) {
        ck_assert(files_receive(&files_client, &answer));
        status = answer.status;
    }
    ck_assert_int_eq(status, -EINVAL);
    fy_files_out_free(&rows);
}
END_TEST

/* ---- folders -------------------------------------------------------------------------------- */

/* Counts what a LIST tells: folders, entries; of the answers that follow `status'. */
struct told {
    unsigned folders, whole, entries, links;
};

static struct told
take_list(void)
{
    struct told told = {0};
    bool more;
    do {
        struct fy_files_entry entry = {.attr.ino = 0};
        more = (answer.frame_flags & FY_FILES_MORE) != 0;
        told.folders++;
        told.whole += answer.flags & FY_FILES_WHOLE;
        while (fy_files_entry_take(&answer.data, &entry)) {
            told.entries++;
            told.links += entry.target.n > 0;
            ck_assert_uint_ne(entry.attr.mode, 0);
        }
        ck_assert_uint_eq(answer.data.n, 0);
        ck_assert(!more || files_receive(&files_client, &answer));
        ck_assert_int_eq(answer.status, 0);
    } while (more);
    return told;
}

START_TEST(list_tells_a_folder_or_a_tree)
{
    ck_assert_int_eq(mkdir(files_place("d"), 0755), 0);
    ck_assert_int_eq(mkdir(files_place("d/e"), 0755), 0);
    ck_assert_int_eq(mkdir(files_place("d/e/empty"), 0755), 0);
    files_put("f", "");
    files_put("d/g", "");
    files_put("d/e/h", "");
    ck_assert_int_eq(symlink("x", files_place("d/l")), 0);
    struct fy_files_message list = {
        .type = FY_FILES_LIST, .node = files_node(""), .length = 1 << 20};
    ck_assert_int_eq(call(list), 0);
    struct told told = take_list();
    ck_assert_uint_eq(told.folders, 1);
    ck_assert_uint_eq(told.entries, 2);
    list.flags = FY_FILES_TREE;
    ck_assert_int_eq(call(list), 0);
    told = take_list();
    ck_assert_uint_eq(told.folders, 4);
    ck_assert_uint_eq(told.whole, 4);
    ck_assert_uint_eq(told.entries, 7);
    ck_assert_uint_eq(told.links, 1);
    list.length = 0;
    ck_assert_int_eq(call(list), 0);
    told = take_list();
    ck_assert_uint_eq(told.folders, 1);
    list.node = files_node("f");
    ck_assert_int_eq(call(list), -ENOTDIR);
    list.node = (struct fy_files_node){.ino = 3};
    ck_assert_int_eq(call(list), -ESTALE);
}
END_TEST

START_TEST(list_tells_a_large_folder_in_parts)
{
    char name[64];
    ck_assert_int_eq(mkdir(files_place("d"), 0755), 0);
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "d/some-longer-name-%u", i);
        files_put(name, "");
    }
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_LIST,
                                                    .node = files_node("d")}),
                     0);
    struct told told = take_list();
    ck_assert_uint_gt(told.folders, 2);
    ck_assert_uint_eq(told.whole, 1);
    ck_assert_uint_eq(told.entries, 5000);
    /* Some of it, and nothing of what is below. */
    ck_assert_int_eq(mkdir(files_place("d/e"), 0755), 0);
    files_put("d/e/f", "");
    struct fy_files_message some = {.type = FY_FILES_LIST,
                                    .node = files_node("d"),
                                    .flags = FY_FILES_TREE | FY_FILES_SOME,
                                    .length = 64 << 10};
    ck_assert_int_eq(call(some), 0);
    told = take_list();
    ck_assert_uint_eq(told.whole, 0);
    ck_assert_uint_gt(told.entries, 0);
    ck_assert_uint_lt(told.entries, 5000);
    some.length = 64 << 20; /* enough */
    /* It says that it changed meanwhile as long as what was just made is news. */
    for (long i = patient(3000); i > 0; i--) {
        ck_assert_int_eq(call(some), 0);
        told = take_list();
        if (told.whole == 2) {
            break;
        }
        (void)usleep(20000);
    }
    ck_assert_uint_eq(told.whole, 2);
    ck_assert_uint_eq(told.entries, 5002);
}
END_TEST

START_TEST(reading_leaves_the_access_time)
{
    static const struct timespec old[2] = {{1000, 0}, {2000, 0}};
    files_put("f", "text");
    files_put("g", "text");
    ck_assert_int_eq(mkdir(files_place("d"), 0755), 0);
    const char *const names[] = {"f", "g", "d"};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(utimensat(AT_FDCWD, files_place(names[i]), old, 0), 0);
    }
    struct fy_files_out rows = {0};
    struct fy_files_node node = files_node("f");
    ck_assert_int_eq(fy_files_node_put(&node, &rows), 0);
    ck_assert_int_eq(
        call((struct fy_files_message){.type = FY_FILES_FETCH,
                                       .length = 100,
                                       .data = {rows.bytes, rows.n}}),
        0);
    ck_assert_uint_eq(answer.data.n, 4);
    fy_files_out_free(&rows);
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_READ,
                                                    .node = files_node("g"),
                                                    .length = 4}),
                     0);
    ck_assert_uint_eq(answer.data.n, 4);
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_LIST,
                                                    .node = files_node("d")}),
                     0);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(files_look(names[i]).st_atim.tv_sec, 1000);
    }
}
END_TEST

/* ---- attributes -------------------------------------------------------------------------------- */

START_TEST(setattr_sets_what_the_mask_says)
{
    files_put("f", "0123456789");
    struct fy_files_message set = {
        .type = FY_FILES_SETATTR,
        .node = files_node("f"),
        .mask = FY_FILES_SET_SIZE | FY_FILES_SET_MODE | FY_FILES_SET_MTIME,
        .length = 3,
        .mode = 0604,
        .mtime = {1000000000, 123456789}};
    ck_assert_int_eq(call(set), 0);
    struct stat about = files_look("f");
    ck_assert_int_eq(about.st_size, 3);
    ck_assert_uint_eq(about.st_mode, S_IFREG | 0604);
    ck_assert_int_eq(about.st_mtim.tv_sec, 1000000000);
    ck_assert_int_eq(about.st_mtim.tv_nsec, 123456789);
    ck_assert_uint_eq(answer.attr.size, 3);
    set.mask = FY_FILES_SET_MODE;
    set.mode = 04755;
    ck_assert_int_eq(call(set), -EPERM);
    set.mask = FY_FILES_SET_SIZE;
    set.length = UINT64_MAX;
    ck_assert_int_eq(call(set), -EINVAL);
    ck_assert_int_eq(symlink("f", files_place("l")), 0);
    set.node = files_node("l");
    set.mask = FY_FILES_SET_MODE;
    set.mode = 0600;
    ck_assert_int_eq(call(set), -EOPNOTSUPP);
    set.mask = FY_FILES_SET_MTIME;
    ck_assert_int_eq(call(set), 0);
    ck_assert_int_eq(files_look("l").st_mtim.tv_sec, 1000000000);
    set.node = (struct fy_files_node){.ino = 1, .path = files_text("f")};
    ck_assert_int_eq(call(set), -ESTALE);
}
END_TEST

START_TEST(extended_attributes_and_space)
{
    files_put("f", "");
    struct fy_files_message set = {.type = FY_FILES_SETXATTR,
                                   .node = files_node("f"),
                                   .name = files_text("user.a"),
                                   .data = files_text("value")};
    if (call(set) != -EOPNOTSUPP) {
        char value[16];
        ck_assert_int_eq(getxattr(files_place("f"), "user.a", value, 16), 5);
        set.flags = XATTR_CREATE;
        ck_assert_int_eq(call(set), -EEXIST);
        struct fy_files_message get = {.type = FY_FILES_GETXATTR,
                                       .node = files_node("f"),
                                       .name = files_text("user.a")};
        ck_assert_int_eq(call(get), 0);
        files_same(&answer, "value");
        get.type = FY_FILES_LISTXATTR;
        ck_assert_int_eq(call(get), 0);
        ck_assert_uint_ge(answer.data.n, 7);
        get.type = FY_FILES_REMOVEXATTR;
        ck_assert_int_eq(call(get), 0);
        ck_assert_int_eq(call(get), -ENODATA);
    }
    set.name = files_text("security.capability");
    set.flags = 0;
    ck_assert_int_eq(call(set), -EPERM);
    ck_assert_int_eq(call((struct fy_files_message){.type = FY_FILES_STATFS,
                                                    .node = files_node("")}),
                     0);
    ck_assert_uint_gt(answer.mask, 0);
    ck_assert_uint_ge(answer.flags, 255);
    ck_assert_int_eq(symlink("target", files_place("l")), 0);
    struct fy_files_message link = {.type = FY_FILES_READLINK,
                                    .node = files_node("l")};
    ck_assert_int_eq(call(link), 0);
    files_same(&answer, "target");
    link.node = files_node("f");
    ck_assert_int_eq(call(link), -EINVAL);
}
END_TEST

int
main(void)
{
    Suite *all = suite_create("files_server");
    TCase *requests = files_case(all, "requests", 0);
    tcase_add_test(requests, lookup_tells_attributes_targets_and_absence);
    tcase_add_test(requests, make_makes_each_kind);
    tcase_add_test(requests, a_path_never_follows_a_link);
    tcase_add_test(requests, link_remove_and_rename_tell_what_is_left);
    tcase_add_test(requests, what_is_kept_outlives_its_name);
    tcase_add_test(requests, what_is_made_can_be_held_and_emptied);
    tcase_add_test(requests, what_is_open_at_the_client_is_held);
    tcase_add_test(requests, read_and_write_name_their_offsets);
    tcase_add_test(requests, holes_space_and_copies);
    tcase_add_test(requests, fetch_answers_each_node_in_order);
    tcase_add_test(requests, reading_leaves_the_access_time);
    tcase_add_test(requests, list_tells_a_folder_or_a_tree);
    tcase_add_test(requests, list_tells_a_large_folder_in_parts);
    tcase_add_test(requests, setattr_sets_what_the_mask_says);
    tcase_add_test(requests, extended_attributes_and_space);
    return run_suite(all);
}
