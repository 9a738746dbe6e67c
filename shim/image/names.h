/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the object that `ferry run' preloads: libferry.so with the annotated
 * names, their thunks and the whole model in it. Tool side; no compiler and no
 * linker is needed, and nothing of it runs in a host program.
 */
#ifndef FERRY_SHIM_IMAGE_NAMES_H
#define FERRY_SHIM_IMAGE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "annotations/model/model.h"
#include "common/buffer.h"
#include "common/status.h"

struct fy_preload_summary {
    unsigned names;      /* exported, one thunk each */
    unsigned skipped;    /* names that libferry.so itself uses or defines */
    unsigned predicates; /* thunks with a compiled `worth' */
    unsigned uncompiled; /* `worth' too complex: the engine is always asked */
    uint64_t bytes;      /* size of the file */
};

/*
 * Computes the last eight bytes that a made object of that model must have
 * after its first `bytes', so that a damaged cache is noticed. Guards against
 * accidents only. Reads a block at a time, because an object has megabytes and
 * is read at every start. 0, FY_ERR_IO (also: the file is shorter) or
 * FY_ERR_NOMEM.
 */
int fy_preload_sum(int file, uint64_t bytes, uint64_t *out) FY_MUST_CHECK;

/*
 * Writes `out_path' (under a temporary name beside it, then renamed, so that
 * no process ever sees half of it) from the libferry.so at `libferry_path' and
 * a validated model. The same inputs give the same bytes. `summary' may be
 * NULL. On failure nothing is left behind, `why' (may be NULL) has a clause for
 * a message, and the result is FY_ERR_IO (errno says why), FY_ERR_INVALID (not
 * a libferry.so of this version), FY_ERR_OVERFLOW (too many names) or
 * FY_ERR_NOMEM. One thread at a time per out_path.
 */
int fy_preload_build(const char *libferry_path, const struct fy_model *model,
                     const char *out_path, struct fy_preload_summary *summary,
                     struct fy_buffer *why) FY_MUST_CHECK;

#endif
