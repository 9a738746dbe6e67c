/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of `ferry mount': serves one mount until it is unmounted. The program
 * ferry-mount is a thin main around this function; only that program links libfuse3.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_MOUNT_H
#define FERRY_PROXY_FILES_CLIENT_MOUNT_H

#include <stdbool.h>

#include "common/buffer.h"
#include "common/status.h"

/* Texts are borrowed for the whole call. Zeroed fields are the defaults. */
struct fy_files_mount_options {
    const char *place;   /* as fy_place_parse() takes it: "ssh://host/path" */
    const char *folder;  /* the mount point: absolute, a folder that exists */
    const char *source;  /* shown by mount(8); NULL: the place */
    const char *ferry;   /* this machine's ferry, for loopback places */
    const char *control; /* path of the control socket; NULL: there is none */
    /* Further options of mount(8), joined by commas: "nosuid,max_read=131072"; NULL */
    const char *kernel_options;
    bool read_only;
    bool strict;      /* attributes are asked at each open */
    bool async;       /* create, mkdir, symlink and close do not wait */
    bool allow_other; /* also for other users of this machine */
    /* Owners are the storage's numbers, and new files belong to their caller; else the
     * proxy's user is shown as the user who mounts. */
    bool numbers;
    bool devices; /* devices and set-id bits may be made and have effect */
    unsigned soft_seconds; /* a broken link for so long: EIO; 0: calls wait */
    /* How old names and attributes may be that no notice covers; 0: 3 s. */
    unsigned ac_ms;
    /* Called once, when the mount answers; may be NULL. */
    void (*ready)(void *context);
    void *context;
};

/*
 * Connects, mounts, serves, unmounts. Returns 0 after an unmount of any kind. Errors, with
 * `why': FY_ERR_INVALID (the place), FY_ERR_UNSUPPORTED (the proxy's version, FUSE),
 * FY_ERR_NOENT (no such root there), FY_ERR_IO (no connection, no mount, or writes that
 * were acknowledged could not be delivered: `why' then says how many bytes), FY_ERR_NOMEM.
 *
 * Once a process, in its only thread. Starts one thread of its own. SIGINT, SIGTERM and
 * SIGHUP unmount; SIGPIPE is ignored. Children (ssh) are its own.
 */
int fy_files_mount(const struct fy_files_mount_options *options,
                   struct fy_buffer *why) FY_MUST_CHECK;

#endif
