/* SPDX-License-Identifier: Apache-2.0 */
/* Random tiled products as schedules; see product.h. */
#include "config.h"

#include "tests/unit/product.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

uint64_t random_state = 1;

uint64_t
random_below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % n;
}

struct fy_device *
open_device(uint64_t bytes)
{
    struct fy_device *device;
    ck_assert_int_eq(fy_device_host.open(bytes, &device), 0);
    return device;
}

enum {
    MARK = 12345
}; /* fills what no view declares */

/* c += a * b, or c = a * b; strides of both axes of each. */
static void
multiply(const double *a, int64_t a0, int64_t a1, const double *b, int64_t b0,
         int64_t b1, double *c, int64_t c0, int64_t c1, int64_t m, int64_t n,
         int64_t k, int64_t fresh)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = fresh ? 0 : c[i * c0 + j * c1];
            for (int64_t l = 0; l < k; l++) {
                sum += a[i * a0 + l * a1] * b[l * b0 + j * b1];
            }
            c[i * c0 + j * c1] = sum;
        }
    }
}

static int
launch_product(void *planner, const struct fy_step *step,
               const struct fy_tile *t, const uint64_t *address,
               struct fy_stream *stream)
{
    static const uint8_t types[13] = {
        FY_T_POINTER, FY_T_I64,     FY_T_I64, FY_T_POINTER, FY_T_I64,
        FY_T_I64,     FY_T_POINTER, FY_T_I64, FY_T_I64,     FY_T_I64,
        FY_T_I64,     FY_T_I64,     FY_T_I64};
    int64_t fresh = t[2].access == FY_ACCESS_OUT;
    void *values[13] = {(void *)&address[0],
                        (void *)&t[0].device_stride[0],
                        (void *)&t[0].device_stride[1],
                        (void *)&address[1],
                        (void *)&t[1].device_stride[0],
                        (void *)&t[1].device_stride[1],
                        (void *)&address[2],
                        (void *)&t[2].device_stride[0],
                        (void *)&t[2].device_stride[1],
                        (void *)&t[2].n[0],
                        (void *)&t[2].n[1],
                        (void *)&t[0].n[1],
                        &fresh};
    struct fy_launch launch = {.function = (void *)multiply,
                               .return_type = FY_T_VOID,
                               .nargs = 13,
                               .types = types,
                               .values = values};
    struct fy_device *device = planner;
    (void)step;
    return device->ops->launch(stream, &launch);
}

/* A view of rows x columns with padding, either order, perhaps descending. */
static void
make_matrix(struct product *p, int which, int64_t rows, int64_t columns,
            uint8_t access)
{
    bool by_row = random_below(2);
    int64_t inner = by_row ? columns : rows, outer = by_row ? rows : columns;
    int64_t step = 1 + (int64_t)random_below(2);
    int64_t ld = inner * step + (int64_t)random_below(4);
    int64_t sign = random_below(4) == 0 ? -1 : 1;
    size_t count = (size_t)(ld * outer + 8);
    struct fy_view *v = &p->views[which];
    memset(v, 0, sizeof *v);
    p->bytes[which] = count * sizeof(double);
    p->memory[which] = malloc(p->bytes[which]);
    p->before[which] = malloc(p->bytes[which]);
    for (size_t i = 0; i < count; i++) {
        p->memory[which][i] = MARK;
    }
    v->element_bytes = sizeof(double);
    v->access = access;
    v->naxes = 2;
    v->extent[0] = rows;
    v->extent[1] = columns;
    v->stride[0] = by_row ? ld : step;
    v->stride[1] = by_row ? step : ld;
    double *origin = p->memory[which] + 4;
    if (sign < 0) {
        origin += (rows - 1) * v->stride[0];
        v->stride[0] = -v->stride[0];
    }
    v->host = (char *)origin;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            origin[i * v->stride[0] + j * v->stride[1]] =
                (double)random_below(100);
        }
    }
    memcpy(p->before[which], p->memory[which], p->bytes[which]);
}

int64_t
shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void
set_tile(struct fy_tile *t, int view, uint8_t access, const int64_t lo[2],
         const int64_t n[2])
{
    memset(t, 0, sizeof *t);
    t->view = (uint16_t)view;
    t->access = access;
    t->naxes = 2;
    for (int k = 0; k < 2; k++) {
        t->lo[k] = lo[k];
        t->n[k] = n[k];
    }
    t->device_stride[0] = 1;
    t->device_stride[1] = n[0];
}

void
make_product(struct product *p, struct fy_device *device, bool c_is_read)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < 3; i++) {
        p->extent[i] = 1 + (int64_t)random_below(24);
        p->tile[i] = 1 + (int64_t)random_below(10);
    }
    int64_t m = p->extent[0], n = p->extent[1], k = p->extent[2];
    uint8_t c_access = c_is_read ? FY_ACCESS_INOUT : FY_ACCESS_OUT;
    make_matrix(p, 0, m, k, FY_ACCESS_IN);
    make_matrix(p, 1, k, n, FY_ACCESS_IN);
    make_matrix(p, 2, m, n, c_access);

    p->expected = malloc(p->bytes[2]);
    memcpy(p->expected, p->memory[2], p->bytes[2]);
    const struct fy_view *v = p->views;
    ptrdiff_t c_at = (double *)v[2].host - p->memory[2];
    multiply((double *)v[0].host, v[0].stride[0], v[0].stride[1],
             (double *)v[1].host, v[1].stride[0], v[1].stride[1],
             p->expected + c_at, v[2].stride[0], v[2].stride[1], m, n, k,
             !c_is_read);

    size_t steps = 1;
    for (int i = 0; i < 3; i++) {
        steps *= (size_t)((p->extent[i] + p->tile[i] - 1) / p->tile[i]);
    }
    struct fy_tile *tile = calloc(steps * 3, sizeof *tile);
    struct fy_step *step = calloc(steps, sizeof *step);
    p->schedule = (struct fy_schedule){.views = p->views,
                                       .nviews = 3,
                                       .tiles = tile,
                                       .ntiles = (uint32_t)steps * 3,
                                       .steps = step,
                                       .nsteps = (uint32_t)steps,
                                       .launch = launch_product,
                                       .planner = device};
    for (int64_t i = 0; i < m; i += p->tile[0]) {
        for (int64_t l = 0; l < k; l += p->tile[2]) {
            for (int64_t j = 0; j < n; j += p->tile[1]) {
                int64_t ni = shorter(p->tile[0], m - i);
                int64_t nj = shorter(p->tile[1], n - j);
                int64_t nl = shorter(p->tile[2], k - l);
                step->tiles = (uint32_t)(tile - p->schedule.tiles);
                step->ntiles = 3;
                step++;
                set_tile(tile++, 0, FY_ACCESS_IN, (int64_t[]){i, l},
                         (int64_t[]){ni, nl});
                set_tile(tile++, 1, FY_ACCESS_IN, (int64_t[]){l, j},
                         (int64_t[]){nl, nj});
                set_tile(tile++, 2, l == 0 ? c_access : FY_ACCESS_INOUT,
                         (int64_t[]){i, j}, (int64_t[]){ni, nj});
            }
        }
    }
}

void
free_product(struct product *p)
{
    for (int i = 0; i < 3; i++) {
        free(p->memory[i]);
        free(p->before[i]);
    }
    free(p->expected);
    free(p->schedule.tiles);
    free(p->schedule.steps);
}

/* The room that any step of the schedule needs. */
uint64_t
step_bytes(const struct fy_schedule *s)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < s->steps[i].ntiles; k++) {
            const struct fy_tile *t = &s->tiles[s->steps[i].tiles + k];
            bytes += fy_tile_device_bytes(&s->views[t->view], t);
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

void
check_result(const struct product *p)
{
    for (int i = 0; i < 2; i++) {
        ck_assert_mem_eq(p->memory[i], p->before[i], p->bytes[i]);
    }
    ck_assert_mem_eq(p->memory[2], p->expected, p->bytes[2]);
}
