/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a proxy costs while bytes go through it: the output of a stage to the
 * client, the client's bytes into a stage, and stages as such. Prints MB/s, the
 * proxy's own processor seconds a GB (its stages' not counted), and its share
 * of a core at 1 Gbit/s. By hand: bench/stage [GB].
 */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/proxy_client.h"

enum {
    WINDOW_BYTES = 4 << 20,
    STAGES = 500,
};

static double
processor_seconds(pid_t pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0) {
        exit(1);
    }
    (void)close(fd);
    if (sscanf(strrchr(text, ')') + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
               &system) != 2) {
        exit(1);
    }
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void
print(const char *what, double bytes, double seconds, double processor)
{
    printf("%-22s %7.0f MB/s  %.3f s a GB  %4.1f %% of a core at 1 Gbit/s\n",
           what, bytes / seconds / 1e6, processor / (bytes / 1e9),
           100 * processor / (bytes / 1e9) * 0.125);
}

static void
out(const char *bytes, const char *what)
{
    static struct job job;
    const char *argv[] = {"/usr/bin/head", "-c", bytes, "/dev/zero", NULL};
    job_init(&job, &shared, argv);
    job.discard = true;
    double began = seconds_now(), before = processor_seconds(shared.proxy);
    job_begin(&job, false);
    job_open(&job, WINDOW_BYTES);
    client_wait(&shared, &job.ended, 600);
    print(what, (double)job.out_total, seconds_now() - began,
          processor_seconds(shared.proxy) - before);
    job_free(&job);
}

static void
in(uint64_t bytes)
{
    static struct job job;
    static const char block[256 << 10];
    const char *argv[] = {"/usr/bin/wc", "-c", NULL};
    double total = (double)bytes;
    job_init(&job, &shared, argv);
    job.spec.in.kind = FY_STREAM_WIRE;
    double began = seconds_now(), before = processor_seconds(shared.proxy);
    job_begin(&job, true);
    job_open(&job, WINDOW_BYTES);
    while (bytes) {
        size_t n = fy_wire_room(shared.wire, job.stream);
        n = n < sizeof block ? n : sizeof block;
        n = n < bytes ? n : (size_t)bytes;
        if (n && fy_wire_send(shared.wire, job.stream, block, n)) {
            exit(1);
        }
        bytes -= n;
        client_turn(&shared, n ? 0 : 50);
    }
    if (fy_wire_finish(shared.wire, job.stream, NULL, 0)) {
        exit(1);
    }
    client_wait(&shared, &job.ended, 600);
    print("stdin", total, seconds_now() - began,
          processor_seconds(shared.proxy) - before);
    job_free(&job);
}

static void
stages(void)
{
    static struct job job;
    const char *argv[] = {"/bin/true", NULL};
    double began = seconds_now(), before = processor_seconds(shared.proxy);
    for (int i = 0; i < STAGES; i++) {
        job_init(&job, &shared, argv);
        job.spec.err.kind = FY_STREAM_NULL;
        job_run(&job);
        client_wait(&shared, &job.closed, 10);
        job_free(&job);
    }
    printf("%-22s %7.0f us each  %.0f us of it the proxy's\n", "true",
           (seconds_now() - began) / STAGES * 1e6,
           (processor_seconds(shared.proxy) - before) / STAGES * 1e6);
}

static uint64_t total_bytes = UINT64_C(4000000000);

START_TEST(all)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)total_bytes);
    fixture_start();
    out(text, "stdout");
    in(total_bytes);
    stages();
    fixture_end();
}
END_TEST

int
main(int argc, char **argv)
{
    if (argc > 1) {
        total_bytes = strtoull(argv[1], NULL, 10) * UINT64_C(1000000000);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    /* The client's checks want a test around them. */
    Suite *suite = suite_create("bench");
    TCase *one = tcase_create("all");
    tcase_set_timeout(one, 0);
    tcase_add_test(one, all);
    suite_add_tcase(suite, one);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
