/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a strided copy into pieces that fit a page-locked slot, in an order of
 * axes that suits the device, and says how each lies in the slot: as dense as
 * it can, in the order of device memory. Pure arithmetic: any thread.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_PIECES_H
#define FERRY_PAGER_DEVICE_CUDA_PIECES_H

#include "pager/device/device.h"

struct cuda_pieces {
    const struct fy_copy *copy;
    int naxes; /* with more than one element */
    int order
        [FY_COPY_AXES]; /* of them, the one closest in device memory first */
    int64_t chunk[FY_COPY_AXES]; /* extent of a whole piece, by `order' */
    int64_t count[FY_COPY_AXES]; /* pieces along it */
    uint64_t npieces;            /* some may turn out empty */
};

/* Runs of bytes at equal places of host (or slot) and device memory. */
struct cuda_rect {
    char *host;      /* its lowest byte */
    uint64_t device; /* likewise */
    uint64_t run_bytes;
    int naxes; /* of runs: */
    int64_t n[FY_COPY_AXES];
    uint64_t host_pitch[FY_COPY_AXES], device_pitch[FY_COPY_AXES]; /* bytes */
};

/* One piece: a rectangle whose slot holds it without gaps. */
struct cuda_piece {
    struct fy_copy
        packing;           /* host <-> slot, whose address it takes as device */
    bool whole;            /* it declares every element of the rectangle */
    struct cuda_rect rect; /* slot <-> device */
};

/* `most_bytes' is at least an element. The copy is borrowed. */
void cuda_pieces_init(struct cuda_pieces *pieces, const struct fy_copy *copy,
                      uint64_t most_bytes);

/* Piece `index', to lie at `slot'. False: it has no element. */
bool cuda_piece_at(const struct cuda_pieces *pieces, uint64_t index, void *slot,
                   struct cuda_piece *out);

/*
 * The whole copy as one rectangle of host memory, for memory that the device
 * can reach. False: it is a triangle, in different orders on the two sides, or
 * in runs too short to be worth it.
 */
bool cuda_rect_direct(const struct fy_copy *copy, struct cuda_rect *out);

/* Zeroes what the piece does not declare of its rectangle in the slot. */
void cuda_piece_blank(const struct cuda_piece *piece);

#endif
