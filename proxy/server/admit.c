/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a stage may run: by its spec and by the room that this host has, in the loop;
 * by this host's own annotations, never by the client's, in a job. A client can send
 * words that take 0.4 s to read: 8 MiB of programs for sed.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/debug.h"
#include "common/path.h"
#include "proxy/server/server.h"

/* Whether this host has room for one more. */
static int
check_room(struct fy_server *server, const struct fy_stage_spec *spec,
           struct fy_buffer *why)
{
    double limit = server->options->load_max;
    if (server->running >= server->stages_max) {
        fy_buffer_add(why, "as many stages run as may");
        return FY_ERR_BUSY;
    }
    /* A stage that continues one that runs here costs less than its output. */
    if (limit > 0 && spec->in.kind != FY_STREAM_LINK &&
        fy_server_load(server) > limit) {
        fy_buffer_add(why, "the load is too high");
        return FY_ERR_BUSY;
    }
    return 0;
}

int
fy_server_understand(struct fy_server_stage *stage, unsigned *reason,
                     struct fy_buffer *why)
{
    const struct fy_stage_spec *spec = &stage->spec;
    const char **argv = calloc((size_t)spec->argc + 1, sizeof *argv);
    const char **env = calloc((size_t)spec->envc + 1, sizeof *env);
    int status = FY_ERR_NOMEM;
    if (argv && env) {
        for (uint32_t i = 0; i < spec->argc; i++) {
            argv[i] = spec->argv[i].at;
        }
        for (uint32_t i = 0; i < spec->envc; i++) {
            env[i] = spec->env[i].at;
        }
        status = fy_invocation_parse(stage->server->options->commands,
                                     fy_path_name(spec->tool.path.at), argv,
                                     env, &stage->invocation, why);
        if (!status && stage->invocation.fed &&
            spec->in.kind != FY_STREAM_LINK) {
            fy_buffer_add(why, "its paths come from another host");
            status = FY_ERR_UNSUPPORTED;
        }
        *reason = status == FY_ERR_NOENT         ? FY_STAGE_NOT_ANNOTATED
                  : status == FY_ERR_INVALID     ? FY_STAGE_NOT_PARSED
                  : status == FY_ERR_UNSUPPORTED ? FY_STAGE_FORBIDDEN
                                                 : FY_STAGE_BUSY;
    }
    fy_debug(SERVER, "stage %llu: %s: %s %s", (unsigned long long)spec->stage,
             status ? "not understood" : stage->invocation.command,
             status ? fy_stage_reason_word(*reason) : "matches its annotation",
             why->text);
    free((void *)argv);
    free((void *)env);
    return status;
}

static struct fy_server_stage *
new_stage(struct fy_exchange *exchange, char *bytes)
{
    struct fy_server_stage *stage = calloc(1, sizeof *stage);
    if (!stage) {
        return NULL;
    }
    stage->server = exchange->server;
    stage->spec_bytes = bytes;
    stage->run = (struct fy_run){.started = -1,
                                 .in = -1,
                                 .out = -1,
                                 .err = -1,
                                 .terminal = -1,
                                 .files = {-1, -1, -1}};
    stage->started.fd = stage->in.fd = stage->out.fd = stage->err.fd = -1;
    stage->pump.in_left = stage->result.io = -1;
    for (int i = 0; i < 3; i++) {
        stage->result.offsets[i] = -1;
    }
    return stage;
}

/* Whether it may run at all; its answer when not. */
static int
admit(struct fy_server_stage *stage, struct fy_exchange *exchange, size_t n)
{
    char text[512];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    int status = fy_stage_spec_decode(stage->spec_bytes, n, &stage->spec, &why);
    if (!status) {
        status = fy_run_check(&stage->spec, &why);
    }
    if (!status && fy_server_stage_find(stage->server, stage->spec.stage)) {
        fy_buffer_add(&why, "there is a stage of that number");
        status = FY_ERR_INVALID;
    }
    if (status) {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED, text);
        return status;
    }
    if (check_room(stage->server, &stage->spec, &why)) {
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, text);
        return FY_ERR_BUSY;
    }
    if (stage->spec.compress && stage->spec.out.kind == FY_STREAM_WIRE) {
        if (fy_squeeze_new(0, &stage->pump.squeeze)) {
            fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
            return FY_ERR_NOMEM;
        }
    }
    return 0;
}

struct fy_server_stage *
fy_server_admit(struct fy_exchange *exchange, char *bytes, size_t n)
{
    struct fy_server_stage *stage = new_stage(exchange, bytes);
    if (!stage) {
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
        free(bytes);
        return NULL;
    }
    if (admit(stage, exchange, n)) {
        fy_server_stage_free(stage);
        return NULL;
    }
    return stage;
}
