/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings are asked for through raw system calls on a descriptor that lives
 * only for the question. Overlap of strided sets is decided by descending into
 * their axes from the longest stride, with a bound on the work.
 */
#include "config.h"

#include "pager/execute/hostmem.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/procmap.h"
#include "pager/device/host_access.h"

static bool
allows(bool readable, bool writable, const struct fy_range *range)
{
    return range->write ? writable : readable;
}

/* Bit 4 of ecx of leaf 7: the system uses protection keys. A hypervisor answers. */
static bool
has_keys(void)
{
    static int8_t known; /* 0: not asked yet */
    unsigned a = 0, b = 0, c = 0, d = 0;
    int8_t answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer == 0) {
        bool has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 4 & 1);
        answer = has ? 1 : -1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer > 0;
}

/* Whether this thread's protection keys allow it too: those of a mapping are alike. */
static bool
keys_allow(uint64_t at, const struct fy_range *range)
{
    return !has_keys() ||
           fy_host_can_be_had((const void *)(uintptr_t)at, 1, range->write);
}

/* 1: mapped, 0: not, -1: this kernel does not answer. */
static int
query_range(int fd, const struct fy_range *range)
{
    uint64_t at = range->start, end = at + range->bytes;
    while (at < end) {
        struct fy_procmap q = {.size = sizeof q, .query_addr = at};
        if (syscall(SYS_ioctl, fd, FY_PROCMAP_QUERY, &q) != 0) {
            return errno == ENOENT ? 0 : -1;
        }
        if (!allows((q.vma_flags & FY_PROCMAP_READABLE) != 0,
                    (q.vma_flags & FY_PROCMAP_WRITABLE) != 0, range) ||
            !keys_allow(at, range)) {
            return 0;
        }
        at = q.vma_end;
    }
    return 1;
}

/*
 * Reads maps a piece at a time: this thread's, for those of a main thread that
 * has ended are empty.
 */
struct maps {
    int fd;
    size_t at, end;
    char text[2048];
};

/* The next byte, '\0' at the end, -1 on an error. */
static int
next_byte(struct maps *m)
{
    if (m->at == m->end) {
        long got;
        do {
            got = syscall(SYS_read, m->fd, m->text, sizeof m->text);
        } while (got < 0 && errno == EINTR);
        if (got <= 0) {
            return got == 0 ? '\0' : -1;
        }
        m->at = 0;
        m->end = (size_t)got;
    }
    return (unsigned char)m->text[m->at++];
}

static int
next_hex(struct maps *m, uint64_t *out)
{
    uint64_t value = 0;
    for (;;) {
        int c = next_byte(m);
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            *out = value;
            return c;
        }
    }
}

/* One line "start-end rwxp ...": 1, at the end 0, -1 on an error. */
static int
next_mapping(struct maps *m, uint64_t *start, uint64_t *end, bool *readable,
             bool *writable)
{
    int c = next_hex(m, start);
    if (c == '\0') {
        return 0;
    }
    if (c != '-' || next_hex(m, end) != ' ') {
        return -1;
    }
    *readable = next_byte(m) == 'r';
    *writable = next_byte(m) == 'w';
    do {
        c = next_byte(m);
    } while (c > 0 && c != '\n');
    return c < 0 ? -1 : 1;
}

/* The same question of the text, one range at a time: few and rare. */
static int
read_range(const struct fy_range *range)
{
    struct maps m = {.at = 0};
    uint64_t at = range->start, stop = at + range->bytes, start, end;
    bool readable, writable;
    m.fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps",
                        O_RDONLY | O_CLOEXEC);
    if (m.fd < 0) {
        return -1;
    }
    int status = 1;
    while (at < stop && status > 0) {
        status = next_mapping(&m, &start, &end, &readable, &writable);
        if (status <= 0 || end <= at) {
            continue;
        }
        if (start > at || !allows(readable, writable, range) ||
            !keys_allow(at, range)) {
            status = 0;
        }
        at = end;
    }
    (void)syscall(SYS_close, m.fd);
    return status;
}

int
fy_ranges_mapped(const struct fy_range *ranges, size_t count)
{
    int saved_errno = errno, status = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps",
                          O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < count && status == 0; i++) {
        if (ranges[i].bytes == 0) {
            continue;
        }
        if (ranges[i].start > UINTPTR_MAX - ranges[i].bytes) {
            status = FY_ERR_NOENT;
            continue;
        }
        int mapped = fd < 0 ? -1 : query_range(fd, &ranges[i]);
        if (mapped < 0) {
            mapped = read_range(&ranges[i]);
        }
        if (mapped <= 0) {
            status = mapped == 0 ? FY_ERR_NOENT : FY_ERR_IO;
        }
    }
    if (fd >= 0) {
        (void)syscall(SYS_close, fd);
    }
    errno = saved_errno;
    return status;
}

/* --- overlap --- */

/* Bytes first + sum(i_k * stride_k) + 0 .. run - 1, strides ascending. */
struct strided {
    __int128 first;
    __int128 run;
    int naxes;
    struct {
        __int128 n, stride;
    } axes[FY_MAX_OPERAND_AXES];
};

/* False when the view has no elements. Contiguous axes go into the run. */
static bool
flatten(const struct fy_view *view, struct strided *out)
{
    *out = (struct strided){.first = (__int128)(uintptr_t)view->host,
                            .run = view->element_bytes};
    if (view->naxes == 0) {
        return false;
    }
    for (int k = 0; k < view->naxes; k++) {
        __int128 n = view->extent[k];
        __int128 stride = (__int128)view->stride[k] * view->element_bytes;
        if (n <= 0) {
            return false;
        }
        if (stride < 0) {
            out->first += (n - 1) * stride;
            stride = -stride;
        }
        if (n == 1 || stride == 0) {
            continue;
        }
        int at = out->naxes++;
        for (; at > 0 && out->axes[at - 1].stride > stride; at--) {
            out->axes[at] = out->axes[at - 1];
        }
        out->axes[at].n = n;
        out->axes[at].stride = stride;
    }
    int taken = 0;
    while (taken < out->naxes && out->axes[taken].stride <= out->run) {
        out->run += (out->axes[taken].n - 1) * out->axes[taken].stride;
        taken++;
    }
    out->naxes -= taken;
    for (int k = 0; k < out->naxes; k++) {
        out->axes[k] = out->axes[k + taken];
    }
    return true;
}

/* Bytes from the first to behind the last, of the lowest `naxes' axes. */
static __int128
width(const struct strided *s, int naxes)
{
    __int128 bytes = s->run;
    for (int k = 0; k < naxes; k++) {
        bytes += (s->axes[k].n - 1) * s->axes[k].stride;
    }
    return bytes;
}

bool
fy_view_range(const struct fy_view *view, struct fy_range *out, bool *overflow)
{
    struct strided s;
    *overflow = false;
    *out = (struct fy_range){0};
    if (!flatten(view, &s)) {
        return false;
    }
    __int128 bytes = width(&s, s.naxes);
    if (s.first < 0 || s.first + bytes > INT64_MAX) {
        *overflow = true;
        return false;
    }
    out->start = (uintptr_t)s.first;
    out->bytes = (uint64_t)bytes;
    out->write = (view->access & FY_ACCESS_OUT) != 0;
    return true;
}

static __int128
floor_div(__int128 a, __int128 b)
{
    return a / b - (a % b < 0);
}

/*
 * Whether a's lowest na axes, begun at byte 0, meet b's lowest nb axes, begun
 * at byte d. *budget counts the comparisons left; at 0 the answer is yes.
 */
static bool
meet(const struct strided *a, int na, const struct strided *b, int nb,
     __int128 d, unsigned *budget)
{
    if (*budget == 0) {
        return true;
    }
    --*budget;
    if (d >= width(a, na) || -d >= width(b, nb)) {
        return false;
    }
    if (na == 0 && nb == 0) {
        return true;
    }
    /* Opens the axis of the longest stride; of both, where they are equal. */
    __int128 sa = na > 0 ? a->axes[na - 1].stride : 0;
    __int128 sb = nb > 0 ? b->axes[nb - 1].stride : 0;
    __int128 stride = sa > sb ? sa : sb;
    __int128 most = 0, least = 0; /* of t = index in a - index in b */
    if (sa == stride) {
        most = a->axes[--na].n - 1;
    }
    if (sb == stride) {
        least = -(b->axes[--nb].n - 1);
    }
    /* Rows meet only where d - width(a row) < t * stride < d + width(b row). */
    __int128 from = floor_div(d - width(a, na), stride) + 1;
    __int128 to = -floor_div(-(d + width(b, nb)), stride) - 1;
    from = from < least ? least : from;
    to = to > most ? most : to;
    for (__int128 t = from; t <= to; t++) {
        if (meet(a, na, b, nb, d - t * stride, budget)) {
            return true;
        }
    }
    return false;
}

/* Parts of one array that a constraint keeps apart: two triangles. */
static bool
are_apart_by_constraint(const struct fy_view *a, const struct fy_view *b)
{
    if (a->sign == 0 || a->sign != b->sign || a->host != b->host ||
        a->element_bytes != b->element_bytes || a->naxes != 2 ||
        b->naxes != 2) {
        return false;
    }
    for (int k = 0; k < 2; k++) {
        if (a->stride[k] != b->stride[k]) {
            return false;
        }
    }
    if (a->hi >= b->lo && b->hi >= a->lo) {
        return false;
    }
    /* Over both boxes together an element must have one pair of indices. */
    struct fy_view both = *a;
    for (int k = 0; k < 2; k++) {
        if (b->extent[k] > both.extent[k]) {
            both.extent[k] = b->extent[k];
        }
    }
    return fy_view_is_injective(&both);
}

bool
fy_views_overlap(const struct fy_view *a, const struct fy_view *b)
{
    struct strided sa, sb;
    unsigned budget = 4096;
    if (!flatten(a, &sa) || !flatten(b, &sb)) {
        return false;
    }
    if (!meet(&sa, sa.naxes, &sb, sb.naxes, sb.first - sa.first, &budget)) {
        return false;
    }
    return !are_apart_by_constraint(a, b);
}

bool
fy_view_is_injective(const struct fy_view *view)
{
    __int128 stride[FY_MAX_OPERAND_AXES], n[FY_MAX_OPERAND_AXES];
    int count = 0;
    for (int k = 0; k < view->naxes; k++) {
        if (view->extent[k] <= 0) {
            return true;
        }
        if (view->extent[k] == 1) {
            continue;
        }
        __int128 s =
            view->stride[k] < 0 ? -(__int128)view->stride[k] : view->stride[k];
        int at = count++;
        for (; at > 0 && stride[at - 1] > s; at--) {
            stride[at] = stride[at - 1];
            n[at] = n[at - 1];
        }
        stride[at] = s;
        n[at] = view->extent[k];
    }
    __int128 reach = 1; /* elements that the axes so far span */
    for (int k = 0; k < count; k++) {
        if (stride[k] < reach) {
            return false;
        }
        reach += (n[k] - 1) * stride[k];
    }
    return true;
}
