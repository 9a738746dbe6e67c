/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls on one file, compared with a copy in memory after each: reads, writes,
 * appends, truncation, mappings, holes, copies, syncs, opening anew, by two descriptors.
 *
 *   fsx [--seed S] [--calls N] [--seconds N] [--bytes SIZE] [--other PATH] FILE
 *
 * PATH is the same file by another way: after each sync it holds the same. Prints the
 * last calls and the place that differs; status 1: one did.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/falloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    HISTORY = 40,
    MOST = 1 << 22
};

static struct state {
    const char *path, *other;
    uint64_t random;
    size_t most, size;           /* of the file */
    unsigned char *good, *bytes; /* what it must hold; room for a call */
    int fds[2];
    char history[HISTORY][96];
    unsigned long calls;
} s = {.random = 1, .most = 256 << 10};

static uint64_t
draw(uint64_t below)
{
    s.random = s.random * 6364136223846793005u + 1442695040888963407u;
    return below ? (s.random >> 20) % below : 0;
}

static _Noreturn void
fail(const char *what)
{
    fprintf(stderr, "fsx: call %lu: %s: %s\n", s.calls, what, strerror(errno));
    for (unsigned i = 0; i < HISTORY; i++) {
        const char *text = s.history[(s.calls + 1 + i) % HISTORY];
        if (*text) {
            fprintf(stderr, "  %s\n", text);
        }
    }
    exit(1);
}

static void
note(const char *name, size_t at, size_t n)
{
    snprintf(s.history[s.calls % HISTORY], sizeof(s.history[0]),
             "%lu: %s at %zu of %zu, size %zu", s.calls, name, at, n, s.size);
}

static void
same(const char *what, const unsigned char *got, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (got[i] != s.good[at + i]) {
            size_t run = i;
            while (run < n && got[run] != s.good[at + run]) {
                run++;
            }
            errno = 0;
            fprintf(stderr,
                    "fsx: %s: from byte %zu %zu are other: %02x, not %02x\n",
                    what, at + i, run - i, got[i], s.good[at + i]);
            fail(what);
        }
    }
}

static void
grow(size_t to)
{
    if (to > s.size) {
        memset(s.good + s.size, 0, to - s.size);
        s.size = to;
    }
}

static void
fill(unsigned char *at, size_t n)
{
    uint64_t word = draw(0) + s.random;
    for (size_t i = 0; i < n; i++) {
        word = word * 6364136223846793005u + 1;
        at[i] = (unsigned char)(word >> 56);
    }
}

static void
check_size(const char *what)
{
    struct stat by_name, by_fd;
    if (stat(s.path, &by_name) != 0 || fstat(s.fds[draw(2)], &by_fd) != 0) {
        fail("stat");
    }
    if ((size_t)by_name.st_size != s.size || (size_t)by_fd.st_size != s.size) {
        fprintf(stderr, "fsx: size %ld, by the descriptor %ld, not %zu\n",
                (long)by_name.st_size, (long)by_fd.st_size, s.size);
        errno = 0;
        fail(what);
    }
}

/* ---- calls --------------------------------------------------------------------------- */

static void
do_read(int fd, size_t at, size_t n)
{
    ssize_t got = pread(fd, s.bytes, n, (off_t)at);
    size_t want = at >= s.size ? 0 : n < s.size - at ? n : s.size - at;
    if (got != (ssize_t)want) {
        fprintf(stderr, "fsx: %zd bytes were read, not %zu\n", got, want);
        fail("read");
    }
    same("read", s.bytes, at, want);
}

static void
do_write(int fd, size_t at, size_t n)
{
    fill(s.bytes, n);
    if (pwrite(fd, s.bytes, n, (off_t)at) != (ssize_t)n) {
        fail("write");
    }
    grow(at + n);
    memcpy(s.good + at, s.bytes, n);
}

static void
do_append(int fd, size_t at, size_t n)
{
    (void)fd;
    (void)at;
    if (s.size + n > s.most) {
        return;
    }
    int more = open(s.path, O_WRONLY | O_APPEND);
    fill(s.bytes, n);
    if (more < 0 || write(more, s.bytes, n) != (ssize_t)n) {
        fail("append");
    }
    close(more);
    at = s.size;
    grow(at + n);
    memcpy(s.good + at, s.bytes, n);
}

static void
do_truncate(int fd, size_t at, size_t n)
{
    if ((n % 2 ? ftruncate(fd, (off_t)at) : truncate(s.path, (off_t)at)) != 0) {
        fail("truncate");
    }
    grow(at);
    s.size = at;
}

/* At most what lies within the file. */
static bool
within(size_t at, size_t *n)
{
    if (at >= s.size) {
        return false;
    }
    *n = *n < s.size - at ? *n : s.size - at;
    return *n > 0;
}

static void
do_map(int fd, size_t at, size_t n, bool writes)
{
    size_t begin = at & ~(size_t)4095;
    if (!within(at, &n)) {
        return;
    }
    unsigned char *map =
        mmap(NULL, at + n - begin, PROT_READ | (writes ? PROT_WRITE : 0),
             MAP_SHARED, fd, (off_t)begin);
    if (map == MAP_FAILED) {
        fail("mmap");
    }
    if (writes) {
        fill(s.good + at, n);
        memcpy(map + (at - begin), s.good + at, n);
        if (draw(2) && msync(map, at + n - begin, MS_SYNC) != 0) {
            fail("msync");
        }
    }
    same("mapping", map + (at - begin), at, n);
    munmap(map, at + n - begin);
}

static void
do_map_read(int fd, size_t at, size_t n)
{
    do_map(fd, at, n, false);
}

static void
do_map_write(int fd, size_t at, size_t n)
{
    do_map(fd, at, n, true);
}

static void
do_punch(int fd, size_t at, size_t n)
{
    static bool no;
    if (no || !within(at, &n)) {
        return;
    }
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                  (off_t)n) != 0) {
        no = errno == EOPNOTSUPP;
        if (!no) {
            fail("punch");
        }
        return;
    }
    memset(s.good + at, 0, n);
}

static void
do_copy(int fd, size_t at, size_t n)
{
    loff_t from = (loff_t)at, to = (loff_t)draw(s.most - n);
    if (!within(at, &n) || (size_t)to + n > s.most ||
        ((size_t)to < at + n && at < (size_t)to + n)) {
        return;
    }
    size_t target = (size_t)to;
    for (size_t left = n; left;) {
        ssize_t got = copy_file_range(fd, &from, s.fds[0], &to, left, 0);
        if (got <= 0) {
            fail("copy_file_range");
        }
        left -= (size_t)got;
    }
    grow(target + n);
    memmove(s.good + target, s.good + at, n);
}

/* The whole file by its other way. */
static void
check_other(void)
{
    int fd = open(s.other, O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || (size_t)st.st_size != s.size ||
        pread(fd, s.bytes, s.size, 0) != (ssize_t)s.size) {
        fail("the file by its other way");
    }
    same("the file by its other way", s.bytes, 0, s.size);
    close(fd);
}

static void
do_sync(int fd, size_t at, size_t n)
{
    (void)at;
    if ((n % 2 ? fsync(fd) : fdatasync(fd)) != 0) {
        fail("fsync");
    }
    if (s.other) {
        check_other();
    }
}

static void
do_open(int fd, size_t at, size_t n)
{
    int i = fd == s.fds[1];
    (void)at;
    (void)n;
    if (close(fd) != 0 || (s.fds[i] = open(s.path, O_RDWR)) < 0) {
        fail("open");
    }
    if (s.other) {
        check_other(); /* what was written before a close is there */
    }
}

static void
do_drop(int fd, size_t at, size_t n)
{
    if (posix_fadvise(fd, (off_t)at, (off_t)n, POSIX_FADV_DONTNEED) != 0) {
        fail("fadvise");
    }
}

static const struct {
    const char *name;
    unsigned weight;
    void (*run)(int fd, size_t at, size_t n);
} calls[] = {
    {"read", 30, do_read},
    {"write", 30, do_write},
    {"append", 4, do_append},
    {"truncate", 6, do_truncate},
    {"read by mapping", 8, do_map_read},
    {"write by mapping", 8, do_map_write},
    {"punch", 3, do_punch},
    {"copy", 3, do_copy},
    {"sync", 3, do_sync},
    {"open anew", 3, do_open},
    {"drop", 2, do_drop},
};
enum {
    CALLS = sizeof(calls) / sizeof(*calls),
    WEIGHTS = 100
};

static void
step(void)
{
    unsigned pick = (unsigned)draw(WEIGHTS), i = 0;
    while (pick >= calls[i].weight) {
        pick -= calls[i++].weight;
    }
    size_t n = 1 + draw(draw(3) ? 9000 : 70000), at = draw(s.most - n);
    if (s.size && draw(4)) { /* mostly within */
        at = draw(s.size);
        n = at + n > s.most ? s.most - at : n;
    }
    if (draw(3) == 0) {
        at &= ~(size_t)4095;
    }
    note(calls[i].name, at, n);
    calls[i].run(s.fds[draw(2)], at, n);
    check_size(calls[i].name);
    s.calls++;
}

int
main(int argc, char **argv)
{
    static const struct option table[] = {
        {"seed", required_argument, NULL, 's'},
        {"calls", required_argument, NULL, 'n'},
        {"seconds", required_argument, NULL, 't'},
        {"bytes", required_argument, NULL, 'b'},
        {"other", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0},
    };
    unsigned long most = 0, seconds = 0;
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        unsigned long number = optarg ? strtoul(optarg, NULL, 10) : 0;
        switch (c) {
        case 's':
            s.random = number;
            break;
        case 'n':
            most = number;
            break;
        case 't':
            seconds = number;
            break;
        case 'b':
            s.most = number < MOST ? number : MOST;
            break;
        case 'o':
            s.other = optarg;
            break;
        default:
            return 2;
        }
    }
    if (argc - optind != 1 || s.most < 100000) {
        fputs("usage: fsx [OPTIONS] FILE\n", stderr);
        return 2;
    }
    s.path = argv[optind];
    s.good = calloc(1, s.most);
    s.bytes = malloc(s.most);
    s.fds[0] = open(s.path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    s.fds[1] = open(s.path, O_RDWR);
    if (!s.good || !s.bytes || s.fds[0] < 0 || s.fds[1] < 0) {
        perror("fsx");
        return 2;
    }
    time_t until = time(NULL) + (time_t)seconds;
    while ((!most || s.calls < most) && (!seconds || time(NULL) < until)) {
        step();
    }
    do_sync(s.fds[0], 0, 1);
    do_read(s.fds[1], 0, s.most);
    printf("fsx: %lu calls\n", s.calls);
    return 0;
}
