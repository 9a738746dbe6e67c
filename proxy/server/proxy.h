/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outside of the server: the proxy on the storage host. For tools/.
 */
#ifndef FERRY_PROXY_SERVER_PROXY_H
#define FERRY_PROXY_SERVER_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct fy_commands;

struct fy_proxy_options {
    const struct fy_commands *commands; /* this host's own annotations */
    unsigned stages_max;                /* 0: 16 times the cores */
    /* For the stage that it reads, 0: a minute; and the most for a reader of its
     * stderr, 0: 10 s. */
    double wait_seconds;
    double load_max; /* refuse above this load per core; 0: never */
    bool landlock;
};

/*
 * Serves one connection until it ends; kills every stage that still runs, and
 * every other descendant of the calling process, which adopts the processes
 * that stages leave behind and should do nothing else. Takes both descriptors,
 * which should not be 0-2. Returns the exit status; errors are said on stderr.
 */
int fy_proxy_serve(int in_fd, int out_fd,
                   const struct fy_proxy_options *options);

#endif
