/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command, and lets one system call of ferry's fail: what strace's
 * `inject' does, but only for calls that ferry makes, in its processes (ferry
 * run, the proxy, the stub) or in the program's ("shim"), and told apart by who
 * makes them. A seccomp filter hands the calls to this process, which looks at
 * the caller's executable and at the return addresses on its stack.
 *
 *   inject RESULT SECONDS FERRY STUB record -- COMMAND...
 *   inject RESULT SECONDS FERRY STUB fail NUMBER ERRNO ROLE SITE NTH -- COMMAND...
 *
 * ROLE is run, proxy, stub or shim; SITE the innermost return addresses in
 * ferry's code, as `record' printed them, NTH counts from 1 (0: every one).
 * RESULT gets a line "call NUMBER ROLE SITE KIND" for each call (record) or "hit
 * THREAD" (fail); then "status S", the command's as wait(2) has it, or "late";
 * a line "left PID COMMAND" for each process that still ran after SECONDS
 * (they are killed); and "seconds S", from the start until all have ended.
 * Exits with 0, or 125 and a message when the command could not be run so.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/frames.h"

enum {
    SITE_BYTES = 256,
    FRAMES = 3,          /* return addresses of ferry's that name a site */
    STACK_WORDS = 2048,  /* of a thread's stack that are looked at */
    MAPPINGS_MAX = 1024, /* of executable code in a process */
};

/* <linux/seccomp.h> of Linux 6.6: the caller sleeps before this process is woken,
 * so that its stack can be read at once. Elsewhere all of it only takes longer. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

struct wanted {
    bool record;
    long number; /* of the system call */
    int error;
    const char *role, *site;
    long nth;
};

struct mapping {
    uint64_t start, end, offset;
    bool ours;
    char name[64];
};

static struct stat ferry_about, stub_about;
static FILE *result;
static long seen, hits;

static void
fatal(const char *what)
{
    fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
    _exit(125);
}

static double
now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Words of a process's command line, separated by blanks. */
static void
command_line(pid_t pid, char *out, size_t bytes)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, bytes - 1) : 0;
    n = n > 0 ? n : 0;
    out[n] = '\0';
    for (ssize_t i = 0; i < n; i++) {
        out[i] = out[i] && out[i] != '\n' ? out[i] : ' ';
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* What a thread's process is, by its executable. */
static const char *
role_of(pid_t pid)
{
    char path[64], line[512];
    struct stat about;
    (void)snprintf(path, sizeof path, "/proc/%d/exe", pid);
    if (stat(path, &about) != 0) {
        return "none";
    }
    if (about.st_ino == stub_about.st_ino &&
        about.st_dev == stub_about.st_dev) {
        return "stub";
    }
    if (about.st_ino != ferry_about.st_ino ||
        about.st_dev != ferry_about.st_dev) {
        return "shim"; /* if ferry's code is found on the stack */
    }
    command_line(pid, line, sizeof line);
    return strstr(line, " proxy ") ? "proxy" : "run";
}

/* The mappings of code of a process. */
static size_t
read_mappings(pid_t pid, struct mapping *maps, bool *any)
{
    char path[64], line[4400];
    (void)snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *file = fopen(path, "re");
    size_t n = 0;
    while (file && n < MAPPINGS_MAX && fgets(line, sizeof line, file)) {
        struct mapping *map = &maps[n];
        int at = 0;
        char flags[8];
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %n", &map->start, &map->end,
                   flags, &map->offset, &at) < 4 ||
            flags[2] != 'x' || !at) {
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        const char *name = strrchr(line + at, '/');
        name = name ? name + 1 : line + at;
        (void)snprintf(map->name, sizeof map->name, "%s", name);
        map->ours = strstr(name, "ferry") != NULL;
        *any |= map->ours;
        n++;
    }
    if (file) {
        fclose(file);
    }
    return n;
}

/* frames_read, of a process. */
static bool
read_process(void *context, uint64_t at, void *bytes, uint64_t n)
{
    struct iovec to = {bytes, n}, from = {(void *)(uintptr_t)at, n};
    return process_vm_readv(*(pid_t *)context, &to, 1, &from, 1, 0) ==
           (ssize_t)n;
}

/* The innermost return addresses of ferry's code; "-" when there are none. */
static void
find_site(pid_t pid, char out[SITE_BYTES])
{
    static struct mapping maps[MAPPINGS_MAX];
    static uint64_t words[STACK_WORDS];
    char path[64], text[256] = "";
    uint64_t sp = 0, pc = 0;
    strcpy(out, "-");
    (void)snprintf(path, sizeof path, "/proc/%d/syscall", pid);
    for (int tries = 0; tries < 1000; tries++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
        if (fd >= 0) {
            close(fd);
        }
        text[n > 0 ? n : 0] = '\0';
        if (strncmp(text, "running", 7) != 0) {
            break;
        }
        sched_yield();
    }
    if (sscanf(text, "%*s %*s %*s %*s %*s %*s %*s %lx %lx", &sp, &pc) != 2) {
        return;
    }
    bool any = false;
    size_t nmaps = read_mappings(pid, maps, &any);
    if (!any) {
        return;
    }
    struct iovec to = {words, sizeof words};
    /* In pages, as the end of the stack may be near. */
    struct iovec from[STACK_WORDS / 512 + 1];
    size_t pieces = 0, bytes = 0;
    while (bytes < sizeof words) {
        uint64_t at = sp + bytes;
        size_t n = 4096 - at % 4096;
        n = n < sizeof words - bytes ? n : sizeof words - bytes;
        from[pieces++] = (struct iovec){(void *)(uintptr_t)at, n};
        bytes += n;
    }
    ssize_t got = process_vm_readv(pid, &to, 1, from, pieces, 0);
    size_t n = 0, length = 0;
    uint64_t inner = 0;
    for (ssize_t i = -1; i < got / 8 && n < FRAMES; i++) {
        uint64_t address = i < 0 ? pc : words[i];
        for (size_t m = 0; m < nmaps; m++) {
            if (address < maps[m].start + CALL_BYTES ||
                address >= maps[m].end || !maps[m].ours ||
                (i >= 0 && !frames_leads(address, inner, read_process, &pid))) {
                continue;
            }
            length += (size_t)snprintf(
                out + length, SITE_BYTES - length, "%s%s+%lx", n ? "," : "",
                maps[m].name, address - maps[m].start + maps[m].offset);
            inner = address;
            n++;
        }
    }
}

/* What read(2) and its like are given: file, pipe, socket or other. */
static const char *
kind_of(pid_t pid, const struct seccomp_data *call)
{
    char path[64], name[64] = "";
    if (call->nr != SYS_read && call->nr != SYS_write &&
        call->nr != SYS_readv && call->nr != SYS_writev) {
        return "-";
    }
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", pid,
                   (int)call->args[0]);
    (void)!readlink(path, name, sizeof name - 1);
    return strncmp(name, "pipe:", 5) == 0                     ? "pipe"
           : strncmp(name, "socket:", 7) == 0                 ? "socket"
           : name[0] == '/' && strncmp(name, "/dev/", 5) != 0 ? "file"
                                                              : "other";
}

/* Answers one call. */
static void
answer(int listener, const struct wanted *wanted)
{
    struct seccomp_notif call;
    struct seccomp_notif_resp reply;
    char site[SITE_BYTES];
    memset(&call, 0, sizeof call);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
        return; /* interrupted meanwhile */
    }
    memset(&reply, 0, sizeof reply);
    reply.id = call.id;
    reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    const char *role = role_of((pid_t)call.pid);
    if (wanted->record || strcmp(role, wanted->role) == 0) {
        find_site((pid_t)call.pid, site);
        if (strcmp(site, "-") == 0 && strcmp(role, "shim") == 0) {
            role = "none";
        }
        if (wanted->record && strcmp(role, "none") != 0) {
            fprintf(result, "call %d %s %s %s\n", call.data.nr, role, site,
                    kind_of((pid_t)call.pid, &call.data));
        }
        if (!wanted->record && strcmp(site, wanted->site) == 0 &&
            strcmp(role, wanted->role) == 0 &&
            (++seen == wanted->nth || !wanted->nth)) {
            reply.flags = 0;
            reply.error = -wanted->error;
            hits++;
            fprintf(result, "hit %d\n", (int)call.pid);
        }
    }
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

/* In the child: the filter, and then the command. */
static void
start(const struct wanted *wanted, const volatile int *go, char **command)
{
    static const long never[] = {SYS_rt_sigreturn, SYS_exit, SYS_exit_group,
                                 SYS_futex, SYS_seccomp};
    struct sock_filter code[16];
    unsigned short n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, nr));
    for (size_t i = 0; wanted->record && i < sizeof never / sizeof *never;
         i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 (uint32_t)never[i], 0, 1);
        code[n++] =
            (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    if (!wanted->record) {
        code[n++] = (struct sock_filter)BPF_JUMP(
            BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)wanted->number, 1, 0);
        code[n++] =
            (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, geteuid() != 0, 0, 0, 0) != 0 &&
        geteuid() != 0) {
        fatal("prctl");
    }
    long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                      SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    /* No system call but through the parent, which takes the listener now. */
    *(volatile int *)go = fd >= 0 ? (int)fd : -errno;
    while (*go >= 0 && fd >= 0 && *go != 1 << 20) {
    }
    execvp(command[0], command);
    _exit(127);
}

/* What is below this process, told and killed; all of it becomes its child. */
static void
end_all(void)
{
    bool told = false;
    for (int rounds = 0; rounds < 1000; rounds++) {
        char text[8192];
        int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
        text[n > 0 ? n : 0] = '\0';
        if (fd >= 0) {
            close(fd);
        }
        for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
            char line[200];
            pid_t pid = (pid_t)atol(word);
            command_line(pid, line, sizeof line);
            if (line[0]) {
                fprintf(result, "left %d %s\n", pid, line);
                told = true;
            }
            kill(pid, SIGKILL);
        }
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD) {
            break;
        }
        usleep(10000);
    }
    if (!told) {
        fprintf(result, "left 0 unknown\n");
    }
}

int
main(int argc, char **argv)
{
    struct wanted wanted = {0};
    int at = 6;
    if (argc > 12 && strcmp(argv[5], "fail") == 0) {
        wanted = (struct wanted){.number = atol(argv[6]),
                                 .error = atoi(argv[7]),
                                 .role = argv[8],
                                 .site = argv[9],
                                 .nth = atol(argv[10])};
        at = 11;
    } else if (argc > 7 && strcmp(argv[5], "record") == 0) {
        wanted.record = true;
    } else {
        fputs("usage: see the head of inject.c\n", stderr);
        return 125;
    }
    result = fopen(argv[1], "we");
    if (!result || stat(argv[3], &ferry_about) || stat(argv[4], &stub_about)) {
        fatal(argv[1]);
    }
    setvbuf(result, NULL, _IOFBF, 1 << 20);
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1)) {
        fatal("mmap");
    }
    *shared = 0;
    double began = now_seconds(), limit = began + atof(argv[2]);
    pid_t child = fork();
    if (child == 0) {
        start(&wanted, shared, argv + at + 1);
    }
    while (*shared == 0) {
        sched_yield();
    }
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    int listener =
        *shared > 0 ? (int)syscall(SYS_pidfd_getfd, pidfd, *shared, 0) : -1;
    if (listener < 0) {
        errno = *shared < 0 ? -*shared : errno;
        kill(child, SIGKILL);
        fatal("no filter");
    }
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    *shared = 1 << 20;
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    struct pollfd polled[2] = {
        {listener, POLLIN, 0},
        {signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK), POLLIN, 0}};
    bool gone = false;
    for (;;) {
        int status;
        pid_t pid;
        struct signalfd_siginfo information;
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == child) {
                fprintf(result, "status %d\n", status);
                gone = true;
            }
        }
        double left = limit - now_seconds();
        if ((pid < 0 && errno == ECHILD) || left <= 0) {
            break;
        }
        int n = poll(polled, 2, (int)(left * 1000) + 1);
        if (n > 0 && (polled[0].revents & POLLIN)) {
            answer(listener, &wanted);
        } else if (n > 0 && polled[0].revents) {
            polled[0].fd = -1; /* no process has the filter any more */
        }
        (void)!read(polled[1].fd, &information, sizeof information);
    }
    if (!gone) {
        fputs("late\n", result);
    }
    if (now_seconds() >= limit) {
        end_all();
    }
    fprintf(result, "seconds %.2f\n", now_seconds() - began);
    return fclose(result) == 0 ? 0 : 125;
}
