/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unshare(2) and setns(2), by name or by number: the kernel refuses some changes to a
 * process with several threads. Where all threads but the caller are ferry's, these end
 * first; the next offloaded call starts others.
 */
#include "config.h"

#include <sched.h>
#include <sys/syscall.h>

#include "shim/programs/exec.h"

typedef int change_fn(int, ...);

static bool
needs_one_thread(long flags)
{
    return flags & (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM);
}

/* Of type 0 the descriptor is not asked what it is of. */
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
        fy_last_leave_alone();
    }
    return original(flags);
}

__attribute__((visibility("default"))) int
setns(int fd, int type)
{
    change_fn *original = FY_ORIGINAL(change_fn, FY_SETNS);
    if (enters_alone(type)) {
        fy_last_leave_alone();
    }
    return original(fd, type);
}

long
fy_syscall_alone(long number, long a, long b, long c, long d, long e)
{
    if (number == SYS_setns ? enters_alone((int)b) : needs_one_thread(a)) {
        fy_last_leave_alone();
    }
    return FY_ORIGINAL(fy_syscall_fn, FY_SYSCALL)(number, a, b, c, d, e);
}
