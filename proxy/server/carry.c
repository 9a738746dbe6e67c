/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are carried: /carry says which of their files this host lacks, /store
 * takes a file. In jobs, since both wait for a disk.
 */
#include "config.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "proxy/server/server.h"
#include "proxy/storage/closure.h"
#include "proxy/storage/store.h"
#include "proxy/wire/compress.h"

enum {
    HASH_BYTES = 32,
    PIECE_BYTES = 1 << 20, /* that are decoded at once */
    FILES_MAX = 4096,      /* that a question names */
};

/* Answers both: 200 with `lacks', or a refusal. */
struct carrying {
    struct fy_job job;
    int status; /* of the answer */
    unsigned reason;
    char why[512];
    bool same, packed;
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

/* Says why no program of the client runs on this processor and kernel; false: it may. */
static bool
is_other_machine(const struct fy_carry *carry, struct fy_buffer *why)
{
    struct utsname own;
    unsigned major = 0, minor = 0, patch = 0;
    if (uname(&own) != 0) {
        return false;
    }
    if (carry->machine.n > 0 && strcmp(carry->machine.at, own.machine) != 0) {
        fy_buffer_printf(why, "it is %s, and programs are for %s", own.machine,
                         carry->machine.at);
        return true;
    }
    if (sscanf(own.release, "%u.%u.%u", &major, &minor, &patch) >= 2 &&
        (major << 16 | (minor & 0xff) << 8 | (patch & 0xff)) < carry->kernel) {
        fy_buffer_printf(why, "its kernel %s is older than %u.%u.%u",
                         own.release, carry->kernel >> 16,
                         carry->kernel >> 8 & 0xff, carry->kernel & 0xff);
        return true;
    }
    return false;
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
    bool other = !out->same && is_other_machine(&carry, &why);
    struct fy_store *store =
        out->same || other ? NULL : fy_policy_store(job->server->policy, &why);
    if (store && carry.store_bytes) {
        fy_store_limit(store, carry.store_bytes);
    }
    if (carry.ncarried > FILES_MAX) {
        refuse(out, 400, FY_STAGE_REFUSED);
    } else if (other) {
        refuse(out, 409, FY_STAGE_OTHER_MACHINE);
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

/* Decodes a file: 8 bytes of size, then a zstd frame. New; NULL: the bytes are none. */
static char *
unpack(const char *bytes, size_t n, size_t *out_n)
{
    struct fy_unsqueeze *unsqueeze = NULL;
    uint64_t size = UINT64_MAX;
    size_t at = sizeof size, used = 0, most = 0;
    if (n >= sizeof size) {
        memcpy(&size, bytes, sizeof size);
        size = be64toh(size);
    }
    char *file = size <= FY_CLOSURE_MAX_BYTES ? malloc((size_t)size + 1) : NULL;
    int status = file ? fy_unsqueeze_new(&unsqueeze) : FY_ERR_INVALID;
    while (!status && (at < n || most > 0)) {
        size_t piece = n - at < PIECE_BYTES ? n - at : PIECE_BYTES;
        status = piece ? fy_unsqueeze_add(unsqueeze, bytes + at, piece) : 0;
        at += piece;
        do { /* a byte more than the file has is too many */
            status = status ? status
                            : fy_unsqueeze_take(unsqueeze, file + used,
                                                (size_t)size + 1 - used, &most);
            used += status ? 0 : most;
        } while (!status && most > 0 && used <= size);
        status = used > size ? FY_ERR_INVALID : status;
    }
    fy_unsqueeze_free(unsqueeze);
    if (status || used != size) {
        free(file);
        return NULL;
    }
    *out_n = used;
    return file;
}

/* The hash, then the bytes. */
static void
run_store(struct fy_job *job)
{
    struct carrying *out = (struct carrying *)job;
    char *file = NULL;
    struct fy_buffer why;
    fy_buffer_start(&why, out->why, sizeof out->why);
    struct fy_store *store = fy_policy_store(job->server->policy, &why);
    int status = FY_ERR_INVALID;
    if (!store) {
        refuse(out, 409, FY_STAGE_OTHER_TOOL);
        return;
    }
    if (out->n >= HASH_BYTES) {
        const char *bytes = out->body + HASH_BYTES;
        size_t n = out->n - HASH_BYTES;
        if (out->packed) {
            bytes = file = unpack(bytes, n, &n);
        }
        status = bytes ? fy_store_put(store, (const unsigned char *)out->body,
                                      bytes, n, &why)
                       : FY_ERR_INVALID;
        free(file);
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
        out->packed = exchange->kind == FY_EXCHANGE_STORE_ZSTD;
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
