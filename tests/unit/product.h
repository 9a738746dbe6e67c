/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiled products c += a * b of random shapes, layouts and tiles, as schedules
 * for the executor, with the result they must have. Shared by its tests.
 */
#ifndef FERRY_TESTS_PRODUCT_H
#define FERRY_TESTS_PRODUCT_H

#include "pager/execute/executor.h"

extern uint64_t random_state; /* the seed of all that follows; never 0 */
uint64_t random_below(uint64_t n);

/* A host device with that much memory; fails the test when it cannot. */
struct fy_device *open_device(uint64_t bytes);

struct product {
    int64_t extent[3]; /* m, n, k */
    int64_t tile[3];
    struct fy_view views[3];                  /* a, b, c */
    double *memory[3], *before[3], *expected; /* with all padding */
    size_t bytes[3];
    struct fy_schedule schedule; /* its planner is the device */
};

/* Returns new; c += a * b if c_is_read, else c = a * b. */
void make_product(struct product *p, struct fy_device *device, bool c_is_read);
void free_product(struct product *p);
/* c is as expected, a and b and every byte of padding are as before. */
void check_result(const struct product *p);

/* The most device memory that any one step needs. */
uint64_t step_bytes(const struct fy_schedule *s);

int64_t shorter(int64_t a, int64_t b);
/* A tile of two axes that lies densely on the device. */
void set_tile(struct fy_tile *t, int view, uint8_t access, const int64_t lo[2],
              const int64_t n[2]);

#endif
