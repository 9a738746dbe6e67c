/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See learn.h. One table of fixed size: a program with more call sites than it
 * has room for goes by its functions, as those that are new do. Its lock is one
 * that handlers of the program may interrupt (base/brief.h): a call that is refused
 * learns nothing, and what two writers at once leave is a wrong statistic.
 */
#include "config.h"

#include "pager/decide/learn.h"

#include <math.h>
#include <string.h>

#include "pager/base/brief.h"
#include "pager/base/lasting.h"

enum {
    PROBES = 16,
    LEVELS = 4,
    FEW = 4,    /* samples */
    FADES = 64, /* calls, until a plan of old says little */
};

/* Variances, of logarithms of ratios: of one call's time, and of what the levels
 * from the function down to the call site differ by among themselves. */
static const double noise = 0.09;
static const double apart[LEVELS] = {0.25, 0.09, 0.02, 0.02};
/* What one more call makes what is known of the other side worth less, and the most
 * that this may add. */
static const double drift = 0.0005, most_drift = 2;
/* What is more than noise. */
static const float odd = 0.45f;
/* A change must promise so much. */
static const double clear = 0.95;
/* Deviations that a trial hopes for, and what all of them may cost of the time
 * spent: of a site and size, and of everything. */
static const double hope = 1.5, own_share = 0.06, share = 0.04;

void
fy_learn_start(struct fy_learned *learned)
{
    *learned = (struct fy_learned){0};
    learned->table = fy_lasting(FY_LEARNED_ENTRIES * sizeof(*learned->table));
}

uint32_t
fy_learn_size(double operations, double bytes)
{
    uint32_t a = operations > 1 ? (uint32_t)(2 * log2(operations)) : 0;
    uint32_t b = bytes > 1 ? (uint32_t)log2(bytes) : 0;

    return a << 8 | b;
}

/* The key's entry, a new one when there is room, or NULL. Lock held. */
static struct fy_learned_entry *
find(struct fy_learned *learned, struct fy_learn_key key)
{
    uint64_t hash = (key.site ^ (uint64_t)key.function << 32 ^ key.size) *
                    0x9e3779b97f4a7c15u;
    unsigned probes = learned->table ? PROBES : 0;

    for (unsigned i = 0; i < probes; i++) {
        struct fy_learned_entry *entry =
            &learned->table[((hash >> 40) + i) % FY_LEARNED_ENTRIES];
        if (!entry->used) {
            *entry =
                (struct fy_learned_entry){.key = key, .used = true, .last = -1};
            return entry;
        }
        if (entry->key.site == key.site && entry->key.size == key.size &&
            entry->key.function == key.function) {
            return entry;
        }
    }
    return NULL;
}

/* The function, near that size, at that size, and the key itself. Lock held. */
static void
find_all(struct fy_learned *learned, const struct fy_learn_key *key,
         struct fy_learned_entry *out[LEVELS])
{
    uint32_t near = (key->size >> 8) / 6 << 8 | (key->size & 0xff) / 3;

    out[0] = find(learned, (struct fy_learn_key){0, key->function, UINT32_MAX});
    out[1] = find(learned, (struct fy_learn_key){1, key->function, near});
    out[2] = find(learned, (struct fy_learn_key){0, key->function, key->size});
    out[3] = find(learned, *key);
}

/* Lock held. */
static void
add(struct fy_learned_samples *samples, float sample)
{
    float sorted[FY_LEARNED_RING];
    unsigned n = 0;

    samples->ring[samples->count++ % FY_LEARNED_RING] = sample;
    for (unsigned i = 0; i < FY_LEARNED_RING && i < samples->count; i++) {
        unsigned at = n++;
        for (; at > 0 && sorted[at - 1] > samples->ring[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = samples->ring[i];
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): n >= 1 */
    samples->median = sorted[(n - 1) / 2];
}

/* The variance of that median, where `mean' was expected. Up to three samples that are
 * far off may be of odd calls, that loaded a kernel, or woke the threads of a BLAS. */
static double
variance(const struct fy_learned_samples *samples, double mean)
{
    unsigned n =
        samples->count < FY_LEARNED_RING ? samples->count : FY_LEARNED_RING;
    double off = (double)samples->median - mean;

    return n < FEW ? 3 * noise / n + off * off / (2 * n) : 1.57 * noise / n;
}

void
fy_learn_ask(struct fy_learned *learned, const struct fy_learn_key *key,
             const double prior[FY_SIDES], struct fy_advice *out)
{
    struct fy_learned_entry *entries[LEVELS];
    uint32_t holding;

    *out = (struct fy_advice){.factor = {1, 1},
                              .doubt = {prior[0], prior[1]},
                              .planned = 1,
                              .last = -1};
    if (!fy_brief_take(&learned->lock, &holding)) {
        return;
    }
    find_all(learned, key, entries);
    struct fy_learned_entry *own = entries[LEVELS - 1];
    for (unsigned side = 0; side < FY_SIDES; side++) {
        double mean = 0, doubt = prior[side] * prior[side];
        for (unsigned i = 0; i < LEVELS; i++) {
            const struct fy_learned_samples *of =
                entries[i] ? &entries[i]->samples[side] : NULL;
            doubt += i > 0 ? apart[i] : 0;
            if (of && of->count > 0 && entries[0]) {
                double its = variance(of, mean) + (i == 0 ? apart[0] : 0) +
                             (double)(entries[0]->moved[side] - of->moved);
                mean += ((double)of->median - mean) * doubt / (doubt + its);
                doubt *= its / (doubt + its);
            }
        }
        if (own) {
            double age = drift * (own->calls - own->seen[side]);
            doubt += age < most_drift ? age : most_drift;
        }
        out->factor[side] = exp(mean);
        out->doubt[side] = sqrt(doubt);
    }
    if (own) {
        out->last = own->last;
        out->spent = own->spent;
        out->lost = own->lost;
        if (own->planned > 1 && own->calls - own->planned_at < FADES) {
            out->planned = (double)own->planned;
        }
        own->calls++;
    }
    fy_brief_give(&learned->lock, holding);
}

void
fy_learn_pick(struct fy_learned *learned, const struct fy_advice *advice,
              const double seconds[FY_SIDES], struct fy_pick *out)
{
    enum fy_side best = seconds[FY_SIDE_DEVICE] < seconds[FY_SIDE_ORIGINAL]
                            ? FY_SIDE_DEVICE
                            : FY_SIDE_ORIGINAL;

    if (advice->last >= 0 && (int)best != advice->last &&
        seconds[best] > clear * seconds[advice->last]) {
        best = (enum fy_side)advice->last;
    }
    enum fy_side other =
        best == FY_SIDE_DEVICE ? FY_SIDE_ORIGINAL : FY_SIDE_DEVICE;
    double loss =
        seconds[other] > seconds[best] ? seconds[other] - seconds[best] : 0;
    bool may_win = seconds[other] * exp(-hope * advice->doubt[other]) <
                   clear * seconds[best];
    bool cheap = advice->lost + loss <= own_share * advice->spent;
    uint32_t holding;
    if (may_win && cheap) {
        cheap = fy_brief_take(&learned->lock, &holding);
        if (cheap) {
            cheap = learned->all_lost + loss <= share * learned->all_spent;
            fy_brief_give(&learned->lock, holding);
        }
    }
    out->trial = may_win && cheap;
    out->side = out->trial ? other : best;
    out->expected = seconds[out->side];
    out->instead = seconds[out->trial ? best : other];
}

void
fy_learn_planned(struct fy_learned *learned, const struct fy_learn_key *key,
                 double ratio)
{
    uint32_t holding;

    if (!fy_brief_take(&learned->lock, &holding)) {
        return;
    }
    struct fy_learned_entry *own = find(learned, *key);
    if (own) {
        own->planned = (float)ratio;
        own->planned_at = own->calls;
    }
    fy_brief_give(&learned->lock, holding);
}

/* Lock held. */
static void
notice(struct fy_learned_entry *function, enum fy_side side, float off)
{
    float before = function->off[side];
    float both = fabsf(off) < fabsf(before) ? off : before;

    function->off[side] = off;
    if (off * before > 0 && fabsf(both) > odd) {
        function->moved[side] += both * both;
    }
}

double
fy_learn_took(struct fy_learned *learned, const struct fy_learn_key *key,
              const struct fy_pick *pick, double model, double seconds)
{
    struct fy_learned_entry *entries[LEVELS];
    double ratio = seconds / model, lost = 0;
    uint32_t holding;

    if (!(ratio > 1e-4 && ratio < 1e6)) {
        return 0;
    }
    if (pick->trial && seconds > pick->instead) {
        lost = seconds - pick->instead;
    }
    if (!fy_brief_take(&learned->lock, &holding)) {
        return lost;
    }
    find_all(learned, key, entries);
    if (entries[0]) {
        notice(entries[0], pick->side, logf((float)(seconds / pick->expected)));
    }
    for (unsigned i = 0; i < LEVELS; i++) {
        if (entries[i]) {
            entries[i]->samples[pick->side].moved =
                entries[0] ? entries[0]->moved[pick->side] : 0;
            add(&entries[i]->samples[pick->side], logf((float)ratio));
        }
    }
    struct fy_learned_entry *own = entries[LEVELS - 1];
    if (own) {
        own->seen[pick->side] = own->calls;
        own->spent += seconds;
        own->lost += lost;
        /* A trial is not a change of mind. */
        if (!pick->trial) {
            own->last = (int8_t)pick->side;
        }
    }
    learned->all_spent += seconds;
    learned->all_lost += lost;
    fy_brief_give(&learned->lock, holding);
    return lost;
}

bool
fy_learn_spend(struct fy_learned *learned, double seconds)
{
    uint32_t holding;

    if (!fy_brief_take(&learned->lock, &holding)) {
        return false;
    }
    bool may = learned->all_lost + seconds <= share * learned->all_spent;
    learned->all_lost += may ? seconds : 0;
    fy_brief_give(&learned->lock, holding);
    return may;
}

void
fy_learn_forget(struct fy_learned *learned)
{
    uint32_t holding;

    while (!fy_brief_take(&learned->lock, &holding)) {
        continue; /* at most FY_BRIEF_PATIENCE times for each holder */
    }
    if (learned->table) {
        memset(learned->table, 0, FY_LEARNED_ENTRIES * sizeof(*learned->table));
    }
    fy_brief_give(&learned->lock, holding);
}

void
fy_learn_after_fork(struct fy_learned *learned)
{
    learned->lock = (struct fy_brief){0};
}
