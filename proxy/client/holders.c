/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds the ends of pipes, see the header. One walk over /proc serves all
 * pipes that are asked for; descriptors are looked at by stat, which asks no
 * file system for pipes. Long because all of it reads the same few files of
 * processes.
 */
#include "config.h"

#include "proxy/client/holders.h"
#include "proxy/wire/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "common/path.h"

enum {
    DEPTH_MAX = 4096,  /* of a chain of parents */
    CHAIN_MAX = 8,     /* parents that wait, the stub included */
    SETTLING_MS = 5,   /* until a parent that will wait does */
    COMPUTES_MS = 500, /* of processor time: no shell on its way to a command */
    WATCHED_MAX = 64,  /* processes of which that is counted at a time */
    NO_NUMBER = 1 /* of a folder in /proc that the kernel has no memory for */
};

struct process {
    pid_t pid;
    uint64_t start; /* clock ticks since the machine started */
    ino_t inode;    /* of its folder in /proc: no other process's has it */
};

struct inherited {
    int fd;
    dev_t device;
    ino_t inode;
    uint64_t mount;  /* of fdinfo, as the others are told apart; 0: unknown */
    uint64_t number; /* of the file, in the same words */
};

/* A process that ran when it was first seen with this end of a pipe. */
struct watched {
    pid_t pid;
    uint64_t device, inode;
    int64_t cpu_ms; /* its processor time then */
};

struct fy_holders {
    DIR *proc;
    struct watched watched[WATCHED_MAX];
    unsigned nwatched; /* ever; the oldest rows are used again */
    struct inherited inherited[64];
    unsigned ninherited;
    bool more_inherited;
    struct process *old; /* sorted by pid */
    size_t nold;
};

static int
compare(const void *a, const void *b)
{
    const struct process *one = a, *two = b;
    return one->pid < two->pid ? -1 : one->pid > two->pid;
}

/* One descriptor's fdinfo. */
struct fd_info {
    bool closed_by_exec;
    uint64_t mount, number; /* 0: it does not say (Linux before 5.14) */
};

static uint64_t
number_after(const char *text, const char *word, int base)
{
    const char *at = strstr(text, word);
    return at ? strtoull(at + strlen(word), NULL, base) : 0;
}

/* False with ENOENT: the descriptor is closed. No file system is asked: one may not
 * answer. */
static bool
read_fd_info(int proc, const char *pid, const char *fd, struct fd_info *out)
{
    char path[80], text[512];
    (void)snprintf(path, sizeof path, "%.20s/fdinfo/%.20s", pid, fd);
    int file = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    ssize_t n = read(file, text, sizeof text - 1);
    int error = errno;
    (void)close(file);
    if (n < 0) {
        errno = error;
        return false;
    }
    text[n] = '\0';
    out->closed_by_exec = number_after(text, "flags:", 8) & O_CLOEXEC;
    out->mount = number_after(text, "\nmnt_id:", 10);
    out->number = number_after(text, "\nino:", 10);
    return true;
}

static void
read_inherited(struct fy_holders *holders)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        struct statx status;
        struct fd_info info = {0};
        int fd = (int)strtol(entry->d_name, NULL, 10);
        int flags = fcntl(fd, F_GETFD);
        if (!isdigit((unsigned char)entry->d_name[0]) || flags < 0 ||
            (fd > 2 && (flags & FD_CLOEXEC)) ||
            statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO,
                  &status) != 0) {
            continue;
        }
        if (holders->ninherited == 64) {
            holders->more_inherited = true;
            break;
        }
        (void)read_fd_info(proc, "self", entry->d_name, &info);
        holders->inherited[holders->ninherited++] = (struct inherited){
            fd, makedev(status.stx_dev_major, status.stx_dev_minor),
            status.stx_ino, info.mount, info.number};
    }
    if (folder) {
        (void)closedir(folder);
    }
    if (proc >= 0) {
        (void)close(proc);
    }
}

/* Whether the descriptor `name' in the folder of a process's is one that this
 * process was started with. */
static bool
was_inherited(const struct fy_holders *holders, int folder, const char *name,
              const struct fd_info *info)
{
    int fd = (int)strtol(name, NULL, 10);
    for (unsigned i = 0; i < holders->ninherited; i++) {
        const struct inherited *each = &holders->inherited[i];
        if (each->fd != fd) {
            continue;
        }
        if (info->number && each->number) {
            return each->number == info->number && each->mount == info->mount;
        }
        struct statx status;
        return statx(folder, name, AT_STATX_DONT_SYNC, STATX_INO, &status) ==
                   0 &&
               each->inode == status.stx_ino &&
               each->device ==
                   makedev(status.stx_dev_major, status.stx_dev_minor);
    }
    return false;
}

/* Whether a descriptor in such a folder is an end of a pipe without a name, by
 * its name alone: those of files are absolute paths. */
static bool
is_nameless_pipe(int folder, const char *name)
{
    char text[32];
    ssize_t n = readlinkat(folder, name, text, sizeof text - 1);
    return n >= 6 && memcmp(text, "pipe:[", 6) == 0;
}

unsigned
fy_holders_extra(const struct fy_holders *holders, pid_t pid,
                 unsigned *out_pipes)
{
    char path[64], number[24];
    unsigned count = 0, pipes = 0;
    (void)snprintf(number, sizeof number, "%ld", (long)pid);
    (void)snprintf(path, sizeof path, "/proc/%s/fd", number);
    DIR *folder = opendir(path);
    if (!folder || !holders->proc) {
        if (folder) {
            (void)closedir(folder);
        }
        return UINT_MAX;
    }
    const struct dirent *entry;
    while ((entry = readdir(folder))) {
        struct fd_info info = {0};
        if (strtol(entry->d_name, NULL, 10) <= 2) {
            continue;
        }
        bool known =
            read_fd_info(dirfd(holders->proc), number, entry->d_name, &info);
        if (known ? info.closed_by_exec : errno == ENOENT) {
            continue;
        }
        if (was_inherited(holders, dirfd(folder), entry->d_name, &info)) {
            continue;
        }
        if (is_nameless_pipe(dirfd(folder), entry->d_name)) {
            pipes++;
        } else {
            count++;
        }
    }
    (void)closedir(folder);
    *out_pipes = pipes;
    return count;
}

int
fy_holders_new(struct fy_holders **out)
{
    struct fy_holders *holders = calloc(1, sizeof *holders);
    if (!holders) {
        return FY_ERR_NOMEM;
    }
    size_t capacity = 0;
    read_inherited(holders);
    holders->proc = opendir("/proc");
    const struct dirent *entry;
    while (holders->proc && (entry = readdir(holders->proc))) {
        struct process process;
        struct fy_process basics;
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            !fy_process_read(dirfd(holders->proc), entry->d_name, &basics)) {
            continue;
        }
        process.start = basics.start;
        process.pid = basics.pid;
        process.inode = entry->d_ino;
        if (holders->nold == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            struct process *larger =
                realloc(holders->old, capacity * sizeof *larger);
            if (!larger) {
                fy_holders_free(holders);
                return FY_ERR_NOMEM;
            }
            holders->old = larger;
        }
        holders->old[holders->nold++] = process;
    }
    if (holders->nold > 1) {
        qsort(holders->old, holders->nold, sizeof *holders->old, compare);
    }
    *out = holders;
    return 0;
}

void
fy_holders_free(struct fy_holders *holders)
{
    if (holders) {
        if (holders->proc) {
            (void)closedir(holders->proc);
        }
        free(holders->old);
        free(holders);
    }
}

/* Whether the process of an entry of /proc ran before the session did. A machine
 * may have hundreds of those: one whose folder is still the one that was seen
 * costs no system call. (The kernel may forget a folder, and number it anew.) */
static bool
is_old(const struct fy_holders *holders, const struct dirent *entry)
{
    struct process key = {.pid = (pid_t)strtol(entry->d_name, NULL, 10)};
    if (holders->nold == 0) {
        return false;
    }
    struct process *found = bsearch(&key, holders->old, holders->nold,
                                    sizeof *holders->old, compare);
    struct fy_process now;
    if (!found || (found->inode == entry->d_ino && entry->d_ino != NO_NUMBER)) {
        return found;
    }
    if (!fy_process_read(dirfd(holders->proc), entry->d_name, &now) ||
        now.start != found->start) {
        return false;
    }
    found->inode = entry->d_ino;
    return true;
}

/* System calls in which a process waits for a file system: a shell before the
 * exec of a command, which looks for it, opens what it is redirected to and
 * closes what it is not to have. */
static bool
asks_files(long number)
{
    static const long calls[] = {
#ifdef SYS_open
        SYS_open,       SYS_stat,       SYS_lstat,       SYS_access,
        SYS_readlink,   SYS_creat,
#endif
        SYS_openat,     SYS_openat2,    SYS_newfstatat,  SYS_statx,
        SYS_faccessat,  SYS_faccessat2, SYS_readlinkat,  SYS_execve,
        SYS_execveat,   SYS_chdir,      SYS_fchdir,      SYS_fstat,
        SYS_getdents64, SYS_close,      SYS_close_range, SYS_dup3,
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (calls[i] == number) {
            return true;
        }
    }
    return false;
}

/* What /proc/PID/`file' says, up to `room'; "" if it cannot be read. */
static void
read_text(const struct fy_holders *holders, pid_t pid, const char *file,
          char *text, size_t room)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%d/%.32s", (int)pid, file);
    int fd = openat(dirfd(holders->proc), path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, room - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* Whether a process has the writing end of a pipe, by the pipe's name. */
static bool
writes_pipe(const struct fy_holders *holders, long pid, const char *pipe)
{
    char path[64], text[32];
    struct stat link;
    bool found = false;
    (void)snprintf(path, sizeof path, "%ld/fd", pid);
    int fd =
        openat(dirfd(holders->proc), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    while (folder && !found && (entry = readdir(folder))) {
        ssize_t n =
            readlinkat(dirfd(folder), entry->d_name, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        found = strcmp(text, pipe) == 0 &&
                fstatat(dirfd(folder), entry->d_name, &link,
                        AT_SYMLINK_NOFOLLOW) == 0 &&
                (link.st_mode & S_IWUSR);
    }
    if (folder) {
        (void)closedir(folder);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return found;
}

/*
 * Whether a pipe is written by a child of the process that has not executed a program
 * yet. A shell (zsh) reads there until its child is in its process group, Python until its
 * child has executed its program: both still have the ends that the next child gets.
 */
static bool
waits_for_fork(const struct fy_holders *holders, pid_t pid, const char *pipe)
{
    char file[48], number[16], text[4096], *end;
    struct fy_process child;
    (void)snprintf(file, sizeof file, "task/%d/children", (int)pid);
    read_text(holders, pid, file, text, sizeof text);
    for (const char *at = text;; at = end) {
        long each = strtol(at, &end, 10);
        if (end == at) {
            return false;
        }
        (void)snprintf(number, sizeof number, "%ld", each);
        if (fy_process_read(dirfd(holders->proc), number, &child) &&
            child.forked && writes_pipe(holders, each, pipe)) {
            return true;
        }
    }
}

/* Whether what a sleeping process reads or writes ends its way: not a file; before
 * its exec this pipe only (an interactive shell's child waits at another one for its
 * process group); and no pipe by which a child says that it goes on. */
static bool
is_last_read(const struct fy_holders *holders, const char *name, long fd,
             bool forked, const struct fy_pipe_holders *row)
{
    char path[64], text[32];
    struct stat target;
    (void)snprintf(path, sizeof path, "%.40s/fd/%ld", name, fd);
    ssize_t n = readlinkat(dirfd(holders->proc), path, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    if (strncmp(text, "pipe:[", 6) != 0) {
        return !forked && !(text[0] == '/' && strncmp(text, "/dev/", 5) != 0);
    }
    if (fstatat(dirfd(holders->proc), path, &target, 0) == 0 &&
        target.st_ino == row->inode && target.st_dev == row->device) {
        return true;
    }
    return !forked &&
           !waits_for_fork(holders, (pid_t)strtol(name, NULL, 10), text);
}

/* Of a process in state S. Where its system call cannot be read: true. */
static bool
waits(const struct fy_holders *holders, const char *name, bool forked,
      const struct fy_pipe_holders *row)
{
    char path[64], text[256];
    long number = -1;
    unsigned long fd = 0;
    (void)snprintf(path, sizeof path, "%.40s/syscall", name);
    int file = openat(dirfd(holders->proc), path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) {
        (void)close(file);
    }
    if (n <= 0) {
        return true;
    }
    text[n] = '\0';
    if (sscanf(text, "%ld 0x%lx", &number, &fd) < 2) {
        return strncmp(text, "running", 7) != 0;
    }
    if (number == SYS_read || number == SYS_readv || number == SYS_write ||
        number == SYS_writev) {
        return is_last_read(holders, name, (long)fd, forked, row);
    }
    /* -1: in no call, as where a page of a file is missing. */
    return number >= 0 && !asks_files(number);
}

/* Whether a process has used that much processor time since it was first seen with the
 * pipe: a shell that runs a long script had used more before it made the pipe. */
static bool
computes(struct fy_holders *holders, pid_t pid,
         const struct fy_pipe_holders *row)
{
    clockid_t clock;
    struct timespec cpu;
    if (clock_getcpuclockid(pid, &clock) != 0 ||
        clock_gettime(clock, &cpu) != 0) {
        return false;
    }
    int64_t cpu_ms = (int64_t)cpu.tv_sec * 1000 + cpu.tv_nsec / 1000000;
    for (unsigned i = 0; i < WATCHED_MAX; i++) {
        const struct watched *each = &holders->watched[i];
        if (each->pid == pid && each->device == row->device &&
            each->inode == row->inode) {
            return cpu_ms - each->cpu_ms > COMPUTES_MS;
        }
    }
    holders->watched[holders->nwatched++ % WATCHED_MAX] =
        (struct watched){pid, row->device, row->inode, cpu_ms};
    return false;
}

static bool
is_settled(struct fy_holders *holders, const char *name,
           const struct fy_pipe_holders *row)
{
    struct fy_process now;
    if (!fy_process_read(dirfd(holders->proc), name, &now)) {
        return false;
    }
    if (now.state == 'S') {
        return waits(holders, name, now.forked, row);
    }
    return now.state == 'T' || now.state == 't' ||
           computes(holders, now.pid, row);
}

static void
note(struct fy_pipe_holders *row, struct fy_holders *holders, const char *name,
     mode_t mode)
{
    int error = errno; /* of the descriptors so far: how it waits adds none */
    pid_t pid = (pid_t)strtol(name, NULL, 10);
    struct fy_holder *holder = NULL;
    if (row->n > 0 && row->holders[row->n - 1].pid == pid) {
        holder = &row->holders[row->n - 1];
    } else if (row->n == FY_HOLDERS_MAX) {
        row->more = true;
        return;
    } else {
        holder = &row->holders[row->n++];
        *holder = (struct fy_holder){.pid = pid,
                                     .settled = is_settled(holders, name, row)};
    }
    holder->reads = holder->reads || (mode & S_IRUSR);
    holder->writes = holder->writes || (mode & S_IWUSR);
    errno = error;
}

/* An error of /proc's, 0 where it says that a process has ended. */
static int
unless_gone(int error)
{
    return error == ENOENT || error == ESRCH ? 0 : error;
}

/* Not 0: why its descriptors cannot be read, as errno. A process whose first thread has
 * ended shows them at its other threads, each of which may have another table. */
static int
look(struct fy_holders *holders, const char *name,
     struct fy_pipe_holders *pipes, unsigned npipes)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%.40s/fd", name);
    DIR *folder = fy_folder_open(dirfd(holders->proc), path);
    if (!folder) {
        return unless_gone(errno);
    }
    const struct dirent *entry;
    bool any = false;
    errno = 0;
    while ((entry = readdir(folder))) {
        struct stat link, target;
        any = any || entry->d_name[0] != '.';
        /* Only links to pipes are followed: to ask a file's file system may
         * take long. A named pipe reads as a path: it is never joined. */
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            !is_nameless_pipe(dirfd(folder), entry->d_name)) {
            continue;
        }
        if (fstatat(dirfd(folder), entry->d_name, &target, 0) != 0 ||
            fstatat(dirfd(folder), entry->d_name, &link, AT_SYMLINK_NOFOLLOW) !=
                0) {
            continue;
        }
        for (unsigned i = 0; i < npipes; i++) {
            if (target.st_ino == pipes[i].inode &&
                target.st_dev == pipes[i].device) {
                note(&pipes[i], holders, name, link.st_mode);
            }
        }
    }
    int error = unless_gone(errno);
    (void)closedir(folder);
    errno = 0;
    DIR *threads = any ? NULL : fy_threads_open(dirfd(holders->proc), name);
    error = error || threads ? error : unless_gone(errno);
    while (fy_threads_next(threads, name, path)) {
        int other = look(holders, path, pipes, npipes);
        error = error ? error : other;
    }
    fy_threads_close(threads);
    return error;
}

/*
 * Whether a process that cannot be looked at (`error', of errno) could have our pipes: a setuid
 * program of this run, that is, a descendant or one of the same session. Others'
 * processes come and go on a shared machine.
 */
static bool
may_be_ours(const struct fy_holders *holders, const char *name, int error)
{
    struct fy_process process;
    char number[16];
    pid_t self = getpid();
    errno = 0;
    if (!fy_process_read(dirfd(holders->proc), name, &process)) {
        return unless_gone(errno) != 0;
    }
    if (process.state == 'Z' || process.state == 'X') {
        return error != EACCES; /* else its first thread may have ended alone */
    }
    if (process.session == getsid(0)) {
        return true;
    }
    for (int depth = 0; depth < DEPTH_MAX && process.parent > 1; depth++) {
        if (process.parent == self) {
            return true;
        }
        (void)snprintf(number, sizeof number, "%d", (int)process.parent);
        if (!fy_process_read(dirfd(holders->proc), number, &process)) {
            return true; /* the chain broke meanwhile: not known */
        }
    }
    return false;
}

int
fy_holders_scan(struct fy_holders *holders, struct fy_pipe_holders *pipes,
                unsigned npipes, enum fy_hidden *out_hidden)
{
    pid_t self = getpid();
    if (!holders->proc) {
        return FY_ERR_IO;
    }
    for (unsigned i = 0; i < npipes; i++) {
        pipes[i].n = 0;
        pipes[i].more = false;
    }
    *out_hidden = FY_HIDDEN_NONE;
    rewinddir(holders->proc);
    const struct dirent *entry;
    while ((entry = readdir(holders->proc))) {
        const char *name = entry->d_name;
        if (!isdigit((unsigned char)name[0]) ||
            strtol(name, NULL, 10) == self || is_old(holders, entry)) {
            continue;
        }
        struct fy_process process;
        int error = look(holders, name, pipes, npipes);
        if (!error || !may_be_ours(holders, name, error)) {
            continue;
        }
        bool moves = !fy_process_read(dirfd(holders->proc), name, &process) ||
                     process.state != 'S';
        if (*out_hidden != FY_HIDDEN_SETTLED) {
            *out_hidden = moves ? FY_HIDDEN_MOVING : FY_HIDDEN_SETTLED;
        }
    }
    return 0;
}

bool
fy_holders_inherited(const struct fy_holders *holders, uint64_t device,
                     uint64_t inode)
{
    for (unsigned i = 0; i < holders->ninherited; i++) {
        if (holders->inherited[i].device == device &&
            holders->inherited[i].inode == inode) {
            return true;
        }
    }
    return holders->more_inherited;
}

/* Whether it has the file of that name, removed since or not; also when its
 * descriptors cannot be read. Names only: no file system is asked. */
static bool
has_named(const struct fy_holders *holders, const char *name, const char *path)
{
    char folder_path[64], text[PATH_MAX];
    (void)snprintf(folder_path, sizeof folder_path, "%.40s/fd", name);
    DIR *folder = fy_folder_open(dirfd(holders->proc), folder_path);
    if (!folder) {
        return may_be_ours(holders, name, errno);
    }
    bool found = false, any = false;
    size_t named = strlen(path);
    const struct dirent *entry;
    while (!found && (entry = readdir(folder))) {
        any = any || entry->d_name[0] != '.';
        ssize_t n =
            readlinkat(dirfd(folder), entry->d_name, text, sizeof text - 1);
        if (n > 0) {
            text[n] = '\0';
            found = strncmp(text, path, named) == 0 &&
                    (text[named] == '\0' ||
                     strcmp(text + named, " (deleted)") == 0);
        }
    }
    (void)closedir(folder);
    DIR *threads = any ? NULL : fy_threads_open(dirfd(holders->proc), name);
    while (!found && fy_threads_next(threads, name, folder_path)) {
        found = has_named(holders, folder_path, path);
    }
    fy_threads_close(threads);
    return found;
}

/* Shells run the traps of a script when its command has ended. */
static bool
is_shell(const struct fy_holders *holders, pid_t pid)
{
    static const char *const names[] = {
        "sh", "bash", "dash", "ksh", "ksh93", "zsh", "mksh", "yash", "busybox"};
    char path[64], exe[PATH_MAX];
    (void)snprintf(path, sizeof path, "%d/exe", (int)pid);
    ssize_t n = readlinkat(dirfd(holders->proc), path, exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < sizeof names / sizeof *names; i++) {
        if (strcmp(slash + 1, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * Whether a process does nothing until that child ends: its one thread is in
 * wait4() or waitid(), it has no other child, and catches no signal but SIGCHLD;
 * or, if it is a shell, those of the terminal. Other programs that catch SIGINT
 * (all of Python) may end their child by it and write on.
 */
static bool
waits_for(const struct fy_holders *holders, pid_t pid, pid_t child)
{
    static const uint64_t of_terminal =
        UINT64_C(1) << (SIGINT - 1) | UINT64_C(1) << (SIGWINCH - 1);
    uint64_t harmless = UINT64_C(1) << (SIGCHLD - 1) |
                        (is_shell(holders, pid) ? of_terminal : 0);
    char text[4096], file[48];
    char *end;
    read_text(holders, pid, "syscall", text, sizeof text);
    long call = strtol(text, &end, 10);
    if (end == text || (call != SYS_wait4 && call != SYS_waitid)) {
        return false;
    }
    (void)snprintf(file, sizeof file, "task/%d/children", (int)pid);
    read_text(holders, pid, file, text, sizeof text);
    if (strtol(text, &end, 10) != child || strspn(end, " \n") != strlen(end)) {
        return false;
    }
    read_text(holders, pid, "status", text, sizeof text);
    return number_after(text, "\nThreads:", 10) == 1 &&
           strstr(text, "\nSigCgt:") &&
           (number_after(text, "\nSigCgt:", 16) & ~harmless) == 0;
}

/* The parent of a process that `path' may be shared with, since it waits for
 * that process; 0 when it does not. A shell that has just started its command
 * needs a moment until it waits. */
static pid_t
waiting_parent(const struct fy_holders *holders, pid_t child)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    struct fy_process process;
    char name[16];
    (void)snprintf(name, sizeof name, "%d", (int)child);
    if (!fy_process_read(dirfd(holders->proc), name, &process) ||
        process.parent <= 1 || process.parent == getpid()) {
        return 0;
    }
    for (int i = 0; i < SETTLING_MS; i++) {
        if (waits_for(holders, process.parent, child)) {
            return process.parent;
        }
        (void)nanosleep(&moment, NULL);
    }
    return 0;
}

static bool
is_among(const pid_t *pids, unsigned n, pid_t pid)
{
    while (n && pids[n - 1] != pid) {
        n--;
    }
    return n != 0;
}

/* Whether the process shares this process's memory: a child of posix_spawn(3) before its
 * exec, which has the session's descriptors until it closes them. */
static bool
is_being_spawned(pid_t pid)
{
    return syscall(SYS_kcmp, getpid(), pid, KCMP_VM, 0, 0) == 0;
}

/* Whether no process has that file but `pid' and, with `waiting', the chain of its
 * parents of which each only waits for the next. */
static bool
only(const struct fy_holders *holders, const char *path, bool inherited,
     pid_t pid, bool waiting)
{
    pid_t self = getpid(), chain[CHAIN_MAX];
    unsigned n = 0;
    if (!holders->proc) {
        return false;
    }
    chain[n++] = pid;
    rewinddir(holders->proc);
    const struct dirent *entry;
    while ((entry = readdir(holders->proc))) {
        const char *name = entry->d_name;
        long each =
            isdigit((unsigned char)name[0]) ? strtol(name, NULL, 10) : 0;
        if (each == 0 || each == self || is_among(chain, n, (pid_t)each) ||
            (!inherited && is_old(holders, entry)) ||
            !has_named(holders, name, path) || is_being_spawned((pid_t)each) ||
            !has_named(holders, name, path)) {
            continue;
        }
        while (waiting && n < CHAIN_MAX && !is_among(chain, n, (pid_t)each)) {
            chain[n] = waiting_parent(holders, chain[n - 1]);
            waiting = chain[n] != 0;
            n += waiting;
        }
        if (!is_among(chain, n, (pid_t)each)) {
            return false;
        }
    }
    return true;
}

bool
fy_holders_only(const struct fy_holders *holders, const char *path,
                uint64_t device, uint64_t inode, pid_t pid, bool waiting)
{
    return only(holders, path, fy_holders_inherited(holders, device, inode),
                pid, waiting);
}

bool
fy_holders_alone(const struct fy_holders *holders, const char *path,
                 uint64_t device, uint64_t inode, pid_t pid)
{
    return !fy_holders_inherited(holders, device, inode) &&
           only(holders, path, false, pid, false);
}

bool
fy_pipe_has_data(pid_t pid)
{
    char path[64];
    int waiting = 1;
    (void)snprintf(path, sizeof path, "/proc/%ld/fd/0", (long)pid);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return true;
    }
    if (ioctl(fd, FIONREAD, &waiting) != 0) {
        waiting = 1;
    }
    (void)close(fd);
    return waiting != 0;
}
