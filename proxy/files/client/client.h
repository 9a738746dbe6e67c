/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the client: the state of a mount, and the requests to the server. All state is
 * of thread T1, which runs the loop; the notifier has what notifier.h says.
 *
 * Words: a *call* is a request to the server until it is answered; *told* are attributes
 * of a file that the server has sent; a folder is *watched* when the server tells of its
 * changes.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_CLIENT_H
#define FERRY_PROXY_FILES_CLIENT_CLIENT_H

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include "proxy/files/client/mount.h"
#include "proxy/files/client/notifier.h"
#include "proxy/files/client/stream.h"
#include "proxy/files/client/tree.h"

struct fy_client;
struct fy_reader;

struct fy_call {
    uint64_t id;                           /* 0: of a message without answer */
    struct fy_call *next, *before, *chain; /* all in order; of one hash */
    /* The kernel's request; NULL: no caller waits (any more). */
    fuse_req_t request;
    /* The last answer, or an error (status below 0). With FY_FILES_MORE in its flags:
     * others follow. `asked' is the request as it was sent; its texts and the answer's
     * are borrowed for the call. */
    void (*answered)(struct fy_client *client, struct fy_call *call,
                     const struct fy_files_message *asked,
                     const struct fy_files_message *answer);
    struct fy_node *node, *other; /* held until it was answered; may be NULL */
    void *context;                /* of the owner of `answered' */
    struct fy_files_out frame;
    uint32_t version; /* of the node's contents when it was asked */
    uint32_t tries;   /* asked again, as names moved under it */
    uint64_t stamp;   /* of the client when it was asked */
    /* Another process serves now than the one it was sent to: that one may have done it. */
    bool doubtful;
    bool sent; /* at least in part: the server may have done it */
    /* A write behind which the next one may be put: not sent while it is the last call. */
    bool grows;
    bool interrupted;
};

/* A request of the kernel that waits for something else than an answer. It ends when its
 * thread is killed: `request' is NULL then. */
struct fy_caller {
    fuse_req_t request;
    struct fy_caller *next, **link;
    bool interrupted;
};

enum {
    FY_CALL_CHAINS = 4096,
};

struct fy_calls {
    struct fy_call *first, *last; /* unanswered or unsent, in order */
    struct fy_call *unsent;       /* the first that was not sent in full */
    size_t unsent_at;             /* bytes of it that were sent */
    struct fy_call *chains[FY_CALL_CHAINS];
    struct fy_timer poll; /* of interrupted calls, and acknowledgement */
    uint64_t next_id, acked;
    /* Answers to changing requests: all, and those before this connection. */
    uint64_t changes, changes_before;
    struct fy_caller *callers;
    unsigned open;    /* calls with an answer to come */
    unsigned unacked; /* answers since the last ACK */
    bool ready;       /* the server has answered HELLO */
    bool failing;     /* new calls fail (the mount ends, or soft) */
    uint64_t hello_id;
    char token[FY_FILES_TOKEN_BYTES];
    size_t token_bytes;
    char *in; /* received, not yet decoded */
    size_t in_used, in_capacity;
};

struct fy_counts {
    uint64_t requests[FY_FILES_TYPES];
    uint64_t waited; /* answers for which the kernel waited */
    uint64_t notices, lost;
    uint64_t pushed_files, pushed_bytes, used_files, used_bytes;
    uint64_t named_files; /* fetched because a command was given their names */
    uint64_t trees, breaks, errors;
    uint64_t local; /* requests of the kernel that were answered here */
};

/* Changes that callers were told of before the storage has them. */
struct fy_pending {
    uint64_t bytes;   /* of writes that were answered early */
    uint32_t makes;   /* of files that are open already (early.c) */
    uint32_t early;   /* such files, until they are closed */
    uint32_t untold;  /* with a failure that no program was told */
    uint32_t renames; /* on their way */
    uint32_t files;   /* with such writes */
    int failed; /* errno of such a write that no fsync or close has told */
    struct fy_files_record *record; /* the same for later; NULL: none is kept */
    char record_path[PATH_MAX];
};

/* Numbers under which the server holds files (fy_node.kept). */
struct fy_numbers {
    uint64_t last;                 /* also of open files */
    struct fy_files_out forgotten; /* for a FORGET */
    struct fy_files_out opened,
        before;            /* nodes for a HOLD, if they stay open */
    struct fy_timer timer; /* of the next HOLD */
    unsigned
        asked; /* HOLDs without an answer: until then nothing is forgotten */
};

/* The last answer of statfs. */
struct fy_statfs {
    uint64_t node; /* number; 0: nothing is known */
    uint64_t told_ns;
    uint64_t seen; /* changes by this mount and notices, when it was asked */
    struct statvfs about;
};

enum {
    FY_NOTICED_ROWS = 256,
};

/* The latest notices that gave names to other files: told.c. */
struct fy_noticed {
    uint64_t n; /* of all */
    struct fy_noticed_row {
        uint64_t folder; /* number */
        uint64_t stamp;  /* the client's then */
        uint64_t ino;    /* 0: the name is gone */
        uint64_t hash;   /* of the name */
    } rows[FY_NOTICED_ROWS];
};

/* Users here and there. */
struct fy_owners {
    bool numbers;                  /* the same on both sides */
    uint32_t uid, gid;             /* of the user who mounts */
    uint32_t there_uid, there_gid; /* of the proxy's user */
};

/* Events of the mount, for the files that react to them: mount.c sets it. */
struct fy_client_events {
    /* The server has answered HELLO for the first time. */
    void (*greeted)(struct fy_client *client,
                    const struct fy_files_message *hello);
    /* CHANGED or LOST came. */
    void (*noticed)(struct fy_client *client,
                    const struct fy_files_message *message);
    /* Another process serves from now on: it knows no watch and holds no lock. */
    void (*replaced)(struct fy_client *client);
    /* Contents of the node changed locally or at the storage: bytes fetched before are
     * old. */
    void (*dropped)(struct fy_client *client, struct fy_node *node);
    /* A listing has ended, with or without an error. */
    void (*listed)(struct fy_client *client);
};

struct fy_client {
    const struct fy_files_mount_options *options;
    const struct fy_client_events *events;
    struct fy_place place;
    struct fy_loop loop;
    struct fuse_session *fuse;
    struct fy_watch device; /* /dev/fuse */
    struct fuse_buf buffer; /* of a request */
    struct fy_tree tree;
    struct fy_stream stream;
    struct fy_calls calls;
    struct fy_notifier notifier;
    struct fy_owners owners;
    struct fy_counts counts;
    struct fy_pending pending;
    struct fy_control *control;
    struct fy_ahead *ahead; /* ahead.c: requests made before they are needed */
    struct fy_foreseen
        *foreseen;         /* foreseen.c: names that commands were given */
    struct fy_buffer *why; /* of fy_files_mount() */
    int status;            /* of fy_files_mount() */
    bool mounted, ends;
    bool detached;          /* no folder of this machine shows it any more */
    uint64_t shadow_bytes;  /* of all copies of shadow.c */
    uint32_t opens;         /* files and folders that are open here */
    struct fy_watch mounts; /* /proc/self/mountinfo */
    struct fy_timer soft;   /* -o soft */
    struct fy_timer
        gone;           /* after `detached', the kernel's own word is awaited */
    uint64_t broken_ns; /* since when the link is broken; 0: it is not */
    /* Counts changes: an answer asked for before one may be older. */
    uint64_t stamp;
    struct fy_noticed noticed;
    struct fy_numbers numbers;
    struct fy_statfs room;
    char paths[2][FY_FILES_PATH_BYTES];
};

/* ---- calls.c --------------------------------------------------------------------------- */

/*
 * Asks: fills in node and other of the message from the call's nodes, takes a copy of
 * *call, and holds its nodes. A call that cannot be asked is answered at once, by an
 * error.
 */
void fy_ask(struct fy_client *client, const struct fy_call *call,
            struct fy_files_message *message);
/*
 * Appends to the last call, a write of the node that grows, if it ends at that offset.
 * False: it is to be asked.
 */
bool fy_calls_join(struct fy_client *client, const struct fy_node *node,
                   uint64_t offset, const void *bytes, size_t n);
/* The last call grows no longer. */
void fy_calls_push(struct fy_client *client);
/* A message without answer. */
void fy_tell(struct fy_client *client, struct fy_files_message *message);
/* The stream was opened, has brought bytes, has room. Both sides of fy_stream_events. */
void fy_calls_opened(struct fy_client *client);
void fy_calls_take(struct fy_client *client, const void *bytes, size_t n);
void fy_calls_send(struct fy_client *client);
/* The stream broke: unanswered calls are sent again once it is back. */
void fy_calls_broken(struct fy_client *client);
/* Every open call ends with the error, and new ones do (`failing'). */
void fy_calls_fail(struct fy_client *client, int status, bool failing);
void fy_calls_close(struct fy_client *client);

/* Before the first of them. */
void fy_calls_start(struct fy_client *client);

/* ---- callers.c -------------------------------------------------------------------------- */

/* The caller, at its final place, waits from now on; it waits no longer (NULL: it has
 * ended, and needs no reply). */
void fy_caller_add(struct fy_client *client, struct fy_caller *caller,
                   fuse_req_t request);
fuse_req_t fy_caller_take(struct fy_caller *caller);
/* Answers the request with the error, or 0; does nothing without one. */
void fy_reply_status(fuse_req_t request, int status);
/* The handler of an interrupted request whose data is a call. */
void fy_call_interrupted(fuse_req_t request, void *data);
/* Some wait as if interrupted: their threads may be ending, when the kernel tells no
 * signal. */
void fy_callers_watch(struct fy_client *client);
/* A timer's: looks at those that were interrupted. The owner is the client. */
void fy_callers_poll(void *owner);

/* ---- ahead.c, reader.c ------------------------------------------------------------------- */

struct fy_file;
struct fy_later;

/* The kernel knows the entries of the folder now: contents that came for them go to it. */
void fy_ahead_shown(struct fy_client *client, struct fy_node *folder);
/* A regular file is opened or read: it may be one of a row of small ones. */
void fy_ahead_opened(struct fy_client *client, struct fy_node *node);
/* A read that needs no request of its own: it was answered, or waits for contents that
 * were asked ahead. */
bool fy_ahead_read(struct fy_client *client, struct fy_node *node,
                   const struct fy_later *later);
/* Contents changed locally or at the storage: bytes fetched before are dropped. */
void fy_ahead_drop(struct fy_client *client, struct fy_node *node);
/* Frees the memory of a file that goes; null: nothing. */
void fy_ahead_freed(struct fy_client *client, struct fy_file *file);
/* Keeps all bytes of a small file that was written locally for the next reader. */
void fy_ahead_keep(struct fy_client *client, struct fy_node *node,
                   struct fy_files_bytes bytes);
/* A command begins: more is fetched for it where files fetched for earlier ones were used. */
void fy_ahead_command(struct fy_client *client);
/* Fetches the small ones of the files that `next' returns, until that is NULL. True: the
 * window of commands is full, there may be more. */
bool fy_ahead_named(struct fy_client *client, void *context,
                    struct fy_node *(*next)(struct fy_client *client,
                                            void *context));
void fy_ahead_close(struct fy_client *client);

/* The same for large files that are read in order. */
bool fy_reader_read(struct fy_client *client, struct fy_node *node,
                    const struct fy_later *later);

/* ---- changes.c --------------------------------------------------------------------------- */

/* CHANGED or LOST came. */
void fy_change_came(struct fy_client *client,
                    const struct fy_files_message *message);
/* The folder is watched no longer: the kernel asks again for all names and their files. */
void fy_change_folder_lost(struct fy_client *client, struct fy_node *folder);
/* The server has lost all its watched folders. */
void fy_change_all_lost(struct fy_client *client);
/* Folders that no notice covers may have changed: they are asked for again. */
void fy_change_unwatched_lost(struct fy_client *client);

#endif
