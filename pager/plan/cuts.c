/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting one dimension into parts, evenly or at random.
 */
#include "config.h"

#include "pager/plan/build.h"

#include <stdlib.h>

uint64_t
fy_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t
fy_random_below(uint64_t *state, uint64_t bound)
{
    return bound ? fy_random(state) % bound : 0;
}

void
fy_cuts_free(struct fy_cuts *cuts)
{
    free(cuts->start);
    *cuts = (struct fy_cuts){0, NULL};
}

int64_t
fy_cuts_length(const struct fy_cuts *cuts, uint32_t i)
{
    return cuts->start[i + 1] - cuts->start[i];
}

int64_t
fy_cuts_longest(const struct fy_cuts *cuts)
{
    int64_t longest = 0;
    for (uint32_t i = 0; i < cuts->count; i++) {
        if (fy_cuts_length(cuts, i) > longest) {
            longest = fy_cuts_length(cuts, i);
        }
    }
    return longest;
}

static int64_t
round_up(int64_t n, int64_t multiple)
{
    int64_t rest = n % multiple;
    return rest == 0 ? n : n + (multiple - rest);
}

int
fy_cuts_even(int64_t extent, uint32_t count, int64_t multiple,
             struct fy_cuts *out)
{
    if (count == 0 || multiple < 1 || extent < 1) {
        return FY_ERR_INVALID;
    }
    if ((int64_t)count > extent) {
        count = (uint32_t)extent;
    }
    int64_t length = (extent + count - 1) / count;
    if (length < extent) {
        length = round_up(length, multiple);
    }
    count = (uint32_t)((extent + length - 1) / length);
    out->start = malloc(sizeof(*out->start) * (count + 1));
    if (!out->start) {
        return FY_ERR_NOMEM;
    }
    out->count = count;
    for (uint32_t i = 0; i < count; i++) {
        out->start[i] = i * length;
    }
    out->start[count] = extent;
    return FY_OK;
}

int
fy_cuts_random(int64_t extent, int64_t largest, uint32_t most, int64_t multiple,
               uint64_t *state, struct fy_cuts *out)
{
    if (extent < 1 || multiple < 1) {
        return FY_ERR_INVALID;
    }
    if (largest < 1) {
        largest = 1;
    }
    if (most < 1) {
        most = 1;
    }
    int64_t least = (extent + most - 1) / most;
    if (largest < least) {
        largest = least;
    }
    uint64_t room = (uint64_t)(extent / least) + 2;
    out->start = malloc(sizeof(*out->start) * (room + 1));
    if (!out->start) {
        return FY_ERR_NOMEM;
    }
    out->count = 0;
    for (int64_t at = 0; at < extent;) {
        int64_t length = least + (int64_t)fy_random_below(
                                     state, (uint64_t)(largest - least) + 1);
        length = round_up(length, multiple);
        if (length > extent - at) {
            length = extent - at;
        }
        out->start[out->count++] = at;
        at += length;
    }
    out->start[out->count] = extent;
    return FY_OK;
}
