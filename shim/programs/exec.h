/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exec half of libferry.so: every way to start a program goes through here, so that
 * it gets back the variables that start/start.c has hidden from this one, and so that an
 * annotated command that could touch a mount becomes a stub.
 *
 *   wrapper -> fy_plan_make() program and environment
 *           -> original(stub)   only when the plan has one; if that fails, and
 *           -> original(path)   always: its result and errno are the program's
 *
 * Rules beyond calls/shim.h's: nothing here waits, locks or allocates (system and
 * popen apart, see spawn.c); a vfork child may run any of it, on its parent's
 * memory, and so may a signal handler.
 */
#ifndef FERRY_SHIM_PROGRAMS_EXEC_H
#define FERRY_SHIM_PROGRAMS_EXEC_H

#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/snapshot.h"
#include "shim/calls/shim.h"

/* ---- start/start.c: ferry's variables, hidden from the program
 * ------------------- */

struct fy_hidden_environment {
    const char *settings; /* "FERRY_SETTINGS=..."; NULL: nothing is hidden */
    const char *preload;  /* "LD_PRELOAD=" and our own path */
    size_t settings_bytes, preload_bytes; /* without NUL */
};
extern FY_HIDDEN struct fy_hidden_environment fy_hidden;

/* ---- start/libc.c: originals ------------------------------------------------------ */

typedef int fy_spawn_fn(pid_t *pid, const char *path,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[],
                        char *const envp[]);

/* The functions that are wrapped; their types follow. */
enum fy_wrapped {
    FY_EXECVE,
    FY_EXECVPE,
    FY_FEXECVE,
    FY_EXECVEAT,
    FY_SPAWN,
    FY_SPAWNP,
    FY_PIDFD_SPAWN,
    FY_PIDFD_SPAWNP,
    FY_SYSCALL,
    FY_SYSTEM,
    FY_POPEN,
    FY_PCLOSE,
    FY_FCLOSE,
    FY_PRCTL,
    FY_LONGJMP, /* as jump.S has them */
    FY_LONGJMP_PLAIN,
    FY_SIGLONGJMP,
    FY_LONGJMP_CHECKED,
    FY_UNSHARE,
    FY_SETNS,
    FY_MREMAP,
    FY_WRAPPED_COUNT
};
_Static_assert(FY_LONGJMP == 14, "jump.S");
typedef int fy_execve_fn(const char *path, char *const argv[],
                         char *const envp[]); /* execvpe too */
typedef int fy_fexecve_fn(int fd, char *const argv[], char *const envp[]);
typedef int fy_execveat_fn(int dir, const char *path, char *const argv[],
                           char *const envp[], int flags);
typedef long fy_syscall_fn(long number, ...);
typedef int fy_system_fn(const char *command);
typedef int fy_prctl_fn(int option, ...);
typedef FILE *fy_popen_fn(const char *command, const char *mode);
typedef int fy_fclose_fn(FILE *stream); /* pclose too */

/*
 * As the next object in line defines it. Looked for at its first call, without
 * a lock, allocation or system call; NULL only where libc is too old for it.
 */
FY_HIDDEN void *fy_original(enum fy_wrapped which);

/* Returns true if the function belongs to another preloaded tool, not to
 * libc. */
FY_HIDDEN bool fy_original_is_foreign(enum fy_wrapped which);
#define FY_ORIGINAL(type, which) ((type *)(uintptr_t)fy_original(which))

/* ---- snapshot.c ------------------------------------------------------------- */

/* The session's snapshot, valid as a whole; NULL without an active session. */
FY_HIDDEN const struct fy_snapshot *fy_snapshot(void);

static inline const char *
fy_snapshot_string(const struct fy_snapshot *snapshot, uint32_t offset)
{
    return (const char *)snapshot + offset;
}

static inline const struct fy_snapshot_mount *
fy_snapshot_mounts(const struct fy_snapshot *snapshot)
{
    return (const void *)((const char *)snapshot + snapshot->mounts);
}

/* Looks for an annotated name; true, and its flags, if there is one. */
FY_HIDDEN bool fy_snapshot_find(const struct fy_snapshot *snapshot,
                                const char *name, uint32_t *out_flags);

/* ---- touch.c ---------------------------------------------------------------- */

/*
 * Returns true if a command could touch a mount of the session; its
 * descriptors are unknown if `fds_change' (file actions of posix_spawn). In
 * doubt true, because the session looks more closely.
 */
FY_HIDDEN bool fy_touches(const struct fy_snapshot *snapshot, uint32_t flags,
                          char *const argv[], bool fds_change);

/* ---- foretell.c --------------------------------------------------------------- */

/* Tells mounts of ferry the words of a command without annotation. */
FY_HIDDEN void fy_foretell(const struct fy_snapshot *snapshot,
                           char *const argv[]);

/* ---- plan.c ------------------------------------------------------------------ */

/* A program to be started, as the caller named it. */
struct fy_target {
    int dir;          /* as execveat's */
    const char *path; /* NULL: dir itself */
    int flags;        /* AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH */
    bool search;      /* path is looked for in PATH */
    bool whole;       /* its path alone names it, where `dir' does not matter */
    bool fds_change;
};

struct fy_plan {
    char *const *argv, *const *envp; /* the caller's */
    size_t env_bytes;  /* room for the repaired environment; 0: envp does */
    size_t stub_bytes; /* room for the stub's arguments; 0: no stub */
    size_t nargs, nenv;
    long settings_at, preload_at; /* rows of envp, or -1 */
    const char *preload;          /* the latter's value */
    size_t preload_bytes;         /* as it was when it was counted */
    const struct fy_snapshot *snapshot;
    const char *folder; /* of PATH, where the program is; not terminated */
    size_t folder_bytes;
};

FY_HIDDEN void fy_plan_make(const struct fy_target *target, char *const argv[],
                            char *const envp[], struct fy_plan *out);

/* Returns true if the effective user and group are the real ones. */
FY_HIDDEN bool fy_ids_are_same(void);

/* Fill rooms of those sizes, and return the list for the original. */
FY_HIDDEN char *const *fy_plan_environment(const struct fy_plan *plan,
                                           void *room);
FY_HIDDEN char *const *fy_plan_stub(const struct fy_plan *plan,
                                    const struct fy_target *target, void *room);

/*
 * Reserves memory for one call: on the wrapper's own stack up to `limit', else
 * in a mapping, which fy_room_free() recognises by its size. NULL: no memory.
 * (A mapping that a vfork child makes and does not free stays in its parent.)
 */
#define FY_ROOM(bytes, limit) \
    ((bytes) <= (limit) ? __builtin_alloca((bytes) | 1) : fy_room_map(bytes))
FY_HIDDEN void *fy_room_map(size_t bytes);
FY_HIDDEN void fy_room_free(void *room, size_t bytes, size_t limit);

/* The limit for rooms of so many bytes in all: a thread may have 16 KiB of stack, a
 * handler less. At most one system call. */
FY_HIDDEN size_t fy_room_limit(size_t bytes);

/* ---- exec.c -------------------------------------------------------------------- */

/* From syscall.S: execve and execveat by number. */
FY_HIDDEN long fy_syscall_exec(long number, long a, long b, long c, long d,
                               long e);

/* ---- calls/filter.c ------------------------------------------------------------------ */

/* From syscall.S: seccomp, and prctl with PR_SET_SECCOMP, by number. */
FY_HIDDEN long fy_syscall_filter(long number, long a, long b, long c, long d,
                                 long e);
/* unshare and setns by their numbers: alone.c. */
FY_HIDDEN long fy_syscall_alone(long number, long a, long b, long c, long d,
                                long e);

/* mremap and userfaultfd by their numbers: memory.c. */
FY_HIDDEN long fy_syscall_memory(long number, long a, long b, long c, long d,
                                 long e);

/* prctl(2), which is exported too. */
int prctl(int option, unsigned long a, unsigned long b, unsigned long c,
          unsigned long d);

/* ---- spawn.c ------------------------------------------------------------------- */

/* posix_spawn(3) under a name that is not exported. */
FY_HIDDEN fy_spawn_fn fy_spawn;

#endif
