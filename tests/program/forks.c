/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that call, of a parent that has or has not called before; vfork and
 * posix_spawn children; fork while other threads are inside calls.
 * Argument: before | after | both | deep | spawn | shared | first | busy.
 */
#include "common.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Forks; the child makes `calls' products and leaves by `leave'. */
static int
child(int calls, void (*leave)(int))
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        long errors = 0;
        for (int i = 0; i < calls; i++) {
            errors += product_errors(40 + i, (unsigned)i);
        }
        leave(errors == 0 ? 10 : 11);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void
deep(int level)
{
    printf("level %d: %ld wrong\n", level, product_errors(30 + level, 1));
    fflush(stdout);
    if (level == 4) {
        return;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        deep(level + 1);
        exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void
spawned(const char *self)
{
    int status = 0;
    pid_t pid;
    char *arguments[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "child",
                         NULL};

    if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) == 0) {
        waitpid(pid, &status, 0);
    }
    printf("posix_spawn: %d\n", WEXITSTATUS(status));
    pid = vfork();
    if (pid == 0) {
        execve(self, arguments, environ);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    printf("vfork: %d\n", WEXITSTATUS(status));
    fflush(stdout);
    printf("system: %d\n", WEXITSTATUS(system("exit 5")));
}

/* A child on its parent's memory makes the first call of a name, and products. */
static void
shared(const char *self)
{
    static double x[1000], y[1000];
    const integer n = 1000, one = 1;
    const double half = 0.5;
    int status = 0;
    char *arguments[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "child",
                         NULL};
    volatile long errors = 0;
    pid_t pid = vfork();

    if (pid == 0) {
        fill(x, 1000, 1);
        daxpy_(&n, &half, x, &one, y, &one);
        errors = product_errors(200, 5);
        execve(self, arguments, environ);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    printf("vfork: %d, %ld wrong\n", WEXITSTATUS(status), errors);
    daxpy_(&n, &half, x, &one, y, &one);
    for (int i = 0; i < 1000; i++) {
        errors += y[i] != x[i];
    }
    printf("after: %ld wrong\n", errors + product_errors(200, 6));
}

static atomic_int stop;

static void *
busy(void *argument)
{
    long errors = 0;

    for (unsigned i = 0; !atomic_load(&stop); i++) {
        errors += product_errors(50, i);
    }
    *(long *)argument = errors;
    return NULL;
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "both";

    if (strcmp(mode, "child") == 0) {
        return product_errors(33, 3) == 0 ? 21 : 22;
    }
    if (strcmp(mode, "before") == 0 || strcmp(mode, "both") == 0) {
        printf("child before: %d %d\n", child(3, exit), child(2, _exit));
    }
    if (strcmp(mode, "deep") == 0) {
        deep(0);
        return 0;
    }
    if (strcmp(mode, "first") == 0) {
        shared(argv[0]);
    }
    printf("parent: %ld wrong\n", product_errors(64, 9));
    if (strcmp(mode, "after") == 0 || strcmp(mode, "both") == 0) {
        printf("child after: %d %d\n", child(3, exit), child(2, _exit));
    }
    if (strcmp(mode, "spawn") == 0) {
        spawned(argv[0]);
    }
    if (strcmp(mode, "shared") == 0) {
        shared(argv[0]);
    }
    if (strcmp(mode, "busy") == 0) {
        pthread_t threads[3];
        long errors[3] = {0};
        int good = 0;
        for (int i = 0; i < 3; i++) {
            pthread_create(&threads[i], NULL, busy, &errors[i]);
        }
        for (int i = 0; i < 20; i++) {
            good += child(2, _exit) == 10;
        }
        atomic_store(&stop, 1);
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], NULL);
        }
        printf("busy: %d of 20 children, %ld wrong\n", good,
               errors[0] + errors[1] + errors[2]);
    }
    printf("parent: %ld wrong\n", product_errors(65, 10));
    return 0;
}
