/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns an exec or a spawn into a plan: the environment with ferry's variables
 * in it, and the stub in front if the command may be the session's. Both are
 * only prepared here; the wrappers give the room and make the call. Any doubt
 * leaves the call as the program made it. Runs in vfork children.
 */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/debug.h"
#include "shim/arch/x86_64/raw.h"
#include "shim/image/head.h"
#include "shim/programs/exec.h"

#define SETTINGS "FERRY_SETTINGS="
#define PRELOAD  "LD_PRELOAD="

enum {
    STUB_ARGUMENTS = 3,     /* stub, socket, path */
    SPARE_BYTES = 64 << 10, /* between ferry's count and the kernel's */
    PAGE_BYTES = 4096,
    FEW_BYTES = 2 << 10,   /* on any stack */
    MANY_BYTES = 64 << 10, /* on the main thread's */
};

static bool
has_prefix(const char *string, const char *prefix)
{
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

/* access(2) with the effective ids, which Linux before 5.8 does not know. */
static bool
executable(const char *path)
{
    long result =
        fy_raw(SYS_faccessat2, AT_FDCWD, (long)path, X_OK, AT_EACCESS, 0, 0);
    if (result == -ENOSYS || result == -EPERM) {
        result = fy_raw(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0);
    }
    return result == 0;
}

/* ---- refusals of the kernel ----------------------------------------------------- */

/*
 * Asks the kernel for the byte. It copies a mask before it looks at the operation, and
 * takes 0 for none. Valgrind would complain of the latter, and of words of which the
 * program has written a part; some containers forbid the call that valgrind allows.
 */
static bool
faults(uintptr_t at)
{
    uintptr_t word = at & ~7UL;
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)at, 1};
    return (fy_valgrind
                ? fy_raw(SYS_process_vm_readv,
                         fy_raw(SYS_getpid, 0, 0, 0, 0, 0, 0), (long)&to, 1,
                         (long)&from, 1, 0)
                : fy_raw(SYS_rt_sigprocmask, -1, (long)(word ? word : 8), 0, 8,
                         0, 0)) == -EFAULT;
}

/* Returns true for a byte that the kernel can read. `known': a page that it can read. */
static bool
readable(const char *at, uintptr_t *known)
{
    uintptr_t page = (uintptr_t)at / PAGE_BYTES;
    if (page != *known && faults((uintptr_t)at)) {
        return false;
    }
    *known = page;
    return true;
}

static bool
is_text(const char *text, uintptr_t *known)
{
    while (readable(text, known)) {
        size_t left = PAGE_BYTES - (uintptr_t)text % PAGE_BYTES;
        if (memchr(text, '\0', left)) {
            return true;
        }
        text += left;
    }
    return false;
}

/* Returns true if a null pointer ends the list, and all before it are texts;
 * false for no list. */
static bool
are_texts(char *const list[])
{
    uintptr_t row = UINTPTR_MAX, text = UINTPTR_MAX;
    for (; list; list++) {
        if (!readable((const char *)list, &row) ||
            !readable((const char *)(list + 1) - 1, &row)) {
            return false;
        }
        if (!*list) {
            break;
        }
        if (!is_text(*list, &text)) {
            return false;
        }
    }
    return true;
}

/* ---- room --------------------------------------------------------------------- */

void *
fy_room_map(size_t bytes)
{
    long at = fy_raw(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at > 0 || at < -4095 ? (void *)at : NULL;
}

size_t
fy_room_limit(size_t bytes)
{
    return bytes <= FEW_BYTES || bytes > MANY_BYTES ||
                   !fy_stack_is_ample(__builtin_frame_address(0))
               ? FEW_BYTES
               : MANY_BYTES;
}

void
fy_room_free(void *room, size_t bytes, size_t limit)
{
    if (room && bytes > limit) {
        fy_raw(SYS_munmap, (long)room, (long)bytes, 0, 0, 0, 0);
    }
}

/* ---- environment ----------------------------------------------------------------- */

/* Returns true if the value begins with ferry's own path as an entry. */
static bool
leads(const char *entry)
{
    return strncmp(entry, fy_hidden.preload, fy_hidden.preload_bytes) == 0 &&
           (entry[fy_hidden.preload_bytes] == '\0' ||
            entry[fy_hidden.preload_bytes] == ':' ||
            entry[fy_hidden.preload_bytes] == ' ');
}

bool
fy_ids_are_same(void)
{
    return fy_raw(SYS_getuid, 0, 0, 0, 0, 0, 0) ==
               fy_raw(SYS_geteuid, 0, 0, 0, 0, 0, 0) &&
           fy_raw(SYS_getgid, 0, 0, 0, 0, 0, 0) ==
               fy_raw(SYS_getegid, 0, 0, 0, 0, 0, 0);
}

/*
 * In a chroot, or for another user, ld.so would complain that it cannot read
 * our library; and where ids differ it ignores the variable. Asked with the real
 * ids: without the capabilities that exec takes away. Landlock shows in open(2) alone. A
 * program under an inherited filter may not live through ferry's system calls.
 */
static bool
can_preload(void)
{
    long path = (long)(fy_hidden.preload + sizeof PRELOAD - 1);
    if (fy_filter_is_on() || !fy_ids_are_same() ||
        fy_raw(SYS_access, path, R_OK, 0, 0, 0, 0) != 0) {
        return false;
    }
    long file =
        fy_raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (file >= 0) {
        fy_raw(SYS_close, file, 0, 0, 0, 0, 0);
    }
    return file >= 0 || file == -EMFILE || file == -ENFILE;
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
            plan->preload = entry + sizeof PRELOAD - 1;
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
    if (!can_preload()) {
        return;
    }
    plan->env_bytes = (plan->nenv + 3) * sizeof(char *);
    if (plan->preload && leads(plan->envp[plan->preload_at])) {
        plan->preload = NULL; /* as it shall be */
    } else if (plan->preload) {
        plan->preload_bytes = strlen(plan->preload);
        plan->env_bytes += fy_hidden.preload_bytes + plan->preload_bytes + 2;
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
    } else if (plan->preload) {
        char *text = (char *)(list + plan->nenv + 3);
        list[plan->preload_at] = text;
        text = mempcpy(text, fy_hidden.preload, fy_hidden.preload_bytes);
        *text++ = ':';
        text = mempcpy(text, plan->preload, plan->preload_bytes);
        *text = '\0';
    }
    list[n++] = fy_hidden.settings;
    list[n] = NULL;
    return room;
}

/* ---- the program ------------------------------------------------------------------- */

/*
 * stat(2): only calls that programs make at their start, too, for those who
 * let no others through. 0 or a negative error number. NULL: dir itself. Its
 * frame is not to lie below the next ones: a handler's stack may be small.
 */
static __attribute__((noinline)) int
look(int dir, const char *path, int flags, unsigned *out_mode)
{
    struct stat status = {.st_mode = 0};
    long result = fy_raw(SYS_newfstatat, dir, (long)(path ? path : ""),
                         (long)&status, path ? flags : AT_EMPTY_PATH, 0, 0);
    if (result == 0) {
        *out_mode = status.st_mode;
    }
    return (int)result;
}

/* Knowledge of a target. */
struct found {
    unsigned mode;      /* type and permissions */
    const char *folder; /* of PATH, when it was searched */
    size_t folder_bytes;
    struct fy_head head;
};

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

/* Returns true if execvpe(3) tries the next folder after this error. */
static bool
goes_on_after(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES ||
           error == ENODEV || error == ESTALE || error == ETIMEDOUT;
}

/* The first file that execvpe(3) would manage to start. */
static __attribute__((noinline)) bool
search(const char *name, struct found *out)
{
    size_t name_bytes = strlen(name), longest = 0;
    const char *folders = search_path();
    for (const char *at = folders; *at; at += *at == ':') {
        size_t bytes = strcspn(at, ":");
        longest = bytes > longest ? bytes : longest;
        at += bytes;
    }
    if (name_bytes == 0 || name_bytes > NAME_MAX || longest >= PATH_MAX) {
        return false;
    }
    char *path = __builtin_alloca(longest + name_bytes + 2);
    for (const char *at = folders;;) {
        size_t bytes = strcspn(at, ":");
        join(path, at, bytes, name);
        int status = look(AT_FDCWD, path, 0, &out->mode);
        if (status == 0 && S_ISREG(out->mode) && executable(path)) {
            out->folder = at;
            out->folder_bytes = bytes;
            fy_head_read(AT_FDCWD, path, &out->head);
            return true;
        }
        if (status && !goes_on_after(-status)) {
            return false;
        }
        at += bytes;
        if (!*at++) {
            return false;
        }
    }
}

/* Returns true if a #! line names something that can be executed. */
static bool
has_interpreter(struct fy_head *head)
{
    char *start = head->u.text + 2 + strspn(head->u.text + 2, " \t");
    char *end = start + strcspn(start, " \t\n");
    if (!*end || end == start) {
        return false; /* cut off, or nothing */
    }
    char ended_by = *end;
    *end = '\0';
    bool result = executable(start);
    *end = ended_by;
    return result;
}

/* Returns true if the kernel will run it, as far as its head tells. */
static bool
is_program(struct fy_head *head)
{
    if (head->bytes > 2 && memcmp(head->u.text, "#!", 2) == 0) {
        return has_interpreter(head);
    }
    return fy_head_is_elf(head) && !head->foreign &&
           (head->u.elf.e_type == ET_EXEC || head->u.elf.e_type == ET_DYN);
}

/* ---- the stub --------------------------------------------------------------------- */

static const char *
last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Returns true if the arguments with the stub's are sure to fit where the
 * kernel counts. */
static bool
fits(const struct fy_plan *plan)
{
    struct rlimit stack = {0, 0};
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

/* Returns true if the kernel shows the session's socket: this process may look into the
 * session. */
static bool
reaches_session(const struct fy_snapshot *snapshot)
{
    unsigned mode;
    return look(AT_FDCWD, fy_snapshot_string(snapshot, snapshot->socket), 0,
                &mode) == 0;
}

static void
plan_stub(struct fy_plan *plan, const struct fy_target *target,
          struct found *found)
{
    uint32_t flags;
    const struct fy_snapshot *snapshot = fy_snapshot();
    if (!snapshot || !plan->argv || !plan->argv[0]) {
        return;
    }
    if (!fy_snapshot_find(snapshot, last_part(target->path), &flags)) {
        fy_foretell(snapshot, plan->argv);
        return;
    }
    if (!fy_touches(snapshot, flags, plan->argv, target->fds_change) ||
        (!found->folder && !executable(target->path)) ||
        !is_program(&found->head)) {
        return;
    }
    /* File actions cannot be done twice, so it must not fail to start. */
    const char *stub = fy_snapshot_string(snapshot, snapshot->stub);
    fy_head_read(AT_FDCWD, stub, &found->head);
    if (!executable(stub) || !is_program(&found->head) ||
        !reaches_session(snapshot)) {
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

/*
 * Returns true if the dynamic linker will list libraries instead of starting a program
 * (ldd, ld.so --list): packagers read the list, and it must not name ferry's object.
 * Options of the linker may have a value.
 */
static bool
lists_libraries(const struct fy_target *target, char *const argv[],
                char *const envp[])
{
    const char *slash = target->path ? strrchr(target->path, '/') : NULL;
    const char *name = slash ? slash + 1 : target->path;
    for (; envp && *envp; envp++) {
        if (has_prefix(*envp, "LD_TRACE_LOADED_OBJECTS=")) {
            return true;
        }
    }
    if (!name || !argv || !argv[0] ||
        (!has_prefix(name, "ld-linux") && !has_prefix(name, "ld.so"))) {
        return false;
    }
    for (size_t i = 1; argv[i] && (argv[i][0] == '-' || argv[i - 1][0] == '-');
         i++) {
        if (strcmp(argv[i], "--list") == 0) {
            return true;
        }
    }
    return false;
}

void
fy_plan_make(const struct fy_target *target, char *const argv[],
             char *const envp[], struct fy_plan *out)
{
    struct found found;
    *out = (struct fy_plan){.argv = argv, .envp = envp};
    if ((!fy_hidden.settings && !*fy_settings_text()) || !are_texts(argv) ||
        !are_texts(envp)) {
        return;
    }
    found.folder = NULL;
    found.folder_bytes = 0;
    found.head.bytes = 0;
    found.head.foreign = false;
    bool known = false;
    if (target->search && !strchr(target->path, '/')) {
        known = search(target->path, &found);
    } else {
        int status =
            look(target->dir, target->path, target->flags, &found.mode);
        if (status == -ENOENT || status == -ENOTDIR || status == -EFAULT) {
            return; /* a shell that tries every folder of PATH */
        }
        known = status == 0 && S_ISREG(found.mode);
        if (known && (!target->fds_change || *target->path == '/')) {
            fy_head_read(target->dir, target->path, &found.head);
        }
    }
    /* File actions may change the folder that a relative name begins at. */
    if (target->fds_change &&
        *(found.folder ? found.folder : target->path) != '/') {
        known = false;
    }
    /*
     * A setuid program has more rights than who would influence it, and where
     * another dynamic linker loads the program it would complain, or not start.
     */
    if (known && ((found.mode & (S_ISUID | S_ISGID)) || found.head.foreign)) {
        fy_debug(PROGRAMS, "starts %s without ferry: %s", target->path,
                 found.head.foreign ? "another dynamic linker" : "setuid");
        return;
    }
    if (lists_libraries(target, argv, envp)) {
        fy_debug(PROGRAMS, "starts %s without ferry: libraries are listed",
                 target->path);
        return;
    }
    plan_environment(out);
    if (known && target->whole && target->path &&
        (target->dir == AT_FDCWD || *target->path == '/') &&
        !fy_filter_is_on()) {
        plan_stub(out, target, &found);
    }
    /* A path that the kernel has not read may be no text. */
    fy_debug(PROGRAMS, "starts %s%s%s",
             known && target->path ? target->path : "a file",
             out->env_bytes ? "" : ", environment as it is",
             out->stub_bytes ? ", by the stub" : "");
}
