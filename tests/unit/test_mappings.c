/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/client/mappings.c and proxy/client/barrier.c: which files are opened and
 * closed, which writes back their mappings, as inotify(7) sees it; with the query of
 * Linux 6.11 and without. On a file system of memory that only this test mounts.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/client/barrier.h"
#include "proxy/client/mappings.h"
#include "tests/unit/nocall.h"
#include "tests/unit/nomem.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"
#include "tests/unit/stage.h"

static uint64_t device;
static int notes = -1; /* what was opened in the folder */
static pid_t mapper;
static bool possible;

static void
write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void
setup(void)
{
    make_base("mappings");
    possible = namespaces_here();
    if (!possible) {
        return;
    }
    char map[2][32];
    unsigned ids[] = {geteuid(), getegid()};
    bool all = geteuid() == 0;
    ck_assert_int_eq(unshare(CLONE_NEWNS | (all ? 0 : CLONE_NEWUSER)), 0);
    for (int i = 0; !all && i < 2; i++) {
        (void)snprintf(map[i], sizeof map[i], "%u %u 1", ids[i], ids[i]);
        write_text(i ? "/proc/self/gid_map" : "/proc/self/setgroups",
                   i ? map[i] : "deny");
        if (i == 0) {
            write_text("/proc/self/uid_map", map[0]);
        }
    }
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    ck_assert_int_eq(mount("none", base, "tmpfs", 0, NULL), 0);
    struct stat about;
    ck_assert_int_eq(stat(base, &about), 0);
    device = about.st_dev;
    ck_assert_int_eq(chdir(base), 0);
    write_text("file", "one\n");
    notes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    ck_assert_int_ge(notes, 0);
}

static void
end_mapper(void)
{
    if (mapper > 0) {
        ck_assert_int_eq(kill(mapper, SIGKILL), 0);
        ck_assert_int_eq(waitpid(mapper, NULL, 0), mapper);
    }
    mapper = 0;
}

static void
teardown(void)
{
    end_mapper();
    ck_assert_int_eq(chdir("/"), 0);
    if (!possible || umount2(base, MNT_DETACH) == 0) {
        ck_assert_int_eq(rmdir(base), 0);
    }
}

static void *
sleep_on(void *ready)
{
    ck_assert_int_eq(write(*(int *)ready, "", 1), 1);
    for (;;) {
        pause();
    }
}

/* A process that has written to a shared mapping of the file; `alone': its first
 * thread has ended. */
static void
map(const char *path, bool alone)
{
    int ends[2];
    char ready;
    ck_assert_int_eq(pipe(ends), 0);
    mapper = fork();
    if (mapper == 0) {
        int fd = open(path, O_RDWR);
        char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) {
            _exit(1);
        }
        close(fd);
        at[0] = 'X';
        if (alone) {
            pthread_t thread;
            pthread_create(&thread, NULL, sleep_on, &ends[1]);
            pthread_exit(NULL);
        }
        (void)sleep_on(&ends[1]);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &ready, 1), 1);
    close(ends[0]);
    /* The kernel says so a moment later. */
    char status[64], text[32] = "";
    (void)snprintf(status, sizeof status, "/proc/%d/maps", (int)mapper);
    for (bool shown = alone; shown;) {
        int fd = open(status, O_RDONLY | O_CLOEXEC);
        shown = fd >= 0 && read(fd, text, sizeof text) > 0;
        close(fd);
    }
}

/* How often a file of that name was opened and closed since the last question. */
static unsigned
openings(const char *name)
{
    _Alignas(struct inotify_event) char block[8192];
    unsigned n = 0;
    ssize_t bytes;
    while ((bytes = read(notes, block, sizeof block)) > 0) {
        for (char *at = block; at < block + bytes;) {
            struct inotify_event *event = (struct inotify_event *)at;
            n += event->len && strcmp(event->name, name) == 0 &&
                 (event->mask & IN_CLOSE);
            at += sizeof *event + event->len;
        }
    }
    return n;
}

static void
watch(const char *folder)
{
    ck_assert_int_ge(inotify_add_watch(notes, folder, IN_OPEN | IN_CLOSE), 0);
    (void)openings("");
}

/* With the kernel's query, or as a kernel without it; the status. */
static int
write_back(bool query, bool *out_some)
{
    nocall_always(query ? NULL : "ioctl", 0, ENOTTY);
    int status = fy_mappings_write(device, out_some);
    (void)nocall_reached();
    return status;
}

static void
check(const char *name, unsigned opened, bool some, int want)
{
    for (int query = 0; query < 2; query++) {
        bool got = !some;
        ck_assert_int_eq(write_back(query, &got), want);
        if (!want) {
            ck_assert(got == some);
        }
        ck_assert_uint_eq(openings(name), opened);
    }
}

#define NEEDS_MOUNTS()              \
    if (!possible) {                \
        skip_test("no namespaces"); \
        return;                     \
    }

START_TEST(mapped_file_is_opened_and_closed)
{
    NEEDS_MOUNTS();
    watch(".");
    check("file", 0, false, 0);
    map("file", _i);
    check("file", 1, true, 0);
    end_mapper();
    (void)openings(""); /* its own mapping's */
    check("file", 0, false, 0);
}
END_TEST

START_TEST(removed_file_has_nothing_to_be_read)
{
    NEEDS_MOUNTS();
    watch(".");
    map("file", false);
    ck_assert_int_eq(unlink("file"), 0);
    check("file", 0, true, 0);
    /* Another one of its name is not the one that is mapped. */
    write_text("file", "new\n");
    (void)openings("");
    check("file", 0, true, 0);
}
END_TEST

START_TEST(name_may_end_like_that_of_a_removed_file)
{
    NEEDS_MOUNTS();
    write_text("file (deleted)", "two\n");
    watch(".");
    map("file (deleted)", false);
    check("file (deleted)", 1, true, 0);
    /* The name without the mark is another link of the same file. */
    ck_assert_int_eq(unlink("file"), 0);
    ck_assert_int_eq(rename("file (deleted)", "file"), 0);
    check("file", 1, true, 0);
}
END_TEST

/* What lies over a mapped file may hang: it is not asked. */
START_TEST(covered_file_cannot_be_reached)
{
    NEEDS_MOUNTS();
    ck_assert_int_eq(mkdir("deep", 0755), 0);
    write_text("deep/file", "two\n");
    map("deep/file", false);
    ck_assert_int_eq(mount("none", "deep", "tmpfs", 0, NULL), 0);
    write_text("deep/file", "three\n");
    watch("deep");
    check("file", 0, true, FY_ERR_IO);
    ck_assert_int_eq(umount("deep"), 0);
    /* Its folder was renamed: the kernel tells the new name. */
    ck_assert_int_eq(rename("deep", "deeper"), 0);
    watch("deeper");
    check("file", 1, true, 0);
}
END_TEST

/* One that its owner may only write. */
START_TEST(file_may_be_for_writing_alone)
{
    NEEDS_MOUNTS();
    ck_assert_int_eq(chmod(base, 0777), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown("file", 65534, 65534), 0);
        become_ordinary_user();
    }
    map("file", false);
    watch(".");
    ck_assert_int_eq(chmod("file", 0200), 0);
    check("file", 1, true, 0);
    ck_assert_int_eq(chmod("file", 0), 0);
    if (open("file", O_RDONLY | O_CLOEXEC) < 0) { /* no privileges left */
        check("file", 0, true, FY_ERR_IO);
    }
}
END_TEST

static unsigned
open_files(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

/* A barrier says that all is written, and then it is, or that it cannot tell. */
START_TEST(failing_call_is_no_success)
{
    NEEDS_MOUNTS();
    static const int errors[] = {EMFILE, EIO, ENOMEM};
    static struct fy_mount fuse = {
        .type = "fuse.test", .traits = FY_MOUNT_FUSE, .pid = -1};
    struct fy_quiet quiet = {0};
    (void)snprintf(fuse.path, sizeof fuse.path, "%s", base);
    fuse.device = device;
    unsigned files = open_files(), failures = 0, n = 1;
    map("file", _i % 2);
    watch(".");
    for (bool hit = true; hit; n++) {
        bool memory = _i >= 6;
        ck_assert_uint_lt(n, 100000);
        nocall_at(memory ? 0 : n, errors[(unsigned)_i / 2 % 3]);
        nomem_at(memory ? n : 0);
        int status = fy_barrier(&fuse, &quiet);
        const char *call = nocall_reached();
        hit = nomem_reached() || call;
        ck_assert_msg(status != 0 || openings("file") == 1, "%u: %s", n,
                      call ? call : "malloc");
        (void)openings("");
        failures += status != 0;
        ck_assert_uint_eq(open_files(), files);
    }
    ck_assert_uint_gt(failures, 0);
    ck_assert_uint_lt(failures, n - 1);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("mappings");
    TCase *tests = tcase_create("mappings");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 200);
    tcase_add_loop_test(tests, mapped_file_is_opened_and_closed, 0, 2);
    tcase_add_test(tests, removed_file_has_nothing_to_be_read);
    tcase_add_test(tests, name_may_end_like_that_of_a_removed_file);
    tcase_add_test(tests, covered_file_cannot_be_reached);
    tcase_add_test(tests, file_may_be_for_writing_alone);
    tcase_add_loop_test(tests, failing_call_is_no_success, 0, 8);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
