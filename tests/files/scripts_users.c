/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what: three users, their groups of both kinds, each right of a mode, sticky
 * folders, owners, set-id bits, programs that run; see differ.h. A user is taken on by
 * setfsuid, setfsgid and setgroups, as a server does for its clients.
 */
#include "config.h"

#include "tests/files/differ.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ME = 4101,
    YOU = 4102,
    MINE = 4201, /* my group */
    ALSO = 4202, /* a supplementary group of mine */
    YOURS = 4203,
    NOBODY = -1
};

static void
act_as(uid_t uid, gid_t gid, gid_t also)
{
    if (setgroups(also ? 1 : 0, &also) != 0) {
        perror("differ: setgroups");
        exit(2);
    }
    setfsgid(gid);
    setfsuid(uid);
    if (setfsuid((uid_t)-1) != (int)uid || setfsgid((gid_t)-1) != (int)gid) {
        fputs("differ: no other user\n", stderr);
        exit(2);
    }
}

static void
act_as_root(void)
{
    act_as(0, 0, 0);
}

static void
own(struct side *side, const char *name, uid_t uid, gid_t gid, mode_t mode)
{
    MUST(side, lchown(name, uid, gid));
    MUST(side, chmod(name, mode));
}

/* Says and wipes; the next part of the case begins with an empty folder. */
static void
part_ends(struct side *side)
{
    act_as_root();
    state_say(side);
    if (!state_wipe(side)) {
        say(side, "something stays\n");
    }
}

/* ---- each right of a mode ------------------------------------------------------------- */

static const struct caller {
    const char *name;
    unsigned shift; /* of the rights that count */
    uid_t uid;
    gid_t gid, also;
} callers[] = {
    {"owner", 6, ME, MINE, 0},
    {"group", 3, YOU, MINE, 0},
    {"supplementary group", 3, YOU, YOURS, MINE},
    {"others", 0, YOU, YOURS, ALSO},
};

/* The rights of one class, and all that the others of a mode have not. */
static mode_t
mode_with(unsigned rights, unsigned shift)
{
    return (0777u & ~(07u << shift) & ~(rights * 0111u)) | rights << shift;
}

static void
use_file(struct side *side)
{
    const struct timespec set[2] = {{5, 7}, {6, 8}};
    OPENS(side, open("f", O_RDONLY));
    OPENS(side, open("f", O_WRONLY));
    OPENS(side, open("f", O_RDWR));
    OPENS(side, open("f", O_RDONLY | O_TRUNC));
    OPENS(side, open("f", O_WRONLY | O_CREAT, 0600));
    DO(side, faccessat(AT_FDCWD, "f", R_OK, AT_EACCESS));
    DO(side, faccessat(AT_FDCWD, "f", W_OK, AT_EACCESS));
    DO(side, faccessat(AT_FDCWD, "f", X_OK, AT_EACCESS));
    DO(side, truncate("f", 7));
    DO(side, utimensat(AT_FDCWD, "f", NULL, 0));
    DO(side, utimensat(AT_FDCWD, "f", set, 0));
    DO(side, chown("f", (uid_t)-1, (gid_t)-1));
    DO(side, link("f", "g"));
    DO(side, chmod("f", 0640));
}

static void
use_folder(struct side *side)
{
    struct stat st;
    OPENS(side, open("d", O_RDONLY | O_DIRECTORY));
    DO(side, stat("d/in", &st));
    DO(side, stat("d/none", &st));
    OPENS(side, open("d/in", O_RDONLY));
    OPENS(side, open("d/new", O_WRONLY | O_CREAT | O_EXCL, 0600));
    OPENS(side, open("d/in", O_WRONLY | O_CREAT, 0600));
    DO(side, mkdir("d/folder", 0755));
    DO(side, mkfifo("d/fifo", 0644));
    DO(side, symlink("x", "d/symlink"));
    DO(side, link("f", "d/link"));
    DO(side, rename("f", "d/moved"));
    DO(side, rename("d/in", "d/renamed"));
    DO(side, rename("d/renamed", "out"));
    DO(side, unlink("d/in"));
    DO(side, rmdir("d/folder"));
    DO(side, truncate("d/moved", 3));
    DO(side, chmod("d/moved", 0600));
    DO(side, rename("d", "e"));
}

static void
rights(struct side *side)
{
    for (size_t i = 0; i < sizeof(callers) / sizeof(*callers); i++) {
        const struct caller *who = &callers[i];
        for (unsigned mode = 0; mode < 16; mode++) {
            say(side, "%s, rights %o of a %s\n", who->name, mode & 7,
                mode & 8 ? "folder" : "file");
            object_make(side, "f", FILE_10);
            own(side, "f", mode & 8 ? who->uid : ME, MINE,
                mode & 8 ? 0644 : mode_with(mode & 7, who->shift));
            if (mode & 8) {
                object_make(side, "d", FOLDER_FULL);
                own(side, "d/in", who->uid, who->gid, 0666);
                own(side, "d", ME, MINE, mode_with(mode & 7, who->shift));
            }
            state_settle(side);
            act_as(who->uid, who->gid, who->also);
            if (mode & 8) {
                use_folder(side);
            } else {
                use_file(side);
            }
            part_ends(side);
        }
    }
}

/* ---- sticky folders --------------------------------------------------------------------- */

static void
take_away(struct side *side, unsigned how)
{
    switch (how) {
    case 0:
        DO(side, unlink("d/f"));
        DO(side, rmdir("d/e"));
        DO(side, unlink("d/l"));
        break;
    case 1:
        DO(side, rename("d/f", "d/g"));
        DO(side, rename("d/e", "d/h"));
        break;
    case 2:
        DO(side, rename("d/f", "free/f"));
        DO(side, rename("d/e", "free/e"));
        break;
    case 3:
        DO(side, rename("free/mine", "d/f"));
        DO(side, rename("free/folder", "d/e"));
        break;
    default:
        DO(side,
           renameat2(AT_FDCWD, "free/mine", AT_FDCWD, "d/f", RENAME_EXCHANGE));
        DO(side,
           renameat2(AT_FDCWD, "d/e", AT_FDCWD, "free/f", RENAME_NOREPLACE));
        break;
    }
}

static void
sticky_owners(struct side *side)
{
    static const uid_t owners[] = {ME, YOU, 0};
    for (unsigned i = 0; i < 3 * 3 * 5; i++) {
        uid_t folder = owners[i % 3], entry = owners[i / 3 % 3];
        say(side, "folder of %u, entry of %u, by %u\n", folder, entry, ME);
        MUST(side, mkdir("free", 0777));
        object_make(side, "free/mine", FILE_10);
        MUST(side, mkdir("free/folder", 0755));
        own(side, "free/mine", ME, MINE, 0644);
        own(side, "free/folder", ME, MINE, 0755);
        own(side, "free", YOU, YOURS, 0777);
        MUST(side, mkdir("d", 0777));
        object_make(side, "d/f", FILE_10);
        MUST(side, mkdir("d/e", 0777));
        MUST(side, symlink("f", "d/l"));
        own(side, "d/f", entry, MINE, 0666);
        own(side, "d/e", entry, MINE, 0777);
        MUST(side, lchown("d/l", entry, MINE));
        own(side, "d", folder, MINE, 01777);
        state_settle(side);
        act_as(ME, MINE, ALSO);
        take_away(side, i / 9);
        part_ends(side);
    }
}

/* ---- owners and set-id bits ----------------------------------------------------------- */

/* Each owner and group that the owner, root and others may or may not give. */
static void
owners_are_given(struct side *side)
{
    static const uid_t users[] = {(uid_t)NOBODY, ME, YOU};
    static const gid_t groups[] = {(gid_t)NOBODY, MINE, ALSO, YOURS};
    static const enum kind kinds[] = {FILE_10, FOLDER, FIFO, LINK_TO_NOTHING};
    for (unsigned i = 0; i < 4 * 3 * 4 * 3; i++) {
        enum kind kind = kinds[i % 4];
        uid_t user = users[i / 4 % 3];
        gid_t group = groups[i / 12 % 4];
        unsigned by = i / 48;
        say(side, "%s to %d:%d by %u\n", kind_names[kind], (int)user,
            (int)group, by);
        object_make(side, "x", kind);
        MUST(side, lchown("x", ME, MINE));
        if (kind != LINK_TO_NOTHING) {
            MUST(side, chmod("x", i & 1 ? 06775 : 06701));
        }
        state_settle(side);
        if (by < 2) {
            act_as(by ? YOU : ME, by ? YOURS : MINE, ALSO);
        }
        DO(side, lchown("x", user, group));
        part_ends(side);
    }
}

/* A set-group-id bit is not for a group that is not the owner's. */
static void
set_group_id(struct side *side)
{
    static const gid_t groups[] = {MINE, ALSO, YOURS};
    for (unsigned i = 0; i < 12; i++) {
        bool folder = i / 3 % 2;
        object_make(side, "x", folder ? FOLDER : FILE_10);
        own(side, "x", ME, groups[i % 3], 0700);
        state_settle(side);
        act_as(ME, MINE, ALSO);
        DO(side, chmod("x", i / 6 ? 07777 : 02750));
        part_ends(side);
    }
}

/* The group of what is made is the maker's, or the folder's if that says so. */
static void
made_for(struct side *side)
{
    for (unsigned i = 0; i < 4; i++) {
        MUST(side, mkdir("d", 0777));
        own(side, "d", YOU, i & 2 ? ALSO : YOURS, i & 1 ? 02777 : 0777);
        act_as(ME, MINE, ALSO);
        OPENS(side, open("d/f", O_CREAT | O_WRONLY, 06777));
        OPENS(side, open("d/g", O_CREAT | O_WRONLY, 02767));
        DO(side, mkdir("d/d", 02777));
        DO(side, mkfifo("d/p", 0666));
        DO(side, mknod("d/s", S_IFSOCK | 0666, 0));
        DO(side, mknod("d/r", S_IFREG | 02777, 0));
        DO(side, mknod("d/c", S_IFCHR | 0666, 0x103));
        DO(side, symlink("x", "d/l"));
        part_ends(side);
    }
}

/* Times of a file that is another's. */
static void
times_of_others(struct side *side)
{
    static const struct timespec times[][2] = {
        {{0, UTIME_NOW}, {0, UTIME_NOW}},
        {{0, UTIME_OMIT}, {0, UTIME_OMIT}},
        {{0, UTIME_NOW}, {0, UTIME_OMIT}},
        {{0, UTIME_OMIT}, {0, UTIME_NOW}},
        {{1234567, 8}, {1234567, 999999999}},
        {{0, UTIME_NOW}, {1234567, 8}},
    };
    static const mode_t modes[] = {0666, 0444, 0646, 0664};
    for (unsigned i = 0; i < 4 * 7; i++) {
        object_make(side, "f", FILE_10);
        own(side, "f", YOU, ALSO, modes[i % 4]);
        state_settle(side);
        act_as(ME, MINE, ALSO);
        say(side, "mode %o, times %u\n", modes[i % 4], i / 4);
        DO(side, utimensat(AT_FDCWD, "f", i / 4 == 6 ? NULL : times[i / 4], 0));
        side->atimes = true;
        part_ends(side);
        side->atimes = false;
    }
}

/* ---- programs ----------------------------------------------------------------------------- */

static void
copy_program(struct side *side, const char *name)
{
    int in = open("/bin/sleep", O_RDONLY),
        out = open(name, O_WRONLY | O_CREAT | O_EXCL, 0755);
    struct stat st;
    MUST(side, fstat(in, &st));
    MUST(side, sendfile(out, in, NULL, (size_t)st.st_size));
    MUST(side, close(out));
    close(in);
}

/* Starts it; 0: it does not run. */
static pid_t
start(struct side *side, const char *name)
{
    int ends[2];
    MUST(side, pipe2(ends, O_CLOEXEC));
    pid_t pid = fork();
    if (pid == 0) {
        execl(name, name, "1000", (char *)NULL);
        int error = errno;
        _exit(write(ends[1], &error, sizeof(error)) < 0);
    }
    close(ends[1]);
    int error = 0;
    ssize_t n = read(ends[0], &error, sizeof(error));
    close(ends[0]);
    say(side, "%s %s\n", name, n > 0 ? strerrorname_np(error) : "runs");
    if (n > 0) {
        MUST(side, waitpid(pid, NULL, 0));
        return 0;
    }
    return pid;
}

/* What runs cannot be written, what is written cannot run. */
static void
busy_programs(struct side *side)
{
    copy_program(side, "run");
    state_settle(side);
    pid_t pid = start(side, "./run");
    if (pid <= 0) {
        return;
    }
    OPENS(side, open("run", O_WRONLY));
    OPENS(side, open("run", O_RDWR));
    OPENS(side, open("run", O_WRONLY | O_TRUNC));
    OPENS(side, open("run", O_RDWR | O_CREAT, 0755));
    OPENS(side, open("run", O_RDONLY));
    OPENS(side, open("run", O_RDONLY | O_TRUNC));
    DO(side, truncate("run", 3));
    DO(side, chmod("run", 0711));
    DO(side, link("run", "also"));
    OPENS(side, open("also", O_WRONLY));
    DO(side, rename("run", "moved"));
    OPENS(side, open("moved", O_WRONLY));
    DO(side, unlink("moved"));
    DO(side, kill(pid, SIGKILL));
    MUST(side, waitpid(pid, NULL, 0));
    int fd = OPEN(side, open("also", O_WRONLY));
    start(side, "./also");
    DO(side, pwrite(fd, "\177", 1, 0));
    DO(side, close(fd));
    pid = start(side, "./also");
    if (pid > 0) {
        DO(side, kill(pid, SIGKILL));
        MUST(side, waitpid(pid, NULL, 0));
    }
    state_say(side);
}

/* Links and names do not lead to other file systems. */
static void
other_file_system(struct side *side)
{
    object_make(side, "f", FILE_10);
    MUST(side, mkdir("d", 0755));
    state_settle(side);
    DO(side, rename("f", "/proc/f"));
    DO(side, link("f", "/proc/f"));
    DO(side, rename("d", "/proc/d"));
    DO(side, rename("/proc/version", "f"));
    DO(side, link("/proc/version", "new"));
    DO(side, rename("/proc/version", "new"));
    state_say(side);
}

/* ---- room for files ----------------------------------------------------------------- */

static void
posix_room(struct side *side)
{
    static const long pairs[][2] = {
        {0, 1}, {0, 10},        {0, 100},       {5, 100000}, {200000, 1},
        {0, 0}, {-1, 10},       {10, -1},       {0, -5},     {1L << 20, 4096},
        {9, 1}, {INT64_MAX, 1}, {1, INT64_MAX}, {4095, 2},
    };
    int ends[2];
    MUST(side, pipe(ends));
    MUST(side, mkdir("d", 0755));
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        object_make(side, "f", FILE_10);
        int in = open("f", O_RDONLY), out = open("f", O_RDWR);
        int folder = open("d", O_RDONLY);
        const int fds[] = {out, in, ends[1], folder, -1};
        state_settle(side);
        for (size_t k = 0; k < sizeof(fds) / sizeof(*fds); k++) {
            int error = posix_fallocate(fds[k], pairs[i][0], pairs[i][1]);
            say(side, "%ld, %ld: %s\n", pairs[i][0], pairs[i][1],
                error ? strerrorname_np(error) : "0");
        }
        close(in);
        close(out);
        close(folder);
        state_say(side);
        MUST(side, unlink("f"));
    }
    close(ends[0]);
    close(ends[1]);
}

const struct script user_scripts[] = {
    {"rights of each class", rights, true},
    {"sticky folders by owner", sticky_owners, true},
    {"owners are given", owners_are_given, true},
    {"set-group-id bits of members", set_group_id, true},
    {"made for a group", made_for, true},
    {"times of others' files", times_of_others, true},
    {"programs that run", busy_programs, false},
    {"another file system", other_file_system, false},
    {"posix_fallocate", posix_room, false},
    {NULL, NULL, false},
};
