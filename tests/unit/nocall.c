/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that fail; see nocall.h. */
#include "config.h"

#include "tests/unit/nocall.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_uint_fast64_t left;
static int failure;
static const char *always;
static long always_number;
static const char *_Atomic *reached; /* children and threads share it */

void
nocall_at(uint64_t n, int error)
{
    if (!reached) {
        reached = mmap(NULL, sizeof *reached, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    }
    failure = error;
    *reached = NULL;
    left = n;
}

void
nocall_always(const char *name, long number, int error)
{
    nocall_at(0, error);
    always = name;
    always_number = number;
}

const char *
nocall_reached(void)
{
    left = 0;
    always = NULL;
    return reached ? *reached : NULL;
}

static bool
fails(const char *name, long number)
{
    uint_fast64_t n = left;
    while (n > 0 && !atomic_compare_exchange_weak(&left, &n, n - 1)) {
    }
    if (n != 1 &&
        (!always || strcmp(always, name) != 0 || number != always_number)) {
        return false;
    }
    *reached = name;
    errno = failure;
    return true;
}

/* The linker's names: NAME() is a call of __wrap_NAME(), __real_NAME() libc's. */
#define WRAP(type, failed, name, parameters, arguments)              \
    type __real_##name parameters;                                   \
    type __wrap_##name parameters;                                   \
    type __wrap_##name parameters                                    \
    {                                                                \
        return fails(#name, 0) ? (failed) : __real_##name arguments; \
    }

WRAP(int, -1, fstat, (int fd, struct stat *out), (fd, out))
WRAP(int, -1, stat, (const char *path, struct stat *out), (path, out))
WRAP(int, -1, lstat, (const char *path, struct stat *out), (path, out))
WRAP(int, -1, fstatat, (int fd, const char *path, struct stat *out, int flags),
     (fd, path, out, flags))
WRAP(int, -1, statx,
     (int fd, const char *path, int flags, unsigned mask, struct statx *out),
     (fd, path, flags, mask, out))
WRAP(int, -1, access, (const char *path, int mode), (path, mode))
WRAP(int, -1, faccessat, (int fd, const char *path, int mode, int flags),
     (fd, path, mode, flags))
WRAP(ssize_t, -1, readlink, (const char *path, char *out, size_t bytes),
     (path, out, bytes))
WRAP(ssize_t, -1, readlinkat,
     (int fd, const char *path, char *out, size_t bytes),
     (fd, path, out, bytes))
WRAP(ssize_t, -1, read, (int fd, void *out, size_t bytes), (fd, out, bytes))
WRAP(ssize_t, -1, write, (int fd, const void *from, size_t bytes),
     (fd, from, bytes))
WRAP(int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, -1, mkdirat, (int fd, const char *path, mode_t mode),
     (fd, path, mode))
WRAP(int, -1, symlinkat, (const char *to, int fd, const char *path),
     (to, fd, path))
WRAP(int, -1, mount,
     (const char *from, const char *to, const char *type, unsigned long flags,
      const void *data),
     (from, to, type, flags, data))
WRAP(int, -1, umount2, (const char *path, int flags), (path, flags))
WRAP(int, -1, unshare, (int flags), (flags))
WRAP(int, -1, setns, (int fd, int type), (fd, type))
WRAP(pid_t, -1, fork, (void), ())
WRAP(int, -1, pipe2, (int fds[2], int flags), (fds, flags))
WRAP(int, -1, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
WRAP(int, -1, close_range, (unsigned from, unsigned to, int flags),
     (from, to, flags))
WRAP(int, -1, chdir, (const char *path), (path))
WRAP(int, -1, fchdir, (int fd), (fd))
WRAP(int, -1, flock, (int fd, int operation), (fd, operation))
WRAP(int, -1, syncfs, (int fd), (fd))
WRAP(ssize_t, -1, getrandom, (void *out, size_t bytes, unsigned flags),
     (out, bytes, flags))
WRAP(int, -1, getrlimit, (__rlimit_resource_t resource, struct rlimit *out),
     (resource, out))
WRAP(int, -1, setrlimit,
     (__rlimit_resource_t resource, const struct rlimit *to), (resource, to))
WRAP(int, -1, setpriority, (__priority_which_t which, id_t who, int to),
     (which, who, to))
WRAP(off_t, -1, lseek, (int fd, off_t to, int whence), (fd, to, whence))
WRAP(FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode))
WRAP(void *, NULL, opendir, (const char *path), (path))

/* Only where it always fails: a folder of many names is many calls. */
struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);
struct dirent *
__wrap_readdir(DIR *dir)
{
    return always && fails("readdir", 0) ? NULL : __real_readdir(dir);
}
WRAP(void *, NULL, fdopendir, (int fd), (fd))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...);
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* `n' words follow, which the processor's registers hold; those that the caller did
 * not give mean nothing. */
#define TAKE(words, n, first)                                        \
    va_list more;                                                    \
    long words[n];                                                   \
    va_start(more, first);                                           \
    for (unsigned i = 0; i < sizeof(words) / sizeof *(words); i++) { \
        words[i] = va_arg(more, long);                               \
    }                                                                \
    va_end(more)

int
__wrap_open(const char *path, int flags, ...)
{
    TAKE(words, 1, flags);
    return fails("open", 0) ? -1 : __real_open(path, flags, (mode_t)words[0]);
}

int
__wrap_openat(int fd, const char *path, int flags, ...)
{
    TAKE(words, 1, flags);
    return fails("openat", 0)
               ? -1
               : __real_openat(fd, path, flags, (mode_t)words[0]);
}

int
__wrap_fcntl(int fd, int command, ...)
{
    TAKE(words, 1, command);
    return fails("fcntl", 0) ? -1 : __real_fcntl(fd, command, words[0]);
}

int
__wrap_ioctl(int fd, unsigned long request, ...)
{
    TAKE(words, 1, request);
    return fails("ioctl", 0) ? -1 : __real_ioctl(fd, request, words[0]);
}

int
__wrap_prctl(int option, ...)
{
    TAKE(words, 4, option);
    return fails("prctl", 0)
               ? -1
               : __real_prctl(option, words[0], words[1], words[2], words[3]);
}

long
__wrap_syscall(long number, ...)
{
    TAKE(words, 5, number);
    return fails("syscall", number)
               ? -1
               : __real_syscall(number, words[0], words[1], words[2], words[3],
                                words[4]);
}
