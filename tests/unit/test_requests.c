/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of the wire to a real proxy: what is refused and with which
 * reason, limits, /hello, /probe, /carry, /store, and nonsense.
 * Long because all requests share one client.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "common/sha256.h"
#include "tests/unit/possible.h"
#include "tests/unit/proxy_client.h"
#include "tests/unit/runner.h"

/* ---- refusals ---------------------------------------------------------------------------------- */

static void
refused(const char *path, const char *argument, int status, const char *reason)
{
    static struct job jobs[8];
    static unsigned used;
    struct job *job = &jobs[used++];
    const char *argv[] = {path, argument, NULL};
    job_init(job, &shared, argv);
    job_run(job);
    client_wait(&shared, &job->err_ended, 10);
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
    (void)client_end(&shared);
    double_rules.refuse_tool = "true";
    fixture_start();
    const char *argv[] = {"/bin/true", NULL};
    job_init(&job, &shared, argv);
    job_run(&job);
    client_wait(&shared, &job.err_ended, 10);
    ck_assert_int_eq(job.status, 403);
    ck_assert_str_eq(job.reason, "other-tool");
    ck_assert_str_eq(job.why, "another?version");
    job_free(&job);
}
END_TEST

static void
restart(struct fy_proxy_options options)
{
    (void)client_end(&shared);
    client_start(&shared, &options);
}

START_TEST(too_many_stages)
{
    static struct job one, two, three;
    restart((struct fy_proxy_options){.stages_max = 1});
    job_shell(&one, &shared, "sleep 100");
    job_begin(&one, false);
    job_shell(&two, &shared, "echo no");
    job_run(&two);
    ck_assert_int_eq(two.status, 503);
    ck_assert_str_eq(two.reason, "busy");
    ck_assert_int_eq(job_get(&one, "signal?15"), 200);
    job_open(&one, 100);
    client_wait(&shared, &one.ended, 10);
    client_wait(&shared, &one.err_ended, 10);
    job_shell(&three, &shared, "echo yes");
    job_run(&three);
    ck_assert_str_eq(three.out, "yes\n");
    job_free(&one);
    job_free(&two);
    job_free(&three);
}
END_TEST

START_TEST(too_high_a_load)
{
    static struct job one, two;
    double load;
    if (getloadavg(&load, 1) != 1 || load == 0) {
        skip_test("an idle machine cannot show it");
        return;
    }
    restart((struct fy_proxy_options){.stages_max = 10, .load_max = 1e-9});
    job_shell(&one, &shared, "echo no");
    job_run(&one);
    ck_assert_int_eq(one.status, 503);
    ck_assert_str_eq(one.reason, "busy");
    restart((struct fy_proxy_options){.stages_max = 10, .load_max = 1e9});
    job_shell(&two, &shared, "echo yes");
    job_run(&two);
    ck_assert_str_eq(two.out, "yes\n");
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
        fy_wire_request(shared.wire, path, true, job, &job->small_stream), 0);
    ck_assert_int_eq(fy_wire_send(shared.wire, job->small_stream, bytes, n), 0);
    ck_assert_int_eq(fy_wire_finish(shared.wire, job->small_stream, NULL, 0),
                     0);
    ck_assert_int_eq(fy_wire_grant(shared.wire, job->small_stream, 1 << 20), 0);
    client_wait(&shared, &job->small_ended, 10);
    return job->small_status;
}

START_TEST(hello)
{
    static struct job job;
    struct fy_hello mine = {.version = FY_PROTOCOL_VERSION, .ferry = {"x", 1}},
                    its;
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
    ck_assert_uint_eq(its.landlock, 7);
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
    probe.root = (struct fy_bytes){client_folder, strlen(client_folder)};
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
    job_shell(&good, &shared, "sleep 0.3; echo fine");
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
    client_wait(&shared, &good.ended, 10);
    ck_assert_str_eq(good.out, "fine\n");
    ck_assert_int_eq(job_get(&good, "elsewhere"), 404);
    free(bad.out);
    memset(&bad, 0, sizeof bad);
    job_free(&good);
}
END_TEST

/* Specs with wrong bytes in them: refused or run, and the proxy lives. */
START_TEST(mutated_specs)
{
    static struct job jobs[200];
    uint32_t seed = 20261121;
    for (int i = 0; i < 200; i++) {
        const char *argv[] = {"/bin/true", "operand", NULL};
        char *bytes;
        size_t n;
        job_init(&jobs[i], &shared, argv);
        jobs[i].spec.envc = 1;
        ck_assert_int_eq(fy_stage_spec_encode(&jobs[i].spec, &bytes, &n), 0);
        for (int change = 0; change <= i % 4; change++) {
            seed = seed * 1664525 + 1013904223;
            bytes[(seed >> 8) % n] = (char)(seed >> 24);
        }
        const char head[4] = {(char)(n >> 24), (char)(n >> 16), (char)(n >> 8),
                              (char)n};
        char *body = malloc(n + 4);
        memcpy(body, head, 4);
        memcpy(body + 4, bytes, n);
        int status = post(&jobs[i], "/stage", body, n + 4);
        ck_assert_msg(status == 200 || (status >= 400 && status <= 503),
                      "status %d", status);
        free(body);
        free(bytes);
    }
    for (int i = 0; i < 200; i++) {
        job_free(&jobs[i]);
    }
}
END_TEST

START_TEST(two_of_one_number)
{
    static struct job one, two;
    job_shell(&one, &shared, "sleep 0.2; echo one");
    job_shell(&two, &shared, "echo two");
    two.spec.stage = one.spec.stage;
    two.spec.err.kind = FY_STREAM_NULL;
    job_begin(&one, false);
    job_run(&two);
    ck_assert_int_eq(two.status, 400);
    job_open(&one, 100);
    client_wait(&shared, &one.ended, 10);
    ck_assert_str_eq(one.out, "one\n");
    job_free(&one);
    job_free(&two);
}
END_TEST

START_TEST(odd_requests_are_refused)
{
    static const struct {
        const char *what;
        int status;
    } rows[] = {
        {"signal?0", 400},
        {"signal?65", 400},
        {"signal?", 400},
        {"signal?-1", 400},
        {"signal?+1", 400},
        {"signal?x", 400},
        {"signal?15x", 400},
        {"signal?18446744073709551617", 400},
        {"signal?28", 200},
        {"signal?64", 200},
        {"window?rows=1&columns=2x", 400},
        {"window?rows=1&columns=", 400},
        {"window?rows=1", 400},
        {"window?columns=1&rows=1", 400},
        {"window?rows=65536&columns=1", 400},
        {"window?rows=1&columns=65536", 400},
        {"window?rows=65535&columns=65535", 200},
        {"unread?0", 400},
        {"unread?3", 400},
        {"unread?1x", 400},
        {"unread?", 400},
        {"unread?1", 200},
        {"unread?2", 200},
        {"", 404},
        {"signal", 404},
        {"signals?15", 404},
        {"stderr?", 404},
    };
    static struct job job, other;
    job_shell(&job, &shared, "trap '' 28 64; echo ready >&2; sleep 100");
    job_begin(&job, false);
    job_open(&job, 100);
    wait_for_lines(&job, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(job_get(&job, rows[i].what) == rows[i].status, "%s",
                      rows[i].what);
    }
    ck_assert(!job.ended);
    job_init(&other, &shared, (const char *[]){"/bin/true", NULL});
    other.spec.stage = job.spec.stage + 1000;
    ck_assert_int_eq(job_get(&other, "signal?15"), 404);
    ck_assert_int_eq(job_get(&job, "signal?9"), 200);
    client_wait(&shared, &job.ended, 10);
    job_free(&other);
    job_free(&job);
}
END_TEST

/* A request that names no stage reaches none, not even the one of the request before. */
START_TEST(requests_without_a_stage)
{
    static const char *const paths[] = {"/",
                                        "/stderr",
                                        "/touched",
                                        "/signal?9",
                                        "/stage",
                                        "/stage/",
                                        "/stage/signal?9",
                                        "/stage//signal?9",
                                        "/stage/x/signal?9",
                                        "/stage/-1/signal?9",
                                        "/stage/99999999999999999999/signal?9"};
    static struct job job;
    job_shell(&job, &shared, "echo ready >&2; exec sleep 100");
    job_begin(&job, false);
    job_open(&job, 100);
    wait_for_lines(&job, 1);
    ck_assert_int_eq(job_get_path(&job, "/stage/987654/stderr"), 404);
    ck_assert_int_eq(job_get_path(&job, "/stage/987654/touched"), 404);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        ck_assert_msg(job_get(&job, "signal?28") == 200, "before %s", paths[i]);
        ck_assert_msg(job_get_path(&job, paths[i]) == 404, "%s", paths[i]);
    }
    ck_assert_int_eq(job_get(&job, "signal?15"), 200);
    client_wait(&shared, &job.ended, 10);
    ck_assert_int_eq(job.signal, 15);
    job_free(&job);
}
END_TEST

/* While a spec comes, requests for stages that are not known wait for it; when it is
 * cut off, they are refused with it. */
START_TEST(requests_wait_for_a_spec)
{
    static struct job spec, errors;
    spec.stream = spec.err_stream = errors.stream = errors.err_stream = -1;
    ck_assert_int_eq(
        fy_wire_request(shared.wire, "/stage", true, &spec, &spec.small_stream),
        0);
    ck_assert_int_eq(fy_wire_send(shared.wire, spec.small_stream, "\0\0", 2),
                     0);
    ck_assert_int_eq(fy_wire_request(shared.wire, "/stage/77/stderr", false,
                                     &errors, &errors.small_stream),
                     0);
    ck_assert_int_eq(fy_wire_grant(shared.wire, spec.small_stream, 1000), 0);
    ck_assert_int_eq(fy_wire_grant(shared.wire, errors.small_stream, 1000), 0);
    ck_assert_int_eq(fy_wire_finish(shared.wire, spec.small_stream, NULL, 0),
                     0);
    client_wait(&shared, &spec.small_ended, 10);
    client_wait(&shared, &errors.small_ended, 10);
    ck_assert_int_eq(spec.small_status, 400);
    ck_assert_int_eq(errors.small_status, 404);
    free(spec.out);
    free(errors.out);
}
END_TEST

/* What is granted for a spec does not shrink the window of the input. */
START_TEST(a_spec_may_be_larger_than_the_window)
{
    enum {
        STRINGS = 12,
        BYTES = 100000
    };
    static struct job job;
    static char large[BYTES + 1];
    memset(large, 'x', BYTES);
    large[1] = '=';
    job_init(&job, &shared, (const char *[]){"/bin/true", NULL});
    job.spec.env = realloc(job.spec.env, STRINGS * sizeof *job.spec.env);
    job.spec.envc = STRINGS;
    for (int i = 0; i < STRINGS; i++) {
        job.spec.env[i] = (struct fy_bytes){large, BYTES};
    }
    job_run(&job);
    ck_assert_int_eq(job.status, 200);
    ck_assert_int_eq(job.exit, 0);
    job_free(&job);
}
END_TEST

/* ---- files for the store -------------------------------------------------------------------- */

/* Posts a file with the hash of `named', as it is or (size) packed; the status. */
static int
store(const char *named, const char *bytes, size_t n, const uint64_t *size)
{
    static char body[1 << 20];
    static struct job job;
    char *to = body + 32;
    memset(&job, 0, sizeof job);
    job.client = &shared;
    job.stream = job.err_stream = -1;
    fy_sha256_of(named, strlen(named), (unsigned char *)body);
    if (size) {
        uint64_t big = htobe64(*size);
        memcpy(to, &big, sizeof big);
        to += sizeof big;
    }
    memcpy(to, bytes, n);
    return post(&job, size ? "/store/zstd" : "/store", body,
                (size_t)(to - body) + n);
}

static unsigned
count_stored(void)
{
    char path[PATH_MAX];
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "%s/.cache/ferry/store", client_folder);
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) {
        n++;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return n > 2 ? n - 2 : 0;
}

/* A client that sends other bytes than it named: nothing is kept. */
START_TEST(only_named_files_are_kept)
{
    static char packed[1000], zeros[1 << 20], bomb[1 << 17];
    static const char text[] = "the text of a file, of a file, of a file";
    const uint64_t n = sizeof text - 1, less = n - 1, more = n + 1,
                   most = (64 << 20) + 1, whole = sizeof zeros;
    double_rules.home = client_folder;
    (void)unsetenv("XDG_CACHE_HOME");
    restart((struct fy_proxy_options){.stages_max = 10});
    size_t packed_n = ZSTD_compress(packed, sizeof packed, text, n, 3);
    size_t bomb_n = ZSTD_compress(bomb, sizeof bomb, zeros, sizeof zeros, 3);
    ck_assert(!ZSTD_isError(packed_n) && !ZSTD_isError(bomb_n));
    ck_assert_int_eq(store("another", text, n, NULL), 400);
    ck_assert_int_eq(store("another", packed, packed_n, &n), 400);
    ck_assert_int_eq(store(text, text, n - 1, NULL), 400);
    ck_assert_int_eq(store(text, packed, packed_n, &less), 400);
    ck_assert_int_eq(store(text, packed, packed_n, &more), 400);
    ck_assert_int_eq(store(text, packed, packed_n, &most), 400);
    ck_assert_int_eq(store(text, packed, packed_n - 3, &n), 400);
    ck_assert_int_eq(store(text, packed, 0, &n), 400);
    ck_assert_int_eq(store(text, text, n, &n), 400); /* no frame */
    ck_assert_int_eq(store(text, bomb, bomb_n, &n), 400);
    ck_assert_int_eq(store("another", bomb, bomb_n, &whole), 400);
    ck_assert_uint_eq(count_stored(), 0);
    ck_assert_int_eq(store(text, packed, packed_n, &n), 200);
    ck_assert_uint_eq(count_stored(), 1);
    ck_assert_int_eq(store("another", "another", 7, NULL), 200);
    ck_assert_uint_eq(count_stored(), 2);
    double_rules.home = NULL;
}
END_TEST

/* A program that no processor or kernel of this machine runs is not asked for. */
START_TEST(other_machines_are_told)
{
    struct utsname own;
    static const unsigned kernels[] = {0x20600, 0xff0000, 0};
    static const char *const machines[] = {NULL, NULL, "vax"};
    static const char *const reasons[] = {"other-tool", "other-machine",
                                          "other-machine"};
    static struct job jobs[3];
    ck_assert_int_eq(uname(&own), 0);
    for (int i = 0; i < 3; i++) {
        struct fy_carried_file file = {.path = {"/bin/x", 6}};
        const char *machine = machines[i] ? machines[i] : own.machine;
        struct fy_carry carry = {.tool = {{"/bin/x", 6}, {"none", 4}},
                                 .carried = &file,
                                 .ncarried = 1,
                                 .kernel = kernels[i],
                                 .machine = {machine, strlen(machine)}};
        char *bytes;
        size_t n;
        ck_assert_int_eq(fy_carry_encode(&carry, &bytes, &n), 0);
        jobs[i].client = &shared;
        jobs[i].err_stream = jobs[i].small_stream = -1;
        ck_assert_int_eq(fy_wire_request(shared.wire, "/carry", true, &jobs[i],
                                         &jobs[i].stream),
                         0);
        ck_assert_int_eq(fy_wire_send(shared.wire, jobs[i].stream, bytes, n),
                         0);
        ck_assert_int_eq(fy_wire_finish(shared.wire, jobs[i].stream, NULL, 0),
                         0);
        ck_assert_int_eq(fy_wire_grant(shared.wire, jobs[i].stream, 1 << 16),
                         0);
        client_wait(&shared, &jobs[i].ended, 10);
        ck_assert_int_eq(jobs[i].status, 409);
        ck_assert_str_eq(jobs[i].reason, reasons[i]);
        free(bytes);
    }
}
END_TEST

/* A hello and a probe have 1 MiB at most, which come in many frames. */
START_TEST(small_bodies_are_limited)
{
    enum {
        LIMIT = 1 << 20
    };
    static const char *const paths[] = {"/hello", "/probe"};
    static char body[LIMIT + 1];
    for (int i = 0; i < 4; i++) {
        static struct job job;
        const int over = i % 2;
        memset(&job, 0, sizeof job);
        job.err_stream = job.small_stream = -1;
        ck_assert_int_eq(
            fy_wire_request(shared.wire, paths[i / 2], true, &job, &job.stream),
            0);
        ck_assert_int_eq(
            fy_wire_send(shared.wire, job.stream, body, LIMIT + (size_t)over),
            0);
        ck_assert_int_eq(fy_wire_finish(shared.wire, job.stream, NULL, 0), 0);
        ck_assert_int_eq(fy_wire_grant(shared.wire, job.stream, 1 << 16), 0);
        client_wait(&shared, &job.ended, 10);
        ck_assert_int_eq(job.status, 400);
        ck_assert_msg((strcmp(job.why, "the body is too large") == 0) == over,
                      "%s: %s", paths[i / 2], job.why);
        free(job.out);
    }
}
END_TEST

/* 80 MiB of bodies that are not complete; their end gives them back. */
START_TEST(all_bodies_together_are_limited)
{
    enum {
        JOBS = 11
    };
    static struct job jobs[JOBS], last;
    static char spec[FY_SPEC_MAX_BYTES];
    spec[1] = (char)0x80; /* its length */
    for (int i = 0; i < JOBS; i++) {
        jobs[i].stream = jobs[i].err_stream = -1;
        ck_assert_int_eq(fy_wire_request(shared.wire, "/stage", true, &jobs[i],
                                         &jobs[i].small_stream),
                         0);
        ck_assert_int_eq(
            fy_wire_send(shared.wire, jobs[i].small_stream, spec, sizeof spec),
            0);
        ck_assert_int_eq(fy_wire_grant(shared.wire, jobs[i].small_stream, 1000),
                         0);
    }
    const struct job *refused = NULL;
    double end = patient_until(30);
    while (!refused && seconds_now() < end) {
        client_turn(&shared, 20);
        for (int i = 0; i < JOBS; i++) {
            refused = jobs[i].small_status ? &jobs[i] : refused;
        }
    }
    ck_assert_ptr_nonnull(refused);
    ck_assert_int_eq(refused->small_status, 503);
    for (int i = 0; i < JOBS; i++) {
        fy_wire_cancel(shared.wire, jobs[i].small_stream);
    }
    job_shell(&last, &shared, "echo again");
    job_run(&last);
    ck_assert_str_eq(last.out, "again\n");
    job_free(&last);
}
END_TEST

int
main(void)
{
    TCase *stages, *files;
    Suite *suite = server_suite("requests", &stages, &files);
    tcase_add_test(stages, refusals);
    tcase_add_test(stages, refused_by_confinement);
    tcase_add_test(stages, too_many_stages);
    tcase_add_test(stages, too_high_a_load);
    tcase_add_test(stages, hello);
    tcase_add_test(stages, nonsense_harms_nobody);
    tcase_add_test(stages, mutated_specs);
    tcase_add_test(stages, two_of_one_number);
    tcase_add_test(stages, odd_requests_are_refused);
    tcase_add_test(stages, requests_without_a_stage);
    tcase_add_test(stages, requests_wait_for_a_spec);
    tcase_add_test(stages, small_bodies_are_limited);
    tcase_add_test(stages, all_bodies_together_are_limited);
    tcase_add_test(stages, a_spec_may_be_larger_than_the_window);
    tcase_add_test(stages, other_machines_are_told);
    tcase_add_test(files, only_named_files_are_kept);
    tcase_add_test(files, probing);
    return run_suite(suite);
}
