/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps bytes that were taken of a pipe on stdin until the command has ended
 * well: if the connection breaks, the original reads them again, and then the
 * rest of the pipe, from a process that passes both on. First in memory, then
 * in a file of the run's folder that has no name. Nothing is taken that cannot
 * be kept.
 */
#include "config.h"

#include "shim/stub/local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MEMORY_BYTES = 256 << 10, /* no file for the input of most commands */
    LARGEST_BYTES = 1 << 30,  /* of the file; README.md names it */
};

static char memory[MEMORY_BYTES];
static size_t nmemory;
static int file = -1;
static uint64_t nfile, file_most;
/* Bytes that the file did not take after all. */
static char last[FY_STUB_DATA_BYTES];
static size_t nlast;
static bool full;

/* Returns the largest size that leaves others enough room. */
static uint64_t
largest(void)
{
    uint64_t most = LARGEST_BYTES;
    struct statvfs space;
    struct rlimit limit;
    if (fstatvfs(file, &space) == 0) {
        uint64_t half = (uint64_t)space.f_bavail * space.f_frsize / 2;
        most = half < most ? half : most;
    }
    /* Beyond it comes a signal. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < most) {
        most = limit.rlim_cur;
    }
    return most;
}

static bool
open_file(const char *folder)
{
    file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/input-XXXXXX", folder);
        file =
            n > 0 && (size_t)n < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
        if (file >= 0) {
            (void)unlink(path);
        }
    }
    if (file >= 0) {
        file = stub_high(file);
    }
    file_most = file >= 0 ? largest() : 0;
    return file >= 0;
}

bool
stub_spool_room(const char *folder)
{
    if (full || nmemory + FY_STUB_DATA_BYTES <= MEMORY_BYTES) {
        return !full;
    }
    full = (file < 0 && !open_file(folder)) ||
           nfile + FY_STUB_DATA_BYTES > file_most;
    return !full;
}

void
stub_spool_add(const char *bytes, size_t n)
{
    if (file < 0) {
        memcpy(memory + nmemory, bytes, n);
        nmemory += n;
        return;
    }
    while (n > 0) {
        ssize_t written = pwrite(file, bytes, n, (off_t)nfile);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            memcpy(last, bytes, n);
            nlast = n;
            full = true;
            return;
        }
        nfile += (uint64_t)written;
        bytes += written;
        n -= (size_t)written;
    }
}

void
stub_spool_forget(void)
{
    if (file >= 0) {
        (void)close(file);
    }
    file = -1;
    nmemory = nfile = nlast = 0;
    full = false;
}

/* ---- the process that passes it on ------------------------------------------------ */

enum {
    FROM,
    TO,
    KEPT
}; /* its descriptors */

static pid_t reader;

static void
pass(const char *bytes, size_t n)
{
    if (stub_write(TO, bytes, n) != 0) {
        _exit(0); /* the original reads no more */
    }
}

static void
pass_file(void)
{
    uint64_t at = 0;
    while (at < nfile) {
        ssize_t n = pread(KEPT, memory, sizeof memory, (off_t)at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            /* An end would be taken for that of the input. */
            (void)kill(reader, SIGKILL);
            _exit(1);
        }
        pass(memory, (size_t)n);
        at += (uint64_t)n;
    }
    (void)close(KEPT);
}

static _Noreturn void
pump(int to)
{
    sigset_t all;
    /* It ends with who reads from it, and not before. */
    (void)sigfillset(&all);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)!chdir("/");
    (void)dup2(to, TO);
    if (file >= 0) {
        (void)dup2(file, KEPT);
    } else {
        (void)close(KEPT);
    }
    (void)syscall(SYS_close_range, 3U, ~0U, 0U);
    pass(memory, nmemory);
    pass_file();
    pass(last, nlast);
    for (;;) {
        struct pollfd polls[2] = {{.fd = FROM, .events = POLLIN}, {.fd = TO}};
        if (poll(polls, 2, -1) < 0) {
            continue;
        }
        if (polls[1].revents) {
            _exit(0);
        }
        ssize_t n = read(FROM, memory, sizeof memory);
        if (n == 0) {
            _exit(0);
        }
        if (n > 0) {
            pass(memory, (size_t)n);
        }
    }
}

/* A fork of which no SIGCHLD is left behind. */
static pid_t
fork_quietly(void)
{
    return (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
}

int
stub_spool_replay(void)
{
    int ends[2];
    if (nmemory == 0) {
        return 0;
    }
    reader = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    ends[0] = stub_high(ends[0]);
    ends[1] = stub_high(ends[1]);
    pid_t child = ends[0] < 0 || ends[1] < 0 ? -1 : fork_quietly();
    if (child == 0) {
        /* Nobody's child: the original may wait for all of its own. */
        child = fork_quietly();
        if (child == 0) {
            pump(ends[1]);
        }
        _exit(child < 0);
    }
    int status = 1;
    while (child > 0 && waitpid(child, &status, __WALL) < 0 && errno == EINTR) {
    }
    bool passes = child > 0 && status == 0 && dup2(ends[0], 0) == 0;
    (void)close(ends[0]);
    (void)close(ends[1]);
    stub_spool_forget();
    return passes ? 0 : -1;
}
