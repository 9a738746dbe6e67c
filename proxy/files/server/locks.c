/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of the client's programs, as locks of this process that the storage's own
 * programs meet. Each owner has a file description of its own for each node: its record
 * locks are OFD locks of that, its flock(2) lock is that of it. A lock that has to wait
 * does so in a thread of its own, which a signal interrupts.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    OWNERS_MAX = 4096, /* each has a descriptor */
    WAITING_MAX = 64,  /* each has a thread */
    SET_MAX =
        64 << 10, /* locks of one owner, for each may stay in the kernel */
    STACK_BYTES = 64 << 10,
};

struct fy_files_lock {
    struct fy_files_request *request;
    struct fy_files_owner *owner;
    struct flock range;
    pthread_t thread;
};

static void
on_interrupt(int signal)
{
    (void)signal;
}

int
fy_files_locks_open(struct fy_files_server *server)
{
    const struct sigaction action = {.sa_handler = on_interrupt};
    return sigaction(SIGUSR1, &action, NULL) ||
                   pthread_mutex_init(&server->locks.lock, NULL) ||
                   pthread_cond_init(&server->locks.ended, NULL)
               ? FY_ERR_NOMEM
               : 0;
}

/* ---- owners; with the lock of struct fy_files_locks held --------------------------------- */

static void
release(struct fy_files_locks *locks, struct fy_files_owner *owner)
{
    owner->refs--;
    if (owner->refs || owner->holds) {
        return;
    }
    struct fy_files_owner **link = &locks->owners;
    while (*link != owner) {
        link = &(*link)->next;
    }
    *link = owner->next;
    locks->nowners--;
    (void)close(owner->fd);
    free(owner);
}

static void
give_back(struct fy_files_server *server, struct fy_files_owner *owner)
{
    (void)pthread_mutex_lock(&server->locks.lock);
    release(&server->locks, owner);
    (void)pthread_mutex_unlock(&server->locks.lock);
}

/* A description of the object that no other owner has. */
static int
open_own(const struct fy_files_object *object)
{
    static const int modes[] = {O_RDWR, O_RDONLY, O_WRONLY};
    char path[32];
    int fd = -1;
    if (!S_ISREG(object->type) && !S_ISDIR(object->type)) {
        errno = EINVAL;
        return -1;
    }
    fy_files_fd_path(fy_files_fd(object), path);
    for (unsigned i = S_ISDIR(object->type); fd < 0 && i < 3; i++) {
        fd = open(path, modes[i] | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    }
    return fd;
}

/* The owner of the request on the object, new or not; used. Negative errno. */
static int
use_owner(struct fy_files_server *server, const struct fy_files_object *object,
          uint64_t number, bool flock, struct fy_files_owner **out)
{
    struct fy_files_locks *locks = &server->locks;
    int status = 0;
    (void)pthread_mutex_lock(&locks->lock);
    struct fy_files_owner *owner = locks->owners;
    while (owner && (owner->owner != number || owner->ino != object->ino ||
                     owner->dev != object->dev || owner->flock != flock)) {
        owner = owner->next;
    }
    if (owner) {
        owner->refs++;
    } else if (locks->nowners >= OWNERS_MAX ||
               !(owner = calloc(1, sizeof *owner))) {
        status = -ENOLCK;
    } else {
        *owner = (struct fy_files_owner){.next = locks->owners,
                                         .owner = number,
                                         .dev = object->dev,
                                         .ino = object->ino,
                                         .flock = flock,
                                         .refs = 1,
                                         .fd = open_own(object)};
        if (owner->fd < 0) {
            status = -errno;
            free(owner);
        } else {
            locks->owners = owner;
            locks->nowners++;
        }
    }
    (void)pthread_mutex_unlock(&locks->lock);
    *out = owner;
    return status;
}

/* ---- setting ----------------------------------------------------------------------------- */

static int
set(const struct fy_files_owner *owner, const struct flock *range, bool waits)
{
    struct flock wanted = *range;
    if (!owner->flock) {
        return fcntl(owner->fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &wanted)
                   ? -errno
                   : 0;
    }
    int operation = range->l_type == F_RDLCK   ? LOCK_SH
                    : range->l_type == F_WRLCK ? LOCK_EX
                                               : LOCK_UN;
    return flock(owner->fd, operation | (waits ? 0 : LOCK_NB)) ? -errno : 0;
}

/* The owner has the lock: earlier changes of others are told ahead of the answer. */
static void
set_holds(struct fy_files_server *server, struct fy_files_owner *owner,
          struct fy_files_message *answer)
{
    (void)pthread_mutex_lock(&server->locks.lock);
    owner->holds = true;
    (void)pthread_mutex_unlock(&server->locks.lock);
    fy_files_tell_all(server);
    /* Without attributes the client drops its copies. */
    (void)fy_files_attr_at(server, owner->fd, &answer->attr);
}

static void *
wait_for_lock(void *argument)
{
    struct fy_files_lock *waiting = argument;
    struct fy_files_request *request = waiting->request;
    struct fy_files_server *server = request->server;
    struct fy_files_message answer = {.type = request->message.type,
                                      .frame_flags = FY_FILES_ANSWER,
                                      .id = request->message.id};
    sigset_t interrupt;
    (void)sigemptyset(&interrupt);
    (void)sigaddset(&interrupt, SIGUSR1);
    (void)pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
    int status = -EINTR;
    while (status == -EINTR && !request->cancelled) {
        status = set(waiting->owner, &waiting->range, true);
    }
    if (status == 0) {
        set_holds(server, waiting->owner, &answer);
    }
    (void)pthread_mutex_lock(&server->queue.lock);
    request->waiting = NULL;
    (void)pthread_mutex_unlock(&server->queue.lock);
    give_back(server, waiting->owner);
    free(waiting);
    fy_files_finish(request, status, &answer);
    (void)pthread_mutex_lock(&server->locks.lock);
    server->locks.nwaiting--;
    (void)pthread_cond_signal(&server->locks.ended);
    (void)pthread_mutex_unlock(&server->locks.lock);
    return NULL;
}

/* In a thread of its own. FY_FILES_LATER, or a negative errno. */
static int
begin_waiting(struct fy_files_request *request, struct fy_files_owner *owner,
              const struct flock *range)
{
    struct fy_files_server *server = request->server;
    struct fy_files_lock *waiting = malloc(sizeof *waiting);
    pthread_attr_t attributes;
    if (!waiting) {
        return -ENOLCK;
    }
    *waiting = (struct fy_files_lock){request, owner, *range, 0};
    (void)pthread_mutex_lock(&server->locks.lock);
    bool room = server->locks.nwaiting < WAITING_MAX;
    server->locks.nwaiting += room;
    (void)pthread_mutex_unlock(&server->locks.lock);
    if (!room || pthread_attr_init(&attributes)) {
        free(waiting);
        return -ENOLCK;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* The thread takes this lock before it ends. */
    (void)pthread_mutex_lock(&server->queue.lock);
    int failed =
        pthread_create(&waiting->thread, &attributes, wait_for_lock, waiting);
    request->waiting = failed ? NULL : waiting;
    (void)pthread_mutex_unlock(&server->queue.lock);
    (void)pthread_attr_destroy(&attributes);
    if (failed) {
        free(waiting);
        (void)pthread_mutex_lock(&server->locks.lock);
        server->locks.nwaiting--;
        (void)pthread_mutex_unlock(&server->locks.lock);
        return -ENOLCK;
    }
    return FY_FILES_LATER;
}

void
fy_files_lock_interrupt(struct fy_files_lock *waiting)
{
    (void)pthread_kill(waiting->thread, SIGUSR1);
}

/* From first to last byte. */
static bool
range_of(const struct fy_files_message *message, struct flock *out)
{
    *out = (struct flock){.l_type = (short)message->mode,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)message->offset};
    if (message->mode > F_UNLCK || message->offset > INT64_MAX ||
        message->length < message->offset) {
        return false;
    }
    /* 0: to the end of all files. */
    out->l_len = message->length >= INT64_MAX
                     ? 0
                     : (off_t)(message->length - message->offset + 1);
    return true;
}

/* Finds the owner's description of the node, which need not have a name any more. */
static void
unlock(struct fy_files_server *server, const struct fy_files_message *message,
       uint64_t ino, const struct flock *range)
{
    struct fy_files_locks *locks = &server->locks;
    bool all = (message->flags & FY_FILES_ALL) != 0;
    bool flock = (message->flags & FY_FILES_FLOCK) != 0;
    struct flock wanted = *range;
    if (all) {
        wanted.l_start = wanted.l_len = 0;
    }
    wanted.l_type = F_UNLCK;
    (void)pthread_mutex_lock(&locks->lock);
    struct fy_files_owner *next;
    for (struct fy_files_owner *at = locks->owners; at; at = next) {
        next = at->next;
        if (at->owner != message->number ||
            fy_files_ino(server, at->dev, at->ino) != ino ||
            (!all && at->flock != flock)) {
            continue;
        }
        if (set(at, &wanted, false) == 0 &&
            (at->flock || (wanted.l_start == 0 && wanted.l_len == 0))) {
            at->holds = false;
            at->nset = 0;
        }
        at->refs++;
        release(locks, at);
    }
    (void)pthread_mutex_unlock(&locks->lock);
}

/* The lock is wanted on that object. */
static int
lock_object(struct fy_files_request *request, const struct flock *range,
            struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_message *message = &request->message;
    struct fy_files_owner *owner;
    int status = use_owner(server, request->object, message->number,
                           message->flags & FY_FILES_FLOCK, &owner);
    if (status) {
        return status;
    }
    (void)pthread_mutex_lock(&server->locks.lock);
    bool flooded = owner->nset++ >= SET_MAX;
    (void)pthread_mutex_unlock(&server->locks.lock);
    status = flooded ? -ENOLCK : set(owner, range, false);
    fy_files_resolved(request); /* others come behind it */
    if (status == 0) {
        set_holds(server, owner, answer);
    }
    if ((status == -EAGAIN || status == -EACCES) &&
        message->flags & FY_FILES_WAIT) {
        status = begin_waiting(request, owner, range);
        if (status == FY_FILES_LATER) {
            return status;
        }
    }
    give_back(server, owner);
    return status;
}

int
fy_files_lock(struct fy_files_request *request, struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_message *message = &request->message;
    bool unlocks = message->mode == F_UNLCK || message->flags & FY_FILES_ALL;
    struct flock range;
    if (!range_of(message, &range)) {
        return -EINVAL;
    }
    int status = 0;
    uint64_t ino = message->node.ino;
    if (!unlocks || message->node.kept || !ino) {
        status = fy_files_borrow(server, &message->node, FY_FILES_PATH,
                                 &request->object);
    }
    if (status) {
        return status;
    }
    if (!unlocks) {
        return lock_object(request, &range, answer);
    }
    ino = request->object
              ? fy_files_ino(server, request->object->dev, request->object->ino)
              : ino;
    unlock(server, message, ino, &range);
    return 0;
}

int
fy_files_getlock(struct fy_files_request *request,
                 struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    const struct fy_files_message *message = &request->message;
    struct fy_files_owner *owner;
    struct flock range;
    if (!range_of(message, &range) || message->mode == F_UNLCK ||
        message->flags & FY_FILES_FLOCK) {
        return -EINVAL;
    }
    int status =
        use_owner(server, request->object, message->number, false, &owner);
    if (status) {
        return status;
    }
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): freed where errno is set */
    if (fcntl(owner->fd, F_OFD_GETLK, &range) != 0) {
        status = -errno;
    }
    answer->mode = (uint32_t)range.l_type;
    answer->offset = (uint64_t)range.l_start;
    answer->length =
        range.l_len ? (uint64_t)(range.l_start + range.l_len - 1) : INT64_MAX;
    answer->uid = range.l_pid > 0 ? (uint32_t)range.l_pid : 0;
    give_back(server, owner);
    return status;
}

/* ---- the end ------------------------------------------------------------------------------ */

bool
fy_files_locks_press(struct fy_files_server *server)
{
    bool some = false;
    (void)pthread_mutex_lock(&server->queue.lock);
    for (const struct fy_files_request *at = server->queue.active; at;
         at = at->active_next) {
        if (at->waiting && at->cancelled) {
            fy_files_lock_interrupt(at->waiting);
            some = true;
        }
    }
    (void)pthread_mutex_unlock(&server->queue.lock);
    return some;
}

void
fy_files_locks_close(struct fy_files_server *server)
{
    struct fy_files_locks *locks = &server->locks;
    (void)pthread_mutex_lock(&locks->lock);
    while (locks->nwaiting) {
        (void)pthread_mutex_unlock(&locks->lock);
        (void)pthread_mutex_lock(&server->queue.lock);
        for (struct fy_files_request *at = server->queue.active; at;
             at = at->active_next) {
            at->cancelled = true;
        }
        (void)pthread_mutex_unlock(&server->queue.lock);
        (void)fy_files_locks_press(server);
        (void)pthread_mutex_lock(&locks->lock);
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (locks->nwaiting) {
            (void)pthread_cond_timedwait(&locks->ended, &locks->lock, &until);
        }
    }
    (void)pthread_mutex_unlock(&locks->lock);
    while (locks->owners) {
        locks->owners->holds = false;
        locks->owners->refs = 1;
        release(locks, locks->owners);
    }
    (void)pthread_cond_destroy(&locks->ended);
    (void)pthread_mutex_destroy(&locks->lock);
}
