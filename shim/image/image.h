/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The anchor of the preloaded object: the linker fills its first part, the
 * generator (build.c) the second, so that generated code, tables and compiled
 * code of one file find each other without a relocation. Every offset counts
 * bytes from the start of the anchor itself.
 */
#ifndef FERRY_SHIM_IMAGE_IMAGE_H
#define FERRY_SHIM_IMAGE_IMAGE_H

#include <stdint.h>

#define FY_IMAGE_MAGIC  "ferryIMG"
#define FY_IMAGE_SYMBOL "ferry_image" /* its exported name */

struct fy_image {
    char magic[8];
    uint32_t version;
    /* by the linker */
    int32_t mode;   /* byte: enum fy_mode */
    int32_t miss;   /* code: the thunk's cache does not know the caller */
    int32_t other;  /* code: the mode asks for no predicate */
    int32_t accept; /* code: the predicate says yes */
    /* by the generator; all 0 in the file the linker made */
    int32_t model; /* struct fy_model */
    int32_t info;  /* struct fy_thunk_info, one per symbol */
    int32_t slots; /* struct fy_binding *, one per symbol; zeroed memory */
    int32_t pool;  /* struct fy_binding *, one per stub; zeroed memory */
    int32_t stubs; /* code: FY_STUB_BYTES each */
    int32_t bloom; /* uint64_t[nbloom], the filter of the exported names */
    uint32_t nsymbols, nstubs, nbloom;
    int32_t code_low, code_high; /* thunks and stubs */
    uint32_t bloom_shift;
};

/* Per row of model->symbols. */
struct fy_thunk_info {
    int32_t thunk;        /* meaning of the exported name; 0: not exported */
    int32_t bound;        /* entry with the binding in hand, rax pushed */
    uint16_t stack_words; /* of the arguments, hidden lengths included */
    uint16_t has_predicate;
};

#define FY_STUB_BYTES 16

#endif
