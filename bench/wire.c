/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the wire costs: one body of many bytes from a server's wire to a
 * client's in another process, over a socketpair and over two pipes. Prints
 * MB/s and the processor seconds a GB that each side took. By hand:
 * bench/wire [GIB].
 */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proxy/wire/wire.h"

enum {
    WINDOW_BYTES = 4 << 20,
    BLOCK_BYTES = 64 << 10
};

struct end {
    struct fy_wire *wire;
    uint64_t left, since_grant; /* to send; received and not granted again */
    bool over;
};

static void
send_more(struct end *end, int32_t stream)
{
    static char block[BLOCK_BYTES];
    size_t room;
    while (end->left && (room = fy_wire_room(end->wire, stream)) > 0) {
        size_t n = room < sizeof block ? room : sizeof block;
        n = n < end->left ? n : (size_t)end->left;
        if (fy_wire_send(end->wire, stream, block, n)) {
            exit(1);
        }
        end->left -= n;
    }
    if (!end->left && !end->over) {
        end->over = true;
        if (fy_wire_finish(end->wire, stream, NULL, 0)) {
            exit(1);
        }
    }
}

static void
on_request(void *context, int32_t stream, const char *method, const char *path,
           void **out_user)
{
    struct end *end = context;
    (void)method;
    (void)path;
    (void)out_user;
    if (fy_wire_respond(end->wire, stream, 200, NULL, 0, true)) {
        exit(1);
    }
}

static void
on_ready(void *context, int32_t stream, void *user)
{
    (void)user;
    send_more(context, stream);
}

static void
on_data(void *context, int32_t stream, void *user, const void *bytes, size_t n)
{
    struct end *end = context;
    (void)user;
    (void)bytes;
    end->since_grant += n;
    if (end->since_grant >= WINDOW_BYTES / 4) {
        if (fy_wire_grant(end->wire, stream, (size_t)end->since_grant)) {
            exit(1);
        }
        end->since_grant = 0;
    }
}

static void
on_closed(void *context, int32_t stream, void *user, uint32_t error)
{
    (void)stream;
    (void)user;
    (void)error;
    ((struct end *)context)->over = true;
}

static void
serve(struct end *end, bool until_over)
{
    for (;;) {
        struct pollfd fds[2] = {{fy_wire_in_fd(end->wire), POLLIN, 0},
                                {fy_wire_out_fd(end->wire),
                                 fy_wire_wants_write(end->wire) ? POLLOUT : 0,
                                 0}};
        if (poll(fds, 2, -1) < 0 ||
            fy_wire_io(end->wire, fds[0].revents != 0, fds[1].revents != 0) ||
            (until_over && end->over)) {
            return;
        }
    }
}

static double
cpu_seconds(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1e-6;
}

static int
measure(const char *name, int client_in, int client_out, int server_in,
        int server_out, uint64_t bytes)
{
    static const struct fy_wire_events events = {
        on_request, NULL, on_data, NULL, on_ready, on_closed};
    struct end end = {0};
    struct timespec began, ended;
    pid_t child = fork();
    if (child < 0) {
        return 1;
    }
    if (child == 0) {
        close(client_in);
        close(client_out);
        end.left = bytes;
        if (fy_wire_new(FY_WIRE_SERVER, server_in, server_out, &events, &end,
                        &end.wire)) {
            _exit(1);
        }
        serve(&end, false);
        fy_wire_free(end.wire);
        _exit(0);
    }
    close(server_in);
    if (server_out != server_in) {
        close(server_out);
    }
    clock_gettime(CLOCK_MONOTONIC, &began);
    struct rusage before, mine, theirs;
    getrusage(RUSAGE_SELF, &before);
    int32_t stream = 0;
    if (fy_wire_new(FY_WIRE_CLIENT, client_in, client_out, &events, &end,
                    &end.wire) ||
        fy_wire_request(end.wire, "/stage", false, NULL, &stream) ||
        fy_wire_grant(end.wire, stream, WINDOW_BYTES)) {
        return 1;
    }
    serve(&end, true);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    struct fy_wire_counters counters;
    fy_wire_counters(end.wire, &counters);
    fy_wire_free(end.wire);
    int status;
    getrusage(RUSAGE_SELF, &mine);
    if (wait4(child, &status, 0, &theirs) != child ||
        counters.received_bytes < bytes) {
        return 1;
    }
    double seconds = (double)(ended.tv_sec - began.tv_sec) +
                     (double)(ended.tv_nsec - began.tv_nsec) * 1e-9;
    double gb = (double)bytes * 1e-9;
    printf("%-11s %6.0f MB/s  sender %.3f  receiver %.3f CPU s/GB\n", name,
           gb * 1e3 / seconds, cpu_seconds(&theirs) / gb,
           (cpu_seconds(&mine) - cpu_seconds(&before)) / gb);
    return 0;
}

int
main(int argc, char **argv)
{
    uint64_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 4) << 30;
    int pair[2], up[2], down[2];
    signal(SIGPIPE, SIG_IGN);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
        measure("socketpair", pair[0], pair[0], pair[1], pair[1], bytes) ||
        pipe(up) || pipe(down) ||
        measure("two pipes", down[0], up[1], up[0], down[1], bytes)) {
        fprintf(stderr, "it did not come through\n");
        return 1;
    }
    return 0;
}
