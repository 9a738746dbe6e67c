/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way between pageable host memory and the device: page-locked slots that
 * several threads fill and empty while the link transfers others. Used by the
 * CUDA device's issuing threads.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_RING_H
#define FERRY_PAGER_DEVICE_CUDA_RING_H

#include "pager/device/cuda/driver.h"
#include "pager/device/cuda/pieces.h"

struct cuda_device;
struct fy_stream;
struct cuda_ring;

enum {
    CUDA_SLOTS = 2,
    CUDA_LOOKS =
        6 /* processors at least, where a thread looks before it sleeps */
};

/* The slots of one thread. */
struct cuda_packer {
    struct cuda_device *device;
    void *memory; /* of all slots, page-locked */
    struct {
        char *memory;
        fy_cuda_handle event; /* of its last transfer */
        bool busy;            /* that may be under way */
    } slots[CUDA_SLOTS];
    unsigned turn;
};

/* Threads and slots come with the first large copy. Returns new, or NULL. */
struct cuda_ring *cuda_ring_new(struct cuda_device *device);
/* No copy is running. */
void cuda_ring_free(struct cuda_ring *ring);

/*
 * Moves the elements of `copy', cut into pieces, over the ring: a copy in is
 * issued on the stream when it returns and has read the host's elements; a copy
 * out has been written to the host. Issuing thread of `stream'.
 */
int cuda_ring_copy(struct fy_stream *stream, const struct fy_copy *copy);

/* fy_device_ops.save. */
int cuda_ring_save(struct fy_device *device, const struct fy_copy *copy);

/* fy_device_ops.look. */
int cuda_ring_look(struct fy_device *device, const struct fy_view *view,
                   bool (*is_good)(const void *block, uint64_t bytes,
                                   const void *argument),
                   const void *argument);

void cuda_packer_free(struct cuda_packer *packer);

#endif
