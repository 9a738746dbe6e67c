/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan under construction: variants, steps, tiles and the registry that
 * keeps the executor's contract (tiles are equal or disjoint, one layout per
 * tile), the launch of a step, and what is left to do when all have run.
 * Long because they share the planner's tables.
 */
#include "config.h"

#define HASH_NONFATAL_OOM         1
#define uthash_nonfatal_oom(elem) ((elem)->failed = true)

#include "pager/plan/build.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "pager/base/libm.h"
#include "pager/execute/executor.h"
#include "pager/plan/device_call.h"

struct tile_key {
    int64_t view;
    int64_t lo[FY_MAX_OPERAND_AXES];
};

struct fy_tile_entry {
    struct tile_key key;
    int64_t n[FY_MAX_OPERAND_AXES];
    int64_t device_stride[FY_MAX_OPERAND_AXES];
    bool failed;
    UT_hash_handle hh;
};

/* Images of structs, patched for one step; live until the plan is freed. */
struct fy_step_memory {
    struct fy_step_memory *next;
    const struct fy_variant *variant;
    struct fy_image
        images[FY_MAX_IMAGES]; /* what the call is given, and leaves */
    struct fy_image given[FY_MAX_IMAGES]; /* as they were before */
};

static int launch(void *planner, const struct fy_step *step,
                  const struct fy_tile *tiles, const uint64_t *address,
                  struct fy_stream *stream);
static bool accept(void *planner);

void
fy_variant_free(struct fy_variant *variant)
{
    while (variant) {
        struct fy_variant *next = variant->then;
        free(variant);
        variant = next;
    }
}

void
fy_planner_reset(struct fy_planner *planner)
{
    struct fy_tile_entry *entry, *next_entry;
    struct fy_step_memory *memory, *next_memory;

    entry = planner->registry; /* clearing frees the table, not the entries */
    HASH_CLEAR(hh, planner->registry);
    for (; entry; entry = next_entry) {
        next_entry = entry->hh.next;
        free(entry);
    }
    for (memory = planner->step_memory; memory; memory = next_memory) {
        next_memory = memory->next;
        free(memory);
    }
    planner->step_memory = NULL;
    fy_planner_let_go(planner);
    for (uint32_t i = 0; i < planner->nvariants; i++) {
        fy_variant_free(planner->variants[i]);
    }
    free(planner->variants);
    free(planner->views);
    free(planner->plan.schedule.tiles);
    free(planner->plan.schedule.steps);
    free(planner->results);
    free(planner->infos);
    planner->variants = NULL;
    planner->nvariants = planner->variant_room = 0;
    planner->views = NULL;
    planner->nviews = 0;
    planner->tile_room = planner->step_room = 0;
    planner->results = NULL;
    planner->infos = NULL;
    planner->uses_info = false;
    planner->info_pointer = NULL;
    free(planner->pivot_starts);
    planner->pivots = NULL;
    planner->pivot_starts = NULL;
    planner->npivot_panels = 0;
    free(planner->swaps);
    planner->swaps = NULL;
    planner->narrow_pivots = false;
    planner->nanswers = 0;
    planner->diagonal = (struct fy_diagonal){0};
    planner->wants_finite = false;
    memset(&planner->plan, 0, sizeof(planner->plan));
    planner->plan.schedule.launch = launch;
    planner->plan.schedule.planner = planner;
    planner->plan.schedule.accept = accept;
}

/* Doubles `*rows' when `used' rows fill it. */
static int
grow(void **rows, uint32_t *room, uint32_t used, size_t row_bytes)
{
    if (used < *room) {
        return FY_OK;
    }
    uint32_t more = *room ? *room * 2 : 16;
    if (more < *room || more > UINT32_MAX / 2) {
        return FY_ERR_OVERFLOW;
    }
    void *moved = realloc(*rows, (size_t)more * row_bytes);
    if (!moved) {
        return FY_ERR_NOMEM;
    }
    *rows = moved;
    *room = more;
    return FY_OK;
}

int
fy_planner_views(struct fy_planner *planner, const struct fy_view *views,
                 uint32_t count)
{
    planner->views = malloc(sizeof(*views) * (count ? count : 1));
    if (!planner->views) {
        return FY_ERR_NOMEM;
    }
    memcpy(planner->views, views, sizeof(*views) * count);
    planner->nviews = count;
    planner->plan.schedule.views = planner->views;
    planner->plan.schedule.nviews = count;
    return FY_OK;
}

int
fy_planner_add_variant(struct fy_planner *planner, struct fy_variant *variant,
                       uint32_t *out)
{
    void *rows = planner->variants;
    int status = grow(&rows, &planner->variant_room, planner->nvariants,
                      sizeof(variant)); /* NOLINT(bugprone-sizeof-expression) */
    planner->variants = rows;
    if (status) {
        fy_variant_free(variant);
        return status;
    }
    planner->variants[planner->nvariants] = variant;
    *out = planner->nvariants++;
    return FY_OK;
}

/* Two boxes of one layout: strides matter only where there is more than one. */
static bool
same_layout(const struct fy_tile_entry *entry, const struct fy_tile *tile)
{
    for (unsigned k = 0; k < tile->naxes; k++) {
        if (entry->n[k] != tile->n[k] ||
            (tile->n[k] > 1 &&
             entry->device_stride[k] != tile->device_stride[k])) {
            return false;
        }
    }
    return true;
}

static int
register_tile(struct fy_planner *planner, struct fy_tile *tile)
{
    struct fy_tile_entry *entry;
    struct tile_key key;

    memset(&key, 0, sizeof(key));
    key.view = tile->view;
    memcpy(key.lo, tile->lo, sizeof(key.lo));
    HASH_FIND(hh, planner->registry, &key, sizeof(key), entry);
    if (entry) {
        if (!same_layout(entry, tile)) {
            return FY_ERR_UNSUPPORTED;
        }
        memcpy(tile->device_stride, entry->device_stride,
               sizeof(tile->device_stride));
        return FY_OK;
    }
    entry = calloc(1, sizeof(*entry));
    if (!entry) {
        return FY_ERR_NOMEM;
    }
    entry->key = key;
    memcpy(entry->n, tile->n, sizeof(entry->n));
    memcpy(entry->device_stride, tile->device_stride,
           sizeof(entry->device_stride));
    HASH_ADD(hh, planner->registry, key, sizeof(key), entry);
    if (entry->failed) {
        free(entry);
        return FY_ERR_NOMEM;
    }
    return FY_OK;
}

int
fy_planner_add_step(struct fy_planner *planner, uint32_t variant,
                    const int64_t (*lo)[FY_MAX_OPERAND_AXES])
{
    struct fy_schedule *schedule = &planner->plan.schedule;
    const struct fy_variant *row = planner->variants[variant];
    uint64_t device_bytes = 0;
    uint32_t limit = planner->options.max_steps ? planner->options.max_steps
                                                : FY_DEFAULT_MAX_STEPS;
    void *rows = schedule->steps;
    int status;

    if (schedule->nsteps >= limit) {
        return FY_ERR_UNSUPPORTED;
    }
    status = grow(&rows, &planner->step_room, schedule->nsteps,
                  sizeof(*schedule->steps));
    schedule->steps = rows;
    if (status) {
        return status;
    }
    struct fy_step *step = &schedule->steps[schedule->nsteps];
    *step = (struct fy_step){
        .tiles = schedule->ntiles, .ntiles = row->ntiles, .cookie = variant};
    for (unsigned i = 0; i < row->ntiles; i++) {
        rows = schedule->tiles;
        status = grow(&rows, &planner->tile_room, schedule->ntiles,
                      sizeof(*schedule->tiles));
        schedule->tiles = rows;
        if (status) {
            return status;
        }
        struct fy_tile *tile = &schedule->tiles[schedule->ntiles];
        memset(tile, 0, sizeof(*tile));
        tile->view = row->tiles[i].view;
        tile->access = row->tiles[i].access;
        tile->naxes = row->tiles[i].naxes;
        for (unsigned k = 0; k < tile->naxes; k++) {
            tile->lo[k] = lo[i][k];
            tile->n[k] = row->tiles[i].n[k];
            tile->device_stride[k] = row->tiles[i].device_stride[k];
        }
        status = register_tile(planner, tile);
        if (status) {
            return status;
        }
        device_bytes += fy_tile_device_bytes(&planner->views[tile->view], tile);
        schedule->ntiles++;
    }
    if (device_bytes > planner->options.budget_bytes) {
        return FY_ERR_NOFIT;
    }
    planner->plan.touched_bytes += (double)device_bytes;
    schedule->nsteps++;
    return FY_OK;
}

int
fy_planner_finish(struct fy_planner *planner)
{
    struct fy_schedule *schedule = &planner->plan.schedule;
    size_t rows = schedule->nsteps ? schedule->nsteps : 1;

    planner->results = calloc(rows, sizeof(*planner->results));
    planner->infos = calloc(rows, sizeof(*planner->infos));
    if (!planner->results || !planner->infos) {
        return FY_ERR_NOMEM;
    }
    return fy_plan_traffic(schedule, planner->options.budget_bytes,
                           &planner->plan.predicted);
}

static struct fy_image *
patched_images(struct fy_planner *planner, const struct fy_variant *variant,
               const uint64_t *address)
{
    struct fy_step_memory *memory = malloc(sizeof(*memory));

    if (!memory) {
        return NULL;
    }
    memory->next = planner->step_memory;
    memory->variant = variant;
    planner->step_memory = memory;
    memcpy(memory->images, variant->images,
           sizeof(memory->images[0]) * variant->nimages);
    for (unsigned i = 0; i < variant->npatches; i++) {
        const struct fy_patch *patch = &variant->patches[i];
        uint64_t p = address[patch->tile] + (uint64_t)patch->offset;
        if (patch->bytes == 0) {
            memcpy(memory->images[patch->image].content + patch->at, &p,
                   sizeof(p));
        }
    }
    memcpy(memory->given, memory->images, sizeof(memory->given));
    return memory->images;
}

/*
 * Fields that the call writes, from their tiles into the images before it, and
 * back behind it. In the stream, as tiles are written by what runs there.
 */
static int
move_fields(const struct fy_planner *planner, const struct fy_variant *variant,
            struct fy_image *images, const uint64_t *address, uint8_t access,
            struct fy_stream *stream)
{
    uint8_t types[] = {FY_T_POINTER, FY_T_POINTER, FY_T_U64};

    for (unsigned i = 0; i < variant->npatches; i++) {
        const struct fy_patch *patch = &variant->patches[i];
        if (patch->bytes == 0 ||
            !(variant->tiles[patch->tile].access & access)) {
            continue;
        }
        uint64_t tile = address[patch->tile] + (uint64_t)patch->offset;
        uint64_t field =
            (uint64_t)(uintptr_t)(images[patch->image].content + patch->at);
        uint64_t bytes = patch->bytes;
        void *values[] = {access == FY_ACCESS_IN ? &field : &tile,
                          access == FY_ACCESS_IN ? &tile : &field, &bytes};
        struct fy_launch copy = {
            .function = (void *)(uintptr_t)memcpy,
            .return_type = FY_T_VOID,
            .nargs = 3,
            .types = types,
            .values = values,
        };
        int status = planner->options.ops->launch(stream, &copy);
        if (status) {
            return status;
        }
    }
    return FY_OK;
}

/*
 * Whether calls have written scalars or fields of structs that no operand
 * declares: the program would never see that.
 */
static bool
is_scalar_lost(const struct fy_planner *planner)
{
    for (const struct fy_step_memory *m = planner->step_memory; m;
         m = m->next) {
        for (unsigned i = 0; i < m->variant->nimages; i++) {
            struct fy_image expected = m->given[i];
            for (unsigned k = 0; k < m->variant->npatches; k++) {
                const struct fy_patch *patch = &m->variant->patches[k];
                if (patch->image == i && patch->bytes > 0) {
                    memcpy(expected.content + patch->at,
                           m->images[i].content + patch->at, patch->bytes);
                }
            }
            if (memcmp(expected.content, m->images[i].content,
                       sizeof(expected.content)) != 0) {
                return true;
            }
        }
    }
    for (uint32_t v = 0; v < planner->nvariants; v++) {
        const struct fy_variant *variant = planner->variants[v];
        for (unsigned i = 0; variant->of_itself && i < variant->nslots; i++) {
            const struct fy_slot *slot = &variant->slots[i];
            /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bytes */
            if (slot->kind == FY_SLOT_REFERENCE &&
                memcmp(&slot->given, &slot->value, sizeof(slot->given)) != 0) {
                return true;
            }
        }
    }
    return false;
}

/* One call or kernel of a step. */
static int
launch_one(struct fy_planner *planner, struct fy_variant *variant,
           uint32_t number, const uint64_t *address, struct fy_stream *stream)
{
    uint8_t types[FY_MAX_SLOTS];
    void *values[FY_MAX_SLOTS];
    uint64_t pointers[FY_MAX_SLOTS];
    uint8_t words[FY_MAX_SLOTS] = {FY_WORD_NONE};
    struct fy_image *images = NULL;
    bool has_info = false;

    if (variant->nimages > 0) {
        images = patched_images(planner, variant, address);
        if (!images) {
            return FY_ERR_NOMEM;
        }
    }
    for (unsigned i = 0; i < variant->nslots; i++) {
        struct fy_slot *slot = &variant->slots[i];
        types[i] = slot->type;
        values[i] = &pointers[i];
        switch (slot->kind) {
        case FY_SLOT_REFERENCE:
            pointers[i] = (uint64_t)(uintptr_t)&slot->value;
            break;
        case FY_SLOT_TILE:
            pointers[i] = address[slot->tile] + (uint64_t)slot->offset;
            break;
        case FY_SLOT_STRUCT:
            pointers[i] = (uint64_t)(uintptr_t)images[slot->image].content;
            break;
        case FY_SLOT_INFO:
            pointers[i] = (uint64_t)(uintptr_t)&planner->infos[number];
            break;
        case FY_SLOT_WORD:
            words[i] = slot->word;
            has_info = has_info || slot->word == FY_WORD_INFO;
            pointers[i] = 0;
            break;
        default:
            values[i] = &slot->value;
            break;
        }
    }
    struct fy_launch call = {
        .function = variant->function,
        .return_type = variant->return_type,
        .nargs = variant->nslots,
        .types = types,
        .values = values,
        .result = variant->return_type == FY_T_VOID ? NULL
                                                    : &planner->results[number],
    };
    if (variant->on_device) {
        call.result = NULL;
        call.words = words;
        call.status = !variant->is_kernel;
        call.info = has_info ? &planner->infos[number] : NULL;
        call.size_function = variant->size_function;
        call.size_arguments = variant->size_arguments;
        call.element_bytes = variant->element_bytes;
        call.transform = variant->transform.kind ? &variant->transform : NULL;
        call.grid = variant->is_kernel ? &variant->grid : NULL;
    }
    int status = FY_OK;
    if (images) {
        status = move_fields(planner, variant, images, address, FY_ACCESS_IN,
                             stream);
    }
    if (status == FY_OK) {
        status = planner->options.ops->launch(stream, &call);
    }
    if (status == FY_OK && images) {
        status = move_fields(planner, variant, images, address, FY_ACCESS_OUT,
                             stream);
    }
    return status;
}

static int
launch(void *opaque, const struct fy_step *step, const struct fy_tile *tiles,
       const uint64_t *address, struct fy_stream *stream)
{
    struct fy_planner *planner = opaque;
    uint32_t number = (uint32_t)(step - planner->plan.schedule.steps);
    int status = FY_OK;

    (void)tiles;
    for (struct fy_variant *variant = planner->variants[step->cookie];
         variant && status == FY_OK; variant = variant->then) {
        status = launch_one(planner, variant, number, address, stream);
    }
    return status;
}

static double
combine(unsigned rule, double a, double b)
{
    switch (rule) {
    case FY_RETURN_SUM:
        return a + b;
    case FY_RETURN_HYPOT:
        return hypot(a, b);
    case FY_RETURN_MAX: /* a NaN stays */
        return a > b || a != a ? a : b;
    case FY_RETURN_MIN:
        return a < b || a != a ? a : b;
    default:
        return b;
    }
}

/* A factorisation in blocks that succeeded: its own info is 0. */
static void
clear_info(const struct fy_planner *planner)
{
    if (planner->info_pointer && planner->uses_info) {
        memset(planner->info_pointer, 0, planner->bound->integer_bits / 8);
    }
}

static void
number_pivots(const struct fy_planner *planner)
{
    for (uint32_t p = 0; p < planner->npivot_panels; p++) {
        int64_t start = planner->pivot_starts[p];
        for (int64_t i = start; i < planner->pivot_starts[p + 1]; i++) {
            if (planner->narrow_pivots) { /* the high half is not ours */
                int64_t *pivot = &((int64_t *)(void *)planner->pivots)[i];
                *pivot = (int32_t)*pivot + start;
            } else if (planner->bound->integer_bits == 64) {
                ((int64_t *)(void *)planner->pivots)[i] += start;
            } else {
                ((int32_t *)(void *)planner->pivots)[i] += (int32_t)start;
            }
        }
    }
}

/* Two runs of elements that do not overlap, or are the same. */
static void
swap_runs(char *x, char *y, size_t bytes)
{
    char kept[1024];

    while (x != y && bytes > 0) {
        const size_t n = bytes < sizeof(kept) ? bytes : sizeof(kept);
        memcpy(kept, x, n);
        memcpy(x, y, n);
        memcpy(y, kept, n);
        x += n;
        y += n;
        bytes -= n;
    }
}

/* Columns that are runs change places as such; else row by row. */
static void
swap_columns(const struct fy_planner *planner)
{
    const struct fy_view *view = &planner->swapped;
    const int64_t size = view->element_bytes;
    const bool runs = view->stride[0] == 1;
    const int64_t rows = planner->swaps ? view->extent[0] : 0;

    for (int64_t row = 0; row < (runs ? rows > 0 : rows); row++) {
        char *first = view->host + row * view->stride[0] * size;
        for (int64_t j = view->extent[1]; j-- > 0;) {
            swap_runs(first + j * view->stride[1] * size,
                      first + planner->swaps[j] * view->stride[1] * size,
                      (size_t)((runs ? rows : 1) * size));
        }
    }
}

void
fy_plan_result(const struct fy_plan *plan, union fy_raw *out)
{
    const struct fy_planner *planner = (const struct fy_planner *)plan;
    const struct fy_function *function = planner->bound->function;
    enum fy_type type = fy_type_resolve((enum fy_type)function->return_type,
                                        planner->bound->integer_bits);
    struct fy_value sum;

    memset(out, 0, sizeof(*out));
    clear_info(planner);
    number_pivots(planner);
    swap_columns(planner);
    for (uint32_t i = 0; i < planner->nanswers; i++) {
        const struct fy_answer *answer = &planner->answers[i];
        memcpy(answer->host, answer->content, answer->bytes);
    }
    if (type == FY_T_VOID || plan->schedule.nsteps == 0) {
        return;
    }
    if (plan->schedule.nsteps == 1) {
        *out = planner->results[0];
        return;
    }
    sum = fy_raw_value(type, &planner->results[0]);
    for (uint32_t i = 1; i < plan->schedule.nsteps; i++) {
        struct fy_value next = fy_raw_value(type, &planner->results[i]);
        if (sum.kind == FY_V_INT) {
            int64_t a = sum.i, b = next.i;
            switch (function->return_rule) {
            case FY_RETURN_SUM:
                sum.i = (int64_t)((uint64_t)a + (uint64_t)b);
                break;
            case FY_RETURN_MAX:
                sum.i = a > b ? a : b;
                break;
            case FY_RETURN_MIN:
                sum.i = a < b ? a : b;
                break;
            default:
                sum.i = a != 0 ? a : b; /* a status: the first that failed */
                break;
            }
        } else {
            sum.r = combine(function->return_rule, sum.r, next.r);
            sum.im = combine(function->return_rule, sum.im, next.im);
        }
    }
    fy_raw_store(type, &sum, out);
}

bool
fy_diagonal_is_regular(const struct fy_diagonal *diagonal)
{
    for (int64_t i = 0; i < diagonal->count; i++) {
        struct fy_value value =
            fy_raw_value((enum fy_type)diagonal->element,
                         diagonal->host + i * diagonal->stride_bytes);
        if (value.kind != FY_V_COMPLEX) {
            value.im = 0;
        }
        if ((!diagonal->zeros && value.r == 0 && value.im == 0) ||
            !isfinite(value.r) || !isfinite(value.im)) {
            return false;
        }
    }
    return true;
}

static bool
is_result_finite(const struct fy_bound *bound)
{
    const struct fy_operand *operands =
        FY_TABLE(bound->model, fy_operand, operands) +
        bound->function->operands;

    return fy_view_is_finite(&bound->views[0],
                             (enum fy_type)operands[0].element);
}

/* Whether no leaf call reported that the computation cannot be finished. */
static bool
accept(void *opaque)
{
    const struct fy_planner *planner = opaque;

    if (is_scalar_lost(planner) ||
        !fy_diagonal_is_regular(&planner->diagonal) ||
        (planner->wants_finite && !is_result_finite(planner->bound))) {
        return false;
    }
    if (!planner->uses_info) {
        return true;
    }
    for (uint32_t i = 0; i < planner->plan.schedule.nsteps; i++) {
        if (planner->infos[i] != 0) {
            return false;
        }
    }
    return true;
}

void
fy_plan_free(struct fy_plan *plan)
{
    struct fy_planner *planner = (struct fy_planner *)plan;

    if (!planner) {
        return;
    }
    fy_planner_reset(planner);
    free(planner->workspace);
    free(planner->factors);
    free(planner);
}

/* What the original would do beside the work, when it is not the one that runs
 * or not on the whole of its operands. */
static int
stand_in(struct fy_planner *planner, bool blocked)
{
    const bool other = blocked || fy_plan_on_device(planner);

    if (other && !fy_bound_is_finite(planner->bound)) {
        return FY_ERR_UNSUPPORTED;
    }
    if (other && planner->bound->function->blocked_by != 0) {
        fy_plan_diagonal(planner);
    }
    return other || planner->plan.schedule.nsteps > 1 ? fy_plan_query(planner)
                                                      : FY_OK;
}

int
fy_plan_new(const struct fy_bound *bound, const struct fy_target *target,
            const struct fy_plan_options *options, struct fy_plan **out)
{
    struct fy_planner *planner = calloc(1, sizeof(*planner));
    int status = FY_ERR_NOFIT;
    bool blocked = false, refused = false;

    if (!planner) {
        return FY_ERR_NOMEM;
    }
    planner->bound = bound;
    planner->target = target;
    planner->options = *options;
    fy_planner_reset(planner);
    if (!options->random) {
        status = fy_plan_whole(planner);
    }
    /* A device may have the parts of a function but not the whole. */
    if ((status == FY_ERR_NOFIT || status == FY_ERR_UNSUPPORTED) &&
        bound->function->blocked_by != 0 && options->axes == 0) {
        fy_planner_reset(planner);
        refused = status == FY_ERR_UNSUPPORTED;
        status = fy_plan_blocked(planner);
        blocked = status == FY_OK;
        refused = refused && status == FY_ERR_UNSUPPORTED;
        if (status == FY_ERR_UNSUPPORTED) {
            status = FY_ERR_NOFIT;
        }
    }
    if (status == FY_ERR_NOFIT) {
        fy_planner_reset(planner);
        status = fy_plan_axes(planner);
        if (status == FY_ERR_NOFIT && refused) {
            status = FY_ERR_UNSUPPORTED; /* with any memory */
        }
    }
    if (status == FY_OK) {
        status = stand_in(planner, blocked);
    }
    if (status) {
        fy_plan_free(&planner->plan);
        return status;
    }
    *out = &planner->plan;
    return FY_OK;
}
