/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocked algorithms: one BLAS or LAPACK call as a program of calls of itself
 * and of its relatives on blocks. Matrices are cut into blocks by shared cuts;
 * blocks are gathered into *macro-blocks* that stay on the device while operands
 * stream past. Written once for the Fortran and the C interface, both storage
 * orders, and every type. Private to the planner.
 */
#ifndef FERRY_PAGER_BLOCKED_ALGO_H
#define FERRY_PAGER_BLOCKED_ALGO_H

#include "annotations/model/nest.h"
#include "pager/plan/build.h"
#include "pager/plan/traffic.h"

enum {
    FY_MAX_ROUTINES = 6,
    FY_MAX_MATRICES = 4,
    FY_MAX_DIMENSIONS = 5,
    FY_MAX_BLOCK_STEPS = 1 << 17,
    FY_SIGNATURE_BYTES = 24,
};

/*
 * A function that runs on blocks. Its signature has a letter per argument:
 * s u t T d: side uplo transa transb diag; m n k; a b: alpha beta; A B C: a
 * matrix (or a vector of pivots), 1 2 3: its leading dimension; i: info; f l x: of
 * laswp, 1, k and 1; w W: a workspace and its size. In the C interfaces the
 * storage order comes first and is not in the signature; LAPACKE's functions have
 * no i, and w W only when they are called so.
 */
struct fy_routine {
    const struct fy_function
        *function; /* NULL: laswp, which is not annotated */
    void *address;
    char signature[FY_SIGNATURE_BYTES];
    uint32_t symbol; /* of model->symbols, when it has an address of its own */
};

/* A matrix of the call as it is stored: rows x cols, cut both ways. */
struct fy_matrix {
    int64_t rows, cols, ld;
    char *host;
    uint8_t access;             /* enum fy_access; 0: not accessed */
    char triangle;              /* 'L', 'U', or 0: all of it */
    bool strict;                /* the diagonal is not accessed */
    uint8_t row_cuts, col_cuts; /* dimensions */
    uint32_t element_bytes;     /* 0: the algorithm's */
    /* 64-bit pivots of which the device reads and writes the low halves. */
    bool narrow;
    /* Another matrix takes its place in host memory: never copied in twice. */
    bool once;
    bool flipped; /* its transpose is what is stored */
};

struct fy_algo;

/* Sizes of an algorithm that does not cut all dimensions freely. */
struct fy_algo_sizes {
    uint8_t free; /* bits of the dimensions that are cut; the others go whole */
    /* Blocks of that side in a macro-block, in either direction. NULL: 1. */
    uint32_t (*macro)(const struct fy_algo *algo, double side);
    /* Extents and cuts that follow from the free dimensions'. FY_ERR_NOFIT, .. */
    int (*beside)(struct fy_algo *algo);
    /* Makes the plan by fy_algo_cheapest() or fy_algo_even(). */
    int (*search)(struct fy_algo *algo);
};

/* An algorithm: a loop nest that a file declares, or functions. */
struct fy_algo_row {
    const char *name;
    const char *signature; /* of the call itself */
    /* Names of the `using' functions without type letter, by routine - 1. */
    const char *using[FY_MAX_ROUTINES - 1];
    /* The loops, or NULL; those for op(A) other than A where they differ. */
    const char *nest, *adjoint;
    /* Of a nest: letters of the dimensions' sizes, and the variables of each matrix's
     * rows and columns, which a transposed call swaps where there is a '. */
    const char *extents, *shapes;
    /* Fills matrices and extents; FY_ERR_UNSUPPORTED to refuse. */
    int (*setup)(struct fy_algo *algo);
    /* Looks at the operands before any plan is made, and allocates what is added to
     * them; FY_ERR_UNSUPPORTED, .. NULL: nothing. */
    int (*prepare)(struct fy_algo *algo);
    /* Emits every step, without loops in text; cuts and macro-blocks are set. */
    int (*program)(struct fy_algo *algo);
    bool hermitian; /* complex ones are, not symmetric */
    bool gathers;   /* the program gathers macro-blocks that fit by itself */
    /* Words moved at least, in elements, with room for `elements'. */
    double (*bound)(const struct fy_algo *algo, double elements);
    const struct fy_algo_sizes *sizes; /* NULL: fy_algo_search() */
    /* What the diagonal of A must be afterwards; a NaN anywhere gets there. */
    enum {
        FY_DIAGONAL_ANY,
        FY_DIAGONAL_FINITE,
        FY_DIAGONAL_REGULAR,
        FY_RESULT_FINITE /* all that is written of A */
    } diagonal;
};

/* What a file declares: a row and what that points to. */
struct fy_declared {
    struct fy_algo_row row;
    struct fy_nest_head head;
    char names[FY_MAX_ROUTINES - 1][16], signature[FY_SIGNATURE_BYTES];
};

struct fy_algo {
    struct fy_planner *planner;
    const struct fy_algo_row *row;
    struct fy_declared declared;
    bool is_complex, hermitian, c_interface, row_major;
    /* A call of LAPACKE, by Fortran routines on blocks; `turned' when it is
     * row-major: its blocks are column-major on the device. */
    bool lapacke, turned;
    uint32_t element_bytes;
    uint8_t element; /* enum fy_type of the matrices */
    /* The call's own arguments, reference names, Fortran letters. */
    char side, uplo, transa, diag;
    int64_t m, n, k;
    double alpha[2], beta[2];
    int64_t lwork; /* elements of the planner's workspace */
    struct fy_routine routines[FY_MAX_ROUTINES];
    struct fy_matrix matrices[FY_MAX_MATRICES]; /* A, B, C; D: the plan's */
    int64_t extent[FY_MAX_DIMENSIONS];
    struct fy_cuts cuts[FY_MAX_DIMENSIONS];
    uint32_t macro_rows, macro_cols; /* blocks of a macro-block */
    double room;                     /* elements that fit on the device */
    void *calls;                     /* variants made so far */
    bool flip;                       /* direction of the next snake */
    /* While sizes are compared: accesses instead of steps. */
    struct fy_access_trace *trace;
    uint32_t trace_room, trace_steps, trace_base[FY_MAX_MATRICES];
    uint64_t search_work; /* tiles and steps looked at by the search so far */
};

enum {
    FY_SELF = 0
}; /* routine 0 is the call's own function */

/* A block of a matrix: its letter, 'A' to 'D', and block indices. */
struct fy_block {
    char matrix; /* 0: the routine's argument is not accessed */
    uint32_t row, col;
    int64_t skip; /* the argument begins at this row of the block */
};

/* One call on blocks. Zero what does not apply: it is compared as bytes. */
struct fy_block_call {
    uint8_t routine;
    char side, uplo, transa, transb, diag;
    uint8_t access[3]; /* of the blocks */
    int64_t m, n, k;
    double alpha[2], beta[2];
};

/* blocks[i] is the i-th matrix argument of the routine. */
int fy_algo_call(struct fy_algo *algo, const struct fy_block_call *call,
                 const struct fy_block blocks[3]) FY_MUST_CHECK;

/* Drops what fy_algo_call() remembers of a finished plan. */
void fy_algo_forget_calls(struct fy_algo *algo);

/* The view of a matrix; naxes 0 when it is not accessed. */
void fy_algo_view(const struct fy_algo *algo, const struct fy_matrix *matrix,
                  struct fy_view *view);

/* The dimensions of factorisations by panels, and their choice of sizes. */
enum {
    FY_PANEL_ROWS,    /* one part: panels have full height */
    FY_PANEL_COLUMNS, /* of A: its panels */
    FY_PANEL_SIDES,   /* columns of right hand sides */
    FY_PANEL_ONE,     /* of a vector */
    FY_PANEL_FACTORS, /* 0, or min(m, n), cut as the columns are */
};

/* Whether the first matrix, a factor, can be divided by: fy_diagonal_is_regular(). */
bool fy_algo_is_regular(const struct fy_algo *algo);

/* Choose sizes and make the plan: the least traffic, or any at all. */
int fy_algo_search(struct fy_algo *algo) FY_MUST_CHECK;
int fy_algo_random(struct fy_algo *algo) FY_MUST_CHECK;
/* Makes the plan for blocks of that side; row->sizes is set. */
int fy_algo_even(struct fy_algo *algo, int64_t side) FY_MUST_CHECK;
/* Makes the plan that moves least of those for some sides; sides below 1 are left out. */
int fy_algo_cheapest(struct fy_algo *algo, const int64_t *sides,
                     unsigned count) FY_MUST_CHECK;
/* Makes D the identity, as large as the longest part of the first free dimension, and
 * with `tile' B a matrix as large beside it. `dimension' is that of their sides. */
int fy_algo_identity(struct fy_algo *algo, unsigned dimension,
                     bool tile) FY_MUST_CHECK;

/* Length of part i of a dimension. */
int64_t fy_algo_length(const struct fy_algo *algo, unsigned dimension,
                       uint32_t i);

/* Fills the routines of the algorithm's row. FY_ERR_UNSUPPORTED: one is missing. */
int fy_algo_find_routines(struct fy_algo *algo) FY_MUST_CHECK;
/* A function's signature, by the names of its arguments. FY_ERR_UNSUPPORTED: one is
 * none of the reference's. */
int fy_algo_signature(const struct fy_function *function,
                      const struct fy_model *model,
                      char out[FY_SIGNATURE_BYTES]) FY_MUST_CHECK;
/* The type letter and prefix of the `using' list: "d" or "cblas_d". */
int fy_algo_prefix(const struct fy_bound *bound, char *prefix,
                   size_t room) FY_MUST_CHECK;

extern const double fy_one[2], fy_minus_one[2];

/* 'T', or 'C' where the algorithm is the Hermitian one. */
char fy_algo_adjoint(const struct fy_algo *algo);

extern const struct fy_algo_row fy_algo_panels[];  /* getrf gesv geqrf gels */
extern const struct fy_algo_row fy_algo_inverse[]; /* getri */

/* The row of a call whose algorithm a file declares. FY_ERR_UNSUPPORTED: the names of
 * its arguments do not say it all. */
int fy_nest_declared(struct fy_algo *algo) FY_MUST_CHECK;
/* A nest's matrices and extents. */
int fy_nest_setup(struct fy_algo *algo) FY_MUST_CHECK;

#endif
