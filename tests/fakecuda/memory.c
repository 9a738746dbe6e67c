/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the fake device. A memfd is mapped twice: the program gets
 * addresses of a view without any access, so that reading device memory from
 * the host faults; the fake itself uses the other view. New memory is full of
 * garbage, freed memory is gone, and addresses are reused late.
 */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakecuda/machine.h"

#define PAGE_BYTES 4096

static struct {
    char *view;   /* what the program sees: no access */
    char *shadow; /* the same bytes for the fake */
    size_t bytes;
    size_t next; /* where the search begins: late reuse */
    int file;
    size_t dirty_bytes;
    struct fake_allocation **list; /* by address */
    size_t count;
    size_t room;
    unsigned long ids;
} memory;

int
fake_memory_open(void)
{
    size_t bytes =
        machine.limit_bytes * (size_t)machine.devices * 4 + ((size_t)1 << 28);
    int flags = MAP_NORESERVE;

    bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    memory.dirty_bytes = fakecuda_setting("DIRTY", (uint64_t)16 << 20);
    memory.file = memfd_create("fakecuda", MFD_CLOEXEC);
    if (memory.file < 0 || ftruncate(memory.file, (off_t)bytes) != 0) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    memory.view = mmap(NULL, bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    memory.shadow =
        mmap(NULL, bytes, PROT_NONE, MAP_SHARED | flags, memory.file, 0);
    if (memory.view == MAP_FAILED || memory.shadow == MAP_FAILED) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    (void)madvise(memory.shadow, bytes, MADV_DONTFORK);
    memory.bytes = bytes;
    return CUDA_SUCCESS;
}

/* The first allocation whose end is above address. */
static size_t
place_above(uint64_t address)
{
    size_t low = 0, high = memory.count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct fake_allocation *one = memory.list[middle];
        if (one->address + one->bytes <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct fake_allocation *
fake_find(uint64_t address, size_t bytes)
{
    size_t place = place_above(address);
    struct fake_allocation *one;

    if (place == memory.count) {
        return NULL;
    }
    one = memory.list[place];
    if (address < one->address || bytes > one->bytes ||
        address - one->address > one->bytes - bytes) {
        return NULL;
    }
    return one;
}

struct fake_allocation *
fake_find_any(uint64_t address)
{
    return fake_find(address, 1);
}

static int
insert(const struct fake_allocation *new)
{
    size_t place = place_above(new->address);
    struct fake_allocation *one;

    if (memory.count == memory.room) {
        size_t room = memory.room == 0 ? 64 : memory.room * 2;
        struct fake_allocation **list =
            realloc(memory.list, room * sizeof(struct fake_allocation *));
        if (list == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memory.list = list;
        memory.room = room;
    }
    one = malloc(sizeof(*one));
    if (one == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *one = *new;
    one->id = ++memory.ids;
    memmove(&memory.list[place + 1], &memory.list[place],
            (memory.count - place) * sizeof(struct fake_allocation *));
    memory.list[place] = one;
    memory.count++;
    return CUDA_SUCCESS;
}

static void
forget(struct fake_allocation *one)
{
    size_t place = place_above(one->address);

    memory.count--;
    memmove(&memory.list[place], &memory.list[place + 1],
            (memory.count - place) * sizeof(struct fake_allocation *));
    free(one);
}

static bool
in_view(uint64_t address)
{
    return address - (uintptr_t)memory.view < memory.bytes;
}

/* A gap of bytes and a page more, in [from, to) of the view; or SIZE_MAX. */
static size_t
gap(size_t from, size_t to, size_t bytes)
{
    uint64_t base = (uintptr_t)memory.view;

    for (size_t i = place_above(base + from); from + bytes <= to; i++) {
        const struct fake_allocation *one =
            i < memory.count ? memory.list[i] : NULL;
        if (one == NULL || one->address < base ||
            one->address - base >= from + bytes) {
            return from;
        }
        from = one->address - base + one->span_bytes + PAGE_BYTES;
    }
    return SIZE_MAX;
}

static int
device_alloc(struct fake_context *context, size_t bytes, CUdeviceptr *address)
{
    struct fake_allocation new = {
        .bytes = bytes, .memory = FAKE_DEVICE_MEMORY, .context = context};
    size_t *used = &machine.used_bytes[context->device];
    size_t at;
    int result;

    if (bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes > machine.limit_bytes - *used) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    new.span_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES *PAGE_BYTES;
    if (new.span_bytes > machine.limit_bytes - *used) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    at = gap(memory.next, memory.bytes, new.span_bytes + PAGE_BYTES);
    if (at == SIZE_MAX) {
        at = gap(0, memory.bytes, new.span_bytes + PAGE_BYTES);
    }
    if (at == SIZE_MAX ||
        mprotect(memory.shadow + at, new.span_bytes, PROT_READ | PROT_WRITE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    new.address = (uintptr_t)memory.view + at;
    result = insert(&new);
    if (result != CUDA_SUCCESS) {
        (void)mprotect(memory.shadow + at, new.span_bytes, PROT_NONE);
        return result;
    }
    /* NaN, or a number nobody expects; by seed. */
    memset(memory.shadow + at, fakecuda_random(2) == 0 ? 0xFF : 0x5B,
           bytes < memory.dirty_bytes ? bytes : memory.dirty_bytes);
    memory.next = at + new.span_bytes + PAGE_BYTES;
    *used += new.span_bytes;
    *address = new.address;
    return CUDA_SUCCESS;
}

static void
device_free(struct fake_allocation *one)
{
    size_t at = one->address - (uintptr_t)memory.view;

    (void)fallocate(memory.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)at, (off_t)one->span_bytes);
    (void)mprotect(memory.shadow + at, one->span_bytes, PROT_NONE);
    machine.used_bytes[one->context->device] -= one->span_bytes;
    forget(one);
}

void
fake_memory_drop(const struct fake_context *context)
{
    for (size_t i = memory.count; i-- > 0;) {
        struct fake_allocation *one = memory.list[i];
        if (one->context == context && one->memory == FAKE_DEVICE_MEMORY) {
            fakecuda_note("dropped", "%zu bytes with their context",
                          one->bytes);
            device_free(one);
        }
    }
}

void *
fakecuda_at(uint64_t address, size_t bytes)
{
    struct fake_allocation *one;
    bool device;

    (void)pthread_mutex_lock(&machine.lock);
    one = fake_find(address, bytes);
    device = one != NULL && one->memory == FAKE_DEVICE_MEMORY;
    (void)pthread_mutex_unlock(&machine.lock);
    if (one == NULL) {
        return NULL;
    }
    return device ? memory.shadow + (address - (uintptr_t)memory.view)
                  : (void *)(uintptr_t)address;
}

bool
fakecuda_is_device(uint64_t address)
{
    bool found;

    (void)pthread_mutex_lock(&machine.lock);
    found = fake_find_any(address) != NULL;
    (void)pthread_mutex_unlock(&machine.lock);
    return found;
}

void
fake_memory_report(void)
{
    static const char *const words[] = {"device", "pinned", "registered"};

    for (size_t i = 0; i < memory.count; i++) {
        fakecuda_note("leak", "%zu bytes of %s memory (allocation %lu)",
                      memory.list[i]->bytes, words[memory.list[i]->memory],
                      memory.list[i]->id);
    }
}

/* ---- what the driver's functions do ---- */

#include "tests/fakecuda/driver_rows.h"

CUresult
fake_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    int result;

    if (dptr == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    result = device_alloc(fake_current(), bytesize, dptr);
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
        device_free(one);
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
    *free = machine.limit_bytes - machine.used_bytes[fake_current()->device];
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
            result = insert(&new);
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
            forget(one);
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
    size_t place;
    int result;

    if (p == NULL || bytesize == 0 || bytesize > SIZE_MAX - (uintptr_t)p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* Not mapped: the real one cannot pin it. */
    if (msync((void *)page, (uintptr_t)p + bytesize - page, MS_ASYNC) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)pthread_mutex_lock(&machine.lock);
    place = place_above((uintptr_t)p);
    if (place < memory.count &&
        memory.list[place]->address < (uintptr_t)p + bytesize) {
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    } else if (in_view((uintptr_t)p)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (bytesize > machine.pinned_limit_bytes - machine.pinned_bytes) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        result = insert(&new);
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
    if (one != NULL && one->memory != FAKE_DEVICE_MEMORY && pdptr != NULL &&
        Flags == 0) {
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
        bool device = one->memory == FAKE_DEVICE_MEMORY;
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
