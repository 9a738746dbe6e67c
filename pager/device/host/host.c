/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host device: a device made of this process's own memory and threads. It
 * gives every mechanism of the pager a place to run where there is no
 * accelerator, with a memory limit of one's choice, and runs originals on the
 * thread of their caller. In a forked child of the process that opened it,
 * every operation fails at once and none waits.
 */
#include "config.h"

#include "pager/device/host/internal.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/debug.h"
#include "pager/device/host_memory.h"
#include "pager/device/own_thread.h"

enum {
    LEAST_DEFAULT_BYTES = 16 << 20
};

bool
host_is_ours(const struct host_device *device)
{
    return *device->alive != 0;
}

int
host_error(struct host_device *device, int status, const char *text)
{
    __atomic_store_n(&device->error, text, __ATOMIC_RELAXED);
    fy_debug(DEVICE, "host device: %s: %s", fy_status_text(status), text);
    return status;
}

/* A quarter of the machine's memory, and at most half of the free part. */
static uint64_t
default_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = (uint64_t)1 << 30;
    uint64_t available = fy_host_available_bytes() / 2;
    if (pages > 0 && page > 0) {
        bytes = (uint64_t)pages / 4 * (uint64_t)page;
    }
    return bytes < available ? bytes : available;
}

/*
 * The arena is mapped at once. It takes at most a quarter of the memory that
 * limits leave the program, and where a default is refused nevertheless, less.
 */
static int
open_arena(struct host_device *device, uint64_t memory_bytes)
{
    uint64_t room = fy_host_unlimited_bytes() / 4;
    if (memory_bytes != 0) {
        return fy_host_arena_new(memory_bytes < room ? memory_bytes : room,
                                 &device->arena);
    }
    uint64_t bytes = default_bytes();
    bytes = bytes < room ? bytes : room;
    int status = fy_host_arena_new(bytes, &device->arena);
    while (status == FY_ERR_NOMEM && bytes > LEAST_DEFAULT_BYTES) {
        bytes /= 2;
        status = fy_host_arena_new(bytes, &device->arena);
    }
    return status;
}

static int
host_open(uint64_t memory_bytes, struct fy_device **out)
{
    int status = FY_ERR_NOMEM;
    struct host_device *device = calloc(1, sizeof *device);
    if (!device) {
        return status;
    }
    device->base.ops = &fy_device_host;
    device->error = "";
    status = fy_own_process_new(&device->alive);
    if (status != 0) {
        goto free_device;
    }
    status = open_arena(device, memory_bytes);
    if (status != 0) {
        goto unmap;
    }
    if (pthread_mutex_init(&device->lock, NULL) != 0) {
        goto free_arena;
    }
    if (pthread_cond_init(&device->change, NULL) != 0) {
        goto destroy_lock;
    }
    fy_debug(DEVICE, "host device opened, %llu bytes",
             (unsigned long long)fy_host_arena_bytes(device->arena));
    *out = &device->base;
    return 0;

destroy_lock:
    pthread_mutex_destroy(&device->lock);
free_arena:
    status = FY_ERR_NOMEM;
    fy_host_arena_free(device->arena);
unmap:
    fy_own_process_free(device->alive);
free_device:
    free(device);
    return status;
}

/* In a forked child only the memory goes: locks and threads are the parent's. */
static void
host_close(struct fy_device *base)
{
    struct host_device *device = (struct host_device *)base;
    if (!device) {
        return;
    }
    fy_debug(DEVICE, "host device closed");
    if (host_is_ours(device)) {
        while (device->streams) {
            host_stream_destroy(device->streams);
        }
        pthread_cond_destroy(&device->change);
        pthread_mutex_destroy(&device->lock);
    }
    fy_host_arena_free(device->arena);
    fy_own_process_free(device->alive);
    free(device);
}

static uint64_t
host_memory_bytes(struct fy_device *base)
{
    return fy_host_arena_bytes(((struct host_device *)base)->arena);
}

static int
host_alloc(struct fy_device *base, uint64_t bytes, uint64_t *out)
{
    struct host_device *device = (struct host_device *)base;
    if (!host_is_ours(device)) {
        return host_error(device, FY_ERR_DEVICE, fy_queue_inherited);
    }
    pthread_mutex_lock(&device->lock);
    int status = fy_host_arena_alloc(device->arena, bytes, out);
    pthread_mutex_unlock(&device->lock);
    if (status != 0) {
        return host_error(device, status, "no room in the arena");
    }
    return 0;
}

static void
host_free(struct fy_device *base, uint64_t address)
{
    struct host_device *device = (struct host_device *)base;
    if (!host_is_ours(device)) {
        return;
    }
    pthread_mutex_lock(&device->lock);
    fy_host_arena_release(device->arena, address);
    pthread_mutex_unlock(&device->lock);
}

static const char *
host_error_text(struct fy_device *base)
{
    if (!base) {
        return "no memory for the device";
    }
    return __atomic_load_n(&((struct host_device *)base)->error,
                           __ATOMIC_RELAXED);
}

static bool
host_inherited(struct fy_device *base)
{
    return !host_is_ours((struct host_device *)base);
}

const struct fy_device_ops fy_device_host = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .inherited = host_inherited,
    .memory_bytes = host_memory_bytes,
    .alloc = host_alloc,
    .free = host_free,
    .give_back = host_give_back,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .event_create = host_event_create,
    .event_destroy = host_event_destroy,
    .event_record = fy_queue_record,
    .event_wait = fy_queue_wait,
    .event_sync = host_event_sync,
    .stream_sync = host_stream_sync,
    .copy = fy_queue_copy,
    .launch = fy_queue_launch,
    .error_text = host_error_text,
};
