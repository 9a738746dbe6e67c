/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CBOR bodies of the wire (PROTOCOL.md): the hello of client and proxy, and one
 * stage. Encoded and decoded here only. Everything decoded is untrusted: lengths are
 * checked before allocation; a key that is missing, there twice, of the wrong type or out
 * of range is refused with its name in `why', as is a NUL in anything but tool.identity;
 * unknown keys are skipped unless they begin with '!' (required).
 */
#ifndef FERRY_PROXY_WIRE_SPEC_H
#define FERRY_PROXY_WIRE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buffer.h"
#include "common/status.h"

#define FY_PROTOCOL_VERSION 1

enum {
    FY_SPEC_MAX_MOUNTS = 7, /* beside the first */
    FY_SPEC_MAX_BYTES = 8 << 20,
    FY_SPEC_MAX_STRINGS = 1 << 18, /* argv + env */
};

/* Bytes, not text; borrowed from the block they were decoded from. */
struct fy_bytes {
    const char *at; /* a NUL follows that is not counted */
    size_t n;
};

enum fy_stream_kind {
    FY_STREAM_NULL,   /* /dev/null */
    FY_STREAM_CLOSED, /* not open at all */
    FY_STREAM_WIRE,   /* the request's or response's body, a pipe there */
    FY_STREAM_FILE,   /* a file on the mount, opened there */
    FY_STREAM_LINK,   /* stdin: the stdout of another stage of this proxy */
    FY_STREAM_PTY,    /* a terminal there; bytes as FY_STREAM_WIRE */
    FY_STREAM_SAME,   /* stderr: whatever stdout is */
};

struct fy_stream_spec {
    enum fy_stream_kind kind;
    struct fy_bytes path; /* FILE: as the client names it, absolute */
    int64_t offset;       /* FILE: where the description stands */
    uint32_t flags;       /* FILE: O_ACCMODE | O_APPEND, Linux values */
    uint64_t inode;       /* FILE: as the client sees it; 0 unknown */
    uint64_t stage;       /* LINK: number of the writer's stage */
};

struct fy_tool {
    struct fy_bytes path;     /* of the program, as resolved on the client */
    struct fy_bytes identity; /* see tools.h of the proxy: build-id or hash */
};
/* An identity: the host's own program of that name, whatever it is. */
#define FY_TOOL_THEIRS "any"

struct fy_config_hash { /* an implicit input on the client */
    struct fy_bytes path;
    unsigned char sha256[32]; /* all zero: does not exist there */
    /* The inode of a mount's own folder, and the time of status change in ns, if the
     * mount shows the server's; 0: not known. Without an inode, `changed' is 0 or one of
     * the following, since copies have equal names and times. */
    uint64_t inode, changed;
};
enum {
    /* The client has changed the folder's status since it was refused. */
    FY_CONFIG_JUST_NOW = 1,
    FY_CONFIG_ALIKE = 2, /* it can do so: the host refuses the first time */
};

enum fy_exported {
    FY_EXPORTED_NOT,
    FY_EXPORTED_SAID,  /* ... and the user vouches for the exports */
    FY_EXPORTED_FOUND, /* only if the host's exports say so */
};

/* A file that the storage host has in the store, or lacks, and the path on the client. */
struct fy_carried_file {
    struct fy_bytes path;
    unsigned char sha256[32];
    bool executes;
};

struct fy_mount_spec {
    struct fy_bytes mount; /* the client's mount point */
    struct fy_bytes root;  /* that folder on the storage host */
};

struct fy_stage_spec {
    uint64_t stage; /* chosen by the client, unique on the connection */
    struct fy_tool tool;
    uint32_t argc, envc;
    struct fy_bytes *argv, *env;  /* arrays are owned; env entries NAME=VALUE */
    struct fy_bytes mount;        /* the client's mount point */
    struct fy_bytes root;         /* that folder on the storage host */
    struct fy_mount_spec *mounts; /* further ones that it sees; owned array */
    uint32_t nmounts;
    struct fy_bytes cwd; /* as on the client, absolute */
    uint32_t umask;
    bool hides_links;  /* links that are absolute or go back by .. cannot be
                       * read there */
    bool keeps_names;  /* links that are gone or others are shown for a while */
    bool masks;        /* files made in it have the host's umask as well */
    uint32_t exported; /* NFS mounts: enum fy_exported */
    struct fy_bytes *outputs; /* files of the mounts that the client writes its
                               * output to; owned array */
    uint32_t noutputs;
    int32_t nice;
    uint64_t ignored;       /* signals that are ignored; bit n-1 */
    uint64_t limits[16][2]; /* see client/stub.h; UINT64_MAX: infinity */
    uint16_t rows, columns;
    struct fy_stream_spec in, out, err;
    uint32_t copies; /* the most copies it may be split into; 1: none */
    bool compress;   /* zstd on the body of the response */
    struct fy_config_hash *configs;
    uint32_t nconfigs;
    /* All that the program needs, where the storage host has another program: it runs
     * with these files instead; owned array. */
    struct fy_carried_file *carried;
    uint32_t ncarried;
};

/* Both: sent by the client as the body of POST /hello and answered likewise. */
struct fy_hello {
    uint32_t version;      /* FY_PROTOCOL_VERSION */
    struct fy_bytes ferry; /* package version */
    uint32_t uid, gid;
    unsigned char groups[32]; /* fy_groups_hash() */
    uint32_t cores;
    double load;       /* of the last minute */
    bool spaces;       /* stages see the client's paths (mount namespaces) */
    uint32_t landlock; /* its ABI version; 0: none */
    bool filter;       /* stages without owners' names get no sockets */
};

/* POST /probe: how much is behind these operands. */
struct fy_probe {
    struct fy_bytes mount, root, cwd;
    struct fy_mount_spec *mounts; /* as of a stage */
    uint32_t nmounts;
    uint32_t npaths;
    struct fy_bytes *paths; /* owned array */
    bool tree;              /* add up whole trees (bounded walk) */
};
struct fy_probe_result {
    uint64_t bytes, files;
    bool complete; /* false: the walk was cut short */
};

/* POST /carry: whether a program must be carried, and which files are missing. */
struct fy_carry {
    struct fy_tool tool;
    struct fy_carried_file *carried; /* owned array */
    uint32_t ncarried;
    struct fy_bytes machine; /* of uname(2) on the client; "": not said */
    uint32_t kernel;      /* the oldest that the files run on; see closure.h */
    uint64_t store_bytes; /* limit of the store; 0: the host's */
};
struct fy_carry_result {
    bool same;             /* the storage host has the very program */
    struct fy_bytes lacks; /* a byte for each file: 1, it is missing */
};

/* GET /stage/N/touched: files and folders that the stage changed, as the client
 * names them; for its caches. */
struct fy_touched {
    uint32_t npaths;
    struct fy_bytes *paths; /* owned array */
    bool complete;          /* false: there may be more */
    uint32_t nfolders;
    struct fy_folder *folders; /* owned array: those of `paths', and by a stage
                                  that may have changed owners its files */
    uint32_t nlinks;
    struct fy_link_told *links; /* owned array: those of `paths' */
    uint32_t nfiles;
    struct fy_file_told *files; /* owned array: the regular ones of `paths' */
};
struct fy_folder {
    struct fy_bytes path;
    uint32_t uid; /* its owner, now */
};
struct fy_link_told {
    struct fy_bytes path, target;
    uint64_t modified_s; /* since the epoch, two's complement */
};
struct fy_file_told {
    struct fy_bytes path;
    uint64_t bytes, modified_s; /* as of a link */
    uint32_t mode;              /* permissions: 07777 */
    bool created;               /* since the stage began */
};

/*
 * Encoders return new bytes (free()) in *out, *out_bytes. FY_ERR_NOMEM,
 * FY_ERR_OVERFLOW beyond FY_SPEC_MAX_BYTES.
 * Decoders fill *out, on success only, with pointers into `bytes', which must stay
 * and are changed: a decoded string moves by a byte to end in a NUL. `why' (may be
 * NULL) gets the error. FY_ERR_INVALID, FY_ERR_NOMEM.
 */
int fy_stage_spec_encode(const struct fy_stage_spec *spec, char **out,
                         size_t *out_bytes) FY_MUST_CHECK;
/* Decodes a stage; fy_stage_spec_clear() it. */
int fy_stage_spec_decode(char *bytes, size_t n, struct fy_stage_spec *out,
                         struct fy_buffer *why) FY_MUST_CHECK;
void fy_stage_spec_clear(struct fy_stage_spec *spec); /* the arrays */

/* Mount i of 0 .. nmounts: the first, then the further ones. */
struct fy_mount_spec fy_stage_spec_mount(const struct fy_stage_spec *spec,
                                         uint32_t i);

/* Hashes a set of groups, in any order and number. */
void fy_groups_hash(gid_t *groups, size_t n, unsigned char out[32]);
/* Hashes this process's group and supplementary ones. FY_ERR_NOMEM: all zero. */
int fy_groups_own(unsigned char out[32]);
/* The hello of a client that is this process, encoded; new in *out. FY_ERR_NOMEM. */
int fy_hello_client(char **out, size_t *out_bytes) FY_MUST_CHECK;
/* Both as above; a hello has nothing to clear. */
int fy_hello_encode(const struct fy_hello *hello, char **out,
                    size_t *out_bytes) FY_MUST_CHECK;
int fy_hello_decode(char *bytes, size_t n, struct fy_hello *out,
                    struct fy_buffer *why) FY_MUST_CHECK;

/*
 * Each as above. The clear functions free the arrays, not the bytes that were decoded; a
 * probe result and a carry result have nothing to clear.
 */
int fy_probe_encode(const struct fy_probe *probe, char **out,
                    size_t *out_bytes) FY_MUST_CHECK;
int fy_probe_decode(char *bytes, size_t n, struct fy_probe *out,
                    struct fy_buffer *why) FY_MUST_CHECK;
void fy_probe_clear(struct fy_probe *probe);
int fy_probe_result_encode(const struct fy_probe_result *result, char **out,
                           size_t *out_bytes) FY_MUST_CHECK;
int fy_probe_result_decode(char *bytes, size_t n, struct fy_probe_result *out,
                           struct fy_buffer *why) FY_MUST_CHECK;
int fy_carry_encode(const struct fy_carry *carry, char **out,
                    size_t *out_bytes) FY_MUST_CHECK;
int fy_carry_decode(char *bytes, size_t n, struct fy_carry *out,
                    struct fy_buffer *why) FY_MUST_CHECK;
void fy_carry_clear(struct fy_carry *carry);
int fy_carry_result_encode(const struct fy_carry_result *result, char **out,
                           size_t *out_bytes) FY_MUST_CHECK;
int fy_carry_result_decode(char *bytes, size_t n, struct fy_carry_result *out,
                           struct fy_buffer *why) FY_MUST_CHECK;
int fy_touched_encode(const struct fy_touched *touched, char **out,
                      size_t *out_bytes) FY_MUST_CHECK;
int fy_touched_decode(char *bytes, size_t n, struct fy_touched *out,
                      struct fy_buffer *why) FY_MUST_CHECK;
void fy_touched_clear(struct fy_touched *touched);

/* Row i of all keys of all maps, for tests against PROTOCOL.md; false: none. */
struct fy_spec_key {
    const char *map, *key, *type;
    bool required;
};
bool fy_spec_key(unsigned i, struct fy_spec_key *out);

#endif
