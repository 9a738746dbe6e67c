/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the CUDA device. Host memory that the program has page-locked, or
 * ferry (register.c), goes straight over the link, everything else through
 * the ring. Runs on issuing and copying threads.
 */
#include "config.h"

#include "common/clock.h"
#include "pager/device/copy.h"
#include "pager/device/cuda/internal.h"

/* One run, one 2-D or one 3-D rectangle of the first `naxes' axes. */
static int
issue(struct cuda_device *device, enum fy_direction direction, char *host,
      uint64_t at, const struct cuda_rect *r, int naxes, fy_cuda_handle stream)
{
    const struct fy_cuda_driver *driver = device->driver;
    bool in = direction == FY_TO_DEVICE;
    if (naxes == 0) {
        return in ? driver->copy_in(at, host, r->run_bytes, stream)
                  : driver->copy_out(host, at, r->run_bytes, stream);
    }
    struct fy_cuda_copy3 c = {
        .from_type = in ? FY_CUDA_MEMORY_HOST : FY_CUDA_MEMORY_DEVICE,
        .from_host = in ? host : NULL,
        .from_device = in ? 0 : at,
        .from_pitch = in ? r->host_pitch[0] : r->device_pitch[0],
        .to_type = in ? FY_CUDA_MEMORY_DEVICE : FY_CUDA_MEMORY_HOST,
        .to_host = in ? NULL : host,
        .to_device = in ? at : 0,
        .to_pitch = in ? r->device_pitch[0] : r->host_pitch[0],
        .width_bytes = r->run_bytes,
        .height = (size_t)r->n[0],
        .depth = 1,
    };
    if (naxes == 2) {
        uint64_t host_rows = r->host_pitch[1] / r->host_pitch[0];
        uint64_t device_rows = r->device_pitch[1] / r->device_pitch[0];
        c.from_height = in ? host_rows : device_rows;
        c.to_height = in ? device_rows : host_rows;
        c.depth = (size_t)r->n[1];
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
is_plane(const struct cuda_rect *r, uint64_t most_pitch)
{
    return r->host_pitch[0] >= r->run_bytes &&
           r->device_pitch[0] >= r->run_bytes &&
           r->host_pitch[0] <= most_pitch && r->device_pitch[0] <= most_pitch;
}

/* Whether the second axis steps over whole rows, as cuMemcpy3D wants it. */
static bool
is_slab(const struct cuda_rect *r)
{
    uint64_t rows = (uint64_t)r->n[0];
    return r->host_pitch[1] % r->host_pitch[0] == 0 &&
           r->host_pitch[1] / r->host_pitch[0] >= rows &&
           r->device_pitch[1] % r->device_pitch[0] == 0 &&
           r->device_pitch[1] / r->device_pitch[0] >= rows;
}

int
cuda_rect_transfer(struct cuda_device *device, enum fy_direction direction,
                   const struct cuda_rect *r, fy_cuda_handle stream)
{
    int64_t at[FY_COPY_AXES] = {0};
    char *host = r->host;
    uint64_t to = r->device;
    int inner = 0;
    if (r->naxes > 0 && is_plane(r, (uint64_t)device->max_pitch)) {
        inner = r->naxes > 1 && is_slab(r) ? 2 : 1;
    }
    for (;;) {
        int result = issue(device, direction, host, to, r, inner, stream);
        if (result == FY_CUDA_INVALID_VALUE && inner > 0) {
            inner--; /* limits that nobody documents: by rows, then by runs */
            continue;
        }
        if (result != 0) {
            return cuda_status(device, "a copy", result);
        }
        int k = inner;
        for (; k < r->naxes; k++) {
            host += r->host_pitch[k];
            to += r->device_pitch[k];
            if (++at[k] < r->n[k]) {
                break;
            }
            host -= (uint64_t)r->n[k] * r->host_pitch[k];
            to -= (uint64_t)r->n[k] * r->device_pitch[k];
            at[k] = 0;
        }
        if (k == r->naxes) {
            return 0;
        }
    }
}

/* Whether all of the rectangle's host memory is page-locked. */
static bool
is_locked(struct cuda_device *device, const struct cuda_rect *r)
{
    const struct fy_cuda_driver *driver = device->driver;
    uint64_t first = (uint64_t)(uintptr_t)r->host, start = 0;
    uint64_t bytes = r->run_bytes;
    unsigned type = 0;
    size_t size = 0;
    for (int k = 0; k < r->naxes; k++) {
        bytes += (uint64_t)(r->n[k] - 1) * r->host_pitch[k];
    }
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
    struct cuda_rect whole;
    int status;
    if (fy_copy_elements(copy) == 0) {
        return 0;
    }
    bool direct = cuda_rect_direct(copy, &whole);
    if (direct &&
        cuda_register_copy(stream, copy->direction, &whole, &status)) {
        return status;
    }
    if (direct &&
        cuda_register_is_foreign(device->registry, &whole, is_locked)) {
        return cuda_rect_transfer(device, copy->direction, &whole,
                                  stream->handle);
    }
    if (copy->direction == FY_TO_HOST) {
        /* Copying threads must not wait for work that may be long. */
        const struct fy_cuda_driver *driver = device->driver;
        int result = driver->event_record(stream->ready, stream->handle);
        if (result == 0) {
            result = driver->event_sync(stream->ready);
        }
        if (result != 0) {
            return cuda_status(device, "the work before a copy", result);
        }
    }
    double before = fy_clock_seconds();
    status = cuda_ring_copy(stream, copy);
    if (direct && status == 0) {
        cuda_register_missed(device->registry, &whole,
                             fy_clock_seconds() - before);
    }
    return status;
}
