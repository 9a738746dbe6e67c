/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts programs in every way C has and writes down what came of it. Run with
 * and without ferry: not one line may differ. What a started program is (this
 * one, with "show") prints its arguments and its environment in its order.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum form {
    EXECVE,
    EXECV,
    EXECVP,
    EXECVPE,
    EXECL,
    EXECLP,
    EXECLE,
    FEXECVE,
    EXECVEAT,
    SYSCALL,
    SYSCALL_AT,
    SPAWN,
    SPAWNP,
    SPAWN_ACTS,
    FORMS
};
static const char *const form_names[FORMS] = {
    "execve",
    "execv",
    "execvp",
    "execvpe",
    "execl",
    "execlp",
    "execle",
    "fexecve",
    "execveat",
    "syscall",
    "syscall execveat",
    "spawn",
    "spawnp",
    "spawn with actions",
};

static char *self;

/* Only returns on failure, with the error; in the parent for spawn: after it. */
static int
launch(enum form form, const char *path, char *const argv[], char *const envp[])
{
    pid_t pid;
    int status, fd;
    posix_spawn_file_actions_t actions;
    errno = 0;
    switch (form) {
    case EXECVE:
        execve(path, argv, envp);
        break;
    case EXECV:
        execv(path, argv);
        break;
    case EXECVP:
        execvp(path, argv);
        break;
    case EXECVPE:
        execvpe(path, argv, envp);
        break;
    case EXECL:
        execl(path, argv[0], argv[1], argv[2], argv[3], (char *)NULL);
        break;
    case EXECLP:
        execlp(path, argv[0], argv[1], argv[2], argv[3], (char *)NULL);
        break;
    case EXECLE:
        execle(path, argv[0], argv[1], argv[2], argv[3], (char *)NULL, envp);
        break;
    case FEXECVE:
        fd = open(path, O_RDONLY);
        fexecve(fd, argv, envp);
        break;
    case EXECVEAT:
        execveat(AT_FDCWD, path, argv, envp, 0);
        break;
    case SYSCALL:
        syscall(SYS_execve, path, argv, envp);
        break;
    case SYSCALL_AT:
        syscall(SYS_execveat, AT_FDCWD, path, argv, envp, 0);
        break;
    case SPAWN_ACTS:
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 7, "/dev/null", O_RDONLY, 0);
        status = posix_spawn(&pid, path, &actions, NULL, argv, envp);
        goto spawned;
    case SPAWN:
        status = posix_spawn(&pid, path, NULL, NULL, argv, envp);
        goto spawned;
    case SPAWNP:
        status = posix_spawnp(&pid, path, NULL, NULL, argv, envp);
spawned:
        if (status) {
            printf("[errno %d] ", errno);
            errno = status;
            break;
        }
        waitpid(pid, &status, 0);
        fflush(stdout);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
    case FORMS:
        break;
    }
    return errno;
}

static void
attempt(enum form form, const char *path, char *const argv[],
        char *const envp[])
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int error = launch(form, path, argv, envp);
        printf("%s\n", strerrorname_np(error));
        fflush(stdout);
        _exit(99);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("%s '%.40s' -> %x\n", form_names[form], path, (unsigned)status);
}

static void
show(int argc, char **argv, char **envp)
{
    for (int i = 0; i < argc; i++) {
        printf("%s|", argv[i]);
    }
    printf("\n");
    if (envp != environ) {
        printf("two environments\n");
    }
    for (char **entry = environ; *entry; entry++) {
        printf("  %s\n", *entry);
    }
}

static void
forms(void)
{
    char *argv[] = {"name", "show", "a b", "", NULL};
    char *none[] = {NULL};
    char *some[] = {"A=1", "LD_PRELOAD=libm.so.6", "B=", "PATH=/nowhere", NULL};
    char *empty[] = {"LD_PRELOAD=", "Z=26", NULL};
    char *twice[] = {"LD_PRELOAD=libm.so.6", "X=1", "LD_PRELOAD=libdl.so.2",
                     NULL};
    char *spaces[] = {"LD_PRELOAD= libm.so.6 libdl.so.2", NULL};
    for (int form = 0; form < FORMS; form++) {
        attempt(form, self, argv, none);
        attempt(form, self, argv, some);
        attempt(form, self, argv, empty);
        attempt(form, self, argv, twice);
        attempt(form, self, argv, spaces);
        attempt(form, self, argv, environ);
    }
    attempt(EXECVE, self, argv, NULL);
    attempt(SYSCALL, self, argv, NULL);
    setenv("ADDED", "later", 1);
    unsetenv("HOME");
    setenv("LD_PRELOAD", "libm.so.6", 1);
    attempt(EXECV, self, argv, NULL);
    attempt(EXECLP, self, argv, NULL);
    clearenv();
    attempt(EXECV, self, argv, NULL);
    attempt(EXECVP, self, argv, NULL);
    putenv("ALONE=1");
    attempt(EXECL, self, argv, NULL);
}

/* With files that calls.sh has made in the working folder. */
static void
errors(void)
{
    static const char *const paths[] = {
        "missing",     "./missing",  "folder",    "./folder", "plain",
        "./plain",     "./text/x",   "",          "noexec",   "./noexec",
        "./badinterp", "badinterp",  "./garbage", "garbage",  "./script",
        "script",      "./headless", "headless",  "cat",      "./loop",
        "hidden",      "./setuid"};
    static const char *const searches[] = {NULL,
                                           "",
                                           ":",
                                           "first:second",
                                           "second:first",
                                           "locked:second",
                                           "locked",
                                           "text:second",
                                           "missing::second",
                                           "loop:second",
                                           "second:",
                                           ":second",
                                           "plain"};
    static char longest[PATH_MAX + 100];
    char *argv[] = {"it", "1", "2", "3", NULL};
    memset(longest, 'x', sizeof longest - 1);
    for (int form = 0; form < FORMS; form++) {
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            attempt(form, paths[i], argv, environ);
        }
        attempt(form, longest, argv, environ);
        longest[300] = '\0';
        attempt(form, longest, argv, environ);
        longest[300] = 'x';
    }
    for (size_t s = 0; s < sizeof searches / sizeof *searches; s++) {
        searches[s] ? setenv("PATH", searches[s], 1) : unsetenv("PATH");
        printf("PATH=%s\n", searches[s] ? searches[s] : "(none)");
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            attempt(EXECVP, paths[i], argv, environ);
            attempt(EXECLP, paths[i], argv, environ);
            attempt(SPAWNP, paths[i], argv, environ);
        }
    }
}

/* A child of vfork(2) shares errno, which no try that failed may change. */
static void
shared_errno(const char *path, char *const argv[])
{
    fflush(stdout);
    errno = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        execve(path, argv, environ);
        _exit(9);
    }
    int error = errno, status;
    waitpid(pid, &status, 0);
    printf("errno %d, status %x\n", error, (unsigned)status);
}

/* The most arguments that start this program, of which `argv' has room for `room';
 * by vfork(), told is the errno of the last that did. */
static int
most_pieces(enum form form, char *const envp[], bool by_vfork, char **argv,
            int room)
{
    static char piece[100];
    int low = 1, high = room - 4, error = -1;
    memset(piece, 'y', sizeof piece - 1);
    while (low < high) {
        int middle = low + (high - low + 1) / 2, status;
        argv[0] = "cat"; /* an annotated name */
        argv[1] = "quiet";
        for (int i = 2; i < middle + 2; i++) {
            argv[i] = piece;
        }
        argv[middle + 2] = NULL;
        pid_t pid = by_vfork ? vfork() : fork();
        if (pid == 0) {
            _exit(launch(form, self, argv, envp) == E2BIG ? 7 : 8);
        }
        int left = errno;
        waitpid(pid, &status, 0);
        if (status == 0) {
            low = middle;
            error = left;
        } else if (WIFEXITED(status) && WEXITSTATUS(status) == 7) {
            high = middle - 1;
        } else {
            printf("status %x\n", (unsigned)status);
            break;
        }
    }
    if (by_vfork) {
        printf("errno %d\n", error);
    }
    return low;
}

/* The largest argument list that still starts, found by halving. */
static void
limits(void)
{
    static const enum form some[] = {EXECVE, EXECVP, SPAWN, SYSCALL};
    enum {
        MOST = 1 << 20
    };
    static char *argv[MOST / 10], *none[1];
    struct rlimit stack = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &stack);
    for (size_t f = 0; f < sizeof some / sizeof *some; f++) {
        int low = most_pieces(some[f], environ, false, argv, MOST / 10);
        printf("%s: %d\n", form_names[some[f]], low);
    }
    /* Without an environment, from a child that leaves its parent its errno. */
    for (int form = EXECVE; form <= EXECVP; form++) {
        int low = most_pieces(form, none, true, argv, MOST / 10);
        printf("%s: %d\n", form_names[form], low);
    }
}

/* By folder, by descriptor: what is named as a whole can be found again. */
static void
folders(const char *file)
{
    char *argv[] = {"cat", (char *)file, NULL};
    char *cat = realpath("/bin/cat", NULL);
    int root = open("/", O_PATH | O_DIRECTORY), it = open(cat, O_PATH);
    const struct {
        int dir;
        const char *path;
        int flags;
    } rows[] = {{AT_FDCWD, cat, 0},
                {root, cat, 0},
                {root, cat + 1, 0},
                {root, cat, AT_SYMLINK_NOFOLLOW},
                {AT_FDCWD, cat, AT_SYMLINK_NOFOLLOW},
                {it, "", AT_EMPTY_PATH},
                {root, "", 0},
                {root, "missing", 0},
                {-1, cat, 0},
                {-1, "cat", 0},
                {root, NULL, 0},
                {AT_FDCWD, NULL, 0}};
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        int number = i % 2, status;
        int dir = rows[i / 2].dir, flags = rows[i / 2].flags;
        const char *path = rows[i / 2].path;
        if (!number && !path) {
            continue; /* libc's function may not be asked that */
        }
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            number ? syscall(SYS_execveat, dir, path, argv, environ, flags)
                   : execveat(dir, path, argv, environ, flags);
            printf("%s\n", strerrorname_np(errno));
            fflush(stdout);
            _exit(99);
        }
        waitpid(pid, &status, 0);
        printf("%d %x\n", (int)i, (unsigned)status);
    }
}

/* What the kernel cannot read: it says so, and the program lives on. */
static void
unreadable(const char *mounted)
{
    const size_t page = 4096;
    char *room = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(room, 'x', 2 * page);
    mprotect(room + 2 * page, page, PROT_NONE);
    char *bad = room + 2 * page, *cut = bad - 9;
    char **rows = (char **)(void *)(bad - 4 * sizeof *rows);
    char *argv[] = {"cat", (char *)mounted, NULL, NULL};
    char *bad_last[] = {"cat", (char *)mounted, bad, NULL};
    char *cut_last[] = {"cat", (char *)mounted, cut, NULL};
    char *bad_entry[] = {"A=1", bad, "B=2", NULL};
    char *low_entry[] = {(char *)1, NULL};
    char *cut_preload[] = {strcpy(room, "LD_PRELOAD="), cut, NULL};
    char **lists[] = {argv,      bad_last,    cut_last, bad_entry,
                      low_entry, cut_preload, rows,     (char **)(void *)bad,
                      (char **)8};
    const enum form some[] = {EXECVE, EXECVPE,    FEXECVE,    EXECVEAT, SYSCALL,
                              SPAWN,  SYSCALL_AT, SPAWN_ACTS, EXECLE};
    char *cat = realpath("/bin/cat", NULL);
    for (size_t i = 0; i < 4; i++) {
        rows[i] = "it";
    }
    for (size_t f = 0; f < sizeof some / sizeof *some; f++) {
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            if (some[f] != EXECLE) {
                attempt(some[f], cat, lists[i], environ);
            }
            attempt(some[f], cat, argv, lists[i]);
        }
    }
    const int root = open("/", O_PATH | O_DIRECTORY);
    for (size_t i = 0; i < 8; i++) {
        const char *path = i % 2 ? bad : cut;
        errno = 0;
        i < 2   ? execve(path, argv, environ)
        : i < 4 ? execveat(root, path, argv, environ, 0)
        : i < 6 ? (int)syscall(SYS_execveat, root, path, argv, environ, 0)
                : launch(SPAWN_ACTS, path, argv, environ);
        printf("%s\n", strerrorname_np(errno));
    }
}

#define TIMES_8(x)         x, x, x, x, x, x, x, x
#define TIMES_64(x)        TIMES_8(TIMES_8(x))
#define TIMES_512(x)       TIMES_8(TIMES_64(x))
#define SEVEN_AND(x, more) x, x, x, x, x, x, x, more

/* A list of 17 pages and a null pointer. */
static void
run_list(void)
{
    execl(self, "cat", "quiet", TIMES_8(TIMES_512("1")),
          TIMES_8(TIMES_512("2")),
          SEVEN_AND(TIMES_64("3"), SEVEN_AND(TIMES_8("4"), "5")), "6", "7", "8",
          "9", "10", (char *)NULL);
}

/* Below pages that none may touch. */
static void
list(void)
{
    const size_t bytes = 17 << 12;
    char *last = NULL, *at = NULL;
    for (int i = 0; i < 1000 && (i < 8 || at + bytes != last); i++) {
        last = at;
        at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    run_list();
}

/* The stack need not grow afterwards. */
static __attribute__((noinline)) void
use_stack(void)
{
    volatile char stack[1 << 18];
    for (size_t i = 0; i < sizeof stack; i += 1 << 10) {
        stack[i] = 1;
    }
}

/* Where no memory can be mapped. */
static void
crowded(void)
{
    struct rlimit is, none;
    use_stack();
    getrlimit(RLIMIT_AS, &is);
    none = is;
    none.rlim_cur = 1;
    setrlimit(RLIMIT_AS, &none);
    run_list();
    int error = errno;
    setrlimit(RLIMIT_AS, &is);
    printf("%s\n", strerrorname_np(error));
}

int
main(int argc, char **argv, char **envp)
{
    const char *what = argc > 1 ? argv[1] : "";
    self = realpath("/proc/self/exe", NULL);
    if (strcmp(what, "show") == 0) {
        show(argc, argv, envp);
    } else if (strcmp(what, "quiet") == 0) {
        printf("%d\n", argc > 4000 ? argc : 0);
    } else if (strcmp(what, "forms") == 0) {
        forms();
    } else if (strcmp(what, "errors") == 0) {
        errors();
    } else if (strcmp(what, "limits") == 0) {
        limits();
    } else if (strcmp(what, "folders") == 0) {
        folders(argv[2]);
    } else if (strcmp(what, "unreadable") == 0) {
        unreadable(argv[2]);
    } else if (strcmp(what, "errno") == 0) {
        char *cat[] = {"cat", argv[2], NULL};
        shared_errno("/bin/cat", cat);
    } else if (strcmp(what, "list") == 0) {
        list();
        return 3;
    } else if (strcmp(what, "crowded") == 0) {
        crowded();
    } else if (argc > 3) {
        printf("ran as %s\n", argv[0]); /* what errors() starts */
    } else {
        return 2;
    }
    return 0;
}
