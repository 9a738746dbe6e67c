/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual memory management of the fake driver: reserved addresses, memory that
 * has none, and mappings of one at the other. Harder than the real one: what
 * submitted work will use cannot be unmapped, memory cannot be used before it
 * is given access, and it is garbage again each time it is mapped.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/machine.h"

#include "tests/fakecuda/driver_rows.h"

static size_t
granularity(void)
{
    return (size_t)fakecuda_setting("GRANULARITY", (uint64_t)2 << 20);
}

/* Whether [address, address + bytes) has memory, all of it accessible. */
bool
fake_is_backed(const struct fake_allocation *one, uint64_t address,
               size_t bytes)
{
    size_t step = granularity();

    if (one->memory != FAKE_RESERVED) {
        return true;
    }
    size_t last =
        (address - one->address + (bytes == 0 ? 0 : bytes - 1)) / step;
    for (size_t i = (address - one->address) / step; i <= last; i++) {
        if (one->granules[i].physical == NULL || !one->granules[i].accessible) {
            return false;
        }
    }
    return true;
}

void
fake_hold(struct fake_allocation *one, uint64_t address, size_t bytes, int by)
{
    size_t step = granularity();

    if (one->memory != FAKE_RESERVED) {
        return;
    }
    size_t last = (address - one->address + bytes - 1) / step;
    for (size_t i = (address - one->address) / step;
         i <= last && i < one->bytes / step; i++) {
        one->granules[i].pending += (unsigned)by;
    }
}

CUresult
fake_cuMemGetAllocationGranularity(size_t *bytes,
                                   const CUmemAllocationProp *prop,
                                   CUmemAllocationGranularity_flags option)
{
    if (bytes == NULL || prop == NULL || option < 0 || option > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes = granularity();
    return CUDA_SUCCESS;
}

CUresult
fake_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
                         CUdeviceptr addr, unsigned long long flags)
{
    struct fake_allocation new = {
        .bytes = size, .span_bytes = size, .memory = FAKE_RESERVED};
    int result;

    (void)alignment;
    (void)addr;
    if (ptr == NULL || flags != 0 || size == 0 || size % granularity() != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    new.granules = calloc(size / granularity(), sizeof(*new.granules));
    if (new.granules == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)pthread_mutex_lock(&machine.lock);
    new.context = fake_current();
    result = fake_place(&new);
    (void)pthread_mutex_unlock(&machine.lock);
    if (result == CUDA_SUCCESS) {
        *ptr = new.address;
    } else {
        free(new.granules);
    }
    return result;
}

static void
release(struct fake_physical *physical)
{
    if (physical->released && !physical->mapped) {
        fake_bytes_give(physical->context->device, physical->bytes);
        fakecuda_destroy(physical);
    }
}

CUresult
fake_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    struct fake_allocation *one;
    int result = CUDA_SUCCESS;

    (void)pthread_mutex_lock(&machine.lock);
    one = fake_find_any(ptr);
    if (one == NULL || one->memory != FAKE_RESERVED || one->address != ptr ||
        one->bytes != size) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; result == CUDA_SUCCESS && i < size / granularity();
         i++) {
        if (one->granules[i].physical != NULL) {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (result == CUDA_SUCCESS) {
        fake_forget(one);
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                 const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct fake_physical *physical;
    int result = CUDA_ERROR_OUT_OF_MEMORY;

    if (handle == NULL || prop == NULL || flags != 0 || size == 0 ||
        size % granularity() != 0 ||
        prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        prop->location.id < 0 || prop->location.id >= machine.devices) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    if (fake_bytes_take(prop->location.id, size)) {
        physical =
            fakecuda_new(FAKE_PHYSICAL, sizeof(*physical), "cuMemCreate");
        if (physical == NULL) {
            fake_bytes_give(prop->location.id, size);
        } else {
            physical->context = &machine.context[prop->location.id];
            physical->bytes = size;
            *handle = (uintptr_t)physical;
            result = CUDA_SUCCESS;
        }
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct fake_physical *physical = (void *)(uintptr_t)handle;
    int result = CUDA_ERROR_INVALID_VALUE;

    (void)pthread_mutex_lock(&machine.lock);
    if (fakecuda_valid(physical, FAKE_PHYSICAL) && !physical->released) {
        physical->released = true;
        release(physical);
        result = CUDA_SUCCESS;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

/* The reservation that holds the whole range, cut where granules begin. */
static struct fake_allocation *
range_of(CUdeviceptr ptr, size_t size)
{
    struct fake_allocation *one = fake_find_any(ptr);

    if (one == NULL || one->memory != FAKE_RESERVED || size == 0 ||
        size % granularity() != 0 ||
        (ptr - one->address) % granularity() != 0 ||
        size > one->bytes - (ptr - one->address)) {
        return NULL;
    }
    return one;
}

CUresult
fake_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
              CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct fake_physical *physical = (void *)(uintptr_t)handle;
    struct fake_allocation *one;
    int result = CUDA_ERROR_INVALID_VALUE;

    (void)pthread_mutex_lock(&machine.lock);
    one = range_of(ptr, size);
    if (one != NULL && offset == 0 && flags == 0 &&
        fakecuda_valid(physical, FAKE_PHYSICAL) && !physical->mapped &&
        physical->bytes == size) {
        struct fake_granule *at =
            &one->granules[(ptr - one->address) / granularity()];
        size_t count = size / granularity();
        result = CUDA_SUCCESS;
        for (size_t i = 0; i < count; i++) {
            if (at[i].physical != NULL) {
                result = CUDA_ERROR_INVALID_VALUE;
            }
        }
        for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
            at[i] =
                (struct fake_granule){.physical = physical, .first = i == 0};
        }
        physical->mapped = physical->mapped || result == CUDA_SUCCESS;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

CUresult
fake_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
                    size_t count)
{
    struct fake_allocation *one;
    int result = CUDA_ERROR_INVALID_VALUE;

    if (desc == NULL || count != 1 ||
        desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
        desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return result;
    }
    (void)pthread_mutex_lock(&machine.lock);
    one = range_of(ptr, size);
    if (one != NULL) {
        struct fake_granule *at =
            &one->granules[(ptr - one->address) / granularity()];
        result = CUDA_SUCCESS;
        for (size_t i = 0; i < size / granularity(); i++) {
            if (at[i].physical == NULL) {
                result = CUDA_ERROR_INVALID_VALUE;
            }
        }
        if (result == CUDA_SUCCESS && !fake_view_open(ptr, size)) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
        for (size_t i = 0; result == CUDA_SUCCESS && i < size / granularity();
             i++) {
            at[i].accessible = true;
        }
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

/* Takes the memory of `count' granules away. */
static void
unmap(struct fake_allocation *one, size_t from, size_t count)
{
    uint64_t at = one->address + from * granularity();

    fake_view_close(at, count * granularity());
    fake_race_forget(one, at, count * granularity());
    for (size_t i = from; i < from + count; i++) {
        struct fake_physical *physical = one->granules[i].physical;
        bool first = one->granules[i].first;
        one->granules[i] = (struct fake_granule){.physical = NULL};
        if (first) {
            physical->mapped = false;
            release(physical);
        }
    }
}

/* The real one would let work that still uses the memory fault. */
CUresult
fake_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    struct fake_allocation *one;
    int result = CUDA_ERROR_INVALID_VALUE;

    (void)pthread_mutex_lock(&machine.lock);
    one = range_of(ptr, size);
    if (one != NULL) {
        size_t from = (ptr - one->address) / granularity();
        size_t count = size / granularity(), end = from + count;
        bool whole =
            one->granules[from].first &&
            (end == one->bytes / granularity() ||
             one->granules[end].physical == NULL || one->granules[end].first);
        unsigned pending = 0;
        for (size_t i = from; i < end; i++) {
            whole = whole && one->granules[i].physical != NULL;
            pending += one->granules[i].pending;
        }
        if (pending > 0) {
            fakecuda_note("free-in-use", "unmapped: %u operations", pending);
            result = CUDA_ERROR_ILLEGAL_STATE;
        } else if (whole) {
            unmap(one, from, count);
            result = CUDA_SUCCESS;
        }
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

/* With its context. */
void
fake_virtual_drop(struct fake_allocation *one)
{
    size_t count = one->bytes / granularity();

    for (size_t i = 0; i < count; i++) {
        if (one->granules[i].physical != NULL) {
            one->granules[i].physical->released = true;
            fakecuda_note("dropped", "mapped memory with its context");
            unmap(one, i, 1);
        }
    }
    fake_forget(one);
}
