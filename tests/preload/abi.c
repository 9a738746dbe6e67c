/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything a call may carry, through thunks: the results must be those of a
 * run without the preload, whatever the thunk decided.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../patience.h"
#include "provider.h"

static int depth;

static int
back(int n)
{
    return n > 0 ? call_back(back, n - 1) + depth : n;
}

static void
scalars(void)
{
    struct large large = {{1, 2, 3, 4, 5, 6}};
    struct small small = {2.5, 7};
    printf("%d\n", sum_varargs(6, 1, 2.5, 3, 4.5, 5, 6.0));
    printf("%ld\n", sum_struct(large, 3, small));
    printf("%ld\n", make_large(4).value[5]);
    printf("%.1f\n",
           sum_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17));
    double _Complex z = twist(1 + 2 * I, 3 - 4 * I, 5);
    printf("%.1f %.1f\n", creal(z), cimag(z));
    printf("%d\n", work_seven(1, 2, 3, 4, 5, 6));
    printf("%d\n", back(3));
}

__attribute__((target("avx"))) static void
vectors256(void)
{
    wide256 a = {1, 2, 3, 4}, b = {5, 6, 7, 8}, c = {9, 10, 11, 12};
    wide256 r = add256(a, b, c);
    printf("%.0f %.0f %.0f %.0f\n", r[0], r[1], r[2], r[3]);
}

__attribute__((target("avx512f"))) static void
vectors512(void)
{
    wide512 a = {1, 2, 3, 4, 5, 6, 7, 8}, b = a + 1, c = a * 2;
    wide512 r = add512(a, b, c);
    for (int i = 0; i < 8; i++) {
        printf("%.0f ", r[i]);
    }
    puts("");
}

static void
errors(void)
{
    errno = 33;
    set_error(-1);
    printf("%d", errno);
    set_error(44);
    printf(" %d", errno);
    errno = 55;
    work(1);
    printf(" %d\n", errno);
}

static void
jumps(void)
{
    jmp_buf back_here;
    int volatile count = 0;
    int value = setjmp(back_here);
    count++;
    if (value < 5) {
        jump_away(&back_here, value + 1);
    }
    printf("%d %d\n", value, count);
}

/* ---- jumps out of an accepted call --------------------------------------------- */

static void
state(const char *when)
{
    sigset_t mask;
    int cancel = -1, blocked = 0;

    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number < NSIG; number++) {
        blocked += sigismember(&mask, number) == 1;
    }
    printf("%s: can be cancelled %d, blocked %d\n", when,
           cancel == PTHREAD_CANCEL_ENABLE, blocked);
}

static void *outside;

static void
trapped(int signal)
{
    (void)signal;
    siglongjmp(*(sigjmp_buf *)outside, 1);
}

/* Each way of leaving, with the mask restored and kept; calls follow. */
static void
left(int saves)
{
    sigjmp_buf here;
    ucontext_t back;
    volatile int times = 0;
    struct sigaction action = {.sa_handler = trapped};
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigset_t none;

    sigemptyset(&none);

    outside = &here;
    sigaltstack(&alternate, NULL);
    if (sigsetjmp(here, saves) == 0) {
        work_jump(&here, 1);
    }
    state("by the call");
    printf("%d\n", work(1));
    for (int i = 0; i < 2; i++) {
        action.sa_flags = i ? SA_ONSTACK : 0;
        sigaction(SIGTRAP, &action, NULL);
        if (sigsetjmp(here, saves) == 0) {
            work_raise(SIGTRAP, 0);
        }
        state("by a handler");
        sigprocmask(SIG_SETMASK, &none, NULL);
        printf("%d\n", work(2));
    }
    getcontext(&back);
    if (times++ == 0) {
        work_context(&back, 0);
    }
    printf("%d\n", work(3));
    state("by setcontext");
    printf("%d\n", work(4));
}

static void *
left_in_thread(void *saves)
{
    left(*(int *)saves);
    return NULL;
}

/* Calls while another coroutine of the thread, on a deeper stack or not, is in one. */
static ucontext_t scheduler, coroutine;

static void
inner(void)
{
    printf("inside: %d\n", work(5));
    printf("back: %d\n", work_swap(&coroutine, &scheduler));
    printf("last: %d\n", work(6));
}

static void
switches(char *stack, size_t bytes)
{
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = bytes;
    coroutine.uc_link = &scheduler;
    makecontext(&coroutine, inner, 0);
    swapcontext(&scheduler, &coroutine); /* it is in a call now */
    printf("meanwhile: %d\n", work(7));
    printf("again: %d\n", work_swap(&scheduler, &coroutine));
    state("after coroutines");
    printf("%d\n", work(8));
}

static void
handles(void)
{
    char *thing = make_thing(3);
    printf("%d\n", *thing);
    free_thing(thing);
    printf("%d\n", *thing);
}

/* ---- many at once ------------------------------------------------------------ */

static void *
thread(void *argument)
{
    long sum = 0;
    for (int i = 0; i < 500; i++) {
        sum += work(i) + work_ifunc(i) + sum_varargs(2, i, 1.0);
    }
    return (void *)(sum + (long)argument);
}

static void
threads(bool warm)
{
    pthread_t id[8];
    long sum = 0;
    if (warm) { /* a first call beside a thread that loads the engine is the original's */
        sum += work(1) + work_ifunc(1) + sum_varargs(2, 1, 1.0);
    }
    for (long i = 0; i < 8; i++) {
        pthread_create(&id[i], NULL, thread, (void *)i);
    }
    for (int i = 0; i < 8; i++) {
        void *one;
        pthread_join(id[i], &one);
        sum += (long)one;
    }
    printf("%ld\n", sum);
}

static void
forks(int early)
{
    if (!early) {
        printf("%d\n", work(1));
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        printf("%d\n", work(2));
        fflush(stdout);
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%d %d\n", work(3), WEXITSTATUS(status));
    fflush(stdout);
    child = vfork();
    if (child == 0) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Vfork): that it is allowed is the test */
        work_ifunc(1); /* its first call: binds in the shared memory */
        execl("/bin/echo", "echo", "vfork", (char *)NULL);
        _exit(4);
    }
    waitpid(child, &status, 0);
    printf("%d %d\n", work_ifunc(1), WEXITSTATUS(status));
}

static void *
opens_and_closes(void *library)
{
    for (;;) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
        if (handle) {
            dlclose(handle);
        }
    }
    return NULL;
}

/* Children that have the dynamic linker as another thread left it: a dlopen() there may
 * hang for ever. */
static void
forks_while_linking(char *library)
{
    enum {
        CHILDREN = 40
    };
    pthread_t id;
    int sum = 0;

    pthread_create(&id, NULL, opens_and_closes, library);
    for (int i = 0; i < CHILDREN; i++) {
        int status = 0;
        usleep(1000);
        if (fork() == 0) {
            alarm((unsigned)patient(60));
            _exit(work(2) & 127);
        }
        wait(&status);
        sum += WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
    }
    printf("%d\n", sum);
    fflush(stdout);
    _exit(0);
}

/* Anonymous memory that may be written. */
static long
mapped_mebibytes(void)
{
    char line[512];
    unsigned long low, high, inode, bytes = 0;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx rw-p %*s %*s %lu", &low, &high, &inode) ==
                3 &&
            inode == 0) {
            bytes += high - low;
        }
    }
    fclose(maps);
    return (long)(bytes >> 20);
}

enum {
    TOGETHER = 6
};
static pthread_barrier_t barrier;

static void *
together(void *unused)
{
    work_together(&barrier, 0);
    return unused;
}

static void
all_in_calls(pthread_t threads[TOGETHER])
{
    /* Not those that libc keeps: a thread there is known by its address. */
    static char stacks[2][TOGETHER][65536] __attribute__((aligned(4096)));
    static int round;
    pthread_attr_t attributes;

    pthread_barrier_init(&barrier, NULL, TOGETHER + 1);
    for (int i = 0; i < TOGETHER; i++) {
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stacks[round][i], 65536);
        pthread_create(&threads[i], &attributes, together, NULL);
    }
    round++;
    pthread_barrier_wait(&barrier);
}

static void
all_out(const pthread_t threads[TOGETHER])
{
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < TOGETHER; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* A child has the stacks of threads that were in calls when it was forked. */
static void
forks_in_calls(void)
{
    pthread_t threads[TOGETHER];
    int status;

    printf("%d\n", work(1));
    fflush(stdout);
    mapped_mebibytes();
    all_in_calls(threads);
    if (fork() == 0) {
        long before = mapped_mebibytes();
        all_in_calls(threads);
        long more = mapped_mebibytes() - before;
        all_out(threads);
        printf("%d, grown: %d\n", work(2), more > TOGETHER);
        exit(0);
    }
    all_out(threads);
    wait(&status);
    printf("%d %d\n", work(3), status);
}

/* Errors of dlopen() that are pending over calls, told before, and none. */
static void *
linker_errors(void *unused)
{
    for (int i = 0; i < 4; i++) {
        dlopen("/nonexistent/mine.so", RTLD_NOW);
        printf("%d\n", i % 2 ? work(i) : work_seven(1, 2, 3, 4, 5, i));
        char *text = dlerror();
        puts(text ? text : "lost");
        printf("%d\n", i % 2 ? work(i) : work_seven(1, 2, 3, 4, 5, i));
        puts(text ? text : "lost");
        puts(dlerror() ? "another" : "none");
        printf("%d\n", i % 2 ? work(i) : work_seven(1, 2, 3, 4, 5, i));
        puts(dlerror() ? "another" : "none");
        dlopen("/nonexistent/mine.so", RTLD_NOW);
        puts(dlsym(RTLD_DEFAULT, "work") ? "found" : "not found");
        puts(dlerror() ? "another" : "none");
    }
    return unused;
}

static volatile sig_atomic_t ticks;

static void
tick(int signal)
{
    (void)signal;
    ticks++;
    volatile double x = sum_varargs(2, 1, 2.0);
    (void)x;
}

static void
signals(void)
{
    struct itimerval interval = {{0, 300}, {0, 300}};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = tick;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &interval, NULL);
    long wrong = 0, calls = 0;
    while (ticks < 200 && calls < 100000000) {
        wrong += sum_varargs(4, 1, 2.5, 3, 4.5) != 11;
        wrong += twist(1, 2, 3) != 5;
        calls++;
    }
    interval = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &interval, NULL);
    printf("%ld\n", wrong);
}

static void *
leave(void *argument)
{
    (void)argument;
    printf("%d\n", work(9));
    exit(5);
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "scalars";
    depth = argc;
    if (strcmp(what, "scalars") == 0) {
        scalars();
    } else if (strcmp(what, "avx") == 0) {
        if (__builtin_cpu_supports("avx")) {
            vectors256();
        }
    } else if (strcmp(what, "avx512") == 0) {
        if (__builtin_cpu_supports("avx512f")) {
            vectors512();
        }
    } else if (strcmp(what, "errno") == 0) {
        errors();
    } else if (strcmp(what, "errno-only") == 0) {
        printf("%d %d\n", set_error(1), set_error(2));
    } else if (strcmp(what, "longjmp") == 0) {
        jumps();
    } else if (strcmp(what, "left") == 0) {
        pthread_t id;
        int saves = argc > 2;
        left(saves);
        pthread_create(&id, NULL, left_in_thread, &saves);
        pthread_join(id, NULL);
    } else if (strcmp(what, "coroutines") == 0) {
        char above[65536];
        switches(above, sizeof above);
        switches(malloc(65536), 65536);
    } else if (strcmp(what, "handles") == 0) {
        handles();
    } else if (strcmp(what, "threads") == 0) {
        threads(argc > 2);
    } else if (strcmp(what, "fork") == 0) {
        forks(0);
    } else if (strcmp(what, "fork-held") == 0) {
        forks_in_calls();
    } else if (strcmp(what, "fork-linking") == 0 && argc > 2) {
        forks_while_linking(argv[2]);
    } else if (strcmp(what, "dlerror") == 0) {
        pthread_t id;
        linker_errors(NULL);
        pthread_create(&id, NULL, linker_errors, NULL);
        pthread_join(id, NULL);
    } else if (strcmp(what, "fork-first") == 0) {
        forks(1);
    } else if (strcmp(what, "signals") == 0) {
        signals();
    } else if (strcmp(what, "nested") == 0) {
        printf("%d\n", outer(5));
    } else if (strcmp(what, "exit") == 0) {
        pthread_t id;
        pthread_create(&id, NULL, leave, NULL);
        pause();
    } else if (strcmp(what, "environment") == 0) {
        const char *text = getenv("FERRY_SETTINGS");
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): the shim is loaded */
        memset(strstr(text, "explain"), 'x', 7); /* as setproctitle may */
        printf("%d\n", work(5));
    } else {
        return 2;
    }
    return 0;
}
