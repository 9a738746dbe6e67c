/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that calls every function the shipped annotations describe, with
 * random valid arguments. Each call is made twice on equal memory: as any
 * program would make it (which is what ferry sees), and in a second copy of
 * the library in a link namespace of its own, which no preload reaches. All
 * memory of both calls is then compared, element by element.
 *
 * Nothing here is derived from the annotation files: shapes and checks are
 * written a second time, from the manuals of the libraries.
 */
#ifndef FERRY_TESTS_DRIVE_H
#define FERRY_TESTS_DRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MAX_ARGS = 32,
    MAX_BUFFERS = 12,
    MAX_VALUE_BYTES = 16
};
enum {
    MARGIN_BYTES = 64
}; /* poison before and behind every buffer */

enum interface {
    FORTRAN,
    CBLAS,
    LAPACKE
};

enum {
    DEFAULT_SIZE = 40
};

/* Memory of one argument; `twin' is what the second copy works on. */
struct buffer {
    char name[12];
    char type;         /* s d c z: elements; i: INTEGER */
    bool is_workspace; /* only its first `returned' elements are compared */
    bool destroyed;    /* what is left in it is nobody's result */
    /* Holds eigenvectors or singular vectors, which mean the same when they are
     * multiplied by a number of modulus 1: `count' of them, `length' elements
     * `step' apart, starting `stride' apart. count is 0 for all others. */
    struct {
        int64_t count, length, stride, step;
    } vectors;
    size_t elements, returned;
    char *base, *twin; /* allocations */
    char *data, *twin_data;
};

struct argument {
    char name[12];
    char kind;  /* c: char, e: C int, i: INTEGER, b: buffer, p: other pointer,
                 * l: size_t, and s d c z: a scalar of that type */
    int buffer; /* of kind b */
    char value[MAX_VALUE_BYTES], twin_value[MAX_VALUE_BYTES];
};

struct call {
    const char *symbol; /* exported name, "cblas_dgemm" */
    char type;          /* s d c z: element type of this row */
    enum interface interface;
    bool row_major;    /* CBLAS and LAPACKE, once layout() has run */
    bool work_variant; /* LAPACKE_..._work */
    bool aligned;      /* buffers to 64 bytes, else to an element */
    unsigned max_size; /* extents are 0 .. max_size; of transforms, when it is
                        * more than the default: about so many elements */
    uint64_t random;
    char result; /* kind of the return value; 0: void */
    unsigned nargs, nbuffers, nhidden;
    struct argument args[MAX_ARGS];
    struct buffer buffers[MAX_BUFFERS];
    double growth; /* bound on the difference, in units of epsilon * scale */
    double scale;  /* the largest magnitude in its memory */
};

/* One routine: fills in the arguments of `call'. */
typedef void build_fn(struct call *call);

/* A routine exists once per type in `types'. */
struct routine {
    const char *name;  /* "%cgemm": %c becomes the type */
    const char *types; /* "sdcz" */
    char result;       /* kind; 'T' the row's type, 'R' its real one */
    build_fn *build;
    unsigned interfaces; /* bits 1 << enum interface */
};

extern const struct routine blas1_routines[], blas2_routines[],
    blas3_routines[], lapack_routines[]; /* end with a null name */

/* Compare only what manuals promise, for code that is not the library's: nothing
 * of what a routine destroys. */
extern bool documented_only;
/* Whether INTEGER has 64 bits in the library under test. */
extern bool integer_is_64;

/* Numbers; all depend only on call->random. */
uint64_t random_bits(struct call *call);
int64_t random_int(struct call *call, int64_t lo, int64_t hi);
double random_unit(struct call *call); /* -1 .. 1 */
int64_t random_size(struct call *call);

/* Arguments, in the order of the function's head. */
void layout(struct call *call); /* order; nothing in Fortran */
/* One of the letters, as a character or as CBLAS' number for that kind. */
char flag(struct call *call, const char *name, const char *letters);
int64_t size(struct call *call, const char *name, int64_t value);
/* 0, 1 or random; returns whether it is 0 / 1 in the two bits. */
enum {
    IS_ZERO = 1,
    IS_ONE = 2
};
unsigned scalar(struct call *call, const char *name, char type);
void pointer(struct call *call, const char *name, const void *value,
             const void *twin_value);

/* Buffers. Everything is poison (a NaN of ours) until it is filled. */
struct buffer *array(struct call *call, const char *name, char type,
                     size_t elements);
struct buffer *workspace(struct call *call, const char *name, char type,
                         size_t elements, size_t returned);
void fill(struct call *call, struct buffer *buffer, size_t at, double scale,
          double shift);
void set_integer(struct buffer *buffer, size_t at, int64_t value);

/* What a matrix holds where. */
struct shape {
    int64_t m, n;    /* rows, columns */
    char uplo;       /* U, L, or 0: all of it */
    bool unit;       /* the diagonal is not there */
    double diagonal; /* added to its diagonal elements ... */
    double step;     /* ... and times the row number */
    double scale;    /* of the random part; 0 means 1 */
    bool real_diagonal;
    bool unread; /* leave poison */
};
/* A matrix with padding, and its leading dimension behind it. */
struct buffer *matrix(struct call *call, const char *name, char type,
                      const struct shape *shape, const char *ld_name);
/* Its columns, or rows, are unique up to a factor. */
void unique_up_to_factor(const struct call *call, struct buffer *matrix,
                         bool columns, int64_t count, int64_t length);
/* The same with kl sub- and ku superdiagonals in band storage. */
struct buffer *band(struct call *call, const char *name,
                    const struct shape *shape, int64_t kl, int64_t ku,
                    const char *ld_name);
/* A packed triangle (uplo is set). */
struct buffer *packed(struct call *call, const char *name,
                      const struct shape *shape);
/* A vector, and its increment behind it. */
struct buffer *vector(struct call *call, const char *name, char type, int64_t n,
                      bool negative, bool unread, const char *inc_name);
void info(struct call *call); /* Fortran only */

static inline char
real_of(char type)
{
    return type == 'c' ? 's' : type == 'z' ? 'd' : type;
}

static inline bool
is_complex(char type)
{
    return type == 'c' || type == 'z';
}

static inline int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t
most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

size_t type_bytes(char type);
double type_epsilon(char type);

/* Copies all buffers to their twins, and notes how large their numbers are. */
void snapshot_call(struct call *call);
/*
 * The largest difference between buffers and twins in units of the bound (<= 1
 * is good), or a negative number when a byte that must not change did. `what'
 * names the place; `digest' depends on the twins' results only.
 */
double compare_call(struct call *call, const char **what, double *digest);
/* Runs a built call both ways and compares memory and result likewise. */
double run_call(struct call *call, void *function, void *twin_function,
                const char **what, double *digest);
void free_call(struct call *call);

/* What the command line asked for. */
struct drive {
    const char *blas, *lapack, *lapacke;
    uint64_t seed;
    unsigned count, max_size;
    bool list, verbose, twins;
    char **patterns;
    unsigned npatterns;
};

/* Whether one of the names (NULL: none) is wanted. */
bool drive_wants(const struct drive *drive, const char *a, const char *b,
                 const char *c);
uint64_t drive_hash(const char *text, uint64_t seed);
/* Prints the line of one function and adds to the totals. */
void drive_summary(const char *name, unsigned count, unsigned bad, double worst,
                   double digest);

/* FFTW of one precision. */
typedef void *lookup_fn(const char *name, bool twin);
void drive_fftw(const char *prefix, char type, const struct drive *drive,
                lookup_fn *lookup);

#endif
