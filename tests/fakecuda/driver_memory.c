/* SPDX-License-Identifier: Apache-2.0
 *
 * Device and pinned memory as the driver offers it, and what it says of
 * pointers. What work that was submitted will still use cannot be freed.
 */
#include "config.h"

#include <sys/mman.h>

#include "tests/fakecuda/machine.h"

#include "tests/fakecuda/driver_rows.h"

CUresult
fake_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    int result;

    if (dptr == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    result = fake_device_alloc(fake_current(), bytesize, dptr);
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

int
fakecuda_memory_new(size_t bytes, uint64_t *address)
{
    CUdeviceptr new;
    int result = fake_cuMemAlloc_v2(&new, bytes);

    if (result == CUDA_SUCCESS) {
        *address = new;
    }
    return result;
}

int
fakecuda_memory_free(uint64_t address)
{
    return fake_cuMemFree_v2(address);
}

CUresult
fake_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                        size_t Height, unsigned int ElementSizeBytes)
{
    size_t pitch = (WidthInBytes + 511) / 512 * 512;

    if (pPitch == NULL || WidthInBytes == 0 || Height == 0 ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 &&
         ElementSizeBytes != 16) ||
        pitch > SIZE_MAX / Height) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int result = fake_cuMemAlloc_v2(dptr, pitch * Height);
    if (result == CUDA_SUCCESS) {
        *pPitch = pitch;
    }
    return result;
}

/* The real one waits for all of the device; a program that relies on that
 * stalls its pipeline, so here it is an error. */
CUresult
fake_cuMemFree_v2(CUdeviceptr dptr)
{
    struct fake_allocation *one;
    int result = CUDA_SUCCESS;

    (void)pthread_mutex_lock(&machine.lock);
    one = fake_find_any(dptr);
    if (one == NULL || one->address != dptr ||
        one->memory != FAKE_DEVICE_MEMORY) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (one->pending != 0) {
        fakecuda_note("free-in-use", "%zu bytes, %u operations", one->bytes,
                      one->pending);
        result = CUDA_ERROR_ILLEGAL_STATE;
    } else {
        fake_device_free(one);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuMemGetInfo_v2(size_t *free, size_t *total)
{
    if (free == NULL || total == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    *total = machine.limit_bytes;
    *free = fake_bytes_free(fake_current()->device);
    (void)pthread_mutex_unlock(&machine.lock);
    return CUDA_SUCCESS;
}

CUresult
fake_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize,
                             CUdeviceptr dptr)
{
    struct fake_allocation *one;
    int result = CUDA_ERROR_NOT_FOUND;

    (void)pthread_mutex_lock(&machine.lock);
    one = fake_find_any(dptr);
    if (one != NULL) {
        if (pbase != NULL) {
            *pbase = one->address;
        }
        if (psize != NULL) {
            *psize = one->bytes;
        }
        result = CUDA_SUCCESS;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    struct fake_allocation new = {.bytes = bytesize,
                                  .memory = FAKE_PINNED,
                                  .flags = Flags,
                                  .context = fake_current()};
    int result;

    if (pp == NULL || bytesize == 0 || Flags > 7) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    new.span_bytes = (bytesize + PAGE_BYTES - 1) / PAGE_BYTES *PAGE_BYTES;
    fake_pin_cost(bytesize, false);
    (void)pthread_mutex_lock(&machine.lock);
    result = CUDA_ERROR_OUT_OF_MEMORY;
    if (new.span_bytes >= bytesize &&new.span_bytes <=
        machine.pinned_limit_bytes - machine.pinned_bytes) {
        void *at = mmap(NULL, new.span_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED) {
            /* The real driver's are not inherited either. */
            (void)madvise(at, new.span_bytes, MADV_DONTFORK);
            new.address = (uintptr_t)at;
            result = fake_insert(&new);
            if (result == CUDA_SUCCESS) {
                machine.pinned_bytes += new.span_bytes;
                *pp = at;
            } else {
                (void)munmap(at, new.span_bytes);
            }
        }
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    return fake_cuMemHostAlloc(pp, bytesize, 0);
}

/* Pinned or registered memory that begins at p, for the last time. */
static int
host_release(void *p, enum fake_memory kind, int unknown)
{
    struct fake_allocation *one;
    int result = unknown;

    (void)pthread_mutex_lock(&machine.lock);
    one = fake_find_any((uintptr_t)p);
    if (one != NULL && one->memory == kind && one->address == (uintptr_t)p) {
        if (one->pending != 0) {
            fakecuda_note("free-in-use", "%zu host bytes, %u operations",
                          one->bytes, one->pending);
            result = CUDA_ERROR_ILLEGAL_STATE;
        } else {
            machine.pinned_bytes -= one->span_bytes;
            if (kind == FAKE_PINNED) {
                (void)munmap(p, one->span_bytes);
            }
            fake_pin_free(one->pin);
            fake_forget(one);
            result = CUDA_SUCCESS;
        }
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuMemFreeHost(void *p)
{
    return host_release(p, FAKE_PINNED, CUDA_ERROR_INVALID_VALUE);
}

CUresult
fake_cuMemHostUnregister(void *p)
{
    return host_release(p, FAKE_REGISTERED,
                        CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult
fake_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    struct fake_allocation new = {.address = (uintptr_t)p,
                                  .bytes = bytesize,
                                  .span_bytes = bytesize,
                                  .memory = FAKE_REGISTERED,
                                  .flags = Flags,
                                  .context = fake_current()};
    uintptr_t page = (uintptr_t)p / PAGE_BYTES * PAGE_BYTES;
    int result;

    if (p == NULL || bytesize == 0 || bytesize > SIZE_MAX - (uintptr_t)p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* Not mapped: the real one cannot pin it. */
    if (msync((void *)page, (uintptr_t)p + bytesize - page, MS_ASYNC) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake_pin_cost(bytesize, true);
    (void)pthread_mutex_lock(&machine.lock);
    if (fake_overlaps((uintptr_t)p, bytesize)) {
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    } else if (fake_in_view((uintptr_t)p)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (bytesize > machine.pinned_limit_bytes - machine.pinned_bytes) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        uintptr_t end = (uintptr_t)p + bytesize + PAGE_BYTES - 1;
        new.pin =
            fakecuda_is_modelled()
                ? NULL
                : fake_pin_new(page, end / PAGE_BYTES * PAGE_BYTES - page);
        if (new.pin == NULL && !fakecuda_is_modelled()) {
            fakecuda_note("blind", "no io_uring: addresses instead of pages");
        }
        result = fake_insert(&new);
        machine.pinned_bytes += result == CUDA_SUCCESS ? bytesize : 0;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p,
                                  unsigned int Flags)
{
    struct fake_allocation *one;
    int result = CUDA_ERROR_INVALID_VALUE;

    (void)pthread_mutex_lock(&machine.lock);
    one = fake_find_any((uintptr_t)p);
    if (one != NULL && !fake_is_device(one) && pdptr != NULL && Flags == 0) {
        *pdptr = (uintptr_t)p;
        result = CUDA_SUCCESS;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct fake_allocation *one;
    int result = CUDA_ERROR_INVALID_VALUE;

    (void)pthread_mutex_lock(&machine.lock);
    one = fake_find_any((uintptr_t)p);
    if (one != NULL && one->memory == FAKE_PINNED && pFlags != NULL) {
        *pFlags = one->flags;
        result = CUDA_SUCCESS;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                           CUdeviceptr ptr)
{
    struct fake_allocation *one;
    int result = CUDA_SUCCESS;

    if (data == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    one = fake_find_any(ptr);
    if (one == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        bool device = fake_is_device(one);
        switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            *(CUcontext *)data = one->context;
            break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)data =
                device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            *(CUdeviceptr *)data = ptr;
            break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (device) {
                result = CUDA_ERROR_INVALID_VALUE;
            } else {
                *(void **)data = (void *)(uintptr_t)ptr;
            }
            break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            *(unsigned long long *)data = one->id;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned *)data = 0;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)data = one->context->device;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *(CUdeviceptr *)data = one->address;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *(size_t *)data = one->bytes;
            break;
        case CU_POINTER_ATTRIBUTE_MAPPED:
            *(unsigned *)data = 1;
            break;
        default:
            result = CUDA_ERROR_NOT_SUPPORTED;
            break;
        }
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

/* What does not apply is set to zero, and the call succeeds. */
CUresult
fake_cuPointerGetAttributes(unsigned int numAttributes,
                            CUpointer_attribute *attributes, void **data,
                            CUdeviceptr ptr)
{
    if (attributes == NULL || data == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < numAttributes; i++) {
        if (fake_cuPointerGetAttribute(data[i], attributes[i], ptr) == 0) {
            continue;
        }
        switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_MAPPED:
            *(unsigned *)data[i] = 0;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)data[i] = -2;
            break;
        default:
            *(uint64_t *)data[i] = 0;
            break;
        }
    }
    return CUDA_SUCCESS;
}
