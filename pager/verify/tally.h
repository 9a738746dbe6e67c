/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `ferry verify' knows after many calls, in many processes: a file of
 * counters beside the file of findings, mapped by every process of the run.
 * Some statements ("this operand is never read") can be made only at the end,
 * by fy_verify_report(), which `ferry verify' calls when the program is done.
 *
 * Counters are relaxed atomics; losing one is harmless.
 */
#ifndef FERRY_PAGER_VERIFY_TALLY_H
#define FERRY_PAGER_VERIFY_TALLY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "annotations/model/model.h"
#include "common/status.h"

#define FY_TALLY_MAGIC "ferryVFY"

/* The words of a finding's kind; part of the findings file. */
#define FY_FINDINGS(X)                                                         \
    X(OUTSIDE, "outside") /* touched memory outside the operand */             \
    X(UNDECLARED_WRITE, "undeclared-write") /* wrote between its elements */   \
    X(IN_MODIFIED, "in-modified")   /* wrote an operand declared `in' */       \
    X(NOT_ACCESSED, "not-accessed") /* touched it although `when' is false */  \
    X(OPAQUE, "opaque-accessed")    /* touched an array declared opaque */     \
    X(NOT_WRITTEN, "not-written")   /* left an `out' element as it was */      \
    X(DEPENDS, "depends-on-undeclared") /* other bytes change the result */    \
    X(CHUNKS, "chunks-differ")          /* chunks do not give the whole */     \
    X(CHUNK_OUTSIDE, "chunk-outside")   /* a chunk touched other memory */     \
    X(CHUNK_WRITE, "chunk-write") /* a chunk wrote elements that are not its
                                   * own */   \
    X(MAP, "map-differs")         /* a map computes something else */          \
    X(SCALAR_WRITTEN, "scalar-written") /* wrote a scalar argument */          \
    X(ERRNO,                                                                   \
      "errno-set")      /* changed errno, which an offloaded call does not */  \
    X(PRINTS, "prints") /* wrote to an open file, once for each chunk */       \
    X(UNMAPPED, "unmapped") /* declares memory that is not there */            \
    X(CRASHED, "crashed")   /* fault elsewhere, on the copies only */          \
    X(EXITED, "exited")     /* ended the program, on copies only */            \
    X(TIMEOUT, "timeout")   /* did not end, on copies only */                  \
    X(INVALID, "invalid")   /* the annotation cannot be evaluated */           \
    X(NOT_READ, "declared-not-read")                                           \
    X(NEVER_WRITTEN, "declared-not-written")                                   \
    X(NOT_CHECKABLE, "not-checkable") /* every call was declined */            \
    X(OVERREAD, "note-overread")      /* reads past the end, and drops it */   \
    X(UNREAD, "note-unread")         /* the end of an input of a right axis */ \
    X(NEVER_READ, "note-never-read") /* inout, but out would do: no error */

enum fy_finding_kind {
#define FY_FINDING_ENUM(id, word) FY_FINDING_##id,
    FY_FINDINGS(FY_FINDING_ENUM)
#undef FY_FINDING_ENUM
    FY_FINDING_COUNT
};

/* Slabs of an operand whose content is changed to see whether it matters. */
enum {
    FY_SLAB_LAST = 0,                      /* the last index of axis k: row k */
    FY_SLAB_LO = FY_MAX_OPERAND_AXES,      /* the elements on its lower bound */
    FY_SLAB_HI = FY_MAX_OPERAND_AXES + 1,  /* ... upper bound */
    FY_SLAB_ALL = FY_MAX_OPERAND_AXES + 2, /* every element */
    FY_SLABS,
};

struct fy_tally_slab {
    uint32_t read_tested, read_mattered; /* operands with IN */
    uint32_t kept; /* came out as they were put in: `out' would lose them */
    uint32_t written_tested, written_changed; /* operands with OUT */
};

struct fy_tally_operand {
    uint32_t reported; /* bit per kind */
    struct fy_tally_slab slab[FY_SLABS];
};

struct fy_tally_function {
    uint32_t reported;
    uint32_t calls;        /* seen */
    uint32_t checked;      /* all experiments made */
    uint32_t sampled;      /* left out: similar calls were checked */
    uint32_t large;        /* left out: too large */
    uint32_t failed;       /* left out: no child process, no memory */
    uint32_t crashed;      /* left out: the original itself does not return */
    uint32_t declined[32]; /* by enum fy_reason */
    uint32_t faulty;       /* calls with findings */
    uint32_t uncut;        /* calls that the planner has no chunks for */
    uint32_t mapped;       /* calls whose maps were computed and compared */
    uint32_t undecided;    /* ... whose results jump by themselves */
};

struct fy_tally {
    char magic[8];
    uint64_t model_hash;
    uint32_t nfunctions, noperands; /* rows as in the model */
    /* struct fy_tally_function[], then struct fy_tally_operand[] */
    uint64_t rows[];
};

static inline struct fy_tally_function *
fy_tally_function(struct fy_tally *tally, uint32_t function)
{
    return (struct fy_tally_function *)tally->rows + function;
}

static inline struct fy_tally_operand *
fy_tally_operand(struct fy_tally *tally, uint32_t operand)
{
    struct fy_tally_function *end =
        (struct fy_tally_function *)tally->rows + tally->nfunctions;
    return (struct fy_tally_operand *)end + operand;
}

#define FY_TALLY_ADD(field) \
    ((void)__atomic_fetch_add(&(field), 1, __ATOMIC_RELAXED))

/*
 * Maps the counters that belong to the findings file `path' (making
 * "PATH.tally" when it is missing). FY_ERR_IO; FY_ERR_INVALID when the file is
 * of another model.
 */
int fy_tally_open(const struct fy_model *model, const char *path,
                  struct fy_tally **out) FY_MUST_CHECK;
void fy_tally_close(struct fy_tally *tally);

/*
 * Appends one finding (once per operand and kind, or per function and kind
 * when `operand' is FY_NIL; later ones are dropped) to `path':
 * "FILE \t LINE \t FUNCTION \t OPERAND \t KIND \t TEXT \n". Leaves errno alone.
 */
void fy_tally_report(struct fy_tally *tally, const struct fy_model *model,
                     const char *path, uint32_t function, uint32_t operand,
                     enum fy_finding_kind kind, const char *text);

/* Returns true if that finding was already made. */
bool fy_tally_reported(struct fy_tally *tally, uint32_t function,
                       uint32_t operand, enum fy_finding_kind kind);

struct fy_verify_totals {
    uint64_t findings;  /* without notes */
    uint64_t notes;     /* statements that are safe, but move more than
                         * needed */
    uint64_t functions; /* that were called */
    uint64_t calls, checked;
};

/*
 * For `ferry verify', after the command: appends what can be said only now to
 * `path', prints every finding and, per function that was called, how many
 * calls were checked, to `to' (may be NULL). FY_ERR_IO, FY_ERR_INVALID.
 */
int fy_verify_report(const struct fy_model *model, const char *path, FILE *to,
                     struct fy_verify_totals *out) FY_MUST_CHECK;

#endif
