/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ferry's own threads in a host program. libc counts them, and ends a process by
 * itself only with its last thread: so those of the host device end when they have
 * had nothing to do for 100 ms. Those of a card stay.
 */
#ifndef FERRY_PAGER_DEVICE_OWN_THREAD_H
#define FERRY_PAGER_DEVICE_OWN_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>

#include "pager/base/pick.h"
#include "pager/engine/engine.h"

enum {
    FY_SETTLED = 4
};

/* The engine's state of each of the program's threads: zeros at first. */
struct fy_own_block {
    struct fy_declined {
        struct fy_learn_key key;
        struct fy_pick pick;
        double model;
        bool waiting;
    } declined; /* decide/choice.c: by the call whose original comes next */
    struct fy_settled settled[FY_SETTLED]; /* decide/choice.c */
    struct checked
        *checked;    /* verify/run_verify.c: a call that both sides compute */
    uint32_t raised; /* call.c: floating point exceptions of originals */
    bool of_cuda;    /* device/cuda/users.c: a thread of the CUDA device */
};

enum {
    FY_RAISED = 0x3f /* the exceptions in MXCSR */
};

/* MXCSR: control and exceptions of floating point. */
static inline uint32_t
fy_floating_point(void)
{
    uint32_t control;
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    return control;
}

static inline void
fy_set_floating_point(uint32_t control)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(control));
}

/* The calling thread's. No allocation, no lock. */
struct fy_own_block *fy_own_block(void);

/* Sets the services of the shim: memory of each thread, and who hears of a fork. Called
 * before the first thread starts. */
void fy_own_threads_tell(const struct fy_shim_services *services);

/*
 * Sets the processors that ferry's threads may use from now on: those that any
 * thread of the process may, and those of the places of OpenMP runtimes that
 * are loaded (OMP_PROC_BIND binds the first thread to one of them before there
 * are others). So the user's limits stay. The caller's own are not changed.
 * The loader must be free. Any thread.
 */
void fy_own_cpus_look(void);
/* Returns their number; before fy_own_cpus_look(), that of the caller's. */
unsigned fy_own_cpus(void);

/* First in each thread that ferry starts: has it run on those processors. */
void fy_own_thread_begins(void);

/*
 * Last in a thread that ends by itself when it is idle. If the main thread has ended,
 * libc may run the program's exit handlers on this thread, which gets the signal mask
 * `starters', of the thread that started it. If it has ended by exit(2) with a status, this
 * thread ends here with that: the last thread's is the process's.
 */
void fy_own_thread_ends(const sigset_t *starters);

/*
 * Starts a thread with all signals blocked and a stack of so many bytes. The stack is
 * libc's default if that is refused, because programs with much thread-local memory
 * refuse a small one, or if `stack_bytes' is 0. 0 or an errno value.
 */
int fy_own_thread_start(pthread_t *thread, size_t stack_bytes,
                        void *(*run)(void *), void *argument) FY_MUST_CHECK;

/*
 * New: a word that is this process's number, and 0 in each forked child. Read
 * without a lock. FY_ERR_NOMEM; FY_ERR_UNSUPPORTED: the kernel cannot mark memory so.
 */
int fy_own_process_new(const volatile unsigned **out) FY_MUST_CHECK;
/* Unmaps the word; no thread may read it any more. */
void fy_own_process_free(const volatile unsigned *word);

/* In a forked child: its only thread is the main one. */
void fy_own_threads_child(void);

#endif
