/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/wire/wire_receive.c by a peer that writes frames by hand (RFC 9113, heads as
 * in RFC 7541 without a table): heads that no wire sends, PINGs, windows.
 * Long because each test needs the peer that stands here first.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proxy/wire/wire.h"
#include "tests/unit/runner.h"

enum {
    DATA,
    HEADERS,
    RST_STREAM = 3,
    SETTINGS,
    PING = 6,
    WINDOW_UPDATE = 8,
    CONTINUATION,
};
enum {
    ACK = 1,
    END_STREAM = 1,
    END_HEADERS = 4,
    REFUSED_STREAM = 7,
    MAX_FRAMES = 64,
};

/* What the wire told its owner, a word each. */
static char told[4096];
static struct fy_wire *wire;
static int peer;

/* What the peer received. */
static struct frame {
    unsigned type, flags, id, n;
    unsigned char bytes[64]; /* the first of them */
} frames[MAX_FRAMES];
static unsigned nframes;

static void
tell(const char *word, int number)
{
    size_t used = strlen(told);
    (void)snprintf(told + used, sizeof told - used, "%s%s %d", used ? ", " : "",
                   word, number);
}

static void
tell_pairs(const struct fy_wire_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n && i < 4; i++) {
        strcat(strcat(strcat(told, " "), pairs[i].name), "=");
        strncat(told, pairs[i].value, 8);
    }
    if (n >= 4) {
        tell("pairs", (int)n);
    }
}

static void
on_request(void *context, int32_t id, const char *method, const char *path,
           void **out_user)
{
    (void)context;
    (void)out_user;
    tell(method, id);
    strcat(strcat(told, " "), path);
}

static void
on_response(void *context, int32_t id, void *user, int status,
            const struct fy_wire_pair *pairs, size_t n)
{
    (void)context;
    (void)user;
    (void)id;
    tell("status", status);
    tell_pairs(pairs, n);
}

static void
on_data(void *context, int32_t id, void *user, const void *bytes, size_t n)
{
    (void)context;
    (void)user;
    (void)id;
    (void)bytes;
    tell("data", (int)n);
}

static void
on_end(void *context, int32_t id, void *user, const struct fy_wire_pair *pairs,
       size_t n)
{
    (void)context;
    (void)user;
    tell("end", id);
    tell_pairs(pairs, n);
}

static void
on_ready(void *context, int32_t id, void *user)
{
    (void)context;
    (void)user;
    tell("ready", id);
}

static void
on_closed(void *context, int32_t id, void *user, uint32_t error)
{
    (void)context;
    (void)user;
    (void)id;
    tell("closed", (int)error);
}

/* ---- the peer ---- */

static void
send_frame(unsigned type, unsigned flags, unsigned id, const void *bytes,
           size_t n)
{
    unsigned char head[9] = {(unsigned char)(n >> 16),
                             (unsigned char)(n >> 8),
                             (unsigned char)n,
                             (unsigned char)type,
                             (unsigned char)flags,
                             0,
                             0,
                             (unsigned char)(id >> 8),
                             (unsigned char)id};
    ck_assert_int_eq(send(peer, head, sizeof head, 0), sizeof head);
    ck_assert_int_eq(send(peer, bytes, n, 0), (ssize_t)n);
}

/* Lets the wire work, and takes what it sends. */
static void
work(void)
{
    static unsigned char bytes[1 << 20];
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(fy_wire_io(wire, true, true), FY_OK);
    }
    ssize_t got = recv(peer, bytes, sizeof bytes, MSG_DONTWAIT);
    size_t n = got > 0 ? (size_t)got : 0, at = 0;
    if (n >= 24 && memcmp(bytes, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24) == 0) {
        at = 24;
    }
    for (nframes = 0; at < n && nframes < MAX_FRAMES; nframes++) {
        const unsigned char *head = bytes + at;
        struct frame *frame = &frames[nframes];
        *frame = (struct frame){.type = head[3],
                                .flags = head[4],
                                .id = (unsigned)head[7] << 8 | head[8],
                                .n = (unsigned)head[0] << 16 |
                                     (unsigned)head[1] << 8 | head[2]};
        size_t some =
            frame->n < sizeof frame->bytes ? frame->n : sizeof frame->bytes;
        memcpy(frame->bytes, head + 9, some);
        at += 9 + frame->n;
    }
    ck_assert_uint_eq(at, n); /* whole frames */
}

/* The first frame of a kind among those that came last; NULL: none came. */
static const struct frame *
came(unsigned type, unsigned flags, unsigned id)
{
    for (unsigned i = 0; i < nframes; i++) {
        if (frames[i].type == type && (frames[i].flags & flags) == flags &&
            frames[i].id == id) {
            return &frames[i];
        }
    }
    return NULL;
}

/* RST_STREAM's code; -1: the stream was not reset. */
static int
reset(unsigned id)
{
    const struct frame *frame = came(RST_STREAM, 0, id);
    return frame ? frame->bytes[3] : -1;
}

/* A head, as many frames as it takes. */
static unsigned char block[80000];
static size_t nblock;

static void
add_number(size_t number)
{
    if (number < 127) {
        block[nblock++] = (unsigned char)number;
        return;
    }
    block[nblock++] = 127;
    for (number -= 127; number >= 128; number /= 128) {
        block[nblock++] = (unsigned char)(128 | number % 128);
    }
    block[nblock++] = (unsigned char)number;
}

static void
add_field(const char *name, const char *value, size_t n)
{
    block[nblock++] = 0; /* literal, without indexing */
    add_number(strlen(name));
    memcpy(block + nblock, name, strlen(name));
    nblock += strlen(name);
    add_number(n);
    if (value) {
        memcpy(block + nblock, value, n);
    } else {
        memset(block + nblock, 'v', n);
    }
    nblock += n;
}

static void
add(const char *name, const char *value)
{
    add_field(name, value, strlen(value));
}

static void
send_head(unsigned id, bool last)
{
    size_t n = nblock < 16000 ? nblock : 16000;
    send_frame(HEADERS,
               (last ? END_STREAM : 0) | (n == nblock ? END_HEADERS : 0), id,
               block, n);
    for (size_t at = n; at < nblock; at += n) {
        n = nblock - at < 16000 ? nblock - at : 16000;
        send_frame(CONTINUATION, at + n == nblock ? END_HEADERS : 0, id,
                   block + at, n);
    }
    nblock = 0;
}

static void
ask(unsigned id, const char *method, bool last)
{
    add(":method", method);
    add(":scheme", "http");
    add(":authority", "x");
    add(":path", "/p");
    send_head(id, last);
}

static void
answer(unsigned id, const char *status, bool last)
{
    add(":status", status);
    send_head(id, last);
}

static bool
is_told(const char *expected)
{
    work();
    bool same = strcmp(told, expected) == 0;
    if (!same) {
        fprintf(stderr, "told: %s\nnot:  %s\n", told, expected);
    }
    *told = '\0';
    return same;
}

static void
begin(enum fy_wire_role role)
{
    static const struct fy_wire_events events = {
        on_request, on_response, on_data, on_end, on_ready, on_closed};
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ck_assert_int_eq(fy_wire_new(role, fds[0], fds[0], &events, NULL, &wire),
                     FY_OK);
    peer = fds[1];
    *told = '\0';
    nblock = 0;
    if (role == FY_WIRE_SERVER) {
        ck_assert_int_eq(send(peer, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, 0),
                         24);
    }
    send_frame(SETTINGS, 0, 0, "", 0);
    work();
}

static void
end(void)
{
    fy_wire_free(wire);
    close(peer);
}

/* ---- a server's ---- */

START_TEST(methods_that_are_refused)
{
    static const char *const methods[] = {"PUT", "HEAD", "POSTS", "GE", "post"};
    begin(FY_WIRE_SERVER);
    for (unsigned i = 0; i < 5; i++) {
        ask(1 + 2 * i, methods[i], true);
        work();
        ck_assert_int_eq(reset(1 + 2 * i), REFUSED_STREAM);
        ck_assert_ptr_null(strstr(told, "/p"));
    }
    *told = '\0';
    ask(11, "GET", true);
    ck_assert(is_told("GET 11 /p, end 11"));
    ask(13, "POST", false);
    ck_assert(is_told("POST 13 /p"));
    /* CONNECT has no path. */
    add(":method", "CONNECT");
    add(":authority", "x");
    send_head(15, false);
    work();
    ck_assert_int_eq(reset(15), REFUSED_STREAM);
    ck_assert_ptr_null(strstr(told, "15"));
    end();
}
END_TEST

START_TEST(a_body_and_its_trailers)
{
    begin(FY_WIRE_SERVER);
    add("one", "1");
    add("two", "2");
    nblock = 0;
    ask(1, "POST", false);
    send_frame(DATA, 0, 1, "abc", 3);
    ck_assert(is_told("POST 1 /p, data 3"));
    /* What came counts against what was granted. */
    ck_assert_int_eq(fy_wire_grant(wire, 1, FY_WIRE_MAX_GRANT), FY_OK);
    ck_assert_int_eq(fy_wire_grant(wire, 1, 1), FY_ERR_OVERFLOW);
    send_frame(DATA, 0, 1, "abc", 3);
    ck_assert(is_told("data 3"));
    ck_assert_int_eq(fy_wire_grant(wire, 1, 4), FY_ERR_OVERFLOW);
    ck_assert_int_eq(fy_wire_grant(wire, 1, 3), FY_OK);
    add("end", "yes");
    send_head(1, true);
    ck_assert(is_told("end 1 end=yes"));
    ask(3, "POST", false);
    send_frame(DATA, END_STREAM, 3, "d", 1);
    ck_assert(is_told("POST 3 /p, data 1, end 3"));
    /* A server's answer may still follow. */
    ck_assert_int_eq(fy_wire_respond(wire, 3, 200, NULL, 0, false), FY_OK);
    work();
    ck_assert_ptr_nonnull(came(HEADERS, END_STREAM, 3));
    ck_assert_int_eq(reset(3), -1);
    end();
}
END_TEST

/* As many fields as fit, and one more; as many bytes, and one more. */
START_TEST(heads_have_bounds)
{
    begin(FY_WIRE_SERVER);
    for (unsigned more = 0; more < 2; more++) {
        unsigned id = 1 + 2 * more;
        ask(id, "POST", false);
        work();
        *told = '\0';
        for (unsigned i = 0; i < FY_WIRE_MAX_PAIRS + more; i++) {
            add("x", "y");
        }
        send_head(id, true);
        work();
        ck_assert((strstr(told, "pairs 32") != NULL) == !more);
        ck_assert((reset(id) >= 0) == more);
    }
    for (unsigned more = 0; more < 2; more++) {
        unsigned id = 5 + 2 * more;
        ask(id, "POST", false);
        work();
        *told = '\0';
        /* Each name and value is followed by a NUL; "z" is empty. */
        add_field("x", NULL, 16000);
        add_field("y", NULL, FY_WIRE_MAX_HEAD_BYTES - 16000 - 6 - 3 + more);
        add("z", "");
        send_head(id, true);
        work();
        ck_assert((strstr(told, " z=") != NULL) == !more);
        ck_assert((reset(id) >= 0) == more);
    }
    *told = '\0';
    ask(9, "GET", true);
    ck_assert(is_told("GET 9 /p, end 9"));
    end();
}
END_TEST

/* ---- a client's ---- */

static void
request(bool body, int32_t expected)
{
    int32_t id = 0;
    ck_assert_int_eq(fy_wire_request(wire, "/p", body, NULL, &id), FY_OK);
    ck_assert_int_eq(id, expected);
    work();
}

START_TEST(answers_before_the_last_are_passed_over)
{
    begin(FY_WIRE_CLIENT);
    request(false, 1);
    answer(1, "100", false);
    answer(1, "103", false);
    answer(1, "199", false);
    add(":status", "200");
    add("one", "1");
    add("two", "2");
    send_head(1, false);
    ck_assert(is_told("status 200 one=1 two=2"));
    add("end", "yes");
    send_head(1, true);
    ck_assert(is_told("end 1 end=yes, closed 0"));
    request(false, 3);
    answer(3, "503", true);
    ck_assert(is_told("status 503, end 3, closed 0"));
    request(false, 5);
    fy_wire_cancel(wire, 5);
    answer(5, "200", true);
    ck_assert(is_told("closed 8"));
    end();
}
END_TEST

/* A body that nobody reads any more is not sent on. */
START_TEST(what_is_left_of_a_body_is_dropped)
{
    static char body[100000];
    begin(FY_WIRE_CLIENT);
    /* It goes on. */
    request(true, 1);
    answer(1, "403", true);
    ck_assert(is_told("status 403, end 1, closed 0"));
    work();
    ck_assert_int_eq(fy_wire_send(wire, 1, "x", 1), FY_ERR_NOENT);
    /* It has ended and went. */
    request(true, 3);
    ck_assert_int_eq(fy_wire_finish(wire, 3, NULL, 0), FY_OK);
    work();
    ck_assert_ptr_nonnull(came(DATA, END_STREAM, 3));
    answer(3, "403", true);
    work();
    ck_assert_int_eq(reset(3), -1);
    /* It has ended, and waits for the window. */
    request(true, 5);
    ck_assert_int_eq(fy_wire_send(wire, 5, body, sizeof body), FY_OK);
    ck_assert_int_eq(fy_wire_finish(wire, 5, NULL, 0), FY_OK);
    work();
    ck_assert_ptr_null(came(DATA, END_STREAM, 5));
    answer(5, "403", true);
    work();
    ck_assert_int_eq(reset(5), 0);
    ck_assert_ptr_null(came(DATA, 0, 5));
    end();
}
END_TEST

/* Nothing but the server's grant of a stream lets its client send. */
START_TEST(windows_open_by_grants)
{
    begin(FY_WIRE_CLIENT);
    request(true, 1);
    ck_assert_int_eq(fy_wire_grant(wire, 1, 100), FY_OK);
    work();
    answer(1, "200", false);
    send_frame(DATA, 0, 1, "abc", 3);
    send_frame(WINDOW_UPDATE, 0, 0, "\0\0\0\x05", 4);
    ck_assert(is_told("status 200, data 3"));
    ck_assert_uint_eq(fy_wire_room(wire, 1), 0);
    send_frame(WINDOW_UPDATE, 0, 1, "\0\0\0\x05", 4);
    ck_assert(is_told("ready 1"));
    ck_assert_uint_eq(fy_wire_room(wire, 1), FY_WIRE_REQUEST_WINDOW + 5);
    /* The connection's window holds up all streams, and opens for them. */
    static char body[FY_WIRE_REQUEST_WINDOW + 5];
    ck_assert_int_eq(fy_wire_send(wire, 1, body, sizeof body), FY_OK);
    send_frame(WINDOW_UPDATE, 0, 1, "\0\0\0\x07", 4);
    work();
    ck_assert_uint_eq(fy_wire_room(wire, 1), 0);
    *told = '\0';
    send_frame(WINDOW_UPDATE, 0, 0, "\0\0\0\x07", 4);
    ck_assert(is_told("ready 1"));
    ck_assert_uint_eq(fy_wire_room(wire, 1), 7);
    end();
}
END_TEST

/* ---- round trips ---- */

static void
pause_ms(long ms)
{
    const struct timespec pause = {0, ms * 1000000};
    nanosleep(&pause, NULL);
}

static uint64_t
round_trip_ns(void)
{
    struct fy_wire_counters counters;
    fy_wire_counters(wire, &counters);
    return counters.rtt_ns;
}

/* Answers the PING that came. */
static void
answer_ping(long ms)
{
    const struct frame *ping = came(PING, 0, 0);
    ck_assert_ptr_nonnull(ping);
    ck_assert_uint_eq(ping->flags, 0);
    pause_ms(ms);
    send_frame(PING, ACK, 0, ping->bytes, 8);
    work();
}

START_TEST(the_least_of_eight_round_trips)
{
    begin(FY_WIRE_CLIENT);
    ck_assert_uint_eq(round_trip_ns(), 0);
    /* What answers no PING of it. */
    struct frame first = *came(PING, 0, 0);
    send_frame(PING, ACK, 0, "nothing.", 8);
    work();
    ck_assert_uint_eq(round_trip_ns(), 0);
    ck_assert_ptr_null(came(PING, 0, 0));
    frames[0] = first;
    nframes = 1;
    answer_ping(20);
    ck_assert_uint_ge(round_trip_ns(), 20000000);
    ck_assert_uint_lt(round_trip_ns(), UINT64_C(100000000000));
    /* It asks four times by itself, whatever is announced again. */
    answer_ping(0);
    uint64_t least = round_trip_ns();
    ck_assert_uint_gt(least, 0);
    answer_ping(2);
    ck_assert_uint_le(round_trip_ns(), least);
    answer_ping(2);
    ck_assert_ptr_null(came(PING, 0, 0));
    send_frame(SETTINGS, 0, 0, "", 0);
    work();
    ck_assert_ptr_null(came(PING, 0, 0));
    send_frame(PING, ACK, 0, first.bytes, 8); /* twice */
    work();
    ck_assert_uint_le(round_trip_ns(), least);
    /* The quick one is the second of them, and forgotten with the tenth. */
    for (unsigned i = 5; i <= 10; i++) {
        ck_assert_uint_le(round_trip_ns(), least);
        ck_assert_int_eq(fy_wire_ping(wire), FY_OK);
        work();
        answer_ping(2);
        ck_assert_ptr_null(came(PING, 0, 0));
    }
    ck_assert_uint_ge(round_trip_ns(), 2000000);
    end();
}
END_TEST

/* A server pings when it is told to only. */
START_TEST(a_server_pings_when_told)
{
    begin(FY_WIRE_SERVER);
    ck_assert_ptr_null(came(PING, 0, 0));
    ck_assert_int_eq(fy_wire_ping(wire), FY_OK);
    work();
    answer_ping(0);
    ck_assert_uint_gt(round_trip_ns(), 0);
    ck_assert_ptr_null(came(PING, 0, 0));
    end();
}
END_TEST

/* The client's first PING follows the server's settings, not their receipt. */
START_TEST(the_first_ping_follows_the_settings)
{
    begin(FY_WIRE_CLIENT);
    ck_assert_ptr_nonnull(came(PING, 0, 0));
    end();
    int fds[2];
    static const struct fy_wire_events events = {0};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ck_assert_int_eq(
        fy_wire_new(FY_WIRE_CLIENT, fds[0], fds[0], &events, NULL, &wire),
        FY_OK);
    peer = fds[1];
    work();
    ck_assert_ptr_null(came(PING, 0, 0));
    /* An owner that wants to know of nothing. */
    send_frame(SETTINGS, 0, 0, "", 0);
    request(true, 1);
    answer(1, "200", false);
    ck_assert_int_eq(fy_wire_grant(wire, 1, 100), FY_OK);
    work();
    send_frame(DATA, END_STREAM, 1, "abc", 3);
    work();
    ck_assert_int_eq(fy_wire_send(wire, 1, "x", 1), FY_ERR_NOENT);
    end();
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("wire_receive");
    TCase *tcase = tcase_create("wire_receive");
    tcase_add_test(tcase, methods_that_are_refused);
    tcase_add_test(tcase, a_body_and_its_trailers);
    tcase_add_test(tcase, heads_have_bounds);
    tcase_add_test(tcase, answers_before_the_last_are_passed_over);
    tcase_add_test(tcase, what_is_left_of_a_body_is_dropped);
    tcase_add_test(tcase, windows_open_by_grants);
    tcase_add_test(tcase, the_least_of_eight_round_trips);
    tcase_add_test(tcase, a_server_pings_when_told);
    tcase_add_test(tcase, the_first_ping_follows_the_settings);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
