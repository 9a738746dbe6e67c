/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Default effects of signals on a process.
 */
#include "config.h"

#include "proxy/wire/signals.h"

#include <signal.h>

enum {
    SIGNALS = 64,
};

bool
fy_signal_ends(uint32_t signal)
{
    return signal != SIGCONT && signal != SIGTSTP && signal != SIGWINCH &&
           signal != SIGUSR1 && signal != SIGUSR2;
}

bool
fy_signal_kills(int64_t signal)
{
    switch (signal) {
    case SIGCHLD:
    case SIGCONT:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGURG:
    case SIGWINCH:
        return false;
    default:
        return signal >= 1 && signal <= SIGNALS;
    }
}
