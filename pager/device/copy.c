/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strided copies with fast paths: contiguous runs are merged and go through
 * memcpy, single elements through loops of their width, triangles and bands
 * row by row. The program's memory is accessed row by row by host_access.c. Runs on the copy threads of the host device and on the caller's
 * thread; touches only declared elements.
 */
#include "config.h"

#include "pager/device/copy.h"

#include <string.h>

#include "pager/device/host_access.h"

/* Cost of copying an element. */
struct unit {
    uint32_t bytes;
    struct fy_host_access
        *access; /* to the host's side; NULL: it cannot fault */
};

/* One axis of a copy between two address ranges; strides in bytes. */
struct axis {
    int64_t n;
    int64_t to, from;
};

/* A row of single elements. */
#define ELEMENT_LOOP(type)                        \
    for (int64_t i = 0; i < a->n; i++) {          \
        type v;                                   \
        memcpy(&v, from + i * a->from, sizeof v); \
        memcpy(to + i * a->to, &v, sizeof v);     \
    }

struct pair {
    uint64_t a, b;
};

static void
copy_row(char *to, const char *from, const struct axis *a, struct unit unit)
{
    uint32_t bytes = unit.bytes;
    if (unit.access) {
        bool out = unit.access->writes;
        fy_host_access_row(unit.access, out ? to : (char *)(uintptr_t)from,
                           out ? (char *)(uintptr_t)from : to, a->n,
                           out ? a->to : a->from, out ? a->from : a->to, bytes);
        return;
    }
    if (a->to == (int64_t)bytes && a->from == (int64_t)bytes) {
        memcpy(to, from, (size_t)a->n * bytes);
        return;
    }
    switch (bytes) {
    case 1:
        ELEMENT_LOOP(uint8_t)
        break;
    case 2:
        ELEMENT_LOOP(uint16_t)
        break;
    case 4:
        ELEMENT_LOOP(uint32_t)
        break;
    case 8:
        ELEMENT_LOOP(uint64_t)
        break;
    case 16:
        ELEMENT_LOOP(struct pair)
        break;
    default:
        for (int64_t i = 0; i < a->n; i++) {
            memcpy(to + i * a->to, from + i * a->from, bytes);
        }
    }
}

static int64_t
magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

/*
 * Whether axis a should run inside axis b: nested as the destination is, or, where
 * the host's side is accessed by the kernel, as that is.
 */
static int
runs_inside(const struct axis *a, const struct axis *b, struct unit unit)
{
    int64_t to = magnitude(a->to) - magnitude(b->to);
    int64_t from = magnitude(a->from) - magnitude(b->from);
    bool host_is_from = unit.access && !unit.access->writes;
    int64_t first = host_is_from ? from : to, second = host_is_from ? to : from;
    return first != 0 ? first < 0 : second < 0;
}

/* Drops axes of one element, turns descending ones, sorts, merges. */
static int
normalise(struct axis *axes, int naxes, char **to, const char **from,
          struct unit unit)
{
    int count = 0;
    for (int k = 0; k < naxes; k++) {
        struct axis a = axes[k];
        if (a.n == 1) {
            continue;
        }
        if (a.to < 0) {
            *to += (a.n - 1) * a.to;
            *from += (a.n - 1) * a.from;
            a.to = -a.to;
            a.from = -a.from;
        }
        int at = count++;
        for (; at > 0 && runs_inside(&a, &axes[at - 1], unit); at--) {
            axes[at] = axes[at - 1];
        }
        axes[at] = a;
    }
    int last = 0;
    for (int k = 1; k < count; k++) {
        struct axis *a = &axes[last];
        if (axes[k].to == a->n * a->to && axes[k].from == a->n * a->from) {
            a->n *= axes[k].n;
        } else {
            axes[++last] = axes[k];
        }
    }
    return count == 0 ? 0 : last + 1;
}

static void
copy_box(char *to, const char *from, struct axis *axes, int naxes,
         struct unit unit)
{
    naxes = normalise(axes, naxes, &to, &from, unit);
    if (naxes == 0) {
        struct axis one = {1, unit.bytes, unit.bytes};
        copy_row(to, from, &one, unit);
        return;
    }
    int64_t at[FY_MAX_OPERAND_AXES] = {0};
    for (;;) {
        copy_row(to, from, &axes[0], unit);
        int k = 1;
        for (; k < naxes; k++) {
            to += axes[k].to;
            from += axes[k].from;
            if (++at[k] < axes[k].n) {
                break;
            }
            to -= axes[k].n * axes[k].to;
            from -= axes[k].n * axes[k].from;
            at[k] = 0;
        }
        if (k == naxes) {
            return;
        }
    }
}

/* Axes 0 and 1 under lo <= i0 + sign * i1 <= hi. */
static void
copy_constrained(const struct fy_copy *c, char *to, const char *from,
                 const struct axis *axes, struct unit unit)
{
    int inner = runs_inside(&axes[1], &axes[0], unit) ? 1 : 0;
    const struct axis *out = &axes[1 - inner], *in = &axes[inner];
    int64_t start, rows = fy_view_rows(&c->view, inner, &start);
    for (int64_t i = start; i < start + rows; i++) {
        int64_t first;
        struct axis row = *in;
        row.n = fy_view_row(&c->view, inner, i, &first);
        if (row.n > 0) {
            copy_row(to + i * out->to + first * in->to,
                     from + i * out->from + first * in->from, &row, unit);
        }
    }
}

/* Whether the constraint leaves out nothing of the box. */
static bool
covers_box(const struct fy_copy *c)
{
    if (c->view.sign == 0) {
        return true;
    }
    int64_t n1 = c->view.naxes > 1 ? c->view.extent[1] : 1;
    __int128 least = c->view.sign < 0 ? -(__int128)(n1 - 1) : 0;
    __int128 most = (__int128)c->view.extent[0] - 1 +
                    (c->view.sign > 0 ? (__int128)(n1 - 1) : 0);
    return c->view.lo <= least && c->view.hi >= most;
}

static void
run(const struct fy_copy *c, struct fy_host_access *access)
{
    struct axis axes[FY_MAX_OPERAND_AXES];
    char *device = (char *)(uintptr_t)c->device;
    bool in = c->direction == FY_TO_DEVICE;
    char *to = in ? device : c->view.host;
    const char *from = in ? c->view.host : device;
    uint32_t bytes = c->view.element_bytes;
    struct unit unit = {bytes, access};

    for (int k = 0; k < c->view.naxes; k++) {
        if (c->view.extent[k] <= 0) {
            return;
        }
        int64_t host = c->view.stride[k] * (int64_t)bytes;
        int64_t dev = c->device_stride[k] * (int64_t)bytes;
        axes[k] =
            (struct axis){c->view.extent[k], in ? dev : host, in ? host : dev};
    }
    if (covers_box(c)) {
        copy_box(to, from, axes, c->view.naxes, unit);
        return;
    }
    for (int k = c->view.naxes; k < FY_MAX_OPERAND_AXES; k++) {
        axes[k] = (struct axis){1, 0, 0};
    }
    for (int64_t j = 0; j < axes[3].n; j++) {
        for (int64_t i = 0; i < axes[2].n; i++) {
            copy_constrained(c, to + i * axes[2].to + j * axes[3].to,
                             from + i * axes[2].from + j * axes[3].from, axes,
                             unit);
        }
    }
}

void
fy_copy_run(const struct fy_copy *c)
{
    run(c, NULL);
}

int
fy_copy_run_host(const struct fy_copy *c)
{
    struct fy_host_access access;
    fy_host_access_begin(&access, c->direction == FY_TO_HOST, false);
    run(c, &access);
    return fy_host_access_end(&access);
}

int
fy_copy_put_back(const struct fy_copy *c)
{
    struct fy_host_access access;
    fy_host_access_begin(&access, c->direction == FY_TO_HOST, true);
    run(c, &access);
    return fy_host_access_end(&access);
}

int
fy_copy_save(const struct fy_copy *c, struct fy_device *device)
{
    struct fy_copy box = *c;
    box.direction = FY_TO_DEVICE;
    int status = device && device->ops->save ? device->ops->save(device, &box)
                                             : fy_copy_run_host(&box);
    *c->saved = status == 0;
    return status;
}
