/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine HOW FOLDER COMMAND...: gives up rights, then starts the command, as launchers of
 * sandboxes do.
 *   privileges  no_new_privs
 *   filter      a seccomp filter: no file is removed (EPERM)
 *   killer      one that kills who makes a socket
 *   changes     a Landlock domain: no file is written, made or removed below FOLDER
 *   system      one that reads and executes the system's files alone
 *   spawn       likewise, by posix_spawn with a file action
 *   old         a kernel 4.18: newer system calls are unknown (ENOSYS)
 *   flat        no new namespaces (EPERM)
 *   spaceless   likewise, and no Landlock (ENOSYS)
 * Linked statically it does so unseen by what is preloaded.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void
filter(const int *calls, size_t ncalls, uint32_t action)
{
    struct sock_filter code[96];
    unsigned n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ncalls; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 (uint32_t)calls[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        err(99, "seccomp");
    }
}

static void
allow(int rules, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr below = {
        .allowed_access = rights, .parent_fd = open(path, O_PATH | O_CLOEXEC)};
    if (below.parent_fd >= 0 &&
        syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH,
                &below, 0) != 0) {
        err(99, "%s", path);
    }
}

/* `rights' are left below the folders of the list alone. */
static void
landlock(uint64_t rights, const char *const *folders)
{
    struct landlock_ruleset_attr attributes = {.handled_access_fs = rights};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attributes,
                             sizeof attributes, 0);
    if (rules < 0) {
        err(99, "Landlock");
    }
    for (; *folders; folders++) {
        allow(rules, *folders, rights);
    }
    if (syscall(SYS_landlock_restrict_self, rules, 0) != 0) {
        err(99, "Landlock");
    }
    close(rules);
}

int
main(int argc, char **argv)
{
    static const int removes[] = {SYS_unlink, SYS_unlinkat};
    static const int makes_sockets[] = {SYS_socket};
    static const int newer[] = {SYS_pidfd_send_signal,
                                SYS_io_uring_setup,
                                SYS_open_tree,
                                SYS_move_mount,
                                SYS_fsopen,
                                SYS_fsconfig,
                                SYS_fsmount,
                                SYS_fspick,
                                SYS_pidfd_open,
                                SYS_clone3,
                                SYS_close_range,
                                SYS_openat2,
                                SYS_pidfd_getfd,
                                SYS_faccessat2,
                                SYS_process_madvise,
                                SYS_epoll_pwait2,
                                SYS_mount_setattr,
                                SYS_quotactl_fd,
                                SYS_landlock_create_ruleset,
                                SYS_landlock_add_rule,
                                SYS_landlock_restrict_self,
                                SYS_memfd_secret,
                                448,
                                449,
                                450,
                                451,
                                452,
                                453,
                                454,
                                455,
                                456,
                                457,
                                458,
                                459,
                                460,
                                461,
                                462};
    static const int spaces[] = {SYS_unshare},
                     rules[] = {SYS_landlock_create_ruleset};
    static const char *const nothing[] = {NULL};
    static const char *const systems[] = {"/usr", "/bin",  "/lib", "/lib64",
                                          "/etc", "/proc", NULL};
    if (argc < 4) {
        errx(99, "usage");
    }
    const char *how = argv[1];
    if (geteuid() != 0 || strcmp(how, "privileges") == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    if (strcmp(how, "filter") == 0) {
        filter(removes, 2, SECCOMP_RET_ERRNO | 1);
    } else if (strcmp(how, "killer") == 0) {
        filter(makes_sockets, 1, SECCOMP_RET_KILL_PROCESS);
    } else if (strcmp(how, "old") == 0) {
        filter(newer, sizeof newer / sizeof *newer, SECCOMP_RET_ERRNO | ENOSYS);
    } else if (strcmp(how, "flat") == 0) {
        filter(spaces, 1, SECCOMP_RET_ERRNO | EPERM);
    } else if (strcmp(how, "spaceless") == 0) {
        filter(spaces, 1, SECCOMP_RET_ERRNO | EPERM);
        filter(rules, 1, SECCOMP_RET_ERRNO | ENOSYS);
    } else if (strcmp(how, "changes") == 0) {
        landlock(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                     LANDLOCK_ACCESS_FS_REMOVE_FILE,
                 nothing);
    } else if (strcmp(how, "privileges") != 0) {
        landlock(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE,
                 systems);
    }
    if (strcmp(how, "spawn") == 0) {
        posix_spawn_file_actions_t actions;
        pid_t pid;
        int status;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
        int error =
            posix_spawnp(&pid, argv[3], &actions, NULL, argv + 3, environ);
        if (error != 0) {
            errx(98, "%s: %s", argv[3], strerror(error));
        }
        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    }
    execvp(argv[3], argv + 3);
    err(98, "%s", argv[3]);
}
