/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that puts a seccomp filter upon itself may not live through a system call
 * that the program never makes. So when it does, by prctl(2) or by number, ferry
 * leaves every later call to its original, and asks the kernel nothing (fy_mode is
 * 0, see enter.S; bindings that are known are used, new ones where a table has room). Not
 * for filters that are inherited: a process that was started under one, as all in
 * containers are, is taken to live with ferry's start-up, too. A vfork child's filter is
 * not its parent's: of that only the stub has to know. Any thread, any handler.
 */
#include "config.h"

#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "common/debug.h"
#include "shim/arch/x86_64/raw.h"
#include "shim/programs/exec.h"

unsigned fy_filters;
static uint8_t mode_before; /* of the first of them */
static int filtered_child;  /* the last vfork child that did so; 0: none has */

bool
fy_filter_is_on(void)
{
    int child = __atomic_load_n(&filtered_child, __ATOMIC_RELAXED);
    return __atomic_load_n(&fy_filters, __ATOMIC_RELAXED) ||
           (child && child == fy_raw(SYS_getpid, 0, 0, 0, 0, 0, 0));
}

/* True for a vfork child: nothing else may change, all is its parent's. */
static bool
begin_child(void)
{
    if (__atomic_load_n(&fy_filters, __ATOMIC_RELAXED) ||
        !fy_is_vfork_child()) {
        return false;
    }
    __atomic_store_n(&filtered_child, (int)fy_raw(SYS_getpid, 0, 0, 0, 0, 0, 0),
                     __ATOMIC_RELAXED);
    return true;
}

/* Asks the engine nothing from now on. */
static void
begin(void)
{
    uint8_t mode = fy_mode;
    if (__atomic_fetch_add(&fy_filters, 1, __ATOMIC_SEQ_CST) == 0 && mode) {
        mode_before = mode; /* 0: another thread is just putting it back */
    }
    __atomic_store_n(&fy_mode, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fy_debug_mask, 0, __ATOMIC_RELAXED);
    fy_engine_silence();
}

/* There is no filter: programs ask in this way whether there could be one. */
static void
failed(void)
{
    if (__atomic_sub_fetch(&fy_filters, 1, __ATOMIC_SEQ_CST) == 0) {
        __atomic_store_n(&fy_mode, mode_before, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&fy_filters, __ATOMIC_SEQ_CST)) {
            __atomic_store_n(&fy_mode, 0, __ATOMIC_SEQ_CST);
        }
    }
}

long
fy_syscall_filter(long number, long a, long b, long c, long d, long e)
{
    fy_syscall_fn *original = FY_ORIGINAL(fy_syscall_fn, FY_SYSCALL);
    if (number == SYS_seccomp && a != SECCOMP_SET_MODE_STRICT &&
        a != SECCOMP_SET_MODE_FILTER) {
        return original(number, a, b, c, d, e);
    }
    if (begin_child()) {
        return original(number, a, b, c, d, e);
    }
    if (number == SYS_seccomp && (b & SECCOMP_FILTER_FLAG_TSYNC)) {
        fy_engine_end_threads(); /* the filter is for them, too */
    }
    begin();
    long result = original(number, a, b, c, d, e);
    if (result < 0) {
        failed();
    }
    return result;
}

/* As libc's, which reads the arguments whether there are so many or not. */
__attribute__((visibility("default"))) int
prctl(int option, unsigned long a, unsigned long b, unsigned long c,
      unsigned long d)
{
    fy_prctl_fn *original = FY_ORIGINAL(fy_prctl_fn, FY_PRCTL);
    if (option != PR_SET_SECCOMP || begin_child()) {
        return original(option, a, b, c, d);
    }
    begin();
    int result = original(option, a, b, c, d);
    if (result < 0) {
        failed();
    }
    return result;
}
