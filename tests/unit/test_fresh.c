/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What proxy/storage/fresh.c does to a mount and what it counts as still old. The mount is
 * a plain folder that says it is sshfs's: what is asked for is seen by inotify(7),
 * what is made forgotten by its time of status change. tests/proxy/sshfs.sh has a
 * real sshfs.
 * Long because each kind of object and of mount has its case.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proxy/storage/fresh.h"
#include "tests/unit/nomem.h"
#include "tests/unit/runner.h"
#include "tests/unit/stage.h"

enum {
    CROWD = 32, /* files of one folder that are read in one go */
    MANY = 300, /* more than are held at a time */
    NOBODY = 65534,
};

static char long_paths[MANY + 2][PATH_MAX];
static struct fy_mount mount;

/* What happens while a name is refreshed. */
enum moment {
    NEVER,
    HELD,   /* when it has been looked up */
    OPENED, /* before it is opened */
    LINKED, /* before the kernel looks it up again */
};
static struct {
    enum moment moment;
    const char *name, *script;
    /* How often that name was opened, was looked up, by the kernel again. */
    unsigned opened, looked, linked;
    int chown_error; /* of a mount that has forgotten what is gone */
    unsigned chown_ms;
    bool waits; /* it is waited for the kernel, so long */
    struct timespec wait;
} meanwhile;

static void shell(const char *script);

static void
happens(enum moment moment, const char *name)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): set with the moment */
    if (meanwhile.moment == moment && strcmp(name, meanwhile.name) == 0) {
        meanwhile.moment = NEVER;
        shell(meanwhile.script);
    }
}

static unsigned asked;   /* how often a host, whatever is cached */
static unsigned dropped; /* pages of a file */

int
posix_fadvise(int fd, off_t from, off_t n, int advice)
{
    dropped += advice == POSIX_FADV_DONTNEED && !from && !n;
    return (int)syscall(SYS_fadvise64, fd, from, n, advice);
}

/* fresh.c calls these instead of libc's. */
int
statx(int dir, const char *path, int flags, unsigned mask, struct statx *out)
{
    asked += (flags & AT_STATX_FORCE_SYNC) != 0;
    return (int)syscall(SYS_statx, dir, path, flags, mask, out);
}

int
openat(int dir, const char *path, int flags, ...)
{
    if (!(flags & O_PATH)) {
        happens(OPENED, path);
        meanwhile.opened += meanwhile.name && !strcmp(path, meanwhile.name);
    }
    int fd = (int)syscall(SYS_openat, dir, path, flags, 0);
    if (flags & O_PATH) {
        meanwhile.looked += meanwhile.name && !strcmp(path, meanwhile.name);
        happens(HELD, path);
    }
    return fd;
}

int
linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    happens(LINKED, to);
    meanwhile.linked += meanwhile.name && !strcmp(to, meanwhile.name);
    return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

int
fchownat(int dir, const char *path, uid_t owner, gid_t group, int flags)
{
    if (meanwhile.chown_error) {
        errno = meanwhile.chown_error;
        return -1;
    }
    usleep(meanwhile.chown_ms * 1000);
    return (int)syscall(SYS_fchownat, dir, path, owner, group, flags);
}

int
nanosleep(const struct timespec *wait, struct timespec *left)
{
    if (meanwhile.waits) {
        meanwhile.wait = *wait;
        return 0;
    }
    return (int)syscall(SYS_nanosleep, wait, left);
}

static void
setup(void)
{
    make_base("fresh");
    shell("mkdir -p $B/mnt/a $B/mnt/b && echo text >$B/mnt/a/file && "
          "ln -s file $B/mnt/a/link");
    memset(&mount, 0, sizeof mount);
    memset(&meanwhile, 0, sizeof meanwhile);
    snprintf(mount.path, sizeof mount.path, "%s/mnt", base);
    fy_mount_set_type(&mount, "fuse.sshfs");
}

static void
teardown(void)
{
    shell("rm -rf $B");
}

/* The n-th of some paths on the mount. */
static const char *
on_mount(unsigned n, const char *name)
{
    ck_assert_uint_lt(strlen(mount.path) + strlen(name) + 1, PATH_MAX);
    strcpy(long_paths[n], mount.path);
    strcat(strcat(long_paths[n], "/"), name);
    return long_paths[n];
}

static struct stat
status(const char *path)
{
    struct stat about;
    ck_assert_msg(lstat(path, &about) == 0, "%s", path);
    return about;
}

static bool
is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Refreshes one path; *touched: its attributes were made forgotten. */
static unsigned
refresh_one(const char *path, const struct fy_told *told, bool *touched)
{
    const struct timespec pause = {0, 20000000}; /* the clock of ctime */
    const char *paths[] = {path, NULL};
    struct stat before = status(path), after;
    nanosleep(&pause, NULL);
    unsigned stale = fy_fresh_after(&mount, paths, told);
    after = status(path);
    *touched = !is_same_time(&before.st_ctim, &after.st_ctim);
    return stale;
}

static bool
touches(const char *path, const struct fy_told *told)
{
    bool touched;
    ck_assert_uint_eq(refresh_one(path, told, &touched), 0);
    return touched;
}

static unsigned
stale(const char *path, const struct fy_told *told)
{
    const char *paths[] = {path, NULL};
    return fy_fresh_after(&mount, paths, told);
}

/* What is true of a file, as its host would tell. */
static struct fy_file_told
tell(const char *path)
{
    struct stat about = status(path);
    return (struct fy_file_told){bytes(path), (uint64_t)about.st_size,
                                 (uint64_t)about.st_mtim.tv_sec,
                                 about.st_mode & 07777, false};
}

static bool
touches_told(const char *path, const struct fy_file_told *file)
{
    const struct fy_told told = {.files = file, .nfiles = 1};
    return touches(path, &told);
}

/* How often the files of a folder are opened while `paths' are refreshed. */
static unsigned
opens(const char *folder, const char *const *paths, const struct fy_told *told)
{
    static char events[1 << 20] __attribute__((aligned(8)));
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    unsigned count = 0;
    ssize_t n;
    ck_assert_int_ge(watch, 0);
    /* Equal events that follow each other are told as one. */
    ck_assert_int_ge(inotify_add_watch(watch, folder, IN_OPEN | IN_CLOSE), 0);
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, told), 0);
    while ((n = read(watch, events, sizeof events)) > 0) {
        for (char *at = events; at < events + n;) {
            const struct inotify_event *event = (const void *)at;
            ck_assert(!(event->mask & IN_Q_OVERFLOW));
            count += event->len > 0 && (event->mask & IN_OPEN);
            at += sizeof *event + event->len;
        }
    }
    close(watch);
    return count;
}

/* ---- one path ------------------------------------------------------------------ */

START_TEST(a_kind_of_mount_is_asked_in_its_way)
{
    const char *file = on_mount(0, "a/file");
    const char *paths[] = {file, NULL}, *none[] = {NULL};
    char folder[PATH_MAX + 8];
    snprintf(folder, sizeof folder, "%s/a", mount.path);

    ck_assert(touches(file, NULL));
    ck_assert_uint_eq(opens(folder, paths, NULL), 3);
    ck_assert(touches(folder, NULL));
    ck_assert_uint_eq(fy_fresh_after(&mount, none, NULL), 0);
    const char *const others[] = {"nfs4", "nfs", "fuse.other"};
    for (unsigned i = 0; i < 3; i++) {
        fy_mount_set_type(&mount, others[i]);
        asked = 0;
        dropped = 0;
        ck_assert(!touches(file, NULL));
        ck_assert_uint_eq(asked, 3); /* its folder, then twice itself */
        ck_assert_uint_eq(dropped, 1);
        ck_assert_uint_eq(opens(folder, paths, NULL), 1);
        asked = 0;
        ck_assert(!touches(folder, NULL));
        ck_assert_uint_eq(asked, 2);
        ck_assert_uint_eq(dropped,
                          2); /* by touches() and opens() of the file */
        ck_assert_uint_eq(stale(on_mount(1, "a/link"), NULL), 0);
    }
    /* Only configured: nothing is kept, and nothing asked for. */
    fy_mount_set_type(&mount, "");
    ck_assert(!touches(file, NULL));
    ck_assert_uint_eq(opens(folder, paths, NULL), 0);
}
END_TEST

START_TEST(a_file_as_its_host_tells_it_is_left_alone)
{
    const char *path = on_mount(0, "a/file"), *paths[] = {path, NULL};
    const struct fy_file_told right = tell(path);
    const struct fy_told told = {.files = &right, .nfiles = 1};
    struct fy_file_told other = right;

    ck_assert_uint_eq(opens(on_mount(1, "a"), paths, &told), 1);
    ck_assert(!touches_told(path, &right));
    other.modified_s += UINT64_C(1) << 32; /* sshfs has 32 bits */
    ck_assert(!touches_told(path, &other));
    other.modified_s++;
    ck_assert(touches_told(path, &other));
    other = right;
    other.bytes++;
    ck_assert(touches_told(path, &other));
    other = right;
    other.mode ^= 0100;
    ck_assert(touches_told(path, &other));
    other = right;
    other.path = bytes(on_mount(2, "a/file2"));
    ck_assert(touches_told(path, &other));
    /* Another kind of file with those numbers. */
    const char *folder = on_mount(1, "b");
    other = tell(folder);
    ck_assert(touches_told(folder, &other));
}
END_TEST

/* Each of a list is found, and nothing beside it. */
START_TEST(files_told_are_found_by_their_whole_path)
{
    struct fy_file_told files[7];
    const struct fy_told told = {.files = files, .nfiles = 7};

    shell("cd $B/mnt/b && for i in 1 2 3 4 5 6 7; do echo $i >f$i; done; "
          "echo >f; echo >f11; echo >g");
    for (unsigned i = 0; i < 7; i++) {
        char name[16];
        snprintf(name, sizeof name, "b/f%u", i + 1);
        files[i] = tell(on_mount(i, name));
    }
    for (unsigned i = 0; i < 7; i++) {
        ck_assert(!touches(files[i].path.at, &told));
    }
    ck_assert(touches(on_mount(7, "b/f"), &told));
    ck_assert(touches(on_mount(7, "b/f11"), &told));
    ck_assert(touches(on_mount(7, "b/g"), &told));
}
END_TEST

/* chown(2) would take these bits away, or write an owner that is not known. */
START_TEST(a_file_keeps_its_mode_and_owner)
{
    const char *path = on_mount(0, "a/file"), *paths[] = {path, NULL};
    const struct fy_told owners = {.owners = true};

    ck_assert(!touches(path, &owners));
    ck_assert_uint_eq(opens(on_mount(1, "a"), paths, &owners), 12);
    ck_assert_int_eq(chmod(path, 04711), 0);
    ck_assert(!touches(path, NULL));
    ck_assert_uint_eq(opens(on_mount(1, "a"), paths, NULL), 12);
    ck_assert_int_eq(chmod(path, 02711), 0);
    ck_assert(!touches(path, NULL));
    ck_assert_uint_eq(status(path).st_mode & 07777, 02711);
}
END_TEST

/* Where uid= shows one user, what is written is the one it works as. */
START_TEST(one_user_is_written_as_he_is_there)
{
    const char *path = on_mount(0, "a/file"), *folder = on_mount(1, "b");
    uid_t mine = geteuid(), there = mine ? mine : 7;

    mount.uid = there;
    ck_assert(touches(path, NULL));
    ck_assert_uint_eq(status(path).st_uid, mine);
    mount.traits |= FY_MOUNT_ONE_USER;
    ck_assert(touches(path, NULL));
    ck_assert_uint_eq(status(path).st_uid, there);
    ck_assert(touches(folder, NULL));
    ck_assert_uint_eq(status(folder).st_uid, there);
}
END_TEST

/* Before the hello the user is not known. */
START_TEST(one_user_that_is_not_known_is_not_written)
{
    const char *path = on_mount(0, "a/file"), *folder = on_mount(1, "b");
    uid_t mine = geteuid(), owner = mine ? mine : 7;
    bool touched;

    ck_assert_int_eq(chown(path, owner, (gid_t)-1), 0);
    ck_assert_int_eq(chown(folder, owner, (gid_t)-1), 0);
    mount.uid = FY_USER_UNKNOWN;
    mount.traits |= FY_MOUNT_ONE_USER;
    ck_assert(!touches(path, NULL));
    ck_assert_uint_eq(status(path).st_uid, owner);
    ck_assert_uint_eq(refresh_one(folder, NULL, &touched), 1);
    ck_assert(!touched);
    ck_assert_uint_eq(status(folder).st_uid, owner);
}
END_TEST

START_TEST(a_folder_told_keeps_the_owner_that_is_seen)
{
    const char *path = on_mount(0, "b");
    uid_t mine = geteuid();
    struct fy_folder folder = {bytes(path), mine};
    const struct fy_told told = {.folders = &folder, .nfolders = 1};

    ck_assert(touches(path, &told));
    folder.uid = mine + 1;
    ck_assert(touches(path, &told));
    ck_assert_uint_eq(status(path).st_uid, mine);
}
END_TEST

/* ---- what goes on being seen as it was ---------------------------------------------- */

START_TEST(a_link_is_old_unless_its_host_tells_it)
{
    const char *path = on_mount(0, "a/link");
    struct stat about = status(path);
    const struct fy_link_told right = {bytes(path), bytes("file"),
                                       (uint64_t)about.st_mtim.tv_sec};
    struct fy_link_told link = right;
    const struct fy_told told = {.links = &link, .nlinks = 1};

    ck_assert_uint_eq(stale(path, NULL), 1);
    ck_assert_uint_eq(stale(path, &told), 0);
    link.modified_s += UINT64_C(1) << 32;
    ck_assert_uint_eq(stale(path, &told), 0);
    link.modified_s++;
    ck_assert_uint_eq(stale(path, &told), 1);
    link = right;
    link.target = bytes("fill");
    ck_assert_uint_eq(stale(path, &told), 1);
    link.target = bytes("fil");
    ck_assert_uint_eq(stale(path, &told), 1);
    link.target = bytes("file1");
    ck_assert_uint_eq(stale(path, &told), 1);
    link = right;
    link.path = bytes(on_mount(1, "a/lin"));
    ck_assert_uint_eq(stale(path, &told), 1);
}
END_TEST

/* Folders that another user owns: only those that the stage has left as they were. */
START_TEST(another_users_folder_is_old_when_changed)
{
    const struct fy_bytes changed = bytes("/usr/lib");
    struct fy_told told = {0};

    if (geteuid() == 0) {
        ck_assert_int_eq(seteuid(NOBODY), 0);
    }
    strcpy(mount.path, "/usr");
    ck_assert_uint_eq(stale("/usr/lib", NULL), 1);
    ck_assert_uint_eq(stale("/usr/lib", &told), 0);
    told.changed = &changed;
    told.nchanged = 1;
    ck_assert_uint_eq(stale("/usr/lib", &told), 1);
    ck_assert_uint_eq(stale("/usr/bin/", &told), stale("/usr/bin", &told));
    if (getuid() == 0) {
        ck_assert_int_eq(seteuid(0), 0);
    }
}
END_TEST

START_TEST(what_is_missing_is_not_old)
{
    static char name[300] = "a/";

    ck_assert_uint_eq(stale(on_mount(0, "a/none"), NULL), 0);
    ck_assert_uint_eq(stale(on_mount(0, "none/none"), NULL), 0);
    ck_assert_uint_eq(stale("/usr/lib", NULL), 0); /* not on the mount */
    struct stat before = status(base), after;
    usleep(20000);
    ck_assert_uint_eq(stale(on_mount(0, ".."), NULL), 0);
    ck_assert_uint_eq(stale(on_mount(0, "a/../.."), NULL), 0);
    after = status(base);
    ck_assert(is_same_time(&before.st_ctim, &after.st_ctim));
    /* A name as long as there are, and one that cannot be. */
    memset(name + 2, 'x', 255);
    FILE *file = fopen(on_mount(0, name), "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert(touches(long_paths[0], NULL));
    name[2 + 255] = 'x';
    ck_assert_uint_eq(stale(on_mount(0, name), NULL), 0);
    /* A path that is longer than any, and one that is shorter than the mount's. */
    static char path[2 * PATH_MAX];
    strcpy(path, mount.path);
    while (strlen(path) < PATH_MAX + 100) {
        strcat(path, "/a/..");
    }
    ck_assert_uint_eq(stale(path, NULL), 0);
    ck_assert_uint_eq(stale(strcat(path, "/file"), NULL), 0);
    ck_assert_uint_eq(stale("/var", NULL), 0);
    /* The mount itself is gone: nothing was refreshed. */
    const char *paths[] = {"/a", "/b", "/c", NULL};
    strcat(mount.path, "/none");
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 3);
}
END_TEST

/* ---- what changes meanwhile ------------------------------------------------------------ */

static unsigned
stale_when(const char *path, enum moment moment, const char *script,
           const struct fy_told *told)
{
    meanwhile.moment = moment;
    meanwhile.name = strrchr(path, '/') + 1;
    meanwhile.script = script;
    meanwhile.opened = meanwhile.linked = 0;
    unsigned count = stale(path, told);
    ck_assert_int_eq(meanwhile.moment, NEVER);
    return count;
}

/* Whatever is seen otherwise after the first open was asked for: no more is done. */
START_TEST(a_file_that_changes_is_news)
{
    static const char *const scripts[] = {
        "f=$B/mnt/a/file; touch -r $f $B/ref && echo longer >$f && "
        "touch -r $B/ref $f",
        "chmod 0600 $B/mnt/a/file",
        "touch -d '2001-01-01 10:00:00.5' $B/mnt/a/file",
        "touch -d '2001-01-02 10:00:00.25' $B/mnt/a/file",
        "rm $B/mnt/a/file",
    };
    const char *path = on_mount(0, "a/file");

    for (unsigned i = 0; i < 5; i++) {
        shell("touch -d '2001-01-02 10:00:00.5' $B/mnt/a/file && "
              "chmod 644 $B/mnt/a/file");
        ck_assert_uint_eq(stale_when(path, OPENED, scripts[i], NULL), 0);
        ck_assert(meanwhile.opened == 1 && meanwhile.linked == 1);
    }
    shell("echo text >$B/mnt/a/file");
    ck_assert_uint_eq(stale_when(path, OPENED, ":", NULL), 0);
    ck_assert(meanwhile.opened == 3 && meanwhile.linked == 3 + 1);
    meanwhile.opened = 0;
    ck_assert_uint_eq(stale(on_mount(1, "a//file/"), NULL), 0);
    ck_assert_uint_eq(meanwhile.opened, 3);
}
END_TEST

START_TEST(what_goes_or_turns_is_news)
{
    const struct fy_bytes changed = bytes("/usr/lib");
    const struct fy_told told = {0}, of_changed = {.changed = &changed};
    const char *path = on_mount(0, "a/file"), *link = on_mount(1, "a/link");

    ck_assert_uint_eq(stale_when(link, LINKED, ":", NULL), 1);
    ck_assert_uint_eq(stale_when(link, LINKED,
                                 "rm $B/mnt/a/link && mkdir $B/mnt/a/link",
                                 NULL),
                      0);
    shell("rmdir $B/mnt/a/link && ln -s file $B/mnt/a/link");
    ck_assert_uint_eq(stale_when(link, LINKED, "rm $B/mnt/a/link", NULL), 0);
    ck_assert_uint_eq(stale_when(path, HELD, "rm $B/mnt/a/file", NULL), 0);
    /* A folder that sshfs shows and its host has no more, or keeps as it was. */
    const char *folder = on_mount(2, "b");
    meanwhile.chown_error = ENOENT;
    ck_assert_uint_eq(stale(folder, &told), 1);
    meanwhile.chown_error = EPERM;
    ck_assert_uint_eq(stale(folder, &told), 0);
    ck_assert_uint_eq(stale(folder, &of_changed), 0);
    ck_assert_uint_eq(stale(folder, NULL), 1);
    /* Another kind of file is neither. */
    shell("mkfifo $B/mnt/a/pipe");
    ck_assert_uint_eq(stale(on_mount(2, "a/pipe"), &told), 1);
    meanwhile.chown_error = 0;
}
END_TEST

/* ---- many paths ---------------------------------------------------------------------- */

/* Makes `count' files in a folder of the mount; NULL behind their paths. */
static const char **
make_files(const char *folder, unsigned count)
{
    static const char *paths[MANY + 2];
    char name[64];

    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s/%03u", folder, i);
        paths[i] = on_mount(i, name);
        FILE *file = fopen(paths[i], "w");
        ck_assert_ptr_nonnull(file);
        fclose(file);
    }
    paths[count] = NULL;
    return paths;
}

/* How many of the paths are made forgotten, and whether their folder is. */
static unsigned
touched_of(const char **paths, unsigned count, const struct fy_told *told,
           const char *folder, bool *out_folder)
{
    static struct timespec before[MANY];
    const struct timespec pause = {0, 20000000};
    struct stat about = status(folder);
    struct timespec folder_before = about.st_ctim;
    unsigned touched = 0;

    for (unsigned i = 0; i < count; i++) {
        about = status(paths[i]);
        before[i] = about.st_ctim;
    }
    nanosleep(&pause, NULL);
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, told), 0);
    for (unsigned i = 0; i < count; i++) {
        about = status(paths[i]);
        touched += !is_same_time(&about.st_ctim, &before[i]);
    }
    about = status(folder);
    *out_folder = !is_same_time(&about.st_ctim, &folder_before);
    return touched;
}

START_TEST(a_crowd_is_read_with_its_folder)
{
    char folder[PATH_MAX + 8];
    bool of_folder;

    snprintf(folder, sizeof folder, "%s/b", mount.path);
    const char **paths = make_files("b", CROWD - 1);
    ck_assert_uint_eq(touched_of(paths, CROWD - 1, NULL, folder, &of_folder),
                      CROWD - 1);
    ck_assert(!of_folder);
    paths = make_files("b", CROWD);
    ck_assert_uint_eq(touched_of(paths, CROWD, NULL, folder, &of_folder),
                      CROWD);
    ck_assert(of_folder);
    /* So many of two folders are no crowd. */
    paths[CROWD - 1] = on_mount(CROWD - 1, "c");
    shell("mkdir $B/mnt/c");
    (void)touched_of(paths, CROWD - 1, NULL, folder, &of_folder);
    ck_assert(!of_folder);
    /* Another kind of mount has none. */
    paths = make_files("b", CROWD);
    fy_mount_set_type(&mount, "nfs");
    ck_assert_uint_eq(touched_of(paths, CROWD, NULL, folder, &of_folder), 0);
    ck_assert(!of_folder);
}
END_TEST

/* Names that were just read, files as their host tells them: nothing more is asked. */
START_TEST(new_files_of_a_crowd_are_not_opened)
{
    static struct fy_file_told files[CROWD];
    const struct fy_told told = {.files = files, .nfiles = CROWD};
    const char **paths = make_files("b", CROWD);
    char folder[PATH_MAX + 8];
    bool of_folder;

    snprintf(folder, sizeof folder, "%s/b", mount.path);
    for (unsigned i = 0; i < CROWD; i++) {
        files[i] = tell(long_paths[i]);
        files[i].created = true;
    }
    ck_assert_uint_eq(opens(folder, paths, &told), 0);
    ck_assert_uint_eq(touched_of(paths, CROWD, &told, folder, &of_folder), 0);
    ck_assert(of_folder);
    files[3].created = false; /* of which content may be kept */
    files[5].bytes++;         /* which is seen otherwise */
    ck_assert_uint_eq(opens(folder, paths, &told), 1 + 1 + 3);
    ck_assert_uint_eq(touched_of(paths, CROWD, &told, folder, &of_folder), 1);
}
END_TEST

/* The path behind a crowd is of another folder, and is looked at there. */
START_TEST(a_crowd_ends_with_its_folder)
{
    static struct fy_file_told told_file;
    const struct fy_told told = {.files = &told_file, .nfiles = 1};
    const char **paths = make_files("b", CROWD);

    shell("mkdir $B/mnt/c && echo other >$B/mnt/c/001");
    const char *behind = on_mount(CROWD, "c/001");
    paths[CROWD] = behind;
    paths[CROWD + 1] = NULL;
    told_file = tell(long_paths[1]); /* as b/001 is */
    told_file.path = bytes(behind);
    told_file.created = true;
    struct stat before = status(behind), after;
    usleep(20000);
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, &told), 0);
    after = status(behind);
    ck_assert(!is_same_time(&before.st_ctim, &after.st_ctim));
}
END_TEST

/* Names that cannot be, folders that are gone. */
START_TEST(a_crowd_that_is_not_there)
{
    const char **paths = make_files("b", CROWD);
    static char name[300] = "b/";

    memset(name + 2, 'x', NAME_MAX + 1);
    paths[CROWD] = on_mount(CROWD, name);
    paths[CROWD + 1] = NULL;
    mount.kernel_ms = 1;
    shell("rm $B/mnt/b/01?");
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 0);
    shell("rm -r $B/mnt/b");
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 0);
}
END_TEST

/* Of names that are gone, where a look-up of each takes longer than the kernel keeps
 * them, each is opened once, and then waited for the kernel. */
START_TEST(a_crowd_that_is_gone_is_waited_for)
{
    const char **paths = make_files("b", CROWD);

    shell("rm $B/mnt/b/*");
    mount.kernel_ms = 1951;
    meanwhile.waits = true;
    meanwhile.name = "007";
    meanwhile.chown_ms = 65;
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 0);
    ck_assert(meanwhile.opened == 1 && meanwhile.looked == 0);
    ck_assert_int_eq(meanwhile.wait.tv_sec, 2);
    ck_assert_int_eq(meanwhile.wait.tv_nsec, 1000000);
    /* Not where look-ups are quicker. */
    mount.kernel_ms = 60000;
    memset(&meanwhile.wait, 0, sizeof meanwhile.wait);
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 0);
    ck_assert_int_eq(meanwhile.wait.tv_sec, 0);
    ck_assert_int_eq(meanwhile.wait.tv_nsec, 0);
    /* One of them is there again by the time it is opened, and looked at. */
    mount.kernel_ms = 1;
    meanwhile.chown_ms = 2;
    meanwhile.opened = 0;
    meanwhile.moment = OPENED;
    meanwhile.script = "echo new >$B/mnt/b/007";
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 0);
    ck_assert_int_eq(meanwhile.moment, NEVER);
    ck_assert_uint_eq(meanwhile.opened, 1 + 3);
    /* A kernel that keeps no names is not waited for: each is looked up. */
    shell("rm $B/mnt/b/*");
    mount.kernel_ms = 0;
    meanwhile.looked = 0;
    memset(&meanwhile.wait, 0, sizeof meanwhile.wait);
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 0);
    ck_assert(meanwhile.looked == 1 && meanwhile.wait.tv_nsec == 0);
}
END_TEST

/* The first and the last name of a folder that was read are there, too. */
START_TEST(names_at_the_ends_of_a_crowd)
{
    static struct fy_file_told files[CROWD];
    const struct fy_told told = {.files = files, .nfiles = CROWD};
    const char **paths = make_files("b", CROWD);
    char folder[PATH_MAX + 8];

    snprintf(folder, sizeof folder, "%s/b", mount.path);
    shell("mv $B/mnt/b/000 $B/mnt/b/!first && mv $B/mnt/b/031 $B/mnt/b/zlast");
    paths[0] = on_mount(0, "b/!first");
    paths[31] = on_mount(31, "b/zlast");
    for (unsigned i = 0; i < CROWD; i++) {
        files[i] = tell(long_paths[i]);
        files[i].created = true;
    }
    ck_assert_uint_eq(opens(folder, paths, &told), 0);
}
END_TEST

START_TEST(more_than_are_held_at_a_time)
{
    const char **paths = make_files("b", MANY);
    char folder[PATH_MAX + 8];
    bool of_folder;

    /* As nobody gave them: in no order, and some twice. */
    for (unsigned i = 0; i < MANY; i++) {
        const char *other = paths[i * 7 % MANY];
        paths[i * 7 % MANY] = paths[i];
        paths[i] = other;
    }
    snprintf(folder, sizeof folder, "%s/b", mount.path);
    ck_assert_uint_eq(touched_of(paths, MANY, NULL, folder, &of_folder), MANY);
    const char *link = on_mount(MANY, "a/link");
    const char *twice[] = {link, link, long_paths[0], link, NULL};
    ck_assert_uint_eq(fy_fresh_after(&mount, twice, NULL), 1);
}
END_TEST

/* What is left when the mount has forgotten by itself is waited for. */
START_TEST(what_takes_too_long_is_waited_for)
{
    const char **paths = make_files("b", MANY);

    mount.forgets_ms = 600000;
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 0);
    for (unsigned i = 0; i < MANY; i++) { /* 12 opens, 8 of them with a pause */
        ck_assert_int_eq(chmod(paths[i], 04755), 0);
    }
    mount.forgets_ms = 1;
    ck_assert_uint_gt(fy_fresh_after(&mount, paths, NULL), 0);
}
END_TEST

static unsigned
descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    ck_assert_ptr_nonnull(folder);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

START_TEST(no_descriptor_stays_open)
{
    unsigned before = descriptors();
    const char **paths = make_files("b", MANY);

    paths[1] = on_mount(MANY, "a/none");
    paths[2] = on_mount(MANY + 1, "a/link");
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 1);
    mount.kernel_ms = 1;
    ck_assert_uint_eq(fy_fresh_after(&mount, paths, NULL), 1);
    ck_assert_uint_eq(descriptors(), before);
}
END_TEST

/* Without memory all may be stale. */
START_TEST(nothing_is_left_where_memory_runs_out)
{
    enum {
        FILES = 5
    };
    const char **paths = make_files("b", FILES);
    unsigned before = descriptors(), n = 0;
    bool reached;

    do {
        nomem_at(++n);
        unsigned is_stale = fy_fresh_after(&mount, paths, NULL);
        reached = nomem_reached();
        ck_assert_uint_eq(is_stale, reached ? FILES : 0);
        ck_assert_uint_eq(nomem_live(), 0);
        ck_assert_uint_eq(descriptors(), before);
    } while (reached);
    ck_assert_uint_gt(n, 1);
}
END_TEST

/* Whether that happens to the folder named when `path' is read ahead. */
static bool
happens_until(uint32_t event, const char *path, const char *folder,
              uint64_t trip_ns, uint64_t until_ns)
{
    char events[4096];
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    ck_assert_int_ge(watch, 0);
    ck_assert_int_ge(inotify_add_watch(watch, folder, event), 0);
    fy_fresh_ahead(path, trip_ns, until_ns);
    ssize_t n = read(watch, events, sizeof events);
    close(watch);
    return n > 0;
}

static bool
reads_until(const char *path, const char *folder, uint64_t trip_ns,
            uint64_t until_ns)
{
    return happens_until(IN_OPEN, path, folder, trip_ns, until_ns);
}

static bool
reads_ahead(const char *path, const char *folder)
{
    return reads_until(path, folder, 0, UINT64_MAX);
}

static bool
happens_ahead(uint32_t event, const char *path, const char *folder)
{
    return happens_until(event, path, folder, 0, UINT64_MAX);
}

/* Of a folder with more than 12 folders none is read, and at most 64 of one depth. */
START_TEST(so_many_folders_are_read_ahead)
{
    char script[200];
    unsigned before = descriptors(), count = 0;

    for (unsigned n = 11; n <= 14; n++) {
        (void)snprintf(script, sizeof script,
                       "rm -rf $B/mnt/b/*; for i in $(seq %u); do "
                       "mkdir -p $B/mnt/b/$i/x; done; echo >$B/mnt/b/0",
                       n);
        shell(script);
        ck_assert(reads_ahead(on_mount(0, "b"), on_mount(1, "b")));
        ck_assert(reads_ahead(on_mount(0, "b"), on_mount(1, "b/7/x")) ==
                  (n <= 12));
    }
    shell("rm -rf $B/mnt/b/*; for i in 1 2 3 4 5 6 7 8; do for k in "
          "1 2 3 4 5 6 7 8 9; do mkdir -p $B/mnt/b/$i/$k; done; done");
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ck_assert_int_ge(watch, 0);
    for (unsigned i = 0; i < 72; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "b/%u/%u", i / 9 + 1, i % 9 + 1);
        ck_assert_int_ge(inotify_add_watch(watch, on_mount(1, name), IN_OPEN),
                         0);
    }
    fy_fresh_ahead(on_mount(0, "b"), 0, UINT64_MAX);
    struct inotify_event event; /* of a folder itself: without a name */
    while (read(watch, &event, sizeof event) == sizeof event) {
        count++;
    }
    close(watch);
    ck_assert_uint_eq(count, 64);
    ck_assert_uint_eq(descriptors(), before);
}
END_TEST

/* Nothing is begun whose answer would come too late. */
START_TEST(what_would_come_too_late_is_not_read_ahead)
{
    const char *top = on_mount(0, "a");
    struct timespec now;

    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
             minute_ns = UINT64_C(60000000000);
    ck_assert(!reads_until(top, top, 0, 0));
    ck_assert(!reads_until(top, top, 0, now_ns));
    ck_assert(reads_until(top, top, 0, now_ns + minute_ns));
    ck_assert(reads_until(top, top, minute_ns, now_ns + 4 * minute_ns));
    ck_assert(!reads_until(top, top, minute_ns, now_ns + 3 * minute_ns));
    /* What is no folder, or is not there. */
    ck_assert(!reads_ahead(on_mount(1, "none"), top));
    ck_assert(!reads_ahead(on_mount(1, "a/file"), on_mount(2, "a/file")));
    ck_assert(!reads_ahead(on_mount(1, "a/link"), on_mount(2, "a/file")));
}
END_TEST

/* Its names come in one answer, however long that takes. */
START_TEST(no_large_folder_is_read_ahead)
{
    struct stat about;
    const char *large = on_mount(0, "a/large");

    shell("mkdir -p $B/mnt/a/large/below");
    ck_assert(happens_ahead(IN_ACCESS, large, large));
    shell("cd $B/mnt/a/large && seq -f %0200g 16000 | xargs touch");
    ck_assert_int_eq(stat(large, &about), 0);
    /* Where folders have sizes. */
    ck_assert(about.st_size <= 256 << 10 ||
              !happens_ahead(IN_ACCESS, large, large));
}
END_TEST

/* The host may exchange a folder for a link that leads out of the mount. */
START_TEST(what_is_behind_a_link_is_not_read_ahead)
{
    char outside[PATH_MAX];

    shell("mkdir -p $B/out/sub/deep $B/mnt/a/sub/deep && ln -s $B/out $B/mnt/l "
          "&& ln -s $B/out/sub $B/mnt/a/sub/l");
    snprintf(outside, sizeof outside, "%s/out/sub", base);
    ck_assert(reads_ahead(on_mount(0, "a"), on_mount(1, "a/sub/deep")));
    ck_assert(reads_ahead(on_mount(0, "a/sub"), on_mount(1, "a/sub")));
    ck_assert(!reads_ahead(on_mount(0, "a/sub"), outside));
    ck_assert(!reads_ahead(on_mount(0, "l/sub"), outside));
    ck_assert(!reads_ahead(on_mount(0, "a/sub/l"), outside));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("fresh");
    TCase *tests = tcase_create("fresh");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_kind_of_mount_is_asked_in_its_way);
    tcase_add_test(tests, a_file_as_its_host_tells_it_is_left_alone);
    tcase_add_test(tests, files_told_are_found_by_their_whole_path);
    tcase_add_test(tests, a_file_keeps_its_mode_and_owner);
    tcase_add_test(tests, one_user_is_written_as_he_is_there);
    tcase_add_test(tests, one_user_that_is_not_known_is_not_written);
    tcase_add_test(tests, what_is_behind_a_link_is_not_read_ahead);
    tcase_add_test(tests, so_many_folders_are_read_ahead);
    tcase_add_test(tests, what_would_come_too_late_is_not_read_ahead);
    tcase_add_test(tests, no_large_folder_is_read_ahead);
    tcase_add_test(tests, a_folder_told_keeps_the_owner_that_is_seen);
    tcase_add_test(tests, a_link_is_old_unless_its_host_tells_it);
    tcase_add_test(tests, another_users_folder_is_old_when_changed);
    tcase_add_test(tests, what_is_missing_is_not_old);
    tcase_add_test(tests, a_crowd_is_read_with_its_folder);
    tcase_add_test(tests, new_files_of_a_crowd_are_not_opened);
    tcase_add_test(tests, a_crowd_ends_with_its_folder);
    tcase_add_test(tests, a_crowd_that_is_not_there);
    tcase_add_test(tests, more_than_are_held_at_a_time);
    tcase_add_test(tests, what_takes_too_long_is_waited_for);
    tcase_add_test(tests, no_descriptor_stays_open);
    tcase_add_test(tests, nothing_is_left_where_memory_runs_out);
    tcase_add_test(tests, a_file_that_changes_is_news);
    tcase_add_test(tests, what_goes_or_turns_is_news);
    tcase_add_test(tests, a_crowd_that_is_gone_is_waited_for);
    tcase_add_test(tests, names_at_the_ends_of_a_crowd);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
