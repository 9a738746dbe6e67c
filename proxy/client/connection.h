/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the session: the connections to proxies, one a host. Made when first
 * wanted (those of configured mounts at once), given up after a bounded time;
 * one that failed is not tried again in this run, one that broke a few times.
 */
#ifndef FERRY_PROXY_CLIENT_CONNECTION_H
#define FERRY_PROXY_CLIENT_CONNECTION_H

#include "common/settings.h"
#include "proxy/client/session.h"
#include "proxy/storage/logins.h"

enum connection_state {
    CONNECTION_IDLE,
    CONNECTION_GREETING, /* the proxy was started, its first line is awaited */
    CONNECTION_HELLO,    /* its hello is awaited */
    CONNECTION_READY,
    CONNECTION_BAD,
};

/* One stream of a connection. Unset functions are not called. */
struct exchange {
    struct connection *connection; /* NULL once it is closed */
    int32_t stream;
    void (*response)(struct exchange *exchange, int status,
                     const struct fy_wire_pair *pairs, size_t n);
    void (*data)(struct exchange *exchange, const void *bytes, size_t n);
    void (*end)(struct exchange *exchange, const struct fy_wire_pair *trailers,
                size_t n);
    void (*room)(struct exchange *exchange);
    void (*closed)(struct exchange *exchange, uint32_t error);
};

struct connection {
    struct fy_session *session;
    struct fy_place place;
    bool eager;
    enum connection_state state;
    unsigned breaks;
    struct fy_link link;
    struct fy_wire *wire;
    struct fy_watch in, out; /* one descriptor: only `in' */
    struct fy_timer limit;   /* of connecting; then the keep-alive */
    struct exchange hello_exchange;
    char *hello_bytes;
    size_t hello_used;
    struct fy_hello hello;      /* READY: points into hello_bytes */
    bool proven[FY_MAX_MOUNTS]; /* the mounts that show its files indeed */
    bool asked[FY_MAX_MOUNTS];  /* the root was compared before */
    bool broken;                /* to be given up at the end of this round */
    /* Its host has greeted before: what is sent before it does now is read by a
     * proxy. `waits': that went wrong, so the next connection greets first. `held':
     * nothing was sent early yet; a hello without a request gains nothing, and its
     * answer would be waited for by what cannot be repeated. */
    bool early, waits, held;
    char name[512], trouble[256], open[160];
    uint64_t began_ns, connected_ns; /* of all connections so far */
    double bytes_a_second;           /* as its stages measured; 0: unknown */
    uint64_t heard_bytes;            /* at the last keep-alive */
    uint64_t received_bytes, sent_bytes, rtt_ns;
    uint64_t
        excess_ns; /* by which looks after effects were too long, summed up */
    struct fy_tools_known tools; /* as earlier runs found */
    enum fy_tools_setting programs;
    uint64_t store_bytes;         /* limit of the store there */
    struct fy_carrying *carrying; /* carry.c: the first is under way */
};

int fy_connections_new(struct fy_session *session) FY_MUST_CHECK;
void fy_connections_start(struct fy_session *session);
void fy_connections_flush(struct fy_session *session);
void fy_connections_end(struct fy_session *session);
void fy_connections_free(struct fy_session *session);

/* Returns the setting that all connections of the place have (NULL: of the session); carry
 * if they differ. */
enum fy_tools_setting fy_connections_programs(const struct fy_session *session,
                                              const struct fy_place *place);
/* Of a mount; starts connecting if need be. */
struct connection *fy_connection_of(struct fy_session *session,
                                    const struct fy_mount *mount);
/* About how long it takes until it is READY; 0: it is, or never will be. */
double fy_connection_login_seconds(const struct connection *connection);
/* Whether the stage may be asked for: of what the hello says nothing is needed, or
 * it has come; what cannot be repeated is sent to a proxy that has greeted, and
 * answered if the hello was sent before. */
bool fy_connection_takes(const struct connection *connection,
                         const struct stage *stage);
/* The stage waits until it may be asked for: a hello that it needs goes out. */
void fy_connection_awaited(struct connection *connection,
                           const struct stage *stage);
/* A request. `exchange' has its functions set, and lives until `closed'. */
int fy_connection_request(struct connection *connection, const char *path,
                          bool body, struct exchange *exchange) FY_MUST_CHECK;

#endif
