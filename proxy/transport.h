/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a session reaches a proxy: a child process (or socket) whose two
 * descriptors carry the wire. One row a kind in transport.c; a new kind is one
 * function and one row.
 */
#ifndef FERRY_PROXY_TRANSPORT_H
#define FERRY_PROXY_TRANSPORT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buffer.h"
#include "common/status.h"

/*
 * Where a mount's files really are:
 *   ssh://[user@]host[:port]/path     ferry proxy --stdio over ssh
 *   loopback:///path                  a proxy on this machine, by socketpair
 *   tls://host[:port]/path            refused for now: FY_ERR_UNSUPPORTED
 * Each may be followed by ?fault=... (tests; see fault.c) and, for ssh,
 * ?option=... as for ssh -o, repeated with '&'.
 */
struct fy_place {
    const struct fy_transport *transport;
    char user[64], host[256]; /* "" when absent */
    char port[8];
    char path[PATH_MAX];      /* absolute on that host */
    char fault[256];          /* "" without */
    char options[8][256];     /* of ssh */
    unsigned noptions;
};

struct fy_transport {
    const char *scheme;
    /* Starts it; two fds (may be one) and the child's pid (or 0). */
    int (*open)(const struct fy_place *place, const char *ferry_path,
                struct fy_buffer *why, int *out_in, int *out_out,
                pid_t *out_pid);
};

int fy_place_parse(const char *text, struct fy_place *out,
                   struct fy_buffer *why) FY_MUST_CHECK;
/* Same host, user, port, options: one connection serves both. */
bool fy_place_same_host(const struct fy_place *a, const struct fy_place *b);
/* "ssh://user@host:port", for reports. */
void fy_place_name(const struct fy_place *place, struct fy_buffer *out);

/* ---- mounts.c ---------------------------------------------------------------- */

struct fy_mount {
    char path[PATH_MAX]; /* mount point on this machine, absolute, no link */
    uint64_t device;     /* st_dev */
    char type[32];       /* "fuse.sshfs", "nfs4", ...; "" when only configured */
    struct fy_place place;
    bool configured;     /* by --mount or ferry.conf: said when it fails */
    char found_by[64];   /* for --explain: "mountinfo", "--mount", "ferry.conf" */
};

enum { FY_MAX_MOUNTS = 64 };

/*
 * `configured': texts "DIR=PLACE" (NULL-terminated, may be NULL). Adds what
 * /proc/self/mountinfo names (sshfs, nfs, gluster) unless configured. A text that cannot
 * be parsed or a DIR that is no folder: FY_ERR_INVALID with `why'.
 */
int fy_mounts_find(const char *const *configured, bool discover,
                   struct fy_mount *out, unsigned *out_n,
                   struct fy_buffer *why) FY_MUST_CHECK;

/* Other mounts of this machine below `path'; NULL-terminated, new; or NULL. */
char **fy_mounts_below(const char *path);

#endif
