/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena gives out addresses, chunks of a few MiB carry them. A card (or a
 * driver) without virtual memory management gets one block at open instead,
 * which it keeps. The driver is called under the memory's own lock: others then
 * wait for memory that is on its way, and nobody for a queue.
 */
#include "config.h"

#include "pager/device/cuda/memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/users.h"

enum {
    LEAST_BYTES = 16 << 20, /* of a default */
    BLOCK_PART =
        4, /* of the free memory: a block stays as long as the device */
    MOST_CHUNK_BYTES = 64 << 20,
    CHUNKS_WANTED = 64, /* at least, where they can be so small */
    ADDRESSES = 2,      /* for each byte, against gaps that are too small */
    LITTLE_BYTES = 64 << 20, /* kept between calls beside a user of CUDA */
};

static struct fy_cuda_memory_kind
kind_of(const struct cuda_device *device)
{
    return (struct fy_cuda_memory_kind){
        .type = FY_CUDA_MEMORY_PINNED,
        .location = {FY_CUDA_LOCATION_DEVICE, device->unit}};
}

static int
ran_out(struct cuda_device *device, uint64_t bytes, int result)
{
    char what[64];
    (void)snprintf(what, sizeof what, "%llu MiB of device memory",
                   (unsigned long long)((bytes + (1 << 20) - 1) >> 20));
    return cuda_status(device, what, result);
}

/* A default that is not there is made smaller. */
static int
open_block(struct cuda_device *device, uint64_t wanted, uint64_t unused)
{
    const struct fy_cuda_driver *driver = device->driver;
    struct cuda_memory *m = &device->memory;
    uint64_t bytes = wanted != 0 ? wanted : unused / BLOCK_PART;
    bytes = bytes / FY_ARENA_ALIGN * FY_ARENA_ALIGN;
    if (bytes == 0) {
        return fy_arena_new_at(0, 0, &m->arena);
    }
    int result = driver->alloc(&m->base, bytes);
    while (result == FY_CUDA_OUT_OF_MEMORY && bytes / 2 >= LEAST_BYTES) {
        bytes = bytes / 2 / FY_ARENA_ALIGN * FY_ARENA_ALIGN;
        result = driver->alloc(&m->base, bytes);
    }
    if (result != 0) {
        m->base = 0;
        return ran_out(device, bytes, result);
    }
    m->limit_bytes = m->backed_bytes = bytes;
    int status = fy_arena_new_at(m->base, bytes, &m->arena);
    if (status != 0) {
        (void)driver->free(m->base);
    }
    return status;
}

/* Whether a driver that says it can do that may: containers forbid some. */
static bool
may_create(struct cuda_device *device, size_t granularity)
{
    const struct fy_cuda_driver *driver = device->driver;
    struct fy_cuda_memory_kind kind = kind_of(device);
    uint64_t handle;
    int result = driver->memory_create(&handle, granularity, &kind, 0);
    if (result == 0) {
        result = driver->memory_release(handle);
    }
    return result != FY_CUDA_NOT_PERMITTED && result != FY_CUDA_NOT_SUPPORTED;
}

/* FY_ERR_UNSUPPORTED: addresses or memory for them are refused. */
static int
open_chunks(struct cuda_device *device, uint64_t limit, size_t granularity)
{
    const struct fy_cuda_driver *driver = device->driver;
    struct cuda_memory *m = &device->memory;
    if (!may_create(device, granularity)) {
        return FY_ERR_UNSUPPORTED;
    }
    uint64_t chunk = limit / CHUNKS_WANTED;
    chunk = chunk > MOST_CHUNK_BYTES ? MOST_CHUNK_BYTES : chunk;
    chunk = (chunk + granularity - 1) / granularity * granularity;
    chunk = chunk == 0 ? granularity : chunk;
    m->limit_bytes = limit;
    m->chunk_bytes = chunk;
    m->most_chunks = (unsigned)((limit + chunk - 1) / chunk);
    m->nchunks = m->most_chunks * ADDRESSES;
    m->chunks = calloc(m->nchunks, sizeof *m->chunks);
    if (!m->chunks) {
        return cuda_error(device, FY_ERR_NOMEM, "no memory for the device");
    }
    int result = driver->address_reserve(&m->base, m->nchunks * chunk, 0, 0, 0);
    if (result != 0) {
        free(m->chunks);
        m->chunks = NULL;
        return fy_cuda_is_fatal(result)
                   ? cuda_status(device, "addresses of device memory", result)
                   : FY_ERR_UNSUPPORTED;
    }
    int status = fy_arena_new_at(m->base, m->nchunks * chunk, &m->arena);
    if (status != 0) {
        (void)driver->address_free(m->base, m->nchunks * chunk);
        free(m->chunks);
    }
    return status;
}

static int
open_mark(struct cuda_device *device)
{
    const struct fy_cuda_driver *driver = device->driver;
    struct cuda_memory *m = &device->memory;
    uint64_t mark;
    int result = driver->alloc(&mark, FY_ARENA_ALIGN);
    if (result == 0) {
        result = driver->pointer_attribute(&m->mark_id,
                                           FY_CUDA_POINTER_BUFFER_ID, mark);
        if (result == 0) {
            m->mark = mark;
        } else {
            (void)driver->free(mark);
        }
    }
    return cuda_status(device, "the device's memory", result);
}

int
cuda_memory_open(struct cuda_device *device, uint64_t wanted)
{
    const struct fy_cuda_driver *driver = device->driver;
    struct cuda_memory *m = &device->memory;
    size_t unused, total, granularity = 0;
    int can = 0;
    int result = driver->memory_info(&unused, &total);
    if (result == 0) {
        result = driver->device_attribute(&can, FY_CUDA_CAN_MAP, device->unit);
        can = result == 0 && can;
        result = 0; /* an older driver does not know the question */
    }
    if (result == 0 && can) {
        struct fy_cuda_memory_kind kind = kind_of(device);
        result = driver->granularity(&granularity, &kind, 0);
    }
    if (result != 0) {
        return cuda_status(device, "the memory's size", result);
    }
    /* A tenth stays for libraries and other processes; no more than a small limit. */
    uint64_t limit = wanted != 0 && wanted < total ? wanted : total / 10 * 9;
    m->card_bytes = total / 10 * 9;
    m->margin_bytes = wanted != 0 && wanted < total / 10 ? wanted : total / 10;
    limit = limit / FY_ARENA_ALIGN * FY_ARENA_ALIGN;
    if (pthread_mutex_init(&m->lock, NULL) != 0) {
        return cuda_error(device, FY_ERR_NOMEM, "no memory for the device");
    }
    int status = open_mark(device);
    if (status == 0) {
        status = granularity == 0 || limit == 0
                     ? FY_ERR_UNSUPPORTED
                     : open_chunks(device, limit, granularity);
        if (status == FY_ERR_UNSUPPORTED) {
            m->chunk_bytes = m->nchunks = m->most_chunks = 0;
            status = open_block(device, wanted == 0 ? 0 : limit, unused);
        }
        if (status != 0) {
            (void)driver->free(m->mark);
            m->mark = 0;
        }
    }
    if (status == 0 && m->chunks) {
        cuda_budget_open(device);
    }
    if (status != 0) {
        pthread_mutex_destroy(&m->lock);
    }
    return status;
}

static uint64_t
chunk_address(const struct cuda_memory *m, unsigned i)
{
    return m->base + i * m->chunk_bytes;
}

/* Memory behind a chunk that has none. Lock held. */
static int
map_chunk(struct cuda_device *device, unsigned i)
{
    const struct fy_cuda_driver *driver = device->driver;
    struct cuda_memory *m = &device->memory;
    struct fy_cuda_memory_kind kind = kind_of(device);
    struct fy_cuda_access access = {.location = kind.location,
                                    .flags = FY_CUDA_ACCESS_READ_WRITE};
    uint64_t handle, at = chunk_address(m, i);
    if (m->backed_bytes >= m->most_chunks * m->chunk_bytes) {
        return FY_CUDA_OUT_OF_MEMORY;
    }
    int result = driver->memory_create(&handle, m->chunk_bytes, &kind, 0);
    if (result != 0) {
        return result;
    }
    result = driver->memory_map(at, m->chunk_bytes, 0, handle, 0);
    if (result == 0) {
        result = driver->memory_access(at, m->chunk_bytes, &access, 1);
        if (result != 0) {
            (void)driver->memory_unmap(at, m->chunk_bytes);
        }
    }
    if (result != 0) {
        (void)driver->memory_release(handle);
        return result;
    }
    m->chunks[i].handle = handle;
    m->backed_bytes += m->chunk_bytes;
    return 0;
}

/* Lock held; no work uses the chunk. */
static void
unmap_chunk(struct cuda_device *device, unsigned i)
{
    const struct fy_cuda_driver *driver = device->driver;
    struct cuda_memory *m = &device->memory;
    if (driver->memory_unmap(chunk_address(m, i), m->chunk_bytes) != 0) {
        return; /* stays ours */
    }
    (void)driver->memory_release(m->chunks[i].handle);
    m->chunks[i].handle = 0;
    m->backed_bytes -= m->chunk_bytes;
}

/* The highest chunk that has memory which nobody uses. Lock held. */
static bool
idle_chunk(const struct cuda_memory *m, unsigned *out)
{
    for (unsigned i = m->nchunks; i-- > 0;) {
        if (m->chunks[i].handle != 0 && m->chunks[i].users == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static void
use_chunks(struct cuda_memory *m, uint64_t at, uint64_t bytes, int by)
{
    if (!m->chunks) {
        return;
    }
    uint64_t last = (at - m->base + bytes - 1) / m->chunk_bytes;
    for (uint64_t i = (at - m->base) / m->chunk_bytes; i <= last; i++) {
        m->chunks[i].users += (unsigned)by;
    }
}

/*
 * Memory behind every chunk of an allocation: the card's, else that of chunks
 * that are not used now. Lock held.
 */
static int
back(struct cuda_device *device, uint64_t at, uint64_t bytes)
{
    struct cuda_memory *m = &device->memory;
    if (!m->chunks) {
        return 0;
    }
    uint64_t last = (at - m->base + bytes - 1) / m->chunk_bytes;
    for (uint64_t i = (at - m->base) / m->chunk_bytes; i <= last; i++) {
        unsigned idle;
        if (m->chunks[i].handle != 0) {
            continue;
        }
        int result = map_chunk(device, (unsigned)i);
        while (result == FY_CUDA_OUT_OF_MEMORY && idle_chunk(m, &idle)) {
            uint64_t before = m->backed_bytes;
            unmap_chunk(device, idle);
            result = m->backed_bytes == before ? FY_CUDA_OUT_OF_MEMORY
                                               : map_chunk(device, (unsigned)i);
            if (m->backed_bytes == before && result != 0) {
                break;
            }
        }
        if (result != 0) {
            return ran_out(device, m->backed_bytes + m->chunk_bytes, result);
        }
    }
    return 0;
}

int
cuda_memory_take(struct cuda_device *device, uint64_t bytes, bool kept,
                 uint64_t *out)
{
    struct cuda_memory *m = &device->memory;
    uint64_t at;
    pthread_mutex_lock(&m->lock);
    int status = FY_ERR_NOFIT;
    if (bytes <= m->limit_bytes &&
        fy_host_arena_used_bytes(m->arena) <= m->limit_bytes - bytes) {
        status = fy_host_arena_alloc(m->arena, bytes, &at);
    }
    if (status != 0) {
        status = cuda_error(device, status, "no room in the device's memory");
    } else {
        bytes = fy_host_arena_size(m->arena, at);
        use_chunks(m, at, bytes, 1);
        status = back(device, at, bytes);
        if (status != 0) {
            use_chunks(m, at, bytes, -1);
            fy_host_arena_release(m->arena, at);
        } else {
            m->kept_bytes += kept ? bytes : 0;
            m->uses++;
            *out = at;
            cuda_budget_tell(m);
        }
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

void
cuda_memory_release(struct cuda_device *device, uint64_t address, bool kept)
{
    struct cuda_memory *m = &device->memory;
    pthread_mutex_lock(&m->lock);
    uint64_t bytes = fy_host_arena_size(m->arena, address);
    if (bytes > 0) {
        use_chunks(m, address, bytes, -1);
        m->kept_bytes -= kept ? bytes : 0;
        fy_host_arena_release(m->arena, address);
        cuda_budget_tell(m);
    }
    pthread_mutex_unlock(&m->lock);
}

void
cuda_memory_keep(struct cuda_device *device, uint64_t address, bool kept)
{
    struct cuda_memory *m = &device->memory;
    pthread_mutex_lock(&m->lock);
    uint64_t bytes = fy_host_arena_size(m->arena, address);
    m->mirror_bytes += kept ? bytes : -bytes;
    cuda_budget_tell(m);
    pthread_mutex_unlock(&m->lock);
}

bool
cuda_memory_is_idle(const struct cuda_memory *m)
{
    return fy_host_arena_used_bytes(m->arena) ==
           m->kept_bytes + m->mirror_bytes;
}

void
cuda_memory_promise(struct cuda_device *device, int64_t bytes)
{
    struct cuda_memory *m = &device->memory;
    pthread_mutex_lock(&m->lock);
    m->promised_bytes += (uint64_t)bytes;
    pthread_mutex_unlock(&m->lock);
}

uint64_t
cuda_memory_usable(struct cuda_device *device)
{
    struct cuda_memory *m = &device->memory;
    size_t unused = 0, total;
    bool shared = cuda_users_any();
    pthread_mutex_lock(&m->lock);
    uint64_t usable = m->backed_bytes;
    if (m->chunks && usable < m->limit_bytes &&
        cuda_status(device, "the memory's size",
                    device->driver->memory_info(&unused, &total)) == 0 &&
        unused > m->margin_bytes) {
        usable += (unused - m->margin_bytes) / m->chunk_bytes * m->chunk_bytes;
    }
    if (shared && m->chunks) {
        usable /= 2; /* the program's threads go on allocating meanwhile */
    }
    usable = cuda_budget_limit(m, usable);
    usable = usable < m->limit_bytes ? usable : m->limit_bytes;
    uint64_t gone = m->kept_bytes + m->promised_bytes;
    pthread_mutex_unlock(&m->lock);
    return usable > gone ? usable - gone : 0;
}

bool
cuda_memory_is_surplus(struct cuda_device *device)
{
    struct cuda_memory *m = &device->memory;
    pthread_mutex_lock(&m->lock);
    bool surplus = cuda_memory_is_idle(m) && m->chunks &&
                   m->backed_bytes > m->kept_bytes + LITTLE_BYTES;
    pthread_mutex_unlock(&m->lock);
    return surplus && cuda_users_any();
}

uint64_t
cuda_memory_spare(const struct cuda_memory *m)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; m->chunks && i < m->nchunks; i++) {
        if (m->chunks[i].handle != 0 && m->chunks[i].users == 0) {
            bytes += m->chunk_bytes;
        }
    }
    return bytes;
}

uint64_t
cuda_memory_return(struct cuda_device *device, uint64_t bytes)
{
    struct cuda_memory *m = &device->memory;
    uint64_t before = m->backed_bytes;
    for (unsigned i = m->nchunks; m->chunks && i-- > 0;) {
        if (before - m->backed_bytes >= bytes) {
            break;
        }
        if (m->chunks[i].handle != 0 && m->chunks[i].users == 0) {
            unmap_chunk(device, i);
        }
    }
    cuda_budget_tell(m);
    return before - m->backed_bytes;
}

void
cuda_memory_give_back(struct cuda_device *device)
{
    struct cuda_memory *m = &device->memory;
    pthread_mutex_lock(&m->lock);
    (void)cuda_memory_return(device, UINT64_MAX);
    pthread_mutex_unlock(&m->lock);
}

void
cuda_memory_close(struct cuda_device *device, bool driver)
{
    struct cuda_memory *m = &device->memory;
    if (!m->arena) {
        return;
    }
    cuda_budget_close(device);
    for (unsigned i = 0; driver && m->chunks && i < m->nchunks; i++) {
        if (m->chunks[i].handle != 0) {
            unmap_chunk(device, i);
        }
    }
    if (driver && m->chunks) {
        (void)device->driver->address_free(m->base,
                                           m->nchunks * m->chunk_bytes);
    } else if (driver && m->base != 0) {
        (void)device->driver->free(m->base);
    }
    if (driver) {
        (void)device->driver->free(m->mark);
    }
    free(m->chunks);
    fy_host_arena_free(m->arena);
    m->mark = 0;
    m->chunks = NULL;
    m->arena = NULL;
    if (cuda_is_ours(device)) {
        pthread_mutex_destroy(&m->lock);
    }
}
