/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders: opened, read with the attributes of their entries, synced, closed. An open
 * folder has a copy of its names as they were when reading began, so that a name that
 * stays is read once.
 */
#include "config.h"

#include "proxy/files/client/operations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/files/client/file.h"
#include "proxy/files/client/list.h"
#include "proxy/files/client/walks.h"

struct row {
    uint64_t node; /* number; 0: none is known */
    uint64_t ino;
    uint32_t mode;
    uint32_t name; /* where its text begins in `names' */
    bool counted;  /* as a lookup of the kernel's, by the last reply */
};

/* An open folder: the kernel's handle. */
struct opened {
    struct row *rows; /* "." and ".." are not among them */
    char *names;
    uint32_t nrows;
    bool filled;
    unsigned users; /* the handle, and requests that wait */
};

/* A request of the kernel that waits for the listing. */
struct waiting {
    struct opened *opened;
    size_t bytes;
    off_t offset;
};

static struct opened *
opened_of(const struct fuse_file_info *info)
{
    return (struct opened *)(uintptr_t)info->fh;
}

static void
drop(struct opened *opened)
{
    if (--opened->users == 0) {
        free(opened->rows);
        free(opened->names);
        free(opened);
    }
}

static void
open_folder(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    struct opened *opened = node ? calloc(1, sizeof *opened) : NULL;
    if (!node) {
        return;
    }
    if (!opened || !fy_node_is_folder(node)) {
        free(opened);
        fuse_reply_err(request, fy_node_is_folder(node) ? ENOMEM : ENOTDIR);
        return;
    }
    opened->users = 1;
    info->fh = (uintptr_t)opened;
    /* The kernel keeps the names: it is told when they change. */
    info->cache_readdir = info->keep_cache = 1;
    client->opens++;
    if (fuse_reply_open(request, info) != 0) {
        client->opens--;
        drop(opened);
    }
}

/* Copies the names from the tree, without those whose files are being made, and those of
 * which nothing else is known; 0 or an errno. */
static int
fill(struct opened *opened, const struct fy_node *folder)
{
    struct fy_files_bytes bare = {folder->folder->bare.bytes,
                                  folder->folder->bare.n};
    struct fy_files_entry entry = {.attr.ino = 0};
    size_t bytes = bare.n, at = 0;
    uint32_t n = 0;
    for (const struct fy_name *name = folder->folder->first; name;
         name = name->sibling) {
        bytes += name->length + 1u;
    }
    struct row *rows =
        malloc((folder->folder->count + (size_t)folder->folder->nbare + 1) *
               sizeof *rows);
    char *names = malloc(bytes + 1);
    if (!rows || !names || bytes > UINT32_MAX) {
        free(rows);
        free(names);
        return ENOMEM;
    }
    for (const struct fy_name *name = folder->folder->first; name;
         name = name->sibling) {
        if (name->node->attr.ino == 0) {
            continue;
        }
        rows[n++] = (struct row){.node = fy_node_number(name->node),
                                 .ino = fy_node_ino(name->node),
                                 .mode = name->node->attr.mode,
                                 .name = (uint32_t)at};
        memcpy(names + at, name->text, name->length + 1u);
        at += name->length + 1u;
    }
    while (fy_files_entry_take(&bare, &entry)) {
        rows[n++] = (struct row){.ino = entry.attr.ino,
                                 .mode = entry.attr.rdev,
                                 .name = (uint32_t)at};
        memcpy(names + at, entry.name.at, entry.name.n);
        at += entry.name.n;
        names[at++] = '\0';
    }
    free(opened->rows);
    free(opened->names);
    opened->rows = rows;
    opened->names = names;
    opened->nrows = n;
    opened->filled = true;
    return 0;
}

/* "." (0) or ".." (1). */
static size_t
add_dots(fuse_req_t request, const struct fy_node *folder, unsigned which,
         char *to, size_t room)
{
    struct fuse_entry_param entry = {0};
    const struct fy_node *node =
        which == 1 && folder->names ? folder->names->folder : folder;
    entry.attr.st_ino = node->attr.ino;
    entry.attr.st_mode = node->attr.mode;
    return fuse_add_direntry_plus(request, to, room, which == 0 ? "." : "..",
                                  &entry, (off_t)which + 1);
}

/* With attributes, unless the node was forgotten since, or writes that are on their way
 * make others of them: then the kernel looks it up. */
static size_t
add_row(struct fy_client *client, fuse_req_t request,
        const struct fy_node *folder, const struct opened *opened, off_t i,
        char *to, size_t room)
{
    struct row *row = &opened->rows[i];
    struct fuse_entry_param entry = {0};
    struct fy_node *node =
        row->node ? fy_tree_node(&client->tree, row->node) : NULL;
    node = node && !fy_file_is_busy(node) ? node : NULL;
    if (node) {
        fy_told_entry(client, folder, node, &entry);
    } else {
        entry.attr.st_ino = row->ino;
        entry.attr.st_mode = row->mode;
    }
    size_t n = fuse_add_direntry_plus(request, to, room,
                                      opened->names + row->name, &entry, i + 3);
    row->counted = node && n <= room;
    if (row->counted) {
        node->lookups++;
    }
    return n;
}

/* The rows from the offset on. */
static void
reply(struct fy_client *client, fuse_req_t request, struct fy_node *folder,
      const struct opened *opened, size_t bytes, off_t offset)
{
    size_t used = 0;
    off_t at = offset, end = (off_t)opened->nrows + 2;
    char *buffer = malloc(bytes);
    if (!buffer) {
        fuse_reply_err(request, ENOMEM);
        return;
    }
    for (; at < end; at++) {
        size_t n = at < 2 ? add_dots(request, folder, (unsigned)at,
                                     buffer + used, bytes - used)
                          : add_row(client, request, folder, opened, at - 2,
                                    buffer + used, bytes - used);
        if (n > bytes - used) {
            break;
        }
        used += n;
    }
    if (fuse_reply_buf(request, buffer, used) != 0) {
        for (off_t i = offset < 2 ? 2 : offset; i < at; i++) {
            const struct row *row = &opened->rows[i - 2];
            struct fy_node *node = fy_tree_node(&client->tree, row->node);
            if (node && row->counted) {
                fy_tree_forget(&client->tree, node, 1);
            }
        }
    }
    free(buffer);
    if (at == end) {
        fy_ahead_shown(client, folder);
    }
}

static void
listed(struct fy_client *client, struct fy_node *folder, fuse_req_t request,
       void *context, int status)
{
    struct waiting *waiting = context;
    status = status ? status : -fill(waiting->opened, folder);
    if (status != 0) {
        fy_reply_status(request, status);
    } else if (request) {
        reply(client, request, folder, waiting->opened, waiting->bytes,
              waiting->offset);
    }
    drop(waiting->opened);
    free(waiting);
}

static void
read_folder(fuse_req_t request, fuse_ino_t number, size_t bytes, off_t offset,
            struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *folder = fy_told_node(client, request, number);
    struct opened *opened = opened_of(info);
    if (!folder) {
        return;
    }
    /* A file that is being made has no number to show: the server is asked behind it. */
    bool whole =
        fy_told_is_whole(client, folder) && folder->folder->expected == 0;
    folder->folder->shown = true;
    if (offset == 0 && whole) {
        int error = fill(opened, folder);
        if (error != 0) {
            fuse_reply_err(request, error);
            return;
        }
        client->counts.local++;
        fy_walks_listed(client, folder, true);
    }
    if (offset < 0 || (opened->filled && (offset > 0 || whole))) {
        reply(client, request, folder, opened, bytes, offset < 0 ? 0 : offset);
        return;
    }
    struct waiting *waiting = malloc(sizeof *waiting);
    if (!waiting) {
        fuse_reply_err(request, ENOMEM);
        return;
    }
    *waiting = (struct waiting){opened, bytes, offset};
    opened->users++;
    fy_list_ask(client, folder, request, waiting, listed);
    fy_walks_listed(client, folder, false);
}

static void
close_folder(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    const struct fy_node *folder = fy_tree_node(&client->tree, number);
    if (folder && fy_node_is_folder(folder) && folder->folder->watch == 0) {
        fy_forget_node(client, folder, FY_NOTICE_CONTENTS); /* its names */
    }
    client->opens--;
    drop(opened_of(info));
    fuse_reply_err(request, 0);
}

static void
synced(struct fy_client *client, struct fy_call *call,
       const struct fy_files_message *asked,
       const struct fy_files_message *answer)
{
    /* Files of it may have failed to be made. */
    int error = client->options->async ? fy_files_failure(client) : 0;
    (void)asked;
    fy_reply_status(call->request, error ? -error : answer->status);
}

static void
sync_folder(fuse_req_t request, fuse_ino_t number, int data,
            struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    (void)info;
    if (node) {
        fy_ask(client,
               &(struct fy_call){
                   .request = request, .answered = synced, .node = node},
               &(struct fy_files_message){.type = FY_FILES_FSYNC,
                                          .flags =
                                              data ? FY_FILES_DATA_ONLY : 0u});
    }
}

void
fy_folders_operations(struct fuse_lowlevel_ops *rows)
{
    rows->opendir = open_folder;
    rows->readdirplus = read_folder;
    rows->releasedir = close_folder;
    rows->fsyncdir = sync_folder;
}
