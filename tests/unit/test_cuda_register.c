/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration of operands that calls come back to, on the fake driver, whose
 * copies of registered memory use the page frames of then (io_uring's pins), so
 * that a registration that should have ended gives a wrong result. Each test is
 * a process of its own. Where io_uring is refused, only counts are tested.
 * Long because it has what programs can do to memory.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pager/device/cuda/driver.h"
#include "pager/device/cuda/users.h"
#include "pager/device/cuda/watch.h"
#include "tests/patience.h"
#include "tests/unit/calls.h"
#include "tests/unit/cuda_rig.h"
#include "tests/unit/cuda_run.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

enum {
    ROWS = 8192,
    COLUMNS = 80,
    THIN = 4,
    PAGE = 4096,
    BYTES = ROWS * COLUMNS * 8, /* a large operand: 5 MiB, whole pages */
    MAP_BYTES = BYTES + 16 * PAGE,
};

static double ones[ROWS * THIN], thin[ROWS * THIN];

static void
start(const char *more)
{
    engine_start_on_card(more);
    for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++) {
        ones[i] = 1;
    }
}

static void
finish(void)
{
    explained_end();
    ck_assert_uint_eq(cuda_faults(), 0);
    ck_assert_uint_eq(cuda_count("race"), 0);
}

static bool called; /* else asking would load the driver, and that is seen */

static unsigned
registered(void)
{
    return !called ? 0 : (unsigned)cuda_count("cuMemHostRegister_v2");
}

static unsigned
unregistered(void)
{
    return (unsigned)cuda_count("cuMemHostUnregister");
}

/* C = A B, with m by k and k by n. */
static void
gemm(int m, int n, int k, const double *a, int lda, const double *b, int ldb,
     double *c, int ldc)
{
    char none = 'N';
    double one = 1, zero = 0;
    const void *const args[] = {&none, &none, &m,   &n,    &k, &one, a,
                                &lda,  b,     &ldb, &zero, c,  &ldc};
    ck_assert_int_eq(engine_call("dgemm_", 13, args), FY_REASON_NONE);
    __atomic_store_n(&called, true, __ATOMIC_RELAXED);
}

static void
fill(double *a, double value)
{
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        a[i] = value + (double)(i % 7);
    }
}

/* `a' goes in as it is: each element is summed up once. */
static void
use_input(const double *a)
{
    double sum = 0, got = 0;
    size_t wrong = 0;
    memset(thin, 0xFF, sizeof(thin));
    gemm(ROWS, THIN, COLUMNS, a, ROWS, ones, ROWS, thin, ROWS);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        sum += a[i];
    }
    for (size_t i = 0; i < ROWS; i++) {
        got += thin[i];
        wrong += thin[i] != thin[i + ROWS];
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_msg(got == sum, "%g instead of %g", got, sum);
}

/* `c' becomes the product of ones and a number. */
static void
use_output(double *c, double value)
{
    static double factor[THIN * COLUMNS];
    for (size_t i = 0; i < sizeof(factor) / sizeof(factor[0]); i++) {
        factor[i] = value;
    }
    gemm(ROWS, COLUMNS, THIN, ones, ROWS, factor, THIN, c, ROWS);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        if (c[i] != THIN * value) {
            ck_abort_msg("element %zu is %g, not %g", i, c[i], THIN * value);
        }
    }
}

static char *
map(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    return at;
}

/* Not aligned to pages, as malloc's are not. */
static double *
operand_in(char *map_at)
{
    return (double *)(map_at + 4 * PAGE + 16);
}

/* An operand that three calls have used: registered from the third on. */
static void
make_registered(double *a, bool output)
{
    unsigned before = registered();
    for (int i = 1; i <= 3; i++) {
        if (output) {
            use_output(a, i);
        } else {
            fill(a, i);
            use_input(a);
        }
        ck_assert_uint_eq(registered() - before, i == 3);
    }
}

START_TEST(test_third_use)
{
    start("register=64MiB;");
    double *a = operand_in(map(MAP_BYTES));
    make_registered(a, _i == 1);
    for (int i = 4; i < 8; i++) {
        if (_i == 1) {
            use_output(a, i);
            a[5] = 7;
        } else {
            fill(a, i);
            a[i] = 99;
            use_input(a);
        }
    }
    /* It was the registration that they went by, and it has lasted. */
    ck_assert_uint_eq(registered(), 1);
    ck_assert_uint_eq(unregistered(), 0);
    finish();
}
END_TEST

/* What goes past the ring: the copies issued, with registration and without. */
START_TEST(test_copies_are_direct)
{
    start("register=64MiB;");
    double *a = operand_in(map(MAP_BYTES));
    fill(a, 1);
    use_input(a);
    unsigned long before =
        cuda_count("cuMemcpyHtoDAsync_v2") + cuda_count("cuMemcpy2DAsync_v2");
    use_input(a);
    unsigned long ring = cuda_count("cuMemcpyHtoDAsync_v2") +
                         cuda_count("cuMemcpy2DAsync_v2") - before;
    use_input(a);
    before =
        cuda_count("cuMemcpyHtoDAsync_v2") + cuda_count("cuMemcpy2DAsync_v2");
    use_input(a);
    unsigned long direct = cuda_count("cuMemcpyHtoDAsync_v2") +
                           cuda_count("cuMemcpy2DAsync_v2") - before;
    ck_assert_msg(direct < ring, "%lu copies, %lu by the ring", direct, ring);
    finish();
}
END_TEST

/* A part of a larger array: rows with gaps between them, that stay as they are. */
START_TEST(test_strided)
{
    enum {
        LD = ROWS + 1000
    };
    start("register=64MiB;");
    size_t all = (size_t)LD * COLUMNS;
    double *c = (double *)(map(all * 8 + 2 * PAGE) + 24);
    double factor[THIN * COLUMNS];
    for (size_t i = 0; i < all; i++) {
        c[i] = -1;
    }
    for (int turn = 1; turn <= 5; turn++) {
        for (size_t i = 0; i < THIN * COLUMNS; i++) {
            factor[i] = turn;
        }
        gemm(ROWS, COLUMNS, THIN, ones, ROWS, factor, THIN, c, LD);
        size_t wrong = 0;
        for (size_t i = 0; i < all; i++) {
            wrong += c[i] != (i % LD < ROWS ? THIN * turn : -1);
        }
        ck_assert_uint_eq(wrong, 0);
    }
    ck_assert_uint_eq(registered(), 1);
    finish();
}
END_TEST

START_TEST(test_never)
{
    start(_i == 0 ? "register=never;" : "register=4MiB;");
    double *a = operand_in(map(MAP_BYTES));
    fill(a, 1);
    for (int i = 0; i < 6; i++) {
        use_input(a);
    }
    ck_assert_uint_eq(registered(), 0);
    finish();
}
END_TEST

/* By itself only where the kernel tells of all: not of MADV_GUARD_INSTALL. */
START_TEST(test_by_itself)
{
    char *page = map(PAGE);
    bool silent = madvise(page, PAGE, 102 /* MADV_GUARD_INSTALL */) == 0;
    start("");
    double *a = operand_in(map(MAP_BYTES));
    for (int i = 0; i < 5; i++) {
        fill(a, i);
        use_input(a);
    }
    if (silent) {
        ck_assert_uint_eq(registered(), 0);
        ck_assert_ptr_nonnull(strstr(explained(), "MADV_GUARD_INSTALL"));
    }
    finish();
}
END_TEST

START_TEST(test_budget)
{
    start("register=8MiB;");
    double *a = operand_in(map(MAP_BYTES)), *b = operand_in(map(MAP_BYTES));
    make_registered(a, false);
    make_registered(b, false);
    ck_assert_uint_eq(unregistered(), 1); /* of a, used longer ago */
    /* It comes back only after twice as many uses. */
    for (int i = 0; i < 4; i++) {
        fill(a, 10 + i);
        use_input(a);
    }
    ck_assert_uint_eq(registered(), 2);
    use_input(a);
    ck_assert_uint_eq(registered(), 3);
    ck_assert_uint_eq(unregistered(), 2);
    finish();
}
END_TEST

/* --- what programs do to memory --- */

static char *region;  /* MAP_BYTES, the operand in it */
static double *moved; /* where the operand is afterwards */
static bool taken;    /* another thread's memory is where the region was */

static void *
in_thread(void *argument)
{
    (*(void (**)(void))argument)();
    return NULL;
}

/* Threads of ours, which the change has woken, may map something there, too. */
static void
map_again(char *at, size_t bytes)
{
    taken =
        mmap(at, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at;
}

static void
unmap_and_map(void)
{
    munmap(region, MAP_BYTES);
    map_again(region, MAP_BYTES);
}

static void
unmap_a_page(void)
{
    munmap(region + 100 * PAGE, PAGE);
    map_again(region + 100 * PAGE, PAGE);
}

static void
map_over(void)
{
    (void)mmap(region + 10 * PAGE, 20 * PAGE, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void
dont_need(void)
{
    ck_assert_int_eq(madvise(region, MAP_BYTES, MADV_DONTNEED), 0);
}

static void
dont_need_a_page(void)
{
    ck_assert_int_eq(madvise(region + 50 * PAGE, PAGE, MADV_DONTNEED), 0);
}

static void
free_lazily(void)
{
    ck_assert_int_eq(madvise(region + 50 * PAGE, 99 * PAGE, MADV_FREE), 0);
    (void)madvise(region + 50 * PAGE, 99 * PAGE, 21); /* MADV_PAGEOUT */
}

static void
move_away(void)
{
    char *to = mremap(region, MAP_BYTES, MAP_BYTES,
                      MREMAP_MAYMOVE | MREMAP_FIXED, map(MAP_BYTES));
    ck_assert_ptr_ne(to, MAP_FAILED);
    moved = operand_in(to);
    map_again(region, MAP_BYTES);
}

static void
move_onto(void)
{
    char *from = map(8 * PAGE);
    memset(from, 1, (size_t)8 * PAGE);
    ck_assert_ptr_eq(mremap(from, 8 * PAGE, 8 * PAGE,
                            MREMAP_MAYMOVE | MREMAP_FIXED, region + 64 * PAGE),
                     region + 64 * PAGE);
}

static void
leave_empty(void)
{
    ck_assert_ptr_ne(mremap(region, MAP_BYTES, MAP_BYTES,
                            MREMAP_MAYMOVE | 4 /* DONTUNMAP */, NULL),
                     MAP_FAILED);
}

static void
attach_over(void)
{
    int id = shmget(IPC_PRIVATE, (size_t)16 * PAGE, 0600);
    ck_assert_int_ge(id, 0);
    ck_assert_ptr_eq(shmat(id, region + 32 * PAGE, SHM_REMAP),
                     region + 32 * PAGE);
    (void)shmctl(id, IPC_RMID, NULL);
}

static void
protect_and_back(void)
{
    ck_assert_int_eq(mprotect(region, (size_t)99 * PAGE, PROT_NONE), 0);
    ck_assert_int_eq(
        mprotect(region, (size_t)99 * PAGE, PROT_READ | PROT_WRITE), 0);
}

/* The child writes too, and then the parent does. */
static void
wait_for(pid_t child)
{
    int status;
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static void
fork_once(void)
{
    pid_t child = fork();
    if (child == 0) {
        memset(region, 3, MAP_BYTES);
        _exit(0);
    }
    wait_for(child);
}

static int hold_pipe[2];

/* The child lives on, with its copy, while the parent writes and calls. */
static void
fork_bare(void)
{
    ck_assert_int_eq(pipe(hold_pipe), 0);
    long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        char byte;
        (void)close(hold_pipe[1]);
        ssize_t got = read(hold_pipe[0], &byte, 1);
        _exit(got != 0);
    }
    (void)close(hold_pipe[0]);
}

static void
vfork_unmaps(void)
{
    pid_t child = vfork();
    if (child == 0) {
        (void)madvise(region, MAP_BYTES, MADV_DONTNEED);
        _exit(0);
    }
    wait_for(child);
}

static void
nothing(void)
{
}

static const struct hazard {
    void (*happens)(void);
    bool lasts; /* the registration may stay */
} hazards[] = {
    {nothing, true},      {unmap_and_map, false}, {unmap_a_page, false},
    {map_over, false},    {dont_need, false},     {dont_need_a_page, false},
    {free_lazily, false}, {move_away, false},     {move_onto, false},
    {leave_empty, false}, {attach_over, false},   {protect_and_back, true},
    {fork_once, false},   {fork_bare, true},      {vfork_unmaps, false},
};

enum {
    HAZARDS = sizeof(hazards) / sizeof(hazards[0])
};

/* Each for an input and for an output, in this thread and in another one. */
START_TEST(test_hazard)
{
    const struct hazard *hazard = &hazards[_i % HAZARDS];
    bool output = _i / HAZARDS % 2 == 1, elsewhere = _i / HAZARDS / 2 == 1;
    start("register=64MiB;");
    region = map(MAP_BYTES);
    double *a = moved = operand_in(region);
    make_registered(a, output);
    if (elsewhere) {
        pthread_t thread;
        void (*happens)(void) = hazard->happens;
        ck_assert_int_eq(pthread_create(&thread, NULL, in_thread, &happens), 0);
        pthread_join(thread, NULL);
    } else {
        hazard->happens();
    }
    for (int i = 0; i < 3 && !taken; i++) {
        double *const places[2] = {a, moved};
        for (int k = 0; k < 2; k++) {
            if (output) {
                use_output(places[k], 10 + i + k);
            } else {
                fill(places[k], 10 + 2 * i + k);
                use_input(places[k]);
            }
        }
    }
    if (hazard->lasts) {
        ck_assert_uint_eq(unregistered(), 0);
    } else if (!taken) {
        ck_assert_uint_ge(unregistered(), 1);
    }
    if (hold_pipe[1] != 0) {
        (void)close(hold_pipe[1]);
        ck_assert_int_gt(wait(NULL), 0);
    }
    finish();
}
END_TEST

/*
 * Memory that was watched moves as a whole afterwards: it has grown where it is
 * (0), or to elsewhere (1), and what was registered in part would be two.
 */
START_TEST(test_grows)
{
    start("register=64MiB;");
    char *room = region = map((size_t)16 * MAP_BYTES);
    ck_assert_int_eq(
        mprotect(room + MAP_BYTES, (size_t)15 * MAP_BYTES, PROT_NONE), 0);
    make_registered(operand_in(region), false);
    ck_assert_int_eq(munmap(room + MAP_BYTES, MAP_BYTES), 0);
    void *to = _i == 0 ? mremap(region, MAP_BYTES, (size_t)2 * MAP_BYTES, 0)
                       : mremap(region, MAP_BYTES, (size_t)2 * MAP_BYTES,
                                MREMAP_MAYMOVE | MREMAP_FIXED,
                                room + (size_t)4 * MAP_BYTES);
    ck_assert_ptr_ne(to, MAP_FAILED);
    engine->loading("libm.so.6"); /* all is unregistered when this returns */
    ck_assert_uint_eq(unregistered(), 1);
    char *again =
        mremap(to, (size_t)2 * MAP_BYTES, (size_t)3 * MAP_BYTES,
               MREMAP_MAYMOVE | MREMAP_FIXED, room + (size_t)8 * MAP_BYTES);
    ck_assert_ptr_ne(again, MAP_FAILED);
    fill(operand_in(again), 4);
    use_input(operand_in(again));
    finish();
}
END_TEST

/* A call on something small: the driver is told of what is gone before it. */
START_TEST(test_small_call_settles)
{
    static const double two[4] = {1, 1, 1, 1};
    double four[4];
    start("register=64MiB;");
    region = map(MAP_BYTES);
    make_registered(operand_in(region), false);
    attach_over(); /* has no event that would wake anybody */
    gemm(2, 2, 2, two, 2, two, 2, four, 2);
    ck_assert_uint_eq(unregistered(), 1);
    ck_assert(four[0] == 2 && four[3] == 2);
    finish();
}
END_TEST

/* The driver keeps what it was to give back: the ring, from then on. */
START_TEST(test_unregister_fails)
{
    (void)setenv("FAKECUDA_FAIL", "cuMemHostUnregister:1:1", 1);
    start("register=64MiB;");
    region = map(MAP_BYTES);
    double *a = (double *)(region + (size_t)4 * PAGE); /* all registered */
    make_registered(a, _i == 1);
    engine->loading("libm.so.6");
    ck_assert_uint_eq(unregistered(), 1);
    unmap_and_map();
    for (int i = 0; i < 8 && !taken; i++) {
        if (_i == 1) {
            use_output(a, i);
        } else {
            fill(a, i);
            use_input(a);
        }
    }
    ck_assert_uint_eq(registered(), 1);
    finish();
}
END_TEST

/* What a thread of ours loads or forks, in the driver, lets go of nothing: it
 * may hold a row, and would wait for itself. */
START_TEST(test_driver_loads)
{
    start("register=64MiB;");
    make_registered(operand_in(map(MAP_BYTES)), false);
    cuda_users_not_me();
    engine->loading("libnvidia-ptxjitcompiler.so.1");
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    wait_for(child);
    ck_assert_uint_eq(unregistered(), 0);
    finish();
}
END_TEST

/* The child of a process that had not used the card does as others do. */
START_TEST(test_in_a_child)
{
    start("register=64MiB;");
    pid_t child = fork();
    if (child == 0) {
        alarm((unsigned)patient(200));
        make_registered(operand_in(map(MAP_BYTES)), false);
        _exit(0);
    }
    wait_for(child);
    finish();
}
END_TEST

/* malloc maps what is large; a sanitizer's malloc does as it likes. */
static void
map_large_blocks(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    ck_assert_int_eq(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
#endif
}

/* malloc's own: what is freed is unmapped, and what grows moves. */
START_TEST(test_malloc)
{
    start("register=64MiB;");
    map_large_blocks();
    for (int turn = 0; turn < 3; turn++) {
        double *a = malloc(BYTES);
        ck_assert_ptr_nonnull(a);
        for (int i = 0; i < 4; i++) {
            fill(a, turn + i);
            use_input(a);
            use_output(a, i);
        }
        if (turn == 1) {
            double *b = realloc(a, (size_t)8 * BYTES);
            ck_assert_ptr_nonnull(b);
            ck_assert(b[77] == 4 * 3);
            fill(b, 5);
            use_input(b);
            a = realloc(b, BYTES);
            ck_assert_ptr_nonnull(a);
            use_input(a);
        }
        free(a);
    }
    ck_assert_uint_ge(registered(), 1);
    finish();
}
END_TEST

/*
 * Other threads discard and replace their own pages, which lie between those of
 * the operand's columns, while calls run, and use them themselves in turn.
 */
struct neighbour {
    char *pages;
    bool stop;
    unsigned rounds;
};

enum {
    GAP_PAGES = 4,
    GAP_LD = ROWS + (GAP_PAGES + 1) * PAGE / 8,
};

static void *
disturb(void *argument)
{
    struct neighbour *n = argument;
    while (!__atomic_load_n(&n->stop, __ATOMIC_ACQUIRE)) {
        unsigned kind = __atomic_add_fetch(&n->rounds, 1, __ATOMIC_ACQ_REL) % 3;
        memset(n->pages, 1, (size_t)GAP_PAGES * PAGE);
        if (kind == 0) {
            (void)madvise(n->pages, (size_t)GAP_PAGES * PAGE, MADV_DONTNEED);
        } else if (kind == 1) {
            (void)mmap(n->pages, (size_t)GAP_PAGES * PAGE,
                       PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        } else {
            free(memset(malloc(BYTES), 1, BYTES));
        }
        (void)usleep(200);
    }
    return NULL;
}

START_TEST(test_beside_a_running_copy)
{
    start("register=64MiB;");
    char *at = map((size_t)GAP_LD * COLUMNS * 8 + 2 * PAGE);
    double *c = (double *)at;
    uintptr_t gap = (uintptr_t)(c + GAP_LD * 40 + ROWS);
    struct neighbour n = {.pages = (char *)((gap + PAGE - 1) / PAGE * PAGE)};
    double factor[THIN * COLUMNS];
    pthread_t thread;
    map_large_blocks();
    for (int turn = 1; turn <= 24; turn++) {
        if (turn == 4) {
            ck_assert_int_eq(pthread_create(&thread, NULL, disturb, &n), 0);
        }
        for (size_t i = 0; i < THIN * COLUMNS; i++) {
            factor[i] = turn;
        }
        gemm(ROWS, COLUMNS, THIN, ones, ROWS, factor, THIN, c, GAP_LD);
        size_t wrong = 0;
        for (size_t j = 0; j < COLUMNS; j++) {
            for (size_t i = 0; i < ROWS; i++) {
                wrong += c[j * GAP_LD + i] != THIN * turn;
            }
        }
        ck_assert_uint_eq(wrong, 0);
    }
    while (__atomic_load_n(&n.rounds, __ATOMIC_ACQUIRE) < 6) {
        (void)usleep(1000);
    }
    __atomic_store_n(&n.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    ck_assert_uint_ge(registered(), 1);
    ck_assert_uint_ge(unregistered(), 1);
    finish();
}
END_TEST

/* Several threads call on the same operands, and one frees its own. */
static double *shared_input;
static unsigned wrong_sums;

static void *
caller(void *argument)
{
    double *own = malloc(BYTES), *sums = calloc(ROWS, 8 * (size_t)THIN);
    (void)argument;
    for (int turn = 0; turn < 6; turn++) {
        gemm(ROWS, THIN, COLUMNS, shared_input, ROWS, ones, ROWS, sums, ROWS);
        __atomic_add_fetch(&wrong_sums, sums[3] != sums[3 + ROWS],
                           __ATOMIC_RELAXED);
        for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
            own[i] = turn;
        }
        gemm(ROWS, THIN, COLUMNS, own, ROWS, ones, ROWS, sums, ROWS);
        for (size_t i = 0; i < ROWS; i++) {
            if (sums[i] != (double)turn * COLUMNS) {
                __atomic_add_fetch(&wrong_sums, 1, __ATOMIC_RELAXED);
            }
        }
        if (turn == 3) {
            free(own);
            own = malloc(BYTES);
        }
    }
    free(own);
    free(sums);
    return NULL;
}

START_TEST(test_threads)
{
    pthread_t threads[3];
    start("register=12MiB;");
    map_large_blocks();
    shared_input = operand_in(map(MAP_BYTES));
    fill(shared_input, 1);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, caller, NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_uint_eq(wrong_sums, 0);
    ck_assert_uint_ge(registered(), 1);
    finish();
}
END_TEST

/*
 * Another thread maps pages of its own, also where the kernel is being tried:
 * all of them stay.
 */
static struct {
    uint64_t *pages[20000];
    unsigned count;
    bool stop;
    pthread_barrier_t begins;
} mapper;

static void *
map_pages(void *unused)
{
    (void)unused;
    (void)pthread_barrier_wait(&mapper.begins);
    while (!__atomic_load_n(&mapper.stop, __ATOMIC_ACQUIRE) &&
           mapper.count < sizeof(mapper.pages) / sizeof(mapper.pages[0])) {
        uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) {
            break;
        }
        *page = mapper.count;
        mapper.pages[mapper.count++] = page;
    }
    return NULL;
}

START_TEST(test_trial_beside_others)
{
    const char *why;
    pthread_t thread;
    unsigned lost = 0;
    ck_assert_int_eq(pthread_barrier_init(&mapper.begins, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, map_pages, NULL), 0);
    (void)pthread_barrier_wait(&mapper.begins);
    int status = fy_watch_start(true, &why);
    __atomic_store_n(&mapper.stop, true, __ATOMIC_RELEASE);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_msg(status == FY_OK, "%s", why);
    for (unsigned i = 0; i < mapper.count; i++) {
        uint64_t value = UINT64_MAX;
        struct iovec to = {&value, sizeof(value)};
        struct iovec from = {mapper.pages[i], sizeof(value)};
        lost +=
            process_vm_readv(getpid(), &to, 1, &from, 1, 0) != sizeof(value) ||
            value != i;
    }
    ck_assert_uint_eq(lost, 0);
}
END_TEST

/* --- where it is not to be had --- */

static void
deny(int number, unsigned flags)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program), 0);
}

START_TEST(test_no_userfaultfd)
{
    deny(_i == 0 ? SYS_userfaultfd : SYS_close_range, 0);
    start("register=64MiB;");
    double *a = operand_in(map(MAP_BYTES));
    for (int i = 0; i < 5; i++) {
        fill(a, i);
        use_input(a);
    }
    ck_assert_uint_eq(registered(), 0);
    ck_assert_msg(strstr(explained(), "no memory is registered: no ") != NULL,
                  "%s", explained());
    finish();
}
END_TEST

/* A program that confines all of its threads later on, ours too, does not wait
 * for events that nobody may read. */
START_TEST(test_sandbox_checkd_later)
{
    start("register=64MiB;");
    region = map(MAP_BYTES);
    double *a = operand_in(region);
    make_registered(a, false);
    deny(_i == 0 ? SYS_read : SYS_poll, SECCOMP_FILTER_FLAG_TSYNC);
    for (int i = 0; i < 4 && !taken; i++) {
        unmap_and_map();
        if (!taken) {
            fill(a, 10 + i);
            use_input(a);
        }
    }
    finish();
}
END_TEST

/* Shared, of a file, or a stack: not even watched. */
START_TEST(test_other_memory)
{
    start("register=64MiB;");
    double *a;
    if (_i == 0) {
        a = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    } else if (_i == 1) {
        FILE *file = tmpfile();
        ck_assert_ptr_nonnull(file);
        ck_assert_int_eq(ftruncate(fileno(file), BYTES), 0);
        a = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file),
                 0);
    } else {
        char *guarded = map(BYTES + PAGE);
        ck_assert_int_eq(mprotect(guarded, PAGE, PROT_NONE), 0);
        a = (double *)(guarded + PAGE);
    }
    ck_assert_ptr_ne(a, MAP_FAILED);
    for (int i = 0; i < 5; i++) {
        fill(a, i);
        use_input(a);
    }
    ck_assert_uint_eq(registered(), 0);
    finish();
}
END_TEST

/* The driver says no: the ring, and no second try. */
START_TEST(test_refused)
{
    (void)setenv("FAKECUDA_FAIL", "cuMemHostRegister_v2:1:712", 1);
    start("register=64MiB;");
    double *a = operand_in(map(MAP_BYTES));
    for (int i = 0; i < 9; i++) {
        fill(a, i);
        use_input(a);
    }
    ck_assert_uint_eq(registered(), 1);
    finish();
}
END_TEST

/* A program that uses CUDA itself is to find its memory as it left it. */
START_TEST(test_program_uses_cuda)
{
    if (_i == 0) {
        ck_assert_ptr_nonnull(dlopen("libcuda.so.1", RTLD_NOW));
    }
    start("register=64MiB;early=1;");
    double *a = operand_in(map(MAP_BYTES));
    fill(a, 1);
    for (int i = 0; i < 4; i++) {
        use_input(a);
    }
    ck_assert_uint_eq(registered(), _i > 0);
    if (_i > 0) {
        /* Who knows what it needs: back before it is loaded. */
        engine->loading(_i == 1 ? "/usr/lib/libcudart.so.13" : "libm.so.6");
        ck_assert_uint_eq(unregistered(), 1);
    }
    for (int i = 0; i < 8; i++) {
        use_input(a);
    }
    ck_assert_uint_eq(registered(), _i);
    finish();
}
END_TEST

/* The program's own table of descriptors has none of ours. */
START_TEST(test_no_descriptor)
{
    char name[64], path[300];
    start("register=64MiB;");
    make_registered(operand_in(map(MAP_BYTES)), false);
    DIR *folder = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *one; (one = readdir(folder)) != NULL;) {
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%s", one->d_name);
        ssize_t length = readlink(path, name, sizeof(name) - 1);
        name[length < 0 ? 0 : length] = '\0';
        ck_assert_ptr_null(strstr(name, "userfaultfd"));
    }
    closedir(folder);
    finish();
}
END_TEST

/*
 * Another thread goes on changing memory that is watched while the process ends,
 * and waits each time until that is read. LeakSanitizer stops all threads then,
 * one after the other, and waits for each.
 */
static void *
discard(void *rounds)
{
    for (;;) {
        (void)madvise(region, PAGE, MADV_DONTNEED);
        __atomic_add_fetch((unsigned *)rounds, 1, __ATOMIC_ACQ_REL);
    }
    return NULL;
}

START_TEST(test_exit_while_changed)
{
    static unsigned rounds;
    pthread_t thread;
    start("register=64MiB;");
    region = map(MAP_BYTES);
    make_registered(operand_in(region), _i == 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, discard, &rounds), 0);
    while (__atomic_load_n(&rounds, __ATOMIC_ACQUIRE) < 3) {
        (void)usleep(1000);
    }
    finish();
    exit(7);
}
END_TEST

/* What the tracer and the thread that it lets run tell each other. */
struct debugged {
    int unmapper; /* that thread's number; 0: not there yet */
    bool stopped, unmapped;
    int seen; /* by the tracer: 0: nothing, 1: it waited, 2: it did not, -1: refused */
};

static void *
unmap(void *data)
{
    struct debugged *both = data;
    __atomic_store_n(&both->unmapper, (int)gettid(), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&both->stopped, __ATOMIC_ACQUIRE)) {
        (void)usleep(1000);
    }
    (void)munmap(region, MAP_BYTES);
    __atomic_store_n(&both->unmapped, true, __ATOMIC_RELEASE);
    return NULL;
}

/* Stops all threads of its parent but the one, and looks for a while whether that
 * comes to its end. */
static void
debug(struct debugged *both, pid_t parent)
{
    int threads[256], n = 0, status;
    char path[64];
    while (!__atomic_load_n(&both->unmapper, __ATOMIC_ACQUIRE)) {
        (void)usleep(1000);
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)parent);
    DIR *folder = opendir(path);
    for (struct dirent *one; folder && (one = readdir(folder)) != NULL;) {
        int thread = atoi(one->d_name);
        if (thread == 0 || thread == both->unmapper || n == 256) {
            continue;
        }
        if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0 ||
            ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 ||
            waitpid(thread, &status, __WALL) != thread) {
            both->seen = -1;
            break;
        }
        threads[n++] = thread;
    }
    __atomic_store_n(&both->stopped, true, __ATOMIC_RELEASE);
    (void)usleep(200000);
    if (both->seen == 0) {
        both->seen = __atomic_load_n(&both->unmapped, __ATOMIC_ACQUIRE) ? 2 : 1;
    }
    while (n > 0) {
        (void)ptrace(PTRACE_DETACH, threads[--n], NULL, NULL);
    }
    _exit(0);
}

/* pager/device/cuda/README.md: a debugger that has stopped the other threads and
 * lets one run munmap() waits until they go on; then all is as without it. */
START_TEST(test_munmap_under_a_debugger)
{
    struct debugged *both = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    pid_t parent = getpid();
    ck_assert_ptr_ne(both, MAP_FAILED);
    pid_t tracer = fork(); /* before anything is registered */
    if (tracer == 0) {
        debug(both, parent);
    }
    (void)prctl(PR_SET_PTRACER, tracer, 0, 0, 0);
    start("register=64MiB;");
    region = map(MAP_BYTES);
    make_registered(operand_in(region), false);
    ck_assert_int_eq(pthread_create(&thread, NULL, unmap, both), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(waitpid(tracer, NULL, 0), tracer);
    if (both->seen < 0) {
        skip_test("processes cannot be traced");
    } else {
        ck_assert_int_eq(both->seen, 1);
    }
    ck_assert(both->unmapped);
    region = map(MAP_BYTES);
    use_input(operand_in(region)); /* settles what is told */
    ck_assert_uint_ge(unregistered(), 1);
    finish();
}
END_TEST

START_TEST(test_exit_while_registered)
{
    start("register=64MiB;");
    make_registered(operand_in(map(MAP_BYTES)), _i == 1);
    finish();
    exit(7);
}
END_TEST

int
main(int argc, char **argv)
{
    static const char *const files[] = {"blas3.ferry"};
    (void)argc;
    cuda_rig_start(argv);
    (void)setenv("FAKECUDA_STRICT", "1", 1);
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    model = calls_model(files, 1);
    Suite *suite = suite_create("cuda_register");
    TCase *tests = tcase_create("cuda_register");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_third_use, 0, 2);
    tcase_add_test(tests, test_copies_are_direct);
    tcase_add_test(tests, test_strided);
    tcase_add_loop_test(tests, test_never, 0, 2);
    tcase_add_test(tests, test_by_itself);
    tcase_add_test(tests, test_budget);
    tcase_add_loop_test(tests, test_hazard, 0, 4 * HAZARDS);
    tcase_add_loop_test(tests, test_grows, 0, 2);
    tcase_add_test(tests, test_small_call_settles);
    tcase_add_loop_test(tests, test_unregister_fails, 0, 2);
    tcase_add_test(tests, test_driver_loads);
    tcase_add_test(tests, test_in_a_child);
    tcase_add_test(tests, test_malloc);
    tcase_add_test(tests, test_beside_a_running_copy);
    tcase_add_test(tests, test_threads);
    tcase_add_loop_test(tests, test_trial_beside_others, 0, 5);
    tcase_add_loop_test(tests, test_no_userfaultfd, 0, 2);
    tcase_add_loop_test(tests, test_sandbox_checkd_later, 0, 2);
    tcase_add_loop_test(tests, test_other_memory, 0, 3);
    tcase_add_test(tests, test_refused);
    tcase_add_loop_test(tests, test_program_uses_cuda, 0, 3);
    tcase_add_test(tests, test_no_descriptor);
    tcase_add_test(tests, test_munmap_under_a_debugger);
    suite_add_tcase(suite, tests);
    TCase *exits = tcase_create("exits");
    tcase_set_timeout(exits, 60);
    tcase_add_loop_exit_test(exits, test_exit_while_registered, 7, 0, 2);
    tcase_add_loop_exit_test(exits, test_exit_while_changed, 7, 0, 2);
    suite_add_tcase(suite, exits);
    return run_suite(suite);
}
