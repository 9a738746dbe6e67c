/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's closure: the file, the interpreter, the libraries that the interpreter
 * lists, and the files that the annotation names, each with the SHA-256 of the content.
 * With these files another host runs the very same program (store.h). Any thread; a closure
 * is used by a single thread at a time.
 */
#ifndef FERRY_PROXY_STORAGE_CLOSURE_H
#define FERRY_PROXY_STORAGE_CLOSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/status.h"

enum {
    FY_CLOSURE_MAX = 1024,           /* files */
    FY_CLOSURE_MAX_BYTES = 64 << 20, /* of all */
};

struct fy_closure_file {
    char *path; /* absolute, as programs open it */
    unsigned char sha256[32];
    uint64_t bytes;
    bool executes;
};

struct fy_closure {
    struct fy_closure_file files[FY_CLOSURE_MAX];
    unsigned n;
    uint64_t bytes;
    uint32_t
        kernel; /* the oldest that all run on: 65536 major + 256 minor + patch */
    unsigned users; /* beside the first */
};

/*
 * Adds a program with all that the linker loads; a file that is in the closure is not
 * added twice. `loads_known': the annotation names all that it loads at run time.
 * FY_ERR_UNSUPPORTED with `why': a script, setuid, or it loads more by names. FY_ERR_OVERFLOW: too many or too large; FY_ERR_IO,
 * FY_ERR_NOMEM. After an error the closure can only be freed.
 */
int fy_closure_add_program(struct fy_closure *closure, const char *path,
                           bool loads_known,
                           struct fy_buffer *why) FY_MUST_CHECK;
/* Adds a regular file, or all below a folder whose path ends in a slash; a missing file is
 * no error and adds nothing. */
int fy_closure_add_file(struct fy_closure *closure,
                        const char *path) FY_MUST_CHECK;
enum {
    FY_CLOSURE_KEY_BYTES = 80,
};
/* Writes a text that names the paths and contents of the closure. */
void fy_closure_key(const struct fy_closure *closure,
                    char out[FY_CLOSURE_KEY_BYTES]);
/* Drops a user; the last user frees the closure. NULL: fine. Users are counted by a single
 * thread. */
void fy_closure_free(struct fy_closure *closure);

/* Returns true if this host's users and groups are named by /etc/passwd and /etc/group
 * alone, as /etc/nsswitch.conf says. Any thread. */
bool fy_names_are_of_files(void);

#endif
