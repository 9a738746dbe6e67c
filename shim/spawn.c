/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrappers of posix_spawn and its relatives. The call fails, or does not,
 * with what the original says of the program; a stub that cannot be started is
 * as if it had never been tried.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/arch/x86_64/raw.h"
#include "shim/exec.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * Whether the error is surely one of the exec of the stub, and not of a file
 * action, which must not be done twice.
 */
static bool
is_of_stub(int status, const char *stub, bool actions)
{
    return !actions || status == E2BIG || status == ENOEXEC ||
           fy_raw(SYS_faccessat, AT_FDCWD, (long)stub, X_OK, 0, 0, 0) != 0;
}

/* Whether POSIX_SPAWN_RESETIDS changes nothing (make sets it always). */
static bool
ids_are_reset(void)
{
    return fy_raw(SYS_getuid, 0, 0, 0, 0, 0, 0) ==
               fy_raw(SYS_geteuid, 0, 0, 0, 0, 0, 0) &&
           fy_raw(SYS_getgid, 0, 0, 0, 0, 0, 0) ==
               fy_raw(SYS_getegid, 0, 0, 0, 0, 0, 0);
}

static int
spawn(fy_spawn_fn *by_path, fy_spawn_fn *original, bool search, pid_t *pid,
      const char *path, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attributes, char *const argv[],
      char *const envp[])
{
    short flags = 0;
    if (attributes) {
        posix_spawnattr_getflags(attributes, &flags);
    }
    bool acts = actions && actions->__used > 0;
    const struct fy_target target = {
        .dir = AT_FDCWD,
        .path = path,
        .search = search,
        /* With other ids other things can be executed. */
        .whole = !(flags & POSIX_SPAWN_RESETIDS) || ids_are_reset(),
        .fds_change = acts,
    };
    struct fy_plan plan;
    char *const *environment = envp;
    fy_plan_make(&target, argv, envp, &plan);
    void *env_room = NULL, *stub_room = NULL;
    if (plan.env_bytes) {
        env_room = FY_ROOM(plan.env_bytes);
    }
    if (env_room) {
        environment = fy_plan_environment(&plan, env_room);
    }
    if (plan.stub_bytes) {
        stub_room = FY_ROOM(plan.stub_bytes);
    }
    int status = -1;
    if (stub_room) {
        char *const *list = fy_plan_stub(&plan, &target, stub_room);
        status = by_path(pid, list[0], actions, attributes, list, environment);
        if (status > 0 && is_of_stub(status, list[0], acts)) {
            status = -1;
        }
        fy_room_free(stub_room, plan.stub_bytes);
    }
    if (status < 0) {
        status = original(pid, path, actions, attributes, argv, environment);
        if (status == E2BIG && env_room) {
            status = original(pid, path, actions, attributes, argv, envp);
        }
    }
    fy_room_free(env_room, plan.env_bytes);
    return status;
}

int
fy_spawn(pid_t *pid, const char *path,
         const posix_spawn_file_actions_t *actions,
         const posix_spawnattr_t *attributes, char *const argv[],
         char *const envp[])
{
    const struct fy_exec_originals *originals = fy_originals();
    return spawn(originals->spawn, originals->spawn, false, pid, path, actions,
                 attributes, argv, envp);
}

EXPORT __attribute__((alias("fy_spawn"))) fy_spawn_fn posix_spawn;

EXPORT int
posix_spawnp(pid_t *pid, const char *file,
             const posix_spawn_file_actions_t *actions,
             const posix_spawnattr_t *attributes, char *const argv[],
             char *const envp[])
{
    const struct fy_exec_originals *originals = fy_originals();
    return spawn(originals->spawn, originals->spawnp, true, pid, file, actions,
                 attributes, argv, envp);
}

/* Only where libc has them: a program may ask whether they are there. */
#ifdef HAVE_PIDFD_SPAWN
EXPORT int
pidfd_spawn(int *pidfd, const char *path,
            const posix_spawn_file_actions_t *actions,
            const posix_spawnattr_t *attributes, char *const argv[],
            char *const envp[])
{
    const struct fy_exec_originals *originals = fy_originals();
    return spawn(originals->pidfd_spawn, originals->pidfd_spawn, false, pidfd,
                 path, actions, attributes, argv, envp);
}

EXPORT int
pidfd_spawnp(int *pidfd, const char *file,
             const posix_spawn_file_actions_t *actions,
             const posix_spawnattr_t *attributes, char *const argv[],
             char *const envp[])
{
    const struct fy_exec_originals *originals = fy_originals();
    return spawn(originals->pidfd_spawn, originals->pidfd_spawnp, true, pidfd,
                 file, actions, attributes, argv, envp);
}
#endif
