/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the engine at the first call that wants it, and maps the counters.
 * Both happen at most once in a process; a failure is final. A thread that
 * comes while another one loads waits for it, but not for ever: the other may
 * itself be waiting, in the dynamic linker, for the thread that we are.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/debug.h"
#include "shim/calls/object.h"
#include "shim/calls/shim.h"

enum state {
    UNTRIED,
    LOADING,
    READY,
    FAILED
};
_Static_assert(READY == FY_RECORD_READY, "layout.h");

enum {
    WAIT_STEP_NS = 200 * 1000,
    WAIT_STEPS = 5000, /* one second */
    PATH_BYTES = 4096,
};

static uint8_t engine_state;
FY_HIDDEN uint8_t fy_record_state; /* enter.S looks at it */
static const struct fy_engine *engine;
struct fy_record *fy_record_mapped;
static pid_t engine_loader;
static uintptr_t engine_low, engine_bytes; /* where its object lies */
static struct fy_shim_services services;

__thread int fy_inside __attribute__((tls_model("initial-exec")));

static void
enter(int delta)
{
    fy_inside += delta;
}

static void *
own_block(void)
{
    static __thread char block[FY_OWN_BLOCK_BYTES]
        __attribute__((tls_model("initial-exec"), aligned(16)));
    return block;
}

bool
fy_engine_has(const void *address)
{
    return (uintptr_t)address - engine_low < engine_bytes;
}

static const struct fy_engine *
load(void)
{
    static char path[PATH_BYTES]; /* runs once, maybe on a small stack */
    const struct fy_libc *libc = fy_libc_find();
    struct fy_object object;
    if (!fy_settings_value("engine", path, sizeof path) || !libc->dlopen ||
        !libc->dlsym) {
        return NULL;
    }
    uint64_t mark = fy_object_mark();
    void *volatile handle = libc->dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        return NULL;
    }
    fy_engine_start_fn *begin =
        (fy_engine_start_fn *)libc->dlsym(handle, "fy_engine_start");
    if (!begin) {
        return NULL;
    }
    services = (struct fy_shim_services){
        .size_bytes = sizeof services,
        .model = fy_shim_model(),
        .settings = fy_settings_text(),
        .sibling = fy_bind_sibling,
        .hold = fy_dispatch_hold,
        .enter = enter,
        .record = fy_record(),
        .main_thread = fy_stack_forked,
        .own_block = own_block,
    };
    if (fy_object_at((void *)(uintptr_t)begin, &object) == 0) {
        engine_low = object.low;
        engine_bytes = object.high - object.low;
        fy_imports_lead(&object, mark);
    }
    fy_count_start();
    const struct fy_engine *table = begin(&services);
    if (!table || table->size_bytes != sizeof *table) {
        return NULL;
    }
    return table;
}

/* True for the one caller who shall do the work. */
static bool
claim(uint8_t *state)
{
    uint8_t untried = UNTRIED;
    return __atomic_compare_exchange_n(state, &untried, LOADING, false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE);
}

/* The engine, once the loading thread has said that it is there. */
static const struct fy_engine *
published(void)
{
    fy_watched_acquire(&engine_state);
    return engine;
}

/* And may be told: a filter may refuse the engine's system calls. */
static bool
is_ready(void)
{
    return __atomic_load_n(&engine_state, __ATOMIC_ACQUIRE) == READY &&
           !__atomic_load_n(&fy_filters, __ATOMIC_RELAXED);
}

bool
fy_engine_is_settled(void)
{
    uint8_t known = __atomic_load_n(&engine_state, __ATOMIC_ACQUIRE);
    return known == READY || known == FAILED;
}

/*
 * Around messages to the engine outside of calls: it takes locks, so no handler
 * of the program runs meanwhile, and its own calls are not looked at.
 */
static void
tell_begin(struct fy_quiet *quiet)
{
    fy_quiet_begin(quiet);
    fy_inside++;
}

static void
tell_end(const struct fy_quiet *quiet)
{
    fy_inside--;
    fy_quiet_end(quiet);
}

void
fy_engine_forget(void)
{
    int *error = &errno, saved = *error;
    struct fy_quiet quiet;

    if (is_ready() && published()->forget) {
        tell_begin(&quiet);
        published()->forget();
        tell_end(&quiet);
    }
    *error = saved;
}

void
fy_engine_loading(const char *file)
{
    int *error = &errno, saved = *error;
    struct fy_quiet quiet;

    if (fy_inside == 0 && is_ready() && published()->loading) {
        tell_begin(&quiet);
        published()->loading(file);
        tell_end(&quiet);
    }
    *error = saved;
}

void
fy_engine_silence(void)
{
    if (__atomic_load_n(&engine_state, __ATOMIC_ACQUIRE) == READY &&
        published()->silence) {
        published()->silence();
    }
}

/* False in a handler, which may have interrupted code that the engine needs. */
static bool
tells(void)
{
    return is_ready() && !fy_inside &&
           !fy_in_handler(__builtin_frame_address(0));
}

void
fy_engine_end_threads(void)
{
    int *error = &errno, saved = *error;
    struct fy_quiet quiet;

    if (tells() && published()->end_threads) {
        tell_begin(&quiet);
        published()->end_threads();
        tell_end(&quiet);
    }
    *error = saved;
}

void
fy_engine_unwatch(void)
{
    int *error = &errno, saved = *error;
    struct fy_quiet quiet;

    if (tells()) {
        tell_begin(&quiet);
        published()->unwatch();
        tell_end(&quiet);
    }
    *error = saved;
}

void *
fy_engine_remap(void *old, size_t old_bytes, size_t new_bytes, int flags,
                void *to)
{
    struct fy_quiet quiet;
    void *result;

    if (!is_ready()) {
        errno = EFAULT;
        return MAP_FAILED;
    }
    tell_begin(&quiet);
    result = published()->remap(old, old_bytes, new_bytes, flags, to);
    int error = errno;
    tell_end(&quiet);
    errno = error;
    return result;
}

const struct fy_engine *
fy_engine(void)
{
    uint8_t known = __atomic_load_n(&engine_state, __ATOMIC_ACQUIRE);
    if (known == READY || known == FAILED) {
        return known == READY ? published() : NULL;
    }
    int *error = &errno, saved = *error;
    struct fy_quiet quiet;
    fy_linker_error_find();
    fy_quiet_begin(&quiet);
    if (claim(&engine_state)) {
        __atomic_store_n(&engine_loader, getpid(), __ATOMIC_RELEASE);
        fy_inside++; /* calls of its constructors run as they are */
        engine = load();
        fy_inside--;
        fy_debug(CALLS, engine ? "the engine is loaded"
                               : "the engine cannot be loaded");
        fy_watched_release(&engine_state);
        __atomic_store_n(&engine_state, engine ? READY : FAILED,
                         __ATOMIC_RELEASE);
    } else if (fy_inside == 0) {
        struct timespec step = {0, WAIT_STEP_NS};
        for (int i = 0;
             i < WAIT_STEPS &&
             __atomic_load_n(&engine_state, __ATOMIC_ACQUIRE) == LOADING;
             i++) {
            /* 0: claimed, but the loader has not said yet who it is. */
            pid_t loader = __atomic_load_n(&engine_loader, __ATOMIC_ACQUIRE);
            if (loader && loader != getpid()) {
                break;
            }
            nanosleep(&step, NULL);
        }
    }
    fy_quiet_end(&quiet);
    *error = saved;
    return __atomic_load_n(&engine_state, __ATOMIC_ACQUIRE) == READY
               ? published()
               : NULL;
}

static struct fy_record *
map_record(void)
{
    static char path[PATH_BYTES]; /* runs once, maybe on a small stack */
    if (!fy_settings_value("record", path, sizeof path)) {
        return NULL;
    }
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        return NULL;
    }
    struct stat status;
    if (fstat(file, &status) != 0 || status.st_uid != geteuid()) {
        close(file); /* somebody made it again, after the run */
        return NULL;
    }
    struct fy_record *mapped = MAP_FAILED;
    size_t bytes = sizeof *mapped + (size_t)fy_shim_model()->functions.count *
                                        sizeof(struct fy_record_row);
    off_t end = lseek(file, 0, SEEK_END);
    if (end > 0 && (uint64_t)end >= bytes) {
        mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    if (mapped == MAP_FAILED) {
        return NULL;
    }
    if (__builtin_memcmp(mapped->magic, FY_RECORD_MAGIC, 8) != 0 ||
        mapped->nrows < fy_shim_model()->functions.count) {
        munmap(mapped, bytes);
        return NULL;
    }
    return mapped;
}

struct fy_record *
fy_record(void)
{
    static pid_t mapper;
    uint8_t *state = &fy_record_state;
    if (__atomic_load_n(state, __ATOMIC_ACQUIRE) != READY) {
        int *error = &errno, saved = *error;
        struct fy_quiet quiet;
        bool failed = __atomic_load_n(state, __ATOMIC_ACQUIRE) == FAILED;
        if (!failed) {
            fy_quiet_begin(&quiet);
        }
        if (claim(state)) {
            __atomic_store_n(&mapper, getpid(), __ATOMIC_RELEASE);
            fy_inside++;
            fy_record_mapped = map_record();
            fy_count_start();
            fy_inside--;
            __atomic_store_n(state, fy_record_mapped ? READY : FAILED,
                             __ATOMIC_RELEASE);
        }
        /*
         * Short, and nothing foreign runs in it. But it may be our own, under a
         * signal handler, or may have been left behind by a fork.
         */
        while (!fy_inside &&
               __atomic_load_n(state, __ATOMIC_ACQUIRE) == LOADING) {
            pid_t owner = __atomic_load_n(&mapper, __ATOMIC_ACQUIRE);
            if (owner && owner != getpid()) {
                break;
            }
            sched_yield();
        }
        if (!failed) {
            fy_quiet_end(&quiet);
        }
        *error = saved;
    }
    return __atomic_load_n(state, __ATOMIC_ACQUIRE) == READY ? fy_record_mapped
                                                             : NULL;
}
