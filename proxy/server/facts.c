/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of this host: /hello and /probe, measured when they are asked for.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/sandbox/walk.h"
#include "proxy/server/server.h"

enum {
    PROBE_ENTRIES = 20000,
    PROBE_MS = 50, /* the client waits */
};

double
fy_server_load(const struct fy_server *server)
{
    double load;
    return getloadavg(&load, 1) == 1 ? load / server->cores : 0;
}

struct hello {
    struct fy_job job;
    struct fy_hello its;
};

/* Where a stage is being checked, it waits for the sandbox's lock. */
static void
run_hello(struct fy_job *job)
{
    struct hello *hello = (struct hello *)job;
    fy_policy_describe(job->server->policy, &hello->its);
}

static void
answer_hello(struct fy_exchange *exchange, struct fy_hello *hello)
{
    const struct fy_server *server = exchange->server;
    char *encoded;
    size_t nencoded;
    if (getloadavg(&hello->load, 1) < 1) {
        hello->load = 0;
    }
    hello->version = FY_PROTOCOL_VERSION;
    hello->ferry = (struct fy_bytes){PACKAGE_VERSION, strlen(PACKAGE_VERSION)};
    hello->uid = geteuid();
    hello->gid = getegid();
    (void)!fy_groups_own(hello->groups); /* unknown: no client has the same */
    hello->cores = server->cores;
    if (fy_hello_encode(hello, &encoded, &nencoded)) {
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
        return;
    }
    fy_exchange_answer(exchange, 200, encoded, nencoded);
    free(encoded);
}

static void
finish_hello(struct fy_job *job)
{
    struct hello *hello = (struct hello *)job;
    if (job->exchange) {
        answer_hello(job->exchange, &hello->its);
    }
    free(hello);
}

void
fy_server_hello(struct fy_exchange *exchange, char *bytes, size_t n)
{
    char text[256];
    struct fy_buffer why;
    struct fy_hello client;
    fy_buffer_start(&why, text, sizeof text);
    if (fy_hello_decode(bytes, n, &client, &why)) {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED, text);
        return;
    }
    if (client.version != FY_PROTOCOL_VERSION) {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED,
                           "another version of the protocol");
        return;
    }
    struct hello *hello = calloc(1, sizeof *hello);
    if (hello) {
        hello->job = (struct fy_job){.server = exchange->server,
                                     .exchange = exchange,
                                     .run = run_hello,
                                     .finish = finish_hello};
    }
    if (!hello || fy_job_start(&hello->job)) {
        free(hello);
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
    }
}

/* ---- /probe ----------------------------------------------------------------------- */

static void
add_up(void *context, const char *path, const struct statx *facts)
{
    struct fy_probe_result *result = context;
    (void)path;
    if (S_ISREG(facts->stx_mode)) {
        result->bytes += facts->stx_size;
    }
    result->files++;
}

struct probe {
    struct fy_job job;
    struct fy_probe_result result;
    int status; /* of the answer */
    unsigned reason;
    char why[512];
    size_t n;
    char body[]; /* of the request */
};

/* The folders that the probe's mounts show, opened; false: refused. */
static bool
open_roots(struct fy_policy *policy, const struct fy_probe *probe,
           int roots[FY_SPEC_MAX_MOUNTS + 1], uint32_t *nroots,
           struct probe *out, struct fy_buffer *why)
{
    while (*nroots <= probe->nmounts &&
           fy_policy_open_root(policy,
                               *nroots ? probe->mounts[*nroots - 1].root.at
                                       : probe->root.at,
                               &roots[*nroots], &out->reason, why) == 0) {
        ++*nroots;
    }
    return *nroots > probe->nmounts;
}

static void
look(const struct fy_probe *probe, const int *roots, uint32_t nroots,
     struct fy_probe_result *result)
{
    struct fy_walk walk = {
        .entries_left = PROBE_ENTRIES,
        .end_ns = fy_clock_ns() + PROBE_MS * UINT64_C(1000000),
        .complete = true,
        .found = add_up,
        .context = result,
    };
    for (uint32_t i = 0; i < probe->npaths; i++) {
        char name[4096];
        uint32_t at = 0;
        while (at < nroots && !fy_walk_name(at ? probe->mounts[at - 1].mount.at
                                               : probe->mount.at,
                                            probe->cwd.at, probe->paths[i].at,
                                            name, sizeof name)) {
            at++;
        }
        if (at < nroots) {
            fy_walk(&walk, roots[at], "", name, probe->tree);
        } else {
            walk.complete = false;
        }
    }
    result->complete = walk.complete;
}

static void
run_probe(struct fy_job *job)
{
    struct probe *out = (struct probe *)job;
    struct fy_probe probe;
    struct fy_buffer why;
    int roots[FY_SPEC_MAX_MOUNTS + 1];
    uint32_t nroots = 0;
    fy_buffer_start(&why, out->why, sizeof out->why);
    if (fy_probe_decode(out->body, out->n, &probe, &why)) {
        out->status = 400;
        out->reason = FY_STAGE_REFUSED;
        return;
    }
    if (open_roots(job->server->policy, &probe, roots, &nroots, out, &why)) {
        out->status = 200;
        look(&probe, roots, nroots, &out->result);
    } else {
        out->status = 403;
    }
    while (nroots > 0) {
        (void)close(roots[--nroots]);
    }
    fy_probe_clear(&probe);
}

static void
finish_probe(struct fy_job *job)
{
    struct probe *probe = (struct probe *)job;
    char *encoded;
    size_t nencoded;
    if (job->exchange && probe->status != 200) {
        fy_exchange_refuse(job->exchange, probe->status, probe->reason,
                           probe->why);
    } else if (job->exchange &&
               fy_probe_result_encode(&probe->result, &encoded, &nencoded)) {
        fy_exchange_refuse(job->exchange, 503, FY_STAGE_BUSY, "out of memory");
    } else if (job->exchange) {
        fy_exchange_answer(job->exchange, 200, encoded, nencoded);
        free(encoded);
    }
    free(probe);
}

void
fy_server_probe(struct fy_exchange *exchange, const char *bytes, size_t n)
{
    struct probe *probe = calloc(1, sizeof *probe + n + 1);
    if (probe) {
        probe->job = (struct fy_job){.server = exchange->server,
                                     .exchange = exchange,
                                     .run = run_probe,
                                     .finish = finish_probe};
        probe->reason = FY_STAGE_OUTSIDE;
        probe->n = n;
        memcpy(probe->body, bytes, n);
    }
    if (!probe || fy_job_start(&probe->job)) {
        free(probe);
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
    }
}
