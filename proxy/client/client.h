/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outside of the client: the session of a run. For tools/.
 */
#ifndef FERRY_PROXY_CLIENT_CLIENT_H
#define FERRY_PROXY_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "annotations/commands/command.h"
#include "common/buffer.h"
#include "common/status.h"
#include "proxy/wire/reason.h"
#include "proxy/wire/transport.h"

struct fy_session;

struct fy_session_options {
    /* Borrowed, must outlive the session. NULL: fy_session_publish() follows. */
    const struct fy_commands *commands;
    const struct fy_mount *mounts; /* copied */
    unsigned nmounts;
    /* Folder of the shipped annotations: they speak of the system's own tools,
     * so programs elsewhere run here unless a user's file declares them. NULL:
     * all are taken. */
    const char *library;
    const char *folder; /* private, exists: snapshot and socket are made here */
    const char *stub;   /* path of ferry-stub */
    const char *ferry;  /* path of ferry, for loopback */
    const char *logins; /* for logins.h, copied; NULL: none are kept */
    bool force;         /* offload all that may be, not only what pays */
    bool whole_environment; /* send all variables, not only those declared */
    /* Lines of settings (common/settings.h), until the start has returned; NULL: none. */
    const char *tools, *store;
    bool record; /* keep stages for fy_session_stage() */
};

/*
 * Makes the snapshot FOLDER/snapshot and listens on FOLDER/session, then serves
 * in a thread of its own with all signals blocked. Returns at once; proxies are
 * reached when first wanted (configured mounts: at once, in the background).
 */
int fy_session_start(const struct fy_session_options *options,
                     struct fy_buffer *why,
                     struct fy_session **out) FY_MUST_CHECK;
/*
 * The second half of a start without commands: connections are made while they
 * are compiled. Before any program of the run starts.
 */
int fy_session_publish(struct fy_session *session,
                       const struct fy_commands *commands,
                       struct fy_buffer *why) FY_MUST_CHECK;
/* Path of the snapshot, for the settings of the shim. */
const char *fy_session_snapshot(const struct fy_session *session);
/* The unix socket that stubs are given. */
const char *fy_session_socket(const struct fy_session *session);

/* Tells mounts of ferry the words of a command that is about to run locally, which may name
 * files. Does not wait. */
void fy_foresee_words(const struct fy_mount *mounts, unsigned nmounts,
                      const char *const *argv);

/*
 * Ends it: stages that still run (background jobs) go on being served until
 * they end when `linger', else they are cancelled. Then connections are closed
 * and the thread is joined.
 */
void fy_session_end(struct fy_session *session, bool linger);
/* Makes a lingering end, in progress or to come, one that does not wait. May be
 * called in a handler of signals. */
void fy_session_hurry(struct fy_session *session);

/* One stage, after it has ended (or as it is). Strings live as long as the
 * session. */
struct fy_stage_report {
    const char *const *argv;
    uint32_t argc;
    int32_t pid;
    const char *placed; /* the place's name, or NULL: here */
    unsigned declined;  /* enum fy_stage_reason; NONE when placed */
    const char *why;    /* one clause more, or "" */
    int32_t linked_to;  /* pid of the stage that reads its stdout there; 0 */
    uint64_t bytes_from_link, bytes_to_link; /* that crossed the network */
    double seconds;
    double predicted_seconds; /* there, 0: no prediction */
    double predicted_local_seconds;
    int32_t exit; /* 128 + signal as shells do; -1: unknown (here) */
};

struct fy_link_report {
    const char *place;
    uint64_t received_bytes, sent_bytes;
    double seconds; /* connected */
    double rtt_seconds;
    const char *trouble; /* why it cannot be used, or "" */
    const char *open;    /* risks that stages there are not kept from, or "" */
};

/*
 * Each may be called between fy_session_end() and fy_session_free(), by one thread; i is
 * below the number of stages or links. Strings of *out live as long as the session.
 */
unsigned fy_session_stages(const struct fy_session *session);
void fy_session_stage(const struct fy_session *session, unsigned i,
                      struct fy_stage_report *out);
unsigned fy_session_links(const struct fy_session *session);
void fy_session_link(const struct fy_session *session, unsigned i,
                     struct fy_link_report *out);
/* Ends the session, without lingering, if that was not done; removes its socket and
 * frees it. NULL: fine. */
void fy_session_free(struct fy_session *session);

#endif
