/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See handles.h. Readers take no lock, since a handler of the program may
 * interrupt them: they copy, and look whether a writer came in between. So what
 * readers may stand on is never freed: records are used again for other handles,
 * and a table that was too small stays behind.
 */
#include "config.h"

#include "pager/bind/handles.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_SLOTS = 64, /* a power of two */
    TRIES = 1000,
    VALUE_WORDS = sizeof(struct fy_value) / sizeof(uint64_t),
};
_Static_assert(sizeof(struct fy_value) % sizeof(uint64_t) == 0, "words");

struct handle {
    uint64_t value;
    uint32_t maker;
    uint32_t ncells;       /* at most capacity */
    uint32_t capacity;     /* cells that there is room for; never changes */
    struct handle *unused; /* next of the records that no table has */
    uint64_t words[];      /* of ncells values */
};

struct table {
    size_t slots; /* a power of two */
    size_t used;  /* at most half of them */
    struct handle *at[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of writers */
static uint64_t changes; /* odd: a writer is at it */
static struct table *table;
static struct handle *unused;

/* Readers look at single words while a writer changes them. */
#define GET(field)        __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define SET(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

static size_t
home(const struct table *in, uint64_t value)
{
    return (size_t)(value * 0x9e3779b97f4a7c15u >> 32) & (in->slots - 1);
}

/* The slot of that value, or the empty one where it would be. Lock held. */
static size_t
slot_of(const struct table *in, uint64_t value)
{
    size_t i = home(in, value);

    while (in->at[i] && in->at[i]->value != value) {
        i = (i + 1) & (in->slots - 1);
    }
    return i;
}

/* Room for one more. Lock held. */
static bool
reserve(void)
{
    if (table && 2 * (table->used + 1) <= table->slots) {
        return true;
    }
    size_t slots = table ? 2 * table->slots : FIRST_SLOTS;
    struct table *larger =
        calloc(1, sizeof(*larger) + slots * sizeof(larger->at[0]));
    if (!larger) {
        return false;
    }
    larger->slots = slots;
    for (size_t i = 0; table && i < table->slots; i++) {
        if (table->at[i]) {
            larger->at[slot_of(larger, table->at[i]->value)] = table->at[i];
            larger->used++;
        }
    }
    __atomic_store_n(&table, larger, __ATOMIC_RELEASE);
    return true;
}

/* A record with room for so many cells. Lock held. */
static struct handle *
new_record(unsigned ncells)
{
    for (struct handle **link = &unused; *link; link = &(*link)->unused) {
        struct handle *found = *link;
        if (found->capacity >= ncells) {
            *link = found->unused;
            return found;
        }
    }
    struct handle *made =
        calloc(1, sizeof(*made) + (size_t)ncells * sizeof(struct fy_value));
    if (made) {
        made->capacity = ncells;
    }
    return made;
}

/* Lock held, `changes' odd. */
static void
forget(uint64_t value)
{
    size_t mask, i, j;

    if (!table || !table->at[i = slot_of(table, value)]) {
        return;
    }
    table->at[i]->unused = unused;
    unused = table->at[i];
    mask = table->slots - 1;
    /* What follows moves up, unless that is before its home. */
    for (j = (i + 1) & mask; table->at[j]; j = (j + 1) & mask) {
        size_t from_home = (j - home(table, table->at[j]->value)) & mask;
        if (from_home >= ((j - i) & mask)) {
            SET(table->at[i], table->at[j]);
            i = j;
        }
    }
    SET(table->at[i], NULL);
    table->used--;
}

static void
change_begin(void)
{
    pthread_mutex_lock(&lock);
    SET(changes, changes + 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void
change_end(void)
{
    __atomic_store_n(&changes, changes + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

void
fy_handle_made(uint64_t value, uint32_t maker, unsigned ncells,
               const struct fy_value *cells)
{
    change_begin();
    forget(value); /* its memory was used again */
    struct handle *made = reserve() ? new_record(ncells) : NULL;
    if (made) {
        SET(made->value, value);
        SET(made->maker, maker);
        SET(made->ncells, ncells);
        for (size_t i = 0; i < (size_t)ncells * VALUE_WORDS; i++) {
            uint64_t word;
            memcpy(&word, (const char *)cells + i * sizeof(word), sizeof(word));
            SET(made->words[i], word);
        }
        SET(table->at[slot_of(table, value)], made);
        table->used++;
    }
    change_end();
}

void
fy_handle_freed(uint64_t value)
{
    change_begin();
    forget(value);
    change_end();
}

/* One look, which a writer may spoil. */
static uint32_t
look(uint64_t value, struct fy_value cells[FY_MAX_CELLS])
{
    const struct table *in = __atomic_load_n(&table, __ATOMIC_ACQUIRE);

    if (!in) {
        return FY_NIL;
    }
    size_t i = home(in, value);
    for (size_t tries = 0; tries < in->slots; tries++) {
        const struct handle *h = GET(in->at[i]);
        if (!h) {
            break;
        }
        if (GET(h->value) == value) {
            size_t n = GET(h->ncells);
            for (size_t k = 0; k < n * VALUE_WORDS; k++) {
                uint64_t word = GET(h->words[k]);
                memcpy((char *)cells + k * sizeof(word), &word, sizeof(word));
            }
            return GET(h->maker);
        }
        i = (i + 1) & (in->slots - 1);
    }
    return FY_NIL;
}

uint32_t
fy_handle_find(uint64_t value, struct fy_value cells[FY_MAX_CELLS])
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t before = __atomic_load_n(&changes, __ATOMIC_ACQUIRE);
        if (before % 2 == 0) {
            uint32_t maker = look(value, cells);
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
            if (GET(changes) == before) {
                return maker;
            }
        }
        __builtin_ia32_pause();
    }
    return FY_NIL;
}

void
fy_handles_after_fork(void)
{
    (void)pthread_mutex_init(&lock, NULL);
    table = NULL;
    unused = NULL;
    changes = 0;
}
