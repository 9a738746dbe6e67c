/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all blocked algorithms share: reading the call's arguments by position,
 * finding the functions they use, the choice of block sizes and supers, and
 * block calls to variants and steps.
 */
#include "config.h"

#define HASH_NONFATAL_OOM         1
#define uthash_nonfatal_oom(elem) ((elem)->failed = true)

#include "pager/algo.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

const double fy_one[2] = {1, 0}, fy_minus_one[2] = {-1, 0};

struct known_call {
    struct {
        struct fy_block_call call;
        struct {
            int64_t rows, cols;
            char matrix;
        } shape[3];
    } key;
    uint32_t variant;
    bool failed;
    UT_hash_handle hh;
};

static const struct fy_algo_row *const tables[] = {
    fy_algo_rank_k,   fy_algo_rank_2k,  fy_algo_symmetric,
    fy_algo_triangle, fy_algo_cholesky,
};

static const struct fy_algo_row *
find_algorithm(const char *name)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const struct fy_algo_row *row = tables[t]; row->name; row++) {
            if (strcmp(row->name, name) == 0)
                return row;
        }
    }
    return NULL;
}

static const char *
signature_of(const char *routine)
{
    static const char *const rows[][2] = {
        {"gemm", "tTmnkaA1B2bC3"}, {"symm", "sumnaA1B2bC3"},
        {"hemm", "sumnaA1B2bC3"},  {"syrk", "utnkaA1bC3"},
        {"herk", "utnkaA1bC3"},    {"syr2k", "utnkaA1B2bC3"},
        {"her2k", "utnkaA1B2bC3"}, {"trmm", "sutdmnaA1B2"},
        {"trsm", "sutdmnaA1B2"},   {"potrf", "unA1i"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i][0], routine) == 0)
            return rows[i][1];
    }
    return NULL;
}

char
fy_algo_adjoint(const struct fy_algo *algo)
{
    return algo->hermitian ? 'C' : 'T';
}

int64_t
fy_algo_length(const struct fy_algo *algo, unsigned dimension, uint32_t i)
{
    return fy_cuts_length(&algo->cuts[dimension], i);
}

/* The C interface's code of a Fortran letter, by kind of argument. */
static int64_t
c_code(char kind, char letter)
{
    switch (kind) {
    case 's':
        return letter == 'L' ? 141 : 142;
    case 'u':
        return letter == 'U' ? 121 : 122;
    case 'd':
        return letter == 'N' ? 131 : 132;
    default:
        return letter == 'N' ? 111 : letter == 'T' ? 112 : 113;
    }
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
        return code == 111 ? 'N' : code == 112 ? 'T' : 'C';
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
        if (!bytes)
            return FY_ERR_UNSUPPORTED;
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
    default:
        break;
    }
    int status = scalar(bound, i, &value);
    if (status)
        return status;
    switch (letter) {
    case 's':
    case 'u':
    case 't':
    case 'd':
        if (value.kind != FY_V_INT)
            return FY_ERR_UNSUPPORTED;
        code = algo->c_interface ? c_letter(letter, value.i)
                                 : (char)toupper((int)(value.i & 0x7f));
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

/* Reads the call by its signature, and which interface it belongs to. */
static int
take_arguments(struct fy_algo *algo)
{
    const struct fy_bound *bound = algo->planner->bound;
    const char *signature = algo->row->signature;
    unsigned first = 0, nargs = bound->function->nargs;

    algo->c_interface = !(bound->function->flags & FY_FN_FORTRAN);
    if (algo->c_interface) {
        struct fy_value order;
        first = 1;
        if (nargs < 1 || scalar(bound, 0, &order))
            return FY_ERR_UNSUPPORTED;
        algo->row_major = order.i == 101;
    }
    if (strlen(signature) + first != nargs)
        return FY_ERR_UNSUPPORTED;
    for (unsigned i = 0; signature[i]; i++) {
        int status = take_argument(algo, signature[i], first + i);
        if (status)
            return status;
    }
    return FY_OK;
}

/* What the annotation says of the matrix in argument `arg'. */
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
        if (base->arg == arg && base->kind == FY_CELL_VALUE)
            return &bound->views[o];
    }
    return NULL;
}

static void
matrix_view(const struct fy_algo *algo, const struct fy_matrix *matrix,
            struct fy_view *view)
{
    *view = (struct fy_view){.lo = INT64_MIN, .hi = INT64_MAX};
    if (!matrix->access)
        return;
    view->host = matrix->host;
    view->element_bytes = algo->element_bytes;
    view->access = matrix->access;
    view->naxes = 2;
    view->extent[0] = matrix->rows;
    view->extent[1] = matrix->cols;
    view->stride[algo->row_major ? 1 : 0] = 1;
    view->stride[algo->row_major ? 0 : 1] = matrix->ld;
    if (matrix->triangle) {
        view->sign = -1;
        if (matrix->triangle == 'L')
            view->lo = matrix->strict ? 1 : 0;
        else
            view->hi = matrix->strict ? -1 : 0;
    }
}

/*
 * The algorithm knows its operands by itself; it may only be used when the
 * annotation says the same: accesses, address and number of elements.
 */
static int
check_views(struct fy_algo *algo, struct fy_view *views)
{
    const struct fy_bound *bound = algo->planner->bound;
    const char *signature = algo->row->signature;

    for (unsigned i = 0; signature[i]; i++) {
        if (signature[i] < 'A' || signature[i] > 'C')
            continue;
        unsigned which = (unsigned)(signature[i] - 'A');
        const struct fy_view *theirs =
            annotated_view(bound, i + (algo->c_interface ? 1 : 0));
        struct fy_matrix *matrix = &algo->matrices[which];
        if (!theirs)
            return FY_ERR_UNSUPPORTED;
        algo->element_bytes =
            theirs->element_bytes ? theirs->element_bytes : algo->element_bytes;
        matrix->access = theirs->naxes ? theirs->access : 0;
        if (matrix->rows <= 0 || matrix->cols <= 0)
            matrix->access = 0;
    }
    for (unsigned i = 0; signature[i]; i++) {
        if (signature[i] < 'A' || signature[i] > 'C')
            continue;
        unsigned which = (unsigned)(signature[i] - 'A');
        const struct fy_view *theirs =
            annotated_view(bound, i + (algo->c_interface ? 1 : 0));
        matrix_view(algo, &algo->matrices[which], &views[which]);
        if ((theirs->naxes != 0) != (views[which].naxes != 0))
            return FY_ERR_UNSUPPORTED;
        if (theirs->naxes != 0 &&
            (theirs->host != views[which].host ||
             theirs->element_bytes != views[which].element_bytes ||
             fy_view_all_elements(theirs) !=
                 fy_view_all_elements(&views[which])))
            return FY_ERR_UNSUPPORTED;
    }
    return FY_OK;
}

/* The address of another function of the model, in this call's spelling. */
static void *
resolve(const struct fy_algo *algo, uint32_t function)
{
    const struct fy_target *target = algo->planner->target;
    const struct fy_model *model = algo->planner->bound->model;
    const struct fy_symbol *symbols = FY_TABLE(model, fy_symbol, symbols);
    void *address = NULL;

    if (!target->sibling)
        return NULL;
    /* The same spelling first; then any of the same integer width. */
    for (unsigned round = 0; round < 2 && !address; round++) {
        for (uint32_t i = 0; i < model->symbols.count && !address; i++) {
            const struct fy_symbol *symbol = &symbols[i];
            bool same = target->symbol < model->symbols.count &&
                        symbol->spelling == symbols[target->symbol].spelling;
            if (symbol->function != function || same != (round == 0))
                continue;
            if (round == 1 && symbol->integer_bits != 0 &&
                symbol->integer_bits != target->integer_bits)
                continue;
            address = target->sibling(target->original,
                                      fy_model_string(model, symbol->name));
        }
    }
    return address;
}

/* The type letter and prefix of the `using' list: "d" or "cblas_d". */
static int
using_prefix(const struct fy_bound *bound, char *prefix, size_t room)
{
    const char *list =
        fy_model_string(bound->model, bound->function->blocked_using);

    for (; *list; list += strspn(list, " ")) {
        size_t length = strcspn(list, " ");
        if (length > 4 && length - 4 < room &&
            memcmp(list + length - 4, "gemm", 4) == 0) {
            memcpy(prefix, list, length - 4);
            prefix[length - 4] = '\0';
            return FY_OK;
        }
        list += length;
    }
    return FY_ERR_UNSUPPORTED;
}

static int
find_routine(struct fy_algo *algo, const char *routine, struct fy_routine *out)
{
    const struct fy_bound *bound = algo->planner->bound;
    const struct fy_model *model = bound->model;
    const struct fy_function *functions =
        FY_TABLE(model, fy_function, functions);
    char name[64], prefix[32];

    if (using_prefix(bound, prefix, sizeof(prefix)))
        return FY_ERR_UNSUPPORTED;
    snprintf(name, sizeof(name), "%s%s", prefix, routine);
    for (uint32_t f = 0; f < model->functions.count; f++) {
        if (functions[f].family != bound->function->family ||
            strcmp(fy_model_string(model, functions[f].name), name) != 0)
            continue;
        out->function = &functions[f];
        out->signature = signature_of(routine);
        out->address = resolve(algo, f);
        if (out->address && out->signature &&
            strlen(out->signature) + (algo->c_interface ? 1 : 0) ==
                functions[f].nargs)
            return FY_OK;
    }
    return FY_ERR_UNSUPPORTED;
}

static int
find_routines(struct fy_algo *algo)
{
    algo->routines[FY_SELF] = (struct fy_routine){
        .function = algo->planner->bound->function,
        .address = algo->planner->target->original,
        .signature = algo->row->signature,
    };
    algo->nroutines = 1;
    for (unsigned i = 0; i + 1 < FY_MAX_ROUTINES && algo->row->using[i]; i++) {
        const char *wanted = algo->row->using[i];
        if (algo->hermitian && strcmp(wanted, "syrk") == 0)
            wanted = "herk";
        int status =
            find_routine(algo, wanted, &algo->routines[algo->nroutines++]);
        if (status)
            return status;
    }
    return FY_OK;
}

/* Rows and columns of a block. */
static int64_t
block_rows(const struct fy_algo *algo, const struct fy_block *block)
{
    return fy_algo_length(algo, algo->matrices[block->matrix - 'A'].row_cuts,
                          block->row);
}

static int64_t
block_cols(const struct fy_algo *algo, const struct fy_block *block)
{
    return fy_algo_length(algo, algo->matrices[block->matrix - 'A'].col_cuts,
                          block->col);
}

static void
set_scalar(const struct fy_algo *algo, const struct fy_routine *routine,
           unsigned i, const struct fy_value *value, struct fy_slot *slot)
{
    const struct fy_bound *bound = algo->planner->bound;
    const struct fy_arg *arg =
        &FY_TABLE(bound->model, fy_arg, args)[routine->function->args + i];

    if (arg->flags & FY_ARG_REFERENCE)
        slot->kind = FY_SLOT_REFERENCE;
    fy_raw_store(fy_type_resolve(fy_arg_scalar_type(arg), bound->integer_bits),
                 value, &slot->value);
}

/* One argument of a block call. tile_of: by matrix argument, or -1. */
static int
set_argument(const struct fy_algo *algo, const struct fy_block_call *call,
             const struct known_call *known, const int *tile_of, unsigned i,
             char letter, struct fy_slot *slot)
{
    const struct fy_routine *routine = &algo->routines[call->routine];
    struct fy_value value = {.kind = FY_V_INT};
    char flag = 0;
    int which;

    switch (letter) {
    case 'A':
    case 'B':
    case 'C':
        which = tile_of[letter - 'A'];
        slot->value.u[0] = algo->planner->options.inactive_address;
        if (which >= 0) {
            slot->kind = FY_SLOT_TILE;
            slot->tile = (uint8_t)which;
        }
        return FY_OK;
    case 'i':
        slot->kind = FY_SLOT_INFO;
        return FY_OK;
    case '1':
    case '2':
    case '3':
        value.i = algo->row_major ? known->key.shape[letter - '1'].cols
                                  : known->key.shape[letter - '1'].rows;
        if (value.i < 1) /* no block: as large as the callee can ask for */
            value.i = call->m > call->n ? call->m : call->n;
        if (value.i < 1 || (value.i < call->k && tile_of[letter - '1'] < 0))
            value.i = call->k < 1 ? 1 : call->k;
        break;
    case 'm':
        value.i = call->m;
        break;
    case 'n':
        value.i = call->n;
        break;
    case 'k':
        value.i = call->k;
        break;
    case 'a':
    case 'b':
        value.kind = FY_V_COMPLEX;
        value.r = letter == 'a' ? call->alpha[0] : call->beta[0];
        value.im = letter == 'a' ? call->alpha[1] : call->beta[1];
        break;
    default:
        flag = letter == 's'   ? call->side
               : letter == 'u' ? call->uplo
               : letter == 't' ? call->transa
               : letter == 'T' ? call->transb
                               : call->diag;
        value.i = algo->c_interface ? c_code(letter, flag) : flag;
        break;
    }
    set_scalar(algo, routine, i, &value, slot);
    return FY_OK;
}

static void
set_tiles(const struct fy_algo *algo, const struct fy_block_call *call,
          const struct known_call *known, struct fy_variant *variant,
          int tile_of[3])
{
    for (unsigned b = 0; b < 3; b++) {
        struct fy_variant_tile *tile = &variant->tiles[variant->ntiles];
        int64_t rows = known->key.shape[b].rows;
        int64_t cols = known->key.shape[b].cols;
        tile_of[b] = -1;
        if (!known->key.shape[b].matrix)
            continue;
        tile->view = (uint16_t)(known->key.shape[b].matrix - 'A');
        tile->access = call->access[b];
        tile->naxes = 2;
        tile->n[0] = rows;
        tile->n[1] = cols;
        tile->device_stride[0] = algo->row_major ? cols : 1;
        tile->device_stride[1] = algo->row_major ? 1 : rows;
        tile_of[b] = variant->ntiles++;
    }
}

/* Letters of the routine's matrix arguments in order: "AC" for syrk. */
static void
matrix_letters(const char *signature, char letters[4])
{
    unsigned n = 0;
    for (; *signature && n < 3; signature++) {
        if (*signature >= 'A' && *signature <= 'C')
            letters[n++] = *signature;
    }
    letters[n] = '\0';
}

static int
make_variant(struct fy_algo *algo, const struct fy_block_call *call,
             const struct known_call *known, uint32_t *out)
{
    const struct fy_bound *bound = algo->planner->bound;
    const struct fy_routine *routine = &algo->routines[call->routine];
    const struct fy_arg *args =
        FY_TABLE(bound->model, fy_arg, args) + routine->function->args;
    struct fy_variant *variant = calloc(1, sizeof(*variant));
    unsigned first = algo->c_interface ? 1 : 0;
    int tile_of[3];

    if (!variant)
        return FY_ERR_NOMEM;
    variant->function = routine->address;
    variant->return_type = (uint8_t)fy_type_resolve(
        (enum fy_type)routine->function->return_type, bound->integer_bits);
    variant->nslots = routine->function->nargs;
    set_tiles(algo, call, known, variant, tile_of);
    for (unsigned i = 0; i < routine->function->nargs; i++) {
        struct fy_slot *slot = &variant->slots[i];
        slot->kind = FY_SLOT_VALUE;
        slot->type = (uint8_t)fy_arg_passed_type(&args[i], bound->integer_bits);
        if (i < first) {
            slot->value = bound->args[0]; /* the storage order */
            continue;
        }
        int status = set_argument(algo, call, known, tile_of, i,
                                  routine->signature[i - first], slot);
        if (status) {
            free(variant);
            return status;
        }
    }
    for (unsigned i = 0; i < routine->function->nargs; i++) {
        if (args[i].flags & FY_ARG_HIDDEN_LENGTH)
            variant->slots[variant->nslots++] = (struct fy_slot){
                .kind = FY_SLOT_VALUE, .type = FY_T_U64, .value.u = {1}};
    }
    if (strchr(routine->signature, 'i'))
        algo->planner->uses_info = true;
    return fy_planner_add_variant(algo->planner, variant, out);
}

int
fy_algo_call(struct fy_algo *algo, const struct fy_block_call *call,
             const struct fy_block blocks[3])
{
    struct known_call *calls = algo->calls, *found, probe;
    int64_t lo[3][FY_MAX_OPERAND_AXES] = {{0}};
    char letters[4];
    unsigned tiles = 0;

    memset(&probe, 0, sizeof(probe));
    memcpy(&probe.key.call, call, sizeof(*call));
    matrix_letters(algo->routines[call->routine].signature, letters);
    for (unsigned b = 0; letters[b]; b++) {
        const struct fy_block *block = &blocks[b];
        unsigned at = (unsigned)(letters[b] - 'A');
        if (!block->matrix)
            continue;
        const struct fy_matrix *matrix = &algo->matrices[block->matrix - 'A'];
        probe.key.shape[at].rows = block_rows(algo, block);
        probe.key.shape[at].cols = block_cols(algo, block);
        if (!matrix->access || !call->access[at])
            continue;
        probe.key.shape[at].matrix = block->matrix;
        lo[tiles][0] = algo->cuts[matrix->row_cuts].start[block->row];
        lo[tiles][1] = algo->cuts[matrix->col_cuts].start[block->col];
        tiles++;
    }
    HASH_FIND(hh, calls, &probe.key, sizeof(probe.key), found);
    if (!found) {
        found = malloc(sizeof(*found));
        if (!found)
            return FY_ERR_NOMEM;
        memcpy(found, &probe, sizeof(probe));
        int status = make_variant(algo, call, found, &found->variant);
        if (status) {
            free(found);
            return status;
        }
        HASH_ADD(hh, calls, key, sizeof(found->key), found);
        algo->calls = calls;
        if (found->failed) {
            free(found);
            return FY_ERR_NOMEM;
        }
    }
    return fy_planner_add_step(algo->planner, found->variant, lo);
}

int
fy_algo_gemm(struct fy_algo *algo, unsigned routine,
             const struct fy_product *product)
{
    struct fy_block_call call;
    const struct fy_block blocks[3] = {product->a, product->b, product->c};

    memset(&call, 0, sizeof(call));
    call.routine = (uint8_t)routine;
    call.transa = product->transa;
    call.transb = product->transb;
    call.m = product->m;
    call.n = product->n;
    call.k = product->k;
    memcpy(call.alpha, product->alpha, sizeof(call.alpha));
    memcpy(call.beta, product->beta, sizeof(call.beta));
    call.access[0] = call.access[1] = product->k > 0 ? FY_ACCESS_IN : 0;
    call.access[2] = product->c_access;
    return fy_algo_call(algo, &call, blocks);
}

static void
forget_calls(struct fy_algo *algo)
{
    struct known_call *calls = algo->calls, *row, *next;

    HASH_ITER (hh, calls, row, next) {
        HASH_DEL(calls, row);
        free(row);
    }
    algo->calls = NULL;
}

/* Makes the plan for the cuts and supers that are set. */
static int
generate(struct fy_algo *algo)
{
    struct fy_planner *planner = algo->planner;
    struct fy_view views[FY_MAX_MATRICES];
    char *info = planner->info_pointer;
    int status;

    fy_planner_reset(planner);
    planner->info_pointer = info;
    for (unsigned i = 0; i < FY_MAX_MATRICES; i++)
        matrix_view(algo, &algo->matrices[i], &views[i]);
    status = fy_planner_views(planner, views, FY_MAX_MATRICES);
    algo->flip = false;
    if (status == FY_OK)
        status = algo->row->program(algo);
    forget_calls(algo);
    if (status == FY_OK)
        status = fy_planner_finish(planner);
    planner->plan.method = algo->row->name;
    return status;
}

static void
free_cuts(struct fy_algo *algo)
{
    for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++)
        fy_cuts_free(&algo->cuts[d]);
}

/* Cuts all dimensions into blocks of about `side'. */
static int
cut_evenly(struct fy_algo *algo, int64_t side)
{
    free_cuts(algo);
    for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
        if (algo->extent[d] < 1)
            continue;
        int64_t count = (algo->extent[d] + side - 1) / side;
        int status = fy_cuts_even(algo->extent[d], (uint32_t)count,
                                  side >= 64 ? 16 : 1, &algo->cuts[d]);
        if (status)
            return status;
    }
    return FY_OK;
}

struct supers {
    uint32_t rows, cols;
    double cost;
};

/*
 * Supers of rows x cols blocks that fit in `tiles' blocks with a row and a
 * column of operands beside them; the few that should move least.
 */
static unsigned
list_supers(const struct fy_algo *algo, double tiles, struct supers *best,
            unsigned most)
{
    uint32_t nrows = algo->cuts[0].count, ncols = algo->cuts[1].count;
    unsigned count = 0;
    double rows_bytes = (double)algo->extent[0],
           cols_bytes = (double)algo->extent[1];

    for (uint32_t r = 1; r <= nrows; r = r < 8 ? r + 1 : r + r / 4) {
        struct supers one = {.rows = (nrows + r - 1) / r};
        double room = (tiles - one.rows - 3) / (one.rows + 1.0);
        if (room < 1)
            continue;
        uint32_t c = room >= ncols ? 1 : (uint32_t)ceil(ncols / floor(room));
        one.cols = (ncols + c - 1) / c;
        one.cost = c * rows_bytes + r * cols_bytes;
        unsigned at = count;
        while (at > 0 && best[at - 1].cost > one.cost)
            at--;
        if (at == most)
            continue;
        if (count < most)
            count++;
        memmove(&best[at + 1], &best[at], sizeof(*best) * (count - 1 - at));
        best[at] = one;
    }
    if (count == 0)
        best[count++] = (struct supers){1, 1, 0};
    return count;
}

/* Every block size and super worth it; leaves the plan of the best. */
static int
search(struct fy_algo *algo)
{
    static const double parts[] = {11, 16, 8, 5, 3};
    double elements = (double)algo->planner->options.budget_bytes /
                      (algo->element_bytes ? algo->element_bytes : 8);
    struct supers supers[4];
    struct {
        int64_t side;
        struct supers supers;
        uint64_t cost;
    } best = {0};
    int status = FY_ERR_NOFIT;

    for (unsigned p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
        int64_t side = (int64_t)(sqrt(elements) / parts[p]);
        if (side >= 64)
            side = side / 16 * 16;
        if (side < 1)
            side = 1;
        /* Finer blocks than these pay only when they are the only ones. */
        if (best.side && p > 2)
            break;
        status = cut_evenly(algo, side);
        if (status)
            return status;
        unsigned count = list_supers(
            algo, elements / ((double)side * (double)side), supers, 4);
        for (unsigned s = 0; s < count; s++) {
            algo->super_rows = supers[s].rows;
            algo->super_cols = supers[s].cols;
            status = generate(algo);
            if (status == FY_ERR_NOMEM)
                return status;
            if (status)
                continue;
            const struct fy_traffic *t = &algo->planner->plan.predicted;
            uint64_t cost = t->bytes_in + t->bytes_out + t->chunks * 32768;
            if (best.side == 0 || cost < best.cost) {
                best.side = side;
                best.supers = supers[s];
                best.cost = cost;
            }
        }
    }
    if (best.side == 0)
        return status ? status : FY_ERR_NOFIT;
    status = cut_evenly(algo, best.side);
    if (status)
        return status;
    algo->super_rows = best.supers.rows;
    algo->super_cols = best.supers.cols;
    return generate(algo);
}

/* Random cuts and supers; smaller blocks until a step fits. */
static int
search_random(struct fy_algo *algo)
{
    uint64_t state = algo->planner->options.seed, own[FY_MAX_DIMENSIONS];
    int64_t largest[FY_MAX_DIMENSIONS];
    uint32_t most = 10;
    int status = FY_ERR_NOFIT;

    /* Each by its own extent alone, see axis_seed() in plan_axes.c. */
    for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
        uint64_t extent = (uint64_t)(algo->extent[d] < 1 ? 1 : algo->extent[d]);
        own[d] = algo->planner->options.seed + d;
        own[d] = fy_random(&own[d]) + extent;
        largest[d] = 1 + (int64_t)fy_random_below(&own[d], extent);
    }
    for (unsigned round = 0; round < 24 && status == FY_ERR_NOFIT; round++) {
        free_cuts(algo);
        for (unsigned d = 0; d < FY_MAX_DIMENSIONS; d++) {
            if (algo->extent[d] < 1)
                continue;
            status = fy_cuts_random(algo->extent[d], largest[d], most, 1,
                                    &own[d], &algo->cuts[d]);
            if (status)
                return status;
            largest[d] = largest[d] * 2 / 3 + 1;
        }
        algo->super_rows = 1 + (uint32_t)fy_random_below(&state, 5);
        algo->super_cols = 1 + (uint32_t)fy_random_below(&state, 5);
        most = most * 3 / 2;
        status = generate(algo);
    }
    return status;
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
    if (!algo->row)
        return FY_ERR_UNSUPPORTED;
    for (unsigned i = 0; i < bound->function->noperands; i++) {
        if (operands[i].element == FY_T_C32 || operands[i].element == FY_T_C64)
            algo->is_complex = true;
    }
    algo->hermitian = name[0] == 'h' || (algo->is_complex && name[0] == 'p');
    int status = take_arguments(algo);
    if (status == FY_OK)
        status = algo->row->setup(algo);
    return status;
}

double
fy_blocked_bound(const struct fy_bound *bound, double elements)
{
    struct fy_planner planner = {.bound = bound};
    struct fy_algo algo;

    return begin(&algo, &planner) ? 0 : algo.row->bound(&algo, elements);
}

int
fy_plan_blocked(struct fy_planner *planner)
{
    struct fy_algo algo;
    struct fy_view views[FY_MAX_MATRICES] = {{0}};
    int status = begin(&algo, planner);

    if (status == FY_OK)
        status = check_views(&algo, views);
    if (status == FY_OK)
        status = find_routines(&algo);
    if (status == FY_OK)
        status = planner->options.random ? search_random(&algo) : search(&algo);
    free_cuts(&algo);
    return status;
}
