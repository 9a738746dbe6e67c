/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The annotated library of the tests. Every copy answers with its own TAG, so
 * that a caller who reaches the wrong copy shows it. "work..." functions take
 * and return integers: the fake engine runs them; the others it declines.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include "provider.h"

#ifndef TAG
#define TAG 1000
#endif

int
work(int n)
{
    return TAG + n;
}

static int
work_chosen(int n)
{
    return TAG + 10 * n;
}

static int (*choose(void))(int)
{
    return work_chosen;
}

int work_ifunc(int n) __attribute__((ifunc("choose")));

int
work_seven(int a, int b, int c, int d, int e, int f)
{
    return TAG + a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}

int
sum_varargs(int count, ...)
{
    va_list list;
    double sum = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++) {
        sum += i % 2 ? va_arg(list, double) : va_arg(list, int);
    }
    va_end(list);
    return (int)sum;
}

long
sum_struct(struct large large, int factor, struct small small)
{
    long sum = 0;
    for (int i = 0; i < 6; i++) {
        sum += large.value[i] * (i + 1);
    }
    return sum * factor + (long)small.x + small.y;
}

struct large
make_large(int first)
{
    struct large large;
    for (int i = 0; i < 6; i++) {
        large.value[i] = first + i;
    }
    return large;
}

double
sum_many(double a, int i, double b, float c, double d, double e, double f,
         double g, double h, double j, long k, long l, long m, long n, long o,
         long p, double q)
{
    return a + 2 * i + 3 * b + 4 * c + 5 * d + 6 * e + 7 * f + 8 * g + 9 * h +
           10 * j + 11 * (double)k + 12 * (double)l + 13 * (double)m +
           14 * (double)n + 15 * (double)o + 16 * (double)p + 17 * q;
}

double _Complex twist(double _Complex a, float _Complex b, int n)
{
    return a * n + b;
}

__attribute__((target("avx"))) wide256
add256(wide256 a, wide256 b, wide256 c)
{
    return a + b * c;
}

__attribute__((target("avx512f"))) wide512
add512(wide512 a, wide512 b, wide512 c)
{
    return a + b * c;
}

int
set_error(int value)
{
    if (value >= 0) {
        errno = value;
    }
    return -1;
}

void
jump_away(jmp_buf *to, int value)
{
    longjmp(*to, value);
}

int
call_back(int (*function)(int), int n)
{
    return function(n) + TAG;
}

int
count_calls(int n)
{
    static int calls;
    return (calls += n);
}

void *
make_thing(int n)
{
    static char room[100];
    return room + n;
}

void
free_thing(void *thing)
{
    *(char *)thing = 1;
}

int
outer(int n)
{
    return work(n) + 1;
}

int
nap(int us)
{
    return us > 0 ? usleep((unsigned)us) : 0;
}

int
work_jump(sigjmp_buf *to, int value)
{
    siglongjmp(*to, value);
}

int
work_raise(int signal, int unused)
{
    (void)unused;
    return raise(signal);
}

int
work_context(const ucontext_t *to, int unused)
{
    (void)unused;
    return setcontext(to);
}

int
work_swap(ucontext_t *from, const ucontext_t *to)
{
    return swapcontext(from, to) + TAG;
}

int
work_together(void *barrier, int unused)
{
    (void)unused;
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return TAG;
}
