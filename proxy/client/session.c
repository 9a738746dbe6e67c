/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of one run: a thread with one loop over the stubs' sockets and
 * the proxies' connections. It starts and ends here; what a stage is, is
 * elsewhere (see session.h). Whatever fails here, programs run as they would
 * without it.
 */
#include "config.h"

#include "proxy/client/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy/client/connection.h"
#include "proxy/client/holders.h"
#include "proxy/client/peer.h"
#include "proxy/client/stage.h"
#include "proxy/storage/work.h"

static void
stop_listening(struct fy_session *session)
{
    fy_snapshot_disable(session);
    if (session->stubs.listener.fd >= 0) {
        (void)unlink(session->socket_path);
        fy_loop_unwatch(&session->loop, &session->stubs.listener);
    }
}

static void
rung(void *owner, uint32_t events)
{
    struct fy_session *session = owner;
    (void)events;
    fy_work_collect(session->pool);
}

static void *
serve(void *argument)
{
    struct fy_session *session = argument;
    fy_connections_start(session);
    fy_connections_flush(session);
    for (;;) {
        int ending = __atomic_load_n(&session->ending, __ATOMIC_ACQUIRE);
        if (ending &&
            (ending > 1 || (!session->stages && !session->stubs.clients))) {
            break;
        }
        (void)fy_loop_turn(&session->loop, 0);
        fy_signals_release(session);
        fy_connections_flush(session); /* nothing that was queued waits */
        fy_stub_clients_sweep(session);
        fy_stages_sweep(session);
    }
    stop_listening(session);
    for (struct stub_client *client = session->stubs.clients; client;
         client = client->next) {
        fy_stub_client_drop(client);
    }
    fy_stub_clients_sweep(session);
    fy_stages_sweep(session);
    fy_connections_end(session);
    fy_stages_sweep(session);
    return NULL;
}

/* ---- start ---------------------------------------------------------------------- */

/*
 * Leaves the socket without a name but a descriptor of this process, to which the path
 * becomes a link. The kernel lets processes follow it that may look into this process:
 * none with fewer capabilities, in a user namespace or Landlock domain within, or without
 * this process in /proc.
 */
static bool
hide_socket(struct fy_session *session)
{
    char self[16], target[64];
    ssize_t n = readlink("/proc/self", self, sizeof self - 1);
    session->socket_node =
        open(session->socket_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (n <= 0 || session->socket_node < 0 ||
        unlink(session->socket_path) != 0) {
        return false;
    }
    (void)snprintf(target, sizeof target, "/proc/%.*s/fd/%d", (int)n, self,
                   session->socket_node);
    return symlink(target, session->socket_path) == 0;
}

static int
listen_at(struct fy_session *session, struct fy_buffer *why)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(session->socket_path) >= sizeof address.sun_path) {
        fy_buffer_add(why, session->socket_path);
        fy_buffer_add(why, ": too long for the path of a socket");
        return FY_ERR_OVERFLOW;
    }
    strcpy(address.sun_path, session->socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(session->socket_path, 0600) != 0 || listen(fd, SOMAXCONN) != 0 ||
        !hide_socket(session)) {
        fy_buffer_add(why, session->socket_path);
        fy_buffer_add(why, ": ");
        fy_buffer_add(why, strerrordesc_np(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        return FY_ERR_IO;
    }
    session->stubs.listener = (struct fy_watch){
        .fd = fd, .ready = fy_stub_clients_accept, .owner = session};
    return fy_loop_watch(&session->loop, &session->stubs.listener, EPOLLIN);
}

static int
start_thread(struct fy_session *session)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) {
        return FY_ERR_IO;
    }
    session->started =
        pthread_create(&session->thread, NULL, serve, session) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return session->started ? 0 : FY_ERR_NOMEM;
}

static int
set_up(struct fy_session *session, struct fy_buffer *why)
{
    const char *folder = session->options.folder;
    int a = snprintf(session->snapshot.path, PATH_MAX, "%s/snapshot", folder);
    int b = snprintf(session->socket_path, PATH_MAX, "%s/session", folder);
    if (a < 0 || a >= PATH_MAX || b < 0 || b >= PATH_MAX) {
        fy_buffer_add(why, "the session's folder has too long a name");
        return FY_ERR_OVERFLOW;
    }
    session->mounts = calloc(session->nmounts + 1, sizeof *session->mounts);
    if (!session->mounts) {
        return FY_ERR_NOMEM;
    }
    memcpy(session->mounts, session->options.mounts,
           session->nmounts * sizeof *session->mounts);
    for (unsigned i = 0; i < session->nmounts; i++) {
        struct fy_mount_cover cover;
        free(fy_mounts_below(session->mounts[i].path, &cover));
        session->mounts[i].cover = cover.hash;
    }
    session->logins =
        session->options.logins ? strdup(session->options.logins) : NULL;
    int status = fy_connections_new(session);
    if (status) {
        return status;
    }
    status = fy_holders_new(&session->scan.holders);
    if (status) {
        return status;
    }
    status = fy_peer_new(&session->peer);
    if (status) {
        return status;
    }
    status = fy_loop_open(&session->loop, rung, session);
    if (status) {
        fy_buffer_add(why, strerrordesc_np(errno));
        return status;
    }
    status = fy_pool_new(session->loop.bell.fd, &session->pool);
    if (status) {
        return status;
    }
    status = listen_at(session, why);
    if (!status && session->options.commands) {
        status = fy_snapshot_write(session, why);
    }
    return status;
}

int
fy_session_start(const struct fy_session_options *options,
                 struct fy_buffer *why, struct fy_session **out)
{
    struct fy_session *session = calloc(1, sizeof *session);
    if (!session) {
        return FY_ERR_NOMEM;
    }
    fy_link_prepare();
    session->options = *options;
    session->nmounts = options->nmounts;
    session->loop.epoll = session->loop.bell.fd = -1;
    session->stubs.listener.fd = session->socket_node = -1;
    session->stubs.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    session->stubs.rest =
        (struct fy_timer){.run = fy_stub_clients_rested, .owner = session};
    session->scan.timer =
        (struct fy_timer){.run = fy_link_scan, .owner = session};
    session->calls = &fy_stage_calls;
    session->records.end = &session->records.first;
    session->next_stage = 1;
    int status = set_up(session, why);
    if (!status) {
        status = start_thread(session);
    }
    if (status) {
        fy_session_free(session);
        return status;
    }
    *out = session;
    return 0;
}

/* No stub knows of the socket before the snapshot is there, so the session's thread
 * looks at neither meanwhile. */
int
fy_session_publish(struct fy_session *session,
                   const struct fy_commands *commands, struct fy_buffer *why)
{
    session->options.commands = commands;
    return fy_snapshot_write(session, why);
}

const char *
fy_session_snapshot(const struct fy_session *session)
{
    return session->snapshot.path;
}

const char *
fy_session_socket(const struct fy_session *session)
{
    return session->socket_path;
}

/* ---- end ------------------------------------------------------------------------ */

void
fy_session_hurry(struct fy_session *session)
{
    __atomic_fetch_or(&session->ending, 2, __ATOMIC_RELEASE);
    fy_loop_ring(&session->loop);
}

void
fy_session_end(struct fy_session *session, bool linger)
{
    if (!session->started) {
        return;
    }
    /* Not less than what a signal asked for. */
    __atomic_fetch_or(&session->ending, linger ? 1 : 2, __ATOMIC_RELEASE);
    fy_loop_ring(&session->loop);
    (void)pthread_join(session->thread, NULL);
    session->started = false;
    session->records.table =
        calloc(session->records.n + 1, sizeof *session->records.table);
    unsigned i = 0;
    for (struct record *record = session->records.first;
         record && session->records.table; record = record->next) {
        session->records.table[i++] = record;
    }
    session->records.n = i;
}

unsigned
fy_session_stages(const struct fy_session *session)
{
    return session->records.n;
}

void
fy_session_stage(const struct fy_session *session, unsigned i,
                 struct fy_stage_report *out)
{
    *out = session->records.table[i]->report;
}

void
fy_session_free(struct fy_session *session)
{
    if (!session) {
        return;
    }
    fy_session_end(session, false);
    fy_pool_free(session->pool);
    fy_snapshot_free(session);
    if (session->stubs.listener.fd >= 0) {
        (void)unlink(session->socket_path);
        (void)close(session->stubs.listener.fd);
    }
    fy_loop_close(&session->loop);
    if (session->stubs.spare_fd >= 0) {
        (void)close(session->stubs.spare_fd);
    }
    while (session->records.first) {
        struct record *record = session->records.first;
        session->records.first = record->next;
        fy_record_free(record);
    }
    free(session->records.table);
    if (session->socket_node >= 0) {
        (void)close(session->socket_node);
    }
    fy_peer_free(session->peer);
    fy_holders_free(session->scan.holders);
    fy_carry_free(session);
    fy_connections_free(session);
    free(session->logins);
    free(session->mounts);
    free(session);
}
