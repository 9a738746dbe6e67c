/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrappers of exec. All lead to exec_planned(): the stub first, if the plan
 * has one, then the program that was asked for, by the original of its kind, which
 * searches PATH, falls back to a shell and sets errno as it always did. Nothing
 * here returns after a success, so nothing is freed then: the memory is either
 * gone or, in a vfork child, on a stack that the parent gets back.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/programs/exec.h"

#define EXPORT __attribute__((visibility("default")))

extern char **environ;

/* Which original makes the call. */
enum kind {
    BY_PATH,
    BY_SEARCH,
    BY_FD,
    BY_FOLDER,
    BY_NUMBER,
    BY_NUMBER_AT,
};

static int
call(enum kind kind, const struct fy_target *target, char *const argv[],
     char *const envp[])
{
    switch (kind) {
    case BY_SEARCH:
        return FY_ORIGINAL(fy_execve_fn, FY_EXECVPE)(target->path, argv, envp);
    case BY_FD:
        return FY_ORIGINAL(fy_fexecve_fn, FY_FEXECVE)(target->dir, argv, envp);
    case BY_FOLDER:
        return FY_ORIGINAL(fy_execveat_fn, FY_EXECVEAT)(
            target->dir, target->path, argv, envp, target->flags);
    case BY_NUMBER:
        return (int)FY_ORIGINAL(fy_syscall_fn, FY_SYSCALL)(
            SYS_execve, target->path, argv, envp);
    case BY_NUMBER_AT:
        return (int)FY_ORIGINAL(fy_syscall_fn, FY_SYSCALL)(
            SYS_execveat, target->dir, target->path, argv, envp, target->flags);
    case BY_PATH:
    default:
        return FY_ORIGINAL(fy_execve_fn, FY_EXECVE)(target->path, argv, envp);
    }
}

static int
exec_planned(enum kind kind, const struct fy_target *target, char *const argv[],
             char *const envp[])
{
    struct fy_plan plan;
    char *const *environment = envp;
    int *error = &errno, saved = *error;
    fy_plan_make(target, argv, envp, &plan);
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
    if (stub_room) {
        char *const *list = fy_plan_stub(&plan, target, stub_room);
        FY_ORIGINAL(fy_execve_fn, FY_EXECVE)(list[0], list, environment);
        fy_room_free(stub_room, plan.stub_bytes, limit);
    }
    *error = saved;
    int result = call(kind, target, argv, environment);
    if (env_room && *error == E2BIG) {
        /* Perhaps only ferry's additions are too much. */
        *error = saved;
        result = call(kind, target, argv, envp);
    }
    fy_room_free(env_room, plan.env_bytes, limit);
    return result;
}

static int
exec_path(const char *path, char *const argv[], char *const envp[])
{
    const struct fy_target target = {
        .dir = AT_FDCWD, .path = path, .whole = true};
    return exec_planned(BY_PATH, &target, argv, envp);
}

static int
exec_search(const char *file, char *const argv[], char *const envp[])
{
    const struct fy_target target = {
        .dir = AT_FDCWD, .path = file, .whole = true, .search = true};
    return exec_planned(BY_SEARCH, &target, argv, envp);
}

EXPORT int
execve(const char *path, char *const argv[], char *const envp[])
{
    return exec_path(path, argv, envp);
}

EXPORT int
execv(const char *path, char *const argv[])
{
    return exec_path(path, argv, environ);
}

EXPORT int
execvpe(const char *file, char *const argv[], char *const envp[])
{
    return exec_search(file, argv, envp);
}

EXPORT int
execvp(const char *file, char *const argv[])
{
    return exec_search(file, argv, environ);
}

EXPORT int
fexecve(int fd, char *const argv[], char *const envp[])
{
    const struct fy_target target = {.dir = fd};
    return exec_planned(BY_FD, &target, argv, envp);
}

EXPORT int
execveat(int dir, const char *path, char *const argv[], char *const envp[],
         int flags)
{
    const struct fy_target target = {
        .dir = dir, .path = path, .flags = flags, .whole = flags == 0};
    return exec_planned(BY_FOLDER, &target, argv, envp);
}

/*
 * The lists are counted, then copied to an array as the other functions want
 * it. `first' is in it, and the null pointer.
 */
static size_t
count_list(const char *first, va_list *list)
{
    size_t count = 1;
    if (first) {
        while (va_arg(*list, const char *)) {
            count++;
        }
        count++;
    }
    return count;
}

static char **
fill_list(void *room, const char *first, va_list *list)
{
    const char **to = room;
    for (*to = first; *to; *to = va_arg(*list, const char *)) {
        to++;
    }
    return room;
}

static int
exec_list(enum kind kind, const char *path, const char *first, va_list *list,
          bool has_environment)
{
    va_list again;
    va_copy(again, *list);
    size_t bytes = count_list(first, &again) * sizeof(char *);
    va_end(again);
    size_t limit = fy_room_limit(bytes);
    void *room = FY_ROOM(bytes, limit);
    if (!room) {
        errno = E2BIG; /* they would be, were there memory for the list */
        return -1;
    }
    char **argv = fill_list(room, first, list);
    char *const *envp =
        has_environment ? va_arg(*list, char *const *) : environ;
    int result = kind == BY_SEARCH ? exec_search(path, argv, envp)
                                   : exec_path(path, argv, envp);
    fy_room_free(room, bytes, limit);
    return result;
}

EXPORT int
execl(const char *path, const char *first, ...)
{
    va_list list;
    va_start(list, first);
    int result = exec_list(BY_PATH, path, first, &list, false);
    va_end(list);
    return result;
}

EXPORT int
execlp(const char *file, const char *first, ...)
{
    va_list list;
    va_start(list, first);
    int result = exec_list(BY_SEARCH, file, first, &list, false);
    va_end(list);
    return result;
}

EXPORT int
execle(const char *path, const char *first, ...)
{
    va_list list;
    va_start(list, first);
    int result = exec_list(BY_PATH, path, first, &list, true);
    va_end(list);
    return result;
}

long
fy_syscall_exec(long number, long a, long b, long c, long d, long e)
{
    bool at = number == SYS_execveat;
    const char *path = (const char *)(at ? b : a);
    const struct fy_target target = {
        .dir = at ? (int)a : AT_FDCWD,
        .path = path,
        .flags = at ? (int)e : 0,
        .whole = !at || (int)e == 0,
    };
    return exec_planned(at ? BY_NUMBER_AT : BY_NUMBER, &target,
                        (char *const *)(at ? c : b),
                        (char *const *)(at ? d : c));
}
