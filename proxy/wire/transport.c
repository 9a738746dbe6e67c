/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts proxies and waits for their first line: the table of transports and
 * their common code. Nothing here blocks but fy_link_close(), for as long as it
 * is told. One thread at a time per link.
 */
#include "config.h"

#include "proxy/wire/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/debug.h"
#include "common/environment.h"
#include "common/kernel.h"
#include "common/plain.h"
#include "proxy/wire/temporary.h"
#include "proxy/wire/transports.h"

enum {
    SKIPPED_MAX_BYTES = 64 << 10, /* of text that a login may print before */
    REAP_STEP_MS = 5,             /* between looks at a child */
    CLEAN_TRIES = 100,            /* at files that a killed proxy left behind */
};

static int
open_loopback(const struct fy_place *place, const char *ferry_path,
              struct fy_buffer *why, struct fy_link *out)
{
    const char *path = *place->ferry ? place->ferry : ferry_path;
    char rooms[256], file[PATH_MAX + 32];
    const char *argv[] = {path, "proxy", "--stdio", NULL, file, NULL};
    struct fy_buffer to;
    fy_buffer_start(&to, rooms, sizeof rooms);
    if (fy_debug_format(&to)) {
        argv[3] = rooms;
        (void)snprintf(file, sizeof file, "--debug-file=%s", fy_debug_file());
    }
    return fy_transport_spawn(argv, why, out);
}

static int
open_tls(const struct fy_place *place, const char *ferry_path,
         struct fy_buffer *why, struct fy_link *out)
{
    (void)place, (void)ferry_path, (void)out;
    fy_buffer_add(why, "tls:// is not supported by this version; use ssh://");
    return FY_ERR_UNSUPPORTED;
}

static const struct fy_transport transports[] = {
    {"ssh", fy_transport_ssh},
    {"loopback", open_loopback},
    {"tls", open_tls},
};

const struct fy_transport *
fy_transport_find(const char *scheme, size_t bytes)
{
    for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++) {
        if (strlen(transports[i].scheme) == bytes &&
            memcmp(transports[i].scheme, scheme, bytes) == 0) {
            return &transports[i];
        }
    }
    return NULL;
}

/* Runs in the child: only functions that are safe after fork in a program with threads. */
_Noreturn static void
become(const char *const *argv, char **variables, int stream, int said)
{
    environ = variables;
    setsid(); /* the terminal's Ctrl-C is for the user's commands */
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    for (int i = 1; i < NSIG; i++) {
        sigaction(i, &action, NULL);
    }
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    /* Both are above 2: see fy_transport_spawn(). */
    if (dup2(stream, 0) == 0 && dup2(stream, 1) == 1 && dup2(said, 2) == 2) {
        fy_close_range(3, ~0U, false);
        execvp(argv[0], (char *const *)argv);
        const char *reason = strerrordesc_np(errno);
        ssize_t ignored = write(2, argv[0], strlen(argv[0]));
        ignored += write(2, ": ", 2);
        ignored += write(2, reason, reason ? strlen(reason) : 0);
        (void)ignored;
    }
    _exit(127);
}

/* The same descriptor above 2, close-on-exec. -1: errno. */
static int
above_stdio(int fd)
{
    if (fd < 0 || fd > 2) {
        return fd;
    }
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int saved = errno;
    close(fd);
    errno = saved;
    return moved;
}

/* A proxy, or a program that leads to one, is no program of the run: drops
 * the variables that would make it one. One new block; NULL: no memory. */
static char **
environment_new(void)
{
    size_t n = 0, bytes = 0;
    for (char **each = environ; *each; each++, n++) {
        bytes += strlen(*each) + 1;
    }
    char **variables = malloc((n + 1) * sizeof *variables + bytes);
    if (!variables) {
        return NULL;
    }
    char *to = (char *)(variables + n + 1);
    n = 0;
    for (char **each = environ; *each; each++) {
        size_t used = fy_environment_copy(*each, to);
        if (used > 0) {
            variables[n++] = to;
            to += used;
        }
    }
    variables[n] = NULL;
    return variables;
}

/* Made once, before there are threads that could read while another sets. */
static char **prepared;

void
fy_link_prepare(void)
{
    if (!prepared) {
        prepared = environment_new();
    }
}

int
fy_transport_spawn(const char *const *argv, struct fy_buffer *why,
                   struct fy_link *out)
{
    int pair[2];
    char **variables = prepared ? prepared : environment_new();
    if (!variables) {
        goto failed;
    }
    int said = above_stdio(memfd_create("ferry-said", MFD_CLOEXEC));
    if (said < 0) {
        goto free_variables;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        goto close_said;
    }
    pair[0] = above_stdio(pair[0]);
    pair[1] = above_stdio(pair[1]);
    if (pair[0] < 0 || pair[1] < 0 ||
        fcntl(said, F_SETFL, O_APPEND | O_RDWR) != 0) {
        goto close_pair;
    }
    /* All signals wait until the child's handlers are gone. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        become(argv, variables, pair[1], said);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        goto close_pair;
    }
    free(variables != prepared ? variables : NULL);
    close(pair[1]);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    memset(out, 0, sizeof *out);
    out->in = out->out = pair[0];
    out->said = said;
    out->pid = pid;
    return 0;

close_pair:
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0) {
            close(pair[i]);
        }
    }
close_said:
    close(said);
free_variables:
    free(variables != prepared ? variables : NULL);
failed:
    fy_buffer_printf(why, "cannot start %s", argv[0]);
    return FY_ERR_IO;
}

int
fy_link_open(const struct fy_place *place, const char *ferry_path,
             struct fy_buffer *why, struct fy_link *out)
{
    return place->transport->open(place, ferry_path, why, out);
}

int
fy_link_greet(struct fy_link *link, struct fy_buffer *why)
{
    static const char magic[] = FY_PROXY_MAGIC;
    const unsigned magic_bytes = sizeof magic - 1;
    /* Byte by byte: bytes behind the line are the wire's. */
    while (link->skipped_bytes < SKIPPED_MAX_BYTES) {
        char c;
        ssize_t n = read(link->in, &c, 1);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return FY_ERR_BUSY;
        }
        if (n <= 0) {
            size_t before = why ? why->used : 0;
            fy_link_last_words(link, why);
            if (why && why->used == before) {
                fy_buffer_add(why, "the connection ended at once");
            }
            return FY_ERR_IO;
        }
        link->skipped_bytes++;
        if (link->whole_line && link->matched == magic_bytes - 2 &&
            c != magic[link->matched] && c >= '0' && c <= '9') {
            char other[] = FY_PROXY_OTHER "0, this one 0";
            other[sizeof FY_PROXY_OTHER - 1] = c;
            other[sizeof other - 2] = magic[link->matched];
            fy_buffer_add(why, other);
            return FY_ERR_IO;
        }
        /* It begins with an f and holds no other. */
        link->matched =
            c == magic[link->matched] ? link->matched + 1 : c == magic[0];
        if (link->matched == 1) {
            link->whole_line = link->skipped_bytes == 1 || link->last == '\n';
        }
        link->last = c;
        if (link->matched == magic_bytes) {
            return 0;
        }
    }
    fy_buffer_add(why, "what answered is no ferry proxy of this version");
    return FY_ERR_IO;
}

void
fy_link_last_words(const struct fy_link *link, struct fy_buffer *out)
{
    char text[1025];
    off_t end = lseek(link->said, 0, SEEK_END);
    off_t most = sizeof text - 1, from = end > most ? end - most : 0;
    ssize_t n =
        end > 0 ? pread(link->said, text, (size_t)(end - from), from) : 0;
    while (n > 0 && (unsigned char)text[n - 1] <= ' ') {
        n--;
    }
    ssize_t start = n;
    while (start > 0 && text[start - 1] != '\n' && text[start - 1] != '\r') {
        start--;
    }
    text[n > 0 ? n : 0] = '\0';
    fy_plain(text + start, "");
    fy_buffer_add(out, text + start);
}

/* Waits for the end of a child, and kills it after a time. Whether a signal has ended
 * it. */
static bool
reap(pid_t pid, unsigned patience_ms)
{
    /* glibc has it from 2.36 on. Containers' filters may refuse it: poll(2) only
     * sleeps then. */
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    int64_t left, until = fy_clock_ms() + patience_ms;
    int status = 0;
    pid_t found = waitpid(pid, &status, WNOHANG);
    while (found == 0 && (left = until - fy_clock_ms()) > 0) {
        (void)poll(&ended, 1,
                   pidfd < 0 && left > REAP_STEP_MS ? REAP_STEP_MS : (int)left);
        found = waitpid(pid, &status, WNOHANG);
    }
    if (found == 0) {
        kill(pid, SIGKILL);
    }
    while (found != pid && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (pidfd >= 0) {
        close(pidfd);
    }
    return WIFSIGNALED(status);
}

void
fy_link_close(struct fy_link *link, unsigned patience_ms)
{
    if (link->in >= 0) {
        close(link->in);
    }
    if (link->out >= 0 && link->out != link->in) {
        close(link->out);
    }
    link->in = link->out = -1;
    if (link->pid > 0) {
        if (link->relays) {
            kill(link->pid, SIGTERM);
        }
        bool killed = reap(link->pid, patience_ms);
        /* The processes of a killed proxy end with it, but may still write. */
        for (int i = 0; killed && !link->relays && i < CLEAN_TRIES &&
                        !fy_temporary_clean();
             i++) {
            (void)usleep(REAP_STEP_MS * 1000);
        }
        link->pid = 0;
    }
    if (link->said >= 0) {
        close(link->said);
    }
    link->said = -1;
}
