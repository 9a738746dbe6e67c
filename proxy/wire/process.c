/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/stat and io, see the header and proc(5). A row that is not as expected is
 * taken for that of a process that is gone.
 */
#include "config.h"

#include "proxy/wire/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/path.h"

enum {
    /* Which number behind the state, from 0. */
    PARENT = 0,
    SESSION = 2,
    FLAGS = 5,
    START = 18,
    /* Of the flags: the kernel's PF_EXITING, PF_FORKNOEXEC. */
    EXITING = 0x4,
    FORKED = 0x40,
};

bool
fy_process_read(int proc, const char *name, struct fy_process *out)
{
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "%.40s/stat", name);
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
    /* The name in parentheses may hold anything. */
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || !at[2]) {
        return false;
    }
    char state = at[2];
    long long numbers[START + 1];
    at += 3;
    for (int i = 0; i <= START; i++) {
        char *end;
        numbers[i] = strtoll(at, &end, 10);
        if (end == at) {
            return false;
        }
        at = end;
    }
    *out = (struct fy_process){
        .pid = (pid_t)strtol(name, NULL, 10),
        .parent = (pid_t)numbers[PARENT],
        .session = (pid_t)numbers[SESSION],
        .state = state,
        .exiting = (numbers[FLAGS] & EXITING) != 0,
        .forked = (numbers[FLAGS] & FORKED) != 0,
        .start = numbers[START] > 0 ? (uint64_t)numbers[START] : 0,
    };
    return true;
}

DIR *
fy_threads_open(int proc, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%.40s/task", name);
    return strchr(name, '/') ? NULL : fy_folder_open(proc, path);
}

bool
fy_threads_next(DIR *threads, const char *name, char out[64])
{
    const struct dirent *entry;
    while (threads && (entry = readdir(threads))) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, name) != 0) {
            (void)snprintf(out, 64, "%.20s/task/%.20s", name, entry->d_name);
            return true;
        }
    }
    return false;
}

void
fy_threads_close(DIR *threads)
{
    if (threads) {
        (void)closedir(threads);
    }
}

/* The number of a row; 0: there is no such row. */
static uint64_t
io_row(const char *text, const char *name)
{
    const char *row = strstr(text, name);
    return row ? strtoull(row + strlen(name), NULL, 10) : 0;
}

bool
fy_process_io(int io, struct fy_process_io *out)
{
    char text[512];
    /* That it can be read says that the process was still there. */
    ssize_t n = pread(io, text, sizeof text - 1, 0);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    *out = (struct fy_process_io){
        .written_bytes = io_row(text, "wchar: "),
        .writes = io_row(text, "syscw: "),
    };
    return true;
}
