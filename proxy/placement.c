/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a stage that may run at a proxy should: by cost.c, and only where
 * sizes could change the answer are they asked for. A stage that writes into a
 * pipe is started meanwhile, since who reads it may be there as well; if its
 * bytes turn out to come here, the answer is looked at before the first does.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/model.h"
#include "proxy/cost.h"
#include "proxy/protocol.h"
#include "proxy/stage.h"

enum {
    RESULT_BYTES = 4096,
    SMALL_BYTES = 64 << 10,  /* then it is the size that does not pay */
    PIPE_BYTES = 1 << 20,    /* a guess of what comes through one */
    MEMBER_BYTES = 32 << 10, /* a guess: of a file in what is unpacked */
};

struct fy_placement {
    struct stage *stage; /* NULL: it is gone */
    struct exchange exchange;
    char result[RESULT_BYTES + 1];
    size_t used;
};

static bool
output_stays(const struct stage *stage)
{
    return stage->plan.out.kind == FY_STREAM_FILE ||
           stage->plan.out.kind == FY_STREAM_NULL || stage->feeds;
}

/* What comes from here and would be written there. */
static void
add_local(const struct stage *stage, const struct fy_learned *learned,
          struct fy_cost_input *out)
{
    const struct fy_invocation *invocation = &stage->invocation;
    if (!stage->streams) {
        return;
    }
    out->local_bytes =
        stage->plan.in.is_pipe ? PIPE_BYTES : (uint64_t)stage->plan.local_bytes;
    if (stage->plan.in.is_pipe && learned->runs > 0 &&
        !fy_placement_reads_there(stage)) {
        out->local_bytes = (uint64_t)learned->in_bytes;
    }
    bool many = invocation->writes_cwd;
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->access == FY_ACCESS_IN || use->is_stdin) {
            continue;
        }
        many = many || use->kind != FY_USE_FILE;
        out->stored_files++;
        out->stored_bytes += out->local_bytes;
    }
    if (many) {
        out->stored_files += 1 + out->local_bytes / MEMBER_BYTES;
        out->stored_bytes += out->stored_bytes ? 0 : out->local_bytes;
    }
}

/* False: it would not pay. Fills what the report says of it. */
static bool
judge(struct stage *stage, const struct fy_probe_result *result)
{
    const struct reach *reach = stage->reach;
    struct fy_learned learned;
    struct fy_wire_counters counters;
    struct fy_cost cost;
    (void)fy_history_find(stage->session->history, stage->invocation.key,
                          &learned);
    fy_wire_counters(reach->wire, &counters);
    struct fy_cost_input input = {
        .remote_bytes = result->bytes,
        .remote_files = result->files,
        .known = result->complete,
        .output_stays = output_stays(stage),
    };
    add_local(stage, &learned, &input);
    const struct fy_cost_host host = {
        .rtt_seconds = (double)counters.rtt_ns / 1e9,
        .bytes_a_second = reach->bytes_a_second,
        .load = reach->hello.cores > 0
                    ? reach->hello.load / (double)reach->hello.cores
                    : 0,
    };
    fy_cost_predict(&stage->invocation, &learned, &input, &host, &cost);
    /* What its mount makes it wait for, before and after. */
    cost.there_seconds += stage->mount->lags_ms / 1e3;
    if (stage->mount->lags_ms && stage->plan.effect) {
        cost.there_seconds += stage->mount->forgets_ms / 1e3;
    }
    stage->predicted_there = cost.there_seconds;
    stage->predicted_here = cost.here_seconds;
    if (stage->record) {
        stage->record->report.predicted_seconds = cost.there_seconds;
        stage->record->report.predicted_local_seconds = cost.here_seconds;
    }
    stage->small = result->bytes + input.local_bytes < SMALL_BYTES;
    return fy_cost_pays(&input, &cost);
}

static void
probe_data(struct exchange *exchange, const void *bytes, size_t n)
{
    struct fy_placement *placement =
        (struct fy_placement *)((char *)exchange -
                                offsetof(struct fy_placement, exchange));
    if (n <= RESULT_BYTES - placement->used) {
        memcpy(placement->result + placement->used, bytes, n);
        placement->used += n;
    }
}

static void
probe_closed(struct exchange *exchange, uint32_t error)
{
    struct fy_placement *placement =
        (struct fy_placement *)((char *)exchange -
                                offsetof(struct fy_placement, exchange));
    struct stage *stage = placement->stage;
    struct fy_probe_result result;
    bool pays = true;
    if (stage) {
        stage->placement = NULL;
        if (error == 0 && stage->reach->wire &&
            fy_probe_result_decode(placement->result, placement->used, &result,
                                   NULL) == 0) {
            pays = judge(stage, &result);
        }
        stage->unprofitable = !pays;
    }
    free(placement);
    if (stage && stage->state == STAGE_PREPARING) {
        fy_stage_placed(stage);
    }
}

/* The paths that it reads; new strings in an array. */
static unsigned
list_paths(const struct stage *stage, struct fy_bytes *out, bool *out_tree)
{
    const struct fy_invocation *invocation = &stage->invocation;
    unsigned n = 0;
    char path[PATH_MAX];
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->is_stdin || use->access == FY_ACCESS_OUT ||
            use->kind == FY_USE_FOLDER ||
            fy_path_join(stage->facts.cwd, stage->argv[use->arg] + use->offset,
                         path)) {
            continue;
        }
        char *copy = strdup(path);
        if (copy) {
            out[n++] = (struct fy_bytes){copy, strlen(copy)};
            *out_tree = *out_tree || use->kind == FY_USE_TREE;
        }
    }
    if (stage->plan.in.kind == FY_STREAM_FILE) {
        char *copy = strdup(stage->plan.in.path);
        if (copy) {
            out[n++] = (struct fy_bytes){copy, strlen(copy)};
        }
    }
    return n;
}

static int
encode(const struct stage *stage, char **out, size_t *out_n)
{
    struct fy_bytes *paths =
        calloc(stage->invocation.nuses + 1u, sizeof *paths);
    if (!paths) {
        return FY_ERR_NOMEM;
    }
    struct fy_mount_spec mounts[FY_SPEC_MAX_MOUNTS];
    struct fy_probe probe = {
        .mount = {stage->mount->path, strlen(stage->mount->path)},
        .root = {stage->mount->place.path, strlen(stage->mount->place.path)},
        .cwd = {stage->facts.cwd, strlen(stage->facts.cwd)},
        .paths = paths,
        .mounts = mounts,
    };
    for (unsigned i = 1; i < stage->plan.nmounts; i++) {
        const struct fy_mount *mount = stage->plan.mounts[i];
        mounts[probe.nmounts++] = (struct fy_mount_spec){
            {mount->path, strlen(mount->path)},
            {mount->place.path, strlen(mount->place.path)}};
    }
    probe.npaths = list_paths(stage, paths, &probe.tree);
    int status = fy_probe_encode(&probe, out, out_n);
    for (uint32_t i = 0; i < probe.npaths; i++) {
        free((void *)(uintptr_t)paths[i].at);
    }
    free(paths);
    return status;
}

bool
fy_placement_reads_there(const struct stage *stage)
{
    const struct fy_invocation *invocation = &stage->invocation;
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (!use->is_stdin && use->access != FY_ACCESS_OUT &&
            use->kind != FY_USE_FOLDER) {
            return true;
        }
    }
    return invocation->reads_cwd;
}

static bool
needs_sizes(const struct stage *stage)
{
    struct fy_learned learned;
    const struct fy_cost_input input = {.output_stays = output_stays(stage)};
    (void)fy_history_find(stage->session->history, stage->invocation.key,
                          &learned);
    return !stage->session->options.force &&
           (stage->streams || stage->mount->lags_ms ||
            (stage->plan.repeatable &&
             fy_cost_needs_sizes(&stage->invocation, &learned, &input)));
}

bool
fy_placement_ask(struct stage *stage)
{
    char *body;
    size_t n;
    if (stage->streams && !stage->session->options.force &&
        !fy_placement_reads_there(stage)) {
        const struct fy_probe_result nothing = {.complete = true};
        stage->unprofitable = !judge(stage, &nothing);
        return false;
    }
    if (!needs_sizes(stage) || encode(stage, &body, &n)) {
        return false;
    }
    struct fy_placement *placement = calloc(1, sizeof *placement);
    if (!placement) {
        free(body);
        return false;
    }
    placement->exchange.data = probe_data;
    placement->exchange.closed = probe_closed;
    if (fy_reach_request(stage->reach, FY_PATH_PROBE, true,
                         &placement->exchange)) {
        free(placement);
        free(body);
        return false;
    }
    placement->stage = stage;
    stage->placement = placement;
    struct fy_wire *wire = stage->reach->wire;
    int32_t stream = placement->exchange.stream;
    if (fy_wire_grant(wire, stream, RESULT_BYTES) ||
        fy_wire_send(wire, stream, body, n) ||
        fy_wire_finish(wire, stream, NULL, 0)) {
        fy_wire_cancel(wire, stream); /* `closed' follows */
    }
    free(body);
    /* Into a pipe: it is started, and the answer is kept. But no input is read
     * that the original might still want. */
    return !stage->plan.out.is_pipe || stage->streams ||
           stage->mount->lags_ms > 0;
}

void
fy_placement_forget(struct stage *stage)
{
    if (stage->placement) {
        stage->placement->stage = NULL;
        stage->placement = NULL;
    }
}
