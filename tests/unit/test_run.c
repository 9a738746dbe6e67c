/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stage of the proxy is given, and what comes of it: descriptors,
 * environment, signals, files.
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

#include "proxy/server/run.h"
#include "proxy/wire/process.h"
#include "tests/unit/proxy_client.h"
#include "tests/unit/runner.h"

/* ---- what a stage is given and gives -------------------------------------------- */

START_TEST(one_stage)
{
    static struct job job;
    job_shell(&job, &shared, "echo out; echo err >&2; exit 3");
    job_run(&job);
    ck_assert_int_eq(job.status, 200);
    ck_assert_str_eq(job.out, "out\n");
    ck_assert_str_eq(job.err, "err\n");
    ck_assert_int_eq(job.exit, 3);
    ck_assert_int_eq(job.signal, -1);
    ck_assert_int_eq(job.out_told, 4);
    job_free(&job);
}
END_TEST

START_TEST(its_own_death)
{
    static struct job job;
    job_shell(&job, &shared, "kill -SEGV $$");
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
    job_init(&job, &shared, argv);
    job.spec.envc = 2;
    memcpy(job.spec.env, env, sizeof env);
    job_run(&job);
    ck_assert_uint_eq(job.out_bytes, 14);
    ck_assert_int_eq(memcmp(job.out, "ONE=1\0TWO=a\nb", 14), 0);
    job_free(&job);
}
END_TEST

START_TEST(but_for_temporary_files)
{
    static struct job job;
    static const struct fy_bytes env[] = {
        {"TMPDIR=/x", 9}, {"A=1", 3}, {"LD_LIBRARY_PATH=/lib", 20}};
    const char *argv[] = {"/usr/bin/env", NULL};
    (void)client_end(&shared);
    double_rules.tmpdir = "/elsewhere";
    fixture_start();
    for (uint32_t had = 0; had < 2; had++) {
        job_init(&job, &shared, argv);
        job.spec.envc = 2;
        job.spec.env[0] = env[2]; /* the linker's search path: not there */
        job.spec.env[1] = env[had];
        job_run(&job);
        ck_assert_str_eq(job.out, had == 0 ? "TMPDIR=/elsewhere\n"
                                           : "A=1\nTMPDIR=/elsewhere\n");
        job_free(&job);
    }
}
END_TEST

START_TEST(argv0_and_folder)
{
    static struct job job;
    job_shell(&job, &shared, "echo $0; pwd");
    job.spec.argv[0] = (struct fy_bytes){"-name", 5};
    job.spec.cwd = (struct fy_bytes){"/usr", 4};
    job_run(&job);
    ck_assert_str_eq(job.out, "-name\n/usr\n");
    job_free(&job);
}
END_TEST

START_TEST(signals)
{
    static struct job job;
    job_shell(&job, &shared, "grep -E 'Sig(Blk|Ign)' /proc/self/status");
    job.spec.ignored = UINT64_C(1) << (SIGUSR1 - 1);
    job_run(&job);
    ck_assert_str_eq(job.out, "SigBlk:\t0000000000000000\n"
                              "SigIgn:\t0000000000000200\n");
    job_free(&job);
}
END_TEST

static pid_t
leads_a_session(void)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        /* nohup(1) may have started this, and Check kills the test by its handler. */
        (void)signal(SIGHUP, SIG_DFL);
        (void)signal(SIGALRM, SIG_DFL);
        (void)setsid();
        alarm(60);
        for (;;) {
            pause();
        }
    }
    while (getsid(child) != child) {
        (void)usleep(1000);
    }
    return child;
}

/* The last number, too; and never a process that only has the number now. */
START_TEST(descendants_get_signals)
{
    static const int each[] = {SIGHUP, SIGKILL, 63, 64};
    int status;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        pid_t child = leads_a_session();
        ck_assert_uint_eq(fy_descendants_signal(getpid(), child, each[i]), 1);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == each[i]);
    }
    char path[32];
    struct fy_process process;
    pid_t child = leads_a_session();
    (void)snprintf(path, sizeof path, "/proc/%d", (int)child);
    ck_assert(fy_process_read(AT_FDCWD, path, &process));
    process.pid = child; /* of a path it is not told */
    process.start--;
    fy_process_signal(&process, UINT64_C(1) << (SIGKILL - 1));
    (void)usleep(20000);
    ck_assert_int_eq(waitpid(child, &status, WNOHANG), 0);
    process.start++;
    fy_process_signal(&process, UINT64_C(1) << (SIGKILL - 1));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
}
END_TEST

START_TEST(only_three_descriptors)
{
    static struct job job;
    const char *argv[] = {"/bin/ls", "/proc/self/fd", NULL};
    job_init(&job, &shared, argv);
    job_run(&job);
    ck_assert_str_eq(job.out,
                     "0\n1\n2\n3\n"); /* 3: ls reads the client_folder */
    job_free(&job);
}
END_TEST

START_TEST(closed_streams)
{
    static struct job job;
    job_shell(&job, &shared,
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
    job_shell(&job, &shared,
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
    job_shell(&job, &shared, "echo lost; exit 5");
    job.spec.out.kind = FY_STREAM_NULL;
    job_begin(&job, false); /* the window stays closed */
    client_wait(&shared, &job.ended, 10);
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
    job_shell(&job, &shared, "read line; echo got $line");
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

/* Copies of the command are one stage: to the client, and to a cancel. */
START_TEST(copies)
{
    static struct job jobs[2];
    ck_assert_int_eq(system("seq 6000000 > in"), 0); /* 46 MB */
    const char *argv[] = {"/bin/grep", "-c", "7", NULL};
    for (int i = 0; i < 2; i++) {
        job_init(&jobs[i], &shared, argv);
        jobs[i].spec.copies = 4;
        jobs[i].spec.in.kind = FY_STREAM_FILE;
        jobs[i].spec.in.path = (struct fy_bytes){"in", 2};
    }
    job_run(&jobs[0]);
    ck_assert_str_eq(jobs[0].out, "2811354\n");
    ck_assert_int_eq(jobs[0].exit, 0);
    job_begin(&jobs[1], false);
    double until = patient_until(10);
    while (client_descendants(&shared) == 0 && !jobs[1].ended) {
        ck_assert(seconds_now() < until);
        client_turn(&shared, 1);
    }
    fy_wire_cancel(shared.wire, jobs[1].stream);
    while (client_descendants(&shared)) {
        ck_assert(seconds_now() < until);
        client_turn(&shared, 10);
    }
    job_free(&jobs[0]);
    job_free(&jobs[1]);
}
END_TEST

/* Copies, which are never exec'd, hold no end of a pipe that is not theirs. */
START_TEST(copies_meet_sigpipe)
{
    static struct job tr, head;
    const char *tr_argv[] = {"/usr/bin/tr", "\\0", "\\n", NULL};
    const char *head_argv[] = {"/usr/bin/head", "-n", "1", NULL};
    ck_assert_int_eq(system("seq 6000000 > in"), 0);
    job_init(&tr, &shared, tr_argv);
    tr.spec.copies = 4;
    tr.spec.in.kind = FY_STREAM_FILE;
    tr.spec.in.path = (struct fy_bytes){"in", 2};
    job_init(&head, &shared, head_argv);
    head.spec.in.kind = FY_STREAM_LINK;
    head.spec.in.stage = tr.spec.stage;
    job_begin(&tr, false);
    job_run(&head);
    ck_assert_str_eq(head.out, "1\n");
    client_wait(&shared, &tr.ended, 10);
    ck_assert_int_eq(tr.signal, SIGPIPE);
    job_free(&tr);
    job_free(&head);
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
    job_init(&job, &shared, argv);
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
        const char *name = touched.paths[i].at + strlen(client_folder);
        ck_assert(strncmp(touched.paths[i].at, client_folder,
                          strlen(client_folder)) == 0);
        before |= strcmp(name, "/old/before") == 0;
        new |= strcmp(name, "/old/new") == 0;
        same |= strcmp(name, "/old/same") == 0;
        itself |= strcmp(name, "/old") == 0;
    }
    ck_assert(before && itself && new && !same);
    fy_touched_clear(&touched);
    free(bytes);
    job_free(&job);
}
END_TEST

/* What is behind a link, by its real name as well. */
START_TEST(touched_names_what_is_behind_links)
{
    static struct job job;
    struct fy_touched touched;
    ck_assert_int_eq(mkdir("real", 0700), 0);
    ck_assert_int_eq(mkdir("real/below", 0700), 0);
    ck_assert_int_eq(symlink("real/below", "short"), 0);
    (void)usleep(50000);
    const char *argv[] = {"/usr/bin/touch", "short/new", NULL};
    job_init(&job, &shared, argv);
    job_run(&job);
    ck_assert_int_eq(job.exit, 0);
    job.out_bytes = 0;
    ck_assert_int_eq(job_get(&job, "touched"), 200);
    char *bytes = malloc(job.out_bytes + 1);
    memcpy(bytes, job.out, job.out_bytes + 1);
    ck_assert_int_eq(fy_touched_decode(bytes, job.out_bytes, &touched, NULL),
                     0);
    ck_assert(touched.complete);
    bool spelled = false, real = false, folder = false;
    for (uint32_t i = 0; i < touched.npaths; i++) {
        const char *name = touched.paths[i].at + strlen(client_folder);
        spelled |= strcmp(name, "/short/new") == 0;
        real |= strcmp(name, "/real/below/new") == 0;
        folder |= strcmp(name, "/real/below") == 0;
    }
    ck_assert(spelled && real && folder);
    fy_touched_clear(&touched);
    free(bytes);
    job_free(&job);
}
END_TEST

/* Of a command that may change them: of folders and files. */
START_TEST(touched_tells_owners)
{
    static struct job job;
    struct fy_touched touched;
    ck_assert_int_eq(mkdir("from", 0700), 0);
    ck_assert_int_eq(mkdir("to", 0700), 0);
    ck_assert_int_eq(close(creat("from/file", 0600)), 0);
    const char *kept[] = {"/usr/bin/cp", "-p", "from/file", "to", NULL};
    const char *plain[] = {"/usr/bin/cp", "from/file", "to", NULL};
    for (int i = 0; i < 2; i++) {
        (void)usleep(
            50000); /* the kernel's clock of files has a tick of 10 ms at most */
        job_init(&job, &shared, i ? plain : kept);
        job_run(&job);
        ck_assert_int_eq(job.exit, 0);
        job.out_bytes = 0;
        ck_assert_int_eq(job_get(&job, "touched"), 200);
        char *bytes = malloc(job.out_bytes + 1);
        memcpy(bytes, job.out, job.out_bytes + 1);
        ck_assert_int_eq(
            fy_touched_decode(bytes, job.out_bytes, &touched, NULL), 0);
        bool told = false, file = false;
        for (uint32_t k = 0; k < touched.nfolders; k++) {
            const char *name =
                touched.folders[k].path.at + strlen(client_folder);
            ck_assert_uint_eq(touched.folders[k].uid, getuid());
            told |= strcmp(name, "/to") == 0;
            file |= strcmp(name, "/to/file") == 0;
        }
        ck_assert(told == !i && file == told && (touched.nfolders > 0) == told);
        fy_touched_clear(&touched);
        free(bytes);
        job_free(&job);
    }
}
END_TEST

START_TEST(touched_looks_upwards)
{
    static struct job job;
    struct fy_touched touched;
    char cwd[96], wanted[96];
    ck_assert_int_eq(mkdir("tree", 0700), 0);
    ck_assert_int_eq(mkdir("tree/.above", 0700), 0);
    ck_assert_int_eq(mkdir("tree/a", 0700), 0);
    ck_assert_int_eq(mkdir("tree/a/b", 0700), 0);
    (void)snprintf(cwd, sizeof cwd, "%s/tree/a/b", client_folder);
    (void)snprintf(wanted, sizeof wanted, "%s/tree/.above/index",
                   client_folder);
    const char *argv[] = {"/usr/bin/install", "/dev/null", "../../.above/index",
                          NULL};
    job_init(&job, &shared, argv);
    job.spec.cwd = (struct fy_bytes){cwd, strlen(cwd)};
    job_run(&job);
    ck_assert_int_eq(job.exit, 0);
    job.out_bytes = 0;
    ck_assert_int_eq(job_get(&job, "touched"), 200);
    char *bytes = malloc(job.out_bytes + 1);
    memcpy(bytes, job.out, job.out_bytes + 1);
    ck_assert_int_eq(fy_touched_decode(bytes, job.out_bytes, &touched, NULL),
                     0);
    ck_assert(touched.complete);
    unsigned found = 0;
    for (uint32_t i = 0; i < touched.npaths; i++) {
        found += strcmp(touched.paths[i].at, wanted) == 0;
    }
    ck_assert_uint_eq(found, 1);
    fy_touched_clear(&touched);
    free(bytes);
    job_free(&job);
}
END_TEST

/* It is said to keep a folder (and does not): that is not looked into, all else is. */
START_TEST(touched_believes_what_is_kept)
{
    static struct job job;
    struct fy_touched touched;
    ck_assert_int_eq(mkdir(".above", 0700), 0);
    ck_assert_int_eq(mkdir(".above/kept", 0700), 0);
    ck_assert_int_eq(mkdir(".above/kept2", 0700), 0);
    const char *argv[] = {"/usr/bin/install", "-D",          "-t",
                          ".above/kept",      "/etc/passwd", NULL};
    static const char *const folders[] = {".above/kept", ".above/kept2"};
    for (unsigned i = 0; i < 2; i++) {
        argv[3] = folders[i];
        job_init(&job, &shared, argv);
        job_run(&job);
        ck_assert_int_eq(job.exit, 0);
        job.out_bytes = 0;
        ck_assert_int_eq(job_get(&job, "touched"), 200);
        char *bytes = malloc(job.out_bytes + 1);
        memcpy(bytes, job.out, job.out_bytes + 1);
        ck_assert_int_eq(
            fy_touched_decode(bytes, job.out_bytes, &touched, NULL), 0);
        bool folder = false, file = false;
        for (uint32_t k = 0; k < touched.npaths; k++) {
            const char *name = touched.paths[k].at + strlen(client_folder) + 1;
            folder |= strcmp(name, folders[i]) == 0;
            file |= strncmp(name, folders[i], strlen(folders[i])) == 0 &&
                    strcmp(name + strlen(folders[i]), "/passwd") == 0;
        }
        ck_assert(touched.complete && folder);
        ck_assert_msg(file == (i == 1), "%u", i);
        fy_touched_clear(&touched);
        free(bytes);
        job_free(&job);
    }
}
END_TEST

int
main(void)
{
    TCase *stages, *files;
    Suite *suite = server_suite("run", &stages, &files);
    tcase_add_test(stages, one_stage);
    tcase_add_test(stages, its_own_death);
    tcase_add_test(stages, environment_is_the_clients);
    tcase_add_test(stages, but_for_temporary_files);
    tcase_add_test(stages, argv0_and_folder);
    tcase_add_test(stages, signals);
    tcase_add_test(stages, descendants_get_signals);
    tcase_add_test(stages, only_three_descriptors);
    tcase_add_test(stages, closed_streams);
    tcase_add_test(stages, same_keeps_the_order);
    tcase_add_test(stages, no_output_at_all);
    tcase_add_test(files, files_and_offsets);
    tcase_add_test(files, copies);
    tcase_add_test(files, copies_meet_sigpipe);
    tcase_add_test(files, touched_names_what_changed);
    tcase_add_test(files, touched_names_what_is_behind_links);
    tcase_add_test(files, touched_tells_owners);
    tcase_add_test(files, touched_looks_upwards);
    tcase_add_test(files, touched_believes_what_is_kept);
    return run_suite(suite);
}
