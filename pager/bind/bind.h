/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding: from the registers of one intercepted call, and its annotation, to
 * numbers: argument values, cells, axis extents, and a view of every operand
 * with its access conditions applied. Reads the host's memory only where the
 * annotation names scalars (by-reference arguments and struct fields); touches
 * no operand. No lock, no allocation; safe from any thread.
 */
#ifndef FERRY_PAGER_BIND_BIND_H
#define FERRY_PAGER_BIND_BIND_H

#include <stdbool.h>
#include <stdint.h>

#include "annotations/model/eval.h"
#include "annotations/model/model.h"
#include "common/status.h"
#include "pager/engine/engine.h"
#include "pager/execute/schedule.h"

/* An argument or scalar, in the bytes of its C type (little-endian). */
union fy_raw {
    uint64_t u[2];
    int64_t i;
    int32_t i32;
    float f[4];
    double d[2];
    void *p;
    unsigned char bytes[16];
};

/* One call: what it was given and what its annotation makes of that. */
struct fy_bound {
    const struct fy_model *model;
    const struct fy_function *function; /* the variant that holds */
    uint32_t function_index;            /* its row of model->functions */
    uint8_t integer_bits;               /* of FY_T_INTEGER: 32 or 64 */
    union fy_raw args[FY_MAX_ARGS];     /* as passed */
    struct fy_value cells[FY_MAX_CELLS];
    int64_t extents[FY_MAX_AXES];
    uint32_t axis_cell[FY_MAX_AXES]; /* cell that is the extent, or FY_NIL */
    struct fy_view views[FY_MAX_OPERANDS]; /* naxes 0: not accessed */
    double flops;                          /* 0 when the annotation is silent */
};

/*
 * Cells of the call that made a handle. Returns its function's row, or FY_NIL
 * when the handle is unknown; copies at most FY_MAX_CELLS values.
 */
typedef uint32_t fy_handle_lookup(uint64_t handle,
                                  struct fy_value cells[FY_MAX_CELLS]);

/*
 * Binds the first variant from row `function' on whose handles and `require's
 * agree. FY_REASON_NONE on success; else why the original must run:
 * BAD_ARGUMENTS, EMPTY, UNSUPPORTED, OVERFLOW, UNMAPPED (a null scalar or
 * operand), UNKNOWN_HANDLE, INTEGER_WIDTH (integer_bits is 0 and matters).
 * `handles' may be NULL. Does not look at overlap or mappings: see
 * fy_bound_check_memory().
 */
enum fy_reason fy_bind(const struct fy_model *model, uint32_t function,
                       unsigned integer_bits,
                       const struct fy_registers *registers,
                       fy_handle_lookup *handles, struct fy_bound *out);

/*
 * The same, from argument values as the function would be passed them:
 * args[i] holds the i-th in the bytes of its C type.
 */
enum fy_reason fy_bind_args(const struct fy_model *model, uint32_t function,
                            unsigned integer_bits,
                            const union fy_raw args[FY_MAX_ARGS],
                            fy_handle_lookup *handles, struct fy_bound *out);

/*
 * Cells of a call, for observed makes: like fy_bind() without `require's,
 * axes and operands. `careful': the original may not look at all that arguments point
 * at, "n" of a plan without dimensions. FY_REASON_NONE, or UNMAPPED / INTEGER_WIDTH.
 */
enum fy_reason fy_bind_cells(const struct fy_model *model, uint32_t function,
                             unsigned integer_bits,
                             const struct fy_registers *registers, bool careful,
                             struct fy_value cells[FY_MAX_CELLS]);

/*
 * The views of a call whose cells and extents are known: `when', strides,
 * constraint, access, all overflow-checked. Used for chunks, too; a base cell
 * may then hold any address, also 0 when `allow_null'.
 */
enum fy_reason fy_bind_views(const struct fy_scope *scope,
                             unsigned integer_bits, bool allow_null,
                             struct fy_view views[FY_MAX_OPERANDS]);

/* Every written view against every other, and mappings of all of them. */
enum fy_reason fy_bound_check_memory(const struct fy_bound *bound);

/* Whether some argument or cell of the function is an FY_T_INTEGER. */
bool fy_function_uses_integer(const struct fy_model *model, uint32_t function);

/* An argument's scalar type: what it points at when passed by reference. */
enum fy_type fy_arg_scalar_type(const struct fy_arg *arg);
/* The type it is passed as, FY_T_INTEGER already resolved. */
enum fy_type fy_arg_passed_type(const struct fy_arg *arg, unsigned bits);
/* FY_T_INTEGER as FY_T_I32 or FY_T_I64; other types as they are. */
enum fy_type fy_type_resolve(enum fy_type type, unsigned integer_bits);

/* The value of fy_type_bytes() bytes of a resolved scalar type. */
struct fy_value fy_raw_value(enum fy_type type, const void *bytes);
/* Writes fy_type_bytes() bytes of a resolved scalar type; a real or integer type gets
 * the real part of a complex value. */
void fy_raw_store(enum fy_type type, const struct fy_value *value, void *bytes);

#endif
