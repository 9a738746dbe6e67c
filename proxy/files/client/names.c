/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: looked up, made, linked, removed, renamed.
 */
#include "config.h"

#include "proxy/files/client/operations.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/files/client/early.h"
#include "proxy/files/client/file.h"
#include "proxy/files/client/holds.h"
#include "proxy/files/client/shadow.h"
#include "proxy/files/client/walks.h"

enum {
    LOOKS_MAX = 8, /* of one name, while the folder changes */
};

/* The kernel's folder; NULL: the request was answered. */
static struct fy_node *
folder_of(struct fy_client *client, fuse_req_t request, fuse_ino_t number,
          const char *name)
{
    struct fy_node *folder = fy_told_node(client, request, number);
    if (!folder) {
        return NULL;
    }
    if (!fy_node_is_folder(folder)) {
        fuse_reply_err(request, ENOTDIR);
        return NULL;
    }
    if (strlen(name) > FY_FILES_NAME_BYTES) {
        fuse_reply_err(request, ENAMETOOLONG);
        return NULL;
    }
    return folder;
}

/* ---- lookup ------------------------------------------------------------------------------ */

static void
lookup_answered(struct fy_client *client, struct fy_call *call,
                const struct fy_files_message *asked,
                const struct fy_files_message *answer)
{
    struct fy_node *folder = call->node;
    if (answer->status != 0) {
        fy_reply_status(call->request, answer->status);
        return;
    }
    bool older = folder->folder->stamp > call->stamp;
    if (older && call->tries < LOOKS_MAX) {
        struct fy_files_message again = *asked;
        call->tries++;
        fy_ask(client, call, &again);
        return;
    }
    int error;
    fy_tree_watch(&client->tree, folder, answer->number);
    if (!(answer->flags & FY_FILES_PRESENT)) {
        struct fy_name *name = fy_tree_find(&client->tree, folder, asked->name);
        if (name && !older) {
            fy_told_removed(client, name);
        }
        fy_reply_absent(client, call->request, folder, !older);
        return;
    }
    struct fy_node *node =
        fy_told_name(client, folder, asked->name, &answer->attr, FY_TOLD_ASKED,
                     call->stamp, &error);
    if (!node) {
        fy_reply_status(call->request, -error);
        return;
    }
    if (older) {
        fy_told_name_lost(client, folder, asked->name);
    }
    if (S_ISLNK(node->attr.mode) && !node->target && answer->data.n > 0 &&
        !memchr(answer->data.at, 0, answer->data.n)) {
        node->target = strndup(answer->data.at, answer->data.n);
    }
    fy_reply_entry(client, call->request, folder, node);
}

static void
lookup(fuse_req_t request, fuse_ino_t parent, const char *text)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *folder = folder_of(client, request, parent, text);
    if (!folder) {
        return;
    }
    struct fy_name *name =
        fy_tree_find(&client->tree, folder, fy_bytes_of(text));
    if (name && fy_told_is_fresh(client, name->node) &&
        (folder->folder->watch != 0 || fy_told_is_whole(client, folder))) {
        client->counts.local++;
        fy_reply_entry(client, request, folder, name->node);
        return;
    }
    if (!name && fy_told_is_whole(client, folder)) {
        client->counts.local++;
        fy_reply_absent(client, request, folder, true);
        return;
    }
    fy_ask(client,
           &(struct fy_call){
               .request = request, .answered = lookup_answered, .node = folder},
           &(struct fy_files_message){.type = FY_FILES_LOOKUP,
                                      .name = fy_bytes_of(text)});
    fy_walks_missed(client, folder, fy_bytes_of(text));
}

static void
forget(fuse_req_t request, fuse_ino_t number, uint64_t n)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_tree_node(&client->tree, number);
    if (node) {
        fy_tree_forget(&client->tree, node, n);
    }
    fuse_reply_none(request);
}

static void
forget_multi(fuse_req_t request, size_t count, struct fuse_forget_data *forgets)
{
    struct fy_client *client = fy_client_of(request);
    for (size_t i = 0; i < count; i++) {
        struct fy_node *node = fy_tree_node(&client->tree, forgets[i].ino);
        if (node) {
            fy_tree_forget(&client->tree, node, forgets[i].nlookup);
        }
    }
    fuse_reply_none(request);
}

/* ---- making -------------------------------------------------------------------------------- */

/* The folder's attributes after a change of its names by this mount. */
static void
folder_changed(struct fy_client *client, struct fy_node *folder,
               const struct fy_files_attr *attr)
{
    fy_told_change(client, folder);
    (void)fy_told_attr(client, folder, attr, FY_TOLD_OWN, client->stamp);
}

/* The new node of an answer to MAKE or LINK; NULL: the request was answered. */
static struct fy_node *
made(struct fy_client *client, const struct fy_call *call,
     struct fy_node *folder, struct fy_files_bytes name,
     const struct fy_files_message *answer)
{
    int error = -answer->status;
    struct fy_node *node = NULL;
    if (error == 0) {
        folder_changed(client, folder, &answer->other_attr);
        node = fy_told_name(client, folder, name, &answer->attr, FY_TOLD_OWN,
                            client->stamp, &error);
    }
    if (node) {
        fy_told_name_check(client, folder, name, answer->attr.ino, call->stamp);
    } else {
        fy_reply_status(call->request, -error);
    }
    return node;
}

static void
make_answered(struct fy_client *client, struct fy_call *call,
              const struct fy_files_message *asked,
              const struct fy_files_message *answer)
{
    struct fy_node *node = made(client, call, call->node, asked->name, answer);
    if (!node) {
        return;
    }
    if (fy_node_is_folder(node) && S_ISDIR(asked->mode)) {
        /* It is empty, and the server tells of new names. */
        fy_tree_watch(&client->tree, node, answer->number);
        node->folder->whole = node->folder->count == 0;
        node->folder->listed_ns = node->told_ns;
    }
    if (S_ISLNK(node->attr.mode) && !node->target) {
        node->target = strndup(asked->other_name.at, asked->other_name.n);
    }
    fy_reply_entry(client, call->request, call->node, node);
}

/* The folder, and the message's fields that every MAKE has; NULL: the request was
 * answered. */
static struct fy_node *
to_make(fuse_req_t request, fuse_ino_t parent, const char *name,
        struct fy_files_message *message)
{
    struct fy_client *client = fy_client_of(request);
    const struct fuse_ctx *context = fuse_req_ctx(request);
    message->type = FY_FILES_MAKE;
    message->name = fy_bytes_of(name);
    message->uid = fy_owner_there(&client->owners, context->uid, false);
    message->gid = fy_owner_there(&client->owners, context->gid, true);
    return folder_of(client, request, parent, name);
}

static void
make(fuse_req_t request, fuse_ino_t parent, const char *name,
     struct fy_files_message *message)
{
    struct fy_node *folder = to_make(request, parent, name, message);
    if (folder) {
        fy_ask(fy_client_of(request),
               &(struct fy_call){.request = request,
                                 .answered = make_answered,
                                 .node = folder},
               message);
    }
}

static void
make_node(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
          dev_t rdev)
{
    make(request, parent, name,
         &(struct fy_files_message){.mode = mode,
                                    .rdev = (uint32_t)rdev,
                                    .flags = FY_FILES_EXCLUSIVE});
}

static void
make_folder(fuse_req_t request, fuse_ino_t parent, const char *name,
            mode_t mode)
{
    make(request, parent, name,
         &(struct fy_files_message){.mode = S_IFDIR | (mode & 07777)});
}

static void
make_link(fuse_req_t request, const char *target, fuse_ino_t parent,
          const char *name)
{
    make(request, parent, name,
         &(struct fy_files_message){.mode = S_IFLNK | 0777,
                                    .other_name = fy_bytes_of(target)});
}

/* `later' has the folder's number. */
static void
create_now(struct fy_client *client, struct fy_node *node,
           struct fy_later *later)
{
    struct fuse_entry_param entry;
    struct fuse_file_info info = {
        .flags = later->flags, .keep_cache = 1, .fh = ++client->numbers.last};
    const struct fy_node *folder = fy_tree_node(&client->tree, later->info.fh);
    struct fy_file *file = fy_file_of(node);
    if (!file || !folder) {
        fuse_reply_err(later->request, folder ? ENOMEM : ESTALE);
        return;
    }
    bool writes = (later->flags & O_ACCMODE) != O_RDONLY;
    fy_told_entry(client, folder, node, &entry);
    node->lookups++;
    file->opens++;
    client->opens++;
    file->writers += writes;
    if (fuse_reply_create(later->request, &entry, &info) != 0) {
        file->opens--;
        client->opens--;
        file->writers -= writes;
        fy_hold_end(client, node);
        fy_file_settle(client, node);
        fy_tree_forget(&client->tree, node, 1);
    } else {
        fy_hold_begin(client, node);
        if (writes) {
            fy_shadow_begin(node);
        }
    }
}

/* A file was made, and is open. */
static void
reply_create(struct fy_client *client, struct fy_call *call,
             struct fy_node *node, int flags)
{
    if (call->request && S_ISREG(node->attr.mode)) {
        struct fy_later later = {
            .run = create_now, .request = call->request, .flags = flags};
        later.info.fh = fy_node_number(call->node);
        fy_when_quiet(client, node, &later);
    } else {
        fy_reply_status(call->request, -EEXIST);
    }
}

static void
create_answered(struct fy_client *client, struct fy_call *call,
                const struct fy_files_message *asked,
                const struct fy_files_message *answer)
{
    struct fy_node *node = made(client, call, call->node, asked->name, answer);
    if (!node) {
        return;
    }
    if (answer->flags & FY_FILES_MADE) {
        node->without |=
            FY_WITHOUT_CAPABILITY; /* the kernel asks at each write */
    }
    reply_create(client, call, node, (int)(intptr_t)call->context);
}

static void
create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
       struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_files_message message = {
        .mode = S_IFREG | (mode & 07777),
        .flags = (info->flags & O_EXCL ? FY_FILES_EXCLUSIVE : 0u) |
                 (info->flags & O_TRUNC ? FY_FILES_TRUNCATE : 0u)};
    struct fy_node *folder = to_make(request, parent, name, &message);
    struct fy_node *node =
        folder ? fy_early_make(client, folder, &message) : NULL;
    if (node) {
        struct fy_later later = {.request = request, .flags = info->flags};
        later.info.fh = fy_node_number(folder);
        create_now(client, node, &later);
        fy_tree_drop(&client->tree, node);
    } else if (folder) {
        fy_ask(client,
               &(struct fy_call){.request = request,
                                 .answered = create_answered,
                                 .node = folder,
                                 .context = (void *)(intptr_t)info->flags},
               &message);
    }
}

static void
link_answered(struct fy_client *client, struct fy_call *call,
              const struct fy_files_message *asked,
              const struct fy_files_message *answer)
{
    struct fy_node *node = made(client, call, call->other, asked->name, answer);
    if (node) {
        fy_reply_entry(client, call->request, call->other, node);
    }
}

static void
make_hard_link(fuse_req_t request, fuse_ino_t number, fuse_ino_t parent,
               const char *name)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    struct fy_node *folder =
        node ? folder_of(client, request, parent, name) : NULL;
    if (folder) {
        fy_ask(client,
               &(struct fy_call){.request = request,
                                 .answered = link_answered,
                                 .node = node,
                                 .other = folder},
               &(struct fy_files_message){.type = FY_FILES_LINK,
                                          .name = fy_bytes_of(name)});
    }
}

/* ---- removing and renaming -------------------------------------------------------------------- */

static void
remove_answered(struct fy_client *client, struct fy_call *call,
                const struct fy_files_message *asked,
                const struct fy_files_message *answer)
{
    struct fy_name *name = fy_tree_find(&client->tree, call->node, asked->name);
    if (answer->status != 0) {
        /* Others were faster: the entry of the name is wrong, or was. */
        if (name && (answer->status == -ENOENT || answer->status == -ESTALE)) {
            fy_told_name_lost(client, call->node, asked->name);
        }
        /* ESTALE: another file has the name. The kernel looks it up and asks once more. */
        fy_reply_status(call->request, answer->status);
        return;
    }
    folder_changed(client, call->node, &answer->other_attr);
    if (call->other) {
        (void)fy_told_attr(client, call->other, &answer->attr, FY_TOLD_OWN,
                           call->stamp);
        if (asked->keep != 0) {
            fy_hold_kept(client, call->other, asked->keep);
        }
    }
    if (name && name->node == call->other) {
        fy_tree_remove(&client->tree, name);
    } else if (name) { /* others have given the name to another file */
        fy_told_name_lost(client, call->node, asked->name);
    }
    fy_reply_status(call->request, 0);
}

static void
remove_name(fuse_req_t request, fuse_ino_t parent, const char *text,
            uint32_t flags)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *folder = folder_of(client, request, parent, text);
    if (!folder) {
        return;
    }
    const struct fy_name *name =
        fy_tree_find(&client->tree, folder, fy_bytes_of(text));
    fy_ask(client,
           &(struct fy_call){.request = request,
                             .answered = remove_answered,
                             .node = folder,
                             .other = name ? name->node : NULL},
           &(struct fy_files_message){.type = FY_FILES_REMOVE,
                                      .name = fy_bytes_of(text),
                                      .flags = flags,
                                      .number = name ? name->node->attr.ino : 0,
                                      .keep = fy_hold_number(client, name)});
}

static void
unlink_name(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    remove_name(request, parent, name, 0);
}

static void
remove_folder(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    remove_name(request, parent, name, FY_FILES_FOLDER);
}

/* The tree after a rename that the server has done. Notices of it may have come first. */
static void
move(struct fy_client *client, struct fy_node *from, struct fy_node *to,
     const struct fy_files_message *asked,
     const struct fy_files_message *answer)
{
    struct fy_tree *tree = &client->tree;
    bool exchange = (asked->flags & RENAME_EXCHANGE) != 0;
    struct fy_name *name = fy_tree_find(tree, from, asked->name);
    struct fy_name *target = fy_tree_find(tree, to, asked->other_name);
    struct fy_node *lost = target ? target->node : NULL;
    if (asked->keep != 0) { /* ino 0: it was being made */
        struct fy_node *held =
            asked->length ? fy_tree_ino(tree, asked->length) : lost;
        if (held) {
            fy_hold_kept(client, held, asked->keep);
        } else {
            tree->unkept(tree->owner, asked->keep);
        }
    }
    if (lost && lost->attr.ino == answer->attr.ino) {
        (void)fy_told_attr(client, lost, &answer->attr, FY_TOLD_OWN,
                           client->stamp);
        /* Two names of one file stay. */
        if (name && name->node == lost && asked->length != answer->attr.ino) {
            fy_tree_remove(tree, name);
            /* In an exchange the name leads to the other one: it is looked up. */
            from->folder->whole = from->folder->whole && !exchange;
        }
        return;
    }
    struct fy_node *node = name ? name->node : NULL;
    uint64_t loses = lost ? fy_node_number(lost) : 0; /* it may be freed */
    if (!name && (!target || lost->attr.ino == asked->length) &&
        fy_told_is_nameless(tree, &answer->attr)) {
        /* A notice has removed the old name, and none has told of the new name. Both are
         * looked up again, but the node keeps the new name for requests of open files. */
        if (exchange && lost) {
            fy_told_name_again(client, from, asked->name, &lost->attr);
        }
        fy_told_name_again(client, to, asked->other_name, &answer->attr);
        from->folder->whole = to->folder->whole = false;
        return;
    }
    if (!node || node->attr.ino != answer->attr.ino ||
        fy_tree_rename(tree, name, to, asked->other_name, exchange)) {
        /* It is looked up: `name' may be new, or there is no memory. */
        if (target) {
            fy_tree_remove(tree, target);
        }
        to->folder->whole = from->folder->whole = false;
        return;
    }
    (void)fy_told_attr(client, node, &answer->attr, FY_TOLD_OWN, client->stamp);
    lost = loses ? fy_tree_node(tree, loses) : NULL;
    if (lost && asked->keep == 0 && lost->names) {
        fy_told_stale(client, lost); /* its link count, or its ctime */
    }
}

static void
rename_answered(struct fy_client *client, struct fy_call *call,
                const struct fy_files_message *asked,
                const struct fy_files_message *answer)
{
    bool stale = answer->status == -ESTALE;
    if (stale && asked->length && !(asked->flags & RENAME_EXCHANGE)) {
        /* Another file has the new name by now: whatever has it is replaced. */
        struct fy_files_message again = *asked;
        again.length = again.keep = 0;
        fy_ask(client, call, &again);
        return;
    }
    client->pending.renames--;
    if (answer->status != 0) {
        if (stale) { /* the kernel looks the names up and asks once more */
            fy_told_name_lost(client, call->node, asked->name);
            fy_told_name_lost(client, call->other, asked->other_name);
        }
        fy_reply_status(call->request, answer->status);
        return;
    }
    fy_node_hold(call->node);
    folder_changed(client, call->node, &answer->other_attr);
    folder_changed(client, call->other, &answer->third_attr);
    move(client, call->node, call->other, asked, answer);
    fy_told_name_check(client, call->node, asked->name,
                       asked->flags & RENAME_EXCHANGE ? asked->length : 0,
                       call->stamp);
    fy_told_name_check(client, call->other, asked->other_name, answer->attr.ino,
                       call->stamp);
    fy_tree_drop(&client->tree, call->node);
    fy_reply_status(call->request, 0);
}

static void
rename_name(fuse_req_t request, fuse_ino_t parent, const char *from,
            fuse_ino_t new_parent, const char *to, unsigned flags)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *folder = folder_of(client, request, parent, from);
    struct fy_node *other =
        folder ? folder_of(client, request, new_parent, to) : NULL;
    if (!other) {
        return;
    }
    if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) {
        fuse_reply_err(request, EINVAL);
        return;
    }
    const struct fy_name *name =
        fy_tree_find(&client->tree, folder, fy_bytes_of(from));
    const struct fy_name *lost =
        fy_tree_find(&client->tree, other, fy_bytes_of(to));
    client->pending.renames++;
    fy_ask(client,
           &(struct fy_call){.request = request,
                             .answered = rename_answered,
                             .node = folder,
                             .other = other},
           &(struct fy_files_message){
               .type = FY_FILES_RENAME,
               .name = fy_bytes_of(from),
               .other_name = fy_bytes_of(to),
               .flags = flags,
               .number = name ? name->node->attr.ino : 0,
               .length = lost ? lost->node->attr.ino : 0,
               .keep =
                   flags & RENAME_EXCHANGE ? 0 : fy_hold_number(client, lost)});
}

void
fy_names_operations(struct fuse_lowlevel_ops *rows)
{
    rows->lookup = lookup;
    rows->forget = forget;
    rows->forget_multi = forget_multi;
    rows->mknod = make_node;
    rows->mkdir = make_folder;
    rows->symlink = make_link;
    rows->create = create;
    rows->link = make_hard_link;
    rows->unlink = unlink_name;
    rows->rmdir = remove_folder;
    rows->rename = rename_name;
}
