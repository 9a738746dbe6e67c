/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a schedule: stages each step's tiles on the copy-in lane ahead of the
 * compute lane, writes results back on the copy-out lane after their last use
 * or when their room is needed, and undoes everything when anything fails.
 * One thread; blocks only in fy_lane_wait, so that the host device can run the
 * originals there. Long because all that a tile goes through shares the executor's state.
 */
#include "config.h"

#include "pager/execute/executor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/debug.h"
#include "pager/device/copy.h"
#include "pager/execute/lane.h"
#include "pager/execute/mirrors.h"
#include "pager/execute/replica.h"
#include "pager/execute/undo.h"

enum {
    AHEAD = 6, /* steps staged before the one that must have been computed */
};

/* A buffer whose replica is gone, until the last operation on it has run. */
struct retired {
    uint64_t buffer;
    uint8_t lane;  /* index of the lane to wait for */
    uint32_t step; /* that used it last */
    uint64_t turn;
};

struct fy_executor {
    struct fy_device *device;
    const struct fy_device_ops *ops;
    struct fy_lane lanes[FY_LANES]; /* by enum fy_stream_kind */
    struct fy_replica_table table;
    struct fy_undo undo;
    struct fy_replica *resident; /* list of those with a buffer */
    struct retired *retired;     /* a queue in an array: first .. end */
    size_t retired_first, retired_end, retired_capacity;
    /* of the run in progress */
    const struct fy_schedule *schedule;
    struct fy_traffic traffic;
    uint64_t *addresses;
    uint64_t saves, saves_marked,
        saves_turn; /* of old content; of them marked */
};

int
fy_executor_new(struct fy_device *device, struct fy_executor **out)
{
    struct fy_executor *x = calloc(1, sizeof *x);
    if (!x) {
        return FY_ERR_NOMEM;
    }
    x->device = device;
    x->ops = device->ops;
    for (int i = 0; i < FY_LANES; i++) {
        int status = fy_lane_init(&x->lanes[i], device, (enum fy_stream_kind)i);
        if (status != 0) {
            fy_executor_free(x);
            return status;
        }
    }
    *out = x;
    return 0;
}

void
fy_executor_free(struct fy_executor *x)
{
    if (!x) {
        return;
    }
    for (int i = 0; i < FY_LANES; i++) {
        fy_lane_fini(&x->lanes[i]);
    }
    fy_replica_table_free(&x->table);
    fy_undo_release(&x->undo, true);
    free(x->retired);
    free(x->addresses);
    free(x);
}

static void
resident_add(struct fy_executor *x, struct fy_replica *r)
{
    r->before = NULL;
    r->after = x->resident;
    if (x->resident) {
        x->resident->before = r;
    }
    x->resident = r;
}

static void
resident_remove(struct fy_executor *x, struct fy_replica *r)
{
    if (r->before) {
        r->before->after = r->after;
    } else {
        x->resident = r->after;
    }
    if (r->after) {
        r->after->before = r->before;
    }
}

/* Hands r's buffer over to be freed after `turn' of `lane'. */
static int
retire(struct fy_executor *x, struct fy_replica *r, int lane, uint64_t turn)
{
    if (x->retired_end == x->retired_capacity && x->retired_first > 0) {
        x->retired_end -= x->retired_first;
        memmove(x->retired, x->retired + x->retired_first,
                x->retired_end * sizeof *x->retired);
        x->retired_first = 0;
    }
    if (x->retired_end == x->retired_capacity) {
        size_t capacity = x->retired_capacity * 2 + 64;
        struct retired *bigger = realloc(x->retired, capacity * sizeof *bigger);
        if (!bigger) {
            return FY_ERR_NOMEM;
        }
        x->retired = bigger;
        x->retired_capacity = capacity;
    }
    x->retired[x->retired_end++] =
        (struct retired){r->buffer, (uint8_t)lane, r->pinned_by, turn};
    resident_remove(x, r);
    r->buffer = 0;
    r->state = FY_REPLICA_HOST;
    return 0;
}

/* Frees the oldest buffers whose turn has come. */
static void
reap(struct fy_executor *x)
{
    while (x->retired_first < x->retired_end) {
        const struct retired *oldest = &x->retired[x->retired_first];
        if (oldest->turn > x->lanes[oldest->lane].completed) {
            return;
        }
        x->ops->free(x->device, oldest->buffer);
        x->retired_first++;
    }
    x->retired_first = x->retired_end = 0;
}

/* Waits for the turn of a buffer, and frees it and those whose turn has come. */
static int
reap_at(struct fy_executor *x, size_t at)
{
    const struct retired one = x->retired[at];
    int status = fy_lane_wait(&x->lanes[one.lane], one.turn);
    if (status != 0) {
        return status;
    }
    memmove(&x->retired[x->retired_first + 1], &x->retired[x->retired_first],
            (at - x->retired_first) * sizeof one);
    x->retired_first++;
    x->ops->free(x->device, one.buffer);
    reap(x);
    return 0;
}

/* Enqueues that the old content of a replica is saved which is written for the first
 * time: long before it is copied out, if that is later. */
static int
save_old(struct fy_executor *x, struct fy_replica *r)
{
    struct fy_copy old;
    if (r->saved_as > 0 || !fy_undo_copy(&x->undo, r, &old)) {
        return 0;
    }
    r->saved_as = ++x->saves;
    return x->ops->copy(x->lanes[FY_STREAM_SAVE].stream, &old);
}

/* Enqueues the write-back of a dirty replica, behind the copy of the old content. */
static int
write_back(struct fy_executor *x, struct fy_replica *r)
{
    struct fy_lane *out = &x->lanes[FY_STREAM_COPY_OUT];
    struct fy_lane *save = &x->lanes[FY_STREAM_SAVE];
    int status = fy_lane_after(out, &x->lanes[FY_STREAM_COMPUTE], r->used_turn);
    if (status == 0 && r->saved_as > x->saves_marked) {
        x->saves_marked = x->saves;
        status = fy_lane_mark(save, &x->saves_turn);
    }
    if (status == 0 && r->saved_as > 0) {
        status = fy_lane_after(out, save, x->saves_turn);
    }
    if (status != 0) {
        return status;
    }
    r->copy.direction = FY_TO_HOST;
    status = x->ops->copy(out->stream, &r->copy);
    if (status != 0) {
        return status;
    }
    fy_debug(EXECUTE, "copies %llu bytes out, view %u",
             (unsigned long long)r->elements_bytes, r->key.view);
    x->traffic.bytes_out += r->elements_bytes;
    r->state = FY_REPLICA_SHARED;
    return 0;
}

static bool
is_dirty(const struct fy_replica *r)
{
    return r->state == FY_REPLICA_DEVICE && !r->scratch;
}

/* Retires a replica that is not dirty, after its last kernel and copy out. */
static int
retire_clean(struct fy_executor *x, struct fy_replica *r)
{
    struct fy_lane *out = &x->lanes[FY_STREAM_COPY_OUT];
    int status = 0;
    if (r->out_turn <= out->completed) {
        return retire(x, r, FY_STREAM_COMPUTE, r->used_turn);
    }
    if (r->used_turn > out->awaited[FY_STREAM_COMPUTE] ||
        r->out_turn < out->marked) {
        status = fy_lane_after(out, &x->lanes[FY_STREAM_COMPUTE], r->used_turn);
        if (status == 0) {
            status = fy_lane_mark(out, &r->out_turn);
        }
    }
    return status != 0 ? status : retire(x, r, FY_STREAM_COPY_OUT, r->out_turn);
}

/* Takes a replica off the device, whose buffer is freed when reaped. */
static int
drop(struct fy_executor *x, struct fy_replica *r)
{
    int status = 0;
    if (is_dirty(r)) {
        status = write_back(x, r);
        if (status == 0) {
            status = fy_lane_mark(&x->lanes[FY_STREAM_COPY_OUT], &r->out_turn);
        }
    }
    return status != 0 ? status : retire_clean(x, r);
}

static bool
goes_before(const struct fy_replica *r, const struct fy_replica *best)
{
    return !best || r->next_use > best->next_use ||
           (r->next_use == best->next_use && is_dirty(best) && !is_dirty(r));
}

/*
 * Belady: the one used last in the future, the clean one of two alike; of those whose
 * kernels are over, as far as plan/traffic.c would choose so. Where the schedule gives
 * up, else that whose kernel was first.
 */
static struct fy_replica *
victim(const struct fy_executor *x, uint32_t step, bool *has_rested)
{
    const bool gives_up = x->schedule->gives_up;
    const uint32_t lag = x->schedule->overlaps ? FY_SCHEDULE_LAG : 0;
    struct fy_replica *best = NULL, *rested = NULL;
    for (struct fy_replica *r = x->resident; r; r = r->after) {
        if (r->pinned_by == step + 1) {
            continue;
        }
        if (gives_up ? !best || r->pinned_by < best->pinned_by
                     : goes_before(r, best)) {
            best = r;
        }
        if ((r->next_use == FY_NIL ||
             (r->pinned_by + lag < step + 1 &&
              (gives_up || r->next_use > step + 2 * lag))) &&
            goes_before(r, rested)) {
            rested = r;
        }
    }
    *has_rested = rested;
    return rested ? rested : best;
}

/* Returns true if the schedule waits for a retired buffer rather than giving up tiles. */
static bool
is_due(const struct fy_executor *x, const struct retired *one, uint32_t step)
{
    const bool leaves = one->lane == FY_STREAM_COPY_OUT;
    return !x->schedule->gives_up ||
           one->step + FY_SCHEDULE_LAG * (leaves ? 2 : 1) < step + 1;
}

/* Waits for room: of the oldest retired buffer that is due; else of a tile that is given up,
 * or of the buffer that was used before it. FY_ERR_NOFIT: there is neither. */
static int
make_room(struct fy_executor *x, uint32_t step)
{
    size_t at = x->retired_first;
    while (at < x->retired_end && !is_due(x, &x->retired[at], step)) {
        at++;
    }
    if (at < x->retired_end) {
        return reap_at(x, at);
    }
    bool has_rested;
    struct fy_replica *r = victim(x, step, &has_rested);
    const bool some = x->retired_first < x->retired_end;
    at = x->retired_first;
    if (!r && !some) {
        return FY_ERR_NOFIT;
    }
    if (r && (!some || has_rested || r->pinned_by < x->retired[at].step)) {
        fy_debug(EXECUTE, "step %u evicts %llu bytes of view %u", step,
                 (unsigned long long)r->buffer_bytes, r->key.view);
        int status = drop(x, r);
        if (status != 0) {
            return status;
        }
        at = x->retired_end - 1;
    }
    return reap_at(x, at);
}

/*
 * A buffer for r: from what is free, else from what is retiring, else by
 * eviction. FY_ERR_NOFIT when the tiles of this step leave too little.
 */
static int
give_buffer(struct fy_executor *x, struct fy_replica *r, uint32_t step)
{
    for (;;) {
        uint64_t buffer;
        int status = x->ops->alloc(x->device, r->buffer_bytes, &buffer);
        if (status == 0) {
            r->buffer = buffer;
            r->copy.device = buffer + r->origin_bytes;
            r->state = FY_REPLICA_HOST;
            resident_add(x, r);
            return 0;
        }
        if (status == FY_ERR_NOFIT) {
            status = make_room(x, step);
        }
        if (status != 0) {
            return status;
        }
    }
}

/* Buffers for every tile of a step. */
static int
give_buffers(struct fy_executor *x, uint32_t index)
{
    const struct fy_step *step = &x->schedule->steps[index];
    const struct fy_use *uses = x->table.uses + step->tiles;
    for (unsigned k = 0; k < step->ntiles; k++) {
        if (uses[k].replica->buffer != 0) {
            continue;
        }
        int status = give_buffer(x, uses[k].replica, index);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

/*
 * The step's tiles would fit, but not between one another: empties the device
 * and places them again from its start.
 */
static int
repack(struct fy_executor *x, uint32_t index)
{
    fy_debug(EXECUTE, "step %u: the device is emptied and packed again", index);
    while (x->resident) {
        int status = drop(x, x->resident);
        if (status != 0) {
            return status;
        }
    }
    while (x->retired_first < x->retired_end) {
        int status = reap_at(x, x->retired_first);
        if (status != 0) {
            return status;
        }
    }
    return give_buffers(x, index);
}

static bool
step_reads(const struct fy_executor *x, const struct fy_step *step,
           const struct fy_replica *r)
{
    for (unsigned k = 0; k < step->ntiles; k++) {
        if (x->table.uses[step->tiles + k].replica == r &&
            (x->schedule->tiles[step->tiles + k].access & FY_ACCESS_IN) != 0) {
            return true;
        }
    }
    return false;
}

/* Enqueues what the step reads and the device has not. */
static int
copy_in(struct fy_executor *x, const struct fy_step *step)
{
    struct fy_lane *in = &x->lanes[FY_STREAM_COPY_IN];
    const uint64_t before = x->traffic.bytes_in;
    for (unsigned k = 0; k < step->ntiles; k++) {
        struct fy_replica *r = x->table.uses[step->tiles + k].replica;
        if (r->mirrored) {
            int status =
                fy_mirrors_copy(x->schedule->hold, r, in, &x->traffic.bytes_in);
            if (status != 0) {
                return status;
            }
        }
        if (r->state != FY_REPLICA_HOST || r->scratch ||
            !step_reads(x, step, r)) {
            continue;
        }
        if (x->traffic.bytes_out > 0 && x->schedule->views[r->key.view].once) {
            return FY_ERR_NOFIT; /* the operand may have been written over */
        }
        int status =
            fy_lane_after(in, &x->lanes[FY_STREAM_COPY_OUT], r->out_turn);
        if (status != 0) {
            return status;
        }
        r->copy.direction = FY_TO_DEVICE;
        status = x->ops->copy(in->stream, &r->copy);
        if (status != 0) {
            return status;
        }
        fy_debug(EXECUTE, "copies %llu bytes in, view %u",
                 (unsigned long long)r->elements_bytes, r->key.view);
        x->traffic.bytes_in += r->elements_bytes;
        r->state = FY_REPLICA_SHARED;
    }
    if (x->traffic.bytes_in == before) {
        return 0;
    }
    uint64_t turn;
    int status = fy_lane_mark(in, &turn);
    if (status == 0) {
        status = fy_lane_after(&x->lanes[FY_STREAM_COMPUTE], in, turn);
    }
    return status;
}

/* Writes everything back, and has what is copied in later wait for it. */
static int
flush(struct fy_executor *x)
{
    struct fy_lane *out = &x->lanes[FY_STREAM_COPY_OUT];
    uint64_t turn;
    while (x->resident) {
        int status = drop(x, x->resident);
        if (status != 0) {
            return status;
        }
    }
    int status = fy_lane_mark(out, &turn);
    return status != 0 ? status
                       : fy_lane_after(&x->lanes[FY_STREAM_COPY_IN], out, turn);
}

static int
stage(struct fy_executor *x, uint32_t index)
{
    const struct fy_step *step = &x->schedule->steps[index];
    int status = step->after ? flush(x) : 0;
    if (status != 0) {
        return status;
    }
    for (unsigned k = 0; k < step->ntiles; k++) {
        x->table.uses[step->tiles + k].replica->pinned_by = index + 1;
    }
    reap(x);
    status = give_buffers(x, index);
    if (status == FY_ERR_NOFIT) {
        status = repack(x, index);
    }
    if (status == 0) {
        status = copy_in(x, step);
    }
    return status;
}

static int
compute(struct fy_executor *x, uint32_t index, uint64_t *turn)
{
    const struct fy_schedule *s = x->schedule;
    const struct fy_step *step = &s->steps[index];
    struct fy_lane *lane = &x->lanes[FY_STREAM_COMPUTE];
    for (unsigned k = 0; k < step->ntiles; k++) {
        x->addresses[k] = x->table.uses[step->tiles + k].replica->copy.device;
    }
    int status = s->launch(s->planner, step, s->tiles + step->tiles,
                           x->addresses, lane->stream);
    fy_debug(EXECUTE, "step %u of %u: chunk of %u tiles launched: %s",
             index + 1, s->nsteps, step->ntiles, fy_status_text(status));
    if (status != 0) {
        return status;
    }
    x->traffic.chunks++;
    return fy_lane_mark(lane, turn);
}

/* Marks the tiles that the step wrote, copies out those that no later step writes, and lets
 * go of those that none uses. */
static int
settle(struct fy_executor *x, uint32_t index, uint64_t turn)
{
    const struct fy_step *step = &x->schedule->steps[index];
    const struct fy_use *uses = x->table.uses + step->tiles;
    struct fy_lane *out = &x->lanes[FY_STREAM_COPY_OUT];
    bool wrote_back = false;
    uint64_t out_turn;
    for (unsigned k = 0; k < step->ntiles; k++) {
        struct fy_replica *r = uses[k].replica;
        r->used_turn = turn;
        r->next_use = uses[k].next;
        if ((x->schedule->tiles[step->tiles + k].access & FY_ACCESS_OUT) != 0) {
            r->state = FY_REPLICA_DEVICE;
            int status = save_old(x, r);
            if (status != 0) {
                return status;
            }
        }
    }
    for (unsigned k = 0; k < step->ntiles; k++) {
        struct fy_replica *r = uses[k].replica;
        if (uses[k].final && is_dirty(r)) {
            int status = write_back(x, r);
            if (status != 0) {
                return status;
            }
            r->out_turn = out->marked + 1;
            wrote_back = true;
        }
    }
    if (wrote_back) {
        int status = fy_lane_mark(out, &out_turn);
        if (status != 0) {
            return status;
        }
    }
    for (unsigned k = 0; k < step->ntiles; k++) {
        struct fy_replica *r = uses[k].replica;
        if (r->next_use != FY_NIL || r->buffer == 0 || r->mirrored) {
            continue;
        }
        int status = retire_clean(x, r);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

/* Waits until no lane has work, and gives every buffer back. */
static int
finish(struct fy_executor *x, int status)
{
    static const enum fy_stream_kind order[] = {
        FY_STREAM_COMPUTE, FY_STREAM_COPY_IN, FY_STREAM_SAVE,
        FY_STREAM_COPY_OUT};
    for (int i = 0; i < FY_LANES; i++) {
        int drained = fy_lane_drain(&x->lanes[order[i]]);
        if (status == 0) {
            status = drained;
        }
    }
    while (x->resident) {
        struct fy_replica *r = x->resident;
        resident_remove(x, r);
        x->ops->free(x->device, r->buffer);
    }
    while (x->retired_first < x->retired_end) {
        x->ops->free(x->device, x->retired[x->retired_first++].buffer);
    }
    x->retired_first = x->retired_end = 0;
    return status;
}

static int
run_steps(struct fy_executor *x)
{
    struct fy_lane *lane = &x->lanes[FY_STREAM_COMPUTE];
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < x->schedule->nsteps; i++) {
        uint64_t turn;
        status = stage(x, i);
        if (status == 0) {
            status = compute(x, i, &turn);
        }
        if (status == 0) {
            status = settle(x, i, turn);
        }
        if (status == 0 && turn > AHEAD) {
            status = fy_lane_wait(lane, turn - AHEAD);
        }
    }
    if (status == 0) {
        status =
            fy_mirrors_copy(x->schedule->hold, NULL,
                            &x->lanes[FY_STREAM_COPY_IN], &x->traffic.bytes_in);
    }
    return status;
}

static int
reserve_addresses(struct fy_executor *x, const struct fy_schedule *s)
{
    size_t most = 1;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        if (s->steps[i].ntiles > most) {
            most = s->steps[i].ntiles;
        }
    }
    uint64_t *addresses = realloc(x->addresses, most * sizeof *addresses);
    if (!addresses) {
        return FY_ERR_NOMEM;
    }
    x->addresses = addresses;
    return 0;
}

int
fy_executor_run(struct fy_executor *x, const struct fy_schedule *schedule,
                struct fy_traffic *traffic)
{
    int saved_errno = errno;
    memset(&x->traffic, 0, sizeof x->traffic);
    x->schedule = schedule;
    x->saves = x->saves_marked = 0;
    int status = reserve_addresses(x, schedule);
    if (status == 0) {
        status = fy_replica_build(&x->table, schedule);
    }
    if (status == 0) {
        fy_mirrors_place(&x->table, schedule);
        status = fy_undo_reserve(&x->undo, &x->table);
        if (status == 0) {
            status = finish(x, run_steps(x));
            if (status == 0 && schedule->accept &&
                !schedule->accept(schedule->planner)) {
                status = FY_ERR_UNSUPPORTED;
            }
            if (status != 0) {
                fy_debug(EXECUTE, "undone: %s", fy_status_text(status));
                fy_undo_restore(&x->undo, &x->table);
            }
        }
        fy_undo_release(&x->undo, false);
        fy_replica_reset(&x->table);
    }
    *traffic = x->traffic;
    errno = saved_errno;
    return status;
}
