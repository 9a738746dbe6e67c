/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that runs the command, see the header. All signals are taken with
 * sigwaitinfo(), so there is no handler and no race between them and the wait.
 */
#include "config.h"

#include "tools/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/wire/process.h"
#include "tools/tool.h"

/* Signals that are passed on; others act on this process as they always do. */
static const int passed_on[] = {
    SIGHUP,  SIGINT,   SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,   SIGALRM, SIGTSTP,
    SIGCONT, SIGWINCH, SIGURG,  SIGIO,   SIGPWR,  SIGVTALRM, SIGPROF,
};

/* One line for an exec that failed, and the status a shell gives it. */
static int
cannot_start(const char *name, int cause)
{
    fy_say("cannot run '%s': %s", name, strerror(cause));
    return cause == ENOENT || cause == ENOTDIR ? FY_EXIT_NOT_FOUND
                                               : FY_EXIT_CANNOT_RUN;
}

/* Signals whose default would end us before the program starts or is told of. */
static const int survived[] = {SIGXFSZ, SIGPIPE};
static struct sigaction survived_before[2];
static sigset_t mask_before;
static bool surviving;

static void
block_passed_on(sigset_t *out_set, sigset_t *out_before)
{
    sigemptyset(out_set);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        sigaddset(out_set, passed_on[i]);
    }
    sigprocmask(SIG_BLOCK, out_set, out_before);
}

void
fy_child_survive(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (int i = 0; i < 2; i++) {
        sigaction(survived[i], &ignore, &survived_before[i]);
    }
    sigset_t set;
    block_passed_on(&set, &mask_before);
    surviving = true;
}

/* Restores the signals that this process was started with, for the command. */
static void
restore_signals(void)
{
    for (int i = 0; surviving && i < 2; i++) {
        sigaction(survived[i], &survived_before[i], NULL);
    }
    if (surviving) {
        sigprocmask(SIG_SETMASK, &mask_before, NULL);
    }
}

static bool
is_handled(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 &&
           action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

enum {
    TIMERS = 3
};
static const int timers[TIMERS][2] = {{ITIMER_REAL, SIGALRM},
                                      {ITIMER_VIRTUAL, SIGVTALRM},
                                      {ITIMER_PROF, SIGPROF}};

/*
 * Stops the timers that the command is to have, and returns their remaining times: those
 * that go on over exec and whose signal has no handler here. Such a timer was set
 * before ferry began. One with a handler was set by a library preloaded into this
 * process, for a profile; its signal would end the command.
 */
static void
take_timers(struct itimerval out[TIMERS])
{
    const struct itimerval never = {{0, 0}, {0, 0}};
    for (size_t i = 0; i < TIMERS; i++) {
        out[i] = never;
        if (!is_handled(timers[i][1])) {
            setitimer(timers[i][0], &never, &out[i]);
        }
    }
}

/* Sets timers of the calling process: all begin anew, but those that say
 * zero do not. */
static void
set_timers(const struct itimerval left[TIMERS])
{
    for (size_t i = 0; i < TIMERS; i++) {
        if (timerisset(&left[i].it_value)) {
            setitimer(timers[i][0], &left[i], NULL);
        }
    }
}

static void
stop_handled_timers(void)
{
    const struct itimerval never = {{0, 0}, {0, 0}};
    for (size_t i = 0; i < TIMERS; i++) {
        if (is_handled(timers[i][1])) {
            setitimer(timers[i][0], &never, NULL);
        }
    }
}

int
fy_child_become(char *const *command)
{
    stop_handled_timers();
    restore_signals();
    execvp(command[0], command);
    return cannot_start(command[0], errno);
}

/* In the child: exec, or the cause through the pipe. Never returns. */
static void
child_main(char *const *command, char *const *instead, int report_fd,
           const sigset_t *mask, const struct sigaction *on_child)
{
    sigaction(SIGCHLD, on_child, NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    restore_signals(); /* with the mask of the beginning, if it is known */
    if (instead) {
        execv(instead[0], instead);
    }
    execvp(command[0], command);
    int cause = errno;
    while (write(report_fd, &cause, sizeof cause) < 0 && errno == EINTR) {
        ;
    }
    _exit(FY_EXIT_CANNOT_RUN);
}

/* The parent of a process, 0 when it cannot be told. */
static pid_t
parent_of(pid_t process)
{
    char name[16];
    struct fy_process row;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(name, sizeof name, "%d", (int)process);
    bool known = proc >= 0 && fy_process_read(proc, name, &row);
    if (proc >= 0) {
        close(proc);
    }
    return known ? row.parent : 0;
}

/*
 * Returns true if the signal reached the child as well: from the terminal or
 * the kernel it did, and a signal of the child's own family (kill 0) is meant
 * for the whole group. Anything else was meant for the program, but sent to
 * ferry.
 */
static bool
reached_child_too(const siginfo_t *info, pid_t child)
{
    if (info->si_code != SI_USER && info->si_code != SI_QUEUE &&
        info->si_code != SI_TKILL) {
        for (size_t i = 0; i < TIMERS; i++) {
            if (info->si_signo == timers[i][1]) { /* expired as ferry began */
                return is_handled(info->si_signo);
            }
        }
        /* A terminal that is closed tells its session's leader, which a shell
         * with job control would be without us, and the foreground group. */
        return info->si_signo != SIGHUP || getsid(0) != getpid() ||
               getpgid(child) == getpgrp();
    }
    pid_t sender = info->si_pid;
    for (int depth = 0; sender > 1 && depth < 64; depth++) {
        if (sender == child) {
            return true;
        }
        sender = parent_of(sender);
    }
    return false;
}

/*
 * Takes the child's state changes. True when it has ended. A job control stop
 * stops us too, and the shell's SIGCONT wakes both. A plain SIGSTOP does not:
 * who sent it to the child alone will continue the child alone.
 */
static bool
child_ended(pid_t child, int *out_status)
{
    int status;
    pid_t found;
    while ((found = waitpid(child, &status, WNOHANG | WUNTRACED)) == child ||
           (found < 0 && errno == EINTR)) {
        if (found < 0) {
            continue;
        }
        if (!WIFSTOPPED(status)) {
            *out_status = status;
            return true;
        }
        if (WSTOPSIG(status) == SIGSTOP) {
            continue;
        }
        kill(getpid(), SIGSTOP);
        kill(child, SIGCONT);
    }
    if (found < 0 && errno == ECHILD) {
        *out_status = FY_EXIT_CANNOT_RUN << 8; /* nobody can say */
        return true;
    }
    return false;
}

/* Waits for the end of the child, passing signals on. */
static int
wait_for(pid_t child, const sigset_t *set, const struct fy_child *watched)
{
    const struct timespec second = {.tv_sec = 1};
    int status;
    while (!child_ended(child, &status)) {
        siginfo_t info;
        int number = watched->each_second ? sigtimedwait(set, &info, &second)
                                          : sigwaitinfo(set, &info);
        if (number < 0 && errno == EAGAIN) {
            watched->each_second(watched->owner);
        }
        if (number > 0 && number != SIGCHLD &&
            !reached_child_too(&info, child)) {
            kill(child, number);
        }
    }
    return status;
}

int
fy_child_run(char *const *command, char *const *instead, struct fy_child *out)
{
    int ends[2];
    sigset_t set, before;
    struct sigaction normal = {.sa_handler = SIG_DFL}, old_child;
    out->wait_status = out->exec_errno = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return FY_ERR_IO;
    }
    block_passed_on(&set, &before);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    /* An inherited "ignore" would reap the child behind our back. */
    sigaction(SIGCHLD, &normal, &old_child);
    struct itimerval left[TIMERS];
    take_timers(left); /* a child has none by itself */
    pid_t child = fork();
    if (child == 0) {
        set_timers(left);
        child_main(command, instead, ends[1], &before, &old_child);
    }
    close(ends[1]);
    if (child < 0) {
        set_timers(left);
        close(ends[0]);
        sigaction(SIGCHLD, &old_child, NULL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        return FY_ERR_IO;
    }
    ssize_t n;
    while ((n = read(ends[0], &out->exec_errno, sizeof out->exec_errno)) < 0 &&
           errno == EINTR) {
        ;
    }
    if (n != (ssize_t)sizeof out->exec_errno) {
        out->exec_errno = 0;
    }
    close(ends[0]);
    out->wait_status = wait_for(child, &set, out);
    sigaction(SIGCHLD, &old_child, NULL);
    /* Still blocked: a late Ctrl-C must not cut the report short. */
    return 0;
}

int
fy_child_imitate(const struct fy_child *child, char *const *command)
{
    if (child->exec_errno) {
        return cannot_start(command[0], child->exec_errno);
    }
    if (WIFSIGNALED(child->wait_status)) {
        int number = WTERMSIG(child->wait_status);
        struct rlimit no_core = {0, 0};
        struct sigaction normal = {.sa_handler = SIG_DFL};
        sigset_t only;
        setrlimit(RLIMIT_CORE, &no_core); /* the child's dump is the real one */
        sigaction(number, &normal, NULL);
        sigemptyset(&only);
        sigaddset(&only, number);
        kill(getpid(), number);
        sigprocmask(SIG_UNBLOCK, &only, NULL);
        return 128 + number;
    }
    return WEXITSTATUS(child->wait_status);
}
