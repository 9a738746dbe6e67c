/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes through the preload object one instruction after the other and unwinds
 * at each to the function that began: steps ACTION [FILE]. Built for one of
 * three unwinders. Prints what is the same without ferry; what an unwinder did
 * not come through goes to stderr, and the status is 1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef WITH_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#else
#include <unwind.h>
#endif

#include "provider.h"

enum {
    FRAMES = 64,
    /*
     * Every so many steps outside of the preload object. Not with libunwind: it
     * waits for a lock of the dynamic linker, which may be half taken there.
     */
#ifdef WITH_LIBUNWIND
    ELSEWHERE = 0,
#else
    ELSEWHERE = 211,
#endif
};

#define BEGINS __attribute__((noinline, section("begins")))
extern char __start_begins[], __stop_begins[];

static uintptr_t low, high;
static volatile long steps, inside, lost;
static long every = 1; /* of the instructions inside that are unwound from */

static int
is_begin(uintptr_t address)
{
    return address >= (uintptr_t)__start_begins &&
           address < (uintptr_t)__stop_begins;
}

#ifdef WITH_LIBUNWIND
static int
connections(ucontext_t *context)
{
    unw_cursor_t cursor;
    unw_word_t at = 0;
    if (unw_init_local2(&cursor, context, UNW_INIT_SIGNAL_FRAME) != 0) {
        return 0;
    }
    for (int i = 0; i < FRAMES; i++) {
        unw_get_reg(&cursor, UNW_REG_IP, &at);
        if (is_begin(at)) {
            return 1;
        }
        if (unw_step(&cursor) <= 0) {
            return 0;
        }
    }
    return 0;
}
#elif defined WITH_BACKTRACE
static int
connections(ucontext_t *context)
{
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);
    (void)context;
    for (int i = 0; i < count; i++) {
        if (is_begin((uintptr_t)frames[i])) {
            return 1;
        }
    }
    return 0;
}
#else
static _Unwind_Reason_Code
look(struct _Unwind_Context *context, void *found)
{
    int *out = found;
    *out = is_begin(_Unwind_GetIP(context));
    return *out ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static int
connections(ucontext_t *context)
{
    int found = 0;
    (void)context;
    _Unwind_Backtrace(look, &found);
    return found;
}
#endif

static void
step(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;
    uintptr_t ip = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
    int ours = ip >= low && ip < high;
    (void)number;
    (void)info;
    steps++;
    inside += ours;
    if (ours ? inside % every != 0
             : ELSEWHERE == 0 || steps % (ELSEWHERE + !ELSEWHERE)) {
        return;
    }
    if (!connections(at) && ours) {
        if (lost++ < 8) {
            fprintf(stderr, "not through from +0x%lx\n",
                    (unsigned long)(ip - low));
        }
    }
}

static void
stepping(int on)
{
    if (on) {
        __asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" ::
                             : "memory", "cc");
    } else {
        __asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" ::
                             : "memory", "cc");
    }
}

/* The object that contains an address. */
static int
find(struct dl_phdr_info *info, size_t bytes, void *closure)
{
    uintptr_t from = UINTPTR_MAX, to = 0;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD) {
            from = start < from ? start : from;
            to = start + segment->p_memsz > to ? start + segment->p_memsz : to;
        }
    }
    if ((uintptr_t)closure < from || (uintptr_t)closure >= to) {
        return 0;
    }
    low = from;
    high = to;
    return 1;
}

BEGINS static int
calls(void)
{
    int sum;
    stepping(1);
    sum = work(5) + work(2000) + work_ifunc(7) + sum_varargs(2, 1, 2.0) +
          work_seven(1, 2, 3, 4, 5, 6) + set_error(3);
    stepping(0);
    return sum;
}

BEGINS static int
open_and_ask(const char *file)
{
    int (*function)(int), result;
    stepping(1);
    void *handle = dlopen(file, RTLD_NOW);
    function = handle ? (int (*)(int))dlsym(handle, "work") : NULL;
    result = function ? function(3) : -1;
    function = (int (*)(int))dlsym(RTLD_DEFAULT, "work");
    result += function ? function(4) : -1;
    if (handle) {
        dlclose(handle);
    }
    stepping(0);
    return result;
}

int
main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    const char *tier = getenv("FERRY_TEST_TIER");
    if (argc < 2) {
        return 2;
    }
    every = tier && strcmp(tier, "edit") == 0 ? 7 : 1;
    void *frames[2];
    backtrace(frames, 2); /* loads what it needs */
    void *image = dlsym(RTLD_DEFAULT, "ferry_image");
    dl_iterate_phdr(find, image);
    if (sigaction(SIGTRAP, &action, NULL)) {
        return 2;
    }
    if (strcmp(argv[1], "calls") == 0) {
        printf("%d\n", calls());
        printf("%d\n", calls()); /* the engine is there */
    } else {
        printf("%d\n", open_and_ask(argv[2]));
    }
    if (getenv("STEPS")) {
        fprintf(stderr, "%ld steps, %ld inside, %ld lost\n", steps, inside,
                lost);
    }
    return lost != 0 || (image && inside == 0);
}
