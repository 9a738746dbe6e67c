/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, events and callbacks as the driver offers them.
 */
#include "config.h"

#include <stdlib.h>

#include "tests/fakecuda/machine.h"

#include "tests/fakecuda/driver_rows.h"

CUresult
fake_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags,
                                int priority)
{
    if (phStream == NULL || flags > CU_STREAM_NON_BLOCKING) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    *phStream = fake_stream_new(fake_current(), flags, priority);
    (void)pthread_mutex_unlock(&machine.lock);
    return *phStream == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult
fake_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    return fake_cuStreamCreateWithPriority(phStream, Flags, 0);
}

/* What is in the queue still runs. */
CUresult
fake_cuStreamDestroy_v2(CUstream hStream)
{
    struct fake_stream *stream;
    int result;

    if (hStream == NULL || hStream == CU_STREAM_LEGACY) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(hStream, &stream);
    if (result == CUDA_SUCCESS) {
        stream->destroyed = true;
        fakecuda_destroy(stream);
        (void)pthread_cond_signal(&stream->work);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuStreamSynchronize(CUstream hStream)
{
    return fakecuda_drain(hStream);
}

CUresult
fake_cuStreamQuery(CUstream hStream)
{
    struct fake_stream *stream;
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(hStream, &stream);
    if (result == CUDA_SUCCESS && stream->completed < stream->submitted) {
        result = CUDA_ERROR_NOT_READY;
    } else if (result == CUDA_SUCCESS) {
        fake_host_join(&stream->clock);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    struct fake_stream *stream;
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(hStream, &stream);
    if (result == CUDA_SUCCESS) {
        *pctx = stream->context;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    struct fake_stream *stream;
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(hStream, &stream);
    if (result == CUDA_SUCCESS) {
        *flags = stream->flags;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuStreamGetPriority(CUstream hStream, int *priority)
{
    struct fake_stream *stream;
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(hStream, &stream);
    if (result == CUDA_SUCCESS) {
        *priority = stream->priority;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

struct callback {
    CUstream stream;
    CUstreamCallback with_status;
    CUhostFn plain;
    void *data;
};

static int
run_callback(void *argument)
{
    const struct callback *callback = argument;

    if (callback->plain != NULL) {
        callback->plain(callback->data);
    } else {
        callback->with_status(callback->stream, CUDA_SUCCESS, callback->data);
    }
    return CUDA_SUCCESS;
}

static int
submit_callback(CUstream handle, const struct callback *callback)
{
    struct fake_operation *operation = fake_operation_new(
        "callback", run_callback, callback, sizeof(*callback));
    struct fake_stream *stream;
    int result;

    if (operation == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    operation->alone = true;
    operation->clock = calloc(1, sizeof(*operation->clock));
    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(handle, &stream);
    if (result == CUDA_SUCCESS) {
        /* What the program does in it comes after all that is before it. */
        if (operation->clock != NULL) {
            *operation->clock = stream->clock;
        }
        fake_submit(stream, operation);
    } else {
        free(operation->clock);
        free(operation->argument);
        free(operation);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback,
                         void *userData, unsigned int flags)
{
    const struct callback one = {hStream, callback, NULL, userData};

    if (callback == NULL || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return submit_callback(hStream, &one);
}

CUresult
fake_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    const struct callback one = {hStream, NULL, fn, userData};

    if (fn == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return submit_callback(hStream, &one);
}

CUresult
fake_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    if (phEvent == NULL || Flags > 3) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *phEvent =
        fakecuda_new(FAKE_EVENT, sizeof(struct fake_event), "cuEventCreate");
    if (*phEvent == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*phEvent)->context = fake_current();
    (*phEvent)->flags = Flags;
    return CUDA_SUCCESS;
}

static int
event_check(CUevent event)
{
    if (!fakecuda_valid(event, FAKE_EVENT)) {
        fakecuda_note("bad-event", "%p", (void *)event);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return CUDA_SUCCESS;
}

CUresult
fake_cuEventDestroy_v2(CUevent hEvent)
{
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = event_check(hEvent);
    if (result == CUDA_SUCCESS) {
        fake_moment_release(hEvent->moment);
        hEvent->moment = NULL;
        fakecuda_destroy(hEvent);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream,
                            unsigned int flags)
{
    struct fake_operation *operation;
    struct fake_moment *moment;
    struct fake_stream *stream;
    int result;

    if (flags > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    operation = fake_operation_new("record", NULL, NULL, 0);
    moment = calloc(1, sizeof(*moment));
    if (operation == NULL || moment == NULL) {
        free(moment);
        free(operation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(hStream, &stream);
    if (result == CUDA_SUCCESS) {
        result = event_check(hEvent);
    }
    if (result == CUDA_SUCCESS && hEvent->context != stream->context) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        fake_moment_release(hEvent->moment);
        moment->holders = 2;
        operation->moment = moment;
        hEvent->moment = moment;
        fake_submit(stream, operation);
        hEvent->stream = stream;
        hEvent->ticket = stream->submitted;
        hEvent->clock = stream->clock;
    } else {
        free(operation->argument);
        free(operation);
        free(moment);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuEventRecord(CUevent hEvent, CUstream hStream)
{
    return fake_cuEventRecordWithFlags(hEvent, hStream, 0);
}

/* An event that was never recorded is complete. */
CUresult
fake_cuEventQuery(CUevent hEvent)
{
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = event_check(hEvent);
    if (result == CUDA_SUCCESS && hEvent->stream != NULL &&
        hEvent->stream->completed < hEvent->ticket) {
        result = CUDA_ERROR_NOT_READY;
    } else if (result == CUDA_SUCCESS) {
        fake_host_join(&hEvent->clock);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuEventSynchronize(CUevent hEvent)
{
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = event_check(hEvent);
    if (result == CUDA_SUCCESS && hEvent->stream != NULL) {
        struct fake_clock clock = hEvent->clock;

        result = fake_wait_ticket(hEvent->stream, hEvent->ticket);
        fake_host_join(&clock);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    struct fake_operation *operation;
    struct fake_stream *stream;
    int result;

    if (Flags > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    operation = fake_operation_new("wait", NULL, NULL, 0);
    if (operation == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)pthread_mutex_lock(&machine.lock);
    result = fake_stream_get(hStream, &stream);
    if (result == CUDA_SUCCESS) {
        result = event_check(hEvent);
    }
    if (result == CUDA_SUCCESS && hEvent->stream != NULL) {
        operation->after = hEvent->stream;
        operation->after_ticket = hEvent->ticket;
        fake_clock_join(&stream->clock, &hEvent->clock);
        fake_submit(stream, operation);
    } else {
        free(operation->argument);
        free(operation);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    int result;

    (void)pthread_mutex_lock(&machine.lock);
    result = event_check(hStart);
    if (result == CUDA_SUCCESS) {
        result = event_check(hEnd);
    }
    if (result == CUDA_SUCCESS &&
        (pMilliseconds == NULL || hStart->moment == NULL ||
         hEnd->moment == NULL ||
         ((hStart->flags | hEnd->flags) & CU_EVENT_DISABLE_TIMING) != 0)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS &&
        (hStart->moment->ns == 0 || hEnd->moment->ns == 0)) {
        result = CUDA_ERROR_NOT_READY;
    }
    if (result == CUDA_SUCCESS) {
        *pMilliseconds =
            (float)((double)hEnd->moment->ns - (double)hStart->moment->ns) *
            1e-6F;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return fake_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
