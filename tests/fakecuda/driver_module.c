/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules and kernels of the fake driver: what the fake NVRTC made. The
 * arguments of a launch are read at the call; pointers among them become the
 * fake's own view of device memory when the kernel runs, and hold what they
 * point into until then.
 */
#include "config.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakecuda/image.h"
#include "tests/fakecuda/machine.h"

#include "tests/fakecuda/driver_rows.h"

#define ARGUMENTS_MAX      96
#define ARGUMENT_BYTES_MAX 4096

struct fake_module {
    void *object;
};

struct fake_function {
    struct fake_module *module;
    fake_launcher *launch;
    size_t count;
    unsigned long sizes[ARGUMENTS_MAX];
};

_Static_assert(sizeof(struct fake_function) <= FAKE_OBJECT_BYTES,
               "a function is an object");

static int
digit(char letter)
{
    return letter >= '0' && letter <= '9' ? letter - '0' : letter - 'a' + 10;
}

/* The object in the text, in an unnamed file that is loaded. */
static void *
load_object(const char *digits)
{
    static unsigned loaded;
    int file = memfd_create("fakecuda-module", MFD_CLOEXEC);
    char path[4096];
    void *object = NULL;

    if (file < 0) {
        return NULL;
    }
    FILE *stream = fdopen(file, "w+");
    if (stream == NULL) {
        (void)close(file);
        return NULL;
    }
    for (; digits[0] > ' ' && digits[1] > ' '; digits += 2) {
        (void)fputc(digit(digits[0]) * 16 + digit(digits[1]), stream);
    }
    if (fflush(stream) == 0) {
        /* The loader knows objects by their names, too: a slash more each. */
        unsigned slashes = __atomic_add_fetch(&loaded, 1, __ATOMIC_RELAXED);
        memset(path, '/', sizeof(path));
        memcpy(path, "/proc/self/fd", 13);
        (void)snprintf(path + 13 + slashes % 4000, 16, "%d", file);
        object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (object == NULL) {
            fakecuda_note("module", "%s", dlerror());
        }
    }
    (void)fclose(stream);
    return object;
}

CUresult
fake_cuModuleLoadData(CUmodule *module, const void *image)
{
    int major, minor, target;
    const char *body;

    if (module == NULL || image == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sscanf(image, FAKE_IMAGE_HEAD FAKE_IMAGE_TARGET, &major, &minor,
               &target) != 3) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    body = strstr(image, FAKE_IMAGE_BODY);
    if (body == NULL) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (fakecuda_setting("DRIVER", 13000) < 13000) {
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    if (target > 90) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    void *object = load_object(body + strlen(FAKE_IMAGE_BODY));
    if (object == NULL) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *module = fakecuda_new(FAKE_MODULE, sizeof(**module), "cuModuleLoadData");
    if (*module == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*module)->object = object;
    return CUDA_SUCCESS;
}

CUresult
fake_cuModuleLoadDataEx(CUmodule *module, const void *image,
                        unsigned int numOptions, CUjit_option *options,
                        void **optionValues)
{
    (void)numOptions;
    (void)options;
    (void)optionValues;
    return fake_cuModuleLoadData(module, image);
}

/* The object stays mapped: a kernel of it may be in a queue. */
CUresult
fake_cuModuleUnload(CUmodule hmod)
{
    if (!fakecuda_valid(hmod, FAKE_MODULE)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    fakecuda_destroy(hmod);
    return CUDA_SUCCESS;
}

CUresult
fake_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    struct fake_function *function;
    fake_launcher *launch;
    fake_sizer *sizer;
    char symbol[160];

    if (!fakecuda_valid(hmod, FAKE_MODULE)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (hfunc == NULL || name == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)snprintf(symbol, sizeof(symbol), "fakecuda_launch_%s", name);
    launch = (fake_launcher *)dlsym(hmod->object, symbol);
    (void)snprintf(symbol, sizeof(symbol), "fakecuda_sizes_%s", name);
    sizer = (fake_sizer *)dlsym(hmod->object, symbol);
    if (launch == NULL || sizer == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    function =
        fakecuda_new(FAKE_FUNCTION, sizeof(*function), "cuModuleGetFunction");
    if (function == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    function->module = hmod;
    function->launch = launch;
    function->count = sizer(function->sizes, ARGUMENTS_MAX);
    *hfunc = function;
    return function->count > ARGUMENTS_MAX ? CUDA_ERROR_NOT_SUPPORTED
                                           : CUDA_SUCCESS;
}

CUresult
fake_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    if (!fakecuda_valid(hfunc, FAKE_FUNCTION)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    /* The first one: threads of a block; the others are sizes. */
    *pi = attrib == 0 ? 1024 : 0;
    return CUDA_SUCCESS;
}

CUresult
fake_cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                        size_t *paramSize)
{
    size_t at = 0;

    if (!fakecuda_valid(func, FAKE_FUNCTION)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (paramIndex >= func->count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i <= paramIndex; i++) {
        at = (at + func->sizes[i] - 1) / func->sizes[i] * func->sizes[i];
        *paramOffset = at;
        *paramSize = func->sizes[i];
        at += func->sizes[i];
    }
    return CUDA_SUCCESS;
}

struct launch {
    fake_launcher *launch;
    struct fake_grid grid;
    size_t count;
    unsigned long offset[ARGUMENTS_MAX];
    max_align_t arguments[ARGUMENT_BYTES_MAX / sizeof(max_align_t)];
};

static __thread jmp_buf *outside;

/* NULL stays NULL: a kernel may be told to leave something out. */
static void *
translate(void *address)
{
    void *found = address == NULL ? NULL : fakecuda_at((uintptr_t)address, 1);

    if (address != NULL && found == NULL) {
        fakecuda_note("illegal-address", "kernel argument %p", address);
        longjmp(*outside, 1);
    }
    return found;
}

static int
run_kernel(void *argument)
{
    struct launch *launch = argument;
    void *arguments[ARGUMENTS_MAX];
    jmp_buf here;

    for (size_t i = 0; i < launch->count; i++) {
        arguments[i] = (char *)launch->arguments + launch->offset[i];
    }
    outside = &here;
    if (setjmp(here) != 0) {
        outside = NULL;
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    launch->launch(&launch->grid, arguments, translate);
    if (launch->grid.spilled != 0) {
        fakecuda_note("illegal-address", "shared memory beyond its %u bytes",
                      launch->grid.shared_bytes);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

/* Copies the arguments, and finds those that point into device memory. */
static int
take_arguments(const struct fake_function *function, void **parameters,
               struct launch *launch, struct fake_use *uses, size_t *n_uses)
{
    size_t at = 0;

    for (size_t i = 0; i < function->count; i++) {
        size_t bytes = function->sizes[i];
        uint64_t value;

        if (parameters == NULL || parameters[i] == NULL ||
            at + bytes > ARGUMENT_BYTES_MAX) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        launch->offset[i] = at;
        memcpy((char *)launch->arguments + at, parameters[i], bytes);
        if (bytes == sizeof(value) && *n_uses < FAKE_USES_MAX) {
            memcpy(&value, parameters[i], sizeof(value));
            if (fakecuda_is_device(value)) {
                uses[(*n_uses)++] =
                    (struct fake_use){value, 1, 0, 1, true, true};
            }
        }
        at += (bytes + 15) / 16 * 16;
    }
    return CUDA_SUCCESS;
}

CUresult
fake_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                    unsigned int gridDimZ, unsigned int blockDimX,
                    unsigned int blockDimY, unsigned int blockDimZ,
                    unsigned int sharedMemBytes, CUstream hStream,
                    void **kernelParams, void **extra)
{
    struct fake_use uses[FAKE_USES_MAX];
    struct launch launch = {.grid = {{gridDimX, gridDimY, gridDimZ},
                                     {blockDimX, blockDimY, blockDimZ},
                                     sharedMemBytes,
                                     0}};
    size_t n_uses = 0;
    int result;

    if (!fakecuda_valid(f, FAKE_FUNCTION) ||
        !fakecuda_valid(f->module, FAKE_MODULE)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (gridDimX == 0 || gridDimX > 2147483647 || gridDimY == 0 ||
        gridDimY > 65535 || gridDimZ == 0 || gridDimZ > 65535 ||
        blockDimX == 0 || blockDimY == 0 || blockDimZ == 0 || blockDimZ > 64 ||
        (uint64_t)blockDimX * blockDimY * blockDimZ > 1024 ||
        sharedMemBytes > 49152) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (extra != NULL) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    launch.launch = f->launch;
    launch.count = f->count;
    result = take_arguments(f, kernelParams, &launch, uses, &n_uses);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return fakecuda_submit(hStream, "cuLaunchKernel", run_kernel, &launch,
                           sizeof(launch), uses, n_uses);
}
