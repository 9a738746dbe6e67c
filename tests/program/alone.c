/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes that the kernel refuses to a process with several threads, after a product and
 * before another one. Modes: user, number: unshare(CLONE_NEWUSER), by name and by
 * number; mount: setns() to the own mount namespace; threads: with a second thread;
 * child: in a child of vfork, while the parent has the product's threads; again:
 * unshare(CLONE_SIGHAND) after each of twenty products.
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    N = 200
};

static void
say(const char *what, int result)
{
    printf("%s: %s\n", what, result == 0 ? "done" : strerror(errno));
}

static void
multiply(unsigned seed)
{
    printf("%ld wrong\n", product_errors(N, seed));
}

static void *
wait_for(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

static void
with_thread(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    pthread_mutex_lock(&lock);
    if (pthread_create(&thread, NULL, wait_for, &lock) != 0) {
        return;
    }
    say("with a thread", unshare(CLONE_NEWUSER));
    multiply(2);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void
in_child(void)
{
    volatile int error = 0;
    int status = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        error = unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
        _exit(0);
    }
    (void)waitpid(pid, &status, 0);
    printf("in a child: %s\n", error ? strerror(error) : "done");
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    multiply(1);
    if (strcmp(mode, "user") == 0) {
        errno = 0;
        say("user", unshare(CLONE_NEWUSER));
        printf("%d\n", errno);
    } else if (strcmp(mode, "number") == 0) {
        say("number", (int)syscall(SYS_unshare, CLONE_NEWUSER));
    } else if (strcmp(mode, "mount") == 0) {
        int own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        say("mount", setns(own, CLONE_NEWNS));
        say("not a namespace", setns(0, 0));
    } else if (strcmp(mode, "threads") == 0) {
        with_thread();
    } else if (strcmp(mode, "child") == 0) {
        in_child();
    } else if (strcmp(mode, "again") == 0) {
        for (unsigned i = 0; i < 20; i++) {
            say("again", unshare(CLONE_SIGHAND));
            multiply(i + 3);
        }
    }
    multiply(99);
    return 0;
}
