/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the side that a call runs on: the cost model with this machine's
 * rates, corrected by the times of earlier calls in this process. Rates of a
 * card and of the program's own BLAS are measured when the device is opened
 * first; those of the card are kept in a file. Any thread.
 */
#ifndef FERRY_PAGER_DECIDE_CHOICE_H
#define FERRY_PAGER_DECIDE_CHOICE_H

#include "common/settings.h"
#include "pager/decide/cost.h"
#include "pager/decide/decision.h"
#include "pager/decide/learn.h"
#include "pager/execute/pool.h"

/* One call on its way. */
struct fy_choice {
    struct fy_learn_key key;
    struct fy_advice advice;
    struct fy_pick pick;
    double model[FY_SIDES]; /* seconds, uncorrected */
    double least_seconds;   /* of the device, with the least traffic */
};

/* The inputs of a process's choices. */
struct fy_chooser {
    const struct fy_settings *settings;
    const struct fy_rates *rates; /* one of the next two */
    struct fy_rates first, measured;
    bool force;      /* of the settings */
    bool calibrated; /* by hand, of this kind of device */
    bool is_card;
    bool opened, has_run, has_measured;
    uint64_t opening_ns; /* 0: not by this process */
    bool asked;          /* some thread has measured, or is about to */
    unsigned surprises;  /* in a row */
    uint64_t missed_ns;  /* that calls would have gained, had it been open */
    struct fy_learned learned;
    char kept[FY_SETTINGS_PATH_BYTES]; /* file of the rates, or "" */
};

/* The lessons of a timed call, for the counters of its function. */
struct fy_tried {
    uint32_t function; /* row of the variant */
    bool trial;
    double lost_seconds; /* by the trial */
};

/* Starts a zeroed chooser; call once, before all others. `settings' stays.
 * Without memory nothing is learned. */
void fy_choice_start(struct fy_chooser *chooser,
                     const struct fy_settings *settings, const char *device);

/* Those of now; they stay as they are. */
const struct fy_rates *fy_choice_rates(const struct fy_chooser *chooser);

/* A call that could be offloaded. */
void fy_choice_begin(struct fy_chooser *chooser, struct fy_choice *choice,
                     const struct fy_bound *bound, const void *caller);
/*
 * Returns true if the call goes to the device with that plan's traffic: it is
 * expected to be faster there, or tried. --force does not ask. Fills the parts
 * of the decision that the cost model knows.
 */
bool fy_choice_pays(struct fy_chooser *chooser, struct fy_choice *choice,
                    const struct fy_bound *bound,
                    const struct fy_traffic *traffic, double touched_bytes,
                    double end_bytes, struct fy_decision *decision);
/*
 * Decides as fy_choice_pays() with the least traffic that any plan could have and
 * with the savings and costs that residency promises.
 * A card that is not open yet is not opened for less than the opening costs:
 * until then calls only add up their expected gains; or, if the expectation
 * may be that wrong, it is opened for a small part of the time that calls have
 * taken.
 */
bool fy_choice_may_pay(struct fy_chooser *chooser, struct fy_choice *choice,
                       const struct fy_bound *bound,
                       const struct fy_memory_guess *resident,
                       struct fy_decision *decision);

/*
 * Choices of the original that need not be made anew: for a short call, if the thread has just
 * chosen so for the same site, function and integers, and by far. Every sixteenth is decided
 * in full. The shape is a number of a call's integers, not 0; 0: not known.
 */
uint64_t fy_choice_shape(const struct fy_intercepted *call,
                         const struct fy_model *model, unsigned bits);
/* Returns true if such a choice stands for the call, once less from then on. */
bool fy_choice_is_settled(const struct fy_intercepted *call, uint64_t shape);
/* After fy_choice_may_pay() has said no. */
void fy_choice_settle(const struct fy_choice *choice,
                      const struct fy_intercepted *call, uint64_t shape);

/* It was planned and ran on the device, in so many seconds. */
struct fy_tried fy_choice_ran(struct fy_chooser *chooser,
                              const struct fy_choice *choice, double seconds);
/* It did not pay: the original of this thread's call comes next ... */
void fy_choice_declined(const struct fy_choice *choice);
/* ... and has returned. */
struct fy_tried fy_choice_original_ran(struct fy_chooser *chooser,
                                       double seconds);

/* The device is open, which took the first caller so many seconds. */
void fy_choice_opened(struct fy_chooser *chooser, double seconds);
/* Returns true if fy_choice_measure() is still to be called: once, for a
 * device with functions of its own, without force. */
bool fy_choice_is_unmeasured(const struct fy_chooser *chooser,
                             const struct fy_lease *lease);
/*
 * With the device for itself: measures rates not yet known, once in a process. `gemm'
 * is the program's own dgemm_, or NULL.
 */
void fy_choice_measure(struct fy_chooser *chooser, const struct fy_lease *lease,
                       void *gemm);

#endif
