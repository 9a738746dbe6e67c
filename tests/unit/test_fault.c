/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/badlink/fault.c: a relay does to the bytes what its text says, and two wires
 * with a relay between them either get everything through or notice.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proxy/wire/wire.h"
#include "tests/badlink/fault.h"
#include "tests/patience.h"
#include "tests/unit/runner.h"

#define PATIENT_MS ((int)patient(60000)) /* for what comes at once */

static int near_fd, far_fd;

static const char *fault;
static int inner, outer;
static pthread_t relay;

static void *
run_relay(void *unused)
{
    char why[200];
    struct fy_buffer buffer;
    (void)unused;
    fy_buffer_start(&buffer, why, sizeof why);
    ck_assert_msg(fy_fault_run(fault, inner, outer, &buffer) == 0, "%s", why);
    return NULL;
}

static void
start(const char *words)
{
    int pair[2];
    fault = words;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    inner = pair[0];
    far_fd = pair[1];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair),
                     0);
    outer = pair[0];
    near_fd = pair[1];
    ck_assert_int_eq(pthread_create(&relay, NULL, run_relay, NULL), 0);
    ck_assert_int_eq(pthread_detach(relay), 0);
}

static void
stop(void)
{
    char rest[4096];
    close(near_fd);
    while (read(far_fd, rest, sizeof rest) > 0) {
    }
    close(far_fd);
}

static double
seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Up to n bytes, until the end or `patience' ms without any. */
static size_t
take(int fd, void *to, size_t n, int patience, bool *out_ended)
{
    size_t got = 0;
    *out_ended = false;
    while (got < n) {
        struct pollfd row = {fd, POLLIN, 0};
        if (poll(&row, 1, patience) != 1) {
            break;
        }
        ssize_t k = read(fd, (char *)to + got, n - got);
        if (k < 0 && errno == EAGAIN) {
            continue;
        }
        if (k <= 0) {
            *out_ended = true;
            break;
        }
        got += (size_t)k;
    }
    return got;
}

static void
put(int fd, const void *bytes, size_t n)
{
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
}

static char text[5000], back[6000];
static bool ended;

START_TEST(texts_are_checked)
{
    static const char *const good[] = {
        "cut=0",
        "up,cut=12345",
        "stall=1000,for=500ms,corrupt=777",
        "both,slow=1MiB/s,delay=5ms,chunk=1",
        "seed=7,cut=100..20KiB,down,cut=0",
    };
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "fault: unknown word at \"\""},
        {"cut", "fault: unknown word at \"cut\""},
        {"cut=", "fault: no number at \"\""},
        {"cut=-1", "fault: no number at \"-1\""},
        {"cut=5 ", "fault: no comma at \" \""},
        {"cut=5,", "fault: unknown word at \"\""},
        {"cut=9..5", "fault: an empty range at \"\""},
        {"cut=99999999999999999999", "fault: too large at "
                                     "\"99999999999999999999\""},
        {"cut=9999999999GiB", "fault: too large at \"\""},
        {"delay=5", "fault: no unit at \"\""},
        {"for=1s", "fault: no stall before at \"1s\""},
        {"stall=1,up,for=1s", "fault: no stall before at \"1s\""},
        {"slow=0", "fault: nothing would pass at \"\""},
        {"chunk=0", "fault: nothing would pass at \"\""},
        {"cut=1,cut=1,cut=1,cut=1,cut=1,cut=1,cut=1,cut=1,cut=1,cut=1,cut=1,"
         "cut=1,cut=1,cut=1,cut=1,cut=1,cut=1",
         "fault: too many faults at \"\""},
    };
    char why[200];
    struct fy_buffer buffer;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fy_buffer_start(&buffer, why, sizeof why);
        ck_assert_msg(!fy_fault_check(good[i], &buffer), "%s: %s", good[i],
                      why);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_buffer_start(&buffer, why, sizeof why);
        ck_assert_int_eq(fy_fault_check(bad[i].text, &buffer), FY_ERR_INVALID);
        ck_assert_str_eq(why, bad[i].why);
    }
    ck_assert_int_eq(fy_fault_run("x", -1, -1, NULL), FY_ERR_INVALID);
}
END_TEST

START_TEST(a_cut_ends_both_directions)
{
    start("cut=1000");
    put(far_fd, text, sizeof text);
    ck_assert_uint_eq(take(near_fd, back, sizeof back, PATIENT_MS, &ended),
                      1000);
    ck_assert(ended);
    ck_assert_mem_eq(back, text, 1000);
    (void)take(far_fd, back, sizeof back, PATIENT_MS, &ended);
    ck_assert(ended);
    stop();
    start("up,cut=1000");
    put(far_fd, text, sizeof text); /* the other direction is whole */
    ck_assert_uint_eq(take(near_fd, back, sizeof text, PATIENT_MS, &ended),
                      5000);
    put(near_fd, text, sizeof text);
    ck_assert_uint_eq(take(far_fd, back, sizeof back, PATIENT_MS, &ended),
                      1000);
    ck_assert(ended);
    stop();
}
END_TEST

START_TEST(the_seed_chooses)
{
    size_t cuts[4];
    static const char *const texts[] = {"seed=5,cut=10..4000", "cut=10..4000",
                                        "seed=5,cut=10..4000",
                                        "seed=9,cut=10..4000"};
    for (int i = 0; i < 4; i++) {
        start(texts[i]);
        put(far_fd, text, sizeof text);
        cuts[i] = take(near_fd, back, sizeof back, PATIENT_MS, &ended);
        ck_assert(ended && cuts[i] >= 10 && cuts[i] <= 4000);
        stop();
    }
    ck_assert_uint_eq(cuts[0], cuts[2]);
    ck_assert_uint_ne(cuts[0], cuts[1]);
    ck_assert_uint_ne(cuts[0], cuts[3]);
}
END_TEST

START_TEST(a_byte_is_spoilt)
{
    start("corrupt=777,chunk=10");
    put(far_fd, text, sizeof text);
    ck_assert_uint_eq(take(near_fd, back, sizeof text, PATIENT_MS, &ended),
                      5000);
    ck_assert_int_eq((unsigned char)(back[777] ^ text[777]), 0xff);
    back[777] = text[777];
    ck_assert_mem_eq(back, text, sizeof text);
    stop();
}
END_TEST

START_TEST(a_stall_is_over_or_not)
{
    double began = seconds();
    start("stall=1000,for=80ms");
    put(far_fd, text, sizeof text);
    ck_assert_uint_eq(take(near_fd, back, 1000, PATIENT_MS, &ended), 1000);
    ck_assert_uint_eq(take(near_fd, back + 1000, 4000, PATIENT_MS, &ended),
                      4000);
    ck_assert_double_ge(seconds() - began, 0.079);
    ck_assert_mem_eq(back, text, sizeof text);
    stop();
    start("both,stall=1000");
    put(far_fd, text, sizeof text);
    put(near_fd, text, sizeof text);
    ck_assert_uint_eq(take(near_fd, back, 1000, PATIENT_MS, &ended), 1000);
    ck_assert_uint_eq(take(near_fd, back, sizeof text, 100, &ended), 0);
    ck_assert(!ended);
    close(near_fd); /* the relay goes with the side that asked for it */
    (void)take(far_fd, back, sizeof back, PATIENT_MS, &ended);
    ck_assert(ended);
    close(far_fd);
}
END_TEST

/* Seconds in which 5,000 bytes pass. */
static double
slowly(void)
{
    double began = seconds();
    start("slow=20KiB/s");
    put(far_fd, text, sizeof text);
    ck_assert_uint_eq(take(near_fd, back, sizeof text, PATIENT_MS, &ended),
                      5000);
    ck_assert_mem_eq(back, text, sizeof text);
    stop();
    return seconds() - began;
}

/* Seconds in which 100 messages pass, one behind another. */
static double
in_a_row(void)
{
    double began = seconds();
    for (int i = 0; i < 100; i++) {
        put(far_fd, text, 100);
    }
    ck_assert_uint_eq(take(near_fd, back, 6000, PATIENT_MS, &ended), 6000);
    ck_assert_uint_eq(take(near_fd, back, 4000, PATIENT_MS, &ended), 4000);
    return seconds() - began;
}

/* The shortest of several tries: a loaded machine makes any of them longer. */
static double
shortest(double (*tries)(void), double enough)
{
    double least = tries();
    for (int i = 0; i < 9 && least > enough; i++) {
        double one = tries();
        least = one < least ? one : least;
    }
    return least;
}

START_TEST(a_link_is_slow)
{
    double least = shortest(slowly, 2);
    ck_assert_double_ge(least, 0.2);
    ck_assert_double_le(least, 2);
    double began = seconds();
    start("both,delay=30ms");
    for (int i = 0; i < 5; i++) {
        put(far_fd, text, 1);
        ck_assert_uint_eq(take(near_fd, back, 1, PATIENT_MS, &ended), 1);
        put(near_fd, text, 1);
        ck_assert_uint_eq(take(far_fd, back, 1, PATIENT_MS, &ended), 1);
    }
    ck_assert_double_ge(seconds() - began, 0.3);
    /* A delay is no limit to what passes. */
    ck_assert_double_le(shortest(in_a_row, 1), 1);
    stop();
}
END_TEST

/* ---- wires ---- */

struct side {
    struct fy_wire *wire;
    size_t got;
    bool ended, closed, broken, spoilt;
};

static void
on_request(void *context, int32_t id, const char *method, const char *path,
           void **out_user)
{
    struct side *side = context;
    (void)method;
    (void)path;
    (void)out_user;
    if (fy_wire_respond(side->wire, id, 200, NULL, 0, true) ||
        fy_wire_send(side->wire, id, text, sizeof text) ||
        fy_wire_finish(side->wire, id, NULL, 0)) {
        side->broken = true;
    }
}

static void
on_data(void *context, int32_t id, void *user, const void *bytes, size_t n)
{
    struct side *side = context;
    (void)id;
    (void)user;
    side->spoilt |=
        n > sizeof text - side->got || memcmp(bytes, text + side->got, n) != 0;
    side->got += n;
}

static void
on_end(void *context, int32_t id, void *user,
       const struct fy_wire_pair *trailers, size_t n)
{
    (void)id;
    (void)user;
    (void)trailers;
    (void)n;
    ((struct side *)context)->ended = true;
}

static void
on_closed(void *context, int32_t id, void *user, uint32_t error)
{
    (void)id;
    (void)user;
    (void)error;
    ((struct side *)context)->closed = true;
}

static void
step(struct side *side, int patience)
{
    struct pollfd row = {-1, POLLIN, 0};
    if (side->broken) {
        return;
    }
    row.fd = fy_wire_in_fd(side->wire);
    if (fy_wire_wants_write(side->wire)) {
        row.events |= POLLOUT;
    }
    if (poll(&row, 1, patience) > 0 &&
        fy_wire_io(side->wire, row.revents & (POLLIN | POLLHUP),
                   row.revents & (POLLOUT | POLLERR))) {
        side->broken = true;
        fy_wire_free(side->wire);
        side->wire = NULL;
    }
}

enum {
    CASES = 12
};

/* A body of 5,000 bytes over a bad link: whole, or known not to be. */
START_TEST(wires_notice)
{
    static const struct fy_wire_events events = {on_request, NULL, on_data,
                                                 on_end,     NULL, on_closed};
    static const struct {
        const char *text;
        bool whole;
    } cases[] = {
        {"both,chunk=1", true},
        {"both,delay=3ms,chunk=100", true},
        {"both,stall=40,for=20ms,stall=3000,for=20ms", true},
        {"slow=200KiB/s", true},
        {"cut=0", false},
        {"cut=20", false},
        {"cut=5020", false},
        {"up,cut=30", false},
        {"corrupt=0", false},
        {"corrupt=3", false},
        {"up,corrupt=5", false},
        {"slow=200KiB/s,up,chunk=7", true},
    };
    struct side client = {0}, server = {0};
    int32_t id = 0;
    start(cases[_i].text);
    ck_assert_int_eq(fy_wire_new(FY_WIRE_CLIENT, near_fd, near_fd, &events,
                                 &client, &client.wire),
                     0);
    ck_assert_int_eq(fy_wire_new(FY_WIRE_SERVER, far_fd, far_fd, &events,
                                 &server, &server.wire),
                     0);
    ck_assert_int_eq(fy_wire_request(client.wire, "/stage", false, NULL, &id),
                     0);
    ck_assert_int_eq(fy_wire_grant(client.wire, id, 1 << 20), 0);
    double began = seconds();
    while (!client.closed && !client.broken) {
        step(&client, 1);
        step(&server, 1);
        ck_assert_double_le(seconds() - began, (double)patient(60));
    }
    ck_assert_int_eq(client.ended, cases[_i].whole);
    ck_assert(!client.spoilt);
    if (cases[_i].whole) {
        ck_assert_uint_eq(client.got, sizeof text);
    }
    fy_wire_free(client.wire);
    ck_assert(client.closed);
    fy_wire_free(server.wire);
}
END_TEST

int
main(void)
{
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)(i % 251);
    }
    Suite *suite = suite_create("fault");
    TCase *tcase = tcase_create("fault");
    tcase_add_test(tcase, texts_are_checked);
    tcase_add_test(tcase, a_cut_ends_both_directions);
    tcase_add_test(tcase, the_seed_chooses);
    tcase_add_test(tcase, a_byte_is_spoilt);
    tcase_add_test(tcase, a_stall_is_over_or_not);
    tcase_add_test(tcase, a_link_is_slow);
    tcase_add_loop_test(tcase, wires_notice, 0, CASES);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
