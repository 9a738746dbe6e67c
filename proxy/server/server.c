/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy of one connection: a loop over the wire, the pipes of the stages
 * and the signals of this process, which is given to it alone (it adopts and
 * ends whatever descends from its stages). Ends with the connection.
 */
#include "config.h"

#include "proxy/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/whole.h"
#include "proxy/wire/transport.h"

enum {
    EVENTS = 64, /* taken at once */
    DESCRIPTORS = 65536,
    JOBS_MS = 100, /* for jobs at the end; then the process ends with them */
};

#define PING_NS (60 * UINT64_C(1000000000))

/* Whatever a login prints comes before it. */
static const char magic[] = FY_PROXY_MAGIC;

/* ---- the loop ------------------------------------------------------------------- */

static void
on_signals(void *owner, uint32_t events)
{
    struct fy_server *server = owner;
    struct signalfd_siginfo info;
    (void)events;
    while (read(server->signals.fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            server->ending = true;
        }
    }
    fy_server_reap(server);
}

/* The wire is served once a turn, whatever came. */
static void
on_wire(void *owner, uint32_t events)
{
    (void)owner;
    (void)events;
}

static void
free_dead(struct fy_server *server)
{
    while (server->dead) {
        struct fy_server_stage *stage = server->dead;
        server->dead = stage->dead_next;
        fy_server_stage_free(stage);
    }
}

/*
 * What is written is how TCP finds out that a client's machine is gone, and
 * with that sshd, and we. An answer is not waited for: a client that was stopped
 * (Ctrl-Z) goes on later.
 */
static uint64_t
send_ping(struct fy_server *server)
{
    uint64_t now = fy_clock_ns();
    if (server->ping_ns == 0) {
        server->ping_ns = now + PING_NS;
    } else if (now >= server->ping_ns) {
        server->ping_ns =
            fy_wire_ping(server->wire) ? now + PING_NS / 10 : now + PING_NS;
    }
    return server->ping_ns;
}

/* For epoll_wait(): until the next timer, in ms, rounded up. */
static int
timeout_ms(struct fy_server *server)
{
    uint64_t next_ns = fy_server_timers(server);
    uint64_t ping_ns = send_ping(server), now = fy_clock_ns();
    if (server->unreaped) {
        return 0;
    }
    next_ns = next_ns == 0 || ping_ns < next_ns ? ping_ns : next_ns;
    return next_ns <= now ? 0 : (int)((next_ns - now + 999999) / 1000000);
}

/* One wait and what it brought. FY_ERR_IO: the connection is over. */
static int
turn(struct fy_server *server)
{
    struct epoll_event events[EVENTS];
    bool one = server->wire_out.fd == server->wire_in.fd;
    int wait_ms = timeout_ms(server);
    bool writes = fy_wire_wants_write(server->wire);
    fy_watch_set(server, &server->wire_in,
                 EPOLLIN | (one && writes ? EPOLLOUT : 0));
    if (!one) {
        fy_watch_set(server, &server->wire_out, writes ? EPOLLOUT : 0);
    }
    /* What epoll refuses, a file, is always ready. */
    bool always_in = server->wire_in.events == 0;
    bool always_out = !one && writes && server->wire_out.events == 0;
    int n = epoll_wait(server->epoll, events, EVENTS,
                       always_in || always_out ? 0 : wait_ms);
    if (n < 0 && errno != EINTR) {
        return FY_ERR_IO;
    }
    bool readable = always_in, writable = always_out;
    for (int i = 0; i < n; i++) {
        const struct fy_watch *watch = events[i].data.ptr;
        if (watch->fd < 0 || watch->events == 0) {
            continue; /* closed by what came before it */
        }
        if (watch == &server->wire_in || watch == &server->wire_out) {
            readable |= watch == &server->wire_in &&
                        (events[i].events & ~(uint32_t)EPOLLOUT);
            writable |= (events[i].events & ~(uint32_t)EPOLLIN) != 0;
        } else {
            watch->ready(watch->owner, events[i].events);
        }
    }
    if (server->unreaped) {
        fy_server_reap(server);
    }
    /* What was just queued goes out in the same turn. */
    writable |= fy_wire_wants_write(server->wire);
    int status = 0;
    if (readable || writable) {
        status = fy_wire_io(server->wire, readable, writable);
    }
    free_dead(server);
    return status;
}

/* ---- begin and end ---------------------------------------------------------------- */

static int
open_server(struct fy_server *server, const sigset_t *signals)
{
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    server->signals = (struct fy_watch){
        .fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK),
        .ready = on_signals,
        .owner = server};
    if (server->epoll < 0 || server->signals.fd < 0) {
        return FY_ERR_IO;
    }
    fy_watch_set(server, &server->signals, EPOLLIN);
    if (fy_jobs_open(server)) {
        return FY_ERR_IO;
    }
    server->wire_in = (struct fy_watch){
        .fd = fy_wire_in_fd(server->wire), .ready = on_wire, .owner = server};
    server->wire_out = (struct fy_watch){
        .fd = fy_wire_out_fd(server->wire), .ready = on_wire, .owner = server};
    return 0;
}

static int
serve(int in_fd, int out_fd, const struct fy_proxy_options *options,
      const sigset_t *signals, struct fy_server *server)
{
    char text[256];
    struct fy_buffer why;
    const struct fy_policy_options policy = {.roots = options->roots,
                                             .landlock = options->landlock,
                                             .setid = options->setid};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    server->options = options;
    server->cores = cores > 0 ? (unsigned)cores : 1;
    server->stages_max =
        options->stages_max ? options->stages_max : 16 * server->cores;
    fy_buffer_start(&why, text, sizeof text);
    int status = fy_policy_new(&policy, &why, &server->policy);
    if (status) {
        (void)fprintf(stderr, "ferry: %s\n", text);
        goto close_descriptors;
    }
    status = fy_wire_new(FY_WIRE_SERVER, in_fd, out_fd, &fy_server_events,
                         server, &server->wire);
    if (status) {
        (void)fprintf(stderr, "ferry: cannot serve: %s\n",
                      fy_status_text(status));
        goto free_policy;
    }
    status = open_server(server, signals);
    if (!status) {
        status = fy_write_whole(out_fd, magic,
                                sizeof magic -
                                    1); /* the wire has written nothing yet */
    }
    if (options->memory_bytes || options->seconds > 0) {
        fy_groups_open(&server->groups);
    }
    if (!status) {
        /* While the client's answer is on its way. */
        server->speed = fy_server_speed(server);
    } else {
        (void)fprintf(stderr, "ferry: cannot serve: %m\n");
    }
    while (!status && !server->ending) {
        /* The connection's end is what a proxy waits for. */
        if (turn(server)) {
            break;
        }
    }
    fy_policy_end(server->policy); /* a child that is none of theirs */
    fy_server_end_stages(server);
    if (!fy_jobs_close(server, JOBS_MS)) {
        /* What borrows all of this reads a disk that does not answer. */
        fy_policy_leave(server->policy);
        _exit(status ? EXIT_FAILURE : EXIT_SUCCESS);
    }
    server->closed = true;
    fy_wire_free(server->wire);
    while (server->stages) {
        struct fy_server_stage *stage = server->stages;
        server->stages = stage->next;
        fy_server_stage_free(stage);
    }
    free_dead(server);
    if (server->signals.fd >= 0) {
        (void)close(server->signals.fd);
    }
    if (server->epoll >= 0) {
        (void)close(server->epoll);
    }
    fy_policy_free(server->policy);
    return status;
free_policy:
    fy_policy_free(server->policy);
close_descriptors:
    (void)close(in_fd);
    if (out_fd != in_fd) {
        (void)close(out_fd);
    }
    return status;
}

/* A stage needs up to ten descriptors of ours; its own limit is the client's. */
static void
raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        rlim_t want =
            limit.rlim_max < DESCRIPTORS ? limit.rlim_max : (rlim_t)DESCRIPTORS;
        if (limit.rlim_cur < want) {
            limit.rlim_cur = want;
            (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
    }
}

int
fy_proxy_serve(int in_fd, int out_fd, const struct fy_proxy_options *options)
{
    sigset_t signals, before;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, pipe_before;
    struct fy_server *server = calloc(1, sizeof *server);
    if (!server) {
        return EXIT_FAILURE;
    }
    server->epoll = server->signals.fd = server->bell.fd = -1;
    (void)fcntl(in_fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(out_fd, F_SETFD, FD_CLOEXEC);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before);
    (void)sigaction(SIGPIPE, &ignore, &pipe_before);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    raise_descriptors();
    int status = serve(in_fd, out_fd, options, &signals, server);
    free(server);
    (void)sigaction(SIGPIPE, &pipe_before, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
