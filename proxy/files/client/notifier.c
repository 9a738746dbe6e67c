/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of notices; see the header.
 */
#include "config.h"

#define FUSE_USE_VERSION 312
#include "proxy/files/client/notifier.h"

#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void
expire(struct fuse_session *fuse, uint64_t folder,
       const struct fy_notice *notice)
{
    /* Before Linux 6.2 it has to be forgotten. */
    if (fuse_lowlevel_notify_expire_entry(fuse, folder, notice->bytes,
                                          notice->n,
                                          FUSE_LL_EXPIRE_ONLY) == -ENOSYS) {
        (void)fuse_lowlevel_notify_inval_entry(fuse, folder, notice->bytes,
                                               notice->n);
    }
}

/*
 * Tells the kernel to forget a node's attributes, and its pages from `from' (-1: none).
 * The kernel makes the inode in the program that looked it up, when that program runs
 * again; a notice before that finds no inode (ENOENT). The program holds its folder's lock
 * until then, and the notice of a name waits for the lock: afterwards the inode is there.
 */
static void
forget(struct fuse_session *fuse, const struct fy_notice *notice, off_t from)
{
    if (fuse_lowlevel_notify_inval_inode(fuse, notice->node, from, 0) ==
            -ENOENT &&
        notice->folder != 0) {
        expire(fuse, notice->folder, notice);
        (void)fuse_lowlevel_notify_inval_inode(fuse, notice->node, from, 0);
    }
}

/* True: bytes were stored. */
static bool
execute(struct fuse_session *fuse, struct fy_notice *notice)
{
    struct fuse_bufvec vector = FUSE_BUFVEC_INIT(notice->n);
    switch (notice->kind) {
    case FY_NOTICE_ATTRIBUTES:
        forget(fuse, notice, -1);
        return false;
    case FY_NOTICE_CONTENTS:
        forget(fuse, notice, 0);
        return false;
    case FY_NOTICE_NAME:
        (void)fuse_lowlevel_notify_inval_entry(fuse, notice->node,
                                               notice->bytes, notice->n);
        return false;
    case FY_NOTICE_EXPIRE:
        expire(fuse, notice->node, notice);
        return false;
    case FY_NOTICE_DELETED:
        (void)fuse_lowlevel_notify_delete(fuse, notice->node, notice->child,
                                          notice->bytes, notice->n);
        return false;
    case FY_NOTICE_STORE:
        vector.buf[0].mem = notice->bytes;
        return fuse_lowlevel_notify_store(
                   fuse, notice->node, (off_t)notice->offset, &vector, 0) == 0;
    default:
        return false;
    }
}

static void *
run(void *argument)
{
    struct fy_notifier *notifier = argument;
    (void)pthread_mutex_lock(&notifier->lock);
    while (!notifier->stops) {
        struct fy_notice *notice = notifier->first;
        if (!notice) {
            (void)pthread_cond_wait(&notifier->wanted, &notifier->lock);
            continue;
        }
        notifier->first = notice->next;
        notifier->end = notifier->first ? notifier->end : &notifier->first;
        notifier->busy = notice;
        bool cancelled = notice->cancelled;
        (void)pthread_mutex_unlock(&notifier->lock);
        bool stored = !cancelled && execute(notifier->fuse, notice);
        (void)pthread_mutex_lock(&notifier->lock);
        notifier->busy = NULL;
        if (!notice->done) {
            free(notice);
            continue;
        }
        notice->next = NULL;
        notice->cancelled = !stored;
        *notifier->done_end = notice;
        notifier->done_end = &notice->next;
        notifier->ring(notifier->owner);
    }
    notifier->ended = true;
    notifier->ring(notifier->owner);
    (void)pthread_mutex_unlock(&notifier->lock);
    return NULL;
}

int
fy_notifier_start(struct fy_notifier *notifier, struct fuse_session *fuse)
{
    sigset_t all, before;
    notifier->fuse = fuse;
    notifier->end = &notifier->first;
    notifier->done_end = &notifier->done;
    if (pthread_mutex_init(&notifier->lock, NULL) != 0 ||
        pthread_cond_init(&notifier->wanted, NULL) != 0) {
        return FY_ERR_IO;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    notifier->runs =
        pthread_create(&notifier->thread, NULL, run, notifier) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return notifier->runs ? 0 : FY_ERR_IO;
}

void
fy_notifier_stop(struct fy_notifier *notifier)
{
    if (notifier->runs) {
        (void)pthread_mutex_lock(&notifier->lock);
        notifier->stops = true;
        (void)pthread_cond_signal(&notifier->wanted);
        (void)pthread_mutex_unlock(&notifier->lock);
    }
}

bool
fy_notifier_ended(struct fy_notifier *notifier)
{
    (void)pthread_mutex_lock(&notifier->lock);
    bool ended = notifier->ended;
    (void)pthread_mutex_unlock(&notifier->lock);
    return ended || !notifier->runs;
}

void
fy_notifier_close(struct fy_notifier *notifier)
{
    if (!notifier->runs) {
        return;
    }
    fy_notifier_stop(notifier);
    (void)pthread_join(notifier->thread, NULL);
    notifier->runs = false;
    fy_notifier_collect(notifier);
    for (struct fy_notice *notice = notifier->first, *next; notice;
         notice = next) {
        next = notice->next;
        if (notice->done) {
            notice->done(notice->owner, notice, false);
        }
        free(notice);
    }
    notifier->first = NULL;
    notifier->end = &notifier->first;
}

struct fy_notice *
fy_notice_new(enum fy_notice_kind kind, uint64_t node, const void *bytes,
              size_t n)
{
    struct fy_notice *notice = malloc(sizeof *notice + n + 1);
    if (notice) {
        memset(notice, 0, sizeof *notice);
        notice->kind = kind;
        notice->node = node;
        notice->n = n;
        if (bytes) {
            memcpy(notice->bytes, bytes, n);
        }
        notice->bytes[n] = '\0';
    }
    return notice;
}

void
fy_notifier_add(struct fy_notifier *notifier, struct fy_notice *notice)
{
    (void)pthread_mutex_lock(&notifier->lock);
    notice->next = NULL;
    *notifier->end = notice;
    notifier->end = &notice->next;
    (void)pthread_cond_signal(&notifier->wanted);
    (void)pthread_mutex_unlock(&notifier->lock);
}

void
fy_notifier_collect(struct fy_notifier *notifier)
{
    (void)pthread_mutex_lock(&notifier->lock);
    struct fy_notice *first = notifier->done;
    notifier->done = NULL;
    notifier->done_end = &notifier->done;
    (void)pthread_mutex_unlock(&notifier->lock);
    for (struct fy_notice *notice = first, *next; notice; notice = next) {
        next = notice->next;
        notice->done(notice->owner, notice, !notice->cancelled);
        free(notice);
    }
}

bool
fy_notifier_cancel(struct fy_notifier *notifier, uint64_t node)
{
    (void)pthread_mutex_lock(&notifier->lock);
    for (struct fy_notice *notice = notifier->first; notice;
         notice = notice->next) {
        notice->cancelled =
            notice->cancelled ||
            (notice->kind == FY_NOTICE_STORE && notice->node == node);
    }
    bool busy = notifier->busy && notifier->busy->kind == FY_NOTICE_STORE &&
                notifier->busy->node == node;
    (void)pthread_mutex_unlock(&notifier->lock);
    return busy;
}
