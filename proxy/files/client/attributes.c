/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of files, also extended ones, targets of links, and the file system's.
 */
#include "config.h"

#include "proxy/files/client/operations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "proxy/files/client/file.h"
#include "proxy/files/client/shadow.h"
#include "proxy/files/client/walks.h"

/* ---- getattr, setattr ------------------------------------------------------------------------ */

static void
attr_answered(struct fy_client *client, struct fy_call *call,
              const struct fy_files_message *asked,
              const struct fy_files_message *answer)
{
    (void)asked;
    if (answer->status != 0) {
        fy_reply_status(call->request, answer->status);
    } else if (!fy_told_attr(client, call->node, &answer->attr, FY_TOLD_ASKED,
                             call->stamp)) {
        fy_reply_status(call->request, -EIO);
    } else {
        fy_reply_attr(client, call->request, call->node);
    }
}

static void
getattr_now(struct fy_client *client, struct fy_node *node,
            struct fy_later *later)
{
    if (fy_told_is_fresh(client, node)) {
        client->counts.local++;
        fy_reply_attr(client, later->request, node);
        return;
    }
    fy_ask(client,
           &(struct fy_call){.request = later->request,
                             .answered = attr_answered,
                             .node = node},
           &(struct fy_files_message){.type = FY_FILES_GETATTR});
}

static void
getattr(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    struct fy_files_bytes own;
    if (!node) {
        return;
    }
    /* With an open file the kernel asks for the size alone, at the end of a read or of a
     * seek: programs ask without. Neither is to wait for writes whose effect is known. */
    if (info && fy_shadow_counts(node, &own)) {
        client->counts.local++;
        fy_reply_size(client, request, node, own.n);
        return;
    }
    /* A file that is being made has no contents until the first write: most programs look
     * at files that they have opened. */
    if (node->attr.ino == 0 && node->file && node->file->pending == 1) {
        client->counts.local++;
        fy_reply_attr(client, request, node);
        return;
    }
    fy_when_quiet(client, node,
                  &(struct fy_later){.run = getattr_now, .request = request});
}

static void
setattr_answered(struct fy_client *client, struct fy_call *call,
                 const struct fy_files_message *asked,
                 const struct fy_files_message *answer)
{
    (void)asked;
    if (answer->status != 0) {
        fy_reply_status(call->request, answer->status);
        return;
    }
    if (!fy_node_is(call->node, &answer->attr)) {
        fy_reply_status(call->request, -EIO);
        return;
    }
    if (fy_told_written(client, call->node, answer, call->stamp) &&
        S_ISREG(call->node->attr.mode)) {
        fy_told_lost(client, call->node);
    }
    fy_reply_attr(client, call->request, call->node);
}

/* The masks of libfuse and of the message, which differ in two bits. */
static uint32_t
mask_of(int set)
{
    static const struct {
        int here;
        uint32_t there;
    } rows[] = {
        {FUSE_SET_ATTR_MODE, FY_FILES_SET_MODE},
        {FUSE_SET_ATTR_UID, FY_FILES_SET_UID},
        {FUSE_SET_ATTR_GID, FY_FILES_SET_GID},
        {FUSE_SET_ATTR_SIZE, FY_FILES_SET_SIZE},
        {FUSE_SET_ATTR_ATIME, FY_FILES_SET_ATIME},
        {FUSE_SET_ATTR_MTIME, FY_FILES_SET_MTIME},
        {FUSE_SET_ATTR_ATIME_NOW, FY_FILES_ATIME_NOW},
        {FUSE_SET_ATTR_MTIME_NOW, FY_FILES_MTIME_NOW},
    };
    uint32_t mask = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mask |= set & rows[i].here ? rows[i].there : 0u;
    }
    return mask;
}

static struct fy_files_time
time_of(const struct timespec *time)
{
    return (struct fy_files_time){.seconds = time->tv_sec,
                                  .ns = (uint32_t)time->tv_nsec};
}

static void
setattr_now(struct fy_client *client, struct fy_node *node,
            struct fy_later *later)
{
    const struct stat *stat = &later->stat;
    uint32_t mask = mask_of(later->flags);
    if (mask & FY_FILES_SET_SIZE) {
        node->version++;
        if (S_ISREG(node->attr.mode)) {
            fy_ahead_drop(client, node);
            fy_shadow_drop(client, node->file);
        }
    }
    fy_ask(client,
           &(struct fy_call){.request = later->request,
                             .answered = setattr_answered,
                             .node = node},
           &(struct fy_files_message){
               .type = FY_FILES_SETATTR,
               .mask = mask,
               .mode = stat->st_mode & 07777,
               .uid = fy_owner_there(&client->owners, stat->st_uid, false),
               .gid = fy_owner_there(&client->owners, stat->st_gid, true),
               .length = (uint64_t)stat->st_size,
               .atime = time_of(&stat->st_atim),
               .mtime = time_of(&stat->st_mtim)});
}

static void
set_attr(fuse_req_t request, fuse_ino_t number, struct stat *stat, int set,
         struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    struct fy_later later = {
        .run = setattr_now, .request = request, .stat = *stat, .flags = set};
    (void)info;
    if (!node) {
        return;
    }
    /* The server does it behind the writes that are on their way. */
    bool size = S_ISREG(node->attr.mode) && (set & FUSE_SET_ATTR_SIZE);
    if (size && node->file && node->file->stores > 0 &&
        fy_notifier_cancel(&client->notifier, number)) {
        (void)fy_file_wait(client, &node->file->stored, &later);
    } else {
        setattr_now(client, node, &later);
    }
}

/* ---- links are read ---------------------------------------------------------------------------- */

static void
readlink_answered(struct fy_client *client, struct fy_call *call,
                  const struct fy_files_message *asked,
                  const struct fy_files_message *answer)
{
    struct fy_node *node = call->node;
    (void)client;
    (void)asked;
    if (answer->status != 0 || answer->data.n == 0 ||
        memchr(answer->data.at, 0, answer->data.n)) {
        fy_reply_status(call->request, answer->status ? answer->status : -EIO);
        return;
    }
    free(node->target);
    node->target = strndup(answer->data.at, answer->data.n);
    if (!node->target) {
        fy_reply_status(call->request, -ENOMEM);
    } else if (call->request) {
        fuse_reply_readlink(call->request, node->target);
    }
}

static void
read_link(fuse_req_t request, fuse_ino_t number)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    if (!node) {
        return;
    }
    if (!S_ISLNK(node->attr.mode)) {
        fuse_reply_err(request, EINVAL);
    } else if (node->target && fy_told_is_fresh(client, node)) {
        client->counts.local++;
        fuse_reply_readlink(request, node->target);
    } else {
        fy_ask(client,
               &(struct fy_call){.request = request,
                                 .answered = readlink_answered,
                                 .node = node},
               &(struct fy_files_message){.type = FY_FILES_READLINK});
    }
}

/* ---- the file system --------------------------------------------------------------------------- */

/* Counts all changes that are known here. */
static uint64_t
changes_seen(const struct fy_client *client)
{
    return client->calls.changes + client->counts.notices + client->counts.lost;
}

/* True if the last answer for the node is still believed: nothing was changed through the
 * mount or told since then, and it is not older than attributes may be that nobody tells. */
static bool
statfs_is_known(const struct fy_client *client, const struct fy_node *node)
{
    const struct fy_statfs *room = &client->room;
    return room->node == fy_node_number(node) &&
           room->seen == changes_seen(client) && client->pending.bytes == 0 &&
           fy_clock_ns() - room->told_ns <
               client->options->ac_ms * UINT64_C(1000000);
}

static void
statfs_answered(struct fy_client *client, struct fy_call *call,
                const struct fy_files_message *asked,
                const struct fy_files_message *answer)
{
    (void)asked;
    struct statvfs about = {.f_blocks = answer->number,
                            .f_bfree = answer->offset,
                            .f_bavail = answer->other_offset,
                            .f_files = answer->length,
                            .f_ffree = answer->keep,
                            .f_favail = answer->keep,
                            .f_frsize = answer->mode,
                            .f_bsize = answer->mask,
                            .f_namemax = answer->flags};
    if (answer->status != 0) {
        fy_reply_status(call->request, answer->status);
        return;
    }
    client->room =
        (struct fy_statfs){.node = fy_node_number(call->node),
                           .told_ns = fy_clock_ns(),
                           .seen = (uint64_t)(uintptr_t)call->context,
                           .about = about};
    if (call->request) {
        fuse_reply_statfs(call->request, &about);
    }
}

static void
statfs(fuse_req_t request, fuse_ino_t number)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    if (node && statfs_is_known(client, node)) {
        client->counts.local++;
        fuse_reply_statfs(request, &client->room.about);
    } else if (node) {
        fy_ask(client,
               &(struct fy_call){.request = request,
                                 .answered = statfs_answered,
                                 .node = node,
                                 .context =
                                     (void *)(uintptr_t)changes_seen(client)},
               &(struct fy_files_message){.type = FY_FILES_STATFS});
        if (client->opens > 0 && fy_node_is_folder(node)) {
            fy_walks_wanted(
                client, node,
                fy_bytes_of("")); /* fts(3), find: before it is read */
        }
    }
}

/* ---- extended attributes ------------------------------------------------------------------------- */

/* Names that programs and the kernel ask for again and again: that a node lacks them is
 * remembered (bits of fy_node.without) until its ctime changes. */
static uint8_t
bit_of(const char *name, size_t n)
{
    static const char *const names[] = {
        /* FY_WITHOUT_CAPABILITY first */
        "security.capability", "system.posix_acl_access",
        "system.posix_acl_default", "security.selinux", "security.ima"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (n == strlen(names[i]) && memcmp(name, names[i], n) == 0) {
            return (uint8_t)(1u << i);
        }
    }
    return 0;
}

/* A value, or its length: the kernel's `room' is in the call's context. */
static void
reply_value(const struct fy_call *call, const struct fy_files_message *answer)
{
    size_t room = (size_t)(uintptr_t)call->context;
    if (!call->request) {
        return;
    }
    if (answer->status != 0) {
        fuse_reply_err(call->request, -answer->status);
    } else if (room == 0) {
        fuse_reply_xattr(call->request, answer->data.n);
    } else if (answer->data.n > room) {
        fuse_reply_err(call->request, ERANGE);
    } else {
        fuse_reply_buf(call->request, answer->data.at, answer->data.n);
    }
}

static void
getxattr_answered(struct fy_client *client, struct fy_call *call,
                  const struct fy_files_message *asked,
                  const struct fy_files_message *answer)
{
    (void)client;
    if ((answer->status == -ENODATA || answer->status == -EOPNOTSUPP) &&
        call->node->stamp <= call->stamp) {
        call->node->without |= bit_of(asked->name.at, asked->name.n);
    }
    reply_value(call, answer);
}

static void
get_xattr(fuse_req_t request, fuse_ino_t number, const char *name, size_t room)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    if (!node) {
        return;
    }
    if ((node->without & bit_of(name, strlen(name))) &&
        (node->attr.ino == 0 || fy_told_is_fresh(client, node))) {
        client->counts.local++;
        fuse_reply_err(request, ENODATA);
        return;
    }
    fy_ask(client,
           &(struct fy_call){.request = request,
                             .answered = getxattr_answered,
                             .node = node,
                             .context = (void *)(uintptr_t)room},
           &(struct fy_files_message){.type = FY_FILES_GETXATTR,
                                      .name = fy_bytes_of(name)});
}

static void
listxattr_answered(struct fy_client *client, struct fy_call *call,
                   const struct fy_files_message *asked,
                   const struct fy_files_message *answer)
{
    (void)client;
    (void)asked;
    reply_value(call, answer);
}

static void
list_xattr(fuse_req_t request, fuse_ino_t number, size_t room)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    if (node) {
        fy_ask(client,
               &(struct fy_call){.request = request,
                                 .answered = listxattr_answered,
                                 .node = node,
                                 .context = (void *)(uintptr_t)room},
               &(struct fy_files_message){.type = FY_FILES_LISTXATTR});
    }
}

static void
xattr_changed(struct fy_client *client, struct fy_call *call,
              const struct fy_files_message *asked,
              const struct fy_files_message *answer)
{
    (void)asked;
    call->node->without = 0;
    if (answer->status == 0) {
        (void)fy_told_attr(client, call->node, &answer->attr, FY_TOLD_OWN,
                           call->stamp);
        /* An ACL changes the mode. */
        fy_forget_node(client, call->node, FY_NOTICE_ATTRIBUTES);
    }
    fy_reply_status(call->request, answer->status);
}

static void
change_xattr(fuse_req_t request, fuse_ino_t number,
             struct fy_files_message *message)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    if (node) {
        fy_ask(client,
               &(struct fy_call){
                   .request = request, .answered = xattr_changed, .node = node},
               message);
    }
}

static void
set_xattr(fuse_req_t request, fuse_ino_t number, const char *name,
          const char *value, size_t n, int flags)
{
    change_xattr(request, number,
                 &(struct fy_files_message){.type = FY_FILES_SETXATTR,
                                            .name = fy_bytes_of(name),
                                            .flags = (uint32_t)flags,
                                            .data = {value, n}});
}

static void
remove_xattr(fuse_req_t request, fuse_ino_t number, const char *name)
{
    change_xattr(request, number,
                 &(struct fy_files_message){.type = FY_FILES_REMOVEXATTR,
                                            .name = fy_bytes_of(name)});
}

void
fy_attributes_operations(struct fuse_lowlevel_ops *rows)
{
    rows->getattr = getattr;
    rows->setattr = set_attr;
    rows->readlink = read_link;
    rows->statfs = statfs;
    rows->getxattr = get_xattr;
    rows->listxattr = list_xattr;
    rows->setxattr = set_xattr;
    rows->removexattr = remove_xattr;
}
