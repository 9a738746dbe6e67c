/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills of the fake driver, all by one routine over boxes of rows.
 * An asynchronous copy from or to host memory that is not pinned is done
 * before the call returns, as the real driver may, and counted ("unpinned");
 * with FAKECUDA_STRICT=1 it is an error.
 */
#include "config.h"

#include <string.h>

#include "tests/fakecuda/machine.h"

#include "tests/fakecuda/driver_rows.h"

#define MAX_PITCH_BYTES 2147483647

/* One side of a copy, at its first byte. */
struct side {
    uint64_t address;
    size_t pitch_bytes;
    size_t plane_bytes;
    bool device; /* in memory the fake knows */
};

struct box {
    struct side from;
    struct side to;
    size_t width_bytes;
    size_t rows;
    size_t planes;
};

static size_t
hull_bytes(const struct box *box, const struct side *side)
{
    return side->plane_bytes * (box->planes - 1) +
           side->pitch_bytes * (box->rows - 1) + box->width_bytes;
}

static void *
side_at(const struct box *box, const struct side *side)
{
    return side->device ? fakecuda_at(side->address, hull_bytes(box, side))
                        : (void *)(uintptr_t)side->address;
}

static int
run_box(void *argument)
{
    const struct box *box = argument;
    const char *from = side_at(box, &box->from);
    char *to = side_at(box, &box->to);
    size_t pause = fakecuda_random(box->planes * box->rows);

    if (from == NULL || to == NULL) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (size_t plane = 0; plane < box->planes; plane++) {
        for (size_t row = 0; row < box->rows; row++) {
            const char *source = from + plane * box->from.plane_bytes +
                                 row * box->from.pitch_bytes;
            char *target =
                to + plane * box->to.plane_bytes + row * box->to.pitch_bytes;
            size_t half = 0;
            int pinned = fake_pinned_row(
                box->to.address + plane * box->to.plane_bytes +
                    row * box->to.pitch_bytes,
                box->from.address + plane * box->from.plane_bytes +
                    row * box->from.pitch_bytes,
                box->width_bytes);

            if (pinned < 0) {
                return CUDA_ERROR_ILLEGAL_ADDRESS;
            }
            if (pinned > 0) {
                continue;
            }
            if (plane * box->rows + row == pause) {
                half = box->width_bytes / 2;
                memmove(target, source, half);
                fakecuda_pause();
            }
            memmove(target + half, source + half, box->width_bytes - half);
        }
    }
    return CUDA_SUCCESS;
}

/* What kind of memory a side is in. */
enum place {
    PLACE_DEVICE,
    PLACE_PINNED,
    PLACE_PAGEABLE,
    PLACE_WRONG
};

static enum place
place_of(const struct box *box, const struct side *side)
{
    size_t bytes = hull_bytes(box, side);
    enum place place = PLACE_PAGEABLE;
    struct fake_allocation *one;

    (void)pthread_mutex_lock(&machine.lock);
    one = fake_find_any(side->address);
    if (one == NULL) {
        one = fake_find_any(side->address + bytes - 1);
    }
    if (one != NULL && fake_find(side->address, bytes) == NULL) {
        place = PLACE_WRONG; /* in part */
    } else if (one != NULL) {
        place = fake_is_device(one) ? PLACE_DEVICE : PLACE_PINNED;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return place;
}

/* One plane is told exactly; of more only from where to where. */
static struct fake_use
make_use(const struct box *box, const struct side *side, bool write)
{
    struct fake_use use = {
        side->address, box->width_bytes, side->pitch_bytes, box->rows, write,
        false};

    if (box->planes > 1) {
        use = (struct fake_use){
            side->address, hull_bytes(box, side), 0, 1, write, true};
    }
    return use;
}

/* kinds: CU_MEMORYTYPE_*, what the caller says of the sides. */
static int
submit_box(const char *name, struct box *box, int from_kind, int to_kind,
           CUstream stream, bool wait)
{
    struct side *sides[2] = {&box->from, &box->to};
    const int kinds[2] = {from_kind, to_kind};
    struct fake_use uses[2];
    size_t n_uses = 0;
    bool pageable = false;
    int result = fakecuda_stream_check(stream);

    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (box->width_bytes == 0 || box->rows == 0 || box->planes == 0) {
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < 2; i++) {
        enum place place = place_of(box, sides[i]);

        if (sides[i]->address == 0 || place == PLACE_WRONG ||
            kinds[i] == CU_MEMORYTYPE_ARRAY ||
            (kinds[i] == CU_MEMORYTYPE_HOST && place == PLACE_DEVICE) ||
            (kinds[i] != CU_MEMORYTYPE_HOST && place == PLACE_PAGEABLE)) {
            fakecuda_note("bad-copy", "%s: %s of %zu bytes at %#llx", name,
                          i == 0 ? "source" : "target",
                          hull_bytes(box, sides[i]),
                          (unsigned long long)sides[i]->address);
            return CUDA_ERROR_INVALID_VALUE;
        }
        sides[i]->device = place != PLACE_PAGEABLE;
        pageable = pageable || place == PLACE_PAGEABLE;
        if (sides[i]->device) {
            uses[n_uses++] = make_use(box, sides[i], i == 1);
        }
    }
    if (pageable && !wait) {
        fakecuda_note("unpinned", "%s", name);
        if (fake_strict()) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    fake_copy_next(kinds[0] == CU_MEMORYTYPE_HOST,
                   kinds[1] == CU_MEMORYTYPE_HOST, pageable,
                   box->width_bytes * box->rows * box->planes,
                   box->rows * box->planes);
    result =
        fakecuda_submit(stream, name, run_box, box, sizeof(*box), uses, n_uses);
    if (result == CUDA_SUCCESS && (wait || pageable)) {
        result = fakecuda_drain(stream);
    }
    return result;
}

static int
copy_line(const char *name, uint64_t from, int from_kind, uint64_t to,
          int to_kind, size_t bytes, CUstream stream, bool wait)
{
    struct box box = {.from = {.address = from},
                      .to = {.address = to},
                      .width_bytes = bytes,
                      .rows = 1,
                      .planes = 1};

    return submit_box(name, &box, from_kind, to_kind, stream, wait);
}

CUresult
fake_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost,
                     size_t ByteCount)
{
    return copy_line("cuMemcpyHtoD", (uintptr_t)srcHost, CU_MEMORYTYPE_HOST,
                     dstDevice, CU_MEMORYTYPE_DEVICE, ByteCount, NULL, true);
}

CUresult
fake_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    return copy_line("cuMemcpyDtoH", srcDevice, CU_MEMORYTYPE_DEVICE,
                     (uintptr_t)dstHost, CU_MEMORYTYPE_HOST, ByteCount, NULL,
                     true);
}

CUresult
fake_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                     size_t ByteCount)
{
    return copy_line("cuMemcpyDtoD", srcDevice, CU_MEMORYTYPE_DEVICE, dstDevice,
                     CU_MEMORYTYPE_DEVICE, ByteCount, NULL, false);
}

CUresult
fake_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost,
                          size_t ByteCount, CUstream hStream)
{
    return copy_line("cuMemcpyHtoDAsync", (uintptr_t)srcHost,
                     CU_MEMORYTYPE_HOST, dstDevice, CU_MEMORYTYPE_DEVICE,
                     ByteCount, hStream, false);
}

CUresult
fake_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice,
                          size_t ByteCount, CUstream hStream)
{
    return copy_line("cuMemcpyDtoHAsync", srcDevice, CU_MEMORYTYPE_DEVICE,
                     (uintptr_t)dstHost, CU_MEMORYTYPE_HOST, ByteCount, hStream,
                     false);
}

CUresult
fake_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                          size_t ByteCount, CUstream hStream)
{
    return copy_line("cuMemcpyDtoDAsync", srcDevice, CU_MEMORYTYPE_DEVICE,
                     dstDevice, CU_MEMORYTYPE_DEVICE, ByteCount, hStream,
                     false);
}

/* For cuMemcpy(): the address says what it is. */
static int
unified_kind(CUdeviceptr address)
{
    return fakecuda_is_device(address) ? CU_MEMORYTYPE_UNIFIED
                                       : CU_MEMORYTYPE_HOST;
}

CUresult
fake_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    return copy_line("cuMemcpy", src, unified_kind(src), dst, unified_kind(dst),
                     ByteCount, NULL, true);
}

CUresult
fake_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                   CUstream hStream)
{
    return copy_line("cuMemcpyAsync", src, unified_kind(src), dst,
                     unified_kind(dst), ByteCount, hStream, false);
}

/* A side as the driver's structures describe it; false: no such pitch. */
static bool
make_side(struct side *side, int kind, const void *host, CUdeviceptr device,
          const size_t origin[3], size_t pitch, size_t height,
          const CUDA_MEMCPY3D *copy)
{
    uint64_t base = kind == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
    size_t rows = height == 0 ? copy->Height : height;

    if (pitch == 0) {
        pitch = copy->WidthInBytes;
    }
    if (pitch > MAX_PITCH_BYTES || origin[0] > pitch ||
        copy->WidthInBytes > pitch - origin[0] || origin[1] > rows ||
        (copy->Depth > 1 && copy->Height > rows - origin[1])) {
        return false;
    }
    side->pitch_bytes = pitch;
    side->plane_bytes = pitch * rows;
    side->address = base + origin[0] + origin[1] * side->pitch_bytes +
                    origin[2] * side->plane_bytes;
    return true;
}

static int
copy_box(const char *name, const CUDA_MEMCPY3D *copy, CUstream stream,
         bool wait)
{
    const size_t source[3] = {copy->srcXInBytes, copy->srcY, copy->srcZ};
    const size_t target[3] = {copy->dstXInBytes, copy->dstY, copy->dstZ};
    struct box box = {.width_bytes = copy->WidthInBytes,
                      .rows = copy->Height,
                      .planes = copy->Depth};

    if (copy->srcMemoryType < CU_MEMORYTYPE_HOST ||
        copy->srcMemoryType > CU_MEMORYTYPE_UNIFIED ||
        copy->dstMemoryType < CU_MEMORYTYPE_HOST ||
        copy->dstMemoryType > CU_MEMORYTYPE_UNIFIED ||
        !make_side(&box.from, copy->srcMemoryType, copy->srcHost,
                   copy->srcDevice, source, copy->srcPitch, copy->srcHeight,
                   copy) ||
        !make_side(&box.to, copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                   target, copy->dstPitch, copy->dstHeight, copy)) {
        fakecuda_note("bad-copy", "%s: pitches or kinds", name);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return submit_box(name, &box, copy->srcMemoryType, copy->dstMemoryType,
                      stream, wait);
}

static int
copy_plane(const char *name, const CUDA_MEMCPY2D *plane, CUstream stream,
           bool wait)
{
    const CUDA_MEMCPY3D copy = {
        .srcXInBytes = plane->srcXInBytes,
        .srcY = plane->srcY,
        .srcMemoryType = plane->srcMemoryType,
        .srcHost = plane->srcHost,
        .srcDevice = plane->srcDevice,
        .srcPitch = plane->srcPitch,
        .srcHeight = plane->srcY + plane->Height,
        .dstXInBytes = plane->dstXInBytes,
        .dstY = plane->dstY,
        .dstMemoryType = plane->dstMemoryType,
        .dstHost = plane->dstHost,
        .dstDevice = plane->dstDevice,
        .dstPitch = plane->dstPitch,
        .dstHeight = plane->dstY + plane->Height,
        .WidthInBytes = plane->WidthInBytes,
        .Height = plane->Height,
        .Depth = 1,
    };

    return copy_box(name, &copy, stream, wait);
}

CUresult
fake_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    return copy_plane("cuMemcpy2D", pCopy, NULL, true);
}

CUresult
fake_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    return copy_plane("cuMemcpy2DUnaligned", pCopy, NULL, true);
}

CUresult
fake_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    return copy_plane("cuMemcpy2DAsync", pCopy, hStream, false);
}

CUresult
fake_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    return copy_box("cuMemcpy3D", pCopy, NULL, true);
}

CUresult
fake_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    return copy_box("cuMemcpy3DAsync", pCopy, hStream, false);
}

/* ---- fills ---- */

struct fill {
    uint64_t address;
    size_t pitch_bytes;
    size_t count; /* of elements in a row */
    size_t rows;
    unsigned value;
    unsigned bytes;
};

static int
run_fill(void *argument)
{
    const struct fill *fill = argument;
    char *to = fakecuda_at(fill->address, fill->pitch_bytes * (fill->rows - 1) +
                                              fill->count * fill->bytes);

    if (to == NULL) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (size_t row = 0; row < fill->rows; row++) {
        for (size_t i = 0; i < fill->count; i++) {
            memcpy(to + row * fill->pitch_bytes + i * fill->bytes, &fill->value,
                   fill->bytes);
        }
    }
    return CUDA_SUCCESS;
}

static int
submit_fill(const char *name, struct fill fill, CUstream stream)
{
    struct fake_use use = {fill.address,
                           fill.count * fill.bytes,
                           fill.pitch_bytes,
                           fill.rows,
                           true,
                           false};
    bool inside;

    if (fill.count == 0 || fill.rows == 0) {
        return fakecuda_stream_check(stream);
    }
    if (fill.address % fill.bytes != 0 ||
        (fill.rows > 1 && fill.pitch_bytes < use.width_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    inside = fake_find(fill.address, fill.pitch_bytes * (fill.rows - 1) +
                                         use.width_bytes) != NULL;
    (void)pthread_mutex_unlock(&machine.lock);
    if (!inside) {
        fakecuda_note("bad-copy", "%s", name);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return fakecuda_submit(stream, name, run_fill, &fill, sizeof(fill), &use,
                           1);
}

CUresult
fake_cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                     CUstream hStream)
{
    return submit_fill("cuMemsetD8", (struct fill){dstDevice, 0, N, 1, uc, 1},
                       hStream);
}

CUresult
fake_cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
                      CUstream hStream)
{
    return submit_fill("cuMemsetD16", (struct fill){dstDevice, 0, N, 1, us, 2},
                       hStream);
}

CUresult
fake_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N,
                      CUstream hStream)
{
    return submit_fill("cuMemsetD32", (struct fill){dstDevice, 0, N, 1, ui, 4},
                       hStream);
}

CUresult
fake_cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                       size_t Width, size_t Height, CUstream hStream)
{
    return submit_fill("cuMemsetD2D8",
                       (struct fill){dstDevice, dstPitch, Width, Height, uc, 1},
                       hStream);
}

CUresult
fake_cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                        size_t Width, size_t Height, CUstream hStream)
{
    return submit_fill("cuMemsetD2D32",
                       (struct fill){dstDevice, dstPitch, Width, Height, ui, 4},
                       hStream);
}

CUresult
fake_cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    return fake_cuMemsetD8Async(dstDevice, uc, N, NULL);
}

CUresult
fake_cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
    return fake_cuMemsetD16Async(dstDevice, us, N, NULL);
}

CUresult
fake_cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
    return fake_cuMemsetD32Async(dstDevice, ui, N, NULL);
}

CUresult
fake_cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                     size_t Width, size_t Height)
{
    return fake_cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, NULL);
}

CUresult
fake_cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                      size_t Width, size_t Height)
{
    return fake_cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height,
                                   NULL);
}
