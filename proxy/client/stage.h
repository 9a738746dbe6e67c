/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the session: one command that may run elsewhere, from its stub's hello
 * to its end. See session.h for who does what.
 */
#ifndef FERRY_PROXY_CLIENT_STAGE_H
#define FERRY_PROXY_CLIENT_STAGE_H

#include "proxy/client/classify.h"
#include "proxy/client/connection.h"
#include "proxy/client/cost.h"
#include "proxy/client/session.h"
#include "proxy/storage/closure.h"
#include "proxy/wire/compress.h"
#include "proxy/wire/protocol.h"

/* State of a stage. In states before ASKED nothing has begun at the proxy. */
enum stage_state {
    STAGE_WAIT_REACH, /* for the connection; where a new stage begins */
    STAGE_PREPARING, /* for the mount: prepare.c; then for sizes: placement.c */
    STAGE_WAIT_INPUT, /* a filter: for the stage that feeds it */
    STAGE_RETRYING,   /* for the streams of a request that is asked once more */
    STAGE_ASKED,      /* the proxy has the request */
    STAGE_RUNNING,    /* it was accepted */
    STAGE_ENDED,      /* its result is known */
    STAGE_DONE,       /* the stub has its last word */
};

/* Events of a stage: stage_state.c has a row for each. */
enum stage_event {
    STAGE_LACKS_HOST,
    STAGE_IS_TAKEN,
    STAGE_LACKS_INPUT,
    STAGE_ASKS,
    STAGE_RETRIES,
    STAGE_IS_ACCEPTED,
    STAGE_HAS_RESULT,
    STAGE_LEAVES,
};

/* State of a stage that is one of several parts. */
struct fy_part {
    unsigned at;
    bool placed, running, finished;
    bool looked; /* at how it begins */
    char *held;
    size_t nheld;
};

enum {
    FY_PARTS_MAX = 16,
    FY_PARTS_EARLY_BYTES = 4096, /* bytes that stdio writes into a pipe at
                                  * once */
};

/* stage_parts.c: of a stage that runs as several. */
struct fy_parts {
    struct stage *stages[FY_PARTS_MAX]; /* NULL: freed */
    unsigned n, current;                /* current: its output goes out */
    unsigned placed, running;
    bool asked;
    bool pipes;   /* the whole writes into a pipe */
    bool flowing; /* and more than fits here: */
    char early[FY_PARTS_EARLY_BYTES];
    size_t nearly;
    int worst, best; /* of the statuses of those that ended */
};

/* streams.c, flow.c: its streams at the proxy, and the bytes of its output. */
enum { /* the windows of stderr and stdout: together the stub's */
    FLOW_ERR_BYTES = 64 << 10,
    FLOW_OUT_BYTES = FY_STUB_WINDOW_BYTES - FLOW_ERR_BYTES,
};
struct stage_flow {
    struct exchange out, err;
    bool out_open, err_open; /* these streams are not closed yet */
    bool left_unread;        /* the commands that it runs lost their reader */
    /* Bytes that the proxy may send, that came, that the stub wrote. */
    uint64_t granted_bytes[2], received_bytes[2];
    uint64_t handed_bytes, credited_bytes; /* to the stub, of both */
    /* Records of stderr: the bytes of their heads, the next record, the rest
     * of its bytes, its place and the place that the stub knows. */
    uint64_t head_bytes;
    unsigned char head[FY_PLACE_BYTES];
    uint32_t record_left;
    uint64_t place, told_place;
    struct fy_unsqueeze *unsqueeze; /* its output comes compressed, or NULL */
    uint64_t packed_bytes;          /* of it that came */
};

/* input.c: the bytes of stdin that the stub may send, and those it has sent. */
struct stage_input {
    bool streams;  /* its stdin is sent from here */
    bool fed_here; /* a pipe that a process of this host wrote into */
    bool keeps;    /* stdin is a pipe; the stub keeps the bytes that it takes
                    * of it */
    bool consumed; /* some of it may be gone, and cannot be read again */
    bool ended;
    uint64_t window_bytes; /* the proxy's window before any of it was used */
    uint64_t wanted_bytes, sent_bytes;
    int64_t taken_bytes; /* of them by the command; -1: not known */
};

/* link.c: the stages that it is joined to at the proxy. */
struct stage_join {
    struct stage *feeds, *fed_by;
    bool joined;            /* to a writer there, also when that is gone */
    bool settled;           /* the reader of its stdout is known */
    uint64_t seen_ns, seen; /* the last look's findings */
};

/* order.c: signals on their way to it. */
struct stage_order {
    uint64_t held; /* bit n-1 of signal n, since held_ns */
    uint64_t held_ns;
    unsigned pings;  /* that its stub has not answered */
    uint64_t passed; /* likewise a bit each: that its stub passed on */
    bool signalled;  /* one of those may end it */
    int last;        /* of those, the one that came last */
    /* First signal that should end the stage (0: no signal), the time of that signal, and the
     * time until which the host may answer, CLOCK_MONOTONIC ns. */
    int ending;
    uint64_t ending_ns, due_ns;
};

/* placement.c: whether it pays. */
struct stage_place {
    struct fy_placement *probe; /* sizes are asked for; owns itself */
    struct fy_look *look;       /* likewise, before the host is there */
    bool looked, judged;        /* from here; that settles it */
    double predicted_there, predicted_here; /* seconds; 0: not predicted */
    /* It does not pay; not even if its output is read there; it is for its size. */
    bool unprofitable, hopeless, small;
};

/* Refresh of the mount's caches after the stage. */
enum stage_refresh {
    REFRESH_DUE,
    REFRESH_RUNS, /* fy_stage_try_end() follows */
    REFRESH_DONE, /* or there was nothing to do */
};

/* prepare.c: the mount before its request and after its end. */
struct stage_prepare {
    struct fy_job *job;       /* under way; owns itself */
    struct fy_gather *gather; /* the look's findings; NULL: none yet */
    bool done;                /* the mount is ready for it */
    bool retried;             /* asked once more, about a fresh root */
    bool has_root_hash; /* it proves that a mount shows its host's files */
    bool hashed[FY_STAGE_MOUNTS];
    struct fy_config_hash roots[FY_STAGE_MOUNTS]; /* all but their paths */
    enum stage_refresh refresh;
    uint64_t
        fresh_ns; /* time when the mount has forgotten the changed names; 0:
                   * it has */
    struct exchange touched;
    bool touched_open;
    uint64_t heard_ns; /* last time when the host said some of that */
    char *touched_bytes;
    size_t touched_used;
};

/* carry.c: the stage's program and all that this needs, at a host with another program. */
struct stage_carry {
    struct fy_carrying *active;    /* under way; owns itself */
    struct connection *connection; /* that all of this is about */
    bool settled;                  /* it is known whether it must be carried */
    bool carried;   /* the request names all files of the program */
    bool too_large; /* for the store */
    uint64_t bytes; /* that were sent for it */
};

/* stage_end.c: its result. */
struct stage_result {
    bool known;
    bool feeder_ended;    /* so the result of its feeder comes as well */
    bool refused;         /* the proxy has not begun anything */
    bool repeatable_here; /* with all that feeds it */
    int status, signal;
    int64_t offsets[3]; /* -1: none */
    uint64_t out_bytes;
    uint64_t ended_ns;
};

/* A stage; each concern's file owns the struct of its name. */
struct stage {
    struct fy_session *session;
    struct stage *next;
    struct stub_client
        *client; /* NULL: the stub is gone or has its last word */
    enum stage_state state;
    struct fy_stub_hello hello;
    char *block; /* the strings of the hello */
    const char **argv, **env;
    struct fy_stage_facts facts;
    struct fy_invocation invocation;
    bool parsed;
    struct fy_stage_plan plan;
    const struct fy_mount *mount; /* the plan's, or its feeder's */
    struct connection *connection;
    uint64_t number;
    int files[3]; /* descriptions that are moved at the end; -1: none */
    struct fy_timer timer;
    uint64_t began_ns, asked_ns;
    struct record *record;
    /* stage_parts.c: it runs as several, or is one of those. */
    struct fy_parts *parts;
    struct fy_part *part;
    struct stage *whole; /* that it is a part of, or NULL */
    struct stage_flow flow;
    struct stage_input input;
    struct stage_join join;
    struct stage_order order;
    struct stage_place place;
    struct stage_prepare prepare;
    struct stage_carry carry;
    struct stage_result result;
};

/* The writer of its output. */
static inline struct stub_client *
fy_stage_stub_client(const struct stage *stage)
{
    return stage->whole ? stage->whole->client : stage->client;
}

/* ---- stage_state.c */

/* The one place that changes a stage's state. */
void fy_stage_event(struct stage *stage, enum stage_event event);

/* ---- stage_end.c */

void fy_record_new(struct stage *stage);
void fy_record_free(struct record *record);
/* The last lines of a record. */
void fy_stage_note(struct stage *stage, unsigned reason, const char *why,
                   int exit_status);
/* Ends the stub by the signal that the command at the proxy has not answered. */
void fy_stage_give_up(struct stage *stage);
/* The original runs here. Only while the stub may still do that. */
void fy_stage_decline(struct stage *stage, unsigned reason, const char *why);
/* Runs the original of the stage, and of stages joined to it, because they
 * cannot go on at the proxy. */
void fy_stage_fall_back(struct stage *stage, unsigned reason, const char *why);
/* Returns true if these would be originals from their beginnings. */
bool fy_stage_may_fall_back(struct stage *stage);
/* Returns true if a signal ended the stage: its output is as much as its
 * reader had room for. */
bool fy_stage_is_cut(const struct stage *stage);
/* Its stub gets its last word if all is known. */
void fy_stage_try_end(struct stage *stage);
void fy_stage_detach(struct stage *stage); /* its streams are cancelled */
/* The stub has its last word, or is gone. */
void fy_stage_finish(struct stage *stage);

/* Runs the original again, and skips the delivered bytes. */
void fy_stage_repeat(struct stage *stage, unsigned reason, const char *why);

/* ---- ahead.c */

/* Tells mounts of ferry the operands of a command that is about to run locally. */
void fy_foresee(const struct stage *stage);

/* ---- stage_parts.c */

/* Makes parts of a stage whose operands lie on several hosts. FY_STAGE_NONE:
 * fy_parts_start() follows; or why it cannot run so. */
unsigned fy_parts_make(struct stage *whole, struct fy_buffer *why);
void fy_parts_start(struct stage *whole);
/* Something went wrong with one: the original runs. */
void fy_parts_fail(struct stage *whole, unsigned reason, const char *why);
/* Ends the whole after an error of fy_part_deliver() or fy_part_flush(). */
void fy_part_stop(struct stage *part, int status);
/* The whole has ended: so do they. */
void fy_parts_end(struct stage *whole);
/* Called for one part: its sizes are known; it was accepted; it has ended
 * and all of its output is written. */
void fy_part_placed(struct stage *part);
void fy_part_runs(struct stage *part);
void fy_part_ended(struct stage *part);

/* ---- parts.c */

/* The part whose output goes out; NULL: none yet, or none any more. */
struct stage *fy_parts_current(const struct stage *whole);
/* Part i; NULL: there are no more. */
struct stage *fy_parts_get(const struct stage *whole, unsigned i);
/* Returns true if some parts are not yet freed. */
bool fy_parts_left(const struct stage *whole);
void fy_parts_name(const struct stage *whole, char *out, size_t capacity);
/* Returns true if the part's turn has come, or has passed. */
bool fy_part_may_send(const struct stage *part);
bool fy_part_is_over(const struct stage *part);
/* Frees the memory of a part, or of a whole. */
void fy_part_forget(struct stage *part);

/* ---- part_words.c */

/* Bytes of a part to the stub of the whole, or kept for a while. FY_ERR_INVALID: it
 * complains of something else than its operands; FY_ERR_NOMEM. fy_part_stop() follows
 * both. */
int fy_part_deliver(struct stage *part, int i, const char *bytes,
                    size_t n) FY_MUST_CHECK;
/* Delivers the output that was held back of a part that has ended; errors
 * are those of fy_part_deliver(). */
int fy_part_flush(struct stage *part) FY_MUST_CHECK;
/* Delivers the held output of all parts: FY_ERR_NOMEM. */
int fy_parts_flush(struct stage *whole) FY_MUST_CHECK;

/* ---- stage.c */

/* A new stage's fields that are not 0. */
void fy_stage_clear(struct stage *stage);
/* Has the mount made ready, in a thread; the answer does not come late. */
void fy_stage_prepare(struct stage *stage);
/* Connects, if need be, and prepares. */
void fy_stage_place(struct stage *stage);
/* Sends the request; `feeder' is joined to its stdin, or NULL. */
void fy_stage_ask(struct stage *stage, struct stage *feeder);
/* The stage's output may come: no stage there reads it. */
void fy_stage_open(struct stage *stage);
/* A connection became ready, or bad. */
void fy_stages_reached(struct fy_session *session,
                       struct connection *connection);
/* The mount is ready for it, or (status) it is not. */
void fy_stage_prepared(struct stage *stage, int status);
/* Asks again, with the stages joined to it, after a refusal because of the
 * remembered root of its mount; none of them runs yet. */
void fy_stage_retry(struct stage *stage);
/* Sizes are known, or not needed. */
void fy_stage_placed(struct stage *stage);
/* The look is over. */
void fy_stage_looked(struct stage *stage);

/* ---- placement.c */

/* Looks at the sizes of its input, and returns true, if its host is not
 * there yet or the answer would come late. fy_stage_looked() follows, then. */
bool fy_placement_look(struct stage *stage);
/* False: nothing is to be waited for. Else fy_stage_placed() follows. */
bool fy_placement_ask(struct stage *stage);
/* Returns true if a command whose input is local ends sooner locally than a
 * login does. */
bool fy_placement_beats_login(struct stage *stage);
void fy_placement_forget(struct stage *stage);

/* ---- carry.c */

/* Sends the files of a program that the host has not. A filter that waits for input
 * has no connection yet: NULL, and the only connection counts. False:
 * there is nothing to wait for; else fy_stage_placed() follows, or fy_stage_prepared() of a
 * filter, or the stage is declined. */
bool fy_carry_wait(struct stage *stage, struct connection *connection);
/* The rows of a request; borrows the paths. Returns their number. */
uint32_t fy_carry_rows(const struct fy_closure *closure,
                       struct fy_carried_file rows[FY_CLOSURE_MAX]);
/* The host has accepted or refused the program. */
void fy_carry_learn(struct stage *stage, bool accepted);
/* Adds to a host's answer that it has another program why that of this machine was not sent, if
 * it was to be; returns the reason. */
unsigned fy_carry_explain(const struct stage *stage, const char *why, char *out,
                          size_t capacity);
void fy_carry_forget(struct stage *stage);
/* Frees the programs that were to be sent, after the end of all connections. */
void fy_carry_free(struct fy_session *session);

/* ---- prepare.c */

/* fy_stage_prepared() follows. False: it cannot be done. */
bool fy_prepare_before(struct stage *stage);
/* Returns true if files of this machine do not answer; they are not waited
 * for. */
bool fy_prepare_is_stuck(struct stage *stage);
/* False: likewise. Else fy_stage_try_end() is called again. */
bool fy_prepare_after(struct stage *stage);
/* Goes on without the host's list of changed files: `now', or when that list is overdue,
 * for which the stage's timer is set. fy_stage_try_end() may follow at once. */
void fy_prepare_hurry(struct stage *stage, bool now);
/* Asks, along with the request of a stage with effects, for the list of
 * changes with its result. */
void fy_prepare_touched(struct stage *stage);
void fy_prepare_forget(struct stage *stage);

/* ---- flow.c */

/* Opens the windows of its streams as far as its stub has room. */
void fy_flow_grant(struct stage *stage);
/* Opens the window of stdout (0) or stderr (1) further. */
void fy_flow_allow(struct stage *stage, int i, uint64_t bytes);
/* To its stub, counted and hashed. FY_ERR_NOMEM: fy_stage_fall_back() follows. */
int fy_flow_deliver(struct stage *stage, int i, const char *bytes,
                    size_t n) FY_MUST_CHECK;
/* Tells, after its end, if the stub has written all of its output. BUSY: not
 * yet; IO: some of it is missing. */
int fy_flow_whole(const struct stage *stage) FY_MUST_CHECK;
void fy_flow_free(struct stage *stage);

/* ---- streams.c */

extern const struct exchange fy_out_exchange, fy_err_exchange;

/* Its stub has written so much. */
void fy_flow_credit(struct stage *stage, uint32_t bytes);
/* A signal, or a new window size, to the proxy. */
void fy_flow_signal(struct stage *stage, uint32_t number);
void fy_flow_window(struct stage *stage, unsigned rows, unsigned columns);
/* Its stub cannot write to `fd', or read its stdin. */
void fy_flow_broken(struct stage *stage, int fd, int error);

/* ---- order.c */

/* From the stage's stub; fy_flow_signal() follows, when its readers have theirs. */
void fy_signal_take(struct stage *stage, uint32_t signal);
/* Its stub has answered a PING. */
void fy_signal_answered(struct stage *stage);

/* ---- input.c */

/* Returns true if the stage alone reads its stdin, a file, or reads it to
 * its end. */
bool fy_input_is_own(const struct stage *stage);
/* Sends stdin, a pipe that the stage alone reads, from this machine. */
void fy_stage_stream(struct stage *stage);
/* Asks its stub for as many bytes as the proxy takes. */
void fy_input_want(struct stage *stage);
void fy_input_add(struct stage *stage, const char *bytes, size_t n);
void fy_input_end(struct stage *stage);
/* Its stub cannot keep more of it. */
void fy_input_full(struct stage *stage);

/* ---- alike.c */

struct fy_alike;

/* Lists the files on mounts that its stub writes: their host has to compare
 * them with its input. False: one cannot be named, so the stage runs
 * locally. */
bool fy_alike_outputs(const struct stage *stage, struct fy_bytes out[2],
                      unsigned *out_n);
/* The files to compare here; NULL: none. FY_ERR_NOMEM. */
int fy_alike_new(const struct stage *stage,
                 struct fy_alike **out) FY_MUST_CHECK;
/* An operand that is the file to which it writes, or may be; NULL: none is. Any
 * thread. */
const char *fy_alike_find(const struct fy_alike *alike);
void fy_alike_free(struct fy_alike *alike);

/* ---- gather.c */

enum {
    FY_CONFIGS_MAX = 64,
    FY_LOCALES_MAX = 16,
    FY_RUNS_MAX = 16,
};

/* Nothing of the stage is borrowed, which may end while files do not answer. */
struct fy_gather {
    char *program, *library_path, *locales[FY_LOCALES_MAX + 1];
    char *paths[FY_CONFIGS_MAX];
    unsigned char hashes[FY_CONFIGS_MAX][32];
    unsigned npaths, nlocales;
    char *search, *runs[FY_RUNS_MAX]; /* PATH; programs that it leads to */
    unsigned nruns;
    bool encoded, loads_paths;
    char identity[256];
    /* Sent to a host that has another program; NULL: the program cannot be carried. */
    struct fy_closure *closure;
    struct fy_tools_known known; /* at the host */
    bool carries;                /* it may be */
    bool theirs; /* the host's own program runs: none of these facts count */
    /* Why there is no closure, if `carries': a reason, a clause in `text'. */
    unsigned hindrance;
    char **loads; /* files that the annotation names for that */
    size_t nloads;
    char *zone;     /* TZ; NULL: not set, or a path */
    char *language; /* LANGUAGE, or empty */
    unsigned reason;
    struct fy_buffer why;
    char text[200];
};

/* The facts about this machine's files that the request needs; fy_gather_run()
 * finds them out, in any thread. FY_ERR_NOMEM. */
int fy_gather_new(const struct stage *stage,
                  struct fy_gather **out) FY_MUST_CHECK;
void fy_gather_run(struct fy_gather *gather);
/* FY_STAGE_NONE: the stage may be asked for. */
unsigned fy_gather_reason(const struct fy_gather *gather, const char **out_why);
void fy_gather_free(struct fy_gather *gather);
/* Returns the reason why the program cannot be sent to a host that has another, with a clause;
 * FY_STAGE_NONE: it can, or need not. */
unsigned fy_gather_hindrance(const struct fy_gather *gather,
                             const char **out_why);
/* All files of the program, borrowed; NULL: none are to be carried, or can be. */
struct fy_closure *fy_gather_closure(const struct fy_gather *gather);
const char *fy_gather_identity(const struct fy_gather *gather);
const char *fy_gather_program(const struct fy_gather *gather);

/* ---- ask.c */

/* The stage goes by owners, and the mount shows its user there as the one here. */
bool fy_ask_shows_owners(const struct stage *stage,
                         const struct fy_mount *mount);
/* Returns true if the proxy's user is this user, as a mount that knows users
 * by numbers requires. */
bool fy_ask_is_same_user(const struct stage *stage, struct fy_buffer *why);

/* Encodes the request: u32 length and the spec. New in *out.
 * FY_ERR_UNSUPPORTED: it cannot be told if it reads the files that it
 * writes. */
int fy_ask_encode(struct stage *stage, struct stage *feeder, char **out,
                  size_t *out_n) FY_MUST_CHECK;

#endif
