/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coverage counters that outlive every end of a process (--enable-coverage).
 *
 * Linked into each program and library in place of libgcov, which writes its
 * files when a process exits: after _exit(), SIGKILL or exec, or in a sandbox that
 * hides the build folder, their counts are lost. Here the counters of a module,
 * which counters.ld puts on pages of their own, are a shared mapping of a file,
 * FERRY_COVERAGE/HASH (or FY_COVERAGE_FOLDER/HASH), from the module's first
 * constructor on. Processes that fork from it count into the same file. HASH
 * stands for the names of the module's objects.
 *
 * FERRY_COVERAGE_ASK=name makes the module's constructor print HASH and exit.
 * FERRY_COVERAGE_ASK=HASH makes it write a .gcda file for each of its objects into
 * the folder FERRY_COVERAGE_INTO, named as the object's path with `#' for `/'.
 *
 * All of gcc's functions have to be here: one that comes from libgcov brings the
 * rest of it, and its symbols are stronger. Every symbol is weak and hidden: the
 * module and the convenience libraries that it is linked of may each bring this
 * object.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef FY_COVERAGE_FOLDER /* configure says it */
#define FY_COVERAGE_FOLDER ""
#endif

/* As gcc's gcov.h has it, which other compilers lack. */
struct gcov_info;
void __gcov_info_to_gcda(const struct gcov_info *info,
                         void (*filename)(const char *, void *),
                         void (*dump)(const void *, unsigned, void *),
                         void *(*allocate)(unsigned, void *), void *argument);

#define MOST_OBJECTS 1024
#define OURS         __attribute__((weak, visibility("hidden")))

extern uint64_t fy_counters_begin[] __attribute__((visibility("hidden")));
extern uint64_t fy_counters_end[] __attribute__((visibility("hidden")));

static const char *into_folder = "."; /* of the .gcda files */
static const struct gcov_info *objects[MOST_OBJECTS];
static unsigned nobjects;

/* What gcc's code calls. Each object's constructor registers it first. */
OURS void
__gcov_init(struct gcov_info *info)
{
    if (nobjects < MOST_OBJECTS) {
        objects[nobjects++] = info;
    }
}

OURS void
__gcov_exit(void)
{
}

OURS void
__gcov_merge_add(int64_t *counters, unsigned n)
{
    (void)counters, (void)n;
}

OURS pid_t
__gcov_fork(void)
{
    return fork();
}

OURS int
__gcov_execv(const char *path, char *const argv[])
{
    return execv(path, argv);
}

OURS int
__gcov_execvp(const char *file, char *const argv[])
{
    return execvp(file, argv);
}

OURS int
__gcov_execve(const char *path, char *const argv[], char *const envp[])
{
    return execve(path, argv, envp);
}

#define MOST_WORDS 1024

/* The words up to NULL, in `argv'. */
static void
collect(const char *first, va_list more, char *argv[MOST_WORDS])
{
    unsigned n = 0;
    for (const char *word = first; word && n < MOST_WORDS - 1; n++) {
        argv[n] = (char *)word;
        word = va_arg(more, const char *);
    }
    argv[n] = NULL;
}

OURS int
__gcov_execl(const char *path, char *first, ...)
{
    char *argv[MOST_WORDS];
    va_list more;
    va_start(more, first);
    collect(first, more, argv);
    va_end(more);
    return execv(path, argv);
}

OURS int
__gcov_execlp(const char *file, char *first, ...)
{
    char *argv[MOST_WORDS];
    va_list more;
    va_start(more, first);
    collect(first, more, argv);
    va_end(more);
    return execvp(file, argv);
}

OURS int
__gcov_execle(const char *path, char *first, ...)
{
    char *argv[MOST_WORDS];
    va_list more;
    va_start(more, first);
    collect(first, more, argv);
    char *const *environment = va_arg(more, char *const *);
    va_end(more);
    return execve(path, argv, environment);
}

static void *
allocate(unsigned size, void *file)
{
    (void)file;
    return malloc(size);
}

static void
ignore(const void *data, unsigned size, void *hash)
{
    (void)data, (void)size, (void)hash;
}

static void
hash_name(const char *name, void *hash)
{
    for (; *name; name++) {
        *(uint64_t *)hash =
            (*(uint64_t *)hash ^ (unsigned char)*name) * 0x100000001b3;
    }
}

static void
begin_file(const char *name, void *file)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/", into_folder);
    (void)snprintf(path + n, sizeof path - (size_t)n, "%s", name);
    for (char *c = path + n; *c; c++) {
        *c = *c == '/' ? '#' : *c;
    }
    *(int *)file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
}

static void
continue_file(const void *data, unsigned size, void *file)
{
    if (write(*(int *)file, data, size) != (ssize_t)size) {
        _exit(1);
    }
}

/* The counters so far are added to the file's, which then take their place. System
 * calls, since libc's functions may be those of the module. */
static void
share(const char *path)
{
    size_t size = (size_t)((char *)fy_counters_end - (char *)fy_counters_begin);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
                          O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        return;
    }
    (void)syscall(SYS_fchmod, fd,
                  0666); /* another user's processes count, too */
    if (syscall(SYS_ftruncate, fd, size) == 0) {
        uint64_t *shared = (uint64_t *)syscall(
            SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (shared != MAP_FAILED) {
            for (size_t i = 0; i < size / sizeof *shared; i++) {
                if (fy_counters_begin[i]) {
                    __atomic_fetch_add(&shared[i], fy_counters_begin[i],
                                       __ATOMIC_RELAXED);
                }
            }
            (void)syscall(SYS_mremap, shared, size, size,
                          MREMAP_MAYMOVE | MREMAP_FIXED, fy_counters_begin);
        }
    }
    (void)syscall(SYS_close, fd);
}

static const char *
find(char **environment, const char *name)
{
    size_t n = strlen(name);
    for (; *environment; environment++) {
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=') {
            return *environment + n + 1;
        }
    }
    return NULL;
}

/* The environment comes as an argument: libc knows it later than libferry.so's
 * constructors, which are the first (-z initfirst). */
static __attribute__((constructor(101))) void
start(int argc, char **argv, char **environment)
{
    static const char folder[] = FY_COVERAGE_FOLDER;
    const char *asked = find(environment, "FERRY_COVERAGE_ASK");
    const char *into = find(environment, "FERRY_COVERAGE");
    (void)argc, (void)argv;
    char path[4096];
    uint64_t hash = 0xcbf29ce484222325;
    if (nobjects == 0 || &fy_counters_end[0] == &fy_counters_begin[0]) {
        return;
    }
    for (unsigned i = 0; i < nobjects; i++) {
        __gcov_info_to_gcda(objects[i], hash_name, ignore, allocate, &hash);
    }
    int n = snprintf(path, sizeof path, "%s/%016llx", into ? into : folder,
                     (unsigned long long)hash);
    const char *name = path + n - 16;
    if (asked && strcmp(asked, "name") == 0) {
        (void)!write(1, name, 16);
        _exit(0);
    }
    share(path);
    if (asked && strcmp(asked, name) == 0) {
        into_folder = find(environment, "FERRY_COVERAGE_INTO");
        for (unsigned i = 0; into_folder && i < nobjects; i++) {
            int file = -1;
            __gcov_info_to_gcda(objects[i], begin_file, continue_file, allocate,
                                &file);
            (void)close(file);
        }
        _exit(0);
    }
}
