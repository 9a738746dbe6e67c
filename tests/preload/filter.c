/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that puts a filter of system calls upon itself, or tries to, between
 * calls of 80 functions: filter MODE. Compiled with FUNCTIONS(F), which is F(0) to
 * F(79); with -DLIBRARY it is their library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIBRARY
#define DEFINE(n)         \
    long work_##n(long x) \
    {                     \
        return x + n;     \
    }
FUNCTIONS(DEFINE)
#else

#ifndef FUNCTIONS /* the script says how many */
#define FUNCTIONS(F) F(1)
#endif
#define DECLARE(n) long work_##n(long x);
FUNCTIONS(DECLARE)

static void
say(const char *text, long number)
{
    char line[100];
    int bytes = snprintf(line, sizeof line, "%s: %ld\n", text, number);
    if (write(STDOUT_FILENO, line, (size_t)bytes) != bytes) {
        syscall(SYS_exit, 9);
    }
}

/* Few or all of the functions. */
static void
calls(int all)
{
    long sum = 0;
#define CALL(n)             \
    if (all || n < 4) {     \
        sum += work_##n(1); \
    }
    FUNCTIONS(CALL)
    say("sum", sum);
}

static int waits[2], begun[2];

/* A thread that is starting blocks and unblocks signals: it says when it has. */
static void *
waiting(void *unused)
{
    char byte = 0;
    (void)unused;
    return write(begun[1], &byte, 1) == 1 && read(waits[0], &byte, 1) == 1
               ? NULL
               : (void *)1;
}

/* A filter that ends who maps memory, blocks signals or opens a file. */
static struct sock_filter rows[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 3, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_fprog program = {sizeof rows / sizeof *rows, rows};

/* What a child does that has the parent's memory is not done to the parent. */
static void
in_child(const char *mode)
{
    static struct rlimit none;
    static volatile int refused;
    bool by_number = strcmp(mode, "child-number") == 0;
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        if (strcmp(mode, "child-limits") == 0) {
            setrlimit(RLIMIT_NOFILE, &none);
            setrlimit(RLIMIT_AS, &none);
            close_range(3, ~0U, 0);
        } else if (strcmp(mode, "child-strict") == 0) {
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
            syscall(SYS_exit, 0);
        } else if (strcmp(mode, "child-refused") == 0) {
            refused = (int)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
        } else {
            refused =
                (int)(by_number ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                          0, &program)
                                : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
                                        &program));
        }
        _exit(4);
    }
    waitpid(pid, &status, 0);
    say("child", status);
    say("refused", refused);
}

static long
change(const char *mode)
{
    unsigned action = SECCOMP_RET_ALLOW;
    if (strncmp(mode, "child", 5) == 0) {
        in_child(mode);
        return 0;
    }
    if (strcmp(mode, "asks") == 0) {
        return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) +
               prctl(PR_GET_SECCOMP) + prctl(PR_SET_NAME, "other");
    }
    if (strcmp(mode, "no-filter") == 0) {
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
    }
    if (strcmp(mode, "no-seccomp") == 0) {
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL);
    }
    if (strcmp(mode, "no-tsync") == 0) {
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                       SECCOMP_FILTER_FLAG_TSYNC, NULL);
    }
    if (strcmp(mode, "no-strict") == 0) {
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL);
    }
    if (strcmp(mode, "no-mode") == 0) {
        return syscall(SYS_prctl, PR_SET_SECCOMP, 99, NULL);
    }
    if (strcmp(mode, "strict") == 0) {
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    }
    if (strcmp(mode, "strict-seccomp") == 0) {
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
    }
    if (strcmp(mode, "seccomp") == 0) {
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    }
    if (strcmp(mode, "tsync") == 0) {
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                       SECCOMP_FILTER_FLAG_TSYNC, &program);
    }
    if (strcmp(mode, "number") == 0) {
        return syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
                       &program);
    }
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Asks the dynamic linker, and closes a library, under a filter that allows both. */
static void
closes(void *library)
{
    say("found", dlsym(library, "sin") && dlsym(RTLD_DEFAULT, "work_1"));
    say("closed", dlclose(library));
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    void *library = dlopen("libm.so.6", RTLD_NOW);
    pthread_t thread;
    char byte;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || pipe(waits) || pipe(begun)) {
        return 2;
    }
    if (strcmp(mode, "tsync") == 0 &&
        (pthread_create(&thread, NULL, waiting, NULL) ||
         read(begun[0], &byte, 1) != 1)) {
        return 3;
    }
    if (strcmp(mode, "first") != 0) {
        calls(0);
    }
    errno = 0;
    long result = change(mode);
    say("result", result);
    say("errno", errno);
    if (strcmp(mode, "closes") == 0) {
        closes(library);
    }
    calls(1);
    if (strcmp(mode, "again") == 0) { /* one that is refused, under another */
        say("again", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
        say("errno", errno);
        calls(1);
    }
    if (strcmp(mode, "tsync") == 0) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): this mode started it */
        return write(waits[1], "", 1) != 1 || pthread_join(thread, NULL);
    }
    syscall(SYS_exit, 5); /* all that is left in the strict mode */
}
#endif
