/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to end while calls are under way. Argument: exit (from main while
 * threads compute), thread (exit from another thread), quick (_exit), abort,
 * segv, kill, late (calls from atexit and destructors), cancel, crowd,
 * pthread_exit.
 */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static const char *mode = "";

static void
at_exit(void)
{
    printf("atexit\n");
    if (strcmp(mode, "late") == 0) {
        printf("atexit: %ld wrong\n", product_errors(40, 4));
    }
}

__attribute__((constructor)) static void
before_main(void)
{
    if (getenv("EARLY")) {
        printf("constructor: %ld wrong\n", product_errors(20, 2));
    }
}

__attribute__((destructor)) static void
after_main(void)
{
    if (strcmp(mode, "late") == 0) {
        printf("destructor: %ld wrong\n", product_errors(41, 5));
    }
    fflush(stdout);
}

static void *
forever(void *argument)
{
    (void)argument;
    for (unsigned i = 0;; i++) {
        product_errors(80, i);
    }
    return NULL;
}

static void *
leaver(void *argument)
{
    (void)argument;
    usleep(30000);
    exit(9);
}

/* A cancel request is pending while the call runs: a call is no cancellation
 * point, so it ends first. */
static void *
cancelled(void *argument)
{
    pthread_cancel(pthread_self());
    *(long *)argument = product_errors(60, 6);
    printf("the call ended\n");
    pthread_testcancel();
    printf("never here\n");
    return NULL;
}

static void *
calls(void *argument)
{
    long errors = 0;

    for (unsigned i = 0; i < 200; i++) {
        errors += product_errors(50, i);
        pthread_testcancel();
    }
    *(long *)argument = errors;
    return NULL;
}

/* Threads that wait for each other are cancelled; the others go on. */
static int
crowd(void)
{
    pthread_t threads[6];
    long errors[6] = {0}, wrong = 0;

    for (int i = 0; i < 6; i++) {
        pthread_create(&threads[i], NULL, calls, &errors[i]);
    }
    for (int i = 0; i < 4; i++) {
        usleep(2000);
        pthread_cancel(threads[i]);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        wrong += errors[i];
    }
    printf("crowd: %ld wrong\n", wrong);
    printf("afterwards: %ld wrong\n", product_errors(50, 7));
    return 0;
}

int
main(int argc, char **argv)
{
    pthread_t threads[3];

    mode = argc > 1 ? argv[1] : "exit";
    atexit(at_exit);
    if (strcmp(mode, "cancel") != 0) {
        printf("first: %ld wrong\n", product_errors(30, 1));
    }
    fflush(stdout);
    if (strcmp(mode, "late") == 0) {
        return 4;
    }
    if (strcmp(mode, "crowd") == 0) {
        return crowd();
    }
    if (strcmp(mode, "cancel") == 0) {
        long errors = -1;
        void *result = NULL;
        for (int i = 0; i < 20; i++) {
            pthread_create(&threads[0], NULL, cancelled, &errors);
            pthread_join(threads[0], &result);
            printf("%d %ld\n", result == PTHREAD_CANCELED, errors);
        }
        printf("afterwards: %ld wrong\n", product_errors(50, 7));
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, forever, NULL);
    }
    if (strcmp(mode, "thread") == 0) {
        pthread_create(&threads[2], NULL, leaver, NULL);
        forever(NULL);
    }
    if (strcmp(mode, "pthread_exit") == 0) {
        pthread_create(&threads[2], NULL, leaver, NULL);
        pthread_exit(NULL);
    }
    usleep(50000);
    if (strcmp(mode, "quick") == 0) {
        _exit(6);
    }
    if (strcmp(mode, "abort") == 0) {
        abort();
    }
    if (strcmp(mode, "segv") == 0) {
        raise(SIGSEGV);
    }
    if (strcmp(mode, "kill") == 0) {
        kill(getpid(), SIGKILL);
    }
    exit(7);
}
