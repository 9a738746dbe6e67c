/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted client of a real proxy, which runs in a process of its own at the
 * other end of a socketpair; and doubles of what decides there (proxy/sandbox/sandbox.h,
 * fy_invocation_parse()), so that any program may be a stage.
 */
#ifndef FERRY_TESTS_PROXY_CLIENT_H
#define FERRY_TESTS_PROXY_CLIENT_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proxy/client/client.h"
#include "proxy/server/proxy.h"
#include "proxy/wire/protocol.h"
#include "proxy/wire/spec.h"
#include "proxy/wire/wire.h"

struct client {
    struct fy_wire *wire; /* NULL: lost */
    pid_t proxy;
    struct fy_proxy_options options;
    uint64_t stages;
};

/* One stage, or one small request, as the client sees it. */
struct job {
    struct client *client;
    struct fy_stage_spec spec;
    int32_t stream, err_stream, small_stream;
    int status, small_status;
    char reason[64], why[256], encoding[16];
    char *out, *err;
    size_t out_bytes, err_bytes;        /* kept at most KEPT_BYTES */
    unsigned char head[FY_PLACE_BYTES]; /* of the record of stderr that comes */
    size_t nhead;
    uint32_t record_left;
    uint64_t place;
    uint64_t out_total;
    bool ended, closed, err_ended, small_ended;
    uint32_t error;
    int exit, signal; /* -1: not told */
    long long in_offset, out_offset, in_bytes, out_told;
    size_t window; /* granted anew as it is used; 0: stays closed */
    bool discard;  /* do not keep the output */
    bool slow_err; /* of stderr, no more than the first window */
};

enum {
    KEPT_BYTES = 16 << 20
};

/* Starts a proxy. options.commands is filled in. */
void client_start(struct client *client,
                  const struct fy_proxy_options *options);
/* Ends the connection; how the proxy ended (wait status). */
int client_end(struct client *client);
/* The connection is cut, as by a cable; the proxy is not waited for. */
void client_cut(struct client *client);

/* argv ends in NULL; stdin NULL, stdout and stderr WIRE. */
void job_init(struct job *job, struct client *client, const char *const *argv);
void job_shell(struct job *job, struct client *client, const char *script);
/* Sends the request; body: more is sent with fy_wire_send(). */
void job_begin(struct job *job, bool body);
void job_free(struct job *job);
/* Opens the window of stdout. */
void job_open(struct job *job, size_t window);
/* A GET below /stage/N/, waits for its answer: the status. */
int job_get(struct job *job, const char *what);
/* A GET of any path, likewise. */
int job_get_path(struct job *job, const char *path);

/* One round of the loop. */
void client_turn(struct client *client, int wait_ms);
/* Until *flag, or fails the test after `seconds'. */
void client_wait(struct client *client, const bool *flag, double seconds);
/* begin, open, wait for all. */
void job_run(struct job *job);

double seconds_now(void);
/* So many seconds from now, times CK_TIMEOUT_MULTIPLIER: until then a test waits for
 * what it needs to see. */
double patient_until(double seconds);
/* Processes that descend from the proxy. */
unsigned client_descendants(const struct client *client);

/* What the doubles say. */
extern struct double_rules {
    const char *refuse_tool; /* basename that the sandbox refuses, OTHER_TOOL */
    const char *tmpdir;      /* of every sandbox */
    const char *home;        /* has the store; NULL: there is none */
} double_rules;

/* ---- what the tests share: one client, jobs that are static because the wire
 * knows of them until the fixture ends it ---- */

extern struct client shared;
extern char client_folder[]; /* of the fixture in a folder */

void fixture_start(void); /* of 200 stages */
void fixture_end(void);
void fixture_start_in_folder(void);
void fixture_end_in_folder(void);
/*
 * A suite of such tests, in which SIGPIPE is ignored: *stages run after
 * fixture_start(), *files (may be NULL: none) after fixture_start_in_folder().
 */
Suite *server_suite(const char *name, TCase **stages, TCase **files);
bool alive(pid_t pid);
void wait_until_gone(pid_t pid, double seconds);
/* Until the job's stderr holds `lines' lines. */
void wait_for_lines(struct job *job, unsigned lines);
void idle(double seconds);
unsigned count_fds(pid_t pid);

#endif
