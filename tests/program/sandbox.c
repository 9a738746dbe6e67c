/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls where a system call that the program does not make ends it. Modes:
 * declined, threads, handlers: after the first two of each kind calls of one size are
 * made while each system call, whoever makes it, ends the process (by SIGSYS, see
 * PR_SET_SYSCALL_USER_DISPATCH; the kernel wants Linux 5.11): by one thread, by
 * eight, between handlers. prctl, number (of prctl), seccomp, tsync, thread, strict:
 * a filter is installed, after which only write and exit are left (to one of two threads: thread);
 * early: before the first call; refused: the kernel does not take it; inherited: one
 * that was there when the program was started, and takes nothing that it needs.
 */
#include "common.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON           1
#endif

enum {
    SMALL = 110, /* passes the predicate of dgemm, as */
    LARGE = 320,
    LONG = 70000, /* of ddot, */
    WIDE = 280,   /* of dgemv do */
    THREADS = 8,
};

static const char *mode;
static volatile sig_atomic_t ticks;

struct work {
    double a[LARGE * LARGE], b[LARGE * LARGE], c[LARGE * LARGE];
    int wrong;
};
static struct work all[THREADS];

/* Ones times ones: the result is n everywhere. */
static void
product(struct work *w, integer n)
{
    const double one = 1, zero = 0;

    dgemm_("N", "N", &n, &n, &n, &one, w->a, &n, w->b, &n, &zero, w->c, &n);
    w->wrong += w->c[0] != n || w->c[n * n - 1] != n;
}

static void
dot(struct work *w)
{
    const integer n = LONG, one = 1;

    w->wrong += ddot_(&n, w->a, &one, w->b, &one) != n;
}

static void
sums(struct work *w)
{
    const integer n = WIDE, step = 1;
    const double one = 1, zero = 0;

    dgemv_("N", &n, &n, &one, w->a, &n, w->b, &step, &zero, w->c, &step);
    w->wrong += w->c[0] != n || w->c[n - 1] != n;
}

static void
say(const char *text, long number)
{
    char line[100];
    int n = snprintf(line, sizeof line, "%s: %ld\n", text, number);

    if (write(STDOUT_FILENO, line, (size_t)n) != n) {
        syscall(SYS_exit, 9);
    }
}

/* ---- no system call -------------------------------------------------------- */

static __thread volatile char blocked;

static void
refused(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    blocked = 0;
    say("a system call was made", info->si_syscall);
    _exit(3);
}

/* Where a handler returns to makes one. */
static void *volatile restorer;

static void
tick(int number)
{
    (void)number;
    restorer = __builtin_return_address(0);
    ticks++;
}

static bool
may_block(void)
{
    return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON,
                 restorer ? restorer : 0, restorer ? 16 : 0, &blocked) == 0;
}

static void *
calls(void *argument)
{
    struct work *w = argument;
    bool blocks = may_block();

    for (int i = 0; i < 500 || (strcmp(mode, "handlers") == 0 && ticks < 40);
         i++) {
        blocked = blocks && i >= 2;
        dot(w);
        sums(w);
        if (i % 20 < 2) {
            product(w, SMALL);
        }
        blocked = 0;
    }
    return NULL;
}

static int
unasked(void)
{
    struct sigaction action = {.sa_sigaction = refused, .sa_flags = SA_SIGINFO};
    const struct itimerval every = {{0, 500}, {0, 500}};
    pthread_t thread[THREADS];
    int n = strcmp(mode, "threads") == 0 ? THREADS : 1, wrong = 0;

    sigaction(SIGSYS, &action, NULL);
    if (strcmp(mode, "handlers") == 0) {
        action = (struct sigaction){.sa_handler = tick};
        sigaction(SIGALRM, &action, NULL);
        raise(SIGALRM);
        setitimer(ITIMER_REAL, &every, NULL);
    }
    for (int i = 0; i < n; i++) {
        pthread_create(&thread[i], NULL, calls, &all[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
        wrong += all[i].wrong;
    }
    say("wrong", wrong);
    return 0;
}

/* ---- filters ----------------------------------------------------------------- */

static void
install(void)
{
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rows / sizeof *rows, rows};
    long result;

    if (strcmp(mode, "inherited") == 0) {
        rows[1].k = rows[2].k = rows[3].k = SYS_ptrace;
        rows[4].k = SECCOMP_RET_ALLOW;
        rows[5].k = SECCOMP_RET_KILL_PROCESS;
    }

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (strcmp(mode, "strict") == 0) {
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    } else if (strcmp(mode, "refused") == 0) {
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL);
        say("refused", result == -1 && errno == EFAULT);
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
        result = result == -1 && errno == EFAULT ? 0 : 1;
    } else if (strcmp(mode, "seccomp") == 0 || strcmp(mode, "thread") == 0) {
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    } else if (strcmp(mode, "tsync") == 0) {
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                         SECCOMP_FILTER_FLAG_TSYNC, &program);
    } else if (strcmp(mode, "number") == 0) {
        result =
            syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    } else {
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
    say("filter", result);
}

static void
some(struct work *w)
{
    for (int i = 0; i < 5; i++) {
        product(w, SMALL);
        product(w, LARGE);
        product(w, 200 + i);
        dot(w);
    }
}

static volatile bool done;

/* Cannot end: that takes system calls. */
static void *__attribute__((noreturn)) filtered(void *unused)
{
    (void)unused;
    some(&all[1]);
    install();
    some(&all[1]);
    say("in the thread", all[1].wrong);
    done = true;
    for (;;) {
        __builtin_ia32_pause();
    }
}

int
main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "prctl";
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < LARGE * LARGE; k++) {
            all[i].a[k] = all[i].b[k] = 1;
        }
    }
    if (strcmp(mode, "declined") == 0 || strcmp(mode, "threads") == 0 ||
        strcmp(mode, "handlers") == 0) {
        return unasked();
    }
    if (strcmp(mode, "inherited") == 0 && argc == 2) {
        char *const again[] = {argv[0], argv[1], argv[1], NULL};
        install();
        execv(argv[0], again);
        return 4;
    }
    if (strcmp(mode, "early") != 0) {
        some(&all[0]);
    }
    if (strcmp(mode, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, filtered, NULL);
        while (!done) {
            usleep(1000);
        }
    } else if (strcmp(mode, "inherited") != 0) {
        install();
    }
    some(&all[0]);
    say("wrong", all[0].wrong);
    if (strcmp(mode, "strict") == 0) {
        syscall(SYS_exit, 5); /* exit_group is not in it */
    }
    return 0;
}
