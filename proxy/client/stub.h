/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between ferry-stub and its session: frames on a unix stream socket, one
 * connection a stub. All integers are the machine's own (both ends run on it).
 *
 * The stub reads and writes fds 0-2 itself, so that blocking, job control and
 * file limits are the kernel's; the session only ever sees bytes in frames.
 * Until FY_STUB_RUN the stub has touched nothing, and FY_STUB_EXEC makes it exec
 * the original.
 *
 * The shim execs it as: ferry-stub SOCKET PATH ARGV0 [ARGV1...]
 * PATH is what the program would have passed to execve(2).
 */
#ifndef FERRY_PROXY_CLIENT_STUB_H
#define FERRY_PROXY_CLIENT_STUB_H

#include <stdint.h>

#include "proxy/wire/protocol.h"

#define FY_STUB_VERSION 4

enum {
    FY_STUB_DATA_BYTES = 64 << 10,  /* most in one OUT, ERR or INPUT frame */
    FY_STUB_FRAME_BYTES = 8 << 20,  /* most in any frame (HELLO) */
    FY_STUB_WINDOW_BYTES = 1 << 20, /* OUT + ERR bytes not yet credited */
};

struct fy_stub_frame {
    uint32_t bytes; /* that follow this header */
    uint32_t type;
};

enum fy_stub_to_session {
    FY_STUB_HELLO = 1, /* struct fy_stub_hello, then strings; with SCM_RIGHTS */
    FY_STUB_READABLE,  /* stdin has data or has ended: someone here feeds it */
    FY_STUB_INPUT,     /* bytes read from stdin */
    FY_STUB_INPUT_END, /* stdin has ended */
    FY_STUB_SIGNAL,    /* uint32_t: a signal arrived, to be passed on */
    FY_STUB_WINDOW,    /* uint16_t rows, columns, xpixel, ypixel */
    FY_STUB_CREDIT,    /* uint32_t: bytes of OUT and ERR written */
    FY_STUB_BROKEN,    /* struct fy_stub_broken: writing or reading failed */
    FY_STUB_FULL,      /* no more of stdin can be kept: it is not read until
                        * FORGET, EXEC or AGAIN comes */
    FY_STUB_PONG, /* for a PING; all signals that came before it are told */
};

enum fy_session_to_stub {
    FY_STUB_EXEC = 1, /* run the original; the connection ends */
    FY_STUB_RUN,      /* struct fy_stub_run: it runs elsewhere from now on */
    FY_STUB_OUT,      /* bytes for stdout */
    FY_STUB_ERR,      /* bytes for stderr */
    FY_STUB_WANT,     /* uint32_t: that many bytes of stdin may be sent */
    FY_STUB_EXIT,     /* struct fy_stub_exit: end like this */
    FY_STUB_AGAIN,    /* run the original as a child, skip the delivered
                       * bytes */
    FY_STUB_STOPPED,  /* the remote process stopped (SIGTSTP): stop too */
    FY_STUB_FORGET,   /* the kept part of stdin is not needed */
    FY_STUB_PING,     /* send PONG, once the signals that are there are told */
    FY_STUB_PLACE, /* uint64_t: of the ERR frames that follow. They wait until
                       * stdout's pipe had room for so many bytes; FY_PLACE_ANY:
                       * not */
};

/*
 * SCM_RIGHTS carries, in this order, those of fds 0, 1, 2 that are open (see
 * `open') and an O_PATH fd of the working folder. After the struct: path, then
 * argc, then envc NUL-terminated strings.
 */
struct fy_stub_hello {
    uint32_t version;
    int32_t pid;
    uint32_t open;      /* bit i: fd i is open */
    uint32_t same;      /* bit 1: fd 1 and fd 2 are one open file description */
    uint32_t extra_fds; /* open fds beyond 2 */
    uint32_t umask;     /* mode bits */
    int32_t nice;       /* -20 .. 19 */
    uint32_t ignored[2];    /* signals that are ignored; bit n-1 of 64 */
    uint32_t blocked[2];    /* signals that are blocked */
    uint16_t rows, columns; /* of the terminal on fd 1 or 0; 0: none */
    uint64_t limits[16][2]; /* getrlimit() of resource i: soft, hard */
    uint32_t argc, envc;
};

/* The way in which a command takes the loss of its reader. */
enum fy_stub_pipes {
    /* It has effects, which go on as they would: an error of writing, SIGPIPE
     * too, is told, and shows in the end. */
    FY_STUB_OUTLIVES = 1,
    FY_STUB_NO_FAILURE = 2,    /* EPIPE is none */
    FY_STUB_NO_SIGNAL = 4,     /* SIGPIPE does not end it */
    FY_STUB_NO_INTERRUPT = 8,  /* SIGINT neither */
    FY_STUB_IGNORES_PIPE = 16, /* SIGPIPE, also of another process */
};

struct fy_stub_run {
    uint32_t reads_stdin; /* 1: send INPUT as WANT allows; a file is put back
                           * to where it stood by EXEC and AGAIN */
    uint32_t keeps_stdin; /* 1: bytes read of a pipe are kept, and EXEC and
                           * AGAIN give them to the original again */
    uint32_t pipes;       /* of enum fy_stub_pipes */
};

struct fy_stub_broken {
    int32_t fd;    /* 0, 1 or 2 */
    int32_t error; /* errno; after EPIPE the stub ends by itself if SIGPIPE
                    * is not ignored and no signal ends the command, and the
                    * session sees the socket close */
};

struct fy_stub_exit {
    int32_t signal;      /* 0, or the signal to die of (core: none here) */
    int32_t status;      /* 0 .. 255 */
    int64_t input_bytes; /* that the command has read of a file that was sent:
                          * it is left there; -1: as it is */
};

#endif
