/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole calls of an original with replaced pointers, see the header. Scalars
 * passed by reference get storage of their own, which is compared afterwards.
 */
#include "config.h"

#include "pager/verify_invoke.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pager/call.h"

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
    bool copied[FY_MAX_ARGS]; /* the struct of this argument */
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
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0) {
        memcpy(f->structs[arg], f->args[arg].p, sizeof(uint64_t));
    }
    f->args[arg].p = f->structs[arg];
}

static int
replace_pointers(struct frame *f)
{
    const struct fy_bound *call = f->invocation->call;
    const struct fy_cell *cells =
        FY_TABLE(call->model, fy_cell, cells) + call->function->cells;
    for (unsigned c = 0; c < call->function->ncells; c++) {
        if (!f->invocation->replaced[c]) {
            continue;
        }
        char *pointer = f->invocation->pointer[c];
        switch (cells[c].kind) {
        case FY_CELL_VALUE:
            memcpy(&f->args[cells[c].arg], &pointer, sizeof pointer);
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
    const struct fy_arg *rows =
        FY_TABLE(call->model, fy_arg, args) + call->function->args;
    unsigned bits = call->integer_bits, n = call->function->nargs;
    memcpy(f->args, call->args, sizeof f->args);
    int status = replace_pointers(f);
    if (status != 0) {
        return status;
    }
    for (unsigned i = 0; i < n; i++) {
        if (f->invocation->opaque[i] != NULL) {
            f->args[i].p = f->invocation->opaque[i];
        }
        if ((rows[i].flags & FY_ARG_REFERENCE) && f->args[i].p != NULL) {
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
    fy_call_run(prepared);
    free(prepared);
    invocation->scalar_written = FY_NIL;
    for (unsigned i = 0; i < call->function->nargs; i++) {
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bytes */
        if (memcmp(&frame.before[i], &frame.scalars[i],
                   sizeof frame.before[i]) != 0) {
            invocation->scalar_written = i;
        }
    }
    return 0;
}
