/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls a function by its prototype through libffi, on the thread that runs
 * the stream. Complex results differ between ABIs and are refused, as
 * is FY_T_INTEGER: the planner knows the library's width, we do not.
 */
#include "config.h"

#include "pager/device/call.h"

#include <ffi.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/model/model.h"
#include "pager/device/own_thread.h"

enum {
    MAX_ARGS = 256
};

struct fy_cif {
    struct fy_cif *next;
    ffi_cif cif;
    uint8_t return_type;
    uint16_t nargs;
    const uint8_t *types;
    ffi_type *ffi_types[];
};

static ffi_type *
ffi_type_of(uint8_t type)
{
    switch ((enum fy_type)type) {
    case FY_T_VOID:
        return &ffi_type_void;
    case FY_T_CHAR:
    case FY_T_I8:
        return &ffi_type_sint8;
    case FY_T_U8:
        return &ffi_type_uint8;
    case FY_T_I16:
        return &ffi_type_sint16;
    case FY_T_U16:
        return &ffi_type_uint16;
    case FY_T_I32:
        return &ffi_type_sint32;
    case FY_T_U32:
        return &ffi_type_uint32;
    case FY_T_I64:
        return &ffi_type_sint64;
    case FY_T_U64:
        return &ffi_type_uint64;
    case FY_T_F32:
        return &ffi_type_float;
    case FY_T_F64:
        return &ffi_type_double;
    case FY_T_POINTER:
    case FY_T_HANDLE:
        return &ffi_type_pointer;
#ifdef FFI_TARGET_HAS_COMPLEX_TYPE
    case FY_T_C32:
        return &ffi_type_complex_float;
    case FY_T_C64:
        return &ffi_type_complex_double;
#else
    case FY_T_C32:
    case FY_T_C64:
#endif
    case FY_T_INTEGER:
    case FY_T_COUNT:
        break;
    }
    return NULL;
}

static int
cif_new(const struct fy_launch *launch, struct fy_cif **out)
{
    uint16_t n = launch->nargs;
    ffi_type *result = ffi_type_of(launch->return_type);
    if (!result || n > MAX_ARGS || launch->return_type == FY_T_C32 ||
        launch->return_type == FY_T_C64) {
        return FY_ERR_UNSUPPORTED;
    }
    struct fy_cif *c = malloc(sizeof *c + n * (sizeof(ffi_type *) + 1U));
    if (!c) {
        return FY_ERR_NOMEM;
    }
    uint8_t *types = (uint8_t *)(c->ffi_types + n);
    for (unsigned i = 0; i < n; i++) {
        types[i] = launch->types[i];
        c->ffi_types[i] = ffi_type_of(types[i]);
        if (!c->ffi_types[i] || types[i] == FY_T_VOID) {
            goto refuse;
        }
    }
    if (ffi_prep_cif(&c->cif, FFI_DEFAULT_ABI, n, result, c->ffi_types) !=
        FFI_OK) {
        goto refuse;
    }
    c->return_type = launch->return_type;
    c->nargs = n;
    c->types = types;
    *out = c;
    return 0;

refuse:
    free(c);
    return FY_ERR_UNSUPPORTED;
}

int
fy_call_new(struct fy_cif **cifs, const struct fy_launch *launch,
            struct fy_call **out)
{
    struct fy_cif *c;
    for (c = *cifs; c; c = c->next) {
        if (c->return_type == launch->return_type &&
            c->nargs == launch->nargs &&
            (c->nargs == 0 ||
             memcmp(c->types, launch->types, launch->nargs) == 0)) {
            break;
        }
    }
    if (!c) {
        int status = cif_new(launch, &c);
        if (status != 0) {
            return status;
        }
        c->next = *cifs;
        *cifs = c;
    }
    struct fy_call *call =
        malloc(sizeof *call + launch->nargs * sizeof call->values[0]);
    if (!call) {
        return FY_ERR_NOMEM;
    }
    call->cif = c;
    call->function = (void (*)(void))launch->function;
    call->result = launch->result;
    call->return_type = launch->return_type;
    for (unsigned i = 0; i < launch->nargs; i++) {
        memcpy(call->values[i], launch->values[i], c->ffi_types[i]->size);
    }
    *out = call;
    return 0;
}

void
fy_call_run(const struct fy_call *call)
{
    const struct fy_cif *c = call->cif;
    union {
        ffi_arg integer;
        uint64_t words[2];
    } result = {.words = {0, 0}};
    void *values[MAX_ARGS];
    for (unsigned i = 0; i < c->nargs; i++) {
        values[i] = (void *)(uintptr_t)call->values[i];
    }
    /* Exceptions of the original are the program's; those of ferry's own arithmetic are
     * not. */
    uint32_t before = fy_floating_point();
    fy_set_floating_point(before & ~FY_RAISED);
    ffi_call((ffi_cif *)(uintptr_t)&c->cif, call->function, &result, values);
    fy_own_block()->raised |= fy_floating_point() & FY_RAISED;
    fy_set_floating_point(fy_floating_point() | (before & FY_RAISED));
    if (call->result && call->return_type != FY_T_VOID) {
        memcpy(call->result, &result, 8);
    }
}

void
fy_cifs_free(struct fy_cif *cifs)
{
    while (cifs) {
        struct fy_cif *next = cifs->next;
        free(cifs);
        cifs = next;
    }
}
