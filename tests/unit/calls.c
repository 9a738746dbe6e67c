/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See calls.h.
 */
#include "config.h"

#include "tests/unit/calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pager/plan/build.h"

unsigned calls_integer_bits = 32;

const struct fy_model *
calls_model(const char *const *files, unsigned count)
{
    const char *source = getenv("FERRY_SRCDIR");
    char *paths[16], library[4096];
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_model *model = NULL;

    snprintf(library, sizeof(library), "%s/annotations/lib",
             source ? source : ".");
    for (unsigned i = 0; i < count; i++) {
        if (asprintf(&paths[i], "%s/%s", library, files[i]) < 0) {
            abort();
        }
    }
    if (fy_compile((const char *const *)paths, count, library, diagnostics,
                   &model)) {
        fy_diagnostics_print(diagnostics, stderr);
        exit(99);
    }
    for (unsigned i = 0; i < count; i++) {
        free(paths[i]);
    }
    fy_diagnostics_free(diagnostics);
    return model;
}

void *
calls_symbol(const char *name)
{
    static const char *const libraries[] = {"libblas.so.3", "liblapack.so.3",
                                            "liblapacke.so.3"};
    for (unsigned i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL);
        void *symbol = library ? dlsym(library, name) : NULL;
        if (symbol) {
            return symbol;
        }
    }
    return NULL;
}

static void *
sibling(void *original, const char *name)
{
    (void)original;
    return calls_symbol(name);
}

static int64_t
c_code(char letter, char value)
{
    switch (letter) {
    case 's':
        return value == 'L' ? 141 : 142;
    case 'u':
        return value == 'U' ? 121 : 122;
    case 'd':
        return value == 'N' ? 131 : 132;
    default:
        return value == 'N' ? 111 : value == 'T' ? 112 : 113;
    }
}

static void
set_number(char letter, const struct call_numbers *numbers, bool fortran,
           struct fy_value *value)
{
    char flag = 0;

    *value = (struct fy_value){.kind = FY_V_INT};
    switch (letter) {
    case 'O':
        value->i = numbers->order;
        return;
    case 'm':
        value->i = numbers->m;
        return;
    case 'n':
        value->i = numbers->n;
        return;
    case 'k':
        value->i = numbers->k;
        return;
    case 'W':
        value->i = numbers->lwork;
        return;
    case 'x':
    case 'y':
        value->i = numbers->inc[letter - 'x'];
        return;
    case '1':
    case '2':
    case '3':
        value->i = numbers->ld[letter - '1'];
        return;
    case 'a':
    case 'b':
        value->kind = FY_V_COMPLEX;
        value->r = letter == 'a' ? numbers->alpha[0] : numbers->beta[0];
        value->im = letter == 'a' ? numbers->alpha[1] : numbers->beta[1];
        return;
    case 's':
        flag = numbers->side;
        break;
    case 'u':
        flag = numbers->uplo;
        break;
    case 't':
        flag = numbers->transa;
        break;
    case 'T':
        flag = numbers->transb;
        break;
    case 'd':
        flag = numbers->diag;
        break;
    default:
        abort();
    }
    value->i = fortran ? flag : c_code(letter, flag);
}

bool
call_make(const struct fy_model *model, const char *symbol,
          const char *signature, const struct call_numbers *numbers,
          struct call *out)
{
    memset(out, 0, sizeof(*out));
    out->model = model;
    out->symbol = fy_model_find_symbol(model, symbol);
    out->original = calls_symbol(symbol);
    if (out->symbol == FY_NIL || !out->original) {
        return false;
    }
    out->function = FY_TABLE(model, fy_symbol, symbols)[out->symbol].function;
    const struct fy_function *function =
        &FY_TABLE(model, fy_function, functions)[out->function];
    const struct fy_arg *args = FY_TABLE(model, fy_arg, args) + function->args;
    if (function->nargs != strlen(signature)) {
        return false;
    }
    out->nargs = function->nargs;
    for (unsigned i = 0; i < out->nargs; i++) {
        char letter = signature[i];
        struct fy_value value;
        if (letter >= 'A' && letter <= 'C') {
            out->args[i].p = numbers->matrix[letter - 'A'];
            continue;
        }
        if (letter == 'i') {
            out->args[i].p = numbers->info;
            continue;
        }
        if (letter == 'w') {
            out->args[i].p = numbers->work;
            continue;
        }
        set_number(letter, numbers, function->flags & FY_FN_FORTRAN, &value);
        fy_raw_store(fy_type_resolve(fy_arg_scalar_type(&args[i]), 32), &value,
                     &out->scalars[i]);
        if (args[i].flags & FY_ARG_REFERENCE) {
            out->args[i].p = &out->scalars[i];
        } else {
            out->args[i] = out->scalars[i];
        }
    }
    return true;
}

void
call_original(const struct call *call, union fy_raw *result)
{
    const struct fy_function *function =
        &FY_TABLE(call->model, fy_function, functions)[call->function];
    const struct fy_arg *args =
        FY_TABLE(call->model, fy_arg, args) + function->args;
    static struct fy_device *device;
    static struct fy_stream *stream;
    uint8_t types[FY_MAX_SLOTS];
    void *values[FY_MAX_SLOTS];
    union fy_raw raws[FY_MAX_ARGS], one = {.u = {1}}, ignored;
    uint16_t n = 0;

    if (!device &&
        (fy_device_host.open(1 << 20, &device) ||
         fy_device_host.stream_create(device, FY_STREAM_COMPUTE, &stream))) {
        abort();
    }
    for (unsigned i = 0; i < call->nargs; i++) {
        raws[i] = call->args[i];
        /* References point into the call's own storage, which may be a copy. */
        if (args[i].flags & FY_ARG_REFERENCE) {
            raws[i].p = (void *)(uintptr_t)&call->scalars[i];
        }
        types[n] = (uint8_t)fy_arg_passed_type(&args[i], 32);
        values[n++] = &raws[i];
    }
    for (unsigned i = 0; i < call->nargs; i++) {
        if (args[i].flags & FY_ARG_HIDDEN_LENGTH) {
            types[n] = FY_T_U64;
            values[n++] = &one;
        }
    }
    struct fy_launch launch = {
        .function = call->original,
        .return_type =
            (uint8_t)fy_type_resolve((enum fy_type)function->return_type, 32),
        .nargs = n,
        .types = types,
        .values = values,
        .result = result ? result : &ignored,
    };
    if (launch.return_type == FY_T_VOID) {
        launch.result = NULL;
    }
    if (fy_device_host.launch(stream, &launch) ||
        fy_device_host.stream_sync(stream)) {
        abort();
    }
}

static void
rebase(struct call *call)
{
    const struct fy_function *function =
        &FY_TABLE(call->model, fy_function, functions)[call->function];
    const struct fy_arg *args =
        FY_TABLE(call->model, fy_arg, args) + function->args;

    for (unsigned i = 0; i < call->nargs; i++) {
        if (args[i].flags & FY_ARG_REFERENCE) {
            call->args[i].p = &call->scalars[i];
        }
    }
}

static enum fy_reason
bind_and_plan(const struct call *given, const struct fy_plan_options *options,
              struct fy_executor *executor, struct call_run *run)
{
    struct call call = *given;
    struct fy_bound bound;
    struct fy_plan *plan;

    memset(run, 0, sizeof(*run));
    rebase(&call);
    enum fy_reason reason = fy_bind_args(
        call.model, call.function, calls_integer_bits, call.args, NULL, &bound);
    if (reason == FY_REASON_NONE && executor) {
        reason = fy_bound_check_memory(&bound);
    }
    if (reason != FY_REASON_NONE) {
        return reason;
    }
    struct fy_target target = {.original = call.original,
                               .symbol = call.symbol,
                               .integer_bits = (uint8_t)calls_integer_bits,
                               .sibling = sibling};
    run->lower_bound_bytes =
        fy_lower_bound_bytes(&bound, options->budget_bytes);
    run->status = fy_plan_new(&bound, &target, options, &plan);
    if (run->status) {
        return FY_REASON_NONE;
    }
    run->method = plan->method;
    run->predicted = plan->predicted;
    if (executor) {
        run->status = fy_executor_run(executor, &plan->schedule, &run->traffic);
        if (run->status == FY_OK) {
            fy_plan_result(plan, &run->result);
        }
    }
    fy_plan_free(plan);
    return FY_REASON_NONE;
}

enum fy_reason
call_chunked(const struct call *call, struct fy_device *device, bool random,
             uint64_t seed, struct call_run *run)
{
    struct fy_executor *executor;

    if (fy_executor_new(device, &executor)) {
        abort();
    }
    struct fy_plan_options options = {
        .ops = device->ops,
        .device = device,
        .budget_bytes = device->ops->memory_bytes(device),
        .random = random,
        .seed = seed,
    };
    enum fy_reason reason = bind_and_plan(call, &options, executor, run);
    fy_executor_free(executor);
    return reason;
}

enum fy_reason
call_planned(const struct call *call, uint64_t budget_bytes,
             struct call_run *run)
{
    struct fy_plan_options options = {.ops = &fy_device_host,
                                      .budget_bytes = budget_bytes};
    return bind_and_plan(call, &options, NULL, run);
}

static double
one_number(uint64_t *state)
{
    return (double)(int64_t)fy_random(state) / 9.3e18;
}

void
call_fill(enum fy_type type, void *element, uint64_t *state)
{
    struct fy_value value = {.kind = FY_V_COMPLEX};

    value.r = one_number(state);
    value.im = one_number(state);
    fy_raw_store(type, &value, element);
}
