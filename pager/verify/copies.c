/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded copies of a call's operands, see the header.
 */
#include "config.h"

#include "pager/verify/copies.h"

#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static void
on_guard_fault(struct fy_child_report *report, void *context)
{
    struct fy_copies *c = context;
    struct fy_trial *t = c->trial;
    const char *verb = report->write ? "writes" : "reads";
    int64_t offset;
    char place[200];
    for (unsigned g = 0; g < t->images->count && report->has_address; g++) {
        const struct fy_image *image = &t->images->image[g];
        if (!fy_guard_locate(&c->guard[g], report->address, &offset)) {
            continue;
        }
        unsigned o = fy_image_operand(t->images, g, offset);
        if (!image->accessed) {
            fy_trial_problem(t, o, FY_FINDING_NOT_ACCESSED,
                             "the call %s `%s', which it should not touch by "
                             "its `when' or extents",
                             verb, fy_trial_name(t, o));
            return;
        }
        fy_image_place(t->images, o, offset, place, sizeof place);
        fy_trial_problem(t, o, FY_FINDING_OUTSIDE, "the call %s `%s' %s", verb,
                         fy_trial_name(t, o), place);
        return;
    }
    const struct fy_arg *args = FY_OF(t->call, fy_arg, args);
    for (unsigned a = 0; a < t->call->function->nargs && report->has_address;
         a++) {
        if (fy_guard_locate(&c->opaque[a], report->address, &offset)) {
            fy_trial_problem(
                t, FY_NIL, FY_FINDING_OPAQUE,
                "the call %s %s `%s', which is declared opaque", verb,
                args[a].struct_bytes > 0 ? "an array behind" : "the array",
                fy_model_string(t->call->model, args[a].name));
            return;
        }
    }
    if (report->has_address) {
        fy_trial_problem(t, FY_NIL, FY_FINDING_CRASHED,
                         "on copies of the declared elements the call %s "
                         "address %#llx and faults (signal %d)",
                         verb, (unsigned long long)report->address,
                         report->signal);
    } else {
        fy_trial_problem(t, FY_NIL, FY_FINDING_CRASHED,
                         "on copies of the declared elements the call dies "
                         "of signal %d",
                         report->signal);
    }
}

static bool
is_element(uint8_t type)
{
    return type != FY_T_VOID && type != FY_T_POINTER && type != FY_T_HANDLE &&
           type != FY_T_CHAR;
}

/* Arrays behind fields that are opaque, likewise. */
static int
hide_fields(struct fy_copies *c)
{
    const struct fy_bound *call = c->trial->call;
    const struct fy_cell *cells = FY_OF(call, fy_cell, cells);
    for (unsigned i = 0; i < call->function->ncells; i++) {
        if (!(cells[i].flags & FY_CELL_OPAQUE) || c->invocation.replaced[i] ||
            call->cells[i].p == 0 || !is_element(cells[i].pointee)) {
            continue;
        }
        struct fy_guard *guard = &c->opaque[cells[i].arg];
        if (!guard->block) {
            int status = fy_guard_new(0, 1, 0, FY_GUARD_AFTER, c->poison,
                                      FY_T_VOID, guard);
            if (status != 0) {
                return status;
            }
        }
        c->invocation.replaced[i] = true;
        c->invocation.pointer[i] = guard->block;
    }
    return 0;
}

/* Arrays passed as opaque: no call may look behind them. */
static int
hide_opaque(struct fy_copies *c)
{
    const struct fy_bound *call = c->trial->call;
    const struct fy_arg *args = FY_OF(call, fy_arg, args);
    for (unsigned a = 0; a < call->function->nargs; a++) {
        if (!(args[a].flags & FY_ARG_OPAQUE) || args[a].type != FY_T_POINTER ||
            !is_element(args[a].pointee) || !call->args[a].p) {
            continue;
        }
        int status = fy_guard_new(0, 1, 0, FY_GUARD_AFTER, c->poison, FY_T_VOID,
                                  &c->opaque[a]);
        if (status != 0) {
            return status;
        }
        c->invocation.opaque[a] = c->opaque[a].block;
    }
    return hide_fields(c);
}

/* One pointer's block. */
static int
copy_image(struct fy_copies *c, unsigned g, enum fy_guard_side side)
{
    const struct fy_image *image = &c->trial->images->image[g];
    int64_t bytes = image->accessed ? image->hi - image->lo : 0;
    uint32_t align = fy_type_bytes((enum fy_type)image->element,
                                   c->trial->call->integer_bits);
    int status = fy_guard_new(
        (size_t)bytes, align == 0 ? 1 : align,
        bytes > 0 && c->trial->state->soft ? image->slack : 0, side, c->poison,
        (enum fy_type)image->element, &c->guard[g]);
    if (status != 0) {
        return status;
    }
    if (bytes > 0) {
        fy_image_copy(image, FY_MARK_IN, c->guard[g].block, image->before);
    }
    c->invocation.replaced[image->cell] = true;
    c->invocation.pointer[image->cell] = c->guard[g].block - image->lo;
    return 0;
}

int
fy_copies_new(struct fy_trial *t, enum fy_guard_side side,
              enum fy_poison poison, struct fy_copies **out)
{
    struct fy_copies *c = calloc(1, sizeof *c);
    if (!c) {
        return FY_ERR_NOMEM;
    }
    c->trial = t;
    c->poison = poison;
    c->invocation.call = t->call;
    c->invocation.original = t->target->original;
    int status = 0;
    for (unsigned g = 0; g < t->images->count && status == 0; g++) {
        if (t->images->image[g].accessed || t->images->image[g].base) {
            status = copy_image(c, g, side);
        }
    }
    if (status == 0) {
        status = hide_opaque(c);
    }
    if (status != 0) {
        return status;
    }
    t->state->report.context = c;
    t->state->report.on_fault = on_guard_fault;
    *out = c;
    return 0;
}

void
fy_copies_fill_real(struct fy_copies *c, unsigned g)
{
    const struct fy_image *image = &c->trial->images->image[g];
    const struct fy_guard *guard = &c->guard[g];
    if (!image->accessed) {
        return;
    }
    /* All that is accessible, page by page: what is not mapped stays poison. */
    for (size_t at = 0; at < guard->usable_bytes;) {
        char *from =
            image->base + image->lo + (guard->usable + at - guard->block);
        size_t bytes = 4096 - (uintptr_t)from % 4096;
        if (bytes > guard->usable_bytes - at) {
            bytes = guard->usable_bytes - at;
        }
        struct iovec local = {guard->usable + at, bytes};
        struct iovec remote = {from, bytes};
        ssize_t n = process_vm_readv(gettid(), &local, 1, &remote, 1, 0);
        (void)n;
        at += bytes;
    }
    fy_image_copy(image, FY_MARK_IN, guard->block, image->before);
}

void
fy_copies_free(struct fy_copies *c)
{
    c->trial->state->report.on_fault = NULL;
    for (unsigned g = 0; g < FY_MAX_OPERANDS; g++) {
        fy_guard_free(&c->guard[g]);
    }
    for (unsigned a = 0; a < FY_MAX_ARGS; a++) {
        fy_guard_free(&c->opaque[a]);
    }
    free(c);
}
