/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that an algorithm runs on blocks: found in the model, their
 * addresses beside the call's own.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "pager/blocked/algo.h"
#include "pager/plan/device_call.h"

/* Names of arguments in the reference BLAS and LAPACK, and their letters. */
static const struct {
    const char *name;
    char letter;
} letters[] = {
    {"side", 's'},   {"uplo", 'u'}, {"trans", 't'}, {"transa", 't'},
    {"transb", 'T'}, {"diag", 'd'}, {"m", 'm'},     {"n", 'n'},
    {"k", 'k'},      {"nrhs", 'k'}, {"alpha", 'a'}, {"beta", 'b'},
    {"a", 'A'},      {"b", 'B'},    {"c", 'C'},     {"lda", '1'},
    {"ldb", '2'},    {"ldc", '3'},  {"ipiv", 'B'},  {"tau", 'B'},
    {"info", 'i'},   {"work", 'w'}, {"lwork", 'W'}, {"k1", 'f'},
    {"k2", 'l'},     {"incx", 'x'},
};

static char
letter_of(const char *name)
{
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
        if (strcmp(letters[i].name, name) == 0) {
            return letters[i].letter;
        }
    }
    return '\0';
}

int
fy_algo_signature(const struct fy_function *function,
                  const struct fy_model *model, char out[FY_SIGNATURE_BYTES])
{
    const struct fy_arg *args = FY_TABLE(model, fy_arg, args) + function->args;
    const unsigned first = function->flags & FY_FN_FORTRAN ? 0 : 1;
    bool pivots = false;
    char *to = out;

    if (function->nargs < first ||
        function->nargs - first >= FY_SIGNATURE_BYTES) {
        return FY_ERR_UNSUPPORTED;
    }
    for (unsigned i = first; i < function->nargs; i++) {
        const char *name = fy_model_string(model, args[i].name);
        *to = letter_of(name);
        /* Beside pivots or factors B is the third. */
        if (pivots && (*to == 'B' || *to == '2')) {
            *to = (char)(*to + 1);
        }
        pivots = pivots || (*to == 'B' && name[0] != 'b');
        if (*to++ == '\0') {
            return FY_ERR_UNSUPPORTED;
        }
    }
    *to = '\0';
    return FY_OK;
}

/* The address of another function of the model, in this call's spelling. */
static void *
resolve(const struct fy_algo *algo, uint32_t function, uint32_t *from)
{
    const struct fy_target *target = algo->planner->target;
    const struct fy_model *model = algo->planner->bound->model;
    const struct fy_symbol *symbols = FY_TABLE(model, fy_symbol, symbols);
    void *address = NULL;

    if (!target->sibling) {
        return NULL;
    }
    const uint8_t own_bits = target->symbol < model->symbols.count
                                 ? symbols[target->symbol].integer_bits
                                 : 0;
    /* The same spelling first; then any of the same integer width. */
    for (unsigned round = 0; round < 2 && !address; round++) {
        for (uint32_t i = 0; i < model->symbols.count && !address; i++) {
            const struct fy_symbol *symbol = &symbols[i];
            bool same = target->symbol < model->symbols.count &&
                        symbol->spelling == symbols[target->symbol].spelling;
            if (symbol->function != function || same != (round == 0)) {
                continue;
            }
            if (round == 1 && symbol->integer_bits != 0 &&
                symbol->integer_bits != target->integer_bits) {
                continue;
            }
            /* Of LAPACKE with a suffix, routines with one. */
            if (algo->lapacke && symbol->integer_bits != own_bits) {
                continue;
            }
            address = target->sibling(target->original,
                                      fy_model_string(model, symbol->name));
            *from = i;
        }
    }
    return address;
}

int
fy_algo_prefix(const struct fy_bound *bound, char *prefix, size_t room)
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
    const char *family = algo->lapacke
                             ? "fortran"
                             : fy_model_string(model, bound->function->family);
    char name[64], prefix[32];

    if (fy_algo_prefix(bound, prefix, sizeof(prefix))) {
        return FY_ERR_UNSUPPORTED;
    }
    (void)snprintf(name, sizeof(name), "%s%s", prefix,
                   algo->is_complex && strcmp(routine, "ormqr") == 0 ? "unmqr"
                                                                     : routine);
    for (uint32_t f = 0; f < model->functions.count; f++) {
        if (strcmp(fy_model_string(model, functions[f].family), family) != 0 ||
            strcmp(fy_model_string(model, functions[f].name), name) != 0) {
            continue;
        }
        out->function = &functions[f];
        if (fy_algo_signature(out->function, model, out->signature)) {
            continue;
        }
        /* A device has functions of its own: plan/device_call.c finds them. */
        bool own = fy_plan_on_device(algo->planner);
        out->address = own ? NULL : resolve(algo, f, &out->symbol);
        if (own || out->address) {
            return FY_OK;
        }
    }
    return FY_ERR_UNSUPPORTED;
}

/*
 * Row interchanges: exported by every LAPACK beside getrf, under the call's own
 * spelling, but not annotated (what it touches is in its pivots).
 */
static int
find_laswp(const struct fy_algo *algo, struct fy_routine *out)
{
    const struct fy_target *target = algo->planner->target;
    const struct fy_model *model = algo->planner->bound->model;
    const struct fy_symbol *symbols = FY_TABLE(model, fy_symbol, symbols);
    const char *stem = algo->lapacke ? "getrf" : algo->row->name;
    uint32_t symbol = target->symbol;
    char name[96];

    for (unsigned i = 0; algo->lapacke && i < FY_MAX_ROUTINES; i++) {
        if (algo->routines[i].address &&
            strcmp(algo->routines[i].signature, "mnA1Bi") == 0) {
            symbol = algo->routines[i].symbol;
        }
    }
    if (!target->sibling || symbol >= model->symbols.count) {
        return FY_ERR_UNSUPPORTED;
    }
    const char *own = fy_model_string(model, symbols[symbol].name);
    const char *tail = strstr(own, stem);
    if (!tail || strlen(own) + 2 > sizeof(name)) {
        return FY_ERR_UNSUPPORTED;
    }
    (void)snprintf(name, sizeof(name), "%.*slaswp%s", (int)(tail - own), own,
                   tail + strlen(stem));
    *out =
        (struct fy_routine){.address = target->sibling(target->original, name),
                            .signature = "nA1flBx"};
    return out->address ? FY_OK : FY_ERR_UNSUPPORTED;
}

int
fy_algo_find_routines(struct fy_algo *algo)
{
    algo->routines[FY_SELF] = (struct fy_routine){
        .function = algo->planner->bound->function,
        .address = algo->planner->target->original,
    };
    (void)snprintf(algo->routines[FY_SELF].signature, FY_SIGNATURE_BYTES, "%s",
                   algo->row->signature);
    if (algo->lapacke &&
        find_routine(algo, algo->row->name, &algo->routines[FY_SELF])) {
        algo->routines[FY_SELF] = (struct fy_routine){0}; /* no nest calls it */
    }
    for (unsigned i = 0; i + 1 < FY_MAX_ROUTINES && algo->row->using[i]; i++) {
        const char *wanted = algo->row->using[i];
        if (algo->hermitian && strcmp(wanted, "syrk") == 0) {
            wanted = "herk";
        }
        if (strcmp(wanted, "laswp") == 0 && !fy_plan_on_device(algo->planner)) {
            int found = find_laswp(algo, &algo->routines[i + 1]);
            if (found) {
                return found;
            }
            continue;
        }
        int status = find_routine(algo, wanted, &algo->routines[i + 1]);
        if (status) {
            return status;
        }
    }
    return FY_OK;
}
