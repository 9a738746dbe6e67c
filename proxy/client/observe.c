/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command of which the original runs here reads and writes, for
 * history.c. The kernel's counters of the process are looked at when it has
 * ended, before its parent has asked for its status, where that can be had; and
 * ever more seldom while it runs, so that the last look is a late one. A process
 * that cannot be looked at (setuid) teaches nothing.
 */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/client/stage.h"
#include "proxy/wire/process.h"

enum {
    OBSERVED_MAX = 32,
    FIRST_MS = 10,
    LAST_MS = 1000,
    PARTS = 16, /* of its life so far: when it is looked at again */
};

struct fy_observed {
    struct fy_watch ended; /* a pidfd */
    struct fy_timer timer;
    struct fy_session *session;
    struct fy_observed *next;
    pid_t pid;
    int io; /* its /proc/PID/io */
    char *key;
    struct fy_process_io began, last; /* at the first and the last look */
    uint64_t began_ns, last_ns;       /* when that was */
};

static bool
look(struct fy_observed *observed)
{
    struct fy_process_io now;
    if (!fy_process_io(observed->pid, observed->io, &now)) {
        return false;
    }
    observed->last = now;
    observed->last_ns = fy_clock_ns();
    return true;
}

static void
forget(struct fy_observed *observed)
{
    struct fy_session *session = observed->session;
    struct fy_observed **link = &session->observed.first;
    while (*link != observed) {
        link = &(*link)->next;
    }
    *link = observed->next;
    session->observed.n--;
    fy_loop_unset(&session->loop, &observed->timer);
    fy_loop_unwatch(&session->loop, &observed->ended);
    (void)close(observed->io);
    free(observed->key);
    free(observed);
}

static void
on_ended(void *owner, uint32_t events)
{
    struct fy_observed *observed = owner;
    (void)events;
    bool whole = look(observed);
    uint64_t now = fy_clock_ns();
    uint64_t life = now - observed->began_ns;
    /* Nearly all of a life that was not short counts as all of it. */
    if (whole || (life > UINT64_C(1000000) * FIRST_MS * PARTS &&
                  (now - observed->last_ns) * (PARTS / 2) < life)) {
        const struct fy_process_io *from = &observed->began;
        const struct fy_process_io *to = &observed->last;
        fy_history_add(observed->session->history, observed->key,
                       to->read_bytes - from->read_bytes,
                       to->written_bytes - from->written_bytes,
                       (double)(to->cpu_ns - from->cpu_ns) / 1e9);
    }
    forget(observed);
}

static void
on_timer(void *owner)
{
    struct fy_observed *observed = owner;
    uint64_t ms = (fy_clock_ns() - observed->began_ns) / 1000000 / PARTS;
    ms = ms < FIRST_MS ? FIRST_MS : ms > LAST_MS ? LAST_MS : ms;
    if (look(observed)) {
        fy_loop_set(&observed->session->loop, &observed->timer,
                    ms * UINT64_C(1000000));
    }
}

void
fy_observe(const struct stage *stage)
{
    struct fy_session *session = stage->session;
    char path[64];
    if (!stage->parsed || !stage->invocation.pure || !stage->plan.mount ||
        stage->plan.effect || session->observed.n >= OBSERVED_MAX) {
        return;
    }
    struct fy_observed *observed = calloc(1, sizeof *observed);
    if (!observed) {
        return;
    }
    observed->session = session;
    observed->pid = stage->hello.pid;
    observed->key = strdup(stage->invocation.key);
    (void)snprintf(path, sizeof path, "/proc/%d/io", (int)observed->pid);
    observed->io = open(path, O_RDONLY | O_CLOEXEC);
    observed->ended =
        (struct fy_watch){.fd = (int)syscall(SYS_pidfd_open, observed->pid, 0),
                          .ready = on_ended,
                          .owner = observed};
    observed->timer = (struct fy_timer){.run = on_timer, .owner = observed};
    if (!observed->key || observed->ended.fd < 0 || !look(observed) ||
        fy_loop_watch(&session->loop, &observed->ended, EPOLLIN)) {
        if (observed->ended.fd >= 0) {
            (void)close(observed->ended.fd);
        }
        if (observed->io >= 0) {
            (void)close(observed->io);
        }
        free(observed->key);
        free(observed);
        return;
    }
    observed->began = observed->last;
    observed->began_ns = observed->last_ns;
    observed->next = session->observed.first;
    session->observed.first = observed;
    session->observed.n++;
    fy_loop_set(&session->loop, &observed->timer, FIRST_MS * UINT64_C(1000000));
}

void
fy_observed_end(struct fy_session *session)
{
    while (session->observed.first) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): forget() takes it out */
        forget(session->observed.first);
    }
}
