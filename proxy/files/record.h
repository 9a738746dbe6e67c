/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that a mount has acknowledged to programs and the storage has not answered yet,
 * in a file that outlives the mount's process: the next `ferry mount' names the losses of
 * a killed one. A record is a page that is mapped, so that keeping it costs a store.
 */
#ifndef FERRY_PROXY_FILES_RECORD_H
#define FERRY_PROXY_FILES_RECORD_H

#include <limits.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/status.h"

struct fy_files_record {
    char magic[8];
    uint32_t pid;
    uint32_t files;   /* with bytes that were not answered */
    uint64_t bytes;   /* of acknowledged writes */
    uint64_t changes; /* acknowledged, other than writes (-o async) */
    char place[1024],
        folder[PATH_MAX]; /* source and folder of the mount; cut off */
};

/*
 * Makes the record and maps it, for this process until it ends; it is locked as long,
 * which tells it from one of a process that was killed. The process stores the
 * outstanding writes, and unlinks the file at its end once all is delivered. NULL with
 * errno: none could be made, and none is kept. One caller.
 */
struct fy_files_record *fy_files_record_new(const char *path, const char *place,
                                            const char *folder);

/*
 * Takes away the records of the folder (ends in ".record") whose processes are gone, and
 * calls `lost' for each that had something outstanding. Anything else is left alone.
 */
void fy_files_records_take(const char *folder,
                           void (*lost)(const struct fy_files_record *record,
                                        void *context),
                           void *context);

#endif
