/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who reads what a stage writes: another stage of the same proxy (then they are
 * joined there), or a process here. Decided by who holds the ends of the pipe
 * between them, and whether those are on their way to another program; time only
 * bounds how long that is waited for. To let the bytes come here is always right;
 * joining needs proof.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "proxy/client/holders.h"
#include "proxy/client/stage.h"

enum {
    LAST_MS = 50,
    SCAN_MS = 1,    /* until the holders of pipes are looked at */
    IDLE_MS = 500,  /* while only a login can change anything */
    PIPES_MAX = 64, /* looked at in one scan; further ones wait */
    /* A stage waits no longer for a process that never settles (a file system
     * that does not answer): its output goes to its pipe, its input comes from
     * there. */
    PATIENCE_MS = 10000,
};
static const uint64_t ms_ns = 1000000;

static bool
is_writer(const struct stage *stage)
{
    return (stage->state == STAGE_ASKED || stage->state == STAGE_RUNNING) &&
           !stage->join.settled && stage->plan.out.is_pipe;
}

/* Whether a reader there may still be joined to the stage's output. */
static bool
may_feed(const struct stage *stage)
{
    return stage->plan.out.is_pipe &&
           (stage->state < STAGE_ASKED || is_writer(stage));
}

static struct stage *
find_stage(const struct fy_session *session, pid_t pid)
{
    for (struct stage *stage = session->stages; stage; stage = stage->next) {
        if (stage->client && stage->hello.pid == pid) {
            return stage;
        }
    }
    return NULL;
}

/* A stub whose stage is not known yet. */
static bool
is_new_stub(const struct fy_session *session, pid_t pid)
{
    for (const struct stub_client *client = session->stubs.clients; client;
         client = client->next) {
        if (client->pid == pid && !client->gone) {
            return !client->stage;
        }
    }
    return false;
}

/* ---- what a scan shows of one pipe ------------------------------------------------------ */

struct view {
    unsigned readers, writers;
    /* The only one of its side, if it is a stage that has it as a stream. A
     * stage that was only handed the end, as shells do with those of <(...), holds
     * it as any other process does. */
    struct stage *reader, *writer;
    bool quiet;           /* all that are no stages are settled */
    bool certain;         /* all processes were seen */
    bool moving;          /* not all were seen, but may be soon */
    bool others_settled;  /* all readers that are no stages */
    struct stage *feeder; /* some writer that may be joined */
};

static bool
is_stream(const struct stage *stage, int fd, const struct fy_pipe_holders *row)
{
    const struct fy_stream_fact *fact = &stage->facts.streams[fd];
    return fact->open && fact->device == row->device &&
           fact->inode == row->inode;
}

static void
see(const struct fy_session *session, const struct fy_pipe_holders *row,
    enum fy_hidden hidden, struct view *out)
{
    memset(out, 0, sizeof *out);
    out->quiet = out->others_settled = true;
    out->certain = hidden == FY_HIDDEN_NONE && !row->more;
    out->moving = hidden == FY_HIDDEN_MOVING && !row->more;
    for (unsigned i = 0; i < row->n; i++) {
        const struct fy_holder *holder = &row->holders[i];
        struct stage *stage = find_stage(session, holder->pid);
        bool settled =
            stage || (holder->settled && !is_new_stub(session, holder->pid));
        out->quiet = out->quiet && settled;
        if (holder->reads) {
            bool streams = stage && is_stream(stage, 0, row);
            out->reader = out->readers++ == 0 && streams ? stage : NULL;
            out->others_settled = out->others_settled && settled;
        }
        if (holder->writes) {
            bool streams =
                stage && (is_stream(stage, 1, row) || is_stream(stage, 2, row));
            out->writer = out->writers++ == 0 && streams ? stage : NULL;
            if (stage && is_stream(stage, 1, row) && may_feed(stage)) {
                out->feeder = stage;
            }
        }
    }
}

/* Whether the stage saw the same at its last look; remembers this one. A look that
 * shows nothing is remembered as 0: two looks that agree have none between them. */
static bool
seen_before(struct stage *stage, uint64_t what, uint64_t now)
{
    bool before = stage->join.seen == what && now > stage->join.seen_ns &&
                  stage->join.seen_ns != 0 && what != 0;
    stage->join.seen = what;
    stage->join.seen_ns = now;
    return before;
}

/* Whether all paths that the reader gets are the writer's, and mean the same to
 * both: one mount, one working folder. */
static bool
may_feed_paths(const struct stage *writer, const struct stage *reader)
{
    const struct fy_stream_fact *streams = reader->facts.streams;
    bool local = writer->mount->type[0] == '\0' &&
                 (S_ISREG(streams[1].mode) || S_ISREG(streams[2].mode));
    return fy_invocation_is(&writer->invocation, FY_TRAIT_LISTS) &&
           writer->plan.nmounts == 1 &&
           (!reader->mount || reader->mount == writer->mount) &&
           reader->plan.nmounts <= 1 && !local && !writer->parts &&
           strcmp(writer->facts.cwd, reader->facts.cwd) == 0;
}

static bool
may_join(const struct stage *writer, const struct stage *reader)
{
    return reader->state == STAGE_WAIT_INPUT && reader->prepare.done &&
           !reader->input.fed_here &&
           (!reader->invocation.fed || may_feed_paths(writer, reader)) &&
           reader->plan.in.pipe_inode == writer->plan.out.pipe_inode &&
           reader->plan.in.pipe_device == writer->plan.out.pipe_device &&
           (!reader->mount || reader->connection == writer->connection) &&
           fy_connection_takes(writer->connection, reader);
}

/* The reader waits for its mount, and may be joined then. */
static bool
may_join_later(const struct stage *reader)
{
    return reader->state == STAGE_WAIT_INPUT && !reader->prepare.done;
}

static void
join(struct stage *writer, struct stage *reader)
{
    if (fy_carry_wait(reader, writer->connection)) {
        reader->prepare.done = false; /* it is joined afterwards */
        return;
    }
    if (!reader->mount) {
        reader->mount = writer->mount;
        reader->plan.mounts[0] = writer->mount;
        reader->plan.nmounts = 1;
        reader->connection = writer->connection;
    }
    fy_stage_ask(reader, writer);
}

static void
decide_writer(struct stage *stage, const struct view *view, uint64_t now)
{
    const uint64_t somebody_here = view->quiet ? 1 : 0;
    if (view->readers == 1 && view->reader && may_join_later(view->reader)) {
        return;
    }
    if (view->readers == 1 && view->reader && may_join(stage, view->reader) &&
        view->certain) {
        if (view->writers == 1 && view->writer == stage) {
            if (seen_before(stage, (uint64_t)view->reader->hello.pid, now) &&
                !fy_pipe_has_data(view->reader->hello.pid)) {
                join(stage, view->reader);
            }
            return;
        }
        if (seen_before(stage, somebody_here, now)) {
            fy_stage_open(stage);
        }
    } else if (view->readers == 0 ||
               (view->readers == 1 && view->reader && !view->moving)) {
        fy_stage_open(stage); /* none, or one that cannot be joined */
    } else if (seen_before(stage, somebody_here, now)) {
        fy_stage_open(stage);
    }
    if (!stage->join.settled && now - stage->asked_ns > PATIENCE_MS * ms_ns) {
        fy_stage_open(stage);
    }
}

/*
 * Its input comes from here, or will: it can only be sent if no other process reads
 * what the stub reads ahead. Seen twice, so that no reader was missed on its
 * way from one process to the next.
 */
static void
decide_sender(struct stage *stage, const struct view *view, uint64_t now)
{
    const struct fy_stream_plan *in = &stage->plan.in;
    bool alone = view->certain && view->readers == 1 && view->reader == stage;
    uint64_t what = 2 + (alone ? 4 : 0) + (view->quiet ? 1 : 0);
    bool again = seen_before(stage, what, now);
    bool late = now - stage->began_ns > PATIENCE_MS * ms_ns;
    if (view->feeder && !stage->input.fed_here) {
        return; /* the feeder's turn decides this one, too */
    }
    if (!stage->input.fed_here && view->writers != 0 &&
        !(view->writers == 1 && view->writer) && !(view->quiet && again) &&
        !late) {
        return;
    }
    bool own = !fy_holders_inherited(stage->session->scan.holders,
                                     in->pipe_device, in->pipe_inode);
    if (alone && own && again) {
        fy_stage_stream(stage);
    } else if (!own || late ||
               (again && (!view->certain || view->others_settled) && !alone)) {
        fy_stage_decline(stage, FY_STAGE_LOCAL_INPUT,
                         "others may read that pipe as well");
    }
}

static void
decide_reader(struct stage *stage, const struct view *view, uint64_t now)
{
    const uint64_t somebody_here = view->quiet ? 1 : 0;
    if (stage->plan.may_stream) {
        decide_sender(stage, view, now);
        return;
    }
    if (view->feeder) {
        return; /* the feeder's turn decides this one, too */
    }
    if (view->writers == 0 || (view->writers == 1 && view->writer) ||
        seen_before(stage, somebody_here, now) ||
        now - stage->began_ns > PATIENCE_MS * ms_ns) {
        fy_stage_decline(stage, FY_STAGE_LOCAL_INPUT,
                         "its input comes from this machine");
    }
}

/* ---- the scan ---------------------------------------------------------------------------- */

static struct fy_pipe_holders *
row_of(struct fy_pipe_holders *rows, unsigned *n, uint64_t device,
       uint64_t inode)
{
    for (unsigned i = 0; i < *n; i++) {
        if (rows[i].device == device && rows[i].inode == inode) {
            return &rows[i];
        }
    }
    if (*n == PIPES_MAX) {
        return NULL;
    }
    rows[*n].device = device;
    rows[*n].inode = inode;
    return &rows[(*n)++];
}

static unsigned
collect(const struct fy_session *session, struct fy_pipe_holders *rows)
{
    unsigned n = 0;
    for (const struct stage *stage = session->stages; stage;
         stage = stage->next) {
        if (stage->state == STAGE_WAIT_INPUT) {
            (void)row_of(rows, &n, stage->plan.in.pipe_device,
                         stage->plan.in.pipe_inode);
        } else if (is_writer(stage)) {
            (void)row_of(rows, &n, stage->plan.out.pipe_device,
                         stage->plan.out.pipe_inode);
        }
    }
    return n;
}

static void
decide(struct fy_session *session, struct fy_pipe_holders *rows, unsigned n,
       enum fy_hidden hidden)
{
    uint64_t now = fy_clock_ns();
    for (unsigned i = 0; i < n; i++) {
        struct stage *next;
        for (struct stage *stage = session->stages; stage; stage = next) {
            struct view view;
            next = stage->next;
            if (is_writer(stage) &&
                stage->plan.out.pipe_inode == rows[i].inode &&
                stage->plan.out.pipe_device == rows[i].device) {
                see(session, &rows[i], hidden, &view);
                decide_writer(stage, &view, now);
            }
        }
        for (struct stage *stage = session->stages; stage; stage = next) {
            struct view view;
            next = stage->next;
            if (stage->state == STAGE_WAIT_INPUT &&
                stage->plan.in.pipe_inode == rows[i].inode &&
                stage->plan.in.pipe_device == rows[i].device) {
                see(session, &rows[i], hidden, &view);
                decide_reader(stage, &view, now);
            }
        }
    }
}

/*
 * Whether all wait for stages that wait for their proxy: no pipe's holders decide
 * anything before these go on or end, which asks for the next scan.
 */
static bool
all_wait_for_login(const struct fy_session *session,
                   const struct fy_pipe_holders *rows, unsigned n,
                   enum fy_hidden hidden)
{
    unsigned waiting = 0, wanted = 0;
    for (struct stage *stage = session->stages; stage; stage = stage->next) {
        wanted += stage->state == STAGE_WAIT_INPUT || is_writer(stage);
        for (unsigned i = 0; i < n && stage->state == STAGE_WAIT_INPUT; i++) {
            struct view view;
            if (stage->plan.in.pipe_inode != rows[i].inode ||
                stage->plan.in.pipe_device != rows[i].device) {
                continue;
            }
            see(session, &rows[i], hidden, &view);
            waiting += view.feeder && !stage->input.fed_here &&
                       view.feeder->state == STAGE_WAIT_REACH;
        }
    }
    return waiting == wanted;
}

void
fy_link_scan(void *owner)
{
    struct fy_session *session = owner;
    uint64_t began = fy_clock_ns();
    struct fy_pipe_holders *rows = calloc(PIPES_MAX, sizeof *rows);
    unsigned n = rows ? collect(session, rows) : 0;
    enum fy_hidden hidden = FY_HIDDEN_SETTLED;
    uint64_t delay_ms = session->scan.delay_ms;
    if (n > 0) {
        if (fy_holders_scan(session->scan.holders, rows, n, &hidden)) {
            /* Without /proc nothing is known: time alone decides. */
            for (unsigned i = 0; i < n; i++) {
                rows[i].more = true;
            }
        }
        decide(session, rows, n, hidden);
    }
    if (n > 0 && all_wait_for_login(session, rows, n, hidden)) {
        delay_ms = IDLE_MS;
    }
    bool more = !rows || collect(session, rows) > 0;
    free(rows);
    session->scan.delay_ms = delay_ms < LAST_MS / 2 ? 2 * delay_ms : LAST_MS;
    if (more && session->scan.timer.due_ns == 0) {
        uint64_t cost = fy_clock_ns() - began;
        uint64_t wait = delay_ms * ms_ns;
        fy_loop_set(&session->loop, &session->scan.timer,
                    wait > 4 * cost ? wait : 4 * cost);
    }
}

void
fy_link_wake(struct fy_session *session)
{
    session->scan.delay_ms = SCAN_MS;
    if (session->scan.timer.due_ns == 0 ||
        session->scan.timer.due_ns > fy_clock_ns() + SCAN_MS * ms_ns) {
        fy_loop_set(&session->loop, &session->scan.timer, SCAN_MS * ms_ns);
    }
}
