/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that a host has not, or has otherwise: it is asked which of their files it
 * lacks, these are sent, and the stage is asked for afterwards. A single program at a time for
 * each connection, so that files which many need are sent once. A program that the host had
 * in an earlier run is not asked about again (logins.h).
 * Long because a program and the uploads of the files lead into each other.
 */
#include "config.h"

#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/debug.h"
#include "common/sha256.h"
#include "common/whole.h"
#include "proxy/client/cost.h"
#include "proxy/client/stage.h"
#include "proxy/storage/closure.h"
#include "proxy/storage/work.h"
#include "proxy/wire/protocol.h"

enum {
    RESULT_BYTES = 64 << 10,
    HASH_BYTES = 32,
    PIECE_BYTES = 256 << 10, /* that are queued at once */
};

/* The program of a stage. It lives until all exchanges are closed. */
struct fy_carrying {
    struct fy_carrying *next; /* of its connection */
    struct connection *connection;
    struct stage *stage; /* NULL: it is gone, or waits no more */
    struct fy_closure *closure;
    struct exchange ask;
    bool asks, answered, failed;
    bool later;      /* no stage waits, the files are for the next run */
    int status;      /* of the answer */
    unsigned reason; /* of a refusal */
    char result[RESULT_BYTES + 1];
    size_t used;
    struct fy_bytes lacks;
    unsigned file;  /* the next that is looked at */
    unsigned open;  /* files on their way */
    uint64_t bytes; /* that were sent */
    char identity[256], why[256];
};

/* A file: read in a thread, then sent. The thread may go on when the session has ended. */
struct upload {
    struct fy_work work;
    struct fy_carrying *carrying; /* not for the thread */
    struct exchange exchange;
    char *path;
    unsigned char sha256[HASH_BYTES];
    double bytes_a_second; /* of the link; 0: unknown */
    bool packed;
    char *bytes; /* of the request */
    size_t n, capacity, sent;
    int status; /* of the answer; 0: none */
};

static void go_on(struct fy_carrying *carrying);

static void
fail(struct fy_carrying *carrying, const char *why)
{
    if (!carrying->failed) {
        carrying->failed = true;
        (void)snprintf(carrying->why, sizeof carrying->why, "%s", why);
    }
}

static const char *
why_of(const struct fy_wire_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(pairs[i].name, FY_FIELD_WHY) == 0) {
            return pairs[i].value;
        }
    }
    return "its files cannot be carried";
}

/* Returns the reason of a refusal: processor and kernel are known to the host alone. */
static unsigned
reason_of(const struct fy_wire_pair *pairs, size_t n)
{
    unsigned reason = FY_STAGE_OTHER_TOOL;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(pairs[i].name, FY_FIELD_REASON) == 0 &&
            fy_stage_reason_find(pairs[i].value) == FY_STAGE_OTHER_MACHINE) {
            reason = FY_STAGE_OTHER_MACHINE;
        }
    }
    return reason;
}

/* ---- a file ------------------------------------------------------------------------ */

static void
upload_free(struct fy_work *work)
{
    struct upload *upload = (struct upload *)work;
    free(upload->path);
    free(upload->bytes);
    free(upload);
}

/* Appends to the request. */
static int
append(void *context, const void *bytes, size_t n)
{
    struct upload *upload = context;
    if (n > upload->capacity - upload->n) {
        return FY_ERR_NOFIT;
    }
    memcpy(upload->bytes + upload->n, bytes, n);
    upload->n += n;
    return 0;
}

/* Makes the request of a file's n bytes: compressed if that is faster, and shorter. */
static void
pack(struct upload *upload, const char *file, size_t n)
{
    struct fy_squeeze *squeeze = NULL;
    uint64_t size = htobe64(n);
    upload->capacity = HASH_BYTES + n;
    upload->bytes = malloc(upload->capacity);
    if (!upload->bytes || append(upload, upload->sha256, HASH_BYTES)) {
        return;
    }
    upload->packed =
        (upload->bytes_a_second == 0 ||
         fy_squeeze_pays(upload->bytes_a_second, fy_squeeze_speed(), 0)) &&
        append(upload, &size, sizeof size) == 0 &&
        fy_squeeze_new(0, &squeeze) == 0 &&
        fy_squeeze_add(squeeze, file, n, false, append, upload) == 0 &&
        fy_squeeze_end(squeeze, append, upload) == 0;
    fy_squeeze_free(squeeze);
    if (!upload->packed) {
        upload->n = HASH_BYTES;
        (void)append(upload, file, n);
    }
}

static void
upload_run(struct fy_work *work)
{
    struct upload *upload = (struct upload *)work;
    unsigned char found[HASH_BYTES];
    size_t n = 0;
    char *file = fy_read_file(upload->path, FY_CLOSURE_MAX_BYTES, &n);
    if (file) {
        fy_sha256_of(file, n, found);
    }
    if (file && memcmp(found, upload->sha256, sizeof found) == 0) {
        pack(upload, file, n);
    }
    free(file);
}

static struct upload *
of_exchange(struct exchange *exchange)
{
    return (struct upload *)((char *)exchange -
                             offsetof(struct upload, exchange));
}

static void
upload_room(struct exchange *exchange)
{
    struct upload *upload = of_exchange(exchange);
    struct fy_wire *wire =
        exchange->connection ? exchange->connection->wire : NULL;
    size_t room = wire ? fy_wire_room(wire, exchange->stream) : 0;
    while (room > 0 && upload->sent < upload->n) {
        size_t n = upload->n - upload->sent;
        n = n < room ? n : room;
        n = n < PIECE_BYTES ? n : PIECE_BYTES;
        if (fy_wire_send(wire, exchange->stream, upload->bytes + upload->sent,
                         n)) {
            fy_wire_cancel(wire, exchange->stream);
            return;
        }
        upload->sent += n;
        upload->carrying->bytes += n;
        room = fy_wire_room(wire, exchange->stream);
        if (upload->sent == upload->n &&
            fy_wire_finish(wire, exchange->stream, NULL, 0)) {
            fy_wire_cancel(wire, exchange->stream);
        }
    }
    if (upload->sent == upload->n) {
        go_on(upload->carrying); /* the next follows at once */
    }
}

static void
upload_response(struct exchange *exchange, int status,
                const struct fy_wire_pair *pairs, size_t n)
{
    struct upload *upload = of_exchange(exchange);
    upload->status = status;
    if (status != 200) {
        fail(upload->carrying, why_of(pairs, n));
    }
}

static void
upload_closed(struct exchange *exchange, uint32_t error)
{
    struct upload *upload = of_exchange(exchange);
    struct fy_carrying *carrying = upload->carrying;
    (void)error;
    if (upload->status == 0) {
        fail(carrying, "the connection broke");
    }
    carrying->open--;
    upload_free(&upload->work);
    go_on(carrying);
}

static void
upload_done(struct fy_work *work)
{
    struct upload *upload = (struct upload *)work;
    struct fy_carrying *carrying = upload->carrying;
    upload->exchange.response = upload_response;
    upload->exchange.room = upload_room;
    upload->exchange.closed = upload_closed;
    if (!upload->bytes) {
        fail(carrying, "a file of the program has changed");
    } else if (!carrying->connection->wire || carrying->connection->broken ||
               fy_connection_request(carrying->connection,
                                     upload->packed ? FY_PATH_STORE_ZSTD
                                                    : FY_PATH_STORE,
                                     true, &upload->exchange)) {
        fail(carrying, "the connection broke");
    } else {
        upload_room(&upload->exchange);
        return;
    }
    carrying->open--;
    upload_free(work);
    go_on(carrying);
}

/* Returns the bytes/s that the link is known to carry; 0: unknown. */
static double
link_rate(const struct connection *connection)
{
    struct fy_wire_counters counters = {0};
    if (connection->wire) {
        fy_wire_counters(connection->wire, &counters);
    }
    double rate = (double)counters.link_rate;
    return rate > connection->bytes_a_second ? rate
                                             : connection->bytes_a_second;
}

/* Starts the next file. */
static bool
upload_start(struct fy_carrying *carrying, const struct fy_closure_file *file)
{
    struct upload *upload = calloc(1, sizeof *upload);
    if (!upload) {
        return false;
    }
    upload->work = (struct fy_work){
        .run = upload_run, .done = upload_done, .drop = upload_free};
    upload->carrying = carrying;
    upload->path = strdup(file->path);
    memcpy(upload->sha256, file->sha256, sizeof upload->sha256);
    upload->bytes_a_second = link_rate(carrying->connection);
    if (!upload->path ||
        fy_pool_submit(carrying->connection->session->pool, &upload->work)) {
        upload_free(&upload->work);
        return false;
    }
    carrying->open++;
    return true;
}

/* ---- the program -------------------------------------------------------------------- */

static void
ask_response(struct exchange *exchange, int status,
             const struct fy_wire_pair *pairs, size_t n)
{
    struct fy_carrying *carrying =
        (struct fy_carrying *)((char *)exchange -
                               offsetof(struct fy_carrying, ask));
    carrying->status = status;
    if (status != 200) {
        carrying->reason = reason_of(pairs, n);
        fail(carrying, why_of(pairs, n));
    }
}

static void
ask_data(struct exchange *exchange, const void *bytes, size_t n)
{
    struct fy_carrying *carrying =
        (struct fy_carrying *)((char *)exchange -
                               offsetof(struct fy_carrying, ask));
    if (n <= RESULT_BYTES - carrying->used) {
        memcpy(carrying->result + carrying->used, bytes, n);
        carrying->used += n;
    }
}

static void
ask_closed(struct exchange *exchange, uint32_t error)
{
    struct fy_carrying *carrying =
        (struct fy_carrying *)((char *)exchange -
                               offsetof(struct fy_carrying, ask));
    struct fy_carry_result result;
    struct connection *connection = carrying->connection;
    carrying->asks = false;
    carrying->answered = true;
    if (carrying->failed) {
        /* It was refused. */
    } else if (error || carrying->status != 200 ||
               fy_carry_result_decode(carrying->result, carrying->used, &result,
                                      NULL)) {
        fail(carrying, "the connection broke");
    } else if (result.same) {
        fy_tools_keep(connection->session->logins, connection->name,
                      &connection->tools, carrying->identity, FY_TOOL_SAME);
    } else if (result.lacks.n != carrying->closure->n) {
        fail(carrying, "its host answers with nonsense");
    } else {
        carrying->lacks = result.lacks;
    }
    go_on(carrying);
}

static bool
ask(struct fy_carrying *carrying)
{
    const struct stage *stage = carrying->stage;
    struct fy_carried_file rows[FY_CLOSURE_MAX];
    const char *program = fy_gather_program(stage->prepare.gather);
    struct fy_carry carry = {
        .tool = {.path = {program, strlen(program)},
                 .identity = {carrying->identity, strlen(carrying->identity)}},
        .carried = rows,
        .ncarried = fy_carry_rows(carrying->closure, rows),
        .kernel = carrying->closure->kernel,
        .store_bytes = carrying->connection->store_bytes,
    };
    struct utsname machine;
    if (uname(&machine) == 0) {
        carry.machine =
            (struct fy_bytes){machine.machine, strlen(machine.machine)};
    }
    char *body;
    size_t n;
    if (fy_carry_encode(&carry, &body, &n)) {
        return false;
    }
    carrying->ask.response = ask_response;
    carrying->ask.data = ask_data;
    carrying->ask.closed = ask_closed;
    if (!carrying->connection->wire || carrying->connection->broken ||
        fy_connection_request(carrying->connection, FY_PATH_CARRY, true,
                              &carrying->ask)) {
        free(body);
        return false;
    }
    struct fy_wire *wire = carrying->connection->wire;
    int32_t stream = carrying->ask.stream;
    carrying->asks = true;
    if (fy_wire_grant(wire, stream, RESULT_BYTES) ||
        fy_wire_send(wire, stream, body, n) ||
        fy_wire_finish(wire, stream, NULL, 0)) {
        fy_wire_cancel(wire, stream); /* `closed' follows */
    }
    free(body);
    return true;
}

/* The next program of the connection has its turn. */
static void
finish(struct fy_carrying *carrying)
{
    struct connection *connection = carrying->connection;
    struct stage *stage = carrying->stage;
    bool failed = carrying->failed, carried = carrying->lacks.n > 0;
    char why[sizeof carrying->why];
    connection->carrying = carrying->next;
    (void)snprintf(why, sizeof why, "%s", carrying->why);
    fy_debug(CLIENT, "%s: %s, %llu bytes sent%s%s", carrying->identity,
             failed    ? "not carried"
             : carried ? "carried"
                       : "the same",
             (unsigned long long)carrying->bytes, failed ? ": " : "", why);
    if (stage) {
        stage->carry.active = NULL;
        stage->carry.settled = true;
        stage->carry.carried = carried && !failed;
        stage->carry.bytes = carrying->bytes;
    }
    /* An older ferry there knows nothing of it, and judges by itself. */
    bool unknown = carrying->status == 404;
    bool lost = failed && carrying->status == 0;
    unsigned reason = carrying->reason ? carrying->reason : FY_STAGE_OTHER_TOOL;
    fy_closure_free(carrying->closure);
    free(carrying);
    if (connection->carrying) {
        go_on(connection->carrying);
    }
    if (!stage) {
        return;
    }
    if (failed && !unknown && !lost) {
        connection->session->calls->decline(stage, reason, why);
        return;
    }
    stage->carry.settled = !lost;
    if (stage->state == STAGE_PREPARING) {
        connection->session->calls->placed(stage);
    } else {
        connection->session->calls->prepared(stage, 0);
    }
}

/* Returns true if the stage gains more than sending the files takes, or has no other way. */
static bool
pays(const struct fy_carrying *carrying)
{
    const struct connection *connection = carrying->connection;
    const struct stage *stage = carrying->stage;
    double bytes = 0;
    for (unsigned i = 0; i < carrying->lacks.n; i++) {
        bytes += carrying->lacks.at[i]
                     ? (double)carrying->closure->files[i].bytes
                     : 0;
    }
    if (!stage || connection->session->options.force) {
        return true;
    }
    const struct fy_cost cost = {.here_seconds = stage->place.predicted_here,
                                 .there_seconds = stage->place.predicted_there};
    return fy_cost_worth_sending(&cost, bytes, link_rate(connection));
}

/* The stage runs locally; the files are for the next run. */
static void
send_for_later(struct fy_carrying *carrying)
{
    struct stage *stage = carrying->stage;
    carrying->stage = NULL;
    carrying->later = true;
    stage->carry.active = NULL;
    stage->carry.settled = true;
    carrying->connection->session->calls->decline(
        stage, FY_STAGE_UNPROFITABLE, "its program is sent for the next time");
}

static void
go_on(struct fy_carrying *carrying)
{
    if (carrying->connection->carrying != carrying || carrying->asks) {
        return;
    }
    if (!carrying->stage && !carrying->later) {
        fail(carrying, "its command is gone");
    }
    if (!carrying->answered && !carrying->failed) {
        if (ask(carrying)) {
            return;
        } else {
            fail(carrying, "the connection broke");
        }
    }
    if (carrying->file == 0 && !pays(carrying)) {
        send_for_later(carrying);
    }
    while (!carrying->failed && carrying->file < carrying->lacks.n) {
        const struct fy_closure_file *file =
            &carrying->closure->files[carrying->file];
        if (!carrying->lacks.at[carrying->file]) {
            carrying->file++;
            continue;
        }
        carrying->file++;
        if (upload_start(carrying, file)) {
            return; /* until it is sent */
        }
        fail(carrying, "no memory");
    }
    if (carrying->open == 0) {
        finish(carrying);
    }
}

uint32_t
fy_carry_rows(const struct fy_closure *closure,
              struct fy_carried_file rows[FY_CLOSURE_MAX])
{
    for (unsigned i = 0; i < closure->n; i++) {
        const struct fy_closure_file *file = &closure->files[i];
        rows[i].path = (struct fy_bytes){file->path, strlen(file->path)};
        rows[i].executes = file->executes;
        memcpy(rows[i].sha256, file->sha256, sizeof rows[i].sha256);
    }
    return closure->n;
}

/* Returns true if the host had the same programs so far: no answer is waited for. */
static bool
is_twin(const struct fy_tools_known *known)
{
    bool twin = known->n > 0;
    for (unsigned i = 0; i < known->n; i++) {
        twin = twin && known->rows[i].place == FY_TOOL_SAME;
    }
    return twin;
}

/* The only connection of the session that takes requests; NULL: there is none, or several. */
static struct connection *
only_connection(const struct fy_session *session)
{
    struct connection *found = NULL;
    for (unsigned i = 0; i < session->nconnections; i++) {
        struct connection *connection = &session->connections[i];
        if (connection->wire && !connection->broken) {
            if (found) {
                return NULL;
            }
            found = connection;
        }
    }
    return found;
}

bool
fy_carry_wait(struct stage *stage, struct connection *connection)
{
    struct fy_closure *closure = fy_gather_closure(stage->prepare.gather);
    connection = connection ? connection : only_connection(stage->session);
    if (stage->carry.active) {
        return true;
    }
    if (!closure || !connection || !connection->wire || connection->broken ||
        (stage->carry.settled && stage->carry.connection == connection)) {
        return false;
    }
    stage->carry.connection = connection;
    stage->carry.settled = stage->carry.carried = false;
    stage->carry.too_large = closure->bytes > connection->store_bytes;
    if (connection->programs != FY_TOOLS_CARRY || stage->carry.too_large) {
        stage->carry.settled = true;
        return false;
    }
    const char *identity = fy_gather_identity(stage->prepare.gather);
    char key[FY_CLOSURE_KEY_BYTES];
    fy_closure_key(closure, key);
    bool same = is_twin(&connection->tools) ||
                fy_tools_find(&connection->tools, identity) == FY_TOOL_SAME;
    if (same || fy_tools_find(&connection->tools, key) == FY_TOOL_CARRIED) {
        stage->carry.settled = true;
        stage->carry.carried = !same;
        return false;
    }
    struct fy_carrying *carrying = calloc(1, sizeof *carrying);
    if (!carrying) {
        stage->carry.settled = true;
        return false;
    }
    carrying->connection = connection;
    carrying->stage = stage;
    carrying->closure = closure;
    closure->users++;
    (void)snprintf(carrying->identity, sizeof carrying->identity, "%s",
                   identity);
    stage->carry.active = carrying;
    struct fy_carrying **end = &connection->carrying;
    while (*end) {
        end = &(*end)->next;
    }
    *end = carrying;
    go_on(carrying);
    return stage->carry.active == carrying;
}

void
fy_carry_learn(struct stage *stage, bool accepted)
{
    struct connection *connection = stage->connection;
    const struct fy_gather *gather = stage->prepare.gather;
    struct fy_closure *closure = fy_gather_closure(gather);
    char key[FY_CLOSURE_KEY_BYTES];
    if (!gather || !connection || !closure) {
        return;
    }
    fy_closure_key(closure, key);
    if (!accepted) {
        fy_tools_keep(connection->session->logins, connection->name,
                      &connection->tools, key, FY_TOOL_UNKNOWN);
    }
    /* A refused identity says that the host is no twin: programs are asked about. */
    fy_tools_keep(
        connection->session->logins, connection->name, &connection->tools,
        accepted && stage->carry.carried ? key : fy_gather_identity(gather),
        accepted && !stage->carry.carried ? FY_TOOL_SAME : FY_TOOL_CARRIED);
}

unsigned
fy_carry_explain(const struct stage *stage, const char *why, char *out,
                 size_t capacity)
{
    const char *cause = "";
    unsigned hindrance = FY_STAGE_NONE;
    if (stage->carry.too_large) {
        cause = "its files do not fit into the store there";
    } else if (stage->connection->programs == FY_TOOLS_CARRY) {
        hindrance = fy_gather_hindrance(stage->prepare.gather, &cause);
    }
    (void)snprintf(out, capacity, "%.250s%s%.200s", why,
                   *cause ? "; not sent: " : "", cause);
    return hindrance ? hindrance : FY_STAGE_OTHER_TOOL;
}

void
fy_carry_forget(struct stage *stage)
{
    if (stage->carry.active) {
        stage->carry.active->stage = NULL;
        stage->carry.active = NULL;
    }
}

void
fy_carry_free(struct fy_session *session)
{
    for (unsigned i = 0; i < session->nconnections; i++) {
        struct connection *connection = &session->connections[i];
        while (connection->carrying) {
            struct fy_carrying *carrying = connection->carrying;
            connection->carrying = carrying->next;
            fy_closure_free(carrying->closure);
            free(carrying);
        }
    }
}
