/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes a schedule moves when tiles are kept by the known future (Belady): the
 * number by which candidates are compared, and the bounds that no schedule can beat.
 */
#include "config.h"

#include "pager/plan/traffic.h"

#include <stdlib.h>

#include "pager/execute/executor.h"

enum {
    NEVER = UINT32_MAX
};

/* A binary heap of (next use, tile), the latest on top; stale rows stay. */
struct heap {
    struct {
        uint32_t next, tile;
    } * rows;
    uint32_t used, room;
};

struct state {
    uint32_t next, last; /* steps of the next use, or NEVER, and of the last */
    bool resident, dirty, leaves;
    /* Times: copied in; the last use ends; copied out. */
    double ready, idle, gone;
};

static int
heap_push(struct heap *heap, uint32_t next, uint32_t tile)
{
    if (heap->used == heap->room) {
        uint32_t room = heap->room ? heap->room * 2 : 64;
        void *rows = realloc(heap->rows, room * sizeof(heap->rows[0]));
        if (!rows) {
            return FY_ERR_NOMEM;
        }
        heap->rows = rows;
        heap->room = room;
    }
    uint32_t i = heap->used++;
    while (i > 0 && heap->rows[(i - 1) / 2].next < next) {
        heap->rows[i] = heap->rows[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->rows[i].next = next;
    heap->rows[i].tile = tile;
    return FY_OK;
}

static bool
heap_pop(struct heap *heap, uint32_t *next, uint32_t *tile)
{
    if (heap->used == 0) {
        return false;
    }
    *next = heap->rows[0].next;
    *tile = heap->rows[0].tile;
    uint32_t last = --heap->used, i = 0, child;
    while ((child = 2 * i + 1) < last) {
        if (child + 1 < last &&
            heap->rows[child + 1].next > heap->rows[child].next) {
            child++;
        }
        if (heap->rows[child].next <= heap->rows[last].next) {
            break;
        }
        heap->rows[i] = heap->rows[child];
        i = child;
    }
    heap->rows[i] = heap->rows[last];
    return true;
}

struct cache {
    const struct fy_access_trace *trace;
    struct state *states;
    struct heap heap;
    uint64_t used, budget;
    uint64_t in, out;
    uint32_t lag;
    bool gives_up, evicts;
    double in_end, step_end, out_end; /* of the three lanes so far */
};

static double
later(double a, double b)
{
    return a > b ? a : b;
}

/* Copies a tile out, and notes the time. */
static void
copy_out(struct cache *cache, uint32_t tile)
{
    struct state *state = &cache->states[tile];
    const uint64_t bytes = cache->trace->tiles[tile].bytes;

    cache->out += bytes;
    cache->out_end = later(cache->out_end, state->idle) + (double)bytes;
    state->idle = state->gone = cache->out_end;
    state->dirty = false;
    state->leaves = true;
}

/* Returns true if the room of a tile is free soon: see executor.c. */
static bool
has_rested(const struct cache *cache, const struct state *state, uint32_t step)
{
    const uint32_t lag = cache->lag;

    if (state->next == NEVER) {
        return !cache->gives_up ||
               state->last + (state->leaves ? 2 * lag : lag) < step;
    }
    return lag == 0 || (state->last + lag < step &&
                        (cache->gives_up || state->next > step + 2 * lag));
}

/*
 * Chooses the tile that is used last, no tile of `step'; of two, a tile that has rested.
 * False: there is none.
 */
static bool
choose_victim(struct cache *cache, uint32_t step, uint32_t *out, int *status)
{
    struct {
        uint32_t next, tile;
    } aside[FY_SCHEDULE_LAG * FY_MAX_OPERANDS] = {{0}};
    uint32_t next, count = 0, second = 0;
    bool found = false;

    *status = FY_OK;
    while (!found && count < sizeof(aside) / sizeof(aside[0]) &&
           heap_pop(&cache->heap, &next, out)) {
        const struct state *state = &cache->states[*out];
        if (!state->resident || state->next != next || next <= step) {
            continue; /* stale, or in use by this step */
        }
        found = has_rested(cache, state, step);
        if (!found) {
            if (cache->gives_up &&
                state->last < cache->states[aside[second].tile].last) {
                second = count;
            }
            aside[count].next = next;
            aside[count++].tile = *out;
        }
    }
    for (uint32_t i = 0; i < count && *status == FY_OK; i++) {
        if (i == second && !found) {
            *out = aside[i].tile;
            continue;
        }
        *status = heap_push(&cache->heap, aside[i].next, aside[i].tile);
    }
    return found || count > 0;
}

/* Makes room by dropping tiles; *free_at: when it is free. */
static int
make_room(struct cache *cache, uint64_t bytes, uint32_t step, double *free_at)
{
    while (cache->used + bytes > cache->budget) {
        uint32_t tile = 0;
        int status;
        if (!choose_victim(cache, step, &tile, &status)) {
            return FY_ERR_NOFIT;
        }
        if (status) {
            return status;
        }
        struct state *state = &cache->states[tile];
        if (state->dirty) {
            copy_out(cache, tile);
        }
        state->resident = false;
        cache->evicts = true;
        cache->used -= cache->trace->tiles[tile].device_bytes;
        *free_at = later(*free_at, state->idle);
    }
    return FY_OK;
}

struct future {
    uint32_t
        step; /* after its own in which a row's tile is used again, or NEVER */
    bool final; /* none writes it again */
};

static struct future *
next_uses(const struct fy_access_trace *trace)
{
    struct future *next = calloc(trace->naccesses + 1u, sizeof(*next));
    struct future *seen = calloc(trace->ntiles + 1u, sizeof(*seen));

    if (next && seen) {
        for (uint32_t t = 0; t < trace->ntiles; t++) {
            seen[t] = (struct future){NEVER, true};
        }
        for (uint32_t i = trace->naccesses; i-- > 0;) {
            const struct fy_trace_access *row = &trace->accesses[i];
            struct future *of = &seen[row->tile];
            next[i] = *of;
            of->step = row->step;
            of->final = of->final &&
                        !(row->access & (FY_ACCESS_OUT | FY_ACCESS_RESTORED));
        }
    } else {
        free(next);
        next = NULL;
    }
    free(seen);
    return next;
}

static int
run_step(struct cache *cache, const struct future *next, uint32_t first,
         uint32_t end, double kernels)
{
    const struct fy_trace_access *rows = cache->trace->accesses;
    uint32_t step = rows[first].step;
    double start = cache->step_end;
    int status;

    for (uint32_t i = first; i < end; i++) {
        cache->states[rows[i].tile].next = step; /* pinned */
    }
    for (uint32_t i = first; i < end; i++) {
        const struct fy_trace_tile *tile = &cache->trace->tiles[rows[i].tile];
        struct state *state = &cache->states[rows[i].tile];
        if (!state->resident) {
            double free_at = 0;
            status = make_room(cache, tile->device_bytes, step, &free_at);
            if (status) {
                return status;
            }
            cache->used += tile->device_bytes;
            state->resident = true;
            state->ready = free_at;
            if (rows[i].access & FY_ACCESS_IN) {
                cache->in += tile->bytes;
                cache->in_end =
                    later(cache->in_end, free_at) + (double)tile->bytes;
                state->ready = cache->in_end;
            }
        }
        start = later(start, state->ready);
        if (rows[i].access & FY_ACCESS_OUT) {
            state->dirty = true;
        }
    }
    cache->step_end = start + kernels;
    for (uint32_t i = first; i < end; i++) {
        struct state *state = &cache->states[rows[i].tile];
        state->next = next[i].step;
        state->last = step;
        state->idle = later(cache->step_end, state->gone);
        if (state->dirty && next[i].final) {
            copy_out(cache, rows[i].tile);
        }
        status = heap_push(&cache->heap, next[i].step, rows[i].tile);
        if (status) {
            return status;
        }
    }
    return FY_OK;
}

static int
run_once(const struct fy_access_trace *trace, uint64_t budget_bytes,
         struct fy_trace_time *time, struct fy_traffic *out)
{
    struct cache cache = {.trace = trace,
                          .budget = budget_bytes,
                          .lag = time ? FY_SCHEDULE_LAG : 0,
                          .gives_up = time && time->gives_up};
    struct future *next = next_uses(trace);
    uint32_t steps = 0;
    int status = FY_OK;

    double works = 0;

    for (uint32_t i = 0; i < trace->naccesses; i++) {
        if (i == 0 || trace->accesses[i].step != trace->accesses[i - 1].step) {
            works += (double)trace->accesses[i].work;
            steps++;
        }
    }
    cache.states = calloc(trace->ntiles + 1, sizeof(*cache.states));
    if (!next || !cache.states) {
        status = FY_ERR_NOMEM;
    }
    for (uint32_t i = 0; status == FY_OK && i < trace->naccesses;) {
        uint32_t end = i + 1;
        while (end < trace->naccesses &&
               trace->accesses[end].step == trace->accesses[i].step) {
            end++;
        }
        double share = works > 0 ? (double)trace->accesses[i].work / works
                                 : 1 / (double)steps;
        status = run_step(&cache, next, i, end,
                          time ? time->kernels * share + time->start : 0);
        i = end;
    }
    if (status == FY_OK) {
        *out = (struct fy_traffic){
            .bytes_in = cache.in, .bytes_out = cache.out, .chunks = steps};
        if (time) {
            time->end = later(cache.step_end, cache.out_end);
            time->evicts = cache.evicts;
            time->cost = time->end + FY_TRACE_TRAFFIC_SHARE *
                                         ((double)cache.in + (double)cache.out);
        }
    }
    free(cache.heap.rows);
    free(cache.states);
    free(next);
    return status;
}

int
fy_trace_run(const struct fy_access_trace *trace, uint64_t budget_bytes,
             struct fy_trace_time *time, struct fy_traffic *out)
{
    if (!time) {
        return run_once(trace, budget_bytes, NULL, out);
    }
    struct fy_trace_time other = *time;
    struct fy_traffic others;
    time->gives_up = false;
    other.gives_up = true;
    int status = run_once(trace, budget_bytes, time, out);
    if (status != FY_OK || !time->evicts) {
        return status;
    }
    status = run_once(trace, budget_bytes, &other, &others);
    if (status == FY_OK && other.cost < time->cost) {
        *time = other;
        *out = others;
    }
    return status;
}

int
fy_planner_traffic(struct fy_planner *planner)
{
    const struct fy_schedule *schedule = &planner->plan.schedule;
    struct fy_replica_table *known = &planner->tiles;
    struct fy_access_trace trace = {0};
    const struct fy_plan_options *options = &planner->options;
    struct fy_trace_time time = {.kernels = 0};
    int status = fy_replica_build(known, schedule);

    trace.ntiles = HASH_COUNT(known->by_place);
    trace.tiles = malloc(sizeof(*trace.tiles) * (trace.ntiles + 1));
    trace.accesses = malloc(sizeof(*trace.accesses) * (schedule->ntiles + 1));
    if (status == FY_OK && (!trace.tiles || !trace.accesses)) {
        status = FY_ERR_NOMEM;
    }
    for (uint32_t s = 0; status == FY_OK && s < schedule->nsteps; s++) {
        const struct fy_step *step = &schedule->steps[s];
        for (uint32_t i = step->tiles; i < step->tiles + step->ntiles; i++) {
            const struct fy_tile *tile = &schedule->tiles[i];
            const struct fy_replica *r = known->uses[i].replica;
            trace.tiles[r->number] =
                (struct fy_trace_tile){.bytes = r->elements_bytes,
                                       .device_bytes = fy_tile_device_bytes(
                                           &schedule->views[tile->view], tile)};
            trace.accesses[trace.naccesses++] = (struct fy_trace_access){
                .step = s,
                .tile = r->number,
                .access = tile->access,
                .work = (float)planner->variants[step->tag]->work};
        }
    }
    if (status == FY_OK) {
        time.kernels = options->kernel_bytes;
        time.start = (double)options->overlap_bytes / FY_TRACE_STEP_SHARE;
        status = fy_trace_run(&trace, planner->options.budget_bytes,
                              schedule->overlaps ? &time : NULL,
                              &planner->plan.predicted);
    }
    planner->plan.end_bytes = schedule->overlaps ? time.end : 0;
    planner->plan.schedule.gives_up = schedule->overlaps && time.gives_up;
    planner->plan.predicted.chunks = schedule->nsteps;
    fy_replica_table_free(known);
    free(trace.tiles);
    free(trace.accesses);
    return status;
}

struct fy_traffic
fy_least_traffic(const struct fy_view *views, unsigned nviews)
{
    struct fy_traffic least = {.chunks = 1};

    for (unsigned i = 0; i < nviews; i++) {
        uint64_t bytes =
            fy_view_all_elements(&views[i]) * views[i].element_bytes;
        least.bytes_in += views[i].access & FY_ACCESS_IN ? bytes : 0;
        least.bytes_out += views[i].access & FY_ACCESS_OUT ? bytes : 0;
    }
    return least;
}

uint64_t
fy_compulsory_bytes(const struct fy_view *views, unsigned nviews)
{
    const struct fy_traffic least = fy_least_traffic(views, nviews);

    return least.bytes_in + least.bytes_out;
}
