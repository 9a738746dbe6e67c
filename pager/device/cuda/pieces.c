/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces follow the device's order of axes, so that a piece of a packed tile is
 * one transfer. Triangles are cut into rectangles around their declared
 * elements; what such a rectangle holds besides belongs to the tile's buffer
 * and is set to zero there (never touched in host memory).
 */
#include "config.h"

#include "pager/device/cuda/pieces.h"

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
    uint64_t room = most_bytes / c->element_bytes;
    bool full = false;
    p->copy = c;
    p->naxes = 0;
    p->npieces = 1;
    for (int k = 0; k < c->naxes; k++) {
        if (c->extent[k] == 1) {
            continue;
        }
        int at = p->naxes++;
        for (; at > 0 && magnitude(c->device_stride[k]) <
                             magnitude(c->device_stride[p->order[at - 1]]);
             at--) {
            p->order[at] = p->order[at - 1];
        }
        p->order[at] = k;
    }
    for (int i = 0; i < p->naxes; i++) {
        uint64_t n = (uint64_t)c->extent[p->order[i]];
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
 * Shrinks the box lo[k] .. hi[k] of axes 0 and 1 to what the constraint leaves
 * of it. False: nothing.
 */
static bool
tighten(const struct fy_copy *c, int64_t lo[2], int64_t hi[2])
{
    int64_t s = c->sign < 0 ? -1 : 1;
    __int128 a = s < 0 ? -(__int128)hi[1] : lo[1]; /* sign * i1: a .. b */
    __int128 b = s < 0 ? -(__int128)lo[1] : hi[1];
    __int128 least = c->lo - b, most = c->hi - a;
    if (least > hi[0] || most < lo[0]) {
        return false;
    }
    lo[0] = clamp(least, lo[0], hi[0]);
    hi[0] = clamp(most, lo[0], hi[0]);
    least = (__int128)c->lo - hi[0]; /* of sign * i1 */
    most = (__int128)c->hi - lo[0];
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

/* Appends an axis, or lengthens the run where both sides go on with it. */
static void
add_axis(struct cuda_rect *rect, int64_t n, uint64_t host_pitch,
         uint64_t device_pitch)
{
    if (n == 1) {
        return;
    }
    if (rect->naxes == 0 && host_pitch == rect->run_bytes &&
        device_pitch == rect->run_bytes) {
        rect->run_bytes *= (uint64_t)n;
        return;
    }
    rect->n[rect->naxes] = n;
    rect->host_pitch[rect->naxes] = host_pitch;
    rect->device_pitch[rect->naxes++] = device_pitch;
}

bool
cuda_rect_direct(const struct fy_copy *c, struct cuda_rect *out)
{
    struct cuda_pieces p;
    if (c->sign != 0) {
        return false;
    }
    cuda_pieces_init(&p, c, UINT64_MAX);
    int64_t bytes = c->element_bytes;
    uint64_t reach = 0; /* of the axes so far in host memory, in elements */
    *out = (struct cuda_rect){
        .host = c->host, .device = c->device, .run_bytes = (uint64_t)bytes};
    for (int i = 0; i < p.naxes; i++) {
        int k = p.order[i];
        int64_t h = c->host_stride[k], d = c->device_stride[k];
        uint64_t last = (uint64_t)c->extent[k] - 1;
        if (h == 0 || d == 0 || (h < 0) != (d < 0) || magnitude(h) <= reach) {
            return false;
        }
        reach += last * magnitude(h);
        if (h < 0) {
            out->host += (int64_t)last * h * bytes;
            out->device += (uint64_t)((int64_t)last * d * bytes);
        }
        add_axis(out, c->extent[k], magnitude(h) * (uint64_t)bytes,
                 magnitude(d) * (uint64_t)bytes);
    }
    return out->naxes == 0 || out->run_bytes >= DIRECT_RUN_BYTES;
}

bool
cuda_piece_at(const struct cuda_pieces *p, uint64_t index, void *slot,
              struct cuda_piece *out)
{
    const struct fy_copy *c = p->copy;
    struct fy_copy *packing = &out->packing;
    struct cuda_rect *rect = &out->rect;
    int64_t lo[FY_COPY_AXES] = {0}, hi[FY_COPY_AXES] = {0};
    int64_t bytes = c->element_bytes;
    for (int i = 0; i < p->naxes; i++) {
        int k = p->order[i];
        lo[k] = (int64_t)(index % (uint64_t)p->count[i]) * p->chunk[i];
        hi[k] = c->extent[k] - lo[k] <= p->chunk[i] ? c->extent[k] - 1
                                                    : lo[k] + p->chunk[i] - 1;
        index /= (uint64_t)p->count[i];
    }
    if (c->sign != 0 && !tighten(c, lo, hi)) {
        return false;
    }
    *packing = *c;
    if (c->sign != 0) {
        fy_copy_shift_constraint(packing, lo[0], lo[1]);
    }
    int64_t host = 0, device = 0;
    uint64_t elements = 1;
    for (int k = 0; k < c->naxes; k++) {
        packing->extent[k] = hi[k] - lo[k] + 1;
        elements *= (uint64_t)packing->extent[k];
        host += lo[k] * c->host_stride[k];
        int64_t lowest = c->device_stride[k] < 0 ? hi[k] : lo[k];
        device += lowest * c->device_stride[k];
    }
    uint64_t declared = fy_copy_elements(packing);
    if (declared == 0) {
        return false;
    }
    out->whole = declared == elements;
    rect->host = slot;
    rect->device = c->device + (uint64_t)(device * bytes);
    packing->host = (char *)c->host + host * bytes;
    rect->run_bytes = (uint64_t)bytes;
    rect->naxes = 0;
    int64_t dense = 1, origin = 0;
    for (int k = 0; k < c->naxes; k++) {
        packing->device_stride[k] = 1; /* of one element: any will do */
    }
    for (int i = 0; i < p->naxes; i++) {
        int k = p->order[i];
        int64_t n = packing->extent[k];
        bool down = c->device_stride[k] < 0;
        add_axis(rect, n, (uint64_t)(dense * bytes),
                 magnitude(c->device_stride[k]) * (uint64_t)bytes);
        packing->device_stride[k] = down ? -dense : dense;
        origin += down ? (n - 1) * dense : 0;
        dense *= n;
    }
    packing->device = (uint64_t)(uintptr_t)slot + (uint64_t)(origin * bytes);
    return true;
}

void
cuda_piece_blank(const struct cuda_piece *piece)
{
    static const char zero[4096];
    if (piece->whole || piece->packing.element_bytes > sizeof zero) {
        return;
    }
    struct fy_copy blank = piece->packing;
    blank.direction = FY_TO_DEVICE;
    blank.host = (char *)(uintptr_t)zero;
    for (int k = 0; k < blank.naxes; k++) {
        blank.host_stride[k] = 0;
    }
    if (piece->packing.lo > INT64_MIN) {
        blank.lo = INT64_MIN;
        blank.hi = piece->packing.lo - 1;
        fy_copy_run(&blank);
    }
    if (piece->packing.hi < INT64_MAX) {
        blank.lo = piece->packing.hi + 1;
        blank.hi = INT64_MAX;
        fy_copy_run(&blank);
    }
}
