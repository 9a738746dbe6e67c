/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of ferry-stub only. One process, one thread; no stdio,
 * no locale, and nothing of the environment is read.
 */
#ifndef FERRY_SHIM_STUB_LOCAL_H
#define FERRY_SHIM_STUB_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/sha256.h"
#include "proxy/client/stub.h"

struct stub {
    int socket;
    const char *path; /* of the original */
    char *folder;     /* of the run's private files; NULL: unknown */
    char **argv, **envp;
    bool same;           /* fds 1 and 2 are one description */
    bool terminal;       /* fd 1 is one: WINCH means something */
    struct stub_output { /* bytes written to descriptors 1 and 2, by [fd] */
        int64_t begin;   /* the file's offset before that; -1: it has none */
        uint64_t written_bytes; /* but for those that were held */
        int error;              /* that stopped it, or 0 */
        uint64_t passed_bytes;  /* also those; and their digest */
        struct fy_sha256 hash;
    } outputs[3];
};

/* ---- stub.c */

/* Runs the original in this process. */
void stub_exec(const struct stub *stub) __attribute__((noreturn));
/* "NAME: a: b" on stderr. */
void stub_complain(const struct stub *stub, const char *a, const char *b);
/* An fd above those that programs expect; closes `fd'. -1: none. */
int stub_high(int fd);

/* ---- hello.c */

/* Connects and says who we are; -1: no session. Sets the socket. */
int stub_hello(struct stub *stub, const char *socket_path);

/* ---- serve.c */

/* From the hello to the end. */
void stub_serve(struct stub *stub) __attribute__((noreturn));
/* 0, or the errno of write(2). Waits where the fd would block. */
int stub_write(int fd, const void *bytes, size_t n);

/* ---- held.c */

/* Bytes that wait, in the order in which they came. */
struct stub_piece {
    struct stub_piece *next;
    uint64_t place; /* of late.c */
    int fd;         /* of held.c */
    uint32_t at, n; /* those before `at' are written */
    char bytes[];
};
struct stub_queue {
    struct stub_piece *first, *last;
};
/* Behind the others: `head' and its n bytes; -1: no memory. */
int stub_queue_add(struct stub_queue *queue, const struct stub_piece *head,
                   const void *bytes);
void stub_queue_drop(struct stub_queue *queue); /* the first */

/* Keeps bytes for stub_held_write(); -1: no memory. */
int stub_hold(int fd, const void *bytes, uint32_t n);
/* Returns the descriptor that the first held bytes go to; -1: none are held. */
int stub_held_fd(void);
size_t stub_held_bytes(void);
/* Writes the held bytes that can be written at once, or all. 0, or the errno
 * of a write to *out_fd; then some bytes for it are dropped, and others may
 * still be held. */
int stub_held_write(bool waits, int *out_fd);

/* ---- late.c */

/* Keeps bytes of stderr whose place is not reached; -1: no memory. */
int stub_late_add(uint64_t place, const char *bytes, uint32_t n);
/* The place of the first of them; UINT64_MAX: there are none. */
uint64_t stub_late_place(void);
/* The first; stub_late_drop() forgets it. */
const char *stub_late_bytes(uint32_t *out_n);
void stub_late_drop(void);
/* Returns the number of bytes that the command could have written to stdout
 * by now: the bytes that the reader took, and those that the pipe holds.
 * UINT64_MAX: stdout is no pipe. */
uint64_t stub_late_reach(const struct stub *stub);

/* ---- spool.c */

/* Returns true if FY_STUB_DATA_BYTES more can be kept; `folder' is for long
 * input. */
bool stub_spool_room(const char *folder);
/* Keeps them; only after stub_spool_room(). */
void stub_spool_add(const char *bytes, size_t n);
void stub_spool_forget(void);
/* Makes stdin a pipe that delivers the kept bytes, then the rest of the old
 * stdin. -1: these bytes cannot be read again. */
int stub_spool_replay(void);

/* ---- signal.c */

/* From here on signals are passed on to the session, or to `child' once it
 * is set, instead of having their default effect. */
void stub_signals_catch(const struct stub *stub);
void stub_signals_to(pid_t child);
/* Those that were passed on and would have ended the command if it did not
 * care: bit n-1 of signal n. */
uint64_t stub_signals_passed(void);
/* The first of them that no command survives; 0: there was none. */
int stub_signals_fatal(void);
/* From the first of them until this is called every wait is broken off again and
 * again: it may have come just before write(2) began to wait. */
void stub_signals_seen(void);
/* A signal that would end this process is ignored until stub_signals_leave(). */
void stub_signals_ignore(int number);
/* Returns true if SIGPIPE would end the command; this process goes on. */
bool stub_pipe_kills(void);
/* A write(2) has failed with EPIPE: ends this process by SIGPIPE where that is due,
 * but not after a signal that no command survives. */
void stub_pipe_broken(void);
/* Signals have their default effect again. */
void stub_signals_leave(void);
/* Delivers them as well, and now also a passed-on signal that no command
 * survives. */
void stub_signals_deliver(void);
/* Stops this process as SIGTSTP would, and says when it goes on. */
void stub_stop(void);
/* Sets the socket that frames are sent to from now on. */
void stub_send_to(int socket);
/* One frame; signals that come meanwhile are sent after it. -1: no session. */
int stub_send(uint32_t type, const void *bytes, uint32_t n);
/* Ends by `signal' (no core file), or with `status' when it is 0. */
void stub_end(int signal, int status) __attribute__((noreturn));

/* ---- again.c */

void stub_again(const struct stub *stub) __attribute__((noreturn));

#endif
