/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for a shape: every combination of a few part counts per axis and
 * every loop order is rated by arithmetic, the best are rated again by running
 * their tile accesses through a cache that knows the future, and the winner is
 * made into a plan.
 */
#include "config.h"

#include "pager/plan/axes.h"

#include <stdlib.h>
#include <string.h>

#include "common/debug.h"
#include "pager/plan/traffic.h"

enum {
    MAX_CUT_AXES = 4,
    MAX_COUNTS = 24,
    MAX_FINALISTS = 96,
    SEARCH_STEPS = 1 << 14, /* finer shapes only if nothing coarser fits */
    /* Time decides from so many times options.overlap_bytes on: on a simulated H100
     * dgemm of 2048 took 3.3 ms whole and 4.0 in pieces, 4096 11.7 either way, 8192 52
     * and 37. */
    OVERLAP_LEAST = 8,
    OVERLAP_STEPS = 64, /* of a call that fits */
    STEP_SHARE =
        6, /* of options.overlap_bytes: what one more of its steps costs */
};

/* As TOUCH_WEIGHT, for plans by time: rates of cards and their links. */
static const double DEVICE_WEIGHT = 1.0 / 50;

/* Weights of what is not traffic, in bytes of traffic. */
static const double STEP_BYTES = 32 * 1024; /* start of one chunk call */
static const double TOUCH_WEIGHT =
    1.0 / 400; /* a byte of a chunk call's operands */

struct candidate {
    uint32_t count[MAX_CUT_AXES];
    uint8_t order[MAX_CUT_AXES]; /* index into search.axis */
    double cost;
};

struct search {
    const struct fy_bound *bound;
    uint64_t budget, room; /* room: of it, less what fragments lose */
    unsigned naxes;        /* those that may be cut */
    unsigned axis[MAX_CUT_AXES];
    uint32_t counts[MAX_CUT_AXES][MAX_COUNTS];
    unsigned ncounts[MAX_CUT_AXES];
    /* Of each accessed operand: */
    unsigned noperands;
    double bytes[FY_MAX_OPERANDS];   /* declared, whole */
    double packing[FY_MAX_OPERANDS]; /* device bytes per declared byte */
    unsigned spans[FY_MAX_OPERANDS]; /* bit i: spans axis[i] */
    uint32_t kept;                   /* of the plan's options */
    bool read[FY_MAX_OPERANDS], written[FY_MAX_OPERANDS];
    uint16_t operand[FY_MAX_OPERANDS];
    struct candidate best[MAX_FINALISTS];
    unsigned nbest;
    bool single_buffered;
    bool fits;         /* all of it at once */
    double step_bytes; /* the cost of a step, where time decides; else 0 */
    double kernels;    /* of all steps, in bytes of the link */
};

static void
describe_operands(struct search *search)
{
    const struct fy_bound *bound = search->bound;
    const struct fy_operand *rows = FY_OF(bound, fy_operand, operands);

    for (unsigned o = 0; o < bound->function->noperands; o++) {
        const struct fy_view *view = &bound->views[o];
        unsigned i = search->noperands;
        double box = view->element_bytes;
        if (view->naxes == 0) {
            continue;
        }
        search->operand[i] = (uint16_t)o;
        search->bytes[i] =
            (double)fy_view_all_elements(view) * view->element_bytes;
        search->read[i] =
            (view->access & FY_ACCESS_IN) != 0 && !(search->kept >> o & 1);
        search->written[i] = (view->access & FY_ACCESS_OUT) != 0;
        search->spans[i] = 0;
        for (unsigned k = 0; k < view->naxes; k++) {
            box *= (double)view->extent[k];
            for (unsigned j = 0; j < search->naxes; j++) {
                if (k < rows[o].naxes &&
                    rows[o].axes[k].axis == search->axis[j]) {
                    search->spans[i] |= 1u << j;
                }
            }
        }
        search->packing[i] = box / search->bytes[i];
        search->noperands++;
    }
}

/* Part counts worth trying: all small ones, then ever fewer, to one by one. */
static void
list_counts(struct search *search, unsigned i)
{
    int64_t extent = search->bound->extents[search->axis[i]];
    int64_t steps = search->fits ? OVERLAP_STEPS / 4 : SEARCH_STEPS;
    int64_t most = extent < steps ? extent : steps;
    double count = 1;

    search->ncounts[i] = 0;
    while (search->ncounts[i] < MAX_COUNTS - 1 && (int64_t)count < most) {
        search->counts[i][search->ncounts[i]++] = (uint32_t)count;
        double next = count * 1.4;
        count = next < count + 1 ? count + 1 : (double)(int64_t)next;
    }
    search->counts[i][search->ncounts[i]++] = (uint32_t)most;
}

static double
tile_share(const struct search *search, unsigned operand, const uint32_t *count)
{
    double share = 1;
    for (unsigned i = 0; i < search->naxes; i++) {
        if (search->spans[operand] & 1u << i) {
            share /= count[i];
        }
    }
    return share;
}

/*
 * Bytes that come before the first step can run, and go after the last step, while
 * nothing else does.
 */
static double
rate_ends(const struct search *search, const uint32_t *count)
{
    double total = 0;

    for (unsigned o = 0; o < search->noperands; o++) {
        double tile = search->bytes[o] * tile_share(search, o, count);
        total +=
            tile * ((search->read[o] ? 1 : 0) + (search->written[o] ? 1 : 0));
    }
    return total;
}

/*
 * Rough traffic in bytes: an operand comes again with every turn of the loops
 * around the innermost one it spans; what stays free saves one sweep of it.
 */
static double
rate(const struct search *search, const uint32_t *count, const uint8_t *order)
{
    double total = 0, working = 0, saving = 0, steps = 1, touched = 0;
    double out = 0, waits = 0;

    for (unsigned i = 0; i < search->naxes; i++) {
        steps *= count[i];
    }
    for (unsigned o = 0; o < search->noperands; o++) {
        double tile = search->bytes[o] * tile_share(search, o, count);
        double device = tile * search->packing[o];
        bool streamed = false;
        unsigned last = search->naxes;
        for (unsigned i = 0; i < search->naxes; i++) {
            if (search->spans[o] & 1u << order[i] && count[order[i]] > 1) {
                last = i;
            }
        }
        for (unsigned i = search->naxes; i-- > 0;) {
            if (count[order[i]] > 1) {
                streamed = last == i; /* another tile in every step */
                break;
            }
        }
        touched += device * steps;
        working += streamed && !search->single_buffered ? 2 * device : device;
    }
    if (working > (double)search->room ||
        (search->fits && steps > OVERLAP_STEPS)) {
        return -1;
    }
    for (unsigned o = 0; o < search->noperands; o++) {
        double loads = 1, inner = search->bytes[o];
        unsigned last = 0;
        for (unsigned i = 0; i < search->naxes; i++) {
            if (search->spans[o] & 1u << order[i] && count[order[i]] > 1) {
                last = i + 1;
            }
        }
        double passes = 1;
        for (unsigned i = 0; i < last && !search->fits; i++) {
            if (!(search->spans[o] & 1u << order[i])) {
                passes *= count[order[i]];
            }
        }
        loads =
            passes * ((search->read[o] ? 1 : 0) + (search->written[o] ? 1 : 0));
        if (search->written[o] && !search->read[o]) {
            loads += passes - 1; /* comes back to be added to */
        }
        total += loads * inner;
        out += search->written[o] ? passes * inner : 0;
        double tile = inner * tile_share(search, o, count);
        if (search->written[o] &&
            working + tile * search->packing[o] > (double)search->room) {
            waits += passes * inner - tile; /* for the one before to be out */
        }
        double spare = (double)search->room - working;
        double again = (passes - 1) * (spare < inner ? spare : inner);
        if (again > saving) {
            saving = again;
        }
    }
    if (search->step_bytes > 0) {
        double in = total - saving - out;
        double longest = in > out ? in : out;
        double memory = touched * DEVICE_WEIGHT;
        double kernels = (search->kernels > memory ? search->kernels : memory) +
                         steps * search->step_bytes;
        return rate_ends(search, count) +
               FY_TRACE_TRAFFIC_SHARE * (total - saving) + waits +
               (kernels > longest ? kernels : longest);
    }
    return total - saving + steps * STEP_BYTES + touched * TOUCH_WEIGHT;
}

static void
offer(struct search *search, const uint32_t *count, const uint8_t *order,
      double cost)
{
    unsigned at = search->nbest;

    while (at > 0 && search->best[at - 1].cost > cost) {
        at--;
    }
    if (at == MAX_FINALISTS) {
        return;
    }
    if (search->nbest < MAX_FINALISTS) {
        search->nbest++;
    }
    memmove(&search->best[at + 1], &search->best[at],
            sizeof(search->best[0]) * (search->nbest - 1 - at));
    memcpy(search->best[at].count, count, sizeof(search->best[at].count));
    memcpy(search->best[at].order, order, sizeof(search->best[at].order));
    search->best[at].cost = cost;
}

/* Every order of the loops; those of one part do not count. */
static void
try_orders(struct search *search, const uint32_t *count, uint8_t *order,
           unsigned at)
{
    if (at == search->naxes) {
        double cost = rate(search, count, order);
        if (cost >= 0) {
            offer(search, count, order, cost);
        }
        return;
    }
    for (unsigned i = at; i < search->naxes; i++) {
        uint8_t t = order[at];
        if (i > at && (count[order[i]] == 1 || count[order[at]] == 1)) {
            continue;
        }
        order[at] = order[i];
        order[i] = t;
        try_orders(search, count, order, at + 1);
        order[i] = order[at];
        order[at] = t;
    }
}

static void
try_counts(struct search *search, uint32_t *count, unsigned i, double steps)
{
    if (i == search->naxes) {
        uint8_t order[MAX_CUT_AXES] = {0, 1, 2, 3};
        try_orders(search, count, order, 0);
        return;
    }
    for (unsigned c = 0; c < search->ncounts[i]; c++) {
        count[i] = search->counts[i][c];
        if (steps * count[i] > SEARCH_STEPS) {
            break;
        }
        try_counts(search, count, i + 1, steps * count[i]);
    }
}

/* Parts of an extent: long ones begin at multiples that BLAS likes. */
static int64_t
granule(const struct fy_axis *axis, int64_t extent, uint32_t count)
{
    int64_t multiple = axis->multiple > 1 ? axis->multiple : 1;
    if (extent / count >= 128 && 16 % multiple == 0) {
        multiple = 16;
    }
    return multiple;
}

static int
make_shape(const struct search *search, const struct candidate *candidate,
           struct fy_shape *shape)
{
    const struct fy_axis *axes = FY_OF(search->bound, fy_axis, axes);

    memset(shape, 0, sizeof(*shape));
    for (unsigned i = 0; i < search->naxes; i++) {
        unsigned j = candidate->order[i], a = search->axis[j];
        int64_t extent = search->bound->extents[a];
        int status = fy_cuts_even(
            extent, candidate->count[j],
            granule(&axes[a], extent, candidate->count[j]), &shape->cuts[a]);
        if (status) {
            fy_shape_free(shape);
            return status;
        }
        shape->order[shape->norder++] = (uint8_t)a;
    }
    return FY_OK;
}

/* Numbers one operand's tiles and their sizes. */
static void
trace_operand(const struct search *search, const struct fy_shape *shape,
              unsigned i, const uint32_t *parts, struct fy_access_trace *trace,
              uint32_t base, uint32_t step)
{
    const struct fy_bound *bound = search->bound;
    uint32_t number = 0;
    double share = 1;

    for (unsigned j = 0; j < search->naxes; j++) {
        unsigned a = search->axis[j];
        if (!(search->spans[i] & 1u << j)) {
            continue;
        }
        number = number * shape->cuts[a].count + parts[a];
        share *= (double)fy_cuts_length(&shape->cuts[a], parts[a]) /
                 (double)bound->extents[a];
    }
    struct fy_trace_tile *tile = &trace->tiles[base + number];
    tile->bytes = (uint64_t)(search->bytes[i] * share);
    tile->device_bytes =
        ((uint64_t)((double)tile->bytes * search->packing[i]) + 255) &
        ~(uint64_t)255;
    trace->accesses[trace->naccesses++] = (struct fy_trace_access){
        .step = step,
        .tile = base + number,
        .access = (uint8_t)((search->read[i] ? FY_ACCESS_IN : 0) |
                            (search->written[i] ? FY_ACCESS_OUT : 0)),
    };
}

/* Traffic of a shape as a perfect cache has it. */
static int
rate_exactly(const struct search *search, const struct fy_shape *shape,
             double *out)
{
    uint64_t steps = fy_shape_steps(shape);
    struct fy_access_trace trace = {0};
    struct fy_trace_time time = {.cost = 0};
    struct fy_traffic traffic;
    uint32_t base[FY_MAX_OPERANDS];
    double touched = 0;
    int status = FY_ERR_NOMEM;

    for (unsigned i = 0; i < search->noperands; i++) {
        uint64_t tiles = 1;
        base[i] = trace.ntiles;
        for (unsigned j = 0; j < search->naxes; j++) {
            if (search->spans[i] & 1u << j) {
                tiles *= shape->cuts[search->axis[j]].count;
            }
        }
        trace.ntiles += (uint32_t)tiles;
    }
    trace.tiles = calloc(trace.ntiles + 1, sizeof(*trace.tiles));
    trace.accesses =
        malloc(sizeof(*trace.accesses) * (steps * search->noperands + 1));
    if (trace.tiles && trace.accesses) {
        for (uint64_t s = 0; s < steps; s++) {
            uint32_t parts[FY_MAX_AXES];
            fy_shape_parts(shape, s, parts);
            for (unsigned i = 0; i < search->noperands; i++) {
                trace_operand(search, shape, i, parts, &trace, base[i],
                              (uint32_t)s);
            }
        }
        for (uint32_t i = 0; i < trace.naccesses; i++) {
            touched += (double)trace.tiles[trace.accesses[i].tile].device_bytes;
        }
        double memory = touched * DEVICE_WEIGHT;
        time.kernels = search->kernels > memory ? search->kernels : memory;
        time.start = search->step_bytes;
        status = fy_trace_run(&trace, search->room,
                              search->step_bytes > 0 ? &time : NULL, &traffic);
    }
    if (status == FY_OK && search->step_bytes > 0) {
        *out = time.cost;
    } else if (status == FY_OK) {
        *out = (double)traffic.bytes_in + (double)traffic.bytes_out +
               (double)steps * STEP_BYTES + touched * TOUCH_WEIGHT;
    }
    free(trace.tiles);
    free(trace.accesses);
    return status;
}

/* The finalist that moves least, or ends first. Returns new parts in *out. */
static int
choose(const struct search *search, struct fy_shape *out)
{
    double least = 0;
    bool found = false;

    for (unsigned i = 0; i < search->nbest; i++) {
        struct fy_shape shape;
        double cost;
        int status = make_shape(search, &search->best[i], &shape);
        if (status == FY_OK) {
            status = rate_exactly(search, &shape, &cost);
            if (status == FY_OK && (!found || cost < least)) {
                if (found) {
                    fy_shape_free(out);
                }
                *out = shape;
                least = cost;
                found = true;
                continue;
            }
            fy_shape_free(&shape);
        }
        if (status == FY_ERR_NOMEM) {
            if (found) {
                fy_shape_free(out);
            }
            return status;
        }
    }
    fy_debug(PLAN,
             "%u shapes were tried; the best costs %.0f bytes of the link",
             search->nbest, least);
    return found ? FY_OK : FY_ERR_NOFIT;
}

static int
search_budget(struct fy_planner *planner, struct search *search)
{
    uint32_t count[MAX_CUT_AXES];
    struct fy_shape shape;
    int status;

    search->room = search->fits || search->step_bytes == 0
                       ? search->budget
                       : search->budget - search->budget / 8;
    search->nbest = 0;
    search->single_buffered = false;
    try_counts(search, count, 0, 1);
    if (search->nbest == 0) {
        search->single_buffered = true;
        try_counts(search, count, 0, 1);
    }
    status = choose(search, &shape);
    if (status) {
        return status;
    }
    fy_planner_reset(planner);
    status = fy_plan_shape(planner, &shape);
    fy_shape_free(&shape);
    return status;
}

bool
fy_plan_takes_long(const struct fy_planner *planner)
{
    const uint64_t least = planner->options.overlap_bytes;
    const struct fy_bound *bound = planner->bound;

    return least > 0 &&
           fy_compulsory_bytes(bound->views, bound->function->noperands) >
               OVERLAP_LEAST * least;
}

/* False: no axis can be cut. */
static bool
begin(const struct fy_planner *planner, struct search *search)
{
    search->bound = planner->bound;
    search->budget = planner->options.budget_bytes;
    search->kernels = planner->options.kernel_bytes;
    search->kept = planner->options.kept;
    if (fy_plan_takes_long(planner)) {
        search->step_bytes =
            (double)planner->options.overlap_bytes / STEP_SHARE;
    }
    for (unsigned a = 0; a < planner->bound->function->naxes; a++) {
        if (search->naxes < MAX_CUT_AXES && fy_axis_is_splittable(planner, a)) {
            search->axis[search->naxes] = a;
            list_counts(search, search->naxes++);
        }
    }
    describe_operands(search);
    return search->naxes > 0;
}

int
fy_plan_overlapped(struct fy_planner *planner)
{
    struct search search = {.fits = true};
    double all = 0;

    if (!fy_plan_takes_long(planner) || !begin(planner, &search)) {
        return FY_ERR_NOFIT;
    }
    for (unsigned o = 0; o < search.noperands; o++) {
        all += search.bytes[o] * search.packing[o];
    }
    /* What rounding to the device's alignment adds is less than a sixteenth. */
    return all > (double)search.budget / 16 * 15
               ? FY_ERR_NOFIT
               : search_budget(planner, &search);
}

int
fy_plan_search(struct fy_planner *planner)
{
    struct search search = {.fits = false};
    int status = FY_ERR_NOFIT;

    if (!begin(planner, &search)) {
        return FY_ERR_NOFIT;
    }
    /* Rounding to the device's alignment can pass the budget: ask for less. */
    for (unsigned i = 0; i < 4 && status == FY_ERR_NOFIT; i++) {
        status = search_budget(planner, &search);
        search.budget -= search.budget / 8;
    }
    return status;
}
