/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the host device offers, for tests: injected
 * failures, corruption and latency, guard pages, poison. Everything else goes
 * through fy_device_host in pager/device/device.h.
 */
#ifndef FERRY_PAGER_DEVICE_HOST_HOST_H
#define FERRY_PAGER_DEVICE_HOST_HOST_H

#include "pager/device/device.h"

/*
 * Operations (every call of the ops table that can fail, on this device) are
 * counted from 1 in the order they are called.
 */
struct fy_host_control {
    uint64_t fail_at;    /* the first operation that fails; 0: none */
    uint64_t fail_count; /* how many from there on; 0 means 1 */
    uint64_t
        fail_every; /* each operation of a number divisible by it; 0: none */
    bool fail_late; /* copies and launches fail while running, half done */
    uint64_t corrupt_at; /* this operation, if a copy, flips a bit; 0: none */
    uint64_t latency_ns; /* copies and launches start up to this much later */
    uint64_t seed;       /* of the latencies */
    bool guard;          /* see fy_host_arena_new; for the next device opened */
    bool poison;         /* new memory is filled with 0xff bytes (NaNs) */
};

/*
 * From then on; the counter begins again. Between calls of one thread only.
 * On NULL it sets what every device opened later begins with.
 */
void fy_host_control_set(struct fy_device *device,
                         const struct fy_host_control *control);
/* Operations since the device was opened or its control set. */
uint64_t fy_host_operations(struct fy_device *device);
/* Arena bytes in use: 0 when everybody has freed. */
uint64_t fy_host_used_bytes(struct fy_device *device);

#endif
