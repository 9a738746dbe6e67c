/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that are read, and names that change while things are open; see differ.h. */
#include "config.h"

#include "tests/files/differ.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

static void
touched(struct side *side, const char *name)
{
    MUST(side, close(open(name, O_WRONLY | O_CREAT | O_EXCL, 0644)));
}

static void
many(struct side *side, const char *begin, unsigned n)
{
    char name[64];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%s%u", begin, i);
        touched(side, name);
    }
}

/* Names, their sum, and how often one comes twice. */
static unsigned
counted(DIR *folder, unsigned long *sum)
{
    unsigned n = 0;
    *sum = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL; n++) {
        unsigned long hash = 5381;
        for (const char *c = entry->d_name; *c; c++) {
            hash = hash * 33 + (unsigned char)*c;
        }
        *sum += hash * hash; /* in any order */
    }
    return n;
}

static void
reading(struct side *side)
{
    unsigned long sum;
    long places[300];
    char names[300][32];
    unsigned n = 0;
    MUST(side, mkdir("d", 0755));
    many(side, "d/a file with some name ", 250);
    DIR *folder = opendir("d");
    for (struct dirent *entry;
         folder && n < 300 && (entry = readdir(folder));) {
        snprintf(names[n], sizeof(names[n]), "%.31s", entry->d_name);
        places[n++] = telldir(folder);
    }
    say(side, "%u names\n", n);
    for (unsigned i = 0; folder && i + 1 < n; i += 13) {
        seekdir(folder, places[i]);
        struct dirent *entry = readdir(folder);
        DO(side, entry && !strcmp(entry->d_name, names[i + 1]));
    }
    if (folder) {
        rewinddir(folder);
        DO(side, counted(folder, &sum));
        say(side, "%lx\n", sum);
        touched(side, "d/later");
        rewinddir(folder);
        DO(side, counted(folder, &sum));
        MUST(side, unlink("d/later"));
        MUST(side, unlink("d/a file with some name 7"));
        rewinddir(folder);
        DO(side, counted(folder, &sum));
        say(side, "%lx\n", sum);
        closedir(folder);
    }
}

/* All is removed while the folder is read, as rm -r does. */
static void
removing(struct side *side)
{
    MUST(side, mkdir("d", 0755));
    many(side, "d/", 400);
    DIR *folder = opendir("d");
    unsigned n = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.') {
            MUST(side, unlinkat(dirfd(folder), entry->d_name, 0));
            n++;
        }
    }
    say(side, "%u removed\n", n);
    DO(side, rmdir("d"));
    if (folder) {
        rewinddir(folder);
        unsigned long sum;
        DO(side, counted(folder, &sum));
        OPENS(side, openat(dirfd(folder), "new", O_CREAT | O_WRONLY, 0600));
        DO(side, mkdirat(dirfd(folder), "new", 0700));
        struct stat st;
        DO(side, fstat(dirfd(folder), &st));
        say(side, "links %ld\n", (long)st.st_nlink);
        DO(side, fstatat(dirfd(folder), "..", &st, 0));
        closedir(folder);
    }
    state_say(side);
}

/* Entries come and go while it is read: those that stay come once. */
static void
changing(struct side *side)
{
    char name[64], seen[300] = {0};
    MUST(side, mkdir("d", 0755));
    many(side, "d/stays ", 300);
    many(side, "d/goes ", 100);
    DIR *folder = opendir("d");
    unsigned turn = 0, number;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;
         turn++) {
        if (sscanf(entry->d_name, "stays %u", &number) == 1 && number < 300) {
            seen[number]++;
        }
        if (turn < 100) {
            snprintf(name, sizeof(name), "d/goes %u", turn);
            MUST(side, unlink(name));
            snprintf(name, sizeof(name), "d/comes %u", turn);
            touched(side, name);
        }
    }
    unsigned once = 0;
    for (unsigned i = 0; i < 300; i++) {
        once += seen[i] == 1;
    }
    DO(side, once);
    unsigned long sum;
    if (folder) {
        rewinddir(folder);
        DO(side, counted(folder, &sum));
        say(side, "%lx\n", sum);
        closedir(folder);
    }
}

/* Small buffers: one name a call. */
static void
slowly(struct side *side)
{
    union {
        char bytes[1 << 10];
        struct dirent64 first;
    } buffer;
    MUST(side, mkdir("d", 0755));
    char name[300] = "d/";
    memset(name + 2, 'n', 250);
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name + 200, 20, "%u", i);
        touched(side, name);
    }
    int fd = OPEN(side, open("d", O_RDONLY | O_DIRECTORY));
    unsigned n = 0;
    ssize_t got;
    while ((got = getdents64(fd, &buffer, sizeof(buffer))) > 0) {
        for (ssize_t at = 0; at < got; n++) {
            unsigned short bytes;
            memcpy(&bytes, buffer.bytes + at + 16, 2);
            at += bytes;
        }
    }
    DO(side, got);
    DO(side, n);
    DO(side, getdents64(fd, &buffer, sizeof(buffer)));
    DO(side, lseek(fd, 0, SEEK_SET));
    DO(side, getdents64(fd, &buffer, 20));
    DO(side, read(fd, &buffer, 10));
    DO(side, write(fd, &buffer, 10));
    close(fd);
    fd = OPEN(side, open("d", O_PATH | O_DIRECTORY));
    DO(side, getdents64(fd, &buffer, sizeof(buffer)));
    close(fd);
}

static void
unlinked_while_open(struct side *side)
{
    char bytes[20] = "";
    object_make(side, "f", FILE_LINKED);
    int fd = OPEN(side, open("f", O_RDWR));
    state_settle(side);
    DO(side, unlink("f"));
    state_say_fd(side, "f", fd);
    DO(side, unlink("f.also"));
    state_say_fd(side, "f", fd);
    DO(side, pwrite(fd, "still", 5, 20));
    DO(side, pread(fd, bytes, 20, 18));
    DO(side, ftruncate(fd, 22));
    DO(side, fchmod(fd, 0600));
    DO(side, futimens(fd, NULL));
    DO(side, fsync(fd));
    touched(side, "f"); /* another file of that name */
    DO(side, pwrite(fd, "!", 1, 0));
    state_say_fd(side, "f", fd);
    struct stat a, b;
    DO(side, fstat(fd, &a) == 0 && stat("f", &b) == 0 && a.st_ino == b.st_ino);
    char self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    DO(side, linkat(AT_FDCWD, self, AT_FDCWD, "back", AT_SYMLINK_FOLLOW));
    int again = OPEN(side, open(self, O_RDWR));
    DO(side, pwrite(again, "?", 1, 1));
    state_say_fd(side, "f", fd);
    close(again);
    close(fd);
    state_say(side);
}

static void
replaced_while_open(struct side *side)
{
    object_make(side, "f", FILE_10);
    object_make(side, "g", FILE_EMPTY);
    int fd = OPEN(side, open("f", O_RDWR)),
        other = OPEN(side, open("g", O_RDWR));
    state_settle(side);
    DO(side, rename("g", "f"));
    DO(side, pwrite(other, "in f", 4, 0));
    DO(side, pwrite(fd, "nowhere", 7, 0));
    state_say_fd(side, "f", fd);
    state_say_fd(side, "g", other);
    DO(side, rename("f", "h"));
    DO(side, pwrite(other, "in h", 4, 10));
    DO(side, ftruncate(other, 12));
    state_say_fd(side, "g", other);
    close(fd);
    close(other);
    state_say(side);
}

static void
folder_moved_while_open(struct side *side)
{
    struct stat st;
    MUST(side, mkdir("a", 0755));
    MUST(side, mkdir("a/b", 0755));
    MUST(side, mkdir("z", 0755));
    touched(side, "a/b/f");
    int folder = OPEN(side, open("a/b", O_RDONLY | O_DIRECTORY));
    int fd = OPEN(side, open("a/b/f", O_RDWR));
    DO(side, rename("a", "z/moved"));
    DO(side, write(fd, "here", 4));
    DO(side, fstatat(folder, "f", &st, 0));
    OPENS(side, openat(folder, "g", O_CREAT | O_WRONLY, 0644));
    DO(side, mkdirat(folder, "d", 0755));
    DO(side, renameat(folder, "g", folder, "h"));
    DO(side, fstatat(folder, "../..", &st, 0));
    DO(side, unlinkat(folder, "f", 0));
    DO(side, fchdir(folder));
    DO(side, stat("h", &st));
    DO(side, rename("h", "../up"));
    DO(side, rename("../../moved", "../../again"));
    DO(side, stat("../up", &st));
    DO(side, chdir(side->folder));
    DO(side, rename("z", "z/again/z"));
    DO(side, rename("z/again", "z"));
    close(fd);
    close(folder);
    state_say(side);
}

static void
current_folder_removed(struct side *side)
{
    char here[4096];
    struct stat st;
    MUST(side, mkdir("d", 0755));
    DO(side, chdir("d"));
    DO(side, rmdir("../d"));
    result(side, "getcwd", getcwd(here, sizeof(here)) ? 0 : -1);
    DO(side, stat(".", &st));
    OPENS(side, open("x", O_CREAT | O_WRONLY, 0600));
    DO(side, stat("..", &st));
    DO(side, chdir(side->folder));
    DO(side, mkdir("d", 0755));
    DO(side, rmdir("d/."));
    DO(side, rmdir("."));
    state_say(side);
}

static void
temporary(struct side *side)
{
    char self[64];
    int fd = OPEN(side, open(".", O_TMPFILE | O_RDWR, 0640));
    if (fd < 0) {
        return;
    }
    DO(side, write(fd, "temporary", 9));
    state_say_fd(side, "tmp", fd);
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    DO(side, linkat(AT_FDCWD, self, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    state_say_fd(side, "tmp", fd);
    close(fd);
    fd = OPEN(side, open(".", O_TMPFILE | O_RDWR | O_EXCL, 0640));
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    DO(side, linkat(AT_FDCWD, self, AT_FDCWD, "never", AT_SYMLINK_FOLLOW));
    close(fd);
    state_say(side);
}

/* What was absent is made and removed again, name by name. */
static void
absent_and_there(struct side *side)
{
    struct stat st;
    for (int i = 0; i < 5; i++) {
        DO(side, stat("n", &st));
        DO(side, mkdir("n", 0755));
        DO(side, stat("n", &st));
        DO(side, stat("n/m", &st));
        OPENS(side, open("n/m", O_CREAT | O_EXCL | O_WRONLY, 0644));
        DO(side, stat("n/m", &st));
        DO(side, rename("n", "o"));
        DO(side, stat("n/m", &st));
        DO(side, stat("o/m", &st));
        DO(side, unlink("o/m"));
        DO(side, stat("o/m", &st));
        DO(side, rmdir("o"));
        DO(side, symlink("o", "n"));
        DO(side, stat("n", &st));
        DO(side, unlink("n"));
    }
    state_say(side);
}

/* A tree deeper than a path may be long. */
static void
deep(struct side *side)
{
    char name[256];
    memset(name, 'd', 250);
    name[250] = 0;
    int n = 0;
    for (; n < 20; n++) {
        if (MUST(side, mkdir(name, 0755)) < 0 || MUST(side, chdir(name)) < 0) {
            break;
        }
    }
    DO(side, n);
    touched(side, "f");
    struct stat st;
    DO(side, stat("f", &st));
    OPENS(side, open("f", O_RDWR));
    DO(side, rename("f", "g"));
    DO(side, unlink("g"));
    while (n-- > 0) {
        MUST(side, chdir(".."));
        MUST(side, rmdir(name));
    }
    DO(side, chdir(side->folder));
    state_say(side);
}

/* As many links as the file system allows are not made; a few are. */
static void
links(struct side *side)
{
    char name[32];
    object_make(side, "f", FILE_10);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "l%u", i);
        DO(side, link("f", name));
    }
    DO(side, truncate("l7", 3));
    DO(side, chmod("l8", 0600));
    DO(side, unlink("f"));
    state_settle(side);
    int fd = OPEN(side, open("l9", O_WRONLY | O_APPEND));
    DO(side, write(fd, "more", 4));
    close(fd);
    for (unsigned i = 0; i < 39; i++) {
        snprintf(name, sizeof(name), "l%u", i);
        MUST(side, unlink(name));
    }
    state_say(side);
}

const struct script name_scripts[] = {
    {"reading a folder", reading, false},
    {"removing while reading", removing, false},
    {"changing while reading", changing, false},
    {"reading in small pieces", slowly, false},
    {"unlinked while open", unlinked_while_open, false},
    {"replaced while open", replaced_while_open, false},
    {"folder moved while open", folder_moved_while_open, false},
    {"current folder removed", current_folder_removed, false},
    {"files without a name", temporary, false},
    {"absent and there", absent_and_there, false},
    {"deeper than a path", deep, false},
    {"many links", links, false},
    {NULL, NULL, false},
};
