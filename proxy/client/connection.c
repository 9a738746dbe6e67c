/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to proxies: start, hello, keep-alive, loss. A host that does not
 * answer costs a bounded time once, and its reason stands in the report.
 * Long because the states of a connection lead into each other.
 */
#include "config.h"

#include "proxy/client/connection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/debug.h"
#include "proxy/client/stage.h"
#include "proxy/storage/logins.h"

enum {
    CONNECT_SECONDS = 10,
    KEEPALIVE_SECONDS = 10, /* two of them without a byte: it is lost */
    BREAKS_MAX = 3,
    HELLO_BYTES = 64 << 10,
    CLOSE_MS = 500,
};
static const uint64_t second_ns = 1000000000;

/* The one place that changes the state of a connection. */
static void
enter(struct connection *connection, enum connection_state state)
{
    static const char *const words[] = {"idle", "greets", "says hello", "ready",
                                        "cannot be used"};
    fy_debug(CLIENT, "connection to %s: %s -> %s%s%s", connection->name,
             words[connection->state], words[state],
             *connection->trouble ? ": " : "", connection->trouble);
    connection->state = state;
}

static void
set_trouble(struct connection *connection, const char *text)
{
    (void)snprintf(connection->trouble, sizeof connection->trouble, "%s", text);
}

/* Gives the connection up at the end of this round. */
static void
break_connection(struct connection *connection, const char *why)
{
    if (!connection->broken) {
        set_trouble(connection, why);
        connection->broken = true;
    }
}

/* Everything of the connection goes; its streams are told. */
static void
disconnect(struct connection *connection)
{
    struct fy_session *session = connection->session;
    fy_loop_forget(&session->loop, &connection->in);
    fy_loop_forget(&session->loop, &connection->out);
    fy_loop_unset(&session->loop, &connection->limit);
    if (connection->wire) {
        struct fy_wire_counters counters;
        fy_wire_counters(connection->wire, &counters);
        connection->received_bytes += counters.received_bytes;
        connection->sent_bytes += counters.sent_bytes;
        connection->rtt_ns =
            counters.rtt_ns ? counters.rtt_ns : connection->rtt_ns;
        connection->connected_ns += fy_clock_ns() - connection->began_ns;
        struct fy_wire *wire = connection->wire;
        fy_wire_free(wire);
        connection->wire = NULL;
    }
    if (connection->state != CONNECTION_IDLE &&
        connection->state != CONNECTION_BAD) {
        /* A login that has not ended could not end well; a proxy itself removes
         * what it has made for early requests. */
        bool login =
            connection->state == CONNECTION_GREETING && connection->link.relays;
        fy_link_close(&connection->link, login ? 0 : CLOSE_MS);
    }
    connection->held = false;
    free(connection->hello_bytes);
    connection->hello_bytes = NULL;
    connection->hello_used = 0;
    memset(&connection->hello, 0, sizeof connection->hello);
    memset(connection->proven, 0, sizeof connection->proven);
    memset(connection->asked, 0, sizeof connection->asked);
}

static void
give_up(struct connection *connection)
{
    /* A start-up file there may have read what was sent early. */
    bool again = connection->state == CONNECTION_READY ||
                 (connection->state == CONNECTION_HELLO && connection->early);
    connection->waits =
        connection->waits || connection->state == CONNECTION_HELLO;
    disconnect(connection);
    connection->broken = false;
    enter(connection, again && ++connection->breaks < BREAKS_MAX
                          ? CONNECTION_IDLE
                          : CONNECTION_BAD);
    connection->session->calls->reached(connection->session, connection);
}

/* ---- events of the wire --------------------------------------------------------- */

static void
on_response(void *context, int32_t stream, void *user, int status,
            const struct fy_wire_pair *pairs, size_t npairs)
{
    struct exchange *exchange = user;
    (void)context;
    (void)stream;
    if (exchange && exchange->response) {
        exchange->response(exchange, status, pairs, npairs);
    }
}

static void
on_data(void *context, int32_t stream, void *user, const void *bytes, size_t n)
{
    struct exchange *exchange = user;
    (void)context;
    (void)stream;
    if (exchange && exchange->data) {
        exchange->data(exchange, bytes, n);
    }
}

static void
on_end(void *context, int32_t stream, void *user,
       const struct fy_wire_pair *trailers, size_t ntrailers)
{
    struct exchange *exchange = user;
    (void)context;
    (void)stream;
    if (exchange && exchange->end) {
        exchange->end(exchange, trailers, ntrailers);
    }
}

static void
on_ready(void *context, int32_t stream, void *user)
{
    struct exchange *exchange = user;
    (void)context;
    (void)stream;
    if (exchange && exchange->room) {
        exchange->room(exchange);
    }
}

static void
on_closed(void *context, int32_t stream, void *user, uint32_t error)
{
    struct exchange *exchange = user;
    (void)context;
    (void)stream;
    if (exchange) {
        exchange->connection = NULL;
        if (exchange->closed) {
            exchange->closed(exchange, error);
        }
    }
}

static const struct fy_wire_events wire_events = {
    .response = on_response,
    .data = on_data,
    .end = on_end,
    .ready = on_ready,
    .closed = on_closed,
};

/* Queued frames go out before the greeting. */
static void
send_early(struct connection *connection)
{
    connection->early = connection->early || connection->held;
    connection->held = false;
}

int
fy_connection_request(struct connection *connection, const char *path,
                      bool body, struct exchange *exchange)
{
    exchange->connection = connection;
    send_early(connection);
    int status = fy_wire_request(connection->wire, path, body, exchange,
                                 &exchange->stream);
    if (status) {
        exchange->connection = NULL;
    }
    return status;
}

/* ---- the login ----------------------------------------------------------------------- */

static const double usual_login =
    0.5; /* seconds, of a host that never answered */

double
fy_connection_login_seconds(const struct connection *connection)
{
    if (connection->state != CONNECTION_GREETING &&
        connection->state != CONNECTION_HELLO) {
        return 0;
    }
    double last = fy_login_last(connection->session->logins, connection->name);
    double all = last > 0 ? last : usual_login;
    double spent = (double)(fy_clock_ns() - connection->began_ns) / 1e9;
    /* One that takes longer than the others did is not about to end. */
    return all - spent > all / 4 ? all - spent : all / 4;
}

/* Whether the host was reached before by this name. */
static bool
is_known(const struct connection *connection)
{
    return fy_login_last(connection->session->logins, connection->name) > 0;
}

/* Where a mount tells users by numbers, ask.c compares them with the hello's. */
static bool
needs_hello(const struct stage *stage)
{
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        const struct fy_mount *mount = stage->plan.mounts[i];
        if ((mount->traits & FY_MOUNT_BY_NUMBER) ||
            fy_ask_shows_owners(stage, mount) ||
            ((mount->traits & FY_MOUNT_MAPS_USERS) && stage->plan.effect)) {
            return true;
        }
    }
    return stage->whole;
}

bool
fy_connection_takes(const struct connection *connection,
                    const struct stage *stage)
{
    /* Only the answer to an early hello says that nothing of it was lost. */
    bool ahead = connection->early || connection->held
                     ? stage->plan.repeatable
                     : connection->state == CONNECTION_HELLO;
    switch (connection->state) {
    case CONNECTION_GREETING:
    case CONNECTION_HELLO:
        return !connection->broken && ahead && !needs_hello(stage);
    default:
        return !connection->broken && connection->state == CONNECTION_READY;
    }
}

void
fy_connection_awaited(struct connection *connection, const struct stage *stage)
{
    if (needs_hello(stage)) {
        send_early(connection);
    }
}

/* ---- hello ------------------------------------------------------------------------ */

static void
keep_alive(void *owner)
{
    struct connection *connection = owner;
    if (connection->state != CONNECTION_READY) {
        break_connection(connection, "it did not answer in time");
        return;
    }
    struct fy_wire_counters counters;
    fy_wire_counters(connection->wire, &counters);
    if (connection->heard_bytes == counters.received_bytes) {
        break_connection(connection, "the connection is silent");
        return;
    }
    connection->heard_bytes = counters.received_bytes;
    if (fy_wire_ping(connection->wire)) {
        break_connection(connection, "the connection is lost");
        return;
    }
    fy_loop_set(&connection->session->loop, &connection->limit,
                KEEPALIVE_SECONDS * second_ns);
}

static void
hello_response(struct exchange *exchange, int status,
               const struct fy_wire_pair *pairs, size_t n)
{
    (void)pairs;
    (void)n;
    if (status != 200) {
        break_connection(exchange->connection,
                         "its ferry is of another version");
    }
}

static void
hello_data(struct exchange *exchange, const void *bytes, size_t n)
{
    struct connection *connection = exchange->connection;
    if (n > HELLO_BYTES - connection->hello_used) {
        break_connection(connection, "its hello is too long");
        return;
    }
    memcpy(connection->hello_bytes + connection->hello_used, bytes, n);
    connection->hello_used += n;
}

/* Notes from what the host's kernel does not keep an exploited command. */
static void
note_open(struct connection *connection)
{
    const struct fy_hello *hello = &connection->hello;
    const struct {
        bool open;
        const char *what;
    } rows[] = {
        {!hello->landlock, "other files of the user"},
        {hello->landlock < 6, "signals to other processes of the user"},
        {!hello->filter, "sockets of daemons and agents"},
        {!hello->filter && !hello->spaces, "the network"},
    };
    struct fy_buffer to;
    fy_buffer_start(&to, connection->open, sizeof connection->open);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].open) {
            fy_buffer_printf(&to, "%s%s", to.used > 0 ? ", " : "",
                             rows[i].what);
        }
    }
}

static void
hello_end(struct exchange *exchange, const struct fy_wire_pair *trailers,
          size_t n)
{
    struct connection *connection = exchange->connection;
    char text[200];
    struct fy_buffer why;
    (void)trailers;
    (void)n;
    if (connection->broken) {
        return;
    }
    fy_buffer_start(&why, text, sizeof text);
    connection->hello_bytes[connection->hello_used] = '\0';
    if (fy_hello_decode(connection->hello_bytes, connection->hello_used,
                        &connection->hello, &why)) {
        break_connection(connection, text);
        return;
    }
    note_open(connection);
    enter(connection, CONNECTION_READY);
    fy_login_keep(connection->session->logins, connection->name,
                  (double)(fy_clock_ns() - connection->began_ns) / 1e9);
    connection->heard_bytes = 0;
    fy_loop_set(&connection->session->loop, &connection->limit,
                KEEPALIVE_SECONDS * second_ns);
    if (fy_wire_ping(connection->wire)) {
        break_connection(connection, "the connection is lost");
        return;
    }
    connection->session->calls->reached(connection->session, connection);
}

static void
hello_closed(struct exchange *exchange, uint32_t error)
{
    struct connection *connection =
        (struct connection *)((char *)exchange -
                              offsetof(struct connection, hello_exchange));
    (void)error;
    if (connection->state == CONNECTION_HELLO) {
        break_connection(connection, "it did not say hello");
    }
}

static int
say_hello(struct connection *connection)
{
    char *body;
    size_t n;
    int status = fy_hello_client(&body, &n);
    if (status) {
        return status;
    }
    struct exchange *exchange = &connection->hello_exchange;
    exchange->response = hello_response;
    exchange->data = hello_data;
    exchange->end = hello_end;
    exchange->closed = hello_closed;
    connection->hello_bytes = malloc(HELLO_BYTES + 1);
    connection->hello_used = 0;
    if (!connection->hello_bytes) {
        free(body);
        return FY_ERR_NOMEM;
    }
    status = fy_connection_request(connection, "/hello", true, exchange);
    if (!status) {
        status = fy_wire_grant(connection->wire, exchange->stream, HELLO_BYTES);
    }
    if (!status) {
        status = fy_wire_send(connection->wire, exchange->stream, body, n);
    }
    if (!status) {
        status = fy_wire_finish(connection->wire, exchange->stream, NULL, 0);
    }
    free(body);
    return status;
}

/* ---- connecting ---------------------------------------------------------------------- */

static void
move(struct connection *connection, bool readable, bool writable)
{
    if (connection->wire && !connection->broken &&
        fy_wire_io(connection->wire, readable, writable)) {
        char text[200] = "";
        struct fy_buffer why;
        fy_buffer_start(&why, text, sizeof text);
        fy_link_last_words(&connection->link, &why);
        break_connection(connection, text[0] ? text : "the connection is lost");
    }
}

static void
out_ready(void *owner, uint32_t events)
{
    (void)events;
    move(owner, false, true);
}

/* The wire takes the link's descriptors, and the hello is queued. */
static void
open_wire(struct connection *connection)
{
    struct fy_link *link = &connection->link;
    if (fy_wire_new(FY_WIRE_CLIENT, link->in, link->out, &wire_events,
                    connection, &connection->wire)) {
        break_connection(connection, "no memory");
        return;
    }
    int out = link->out == link->in ? -1 : link->out;
    link->in = link->out = -1;
    if (out >= 0) {
        connection->out = (struct fy_watch){
            .fd = out, .ready = out_ready, .owner = connection};
        if (fy_loop_watch(&connection->session->loop, &connection->out,
                          EPOLLERR)) {
            break_connection(connection, "no memory");
            return;
        }
    }
    if (say_hello(connection)) {
        break_connection(connection, "no memory");
    }
}

static void
greet(struct connection *connection)
{
    char text[200];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    connection->link.in = connection->in.fd;
    int status = fy_link_greet(&connection->link, &why);
    if (connection->wire) {
        connection->link.in = -1; /* the wire owns it now */
    }
    if (status == FY_ERR_BUSY) {
        return;
    }
    if (status) {
        break_connection(connection, text);
        return;
    }
    enter(connection, CONNECTION_HELLO);
    connection->held = false;
    if (!connection->wire) {
        open_wire(connection);
    }
    if (!connection->broken) {
        connection->session->calls->reached(connection->session, connection);
    }
}

static void
in_ready(void *owner, uint32_t events)
{
    struct connection *connection = owner;
    bool readable = (events & ~(uint32_t)EPOLLOUT) != 0;
    bool greeting = connection->state == CONNECTION_GREETING;
    if (greeting && readable) {
        greet(connection);
    }
    move(connection, readable && !greeting, (events & EPOLLOUT) != 0);
}

static void
connect_to(struct connection *connection)
{
    char text[200];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    memset(&connection->link, 0, sizeof connection->link);
    connection->trouble[0] = '\0';
    if (fy_link_open(&connection->place, connection->session->options.ferry,
                     &why, &connection->link)) {
        set_trouble(connection, text);
        enter(connection, CONNECTION_BAD);
        return;
    }
    connection->began_ns = fy_clock_ns();
    enter(connection, CONNECTION_GREETING);
    connection->in = (struct fy_watch){
        .fd = connection->link.in, .ready = in_ready, .owner = connection};
    connection->limit =
        (struct fy_timer){.run = keep_alive, .owner = connection};
    fy_loop_set(&connection->session->loop, &connection->limit,
                CONNECT_SECONDS * second_ns);
    if (fy_loop_watch(&connection->session->loop, &connection->in, EPOLLIN)) {
        connection->in.fd = -1;
        break_connection(connection, "no memory");
        return;
    }
    connection->early = false;
    if (!connection->waits && is_known(connection)) {
        open_wire(connection);
        connection->held = true;
    }
}

struct connection *
fy_connection_of(struct fy_session *session, const struct fy_mount *mount)
{
    for (unsigned i = 0; i < session->nconnections; i++) {
        struct connection *connection = &session->connections[i];
        if (fy_place_same_host(&connection->place, &mount->place)) {
            if (connection->state == CONNECTION_IDLE) {
                connect_to(connection);
            }
            return connection;
        }
    }
    return NULL;
}

/* ---- all of them -------------------------------------------------------------------- */

/* Reads the settings of the host. Nothing is sent to this machine. */
static void
set_programs(const struct fy_session *session, struct connection *connection)
{
    const struct fy_session_options *options = &session->options;
    const char *host = connection->place.host;
    connection->programs =
        fy_tools_setting(options->tools ? options->tools : "", host);
    connection->store_bytes =
        fy_store_setting(options->store ? options->store : "", host);
    if (fy_place_is_near(&connection->place) ||
        (connection->programs == FY_TOOLS_CARRY &&
         connection->store_bytes == 0)) {
        connection->programs = FY_TOOLS_SAME;
    }
}

int
fy_connections_new(struct fy_session *session)
{
    session->connections =
        calloc(session->nmounts + 1, sizeof(struct connection));
    if (!session->connections) {
        return FY_ERR_NOMEM;
    }
    for (unsigned m = 0; m < session->nmounts; m++) {
        const struct fy_mount *mount = &session->mounts[m];
        unsigned i = 0;
        while (i < session->nconnections &&
               !fy_place_same_host(&session->connections[i].place,
                                   &mount->place)) {
            i++;
        }
        struct connection *connection = &session->connections[i];
        connection->eager = connection->eager || mount->configured;
        if (i < session->nconnections) {
            continue;
        }
        session->nconnections++;
        connection->session = session;
        connection->place = mount->place;
        connection->in.fd = connection->out.fd = -1;
        struct fy_buffer name;
        fy_buffer_start(&name, connection->name, sizeof connection->name);
        fy_place_name(&connection->place, &name);
        fy_tools_load(session->logins, connection->name, &connection->tools);
        set_programs(session, connection);
    }
    return 0;
}

enum fy_tools_setting
fy_connections_programs(const struct fy_session *session,
                        const struct fy_place *place)
{
    const struct connection *found = NULL;
    for (unsigned i = 0; i < session->nconnections; i++) {
        const struct connection *each = &session->connections[i];
        if (place && !fy_place_same_host(&each->place, place)) {
            continue;
        }
        if (found && found->programs != each->programs) {
            return FY_TOOLS_CARRY;
        }
        found = each;
    }
    return found ? found->programs : FY_TOOLS_CARRY;
}

void
fy_connections_start(struct fy_session *session)
{
    for (unsigned i = 0; i < session->nconnections; i++) {
        if (session->connections[i].eager) {
            connect_to(&session->connections[i]);
        }
    }
}

static bool
wants_write(const struct connection *connection)
{
    return !connection->held && fy_wire_wants_write(connection->wire);
}

void
fy_connections_flush(struct fy_session *session)
{
    for (unsigned i = 0; i < session->nconnections; i++) {
        struct connection *connection = &session->connections[i];
        if (connection->wire && !connection->broken &&
            wants_write(connection)) {
            move(connection, false, true);
        }
        if (connection->broken) {
            give_up(connection);
        }
        if (!connection->wire) {
            continue;
        }
        bool more = wants_write(connection);
        if (connection->out.fd >= 0) {
            (void)fy_loop_watch(&session->loop, &connection->out,
                                more ? EPOLLOUT : EPOLLERR);
        } else {
            (void)fy_loop_watch(&session->loop, &connection->in,
                                EPOLLIN | (more ? EPOLLOUT : 0));
        }
    }
}

void
fy_connections_end(struct fy_session *session)
{
    for (unsigned i = 0; i < session->nconnections; i++) {
        struct connection *connection = &session->connections[i];
        disconnect(connection);
        enter(connection, CONNECTION_BAD);
    }
}

void
fy_connections_free(struct fy_session *session)
{
    free(session->connections);
    session->connections = NULL;
}

unsigned
fy_session_links(const struct fy_session *session)
{
    return session->nconnections;
}

void
fy_session_link(const struct fy_session *session, unsigned i,
                struct fy_link_report *out)
{
    const struct connection *connection = &session->connections[i];
    *out = (struct fy_link_report){
        .place = connection->name,
        .received_bytes = connection->received_bytes,
        .sent_bytes = connection->sent_bytes,
        .seconds = (double)connection->connected_ns / 1e9,
        .rtt_seconds = (double)connection->rtt_ns / 1e9,
        .trouble = connection->trouble,
        .open = connection->open,
    };
}
