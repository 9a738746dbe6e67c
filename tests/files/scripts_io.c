/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, writing, holes, copies: sequences of calls; see differ.h. */
#include "config.h"

#include "tests/files/differ.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

static char block[1 << 17];

/* Bytes that tell where they are. */
static const char *
filled(unsigned seed)
{
    for (size_t i = 0; i < sizeof(block); i++) {
        block[i] = (char)((i * 2654435761u + seed * 40503u) >> 13);
    }
    return block;
}

static int
made(struct side *side, const char *name, size_t bytes)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    MUST(side, fd);
    MUST(side, bytes ? write(fd, filled((unsigned)bytes), bytes) : 0);
    return fd;
}

static void
odd_offsets(struct side *side)
{
    static const off_t at[] = {0,     1,      4095,   4096,   4097,
                               65535, 131071, 131072, 1000003};
    static const size_t sizes[] = {1, 2, 511, 4096, 4097, 65537, 131072};
    int fd = made(side, "f", 5000);
    for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
        for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
            DO(side,
               pwrite(fd, filled((unsigned)(i * 7 + k)), sizes[k], at[i]));
            DO(side, pread(fd, block, sizes[k], at[i] + 3));
        }
    }
    state_say_fd(side, "f", fd);
    close(fd);
    state_say(side);
}

static void
reads_at_the_end(struct side *side)
{
    volatile uintptr_t nowhere = 16;
    char bytes[100];
    int fd = made(side, "f", 10);
    DO(side, pread(fd, bytes, 100, 0));
    DO(side, pread(fd, bytes, 100, 9));
    DO(side, pread(fd, bytes, 100, 10));
    DO(side, pread(fd, bytes, 100, 11));
    DO(side, pread(fd, bytes, 100, -1));
    DO(side, pread(fd, bytes, 0, 5));
    DO(side, pread(fd, bytes, 1, INT64_MAX));
    DO(side, pread(fd, bytes, 2, INT64_MAX));
    DO(side, pwrite(fd, bytes, 0, 100));
    DO(side, pwrite(fd, bytes, 1, -1));
    DO(side, pwrite(fd, bytes, 1, INT64_MAX));
    DO(side, read(fd, (void *)nowhere, 10));
    DO(side, lseek(fd, 0, SEEK_SET));
    DO(side, read(fd, (void *)nowhere, 10));
    DO(side, write(fd, (void *)nowhere, 10));
    close(fd);
    DO(side, read(fd = open("f", O_WRONLY), bytes, 1));
    close(fd);
    DO(side, write(fd = open("f", O_RDONLY), bytes, 1));
    DO(side, ftruncate(fd, 0));
    close(fd);
    state_say(side);
}

static void
appends(struct side *side)
{
    int fd = made(side, "f", 10),
        more = OPEN(side, open("f", O_RDWR | O_APPEND)),
        other = OPEN(side, open("f", O_WRONLY | O_APPEND));
    DO(side, write(more, "abc", 3));
    DO(side, write(other, "def", 3));
    DO(side, lseek(more, 2, SEEK_SET));
    DO(side, write(more, "ghi", 3));
    DO(side, pwrite(more, "at", 2, 1)); /* Linux appends */
    DO(side, lseek(more, 0, SEEK_CUR));
    DO(side, ftruncate(fd, 4));
    DO(side, write(more, "jkl", 3));
    DO(side, write(fd, "m", 1));
    DO(side, fcntl(other, F_SETFL, 0));
    DO(side, pwrite(other, "0", 1, 0));
    DO(side, fcntl(fd, F_SETFL, O_APPEND));
    DO(side, write(fd, "end", 3));
    close(other);
    close(more);
    close(fd);
    state_say(side);
}

static void
vectors(struct side *side)
{
    volatile int none = -1;
    char a[10], b[7];
    struct iovec in[] = {{a, 10}, {b, 7}, {NULL, 0}};
    struct iovec out[] = {
        {(char *)"one", 3}, {(char *)"", 0}, {(char *)"two4", 4}};
    int fd = made(side, "f", 30);
    DO(side, preadv(fd, in, 3, 5));
    DO(side, pwritev(fd, out, 3, 20));
    DO(side, pwritev2(fd, out, 3, -1, RWF_APPEND));
    DO(side, pwritev2(fd, out, 3, 2, RWF_SYNC));
    DO(side, pwritev2(fd, out, 3, 2, RWF_DSYNC));
    DO(side, preadv2(fd, in, 2, 0, 1 << 20));
    DO(side, readv(fd, in, none));
    close(fd);
    state_say(side);
}

static void
holes(struct side *side)
{
    int fd = made(side, "f", 0);
    MUST(side, pwrite(fd, filled(1), 8192, 1 << 20));
    MUST(side, pwrite(fd, filled(2), 4096, 3 << 20));
    MUST(side, ftruncate(fd, 4 << 20));
    MUST(side, fsync(fd));
    off_t at[] = {0,
                  5,
                  (1 << 20) - 1,
                  1 << 20,
                  (1 << 20) + 9000,
                  3 << 20,
                  (4 << 20) - 1,
                  4 << 20,
                  5 << 20,
                  -1};
    for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
        DO(side, lseek(fd, at[i], SEEK_DATA));
        DO(side, lseek(fd, at[i], SEEK_HOLE));
    }
    DO(side, lseek(fd, 0, 9));
    DO(side, lseek(fd, -5, SEEK_END));
    DO(side, lseek(fd, -5, SEEK_SET));
    DO(side, lseek(fd, INT64_MAX, SEEK_CUR));
    DO(side, lseek(fd, 10, SEEK_END));
    state_say_fd(side, "f", fd);
    close(fd);
    fd = made(side, "huge", 0);
    DO(side, ftruncate(fd, 8L << 40));
    DO(side, pwrite(fd, "x", 1, (8L << 40) - 1));
    DO(side, lseek(fd, 4096, SEEK_DATA));
    DO(side, pread(fd, block, 100, 4L << 40));
    DO(side, pwrite(fd, "x", 1, 17L << 40)); /* ext4 has 16 TiB */
    close(fd);
    state_say(side);
}

static void
allocates(struct side *side)
{
    static const int modes[] = {0,
                                FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_ZERO_RANGE,
                                FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_COLLAPSE_RANGE,
                                FALLOC_FL_INSERT_RANGE,
                                FALLOC_FL_PUNCH_HOLE,
                                1 << 20};
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        int fd = made(side, "f", 40960);
        say(side, "mode %d\n", modes[i]);
        MUST(side, fsync(fd));
        DO(side, fallocate(fd, modes[i], 4096, 8192));
        state_say_fd(side, "f", fd);
        DO(side, fallocate(fd, modes[i], 100, 5000));
        DO(side, fallocate(fd, modes[i], 36864, 65536));
        state_say_fd(side, "f", fd);
        DO(side, fallocate(fd, modes[i], -1, 10));
        DO(side, fallocate(fd, modes[i], 0, 0));
        DO(side, fallocate(fd, modes[i], INT64_MAX, 1));
        close(fd);
        DO(side, fallocate(fd = open("f", O_RDONLY), modes[i], 0, 4096));
        close(fd);
        state_say(side);
        MUST(side, unlink("f"));
    }
    int fd = made(side, "f", 0);
    DO(side, posix_fallocate(fd, 0, 10000));
    DO(side, posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    DO(side, readahead(fd, 0, 4096));
    DO(side, sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE));
    close(fd);
    state_say(side);
}

static void
copies(struct side *side)
{
    int from = made(side, "from", 100000), to = made(side, "to", 10);
    off_t a = 5, b = 7;
    DO(side, copy_file_range(from, &a, to, &b, 50000, 0));
    say(side, "%ld %ld\n", (long)a, (long)b);
    DO(side, copy_file_range(from, &a, to, NULL, 1000, 0));
    DO(side, lseek(to, 0, SEEK_CUR));
    a = 99999;
    DO(side, copy_file_range(from, &a, to, &b, 50000, 0));
    a = 200000;
    DO(side, copy_file_range(from, &a, to, &b, 5, 0));
    DO(side, copy_file_range(from, &a, to, &b, 5, 1));
    a = 0, b = 10;
    DO(side, copy_file_range(from, &a, from, &b, 100, 0)); /* overlaps */
    b = 1000;
    DO(side, copy_file_range(from, &a, from, &b, 100, 0));
    state_say_fd(side, "from", from);
    a = 0;
    DO(side, lseek(to, 0, SEEK_END));
    DO(side, sendfile(to, from, &a, 70000));
    DO(side, fcntl(to, F_SETFL, O_APPEND));
    DO(side, copy_file_range(from, &a, to, NULL, 10, 0));
    close(from);
    close(to);
    from = OPEN(side, open("from", O_WRONLY));
    to = OPEN(side, open("to", O_RDONLY));
    DO(side, copy_file_range(from, NULL, to, NULL, 10, 0));
    DO(side, copy_file_range(to, NULL, to, NULL, 10, 0));
    close(from);
    close(to);
    state_say(side);
}

static void
syncs(struct side *side)
{
    int fd = made(side, "f", 10), folder = OPEN(side, open(".", O_RDONLY));
    DO(side, fsync(fd));
    DO(side, fdatasync(fd));
    DO(side, fsync(folder));
    DO(side, fdatasync(folder));
    DO(side, syncfs(fd));
    close(fd);
    DO(side, fsync(fd = open("f", O_RDONLY)));
    close(fd);
    DO(side, fsync(fd = open("f", O_PATH)));
    close(fd);
    close(folder);
    DO(side, write(fd = open("f", O_WRONLY | O_SYNC), "abc", 3));
    close(fd);
    state_say(side);
}

static void
direct(struct side *side)
{
    char *bytes = aligned_alloc(4096, 65536);
    int fd = made(side, "f", 20000);
    close(fd);
    fd = OPEN(side, open("f", O_RDWR | O_DIRECT));
    if (bytes && fd >= 0) {
        memset(bytes, 'd', 65536);
        DO(side, pwrite(fd, bytes, 8192, 4096));
        DO(side, pread(fd, bytes, 8192, 0));
        DO(side, pread(fd, bytes, 65536, 16384));
        memset(bytes, 'f', 4096); /* what is read beyond the end is not told */
        DO(side, pwrite(fd, bytes, 4096, 20480));
        int other = OPEN(side, open("f", O_RDWR));
        DO(side, pwrite(other, "buffered", 8, 4100));
        DO(side, pread(fd, bytes, 4096, 4096));
        DO(side, memcmp(bytes + 4, "buffered", 8) == 0);
        memset(bytes, 'e', 4096);
        DO(side, pwrite(fd, bytes, 4096, 4096));
        DO(side, pread(other, bytes, 10, 4099));
        say(side, "%.10s\n", bytes);
        close(other);
    }
    close(fd);
    free(bytes);
    state_say(side);
}

/* Written by one descriptor, read by others, also after truncation. */
static void
several(struct side *side)
{
    char bytes[64] = "";
    int a = made(side, "f", 0), b = OPEN(side, open("f", O_RDWR)),
        c = OPEN(side, open("f", O_RDONLY));
    for (int i = 0; i < 20; i++) {
        DO(side,
           pwrite(i % 2 ? a : b, &"abcdefghijklmnopqrstuvwxyz"[i], 5, i * 3));
        DO(side, pread(c, bytes, 60, 0));
        say(side, "%.60s\n", bytes);
        struct stat st;
        DO(side, fstat(c, &st));
        say(side, "%ld\n", (long)st.st_size);
    }
    DO(side, ftruncate(a, 7));
    DO(side, pread(c, bytes, 60, 0));
    DO(side, ftruncate(b, 5000));
    DO(side, pread(c, bytes, 60, 4));
    DO(side, bytes[2] == 'g' || bytes[3] != 0);
    close(c);
    OPENS(side, open("f", O_WRONLY | O_TRUNC));
    DO(side, pread(b, bytes, 60, 0));
    DO(side, pwrite(a, "late", 4, 100));
    state_say_fd(side, "f", b);
    close(a);
    close(b);
    state_say(side);
}

static void
limits(struct side *side)
{
    struct rlimit old, small;
    int fd = made(side, "f", 0);
    MUST(side, getrlimit(RLIMIT_FSIZE, &old));
    small = (struct rlimit){10000, old.rlim_max};
    MUST(side, setrlimit(RLIMIT_FSIZE, &small));
    DO(side, pwrite(fd, filled(0), 8000, 0));
    DO(side, pwrite(fd, filled(0), 8000, 8000));
    DO(side, pwrite(fd, filled(0), 8000, 10000));
    DO(side, ftruncate(fd, 10001));
    DO(side, truncate("f", 20000));
    DO(side, fallocate(fd, 0, 0, 20000));
    DO(side, ftruncate(fd, 9000));
    MUST(side, setrlimit(RLIMIT_FSIZE, &old));
    close(fd);
    state_say(side);
}

/* Access, change and status times of each call on one open file. */
static void
times_of_calls(struct side *side)
{
    int fd = made(side, "f", 5000);
    char bytes[10];
    side->atimes = true;
#define STEP(call)                   \
    do {                             \
        state_settle(side);          \
        DO(side, call);              \
        state_say_fd(side, "f", fd); \
    } while (0)
    STEP(write(fd, "abc", 3));
    STEP(write(fd, "abc", 0));
    STEP(pread(fd, bytes, 10, 0));
    STEP(ftruncate(fd, 5003));
    STEP(ftruncate(fd, 6000));
    STEP(ftruncate(fd, 0));
    STEP(ftruncate(fd, 0));
    STEP(truncate("f", 0));
    STEP(fchmod(fd, 0644));
    STEP(fchown(fd, (uid_t)-1, (gid_t)-1));
    STEP(link("f", "g"));
    STEP(rename("g", "h"));
    STEP(unlink("h"));
    STEP(fsync(fd));
    STEP(closed(open("f", O_WRONLY | O_TRUNC)));
    STEP(pwrite(fd, filled(1), 9000, 0));
    STEP(closed(open("f", O_WRONLY | O_TRUNC)));
    STEP(fallocate(fd, 0, 0, 4096));
    STEP(fallocate(fd, 0, 0, 4096));
    STEP(futimens(fd, NULL));
    STEP(closed(open("f", O_RDONLY)));
    STEP(closed(open("f", O_RDWR)));
#undef STEP
    close(fd);
    state_say(side);
}

/* Times of a folder by what happens in it. */
static void
times_of_folders(struct side *side)
{
    MUST(side, mkdir("d", 0755));
    MUST(side, mkdir("e", 0755));
#define STEP(call)          \
    do {                    \
        state_settle(side); \
        DO(side, call);     \
        state_say(side);    \
    } while (0)
    STEP(closed(open("d/f", O_WRONLY | O_CREAT, 0644)));
    STEP(closed(open("d/f", O_WRONLY | O_CREAT, 0644)));
    STEP(link("d/f", "e/g"));
    STEP(rename("d/f", "d/h"));
    STEP(rename("d/h", "d/h"));
    STEP(rename("d/h", "e/g")); /* two names of one file: nothing happens */
    STEP(rename("d/h", "e/h"));
    STEP(mkdir("d/d", 0755));
    STEP(rename("d/d", "e/d"));
    STEP(rmdir("e/d"));
    STEP(symlink("x", "d/l"));
    STEP(unlink("d/l"));
    STEP(mkfifo("d/p", 0644));
    STEP(unlink("e/g"));
    STEP(chmod("d/p", 0600));
    STEP(renameat2(AT_FDCWD, "d/p", AT_FDCWD, "e/h", RENAME_EXCHANGE));
    STEP(rmdir("d"));
#undef STEP
}

const struct script io_scripts[] = {
    {"reads and writes at odd offsets", odd_offsets, false},
    {"reads at the end", reads_at_the_end, false},
    {"appends", appends, false},
    {"vectors", vectors, false},
    {"holes", holes, false},
    {"allocates", allocates, false},
    {"copies", copies, false},
    {"syncs", syncs, false},
    {"direct", direct, false},
    {"several descriptors", several, false},
    {"limits of size", limits, false},
    {"times of calls", times_of_calls, false},
    {"times of folders", times_of_folders, false},
    {NULL, NULL, false},
};
