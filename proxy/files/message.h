/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of `ferry mount': sent by client/ (the mount) and server/ (the process
 * next to the files) in the body and the response of one POST /files.
 * proxy/PROTOCOL.md, "Files", has the order of events. One table in message.c says which
 * fields a message has; encoder, decoder, fuzzer and the test of the manual use it.
 *
 * A frame is a head of 24 bytes and the fields, little-endian:
 *   u32 bytes of the fields, u8 type, u8 flags (enum fy_files_frame_flag), u16 0,
 *   u64 id, i32 status, u32 0
 * A request has an id above 0 that grows; its answer has the same type and id, and flag
 * ANSWER. Status is 0, or a negative Linux errno in an answer, which then has no fields.
 * A type without answer, and a message that the server sends unasked, has id 0.
 *
 * Any thread; nothing here keeps state or waits. Decoded bytes borrow from the frame.
 */
#ifndef FERRY_PROXY_FILES_MESSAGE_H
#define FERRY_PROXY_FILES_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/status.h"

enum {
    FY_FILES_VERSION = 4,
    FY_FILES_HEAD_BYTES = 24,
    FY_FILES_DATA_BYTES = 1 << 20, /* of file contents in one message */
    FY_FILES_FRAME_BYTES =
        FY_FILES_DATA_BYTES + (64 << 10), /* fields, at most */
    FY_FILES_NAME_BYTES = 255,
    FY_FILES_PATH_BYTES = 64 << 10, /* longer than PATH_MAX: opened in steps */
    FY_FILES_TOKEN_BYTES = 16,
};

enum fy_files_type {
    FY_FILES_HELLO = 1,
    FY_FILES_LOOKUP,
    FY_FILES_LIST,
    FY_FILES_GETATTR,
    FY_FILES_SETATTR,
    FY_FILES_READLINK,
    FY_FILES_READ,
    FY_FILES_FETCH,
    FY_FILES_WRITE,
    FY_FILES_MAKE,
    FY_FILES_LINK,
    FY_FILES_REMOVE,
    FY_FILES_RENAME,
    FY_FILES_FSYNC,
    FY_FILES_ALLOCATE,
    FY_FILES_SEEK,
    FY_FILES_COPY,
    FY_FILES_GETXATTR,
    FY_FILES_LISTXATTR,
    FY_FILES_SETXATTR,
    FY_FILES_REMOVEXATTR,
    FY_FILES_STATFS,
    FY_FILES_LOCK,
    FY_FILES_GETLOCK,
    FY_FILES_HOLD,
    FY_FILES_BARRIER, /* answered once every change before it was told */
    /* Without answer: */
    FY_FILES_CANCEL, /* the request `number' was interrupted: it ends soon, -EINTR */
    FY_FILES_FORGET, /* kept nodes and watched folders that nothing uses any more */
    FY_FILES_ACK, /* answers up to id `number' have come */
    /* From the server, unasked: */
    FY_FILES_CHANGED, /* of a watched folder */
    /* A folder is watched no longer. A number whose lower half is 0: none below it is,
     * and the changes are not known. */
    FY_FILES_LOST,
    FY_FILES_TYPES
};

enum fy_files_frame_flag {
    FY_FILES_ANSWER = 1 << 0,
    FY_FILES_MORE = 1 << 1, /* of LIST and FETCH: another answer follows */
    /* Sent before, over a connection that broke: the server may have done it. */
    FY_FILES_AGAIN = 1 << 2,
};

/* Bits of `flags', by type. */
enum {
    /* HELLO, request */
    FY_FILES_READ_ONLY = 1 << 0,
    FY_FILES_USERS = 1 << 1, /* new files belong to uid and gid of their MAKE */
    FY_FILES_DEVICES = 1 << 2, /* devices and set-id bits may be made */
    /* HELLO, answer */
    FY_FILES_RESUMED =
        1 << 0, /* the process of the token: it knows its own changes */
    FY_FILES_NOTICES = 1 << 1, /* folders are watched as far as they can be */
    /* LIST: also the folders below, depth first, until `length' bytes were sent */
    FY_FILES_TREE = 1 << 0,
    /* attributes of the folder itself count, too: it need not be whole */
    FY_FILES_SOME = 1 << 1,
    /* LIST, answer: the last part of this folder; the list is complete */
    FY_FILES_WHOLE = 1 << 0,
    /* MAKE of a regular file: fails if the name is there; else it is emptied */
    FY_FILES_EXCLUSIVE = 1 << 0,
    FY_FILES_TRUNCATE = 1 << 1,
    FY_FILES_MADE = 1 << 0,   /* MAKE, answer: it was not there */
    FY_FILES_FOLDER = 1 << 0, /* REMOVE: as rmdir(2) */
    /* RENAME: RENAME_NOREPLACE, RENAME_EXCHANGE of Linux */
    FY_FILES_DATA_ONLY = 1 << 0, /* FSYNC: as fdatasync(2) */
    FY_FILES_FLOCK = 1 << 0,     /* LOCK, GETLOCK: a lock of flock(2) */
    FY_FILES_WAIT = 1 << 1,      /* LOCK: until it is free, or CANCEL */
    FY_FILES_ALL = 1 << 2,     /* LOCK: release all of that owner on the node */
    FY_FILES_PRESENT = 1 << 0, /* CHANGED; LOOKUP, answer: the name is there */
    FY_FILES_OTHERS = 1 << 1,  /* CHANGED: another than the client wrote it */
    /* SETATTR: which fields count */
    FY_FILES_SET_MODE = 1 << 0,
    FY_FILES_SET_UID = 1 << 1,
    FY_FILES_SET_GID = 1 << 2,
    FY_FILES_SET_SIZE = 1 << 3,
    FY_FILES_SET_ATIME = 1 << 4,
    FY_FILES_SET_MTIME = 1 << 5,
    FY_FILES_ATIME_NOW = 1 << 6,
    FY_FILES_MTIME_NOW = 1 << 7,
};

struct fy_files_bytes {
    const char *at;
    size_t n;
};

struct fy_files_time {
    int64_t seconds;
    uint32_t ns;
};

/* The answer of stat(2) at the storage. ino is st_ino on the root's file system, and
 * mixed with st_dev elsewhere. */
struct fy_files_attr {
    uint64_t ino, size, blocks; /* blocks of 512 bytes */
    struct fy_files_time atime, mtime, ctime;
    uint32_t mode, nlink, uid, gid, rdev, blksize;
};

/* A file or folder: by its path below the root ("" is the root; no empty, "." or ".."
 * component), and which it must be (ino; 0: any): else -ESTALE. Or one without a name,
 * which the server holds by a descriptor: kept is not 0, path is empty. */
struct fy_files_node {
    uint64_t kept, ino;
    struct fy_files_bytes path;
};

/* A message; message.c has the fields of each type, and their meanings. */
struct fy_files_message {
    enum fy_files_type type;
    uint8_t frame_flags;
    uint64_t id;
    int32_t status;

    struct fy_files_node node, other;
    struct fy_files_bytes name, other_name;
    uint64_t number, offset, other_offset, length;
    uint64_t
        keep; /* the number under which the server holds a new file, or one that loses
                    * its last name: chosen by the client, never used again; 0: it need not */
    uint32_t flags, mode, uid, gid, rdev, mask;
    struct fy_files_time atime, mtime;
    struct fy_files_attr attr, other_attr, third_attr;
    struct fy_files_bytes data; /* the rest of the frame */
};

/* Bytes that grow; zeroed: empty. */
struct fy_files_out {
    char *bytes; /* owned */
    size_t n, capacity;
    struct fy_files_attr last; /* of the last entry that was put, if n > 0 */
};

/* Frees the bytes; *out is empty. Any thread. */
void fy_files_out_free(struct fy_files_out *out);

/*
 * Appends the frame. FY_ERR_NOMEM, FY_ERR_OVERFLOW (a name, path or frame too long),
 * FY_ERR_INVALID (the type has no such message): nothing was appended.
 */
int fy_files_encode(const struct fy_files_message *message,
                    struct fy_files_out *out) FY_MUST_CHECK;

/*
 * Appends to the data of a frame of fy_files_encode() which has data and is all of
 * *frame. FY_ERR_NOMEM; FY_ERR_OVERFLOW: more than FY_FILES_DATA_BYTES: nothing was
 * appended.
 */
int fy_files_data_add(struct fy_files_out *frame, const void *bytes,
                      size_t n) FY_MUST_CHECK;

/*
 * The first frame of n bytes. FY_ERR_BUSY: not complete; *out_bytes is then its whole
 * size, as far as is known. FY_ERR_INVALID: no such message: unknown type, a field that
 * is cut off or out of its range, bytes left over, a name with '/' or NUL or of "." and
 * "..", a path out of the root; `why' says which. Else *out_bytes were used.
 */
int fy_files_decode(const void *bytes, size_t n, struct fy_files_message *out,
                    size_t *out_bytes, struct fy_buffer *why) FY_MUST_CHECK;

/* ---- rows in `data' ---------------------------------------------------------------- */

/* LIST, answer: one name of the folder; its attributes; a link's target. mode 0:
 * attributes could not be had but ino and, as rdev, the type: ask by LOOKUP. */
struct fy_files_entry {
    struct fy_files_bytes name, target;
    struct fy_files_attr attr;
};

/* Appends the row to bytes that hold no other rows, by the differences from the row
 * before. FY_ERR_NOMEM, FY_ERR_OVERFLOW: nothing was appended. */
int fy_files_entry_put(const struct fy_files_entry *entry,
                       struct fy_files_out *out) FY_MUST_CHECK;
/* Takes the next row off *data. out->attr is that of the row before, or zeros before the
 * first row. False: there is none, or (data->n > 0) it is not one. */
bool fy_files_entry_take(struct fy_files_bytes *data,
                         struct fy_files_entry *out);

/* FETCH, HOLD: nodes, each to be read from its begin, or to be held. Appends a row; as
 * fy_files_entry_put(). */
int fy_files_node_put(const struct fy_files_node *node,
                      struct fy_files_out *out) FY_MUST_CHECK;
/* Takes a row, as fy_files_entry_take(). */
bool fy_files_node_take(struct fy_files_bytes *data, struct fy_files_node *out);

/* FORGET: a kept node's number times 2 plus 1, a watched folder's number times 2. HOLD,
 * answer: the number of the file that is not held. Appends a row; as
 * fy_files_entry_put(). */
int fy_files_number_put(uint64_t number,
                        struct fy_files_out *out) FY_MUST_CHECK;
/* Takes a row, as fy_files_entry_take(). */
bool fy_files_number_take(struct fy_files_bytes *data, uint64_t *out);

/* ---- the table ---------------------------------------------------------------------- */

/* The name of a type ("lookup"); NULL: no such type. */
const char *fy_files_type_name(enum fy_files_type type);
/* Whether it changes something at the storage: refused by a proxy that only reads, never
 * done twice, and counted by CHANGED. */
bool fy_files_type_changes(enum fy_files_type type);
/* Appends the names of the fields that its request (or its answer) has, separated by
 * blanks. False: there is no such message. */
bool fy_files_type_fields(enum fy_files_type type, bool answer,
                          struct fy_buffer *out);

#endif
