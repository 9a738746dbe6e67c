/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the bytes of a stage come and go: windows that hold its output back, zstd,
 * input of any size, terminals.
 */
#include "config.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "tests/unit/proxy_client.h"
#include "tests/unit/runner.h"

/* ---- windows and input --------------------------------------------------------------- */

START_TEST(output_larger_than_the_window)
{
    static struct job job;
    const char *argv[] = {"/usr/bin/head", "-c", "20000000", "/dev/zero", NULL};
    job_init(&job, &shared, argv);
    job.discard = true;
    job_begin(&job, false);
    job_open(&job, 10000);
    client_wait(&shared, &job.ended, 60);
    ck_assert_uint_eq(job.out_total, 20000000);
    ck_assert_int_eq(job.exit, 0);
    job_free(&job);
}
END_TEST

START_TEST(closed_window_holds_it_back)
{
    static struct job job;
    job_shell(&job, &shared,
              "echo ready >&2; head -c 3000000 /dev/zero; echo done >&2");
    job.discard = true;
    job_begin(&job, false);
    wait_for_lines(&job, 1);
    idle(0.2);
    ck_assert_uint_eq(job.out_total, 0);
    ck_assert_str_eq(job.err, "ready\n"); /* it waits in its pipe */
    job_open(&job, 1 << 20);
    client_wait(&shared, &job.ended, 20);
    ck_assert_uint_eq(job.out_total, 3000000);
    job_free(&job);
}
END_TEST

/* The end of an output that nobody asked for yet is kept with it. */
START_TEST(empty_output_waits_too)
{
    static struct job job;
    job_shell(&job, &shared, "exit 4");
    job_begin(&job, false);
    idle(0.2);
    ck_assert(!job.ended);
    job_open(&job, 1000);
    client_wait(&shared, &job.ended, 10);
    ck_assert_int_eq(job.exit, 4);
    job_free(&job);
}
END_TEST

/* All that was granted was used; the end needs no more window. */
START_TEST(exactly_the_window)
{
    static struct job job;
    job_shell(&job, &shared, "printf 12345; sleep 0.1");
    job_begin(&job, false);
    ck_assert_int_eq(fy_wire_grant(shared.wire, job.stream, 5), 0);
    client_wait(&shared, &job.ended, 10);
    ck_assert_str_eq(job.out, "12345");
    ck_assert_int_eq(job.exit, 0);
    job_free(&job);
}
END_TEST

START_TEST(zstd_output)
{
    static struct job job;
    const char *argv[] = {"/usr/bin/seq", "100000", NULL};
    job_init(&job, &shared, argv);
    job.spec.compress = true;
    job_run(&job);
    ck_assert_str_eq(job.encoding, "zstd");
    /* Stored or not, as the link seems to be; in frames. */
    ck_assert_uint_lt(job.out_bytes, 588895 + 1000);
    char *plain = malloc(1 << 20);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    ZSTD_inBuffer from = {job.out, job.out_bytes, 0};
    ZSTD_outBuffer to = {plain, 1 << 20, 0};
    size_t left = 0;
    while (from.pos < from.size) {
        left = ZSTD_decompressStream(context, &to, &from);
        ck_assert(!ZSTD_isError(left));
    }
    ck_assert_uint_eq(left, 0);
    ck_assert_uint_eq(to.pos, 588895);
    ck_assert_int_eq(memcmp(plain + 588888, "100000\n", 7), 0);
    ck_assert_int_eq(job.out_told, 588895);
    (void)ZSTD_freeDCtx(context);
    free(plain);
    job_free(&job);
}
END_TEST

/* Streams `bytes' of zeroes into the job's stdin, then ends it. */
static void
feed(struct job *job, uint64_t bytes)
{
    static const char block[256 << 10];
    double until = patient_until(300);
    while (bytes && !job->ended) {
        size_t n = fy_wire_room(shared.wire, job->stream);
        n = n < sizeof block ? n : sizeof block;
        n = n < bytes ? n : (size_t)bytes;
        if (n) {
            ck_assert_int_eq(fy_wire_send(shared.wire, job->stream, block, n),
                             0);
            bytes -= n;
        }
        client_turn(&shared, n ? 0 : 50);
        ck_assert_msg(seconds_now() < until, "it takes too long");
    }
    if (!job->ended) {
        ck_assert_int_eq(fy_wire_finish(shared.wire, job->stream, NULL, 0), 0);
    }
}

START_TEST(a_gigabyte_of_input)
{
    static struct job job;
    const char *argv[] = {"/usr/bin/wc", "-c", NULL};
    job_init(&job, &shared, argv);
    job.spec.in.kind = FY_STREAM_WIRE;
    job_begin(&job, true);
    job_open(&job, 1 << 20);
    feed(&job, 1000000000);
    client_wait(&shared, &job.ended, 60);
    ck_assert_str_eq(job.out, "1000000000\n");
    ck_assert_int_eq(job.in_bytes, 1000000000);
    job_free(&job);
}
END_TEST

START_TEST(through_cat)
{
    static struct job job;
    const char *argv[] = {"/bin/cat", NULL};
    job_init(&job, &shared, argv);
    job.spec.in.kind = FY_STREAM_WIRE;
    job.discard = true;
    job_begin(&job, true);
    job_open(&job, 100000);
    feed(&job, 50000000);
    client_wait(&shared, &job.ended, 60);
    ck_assert_uint_eq(job.out_total, 50000000);
    job_free(&job);
}
END_TEST

/* What it did not read is not counted as read. */
START_TEST(input_that_is_not_wanted)
{
    static struct job job;
    const char *argv[] = {"/usr/bin/head", "-c", "1000", NULL};
    job_init(&job, &shared, argv);
    job.spec.in.kind = FY_STREAM_WIRE;
    job_begin(&job, true);
    job_open(&job, 1 << 20);
    feed(&job, 100000000);
    client_wait(&shared, &job.ended, 20);
    ck_assert_uint_eq(job.out_total, 1000);
    ck_assert_int_eq(job.exit, 0);
    ck_assert_int_ge(job.in_bytes, 1000);
    ck_assert_int_le(job.in_bytes, 1 << 20);
    job_free(&job);
}
END_TEST

/* ---- terminals ---------------------------------------------------------------------------- */

START_TEST(a_terminal)
{
    static struct job job;
    job_shell(&job, &shared,
              "test -t 0; echo $?; test -t 1; echo $?; test -t 2; echo $?; "
              "stty size; : </dev/tty && echo own; printf 'a\\tb\\n'");
    job.spec.out.kind = FY_STREAM_PTY;
    job.spec.in.kind = FY_STREAM_PTY;
    job.spec.err.kind = FY_STREAM_SAME;
    job.spec.rows = 33;
    job.spec.columns = 99;
    job_run(&job);
    ck_assert_str_eq(job.out, "0\n0\n0\n33 99\nown\na\tb\n");
    ck_assert_int_eq(job.exit, 0);
    job_free(&job);
}
END_TEST

START_TEST(input_of_a_terminal)
{
    static struct job job;
    job_shell(&job, &shared, "test -t 0 && cat");
    job.spec.in.kind = FY_STREAM_PTY;
    job_begin(&job, true);
    job_open(&job, 1000);
    ck_assert_int_eq(fy_wire_send(shared.wire, job.stream, "one\ntwo\n", 8), 0);
    ck_assert_int_eq(fy_wire_finish(shared.wire, job.stream, NULL, 0), 0);
    client_wait(&shared, &job.ended, 10);
    ck_assert_str_eq(job.out, "one\ntwo\n"); /* no echo, and it ended */
    job_free(&job);
}
END_TEST

START_TEST(only_stderr_is_a_terminal)
{
    static struct job job;
    job_shell(&job, &shared, "test -t 1; echo $?; test -t 2; echo $? >&2");
    job.spec.err.kind = FY_STREAM_PTY;
    job_run(&job);
    ck_assert_str_eq(job.out, "1\n");
    ck_assert_str_eq(job.err, "0\n");
    job_free(&job);
}
END_TEST

START_TEST(only_stdout_is_a_terminal)
{
    static struct job job;
    job_shell(&job, &shared,
              "test -t 0; echo $?; test -t 1; echo $?; test -t 2; echo $? >&2");
    job.spec.out.kind = FY_STREAM_PTY;
    job_run(&job);
    ck_assert_str_eq(job.out, "1\n0\n");
    ck_assert_str_eq(job.err, "1\n");
    job_free(&job);
}
END_TEST

START_TEST(window_changes)
{
    static struct job job;
    job_shell(&job, &shared,
              "trap 'stty size <&1; exit' WINCH; echo ready >&2; "
              "while :; do sleep 0.05; done");
    job.spec.out.kind = FY_STREAM_PTY;
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    ck_assert_int_eq(job_get(&job, "window?rows=11&columns=22"), 200);
    client_wait(&shared, &job.ended, 10);
    ck_assert_str_eq(job.out, "11 22\n");
    job_free(&job);
}
END_TEST

START_TEST(large_output_of_a_terminal)
{
    static struct job job;
    job_shell(&job, &shared, "seq 50000");
    job.spec.out.kind = FY_STREAM_PTY;
    job_run(&job);
    ck_assert_uint_eq(job.out_bytes, 288894);
    ck_assert_int_eq(memcmp(job.out + 288888, "50000\n", 6), 0);
    job_free(&job);
}
END_TEST

int
main(void)
{
    TCase *stages;
    Suite *suite = server_suite("streams", &stages, NULL);
    tcase_add_test(stages, output_larger_than_the_window);
    tcase_add_test(stages, closed_window_holds_it_back);
    tcase_add_test(stages, empty_output_waits_too);
    tcase_add_test(stages, exactly_the_window);
    tcase_add_test(stages, zstd_output);
    tcase_add_test(stages, a_gigabyte_of_input);
    tcase_add_test(stages, through_cat);
    tcase_add_test(stages, input_that_is_not_wanted);
    tcase_add_test(stages, a_terminal);
    tcase_add_test(stages, input_of_a_terminal);
    tcase_add_test(stages, only_stderr_is_a_terminal);
    tcase_add_test(stages, only_stdout_is_a_terminal);
    tcase_add_test(stages, window_changes);
    tcase_add_test(stages, large_output_of_a_terminal);
    return run_suite(suite);
}
