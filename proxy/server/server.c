/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy of one connection: a loop over the wire, the pipes of the stages
 * and the signals of this process, which is given to it alone (it adopts and
 * ends whatever descends from its stages). Ends with the connection.
 */
#include "config.h"

#include "proxy/server/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/whole.h"
#include "proxy/wire/transport.h"

enum {
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
on_readable(void *owner, uint32_t events)
{
    struct fy_server *server = owner;
    server->readable |= (events & ~(uint32_t)EPOLLOUT) != 0;
}

static void
on_writable(void *owner, uint32_t events)
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
 * Only by writing does TCP find out that a client's machine is gone, and
 * with that sshd, and we. An answer is not waited for: a client that was stopped
 * (Ctrl-Z) goes on later.
 */
static void
send_ping(void *owner)
{
    struct fy_server *server = owner;
    fy_loop_set(&server->loop, &server->ping,
                fy_wire_ping(server->wire) ? PING_NS / 10 : PING_NS);
}

/* One wait and its events. FY_ERR_IO: the connection is over. */
static int
turn(struct fy_server *server)
{
    bool one = server->wire_out.fd == server->wire_in.fd;
    uint64_t until_ns = fy_server_timers(server);
    bool writes = fy_wire_wants_write(server->wire);
    (void)fy_loop_watch(&server->loop, &server->wire_in,
                        EPOLLIN | (one && writes ? EPOLLOUT : 0));
    if (!one) {
        (void)fy_loop_watch(&server->loop, &server->wire_out,
                            writes ? EPOLLOUT : 0);
    }
    /* epoll refuses files: a file is always ready. */
    server->readable = server->wire_in.events == 0;
    bool at_once = server->unreaped || server->readable ||
                   (!one && writes && server->wire_out.events == 0);
    if (fy_loop_turn(&server->loop, at_once ? 1 : until_ns)) {
        return FY_ERR_IO;
    }
    if (server->unreaped) {
        fy_server_reap(server);
    }
    /* Frames just queued go out in the same turn. */
    bool writable = fy_wire_wants_write(server->wire);
    int status = 0;
    if (server->readable || writable) {
        status = fy_wire_io(server->wire, server->readable, writable);
    }
    free_dead(server);
    return status;
}

/* ---- begin and end ---------------------------------------------------------------- */

static int
open_server(struct fy_server *server, const sigset_t *signals)
{
    server->signals = (struct fy_watch){
        .fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK),
        .ready = on_signals,
        .owner = server};
    if (server->signals.fd < 0 || fy_jobs_open(server) ||
        fy_loop_watch(&server->loop, &server->signals, EPOLLIN)) {
        return FY_ERR_IO;
    }
    server->wire_in = (struct fy_watch){.fd = fy_wire_in_fd(server->wire),
                                        .ready = on_readable,
                                        .owner = server};
    server->wire_out = (struct fy_watch){.fd = fy_wire_out_fd(server->wire),
                                         .ready = on_writable};
    server->ping = (struct fy_timer){.run = send_ping, .owner = server};
    fy_loop_set(&server->loop, &server->ping, PING_NS);
    return 0;
}

static int
serve(int in_fd, int out_fd, const struct fy_proxy_options *options,
      const sigset_t *signals, struct fy_server *server)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    server->options = options;
    server->cores = cores > 0 ? (unsigned)cores : 1;
    server->stages_max =
        options->stages_max ? options->stages_max : 16 * server->cores;
    int status = fy_policy_new(options->landlock, &server->policy);
    if (status) {
        (void)fprintf(stderr, "ferry: cannot serve: %s\n",
                      fy_status_text(status));
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
    if (status) {
        (void)fprintf(stderr, "ferry: cannot serve: %m\n");
    }
    while (!status && !server->ending && !server->loop.failed) {
        /* A proxy waits for the connection's end. */
        if (turn(server)) {
            break;
        }
    }
    fy_policy_end(server->policy); /* a child that is none of theirs */
    fy_server_end_stages(server);
    if (!fy_jobs_close(server, JOBS_MS)) {
        /* A job that borrows all of this waits for a disk that does not
         * answer. */
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
    fy_loop_unwatch(&server->loop, &server->signals);
    fy_loop_close(&server->loop);
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

/* A stage needs up to ten descriptors of the proxy's; its own limit is the
 * client's. */
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
    server->loop.epoll = server->loop.bell.fd = server->signals.fd = -1;
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
