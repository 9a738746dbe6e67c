/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the CUDA device: no handler of the program runs on them, and what
 * they load is not the program's doing.
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/users.h"
#include "pager/device/own_thread.h"

struct beginning {
    void *(*run)(void *);
    void *argument;
};

static void *
begin(void *argument)
{
    struct beginning b = *(struct beginning *)argument;
    free(argument);
    cuda_users_not_me();
    fy_own_thread_begins(true);
    return b.run(b.argument);
}

int
cuda_thread(pthread_t *thread, size_t stack_bytes, void *(*run)(void *),
            void *argument)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    struct beginning *b = malloc(sizeof *b);
    if (b == NULL) {
        return ENOMEM;
    }
    *b = (struct beginning){run, argument};
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        free(b);
        return error;
    }
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    /* Programs with much thread-local memory refuse a small stack. */
    error = pthread_attr_setstacksize(&attributes, stack_bytes);
    if (error == 0) {
        error = pthread_create(thread, &attributes, begin, b);
    }
    if (error != 0) {
        error = pthread_create(thread, NULL, begin, b);
    }
    if (error != 0) {
        free(b);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}
