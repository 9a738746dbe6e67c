/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An injected failure at every single operation or allocation of a run leaves
 * host memory, byte for byte, as it was, and the executor fit for the next run.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "pager/device/copy.h"
#include "pager/execute/undo.h"
#include "tests/baddevice/device.h"
#include "tests/unit/nomem.h"
#include "tests/unit/product.h"
#include "tests/unit/runner.h"

/* One run with a failure at each operation, until a run has none left. */
static void
fail_everywhere(bool late, uint64_t latency_ns, uint64_t count)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct product p;
        random_state = seed * 1001;
        make_product(&p, NULL, true);
        struct fy_device *device =
            open_device(step_bytes(&p.schedule) + 256 * random_below(8));
        p.schedule.planner = device;
        struct fy_executor *x;
        struct fy_traffic traffic;
        ck_assert_int_eq(fy_executor_new(device, &x), 0);
        uint64_t at = 1, failures = 0;
        for (;; at += latency_ns > 0 ? 7 : 1) {
            struct bad_control control = {.fail_at = at,
                                          .fail_count = count,
                                          .fail_late = late,
                                          .latency_ns = latency_ns,
                                          .seed = at};
            bad_control_set(device, &control);
            int status = fy_executor_run(x, &p.schedule, &traffic);
            ck_assert_uint_eq(bad_used_bytes(device), 0);
            if (bad_operations(device) < at) {
                ck_assert_int_eq(status, 0);
                break;
            }
            ck_assert_int_eq(status, FY_ERR_DEVICE);
            failures++;
            for (int i = 0; i < 3; i++) {
                ck_assert_mem_eq(p.memory[i], p.before[i], p.bytes[i]);
            }
        }
        ck_assert_uint_gt(failures, 2);
        check_result(&p);
        fy_executor_free(x);
        device->ops->close(device);
        free_product(&p);
    }
}

START_TEST(test_failure_anywhere_leaves_host_memory)
{
    fail_everywhere(_i != 0, 0, 1);
}
END_TEST

START_TEST(test_lost_device_leaves_host_memory)
{
    fail_everywhere(false, 0, UINT64_MAX);
}
END_TEST

START_TEST(test_failure_under_latency_leaves_host_memory)
{
    fail_everywhere(true, 20000, 1);
}
END_TEST

/* Runs a product while the at-th allocation fails; false: there is none. */
static bool
run_without_memory(struct product *p, struct fy_device *device, uint64_t at)
{
    struct fy_executor *x = NULL;
    struct fy_traffic traffic;
    nomem_at(at);
    int status = fy_executor_new(device, &x);
    if (status == 0) {
        status = fy_executor_run(x, &p->schedule, &traffic);
    }
    bool failed = nomem_reached();
    ck_assert_int_eq(status, failed ? FY_ERR_NOMEM : FY_OK);
    ck_assert_uint_eq(bad_used_bytes(device), 0);
    if (failed) {
        for (int i = 0; i < 3; i++) {
            ck_assert_mem_eq(p->memory[i], p->before[i], p->bytes[i]);
        }
    }
    /* It is fit for the next run. */
    if (failed && x != NULL) {
        ck_assert_int_eq(fy_executor_run(x, &p->schedule, &traffic), 0);
    }
    if (x != NULL) {
        check_result(p);
        memcpy(p->memory[2], p->before[2], p->bytes[2]);
    }
    fy_executor_free(x);
    return failed;
}

START_TEST(test_no_memory_at_any_allocation)
{
    struct product p;
    uint64_t at = 0;
    random_state = 3003;
    for (make_product(&p, NULL, true);
         p.schedule.nsteps < 20 || p.schedule.nsteps > 40;
         make_product(&p, NULL, true)) {
        free_product(&p);
    }
    /* Spare operations of the device's streams stay until it is closed. */
    for (bool failed = true; failed;) {
        struct fy_device *device = open_device(step_bytes(&p.schedule) + 1024);
        p.schedule.planner = device;
        failed = run_without_memory(&p, device, ++at);
        device->ops->close(device);
        ck_assert_uint_eq(nomem_live(), 0);
    }
    ck_assert_uint_gt(at, 20 * 3);
    free_product(&p);
}
END_TEST

/* The log of an operand of three axes, in tiles larger than a page. */
enum {
    LOG_AXES = 3,
    LOG_TILES = 3
};

struct log {
    struct fy_view view;
    struct fy_tile tiles[LOG_TILES];
    struct fy_step step;
    struct fy_schedule schedule;
    struct fy_replica_table table;
    struct fy_undo undo;
};

/* Tiles of 7 x 9 x 11 doubles along an axis of 7 * LOG_TILES. */
static void
make_log(struct log *log, char *memory, uint8_t access, unsigned order)
{
    static const int64_t extent[] = {7 * LOG_TILES, 9, 11};
    int64_t stride = 1;
    memset(log, 0, sizeof *log);
    log->view = (struct fy_view){.host = memory,
                                 .element_bytes = 8,
                                 .access = access,
                                 .naxes = LOG_AXES};
    for (unsigned k = 0; k < LOG_AXES; k++) {
        unsigned axis = (order + k) % LOG_AXES;
        log->view.extent[axis] = extent[axis];
        log->view.stride[axis] = stride;
        stride *= extent[axis];
    }
    for (int i = 0; i < LOG_TILES; i++) {
        log->tiles[i] = (struct fy_tile){.access = access,
                                         .naxes = LOG_AXES,
                                         .lo = {7 * i},
                                         .n = {7, 9, 11},
                                         .device_stride = {1, 7, 63}};
    }
    log->step.ntiles = LOG_TILES;
    log->schedule = (struct fy_schedule){.views = &log->view,
                                         .nviews = 1,
                                         .tiles = log->tiles,
                                         .ntiles = LOG_TILES,
                                         .steps = &log->step,
                                         .nsteps = 1};
    ck_assert_int_eq(fy_replica_build(&log->table, &log->schedule), 0);
}

/* As the copy of a replica to the host begins. */
static void
save_old(const struct log *log, struct fy_replica *r)
{
    struct fy_copy copy;
    if (!r->logged && fy_undo_copy(&log->undo, r, &copy)) {
        ck_assert_int_eq(fy_copy_save(&copy, NULL), 0);
        ck_assert(r->logged);
    }
}

static void
free_log(struct log *log)
{
    fy_undo_release(&log->undo, true);
    ck_assert_ptr_null(log->undo.base);
    fy_replica_table_free(&log->table);
}

START_TEST(test_log_keeps_every_element)
{
    enum {
        N = 7 * LOG_TILES * 9 * 11
    };
    static double memory[N], before[N];
    struct fy_replica *r, *next;
    struct log log;
    for (int i = 0; i < N; i++) {
        memory[i] = before[i] = i;
    }
    make_log(&log, (char *)memory, FY_ACCESS_INOUT, (unsigned)_i);
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), 0);
    /* Whole cache lines, and no more. */
    ck_assert_uint_eq(log.undo.bytes,
                      LOG_TILES * ((7 * 9 * 11 * 8 + 63) / 64 * 64));
    HASH_ITER (hh, log.table.by_place, r, next) {
        save_old(&log, r);
        /* Saved once: what is there later is the call's result. */
        *(double *)r->copy.view.host = -1;
        save_old(&log, r);
    }
    memset(memory, 1, sizeof memory);
    fy_undo_restore(&log.undo, &log.table);
    ck_assert_mem_eq(memory, before, sizeof memory);
    /* What is large enough is kept for the next transaction. */
    char *base = log.undo.base;
    fy_undo_release(&log.undo, false);
    ck_assert_ptr_eq(log.undo.base, base);
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), 0);
    ck_assert_ptr_eq(log.undo.base, base);
    /* What is too small for one is given back. */
    HASH_ITER (hh, log.table.by_place, r, next)
        r->copy.view.element_bytes = 1000;
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), 0);
    ck_assert_uint_gt(log.undo.bytes, 2000000);
    uintptr_t page = (uintptr_t)base & ~(uintptr_t)4095;
    ck_assert(
        (base >= log.undo.base && base < log.undo.base + log.undo.bytes) ||
        msync((void *)page, 4096, MS_ASYNC) != 0);
    free_log(&log);
}
END_TEST

/* An operand of one byte is put back, too. */
START_TEST(test_log_of_one_byte)
{
    char memory = 5;
    struct fy_view view = {.host = &memory,
                           .element_bytes = 1,
                           .access = FY_ACCESS_INOUT,
                           .naxes = 1,
                           .extent = {1},
                           .stride = {1}};
    struct fy_tile tile = {
        .access = FY_ACCESS_INOUT, .naxes = 1, .n = {1}, .device_stride = {1}};
    struct fy_step step = {.ntiles = 1};
    const struct fy_schedule schedule = {.views = &view,
                                         .nviews = 1,
                                         .tiles = &tile,
                                         .ntiles = 1,
                                         .steps = &step,
                                         .nsteps = 1};
    struct fy_replica *r, *next;
    struct log log = {.view = view};

    ck_assert_int_eq(fy_replica_build(&log.table, &schedule), 0);
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), 0);
    ck_assert_uint_eq(log.undo.bytes, 64);
    HASH_ITER (hh, log.table.by_place, r, next)
        save_old(&log, r);
    memory = 6;
    fy_undo_restore(&log.undo, &log.table);
    ck_assert_int_eq(memory, 5);
    free_log(&log);
}
END_TEST

START_TEST(test_large_log_is_not_kept)
{
    struct fy_undo undo = {.bytes = 40 << 20};
    undo.base = mmap(NULL, undo.bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(undo.base, MAP_FAILED);
    fy_undo_release(&undo, false);
    ck_assert(!undo.base && undo.bytes == 0);
}
END_TEST

/* Whether /proc/self/smaps has the flag for the mapping that begins there. */
static bool
mapping_has(const char *base, const char *flag)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[512];
    bool here = false, has = false;
    ck_assert_ptr_nonnull(smaps);
    while (fgets(line, sizeof line, smaps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            here = from <= (uintptr_t)base && (uintptr_t)base < to;
        } else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            has = strstr(line, flag) != NULL;
        }
    }
    (void)fclose(smaps);
    return has;
}

/* A log of which little is written claims no memory for the rest. */
START_TEST(test_log_with_holes_reserves_no_memory)
{
    static const struct {
        uint64_t eighths; /* of each box that is touched */
        bool reserved;
    } rows[] = {{8, true}, {7, true}, {5, false}, {1, false}};
    static double memory[7 * LOG_TILES * 9 * 11];
    struct fy_replica *r, *next;
    struct log log;
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
    ck_assert_ptr_nonnull(file);
    bool always = fgetc(file) == '2'; /* the kernel reserves for all mappings */
    (void)fclose(file);
    make_log(&log, (char *)memory, FY_ACCESS_INOUT, 0);
    HASH_ITER (hh, log.table.by_place, r, next) {
        r->copy.view.element_bytes = 64;
        r->elements_bytes = UINT64_C(7 * 9 * 11 * 8) * rows[_i].eighths;
    }
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), 0);
    ck_assert_int_ne(mapping_has(log.undo.base, " nr"),
                     rows[_i].reserved || always);
    free_log(&log);
}
END_TEST

START_TEST(test_log_of_what_nothing_reads_is_empty)
{
    static double memory[7 * LOG_TILES * 9 * 11];
    struct fy_replica *r, *next;
    struct log log;
    make_log(&log, (char *)memory, _i ? FY_ACCESS_IN : FY_ACCESS_OUT, 0);
    if (_i == 0) {
        HASH_ITER (hh, log.table.by_place, r, next)
            r->old_matters = false;
    }
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), 0);
    ck_assert_uint_eq(log.undo.bytes, 0);
    HASH_ITER (hh, log.table.by_place, r, next) {
        save_old(&log, r);
        ck_assert(!r->logged);
    }
    free_log(&log);
}
END_TEST

START_TEST(test_log_larger_than_memory_is_refused)
{
    static const struct {
        int64_t extent[3];
        int64_t last; /* tile: its only extent */
    } rows[] = {
        {{INT64_C(1) << 31, INT64_C(1) << 31, INT64_C(1) << 31}, 64},
        {{INT64_MAX, 2, 1}, 64}, /* + 63 is too many */
        {{INT64_C(1) << 62, 1, 1}, INT64_C(1) << 62},
        {{INT64_C(1) << 62, 2, 1}, 64}, /* together 64 */
    };
    static double memory[7 * LOG_TILES * 9 * 11];
    struct log log;
    make_log(&log, (char *)memory, FY_ACCESS_INOUT, 0);
    struct fy_replica *r = log.table.by_place, *next;
    for (; r; r = next) {
        next = r->hh.next;
        r->copy.view.element_bytes = 1;
        memcpy(r->copy.view.extent, rows[_i].extent, sizeof rows[_i].extent);
        if (!next) {
            r->copy.view.naxes = 1;
            r->copy.view.extent[0] = rows[_i].last;
        }
    }
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), FY_ERR_NOMEM);
    ck_assert_ptr_null(log.undo.base);
    free_log(&log);
}
END_TEST

/* Elements for which there will be no memory, also where the box has room for less. */
START_TEST(test_log_of_too_many_elements_is_refused)
{
    static double memory[7 * LOG_TILES * 9 * 11];
    struct log log;
    make_log(&log, (char *)memory, FY_ACCESS_INOUT, 0);
    log.table.by_place->elements_bytes = UINT64_C(1) << 50;
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), FY_ERR_NOMEM);
    ck_assert_ptr_null(log.undo.base);
    log.table.by_place->elements_bytes = 1 << 20;
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), FY_OK);
    free_log(&log);
}
END_TEST

/* A page of the operand is gone meanwhile: what is left is put back. */
START_TEST(test_rest_of_unmapped_operand_is_put_back)
{
    enum {
        PAGE = 4096,
        BYTES = 7 * LOG_TILES * 9 * 11 * 8,
        LAST = BYTES / PAGE * PAGE
    };
    char *memory = mmap(NULL, LAST + PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct fy_replica *r, *next;
    struct log log;
    ck_assert_ptr_ne(memory, MAP_FAILED);
    memset(memory, 1, BYTES);
    make_log(&log, memory, FY_ACCESS_INOUT, (unsigned)_i);
    ck_assert_int_eq(fy_undo_reserve(&log.undo, &log.table), 0);
    HASH_ITER (hh, log.table.by_place, r, next)
        save_old(&log, r);
    memset(memory, 2, BYTES);
    ck_assert_int_eq(munmap(memory + PAGE, PAGE), 0);
    fy_undo_restore(&log.undo, &log.table);
    for (int i = 0; i < BYTES; i++) {
        ck_assert(i / PAGE == 1 || memory[i] == 1);
    }
    bool refused = false;
    HASH_ITER (hh, log.table.by_place, r, next) {
        struct fy_copy copy;
        r->logged = false;
        ck_assert(fy_undo_copy(&log.undo, r, &copy));
        refused |= fy_copy_save(&copy, NULL) == FY_ERR_FAULT && !r->logged;
    }
    ck_assert(refused);
    free_log(&log);
    (void)munmap(memory, LAST + PAGE);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static int
refuse_to_launch(void *planner, const struct fy_step *step,
                 const struct fy_tile *tiles, const uint64_t *address,
                 struct fy_stream *stream)
{
    (void)planner;
    (void)step;
    (void)tiles;
    (void)address;
    (void)stream;
    return FY_ERR_UNSUPPORTED;
}

static uint64_t
mapped_pages(void)
{
    FILE *statm = fopen("/proc/self/statm", "r");
    unsigned long pages;
    ck_assert_ptr_nonnull(statm);
    ck_assert_int_eq(fscanf(statm, "%lu", &pages), 1);
    (void)fclose(statm);
    return pages;
}

/* No room for the log: refused before the first byte is overwritten. A large log is
 * not kept when its call has ended. */
START_TEST(test_no_memory_for_the_log)
{
    enum {
        N = 5000000,
        DEVICE_BYTES = 64 << 20
    };
    double *memory = calloc(N, sizeof *memory);
    struct fy_view view = {.host = (char *)memory,
                           .element_bytes = 8,
                           .access = FY_ACCESS_INOUT,
                           .naxes = 2,
                           .extent = {N, 1},
                           .stride = {1, N}};
    struct fy_tile tile;
    struct fy_step step = {.ntiles = 1};
    set_tile(&tile, 0, FY_ACCESS_INOUT, (int64_t[]){0, 0}, (int64_t[]){N, 1});
    struct fy_device *device = open_device(DEVICE_BYTES);
    struct fy_schedule schedule = {.views = &view,
                                   .nviews = 1,
                                   .tiles = &tile,
                                   .ntiles = 1,
                                   .steps = &step,
                                   .nsteps = 1,
                                   .launch = refuse_to_launch,
                                   .planner = device};
    struct fy_executor *x;
    struct fy_traffic traffic;
    struct rlimit before, tight;
    ck_assert_int_eq(fy_executor_new(device, &x), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = 1 << 20; /* nothing new can be mapped */
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &tight), 0);
    uint64_t pages = mapped_pages();
    int status = fy_executor_run(x, &schedule, &traffic);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    ck_assert_int_eq(status, FY_ERR_NOMEM);
    ck_assert_uint_eq(traffic.bytes_in + traffic.bytes_out, 0);
    /* With room the planner's own failure comes back as it is. */
    ck_assert_int_eq(fy_executor_run(x, &schedule, &traffic),
                     FY_ERR_UNSUPPORTED);
    ck_assert_uint_eq(bad_used_bytes(device), 0);
    ck_assert_uint_lt(mapped_pages() - pages, (DEVICE_BYTES + 8ULL * N) / 4096);
    fy_executor_free(x);
    device->ops->close(device);
    free(memory);
}
END_TEST
#endif

int
main(void)
{
    Suite *suite = suite_create("executor_undo");
    TCase *tests = tcase_create("executor_undo");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_failure_anywhere_leaves_host_memory, 0, 2);
    tcase_add_test(tests, test_lost_device_leaves_host_memory);
    tcase_add_test(tests, test_no_memory_at_any_allocation);
    tcase_add_loop_test(tests, test_log_keeps_every_element, 0, LOG_AXES);
    tcase_add_test(tests, test_log_of_one_byte);
    tcase_add_test(tests, test_large_log_is_not_kept);
    tcase_add_loop_test(tests, test_log_with_holes_reserves_no_memory, 0, 4);
    tcase_add_loop_test(tests, test_log_of_what_nothing_reads_is_empty, 0, 2);
    tcase_add_loop_test(tests, test_log_larger_than_memory_is_refused, 0, 4);
    tcase_add_test(tests, test_log_of_too_many_elements_is_refused);
    tcase_add_loop_test(tests, test_rest_of_unmapped_operand_is_put_back, 0,
                        LOG_AXES);
    tcase_add_test(tests, test_failure_under_latency_leaves_host_memory);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(tests, test_no_memory_for_the_log);
#endif
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
