/* SPDX-License-Identifier: Apache-2.0 */
/*
 * system(3): libc's own starts its shell by a way inside libc that no wrapper
 * sees, so its shell would not be covered. Where nothing is hidden, where another
 * tool wraps it too, and for whatever is out of the ordinary, the original is
 * called.
 *
 * As POSIX wants it: the caller ignores SIGINT and SIGQUIT while any thread is in
 * here, and blocks SIGCHLD; the shell has neither. A thread that is cancelled
 * kills its shell. Waits, as its caller expects.
 */
#include "config.h"

/* Cleanup handlers by setjmp: those by unwinding would need libgcc_s. */
#undef __EXCEPTIONS

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/programs/exec.h"

extern char **environ;

/* Under fy_lock(). */
static unsigned inside;
static struct sigaction before_int, before_quit;

/* False when the lock cannot be had. */
static bool
ignore_begin(sigset_t *out_restore)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct fy_quiet quiet;
    fy_quiet_begin(&quiet);
    bool locked = fy_lock();
    if (locked) {
        if (inside++ == 0) {
            sigaction(SIGINT, &ignore, &before_int);
            sigaction(SIGQUIT, &ignore, &before_quit);
        }
        sigemptyset(out_restore);
        if (before_int.sa_handler != SIG_IGN) {
            sigaddset(out_restore, SIGINT);
        }
        if (before_quit.sa_handler != SIG_IGN) {
            sigaddset(out_restore, SIGQUIT);
        }
        fy_unlock();
    }
    fy_quiet_end(&quiet);
    return locked;
}

static void
ignore_end(void)
{
    struct fy_quiet quiet;
    fy_quiet_begin(&quiet);
    bool locked = fy_lock();
    if (--inside == 0) {
        sigaction(SIGINT, &before_int, NULL);
        sigaction(SIGQUIT, &before_quit, NULL);
    }
    if (locked) {
        fy_unlock();
    }
    fy_quiet_end(&quiet);
}

static void
cancelled(void *closure)
{
    pid_t pid = *(const pid_t *)closure;
    int state;
    kill(pid, SIGKILL);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        continue;
    }
    pthread_setcancelstate(state, NULL);
    ignore_end();
}

static int
wait_for(pid_t pid)
{
    int status = -1;
    pid_t ended;
    pthread_cleanup_push(cancelled, &pid);
    do {
        ended = waitpid(pid, &status, 0);
    } while (ended < 0 && errno == EINTR);
    pthread_cleanup_pop(0);
    return ended == pid ? status : -1;
}

__attribute__((visibility("default"))) int
system(const char *command)
{
    sigset_t restore, child, mask;
    /* The version of libc decides if the shell takes "-x" for an option. */
    if (!command || *command == '-' || *command == '+' || !fy_hidden.settings ||
        fy_original_is_foreign(FY_SYSTEM) || !ignore_begin(&restore)) {
        return FY_ORIGINAL(fy_system_fn, FY_SYSTEM)(command);
    }
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &child, &mask);
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    pid_t pid;
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setsigdefault(&attributes, &restore);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int trouble = fy_spawn(&pid, "/bin/sh", NULL, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    int status = trouble ? W_EXITCODE(127, 0) : wait_for(pid);
    int *error = &errno, cause = trouble ? trouble : *error;
    ignore_end();
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    *error = cause;
    return status;
}
