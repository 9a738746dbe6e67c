/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans made by hand, part for part: what the registry of tiles refuses, what a
 * launch passes, what is accepted in the end, and how results of chunks combine.
 * Long because each kind of argument and result is spelt out.
 */
#include "config.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "annotations/model/annotations.h"
#include "pager/execute/executor.h"
#include "pager/plan/build.h"
#include "pager/plan/device_call.h"
#include "tests/unit/nomem.h"
#include "tests/unit/runner.h"

enum {
    MOST_CALLS = 32
};

/* What the device was given to launch. */
static struct {
    struct fy_launch launch;
    uint8_t types[FY_MAX_SLOTS];
    uint64_t values[FY_MAX_SLOTS];
    uint8_t words[FY_MAX_SLOTS];
} calls[MOST_CALLS];
static unsigned ncalls, fails_at;

static int
launch(struct fy_stream *stream, const struct fy_launch *launch)
{
    (void)stream;
    ck_assert_uint_lt(ncalls, MOST_CALLS);
    calls[ncalls].launch = *launch;
    for (unsigned i = 0; i < launch->nargs; i++) {
        calls[ncalls].types[i] = launch->types[i];
        memcpy(&calls[ncalls].values[i], launch->values[i], sizeof(uint64_t));
        calls[ncalls].words[i] = launch->words ? launch->words[i] : 0;
    }
    if (launch->function == (void *)(uintptr_t)memcpy) {
        memcpy((void *)(uintptr_t)calls[ncalls].values[0],
               (void *)(uintptr_t)calls[ncalls].values[1],
               calls[ncalls].values[2]);
    }
    return ++ncalls == fails_at ? FY_ERR_DEVICE : FY_OK;
}

static const struct fy_device_ops ops = {.name = "list", .launch = launch};

/* One view of doubles, 100 x 10. */
static double memory[1000];
static const struct fy_view view = {.host = (char *)memory,
                                    .element_bytes = sizeof(double),
                                    .access = FY_ACCESS_INOUT,
                                    .naxes = 2,
                                    .extent = {100, 10},
                                    .stride = {1, 100},
                                    .hi = INT64_MAX};

static struct fy_function function;
static struct fy_bound bound;

static struct fy_planner *
planner_new(uint64_t budget_bytes)
{
    struct fy_planner *planner = calloc(1, sizeof(*planner));
    const struct fy_view views[2] = {view, view};

    ck_assert_ptr_nonnull(planner);
    memset(&function, 0, sizeof(function));
    memset(&bound, 0, sizeof(bound));
    bound.function = &function;
    bound.integer_bits = 32;
    planner->bound = &bound;
    planner->options.ops = &ops;
    planner->options.budget_bytes = budget_bytes;
    fy_planner_reset(planner);
    ck_assert_int_eq(fy_planner_views(planner, views, 2), FY_OK);
    ncalls = fails_at = 0;
    memset(calls, 0, sizeof(calls));
    return planner;
}

/* A chunk call with one tile of rows x columns, `ld' elements from column to column. */
static struct fy_variant *
chunk_call(uint16_t of, int64_t rows, int64_t columns, int64_t ld)
{
    struct fy_variant *variant = calloc(1, sizeof(*variant));

    ck_assert_ptr_nonnull(variant);
    variant->ntiles = 1;
    variant->tiles[0] = (struct fy_tile){.view = of,
                                         .access = FY_ACCESS_INOUT,
                                         .naxes = 2,
                                         .n = {rows, columns},
                                         .device_stride = {1, ld}};
    return variant;
}

static uint32_t
add_variant(struct fy_planner *planner, struct fy_variant *variant)
{
    uint32_t number;

    ck_assert_int_eq(fy_planner_add_variant(planner, variant, &number), FY_OK);
    return number;
}

static int
add_step(struct fy_planner *planner, uint32_t variant, int64_t row,
         int64_t column)
{
    const int64_t lo[1][FY_MAX_OPERAND_AXES] = {{row, column}};
    return fy_planner_add_step(planner, variant, lo);
}

/* A finished plan of `count' steps of a chunk call. */
static struct fy_planner *
finished(struct fy_variant *variant, unsigned count)
{
    struct fy_planner *planner = planner_new(UINT64_MAX);
    uint32_t number = add_variant(planner, variant);

    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_eq(add_step(planner, number, 0, 0), FY_OK);
    }
    ck_assert_int_eq(fy_planner_finish(planner), FY_OK);
    return planner;
}

static int
launch_step(struct fy_planner *planner, unsigned step, const uint64_t *address)
{
    const struct fy_schedule *schedule = &planner->plan.schedule;
    return schedule->launch(planner, &schedule->steps[step], schedule->tiles,
                            address, NULL);
}

static bool
accepts(const struct fy_planner *planner)
{
    return planner->plan.schedule.accept(planner->plan.schedule.planner);
}

/* ---- steps and tiles ------------------------------------------------------- */

START_TEST(equal_tiles_have_one_layout)
{
    struct fy_planner *planner = planner_new(UINT64_MAX);
    uint32_t dense = add_variant(planner, chunk_call(0, 5, 3, 5));
    uint32_t apart = add_variant(planner, chunk_call(0, 5, 3, 8));
    uint32_t wide = add_variant(planner, chunk_call(0, 5, 4, 5));
    uint32_t other = add_variant(planner, chunk_call(1, 5, 3, 8));
    uint32_t column = add_variant(planner, chunk_call(0, 7, 1, 7));
    uint32_t column_too = add_variant(planner, chunk_call(0, 7, 1, 9));

    ck_assert_int_eq(add_step(planner, dense, 0, 0), FY_OK);
    nomem_at(0);
    int status = add_step(planner, dense, 0, 0);
    ck_assert_uint_eq(nomem_live(), 0); /* it is known */
    ck_assert_int_eq(status, FY_OK);
    ck_assert_int_eq(add_step(planner, apart, 0, 0), FY_ERR_UNSUPPORTED);
    ck_assert_int_eq(add_step(planner, wide, 0, 0), FY_ERR_UNSUPPORTED);
    ck_assert_uint_eq(planner->plan.schedule.nsteps, 2);
    /* Another place, another operand. */
    ck_assert_int_eq(add_step(planner, apart, 5, 0), FY_OK);
    ck_assert_int_eq(add_step(planner, other, 0, 0), FY_OK);
    /* The stride of a single column is that of the first such tile. */
    ck_assert_int_eq(add_step(planner, column, 20, 0), FY_OK);
    ck_assert_int_eq(add_step(planner, column_too, 20, 0), FY_OK);
    const struct fy_schedule *schedule = &planner->plan.schedule;
    ck_assert_uint_eq(schedule->nsteps, 6);
    const struct fy_tile *last = &schedule->tiles[schedule->steps[5].tiles];
    ck_assert_int_eq(last->lo[0], 20);
    ck_assert_int_eq(last->n[0], 7);
    ck_assert_int_eq(last->device_stride[1], 7);
    fy_plan_free(&planner->plan);
}
END_TEST

START_TEST(a_step_fits_or_is_refused)
{
    const struct fy_tile tile = {
        .naxes = 2, .n = {5, 3}, .device_stride = {1, 5}};
    const uint64_t bytes = fy_tile_device_bytes(&view, &tile);
    struct fy_planner *planner = planner_new(bytes);
    uint32_t fits = add_variant(planner, chunk_call(0, 5, 3, 5));
    uint32_t larger = add_variant(
        planner, chunk_call(0, (int64_t)(bytes / sizeof(double)) + 1, 1, 1));

    ck_assert_int_eq(add_step(planner, fits, 0, 0), FY_OK);
    ck_assert_int_eq(add_step(planner, larger, 50, 0), FY_ERR_NOFIT);
    ck_assert_int_eq(add_step(planner, fits, 5, 0), FY_OK);
    ck_assert_double_eq(planner->plan.touched_bytes, 2 * (double)bytes);
    planner->options.max_steps = 3;
    ck_assert_int_eq(add_step(planner, fits, 10, 0), FY_OK);
    ck_assert_int_eq(add_step(planner, fits, 15, 0), FY_ERR_UNSUPPORTED);
    fy_plan_free(&planner->plan);
}
END_TEST

START_TEST(tables_grow)
{
    struct fy_planner *planner = planner_new(UINT64_MAX);
    const struct fy_schedule *schedule = &planner->plan.schedule;

    for (uint32_t i = 0; i < 70; i++) {
        uint32_t number = add_variant(planner, chunk_call(0, 1, 1, 1));
        ck_assert_uint_eq(number, i);
        ck_assert_int_eq(add_step(planner, number, i, 0), FY_OK);
    }
    ck_assert_uint_eq(schedule->nsteps, 70);
    ck_assert_uint_eq(schedule->ntiles, 70);
    for (uint32_t i = 0; i < 70; i++) {
        ck_assert_uint_eq(schedule->steps[i].tag, i);
        ck_assert_uint_eq(schedule->steps[i].tiles, i);
        ck_assert_uint_eq(schedule->steps[i].ntiles, 1);
        ck_assert_int_eq(schedule->tiles[i].lo[0], i);
    }
    /* Without an own limit there are so many steps, and no more. */
    for (uint32_t i = 70; i < FY_DEFAULT_MAX_STEPS; i++) {
        ck_assert_int_eq(add_step(planner, 0, 0, 0), FY_OK);
    }
    ck_assert_int_eq(add_step(planner, 0, 0, 0), FY_ERR_UNSUPPORTED);
    /* A planner begins again when its first way did not lead anywhere. */
    ck_assert_int_eq(fy_planner_finish(planner), FY_OK);
    planner->pivot_panels.start = malloc(sizeof(int64_t));
    fy_planner_reset(planner);
    ck_assert_uint_eq(schedule->nsteps, 0);
    ck_assert_ptr_null(schedule->steps);
    ck_assert_uint_eq(planner->nvariants, 0);
    ck_assert_ptr_nonnull(schedule->launch);
    ck_assert_ptr_nonnull(schedule->accept);
    fy_plan_free(&planner->plan);
}
END_TEST

/* What a planner holds is given back when it begins again. */
START_TEST(a_reset_lets_go_of_host_memory)
{
    struct fy_planner *planner = planner_new(UINT64_MAX);
    char *held[3];

    for (int i = 0; i < 3; i++) {
        held[i] = fy_planner_hold(planner, 1 << 20);
        ck_assert_ptr_nonnull(held[i]);
        held[i][0] = held[i][(1 << 20) - 1] = 1;
    }
    fy_planner_reset(planner);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(msync(held[i], 1 << 20, MS_ASYNC), -1);
    }
    fy_plan_free(&planner->plan);
}
END_TEST

/* ---- launches ----------------------------------------------------------------- */

START_TEST(a_launch_passes_each_kind_of_argument)
{
    static int code;
    const uint64_t address[] = {0x1000, 0x2000};
    struct fy_variant *variant = chunk_call(0, 2, 2, 2);

    variant->function = &code;
    variant->return_type = FY_T_F64;
    variant->nslots = 5;
    variant->slots[0] = (struct fy_slot){
        .kind = FY_SLOT_VALUE, .type = FY_T_I64, .value.i = 77};
    variant->slots[1] = (struct fy_slot){
        .kind = FY_SLOT_REFERENCE, .type = FY_T_POINTER, .value.i = 5};
    variant->slots[2] = (struct fy_slot){
        .kind = FY_SLOT_TILE, .type = FY_T_POINTER, .tile = 1, .offset = -24};
    variant->slots[3] =
        (struct fy_slot){.kind = FY_SLOT_INFO, .type = FY_T_POINTER};
    variant->slots[4] = (struct fy_slot){
        .kind = FY_SLOT_WORD, .type = FY_T_POINTER, .word = FY_WORD_INFO};
    struct fy_planner *planner = finished(variant, 2);
    ck_assert_int_eq(launch_step(planner, 1, address), FY_OK);
    ck_assert_uint_eq(ncalls, 1);
    ck_assert_ptr_eq(calls[0].launch.function, &code);
    ck_assert_uint_eq(calls[0].launch.nargs, 5);
    ck_assert_uint_eq(calls[0].launch.return_type, FY_T_F64);
    ck_assert_ptr_eq(calls[0].launch.result, &planner->results[1]);
    ck_assert_uint_eq(calls[0].types[0], FY_T_I64);
    ck_assert_uint_eq(calls[0].types[2], FY_T_POINTER);
    ck_assert_uint_eq(calls[0].values[0], 77);
    ck_assert_int_eq(*(int64_t *)(uintptr_t)calls[0].values[1], 5);
    ck_assert_uint_eq(calls[0].values[2], 0x2000 - 24);
    ck_assert_uint_eq(calls[0].values[3],
                      (uint64_t)(uintptr_t)&planner->infos[1]);
    /* A call on the host knows no words. */
    ck_assert_ptr_null(calls[0].launch.words);
    ck_assert_ptr_null(calls[0].launch.info);
    ck_assert(!calls[0].launch.status);

    /* The same by a function of the device: its status is no result. */
    variant->on_device = true;
    variant->size_function = &fails_at;
    variant->size_arguments = 3;
    variant->element_bytes = 8;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ck_assert_ptr_null(calls[1].launch.result);
    ck_assert(calls[1].launch.status);
    ck_assert_ptr_eq(calls[1].launch.info, &planner->infos[0]);
    ck_assert_uint_eq(calls[1].words[4], FY_WORD_INFO);
    ck_assert_uint_eq(calls[1].words[3], FY_WORD_NONE);
    ck_assert_ptr_eq(calls[1].launch.size_function, &fails_at);
    ck_assert_uint_eq(calls[1].launch.size_arguments, 3);
    ck_assert_uint_eq(calls[1].launch.element_bytes, 8);
    ck_assert_ptr_null(calls[1].launch.transform);
    ck_assert_ptr_null(calls[1].launch.grid);

    /* A kernel returns none. */
    variant->is_kernel = true;
    variant->slots[4].word = FY_WORD_NONE;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ck_assert(!calls[2].launch.status);
    ck_assert_ptr_null(calls[2].launch.info);
    ck_assert_ptr_eq(calls[2].launch.grid, &variant->grid);

    variant->return_type = FY_T_VOID;
    variant->on_device = false;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ck_assert_ptr_null(calls[3].launch.result);
    fy_plan_free(&planner->plan);
}
END_TEST

/* Leaves that follow each other on the same tiles, until one fails. */
START_TEST(leaves_run_in_turn)
{
    const uint64_t address[] = {0x1000};
    struct fy_variant *first = chunk_call(0, 2, 2, 2);

    first->function = &ncalls;
    first->then = calloc(1, sizeof(*first->then));
    ck_assert_ptr_nonnull(first->then);
    first->then->function = &fails_at;
    struct fy_planner *planner = finished(first, 1);
    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ck_assert_uint_eq(ncalls, 2);
    ck_assert_ptr_eq(calls[0].launch.function, &ncalls);
    ck_assert_ptr_eq(calls[1].launch.function, &fails_at);
    fails_at = 3;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_ERR_DEVICE);
    ck_assert_uint_eq(ncalls, 3);
    fy_plan_free(&planner->plan);
}
END_TEST

/* As a caller's: a pointer to elements, a number in, a count that comes out. */
struct image {
    double *data;
    int32_t rows, found, kept;
};

static struct fy_variant *
image_leaf(void)
{
    const struct image given = {NULL, 4, 6, 8};
    struct fy_variant *variant = chunk_call(0, 2, 2, 2);

    variant->tiles[1] = variant->tiles[0];
    variant->tiles[1].view = 1;
    variant->ntiles = 2;
    variant->nslots = 1;
    variant->slots[0] =
        (struct fy_slot){.kind = FY_SLOT_STRUCT, .type = FY_T_POINTER};
    variant->nimages = 1;
    memcpy(variant->images[0].content, &given, sizeof(given));
    variant->npatches = 2;
    variant->patches[0] =
        (struct fy_patch){.at = offsetof(struct image, data), .offset = 16};
    variant->patches[1] = (struct fy_patch){.tile = 1,
                                            .offset = 4,
                                            .at = offsetof(struct image, found),
                                            .bytes = sizeof(given.found)};
    return variant;
}

static struct fy_planner *
image_plan(struct fy_variant *variant)
{
    const int64_t lo[2][FY_MAX_OPERAND_AXES] = {{0}};
    struct fy_planner *planner = planner_new(UINT64_MAX);
    uint32_t number = add_variant(planner, variant);

    ck_assert_int_eq(fy_planner_add_step(planner, number, lo), FY_OK);
    ck_assert_int_eq(fy_planner_finish(planner), FY_OK);
    return planner;
}

/* The image that the n-th launch was given. */
static struct image *
image_of(unsigned n)
{
    return (struct image *)(uintptr_t)calls[n].values[0];
}

START_TEST(fields_move_between_struct_and_tile)
{
    int32_t counted[2] = {30, 31};
    const uint64_t address[] = {0x1000, (uint64_t)(uintptr_t)counted};
    struct fy_variant *variant = image_leaf();
    struct fy_planner *planner = image_plan(variant);

    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ck_assert_uint_eq(ncalls, 3); /* in, the call, out */
    const struct image *image = image_of(1);
    ck_assert_uint_eq((uint64_t)(uintptr_t)image->data, 0x1010);
    ck_assert_int_eq(image->rows, 4);
    ck_assert_int_eq(image->found, 31);
    ck_assert_uint_eq(calls[0].values[0], (uint64_t)(uintptr_t)&image->found);
    ck_assert_uint_eq(calls[0].values[1], address[1] + 4);
    ck_assert_uint_eq(calls[0].values[2], sizeof(image->found));
    ck_assert_uint_eq(calls[2].values[0], address[1] + 4);
    ck_assert_uint_eq(calls[2].values[1], (uint64_t)(uintptr_t)&image->found);
    ck_assert(accepts(planner));

    /* What is only written is not copied in, and the other way round. */
    variant->tiles[1].access = FY_ACCESS_OUT;
    ncalls = 0;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ck_assert_uint_eq(ncalls, 2);
    ck_assert_int_eq(image_of(0)->found, 6);
    ck_assert_int_eq(counted[1], 6);
    variant->tiles[1].access = FY_ACCESS_IN;
    ncalls = 0;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ck_assert_uint_eq(ncalls, 2);
    ck_assert_ptr_eq(calls[0].launch.function, (void *)(uintptr_t)memcpy);
    fy_plan_free(&planner->plan);
}
END_TEST

START_TEST(a_copy_that_fails_ends_the_step)
{
    int32_t counted[2] = {30, 31};
    const uint64_t address[] = {0x1000, (uint64_t)(uintptr_t)counted};
    struct fy_planner *planner = image_plan(image_leaf());

    fails_at = 1;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_ERR_DEVICE);
    ck_assert_uint_eq(ncalls, 1);
    ncalls = 0;
    fails_at = 2;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_ERR_DEVICE);
    ck_assert_uint_eq(ncalls, 2);
    ncalls = 0;
    fails_at = 3;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_ERR_DEVICE);
    ck_assert_uint_eq(ncalls, 3);
    fy_plan_free(&planner->plan);
}
END_TEST

/* ---- what is accepted ------------------------------------------------------------ */

START_TEST(a_written_field_that_no_operand_declares_is_refused)
{
    int32_t counted[2] = {30, 31};
    const uint64_t address[] = {0x1000, (uint64_t)(uintptr_t)counted};
    struct fy_planner *planner = image_plan(image_leaf());

    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    image_of(1)->found = 32; /* declared */
    ck_assert(accepts(planner));
    image_of(1)->kept = 9;
    ck_assert(!accepts(planner));
    image_of(1)->kept = 8;
    ck_assert(accepts(planner));
    image_of(1)->data++;
    ck_assert(!accepts(planner));
    fy_plan_free(&planner->plan);
}
END_TEST

/* As many structs as a call may have, each with a field that comes out. */
START_TEST(every_struct_is_looked_at)
{
    int32_t counted[FY_MAX_IMAGES + 1] = {30, 31, 32, 33, 34};
    const uint64_t address[] = {0x1000, (uint64_t)(uintptr_t)counted};
    struct fy_variant *variant = image_leaf();

    variant->nimages = variant->npatches = FY_MAX_IMAGES;
    for (unsigned i = 0; i < FY_MAX_IMAGES; i++) {
        variant->images[i] = variant->images[0];
        variant->patches[i] = variant->patches[1];
        variant->patches[i].image = (uint8_t)i;
        variant->patches[i].offset = 4 * (int64_t)i;
    }
    struct fy_planner *planner = image_plan(variant);
    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ck_assert(accepts(planner));
    for (unsigned i = 0; i < FY_MAX_IMAGES; i++) {
        unsigned char *content = planner->step_memory->images[i].content;
        struct image *image = (struct image *)(void *)content;
        ck_assert_int_eq(image->found, 30 + (int32_t)i);
        image->found = 99;
        ck_assert(accepts(planner));
        image->kept++;
        ck_assert(!accepts(planner));
        image->kept--;
    }
    /* The same of each step, not only of the last. */
    struct fy_step_memory *first = planner->step_memory;
    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ck_assert_ptr_ne(planner->step_memory, first);
    ((struct image *)(void *)first->images[0].content)->kept++;
    ck_assert(!accepts(planner));
    fy_plan_free(&planner->plan);
}
END_TEST

START_TEST(a_written_scalar_is_refused)
{
    const uint64_t address[] = {0x1000};
    struct fy_variant *variant = chunk_call(0, 2, 2, 2);

    variant->nslots = 2;
    variant->slots[0] = (struct fy_slot){.kind = FY_SLOT_VALUE, .value.i = 3};
    variant->slots[1] =
        (struct fy_slot){.kind = FY_SLOT_REFERENCE, .value.i = 5, .given.i = 5};
    struct fy_planner *planner = finished(variant, 1);
    ck_assert_int_eq(launch_step(planner, 0, address), FY_OK);
    ((int64_t *)(uintptr_t)calls[0].values[1])[0] = 6;
    ck_assert(accepts(planner)); /* a chunk call of another function */
    variant->of_itself = true;
    ck_assert(!accepts(planner));
    ((int64_t *)(uintptr_t)calls[0].values[1])[0] = 5;
    ck_assert(accepts(planner));
    /* What lies behind the last slot is none. */
    variant->slots[2] =
        (struct fy_slot){.kind = FY_SLOT_REFERENCE, .value.i = 5, .given.i = 6};
    ck_assert(accepts(planner));
    variant->nslots = 3;
    ck_assert(!accepts(planner));
    fy_plan_free(&planner->plan);
}
END_TEST

START_TEST(an_info_is_looked_at_where_there_is_one)
{
    struct fy_planner *planner = finished(chunk_call(0, 2, 2, 2), 3);

    ck_assert(accepts(planner));
    planner->infos[2] = 1;
    ck_assert(accepts(planner));
    planner->uses_info = true;
    ck_assert(!accepts(planner));
    planner->infos[2] = 0;
    ck_assert(accepts(planner));
    planner->infos[0] = -1;
    ck_assert(!accepts(planner));
    fy_plan_free(&planner->plan);
}
END_TEST

START_TEST(a_diagonal_is_regular)
{
    double real[6] = {1, 0, 2, 0, 3, 0};
    struct fy_diagonal d = {.host = (char *)real,
                            .count = 3,
                            .stride_bytes = 2 * sizeof(double),
                            .element = FY_T_F64};
    struct fy_planner *planner = finished(chunk_call(0, 2, 2, 2), 1);

    planner->diagonal = d;
    ck_assert(accepts(planner));
    real[4] = 0;
    ck_assert(!fy_diagonal_is_regular(&d));
    ck_assert(!accepts(planner));
    d.zeros = true;
    ck_assert(fy_diagonal_is_regular(&d));
    real[4] = INFINITY;
    ck_assert(!fy_diagonal_is_regular(&d));
    real[4] = NAN;
    ck_assert(!fy_diagonal_is_regular(&d));
    d.count = 2; /* only the first two */
    d.zeros = false;
    ck_assert(fy_diagonal_is_regular(&d));

    /* A complex number is 0 when both its parts are. */
    d.element = FY_T_C64;
    d.count = 3;
    real[4] = 0;
    real[5] = 1;
    ck_assert(fy_diagonal_is_regular(&d));
    real[5] = 0;
    ck_assert(!fy_diagonal_is_regular(&d));
    real[5] = NAN;
    ck_assert(!fy_diagonal_is_regular(&d));
    real[4] = 1;
    ck_assert(!fy_diagonal_is_regular(&d));
    fy_plan_free(&planner->plan);
}
END_TEST

static struct fy_model *
compile(const char *text)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_model *model;

    ck_assert_int_eq(fy_compile_text("test_plan_build", text, strlen(text),
                                     NULL, diagnostics, &model),
                     FY_OK);
    fy_diagnostics_free(diagnostics);
    return model;
}

/* An inverse whose first operand holds doubles, behind which no others lie. */
START_TEST(an_inverse_is_finite)
{
    static double a[3] = {1, 0, 3};
    struct fy_planner *planner = finished(chunk_call(0, 1, 1, 1), 1);
    struct fy_model *model =
        compile("function void inverse(long n, double *a, const int *p)\n"
                "{ axis n; inout a[n: 1]; in p[n: 1]; }\n");

    bound.model = model;
    bound.function = FY_TABLE(model, fy_function, functions);
    bound.views[0] = view;
    bound.views[0].host = (char *)a;
    bound.views[0].naxes = 1;
    bound.views[0].extent[0] = 3;
    a[1] = NAN;
    ck_assert(accepts(planner)); /* no inverse */
    planner->wants_finite = true;
    ck_assert(!accepts(planner));
    a[1] = 0x1p-1000; /* as floats or ints: not finite, or 0 */
    ck_assert(accepts(planner));
    a[2] = INFINITY;
    ck_assert(!accepts(planner));
    fy_plan_free(&planner->plan);
    free(model);
}
END_TEST

/* Every place of a block that is read by twos and fours, and the largest number. */
START_TEST(a_block_is_finite_in_every_place)
{
    enum {
        MOST = 9
    };
    const double bad[] = {NAN, -NAN, INFINITY, -INFINITY};

    for (int64_t n = 1; n <= MOST; n++) {
        double wide[MOST];
        float narrow[MOST];
        for (int64_t i = 0; i < n; i++) {
            wide[i] = i % 2 ? DBL_MAX : -DBL_MAX;
            narrow[i] = i % 2 ? FLT_MAX : -FLT_MAX;
        }
        struct fy_view f64 = {.host = (char *)wide,
                              .element_bytes = sizeof(*wide),
                              .naxes = 1,
                              .extent = {n},
                              .stride = {1}};
        struct fy_view f32 = f64;
        f32.host = (char *)narrow;
        f32.element_bytes = sizeof(*narrow);
        ck_assert(fy_view_is_finite(&f64, FY_T_F64));
        ck_assert(fy_view_is_finite(&f32, FY_T_F32));
        for (int64_t i = 0; i < 4 * n; i++) {
            const double wide_before = wide[i / 4];
            const float narrow_before = narrow[i / 4];
            wide[i / 4] = bad[i % 4];
            narrow[i / 4] = (float)bad[i % 4];
            ck_assert(!fy_view_is_finite(&f64, FY_T_F64));
            ck_assert(!fy_view_is_finite(&f32, FY_T_F32));
            wide[i / 4] = wide_before;
            narrow[i / 4] = narrow_before;
        }
    }
}
END_TEST

/* ---- results ----------------------------------------------------------------------- */

/* The result of chunks that returned these numbers. */
static union fy_raw
combined(enum fy_type type, enum fy_return rule, const union fy_raw *numbers,
         unsigned count)
{
    struct fy_planner *planner = finished(chunk_call(0, 1, 1, 1), count);
    union fy_raw out = {.u = {1, 1}};

    function.return_type = (uint8_t)type;
    function.return_rule = (uint8_t)rule;
    if (count > 0) {
        memcpy(planner->results, numbers, count * sizeof(*numbers));
    }
    fy_plan_result(&planner->plan, &out);
    fy_plan_free(&planner->plan);
    return out;
}

static int64_t
integers(enum fy_return rule, int64_t a, int64_t b, int64_t c)
{
    const union fy_raw numbers[] = {{.i = a}, {.i = b}, {.i = c}};
    return combined(FY_T_I64, rule, numbers, 3).i;
}

START_TEST(integers_combine)
{
    ck_assert_int_eq(integers(FY_RETURN_SUM, 3, -5, 11), 9);
    ck_assert_int_eq(integers(FY_RETURN_SUM, INT64_MAX, 1, 0), INT64_MIN);
    ck_assert_int_eq(integers(FY_RETURN_MAX, 3, -5, 11), 11);
    ck_assert_int_eq(integers(FY_RETURN_MAX, 12, -5, 11), 12);
    ck_assert_int_eq(integers(FY_RETURN_MIN, 3, -5, 11), -5);
    ck_assert_int_eq(integers(FY_RETURN_MIN, -6, -5, 11), -6);
    /* A status: the first that is not 0. */
    ck_assert_int_eq(integers(FY_RETURN_PLAIN, 0, 0, 0), 0);
    ck_assert_int_eq(integers(FY_RETURN_PLAIN, 0, 4, 7), 4);
    ck_assert_int_eq(integers(FY_RETURN_PLAIN, -2, 4, 7), -2);
}
END_TEST

static double
reals(enum fy_return rule, double a, double b)
{
    const union fy_raw numbers[] = {{.d = {a}}, {.d = {b}}};
    return combined(FY_T_F64, rule, numbers, 2).d[0];
}

START_TEST(reals_combine)
{
    ck_assert_double_eq(reals(FY_RETURN_SUM, 3, -5), -2);
    ck_assert_double_eq(reals(FY_RETURN_HYPOT, 3, 4), 5);
    ck_assert_double_eq(reals(FY_RETURN_MAX, 3, 4), 4);
    ck_assert_double_eq(reals(FY_RETURN_MAX, 4, 3), 4);
    ck_assert_double_eq(reals(FY_RETURN_MIN, 3, 4), 3);
    ck_assert_double_eq(reals(FY_RETURN_MIN, 4, 3), 3);
    ck_assert(isnan(reals(FY_RETURN_MAX, NAN, 3)));
    ck_assert(isnan(reals(FY_RETURN_MAX, 3, NAN)));
    ck_assert(isnan(reals(FY_RETURN_MIN, NAN, 3)));
    ck_assert(isnan(reals(FY_RETURN_MIN, 3, NAN)));
}
END_TEST

START_TEST(complex_numbers_add_up)
{
    const union fy_raw numbers[] = {{.d = {1, 2}}, {.d = {10, 20}}};
    union fy_raw sum = combined(FY_T_C64, FY_RETURN_SUM, numbers, 2);
    ck_assert_double_eq(sum.d[0], 11);
    ck_assert_double_eq(sum.d[1], 22);
    /* Without a rule the last one counts. */
    sum = combined(FY_T_C64, FY_RETURN_PLAIN, numbers, 2);
    ck_assert_double_eq(sum.d[0], 10);
    ck_assert_double_eq(sum.d[1], 20);
}
END_TEST

START_TEST(one_chunk_or_none)
{
    const union fy_raw one = {.u = {0x1234567812345678, 0x9abcdef09abcdef0}};
    /* All bytes of a single chunk's result, whatever the type is. */
    union fy_raw out = combined(FY_T_I32, FY_RETURN_SUM, &one, 1);
    ck_assert_mem_eq(&out, &one, sizeof(out));
    out = combined(FY_T_I32, FY_RETURN_SUM, NULL, 0);
    ck_assert_uint_eq(out.u[0], 0);
    out = combined(FY_T_VOID, FY_RETURN_PLAIN, &one, 1);
    ck_assert_uint_eq(out.u[0], 0);
}
END_TEST

START_TEST(info_and_answers_are_stored)
{
    struct fy_planner *planner = finished(chunk_call(0, 1, 1, 1), 1);
    uint32_t info[2] = {7, 8};
    double work[2] = {1, 2}, other[1] = {3};
    union fy_raw out;

    planner->info_pointer = (char *)info;
    fy_plan_result(&planner->plan, &out);
    ck_assert_uint_eq(info[0], 7); /* not the plan's to tell */
    planner->uses_info = true;
    fy_plan_result(&planner->plan, &out);
    ck_assert_uint_eq(info[0], 0);
    ck_assert_uint_eq(info[1], 8);
    bound.integer_bits = 64;
    fy_plan_result(&planner->plan, &out);
    ck_assert_uint_eq(info[1], 0);

    struct fy_model *model = compile(
        "function void sized(long n, double *work, int *iwork, double *rwork)\n"
        "{ axis n; scratch work[n: 1] returns 1 query;\n"
        "  scratch iwork[n: 1] returns 1 query; scratch rwork[n: 1]; }\n");
    bound.model = model;
    bound.function = FY_TABLE(model, fy_function, functions);
    const struct {
        void *host;
        uint32_t bytes;
    } rows[3] = {{work, 8}, {info, 4}, {other, 8}};
    for (unsigned o = 0; o < 3; o++) {
        bound.views[o] = view;
        bound.views[o].host = rows[o].host;
        bound.views[o].element_bytes = rows[o].bytes;
        bound.views[o].naxes = 1;
        bound.views[o].extent[0] = 100;
    }
    planner->info_pointer = NULL;
    fy_plan_result(&planner->plan, &out);
    ck_assert_double_eq(work[0], 1); /* the original has run */
    planner->stores_sizes = true;
    fy_plan_result(&planner->plan, &out);
    ck_assert_double_eq(work[0], 100);
    ck_assert_double_eq(work[1], 2);
    ck_assert_uint_eq(info[0], 100);
    ck_assert_uint_eq(info[1], 0);
    ck_assert_double_eq(other[0], 3); /* no query */
    bound.views[0].naxes = 0;
    work[0] = 1;
    fy_plan_result(&planner->plan, &out);
    ck_assert_double_eq(work[0], 1); /* not accessed */
    fy_plan_free(&planner->plan);
    free(model);
}
END_TEST

/* Two panels, of rows 0 to 2 and 3 to 4; each numbers its own rows. */
static void
number(void *pivots, unsigned bits, bool narrow)
{
    struct fy_planner *planner = finished(chunk_call(0, 1, 1, 1), 1);
    union fy_raw out;

    bound.integer_bits = (uint8_t)bits;
    planner->pivots = pivots;
    planner->narrow_pivots = narrow;
    planner->pivot_panels.count = 2;
    planner->pivot_panels.start = malloc(3 * sizeof(int64_t));
    ck_assert_ptr_nonnull(planner->pivot_panels.start);
    memcpy(planner->pivot_panels.start, (const int64_t[]){0, 3, 5},
           3 * sizeof(int64_t));
    fy_plan_result(&planner->plan, &out);
    fy_plan_free(&planner->plan);
}

START_TEST(pivots_count_from_the_first_row)
{
    int32_t short_ones[6] = {3, 2, 3, 1, 2, 1};
    int64_t long_ones[6] = {3, 2, 3, 1, 2, 1};
    int64_t low_halves[6] = {3, 2, 3, 1 + (5LL << 32), 2 + (9LL << 32), 1};

    number(short_ones, 32, false);
    number(long_ones, 64, false);
    number(low_halves, 64, true);
    const int64_t expected[6] = {3, 2, 3, 4, 5, 1};
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_int_eq(short_ones[i], expected[i]);
        ck_assert_int_eq(long_ones[i], expected[i]);
        ck_assert_int_eq(low_halves[i], expected[i]);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("plan_build");
    TCase *cases = tcase_create("plan_build");

    tcase_add_test(cases, equal_tiles_have_one_layout);
    tcase_add_test(cases, a_step_fits_or_is_refused);
    tcase_add_test(cases, tables_grow);
    tcase_add_test(cases, a_reset_lets_go_of_host_memory);
    tcase_add_test(cases, a_launch_passes_each_kind_of_argument);
    tcase_add_test(cases, leaves_run_in_turn);
    tcase_add_test(cases, fields_move_between_struct_and_tile);
    tcase_add_test(cases, a_copy_that_fails_ends_the_step);
    tcase_add_test(cases, a_written_field_that_no_operand_declares_is_refused);
    tcase_add_test(cases, every_struct_is_looked_at);
    tcase_add_test(cases, a_written_scalar_is_refused);
    tcase_add_test(cases, an_info_is_looked_at_where_there_is_one);
    tcase_add_test(cases, a_diagonal_is_regular);
    tcase_add_test(cases, an_inverse_is_finite);
    tcase_add_test(cases, a_block_is_finite_in_every_place);
    tcase_add_test(cases, integers_combine);
    tcase_add_test(cases, reals_combine);
    tcase_add_test(cases, complex_numbers_add_up);
    tcase_add_test(cases, one_chunk_or_none);
    tcase_add_test(cases, info_and_answers_are_stored);
    tcase_add_test(cases, pivots_count_from_the_first_row);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
