/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See run.h. On a device the calls become one schedule, whose views are
 * the ranges: the executor then keeps a slice of a range on the device from its
 * first use to its last, and copies only what was there before or is wanted.
 */
#include "config.h"

#include "pager/deferred/run.h"

#include <stdlib.h>
#include <string.h>

#include "pager/deferred/fuse.h"
#include "pager/deferred/pages.h"
#include "pager/execute/executor.h"

enum {
    STEPS = 1 << 15,
    MOST_HOST = 1 << 15,   /* elements of a slice: what a cache holds */
    MOST_DEVICE = 1 << 20, /* ... what a copy is worth */
    AT_ONCE = 4,           /* slices in flight */
};

struct run {
    struct fy_defer_group *group;
    const struct fy_device_ops *ops;
    struct fy_fusion *fusion;
    struct fy_view views[FY_PAGES_RANGES];
    uint32_t nviews;
    uint8_t view_of[FY_PAGES_RANGES]; /* by row */
    struct fy_tile *tiles;
    struct fy_step *steps;
    uint32_t *variants; /* by step */
    uint32_t ntiles, nsteps;
};

void
fy_defer_run_direct(const struct fy_defer_group *group)
{
    int64_t count = group->calls[0]->count;

    for (int64_t at = 0; at < count; at += FY_DEFER_DIRECT) {
        int64_t n = count - at < FY_DEFER_DIRECT ? count - at : FY_DEFER_DIRECT;
        for (unsigned i = 0; i < group->ncalls; i++) {
            struct fy_deferred *call = group->calls[i];
            char *address[FY_MAX_OPERANDS];
            for (unsigned o = 0; o < call->bound.function->noperands; o++) {
                address[o] = fy_pages_at(call->row[o])->shadow +
                             at * call->bound.views[o].element_bytes;
            }
            fy_deferred_direct(call, n, address);
        }
    }
}

uint64_t
fy_defer_bytes(const struct fy_deferred *call, uint64_t rows)
{
    uint64_t bytes = 0;

    for (unsigned o = 0; o < call->bound.function->noperands; o++) {
        uint64_t row = UINT64_C(1) << call->row[o];
        bytes += rows & row ? (uint64_t)call->count *
                                  call->bound.views[o].element_bytes
                            : 0;
        rows &= ~row; /* each once */
    }
    return bytes;
}

/* Rows of the group, each once, with their element's size. */
static uint64_t
rows_of(const struct fy_defer_group *group,
        uint32_t element_bytes[FY_PAGES_RANGES])
{
    uint64_t rows = 0;

    for (unsigned i = 0; i < group->ncalls; i++) {
        const struct fy_deferred *call = group->calls[i];
        for (unsigned o = 0; o < call->bound.function->noperands; o++) {
            rows |= UINT64_C(1) << call->row[o];
            element_bytes[call->row[o]] = call->bound.views[o].element_bytes;
        }
    }
    return rows;
}

void
fy_defer_predict(struct fy_defer_group *group)
{
    uint32_t bytes[FY_PAGES_RANGES];
    uint64_t rows = rows_of(group, bytes);
    uint64_t count = (uint64_t)group->calls[0]->count;

    memset(&group->traffic, 0, sizeof(group->traffic));
    group->touched_bytes = 0;
    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        if (rows >> r & 1) {
            group->traffic.bytes_in +=
                group->loaded >> r & 1 ? count * bytes[r] : 0;
            group->traffic.bytes_out +=
                group->stored >> r & 1 ? count * bytes[r] : 0;
        }
    }
    for (unsigned i = 0; i < group->ncalls; i++) {
        const struct fy_deferred *call = group->calls[i];
        for (unsigned o = 0; o < call->bound.function->noperands; o++) {
            group->touched_bytes +=
                (double)count * call->bound.views[o].element_bytes;
        }
    }
    group->traffic.chunks = group->ncalls;
}

/* A kernel for several calls: its tiles are those of its buffers, in order. */
static int
launch_fused(const struct run *run, const struct fy_fused *fused,
             const struct fy_tile *tiles, const uint64_t *address,
             struct fy_stream *stream)
{
    uint64_t by_buffer[FY_KERNEL_BUFFERS] = {0};

    for (unsigned b = 0, t = 0; b < fused->nbuffers; b++) {
        if (fused->access[b] != 0) {
            by_buffer[b] = address[t++];
        }
    }
    return fy_fused_launch(fused, run->ops, tiles[0].n[0], by_buffer, stream);
}

static int
launch(void *opaque, const struct fy_step *step, const struct fy_tile *tiles,
       const uint64_t *address, struct fy_stream *stream)
{
    const struct run *run = opaque;
    if (step->chunk_call >= run->group->ncalls) {
        unsigned number = step->chunk_call - run->group->ncalls;
        return launch_fused(run, &run->fusion->kernels[number], tiles, address,
                            stream);
    }
    struct fy_deferred *call = run->group->calls[step->chunk_call];
    uint64_t by_operand[FY_MAX_OPERANDS] = {0};

    for (unsigned o = 0; o < call->bound.function->noperands; o++) {
        for (unsigned t = 0; t < step->ntiles; t++) {
            if (tiles[t].view == run->view_of[call->row[o]]) {
                by_operand[o] = address[t];
            }
        }
    }
    return fy_deferred_launch(call, run->variants[step->tag], by_operand,
                              stream);
}

static void
make_views(struct run *run, uint64_t rows, const uint32_t *bytes)
{
    const struct fy_defer_group *group = run->group;

    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        if (!(rows >> r & 1)) {
            continue;
        }
        unsigned access = (group->loaded >> r & 1 ? FY_ACCESS_IN : 0U) |
                          (group->stored >> r & 1 ? FY_ACCESS_OUT : 0U);
        run->view_of[r] = (uint8_t)run->nviews;
        run->views[run->nviews++] = (struct fy_view){
            .host = fy_pages_at(r)->shadow,
            .element_bytes = bytes[r],
            .access = (uint8_t)(access ? access : FY_ACCESS_SCRATCH),
            .naxes = 1,
            .extent = {group->calls[0]->count},
            .stride = {1},
        };
    }
}

/* One call on one slice: each range once, whatever operands it is. */
static int
add_step(struct run *run, unsigned number, int64_t at, int64_t n)
{
    struct fy_deferred *call = run->group->calls[number];
    struct fy_step *step = &run->steps[run->nsteps];
    int status =
        fy_deferred_length(call, &call->device, n, &run->variants[run->nsteps]);

    if (status) {
        return status;
    }
    *step = (struct fy_step){.tiles = run->ntiles,
                             .chunk_call = (uint16_t)number,
                             .tag = run->nsteps};
    for (unsigned o = 0; o < call->bound.function->noperands; o++) {
        unsigned view = run->view_of[call->row[o]], t = 0;
        while (t < step->ntiles && run->tiles[step->tiles + t].view != view) {
            t++;
        }
        struct fy_tile *tile = &run->tiles[step->tiles + t];
        if (t == step->ntiles) {
            step->ntiles++;
            run->ntiles++;
            *tile = (struct fy_tile){.view = (uint16_t)view,
                                     .naxes = 1,
                                     .lo = {at},
                                     .n = {n},
                                     .device_stride = {1}};
        }
        tile->access |= call->bound.views[o].access;
    }
    run->nsteps++;
    return FY_OK;
}

/* A kernel on one slice: what stays in registers has no tile. */
static void
add_fused(struct run *run, unsigned number, int64_t at, int64_t n)
{
    const struct fy_fused *fused = &run->fusion->kernels[number];
    struct fy_step *step = &run->steps[run->nsteps];

    *step = (struct fy_step){
        .tiles = run->ntiles,
        .chunk_call = (uint16_t)(run->group->ncalls + number),
        .tag = run->nsteps,
    };
    for (unsigned b = 0; b < fused->nbuffers; b++) {
        if (fused->access[b] != 0) {
            run->tiles[run->ntiles++] = (struct fy_tile){
                .view = run->view_of[fused->row[b]],
                .access = fused->access[b],
                .naxes = 1,
                .lo = {at},
                .n = {n},
                .device_stride = {1},
            };
            step->ntiles++;
        }
    }
    run->nsteps++;
}

static int64_t
slice_length(const struct run *run, uint64_t rows, const uint32_t *bytes,
             uint64_t budget, bool random, uint64_t seed)
{
    const struct fy_defer_group *group = run->group;
    int64_t count = group->calls[0]->count;
    int64_t most = run->ops->resolve ? MOST_DEVICE : MOST_HOST;
    int64_t least = count / (STEPS / group->ncalls) + 1;
    uint64_t element = 0;

    for (unsigned r = 0; r < FY_PAGES_RANGES; r++) {
        /* What is between two buffers, shared out. */
        element += rows >> r & 1 ? bytes[r] : 0;
    }
    uint64_t room = budget / AT_ONCE;
    uint64_t aligned = 256 * (uint64_t)run->nviews;
    if (room <= aligned) {
        return 0;
    }
    int64_t length = (int64_t)((room - aligned) / element);
    length = length < most ? length : most;
    length = length < count ? length : count;
    if (random && length > least) {
        length = least + (int64_t)fy_random_below(
                             &seed, (uint64_t)(length - least) + 1);
    } else if (length > 64) {
        length -= length % 64;
    }
    return length < least ? 0 : length;
}

static int
make_schedule(struct run *run, int64_t length)
{
    const struct fy_defer_group *group = run->group;
    int64_t count = group->calls[0]->count;
    size_t nslices = (size_t)((count + length - 1) / length);
    size_t nsteps = nslices * group->ncalls, ntiles = 0;

    for (unsigned i = 0; i < group->ncalls; i++) {
        ntiles += nslices * group->calls[i]->bound.function->noperands;
    }
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): at least one */
    run->tiles = calloc(ntiles, sizeof(*run->tiles));
    run->steps = calloc(nsteps, sizeof(*run->steps));
    run->variants = calloc(nsteps, sizeof(*run->variants));
    if (!run->tiles || !run->steps || !run->variants) {
        return FY_ERR_NOMEM;
    }
    for (int64_t at = 0; at < count; at += length) {
        int64_t n = count - at < length ? count - at : length;
        for (unsigned i = 0, k = 0; i < group->ncalls;) {
            if (k < run->fusion->count && run->fusion->kernels[k].first == i) {
                add_fused(run, k, at, n);
                i += run->fusion->kernels[k++].ncalls;
                continue;
            }
            int status = add_step(run, i++, at, n);
            if (status) {
                return status;
            }
        }
    }
    return FY_OK;
}

/* Rows that have to be on the device, now that kernels are known. */
static uint64_t
rows_there(const struct run *run)
{
    const struct fy_fusion *fusion = run->fusion;
    uint64_t rows = 0;

    for (unsigned i = 0, k = 0; i < run->group->ncalls;) {
        if (k == fusion->count || fusion->kernels[k].first != i) {
            rows |= run->group->calls[i]->reads | run->group->calls[i]->writes;
            i++;
            continue;
        }
        const struct fy_fused *fused = &fusion->kernels[k++];
        for (unsigned b = 0; b < fused->nbuffers; b++) {
            rows |= fused->access[b] ? UINT64_C(1) << fused->row[b] : 0;
        }
        i += fused->ncalls;
    }
    return rows;
}

int
fy_defer_run_device(struct fy_defer_group *group, const struct fy_lease *lease,
                    bool random, uint64_t seed)
{
    struct run *run;
    uint32_t bytes[FY_PAGES_RANGES];

    (void)rows_of(group, bytes);
    for (unsigned i = 0; i < group->ncalls; i++) {
        /* What they were prepared for may be another one by now. */
        if (group->calls[i]->device.planner.options.device != lease->device) {
            return FY_ERR_UNSUPPORTED;
        }
    }
    run = calloc(1, sizeof(*run));
    if (!run) {
        return FY_ERR_NOMEM;
    }
    run->group = group;
    run->ops = lease->device->ops;
    unsigned most =
        random ? 1 + (unsigned)fy_random_below(&seed, group->ncalls) : 0;
    int status = fy_fusion_new(group, lease, most, &run->fusion);
    if (status) {
        goto free_run;
    }
    uint64_t rows = rows_there(run);
    make_views(run, rows, bytes);
    int64_t length =
        slice_length(run, rows, bytes, lease->budget_bytes, random, seed);
    status = length > 0 ? make_schedule(run, length) : FY_ERR_NOFIT;
    if (status == FY_OK) {
        const struct fy_schedule schedule = {
            .views = run->views,
            .nviews = run->nviews,
            .tiles = run->tiles,
            .ntiles = run->ntiles,
            .steps = run->steps,
            .nsteps = run->nsteps,
            .launch = launch,
            .planner = run,
        };
        status = fy_executor_run(lease->executor, &schedule, &group->traffic);
    }
    group->nkernels = run->fusion->count;
    group->nfused = 0;
    for (unsigned k = 0; k < run->fusion->count; k++) {
        group->nfused += run->fusion->kernels[k].ncalls;
    }
    free(run->fusion);
    free(run->tiles);
    free(run->steps);
    free(run->variants);

free_run:
    free(run);
    return status;
}
