/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parts of a call's operands are on the device, where, and whether host
 * memory or the device holds their content. One replica per distinct tile of a
 * schedule. Used by the executor's thread only.
 */
#ifndef FERRY_PAGER_EXECUTE_REPLICA_H
#define FERRY_PAGER_EXECUTE_REPLICA_H

#include "pager/execute/schedule.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* The place that holds the content. (Residency will add: being computed,
 * armed.) */
enum fy_replica_state {
    FY_REPLICA_HOST,   /* host memory alone; there may be a buffer already */
    FY_REPLICA_SHARED, /* both */
    FY_REPLICA_DEVICE, /* the device alone: dirty */
};

struct fy_replica {
    struct {
        uint32_t view, naxes;
        int64_t lo[FY_MAX_OPERAND_AXES]; /* 0 past the axes */
    } key;
    uint32_t number; /* in the order of first use, from 0 */
    UT_hash_handle hh;
    struct fy_copy copy;     /* its elements; device is set with the buffer */
    uint64_t elements_bytes; /* declared elements only */
    uint64_t buffer_bytes;
    uint64_t origin_bytes; /* from the buffer's start to element (0, 0, ..) */
    uint64_t buffer;       /* 0: none */
    uint8_t state;         /* enum fy_replica_state */
    bool
        mirrored; /* the buffer is a part of an object's mirror, of another owner */
    bool scratch;       /* never copied either way */
    bool used, written; /* by any step */
    bool old_matters;   /* the call may read its old host content */
    bool rewritten;     /* by a later step, while uses are linked */
    bool logged;        /* it is in the undo log, at undo_at */
    uint32_t first_use; /* step */
    uint32_t next_use;  /* step, or FY_NIL */
    uint32_t pinned_by; /* step + 1 that it must stay for */
    uint64_t used_turn; /* of the compute lane, last use */
    uint64_t saved_as; /* number of the copy that saves the old content, or 0 */
    uint64_t out_turn; /* of the copy-out lane, last write-back */
    size_t undo_at;
    struct fy_replica *before, *after; /* of those with a buffer, or spare */
};

/* One row of a schedule's tiles, resolved. */
struct fy_use {
    struct fy_replica *replica;
    uint32_t next; /* the next step that uses the replica, or FY_NIL */
    bool final;    /* no later step writes it, not even for a time */
};

struct fy_replica_table {
    struct fy_replica *by_place; /* hash */
    struct fy_replica *spare;
    struct fy_use *uses; /* one per row of schedule->tiles */
    uint32_t capacity;
};

/*
 * Finds the replica of a tile, or makes it for the first tile at a place.
 * FY_ERR_INVALID: the tile differs from that replica in extents or layout (strides
 * matter only along axes of two elements or more); FY_ERR_OVERFLOW, FY_ERR_NOMEM.
 */
int fy_replica_find(struct fy_replica_table *table, const struct fy_tile *tile,
                    const struct fy_view *view,
                    struct fy_replica **out) FY_MUST_CHECK;
/*
 * Fills the table for a schedule (borrowed until fy_replica_reset): finds equal
 * tiles, the future of each, and which need undo. FY_ERR_INVALID when a tile
 * lies outside its view or contradicts it, FY_ERR_OVERFLOW, FY_ERR_NOMEM; the
 * table is empty then.
 */
int fy_replica_build(struct fy_replica_table *table,
                     const struct fy_schedule *schedule) FY_MUST_CHECK;
/* Forgets all replicas, keeping memory for the next schedule. */
void fy_replica_reset(struct fy_replica_table *table);
/* Frees the table with all replicas. */
void fy_replica_table_free(struct fy_replica_table *table);

#endif
