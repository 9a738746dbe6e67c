/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Experiments in forked children, see the header. The parent runs on a thread
 * of the host program and must not be noticed there; the child may do as it
 * likes, but must not reach what it shares with the host: open files (exit
 * handlers would flush them twice), the terminal, other processes.
 */
#include "config.h"

#include "pager/verify/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/clock.h"
#include "pager/base/lasting.h"
#include "pager/bind/bind.h"
#include "pager/device/host_memory.h"
#include "pager/execute/hostmem.h"

enum {
    HANDLER_STACK_BYTES = 64 * 1024
};

/* In the child only. */
static struct fy_child_report *report_here;
static pid_t child_pid;
static int sink = -1; /* what the child writes to open files */

void *
fy_shared_new(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void
fy_shared_free(void *shared, size_t bytes)
{
    if (shared) {
        munmap(shared, bytes);
    }
}

static void
on_signal(int signal_number, siginfo_t *info, void *opaque)
{
    const ucontext_t *context = opaque;
    struct fy_child_report *r = report_here;
    if (r && getpid() == child_pid) {
        r->signal = signal_number;
        r->address = (uint64_t)(uintptr_t)info->si_addr;
        /* A general protection fault (unaligned vector, wild address) has
         * no address. */
        r->has_address = signal_number == SIGBUS ||
                         (signal_number == SIGSEGV && info->si_code > 0 &&
                          info->si_code != SI_KERNEL);
#ifdef __x86_64__
        r->write = (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#endif
        r->end = FY_CHILD_FAULT;
        if (r->on_fault) {
            r->on_fault(r, r->context);
        }
    }
    _exit(1);
}

/* exit() of the host's libraries must not flush the host's files. */
static void
on_exit_call(int status, void *unused)
{
    (void)unused;
    if (!report_here || getpid() != child_pid) {
        return;
    }
    report_here->exit_status = status;
    report_here->end = FY_CHILD_EXITED;
    _exit(1);
}

/* What the child writes stays with it. */
static void
sink_writes(void)
{
    DIR *all = opendir("/proc/self/fd");
    sink = memfd_create("", MFD_CLOEXEC);
    if (!all || sink < 0 || fcntl(sink, F_SETFL, O_APPEND) != 0) {
        sink = -1;
        return;
    }
    for (struct dirent *row; (row = readdir(all));) {
        int fd = atoi(row->d_name);
        int flags = fcntl(fd, F_GETFL);
        if (row->d_name[0] != '.' && fd != 0 && fd != dirfd(all) &&
            fd != sink && flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) {
            dup2(sink, fd);
        }
    }
    closedir(all);
}

int64_t
fy_child_written(void)
{
    struct stat st;
    if (sink < 0 || fflush(NULL) != 0 || fstat(sink, &st) != 0) {
        return -1;
    }
    return st.st_size;
}

static void
isolate(struct fy_child_report *report)
{
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGABRT, SIGTRAP, SIGSYS};
    child_pid = getpid();
    report_here = report;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        for (int fd = 0; fd <= 2; fd++) {
            dup2(null, fd);
        }
    }
    sink_writes();
    on_exit(on_exit_call, NULL);

    stack_t stack = {.ss_sp = fy_lasting(HANDLER_STACK_BYTES),
                     .ss_size = HANDLER_STACK_BYTES};
    if (stack.ss_sp) {
        sigaltstack(&stack, NULL);
    }
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    sigset_t mask;
    sigfillset(&mask); /* the host's own handlers stay out of this */
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sigaction(faults[i], &action, NULL);
        sigdelset(&mask, faults[i]);
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
#ifdef __x86_64__
    __builtin_ia32_ldmxcsr(0x1f80); /* floating-point traps off */
#endif
}

/* A mapping becomes anonymous memory of this process with the same bytes. */
static int
replace_mapping(char *at, size_t bytes)
{
    if (bytes > fy_host_available_bytes() / 2) {
        return FY_ERR_NOMEM;
    }
    char *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED) {
        return FY_ERR_NOMEM;
    }
    for (size_t done = 0; done < bytes;) {
        struct iovec to = {copy + done, bytes - done};
        struct iovec from = {at + done, bytes - done};
        ssize_t n = process_vm_readv(gettid(), &to, 1, &from, 1, 0);
        if (n <= 0 && done == 0) {
            munmap(copy, bytes);
            return FY_ERR_IO;
        }
        if (n <= 0) {
            break; /* behind the end of a file */
        }
        done += (size_t)n;
    }
    return mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) ==
                   MAP_FAILED
               ? FY_ERR_IO
               : 0;
}

struct mapping {
    uint64_t start, end;
    bool shared;
};

/* Mappings under the ranges that others see, or that cannot be written. */
static int
foreign_mappings(const struct fy_range *ranges, size_t count,
                 struct mapping *out, size_t room, size_t *found)
{
    char line[512], access[8];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) {
        return FY_ERR_IO;
    }
    *found = 0;
    while (*found < room && fgets(line, sizeof line, maps)) {
        struct mapping *m = &out[*found];
        bool touched = false;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &m->start, &m->end,
                   access) != 3) {
            continue; /* the rest of a long name */
        }
        m->shared = access[3] == 's';
        for (size_t i = 0; i < count; i++) {
            uint64_t start = ranges[i].start;
            touched |= start < m->end && start + ranges[i].bytes > m->start;
        }
        *found +=
            touched && access[0] == 'r' && (m->shared || access[1] != 'w');
    }
    (void)fclose(maps);
    return *found < room ? 0 : FY_ERR_IO;
}

int
fy_child_own(const struct fy_bound *call)
{
    struct fy_range ranges[FY_MAX_OPERANDS];
    struct mapping rows[64];
    size_t found, count = 0;
    bool overflow;
    for (unsigned o = 0; o < call->function->noperands; o++) {
        count += fy_view_range(&call->views[o], &ranges[count], &overflow);
    }
    int status = foreign_mappings(ranges, count, rows,
                                  sizeof rows / sizeof rows[0], &found);
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): set where status is 0 */
    for (size_t i = 0; i < found && status == 0; i++) {
        char *at = (char *)(uintptr_t)rows[i].start;
        size_t bytes = rows[i].end - rows[i].start;
        if (rows[i].shared) {
            status = replace_mapping(at, bytes);
        } else if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
            status = FY_ERR_IO;
        }
    }
    return status;
}

/* Whether the child has ended (reaped or not) before the deadline. */
static bool
wait_until(pid_t pid, int64_t deadline)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    for (;;) {
        int64_t left = deadline - fy_clock_ms();
        if (fd >= 0) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            int n = poll(&p, 1, left > 0 ? (int)left : 0);
            if (n > 0 || left <= 0) {
                close(fd);
                return n > 0;
            }
        } else {
            siginfo_t info = {.si_pid = 0};
            if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) !=
                    0 ||
                info.si_pid == pid) {
                return true;
            }
            if (left <= 0) {
                return false;
            }
            struct timespec nap = {0, 1000000};
            nanosleep(&nap, NULL);
        }
    }
}

/* Takes our child's SIGCHLD off the queue, and nobody else's. */
static void
hide_sigchld(const sigset_t *chld, pid_t pid)
{
    struct timespec none = {0, 0};
    siginfo_t info;
    sigset_t pending;
    if (sigpending(&pending) != 0 || !sigismember(&pending, SIGCHLD) ||
        sigtimedwait(chld, &info, &none) != SIGCHLD) {
        return;
    }
    /* Signals of several children merge into one. */
    siginfo_t other = {.si_pid = 0};
    if (info.si_pid != pid ||
        (waitid(P_ALL, 0, &other, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         other.si_pid != 0)) {
        kill(getpid(), SIGCHLD);
    }
}

int
fy_isolated_run(void (*body)(void *context), void *context, unsigned timeout_ms,
                struct fy_child_report *report)
{
    int saved_errno = errno;
    sigset_t chld, before, pending;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &chld, &before);
    bool was_pending =
        sigpending(&pending) == 0 && sigismember(&pending, SIGCHLD);

    memset(report, 0, sizeof *report);
    report->end = FY_CHILD_KILLED;
    pid_t pid = fork();
    if (pid == 0) {
        isolate(report);
        body(context);
        report->end = FY_CHILD_DONE;
        _exit(0);
    }
    if (pid > 0) {
        bool ended = wait_until(pid, fy_clock_ms() + timeout_ms);
        if (!ended) {
            kill(pid, SIGKILL);
        }
        int status;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
            continue;
        }
        if (!ended) {
            report->end = FY_CHILD_TIMEOUT;
        }
        if (!was_pending) {
            hide_sigchld(&chld, pid);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return pid > 0 ? 0 : FY_ERR_IO;
}
