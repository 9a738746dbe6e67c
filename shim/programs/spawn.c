/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrappers of posix_spawn and its relatives. The call fails, or does not,
 * as the original does for the program; a stub that cannot be started is
 * as if it had never been tried.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/arch/x86_64/raw.h"
#include "shim/programs/exec.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * Returns true if the error is surely one of the exec of the stub, and not of
 * a file action, which must not be done twice.
 */
static bool
is_of_stub(int status, const char *stub, bool actions)
{
    return !actions || status == E2BIG || status == ENOEXEC ||
           fy_raw(SYS_faccessat, AT_FDCWD, (long)stub, X_OK, 0, 0, 0) != 0;
}

static int
spawn(enum fy_wrapped which, bool search, pid_t *pid, const char *path,
      const posix_spawn_file_actions_t *actions,
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
        /* With other ids other things can be executed; make asks always. */
        .whole = !(flags & POSIX_SPAWN_RESETIDS) || fy_ids_are_same(),
        .fds_change = acts,
    };
    struct fy_plan plan;
    char *const *environment = envp;
    fy_plan_make(&target, argv, envp, &plan);
    void *env_room = NULL, *stub_room = NULL;
    size_t limit = fy_room_limit(plan.env_bytes + plan.stub_bytes);
    if (plan.env_bytes) {
        env_room = FY_ROOM(plan.env_bytes, limit);
    }
    if (env_room) {
        environment = fy_plan_environment(&plan, env_room);
    }
    if (plan.stub_bytes) {
        stub_room = FY_ROOM(plan.stub_bytes, limit);
    }
    fy_spawn_fn *original = FY_ORIGINAL(fy_spawn_fn, which);
    int status = 0;
    bool tried = false;
    if (stub_room) {
        char *const *list = fy_plan_stub(&plan, &target, stub_room);
        status = original(pid, list[0], actions, attributes, list, environment);
        tried = status == 0 || !is_of_stub(status, list[0], acts);
        fy_room_free(stub_room, plan.stub_bytes, limit);
    }
    if (!tried) {
        status = original(pid, path, actions, attributes, argv, environment);
        if (status == E2BIG && env_room) {
            status = original(pid, path, actions, attributes, argv, envp);
        }
    }
    fy_room_free(env_room, plan.env_bytes, limit);
    return status;
}

int
fy_spawn(pid_t *pid, const char *path,
         const posix_spawn_file_actions_t *actions,
         const posix_spawnattr_t *attributes, char *const argv[],
         char *const envp[])
{
    return spawn(FY_SPAWN, false, pid, path, actions, attributes, argv, envp);
}

EXPORT __attribute__((alias("fy_spawn"))) fy_spawn_fn posix_spawn;

EXPORT int
posix_spawnp(pid_t *pid, const char *file,
             const posix_spawn_file_actions_t *actions,
             const posix_spawnattr_t *attributes, char *const argv[],
             char *const envp[])
{
    return spawn(FY_SPAWNP, true, pid, file, actions, attributes, argv, envp);
}

/* Only where libc has them: a program may ask whether they are there. */
#ifdef HAVE_PIDFD_SPAWN
EXPORT int
pidfd_spawn(int *pidfd, const char *path,
            const posix_spawn_file_actions_t *actions,
            const posix_spawnattr_t *attributes, char *const argv[],
            char *const envp[])
{
    return spawn(FY_PIDFD_SPAWN, false, pidfd, path, actions, attributes, argv,
                 envp);
}

EXPORT int
pidfd_spawnp(int *pidfd, const char *file,
             const posix_spawn_file_actions_t *actions,
             const posix_spawnattr_t *attributes, char *const argv[],
             char *const envp[])
{
    return spawn(FY_PIDFD_SPAWNP, true, pidfd, file, actions, attributes, argv,
                 envp);
}
#endif
