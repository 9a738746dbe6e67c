/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals to the descendants of a stage. A job looks for the processes, since reading
 * /proc takes as long as this host has processes. One job is on its way at a time, so no
 * signal overtakes those of an earlier job; signals of one job arrive in the order of
 * their numbers.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/server/server.h"

struct row {
    struct fy_descent is; /* first */
    uint64_t stage;
    void (*sent)(struct fy_server_stage *stage, unsigned found); /* or NULL */
};

struct delivery {
    struct fy_job job; /* first */
    struct fy_descent *rows;
};

static void
run(struct fy_job *job)
{
    fy_descendants_deliver(getpid(), ((struct delivery *)job)->rows);
}

static void
settle(struct fy_server *server, const struct row *row)
{
    struct fy_server_stage *stage =
        row->sent ? fy_server_stage_find(server, row->stage) : NULL;
    if (stage) {
        row->sent(stage, row->is.found);
    }
}

static void start(struct fy_server *server);

static void
delivered(struct fy_server *server, struct fy_descent *row)
{
    server->looks.descends = false;
    while (row) {
        struct fy_descent *next = row->next;
        settle(server, (struct row *)row);
        free(row);
        row = next;
    }
    start(server);
}

static void
finish(struct fy_job *job)
{
    struct fy_descent *rows = ((struct delivery *)job)->rows;
    struct fy_server *server = job->server;
    free(job);
    delivered(server, rows);
}

/* Starts a job for the processes that were asked for since the last one
 * began. */
static void
start(struct fy_server *server)
{
    struct fy_descent *rows = server->looks.descents;
    if (server->looks.descends || !rows) {
        return;
    }
    struct delivery *delivery = calloc(1, sizeof *delivery);
    server->looks.descents = NULL;
    server->looks.descends = true;
    if (delivery) {
        *delivery = (struct delivery){
            .job = {.server = server, .run = run, .finish = finish},
            .rows = rows};
    }
    if (!delivery || fy_look_start(&delivery->job)) {
        free(delivery);
        fy_descendants_deliver(getpid(), rows); /* no thread can be had */
        delivered(server, rows);
    }
}

uint64_t
fy_signals_add(uint64_t signals, int signal)
{
    const uint64_t stop = UINT64_C(1) << (SIGSTOP - 1);
    const uint64_t go_on = UINT64_C(1) << (SIGCONT - 1);
    if (signal == SIGSTOP) {
        signals &= ~go_on;
    } else if (signal == SIGCONT) {
        signals &= ~stop;
    }
    return signal ? signals | UINT64_C(1) << (signal - 1) : signals;
}

void
fy_descent_signal(struct fy_server_stage *stage, int signal,
                  void (*sent)(struct fy_server_stage *stage, unsigned found))
{
    struct fy_server *server = stage->server;
    struct fy_descent **link = &server->looks.descents;
    while (*link && (((struct row *)*link)->stage != stage->number ||
                     (*link)->session != stage->run.pid ||
                     ((struct row *)*link)->sent != sent)) {
        link = &(*link)->next;
    }
    struct row *row = (struct row *)*link;
    if (!row && (row = calloc(1, sizeof *row))) {
        *row = (struct row){
            .is.session = stage->run.pid, .stage = stage->number, .sent = sent};
        *link = &row->is;
    }
    if (!row) { /* out of memory */
        unsigned n = fy_descendants_signal(getpid(), stage->run.pid, signal);
        if (sent) {
            sent(stage, n);
        }
        return;
    }
    row->is.signals = fy_signals_add(row->is.signals, signal);
    start(server);
}
