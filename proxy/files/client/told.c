/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the server's words to the tree and the kernel; see the header.
 */
#include "config.h"

#include "proxy/files/client/told.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "proxy/files/client/file.h"

static const double for_ever = 1e6; /* seconds */

/* ---- the kernel is to forget --------------------------------------------------------------- */

void
fy_forget_node(struct fy_client *client, const struct fy_node *node,
               enum fy_notice_kind kind)
{
    if (node->lookups > 0 || node == client->tree.root) {
        const struct fy_name *name = node->names;
        struct fy_notice *notice =
            fy_notice_new(kind, fy_node_number(node), name ? name->text : NULL,
                          name ? name->length : 0);
        if (notice) {
            notice->folder = name ? fy_node_number(name->folder) : 0;
            fy_notifier_add(&client->notifier, notice);
        }
    }
}

void
fy_forget_name(struct fy_client *client, const struct fy_node *folder,
               struct fy_files_bytes name, enum fy_notice_kind kind,
               const struct fy_node *was)
{
    if (folder->lookups == 0 && folder != client->tree.root) {
        return;
    }
    if (kind == FY_NOTICE_DELETED && (!was || was->lookups == 0)) {
        kind = FY_NOTICE_NAME;
    }
    struct fy_notice *notice =
        fy_notice_new(kind, fy_node_number(folder), name.at, name.n);
    if (notice) {
        notice->child = kind == FY_NOTICE_DELETED ? fy_node_number(was) : 0;
        fy_notifier_add(&client->notifier, notice);
    }
}

/* ---- attributes ------------------------------------------------------------------------------ */

struct fy_node *
fy_told_node(struct fy_client *client, fuse_req_t request, fuse_ino_t number)
{
    struct fy_node *node = fy_tree_node(&client->tree, number);
    if (!node) {
        fuse_reply_err(request, ESTALE);
    }
    return node;
}

bool
fy_told_is_watched(const struct fy_node *node)
{
    if (fy_node_is_folder(node)) {
        return node->folder->watch != 0;
    }
    return node->attr.nlink == 1 && node->names && !node->names->other &&
           node->names->folder->folder->watch != 0;
}

static uint64_t
ac_ns(const struct fy_client *client)
{
    return (uint64_t)client->options->ac_ms * 1000000;
}

bool
fy_told_is_fresh(const struct fy_client *client, const struct fy_node *node)
{
    return node->told_ns != 0 &&
           (fy_told_is_watched(node) ||
            fy_clock_ns() - node->told_ns < ac_ns(client));
}

bool
fy_told_is_whole(const struct fy_client *client, const struct fy_node *node)
{
    const struct fy_folder *folder = node->folder;
    return folder->whole && (folder->watch != 0 ||
                             fy_clock_ns() - folder->listed_ns < ac_ns(client));
}

int
fy_told_compare(const struct fy_files_time *a, const struct fy_files_time *b)
{
    return a->seconds != b->seconds ? (a->seconds < b->seconds ? -1 : 1)
           : a->ns != b->ns         ? (a->ns < b->ns ? -1 : 1)
                                    : 0;
}

static bool
same_contents(const struct fy_files_attr *a, const struct fy_files_attr *b)
{
    return a->size == b->size && fy_told_compare(&a->mtime, &b->mtime) == 0;
}

/* But for the time of the last reading. */
static bool
same_attributes(const struct fy_files_attr *a, const struct fy_files_attr *b)
{
    return same_contents(a, b) && fy_told_compare(&a->ctime, &b->ctime) == 0 &&
           a->mode == b->mode && a->nlink == b->nlink && a->uid == b->uid &&
           a->gid == b->gid && a->blocks == b->blocks && a->rdev == b->rdev;
}

void
fy_told_lost(struct fy_client *client, struct fy_node *node)
{
    node->version++;
    node->cached = 0;
    if (S_ISREG(node->attr.mode)) {
        client->events->dropped(client, node);
    }
    fy_forget_node(client, node, FY_NOTICE_CONTENTS);
}

bool
fy_told_attr(struct fy_client *client, struct fy_node *node,
             const struct fy_files_attr *attr, enum fy_told why, uint64_t stamp)
{
    if (!fy_node_is(node, attr)) {
        return false;
    }
    bool same = same_attributes(&node->attr, attr);
    bool is_own = why == FY_TOLD_OWN || why == FY_TOLD_WRITTEN;
    if (!is_own && node->stamp > stamp && !same) {
        int order = fy_told_compare(&attr->ctime, &node->attr.ctime);
        if (order == 0) { /* which of them is older cannot be told */
            fy_told_stale(client, node);
        }
        if (order <= 0) {
            return true; /* older than a later answer */
        }
    }
    if (is_own) {
        node->own = client->calls.changes;
        if (S_ISREG(node->attr.mode) && node->file) {
            node->file->sure = *attr;
        }
    }
    const struct fy_files_attr before = node->attr;
    bool contents = !same_contents(&node->attr, attr);
    bool ctime = fy_told_compare(&node->attr.ctime, &attr->ctime) != 0;
    node->attr = *attr;
    node->told_ns = fy_clock_ns();
    if (same) {
        return true;
    }
    if (is_own) {
        node->stamp = ++client->stamp;
        if (why == FY_TOLD_OWN && contents && S_ISREG(attr->mode)) {
            fy_told_lost(client,
                         node); /* the notice of it will be older than this */
        }
        return true;
    }
    if (S_ISLNK(attr->mode) && (contents || ctime)) {
        free(node->target);
        node->target = NULL;
    }
    /* While own writes are on their way their effect cannot be told from others'. */
    bool own = S_ISREG(attr->mode) && node->file && node->file->pending > 0;
    if (own) {
        node->file->sure = node->file->doubt ? node->file->sure : before;
        node->file->doubted = *attr;
        node->file->doubt = true;
    } else if (ctime) {
        node->without = 0;
    }
    if (contents && !own) {
        fy_told_lost(client, node);
    } else if (why == FY_TOLD_UNASKED) {
        fy_forget_node(client, node, FY_NOTICE_ATTRIBUTES);
    }
    return true;
}

bool
fy_told_written(struct fy_client *client, struct fy_node *node,
                const struct fy_files_message *answer, uint64_t stamp)
{
    struct fy_file *file = S_ISREG(node->attr.mode) ? node->file : NULL;
    bool other = !same_contents(
        &answer->other_attr, file && file->doubt ? &file->sure : &node->attr);
    (void)fy_told_attr(client, node, &answer->attr, FY_TOLD_WRITTEN, stamp);
    if (!other && file && file->noticed == 0 &&
        same_contents(&answer->attr, &file->doubted)) {
        file->doubt = false; /* the notice was of this write */
    }
    return other;
}

void
fy_told_stale(struct fy_client *client, struct fy_node *node)
{
    node->told_ns = 0;
    fy_forget_node(client, node, FY_NOTICE_ATTRIBUTES);
}

void
fy_told_removed(struct fy_client *client, struct fy_name *name)
{
    if (name->node->names != name || name->other || name->node->kept != 0) {
        fy_told_stale(client, name->node); /* its link count */
    }
    fy_tree_remove(&client->tree, name);
}

void
fy_told_change(struct fy_client *client, struct fy_node *folder)
{
    folder->folder->stamp = ++client->stamp;
}

bool
fy_told_expected(const struct fy_name *name, uint64_t ino)
{
    bool expected = name->node->attr.ino == 0;
    if (expected) {
        name->node->file->noticed = ino;
    }
    return expected;
}

struct fy_node *
fy_told_name(struct fy_client *client, struct fy_node *folder,
             struct fy_files_bytes name, const struct fy_files_attr *attr,
             enum fy_told why, uint64_t stamp, int *out_error)
{
    struct fy_node *node;
    const struct fy_name *known = fy_tree_find(&client->tree, folder, name);
    struct fy_node *was = known ? known->node : NULL;
    if (known && fy_told_expected(known, attr->ino)) {
        return was;
    }
    fy_node_hold(was);
    int status = fy_tree_put(&client->tree, folder, name, attr, &node);
    if (was) {
        if (!status && was != node && (was->names || was->kept != 0)) {
            fy_told_stale(client, was); /* its link count */
        }
        fy_tree_drop(&client->tree, was);
    }
    if (status) {
        *out_error = status == FY_ERR_NOMEM ? ENOMEM : EIO;
        return NULL;
    }
    if (was && was != node && why == FY_TOLD_UNASKED) {
        fy_forget_name(client, folder, name, FY_NOTICE_NAME, NULL);
    }
    (void)fy_told_attr(client, node, attr, why, stamp);
    return node;
}

void
fy_told_name_again(struct fy_client *client, struct fy_node *folder,
                   struct fy_files_bytes name, const struct fy_files_attr *attr)
{
    int error;
    struct fy_node *node = fy_told_name(client, folder, name, attr, FY_TOLD_OWN,
                                        client->stamp, &error);
    if (node) {
        fy_told_stale(client, node);
        fy_forget_name(client, folder, name, FY_NOTICE_EXPIRE, NULL);
    }
}

void
fy_told_name_lost(struct fy_client *client, struct fy_node *folder,
                  struct fy_files_bytes text)
{
    struct fy_name *known = fy_tree_find(&client->tree, folder, text);
    folder->folder->whole = false;
    fy_forget_name(client, folder, text,
                   known ? FY_NOTICE_EXPIRE : FY_NOTICE_NAME, NULL);
    if (known) {
        fy_told_stale(client, known->node);
    }
}

void
fy_told_name_noticed(struct fy_client *client, struct fy_node *folder,
                     struct fy_files_bytes name, uint64_t ino)
{
    struct fy_noticed *all = &client->noticed;
    fy_told_change(client, folder);
    all->rows[all->n++ % FY_NOTICED_ROWS] =
        (struct fy_noticed_row){fy_node_number(folder), client->stamp, ino,
                                fy_hash_words(FY_HASH_START, name.at, name.n)};
}

void
fy_told_name_check(struct fy_client *client, struct fy_node *folder,
                   struct fy_files_bytes name, uint64_t ino, uint64_t stamp)
{
    const struct fy_noticed *all = &client->noticed;
    uint64_t number = fy_node_number(folder), i = 0;
    uint64_t hash = fy_hash_words(FY_HASH_START, name.at, name.n);
    bool differs = false;
    for (; i < FY_NOTICED_ROWS && i < all->n; i++) {
        const struct fy_noticed_row *row =
            &all->rows[(all->n - 1 - i) % FY_NOTICED_ROWS];
        if (row->stamp <= stamp) {
            break;
        }
        differs |=
            row->folder == number && row->hash == hash && row->ino != ino;
    }
    if (differs || i == FY_NOTICED_ROWS) { /* rows may have been overwritten */
        fy_told_name_lost(client, folder, name);
    }
}

bool
fy_told_is_nameless(const struct fy_tree *tree,
                    const struct fy_files_attr *attr)
{
    const struct fy_node *node = fy_tree_ino(tree, attr->ino);
    return node && !node->names && node->lookups > 0 && fy_node_is(node, attr);
}

/* ---- replies ---------------------------------------------------------------------------------- */

static uint32_t
owner_here(const struct fy_owners *owners, uint32_t there, bool group)
{
    uint32_t own = group ? owners->there_gid : owners->there_uid;
    if (owners->numbers || there != own) {
        return there;
    }
    return group ? owners->gid : owners->uid;
}

uint32_t
fy_owner_there(const struct fy_owners *owners, uint32_t here, bool group)
{
    uint32_t own = group ? owners->gid : owners->uid;
    if (owners->numbers || here != own) {
        return here;
    }
    return group ? owners->there_gid : owners->there_uid;
}

static struct timespec
timespec_of(const struct fy_files_time *time)
{
    return (struct timespec){.tv_sec = (time_t)time->seconds,
                             .tv_nsec = (long)time->ns};
}

static void
fill_stat(const struct fy_client *client, const struct fy_node *node,
          struct stat *out)
{
    const struct fy_files_attr *attr = &node->attr;
    memset(out, 0, sizeof *out);
    out->st_ino = fy_node_ino(node);
    out->st_mode = attr->mode;
    out->st_nlink = attr->nlink;
    out->st_uid = owner_here(&client->owners, attr->uid, false);
    out->st_gid = owner_here(&client->owners, attr->gid, true);
    out->st_rdev = attr->rdev;
    out->st_size = (off_t)attr->size;
    out->st_blksize = (blksize_t)attr->blksize;
    out->st_blocks = (blkcnt_t)attr->blocks;
    out->st_atim = timespec_of(&attr->atime);
    out->st_mtim = timespec_of(&attr->mtime);
    out->st_ctim = timespec_of(&attr->ctime);
}

/* Returns how long the kernel may keep a folder's entry. */
static double
name_seconds(const struct fy_client *client, const struct fy_node *folder)
{
    return folder->folder->watch != 0 ? for_ever : client->options->ac_ms / 1e3;
}

/* How long it may keep the attributes. */
static double
attr_seconds(const struct fy_client *client, const struct fy_node *node)
{
    if (fy_node_is_folder(node) && node->folder->expected > 0) {
        return 0; /* they change when the file is made */
    }
    if (fy_told_is_watched(node)) {
        return node->told_ns != 0 ? for_ever : 0;
    }
    uint64_t age = fy_clock_ns() - node->told_ns;
    return age < ac_ns(client) ? (double)(ac_ns(client) - age) / 1e9 : 0;
}

void
fy_told_entry(const struct fy_client *client, const struct fy_node *folder,
              const struct fy_node *node, struct fuse_entry_param *out)
{
    memset(out, 0, sizeof *out);
    out->ino = fy_node_number(node);
    fill_stat(client, node, &out->attr);
    out->entry_timeout = node->told_ns != 0 ? name_seconds(client, folder) : 0;
    out->attr_timeout = attr_seconds(client, node);
}

/* `later' has the folder's number. */
static void
entry_now(struct fy_client *client, struct fy_node *node,
          struct fy_later *later)
{
    struct fuse_entry_param entry;
    const struct fy_node *folder = fy_tree_node(&client->tree, later->info.fh);
    if (!folder) {
        fuse_reply_err(later->request, ESTALE);
        return;
    }
    fy_told_entry(client, folder, node, &entry);
    node->lookups++;
    if (fuse_reply_entry(later->request, &entry) != 0) {
        fy_tree_forget(&client->tree, node, 1);
    }
}

void
fy_reply_entry(struct fy_client *client, fuse_req_t request,
               const struct fy_node *folder, struct fy_node *node)
{
    if (request) {
        struct fy_later later = {.run = entry_now, .request = request};
        later.info.fh = fy_node_number(folder);
        fy_when_quiet(client, node, &later);
    }
}

void
fy_reply_absent(struct fy_client *client, fuse_req_t request,
                const struct fy_node *folder, bool certain)
{
    struct fuse_entry_param entry = {0};
    if (request) {
        entry.entry_timeout = certain ? name_seconds(client, folder) : 0;
        fuse_reply_entry(request, &entry);
    }
}

void
fy_reply_size(struct fy_client *client, fuse_req_t request,
              const struct fy_node *node, uint64_t size)
{
    struct stat stat;
    fill_stat(client, node, &stat);
    stat.st_size = (off_t)size;
    fuse_reply_attr(request, &stat, 0);
}

void
fy_reply_attr(struct fy_client *client, fuse_req_t request,
              const struct fy_node *node)
{
    struct stat stat;
    if (request) {
        fill_stat(client, node, &stat);
        fuse_reply_attr(request, &stat, attr_seconds(client, node));
    }
}
