/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refreshing a mount's caches without a word to its file system. Found by
 * experiment (sshfs 3.7.3, libfuse 3.14, Linux 6.18) and kept by
 * tests/proxy/sshfs.sh. Long because what each cache needs was found by experiments
 * that belong together:
 *
 * sshfs keeps attributes, names and link targets by path for 20 s; the kernel
 * keeps attributes and entries for 1 s more and pages until attributes change;
 * nobody keeps what is missing.
 * - open(2) of a file makes sshfs ask for its attributes again, and forget them
 *   when that fails. But if anybody writes through the mount before the answer
 *   is there, sshfs drops it and keeps what it had.
 * - chown(2) of a file as below makes it forget them whatever happens: for files
 *   that look as before. They are written by the stage, or were to be.
 * - chown(2) of a folder to the owner that it has makes sshfs forget its names
 *   and attributes. It changes its ctime and fails on others' folders. As root
 *   a wrong owner would be written, so after a stage that changed owners only to
 *   the one that the folder's host says it has by then (what sshfs shows may be
 *   old); never on a link: the server would follow it. Where uid= shows one owner
 *   for all, to the user that it works as, who is not root (client/ask.c).
 * - link(2) from another file system onto a path makes the kernel look it up
 *   again (LOOKUP_EXCL) before it fails with EEXIST or EXDEV. It has no effect.
 * - A folder that is gone stays in sshfs's cache whatever one does, because all
 *   that would remove it fails first; so do names in a folder of which chown(2)
 *   fails, as it is another user's.
 * - A link stays for 20 s, gone or not, as do its target and attributes: the kernel
 *   resolves it, so that no open(2) reaches sshfs, and chown(2) or utimes(2) would
 *   be of its target at the server. (A hard link to it that is made and removed
 *   makes sshfs forget it, where it still exists, and changes its folder's mtime.)
 *   A link that its host tells just so needs not be forgotten.
 * - Reading the names of a folder of which they are forgotten brings all attributes.
 *   Many names of one folder are refreshed so; those that are gone are each forgotten
 *   by an open(2) that fails, ten at a time, and by the kernel after entry_timeout:
 *   a look-up of each would hold the folder's lock for two round trips.
 * - What its host tells of a file (server/touched.c) ends the asking: shown like
 *   that, nothing old is shown.
 * So a stage is refused before it begins where it may remove a folder, remove or
 * replace a link, or change names in another user's folder (client/classify.c, sandbox/names.c).
 * What goes on being shown all the same, because others changed it meanwhile, is
 * counted, and waited for (client/prepare.c).
 * NFS: statx(AT_STATX_FORCE_SYNC) asks the server. A folder is asked for before the names in it:
 * only then are these looked up again, and Linux 6.1 believes a name to be missing for
 * ever where a program makes a file of it. Pages of a file that a program has open for
 * writing stay, whatever the server says: posix_fadvise(2) drops them, or the next write
 * would send zeros with them (tests/nfs).
 * Anything else gets open(2) and statx(2). Plain folders have nothing to
 * refresh.
 *
 * What a stage changed is said by the proxy: nothing outside the mount is touched
 * for it, whatever it names and whatever links its host puts in the way.
 */
#include "config.h"

#include "common/clock.h"
#include "proxy/storage/fresh.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/debug.h"

enum {
    WORKERS = 15, /* libfuse serves 10 requests at a time by default */
    OPENS = 3,    /* until what a file was is made forgotten */
    CROWD = 32,   /* files of one folder that are read in one go */
    HELD = 128,   /* paths at a time, of which two descriptors are open */
    KERNEL_MARGIN_MS = 50,
};

enum kind {
    PLAIN, /* nothing is cached */
    SSHFS,
    OTHER, /* NFS among them */
};

/* A mount while it is refreshed. */
struct mounted {
    enum kind kind;
    int fd; /* O_PATH */
    const char *path;
    const struct fy_mount *mount;
};

static enum kind
kind_of(const struct fy_mount *mount)
{
    if (!*mount->type) {
        return PLAIN;
    }
    return mount->traits & FY_MOUNT_BY_PATH ? SSHFS : OTHER;
}

/* ---- one name in a folder that is on the mount for sure ---------------------- */

/* A name, and the folder that it is in. */
struct spot {
    int folder;           /* O_PATH; -1: not there, or not of the mount */
    int itself;           /* likewise: keeps what was looked up */
    bool missing, failed; /* itself; to find out */
    char name[NAME_MAX + 1];
};

/* Opens (O_PATH) the first n bytes of `path', a folder; -1 when that is not on
 * the mount, leaves it by a link or `..', or is gone. */
static int
open_folder(const struct mounted *mounted, const char *path, size_t n,
            uint64_t resolve)
{
    char relative[PATH_MAX];
    size_t top = strlen(mounted->path);
    if (n < top || n >= sizeof relative ||
        memcmp(path, mounted->path, top) != 0 ||
        (n > top && path[top] != '/')) {
        return -1;
    }
    memcpy(relative, path, n);
    relative[n] = '\0';
    const char *rest = relative + top + strspn(relative + top, "/");
    struct open_how how;
    memset(&how, 0, sizeof how);
    how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    how.resolve =
        RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV | resolve;
    return (int)syscall(SYS_openat2, mounted->fd, *rest ? rest : ".", &how,
                        sizeof how);
}

static bool
open_spot(const struct mounted *mounted, const char *path, struct spot *out)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    size_t name = n;
    while (name > 0 && path[name - 1] != '/') {
        name--;
    }
    if (n == strlen(mounted->path)) {
        name = n; /* the mount itself */
    }
    if (n - name > NAME_MAX ||
        (n - name == 2 && path[name] == '.' && path[name + 1] == '.')) {
        return false;
    }
    memcpy(out->name, path + name, n - name);
    out->name[n - name] = '\0';
    if (name == n) {
        strcpy(out->name, ".");
    }
    out->folder = open_folder(mounted, path, name, 0);
    return out->folder >= 0;
}

static bool
look(const struct spot *spot, struct stat *out)
{
    return fstatat(spot->folder, spot->name, out, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The kernel looks the path up again. */
static void
look_up_again(const struct spot *spot)
{
    int ignored = linkat(AT_FDCWD, "/dev/null", spot->folder, spot->name, 0);
    (void)ignored;
}

/* False: it is not there, and no attributes of it are kept. The kernel may still
 * keep its name. */
static bool
open_again(const struct spot *spot)
{
    int fd = openat(spot->folder, spot->name,
                    O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    bool missing = fd < 0 && errno == ENOENT;
    if (fd >= 0) {
        close(fd);
    }
    return !missing;
}

/* Drops the pages of a file that the kernel keeps while a program writes to it. */
static void
drop_pages(const struct spot *spot)
{
    const int flags = O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
    int fd = openat(spot->folder, spot->name, O_RDONLY | flags);
    if (fd < 0 && errno == EACCES) {
        fd = openat(spot->folder, spot->name, O_WRONLY | flags);
    }
    if (fd >= 0) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

static void
ask_again(const struct spot *spot)
{
    struct statx about;
    int ignored = statx(spot->folder, spot->name,
                        AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC,
                        STATX_BASIC_STATS, &about);
    (void)ignored;
}

/*
 * Its attributes; true: they are forgotten. Where uid= shows one owner and the mount's
 * user is not known before the hello, no owner is written.
 */
static bool
forget(const struct mounted *mounted, const struct spot *spot, uid_t seen)
{
    bool one = (mounted->mount->traits & FY_MOUNT_ONE_USER) != 0;
    uid_t owner = one ? mounted->mount->uid : seen;
    return owner != FY_USER_UNKNOWN &&
           fchownat(spot->folder, spot->name, owner, (gid_t)-1,
                    AT_SYMLINK_NOFOLLOW) == 0;
}

/* How the folder of n bytes compares with a path. */
static int
folder_order(const char *folder, size_t n, const char *path)
{
    int first = strncmp(folder, path, n);
    return first ? first : -(path[n] != '\0');
}

/*
 * The one for the first n bytes of `path' among `count' of `bytes' each, which
 * begin with a path (struct fy_bytes, or a pointer); NULL: none.
 */
static const void *
find_told(const void *list, size_t count, size_t bytes, const char *path,
          size_t n)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *const *at =
            (const void *)((const char *)list + middle * bytes);
        int way = folder_order(path, n, *at);
        if (way == 0) {
            return at;
        }
        if (way > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* A folder whose owner the kernel remembers like that, however long: its host is
 * not asked. */
static bool
is_owner_remembered(const struct spot *spot, uid_t owner)
{
    struct statx about;
    return statx(spot->folder, spot->name,
                 AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC,
                 STATX_TYPE | STATX_UID, &about) == 0 &&
           S_ISDIR(about.stx_mode) && about.stx_uid == owner;
}

/*
 * Attributes and names of a folder, which is the first n bytes of `path' and at
 * `spot'. An owner that its host has told may be another than is seen: that is
 * written nowhere but to the mount, and not by a link, which may be an old one.
 */
static bool
forget_folder(const struct mounted *mounted, const char *path, size_t n,
              const struct spot *spot, const struct fy_told *told)
{
    struct stat about;
    const struct fy_folder *folder =
        told ? find_told(told->folders, told->nfolders, sizeof *told->folders,
                         path, n)
             : NULL;
    if (!told || !told->owners) {
        if (folder && is_owner_remembered(spot, folder->uid)) {
            return forget(mounted, spot, folder->uid);
        }
        return look(spot, &about) && S_ISDIR(about.st_mode) &&
               forget(mounted, spot, about.st_uid);
    }
    int fd = folder ? open_folder(mounted, path, n, RESOLVE_NO_SYMLINKS) : -1;
    if (fd < 0) {
        return false;
    }
    bool done = fchownat(fd, "", folder->uid, (gid_t)-1, AT_EMPTY_PATH) == 0;
    close(fd);
    return done;
}

/* It shows what sshfs would say of the same file if it had asked. */
static bool
looks_alike(const struct stat *one, const struct stat *other)
{
    return one->st_size == other->st_size && one->st_mode == other->st_mode &&
           one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
           one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

/*
 * News is what is there. What looks as before may have been answered too late to
 * be kept, so that it is asked again and then forgotten; a mode that chown(2)
 * would change, and others' files, are asked for more often instead.
 */
static void
refresh_file(const struct mounted *mounted, const struct spot *spot,
             const struct stat *before, const struct fy_told *told)
{
    static const struct timespec pause = {.tv_nsec = 2000000};
    struct stat about;
    bool plain = !(before->st_mode & (S_ISUID | S_ISGID));
    for (unsigned i = 0; i < 4 * OPENS; i++) {
        bool there = open_again(spot);
        look_up_again(spot);
        if (!there || !look(spot, &about) || !looks_alike(before, &about)) {
            return;
        }
        if (i + 1 == OPENS && plain && !(told && told->owners) &&
            forget(mounted, spot, before->st_uid)) {
            look_up_again(spot);
            return;
        }
        if (i + 1 > OPENS) {
            (void)nanosleep(&pause, NULL);
        }
    }
}

/* sshfs has 32 bits of a time. */
static bool
is_file_told(const struct stat *seen, const struct fy_file_told *file)
{
    return S_ISREG(seen->st_mode) && (uint64_t)seen->st_size == file->bytes &&
           (seen->st_mode & 07777) == file->mode &&
           (uint32_t)seen->st_mtim.tv_sec == (uint32_t)file->modified_s;
}

static const struct fy_file_told *
find_file(const struct fy_told *told, const char *path)
{
    return told ? find_told(told->files, told->nfiles, sizeof *told->files,
                            path, strlen(path))
                : NULL;
}

/* A link is seen as its host tells it. */
static bool
is_told(const struct spot *spot, const char *path, const struct stat *seen,
        const struct fy_told *told)
{
    char target[PATH_MAX];
    const struct fy_link_told *link =
        told ? find_told(told->links, told->nlinks, sizeof *told->links, path,
                         strlen(path))
             : NULL;
    ssize_t n =
        link ? readlinkat(spot->folder, spot->name, target, sizeof target) : -1;
    /* sshfs has 32 bits of the time. */
    return n >= 0 && (size_t)n == link->target.n &&
           memcmp(target, link->target.at, link->target.n) == 0 &&
           (uint32_t)seen->st_mtim.tv_sec == (uint32_t)link->modified_s;
}

/* True: what is seen now is what is there. */
static bool
refresh_sshfs(const struct mounted *mounted, const char *path,
              const struct spot *spot, const struct fy_told *told)
{
    struct stat about, after;
    const struct fy_file_told *file = find_file(told, path);
    if (spot->missing) {
        return true;
    }
    if (file && open_again(spot)) {
        look_up_again(spot);
        if (look(spot, &about) && is_file_told(&about, file)) {
            return true;
        }
    }
    if (told &&
        find_told(told->folders, told->nfolders, sizeof *told->folders, path,
                  strlen(path)) &&
        forget_folder(mounted, path, strlen(path), spot, told)) {
        look_up_again(spot);
        return true;
    }
    if (!look(spot, &about)) {
        look_up_again(spot);
        return true;
    }
    if (S_ISREG(about.st_mode)) {
        refresh_file(mounted, spot, &about, told);
        return true;
    }
    errno = 0;
    bool forgotten = S_ISDIR(about.st_mode) &&
                     forget_folder(mounted, path, strlen(path), spot, told);
    bool gone = errno == ENOENT;
    look_up_again(spot);
    /* Something else than before is news; the same may be old. */
    if (forgotten || !look(spot, &after) ||
        (about.st_mode & S_IFMT) != (after.st_mode & S_IFMT)) {
        return true;
    }
    if (S_ISLNK(after.st_mode)) {
        return is_told(spot, path, &after, told);
    }
    /* Another user's folder in which nothing was changed. */
    return S_ISDIR(after.st_mode) && !gone && told &&
           !find_told(told->changed, told->nchanged, sizeof *told->changed,
                      path, strlen(path));
}

static bool
refresh(const struct mounted *mounted, const char *path,
        const struct spot *spot, const struct fy_told *told)
{
    struct stat about;
    if (spot->folder < 0) {
        return !spot->failed; /* its folder is not there, or not of the mount */
    }
    if (mounted->kind == SSHFS) {
        return refresh_sshfs(mounted, path, spot, told);
    }
    ask_again(spot);
    if (look(spot, &about) && S_ISREG(about.st_mode)) {
        drop_pages(spot);
        ask_again(spot);
    }
    return true;
}

struct work {
    struct mounted mounted;
    struct spot *spots; /* HELD of them, from `from' on */
    size_t from, end;
    void (*step)(struct work *work, size_t i);
    const char **paths; /* NULL: is dealt with */
    bool *gone;         /* of those: a folder that was read does not hold it */
    size_t n;
    const struct fy_told *told;
    uint64_t until_us; /* then what is left is waited for; 0: never */
    atomic_size_t next;
    atomic_uint stale;
    atomic_bool named; /* the kernel may keep names of what is gone */
};

/* Then the kernel keeps no name that sshfs has forgotten by now. */
static uint64_t
kernel_us(const struct fy_mount *mount)
{
    return (mount->kernel_ms + KERNEL_MARGIN_MS) * UINT64_C(1000);
}

/* What is gone, without asking twice more under its folder's lock. */
static bool
forget_gone(struct work *work, const char *path)
{
    struct spot spot;
    bool forgotten = false;
    if (open_spot(&work->mounted, path, &spot)) {
        forgotten = !open_again(&spot);
        close(spot.folder);
    }
    if (forgotten) {
        atomic_store(&work->named, true);
    }
    return forgotten;
}

static bool
is_late(const struct work *work)
{
    return work->until_us && fy_clock_ns() / 1000 >= work->until_us;
}

/* Bytes of the path's folder. */
static size_t
folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* Returns true if path i is the first of those that are held in its folder. */
static bool
is_first(const struct work *work, size_t i)
{
    const char *path = work->paths[i];
    size_t bytes = folder_bytes(path);
    return i == work->from || folder_bytes(work->paths[i - 1]) != bytes ||
           memcmp(work->paths[i - 1], path, bytes) != 0;
}

/*
 * Looks path i up. All are before any is made forgotten: chown(2) holds its folder's
 * lock for two round trips, and what has to be looked up below waits for that. A
 * look-up alone says what is missing: no name of it is kept.
 */
static void
hold(struct work *work, size_t i)
{
    struct spot *spot = &work->spots[i - work->from];
    *spot = (struct spot){.folder = -1, .itself = -1};
    if (!work->paths[i] || work->gone[i] || is_late(work)) {
        return;
    }
    errno = 0;
    if (!open_spot(&work->mounted, work->paths[i], spot)) {
        spot->folder = -1;
        spot->failed = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    } else if (work->mounted.kind == SSHFS) {
        spot->itself =
            openat(spot->folder, spot->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        spot->missing = spot->itself < 0 && errno == ENOENT;
    } else if (is_first(work, i)) {
        struct spot folder = {.folder = spot->folder, .name = "."};
        ask_again(&folder);
    }
}

static void
make_fresh(struct work *work, size_t i)
{
    const struct spot *spot = &work->spots[i - work->from];
    const char *path = work->paths[i];
    if (path && work->gone[i] && !is_late(work)) {
        if (forget_gone(work, path)) {
            return;
        }
        work->gone[i] = false;
        hold(work, i);
    }
    if (path &&
        (is_late(work) || !refresh(&work->mounted, path, spot, work->told))) {
        atomic_fetch_add(&work->stale, 1);
    }
}

static void
release(struct work *work, size_t i)
{
    const struct spot *spot = &work->spots[i - work->from];
    if (spot->itself >= 0) {
        close(spot->itself);
    }
    if (spot->folder >= 0) {
        close(spot->folder);
    }
}

static void *
run(void *context)
{
    struct work *work = context;
    size_t i;
    while ((i = atomic_fetch_add(&work->next, 1)) < work->end) {
        work->step(work, i);
    }
    return NULL;
}

/* One step for all that are held. */
static void
share(struct work *work, void (*step)(struct work *work, size_t i))
{
    pthread_t threads[WORKERS];
    size_t started = 0, n = work->end - work->from;
    atomic_store(&work->next, work->from);
    work->step = step;
    while (started < WORKERS && started + 1 < n &&
           pthread_create(&threads[started], NULL, run, work) == 0) {
        started++;
    }
    run(work);
    while (started) {
        pthread_join(threads[--started], NULL);
    }
}

static int
compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int
by_name(const void *a, const void *b)
{
    return strcmp((*(const struct dirent *const *)a)->d_name,
                  (*(const struct dirent *const *)b)->d_name);
}

static bool
is_among(struct dirent **names, int n, const char *name)
{
    size_t low = 0, high = (size_t)n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(names[middle]->d_name, name);
        if (order == 0) {
            return true;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

/*
 * A new file of a folder whose names were just read, and with them its
 * attributes: looking it up asks nobody. Nothing of its content is kept, as it
 * was made by the stage.
 */
static bool
is_file_fresh(struct spot *spot, const struct fy_file_told *file)
{
    struct stat about;
    look_up_again(spot);
    return look(spot, &about) && file && file->created &&
           is_file_told(&about, file);
}

/*
 * Many files of one folder: reading its names brings their attributes too. Those
 * that are seen as their host tells them are taken out of the list, those that are
 * not there are marked.
 */
static void
refresh_crowd(struct work *work, size_t from, size_t to)
{
    struct spot spot = {.name = "."};
    struct dirent **names;
    const char **paths = work->paths;
    const struct fy_mount *mount = work->mounted.mount;
    size_t bytes = folder_bytes(paths[from]), ngone = 0;
    spot.folder = open_folder(&work->mounted, paths[from], bytes, 0);
    if (spot.folder < 0) {
        return;
    }
    uint64_t began_us = fy_clock_ns() / 1000;
    bool forgotten =
        forget_folder(&work->mounted, paths[from], bytes, &spot, work->told);
    uint64_t trips_us =
        fy_clock_ns() / 1000 - began_us; /* two at least, as a look-up */
    int nnames =
        forgotten ? scandirat(spot.folder, ".", &names, NULL, NULL) : -1;
    if (nnames < 0) {
        close(spot.folder);
        return;
    }
    qsort(names, (size_t)nnames, sizeof *names, by_name);
    for (size_t i = from; i < to; i++) {
        const char *name = paths[i] + bytes + 1;
        if (strlen(name) >= sizeof spot.name) {
            continue;
        }
        strcpy(spot.name, name);
        if (!is_among(names, nnames, name)) {
            work->gone[i] = mount->kernel_ms > 0;
            ngone++;
        } else if (is_file_fresh(&spot, find_file(work->told, paths[i]))) {
            paths[i] = NULL;
        }
    }
    /* A few are looked up sooner than the kernel forgets them. */
    if (ngone * trips_us < kernel_us(mount)) {
        memset(work->gone + from, 0, (to - from) * sizeof *work->gone);
    }
    while (nnames) {
        free(names[--nnames]);
    }
    free(names);
    close(spot.folder);
}

/* All of work->paths, sorted and each once. */
static void
refresh_all(struct work *work)
{
    const char **paths = work->paths;
    const struct fy_mount *mount = work->mounted.mount;
    qsort(paths, work->n, sizeof *paths, compare);
    size_t kept = 0;
    for (size_t i = 0; i < work->n; i++) {
        if (!i || strcmp(paths[i], paths[kept - 1]) != 0) {
            paths[kept++] = paths[i];
        }
    }
    work->n = kept;
    work->until_us = mount->forgets_ms ? fy_clock_ns() / 1000 +
                                             mount->forgets_ms * UINT64_C(1000)
                                       : 0;
    for (size_t i = 0, end; work->mounted.kind == SSHFS && i < kept; i = end) {
        size_t bytes = folder_bytes(paths[i]);
        for (end = i + 1; end < kept && folder_bytes(paths[end]) == bytes &&
                          memcmp(paths[end], paths[i], bytes) == 0;
             end++) {
        }
        if (end - i >= CROWD) {
            refresh_crowd(work, i, end);
        }
    }
    for (work->from = 0; work->from < kept; work->from = work->end) {
        work->end = kept - work->from < HELD ? kept : work->from + HELD;
        share(work, hold);
        share(work, make_fresh);
        for (size_t i = work->from; i < work->end; i++) {
            release(work, i);
        }
    }
    if (atomic_load(&work->named)) {
        uint64_t us = kernel_us(mount);
        const struct timespec wait = {(time_t)(us / 1000000),
                                      (long)(us % 1000000) * 1000};
        (void)nanosleep(&wait, NULL);
    }
}

unsigned
fy_fresh_after(const struct fy_mount *mount, const char *const *paths,
               const struct fy_told *told)
{
    struct work work = {.mounted = {.kind = kind_of(mount),
                                    .fd = -1,
                                    .path = mount->path,
                                    .mount = mount},
                        .told = told};
    while (paths[work.n]) {
        work.n++;
    }
    if (work.mounted.kind == PLAIN || !work.n) {
        return 0;
    }
    unsigned stale = (unsigned)work.n;
    work.paths = malloc(work.n * sizeof *work.paths);
    work.gone = calloc(work.n, sizeof *work.gone);
    work.spots = calloc(HELD, sizeof *work.spots);
    work.mounted.fd = open(mount->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (work.paths && work.gone && work.spots && work.mounted.fd >= 0) {
        memcpy(work.paths, paths, work.n * sizeof *work.paths);
        refresh_all(&work);
        stale = atomic_load(&work.stale);
    }
    fy_debug(STORAGE, "%s: %zu names looked up again, %u may be stale",
             mount->path, work.n, stale);
    if (work.mounted.fd >= 0) {
        close(work.mounted.fd);
    }
    free(work.paths);
    free(work.gone);
    free(work.spots);
    return stale;
}
