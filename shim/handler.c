/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is this thread inside a signal handler? It may have interrupted malloc or the
 * dynamic linker, which the engine needs, so a call from there gets its original.
 * Nobody keeps a record of that: a handler shows by its signal being blocked, and
 * by the kernel's frame on the stack, which begins with the address that the
 * handler returns to. Both are asked for, so that a thread that merely blocks
 * signals is not taken for one; what is in doubt is.
 */
#include "config.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/shim.h"

enum {
    SIGNALS = 64,
    BLOCK_WORDS = 512,
    BLOCKS = 64, /* 256 KiB of the handler's own frames are looked through */
};

struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void *restorer;
    uint64_t mask;
};

/* Where the handler of a blocked signal returns to; NULL: none has one. */
static void *
restorer_of(uint64_t blocked)
{
    for (int number = 1; number <= SIGNALS; number++) {
        struct kernel_action action;
        if ((blocked >> (number - 1) & 1) &&
            syscall(SYS_rt_sigaction, number, NULL, &action,
                    sizeof action.mask) == 0 &&
            action.handler != SIG_DFL && action.handler != SIG_IGN &&
            action.restorer) {
            return action.restorer; /* libc has one for all of them */
        }
    }
    return NULL;
}

bool
fy_in_handler(const void *stack)
{
    uint64_t blocked = 0;
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &blocked,
                sizeof blocked) != 0 ||
        !blocked) {
        return false;
    }
    void *restorer = restorer_of(blocked);
    if (!restorer) {
        return false;
    }
    /* By the kernel: the stack may end anywhere. */
    void *block[BLOCK_WORDS];
    char *at = (char *)(uintptr_t)stack;
    for (int i = 0; i < BLOCKS; i++) {
        struct iovec to = {.iov_base = block, .iov_len = sizeof block};
        struct iovec from = {.iov_base = at, .iov_len = sizeof block};
        long n = syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0);
        if (n <= 0) {
            return i == 0; /* nobody lets us look; or the stack ends here */
        }
        for (long word = 0; word < n / (long)sizeof *block; word++) {
            if (block[word] == restorer) {
                return true;
            }
        }
        at += sizeof block;
    }
    return false;
}
