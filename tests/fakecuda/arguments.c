/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks and makes a call of a routine of the host's reference BLAS by a text
 * that lists its arguments in Fortran's order:
 *
 *   transa uplo side diag    a letter; must be of its enum
 *   m n k kl ku              an integer, not negative
 *   alpha beta               a scalar; its address must be given
 *   A(m,k,transa)            a matrix and its leading dimension: rows and
 *                            columns, exchanged unless transa is CUBLAS_OP_N
 *   x(n,m,trans) x(n)        a vector and its increment: n elements, m unless
 *                            trans is CUBLAS_OP_N
 *   A(packed)                a triangle of order n without leading dimension
 *
 * Rows and columns are sums of integers' names and digits; "order" is the
 * order of a matrix at that side of an m x n matrix. '!' behind an operand:
 * the routine writes it.
 */
#include "config.h"

#include <ctype.h>
#include <ffi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/blas.h"
#include "tests/fakecuda/netlib.h"

#define INVALID       CUBLAS_STATUS_INVALID_VALUE
#define FINE          CUBLAS_STATUS_SUCCESS
#define NAME_MAX_     16
#define POINTERS_MAX  16
#define LETTERS_MAX   4
#define ARGUMENTS_MAX (POINTERS_MAX + LETTERS_MAX)

enum kind {
    OP,
    FILL,
    SIDE,
    DIAGONAL,
    INTEGER,
    SCALAR,
    OPERAND,
    VECTOR
};

static const char *const letters[] = {"NTC", "LU", "LR", "NU"};

static const struct field {
    const char *name;
    enum kind kind;
    size_t at, value_at; /* value: a scalar's; an operand's ld or increment */
} fields[] = {
#define AT(name) offsetof(struct blas_call, name)
    {"transa", OP, AT(transa), 0},
    {"transb", OP, AT(transb), 0},
    {"trans", OP, AT(trans), 0},
    {"uplo", FILL, AT(uplo), 0},
    {"side", SIDE, AT(side), 0},
    {"diag", DIAGONAL, AT(diag), 0},
    {"m", INTEGER, AT(m), 0},
    {"n", INTEGER, AT(n), 0},
    {"k", INTEGER, AT(k), 0},
    {"kl", INTEGER, AT(kl), 0},
    {"ku", INTEGER, AT(ku), 0},
    {"alpha", SCALAR, AT(alpha), AT(alpha_value)},
    {"beta", SCALAR, AT(beta), AT(beta_value)},
    {"A", OPERAND, AT(A), AT(lda)},
    {"B", OPERAND, AT(B), AT(ldb)},
    {"C", OPERAND, AT(C), AT(ldc)},
    {"x", VECTOR, AT(x), AT(incx)},
    {"y", VECTOR, AT(y), AT(incy)},
#undef AT
};

struct argument {
    const struct field *field;
    int64_t rows, columns; /* of an operand; a vector has one column */
    bool packed, write;
};

static void *
place(struct blas_call *call, size_t at)
{
    return (char *)call + at;
}

static const struct field *
field_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strlen(fields[i].name) == length &&
            memcmp(fields[i].name, name, length) == 0) {
            return &fields[i];
        }
    }
    abort(); /* a fault of the table */
}

/* Returns the length of a name or number at text. */
static size_t
word(const char *text)
{
    size_t length = 0;

    while (isalnum((unsigned char)text[length])) {
        length++;
    }
    return length;
}

static int64_t
sum(struct blas_call *call, const char **text)
{
    int64_t value = 0;
    size_t length;

    do {
        *text += **text == '+';
        length = word(*text);
        if (isdigit((unsigned char)**text)) {
            value += **text - '0';
        } else if (length == 5 && memcmp(*text, "order", 5) == 0) {
            value += call->side == CUBLAS_SIDE_LEFT ? call->m : call->n;
        } else {
            value += *(int64_t *)place(call, field_of(*text, length)->at);
        }
        *text += length;
    } while (**text == '+');
    return value;
}

/* Reads the next argument of the text; false at its end. */
static bool
next(struct blas_call *call, const char **text, struct argument *argument)
{
    size_t length;
    const char *at = *text + strspn(*text, " ");

    if (*at == '\0') {
        return false;
    }
    length = word(at);
    *argument = (struct argument){.field = field_of(at, length), .columns = 1};
    at += length;
    if (*at == '(') {
        at++;
        argument->packed = strncmp(at, "packed", 6) == 0;
        if (argument->packed) {
            argument->rows = call->n < 0 ? -1 : call->n * (call->n + 1) / 2;
            at += 6;
        } else {
            argument->rows = sum(call, &at);
        }
        if (*at == ',') {
            at++;
            argument->columns = sum(call, &at);
        }
        if (*at == ',') {
            at++;
            length = word(at);
            if (*(int *)place(call, field_of(at, length)->at) != CUBLAS_OP_N) {
                int64_t rows = argument->rows;
                argument->rows = argument->columns;
                argument->columns = rows;
            }
            at += length;
        }
        at++;
    }
    argument->write = *at == '!';
    *text = at + argument->write;
    return true;
}

static int
check(struct blas_call *call, const struct argument *argument)
{
    const struct field *field = argument->field;
    const void *at = place(call, field->at);
    const void *address;
    int64_t ld;

    switch (field->kind) {
    case OP:
    case FILL:
    case SIDE:
    case DIAGONAL:
        return *(const int *)at >= 0 &&
                       (size_t) * (const int *)at < strlen(letters[field->kind])
                   ? FINE
                   : INVALID;
    case INTEGER:
        /* A vector may have less than no element. */
        return *(const int64_t *)at >= 0 || call->vector ? FINE : INVALID;
    case SCALAR:
        return *(void *const *)at != NULL ? FINE : INVALID;
    default:
        address = *(void *const *)at;
        ld = *(int64_t *)place(call, field->value_at);
        break;
    }
    if (field->kind == VECTOR) {
        return blas_use_vector(call, address, argument->rows, ld,
                               argument->write);
    }
    return blas_use(call, address, argument->rows, argument->columns,
                    argument->packed ? (argument->rows > 1 ? argument->rows : 1)
                                     : ld,
                    argument->write);
}

int
blas_check_arguments(struct blas_call *call, const char *text)
{
    struct argument argument;
    int status = FINE;

    while (status == FINE && next(call, &text, &argument)) {
        status = check(call, &argument);
    }
    return status;
}

static ffi_type *
result_type(const struct blas_call *call, enum blas_answer answer)
{
    bool single = call->type == 'S' || call->type == 'C';

    switch (answer) {
    case BLAS_NO_ANSWER:
        return &ffi_type_void;
    case BLAS_INDEX:
        return &ffi_type_sint64;
    case BLAS_ELEMENT:
        if (blas_complex(call)) {
            return single ? &ffi_type_complex_float : &ffi_type_complex_double;
        }
        break;
    case BLAS_REAL:
        break;
    }
    return single ? &ffi_type_float : &ffi_type_double;
}

int
blas_call_fortran(struct blas_call *call, const struct blas_routine *routine,
                  void *answer)
{
    void *function = netlib_routine(routine->fortran, call->type);
    void *pointers[POINTERS_MAX], *values[ARGUMENTS_MAX];
    ffi_type *types[ARGUMENTS_MAX];
    size_t one = 1;
    unsigned n = 0, n_letters = 0;
    struct argument argument;
    const char *text = routine->arguments;
    ffi_cif cif;

    if (function == NULL) {
        return CUDA_ERROR_NOT_FOUND;
    }
    while (next(call, &text, &argument)) {
        const struct field *field = argument.field;
        void *at = place(call, field->at);

        switch (field->kind) {
        case OP:
        case FILL:
        case SIDE:
        case DIAGONAL:
            pointers[n++] = (void *)&letters[field->kind][*(int *)at];
            n_letters++;
            break;
        case INTEGER:
            pointers[n++] = at;
            break;
        case SCALAR:
            pointers[n++] = place(call, field->value_at);
            break;
        default:
            pointers[n++] = blas_at(*(void **)at);
            if (!argument.packed) {
                pointers[n++] = place(call, field->value_at);
            }
            break;
        }
    }
    for (unsigned i = 0; i < n + n_letters; i++) {
        values[i] = i < n ? (void *)&pointers[i] : (void *)&one;
        types[i] = i < n ? &ffi_type_pointer : &ffi_type_uint64;
    }
    if (ffi_prep_cif(&cif, FFI_DEFAULT_ABI, n + n_letters,
                     result_type(call, routine->answer), types) != FFI_OK) {
        return CUDA_ERROR_NOT_FOUND;
    }
    ffi_call(&cif, FFI_FN(function), answer, values);
    return CUDA_SUCCESS;
}
