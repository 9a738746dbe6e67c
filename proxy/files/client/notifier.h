/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notifier: the thread that tells the kernel of changes and fills its caches. The
 * kernel may make it wait for a folder or page that a request holds, which only thread T1
 * can answer: so T1 never waits for the notifier. Notices are executed in their order.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_NOTIFIER_H
#define FERRY_PROXY_FILES_CLIENT_NOTIFIER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct fuse_session;

enum fy_notice_kind {
    FY_NOTICE_ATTRIBUTES, /* of a node: to be asked again */
    FY_NOTICE_CONTENTS,   /* of a node, and its attributes */
    FY_NOTICE_NAME,       /* of a folder: to be looked up again */
    FY_NOTICE_EXPIRE,     /* the same, and its file stays as it is */
    FY_NOTICE_DELETED,    /* a name of a folder led to `child' and is gone */
    FY_NOTICE_STORE,      /* bytes of a node */
    FY_NOTICE_MARK,       /* nothing: `done' alone */
};

struct fy_notice {
    struct fy_notice *next;
    enum fy_notice_kind kind;
    bool cancelled; /* of a STORE: not to be executed */
    uint64_t node, child, offset;
    /* Of ATTRIBUTES, CONTENTS: the folder where `bytes' is a name of the node; 0: none. */
    uint64_t folder;
    /* T1, once it was executed or cancelled; may be NULL. `stored': a STORE succeeded. */
    void (*done)(void *owner, struct fy_notice *notice, bool stored);
    void *owner;
    size_t n;     /* of a name or bytes */
    char bytes[]; /* a name has a NUL */
};

struct fy_notifier {
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* guards the next fields */
    pthread_cond_t wanted;
    struct fy_notice *first, **end;     /* not begun */
    struct fy_notice *done, **done_end; /* for T1 */
    struct fy_notice *busy;             /* being executed */
    bool stops, ended;
    struct fuse_session *fuse;
    void (*ring)(void *owner); /* the notifier: `done' holds something */
    void *owner;
};

/* Starts the thread, with all signals blocked. FY_ERR_IO. */
int fy_notifier_start(struct fy_notifier *notifier,
                      struct fuse_session *fuse) FY_MUST_CHECK;
/* Asks it to end after the notice that is being executed. T1 goes on answering requests,
 * which that notice may need, until fy_notifier_ended(). */
void fy_notifier_stop(struct fy_notifier *notifier);
bool fy_notifier_ended(struct fy_notifier *notifier);
/* Waits for its end. Notices that are left are dropped; those with `done' are told. */
void fy_notifier_close(struct fy_notifier *notifier);

/* A notice with room for n bytes, which are copied unless NULL; NULL: no memory. */
struct fy_notice *fy_notice_new(enum fy_notice_kind kind, uint64_t node,
                                const void *bytes, size_t n);
/* Takes the notice. T1. */
void fy_notifier_add(struct fy_notifier *notifier, struct fy_notice *notice);
/* Calls the callbacks of finished notices. Thread T1, after `ring'. */
void fy_notifier_collect(struct fy_notifier *notifier);
/* T1: STOREs of the node are not executed. True: one is being executed just now. */
bool fy_notifier_cancel(struct fy_notifier *notifier, uint64_t node);

#endif
