/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The experiments on one call. They run in forked children, one after another
 * as long as nothing goes wrong; what they find is written to shared memory.
 */
#ifndef FERRY_PAGER_VERIFY_TRIAL_H
#define FERRY_PAGER_VERIFY_TRIAL_H

#include "pager/bind/bind.h"
#include "pager/plan/plan.h"
#include "pager/verify/child.h"
#include "pager/verify/compare.h"
#include "pager/verify/image.h"
#include "pager/verify/tally.h"

enum fy_experiment {
    FY_TRY_TRUTH,        /* the original on the program's memory (a copy) */
    FY_TRY_GUARD_AFTER,  /* on guarded copies, NaNs around them */
    FY_TRY_GUARD_BEFORE, /* likewise, the other way round */
    FY_TRY_MAPS,         /* results of a device, where maps define them */
    FY_TRY_CHUNKS,       /* cut into random chunks, several times */
    FY_TRY_AXES =
        FY_TRY_CHUNKS + 4, /* along one axis each, that may be split */
    FY_TRY_CHUNKS_END = FY_TRY_AXES + FY_MAX_AXES,
    FY_TRY_SLABS = FY_TRY_CHUNKS_END, /* operand * FY_SLABS + slab */
};

enum {
    FY_PROBLEMS = 12,
    FY_PROBLEM_TEXT = 320,
    FY_SENSITIVITY_RUNS = 4, /* and two on unspoilt copies */
};

struct fy_problem {
    uint32_t operand; /* relative, or FY_NIL */
    uint32_t kind;    /* enum fy_finding_kind */
    char text[FY_PROBLEM_TEXT];
};

/* Shared between the host process and its children. */
struct fy_trial_state {
    struct fy_child_report report;
    uint32_t experiment; /* the one in progress, or the next */
    bool truth_known;
    bool sensitivity_known;
    uint32_t sensitivity_run; /* 0 .. FY_SENSITIVITY_RUNS + 1 */
    bool want_sensitivity;    /* a numerical difference was seen without it */
    bool undecided; /* a result moves as much by itself: no bound was held to */
    /*
     * Blocks have poisoned slack instead of guards at their ends: vector
     * kernels read past the end of their operands and drop what they read.
     */
    bool soft;
    bool reading; /* copying the program's memory: of `operand' */
    uint32_t operand;
    uint64_t truth_ns;  /* how long the original took */
    union fy_raw truth; /* its result */
    /* Largest change of each output when inputs change by a few eps. */
    double sensitivity[FY_MAX_OPERANDS + 1];
    uint32_t nproblems;
    struct fy_problem problems[FY_PROBLEMS];
};

/* One call under verification; the children see a copy. */
struct fy_trial {
    const struct fy_bound *call;
    const struct fy_target *target;
    struct fy_images *images;
    struct fy_tally *tally;
    struct fy_trial_state *state;
    uint64_t seed;
    uint32_t experiments; /* how many there are */
    bool small;           /* too large for all of them: the first three only */
};

/* Child: runs experiments from state->experiment on. A fy_isolated_run body. */
void fy_trial_body(void *trial);
/*
 * Child: the part of state->sensitivity that one run with slightly different
 * inputs shows. A child for each run: what a wrong annotation does not restore
 * must not add up.
 */
void fy_trial_sensitivity(void *trial);

/* An operand's name. */
const char *fy_trial_name(const struct fy_trial *trial, uint32_t operand);

/* Returns true if an element is on a slab (FY_SLAB_...) of its view. */
bool fy_walk_on_slab(const struct fy_walk *walk, unsigned slab);

/*
 * Sets marks[offset from image->lo] for elements that are not on the slab, and
 * clears all others: elements may coincide (row n of a matrix with ld == n is
 * row 0 of the next column), and those belong to both.
 */
void fy_slab_mark_others(const struct fy_images *images, unsigned operand,
                         unsigned slab, char *marks);

/*
 * Counts which slabs of operands that are read and written the call changed;
 * `after' has each image as the call left it.
 */
void fy_trial_count_changes(struct fy_trial *trial, char *const *after);

/* The original on the program's memory, or rather this child's copy of it. */
int fy_trial_in_place(struct fy_trial *trial,
                      union fy_raw *result) FY_MUST_CHECK;

/*
 * Changes a slab of an input and counts whether the call notices. Faults and
 * hangs count as noticing: see take_end() in verify.c.
 */
int fy_trial_slab(struct fy_trial *trial, unsigned operand,
                  unsigned slab) FY_MUST_CHECK;

/* Moves a real or complex element by a few units of its last place. */
void fy_trial_perturb(enum fy_type type, char *element, uint64_t *random);

/* Adds a problem (printf). For verify_*.c. */
void fy_trial_problem(struct fy_trial *trial, uint32_t operand,
                      enum fy_finding_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Compares all outputs; `got' by image. Adds problems of `kind'. */
void fy_trial_compare(struct fy_trial *trial, char *const *got,
                      const union fy_raw *result, enum fy_finding_kind kind,
                      const char *how);

/* The maps of a function that has nothing else on cuda, in maps.c. */
void fy_trial_maps(struct fy_trial *trial);

/* The experiment `seed' (0..) of random chunks, in chunks.c. */
void fy_trial_chunks(struct fy_trial *trial, unsigned number);

#endif
