/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the program that ferry has page-locked for itself, because calls
 * keep coming back to it: their copies then go past the ring. Only what is
 * watched (watch.h) and will pay for itself, within a budget; the least
 * recently used goes first. What the program does to the memory ends it.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_REGISTER_H
#define FERRY_PAGER_DEVICE_CUDA_REGISTER_H

#include "pager/device/cuda/pieces.h"
#include "pager/device/device.h"

struct cuda_device;
struct cuda_registry;

/* Of all devices; before the first is opened. UINT64_MAX: by itself. */
void cuda_register_limit(uint64_t bytes);

struct cuda_registry *cuda_registry_new(struct cuda_device *device);
/* No call is running. In a forked child only the memory goes. */
void cuda_registry_free(struct cuda_registry *registry);

/* A call on these begins; `force': whether or not it pays. Caller's thread. */
void cuda_register_operands(struct cuda_registry *registry,
                            const struct fy_range *ranges, size_t count,
                            bool force);

/*
 * Issues what of the copy is in registered memory, and has the rest done by
 * the ring. False: none is, and nothing has happened. Issuing thread.
 */
bool cuda_register_copy(struct fy_stream *stream,
                        const struct fy_copy *transfer, int *status);
/* A copy of memory that is not went over the ring in that time. */
void cuda_register_missed(struct cuda_registry *registry,
                          const struct fy_copy *transfer, double seconds);

/*
 * Whether `is_locked' says so of memory that is not ours. What is ours must be
 * asked for by cuda_register_copy(), or go by the ring.
 */
bool cuda_register_is_foreign(struct cuda_registry *registry,
                              const struct fy_copy *transfer,
                              bool (*is_locked)(struct cuda_device *,
                                                const struct fy_copy *));

/* A stream of that number is idle, and ends. The context is current. */
void cuda_register_forget(struct cuda_registry *registry, uint64_t stream);

/* Gives everything back. */
void cuda_register_let_go(struct cuda_registry *registry);
/* From now on nothing is registered, on any device; until it is taken back. */
void cuda_register_stay(bool stay);

#endif
