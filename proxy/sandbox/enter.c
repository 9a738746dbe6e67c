/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stage's process does to itself between fork and exec, and the Landlock
 * rules that it puts on: its root, the system's folders to read and execute, a
 * private folder for temporary files, no TCP, no signals or abstract sockets to
 * others. So a path that changed since the check still leads nowhere else.
 *
 * The kernel's structures are spelt here: Debian 12's headers are older than
 * what kernels offer.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/path.h"
#include "proxy/sandbox/policy.h"

struct ruleset_attributes { /* as of ABI 6 */
    uint64_t files, network, scopes;
};

struct beneath_rule {
    uint64_t access;
    int32_t parent;
} __attribute__((packed));

enum {
    RULE_BENEATH = 1,
    CREATE_VERSION = 1,
};

#define EXECUTE     (UINT64_C(1) << 0)
#define WRITE_FILE  (UINT64_C(1) << 1)
#define READ_FILE   (UINT64_C(1) << 2)
#define READ_FOLDER (UINT64_C(1) << 3)
#define MAKE_ANY    UINT64_C(0x1ff0) /* remove, make */
#define REFER       (UINT64_C(1) << 13)
#define TRUNCATE    (UINT64_C(1) << 14)
#define READ        (READ_FILE | READ_FOLDER)
#define ANYTHING    (WRITE_FILE | READ | MAKE_ANY | REFER | TRUNCATE)
#define DEVICE      (READ_FILE | WRITE_FILE | TRUNCATE)
#define BIND_TCP    UINT64_C(1)
#define CONNECT_TCP UINT64_C(2)
#define SCOPES      UINT64_C(3) /* abstract unix sockets, signals */

unsigned
fy_landlock_version(void)
{
    long version =
        syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);
    /* The first version forbids every rename to another folder. */
    return version >= 2 ? (unsigned)version : 0;
}

static const struct {
    const char *path;
    uint64_t access;
} system_paths[] = {
    {"/usr", READ | EXECUTE},
    {"/bin", READ | EXECUTE},
    {"/sbin", READ | EXECUTE},
    {"/lib", READ | EXECUTE},
    {"/lib32", READ | EXECUTE},
    {"/lib64", READ | EXECUTE},
    {"/libx32", READ | EXECUTE},
    {"/opt", READ | EXECUTE},
    {"/nix/store", READ | EXECUTE},
    {"/gnu/store", READ | EXECUTE},
    {"/etc", READ},
    {"/proc", READ},
    {"/sys/devices/system", READ},
    {"/var/cache/fontconfig", READ},
    {"/dev/null", DEVICE},
    {"/dev/zero", DEVICE},
    {"/dev/full", DEVICE},
    {"/dev/random", READ_FILE},
    {"/dev/urandom", READ_FILE},
    {"/dev/tty", DEVICE},
};

static void
add_system(struct fy_policy *policy, const char *path, uint64_t access)
{
    int fd =
        policy->nsystem < FY_MAX_SYSTEM ? open(path, O_PATH | O_CLOEXEC) : -1;
    if (fd >= 0) {
        policy->system[policy->nsystem].fd = fd;
        policy->system[policy->nsystem++].access = access;
    }
}

void
fy_landlock_system(struct fy_policy *policy)
{
    for (size_t i = 0; i < sizeof system_paths / sizeof system_paths[0]; i++) {
        add_system(policy, system_paths[i].path, system_paths[i].access);
    }
}

static uint64_t
known(unsigned version)
{
    return version >= 3 ? ANYTHING | EXECUTE : (ANYTHING | EXECUTE) & ~TRUNCATE;
}

static int
allow(unsigned version, int ruleset, int fd, uint64_t access)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return FY_ERR_IO;
    }
    if (!S_ISDIR(about.st_mode)) {
        access &= EXECUTE | DEVICE;
    }
    struct beneath_rule rule = {.access = access & known(version),
                                .parent = fd};
    return syscall(SYS_landlock_add_rule, ruleset, RULE_BENEATH, &rule, 0) == 0
               ? 0
               : FY_ERR_IO;
}

/* Lets files of the image be read; not its root, since all mounts in it lie beneath. */
static int
allow_image(unsigned version, int ruleset, int image)
{
    static const char *const others[] = {".",   "..",  "proc",
                                         "sys", "dev", "tmp"};
    DIR *dir = fy_folder_open(image, ".");
    const struct dirent *entry;
    int status = dir ? 0 : FY_ERR_IO;
    while (!status && (entry = readdir(dir))) {
        bool other = false;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            other = other || strcmp(entry->d_name, others[i]) == 0;
        }
        int fd = other ? -1
                       : openat(image, entry->d_name,
                                O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) {
            status = allow(version, ruleset, fd, READ);
            close(fd);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return status;
}

int
fy_landlock_ruleset(const struct fy_policy *policy,
                    const struct fy_landlock_wish *wish, int *out)
{
    unsigned version = policy->landlock;
    struct ruleset_attributes attributes = {
        .files = known(version),
        .network = version >= 4 ? BIND_TCP | CONNECT_TCP : 0,
        .scopes = version >= 6 ? SCOPES : 0,
    };
    /* Older kernels refuse a structure with more than they know. */
    size_t bytes = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &attributes, bytes, 0);
    if (ruleset < 0) {
        return FY_ERR_IO;
    }
    int status = 0;
    for (unsigned i = 0; !status && !wish->own && i < policy->nsystem; i++) {
        status = allow(version, ruleset, policy->system[i].fd,
                       wish->any_program ? policy->system[i].access
                                         : policy->system[i].access & ~EXECUTE);
    }
    for (unsigned i = 0; !status && i < wish->nfiles; i++) {
        status = allow(version, ruleset, wish->files[i], READ_FILE | EXECUTE);
    }
    for (unsigned i = 0; !status && i < wish->nseen; i++) {
        status = allow(version, ruleset, wish->seen[i].root.fd,
                       wish->seen[i].writes ? ANYTHING : READ);
    }
    if (!status && wish->image >= 0) {
        status = allow_image(version, ruleset, wish->image);
    }
    if (!status && wish->temporary_fd >= 0) {
        status = allow(version, ruleset, wish->temporary_fd, ANYTHING);
    }
    if (status) {
        close(ruleset);
        return status;
    }
    *out = ruleset;
    return 0;
}

/* Nothing that changes the machine; what files need (chown) stays. */
static void
drop_capabilities(void)
{
    static const int dropped[] = {
        CAP_SYS_ADMIN,     CAP_SYS_MODULE,        CAP_SYS_RAWIO,
        CAP_SYS_PTRACE,    CAP_SYS_CHROOT,        CAP_SYS_BOOT,
        CAP_SYS_TIME,      CAP_SYS_PACCT,         CAP_SYS_TTY_CONFIG,
        CAP_NET_ADMIN,     CAP_NET_RAW,           CAP_SYSLOG,
        CAP_MAC_ADMIN,     CAP_MAC_OVERRIDE,      CAP_BPF,
        CAP_PERFMON,       CAP_WAKE_ALARM,        CAP_BLOCK_SUSPEND,
        CAP_AUDIT_CONTROL, CAP_CHECKPOINT_RESTORE};
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++) {
        /* Refused to an ordinary user, who has none to lose. */
        (void)prctl(PR_CAPBSET_DROP, dropped[i], 0, 0, 0);
    }
}

int
fy_sandbox_enter(struct fy_sandbox *sandbox)
{
    static const int types[FY_NAMESPACES] = {CLONE_NEWUSER, CLONE_NEWNS,
                                             CLONE_NEWNET, CLONE_NEWIPC};
    for (unsigned i = 0; sandbox->has_space && i < FY_NAMESPACES; i++) {
        if (sandbox->namespaces[i] >= 0 &&
            setns(sandbox->namespaces[i], types[i]) != 0) {
            return -1;
        }
    }
    char folder[PATH_MAX];
    if (chdir(sandbox->folder) != 0 ||
        syscall(SYS_getcwd, folder, sizeof folder) < 0) {
        return -1;
    }
    if (strcmp(folder, sandbox->folder) != 0) {
        errno = ESTALE; /* a link, since the check */
        return -1;
    }
    umask(sandbox->umask);
    for (unsigned i = 0; i < 16; i++) {
        if (sandbox->limited[i] &&
            setrlimit((__rlimit_resource_t)i, &sandbox->limits[i]) != 0) {
            return -1;
        }
    }
    if (sandbox->nice > getpriority(PRIO_PROCESS, 0) &&
        setpriority(PRIO_PROCESS, 0, sandbox->nice) != 0) {
        return -1;
    }
    drop_capabilities();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    if (sandbox->ruleset >= 0 &&
        syscall(SYS_landlock_restrict_self, sandbox->ruleset, 0) != 0) {
        return -1;
    }
    if (sandbox->filtered && fy_filter_enter() != 0) {
        return -1;
    }
    if (sandbox->plain && fy_filter_attributes() != 0) {
        return -1;
    }
    return fy_filter_guard(sandbox->alone ? fy_sandbox_program(sandbox) : NULL);
}

void
fy_sandbox_free(struct fy_sandbox *sandbox)
{
    if (sandbox && sandbox->ruleset >= 0) {
        close(sandbox->ruleset);
    }
    for (unsigned i = 0; sandbox && sandbox->has_space && i < FY_NAMESPACES;
         i++) {
        if (sandbox->namespaces[i] >= 0) {
            close(sandbox->namespaces[i]);
        }
    }
    free(sandbox);
}

const char *
fy_sandbox_program(const struct fy_sandbox *sandbox)
{
    return *sandbox->linker ? sandbox->linker : sandbox->program;
}

size_t
fy_sandbox_linker(const struct fy_sandbox *sandbox, char *name,
                  char *words[FY_LINKER_WORDS])
{
    const char *const row[FY_LINKER_WORDS] = {
        sandbox->linker,   "--argv0",        name,
        "--inhibit-cache", "--library-path", sandbox->libraries,
        sandbox->program};
    for (size_t i = 0; i < FY_LINKER_WORDS; i++) {
        words[i] = (char *)(uintptr_t)row[i];
    }
    return *sandbox->linker ? FY_LINKER_WORDS : 0;
}

const char *
fy_sandbox_tmpdir(const struct fy_sandbox *sandbox)
{
    return *sandbox->tmpdir ? sandbox->tmpdir : NULL;
}

const char *
fy_sandbox_home(const struct fy_sandbox *sandbox)
{
    return *sandbox->home ? sandbox->home : NULL;
}
