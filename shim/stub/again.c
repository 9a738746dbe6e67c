/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the connection breaks after bytes of a command that only reads were delivered, or
 * they cannot be written: the original runs here as a child, its output is compared with
 * the delivered bytes, and only the rest goes out. If it differs, the command ends with
 * an error: it never delivers a mixture.
 */
#include "config.h"

#include "shim/stub/local.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct repeat {
    int from; /* the child's pipe; -1: ended, or the child has the fd itself */
    uint64_t skip_bytes;
    struct fy_sha256 expected, hash;
};

enum {
    ROOM_MS = 20 /* until a look whether the child is still there */
};

static char bytes[FY_STUB_DATA_BYTES];

static void
start(const struct stub *stub, struct repeat repeats[3], pid_t *out_child)
{
    int ends[3][2];
    memset(ends, -1, sizeof ends);
    for (int fd = 1; fd < 3; fd++) {
        if (repeats[fd].skip_bytes == 0 || (fd == 2 && stub->same)) {
            continue;
        }
        if (pipe(ends[fd]) != 0) {
            goto fail;
        }
        ends[fd][0] = stub_high(ends[fd][0]);
        ends[fd][1] = stub_high(ends[fd][1]);
        if (ends[fd][0] < 0 || ends[fd][1] < 0) {
            goto fail;
        }
    }
    /* An inherited SIG_IGN would take the status away. */
    struct sigaction before, normal = {.sa_handler = SIG_DFL};
    (void)sigaction(SIGCHLD, &normal, &before);
    /* A signal that comes now is for the child; it does to the child as to
     * the command. */
    sigset_t all, mask;
    (void)sigfillset(&all);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
    (void)sigprocmask(SIG_BLOCK, &all, &mask);
    pid_t child = fork();
    if (child < 0) {
        goto fail;
    }
    if (child == 0) {
        (void)sigaction(SIGCHLD, &before, NULL);
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
        (void)sigprocmask(SIG_SETMASK, &mask, NULL);
        if (ends[1][1] >= 0) {
            (void)dup2(ends[1][1], 1);
            if (stub->same) {
                (void)dup2(ends[1][1], 2);
            }
        }
        if (ends[2][1] >= 0) {
            (void)dup2(ends[2][1], 2);
        }
        stub_exec(stub);
    }
    stub_signals_to(child);
    stub_signals_catch(stub);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    /* The child alone reads it: who writes must learn when that ends. */
    (void)close(0);
    for (int fd = 1; fd < 3; fd++) {
        if (ends[fd][1] >= 0) {
            (void)close(ends[fd][1]);
        }
        repeats[fd].from = ends[fd][0];
    }
    *out_child = child;
    return;
fail:
    stub_complain(stub, "ferry: the connection broke and it cannot be repeated",
                  strerrordesc_np(errno));
    stub_end(0, 125);
}

static void
refuse(const struct stub *stub, pid_t child)
{
    (void)kill(child, SIGKILL);
    stub_complain(stub, "ferry",
                  "the connection broke, and repeated, the command writes "
                  "something else; its output is incomplete");
    stub_end(0, 125);
}

static bool
has_ended(pid_t child)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) ==
               0 &&
           info.si_pid == child;
}

/* As stub_write(). But a command that a signal ended waits for no reader: once
 * the child is gone by one, or before it came, bytes without room go with it. -1:
 * so it was. */
static int
write_of_child(int fd, const char *at, size_t n, pid_t child)
{
    while (n > 0) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        size_t part = n;
        if (stub_signals_fatal()) {
            stub_signals_seen();
            if (poll(&room, 1, ROOM_MS) <= 0) {
                if (has_ended(child)) {
                    return -1;
                }
                continue;
            }
            /* A pipe that has room takes this much without blocking. */
            part = n < PIPE_BUF ? n : PIPE_BUF;
        }
        ssize_t written = write(fd, at, part);
        if (written >= 0) {
            at += written;
            n -= (size_t)written;
        } else if (errno == EAGAIN) {
            (void)poll(&room, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* One read of the child's output. */
static void
forward(const struct stub *stub, struct repeat *repeat, int fd, pid_t child,
        bool *cut)
{
    ssize_t n = read(repeat->from, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) {
        return;
    }
    if (n <= 0) {
        bool less = repeat->skip_bytes > 0;
        if (less && !stub_signals_fatal()) {
            refuse(stub, child);
        }
        *cut = *cut || less;
        (void)close(repeat->from);
        repeat->from = -1;
        return;
    }
    size_t skipped = (uint64_t)n < repeat->skip_bytes
                         ? (size_t)n
                         : (size_t)repeat->skip_bytes;
    if (skipped > 0) {
        fy_sha256_add(&repeat->hash, bytes, skipped);
        repeat->skip_bytes -= skipped;
        if (repeat->skip_bytes == 0) {
            unsigned char found[32], expected[32];
            fy_sha256_end(&repeat->hash, found);
            fy_sha256_end(&repeat->expected, expected);
            if (memcmp(found, expected, sizeof found) != 0) {
                refuse(stub, child);
            }
        }
    }
    int error = write_of_child(fd, bytes + skipped, (size_t)n - skipped, child);
    *cut = *cut || error < 0;
    if (error == EPIPE) {
        stub_pipe_broken();
    }
    if (error != 0) {
        /* The child finds it out by itself, as it would have. */
        (void)close(repeat->from);
        repeat->from = -1;
    }
}

/*
 * Makes the original meet an error of writing itself, and say so. It gets the
 * descriptor: a pipe without readers takes nothing twice, and a file is
 * written from where it was begun, if its offset is still where it was left.
 */
static void
expose(const struct stub *stub, int fd)
{
    const struct stub_output *output = &stub->outputs[fd];
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return;
    }
    int64_t end = output->begin + (int64_t)output->written_bytes;
    if ((fcntl(fd, F_GETFL) & O_APPEND) || output->begin < 0 ||
        lseek(fd, 0, SEEK_CUR) != end ||
        lseek(fd, output->begin, SEEK_SET) < 0) {
        stub_complain(stub, "write error", strerrordesc_np(output->error));
        stub_end(0, 1);
    }
}

void
stub_again(const struct stub *stub)
{
    struct repeat repeats[3] = {{.from = -1}, {.from = -1}, {.from = -1}};
    for (int fd = 1; fd < 3; fd++) {
        const struct stub_output *output = &stub->outputs[fd];
        if (output->error) {
            expose(stub, fd);
        }
        repeats[fd].skip_bytes = output->error ? 0 : output->passed_bytes;
        repeats[fd].expected = output->hash;
        fy_sha256_start(&repeats[fd].hash);
    }
    pid_t child;
    bool cut = false;
    start(stub, repeats, &child);
    (void)close(stub->socket);
    while (repeats[1].from >= 0 || repeats[2].from >= 0) {
        struct pollfd polls[2] = {{.fd = repeats[1].from, .events = POLLIN},
                                  {.fd = repeats[2].from, .events = POLLIN}};
        stub_signals_seen();
        if (poll(polls, 2, -1) <= 0) {
            continue;
        }
        for (int i = 0; i < 2; i++) {
            if (polls[i].revents) {
                forward(stub, &repeats[i + 1], i + 1, child, &cut);
            }
        }
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            stub_end(0, 125);
        }
    }
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    stub_end(number == 0 && cut ? stub_signals_fatal() : number,
             WEXITSTATUS(status));
}
