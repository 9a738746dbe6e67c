/* SPDX-License-Identifier: Apache-2.0 */
/*
 * popen(3) and pclose(3): libc's own starts its shell by a way inside libc that
 * no wrapper sees, so its shell would not be covered. The stream is one of
 * fdopen(3)'s; which process belongs to it stands in a table here, so fclose(3),
 * which on libc's own streams waits too, must look there first. Where nothing is
 * hidden, where another tool wraps it too, on any error and when the table is
 * full, the original does it.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/programs/exec.h"

#define EXPORT __attribute__((visibility("default")))

extern char **environ;

/* A row is free, taken (file is NULL, pid is not 0) or open. */
struct row {
    FILE *file;
    pid_t pid;
    int fd;
};

enum {
    ROWS = 2048
};

static FY_NEAR struct row *table; /* mapped by the first popen */
static FY_NEAR int rows_used;     /* the first so many have ever been taken */

static struct row *
take_row(void)
{
    struct row *rows = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    if (!rows) {
        struct row *none = NULL;
        size_t bytes = ROWS * sizeof *rows;
        rows = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (rows == MAP_FAILED) {
            return NULL;
        }
        if (!__atomic_compare_exchange_n(&table, &none, rows, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            munmap(rows, bytes);
            rows = none;
        }
    }
    for (int i = 0; i < ROWS; i++) {
        pid_t nobody = 0;
        if (__atomic_compare_exchange_n(&rows[i].pid, &nobody, -1, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            int used = __atomic_load_n(&rows_used, __ATOMIC_RELAXED);
            while (used <= i && !__atomic_compare_exchange_n(
                                    &rows_used, &used, i + 1, false,
                                    __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
                continue;
            }
            return &rows[i];
        }
    }
    return NULL;
}

static void
free_row(struct row *row)
{
    __atomic_store_n(&row->file, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&row->pid, 0, __ATOMIC_RELEASE);
}

/* The request in `mode'; false: libc shall report the fault in it. */
struct mode {
    bool read, write, close_on_exec;
};

static bool
parse_mode(const char *text, struct mode *out)
{
    *out = (struct mode){.read = false};
    for (; *text; text++) {
        switch (*text) {
        case 'r':
            out->read = true;
            break;
        case 'w':
            out->write = true;
            break;
        case 'e':
            out->close_on_exec = true;
            break;
        default:
            return false;
        }
    }
    return out->read != out->write;
}

/* The child has none of the streams that were opened before. */
static int
start(const char *command, int end, int child_fd, pid_t *out_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int status = posix_spawn_file_actions_adddup2(&actions, end, child_fd);
    int used = __atomic_load_n(&rows_used, __ATOMIC_ACQUIRE);
    for (int i = 0; i < used && status == 0; i++) {
        if (__atomic_load_n(&table[i].file, __ATOMIC_ACQUIRE) &&
            table[i].fd != child_fd) {
            status = posix_spawn_file_actions_addclose(&actions, table[i].fd);
        }
    }
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    if (status == 0) {
        status = fy_spawn(out_pid, "/bin/sh", &actions, NULL, argv, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

/* NULL when anything is not as it should be; then nothing is left of it. */
static FILE *
open_stream(struct row *row, const char *command, const struct mode *mode)
{
    int ends[2], child_fd = mode->read ? 1 : 0;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC)) {
        return NULL;
    }
    int ours = ends[mode->read ? 0 : 1], theirs = ends[mode->read ? 1 : 0];
    if (theirs == child_fd) {
        /* As it is, it would be closed on exec. */
        int moved = fcntl(theirs, F_DUPFD_CLOEXEC, 3);
        if (moved < 0) {
            goto close_ends;
        }
        close(theirs);
        theirs = moved;
    }
    FILE *file = fdopen(ours, mode->read ? "r" : "w");
    if (!file) {
        goto close_ends;
    }
    if (start(command, theirs, child_fd, &pid)) {
        FY_ORIGINAL(fy_fclose_fn, FY_FCLOSE)(file);
        close(theirs);
        return NULL;
    }
    close(theirs);
    if (!mode->close_on_exec) {
        fcntl(ours, F_SETFD, 0);
    }
    row->fd = ours;
    __atomic_store_n(&row->pid, pid, __ATOMIC_RELAXED);
    __atomic_store_n(&row->file, file, __ATOMIC_RELEASE);
    return file;
close_ends:
    close(ours);
    close(theirs);
    return NULL;
}

EXPORT FILE *
popen(const char *command, const char *mode)
{
    struct mode parsed;
    int *error = &errno, saved = *error;
    /* The version of libc decides if the shell takes "-x" for an option. */
    if (fy_hidden.settings && *command != '-' && *command != '+' &&
        parse_mode(mode, &parsed) && !fy_original_is_foreign(FY_POPEN)) {
        struct row *row = take_row();
        FILE *file = row ? open_stream(row, command, &parsed) : NULL;
        *error = saved;
        if (file) {
            return file;
        }
        if (row) {
            free_row(row);
        }
    }
    return FY_ORIGINAL(fy_popen_fn, FY_POPEN)(command, mode);
}

static int
wait_for(pid_t pid)
{
    int status, state;
    pid_t ended;
    do {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        ended = waitpid(pid, &status, 0);
        pthread_setcancelstate(state, NULL);
    } while (ended < 0 && errno == EINTR);
    return ended < 0 ? -1 : status;
}

/* True when it was a stream of ours. */
static bool
close_stream(FILE *file, int *out_result)
{
    struct row *rows = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    if (!rows) {
        return false;
    }
    int used = __atomic_load_n(&rows_used, __ATOMIC_ACQUIRE);
    for (int i = 0; i < used; i++) {
        if (__atomic_load_n(&rows[i].file, __ATOMIC_ACQUIRE) != file) {
            continue;
        }
        pid_t pid = rows[i].pid;
        free_row(&rows[i]); /* before its address can be another stream's */
        int written = FY_ORIGINAL(fy_fclose_fn, FY_FCLOSE)(file);
        /* Somebody has closed its fd: libc does not wait then either. */
        bool lost = written == EOF && errno == EBADF;
        int status = lost ? 0 : wait_for(pid);
        *out_result = status ? status : written;
        return true;
    }
    return false;
}

EXPORT int
pclose(FILE *stream)
{
    int result;
    return stream && close_stream(stream, &result)
               ? result
               : FY_ORIGINAL(fy_fclose_fn, FY_PCLOSE)(stream);
}

EXPORT int
fclose(FILE *stream)
{
    int result;
    return stream && close_stream(stream, &result)
               ? result
               : FY_ORIGINAL(fy_fclose_fn, FY_FCLOSE)(stream);
}
