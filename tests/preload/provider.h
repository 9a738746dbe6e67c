/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of pager/bind/provider.c. */
#include <complex.h>
#include <setjmp.h>
#include <ucontext.h>

struct large {
    long value[6];
};
struct small {
    double x;
    long y;
};
typedef double wide256 __attribute__((vector_size(32)));
typedef double wide512 __attribute__((vector_size(64)));

int work(int n);
int work_ifunc(int n);
int work_seven(int a, int b, int c, int d, int e, int f);
int sum_varargs(int count, ...);
long sum_struct(struct large large, int factor, struct small small);
struct large make_large(int first);
double sum_many(double a, int i, double b, float c, double d, double e,
                double f, double g, double h, double j, long k, long l, long m,
                long n, long o, long p, double q);
double _Complex twist(double _Complex a, float _Complex b, int n);
wide256 add256(wide256 a, wide256 b, wide256 c) __attribute__((target("avx")));
wide512 add512(wide512 a, wide512 b, wide512 c)
    __attribute__((target("avx512f")));
int set_error(int value);
void jump_away(jmp_buf *to, int value);
int call_back(int (*function)(int), int n);
int count_calls(int n);
void *make_thing(int n);
void free_thing(void *thing);
int outer(int n);
int nap(int us);
/* Until other threads are in a call, too. */
int work_together(void *barrier, int unused);
/* By longjmp(), by setcontext(), to a coroutine and back. */
int work_jump(sigjmp_buf *to, int value);
int work_raise(int signal, int unused);
int work_context(const ucontext_t *to, int unused);
int work_swap(ucontext_t *from, const ucontext_t *to);
