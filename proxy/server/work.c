/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of the proxy that may wait for a file system: looks at a stage's inputs, at
 * its changes, at sizes. They run in threads (storage/work.h), so that
 * the loop answers within milliseconds, ends stages when they are due, and ends
 * itself with its connection, whatever a disk does.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/server/server.h"

static void
run(struct fy_work *work)
{
    struct fy_job *job = (struct fy_job *)work;
    job->run(job);
}

static void
done(struct fy_work *work)
{
    struct fy_job *job = (struct fy_job *)work;
    struct fy_server *server = job->server;
    struct fy_server_stage *stage = job->stage;
    server->jobs--;
    if (job->exchange) {
        job->exchange->job = NULL;
    }
    if (stage) {
        stage->jobs--;
    }
    job->finish(job);
    if (stage && stage->orphaned && !stage->jobs) {
        fy_server_stage_free(stage);
    }
}

static void
on_bell(void *owner, uint32_t events)
{
    struct fy_server *server = owner;
    (void)events;
    fy_work_collect(server->pool);
    fy_work_collect(server->looks.pool);
}

static int
submit(struct fy_pool *pool, struct fy_job *job)
{
    job->work = (struct fy_work){.run = run, .done = done};
    int status = fy_pool_submit(pool, &job->work);
    if (!status) {
        job->server->jobs++;
        if (job->stage) {
            job->stage->jobs++;
        }
        if (job->exchange) {
            job->exchange->job = job;
        }
    }
    return status;
}

int
fy_job_start(struct fy_job *job)
{
    return submit(job->server->pool, job);
}

int
fy_look_start(struct fy_job *job)
{
    return submit(job->server->looks.pool, job);
}

int
fy_jobs_open(struct fy_server *server)
{
    int status = fy_loop_open(&server->loop, on_bell, server);
    int bell = server->loop.bell.fd;
    status = status ? status : fy_pool_new(bell, &server->pool);
    return status ? status : fy_pool_new(bell, &server->looks.pool);
}

bool
fy_jobs_close(struct fy_server *server, unsigned wait_ms)
{
    uint64_t until = fy_clock_ns() + wait_ms * UINT64_C(1000000);
    while (server->looks.pool && server->jobs && fy_clock_ns() < until) {
        (void)usleep(1000);
        fy_work_collect(server->pool);
        fy_work_collect(server->looks.pool);
    }
    if (server->jobs) {
        return false;
    }
    fy_pool_free(server->pool);
    fy_pool_free(server->looks.pool);
    return true;
}
