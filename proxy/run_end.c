/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What descends from a process, by the parents and sessions in /proc: the proxy
 * is a subreaper, so whatever a stage left behind, even in a session of its own,
 * is found below it. Numbers are read once and signalled at once; a process that
 * ended in between is nobody's, as its number is not given out again that soon
 * and the proxy itself reaps it.
 */
#include "config.h"

#include "proxy/run.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_DEPTH = 64, /* of a family */
    /* Which number behind the state of /proc/PID/stat, from 0. */
    PARENT = 0,
    SESSION = 2,
    RESIDENT = 20,
};

struct process {
    pid_t pid, parent, session;
    uint64_t resident_pages;
    bool below, chosen, dead;
};

struct processes {
    struct process *rows;
    size_t n, capacity;
};

/* /proc/PID/stat; the name in parentheses may hold anything. */
static bool
read_process(int proc, const char *name, struct process *out)
{
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "%.20s/stat", name);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    const char *rest = strrchr(text, ')');
    if (!rest || rest[1] != ' ' || !rest[2]) {
        return false;
    }
    /* Numbers behind the state: its parent is the first, see proc(5). */
    char state = rest[2], *at = text + (rest + 3 - text);
    long numbers[RESIDENT + 1];
    for (int i = 0; i <= RESIDENT; i++) {
        char *end;
        numbers[i] = strtol(at, &end, 10);
        if (end == at) {
            return false;
        }
        at = end;
    }
    *out = (struct process){
        .pid = (pid_t)strtol(name, NULL, 10),
        .parent = (pid_t)numbers[PARENT],
        .session = (pid_t)numbers[SESSION],
        .resident_pages =
            numbers[RESIDENT] > 0 ? (uint64_t)numbers[RESIDENT] : 0,
        .dead = state == 'Z' || state == 'X',
    };
    return true;
}

static int
by_pid(const void *a, const void *b)
{
    const struct process *one = a, *other = b;
    return (one->pid > other->pid) - (one->pid < other->pid);
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
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread reads this folder */
    while ((entry = readdir(folder))) {
        struct process row;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !read_process(dirfd(folder), entry->d_name, &row)) {
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
    const struct process key = {.pid = pid};
    if (all->n == 0) {
        return NULL;
    }
    return bsearch(&key, all->rows, all->n, sizeof key, by_pid);
}

/* Marks all below `ancestor', and of these what is of, or below, `session'. */
static void
mark(struct processes *all, pid_t ancestor, pid_t session)
{
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < all->n; i++) {
            struct process *row = &all->rows[i];
            const struct process *parent = find(all, row->parent);
            bool below = row->parent == ancestor || (parent && parent->below);
            bool chosen =
                below && (session == 0 || row->session == session ||
                          row->pid == session || (parent && parent->chosen));
            if ((below && !row->below) || (chosen && !row->chosen)) {
                row->below = below;
                row->chosen = chosen;
                more = true;
            }
        }
    }
}

unsigned
fy_descendants_signal(pid_t ancestor, pid_t session, int signal)
{
    struct processes all;
    unsigned found = 0;
    read_processes(&all);
    mark(&all, ancestor, session);
    for (size_t i = 0; i < all.n; i++) {
        if (all.rows[i].chosen && !all.rows[i].dead) {
            (void)kill(all.rows[i].pid, signal);
            found++;
        }
    }
    free(all.rows);
    return found;
}

void
fy_descendants_memory(const pid_t *pids, size_t n, uint64_t *out_bytes)
{
    struct processes all;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    read_processes(&all);
    memset(out_bytes, 0, n * sizeof *out_bytes);
    for (size_t i = 0; i < all.n; i++) {
        const struct process *at = &all.rows[i];
        uint64_t bytes = at->resident_pages * page_bytes;
        /* Up to the first that is asked for; parents may have changed while
         * they were read, so not for ever. */
        for (int depth = 0; at && depth < MAX_DEPTH; depth++) {
            size_t j = 0;
            while (j < n && pids[j] != at->pid) {
                j++;
            }
            if (j < n) {
                out_bytes[j] += bytes;
                break;
            }
            at = find(&all, at->parent);
        }
    }
    free(all.rows);
}
