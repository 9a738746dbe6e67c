/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock for statistics that is taken where the program's signal handlers may
 * run: no thread ever waits for it. A holder may be interrupted by a handler that
 * calls again, that forks, or that leaves by siglongjmp and so never gives the
 * lock back. Taking therefore fails after some ten microseconds, and a lock that
 * stays with one holder while PATIENCE others were refused is taken over. Hence
 * what it protects must stay memory-safe when two threads write it at once.
 * No system call. Any thread, any handler; a forked child resets it.
 */
#ifndef FERRY_PAGER_BASE_BRIEF_H
#define FERRY_PAGER_BASE_BRIEF_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FY_BRIEF_SPINS = 200,
    FY_BRIEF_PATIENCE = 64,
};

/* Zeros: free. */
struct fy_brief {
    uint32_t word; /* odd: held; counts, so that each holding has its number */
    uint32_t refused_by, refused; /* that holding, and how often */
};

/* True: held, until fy_brief_give(lock, *out_holding). */
static inline bool
fy_brief_take(struct fy_brief *lock, uint32_t *out_holding)
{
    uint32_t seen = 0;

    for (unsigned i = 0; i < FY_BRIEF_SPINS; i++) {
        seen = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
        if (seen % 2 == 0 &&
            __atomic_compare_exchange_n(&lock->word, &seen, seen + 1, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            *out_holding = seen + 1;
            return true;
        }
        __builtin_ia32_pause();
    }
    if (seen % 2 == 0) {
        return false;
    }
    if (__atomic_exchange_n(&lock->refused_by, seen, __ATOMIC_RELAXED) !=
        seen) {
        __atomic_store_n(&lock->refused, 0, __ATOMIC_RELAXED);
    }
    *out_holding = seen + 2;
    return __atomic_add_fetch(&lock->refused, 1, __ATOMIC_RELAXED) >=
               FY_BRIEF_PATIENCE &&
           __atomic_compare_exchange_n(&lock->word, &seen, seen + 2, false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Nothing happens where another has taken it over. */
static inline void
fy_brief_give(struct fy_brief *lock, uint32_t holding)
{
    (void)__atomic_compare_exchange_n(&lock->word, &holding, holding + 1, false,
                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

#endif
