/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of ferry-stub after its hello: waits for the session's word, then
 * moves bytes between the session and the descriptors that the shell gave it,
 * with plain read(2) and write(2), so that blocking, job control and file limits
 * are the kernel's own.
 */
#include "config.h"

#include "shim/stub/local.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ROOM_BYTES = 2 * (FY_STUB_DATA_BYTES + sizeof(struct fy_stub_frame)),
    CREDIT_BYTES = 32 << 10, /* reported at once; less, before waiting */
};

struct service {
    struct stub *stub;
    bool running;        /* RUN came: the original is not an option any more */
    bool stdin_told;     /* READABLE was sent, or stdin is no pipe */
    bool reads_stdin;    /* and it has not ended */
    bool keeps_stdin;    /* bytes that are read are kept: spool.c */
    uint32_t pipes;      /* of enum fy_stub_pipes */
    bool full;           /* no more can be kept, and the session knows */
    int64_t input_start; /* where the file stood that is sent; -1: none */
    uint64_t wanted_bytes;
    uint64_t place; /* of bytes for stderr: late.c */
    uint32_t credit_bytes;
    size_t used; /* bytes of `room', from its start */
};

static char room[ROOM_BYTES];
static char input[FY_STUB_DATA_BYTES];

/* One write(2) of bytes at *at, which moves. */
static int
write_some(int fd, const char **at, size_t *n)
{
    ssize_t written = write(fd, *at, *n);
    if (written >= 0) {
        *at += written;
        *n -= (size_t)written;
    } else if (errno == EAGAIN) {
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        (void)poll(&wait, 1, -1);
    } else if (errno != EINTR) {
        return errno;
    }
    return 0;
}

int
stub_write(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    int error = 0;
    while (n > 0 && !error) {
        error = write_some(fd, &at, &n);
    }
    return error;
}

/* The session ended without a word. */
static void
lose(const struct service *service)
{
    if (!service->running) {
        stub_exec(service->stub);
    }
    stub_signals_deliver(); /* the session may have ended by the same */
    stub_complain(service->stub, "ferry",
                  "its session is gone; the command "
                  "may not have run to its end");
    stub_end(0, 125);
}

static void
tell_broken(struct service *service, int fd, int error)
{
    const struct fy_stub_broken broken = {fd, error};
    struct stub_output *output = &service->stub->outputs[fd];
    if (!output->error) {
        if (error == EPIPE && !(service->pipes & FY_STUB_OUTLIVES)) {
            stub_pipe_broken();
        }
        output->error = error;
        (void)stub_send(FY_STUB_BROKEN, &broken, sizeof broken);
    }
}

static void
add_credit(struct service *service, size_t n)
{
    service->credit_bytes += (uint32_t)n;
    if (service->credit_bytes >= CREDIT_BYTES) {
        uint32_t credit = service->credit_bytes;
        service->credit_bytes = 0;
        (void)stub_send(FY_STUB_CREDIT, &credit, sizeof credit);
    }
}

/* As if the command had read that much of its stdin and no more: only this
 * process knows that it reads no further. */
static void
place_input(const struct service *service, int64_t bytes)
{
    int64_t to;
    if (service->input_start >= 0 && bytes >= 0 &&
        !__builtin_add_overflow(service->input_start, bytes, &to)) {
        (void)lseek(0, to, SEEK_SET);
    }
}

/* Stdin is again as it was when the command began. */
static void
restore_input(const struct service *service)
{
    place_input(service, 0);
    if (service->keeps_stdin && stub_spool_replay() != 0) {
        stub_complain(
            service->stub, "ferry",
            "the connection broke, and its input cannot be had again");
        stub_end(0, 125);
    }
}

static void
write_held(struct service *service, bool waits)
{
    size_t before = stub_held_bytes();
    int fd, error;
    while ((error = stub_held_write(waits, &fd)) != 0) {
        tell_broken(service, fd, error);
    }
    add_credit(service, before - stub_held_bytes());
}

static void deliver(struct service *service, int fd, const char *bytes,
                    uint32_t n);

/* Writes kept bytes of stderr, as far as their place is reached or all. A
 * command that outlives its reader reaches every place. */
static void
deliver_late(struct service *service, bool all)
{
    all = all || (service->stub->outputs[1].error &&
                  service->pipes & FY_STUB_OUTLIVES);
    while (stub_late_place() != UINT64_MAX &&
           (all || stub_late_place() <= stub_late_reach(service->stub))) {
        uint32_t n;
        const char *bytes = stub_late_bytes(&n);
        deliver(service, 2, bytes, n);
        stub_late_drop();
    }
}

/* write(2) as far as the place of the kept bytes of stderr. */
static int
write_to_place(struct service *service, int fd, const char **at, size_t *n)
{
    struct stub_output *output = &service->stub->outputs[fd];
    uint64_t ahead = stub_late_place() - output->written_bytes;
    size_t part = fd == 1 && ahead < *n ? (size_t)ahead : *n;
    const char *before = *at;
    size_t left = part;
    int error = write_some(fd, at, &left);
    *n -= part - left;
    output->written_bytes += (size_t)(*at - before);
    if (fd == 1) {
        deliver_late(service, false);
    }
    return error;
}

static void
deliver(struct service *service, int fd, const char *bytes, uint32_t n)
{
    struct stub_output *output = &service->stub->outputs[fd];
    const char *at = bytes;
    size_t left = output->error ? 0 : n;
    int error = 0;
    if (output->written_bytes == 0) {
        output->begin = lseek(fd, 0, SEEK_CUR);
    }
    if (output->passed_bytes == 0) {
        fy_sha256_start(&output->hash);
    }
    output->passed_bytes += n;
    fy_sha256_add(&output->hash, bytes, n);
    while (left > 0 && !error && !stub_signals_passed()) {
        error = write_to_place(service, fd, &at, &left);
    }
    if (error) {
        /* Before the credit: the session must not take it for written. */
        tell_broken(service, fd, error);
        if (fd == 1) {
            deliver_late(service, false);
        }
    } else if (left > 0 && stub_hold(fd, at, (uint32_t)left) != 0) {
        lose(service);
    } else {
        add_credit(service, n - left);
        write_held(service, false);
        return;
    }
    add_credit(service, n);
}

static void
complain(struct service *service, const char *bytes, uint32_t n)
{
    if (service->place == FY_PLACE_ANY) {
        deliver_late(service, true);
        deliver(service, 2, bytes, n);
    } else if (stub_late_add(service->place, bytes, n) != 0) {
        lose(service);
    }
    deliver_late(service, false);
}

/* Ends as the command would have ended, because its output could not be
 * written. */
static void
end_broken(const struct service *service, const struct fy_stub_exit *how)
{
    for (int fd = 1; fd < 3; fd++) {
        int error = service->stub->outputs[fd].error;
        if (!error || how->signal != 0) {
            continue;
        }
        if (error == EPIPE && stub_pipe_kills() &&
            !(service->pipes & FY_STUB_NO_SIGNAL)) {
            stub_end(SIGPIPE, 0);
        }
        bool fails = error != EPIPE || !(service->pipes & FY_STUB_NO_FAILURE);
        if (fails && how->status == 0) {
            stub_complain(service->stub, "write error", strerrordesc_np(error));
            stub_end(0, 1);
        }
    }
}

/* The last word. A command that ended by a signal has written no more than it could. */
static void
end(struct service *service, const struct fy_stub_exit *how)
{
    const struct stub_output *outputs = service->stub->outputs;
    deliver_late(service, how->signal == 0);
    write_held(service, false);
    if (how->signal == SIGPIPE) {
        /* Joined stages get a signal of their group one by one, readers first:
         * this stage's own may come after its reader's death. */
        stub_signals_deliver();
    } else if (how->signal == 0 &&
               (stub_held_fd() >= 0 || outputs[1].error || outputs[2].error)) {
        /* It ended on its host before the signal came; its output is
         * still on its way, as it would be within the command. */
        stub_signals_deliver();
        write_held(service, true);
    }
    end_broken(service, how);
    stub_end(how->signal, how->status);
}

static void
handle_frame(struct service *service, uint32_t type, const char *bytes,
             uint32_t n)
{
    stub_signals_seen();
    union {
        struct fy_stub_run run;
        struct fy_stub_exit end;
        uint64_t place;
        uint32_t number;
    } body;
    memset(&body, 0, sizeof body);
    memcpy(&body, bytes, n < sizeof body ? n : sizeof body);
    switch (type) {
    case FY_STUB_EXEC:
        stub_signals_deliver(); /* the original would never hear of it */
        restore_input(service);
        stub_exec(service->stub);
    case FY_STUB_RUN:
        service->running = true;
        service->stdin_told = true;
        service->reads_stdin = body.run.reads_stdin != 0;
        service->keeps_stdin = body.run.keeps_stdin != 0;
        service->pipes = body.run.pipes;
        if (service->pipes & FY_STUB_IGNORES_PIPE) {
            stub_signals_ignore(SIGPIPE);
        }
        if (service->pipes & FY_STUB_NO_INTERRUPT) {
            stub_signals_ignore(SIGINT);
        }
        if (service->reads_stdin) {
            service->input_start = lseek(0, 0, SEEK_CUR);
        }
        stub_signals_catch(service->stub);
        break;
    case FY_STUB_OUT:
        deliver(service, 1, bytes, n);
        break;
    case FY_STUB_ERR:
        complain(service, bytes, n);
        break;
    case FY_STUB_PLACE:
        service->place = body.place;
        break;
    case FY_STUB_WANT:
        service->wanted_bytes += body.number;
        break;
    case FY_STUB_EXIT:
        place_input(service, body.end.input_bytes);
        end(service, &body.end);
        break;
    case FY_STUB_AGAIN:
        stub_signals_deliver();
        restore_input(service);
        write_held(service, true);
        stub_again(service->stub);
    case FY_STUB_STOPPED:
        stub_stop();
        break;
    case FY_STUB_FORGET:
        service->keeps_stdin = service->full = false;
        stub_spool_forget();
        break;
    case FY_STUB_PING:
        (void)stub_send(FY_STUB_PONG, NULL, 0);
        break;
    default:
        lose(service);
    }
}

/* Every whole frame that is there; the rest moves to the front. */
static void
handle_frames(struct service *service)
{
    size_t at = 0;
    struct fy_stub_frame frame;
    while (service->used - at >= sizeof frame) {
        memcpy(&frame, room + at, sizeof frame);
        if (frame.bytes > FY_STUB_DATA_BYTES) {
            lose(service);
        }
        if (service->used - at - sizeof frame < frame.bytes) {
            break;
        }
        handle_frame(service, frame.type, room + at + sizeof frame,
                     frame.bytes);
        at += sizeof frame + frame.bytes;
    }
    memmove(room, room + at, service->used - at);
    service->used -= at;
}

static void
receive(struct service *service)
{
    ssize_t n = recv(service->stub->socket, room + service->used,
                     sizeof room - service->used, MSG_DONTWAIT);
    if (n > 0) {
        service->used += (size_t)n;
        handle_frames(service);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        lose(service);
    }
}

static void
take_input(struct service *service)
{
    size_t most = service->wanted_bytes < sizeof input
                      ? (size_t)service->wanted_bytes
                      : sizeof input;
    ssize_t n = read(0, input, most);
    if (n > 0) {
        service->wanted_bytes -= (uint64_t)n;
        if (service->keeps_stdin) {
            stub_spool_add(input, (size_t)n);
        }
        (void)stub_send(FY_STUB_INPUT, input, (uint32_t)n);
    } else if (n == 0) {
        service->reads_stdin = false;
        (void)stub_send(FY_STUB_INPUT_END, NULL, 0);
    } else if (errno != EAGAIN && errno != EINTR) {
        /* The command would take an end of input for the end of the file. */
        const struct fy_stub_broken broken = {0, errno};
        service->reads_stdin = false;
        (void)stub_send(FY_STUB_BROKEN, &broken, sizeof broken);
    }
}

/* Returns true if stdin may be read on, because bytes read of a pipe are
 * gone. */
static bool
takes_input(struct service *service)
{
    if (!service->reads_stdin || service->wanted_bytes == 0 || service->full) {
        return false;
    }
    if (service->keeps_stdin && !stub_spool_room(service->stub->folder)) {
        service->full = true;
        (void)stub_send(FY_STUB_FULL, NULL, 0);
    }
    return !service->full;
}

static void
step(struct service *service)
{
    struct pollfd polls[3] = {{.fd = service->stub->socket, .events = POLLIN},
                              {.fd = -1, .events = POLLIN},
                              {.fd = stub_held_fd(), .events = POLLOUT}};
    stub_signals_seen();
    bool takes = takes_input(service);
    if (takes || !service->stdin_told) {
        polls[1].fd = 0;
    }
    if (poll(polls, 3, -1) <= 0) {
        return;
    }
    if (polls[2].revents) {
        write_held(service, false);
    }
    if (polls[1].revents && takes) {
        take_input(service);
    } else if (polls[1].revents) {
        service->stdin_told = true;
        (void)stub_send(FY_STUB_READABLE, NULL, 0);
    }
    if (polls[0].revents) {
        receive(service);
    }
}

void
stub_serve(struct stub *stub)
{
    struct stat status;
    struct service service = {.stub = stub, .input_start = -1};
    stub_send_to(stub->socket);
    service.stdin_told = fstat(0, &status) != 0 || !S_ISFIFO(status.st_mode);
    for (;;) {
        /* Written bytes are told before a wait that may be long. */
        if (service.credit_bytes > 0) {
            uint32_t credit = service.credit_bytes;
            service.credit_bytes = 0;
            (void)stub_send(FY_STUB_CREDIT, &credit, sizeof credit);
        }
        step(&service);
    }
}
