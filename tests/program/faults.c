/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that handles faults on its own memory. Argument: truncated (the file
 * behind an operand was cut, and the handler leaves by siglongjmp), tracked
 * (another thread write-protects the result again and again, and the handler
 * takes that back), vanishing (another thread makes the input inaccessible for
 * moments; the handler waits), key (the result is under a protection key that may
 * not be written; where the processor has none, it is write-protected).
 */
#define _GNU_SOURCE
#include "common.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    N = 500,
    CALLS = 6,
};
#define BYTES ((size_t)N * N * sizeof(double))

static sigjmp_buf back;
static pthread_t main_thread;
static char *volatile guarded;
static atomic_int faults, elsewhere, stop, calling;

static void
count(const siginfo_t *info)
{
    const char *at = info->si_addr;

    if (at < guarded || at >= guarded + BYTES) {
        _exit(9); /* a fault of no meaning */
    }
    atomic_fetch_add(&faults, 1);
    if (!pthread_equal(pthread_self(), main_thread)) {
        atomic_fetch_add(&elsewhere, 1);
    }
}

static void
jump(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    count(info);
    siglongjmp(back, 1);
}

static void
allow(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    count(info);
    mprotect(guarded, BYTES, PROT_READ | PROT_WRITE);
}

static void
handle(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(number, &action, NULL);
}

/* Protects the memory while a call is on its way. */
static void *
protect(void *how)
{
    while (!atomic_load(&stop)) {
        usleep(300);
        if (atomic_load(&calling)) {
            mprotect(guarded, BYTES, *(const int *)how);
        }
    }
    return NULL;
}

static void *
map(int file)
{
    void *at =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
             file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);

    if (at == MAP_FAILED) {
        exit(3);
    }
    return at;
}

static void
product(const double *a, const double *b, double *c)
{
    const double one = 1;
    const integer n = N;

    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n);
}

static void
truncated(double *a, double *b, double *c)
{
    volatile int met = 0;
    char name[] = "/tmp/ferry-faults-XXXXXX";
    const int file = mkstemp(name);

    unlink(name);
    if (file < 0 || ftruncate(file, (off_t)BYTES) != 0) {
        exit(3);
    }
    handle(SIGBUS, jump);
    for (volatile int i = 0; i < 3; i++) {
        double *cut = map(file);
        guarded = (char *)cut;
        /* The input, the other one, the result. */
        double *x = i == 0 ? cut : a, *y = i == 1 ? cut : b;
        double *z = i == 2 ? cut : c;
        if (ftruncate(file, (off_t)BYTES / 2) != 0) {
            exit(3);
        }
        if (sigsetjmp(back, 1) == 0) {
            product(x, y, z);
        } else {
            met++;
        }
        munmap(cut, BYTES);
        if (ftruncate(file, (off_t)BYTES) != 0) {
            exit(3);
        }
    }
    close(file);
    printf("met: %d, elsewhere: %d\n", (int)met, (int)elsewhere);
}

static void
key(double *a, double *b, double *c)
{
    const int number = pkey_alloc(0, PKEY_DISABLE_WRITE);
    volatile int met = 0;

    guarded = (char *)c;
    handle(SIGSEGV, jump);
    if (number < 0) {
        mprotect(c, BYTES, PROT_READ);
    } else {
        pkey_mprotect(c, BYTES, PROT_READ | PROT_WRITE, number);
    }
    if (sigsetjmp(back, 1) == 0) {
        product(a, b, c);
    } else {
        met++;
    }
    printf("met: %d, elsewhere: %d\n", (int)met, (int)elsewhere);
}

static void
interfered(double *a, double *b, double *c, int how, char *with)
{
    pthread_t thread;
    double *expected = map(-1);
    int wrong = 0;

    fill(expected, (size_t)N * N, 3);
    product(a, b, expected);
    guarded = with;
    handle(SIGSEGV, allow);
    pthread_create(&thread, NULL, protect, &how);
    for (int i = 0; i < CALLS; i++) {
        mprotect(guarded, BYTES, PROT_READ | PROT_WRITE);
        fill(c, (size_t)N * N, 3);
        atomic_store(&calling, 1);
        product(a, b, c);
        atomic_store(&calling, 0);
        usleep(600);
        mprotect(guarded, BYTES, PROT_READ | PROT_WRITE);
        wrong += memcmp(c, expected, BYTES) != 0;
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    printf("%d wrong, elsewhere: %d\n", wrong, (int)elsewhere);
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "truncated";
    double *a = map(-1), *b = map(-1), *c = map(-1);
    int state = -1;

    main_thread = pthread_self();
    fill(a, (size_t)N * N, 1);
    fill(b, (size_t)N * N, 2);
    printf("at first: %ld wrong\n", product_errors(400, 3));
    if (strcmp(mode, "truncated") == 0) {
        truncated(a, b, c);
    } else if (strcmp(mode, "key") == 0) {
        key(a, b, c);
    } else if (strcmp(mode, "tracked") == 0) {
        interfered(a, b, c, PROT_READ, (char *)c);
    } else {
        interfered(a, b, c, PROT_NONE, (char *)a);
    }
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    printf("can be cancelled: %d\n", state == PTHREAD_CANCEL_ENABLE);
    printf("at last: %ld wrong\n", product_errors(400, 4));
    return 0;
}
