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
    memory.dirty_bytes = fakecuda_setting(
        "DIRTY", fakecuda_is_modelled() ? 0 : (uint64_t)16 << 20);
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
        address - one->address > one->bytes - bytes ||
        !fake_is_backed(one, address, bytes)) {
        return NULL;
    }
    return one;
}

struct fake_allocation *
fake_find_any(uint64_t address)
{
    size_t place = place_above(address);

    return place < memory.count && memory.list[place]->address <= address
               ? memory.list[place]
               : NULL;
}

bool
fake_overlaps(uint64_t address, size_t bytes)
{
    size_t place = place_above(address);

    return place < memory.count &&
           memory.list[place]->address < address + bytes;
}

int
fake_insert(const struct fake_allocation *new)
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

void
fake_forget(struct fake_allocation *one)
{
    size_t place = place_above(one->address);

    memory.count--;
    memmove(&memory.list[place], &memory.list[place + 1],
            (memory.count - place) * sizeof(struct fake_allocation *));
    free(one->accesses);
    free(one->granules);
    free(one);
}

bool
fake_in_view(uint64_t address)
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

bool
fake_is_device(const struct fake_allocation *one)
{
    return one->memory == FAKE_DEVICE_MEMORY || one->memory == FAKE_RESERVED;
}

int
fake_place(struct fake_allocation *new)
{
    size_t at = gap(memory.next, memory.bytes, new->span_bytes + PAGE_BYTES);

    if (at == SIZE_MAX) {
        at = gap(0, memory.bytes, new->span_bytes + PAGE_BYTES);
    }
    if (at == SIZE_MAX) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    new->address = (uintptr_t)memory.view + at;
    memory.next = at + new->span_bytes + PAGE_BYTES;
    return fake_insert(new);
}

bool
fake_view_open(uint64_t address, size_t bytes)
{
    char *at = memory.shadow + (address - (uintptr_t)memory.view);

    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    /* NaN, or a number nobody expects; by seed. */
    memset(at, fakecuda_random(2) == 0 ? 0xFF : 0x5B,
           bytes < memory.dirty_bytes ? bytes : memory.dirty_bytes);
    return true;
}

void
fake_view_close(uint64_t address, size_t bytes)
{
    size_t at = address - (uintptr_t)memory.view;

    (void)fallocate(memory.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)at, (off_t)bytes);
    (void)mprotect(memory.shadow + at, bytes, PROT_NONE);
}

int
fake_device_alloc(struct fake_context *context, size_t bytes,
                  CUdeviceptr *address)
{
    struct fake_allocation new = {
        .bytes = bytes, .memory = FAKE_DEVICE_MEMORY, .context = context};
    int result;

    if (bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes > machine.limit_bytes) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    new.span_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES *PAGE_BYTES;
    if (!fake_bytes_take(context->device, new.span_bytes)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = fake_place(&new);
    if (result == CUDA_SUCCESS && !fake_view_open(new.address, bytes)) {
        fake_forget(fake_find_any(new.address));
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        fake_bytes_give(context->device, new.span_bytes);
        return result;
    }
    *address = new.address;
    return CUDA_SUCCESS;
}

void
fake_device_free(struct fake_allocation *one)
{
    fake_view_close(one->address, one->span_bytes);
    fake_bytes_give(one->context->device, one->span_bytes);
    fake_forget(one);
}

void
fake_memory_drop(const struct fake_context *context)
{
    for (size_t i = memory.count; i-- > 0;) {
        struct fake_allocation *one = memory.list[i];
        if (one->context == context && one->memory == FAKE_DEVICE_MEMORY) {
            fakecuda_note("dropped", "%zu bytes with their context",
                          one->bytes);
            fake_device_free(one);
        } else if (one->context == context && one->memory == FAKE_RESERVED) {
            fake_virtual_drop(one);
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
    device = one != NULL && fake_is_device(one);
    (void)pthread_mutex_unlock(&machine.lock);
    if (one == NULL) {
        return NULL;
    }
    return device ? memory.shadow + (address - (uintptr_t)memory.view)
                  : (void *)(uintptr_t)address;
}

int
fake_pinned_row(uint64_t to, uint64_t from, size_t bytes)
{
    (void)pthread_mutex_lock(&machine.lock);
    const struct fake_allocation *target = fake_find(to, bytes);
    const struct fake_allocation *source = fake_find(from, bytes);
    bool to_host = target != NULL && target->pin != NULL;
    bool to_device = source != NULL && source->pin != NULL;
    struct fake_pin *pin = to_host     ? target->pin
                           : to_device ? source->pin
                                       : NULL;
    const struct fake_allocation *other = to_host ? source : target;
    (void)pthread_mutex_unlock(&machine.lock);
    if (pin == NULL || other == NULL || !fake_is_device(other)) {
        return 0;
    }
    uint64_t offset = (to_host ? from : to) - (uintptr_t)memory.view;
    return fake_pin_copy(pin, to_host ? to : from, bytes, memory.file, offset,
                         to_host)
               ? 1
               : -1;
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
    static const char *const words[] = {"device", "pinned", "registered",
                                        "reserved"};

    for (size_t i = 0; i < memory.count; i++) {
        fakecuda_note("leak", "%zu bytes of %s memory (allocation %lu)",
                      memory.list[i]->bytes, words[memory.list[i]->memory],
                      memory.list[i]->id);
    }
}
