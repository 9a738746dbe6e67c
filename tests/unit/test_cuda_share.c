/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes on one card: the table they share, and devices of the fake
 * driver that share its memory. Processes wait for one another by pipes and by
 * what the table says, never for a time; waits in vain are given none.
 * Long because the table and its users are tried with the same processes.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/share.h"
#include "tests/patience.h"
#include "tests/unit/cuda_rig.h"
#include "tests/unit/cuda_run.h"
#include "tests/unit/runner.h"

#define MIB ((uint64_t)1 << 20)

/* A process that does what it is told: a letter each, answered by one. */
struct other {
    pid_t pid;
    int to, from;
};

static void
say(int to, char word)
{
    ck_assert_int_eq(write(to, &word, 1), 1);
}

static char
hear(int from)
{
    char word = '?';
    ck_assert_int_eq(read(from, &word, 1), 1);
    return word;
}

static struct other
start(void (*body)(int from, int to))
{
    struct other other;
    int there[2], back[2];
    ck_assert_int_eq(pipe(there), 0);
    ck_assert_int_eq(pipe(back), 0);
    other.pid = fork();
    ck_assert_int_ge(other.pid, 0);
    if (other.pid == 0) {
        alarm((unsigned)patient(200));
        close(there[1]);
        close(back[0]);
        body(there[0], back[1]);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    other.to = there[1];
    other.from = back[0];
    ck_assert_int_eq(hear(other.from), 'r'); /* ready */
    return other;
}

static void
tell(struct other *other, char word)
{
    say(other->to, word);
    ck_assert_int_eq(hear(other->from), word);
}

static void
end(struct other *other, int signal)
{
    int status;
    if (signal != 0) {
        ck_assert_int_eq(kill(other->pid, signal), 0);
    }
    close(other->to);
    ck_assert_int_eq(waitpid(other->pid, &status, 0), other->pid);
    ck_assert(signal != 0 || status == 0);
    close(other->from);
}

/* --- the table --- */

static char card[32];

static void
name_card(void)
{
    (void)snprintf(card, sizeof card, "test-%d", (int)getpid());
}

/* Holds 40 of 64 until 'b' makes it busy, or the pipe ends. */
static void
hold_forty(int from, int to)
{
    char word;
    struct cuda_share *share = cuda_share_join(card);
    struct cuda_share_state state = {40, 40, false};
    cuda_share_tell(share, &state);
    say(to, share == NULL ? 'n' : 'r');
    while (read(from, &word, 1) == 1) {
        state.busy = word == 'b';
        cuda_share_tell(share, &state);
        if (word == 'w') {
            cuda_share_want(share, 24);
        }
        say(to, word);
    }
    cuda_share_leave(share);
}

START_TEST(test_table)
{
    struct cuda_share_view view;
    name_card();
    struct cuda_share *mine = cuda_share_join(card);
    ck_assert_ptr_nonnull(mine);
    cuda_share_look(mine, 64, true, &view);
    ck_assert_uint_eq(view.processes, 1);
    ck_assert_uint_eq(view.fair_bytes, 64);
    struct other other = start(hold_forty);
    cuda_share_look(mine, 64, true, &view);
    ck_assert_uint_eq(view.processes, 1); /* it is idle */
    ck_assert_uint_eq(view.surplus_bytes, 40);
    ck_assert(!cuda_share_is_wanted(mine));
    tell(&other, 'b');
    cuda_share_look(mine, 64, true, &view);
    ck_assert_uint_eq(view.processes, 2);
    ck_assert_uint_eq(view.fair_bytes, 32);
    ck_assert_uint_eq(view.surplus_bytes, 8);
    uint32_t asked = cuda_share_asked(mine);
    tell(&other, 'w');
    ck_assert_uint_ne(cuda_share_asked(mine), asked);
    ck_assert(cuda_share_is_wanted(mine));
    cuda_share_look(mine, 64, true, &view);
    ck_assert_uint_eq(view.wanted_bytes, 0); /* it has more than its share */
    end(&other, 0);
    cuda_share_look(mine, 64, true, &view);
    ck_assert_uint_eq(view.surplus_bytes, 0);
    ck_assert(!cuda_share_is_wanted(mine));
    cuda_share_leave(mine);
}
END_TEST

/* Killed, waited for or not: what it had and wanted is forgotten. */
START_TEST(test_table_outlives_its_users)
{
    struct cuda_share_view view;
    siginfo_t info;
    name_card();
    struct cuda_share *mine = cuda_share_join(card);
    ck_assert_ptr_nonnull(mine);
    for (int round = 0; round < 200; round++) { /* more than there are rows */
        struct other other = start(hold_forty);
        tell(&other, 'b');
        tell(&other, 'w');
        ck_assert_int_eq(kill(other.pid, SIGKILL), 0);
        ck_assert_int_eq(
            waitid(P_PID, (id_t)other.pid, &info, WEXITED | WNOWAIT), 0);
        if (round % 2 == 0) { /* a zombie holds nothing */
            cuda_share_look(mine, 64, true, &view);
            ck_assert_uint_eq(view.processes, 1);
            ck_assert_uint_eq(view.surplus_bytes, 0);
        }
        end(&other, SIGKILL);
    }
    cuda_share_look(mine, 64, true, &view);
    ck_assert(!cuda_share_is_wanted(mine));
    cuda_share_leave(mine);
}
END_TEST

/* The segment that this process has made, or -1; its key. */
static int
own_segment(key_t *key)
{
    struct shmid_ds info;
    struct shminfo limits;
    int last = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&limits);
    for (int i = 0; i <= last; i++) {
        int segment = shmctl(i, SHM_STAT, &info);
        if (segment >= 0 && info.shm_cpid == getpid()) {
            *key = info.shm_perm.__key;
            return segment;
        }
    }
    return -1;
}

START_TEST(test_segment)
{
    struct shmid_ds info;
    key_t key;
    name_card();
    struct cuda_share *one = cuda_share_join(card);
    struct cuda_share *two = cuda_share_join(card);
    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_nonnull(two);
    int segment = own_segment(&key);
    ck_assert_int_ge(segment, 0);
    ck_assert_int_eq(shmctl(segment, IPC_STAT, &info), 0);
    ck_assert_uint_eq(info.shm_perm.mode & 0777, 0600);
    ck_assert_uint_eq(info.shm_nattch, 2);
    cuda_share_leave(one);
    ck_assert_int_eq(shmctl(segment, IPC_STAT, &info), 0);
    cuda_share_leave(two);
    ck_assert_int_lt(own_segment(&key), 0); /* the last one removes it */
}
END_TEST

/* What is not ours is neither used nor changed; the wrong one not removed. */
START_TEST(test_foreign_segments)
{
    static const struct {
        size_t bytes; /* 0: as ours is */
        int mode;
        int content;
    } rows[] = {{100, 0600, 0},
                {65536, 0600, 0},
                {0, 0660, 0},
                {0, 0604, 0},
                {0, 0600, 'x'}};
    struct shmid_ds info;
    key_t key;
    name_card();
    struct cuda_share *one = cuda_share_join(card);
    ck_assert_ptr_nonnull(one);
    ck_assert_int_eq(shmctl(own_segment(&key), IPC_STAT, &info), 0);
    size_t bytes = info.shm_segsz;
    cuda_share_leave(one);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int other = shmget(key, rows[i].bytes ? rows[i].bytes : bytes,
                           IPC_CREAT | IPC_EXCL | rows[i].mode);
        ck_assert_int_ge(other, 0);
        char *memory = shmat(other, NULL, 0);
        ck_assert((intptr_t)memory != -1);
        memory[0] = (char)rows[i].content;
        ck_assert_msg(cuda_share_join(card) == NULL, "row %zu", i);
        ck_assert_int_eq(memory[0], rows[i].content);
        ck_assert_int_eq(shmdt(memory), 0);
        ck_assert_int_eq(shmctl(other, IPC_RMID, NULL), 0);
    }
    /* Somebody has removed ours, and others have a new one. */
    one = cuda_share_join(card);
    ck_assert_ptr_nonnull(one);
    ck_assert_int_eq(shmctl(own_segment(&key), IPC_RMID, NULL), 0);
    struct cuda_share *two = cuda_share_join(card);
    ck_assert_ptr_nonnull(two);
    cuda_share_want(two, 5);
    ck_assert(!cuda_share_is_wanted(one));
    int segment = shmget(key, 0, 0);
    cuda_share_leave(one);
    ck_assert_int_eq(shmctl(segment, IPC_STAT, &info), 0);
    cuda_share_leave(two);
    ck_assert_int_ne(shmctl(segment, IPC_STAT, &info), 0);
}
END_TEST

/* A child has none of it, and leaves the parent's row alone. */
START_TEST(test_fork)
{
    struct cuda_share_view view;
    int status;
    name_card();
    struct cuda_share *mine = cuda_share_join(card);
    struct cuda_share *other = cuda_share_join(card);
    ck_assert(mine != NULL && other != NULL);
    cuda_share_tell(mine, &(struct cuda_share_state){40, 40, false});
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        cuda_share_forget(mine);
        cuda_share_forget(other);
        /* One of its own, beside its parent's. */
        struct cuda_share *own = cuda_share_join(card);
        cuda_share_tell(own, &(struct cuda_share_state){8, 8, false});
        cuda_share_look(own, 64, true, &view);
        bool good = own != NULL && view.surplus_bytes == 40;
        cuda_share_leave(own);
        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    cuda_share_look(other, 64, true, &view);
    ck_assert_uint_eq(view.surplus_bytes, 40);
    cuda_share_leave(other);
    cuda_share_leave(mine);
}
END_TEST

/* Whoever may write no files at all joins like others. */
START_TEST(test_no_files)
{
    struct rlimit before, none;
    name_card();
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    /* Without assertions, which write files. */
    bool limited = setrlimit(RLIMIT_FSIZE, &none) == 0;
    struct cuda_share *mine = cuda_share_join(card);
    limited = setrlimit(RLIMIT_FSIZE, &before) == 0 && limited;
    ck_assert(limited);
    ck_assert_ptr_nonnull(mine);
    cuda_share_leave(mine);
}
END_TEST

/* Rows of garbage: nobody stands behind them, and nobody waits for them. */
START_TEST(test_garbage)
{
    enum {
        BYTES = 512
    };
    struct cuda_share_view view;
    struct shmid_ds info;
    key_t key;
    name_card();
    struct cuda_share *mine = cuda_share_join(card);
    ck_assert_ptr_nonnull(mine);
    int segment = own_segment(&key);
    ck_assert_int_eq(shmctl(segment, IPC_STAT, &info), 0);
    char *memory = shmat(segment, NULL, 0);
    ck_assert((intptr_t)memory != -1);
    char *garbage = memory + info.shm_segsz - BYTES;
    for (size_t i = 0; i < BYTES; i++) {
        garbage[i] = (char)(i * 37 + 11);
    }
    /* The last rows of all; one of a process that lives, from another time. */
    uint64_t first = 1;
    memcpy(garbage + BYTES - 40, &first, sizeof first);
    cuda_share_look(mine, 64, true, &view);
    ck_assert_uint_eq(view.processes, 1);
    ck_assert_uint_eq(view.wanted_bytes, 0);
    ck_assert_uint_eq(view.surplus_bytes, 0);
    ck_assert(!cuda_share_is_wanted(mine));
    cuda_share_leave(mine);
    ck_assert_int_eq(shmdt(memory), 0);
    ck_assert_int_lt(own_segment(&key), 0);
}
END_TEST

static void *
hold_on(void *ends)
{
    hold_forty(((int *)ends)[0], ((int *)ends)[1]);
    _exit(0);
}

static void
hold_without_first_thread(int from, int to)
{
    static int ends[2];
    pthread_t thread;
    ends[0] = from;
    ends[1] = to;
    if (pthread_create(&thread, NULL, hold_on, ends) != 0) {
        _exit(3);
    }
    pthread_exit(NULL);
}

/* A process is there as long as one thread is. */
START_TEST(test_first_thread_ends)
{
    struct cuda_share_view view;
    char path[64], state = '?', name[64];
    name_card();
    struct cuda_share *mine = cuda_share_join(card);
    ck_assert_ptr_nonnull(mine);
    struct other other = start(hold_without_first_thread);
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)other.pid);
    while (state != 'Z') {
        FILE *file = fopen(path, "re");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_eq(fscanf(file, "%*d %63s %c", name, &state), 2);
        (void)fclose(file);
        usleep(1000);
    }
    tell(&other, 'b');
    cuda_share_look(mine, 64, true, &view);
    ck_assert_uint_eq(view.processes, 2);
    end(&other, 0);
    cuda_share_leave(mine);
}
END_TEST

START_TEST(test_waiting)
{
    const struct timespec now = {0, 1};
    name_card();
    struct cuda_share *mine = cuda_share_join(card);
    ck_assert_ptr_nonnull(mine);
    uint32_t turn = cuda_share_turn(mine);
    ck_assert(!cuda_share_wait(mine, turn, &now));
    cuda_share_returned(mine);
    ck_assert(cuda_share_wait(mine, turn, &now));
    cuda_share_leave(mine);
}
END_TEST

/* --- devices --- */

static char machine_path[] = "/tmp/test_cuda_share_XXXXXX";

static void
share_machine(void)
{
    int file = mkstemp(machine_path);
    ck_assert_int_ge(file, 0);
    close(file);
    (void)setenv("FAKECUDA_SHARED", machine_path, 1);
    (void)setenv("FAKECUDA_MEMORY", "64M", 1);
    (void)setenv("FAKECUDA_GRANULARITY", "64K", 1);
}

static struct timespec
seconds_from_now(int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += patient(seconds);
    return until;
}

enum {
    PARTS = 4 /* of the memory of take_and_free() */
};

static struct fy_device *kept_on; /* with allocations that may be reclaimed */

static void
give_up(void *addresses, uint64_t bytes)
{
    for (uint64_t *at = addresses; *at != 0 && bytes > 0; at++) {
        kept_on->ops->keep(kept_on, *at, false);
        kept_on->ops->free(kept_on, *at);
        bytes -= bytes < 10 * MIB ? bytes : 10 * MIB;
    }
}

/* 't' takes 40 MiB as a call would, 'f' frees it, 'k' keeps it as mirrors are. */
static void
take_and_free(int from, int to)
{
    const struct fy_device_ops *ops = fy_device_find("cuda");
    struct fy_device *device;
    uint64_t addresses[PARTS + 1] = {0};
    char word;
    if (ops->open(0, &device) != 0) {
        _exit(3);
    }
    kept_on = device;
    device->reclaim = give_up;
    device->reclaim_of = addresses;
    say(to, 'r');
    while (read(from, &word, 1) == 1) {
        for (int i = 0; i < PARTS; i++) {
            if (word == 't' &&
                ops->alloc(device, 10 * MIB, &addresses[i]) != 0) {
                _exit(4);
            }
            if (word == 'f') {
                ops->free(device, addresses[i]);
            }
            if (word == 'k') {
                ops->keep(device, addresses[i], true);
            }
        }
        say(to, word);
    }
    ops->close(device);
    _exit(cuda_faults() == 0 ? 0 : 5);
}

static struct fy_device *
open_here(void)
{
    const struct fy_device_ops *ops = fy_device_find("cuda");
    struct fy_device *device;
    ck_assert_int_eq(ops->open(0, &device), 0);
    ck_assert_ptr_nonnull(((struct cuda_device *)device)->memory.share);
    return device;
}

/* What an idle process has kept is there for who asks. */
START_TEST(test_idle_process_gives_back)
{
    struct timespec until = seconds_from_now(200);
    share_machine();
    struct other other = start(take_and_free);
    struct fy_device *device = open_here();
    const struct fy_device_ops *ops = device->ops;
    uint64_t address;
    tell(&other, 't');
    tell(&other, _i ? 'k' : 'f'); /* it keeps what is free for a moment */
    ck_assert_uint_lt(ops->memory_bytes(device), 20 * MIB);
    ops->claim(device, 50 * MIB, &until);
    ck_assert_uint_ge(ops->memory_bytes(device), 50 * MIB);
    ck_assert_int_eq(ops->alloc(device, 50 * MIB, &address), 0);
    ops->free(device, address);
    ops->claim(device, 0, NULL);
    end(&other, 0);
    ops->close(device);
    (void)unlink(machine_path);
}
END_TEST

struct claimer {
    pthread_t thread;
    struct fy_device *device;
};

static void *
claim_half(void *argument)
{
    struct claimer *claimer = argument;
    struct timespec until = seconds_from_now(200);
    claimer->device->ops->claim(claimer->device, 50 * MIB, &until);
    return NULL;
}

/* A busy one gives what is beyond its share when its call is over. */
START_TEST(test_busy_process_gives_back_later)
{
    struct claimer claimer;
    share_machine();
    struct other other = start(take_and_free);
    tell(&other, 't');
    claimer.device = open_here();
    const struct fy_device_ops *ops = claimer.device->ops;
    ck_assert_int_eq(
        pthread_create(&claimer.thread, NULL, claim_half, &claimer), 0);
    struct cuda_memory *memory =
        &((struct cuda_device *)claimer.device)->memory;
    for (bool waiting = false; !waiting; usleep(1000)) {
        pthread_mutex_lock(&memory->lock);
        waiting = memory->claims > 0;
        pthread_mutex_unlock(&memory->lock);
    }
    tell(&other, 'f');
    ck_assert_int_eq(pthread_join(claimer.thread, NULL), 0);
    /* At least its half of nine tenths. */
    ck_assert_uint_ge(ops->memory_bytes(claimer.device), 28 * MIB);
    ops->claim(claimer.device, 0, NULL);
    end(&other, 0);
    ops->close(claimer.device);
    (void)unlink(machine_path);
}
END_TEST

/* One that does not: nobody waits for it twice. */
START_TEST(test_waiting_in_vain)
{
    struct timespec past = {0, 1}, until = seconds_from_now(200);
    share_machine();
    struct other other = start(take_and_free);
    tell(&other, 't');
    struct fy_device *device = open_here();
    const struct fy_device_ops *ops = device->ops;
    ops->claim(device, 50 * MIB, &past);
    ops->claim(device, 0, NULL);
    ops->claim(device, 50 * MIB, &until);
    ops->claim(device, 0, NULL);
    ck_assert_uint_lt(ops->memory_bytes(device), 20 * MIB);
    /* It is killed: its memory and its row are free. */
    end(&other, SIGKILL);
    ops->claim(device, 50 * MIB, &until);
    ck_assert_uint_ge(ops->memory_bytes(device), 50 * MIB);
    ops->claim(device, 0, NULL);
    ops->close(device);
    (void)unlink(machine_path);
}
END_TEST

/* While one waits, another does not take what comes. */
START_TEST(test_others_leave_a_share)
{
    share_machine();
    struct fy_device *device = open_here();
    const struct fy_device_ops *ops = device->ops;
    ck_assert_uint_ge(ops->memory_bytes(device), 56 * MIB);
    struct cuda_device *cuda = (struct cuda_device *)device;
    unsigned char uuid[16];
    char name[64];
    ck_assert_int_eq(cuda->driver->device_uuid(uuid, 0), 0);
    for (int i = 0; i < 16; i++) {
        (void)snprintf(name + (size_t)2 * i, 3, "%02x", uuid[i]);
    }
    (void)snprintf(name + 32, sizeof name - 32, "-%llu",
                   (unsigned long long)(cuda->memory.card_bytes >> 20));
    struct cuda_share *other = cuda_share_join(name);
    ck_assert_ptr_nonnull(other);
    cuda_share_want(other, 20 * MIB);
    uint64_t left = ops->memory_bytes(device);
    ck_assert_uint_ge(left, 36 * MIB);
    ck_assert_uint_le(left, 38 * MIB);
    cuda_share_want(other, 60 * MIB); /* more than is fair */
    left = ops->memory_bytes(device);
    ck_assert_uint_ge(left, 28 * MIB);
    ck_assert_uint_le(left, 30 * MIB);
    cuda_share_leave(other);
    ck_assert_uint_ge(ops->memory_bytes(device), 56 * MIB);
    ops->close(device);
    (void)unlink(machine_path);
}
END_TEST

int
main(int argc, char **argv)
{
    (void)argc;
    cuda_rig_start(argv);
    (void)setenv("FAKECUDA_STRICT", "1", 1);
    Suite *suite = suite_create("cuda_share");
    TCase *tests = tcase_create("cuda_share");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_table);
    tcase_add_test(tests, test_table_outlives_its_users);
    tcase_add_test(tests, test_segment);
    tcase_add_test(tests, test_foreign_segments);
    tcase_add_test(tests, test_fork);
    tcase_add_test(tests, test_no_files);
    tcase_add_test(tests, test_garbage);
    tcase_add_test(tests, test_first_thread_ends);
    tcase_add_test(tests, test_waiting);
    tcase_add_loop_test(tests, test_idle_process_gives_back, 0, 2);
    tcase_add_test(tests, test_busy_process_gives_back_later);
    tcase_add_test(tests, test_waiting_in_vain);
    tcase_add_test(tests, test_others_leave_a_share);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
