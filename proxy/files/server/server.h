/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the files process. One thread, the loop, reads frames and writes bytes that
 * the socket did not take at once. Workers carry requests out, in the order that queue.c
 * keeps. A request belongs to the loop until it is queued, then to one worker at a time.
 * No word of the client is trusted: message.h checks the form, each handler the meaning,
 * and every path is opened beneath the root without following a link.
 */
#ifndef FERRY_PROXY_FILES_SERVER_SERVER_H
#define FERRY_PROXY_FILES_SERVER_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "proxy/files/message.h"
#include "proxy/files/server/serve.h"
#include "proxy/wire/loop.h"

struct fy_files_server;
struct fy_files_request;
struct fy_files_object;
struct fy_files_lock;

/* How a request is ordered against those before and after it (queue.c). */
enum fy_files_order {
    FY_FILES_SHARED,  /* resolved together with others */
    FY_FILES_ORDERED, /* and carried out after earlier ones of the same node */
    FY_FILES_ALONE,   /* resolved and carried out while no other is resolved */
};

/* Access for which a request's node is opened before its handler runs. */
enum fy_files_access {
    FY_FILES_NONE, /* the handler resolves by itself */
    FY_FILES_PATH, /* O_PATH */
    FY_FILES_READS,
    FY_FILES_WRITES,
    FY_FILES_SYNCS, /* either */
};

enum fy_files_done {
    FY_FILES_SAID = 1,  /* the answers were said by the handler */
    FY_FILES_LATER = 2, /* fy_files_finish() follows, by another thread */
};

struct fy_files_call {
    enum fy_files_order order;
    enum fy_files_access access;
    /* 0, with the answer filled in (type, id and flags are); a negative errno; or
     * enum fy_files_done. */
    int (*run)(struct fy_files_request *request,
               struct fy_files_message *answer);
};

/* calls.c: the rows of the types up to BARRIER; the loop handles the others and HELLO. */
extern const struct fy_files_call fy_files_calls[FY_FILES_TYPES];

/* ---- queue.c -------------------------------------------------------------------- */

struct fy_files_request {
    struct fy_files_server *server;
    struct fy_files_request *next; /* in the queue, or behind one of its node */
    struct fy_files_request *active_next, **active_link;
    char *frame; /* owned: the bytes that message borrows */
    size_t frame_bytes;
    struct fy_files_message message;
    const struct fy_files_call *call;
    enum fy_files_order order;
    struct fy_files_object *object, *source; /* of node, and of COPY's */
    bool resolving;                          /* counted in the queue */
    bool turned;                             /* it has its object's turn */
    bool again;     /* it came again; guarded by the queue's lock */
    uint64_t epoch; /* of the connection that it came by */
    _Atomic bool cancelled;
    struct fy_files_lock *waiting; /* LOCK: guarded by the queue's lock */
    /* The bytes that the answer borrows; freed after it is queued. */
    struct fy_files_out scratch;
};

struct fy_files_queue {
    pthread_mutex_t lock;
    pthread_cond_t work; /* a worker may find something to do */
    pthread_cond_t turn; /* a node's turn was passed on */
    struct fy_files_request *first, **last;
    struct fy_files_request *ready,
        **ready_last;                /* had their turn: run at once */
    struct fy_files_request *active; /* all that are not answered */
    unsigned nactive, nresolving;
    size_t active_bytes;
    bool ordering; /* an ORDERED one resolves */
    bool alone;    /* an ALONE one runs */
    bool ended;
    bool stalled; /* the loop waits for room */
    unsigned nthreads;
    pthread_t threads[8];
};

int fy_files_queue_open(struct fy_files_server *server) FY_MUST_CHECK;
/* Ends the workers; waiting requests are dropped. */
void fy_files_queue_close(struct fy_files_server *server);
/* Whether one more request is taken now. */
bool fy_files_queue_has_room(struct fy_files_server *server);
/* Takes the frame. FY_ERR_NOMEM: it was freed. */
int fy_files_queue_add(struct fy_files_server *server, char *frame, size_t n,
                       const struct fy_files_message *message) FY_MUST_CHECK;
/* The answer of a request whose handler said FY_FILES_LATER, as its result is; frees it.
 * Any thread. */
void fy_files_finish(struct fy_files_request *request, int result,
                     struct fy_files_message *answer);
/* A request that is carried out alone goes on once those before it of the inode are
 * carried out. Takes the borrowed object. */
void fy_files_take_turn(struct fy_files_request *request,
                        struct fy_files_object *object);
/* The rest of the request needs no order: later requests may be resolved. */
void fy_files_resolved(struct fy_files_request *request);
/* A request that changes something came again. True: it is known, and answered once. */
bool fy_files_again(struct fy_files_server *server, uint64_t id);
/* The request of that id, if it is not answered, ends soon. Loop. */
void fy_files_cancel(struct fy_files_server *server, uint64_t id);

/* ---- answer.c ------------------------------------------------------------------- */

struct fy_files_said;

struct fy_files_sending {
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct fy_files_out out; /* from `at' on: not sent yet */
    size_t at;
    uint64_t epoch;           /* of the connection, from 1 */
    _Atomic uint64_t changes; /* answers on it to changing requests */
    bool away;                /* there is no connection: messages are dropped */
    bool blocked;             /* the loop goes on when the socket takes more */
    bool broken;              /* the process ends */
    struct fy_files_said *said, **last_said; /* linger.c */
    unsigned nsaid;
};

int fy_files_sending_open(struct fy_files_server *server) FY_MUST_CHECK;
void fy_files_sending_close(struct fy_files_server *server);
/* No producer waits any more; messages are dropped. */
void fy_files_sending_break(struct fy_files_server *server);
/* The connection is lost. Loop. */
void fy_files_sending_lose(struct fy_files_server *server);
/* server->wire is a new connection: the hello's answer is the first on it. Loop. */
void fy_files_sending_resume(struct fy_files_server *server,
                             const struct fy_files_message *hello);
/* Queues the frames and sends as much as the socket takes, if the connection is that of
 * the epoch (0: any). Waits while too much is queued. Any thread but the loop. */
void fy_files_say(struct fy_files_server *server,
                  const struct fy_files_out *frames, uint64_t epoch);
/* The same of one message; never waits. A message that cannot be encoded is answered with
 * -ENOMEM. keep: until it is acknowledged. Whether it was said. Any thread. */
bool fy_files_say_message(struct fy_files_server *server,
                          const struct fy_files_message *message,
                          uint64_t epoch, bool keep);
/* Says a kept answer again. False: there is none. Any thread. */
bool fy_files_repeat(struct fy_files_server *server, uint64_t id);
void fy_files_acknowledged(struct fy_files_server *server, uint64_t upto);
/* The socket takes more. False: it is broken. Loop. */
bool fy_files_send(struct fy_files_server *server);
/* Whether the socket is to be waited for. */
bool fy_files_send_waits(struct fy_files_server *server);

/* ---- linger.c ------------------------------------------------------------------------- */

/* A peer of this user at the private socket; -1: none. */
int fy_files_accept(struct fy_files_server *server);
/* Answers that are kept, with the lock of `sending' held. add: false: no memory, or far
 * too many. find: borrowed. free: those up to that id. */
bool fy_files_said_add(struct fy_files_sending *sending, uint64_t id,
                       const struct fy_files_out *frame);
bool fy_files_said_find(const struct fy_files_sending *sending, uint64_t id,
                        struct fy_files_out *out);
void fy_files_said_free(struct fy_files_sending *sending, uint64_t upto);

/* ---- object.c: nodes as descriptors ------------------------------------------------ */

/*
 * A file or folder that is held open: by requests that borrow it, under numbers of the
 * client's, or for a while after it was read or written. One for each inode. Guarded by
 * the table's lock; a descriptor that is there stays while the object is borrowed.
 */
struct fy_files_object {
    struct fy_files_object *next; /* of the same bucket */
    struct fy_files_object *older,
        *newer; /* of those that no request borrows */
    dev_t dev;
    ino_t ino;
    mode_t type;        /* S_IFMT */
    _Atomic int path;   /* O_PATH; -1: none, here and below */
    _Atomic int reads;  /* a descriptor that reads */
    _Atomic int writes; /* ... that writes */
    _Atomic bool
        stays; /* its mode would not let it be opened for writing again */
    unsigned refs, kept; /* borrowers; numbers */
    unsigned held;       /* of the numbers, by HOLD: they need O_PATH alone */
    bool idle;           /* among those that no request borrows */
    uint64_t idle_ns;    /* since when */
    /* Guarded by the queue's lock: a request has its turn, others wait for theirs. */
    bool taken;
    struct fy_files_request *first, **last;
};

struct fy_files_kept {
    struct fy_files_kept *next;
    uint64_t number;
    struct fy_files_object *object;
    bool held; /* by HOLD */
};

enum {
    FY_FILES_BUCKETS = 1024,
};

struct fy_files_objects {
    pthread_mutex_t lock;
    struct fy_files_object *buckets[FY_FILES_BUCKETS];
    struct fy_files_object *oldest, *newest;
    struct fy_files_kept *kept[FY_FILES_BUCKETS];
    unsigned nidle, idle_max, nkept, kept_max;
};

int fy_files_objects_open(struct fy_files_server *server) FY_MUST_CHECK;
void fy_files_objects_close(struct fy_files_server *server);
/*
 * Borrows the node; `about' as of now. -ESTALE: another file has that name, or the
 * number is not known. Any negative errno of open(2).
 */
int fy_files_borrow(struct fy_files_server *server,
                    const struct fy_files_node *node,
                    enum fy_files_access access, struct fy_files_object **out);
void fy_files_return(struct fy_files_server *server,
                     struct fy_files_object *object);
/* A file that was just made is kept at hand: fd (read and write) is taken. */
void fy_files_adopt(struct fy_files_server *server, int fd,
                    const struct stat *about);
/* A descriptor of it, whatever it is good for. */
int fy_files_fd(const struct fy_files_object *object);
/* Holds under `number' the folder's entry of that name, if it is that inode (-ESTALE).
 * Negative errno. */
int fy_files_keep(struct fy_files_server *server, uint64_t number, int folder,
                  const char *name, const struct stat *inode);
void fy_files_unkeep(struct fy_files_server *server, uint64_t number);
/* Closes descriptors that no request has borrowed for a while. Whether some are still
 * open. Loop. */
bool fy_files_objects_sweep(struct fy_files_server *server);
/* Closes the descriptors of a file that lost its last name, unless it is kept. */
void fy_files_drop(struct fy_files_server *server, const struct stat *about);

/* ---- path.c ------------------------------------------------------------------------ */

/* A descriptor of the path, no link followed, nothing outside of the root; `flags' of
 * open(2). Or a negative errno. */
int fy_files_open(struct fy_files_server *server,
                  const struct fy_files_bytes *path, int flags);
/* Reading from the descriptor leaves the access time, where this process may say so:
 * bytes read ahead were not asked for. `flags': of its open(2). Returns it. */
int fy_files_untouched(int fd, int flags);
/* The folder of a node, O_PATH, whose ino is as it says; `about' may be NULL. */
int fy_files_open_folder(struct fy_files_server *server,
                         const struct fy_files_node *node, int *out,
                         struct stat *about);
/* A name as a string. */
void fy_files_name(const struct fy_files_bytes *name,
                   char out[FY_FILES_NAME_BYTES + 1]);
/* Its ino as the client knows it. */
uint64_t fy_files_ino(const struct fy_files_server *server, dev_t dev,
                      ino_t ino);
void fy_files_attr_of(const struct fy_files_server *server,
                      const struct stat *about, struct fy_files_attr *out);
/* Of a descriptor; 0 or a negative errno. */
int fy_files_attr_at(const struct fy_files_server *server, int fd,
                     struct fy_files_attr *out);
/* "/proc/self/fd/N" */
void fy_files_fd_path(int fd, char out[32]);

/* ---- user.c ------------------------------------------------------------------------- */

/* Files that this thread makes until the end belong to that user and group, if the client
 * asked for USERS. -EINVAL: there is no such one. */
int fy_files_user_begin(const struct fy_files_server *server, uint32_t uid,
                        uint32_t gid);
void fy_files_user_end(const struct fy_files_server *server);

/* ---- the handlers ------------------------------------------------------------------- */

#define FY_FILES_CALL(name)                               \
    int fy_files_##name(struct fy_files_request *request, \
                        struct fy_files_message *answer)

/* names.c */
FY_FILES_CALL(make);
FY_FILES_CALL(link);
FY_FILES_CALL(remove);
FY_FILES_CALL(rename);
/* attributes.c */
FY_FILES_CALL(lookup);
FY_FILES_CALL(getattr);
FY_FILES_CALL(setattr);
FY_FILES_CALL(readlink);
FY_FILES_CALL(statfs);
FY_FILES_CALL(getxattr);
FY_FILES_CALL(listxattr);
FY_FILES_CALL(setxattr);
FY_FILES_CALL(removexattr);
/* list.c, fetch.c */
FY_FILES_CALL(list);
FY_FILES_CALL(fetch);
/* object.c */
FY_FILES_CALL(hold);
/* data.c */
FY_FILES_CALL(read);
FY_FILES_CALL(write);
FY_FILES_CALL(fsync);
FY_FILES_CALL(allocate);
FY_FILES_CALL(seek);
FY_FILES_CALL(copy);
/* locks.c */
FY_FILES_CALL(lock);
FY_FILES_CALL(getlock);

#undef FY_FILES_CALL

/* ---- locks.c ------------------------------------------------------------------------ */

/* One owner's lock of one node, by a descriptor of its own. */
struct fy_files_owner {
    struct fy_files_owner *next;
    uint64_t owner;
    dev_t dev;
    ino_t ino;
    bool flock, holds; /* it may hold a lock */
    int fd;
    unsigned refs; /* requests that use it */
    unsigned nset; /* locks that were set since it was made */
};

struct fy_files_locks {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a thread that waited has ended */
    struct fy_files_owner *owners;
    unsigned nowners, nwaiting;
};

int fy_files_locks_open(struct fy_files_server *server) FY_MUST_CHECK;
/* Interrupts those that wait, waits for their threads, gives all locks back. */
void fy_files_locks_close(struct fy_files_server *server);
/* Once more those that were interrupted and still wait: the signal may have come too
 * early. Whether there are any. Loop. */
bool fy_files_locks_press(struct fy_files_server *server);
/* The request waits in a thread of its own: it ends with -EINTR. Queue's lock held. */
void fy_files_lock_interrupt(struct fy_files_lock *waiting);

/* ---- watch.c: folders of which every change is told ----------------------------------- */

struct fy_files_folder;

enum {
    FY_FILES_FOLDER_BUCKETS = 4096,
};

/* Marks the client's own writes of watched files: own.c. */
struct fy_files_own {
    pthread_mutex_t lock;        /* held for an own write */
    int files[2];                /* begin, end: the marks; -1: there are none */
    int watches[2];              /* of the marks */
    uint64_t begun;              /* writes */
    _Atomic uint64_t inos[8192]; /* of writes, by `begun' */
    uint64_t read;               /* how many begins were read from the queue */
    uint64_t now;                /* the reader is between marks of that file */
};

/* Opens the marks; without marks each write counts as another's. */
void fy_files_own_open(struct fy_files_own *own);
void fy_files_own_close(struct fy_files_own *own);
/* Watches the marks in a new queue; the lock is held. */
void fy_files_own_watch(struct fy_files_own *own, int inotify);
/* Call them around a write of the file by the client; `begun' is the answer of begin. Not the
 * thread of watch.c. */
bool fy_files_own_begin(struct fy_files_server *server, uint64_t ino);
void fy_files_own_end(struct fy_files_server *server, bool begun);
/* Reads an event. True: it was a mark. For the thread of watch.c. */
bool fy_files_own_read(struct fy_files_own *own, int watch);

struct fy_files_watches {
    pthread_mutex_t lock;
    pthread_cond_t said; /* told has grown */
    struct fy_files_folder *buckets[FY_FILES_FOLDER_BUCKETS];
    struct fy_files_folder
        *look; /* in a ring of all: the next one to look at */
    int inotify, bell;
    uint64_t generation; /* of inotify: a number has it in its upper half */
    unsigned moves;      /* how often paths of folders have changed */
    uint64_t wanted,
        told; /* by BARRIER: how often all was to be told, and was */
    _Atomic bool runs, ended, lose; /* lose: all */
    bool joins;
    pthread_t thread;
    struct fy_files_own own;
};

int fy_files_watches_open(struct fy_files_server *server) FY_MUST_CHECK;
void fy_files_watches_close(struct fy_files_server *server);
/* Watches an open folder from now on. Its number; 0: it cannot be watched. */
uint64_t fy_files_watch(struct fy_files_server *server, int fd,
                        const struct fy_files_bytes *path,
                        const struct stat *about);
void fy_files_unwatch(struct fy_files_server *server, uint64_t number);
/* All folders are lost, soon: notices may not have come. */
void fy_files_unwatch_all(struct fy_files_server *server);
/* Around a rename of a folder by the client, which moves those beneath it: `from' and
 * `to' are its paths, NULL if it failed. */
void fy_files_watch_move(struct fy_files_server *server);
void fy_files_watch_moved(struct fy_files_server *server,
                          const struct fy_files_bytes *from,
                          const struct fy_files_bytes *to);
/* Waits until all that changed before the call is told. Not the thread of watch.c. */
void fy_files_tell_all(struct fy_files_server *server);

/* ---- serve.c ------------------------------------------------------------------------- */

struct fy_files_server {
    struct fy_files_options options;
    const struct fy_files_call *calls;
    int root;
    dev_t root_dev;
    uint64_t root_ino;
    uint32_t flags; /* of HELLO, as far as they are granted */
    bool greeted;
    bool local; /* the root's file system is this kernel's alone */
    struct fy_loop loop;
    struct fy_watch wire, door, visitor;
    char visit[8 << 10]; /* bytes of the visitor */
    struct fy_timer sweep, linger;
    char *in; /* received part of the next frames: in_bytes of it */
    size_t in_bytes;
    char *
        partial; /* a frame that is on its way: so many of its bytes are here */
    size_t partial_bytes, partial_whole;
    bool ended;
    bool expected; /* a client that comes back has to say who it is */
    bool over;     /* the mount has ended: no client resumes it */
    struct fy_files_queue queue;
    struct fy_files_sending sending;
    struct fy_files_objects objects;
    struct fy_files_locks locks;
    struct fy_files_watches watches;
};

#endif
