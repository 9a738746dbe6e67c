/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fy_quiet_begin() blocks the signals for which the program may have handlers, but
 * for those of faults, and cancellation of the calling thread; the engine's locks are
 * held until fy_quiet_end().
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>

#include "shim/calls/shim.h"

void
fy_quiet_begin(struct fy_quiet *out)
{
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE,
                                 SIGILL,  SIGTRAP, SIGABRT};
    static const int plain[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                SIGTSTP, SIGALRM, SIGXCPU, SIGVTALRM,
                                SIGPROF, SIGUSR1, SIGUSR2};
    struct sigaction action;
    sigset_t most;
    sigfillset(&most);
    sigdelset(&most, SIGKILL);
    sigdelset(&most, SIGSTOP);
    for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sigdelset(&most, faults[i]);
    }
    for (unsigned i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (sigaction(plain[i], NULL, &action) == 0 &&
            action.sa_handler == SIG_DFL) {
            sigdelset(&most, plain[i]);
        }
    }
    out->blocked = most;
    pthread_sigmask(SIG_BLOCK, &most, &out->mask);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &out->cancel);
    out->linker_error = fy_linker_error_aside();
}

void
fy_quiet_end(const struct fy_quiet *quiet)
{
    fy_linker_error_back(quiet->linker_error);
    pthread_setcancelstate(quiet->cancel, NULL);
    /* Last: a waiting handler may leave for ever from here. */
    pthread_sigmask(SIG_SETMASK, &quiet->mask, NULL);
}
