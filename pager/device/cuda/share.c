/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row belongs to the process whose number and start time stand in it; where
 * that process is gone (or a zombie), it is free again, however it ended. No
 * descriptor stays open in the program. A process that replaces itself by exec
 * keeps number and time: its row is taken over when it uses the card again, and
 * counts until it ends when it does not; the card's own word on what is free
 * stands above all rows. A segment of System V and no file: what is mapped of a
 * file that somebody cuts off is a signal.
 */
#include "config.h"

#include "pager/device/cuda/share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/hash.h"

enum {
    ROWS = 120,
    LAYOUT = 3, /* of the table; another one is another segment */
};

struct row {
    /* Number and, above it, low half of the start time in clock ticks: one
     * word, so that nobody can be killed between the two. 0: free. */
    uint64_t owner;
    uint64_t busy;
    uint64_t held_bytes, spare_bytes, wanted_bytes;
};

struct table {
    uint64_t identity; /* whose and which card's; 0: new */
    uint32_t asked;    /* counts whenever somebody wants more */
    uint32_t returned; /* counts whenever something was given back */
    struct row rows[ROWS];
};

struct cuda_share {
    struct table *table;
    struct row *mine;
    uint64_t identity;
    int segment; /* -1: the table is in this process's own memory */
};

#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define STORE(field, value) \
    __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
static bool own[ROWS]; /* of devices that this process has open */

/* When a process began, in ticks; 0: there is none, or only its corpse. */
static uint64_t
start_of(uint32_t pid)
{
    char path[32], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    (void)close(file);
    if (length <= 0) {
        return 0;
    }
    text[length] = '\0';
    /* The name, in parentheses, may hold anything; the state is next. */
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ') {
        return 0;
    }
    at += 2;
    bool corpse = *at == 'Z' || *at == 'X';
    unsigned long threads = 0;
    for (int field = 3; field < 22 && at; field++) {
        at = strchr(at + 1, ' ');
        if (at && field + 1 == 20) {
            threads = strtoul(at, NULL, 10);
        }
    }
    /* Of a process whose first thread has ended others may go on. */
    if (!at || (corpse && threads <= 1)) {
        return 0;
    }
    return strtoull(at, NULL, 10);
}

/* As in a row; 0: there is no such process. */
static uint64_t
owner_of(uint32_t pid)
{
    uint64_t started = start_of(pid);
    return started == 0 ? 0 : started << 32 | pid;
}

/* Whether nobody stands behind a row that has an owner. */
static bool
is_stale(uint64_t owner)
{
    return owner_of((uint32_t)owner) != owner;
}

static key_t
key_of(uint64_t identity)
{
    return (key_t)(identity >> 33 | 1); /* 0 has a meaning of its own */
}

/* No segment but a new one or one of ours is used. */
static bool
is_ours(int segment)
{
    struct shmid_ds info;
    return shmctl(segment, IPC_STAT, &info) == 0 &&
           info.shm_perm.uid == geteuid() && info.shm_perm.cuid == geteuid() &&
           (info.shm_perm.mode & 0777) == 0600 &&
           info.shm_segsz == sizeof(struct table);
}

static struct table *
attach(uint64_t identity, int *segment)
{
    uint64_t none = 0;
    int found =
        shmget(key_of(identity), sizeof(struct table), IPC_CREAT | 0600);
    if (found < 0 || !is_ours(found)) {
        return NULL;
    }
    struct table *table = shmat(found, NULL, 0);
    if ((intptr_t)table == -1) {
        return NULL;
    }
    if (!__atomic_compare_exchange_n(&table->identity, &none, identity, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
        none != identity) {
        (void)shmdt(table); /* of another card, or something else */
        return NULL;
    }
    (void)madvise(table, sizeof *table, MADV_DONTFORK);
    *segment = found;
    return table;
}

static const struct cuda_share_state nothing;

static void
tell(struct row *row, const struct cuda_share_state *state)
{
    STORE(row->held_bytes, state->held_bytes);
    STORE(row->spare_bytes, state->spare_bytes);
    STORE(row->busy, state->busy ? 1 : 0);
}

static struct row *
take_row(struct table *table)
{
    uint64_t self = owner_of((uint32_t)getpid());
    struct row *mine = NULL;
    if (self == 0) {
        return NULL;
    }
    pthread_mutex_lock(&own_lock);
    for (unsigned i = 0; i < ROWS && !mine; i++) {
        struct row *row = &table->rows[i];
        uint64_t owner = LOAD(row->owner);
        if (own[i] || (owner != 0 && owner != self && !is_stale(owner))) {
            continue;
        }
        if (__atomic_compare_exchange_n(&row->owner, &owner, self, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            tell(row, &nothing);
            STORE(row->wanted_bytes, 0);
            own[i] = true;
            mine = row;
        }
    }
    pthread_mutex_unlock(&own_lock);
    return mine;
}

static void
give_row(struct cuda_share *share)
{
    uint64_t self = LOAD(share->mine->owner);
    pthread_mutex_lock(&own_lock);
    own[share->mine - share->table->rows] = false;
    /* Whoever could not see this process may have taken the row. */
    if ((uint32_t)self == (uint32_t)getpid()) {
        tell(share->mine, &nothing);
        STORE(share->mine->wanted_bytes, 0);
        (void)__atomic_compare_exchange_n(&share->mine->owner, &self, 0, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&own_lock);
}

/* Whether the segment is still the one that others find. */
static bool
is_current(const struct cuda_share *share)
{
    return shmget(key_of(share->identity), 0, 0) == share->segment;
}

struct cuda_share *
cuda_share_join(const char *card)
{
    char name[192];
    struct stat space;
    struct cuda_share *share = calloc(1, sizeof *share);
    /* Numbers of processes mean the same only in one name space. */
    if (!share || stat("/proc/thread-self/ns/pid", &space) != 0 ||
        snprintf(name, sizeof name, "ferry-%u-%llu-%s", (unsigned)geteuid(),
                 (unsigned long long)space.st_ino, card) >= (int)sizeof name) {
        free(share);
        return NULL;
    }
    share->identity = fy_hash_text(FY_HASH_START + LAYOUT, name) | 1;
    /* Once more when the last one was just removing it. */
    for (int round = 0; round < 2; round++) {
        share->table = attach(share->identity, &share->segment);
        if (!share->table) {
            continue;
        }
        share->mine = take_row(share->table);
        if (!share->mine) {
            (void)shmdt(share->table);
            break;
        }
        if (round == 1 || is_current(share)) {
            return share;
        }
        give_row(share);
        (void)shmdt(share->table);
    }
    free(share);
    return NULL;
}

struct cuda_share *
cuda_share_alone(void)
{
    struct cuda_share *share = calloc(1, sizeof *share);
    struct table *table = calloc(1, sizeof *table);
    if (!share || !table) {
        free(share);
        free(table);
        return NULL;
    }
    share->table = table;
    share->mine = table->rows;
    share->segment = -1;
    return share;
}

void
cuda_share_forget(struct cuda_share *share)
{
    /* A segment is not mapped here: something else may be where it was. */
    if (share->segment < 0) {
        free(share->table);
    }
    free(share);
}

/* Whether nobody else is there: the segment goes, too. */
static bool
is_last(const struct cuda_share *share)
{
    for (unsigned i = 0; i < ROWS; i++) {
        uint64_t owner = LOAD(share->table->rows[i].owner);
        if (owner != 0 && !is_stale(owner)) {
            return false;
        }
    }
    return true;
}

void
cuda_share_leave(struct cuda_share *share)
{
    if (!share) {
        return;
    }
    if (share->segment < 0) {
        cuda_share_forget(share);
        return;
    }
    give_row(share);
    cuda_share_returned(share);
    if (is_last(share) && is_current(share)) {
        (void)shmctl(share->segment, IPC_RMID, NULL);
    }
    (void)shmdt(share->table);
    free(share);
}

void
cuda_share_tell(struct cuda_share *share, const struct cuda_share_state *state)
{
    if (share) {
        tell(share->mine, state);
    }
}

static void
wake(uint32_t *word)
{
    __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void
cuda_share_want(struct cuda_share *share, uint64_t bytes)
{
    if (!share) {
        return;
    }
    uint64_t before = LOAD(share->mine->wanted_bytes);
    STORE(share->mine->wanted_bytes, bytes);
    if (bytes > before) {
        wake(&share->table->asked);
    }
}

bool
cuda_share_is_wanted(const struct cuda_share *share)
{
    for (unsigned i = 0; share && i < ROWS; i++) {
        const struct row *row = &share->table->rows[i];
        if (row != share->mine && LOAD(row->owner) != 0 &&
            LOAD(row->wanted_bytes) != 0) {
            return true;
        }
    }
    return false;
}

/* The others that have or want something; clears the rows of the dead. */
static unsigned
gather(struct cuda_share *share, struct row out[ROWS])
{
    unsigned others = 0;
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &share->table->rows[i];
        uint64_t owner = LOAD(row->owner);
        if (row == share->mine || owner == 0) {
            continue;
        }
        out[others] = (struct row){.busy = LOAD(row->busy),
                                   .held_bytes = LOAD(row->held_bytes),
                                   .spare_bytes = LOAD(row->spare_bytes),
                                   .wanted_bytes = LOAD(row->wanted_bytes)};
        if (out[others].held_bytes == 0 && out[others].wanted_bytes == 0) {
            continue;
        }
        if (is_stale(owner)) {
            (void)__atomic_compare_exchange_n(&row->owner, &owner, 0, false,
                                              __ATOMIC_ACQ_REL,
                                              __ATOMIC_RELAXED);
            continue;
        }
        others++;
    }
    return others;
}

void
cuda_share_look(struct cuda_share *share, uint64_t total_bytes, bool active,
                struct cuda_share_view *out)
{
    struct row rows[ROWS];
    *out = (struct cuda_share_view){.processes = 1, .fair_bytes = total_bytes};
    if (!share) {
        return;
    }
    unsigned others = gather(share, rows);
    out->processes = active ? 1 : 0;
    for (unsigned i = 0; i < others; i++) {
        out->processes += rows[i].busy != 0 || rows[i].wanted_bytes != 0;
    }
    out->processes += out->processes == 0;
    out->fair_bytes = total_bytes / out->processes;
    for (unsigned i = 0; i < others; i++) {
        const struct row *row = &rows[i];
        uint64_t fair = out->fair_bytes;
        uint64_t room = row->held_bytes < fair ? fair - row->held_bytes : 0;
        out->wanted_bytes +=
            row->wanted_bytes < room ? row->wanted_bytes : room;
        if (row->busy == 0) {
            out->surplus_bytes += row->spare_bytes;
        } else if (row->held_bytes > fair) {
            out->surplus_bytes += row->held_bytes - fair;
        }
    }
}

void
cuda_share_returned(struct cuda_share *share)
{
    if (share) {
        wake(&share->table->returned);
    }
}

uint32_t
cuda_share_turn(const struct cuda_share *share)
{
    return LOAD(share->table->returned);
}

bool
cuda_share_wait(struct cuda_share *share, uint32_t seen,
                const struct timespec *until)
{
    uint32_t *word = &share->table->returned;
    while (LOAD(*word) == seen) {
        long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, until,
                              NULL, FUTEX_BITSET_MATCH_ANY);
        if (result != 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
    }
    return true;
}

uint32_t
cuda_share_asked(const struct cuda_share *share)
{
    return LOAD(share->table->asked);
}

bool
cuda_share_wait_asked(struct cuda_share *share, uint32_t seen,
                      const struct timespec *longest)
{
    long result = syscall(SYS_futex, &share->table->asked, FUTEX_WAIT, seen,
                          longest, NULL, 0);
    return result == 0 || errno == EAGAIN || errno == EINTR ||
           errno == ETIMEDOUT;
}

void
cuda_share_ask(struct cuda_share *share)
{
    wake(&share->table->asked);
}
