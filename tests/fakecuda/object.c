/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles of the fake CUDA. An object's place is never used twice, so that a
 * handle that was destroyed is known for ever, and any number that a program
 * takes for a handle can be looked up without being followed.
 */
#include "config.h"

#include <stdlib.h>

#include "tests/fakecuda/machine.h"

#define SLAB_OBJECTS 1024
#define SLABS_MAX    4096

struct place {
    enum fake_kind kind;
    const char *name; /* the call that made it */
    max_align_t body[FAKE_OBJECT_BYTES / sizeof(max_align_t)];
};

static struct {
    pthread_mutex_t lock;
    struct place *slab[SLABS_MAX];
    size_t used;
} objects = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *
fakecuda_new(enum fake_kind kind, size_t bytes, const char *name)
{
    struct place *place = NULL;
    size_t slab;

    if (bytes > FAKE_OBJECT_BYTES) {
        return NULL;
    }
    (void)pthread_mutex_lock(&objects.lock);
    slab = objects.used / SLAB_OBJECTS;
    if (slab < SLABS_MAX && objects.slab[slab] == NULL) {
        objects.slab[slab] = calloc(SLAB_OBJECTS, sizeof(struct place));
    }
    if (slab < SLABS_MAX && objects.slab[slab] != NULL) {
        place = &objects.slab[slab][objects.used++ % SLAB_OBJECTS];
        place->kind = kind;
        place->name = name;
    }
    (void)pthread_mutex_unlock(&objects.lock);
    return place == NULL ? NULL : place->body;
}

/* The place of an object, or NULL. Callers hold the lock. */
static struct place *
place_of(const void *object)
{
    uintptr_t address = (uintptr_t)object - offsetof(struct place, body);

    for (size_t i = 0; i < SLABS_MAX && objects.slab[i] != NULL; i++) {
        uintptr_t distance = address - (uintptr_t)objects.slab[i];
        if (distance < SLAB_OBJECTS * sizeof(struct place) &&
            distance % sizeof(struct place) == 0) {
            return &objects.slab[i][distance / sizeof(struct place)];
        }
    }
    return NULL;
}

bool
fakecuda_valid(const void *object, enum fake_kind kind)
{
    struct place *place;
    bool valid;

    (void)pthread_mutex_lock(&objects.lock);
    place = place_of(object);
    valid = place != NULL && place->kind == kind;
    (void)pthread_mutex_unlock(&objects.lock);
    return valid;
}

void
fakecuda_destroy(void *object)
{
    struct place *place;

    (void)pthread_mutex_lock(&objects.lock);
    place = place_of(object);
    if (place != NULL) {
        place->kind = FAKE_FREE;
    }
    (void)pthread_mutex_unlock(&objects.lock);
}

void
fake_objects_report(void)
{
    for (size_t i = 0; i < objects.used; i++) {
        const struct place *place =
            &objects.slab[i / SLAB_OBJECTS][i % SLAB_OBJECTS];
        if (place->kind != FAKE_FREE) {
            fakecuda_note("leak", "object %p of %s", (const void *)place->body,
                          place->name);
        }
    }
}
