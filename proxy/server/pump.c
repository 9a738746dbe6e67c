/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes between a stage's pipes and the wire. stdout is read only as far as the
 * client's window allows: bytes that were not asked for wait in the kernel's pipe,
 * where the stage feels it, and where another stage can still take the pipe
 * over. stdin is granted as the pipe takes it. Nothing blocks.
 */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/server/server.h"
#include "proxy/wire/protocol.h"

enum {
    TURNS = 4, /* reads of one pipe before the others have theirs */
};

/* ---- stdin -------------------------------------------------------------------- */

static void
close_in(struct fy_server_stage *stage)
{
    if (stage->in.fd < 0) {
        return;
    }
    if (stage->spec.in.kind == FY_STREAM_WIRE &&
        stage->state <= FY_STAGE_RUNNING) {
        /* One that reads nothing, so that it sees its end, and is asked how
         * much was left when it has ended. */
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", stage->in.fd);
        stage->pump.in_left = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    }
    (void)fy_loop_watch(&stage->server->loop, &stage->in, 0);
    fy_run_close(&stage->run.in);
    stage->in.fd = -1;
    stage->pump.queue.n = 0;
}

void
fy_pump_in_settle(struct fy_server_stage *stage)
{
    int left = 0;
    close_in(stage);
    if (stage->pump.in_left >= 0 &&
        ioctl(stage->pump.in_left, FIONREAD, &left) == 0 && left > 0 &&
        (uint64_t)left <= stage->pump.in_bytes) {
        stage->pump.in_bytes -= (uint64_t)left;
    }
    fy_run_close(&stage->pump.in_left);
}

/* The client may send as much as the stage has taken. */
static void
grant(struct fy_server_stage *stage, size_t bytes)
{
    if (stage->out_exchange && bytes) {
        fy_exchange_grant(stage->out_exchange, bytes);
    }
}

/* Writes; returns the bytes that went, -1 when the pipe has no reader any
 * more. */
static ssize_t
push(struct fy_server_stage *stage, const char *bytes, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t wrote = write(stage->in.fd, bytes + done, n - done);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote < 0 && errno == EAGAIN) {
            break;
        }
        if (wrote < 0) {
            return -1;
        }
        done += (size_t)wrote;
        /* Also when the rest is not read. */
        stage->pump.in_bytes += (size_t)wrote;
    }
    return (ssize_t)done;
}

void
fy_pump_in(struct fy_server_stage *stage)
{
    struct fy_queue *queue = &stage->pump.queue;
    if (stage->in.fd < 0 || stage->state == FY_STAGE_STARTING) {
        return;
    }
    if (queue->n) {
        ssize_t done = push(stage, queue->bytes + queue->at, queue->n);
        if (done < 0) {
            close_in(stage);
            return;
        }
        queue->at += (size_t)done;
        queue->n -= (size_t)done;
        grant(stage, (size_t)done);
    }
    if (queue->n) {
        (void)fy_loop_watch(&stage->server->loop, &stage->in, EPOLLOUT);
        return;
    }
    queue->at = 0;
    (void)fy_loop_watch(&stage->server->loop, &stage->in, 0);
    if (stage->pump.in_ended) {
        if (stage->spec.in.kind == FY_STREAM_PTY) {
            (void)!write(stage->in.fd, "\004", 1);
        }
        close_in(stage);
    }
}

int
fy_queue_add(struct fy_queue *queue, const char *bytes, size_t n)
{
    if (queue->at && queue->at + queue->n + n > queue->capacity) {
        memmove(queue->bytes, queue->bytes + queue->at, queue->n);
        queue->at = 0;
    }
    if (queue->n + n > queue->capacity) {
        size_t capacity = queue->capacity ? queue->capacity : 64 << 10;
        while (capacity < queue->n + n) {
            capacity *= 2;
        }
        char *larger = realloc(queue->bytes, capacity);
        if (!larger) {
            return FY_ERR_NOMEM;
        }
        queue->bytes = larger;
        queue->capacity = capacity;
    }
    memcpy(queue->bytes + queue->at + queue->n, bytes, n);
    queue->n += n;
    return 0;
}

int
fy_pump_add(struct fy_server_stage *stage, const char *bytes, size_t n)
{
    bool early =
        stage->state == FY_STAGE_CHECKING || stage->state == FY_STAGE_STARTING;
    bool later = stage->state == FY_STAGE_CHECKING &&
                 (stage->spec.in.kind == FY_STREAM_WIRE ||
                  stage->spec.in.kind == FY_STREAM_PTY);
    if (stage->in.fd < 0 && !later) {
        return 0; /* its stdin has no reader; the client is asked for no more */
    }
    if (!early && stage->pump.queue.n == 0) {
        ssize_t done = push(stage, bytes, n);
        if (done < 0) {
            close_in(stage);
            return 0;
        }
        grant(stage, (size_t)done);
        bytes += done;
        n -= (size_t)done;
    }
    int status = n ? fy_queue_add(&stage->pump.queue, bytes, n) : 0;
    if (!status && n && !early) {
        (void)fy_loop_watch(&stage->server->loop, &stage->in, EPOLLOUT);
    }
    return status;
}

void
fy_pump_end(struct fy_server_stage *stage)
{
    stage->pump.in_ended = true;
    fy_pump_in(stage);
}

/* ---- stdout ------------------------------------------------------------------- */

/* Whether all was read and no process can write any more. */
static bool
at_end(int fd)
{
    struct pollfd row = {.fd = fd};
    int left = 0;
    return poll(&row, 1, 0) == 1 && (row.revents & POLLHUP) &&
           ioctl(fd, FIONREAD, &left) == 0 && left == 0;
}

/* A signal of the client's ends it while it waits for its reader: bytes that the reader
 * has no room for go with it, for the client waits for the end. It may be done with
 * writing, while its reader is still in the middle. */
static bool
is_cut(struct fy_server_stage *stage)
{
    int *status = &stage->result.status;
    if (!stage->end.signalled || stage->state != FY_STAGE_EXITED ||
        !(WIFSIGNALED(*status) || stage->end.last_signal)) {
        return false;
    }
    *status = WIFEXITED(*status) ? stage->end.last_signal : *status;
    return true;
}

/*
 * How many bytes, of `most', read(2) may take: those that were written before this
 * call; at the end `most'. Output of a stage after the end of its input is not
 * passed on before it is certain that this was an end: EBUSY until then; the next
 * death is looked at.
 */
static ssize_t
ready(const struct fy_server_stage *stage, int fd, size_t most)
{
    int waiting = 0;
    bool linked = stage->spec.in.kind == FY_STREAM_LINK;
    if (!linked &&
        (fd != stage->out.fd || stage->spec.out.kind != FY_STREAM_WIRE)) {
        return (ssize_t)most;
    }
    if (ioctl(fd, FIONREAD, &waiting) != 0) {
        return -1;
    }
    if (waiting == 0 && !at_end(fd)) {
        errno = EAGAIN;
        return -1;
    }
    if (linked && waiting > 0 && fy_server_stage_doubts(stage)) {
        errno = EBUSY;
        return -1;
    }
    return (ssize_t)(waiting > 0 && (size_t)waiting < most ? (size_t)waiting
                                                           : most);
}

static int
sink(void *context, const void *bytes, size_t n)
{
    const struct fy_server_stage *stage = context;
    return fy_wire_send(stage->server->wire, stage->out_exchange->stream, bytes,
                        n);
}

/* Sends bytes, compressed if the link is slower than that, as far as they came:
 * a reader that waits for a line gets it. */
static int
send_out(struct fy_server_stage *stage, const void *bytes, size_t n)
{
    if (!stage->pump.squeeze) {
        return sink(stage, bytes, n);
    }
    struct fy_wire_counters counters;
    fy_wire_counters(stage->server->wire, &counters);
    double rate = (double)counters.link_rate;
    double speed = counters.link_rate ? fy_squeeze_speed() : 0;
    if (fy_squeeze_pays(rate, speed, 0)) {
        double load = fy_server_load(stage->server);
        speed /= load > 1 ? load : 1;
    }
    fy_squeeze_set(stage->pump.squeeze, rate, speed);
    return fy_squeeze_add(stage->pump.squeeze, bytes, n, true, sink, stage);
}

static void
out_ended(struct fy_server_stage *stage)
{
    (void)fy_loop_watch(&stage->server->loop, &stage->out, 0);
    fy_run_close(&stage->run.out);
    stage->out.fd = -1;
    if (stage->pump.squeeze && stage->out_exchange &&
        !stage->out_exchange->finished &&
        fy_squeeze_end(stage->pump.squeeze, sink, stage)) {
        stage->end.failed = FY_STAGE_LIMITS;
    }
}

int
fy_pump_out(struct fy_server_stage *stage)
{
    struct fy_server *server = stage->server;
    struct fy_exchange *exchange = stage->out_exchange;
    if (stage->out.fd < 0 || !exchange ||
        stage->pump.output == FY_OUTPUT_LINKED ||
        stage->state == FY_STAGE_STARTING) {
        return 0;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        size_t room = fy_wire_room(server->wire, exchange->stream);
        if (room == 0) {
            if (stage->pump.output == FY_OUTPUT_OPENED &&
                (at_end(stage->out.fd) || is_cut(stage))) {
                out_ended(stage);
                return 0;
            }
            (void)fy_loop_watch(&server->loop, &stage->out, 0);
            return 0;
        }
        stage->pump.output = FY_OUTPUT_OPENED;
        size_t want =
            room < sizeof server->buffer ? room : sizeof server->buffer;
        ssize_t n = ready(stage, stage->out.fd, want);
        if (n > 0) {
            /* Complaints written before these bytes go before them: stdout may
             * be the end of the pipeline's writer. */
            fy_pump_err(stage);
            n = read(stage->out.fd, server->buffer, (size_t)n);
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EBUSY) {
            (void)fy_loop_watch(&server->loop, &stage->out, 0);
            return 0;
        }
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n == 0 || (n < 0 && errno == EIO)) {
            out_ended(stage); /* EIO: the last one closed the terminal */
            return 0;
        }
        if (n < 0) {
            return FY_ERR_IO;
        }
        stage->pump.out_bytes += (uint64_t)n;
        int status = send_out(stage, server->buffer, (size_t)n);
        if (status) {
            return status;
        }
    }
    (void)fy_loop_watch(&server->loop, &stage->out, EPOLLIN);
    return 0;
}

/* ---- stderr ------------------------------------------------------------------- */

/*
 * How many bytes the stage had written to stdout, at most, when it wrote the
 * bytes just read of its stderr. The program here would have been blocked before that as
 * long as its pipe held fewer. FY_PLACE_ANY: stdout does not matter.
 */
static uint64_t
place(const struct fy_server_stage *stage)
{
    int waiting = 0;
    if (stage->spec.out.kind != FY_STREAM_WIRE || stage->end.signalled ||
        stage->pump.output == FY_OUTPUT_LINKED) {
        return FY_PLACE_ANY;
    }
    if (stage->out.fd >= 0) {
        (void)ioctl(stage->out.fd, FIONREAD, &waiting);
    }
    return stage->pump.out_bytes + (uint64_t)waiting;
}

/* A record of the `n' bytes that lie in err_buffer behind its head. */
static int
send_err(struct fy_server_stage *stage, size_t n)
{
    char *record = stage->server->err_buffer;
    uint64_t at = htobe64(place(stage));
    uint32_t length = htobe32((uint32_t)n);
    memcpy(record, &at, sizeof at);
    memcpy(record + sizeof at, &length, sizeof length);
    return fy_wire_send(stage->server->wire, stage->err_exchange->stream,
                        record, FY_PLACE_BYTES + n);
}

void
fy_pump_err(struct fy_server_stage *stage)
{
    struct fy_server *server = stage->server;
    struct fy_exchange *exchange = stage->err_exchange;
    if (stage->err.fd < 0 || !exchange || stage->state == FY_STAGE_STARTING) {
        return;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        size_t room = fy_wire_room(server->wire, exchange->stream);
        if (room <= FY_PLACE_BYTES && !at_end(stage->err.fd) &&
            !is_cut(stage)) {
            (void)fy_loop_watch(&server->loop, &stage->err, 0);
            return;
        }
        size_t want =
            room < sizeof server->err_buffer ? room : sizeof server->err_buffer;
        ssize_t n = want > FY_PLACE_BYTES
                        ? ready(stage, stage->err.fd, want - FY_PLACE_BYTES)
                        : 0;
        if (n > 0) {
            n = read(stage->err.fd, server->err_buffer + FY_PLACE_BYTES,
                     (size_t)n);
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EBUSY) {
            (void)fy_loop_watch(&server->loop, &stage->err, 0);
            return;
        }
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n <= 0) {
            (void)fy_loop_watch(&server->loop, &stage->err, 0);
            fy_run_close(&stage->run.err);
            stage->err.fd = -1;
            fy_exchange_finish(exchange, NULL, 0);
            return;
        }
        if (send_err(stage, (size_t)n)) {
            fy_wire_cancel(server->wire, exchange->stream);
            return;
        }
    }
    (void)fy_loop_watch(&server->loop, &stage->err, EPOLLIN);
}

void
fy_pump_unread(struct fy_server_stage *stage, unsigned fd)
{
    struct fy_exchange *exchange = stage->err_exchange;
    if (fd == 1 && stage->spec.out.kind == FY_STREAM_WIRE &&
        stage->out.fd >= 0 && stage->pump.output != FY_OUTPUT_LINKED) {
        out_ended(stage);
    } else if (fd == 2 && stage->spec.err.kind == FY_STREAM_WIRE &&
               stage->err.fd >= 0) {
        fy_watch_close(stage, &stage->err, &stage->run.err);
        if (exchange && !exchange->finished) {
            fy_exchange_finish(exchange, NULL, 0);
        }
    }
}
