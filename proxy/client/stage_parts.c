/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command whose operands lie on several hosts, and whose annotation says
 * `split files': it runs as parts, each a stage without a stub of its own, over
 * operands that follow each other and lie on one host. They run at once; their
 * output goes out in the order of the operands, through the stub and the hash of
 * the whole. Whatever one of them cannot do, the original does over all: by
 * itself, or again behind what was delivered.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "annotations/model/model.h"
#include "common/clock.h"
#include "common/path.h"
#include "proxy/client/stage.h"

enum {
    NO_PART = 0xff,
};

/* ---- making them -------------------------------------------------------------- */

static unsigned
decline(struct fy_buffer *why, unsigned reason, const char *text,
        const char *name)
{
    why->used = 0;
    fy_buffer_printf(why, "%s%s", text, name);
    return reason;
}

/*
 * Which part each word belongs to; NO_PART: every one. Returns how many there
 * are; 0: it cannot run so.
 */
static unsigned
share_out(const struct stage *stage, unsigned char *parts)
{
    const struct fy_invocation *invocation = &stage->invocation;
    const struct fy_session *session = stage->session;
    const struct fy_mount *last = NULL;
    uint32_t next = 0;
    unsigned n = 0;
    char path[PATH_MAX];
    memset(parts, NO_PART, stage->hello.argc);
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->is_stdin || use->access != FY_ACCESS_IN) {
            return 0;
        }
        if (!use->is_listed) {
            continue; /* in every part: there it is seen whether it may */
        }
        /* A word between operands may be refused for its place (find): a part
         * would not refuse it. */
        if (n > 0 && use->arg != next) {
            return 0;
        }
        next = use->arg + 1;
        const struct fy_mount *mount =
            use->offset == 0 && fy_path_join(stage->facts.cwd,
                                             stage->argv[use->arg], path) == 0
                ? fy_mount_of(session->mounts, session->nmounts, path)
                : NULL;
        if (!mount) {
            return 0;
        }
        if (!last || !fy_place_same_host(&last->place, &mount->place)) {
            if (n == FY_PARTS_MAX) {
                return 0;
            }
            n++;
        }
        last = mount;
        parts[use->arg] = (unsigned char)(n - 1);
    }
    return n > 1 ? n : 0;
}

/* The words of one part: those of all, and its own operands. */
static bool
take_words(struct stage *part, const struct stage *whole, unsigned at,
           const unsigned char *parts)
{
    uint32_t argc = whole->hello.argc, n = 0;
    const char *with = whole->invocation.split_with;
    part->argv = calloc(argc + 2u, sizeof *part->argv);
    part->env = calloc(whole->hello.envc + 1u, sizeof *part->env);
    if (!part->argv || !part->env) {
        return false;
    }
    for (uint32_t i = 0; i < argc; i++) {
        if (parts[i] == NO_PART || parts[i] == at) {
            part->argv[n++] = whole->argv[i];
        }
        if (i == 0 && with) {
            part->argv[n++] = with;
        }
    }
    memcpy(part->env, whole->env, whole->hello.envc * sizeof *part->env);
    part->hello = whole->hello;
    part->hello.argc = n;
    memcpy(&part->facts, &whole->facts, sizeof part->facts);
    part->facts.argv = part->argv;
    part->facts.env = part->env;
    return true;
}

/* A file that it would write: the stub does, for all of them. */
static unsigned
bring_home(struct stage *part, struct fy_buffer *why)
{
    struct fy_stream_plan *plans[] = {&part->plan.out, &part->plan.err};
    for (int i = 0; i < 2; i++) {
        plans[i]->is_pipe = false;
        if (plans[i]->kind != FY_STREAM_FILE) {
            continue;
        }
        if (fy_classify_reads(&part->facts, &part->invocation,
                              plans[i]->path)) {
            return decline(why, FY_STAGE_ODD_STREAM,
                           "it may read what it writes: ", plans[i]->path);
        }
        plans[i]->kind = FY_STREAM_WIRE;
    }
    part->plan.effect = false;
    part->plan.repeatable = true;
    return FY_STAGE_NONE;
}

static unsigned
fill(struct stage *part, const struct stage *whole, unsigned at,
     const unsigned char *parts, struct fy_buffer *why)
{
    struct fy_session *session = whole->session;
    if (!take_words(part, whole, at, parts)) {
        return decline(why, FY_STAGE_BUSY, "no memory", "");
    }
    if (fy_invocation_parse(session->options.commands,
                            fy_path_name(whole->facts.path), part->argv,
                            part->env, &part->invocation, why)) {
        return FY_STAGE_MIXED_PLACES;
    }
    part->parsed = true;
    if (!part->invocation.pure || part->invocation.reads_stdin ||
        part->invocation.command != whole->invocation.command ||
        part->invocation.line != whole->invocation.line) {
        return decline(why, FY_STAGE_MIXED_PLACES,
                       "it would mean something else in parts", "");
    }
    unsigned reason =
        fy_classify(&part->facts, &part->invocation, session->mounts,
                    session->nmounts, &part->plan, why);
    if (!reason && (!part->plan.mount || part->plan.needs_link ||
                    part->plan.in.kind != FY_STREAM_NULL)) {
        reason = decline(why, FY_STAGE_LOCAL_INPUT, "stdin", "");
    }
    return reason ? reason : bring_home(part, why);
}

static void
part_free(struct stage *part)
{
    fy_part_forget(part);
    if (part->parsed) {
        fy_invocation_clear(&part->invocation);
    }
    free(part->argv);
    free(part->env);
    free(part);
}

static struct stage *
part_new(struct stage *whole, unsigned at)
{
    struct stage *part = calloc(1, sizeof *part);
    struct fy_part *own = calloc(1, sizeof *own);
    if (!part || !own) {
        free(part);
        free(own);
        return NULL;
    }
    own->at = at;
    part->part = own;
    part->whole = whole;
    part->session = whole->session;
    part->began_ns = whole->began_ns;
    fy_stage_clear(part);
    return part;
}

unsigned
fy_parts_make(struct stage *whole, struct fy_buffer *why)
{
    const struct fy_invocation *invocation = &whole->invocation;
    if (invocation->split != FY_SPLIT_FILES ||
        invocation->merge != FY_MERGE_CONCAT || !invocation->pure ||
        invocation->reads_stdin) {
        return FY_STAGE_MIXED_PLACES;
    }
    unsigned char *shares = malloc(whole->hello.argc);
    struct fy_parts *parts = calloc(1, sizeof *parts);
    unsigned reason = FY_STAGE_MIXED_PLACES;
    unsigned n = shares && parts ? share_out(whole, shares) : 0;
    if (n == 0) {
        goto free_parts;
    }
    parts->best = INT32_MAX;
    reason = FY_STAGE_NONE;
    while (!reason && parts->n < n) {
        struct stage *part = part_new(whole, parts->n);
        if (!part) {
            reason = FY_STAGE_BUSY;
            break;
        }
        parts->stages[parts->n++] = part;
        reason = fill(part, whole, parts->n - 1, shares, why);
    }
    if (!reason) {
        memset(&whole->plan, 0, sizeof whole->plan);
        whole->plan.out.kind = parts->stages[0]->plan.out.kind;
        whole->plan.err.kind = parts->stages[0]->plan.err.kind;
        whole->plan.repeatable = true;
        whole->join.settled = true;
        parts->pipes = S_ISFIFO(whole->facts.streams[1].mode);
        whole->parts = parts;
        parts = NULL;
    }
free_parts:
    for (unsigned i = 0; parts && i < parts->n; i++) {
        part_free(parts->stages[i]);
    }
    free(parts);
    free(shares);
    return reason;
}

/* ---- their life ----------------------------------------------------------------- */

void
fy_parts_start(struct stage *whole)
{
    struct fy_parts *parts = whole->parts;
    fy_stage_event(whole, STAGE_ASKS);
    /* In front of the whole, so that they are freed before it. */
    for (unsigned i = 0; i < parts->n; i++) {
        struct stage *part = parts->stages[i];
        part->next = whole->session->stages;
        whole->session->stages = part;
        part->mount = part->plan.mount;
        part->connection = fy_connection_of(whole->session, part->mount);
    }
    for (unsigned i = 0; i < parts->n && whole->state != STAGE_DONE; i++) {
        fy_stage_place(parts->stages[i]);
    }
}

/* Together they must be no slower than the original. */
static bool
pays(struct stage *whole)
{
    const struct fy_parts *parts = whole->parts;
    double there = 0, here = 0;
    bool known = true;
    for (unsigned i = 0; i < parts->n; i++) {
        const struct stage *part = parts->stages[i];
        known = known && part->place.predicted_here > 0;
        here += part->place.predicted_here;
        there = part->place.predicted_there > there
                    ? part->place.predicted_there
                    : there;
    }
    const struct fy_cost cost = {.there_seconds = there, .here_seconds = here};
    const struct fy_cost_input input = {.known = known};
    if (whole->record && known) {
        whole->record->report.predicted_seconds = there;
        whole->record->report.predicted_local_seconds = here;
    }
    return whole->session->options.force || fy_cost_pays(&input, &cost);
}

void
fy_part_placed(struct stage *part)
{
    struct stage *whole = part->whole;
    struct fy_parts *parts = whole->parts;
    if (parts->asked && part->connection->state == CONNECTION_READY) {
        fy_stage_ask(part, NULL); /* once more */
        return;
    }
    if (parts->asked) {
        fy_parts_fail(whole, FY_STAGE_NO_PROXY, "the connection broke");
        return;
    }
    parts->placed += !part->part->placed;
    part->part->placed = true;
    if (parts->placed < parts->n) {
        return;
    }
    if (!pays(whole)) {
        fy_parts_fail(whole, FY_STAGE_UNPROFITABLE, "");
        return;
    }
    parts->asked = true;
    for (unsigned i = 0; i < parts->n && whole->state != STAGE_DONE; i++) {
        if (parts->stages[i]->connection->state == CONNECTION_READY) {
            fy_stage_ask(parts->stages[i], NULL);
        } else {
            fy_parts_fail(whole, FY_STAGE_NO_PROXY, "the connection broke");
        }
    }
}

void
fy_part_runs(struct stage *part)
{
    struct stage *whole = part->whole;
    struct fy_parts *parts = whole->parts;
    const struct fy_stub_run run = {.reads_stdin = 0};
    parts->running += !part->part->running;
    part->part->running = true;
    if (parts->running < parts->n || whole->state != STAGE_ASKED) {
        return;
    }
    fy_stage_event(whole, STAGE_IS_ACCEPTED);
    if (whole->client) {
        fy_stub_client_send(whole->client, FY_STUB_RUN, &run, sizeof run);
    }
    fy_flow_grant(parts->stages[0]);
    fy_stage_try_end(parts->stages[0]);
}

/* The status of the whole, as the annotation joins those of the parts. */
static int
status_of(const struct stage *whole)
{
    const struct fy_parts *parts = whole->parts;
    bool found = fy_invocation_is(&whole->invocation, FY_TRAIT_STATUS_FOUND);
    return found && parts->worst <= 1 ? parts->best : parts->worst;
}

void
fy_part_ended(struct stage *part)
{
    struct stage *whole = part->whole;
    struct fy_parts *parts = whole->parts;
    int status = part->result.status;
    part->part->finished = true;
    parts->worst = status > parts->worst ? status : parts->worst;
    parts->best = status < parts->best ? status : parts->best;
    whole->result.out_bytes += part->result.out_bytes;
    parts->current++;
    if (part->result.signal || parts->current == parts->n) {
        if (fy_parts_flush(whole)) {
            fy_part_stop(part, FY_ERR_NOMEM);
        }
        if (whole->state == STAGE_DONE) {
            return;
        }
        whole->result.known = true;
        whole->result.signal = part->result.signal;
        whole->result.status = part->result.signal ? 0 : status_of(whole);
        whole->order.signalled =
            whole->order.signalled || part->order.signalled;
        whole->result.ended_ns = fy_clock_ns();
        fy_stage_event(whole, STAGE_HAS_RESULT);
        fy_stage_try_end(whole);
        return;
    }
    struct stage *next = parts->stages[parts->current];
    fy_flow_grant(next);
    fy_stage_try_end(next);
}

/* ---- their end -------------------------------------------------------------------- */

void
fy_parts_end(struct stage *whole)
{
    struct fy_parts *parts = whole->parts;
    for (unsigned i = 0; i < parts->n; i++) {
        struct stage *part = parts->stages[i];
        if (part && part->state != STAGE_DONE) {
            fy_loop_unset(&whole->session->loop, &part->timer);
            fy_stage_event(part, STAGE_LEAVES);
            fy_stage_detach(part);
        }
    }
}

void
fy_parts_fail(struct stage *whole, unsigned reason, const char *why)
{
    if (whole->state == STAGE_DONE) {
        return;
    }
    char text[200];
    (void)snprintf(text, sizeof text, "%s", why ? why : "");
    fy_parts_end(whole);
    if (whole->flow.received_bytes[0] > 0 ||
        whole->flow.received_bytes[1] > 0) {
        fy_stage_repeat(whole, reason, text);
    } else {
        fy_stage_decline(whole, reason, text);
    }
}

void
fy_part_stop(struct stage *part, int status)
{
    if (status == FY_ERR_INVALID) {
        fy_parts_fail(part->whole, FY_STAGE_MIXED_PLACES,
                      "it complains of something else than its operands");
    } else {
        fy_parts_fail(part->whole, FY_STAGE_LOST_LINK, "no memory");
    }
}
