/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures of streams as far as others meet them: while one of global mode goes
 * on, no thread that has not relaxed its own mode may make a call that a graph
 * would not see. Such a call is refused and spoils the capture. What is captured is
 * not kept: there are no graphs here. Harder than the real driver: all calls that
 * wait count as such.
 */
#include "config.h"

#include <string.h>

#include "tests/fakecuda/machine.h"

#include "tests/fakecuda/driver_rows.h"

static __thread CUstreamCaptureMode mode_here; /* 0: global */

/* What captures cannot be made beside, by the beginning of the name. */
static const char *const unsafe[] = {
    "cuMemAlloc",       "cuMemFree",         "cuMemCreate",
    "cuMemRelease",     "cuMemMap",          "cuMemUnmap",
    "cuMemSetAccess",   "cuMemAddress",      "cuMemHostAlloc",
    "cuMemHostReg",     "cuMemHostUnreg",    "cuModuleLoad",
    "cuModuleUnload",   "cuEventQuery",      "cuEventSynchronize",
    "cuStreamQuery",    "cuStreamSynchroni", "cuCtxSynchronize",
    "cuMemcpyHtoD_v2",  "cuMemcpyDtoH_v2",   "cublasCreate",
    "cusolverDnCreate",
};

int
fake_capture_refuses(const char *name)
{
    int result = CUDA_SUCCESS;

    if (mode_here == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return result;
    }
    (void)pthread_mutex_lock(&machine.lock);
    for (size_t i = 0;
         machine.captures > 0 && i < sizeof(unsafe) / sizeof(unsafe[0]); i++) {
        if (strncmp(name, unsafe[i], strlen(unsafe[i])) == 0) {
            machine.capture_spoiled = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = mode_here;

    if (mode == NULL || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    mode_here = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult
fake_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    struct fake_stream *stream;
    int result;

    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(hStream, &stream);
    if (result == CUDA_SUCCESS &&
        (stream == stream->context->legacy || stream->captured)) {
        result = CUDA_ERROR_ILLEGAL_STATE;
    }
    if (result == CUDA_SUCCESS) {
        stream->captured = true;
        machine.capture_spoiled = false;
        machine.captures++;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    struct fake_stream *stream;
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(hStream, &stream);
    if (result == CUDA_SUCCESS && (phGraph == NULL || !stream->captured)) {
        result = CUDA_ERROR_ILLEGAL_STATE;
    }
    if (result == CUDA_SUCCESS) {
        *phGraph = NULL;
        stream->captured = false;
        machine.captures--;
        result = machine.capture_spoiled ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                         : CUDA_SUCCESS;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}
