/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is started under a small limit of the stack (`ulimit -s 64') is also
 * started by ferry, whose own frames would not fit: the command runs on memory that it
 * maps, its threads have as much. The limit stays as it is, for the program.
 */
#include "config.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include "tools/tool.h"

enum {
    AMPLE_BYTES = 1 << 20
};

/* makecontext(3) passes numbers only. */
static struct {
    fy_subcommand *run;
    int argc;
    char **argv;
    int status;
    ucontext_t before, ample;
} call;

static void
enter(void)
{
    call.status = call.run(call.argc, call.argv);
}

/* The lowest page is never touched: a program that needs more than all ends by SIGSEGV. */
static char *
map_stack(void)
{
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    char *low = mmap(NULL, guard + AMPLE_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (low == MAP_FAILED) {
        return NULL;
    }
    (void)mprotect(low, guard, PROT_NONE);
    return low + guard;
}

static void
make_threads_ample(void)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_setstacksize(&attributes, AMPLE_BYTES);
        (void)pthread_setattr_default_np(&attributes);
        (void)pthread_attr_destroy(&attributes);
    }
}

int
fy_run_ample(fy_subcommand *run, int argc, char **argv)
{
    struct rlimit limit;
    char *stack = NULL;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < AMPLE_BYTES) {
        make_threads_ample();
        stack = map_stack();
    }
    if (!stack || getcontext(&call.ample)) {
        return run(argc, argv);
    }
    call.run = run;
    call.argc = argc;
    call.argv = argv;
    call.ample.uc_stack.ss_sp = stack;
    call.ample.uc_stack.ss_size = AMPLE_BYTES;
    call.ample.uc_link = &call.before;
    makecontext(&call.ample, enter, 0);
    return swapcontext(&call.before, &call.ample) ? run(argc, argv)
                                                  : call.status;
}
