/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim's one lock. It guards the retired bindings, their pool, and the stores to
 * other objects' slots: a word on a page that a fork wipes in the child, so that a
 * holder which is not there is forgotten; a child that shares the memory (vfork,
 * CLONE_VM) sees it held.
 */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/calls/shim.h"

enum {
    MOST_TRIES = 1 << 20, /* some milliseconds */
};

static unsigned *lock_word;
static sigset_t holder_mask; /* of the thread that holds it, */
static bool holder_blocks;   /* where it has blocked signals */

/* NULL: no memory. */
static unsigned *
lock_page(void)
{
    unsigned *known = __atomic_load_n(&lock_word, __ATOMIC_ACQUIRE);
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (known) {
        return known;
    }
    unsigned *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(page, bytes, MADV_WIPEONFORK);
    if (__atomic_compare_exchange_n(&lock_word, &known, page, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return page;
    }
    munmap(page, bytes);
    return known;
}

/* Under a filter of system calls signals arrive, also a handler that comes here. */
static bool
lock_unmasked(unsigned *word)
{
    for (int i = 0; i < MOST_TRIES; i++) {
        if (!__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE)) {
            holder_blocks = false;
            return true;
        }
    }
    return false;
}

bool
fy_lock(void)
{
    sigset_t all, mask;
    if (__atomic_load_n(&fy_filters, __ATOMIC_RELAXED)) {
        unsigned *made = __atomic_load_n(&lock_word, __ATOMIC_ACQUIRE);
        return made && lock_unmasked(made);
    }
    int *error = &errno, saved = *error;
    unsigned *word = lock_page();
    *error = saved;
    if (!word) {
        return false;
    }
    sigfillset(&all);
    sigdelset(&all, SIGTRAP); /* a program that steps through itself */
    pthread_sigmask(SIG_BLOCK, &all, &mask);
    while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    holder_mask = mask;
    holder_blocks = true;
    return true;
}

void
fy_unlock(void)
{
    sigset_t mask = holder_mask;
    bool blocks = holder_blocks;
    __atomic_store_n(lock_word, 0, __ATOMIC_RELEASE);
    if (blocks) {
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
    }
}

bool
fy_lock_is_possible(void)
{
    return __atomic_load_n(&lock_word, __ATOMIC_ACQUIRE) ||
           (!__atomic_load_n(&fy_filters, __ATOMIC_RELAXED) && lock_page());
}
