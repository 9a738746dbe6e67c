/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts programs where little is allowed: in vfork children, whose memory is
 * their parent's, in signal handlers that interrupt malloc and stdio, and in
 * threads. Tells whether anything of the process has changed that should not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static const char *mounted;
static int stop;

enum {
    ROUNDS = 60
};

/* Uses malloc and stdio without end. */
static void *
busy(void *arg)
{
    FILE *null = fopen("/dev/null", "w");
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        char *block = malloc(100 + (size_t)rand() % 5000);
        memset(block, 1, 100);
        fprintf(null, "%p", (void *)block);
        free(block);
        usleep(100);
    }
    fclose(null);
    return arg;
}

/* In a child that shares our memory: how it starts something, or fails to. */
static void
start(int i)
{
    char *argv[] = {"cat", (char *)mounted, NULL};
    char *other[] = {"true", NULL};
    char *none[] = {NULL};
    char *some[] = {"LD_PRELOAD=libm.so.6", "A=1", NULL};
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    errno = 0;
    switch (i % 8) {
    case 0:
        execv("/bin/cat", argv);
        break;
    case 1:
        execve("/bin/cat", argv, none);
        break;
    case 2:
        execv("/bin/true", other);
        break;
    case 3:
        execve("/bin/true", other, some);
        break;
    case 4:
        execv("/nowhere/cat", argv);
        break;
    case 5:
        execlp("true", "true", (char *)NULL);
        break;
    case 6:
        execvp("no-such-command", argv);
        break;
    case 7:
        execl("/bin/cat", "cat", mounted, (char *)NULL);
        break;
    }
    _exit(errno);
}

static void
test_vfork(void)
{
    enum {
        BYTES = 1 << 16
    };
    pthread_t thread;
    unsigned char *block = malloc(BYTES);
    volatile int local = 12345;
    char **list = environ;
    unsigned sum = 0;
    pthread_create(&thread, NULL, busy, NULL);
    for (int i = 0; i < BYTES; i++) {
        block[i] = (unsigned char)(i * 7);
    }
    for (char **entry = environ; *entry; entry++) {
        sum += (unsigned)strlen(*entry);
    }
    for (int i = 0; i < ROUNDS; i++) {
        int status;
        pid_t pid = vfork();
        if (pid == 0) {
            start(i);
        }
        int error = errno; /* as the child has left it */
        waitpid(pid, &status, 0);
        if (i < 8) {
            printf("%d: %x, errno %d\n", i, (unsigned)status, error);
        }
    }
    for (char **entry = environ; *entry; entry++) {
        sum -= (unsigned)strlen(*entry);
    }
    int wrong = 0;
    for (int i = 0; i < BYTES; i++) {
        wrong += block[i] != (unsigned char)(i * 7);
    }
    printf("%d wrong, local %d, environment %s, sum %u\n", wrong, local,
           list == environ ? "in place" : "moved", sum);
    stop = 1;
    pthread_join(thread, NULL);
    int fd = open("/dev/null", O_RDONLY);
    printf("next fd %d\n", fd);
}

static volatile sig_atomic_t started, failed;

static void
on_alarm(int number)
{
    int saved = errno, status = 0;
    (void)number;
    pid_t pid = _Fork();
    if (pid == 0) {
        start(started);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    failed +=
        WIFSIGNALED(status) || (status && started % 8 != 4 && started % 8 != 6);
    started++;
    errno = saved;
}

static void
test_handler(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval timer = {{0, 3000}, {0, 3000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    while (started < ROUNDS) {
        char *block = malloc(1000);
        setenv("CHANGES", "often", 1);
        free(block);
    }
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    printf("%d failed\n", (int)failed);
}

/* As a crash handler does, on the little stack that it has. */
static void
on_fault(int number)
{
    int status = 0;
    (void)number;
    for (int i = 0; i < 8; i++) {
        pid_t pid = _Fork();
        if (pid == 0) {
            start(i);
        }
        waitpid(pid, &status, 0);
        dprintf(1, "%d: %x\n", i, (unsigned)status);
    }
    _exit(3);
}

static void
test_small_stack(void)
{
    enum {
        BYTES = 8192
    }; /* SIGSTKSZ of old */
    char *room = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(room, BYTES, PROT_NONE);
    stack_t stack = {.ss_sp = room + BYTES, .ss_size = BYTES};
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    fflush(stdout);
    raise(SIGSEGV);
}

/* A thread with 16 KiB starts programs with 1,000 words, and 1,000 variables. */
static void *
start_many(void *words)
{
    static const int forms = 4;
    char *few[] = {"cat", (char *)mounted, NULL};
    for (int i = 0; i < forms; i++) {
        int status = 0;
        pid_t pid = 0;
        if (i < 2) {
            pid = i ? vfork() : fork();
            if (pid == 0) {
                execv("/bin/cat", words);
                _exit(99);
            }
        } else if (posix_spawn(&pid, "/bin/cat", NULL, NULL,
                               i == 2 ? words : few,
                               i == 2 ? environ : (char **)words)) {
            return NULL;
        }
        waitpid(pid, &status, 0);
        printf("%d: %x\n", i, (unsigned)status);
        fflush(stdout);
    }
    return words;
}

static void
test_small_thread(void)
{
    enum {
        WORDS = 1000
    };
    static char *words[WORDS + 1];
    pthread_t thread;
    pthread_attr_t attributes;
    void *done = NULL;
    for (int i = 0; i < WORDS; i++) {
        words[i] = i ? (char *)mounted : "cat";
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16 << 10);
    int error = pthread_create(&thread, &attributes, start_many, words);
    if (error == 0) {
        pthread_join(thread, &done);
    }
    printf("%d %d\n", error, done == words);
}

/* Writes over its arguments and environment, as setproctitle does. */
static void
test_title(char **argv)
{
    char *first = argv[0], *last = first;
    if (!first || !mounted) {
        exit(99);
    }
    for (char **entry = argv; *entry; entry++) {
        if (*entry == last) {
            last = *entry + strlen(*entry) + 1;
        }
    }
    size_t count = 0;
    while (environ[count]) {
        count++;
    }
    char **list = calloc(count + 1, sizeof *list);
    if (!list) {
        exit(99);
    }
    for (size_t i = 0; i < count; i++) {
        if (environ[i] == last) {
            last = environ[i] + strlen(environ[i]) + 1;
        }
        list[i] = strdup(environ[i]);
    }
    mounted = strdup(mounted);
    environ = list;
    memset(first, 'x', (size_t)(last - first));
    fflush(stdout);
    for (int i = 0; i < 4; i++) {
        char *args[] = {"cat", (char *)mounted, NULL};
        pid_t pid;
        int status = -1;
        if (posix_spawnp(&pid, i % 2 ? "env" : "cat", NULL, NULL,
                         i % 2 ? (char *[]){"env", NULL} : args,
                         environ) == 0) {
            waitpid(pid, &status, 0);
        }
        printf("%x\n", (unsigned)status);
        fflush(stdout);
    }
}

/* With file actions: they are done once, and in the child's folder. */
static void
test_actions(void)
{
    static const char *const paths[] = {"cat",     "./cat",        "/bin/cat",
                                        "missing", "/bin/missing", "sub/cat"};
    char *argv[] = {"cat", (char *)mounted, NULL};
    for (int kind = 0; kind < 4; kind++) {
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            posix_spawn_file_actions_t actions;
            pid_t pid;
            int status = 0;
            unlink("once");
            posix_spawn_file_actions_init(&actions);
            posix_spawn_file_actions_addopen(&actions, 3, "once",
                                             O_CREAT | O_EXCL | O_WRONLY, 0600);
            if (kind & 1) {
                posix_spawn_file_actions_addchdir_np(&actions, "/bin");
            }
            if (kind & 2) {
                posix_spawn_file_actions_addopen(&actions, 4, "/nowhere/x",
                                                 O_RDONLY, 0);
            }
            fflush(stdout);
            int error = i % 2 ? posix_spawnp(&pid, paths[i], &actions, NULL,
                                             argv, environ)
                              : posix_spawn(&pid, paths[i], &actions, NULL,
                                            argv, environ);
            if (!error) {
                waitpid(pid, &status, 0);
            }
            printf("%d %s: %d %x\n", kind, paths[i], error, (unsigned)status);
            posix_spawn_file_actions_destroy(&actions);
        }
    }
}

static void *
starter(void *arg)
{
    long wrong = 0;
    for (int i = 0; i < ROUNDS / 4; i++) {
        int status;
        pid_t pid;
        if (i % 3 == 0) {
            char *argv[] = {"cat", (char *)mounted, NULL};
            posix_spawn_file_actions_t actions;
            posix_spawn_file_actions_init(&actions);
            posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY,
                                             0);
            if (posix_spawnp(&pid, "cat", &actions, NULL, argv, environ)) {
                wrong++;
                continue;
            }
            posix_spawn_file_actions_destroy(&actions);
        } else if (i % 3 == 1) {
            pid = fork();
        } else {
            pid = vfork();
        }
        if (pid == 0) {
            /* NOLINTNEXTLINE(clang-analyzer-unix.Vfork): what is tested */
            start(i * 8);
        }
        wrong += waitpid(pid, &status, 0) != pid || status;
    }
    (void)arg;
    return (void *)wrong;
}

static void
test_threads(void)
{
    pthread_t threads[4], other;
    long wrong = 0;
    pthread_create(&other, NULL, busy, NULL);
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, starter, NULL);
    }
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    stop = 1;
    pthread_join(other, NULL);
    printf("%ld wrong\n", wrong);
}

int
main(int argc, char **argv)
{
    if (argc < 3) {
        return 2;
    }
    mounted = argv[2];
    if (strcmp(argv[1], "vfork") == 0) {
        test_vfork();
    } else if (strcmp(argv[1], "handler") == 0) {
        test_handler();
    } else if (strcmp(argv[1], "small-stack") == 0) {
        test_small_stack();
    } else if (strcmp(argv[1], "small-thread") == 0) {
        test_small_thread();
    } else if (strcmp(argv[1], "actions") == 0) {
        test_actions();
    } else if (strcmp(argv[1], "title") == 0) {
        test_title(argv);
    } else {
        test_threads();
    }
    return 0;
}
