/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop nests: the matrices of a call, and the walk over macro-blocks that makes
 * steps of them or traces.
 */
#include "config.h"

#include "pager/blocked/nest.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_GATHERED = 512
};

/* Macro-blocks that are computed together, step by step. */
struct gathered {
    uint32_t macros[MAX_GATHERED][2]; /* first block row and column */
    unsigned count;
    double elements;      /* of them on the device */
    unsigned char *lines; /* by macro-block: its rows of op(A) are needed */
    double line_elements;
};

struct walk {
    struct fy_algo *algo;
    struct fy_nest nest;
    const struct fy_nest_body *body;
    struct fy_nest_place place;
    char column;         /* the variable beside i */
    bool square;         /* i and j: the lower triangle */
    bool adds;           /* there is a sum; else a result is scaled only */
    uint32_t high, wide; /* blocks of a macro-block */
    struct gathered all;
};

static uint32_t
least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t
count_of(const struct walk *walk, char variable)
{
    return walk->algo->cuts[fy_nest_dimension(variable)].count;
}

static int64_t
extent(const struct fy_algo *algo, char letter)
{
    return letter == 'm' ? algo->m : letter == 'n' ? algo->n : algo->k;
}

int
fy_nest_setup(struct fy_algo *algo)
{
    const char *extents = algo->row->extents, *shape = algo->row->shapes;
    const bool right = algo->side == 'R';

    if (algo->transa == 'C' && !algo->is_complex) {
        algo->transa = 'T';
    }
    for (unsigned d = 0; extents[d]; d++) {
        const bool swapped = right && d < 2;
        algo->extent[d] = extent(algo, extents[swapped ? 1 - d : d]);
    }
    while (*shape) {
        const char letter = *shape;
        const bool turnable = fy_nest_is_turnable(algo, letter);
        struct fy_matrix *matrix = &algo->matrices[letter - 'A'];
        shape += turnable ? 2 : 1;
        const unsigned row = fy_nest_dimension(shape[0]);
        const unsigned col = fy_nest_dimension(shape[1]);
        const bool swap = right != (turnable && algo->transa != 'N');
        matrix->row_cuts = (uint8_t)(swap ? col : row);
        matrix->col_cuts = (uint8_t)(swap ? row : col);
        matrix->rows = algo->extent[matrix->row_cuts];
        matrix->cols = algo->extent[matrix->col_cuts];
        if (row == col) {
            matrix->triangle = algo->uplo;
            matrix->strict = algo->diag == 'U';
        }
        shape += 2;
        shape += strspn(shape, " ");
    }
    return algo->declared.head.tiles ? fy_tiles_setup(algo) : FY_OK;
}

bool
fy_nest_holds(const char *when, const uint32_t *at)
{
    for (; when[0] && when[1]; when += 2) {
        const uint32_t a = at[(unsigned char)when[0]];
        const uint32_t b = at[(unsigned char)when[2]];
        const bool good = when[1] == '='   ? a == b
                          : when[1] == '<' ? a < b
                          : when[1] == '>' ? a > b
                                           : a != b;
        if (!good) {
            return false;
        }
    }
    return true;
}

/* A block := beta times itself: on a triangle's diagonal by the call's own function. */
static int
scale(struct walk *walk)
{
    struct fy_algo *algo = walk->algo;
    const struct fy_nest_call *some = &walk->body->calls[0];
    const char *letter = algo->row->signature;
    struct fy_nest_call call = {.factor = 'a', .noperands = 3};
    const struct fy_nest_operand to = {
        .matrix = some->operands[some->noperands - 1u].matrix,
        .row = 'i',
        .col = walk->column};
    const bool diagonal =
        walk->square && walk->place.at['i'] == walk->place.at['j'];

    if (diagonal) {
        call.noperands = 0;
        for (; *letter; letter++) {
            call.noperands += *letter >= 'A' && *letter <= 'C' ? 1 : 0;
        }
    }
    while (!diagonal && !strchr(algo->routines[call.routine].signature, 'T')) {
        if (++call.routine == FY_MAX_ROUTINES) { /* without a gemm */
            return FY_ERR_UNSUPPORTED;
        }
    }
    call.operands[call.noperands - 1u] = to;
    return fy_nest_call(algo, &call, &walk->place, true);
}

/* The calls of a step on one block. */
static int
update(struct walk *walk, bool first)
{
    int status = FY_OK;

    if (!walk->adds) {
        return scale(walk);
    }
    for (unsigned i = 0; status == FY_OK && i < walk->body->ncalls; i++) {
        const struct fy_nest_call *call = &walk->body->calls[i];
        if (fy_nest_holds(call->when, walk->place.at)) {
            status = fy_nest_call(walk->algo, call, &walk->place, first);
            first = false;
        }
    }
    return status;
}

static int
update_macro(struct walk *walk, const uint32_t from[2], bool first)
{
    const uint32_t rows = least(from[0] + walk->high, count_of(walk, 'i'));
    const uint32_t cols =
        least(from[1] + walk->wide, count_of(walk, walk->column));
    uint32_t *i = &walk->place.at['i'];
    uint32_t *j = &walk->place.at[(unsigned char)walk->column];
    int status = FY_OK;

    for (*i = from[0]; status == FY_OK && *i < rows; ++*i) {
        const uint32_t end = walk->square ? least(cols, *i + 1) : cols;
        for (*j = from[1]; status == FY_OK && *j < end; ++*j) {
            status = update(walk, first);
        }
    }
    return status;
}

/* Steps [from, to) on all that is gathered, one by one. */
static int
compute_steps(struct walk *walk, uint32_t from, uint32_t to)
{
    const struct gathered *all = &walk->all;
    const bool back = walk->nest.any && walk->algo->flip;
    int status = FY_OK;

    for (uint32_t s = from; status == FY_OK && s < to; s++) {
        walk->place.at[(unsigned char)walk->nest.step] = back ? to - 1 - s : s;
        for (unsigned m = 0; status == FY_OK && m < all->count; m++) {
            status = update_macro(walk, all->macros[m], s == 0);
        }
    }
    return status;
}

/* The steps [from, to) of the rows of one macro-block, row by row. */
static int
compute_own(struct walk *walk, uint32_t from, uint32_t to)
{
    uint32_t at[2] = {from, walk->all.macros[0][1]};
    const uint32_t high = walk->high;
    int status = FY_OK;

    walk->high = 1;
    for (; status == FY_OK && at[0] < to; at[0]++) {
        for (uint32_t s = from; status == FY_OK && s < to; s++) {
            walk->place.at[(unsigned char)walk->nest.step] = s;
            status = update_macro(walk, at, s == 0);
        }
    }
    walk->high = high;
    return status;
}

/* All steps on what is gathered. */
static int
compute(struct walk *walk)
{
    struct fy_algo *algo = walk->algo;
    struct gathered *all = &walk->all;
    const uint32_t steps = walk->adds ? count_of(walk, walk->nest.step) : 1;
    const bool own = walk->adds && !walk->nest.any;
    const uint32_t from = own ? all->macros[0][0] : steps;
    const uint32_t to = own ? least(from + walk->high, steps) : steps;
    int status = compute_steps(walk, 0, from);

    if (status == FY_OK) {
        status = compute_own(walk, from, to);
    }
    if (status == FY_OK) {
        status = compute_steps(walk, to, steps);
    }
    algo->flip = !algo->flip;
    all->count = 0;
    all->elements = all->line_elements = 0;
    memset(all->lines, 0, count_of(walk, 'i'));
    return status;
}

/* Elements of the macro-block of rows i, columns j (block indices) on the device. */
static double
macro_elements(const struct walk *walk, uint32_t i, uint32_t j)
{
    const struct fy_cuts *cuts = &walk->algo->cuts[0];
    const uint32_t i_end = least(i + walk->high, cuts->count);
    const uint32_t j_end = least(j + walk->wide, cuts->count);
    double elements = 0;

    for (uint32_t r = i; r < i_end; r++) {
        elements += (double)fy_cuts_length(cuts, r) *
                    (double)(cuts->start[least(j_end, r + 1)] - cuts->start[j]);
    }
    return elements;
}

/* Whether what is gathered fits no more beside that and `lines' rows of operands: a
 * panel and a part of the next one must. */
static bool
is_full(const struct walk *walk, double more, double lines)
{
    const struct fy_algo *algo = walk->algo;
    const struct gathered *all = &walk->all;
    const struct fy_cuts *deep = &algo->cuts[2];
    const double depth = deep->count > 0 ? (double)fy_cuts_longest(deep) : 0;
    const double operands = strchr(algo->row->signature, 'B') ? 2 : 1;

    if (algo->planner->options.random) {
        return all->count >= algo->macro_cols;
    }
    return all->count == MAX_GATHERED ||
           all->elements + more +
                   (all->line_elements + lines) * operands * depth * 1.25 >
               algo->room;
}

/* Rows of operands that a macro-block needs beside those of the gathered ones. */
static double
more_lines(const struct walk *walk, const uint32_t at[2])
{
    const struct fy_cuts *cuts = &walk->algo->cuts[0];
    double lines = 0;

    for (unsigned side = 0; side < (at[0] == at[1] ? 1 : 2); side++) {
        const uint32_t end = least(at[side] + walk->high, cuts->count);
        if (!walk->all.lines[at[side]]) {
            lines += (double)(cuts->start[end] - cuts->start[at[side]]);
        }
    }
    return lines;
}

/* Adds a macro-block, after computing what is gathered when it would be too much. */
static int
gather(struct walk *walk, uint32_t i, uint32_t j)
{
    const bool gathers = walk->algo->row->gathers;
    const uint32_t at[2] = {i, j};
    struct gathered *all = &walk->all;

    if (gathers) {
        const double more = macro_elements(walk, i, j);
        if (all->count > 0 && is_full(walk, more, more_lines(walk, at))) {
            int status = compute(walk);
            if (status) {
                return status;
            }
        }
        all->elements += more;
        all->line_elements += more_lines(walk, at);
        all->lines[i] = all->lines[j] = 1;
    }
    memcpy(all->macros[all->count++], at, sizeof(at));
    return gathers ? FY_OK : compute(walk);
}

/* A body for the macro-blocks of block `outer'. */
static int
sweep(struct walk *walk, uint32_t outer, bool forward)
{
    const bool by_rows = walk->nest.outer == 'i';
    const uint32_t size = by_rows ? walk->wide : walk->high;
    const uint32_t all = count_of(walk, walk->nest.inner);
    const uint32_t from = walk->square && !by_rows ? outer : 0;
    const uint32_t to = walk->square && by_rows ? outer + 1 : all;
    const uint32_t turns = (to - from + size - 1) / size;
    int status = FY_OK;

    for (uint32_t s = 0; status == FY_OK && s < turns; s++) {
        const uint32_t at = from + (forward ? s : turns - 1 - s) * size;
        status = by_rows ? gather(walk, outer, at) : gather(walk, at, outer);
    }
    return status;
}

/* A macro-block of right hand sides has as many blocks as one of the triangle. */
static void
set_sizes(struct walk *walk)
{
    const struct fy_algo *algo = walk->algo;
    const uint32_t rows = algo->macro_rows, cols = algo->macro_cols;
    const uint32_t size = algo->row->gathers ? rows : least(rows, cols);
    const uint32_t blocks = count_of(walk, 'i');

    walk->high = walk->wide = size;
    if (fy_nest_dimension(walk->column) == 1) {
        walk->high = rows;
        walk->wide = cols;
    } else if (!walk->square) {
        walk->wide = least(size, count_of(walk, walk->column));
        walk->high = size / walk->wide >= blocks
                         ? blocks
                         : least(size / walk->wide * size, blocks);
    }
}

static int
run(struct walk *walk)
{
    const struct fy_algo *algo = walk->algo;
    const struct fy_nest *nest = &walk->nest;
    const bool by_rows = nest->outer == 'i';
    const bool upper =
        fy_nest_is_turnable(algo, 'A') && algo->matrices[0].triangle &&
        ((algo->uplo == 'L') == (algo->transa == 'N')) != (algo->side == 'L');
    bool forward = true;
    int status = FY_OK;

    if (count_of(walk, nest->outer) == 0) {
        return FY_OK;
    }
    walk->column = nest->outer;
    if (by_rows) {
        walk->column = nest->inner;
    }
    walk->square = walk->column == 'j';
    walk->adds = algo->matrices[0].access ||
                 (count_of(walk, nest->step) > 0 &&
                  (algo->alpha[0] != 0 || algo->alpha[1] != 0));
    set_sizes(walk);
    for (uint32_t o = 0; status == FY_OK && o < count_of(walk, nest->outer);
         o += by_rows ? walk->high : walk->wide) {
        for (unsigned b = 0; status == FY_OK && b < nest->nbodies; b++) {
            walk->body = &nest->bodies[b];
            walk->place.reversed = upper != walk->body->down;
            status = sweep(walk, o, forward);
        }
        forward = !nest->any || !forward;
    }
    return status == FY_OK && walk->all.count > 0 ? compute(walk) : status;
}

/* The routine of a call's name, which takes as many matrices. */
static bool
find_routine(const struct fy_algo *algo, struct fy_nest_call *call)
{
    const struct fy_algo_row *row = algo->row;
    unsigned matrices = 0;

    call->routine = FY_SELF;
    for (uint8_t i = 0; i + 1 < FY_MAX_ROUTINES && row->using[i]; i++) {
        if (strcmp(row->using[i], call -> name) == 0) {
            call->routine = (uint8_t)(i + 1);
        }
    }
    if (call->routine == FY_SELF && strcmp(call->name, "self") != 0 &&
        strcmp(call->name, row->name) != 0) {
        return false;
    }
    const char *letter = algo->routines[call->routine].signature;
    for (; *letter; letter++) {
        matrices += *letter >= 'A' && *letter <= 'C' ? 1 : 0;
    }
    return matrices == call->noperands;
}

static bool
find_routines(const struct fy_algo *algo, struct fy_nest *nest)
{
    for (unsigned b = 0; b < nest->nbodies; b++) {
        for (unsigned c = 0; c < nest->bodies[b].ncalls; c++) {
            if (!find_routine(algo, &nest->bodies[b].calls[c])) {
                return false;
            }
        }
    }
    return true;
}

int
fy_nest_run(struct fy_algo *algo, const char *text)
{
    struct walk *walk = calloc(1, sizeof(*walk) + algo->cuts[0].count);
    struct fy_nest_reader reader = {.at = text};
    int status = walk ? FY_OK : FY_ERR_NOMEM;

    if (walk) {
        walk->algo = algo;
        walk->all.lines = (unsigned char *)(walk + 1);
    }
    while (status == FY_OK && fy_nest_more(&reader)) {
        if (!fy_nest_read(&reader, &walk->nest) ||
            !find_routines(algo, &walk->nest)) {
            status = FY_ERR_UNSUPPORTED;
        } else {
            status = walk->nest.inner ? run(walk)
                                      : fy_nest_panels(algo, &walk->nest);
        }
    }
    free(walk);
    return status;
}
