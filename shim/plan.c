/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an exec or a spawn is made into: the environment with ours in it, and
 * the stub in front where the command may be the session's. Both are only
 * prepared here; the wrappers give the room and make the call. Any doubt leaves
 * the call as the program made it. Runs in vfork children.
 */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/arch/x86_64/raw.h"
#include "shim/exec.h"

#define SETTINGS "FERRY_SETTINGS="
#define PRELOAD  "LD_PRELOAD="

enum {
    STUB_ARGUMENTS = 3,    /* stub, socket, path */
    HEAD_BYTES = 256,      /* of a program; the kernel's own limit for #! */
    SPARE_BYTES = 64 << 10 /* between what we count and what the kernel does */
};

static bool
has_prefix(const char *string, const char *prefix)
{
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

/* ---- room --------------------------------------------------------------------- */

void *
fy_room_map(size_t bytes)
{
    long at = fy_raw(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at > 0 || at < -4095 ? (void *)at : NULL;
}

void
fy_room_free(void *room, size_t bytes)
{
    if (room && bytes > FY_PLAN_STACK_BYTES) {
        fy_raw(SYS_munmap, (long)room, (long)bytes, 0, 0, 0, 0);
    }
}

/* ---- environment ----------------------------------------------------------------- */

/* Whether the value begins with our own path as an entry. */
static bool
leads(const char *entry)
{
    return strncmp(entry, fy_hidden.preload, fy_hidden.preload_bytes) == 0 &&
           (entry[fy_hidden.preload_bytes] == '\0' ||
            entry[fy_hidden.preload_bytes] == ':' ||
            entry[fy_hidden.preload_bytes] == ' ');
}

static void
plan_environment(struct fy_plan *plan)
{
    plan->settings_at = plan->preload_at = -1;
    for (plan->nenv = 0; plan->envp && plan->envp[plan->nenv]; plan->nenv++) {
        const char *entry = plan->envp[plan->nenv];
        if (has_prefix(entry, SETTINGS)) {
            plan->settings_at = (long)plan->nenv;
        } else if (has_prefix(entry, PRELOAD)) {
            plan->preload_at = (long)plan->nenv;
        }
    }
    if (!fy_hidden.settings) {
        return;
    }
    if (plan->settings_at >= 0) {
        /* A ferry run inside this one made it; an empty one wants none. */
        if (plan->envp[plan->settings_at][sizeof SETTINGS - 1] == '\0') {
            plan->env_bytes = (plan->nenv + 1) * sizeof(char *);
        }
        return;
    }
    plan->env_bytes = (plan->nenv + 3) * sizeof(char *);
    if (plan->preload_at >= 0 && !leads(plan->envp[plan->preload_at])) {
        plan->env_bytes +=
            fy_hidden.preload_bytes + strlen(plan->envp[plan->preload_at]) + 2;
    }
}

char *const *
fy_plan_environment(const struct fy_plan *plan, void *room)
{
    const char **list = room;
    size_t n = 0;
    for (size_t i = 0; i < plan->nenv; i++) {
        if ((long)i != plan->settings_at) {
            list[n++] = plan->envp[i];
        }
    }
    if (plan->settings_at >= 0) {
        list[n] = NULL;
        return room;
    }
    if (plan->preload_at < 0) {
        list[n++] = fy_hidden.preload;
    } else if (!leads(plan->envp[plan->preload_at])) {
        char *text = (char *)(list + plan->nenv + 3);
        list[plan->preload_at] = text;
        const char *theirs = plan->envp[plan->preload_at] + sizeof PRELOAD - 1;
        text = mempcpy(text, fy_hidden.preload, fy_hidden.preload_bytes);
        *text++ = ':';
        memcpy(text, theirs, strlen(theirs) + 1);
    }
    list[n++] = fy_hidden.settings;
    list[n] = NULL;
    return room;
}

/* ---- the program ------------------------------------------------------------------- */

/* What is known of a target. */
struct found {
    struct fy_file file;
    const char *folder; /* of PATH, when it was searched */
    size_t folder_bytes;
};

static bool
executable(const char *path)
{
    /* With the effective ids, as exec does; Linux before 5.8 cannot. */
    long result =
        fy_raw(SYS_faccessat2, AT_FDCWD, (long)path, X_OK, AT_EACCESS, 0, 0);
    if (result == -ENOSYS || result == -EPERM) {
        result = fy_raw(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0);
    }
    return result == 0;
}

/* FOLDER/NAME, or NAME where the folder is empty. Returns its end. */
static char *
join(char *to, const char *folder, size_t folder_bytes, const char *name)
{
    if (folder_bytes) {
        to = mempcpy(to, folder, folder_bytes);
        *to++ = '/';
    }
    return mempcpy(to, name, strlen(name) + 1);
}

static const char *
search_path(void)
{
    extern char **environ;
    for (char **entry = environ; entry && *entry; entry++) {
        if (has_prefix(*entry, "PATH=")) {
            return *entry + 5;
        }
    }
    return "/bin:/usr/bin";
}

/* Whether execvpe(3) tries the next folder after this error. */
static bool
goes_on_after(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES ||
           error == ENODEV || error == ESTALE || error == ETIMEDOUT;
}

/*
 * The first file that execvpe(3) would manage to start. With a frame of its own
 * for the path.
 */
static __attribute__((noinline)) bool
search(const char *name, struct found *out)
{
    char path[FY_PLAN_PATH_BYTES];
    size_t name_bytes = strlen(name);
    const char *folder = search_path();
    if (name_bytes == 0 || name_bytes >= sizeof path) {
        return false;
    }
    for (;;) {
        size_t bytes = strcspn(folder, ":");
        if (bytes + 1 + name_bytes < sizeof path) {
            join(path, folder, bytes, name);
            int status = fy_file_look(AT_FDCWD, path, 0, &out->file);
            if (status == 0 && S_ISREG(out->file.mode) && executable(path)) {
                out->folder = folder;
                out->folder_bytes = bytes;
                return true;
            }
            if (status && !goes_on_after(-status)) {
                return false;
            }
        }
        folder += bytes;
        if (!*folder++) {
            return false;
        }
    }
}

/* Whether a #! line names something that can be executed. */
static bool
has_interpreter(char *head)
{
    char *start = head + 2 + strspn(head + 2, " \t");
    char *end = start + strcspn(start, " \t\n");
    if (!*end || end == start) {
        return false; /* cut off, or nothing */
    }
    *end = '\0';
    return executable(start);
}

/* Whether the kernel will run what is in the file, as far as we can tell. */
static __attribute__((noinline)) bool
has_program(const char *path)
{
    union {
        Elf64_Ehdr elf;
        char text[HEAD_BYTES];
    } head;
    long file = fy_raw(SYS_openat, AT_FDCWD, (long)path,
                       O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
    if (file < 0) {
        return false;
    }
    long n = fy_raw(SYS_read, file, (long)&head, HEAD_BYTES - 1, 0, 0, 0);
    fy_raw(SYS_close, file, 0, 0, 0, 0, 0);
    if (n < 3) {
        return false;
    }
    head.text[n] = '\0';
    if (head.text[0] == '#' && head.text[1] == '!') {
        return has_interpreter(head.text);
    }
    return n >= (long)sizeof head.elf &&
           memcmp(head.text, ELFMAG, SELFMAG) == 0 &&
           head.elf.e_ident[EI_CLASS] == ELFCLASS64 &&
           head.elf.e_machine == EM_X86_64 &&
           (head.elf.e_type == ET_EXEC || head.elf.e_type == ET_DYN);
}

/* The program's path, in its own frame for the sake of has_program(). */
static __attribute__((noinline)) bool
can_run(const char *name, const struct found *found)
{
    char path[FY_PLAN_PATH_BYTES];
    if (!found->folder) {
        return executable(name) && has_program(name);
    }
    join(path, found->folder, found->folder_bytes, name); /* search()'s */
    return has_program(path);
}

/* ---- the stub --------------------------------------------------------------------- */

static const char *
last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether the arguments with the stub's are sure to fit where the kernel counts. */
static bool
fits(const struct fy_plan *plan)
{
    struct rlimit stack;
    uint64_t most = 6 << 20, bytes = plan->env_bytes + plan->stub_bytes;
    if (fy_raw(SYS_getrlimit, RLIMIT_STACK, (long)&stack, 0, 0, 0, 0) == 0 &&
        stack.rlim_cur / 4 < most) {
        most = stack.rlim_cur / 4;
    }
    for (size_t i = 0; i < plan->nargs; i++) {
        bytes += strlen(plan->argv[i]) + 1 + sizeof(char *);
    }
    for (size_t i = 0; i < plan->nenv; i++) {
        bytes += strlen(plan->envp[i]) + 1 + sizeof(char *);
    }
    return bytes + fy_hidden.settings_bytes + SPARE_BYTES < most;
}

static void
plan_stub(struct fy_plan *plan, const struct fy_target *target,
          const struct found *found)
{
    uint32_t flags;
    const struct fy_snapshot *snapshot = fy_snapshot();
    if (!snapshot ||
        !fy_snapshot_find(snapshot, last_part(target->path), &flags) ||
        !plan->argv || !plan->argv[0] ||
        !fy_touches(snapshot, flags, plan->argv, target->fds_change) ||
        !can_run(target->path, found) ||
        !executable(fy_snapshot_string(snapshot, snapshot->stub))) {
        return;
    }
    while (plan->argv[plan->nargs]) {
        plan->nargs++;
    }
    plan->stub_bytes = (STUB_ARGUMENTS + plan->nargs + 1) * sizeof(char *) +
                       found->folder_bytes + strlen(target->path) + 2;
    plan->snapshot = snapshot;
    plan->folder = found->folder;
    plan->folder_bytes = found->folder_bytes;
    if (!fits(plan)) {
        plan->stub_bytes = 0;
    }
}

char *const *
fy_plan_stub(const struct fy_plan *plan, const struct fy_target *target,
             void *room)
{
    const struct fy_snapshot *snapshot = plan->snapshot;
    const char **list = room;
    char *path = (char *)(list + STUB_ARGUMENTS + plan->nargs + 1);
    join(path, plan->folder, plan->folder_bytes, target->path);
    list[0] = fy_snapshot_string(snapshot, snapshot->stub);
    list[1] = fy_snapshot_string(snapshot, snapshot->socket);
    list[2] = path;
    memcpy(list + STUB_ARGUMENTS, plan->argv,
           (plan->nargs + 1) * sizeof(char *));
    return room;
}

void
fy_plan_make(const struct fy_target *target, char *const argv[],
             char *const envp[], struct fy_plan *out)
{
    struct found found = {.folder = NULL};
    *out = (struct fy_plan){.argv = argv, .envp = envp};
    if (!fy_hidden.settings && !*fy_settings_text()) {
        return;
    }
    bool found_it = false;
    if (target->search && !strchr(target->path, '/')) {
        found_it = search(target->path, &found);
    } else {
        int status =
            fy_file_look(target->dir, target->path, target->flags, &found.file);
        if (status == -ENOENT || status == -ENOTDIR) {
            return; /* a shell that tries every folder of PATH */
        }
        found_it = status == 0;
    }
    /* What it gives more rights to is nobody's to influence. */
    if (found_it && (found.file.mode & (S_ISUID | S_ISGID))) {
        return;
    }
    plan_environment(out);
    if (found_it && S_ISREG(found.file.mode) && target->whole) {
        plan_stub(out, target, &found);
    }
}
