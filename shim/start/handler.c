/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is this thread inside a signal handler? It may have interrupted malloc or the
 * dynamic linker, which the engine needs, so a call from there gets its original.
 * Nobody keeps a record of that: a handler shows by the kernel's frame on the
 * stack, which begins with the address that the handler returns to. An old frame
 * may lie in a buffer that nobody has filled; so a signal with a handler must also
 * be blocked, or have one that does not block it (SA_NODEFER). A doubtful case
 * counts as a handler.
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "shim/calls/object.h"
#include "shim/calls/shim.h"

enum {
    SIGNALS = 64,
    BLOCK_WORDS = 512,
    SCAN_BYTES = 256 << 10, /* of the handler's own frames are looked through */
};

struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void *restorer;
    uint64_t mask;
};

static bool
handler_of(int number, struct kernel_action *out)
{
    return syscall(SYS_rt_sigaction, number, NULL, out, sizeof out->mask) ==
               0 &&
           out->handler != SIG_DFL && out->handler != SIG_IGN && out->restorer;
}

/* Returns the address that the handler of a blocked signal returns to; NULL:
 * no such signal has a handler. */
static void *
restorer_of(uint64_t blocked)
{
    struct kernel_action action;
    for (int number = 1; number <= SIGNALS; number++) {
        if ((blocked >> (number - 1) & 1) && handler_of(number, &action)) {
            return action.restorer; /* libc has one for all of them */
        }
    }
    return NULL;
}

static bool
any_is_not_deferred(void)
{
    struct kernel_action action;
    for (int number = 1; number <= SIGNALS; number++) {
        if (handler_of(number, &action) && (action.flags & SA_NODEFER)) {
            return true;
        }
    }
    return false;
}

/* libc's one address that handlers return to, by its code; NULL: not found. */
static void *
libc_restorer(void)
{
    static const unsigned char code[] = {
        0x48, 0xc7, 0xc0, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05};
    static void *known;
    void *found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    struct fy_object object;
    uintptr_t low, high;
    const void *libc = (const void *)(uintptr_t)fy_libc_find()->dlsym;
    if (found) {
        return found == MAP_FAILED ? NULL : found;
    }
    if (libc && fy_object_at(libc, &object) == 0 &&
        fy_object_code(&object, libc, &low, &high)) {
        found = memmem((const void *)low, high - low, code, sizeof code);
    }
    __atomic_store_n(&known, found ? found : MAP_FAILED, __ATOMIC_RELAXED);
    return found;
}

char *
fy_main_stack_end(void)
{
    static void **known; /* the dynamic linker's variable, which says it */
    void **at = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!at) {
        at = fy_scope_startup("__libc_stack_end");
        __atomic_store_n(&known, at, __ATOMIC_RELAXED);
    }
    return at ? *at : NULL;
}

/*
 * Returns true if the word lies on the stack above `at', as far as that goes:
 * to the end of the main thread's, or to another's control block, which glibc
 * puts there. By the kernel, because a coroutine's may end anywhere. If the
 * kernel does not answer, true.
 */
static bool
is_on_stack(const void *word, char *at)
{
    char *ends[] = {fy_main_stack_end(), (char *)(uintptr_t)pthread_self()};
    char *end = at + SCAN_BYTES;
    void *block[BLOCK_WORDS];
    long n = sizeof block, self = gettid();
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
        end = at < ends[i] && ends[i] < end ? ends[i] : end;
    }
    for (bool first = true; at < end && n == sizeof block; first = false) {
        size_t bytes = (size_t)(end - at);
        struct iovec to = {.iov_base = block, .iov_len = sizeof block};
        struct iovec from = {.iov_base = at, .iov_len = bytes};
        from.iov_len = bytes < sizeof block ? bytes : sizeof block;
        n = syscall(SYS_process_vm_readv, self, &to, 1, &from, 1, 0);
        if (n < 0 && first) {
            return true;
        }
        for (long i = 0; i < n / (long)sizeof *block; i++) {
            if (block[i] == word) {
                return true;
            }
        }
        at += sizeof block;
    }
    return false;
}

/* glibc's record of the thread has its number, and only a vfork child's is another's:
 * fork and pthread_create store the new one. */
bool
fy_is_vfork_child(void)
{
    clockid_t clock; /* ~number << 3 | kind, timer_create(2) of the kernel */
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 &&
           (pid_t) ~(clock >> 3) != gettid();
}

bool
fy_in_handler(const void *stack)
{
    uint64_t blocked = 0;
    char *at = (char *)(uintptr_t)stack;
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &blocked,
                sizeof blocked) != 0) {
        return false;
    }
    void *restorer = blocked ? restorer_of(blocked) : NULL;
    if (restorer && is_on_stack(restorer, at)) {
        return true;
    }
    restorer = libc_restorer();
    return restorer && is_on_stack(restorer, at) && any_is_not_deferred();
}
