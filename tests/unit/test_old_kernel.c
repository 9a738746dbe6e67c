/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Newer system calls by older ones: opened by parts, each path of a tree with links of
 * all kinds leads to the file, or to the error, that openat2(2) itself gives; and an
 * exchange of names meanwhile leads out of no root.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/kernel.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

enum {
    ANSWERS_MAX = 4096
};

static char folder[] = "/tmp/ferry-test-XXXXXX";
static int top;

static void
make(const char *name)
{
    int fd = openat(top, name, O_CREAT | O_WRONLY, 0644);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void
setup(void)
{
    strcpy(folder, "/tmp/ferry-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    top = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(top, 0);
    ck_assert_int_eq(mkdirat(top, "outside", 0755), 0);
    ck_assert_int_eq(mkdirat(top, "root", 0755), 0);
    ck_assert_int_eq(mkdirat(top, "root/a", 0755), 0);
    ck_assert_int_eq(mkdirat(top, "root/a/b", 0755), 0);
    make("outside/f");
    make("root/f");
    make("root/a/f");
    make("root/a/b/f");
    static const char *const links[][2] = {
        {"a", "root/inside"},
        {"a/b/f", "root/file"},
        {"../a/b", "root/a/again"},
        {"../../outside", "root/a/leaves"},
        {"/a", "root/absolute"},
        {"/tmp", "root/tmp"},
        {"loop", "root/loop"},
        {"none", "root/dangling"},
        {"inside/b/", "root/slash"},
        {".", "root/self"},
        {"a/b/../..", "root/around"},
        {"/proc/self/cwd", "root/magic"},
        {"..", "root/up"},
    };
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        ck_assert_int_eq(symlinkat(links[i][0], top, links[i][1]), 0);
    }
    close(top);
    char root[64];
    (void)snprintf(root, sizeof root, "%s/root", folder);
    top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(top, 0);
}

static void
teardown(void)
{
    char command[64];
    close(top);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* From now on the kernel lacks the calls. */
static void
forget_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static const char *const paths[] = {
    ".",           "f",           "a",        "a/",         "a/b/f",
    "a//b/./f",    "f/",          "f/x",      "none",       "none/x",
    "a/none",      "..",          "a/..",     "a/../f",     "a/b/../../f",
    "a/../..",     "inside",      "inside/f", "inside/",    "file",
    "file/",       "a/again/f",   "a/again",  "a/leaves",   "a/leaves/f",
    "absolute",    "absolute/f",  "tmp",      "loop",       "loop/x",
    "dangling",    "dangling/x",  "slash",    "slash/f",    "self/self/f",
    "around/f",    "magic",       "magic/f",  "up",         "up/outside/f",
    "/a/f",        "/",           "/..",      "/proc/self", "inside/..",
    "inside/../f", "a/again/../f"};
static const uint64_t resolves[] = {
    RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
    RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    RESOLVE_NO_SYMLINKS,
    RESOLVE_NO_MAGICLINKS,
};
static const uint64_t flags[] = {
    O_PATH,   O_PATH | O_NOFOLLOW,   O_PATH | O_DIRECTORY,
    O_RDONLY, O_RDONLY | O_NOFOLLOW, O_RDONLY | O_DIRECTORY,
    O_WRONLY, O_RDWR | O_CREAT,      O_WRONLY | O_CREAT | O_EXCL,
};

struct answer {
    int error;
    dev_t device;
    ino_t inode;
};

static void
ask_all(struct answer *out)
{
    /* By the link "absolute", and as root, one in the root folder. */
    static const char *const made[] = {"none", "a/none", "outside", "/a"};
    const size_t nmade = sizeof made / sizeof *made - (access("/a", F_OK) == 0);
    for (size_t r = 0; r < sizeof resolves / sizeof *resolves; r++) {
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
            for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
                struct open_how how = {.flags = flags[f] | O_CLOEXEC,
                                       .mode = flags[f] & O_CREAT ? 0600 : 0,
                                       .resolve = resolves[r]};
                struct stat about = {0};
                int fd;
                /* Another process renames or mounts just now: ask again. */
                do {
                    fd = fy_openat2(top, paths[p], &how);
                } while (fd < 0 && errno == EAGAIN);
                int error = fd < 0 ? errno : 0;
                if (fd >= 0) {
                    ck_assert_int_eq(fstat(fd, &about), 0);
                    close(fd);
                }
                *out++ = (struct answer){error, fd < 0 ? 0 : about.st_dev,
                                         fd < 0 ? 0 : about.st_ino};
                /* A file that was made concerns no other question. */
                for (size_t i = 0; i < nmade; i++) {
                    if (unlinkat(top, made[i], 0) == 0) {
                        out[-1].inode = i;
                    }
                }
            }
        }
    }
}

START_TEST(each_path_leads_where_the_kernel_leads)
{
    static struct answer wanted[ANSWERS_MAX], found[ANSWERS_MAX];
    const size_t n = sizeof resolves / sizeof *resolves *
                     (sizeof flags / sizeof *flags) *
                     (sizeof paths / sizeof *paths);
    struct open_how how = {.flags = O_PATH};
    ck_assert_uint_le(n, ANSWERS_MAX);
    int fd = (int)syscall(SYS_openat2, top, ".", &how, sizeof how);
    if (fd < 0) {
        skip_test("no openat2");
        return;
    }
    close(fd);
    ask_all(wanted);
    forget_calls();
    ask_all(found);
    for (size_t i = 0; i < n; i++) {
        size_t p = i % (sizeof paths / sizeof *paths);
        size_t f =
            i / (sizeof paths / sizeof *paths) % (sizeof flags / sizeof *flags);
        size_t r =
            i / (sizeof paths / sizeof *paths) / (sizeof flags / sizeof *flags);
        /* Links of /proc are refused altogether. */
        if (found[i].error == ELOOP && strncmp(paths[p], "/proc", 5) == 0) {
            continue;
        }
        ck_assert_msg(
            wanted[i].error == found[i].error &&
                wanted[i].device == found[i].device &&
                wanted[i].inode == found[i].inode,
            "%s flags %llo resolve %llx: %s, not %s", paths[p],
            (unsigned long long)flags[f], (unsigned long long)resolves[r],
            strerrordesc_np(found[i].error), strerrordesc_np(wanted[i].error));
    }
}
END_TEST

/* Another process exchanges a folder and a link that leads outside. */
START_TEST(exchanged_names_lead_nowhere_else)
{
    struct stat outside, about;
    unsigned opened = 0, refused = 0;
    ck_assert_int_eq(fstatat(top, "../outside/f", &outside, 0), 0);
    ck_assert_int_eq(mkdirat(top, "e", 0755), 0);
    make("e/f");
    ck_assert_int_eq(symlinkat("../outside", top, "l"), 0);
    pid_t child = fork();
    if (child == 0) {
        for (;;) {
            (void)syscall(SYS_renameat2, top, "e", top, "l", 2);
        }
    }
    forget_calls();
    for (unsigned i = 0;
         i < 200000 && (opened < 100 || refused < 100 || i < 20000); i++) {
        struct open_how how = {.flags = O_RDONLY | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH};
        int fd = fy_openat2(top, "e/f", &how);
        ck_assert(fd >= 0 || errno == EXDEV || errno == EAGAIN ||
                  errno == ELOOP);
        if (fd >= 0) {
            ck_assert_int_eq(fstat(fd, &about), 0);
            ck_assert_uint_ne(about.st_ino, outside.st_ino);
            close(fd);
        }
        opened += fd >= 0;
        refused += fd < 0;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ck_assert_uint_gt(opened, 0);
    ck_assert_uint_gt(refused, 0);
}
END_TEST

START_TEST(descriptors_are_closed)
{
    forget_calls();
    int a = fcntl(top, F_DUPFD, 20), b = fcntl(top, F_DUPFD, 40);
    ck_assert(a >= 20 && b >= 40);
    fy_close_range((unsigned)a, (unsigned)b, true);
    ck_assert_int_eq(fcntl(a, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(b, F_GETFD), FD_CLOEXEC);
    fy_close_range((unsigned)a + 1, ~0U, false);
    ck_assert_int_eq(fcntl(a, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(b, F_GETFD), -1);
    close(a);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("old_kernel");
    TCase *tests = tcase_create("old_kernel");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, each_path_leads_where_the_kernel_leads);
    tcase_add_test(tests, exchanged_names_lead_nowhere_else);
    tcase_add_test(tests, descriptors_are_closed);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
