/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry's own declarations of the CUDA driver against the toolkit's header,
 * where one is installed: numbers, structs to the byte, and the versions of the
 * functions (cuMemAlloc_v2). Parameters are checked by the fake driver, whose
 * rows are the header's prototypes.
 */
#include "config.h"

#include <check.h>
#include <stddef.h>
#include <stdlib.h>

#include "pager/device/cuda/driver.h"

#if defined(__has_include)
#if __has_include("/usr/local/cuda/include/cuda.h")
#define HAVE_TOOLKIT 1
#include "/usr/local/cuda/include/cuda.h"
#include "tests/unit/runner.h"
#endif
#endif

#ifdef HAVE_TOOLKIT

START_TEST(test_numbers)
{
    ck_assert_int_eq(FY_CUDA_SUCCESS, CUDA_SUCCESS);
    ck_assert_int_eq(FY_CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(FY_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(FY_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
    ck_assert_int_eq(FY_CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
    ck_assert_int_eq(FY_CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
    ck_assert_int_eq(FY_CUDA_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(FY_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
    ck_assert_int_eq(FY_CUDA_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
    ck_assert_int_eq(FY_CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
    ck_assert_int_eq(FY_CUDA_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
    ck_assert_int_eq(FY_CUDA_NVLINK_UNCORRECTABLE,
                     CUDA_ERROR_NVLINK_UNCORRECTABLE);
    ck_assert_int_eq(FY_CUDA_CONTAINED, CUDA_ERROR_CONTAINED);
    ck_assert_int_eq(FY_CUDA_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
    ck_assert_int_eq(FY_CUDA_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
    ck_assert_int_eq(FY_CUDA_MPS_CLIENT_TERMINATED,
                     CUDA_ERROR_MPS_CLIENT_TERMINATED);
    ck_assert_int_eq(FY_CUDA_EXTERNAL_DEVICE, CUDA_ERROR_EXTERNAL_DEVICE);
    ck_assert_int_eq(FY_CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
    ck_assert_int_eq(FY_CUDA_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
    ck_assert_int_eq(FY_CUDA_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
    ck_assert_int_eq(FY_CUDA_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
    ck_assert_int_eq(FY_CUDA_NO_JIT_COMPILER,
                     CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
    ck_assert_int_eq(FY_CUDA_UNSUPPORTED_PTX,
                     CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    ck_assert_int_eq(FY_CUDA_JIT_DISABLED, CUDA_ERROR_JIT_COMPILATION_DISABLED);
    ck_assert_int_eq(FY_CUDA_COMPUTE_CAPABILITY_MAJOR,
                     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    ck_assert_int_eq(FY_CUDA_COMPUTE_CAPABILITY_MINOR,
                     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    ck_assert_int_eq(FY_CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(FY_CUDA_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
    ck_assert_int_eq(FY_CUDA_CONTEXT_IS_DESTROYED,
                     CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ck_assert_int_eq(FY_CUDA_ASSERT, CUDA_ERROR_ASSERT);
    ck_assert_int_eq(FY_CUDA_HARDWARE_STACK_ERROR,
                     CUDA_ERROR_HARDWARE_STACK_ERROR);
    ck_assert_int_eq(FY_CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
    ck_assert_int_eq(FY_CUDA_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
    ck_assert_int_eq(FY_CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
    ck_assert_int_eq(FY_CUDA_SYSTEM_DRIVER_MISMATCH,
                     CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
    ck_assert_int_eq(FY_CUDA_UNKNOWN, CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(FY_CUDA_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
    ck_assert_int_eq(FY_CUDA_PROHIBITED, CU_COMPUTEMODE_PROHIBITED);
    ck_assert_int_eq(FY_CUDA_EXCLUSIVE_PROCESS,
                     CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
    ck_assert_int_eq(FY_CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
    ck_assert_int_eq(FY_CUDA_MAX_PITCH, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    ck_assert_int_eq(FY_CUDA_CAN_MAP,
                     CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    ck_assert_int_eq(FY_CUDA_MEMORY_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
    ck_assert_int_eq(FY_CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
    ck_assert_int_eq(FY_CUDA_ACCESS_READ_WRITE,
                     CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ck_assert_int_eq(FY_CUDA_POINTER_MEMORY_TYPE,
                     CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    ck_assert_int_eq(FY_CUDA_POINTER_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID);
    ck_assert_int_eq(FY_CUDA_POINTER_RANGE_START,
                     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
    ck_assert_int_eq(FY_CUDA_POINTER_RANGE_BYTES,
                     CU_POINTER_ATTRIBUTE_RANGE_SIZE);
    ck_assert_int_eq(FY_CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST);
    ck_assert_int_eq(FY_CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
    ck_assert_int_eq(FY_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
    ck_assert_int_eq(FY_CUDA_EVENT_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC);
    ck_assert_int_eq(FY_CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
}
END_TEST

#define SAME(ours, member, theirs, field)                                      \
    ck_assert_uint_eq(offsetof(struct ours, member), offsetof(theirs, field)); \
    ck_assert_uint_eq(sizeof(((struct ours *)0)->member),                      \
                      sizeof(((theirs *)0)->field))

#define SAME_SIDES(ours, theirs)                   \
    SAME(ours, from_x, theirs, srcXInBytes);       \
    SAME(ours, from_y, theirs, srcY);              \
    SAME(ours, from_type, theirs, srcMemoryType);  \
    SAME(ours, from_host, theirs, srcHost);        \
    SAME(ours, from_device, theirs, srcDevice);    \
    SAME(ours, from_array, theirs, srcArray);      \
    SAME(ours, from_pitch, theirs, srcPitch);      \
    SAME(ours, to_x, theirs, dstXInBytes);         \
    SAME(ours, to_y, theirs, dstY);                \
    SAME(ours, to_type, theirs, dstMemoryType);    \
    SAME(ours, to_host, theirs, dstHost);          \
    SAME(ours, to_device, theirs, dstDevice);      \
    SAME(ours, to_array, theirs, dstArray);        \
    SAME(ours, to_pitch, theirs, dstPitch);        \
    SAME(ours, width_bytes, theirs, WidthInBytes); \
    SAME(ours, height, theirs, Height);            \
    ck_assert_uint_eq(sizeof(struct ours), sizeof(theirs))

START_TEST(test_structs)
{
    SAME_SIDES(fy_cuda_copy2, CUDA_MEMCPY2D);
    SAME_SIDES(fy_cuda_copy3, CUDA_MEMCPY3D);
    SAME(fy_cuda_copy3, from_z, CUDA_MEMCPY3D, srcZ);
    SAME(fy_cuda_copy3, from_lod, CUDA_MEMCPY3D, srcLOD);
    SAME(fy_cuda_copy3, from_height, CUDA_MEMCPY3D, srcHeight);
    SAME(fy_cuda_copy3, to_z, CUDA_MEMCPY3D, dstZ);
    SAME(fy_cuda_copy3, to_lod, CUDA_MEMCPY3D, dstLOD);
    SAME(fy_cuda_copy3, to_height, CUDA_MEMCPY3D, dstHeight);
    SAME(fy_cuda_copy3, depth, CUDA_MEMCPY3D, Depth);
    SAME(fy_cuda_copy3, reserved0, CUDA_MEMCPY3D, reserved0);
    SAME(fy_cuda_copy3, reserved1, CUDA_MEMCPY3D, reserved1);
    SAME(fy_cuda_location, type, CUmemLocation, type);
    SAME(fy_cuda_location, unit, CUmemLocation, id);
    SAME(fy_cuda_memory_kind, type, CUmemAllocationProp, type);
    SAME(fy_cuda_memory_kind, handle_types, CUmemAllocationProp,
         requestedHandleTypes);
    SAME(fy_cuda_memory_kind, location, CUmemAllocationProp, location);
    SAME(fy_cuda_memory_kind, security, CUmemAllocationProp,
         win32HandleMetaData);
    SAME(fy_cuda_memory_kind, usage, CUmemAllocationProp, allocFlags.usage);
    ck_assert_uint_eq(sizeof(struct fy_cuda_memory_kind),
                      sizeof(CUmemAllocationProp));
    SAME(fy_cuda_access, location, CUmemAccessDesc, location);
    SAME(fy_cuda_access, flags, CUmemAccessDesc, flags);
    ck_assert_uint_eq(sizeof(struct fy_cuda_access), sizeof(CUmemAccessDesc));
}
END_TEST

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)

/* What the device asks the driver for, against what the header declares. */
static const struct {
    const char *member, *name;
} rows[] = {
#define ROW(member, name, parameters) {#member, name},
    FY_CUDA_FUNCTIONS(ROW) FY_CUDA_OPTIONAL(ROW)
#undef ROW
};

/* The header maps each function's name to the version that it declares. */
static const struct {
    const char *member, *name;
} declared[] = {
    {"init", TEXT(cuInit)},
    {"driver_version", TEXT(cuDriverGetVersion)},
    {"error_name", TEXT(cuGetErrorName)},
    {"error_string", TEXT(cuGetErrorString)},
    {"device_count", TEXT(cuDeviceGetCount)},
    {"device_get", TEXT(cuDeviceGet)},
    {"device_attribute", TEXT(cuDeviceGetAttribute)},
    {"device_uuid", "cuDeviceGetUuid"}, /* since 9.2; the header has _v2 */
    {"context_state", TEXT(cuDevicePrimaryCtxGetState)},
    {"capture_mode", TEXT(cuThreadExchangeStreamCaptureMode)},
    {"context_retain", TEXT(cuDevicePrimaryCtxRetain)},
    {"context_release", TEXT(cuDevicePrimaryCtxRelease)},
    {"context_push", TEXT(cuCtxPushCurrent)},
    {"context_pop", TEXT(cuCtxPopCurrent)},
    {"memory_info", TEXT(cuMemGetInfo)},
    {"alloc", TEXT(cuMemAlloc)},
    {"free", TEXT(cuMemFree)},
    {"granularity", TEXT(cuMemGetAllocationGranularity)},
    {"address_reserve", TEXT(cuMemAddressReserve)},
    {"address_free", TEXT(cuMemAddressFree)},
    {"memory_create", TEXT(cuMemCreate)},
    {"memory_release", TEXT(cuMemRelease)},
    {"memory_map", TEXT(cuMemMap)},
    {"memory_unmap", TEXT(cuMemUnmap)},
    {"memory_access", TEXT(cuMemSetAccess)},
    {"host_alloc", TEXT(cuMemHostAlloc)},
    {"host_free", TEXT(cuMemFreeHost)},
    {"pointer_attribute", TEXT(cuPointerGetAttribute)},
    {"copy_in", TEXT(cuMemcpyHtoDAsync)},
    {"copy_out", TEXT(cuMemcpyDtoHAsync)},
    {"copy2", TEXT(cuMemcpy2DAsync)},
    {"copy3", TEXT(cuMemcpy3DAsync)},
    {"set32", TEXT(cuMemsetD32Async)},
    {"stream_create", TEXT(cuStreamCreate)},
    {"stream_destroy", TEXT(cuStreamDestroy)},
    {"stream_sync", TEXT(cuStreamSynchronize)},
    {"stream_wait", TEXT(cuStreamWaitEvent)},
    {"event_create", TEXT(cuEventCreate)},
    {"event_destroy", TEXT(cuEventDestroy)},
    {"event_record", TEXT(cuEventRecord)},
    {"event_query", TEXT(cuEventQuery)},
    {"event_sync", TEXT(cuEventSynchronize)},
    {"module_load", TEXT(cuModuleLoadDataEx)},
    {"module_unload", TEXT(cuModuleUnload)},
    {"module_function", TEXT(cuModuleGetFunction)},
    {"launch", TEXT(cuLaunchKernel)},
    {"device_uuid2", "cuDeviceGetUuid_v2"},
    {"parameter_info", TEXT(cuFuncGetParamInfo)},
};

START_TEST(test_names)
{
    ck_assert_uint_eq(sizeof rows / sizeof rows[0],
                      sizeof declared / sizeof declared[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_str_eq(rows[i].member, declared[i].member);
        ck_assert_str_eq(rows[i].name, declared[i].name);
    }
}
END_TEST

#endif

int
main(void)
{
    Suite *suite = suite_create("cuda_driver");
    TCase *tests = tcase_create("cuda_driver");
#ifdef HAVE_TOOLKIT
    tcase_add_test(tests, test_numbers);
    tcase_add_test(tests, test_structs);
    tcase_add_test(tests, test_names);
#endif
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
