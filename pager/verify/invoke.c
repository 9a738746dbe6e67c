/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole calls of an original with replaced pointers, see the header. Scalars
 * passed by reference get storage of their own, structs too where something of
 * them is replaced; they are compared afterwards.
 */
#include "config.h"

#include "pager/verify/invoke.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pager/device/call.h"

enum {
    STRUCT_BYTES = 256, /* of a struct argument that is copied, at most */
    HIDDEN_LENGTH = 1,
    VALUES = 2 * FY_MAX_ARGS,
};

struct frame {
    struct fy_invocation *invocation;
    union fy_raw args[FY_MAX_ARGS];
    union fy_raw scalars[FY_MAX_ARGS]; /* what references point at */
    union fy_raw before[FY_MAX_ARGS];
    char structs[FY_MAX_ARGS][STRUCT_BYTES];
    bool copied[FY_MAX_ARGS];               /* the struct of this argument */
    char fields[FY_MAX_ARGS][STRUCT_BYTES]; /* what was in it before */
    size_t fields_bytes[FY_MAX_ARGS];       /* that are compared */
    uint64_t hidden;
    uint8_t types[VALUES];
    void *values[VALUES];
    uint16_t count;
};

/* Copies what is mapped of the first bytes of a struct. */
static void
copy_struct(struct frame *f, unsigned arg)
{
    if (f->copied[arg]) {
        return;
    }
    f->copied[arg] = true;
    struct iovec to = {f->structs[arg], STRUCT_BYTES};
    struct iovec from = {f->args[arg].p, STRUCT_BYTES};
    if (process_vm_readv(gettid(), &to, 1, &from, 1, 0) < 0) {
        memcpy(f->structs[arg], f->args[arg].p, sizeof(uint64_t));
    }
    f->args[arg].p = f->structs[arg];
}

/* Whether more than the first scalar behind an argument is read. */
static bool
has_fields(const struct fy_bound *call, unsigned arg)
{
    const struct fy_cell *cells = FY_OF(call, fy_cell, cells);
    for (unsigned c = 0; c < call->function->ncells; c++) {
        if (cells[c].arg == arg && cells[c].kind == FY_CELL_FIELD) {
            return true;
        }
    }
    return false;
}

/* How much of a struct the operand is that has cell `c' as its base. */
static size_t
field_bytes(const struct fy_bound *call, unsigned c)
{
    const struct fy_operand *operands = FY_OF(call, fy_operand, operands);
    for (unsigned o = 0; o < call->function->noperands; o++) {
        if (operands[o].base == c && call->views[o].naxes > 0) {
            return (size_t)call->views[o].extent[0] *
                   call->views[o].element_bytes;
        }
    }
    return 0;
}

static int
replace_pointers(struct frame *f)
{
    const struct fy_bound *call = f->invocation->call;
    const struct fy_cell *cells = FY_OF(call, fy_cell, cells);
    for (unsigned c = 0; c < call->function->ncells; c++) {
        if (!f->invocation->replaced[c]) {
            continue;
        }
        char *pointer = f->invocation->pointer[c];
        switch (cells[c].kind) {
        case FY_CELL_VALUE:
            memcpy(&f->args[cells[c].arg], &pointer, sizeof pointer);
            break;
        case FY_CELL_ADDRESS:
            if (cells[c].offset + field_bytes(call, c) > STRUCT_BYTES) {
                return FY_ERR_UNSUPPORTED;
            }
            copy_struct(f, cells[c].arg);
            memcpy(f->structs[cells[c].arg] + cells[c].offset, pointer,
                   field_bytes(call, c));
            break;
        case FY_CELL_FIELD:
            if (cells[c].offset > STRUCT_BYTES - sizeof pointer) {
                return FY_ERR_UNSUPPORTED;
            }
            copy_struct(f, cells[c].arg);
            memcpy(f->structs[cells[c].arg] + cells[c].offset, &pointer,
                   sizeof pointer);
            break;
        default:
            return FY_ERR_UNSUPPORTED;
        }
    }
    return 0;
}

/* Keeps what structs hold: copies, or as much of the program's as is declared. */
static void
keep_fields(struct frame *f)
{
    const struct fy_bound *call = f->invocation->call;
    const struct fy_arg *rows = FY_OF(call, fy_arg, args);
    for (unsigned i = 0; i < call->function->nargs; i++) {
        size_t bytes = f->copied[i] ? STRUCT_BYTES : rows[i].struct_bytes;
        bytes = bytes > STRUCT_BYTES ? STRUCT_BYTES : bytes;
        struct iovec to = {f->fields[i], bytes};
        struct iovec from = {f->args[i].p, bytes};
        bool whole =
            bytes > 0 && f->args[i].p && !(rows[i].flags & FY_ARG_OPAQUE) &&
            process_vm_readv(gettid(), &to, 1, &from, 1, 0) == (ssize_t)bytes;
        f->fields_bytes[i] = whole ? bytes : 0;
    }
}

/* Takes written fields out of structs, and looks for others that changed. */
static void
take_fields(struct frame *f)
{
    struct fy_invocation *x = f->invocation;
    const struct fy_cell *cells = FY_OF(x->call, fy_cell, cells);
    for (unsigned c = 0; c < x->call->function->ncells; c++) {
        unsigned arg = cells[c].arg;
        size_t bytes = field_bytes(x->call, c);
        if (cells[c].kind != FY_CELL_ADDRESS ||
            cells[c].offset + bytes > STRUCT_BYTES) {
            continue;
        }
        const char *now = (char *)f->args[arg].p + cells[c].offset;
        if (x->replaced[c]) {
            memcpy(x->pointer[c], now, bytes);
        }
        memcpy(f->fields[arg] + cells[c].offset, now, bytes);
    }
    for (unsigned i = 0; i < x->call->function->nargs; i++) {
        const char *now = f->args[i].p;
        for (size_t at = 0; at < f->fields_bytes[i]; at++) {
            if (now[at] != f->fields[i][at]) {
                x->scalar_written = i;
                x->field_at = (uint32_t)at;
                break;
            }
        }
    }
}

static void
add_value(struct frame *f, uint8_t type, void *value)
{
    f->types[f->count] = type;
    f->values[f->count++] = value;
}

static int
build(struct frame *f)
{
    const struct fy_bound *call = f->invocation->call;
    const struct fy_arg *rows = FY_OF(call, fy_arg, args);
    unsigned bits = call->integer_bits, n = call->function->nargs;
    memcpy(f->args, call->args, sizeof f->args);
    int status = replace_pointers(f);
    if (status != 0) {
        return status;
    }
    for (unsigned i = 0; i < n; i++) {
        if (f->invocation->opaque[i]) {
            f->args[i].p = f->invocation->opaque[i];
        }
        if ((rows[i].flags & FY_ARG_REFERENCE) && f->args[i].p &&
            !has_fields(call, i)) {
            enum fy_type type =
                fy_type_resolve(fy_arg_scalar_type(&rows[i]), bits);
            memcpy(&f->scalars[i], f->args[i].p, fy_type_bytes(type, bits));
            f->args[i].p = &f->scalars[i];
        }
        f->before[i] = f->scalars[i];
        add_value(f, (uint8_t)fy_arg_passed_type(&rows[i], bits), &f->args[i]);
    }
    f->hidden = HIDDEN_LENGTH;
    for (unsigned i = 0; i < n; i++) {
        if (rows[i].flags & FY_ARG_HIDDEN_LENGTH) {
            add_value(f, FY_T_U64, &f->hidden);
        }
    }
    return 0;
}

static bool
any_replaced(const struct fy_invocation *invocation)
{
    for (unsigned c = 0; c < invocation->call->function->ncells; c++) {
        if (invocation->replaced[c]) {
            return true;
        }
    }
    return false;
}

int
fy_invoke(struct fy_invocation *invocation)
{
    const struct fy_bound *call = invocation->call;
    if (call->function->host_call != FY_NIL && any_replaced(invocation)) {
        return FY_ERR_UNSUPPORTED;
    }
    static struct frame frame; /* one thread calls at a time */
    memset(&frame, 0, sizeof frame);
    frame.invocation = invocation;
    int status = build(&frame);
    if (status != 0) {
        return status;
    }
    memset(&invocation->result, 0, sizeof invocation->result);
    struct fy_launch launch = {
        .function = invocation->original,
        .return_type = (uint8_t)fy_type_resolve(
            (enum fy_type)call->function->return_type, call->integer_bits),
        .nargs = frame.count,
        .types = frame.types,
        .values = frame.values,
        .result = &invocation->result,
    };
    static struct fy_cif *cifs;
    struct fy_call *prepared;
    status = fy_call_new(&cifs, &launch, &prepared);
    if (status != 0) {
        return status;
    }
    keep_fields(&frame);
    errno = 0;
    fy_call_run(prepared);
    invocation->error = errno;
    free(prepared);
    invocation->scalar_written = invocation->field_at = FY_NIL;
    take_fields(&frame);
    for (unsigned i = 0; i < call->function->nargs; i++) {
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bytes */
        if (memcmp(&frame.before[i], &frame.scalars[i],
                   sizeof frame.before[i]) != 0) {
            invocation->scalar_written = i;
        }
    }
    return 0;
}
