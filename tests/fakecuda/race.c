/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds uses of the same memory by two streams that nothing orders: no event,
 * no synchronisation by the host in between. Each stream and the host have a
 * vector clock; what is found does not depend on who came first this time.
 * All threads of the host share one clock, so that nothing is reported wrongly
 * and something may be missed. Callers hold machine.lock.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/machine.h"

#define ACCESSES_MAX 256

/* A use of an allocation that some later one may not be ordered after. */
struct fake_access {
    struct fake_use use;
    const char *name;
    unsigned slot;
    uint64_t epoch;
};

static struct fake_clock host;
static uint64_t epochs[FAKE_SLOTS];
static unsigned next_slot;

void
fake_clock_join(struct fake_clock *clock, const struct fake_clock *other)
{
    for (size_t i = 0; i < FAKE_SLOTS; i++) {
        if (clock->at[i] < other->at[i]) {
            clock->at[i] = other->at[i];
        }
    }
}

void
fake_host_join(const struct fake_clock *other)
{
    fake_clock_join(&host, other);
}

unsigned
fake_clock_slot(void)
{
    return next_slot++ % FAKE_SLOTS;
}

static uint64_t
end_of(const struct fake_use *use)
{
    return use->address + use->pitch_bytes * (use->rows - 1) + use->width_bytes;
}

/* Whether a byte is in both; rows do not go back, so one look at each does. */
static bool
meet(const struct fake_use *a, const struct fake_use *b)
{
    size_t i = 0, j = 0;

    if (a->address >= end_of(b) || b->address >= end_of(a)) {
        return false;
    }
    while (i < a->rows && j < b->rows) {
        uint64_t at_a = a->address + i * a->pitch_bytes;
        uint64_t at_b = b->address + j * b->pitch_bytes;

        if (at_a < at_b + b->width_bytes && at_b < at_a + a->width_bytes) {
            return true;
        }
        if (at_a < at_b) {
            i++;
        } else {
            j++;
        }
    }
    return false;
}

static void
forget_access(struct fake_allocation *one, size_t i)
{
    one->n_accesses--;
    memmove(&one->accesses[i], &one->accesses[i + 1],
            (one->n_accesses - i) * sizeof(one->accesses[0]));
}

/* What everybody is ordered after by now need not be kept. */
static void
prune(struct fake_allocation *one)
{
    for (size_t i = one->n_accesses; i-- > 0;) {
        if (one->accesses[i].epoch <= host.at[one->accesses[i].slot]) {
            forget_access(one, i);
        }
    }
    if (one->n_accesses == ACCESSES_MAX) {
        forget_access(one, 0);
    }
}

/* Whatever uses these addresses next uses other memory. */
void
fake_race_forget(struct fake_allocation *one, uint64_t address, size_t bytes)
{
    for (size_t i = one->n_accesses; i-- > 0;) {
        const struct fake_use *use = &one->accesses[i].use;
        if (use->address < address + bytes && address < end_of(use)) {
            forget_access(one, i);
        }
    }
}

static void
look(struct fake_allocation *one, const struct fake_stream *stream,
     const struct fake_use *use, const char *name)
{
    prune(one);
    for (size_t i = 0; i < one->n_accesses; i++) {
        const struct fake_access *before = &one->accesses[i];

        if ((before->use.write || use->write) &&
            stream->clock.at[before->slot] < before->epoch &&
            meet(use, &before->use)) {
            fakecuda_note("race", "%s %s what %s %s; nothing orders them", name,
                          use->write ? "writes" : "reads", before->name,
                          before->use.write ? "writes" : "reads");
            return;
        }
    }
}

void
fake_race_submit(struct fake_stream *stream,
                 const struct fake_operation *operation)
{
    fake_clock_join(&stream->clock, &host);
    stream->clock.at[stream->slot] = ++epochs[stream->slot];
    for (size_t i = 0; i < operation->n_uses; i++) {
        const struct fake_use *use = &operation->uses[i];
        struct fake_allocation *one = operation->held[i];

        if (one == NULL || use->loose || use->width_bytes == 0 ||
            use->rows == 0) {
            continue;
        }
        look(one, stream, use, operation->name);
        if (one->accesses == NULL) {
            one->accesses = calloc(ACCESSES_MAX, sizeof(*one->accesses));
        }
        if (one->accesses != NULL) {
            one->accesses[one->n_accesses++] = (struct fake_access){
                *use, operation->name, stream->slot, epochs[stream->slot]};
        }
    }
}
