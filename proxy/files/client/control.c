/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: reports, barriers, the end of the mount. A visitor asks one thing.
 * The mount is unmounted by a child process, as the kernel may ask this one for
 * something before it lets go.
 */
#include "config.h"

#include "proxy/files/client/controls.h"
#include "proxy/files/client/file.h"
#include "proxy/files/client/walks.h"

#include "proxy/files/client/control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    VISITORS_MAX = 64,
    ANSWER_BYTES = 16 << 10,
};

enum state {
    ASKS,     /* its line is awaited */
    TELLS,    /* and the block behind it */
    BARRIER,  /* the answer to a BARRIER */
    WRITES,   /* the answers to earlier requests */
    NOTICES,  /* the notifier */
    UNMOUNTS, /* the child process */
    TOLD,     /* the answer was sent; closed with the mount */
};

struct visitor {
    struct fy_client *client;
    struct visitor *next;
    struct fy_watch watch, child; /* its socket; a pidfd */
    enum state state;
    char line[FY_FILES_CONTROL_LINE];
    char *block;     /* behind the line; NULL: none */
    size_t used;     /* of the line, then of the block */
    uint64_t before; /* calls before this one have to be answered */
    bool ends, lazy, forced, settles;
    bool gone; /* the tool has left, a callback is still to come */
};

struct fy_control {
    struct fy_watch listening;
    struct visitor *visitors;
    unsigned n;
    char path[sizeof((struct sockaddr_un *)NULL)->sun_path];
};

/* ---- visitors ---------------------------------------------------------------------------- */

static bool
has_callback(const struct visitor *visitor)
{
    return visitor->state == BARRIER || visitor->state == NOTICES;
}

static void
leave(struct visitor *visitor)
{
    struct fy_control *control = visitor->client->control;
    struct fy_loop *loop = &visitor->client->loop;
    fy_loop_unwatch(loop, &visitor->watch);
    if (has_callback(visitor)) {
        visitor->gone = true;
        return;
    }
    fy_loop_unwatch(loop, &visitor->child);
    struct visitor **link = &control->visitors;
    while (*link != visitor) {
        link = &(*link)->next;
    }
    *link = visitor->next;
    control->n--;
    free(visitor->block);
    free(visitor);
}

/* The answer fits into the socket's buffer; a visitor that does not read loses it. */
static void
say(struct visitor *visitor, const char *text)
{
    if (visitor->watch.fd >= 0) {
        (void)!send(visitor->watch.fd, text, strlen(text),
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

static void
say_and_leave(struct visitor *visitor, const char *text)
{
    say(visitor, text);
    leave(visitor);
}

/* All is done: "ok", or the error that no program was told. */
static void
say_done(struct visitor *visitor)
{
    char text[120];
    int error = fy_files_failure(visitor->client);
    (void)snprintf(text, sizeof text,
                   error ? "error a file could not be written: %s\n" : "ok\n",
                   strerrordesc_np(error));
    say(visitor, text);
}

/* ---- report -------------------------------------------------------------------------------- */

static void
add(struct fy_buffer *to, const char *key, uint64_t value)
{
    fy_buffer_printf(to, "%s %lu\n", key, value);
}

static void
report(struct visitor *visitor)
{
    const struct fy_client *client = visitor->client;
    const struct fy_counts *counts = &client->counts;
    struct fy_wire_counters wire;
    char text[ANSWER_BYTES];
    struct fy_buffer to;
    uint64_t requests = 0;
    fy_buffer_start(&to, text, sizeof text);
    fy_stream_counters(&client->stream, &wire);
    for (unsigned i = 0; i < FY_FILES_TYPES; i++) {
        requests += counts->requests[i];
    }
    fy_buffer_printf(&to, "place %s\nfolder %s%s", client->options->place,
                     client->options->folder,
                     client->calls.ready ? "\nlink ready\n"
                                         : "\nlink waiting\n");
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        {"pid", (uint64_t)getpid()},
        {"requests", requests},
        {"waited", counts->waited},
        {"local", counts->local},
        {"sent_bytes", wire.sent_bytes},
        {"received_bytes", wire.received_bytes},
        {"rtt_us", wire.rtt_ns / 1000},
        {"nodes", client->tree.nnodes},
        {"watched", client->tree.nwatches},
        {"notices", counts->notices},
        {"lost", counts->lost},
        {"pushed_files", counts->pushed_files},
        {"pushed_bytes", counts->pushed_bytes},
        {"used_files", counts->used_files},
        {"used_bytes", counts->used_bytes},
        {"named_files", counts->named_files},
        {"trees", counts->trees},
        {"pending_bytes", client->pending.bytes},
        {"pending_requests", client->calls.open},
        {"breaks", counts->breaks},
        {"errors", counts->errors},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        add(&to, rows[i].key, rows[i].value);
    }
    for (unsigned i = 0; i < FY_FILES_TYPES; i++) {
        if (counts->requests[i] > 0) {
            fy_buffer_add(&to, "request ");
            add(&to, fy_files_type_name((enum fy_files_type)i),
                counts->requests[i]);
        }
    }
    fy_buffer_add(&to, "ok\n");
    say_and_leave(visitor, text);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Runs in the child process: only functions that are safe after fork. */
static void
unmount_and_exit(const char *folder, bool lazy)
{
    if (geteuid() != 0) {
        (void)execlp("fusermount3", "fusermount3", "-q", lazy ? "-uz" : "-u",
                     "--", folder, (char *)NULL);
        _exit(127);
    }
    _exit(umount2(folder, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) ? 1 : 0);
}

static void
child_ended(void *owner, uint32_t events)
{
    struct visitor *visitor = owner;
    siginfo_t info = {0};
    (void)events;
    (void)waitid((idtype_t)P_PIDFD, (id_t)visitor->child.fd, &info, WEXITED);
    if (info.si_code == CLD_EXITED && info.si_status == 0) {
        if (visitor->forced) { /* open files fail once this process ends */
            visitor->client->detached = visitor->client->ends = true;
        }
        say_done(visitor);
        visitor->state = TOLD; /* closed when this process ends */
        fy_loop_unwatch(&visitor->client->loop, &visitor->child);
        return;
    }
    say_and_leave(visitor, "error busy\n");
}

static void
unmount(struct visitor *visitor)
{
    struct fy_client *client = visitor->client;
    pid_t child = fork();
    if (child == 0) {
        unmount_and_exit(client->options->folder, visitor->lazy);
    }
    int fd = child < 0 ? -1 : (int)syscall(SYS_pidfd_open, child, 0);
    visitor->child =
        (struct fy_watch){.fd = fd, .ready = child_ended, .owner = visitor};
    visitor->state = UNMOUNTS;
    if (fd < 0 || fy_loop_watch(&client->loop, &visitor->child, EPOLLIN)) {
        say_and_leave(visitor, "error no process\n");
    }
}

/* ---- barrier --------------------------------------------------------------------------------- */

static void
reached(struct visitor *visitor)
{
    visitor->state = ASKS; /* no callback is to come */
    if (visitor->gone) {
        leave(visitor);
    } else if (visitor->ends) {
        unmount(visitor);
    } else {
        say_and_leave(visitor, "ok\n");
    }
}

static void
notified(void *owner, struct fy_notice *notice, bool stored)
{
    (void)notice;
    (void)stored;
    reached(owner);
}

/* Requests before the barrier are answered: then the notifier has their results. */
static void
pass_writes(struct visitor *visitor)
{
    struct fy_client *client = visitor->client;
    for (const struct fy_call *call = client->calls.first;
         call && (call->id == 0 || call->id < visitor->before);
         call = call->next) {
        if (call->id != 0 &&
            (unsigned char)call->frame.bytes[4] != FY_FILES_LOCK) {
            return;
        }
    }
    if (visitor->settles) {
        say_done(visitor);
        leave(visitor);
        return;
    }
    fy_change_unwatched_lost(client);
    struct fy_notice *mark = fy_notice_new(FY_NOTICE_MARK, 0, NULL, 0);
    if (!mark) {
        visitor->state = ASKS;
        say_and_leave(visitor, "error no memory\n");
        return;
    }
    mark->done = notified;
    mark->owner = visitor;
    visitor->state = NOTICES;
    fy_notifier_add(&client->notifier, mark);
}

static void
barrier_answered(struct fy_client *client, struct fy_call *call,
                 const struct fy_files_message *asked,
                 const struct fy_files_message *answer)
{
    struct visitor *visitor = call->context;
    (void)client;
    (void)asked;
    visitor->state = ASKS;
    if (visitor->gone || answer->status != 0) {
        say_and_leave(visitor, "error the storage cannot be reached\n");
        return;
    }
    visitor->before = call->id;
    visitor->state = WRITES;
}

static void
ask_barrier(struct visitor *visitor)
{
    visitor->state = BARRIER;
    fy_ask(visitor->client,
           &(struct fy_call){.answered = barrier_answered, .context = visitor},
           &(struct fy_files_message){.type = FY_FILES_BARRIER});
}

void
fy_control_turn(struct fy_client *client)
{
    if (client->control) {
        for (struct visitor *visitor = client->control->visitors, *next;
             visitor; visitor = next) {
            next = visitor->next;
            if (visitor->state == WRITES) {
                pass_writes(visitor);
            }
        }
    }
}

/* Calls that wait end with an error; unwritten bytes are lost. */
static void
force(struct visitor *visitor)
{
    struct fy_client *client = visitor->client;
    const struct fy_pending *pending = &client->pending;
    char text[120];
    (void)snprintf(text, sizeof text,
                   "lost_bytes %" PRIu64 "\nlost_files %" PRIu32
                   "\nlost_creations %" PRIu32 "\n",
                   pending->bytes, pending->files, pending->makes);
    say(visitor, text);
    visitor->ends = visitor->lazy = visitor->forced = true;
    fy_calls_fail(client, -EIO, true);
    unmount(visitor);
}

/* ---- asking ----------------------------------------------------------------------------------- */

static void
obey(struct visitor *visitor)
{
    const struct fy_client *client = visitor->client;
    const char *line = visitor->line;
    visitor->ends = strcmp(line, FY_FILES_CONTROL_END) == 0 ||
                    strcmp(line, FY_FILES_CONTROL_LAZY) == 0;
    visitor->lazy = strcmp(line, FY_FILES_CONTROL_LAZY) == 0;
    if (strcmp(line, FY_FILES_CONTROL_REPORT) == 0) {
        report(visitor);
    } else if (strcmp(line, FY_FILES_CONTROL_FORCE) == 0) {
        force(visitor);
    } else if (strcmp(line, FY_FILES_CONTROL_SETTLE) == 0) {
        visitor->settles = true;
        visitor->before = client->calls.next_id;
        visitor->state = WRITES; /* answered at the end of this turn */
    } else if (visitor->ends || strcmp(line, FY_FILES_CONTROL_BARRIER) == 0) {
        ask_barrier(visitor);
    } else {
        say_and_leave(visitor, "error no such request\n");
    }
}

/* A block follows the line, of which n bytes came with it. */
static void
begin_block(struct visitor *visitor, const char *bytes, size_t n)
{
    visitor->block = malloc(FY_FILES_CONTROL_BLOCK);
    if (!visitor->block) {
        say_and_leave(visitor, "error no memory\n");
        return;
    }
    memcpy(visitor->block, bytes, n);
    visitor->used = n;
    visitor->state = TELLS;
}

static void
take_block(struct visitor *visitor)
{
    ssize_t n = recv(visitor->watch.fd, visitor->block + visitor->used,
                     FY_FILES_CONTROL_BLOCK - visitor->used, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    visitor->used += n > 0 ? (size_t)n : 0;
    if (n <= 0 || visitor->used == FY_FILES_CONTROL_BLOCK) {
        say_and_leave(visitor, fy_foreseen_take(visitor->client, visitor->line,
                                                visitor->block, visitor->used)
                                   ? "ok\n"
                                   : "error no such request\n");
    }
}

static void
visitor_ready(void *owner, uint32_t events)
{
    struct visitor *visitor = owner;
    char *end;
    (void)events;
    if (visitor->state == TELLS) {
        take_block(visitor);
        return;
    }
    if (visitor->state != ASKS) {
        leave(visitor); /* it has closed its end */
        return;
    }
    ssize_t n = recv(visitor->watch.fd, visitor->line + visitor->used,
                     sizeof visitor->line - visitor->used, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    visitor->used += n > 0 ? (size_t)n : 0;
    end = memchr(visitor->line, '\n', visitor->used);
    if (end) {
        *end++ = '\0';
        if (strncmp(visitor->line, FY_FILES_CONTROL_AHEAD,
                    strlen(FY_FILES_CONTROL_AHEAD)) == 0) {
            begin_block(visitor, end,
                        (size_t)(visitor->line + visitor->used - end));
            return;
        }
        (void)fy_loop_watch(&visitor->client->loop, &visitor->watch, EPOLLERR);
        obey(visitor);
    } else if (n <= 0 || visitor->used == sizeof visitor->line) {
        leave(visitor);
    }
}

static void
visitor_came(void *owner, uint32_t events)
{
    struct fy_client *client = owner;
    struct fy_control *control = client->control;
    (void)events;
    int fd = accept4(control->listening.fd, NULL, NULL,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct visitor *visitor = fd >= 0 && control->n < VISITORS_MAX
                                  ? calloc(1, sizeof *visitor)
                                  : NULL;
    if (!visitor) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    visitor->client = client;
    visitor->child.fd = -1;
    visitor->watch =
        (struct fy_watch){.fd = fd, .ready = visitor_ready, .owner = visitor};
    visitor->next = control->visitors;
    control->visitors = visitor;
    control->n++;
    if (fy_loop_watch(&client->loop, &visitor->watch, EPOLLIN)) {
        leave(visitor);
    }
}

int
fy_control_open(struct fy_client *client)
{
    const char *path = client->options->control;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path) {
        return 0;
    }
    if (strlen(path) >= sizeof address.sun_path) {
        return FY_ERR_OVERFLOW;
    }
    struct fy_control *control = calloc(1, sizeof *control);
    if (!control) {
        return FY_ERR_NOMEM;
    }
    client->control = control;
    strcpy(address.sun_path, path);
    strcpy(control->path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    control->listening =
        (struct fy_watch){.fd = fd, .ready = visitor_came, .owner = client};
    mode_t before = umask(0177);
    (void)unlink(path); /* of a mount that was killed: the folder is private */
    bool good = fd >= 0 &&
                bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                listen(fd, 8) == 0 &&
                fy_loop_watch(&client->loop, &control->listening, EPOLLIN) == 0;
    (void)umask(before);
    return good ? 0 : FY_ERR_IO;
}

void
fy_control_close(struct fy_client *client)
{
    struct fy_control *control = client->control;
    if (!control) {
        return;
    }
    while (control->visitors) {
        struct visitor *visitor = control->visitors;
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): who has left is no visitor */
        if (visitor->state == UNMOUNTS) {
            say_done(visitor); /* faster than the child's end */
        }
        visitor->state = TOLD; /* callbacks are over */
        leave(visitor);
    }
    if (control->listening.fd >= 0) {
        (void)unlink(control->path);
    }
    fy_loop_unwatch(&client->loop, &control->listening);
    free(control);
    client->control = NULL;
}
