/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of the files process, which serves the requests of one `ferry mount' next
 * to its files. For proxy/server, which forks it.
 */
#ifndef FERRY_PROXY_FILES_SERVER_SERVE_H
#define FERRY_PROXY_FILES_SERVER_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/files/message.h"

struct fy_files_options {
    int root;       /* an O_PATH descriptor of the folder; taken */
    int socket;     /* a connected stream; taken */
    bool read_only; /* whatever the client asks for */
    int door; /* of fy_files_listen(), taken; -1: it ends with the stream */
    unsigned char token[FY_FILES_TOKEN_BYTES];
};

/*
 * Serves until the mount ends, or 120 s after the stream was lost; the exit status of the
 * process, which this should be all of: it changes the umask, signals and limits. Starts
 * threads and ends them.
 */
int fy_files_serve(const struct fy_files_options *options);

/* Before the sandbox: a socket in a private folder, where the process is found again by
 * the token that is made. -1: it cannot be had. */
int fy_files_listen(unsigned char token[FY_FILES_TOKEN_BYTES]);
/* A connection to the process of the token, of this user; -1: there is none. Does not
 * wait. Any thread. */
int fy_files_reach(const void *token, size_t n);

#endif
