/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognising a call that a blocked algorithm can make: its arguments by
 * position and its matrices.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include "pager/blocked/fft.h"
#include "pager/plan/device_call.h"

#include <ctype.h>
#include <string.h>

static const struct fy_algo_row *const tables[] = {
    fy_algo_panels,
    fy_algo_inverse,
};

static const struct fy_algo_row *
find_algorithm(const char *name)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const struct fy_algo_row *row = tables[t]; row->name; row++) {
            if (strcmp(row->name, name) == 0) {
                return row;
            }
        }
    }
    return NULL;
}

static char
c_letter(char kind, int64_t code)
{
    switch (kind) {
    case 's':
        return code == 141 ? 'L' : 'R';
    case 'u':
        return code == 121 ? 'U' : 'L';
    case 'd':
        return code == 131 ? 'N' : 'U';
    default:
        return (char)(code == 111 ? 'N' : code == 112 ? 'T' : 'C');
    }
}

/* The i-th argument's scalar, through its reference if it has one. */
static int
scalar(const struct fy_bound *bound, unsigned i, struct fy_value *out)
{
    const struct fy_arg *arg =
        &FY_TABLE(bound->model, fy_arg, args)[bound->function->args + i];
    enum fy_type type =
        fy_type_resolve(fy_arg_scalar_type(arg), bound->integer_bits);
    const void *bytes = &bound->args[i];

    if (arg->flags & FY_ARG_REFERENCE) {
        bytes = bound->args[i].p;
        if (!bytes) {
            return FY_ERR_UNSUPPORTED;
        }
    }
    *out = fy_raw_value(type, bytes);
    return FY_OK;
}

static void
take_factor(const struct fy_value *value, double out[2])
{
    out[0] = value->kind == FY_V_INT ? (double)value->i : value->r;
    out[1] = value->kind == FY_V_COMPLEX ? value->im : 0;
}

static int
take_argument(struct fy_algo *algo, char letter, unsigned i)
{
    const struct fy_bound *bound = algo->planner->bound;
    struct fy_value value;
    char code;

    switch (letter) {
    case 'A':
    case 'B':
    case 'C':
        algo->matrices[letter - 'A'].host = bound->args[i].p;
        return FY_OK;
    case 'i':
        algo->planner->info_pointer = bound->args[i].p;
        return FY_OK;
    case 'w':
    case 'W':
        return FY_OK; /* see fy_plan_store_sizes() */
    default:
        break;
    }
    int status = scalar(bound, i, &value);
    if (status) {
        return status;
    }
    switch (letter) {
    case 's':
    case 'u':
    case 't':
    case 'd':
        if (value.kind != FY_V_INT) {
            return FY_ERR_UNSUPPORTED;
        }
        code = (char)(algo->c_interface && !algo->lapacke
                          ? c_letter(letter, value.i)
                          : toupper((int)(value.i & 0x7f)));
        *(letter == 's'   ? &algo->side
          : letter == 'u' ? &algo->uplo
          : letter == 't' ? &algo->transa
                          : &algo->diag) = code;
        return FY_OK;
    case 'm':
        algo->m = value.i;
        return FY_OK;
    case 'n':
        algo->n = value.i;
        return FY_OK;
    case 'k':
        algo->k = value.i;
        return FY_OK;
    case 'a':
        take_factor(&value, algo->alpha);
        return FY_OK;
    case 'b':
        take_factor(&value, algo->beta);
        return FY_OK;
    case '1':
    case '2':
    case '3':
        algo->matrices[letter - '1'].ld = value.i;
        return FY_OK;
    default:
        return FY_ERR_UNSUPPORTED;
    }
}

/* Returns true if the call has an argument for each letter; LAPACKE's have
 * no info, and may have no workspace. */
static bool
has_letters(const struct fy_algo *algo, unsigned nargs)
{
    const char *signature = algo->row->signature;

    if (nargs > strlen(signature)) {
        return false;
    }
    const char *rest = signature + nargs;
    return *rest == '\0' || (algo->lapacke && (strcmp(rest, "i") == 0 ||
                                               strcmp(rest, "wWi") == 0));
}

/* Reads the call by its signature, and which interface it belongs to. */
static int
take_arguments(struct fy_algo *algo)
{
    const struct fy_bound *bound = algo->planner->bound;
    const char *signature = algo->row->signature;
    unsigned first = 0, nargs = bound->function->nargs;

    algo->c_interface = !(bound->function->flags & FY_FN_FORTRAN);
    algo->lapacke =
        strcmp(fy_model_string(bound->model, bound->function->family),
               "lapacke") == 0;
    if (algo->c_interface) {
        struct fy_value order;
        first = 1;
        if (nargs < 1 || scalar(bound, 0, &order)) {
            return FY_ERR_UNSUPPORTED;
        }
        algo->row_major = order.i == 101 && !algo->lapacke;
        algo->turned = order.i == 101 && algo->lapacke;
    }
    if (!has_letters(algo, nargs - first)) {
        return FY_ERR_UNSUPPORTED;
    }
    for (unsigned i = 0; i < nargs - first; i++) {
        int status = take_argument(algo, signature[i], first + i);
        if (status) {
            return status;
        }
    }
    algo->c_interface = algo->c_interface && !algo->lapacke;
    return FY_OK;
}

/* Which argument of the call has the signature's first letter. */
static unsigned
first_argument(const struct fy_algo *algo)
{
    return algo->c_interface || algo->lapacke ? 1 : 0;
}

/* Returns the annotation's view of the matrix in argument `arg'. */
static const struct fy_view *
annotated_view(const struct fy_bound *bound, unsigned arg)
{
    const struct fy_operand *operands =
        FY_TABLE(bound->model, fy_operand, operands) +
        bound->function->operands;
    const struct fy_cell *cells =
        FY_TABLE(bound->model, fy_cell, cells) + bound->function->cells;

    for (unsigned o = 0; o < bound->function->noperands; o++) {
        const struct fy_cell *base = &cells[operands[o].base];
        if (base->arg == arg && base->kind == FY_CELL_VALUE) {
            return &bound->views[o];
        }
    }
    return NULL;
}

/*
 * The algorithm knows its operands by itself; it may only be used when the
 * annotation says the same: accesses, address and number of elements.
 */
static int
check_views(struct fy_algo *algo)
{
    const struct fy_bound *bound = algo->planner->bound;
    const char *signature = algo->row->signature;

    for (unsigned i = 0; signature[i]; i++) {
        if (signature[i] < 'A' || signature[i] > 'C') {
            continue;
        }
        struct fy_matrix *matrix = &algo->matrices[signature[i] - 'A'];
        struct fy_view ours;
        const struct fy_view *theirs =
            annotated_view(bound, i + first_argument(algo));
        if (!theirs) {
            return FY_ERR_UNSUPPORTED;
        }
        matrix->access = theirs->naxes ? theirs->access : 0;
        if (matrix->rows <= 0 || matrix->cols <= 0) {
            matrix->access = 0;
        }
        fy_algo_view(algo, matrix, &ours);
        if ((theirs->naxes != 0) != (ours.naxes != 0) ||
            (theirs->naxes != 0 &&
             (theirs->host != ours.host ||
              theirs->element_bytes != ours.element_bytes ||
              fy_view_all_elements(theirs) != fy_view_all_elements(&ours)))) {
            return FY_ERR_UNSUPPORTED;
        }
        /* A vendor's pivots are ints, whatever the caller's are. */
        matrix->narrow =
            fy_plan_on_device(algo->planner) && matrix->element_bytes == 8;
    }
    return FY_OK;
}

/* Recognises the call: its algorithm, arguments, matrices and extents. */
static int
begin(struct fy_algo *algo, struct fy_planner *planner)
{
    const struct fy_bound *bound = planner->bound;
    const char *name =
        fy_model_string(bound->model, bound->function->blocked_by);
    const struct fy_operand *operands =
        FY_TABLE(bound->model, fy_operand, operands) +
        bound->function->operands;

    *algo = (struct fy_algo){.planner = planner, .row = find_algorithm(name)};
    int status = algo->row                            ? FY_OK
                 : bound->function->blocked_nest != 0 ? fy_nest_declared(algo)
                                                      : FY_ERR_UNSUPPORTED;
    if (status) {
        return status;
    }
    for (unsigned i = 0; i < bound->function->noperands; i++) {
        if (operands[i].element == FY_T_C32 ||
            operands[i].element == FY_T_C64) {
            algo->is_complex = true;
        }
        if (i == 0) { /* A, in every annotation */
            algo->element = operands[i].element;
            algo->element_bytes =
                fy_type_bytes((enum fy_type)algo->element, bound->integer_bits);
        }
    }
    algo->hermitian = algo->is_complex && algo->row->hermitian;
    status = take_arguments(algo);
    if (status == FY_OK) {
        status = algo->row->setup(algo);
    }
    return status;
}

double
fy_blocked_bound(const struct fy_bound *bound, double elements)
{
    struct fy_planner planner = {.bound = bound};
    struct fy_algo algo;

    return begin(&algo, &planner) ? 0 : algo.row->bound(&algo, elements);
}

void
fy_plan_diagonal(struct fy_planner *planner)
{
    const struct fy_bound *bound = planner->bound;
    const struct fy_function *function = bound->function;
    const struct fy_view *a = &bound->views[0];
    const struct fy_algo_row *row =
        find_algorithm(fy_model_string(bound->model, function->blocked_by));
    struct fy_nest_reader reader = {
        .at = fy_model_string(bound->model, function->blocked_nest)};
    struct fy_nest_head head;
    int kind = row ? (int)row->diagonal : FY_DIAGONAL_ANY;

    if (function->blocked_nest != 0 && fy_nest_read_head(&reader, &head)) {
        kind = head.leaves == FY_NEST_REGULAR  ? FY_DIAGONAL_REGULAR
               : head.leaves == FY_NEST_FINITE ? FY_RESULT_FINITE
                                               : FY_DIAGONAL_ANY;
    }
    if (kind == FY_DIAGONAL_ANY || a->naxes != 2) {
        return;
    }
    if (kind == FY_RESULT_FINITE) {
        planner->wants_finite = true;
        return;
    }
    planner->diagonal = (struct fy_diagonal){
        .host = a->host,
        .count = a->extent[0] < a->extent[1] ? a->extent[0] : a->extent[1],
        .stride_bytes = (a->stride[0] + a->stride[1]) * a->element_bytes,
        .element =
            FY_TABLE(bound->model, fy_operand, operands)[function->operands]
                .element,
        .zeros = kind == FY_DIAGONAL_FINITE,
    };
}

int
fy_plan_blocked(struct fy_planner *planner)
{
    const struct fy_bound *bound = planner->bound;
    struct fy_algo algo;

    if (strcmp(fy_model_string(bound->model, bound->function->blocked_by),
               "fft") == 0) {
        return fy_plan_fft(planner);
    }
    int status = begin(&algo, planner);

    if (status == FY_OK) {
        status = check_views(&algo);
    }
    if (status == FY_OK) {
        status = fy_algo_find_routines(&algo);
    }
    if (status == FY_OK && algo.declared.head.divides &&
        !fy_algo_is_regular(&algo)) {
        status = FY_ERR_UNSUPPORTED;
    }
    algo.room = (double)planner->options.budget_bytes / algo.element_bytes;
    if (status == FY_OK && algo.row->prepare) {
        status = algo.row->prepare(&algo);
    }
    if (status == FY_OK) {
        status = planner->options.random ? fy_algo_random(&algo)
                 : algo.row->sizes       ? algo.row->sizes->search(&algo)
                                         : fy_algo_search(&algo);
    }
    if (status == FY_OK && algo.matrices[1].element_bytes) {
        planner->pivots = algo.matrices[1].host;
        planner->narrow_pivots = algo.matrices[1].narrow;
        planner->pivot_panels = algo.cuts[FY_PANEL_FACTORS];
        algo.cuts[FY_PANEL_FACTORS] = (struct fy_cuts){0, NULL};
    }
    for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
        fy_cuts_free(&algo.cuts[d]);
    }
    return status;
}
