/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds descendants of a process by the parents and sessions in /proc: the proxy is a
 * subreaper, so each process that a stage left behind, even in a session of its own, is
 * found below it. All of /proc is read, which takes 3.5 us a process: a job of the proxy
 * does so, not the loop. The loop may reap a process meanwhile, and its number be given
 * out again: a signal goes to a process that began when the one did that was read.
 */
#include "config.h"

#include "proxy/server/run.h"
#include "proxy/wire/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_DEPTH = 64, /* of a family */
};

struct process {
    struct fy_process is;
    bool below, chosen;
};

struct processes {
    struct process *rows;
    size_t n, capacity;
};

static int
by_pid(const void *a, const void *b)
{
    const struct process *one = a, *other = b;
    return (one->is.pid > other->is.pid) - (one->is.pid < other->is.pid);
}

static void
read_processes(struct processes *out)
{
    *out = (struct processes){0};
    DIR *folder = opendir("/proc");
    if (!folder) {
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(folder))) {
        struct process row = {0};
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !fy_process_read(dirfd(folder), entry->d_name, &row.is)) {
            continue;
        }
        if (out->n == out->capacity) {
            size_t capacity = out->capacity ? 2 * out->capacity : 256;
            struct process *rows = realloc(out->rows, capacity * sizeof row);
            if (!rows) {
                break; /* those found so far are dealt with; the next scan
                        * finds others */
            }
            out->rows = rows;
            out->capacity = capacity;
        }
        out->rows[out->n++] = row;
    }
    (void)closedir(folder);
    if (out->n) {
        qsort(out->rows, out->n, sizeof *out->rows, by_pid);
    }
}

static struct process *
find(const struct processes *all, pid_t pid)
{
    const struct process key = {.is.pid = pid};
    if (all->n == 0) {
        return NULL;
    }
    return bsearch(&key, all->rows, all->n, sizeof key, by_pid);
}

/* Marks all below `ancestor', and of these the ones in, or below, `session'. */
static void
mark(struct processes *all, pid_t ancestor, pid_t session)
{
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < all->n; i++) {
            struct process *row = &all->rows[i];
            const struct process *parent = find(all, row->is.parent);
            bool below =
                row->is.parent == ancestor || (parent && parent->below);
            bool chosen =
                below && (session == 0 || row->is.session == session ||
                          row->is.pid == session || (parent && parent->chosen));
            if ((below && !row->below) || (chosen && !row->chosen)) {
                row->below = below;
                row->chosen = chosen;
                more = true;
            }
        }
    }
}

void
fy_process_signal(const struct fy_process *process, uint64_t signals)
{
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0); /* Linux 5.3 */
    char path[32];
    struct fy_process now;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)process->pid);
    bool same = process->pid > 0 && fy_process_read(AT_FDCWD, path, &now) &&
                now.start == process->start;
    for (int signal = 1; same && signal <= 64; signal++) {
        if (signals >> (signal - 1) & 1) {
            (void)(fd >= 0 ? (int)syscall(SYS_pidfd_send_signal, fd, signal,
                                          NULL, 0)
                           : kill(process->pid, signal));
        }
    }
    fy_run_close(&fd);
}

static void
deliver(struct processes *all, pid_t ancestor, struct fy_descent *descent)
{
    for (size_t i = 0; i < all->n; i++) {
        all->rows[i].below = all->rows[i].chosen = false;
    }
    mark(all, ancestor, descent->session);
    descent->found = 0;
    pid_t own = descent->others ? getsid(0) : 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct process *row = &all->rows[i];
        if (!row->chosen || row->is.session == own || row->is.state == 'Z' ||
            row->is.state == 'X') {
            continue;
        }
        descent->found++;
        fy_process_signal(&row->is, descent->signals);
    }
}

void
fy_descendants_deliver(pid_t ancestor, struct fy_descent *rows)
{
    struct processes all;
    read_processes(&all);
    for (; rows; rows = rows->next) {
        deliver(&all, ancestor, rows);
    }
    free(all.rows);
}

unsigned
fy_descendants_signal(pid_t ancestor, pid_t session, int signal)
{
    struct fy_descent descent = {.session = session,
                                 .signals =
                                     signal ? UINT64_C(1) << (signal - 1) : 0};
    fy_descendants_deliver(ancestor, &descent);
    return descent.found;
}

unsigned
fy_strays_count(void)
{
    char path[64], text[32768];
    unsigned count = 0;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children",
                   (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[bytes > 0 ? bytes : 0] = '\0';
    char *end;
    for (char *at = text; *at; at = end) {
        pid_t pid = (pid_t)strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        siginfo_t dead = {0};
        count +=
            getsid(pid) != getsid(0) &&
            waitid(P_PID, (id_t)pid, &dead, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            dead.si_pid == 0;
    }
    return count;
}
