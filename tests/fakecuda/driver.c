/* SPDX-License-Identifier: Apache-2.0
 *
 * Initialisation, devices, contexts and error texts of the fake driver. There
 * are primary contexts only. At the end of the process it reports what was
 * never given back, and refuses all later calls, as the real one does.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakecuda/machine.h"

#include "tests/fakecuda/driver_rows.h"

#define STACK_MAX 16

struct fake_machine machine = {.lock = PTHREAD_MUTEX_INITIALIZER,
                               .engine = PTHREAD_MUTEX_INITIALIZER,
                               .done = PTHREAD_COND_INITIALIZER};

static __thread struct {
    struct fake_context *at[STACK_MAX];
    unsigned depth;
} current;

struct fake_context *
fake_current(void)
{
    return current.depth == 0 ? NULL : current.at[current.depth - 1];
}

/* CUDA_VISIBLE_DEVICES: numbers up to the first that is none. */
static void
see_devices(int present)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");

    machine.devices = 0;
    for (int i = 0; text == NULL && i < present; i++) {
        machine.ordinal[machine.devices++] = i;
    }
    while (text != NULL && machine.devices < FAKE_DEVICES_MAX) {
        char *end;
        long number = strtol(text, &end, 10);

        if (end == text || (*end != '\0' && *end != ',') || number < 0 ||
            number >= present) {
            break;
        }
        machine.ordinal[machine.devices++] = (int)number;
        text = *end == ',' ? end + 1 : NULL;
    }
}

CUresult
fake_cuInit(unsigned int Flags)
{
    int result = CUDA_SUCCESS;
    uint64_t present = fakecuda_setting("DEVICES", 1);

    if (Flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    if (machine.ended) {
        result = CUDA_ERROR_DEINITIALIZED;
    } else if (!machine.initialised) {
        see_devices(present < FAKE_DEVICES_MAX ? (int)present
                                               : FAKE_DEVICES_MAX);
        const struct fake_card *card = fake_card();
        machine.limit_bytes = (size_t)fakecuda_setting(
            "MEMORY", card != NULL ? card->memory_bytes : (uint64_t)1 << 30);
        machine.pinned_limit_bytes = (size_t)fakecuda_setting(
            "PINNED_MEMORY", (uint64_t)(card != NULL ? 64 : 4) << 30);
        result = fake_card_is_wrong()   ? CUDA_ERROR_INVALID_VALUE
                 : machine.devices == 0 ? CUDA_ERROR_NO_DEVICE
                                        : fake_memory_open();
        for (int i = 0; i < machine.devices; i++) {
            machine.context[i].device = i;
        }
        if (result == CUDA_SUCCESS) {
            __atomic_store_n(&machine.pid, getpid(), __ATOMIC_RELEASE);
            machine.initialised = true;
        }
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuDriverGetVersion(int *driverVersion)
{
    if (driverVersion == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *driverVersion = (int)fakecuda_setting("DRIVER", 13000);
    return CUDA_SUCCESS;
}

__attribute__((destructor)) static void
end(void)
{
    if (machine.pid == 0 || machine.pid != getpid()) {
        return;
    }
    (void)pthread_mutex_lock(&machine.lock);
    fake_streams_stop();
    for (int i = 0; i < machine.devices; i++) {
        if (machine.context[i].legacy != NULL) {
            fakecuda_destroy(machine.context[i].legacy);
        }
    }
    fake_objects_report();
    fake_memory_report();
    fake_engines_report();
    fakecuda_note("end", "%lu calls, %lu operations, %lu leaks, %lu races",
                  fakecuda_count("calls"), fakecuda_count("operations"),
                  fakecuda_count("leak"), fakecuda_count("race"));
    (void)pthread_mutex_unlock(&machine.lock);
}

static const struct {
    int code;
    const char *name;
    const char *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED",
     "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED",
     "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
     "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE",
     "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE",
     "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
     "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE",
     "uncorrectable ECC error encountered"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX",
     "a PTX JIT compilation failed"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM",
     "OS call failed or operation not supported on this OS"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE",
     "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
     "context is destroyed"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
     "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
     "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED",
     "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED",
     "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
     "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
     "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int
error_word(CUresult error, bool text, const char **word)
{
    *word = NULL;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].code == error) {
            *word = text ? errors[i].text : errors[i].name;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult
fake_cuGetErrorName(CUresult error, const char **pStr)
{
    return error_word(error, false, pStr);
}

CUresult
fake_cuGetErrorString(CUresult error, const char **pStr)
{
    return error_word(error, true, pStr);
}

CUresult
fake_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                         cuuint64_t flags,
                         CUdriverProcAddressQueryResult *symbolStatus)
{
    const struct fake_symbol *plain = NULL, *second = NULL;
    char name[80];

    (void)cudaVersion;
    (void)flags;
    if (symbol == NULL || pfn == NULL ||
        snprintf(name, sizeof(name), "%s_v2", symbol) >= (int)sizeof(name)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (const struct fake_symbol *one = fake_driver_symbols; one->name != NULL;
         one++) {
        if (strcmp(one->name, name) == 0) {
            second = one;
        } else if (strcmp(one->name, symbol) == 0) {
            plain = one;
        }
    }
    plain = second != NULL ? second : plain;
    *pfn = plain == NULL ? NULL : plain->address;
    if (symbolStatus != NULL) {
        *symbolStatus = plain == NULL;
    }
    return plain == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult
fake_cuDeviceGetCount(int *count)
{
    *count = machine.devices;
    return CUDA_SUCCESS;
}

static bool
is_device(CUdevice dev)
{
    return dev >= 0 && dev < machine.devices;
}

CUresult
fake_cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!is_device(ordinal)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult
fake_cuDeviceGetName(char *name, int len, CUdevice dev)
{
    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (name == NULL || len <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)snprintf(name, (size_t)len, "%s",
                   fake_card() != NULL ? fake_card()->title
                                       : "Fake CUDA device");
    return CUDA_SUCCESS;
}

CUresult
fake_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    /* Of the machine that several processes share; else of none. */
    const char *share = getenv("FAKECUDA_SHARED");
    memset(uuid->bytes, 0, sizeof(uuid->bytes));
    for (size_t i = 0; share != NULL && share[i] != '\0'; i++) {
        uuid->bytes[i % 15] = (char)(uuid->bytes[i % 15] * 31 + share[i]);
    }
    uuid->bytes[15] = (char)machine.ordinal[dev];
    return CUDA_SUCCESS;
}

CUresult
fake_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    int result = fake_cuDeviceGetUuid_v2(uuid, dev);

    if (result == CUDA_SUCCESS && fakecuda_setting("MIG", 0) != 0) {
        uuid->bytes[15] = 0; /* of the card that they are parts of */
    }
    return result;
}

CUresult
fake_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (pciBusId == NULL || len <= 12) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)snprintf(pciBusId, (size_t)len, "0000:%02x:00.0",
                   (unsigned)machine.ordinal[dev] + 1);
    return CUDA_SUCCESS;
}

CUresult
fake_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *bytes = machine.limit_bytes;
    return CUDA_SUCCESS;
}

CUresult
fake_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    static const struct {
        CUdevice_attribute attribute;
        int value;
    } values[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
        {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
        {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 256},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0},
        {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    };

    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (values[i].attribute == attrib) {
            *pi = values[i].value;
            if (attrib ==
                CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) {
                *pi = (int)fakecuda_setting("VIRTUAL", 1);
            } else if (attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) {
                *pi = (int)fakecuda_setting("MODE", CU_COMPUTEMODE_DEFAULT);
            } else if (fake_card() != NULL) {
                *pi = attrib == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
                          ? fake_card()->processors
                      : attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
                          ? fake_card()->major
                      : attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
                          ? fake_card()->minor
                          : *pi;
            }
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult
fake_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    struct fake_context *context;
    int result = CUDA_SUCCESS;

    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (fakecuda_setting("MODE", 0) == CU_COMPUTEMODE_PROHIBITED) {
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    context = &machine.context[dev];
    if (context->legacy == NULL) {
        context->legacy = fake_stream_new(context, 0, 0);
    }
    if (context->legacy == NULL) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        context->retained++;
        *pctx = context;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

/* Callers hold machine.lock. */
static void
end_context(struct fake_context *context)
{
    fake_context_drain(context);
    fake_memory_drop(context);
    context->retained = 0;
    context->sticky = 0;
}

CUresult
fake_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    int result = CUDA_SUCCESS;

    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    if (machine.context[dev].retained == 0) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (--machine.context[dev].retained == 0) {
        end_context(&machine.context[dev]);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    end_context(&machine.context[dev]);
    (void)pthread_mutex_unlock(&machine.lock);
    return CUDA_SUCCESS;
}

CUresult
fake_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    machine.context[dev].flags = flags;
    return CUDA_SUCCESS;
}

CUresult
fake_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    if (!is_device(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *flags = machine.context[dev].flags;
    *active = machine.context[dev].retained != 0;
    return CUDA_SUCCESS;
}

static bool
is_context(const struct fake_context *ctx)
{
    for (int i = 0; i < machine.devices; i++) {
        if (ctx == &machine.context[i]) {
            return true;
        }
    }
    return false;
}

CUresult
fake_cuCtxSetCurrent(CUcontext ctx)
{
    if (ctx != NULL && !is_context(ctx)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (ctx == NULL) {
        current.depth -= current.depth != 0;
    } else {
        current.depth += current.depth == 0;
        current.at[current.depth - 1] = ctx;
    }
    return CUDA_SUCCESS;
}

CUresult
fake_cuCtxGetCurrent(CUcontext *pctx)
{
    *pctx = fake_current();
    return CUDA_SUCCESS;
}

CUresult
fake_cuCtxPushCurrent_v2(CUcontext ctx)
{
    if (!is_context(ctx) || current.depth == STACK_MAX) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    current.at[current.depth++] = ctx;
    return CUDA_SUCCESS;
}

CUresult
fake_cuCtxPopCurrent_v2(CUcontext *pctx)
{
    if (current.depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    current.depth--;
    if (pctx != NULL) {
        *pctx = current.at[current.depth];
    }
    return CUDA_SUCCESS;
}

CUresult
fake_cuCtxGetDevice(CUdevice *device)
{
    *device = fake_current()->device;
    return CUDA_SUCCESS;
}

CUresult
fake_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    if (!is_context(ctx == NULL ? fake_current() : ctx)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult
fake_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    if (leastPriority != NULL) {
        *leastPriority = 0;
    }
    if (greatestPriority != NULL) {
        *greatestPriority = -5;
    }
    return CUDA_SUCCESS;
}

CUresult
fake_cuCtxSynchronize(void)
{
    struct fake_context *context = fake_current();
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    fake_context_drain(context);
    result = context->sticky;
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}
