/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests: the order, the open mode of the node and the handler of each.
 */
#include "config.h"

#include "proxy/files/server/server.h"

/* All that was asked before is resolved. */
static int
barrier(struct fy_files_request *request, struct fy_files_message *answer)
{
    (void)answer;
    fy_files_tell_all(request->server);
    return 0;
}

const struct fy_files_call fy_files_calls[FY_FILES_TYPES] = {
#define SHARED(access)  FY_FILES_SHARED, FY_FILES_##access
#define ORDERED(access) FY_FILES_ORDERED, FY_FILES_##access
#define ALONE           FY_FILES_ALONE, FY_FILES_NONE
    [FY_FILES_LOOKUP] = {SHARED(NONE), fy_files_lookup},
    [FY_FILES_LIST] = {SHARED(NONE), fy_files_list},
    [FY_FILES_GETATTR] = {SHARED(PATH), fy_files_getattr},
    [FY_FILES_SETATTR] = {ORDERED(PATH), fy_files_setattr},
    [FY_FILES_READLINK] = {SHARED(PATH), fy_files_readlink},
    [FY_FILES_READ] = {SHARED(READS), fy_files_read},
    [FY_FILES_FETCH] = {SHARED(NONE), fy_files_fetch},
    [FY_FILES_WRITE] = {ORDERED(WRITES), fy_files_write},
    [FY_FILES_MAKE] = {ALONE, fy_files_make},
    [FY_FILES_LINK] = {ALONE, fy_files_link},
    [FY_FILES_REMOVE] = {ALONE, fy_files_remove},
    [FY_FILES_RENAME] = {ALONE, fy_files_rename},
    [FY_FILES_FSYNC] = {ORDERED(SYNCS), fy_files_fsync},
    [FY_FILES_ALLOCATE] = {ORDERED(WRITES), fy_files_allocate},
    [FY_FILES_SEEK] = {SHARED(READS), fy_files_seek},
    [FY_FILES_COPY] = {ORDERED(READS), fy_files_copy},
    [FY_FILES_GETXATTR] = {SHARED(PATH), fy_files_getxattr},
    [FY_FILES_LISTXATTR] = {SHARED(PATH), fy_files_listxattr},
    [FY_FILES_SETXATTR] = {ORDERED(PATH), fy_files_setxattr},
    [FY_FILES_REMOVEXATTR] = {ORDERED(PATH), fy_files_removexattr},
    [FY_FILES_STATFS] = {SHARED(PATH), fy_files_statfs},
    [FY_FILES_LOCK] = {ALONE, fy_files_lock},
    [FY_FILES_GETLOCK] = {SHARED(PATH), fy_files_getlock},
    [FY_FILES_HOLD] = {SHARED(NONE), fy_files_hold},
    [FY_FILES_BARRIER] = {ALONE, barrier},
#undef SHARED
#undef ORDERED
#undef ALONE
};
