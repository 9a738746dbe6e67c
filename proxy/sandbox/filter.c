/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that no stage has a use for, taken from it by seccomp: user
 * namespaces; programs that its annotation does not name; and, of most, sockets
 * (agents and daemons of the user's and of the host's, which no rule about paths
 * keeps anybody from), the memory, limits and priorities of other processes, the
 * kernel's key rings, and what would go around this filter. A tool that is not
 * exploited does not notice: where libc would ask a daemon about users (nscd, sssd),
 * the stage is started without it.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/sandbox/policy.h"

#if defined __x86_64__
#define NATIVE      AUDIT_ARCH_X86_64
#define FOREIGN_BIT 0x40000000 /* x32 */
/* Of the 32-bit calls. */
#define FOREIGN_UNSHARE  310
#define FOREIGN_EXECVEAT 358
#elif defined __aarch64__
#define NATIVE           AUDIT_ARCH_AARCH64
#define FOREIGN_UNSHARE  337
#define FOREIGN_EXECVEAT 387
#endif
#define FOREIGN_EXECVE 11
#define FOREIGN_CLONE  120

#ifdef NATIVE

#define FIELD(name) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name))
#define FAIL(number) \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((number)&SECCOMP_RET_DATA))
#define UNLESS(number, skip) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(number), 0, skip)
#define DENY(number, error) UNLESS(number, 1), FAIL(error)

#ifdef FOREIGN_BIT
#define NO_FOREIGN \
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_BIT, 0, 1), FAIL(ENOSYS),
#else
#define NO_FOREIGN
#endif

static int
install(struct sock_filter *filter, size_t n)
{
    const struct sock_fprog program = {.len = (unsigned short)n,
                                       .filter = filter};
    /* A kernel without it confines by what else it has. */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0 ||
                   errno == EINVAL || errno == ENOSYS
               ? 0
               : -1;
}

#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Allows a call that changes a process if the process is the caller, by 0 or by
 * the number that the stage's program has; `at' is the argument with the number. */
#define SELF(at, self)                                             \
    FIELD(args[at]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0), \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, self, 1, 0), FAIL(EPERM), ALLOW
#define ONLY_SELF(number, self) UNLESS(number, 5), SELF(0, self)
/* As ONLY_SELF, for calls whose first argument says what the second one numbers:
 * `process', not a group or a user. */
#define ONLY_PROCESS_SELF(number, process, self)                         \
    UNLESS(number, 8), FIELD(args[0]),                                   \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, process, 1, 0), FAIL(EPERM), \
        SELF(1, self)

int
fy_filter_enter(void)
{
    const uint32_t self = (uint32_t)getpid();
    struct sock_filter rules[] = {
        FIELD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0),
        FAIL(ENOSYS), /* of another kind: other numbers */
        FIELD(nr),
        NO_FOREIGN DENY(SYS_socket, EACCES),
        DENY(SYS_io_uring_setup, ENOSYS),
        DENY(SYS_ptrace, EPERM),
        DENY(SYS_process_vm_readv, EPERM),
        DENY(SYS_process_vm_writev, EPERM),
        DENY(SYS_pidfd_getfd, EPERM),
        DENY(SYS_keyctl, EPERM),
        DENY(SYS_add_key, EPERM),
        DENY(SYS_request_key, EPERM),
        DENY(SYS_userfaultfd, EPERM),
        DENY(SYS_perf_event_open, EPERM),
        DENY(SYS_bpf, EPERM),
        /* Limits, processors and priorities of the user's other processes. */
        ONLY_SELF(SYS_prlimit64, self),
        ONLY_SELF(SYS_sched_setaffinity, self),
        ONLY_SELF(SYS_sched_setscheduler, self),
        ONLY_SELF(SYS_sched_setparam, self),
        ONLY_SELF(SYS_sched_setattr, self),
        ONLY_SELF(SYS_move_pages, self),
        ONLY_SELF(SYS_migrate_pages, self),
        ONLY_PROCESS_SELF(SYS_setpriority, PRIO_PROCESS, self),
        ONLY_PROCESS_SELF(SYS_ioprio_set, IOPRIO_WHO_PROCESS, self),
        /* Everybody at once: kill(-1). */
        UNLESS(SYS_kill, 3),
        FIELD(args[0]),
        UNLESS(-1, 1),
        FAIL(EPERM),
        ALLOW,
    };
    return install(rules, sizeof rules / sizeof rules[0]);
}

/* Numbers of Linux 6.13, for every processor. */
#define NR_SETXATTRAT    463
#define NR_GETXATTRAT    464
#define NR_LISTXATTRAT   465
#define NR_REMOVEXATTRAT 466

int
fy_filter_attributes(void)
{
    struct sock_filter none[] = {
        FIELD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0),
        ALLOW,
        FIELD(nr),
        NO_FOREIGN DENY(SYS_getxattr, EOPNOTSUPP),
        DENY(SYS_lgetxattr, EOPNOTSUPP),
        DENY(SYS_fgetxattr, EOPNOTSUPP),
        DENY(SYS_listxattr, EOPNOTSUPP),
        DENY(SYS_llistxattr, EOPNOTSUPP),
        DENY(SYS_flistxattr, EOPNOTSUPP),
        DENY(SYS_setxattr, EOPNOTSUPP),
        DENY(SYS_lsetxattr, EOPNOTSUPP),
        DENY(SYS_fsetxattr, EOPNOTSUPP),
        DENY(SYS_removexattr, EOPNOTSUPP),
        DENY(SYS_lremovexattr, EOPNOTSUPP),
        DENY(SYS_fremovexattr, EOPNOTSUPP),
        DENY(NR_SETXATTRAT, ENOSYS),
        DENY(NR_GETXATTRAT, ENOSYS),
        DENY(NR_LISTXATTRAT, ENOSYS),
        DENY(NR_REMOVEXATTRAT, ENOSYS),
        ALLOW,
    };
    return install(none, sizeof none / sizeof none[0]);
}

#define HALF(name, at)                 \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
             offsetof(struct seccomp_data, name) + (size_t)(at))
/* Of unshare() and clone(): the flags are the first. */
#define NO_USER(number)                                            \
    UNLESS(number, 4), FIELD(args[0]),                             \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1), \
        FAIL(EPERM), ALLOW

int
fy_filter_guard(const char *only)
{
    const uint64_t at = (uintptr_t)only;
    struct sock_filter all[] = {
        FIELD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 12, 0),
        FIELD(nr), /* of a 32-bit program */
        NO_USER(FOREIGN_CLONE),
        NO_USER(FOREIGN_UNSHARE),
        ALLOW,
        FIELD(nr),
        NO_FOREIGN NO_USER(SYS_clone),
        NO_USER(SYS_unshare),
        /* Its flags are in memory; libc then does without it. */
        DENY(SYS_clone3, ENOSYS),
        ALLOW,
    };
    struct sock_filter once[] = {
        FIELD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 6, 0),
        FIELD(nr),
        DENY(FOREIGN_EXECVE, EACCES),
        DENY(FOREIGN_EXECVEAT, EACCES),
        ALLOW,
        FIELD(nr),
        NO_FOREIGN DENY(SYS_execveat, EACCES),
        UNLESS(SYS_execve, 5),
        HALF(args[0], 0),
        UNLESS((uint32_t)at, 2),
        HALF(args[0], 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(at >> 32), 1, 0),
        FAIL(EACCES),
        ALLOW,
    };
    if (only && install(once, sizeof once / sizeof once[0]) != 0) {
        return -1;
    }
    return install(all, sizeof all / sizeof all[0]);
}

bool
fy_filter_works(void)
{
    /* EFAULT: it would read the program. */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) != 0 &&
           errno == EFAULT;
}

#else

int
fy_filter_enter(void)
{
    return 0;
}

int
fy_filter_attributes(void)
{
    return 0;
}

int
fy_filter_guard(const char *only)
{
    (void)only;
    return 0;
}

bool
fy_filter_works(void)
{
    return false;
}

#endif
