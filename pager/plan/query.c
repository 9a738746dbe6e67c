/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call must leave behind when the original does not run. LAPACK returns the
 * best size of a workspace in its first element; the original tells that number when
 * asked by its own query (-1 for the size). Operands with NaN or Inf go to the
 * original, whose info then stands.
 */
#include "config.h"

#include "pager/plan/build.h"

#include <stdlib.h>
#include <string.h>

#include "pager/base/libm.h"
#include "pager/device/call.h"

/* ---- queries ---- */

enum {
    QUERY_BYTES = 64 /* of each workspace in a query: one element, and some */
};

struct query {
    const struct fy_bound *bound;
    union fy_raw args[FY_MAX_ARGS];
    /* Memory that arguments point to instead of the caller's own. */
    _Alignas(16) unsigned char memory[FY_MAX_ARGS][QUERY_BYTES];
};

/* Where an argument finds -1. */
static int
set_size(struct query *query, const struct fy_operand *operand)
{
    const struct fy_bound *bound = query->bound;
    const struct fy_model *model = bound->model;
    const struct fy_axis *axis = &FY_TABLE(
        model, fy_axis, axes)[bound->function->axes + operand->axes[0].axis];
    const struct fy_node *node = &FY_TABLE(model, fy_node, nodes)[axis->extent];

    if (node->op != FY_OP_CELL) {
        return FY_ERR_UNSUPPORTED;
    }
    const struct fy_cell *cell =
        &FY_TABLE(model, fy_cell, cells)[bound->function->cells + node->a];
    const struct fy_value minus_one = {.kind = FY_V_INT, .i = -1};
    enum fy_type type =
        fy_type_resolve((enum fy_type)cell->type, bound->integer_bits);
    if (cell->kind == FY_CELL_VALUE) {
        fy_raw_store(type, &minus_one, &query->args[cell->arg]);
        return FY_OK;
    }
    if (cell->kind != FY_CELL_REFERENCE) {
        return FY_ERR_UNSUPPORTED;
    }
    fy_raw_store(type, &minus_one, query->memory[cell->arg]);
    query->args[cell->arg].p = query->memory[cell->arg];
    return FY_OK;
}

/* The argument that an operand is. */
static int
argument_of(const struct fy_bound *bound, const struct fy_operand *operand,
            unsigned *out)
{
    const struct fy_cell *cell = &FY_OF(bound, fy_cell, cells)[operand->base];

    if (cell->kind != FY_CELL_VALUE) {
        return FY_ERR_UNSUPPORTED;
    }
    *out = cell->arg;
    return FY_OK;
}

/* Calls the original; its status, where it tells one, must be 0. */
static int
ask(struct query *query, void *original, int info)
{
    const struct fy_bound *bound = query->bound;
    const struct fy_function *function = bound->function;
    const struct fy_arg *rows = FY_OF(bound, fy_arg, args);
    uint8_t types[FY_MAX_SLOTS];
    void *values[FY_MAX_SLOTS];
    union fy_raw one = {.u = {1}};
    uint64_t result[2] = {0, 0};
    struct fy_cif *cifs = NULL;
    struct fy_call *call;
    uint16_t n = 0;

    for (unsigned i = 0; i < function->nargs; i++) {
        types[n] = (uint8_t)fy_arg_passed_type(&rows[i], bound->integer_bits);
        values[n++] = &query->args[i];
    }
    for (unsigned i = 0; i < function->nargs; i++) {
        if (rows[i].flags & FY_ARG_HIDDEN_LENGTH) {
            types[n] = FY_T_U64;
            values[n++] = &one;
        }
    }
    const struct fy_launch launch = {
        .function = original,
        .return_type = (uint8_t)fy_type_resolve(
            (enum fy_type)function->return_type, bound->integer_bits),
        .nargs = n,
        .types = types,
        .values = values,
        .result = result,
    };
    int status = fy_call_new(&cifs, &launch, &call);
    if (status == FY_OK) {
        fy_call_run(call);
        free(call);
    }
    fy_cifs_free(cifs);
    if (status == FY_OK) {
        int32_t said = (int32_t)result[0];
        if (info >= 0) {
            memcpy(&said, query->memory[info], sizeof(said));
        }
        status = said == 0 ? FY_OK : FY_ERR_UNSUPPORTED;
    }
    return status;
}

int
fy_plan_query(struct fy_planner *planner)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_operand *operands = FY_OF(bound, fy_operand, operands);
    unsigned asked[FY_MAX_ANSWERS];
    struct query *query;
    int status = FY_OK, info = -1;
    unsigned arg;

    planner->nanswers = 0;
    query = calloc(1, sizeof(*query));
    if (!query) {
        return FY_ERR_NOMEM;
    }
    query->bound = bound;
    memcpy(query->args, bound->args, sizeof(query->args));
    for (unsigned o = 0; status == FY_OK && o < bound->function->noperands;
         o++) {
        const struct fy_view *view = &bound->views[o];
        const bool is_info =
            operands[o].element == FY_T_INTEGER &&
            operands[o].access == FY_ACCESS_OUT &&
            strcmp(fy_model_string(bound->model, operands[o].name), "info") ==
                0;
        if (is_info && argument_of(bound, &operands[o], &arg) == FY_OK) {
            query->args[arg].p = query->memory[arg];
            info = (int)arg;
        }
        if (!(operands[o].flags & FY_OPERAND_QUERY) || view->naxes == 0) {
            continue;
        }
        status = planner->nanswers == FY_MAX_ANSWERS || view->element_bytes > 16
                     ? FY_ERR_UNSUPPORTED
                     : argument_of(bound, &operands[o], &arg);
        if (status == FY_OK) {
            status = set_size(query, &operands[o]);
        }
        if (status == FY_OK) {
            query->args[arg].p = query->memory[arg];
            asked[planner->nanswers] = arg;
            planner->answers[planner->nanswers++] = (struct fy_answer){
                .host = view->host, .bytes = view->element_bytes};
        }
    }
    if (status == FY_OK && planner->nanswers > 0) {
        status = ask(query, planner->target->original, info);
    }
    for (unsigned i = 0; i < planner->nanswers; i++) {
        memcpy(planner->answers[i].content, query->memory[asked[i]],
               planner->answers[i].bytes);
    }
    free(query);
    return status;
}

/* ---- NaNs and infinities ---- */

/* n numbers `stride' apart; floats when `bytes' is 4. */
static bool
is_run_finite(const char *at, int64_t n, int64_t stride_bytes, unsigned parts,
              unsigned bytes)
{
    uint64_t bad = 0;

    for (int64_t i = 0; i < n; i++, at += stride_bytes) {
        for (unsigned part = 0; part < parts; part++) {
            if (bytes == 4) {
                uint32_t bits;
                memcpy(&bits, at + (size_t)4 * part, 4);
                bad |= (bits & UINT32_C(0x7f800000)) == UINT32_C(0x7f800000);
            } else {
                uint64_t bits;
                memcpy(&bits, at + (size_t)8 * part, 8);
                bad |= (bits & UINT64_C(0x7ff0000000000000)) ==
                       UINT64_C(0x7ff0000000000000);
            }
        }
    }
    return bad == 0;
}

/* Along its shorter stride, row by row, and nothing that is not declared. */
bool
fy_view_is_finite(const struct fy_view *view, enum fy_type element)
{
    const bool is_complex = element == FY_T_C32 || element == FY_T_C64;
    const unsigned parts = is_complex ? 2 : 1;
    const unsigned bytes = view->element_bytes / parts;
    const int inner =
        view->naxes == 2 && llabs(view->stride[1]) < llabs(view->stride[0]);
    const int64_t size = view->element_bytes;
    int64_t start, rows = fy_view_rows(view, inner, &start);

    for (int64_t j = start; j < start + rows; j++) {
        int64_t first, n = fy_view_row(view, inner, j, &first);
        int64_t at = first * view->stride[inner];
        if (view->naxes == 2) {
            at += j * view->stride[1 - inner];
        }
        if (!is_run_finite(view->host + at * size, n,
                           view->stride[inner] * size, parts, bytes)) {
            return false;
        }
    }
    return true;
}

/* The part of an operand that must be finite: all that is read, or a triangle
 * of it. */
static int
wanted(const struct fy_bound *bound, unsigned o, struct fy_view *out)
{
    const struct fy_operand *operand = &FY_OF(bound, fy_operand, operands)[o];
    const struct fy_scope scope = {bound->model, bound->function, bound->cells,
                                   bound->extents};

    *out = bound->views[o];
    if (operand->finite_lo == FY_NIL || out->sign != 0) {
        return FY_OK;
    }
    int status = fy_eval_int(&scope, operand->finite_lo, &out->lo);
    if (status == FY_OK) {
        status = fy_eval_int(&scope, operand->finite_hi, &out->hi);
    }
    out->sign = -1;
    return status;
}

bool
fy_bound_has_finite_factors(const struct fy_bound *bound)
{
    for (unsigned c = 0; c < bound->function->ncells; c++) {
        const struct fy_value *value = &bound->cells[c];
        if ((value->kind == FY_V_REAL || value->kind == FY_V_COMPLEX) &&
            !isfinite(value->r)) {
            return false;
        }
        if (value->kind == FY_V_COMPLEX && !isfinite(value->im)) {
            return false;
        }
    }
    return true;
}

bool
fy_bound_is_finite(const struct fy_bound *bound)
{
    const struct fy_operand *operands = FY_OF(bound, fy_operand, operands);

    for (unsigned o = 0; o < bound->function->noperands; o++) {
        struct fy_view view;
        if (!(operands[o].flags & FY_OPERAND_FINITE) ||
            bound->views[o].naxes == 0 ||
            !(bound->views[o].access & FY_ACCESS_IN)) {
            continue;
        }
        if (bound->views[o].naxes > 2 || wanted(bound, o, &view) ||
            !fy_view_is_finite(&view, (enum fy_type)operands[o].element)) {
            return false;
        }
    }
    return true;
}

bool
fy_view_is_in_range(const struct fy_view *view, enum fy_type element, double lo,
                    double hi)
{
    double most = 0;

    for (int64_t j = 0; j < (view->naxes > 1 ? view->extent[1] : 1); j++) {
        for (int64_t i = 0; i < view->extent[0]; i++) {
            int64_t at = i * view->stride[0];
            at += view->naxes > 1 ? j * view->stride[1] : 0;
            const struct fy_value value = fy_raw_value(
                element, view->host + at * (int64_t)view->element_bytes);
            const double size = value.kind == FY_V_COMPLEX
                                    ? hypot(value.r, value.im)
                                    : fabs(value.r);
            if (!(size <= hi)) {
                return false;
            }
            most = size > most ? size : most;
        }
    }
    return most >= lo;
}
