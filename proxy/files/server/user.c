/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that belong to the user who makes them, where the proxy is root's. Linux has a
 * user of file systems for each thread; libc's calls would change it for all threads'
 * other ids, so the system calls are made here. The thread keeps its rights on files: it
 * was the client's kernel that decided whether the user may make the file.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The rights that a change of the user has taken. */
static int
raise_rights(void)
{
    struct __user_cap_header_struct head = {.version =
                                                _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &head, sets) != 0) {
        return -errno;
    }
    sets[0].effective = sets[0].permitted;
    sets[1].effective = sets[1].permitted;
    return syscall(SYS_capset, &head, sets) != 0 ? -errno : 0;
}

/* -1 changes nothing and tells the one that counts. */
static bool
set_ids(uint32_t uid, uint32_t gid)
{
    (void)syscall(SYS_setfsgid, gid);
    (void)syscall(SYS_setfsuid, uid);
    return (uint32_t)syscall(SYS_setfsuid, UINT32_MAX) == uid &&
           (uint32_t)syscall(SYS_setfsgid, UINT32_MAX) == gid;
}

int
fy_files_user_begin(const struct fy_files_server *server, uint32_t uid,
                    uint32_t gid)
{
    if (!(server->flags & FY_FILES_USERS)) {
        return 0;
    }
    int status = set_ids(uid, gid) ? raise_rights() : -EINVAL;
    if (status) {
        fy_files_user_end(server);
    }
    return status;
}

void
fy_files_user_end(const struct fy_files_server *server)
{
    if (server->flags & FY_FILES_USERS) {
        (void)set_ids(geteuid(), getegid());
        (void)raise_rights();
    }
}
