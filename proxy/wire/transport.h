/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a session reaches a proxy: a child process (or socket) whose two
 * descriptors carry the wire. One row a kind in transport.c; a new kind is one
 * function and one row.
 */
#ifndef FERRY_PROXY_WIRE_TRANSPORT_H
#define FERRY_PROXY_WIRE_TRANSPORT_H

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
 * "/~" and "/~/x" are the home of the user there: path is then "~" or "~/x".
 * %XX stands for a byte; a '?' or '%' in the path has to be written so. After
 * a '?', joined by '&':
 *   option=K=V   as ssh -o K=V; may be repeated
 *   config=FILE  as ssh -F; "none" for none
 *   command=CMD  instead of ssh; blanks separate its words
 *   ferry=PATH   of ferry on that host; it is tried before its PATH
 */
struct fy_place {
    const struct fy_transport *transport;
    char user[64], host[256]; /* "" when absent */
    char port[8];
    char path[PATH_MAX];  /* absolute on that host, or "~", "~/..." */
    char options[8][256]; /* of ssh */
    unsigned noptions;
    char config[256], command[256], ferry[256]; /* "" without */
};

/* A proxy that was started. */
struct fy_link {
    int in, out;            /* the wire's bytes: read, write; may be one */
    int said;               /* a file of its stderr */
    pid_t pid;              /* of the child, 0: none */
    bool relays;            /* it holds nothing of its own: SIGTERM ends it */
    unsigned skipped_bytes; /* before the magic line */
    unsigned matched;
    char last;       /* of those before */
    bool whole_line; /* the match begins a line */
};

struct fy_transport {
    const char *scheme;
    /* Starts it; never waits. */
    int (*open)(const struct fy_place *place, const char *ferry_path,
                struct fy_buffer *why, struct fy_link *out);
};

/* Beginnings of `why' if a host has no ferry that fits. */
#define FY_PROXY_MISSING "ferry is not installed there"
#define FY_PROXY_OTHER   "the ferry there speaks protocol "

/* The first line of a proxy (text of a login before it is skipped). */
#define FY_PROXY_MAGIC "ferry-proxy 3\n"

/* Copies the environment of the links to come; before any other thread may
 * change it. Without it each reads the environment as it is. */
void fy_link_prepare(void);
/*
 * Starts the proxy of a place. `ferry_path': of this machine's own ferry, for
 * loopback. Never waits: fy_link_greet() tells when it is there.
 * FY_ERR_UNSUPPORTED, FY_ERR_IO with `why'.
 */
int fy_link_open(const struct fy_place *place, const char *ferry_path,
                 struct fy_buffer *why, struct fy_link *out) FY_MUST_CHECK;
/*
 * Call when `in' is readable until it returns 0: the magic line was read and
 * the wire follows. FY_ERR_BUSY: not yet. FY_ERR_IO: it ended, or its
 * text is no proxy's; `why' says the last that it wrote to stderr.
 */
int fy_link_greet(struct fy_link *link, struct fy_buffer *why) FY_MUST_CHECK;
/* The last line that it wrote to stderr; nothing is added when there is none. */
void fy_link_last_words(const struct fy_link *link, struct fy_buffer *out);
/* Closes the link (in and out only when not -1: set them to -1 when a wire
 * took them) and waits for the child, which is killed after `patience_ms'. */
void fy_link_close(struct fy_link *link, unsigned patience_ms);

/*
 * Starts a shell's script at an ssh place, with `in' (borrowed) as stdin and this
 * process's stdout and stderr; the new process in *out, to be waited for. FY_ERR_INVALID,
 * FY_ERR_IO with `why'; FY_ERR_NOMEM.
 */
int fy_ssh_run(const struct fy_place *place, const char *script, int in,
               struct fy_buffer *why, pid_t *out) FY_MUST_CHECK;

/* Fills *out, on success only. FY_ERR_INVALID, and `why' says where `text' is wrong. */
int fy_place_parse(const char *text, struct fy_place *out,
                   struct fy_buffer *why) FY_MUST_CHECK;
/* Same host, user, port, options: one connection serves both. */
bool fy_place_same_host(const struct fy_place *a, const struct fy_place *b);
/* On this machine: nothing is compressed for it. */
bool fy_place_is_near(const struct fy_place *place);
/* "ssh://user@host:port", for reports. */
void fy_place_name(const struct fy_place *place, struct fy_buffer *out);
/* A text that fy_place_parse() reads as this place. */
void fy_place_write(const struct fy_place *place, struct fy_buffer *out);

/* ---- storage/mounts.c ---------------------------------------------------------------- */

/* Differences between a mount and its host. */
enum fy_mount_trait {
    FY_MOUNT_OWNERS_DIFFER = 1 << 0, /* users or modes */
    FY_MOUNT_MODES_DIFFER = 1 << 1,  /* modes are (umask=) */
    FY_MOUNT_FOLLOWS_LINKS = 1 << 2, /* targets of links, and no links */
    FY_MOUNT_OTHER_FILES = 1 << 3,   /* other names or contents */
    FY_MOUNT_MAPS_USERS = 1 << 4, /* a uid written may be another one there */
    /* All is shown as one user's, uids are written as given. */
    FY_MOUNT_ONE_USER = 1 << 5,
    FY_MOUNT_READ_ONLY = 1 << 6, /* here: nothing may be changed there */
    /* Links that are absolute or hold .. cannot be read. */
    FY_MOUNT_HIDES_LINKS = 1 << 7,
    FY_MOUNT_KEEPS = 1 << 8, /* it has caches that cannot be made to forget */
    /* Each mount of a kind (mounts.c) has these, whatever its options are: */
    FY_MOUNT_BY_NUMBER = 1 << 9, /* users are who they are here, by numbers */
    FY_MOUNT_FUSE = 1 << 10,     /* a process of this machine serves it */
    FY_MOUNT_OTHER_ATTRIBUTES = 1 << 11, /* other inodes, link counts, times */
    FY_MOUNT_BY_PATH = 1 << 12,  /* it remembers by paths, also removed ones */
    FY_MOUNT_MASKS = 1 << 13,    /* the server takes its umask off as well */
    FY_MOUNT_SQUASHES = 1 << 14, /* the server may map root to another user */
    FY_MOUNT_SYNCS = 1 << 15,    /* syncfs(2) waits until the server has all */
    /* It is told of each change there, and says when it has applied them: nothing is
     * refreshed, `control' is asked instead. */
    FY_MOUNT_TOLD = 1 << 16,
    /* Its user there is shown as the one here: numbers that differ are exchanged. */
    FY_MOUNT_SHOWS_SELF = 1 << 17,
    /* The server knows of no open file: if another client removes it, it is lost. */
    FY_MOUNT_LOSES_FILES = 1 << 18,
};

#define FY_USER_UNKNOWN UINT32_MAX /* uid of a mount: before the hello */

struct fy_mount {
    char path[PATH_MAX]; /* mount point on this machine, absolute, no link */
    uint64_t device;     /* st_dev */
    uint64_t
        cover; /* hash of the mount that holds `path', as the session began */
    char type[32]; /* "fuse.sshfs", "nfs4", ...; "" when only configured */
    struct fy_place place;
    bool configured; /* by --mount or ferry.conf: said when it fails */
    unsigned traits; /* of enum fy_mount_trait */
    /* Of its user there, or FY_USER_UNKNOWN; set by the session with ONE_USER. */
    uint32_t uid;
    /* After so long its caches are empty (storage/fresh.c), 0: at once. */
    uint32_t forgets_ms;
    uint32_t kernel_ms; /* sshfs: of that, the kernel's caches; 0: not known */
    pid_t pid;          /* of the process that serves it; 0: not known */
    char control[108];  /* a mount of ferry: its socket (storage/control.h) */
    char found_by[64]; /* for --explain: "mountinfo", "--mount", "ferry.conf" */
};

enum {
    FY_MAX_MOUNTS = 64
};

/*
 * `configured': texts "DIR=PLACE" (NULL-terminated, may be NULL). Adds the mounts of
 * /proc/self/mountinfo (ferry, sshfs, nfs) unless configured. A text that cannot be
 * parsed or a DIR that is no folder: FY_ERR_INVALID with `why'.
 */
int fy_mounts_find(const char *const *configured, bool discover,
                   struct fy_mount *out, unsigned *out_n,
                   struct fy_buffer *why) FY_MUST_CHECK;

/* The same from a text like that file's; `proc': where processes are looked
 * up, "/proc" (tests: another folder). Appends to *out_n. */
void fy_mounts_discover(const char *mountinfo, const char *proc,
                        struct fy_mount *out, unsigned *out_n);

/* Finds the mount on exactly that folder, topmost; `path' as mountinfo has it. False:
 * nothing. A mount of ferry has pid and control if the process that serves it is seen. */
bool fy_mount_at(const char *path, struct fy_mount *out);

/* "[user@]host:[path]" as sshfs and NFS name their source; user, host, path and
 * transport are set. False: no such text. */
bool fy_place_of_source(const char *source, struct fy_place *place);

/* Sets a mount's type ("" : files of this machine), and the traits of its kind. */
void fy_mount_set_type(struct fy_mount *mount, const char *type);

/* The mount that holds a path. */
struct fy_mount_cover {
    uint64_t id;   /* as STATX_MNT_ID has it; 0: none */
    uint64_t hash; /* of all that mountinfo says of the mount */
};

/* Other mounts of this machine below `path', NULL-terminated, new, or NULL; and the mount
 * that holds `path' (may be NULL). */
char **fy_mounts_below(const char *path, struct fy_mount_cover *out_cover);

#endif
