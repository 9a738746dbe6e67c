/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to proxies: start, hello, keep-alive, loss. A host that does not
 * answer costs a bounded time once, and its reason stands in the report.
 * Long because the states of a connection lead into each other.
 */
#include "config.h"

#include "proxy/client/reach.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/debug.h"
#include "proxy/client/stage.h"

enum {
    CONNECT_SECONDS = 10,
    KEEPALIVE_SECONDS = 10, /* two of them without a byte: it is lost */
    BREAKS_MAX = 3,
    HELLO_BYTES = 64 << 10,
    CLOSE_MS = 500,
};
static const uint64_t second_ns = 1000000000;

static struct reach *
of_watch(struct watch *watch, size_t offset)
{
    return (struct reach *)((char *)watch - offset);
}

/* Takes it out of the loop; whoever owns the descriptor closes it. */
static void
forget(struct fy_session *session, struct watch *watch)
{
    if (watch->fd >= 0) {
        (void)epoll_ctl(session->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
        watch->fd = -1;
    }
}

/* The one place that changes the state of a connection. */
static void
enter(struct reach *reach, enum reach_state state)
{
    static const char *const words[] = {"idle", "greets", "says hello", "ready",
                                        "cannot be used"};
    fy_debug(CLIENT, "connection to %s: %s -> %s%s%s", reach->name,
             words[reach->state], words[state], *reach->trouble ? ": " : "",
             reach->trouble);
    reach->state = state;
}

static void
set_trouble(struct reach *reach, const char *text)
{
    (void)snprintf(reach->trouble, sizeof reach->trouble, "%s", text);
}

/* Gives the connection up at the end of this round. */
static void
break_reach(struct reach *reach, const char *why)
{
    if (!reach->broken) {
        set_trouble(reach, why);
        reach->broken = true;
    }
}

/* Everything of the connection goes; its streams are told. */
static void
disconnect(struct reach *reach)
{
    struct fy_session *session = reach->session;
    forget(session, &reach->in);
    forget(session, &reach->out);
    fy_session_unset(session, &reach->limit);
    if (reach->wire) {
        struct fy_wire_counters counters;
        fy_wire_counters(reach->wire, &counters);
        reach->received_bytes += counters.received_bytes;
        reach->sent_bytes += counters.sent_bytes;
        reach->rtt_ns = counters.rtt_ns ? counters.rtt_ns : reach->rtt_ns;
        reach->connected_ns += fy_clock_ns() - reach->began_ns;
        struct fy_wire *wire = reach->wire;
        fy_wire_free(wire);
        reach->wire = NULL;
    }
    if (reach->state != REACH_IDLE && reach->state != REACH_BAD) {
        /* A login that has not ended could not end well; a proxy itself removes
         * what it has made for early requests. */
        bool login = reach->state == REACH_GREETING && reach->link.relays;
        fy_link_close(&reach->link, login ? 0 : CLOSE_MS);
    }
    reach->held = false;
    free(reach->hello_bytes);
    reach->hello_bytes = NULL;
    reach->hello_used = 0;
    memset(&reach->hello, 0, sizeof reach->hello);
    memset(reach->proven, 0, sizeof reach->proven);
    memset(reach->asked, 0, sizeof reach->asked);
}

static void
give_up(struct reach *reach)
{
    /* A start-up file there may have read what was sent early. */
    bool again = reach->state == REACH_READY ||
                 (reach->state == REACH_HELLO && reach->early);
    reach->waits = reach->waits || reach->state == REACH_HELLO;
    disconnect(reach);
    reach->broken = false;
    enter(reach,
          again && ++reach->breaks < BREAKS_MAX ? REACH_IDLE : REACH_BAD);
    reach->session->calls->reached(reach->session, reach);
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
        exchange->reach = NULL;
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

/* What is queued goes out before the greeting. */
static void
send_early(struct reach *reach)
{
    reach->early = reach->early || reach->held;
    reach->held = false;
}

int
fy_reach_request(struct reach *reach, const char *path, bool body,
                 struct exchange *exchange)
{
    exchange->reach = reach;
    send_early(reach);
    int status =
        fy_wire_request(reach->wire, path, body, exchange, &exchange->stream);
    if (status) {
        exchange->reach = NULL;
    }
    return status;
}

/* ---- the login ----------------------------------------------------------------------- */

static const double usual_login = 0.5; /* seconds, until one was seen */

static void
login_key(const struct reach *reach, char out[], size_t capacity)
{
    (void)snprintf(out, capacity, "login %s", reach->name);
}

static void
learn_login(const struct reach *reach)
{
    char key[600];
    login_key(reach, key, sizeof key);
    fy_history_add(reach->session->history, key, 0, 0,
                   (double)(fy_clock_ns() - reach->began_ns) / 1e9);
}

double
fy_reach_login_seconds(const struct reach *reach)
{
    char key[600];
    struct fy_learned learned;
    if (reach->state != REACH_GREETING && reach->state != REACH_HELLO) {
        return 0;
    }
    login_key(reach, key, sizeof key);
    double all = fy_history_find(reach->session->history, key, &learned)
                     ? learned.busy_seconds
                     : usual_login;
    double spent = (double)(fy_clock_ns() - reach->began_ns) / 1e9;
    /* One that takes longer than the others did is not about to end. */
    return all - spent > all / 4 ? all - spent : all / 4;
}

/* It was reached before by this name. */
static bool
is_known(const struct reach *reach)
{
    char key[600];
    struct fy_learned learned;
    login_key(reach, key, sizeof key);
    return fy_history_find(reach->session->history, key, &learned);
}

/* Where a mount tells users by numbers, ask.c compares them with the hello's. */
static bool
needs_hello(const struct stage *stage)
{
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        const struct fy_mount *mount = stage->plan.mounts[i];
        if ((mount->traits & FY_MOUNT_BY_NUMBER) ||
            ((mount->traits & FY_MOUNT_MAPS_USERS) && stage->plan.effect)) {
            return true;
        }
    }
    return stage->whole != NULL;
}

bool
fy_reach_takes(const struct reach *reach, const struct stage *stage)
{
    /* Only the answer to an early hello says that nothing of it was lost. */
    bool ahead = reach->early || reach->held ? stage->plan.repeatable
                                             : reach->state == REACH_HELLO;
    switch (reach->state) {
    case REACH_GREETING:
    case REACH_HELLO:
        return !reach->broken && ahead && !needs_hello(stage);
    default:
        return !reach->broken && reach->state == REACH_READY;
    }
}

void
fy_reach_awaited(struct reach *reach, const struct stage *stage)
{
    if (needs_hello(stage)) {
        send_early(reach);
    }
}

/* ---- hello ------------------------------------------------------------------------ */

static void
keep_alive(struct timer *timer)
{
    struct reach *reach =
        (struct reach *)((char *)timer - offsetof(struct reach, limit));
    if (reach->state != REACH_READY) {
        break_reach(reach, "it did not answer in time");
        return;
    }
    struct fy_wire_counters counters;
    fy_wire_counters(reach->wire, &counters);
    if (reach->heard_bytes == counters.received_bytes) {
        break_reach(reach, "the connection is silent");
        return;
    }
    reach->heard_bytes = counters.received_bytes;
    if (fy_wire_ping(reach->wire)) {
        break_reach(reach, "the connection is lost");
        return;
    }
    fy_session_set(reach->session, &reach->limit,
                   KEEPALIVE_SECONDS * second_ns);
}

static void
hello_response(struct exchange *exchange, int status,
               const struct fy_wire_pair *pairs, size_t n)
{
    (void)pairs;
    (void)n;
    if (status != 200) {
        break_reach(exchange->reach, "its ferry is of another version");
    }
}

static void
hello_data(struct exchange *exchange, const void *bytes, size_t n)
{
    struct reach *reach = exchange->reach;
    if (n > HELLO_BYTES - reach->hello_used) {
        break_reach(reach, "its hello is too long");
        return;
    }
    memcpy(reach->hello_bytes + reach->hello_used, bytes, n);
    reach->hello_used += n;
}

/* What the host's kernel does not keep an exploited command from. */
static void
note_open(struct reach *reach)
{
    const struct fy_hello *hello = &reach->hello;
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
    fy_buffer_start(&to, reach->open, sizeof reach->open);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].open) {
            fy_buffer_add(&to, to.used > 0 ? ", " : "");
            fy_buffer_add(&to, rows[i].what);
        }
    }
}

static void
hello_end(struct exchange *exchange, const struct fy_wire_pair *trailers,
          size_t n)
{
    struct reach *reach = exchange->reach;
    char text[200];
    struct fy_buffer why;
    (void)trailers;
    (void)n;
    if (reach->broken) {
        return;
    }
    fy_buffer_start(&why, text, sizeof text);
    reach->hello_bytes[reach->hello_used] = '\0';
    if (fy_hello_decode(reach->hello_bytes, reach->hello_used, &reach->hello,
                        &why)) {
        break_reach(reach, text);
        return;
    }
    note_open(reach);
    enter(reach, REACH_READY);
    learn_login(reach);
    reach->heard_bytes = 0;
    fy_session_set(reach->session, &reach->limit,
                   KEEPALIVE_SECONDS * second_ns);
    if (fy_wire_ping(reach->wire)) {
        break_reach(reach, "the connection is lost");
        return;
    }
    reach->session->calls->reached(reach->session, reach);
}

static void
hello_closed(struct exchange *exchange, uint32_t error)
{
    struct reach *reach =
        (struct reach *)((char *)exchange -
                         offsetof(struct reach, hello_exchange));
    (void)error;
    if (reach->state == REACH_HELLO) {
        break_reach(reach, "it did not say hello");
    }
}

static struct fy_bytes
bytes_of(const char *text)
{
    return (struct fy_bytes){.at = text, .n = strlen(text)};
}

static int
say_hello(struct reach *reach)
{
    struct utsname names;
    memset(&names, 0, sizeof names);
    (void)uname(&names);
    struct fy_hello hello = {
        .version = FY_PROTOCOL_VERSION,
        .ferry = bytes_of(PACKAGE_VERSION),
        .uid = geteuid(),
        .gid = getegid(),
        .host = bytes_of(names.nodename),
        .kernel = bytes_of(names.release),
        .machine = bytes_of(names.machine),
    };
    char *body;
    size_t n;
    int status = fy_hello_encode(&hello, &body, &n);
    if (status) {
        return status;
    }
    struct exchange *exchange = &reach->hello_exchange;
    exchange->response = hello_response;
    exchange->data = hello_data;
    exchange->end = hello_end;
    exchange->closed = hello_closed;
    reach->hello_bytes = malloc(HELLO_BYTES + 1);
    reach->hello_used = 0;
    if (!reach->hello_bytes) {
        free(body);
        return FY_ERR_NOMEM;
    }
    status = fy_reach_request(reach, "/hello", true, exchange);
    if (!status) {
        status = fy_wire_grant(reach->wire, exchange->stream, HELLO_BYTES);
    }
    if (!status) {
        status = fy_wire_send(reach->wire, exchange->stream, body, n);
    }
    if (!status) {
        status = fy_wire_finish(reach->wire, exchange->stream, NULL, 0);
    }
    free(body);
    return status;
}

/* ---- connecting ---------------------------------------------------------------------- */

static void
move(struct reach *reach, bool readable, bool writable)
{
    if (reach->wire && !reach->broken &&
        fy_wire_io(reach->wire, readable, writable)) {
        char text[200] = "";
        struct fy_buffer why;
        fy_buffer_start(&why, text, sizeof text);
        fy_link_last_words(&reach->link, &why);
        break_reach(reach, text[0] ? text : "the connection is lost");
    }
}

static void
out_ready(struct watch *watch, uint32_t events)
{
    (void)events;
    move(of_watch(watch, offsetof(struct reach, out)), false, true);
}

/* The wire takes the link's descriptors, and the hello is queued. */
static void
open_wire(struct reach *reach)
{
    struct fy_link *link = &reach->link;
    if (fy_wire_new(FY_WIRE_CLIENT, link->in, link->out, &wire_events, reach,
                    &reach->wire)) {
        break_reach(reach, "no memory");
        return;
    }
    int out = link->out == link->in ? -1 : link->out;
    link->in = link->out = -1;
    if (out >= 0) {
        reach->out.fd = out;
        reach->out.ready = out_ready;
        if (fy_session_watch(reach->session, &reach->out, 0)) {
            break_reach(reach, "no memory");
            return;
        }
    }
    if (say_hello(reach)) {
        break_reach(reach, "no memory");
    }
}

static void
greet(struct reach *reach)
{
    char text[200];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    reach->link.in = reach->in.fd;
    int status = fy_link_greet(&reach->link, &why);
    if (reach->wire) {
        reach->link.in = -1; /* it is the wire's */
    }
    if (status == FY_ERR_BUSY) {
        return;
    }
    if (status) {
        break_reach(reach, text);
        return;
    }
    enter(reach, REACH_HELLO);
    reach->held = false;
    if (!reach->wire) {
        open_wire(reach);
    }
    if (!reach->broken) {
        reach->session->calls->reached(reach->session, reach);
    }
}

static void
in_ready(struct watch *watch, uint32_t events)
{
    struct reach *reach = of_watch(watch, offsetof(struct reach, in));
    bool readable = (events & ~(uint32_t)EPOLLOUT) != 0;
    bool greeting = reach->state == REACH_GREETING;
    if (greeting && readable) {
        greet(reach);
    }
    move(reach, readable && !greeting, (events & EPOLLOUT) != 0);
}

static void
connect_to(struct reach *reach)
{
    char text[200];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    memset(&reach->link, 0, sizeof reach->link);
    reach->trouble[0] = '\0';
    if (fy_link_open(&reach->place, reach->session->options.ferry, &why,
                     &reach->link)) {
        set_trouble(reach, text);
        enter(reach, REACH_BAD);
        return;
    }
    reach->began_ns = fy_clock_ns();
    enter(reach, REACH_GREETING);
    reach->in.fd = reach->link.in;
    reach->in.ready = in_ready;
    reach->limit.run = keep_alive;
    fy_session_set(reach->session, &reach->limit, CONNECT_SECONDS * second_ns);
    if (fy_session_watch(reach->session, &reach->in, EPOLLIN)) {
        reach->in.fd = -1;
        break_reach(reach, "no memory");
        return;
    }
    reach->early = false;
    if (!reach->waits && is_known(reach)) {
        open_wire(reach);
        reach->held = true;
    }
}

struct reach *
fy_reach_of(struct fy_session *session, const struct fy_mount *mount)
{
    for (unsigned i = 0; i < session->nreaches; i++) {
        struct reach *reach = &session->reaches[i];
        if (fy_place_same_host(&reach->place, &mount->place)) {
            if (reach->state == REACH_IDLE) {
                connect_to(reach);
            }
            return reach;
        }
    }
    return NULL;
}

/* ---- all of them -------------------------------------------------------------------- */

int
fy_reaches_new(struct fy_session *session)
{
    session->reaches = calloc(session->nmounts + 1, sizeof(struct reach));
    if (!session->reaches) {
        return FY_ERR_NOMEM;
    }
    for (unsigned m = 0; m < session->nmounts; m++) {
        const struct fy_mount *mount = &session->mounts[m];
        unsigned i = 0;
        while (i < session->nreaches &&
               !fy_place_same_host(&session->reaches[i].place, &mount->place)) {
            i++;
        }
        struct reach *reach = &session->reaches[i];
        reach->eager = reach->eager || mount->configured;
        if (i < session->nreaches) {
            continue;
        }
        session->nreaches++;
        reach->session = session;
        reach->place = mount->place;
        reach->in.fd = reach->out.fd = -1;
        struct fy_buffer name;
        fy_buffer_start(&name, reach->name, sizeof reach->name);
        fy_place_name(&reach->place, &name);
    }
    return 0;
}

void
fy_reaches_start(struct fy_session *session)
{
    for (unsigned i = 0; i < session->nreaches; i++) {
        if (session->reaches[i].eager) {
            connect_to(&session->reaches[i]);
        }
    }
}

static bool
wants_write(const struct reach *reach)
{
    return !reach->held && fy_wire_wants_write(reach->wire);
}

void
fy_reaches_flush(struct fy_session *session)
{
    for (unsigned i = 0; i < session->nreaches; i++) {
        struct reach *reach = &session->reaches[i];
        if (reach->wire && !reach->broken && wants_write(reach)) {
            move(reach, false, true);
        }
        if (reach->broken) {
            give_up(reach);
        }
        if (!reach->wire) {
            continue;
        }
        bool more = wants_write(reach);
        if (reach->out.fd >= 0) {
            fy_session_change(session, &reach->out, more ? EPOLLOUT : 0);
        } else {
            fy_session_change(session, &reach->in,
                              EPOLLIN | (more ? EPOLLOUT : 0));
        }
    }
}

void
fy_reaches_end(struct fy_session *session)
{
    for (unsigned i = 0; i < session->nreaches; i++) {
        struct reach *reach = &session->reaches[i];
        disconnect(reach);
        enter(reach, REACH_BAD);
    }
}

void
fy_reaches_free(struct fy_session *session)
{
    free(session->reaches);
    session->reaches = NULL;
}

unsigned
fy_session_links(const struct fy_session *session)
{
    return session->nreaches;
}

void
fy_session_link(const struct fy_session *session, unsigned i,
                struct fy_link_report *out)
{
    const struct reach *reach = &session->reaches[i];
    *out = (struct fy_link_report){
        .place = reach->name,
        .received_bytes = reach->received_bytes,
        .sent_bytes = reach->sent_bytes,
        .seconds = (double)reach->connected_ns / 1e9,
        .rtt_seconds = (double)reach->rtt_ns / 1e9,
        .trouble = reach->trouble,
        .open = reach->open,
    };
}
