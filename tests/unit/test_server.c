/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real proxy at the end of a socketpair, driven by a scripted client:
 * links between stages, and ends of all kinds, after which nothing may be left.
 * Long because each kind of end is a test against the same client.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "proxy/wire/protocol.h"
#include "tests/patience.h"
#include "tests/unit/proxy_client.h"
#include "tests/unit/runner.h"

/* ---- links ----------------------------------------------------------------------------- */

static void
link_to(struct job *reader, const struct job *writer)
{
    reader->spec.in.kind = FY_STREAM_LINK;
    reader->spec.in.stage = writer->spec.stage;
}

START_TEST(yes_head)
{
    static struct job yes, head;
    const char *yes_argv[] = {"/usr/bin/yes", NULL};
    const char *head_argv[] = {"/usr/bin/head", "-n", "1", NULL};
    job_init(&yes, &shared, yes_argv);
    job_init(&head, &shared, head_argv);
    link_to(&head, &yes);
    job_begin(&yes, false);
    job_run(&head);
    client_wait(&shared, &yes.ended, 10);
    ck_assert_str_eq(head.out, "y\n");
    ck_assert_int_eq(head.exit, 0);
    ck_assert_int_eq(yes.signal, SIGPIPE);
    ck_assert_uint_eq(yes.out_total, 0);
    ck_assert_int_gt(yes.out_told, 0);
    job_free(&yes);
    job_free(&head);
}
END_TEST

/* Whether a descriptor of the process is what `name' says, up to a newline. */
static bool
has_open(pid_t pid, const char *name)
{
    char path[512], target[256];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *list = opendir(path);
    ck_assert_ptr_nonnull(list);
    const struct dirent *entry;
    while ((entry = readdir(list))) {
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid,
                       entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        found |=
            n > 0 && strncmp(name, target, (size_t)n) == 0 && name[n] == '\n';
    }
    (void)closedir(list);
    return found;
}

/* The two ends are one pipe of the kernel, and the proxy holds neither. */
START_TEST(a_link_is_a_pipe)
{
    static struct job one, two;
    job_shell(&one, &shared, "readlink /proc/$$/fd/1; sleep 0.5");
    job_shell(&two, &shared, "readlink /proc/$$/fd/0; cat");
    link_to(&two, &one);
    job_begin(&one, false);
    job_begin(&two, false);
    job_open(&two, 1000);
    while (!two.out || !strchr(two.out, '\n')) {
        client_turn(&shared, 20);
    }
    ck_assert(!has_open(shared.proxy, two.out));
    client_wait(&shared, &two.ended, 10);
    const char *newline = strchr(two.out, '\n');
    ck_assert_ptr_nonnull(newline);
    size_t n = (size_t)(newline - two.out) + 1;
    ck_assert_uint_eq(two.out_bytes, 2 * n);
    ck_assert_int_eq(memcmp(two.out, two.out + n, n), 0);
    job_free(&one);
    job_free(&two);
}
END_TEST

START_TEST(chain_of_four)
{
    static struct job jobs[4];
    job_shell(&jobs[0], &shared, "seq 100000");
    job_shell(&jobs[1], &shared, "grep 7");
    job_shell(&jobs[2], &shared, "sort -rn");
    job_shell(&jobs[3], &shared, "head -n 3; cat >/dev/null; exit 9");
    /* The last first: it waits for those before it. */
    for (int i = 3; i >= 0; i--) {
        if (i > 0) {
            link_to(&jobs[i], &jobs[i - 1]);
        }
        job_begin(&jobs[i], false);
    }
    job_open(&jobs[3], 1000);
    for (int i = 0; i < 4; i++) {
        client_wait(&shared, &jobs[i].ended, 20);
        ck_assert_int_eq(jobs[i].status, 200);
        ck_assert_int_eq(jobs[i].exit, i == 3 ? 9 : 0);
    }
    ck_assert_str_eq(jobs[3].out, "99997\n99987\n99979\n");
    ck_assert_int_eq(jobs[0].out_told, 588895);
    for (int i = 0; i < 4; i++) {
        job_free(&jobs[i]);
    }
}
END_TEST

START_TEST(link_to_one_that_ended)
{
    static struct job one, two;
    job_shell(&one, &shared, "echo late");
    one.spec.compress = true; /* not of what goes to the other */
    job_shell(&two, &shared, "cat");
    link_to(&two, &one);
    job_begin(&one, false);
    idle(0.2);
    job_run(&two);
    client_wait(&shared, &one.ended, 10);
    ck_assert_str_eq(two.out, "late\n");
    ck_assert_uint_eq(one.out_total, 0);
    ck_assert_int_eq(one.exit, 0);
    job_free(&one);
    job_free(&two);
}
END_TEST

START_TEST(link_that_is_refused_gives_back)
{
    static struct job one, two;
    const char *argv[] = {"/nowhere/cat", NULL};
    job_shell(&one, &shared, "echo kept");
    job_init(&two, &shared, argv);
    link_to(&two, &one);
    job_begin(&one, false);
    job_begin(&two, false);
    client_wait(&shared, &two.ended, 10);
    ck_assert_int_eq(two.status, 409);
    ck_assert_str_eq(two.reason, "other-tool");
    ck_assert(!one.ended);
    job_open(&one, 1000);
    client_wait(&shared, &one.ended, 10);
    ck_assert_str_eq(one.out, "kept\n");
    job_free(&one);
    job_free(&two);
}
END_TEST

START_TEST(link_that_comes_too_late)
{
    static struct job one, two, three;
    job_shell(&one, &shared, "echo here; sleep 1");
    job_begin(&one, false);
    job_open(&one, 1000);
    while (one.out_bytes == 0) {
        client_turn(&shared, 20);
    }
    job_shell(&two, &shared, "cat");
    link_to(&two, &one);
    job_run(&two);
    ck_assert_int_eq(two.status, 409);
    ck_assert_str_eq(two.reason, "odd-stream");
    job_shell(&three, &shared, "cat");
    three.spec.in.kind = FY_STREAM_LINK;
    three.spec.in.stage = 1234;
    job_run(&three);
    ck_assert_int_eq(three.status, 409);
    client_wait(&shared, &one.ended, 10);
    ck_assert_str_eq(one.out, "here\n");
    job_free(&one);
    job_free(&two);
    job_free(&three);
}
END_TEST

/* What runs commands on paths takes them from what lists them, in its folder, and
 * from no client. */
START_TEST(paths_come_from_a_list)
{
    static struct job list, reader, echo, folder, wire;
    const char *print[] = {"/usr/bin/printf", "a b\\0", NULL};
    const char *xargs[] = {"/usr/bin/xargs", "-0", "echo", "got", NULL};
    job_init(&list, &shared, print);
    job_init(&reader, &shared, xargs);
    link_to(&reader, &list);
    job_begin(&list, false);
    job_run(&reader);
    client_wait(&shared, &list.ended, 10);
    ck_assert_str_eq(reader.out, "got a b\n");
    job_free(&reader);
    job_free(&list);
    job_init(&wire, &shared, xargs);
    job_run(&wire);
    ck_assert_int_eq(wire.status, 403);
    job_shell(&echo, &shared, "echo x; sleep 0.3");
    job_init(&reader, &shared, xargs);
    link_to(&reader, &echo);
    job_begin(&echo, false);
    job_run(&reader);
    ck_assert_int_eq(reader.status, 409);
    job_free(&reader);
    job_init(&list, &shared, print);
    job_init(&folder, &shared, xargs);
    link_to(&folder, &list);
    folder.spec.cwd = (struct fy_bytes){"/usr", 4};
    job_begin(&list, false);
    job_run(&folder);
    ck_assert_int_eq(folder.status, 409);
    job_open(&list, 1000);
    job_open(&echo, 1000);
    client_wait(&shared, &list.ended, 10);
    client_wait(&shared, &echo.ended, 10);
    job_free(&list);
    job_free(&echo);
    job_free(&folder);
    job_free(&wire);
}
END_TEST

/* Stages that wait for one another are refused; what reads them, too. */
START_TEST(links_in_a_ring)
{
    static struct job jobs[4];
    for (int i = 0; i < 4; i++) {
        job_shell(&jobs[i], &shared, "cat");
    }
    link_to(&jobs[0], &jobs[0]);
    job_run(&jobs[0]);
    ck_assert_int_eq(jobs[0].status, 409);
    ck_assert_str_eq(jobs[0].reason, "odd-stream");
    link_to(&jobs[1], &jobs[2]);
    link_to(&jobs[2], &jobs[3]);
    link_to(&jobs[3], &jobs[2]);
    for (int i = 1; i < 4; i++) {
        job_begin(&jobs[i], false);
    }
    for (int i = 1; i < 4; i++) {
        client_wait(&shared, &jobs[i].ended, 10);
        ck_assert_int_eq(jobs[i].status, 409);
        ck_assert_str_eq(jobs[i].reason, "odd-stream");
    }
    for (int i = 0; i < 4; i++) {
        job_free(&jobs[i]);
    }
}
END_TEST

/* A spec that is on its way: who reads an unknown stage waits for it. */
static void
begin_to_send(struct job *job)
{
    job->stream = job->err_stream = -1;
    ck_assert_int_eq(
        fy_wire_request(shared.wire, "/stage", true, job, &job->small_stream),
        0);
    ck_assert_int_eq(fy_wire_send(shared.wire, job->small_stream, "\0\0", 2),
                     0);
}

START_TEST(signal_before_the_start)
{
    static struct job one, two, half;
    begin_to_send(&half);
    job_shell(&one, &shared, "echo out; sleep 0.2");
    job_shell(&two, &shared, "cat; sleep 100");
    link_to(&two, &one);
    job_begin(&two, false);
    job_open(&two, 1000);
    idle(0.1); /* now it waits */
    ck_assert_int_eq(job_get(&two, "signal?19"), 200);
    ck_assert_int_eq(job_get(&two, "signal?15"), 200);
    ck_assert_int_eq(job_get(&two, "signal?18"), 200);
    ck_assert(!two.ended);
    job_begin(&one, false);
    client_wait(&shared, &two.ended, 10);
    client_wait(&shared, &one.ended, 10);
    ck_assert_int_eq(two.status, 200);
    ck_assert_int_eq(two.signal, SIGTERM);
    fy_wire_cancel(shared.wire, half.small_stream);
    job_free(&one);
    job_free(&two);
}
END_TEST

START_TEST(waiting_ends)
{
    static struct job job, half;
    (void)client_end(&shared);
    client_start(&shared, &(struct fy_proxy_options){.stages_max = 10,
                                                     .wait_seconds = 0.3});
    begin_to_send(&half);
    job_shell(&job, &shared, "cat");
    job.spec.in.kind = FY_STREAM_LINK;
    job.spec.in.stage = 1234;
    job_run(&job);
    ck_assert_int_eq(job.status, 503);
    ck_assert_str_eq(job.reason, "limits");
    fy_wire_cancel(shared.wire, half.small_stream);
    job_free(&job);
}
END_TEST

/* Its end is still of interest when nobody reads its output. */
START_TEST(unread_output)
{
    static struct job job;
    job_shell(&job, &shared,
              "trap 'echo gone >&2; exit 3' PIPE; echo first >&2; "
              "while echo x; do sleep 0.01; done");
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    ck_assert_int_eq(job_get(&job, "unread?0"), 400);
    ck_assert_int_eq(job_get(&job, "unread?3"), 400);
    ck_assert_int_eq(job_get(&job, "unread?1x"), 400);
    ck_assert(!job.ended);
    ck_assert_int_eq(job_get(&job, "unread?1"), 200);
    client_wait(&shared, &job.ended, 10);
    client_wait(&shared, &job.err_ended, 10);
    ck_assert_int_eq(job.exit, 3);
    ck_assert_ptr_nonnull(strstr(job.err, "gone"));
    job_free(&job);
    job_shell(&job, &shared, "echo a >&2; sleep 0.3; echo b >&2; exit 7");
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    ck_assert_int_eq(job_get(&job, "unread?2"), 200);
    client_wait(&shared, &job.err_ended, 10);
    client_wait(&shared, &job.ended, 10);
    ck_assert_int_eq(job.signal, SIGPIPE);
    job_free(&job);
}
END_TEST

/* What it said when it ended is not dropped because its reader takes long. */
START_TEST(late_reader_of_stderr)
{
    static struct job job;
    (void)client_end(&shared);
    client_start(&shared, &(struct fy_proxy_options){.stages_max = 10,
                                                     .wait_seconds = 0.2});
    /* More than the window: the rest stays in the pipe. */
    job_shell(&job, &shared, "head -c 100000 /dev/zero >&2; exit 5");
    job.slow_err = true;
    job_begin(&job, false);
    job_open(&job, 1000);
    client_wait(&shared, &job.ended, 10);
    ck_assert_int_eq(job.exit, 5);
    idle(1);
    ck_assert(!job.err_ended);
    ck_assert_int_eq(fy_wire_grant(shared.wire, job.err_stream, 1 << 16), 0);
    client_wait(&shared, &job.err_ended, 10);
    ck_assert_uint_eq(job.err_bytes, 100000);
    job_free(&job);
    /* Nobody waits for a process that stays and says nothing. */
    job_shell(&job, &shared, "sleep 100 >/dev/null & echo a >&2");
    job_begin(&job, false);
    job_open(&job, 1000);
    client_wait(&shared, &job.err_ended, 10);
    ck_assert_str_eq(job.err, "a\n");
    job_free(&job);
}
END_TEST

/* ---- ends ----------------------------------------------------------------------------------- */

START_TEST(cancel_ends_it)
{
    static struct job job;
    job_shell(&job, &shared, "echo $$ >&2; exec yes");
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    fy_wire_cancel(shared.wire, job.stream);
    wait_until_gone((pid_t)strtol(job.err, NULL, 10), 5);
    job_free(&job);
}
END_TEST

/* One that obeys nothing and hides its children. */
START_TEST(cancel_ends_the_stubborn)
{
    static struct job job;
    job_shell(&job, &shared,
              "trap '' TERM HUP PIPE INT; setsid sleep 100 & echo $! >&2; "
              "echo $$ >&2; while :; do sleep 0.1; done");
    job_begin(&job, false);
    wait_for_lines(&job, 2);
    char *rest;
    pid_t hidden = (pid_t)strtol(job.err, &rest, 10);
    pid_t shell = (pid_t)strtol(rest, NULL, 10);
    fy_wire_cancel(shared.wire, job.stream);
    wait_until_gone(shell, 5);
    wait_until_gone(hidden, 5);
    job_free(&job);
}
END_TEST

/* An input that ends because the client went is no end of input. */
START_TEST(no_false_end_of_input)
{
    static struct job job;
    job_shell(&job, &shared, "echo $$ >&2; cat >/dev/null; touch whole");
    job.spec.in.kind = FY_STREAM_WIRE;
    job_begin(&job, true);
    wait_for_lines(&job, 1);
    fy_wire_cancel(shared.wire, job.stream);
    wait_until_gone((pid_t)strtol(job.err, NULL, 10), 5);
    ck_assert_int_ne(access("whole", F_OK), 0);
    job_free(&job);
}
END_TEST

START_TEST(signals_reach_the_group)
{
    static struct job job;
    job_shell(&job, &shared,
              "trap 'echo came >&2' INT; sleep 100 & echo $! >&2; wait; wait");
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    ck_assert_int_eq(job_get(&job, "signal?2"), 200);
    wait_for_lines(&job, 2);
    ck_assert_int_eq(job_get(&job, "signal?15"), 200);
    client_wait(&shared, &job.ended, 10);
    ck_assert_int_eq(job.signal, SIGTERM);
    wait_until_gone((pid_t)strtol(job.err, NULL, 10), 5);
    ck_assert_int_eq(job_get(&job, "signal?99"), 404);
    job_free(&job);
}
END_TEST

static char
state_of(pid_t pid)
{
    char path[64], text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, file));
    (void)fclose(file);
    return strrchr(text, ')')[2];
}

/* Returns true as soon as a process is in this state. */
static bool
comes_to(pid_t pid, char state)
{
    for (long i = patient(6000); i > 0 && state_of(pid) != state; i--) {
        (void)usleep(10000);
    }
    return state_of(pid) == state;
}

START_TEST(stop_and_continue)
{
    static struct job job;
    job_shell(&job, &shared, "echo $$ >&2; exec sleep 100");
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    pid_t pid = (pid_t)strtol(job.err, NULL, 10);
    ck_assert_int_eq(job_get(&job, "signal?20"), 200);
    ck_assert(comes_to(pid, 'T'));
    ck_assert_int_eq(job_get(&job, "signal?18"), 200);
    ck_assert(comes_to(pid, 'S'));
    ck_assert_int_eq(job_get(&job, "signal?9"), 200);
    client_wait(&shared, &job.ended, 10);
    ck_assert_int_eq(job.signal, SIGKILL); /* the client asked for it */
    job_free(&job);
}
END_TEST

/* After each fork of the proxy, what a fork in another thread does at this moment:
 * a child has copies of all descriptors, and closes them a little later. */
static pid_t tester;

static void
hold_descriptors(void)
{
    if (tester && getpid() != tester && syscall(SYS_fork) == 0) {
        (void)usleep(300000);
        _exit(0);
    }
}

START_TEST(ended_before_its_exec_was_seen)
{
    static struct job job;
    (void)client_end(&shared);
    tester = getpid();
    ck_assert_int_eq(pthread_atfork(NULL, hold_descriptors, NULL), 0);
    client_start(&shared, NULL);
    job_shell(&job, &shared, "echo out; echo err >&2; exit 3");
    job_begin(&job, false);
    job_open(&job, 1000);
    client_wait(&shared, &job.ended, 10);
    client_wait(&shared, &job.err_ended, 10);
    ck_assert_int_eq(job.status, 200);
    ck_assert_int_eq(job.exit, 3);
    ck_assert_str_eq(job.out, "out\n");
    ck_assert_str_eq(job.err, "err\n");
    job_free(&job);
}
END_TEST

/* Killed by neither side: that is not how the command ends here. */
START_TEST(killed_from_outside)
{
    static struct job job, reader;
    job_shell(&job, &shared, "echo $$ >&2; exec sleep 100");
    job_shell(&reader, &shared, "cat; sleep 0.1");
    link_to(&reader, &job);
    job_begin(&job, false);
    job_begin(&reader, false);
    job_open(&reader, 1000);
    wait_for_lines(&job, 1);
    double until = patient_until(20);
    while (!reader.status && seconds_now() < until) {
        client_turn(&shared, 50);
    }
    ck_assert_int_eq(kill((pid_t)strtol(job.err, NULL, 10), SIGKILL), 0);
    client_wait(&shared, &job.ended, 10);
    client_wait(&shared, &reader.ended, 10);
    ck_assert_str_eq(job.reason, "limits");
    ck_assert_int_eq(job.signal, -1);
    ck_assert_str_eq(reader.reason, "limits");
    ck_assert_int_eq(reader.exit, -1);
    job_free(&job);
    job_free(&reader);
}
END_TEST

START_TEST(lost_connection_ends_all)
{
    static struct job jobs[3];
    pid_t pids[6];
    for (int i = 0; i < 3; i++) {
        job_shell(&jobs[i], &shared,
                  "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 100' & "
                  "echo $! >&2; echo $$ >&2; while :; do sleep 1; done");
        job_begin(&jobs[i], false);
        wait_for_lines(&jobs[i], 2);
        char *rest;
        pids[2 * i] = (pid_t)strtol(jobs[i].err, &rest, 10);
        pids[2 * i + 1] = (pid_t)strtol(rest, NULL, 10);
    }
    ck_assert_uint_gt(client_descendants(&shared), 5);
    ck_assert_int_eq(client_end(&shared), 0);
    for (int i = 0; i < 6; i++) {
        ck_assert(!alive(pids[i]));
    }
    for (int i = 0; i < 3; i++) {
        job_free(&jobs[i]);
    }
    fixture_start();
}
END_TEST

START_TEST(killed_proxy_takes_them_along)
{
    static struct job job;
    job_shell(&job, &shared, "echo $$ >&2; exec sleep 100");
    job_begin(&job, false);
    wait_for_lines(&job, 1);
    pid_t pid = (pid_t)strtol(job.err, NULL, 10);
    ck_assert_int_eq(kill(shared.proxy, SIGKILL), 0);
    (void)client_end(&shared);
    wait_until_gone(pid, 2);
    job_free(&job);
    fixture_start();
}
END_TEST

/* Requests about a stage are answered within 50 ms: the best of twenty, as the
 * machine may be busy. */
static void
check_answers(struct job *stage)
{
    double best = 10;
    for (int i = 0; i < 20; i++) {
        double sent = seconds_now();
        ck_assert_int_eq(job_get(stage, "signal?18"), 200);
        double took = seconds_now() - sent;
        best = took < best ? took : best;
    }
    ck_assert_double_lt(best, (double)patient(50) / 1000);
}

/* Sends a request; its answer is not waited for. */
static void
ask(struct job *job, const char *path, const void *body, size_t n)
{
    job->stream = job->err_stream = -1;
    ck_assert_int_eq(fy_wire_request(shared.wire, path, body != NULL, job,
                                     &job->small_stream),
                     0);
    ck_assert_int_eq(fy_wire_grant(shared.wire, job->small_stream, 1 << 20), 0);
    if (body) {
        ck_assert_int_eq(fy_wire_send(shared.wire, job->small_stream, body, n),
                         0);
        ck_assert_int_eq(
            fy_wire_finish(shared.wire, job->small_stream, NULL, 0), 0);
    }
}

/* The double's root takes half a minute to open as soon as it holds `stuck', and so
 * does its lock: how much is there, what was changed, and what this host is, are
 * looked at beside the loop. */
START_TEST(slow_disk_holds_up_no_other)
{
    static struct job held, done, asked;
    const char *argv[] = {"/usr/bin/touch", "new", NULL};
    struct fy_bytes folder = {client_folder, strlen(client_folder)};
    struct fy_bytes path = {"new", 3};
    const struct fy_probe probe = {.npaths = 1,
                                   .paths = &path,
                                   .mount = folder,
                                   .cwd = folder,
                                   .root = folder};
    const struct fy_hello hello = {.version = FY_PROTOCOL_VERSION,
                                   .ferry = path};
    char *bytes, name[64];
    size_t n;
    job_shell(&held, &shared, "sleep 30");
    job_begin(&held, false);
    job_init(&done, &shared, argv);
    job_run(&done);
    ck_assert_int_eq(done.exit, 0);
    ck_assert_int_eq(close(creat("stuck", 0600)), 0);
    double began = seconds_now();
    if (_i == 0) {
        ck_assert_int_eq(fy_probe_encode(&probe, &bytes, &n), 0);
        ask(&asked, FY_PATH_PROBE, bytes, n);
        free(bytes);
    } else if (_i == 1) {
        ck_assert_int_eq(fy_hello_encode(&hello, &bytes, &n), 0);
        ask(&asked, FY_PATH_HELLO, bytes, n);
        free(bytes);
    } else {
        (void)snprintf(name, sizeof name, "/stage/%llu/touched",
                       (unsigned long long)done.spec.stage);
        ask(&asked, name, NULL, 0);
    }
    check_answers(&held);
    ck_assert(!asked.small_ended && !asked.small_status);
    ck_assert_int_eq(unlink("stuck"), 0);
    ck_assert_int_eq(client_end(&shared), 0);
    ck_assert_double_lt(seconds_now() - began, (double)patient(15));
    job_free(&held);
    job_free(&done);
    fixture_start();
}
END_TEST

/* /proc takes half a minute to list as soon as the folder holds `listing', which is
 * then removed. */
DIR *
opendir(const char *path)
{
    if (strcmp(path, "/proc") == 0 && unlink("listing") == 0) {
        (void)sleep((unsigned)patient(30));
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fdopendir(fd) : NULL;
}

/* However many processes this host has: what descends from an unwanted stage and from one
 * whose first process has ended is looked for beside the loop. */
START_TEST(many_processes_hold_up_no_other)
{
    static struct job held, looked;
    const struct fy_proxy_options options = {.stages_max = 3};
    static const char *const scripts[] = {
        "trap '' TERM PIPE; echo $$ >&2; while :; do sleep 1; done",
        "sleep 30 & echo $$ >&2"};
    double began = seconds_now();
    ck_assert_int_eq(client_end(&shared), 0);
    client_start(&shared, &options);
    job_shell(&held, &shared, "sleep 30");
    job_begin(&held, false);
    job_shell(&looked, &shared, scripts[_i]);
    job_begin(&looked, false);
    wait_for_lines(&looked, 1);
    if (_i == 1) {
        pid_t first = (pid_t)strtol(looked.err, NULL, 10);
        while (kill(first, 0) == 0) {
            ck_assert_double_lt(seconds_now() - began, (double)patient(20));
            client_turn(&shared, 20);
        }
    }
    ck_assert_int_eq(close(creat("listing", 0600)), 0);
    if (_i == 0) {
        fy_wire_cancel(shared.wire, looked.stream);
    } else {
        ck_assert_int_eq(job_get(&looked, "signal?28"), 200);
    }
    while (access("listing", F_OK) == 0) {
        ck_assert_double_lt(seconds_now() - began, (double)patient(20));
        client_turn(&shared, 20);
    }
    check_answers(&held);
    ck_assert_int_eq(client_end(&shared), 0);
    ck_assert_double_lt(seconds_now() - began, (double)patient(25));
    job_free(&held);
    job_free(&looked);
    fixture_start();
}
END_TEST

/* A process takes 10 ms to reap as soon as the folder holds `reaping'. */
pid_t
wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    if (access("reaping", F_OK) == 0) {
        (void)usleep(10000);
        (void)rename("reaping", "reaped");
    } else if (access("reaped", F_OK) == 0) {
        (void)usleep(10000);
    }
    return (pid_t)syscall(SYS_wait4, pid, status, options, usage);
}

/* Children of the proxy that have ended and were not reaped. */
static unsigned
count_dead(void)
{
    char line[1024];
    unsigned n = 0;
    FILE *all = popen("cat /proc/[0-9]*/stat 2>/dev/null", "r");
    ck_assert_ptr_nonnull(all);
    while (fgets(line, sizeof line, all)) {
        const char *rest = strrchr(line, ')');
        n += rest && rest[2] == 'Z' && atoi(rest + 4) == shared.proxy;
    }
    ck_assert_int_ne(pclose(all), -1);
    return n;
}

START_TEST(many_ends_hold_up_no_other)
{
    static struct job held, many;
    double began = seconds_now();
    job_shell(&held, &shared, "sleep 30");
    job_begin(&held, false);
    /* 200 that the proxy adopts, and that end together. */
    job_shell(&many, &shared,
              "mkfifo go; i=0; while [ $i -lt 200 ]; do (cat go >/dev/null "
              "2>&1 &); i=$((i + 1)); done; echo >reaping; : >go");
    job_begin(&many, false);
    while (access("reaped", F_OK) != 0 || count_dead() < 50) {
        ck_assert_double_lt(seconds_now() - began, (double)patient(30));
        client_turn(&shared, 5);
    }
    ck_assert_int_eq(job_get(&held, "signal?18"), 200);
    ck_assert_uint_gt(count_dead(), 0);
    ck_assert_int_eq(unlink("reaped"), 0);
    job_free(&held);
    job_free(&many);
}
END_TEST

/* The double's check of `factor' takes half a minute, and so does reading the words of
 * `numfmt'. */
START_TEST(slow_check_holds_up_no_other)
{
    static struct job slow[2], quick;
    const char *argv[] = {_i ? "/usr/bin/numfmt" : "/usr/bin/factor", "6",
                          NULL};
    for (int i = 0; i < 2; i++) {
        job_init(&slow[i], &shared, argv);
        job_begin(&slow[i], false);
    }
    double began = seconds_now();
    job_shell(&quick, &shared, "echo here");
    job_run(&quick);
    ck_assert_str_eq(quick.out, "here\n");
    ck_assert(!slow[0].status && !slow[1].status);
    check_answers(&slow[0]);
    ck_assert(!slow[0].status);
    /* One that is not wanted any more. */
    fy_wire_cancel(shared.wire, slow[1].stream);
    client_wait(&shared, &slow[1].closed, 10);
    ck_assert_int_eq(client_end(&shared), 0);
    ck_assert_double_lt(seconds_now() - began, (double)patient(15));
    job_free(&quick);
    for (int i = 0; i < 2; i++) {
        job_free(&slow[i]);
    }
    fixture_start();
}
END_TEST

START_TEST(slow_check_is_over_in_time)
{
    static struct client client;
    static struct job writer, slow, reader;
    const struct fy_proxy_options options = {.stages_max = 3,
                                             .wait_seconds = 0.5};
    const char *argv[] = {"/usr/bin/factor", "6", NULL};
    double began = seconds_now();
    client_start(&client, &options);
    job_shell(&writer, &client, "echo one");
    job_init(&slow, &client, argv);
    link_to(&slow, &writer);
    job_begin(&writer, false);
    job_begin(&slow, false);
    client_wait(&client, &slow.ended, 10);
    ck_assert_int_eq(slow.status, 503);
    ck_assert_str_eq(slow.reason, "limits");
    /* Its feeder is the client's again. */
    job_open(&writer, 100);
    client_wait(&client, &writer.ended, 10);
    ck_assert_str_eq(writer.out, "one\n");
    /* And there is room for others. */
    job_shell(&reader, &client, "echo two");
    job_run(&reader);
    ck_assert_str_eq(reader.out, "two\n");
    ck_assert_int_eq(client_end(&client), 0);
    ck_assert_double_lt(seconds_now() - began, (double)patient(15));
    job_free(&writer);
    job_free(&slow);
    job_free(&reader);
}
END_TEST

START_TEST(a_hundred_stages)
{
    static struct job jobs[100];
    unsigned before = count_fds(shared.proxy);
    for (int i = 0; i < 100; i++) {
        char script[64];
        (void)snprintf(script, sizeof script, "seq 1000; exit %d", i);
        job_shell(&jobs[i], &shared, script);
        job_begin(&jobs[i], false);
        job_open(&jobs[i], 500);
    }
    for (int i = 0; i < 100; i++) {
        client_wait(&shared, &jobs[i].ended, 30);
        client_wait(&shared, &jobs[i].err_ended, 30);
        ck_assert_int_eq(jobs[i].exit, i);
        ck_assert_uint_eq(jobs[i].out_total, 3893);
        job_free(&jobs[i]);
    }
    double until = patient_until(20);
    while ((client_descendants(&shared) != 0 ||
            count_fds(shared.proxy) > before) &&
           seconds_now() < until) {
        idle(0.05);
    }
    /* `before' may have had one of a stage that was just ending. */
    ck_assert_uint_le(count_fds(shared.proxy), before);
    ck_assert_uint_eq(client_descendants(&shared), 0);
}
END_TEST

/* Cancelled at every moment of their lives. */
START_TEST(cancelled_stages_leave_nothing)
{
    static struct job jobs[60];
    unsigned before = count_fds(shared.proxy);
    for (int i = 0; i < 60; i++) {
        job_shell(&jobs[i], &shared, "sleep 0.01; seq 100000; sleep 30");
        if (i % 3 == 2) {
            link_to(&jobs[i], &jobs[i - 1]);
        }
        job_begin(&jobs[i], i % 5 == 0);
        for (int turn = 0; turn < i % 7; turn++) {
            client_turn(&shared, 2);
        }
        if (!jobs[i].closed) {
            fy_wire_cancel(shared.wire, jobs[i].stream);
        }
    }
    double until = patient_until(10);
    /* `before' may have had one of a stage that was just ending. */
    while (client_descendants(&shared) || count_fds(shared.proxy) > before) {
        ck_assert_msg(seconds_now() < until, "%u processes, %u descriptors",
                      client_descendants(&shared),
                      count_fds(shared.proxy) - before);
        client_turn(&shared, 20);
    }
    for (int i = 0; i < 60; i++) {
        job_free(&jobs[i]);
    }
}
END_TEST

int
main(void)
{
    TCase *stages, *files;
    Suite *suite = server_suite("server", &stages, &files);
    tcase_add_test(stages, yes_head);
    tcase_add_test(stages, a_link_is_a_pipe);
    tcase_add_test(stages, chain_of_four);
    tcase_add_test(stages, link_to_one_that_ended);
    tcase_add_test(stages, link_that_is_refused_gives_back);
    tcase_add_test(stages, link_that_comes_too_late);
    tcase_add_test(stages, paths_come_from_a_list);
    tcase_add_test(stages, links_in_a_ring);
    tcase_add_test(stages, unread_output);
    tcase_add_test(stages, late_reader_of_stderr);
    tcase_add_test(stages, signal_before_the_start);
    tcase_add_test(stages, waiting_ends);
    tcase_add_test(stages, cancel_ends_it);
    tcase_add_test(stages, cancel_ends_the_stubborn);
    tcase_add_test(stages, signals_reach_the_group);
    tcase_add_test(stages, stop_and_continue);
    tcase_add_test(stages, ended_before_its_exec_was_seen);
    tcase_add_test(stages, killed_from_outside);
    tcase_add_test(stages, lost_connection_ends_all);
    tcase_add_test(stages, killed_proxy_takes_them_along);
    tcase_add_loop_test(stages, slow_check_holds_up_no_other, 0, 2);
    tcase_add_test(stages, slow_check_is_over_in_time);
    tcase_add_test(stages, a_hundred_stages);
    tcase_add_test(stages, cancelled_stages_leave_nothing);
    tcase_add_test(files, no_false_end_of_input);
    tcase_add_loop_test(files, slow_disk_holds_up_no_other, 0, 3);
    tcase_add_loop_test(files, many_processes_hold_up_no_other, 0, 2);
    tcase_add_test(files, many_ends_hold_up_no_other);
    return run_suite(suite);
}
