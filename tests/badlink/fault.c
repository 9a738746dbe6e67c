/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fault.h. It polls, never spins, and holds at most BLOCK_BYTES for each
 * direction.
 */
#include "config.h"

#include "tests/badlink/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/wire/seal.h"
#include "proxy/wire/wire.h"
#include "tests/badlink/fault_plan.h"

enum {
    BLOCK_BYTES = 1 << 20, /* held for one direction */
    MAX_MARKS = 512,       /* reads whose time is remembered, for delay= */
    FRAME_HEAD_BYTES = 9,
    HOLD_NS = 200000000, /* a frame waits for the next so long */
};

struct mark {
    uint64_t end, time_ns; /* what was read before offset `end', and when */
};

struct way {
    struct fy_fault_plan plan;
    int from, to;
    bool ended;               /* `from' has no more */
    uint64_t first, last;     /* offsets: written so far, read so far */
    uint64_t paid_ns;         /* slow=: when the next byte may go */
    uint64_t wait_ns;         /* a stall ends */
    uint64_t frame, frame_ns; /* reorder=: the frame looked at, since when */
    bool greeted, framed;     /* ... what stands before; one frame */
    struct mark marks[MAX_MARKS]; /* a ring */
    unsigned mark, nmarks;
    unsigned char *block; /* byte `offset' lies at offset % BLOCK_BYTES */
};

struct relay {
    struct way ways[2]; /* down, up */
};

/* ---- the relay ---- */

static unsigned char *
byte_at(const struct way *way, uint64_t at)
{
    return &way->block[at % BLOCK_BYTES];
}

/* Reads what there is room for. */
static void
fill(struct way *way, uint64_t now)
{
    size_t used = (size_t)(way->last - way->first);
    size_t start = (size_t)(way->last % BLOCK_BYTES);
    size_t room = BLOCK_BYTES - used;
    room = room < BLOCK_BYTES - start ? room : BLOCK_BYTES - start;
    if (!room || way->nmarks == MAX_MARKS) {
        return;
    }
    ssize_t n = read(way->from, way->block + start, room);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        way->ended = true;
        return;
    }
    for (unsigned i = 0; i < way->plan.n; i++) {
        const struct fy_fault *fault = &way->plan.faults[i];
        if (fault->kind == FY_FAULT_CORRUPT && fault->at >= way->last &&
            fault->at < way->last + (uint64_t)n) {
            *byte_at(way, fault->at) ^= 0xff;
        }
    }
    way->last += (uint64_t)n;
    if (way->plan.delay_ns) {
        way->marks[(way->mark + way->nmarks++) % MAX_MARKS] =
            (struct mark){way->last, now};
    }
}

/* What stands before the first frame: the proxy's greeting, HTTP/2's preface.
 * False: not all of it has come. */
static bool
skip_greeting(struct way *way)
{
    static const char *const greetings[] = {"ferry-proxy 1\n",
                                            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
    for (size_t k = 0; k < sizeof greetings / sizeof greetings[0]; k++) {
        size_t n = strlen(greetings[k]), i = 0;
        while (i < n && i < way->last &&
               *byte_at(way, i) == (unsigned char)greetings[k][i]) {
            i++;
        }
        if (i == n) {
            way->frame = n;
            break;
        }
        if (i == way->last) {
            return false;
        }
    }
    way->greeted = true;
    return true;
}

enum {
    HEADERS = 1,
    SETTINGS = 4
};

struct frame {
    uint64_t end;
    uint32_t stream;
    unsigned char type;
};

/* A record of a sealed connection; all of them are of one stream. */
static bool
read_record(const struct way *way, uint64_t at, struct frame *out)
{
    if (at + FY_SEAL_HEAD_BYTES > way->last) {
        return false;
    }
    out->end = at + FY_SEAL_HEAD_BYTES +
               ((uint64_t)*byte_at(way, at + 1) << 16 |
                (uint64_t)*byte_at(way, at + 2) << 8 | *byte_at(way, at + 3));
    out->type = HEADERS;
    out->stream = 0;
    return true;
}

static bool
read_frame(const struct way *way, uint64_t at, struct frame *out)
{
    unsigned char head[FRAME_HEAD_BYTES];
    if (at < way->last && *byte_at(way, at) == FY_SEAL_FIRST_BYTE) {
        return read_record(way, at, out);
    }
    if (at + FRAME_HEAD_BYTES > way->last) {
        return false;
    }
    for (unsigned i = 0; i < FRAME_HEAD_BYTES; i++) {
        head[i] = *byte_at(way, at + i);
    }
    out->end = at + FRAME_HEAD_BYTES +
               ((uint64_t)head[0] << 16 | (uint64_t)head[1] << 8 | head[2]);
    out->type = head[3];
    out->stream = (uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 |
                  (uint32_t)head[7] << 8 | head[8];
    return true;
}

static void
reverse(struct way *way, uint64_t from, uint64_t to)
{
    while (from < to && from < --to) {
        unsigned char byte = *byte_at(way, from);
        *byte_at(way, from++) = *byte_at(way, to);
        *byte_at(way, to) = byte;
    }
}

/* Up to where reorder= lets bytes pass. */
static uint64_t
reorder(struct way *way, struct fy_fault *fault, uint64_t now)
{
    struct frame one, two;
    if (!way->greeted && !skip_greeting(way)) {
        return 0;
    }
    while (read_frame(way, way->frame, &one)) {
        bool wanted =
            way->frame >= fault->at && way->frame >= way->first &&
            (one.type == HEADERS || (one.type == SETTINGS && !way->framed)) &&
            one.end - way->frame < BLOCK_BYTES / 4;
        if (wanted && !read_frame(way, one.end, &two)) {
            way->frame_ns = way->frame_ns ? way->frame_ns : now;
            if (now - way->frame_ns < HOLD_NS) {
                return way->frame;
            }
            wanted = false; /* nothing follows */
        }
        if (wanted && two.stream == one.stream &&
            two.end - one.end < BLOCK_BYTES / 4) {
            if (two.end > way->last) {
                return way->frame;
            }
            reverse(way, way->frame, one.end);
            reverse(way, one.end, two.end);
            reverse(way, way->frame, two.end);
            fault->done = true;
            return FY_FAULT_NEVER;
        }
        way->frame = one.end;
        way->frame_ns = 0;
        way->framed = true;
    }
    return way->frame > way->first ? way->frame : way->first;
}

/* How far bytes may go now; *cut: it ends there. Sets *wake to when to look
 * again. */
static uint64_t
allowed(struct way *way, uint64_t now, bool *cut, uint64_t *wake)
{
    uint64_t to = way->last;
    for (unsigned i = 0; i < way->plan.n; i++) {
        struct fy_fault *fault = &way->plan.faults[i];
        if (fault->done || fault->kind == FY_FAULT_CORRUPT) {
            continue;
        }
        if (fault->kind == FY_FAULT_REORDER) {
            uint64_t limit = reorder(way, fault, now);
            to = limit < to ? limit : to;
            if (way->frame_ns && way->frame_ns + HOLD_NS < *wake) {
                *wake = way->frame_ns + HOLD_NS;
            }
            continue;
        }
        if (fault->kind == FY_FAULT_STALL && fault->at <= way->first) {
            if (!way->wait_ns) {
                way->wait_ns = fault->for_ns == FY_FAULT_NEVER
                                   ? FY_FAULT_NEVER
                                   : now + fault->for_ns;
            }
            if (way->wait_ns <= now) {
                fault->done = true;
                way->wait_ns = 0;
                continue;
            }
            *wake = way->wait_ns < *wake ? way->wait_ns : *wake;
        }
        to = fault->at < to ? fault->at : to;
        *cut |= fault->kind == FY_FAULT_CUT && fault->at <= way->first;
    }
    if (way->plan.delay_ns && way->nmarks) {
        uint64_t ripe = way->first;
        for (unsigned i = 0; i < way->nmarks; i++) {
            const struct mark *mark = &way->marks[(way->mark + i) % MAX_MARKS];
            uint64_t time = mark->time_ns + way->plan.delay_ns;
            if (time > now) {
                *wake = time < *wake ? time : *wake;
                break;
            }
            ripe = mark->end;
        }
        to = ripe < to ? ripe : to;
    }
    return to;
}

/* Writes what may go. -1: over. *wake as above; *blocked: poll for output. */
static int
drain(struct way *way, uint64_t now, uint64_t *wake, bool *blocked)
{
    for (;;) {
        bool cut = false;
        uint64_t to = allowed(way, now, &cut, wake);
        if (way->first >= to) {
            return cut || (way->ended && way->first == way->last) ? -1 : 0;
        }
        size_t n = (size_t)(to - way->first);
        size_t start = (size_t)(way->first % BLOCK_BYTES);
        n = n < BLOCK_BYTES - start ? n : BLOCK_BYTES - start;
        if (way->plan.chunk_bytes && n > way->plan.chunk_bytes) {
            n = way->plan.chunk_bytes;
        }
        if (way->plan.rate_bytes) {
            if (way->paid_ns > now) {
                *wake = way->paid_ns < *wake ? way->paid_ns : *wake;
                return 0;
            }
            /* About ten milliseconds' worth at once. */
            uint64_t most = way->plan.rate_bytes / 100 + 1;
            n = n < most ? n : (size_t)most;
        }
        ssize_t done = write(way->to, way->block + start, n);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0 && errno == EAGAIN) {
            *blocked = true;
            return 0;
        }
        if (done < 0) {
            return -1;
        }
        way->first += (uint64_t)done;
        if (way->plan.rate_bytes) {
            uint64_t from = way->paid_ns + 20000000 > now ? way->paid_ns : now;
            way->paid_ns = from + (uint64_t)((double)done * 1e9 /
                                             (double)way->plan.rate_bytes);
        }
        while (way->nmarks && way->marks[way->mark].end <= way->first) {
            way->mark = (way->mark + 1) % MAX_MARKS;
            way->nmarks--;
        }
    }
}

static void
relay_free(struct relay *relay)
{
    free(relay->ways[0].block);
    free(relay->ways[1].block);
    free(relay);
}

static void
run(struct relay *relay)
{
    for (;;) {
        uint64_t now = fy_clock_ns(), wake = FY_FAULT_NEVER;
        struct pollfd fds[4];
        nfds_t n = 0;
        bool over = false;
        for (int i = 0; i < 2 && !over; i++) {
            struct way *way = &relay->ways[i];
            bool blocked = false;
            over = drain(way, now, &wake, &blocked) != 0;
            bool room = way->last - way->first < BLOCK_BYTES &&
                        way->nmarks < MAX_MARKS && !way->ended;
            fds[n++] = (struct pollfd){room ? way->from : -1, POLLIN, 0};
            fds[n++] = (struct pollfd){blocked ? way->to : -1, POLLOUT, 0};
        }
        /* Nobody is left to whom a stall without an end could matter. */
        over |=
            relay->ways[1].ended && (relay->ways[0].wait_ns == FY_FAULT_NEVER ||
                                     relay->ways[1].wait_ns == FY_FAULT_NEVER);
        if (over) {
            break;
        }
        struct timespec wait = {0}, *timeout = NULL;
        if (wake != FY_FAULT_NEVER) {
            uint64_t left = wake > now ? wake - now : 0;
            wait.tv_sec = (time_t)(left / 1000000000U);
            wait.tv_nsec = (long)(left % 1000000000U);
            timeout = &wait;
        }
        if (ppoll(fds, n, timeout, NULL) < 0 && errno != EINTR) {
            break;
        }
        for (size_t i = 0; i < 2; i++) {
            if (fds[2 * i].revents) {
                fill(&relay->ways[i], fy_clock_ns());
            }
        }
    }
}

int
fy_fault_run(const char *text, int inner, int outer, struct fy_buffer *why)
{
    struct fy_fault_plan plans[2] = {0};
    struct relay *relay = calloc(1, sizeof *relay);
    int status = relay ? fy_fault_parse(text, plans, why) : FY_ERR_NOMEM;
    for (int i = 0; !status && i < 2; i++) {
        relay->ways[i].plan = plans[i];
        relay->ways[i].from = i == 0 ? inner : outer;
        relay->ways[i].to = i == 0 ? outer : inner;
        relay->ways[i].block = malloc(BLOCK_BYTES);
        status = relay->ways[i].block ? 0 : FY_ERR_NOMEM;
    }
    if (!status && (fy_wire_unblock(inner) || fy_wire_unblock(outer))) {
        status = FY_ERR_IO;
    }
    if (!status) {
        run(relay);
    }
    close(inner);
    close(outer);
    if (relay) {
        relay_free(relay);
    }
    return status;
}
