/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices of the server: changes of watched folders by anyone, also by this mount, which
 * are known already then. The kernel forgets entries that are no longer true.
 */
#include "config.h"

#include <sys/stat.h>

#include "proxy/files/client/file.h"
#include "proxy/files/client/shadow.h"
#include "proxy/files/client/told.h"

void
fy_change_folder_lost(struct fy_client *client, struct fy_node *folder)
{
    fy_tree_watch(&client->tree, folder, 0);
    fy_told_change(client, folder);
    folder->told_ns = 0;
    folder->folder->whole = false;
    fy_forget_node(client, folder, FY_NOTICE_CONTENTS);
    for (struct fy_name *name = folder->folder->first; name;
         name = name->sibling) {
        fy_forget_name(client, folder,
                       (struct fy_files_bytes){name->text, name->length},
                       FY_NOTICE_EXPIRE, NULL);
        if (!fy_node_is_folder(name->node)) {
            name->node->told_ns = 0;
            fy_forget_node(client, name->node, FY_NOTICE_ATTRIBUTES);
        }
    }
}

void
fy_change_all_lost(struct fy_client *client)
{
    client->counts.lost++;
    for (uint64_t i = 0; i < client->tree.watch_slots; i++) {
        while (client->tree.watches[i]) {
            fy_change_folder_lost(client, client->tree.watches[i]->node);
        }
    }
}

void
fy_change_unwatched_lost(struct fy_client *client)
{
    const struct fy_tree *tree = &client->tree;
    for (uint64_t i = 0; i < tree->ino_slots; i++) {
        for (struct fy_node *node = tree->inos[i]; node; node = node->next) {
            bool folder = fy_node_is_folder(node);
            if (fy_told_is_watched(node)) {
                continue;
            }
            if (folder && (node->told_ns != 0 || node->folder->whole)) {
                fy_change_folder_lost(client, node);
            } else if (!folder) {
                node->told_ns = 0;
                node->version++;
                if (S_ISREG(node->attr.mode)) {
                    fy_ahead_drop(client, node);
                }
                fy_forget_node(client, node, FY_NOTICE_CONTENTS);
            }
        }
    }
}

/* Whether it may be from before the node's last change by this mount, which is told
 * again. */
static bool
is_older(const struct fy_client *client, const struct fy_node *node,
         const struct fy_files_message *message)
{
    return node->own > client->calls.changes_before + message->offset;
}

/* Whether the name's file is being made. Earlier notices of it are nothing new. ino: of
 * the name's file; UINT64_MAX: nothing. */
static bool
is_expected(const struct fy_client *client, const struct fy_node *folder,
            const struct fy_name *name, const struct fy_files_message *message,
            uint64_t ino)
{
    return name && name->node->attr.ino == 0 &&
           (is_older(client, folder, message) || fy_told_expected(name, ino));
}

/* Another program has written the file of that number, or the file that is being made under
 * the name, perhaps at a time that it had before. */
static void
change_contents(struct fy_client *client, uint64_t ino,
                const struct fy_name *name)
{
    struct fy_node *node = fy_tree_ino(&client->tree, ino);
    node = node || !name ? node : name->node;
    if (!node) {
        return;
    }
    if (S_ISREG(node->attr.mode) && node->file && node->file->pending > 0) {
        node->file->others = true; /* own writes are on their way */
        fy_shadow_drop(client, node->file);
    } else if (S_ISREG(node->attr.mode)) {
        fy_told_lost(client, node);
    }
}

static void
change_attr(struct fy_client *client, struct fy_node *node,
            const struct fy_files_message *message)
{
    if (is_older(client, node, message)) {
        int order = fy_told_compare(&message->attr.ctime, &node->attr.ctime);
        if (order < 0) {
            return;
        }
        if (order == 0) {
            fy_told_stale(client, node);
            return;
        }
    }
    (void)fy_told_attr(client, node, &message->attr, FY_TOLD_UNASKED,
                       UINT64_MAX);
    node->stamp = ++client->stamp;
}

/* A name of the folder is there, with these attributes. */
static void
change_name(struct fy_client *client, struct fy_node *folder,
            const struct fy_files_message *message)
{
    const struct fy_name *known =
        fy_tree_find(&client->tree, folder, message->name);
    int error;
    if (message->flags & FY_FILES_OTHERS) {
        change_contents(client, message->attr.ino, known);
    }
    if (is_expected(client, folder, known, message, message->attr.ino)) {
        return;
    }
    if (known && fy_node_is(known->node, &message->attr)) {
        change_attr(client, known->node, message);
        return;
    }
    fy_told_name_noticed(client, folder, message->name, message->attr.ino);
    if (!known) { /* the kernel may know that it is not there */
        fy_forget_name(client, folder, message->name, FY_NOTICE_EXPIRE, NULL);
    }
    if (is_older(client, folder, message) ||
        !(known || folder->folder->whole) || message->attr.mode == 0 ||
        !fy_told_name(client, folder, message->name, &message->attr,
                      FY_TOLD_UNASKED, UINT64_MAX, &error)) {
        fy_told_name_lost(client, folder, message->name);
    }
}

/* A name of the folder is not there. */
static void
remove_name(struct fy_client *client, struct fy_node *folder,
            const struct fy_files_message *message)
{
    struct fy_name *name = fy_tree_find(&client->tree, folder, message->name);
    if (is_expected(client, folder, name, message, UINT64_MAX)) {
        return;
    }
    fy_told_name_noticed(client, folder, message->name, 0);
    if (!name) {
        return; /* a listing under way may have it */
    }
    if (is_older(client, folder, message)) {
        fy_told_name_lost(client, folder, message->name);
        return;
    }
    fy_forget_name(client, folder, message->name, FY_NOTICE_DELETED,
                   name->node);
    fy_told_removed(client, name);
}

void
fy_change_came(struct fy_client *client, const struct fy_files_message *message)
{
    struct fy_node *folder = fy_tree_watched(&client->tree, message->number);
    if (message->type == FY_FILES_LOST && (message->number & UINT32_MAX) == 0) {
        client->tree.least_watch = message->number;
        fy_change_all_lost(client);
        return;
    }
    client->counts.lost += message->type == FY_FILES_LOST;
    client->counts.notices += message->type == FY_FILES_CHANGED;
    if (!folder) {
        return; /* it was forgotten meanwhile */
    }
    if (message->type == FY_FILES_LOST) {
        fy_change_folder_lost(client, folder);
    } else if (message->name.n == 0) {
        change_attr(client, folder, message);
    } else if (message->flags & FY_FILES_PRESENT) {
        change_name(client, folder, message);
    } else {
        remove_name(client, folder, message);
    }
}
