/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the CUDA device: compiled or taken from the cache, loaded into its
 * context, found again by their text. All of that happens on a thread of its
 * own, for compilers want more stack than a program's thread may have. A text
 * that does not compile is remembered, so that it is tried once.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/eval.h"
#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/users.h"
#include "pager/device/own_thread.h"

enum {
    STACK_BYTES = 16 << 20,
    MAX_KERNELS = 4096,
    LOADER_SECONDS = 1
};

struct cuda_kernel {
    struct cuda_kernel *next;
    struct fy_kernel_key key;
    int status; /* not 0: it cannot be had, and never will */
    fy_cuda_handle module, function;
    char why[FY_CUDA_TEXT_BYTES];
    char entry[];
};

/* A request to the thread. */
struct job {
    struct cuda_device *device;
    const struct fy_kernel_program *program;
    struct cuda_kernel *kernel; /* found, or new in the device's list */
    int status;
};

static void
explain(char why[FY_CUDA_TEXT_BYTES], const char *entry, const char *text)
{
    char copy[FY_CUDA_TEXT_BYTES];
    (void)snprintf(copy, sizeof copy, "%s", text);
    (void)snprintf(why, FY_CUDA_TEXT_BYTES, "kernel %.40s: %.200s", entry,
                   copy);
}

static int
driver_trouble(struct cuda_device *device, const char *what, int result,
               char why[FY_CUDA_TEXT_BYTES])
{
    int status = cuda_status(device, what, result);
    fy_cuda_describe(device->driver, what, result, why);
    return status;
}

/* Whether the kernel takes the arguments that will be passed, where a driver tells. */
static int
check_parameters(const struct cuda_device *device,
                 const struct fy_kernel_program *program,
                 fy_cuda_handle function, char why[FY_CUDA_TEXT_BYTES])
{
    size_t offset, bytes;
    if (!device->driver->parameter_info) {
        return FY_OK; /* before CUDA 12.4 */
    }
    for (unsigned i = 0; i < program->nargs; i++) {
        uint32_t wanted = fy_type_bytes((enum fy_type)program->types[i], 64);
        if (device->driver->parameter_info(function, i, &offset, &bytes) != 0) {
            (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                           "it has %u parameters, %u are passed", i,
                           program->nargs);
            return FY_ERR_INVALID;
        }
        if (bytes != wanted) {
            (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                           "parameter %u has %zu bytes, %u are passed", i + 1,
                           bytes, wanted);
            return FY_ERR_INVALID;
        }
    }
    if (device->driver->parameter_info(function, program->nargs, &offset,
                                       &bytes) == 0) {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                       "it has more than %u parameters", program->nargs);
        return FY_ERR_INVALID;
    }
    return FY_OK;
}

/* Whether this driver will never load the image, on this card. */
static bool
is_refused(int result)
{
    switch (result) {
    case FY_CUDA_INVALID_IMAGE:
    case FY_CUDA_NO_BINARY:
    case FY_CUDA_INVALID_PTX:
    case FY_CUDA_NO_JIT_COMPILER:
    case FY_CUDA_UNSUPPORTED_PTX: /* of an NVRTC that is newer than the driver */
    case FY_CUDA_JIT_DISABLED:
        return true;
    default:
        return false;
    }
}

/* Into the context, which is current. */
static int
load(struct cuda_device *device, const struct fy_kernel_program *program,
     const void *image, struct cuda_kernel *kernel,
     char why[FY_CUDA_TEXT_BYTES])
{
    const struct fy_cuda_driver *driver = device->driver;
    int result = driver->module_load(&kernel->module, image, 0, NULL, NULL);
    if (result != 0) {
        kernel->module = NULL;
        int status = driver_trouble(device, "loading it", result, why);
        return is_refused(result) ? FY_ERR_INVALID : status;
    }
    result = driver->module_function(&kernel->function, kernel->module,
                                     program->entry);
    int status = FY_OK;
    if (result == FY_CUDA_NOT_FOUND) {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                       "the compiled file has no kernel of that name");
        status = FY_ERR_INVALID;
    } else if (result != 0) {
        status = driver_trouble(device, "finding it", result, why);
    } else {
        status = check_parameters(device, program, kernel->function, why);
    }
    if (status != FY_OK && !cuda_is_dead(device)) {
        (void)driver->module_unload(kernel->module);
        kernel->module = NULL;
    }
    return status;
}

/* An image of the cache that the driver does not take is made again. */
static int
make(struct cuda_device *device, const struct fy_kernel_program *program,
     const struct fy_kernel_target *target, struct cuda_kernel *kernel,
     char why[FY_CUDA_TEXT_BYTES])
{
    const int version = device->driver->version;
    void *image;
    size_t bytes;
    if (fy_kernel_cache_get(&kernel->key, &image, &bytes) == FY_OK) {
        int status = load(device, program, image, kernel, why);
        free(image);
        if (status == FY_OK || cuda_is_dead(device)) {
            return status;
        }
    }
    int status =
        fy_kernel_compile(version, program, target, &image, &bytes, NULL, why);
    if (status == FY_OK) {
        status = load(device, program, image, kernel, why);
        if (status == FY_OK) {
            fy_kernel_cache_put(&kernel->key, image, bytes);
        }
        free(image);
    }
    return status;
}

static int
capability_of(struct cuda_device *device, int *out)
{
    const struct fy_cuda_driver *driver = device->driver;
    int major = 0, minor = 0;
    int result = driver->device_attribute(
        &major, FY_CUDA_COMPUTE_CAPABILITY_MAJOR, device->unit);
    if (result == 0) {
        result = driver->device_attribute(
            &minor, FY_CUDA_COMPUTE_CAPABILITY_MINOR, device->unit);
    }
    *out = major * 10 + minor;
    return cuda_status(device, "the card's architecture", result);
}

static struct cuda_kernel *
find(struct cuda_device *device, const struct fy_kernel_key *key,
     const char *entry)
{
    struct cuda_kernel *kernel = device->kernels;
    while (kernel && (memcmp(&kernel->key, key, sizeof *key) != 0 ||
                      strcmp(kernel->entry, entry) != 0)) {
        kernel = kernel->next;
    }
    return kernel;
}

/* Whether it was asked for before; *status is its result. */
static bool
find_known(struct job *job, int *status)
{
    struct cuda_device *device = job->device;
    struct fy_kernel_key key;
    if (device->kernel_target.arch[0] == '\0') {
        return false;
    }
    fy_kernel_key(job->program, &device->kernel_target, &key);
    job->kernel = find(device, &key, job->program->entry);
    if (!job->kernel) {
        return false;
    }
    *status = job->kernel->status;
    if (*status != FY_OK) {
        (void)cuda_error(device, *status, job->kernel->why);
    }
    return true;
}

/* The context is current. */
static int
run_job(struct job *job)
{
    struct cuda_device *device = job->device;
    const struct fy_kernel_program *program = job->program;
    char why[FY_CUDA_TEXT_BYTES] = "";
    struct fy_kernel_key key;
    bool loaded = false;
    int capability = 0, status = FY_OK;
    if (device->kernel_target.arch[0] == '\0') {
        status = capability_of(device, &capability);
        if (status != FY_OK) {
            return status;
        }
        status = fy_kernel_target(device->driver->version, capability,
                                  &device->kernel_target, &loaded, why);
    }
    if (loaded) {
        cuda_guard_exit();
    }
    if (status != FY_OK) {
        return cuda_error(device, status, why);
    }
    if (find_known(job, &status)) {
        return status;
    }
    fy_kernel_key(program, &device->kernel_target, &key);
    if (device->nkernels == MAX_KERNELS) {
        return cuda_error(device, FY_ERR_UNSUPPORTED, "too many kernels");
    }
    size_t length = strlen(program->entry) + 1;
    struct cuda_kernel *kernel = calloc(1, sizeof *kernel + length);
    if (!kernel) {
        return FY_ERR_NOMEM;
    }
    memcpy(kernel->entry, program->entry, length);
    kernel->key = key;
    kernel->status = make(device, program, &device->kernel_target, kernel, why);
    status = kernel->status;
    if (status != FY_OK) {
        explain(kernel->why, program->entry, why);
        if (!cuda_is_dead(device)) {
            (void)cuda_error(device, status, kernel->why);
        }
    }
    if (status != FY_OK && status != FY_ERR_INVALID) {
        free(kernel); /* the next time it may be otherwise */
        return status;
    }
    kernel->next = device->kernels;
    device->kernels = kernel;
    device->nkernels++;
    job->kernel = kernel;
    return status;
}

static void *
work(void *argument)
{
    struct job *job = argument;
    int cancel;
    cuda_thread_begins();
    job->status = FY_ERR_DEVICE;
    if (cuda_enter_caller(job->device, &cancel)) {
        job->status = run_job(job);
        cuda_leave_caller(job->device, cancel);
    }
    return NULL;
}

int
cuda_kernel(struct fy_device *base, const struct fy_kernel_program *program,
            void **out)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct job job = {.device = device, .program = program};
    pthread_t thread;
    int cancel;
    if (!cuda_is_ours(device)) {
        return FY_ERR_DEVICE;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&device->kernels_lock);
    if (find_known(&job, &job.status)) {
        /* It is there, or not to be had. */
    } else if (!fy_cuda_loader_is_free(LOADER_SECONDS)) {
        job.status = cuda_error(device, FY_ERR_BUSY,
                                "no kernel is made inside a constructor");
    } else if (fy_own_thread_start(&thread, STACK_BYTES, work, &job) != 0) {
        job.status = cuda_error(device, FY_ERR_BUSY, "no thread can be had");
    } else {
        (void)pthread_join(thread, NULL);
    }
    pthread_mutex_unlock(&device->kernels_lock);
    (void)pthread_setcancelstate(cancel, NULL);
    if (job.status == FY_OK) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): work() has set it */
        *out = job.kernel->function;
    }
    return job.status == FY_ERR_INVALID || job.status == FY_ERR_NOENT
               ? FY_ERR_COMPILE
               : job.status;
}

void
cuda_kernels_end(struct cuda_device *device, bool unload)
{
    while (device->kernels) {
        struct cuda_kernel *kernel = device->kernels;
        device->kernels = kernel->next;
        if (unload && kernel->module) {
            (void)device->driver->module_unload(kernel->module);
        }
        free(kernel);
    }
}
