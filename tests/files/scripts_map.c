/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of files; see differ.h. */
#include "config.h"

#include "tests/files/differ.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf away;

static void
bus(int number)
{
    siglongjmp(away, number);
}

/* What a byte of a mapping is, or that it is beyond the file. */
static void
look(struct side *side, const volatile char *at, long offset)
{
    signal(SIGBUS, bus);
    int number = sigsetjmp(away, 1);
    if (number == 0) {
        say(side, "[%ld] is %d\n", offset, at[offset]);
    } else {
        say(side, "[%ld]: signal %d\n", offset, number);
    }
    signal(SIGBUS, SIG_DFL);
}

static void *
mapped(struct side *side, const char *text, void *at)
{
    result(side, text, at == MAP_FAILED ? -1 : 0);
    return at;
}
#define MAP(side, call) mapped(side, #call, call)

static int
made(struct side *side, size_t bytes)
{
    static char block[20000];
    memset(block, 'm', sizeof(block));
    int fd = open("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
    MUST(side, fd);
    MUST(side, write(fd, block, bytes));
    return fd;
}

static void
shared(struct side *side)
{
    char bytes[20] = "";
    int fd = made(side, 10000);
    char *at =
        MAP(side, mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    if (at == MAP_FAILED) {
        close(fd);
        return;
    }
    look(side, at, 0);
    look(side, at, 9999);
    look(side, at, 10000);
    look(side, at, 12288);
    strcpy(at + 100, "by memory");
    DO(side, msync(at, 16384, MS_SYNC));
    DO(side, pread(fd, bytes, 10, 100));
    say(side, "%s\n", bytes);
    DO(side, pwrite(fd, "by call", 8, 200));
    say(side, "%.7s\n", at + 200);
    at[11000] = 'z'; /* beyond the end, not kept */
    DO(side, ftruncate(fd, 13000));
    look(side, at, 12288);
    DO(side, ftruncate(fd, 5000));
    look(side, at, 4999);
    look(side, at, 5000);
    look(side, at, 8192);
    DO(side, ftruncate(fd, 10000));
    look(side, at, 8192);
    at[9000] = 'q';
    DO(side, close(fd));
    strcpy(at + 300, "closed");
    DO(side, munmap(at, 16384));
    state_say(side);
}

static void private(struct side *side)
{
    int fd = made(side, 10000);
    char *at = MAP(
        side, mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    if (at != MAP_FAILED) {
        strcpy(at, "mine");
        DO(side, pwrite(fd, "file's", 6, 5000));
        say(side, "%.6s\n", at + 5000);
        DO(side, munmap(at, 10000));
    }
    close(fd);
    state_say(side);
}

static void
refused(struct side *side)
{
    int fd = made(side, 100);
    close(fd);
    fd = open("f", O_RDONLY);
    MAP(side, mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    MAP(side, mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    MAP(side, mmap(NULL, 100, PROT_READ, MAP_SHARED, fd, 1));
    MAP(side, mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0));
    close(fd);
    fd = open("f", O_WRONLY);
    MAP(side, mmap(NULL, 100, PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    fd = open(".", O_RDONLY);
    MAP(side, mmap(NULL, 100, PROT_READ, MAP_SHARED, fd, 0));
    close(fd);
}

/* A mapping outlives its name; two mappings of one file. */
static void
unnamed(struct side *side)
{
    int fd = made(side, 10000), other = open("f", O_RDWR);
    char *a =
        MAP(side, mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    char *b = MAP(
        side, mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0));
    if (a != MAP_FAILED && b != MAP_FAILED) {
        DO(side, unlink("f"));
        close(fd);
        strcpy(a + 50, "gone but there");
        say(side, "%.14s\n", b + 50);
        DO(side, msync(a, 10000, MS_SYNC));
        char bytes[15] = "";
        DO(side, pread(other, bytes, 14, 50));
        say(side, "%s\n", bytes);
        DO(side, madvise(b, 10000, MADV_DONTNEED));
        say(side, "%.14s\n", b + 50);
        munmap(a, 10000);
        munmap(b, 10000);
    }
    close(other);
    state_say(side);
}

const struct script map_scripts[] = {
    {"shared mapping", shared, false},
    {"private mapping", private, false},
    {"mappings that are refused", refused, false},
    {"mapping without a name", unnamed, false},
    {NULL, NULL, false},
};
