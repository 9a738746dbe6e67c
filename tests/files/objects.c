/* SPDX-License-Identifier: Apache-2.0 */
/* What calls are tried on, and how it looks before and after; see differ.h. */
#include "config.h"

#include "tests/files/differ.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

const char *const kind_names[KINDS] = {
    "nothing",
    "file",
    "empty file",
    "linked file",
    "set-id file",
    "file 0",
    "read-only file",
    "other's file",
    "folder",
    "full folder",
    "read-only folder",
    "sticky folder",
    "folder 0",
    "other's folder",
    "link to file",
    "link to folder",
    "link to nothing",
    "link to itself",
    "fifo",
    "socket",
    "device",
};

static void
file_make(struct side *side, const char *name, const char *bytes, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    MUST(side, fd < 0 ? -1 : 0);
    MUST(side, write(fd, bytes, strlen(bytes)) < 0 ? -1 : 0);
    MUST(side, fchmod(fd, mode));
    MUST(side, close(fd));
}

/* A folder with or without an entry "in". */
static void
folder_make(struct side *side, const char *name, bool full, mode_t mode)
{
    char in[300];
    MUST(side, mkdir(name, 0700));
    if (full) {
        snprintf(in, sizeof(in), "%s/in", name);
        file_make(side, in, "inside", 0644);
    }
    MUST(side, chmod(name, mode));
}

static void
link_make(struct side *side, const char *name, enum kind kind)
{
    char target[300];
    snprintf(target, sizeof(target), "%s%s", name,
             kind == LINK_TO_ITSELF ? "" : ".to");
    if (kind == LINK_TO_FILE) {
        file_make(side, target, "0123456789", 0644);
    } else if (kind == LINK_TO_FOLDER) {
        folder_make(side, target, false, 0755);
    }
    MUST(side, symlink(target, name));
}

static void
special_make(struct side *side, const char *name, enum kind kind)
{
    if (kind == FIFO) {
        MUST(side, mkfifo(name, 0644));
    } else if (kind == SOCKET) {
        MUST(side, mknod(name, S_IFSOCK | 0644, 0));
    } else {
        MUST(side, mknod(name, S_IFCHR | 0644, makedev(1, 3)));
    }
}

void
object_make(struct side *side, const char *name, enum kind kind)
{
    static const struct {
        mode_t mode;
        bool full;
    } how[KINDS] = {
        [FILE_10] = {0644, true},        [FILE_EMPTY] = {0644, false},
        [FILE_LINKED] = {0644, true},    [FILE_SETID] = {06755, true},
        [FILE_MODE_0] = {0, true},       [FILE_READ_ONLY] = {0444, true},
        [FILE_OTHER] = {0640, true},     [FOLDER] = {0755, false},
        [FOLDER_FULL] = {0755, true},    [FOLDER_READ_ONLY] = {0555, true},
        [FOLDER_STICKY] = {01777, true}, [FOLDER_MODE_0] = {0, true},
        [FOLDER_OTHER] = {0750, false},
    };
    if (kind == NONE) {
        return;
    }
    if (kind >= FIFO) {
        special_make(side, name, kind);
    } else if (kind >= LINK_TO_FILE) {
        link_make(side, name, kind);
    } else if (kind >= FOLDER) {
        folder_make(side, name, how[kind].full, how[kind].mode);
    } else {
        file_make(side, name, how[kind].full ? "0123456789" : "",
                  how[kind].mode);
    }
    if (kind == FILE_LINKED) {
        char other[300];
        snprintf(other, sizeof(other), "%s.also", name);
        MUST(side, link(name, other));
    }
    if ((kind == FILE_OTHER || kind == FOLDER_OTHER) && geteuid() == 0) {
        MUST(side, chown(name, OTHER, OTHER));
    }
}

/* ---- walking ------------------------------------------------------------------------- */

/* Calls `visit' for the folder "." and all below it, parents first, names sorted; with
 * `after', parents last. False: some folder could not be read. */
static bool
walk(struct side *side, const char *folder, bool after,
     void (*visit)(struct side *side, const char *path, const struct stat *st))
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, NULL, alphasort);
    bool fine = n >= 0;
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        char *path = NULL;
        struct stat st;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
            asprintf(&path, "%s%s%s", strcmp(folder, ".") ? folder : "",
                     strcmp(folder, ".") ? "/" : "", name) > 0) {
            if (lstat(path, &st) != 0) {
                say(side, "  %s: %s\n", path, strerrorname_np(errno));
            } else {
                if (!after) {
                    visit(side, path, &st);
                }
                if (S_ISDIR(st.st_mode)) {
                    fine = walk(side, path, after, visit) && fine;
                }
                if (after) {
                    visit(side, path, &st);
                }
            }
        }
        free(path);
        free(names[i]);
    }
    free(names);
    return fine;
}

/* ---- before -------------------------------------------------------------------------- */

static void
remember(struct side *side, const char *path)
{
    struct timespec past[2] = {{1000000000, 111111111},
                               {1000000001, 222222222}};
    if (side->nknown == MAX_KNOWN) {
        return;
    }
    MUST(side, utimensat(AT_FDCWD, path, past, AT_SYMLINK_NOFOLLOW));
    struct known *known = &side->known[side->nknown];
    if (MUST(side, lstat(path, &known->st)) == 0) {
        snprintf(known->name, sizeof(known->name), "%s", path);
        side->nknown++;
    }
}

static void
settle(struct side *side, const char *path, const struct stat *st)
{
    (void)st;
    remember(side, path);
}

/* After this a change in the same tick of the kernel's clock has another time all the
 * same, where the kernel has such times (Linux 6.13); else a tick is waited for. */
void
state_settle(struct side *side)
{
    static int fine = -1;
    if (fine < 0) {
        struct stat a, b;
        fine = 1;
        MUST(side, stat(".", &a));
        for (int i = 0; i < 4; i++) {
            MUST(side, chmod(".", a.st_mode & 07777));
            MUST(side, stat(".", &a));
            MUST(side, chmod(".", a.st_mode & 07777));
            MUST(side, stat(".", &b));
            fine = fine && (a.st_ctim.tv_nsec != b.st_ctim.tv_nsec ||
                            a.st_ctim.tv_sec != b.st_ctim.tv_sec);
        }
    }
    side->nknown = 0;
    walk(side, ".", true, settle);
    remember(side, ".");
    if (!fine) {
        struct timespec tick = {0, 11000000};
        nanosleep(&tick, NULL);
    }
}

/* ---- after --------------------------------------------------------------------------- */

static bool
same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static void
say_apart(struct side *side, const char *format, ...)
{
    size_t n = strlen(side->apart);
    va_list args;
    va_start(args, format);
    vsnprintf(side->apart + n, sizeof(side->apart) - n, format, args);
    va_end(args);
}

/* What differs between the mount and the storage. */
static void
compare_storage(struct side *side, const char *path, const struct stat *here)
{
    char full[8192];
    struct stat there;
    snprintf(full, sizeof(full), "%s/%s", side->storage, path);
    if (lstat(full, &there) != 0) {
        say_apart(side, "%.40s: not at the storage: %s\n", path,
                  strerrorname_np(errno));
        return;
    }
    const struct {
        const char *what;
        bool same;
    } fields[] = {
        {"inode", here->st_ino == there.st_ino},
        {"mode", here->st_mode == there.st_mode},
        {"links", here->st_nlink == there.st_nlink},
        {"owner", here->st_uid == there.st_uid},
        {"group", here->st_gid == there.st_gid},
        {"size", here->st_size == there.st_size},
        {"blocks", here->st_blocks == there.st_blocks},
        {"device", here->st_rdev == there.st_rdev},
        {"mtime", same_time(here->st_mtim, there.st_mtim)},
        {"ctime", same_time(here->st_ctim, there.st_ctim)},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        if (!fields[i].same) {
            say_apart(side, "%.40s: other %s at the storage\n", path,
                      fields[i].what);
        }
    }
}

/* Begin and end of a file, as a sum. */
static void
say_contents(struct side *side, int fd, off_t size)
{
    static unsigned char bytes[1 << 16];
    uint64_t sum = 14695981039346656037u;
    off_t at = 0;
    while (at < size) {
        ssize_t n = pread(fd, bytes, sizeof(bytes), at);
        if (n <= 0) {
            say(side, " unread at %ld: %s", (long)at,
                n ? strerrorname_np(errno) : "end");
            break;
        }
        for (ssize_t i = 0; i < n; i++) {
            sum = (sum ^ bytes[i]) * 1099511628211u;
        }
        at += n;
        if (at < size - (off_t)sizeof(bytes) && at >= 1 << 20) {
            at = size - (off_t)sizeof(bytes);
        }
    }
    say(side, " holds %016lx", (unsigned long)sum);
}

static void
say_attributes(struct side *side, const char *path, const struct stat *st)
{
    const struct known *old = NULL;
    for (unsigned i = 0; i < side->nknown && !old; i++) {
        old = side->known[i].st.st_ino == st->st_ino ? &side->known[i] : NULL;
    }
    say(side, "  %.300s%s: %06o links %lu owner %u:%u", path,
        strlen(path) > 300 ? "..." : "", st->st_mode, (long)st->st_nlink,
        st->st_uid, st->st_gid);
    if (strcmp(path, ".") != 0) {
        say(side, " size %lld blocks %lld", (long long)st->st_size,
            (long long)st->st_blocks);
    }
    if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) {
        say(side, " device %u:%u", major(st->st_rdev), minor(st->st_rdev));
    }
    if (!old) {
        say(side, " new%s",
            !side->nknown || S_ISREG(st->st_mode) ||
                    same_time(st->st_mtim, st->st_ctim)
                ? ""
                : ", m is not c");
        return;
    }
    say(side, " was %.40s,%s%s%s", old->name,
        same_time(st->st_mtim, old->st.st_mtim) ? "" : " m",
        same_time(st->st_ctim, old->st.st_ctim) ? "" : " c",
        !side->atimes || !S_ISREG(st->st_mode) ||
                same_time(st->st_atim, old->st.st_atim)
            ? ""
            : " a");
    if (side->atimes &&
        !S_ISLNK(st->st_mode)) { /* a link's: when it was followed */
        say(side, " m=%s a=%s",
            same_time(st->st_mtim, st->st_ctim) ? "c" : "other",
            same_time(st->st_atim, st->st_ctim) ? "c" : "other");
    }
}

void
state_say_fd(struct side *side, const char *name, int fd)
{
    struct stat st;
    if (DO(side, fstat(fd, &st)) == 0) {
        say_attributes(side, name, &st);
        if (S_ISREG(st.st_mode)) {
            say_contents(side, fd, st.st_size);
        }
        say(side, "\n");
    }
}

static void
say_object(struct side *side, const char *path, const struct stat *st)
{
    say_attributes(side, path, st);
    if (S_ISLNK(st->st_mode)) {
        char target[5000];
        ssize_t n = readlink(path, target, sizeof(target));
        say(side, " -> %.*s", n > 60 ? 60 : n < 0 ? 0 : (int)n, target);
        if (n != st->st_size) {
            say(side, " of %ld bytes", (long)n);
        }
    }
    if (S_ISREG(st->st_mode)) {
        int fd = open(path, O_RDONLY | O_NOATIME);
        say_contents(side, fd, fd < 0 ? 1 : st->st_size);
        if (fd >= 0) {
            close(fd);
        }
    }
    say(side, "\n");
    if (side->storage) {
        compare_storage(side, path, st);
    }
}

void
state_say(struct side *side)
{
    struct stat st;
    if (DO(side, lstat(".", &st)) == 0) {
        say_object(side, ".", &st);
    }
    if (!walk(side, ".", false, say_object)) {
        say(side, "  some folder cannot be read\n");
    }
}

/* ---- away with it -------------------------------------------------------------------- */

static void
wipe(struct side *side, const char *path, const struct stat *st)
{
    /* A path may be too long for one call. */
    const char *name = strrchr(path, '/');
    int at = AT_FDCWD;
    if (name && strlen(path) > 2000) {
        return;
    }
    if (unlinkat(at, path, S_ISDIR(st->st_mode) ? AT_REMOVEDIR : 0) != 0) {
        say(side, "  %s cannot be removed: %s\n", path, strerrorname_np(errno));
    }
}

static void
unlock(struct side *side, const char *path, const struct stat *st)
{
    if (S_ISDIR(st->st_mode) && (st->st_mode & 0700) != 0700) {
        MUST(side, chmod(path, 0700));
    }
}

bool
state_wipe(struct side *side)
{
    if (geteuid() != 0) {
        walk(side, ".", false, unlock);
    }
    size_t before = side->n;
    return walk(side, ".", true, wipe) && side->n == before;
}
