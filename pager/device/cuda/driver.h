/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, found at run time: ferry is built, packaged and started
 * without CUDA. Own declarations of the functions, structs and numbers it uses
 * (CUDA Driver API reference, 11.0 to 13.0); a test compares them with the
 * toolkit's header where one is installed. Driver API only: the primary
 * context is the one that cuBLAS and the program itself use.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_DRIVER_H
#define FERRY_PAGER_DEVICE_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* CUresult; the ones that ferry treats each in its own way. */
enum {
    FY_CUDA_SUCCESS = 0,
    FY_CUDA_INVALID_VALUE = 1,
    FY_CUDA_NOT_READY = 600,
    FY_CUDA_OUT_OF_MEMORY = 2,
    FY_CUDA_NOT_INITIALIZED = 3,
    FY_CUDA_DEINITIALIZED = 4,
    FY_CUDA_STUB_LIBRARY = 34,
    FY_CUDA_DEVICE_UNAVAILABLE = 46,
    FY_CUDA_NO_DEVICE = 100,
    FY_CUDA_INVALID_DEVICE = 101,
    FY_CUDA_INVALID_IMAGE = 200,
    FY_CUDA_INVALID_CONTEXT = 201,
    FY_CUDA_NO_BINARY = 209,
    FY_CUDA_ECC_UNCORRECTABLE = 214,
    FY_CUDA_INVALID_PTX = 218,
    FY_CUDA_NVLINK_UNCORRECTABLE = 220,
    FY_CUDA_NO_JIT_COMPILER = 221,
    FY_CUDA_UNSUPPORTED_PTX = 222,
    FY_CUDA_JIT_DISABLED = 223,
    FY_CUDA_CONTAINED = 226,
    FY_CUDA_INVALID_HANDLE = 400,
    FY_CUDA_NOT_FOUND = 500,
    FY_CUDA_ILLEGAL_ADDRESS = 700,
    FY_CUDA_LAUNCH_TIMEOUT = 702,
    FY_CUDA_CONTEXT_IS_DESTROYED = 709,
    FY_CUDA_ASSERT = 710,
    FY_CUDA_HARDWARE_STACK_ERROR = 714,
    FY_CUDA_LAUNCH_FAILED = 719,
    FY_CUDA_NOT_PERMITTED = 800,
    FY_CUDA_NOT_SUPPORTED = 801,
    FY_CUDA_TENSOR_MEMORY_LEAK = 721,
    FY_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    FY_CUDA_MPS_CLIENT_TERMINATED = 810,
    FY_CUDA_EXTERNAL_DEVICE = 911,
    FY_CUDA_UNKNOWN = 999
};

/* CUdevice_attribute, CUpointer_attribute, CUmemorytype, flags. */
enum {
    FY_CUDA_MAX_PITCH = 11,
    FY_CUDA_COMPUTE_MODE = 20,
    FY_CUDA_PROHIBITED = 2,
    FY_CUDA_EXCLUSIVE_PROCESS = 3,
    FY_CUDA_CAPTURE_RELAXED = 2,
    FY_CUDA_COMPUTE_CAPABILITY_MAJOR = 75,
    FY_CUDA_COMPUTE_CAPABILITY_MINOR = 76,
    FY_CUDA_CAN_MAP = 102,
    FY_CUDA_POINTER_MEMORY_TYPE = 2,
    FY_CUDA_POINTER_BUFFER_ID = 7,
    FY_CUDA_POINTER_RANGE_START = 11,
    FY_CUDA_POINTER_RANGE_BYTES = 12,
    FY_CUDA_MEMORY_HOST = 1,
    FY_CUDA_MEMORY_DEVICE = 2,
    FY_CUDA_MEMORY_PINNED = 1,
    FY_CUDA_LOCATION_DEVICE = 1,
    FY_CUDA_ACCESS_READ_WRITE = 3,
    FY_CUDA_STREAM_NON_BLOCKING = 1,
    FY_CUDA_EVENT_BLOCKING_SYNC = 1,
    FY_CUDA_EVENT_DISABLE_TIMING = 2
};

/* CUDA_MEMCPY2D_v2 and CUDA_MEMCPY3D_v2: host and device sides, no arrays. */
struct fy_cuda_copy2 {
    size_t from_x, from_y;
    unsigned from_type;
    const void *from_host;
    uint64_t from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    unsigned to_type;
    void *to_host;
    uint64_t to_device;
    void *to_array;
    size_t to_pitch;
    size_t width_bytes, height;
};

struct fy_cuda_copy3 {
    size_t from_x, from_y, from_z, from_lod;
    unsigned from_type;
    const void *from_host;
    uint64_t from_device;
    void *from_array, *reserved0;
    size_t from_pitch, from_height;
    size_t to_x, to_y, to_z, to_lod;
    unsigned to_type;
    void *to_host;
    uint64_t to_device;
    void *to_array, *reserved1;
    size_t to_pitch, to_height;
    size_t width_bytes, height, depth;
};

/* CUmemLocation, CUmemAllocationProp and CUmemAccessDesc. */
struct fy_cuda_location {
    int type, unit;
};

struct fy_cuda_memory_kind {
    int type, handle_types;
    struct fy_cuda_location location;
    void *security;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

struct fy_cuda_access {
    struct fy_cuda_location location;
    int flags;
};

/* Handles of the driver: contexts, streams, events. */
typedef void *fy_cuda_handle;

/*
 * One row per function: member, exported name, parameters. All are in every
 * driver since 11.0, and each is required.
 */
#define FY_CUDA_FUNCTIONS(X)                                                   \
    X(init, "cuInit", (unsigned flags))                                        \
    X(driver_version, "cuDriverGetVersion", (int *version))                    \
    X(error_name, "cuGetErrorName", (int error, const char **name))            \
    X(error_string, "cuGetErrorString", (int error, const char **text))        \
    X(device_count, "cuDeviceGetCount", (int *count))                          \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                   \
    X(device_attribute, "cuDeviceGetAttribute",                                \
      (int *value, int attribute, int device))                                 \
    X(device_uuid, "cuDeviceGetUuid", (unsigned char *uuid, int device))       \
    X(context_state, "cuDevicePrimaryCtxGetState",                             \
      (int device, unsigned *flags, int *active))                              \
    X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))          \
    X(context_retain, "cuDevicePrimaryCtxRetain",                              \
      (fy_cuda_handle * context, int device))                                  \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))           \
    X(context_push, "cuCtxPushCurrent_v2", (fy_cuda_handle context))           \
    X(context_pop, "cuCtxPopCurrent_v2", (fy_cuda_handle * context))           \
    X(memory_info, "cuMemGetInfo_v2", (size_t * unused, size_t * total))       \
    X(alloc, "cuMemAlloc_v2", (uint64_t * address, size_t bytes))              \
    X(free, "cuMemFree_v2", (uint64_t address))                                \
    X(granularity, "cuMemGetAllocationGranularity",                            \
      (size_t * bytes, const struct fy_cuda_memory_kind *kind, int option))    \
    X(address_reserve, "cuMemAddressReserve",                                  \
      (uint64_t * address, size_t bytes, size_t alignment, uint64_t near,      \
       unsigned long long flags))                                              \
    X(address_free, "cuMemAddressFree", (uint64_t address, size_t bytes))      \
    X(memory_create, "cuMemCreate",                                            \
      (uint64_t * handle, size_t bytes,                                        \
       const struct fy_cuda_memory_kind *kind, unsigned long long flags))      \
    X(memory_release, "cuMemRelease", (uint64_t handle))                       \
    X(memory_map, "cuMemMap",                                                  \
      (uint64_t address, size_t bytes, size_t offset, uint64_t handle,         \
       unsigned long long flags))                                              \
    X(memory_unmap, "cuMemUnmap", (uint64_t address, size_t bytes))            \
    X(memory_access, "cuMemSetAccess",                                         \
      (uint64_t address, size_t bytes, const struct fy_cuda_access *access,    \
       size_t count))                                                          \
    X(host_alloc, "cuMemHostAlloc",                                            \
      (void **address, size_t bytes, unsigned flags))                          \
    X(host_free, "cuMemFreeHost", (void *address))                             \
    X(pointer_attribute, "cuPointerGetAttribute",                              \
      (void *value, int attribute, uint64_t address))                          \
    X(copy_in, "cuMemcpyHtoDAsync_v2",                                         \
      (uint64_t to, const void *from, size_t bytes, fy_cuda_handle stream))    \
    X(copy_out, "cuMemcpyDtoHAsync_v2",                                        \
      (void *to, uint64_t from, size_t bytes, fy_cuda_handle stream))          \
    X(copy2, "cuMemcpy2DAsync_v2",                                             \
      (const struct fy_cuda_copy2 *copy, fy_cuda_handle stream))               \
    X(copy3, "cuMemcpy3DAsync_v2",                                             \
      (const struct fy_cuda_copy3 *copy, fy_cuda_handle stream))               \
    X(set32, "cuMemsetD32Async",                                               \
      (uint64_t address, unsigned value, size_t words, fy_cuda_handle stream)) \
    X(stream_create, "cuStreamCreate",                                         \
      (fy_cuda_handle * stream, unsigned flags))                               \
    X(stream_destroy, "cuStreamDestroy_v2", (fy_cuda_handle stream))           \
    X(stream_sync, "cuStreamSynchronize", (fy_cuda_handle stream))             \
    X(stream_wait, "cuStreamWaitEvent",                                        \
      (fy_cuda_handle stream, fy_cuda_handle event, unsigned flags))           \
    X(event_create, "cuEventCreate", (fy_cuda_handle * event, unsigned flags)) \
    X(event_destroy, "cuEventDestroy_v2", (fy_cuda_handle event))              \
    X(event_record, "cuEventRecord",                                           \
      (fy_cuda_handle event, fy_cuda_handle stream))                           \
    X(event_query, "cuEventQuery", (fy_cuda_handle event))                     \
    X(event_sync, "cuEventSynchronize", (fy_cuda_handle event))                \
    X(module_load, "cuModuleLoadDataEx",                                       \
      (fy_cuda_handle * module, const void *image, unsigned options,           \
       int *names, void **values))                                             \
    X(module_unload, "cuModuleUnload", (fy_cuda_handle module))                \
    X(module_function, "cuModuleGetFunction",                                  \
      (fy_cuda_handle * function, fy_cuda_handle module, const char *name))    \
    X(launch, "cuLaunchKernel",                                                \
      (fy_cuda_handle function, unsigned grid_x, unsigned grid_y,              \
       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,  \
       unsigned shared_bytes, fy_cuda_handle stream, void **parameters,        \
       void **extra))

/* Functions of newer drivers: NULL if the driver has none. */
#define FY_CUDA_OPTIONAL(X)                                                  \
    X(device_uuid2, "cuDeviceGetUuid_v2", (unsigned char *uuid, int device)) \
    X(parameter_info, "cuFuncGetParamInfo",                                  \
      (fy_cuda_handle function, size_t number, size_t * offset,              \
       size_t * bytes))

struct fy_cuda_driver {
#define FY_CUDA_MEMBER(member, name, parameters) int(*member) parameters;
    FY_CUDA_FUNCTIONS(FY_CUDA_MEMBER)
    FY_CUDA_OPTIONAL(FY_CUDA_MEMBER)
#undef FY_CUDA_MEMBER
    int version; /* 1000 * major + 10 * minor of CUDA */
    int devices; /* visible ones, at least 1 */
};

enum {
    FY_CUDA_TEXT_BYTES = 256
};

/*
 * The driver, loaded and initialised by the first caller of the process; every
 * later one gets the same answer. FY_ERR_NOENT: no driver, no visible device,
 * or a forked child of a process that has one; `why' then says it in a line.
 * Any thread.
 */
int fy_cuda_driver_get(const struct fy_cuda_driver **out,
                       char why[FY_CUDA_TEXT_BYTES]) FY_MUST_CHECK;

/* Returns true if fy_cuda_driver_get() has been called in this process or a
 * parent. */
bool fy_cuda_driver_is_asked(void);

/*
 * False in a forked child of a process that has asked for the driver: there it
 * must not be called, and locks may be held by threads that are gone.
 */
bool fy_cuda_driver_is_ours(void);

/*
 * Returns true if other threads can look up symbols: false while the caller is
 * in a library's constructor, where the loader is locked and CUDA's libraries,
 * on the engine's threads, would wait for it for ever. Starts and ends a
 * thread, and waits for it so long at most.
 */
bool fy_cuda_loader_is_free(unsigned seconds);

/* The UUID of a card, or of the part of one (MIG) that the device is. */
int fy_cuda_uuid(const struct fy_cuda_driver *driver, int device,
                 unsigned char uuid[16]);

/* "WHAT: TEXT of the driver (NAME)" for a result that is not success. */
void fy_cuda_describe(const struct fy_cuda_driver *driver, const char *what,
                      int result, char text[FY_CUDA_TEXT_BYTES]);

/* Returns true if the context is of no use after this result. */
bool fy_cuda_is_fatal(int result);

/*
 * Has `quiet' called when the process exits, before the driver and the
 * libraries loaded so far take themselves down. Again after each new library.
 */
void fy_cuda_before_exit(void (*quiet)(void));

#endif
