/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unshare(2) and setns(2), by name or by number: the kernel refuses some changes to a
 * process with several threads. Ferry's end first, where they can be ended; the next
 * offloaded call starts others.
 */
#include "config.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "shim/arch/x86_64/raw.h"
#include "shim/programs/exec.h"

enum {
    ALONE_LINKS =
        3, /* of /proc/self/task: two of any folder, one for a thread */
    JOINED_NS = 1000 * 1000,
    JOINED_TRIES = 3, /* without a change: the kernel may still count joined
                       * threads; the others are the program's */
};

typedef int change_fn(int, ...);

/* Returns the number of links in /proc/self/task; 0: not known. */
static unsigned long
count_links(void)
{
    struct stat threads;
    return fy_raw(SYS_stat, (long)"/proc/self/task", (long)&threads, 0, 0, 0,
                  0) == 0
               ? threads.st_nlink
               : 0;
}

/* Ends ferry's threads, and waits until the kernel counts them no more. */
static void
leave_alone(void)
{
    struct timespec step = {0, JOINED_NS};
    unsigned long before = count_links();
    if (before <= ALONE_LINKS || !fy_engine_is_settled()) {
        return;
    }
    fy_engine_end_threads();
    unsigned long now = count_links();
    for (int i = 0; i < JOINED_TRIES && now > ALONE_LINKS; i++) {
        (void)fy_raw(SYS_nanosleep, (long)&step, 0, 0, 0, 0, 0);
        before = now;
        now = count_links();
        i = now < before ? 0 : i;
    }
}

static bool
needs_one_thread(long flags)
{
    return flags & (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM);
}

/* For type 0 the descriptor is not asked. */
static bool
enters_alone(long type)
{
    return type == 0 ||
           type & (CLONE_NEWUSER | CLONE_NEWNS | 0x80 /* CLONE_NEWTIME */);
}

__attribute__((visibility("default"))) int
unshare(int flags)
{
    change_fn *original = FY_ORIGINAL(change_fn, FY_UNSHARE);
    if (needs_one_thread(flags)) {
        leave_alone();
    }
    return original(flags);
}

__attribute__((visibility("default"))) int
setns(int fd, int type)
{
    change_fn *original = FY_ORIGINAL(change_fn, FY_SETNS);
    if (enters_alone(type)) {
        leave_alone();
    }
    return original(fd, type);
}

long
fy_syscall_alone(long number, long a, long b, long c, long d, long e)
{
    if (number == SYS_setns ? enters_alone((int)b) : needs_one_thread(a)) {
        leave_alone();
    }
    return FY_ORIGINAL(fy_syscall_fn, FY_SYSCALL)(number, a, b, c, d, e);
}
