/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For sshfs.sh: what proxy/storage/mounts.c finds of a real mount, proxy/wire/transport.c
 * over a real ssh, proxy/storage/fresh.c on real caches.
 *
 *   mounted find DIR            place of the mount, its path and options
 *   mounted greet DIR           "greeted" or the last words
 *   mounted hash DIR OTHER      whether both are the same folder, by its hash
 *   mounted fresh DIR CHANGE PATH...
 *       looks at the paths, runs sh -c CHANGE, refreshes them, looks again;
 *       prints both looks and how many may be stale
 *   mounted ahead DIR SECONDS FOLDER    reads the folder's names ahead
 *   mounted held DIR CHANGE FILE        the same through an open descriptor
 *   mounted before DIR CHANGE FILE      writes and keeps FILE open, flushes, runs
 *   mounted mapped DIR HOST FILE [TRIES]
 *   mounted threaded DIR HOST FILE
 *       writes to a mapping of FILE and flushes, again and again; prints how often
 *       HOST, which is the same file at its host, had not all of that
 *   mounted pretend WORD...
 *       is a process of another user that says it is sshfs with these words, and
 *       whose files in /proc belong to root; prints "ready", waits to be killed
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proxy/client/barrier.h"
#include "proxy/sandbox/sandbox.h"
#include "proxy/storage/fresh.h"
#include "proxy/storage/tools.h"
#include "proxy/wire/transport.h"

static struct fy_mount mounts[FY_MAX_MOUNTS];

static const struct fy_mount *
find(const char *folder)
{
    unsigned n = 0;
    if (fy_mounts_find(NULL, true, mounts, &n, NULL) == 0) {
        for (unsigned i = 0; i < n; i++) {
            if (strcmp(mounts[i].path, folder) == 0) {
                mounts[i].uid = geteuid(); /* the same machine */
                return &mounts[i];
            }
        }
    }
    fprintf(stderr, "%s is not found\n", folder);
    exit(2);
}

static int
greet(const struct fy_mount *mount)
{
    char text[512];
    struct fy_buffer why;
    struct fy_link link;
    fy_buffer_start(&why, text, sizeof text);
    int status = fy_link_open(&mount->place, "/nowhere", &why, &link);
    if (!status) {
        while ((status = fy_link_greet(&link, &why)) == FY_ERR_BUSY) {
            struct pollfd in = {.fd = link.in, .events = POLLIN};
            (void)poll(&in, 1, 20000);
        }
        fy_link_close(&link, 2000);
    }
    puts(status ? text : "greeted");
    return status != 0;
}

/* What a user sees of a path. */
static void
look(const char *path)
{
    struct stat about;
    char text[256] = "";
    if (lstat(path, &about) != 0) {
        printf("[%s]", errno == ENOENT ? "none" : strerror(errno));
        return;
    }
    printf("[%o %lld", about.st_mode,
           S_ISDIR(about.st_mode) ? 0 : (long long)about.st_size);
    if (S_ISDIR(about.st_mode)) {
        struct dirent **names;
        int n = scandir(path, &names, NULL, alphasort);
        for (int i = 2; i < n; i++) {
            printf(" %s", names[i]->d_name);
        }
        while (n > 0) {
            free(names[--n]);
        }
        free(names);
    } else if (S_ISREG(about.st_mode)) {
        int fd = open(path, O_RDONLY);
        ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
        printf("%s", n > 0 ? " " : "");
        for (ssize_t i = 0; i + 1 < n; i++) {
            putchar(text[i] == '\n' ? ' ' : text[i]);
        }
        close(fd);
    } else if (readlink(path, text, sizeof text - 1) > 0) {
        printf(" -> %s", text);
    }
    printf("]");
}

static void
look_at(char *const *paths)
{
    for (; *paths; paths++) {
        look(*paths);
    }
    printf("\n");
}

static int
hold(const struct fy_mount *mount, const char *change, char **paths)
{
    char text[256] = "";
    struct stat about;
    int fd = open(paths[0], O_RDONLY);
    if (fd < 0 || read(fd, text, 1) != 1 || system(change) != 0) {
        return 1;
    }
    fy_fresh_after(mount, (const char *const *)paths, NULL);
    if (fstat(fd, &about) != 0) {
        return 1;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    printf("%lld %.*s\n", (long long)about.st_size, n > 0 ? (int)n : 0, text);
    return 0;
}

static struct fy_quiet quiet;

static int
write_before(const struct fy_mount *mount, const char *change, const char *path)
{
    static char block[1 << 16];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (unsigned i = 0; i < 64; i++) {
        if (write(fd, block, sizeof block) != sizeof block) {
            return 1;
        }
    }
    if (fy_barrier(mount, &quiet) != 0) {
        return 1;
    }
    int status = system(change);
    close(fd);
    return status != 0;
}

/* Each page of the file begins with `number'. */
static bool
has_all(int host, uint32_t number, size_t bytes)
{
    uint32_t seen = 0;
    bool all = true;
    for (size_t at = 0; all && at < bytes; at += 4096) {
        all = pread(host, &seen, sizeof seen, (off_t)at) == sizeof seen &&
              seen == number;
    }
    return all;
}

static int
write_mapped(const struct fy_mount *mount, const char *host, const char *path,
             const char *tries)
{
    const size_t bytes = 1 << 20;
    unsigned late = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        return 1;
    }
    char *mapped = mmap(NULL, bytes, PROT_WRITE, MAP_SHARED, fd, 0);
    int there = open(host, O_RDONLY);
    if (mapped == MAP_FAILED || there < 0 || close(fd) != 0) {
        return 1;
    }
    for (uint32_t i = 1; i <= (uint32_t)atoi(tries); i++) {
        for (size_t at = 0; at < bytes; at += 4096) {
            memcpy(mapped + at, &i, sizeof i);
        }
        if (fy_barrier(mount, &quiet) != 0) {
            return 1;
        }
        late += !has_all(there, i, bytes);
    }
    printf("%u\n", late);
    return 0;
}

struct writer {
    char *mapped;
    size_t bytes;
    uint32_t number;
    int told;
};

static void *
write_in_thread(void *context)
{
    const struct writer *writer = context;
    struct timespec moment = {.tv_nsec = 20000000}; /* the first thread ends */
    nanosleep(&moment, NULL);
    for (size_t at = 0; at < writer->bytes; at += 4096) {
        memcpy(writer->mapped + at, &writer->number, sizeof writer->number);
    }
    (void)!write(writer->told, "w", 1);
    pause();
    return NULL;
}

/* By a process whose first thread has ended: its /proc/PID/maps is empty. */
static int
write_without_first(const struct fy_mount *mount, const char *host,
                    const char *path)
{
    static struct writer writer = {.bytes = 1 << 20, .number = 7};
    char told;
    int ends[2], fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)writer.bytes) != 0 || pipe(ends) != 0) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        writer.told = ends[1];
        writer.mapped = mmap(NULL, writer.bytes, PROT_WRITE, MAP_SHARED, fd, 0);
        if (writer.mapped == MAP_FAILED || close(fd) != 0 ||
            pthread_create(&thread, NULL, write_in_thread, &writer) != 0) {
            _exit(1);
        }
        pthread_exit(NULL);
    }
    close(fd);
    close(ends[1]);
    int there = open(host, O_RDONLY);
    bool good = read(ends[0], &told, 1) == 1 &&
                fy_barrier(mount, &quiet) == 0 &&
                has_all(there, writer.number, writer.bytes);
    puts(good ? "all" : "late");
    return kill(child, SIGKILL) || waitpid(child, NULL, 0) != child;
}

/* What "pretend" has started. */
static int
wait_as_sshfs(void)
{
    if (prctl(PR_SET_NAME, "sshfs") != 0 || prctl(PR_SET_DUMPABLE, 0) != 0) {
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        pause();
    }
}

static int
pretend(char **words)
{
    const gid_t other = 65534;
    static char name[] = "sshfs";
    words[0] = name;
    if (setgroups(0, NULL) != 0 || setresgid(other, other, other) != 0 ||
        setresuid(other, other, other) != 0) {
        return 1;
    }
    execv("/proc/self/exe", words);
    return 1;
}

int
main(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "sshfs") == 0) {
        return wait_as_sshfs();
    }
    if (argc < 3) {
        return 2;
    }
    const char *what = argv[1];
    if (strcmp(what, "pretend") == 0) {
        return pretend(argv + 1);
    }
    const struct fy_mount *mount = find(argv[2]);
    char text[1024];
    struct fy_buffer name;
    fy_buffer_start(&name, text, sizeof text);
    if (strcmp(what, "find") == 0) {
        fy_place_name(&mount->place, &name);
        printf("%s %s %u %d %d\n", text, mount->place.path,
               mount->place.noptions,
               !!(mount->traits & FY_MOUNT_OWNERS_DIFFER),
               !!(mount->traits & FY_MOUNT_READ_ONLY));
        return 0;
    }
    if (strcmp(what, "greet") == 0) {
        return greet(mount);
    }
    if (argc == 4 && strcmp(what, "hash") == 0) {
        unsigned char one[32], two[32];
        puts(fy_config_hash(argv[2], one) == 0 &&
                     fy_config_hash(argv[3], two) == 0 &&
                     memcmp(one, two, sizeof one) == 0
                 ? "same"
                 : "another");
        return 0;
    }
    if (argc < 5) {
        return 2;
    }
    char **paths = argv + 4;
    if (strcmp(what, "ahead") == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        fy_fresh_ahead(paths[0], 1000000,
                       (uint64_t)(now.tv_sec + atoi(argv[3])) *
                           UINT64_C(1000000000));
        return 0;
    }
    if (strcmp(what, "held") == 0) {
        return hold(mount, argv[3], paths);
    }
    if (strcmp(what, "mapped") == 0) {
        return write_mapped(mount, argv[3], paths[0],
                            argc > 5 ? argv[5] : "40");
    }
    if (strcmp(what, "threaded") == 0) {
        return write_without_first(mount, argv[3], paths[0]);
    }
    if (strcmp(what, "before") == 0) {
        return write_before(mount, argv[3], paths[0]);
    }
    look_at(paths);
    if (fy_barrier(mount, &quiet) || system(argv[3]) != 0) {
        return 1;
    }
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    unsigned stale = fy_fresh_after(mount, (const char *const *)paths, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    look_at(paths);
    printf("%u stale\n", stale);
    fprintf(stderr, "# %d paths refreshed in %.1f ms\n", argc - 4,
            (double)(to.tv_sec - from.tv_sec) * 1e3 +
                (double)(to.tv_nsec - from.tv_nsec) / 1e6);
    return 0;
}
