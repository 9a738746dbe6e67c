/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalars between their bytes in a call and the values of expressions.
 */
#include "config.h"

#include "pager/bind/bind.h"

#include <string.h>

enum fy_type
fy_type_resolve(enum fy_type type, unsigned integer_bits)
{
    if (type != FY_T_INTEGER) {
        return type;
    }
    return integer_bits == 64 ? FY_T_I64 : FY_T_I32;
}

enum fy_type
fy_arg_scalar_type(const struct fy_arg *arg)
{
    if ((arg->flags & FY_ARG_REFERENCE) && arg->type == FY_T_POINTER) {
        return (enum fy_type)arg->pointee;
    }
    return (enum fy_type)arg->type;
}

enum fy_type
fy_arg_passed_type(const struct fy_arg *arg, unsigned bits)
{
    if (arg->flags & FY_ARG_REFERENCE) {
        return FY_T_POINTER;
    }
    return fy_type_resolve((enum fy_type)arg->type, bits);
}

struct fy_value
fy_raw_value(enum fy_type type, const void *bytes)
{
    struct fy_value v = {.kind = FY_V_INT};
    union fy_raw raw = {{0, 0}};

    memcpy(&raw, bytes, fy_type_bytes(type, 64));
    switch (type) {
    case FY_T_CHAR:
    case FY_T_U8:
        v.i = raw.bytes[0];
        break;
    case FY_T_I8:
        /* NOLINTNEXTLINE(bugprone-signed-char-misuse): a number, with sign */
        v.i = (int8_t)raw.bytes[0];
        break;
    case FY_T_I16:
        v.i = (int16_t)raw.u[0];
        break;
    case FY_T_U16:
        v.i = (uint16_t)raw.u[0];
        break;
    case FY_T_I32:
        v.i = (int32_t)raw.u[0];
        break;
    case FY_T_U32:
        v.i = (uint32_t)raw.u[0];
        break;
    case FY_T_F32:
        v.kind = FY_V_REAL;
        v.r = raw.f[0];
        break;
    case FY_T_F64:
        v.kind = FY_V_REAL;
        v.r = raw.d[0];
        break;
    case FY_T_C32:
        v.kind = FY_V_COMPLEX;
        v.r = raw.f[0];
        v.im = raw.f[1];
        break;
    case FY_T_C64:
        v.kind = FY_V_COMPLEX;
        v.r = raw.d[0];
        v.im = raw.d[1];
        break;
    case FY_T_POINTER:
    case FY_T_HANDLE:
        v.kind = FY_V_POINTER;
        v.p = raw.u[0];
        break;
    default:
        v.i = (int64_t)raw.u[0];
        break;
    }
    return v;
}

static double
value_real(const struct fy_value *value)
{
    if (value->kind == FY_V_INT) {
        return (double)value->i;
    }
    return value->r;
}

void
fy_raw_store(enum fy_type type, const struct fy_value *value, void *bytes)
{
    union fy_raw raw = {{0, 0}};
    double im = value->kind == FY_V_COMPLEX ? value->im : 0;

    switch (type) {
    case FY_T_F32:
        raw.f[0] = (float)value_real(value);
        break;
    case FY_T_F64:
        raw.d[0] = value_real(value);
        break;
    case FY_T_C32:
        raw.f[0] = (float)value_real(value);
        raw.f[1] = (float)im;
        break;
    case FY_T_C64:
        raw.d[0] = value_real(value);
        raw.d[1] = im;
        break;
    default:
        if (value->kind == FY_V_POINTER) {
            raw.u[0] = value->p;
        } else if (value->kind == FY_V_INT) {
            raw.i = value->i;
        } else {
            raw.i = (int64_t)value->r;
        }
        break;
    }
    memcpy(bytes, &raw, fy_type_bytes(type, 64));
}
