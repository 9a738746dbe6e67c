/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces in which the client's mount point exists on this host and
 * shows the root. Each is made once, by a child that then ends, and lives on in
 * the descriptors that stages enter by setns(). Nothing of the host is changed:
 * a mount point that does not exist here is made in a file system of memory
 * that shows everything else of its folder as it was.
 *
 * The child uses system calls only; what it cannot do it writes into a pipe.
 * Long because what it mounts in which order can only be read in one piece.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/kernel.h"
#include "common/path.h"
#include "common/whole.h"
#include "proxy/sandbox/policy.h"
#include "proxy/wire/temporary.h"
#include "proxy/wire/transport.h"

enum {
    ENTRIES_MAX = 1024, /* of the folder in which the mount point is missing */
};

/* What the child is to make. Made before fork. */
struct plan {
    enum fy_namespace_kind kind;
    const struct fy_seen *seen;
    unsigned nseen;
    const char *temporary; /* private folder for /tmp */
    bool executes;         /* code on the mounts may be run */
    const char *image; /* the folder that becomes the root; "": the host's */
    bool bound;        /* ends with the thread that forks it */
    uid_t uid;
    gid_t gid;
};

/* What it could not do, and what it left out. */
struct failure {
    int error;
    char what[60];
    size_t emptied_bytes[FY_MAX_SEEN]; /* see struct fy_namespace; no failure */
};

/* File systems of memory that were put over the host's folders so far. */
struct covers {
    dev_t devices[FY_MAX_SEEN];
    unsigned n;
};

static bool
failed(struct failure *failure, const char *what)
{
    failure->error = errno;
    strncpy(failure->what, what, sizeof failure->what - 1);
    return false;
}

static bool
write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

static bool
map_ids(const struct plan *plan, struct failure *failure)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%u %u 1", plan->uid, plan->uid);
    if (!write_file("/proc/self/setgroups", "deny") ||
        !write_file("/proc/self/uid_map", text)) {
        return failed(failure, "mapping the user");
    }
    (void)snprintf(text, sizeof text, "%u %u 1", plan->gid, plan->gid);
    return write_file("/proc/self/gid_map", text) ||
           failed(failure, "mapping the group");
}

static bool
unshare_all(const struct plan *plan, struct failure *failure)
{
    if (plan->kind == FY_NAMESPACE_USER) {
        if (unshare(CLONE_NEWUSER) != 0) {
            return failed(failure, "a user namespace");
        }
        if (!map_ids(plan, failure)) {
            return false;
        }
    }
    if (unshare(CLONE_NEWNS) != 0) {
        return failed(failure, "a mount namespace");
    }
    /* Without them a stage still has no TCP (Landlock). */
    (void)(unshare(CLONE_NEWNET) == 0);
    (void)(unshare(CLONE_NEWIPC) == 0);
    /* Slave: what the host unmounts goes away here too, nothing goes back. */
    if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) != 0) {
        return failed(failure, "private mounts");
    }
    /* Linux 5.2; sandboxes may not have it either. */
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLOEXEC);
    if (tree < 0) {
        return failed(failure, "copies of mounts");
    }
    close(tree);
    return true;
}

static int
clone_tree(int fd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, fd, path,
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flags);
}

static int
attach(int tree, const char *to)
{
    return (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, to,
                        MOVE_MOUNT_F_EMPTY_PATH);
}

/* Shows one entry of `from' in `to', which is ours. */
static bool
show(int from, int to, const char *name, unsigned type)
{
    char target[PATH_MAX];
    if (type == DT_LNK) {
        ssize_t n = readlinkat(from, name, target, sizeof target - 1);
        if (n < 0) {
            return false;
        }
        target[n] = '\0';
        return symlinkat(target, to, name) == 0;
    }
    if (type == DT_DIR) {
        if (mkdirat(to, name, 0755) != 0) {
            return false;
        }
    } else {
        int fd =
            openat(to, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0) {
            return false;
        }
        close(fd);
    }
    int tree = clone_tree(from, name,
                          AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
                              (type == DT_DIR ? AT_RECURSIVE : 0));
    bool shown = tree >= 0 && syscall(SYS_move_mount, tree, "", to, name,
                                      MOVE_MOUNT_F_EMPTY_PATH) == 0;
    if (tree >= 0) {
        close(tree);
    }
    /* What cannot be shown stays empty: nothing there is the client's. */
    return shown || errno == EACCES || errno == ENOENT || errno == EINVAL;
}

/* Everything of `from' in `to'. A folder of too many entries (homes) stays
 * empty: a stage reaches only its mount and the system's folders anyway. */
static bool
show_all(int from, int to, bool must, bool *emptied)
{
    int dir = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        *emptied = true;
        return errno == EACCES && !must;
    }
    _Alignas(struct dirent64) char block[32768];
    unsigned count = 0;
    for (int pass = 0; pass < 2; pass++) {
        struct fy_entries entries = {dir, block, sizeof block, 0, 0};
        const struct dirent64 *entry;
        lseek(dir, 0, SEEK_SET);
        while ((entry = fy_entries_next(&entries))) {
            unsigned type = entry->d_type;
            struct stat about;
            if (strcmp(entry->d_name, ".") == 0 ||
                strcmp(entry->d_name, "..") == 0) {
                continue;
            }
            if (pass == 0) {
                count++;
                continue;
            }
            if (type == DT_UNKNOWN) {
                if (fstatat(dir, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) !=
                    0) {
                    continue;
                }
                type = IFTODT(about.st_mode);
            }
            if (!show(from, to, entry->d_name, type) && errno != EEXIST) {
                close(dir);
                return false;
            }
        }
        if (count > ENTRIES_MAX) {
            errno = E2BIG;
            close(dir);
            *emptied = true;
            return !must;
        }
    }
    close(dir);
    return true;
}

/*
 * The mount point's last existing folder is `folder' (an absolute path without
 * links, "" for "/"): covers it by a file system of memory which shows the same
 * and, at `rest', new folders.
 */
static bool
cover(const char *folder, const char *rest, struct covers *covers,
      size_t *out_emptied, struct failure *failure)
{
    /* Made in our private /tmp, then moved. */
    static const char scratch[] = "/tmp/.ferry-cover";
    const char *from_path = *folder ? folder : "/";
    int from = open(from_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || (mkdir(scratch, 0755) != 0 && errno != EEXIST) ||
        mount("ferry", scratch, "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=0755,size=4m") != 0) {
        return failed(failure, "a file system of memory");
    }
    /* Showing /tmp must not show it within itself. */
    if (mount("none", scratch, NULL, MS_UNBINDABLE, NULL) != 0) {
        return failed(failure, "a private file system of memory");
    }
    int to = open(scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char path[PATH_MAX];
    size_t n = strcspn(rest, "/");
    memcpy(path, rest, n);
    for (;;) {
        path[n] = '\0';
        if (to < 0 || mkdirat(to, path, 0755) != 0) {
            return failed(failure, "the folders of the mount point");
        }
        size_t more = strspn(rest + n, "/");
        if (!rest[n + more]) {
            break;
        }
        size_t next = n + more + strcspn(rest + n + more, "/");
        memcpy(path, rest, next);
        n = next;
    }
    bool must = !*folder || strncmp(folder, "/usr", 4) == 0 ||
                strncmp(folder, "/etc", 4) == 0 ||
                strncmp(folder, "/opt", 4) == 0;
    bool emptied = false;
    if (!show_all(from, to, must, &emptied)) {
        return failed(failure, "showing the mount point's folder");
    }
    struct stat about;
    if (covers->n == FY_MAX_SEEN || fstat(to, &about) != 0) {
        return failed(failure, "a file system of memory");
    }
    covers->devices[covers->n++] = about.st_dev;
    *out_emptied = emptied ? strlen(folder) : 0;
    if (*folder) {
        if (mount(scratch, folder, NULL, MS_MOVE, NULL) != 0) {
            return failed(failure, "covering the mount point's folder");
        }
    } else if (fchdir(to) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
               umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) {
        return failed(failure, "a root of its own");
    }
    rmdir(scratch);
    close(to);
    close(from);
    return true;
}

/* Whether the folder is ours: in our /tmp, or of memory. */
static bool
is_ours(const char *path, dev_t device, const struct covers *covers)
{
    bool ours = strncmp(path, "/tmp/", 5) == 0;
    for (unsigned i = 0; i < covers->n; i++) {
        ours = ours || covers->devices[i] == device;
    }
    return ours;
}

/* Walks to `mount'; makes what is missing. */
static bool
make_point(const char *mount_path, struct covers *covers, size_t *out_emptied,
           struct failure *failure)
{
    char path[PATH_MAX];
    size_t done = 0, n = 0;
    dev_t device = 0; /* of the folder that `path' was looked up in */
    path[0] = '\0';
    struct stat top;
    if (stat("/", &top) == 0) {
        device = top.st_dev;
    }
    for (;;) {
        n = done + 1 + strcspn(mount_path + done + 1, "/");
        memcpy(path, mount_path, n);
        path[n] = '\0';
        struct stat about;
        if (lstat(path, &about) != 0) {
            if (errno != ENOENT) {
                return failed(failure, "the mount point");
            }
            if (!is_ours(path, device, covers)) {
                path[done] = '\0';
                return cover(path, mount_path + done + 1, covers, out_emptied,
                             failure);
            }
            if (mkdir(path, 0755) != 0 || lstat(path, &about) != 0) {
                return failed(failure, "the mount point in a folder of ours");
            }
        } else if (!S_ISDIR(about.st_mode)) {
            errno = S_ISLNK(about.st_mode) ? ELOOP : ENOTDIR;
            return failed(failure, "the mount point");
        }
        if (!mount_path[n]) {
            return true;
        }
        device = about.st_dev;
        done = n;
    }
}

struct mount_change { /* struct mount_attr */
    uint64_t set, clear, propagation, user_namespace;
};

#define READ_ONLY  UINT64_C(1)
#define NO_EXECUTE UINT64_C(8)

static bool
change(int fd, const char *path, uint64_t set)
{
    struct mount_change change = {.set = set};
    return syscall(SYS_mount_setattr, fd, path, AT_EMPTY_PATH | AT_RECURSIVE,
                   &change, sizeof change) == 0;
}

/*
 * Landlock says nothing of owners, modes and times, and a path that was checked
 * may be a link by now: so what is not the mount cannot be changed at all. The
 * mount itself was cloned before. Nor does Landlock keep the linker, which a stage may
 * execute, from loading a program: so nothing of the mounts and of /tmp is mapped as code.
 */
static void
protect(const struct plan *plan, const int *trees, const int temporaries[2])
{
    uint64_t code = plan->executes ? 0 : NO_EXECUTE;
    (void)change(AT_FDCWD, "/", READ_ONLY);
    for (unsigned i = 0; code && i < plan->nseen; i++) {
        (void)change(trees[i], "", code);
    }
    for (unsigned i = 0; code && i < 2; i++) {
        (void)change(temporaries[i], "", code);
    }
}

/* A copy of the mounts at a root, which must be what was checked; -1. */
static int
clone_root(const struct fy_root *root, struct failure *failure)
{
    struct stat about;
    int fd = open(root->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0 || about.st_dev != root->device ||
        about.st_ino != root->inode) {
        errno = fd < 0 ? errno : ESTALE;
        (void)failed(failure, "the root");
        return -1;
    }
    int tree = clone_tree(fd, "", AT_EMPTY_PATH | AT_RECURSIVE);
    if (tree < 0) {
        (void)failed(failure, "copies of mounts");
    }
    close(fd);
    return tree;
}

static bool
place(const struct fy_seen *seen, int tree, struct covers *covers,
      size_t *out_emptied, struct failure *failure)
{
    if (!make_point(seen->mount, covers, out_emptied, failure)) {
        return false;
    }
    if (attach(tree, seen->mount) != 0) {
        return failed(failure, "the mount");
    }
    close(tree);
    return true;
}

/* Once all are there: a later one may have covered an earlier one. */
static bool
look_at(const struct fy_seen *seen, struct failure *failure)
{
    struct stat about;
    char path[PATH_MAX];
    if (chdir(seen->mount) != 0 || stat(".", &about) != 0) {
        return failed(failure, "entering the mount");
    }
    if (about.st_dev != seen->root.device || about.st_ino != seen->root.inode ||
        syscall(SYS_getcwd, path, sizeof path) < 0 ||
        strcmp(path, seen->mount) != 0) {
        errno = ESTALE;
        return failed(failure, "the mount is not what it should be");
    }
    return true;
}

/* Makes the image the root. It has the folders of the mounts already, and shows files
 * that are added later. */
static bool
enter_image(const char *image, struct failure *failure)
{
    static const char *const shared[] = {"/proc", "/sys", "/dev"};
    enum {
        SHARED = sizeof shared / sizeof *shared
    };
    int trees[SHARED], root = clone_tree(AT_FDCWD, image, 0);
    bool good = root >= 0;
    for (unsigned i = 0; i < SHARED; i++) {
        trees[i] = clone_tree(AT_FDCWD, shared[i], AT_RECURSIVE);
        good = good && trees[i] >= 0;
    }
    if (!good || attach(root, image) != 0 || fchdir(root) != 0) {
        return failed(failure, "the image of the client's files");
    }
    for (unsigned i = 0; i < SHARED; i++) {
        if (syscall(SYS_move_mount, trees[i], "", root, shared[i] + 1,
                    MOVE_MOUNT_F_EMPTY_PATH) != 0) {
            return failed(failure, shared[i]);
        }
        close(trees[i]);
    }
    if (syscall(SYS_pivot_root, ".", ".") != 0 ||
        umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) {
        return failed(failure, "a root of its own");
    }
    close(root);
    return true;
}

static bool
build(const struct plan *plan, struct failure *failure)
{
    struct covers covers = {.n = 0};
    int trees[FY_MAX_SEEN];
    for (unsigned i = 0; i < plan->nseen; i++) {
        trees[i] = clone_root(&plan->seen[i].root, failure);
        if (trees[i] < 0) {
            return false;
        }
    }
    int temporaries[] = {clone_tree(AT_FDCWD, plan->temporary, 0),
                         clone_tree(AT_FDCWD, plan->temporary, 0)};
    if (temporaries[0] < 0 || temporaries[1] < 0) {
        return failed(failure, "copies of mounts");
    }
    protect(plan, trees, temporaries);
    if (*plan->image && !enter_image(plan->image, failure)) {
        return false;
    }
    if (attach(temporaries[0], "/tmp") != 0) {
        return failed(failure, "a private /tmp");
    }
    (void)(attach(temporaries[1], "/var/tmp") == 0);
    close(temporaries[0]);
    close(temporaries[1]);
    for (unsigned i = 0; i < plan->nseen; i++) {
        if (!place(&plan->seen[i], trees[i], &covers,
                   &failure->emptied_bytes[i], failure)) {
            return false;
        }
    }
    for (unsigned i = 0; i < plan->nseen; i++) {
        if (!look_at(&plan->seen[i], failure)) {
            return false;
        }
    }
    return true;
}

static const char *const namespace_names[FY_NAMESPACES] = {"user", "mnt", "net",
                                                           "ipc"};

/* Those of the child that are not our own. */
static void
hold(pid_t pid, int fds[FY_NAMESPACES])
{
    for (unsigned i = 0; i < FY_NAMESPACES; i++) {
        char path[64];
        struct stat ours, theirs;
        (void)snprintf(path, sizeof path, "/proc/self/ns/%s",
                       namespace_names[i]);
        bool known = stat(path, &ours) == 0;
        (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid,
                       namespace_names[i]);
        fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (fds[i] >= 0 && known && fstat(fds[i], &theirs) == 0 &&
            ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

/* A child keeps two of the proxy's descriptors. */
static void
keep_descriptors(int a, int b)
{
    int low = a < b ? a : b, high = a < b ? b : a;
    if (low > 0) {
        fy_close_range(0, (unsigned)low - 1, false);
    }
    if (high > low + 1) {
        fy_close_range((unsigned)low + 1, (unsigned)high - 1, false);
    }
    fy_close_range((unsigned)high + 1, ~0U, false);
}

/* ---- a child that is ready before it is known for what ------------------------ */

/* What the child is told; the mounts follow. */
struct order {
    char temporary[PATH_MAX], image[PATH_MAX];
    unsigned nseen;
    bool executes;
};

_Noreturn static void
spare_child(struct plan *plan, pid_t parent, const int up[2], const int down[2])
{
    const int to_parent = up[1], from_parent = down[0];
    static struct order order;
    static struct fy_seen seen[FY_MAX_SEEN];
    struct failure failure = {0};
    if (plan->bound) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    if (getppid() != parent) {
        _exit(0); /* gone before that */
    }
    /* Pipes of stages among the others, whose ends count. */
    keep_descriptors(to_parent, from_parent);
    bool good = unshare_all(plan, &failure);
    if (fy_write_whole(to_parent, &failure, sizeof failure) || !good ||
        fy_read_whole(from_parent, &order, sizeof order) ||
        fy_read_whole(from_parent, seen, order.nseen * sizeof *seen)) {
        _exit(0);
    }
    plan->seen = seen;
    plan->nseen = order.nseen;
    plan->temporary = order.temporary;
    plan->executes = order.executes;
    plan->image = order.image;
    (void)build(plan, &failure);
    char go;
    if (!fy_write_whole(to_parent, &failure, sizeof failure)) {
        /* Until the parent holds our namespaces. */
        (void)!read(from_parent, &go, 1);
    }
    _exit(0);
}

/* False: no process. */
static bool
start_spare(struct fy_policy *policy, enum fy_namespace_kind kind)
{
    /* A thread of the pool ends before the proxy does: then the pipe tells. */
    struct plan plan = {.kind = kind,
                        .bound = gettid() == getpid(),
                        .uid = geteuid(),
                        .gid = getegid()};
    struct fy_spare *spare = &policy->spare;
    int up[2], down[2];
    *spare = (struct fy_spare){.up = -1, .down = -1};
    if (pipe2(up, O_CLOEXEC) != 0) {
        return false;
    }
    if (pipe2(down, O_CLOEXEC) != 0) {
        goto close_up;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        spare_child(&plan, parent, up, down);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(up[1]);
    close(down[0]);
    int process = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (process >= 0) {
        *spare = (struct fy_spare){
            .pid = pid, .process = process, .up = up[0], .down = down[1]};
        return true;
    }
    close(down[1]); /* which ends it */
    close(up[0]);
    return false;
close_up:
    close(up[0]);
    close(up[1]);
    return false;
}

void
fy_namespace_drop(struct fy_policy *policy)
{
    struct fy_spare *spare = &policy->spare;
    siginfo_t info;
    if (spare->pid != 0) {
        close(spare->up);
        close(spare->down);
        (void)syscall(SYS_pidfd_send_signal, spare->process, SIGKILL, NULL, 0);
        /* ECHILD: the proxy's loop has reaped it. */
        while (waitid(P_PIDFD, (id_t)spare->process, &info, WEXITED) < 0 &&
               errno == EINTR) {
        }
        close(spare->process);
    }
    spare->pid = 0;
}

void
fy_namespace_begin(struct fy_policy *policy)
{
    policy->kind = geteuid() == 0 ? FY_NAMESPACE_ROOT : FY_NAMESPACE_USER;
    if (!start_spare(policy, policy->kind)) {
        policy->kind = FY_NAMESPACE_NONE;
        policy->kind_known = true;
    }
}

static void
find_kind(struct fy_policy *policy)
{
    while (!policy->kind_known) {
        struct failure failure;
        bool root = policy->kind == FY_NAMESPACE_ROOT;
        if (!fy_read_whole(policy->spare.up, &failure, sizeof failure) &&
            !failure.error) {
            policy->kind_known = true;
            break;
        }
        fy_namespace_drop(policy);
        /* Root without its privileges, in a container, may be allowed that. */
        bool none = !root || !start_spare(policy, FY_NAMESPACE_USER);
        policy->kind = none ? FY_NAMESPACE_NONE : FY_NAMESPACE_USER;
        policy->kind_known = none;
    }
}

enum fy_namespace_kind
fy_namespace_kind(struct fy_policy *policy)
{
    if (!policy->kind_known) {
        (void)pthread_mutex_lock(&policy->lock);
        find_kind(policy);
        (void)pthread_mutex_unlock(&policy->lock);
    }
    return policy->kind;
}

/* Counts a change of the host's mounts since the last look. */
static void
note_changes(struct fy_policy *policy)
{
    struct pollfd changed = {.fd = policy->mountinfo_fd, .events = POLLPRI};
    if (policy->mountinfo_fd >= 0 && poll(&changed, 1, 0) == 1) {
        policy->mounts_changed++;
    }
}

/* Lets the child that is ready make it. FY_ERR_BUSY: that one is gone. */
static int
tell_spare(const struct fy_spare *spare, const struct plan *plan,
           int fds[FY_NAMESPACES], struct failure *failure)
{
    static struct order order;
    order.nseen = plan->nseen;
    order.executes = plan->executes;
    strcpy(order.temporary, plan->temporary);
    strcpy(order.image, plan->image);
    if (fy_write_whole(spare->down, &order, sizeof order) ||
        fy_write_whole(spare->down, plan->seen,
                       plan->nseen * sizeof *plan->seen) ||
        fy_read_whole(spare->up, failure, sizeof *failure)) {
        return FY_ERR_BUSY;
    }
    if (failure->error) {
        return FY_ERR_IO;
    }
    hold(spare->pid, fds);
    return 0;
}

/* By the child that is ready, which has the mounts of the beginning, or by one that is
 * started now. */
static int
make(struct fy_policy *policy, const struct plan *plan, int fds[FY_NAMESPACES],
     struct failure *failure)
{
    struct fy_spare *spare = &policy->spare;
    int status = FY_ERR_BUSY;
    note_changes(policy);
    if (spare->pid != 0 && policy->mountinfo_fd >= 0 &&
        policy->mounts_changed == 0) {
        status = tell_spare(spare, plan, fds, failure);
    }
    fy_namespace_drop(policy);
    if (status != FY_ERR_BUSY) {
        return status;
    }
    memset(failure, 0, sizeof *failure);
    if (start_spare(policy, plan->kind) &&
        !fy_read_whole(spare->up, failure, sizeof *failure) &&
        !failure->error) {
        status = tell_spare(spare, plan, fds, failure);
    }
    fy_namespace_drop(policy);
    if (status) {
        failure->error = failure->error ? failure->error : EIO;
        status = FY_ERR_IO;
    }
    return status;
}

/* Where a client's mount point cannot be. */
static bool
is_possible(const char *mount)
{
    static const char *const taken[] = {"/proc", "/sys"};
    static const char *const system[] = {
        "/usr",     "/bin", "/sbin",    "/lib",  "/lib32", "/lib64",
        "/libx32",  "/etc", "/dev",     "/proc", "/sys",   "/usr/bin",
        "/usr/lib", "/tmp", "/var/tmp", "/var"};
    char plain[PATH_MAX];
    if (!fy_path_plain(mount, plain) || strcmp(mount, plain) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof system / sizeof system[0]; i++) {
        if (strcmp(mount, system[i]) == 0) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        size_t n = strlen(taken[i]);
        if (strncmp(mount, taken[i], n) == 0 && mount[n] == '/') {
            return false;
        }
    }
    return true;
}

/* Of the mounts below a folder, so that one more or less is noticed. */
static uint64_t
hash_mounts_below(const char *path)
{
    char **below = fy_mounts_below(path, NULL);
    uint64_t hash = FY_HASH_START;
    for (char **at = below; at && *at; at++) {
        hash = fy_hash_bytes(hash, *at, strlen(*at) + 1);
    }
    free(below);
    return hash;
}

static uint64_t
hash_all_below(const struct fy_seen *seen, unsigned nseen)
{
    uint64_t hash = 0;
    for (unsigned i = 0; i < nseen; i++) {
        hash = hash * 31 + hash_mounts_below(seen[i].root.path);
    }
    return hash;
}

static bool
shows(const struct fy_namespace *namespace, const struct fy_seen *seen,
      unsigned nseen, bool executes, bool image)
{
    bool same = namespace->nshown == nseen && namespace->executes == executes &&
                namespace->image == image;
    for (unsigned i = 0; same && i < nseen; i++) {
        const struct fy_shown *shown = &namespace->shown[i];
        same = shown->device == seen[i].root.device &&
               shown->inode == seen[i].root.inode &&
               strcmp(shown->mount, seen[i].mount) == 0;
    }
    return same;
}

/*
 * A namespace shows the mounts that there were when it was made, and those that the
 * host made or removed since only where they are shared. Stages that have
 * entered it go on; it is not entered again.
 */
static bool
is_current(struct fy_policy *policy, struct fy_namespace *namespace,
           const struct fy_seen *seen, unsigned nseen)
{
    note_changes(policy);
    if (namespace->mounts_changed != policy->mounts_changed) {
        namespace->stale =
            hash_all_below(seen, nseen) != namespace->mounts_below;
        namespace->mounts_changed = policy->mounts_changed;
    }
    return !namespace->stale;
}

/* One that is entered no more, or a new one, stale or not counted until it is
 * made; NULL: none is left. The private /tmp of the former stays: stages that
 * entered it may have their files there. */
static struct fy_namespace *
free_namespace(struct fy_policy *policy)
{
    for (unsigned i = 0; i < policy->nnamespaces; i++) {
        if (policy->namespaces[i].stale) {
            fy_namespace_close(&policy->namespaces[i]);
            return &policy->namespaces[i];
        }
    }
    if (policy->nnamespaces == FY_MAX_NAMESPACES) {
        return NULL;
    }
    return &policy->namespaces[policy->nnamespaces];
}

int
fy_namespace_get(struct fy_policy *policy, const struct fy_seen *seen,
                 unsigned nseen, bool executes, const char *image,
                 const struct fy_namespace **out, unsigned *out_reason,
                 struct fy_buffer *why)
{
    for (unsigned i = 0; i < policy->nnamespaces; i++) {
        struct fy_namespace *namespace = &policy->namespaces[i];
        if (shows(namespace, seen, nseen, executes, image) &&
            !namespace->stale && is_current(policy, namespace, seen, nseen)) {
            *out = namespace;
            return 0;
        }
    }
    if (fy_namespace_kind(policy) == FY_NAMESPACE_NONE) {
        return fy_refuse(out_reason, FY_STAGE_OTHER_NAMES, why,
                         "this host's kernel lets it make no namespace, so ",
                         seen[0].mount, " cannot exist there");
    }
    struct fy_namespace *namespace = free_namespace(policy);
    for (unsigned i = 0; i < nseen; i++) {
        if (!namespace || !is_possible(seen[i].mount)) {
            return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why,
                             seen[i].mount,
                             " cannot be made a mount point there", NULL);
        }
    }
    char temporary[PATH_MAX];
    if (fy_temporary_new(policy, temporary, sizeof temporary) != 0) {
        return fy_refuse(out_reason, FY_STAGE_REFUSED, why,
                         "no private folder for temporary files", NULL, NULL);
    }
    struct plan plan = {.kind = policy->kind,
                        .seen = seen,
                        .nseen = nseen,
                        .temporary = temporary,
                        .image = image ? image : "",
                        .executes = executes};
    struct failure failure;
    namespace->mounts_below = hash_all_below(seen, nseen);
    if (make(policy, &plan, namespace->fds, &failure)) {
        failure.what[sizeof failure.what - 1] = '\0';
        fy_temporary_remove(temporary);
        fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, seen[0].mount,
                  nseen > 1 ? " and others" : NULL, " cannot be made there: ");
        return fy_refuse(out_reason, FY_STAGE_UNCLEAR_PATH, why, failure.what,
                         ": ", strerrordesc_np(failure.error));
    }
    namespace->mounts_changed = policy->mounts_changed;
    namespace->temporary_fd = open(temporary, O_PATH | O_CLOEXEC);
    if (namespace->fds[1] < 0 || namespace->temporary_fd < 0) {
        fy_namespace_close(namespace);
        fy_temporary_remove(temporary);
        return fy_refuse(out_reason, FY_STAGE_REFUSED, why,
                         "a namespace could not be held", NULL, NULL);
    }
    for (unsigned i = 0; i < nseen; i++) {
        struct fy_shown *shown = &namespace->shown[i];
        strcpy(shown->mount, seen[i].mount);
        shown->emptied_bytes = failure.emptied_bytes[i];
        shown->device = seen[i].root.device;
        shown->inode = seen[i].root.inode;
    }
    namespace->nshown = nseen;
    namespace->executes = executes;
    namespace->image = image;
    namespace->stale = false;
    if (namespace == &policy->namespaces[policy->nnamespaces]) {
        policy->nnamespaces++;
    }
    *out = namespace;
    return 0;
}

bool
fy_namespace_hides(const struct fy_namespace *namespace, const char *path)
{
    bool hides =
        strncmp(path, "/tmp/", 5) == 0 || strncmp(path, "/var/tmp/", 9) == 0;
    for (unsigned i = 0; i < namespace->nshown; i++) {
        const struct fy_shown *shown = &namespace->shown[i];
        size_t n = shown->emptied_bytes, mount = strlen(shown->mount);
        if (strncmp(path, shown->mount, mount) == 0 && path[mount] == '/') {
            return false;
        }
        hides = hides ||
                (n && strncmp(path, shown->mount, n) == 0 && path[n] == '/');
    }
    return hides;
}

int
fy_temporary_new(struct fy_policy *policy, char *out, size_t capacity)
{
    if (!*policy->temporary &&
        (policy->temporary_fd = fy_temporary_start(policy->temporary)) < 0) {
        return FY_ERR_IO;
    }
    int n = snprintf(out, capacity, "%s/%u", policy->temporary,
                     policy->ntemporaries);
    if (n <= 0 || (size_t)n >= capacity || mkdir(out, 0700) != 0) {
        return FY_ERR_IO;
    }
    policy->ntemporaries++;
    return 0;
}

void
fy_namespace_close(struct fy_namespace *namespace)
{
    for (unsigned i = 0; i < FY_NAMESPACES; i++) {
        if (namespace->fds[i] >= 0) {
            close(namespace->fds[i]);
        }
        namespace->fds[i] = -1;
    }
    if (namespace->temporary_fd >= 0) {
        close(namespace->temporary_fd);
    }
    namespace->temporary_fd = -1;
}
