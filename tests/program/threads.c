/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads whose very first calls come at the same moment, then more
 * calls of other sizes. Arguments: threads, stack in KiB (0: default), calls.
 */
#include "common.h"

#include <pthread.h>

static pthread_barrier_t start;
static int calls;

static void *
work(void *argument)
{
    const unsigned number = (unsigned)(uintptr_t)argument;
    long errors = 0;

    pthread_barrier_wait(&start);
    for (int i = 0; i < calls; i++) {
        errors += product_errors((integer)(5 + (number * 7 + i * 13) % 60),
                                 number * 1000 + (unsigned)i);
    }
    return (void *)(intptr_t)errors;
}

int
main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 8;
    const size_t stack = argc > 2 ? (size_t)atoi(argv[2]) * 1024 : 0;
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_attr_t attributes;
    long errors = 0;
    int started = 0;

    calls = argc > 3 ? atoi(argv[3]) : 20;
    pthread_barrier_init(&start, NULL, (unsigned)count);
    pthread_attr_init(&attributes);
    if (stack && pthread_attr_setstacksize(&attributes, stack) != 0) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the program ends */
        return 2;
    }
    for (; started < count; started++) {
        if (pthread_create(&threads[started], &attributes, work,
                           (void *)(uintptr_t)started) != 0) {
            return 3;
        }
    }
    for (int i = 0; i < count; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        errors += (intptr_t)result;
    }
    printf("%d threads, %d calls each, %ld wrong\n", started, calls, errors);
    free(threads);
    return errors != 0;
}
