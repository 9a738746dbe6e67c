/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planners' common ground: a plan under construction. A *variant* is a chunk call
 * with everything filled in but addresses; steps that compute chunks of one shape
 * share it. Private to the planner.
 */
#ifndef FERRY_PAGER_PLAN_BUILD_H
#define FERRY_PAGER_PLAN_BUILD_H

#include "pager/execute/replica.h"
#include "pager/plan/plan.h"

enum {
    FY_MAX_SLOTS = 2 * FY_MAX_ARGS, /* arguments and hidden lengths */
    FY_DEFAULT_MAX_STEPS = 1 << 15,
};

enum fy_slot_kind {
    FY_SLOT_VALUE,     /* passed as it is */
    FY_SLOT_REFERENCE, /* passed as the address of `value' in the variant */
    FY_SLOT_TILE,      /* a device address: of tile `tile', plus `offset' */
    FY_SLOT_STRUCT,    /* a copy of the caller's struct, patched */
    FY_SLOT_INFO,      /* address of the step's own status integer */
    FY_SLOT_WORD,      /* the device fills in `word' */
};

struct fy_slot {
    uint8_t kind;
    uint8_t type; /* as passed, resolved */
    uint8_t tile;
    uint8_t word;   /* WORD: enum fy_word */
    uint32_t image; /* STRUCT: index in the variant's images */
    int64_t offset; /* bytes */
    /* A library of the device may load a value that is passed by its address
     * with the alignment of the library's own complex types, which is that
     * of their size. */
    _Alignas(16) union fy_raw value;
    union fy_raw given; /* REFERENCE in a call of the function itself */
};

enum {
    FY_IMAGE_BYTES = 256,
    FY_MAX_IMAGES = 4,
    FY_MAX_PATCHES = 16
};

/* Bytes of a struct argument with this variant's numbers in it. */
struct fy_image {
    _Alignas(16) unsigned char content[FY_IMAGE_BYTES];
};

/*
 * A place of an image that belongs to a tile: a pointer, which gets its address,
 * or a field that the call writes, which is copied from it and to it.
 */
struct fy_patch {
    uint8_t image, tile;
    uint32_t at;    /* byte of the image */
    uint32_t bytes; /* of the field; 0: a pointer */
    int64_t offset; /* added to the address */
};

struct fy_variant {
    void *function;
    uint8_t return_type; /* resolved */
    uint16_t nslots;
    uint8_t ntiles, nimages, npatches;
    bool
        of_itself; /* the call's own function, on structs and scalars of the plan */
    bool on_device; /* a function of the device's own, which returns a status */
    uint32_t element_bytes; /* of its workspace */
    uint32_t size_arguments;
    void *size_function; /* likewise, or NULL */
    struct fy_transform transform;
    bool is_kernel; /* launched by `grid' */
    struct fy_grid grid;
    double work; /* of plans with steps of many kinds: operations; else 0 */
    struct fy_variant *then; /* the next step on the same tiles, of which
                              * only the fields above and the slots count */
    struct fy_slot slots[FY_MAX_SLOTS];
    struct fy_tile tiles[FY_MAX_OPERANDS]; /* at 0; each step says where */
    struct fy_image images[FY_MAX_IMAGES];
    struct fy_patch patches[FY_MAX_PATCHES];
};

/* The diagonal of a factor, in the caller's memory. */
struct fy_diagonal {
    const char *host;
    int64_t count, stride_bytes;
    uint8_t element; /* enum fy_type */
    bool zeros;      /* may be there */
};

/* Returns true if all of it is finite, and no element is 0 that may not be. */
bool fy_diagonal_is_regular(const struct fy_diagonal *diagonal);

void fy_variant_free(struct fy_variant *variant); /* and those behind it */
/* Appends the lengths of strings that a function takes behind the arguments: 1 each. */
void fy_variant_add_lengths(struct fy_variant *variant,
                            const struct fy_arg *args, unsigned nargs);

/* Images of structs, patched for one step; live until the plan is freed. */
struct fy_step_memory {
    struct fy_step_memory *next;
    const struct fy_variant *variant;
    struct fy_image images[FY_MAX_IMAGES]; /* given to the call, which writes */
    struct fy_image given[FY_MAX_IMAGES];  /* as they were before */
};

struct fy_held_memory;

/* Parts of one dimension: [start[i], start[i + 1]), 0 <= i < count. */
struct fy_cuts {
    uint32_t count;
    int64_t *start;
};

struct fy_planner {
    struct fy_plan plan; /* first: the part that other rooms see */
    const struct fy_bound *bound;
    const struct fy_target *target;
    struct fy_plan_options options;
    struct fy_view *views;
    uint32_t nviews;
    struct fy_variant **variants;
    uint32_t nvariants, variant_room;
    uint32_t tile_room, step_room;
    union fy_raw *results; /* one per step */
    int64_t *infos;        /* one per step */
    bool uses_info;
    char *info_pointer; /* of the call: set to 0 when all went well */
    /* Pivots count from their panel: then each panel's start is added. */
    char *pivots;
    struct fy_cuts pivot_panels;
    bool narrow_pivots; /* 64-bit ones of which the low halves came */
    /* Workspace of an algorithm on the host device, which has no other:
     * LAPACK's WORK. */
    void *workspace;
    void *factors; /* operands of an algorithm beside the caller's */
    struct fy_diagonal diagonal;
    bool wants_finite; /* of results in the first operand */
    bool stores_sizes; /* of workspaces, as LAPACK does in WORK(1) */
    struct fy_replica_table tiles; /* of the steps so far */
    struct fy_step_memory *step_memory;
    struct fy_held_memory *held;
};

/* `count' nearly equal parts, their length a multiple of `multiple'. */
int fy_cuts_even(int64_t extent, uint32_t count, int64_t multiple,
                 struct fy_cuts *out) FY_MUST_CHECK;
/* Random parts of at most `largest', at most `most' of them where it can. */
int fy_cuts_random(int64_t extent, int64_t largest, uint32_t most,
                   int64_t multiple, uint64_t *state,
                   struct fy_cuts *out) FY_MUST_CHECK;
/* Frees the parts; `cuts' is empty then. */
void fy_cuts_free(struct fy_cuts *cuts);
/* The length of part i < count. */
int64_t fy_cuts_length(const struct fy_cuts *cuts, uint32_t i);
/* The length of the longest part; 0 without parts. */
int64_t fy_cuts_longest(const struct fy_cuts *cuts);
/* The next number of splitmix64, whose state is the seed at first. */
uint64_t fy_random(uint64_t *state);
/* A number from 0 to bound - 1; 0 for the bound 0. */
uint64_t fy_random_below(uint64_t *state, uint64_t bound);

/* Both reset everything but the borrowed parts. */
void fy_planner_reset(struct fy_planner *planner);
/*
 * Host memory for views of the plan's own, zero, until the plan is reset or
 * freed. NULL: there is not enough, or less than is wise to take.
 */
void *fy_planner_hold(struct fy_planner *planner, uint64_t bytes);
void fy_planner_let_go(struct fy_planner *planner);
/* Copies `views' in; tiles refer to them by index. */
int fy_planner_views(struct fy_planner *planner, const struct fy_view *views,
                     uint32_t count) FY_MUST_CHECK;
/* Takes `variant' (malloc), also on failure. */
int fy_planner_add_variant(struct fy_planner *planner,
                           struct fy_variant *variant,
                           uint32_t *out) FY_MUST_CHECK;
/*
 * A step of a variant; lo[i] is where its i-th tile begins. FY_ERR_UNSUPPORTED
 * when an equal tile was used with another layout; FY_ERR_NOFIT when the step
 * alone is over the budget.
 */
int fy_planner_add_step(struct fy_planner *planner, uint32_t variant,
                        const int64_t (*lo)[FY_MAX_OPERAND_AXES]) FY_MUST_CHECK;
/* launch and accept of the schedule, whose planner is a struct fy_planner. */
int fy_plan_launch(void *planner, const struct fy_step *step,
                   const struct fy_tile *tiles, const uint64_t *address,
                   struct fy_stream *stream);
bool fy_plan_accept(void *planner);
/*
 * Predicts the traffic of the steps under a cache of the budget that evicts by the
 * known future. FY_ERR_NOMEM, FY_ERR_NOFIT.
 */
int fy_planner_traffic(struct fy_planner *planner) FY_MUST_CHECK;
/* Fills the schedule and its predicted traffic. */
int fy_planner_finish(struct fy_planner *planner) FY_MUST_CHECK;

/* A chunk of the call itself, as the generic planner cuts it. */
struct fy_chunk {
    int64_t lo[FY_MAX_AXES], n[FY_MAX_AXES];
    uint32_t later; /* bit a: axis a's `with' cell is replaced */
};

/* Returns true if the axis's extent stands in that cell. */
bool fy_axis_uses_cell(const struct fy_bound *bound, unsigned axis,
                       uint32_t cell);

/*
 * The variant of the call's own annotation for chunks of that shape. Returns
 * new in *out. FY_ERR_UNSUPPORTED when the annotation does not hold for it.
 */
int fy_chunk_call_self(struct fy_planner *planner, const struct fy_chunk *chunk,
                       struct fy_variant **out) FY_MUST_CHECK;

/*
 * Returns true if every element is finite that the annotation wants finite.
 * From others the functions of a device or a blocked algorithm make other
 * results than the original.
 */
bool fy_bound_is_finite(const struct fy_bound *bound,
                        const struct fy_plan_options *options);
/* Returns true if no number that the call was given (alpha, beta) is NaN or infinite.
 * Chunks and blocks multiply such a factor with other partial results than the
 * original does. */
bool fy_bound_has_finite_factors(const struct fy_bound *bound);

/* Returns true if all elements of an operand of at most two axes are finite. */
bool fy_view_is_finite(const struct fy_view *view, enum fy_type element);

/* Returns true if the largest magnitude in an operand is lo to hi: not 0, a
 * NaN, ... */
bool fy_view_is_in_range(const struct fy_view *view, enum fy_type element,
                         double lo, double hi);

/* Stores the size of each workspace that the plan has not handed to the original, which
 * would leave the best size in the first element. */
void fy_plan_store_sizes(const struct fy_planner *planner);

/* Planners: each leaves a finished plan, or an error and anything at all. */
int fy_plan_whole(struct fy_planner *planner) FY_MUST_CHECK;
int fy_plan_axes(struct fy_planner *planner) FY_MUST_CHECK;

/* A built-in algorithm; FY_ERR_UNSUPPORTED when there is none of that name. */
int fy_plan_blocked(struct fy_planner *planner) FY_MUST_CHECK;
/*
 * Makes accept() look at the diagonal that a factorisation leaves, or at all
 * of an inverse: calls with NaNs, or with elements that cannot be divided by,
 * go to the original.
 */
void fy_plan_diagonal(struct fy_planner *planner);
/* Elements its schedule must move with room for `elements'; 0: unknown. */
double fy_blocked_bound(const struct fy_bound *bound, double elements);

#endif
