/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripted client, see the header. One thread, and no state beyond what a
 * test holds.
 */
#include "config.h"

#include "tests/unit/proxy_client.h"

#include <check.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proxy/server/run.h"
#include "proxy/wire/transport.h"

extern char **environ;

double
seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double
patient_until(double seconds)
{
    const char *times = getenv("CK_TIMEOUT_MULTIPLIER");
    return seconds_now() + seconds * (times ? strtod(times, NULL) : 1);
}

/* ---- what the wire tells ----------------------------------------------------- */

static void
copy_text(char *to, size_t capacity, const char *from)
{
    (void)snprintf(to, capacity, "%s", from);
}

static void
on_response(void *context, int32_t stream, void *user, int status,
            const struct fy_wire_pair *pairs, size_t npairs)
{
    struct job *job = user;
    (void)context;
    if (stream == job->small_stream) {
        job->small_status = status;
    }
    if (stream != job->stream) {
        return;
    }
    job->status = status;
    for (size_t i = 0; i < npairs; i++) {
        if (strcmp(pairs[i].name, "ferry-reason") == 0) {
            copy_text(job->reason, sizeof job->reason, pairs[i].value);
        } else if (strcmp(pairs[i].name, "ferry-why") == 0) {
            copy_text(job->why, sizeof job->why, pairs[i].value);
        } else if (strcmp(pairs[i].name, "ferry-encoding") == 0) {
            copy_text(job->encoding, sizeof job->encoding, pairs[i].value);
        }
    }
}

static void
keep(char **to, size_t *used, const void *bytes, size_t n)
{
    if (*used + n > KEPT_BYTES) {
        n = KEPT_BYTES - *used;
    }
    *to = realloc(*to, *used + n + 1);
    ck_assert_ptr_nonnull(*to);
    memcpy(*to + *used, bytes, n);
    *used += n;
    (*to)[*used] = '\0';
}

static void
keep_records(struct job *job, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        if (job->record_left > 0) {
            size_t some = job->record_left < n - i ? job->record_left : n - i;
            keep(&job->err, &job->err_bytes, bytes + i, some);
            job->record_left -= (uint32_t)some;
            i += some;
            continue;
        }
        job->head[job->nhead++] = (unsigned char)bytes[i++];
        if (job->nhead == sizeof job->head) {
            job->nhead = 0;
            memcpy(&job->place, job->head, sizeof job->place);
            memcpy(&job->record_left, job->head + sizeof job->place,
                   sizeof job->record_left);
            job->place = be64toh(job->place);
            job->record_left = be32toh(job->record_left);
        }
    }
}

static void
on_data(void *context, int32_t stream, void *user, const void *bytes, size_t n)
{
    struct client *client = context;
    struct job *job = user;
    if (stream == job->err_stream) {
        keep_records(job, bytes, n);
        if (!job->slow_err) {
            ck_assert_int_eq(fy_wire_grant(client->wire, stream, n), 0);
        }
        return;
    }
    if (stream == job->stream) {
        job->out_total += n;
    }
    if (!job->discard) {
        keep(&job->out, &job->out_bytes, bytes, n);
    }
    if (job->window) {
        ck_assert_int_eq(fy_wire_grant(client->wire, stream, n), 0);
    }
}

static void
on_end(void *context, int32_t stream, void *user,
       const struct fy_wire_pair *trailers, size_t ntrailers)
{
    struct job *job = user;
    (void)context;
    if (stream == job->err_stream) {
        job->err_ended = true;
        return;
    }
    if (stream == job->small_stream) {
        job->small_ended = true;
        return;
    }
    job->ended = true;
    for (size_t i = 0; i < ntrailers; i++) {
        const char *name = trailers[i].name;
        long long value = strtoll(trailers[i].value, NULL, 10);
        if (strcmp(name, "ferry-exit") == 0) {
            job->exit = (int)value;
        } else if (strcmp(name, "ferry-signal") == 0) {
            job->signal = (int)value;
        } else if (strcmp(name, "ferry-stdin-offset") == 0) {
            job->in_offset = value;
        } else if (strcmp(name, "ferry-stdout-offset") == 0) {
            job->out_offset = value;
        } else if (strcmp(name, "ferry-in-bytes") == 0) {
            job->in_bytes = value;
        } else if (strcmp(name, "ferry-out-bytes") == 0) {
            job->out_told = value;
        } else if (strcmp(name, "ferry-reason") == 0) {
            copy_text(job->reason, sizeof job->reason, trailers[i].value);
        }
    }
}

static void
on_closed(void *context, int32_t stream, void *user, uint32_t error)
{
    struct job *job = user;
    (void)context;
    if (stream == job->stream) {
        job->closed = true;
        job->error = error;
    } else if (stream == job->err_stream) {
        job->err_ended = true;
    } else if (stream == job->small_stream) {
        job->small_ended = true;
    }
}

static const struct fy_wire_events events = {
    .response = on_response,
    .data = on_data,
    .end = on_end,
    .closed = on_closed,
};

/* ---- the connection ----------------------------------------------------------- */

void
client_start(struct client *client, const struct fy_proxy_options *options)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair),
                     0);
    memset(client, 0, sizeof *client);
    if (options) {
        client->options = *options;
    }
    client->proxy = fork();
    ck_assert_int_ge(client->proxy, 0);
    if (client->proxy == 0) {
        (void)close(pair[0]);
        exit(fy_proxy_serve(pair[1], pair[1], &client->options));
    }
    (void)close(pair[1]);
    char line[sizeof FY_PROXY_MAGIC] = "";
    ck_assert_int_eq(recv(pair[0], line, sizeof line - 1, MSG_WAITALL),
                     sizeof line - 1);
    ck_assert_str_eq(line, FY_PROXY_MAGIC);
    ck_assert_int_eq(fy_wire_new(FY_WIRE_CLIENT, pair[0], pair[0], &events,
                                 client, &client->wire),
                     0);
}

void
client_cut(struct client *client)
{
    fy_wire_free(client->wire);
    client->wire = NULL;
}

int
client_end(struct client *client)
{
    int status = -1;
    client_cut(client);
    double until = patient_until(20);
    while (waitpid(client->proxy, &status, WNOHANG) == 0) {
        ck_assert_msg(seconds_now() < until, "the proxy does not end");
        (void)usleep(2000);
    }
    return status;
}

void
client_turn(struct client *client, int wait_ms)
{
    struct pollfd row = {.fd = fy_wire_in_fd(client->wire), .events = POLLIN};
    if (fy_wire_wants_write(client->wire)) {
        row.events |= POLLOUT;
    }
    if (poll(&row, 1, wait_ms) > 0) {
        ck_assert_msg(fy_wire_io(client->wire,
                                 (row.revents & (POLLIN | POLLHUP)) != 0,
                                 (row.revents & POLLOUT) != 0) == 0,
                      "the proxy ended the connection");
    }
}

void
client_wait(struct client *client, const bool *flag, double seconds)
{
    double until = patient_until(seconds);
    while (!*flag) {
        ck_assert_msg(seconds_now() < until, "it takes too long");
        client_turn(client, 50);
    }
}

unsigned
client_descendants(const struct client *client)
{
    return fy_descendants_signal(client->proxy, 0, 0);
}

/* ---- jobs ---------------------------------------------------------------------- */

static struct fy_bytes
text(const char *string)
{
    return (struct fy_bytes){string, strlen(string)};
}

static struct fy_bytes *
text_array(const char *const *strings, uint32_t *out_n)
{
    uint32_t n = 0;
    while (strings[n]) {
        n++;
    }
    struct fy_bytes *array = calloc(n + 1, sizeof *array);
    ck_assert_ptr_nonnull(array);
    for (uint32_t i = 0; i < n; i++) {
        array[i] = text(strings[i]);
    }
    *out_n = n;
    return array;
}

void
job_init(struct job *job, struct client *client, const char *const *argv)
{
    static char cwd[4096];
    memset(job, 0, sizeof *job);
    ck_assert_ptr_nonnull(getcwd(cwd, sizeof cwd));
    job->client = client;
    job->stream = job->err_stream = job->small_stream = -1;
    job->exit = job->signal = -1;
    job->in_offset = job->out_offset = -1;
    job->spec.stage = ++client->stages;
    job->spec.tool.path = text(argv[0]);
    job->spec.tool.identity = text("sha256:00");
    job->spec.argv = text_array(argv, &job->spec.argc);
    job->spec.env = text_array((const char *const *)environ, &job->spec.envc);
    job->spec.mount = job->spec.root = job->spec.cwd = text(cwd);
    job->spec.umask = 022;
    for (int i = 0; i < 16; i++) {
        job->spec.limits[i][0] = job->spec.limits[i][1] = UINT64_MAX;
    }
    job->spec.out.kind = job->spec.err.kind = FY_STREAM_WIRE;
    job->spec.copies = 1;
}

void
job_shell(struct job *job, struct client *client, const char *script)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    job_init(job, client, argv);
}

void
job_begin(struct job *job, bool body)
{
    struct fy_wire *wire = job->client->wire;
    char *bytes, path[64];
    size_t n;
    ck_assert_int_eq(fy_stage_spec_encode(&job->spec, &bytes, &n), 0);
    const unsigned char head[4] = {(unsigned char)(n >> 24),
                                   (unsigned char)(n >> 16),
                                   (unsigned char)(n >> 8), (unsigned char)n};
    ck_assert_int_eq(fy_wire_request(wire, "/stage", true, job, &job->stream),
                     0);
    ck_assert_int_eq(fy_wire_send(wire, job->stream, head, 4), 0);
    ck_assert_int_eq(fy_wire_send(wire, job->stream, bytes, n), 0);
    free(bytes);
    if (!body) {
        ck_assert_int_eq(fy_wire_finish(wire, job->stream, NULL, 0), 0);
    }
    if (job->spec.err.kind == FY_STREAM_WIRE ||
        job->spec.err.kind == FY_STREAM_PTY) {
        (void)snprintf(path, sizeof path, "/stage/%llu/stderr",
                       (unsigned long long)job->spec.stage);
        ck_assert_int_eq(
            fy_wire_request(wire, path, false, job, &job->err_stream), 0);
        ck_assert_int_eq(fy_wire_grant(wire, job->err_stream, 1 << 16), 0);
    } else {
        job->err_ended = true;
    }
}

void
job_open(struct job *job, size_t window)
{
    job->window = window;
    ck_assert_int_eq(fy_wire_grant(job->client->wire, job->stream, window), 0);
}

int
job_get(struct job *job, const char *what)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/stage/%llu/%s",
                   (unsigned long long)job->spec.stage, what);
    return job_get_path(job, path);
}

int
job_get_path(struct job *job, const char *path)
{
    job->small_ended = false;
    job->small_status = 0;
    ck_assert_int_eq(fy_wire_request(job->client->wire, path, false, job,
                                     &job->small_stream),
                     0);
    ck_assert_int_eq(
        fy_wire_grant(job->client->wire, job->small_stream, 1 << 20), 0);
    client_wait(job->client, &job->small_ended, 10);
    return job->small_status;
}

void
job_run(struct job *job)
{
    job_begin(job, false);
    job_open(job, 1 << 20);
    client_wait(job->client, &job->ended, 60);
    if (job->status == 200) {
        client_wait(job->client, &job->err_ended, 60);
    }
}

void
job_free(struct job *job)
{
    fy_stage_spec_clear(&job->spec);
    free(job->out);
    free(job->err);
    memset(job, 0, sizeof *job);
}

/* ---- what the tests share -------------------------------------------------- */

struct client shared;
char client_folder[] = "/tmp/ferry-server-XXXXXX";

void
fixture_start(void)
{
    static const struct fy_proxy_options options = {.stages_max = 200};
    client_start(&shared, &options);
}

void
fixture_end(void)
{
    int status = client_end(&shared);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "the proxy ended with status %#x", (unsigned)status);
}

void
fixture_start_in_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(client_folder));
    ck_assert_int_eq(chdir(client_folder), 0);
    fixture_start();
}

void
fixture_end_in_folder(void)
{
    char command[64];
    fixture_end();
    (void)snprintf(command, sizeof command, "rm -rf %s", client_folder);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(system(command), 0);
}

Suite *
server_suite(const char *name, TCase **stages, TCase **files)
{
    Suite *suite = suite_create(name);
    (void)signal(SIGPIPE, SIG_IGN);
    *stages = tcase_create("stages");
    tcase_add_checked_fixture(*stages, fixture_start, fixture_end);
    tcase_set_timeout(*stages, 60);
    suite_add_tcase(suite, *stages);
    if (files) {
        *files = tcase_create("files");
        tcase_add_checked_fixture(*files, fixture_start_in_folder,
                                  fixture_end_in_folder);
        tcase_set_timeout(*files, 60);
        suite_add_tcase(suite, *files);
    }
    return suite;
}

bool
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

void
wait_until_gone(pid_t pid, double seconds)
{
    double until = patient_until(seconds);
    while (alive(pid)) {
        ck_assert_msg(seconds_now() < until, "process %d lives on", (int)pid);
        if (shared.wire) {
            client_turn(&shared, 5);
        } else {
            (void)usleep(5000);
        }
    }
}

/* Until the job's stderr holds `lines' lines. */
void
wait_for_lines(struct job *job, unsigned lines)
{
    double until = patient_until(10);
    unsigned n = 0;
    while (n < lines) {
        n = 0;
        for (size_t i = 0; i < job->err_bytes; i++) {
            n += job->err[i] == '\n';
        }
        ck_assert_msg(seconds_now() < until, "%u of %u lines came", n, lines);
        if (n < lines) {
            client_turn(&shared, 20);
        }
    }
}

void
idle(double seconds)
{
    double until = seconds_now() + seconds;
    while (seconds_now() < until) {
        client_turn(&shared, 10);
    }
}

unsigned
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
