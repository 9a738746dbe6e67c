/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of ferry's: a thread of the program may have 16 KiB in all. A frame
 * takes one for as long as it decides or runs a call; originals that are
 * declined run on the caller's. Where the caller's is the thread's own and large, only
 * the vector registers are kept on ferry's, and the call is decided and run on the
 * caller's: handlers may come meanwhile, and one that stops the thread for a garbage
 * collector takes all words from its frame to the end of that stack for roots.
 *
 * There are as many as calls at the same time, and up to HOMES as many as living
 * threads that have called: a thread finds its own free, and asks the kernel for
 * nothing. They are never unmapped: a thread that leaves one by an exception goes on
 * unwinding on it. Any thread; asks the kernel only at a thread's first call, for a
 * new one, or where one was left by an exception or longjmp.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/calls/shim.h"

enum {
    GUARD_BYTES = 64 * 1024,
    MIN_BYTES = 256 * 1024,
    MAX_BYTES = 8 * 1024 * 1024, /* as threads have by default */
    HOMES = 16,
    ROOM_BYTES = MIN_BYTES, /* of the caller's stack, to go on there */
};

/* Zeros: not asked yet. Both alike: not known. */
struct bounds {
    uintptr_t low, high;
};

FY_HIDDEN __thread struct fy_own_stack *fy_own_stack
    __attribute__((tls_model("initial-exec")));
static struct fy_own_stack *all;
static unsigned made; /* how many those are */
/* The stack that libc, or the kernel, gave the calling thread. */
static __thread struct bounds thread_stack
    __attribute__((tls_model("initial-exec")));
static void (*watched_acquire)(void *address);
static void (*watched_release)(void *address);

void
fy_watched_acquire(void *address)
{
    void (*tell)(void *) = __atomic_load_n(&watched_acquire, __ATOMIC_RELAXED);
    if (tell) {
        tell(address);
    }
}

void
fy_watched_release(void *address)
{
    void (*tell)(void *) = __atomic_load_n(&watched_release, __ATOMIC_RELAXED);
    if (tell) {
        tell(address);
    }
}

static const void *
this_thread(void)
{
    const void *self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
}

/*
 * Returns true if its frame, one of this thread, was left by an exception or
 * longjmp: the words there are no longer the frame. The frame's place tells
 * nothing: the thread may have several stacks, and handlers that change
 * between them (swapcontext). A frame that nothing has overwritten yet counts
 * as live. By the kernel, because its stack may be unmapped.
 */
static bool
is_left(const struct fy_own_stack *own, const struct fy_frame *user)
{
    return own->thread == this_thread() &&
           fy_stack_differs((const void *const *)&user->own, own);
}

bool
fy_stack_differs(const void *const *word, const void *value)
{
    const void *now = NULL;
    int *error = &errno, saved = *error;
    struct iovec to = {.iov_base = &now, .iov_len = sizeof now};
    struct iovec from = {.iov_base = (void *)(uintptr_t)word,
                         .iov_len = sizeof now};
    long n = syscall(SYS_process_vm_readv, gettid(), &to, 1, &from, 1, 0);
    bool differs = n < 0 ? *error == EFAULT : now != value;
    *error = saved;
    return differs;
}

static bool
claim(struct fy_own_stack *own, struct fy_frame *frame)
{
    struct fy_frame *user = NULL;
    if (__atomic_compare_exchange_n(&own->frame, &user, frame, false,
                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        frame->own = own;
        __atomic_store_n(&own->thread, this_thread(), __ATOMIC_RELEASE);
        return true;
    }
    if (!user || !is_left(own, user)) {
        return false;
    }
    frame->own = own;
    if (!__atomic_compare_exchange_n(&own->frame, &user, frame, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        frame->own = NULL; /* a handler changed the stack that took it */
        return false;
    }
    return true;
}

/* By hand: dlsym() would leave a text for dlerror(), and its memory. */
static void
find_watcher(void)
{
    void (*acquire)(void *), (*release)(void *);
    *(void **)&acquire = fy_scope_startup("__tsan_acquire");
    *(void **)&release = fy_scope_startup("__tsan_release");
    __atomic_store_n(&watched_release, release, __ATOMIC_RELAXED);
    __atomic_store_n(&watched_acquire, acquire, __ATOMIC_RELAXED);
}

static struct fy_own_stack *
new_stack(struct fy_frame *frame)
{
    struct rlimit limit;
    size_t bytes = MAX_BYTES;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < bytes) {
        bytes = limit.rlim_cur < MIN_BYTES ? MIN_BYTES : limit.rlim_cur;
        bytes &= ~(size_t)(GUARD_BYTES - 1);
    }
    char *low;
    for (;; bytes = MIN_BYTES) {
        low = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1,
                   0);
        if (low != MAP_FAILED) {
            break;
        }
        if (bytes == MIN_BYTES) {
            return NULL;
        }
    }
    if (mprotect(low, GUARD_BYTES, PROT_NONE)) {
        munmap(low, bytes);
        return NULL;
    }
    struct fy_own_stack *own = (struct fy_own_stack *)(low + bytes) - 1;
    find_watcher(); /* before any stack has a second user */
    own->low = low;
    own->frame = frame;
    frame->own = own;
    own->thread = own->home = this_thread();
    own->home_id = gettid();
    __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
    own->next = __atomic_load_n(&all, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&all, &own->next, own, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return own;
}

/* One whose home is this thread, or one before it with the same pointer. */
static struct fy_own_stack *
take_own(struct fy_frame *frame)
{
    struct fy_own_stack *own = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
    while (own &&
           (__atomic_load_n(&own->home, __ATOMIC_RELAXED) != this_thread() ||
            !claim(own, frame))) {
        own = own->next;
    }
    if (own && !fy_own_stack) {
        __atomic_store_n(&own->home_id, gettid(), __ATOMIC_RELAXED);
    }
    return own;
}

/* One whose thread has ended, or, when it `matters' not, any. */
static struct fy_own_stack *
take_other(struct fy_frame *frame, bool matters)
{
    struct fy_own_stack *own = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
    int *error = &errno, saved = *error;
    for (; own; own = own->next) {
        int id = __atomic_load_n(&own->home_id, __ATOMIC_RELAXED);
        if ((!matters || tgkill(getpid(), id, 0)) && claim(own, frame)) {
            break;
        }
    }
    if (own && matters) {
        __atomic_store_n(&own->home, this_thread(), __ATOMIC_RELAXED);
        __atomic_store_n(&own->home_id, gettid(), __ATOMIC_RELAXED);
    }
    *error = saved;
    return own;
}

bool
fy_stack_take(struct fy_frame *frame)
{
    struct fy_own_stack *own = fy_own_stack;
    if (frame->own) {
        return true;
    }
    if (fy_valgrind) {
        return false;
    }
    if (!own || !claim(own, frame)) {
        own = take_own(frame);
        if (!own && !fy_own_stack) { /* its first call */
            own = take_other(frame, true);
        }
        if (!own && __atomic_load_n(&made, __ATOMIC_RELAXED) < HOMES) {
            own = new_stack(frame);
        }
        own = own ? own : take_other(frame, false);
        own = own ? own : new_stack(frame);
    }
    if (!own) {
        return false;
    }
    fy_own_stack = own;
    return true;
}

const struct fy_own_stack *
fy_stack_at(const void *at)
{
    const struct fy_own_stack *own = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
    while (own && ((const char *)at < own->low ||
                   (const char *)at >= (const char *)own)) {
        own = own->next;
    }
    return own;
}

void
fy_stack_forked(void)
{
    for (struct fy_own_stack *own = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
         own; own = own->next) {
        if (own->thread && own->thread != this_thread()) {
            own->thread = NULL;
            __atomic_store_n(&own->frame, NULL, __ATOMIC_RELEASE);
        }
    }
}

/* Finds the bounds of the main thread's stack; its arguments, a quarter at
 * most, lie above the known end. */
static bool
main_bounds(uintptr_t at, struct bounds *out)
{
    struct rlimit limit;
    size_t bytes = MAX_BYTES;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < bytes) {
        bytes = limit.rlim_cur;
    }
    out->high = (uintptr_t)fy_main_stack_end();
    out->low = out->high - bytes / 4 * 3;
    return at - out->low < out->high - out->low;
}

bool
fy_stack_is_ample(const void *frame)
{
    struct bounds bounds;
    return main_bounds((uintptr_t)frame, &bounds) &&
           (uintptr_t)frame - bounds.low > ROOM_BYTES;
}

/* Finds the bounds of another thread's stack. libc allocates for that; in a
 * handler and a vfork child nothing is known. */
static void
thread_bounds(const struct fy_frame *frame, struct bounds *out)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t bytes = 0;
    *out = (struct bounds){0, 0};
    if (fy_in_handler(frame->registers.stack) || fy_is_vfork_child()) {
        return;
    }
    *out = (struct bounds){1, 1};
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return;
    }
    (void)pthread_attr_getstack(&attributes, &low, &bytes);
    (void)pthread_attr_destroy(&attributes);
    *out = (struct bounds){(uintptr_t)low, (uintptr_t)low + bytes};
}

static void
look_for_bounds(void *frame)
{
    struct bounds found;
    if (!main_bounds((uintptr_t)frame, &found)) {
        thread_bounds(frame, &found);
    }
    thread_stack = found;
}

/* A thread's first call. */
static void
find_bounds(const struct fy_frame *frame, char *top)
{
    int *error = &errno, saved = *error;
    struct fy_quiet quiet;
    fy_quiet_begin(&quiet);
    fy_stack_call(look_for_bounds, (void *)(uintptr_t)frame, top);
    fy_quiet_end(&quiet);
    *error = saved;
}

/* Returns true if the frame lies on its thread's stack, above enough of it. */
static bool
has_room(const struct fy_frame *frame)
{
    uintptr_t at = (uintptr_t)frame;
    return at < thread_stack.high && at > thread_stack.low &&
           at - thread_stack.low > ROOM_BYTES;
}

void
fy_stack_run(const struct fy_frame *frame, void (*run)(void *), void *argument)
{
    char *top = (char *)frame->own;
    if ((char *)frame->state >= frame->own->low && (char *)frame->state < top) {
        top = frame->state;
    }
    if (!thread_stack.high) {
        find_bounds(frame, top);
    }
    fy_watched_acquire(frame->own);
    if (has_room(frame)) {
        run(argument);
    } else {
        fy_stack_call(run, argument, top);
    }
    fy_watched_release(frame->own);
}
