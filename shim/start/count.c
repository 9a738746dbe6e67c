/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and times declined calls, for --report. These are the many and small
 * ones, so nothing of the vector state is saved around this code: it is built
 * for general registers only, and asks the kernel's vDSO for the time, which is
 * built so too, not libc or whoever stands before it.
 */
#include "config.h"

#include <sys/syscall.h>
#include <time.h>

#pragma GCC target("general-regs-only")
#include "shim/calls/object.h"
#include "shim/calls/shim.h"

typedef int clock_function(clockid_t clock, struct timespec *out);

static int
ask_kernel(clockid_t clock, struct timespec *out)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_clock_gettime), "D"((long)clock), "S"(out)
                     : "rcx", "r11", "memory");
    return (int)result;
}

static clock_function *clock_now = ask_kernel;

static int
find_vdso(const struct fy_object *object, void *closure)
{
    static const char name[] = "linux-vdso.so";
    for (unsigned i = 0; i < sizeof name - 1; i++) {
        if (object->name[i] != name[i]) {
            return 0;
        }
    }
    const ElfW(Sym) *symbol = fy_object_symbol(object, "__vdso_clock_gettime");
    if (symbol) {
        *(void **)closure = fy_object_address(object, symbol);
    }
    return 1;
}

void
fy_count_start(void)
{
    void *found = NULL;
    unsigned n = 0;
    const struct fy_object *objects = fy_object_startup(&n);
    for (unsigned i = 0; objects && i < n && !found; i++) {
        (void)find_vdso(&objects[i], &found);
    }
    if (found) {
        clock_now = (clock_function *)found;
    }
}

uint64_t
fy_now_ns(void)
{
    struct timespec now = {0, 0};
    clock_now(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct fy_record_row *
row_of(const struct fy_frame *frame)
{
    const struct fy_symbol *symbols =
        FY_TABLE(fy_shim_model(), fy_symbol, symbols);
    return &fy_record_mapped->rows[symbols[frame->u.binding->symbol].function];
}

int64_t
fy_count_declined(struct fy_frame *frame)
{
    struct fy_record_row *row = row_of(frame);
    FY_RECORD_ADD(row->calls, 1);
    if (fy_inside) { /* its time is part of the outer call's */
        FY_RECORD_ADD(row->declined[FY_REASON_NESTED], 1);
        return -1;
    }
    FY_RECORD_ADD(row->declined[FY_REASON_TOO_SMALL], 1);
    frame->start_ns = fy_now_ns();
    return FY_IMAGE_TABLE(const struct fy_thunk_info,
                          info)[frame->u.binding->symbol]
        .stack_words;
}

void
fy_count_time(const struct fy_frame *frame)
{
    FY_RECORD_ADD(row_of(frame)->original_ns, fy_now_ns() - frame->start_ns);
}
