/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine allows the tests, asked of the kernel itself: a ferry that
 * wrongly believes that something is impossible must fail its tests, not skip
 * them. ./check compares what is skipped with tests/skips.
 */
#ifndef FERRY_TESTS_POSSIBLE_H
#define FERRY_TESTS_POSSIBLE_H

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* Says on a line for ./check that the test, which returns then, checks nothing. */
#define skip_test(...)                                         \
    do {                                                       \
        printf("skip %s: ", __func__);                         \
        printf(__VA_ARGS__);                                   \
        (void)putchar('\n');                                   \
        (void)fflush(stdout); /* a test may end by a signal */ \
    } while (0)

/* Landlock's version, 0 without. */
static inline unsigned
landlock_here(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, 1U);
    return version > 0 ? (unsigned)version : 0;
}

/* Whether a child of this process can have mounts that no other process sees;
 * an ordinary user needs a user namespace for that. */
static inline bool
namespaces_here(void)
{
    int flags = CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER), status = 1;
    pid_t child = fork();
    if (child == 0) {
        _exit(unshare(flags) ||
              mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
              mount("none", "/tmp", "tmpfs", 0, NULL));
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

#endif
