/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /touched: answered by a job, once the trailers of the stage are sent.
 */
#include "config.h"

#include <stdlib.h>

#include "proxy/server/server.h"

struct job {
    struct fy_job job;
    char *bytes;
    size_t n;
    int status;
};

static void
run_job(struct fy_job *job)
{
    struct job *found = (struct job *)job;
    found->status = fy_touched_find(job->stage, &found->bytes, &found->n);
}

static void
finish_job(struct fy_job *job)
{
    struct job *found = (struct job *)job;
    if (job->exchange && found->status) {
        fy_exchange_refuse(job->exchange, 503, FY_STAGE_BUSY, "out of memory");
    } else if (job->exchange) {
        fy_exchange_answer(job->exchange, 200, found->bytes, found->n);
    }
    free(found->bytes);
    free(found);
}

void
fy_server_touched(struct fy_server_stage *stage, struct fy_exchange *exchange)
{
    const struct fy_exchange *out = stage->out_exchange;
    if (exchange->job || stage->state < FY_STAGE_EXITED ||
        (out && !out->finished)) {
        return;
    }
    struct job *job = calloc(1, sizeof *job);
    if (job) {
        job->job = (struct fy_job){.server = stage->server,
                                   .stage = stage,
                                   .exchange = exchange,
                                   .run = run_job,
                                   .finish = finish_job};
    }
    if (!job || fy_job_start(&job->job)) {
        free(job);
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
    }
}

void
fy_server_touched_wanted(struct fy_server_stage *stage)
{
    struct fy_exchange *next;
    for (struct fy_exchange *at = stage->server->exchanges; at; at = next) {
        next = at->next;
        if (at->kind == FY_EXCHANGE_TOUCHED && at->number == stage->number &&
            !at->responded) {
            fy_server_touched(stage, at);
        }
    }
}
