/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of the wire, see PROTOCOL.md: which stream is what, bodies that
 * are read whole, and the small ones that are answered at once. A request that
 * makes no sense is answered with 400 and harms no other stream.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "proxy/server/server.h"
#include "proxy/wire/protocol.h"

enum {
    SMALL_BODY_BYTES =
        1 << 20, /* of a hello, a probe or a question about files */
    STORED_BYTES = (64 << 20) + 32, /* of a file for the store, and the hash */
    RECEIVING_BYTES = 80 << 20,     /* of all bodies that are not complete */
    LAST_SIGNAL = 64,
};

/* ---- GET ---------------------------------------------------------------------- */

/* Decimal digits at *at, which is moved behind them. */
static bool
read_number(const char **at, uint64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)**at)) {
        return false;
    }
    errno = 0;
    unsigned long long number = strtoull(*at, &end, 10);
    if (errno) {
        return false;
    }
    *at = end;
    *out = number;
    return true;
}

static bool
read_word(const char **at, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) {
        return false;
    }
    *at += n;
    return true;
}

static void
get_signal(struct fy_exchange *exchange, struct fy_server_stage *stage,
           const char *rest)
{
    uint64_t number;
    if (!read_number(&rest, &number) || *rest || number == 0 ||
        number > LAST_SIGNAL) {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED, "no such signal");
        return;
    }
    fy_server_stage_signal(stage, (int)number);
    fy_exchange_answer(exchange, 200, NULL, 0);
}

static void
get_window(struct fy_exchange *exchange, struct fy_server_stage *stage,
           const char *rest)
{
    uint64_t rows, columns;
    if (!read_word(&rest, "rows=") || !read_number(&rest, &rows) ||
        !read_word(&rest, "&columns=") || !read_number(&rest, &columns) ||
        *rest || rows > UINT16_MAX || columns > UINT16_MAX) {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED, "no such window");
        return;
    }
    const struct winsize size = {.ws_row = (unsigned short)rows,
                                 .ws_col = (unsigned short)columns};
    if (stage->run.terminal >= 0) {
        (void)ioctl(stage->run.terminal, TIOCSWINSZ, &size);
    }
    fy_exchange_answer(exchange, 200, NULL, 0);
}

static void
get_unread(struct fy_exchange *exchange, struct fy_server_stage *stage,
           const char *rest)
{
    uint64_t fd;
    if (!read_number(&rest, &fd) || *rest || fd < 1 || fd > 2) {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED,
                           "no such descriptor");
        return;
    }
    fy_exchange_answer(exchange, 200, NULL, 0);
    fy_pump_unread(stage, (unsigned)fd);
    fy_server_stage_settle(stage);
}

static void
get(struct fy_exchange *exchange, const char *path)
{
    uint64_t number;
    if (!read_word(&path, "/stage/") || !read_number(&path, &number)) {
        fy_exchange_refuse(exchange, 404, FY_STAGE_REFUSED, "no such request");
        return;
    }
    struct fy_server_stage *stage =
        fy_server_stage_find(exchange->server, number);
    if (strcmp(path, "/stderr") == 0 || strcmp(path, "/touched") == 0) {
        exchange->kind = strcmp(path, "/stderr") == 0 ? FY_EXCHANGE_STDERR
                                                      : FY_EXCHANGE_TOUCHED;
        exchange->number = number;
        fy_server_settle(exchange->server);
    } else if (!stage) {
        fy_exchange_refuse(exchange, 404, FY_STAGE_REFUSED, "no such stage");
    } else if (read_word(&path, "/signal?")) {
        get_signal(exchange, stage, path);
    } else if (read_word(&path, "/window?")) {
        get_window(exchange, stage, path);
    } else if (read_word(&path, "/unread?")) {
        get_unread(exchange, stage, path);
    } else {
        fy_exchange_refuse(exchange, 404, FY_STAGE_REFUSED, "no such request");
    }
}

/* ---- POST --------------------------------------------------------------------- */

/* Adds to the body, of at most `limit' bytes; one NUL follows it. */
static int
body_add(struct fy_exchange *exchange, const char *bytes, size_t n,
         size_t limit)
{
    if (n > limit || exchange->body_bytes > limit - n) {
        return FY_ERR_OVERFLOW;
    }
    size_t want = exchange->body_bytes + n + 1;
    if (exchange->server->receiving_bytes > RECEIVING_BYTES - n) {
        return FY_ERR_NOMEM;
    }
    if (want > exchange->body_capacity) {
        size_t capacity = 2 * exchange->body_capacity;
        capacity = capacity < want ? want : capacity;
        capacity = capacity < 4096 ? 4096 : capacity;
        char *larger = realloc(exchange->body, capacity);
        if (!larger) {
            return FY_ERR_NOMEM;
        }
        exchange->body = larger;
        exchange->body_capacity = capacity;
    }
    memcpy(exchange->body + exchange->body_bytes, bytes, n);
    exchange->body_bytes += n;
    exchange->server->receiving_bytes += n;
    exchange->body[exchange->body_bytes] = '\0';
    return 0;
}

/* Of the spec: its length, once that has come; else 0. */
static size_t
spec_bytes(const struct fy_exchange *exchange)
{
    const unsigned char *at = (const unsigned char *)exchange->body;
    return exchange->body_bytes < FY_SPEC_LENGTH_BYTES
               ? 0
               : (size_t)at[0] << 24 | (size_t)at[1] << 16 |
                     (size_t)at[2] << 8 | at[3];
}

/* Takes what belongs to the head and the spec; what is left is stdin. */
static void
stage_data(struct fy_exchange *exchange, const char *bytes, size_t n)
{
    while (n && !exchange->stage && !exchange->responded) {
        size_t want = FY_SPEC_LENGTH_BYTES + spec_bytes(exchange);
        if (want > FY_SPEC_LENGTH_BYTES + (size_t)FY_SPEC_MAX_BYTES) {
            fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED,
                               "the spec is too large");
            return;
        }
        size_t take = want - exchange->body_bytes;
        take = take < n ? take : n;
        if (body_add(exchange, bytes, take, want)) {
            fy_exchange_refuse(exchange, 503, FY_STAGE_BUSY, "out of memory");
            return;
        }
        fy_exchange_grant(exchange, take);
        bytes += take;
        n -= take;
        size_t whole = spec_bytes(exchange);
        if (whole && exchange->body_bytes == FY_SPEC_LENGTH_BYTES + whole) {
            char *spec = exchange->body;
            memmove(spec, spec + FY_SPEC_LENGTH_BYTES, whole + 1);
            exchange->server->receiving_bytes -= exchange->body_bytes;
            exchange->body = NULL;
            exchange->body_bytes = exchange->body_capacity = 0;
            fy_server_stage_begin(exchange, spec, whole);
            fy_server_settle(exchange->server);
        } else if (!whole && exchange->body_bytes == FY_SPEC_LENGTH_BYTES) {
            fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED,
                               "the spec is empty");
        }
    }
    if (n && exchange->stage && fy_pump_add(exchange->stage, bytes, n)) {
        /* A stage that lost input must not end as if it had seen it all. */
        fy_server_stage_fail(exchange->stage, FY_STAGE_LIMITS);
    }
}

/* Returns true if the body is a file for the store. */
static bool
is_stored(const struct fy_exchange *exchange)
{
    return exchange->kind == FY_EXCHANGE_STORE ||
           exchange->kind == FY_EXCHANGE_STORE_ZSTD;
}

static void
post_data(struct fy_exchange *exchange, const char *bytes, size_t n)
{
    if (exchange->responded) {
        return;
    }
    if (body_add(exchange, bytes, n,
                 is_stored(exchange) ? STORED_BYTES : SMALL_BODY_BYTES)) {
        fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED,
                           "the body is too large");
    } else {
        fy_exchange_grant(exchange, n);
    }
}

/* Until its process runs, what comes waits here. */
static void
files_data(struct fy_exchange *exchange, const char *bytes, size_t n)
{
    if (exchange->files) {
        fy_server_files_add(exchange, bytes, n);
    } else if (!exchange->responded) {
        post_data(exchange, bytes, n);
        fy_server_files_begin(exchange);
    }
}

/* ---- what the wire tells ------------------------------------------------------- */

static void
on_request(void *context, int32_t stream, const char *method, const char *path,
           void **out_user)
{
    struct fy_server *server = context;
    struct fy_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange) {
        fy_wire_cancel(server->wire, stream);
        return;
    }
    exchange->server = server;
    exchange->stream = stream;
    exchange->link = &server->exchanges;
    exchange->next = server->exchanges;
    if (exchange->next) {
        exchange->next->link = &exchange->next;
    }
    server->exchanges = exchange;
    *out_user = exchange;
    bool post = strcmp(method, "POST") == 0;
    size_t window = 64 << 10;
    if (post && strcmp(path, FY_PATH_HELLO) == 0) {
        exchange->kind = FY_EXCHANGE_HELLO;
    } else if (post && strcmp(path, FY_PATH_PROBE) == 0) {
        exchange->kind = FY_EXCHANGE_PROBE;
    } else if (post && strcmp(path, FY_PATH_STAGE) == 0) {
        exchange->kind = FY_EXCHANGE_STAGE;
        window = FY_SERVER_INPUT_BYTES;
    } else if (post && strcmp(path, FY_PATH_FILES) == 0) {
        exchange->kind = FY_EXCHANGE_FILES;
    } else if (post && strcmp(path, FY_PATH_CARRY) == 0) {
        exchange->kind = FY_EXCHANGE_CARRY;
    } else if (post && (strcmp(path, FY_PATH_STORE) == 0 ||
                        strcmp(path, FY_PATH_STORE_ZSTD) == 0)) {
        exchange->kind = path[sizeof FY_PATH_STORE - 1] ? FY_EXCHANGE_STORE_ZSTD
                                                        : FY_EXCHANGE_STORE;
        window = FY_SERVER_STORE_BYTES;
    } else {
        get(exchange, path);
        return;
    }
    fy_exchange_grant(exchange, window);
}

static void
on_data(void *context, int32_t stream, void *user, const void *bytes, size_t n)
{
    struct fy_exchange *exchange = user;
    (void)context;
    (void)stream;
    if (!exchange) {
        return;
    }
    if (exchange->kind == FY_EXCHANGE_STAGE) {
        stage_data(exchange, bytes, n);
    } else if (exchange->kind == FY_EXCHANGE_FILES) {
        files_data(exchange, bytes, n);
    } else if (exchange->kind == FY_EXCHANGE_HELLO ||
               exchange->kind == FY_EXCHANGE_PROBE ||
               exchange->kind == FY_EXCHANGE_CARRY || is_stored(exchange)) {
        post_data(exchange, bytes, n);
    }
}

static void
on_end(void *context, int32_t stream, void *user,
       const struct fy_wire_pair *trailers, size_t ntrailers)
{
    struct fy_exchange *exchange = user;
    (void)context;
    (void)stream;
    (void)trailers;
    (void)ntrailers;
    if (!exchange) {
        return;
    }
    if (exchange->kind == FY_EXCHANGE_STAGE) {
        if (exchange->stage) {
            fy_pump_end(exchange->stage);
        } else if (!exchange->responded) {
            fy_exchange_refuse(exchange, 400, FY_STAGE_REFUSED,
                               "the spec is incomplete");
        }
        return;
    }
    if (exchange->kind == FY_EXCHANGE_FILES) {
        fy_server_files_end(exchange);
        return;
    }
    char nothing[1] = "";
    char *body = exchange->body ? exchange->body : nothing;
    if (exchange->responded) {
        return;
    }
    if (exchange->kind == FY_EXCHANGE_HELLO) {
        fy_server_hello(exchange, body, exchange->body_bytes);
    } else if (exchange->kind == FY_EXCHANGE_PROBE) {
        fy_server_probe(exchange, body, exchange->body_bytes);
    } else if (exchange->kind == FY_EXCHANGE_CARRY) {
        fy_server_carry(exchange, body, exchange->body_bytes);
    } else if (is_stored(exchange)) {
        fy_server_store(exchange, body, exchange->body_bytes);
    }
}

static void
on_ready(void *context, int32_t stream, void *user)
{
    struct fy_exchange *exchange = user;
    (void)context;
    (void)stream;
    if (exchange && exchange->files) {
        fy_server_files_ready(exchange);
    }
    struct fy_server_stage *stage = exchange ? exchange->stage : NULL;
    if (!stage) {
        return;
    }
    if (exchange == stage->out_exchange) {
        fy_server_stage_output(stage);
    } else {
        fy_pump_err(stage);
    }
    fy_server_stage_settle(stage);
}

static void
on_closed(void *context, int32_t stream, void *user, uint32_t error)
{
    struct fy_exchange *exchange = user;
    (void)stream;
    (void)error;
    if (!exchange) {
        return;
    }
    *exchange->link = exchange->next;
    if (exchange->next) {
        exchange->next->link = exchange->link;
    }
    if (exchange->stage) {
        fy_server_stage_detach(exchange->stage, exchange);
    }
    if (exchange->files) {
        fy_server_files_detach(exchange);
    }
    if (exchange->job) {
        exchange->job->exchange = NULL;
    }
    fy_server_settle(context);
    exchange->server->receiving_bytes -= exchange->body_bytes;
    free(exchange->body);
    free(exchange);
}

const struct fy_wire_events fy_server_events = {
    .request = on_request,
    .data = on_data,
    .end = on_end,
    .ready = on_ready,
    .closed = on_closed,
};
