/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record locks and flock(2), which the server takes at the storage. Their owners are the
 * kernel's numbers.
 */
#include "config.h"

#include "proxy/files/client/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/clock.h"
#include "proxy/files/client/operations.h"

enum {
    TICK_MS =
        20, /* two changes may have one ctime, if no more is between them */
};

/* A lock that was taken, until the kernel has forgotten older pages. */
struct taken {
    struct fy_client *client;
    struct fy_node *node;
    struct fy_caller caller;
    struct fy_files_message message;
};

static struct fy_locker **
find_locker(struct fy_file *file, uint64_t owner, bool flock)
{
    struct fy_locker **link = &file->lockers;
    while (*link && ((*link)->owner != owner || (*link)->flock != flock)) {
        link = &(*link)->next;
    }
    return link;
}

/* False: no memory. */
static bool
add_locker(struct fy_node *node, uint64_t owner, uint64_t handle, bool flock)
{
    struct fy_file *file = fy_file_of(node);
    struct fy_locker **link = file ? find_locker(file, owner, flock) : NULL;
    if (link && !*link) {
        *link = malloc(sizeof **link);
        if (*link) {
            **link = (struct fy_locker){.owner = owner, .flock = flock};
        }
    }
    if (link && *link) {
        (*link)->handle = handle;
    }
    return link && *link;
}

/* True: its locks were lost, which it is to be told. */
static bool
remove_locker(struct fy_file *file, uint64_t owner, bool flock)
{
    struct fy_locker **link = find_locker(file, owner, flock);
    struct fy_locker *locker = *link;
    bool lost = locker && locker->lost;
    if (locker) {
        *link = locker->next;
        free(locker);
    }
    return lost;
}

void
fy_locks_lost(struct fy_client *client)
{
    for (uint64_t i = 0; i < client->tree.ino_slots; i++) {
        for (struct fy_node *node = client->tree.inos[i]; node;
             node = node->next) {
            struct fy_locker *locker = S_ISREG(node->attr.mode) && node->file
                                           ? node->file->lockers
                                           : NULL;
            for (; locker; locker = locker->next) {
                locker->lost = true;
            }
        }
    }
}

static void ask_lock(struct fy_client *client, fuse_req_t request,
                     struct fy_node *node, uint64_t handle,
                     struct fy_files_message *message);

/* The caller has ended and would never release it. */
static void
undo(struct fy_client *client, struct fy_node *node,
     const struct fy_files_message *asked)
{
    struct fy_files_message message = *asked;
    message.mode = F_UNLCK;
    message.flags &= ~(uint32_t)FY_FILES_WAIT;
    ask_lock(client, NULL, node, 0, &message);
}

static void
notified(void *owner, struct fy_notice *notice, bool stored)
{
    struct taken *taken = owner;
    struct fy_client *client = taken->client;
    fuse_req_t request = fy_caller_take(&taken->caller);
    (void)notice;
    (void)stored;
    if (request) {
        fuse_reply_err(request, 0);
    } else {
        undo(client, taken->node, &taken->message);
    }
    fy_tree_drop(&client->tree, taken->node);
    free(taken);
}

/* The caller goes on once the kernel has been told all that was told until now. */
static void
reply_when_told(struct fy_client *client, const struct fy_call *call,
                const struct fy_files_message *asked)
{
    struct taken *taken = malloc(sizeof *taken);
    struct fy_notice *mark = fy_notice_new(FY_NOTICE_MARK, 0, NULL, 0);
    if (!taken || !mark) {
        free(taken);
        free(mark);
        undo(client, call->node, asked);
        fy_reply_status(call->request, -ENOLCK);
        return;
    }
    taken->client = client;
    taken->node = call->node;
    taken->message = *asked;
    fy_node_hold(call->node);
    fy_caller_add(client, &taken->caller, call->request);
    mark->done = notified;
    mark->owner = taken;
    fy_notifier_add(&client->notifier, mark);
}

/*
 * A lock's holder reads the writes of earlier holders. Pages stay if the ctime is as it
 * was at the last lock. A ctime that was new then may since have been given to another
 * change.
 */
static void
drop_old_pages(struct fy_client *client, struct fy_node *node,
               const struct fy_files_attr *attr, uint64_t stamp)
{
    struct fy_file *file = fy_file_of(node);
    uint64_t now = fy_clock_ns();
    bool told = fy_told_attr(client, node, attr, FY_TOLD_UNASKED, stamp);
    if (file && told && file->seen.seconds == attr->ctime.seconds &&
        file->seen.ns == attr->ctime.ns) {
        if (file->current) {
            return;
        }
        file->current = now - file->seen_ns > TICK_MS * UINT64_C(1000000);
    } else if (file) {
        file->current = false;
        file->seen = attr->ctime;
        file->seen_ns = now;
    }
    node->version++;
    fy_ahead_drop(client, node);
    fy_forget_node(client, node, FY_NOTICE_CONTENTS);
}

static void
lock_answered(struct fy_client *client, struct fy_call *call,
              const struct fy_files_message *asked,
              const struct fy_files_message *answer)
{
    if (answer->status != 0 || asked->mode == F_UNLCK) {
        fy_reply_status(call->request, answer->status);
        return;
    }
    bool good = true;
    if (S_ISREG(call->node->attr.mode)) {
        drop_old_pages(client, call->node, &answer->attr, call->stamp);
        good = add_locker(call->node, asked->number, (uintptr_t)call->context,
                          asked->flags & FY_FILES_FLOCK);
    }
    if (call->request && good) {
        reply_when_told(client, call, asked);
    } else {
        undo(client, call->node, asked);
        fy_reply_status(call->request, -ENOLCK);
    }
}

static void
ask_lock(struct fy_client *client, fuse_req_t request, struct fy_node *node,
         uint64_t handle, struct fy_files_message *message)
{
    message->type = FY_FILES_LOCK;
    fy_ask(client,
           &(struct fy_call){.request = request,
                             .answered = lock_answered,
                             .node = node,
                             .interrupted = message->flags & FY_FILES_ALL,
                             .context = (void *)(uintptr_t)handle},
           message);
}

/* The range of a lock of fcntl(2), whose start is from the file's begin. */
static void
set_range(const struct flock *lock, struct fy_files_message *message)
{
    message->mode = (uint32_t)lock->l_type;
    message->offset = (uint64_t)lock->l_start;
    message->length = lock->l_len == 0
                          ? INT64_MAX
                          : (uint64_t)(lock->l_start + lock->l_len - 1);
    message->uid = (uint32_t)lock->l_pid;
}

/* No write of this mount is on its way: the next request meets the last one at the
 * storage. */
static void
lock_now(struct fy_client *client, struct fy_node *node, struct fy_later *later)
{
    struct fy_files_message message = {.number = later->info.lock_owner,
                                       .flags = (uint32_t)later->flags};
    set_range(&later->lock, &message);
    if (message.mode == F_UNLCK && message.offset == 0 &&
        message.length == INT64_MAX && S_ISREG(node->attr.mode) && node->file) {
        bool lost = remove_locker(node->file, message.number,
                                  message.flags & FY_FILES_FLOCK);
        if (lost && later->request) {
            fuse_reply_err(later->request, EIO);
            return;
        }
    }
    ask_lock(client, later->request, node, later->info.fh, &message);
}

static void
lock_when_quiet(struct fy_client *client, struct fy_node *node,
                fuse_req_t request, const struct fuse_file_info *info,
                const struct flock *lock, uint32_t flags)
{
    fy_when_quiet(client, node,
                  &(struct fy_later){.run = lock_now,
                                     .request = request,
                                     .info = *info,
                                     .lock = *lock,
                                     .flags = (int)flags,
                                     .always = lock->l_type == F_UNLCK});
}

static void
set_lock(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info,
         struct flock *lock, int sleep)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    if (node) {
        lock_when_quiet(client, node, request, info, lock,
                        sleep ? FY_FILES_WAIT : 0);
    }
}

static void
flock_file(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info,
           int operation)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    const int type = operation & LOCK_UN   ? F_UNLCK
                     : operation & LOCK_EX ? F_WRLCK
                                           : F_RDLCK;
    const struct flock lock = {.l_type = (short)type};
    if (node) {
        lock_when_quiet(client, node, request, info, &lock,
                        FY_FILES_FLOCK |
                            (operation & LOCK_NB ? 0 : FY_FILES_WAIT));
    }
}

static void
getlock_answered(struct fy_client *client, struct fy_call *call,
                 const struct fy_files_message *asked,
                 const struct fy_files_message *answer)
{
    (void)client;
    (void)asked;
    if (answer->status != 0 || !call->request) {
        fy_reply_status(call->request, answer->status);
        return;
    }
    struct flock lock = {
        .l_type = (short)answer->mode,
        .l_whence = SEEK_SET,
        .l_start = (off_t)(answer->offset & INT64_MAX),
        .l_pid = (pid_t)answer->uid,
    };
    lock.l_len = answer->length >= INT64_MAX || answer->length < answer->offset
                     ? 0
                     : (off_t)(answer->length - answer->offset + 1);
    fuse_reply_lock(call->request, &lock);
}

static void
get_lock(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info,
         struct flock *lock)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    struct fy_files_message message = {.type = FY_FILES_GETLOCK,
                                       .number = info->lock_owner};
    if (node) {
        set_range(lock, &message);
        fy_ask(client,
               &(struct fy_call){.request = request,
                                 .answered = getlock_answered,
                                 .node = node},
               &message);
    }
}

static void
release_all(struct fy_client *client, struct fy_node *node, fuse_req_t request,
            const struct fuse_file_info *info, uint32_t flags)
{
    const struct flock all = {.l_type = F_UNLCK};
    lock_when_quiet(client, node, request, info, &all, FY_FILES_ALL | flags);
}

bool
fy_locks_flush(struct fy_client *client, struct fy_node *node,
               fuse_req_t request, const struct fuse_file_info *info)
{
    bool some = node->file && *find_locker(node->file, info->lock_owner, false);
    if (some) {
        release_all(client, node, request, info, 0);
    }
    return some;
}

void
fy_locks_closed(struct fy_client *client, struct fy_node *node,
                const struct fuse_file_info *info)
{
    if (info->flock_release) {
        release_all(client, node, NULL, info, FY_FILES_FLOCK);
    }
    /* The kernel tells no end of locks of open file descriptions (F_OFD_SETLK). */
    struct fy_locker *next = node->file ? node->file->lockers : NULL;
    while (next) {
        const struct fy_locker *locker = next;
        next = locker->next;
        if (locker->handle == info->fh && !locker->flock) {
            struct fuse_file_info owner = {.lock_owner = locker->owner};
            release_all(client, node, NULL, &owner, 0);
        }
    }
}

void
fy_locks_operations(struct fuse_lowlevel_ops *rows)
{
    rows->getlk = get_lock;
    rows->setlk = set_lock;
    rows->flock = flock_file;
}
