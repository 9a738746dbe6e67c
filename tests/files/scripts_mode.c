/* SPDX-License-Identifier: Apache-2.0 */
/* Modes, owners and what they allow: sequences of calls; see differ.h. */
#include "config.h"

#include "tests/files/differ.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Each change of contents or owner by the ordinary user takes set-id bits away. */
static void
set_ids_go(struct side *side)
{
    static const mode_t modes[] = {06777, 04777, 02777, 02767, 06666};
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        for (int what = 0; what < 7; what++) {
            object_make(side, "f", FILE_10);
            if (what > 3) {
                MUST(side, chown("f", OTHER, OTHER));
            }
            MUST(side, chmod("f", modes[i]));
            say(side, "mode %o, what %d\n", modes[i], what);
            become_other();
            int fd = OPEN(side, open("f", O_RDWR));
            switch (what) {
            case 0:
                DO(side, write(fd, "x", 1));
                break;
            case 1:
                DO(side, ftruncate(fd, 3));
                break;
            case 2:
                DO(side, truncate("f", 3));
                break;
            case 3:
                OPENS(side, open("f", O_WRONLY | O_TRUNC));
                break;
            case 4:
                DO(side, chown("f", (uid_t)-1, OTHER));
                break;
            case 5:
                DO(side, chown("f", OTHER, (gid_t)-1));
                break;
            case 6:
                DO(side, pwrite(fd, "", 0, 0));
                break;
            }
            close(fd);
            become_root();
            state_say(side);
            MUST(side, unlink("f"));
        }
    }
}

/* The same by root, which keeps them in parts. */
static void
set_ids_of_root(struct side *side)
{
    object_make(side, "f", FILE_SETID);
    int fd = OPEN(side, open("f", O_RDWR));
    DO(side, write(fd, "x", 1));
    state_say(side);
    DO(side, ftruncate(fd, 3));
    state_say(side);
    DO(side, fchown(fd, 12, 12));
    state_say(side);
    DO(side, fchmod(fd, 02745));
    DO(side, fchown(fd, 13, 13));
    state_say(side);
    close(fd);
    MUST(side, mkdir("d", 0755));
    DO(side, chmod("d", 07777));
    DO(side, chown("d", 12, 12));
    state_say(side);
}

/* A folder's set-group-id bit gives its group to what is made in it. */
static void
groups_are_inherited(struct side *side)
{
    MUST(side, mkdir("d", 0777));
    MUST(side, chown("d", 0, 4321));
    MUST(side, chmod("d", 02777));
    for (int as = 0; as < 2; as++) {
        if (as) {
            become_other();
        }
        DO(side, chdir("d"));
        DO(side, mkdir(as ? "d1" : "d0", 0755));
        OPENS(side, open(as ? "f1" : "f0", O_CREAT | O_WRONLY, 02755));
        OPENS(side, open(as ? "g1" : "g0", O_CREAT | O_WRONLY, 02745));
        DO(side, mkfifo(as ? "p1" : "p0", 0644));
        DO(side, symlink("x", as ? "l1" : "l0"));
        DO(side, mknod(as ? "s1" : "s0", S_IFSOCK | 0644, 0));
        DO(side, chmod(as ? "f1" : "f0", 02755));
        DO(side, chdir(".."));
        become_root();
    }
    state_say(side);
}

/* What others may do in a sticky folder. */
static void
sticky(struct side *side)
{
    MUST(side, mkdir("t", 0777));
    MUST(side, chmod("t", 01777));
    object_make(side, "t/root", FILE_10);
    object_make(side, "t/other", FILE_10);
    MUST(side, chown("t/other", OTHER, OTHER));
    MUST(side, mkdir("t/d", 0777));
    MUST(side, mkdir("free", 0777));
    MUST(side, chmod("free", 0777));
    become_other();
    DO(side, unlink("t/root"));
    DO(side, rename("t/root", "t/x"));
    DO(side, rename("t/root", "free/x"));
    DO(side, rename("t/other", "t/root"));
    DO(side, rename("t/other", "free/other"));
    DO(side, rename("free/other", "t/back"));
    DO(side, rmdir("t/d"));
    DO(side, rename("t/d", "t/e"));
    DO(side, link("t/root", "t/mine"));
    DO(side, link("t/back", "t/mine"));
    DO(side, unlink("t/back"));
    become_root();
    state_say(side);
}

/* An open descriptor keeps what it was opened for. */
static void
rights_at_open(struct side *side)
{
    char bytes[10];
    object_make(side, "f", FILE_OTHER);
    become_other();
    int in = OPEN(side, open("f", O_RDONLY)),
        out = OPEN(side, open("f", O_WRONLY));
    DO(side, chmod("f", 0));
    OPENS(side, open("f", O_RDONLY));
    DO(side, read(in, bytes, 5));
    DO(side, write(out, "abc", 3));
    DO(side, ftruncate(out, 2));
    DO(side, fsync(out));
    DO(side, truncate("f", 1));
    close(in);
    close(out);
    int fd = OPEN(side, open("new", O_RDWR | O_CREAT | O_EXCL, 0)); /* mode 0 */
    DO(side, write(fd, "abc", 3));
    DO(side, pread(fd, bytes, 3, 0));
    OPENS(side, open("new", O_RDONLY));
    close(fd);
    fd = OPEN(side, open("ro", O_RDWR | O_CREAT, 0444));
    DO(side, write(fd, "abc", 3));
    close(fd);
    OPENS(side, open("ro", O_RDWR | O_CREAT, 0444));
    become_root();
    state_say(side);
}

/* Folders of which only some of rwx are given. */
static void
folders_by_mode(struct side *side)
{
    struct stat st;
    char name[16];
    for (unsigned mode = 0; mode < 8; mode++) {
        snprintf(name, sizeof(name), "d%u", mode);
        object_make(side, name, FOLDER_FULL);
        MUST(side, chmod(name, mode));
        become_other();
        say(side, "mode %o\n", mode);
        int fd = OPEN(side, open(name, O_RDONLY | O_DIRECTORY));
        DO(side, fstatat(fd, "in", &st, 0));
        close(fd);
        fd = OPEN(side, open(name, O_PATH | O_DIRECTORY));
        DO(side, fstatat(fd, "in", &st, 0));
        DO(side, fstatat(fd, "none", &st, 0));
        DO(side, mkdirat(fd, "new", 0755));
        DO(side, unlinkat(fd, "in", 0));
        DO(side, renameat(fd, "new", fd, "other"));
        OPENS(side, openat(fd, "made", O_CREAT | O_WRONLY, 0600));
        DO(side, fchdir(fd));
        MUST(side, chdir(side->folder));
        close(fd);
        become_root();
    }
    state_say(side);
}

/* A folder that its owner shuts, reads in part and opens again. */
static void
shut_and_open(struct side *side)
{
    static const mode_t modes[] = {0, 0400, 0100, 0700, 0400, 0700};
    object_make(side, "d", FOLDER_FULL);
    MUST(side, mkdir("d/e", 0755));
    MUST(side, symlink("in", "d/l"));
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        DO(side, chmod("d", modes[i]));
        state_say(side);
        OPENS(side, open("d/in", O_RDWR));
    }
}

/* A program that is written to, and one that runs. */
static void
programs(struct side *side)
{
    static const char text[] = "#!/bin/sh\nexit 7\n";
    int status = 0, fd = open("run", O_WRONLY | O_CREAT, 0755);
    MUST(side, write(fd, text, sizeof(text) - 1));
    close(fd);
    for (int i = 0; i < 3; i++) {
        MUST(side, chmod("run", i == 1 ? 0644 : i == 2 ? 0711 : 0755));
        pid_t pid = fork();
        if (pid == 0) {
            execl("./run", "run", (char *)NULL);
            _exit(errno == EACCES ? 99 : 98);
        }
        MUST(side, waitpid(pid, &status, 0) > 0 ? 0 : -1);
        DO(side, WEXITSTATUS(status));
    }
}

/* Attributes of many and of large values. */
static void
attributes(struct side *side)
{
    static char big[70000];
    char name[300], bytes[64];
    object_make(side, "f", FILE_10);
    state_settle(side);
    memset(big, 'v', sizeof(big));
    DO(side, setxattr("f", "user.empty", "", 0, 0));
    DO(side, getxattr("f", "user.empty", bytes, sizeof(bytes)));
    DO(side, setxattr("f", "user.3000", big, 3000, 0));
    DO(side, getxattr("f", "user.3000", big, sizeof(big)));
    DO(side, getxattr("f", "user.3000", bytes, sizeof(bytes)));
    DO(side, setxattr("f", "user.5000", big, 5000, 0));
    DO(side, setxattr("f", "user.65536", big, 65536, 0));
    DO(side, setxattr("f", "user.65537", big, 65537, 0));
    memset(name, 'n', sizeof(name));
    memcpy(name, "user.", 5);
    name[255] = 0;
    DO(side, setxattr("f", name, "x", 1, 0));
    name[255] = 'n';
    name[256] = 0;
    DO(side, setxattr("f", name, "x", 1, 0));
    DO(side, listxattr("f", NULL, 0));
    DO(side, listxattr("f", bytes, 5));
    int fd = OPEN(side, open("f", O_RDONLY));
    DO(side, fsetxattr(fd, "user.b", "x", 1, 0));
    DO(side, fgetxattr(fd, "user.b", bytes, 64));
    DO(side, fremovexattr(fd, "user.b"));
    DO(side, flistxattr(fd, NULL, 0));
    DO(side, unlink("f"));
    DO(side, fgetxattr(fd, "user.empty", bytes, 64));
    DO(side, fsetxattr(fd, "user.c", "x", 1, 0));
    close(fd);
    state_say(side);
}

/* Access lists, as setfacl(1) makes them: user 1000 may read, mask r. */
static void
access_lists(struct side *side)
{
    static const unsigned char list[] = {
        2, 0,   0,   0,   1,   0,   6,  0, 255, 255, 255, 255, 2,   0,  4,
        0, 232, 3,   0,   0,   4,   0,  4, 0,   255, 255, 255, 255, 16, 0,
        4, 0,   255, 255, 255, 255, 32, 0, 0,   0,   255, 255, 255, 255};
    char bytes[100];
    object_make(side, "f", FILE_10);
    MUST(side, mkdir("d", 0755));
    DO(side, setxattr("f", "system.posix_acl_access", list, sizeof(list), 0));
    state_say(side);
    DO(side, getxattr("f", "system.posix_acl_access", bytes, 100));
    DO(side, setxattr("d", "system.posix_acl_default", list, sizeof(list), 0));
    DO(side, setxattr("f", "system.posix_acl_default", list, sizeof(list), 0));
    OPENS(side, open("d/f", O_CREAT | O_WRONLY, 0666));
    DO(side, mkdir("d/d", 0777));
    DO(side, getxattr("d/f", "system.posix_acl_access", bytes, 100));
    DO(side, getxattr("d/d", "system.posix_acl_default", bytes, 100));
    DO(side, chmod("f", 0660));
    DO(side, getxattr("f", "system.posix_acl_access", bytes, 100));
    state_say(side);
    DO(side, removexattr("f", "system.posix_acl_access"));
    DO(side, setxattr("f", "system.posix_acl_access", "bad", 3, 0));
    state_say(side);
}

const struct script mode_scripts[] = {
    {"set-id bits go", set_ids_go, true},
    {"set-id bits of root's", set_ids_of_root, true},
    {"groups are inherited", groups_are_inherited, true},
    {"sticky folders", sticky, true},
    {"rights at open", rights_at_open, true},
    {"folders by mode", folders_by_mode, true},
    {"a folder is shut and opened", shut_and_open, false},
    {"programs", programs, false},
    {"extended attributes", attributes, false},
    {"access lists", access_lists, true},
    {NULL, NULL, false},
};
