/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces follow the device's order of axes, so that a piece of a packed tile is
 * one transfer. Triangles are cut into rectangles around their declared
 * elements; other elements of such a rectangle belong to the tile's buffer
 * and are set to zero there (never touched in host memory).
 */
#include "config.h"

#include "pager/device/cuda/pieces.h"

#include <stdlib.h>

#include "pager/device/copy.h"

enum {
    DIRECT_RUN_BYTES = 512 /* shorter ones are faster packed */
};

static uint64_t
magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

void
cuda_pieces_init(struct cuda_pieces *p, const struct fy_copy *c,
                 uint64_t most_bytes)
{
    uint64_t room = most_bytes / c->view.element_bytes;
    bool full = false;
    p->copy = c;
    p->naxes = fy_view_order(&c->view, c->device_stride, p->order);
    p->npieces = 1;
    for (int i = 0; i < p->naxes; i++) {
        uint64_t n = (uint64_t)c->view.extent[p->order[i]];
        uint64_t chunk = full ? 1 : n < room ? n : room;
        full = full || chunk < n;
        room /= chunk;
        p->chunk[i] = (int64_t)chunk;
        p->count[i] = (int64_t)((n - 1) / chunk + 1);
        p->npieces *= (uint64_t)p->count[i];
    }
}

static int64_t
clamp(__int128 v, int64_t least, int64_t most)
{
    return v < least ? least : v > most ? most : (int64_t)v;
}

/*
 * Shrinks the box lo[k] .. hi[k] of axes 0 and 1 to the part that the
 * constraint leaves. False: nothing.
 */
static bool
tighten(const struct fy_copy *c, int64_t lo[2], int64_t hi[2])
{
    int64_t s = c->view.sign < 0 ? -1 : 1;
    __int128 a = s < 0 ? -(__int128)hi[1] : lo[1]; /* sign * i1: a .. b */
    __int128 b = s < 0 ? -(__int128)lo[1] : hi[1];
    __int128 least = c->view.lo - b, most = c->view.hi - a;
    if (least > hi[0] || most < lo[0]) {
        return false;
    }
    lo[0] = clamp(least, lo[0], hi[0]);
    hi[0] = clamp(most, lo[0], hi[0]);
    least = (__int128)c->view.lo - hi[0]; /* of sign * i1 */
    most = (__int128)c->view.hi - lo[0];
    if (s < 0) {
        __int128 swap = least;
        least = -most;
        most = -swap;
    }
    if (least > hi[1] || most < lo[1]) {
        return false;
    }
    lo[1] = clamp(least, lo[1], hi[1]);
    hi[1] = clamp(most, lo[1], hi[1]);
    return true;
}

int
cuda_run_axes(const struct fy_copy *t)
{
    return t->view.naxes > 0 && t->view.stride[0] == 1 &&
           t->device_stride[0] == 1;
}

uint64_t
cuda_run_bytes(const struct fy_copy *t)
{
    uint64_t n = cuda_run_axes(t) ? (uint64_t)t->view.extent[0] : 1;
    return n * t->view.element_bytes;
}

uint64_t
cuda_transfer_span(const struct fy_copy *t)
{
    int64_t low, high;
    return fy_view_span(&t->view, &low, &high) ? (uint64_t)high : 0;
}

/* Without axes yet. */
static void
begin_transfer(struct fy_copy *t, const struct fy_copy *c, char *host,
               uint64_t device)
{
    *t = (struct fy_copy){
        .direction = c->direction,
        .view = {.host = host, .element_bytes = c->view.element_bytes},
        .device = device,
    };
}

/* Appends an axis, or lengthens the run where both sides go on with it. */
static void
add_axis(struct fy_copy *t, int64_t n, int64_t host_stride,
         int64_t device_stride)
{
    struct fy_view *v = &t->view;
    if (n == 1) {
        return;
    }
    if (v->naxes == 1 && cuda_run_axes(t) && host_stride == v->extent[0] &&
        device_stride == v->extent[0]) {
        v->extent[0] *= n;
        return;
    }
    v->extent[v->naxes] = n;
    v->stride[v->naxes] = host_stride;
    t->device_stride[v->naxes++] = device_stride;
}

bool
cuda_copy_direct(const struct fy_copy *c, struct fy_copy *out)
{
    struct cuda_pieces p;
    if (c->view.sign != 0) {
        return false;
    }
    cuda_pieces_init(&p, c, UINT64_MAX);
    int64_t bytes = c->view.element_bytes;
    uint64_t reach = 0; /* of the axes so far in host memory, in elements */
    begin_transfer(out, c, c->view.host, c->device);
    for (int i = 0; i < p.naxes; i++) {
        int k = p.order[i];
        int64_t h = c->view.stride[k], d = c->device_stride[k];
        int64_t last = c->view.extent[k] - 1;
        if (h == 0 || d == 0 || (h < 0) != (d < 0) || magnitude(h) <= reach) {
            return false;
        }
        reach += (uint64_t)last * magnitude(h);
        if (h < 0) {
            out->view.host += last * h * bytes;
            out->device += (uint64_t)(last * d * bytes);
        }
        add_axis(out, last + 1, llabs(h), llabs(d));
    }
    return out->view.naxes == cuda_run_axes(out) ||
           cuda_run_bytes(out) >= DIRECT_RUN_BYTES;
}

bool
cuda_piece_at(const struct cuda_pieces *p, uint64_t index, void *slot,
              struct cuda_piece *out)
{
    const struct fy_copy *c = p->copy;
    struct fy_copy *packing = &out->packing;
    int64_t lo[FY_MAX_OPERAND_AXES] = {0}, hi[FY_MAX_OPERAND_AXES] = {0};
    int64_t bytes = c->view.element_bytes;
    for (int i = 0; i < p->naxes; i++) {
        int k = p->order[i];
        lo[k] = (int64_t)(index % (uint64_t)p->count[i]) * p->chunk[i];
        hi[k] = c->view.extent[k] - lo[k] <= p->chunk[i]
                    ? c->view.extent[k] - 1
                    : lo[k] + p->chunk[i] - 1;
        index /= (uint64_t)p->count[i];
    }
    if (c->view.sign != 0 && !tighten(c, lo, hi)) {
        return false;
    }
    *packing = *c;
    int64_t device = 0, n[FY_MAX_OPERAND_AXES] = {0};
    uint64_t elements = 1;
    for (int k = 0; k < c->view.naxes; k++) {
        n[k] = hi[k] - lo[k] + 1;
        elements *= (uint64_t)n[k];
        int64_t lowest = c->device_stride[k] < 0 ? hi[k] : lo[k];
        device += lowest * c->device_stride[k];
    }
    fy_view_part(&c->view, lo, n, &packing->view);
    uint64_t declared = fy_view_all_elements(&packing->view);
    if (declared == 0) {
        return false;
    }
    out->whole = declared == elements;
    begin_transfer(&out->transfer, c, slot,
                   c->device + (uint64_t)(device * bytes));
    int64_t dense = 1, origin = 0;
    for (int k = 0; k < c->view.naxes; k++) {
        packing->device_stride[k] = 1; /* of one element: any will do */
    }
    for (int i = 0; i < p->naxes; i++) {
        int k = p->order[i];
        bool down = c->device_stride[k] < 0;
        add_axis(&out->transfer, n[k], dense, llabs(c->device_stride[k]));
        packing->device_stride[k] = down ? -dense : dense;
        origin += down ? (n[k] - 1) * dense : 0;
        dense *= n[k];
    }
    packing->device = (uint64_t)(uintptr_t)slot + (uint64_t)(origin * bytes);
    return true;
}

void
cuda_piece_blank(const struct cuda_piece *piece)
{
    static const char zero[4096];
    if (piece->whole || piece->packing.view.element_bytes > sizeof zero) {
        return;
    }
    struct fy_copy blank = piece->packing;
    blank.direction = FY_TO_DEVICE;
    blank.view.host = (char *)(uintptr_t)zero;
    for (int k = 0; k < blank.view.naxes; k++) {
        blank.view.stride[k] = 0;
    }
    if (piece->packing.view.lo > INT64_MIN) {
        blank.view.lo = INT64_MIN;
        blank.view.hi = piece->packing.view.lo - 1;
        fy_copy_run(&blank);
    }
    if (piece->packing.view.hi < INT64_MAX) {
        blank.view.lo = piece->packing.view.hi + 1;
        blank.view.hi = INT64_MAX;
        fy_copy_run(&blank);
    }
}
