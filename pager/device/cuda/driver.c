/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads libcuda.so.1 once for the process. Nothing here runs before the first
 * accepted call, and nothing in a forked child: the driver does not survive a
 * fork, so a page that the kernel wipes in children says whose it is.
 */
#include "config.h"

#include "pager/device/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/signals.h"
#include "pager/device/cuda/users.h"
#include "pager/device/own_thread.h"

enum {
    LEAST_VERSION = 11000
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool asked;
static int answer;
static char reason[FY_CUDA_TEXT_BYTES];
static struct fy_cuda_driver driver;
static const volatile unsigned
    *alive; /* a page that is zero in forked children */

static int
refuse(const char *text)
{
    (void)snprintf(reason, sizeof reason, "%s", text);
    return FY_ERR_NOENT;
}

static int
resolve(void *library)
{
    static const struct {
        const char *name;
        size_t offset;
        bool optional;
    } rows[] = {
#define ROW(member, name, parameters) \
    {name, offsetof(struct fy_cuda_driver, member), false},
        FY_CUDA_FUNCTIONS(ROW)
#undef ROW
#define ROW(member, name, parameters) \
    {name, offsetof(struct fy_cuda_driver, member), true},
            FY_CUDA_OPTIONAL(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *function = dlsym(library, rows[i].name);
        if (!function && !rows[i].optional) {
            (void)snprintf(reason, sizeof reason,
                           "the CUDA driver has no %s: it is older than 11.0",
                           rows[i].name);
            return FY_ERR_NOENT;
        }
        memcpy((char *)&driver + rows[i].offset, &function, sizeof function);
    }
    return 0;
}

/* The error of cuInit or of the count of devices, in the user's terms. */
static int
refuse_init(int result)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char text[FY_CUDA_TEXT_BYTES];
    switch (result) {
    case FY_CUDA_NO_DEVICE:
    case FY_CUDA_INVALID_DEVICE:
        if (!visible) {
            return refuse("the CUDA driver finds no device");
        }
        (void)snprintf(reason, sizeof reason,
                       visible[0] == '\0'
                           ? "CUDA_VISIBLE_DEVICES is empty: no CUDA device is "
                             "visible"
                           : "CUDA_VISIBLE_DEVICES=%.80s: no such CUDA device",
                       visible);
        return FY_ERR_NOENT;
    case FY_CUDA_STUB_LIBRARY:
        return refuse("libcuda.so.1 is the toolkit's stub, not a driver");
    case FY_CUDA_NOT_INITIALIZED:
        return refuse("CUDA cannot be used in a forked child of a process that "
                      "has used it");
    case FY_CUDA_SYSTEM_DRIVER_MISMATCH:
        return refuse("the CUDA driver library and the kernel's NVIDIA driver "
                      "have different versions");
    default:
        fy_cuda_describe(&driver, "cuInit", result, text);
        return refuse(text);
    }
}

/*
 * Before the lock is taken: a child forked meanwhile would find it taken for
 * ever, so it must see whose the driver is without it.
 */
static bool
mark_process(void)
{
    const volatile unsigned *none = NULL, *mine;
    if (fy_own_process_new(&mine) != 0) {
        return false;
    }
    if (!__atomic_compare_exchange_n(&alive, &none, mine, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        fy_own_process_free(mine);
    }
    return true;
}

static int
load(void)
{
    cuda_users_look();
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return refuse("no CUDA driver: libcuda.so.1 cannot be loaded");
    }
    if (resolve(library) != 0) {
        return FY_ERR_NOENT;
    }
    int result = driver.init(0);
    if (result == 0) {
        result = driver.driver_version(&driver.version);
    }
    if (result == 0 && driver.version < LEAST_VERSION) {
        (void)snprintf(reason, sizeof reason,
                       "the CUDA driver is for CUDA %d.%d; ferry needs 11.0",
                       driver.version / 1000, driver.version % 1000 / 10);
        return FY_ERR_NOENT;
    }
    if (result == 0) {
        result = driver.device_count(&driver.devices);
    }
    if (result == 0 && driver.devices < 1) {
        result = FY_CUDA_NO_DEVICE;
    }
    return result == 0 ? 0 : refuse_init(result);
}

int
fy_cuda_driver_get(const struct fy_cuda_driver **out,
                   char why[FY_CUDA_TEXT_BYTES])
{
    const volatile unsigned *mine = __atomic_load_n(&alive, __ATOMIC_ACQUIRE);
    if (!mine && !mark_process()) {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                       "the kernel cannot mark memory for forks");
        return FY_ERR_NOENT;
    }
    if (mine && *mine == 0) {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                       "CUDA cannot be used in a forked child of a process "
                       "that has used it");
        return FY_ERR_NOENT;
    }
    pthread_mutex_lock(&lock);
    if (!asked) {
        /* The driver's own threads inherit the mask. */
        sigset_t before;
        fy_signals_block(&before);
        answer = load();
        fy_signals_restore(&before);
        asked = true;
    }
    int status = answer;
    memcpy(why, reason, sizeof reason);
    pthread_mutex_unlock(&lock);
    if (status == 0) {
        *out = &driver;
    }
    return status;
}

bool
fy_cuda_driver_is_asked(void)
{
    return __atomic_load_n(&alive, __ATOMIC_ACQUIRE);
}

bool
fy_cuda_driver_is_ours(void)
{
    const volatile unsigned *mine = __atomic_load_n(&alive, __ATOMIC_ACQUIRE);
    return !mine || *mine != 0;
}

/* Shared by the asking thread and the one that tries; freed by the last. */
struct probe {
    pthread_mutex_t lock;
    pthread_cond_t change;
    unsigned users;
    bool answered;
};

static void
leave_probe(struct probe *probe)
{
    pthread_mutex_lock(&probe->lock);
    bool last = --probe->users == 0;
    pthread_mutex_unlock(&probe->lock);
    if (last) {
        pthread_cond_destroy(&probe->change);
        pthread_mutex_destroy(&probe->lock);
        free(probe);
    }
}

static void *
look_up(void *argument)
{
    struct probe *probe = argument;
    fy_own_thread_begins();
    /* Found: for a name that nobody has, libc would keep memory for dlerror() until the
     * thread ends, which a leak checker sees if the process ends just before. */
    (void)dlsym(RTLD_DEFAULT, "free");
    pthread_mutex_lock(&probe->lock);
    probe->answered = true;
    pthread_cond_signal(&probe->change);
    pthread_mutex_unlock(&probe->lock);
    leave_probe(probe);
    return NULL;
}

bool
fy_cuda_loader_is_free(unsigned seconds)
{
    struct probe *probe = calloc(1, sizeof *probe);
    struct timespec until;
    pthread_t thread;
    int error = 0;
    if (!probe) {
        return false;
    }
    (void)pthread_mutex_init(&probe->lock, NULL);
    (void)pthread_cond_init(&probe->change, NULL);
    probe->users = 2;
    if (pthread_create(&thread, NULL, look_up, probe) != 0) {
        probe->users = 1;
        leave_probe(probe);
        return false;
    }
    (void)pthread_detach(thread);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds;
    pthread_mutex_lock(&probe->lock);
    while (!probe->answered && error == 0) {
        error = pthread_cond_timedwait(&probe->change, &probe->lock, &until);
    }
    bool answered = probe->answered;
    pthread_mutex_unlock(&probe->lock);
    leave_probe(probe);
    return answered;
}

int
fy_cuda_uuid(const struct fy_cuda_driver *d, int device, unsigned char uuid[16])
{
    /* The older function says of every part the whole card's. */
    return d->device_uuid2 ? d->device_uuid2(uuid, device)
                           : d->device_uuid(uuid, device);
}

void
fy_cuda_describe(const struct fy_cuda_driver *d, const char *what, int result,
                 char text[FY_CUDA_TEXT_BYTES])
{
    const char *name = NULL, *words = NULL;
    (void)d->error_name(result, &name);
    (void)d->error_string(result, &words);
    (void)snprintf(text, FY_CUDA_TEXT_BYTES, "%s: %s (%s, %d)", what,
                   !words ? "unknown error" : words, !name ? "no name" : name,
                   result);
}

bool
fy_cuda_is_fatal(int result)
{
    switch (result) {
    case FY_CUDA_DEINITIALIZED:
    case FY_CUDA_NOT_INITIALIZED:
    case FY_CUDA_DEVICE_UNAVAILABLE:
    case FY_CUDA_INVALID_CONTEXT:
    case FY_CUDA_ECC_UNCORRECTABLE:
    case FY_CUDA_NVLINK_UNCORRECTABLE:
    case FY_CUDA_CONTAINED:
    case FY_CUDA_INVALID_HANDLE: /* all are ours: the context is another one */
    case FY_CUDA_TENSOR_MEMORY_LEAK:
    case FY_CUDA_MPS_CLIENT_TERMINATED:
    case FY_CUDA_EXTERNAL_DEVICE:
    case FY_CUDA_UNKNOWN:
        return true;
    default:
        /* Faults of kernels: the context answers everything with them. */
        return result == FY_CUDA_ILLEGAL_ADDRESS ||
               result == FY_CUDA_LAUNCH_TIMEOUT ||
               (result >= FY_CUDA_CONTEXT_IS_DESTROYED &&
                result <= FY_CUDA_ASSERT) ||
               (result >= FY_CUDA_HARDWARE_STACK_ERROR &&
                result <= FY_CUDA_LAUNCH_FAILED);
    }
}

void
fy_cuda_before_exit(void (*quiet)(void))
{
    /* Handlers run in reverse order; without one the exit is only less calm. */
    (void)atexit(quiet);
}
