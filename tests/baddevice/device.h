/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host device that does wrong what a test wants: failures, corruption and
 * latency, guard pages, poison. A program that is linked with
 * -Wl,--wrap=fy_device_host has it in the place of the host device.
 */
#ifndef FERRY_TESTS_BADDEVICE_DEVICE_H
#define FERRY_TESTS_BADDEVICE_DEVICE_H

#include "pager/device/device.h"

/*
 * Operations (every call of the ops table that can fail, on this device) are
 * counted from 1 in the order they are called.
 */
struct bad_control {
    uint64_t fail_at;    /* the first operation that fails; 0: none */
    uint64_t fail_count; /* how many from there on; 0 means 1 */
    uint64_t
        fail_every; /* each operation of a number divisible by it; 0: none */
    bool fail_late; /* copies and launches fail while running, half done */
    uint64_t corrupt_at; /* this operation, if a copy, flips a bit; 0: none */
    uint64_t latency_ns; /* copies and launches start up to this much later */
    uint64_t seed;       /* of the latencies */
    bool guard;          /* each allocation lies between inaccessible pages */
    bool poison;         /* new memory is filled with 0xff bytes (NaNs) */
    bool shared; /* the program uses such devices itself; of all at once */
};

/*
 * From then on; the counter begins again. Between calls of one thread only.
 * On NULL it sets what every device opened later begins with.
 */
void bad_control_set(struct fy_device *device,
                     const struct bad_control *control);
/* Operations since the device was opened or its control set. */
uint64_t bad_operations(struct fy_device *device);
/* Bytes allocated: 0 when everybody has freed. */
uint64_t bad_used_bytes(struct fy_device *device);

/*
 * Reads "fail:N,count:N,every:N,late:1,corrupt:N,latency:NS,seed:N,guard:1,poison:1",
 * keys in any order, each optional. FY_ERR_INVALID on anything else.
 */
int bad_control_parse(const char *text, struct bad_control *out) FY_MUST_CHECK;

#endif
