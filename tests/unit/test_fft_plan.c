/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of transforms larger than a device, without running them: whatever the
 * shape and the memory, every step fits, no transform leaves its tiles, and every
 * element of each pass is written once.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/annotations.h"
#include "pager/plan/build.h"
#include "tests/unit/calls.h"
#include "tests/unit/runner.h"

static const struct fy_model *model;
static uint32_t maker;
static struct fy_value maker_cells[FY_MAX_CELLS];
/* Nobody reads or writes them. */
static char *const x = (char *)0x100000000, *const y = (char *)0x900000000;

static uint32_t
function_of(const char *name)
{
    const struct fy_symbol *symbols = FY_TABLE(model, fy_symbol, symbols);
    for (uint32_t i = 0; i < model->symbols.count; i++) {
        if (strcmp(fy_model_string(model, symbols[i].name), name) == 0) {
            return symbols[i].function;
        }
    }
    ck_abort_msg("no %s", name);
    return FY_NIL;
}

static uint32_t
look_up(uint64_t handle, struct fy_value cells[FY_MAX_CELLS])
{
    (void)handle;
    memcpy(cells, maker_cells, sizeof maker_cells);
    return maker;
}

/* What the plan remembers: n0, n1, n2, x, y, sign, flags. */
static void
make_handle(const char *name, const int64_t n[3], bool in_place)
{
    maker = function_of(name);
    const struct fy_function *function =
        &FY_TABLE(model, fy_function, functions)[maker];
    const struct fy_cell *cells =
        FY_TABLE(model, fy_cell, cells) + function->cells;
    memset(maker_cells, 0, sizeof maker_cells);
    for (uint32_t c = 0; c < function->ncells; c++) {
        const char *cell = fy_model_string(model, cells[c].name);
        struct fy_value *value = &maker_cells[c];
        value->kind = FY_V_INT;
        if (cell[0] == 'n') {
            value->i = n[cell[1] - '0'];
        } else if (cell[0] == 's') {
            value->i = -1;
        } else if (cell[0] == 'f') {
            value->i = 64 + 16;
        } else {
            value->kind = FY_V_POINTER;
            value->p =
                (uint64_t)(uintptr_t)(cell[0] == 'x' || in_place ? x : y);
        }
    }
}

static void *
resolve(struct fy_device *device, const char *name)
{
    (void)device;
    return (void *)(uintptr_t)name;
}

/* The last element that a side of a transform touches. */
static int64_t
connection(const struct fy_transform *t, const struct fy_transform_side *side,
           bool half)
{
    int64_t at = 0;
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t n = half && i == t->rank - 1u ? t->n[i] / 2 + 1 : t->n[i];
        at = (i > 0 ? at * side->embed[i] : 0) + n - 1;
    }
    return at * side->stride + (t->batch - 1) * side->distance;
}

/* It stays in its tile; in a pass, it fills it. */
static void
check_side(const struct fy_transform *t, bool to, uint64_t tile_bytes,
           bool exact)
{
    uint8_t real = to ? FY_TRANSFORM_C2R : FY_TRANSFORM_R2C;
    uint8_t half = to ? FY_TRANSFORM_R2C : FY_TRANSFORM_C2R;
    uint64_t bytes = (t->is_double ? 16 : 8) / (t->kind == real ? 2 : 1);
    bytes *=
        (uint64_t)connection(t, to ? &t->to : &t->from, t->kind == half) + 1;
    ck_assert_uint_le(bytes, tile_bytes);
    ck_assert(!exact || bytes == tile_bytes);
}

static void
check_plan(const struct fy_plan *plan, uint64_t budget)
{
    const struct fy_planner *planner = (const struct fy_planner *)plan;
    const struct fy_schedule *s = &plan->schedule;
    const bool exact = strcmp(plan->method, "fft") == 0;
    uint64_t written[64] = {0};
    ck_assert_uint_le(s->nviews, 64);
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct fy_variant *v = planner->variants[s->steps[i].tag];
        const struct fy_tile *tiles = s->tiles + s->steps[i].tiles;
        const struct fy_transform *t = &v->transform;
        uint64_t elements[3], bytes = 0;
        ck_assert_uint_le(v->ntiles, 3);
        for (unsigned k = 0; k < v->ntiles; k++) {
            const struct fy_view *view = &s->views[tiles[k].view];
            elements[k] = 1;
            for (unsigned a = 0; a < tiles[k].naxes; a++) {
                ck_assert_int_ge(tiles[k].lo[a], 0);
                ck_assert_int_le(tiles[k].lo[a] + tiles[k].n[a],
                                 view->extent[a]);
                elements[k] *= (uint64_t)tiles[k].n[a];
            }
            bytes += elements[k] * view->element_bytes;
        }
        ck_assert_uint_le(bytes, budget);
        unsigned to = v->ntiles - 1u;
        check_side(
            t, false,
            /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): it has tiles */
            elements[0] * s->views[tiles[0].view].element_bytes, exact);
        check_side(t, true,
                   elements[to] * s->views[tiles[to].view].element_bytes,
                   exact);
        ck_assert(tiles[to].access & FY_ACCESS_OUT);
        written[tiles[to].view] += elements[to];
    }
    for (uint32_t i = 0; i < s->nviews; i++) {
        ck_assert(written[i] == 0 ||
                  written[i] == fy_view_all_elements(&s->views[i]));
    }
}

static const char *const makers[] = {
    "fftw_plan_dft_1d",      "fftw_plan_dft_2d",     "fftw_plan_dft_3d",
    "fftwf_plan_dft_r2c_2d", "fftw_plan_dft_r2c_3d", "fftw_plan_dft_c2r_2d",
    "fftwf_plan_dft_c2r_3d",
};

START_TEST(test_any_shape_and_memory)
{
    static const int64_t factors[] = {2, 3, 4, 5, 7, 16, 61};
    const char *name = makers[_i];
    const bool single = name[4] == 'f';
    const unsigned rank = (unsigned)(name[strlen(name) - 2] - '0');
    struct fy_device_ops ops = fy_device_host;
    const struct fy_target target = {.integer_bits = 32};
    uint64_t state = (uint64_t)_i + 1;
    unsigned in_passes = 0;
    ops.resolve = resolve;
    for (int round = 0; round < 150; round++) {
        struct fy_bound bound;
        struct fy_plan *plan;
        union fy_raw args[FY_MAX_ARGS] = {{.u = {1}}};
        const int64_t most = rank == 1 ? 200000 : rank == 2 ? 400 : 60;
        int64_t n[3];
        for (unsigned i = 0; i < 3; i++) {
            n[i] = 1 + (int64_t)fy_random_below(&state, 9);
            while (n[i] < most / 61 || fy_random_below(&state, 3) != 0) {
                int64_t factor = factors[fy_random_below(&state, 7)];
                if (n[i] > most / factor) {
                    break;
                }
                n[i] *= factor;
            }
        }
        make_handle(name, n, round % 2 != 0);
        enum fy_reason reason = fy_bind_args(
            model, function_of(single ? "fftwf_execute" : "fftw_execute"), 32,
            args, look_up, &bound);
        ck_assert_int_eq(reason, FY_REASON_NONE);
        const struct fy_plan_options options = {
            .ops = &ops,
            .budget_bytes = 2048 + fy_random_below(&state, 1 << 19),
            .random = fy_random_below(&state, 2) != 0,
            .seed = state};
        int status = fy_plan_new(&bound, &target, &options, &plan);
        if (status != 0) {
            ck_assert_int_eq(status, FY_ERR_NOFIT);
            continue;
        }
        check_plan(plan, options.budget_bytes);
        in_passes += strcmp(plan->method, "fft") == 0;
        fy_plan_free(plan);
    }
    ck_assert(rank == 1 ? in_passes == 0 : in_passes > 20);
}
END_TEST

int
main(void)
{
    static const char *const files[] = {"fftw3.ferry", "fftw3_execute.ferry"};
    Suite *suite = suite_create("fft_plan");
    TCase *tcase = tcase_create("fft_plan");
    model = calls_model(files, 2);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_any_shape_and_memory, 0,
                        sizeof makers / sizeof makers[0]);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
