/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA libraries whose functions annotations name: cuBLAS, cuSOLVER, cuFFT
 * and NVRTC, each by the sonames of several majors, loaded when the first
 * function of it is asked for. Their handles belong to one stream each.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_LIBRARY_H
#define FERRY_PAGER_DEVICE_CUDA_LIBRARY_H

#include "pager/device/cuda/driver.h"

enum {
    FY_CUDA_LIBRARY_NOT_INITIALIZED = 1 /* cuBLAS's and cuSOLVER's */
};

enum fy_cuda_library {
    FY_CUDA_CUBLAS,
    FY_CUDA_CUSOLVER,
    FY_CUDA_CUFFT,
    FY_CUDA_NVRTC,
    FY_CUDA_LIBRARIES
};

/*
 * The function of that name, or NULL. `driver_version' decides which majors can
 * work. *loaded says that a library was loaded by this call. Any thread.
 */
void *fy_cuda_function(int driver_version, const char *name, bool *loaded);

/*
 * Why a library is not there, in a line ("cuBLAS: libcublas.so.13 needs a
 * driver for CUDA 13.0, this one is for 12.4"); "" when it is or was not looked for.
 */
void fy_cuda_library_why(enum fy_cuda_library library,
                         char why[FY_CUDA_TEXT_BYTES]);
/* The same of the function that fy_cuda_function() did not find. */
void fy_cuda_function_why(const char *name, char why[FY_CUDA_TEXT_BYTES]);

/* The libraries' handles for one stream; each made when first needed. */
struct fy_cuda_handles {
    void *cublas, *cusolver;
};

/*
 * The handle of `library' for the stream whose handles these are. `workspace'
 * is device memory that cuBLAS may use on that stream (0: its own). Returns the
 * library's status, 0 for success; -1: the library is not there. The context is
 * current; *fresh says that a handle was made.
 */
int fy_cuda_handle_get(struct fy_cuda_handles *handles,
                       enum fy_cuda_library library, int driver_version,
                       fy_cuda_handle stream, uint64_t workspace,
                       size_t workspace_bytes, void **out, bool *fresh);
void fy_cuda_handles_end(struct fy_cuda_handles *handles, int driver_version);

/* Returns true if a status of the library says that device memory has run
 * out. */
bool fy_cuda_status_is_memory(enum fy_cuda_library library, int status);
/* "cuBLAS: NAME (13)" */
void fy_cuda_status_text(enum fy_cuda_library library, int status,
                         char text[FY_CUDA_TEXT_BYTES]);

#endif
