/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the proxy: one connection, one epoll, and one thread that owns all
 * of this; work that may wait for a file system is a job of another thread,
 * which sees the data that the job borrows and nothing else. A stage is a
 * process with up to four streams of the wire; either may end before the
 * other, so each points at the other and is told when it goes. Nothing is
 * freed while events are handed out: ended objects wait for the end of the
 * turn.
 */
#ifndef FERRY_PROXY_SERVER_SERVER_H
#define FERRY_PROXY_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "annotations/commands/command.h"
#include "proxy/sandbox/sandbox.h"
#include "proxy/server/proxy.h"
#include "proxy/server/run.h"
#include "proxy/storage/work.h"
#include "proxy/wire/compress.h"
#include "proxy/wire/loop.h"
#include "proxy/wire/spec.h"
#include "proxy/wire/wire.h"

struct fy_server;
struct fy_exchange;
struct fy_server_stage;
struct fy_server_files;

enum fy_exchange_kind {
    FY_EXCHANGE_OTHER, /* answered at once */
    FY_EXCHANGE_HELLO,
    FY_EXCHANGE_PROBE,
    FY_EXCHANGE_STAGE,
    FY_EXCHANGE_STDERR,
    FY_EXCHANGE_TOUCHED,
    FY_EXCHANGE_FILES,
    FY_EXCHANGE_CARRY,
    FY_EXCHANGE_STORE,
    FY_EXCHANGE_STORE_ZSTD,
};

/* One stream of the wire. */
struct fy_exchange {
    struct fy_server *server;
    struct fy_exchange *next, **link;
    int32_t stream;
    enum fy_exchange_kind kind;
    bool responded, finished;      /* our head, and our end, are queued */
    struct fy_server_stage *stage; /* STAGE, STDERR: while both exist */
    uint64_t number; /* STDERR, TOUCHED: of the stage that is wanted */
    char *body;      /* the outcome of a request that is read whole */
    size_t body_bytes, body_capacity;
    struct fy_job *job;            /* that makes its answer; NULL: none */
    struct fy_server_files *files; /* FILES: once its process runs */
};

/* A job; its owner puts its own data behind it. */
struct fy_job {
    struct fy_work work; /* the first */
    struct fy_server *server;
    struct fy_server_stage *stage;   /* or NULL: the loop leaves its spec, its
                                    * invocation and `before' alone meanwhile */
    struct fy_exchange *exchange;    /* to be answered; NULL: none, or gone */
    void (*run)(struct fy_job *job); /* in a thread: of the server only
                                      * policy, which guards itself */
    void (*finish)(struct fy_job *job); /* in the loop; frees the job */
};

/* Bytes of the client on their way to a stage's stdin. */
struct fy_queue {
    char *bytes;
    size_t at, n, capacity; /* bytes[at .. at + n) */
};

enum fy_stage_state {
    FY_STAGE_WAITING,  /* for the stage whose stdout becomes its stdin */
    FY_STAGE_CHECKING, /* by a job; has no process yet */
    FY_STAGE_STARTING, /* forked, not yet exec'd */
    FY_STAGE_RUNNING,
    FY_STAGE_EXITED, /* reaped; its output may go on */
    FY_STAGE_OVER,   /* nothing of it runs; kept for /touched, or freed */
};

/* Events of a stage: stage.c has a row for each. */
enum fy_stage_event {
    FY_STAGE_IS_CHECKED,
    FY_STAGE_IS_FORKED,
    FY_STAGE_HAS_EXECED,
    FY_STAGE_HAS_EXITED,
    FY_STAGE_IS_DONE,
};

/* Whose a stage's stdout is, a pipe to the client. */
enum fy_stage_output {
    FY_OUTPUT_HELD,   /* by the pipe: the client has not opened its window */
    FY_OUTPUT_OPENED, /* the client's; it cannot be linked any more */
    FY_OUTPUT_LINKED, /* another stage reads the pipe, or is about to */
};

/* pump.c: bytes between its pipes and the wire. */
struct fy_stage_pump {
    struct fy_queue queue; /* for stdin */
    bool in_ended;         /* the client's body is complete */
    int in_left; /* read: bytes of the body that it has not read, after `in'
                  * was closed */
    uint64_t in_bytes, out_bytes;
    enum fy_stage_output output;
    struct fy_squeeze *squeeze; /* its output is sent compressed */
};

/* end.c: the reason for ending it before its own end. */
struct fy_stage_ending {
    bool abandoned;  /* its result is not waited for */
    bool killed;     /* by us or the client: a death by KILL is no surprise */
    bool signalled;  /* by the client */
    int last_signal; /* of those that end a process; 0 */
    uint64_t kept_signals; /* that came while it waited: bit n-1 for signal n */
    unsigned failed;  /* enum fy_stage_reason, when we ended it; else NONE */
    uint64_t kill_ns; /* when the next, harsher step is due; 0: none */
    unsigned kill_step;
};

/* reap.c, result.c: how it ended. */
struct fy_stage_result {
    int status;         /* of wait, when EXITED */
    int64_t offsets[3]; /* FILE streams after it; -1: none */
    int io;             /* its /proc/PID/io, while it runs; -1: none */
    /* That it wrote in all, as the kernel counts; 0: not known. */
    uint64_t written_bytes;
    uint64_t err_end_ns; /* when its stderr is not waited for any more; 0 */
};

/* limits.c */
struct fy_stage_limits {
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
};

/* touched.c: the state of its files before it began. */
struct fy_stage_touched {
    struct {
        int64_t seconds;
        uint32_t ns;
    } began;                  /* of the files' clock */
    struct fy_before *before; /* NULL: not known */
};

/* A stage; each concern's file owns the struct of its name. */
struct fy_server_stage {
    struct fy_server *server;
    struct fy_server_stage *next, **link; /* `next' also holds when dead */
    struct fy_server_stage *dead_next;
    uint64_t number;
    enum fy_stage_state state;
    char *spec_bytes; /* bytes that `spec' borrows from */
    size_t nspec_bytes;
    struct fy_stage_spec spec;
    struct fy_invocation invocation;
    struct fy_sandbox *sandbox;
    struct fy_exchange *out_exchange, *err_exchange;
    struct fy_run run;
    struct fy_watch started, in, out, err;
    unsigned jobs; /* that borrow it */
    bool orphaned; /* freed when there are none */
    struct fy_stage_pump pump;
    struct fy_stage_ending end;
    struct fy_stage_result result;
    struct fy_stage_limits limits;
    struct fy_stage_touched touched;
};

/* descent.c: jobs that look at processes. */
struct fy_server_looks {
    struct fy_pool *pool;
    struct fy_descent *descents; /* asked for, for the next job */
    bool descends;               /* a job sends signals */
};

struct fy_server {
    const struct fy_proxy_options *options;
    struct fy_wire *wire;
    struct fy_policy *policy;
    struct fy_exchange *exchanges;
    struct fy_server_stage *stages;
    struct fy_server_stage *dead; /* freed at the end of the turn */
    unsigned running;             /* stages of which a process may live */
    unsigned stages_max, cores;
    unsigned over;          /* stages kept for /touched */
    size_t over_bytes;      /* of their specs */
    size_t receiving_bytes; /* of bodies that are not complete */
    struct fy_loop loop;
    struct fy_watch wire_in, wire_out, signals;
    bool readable; /* bytes of the client's wait to be read */
    struct fy_timer ping;
    struct fy_pool *pool;
    unsigned jobs;
    struct fy_server_looks looks;
    bool unreaped; /* processes that have ended may be there */
    bool ending;   /* a signal asked us to */
    bool lingers;  /* a files process was started, which may outlive us */
    bool closed;   /* the wire takes nothing any more */
    char buffer[128 << 10]; /* for one read of stdout at a time */
    char err_buffer[64 << 10];
};

/*
 * The functions of each file may call those of the files above it here, never
 * those of a file below.
 */

/* ---- exchange.c: answers ------------------------------------------------------ */

/* Head, body and end in one; bytes may be NULL. */
void fy_exchange_answer(struct fy_exchange *exchange, int status,
                        const void *bytes, size_t n);
/* Let the client send more; end the response's body. An error resets the
 * stream, and `closed' follows. */
void fy_exchange_grant(struct fy_exchange *exchange, size_t bytes);
void fy_exchange_finish(struct fy_exchange *exchange,
                        const struct fy_wire_pair *trailers, size_t n);
/* Ends the response without a body, with ferry-reason and ferry-why. */
void fy_exchange_refuse(struct fy_exchange *exchange, int status,
                        unsigned reason, const char *why);
/* Returns true if the spec of some stage is still on its way. */
bool fy_server_receiving(const struct fy_server *server);

/* ---- touched.c: changes by a stage
 * --------------------------------------------- */

/* The paths that the stage may write and that exist before it begins; NULL: not
 * all of them are known. Any thread. */
struct fy_before *fy_touched_before(const struct fy_server_stage *stage);
void fy_before_free(struct fy_before *before);
/* Encodes the changes that it made: see PROTOCOL.md. New in *out. Any
 * thread. FY_ERR_NOMEM. */
int fy_touched_find(const struct fy_server_stage *stage, char **out,
                    size_t *out_bytes) FY_MUST_CHECK;

/* ---- stage.c: states, and the list ----------------------------------------------- */

/* The one place that changes a stage's state. */
void fy_server_stage_event(struct fy_server_stage *stage,
                           enum fy_stage_event event);
struct fy_server_stage *fy_server_stage_find(struct fy_server *server,
                                             uint64_t number);
/* The stage that it reads, if there is one. */
struct fy_server_stage *
fy_server_stage_feeder(const struct fy_server_stage *stage);
/* Returns true if its input may have ended only because this host ends the
 * stage that feeds it, which is not known yet. A process that has ended is
 * the next to be looked at. */
bool fy_server_stage_doubts(const struct fy_server_stage *stage);
/* Closes one of the stage's descriptors and forgets its watch. */
void fy_watch_close(struct fy_server_stage *stage, struct fy_watch *watch,
                    int *fd);
/* Takes it off its exchanges. */
void fy_server_stage_leave(struct fy_server_stage *stage);
/* Takes it out of the list; freed when nothing can point at it any more. */
void fy_server_stage_discard(struct fy_server_stage *stage);
void fy_server_stage_free(struct fy_server_stage *stage);

/* ---- work.c: work that may wait for a file system
 * ---------------------------- */

/* job->server, stage, exchange, run and finish are set. FY_ERR_NOMEM: it was not
 * taken. */
int fy_job_start(struct fy_job *job) FY_MUST_CHECK;
/* Starts a job that reads /proc, which waits for no disk and for no other
 * job of that kind. */
int fy_look_start(struct fy_job *job) FY_MUST_CHECK;
int fy_jobs_open(struct fy_server *server) FY_MUST_CHECK;
/* Waits at most so long for jobs that run. False: one goes on, with the data
 * that it borrows; only the end of the process ends it. */
bool fy_jobs_close(struct fy_server *server, unsigned wait_ms);

/* ---- descent.c: signals to descendants of a stage
 * ------------------------------ */

/* Sends `signal' (0: none), by a job, to processes of the session of the
 * stage's process or below it. sent (may be NULL): called in the loop after
 * that, if the stage is still known, with the number that were found. */
void fy_descent_signal(struct fy_server_stage *stage, int signal,
                       void (*sent)(struct fy_server_stage *stage,
                                    unsigned found));
/* The signals, bit n-1 for signal n, and one more (0: none): as the kernel keeps them,
 * a stop and a continuation undo each other. */
uint64_t fy_signals_add(uint64_t signals, int signal);

/* ---- facts.c: /hello and /probe ------------------------------------------------- */

/* Answers with the properties of this host; the bytes are the client's
 * hello. */
void fy_server_hello(struct fy_exchange *exchange, char *bytes, size_t n);
/* Later, by a job. */
void fy_server_probe(struct fy_exchange *exchange, const char *bytes, size_t n);
/* carry.c: the files of a program that this host lacks; one of them. Later, by jobs. */
void fy_server_carry(struct fy_exchange *exchange, const char *bytes, size_t n);
void fy_server_store(struct fy_exchange *exchange, const char *bytes, size_t n);
/* Load of the last minute per core. */
double fy_server_load(const struct fy_server *server);

/* ---- touched_answer.c: /touched --------------------------------------------------- */

/* Answers, by a job, with the changes that the stage's effects made, once
 * its trailers are sent; before that, does nothing. See PROTOCOL.md. */
void fy_server_touched(struct fy_server_stage *stage,
                       struct fy_exchange *exchange);
/* The stage's trailers are sent: answers those that have asked for that. */
void fy_server_touched_wanted(struct fy_server_stage *stage);

/* ---- pump.c: between the stage's pipes and the wire ----------------------------- */

void fy_pump_in(struct fy_server_stage *stage);
/* FY_ERR_*: output is lost. fy_server_stage_output() then fails the stage. */
int fy_pump_out(struct fy_server_stage *stage) FY_MUST_CHECK;
void fy_pump_err(struct fy_server_stage *stage);
/* Notes that its output to `fd' (1, 2) has lost its reader; its end is still
 * of interest. */
void fy_pump_unread(struct fy_server_stage *stage, unsigned fd);
/* Appends. FY_ERR_NOMEM. */
int fy_queue_add(struct fy_queue *queue, const char *bytes,
                 size_t n) FY_MUST_CHECK;
/* Bytes for its stdin; the end of them. FY_ERR_NOMEM: input is lost, so the stage
 * has to be failed. */
int fy_pump_add(struct fy_server_stage *stage, const char *bytes,
                size_t n) FY_MUST_CHECK;
void fy_pump_end(struct fy_server_stage *stage);
/* Settles its stdin after its end: bytes that are left there were never
 * read. */
void fy_pump_in_settle(struct fy_server_stage *stage);

enum {
    /* bytes that the client may send ahead of the stage's reading */
    FY_SERVER_INPUT_BYTES = 1 << 20,
    FY_SERVER_STORE_BYTES = 4 << 20, /* of a file for the store, at once */
};

/* ---- result.c: the trailers ----------------------------------------------------- */

/* Sends the trailers, or forgets the stage, once there is nothing to wait for. */
void fy_server_stage_settle(struct fy_server_stage *stage);
/* Opens the kernel's counters of a process that was just forked: after its
 * end they tell the bytes that it read and wrote. If it has ended already,
 * only root can. */
void fy_server_stage_count(struct fy_server_stage *stage);
/* Reads the totals of bytes that it read and wrote, after its end and before
 * it is reaped. */
void fy_server_stage_counted(struct fy_server_stage *stage);

/* ---- end.c: before its own end ------------------------------------------------- */

/* A signal of the client's; one for a stage that waits is kept. */
void fy_server_stage_signal(struct fy_server_stage *stage, int signal);
/* Sends the kept signals to its process, which is there now. */
void fy_server_stage_signal_kept(struct fy_server_stage *stage);
bool fy_server_stage_has_no_process(const struct fy_server_stage *stage);
/* The next step of a stage's end: first its output goes, then it is asked, then it
 * is made to end. */
void fy_server_stage_press(struct fy_server_stage *stage);
/* Ends a stage whose output no client waits for any more. */
void fy_server_stage_abandon(struct fy_server_stage *stage);
/* Ends it, and the stages that read from it, which would otherwise see a
 * false end of input. */
void fy_server_stage_fail(struct fy_server_stage *stage, unsigned reason);
/* Passes its stdout on, as far as the client takes it. */
void fy_server_stage_output(struct fy_server_stage *stage);
/* A stage that reads another one has started: the pipe is the reader's for good. Or
 * it will not: the writer's output is the client's again. */
void fy_server_stage_linked(struct fy_server_stage *stage, bool started);
/* The stream is gone. Without that of its output the stage is ended. */
void fy_server_stage_detach(struct fy_server_stage *stage,
                            const struct fy_exchange *exchange);

/* ---- reap.c: processes that have ended ------------------------------------------ */

/* The processes that have ended; `unreaped': there are more, for the next turn. */
void fy_server_reap(struct fy_server *server);
/* Ends every stage at once and waits until nothing of them lives. */
void fy_server_end_stages(struct fy_server *server);

/* ---- limits.c: time ------------------------------------------------------------- */

/* Does the work that is due; returns the time of the next: CLOCK_MONOTONIC,
 * 0: nothing. */
uint64_t fy_server_timers(struct fy_server *server);

/* ---- admit.c: whether it may run ------------------------------------------------- */

/* A new stage that is in no list yet. NULL: it was refused. `bytes', its spec, are
 * taken. */
struct fy_server_stage *fy_server_admit(struct fy_exchange *exchange,
                                        char *bytes, size_t n);
/* Fills in its invocation, by this host's own annotations. Any thread. FY_ERR_*: it may
 * not run, with reason and why. */
int fy_server_understand(struct fy_server_stage *stage, unsigned *reason,
                         struct fy_buffer *why) FY_MUST_CHECK;

/* ---- start.c: from the spec to the exec ------------------------------------------ */

/* The whole spec has come: starts it, or refuses. `bytes' is taken. */
void fy_server_stage_begin(struct fy_exchange *exchange, char *bytes, size_t n);
/* A stage began, started or ended: requests and stages that waited for that go on. */
void fy_server_settle(struct fy_server *server);

/* ---- files.c: a process next to the files, for `ferry mount' ------------------------- */

/* The body has grown, until the process runs: begins that, once the hello is complete. */
void fy_server_files_begin(struct fy_exchange *exchange);
/* More of the body; its end; the client takes more; the stream is gone. */
void fy_server_files_add(struct fy_exchange *exchange, const char *bytes,
                         size_t n);
void fy_server_files_end(struct fy_exchange *exchange);
void fy_server_files_ready(struct fy_exchange *exchange);
void fy_server_files_detach(struct fy_exchange *exchange);

/* ---- request.c: the wire's requests ---------------------------------------------- */

extern const struct fy_wire_events fy_server_events;

#endif
