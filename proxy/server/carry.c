/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are carried: /carry says which of their files this host lacks, /store
 * takes a file. In jobs, since both wait for a disk.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/server/server.h"
#include "proxy/storage/store.h"

enum {
    HASH_BYTES = 32,
    FILES_MAX = 4096, /* that a question names */
};

/* Answers both: 200 with `lacks', or a refusal. */
struct carrying {
    struct fy_job job;
    int status; /* of the answer */
    unsigned reason;
    char why[512];
    bool same;
    char lacks[FILES_MAX];
    size_t nlacks;
    size_t n;
    char body[]; /* of the request */
};

static void
refuse(struct carrying *out, int status, unsigned reason)
{
    out->status = status;
    out->reason = reason;
}

static void
run_carry(struct fy_job *job)
{
    struct carrying *out = (struct carrying *)job;
    struct fy_carry carry;
    struct fy_buffer why;
    fy_buffer_start(&why, out->why, sizeof out->why);
    if (fy_carry_decode(out->body, out->n, &carry, &why)) {
        refuse(out, 400, FY_STAGE_REFUSED);
        return;
    }
    out->same = fy_policy_has_tool(&carry.tool);
    struct fy_store *store =
        out->same ? NULL : fy_policy_store(job->server->policy, &why);
    if (carry.ncarried > FILES_MAX) {
        refuse(out, 400, FY_STAGE_REFUSED);
    } else if (!out->same && !store) {
        refuse(out, 409, FY_STAGE_OTHER_TOOL);
    }
    for (uint32_t i = 0; out->status == 200 && store && i < carry.ncarried;
         i++) {
        out->lacks[out->nlacks++] =
            fy_store_has(store, carry.carried[i].sha256) ? 0 : 1;
    }
    fy_carry_clear(&carry);
}

static void
finish_carry(struct fy_job *job)
{
    struct carrying *out = (struct carrying *)job;
    const struct fy_carry_result result = {.same = out->same,
                                           .lacks = {out->lacks, out->nlacks}};
    char *encoded;
    size_t n;
    if (job->exchange && out->status != 200) {
        fy_exchange_refuse(job->exchange, out->status, out->reason, out->why);
    } else if (job->exchange && fy_carry_result_encode(&result, &encoded, &n)) {
        fy_exchange_refuse(job->exchange, 503, FY_STAGE_BUSY, "out of memory");
    } else if (job->exchange) {
        fy_exchange_answer(job->exchange, 200, encoded, n);
        free(encoded);
    }
    free(out);
}

/* The hash, then the bytes. */
static void
run_store(struct fy_job *job)
{
    struct carrying *out = (struct carrying *)job;
    struct fy_buffer why;
    fy_buffer_start(&why, out->why, sizeof out->why);
    struct fy_store *store = fy_policy_store(job->server->policy, &why);
    int status = FY_ERR_INVALID;
    if (!store) {
        refuse(out, 409, FY_STAGE_OTHER_TOOL);
        return;
    }
    if (out->n >= HASH_BYTES) {
        status =
            fy_store_put(store, (const unsigned char *)out->body,
                         out->body + HASH_BYTES, out->n - HASH_BYTES, &why);
    }
    if (status) {
        refuse(out, status == FY_ERR_INVALID ? 400 : 409, FY_STAGE_OTHER_TOOL);
    }
}

static void
finish_store(struct fy_job *job)
{
    struct carrying *out = (struct carrying *)job;
    if (job->exchange && out->status != 200) {
        fy_exchange_refuse(job->exchange, out->status, out->reason, out->why);
    } else if (job->exchange) {
        fy_exchange_answer(job->exchange, 200, NULL, 0);
    }
    free(out);
}

static void
start(struct fy_exchange *exchange, const char *bytes, size_t n,
      void (*run)(struct fy_job *job), void (*finish)(struct fy_job *job))
{
    struct carrying *out = calloc(1, sizeof *out + n + 1);
    if (out) {
        out->job = (struct fy_job){.server = exchange->server,
                                   .exchange = exchange,
                                   .run = run,
                                   .finish = finish};
        out->status = 200;
        out->n = n;
        memcpy(out->body, bytes, n);
    }
    if (!out || fy_job_start(&out->job)) {
        free(out);
        fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
    }
}

void
fy_server_carry(struct fy_exchange *exchange, const char *bytes, size_t n)
{
    start(exchange, bytes, n, run_carry, finish_carry);
}

void
fy_server_store(struct fy_exchange *exchange, const char *bytes, size_t n)
{
    start(exchange, bytes, n, run_store, finish_store);
}
