/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are made early; see the header. Until it is made, such a node has no ino. It
 * is addressed by the number under which the server holds it, so that a write behind the
 * MAKE cannot reach another file that gets the name meanwhile. Requests behind the MAKE
 * are answered behind it.
 */
#include "config.h"

#include "proxy/files/client/early.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "proxy/files/client/contents.h"
#include "proxy/files/client/file.h"
#include "proxy/files/client/told.h"
#include "proxy/files/record.h"

enum {
    EARLY_MAX = 64, /* at once: the server holds them open */
    BLOCK_BYTES = 4096,
};

/* The entry of the name may be wrong; it is, if the file was not made. */
static void
doubt_name(struct fy_client *client, struct fy_node *folder,
           struct fy_files_bytes text, struct fy_node *node, bool was_made)
{
    struct fy_name *name = fy_tree_find(&client->tree, folder, text);
    fy_told_change(client, folder);
    folder->folder->whole = false;
    fy_forget_name(client, folder, text,
                   was_made ? FY_NOTICE_EXPIRE : FY_NOTICE_NAME, NULL);
    if (was_made) {
        fy_told_stale(client, node);
    } else if (name && name->node == node) {
        fy_tree_remove(&client->tree, name);
    }
}

static void
count(struct fy_client *client, int more)
{
    client->pending.makes += (uint32_t)more;
    if (client->pending.record) {
        client->pending.record->changes = client->pending.makes;
    }
}

static void
made(struct fy_client *client, struct fy_call *call,
     const struct fy_files_message *asked,
     const struct fy_files_message *answer)
{
    struct fy_node *folder = call->node, *node = call->other;
    struct fy_file *file = node->file;
    int error = -answer->status;
    count(client, -1);
    folder->folder->expected--;
    if (error == 0 && !fy_tree_made(&client->tree, node, &answer->attr)) {
        error = EIO;
    }
    if (error == 0) {
        fy_told_change(client, folder);
        (void)fy_told_attr(client, folder, &answer->other_attr, FY_TOLD_OWN,
                           client->stamp);
        (void)fy_told_attr(client, node, &answer->attr, FY_TOLD_WRITTEN,
                           client->stamp);
        file->doubt = file->doubt || file->noticed != 0;
        node->without =
            answer->flags & FY_FILES_MADE ? FY_WITHOUT_CAPABILITY : 0;
    } else {
        fy_file_failed(client, file, error);
    }
    if (error != 0 || (file->noticed != 0 && file->noticed != node->attr.ino)) {
        doubt_name(client, folder, asked->name, node, error == 0);
    }
    fy_contents_written(client, node);
}

struct fy_node *
fy_early_make(struct fy_client *client, struct fy_node *folder,
              struct fy_files_message *message)
{
    struct timespec now;
    struct fy_node *node;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    struct fy_files_time time = {now.tv_sec, (uint32_t)now.tv_nsec};
    const struct fy_owners *owners = &client->owners;
    struct fy_files_attr attr = {
        .mode = message->mode,
        .nlink = 1,
        .uid = owners->numbers ? message->uid : owners->there_uid,
        .gid = folder->attr.mode & S_ISGID ? folder->attr.gid
               : owners->numbers           ? message->gid
                                           : owners->there_gid,
        .blksize = BLOCK_BYTES,
        .atime = time,
        .mtime = time,
        .ctime = time};
    /* A lock file is no lock before it was made; a file that is not emptied may have
     * contents of others, behind which the kernel appends. A rename may move the folder
     * away. */
    if (!client->options->async || message->flags != FY_FILES_TRUNCATE ||
        folder->folder->watch == 0 || !fy_told_is_whole(client, folder) ||
        fy_tree_find(&client->tree, folder, message->name) ||
        client->pending.early >= EARLY_MAX || client->pending.renames > 0 ||
        client->calls.failing ||
        fy_tree_expect(&client->tree, folder, message->name, &attr, &node)) {
        return NULL;
    }
    fy_node_hold(node);
    struct fy_file *file = fy_file_of(node);
    if (!file) {
        fy_tree_remove(&client->tree, node->names);
        fy_tree_drop(&client->tree, node);
        return NULL;
    }
    fy_told_change(client, folder);
    folder->folder->expected++;
    count(client, 1);
    client->pending.early++;
    file->early = true;
    file->pending++;
    node->kept = message->keep = ++client->numbers.last;
    node->without |= FY_WITHOUT_CAPABILITY; /* the kernel asks at each write */
    fy_ask(client,
           &(struct fy_call){.answered = made, .node = folder, .other = node},
           message);
    return node;
}
