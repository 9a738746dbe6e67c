/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outside of libferry-engine.so, dlopened by the preloaded shim at the
 * first call that passes its predicate. One entry point hands over a table;
 * the first member of both tables is their size, so that either side may be
 * newer. No function here may exit, print uninvited or change errno.
 */
#ifndef FERRY_PAGER_ENGINE_ENGINE_H
#define FERRY_PAGER_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "annotations/model/model.h"
#include "common/status.h"

/* The registers and stack of an intercepted call, SysV x86-64 order. */
struct fy_registers {
    uint64_t integer[6];        /* rdi rsi rdx rcx r8 r9 */
    double vector[8][2];        /* low 16 bytes of xmm0-7 */
    const uint64_t *stack;      /* first stack argument */
    uint64_t result[2];         /* rax, rdx on return */
    double vector_result[2][2]; /* xmm0, xmm1 on return */
};

enum {
    FY_OWN_BLOCK_BYTES = 256
};

struct fy_intercepted {
    uint32_t symbol;   /* row of model->symbols */
    uint32_t function; /* first variant, row of model->functions */
    void *original;    /* resolved in the caller's scope */
    void *caller;      /* return address */
    struct fy_registers *registers;
};

/* Services of the shim for the engine. */
struct fy_shim_services {
    size_t size_bytes;
    const struct fy_model *model;
    const char *settings; /* the FERRY_SETTINGS text, or "" */
    /*
     * A function of the same library (provider) that `original' belongs to, by
     * exported name and never one of our thunks; NULL when there is none.
     */
    void *(*sibling)(void *original, const char *name);
    /*
     * For a call that cannot be declined before: from here on the program's handlers
     * and cancellation wait, and what this thread calls goes to originals, until
     * call() (or compare(), after FY_REASON_VERIFIED) has returned. False: the thread
     * is in a handler of the program, which may have interrupted anything, or is a
     * vfork child's, with which threads of the engine would end. call() then returns
     * FY_REASON_IN_HANDLER. A second time for one call: nothing happens.
     */
    bool (*hold)(const struct fy_intercepted *call);
    /* Marks the calling thread as inside ferry (+1) or outside again (-1). */
    void (*enter)(int delta);
    struct fy_record *record; /* shared counters, or NULL */
    /* The calling thread is the main one, of a child that was just forked. */
    void (*main_thread)(void);
    /*
     * FY_OWN_BLOCK_BYTES of the calling thread's, zeros at first, at a multiple of
     * 16: thread-local memory that was there when the thread began, so neither
     * malloc nor the little that glibc keeps for libraries with static TLS, which
     * those that the program opens later may need.
     */
    void *(*own_block)(void);
};

struct fy_engine {
    size_t size_bytes;
    /*
     * Runs the call on the device. FY_REASON_NONE: done, registers->result
     * holds the result of the original. Anything else: nothing has happened
     * (or it was undone); the shim calls the original with the untouched
     * registers. Until the engine asks to hold(), handlers of the program may
     * run, call it again and leave it for ever: so far it takes no lock but
     * those of base/brief.h, allocates nothing and makes no system call,
     * because a filter of the program might not let it survive.
     */
    enum fy_reason (*call)(const struct fy_intercepted *call);
    /* After the original of a FY_FN_MAKES or FY_FN_FREES function returned. */
    void (*observe)(const struct fy_intercepted *call);
    /*
     * Releases the resources that call() holds, when a C++ exception unwinds
     * out of it on this thread. Unwinding only; outputs are untouched.
     */
    void (*abandon)(void);
    /* Libraries were unloaded: forgets everything that is known by address. */
    void (*forget)(void);
    /*
     * After call() has answered FY_REASON_VERIFIED and the original has
     * returned, on the same thread: the reason to count instead.
     */
    enum fy_reason (*compare)(const struct fy_intercepted *call);
    /* After call() has answered FY_REASON_UNPROFITABLE and the original has
     * returned, on the same thread: how long it took. */
    void (*ran)(uint64_t nanoseconds);
    /* The program is about to dlopen() that. */
    void (*loading)(const char *file);
    /* No debug log from here on: the program's filter of system calls may end it for
     * one. Any thread, signal handlers. */
    void (*silence)(void);
    /* Ends the threads that wait for work, where the device has some that can be ended;
     * the next call starts others. Not in a handler. */
    void (*end_threads)(void);
    /*
     * The kernel has refused the program's mremap(2) with EFAULT: does it where it was
     * refused because operands are watched. MAP_FAILED with errno. Any thread, also in
     * a handler and in a forked child.
     */
    void *(*remap)(void *old, size_t old_bytes, size_t new_bytes, int flags,
                   void *to);
    /* The program makes a userfaultfd, to which no watched memory can be registered:
     * watches nothing from here on. Not in a handler. */
    void (*unwatch)(void);
};

/* Returns borrowed, valid for the life of the process; NULL on failure. */
typedef const struct fy_engine *
fy_engine_start_fn(const struct fy_shim_services *services);
fy_engine_start_fn fy_engine_start;

#endif
