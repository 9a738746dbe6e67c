/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that an engine answers in every way it may (shim/calls/dispatch.c). Built three
 * times: as the engine (-DENGINE), which leaves errno and the state of floating
 * point spoilt whenever it was asked; as the annotated library (-DLIBRARY), which
 * notes what it was called with; and as the program, which prints all of that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What judged(n) is answered with. */
enum {
    DONE = 1,
    VERIFIED,
    UNPROFITABLE,
    UNSUPPORTED,
    NOT_HELD, /* done, without hold() */
    ANSWERS,
    LEFT /* judged_leave(): the engine's part of it does not come back */
};

enum {
    UP = 0x4000,    /* rounding */
    MASKS = 0x1f80, /* of exceptions */
    DIVISION_MASK = 0x200,
    INVALID = 1, /* flags of exceptions */
    INEXACT = 32
};

int judged(int n), judged_inner(int n), judged_jump(sigjmp_buf *to, int n);
int judged_hop(void **to), judged_leave(int n);
int seen_errno(void);
unsigned seen_control(void);
void *judged_make(int n);
void judged_free(void *made);

static inline unsigned
control(void)
{
    return __builtin_ia32_stmxcsr();
}

static inline void
set_control(unsigned value)
{
    __builtin_ia32_ldmxcsr(value);
}

#ifdef ENGINE
#include "pager/engine/engine.h"

static const struct fy_shim_services *services;
static char path[4096];

/* Raises two exceptions, and leaves what a careless engine might. */
static void
spoil(void)
{
    volatile double zero = 0, ignored = 1 / zero;
    ignored = zero / zero;
    set_control(MASKS | 0x6000);
    (void)ignored;
    errno = 99;
}

static void
note(const char *verb, const struct fy_intercepted *call, long number)
{
    const struct fy_symbol *symbols =
        FY_TABLE(services->model, fy_symbol, symbols);
    const char *name =
        call ? fy_model_string(services->model, symbols[call->symbol].name)
             : "-";
    char line[256];
    int bytes = snprintf(line, sizeof line, "%s %s %ld\n", verb, name, number);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line, (size_t)bytes) != bytes) {
        _exit(98);
    }
    close(file);
}

static enum fy_reason
call(const struct fy_intercepted *intercepted)
{
    static const enum fy_reason answers[ANSWERS] = {
        [VERIFIED] = FY_REASON_VERIFIED,
        [UNPROFITABLE] = FY_REASON_UNPROFITABLE,
        [UNSUPPORTED] = FY_REASON_UNSUPPORTED,
    };
    struct fy_registers *r = intercepted->registers;
    int n = (int)r->integer[0];

    bool jumps = n > 1000 || n < 0; /* it is a pointer's */
    note("call", intercepted, jumps ? 0 : n);
    if (jumps) {
        if (!services->hold(intercepted)) {
            return FY_REASON_IN_HANDLER;
        }
        ((int (*)(void *, int))intercepted->original)((void *)r->integer[0],
                                                      (int)r->integer[1]);
        _exit(97);
    }
    if (n == LEFT) {
        (void)services->hold(intercepted);
        ((int (*)(int))intercepted->original)(n);
        _exit(96);
    }
    if (n != NOT_HELD && !services->hold(intercepted)) {
        note("not held", intercepted, n);
        return FY_REASON_IN_HANDLER;
    }
    if (n == DONE || n == NOT_HELD) {
        r->result[0] = (uint64_t)(1000 + n);
        errno = 99;
        return FY_REASON_NONE;
    }
    spoil();
    return n < ANSWERS ? answers[n] : FY_REASON_UNSUPPORTED;
}

static void
observe(const struct fy_intercepted *intercepted)
{
    note("observe", intercepted, intercepted->registers->result[0] != 0);
    spoil();
}

static enum fy_reason
compare(const struct fy_intercepted *intercepted)
{
    note("compare", intercepted, (long)intercepted->registers->result[0]);
    spoil();
    return FY_REASON_VERIFIED;
}

static void
ran(uint64_t nanoseconds)
{
    /* judged() takes a millisecond, and nothing here a minute. */
    note("ran", NULL, nanoseconds >= 1000000 && nanoseconds < 60000000000);
    spoil();
}

static void
abandon(void)
{
    note("abandon", NULL, 0);
    errno = 99;
}

const struct fy_engine *
fy_engine_start(const struct fy_shim_services *given)
{
    static const struct fy_engine table = {.size_bytes = sizeof table,
                                           .call = call,
                                           .observe = observe,
                                           .compare = compare,
                                           .ran = ran,
                                           .abandon = abandon};
    const char *at = strstr(given->settings, "explain=");

    services = given;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at + 8, ";"), at + 8);
    errno = 99;
    return &table;
}

#elif defined(LIBRARY)

static int last_errno;
static unsigned last_control;

static void
see(void)
{
    last_errno = errno;
    last_control = control();
}

int
seen_errno(void)
{
    return last_errno;
}

unsigned
seen_control(void)
{
    return last_control;
}

int
judged_inner(int n)
{
    return n + 1;
}

int
judged(int n)
{
    const struct timespec pause = {0, 1000000};
    if (n == DONE || n == NOT_HELD) {
        return 1000 + n; /* as the engine does it */
    }
    see();
    nanosleep(&pause, NULL);
    int inner = judged_inner(UNSUPPORTED);
    set_control(control() | INEXACT);
    errno = 200 + n;
    return 995 + n + inner;
}

int
judged_jump(sigjmp_buf *to, int n)
{
    siglongjmp(*to, n);
}

/* By no function of libc. */
int
judged_hop(void **to)
{
    __builtin_longjmp(to, 1);
}

int
judged_leave(int n)
{
    pthread_exit((void *)(long)n);
}

void *
judged_make(int n)
{
    see();
    errno = 300 + n;
    return malloc(16);
}

void
judged_free(void *made)
{
    see();
    errno = 400;
    free(made);
}

#else

static void
show(const char *what, int result)
{
    int error = errno;
    unsigned now = control();
    set_control(MASKS);
    printf("%s: %d, errno %d, control %x; there errno %d, control %x\n", what,
           result, error, now & ~0x3fU, seen_errno(), seen_control() & ~0x3fU);
    fflush(stdout);
}

static void
each(unsigned masks)
{
    for (int n = 1; n <= NOT_HELD; n++) {
        char what[32];
        snprintf(what, sizeof what, "judged(%d)", n);
        errno = 40 + n;
        set_control(masks | UP);
        int result = judged(n);
        show(what, result);
    }
}

static void
flags(void)
{
    for (int n = 1; n <= NOT_HELD; n++) {
        set_control(MASKS | INVALID);
        judged(n);
        unsigned now = control();
        set_control(MASKS);
        /* A division by zero was the engine's. */
        printf("flags of judged(%d): invalid %d, division %d, inexact %d\n", n,
               (now & INVALID) != 0, (now & 4) != 0, (now & INEXACT) != 0);
    }
}

static void
handles(void)
{
    errno = 41;
    set_control((MASKS & ~(unsigned)DIVISION_MASK) | UP);
    void *made = judged_make(7);
    show("judged_make", made != NULL);
    errno = 42;
    set_control((MASKS & ~(unsigned)DIVISION_MASK) | UP);
    judged_free(made);
    show("judged_free", 0);
}

static void
jumps(void)
{
    sigjmp_buf here;
    errno = 43;
    if (sigsetjmp(here, 1) == 0) {
        judged_jump(&here, 1);
    }
    printf("after a jump: errno %d", errno);
    printf(", %d\n", judged(UNSUPPORTED));
}

static int
blocked(void)
{
    sigset_t mask;
    int count = 0, state;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number < NSIG; number++) {
        count += sigismember(&mask, number) == 1;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    return count + (state == PTHREAD_CANCEL_ENABLE ? 0 : 1000);
}

/* The next call finds the one that was left, and its mask. */
static __attribute__((noinline)) void
hops(void)
{
    static void *here[5];
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    for (volatile int i = 0; i < 2; i++) {
        if (__builtin_setjmp(here) == 0) {
            judged_hop(here);
        }
        printf("after a hop: %d\n", judged(UNSUPPORTED));
        printf("blocked: %d\n", blocked());
    }
}

static void *
leaver(void *n)
{
    judged_leave((int)(long)n);
    return NULL;
}

/* Threads that end in a call: one that the engine made, one that only passed. */
static void
leaves(void)
{
    for (long n = UNSUPPORTED; n <= LEFT; n += LEFT - UNSUPPORTED) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, leaver, (void *)n);
        pthread_join(thread, &result);
        printf("left with %ld\n", (long)result);
    }
    printf("%d\n", judged(DONE));
}

static void
handler(int signal)
{
    (void)signal;
    printf("in a handler: %d\n", judged(DONE));
}

static void
handlers(int flags, int first)
{
    static char memory[1 << 17];
    const stack_t alternate = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

    if (!first) {
        printf("%d\n", judged(DONE));
    }
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
    }
    printf("%d\n", judged(DONE));
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "each") == 0) {
        each(MASKS);
    } else if (strcmp(what, "traps") == 0) {
        for (unsigned bit = 0x80; bit <= 0x1000; bit <<= 1) {
            /* Inexact, which judged() raises, would be a signal. */
            each(bit == 0x1000 ? MASKS & ~0x80U : MASKS & ~bit);
        }
    } else if (strcmp(what, "flags") == 0) {
        flags();
    } else if (strcmp(what, "handles") == 0) {
        handles();
    } else if (strcmp(what, "jumps") == 0) {
        jumps();
    } else if (strcmp(what, "hops") == 0) {
        hops();
    } else if (strcmp(what, "leaves") == 0) {
        leaves();
    } else if (strcmp(what, "handlers") == 0) {
        handlers(0, 0);
    } else if (strcmp(what, "first") == 0) {
        handlers(0, 1);
    } else if (strcmp(what, "alternate") == 0) {
        handlers(SA_ONSTACK, 0);
    } else {
        return 2;
    }
    return 0;
}
#endif
