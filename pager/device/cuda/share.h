/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets the processes of one user tell each other about a card: how much of its
 * memory each holds, and how much it waits for. One small segment of shared
 * memory per user and card; a row per process, written by its owner alone, so
 * that there is no lock that a dead process could hold. If the segment cannot
 * be had, each process acts as if it were alone.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_SHARE_H
#define FERRY_PAGER_DEVICE_CUDA_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct cuda_share;

/*
 * Joins the processes that use the card of that name (letters, digits, '-'). Returns
 * new; NULL: there is no segment, or no row left in it.
 */
struct cuda_share *cuda_share_join(const char *card);
/* A table that no other process sees, for a card without a name; or NULL. */
struct cuda_share *cuda_share_alone(void);
void cuda_share_leave(struct cuda_share *share);
/* In a forked child: the row is the parent's. */
void cuda_share_forget(struct cuda_share *share);

/* One process's row. */
struct cuda_share_state {
    uint64_t held_bytes;
    uint64_t spare_bytes; /* of them, that it can give back at once */
    bool busy;            /* has a call on the card */
};

/* NULL: nothing happens. */
void cuda_share_tell(struct cuda_share *share,
                     const struct cuda_share_state *state);
/* Publishes the bytes that this process waits for beyond those it holds;
 * tells the others when they grow. */
void cuda_share_want(struct cuda_share *share, uint64_t bytes);

struct cuda_share_view {
    unsigned processes;     /* busy or waiting; at least 1 */
    uint64_t fair_bytes;    /* of `total_bytes' for each */
    uint64_t wanted_bytes;  /* by others, up to a fair share */
    uint64_t surplus_bytes; /* that idle ones hold, and busy ones beyond it */
};

/* Returns true if any other row wants memory: the short question. */
bool cuda_share_is_wanted(const struct cuda_share *share);
/*
 * As things stand; rows of processes that are gone are cleared. `active': this
 * process has a call on its way, or one that waits.
 */
void cuda_share_look(struct cuda_share *share, uint64_t total_bytes,
                     bool active, struct cuda_share_view *out);

/* Memory was given back: wakes the processes that wait for some. */
void cuda_share_returned(struct cuda_share *share);
/*
 * Waits until something is given back after `seen' (the answer of the last
 * call, or of cuda_share_turn()); false when that has not come by `until', of
 * CLOCK_MONOTONIC.
 */
uint32_t cuda_share_turn(const struct cuda_share *share);
bool cuda_share_wait(struct cuda_share *share, uint32_t seen,
                     const struct timespec *until);

/* Waits likewise for wants of others; `longest' NULL: without a limit. False:
 * the system does not let this process wait. */
uint32_t cuda_share_asked(const struct cuda_share *share);
bool cuda_share_wait_asked(struct cuda_share *share, uint32_t seen,
                           const struct timespec *longest);
/* Wakes this process's own waiters of that kind. */
void cuda_share_ask(struct cuda_share *share);

#endif
