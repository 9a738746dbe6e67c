/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on blocks: to variants and steps of a plan, or, while block sizes are
 * still being compared, only to the accesses they make.
 */
#include "config.h"

#include "pager/blocked/algo.h"

#include "pager/plan/device_call.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct known_call {
    struct {
        struct fy_block_call call;
        struct {
            int64_t rows, cols, skip;
            char matrix;
            char same_as; /* 1 + the argument that has the same block, or 0 */
        } shape[3];
    } key;
    uint32_t variant;
    UT_hash_handle hh;
};

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

/* The number that a letter of a block call stands for. */
static struct fy_value
number_of(const struct fy_algo *algo, const struct fy_block_call *call,
          const struct known_call *known, const int *tile_of, char letter)
{
    struct fy_value value = {.kind = FY_V_INT};
    char flag = 0;

    switch (letter) {
    case '1':
    case '2':
    case '3':
        value.i = algo->row_major ? known->key.shape[letter - '1'].cols
                                  : known->key.shape[letter - '1'].rows;
        if (value.i < 1) { /* no block: as large as the callee can ask for */
            value.i = call->m > call->n ? call->m : call->n;
        }
        if (value.i < 1 || (value.i < call->k && tile_of[letter - '1'] < 0)) {
            value.i = call->k < 1 ? 1 : call->k;
        }
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
    case 'f':
    case 'x':
        value.i = 1;
        break;
    case 'l':
        value.i = call->k;
        break;
    case 'W':
        value.i = algo->lwork;
        break;
    case 'a':
    case 'b':
        value.kind = FY_V_COMPLEX;
        value.r = letter == 'a' ? call->alpha[0] : call->beta[0];
        value.im = letter == 'a' ? call->alpha[1] : call->beta[1];
        break;
    default:
        flag = (char)(letter == 's'   ? call->side
                      : letter == 'u' ? call->uplo
                      : letter == 't' ? call->transa
                      : letter == 'T' ? call->transb
                                      : call->diag);
        value.i = algo->c_interface ? c_code(letter, flag) : flag;
        break;
    }
    return value;
}

/* The address of a matrix argument. One that is not accessed has no tile, but no
 * null pointer either: BLIS ends the process for that, also where alpha is 0. */
static void
set_matrix(const struct fy_algo *algo, const struct known_call *known,
           const int *tile_of, char letter, struct fy_slot *slot)
{
    static const uint64_t nothing;
    int which = tile_of[letter - 'A'];

    slot->value.u[0] = algo->planner->options.inactive_address;
    if (slot->value.u[0] == 0) {
        slot->value.u[0] = (uint64_t)(uintptr_t)&nothing;
    }
    if (which >= 0) {
        slot->kind = FY_SLOT_TILE;
        slot->tile = (uint8_t)which;
        slot->offset =
            known->key.shape[letter - 'A'].skip * (int64_t)algo->element_bytes;
    }
}

/* One argument of a block call; `arg' NULL: of a function that takes pointers only.
 * tile_of: by matrix argument, or -1. */
static void
set_argument(const struct fy_algo *algo, const struct fy_block_call *call,
             const struct known_call *known, const int *tile_of,
             const struct fy_arg *arg, char letter, struct fy_slot *slot)
{
    const uint8_t bits = algo->planner->bound->integer_bits;

    *slot = (struct fy_slot){
        .kind = FY_SLOT_VALUE,
        .type = (uint8_t)(arg ? fy_arg_passed_type(arg, bits) : FY_T_POINTER)};
    if (letter == 'O') {
        slot->value = algo->planner->bound->args[0]; /* the storage order */
    } else if (letter >= 'A' && letter <= 'C') {
        set_matrix(algo, known, tile_of, letter, slot);
    } else if (letter == 'w') {
        slot->value.p = algo->planner->workspace;
    } else if (letter == 'i') {
        slot->kind = FY_SLOT_INFO;
    } else {
        const struct fy_value value =
            number_of(algo, call, known, tile_of, letter);
        if (!arg || arg->flags & FY_ARG_REFERENCE) {
            slot->kind = FY_SLOT_REFERENCE;
        }
        fy_raw_store(
            fy_type_resolve(arg ? fy_arg_scalar_type(arg) : FY_T_INTEGER, bits),
            &value, &slot->value);
    }
}

static void
set_tiles(const struct fy_algo *algo, const struct fy_block_call *call,
          const struct known_call *known, struct fy_variant *variant,
          int tile_of[3])
{
    for (unsigned b = 0; b < 3; b++) {
        struct fy_tile *tile = &variant->tiles[variant->ntiles];
        int64_t rows = known->key.shape[b].rows;
        int64_t cols = known->key.shape[b].cols;
        tile_of[b] = -1;
        if (!known->key.shape[b].matrix) {
            continue;
        }
        if (known->key.shape[b].same_as) {
            tile_of[b] = tile_of[known->key.shape[b].same_as - 1];
            variant->tiles[tile_of[b]].access |= call->access[b];
            continue;
        }
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
        if (*signature >= 'A' && *signature <= 'C') {
            letters[n++] = *signature;
        }
    }
    letters[n] = '\0';
}

/* ---- functions of the device's own ---- */

struct device_source {
    const struct fy_algo *algo;
    const struct fy_routine *routine;
    const struct known_call *known;
    const int *tile_of;
    unsigned first; /* argument of the signature's first letter */
};

/* The letter of argument `i', or 0. */
static char
letter_of(const struct device_source *source, unsigned i)
{
    const char *signature = source->routine->signature;

    return (char)(i >= source->first && i - source->first < strlen(signature)
                      ? signature[i - source->first]
                      : '\0');
}

static int
device_address(void *state, unsigned operand, struct fy_slot *slot)
{
    const struct device_source *source = state;
    const struct fy_model *model = source->algo->planner->bound->model;
    const struct fy_function *function = source->routine->function;

    if (operand >= function->noperands) {
        return FY_ERR_UNSUPPORTED;
    }
    const struct fy_operand *row =
        FY_TABLE(model, fy_operand, operands) + function->operands + operand;
    const struct fy_cell *cell =
        FY_TABLE(model, fy_cell, cells) + function->cells + row->base;
    char letter = letter_of(source, cell->arg);
    if (cell->kind != FY_CELL_VALUE || letter < 'A' || letter > 'C') {
        return FY_ERR_UNSUPPORTED;
    }
    const struct known_call *known = source->known;
    char matrix = known->key.shape[letter - 'A'].matrix;
    if (row->element == FY_T_INTEGER && matrix &&
        source->algo->planner->bound->integer_bits != 32 &&
        !source->algo->matrices[matrix - 'A'].narrow) {
        return FY_ERR_UNSUPPORTED;
    }
    if (source->tile_of[letter - 'A'] < 0) {
        return FY_ERR_UNSUPPORTED; /* not accessed: as in plan/chunk_call.c */
    }
    set_matrix(source->algo, source->known, source->tile_of, letter, slot);
    return FY_OK;
}

static int
make_device_call(struct fy_algo *algo, const struct fy_block_call *call,
                 const struct known_call *known, const int *tile_of,
                 struct fy_variant *variant)
{
    const struct fy_bound *bound = algo->planner->bound;
    const struct fy_routine *routine = &algo->routines[call->routine];
    const struct fy_function *function = routine->function;
    struct device_source source = {algo, routine, known, tile_of,
                                   algo->c_interface ? 1 : 0};
    const struct fy_device_operands operands = {&source, device_address, NULL};
    struct fy_value cells[FY_MAX_CELLS];

    if (!function) {
        return FY_ERR_UNSUPPORTED;
    }
    const struct fy_cell *rows =
        FY_TABLE(bound->model, fy_cell, cells) + function->cells;
    for (unsigned c = 0; c < function->ncells; c++) {
        enum fy_type type =
            fy_type_resolve((enum fy_type)rows[c].type, bound->integer_bits);
        char letter = letter_of(&source, rows[c].arg);
        union fy_raw raw;
        memset(&raw, 0, sizeof(raw));
        memset(&cells[c], 0, sizeof(cells[c]));
        if (rows[c].kind != FY_CELL_VALUE &&
            rows[c].kind != FY_CELL_REFERENCE) {
            return FY_ERR_UNSUPPORTED;
        }
        if (rows[c].arg < source.first) { /* the storage order */
            cells[c] = bound->cells[c];
            if (function != bound->function) {
                cells[c] = fy_raw_value(type, &bound->args[0]);
            }
            continue;
        }
        if (letter == '\0' || letter == 'i' || letter == 'w' ||
            (letter >= 'A' && letter <= 'C')) {
            cells[c].kind = FY_V_POINTER;
            continue;
        }
        const struct fy_value value =
            number_of(algo, call, known, tile_of, letter);
        fy_raw_store(type, &value, &raw);
        cells[c] = fy_raw_value(type, &raw);
    }
    const struct fy_scope scope = {bound->model, function, cells, NULL};
    return fy_device_call(algo->planner, &scope, &operands, variant);
}

/* Operations of a call, about, as far as calls of a plan differ. */
static double
work_of(const struct fy_algo *algo, const struct fy_block_call *call)
{
    const char *signature = algo->routines[call->routine].signature;
    const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
    const double side = call->side == 'R' ? n : m;

    return strchr(signature, 'f')             ? 0 /* laswp */
           : strchr(signature, 'T')           ? 2 * m * n * k
           : strchr(signature, 'd')           ? m * n * side
           : strncmp(signature, "st", 2) == 0 ? 4 * m * n * k /* ormqr */
           : strchr(signature, 's')           ? 2 * m * n * side
           : strchr(signature, 'k')
               ? n * n * k * (strchr(signature, 'B') ? 2 : 1)
           : call->m > 0 ? n * n * (m - n / 3)
                         : n * n * n / 3;
}

static int
make_variant(struct fy_algo *algo, const struct fy_block_call *call,
             const struct known_call *known, uint32_t *out)
{
    const struct fy_bound *bound = algo->planner->bound;
    const struct fy_routine *routine = &algo->routines[call->routine];
    struct fy_variant *variant = calloc(1, sizeof(*variant));
    unsigned first = algo->c_interface ? 1 : 0;
    int tile_of[3];

    if (!variant) {
        return FY_ERR_NOMEM;
    }
    variant->function = routine->address;
    variant->work = work_of(algo, call);
    variant->return_type =
        routine->function ? (uint8_t)fy_type_resolve(
                                (enum fy_type)routine->function->return_type,
                                bound->integer_bits)
                          : FY_T_VOID;
    variant->nslots = (uint16_t)(strlen(routine->signature) + first);
    set_tiles(algo, call, known, variant, tile_of);
    if (fy_plan_on_device(algo->planner)) {
        int status = make_device_call(algo, call, known, tile_of, variant);
        if (status) {
            fy_variant_free(variant);
            return status;
        }
        return fy_planner_add_variant(algo->planner, variant, out);
    }
    const struct fy_arg *args =
        routine->function
            ? FY_TABLE(bound->model, fy_arg, args) + routine->function->args
            : NULL;
    for (unsigned i = 0; i < variant->nslots; i++) {
        set_argument(algo, call, known, tile_of, args ? &args[i] : NULL,
                     (char)(i < first ? 'O' : routine->signature[i - first]),
                     &variant->slots[i]);
    }
    if (args) {
        fy_variant_add_lengths(variant, args, routine->function->nargs);
    }
    if (strchr(routine->signature, 'i')) {
        algo->planner->uses_info = true;
    }
    return fy_planner_add_variant(algo->planner, variant, out);
}

/* One access of the trace; room for it is reserved by the search. */
static int
trace_block(struct fy_algo *algo, const struct fy_block *block, uint8_t access,
            double work)
{
    struct fy_access_trace *trace = algo->trace;
    const struct fy_matrix *matrix = &algo->matrices[block->matrix - 'A'];
    uint32_t cols = algo->cuts[matrix->col_cuts].count;

    if (trace->naccesses == algo->trace_room) {
        uint32_t room = algo->trace_room ? 2 * algo->trace_room : 1024;
        void *rows = realloc(trace->accesses, room * sizeof(*trace->accesses));
        if (!rows) {
            return FY_ERR_NOMEM;
        }
        trace->accesses = rows;
        algo->trace_room = room;
    }
    trace->accesses[trace->naccesses++] = (struct fy_trace_access){
        .step = algo->trace_steps,
        .tile = algo->trace_base[block->matrix - 'A'] + block->row * cols +
                block->col,
        .access = access,
        .work = (float)work,
    };
    return FY_OK;
}

static int
trace_call(struct fy_algo *algo, const struct fy_block_call *call,
           const struct fy_block blocks[3])
{
    const double work = work_of(algo, call);
    char letters[4];

    matrix_letters(algo->routines[call->routine].signature, letters);
    for (unsigned b = 0; letters[b]; b++) {
        uint8_t access = call->access[letters[b] - 'A'];
        if (!blocks[b].matrix || !access ||
            !algo->matrices[blocks[b].matrix - 'A'].access) {
            continue;
        }
        int status = trace_block(algo, &blocks[b], access, work);
        if (status) {
            return status;
        }
    }
    return ++algo->trace_steps > FY_MAX_BLOCK_STEPS ? FY_ERR_NOFIT : FY_OK;
}

/* 1 + the number of an earlier argument in the same block, or 0. */
static char
same_block(const struct fy_block blocks[3], const char *letters, unsigned b)
{
    for (unsigned other = 0; other < b; other++) {
        if (blocks[other].matrix == blocks[b].matrix &&
            blocks[other].row == blocks[b].row &&
            blocks[other].col == blocks[b].col) {
            return (char)(letters[other] - 'A' + 1);
        }
    }
    return 0;
}

int
fy_algo_call(struct fy_algo *algo, const struct fy_block_call *call,
             const struct fy_block blocks[3])
{
    struct known_call *calls = algo->calls, *found, probe;
    int64_t lo[3][FY_MAX_OPERAND_AXES] = {{0}};
    char letters[4];
    unsigned tiles = 0;

    if (algo->trace) {
        return trace_call(algo, call, blocks);
    }
    memset(&probe, 0, sizeof(probe));
    memcpy(&probe.key.call, call, sizeof(*call));
    matrix_letters(algo->routines[call->routine].signature, letters);
    for (unsigned b = 0; letters[b]; b++) {
        const struct fy_block *block = &blocks[b];
        unsigned at = (unsigned)(letters[b] - 'A');
        if (!block->matrix) {
            continue;
        }
        const struct fy_matrix *matrix = &algo->matrices[block->matrix - 'A'];
        probe.key.shape[at].rows =
            fy_algo_length(algo, matrix->row_cuts, block->row);
        probe.key.shape[at].cols =
            fy_algo_length(algo, matrix->col_cuts, block->col);
        if (!matrix->access || !call->access[at]) {
            continue;
        }
        probe.key.shape[at].matrix = block->matrix;
        probe.key.shape[at].skip = block->skip;
        probe.key.shape[at].same_as = same_block(blocks, letters, b);
        if (probe.key.shape[at].same_as) {
            continue;
        }
        lo[tiles][0] = algo->cuts[matrix->row_cuts].start[block->row];
        lo[tiles][1] = algo->cuts[matrix->col_cuts].start[block->col];
        tiles++;
    }
    HASH_FIND(hh, calls, &probe.key, sizeof(probe.key), found);
    if (!found) {
        found = malloc(sizeof(*found));
        if (!found) {
            return FY_ERR_NOMEM;
        }
        memcpy(found, &probe, sizeof(probe));
        int status = make_variant(algo, call, found, &found->variant);
        if (status) {
            free(found);
            return status;
        }
        HASH_ADD(hh, calls, key, sizeof(found->key), found);
        algo->calls = calls;
        if (!found->hh.tbl) {
            free(found);
            return FY_ERR_NOMEM;
        }
    }
    return fy_planner_add_step(algo->planner, found->variant, lo);
}

void
fy_algo_forget_calls(struct fy_algo *algo)
{
    struct known_call *calls = algo->calls, *row, *next;

    row = calls; /* clearing frees the table only: the rows stay linked */
    HASH_CLEAR(hh, calls);
    for (; row; row = next) {
        next = row->hh.next;
        free(row);
    }
    algo->calls = NULL;
}
