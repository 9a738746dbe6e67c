/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device: opening, errors and the end. Nothing here may stop the
 * program: every trouble is a status, and the original runs. Long because
 * opening and end are read together.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/debug.h"
#include "common/signals.h"
#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/users.h"
#include "pager/device/own_thread.h"

enum {
    EXIT_WAIT_SECONDS = 2,
    LOADER_SECONDS = 1,
    CAPTURE_SHIFT = 4, /* above the values of pthread_setcancelstate() */
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_device *all; /* open ones */
static bool off;                /* a context has failed in this process */
static bool exiting;
static unsigned next_unit;

/* Why the last open() of this thread failed; the text that error_text() has shown. */
static __thread char shown[FY_CUDA_TEXT_BYTES];

bool
cuda_is_ours(const struct cuda_device *device)
{
    return *device->alive != 0;
}

int
cuda_error(struct cuda_device *device, int status, const char *text)
{
    fy_debug(DEVICE, "CUDA device: %s: %s", fy_status_text(status), text);
    if (cuda_is_ours(device)) {
        pthread_mutex_lock(&device->lock);
        (void)snprintf(device->text, sizeof device->text, "%s", text);
        pthread_mutex_unlock(&device->lock);
    }
    return status;
}

/* Lock held. */
static void
mark_off(struct cuda_device *device)
{
    device->dead = true;
    pthread_cond_broadcast(&device->change);
    __atomic_store_n(&off, true, __ATOMIC_RELAXED);
}

int
cuda_lost(struct cuda_device *device, const char *what, int result)
{
    char text[FY_CUDA_TEXT_BYTES];
    fy_cuda_describe(device->driver, what, result, text);
    pthread_mutex_lock(&device->lock);
    if (!device->dead) {
        memcpy(device->text, text, sizeof text);
    }
    mark_off(device);
    pthread_mutex_unlock(&device->lock);
    return FY_ERR_DEVICE;
}

int
cuda_status(struct cuda_device *device, const char *what, int result)
{
    char text[FY_CUDA_TEXT_BYTES];
    if (result == FY_CUDA_SUCCESS) {
        return 0;
    }
    if (fy_cuda_is_fatal(result)) {
        return cuda_lost(device, what, result);
    }
    fy_cuda_describe(device->driver, what, result, text);
    return cuda_error(
        device, result == FY_CUDA_OUT_OF_MEMORY ? FY_ERR_NOFIT : FY_ERR_DEVICE,
        text);
}

/*
 * A call of the driver costs a fraction of any operation's. Of a thread without
 * a context it answers nothing, whatever it is asked.
 */
bool
cuda_keeps_context(struct cuda_device *device)
{
    unsigned long long id = 0;
    if (device->memory.mark == 0) {
        return true;
    }
    int result = device->driver->pointer_attribute(
        &id, FY_CUDA_POINTER_BUFFER_ID, device->memory.mark);
    if (result == 0 && id == device->memory.mark_id) {
        return true;
    }
    if (result != FY_CUDA_SUCCESS && result != FY_CUDA_INVALID_VALUE &&
        result != FY_CUDA_CONTEXT_IS_DESTROYED) {
        (void)cuda_lost(device, "the device's memory", result);
        return false;
    }
    pthread_mutex_lock(&device->lock);
    if (!device->dead) {
        (void)snprintf(device->text, sizeof device->text,
                       "the program has reset the CUDA device");
    }
    mark_off(device);
    pthread_mutex_unlock(&device->lock);
    return false;
}

bool
cuda_is_dead(struct cuda_device *device)
{
    pthread_mutex_lock(&device->lock);
    bool dead = device->dead;
    pthread_mutex_unlock(&device->lock);
    return dead;
}

int
cuda_relax(struct cuda_device *device)
{
    int mode = FY_CUDA_CAPTURE_RELAXED;
    return device->driver->capture_mode(&mode) == 0 ? mode
                                                    : FY_CUDA_CAPTURE_RELAXED;
}

/* Leaves the state of cancellation alone in *cancel. */
static void
restore_capture(struct cuda_device *device, int *cancel)
{
    int mode = *cancel >> CAPTURE_SHIFT;
    (void)device->driver->capture_mode(&mode);
    *cancel &= (1 << CAPTURE_SHIFT) - 1;
}

bool
cuda_enter_caller(struct cuda_device *device, int *cancel)
{
    pthread_mutex_lock(&device->lock);
    bool dead = device->dead;
    if (!dead) {
        device->inside++;
    }
    pthread_mutex_unlock(&device->lock);
    if (dead) {
        return false;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
    int result = device->driver->context_push(device->context);
    if (result == 0) {
        *cancel |= cuda_relax(device) << CAPTURE_SHIFT;
        if (cuda_keeps_context(device)) {
            return true;
        }
        restore_capture(device, cancel);
        fy_cuda_handle popped;
        (void)device->driver->context_pop(&popped);
    } else {
        (void)cuda_status(device, "the context", result);
    }
    cuda_come_out(device);
    (void)pthread_setcancelstate(*cancel, NULL);
    return false;
}

void
cuda_come_out(struct cuda_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->inside--;
    if (device->dead) {
        pthread_cond_broadcast(&device->change);
    }
    pthread_mutex_unlock(&device->lock);
}

void
cuda_leave_caller(struct cuda_device *device, int cancel)
{
    fy_cuda_handle popped;
    restore_capture(device, &cancel);
    (void)device->driver->context_pop(&popped);
    cuda_come_out(device);
    (void)pthread_setcancelstate(cancel, NULL);
}

/* Whether a thread is in the driver, or will be for a stream. Lock held. */
static bool
is_in_driver(const struct cuda_device *device)
{
    bool running = device->inside > 0;
    for (const struct fy_stream *s = device->streams; s; s = s->next) {
        running = running || (device->exits && !s->settled);
    }
    return running;
}

/*
 * At exit, before the driver takes itself down: from here on only issuing
 * threads call it, to wait once more. Who is in it gets a moment to come out;
 * whoever waits for a copy that may land waits on.
 */
static void
be_quiet(void)
{
    if (!fy_cuda_driver_is_ours()) {
        return; /* a forked child: the locks are the parent's */
    }
    struct timespec until;
    sigset_t before;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += EXIT_WAIT_SECONDS;
    /* A handler may fork, which takes these locks. */
    fy_signals_block(&before);
    pthread_mutex_lock(&all_lock);
    __atomic_store_n(&exiting, true, __ATOMIC_RELAXED);
    for (struct cuda_device *device = all; device; device = device->next) {
        int error = 0;
        pthread_mutex_lock(&device->lock);
        if (!device->dead) {
            (void)snprintf(device->text, sizeof device->text,
                           "the process exits");
            device->exits = true;
        }
        device->dead = true;
        pthread_cond_broadcast(&device->change);
        for (struct fy_stream *s = device->streams; s; s = s->next) {
            pthread_cond_signal(&s->wake);
        }
        while (is_in_driver(device) && error == 0) {
            error =
                pthread_cond_timedwait(&device->change, &device->lock, &until);
        }
        device->abandoned = is_in_driver(device);
        pthread_cond_broadcast(&device->change);
        pthread_mutex_unlock(&device->lock);
    }
    pthread_mutex_unlock(&all_lock);
    fy_signals_restore(&before);
}

void
cuda_guard_exit(void)
{
    fy_cuda_before_exit(be_quiet);
}

/* The context of the chosen unit, and memory in it. */
static int
open_context(struct cuda_device *device, uint64_t memory_bytes)
{
    const struct fy_cuda_driver *driver = device->driver;
    int unit, pitch;
    int result = driver->device_get(&unit, device->ordinal);
    if (result == 0) {
        result = driver->device_attribute(&pitch, FY_CUDA_MAX_PITCH, unit);
    }
    if (result == 0) {
        int status = cuda_start_mode(driver, unit, device->text);
        if (status != 0) {
            return status;
        }
        device->unit = unit;
        device->max_pitch = pitch;
        result = driver->context_retain(&device->context, unit);
    }
    if (result != 0) {
        return cuda_status(device, "the context", result);
    }
    int cancel, status = FY_ERR_DEVICE;
    if (cuda_enter_caller(device, &cancel)) {
        status = cuda_memory_open(device, memory_bytes);
        cuda_leave_caller(device, cancel);
    }
    if (status != 0) {
        (void)driver->context_release(unit);
    }
    return status;
}

static void
close_context(struct cuda_device *device)
{
    int cancel;
    cuda_budget_close(device); /* its thread uses the context and the locks */
    if (cuda_enter_caller(device, &cancel)) {
        cuda_kernels_end(device, true);
        cuda_memory_close(device, true);
        cuda_leave_caller(device, cancel);
    }
    if (!cuda_is_dead(device)) {
        (void)device->driver->context_release(device->unit);
    }
}

/* The part that needs no driver. */
static struct cuda_device *
device_new(void)
{
    struct cuda_device *device = calloc(1, sizeof *device);
    if (!device) {
        return NULL;
    }
    device->base.ops = &fy_device_cuda;
    if (fy_own_process_new(&device->alive) != 0) {
        goto free_device;
    }
    if (pthread_mutex_init(&device->lock, NULL) != 0) {
        goto unmap;
    }
    if (pthread_cond_init(&device->change, NULL) != 0) {
        goto destroy_lock;
    }
    if (pthread_mutex_init(&device->kernels_lock, NULL) != 0) {
        goto destroy_change;
    }
    device->ring = cuda_ring_new(device);
    if (device->ring) {
        return device;
    }
    pthread_mutex_destroy(&device->kernels_lock);
destroy_change:
    pthread_cond_destroy(&device->change);
destroy_lock:
    pthread_mutex_destroy(&device->lock);
unmap:
    fy_own_process_free(device->alive);
free_device:
    free(device);
    return NULL;
}

static void
device_free(struct cuda_device *device)
{
    bool ours = cuda_is_ours(device);
    if (ours) {
        cuda_ring_free(device->ring);
        pthread_mutex_destroy(&device->kernels_lock);
        pthread_cond_destroy(&device->change);
        pthread_mutex_destroy(&device->lock);
    } else {
        free(device->ring);
    }
    cuda_kernels_end(device, false);
    cuda_memory_close(device, false);
    fy_own_process_free(device->alive);
    free(device);
}

static int
open_device(uint64_t memory_bytes, struct fy_device **out)
{
    const struct fy_cuda_driver *driver;
    int status = cuda_limits(shown);
    if (status == 0) {
        status = cuda_start_may(shown);
    }
    if (status == 0) {
        status = fy_cuda_driver_get(&driver, shown);
    }
    if (status != 0) {
        return status;
    }
    if (__atomic_load_n(&off, __ATOMIC_RELAXED)) {
        (void)snprintf(shown, sizeof shown,
                       "the CUDA device has failed before in this process");
        return FY_ERR_DEVICE;
    }
    int ordinal = (int)__atomic_load_n(&next_unit, __ATOMIC_RELAXED);
    if (ordinal >= driver->devices) {
        (void)snprintf(shown, sizeof shown,
                       "there is no CUDA device %d: %d %s visible", ordinal,
                       driver->devices, driver->devices == 1 ? "is" : "are");
        return FY_ERR_NOENT;
    }
    fy_own_cpus_look();
    struct cuda_device *device = device_new();
    if (!device) {
        (void)snprintf(shown, sizeof shown, "no memory for the device");
        return FY_ERR_NOMEM;
    }
    device->driver = driver;
    device->ordinal = ordinal;
    status = open_context(device, memory_bytes);
    if (status != 0) {
        (void)snprintf(shown, sizeof shown, "%s", device->text);
        device_free(device);
        return status;
    }
    pthread_mutex_lock(&all_lock);
    bool late = exiting;
    if (!late) {
        device->next = all;
        all = device;
    }
    pthread_mutex_unlock(&all_lock);
    cuda_guard_exit();
    if (late) {
        device->dead = true;
    }
    *out = &device->base;
    return 0;
}

/* Signals stay blocked while the driver may start threads. */
static int
cuda_open(uint64_t memory_bytes, struct fy_device **out)
{
    sigset_t before;
    int cancel;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    fy_signals_block(&before);
    int status = FY_ERR_BUSY;
    /* A forked child starts no thread to be told no. */
    if (!fy_cuda_driver_is_ours() || fy_cuda_loader_is_free(LOADER_SECONDS)) {
        status = open_device(memory_bytes, out);
    } else {
        (void)snprintf(shown, sizeof shown,
                       "CUDA cannot start inside a library's constructor");
    }
    fy_debug(DEVICE, "CUDA device %s: %s", status ? "not opened" : "opened",
             status ? shown : "");
    fy_signals_restore(&before);
    (void)pthread_setcancelstate(cancel, NULL);
    return status;
}

/* In a forked child only ferry's own memory goes. */
static void
cuda_close(struct fy_device *base)
{
    struct cuda_device *device = (struct cuda_device *)base;
    if (!device) {
        return;
    }
    bool ours = cuda_is_ours(device);
    fy_debug(DEVICE, "CUDA device closed");
    while (ours && device->streams) {
        cuda_stream_destroy(device->streams);
    }
    if (ours) {
        pthread_mutex_lock(&all_lock); /* in a child it may be anybody's */
    }
    struct cuda_device **link = &all;
    while (*link && *link != device) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = device->next;
    }
    if (ours) {
        pthread_mutex_unlock(&all_lock);
        if (device->abandoned) {
            return; /* its threads may still be there */
        }
        cuda_ring_free(device->ring);
        device->ring = NULL;
        close_context(device);
    }
    device_free(device);
}

static int
cuda_identity(struct fy_device *base, char *out, size_t bytes)
{
    struct cuda_device *device = (struct cuda_device *)base;
    unsigned char uuid[16] = {0};
    int cancel, status = FY_ERR_DEVICE;
    if (cuda_is_ours(device) && cuda_enter_caller(device, &cancel)) {
        status = cuda_status(device, "asking for its UUID",
                             fy_cuda_uuid(device->driver, device->unit, uuid));
        cuda_leave_caller(device, cancel);
    }
    size_t at = 0;
    for (size_t i = 0; i < sizeof uuid && at + 3 < bytes; i++) {
        at += (size_t)snprintf(out + at, bytes - at, "%02x", uuid[i]);
    }
    (void)snprintf(out + at, bytes - at, "-%d", device->driver->version);
    return status;
}

static uint64_t
cuda_memory_bytes(struct fy_device *base)
{
    struct cuda_device *device = (struct cuda_device *)base;
    uint64_t bytes = 0;
    int cancel;
    if (cuda_is_ours(device) && cuda_enter_caller(device, &cancel)) {
        bytes = cuda_memory_usable(device);
        cuda_leave_caller(device, cancel);
    }
    return bytes;
}

static int
cuda_alloc(struct fy_device *base, uint64_t bytes, uint64_t *out)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int cancel;
    if (!cuda_is_ours(device) || !cuda_enter_caller(device, &cancel)) {
        return FY_ERR_DEVICE;
    }
    int status = cuda_memory_take(device, bytes, false, out);
    cuda_leave_caller(device, cancel);
    return status;
}

static void
cuda_free(struct fy_device *base, uint64_t address)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int cancel;
    if (cuda_is_ours(device)) {
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        cuda_memory_release(device, address, false);
        if (cuda_memory_is_surplus(device)) {
            base->ops->give_back(base, false);
        }
        (void)pthread_setcancelstate(cancel, NULL);
    }
}

static void
cuda_keep(struct fy_device *base, uint64_t address, bool kept)
{
    struct cuda_device *device = (struct cuda_device *)base;
    if (cuda_is_ours(device)) {
        cuda_memory_keep(device, address, kept);
    }
}

static void
cuda_claim(struct fy_device *base, uint64_t bytes, const struct timespec *until)
{
    struct cuda_device *device = (struct cuda_device *)base;
    int cancel;
    if (cuda_is_ours(device)) {
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        cuda_budget_claim(device, bytes, until);
        (void)pthread_setcancelstate(cancel, NULL);
    }
}

static void
cuda_give_back(struct fy_device *base, bool threads)
{
    (void)threads; /* the driver's cannot be ended */
    struct cuda_device *device = (struct cuda_device *)base;
    int cancel;
    if (cuda_is_ours(device) && cuda_enter_caller(device, &cancel)) {
        cuda_memory_give_back(device);
        cuda_leave_caller(device, cancel);
    }
}

static void *
cuda_resolve(struct fy_device *base, const char *name)
{
    struct cuda_device *device = (struct cuda_device *)base;
    bool loaded = false;
    void *function = NULL;
    int cancel;
    /* A dead device answers, too: its operations then report the error. */
    if (!cuda_is_ours(device) || __atomic_load_n(&exiting, __ATOMIC_RELAXED)) {
        return NULL;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    function = fy_cuda_function(device->driver->version, name, &loaded);
    if (loaded) {
        cuda_guard_exit();
    }
    if (!function) {
        char why[FY_CUDA_TEXT_BYTES];
        fy_cuda_function_why(name, why);
        (void)cuda_error(device, FY_ERR_UNSUPPORTED, why);
    }
    (void)pthread_setcancelstate(cancel, NULL);
    return function;
}

static const char *
cuda_error_text(struct fy_device *base)
{
    struct cuda_device *device = (struct cuda_device *)base;
    if (device && !cuda_is_ours(device)) {
        return "the device belongs to the parent of this forked process";
    }
    if (device) {
        pthread_mutex_lock(&device->lock);
        memcpy(shown, device->text, sizeof shown);
        pthread_mutex_unlock(&device->lock);
    }
    return shown;
}

static bool
cuda_inherited(struct fy_device *base)
{
    return !cuda_is_ours((struct cuda_device *)base);
}

static void
cuda_choose(unsigned unit)
{
    __atomic_store_n(&next_unit, unit, __ATOMIC_RELAXED);
}

const struct fy_device_ops fy_device_cuda = {
    .name = "cuda",
    .choose = cuda_choose,
    .early = cuda_start_early,
    .open = cuda_open,
    .close = cuda_close,
    .inherited = cuda_inherited,
    .memory_bytes = cuda_memory_bytes,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .keep = cuda_keep,
    .is_shared = cuda_users_any,
    .give_back = cuda_give_back,
    .loading = cuda_users_loading,
    .claim = cuda_claim,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = fy_queue_record,
    .event_wait = fy_queue_wait,
    .event_sync = cuda_event_sync,
    .stream_sync = cuda_stream_sync,
    .copy = fy_queue_copy,
    .launch = fy_queue_launch,
    .save = cuda_ring_save,
    .look = cuda_ring_look,
    .resolve = cuda_resolve,
    .kernel = cuda_kernel,
    .identity = cuda_identity,
    .error_text = cuda_error_text,
};
