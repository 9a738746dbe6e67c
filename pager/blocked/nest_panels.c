/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over panels (annotations/model/nest.h), left-looking: as many panels at a time
 * on the device as fit beside the finished ones, which stream past and are applied to
 * them.
 */
#include "config.h"

#include "pager/blocked/nest.h"

#include <string.h>

struct part {
    struct fy_block block;
    int64_t rows, cols;
    bool adjoint;
};

/* Complex right hand sides of a transposed call lie transposed: see panels.c. */
static bool
lies_across(const struct fy_algo *algo, char matrix)
{
    return matrix == 'C' && algo->matrices[2].flipped;
}

static struct part
find(const struct fy_algo *algo, const struct fy_nest_operand *operand,
     const uint32_t *at)
{
    const uint32_t k = at['k'];
    const struct fy_cuts *columns = &algo->cuts[FY_PANEL_COLUMNS];
    const bool sides = operand->matrix == 'C';
    struct part part = {{operand->matrix, k, 0, 0},
                        fy_algo_length(algo, FY_PANEL_FACTORS, k),
                        1,
                        operand->adjoint};
    int64_t begin = columns->start[k], end = columns->start[k + 1];

    if (operand->matrix == 'B') {
        return part;
    }
    if (operand->rows == 'v') {
        begin = end;
    }
    if (operand->rows == 'v' || operand->rows == '>') {
        end = algo->m;
    } else if (operand->rows == '^') {
        end = begin;
        begin = 0;
    }
    const uint32_t panel = at[(unsigned char)operand->col];
    part.rows = end - begin;
    part.cols =
        fy_algo_length(algo, sides ? FY_PANEL_SIDES : FY_PANEL_COLUMNS, panel);
    part.block = (struct fy_block){operand->matrix, 0, panel, begin};
    if (lies_across(algo, operand->matrix)) {
        part.block =
            (struct fy_block){operand->matrix, panel, 0, begin * part.cols};
    }
    return part;
}

/*
 * B^T gets the other adjoint from the right: (P^T B)^T = B^T P, (conj(P) B)^T = B^T P^H;
 * and is divided by conj(R) for R, and by R^T for the adjoint.
 */
static void
turn(bool product, struct fy_block blocks[3], struct fy_block_call *call)
{
    const char other = (char)(call->transa == 'N' ? 'C' : 'N');
    const int64_t rows = call->m;

    call->m = call->n;
    call->n = rows;
    if (!product) {
        call->side = 'R';
        call->transa = other;
        return;
    }
    const struct fy_block first = blocks[0];
    blocks[0] = blocks[1];
    blocks[1] = first;
    call->transb = other;
    call->transa = 'N';
}

static void
set_factors(const struct fy_nest_call *nest, struct fy_block_call *call)
{
    if (nest->factor != '0') {
        memcpy(call->alpha, nest->factor == '-' ? fy_minus_one : fy_one,
               sizeof(call->alpha));
    }
    if (!nest->operands[2].fresh && nest->noperands == 3) {
        memcpy(call->beta, fy_one, sizeof(call->beta));
    }
}

/* One call: its operands are the routine's, in their order. */
static int
make_call(struct fy_algo *algo, const struct fy_nest_call *nest,
          const uint32_t *at)
{
    const char *signature = algo->routines[nest->routine].signature;
    const bool product = strchr(signature, 'T') != NULL;
    const bool solve = strchr(signature, 'd') != NULL;
    const bool sided = strchr(signature, 's') != NULL;
    const unsigned to = strchr(signature, 'C') ? 2 : solve ? 1 : 0;
    struct part parts[3] = {{{0}, 0, 0, false}};
    struct fy_block blocks[3] = {{0}};
    struct fy_block_call call;

    memset(&call, 0, sizeof(call));
    for (unsigned i = 0; i < nest->noperands; i++) {
        parts[i] = find(algo, &nest->operands[i], at);
        blocks[i] = parts[i].block;
        call.access[i] = FY_ACCESS_IN;
    }
    call.access[to] = FY_ACCESS_INOUT;
    /* ormqr sets an element of each reflector to 1 for the time of the call. */
    if (sided && !solve) {
        call.access[0] |= FY_ACCESS_RESTORED;
    }
    if (strncmp(signature, "mnA", 3) == 0) { /* a factorisation's pivots */
        call.access[1] = FY_ACCESS_OUT;
    }
    call.routine = nest->routine;
    call.m = strchr(signature, 'm') ? parts[to].rows : 0;
    call.n = parts[to].cols;
    if (product) {
        call.k = parts[0].adjoint ? parts[0].rows : parts[0].cols;
        call.transb = 'N';
    } else if (strpbrk(signature, "kl")) {
        call.k = parts[1].rows;
    }
    if (product && (call.m == 0 || call.k == 0)) {
        return FY_OK;
    }
    if (sided) {
        call.side = 'L';
    }
    if (product || sided) {
        const char adjoint = (char)(algo->is_complex ? 'C' : 'T');
        call.transa = (char)(parts[0].adjoint ? adjoint : 'N');
    }
    if (solve) {
        const bool unit = nest->operands[0].triangle == '1';
        call.uplo = (char)(unit ? 'L' : 'U');
        call.diag = (char)(unit ? 'U' : 'N');
    }
    if (product || solve) {
        set_factors(nest, &call);
    }
    if (lies_across(algo, nest->operands[to].matrix)) {
        turn(product, blocks, &call);
    }
    return fy_algo_call(algo, &call, blocks);
}

/* A step on panels [a, b). */
static int
step(struct fy_algo *algo, const struct fy_nest_body *body, char column,
     uint32_t a, uint32_t b, uint32_t *at)
{
    uint32_t *panel = &at[(unsigned char)column];
    int status = FY_OK;

    for (*panel = a; status == FY_OK && *panel < b; ++*panel) {
        for (unsigned c = 0; status == FY_OK && c < body->ncalls; c++) {
            if (fy_nest_holds(body->calls[c].when, at)) {
                status = make_call(algo, &body->calls[c], at);
            }
        }
    }
    return status;
}

int
fy_nest_panels(struct fy_algo *algo, const struct fy_nest *nest)
{
    const uint32_t panels =
        algo->cuts[nest->outer == 's' ? FY_PANEL_SIDES : FY_PANEL_COLUMNS]
            .count;
    const uint32_t steps = algo->cuts[FY_PANEL_FACTORS].count;
    const uint32_t size = nest->each ? 1 : algo->macro_cols;
    uint32_t at[FY_NEST_VARIABLES] = {0};
    int status = FY_OK;

    at['e'] = steps - 1;
    for (uint32_t a = 0; status == FY_OK && a < panels; a += size) {
        const uint32_t b = panels - a < size ? panels : a + size;
        for (unsigned i = 0; status == FY_OK && i < nest->nbodies; i++) {
            const struct fy_nest_body *body = &nest->bodies[i];
            for (uint32_t k = 0; status == FY_OK && k < steps; k++) {
                at['k'] = body->down ? steps - 1 - k : k;
                status = step(algo, body, nest->outer, a, b, at);
            }
        }
    }
    return status;
}
