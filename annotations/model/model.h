/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled form of annotation files: flat tables that refer to each other
 * by index and to strings by byte offset, so that one block of bytes can be
 * written to a file, mapped read-only at any address and used as it is, also
 * by a process without ferry's allocator. Made by fy_compile(); read by
 * the shim (names, `worth'), the pager (everything) and the tools.
 *
 * Plain data, immutable after compilation: safe from any thread, after fork
 * and in signal handlers.
 */
#ifndef FERRY_ANNOTATIONS_MODEL_MODEL_H
#define FERRY_ANNOTATIONS_MODEL_MODEL_H

#include <stdint.h>

#define FY_MODEL_MAGIC   "ferryMDL"
#define FY_MODEL_VERSION 10
#define FY_NIL           UINT32_MAX /* "no such index" in every table */

enum {
    FY_MAX_ARGS = 48,
    FY_MAX_CELLS = 96,
    FY_MAX_AXES = 12,        /* of one function */
    FY_MAX_OPERANDS = 16,    /* of one function */
    FY_MAX_OPERAND_AXES = 4, /* of one operand */
    FY_MAX_ALSO = 3,         /* further cells with the extent of one axis */
    FY_MAX_NODE_DEPTH =
        64, /* nesting of an expression; the checker refuses more */
    FY_MAX_NODE_STEPS = 4096, /* nodes visited when it is evaluated, shared ones
                               * counted every time: a bound on its run time */
};

/*
 * Value of an absent side of a conditional bound (`lower when E' with E false
 * gives lo = -FY_UNBOUNDED): larger than any extent that fits an address
 * space, small enough that sums of a few do not overflow.
 */
#define FY_UNBOUNDED (INT64_C(1) << 48)

typedef uint32_t fy_str; /* offset into the string table; 0 is "" */

enum fy_type {
    FY_T_VOID,
    FY_T_CHAR, /* one byte, also Fortran CHARACTER*1 */
    FY_T_I8,
    FY_T_U8,
    FY_T_I16,
    FY_T_U16,
    FY_T_I32,
    FY_T_U32,
    FY_T_I64,
    FY_T_U64,
    FY_T_INTEGER, /* signed, as wide as the library's build: see fy_symbol */
    FY_T_F32,
    FY_T_F64,
    FY_T_C32, /* complex float, 8 bytes */
    FY_T_C64, /* complex double, 16 bytes */
    FY_T_POINTER,
    FY_T_HANDLE, /* an opaque pointer that remembers the call that made it */
    FY_T_COUNT
};

/* One exported name. Sorted by name (strcmp). */
struct fy_symbol {
    fy_str name;
    uint32_t function;    /* first variant; variants chain by next_variant */
    uint8_t integer_bits; /* width of FY_T_INTEGER: 32, 64, or 0: probe */
    uint8_t spelling;     /* index of the spelling row that made the name */
    uint16_t reserved;
};

enum fy_return {
    FY_RETURN_PLAIN, /* void, or the value of a call that is never split */
    FY_RETURN_SUM,   /* chunks of a summed axis add up */
    FY_RETURN_HYPOT, /* chunks combine as sqrt(x*x + y*y), scaled */
    FY_RETURN_MAX,
    FY_RETURN_MIN,
};

enum fy_function_flag {
    FY_FN_FORTRAN = 1 << 0, /* scalars by reference, hidden lengths follow */
    FY_FN_MAKES = 1 << 1,   /* its result is a handle: observe, never offload */
    FY_FN_FREES = 1 << 2,   /* destroys the handle in its argument 0 */
    FY_FN_EXACT = 1 << 3,   /* results are promised bit for bit */
    FY_FN_OBSERVE_ONLY =
        1 << 4, /* nothing would come back: no operands, or neither one
                 * that is written nor a value. For its handle only */
};

struct fy_function {
    fy_str name;   /* without spelling: "dgemm", "cblas_dgemm" */
    fy_str family; /* name of the interface for `using': "fortran", "c" */
    fy_str file;   /* where it was declared, for diagnostics */
    uint32_t line;
    uint32_t next_variant; /* same name, tried in order; FY_NIL ends */
    uint32_t flags;        /* enum fy_function_flag */
    uint8_t return_type;   /* enum fy_type */
    uint8_t return_rule;   /* enum fy_return */
    uint16_t nargs;
    uint32_t args; /* first row in the args table; likewise below */
    uint32_t cells;
    uint16_t ncells;
    uint16_t naxes;
    uint32_t axes;
    uint32_t operands;
    uint16_t noperands;
    uint16_t nrequires;
    uint32_t requires; /* into the requires table */
    uint32_t lets;     /* into the lets table */
    uint16_t nlets;
    uint16_t reserved;
    uint32_t flops;       /* node, or FY_NIL */
    uint32_t worth;       /* node: false means decline; FY_NIL: always worth */
    uint32_t error;       /* node: c of the bound c * eps * |A||B|; FY_NIL */
    fy_str blocked_by;    /* an algorithm, or 0 */
    fy_str blocked_using; /* space-separated function names it calls, or 0 */
    fy_str blocked_nest;  /* its text (nest.h); 0: built in */
    uint32_t host_call;   /* `on host f(...)': row of the calls table, FY_NIL */
    uint32_t cuda_call;
    fy_str doc; /* the comment above it: equation and shapes */
};

enum fy_arg_flag {
    FY_ARG_REFERENCE = 1 << 0, /* scalar passed by reference (Fortran, int *) */
    FY_ARG_CONST = 1 << 1,     /* pointer to const */
    FY_ARG_OPAQUE = 1 << 2,    /* passed through untouched */
    FY_ARG_HIDDEN_LENGTH = 1 << 3, /* a size_t length follows the arguments */
};

struct fy_arg {
    fy_str name;
    uint8_t type; /* as passed: scalars their type, else FY_T_POINTER/HANDLE */
    uint8_t pointee; /* element type of a pointer, FY_T_VOID when unknown */
    uint16_t flags;  /* enum fy_arg_flag */
    fy_str handle;   /* handle type name, or 0 */
    uint32_t struct_bytes; /* of the struct it points to, or 0 */
    fy_str fields; /* of that struct, for messages: "OFFSET NAME\n..." */
};

enum fy_cell_kind {
    FY_CELL_VALUE,     /* the argument itself */
    FY_CELL_REFERENCE, /* *argument */
    FY_CELL_FIELD,     /* *(type *)((char *)argument + offset) */
    FY_CELL_HANDLE,    /* cell `offset' of the call that made handle `arg' */
    FY_CELL_ADDRESS,   /* (char *)argument + offset: of a field that is written,
                        * which the base of its operand is */
};

enum fy_cell_flag {
    FY_CELL_OPAQUE = 1 << 0, /* FIELD: a pointer passed through untouched */
};

/* A place an expression can read and a chunk can replace. */
struct fy_cell {
    fy_str name;     /* "m", "a->size1", "plan.n0" */
    uint16_t arg;    /* relative to the function's args */
    uint8_t kind;    /* enum fy_cell_kind */
    uint8_t type;    /* enum fy_type of the value that is read */
    uint8_t pointee; /* element type when type is FY_T_POINTER */
    uint8_t flags;   /* enum fy_cell_flag */
    uint8_t reserved[2];
    uint32_t offset; /* bytes (FIELD, ADDRESS), or cell of the maker (HANDLE) */
    uint32_t maker;  /* HANDLE: function index of the maker, else FY_NIL */
};

enum fy_op {
    FY_OP_INT,    /* literal i */
    FY_OP_REAL,   /* literal r */
    FY_OP_CELL,   /* a: cell, relative to the function's cells */
    FY_OP_EXTENT, /* a: axis, relative; its whole extent (chunk's, in a chunk) */
    FY_OP_NEG,
    FY_OP_NOT,
    FY_OP_ABS,
    FY_OP_ADD,
    FY_OP_SUB,
    FY_OP_MUL,
    FY_OP_DIV,
    FY_OP_MOD,
    FY_OP_LT,
    FY_OP_LE,
    FY_OP_GT,
    FY_OP_GE,
    FY_OP_EQ,
    FY_OP_NE,
    FY_OP_AND,
    FY_OP_OR,   /* short-circuit */
    FY_OP_COND, /* a ? b : c */
    FY_OP_MIN,
    FY_OP_MAX,
    FY_OP_IN,      /* a in "set": b is the fy_str of the set; a is a char */
    FY_OP_ADDRESS, /* a: operand, relative; only inside on ... calls; b: 1 when
                    * its two axes lie the other way round there (on cuda) */
    /* Only as a whole argument of an `on cuda' call: */
    FY_OP_WORD,   /* a: enum fy_word; WORKSPACE: b, its function's name, and c,
                   * bits of the arguments it takes; 0: all in front.
                   * CUFFT: c, a row of the calls table: its description */
    FY_OP_SCALAR, /* &a: the address of that scalar, in its cell's type, or of
                   * a number, in the type of the first operand's elements */
    /* Only inside `map': */
    FY_OP_ELEMENT, /* a: operand, relative: its element at the index */
    FY_OP_VALUE,   /* a: an earlier map of the same row: the value that it
                    * has stored */
    FY_OP_MATH,    /* u.i: enum fy_math; of a, b, c as it takes */
    FY_OP_COUNT
};

/*
 * Functions of `map' expressions: word, arguments, and whether the result is
 * correctly rounded everywhere, so that `exact' can be promised. Their value
 * is computed in the type of the arguments, float among floats.
 */
#define FY_MATHS(X)                       \
    X(SQRT, "sqrt", 1, true)              \
    X(CBRT, "cbrt", 1, false)             \
    X(EXP, "exp", 1, false)               \
    X(EXP2, "exp2", 1, false)             \
    X(EXP10, "exp10", 1, false)           \
    X(EXPM1, "expm1", 1, false)           \
    X(LOG, "log", 1, false)               \
    X(LOG2, "log2", 1, false)             \
    X(LOG10, "log10", 1, false)           \
    X(LOG1P, "log1p", 1, false)           \
    X(SIN, "sin", 1, false)               \
    X(COS, "cos", 1, false)               \
    X(TAN, "tan", 1, false)               \
    X(ASIN, "asin", 1, false)             \
    X(ACOS, "acos", 1, false)             \
    X(ATAN, "atan", 1, false)             \
    X(SINH, "sinh", 1, false)             \
    X(COSH, "cosh", 1, false)             \
    X(TANH, "tanh", 1, false)             \
    X(ASINH, "asinh", 1, false)           \
    X(ACOSH, "acosh", 1, false)           \
    X(ATANH, "atanh", 1, false)           \
    X(ERF, "erf", 1, false)               \
    X(ERFC, "erfc", 1, false)             \
    X(ERFINV, "erfinv", 1, false)         \
    X(ERFCINV, "erfcinv", 1, false)       \
    X(NORMCDF, "normcdf", 1, false)       \
    X(NORMCDFINV, "normcdfinv", 1, false) \
    X(TGAMMA, "tgamma", 1, false)         \
    X(LGAMMA, "lgamma", 1, false)         \
    X(FABS, "fabs", 1, true)              \
    X(FLOOR, "floor", 1, true)            \
    X(CEIL, "ceil", 1, true)              \
    X(TRUNC, "trunc", 1, true)            \
    X(ROUND, "round", 1, true)            \
    X(RINT, "rint", 1, true)              \
    X(POW, "pow", 2, false)               \
    X(ATAN2, "atan2", 2, false)           \
    X(HYPOT, "hypot", 2, false)           \
    X(FMOD, "fmod", 2, true)              \
    X(REMAINDER, "remainder", 2, true)    \
    X(FMIN, "fmin", 2, true)              \
    X(FMAX, "fmax", 2, true)              \
    X(FDIM, "fdim", 2, true)              \
    X(COPYSIGN, "copysign", 2, true)      \
    X(NEXTAFTER, "nextafter", 2, true)    \
    X(FMA, "fma", 3, true)

enum fy_math {
#define FY_MATH_ENUM(id, word, arity, exact) FY_MATH_##id,
    FY_MATHS(FY_MATH_ENUM)
#undef FY_MATH_ENUM
    FY_MATH_COUNT
};

/* A word that a device replaces by a value of its own when it issues a call. */
enum fy_word {
    FY_WORD_NONE,
    FY_WORD_CUBLAS,    /* handle of cuBLAS for the stream; likewise: */
    FY_WORD_CUSOLVER,  /* cuSOLVER dense */
    FY_WORD_INFO,      /* address of an int in device memory, 0 before */
    FY_WORD_WORKSPACE, /* address of device memory as large as the function
                        * says, while the call runs */
    FY_WORD_LWORK,     /* the number that it said (int) */
    FY_WORD_CUFFT,     /* a plan (int) of the transforms that are described */
    FY_WORD_COUNT
};

/*
 * An expression; children are absolute node indices < own index. Equal parts of
 * one function may be the same node; a `let' is the node of its value.
 */
struct fy_node {
    uint8_t op;
    uint8_t type; /* result: FY_T_I64, FY_T_F64, FY_T_C64, FY_T_POINTER, CHAR */
    uint16_t line;
    uint32_t a, b, c;
    union {
        int64_t i;
        double r;
    } u;
};

struct fy_let {
    fy_str name;
    uint32_t node;
};

struct fy_require {
    uint32_t node;
    uint32_t line;
    uint8_t reason; /* enum fy_reason: BAD_ARGUMENTS or EMPTY or UNSUPPORTED */
    uint8_t reserved[7];
};

enum fy_axis_flag {
    FY_AXIS_SPLIT = 1 << 0,  /* the original may be called on a part of it */
    FY_AXIS_SUMS = 1 << 1,   /* results of its parts add up in `sums_into' */
    FY_AXIS_RETURN = 1 << 2, /* ... in the return value, by return_rule */
};

struct fy_axis {
    fy_str name;
    uint32_t extent;    /* node */
    uint32_t cell;      /* relative cell that holds the extent; FY_NIL: none */
    uint32_t sums_into; /* relative operand, or FY_NIL */
    uint32_t with_cell; /* relative cell replaced in later chunks, or FY_NIL */
    uint32_t with_node; /* its value there */
    uint32_t flags;     /* enum fy_axis_flag */
    uint32_t multiple;  /* chunk extents are multiples of it; >= 1 */
    uint32_t also[FY_MAX_ALSO]; /* relative cells that hold the extent as well;
                                 * FY_NIL: unused */
};

enum fy_access {
    FY_ACCESS_IN = 1,
    FY_ACCESS_OUT = 2,
    FY_ACCESS_INOUT = 3,
    FY_ACCESS_SCRATCH = 4, /* contents undefined before and after */
    /* With IN, of a tile in a step: the kernel changes elements for a time. */
    FY_ACCESS_RESTORED = 8,
};

enum fy_operand_flag {
    /* Written with values that the inputs alone do not determine:
     * eigenvectors, and the rest of an input that the function destroys. */
    FY_OPERAND_AMBIGUOUS = 1 << 0,
    /* SCRATCH: the first element that comes back is a size of the workspace. */
    FY_OPERAND_QUERY = 1 << 1,
    /* SCRATCH: the values that come back mean something only if the call
     * fails. */
    FY_OPERAND_FAILURE = 1 << 2,
    /* If there is a NaN or an infinity in the input, only the original may
     * run. */
    FY_OPERAND_FINITE = 1 << 3,
};

struct fy_operand_axis {
    uint32_t axis;   /* relative axis */
    uint32_t stride; /* node, in elements of the operand; may be negative */
};

/*
 * Element (i, j, ...) of an operand lives at base + at + sum(index * stride).
 * When sign is not 0 only elements with lo <= i + sign * j <= hi exist, i the
 * first and j the second axis (triangles, bands; FY_NIL: unbounded).
 */
struct fy_operand {
    fy_str name;
    uint32_t line;
    uint16_t base;   /* relative cell, of type FY_T_POINTER */
    uint8_t element; /* enum fy_type */
    uint8_t access;  /* enum fy_access, before the conditions */
    uint8_t naxes;
    int8_t sign;       /* 0 none, +1, -1 */
    uint16_t flags;    /* enum fy_operand_flag */
    uint32_t at;       /* node, elements, or FY_NIL: 0 */
    uint32_t lo, hi;   /* nodes, or FY_NIL */
    uint32_t when;     /* node: accessed at all; FY_NIL: always */
    uint32_t out_when; /* node: INOUT becomes OUT (not read); FY_NIL: never */
    uint32_t in_when;  /* node: INOUT becomes IN (not written); FY_NIL: never */
    uint32_t finite_lo, finite_hi; /* FINITE: nodes, only these i - j; FY_NIL:
                                    * all that is read */
    uint32_t
        returns; /* node: SCRATCH: so many first elements come back (LAPACK's
                        * WORK(1)); FY_NIL: none */
    struct fy_operand_axis axes[FY_MAX_OPERAND_AXES];
};

enum fy_call_kind {
    FY_CALL_LIBRARY, /* a function of a library */
    FY_CALL_KERNEL,  /* a kernel of the user's, in CUDA C */
    FY_CALL_MAP,     /* `map': a kernel made from expressions */
};

/*
 * `on host f(args)': another function of the provider runs the chunk; `on cuda
 * f(args)': a function of the device's own libraries does. A call on the
 * device may be several such steps, one after the other.
 */
struct fy_call_row {
    fy_str function; /* KERNEL: its name; MAP: "" */
    uint8_t kind;    /* enum fy_call_kind */
    uint8_t reserved[3];
    uint32_t next;   /* the step behind it; greater, FY_NIL ends */
    uint32_t kernel; /* KERNEL: row of the kernels table */
    uint32_t line;   /* of the statement, the first of several maps */
    uint32_t nargs;
    uint32_t args[FY_MAX_ARGS]; /* nodes; MAP: the values, in order */
    uint8_t to[FY_MAX_ARGS];    /* KERNEL: enum fy_type of the parameter;
                                 * MAP: the relative operand that is written */
};

enum {
    FY_MAX_KERNEL_BYTES = 256 << 10, /* of CUDA C */
};

struct fy_kernel_row {
    fy_str file;                        /* for messages */
    fy_str text;                        /* all of it, as it was checked */
    uint32_t grid[3], block[3], shared; /* nodes; FY_NIL: 1, 0 bytes */
};

/*
 * The arguments of the row that describes a plan of cuFFT. An axis that is not
 * there has extent 1; an absent row is as long as the extent asks for.
 */
enum fy_cufft_argument {
    FY_CUFFT_BATCH,                         /* number of transforms */
    FY_CUFFT_N,                             /* 3 extents, row-major */
    FY_CUFFT_FROM = FY_CUFFT_N + 3,         /* stride, distance, and */
    FY_CUFFT_FROM_ROWS = FY_CUFFT_FROM + 2, /* allotments of axes 1, 2; */
    FY_CUFFT_TO = FY_CUFFT_FROM_ROWS + 2,   /* FY_NIL: see above */
    FY_CUFFT_TO_ROWS = FY_CUFFT_TO + 2,
    FY_CUFFT_ARGUMENTS = FY_CUFFT_TO_ROWS + 2,
};

struct fy_table {
    uint32_t offset; /* bytes from the model's start, 8-aligned */
    uint32_t count;
};

struct fy_model {
    char magic[8];
    uint32_t version;
    uint32_t size_bytes;
    uint64_t content_hash; /* of everything after it: fy_model_hash() */
    struct fy_table symbols, functions, args, cells, nodes, lets, requires,
        axes, operands, calls, kernels, strings;
};

#define FY_TABLE(model, kind, table) \
    ((const struct kind *)((const char *)(model) + (model)->table.offset))

/* A function's own rows of a table; `of' has a model and a function. */
#define FY_OF(of, kind, table) \
    (FY_TABLE((of)->model, kind, table) + (of)->function->table)

static inline const char *
fy_model_string(const struct fy_model *model, fy_str s)
{
    return (const char *)model + model->strings.offset + s;
}

#endif
