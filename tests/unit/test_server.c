/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real proxy at the end of a socketpair, driven by a scripted client: what a
 * stage is given, what comes of it, and that nothing of it stays.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "tests/unit/proxy_client.h"

/* Jobs are static: the wire knows of them until the fixture ends it. */
static struct client client;
static char folder[] = "/tmp/ferry-server-XXXXXX";

static void
start(void)
{
    static const struct fy_proxy_options options = {.stages_max = 200};
    client_start(&client, &options);
}

static void
end(void)
{
    int status = client_end(&client);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "the proxy ended with status %#x", (unsigned)status);
}

static void
start_in_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    start();
}

static void
end_in_folder(void)
{
    char command[64];
    end();
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(system(command), 0);
}

static bool
alive(pid_t pid)
{
    char path[64], text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) {
        return false;
    }
    bool read_it = fgets(text, sizeof text, file) != NULL;
    (void)fclose(file);
    const char *rest = read_it ? strrchr(text, ')') : NULL;
    return rest && rest[2] != 'Z' && rest[2] != 'X';
}

static void
wait_until_gone(pid_t pid, double seconds)
{
    double until = seconds_now() + seconds;
    while (alive(pid)) {
        ck_assert_msg(seconds_now() < until, "process %d lives on", (int)pid);
        if (client.wire) {
            client_turn(&client, 5);
        } else {
            (void)usleep(5000);
        }
    }
}

/* Until the job's stderr holds `lines' lines. */
static void
wait_for_lines(struct job *job, unsigned lines)
{
    double until = seconds_now() + 10;
    unsigned n = 0;
    while (n < lines) {
        n = 0;
        for (size_t i = 0; i < job->err_bytes; i++) {
            n += job->err[i] == '\n';
        }
        ck_assert_msg(seconds_now() < until, "%u of %u lines came", n, lines);
        if (n < lines) {
            client_turn(&client, 20);
        }
    }
}

static void
idle(double seconds)
{
    double until = seconds_now() + seconds;
    while (seconds_now() < until) {
        client_turn(&client, 10);
    }
}

static unsigned
count_fds(pid_t pid)
{
    char path[64];
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *list = opendir(path);
    ck_assert_ptr_nonnull(list);
    while (readdir(list)) {
        n++;
    }
    (void)closedir(list);
    return n;
}

/* ---- what a stage is given and gives -------------------------------------------- */

START_TEST(one_stage)
{
    static struct job job;
    job_shell(&job, &client, "echo out; echo err >&2; exit 3");
    job_run(&job);
    ck_assert_int_eq(job.status, 200);
    ck_assert_str_eq(job.out, "out\n");
    ck_assert_str_eq(job.err, "err\n");
    ck_assert_int_eq(job.exit, 3);
    ck_assert_int_eq(job.signal, -1);
    ck_assert_int_eq(job.out_told, 4);
    ck_assert_int_gt(job.cpu_ns, 0);
    job_free(&job);
}
END_TEST

START_TEST(its_own_death)
{
    static struct job job;
    job_shell(&job, &client, "kill -SEGV $$");
    job_run(&job);
    ck_assert_int_eq(job.signal, SIGSEGV);
    ck_assert_int_eq(job.exit, -1);
    job_free(&job);
}
END_TEST

START_TEST(environment_is_the_clients)
{
    static struct job job;
    static const struct fy_bytes env[] = {{"ONE=1", 5}, {"TWO=a\nb", 7}};
    const char *argv[] = {"/usr/bin/env", "-0", NULL};
    job_init(&job, &client, argv);
    job.spec.envc = 2;
    memcpy(job.spec.env, env, sizeof env);
    job_run(&job);
    ck_assert_uint_eq(job.out_bytes, 14);
    ck_assert_int_eq(memcmp(job.out, "ONE=1\0TWO=a\nb", 14), 0);
    job_free(&job);
}
END_TEST

START_TEST(argv0_and_folder)
{
    static struct job job;
    job_shell(&job, &client, "echo $0; pwd");
    job.spec.argv[0] = (struct fy_bytes){"-name", 5};
    job.spec.cwd = (struct fy_bytes){"/usr", 4};
    job_run(&job);
    ck_assert_str_eq(job.out, "-name\n/usr\n");
    job_free(&job);
}
END_TEST

START_TEST(signals_and_priority)
{
    static struct job job;
    job_shell(&job, &client, "grep -E 'Sig(Blk|Ign)' /proc/self/status; nice");
    job.spec.ignored = UINT64_C(1) << (SIGUSR1 - 1);
    job.spec.nice = 7;
    job_run(&job);
    ck_assert_str_eq(job.out, "SigBlk:\t0000000000000000\n"
                              "SigIgn:\t0000000000000200\n7\n");
    job_free(&job);
}
END_TEST

START_TEST(only_three_descriptors)
{
    static struct job job;
    const char *argv[] = {"/bin/ls", "/proc/self/fd", NULL};
    job_init(&job, &client, argv);
    job_run(&job);
    ck_assert_str_eq(job.out, "0\n1\n2\n3\n"); /* 3: ls reads the folder */
    job_free(&job);
}
END_TEST

START_TEST(closed_streams)
{
    static struct job job;
    job_shell(&job, &client,
              "test -e /proc/$$/fd/0; echo $?; "
              "test -e /proc/$$/fd/2; echo $?");
    job.spec.in.kind = job.spec.err.kind = FY_STREAM_CLOSED;
    job_run(&job);
    ck_assert_str_eq(job.out, "1\n1\n");
    job_free(&job);
}
END_TEST

START_TEST(same_keeps_the_order)
{
    static struct job job;
    job_shell(&job, &client,
              "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done");
    job.spec.err.kind = FY_STREAM_SAME;
    job_run(&job);
    ck_assert_str_eq(job.out, "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\no6\ne6\n"
                              "o7\ne7\no8\ne8\no9\ne9\n");
    job_free(&job);
}
END_TEST

START_TEST(no_output_at_all)
{
    static struct job job;
    job_shell(&job, &client, "echo lost; exit 5");
    job.spec.out.kind = FY_STREAM_NULL;
    job_begin(&job, false); /* the window stays closed */
    client_wait(&client, &job.ended, 10);
    ck_assert_int_eq(job.exit, 5);
    ck_assert_uint_eq(job.out_total, 0);
    job_free(&job);
}
END_TEST

/* ---- files ------------------------------------------------------------------------ */

START_TEST(files_and_offsets)
{
    static struct job job;
    FILE *file = fopen("in", "w");
    ck_assert_ptr_nonnull(file);
    (void)fputs("first\nsecond\nthird\n", file);
    (void)fclose(file);
    job_shell(&job, &client, "read line; echo got $line");
    job.spec.in.kind = FY_STREAM_FILE;
    job.spec.in.path = (struct fy_bytes){"in", 2};
    job.spec.in.offset = 6;
    job.spec.out.kind = FY_STREAM_FILE;
    job.spec.out.path = (struct fy_bytes){"out", 3};
    job.spec.out.flags = O_WRONLY | O_CREAT;
    job_run(&job);
    ck_assert_int_eq(job.exit, 0);
    ck_assert_int_eq(job.in_offset, 13);
    ck_assert_int_eq(job.out_offset, 11);
    char text[32] = "";
    file = fopen("out", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(text, 1, sizeof text, file), 11);
    (void)fclose(file);
    ck_assert_str_eq(text, "got second\n");
    job_free(&job);
}
END_TEST

START_TEST(touched_names_what_changed)
{
    static struct job job;
    struct fy_touched touched;
    ck_assert_int_eq(mkdir("old", 0700), 0);
    ck_assert_int_eq(close(creat("old/before", 0600)), 0);
    ck_assert_int_eq(close(creat("old/same", 0600)), 0);
    (void)usleep(50000);
    const char *argv[] = {"/usr/bin/touch", "old/before", "old/new", "old",
                          NULL};
    job_init(&job, &client, argv);
    job_run(&job);
    ck_assert_int_eq(job.exit, 0);
    job.out_bytes = 0;
    ck_assert_int_eq(job_get(&job, "touched"), 200);
    char *bytes = malloc(job.out_bytes + 1);
    memcpy(bytes, job.out, job.out_bytes + 1);
    ck_assert_int_eq(fy_touched_decode(bytes, job.out_bytes, &touched, NULL),
                     0);
    ck_assert(touched.complete);
    bool before = false, new = false, same = false, itself = false;
    for (uint32_t i = 0; i < touched.npaths; i++) {
        const char *name = touched.paths[i].at + strlen(folder);
        ck_assert(strncmp(touched.paths[i].at, folder, strlen(folder)) == 0);
        before |= strcmp(name, "/old/before") == 0;
        new |= strcmp(name, "/old/new") == 0;
        same |= strcmp(name, "/old/same") == 0;
        itself |= strcmp(name, "/old") == 0;
    }
    ck_assert(before && itself && !new && !same);
    fy_touched_clear(&touched);
    free(bytes);
    job_free(&job);
}
END_TEST

/* ---- windows and input --------------------------------------------------------------- */

START_TEST(output_larger_than_the_window)
{
    static struct job job;
    const char *argv[] = {"/usr/bin/head", "-c", "20000000", "/dev/zero", NULL};
    job_init(&job, &client, argv);
    job.discard = true;
    job_begin(&job, false);
    job_open(&job, 10000);
    client_wait(&client, &job.ended, 60);
    ck_assert_uint_eq(job.out_total, 20000000);
    ck_assert_int_eq(job.exit, 0);
    job_free(&job);
}
END_TEST

START_TEST(closed_window_holds_it_back)
{
    static struct job job;
    job_shell(&job, &client,
              "echo ready >&2; head -c 3000000 /dev/zero; echo done >&2");
    job.discard = true;
    job_begin(&job, false);
    wait_for_lines(&job, 1);
    idle(0.2);
    ck_assert_uint_eq(job.out_total, 0);
    ck_assert_str_eq(job.err, "ready\n"); /* it waits in its pipe */
    job_open(&job, 1 << 20);
    client_wait(&client, &job.ended, 20);
    ck_assert_uint_eq(job.out_total, 3000000);
    job_free(&job);
}
END_TEST

/* The end of an output that nobody asked for yet is kept with it. */
START_TEST(empty_output_waits_too)
{
    static struct job job;
    job_shell(&job, &client, "exit 4");
    job_begin(&job, false);
    idle(0.2);
    ck_assert(!job.ended);
    job_open(&job, 1000);
    client_wait(&client, &job.ended, 10);
    ck_assert_int_eq(job.exit, 4);
    job_free(&job);
}
END_TEST

/* All that was granted was used; the end needs no more window. */
START_TEST(exactly_the_window)
{
    static struct job job;
    job_shell(&job, &client, "printf 12345; sleep 0.1");
    job_begin(&job, false);
    ck_assert_int_eq(fy_wire_grant(client.wire, job.stream, 5), 0);
    client_wait(&client, &job.ended, 10);
    ck_assert_str_eq(job.out, "12345");
    ck_assert_int_eq(job.exit, 0);
    job_free(&job);
}
END_TEST

START_TEST(zstd_output)
{
    static struct job job;
    const char *argv[] = {"/usr/bin/seq", "100000", NULL};
    job_init(&job, &client, argv);
    job.spec.compress = true;
    job_run(&job);
    ck_assert_str_eq(job.encoding, "zstd");
    ck_assert_uint_lt(job.out_bytes, 588895 / 2);
    char *plain = malloc(1 << 20);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    ZSTD_inBuffer from = {job.out, job.out_bytes, 0};
    ZSTD_outBuffer to = {plain, 1 << 20, 0};
    ck_assert_uint_eq(ZSTD_decompressStream(context, &to, &from), 0);
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
    double until = seconds_now() + 300;
    while (bytes && !job->ended) {
        size_t n = fy_wire_room(client.wire, job->stream);
        n = n < sizeof block ? n : sizeof block;
        n = n < bytes ? n : (size_t)bytes;
        if (n) {
            ck_assert_int_eq(fy_wire_send(client.wire, job->stream, block, n),
                             0);
            bytes -= n;
        }
        client_turn(&client, n ? 0 : 50);
        ck_assert_msg(seconds_now() < until, "it takes too long");
    }
    if (!job->ended) {
        ck_assert_int_eq(fy_wire_finish(client.wire, job->stream, NULL, 0), 0);
    }
}

START_TEST(a_gigabyte_of_input)
{
    static struct job job;
    const char *argv[] = {"/usr/bin/wc", "-c", NULL};
    job_init(&job, &client, argv);
    job.spec.in.kind = FY_STREAM_WIRE;
    job_begin(&job, true);
    job_open(&job, 1 << 20);
    feed(&job, 1000000000);
    client_wait(&client, &job.ended, 60);
    ck_assert_str_eq(job.out, "1000000000\n");
    ck_assert_int_eq(job.in_bytes, 1000000000);
    job_free(&job);
}
END_TEST

START_TEST(through_cat)
{
    static struct job job;
    const char *argv[] = {"/bin/cat", NULL};
    job_init(&job, &client, argv);
    job.spec.in.kind = FY_STREAM_WIRE;
    job.discard = true;
    job_begin(&job, true);
    job_open(&job, 100000);
    feed(&job, 50000000);
    client_wait(&client, &job.ended, 60);
    ck_assert_uint_eq(job.out_total, 50000000);
    job_free(&job);
}
END_TEST

/* What it did not read is not counted as read. */
START_TEST(input_that_is_not_wanted)
{
    static struct job job;
    const char *argv[] = {"/usr/bin/head", "-c", "1000", NULL};
    job_init(&job, &client, argv);
    job.spec.in.kind = FY_STREAM_WIRE;
    job_begin(&job, true);
    job_open(&job, 1 << 20);
    feed(&job, 100000000);
    client_wait(&client, &job.ended, 20);
    ck_assert_uint_eq(job.out_total, 1000);
    ck_assert_int_eq(job.exit, 0);
    ck_assert_int_ge(job.in_bytes, 1000);
    ck_assert_int_le(job.in_bytes, 1 << 20);
    job_free(&job);
}
END_TEST

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
    job_init(&yes, &client, yes_argv);
    job_init(&head, &client, head_argv);
    link_to(&head, &yes);
    job_begin(&yes, false);
    job_run(&head);
    client_wait(&client, &yes.ended, 10);
    ck_assert_str_eq(head.out, "y\n");
    ck_assert_int_eq(head.exit, 0);
    ck_assert_int_eq(yes.signal, SIGPIPE);
    ck_assert_uint_eq(yes.out_total, 0);
    ck_assert_int_gt(yes.out_told, 0);
    job_free(&yes);
    job_free(&head);
}
END_TEST

/* The two ends are one pipe of the kernel, and the proxy holds neither. */
START_TEST(a_link_is_a_pipe)
{
    static struct job one, two;
    job_shell(&one, &client, "readlink /proc/$$/fd/1; sleep 0.5");
    job_shell(&two, &client, "readlink /proc/$$/fd/0; cat");
    link_to(&two, &one);
    unsigned before = count_fds(client.proxy);
    job_begin(&one, false);
    job_begin(&two, false);
    job_open(&two, 1000);
    while (two.out_bytes < 20) {
        client_turn(&client, 20);
    }
    /* Of each stage: stderr; of the second: stdout. */
    ck_assert_uint_eq(count_fds(client.proxy), before + 3);
    client_wait(&client, &two.ended, 10);
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
    job_shell(&jobs[0], &client, "seq 100000");
    job_shell(&jobs[1], &client, "grep 7");
    job_shell(&jobs[2], &client, "sort -rn");
    job_shell(&jobs[3], &client, "head -n 3; cat >/dev/null; exit 9");
    /* The last first: it waits for those before it. */
    for (int i = 3; i >= 0; i--) {
        if (i > 0) {
            link_to(&jobs[i], &jobs[i - 1]);
        }
        job_begin(&jobs[i], false);
    }
    job_open(&jobs[3], 1000);
    for (int i = 0; i < 4; i++) {
        client_wait(&client, &jobs[i].ended, 20);
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
    job_shell(&one, &client, "echo late");
    job_shell(&two, &client, "cat");
    link_to(&two, &one);
    job_begin(&one, false);
    idle(0.2);
    job_run(&two);
    client_wait(&client, &one.ended, 10);
    ck_assert_str_eq(two.out, "late\n");
    ck_assert_int_eq(one.exit, 0);
    job_free(&one);
    job_free(&two);
}
END_TEST

START_TEST(link_that_is_refused_gives_back)
{
    static struct job one, two;
    const char *argv[] = {"/nowhere/cat", NULL};
    job_shell(&one, &client, "echo kept");
    job_init(&two, &client, argv);
    link_to(&two, &one);
    job_begin(&one, false);
    job_begin(&two, false);
    client_wait(&client, &two.ended, 10);
    ck_assert_int_eq(two.status, 409);
    ck_assert_str_eq(two.reason, "other-tool");
    ck_assert(!one.ended);
    job_open(&one, 1000);
    client_wait(&client, &one.ended, 10);
    ck_assert_str_eq(one.out, "kept\n");
    job_free(&one);
    job_free(&two);
}
END_TEST

START_TEST(link_that_comes_too_late)
{
    static struct job one, two, three;
    job_shell(&one, &client, "echo here; sleep 1");
    job_begin(&one, false);
    job_open(&one, 1000);
    while (one.out_bytes == 0) {
        client_turn(&client, 20);
    }
    job_shell(&two, &client, "cat");
    link_to(&two, &one);
    job_run(&two);
    ck_assert_int_eq(two.status, 409);
    ck_assert_str_eq(two.reason, "odd-stream");
    job_shell(&three, &client, "cat");
    three.spec.in.kind = FY_STREAM_LINK;
    three.spec.in.stage = 1234;
    job_run(&three);
    ck_assert_int_eq(three.status, 409);
    client_wait(&client, &one.ended, 10);
    ck_assert_str_eq(one.out, "here\n");
    job_free(&one);
    job_free(&two);
    job_free(&three);
}
END_TEST

/* ---- terminals ---------------------------------------------------------------------------- */

START_TEST(a_terminal)
{
    static struct job job;
    job_shell(&job, &client,
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

START_TEST(only_stdout_is_a_terminal)
{
    static struct job job;
    job_shell(&job, &client,
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
    job_shell(&job, &client,
              "trap 'stty size <&1; exit' WINCH; echo ready >&2; "
              "while :; do sleep 0.05; done");
    job.spec.out.kind = FY_STREAM_PTY;
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    ck_assert_int_eq(job_get(&job, "window?rows=11&columns=22"), 200);
    client_wait(&client, &job.ended, 10);
    ck_assert_str_eq(job.out, "11 22\n");
    job_free(&job);
}
END_TEST

START_TEST(large_output_of_a_terminal)
{
    static struct job job;
    job_shell(&job, &client, "seq 50000");
    job.spec.out.kind = FY_STREAM_PTY;
    job_run(&job);
    ck_assert_uint_eq(job.out_bytes, 288894);
    ck_assert_int_eq(memcmp(job.out + 288888, "50000\n", 6), 0);
    job_free(&job);
}
END_TEST

/* ---- ends ----------------------------------------------------------------------------------- */

START_TEST(cancel_ends_it)
{
    static struct job job;
    job_shell(&job, &client, "echo $$ >&2; exec yes");
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    fy_wire_cancel(client.wire, job.stream);
    wait_until_gone((pid_t)strtol(job.err, NULL, 10), 5);
    job_free(&job);
}
END_TEST

/* One that obeys nothing and hides its children. */
START_TEST(cancel_ends_the_stubborn)
{
    static struct job job;
    job_shell(&job, &client,
              "trap '' TERM HUP PIPE INT; setsid sleep 100 & echo $! >&2; "
              "echo $$ >&2; while :; do sleep 0.1; done");
    job_begin(&job, false);
    wait_for_lines(&job, 2);
    char *rest;
    pid_t hidden = (pid_t)strtol(job.err, &rest, 10);
    pid_t shell = (pid_t)strtol(rest, NULL, 10);
    fy_wire_cancel(client.wire, job.stream);
    wait_until_gone(shell, 5);
    wait_until_gone(hidden, 5);
    job_free(&job);
}
END_TEST

/* An input that ends because the client went is no end of input. */
START_TEST(no_false_end_of_input)
{
    static struct job job;
    job_shell(&job, &client, "echo $$ >&2; cat >/dev/null; touch whole");
    job.spec.in.kind = FY_STREAM_WIRE;
    job_begin(&job, true);
    wait_for_lines(&job, 1);
    fy_wire_cancel(client.wire, job.stream);
    wait_until_gone((pid_t)strtol(job.err, NULL, 10), 5);
    ck_assert_int_ne(access("whole", F_OK), 0);
    job_free(&job);
}
END_TEST

START_TEST(signals_reach_the_group)
{
    static struct job job;
    job_shell(&job, &client, "sleep 100 & echo $! >&2; wait");
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    ck_assert_int_eq(job_get(&job, "signal?2"), 200);
    ck_assert_int_eq(job_get(&job, "signal?15"), 200);
    client_wait(&client, &job.ended, 10);
    ck_assert(job.signal == SIGTERM || job.signal == SIGINT);
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

START_TEST(stop_and_continue)
{
    static struct job job;
    job_shell(&job, &client, "echo $$ >&2; exec sleep 100");
    job_begin(&job, false);
    job_open(&job, 1000);
    wait_for_lines(&job, 1);
    pid_t pid = (pid_t)strtol(job.err, NULL, 10);
    ck_assert_int_eq(job_get(&job, "signal?20"), 200);
    (void)usleep(20000);
    ck_assert_int_eq(state_of(pid), 'T');
    ck_assert_int_eq(job_get(&job, "signal?18"), 200);
    (void)usleep(20000);
    ck_assert_int_eq(state_of(pid), 'S');
    ck_assert_int_eq(job_get(&job, "signal?9"), 200);
    client_wait(&client, &job.ended, 10);
    ck_assert_int_eq(job.signal, SIGKILL); /* the client asked for it */
    job_free(&job);
}
END_TEST

/* Killed by neither side: that is not how the command ends here. */
START_TEST(killed_from_outside)
{
    static struct job job, reader;
    job_shell(&job, &client, "echo $$ >&2; exec sleep 100");
    job_shell(&reader, &client, "cat; sleep 0.1");
    link_to(&reader, &job);
    job_begin(&job, false);
    job_begin(&reader, false);
    job_open(&reader, 1000);
    wait_for_lines(&job, 1);
    ck_assert_int_eq(kill((pid_t)strtol(job.err, NULL, 10), SIGKILL), 0);
    client_wait(&client, &job.ended, 10);
    client_wait(&client, &reader.ended, 10);
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
        job_shell(&jobs[i], &client,
                  "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 100' & "
                  "echo $! >&2; echo $$ >&2; while :; do sleep 1; done");
        job_begin(&jobs[i], false);
        wait_for_lines(&jobs[i], 2);
        char *rest;
        pids[2 * i] = (pid_t)strtol(jobs[i].err, &rest, 10);
        pids[2 * i + 1] = (pid_t)strtol(rest, NULL, 10);
    }
    ck_assert_uint_gt(client_descendants(&client), 5);
    ck_assert_int_eq(client_end(&client), 0);
    for (int i = 0; i < 6; i++) {
        ck_assert(!alive(pids[i]));
    }
    for (int i = 0; i < 3; i++) {
        job_free(&jobs[i]);
    }
    start();
}
END_TEST

START_TEST(killed_proxy_takes_them_along)
{
    static struct job job;
    job_shell(&job, &client, "echo $$ >&2; exec sleep 100");
    job_begin(&job, false);
    wait_for_lines(&job, 1);
    pid_t pid = (pid_t)strtol(job.err, NULL, 10);
    ck_assert_int_eq(kill(client.proxy, SIGKILL), 0);
    (void)client_end(&client);
    wait_until_gone(pid, 2);
    job_free(&job);
    start();
}
END_TEST

START_TEST(a_hundred_stages)
{
    static struct job jobs[100];
    unsigned before = count_fds(client.proxy);
    for (int i = 0; i < 100; i++) {
        char script[64];
        (void)snprintf(script, sizeof script, "seq 1000; exit %d", i);
        job_shell(&jobs[i], &client, script);
        job_begin(&jobs[i], false);
        job_open(&jobs[i], 500);
    }
    for (int i = 0; i < 100; i++) {
        client_wait(&client, &jobs[i].ended, 30);
        client_wait(&client, &jobs[i].err_ended, 30);
        ck_assert_int_eq(jobs[i].exit, i);
        ck_assert_uint_eq(jobs[i].out_total, 3893);
        job_free(&jobs[i]);
    }
    idle(0.1);
    ck_assert_uint_eq(count_fds(client.proxy), before);
    ck_assert_uint_eq(client_descendants(&client), 0);
}
END_TEST

/* Cancelled at every moment of their lives. */
START_TEST(cancelled_stages_leave_nothing)
{
    static struct job jobs[60];
    unsigned before = count_fds(client.proxy);
    for (int i = 0; i < 60; i++) {
        job_shell(&jobs[i], &client, "sleep 0.01; seq 100000; sleep 30");
        if (i % 3 == 2) {
            link_to(&jobs[i], &jobs[i - 1]);
        }
        job_begin(&jobs[i], i % 5 == 0);
        for (int turn = 0; turn < i % 7; turn++) {
            client_turn(&client, 2);
        }
        if (!jobs[i].closed) {
            fy_wire_cancel(client.wire, jobs[i].stream);
        }
    }
    double until = seconds_now() + 10;
    while (client_descendants(&client) || count_fds(client.proxy) != before) {
        ck_assert_msg(seconds_now() < until, "%u processes, %u descriptors",
                      client_descendants(&client),
                      count_fds(client.proxy) - before);
        client_turn(&client, 20);
    }
    for (int i = 0; i < 60; i++) {
        job_free(&jobs[i]);
    }
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------- */

static void
refused(const char *path, const char *argument, int status, const char *reason)
{
    static struct job jobs[8];
    static unsigned used;
    struct job *job = &jobs[used++];
    const char *argv[] = {path, argument, NULL};
    job_init(job, &client, argv);
    job_run(job);
    client_wait(&client, &job->err_ended, 10);
    ck_assert_int_eq(job->status, status);
    ck_assert_str_eq(job->reason, reason);
    ck_assert_int_eq(job->exit, -1);
    ck_assert(!strchr(job->why, '\n'));
    job_free(job);
}

START_TEST(refusals)
{
    refused("/sbin/reboot", NULL, 403, "not-annotated");
    refused("/bin/cat", "--unknown", 403, "not-parsed");
    refused("/bin/cat", "--never", 403, "forbidden");
    refused("/nowhere/cat", NULL, 409, "other-tool");
}
END_TEST

START_TEST(refused_by_confinement)
{
    static struct job job;
    (void)client_end(&client);
    double_rules.refuse_tool = "true";
    start();
    const char *argv[] = {"/bin/true", NULL};
    job_init(&job, &client, argv);
    job_run(&job);
    ck_assert_int_eq(job.status, 403);
    ck_assert_str_eq(job.reason, "other-tool");
    ck_assert_str_eq(job.why, "another?version");
    job_free(&job);
}
END_TEST

static void
restart(struct fy_proxy_options options)
{
    (void)client_end(&client);
    client_start(&client, &options);
}

START_TEST(too_many_stages)
{
    static struct job one, two, three;
    restart((struct fy_proxy_options){.stages_max = 1});
    job_shell(&one, &client, "sleep 100");
    job_begin(&one, false);
    job_shell(&two, &client, "echo no");
    job_run(&two);
    ck_assert_int_eq(two.status, 503);
    ck_assert_str_eq(two.reason, "busy");
    ck_assert_int_eq(job_get(&one, "signal?15"), 200);
    job_open(&one, 100);
    client_wait(&client, &one.ended, 10);
    client_wait(&client, &one.err_ended, 10);
    job_shell(&three, &client, "echo yes");
    job_run(&three);
    ck_assert_str_eq(three.out, "yes\n");
    job_free(&one);
    job_free(&two);
    job_free(&three);
}
END_TEST

START_TEST(too_long_and_too_large)
{
    static struct job one, two;
    restart((struct fy_proxy_options){
        .stages_max = 10, .seconds = 0.3, .memory_bytes = 100 << 20});
    job_shell(&one, &client, "sleep 100");
    job_run(&one);
    ck_assert_str_eq(one.reason, "limits");
    ck_assert_int_eq(one.exit, -1);
    ck_assert_int_eq(one.signal, -1);
    restart(
        (struct fy_proxy_options){.stages_max = 10, .memory_bytes = 100 << 20});
    job_shell(&two, &client,
              "head -c 300000000 /dev/zero | tail -c 250000000 "
              "| sleep 20");
    job_run(&two);
    ck_assert_str_eq(two.reason, "limits");
    job_free(&one);
    job_free(&two);
}
END_TEST

/* ---- the rest of the protocol ------------------------------------------------------------------- */

/* A small POST; its answer's status, the body in job->out. */
static int
post(struct job *job, const char *path, const char *bytes, size_t n)
{
    job->small_ended = false;
    job->small_status = 0;
    ck_assert_int_eq(
        fy_wire_request(client.wire, path, true, job, &job->small_stream), 0);
    ck_assert_int_eq(fy_wire_send(client.wire, job->small_stream, bytes, n), 0);
    ck_assert_int_eq(fy_wire_finish(client.wire, job->small_stream, NULL, 0),
                     0);
    ck_assert_int_eq(fy_wire_grant(client.wire, job->small_stream, 1 << 20), 0);
    client_wait(&client, &job->small_ended, 10);
    return job->small_status;
}

START_TEST(hello)
{
    static struct job job;
    struct fy_hello mine = {.version = FY_PROTOCOL_VERSION}, its;
    struct fy_bytes *names[] = {&mine.ferry,  &mine.user,    &mine.host,
                                &mine.kernel, &mine.machine, &mine.unpaired};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *names[i] = (struct fy_bytes){"x", 1};
    }
    char *bytes;
    size_t n;
    job.stream = job.err_stream = -1;
    ck_assert_int_eq(fy_hello_encode(&mine, &bytes, &n), 0);
    ck_assert_int_eq(post(&job, "/hello", bytes, n), 200);
    free(bytes);
    ck_assert_int_eq(fy_hello_decode(job.out, job.out_bytes, &its, NULL), 0);
    ck_assert_uint_eq(its.version, FY_PROTOCOL_VERSION);
    ck_assert_uint_eq(its.uid, geteuid());
    ck_assert_uint_gt(its.cores, 0);
    ck_assert(its.speed > 1e7);
    ck_assert_uint_eq(its.landlock, 7);
    ck_assert_uint_eq(its.stages_max, 200);
    free(job.out);
    memset(&job, 0, sizeof job);
}
END_TEST

START_TEST(probing)
{
    static struct job job;
    struct fy_probe probe = {.npaths = 2, .tree = true};
    struct fy_bytes paths[] = {{"tree", 4}, {"/elsewhere/x", 12}};
    struct fy_probe_result result;
    ck_assert_int_eq(system("mkdir -p tree/a/b && printf 12345 > tree/a/f && "
                            "printf 678 > tree/a/b/g && ln -s / tree/out"),
                     0);
    probe.mount = (struct fy_bytes){"/mnt/x", 6};
    probe.cwd = (struct fy_bytes){"/mnt/x", 6};
    probe.root = (struct fy_bytes){folder, strlen(folder)};
    probe.paths = paths;
    for (int round = 0; round < 2; round++) {
        char *bytes;
        size_t n;
        probe.npaths = round == 0 ? 1 : 2;
        job.stream = job.err_stream = -1;
        ck_assert_int_eq(fy_probe_encode(&probe, &bytes, &n), 0);
        ck_assert_int_eq(post(&job, "/probe", bytes, n), 200);
        free(bytes);
        ck_assert_int_eq(
            fy_probe_result_decode(job.out, job.out_bytes, &result, NULL), 0);
        ck_assert_uint_eq(result.bytes, 8);
        ck_assert_uint_eq(result.files, 6);
        ck_assert_int_eq(result.complete, round == 0);
        free(job.out);
        memset(&job, 0, sizeof job);
    }
}
END_TEST

START_TEST(nonsense_harms_nobody)
{
    static struct job good, bad;
    job_shell(&good, &client, "sleep 0.3; echo fine");
    job_begin(&good, false);
    job_open(&good, 1000);
    bad.stream = bad.err_stream = -1;
    ck_assert_int_eq(post(&bad, "/stage", "\0\0\0\4junk", 8), 400);
    ck_assert_int_eq(post(&bad, "/stage", "\377\377\377\377junk", 8), 400);
    ck_assert_int_eq(post(&bad, "/stage", "\0\0\0\0", 4), 400);
    ck_assert_int_eq(post(&bad, "/stage", "\0\0", 2), 400);
    ck_assert_int_eq(post(&bad, "/stage", "\0\0\0\50junk", 8), 400);
    ck_assert_int_eq(post(&bad, "/hello", "junk", 4), 400);
    ck_assert_int_eq(post(&bad, "/probe", "", 0), 400);
    ck_assert_int_eq(post(&bad, "/elsewhere", "", 0), 404);
    client_wait(&client, &good.ended, 10);
    ck_assert_str_eq(good.out, "fine\n");
    ck_assert_int_eq(job_get(&good, "elsewhere"), 404);
    free(bad.out);
    memset(&bad, 0, sizeof bad);
    job_free(&good);
}
END_TEST

START_TEST(two_of_one_number)
{
    static struct job one, two;
    job_shell(&one, &client, "sleep 0.2; echo one");
    job_shell(&two, &client, "echo two");
    two.spec.stage = one.spec.stage;
    two.spec.err.kind = FY_STREAM_NULL;
    job_begin(&one, false);
    job_run(&two);
    ck_assert_int_eq(two.status, 400);
    job_open(&one, 100);
    client_wait(&client, &one.ended, 10);
    ck_assert_str_eq(one.out, "one\n");
    job_free(&one);
    job_free(&two);
}
END_TEST

static Suite *
suite(void)
{
    Suite *all = suite_create("server");
    TCase *stages = tcase_create("stages");
    tcase_add_checked_fixture(stages, start, end);
    tcase_set_timeout(stages, 60);
    tcase_add_test(stages, one_stage);
    tcase_add_test(stages, its_own_death);
    tcase_add_test(stages, environment_is_the_clients);
    tcase_add_test(stages, argv0_and_folder);
    tcase_add_test(stages, signals_and_priority);
    tcase_add_test(stages, only_three_descriptors);
    tcase_add_test(stages, closed_streams);
    tcase_add_test(stages, same_keeps_the_order);
    tcase_add_test(stages, no_output_at_all);
    tcase_add_test(stages, output_larger_than_the_window);
    tcase_add_test(stages, closed_window_holds_it_back);
    tcase_add_test(stages, empty_output_waits_too);
    tcase_add_test(stages, exactly_the_window);
    tcase_add_test(stages, zstd_output);
    tcase_add_test(stages, a_gigabyte_of_input);
    tcase_add_test(stages, through_cat);
    tcase_add_test(stages, input_that_is_not_wanted);
    tcase_add_test(stages, yes_head);
    tcase_add_test(stages, a_link_is_a_pipe);
    tcase_add_test(stages, chain_of_four);
    tcase_add_test(stages, link_to_one_that_ended);
    tcase_add_test(stages, link_that_is_refused_gives_back);
    tcase_add_test(stages, link_that_comes_too_late);
    tcase_add_test(stages, a_terminal);
    tcase_add_test(stages, only_stdout_is_a_terminal);
    tcase_add_test(stages, window_changes);
    tcase_add_test(stages, large_output_of_a_terminal);
    tcase_add_test(stages, cancel_ends_it);
    tcase_add_test(stages, cancel_ends_the_stubborn);
    tcase_add_test(stages, signals_reach_the_group);
    tcase_add_test(stages, stop_and_continue);
    tcase_add_test(stages, killed_from_outside);
    tcase_add_test(stages, lost_connection_ends_all);
    tcase_add_test(stages, killed_proxy_takes_them_along);
    tcase_add_test(stages, a_hundred_stages);
    tcase_add_test(stages, cancelled_stages_leave_nothing);
    tcase_add_test(stages, refusals);
    tcase_add_test(stages, refused_by_confinement);
    tcase_add_test(stages, too_many_stages);
    tcase_add_test(stages, too_long_and_too_large);
    tcase_add_test(stages, hello);
    tcase_add_test(stages, nonsense_harms_nobody);
    tcase_add_test(stages, two_of_one_number);
    suite_add_tcase(all, stages);
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, start_in_folder, end_in_folder);
    tcase_set_timeout(files, 30);
    tcase_add_test(files, files_and_offsets);
    tcase_add_test(files, touched_names_what_changed);
    tcase_add_test(files, no_false_end_of_input);
    tcase_add_test(files, probing);
    suite_add_tcase(all, files);
    return all;
}

int
main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
