/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See learn.h. One table of fixed size: a program with more call sites than it
 * has room for goes by its functions, as those that are new do.
 */
#include "config.h"

#include "pager/learn.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRIES = 2048, /* a power of two */
    PROBES = 16,
    RING = 7,   /* samples that count; the median of them */
    ENOUGH = 3, /* without so many nothing is known */
};

/* A change must promise so much; and what is tried now and then, how little the
 * other side may be thought to lose by it. */
static const double clear = 0.87;
static const struct {
    uint32_t call; /* of a key, and the two after it */
    double loss;
} trials[] = {{4, 1.15}, {32, 1.5}, {256, 2.5}, {2048, 4}};

struct entry {
    struct fy_learn_key key;
    bool used;
    int8_t last; /* enum fy_side that was chosen; -1: none yet */
    uint32_t calls;
    uint32_t count[FY_SIDES];
    float ring[FY_SIDES][RING];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry table[ENTRIES];

uint32_t
fy_learn_size(double operations, double bytes)
{
    uint32_t a = operations > 1 ? (uint32_t)(2 * log2(operations)) : 0;
    uint32_t b = bytes > 1 ? (uint32_t)log2(bytes) : 0;

    return a << 8 | b;
}

/* The key's entry, a new one when there is room, or NULL. Lock held. */
static struct entry *
find(struct fy_learn_key key)
{
    uint64_t hash = (key.site ^ (uint64_t)key.function << 32 ^ key.size) *
                    0x9e3779b97f4a7c15u;

    for (unsigned i = 0; i < PROBES; i++) {
        struct entry *entry = &table[((hash >> 40) + i) % ENTRIES];
        if (!entry->used) {
            *entry = (struct entry){.key = key, .used = true, .last = -1};
            return entry;
        }
        if (entry->key.site == key.site && entry->key.size == key.size &&
            entry->key.function == key.function) {
            return entry;
        }
    }
    return NULL;
}

/* The key itself, its function at that size, its function. Lock held. */
static void
find_all(const struct fy_learn_key *key, struct entry *out[3])
{
    out[0] = find(*key);
    out[1] = find((struct fy_learn_key){0, key->function, key->size});
    out[2] = find((struct fy_learn_key){0, key->function, UINT32_MAX});
}

static int
compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static bool
is_known(const struct entry *entry, enum fy_side side)
{
    return entry && entry->count[side] >= ENOUGH;
}

static double
median(const struct entry *entry, enum fy_side side)
{
    float sorted[RING];
    unsigned n = entry->count[side] < RING ? entry->count[side] : RING;

    memcpy(sorted, entry->ring[side], n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), compare);
    return (double)sorted[n / 2];
}

void
fy_learn_ask(const struct fy_learn_key *key, struct fy_advice *out)
{
    struct entry *entries[3];

    pthread_mutex_lock(&lock);
    find_all(key, entries);
    for (unsigned side = 0; side < FY_SIDES; side++) {
        out->factor[side] = 1;
        for (unsigned i = 0; i < 3; i++) {
            if (is_known(entries[i], (enum fy_side)side)) {
                out->factor[side] = median(entries[i], (enum fy_side)side);
                break;
            }
        }
    }
    out->bias = 1;
    struct entry *own = entries[0];
    if (own && own->last >= 0) {
        enum fy_side other =
            own->last == FY_SIDE_DEVICE ? FY_SIDE_ORIGINAL : FY_SIDE_DEVICE;
        double stay = clear;
        for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
            if (own->calls - trials[i].call < ENOUGH && !is_known(own, other) &&
                !is_known(entries[1], other)) {
                stay = trials[i].loss;
            }
        }
        out->bias = own->last == FY_SIDE_DEVICE ? stay : 1 / stay;
    }
    if (own) {
        own->calls++;
    }
    pthread_mutex_unlock(&lock);
}

void
fy_learn_chose(const struct fy_learn_key *key, enum fy_side side)
{
    pthread_mutex_lock(&lock);
    struct entry *own = find(*key);
    /* A trial is not a change of mind. */
    bool trial = false;
    for (size_t i = 0; own && i < sizeof(trials) / sizeof(trials[0]); i++) {
        trial = trial || own->calls - 1 - trials[i].call < ENOUGH;
    }
    if (own && (own->last < 0 || !trial)) {
        own->last = (int8_t)side;
    }
    pthread_mutex_unlock(&lock);
}

void
fy_learn_took(const struct fy_learn_key *key, enum fy_side side, double ratio)
{
    struct entry *entries[3];

    if (!(ratio > 1e-4 && ratio < 1e6)) {
        return;
    }
    pthread_mutex_lock(&lock);
    find_all(key, entries);
    for (unsigned i = 0; i < 3; i++) {
        if (entries[i]) {
            entries[i]->ring[side][entries[i]->count[side]++ % RING] =
                (float)ratio;
        }
    }
    pthread_mutex_unlock(&lock);
}

void
fy_learn_forget(void)
{
    pthread_mutex_lock(&lock);
    memset(table, 0, sizeof(table));
    pthread_mutex_unlock(&lock);
}

void
fy_learn_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void
fy_learn_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}
