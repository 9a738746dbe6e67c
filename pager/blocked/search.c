/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of blocks and macro-blocks: a few of each are run as traces through a cache
 * that knows the future; the best one becomes the plan.
 */
#include "config.h"

#include "pager/blocked/nest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SUPERS = 8,
    MOST_LIKELY = 3, /* rectangular macro-blocks that are looked at closely */
    MAX_BEST = 4,
    ENOUGH_WORK = 1 << 19, /* of tiles and steps, once a size is known to fit */
    MOST_WORK = 1 << 21
};

/* As in plan/search.c, less: products of square blocks are what BLAS is best at. */
static const double STEP_BYTES = 3 * 1024;
static const double TOUCH_WEIGHT = 1.0 / 1600;

struct size {
    int64_t side, depth; /* of blocks; depth: along the summed dimension */
    uint32_t macro_rows, macro_cols;
    double cost;
};

static void
free_cuts(struct fy_algo *algo)
{
    for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
        fy_cuts_free(&algo->cuts[d]);
    }
}

static int
make_steps(struct fy_algo *algo)
{
    const struct fy_algo_row *row = algo->row;

    return row->program ? row->program(algo)
                        : fy_nest_run(algo, row->adjoint && algo->transa != 'N'
                                                ? row->adjoint
                                                : row->nest);
}

bool
fy_algo_is_regular(const struct fy_algo *algo)
{
    const struct fy_matrix *a = &algo->matrices[0];
    const struct fy_diagonal diagonal = {
        .host = a->host,
        .count = algo->diag == 'U' ? 0 : algo->n,
        .stride_bytes = (a->ld + 1) * (int64_t)algo->element_bytes,
        .element = algo->element,
    };

    return fy_diagonal_is_regular(&diagonal);
}

/* Makes the plan for the free dimensions' cuts, and the macro-blocks that are set. */
static int
generate(struct fy_algo *algo)
{
    const struct fy_algo_sizes *sizes = algo->row->sizes;
    struct fy_planner *planner = algo->planner;
    struct fy_view views[FY_MAX_MATRICES];
    char *info = planner->info_pointer;
    int status = sizes ? sizes->beside(algo) : FY_OK;

    for (unsigned d = 0; status == FY_OK && d < FY_MAX_DIMENSIONS; d++) {
        if (algo->extent[d] > 0 && algo->cuts[d].count == 0) {
            status = fy_cuts_even(algo->extent[d], 1, 1, &algo->cuts[d]);
        }
    }
    if (status) {
        return status;
    }
    fy_planner_reset(planner);
    planner->info_pointer = info;
    planner->uses_info = info; /* 0, also where no part has one */
    planner->options.max_steps = FY_MAX_BLOCK_STEPS;
    for (unsigned i = 0; i < FY_MAX_MATRICES; i++) {
        fy_algo_view(algo, &algo->matrices[i], &views[i]);
    }
    status = fy_planner_views(planner, views, FY_MAX_MATRICES);
    algo->flip = false;
    if (status == FY_OK) {
        status = make_steps(algo);
    }
    fy_algo_forget_calls(algo);
    if (status == FY_OK) {
        status = fy_planner_finish(planner);
    }
    planner->plan.method = algo->row->name;
    return status;
}

static bool
is_cut(const struct fy_algo *algo, unsigned d)
{
    return algo->extent[d] > 0 &&
           (!algo->row->sizes || algo->row->sizes->free >> d & 1);
}

static int
cut_evenly(struct fy_algo *algo, const struct size *size)
{
    free_cuts(algo);
    for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
        int64_t side = d == 2 ? size->depth : size->side;
        if (!is_cut(algo, d)) {
            continue;
        }
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): sides are at least 1 */
        int64_t count = (algo->extent[d] + side - 1) / side;
        if (count > FY_MAX_BLOCK_STEPS) {
            return FY_ERR_NOFIT;
        }
        int status = fy_cuts_even(algo->extent[d], (uint32_t)count,
                                  side >= 64 ? 16 : 1, &algo->cuts[d]);
        if (status) {
            return status;
        }
    }
    algo->macro_rows = size->macro_rows;
    algo->macro_cols = size->macro_cols;
    return FY_OK;
}

/* Sizes of all blocks, numbered matrix by matrix. */
static int
trace_tiles(struct fy_algo *algo, struct fy_access_trace *trace)
{
    uint64_t total = 0;

    /* Every block is of some step: more of them cannot be scheduled either. */
    for (unsigned i = 0; i < FY_MAX_MATRICES; i++) {
        const struct fy_matrix *matrix = &algo->matrices[i];
        algo->trace_base[i] = (uint32_t)total;
        if (matrix->access) {
            total += (uint64_t)algo->cuts[matrix->row_cuts].count *
                     algo->cuts[matrix->col_cuts].count;
        }
        if (total > FY_MAX_MATRICES * (uint64_t)FY_MAX_BLOCK_STEPS) {
            return FY_ERR_NOFIT;
        }
    }
    algo->search_work += total;
    trace->ntiles = (uint32_t)total;
    trace->tiles = calloc(total + 1, sizeof(*trace->tiles));
    if (!trace->tiles) {
        return FY_ERR_NOMEM;
    }
    for (unsigned i = 0; i < FY_MAX_MATRICES; i++) {
        const struct fy_matrix *matrix = &algo->matrices[i];
        const struct fy_cuts *rows = &algo->cuts[matrix->row_cuts];
        const struct fy_cuts *cols = &algo->cuts[matrix->col_cuts];
        struct fy_view view;
        fy_algo_view(algo, matrix, &view);
        for (uint32_t r = 0; view.naxes && r < rows->count; r++) {
            for (uint32_t c = 0; c < cols->count; c++) {
                struct fy_trace_tile *tile =
                    &trace->tiles[algo->trace_base[i] + r * cols->count + c];
                const int64_t lo[FY_MAX_OPERAND_AXES] = {rows->start[r],
                                                         cols->start[c]};
                const int64_t n[FY_MAX_OPERAND_AXES] = {
                    fy_cuts_length(rows, r), fy_cuts_length(cols, c)};
                tile->bytes =
                    fy_view_elements(&view, lo, n) * algo->element_bytes;
                tile->device_bytes =
                    ((uint64_t)(n[0] * n[1]) * algo->element_bytes + 255) &
                    ~(uint64_t)255;
            }
        }
    }
    return FY_OK;
}

/* Rates the cost of a size, in bytes of traffic. */
static int
rate(struct fy_algo *algo, struct size *size)
{
    struct fy_access_trace trace = {0};
    const struct fy_plan_options *options = &algo->planner->options;
    struct fy_trace_time time;
    struct fy_traffic traffic;
    double touched = 0;
    int status = cut_evenly(algo, size);

    if (status) {
        return status;
    }
    algo->trace = &trace;
    algo->trace_room = algo->trace_steps = 0;
    algo->flip = false;
    status = trace_tiles(algo, &trace);
    if (status == FY_OK) {
        status = make_steps(algo);
    }
    if (status == FY_OK) {
        time.kernels = options->kernel_bytes;
        time.start = (double)options->overlap_bytes / FY_TRACE_STEP_SHARE;
        status =
            fy_trace_run(&trace, options->budget_bytes,
                         options->overlap_bytes > 0 ? &time : NULL, &traffic);
    }
    for (uint32_t i = 0; status == FY_OK && i < trace.naccesses; i++) {
        touched += (double)trace.tiles[trace.accesses[i].tile].device_bytes;
    }
    if (status == FY_OK && options->overlap_bytes > 0) {
        size->cost = time.cost;
    } else if (status == FY_OK) {
        size->cost = (double)traffic.bytes_in + (double)traffic.bytes_out +
                     algo->trace_steps * STEP_BYTES + touched * TOUCH_WEIGHT;
    }
    algo->search_work += algo->trace_steps;
    algo->trace = NULL;
    free(trace.tiles);
    free(trace.accesses);
    return status;
}

/* Keeps the `most' cheapest sizes, the cheapest first. */
static void
keep(struct size *best, unsigned most, unsigned *count, const struct size *size)
{
    unsigned at = *count;

    while (at > 0 && best[at - 1].cost > size->cost) {
        at--;
    }
    if (at == most) {
        return;
    }
    if (*count < most) {
        ++*count;
    }
    memmove(&best[at + 1], &best[at], sizeof(*best) * (*count - 1 - at));
    best[at] = *size;
}

/*
 * Supers of rows x cols blocks that fit with a row and a column of operands
 * beside them; the few that should move least.
 */
static unsigned
list_macros(const struct fy_algo *algo, const struct size *size,
            struct size best[MAX_SUPERS])
{
    double side = (double)size->side;
    unsigned count = 0;
    double depth = size->depth < size->side ? (double)size->depth : side;
    uint32_t nrows = (uint32_t)ceil((double)algo->extent[0] / side);
    uint32_t ncols = (uint32_t)ceil((double)algo->extent[1] / side);

    for (uint32_t r = 1; r <= nrows; r = r < 8 ? r + 1 : r + r / 4) {
        struct size one = *size;
        one.macro_rows = (nrows + r - 1) / r;
        double rows = one.macro_rows * side;
        /* rows * cols + (rows + cols) * depth and a little to read ahead */
        double cols =
            (algo->room - (rows + 3 * side) * depth) / (rows + depth) / side;
        if (cols < 1) {
            continue;
        }
        uint32_t c = cols >= ncols ? 1 : (uint32_t)ceil(ncols / floor(cols));
        one.macro_cols = (ncols + c - 1) / c;
        one.cost = c * (double)algo->extent[0] + r * (double)algo->extent[1];
        keep(best, MOST_LIKELY, &count, &one);
    }
    if (count == 0) {
        best[0] = *size;
        best[0].macro_rows = best[0].macro_cols = 1;
        count = 1;
    }
    return count;
}

/* Square macro-blocks, for programs that gather as many as fit by themselves. */
static unsigned
list_squares(const struct fy_algo *algo, const struct size *size,
             struct size best[MAX_SUPERS])
{
    unsigned count = 0;

    for (uint32_t rows = 1; count < MAX_SUPERS; rows++) {
        double side = (double)rows * (double)size->side;
        if (count > 0 && side * side > 1.5 * algo->room) {
            break;
        }
        best[count] = *size;
        best[count].macro_rows = best[count].macro_cols = rows;
        count++;
        if (side >= (double)algo->extent[0]) {
            break;
        }
    }
    return count;
}

/* Rates a block size with its macro-blocks; finer ones only while they are cheap. */
static int
try_size(struct fy_algo *algo, const struct size *size,
         struct size best[MAX_BEST], unsigned *count)
{
    struct size macros[MAX_SUPERS] = {{0}};
    unsigned n = algo->row->gathers ? list_squares(algo, size, macros)
                                    : list_macros(algo, size, macros);

    for (unsigned s = 0; s < n; s++) {
        if (algo->search_work > (*count > 0 ? ENOUGH_WORK : MOST_WORK)) {
            return FY_OK;
        }
        int status = rate(algo, &macros[s]);
        if (status == FY_ERR_NOMEM) {
            return status;
        }
        if (status == FY_OK) {
            keep(best, MAX_BEST, count, &macros[s]);
        }
    }
    return FY_OK;
}

static int64_t
rounded(double side)
{
    if (side >= 64) {
        return (int64_t)(side / 16) * 16;
    }
    return side < 1 ? 1 : (int64_t)side;
}

int
fy_algo_search(struct fy_algo *algo)
{
    /* Blocks in a square that fills the device, along one side. */
    static const double parts[] = {11,  8,  16, 5,   3.2, 2.2,
                                   1.6, 22, 13, 9.5, 6.5};
    double root = sqrt(algo->room);
    struct size best[MAX_BEST] = {{0}};
    unsigned count = 0;
    int status = FY_ERR_NOFIT;

    for (unsigned p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
        struct size size = {.side = rounded(root / parts[p])};
        size.depth = rounded(root / 32);
        if (algo->row->gathers == false || size.depth > size.side) {
            size.depth = size.side;
        }
        /* Thin operands beside large blocks are for those that have them. */
        if (!algo->row->gathers && parts[p] < 3 && count > 0) {
            continue;
        }
        int tried = try_size(algo, &size, best, &count);
        if (tried) {
            return tried;
        }
    }
    for (unsigned i = 0; i < count && status == FY_ERR_NOFIT; i++) {
        status = cut_evenly(algo, &best[i]);
        if (status == FY_OK) {
            status = generate(algo);
        }
    }
    return status;
}

int
fy_algo_even(struct fy_algo *algo, int64_t side)
{
    const struct fy_algo_sizes *sizes = algo->row->sizes;
    const uint32_t macro = sizes->macro ? sizes->macro(algo, (double)side) : 1;
    const struct size size = {side, side, macro, macro, 0};
    int status = cut_evenly(algo, &size);

    return status ? status : generate(algo);
}

int
fy_algo_cheapest(struct fy_algo *algo, const int64_t *sides, unsigned count)
{
    int64_t best = 0, tried = 0;
    double best_cost = 0;

    for (unsigned i = 0; i < count; i++) {
        if (sides[i] < 1 || sides[i] == tried) {
            continue;
        }
        tried = sides[i];
        int status = fy_algo_even(algo, tried);
        if (status == FY_ERR_NOMEM) {
            return status;
        }
        const struct fy_traffic *t = &algo->planner->plan.predicted;
        const double end = algo->planner->plan.end_bytes;
        const double bytes = (double)t->bytes_in + (double)t->bytes_out;
        const double cost = end > 0 ? end + FY_TRACE_TRAFFIC_SHARE * bytes
                                    : bytes + 8192.0 * (double)t->chunks;
        if (status == FY_OK && (best == 0 || cost < best_cost)) {
            best = tried;
            best_cost = cost;
        }
    }
    return best == 0 ? FY_ERR_NOFIT : fy_algo_even(algo, best);
}

/* Random cuts and macro-blocks; smaller blocks until a step fits. */
int
fy_algo_random(struct fy_algo *algo)
{
    uint64_t state = algo->planner->options.seed, own[FY_MAX_DIMENSIONS];
    int64_t largest[FY_MAX_DIMENSIONS];
    uint32_t most = 10;
    int status = FY_ERR_NOFIT;

    /* Each by its own extent alone, see axis_seed() in plan/axes.c. */
    for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
        uint64_t extent = (uint64_t)(algo->extent[d] < 1 ? 1 : algo->extent[d]);
        own[d] = algo->planner->options.seed + d;
        own[d] = fy_random(&own[d]) + extent;
        largest[d] = 1 + (int64_t)fy_random_below(&own[d], extent);
    }
    for (unsigned round = 0; round < 24 && status == FY_ERR_NOFIT; round++) {
        free_cuts(algo);
        for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
            if (!is_cut(algo, d)) {
                continue;
            }
            status = fy_cuts_random(algo->extent[d], largest[d], most, 1,
                                    &own[d], &algo->cuts[d]);
            if (status) {
                return status;
            }
            largest[d] = round < 16 ? largest[d] * 2 / 3 + 1 : 1;
        }
        algo->macro_rows = 1 + (uint32_t)fy_random_below(&state, 5);
        algo->macro_cols = 1 + (uint32_t)fy_random_below(&state, 5);
        most = most * 3 / 2;
        status = generate(algo);
    }
    return status;
}
