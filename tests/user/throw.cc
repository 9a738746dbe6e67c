// SPDX-License-Identifier: Apache-2.0
// Catches what throwlib throws, then looks whether the thread is as it was.
#include <csignal>
#include <cstdio>
#include <exception>
#include <pthread.h>

extern "C" void scale(int n, double *x);

int
main()
{
    static double x[100000];
    for (int round = 0; round < 2; round++) {
        x[0] = -1;
        try {
            scale(100000, x);
        } catch (const std::exception &error) {
            std::printf("caught %s, x %g\n", error.what(), x[0]);
        }
        sigset_t blocked;
        int cancel;
        pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
        std::printf("blocked %d, cancel %d\n", sigismember(&blocked, SIGALRM),
                    cancel == PTHREAD_CANCEL_ENABLE);
        x[0] = 1;
        scale(100000, x);
        std::printf("x %g\n", x[0]);
    }
    return 0;
}
