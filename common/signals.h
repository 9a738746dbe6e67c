/* SPDX-License-Identifier: Apache-2.0 */
/* The signal mask of a thread, where no handler of the program may come between. */
#ifndef FERRY_COMMON_SIGNALS_H
#define FERRY_COMMON_SIGNALS_H

#include <signal.h>

/* All signals wait; *before is the mask until then. Any thread, after fork too. */
static inline void
fy_signals_block(sigset_t *before)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, before);
}

/* Restores the mask, and delivers the signals that waited. */
static inline void
fy_signals_restore(const sigset_t *before)
{
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

#endif
