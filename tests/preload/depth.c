/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far down a call goes on the caller's stack: depth. The stack below is
 * painted, and what has lost its colour is counted. Prints a line when the
 * calls after the first of their kind use more than they may; and does calls in
 * a thread with the smallest stack there is.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "provider.h"

enum {
    BELOW =
        64 *
        1024, /* painted, of a stack that is not large (shim/calls/stack.c) */
    MAY_USE = 1024 + 192, /* and what the original and this file take */
};

static unsigned char *stack;
static size_t stack_bytes;

/* Bytes below `here' that are not painted any more. */
static size_t
used(const unsigned char *here)
{
    const unsigned char *at = here - BELOW;
    while (at < here && *at == 0xa5) {
        at++;
    }
    return (size_t)(here - at);
}

static __attribute__((noinline)) size_t
measure(int (*call)(int))
{
    unsigned char *here = __builtin_frame_address(0);
    /* Not a function: its frame would be in the way. */
    for (volatile unsigned char *at = here - BELOW; at < here - 256; at++) {
        *at = 0xa5;
    }
    call(5);
    return used(here);
}

static int
decline(int n)
{
    return set_error(n);
}

static int
accept(int n)
{
    return work(n);
}

static void *
painted(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++) {
        size_t a = measure(decline), b = measure(accept);
        if (getenv("DEPTH")) {
            fprintf(stderr, "%zu declined, %zu accepted\n", a, b);
        }
        if (i > 0 && (a > MAY_USE || b > 2 * 4096)) {
            printf("declined: %zu bytes, accepted: %zu\n", a, b);
        }
    }
    return NULL;
}

static void *
small(void *sum)
{
    for (int i = 0; i < 4; i++) {
        *(int *)sum += work(i) + set_error(i) + sum_varargs(2, 1, 2.0);
    }
    return NULL;
}

static void
in_thread(void *(*run)(void *), void *argument, size_t bytes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    stack_bytes = bytes;
    stack = mmap(NULL, bytes + 65536, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(stack, 65536, PROT_NONE);
    if (stack == MAP_FAILED || pthread_attr_init(&attributes) ||
        pthread_attr_setstack(&attributes, stack + 65536, bytes) ||
        pthread_create(&thread, &attributes, run, argument)) {
        puts("no thread");
        exit(1);
    }
    pthread_join(thread, NULL);
}

int
main(void)
{
    int sum = 0;
    in_thread(painted, NULL, 256 * 1024);
    in_thread(small, &sum, (size_t)PTHREAD_STACK_MIN);
    printf("%d\n", sum);
    return 0;
}
