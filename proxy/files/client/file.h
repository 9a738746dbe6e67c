/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A regular file in use: open here, with writes on their way, or with contents on their
 * way to the page cache.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_FILE_H
#define FERRY_PROXY_FILES_CLIENT_FILE_H

#include <fcntl.h>

#include "proxy/files/client/client.h"

/* A request of the kernel that waits for something of the file. */
struct fy_later {
    struct fy_later *next;
    void (*run)(struct fy_client *client, struct fy_node *node,
                struct fy_later *later); /* frees nothing */
    fuse_req_t request;
    struct fy_caller caller; /* while it waits: has the request */
    uint64_t offset, length;
    struct fuse_file_info info;
    struct stat stat;  /* of setattr */
    struct flock lock; /* of locks.c */
    int flags;
    bool always; /* to be run also when no caller waits (any more) */
};

/* An owner that may hold locks of a file. */
struct fy_locker {
    struct fy_locker *next;
    uint64_t owner;
    uint64_t handle; /* of the open file by which it locked last */
    bool flock;
    bool lost; /* with the process that held them */
};

struct fy_file {
    uint32_t opens, writers; /* descriptors here; of them for writing */
    uint32_t pending;        /* writes that are not answered */
    uint32_t stores;         /* notices of the notifier */
    /* Contents that were asked ahead of a read (ahead.c): all of a small file. */
    struct fy_notice *push; /* they came; the notifier's once it is `storing' */
    uint8_t run;            /* of ahead.c, that asked for them */
    bool used;              /* the push, by a reader */
    bool fetching, storing, held; /* held: it waits here */
    uint32_t reads;               /* of reader.c, not answered */
    struct fy_later *fetched;     /* wait for them */
    uint64_t pending_bytes;
    /* It was open here before it was made (early.c), which is a write on its way, too. */
    bool early;
    uint64_t
        noticed; /* ino of the file that a notice gave its name meanwhile; 0: none */
    int error; /* of a write that was answered before; 0, or an errno */
    struct fy_locker *lockers; /* who may hold locks of it: locks.c */
    /* The pages in the cache were read since `seen', and are those of the file with
     * this ctime: locks.c. */
    bool current;
    struct fy_files_time seen;
    uint64_t seen_ns; /* when this ctime was told with a lock first */
    bool others;      /* a notice told of another's write meanwhile */
    bool doubt;       /* attributes differed while writes were on their way: */
    struct fy_files_attr doubted; /* then: those of the notice ... */
    struct fy_files_attr sure; /* ... and those before, or of an answer since */
    char *shadow; /* the copy of shadow.c; owned; NULL: there is none */
    uint64_t shadow_bytes;
    struct fy_later *quiet;   /* wait until no write is on its way */
    struct fy_later *stored;  /* wait until no store is being executed */
    struct fy_reader *reader; /* stream of reads: reader.c */
    void (*free_reader)(struct fy_reader *reader); /* set with it */
};

/* The node's file, made when it is missing; NULL: no memory. */
struct fy_file *fy_file_of(struct fy_node *node);
/* Frees the node's file when nothing needs it. */
void fy_file_settle(struct fy_client *client, struct fy_node *node);
/* Frees it in any case: waiting requests are answered with EIO. */
void fy_file_free(struct fy_file *file);

/* Puts *later (copied) in line; false: no memory, the request was answered. */
bool fy_file_wait(struct fy_client *client, struct fy_later **line,
                  const struct fy_later *later);
/* A write that was answered before has failed: the first failure is the reason of those
 * behind it. */
void fy_file_failed(struct fy_client *client, struct fy_file *file, int error);
/* error of such a write, to be told now; 0: none */
int fy_file_failure(struct fy_client *client, struct fy_file *file);
/* The same of any file; none is left to be told. */
int fy_files_failure(struct fy_client *client);
/* Whether writes of the node are on their way: its attributes are those from before. */
bool fy_file_is_busy(const struct fy_node *node);
/* Runs *later now, or once no write of the node is on its way. */
void fy_when_quiet(struct fy_client *client, struct fy_node *node,
                   struct fy_later *later);
/* Takes the line and runs it. The node is held by the caller. */
void fy_file_run(struct fy_client *client, struct fy_node *node,
                 struct fy_later **line);

#endif
