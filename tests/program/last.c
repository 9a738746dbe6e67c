/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes whose main thread ends alone, as their last thread ends: exit(0)
 * follows by itself, with its handlers, and never before. Argument: alone,
 * before, during, after, detached, cancel, thrd, chain, waited (main is
 * joined by the last thread), fork, child, keys, team (OpenMP), full (no
 * descriptor is to be had), space (a child has the same number as its parent),
 * filter (who asks for its number is killed; makes no calls).
 */
#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum {
    CHAIN = 100,
    LIMIT_MS = 40000 /* for what takes no time; the run's own limit is later */
};

static const char *mode = "";
static pthread_t main_thread;
static int calls_made; /* by the worker */
static pthread_key_t key;

static bool
is(const char *name)
{
    return strcmp(mode, name) == 0;
}

static void
nap(void)
{
    nanosleep(&(struct timespec){0, 1000 * 1000}, NULL);
}

/* Runs on the thread that calls exit(), which has the stack and the signal mask of any. */
static void
at_exit(void)
{
    volatile char stack[300 << 10];
    sigset_t blocked;

    for (size_t i = 0; i < sizeof stack; i += 4096) {
        stack[i] = 1;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    printf("atexit, SIGTERM %sblocked\n",
           sigismember(&blocked, SIGTERM) ? "" : "not ");
}

/* Comes back in each round of destructors. */
static void
key_ends(void *value)
{
    char *at = value;

    printf("key %s\n", at);
    pthread_setspecific(key, at + 1);
}

static void
say_errors(const char *what, unsigned seed)
{
    /* Large enough for ferry to start threads; and some calls of another size. */
    printf("%s: %ld wrong\n", what,
           product_errors(200, seed) + product_errors(60, seed));
}

/* Until the kernel says that the main thread has ended. */
static void
outlive_main(void)
{
    for (int i = 0; i < LIMIT_MS; i++) {
        char text[512];
        FILE *file = fopen("/proc/self/stat", "r");
        size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
        if (file) {
            fclose(file);
        }
        text[bytes] = '\0';
        const char *name_end = strrchr(text, ')');
        if (name_end && name_end[1] && name_end[2] == 'Z') {
            return;
        }
        nap();
    }
    printf("the main thread has not ended\n");
    exit(3);
}

static void *
link_of_chain(void *argument)
{
    int *left = argument;
    pthread_attr_t attributes;
    pthread_t next;

    if (*left % 10 == 0) {
        outlive_main();
        say_errors("link", (unsigned)*left);
    }
    if (--*left > 0) {
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        if (pthread_create(&next, &attributes, link_of_chain, left) != 0) {
            printf("no thread\n");
        }
        pthread_attr_destroy(&attributes);
    } else {
        printf("the chain ends\n");
    }
    return NULL;
}

static void *
last_of_child(void *argument)
{
    (void)argument;
    outlive_main();
    say_errors("last of the child", 5);
    return NULL;
}

/* The only thread of the child becomes its main one, and ends alone too. */
static void
fork_one(bool from_main)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        say_errors("child", 4);
        pthread_create(&thread, NULL, last_of_child, NULL);
        pthread_exit(NULL);
    }
    waitpid(child, &status, 0);
    printf("child from %s: status %d\n", from_main ? "main" : "worker", status);
}

static _Noreturn void
no_space(void)
{
    fprintf(stderr, "no PID namespace with its own /proc\n");
    exit(77);
}

/* Goes on in a child that is the first process of a PID namespace; an ordinary user
 * needs a user namespace for that. Exits with 77 where none may be had. */
static void
fork_space(void)
{
    int status = -1, both = CLONE_NEWPID | CLONE_NEWNS;

    if (unshare(both) != 0 && unshare(both | CLONE_NEWUSER) != 0) {
        no_space();
    }
    fflush(stdout);
    pid_t child = fork();
    if (child != 0) {
        waitpid(child, &status, 0);
        printf("child: status %d\n", status);
        exit(WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 77 : 0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", "/proc", "proc", 0, NULL) != 0) {
        no_space();
    }
    printf("process %d\n", getpid());
}

static void
refuse_getpid(void)
{
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the number of the call */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, rows};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    printf("filter: %d\n",
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void *
worker(void *argument)
{
    (void)argument;
    if (is("filter")) {
        outlive_main();
    } else if (is("full")) {
        const struct rlimit none = {0, 0};
        outlive_main();
        setrlimit(RLIMIT_NOFILE, &none);
    } else if (is("during")) {
        for (unsigned i = 0; i < 400; i++) {
            if (product_errors(i % 40 == 7 ? 200 : 50, i) != 0) {
                printf("wrong\n");
            }
            __atomic_store_n(&calls_made, i + 1, __ATOMIC_RELEASE);
        }
    } else if (is("cancel")) {
        pthread_cancel(main_thread);
        outlive_main();
        say_errors("worker", 2);
    } else if (is("waited")) {
        void *result = &calls_made;
        int error = pthread_join(main_thread, &result);
        printf("main joined: %d, %d\n", error, result == &main_thread);
        say_errors("worker", 2);
    } else if (is("after")) {
        say_errors("worker", 2);
        __atomic_store_n(&calls_made, 1, __ATOMIC_RELEASE);
        outlive_main();
    } else if (is("fork")) {
        outlive_main();
        fork_one(false);
    } else {
        outlive_main();
        for (int i = 0; i < 100; i++) {
            nap(); /* some time in which the process could end too early */
        }
        say_errors("worker", 2);
    }
    printf("the worker ends\n");
    return NULL;
}

static int
c11_worker(void *argument)
{
    (void)worker(argument);
    return 0;
}

static void
team(void)
{
    long wrong = 0;

#pragma omp parallel for num_threads(3) reduction(+ : wrong)
    for (int i = 0; i < 6; i++) {
        wrong += product_errors(40, (unsigned)i);
    }
    printf("team: %ld wrong\n", wrong);
}

int
main(int argc, char **argv)
{
    static int chain = CHAIN;
    pthread_t thread;
    pthread_attr_t attributes;

    mode = argc > 1 ? argv[1] : "alone";
    main_thread = pthread_self();
    atexit(at_exit);
    if (is("keys")) {
        static char rounds[] = "4321";
        pthread_key_create(&key, key_ends);
        pthread_setspecific(key, rounds);
    }
    if (is("space")) {
        fork_space();
        say_errors("parent", 1);
        fork_space();
    }
    /* Not flushed: exit() has to. */
    if (!is("before") && !is("space") && !is("filter")) {
        say_errors("main", 1);
    }
    if (is("team")) {
        team();
    }
    if (is("alone") || is("keys")) {
        /* Until then the threads that the first call has started have run. */
        say_errors("main", 2);
        say_errors("main", 3);
        pthread_exit(NULL);
    }
    if (is("child")) {
        fork_one(true);
        pthread_exit(NULL);
    }
    if (is("thrd")) {
        thrd_t c11;
        if (thrd_create(&c11, c11_worker, NULL) != thrd_success) {
            return 4;
        }
        thrd_exit(0);
    }
    pthread_attr_init(&attributes);
    if (is("detached")) {
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    }
    if (pthread_create(&thread, &attributes,
                       is("chain") ? link_of_chain : worker,
                       is("chain") ? &chain : NULL) != 0) {
        return 4;
    }
    if (is("during")) {
        while (__atomic_load_n(&calls_made, __ATOMIC_ACQUIRE) < 20) {
            nap();
        }
    } else if (is("filter")) {
        refuse_getpid(); /* for this thread alone */
    } else if (is("after")) {
        while (!__atomic_load_n(&calls_made, __ATOMIC_ACQUIRE)) {
            nap();
        }
    } else if (is("cancel")) {
        for (int i = 0; i < LIMIT_MS; i++) {
            nap(); /* ends here */
        }
        return 5;
    }
    pthread_exit(is("waited") ? &main_thread : NULL);
}
