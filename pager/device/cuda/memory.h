/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of the CUDA device: a range of addresses as large as the limit,
 * with memory behind those parts only that calls have needed (cuMemCreate,
 * cuMemMap), and given back when others need it. Everything that ferry keeps
 * on the card is counted here, workspaces and status integers as well.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_MEMORY_H
#define FERRY_PAGER_DEVICE_CUDA_MEMORY_H

#include <pthread.h>
#include <time.h>

#include "pager/device/cuda/driver.h"
#include "pager/device/host_arena.h"

struct cuda_device;
struct cuda_share;

struct cuda_chunk {
    uint64_t handle; /* of the memory behind it; 0: none */
    unsigned users;  /* allocations that touch it */
};

struct cuda_memory {
    pthread_mutex_t lock;
    uint64_t mark; /* a little memory that goes when the card is reset, */
    unsigned long long mark_id;  /* and its name, never reused */
    struct fy_host_arena *arena; /* of addresses */
    uint64_t base;
    uint64_t limit_bytes;  /* of allocations */
    uint64_t margin_bytes; /* of the card's free memory, not for us */
    uint64_t chunk_bytes;
    unsigned nchunks;          /* that there are addresses for */
    unsigned most_chunks;      /* with memory at a time */
    struct cuda_chunk *chunks; /* NULL: one block, always there */
    uint64_t backed_bytes;     /* that the card has given us */
    uint64_t kept_bytes;       /* allocated for longer than one call */
    uint64_t promised_bytes;   /* that will be */
    uint64_t mirror_bytes; /* given up when other processes want the memory */
    /* budget.c: */
    uint64_t card_bytes;      /* of the whole card, that processes share */
    struct cuda_share *share; /* NULL: as if there were no other */
    pthread_t keeper;         /* thread that gives back memory that others
                               * ask for */
    bool has_keeper, stop;
    bool asleep;         /* the keeper, until it is asked */
    uint64_t uses;       /* counts allocations */
    uint64_t seen_uses;  /* by the keeper, */
    uint64_t idle_since; /* which then saw no call, in ns of CLOCK_MONOTONIC */
    bool owes;           /* others want memory that calls are using now */
    unsigned claims;     /* of calls */
    uint64_t claimed_bytes; /* the largest of them */
    bool in_vain;           /* a call has waited at `vain_turn', and nothing */
    uint32_t vain_turn;     /* came */
};

/* Takes addresses, no memory yet. wanted 0: nine tenths of the card. */
int cuda_memory_open(struct cuda_device *device, uint64_t wanted) FY_MUST_CHECK;
/* Nothing runs on the device any more; `driver': the context is of use. */
void cuda_memory_close(struct cuda_device *device, bool driver);

/*
 * 256-byte aligned; FY_ERR_NOFIT beyond the limit, or when the card has no more.
 * `kept': for longer than one call. The context is current.
 */
int cuda_memory_take(struct cuda_device *device, uint64_t bytes, bool kept,
                     uint64_t *out) FY_MUST_CHECK;
/* Work on it has run. */
void cuda_memory_release(struct cuda_device *device, uint64_t address,
                         bool kept);
/* The allocation is kept between calls, but given up when others want it; or no more. */
void cuda_memory_keep(struct cuda_device *device, uint64_t address, bool kept);
/* Returns true if no call has memory of the device. Lock held. */
bool cuda_memory_is_idle(const struct cuda_memory *memory);
/* Keeps or frees room for later requests. */
void cuda_memory_promise(struct cuda_device *device, int64_t bytes);

/* Bytes that calls can have in all by now. The context is current. */
uint64_t cuda_memory_usable(struct cuda_device *device);
/* Returns memory that no call uses to the card. The context is current. */
void cuda_memory_give_back(struct cuda_device *device);
/*
 * After a release: whether no call has memory any more, and more is kept for the
 * next one than a program that uses CUDA itself should miss.
 */
bool cuda_memory_is_surplus(struct cuda_device *device);

/* For budget.c; all with the lock held. */
/* Gives back at most that much; how much it was. The context is current. */
uint64_t cuda_memory_return(struct cuda_device *device, uint64_t bytes);
/* Bytes behind chunks that no call uses. */
uint64_t cuda_memory_spare(const struct cuda_memory *memory);

/* budget.c */
/* Joins the other processes; an error leaves this process without them. */
void cuda_budget_open(struct cuda_device *device);
/* In a forked child only its own things go. */
void cuda_budget_close(struct cuda_device *device);
/* Tells the other processes of changes. Lock held. */
void cuda_budget_tell(struct cuda_memory *memory);
/* Returns how much of the available memory is not for this process, with the
 * lock held. */
uint64_t cuda_budget_limit(struct cuda_memory *memory, uint64_t usable);
/*
 * Has others give back so that `bytes' could be had, as far as that is fair;
 * waits for it, at most until then. 0: the call of an earlier claim is over.
 */
void cuda_budget_claim(struct cuda_device *device, uint64_t bytes,
                       const struct timespec *until);

#endif
