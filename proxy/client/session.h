/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the session. Only the session's thread touches anything here,
 * but for the few words that say so.
 *
 * session.c      start, end, the loop; reports
 * snapshot.c     the block that the exec wrappers read
 * stub_client.c  a stub's connection: frames in and out
 * peer.c         the rights of a stub, compared with this process's
 * classify.c     the reads and writes of a stage, and their places
 * stage_stub.c   words of a stub: hello, frames, its end
 * stage.c        the life of a stage up to its request
 * stage_end.c    the ends of a stage
 * stage_parts.c  a stage that runs as several, on several hosts
 * placement.c    the cost model's judgement of a stage
 * prepare.c      the mount's caches around it; storage/work.c: in threads
 * ask.c          the request
 * alike.c        input files that are output files, too
 * streams.c      a stage's streams at the proxy: answers, bytes, results
 * flow.c         the account of a stage's bytes: windows, credits
 * order.c        signals to stages that read first
 * input.c        stdin that is sent from this machine
 * link.c         joins of stages, found by holders.c
 * connection.c   connections to proxies
 */
#ifndef FERRY_PROXY_CLIENT_SESSION_H
#define FERRY_PROXY_CLIENT_SESSION_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proxy/client/barrier.h"
#include "proxy/client/classify.h"
#include "proxy/client/client.h"
#include "proxy/client/stub.h"
#include "proxy/wire/loop.h"
#include "proxy/wire/spec.h"
#include "proxy/wire/transport.h"
#include "proxy/wire/wire.h"

enum {
    RECORDS_MAX = 1 << 17
}; /* further stages are not kept for reports */

struct record {
    char **argv;
    uint32_t argc;
    struct fy_stage_report report;
    char why[256], placed[512];
    struct record *next;
};

struct stub_client;
struct stage;
struct connection;
struct exchange;
struct fy_session_calls;

/* snapshot.c: the block for exec wrappers. */
struct session_snapshot {
    char path[PATH_MAX];
    void *block; /* mapped, shared with every process of the run */
    size_t bytes;
};

/* stub_client.c: the stubs and their listener. */
struct session_stubs {
    struct fy_watch listener;
    int spare_fd;         /* given up where no other is left */
    struct fy_timer rest; /* of the listener, likewise */
    struct stub_client *clients;
};

/* order.c: signals that wait. */
struct session_order {
    struct fy_timer timer; /* looks at them */
    unsigned n;            /* stages that have some */
};

/* link.c: looks for the holders of pipes. */
struct session_scan {
    struct fy_timer timer;
    uint64_t delay_ms;
    struct fy_holders *holders;
};

/* stage_end.c: the records of stages, for reports. */
struct session_records {
    struct record *first, **end;
    unsigned n;
    struct record **table; /* after the end: the records by number */
};

/* A session; each concern's file owns the struct of its name. */
struct fy_session {
    struct fy_session_options options;
    const struct fy_session_calls *calls; /* &fy_stage_calls */
    struct fy_mount *mounts;
    struct fy_quiet quiet[FY_MAX_MOUNTS]; /* of each mount, prepare.c */
    unsigned nmounts;
    char socket_path[PATH_MAX]; /* of a link: listen_at() */
    int socket_node;            /* O_PATH; -1: none */
    char *logins;               /* for logins.h, or NULL */
    pthread_t thread;
    bool started;
    struct fy_loop loop;
    /* Set by the other thread, which then rings the loop's bell. */
    int ending; /* atomic; 0, 1: when all stages ended, 2: now */
    struct stage *stages;
    struct connection *connections;
    unsigned nconnections;
    uint64_t next_stage;
    struct fy_pool *pool;
    unsigned nstuck; /* threads of it that files do not answer */
    struct session_snapshot snapshot;
    struct session_stubs stubs;
    struct session_order order;
    struct session_scan scan;
    struct fy_peer *peer; /* the rights of this process, for peer.h */
    struct session_records records;
};

/*
 * Events from the parts below the stages: connections of stubs and proxies,
 * looks and jobs. They call no function of a stage but by this table of
 * stage_stub.c.
 */
struct fy_session_calls {
    /* stub_client.c: a hello came (`client->fds' hold the descriptors), a frame; the stub is
     * gone. */
    void (*begin)(struct stub_client *client, const char *body, size_t n);
    void (*frame)(struct stage *stage, uint32_t type, const char *body,
                  size_t n);
    void (*orphan)(struct stage *stage);
    /* connection.c: a connection became ready, or bad. */
    void (*reached)(struct fy_session *session, struct connection *connection);
    /* placement.c: the look is over; sizes are known, or not to be had. */
    void (*looked)(struct stage *stage);
    void (*placed)(struct stage *stage);
    /* prepare.c: the mount is ready, or (status) it is not; a stream of a stage that
     * retries is closed; the mount was refreshed; the stage must run here. */
    void (*prepared)(struct stage *stage, int status);
    void (*closed)(struct stage *stage);
    void (*try_end)(struct stage *stage);
    void (*decline)(struct stage *stage, unsigned reason, const char *why);
    /* stage.c: the functions of a request's streams. */
    const struct exchange *out, *err;
};

extern const struct fy_session_calls fy_stage_calls;

/* ---- link.c */

/* Something that a decision of link.c hangs on has changed: it looks soon. */
void fy_link_wake(struct fy_session *session);
/* Looks for the holders of pipes; called by session->scan.timer. */
void fy_link_scan(void *session);

/* ---- snapshot.c */

int fy_snapshot_write(struct fy_session *session,
                      struct fy_buffer *why) FY_MUST_CHECK;
/* Every exec from now on is the original's. */
void fy_snapshot_disable(struct fy_session *session);
void fy_snapshot_free(struct fy_session *session);

/* ---- stub_client.c */

/* One stub. `fds' are closed as soon as the stage is classified: a session
 * that holds the end of a pipe would change what its readers and writers see. */
struct stub_client {
    struct fy_watch watch;
    struct fy_session *session;
    struct stub_client *next;
    struct stage *stage; /* NULL before the hello */
    int fds[4];
    unsigned nfds;
    char *in; /* a frame being received */
    size_t in_used, in_capacity;
    char *out; /* frames to be sent */
    size_t out_at, out_used, out_capacity;
    pid_t pid; /* by the kernel */
    bool greeted, gone;
};

/* Called by stubs.listener and by stubs.rest. */
void fy_stub_clients_accept(void *session, uint32_t events);
void fy_stub_clients_rested(void *session);
/*
 * Appends a frame. FY_ERR_NOMEM: output (FY_STUB_OUT, _ERR) was not sent;
 * frames that decide about the command find room even then, because a stub
 * that is dropped runs its original, while commands joined to it may go on
 * without it.
 */
int fy_stub_client_send(struct stub_client *client, uint32_t type,
                        const void *bytes, size_t n);
/* Sends the queued frames (EXEC, EXIT), as far as possible, then closes. */
void fy_stub_client_finish(struct stub_client *client);
/* Closes at once; the stub execs the original if it may still. */
void fy_stub_client_drop(struct stub_client *client);
void fy_stub_client_close_fds(struct stub_client *client);
/* Frees those that are gone; between two rounds of the loop. */
void fy_stub_clients_sweep(struct fy_session *session);

/* ---- order.c */

/* Passes on signals that need not wait any more; once in each round of the loop. */
void fy_signals_release(struct fy_session *session);

/* ---- stage.c */

void fy_stages_sweep(struct fy_session *session);

#endif
