/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns the ratio of the times that calls really took, on either side, to the
 * model's expectation, and chooses the side of the next call. A call is judged
 * by calls of its site and size, if they are enough; else by calls of its
 * function at that size, near that size, at any. The side that seems slower is
 * tried again if it may well be the faster side, as long as all such trials
 * have cost little of the time that calls have taken: an error about one side
 * is not noticed on the other. Any thread.
 */
#ifndef FERRY_PAGER_DECIDE_LEARN_H
#define FERRY_PAGER_DECIDE_LEARN_H

#include <stdbool.h>
#include <stdint.h>

#include "pager/base/brief.h"
#include "pager/base/pick.h"

enum {
    FY_LEARNED_ENTRIES = 4096, /* a power of two */
    FY_LEARNED_RING = 7,       /* samples that count; the median of them */
};

struct fy_learned_samples {
    uint32_t count;
    float ring[FY_LEARNED_RING]; /* logarithms */
    float median;
    float moved; /* see struct fy_learned_entry, when the last was added */
};

/* Knowledge of one key. */
struct fy_learned_entry {
    struct fy_learn_key key;
    bool used;
    int8_t last; /* enum fy_side that was chosen for good; -1: none yet */
    uint32_t calls;
    uint32_t seen[FY_SIDES]; /* the number of the last call there */
    uint32_t planned_at;
    float planned;
    /* Of a function: how far its last call was off what was expected, and the
     * sum of what two in a row agree on, squared: what is older is that doubtful. */
    float off[FY_SIDES], moved[FY_SIDES];
    double spent, lost;
    struct fy_learned_samples samples[FY_SIDES];
};

/* The statistics of a process. */
struct fy_learned {
    struct fy_brief lock;
    double all_spent, all_lost;
    struct fy_learned_entry *table; /* FY_LEARNED_ENTRIES; NULL: no memory */
};

/* Maps the table; call once, before all others. Without memory nothing is
 * learned. */
void fy_learn_start(struct fy_learned *learned);

/* Operations by half powers of two, bytes by powers of two. */
uint32_t fy_learn_size(double operations, double bytes);

/* Knowledge of a call before it runs. */
struct fy_advice {
    double factor[FY_SIDES]; /* to multiply the model's seconds with */
    double doubt[FY_SIDES];  /* standard deviation of its logarithm */
    double planned;     /* the device's seconds as planned over those of the
                              * least traffic, when it was planned last */
    double spent, lost; /* seconds of this site and size, in trials of them */
    int8_t last;        /* enum fy_side; -1: none yet */
};

/*
 * `prior': the logarithm of how wrong the model may be where nothing is known. Also
 * counts the call.
 */
void fy_learn_ask(struct fy_learned *learned, const struct fy_learn_key *key,
                  const double prior[FY_SIDES], struct fy_advice *out);
/* With `seconds' as corrected. */
void fy_learn_pick(struct fy_learned *learned, const struct fy_advice *advice,
                   const double seconds[FY_SIDES], struct fy_pick *out);
/* See fy_advice. */
void fy_learn_planned(struct fy_learned *learned,
                      const struct fy_learn_key *key, double ratio);
/*
 * Learns the seconds that a call took, against the model's own, uncorrected
 * seconds. Returns the seconds that it lost as a trial, 0 if it was none.
 */
double fy_learn_took(struct fy_learned *learned, const struct fy_learn_key *key,
                     const struct fy_pick *pick, double model, double seconds);
/* Returns true if so many seconds may be spent on a trial; then they are
 * counted as spent. */
bool fy_learn_spend(struct fy_learned *learned, double seconds);

/* Forgets all ratios, because the model's seconds are others from now on;
 * the cost of trials stays. */
void fy_learn_forget(struct fy_learned *learned);

/* In a forked child: a parent's thread may have held the lock. */
void fy_learn_after_fork(struct fy_learned *learned);

#endif
