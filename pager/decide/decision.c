/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision log, see decision.h.
 */
#include "config.h"

#include "pager/decide/decision.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/lines.h"
#include "pager/base/explain.h"

enum {
    MAX_SCALARS = 12
};

/* A power of two for the size of the call. */
static uint32_t
bucket(const struct fy_decision *decision)
{
    double size = 0;
    uint32_t log = 0;

    if (!decision->bound) {
        return 0;
    }
    for (unsigned i = 0; i < decision->bound->function->naxes; i++) {
        size += (double)decision->bound->extents[i];
    }
    while (size >= 2) {
        size /= 2;
        log++;
    }
    return log;
}

/* splitmix64's mixing. */
static uint64_t
mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

static bool
first_time(const struct fy_decision *decision)
{
    uint64_t where = (uint64_t)decision->function << 32 |
                     decision->reason << 16 | bucket(decision);

    return fy_explain_once(
        mix((uint64_t)(uintptr_t)decision->caller ^ mix(where)) | 1);
}

struct line {
    char text[1024];
    size_t used;
};

static void __attribute__((format(printf, 2, 3)))
add(struct line *line, const char *format, ...)
{
    va_list list;
    size_t room = sizeof(line->text) - line->used;

    va_start(list, format);
    int n = vsnprintf(line->text + line->used, room, format, list);
    va_end(list);
    if (n > 0) {
        line->used += (size_t)n < room ? (size_t)n : room - 1;
    }
}

/* The call's integers: "m=4096 n=4096 k=4096 lda=4096". */
static void
add_scalars(struct line *line, const struct fy_bound *bound)
{
    const struct fy_cell *cells = FY_OF(bound, fy_cell, cells);
    unsigned shown = 0;

    for (unsigned i = 0; i < bound->function->ncells; i++) {
        const char *name = fy_model_string(bound->model, cells[i].name);
        if (bound->cells[i].kind != FY_V_INT || shown == MAX_SCALARS) {
            continue;
        }
        if (cells[i].type == FY_T_CHAR) {
            add(line, " %s=%c", name, (char)bound->cells[i].i);
        } else {
            add(line, " %s=%lld", name, (long long)bound->cells[i].i);
        }
        shown++;
    }
}

static void
add_call(struct line *line, const struct fy_decision *decision)
{
    const struct fy_symbol *symbol =
        &FY_TABLE(decision->model, fy_symbol, symbols)[decision->symbol];

    add(line, "%s", fy_model_string(decision->model, symbol->name));
    if (decision->bound) {
        add_scalars(line, decision->bound);
    }
    add(line, " caller=%p pid=%ld:", decision->caller, (long)getpid());
}

void
fy_explain_difference(const char *path, const struct fy_decision *decision)
{
    struct line line = {.used = 0};
    int saved = errno;

    if (*path) {
        add_call(&line, decision);
        add(&line, " %s; not offloaded any more\n", decision->note);
        (void)fy_lines_append(path, line.text, line.used);
    }
    errno = saved;
}

void
fy_explain(const struct fy_decision *decision)
{
    struct line line = {.used = 0};
    int saved = errno;

    if (!fy_explains() || !first_time(decision)) {
        errno = saved;
        return;
    }
    add_call(&line, decision);
    if (decision->reason == FY_REASON_NONE) {
        add(&line, " offloaded");
        if (decision->method) {
            add(&line, " (%s)", decision->method);
        }
        add(&line, ", %llu bytes in, %llu out, %llu chunks",
            (unsigned long long)decision->traffic.bytes_in,
            (unsigned long long)decision->traffic.bytes_out,
            (unsigned long long)decision->traffic.chunks);
        if (decision->traffic.kept_bytes > 0) {
            add(&line, ", %llu bytes on the device already",
                (unsigned long long)decision->traffic.kept_bytes);
        }
    } else {
        add(&line, " original, %s", fy_reason_word(decision->reason));
    }
    if (decision->original_seconds > 0) {
        add(&line, ", predicted original %.3g s", decision->original_seconds);
    }
    if (decision->device_seconds > 0) {
        add(&line, ", device %.3g s", decision->device_seconds);
    }
    if (decision->actual_seconds > 0) {
        add(&line, ", took %.3g s", decision->actual_seconds);
    }
    if (decision->note[0]) {
        add(&line, ": %s", decision->note);
    }
    add(&line, "\n");
    fy_explain_write(line.text, line.used);
    errno = saved;
}
