/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of a loop nest on the blocks of one place: which ones, which of them are
 * transposed, and what that makes of the call (annotations/model/nest.h).
 */
#include "config.h"

#include "pager/blocked/nest.h"

#include <string.h>

bool
fy_nest_is_turnable(const struct fy_algo *algo, char matrix)
{
    const char *shape = matrix ? strchr(algo->row->shapes, matrix) : NULL;

    return shape && shape[1] == '\'';
}

static uint32_t
block_number(const struct fy_algo *algo, const struct fy_nest_place *place,
             char variable)
{
    const unsigned d = fy_nest_dimension(variable);
    const uint32_t at = place->at[(unsigned char)variable];

    if (variable == 0) {
        return 0;
    }
    return d == 0 && place->reversed ? algo->cuts[d].count - 1 - at : at;
}

struct found {
    struct fy_block block;
    int64_t rows, cols; /* of the block, as far as it is used */
    bool turned;        /* the operand is the block's adjoint */
};

/* The triangle of a matrix that is stored, or 0. */
static char
triangle_of(const struct fy_algo *algo, char matrix)
{
    const char *shape = strchr(algo->row->shapes, matrix);
    const bool square =
        shape && fy_nest_dimension(shape[1]) == fy_nest_dimension(shape[2]);

    return (char)(square ? algo->uplo : 0);
}

static void
turn(struct found *found)
{
    const uint32_t row = found->block.row;

    found->block.row = found->block.col;
    found->block.col = row;
    found->turned = !found->turned;
}

static struct found
find(const struct fy_algo *algo, const struct fy_nest_operand *operand,
     const struct fy_nest_place *place)
{
    struct found found = {{0}, 0, 0, false};

    if (!operand->matrix) {
        return found;
    }
    const struct fy_matrix *matrix = &algo->matrices[operand->matrix - 'A'];
    const int64_t part =
        fy_algo_length(algo, 0, block_number(algo, place, 'k'));
    const bool right = algo->side == 'R';
    const uint32_t row = block_number(algo, place, operand->row);
    const uint32_t col = block_number(algo, place, operand->col);

    found.block = (struct fy_block){operand->matrix, right ? col : row,
                                    right ? row : col, 0};
    found.turned = operand->adjoint;
    if (fy_nest_is_turnable(algo, operand->matrix)) {
        if (algo->transa != 'N') {
            turn(&found);
        }
    } else {
        const char triangle = triangle_of(algo, operand->matrix);
        if ((triangle == 'L' && found.block.row < found.block.col) ||
            (triangle == 'U' && found.block.row >= found.block.col)) {
            turn(&found);
        }
    }
    found.rows = operand->row
                     ? fy_algo_length(algo, matrix->row_cuts, found.block.row)
                     : part;
    found.cols = operand->col
                     ? fy_algo_length(algo, matrix->col_cuts, found.block.col)
                     : part;
    return found;
}

/* Returns true if the block lies in the rows of the block on a diagonal. */
static bool
is_beside(const struct fy_algo *algo, const struct fy_block *block,
          const struct fy_block *diagonal)
{
    return diagonal->matrix &&
           algo->matrices[block->matrix - 'A'].row_cuts ==
               algo->matrices[diagonal->matrix - 'A'].row_cuts &&
           block->row == diagonal->row;
}

static char
trans(const struct fy_algo *algo, const struct found *found)
{
    if (!found->turned) {
        return 'N';
    }
    return (char)(fy_nest_is_turnable(algo, found->block.matrix) &&
                          algo->transa != 'N'
                      ? algo->transa
                      : fy_algo_adjoint(algo));
}

/* The statement's own adjoint, and what it is from the right: factors change places. */
static void
mirror(const struct fy_algo *algo, bool product, bool adjoint,
       struct found found[3])
{
    if (adjoint) {
        found[0].turned = !found[0].turned;
        found[1].turned = product != found[1].turned;
    }
    if (product && adjoint != (algo->side == 'R')) {
        const struct found first = found[0];
        found[0] = found[1];
        found[1] = first;
    }
}

static void
set_factors(const struct fy_algo *algo, const struct fy_nest_call *call,
            bool adjoint, bool first, struct fy_block_call *out)
{
    const char *own = algo->row->signature;
    static const double nothing[2] = {0, 0};
    const double *before = fy_one;
    double *scale = out->alpha;

    memcpy(out->alpha, call->factor == '-' ? fy_minus_one : fy_one,
           sizeof(out->alpha));
    if (call->factor == 'a' || call->factor == 'c') {
        memcpy(out->alpha, algo->alpha, sizeof(out->alpha));
        if (algo->hermitian && adjoint != (call->factor == 'c')) {
            out->alpha[1] = -out->alpha[1];
        }
    }
    if (call->operands[call->noperands - 1u].fresh) {
        before = nothing;
    } else if (first) {
        before = strchr(own, 'b')   ? algo->beta
                 : strchr(own, 'a') ? algo->alpha
                                    : fy_one;
    }
    /* What has no beta works in place. */
    if (strchr(algo->routines[call->routine].signature, 'b')) {
        scale = out->beta;
    } else if (call->factor != '+') {
        return;
    }
    memcpy(scale, before, sizeof(out->beta));
}

/* The routine's matrix arguments by position: which of its letters they are. */
static void
set_accesses(const struct fy_algo *algo, const struct fy_block blocks[3],
             bool first, struct fy_block_call *out)
{
    const char *letter = algo->routines[out->routine].signature;
    unsigned last = 0, n = 0;

    for (; *letter; letter++) {
        if (*letter < 'A' || *letter > 'C') {
            continue;
        }
        last = (unsigned)(*letter - 'A');
        out->access[last] = blocks[n++].matrix ? FY_ACCESS_IN : 0;
    }
    out->access[last] = first
                            ? algo->matrices[blocks[n - 1].matrix - 'A'].access
                            : FY_ACCESS_INOUT;
}

int
fy_nest_call(struct fy_algo *algo, const struct fy_nest_call *call,
             const struct fy_nest_place *place, bool first)
{
    const char *signature = algo->routines[call->routine].signature;
    const bool product = strchr(signature, 'T') != NULL;
    struct found found[3] = {{{0}, 0, 0, false}};
    struct fy_block blocks[3] = {{0}};
    struct fy_block_call out;

    for (unsigned i = 0; i < call->noperands; i++) {
        found[i] = find(algo, &call->operands[i], place);
    }
    const struct found to = found[call->noperands - 1u];
    const bool adjoint = to.turned && (product || to.block.row != to.block.col);
    mirror(algo, product, adjoint, found);
    for (unsigned i = 0; i < call->noperands; i++) {
        blocks[i] = found[i].block;
    }
    memset(&out, 0, sizeof(out));
    out.routine = call->routine;
    out.uplo = algo->uplo;
    out.diag = (char)(algo->diag ? algo->diag : 'N');
    out.side = (char)(is_beside(algo, &to.block, &blocks[0]) ? 'L' : 'R');
    out.transa = trans(algo, &found[0]);
    out.transb = trans(algo, &found[1]);
    out.m = to.rows;
    out.n = to.cols;
    if (blocks[0].matrix && strchr(signature, 'k')) {
        out.k = found[0].turned ? found[0].rows : found[0].cols;
    }
    set_factors(algo, call, adjoint, first, &out);
    set_accesses(algo, blocks, first, &out);
    return fy_algo_call(algo, &out, blocks);
}
