/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's threads for what may wait: what becomes of jobs that are done,
 * of those in hand and of those still queued when the pool is left. Threads
 * wait for one another by semaphores only.
 */
#include "config.h"

#include <check.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proxy/storage/work.h"
#include "tests/unit/runner.h"

enum {
    THREADS = 8, /* of a pool */
    JOBS = THREADS + 3,
};

struct job {
    struct fy_work work; /* first */
    int runs, dones, drops;
};

static struct job jobs[JOBS];
static sem_t running, go_on, dropped;

static void
run(struct fy_work *work)
{
    ((struct job *)work)->runs++;
    sem_post(&running);
    while (sem_wait(&go_on) != 0) {
    }
}

static void
done(struct fy_work *work)
{
    ((struct job *)work)->dones++;
}

static void
drop(struct fy_work *work)
{
    ((struct job *)work)->drops++;
    sem_post(&dropped);
}

static void
await(sem_t *sem, int count)
{
    for (int i = 0; i < count; i++) {
        while (sem_wait(sem) != 0) {
        }
    }
}

static struct fy_pool *
submit_all(int bell)
{
    struct fy_pool *pool;
    ck_assert_int_eq(sem_init(&running, 0, 0), 0);
    ck_assert_int_eq(sem_init(&go_on, 0, 0), 0);
    ck_assert_int_eq(sem_init(&dropped, 0, 0), 0);
    ck_assert_int_eq(fy_pool_new(bell, &pool), 0);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){
            .work = {.run = run, .done = done, .drop = drop},
        };
        ck_assert_int_eq(fy_pool_submit(pool, &jobs[i].work), 0);
    }
    return pool;
}

static void
let_all_go(void)
{
    for (int i = 0; i < JOBS; i++) {
        sem_post(&go_on);
    }
}

START_TEST(test_done)
{
    int bell = eventfd(0, EFD_CLOEXEC);
    struct fy_pool *pool = submit_all(bell);
    let_all_go();
    for (uint64_t rung = 0, count; rung < JOBS; rung += count) {
        ck_assert_int_eq(read(bell, &count, sizeof count), sizeof count);
    }
    fy_work_collect(pool);
    fy_pool_free(pool);
    for (int i = 0; i < JOBS; i++) {
        ck_assert_int_eq(jobs[i].runs, 1);
        ck_assert_int_eq(jobs[i].dones, 1);
        ck_assert_int_eq(jobs[i].drops, 0);
    }
    close(bell);
}
END_TEST

/* Nobody collects: those in hand end, the others never begin; all are dropped,
 * once, and by somebody else than who left without waiting. */
START_TEST(test_drop)
{
    int bell = eventfd(0, EFD_CLOEXEC), begun = 0;
    struct fy_pool *pool = submit_all(bell);
    await(&running, THREADS);
    fy_pool_free(pool);
    let_all_go();
    await(&dropped, JOBS);
    for (int i = 0; i < JOBS; i++) {
        begun += jobs[i].runs;
        ck_assert_int_eq(jobs[i].runs, i < THREADS);
        ck_assert_int_eq(jobs[i].dones, 0);
        ck_assert_int_eq(jobs[i].drops, 1);
    }
    ck_assert_int_eq(begun, THREADS);
    close(bell);
}
END_TEST

/* Finished and not collected: dropped by who leaves last. */
START_TEST(test_drop_of_what_is_ready)
{
    int bell = eventfd(0, EFD_CLOEXEC);
    struct fy_pool *pool = submit_all(bell);
    let_all_go();
    for (uint64_t rung = 0, count; rung < JOBS; rung += count) {
        ck_assert_int_eq(read(bell, &count, sizeof count), sizeof count);
    }
    fy_pool_free(pool);
    await(&dropped, JOBS);
    for (int i = 0; i < JOBS; i++) {
        ck_assert_int_eq(jobs[i].dones, 0);
        ck_assert_int_eq(jobs[i].drops, 1);
    }
    close(bell);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("work");
    TCase *tests = tcase_create("work");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_done);
    tcase_add_test(tests, test_drop);
    tcase_add_test(tests, test_drop_of_what_is_ready);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
