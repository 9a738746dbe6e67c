/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for libferry-engine.so in the tests of shim/. It appends one line
 * per call to the file of the `explain' setting, and "offloads" functions
 * whose name begins with "work" by calling the original with the six integer
 * registers, as their signature allows. All others it declines, after dirtying
 * every register that it may. All that it does leaves an error of dlopen().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pager/engine/engine.h"

static const struct fy_shim_services *services;
static char path[4096];

static const char *
name_of(const struct fy_intercepted *call)
{
    const struct fy_symbol *symbols =
        FY_TABLE(services->model, fy_symbol, symbols);
    return fy_model_string(services->model, symbols[call->symbol].name);
}

static void
note(const char *verb, const struct fy_intercepted *call)
{
    char line[256];
    int bytes = snprintf(line, sizeof line, "%s %s\n", verb, name_of(call));
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0) {
        if (write(file, line, (size_t)bytes) != bytes) {
            _exit(99);
        }
        close(file);
    }
}

/* Leaves nothing in the vector registers that a caller might expect there. */
static void
dirty(void)
{
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n\tpcmpeqd %%xmm1, %%xmm1\n\t"
                     "pcmpeqd %%xmm2, %%xmm2\n\tpcmpeqd %%xmm7, %%xmm7\n\t"
                     "pcmpeqd %%xmm15, %%xmm15" ::
                         : "xmm0", "xmm1", "xmm2", "xmm7", "xmm15");
    if (__builtin_cpu_supports("avx")) {
        __asm__ volatile("vzeroall" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
                               "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                               "xmm12", "xmm13", "xmm14", "xmm15");
    }
}

static enum fy_reason
call(const struct fy_intercepted *intercepted)
{
    if (!services->hold(intercepted)) {
        return FY_REASON_IN_HANDLER;
    }
    note("call", intercepted);
    (void)dlopen("/nonexistent/of-ferry.so", RTLD_NOW);
    if (strcmp(name_of(intercepted), "work_seven") == 0) {
        (void)dlsym(RTLD_DEFAULT, "malloc"); /* no error any more */
    }
    if (strncmp(name_of(intercepted), "work", 4) != 0) {
        dirty();
        return FY_REASON_UNSUPPORTED;
    }
    long (*original)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                     uint64_t) =
        (long (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                  uint64_t))intercepted->original;
    struct fy_registers *r = intercepted->registers;
    r->result[0] =
        (uint64_t)original(r->integer[0], r->integer[1], r->integer[2],
                           r->integer[3], r->integer[4], r->integer[5]);
    return FY_REASON_NONE;
}

static void
observe(const struct fy_intercepted *intercepted)
{
    char verb[64];
    snprintf(verb, sizeof verb, "observe(%llx)",
             (unsigned long long)intercepted->registers->result[0]);
    note(verb, intercepted);
    dirty();
}

const struct fy_engine *
fy_engine_start(const struct fy_shim_services *given)
{
    static const struct fy_engine table = {
        .size_bytes = sizeof table, .call = call, .observe = observe};
    services = given;
    (void)dlopen("/nonexistent/of-ferry.so", RTLD_NOW);
    const char *at = strstr(given->settings, "explain=");
    if (given->size_bytes < sizeof *given || !at ||
        pthread_atfork(NULL, NULL, given->main_thread) != 0) {
        return NULL;
    }
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at + 8, ";"), at + 8);
    return &table;
}
