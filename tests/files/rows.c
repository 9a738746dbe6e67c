/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that are tried on every kind of object with every value; see differ.h. */
#include "config.h"

#include "tests/files/differ.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#define FLAGS(text)    \
    {                  \
#text, text, 0 \
    }
#define ACCESS3(flags) \
    FLAGS(O_RDONLY flags), FLAGS(O_WRONLY flags), FLAGS(O_RDWR flags)

/* ---- open ---------------------------------------------------------------------------- */

static void
try_open(struct side *side, const struct operands *o)
{
    char bytes[16];
    long flags = o->value->a;
    int fd = opened(side, "open", open(o->x, (int)flags | O_NONBLOCK, 0640));
    if (fd < 0) {
        return;
    }
    long got = fcntl(fd, F_GETFL);
    say(side, "flags %lo\n", got & ~(O_NONBLOCK | 0100000L));
    if (o->kind_x != DEVICE && !(flags & O_PATH)) {
        DO(side, read(fd, bytes, 4));
        DO(side, lseek(fd, 0, SEEK_CUR));
        DO(side, write(fd, "new", 3));
        DO(side, lseek(fd, 0, SEEK_CUR));
        DO(side, ftruncate(fd, 5));
        DO(side, fchmod(fd, 0604));
    }
    state_say_fd(side, "opened", fd);
    DO(side, close(fd));
}

static const struct value open_values[] = {
    ACCESS3(),
    ACCESS3(| O_CREAT),
    ACCESS3(| O_CREAT | O_EXCL),
    ACCESS3(| O_TRUNC),
    ACCESS3(| O_CREAT | O_TRUNC),
    ACCESS3(| O_APPEND),
    ACCESS3(| O_CREAT | O_EXCL | O_APPEND),
    ACCESS3(| O_DIRECTORY),
    ACCESS3(| O_NOFOLLOW),
    ACCESS3(| O_CREAT | O_NOFOLLOW),
    ACCESS3(| O_SYNC),
    ACCESS3(| O_NOATIME),
    ACCESS3(| O_TMPFILE),
    FLAGS(O_RDWR | O_TMPFILE | O_EXCL),
    FLAGS(O_WRONLY | O_CREAT | O_DIRECTORY),
    FLAGS(O_PATH),
    FLAGS(O_PATH | O_NOFOLLOW),
    FLAGS(O_PATH | O_DIRECTORY),
    FLAGS(O_RDWR | O_DSYNC | O_CREAT),
    {"3 (neither)", 3, 0},
    {NULL, 0, 0},
};

static void
try_creat(struct side *side, const struct operands *o)
{
    mode_t old = umask((mode_t)o->value->b);
    int fd = OPEN(
        side, open(o->x, O_CREAT | O_WRONLY | O_NONBLOCK, (mode_t)o->value->a));
    umask(old);
    if (fd >= 0) {
        DO(side, write(fd, "x", 1));
        DO(side, close(fd));
    }
}

static const struct value creat_values[] = {
    {"0", 0, 0},         {"0777", 0777, 0},   {"0777, umask 027", 0777, 027},
    {"07777", 07777, 0}, {"0444", 0444, 022}, {"04755, umask 077", 04755, 077},
    {NULL, 0, 0},
};

/* ---- names --------------------------------------------------------------------------- */

static void
try_mkdir(struct side *side, const struct operands *o)
{
    mode_t old = umask((mode_t)o->value->b);
    DO(side, mkdir(o->x, (mode_t)o->value->a));
    umask(old);
}

static void
try_mknod(struct side *side, const struct operands *o)
{
    DO(side, mknod(o->x, (mode_t)o->value->a, (dev_t)o->value->b));
}

static const struct value mknod_values[] = {
    {"fifo 0644", S_IFIFO | 0644, 0},
    {"fifo 07777", S_IFIFO | 07777, 0},
    {"fifo 0", S_IFIFO, 0},
    {"socket 0755", S_IFSOCK | 0755, 0},
    {"regular 0640", S_IFREG | 0640, 0},
    {"no type 0600", 0600, 0},
    {"folder", S_IFDIR | 0755, 0},
    {"link", S_IFLNK | 0777, 0},
    {"char 1:3", S_IFCHR | 0666, 0x103},
    {"block 7:200", S_IFBLK | 0660, 0x7c8},
    {NULL, 0, 0},
};

static void
try_bind(struct side *side, const struct operands *o)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = MUST(side, socket(AF_UNIX, SOCK_STREAM, 0)) == 0
                 ? -1
                 : socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", o->x);
    if (o->value->a) {
        DO(side, connect(fd, (struct sockaddr *)&address, sizeof(address)));
    } else {
        DO(side, bind(fd, (struct sockaddr *)&address, sizeof(address)));
    }
    close(fd);
}

static void
try_symlink(struct side *side, const struct operands *o)
{
    char target[4200];
    memset(target, 't', sizeof(target));
    target[o->value->a] = 0;
    DO(side, symlink(target, o->x));
}

static void
try_unlink(struct side *side, const struct operands *o)
{
    DO(side, unlinkat(AT_FDCWD, o->x, (int)o->value->a));
}

static void
try_link(struct side *side, const struct operands *o)
{
    DO(side, linkat(AT_FDCWD, o->x, AT_FDCWD, o->y, (int)o->value->a));
}

static void
try_rename(struct side *side, const struct operands *o)
{
    DO(side, renameat2(AT_FDCWD, o->x, AT_FDCWD, o->y, (unsigned)o->value->a));
}

static const struct value rename_values[] = {
    {"", 0, 0},
    {"RENAME_NOREPLACE", RENAME_NOREPLACE, 0},
    {"RENAME_EXCHANGE", RENAME_EXCHANGE, 0},
    {"both", RENAME_EXCHANGE | RENAME_NOREPLACE, 0},
    {"unknown flag", 1 << 20, 0},
    {NULL, 0, 0},
};

static void
try_readlink(struct side *side, const struct operands *o)
{
    char target[64] = "";
    DO(side, readlink(o->x, target, (size_t)o->value->a));
    say(side, "%.60s\n", target);
}

static void
try_chdir(struct side *side, const struct operands *o)
{
    struct stat st;
    if (DO(side, chdir(o->x)) == 0) {
        DO(side, stat(".", &st));
        DO(side, stat("in", &st));
        become_root();
        MUST(side, chdir(side->folder));
    }
}

static void
try_list(struct side *side, const struct operands *o)
{
    DIR *folder = opendir(o->x);
    result(side, "opendir", folder ? 0 : -1);
    char all[600] = "";
    unsigned n = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        n++;
        if (strlen(all) < 300) {
            /* Both lie on the same file system: the same order. */
            snprintf(all + strlen(all), sizeof(all) - strlen(all), " %.40s:%d",
                     entry->d_name, entry->d_type);
        }
    }
    if (folder) {
        say(side, "%u:%s\n", n, all);
        DO(side, closedir(folder));
    }
}

/* ---- attributes ---------------------------------------------------------------------- */

static void
try_stat(struct side *side, const struct operands *o)
{
    struct stat st;
    if (DO(side, fstatat(AT_FDCWD, o->x, &st, (int)o->value->a)) == 0) {
        say(side, "%06o %lu %u:%u %lld %lld %ld\n", st.st_mode,
            (long)st.st_nlink, st.st_uid, st.st_gid, (long long)st.st_size,
            (long long)st.st_blocks, (long)st.st_blksize);
    }
}

static void
try_statvfs(struct side *side, const struct operands *o)
{
    struct statvfs st;
    if (DO(side, statvfs(o->x, &st)) == 0) {
        say(side, "block %lu %lu blocks %lu files %lu names %lu\n", st.f_bsize,
            st.f_frsize, (long)st.f_blocks, (long)st.f_files, st.f_namemax);
    }
}

static void
try_access(struct side *side, const struct operands *o)
{
    DO(side, faccessat(AT_FDCWD, o->x, (int)o->value->a, (int)o->value->b));
}

static void
try_truncate(struct side *side, const struct operands *o)
{
    DO(side, truncate(o->x, o->value->a));
}

static const struct value truncate_values[] = {
    {"0", 0, 0},
    {"10", 10, 0},
    {"5", 5, 0},
    {"4097", 4097, 0},
    {"-1", -1, 0},
    {"8 TiB", 8L << 40, 0},
    {"the largest", INT64_MAX, 0},
    {NULL, 0, 0},
};

/* -1 as b: not through a link. */
static void
try_chmod(struct side *side, const struct operands *o)
{
    if (o->value->b) {
        DO(side, syscall(452, AT_FDCWD, o->x, (mode_t)o->value->a,
                         AT_SYMLINK_NOFOLLOW)); /* fchmodat2, Linux 6.6 */
    } else {
        DO(side, chmod(o->x, (mode_t)o->value->a));
    }
}

static const struct value chmod_values[] = {
    {"0", 0, 0},         {"0777", 0777, 0},   {"0644", 0644, 0},
    {"04755", 04755, 0}, {"02755", 02755, 0}, {"01777", 01777, 0},
    {"07777", 07777, 0}, {"0200", 0200, 0},   {"0711, no follow", 0711, -1},
    {NULL, 0, 0},
};

static void
try_chown(struct side *side, const struct operands *o)
{
    DO(side, chown(o->x, (uid_t)o->value->a, (gid_t)o->value->b));
}

static void
try_lchown(struct side *side, const struct operands *o)
{
    DO(side, lchown(o->x, (uid_t)o->value->a, (gid_t)o->value->b));
}

static const struct value chown_values[] = {
    {"-1, -1", -1, -1},
    {"0, 0", 0, 0},
    {"-1, 65534", -1, OTHER},
    {"65534, -1", OTHER, -1},
    {"65534, 65534", OTHER, OTHER},
    {"1234, 5678", 1234, 5678},
    {"-1, 5678", -1, 5678},
    {"1234, -1", 1234, -1},
    {NULL, 0, 0},
};

static const struct timespec times[] = {
    {0, UTIME_NOW},          {0, UTIME_OMIT},          {0, 0},
    {1234567890, 987654321}, {-1, 500000000},          {4294967296, 1},
    {5, 1000000000},         {-2000000000, 999999999}, {17000000000, 0},
};

/* The values are indexes of `times'; -1: a null pointer. */
static void
utimes_on(struct side *side, const struct operands *o, int flags)
{
    struct stat st;
    struct timespec pair[2] = {{0, 0}, {0, 0}};
    if (o->value->a >= 0) {
        pair[0] = times[o->value->a];
        pair[1] = times[o->value->b];
    }
    if (DO(side, utimensat(AT_FDCWD, o->x, o->value->a < 0 ? NULL : pair,
                           flags)) == 0 &&
        fstatat(AT_FDCWD, o->x, &st, flags) == 0) {
        if (o->value->a > 1) {
            say(side, "a %ld.%09ld\n", st.st_atim.tv_sec, st.st_atim.tv_nsec);
        }
        if (o->value->b > 1) {
            say(side, "m %ld.%09ld\n", st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        }
    }
}

static void
try_utimes(struct side *side, const struct operands *o)
{
    utimes_on(side, o, 0);
}

static void
try_lutimes(struct side *side, const struct operands *o)
{
    utimes_on(side, o, AT_SYMLINK_NOFOLLOW);
}

static const struct value utimes_values[] = {
    {"NULL", -1, -1},     {"now, now", 0, 0},  {"omit, omit", 1, 1},
    {"now, omit", 0, 1},  {"omit, now", 1, 0}, {"0, 0", 2, 2},
    {"set, set", 3, 3},   {"set, omit", 3, 1}, {"omit, set", 1, 3},
    {"now, set", 0, 3},   {"set, now", 3, 0},  {"-1, -1", 4, 4},
    {"after 2038", 5, 5}, {"bad ns", 6, 6},    {"1906", 7, 7},
    {"after 2446", 8, 8}, {NULL, 0, 0},
};

/* ---- extended attributes ------------------------------------------------------------- */

static const char *const xattr_names[] = {"user.a",   "trusted.a", "security.a",
                                          "system.a", "none",      "user."};

static void
try_setxattr(struct side *side, const struct operands *o)
{
    char bytes[64] = "";
    const char *name = xattr_names[o->value->a];
    DO(side, lsetxattr(o->x, name, "value", 5, (int)o->value->b));
    DO(side, lgetxattr(o->x, name, bytes, sizeof(bytes)));
    say(side, "%s\n", bytes);
    DO(side, setxattr(o->x, name, "longer value", 12, 0));
    DO(side, getxattr(o->x, name, bytes, 3));
    DO(side, getxattr(o->x, name, bytes, 0));
    char names[256] = "";
    ssize_t n =
        result(side, "llistxattr", llistxattr(o->x, names, sizeof(names)));
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
        say(side, "%s\n", names + i);
    }
    DO(side, lremovexattr(o->x, name));
    DO(side, lremovexattr(o->x, name));
}

static const struct value setxattr_values[] = {
    {"user.a", 0, 0},
    {"user.a, create", 0, XATTR_CREATE},
    {"user.a, replace", 0, XATTR_REPLACE},
    {"trusted.a", 1, 0},
    {"security.a", 2, 0},
    {"system.a", 3, 0},
    {"no space", 4, 0},
    {"no name", 5, 0},
    {NULL, 0, 0},
};

static const struct value none[] = {{"", 0, 0}, {NULL, 0, 0}};
static const struct value mkdir_values[] = {
    {"0777", 0777, 0},   {"0", 0, 0},         {"0777, umask 027", 0777, 027},
    {"07777", 07777, 0}, {"01755", 01755, 0}, {NULL, 0, 0}};
static const struct value symlink_values[] = {
    {"of 1", 1, 0},       {"of 59", 59, 0},     {"of 60", 60, 0},
    {"of 4095", 4095, 0}, {"of 4096", 4096, 0}, {"of 0", 0, 0},
    {NULL, 0, 0}};
static const struct value unlink_values[] = {
    {"", 0, 0}, {"AT_REMOVEDIR", AT_REMOVEDIR, 0}, {"4", 4, 0}, {NULL, 0, 0}};
static const struct value link_values[] = {
    {"", 0, 0}, {"AT_SYMLINK_FOLLOW", AT_SYMLINK_FOLLOW, 0}, {NULL, 0, 0}};
static const struct value stat_values[] = {
    {"", 0, 0}, {"AT_SYMLINK_NOFOLLOW", AT_SYMLINK_NOFOLLOW, 0}, {NULL, 0, 0}};
static const struct value readlink_values[] = {
    {"of 60", 60, 0}, {"of 2", 2, 0}, {"of 0", 0, 0}, {NULL, 0, 0}};
static const struct value bind_values[] = {
    {"", 0, 0}, {"connect", 1, 0}, {NULL, 0, 0}};
static const struct value access_values[] = {
    {"F_OK", F_OK, 0},
    {"R_OK", R_OK, 0},
    {"W_OK", W_OK, 0},
    {"X_OK", X_OK, 0},
    {"R_OK | W_OK", R_OK | W_OK, 0},
    {"7", 7, 0},
    {"R_OK | X_OK, AT_EACCESS", R_OK | X_OK, AT_EACCESS},
    {"8", 8, 0},
    {NULL, 0, 0}};

const struct row rows[] = {
    {"open", 1, true, false, try_open, open_values},
    {"creat", 1, true, false, try_creat, creat_values},
    {"mkdir", 1, true, false, try_mkdir, mkdir_values},
    {"mknod", 1, true, false, try_mknod, mknod_values},
    {"bind", 1, true, false, try_bind, bind_values},
    {"symlink", 1, true, false, try_symlink, symlink_values},
    {"unlinkat", 1, true, false, try_unlink, unlink_values},
    {"linkat", 2, true, false, try_link, link_values},
    {"renameat2", 2, true, false, try_rename, rename_values},
    {"readlink", 1, false, false, try_readlink, readlink_values},
    {"chdir", 1, false, false, try_chdir, none},
    {"list", 1, false, false, try_list, none},
    {"fstatat", 1, false, false, try_stat, stat_values},
    {"statvfs", 1, false, false, try_statvfs, none},
    {"faccessat", 1, false, false, try_access, access_values},
    {"truncate", 1, false, false, try_truncate, truncate_values},
    {"chmod", 1, false, false, try_chmod, chmod_values},
    {"chown", 1, false, false, try_chown, chown_values},
    {"lchown", 1, false, false, try_lchown, chown_values},
    {"utimensat", 1, false, true, try_utimes, utimes_values},
    {"utimensat nofollow", 1, false, true, try_lutimes, utimes_values},
    {"setxattr", 1, false, false, try_setxattr, setxattr_values},
    {NULL, 0, false, false, NULL, NULL},
};
