/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of files: opened, read, written, synced, closed. A write is answered when it
 * is queued, as long as not too much waits; flush (close) and fsync wait for the answers
 * and report. A read waits for the writes of its file.
 */
#include "config.h"

#include "proxy/files/client/operations.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/files/client/contents.h"
#include "proxy/files/client/file.h"
#include "proxy/files/client/holds.h"
#include "proxy/files/client/locks.h"
#include "proxy/files/client/shadow.h"
#include "proxy/files/record.h"

enum {
    FILE_BYTES_MAX = 64 << 20, /* written ahead of the answers, of a file */
    ALL_BYTES_MAX = 256 << 20,
};

/* The kernel's regular file in use; NULL: the request was answered. */
static struct fy_node *
file_of(struct fy_client *client, fuse_req_t request, fuse_ino_t number)
{
    struct fy_node *node = fy_told_node(client, request, number);
    if (node && (!S_ISREG(node->attr.mode) || !fy_file_of(node))) {
        fuse_reply_err(request, S_ISREG(node->attr.mode) ? ENOMEM : EINVAL);
        return NULL;
    }
    return node;
}

/* ---- open ---------------------------------------------------------------------------------- */

static void
reply_open(struct fy_client *client, struct fy_node *node,
           struct fy_later *later)
{
    struct fy_file *file = fy_file_of(node);
    struct fuse_file_info info = later->info;
    bool writes = (info.flags & O_ACCMODE) != O_RDONLY;
    if (!later->request) {
        return;
    }
    if (!file) {
        fuse_reply_err(later->request, ENOMEM);
        return;
    }
    fy_ahead_opened(client, node);
    info.keep_cache = 1;
    info.fh = ++client->numbers.last;
    file->opens++;
    client->opens++;
    file->writers += writes;
    if (fuse_reply_open(later->request, &info) != 0) {
        client->opens--;
        file->opens--;
        file->writers -= writes;
        fy_file_settle(client, node);
    } else {
        fy_hold_begin(client, node);
    }
}

static void
open_looked(struct fy_client *client, struct fy_call *call,
            const struct fy_files_message *asked,
            const struct fy_files_message *answer)
{
    struct fy_later *later = call->context;
    (void)asked;
    later->request = call->request;
    if (answer->status != 0) {
        fy_reply_status(call->request, answer->status);
    } else {
        /* Differences are told to the kernel. */
        (void)fy_told_attr(client, call->node, &answer->attr, FY_TOLD_UNASKED,
                           call->stamp);
        reply_open(client, call->node, later);
    }
    free(later);
}

/* With -o strict, and where no notice comes: attributes are asked before the open. */
static void
open_strictly(struct fy_client *client, struct fy_node *node,
              const struct fy_later *later)
{
    struct fy_later *copy = malloc(sizeof *copy);
    if (!copy) {
        fuse_reply_err(later->request, ENOMEM);
        return;
    }
    *copy = *later;
    fy_ask(client,
           &(struct fy_call){.request = later->request,
                             .answered = open_looked,
                             .node = node,
                             .context = copy},
           &(struct fy_files_message){.type = FY_FILES_GETATTR});
}

static void
open_file(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_later later = {
        .run = reply_open, .request = request, .info = *info};
    if (client->options->read_only && !client->options->strict) {
        fuse_reply_err(request, ENOSYS); /* the kernel opens by itself */
        return;
    }
    struct fy_node *node = file_of(client, request, number);
    if (!node) {
        return;
    }
    bool writes = (info->flags & O_ACCMODE) != O_RDONLY;
    if (writes && node->file->stores > 0 &&
        fy_notifier_cancel(&client->notifier, number)) {
        (void)fy_file_wait(client, &node->file->stored, &later);
    } else if (client->options->strict || !fy_told_is_fresh(client, node)) {
        open_strictly(client, node, &later);
    } else {
        reply_open(client, node, &later);
    }
}

static void
close_file(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = file_of(client, request, number);
    if (!node) {
        return;
    }
    struct fy_file *file = node->file;
    struct fy_files_bytes whole;
    fy_locks_closed(client, node, info);
    file->opens -= file->opens > 0;
    client->opens--;
    file->writers -= file->writers > 0 && (info->flags & O_ACCMODE) != O_RDONLY;
    fuse_reply_err(request, 0);
    fy_hold_end(client, node);
    if (fy_shadow_whole(node, &whole)) {
        fy_ahead_keep(client, node, whole);
        fy_shadow_drop(client, file);
    }
    fy_file_settle(client, node);
}

/* ---- read ---------------------------------------------------------------------------------- */

static void
read_answered(struct fy_client *client, struct fy_call *call,
              const struct fy_files_message *asked,
              const struct fy_files_message *answer)
{
    if (answer->status != 0 || answer->data.n > asked->length) {
        fy_reply_status(call->request, answer->status ? answer->status : -EIO);
        return;
    }
    (void)fy_told_attr(client, call->node, &answer->attr, FY_TOLD_UNASKED,
                       call->stamp);
    if (call->request) {
        fuse_reply_buf(call->request, answer->data.at, answer->data.n);
    }
}

static void
read_now(struct fy_client *client, struct fy_node *node, struct fy_later *later)
{
    if (S_ISREG(node->attr.mode) && (fy_ahead_read(client, node, later) ||
                                     fy_reader_read(client, node, later))) {
        return;
    }
    fy_ask(client,
           &(struct fy_call){.request = later->request,
                             .answered = read_answered,
                             .node = node},
           &(struct fy_files_message){.type = FY_FILES_READ,
                                      .offset = later->offset,
                                      .length = later->length});
}

static void
read_file(fuse_req_t request, fuse_ino_t number, size_t bytes, off_t offset,
          struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = fy_told_node(client, request, number);
    struct fy_files_bytes own;
    (void)info;
    if (node && fy_shadow_counts(node, &own)) {
        size_t at = (uint64_t)offset < own.n ? (size_t)offset : own.n;
        client->counts.local++;
        fuse_reply_buf(request, own.at + at,
                       own.n - at < bytes ? own.n - at : bytes);
    } else if (node) {
        bytes = bytes < FY_FILES_DATA_BYTES ? bytes : FY_FILES_DATA_BYTES;
        fy_when_quiet(client, node,
                      &(struct fy_later){.run = read_now,
                                         .request = request,
                                         .offset = (uint64_t)offset,
                                         .length = bytes});
    }
}

/* ---- write ----------------------------------------------------------------------------------- */

static void
attr_answered(struct fy_client *client, struct fy_call *call,
              const struct fy_files_message *asked,
              const struct fy_files_message *answer)
{
    (void)asked;
    if (answer->status == 0) {
        (void)fy_told_attr(client, call->node, &answer->attr, FY_TOLD_UNASKED,
                           call->stamp);
    }
}

/* So many bytes more (or less) are answered early and on their way. */
static void
count_pending(struct fy_client *client, struct fy_file *file, size_t n,
              bool more)
{
    bool before = file->pending_bytes > 0;
    file->pending_bytes += more ? n : 0 - n;
    client->pending.bytes += more ? n : 0 - n;
    bool after = file->pending_bytes > 0;
    client->pending.files += after;
    client->pending.files -= before;
    if (client->pending.record) {
        client->pending.record->bytes = client->pending.bytes;
        client->pending.record->files = client->pending.files;
    }
}

/* No write is on its way any more. */
static void
quiet(struct fy_client *client, struct fy_node *node)
{
    struct fy_file *file = node->file;
    fy_hold_end(client, node);
    if (file->others) {
        file->others = false;
        fy_told_lost(client, node);
    }
    if (file->doubt) {
        /* A notice came meanwhile: perhaps of another's write. */
        file->doubt = false;
        fy_shadow_drop(client, file);
        fy_ask(client,
               &(struct fy_call){.answered = attr_answered, .node = node},
               &(struct fy_files_message){.type = FY_FILES_GETATTR});
    }
    fy_file_run(client, node, &file->quiet);
}

void
fy_contents_written(struct fy_client *client, struct fy_node *node)
{
    struct fy_file *file = node->file;
    file->pending--;
    if (file->pending == 0) {
        quiet(client, node);
        fy_file_settle(client, node);
    } else if (file->pending == 1) {
        fy_calls_push(client); /* it may be the one that has grown until now */
    }
}

static void
write_answered(struct fy_client *client, struct fy_call *call,
               const struct fy_files_message *asked,
               const struct fy_files_message *answer)
{
    struct fy_node *node = call->node;
    struct fy_file *file = node->file;
    bool early = call->context != NULL;
    if (early) {
        count_pending(client, file, asked->data.n, false);
    }
    if (answer->status == 0) {
        if (fy_told_written(client, node, answer, call->stamp)) {
            fy_shadow_drop(client, file);
            fy_forget_node(client, node, FY_NOTICE_CONTENTS);
        }
    } else {
        fy_shadow_drop(client, file);
    }
    if (answer->status != 0 && early) {
        fy_file_failed(client, file, -answer->status);
        fy_forget_node(client, node, FY_NOTICE_CONTENTS);
    }
    if (!early && answer->status != 0) {
        fy_reply_status(call->request, answer->status);
    } else if (!early && call->request) {
        fuse_reply_write(call->request, asked->data.n);
    }
    fy_contents_written(client, node);
}

static void
write_file(fuse_req_t request, fuse_ino_t number, const char *bytes, size_t n,
           off_t offset, struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = file_of(client, request, number);
    (void)info;
    if (!node) {
        return;
    }
    struct fy_file *file = node->file;
    bool early = file->pending_bytes + n <= FILE_BYTES_MAX &&
                 client->pending.bytes + n <= ALL_BYTES_MAX && file->error == 0;
    node->version++;
    fy_ahead_drop(client, node);
    fy_shadow_write(client, node, (uint64_t)offset, bytes, n);
    if (early) {
        count_pending(client, file, n, true);
        fuse_reply_write(request, n);
        if (fy_calls_join(client, node, (uint64_t)offset, bytes, n)) {
            return;
        }
    }
    file->pending++;
    fy_ask(client,
           &(struct fy_call){.request = early ? NULL : request,
                             .answered = write_answered,
                             .node = node,
                             .context = early ? client : NULL,
                             .grows = early && file->pending > 1},
           &(struct fy_files_message){.type = FY_FILES_WRITE,
                                      .offset = (uint64_t)offset,
                                      .data = {bytes, n}});
}

static void
flush_now(struct fy_client *client, struct fy_node *node,
          struct fy_later *later)
{
    int error = fy_file_failure(client, node->file);
    bool locks = fy_locks_flush(client, node, error ? NULL : later->request,
                                &later->info);
    if (error || !locks) {
        fy_reply_status(later->request, -error);
    }
}

static void
flush_file(fuse_req_t request, fuse_ino_t number, struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = file_of(client, request, number);
    if (node) {
        struct fy_later later = {.run = flush_now,
                                 .request = request,
                                 .info = *info,
                                 .always = true};
        if (client->options->async && !node->file->lockers) {
            flush_now(client, node, &later);
        } else {
            fy_when_quiet(client, node, &later);
        }
    }
}

static void
sync_answered(struct fy_client *client, struct fy_call *call,
              const struct fy_files_message *asked,
              const struct fy_files_message *answer)
{
    struct fy_node *node = call->node;
    (void)asked;
    int error = fy_file_failure(client, node->file);
    if (answer->status == 0) {
        (void)fy_told_attr(client, node, &answer->attr, FY_TOLD_OWN,
                           call->stamp);
    }
    fy_reply_status(call->request, error ? -error : answer->status);
}

static void
sync_file(fuse_req_t request, fuse_ino_t number, int data,
          struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = file_of(client, request, number);
    (void)info;
    if (node) {
        fy_ask(client,
               &(struct fy_call){
                   .request = request, .answered = sync_answered, .node = node},
               &(struct fy_files_message){.type = FY_FILES_FSYNC,
                                          .flags =
                                              data ? FY_FILES_DATA_ONLY : 0u});
    }
}

/* ---- space, holes, copies ------------------------------------------------------------------------ */

static void
allocated(struct fy_client *client, struct fy_call *call,
          const struct fy_files_message *asked,
          const struct fy_files_message *answer)
{
    (void)asked;
    if (answer->status == 0) {
        (void)fy_told_attr(client, call->node, &answer->attr, FY_TOLD_WRITTEN,
                           call->stamp);
        fy_told_lost(client, call->node);
    }
    fy_reply_status(call->request, answer->status);
}

static void
allocate_now(struct fy_client *client, struct fy_node *node,
             struct fy_later *later)
{
    node->version++;
    fy_ahead_drop(client, node);
    fy_shadow_drop(client, node->file);
    fy_ask(client,
           &(struct fy_call){
               .request = later->request, .answered = allocated, .node = node},
           &(struct fy_files_message){.type = FY_FILES_ALLOCATE,
                                      .flags = (uint32_t)later->flags,
                                      .offset = later->offset,
                                      .length = later->length});
}

static void
allocate(fuse_req_t request, fuse_ino_t number, int mode, off_t offset,
         off_t length, struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = file_of(client, request, number);
    (void)info;
    if (node) {
        fy_when_quiet(client, node,
                      &(struct fy_later){.run = allocate_now,
                                         .request = request,
                                         .flags = mode,
                                         .offset = (uint64_t)offset,
                                         .length = (uint64_t)length});
    }
}

static void
sought(struct fy_client *client, struct fy_call *call,
       const struct fy_files_message *asked,
       const struct fy_files_message *answer)
{
    (void)client;
    (void)asked;
    bool good = answer->status == 0 && answer->offset <= INT64_MAX;
    if (!good) {
        fy_reply_status(call->request, answer->status ? answer->status : -EIO);
    } else if (call->request) {
        fuse_reply_lseek(call->request, (off_t)answer->offset);
    }
}

static void
seek_now(struct fy_client *client, struct fy_node *node, struct fy_later *later)
{
    fy_ask(client,
           &(struct fy_call){
               .request = later->request, .answered = sought, .node = node},
           &(struct fy_files_message){.type = FY_FILES_SEEK,
                                      .flags = (uint32_t)later->flags,
                                      .offset = later->offset});
}

static void
seek(fuse_req_t request, fuse_ino_t number, off_t offset, int whence,
     struct fuse_file_info *info)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = file_of(client, request, number);
    (void)info;
    if (node && offset < 0) {
        fuse_reply_err(request, ENXIO);
    } else if (node) {
        fy_when_quiet(client, node,
                      &(struct fy_later){.run = seek_now,
                                         .request = request,
                                         .flags = whence,
                                         .offset = (uint64_t)offset});
    }
}

static void
copied(struct fy_client *client, struct fy_call *call,
       const struct fy_files_message *asked,
       const struct fy_files_message *answer)
{
    if (answer->status != 0 || answer->length > asked->length) {
        fy_reply_status(call->request, answer->status ? answer->status : -EIO);
        return;
    }
    (void)fy_told_attr(client, call->other, &answer->attr, FY_TOLD_WRITTEN,
                       call->stamp);
    fy_told_lost(client, call->other);
    if (call->request) {
        fuse_reply_write(call->request, answer->length);
    }
}

/* `later' waited for the writes of the file that is read; info.fh has the other. */
static void
copy_when_read(struct fy_client *client, struct fy_node *node,
               struct fy_later *later)
{
    struct fy_node *other = fy_tree_node(&client->tree, later->info.fh);
    if (!other) {
        fuse_reply_err(later->request, ESTALE);
        return;
    }
    other->version++;
    fy_ahead_drop(client, other);
    fy_shadow_drop(client, other->file);
    fy_ask(client,
           &(struct fy_call){.request = later->request,
                             .answered = copied,
                             .node = node,
                             .other = other},
           &(struct fy_files_message){.type = FY_FILES_COPY,
                                      .offset = later->offset,
                                      .other_offset =
                                          (uint64_t)later->stat.st_size,
                                      .length = later->length});
}

/* `later' waited for the writes of the file that is written; info.fh has the other. */
static void
copy_when_written(struct fy_client *client, struct fy_node *node,
                  struct fy_later *later)
{
    struct fy_node *source = fy_tree_node(&client->tree, later->info.fh);
    if (!source) {
        fuse_reply_err(later->request, ESTALE);
        return;
    }
    struct fy_later next = *later;
    next.run = copy_when_read;
    next.info.fh = fy_node_number(node);
    fy_when_quiet(client, source, &next);
}

static void
copy(fuse_req_t request, fuse_ino_t number, off_t offset,
     struct fuse_file_info *info, fuse_ino_t other, off_t other_offset,
     struct fuse_file_info *other_info, size_t n, int flags)
{
    struct fy_client *client = fy_client_of(request);
    struct fy_node *node = file_of(client, request, number);
    (void)info;
    (void)other_info;
    (void)flags;
    struct fy_node *target = node ? file_of(client, request, other) : NULL;
    if (target) {
        struct fy_later later = {.run = copy_when_written,
                                 .request = request,
                                 .offset = (uint64_t)offset,
                                 .length = n};
        later.info.fh = number;
        later.stat.st_size = other_offset;
        fy_when_quiet(client, target, &later);
    }
}

void
fy_contents_operations(struct fuse_lowlevel_ops *rows)
{
    rows->open = open_file;
    rows->release = close_file;
    rows->read = read_file;
    rows->write = write_file;
    rows->flush = flush_file;
    rows->fsync = sync_file;
    rows->fallocate = allocate;
    rows->lseek = seek;
    rows->copy_file_range = copy;
}
