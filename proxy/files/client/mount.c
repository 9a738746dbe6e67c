/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a mount: connected, mounted, served, unmounted; see the header.
 */
#include "config.h"

#include "proxy/files/client/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/debug.h"
#include "proxy/files/client/controls.h"
#include "proxy/files/client/file.h"
#include "proxy/files/client/holds.h"
#include "proxy/files/client/locks.h"
#include "proxy/files/client/operations.h"
#include "proxy/files/client/shadow.h"
#include "proxy/files/client/walks.h"
#include "proxy/files/record.h"

enum {
    REQUESTS_A_TURN = 64, /* of the kernel, before the wire is served again */
    AC_MS = 3000,
    GONE_NS = 300000000, /* between looks whether a detached mount is in use */
    END_MS = 5000,       /* remaining requests are sent, at the end */
};

/* The mount ends with this status and message; the first one counts. */
static void
stop(struct fy_client *client, int status, const char *why)
{
    if (!client->ends) {
        client->ends = true;
        client->status = status;
        fy_buffer_add(client->why, why);
    }
}

/* ---- the kernel -------------------------------------------------------------------------------- */

static void
init(void *data, struct fuse_conn_info *kernel)
{
    struct fy_client *client = data;
    const unsigned wanted =
        FUSE_CAP_ASYNC_READ | FUSE_CAP_READDIRPLUS | FUSE_CAP_CACHE_SYMLINKS |
        FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_PARALLEL_DIROPS |
        FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_EXPIRE_ONLY |
        FUSE_CAP_ASYNC_DIO;
    kernel->want = wanted & kernel->capable;
    kernel->max_background = 256;
    kernel->congestion_threshold = 192;
    kernel->time_gran = 1;
    if (client->options->ready) {
        client->options->ready(client->options->context);
    }
}

static void
device_ready(void *owner, uint32_t events)
{
    struct fy_client *client = owner;
    (void)events;
    for (unsigned i = 0; i < REQUESTS_A_TURN; i++) {
        int n = fuse_session_receive_buf(client->fuse, &client->buffer);
        if (n == -EINTR) {
            continue;
        }
        if (n <= 0) {
            if (n != -EAGAIN) {
                stop(client, 0, "");
            }
            break;
        }
        fuse_session_process_buf(client->fuse, &client->buffer);
    }
    if (fuse_session_exited(client->fuse)) {
        stop(client, 0, "");
    }
}

/* Whether a line of mountinfo is of this mount: its fifth word is the folder, where
 * blanks and backslashes are octal. */
static bool
is_of_folder(const char *line, const char *folder)
{
    for (unsigned word = 0; word < 4 && line; word++) {
        line = strchr(line, ' ');
        line = line ? line + 1 : NULL;
    }
    while (line && *line && *line != ' ' && *folder) {
        unsigned byte;
        int n = 1;
        if (*line == '\\' && sscanf(line, "\\%3o%n", &byte, &n) != 1) {
            return false;
        }
        if (n == 1 ? *line != *folder : (char)byte != *folder) {
            return false;
        }
        line += n;
        folder++;
    }
    return line && *line == ' ' && !*folder;
}

static void
gone_due(void *owner)
{
    struct fy_client *client = owner;
    if (client->detached && client->opens == 0) {
        stop(client, 0, "");
    } else if (client->detached) {
        fy_loop_set(&client->loop, &client->gone, GONE_NS);
    }
}

/*
 * The mount may live on in the mount namespace of a proxy of this machine, which this
 * process started itself: it ends when no folder here shows it and no file is open.
 */
static void
mounts_changed(void *owner, uint32_t events)
{
    struct fy_client *client = owner;
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    (void)events;
    (void)lseek(client->mounts.fd, 0,
                SEEK_SET); /* the next change is awaited */
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file && !found && getline(&line, &capacity, file) > 0) {
        found = is_of_folder(line, client->options->folder) &&
                strstr(line, " fuse.ferry ");
    }
    client->detached = file && !found;
    if (client->detached && client->gone.due_ns == 0) {
        fy_loop_set(&client->loop, &client->gone, GONE_NS);
    }
    free(line);
    if (file) {
        (void)fclose(file);
    }
}

static int
add_option(char **options, const char *key, const char *value)
{
    char *text = NULL;
    if (asprintf(&text, "%s%s", key, value) < 0) {
        return -1;
    }
    int status = fuse_opt_add_opt_escaped(options, text);
    free(text);
    return status;
}

/* libfuse's arguments: one -o with all options. */
static int
add_options(const struct fy_files_mount_options *options,
            struct fuse_args *args)
{
    char *text = NULL;
    int bad = add_option(
        &text, "fsname=", options->source ? options->source : options->place);
    bad = bad || fuse_opt_add_opt(&text, "subtype=ferry,default_permissions");
    bad = bad || (options->read_only && fuse_opt_add_opt(&text, "ro"));
    bad =
        bad || (options->allow_other && fuse_opt_add_opt(&text, "allow_other"));
    bad = bad || (options->devices && fuse_opt_add_opt(&text, "dev,suid"));
    bad = bad || (options->kernel_options && *options->kernel_options &&
                  fuse_opt_add_opt(&text, options->kernel_options));
    bad = bad || fuse_opt_add_arg(args, "ferry") ||
          fuse_opt_add_arg(args, "-o") || fuse_opt_add_arg(args, text);
    free(text);
    return bad ? -1 : 0;
}

static void
rung(void *owner)
{
    struct fy_client *client = owner;
    fy_loop_ring(&client->loop);
}

static bool
open_device(struct fy_client *client)
{
    int fd = fuse_session_fd(client->fuse);
    client->device =
        (struct fy_watch){.fd = fd, .ready = device_ready, .owner = client};
    client->notifier.ring = rung;
    client->notifier.owner = client;
    client->mounts = (struct fy_watch){
        .fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC),
        .ready = mounts_changed,
        .owner = client};
    return fy_wire_unblock(fd) == 0 &&
           fy_loop_watch(&client->loop, &client->mounts, EPOLLPRI) == 0 &&
           fy_loop_watch(&client->loop, &client->device, EPOLLIN) == 0 &&
           fy_notifier_start(&client->notifier, client->fuse) == 0;
}

/* CONTROL.record, or the control socket's name with that ending instead of its own. */
static void
open_record(struct fy_client *client)
{
    const char *control = client->options->control;
    if (control) {
        const char *dot = strrchr(control, '.');
        size_t n = dot && !strchr(dot, '/') ? (size_t)(dot - control)
                                            : strlen(control);
        (void)snprintf(client->pending.record_path,
                       sizeof client->pending.record_path, "%.*s.record",
                       (int)n, control);
        client->pending.record = fy_files_record_new(
            client->pending.record_path, client->options->place,
            client->options->folder);
    }
}

static void
greeted(struct fy_client *client, const struct fy_files_message *hello)
{
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    struct fuse_lowlevel_ops rows = {.init = init};
    fy_names_operations(&rows);
    fy_folders_operations(&rows);
    fy_contents_operations(&rows);
    fy_attributes_operations(&rows);
    fy_locks_operations(&rows);
    if (fy_tree_open(&client->tree, &hello->attr)) {
        stop(client, FY_ERR_INVALID, "the root is not a folder");
        return;
    }
    client->tree.root->lookups = 1;
    client->tree.root->told_ns = fy_clock_ns();
    if (add_options(client->options, &args) == 0) {
        client->fuse = fuse_session_new(&args, &rows, sizeof rows, client);
    }
    fuse_opt_free_args(&args);
    if (!client->fuse ||
        fuse_session_mount(client->fuse, client->options->folder) != 0) {
        stop(client, FY_ERR_IO, "it cannot be mounted");
        return;
    }
    client->mounted = true;
    if (!open_device(client)) {
        stop(client, FY_ERR_IO, "/dev/fuse cannot be read");
    } else if (open_record(client), fy_control_open(client)) {
        stop(client, FY_ERR_IO, "the control socket cannot be made");
    }
}

static void
replaced(struct fy_client *client)
{
    client->tree.least_watch = 0;
    fy_change_all_lost(client);
    fy_locks_lost(client);
    fy_holds_lost(client);
}

static void
dropped(struct fy_client *client, struct fy_node *node)
{
    fy_ahead_drop(client, node);
    fy_shadow_drop(client, node->file);
}

static const struct fy_client_events client_events = {
    .greeted = greeted,
    .noticed = fy_change_came,
    .replaced = replaced,
    .dropped = dropped,
    .listed = fy_foreseen_go_on,
};

/* ---- the way to the storage --------------------------------------------------------------------- */

static void
opened(void *owner)
{
    fy_calls_opened(owner);
}

static void
bytes_came(void *owner, const void *bytes, size_t n)
{
    fy_calls_take(owner, bytes, n);
}

static void
room_came(void *owner)
{
    fy_calls_send(owner);
}

static void
broken(void *owner, const char *why, bool final)
{
    struct fy_client *client = owner;
    client->counts.breaks += client->calls.ready;
    fy_calls_broken(client);
    if (client->broken_ns == 0) {
        client->broken_ns = fy_clock_ns();
        if (client->options->soft_seconds > 0) {
            fy_loop_set(&client->loop, &client->soft,
                        client->options->soft_seconds * UINT64_C(1000000000));
        }
    }
    if (final || !client->mounted) {
        stop(client, FY_ERR_IO, why);
    }
}

/* -o soft: the link is broken for too long. */
static void
soft_due(void *owner)
{
    fy_calls_fail(owner, -EIO, true);
}

static const struct fy_stream_events stream_events = {
    .opened = opened,
    .bytes = bytes_came,
    .room = room_came,
    .broken = broken,
};

/* ---- numbers that the server need not hold any more ----------------------------------------------- */

static void
forget_number(struct fy_client *client, uint64_t number)
{
    if (fy_files_number_put(number, &client->numbers.forgotten)) {
        fy_debug(CLIENT, "mount: no memory to forget a number");
    }
}

static void
unwatched(void *owner, uint64_t watch)
{
    forget_number(owner, watch * 2);
}

static void
unkept(void *owner, uint64_t kept)
{
    forget_number(owner, kept * 2 + 1);
}

static void
file_freed(void *owner, struct fy_file *file)
{
    fy_ahead_freed(owner, file);
    fy_shadow_drop(owner, file);
    fy_file_free(file);
}

static void
send_forgotten(struct fy_client *client)
{
    struct fy_files_out *out = &client->numbers.forgotten;
    if (out->n > 0 && client->numbers.asked == 0) {
        fy_tell(client,
                &(struct fy_files_message){.type = FY_FILES_FORGET,
                                           .data = {out->bytes, out->n}});
        out->n = 0;
    }
}

/* ---- the loop ------------------------------------------------------------------------------------ */

static void
bell_rung(void *owner, uint32_t events)
{
    (void)owner;
    (void)events; /* a turn is all it takes */
}

static void
turn(struct fy_client *client, uint64_t until_ns)
{
    if (fy_loop_turn(&client->loop, until_ns)) {
        stop(client, FY_ERR_IO, "nothing can be waited for");
    }
    if (client->notifier.runs) {
        fy_notifier_collect(&client->notifier);
    }

    fy_control_turn(client);
    send_forgotten(client);
    fy_calls_send(client);
    fy_stream_flush(&client->stream);
}

static void
signalled(void *owner, uint32_t events)
{
    (void)events;
    stop(owner, 0, "");
}

/* Signals that end the mount come by a descriptor. */
static int
watch_signals(struct fy_client *client, struct fy_watch *watch)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    *watch = (struct fy_watch){.fd = signalfd(-1, &set, SFD_CLOEXEC),
                               .ready = signalled,
                               .owner = client};
    return watch->fd < 0 ? FY_ERR_IO
                         : fy_loop_watch(&client->loop, watch, EPOLLIN);
}

/* Unmounts, and delivers acknowledged writes. */
static void
finish(struct fy_client *client)
{
    uint64_t until = fy_clock_ns() + (uint64_t)END_MS * 1000000;
    struct pollfd device = {.fd = client->device.fd, .events = POLLIN};
    bool gone = client->mounted && client->device.fd >= 0 &&
                poll(&device, 1, 0) == 1 && (device.revents & POLLERR);
    /* Another mount may be on the folder by now, unless the kernel says that ours went. */
    if (client->mounted && (!client->detached || gone)) {
        fuse_session_unmount(client->fuse);
    }
    while ((client->pending.bytes > 0 || client->pending.makes > 0) &&
           client->calls.ready && fy_clock_ns() < until) {
        turn(client, until);
    }
    if (client->pending.bytes > 0 && client->status == 0) {
        client->status = FY_ERR_IO;
        fy_buffer_printf(client->why, "%lu bytes that were written are lost",
                         client->pending.bytes);
    }
    int error = fy_files_failure(client);
    if (error != 0 && client->status == 0) {
        client->status = FY_ERR_IO;
        fy_buffer_printf(client->why, "a file could not be written: %s",
                         strerrordesc_np(error));
    }
    if (client->pending.makes > 0 && client->status == 0) {
        client->status = FY_ERR_IO;
        fy_buffer_printf(client->why, "%u files that were created are lost",
                         client->pending.makes);
    }
    if (client->pending.record && client->pending.bytes == 0 &&
        client->pending.makes == 0) {
        (void)unlink(client->pending.record_path);
    }
    client->pending.record = NULL; /* losses stay in it */
    fy_calls_fail(client, -EIO, true);
    fy_notifier_stop(&client->notifier);
    while (client->notifier.runs && !fy_notifier_ended(&client->notifier)) {
        turn(client, fy_clock_ns() + 100000000);
    }
    if (client->notifier.runs) {
        fy_notifier_close(&client->notifier);
    }
    fy_stream_finish(&client->stream);
    fy_stream_flush(&client->stream);
}

static void
release(struct fy_client *client)
{
    fy_control_close(client);
    fy_stream_close(&client->stream);
    fy_loop_forget(&client->loop, &client->device);
    fy_loop_unwatch(&client->loop, &client->mounts);
    fy_tree_close(&client->tree);
    if (client->fuse) {
        fuse_session_destroy(client->fuse);
    }
    free(client->buffer.mem);
    fy_foreseen_close(client);
    fy_ahead_close(client);
    fy_calls_close(client);
    fy_files_out_free(&client->numbers.forgotten);
    fy_holds_close(client);
    fy_loop_close(&client->loop);
    free(client);
}

static void
start(struct fy_client *client, const struct fy_files_mount_options *options)
{
    client->options = options;
    client->events = &client_events;
    client->device.fd = client->mounts.fd = -1;
    client->loop.epoll = client->loop.bell.fd = -1;
    client->owners = (struct fy_owners){
        .numbers = options->numbers, .uid = getuid(), .gid = getgid()};
    client->stream = (struct fy_stream){.loop = &client->loop,
                                        .place = &client->place,
                                        .ferry = options->ferry,
                                        .events = &stream_events,
                                        .owner = client};
    client->stream.in.fd = client->stream.out.fd = -1;
    client->tree.unwatched = unwatched;
    client->tree.unkept = unkept;
    fy_holds_start(client);
    client->tree.freed = file_freed;
    client->tree.owner = client;
    client->gone = (struct fy_timer){.run = gone_due, .owner = client};
    client->soft = (struct fy_timer){.run = soft_due, .owner = client};
    fy_calls_start(client);
}

int
fy_files_mount(const struct fy_files_mount_options *given,
               struct fy_buffer *why)
{
    struct fy_files_mount_options options = *given;
    struct fy_watch signals = {.fd = -1};
    struct fy_client *client = calloc(1, sizeof *client);
    if (!client) {
        return FY_ERR_NOMEM;
    }
    options.ac_ms = options.ac_ms ? options.ac_ms : AC_MS;
    client->why = why;
    start(client, &options);
    int status = fy_place_parse(options.place, &client->place, why);
    if (!status && (fy_loop_open(&client->loop, bell_rung, client) ||
                    watch_signals(client, &signals))) {
        fy_buffer_add(why, "no event loop");
        status = FY_ERR_IO;
    }
    if (!status) {
        fy_stream_start(&client->stream);
        fy_stream_flush(&client->stream);
        while (!client->ends) {
            turn(client, 0);
        }
        finish(client);
        status = client->status;
    }
    fy_loop_unwatch(&client->loop, &signals);
    release(client);
    return status;
}
