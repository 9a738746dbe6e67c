/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the CUDA device. Host memory that the program has page-locked
 * goes straight over the link, everything else through the ring. Runs on issuing and copying threads.
 */
#include "config.h"

#include "common/clock.h"
#include "common/debug.h"
#include "pager/device/copy.h"
#include "pager/device/cuda/internal.h"

/* Bytes from one index of an axis to the next. */
static uint64_t
host_pitch(const struct fy_copy *t, int axis)
{
    return (uint64_t)t->view.stride[axis] * t->view.element_bytes;
}

static uint64_t
device_pitch(const struct fy_copy *t, int axis)
{
    return (uint64_t)t->device_stride[axis] * t->view.element_bytes;
}

/* One run, one 2-D or one 3-D rectangle of the transfer's first `naxes' axes. */
static int
issue(struct cuda_device *device, const struct fy_copy *t, char *host,
      uint64_t at, int naxes, fy_cuda_handle stream)
{
    const struct fy_cuda_driver *driver = device->driver;
    bool in = t->direction == FY_TO_DEVICE;
    uint64_t run = cuda_run_bytes(t);
    int k = cuda_run_axes(t);
    if (naxes == k) {
        return in ? driver->copy_in(at, host, run, stream)
                  : driver->copy_out(host, at, run, stream);
    }
    uint64_t host_row = host_pitch(t, k), device_row = device_pitch(t, k);
    struct fy_cuda_copy3 c = {
        .from_type = in ? FY_CUDA_MEMORY_HOST : FY_CUDA_MEMORY_DEVICE,
        .from_host = in ? host : NULL,
        .from_device = in ? 0 : at,
        .from_pitch = in ? host_row : device_row,
        .to_type = in ? FY_CUDA_MEMORY_DEVICE : FY_CUDA_MEMORY_HOST,
        .to_host = in ? NULL : host,
        .to_device = in ? at : 0,
        .to_pitch = in ? device_row : host_row,
        .width_bytes = run,
        .height = (size_t)t->view.extent[k],
        .depth = 1,
    };
    if (naxes == k + 2) {
        uint64_t host_rows = host_pitch(t, k + 1) / host_row;
        uint64_t device_rows = device_pitch(t, k + 1) / device_row;
        c.from_height = in ? host_rows : device_rows;
        c.to_height = in ? device_rows : host_rows;
        c.depth = (size_t)t->view.extent[k + 1];
        return driver->copy3(&c, stream);
    }
    struct fy_cuda_copy2 flat = {
        .from_type = c.from_type,
        .from_host = c.from_host,
        .from_device = c.from_device,
        .from_pitch = c.from_pitch,
        .to_type = c.to_type,
        .to_host = c.to_host,
        .to_device = c.to_device,
        .to_pitch = c.to_pitch,
        .width_bytes = c.width_bytes,
        .height = c.height,
    };
    return driver->copy2(&flat, stream);
}

static bool
is_plane(const struct fy_copy *t, int axis, uint64_t most_pitch)
{
    uint64_t run = cuda_run_bytes(t);
    uint64_t host = host_pitch(t, axis), device = device_pitch(t, axis);
    return host >= run && device >= run && host <= most_pitch &&
           device <= most_pitch;
}

/* Whether the second axis steps over whole rows, as cuMemcpy3D wants it. */
static bool
is_slab(const struct fy_copy *t, int axis)
{
    const int64_t *host = &t->view.stride[axis];
    const int64_t *device = &t->device_stride[axis];
    int64_t rows = t->view.extent[axis];
    return host[1] % host[0] == 0 && host[1] / host[0] >= rows &&
           device[1] % device[0] == 0 && device[1] / device[0] >= rows;
}

int
cuda_transfer(struct cuda_device *device, const struct fy_copy *t,
              fy_cuda_handle stream)
{
    int64_t at[FY_MAX_OPERAND_AXES] = {0};
    char *host = t->view.host;
    uint64_t to = t->device;
    int run = cuda_run_axes(t), inner = run, naxes = t->view.naxes;
    if (naxes > run && is_plane(t, run, (uint64_t)device->max_pitch)) {
        inner += naxes > run + 1 && is_slab(t, run) ? 2 : 1;
    }
    for (;;) {
        int result = issue(device, t, host, to, inner, stream);
        if (result == FY_CUDA_INVALID_VALUE && inner > run) {
            inner--; /* limits that nobody documents: by rows, then by runs */
            continue;
        }
        if (result != 0) {
            return cuda_status(device, "a copy", result);
        }
        int k = inner;
        for (; k < naxes; k++) {
            host += host_pitch(t, k);
            to += device_pitch(t, k);
            if (++at[k] < t->view.extent[k]) {
                break;
            }
            host -= (uint64_t)t->view.extent[k] * host_pitch(t, k);
            to -= (uint64_t)t->view.extent[k] * device_pitch(t, k);
            at[k] = 0;
        }
        if (k == naxes) {
            return 0;
        }
    }
}

/* Whether all of the transfer's host memory is page-locked. */
static bool
is_locked(struct cuda_device *device, const struct fy_copy *t)
{
    const struct fy_cuda_driver *driver = device->driver;
    uint64_t first = (uint64_t)(uintptr_t)t->view.host, start = 0;
    uint64_t bytes = cuda_transfer_span(t);
    unsigned type = 0;
    size_t size = 0;
    /* The driver answers with an error for memory it does not know. */
    return driver->pointer_attribute(&type, FY_CUDA_POINTER_MEMORY_TYPE,
                                     first) == 0 &&
           type == FY_CUDA_MEMORY_HOST &&
           driver->pointer_attribute(&start, FY_CUDA_POINTER_RANGE_START,
                                     first) == 0 &&
           driver->pointer_attribute(&size, FY_CUDA_POINTER_RANGE_BYTES,
                                     first) == 0 &&
           first >= start && size >= bytes && first - start <= size - bytes;
}

int
cuda_copy_issue(struct fy_stream *stream, const struct fy_copy *copy)
{
    struct cuda_device *device = stream->device;
    struct fy_copy whole;
    if (fy_view_all_elements(&copy->view) == 0) {
        return 0;
    }
    if (copy->direction == FY_TO_LOG) {
        return fy_copy_save(copy, &device->base);
    }
    if (cuda_copy_direct(copy, &whole) && is_locked(device, &whole)) {
        return cuda_transfer(device, &whole, stream->handle);
    }
    if (copy->direction == FY_TO_HOST) {
        /* Copying threads must not wait for work that may be long. */
        const struct fy_cuda_driver *driver = device->driver;
        int result = driver->event_record(stream->ready, stream->handle);
        if (result == 0) {
            result = cuda_event_reached(device, stream->ready);
        }
        if (result != 0) {
            return cuda_status(device, "the work before a copy", result);
        }
    }
    double before = fy_clock_seconds();
    int status = cuda_ring_copy(stream, copy);
    fy_debug(DEVICE, "%llu bytes %s by the ring in %.6f s: %s",
             (unsigned long long)(fy_view_all_elements(&copy->view) *
                                  copy->view.element_bytes),
             copy->direction == FY_TO_HOST ? "out" : "in",
             fy_clock_seconds() - before, fy_status_text(status));
    return status;
}
