/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/wire/wire.c: two wires over a socketpair or two pipes, in one thread: heads,
 * bodies, trailers, windows, cancellation, limits, broken peers. Long because
 * every test needs the two owners that stand here first.
 */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buffer.h"
#include "proxy/wire/wire.h"
#include "tests/unit/runner.h"

enum {
    MAX_SEEN = 64
};

/* What one side saw of one stream. */
struct seen {
    int32_t id;
    char method[8], path[64], head[256], trailers[256];
    char first[64]; /* the body's first bytes */
    size_t body, nfirst;
    uint64_t sent;
    int status;
    bool ended, closed;
    uint32_t error;
    unsigned ready;
};

struct side {
    struct fy_wire *wire;
    struct seen seen[MAX_SEEN], rest;
    unsigned nseen;
    bool broken;
    bool echo;          /* answers each request with its own body */
    bool grant_at_once; /* gives back what it received */
    uint64_t to_send;   /* the rest of a long body ... */
    int32_t to_send_on; /* ... on that stream */
    bool cancel_on_data;
    bool patterned; /* byte i of what it receives is i % 253 */
};

static struct side client, server;
static unsigned char pattern[FY_WIRE_READ_BYTES + 253];

static struct seen *
find(struct side *side, int32_t id)
{
    for (unsigned i = 0; i < side->nseen; i++) {
        if (side->seen[i].id == id) {
            return &side->seen[i];
        }
    }
    if (side->nseen == MAX_SEEN) { /* limits_hold() opens thousands */
        return &side->rest;
    }
    side->seen[side->nseen].id = id;
    return &side->seen[side->nseen++];
}

static void
put_pairs(char *to, size_t size, const struct fy_wire_pair *pairs, size_t n)
{
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, to, size);
    for (size_t i = 0; i < n; i++) {
        fy_buffer_add(&buffer, pairs[i].name);
        fy_buffer_add(&buffer, "=");
        fy_buffer_add(&buffer, pairs[i].value);
        fy_buffer_add(&buffer, ";");
    }
}

static void
on_request(void *context, int32_t id, const char *method, const char *path,
           void **out_user)
{
    struct side *side = context;
    struct seen *seen = find(side, id);
    strncpy(seen->method, method, sizeof seen->method - 1);
    strncpy(seen->path, path, sizeof seen->path - 1);
    *out_user = seen;
    if (side->echo) {
        ck_assert_int_eq(fy_wire_respond(side->wire, id, 200, NULL, 0, true),
                         0);
    }
}

static void
on_response(void *context, int32_t id, void *user, int status,
            const struct fy_wire_pair *pairs, size_t n)
{
    struct seen *seen = find(context, id);
    (void)user;
    ck_assert(!seen->status);
    seen->status = status;
    put_pairs(seen->head, sizeof seen->head, pairs, n);
}

static void
on_data(void *context, int32_t id, void *user, const void *bytes, size_t n)
{
    struct side *side = context;
    struct seen *seen = find(side, id);
    const unsigned char *at = bytes;
    (void)user;
    ck_assert(!seen->closed && !seen->ended);
    for (size_t i = 0; i < n && seen->nfirst < sizeof seen->first - 1; i++) {
        seen->first[seen->nfirst++] = (char)at[i];
    }
    if (side->patterned) {
        ck_assert_int_eq(memcmp(bytes, pattern + seen->body % 253, n), 0);
    }
    seen->body += n;
    if (side->cancel_on_data) {
        fy_wire_cancel(side->wire, id);
    } else if (side->grant_at_once) {
        ck_assert_int_eq(fy_wire_grant(side->wire, id, n), 0);
    }
    if (side->echo) {
        ck_assert_int_eq(fy_wire_send(side->wire, id, bytes, n), 0);
    }
}

static void
on_end(void *context, int32_t id, void *user,
       const struct fy_wire_pair *trailers, size_t n)
{
    struct side *side = context;
    struct seen *seen = find(side, id);
    (void)user;
    ck_assert(!seen->ended);
    seen->ended = true;
    put_pairs(seen->trailers, sizeof seen->trailers, trailers, n);
    if (side->echo) {
        const struct fy_wire_pair pairs[] = {{"ferry-exit", "0"}};
        ck_assert_int_eq(fy_wire_finish(side->wire, id, pairs, 1), 0);
    }
}

static void
send_rest(struct side *side, int32_t id)
{
    size_t room;
    while (side->to_send && side->to_send_on == id &&
           (room = fy_wire_room(side->wire, id)) > 0) {
        size_t n = room < 65536 ? room : 65536;
        n = n < side->to_send ? n : (size_t)side->to_send;
        struct seen *seen = find(side, id);
        ck_assert_int_eq(
            fy_wire_send(side->wire, id, pattern + seen->sent % 253, n), 0);
        seen->sent += n;
        side->to_send -= n;
        if (!side->to_send) {
            ck_assert_int_eq(fy_wire_finish(side->wire, id, NULL, 0), 0);
        }
    }
}

static void
on_ready(void *context, int32_t id, void *user)
{
    struct side *side = context;
    (void)user;
    find(side, id)->ready++;
    ck_assert_uint_gt(fy_wire_room(side->wire, id), 0);
    send_rest(side, id);
}

static void
on_closed(void *context, int32_t id, void *user, uint32_t error)
{
    struct seen *seen = find(context, id);
    (void)user;
    ck_assert(!seen->closed || seen == &((struct side *)context)->rest);
    seen->closed = true;
    seen->error = error;
}

static const struct fy_wire_events events = {
    on_request, on_response, on_data, on_end, on_ready, on_closed};

static void
connect_with(int c_in, int c_out, int s_in, int s_out)
{
    memset(&client, 0, sizeof client);
    memset(&server, 0, sizeof server);
    ck_assert_int_eq(fy_wire_new(FY_WIRE_CLIENT, c_in, c_out, &events, &client,
                                 &client.wire),
                     0);
    ck_assert_int_eq(fy_wire_new(FY_WIRE_SERVER, s_in, s_out, &events, &server,
                                 &server.wire),
                     0);
}

static void
connect_both(void)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    connect_with(fds[0], fds[0], fds[1], fds[1]);
}

static void
disconnect(void)
{
    fy_wire_free(client.wire);
    fy_wire_free(server.wire);
}

static bool
step(struct side *side)
{
    struct pollfd fds[2] = {
        {fy_wire_in_fd(side->wire), POLLIN, 0},
        {fy_wire_out_fd(side->wire),
         fy_wire_wants_write(side->wire) ? POLLOUT : 0, 0},
    };
    if (side->broken) {
        return false;
    }
    poll(fds, 2, 0);
    bool in = fds[0].revents & (POLLIN | POLLHUP),
         out = fds[1].revents & (POLLOUT | POLLERR);
    if (!in && !out) {
        return false;
    }
    if (fy_wire_io(side->wire, in, out)) {
        side->broken = true;
    }
    return true;
}

/* Until nothing moves any more. */
static void
run(void)
{
    for (int idle = 0; idle < 2;) {
        bool moved = step(&client);
        moved |= step(&server);
        idle = moved ? 0 : idle + 1;
    }
}

START_TEST(a_request_and_its_response)
{
    int32_t id = 0;
    connect_both();
    ck_assert_int_eq(fy_wire_request(client.wire, "/hello", true, NULL, &id),
                     0);
    ck_assert_int_eq(fy_wire_send(client.wire, id, "to you", 6), 0);
    ck_assert_int_eq(fy_wire_finish(client.wire, id, NULL, 0), 0);
    run();
    struct seen *s = find(&server, id), *c = find(&client, id);
    ck_assert_str_eq(s->method, "POST");
    ck_assert_str_eq(s->path, "/hello");
    ck_assert_str_eq(s->first, "to you");
    ck_assert(s->ended && !s->closed);

    const struct fy_wire_pair head[] = {{"ferry-stage", "1"}};
    const struct fy_wire_pair trailers[] = {{"ferry-exit", "3"},
                                            {"ferry-why", " a\nb \x7f "}};
    ck_assert_int_eq(fy_wire_respond(server.wire, id, 200, head, 1, true), 0);
    ck_assert_int_eq(fy_wire_send(server.wire, id, "and back", 8), 0);
    ck_assert_int_eq(fy_wire_finish(server.wire, id, trailers, 2), 0);
    run();
    ck_assert_int_eq(c->status, 200);
    ck_assert_str_eq(c->head, "ferry-stage=1;");
    ck_assert_uint_eq(c->body, 0); /* the window is closed */
    ck_assert(!c->ended);
    ck_assert_int_eq(fy_wire_grant(client.wire, id, 3), 0);
    run();
    ck_assert_str_eq(c->first, "and");
    ck_assert(!c->ended);
    ck_assert_int_eq(fy_wire_grant(client.wire, id, 100), 0);
    run();
    ck_assert_str_eq(c->first, "and back");
    ck_assert(c->ended && c->closed && s->closed);
    ck_assert_str_eq(c->trailers, "ferry-exit=3;ferry-why=a?b ?;");
    ck_assert_uint_eq(c->error, 0);
    ck_assert_uint_eq(s->error, 0);
    ck_assert_int_eq(fy_wire_send(server.wire, id, "x", 1), FY_ERR_NOENT);
    disconnect();
}
END_TEST

START_TEST(a_get_has_no_body)
{
    int32_t id = 0;
    connect_both();
    ck_assert_int_eq(
        fy_wire_request(client.wire, "/stage/7/stderr", false, NULL, &id), 0);
    ck_assert_int_eq(fy_wire_send(client.wire, id, "x", 1), FY_ERR_INVALID);
    run();
    struct seen *s = find(&server, id), *c = find(&client, id);
    ck_assert_str_eq(s->method, "GET");
    ck_assert_str_eq(s->path, "/stage/7/stderr");
    ck_assert(s->ended);
    const struct fy_wire_pair head[] = {{"ferry-reason", "busy"}};
    ck_assert_int_eq(fy_wire_respond(server.wire, id, 503, head, 1, false), 0);
    ck_assert_int_eq(fy_wire_respond(server.wire, id, 503, head, 1, false),
                     FY_ERR_INVALID);
    run();
    ck_assert_int_eq(c->status, 503);
    ck_assert_str_eq(c->head, "ferry-reason=busy;");
    ck_assert(c->ended && c->closed && s->closed);
    disconnect();
}
END_TEST

/* The first 65,535 bytes of a request need no grant; no more come without. */
START_TEST(a_request_brings_its_spec)
{
    int32_t id = 0;
    connect_both();
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", true, NULL, &id),
                     0);
    ck_assert_uint_eq(fy_wire_room(client.wire, id), 0);
    ck_assert_int_eq(fy_wire_send(client.wire, id, pattern, 200000), 0);
    run();
    ck_assert_uint_eq(find(&server, id)->body, FY_WIRE_REQUEST_WINDOW);
    ck_assert_uint_eq(fy_wire_room(client.wire, id), 0);
    ck_assert_int_eq(fy_wire_grant(server.wire, id, 200000), 0);
    run();
    ck_assert_uint_eq(find(&server, id)->body, 200000);
    ck_assert_uint_eq(fy_wire_room(client.wire, id), FY_WIRE_REQUEST_WINDOW);
    ck_assert_uint_gt(find(&client, id)->ready, 0);
    /* A refusal: what the client would still send is dropped. */
    ck_assert_int_eq(fy_wire_send(client.wire, id, pattern, 200000), 0);
    ck_assert_int_eq(fy_wire_respond(server.wire, id, 403, NULL, 0, false), 0);
    run();
    ck_assert_int_eq(find(&client, id)->status, 403);
    ck_assert(find(&client, id)->closed && find(&server, id)->closed);
    ck_assert_uint_eq(find(&client, id)->error, 0);
    disconnect();
}
END_TEST

static void
send_long(uint64_t bytes, size_t grant)
{
    int32_t id = 0;
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", true, NULL, &id),
                     0);
    client.grant_at_once = client.patterned = true;
    ck_assert_int_eq(fy_wire_grant(client.wire, id, grant), 0);
    run();
    ck_assert_int_eq(fy_wire_respond(server.wire, id, 200, NULL, 0, true), 0);
    server.to_send = bytes;
    server.to_send_on = id;
    run();
    struct seen *c = find(&client, id);
    ck_assert_uint_eq(c->body, bytes);
    ck_assert(c->ended && c->closed);
}

START_TEST(long_bodies_arrive_whole)
{
    static const size_t grants[] = {1, 999, 65536, 4 << 20};
    static const uint64_t bytes[] = {3000, 2000000, 64 << 20, 64 << 20};
    connect_both();
    send_long(bytes[_i], grants[_i]);
    struct fy_wire_counters counters;
    fy_wire_counters(client.wire, &counters);
    ck_assert_uint_ge(counters.received_bytes, bytes[_i]);
    ck_assert_uint_gt(counters.rtt_ns, 0);
    disconnect();
}
END_TEST

START_TEST(two_pipes_do_as_well)
{
    int up[2], down[2];
    signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(pipe(up), 0);
    ck_assert_int_eq(pipe(down), 0);
    connect_with(down[0], up[1], up[0], down[1]);
    send_long(32 << 20, 1 << 20);
    disconnect();
}
END_TEST

START_TEST(many_streams_share_a_connection)
{
    int32_t ids[40];
    connect_both();
    client.patterned = server.patterned = true;
    server.echo = server.grant_at_once = true;
    client.grant_at_once = true;
    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(
            fy_wire_request(client.wire, "/stage", true, NULL, &ids[i]), 0);
        ck_assert_int_eq(fy_wire_grant(client.wire, ids[i], 1000), 0);
        ck_assert_int_eq(fy_wire_send(client.wire, ids[i], pattern, 100000), 0);
        ck_assert_int_eq(fy_wire_finish(client.wire, ids[i], NULL, 0), 0);
    }
    run();
    for (int i = 0; i < 40; i++) {
        struct seen *c = find(&client, ids[i]), *s = find(&server, ids[i]);
        ck_assert_uint_eq(c->body, 100000);
        ck_assert(c->ended && c->closed && s->ended && s->closed);
        ck_assert_str_eq(c->trailers, "ferry-exit=0;");
    }
    disconnect();
}
END_TEST

START_TEST(either_side_cancels)
{
    int32_t id = 0, other = 0;
    connect_both();
    client.cancel_on_data = true;
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", true, NULL, &id),
                     0);
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", true, NULL, &other),
                     0);
    ck_assert_int_eq(fy_wire_grant(client.wire, id, 1 << 20), 0);
    run();
    ck_assert_int_eq(fy_wire_respond(server.wire, id, 200, NULL, 0, true), 0);
    server.to_send = 16 << 20; /* `yes | head' */
    server.to_send_on = id;
    run();
    ck_assert(find(&client, id)->closed && find(&server, id)->closed);
    ck_assert_uint_eq(find(&client, id)->error, 8);
    ck_assert_uint_eq(find(&server, id)->error, 8);
    ck_assert(!find(&client, id)->ended);
    ck_assert(!find(&client, other)->closed);
    fy_wire_cancel(server.wire, other);
    ck_assert_int_eq(fy_wire_respond(server.wire, other, 200, NULL, 0, true),
                     FY_ERR_NOENT);
    run();
    ck_assert(find(&client, other)->closed && find(&server, other)->closed);
    ck_assert_uint_eq(find(&client, other)->error, 8);
    /* Before anything was written of it. */
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", true, NULL, &id),
                     0);
    fy_wire_cancel(client.wire, id);
    run();
    ck_assert(find(&client, id)->closed);
    ck_assert(!client.broken && !server.broken);
    disconnect();
}
END_TEST

START_TEST(a_peer_that_goes_ends_it)
{
    int32_t id = 0;
    connect_both();
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", true, NULL, &id),
                     0);
    run();
    fy_wire_free(server.wire);
    ck_assert(find(&server, id)->closed);
    ck_assert_uint_eq(find(&server, id)->error, 10);
    ck_assert_int_eq(fy_wire_io(client.wire, true, true), FY_ERR_IO);
    ck_assert_int_eq(fy_wire_io(client.wire, true, true), FY_ERR_IO);
    ck_assert_int_eq(fy_wire_send(client.wire, id, "x", 1), FY_ERR_IO);
    ck_assert(!find(&client, id)->closed);
    fy_wire_free(client.wire);
    ck_assert(find(&client, id)->closed);
}
END_TEST

START_TEST(limits_hold)
{
    int32_t id = 0;
    size_t most = 16 << 20;
    char *block = calloc(1, most);
    ck_assert_ptr_nonnull(block);
    connect_both();
    run();
    ck_assert_int_eq(fy_wire_request(client.wire, "hello", true, NULL, &id),
                     FY_ERR_INVALID);
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", true, NULL, &id),
                     0);
    ck_assert_int_eq(fy_wire_send(client.wire, id, block, most), 0);
    ck_assert_int_eq(fy_wire_send(client.wire, id, block, 1), FY_ERR_OVERFLOW);
    ck_assert_int_eq(fy_wire_grant(client.wire, id, FY_WIRE_MAX_GRANT), 0);
    ck_assert_int_eq(fy_wire_grant(client.wire, id, 1), FY_ERR_OVERFLOW);
    run();
    const struct fy_wire_pair bad = {"Ferry", "x"}, good = {"ferry", "x"};
    ck_assert_int_eq(fy_wire_respond(server.wire, id, 200, &bad, 1, true),
                     FY_ERR_INVALID);
    ck_assert_int_eq(fy_wire_respond(server.wire, id, 200, &good, 1, true), 0);
    ck_assert_int_eq(fy_wire_finish(client.wire, id, &good, 1), FY_ERR_INVALID);
    ck_assert_int_eq(fy_wire_finish(client.wire, 99, NULL, 0), FY_ERR_NOENT);
    int status = 0, n = 1;
    while (!(status = fy_wire_request(client.wire, "/a", false, NULL, &id))) {
        n++;
    }
    ck_assert_int_eq(status, FY_ERR_BUSY);
    ck_assert_int_eq(n, FY_WIRE_MAX_STREAMS);
    disconnect();
    free(block);
}
END_TEST

/* The window is used up by the body, and opens no more. The body's last frame may be
 * made already, and wait for the link, which is full, when the end is told. */
START_TEST(no_end_needs_a_window)
{
    const struct fy_wire_pair trailers[] = {{"ferry-exit", "0"}};
    const size_t part = FY_WIRE_FRAME_BYTES,
                 bytes = (size_t)(_i / 2 + 1) * part;
    int32_t id = 0;
    connect_both();
    client.patterned = true;
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", true, NULL, &id),
                     0);
    ck_assert_int_eq(fy_wire_grant(client.wire, id, bytes), 0);
    run();
    ck_assert_int_eq(fy_wire_respond(server.wire, id, 200, NULL, 0, true), 0);
    for (size_t sent = 0; sent < bytes; sent += part) {
        ck_assert_int_eq(
            fy_wire_send(server.wire, id, pattern + sent % 253, part), 0);
    }
    while (step(&server)) {
    }
    ck_assert_int_eq(fy_wire_finish(server.wire, id, trailers, _i % 2), 0);
    run();
    struct seen *c = find(&client, id);
    ck_assert_uint_eq(c->body, bytes);
    ck_assert(c->ended && c->closed && find(&server, id)->closed);
    ck_assert_str_eq(c->trailers, _i % 2 ? "ferry-exit=0;" : "");
    disconnect();
}
END_TEST

/* A signal does not wait behind a long body. */
START_TEST(small_requests_go_first)
{
    int32_t id = 0, other = 0;
    static char block[1 << 20];
    connect_both();
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", true, NULL, &id),
                     0);
    run();
    ck_assert_int_eq(fy_wire_grant(server.wire, id, 32 << 20), 0);
    run();
    for (int i = 0; i < 16; i++) {
        ck_assert_int_eq(fy_wire_send(client.wire, id, block, sizeof block), 0);
    }
    (void)step(&client);
    (void)step(&server);
    ck_assert_int_eq(
        fy_wire_request(client.wire, "/stage/1/signal?2", false, NULL, &other),
        0);
    for (int i = 0; i < 1000 && !find(&server, other)->ended; i++) {
        (void)step(&client);
        (void)step(&server);
    }
    ck_assert(find(&server, other)->ended);
    ck_assert_uint_lt(find(&server, id)->body, 4 << 20);
    run();
    ck_assert_uint_eq(find(&server, id)->body, 16 << 20);
    disconnect();
}
END_TEST

/* A stream whose head is too large is reset; its neighbours are not. */
START_TEST(large_heads_harm_nobody_else)
{
    int32_t ids[5] = {0}, neighbour = 0;
    static char values[5][FY_WIRE_MAX_VALUE_BYTES + 2000];
    struct fy_wire_pair pairs[FY_WIRE_MAX_PAIRS];
    connect_both();
    ck_assert_int_eq(
        fy_wire_request(client.wire, "/stage", false, NULL, &neighbour), 0);
    ck_assert_int_eq(
        fy_wire_request(client.wire, "/stage", false, NULL, &ids[0]), 0);
    run();
    for (int i = 0; i < 5; i++) {
        memset(values[i], 'a' + i, sizeof values[i] - 1);
        pairs[i] = (struct fy_wire_pair){"x", values[i]};
    }
    /* One long value is cut; more than fit together are not sent at all. */
    ck_assert_int_eq(fy_wire_respond(server.wire, ids[0], 200, pairs, 5, true),
                     FY_ERR_OVERFLOW);
    ck_assert_int_eq(fy_wire_respond(server.wire, ids[0], 200, pairs, 1, true),
                     0);
    ck_assert_int_eq(fy_wire_finish(server.wire, ids[0], pairs, 5),
                     FY_ERR_OVERFLOW);
    ck_assert_int_eq(
        fy_wire_finish(server.wire, ids[0], pairs, FY_WIRE_MAX_PAIRS + 1),
        FY_ERR_INVALID);
    run();
    ck_assert_int_eq(find(&client, ids[0])->status, 200);
    fy_wire_cancel(client.wire, ids[0]);
    run();
    ck_assert(find(&server, ids[0])->closed &&
              !find(&server, neighbour)->closed);
    ck_assert_int_eq(
        fy_wire_respond(server.wire, neighbour, 404, NULL, 0, false), 0);
    run();
    ck_assert_int_eq(find(&client, neighbour)->status, 404);
    ck_assert(!client.broken && !server.broken);
    disconnect();
}
END_TEST

START_TEST(a_silent_peer_is_noticed)
{
    int fds[2];
    struct fy_wire_counters counters;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    memset(&client, 0, sizeof client);
    ck_assert_int_eq(fy_wire_new(FY_WIRE_CLIENT, fds[0], fds[0], &events,
                                 &client, &client.wire),
                     0);
    ck_assert_int_eq(fy_wire_ping(client.wire), 0);
    ck_assert_int_eq(fy_wire_io(client.wire, true, true), 0);
    usleep(2000);
    fy_wire_counters(client.wire, &counters);
    ck_assert_uint_eq(counters.rtt_ns, 0);
    ck_assert_uint_gt(counters.sent_bytes, 0);
    ck_assert_uint_eq(counters.received_bytes, 0);
    fy_wire_free(client.wire);
    close(fds[1]);
}
END_TEST

/* What the peer takes in a second is known where there was more to send. */
START_TEST(the_rate_of_the_link_is_seen)
{
    struct fy_wire_counters counters;
    char block[4096];
    int32_t id = 0;
    int a[2], b[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    connect_with(a[0], a[0], b[0], b[0]);
    client.grant_at_once = true;
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", false, NULL, &id),
                     0);
    ck_assert_int_eq(fy_wire_grant(client.wire, id, 64 << 10), 0);
    server.to_send = 1 << 20;
    server.to_send_on = id;
    bool answered = false;
    for (int i = 0; i < 2000 && !find(&client, id)->ended; i++) {
        (void)step(&client);
        (void)step(&server);
        for (int way = 0; way < 2; way++) { /* at most 4 MiB/s */
            ssize_t n =
                recv(way ? a[1] : b[1], block, sizeof block, MSG_DONTWAIT);
            ck_assert(n <= 0 ||
                      send(way ? b[1] : a[1], block, (size_t)n, 0) == n);
        }
        if (!answered && find(&server, id)->method[0]) {
            answered = true;
            ck_assert_int_eq(
                fy_wire_respond(server.wire, id, 200, NULL, 0, true), 0);
        }
        usleep(1000);
    }
    ck_assert_uint_eq(find(&client, id)->body, 1 << 20);
    fy_wire_counters(server.wire, &counters);
    ck_assert_uint_gt(counters.link_rate, 10 << 10);
    ck_assert_uint_lt(counters.link_rate, 16 << 20);
    disconnect();
    close(a[1]);
    close(b[1]);
}
END_TEST

START_TEST(nonsense_ends_the_connection)
{
    static const char *const texts[] = {
        "GET / HTTP/1.1\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        "",
    };
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    memset(&server, 0, sizeof server);
    ck_assert_int_eq(fy_wire_new(FY_WIRE_SERVER, fds[0], fds[0], &events,
                                 &server, &server.wire),
                     0);
    ck_assert_int_ge(write(fds[1], texts[_i], strlen(texts[_i])), 0);
    if (_i == 2) {
        close(fds[1]);
    }
    ck_assert_int_eq(fy_wire_io(server.wire, true, true), FY_ERR_IO);
    fy_wire_free(server.wire);
    if (_i != 2) {
        close(fds[1]);
    }
}
END_TEST

int
main(void)
{
    for (size_t i = 0; i < sizeof pattern; i++) {
        pattern[i] = (unsigned char)(i % 253);
    }
    Suite *suite = suite_create("wire");
    TCase *tcase = tcase_create("wire");
    tcase_add_test(tcase, a_request_and_its_response);
    tcase_add_test(tcase, a_get_has_no_body);
    tcase_add_test(tcase, a_request_brings_its_spec);
    tcase_add_loop_test(tcase, long_bodies_arrive_whole, 0, 4);
    tcase_add_test(tcase, two_pipes_do_as_well);
    tcase_add_test(tcase, many_streams_share_a_connection);
    tcase_add_test(tcase, either_side_cancels);
    tcase_add_test(tcase, a_peer_that_goes_ends_it);
    tcase_add_test(tcase, limits_hold);
    tcase_add_loop_test(tcase, no_end_needs_a_window, 0, 24);
    tcase_add_test(tcase, small_requests_go_first);
    tcase_add_test(tcase, large_heads_harm_nobody_else);
    tcase_add_test(tcase, a_silent_peer_is_noticed);
    tcase_add_test(tcase, the_rate_of_the_link_is_seen);
    tcase_add_loop_test(tcase, nonsense_ends_the_connection, 0, 3);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
