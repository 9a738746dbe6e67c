/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that call and write at the same time, in rounds; between two rounds every
 * product is checked. `racing MODE ROUNDS THREADS':
 *   shared   all read the same inputs, which change between the rounds
 *   beside   results side by side, in whose pages another thread writes meanwhile
 *   rows     each computes some rows of one matrix, which is the next round's input
 *   late     an input is written while it is copied: the next product must see that
 *   ends     inputs that share a page, which a thread writes while both are in use
 *   away     pages are unmapped, moved, given back and forked while others compute
 * Numbers are whole and the writes the program's own, so each final product is exact.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exact.h"

enum {
    N = 136, /* 144.5 KiB, no whole pages */
    COUNT = N * N,
    PAGE = 4096,
    BYTES = (COUNT * 8 + PAGE - 1) / PAGE * PAGE,
    MOST_THREADS = 8,
    PATIENCE_SECONDS = 300, /* a deadlock ends the program */
};

typedef void act(unsigned thread);

static unsigned threads, rounds, round_now;
static unsigned long wrong;
static pthread_barrier_t gate;
static double *a, *b, *c, *victim;
static double *results[MOST_THREADS]; /* of each thread, side by side */

static double *
map(void)
{
    double *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        exit(1);
    }
    return at;
}

/* C := A B for m rows of A and C. */
static void
multiply(const double *left, const double *right, double *to, integer m)
{
    const double one = 1, zero = 0;
    const integer n = N;
    dgemm_("N", "N", &m, &n, &n, &one, left, &n, right, &n, &zero, to, &n);
}

static void
check(const double *left, const double *right, const double *is)
{
    wrong += exact_errors(left, right, is, NULL, 0, N, N, N, N, round_now) != 0;
}

/* A product that nothing disturbs: whatever was changed before must be seen. */
static void
look(const double *left, const double *right)
{
    multiply(left, right, c, N);
    check(left, right, c);
}

/* Writes every 37th number, always the same ones for a round. */
static void
write_some(double *at, size_t count, unsigned round)
{
    for (size_t i = 0; i < count; i += 37) {
        ((volatile double *)at)[i] = (double)((i + round) % 5);
    }
}

/* ---- modes: what a thread does in a round, and what the first one does then ---------- */

static void
act_shared(unsigned t)
{
    multiply(a, b, results[t], N);
}

static void
end_shared(unsigned t)
{
    (void)t;
    for (unsigned i = 0; i < threads; i++) {
        check(a, b, results[i]);
        look(results[i], b);
    }
    a[round_now * 7 % COUNT]++;
}

/* The number between two results, which the thread before writes. */
static double *
between(unsigned t)
{
    return results[t] + COUNT;
}

static void
act_beside(unsigned t)
{
    double *gap = between((t + 1) % threads);
    *(volatile double *)gap += 1;
    multiply(a, b, results[t], N);
    *(volatile double *)gap += 1;
}

static void
end_beside(unsigned t)
{
    (void)t;
    for (unsigned i = 0; i < threads; i++) {
        check(a, b, results[i]);
        look(results[i] + 1, b); /* the gap is a part of this one */
        wrong += *between(i) != 2 * (round_now + 1);
    }
    b[round_now * 5 % COUNT]++;
}

static unsigned
first_row(unsigned t)
{
    return N * t / threads;
}

static void
act_rows(unsigned t)
{
    unsigned first = first_row(t);
    multiply(a + first, b, victim + first, (integer)(first_row(t + 1) - first));
}

static void
end_rows(unsigned t)
{
    (void)t;
    check(a, b, victim);
    look(victim, b);
    victim[round_now * 3 % COUNT] = 0;
    look(victim, b);
    a[round_now * 11 % COUNT]--;
}

/* Half of the pages are written: what is written whole is soon watched no longer. */
static void
act_late(unsigned t)
{
    if (t == 0 && threads > 1) {
        for (volatile unsigned i = 0; i < round_now * 997 % 200000; i++) {
            /* at another moment of the call in each round */
        }
        write_some(victim, COUNT / 2, round_now + 2);
    } else {
        multiply(victim, b, results[t], N); /* of either */
    }
}

static void
end_late(unsigned t)
{
    (void)t;
    if (round_now % 2 != 0) { /* as it was before it was copied */
        write_some(victim, COUNT / 2, round_now);
    }
    look(victim, b);
    look(b, victim);
    write_some(victim, COUNT / 2, round_now + 1); /* so it is copied again */
}

static void
act_ends(unsigned t)
{
    if (t == 0) {
        write_some(results[0] + COUNT - 40, 80,
                   round_now); /* and between the two */
    } else {
        multiply(results[t % 2], b, t < 2 ? c : results[t], N);
    }
}

static void
end_ends(unsigned t)
{
    (void)t;
    look(results[0], b);
    look(results[1], b);
    look(b, results[0] + 40); /* a part of both */
}

static void
act_away(unsigned t)
{
    const int own = MAP_PRIVATE | MAP_ANONYMOUS;
    char *page = (char *)victim + PAGE * (round_now % 30);
    int status;

    if (t > 0) {
        multiply(a, b, results[t], N);
        return;
    }
    switch (round_now % 5) {
    case 0:
        (void)syscall(SYS_madvise, page, 3 * PAGE, MADV_DONTNEED);
        break;
    case 1: /* unmapped, and another mapping */
        (void)syscall(SYS_mmap, page, 2 * PAGE, PROT_READ | PROT_WRITE,
                      own | MAP_FIXED, -1, 0);
        break;
    case 2: { /* a new one at its address */
        double *other = map();
        memcpy(other, victim, BYTES);
        write_some(other, COUNT, round_now);
        if (syscall(SYS_mremap, other, BYTES, BYTES,
                    MREMAP_MAYMOVE | MREMAP_FIXED, victim) == -1) {
            exit(1);
        }
        break;
    }
    case 3: {
        pid_t child = (pid_t)syscall(SYS_fork);
        if (child == 0) {
            write_some(victim, COUNT,
                       round_now); /* the parent does not have this */
            _exit(a[0] != ((volatile double *)a)[0]);
        }
        write_some(victim, 400, round_now);
        (void)waitpid(child, &status, 0);
        wrong += child < 0 || status != 0;
        break;
    }
    default:
        write_some(victim, COUNT, round_now);
    }
}

static void
end_away(unsigned t)
{
    (void)t;
    look(victim, b);
    look(a, victim);
    for (unsigned i = 1; i < threads; i++) {
        check(a, b, results[i]);
    }
}

static const struct {
    const char *name;
    act *each, *end;
} modes[] = {
    {"shared", act_shared, end_shared}, {"beside", act_beside, end_beside},
    {"rows", act_rows, end_rows},       {"late", act_late, end_late},
    {"ends", act_ends, end_ends},       {"away", act_away, end_away},
};

static unsigned mode;

static void *
run(void *number)
{
    const unsigned t = (unsigned)(uintptr_t)number;
    for (unsigned i = 0; i < rounds; i++) {
        (void)pthread_barrier_wait(&gate);
        modes[mode].each(t);
        (void)pthread_barrier_wait(&gate);
        if (t == 0) {
            modes[mode].end(0);
            round_now++;
        }
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    pthread_t others[MOST_THREADS];

    (void)alarm(PATIENCE_SECONDS);
    rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    threads = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    while (argc > 1 && mode < sizeof(modes) / sizeof(modes[0]) &&
           strcmp(modes[mode].name, argv[1]) != 0) {
        mode++;
    }
    if (mode == sizeof(modes) / sizeof(modes[0]) || threads < 1 ||
        threads > MOST_THREADS) {
        return 1;
    }
    double *all = calloc(MOST_THREADS * (COUNT + 1), sizeof(double));
    (void)pthread_barrier_init(&gate, NULL, threads);
    for (unsigned t = 0; t < MOST_THREADS; t++) {
        results[t] = all + t * (COUNT + 1);
    }
    a = map();
    b = map();
    c = map();
    victim = map();
    fill(a, COUNT, 1);
    fill(b, COUNT, 2);
    fill(victim, COUNT, 3);
    fill(results[0], COUNT, 4);
    fill(results[1], COUNT, 5);
    for (uintptr_t t = 1; t < threads; t++) {
        if (pthread_create(&others[t], NULL, run, (void *)t) != 0) {
            return 1;
        }
    }
    (void)run(NULL);
    for (unsigned t = 1; t < threads; t++) {
        (void)pthread_join(others[t], NULL);
    }
    printf("%lu wrong\n", wrong);
    return wrong != 0;
}
