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
#include "proxy/wire/wire.h"
#include "tests/badlink/fault_plan.h"

enum {
    BLOCK_BYTES = 1 << 20, /* held for one direction */
    MAX_MARKS = 512,       /* reads whose time is remembered, for delay= */
};

struct mark {
    uint64_t end, time_ns; /* what was read before offset `end', and when */
};

struct way {
    struct fy_fault_plan plan;
    int from, to;
    bool ended;                   /* `from' has no more */
    uint64_t first, last;         /* offsets: written so far, read so far */
    uint64_t paid_ns;             /* slow=: when the next byte may go */
    uint64_t wait_ns;             /* a stall ends */
    struct mark marks[MAX_MARKS]; /* a ring */
    unsigned mark, nmarks;
    unsigned char *block; /* byte `offset' lies at offset % BLOCK_BYTES */
};

struct relay {
    struct way ways[2]; /* down, up */
};

/* ---- the relay ---- */

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
            way->block[fault->at % BLOCK_BYTES] ^= 0xff;
        }
    }
    way->last += (uint64_t)n;
    if (way->plan.delay_ns) {
        way->marks[(way->mark + way->nmarks++) % MAX_MARKS] =
            (struct mark){way->last, now};
    }
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
