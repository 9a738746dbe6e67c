/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes CUDA C from `map' statements: one kernel for the maps of one call, or
 * of several calls whose operands are known to be the same buffers; a value
 * that a later map reads of an earlier one stays in a register, and is stored
 * only where it is needed. Host code: no device is asked, and nothing is
 * launched.
 */
#ifndef FERRY_PAGER_KERNEL_SOURCE_H
#define FERRY_PAGER_KERNEL_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "annotations/model/model.h"
#include "common/status.h"

enum {
    FY_KERNEL_AXES = 4,
    FY_KERNEL_BUFFERS = 24,
    FY_KERNEL_PARAMS = 96, /* no more than FY_MAX_SLOTS */
    FY_NO_BUFFER = 255 /* the operand is not accessed in this call: reads 0 */
};

#define FY_KERNEL_ENTRY "ferry_map"

/* The maps of one call, and which buffer each operand of the call is. */
struct fy_map_part {
    const struct fy_model *model;
    const struct fy_function *function;
    const struct fy_call_row *row; /* kind FY_CALL_MAP */
    uint8_t integer_bits;          /* of FY_T_INTEGER */
    uint8_t buffer[FY_MAX_OPERANDS];
};

/* Memory of one element type; no two of them overlap. */
struct fy_kernel_buffer {
    uint8_t type; /* enum fy_type, resolved */
    bool store;   /* written ones: false keeps the values in registers */
};

enum fy_param_kind {
    FY_PARAM_EXTENT, /* long long: extent of axis `axis' */
    FY_PARAM_BUFFER, /* address of element (0, 0, ...) of `buffer' */
    FY_PARAM_STRIDE, /* long long: stride of `buffer' along `axis', elements */
    FY_PARAM_SCALAR  /* value of `node' in the scope of part `part' as `type' */
};

struct fy_kernel_param {
    uint8_t kind; /* enum fy_param_kind */
    uint8_t type; /* as passed: I64, POINTER, or the scalar's */
    uint8_t buffer, axis, part;
    uint32_t node;
};

struct fy_kernel_text {
    char *text; /* malloc; "extern "C" __global__ void ferry_map(...)" */
    bool fmad;  /* products may be fused with sums: nothing is `exact' */
    unsigned nparams;
    struct fy_kernel_param params[FY_KERNEL_PARAMS];
};

/*
 * The kernel that runs the parts in order at every index of `naxes' axes (1 to
 * FY_KERNEL_AXES). Its loops stride by the grid: any extents fit any grid.
 * Returns new text. FY_ERR_UNSUPPORTED: a type or a number of parameters that
 * no kernel takes; FY_ERR_NOMEM.
 */
int fy_kernel_generate(const struct fy_map_part *parts, unsigned nparts,
                       const struct fy_kernel_buffer *buffers,
                       unsigned nbuffers, unsigned naxes,
                       struct fy_kernel_text *out) FY_MUST_CHECK;

/* The index space of a launch, and how each buffer lies in it (stride 0: it
 * does not span the axis). */
struct fy_kernel_shape {
    unsigned naxes, nbuffers;
    int64_t extent[FY_KERNEL_AXES];
    int64_t stride[FY_KERNEL_BUFFERS][FY_KERNEL_AXES];
};

/*
 * Leaves out axes of extent 1, puts the one with the smallest strides first and
 * joins axes that every buffer runs through in one go: before generate().
 */
void fy_kernel_simplify(struct fy_kernel_shape *shape);
/* Grid and block (x, y, z each) for such a launch. */
void fy_kernel_grid(const struct fy_kernel_shape *shape, uint32_t grid[3],
                    uint32_t block[3]);

#endif
