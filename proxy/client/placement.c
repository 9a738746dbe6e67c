/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a stage that may run at a proxy should: by cost.c, and only where
 * sizes could change the answer are they asked for. While its host's login goes
 * on, that counts, too: what is done here before it ends runs here. A stage that writes into a
 * pipe is started meanwhile, since who reads it may be there as well; if its
 * bytes turn out to come here, the answer is looked at before the first does.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "common/path.h"
#include "proxy/client/cost.h"
#include "proxy/client/stage.h"
#include "proxy/storage/work.h"
#include "proxy/wire/protocol.h"

enum {
    RESULT_BYTES = 4096,
    SMALL_BYTES = 64 << 10,  /* then it is the size that does not pay */
    PIPE_BYTES = 1 << 20,    /* a guess of what comes through one */
    MEMBER_BYTES = 32 << 10, /* a guess: of a file in what is unpacked */
    LOOKS_MAX = 4,           /* operands that are looked at through a mount */
    FOLDER_BYTES = 4096,     /* one that is larger has many entries */
};

/* A look at its few files through the mount: while its host is not there yet, or
 * where that is so near that they may be read sooner than it is asked. */
struct fy_look {
    struct fy_work work;
    struct stage *stage; /* NULL: it is gone, or needs it no more */
    struct fy_probe_result result;
    unsigned n;
    char *paths[LOOKS_MAX];
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
           stage->plan.out.kind == FY_STREAM_NULL || stage->join.feeds;
}

/* Whether it reads files there, beside its stdin. */
static bool
reads_there(const struct stage *stage)
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

/* Adds the bytes that come from here and would be written there. */
static void
add_local(const struct stage *stage, struct fy_cost_input *out)
{
    const struct fy_invocation *invocation = &stage->invocation;
    if (!stage->input.streams) {
        return;
    }
    out->local_bytes =
        stage->plan.in.is_pipe ? PIPE_BYTES : (uint64_t)stage->plan.local_bytes;
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

/* The shell opened its standard input. */
static unsigned
count_opened(const struct stage *stage)
{
    return stage->plan.in.kind == FY_STREAM_FILE ? 1 : 0;
}

/* Files that are named, without those that add_local() counts; 0: it may read
 * others as well, or none. */
static unsigned
count_files(const struct stage *stage)
{
    const struct fy_invocation *invocation = &stage->invocation;
    unsigned n = count_opened(stage);
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->kind == FY_USE_TREE || use->kind == FY_USE_FOLDER) {
            return 0;
        }
        n += !use->is_stdin &&
             !(stage->input.streams && use->access == FY_ACCESS_OUT);
    }
    return invocation->reads_cwd || invocation->writes_cwd ? 0 : n;
}

/* `login': what is left of it, which counts only for what need not wait for it. */
static struct fy_cost_host
host_of(const struct connection *connection, double login)
{
    struct fy_wire_counters counters = {.rtt_ns = connection->rtt_ns};
    if (connection->wire) {
        fy_wire_counters(connection->wire, &counters);
    }
    double here = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return (struct fy_cost_host){
        .here_load =
            getloadavg(&here, 1) == 1 && cores > 0 ? here / (double)cores : 0,
        .rtt_seconds = (double)counters.rtt_ns / 1e9,
        .bytes_a_second = connection->bytes_a_second,
        .load = connection->hello.cores > 0
                    ? connection->hello.load / (double)connection->hello.cores
                    : 0,
        .login_seconds = login,
    };
}

/* Whether it would not pay, and whether it would not even if its output were
 * read there. Fills what the report says of it. */
static void
judge(struct stage *stage, const struct fy_probe_result *result, double login)
{
    const struct connection *connection = stage->connection;
    struct fy_cost cost;
    /* Those that it makes have no size yet. */
    uint64_t named = count_files(stage);
    struct fy_cost_input input = {
        .remote_bytes = result->bytes,
        .remote_files = result->files > named ? result->files : named,
        .opened_files = count_opened(stage),
        .known = result->complete,
        .output_stays = true,
        .effect = stage->plan.effect,
    };
    add_local(stage, &input);
    const struct fy_cost_host host = host_of(connection, login);
    fy_cost_predict(&stage->invocation, &input, &host, &cost);
    stage->place.hopeless = !fy_cost_pays(&input, &cost);
    input.output_stays = output_stays(stage);
    fy_cost_predict(&stage->invocation, &input, &host, &cost);
    stage->place.predicted_there = cost.there_seconds;
    stage->place.predicted_here = cost.here_seconds;
    if (stage->record) {
        stage->record->report.predicted_seconds = cost.there_seconds;
        stage->record->report.predicted_local_seconds = cost.here_seconds;
    }
    stage->place.small = result->bytes + input.local_bytes < SMALL_BYTES;
    stage->place.unprofitable = !fy_cost_pays(&input, &cost);
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
    if (stage) {
        stage->place.probe = NULL;
        if (error == 0 && stage->connection->wire &&
            fy_probe_result_decode(placement->result, placement->used, &result,
                                   NULL) == 0) {
            judge(stage, &result, 0);
        }
    }
    free(placement);
    if (stage && stage->state == STAGE_PREPARING) {
        stage->session->calls->placed(stage);
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

/* Whether sizes of inputs could change the answer. *out_tiny: the inputs may be
 * so small that the stage is better off here, wherever its output goes. */
static bool
needs_sizes(const struct stage *stage, bool *out_tiny)
{
    struct fy_cost_input input = {.output_stays = true,
                                  .effect = stage->plan.effect,
                                  .remote_files = count_files(stage),
                                  .opened_files = count_opened(stage)};
    const struct fy_cost_host host = host_of(stage->connection, 0);
    if (stage->session->options.force) {
        return false;
    }
    *out_tiny = input.remote_files > 0 &&
                fy_cost_needs_sizes(&stage->invocation, &input, &host);
    input.output_stays = output_stays(stage);
    return *out_tiny || stage->input.streams ||
           (stage->plan.repeatable &&
            fy_cost_needs_sizes(&stage->invocation, &input, &host));
}

/* ---- a look from here ------------------------------------------------- */

static void
look_free(struct fy_work *work)
{
    struct fy_look *look = (struct fy_look *)work;
    for (unsigned i = 0; i < look->n; i++) {
        free(look->paths[i]);
    }
    free(look);
}

static void
look_run(struct fy_work *work)
{
    struct fy_look *look = (struct fy_look *)work;
    for (unsigned i = 0; i < look->n; i++) {
        struct stat about;
        if (stat(look->paths[i], &about) != 0) {
            continue; /* the file is missing there, too */
        }
        look->result.bytes += (uint64_t)about.st_size;
        look->result.files++;
        if (S_ISDIR(about.st_mode) && about.st_size > FOLDER_BYTES) {
            look->result.complete = false;
        }
    }
}

static void
look_done(struct fy_work *work)
{
    struct fy_look *look = (struct fy_look *)work;
    struct stage *stage = look->stage;
    if (stage) {
        stage->place.look = NULL;
        if (look->result.complete) {
            judge(stage, &look->result,
                  fy_connection_login_seconds(stage->connection));
            /* A judgement made before its host is there may change. */
            stage->place.judged = stage->connection->state == CONNECTION_READY;
            stage->place.unprofitable =
                stage->place.unprofitable && stage->place.judged;
        }
        stage->session->calls->looked(stage);
    }
    look_free(work);
}

bool
fy_placement_look(struct stage *stage)
{
    const struct fy_invocation *invocation = &stage->invocation;
    bool tiny = false;
    if ((stage->connection->state == CONNECTION_READY &&
         !(needs_sizes(stage, &tiny) && tiny)) ||
        stage->session->options.force || stage->input.streams || stage->whole ||
        stage->parts || invocation->nuses > LOOKS_MAX ||
        invocation->writes_cwd || invocation->cwd_is_tree) {
        return false;
    }
    struct fy_look *look = calloc(1, sizeof *look);
    if (!look) {
        return false;
    }
    look->result.complete = true;
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        char path[PATH_MAX];
        bool plain =
            !use->is_stdin && use->kind != FY_USE_TREE &&
            use->kind != FY_USE_FOLDER &&
            fy_path_join(stage->facts.cwd, stage->argv[use->arg] + use->offset,
                         path) == 0;
        look->paths[look->n] = plain ? strdup(path) : NULL;
        if (!look->paths[look->n]) {
            look_free(&look->work);
            return false;
        }
        look->n++;
    }
    if (stage->plan.in.kind == FY_STREAM_FILE) {
        look->result.bytes += (uint64_t)stage->facts.streams[0].bytes;
        look->result.files++;
    }
    if (invocation->reads_cwd && look->n < LOOKS_MAX) {
        look->paths[look->n] = strdup(stage->facts.cwd);
        look->n += look->paths[look->n] != NULL;
    }
    if (look->n + look->result.files == 0) {
        look_free(&look->work); /* no input to go by */
        return false;
    }
    look->work.run = look_run;
    look->work.done = look_done;
    look->work.drop = look_free;
    look->stage = stage;
    if (fy_pool_submit(stage->session->pool, &look->work)) {
        look_free(&look->work);
        return false;
    }
    stage->place.look = look;
    return true;
}

/* ---- at its host ------------------------------------------------------------------- */

bool
fy_placement_ask(struct stage *stage)
{
    char *body;
    size_t n;
    if (stage->input.streams && !stage->session->options.force &&
        !reads_there(stage)) {
        const struct fy_probe_result nothing = {.complete = true};
        judge(stage, &nothing, 0);
        return false;
    }
    bool tiny = false;
    if (stage->place.judged || !needs_sizes(stage, &tiny) ||
        encode(stage, &body, &n)) {
        return false;
    }
    struct fy_placement *placement = calloc(1, sizeof *placement);
    if (!placement) {
        free(body);
        return false;
    }
    placement->exchange.data = probe_data;
    placement->exchange.closed = probe_closed;
    if (fy_connection_request(stage->connection, FY_PATH_PROBE, true,
                              &placement->exchange)) {
        free(placement);
        free(body);
        return false;
    }
    placement->stage = stage;
    stage->place.probe = placement;
    struct fy_wire *wire = stage->connection->wire;
    int32_t stream = placement->exchange.stream;
    if (fy_wire_grant(wire, stream, RESULT_BYTES) ||
        fy_wire_send(wire, stream, body, n) ||
        fy_wire_finish(wire, stream, NULL, 0)) {
        fy_wire_cancel(wire, stream); /* `closed' follows */
    }
    free(body);
    /* Into a pipe: it is started, and the answer is kept. But no input is read
     * that the original might still want. */
    return !stage->plan.out.is_pipe || stage->input.streams || tiny;
}

bool
fy_placement_beats_login(struct stage *stage)
{
    const struct fy_probe_result nothing = {.complete = true};
    double login = fy_connection_login_seconds(stage->connection);
    if (login <= 0 || stage->session->options.force || stage->whole ||
        reads_there(stage)) {
        return false;
    }
    judge(stage, &nothing, login);
    stage->place.unprofitable = false; /* once its host is there */
    return stage->place.hopeless;
}

void
fy_placement_forget(struct stage *stage)
{
    if (stage->place.probe) {
        stage->place.probe->stage = NULL;
        stage->place.probe = NULL;
    }
    if (stage->place.look) {
        stage->place.look->stage = NULL;
        stage->place.look = NULL;
    }
}
