/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks through /proc for the holders of pipes, see the header.
 */
#include "config.h"

#include "proxy/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_BYTES = 64,
    STAT_BYTES = 1024,
    LINK_BYTES = 64,
    MAX_DEPTH = 256, /* of a chain of parents */
};

struct look {
    const uint64_t *inodes;
    unsigned n;
    uint64_t since_ticks;
    struct fy_holders found;
    unsigned room;
    bool no_memory;
};

/* What a process's /proc/PID/stat says, as far as it matters here. */
struct basics {
    char state;
    pid_t parent, session;
    uint64_t start_ticks;
};

uint64_t
fy_holders_now(void)
{
    struct timespec now;
    long ticks = sysconf(_SC_CLK_TCK);
    if (clock_gettime(CLOCK_BOOTTIME, &now) || ticks <= 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * (uint64_t)ticks +
           (uint64_t)now.tv_nsec * (uint64_t)ticks / 1000000000;
}

/* A small file of /proc into `text'; its length, or -1. */
static ssize_t
read_text(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, text, capacity - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

/* False when the process is gone. */
static bool
read_basics(const char *pid, struct basics *out)
{
    char path[PATH_BYTES], text[STAT_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%s/stat", pid);
    if (read_text(path, text, sizeof text) <= 0) {
        return false;
    }
    /* The name may hold anything: the last ')' ends it. Then field 3. */
    const char *field = strrchr(text, ')');
    if (!field || field[1] != ' ') {
        return false;
    }
    out->state = field[2];
    field += 2;
    for (int i = 3; i < 22 && field; i++) {
        field = strchr(field + 1, ' ');
        if (field && i + 1 == 4) {
            out->parent = atoi(field + 1);
        }
        if (field && i + 1 == 6) {
            out->session = atoi(field + 1);
        }
    }
    out->start_ticks = field ? strtoull(field + 1, NULL, 10) : 0;
    return field != NULL;
}

/* The pipe's index, or n. */
static unsigned
which_pipe(const struct look *look, int folder, const char *fd)
{
    char link[LINK_BYTES];
    ssize_t bytes = readlinkat(folder, fd, link, sizeof link - 1);
    if (bytes <= 0) {
        return look->n;
    }
    link[bytes] = '\0';
    if (strncmp(link, "pipe:[", 6) != 0) {
        return look->n;
    }
    uint64_t inode = strtoull(link + 6, NULL, 10);
    unsigned i = 0;
    while (i < look->n && look->inodes[i] != inode) {
        i++;
    }
    return i;
}

static struct fy_holder *
holder_of(struct look *look, pid_t pid, unsigned pipe)
{
    struct fy_holders *found = &look->found;
    for (unsigned i = found->n; i > 0 && found->at[i - 1].pid == pid; i--) {
        if (found->at[i - 1].pipe == pipe) {
            return &found->at[i - 1];
        }
    }
    if (found->n == look->room) {
        unsigned room = 2 * look->room + 16;
        struct fy_holder *bigger = realloc(found->at, room * sizeof *bigger);
        if (!bigger) {
            look->no_memory = true;
            return NULL;
        }
        found->at = bigger;
        look->room = room;
    }
    struct fy_holder *holder = &found->at[found->n++];
    *holder = (struct fy_holder){.pid = pid, .pipe = pipe};
    return holder;
}

/* What the main thread is blocked in; the fd of a read or write in *out_fd. */
static uint8_t
blocked_in(const char *pid, int *out_fd)
{
    char path[PATH_BYTES], text[256], *end;
    *out_fd = -1;
    (void)snprintf(path, sizeof path, "/proc/%s/syscall", pid);
    if (read_text(path, text, sizeof text) <= 0 ||
        !isdigit((unsigned char)text[0])) {
        return FY_HOLDER_RUNS; /* "running", or not ours to see */
    }
    long number = strtol(text, &end, 10);
    unsigned long first = strtoul(end, NULL, 16);
    switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_splice:
        *out_fd = (int)first;
        return FY_HOLDER_READS;
    case SYS_write:
    case SYS_writev:
        *out_fd = (int)first;
        return FY_HOLDER_WRITES;
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
        return FY_HOLDER_POLLS;
    case SYS_wait4:
    case SYS_waitid:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
#ifdef SYS_pause
    case SYS_pause:
#endif
        return FY_HOLDER_WAITS;
    default:
        return FY_HOLDER_RUNS;
    }
}

/* Fills in what the holders of this process are doing. */
static void
describe(struct look *look, unsigned from, const char *pid, int folder,
         char state)
{
    char path[PATH_BYTES], name[16];
    struct stat program;
    int fd = -1;
    uint8_t blocked =
        state == 'S' || state == 'D' ? blocked_in(pid, &fd) : FY_HOLDER_RUNS;
    unsigned pipe = look->n;
    if (fd >= 0) {
        (void)snprintf(name, sizeof name, "%d", fd);
        pipe = which_pipe(look, folder, name);
    }
    (void)snprintf(path, sizeof path, "/proc/%s/exe", pid);
    bool known = stat(path, &program) == 0;
    for (unsigned i = from; i < look->found.n; i++) {
        struct fy_holder *holder = &look->found.at[i];
        holder->exec_inode = known ? program.st_ino : 0;
        holder->state = blocked;
        /* Blocked on something else: a terminal, another pipe. */
        if (fd >= 0 && pipe != holder->pipe) {
            holder->state = FY_HOLDER_POLLS;
        }
    }
}

/*
 * Whether a process that cannot be looked into may be of this run: a setuid
 * program. Others' processes come and go on a shared machine, and have no end of
 * our pipes.
 */
static bool
is_of_this_run(const struct basics *basics)
{
    pid_t self = getpid(), parent = basics->parent;
    struct basics above;
    if (basics->session == getsid(0)) {
        return true;
    }
    for (int depth = 0; parent > 1 && depth < MAX_DEPTH; depth++) {
        char pid[16];
        if (parent == self) {
            return true;
        }
        (void)snprintf(pid, sizeof pid, "%d", (int)parent);
        if (!read_basics(pid, &above)) {
            return false;
        }
        parent = above.parent;
    }
    return false;
}

static void
look_into(struct look *look, const char *pid)
{
    char path[PATH_BYTES];
    struct basics basics, after;
    if (!read_basics(pid, &basics) || basics.state == 'Z' ||
        basics.state == 'X' || basics.start_ticks < look->since_ticks) {
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *folder = opendir(path);
    if (!folder) {
        /* Gone meanwhile, or another user's: a setuid program of this run? */
        look->found.incomplete =
            look->found.incomplete ||
            (errno != ENOENT && errno != ESRCH && read_basics(pid, &after) &&
             after.state != 'Z' && after.state != 'X' &&
             is_of_this_run(&after));
        return;
    }
    unsigned from = look->found.n;
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        struct stat link;
        unsigned pipe = isdigit((unsigned char)entry->d_name[0])
                            ? which_pipe(look, dirfd(folder), entry->d_name)
                            : look->n;
        if (pipe == look->n ||
            fstatat(dirfd(folder), entry->d_name, &link, AT_SYMLINK_NOFOLLOW)) {
            continue;
        }
        struct fy_holder *holder = holder_of(look, atoi(pid), pipe);
        if (holder) {
            /* The link's own mode says how the fd was opened. */
            holder->reads = holder->reads || (link.st_mode & S_IRUSR);
            holder->writes = holder->writes || (link.st_mode & S_IWUSR);
        }
    }
    if (look->found.n > from) {
        describe(look, from, pid, dirfd(folder), basics.state);
    }
    closedir(folder);
}

int
fy_holders_find(const uint64_t *inodes, unsigned n, uint64_t since_ticks,
                struct fy_holders *out)
{
    struct look look = {.inodes = inodes, .n = n, .since_ticks = since_ticks};
    DIR *processes = opendir("/proc");
    if (!processes) {
        return FY_ERR_IO;
    }
    struct dirent *entry;
    unsigned seen = 0;
    while ((entry = readdir(processes)) != NULL && !look.no_memory) {
        if (isdigit((unsigned char)entry->d_name[0])) {
            seen++;
            look_into(&look, entry->d_name);
        }
    }
    closedir(processes);
    if (look.no_memory || !seen) {
        free(look.found.at);
        return look.no_memory ? FY_ERR_NOMEM : FY_ERR_IO;
    }
    fy_holders_clear(out);
    *out = look.found;
    return 0;
}

/* The next row of pipe i at or after `from', or n. */
static unsigned
next_of(const struct fy_holders *holders, unsigned i, unsigned from)
{
    while (from < holders->n && holders->at[from].pipe != i) {
        from++;
    }
    return from;
}

bool
fy_holders_same(const struct fy_holders *a, const struct fy_holders *b,
                unsigned i)
{
    unsigned at_a = next_of(a, i, 0), at_b = next_of(b, i, 0);
    while (at_a < a->n && at_b < b->n) {
        const struct fy_holder *one = &a->at[at_a], *two = &b->at[at_b];
        if (one->pid != two->pid || one->reads != two->reads ||
            one->writes != two->writes) {
            return false;
        }
        at_a = next_of(a, i, at_a + 1);
        at_b = next_of(b, i, at_b + 1);
    }
    return at_a == a->n && at_b == b->n && !a->incomplete && !b->incomplete;
}

void
fy_holders_clear(struct fy_holders *holders)
{
    free(holders->at);
    *holders = (struct fy_holders){.at = NULL};
}
