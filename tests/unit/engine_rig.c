/* SPDX-License-Identifier: Apache-2.0 */
/* See engine_rig.h. */
#include "config.h"

#include "tests/unit/engine_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/calls.h"

const struct fy_model *model;
const struct fy_engine *engine;
struct fy_record *record;
__thread int depth;

static char log_path[] = "/tmp/ferry_engine_rig_XXXXXX";
static int log_file;

static void *
installed(void *original, const char *name)
{
    (void)original;
    return calls_symbol(name);
}

static bool
let_in(const struct fy_intercepted *call)
{
    (void)call;
    return true;
}

static void
enter(int delta)
{
    depth += delta;
}

void
engine_start(const char *settings, void *(*sibling)(void *, const char *),
             bool (*hold)(const struct fy_intercepted *))
{
    static struct fy_shim_services services;

    record = calloc(1, sizeof(*record) +
                           model->functions.count * sizeof(record->rows[0]));
    ck_assert_ptr_nonnull(record);
    record->nrows = model->functions.count;
    services = (struct fy_shim_services){
        .size_bytes = sizeof(services),
        .model = model,
        .settings = settings,
        .sibling = sibling ? sibling : installed,
        .hold = hold ? hold : let_in,
        .enter = enter,
        .record = record,
    };
    engine = fy_engine_start(&services);
    ck_assert_ptr_nonnull(engine);
}

void
engine_start_on_card(const char *more)
{
    static char settings[512];

    log_file = mkstemp(log_path);
    ck_assert_int_ge(log_file, 0);
    (void)snprintf(settings, sizeof(settings),
                   "mode=2;device=cuda;force=1;explain=%s;%s", log_path, more);
    engine_start(settings, NULL, NULL);
}

const char *
explained(void)
{
    static char text[65536];
    ssize_t length = pread(log_file, text, sizeof(text) - 1, 0);
    ck_assert_int_ge(length, 0);
    text[length] = '\0';
    return text;
}

void
explained_end(void)
{
    (void)unlink(log_path);
}

enum fy_reason
engine_call(const char *name, unsigned count, const void *const *args)
{
    uint64_t stack[16] = {0};
    struct fy_registers registers = {.stack = stack};
    struct fy_intercepted call = {
        .symbol = fy_model_find_symbol(model, name),
        .original = calls_symbol(name),
        .caller = (void *)engine_call,
        .registers = &registers,
    };
    call.function = FY_TABLE(model, fy_symbol, symbols)[call.symbol].function;
    for (unsigned i = 0; i < count + 2; i++) {
        uint64_t value = i < count ? (uintptr_t)args[i] : 1;
        if (i < 6) {
            registers.integer[i] = value;
        } else {
            stack[i - 6] = value;
        }
    }
    return engine->call(&call);
}
