/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers and fork while a call is decided, and while what its original took is
 * noted: nothing of ferry's may stay locked. Argument: leave (a handler leaves
 * the call by siglongjmp, as soon as anything can interrupt it), forks (a
 * handler forks, and the child calls), prepared (one thread holds the program's
 * mutex during its calls; pthread_atfork() takes it around fork), nodefer (a
 * handler that does not block its own signal calls, where it may have interrupted
 * malloc).
 */
#include "../patience.h"
#include "common.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    N = 160,
    K = 10000,
};

static volatile sig_atomic_t inside, children, good;
static sigjmp_buf back;
static pthread_t main_thread;
static atomic_int stop;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void
leave(int number)
{
    (void)number;
    if (inside) {
        inside = 0;
        siglongjmp(back, 1);
    }
}

static int
child_is_good(void)
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        alarm((unsigned)patient(60));
        _exit(product_errors(N, 1) == 0 ? 10 : 11);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 10;
}

static void
forks(int number)
{
    (void)number;
    if (inside && children < 20) {
        children++;
        good += child_is_good();
    }
}

/* Signals at uneven intervals, so that each instruction is met. */
static void *
pester(void *argument)
{
    unsigned state = 1;

    while (!atomic_load(&stop)) {
        pthread_kill(main_thread, SIGUSR1);
        state = state * 1664525u + 1013904223u;
        unsigned pause = (state >> 8) % *(const unsigned *)argument;
        for (volatile unsigned i = 0; i < pause; i++) {
        }
    }
    return NULL;
}

/* Declined as unprofitable, and its original is soon done. */
static void
call(const double *a, double *c)
{
    const double one = 1, zero = 0;
    const integer n = 1, k = K;

    dsyrk_("U", "T", &n, &k, &one, a, &k, &zero, c, &n);
}

static void *
another(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)product_errors(N, 7);
}

static void
interrupted(void (*handler)(int), unsigned pause)
{
    static double a[K], c[1];
    volatile int rounds = 0, jumps = 0;
    pthread_t thread;
    void *errors = NULL;
    struct sigaction action = {.sa_handler = handler};

    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, pester, &pause);
    /* An offloaded call takes milliseconds. */
    const time_t end = time(NULL) + 10;
    while (rounds < 20000 && time(NULL) < end) {
        rounds++;
        if (sigsetjmp(back, 1)) {
            jumps++;
            continue;
        }
        inside = 1;
        call(a, c);
        inside = 0;
    }
    inside = 0;
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    printf("left by a jump: %d\n", jumps > 0);
    pthread_create(&thread, NULL, another, NULL);
    pthread_join(thread, &errors);
    printf("another thread: %ld wrong\n", (long)(intptr_t)errors);
}

static void
take(void)
{
    pthread_mutex_lock(&mutex);
}

static void
give(void)
{
    pthread_mutex_unlock(&mutex);
}

static void *
holder(void *errors)
{
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        take();
        *(long *)errors += product_errors(N + (integer)(i % 3) * 40, i);
        give();
        usleep(200); /* the mutex is not fair */
    }
    return NULL;
}

static void
calls(int number)
{
    (void)number;
    if (inside) {
        inside = 0; /* it may be interrupted itself */
        static double a[N * N], c[N * N];
        const double one = 1;
        const integer n = N;
        children++;
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &one, c, &n);
        good += c[0] == 0;
    }
}

/* malloc is interrupted by a handler that does not show in the signal mask. */
static void
undeferred(void)
{
    pthread_t thread;
    unsigned pause = 200000;
    void *kept[64] = {NULL};
    const struct sigaction action = {.sa_handler = calls,
                                     .sa_flags = SA_NODEFER};

    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, pester, &pause);
    for (unsigned i = 0; i < 2000000 && children < 100; i++) {
        inside = 1;
        free(kept[i % 64]);
        kept[i % 64] = malloc(1 + i * 7919 % 90000);
        inside = 0;
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < 64; i++) {
        free(kept[i]);
    }
    printf("in handlers: %d, %d wrong\n", children > 0, children - good);
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "leave";

    main_thread = pthread_self();
    printf("at first: %ld wrong\n", product_errors(N, 3));
    if (strcmp(mode, "leave") == 0) {
        interrupted(leave, 60000);
    } else if (strcmp(mode, "forks") == 0) {
        interrupted(forks, 20000);
        printf("children: %d wrong, any: %d\n", (int)(children - good),
               children > 0);
    } else if (strcmp(mode, "nodefer") == 0) {
        undeferred();
    } else {
        pthread_t thread;
        long errors = 0;
        int children_good = 0;
        pthread_atfork(take, give, give);
        pthread_create(&thread, NULL, holder, &errors);
        for (int i = 0; i < 30; i++) {
            children_good += child_is_good();
        }
        atomic_store(&stop, 1);
        pthread_join(thread, NULL);
        printf("children: %d, %ld wrong\n", children_good, errors);
    }
    printf("at last: %ld wrong\n", product_errors(N, 4));
    return 0;
}
