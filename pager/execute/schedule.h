/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schedule: one call cut into steps, each of which computes on tiles of the
 * call's operands. The planner writes it knowing only axes; the executor runs
 * it knowing only tiles: it keeps tiles on the device, evicts by the known
 * future (Belady), overlaps copies with compute, and makes it a transaction.
 */
#ifndef FERRY_PAGER_EXECUTE_SCHEDULE_H
#define FERRY_PAGER_EXECUTE_SCHEDULE_H

#include "annotations/model/model.h"
#include "pager/device/device.h"
#include "pager/memory/memory.h"

/*
 * A box of a view: indices lo[k] .. lo[k] + n[k] - 1. Two tiles of one view in
 * one schedule are equal, or begin at different places and are disjoint (unless
 * both are only read).
 */
struct fy_tile {
    uint16_t view;
    /* in this step: IN, OUT (old content not needed), INOUT; IN with RESTORED */
    uint8_t access;
    uint8_t naxes;
    int64_t lo[FY_MAX_OPERAND_AXES];
    int64_t n[FY_MAX_OPERAND_AXES];
    /* Where its elements must lie on the device, in elements; the tile's
     * buffer spans them. The same for every step that uses an equal tile. */
    int64_t device_stride[FY_MAX_OPERAND_AXES];
};

struct fy_step {
    uint32_t tiles; /* first row in fy_schedule.tiles */
    uint16_t ntiles;
    uint32_t tag; /* the planner's own: which chunk this is */
    /* All that steps before it wrote is back in host memory before its tiles are
     * copied in: they may be other tiles of the same memory. */
    bool after;
};

/*
 * Called on the calling thread when the step's tiles have addresses: must
 * launch() its calls on `stream': one, or several that run in order. address[i] is the device address of
 * element (0, 0, ...) of the i-th tile of the step.
 */
typedef int fy_step_launch(void *planner, const struct fy_step *step,
                           const struct fy_tile *tiles, const uint64_t *address,
                           struct fy_stream *stream);

struct fy_schedule {
    const struct fy_view *views;
    uint32_t nviews;
    struct fy_tile *tiles;
    uint32_t ntiles;
    struct fy_step *steps;
    uint32_t nsteps;
    fy_step_launch *launch;
    void *planner;
    /*
     * NULL, or asked once when every step has run and before anything is
     * final: false undoes all (FY_ERR_UNSUPPORTED).
     */
    bool (*accept)(void *planner);
    bool overlaps; /* the device copies both ways while it computes */
    bool
        gives_up; /* of tiles that will be used again, before it waits for the room
                    * of results that have just left */
    struct fy_hold *hold; /* operands with mirrors; NULL: none. Borrowed. */
    uint32_t
        align_bytes; /* of tiles, if kernels want more than elements have */
    bool spoils;     /* kernels overwrite inputs (cuFFT, C2R): no mirrors */
};

/* Tiles of so many steps before keep their room where others will do, if copies
 * overlap kernels: theirs may still run. */
enum {
    FY_SCHEDULE_LAG = 4
};

/* The counts of a run, for the report. Bytes count declared elements only. */
struct fy_traffic {
    uint64_t bytes_in, bytes_out;
    uint64_t chunks; /* steps that ran */
    /* Residency: bytes that were on the device already, so not in bytes_in; hashed bytes. */
    uint64_t kept_bytes, hashed_bytes;
};

#endif
