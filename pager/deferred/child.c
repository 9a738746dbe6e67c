/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See child.h. A child that changes its memory waits until its event has
 * been read, and its pages cannot be filled before: so events are read whenever
 * the kernel says `again'. Whatever still waits goes on when the descriptor is
 * closed.
 */
#include "config.h"

#include "pager/deferred/child.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/userfaultfd.h>

#include "pager/deferred/pages.h"

enum {
    PAGE = 4096,
    PIECE_PAGES = 512, /* copied at once */
};

/* Pages that a child lacks, and where their content is. */
struct run {
    const char *from;
    uintptr_t at;
    size_t pages;
};

static struct child {
    int fd;
    struct run *runs;
    size_t nruns, room;
} * children;
static size_t nchildren, room_for_children;

static void
pause_briefly(void)
{
    const struct timespec moment = {.tv_nsec = 20000};
    nanosleep(&moment, NULL);
}

/* Waits for memory: a child without its pages would see zeros. */
static void *
grown(void *array, size_t count, size_t *room, size_t bytes)
{
    void *more;

    if (count < *room) {
        return array;
    }
    size_t wanted = 2 * *room + 16;
    while (!(more = realloc(array, wanted * bytes))) {
        pause_briefly();
    }
    *room = wanted;
    return more;
}

static void
add_run(struct child *child, struct run run)
{
    child->runs =
        grown(child->runs, child->nruns, &child->room, sizeof(*child->runs));
    child->runs[child->nruns++] = run;
}

static struct child *
add_child(int fd)
{
    children =
        grown(children, nchildren, &room_for_children, sizeof(*children));
    children[nchildren] = (struct child){.fd = fd};
    return &children[nchildren++];
}

void
fy_child_add(int fd)
{
    struct child *child = add_child(fd);

    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        const struct fy_pages *range = fy_pages_at(r);
        for (unsigned i = 0; range && i < range->nsegments; i++) {
            const struct fy_pages_segment *s = &range->segments[i];
            for (size_t k = 0, n; k < s->count; k += n) {
                bool out = fy_pages_is_out(range, s->first + k);
                for (n = 1; k + n < s->count &&
                            fy_pages_is_out(range, s->first + k + n) == out;
                     n++) {
                }
                if (out) {
                    add_run(child,
                            (struct run){range->shadow + (s->first + k) * PAGE,
                                         s->at + k * PAGE, n});
                }
            }
        }
    }
}

bool
fy_children_wait(void)
{
    return nchildren > 0;
}

/* Takes [low, high) away, or, with `moved', to where it begins now. */
static void
cut(struct child *child, uintptr_t low, uintptr_t high, const uintptr_t *moved)
{
    size_t before = child->nruns;

    for (size_t i = 0; i < before; i++) {
        struct run run = child->runs[i];
        uintptr_t end = run.at + run.pages * PAGE;
        uintptr_t from = run.at > low ? run.at : low;
        uintptr_t to = end < high ? end : high;
        if (from >= to) {
            continue;
        }
        child->runs[i].pages = (from - run.at) / PAGE; /* may be none */
        if (to < end) {
            add_run(child, (struct run){run.from + (to - run.at), to,
                                        (end - to) / PAGE});
        }
        if (moved) {
            add_run(child,
                    (struct run){run.from + (from - run.at),
                                 from - low + *moved, (to - from) / PAGE});
        }
    }
}

/* What the child has done to its memory since. */
static void
read_events(size_t number)
{
    struct uffd_msg message;

    while (read(children[number].fd, &message, sizeof(message)) ==
           (ssize_t)sizeof(message)) {
        if (message.event == UFFD_EVENT_FORK) {
            struct child *its = add_child((int)message.arg.fork.ufd);
            const struct child *parent = &children[number];
            for (size_t i = 0; i < parent->nruns; i++) {
                add_run(its, parent->runs[i]);
            }
        } else if (message.event == UFFD_EVENT_REMAP) {
            uintptr_t from = message.arg.remap.from, to = message.arg.remap.to;
            cut(&children[number], from, from + message.arg.remap.len, &to);
        } else if (message.event == UFFD_EVENT_REMOVE ||
                   message.event == UFFD_EVENT_UNMAP) {
            cut(&children[number], message.arg.remove.start,
                message.arg.remove.end, NULL);
        }
        /* Faults go on as their page is filled, or with the last of them. */
    }
}

static void
advance(struct run *run, size_t pages)
{
    run->from += pages * PAGE;
    run->at += pages * PAGE;
    run->pages -= pages;
}

static void
serve(size_t number)
{
    size_t most = PIECE_PAGES;

    while (children[number].nruns > 0) {
        struct child *child = &children[number];
        struct run *run = &child->runs[child->nruns - 1];
        if (run->pages == 0) {
            child->nruns--;
            continue;
        }
        size_t pages = run->pages < most ? run->pages : most;
        struct uffdio_copy copy = {
            .dst = run->at,
            .src = (uint64_t)(uintptr_t)run->from,
            .len = pages * PAGE,
        };
        int status = ioctl(child->fd, UFFDIO_COPY, &copy), error = errno;
        if (status == 0) {
            copy.copy = (int64_t)copy.len;
        }
        if (copy.copy > 0) {
            advance(run, (size_t)copy.copy / PAGE);
            most = PIECE_PAGES;
        } else if (error == EAGAIN) {
            read_events(number);
            pause_briefly();
        } else if (error == ENOMEM) {
            pause_briefly();
        } else if (error == ESRCH) {
            child->nruns = 0; /* it has ended */
        } else if (error == EEXIST || pages == 1) {
            advance(run, 1); /* it has its own, or has unmapped it */
        } else {
            most = pages / 2; /* two mappings by now, perhaps */
        }
    }
    (void)close(children[number].fd); /* and lets go of the child's memory */
    free(children[number].runs);
}

void
fy_children_serve(void)
{
    for (size_t i = 0; i < nchildren; i++) { /* may become more */
        serve(i);
    }
    nchildren = 0;
}
