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
    /* of them, the one closest in device memory first */
    uint8_t order[FY_MAX_OPERAND_AXES];
    int64_t
        chunk[FY_MAX_OPERAND_AXES]; /* extent of a whole piece, by `order' */
    int64_t count[FY_MAX_OPERAND_AXES]; /* pieces along it */
    uint64_t npieces;                   /* some may turn out empty */
};

/* One piece, and its transfer, for which the slot holds it without gaps. */
struct cuda_piece {
    struct fy_copy
        packing; /* host <-> slot, whose address it takes as device */
    bool whole;  /* it declares every element of its box */
    struct fy_copy transfer; /* slot <-> device */
};

/* `most_bytes' is at least an element. The copy is borrowed. */
void cuda_pieces_init(struct cuda_pieces *pieces, const struct fy_copy *copy,
                      uint64_t most_bytes);

/* Piece `index', to lie at `slot'. False: it has no element. */
bool cuda_piece_at(const struct cuda_pieces *pieces, uint64_t index, void *slot,
                   struct cuda_piece *out);

/*
 * The whole copy as one transfer of host memory, for memory that the device
 * can reach. False: it is a triangle, in different orders on the two sides, or
 * in runs too short to be worth it.
 */
bool cuda_copy_direct(const struct fy_copy *copy, struct fy_copy *transfer);

/*
 * A transfer has positive strides, ascending on both sides, and no constraint. Where
 * its first axis is a run of bytes on both sides, 1, else 0; and the bytes of a run.
 */
int cuda_run_axes(const struct fy_copy *transfer);
uint64_t cuda_run_bytes(const struct fy_copy *transfer);
/* Bytes of host memory from its first to behind its last. */
uint64_t cuda_transfer_span(const struct fy_copy *transfer);

/* Zeroes the bytes of the piece's rectangle in the slot that it does not
 * declare. */
void cuda_piece_blank(const struct cuda_piece *piece);

#endif
