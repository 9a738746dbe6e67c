/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See explain.h. Lines are written whole with one write() to a file opened for
 * appending, so that processes and threads do not mix theirs.
 */
#include "config.h"

#define HASH_NONFATAL_OOM         1
#define uthash_nonfatal_oom(elem) ((elem)->failed = true)

#include "pager/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

enum {
    MAX_LINES = 4096,
    MAX_SCALARS = 12
};

struct told {
    struct {
        const void *caller;
        uint32_t function, reason, bucket;
    } key;
    bool failed;
    UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct told *told;
static unsigned lines;
static int file = -1;

/* Of ours alone: after the run anybody may have made its folder again. */
static int
open_lines(const char *path)
{
    struct stat status;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                  0644);

    if (fd >= 0 && (fstat(fd, &status) != 0 || status.st_uid != geteuid())) {
        close(fd);
        return -1;
    }
    return fd;
}

void
fy_explain_to(const char *path)
{
    if (path && *path) {
        file = open_lines(path);
    }
}

void
fy_explain_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void
fy_explain_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* A power of two for the size of the call. */
static uint32_t
bucket(const struct fy_decision *decision)
{
    double size = 0;
    uint32_t log = 0;

    if (!decision->bound) {
        return 0;
    }
    for (unsigned i = 0; i < decision->bound->function->naxes; i++) {
        size += (double)decision->bound->extents[i];
    }
    while (size >= 2) {
        size /= 2;
        log++;
    }
    return log;
}

static bool
first_time(const struct fy_decision *decision)
{
    struct told *row = calloc(1, sizeof(*row)), *found;

    if (!row) {
        return false;
    }
    row->key.caller = decision->caller;
    row->key.function = decision->function;
    row->key.reason = decision->reason;
    row->key.bucket = bucket(decision);
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, told, &row->key, sizeof(row->key), found);
    bool first = !found && lines < MAX_LINES;
    if (first) {
        HASH_ADD(hh, told, key, sizeof(row->key), row);
        first = !row->failed;
        lines++;
    }
    pthread_mutex_unlock(&lock);
    if (!first) {
        free(row);
    }
    return first;
}

struct line {
    char text[1024];
    size_t used;
};

static void __attribute__((format(printf, 2, 3)))
add(struct line *line, const char *format, ...)
{
    va_list list;
    size_t room = sizeof(line->text) - line->used;

    va_start(list, format);
    int n = vsnprintf(line->text + line->used, room, format, list);
    va_end(list);
    if (n > 0) {
        line->used += (size_t)n < room ? (size_t)n : room - 1;
    }
}

/* The call's integers: "m=4096 n=4096 k=4096 lda=4096". */
static void
add_scalars(struct line *line, const struct fy_bound *bound)
{
    const struct fy_cell *cells =
        FY_TABLE(bound->model, fy_cell, cells) + bound->function->cells;
    unsigned shown = 0;

    for (unsigned i = 0; i < bound->function->ncells; i++) {
        const char *name = fy_model_string(bound->model, cells[i].name);
        if (bound->cells[i].kind != FY_V_INT || shown == MAX_SCALARS) {
            continue;
        }
        if (cells[i].type == FY_T_CHAR) {
            add(line, " %s=%c", name, (char)bound->cells[i].i);
        } else {
            add(line, " %s=%lld", name, (long long)bound->cells[i].i);
        }
        shown++;
    }
}

static void
add_call(struct line *line, const struct fy_decision *decision)
{
    const struct fy_symbol *symbol =
        &FY_TABLE(decision->model, fy_symbol, symbols)[decision->symbol];

    add(line, "%s", fy_model_string(decision->model, symbol->name));
    if (decision->bound) {
        add_scalars(line, decision->bound);
    }
    add(line, " caller=%p pid=%ld:", decision->caller, (long)getpid());
}

void
fy_explain_difference(const char *path, const struct fy_decision *decision)
{
    struct line line = {.used = 0};
    int saved = errno, to = *path ? open_lines(path) : -1;

    if (to >= 0) {
        add_call(&line, decision);
        add(&line, " %s; not offloaded any more\n", decision->note);
        if (write(to, line.text, line.used) < 0) {
            /* A full disk loses lines, nothing else. */
        }
        close(to);
    }
    errno = saved;
}

void
fy_explain(const struct fy_decision *decision)
{
    struct line line = {.used = 0};
    int saved = errno;

    if (file < 0 || !first_time(decision)) {
        errno = saved;
        return;
    }
    add_call(&line, decision);
    if (decision->reason == FY_REASON_NONE) {
        add(&line, " offloaded");
        if (decision->method) {
            add(&line, " (%s)", decision->method);
        }
        add(&line, ", %llu bytes in, %llu out, %llu chunks",
            (unsigned long long)decision->traffic.bytes_in,
            (unsigned long long)decision->traffic.bytes_out,
            (unsigned long long)decision->traffic.chunks);
    } else {
        add(&line, " original, %s", fy_reason_word(decision->reason));
    }
    if (decision->original_seconds > 0) {
        add(&line, ", predicted original %.3g s", decision->original_seconds);
    }
    if (decision->device_seconds > 0) {
        add(&line, ", device %.3g s", decision->device_seconds);
    }
    if (decision->actual_seconds > 0) {
        add(&line, ", took %.3g s", decision->actual_seconds);
    }
    if (decision->note[0]) {
        add(&line, ": %s", decision->note);
    }
    add(&line, "\n");
    if (write(file, line.text, line.used) < 0) {
        /* A full disk loses lines, nothing else. */
    }
    errno = saved;
}

void
fy_explain_line(const char *text)
{
    struct line line = {.used = 0};
    int saved = errno;

    pthread_mutex_lock(&lock);
    bool room = file >= 0 && lines < MAX_LINES;
    lines += room;
    pthread_mutex_unlock(&lock);
    if (room) {
        add(&line, "pid=%ld: %s\n", (long)getpid(), text);
        if (write(file, line.text, line.used) < 0) {
            /* A full disk loses lines, nothing else. */
        }
    }
    errno = saved;
}
