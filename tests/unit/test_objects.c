/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of objects: which mirror goes first, what others and the device are told of
 * it, and whose memory it is. Pages are compared, so any kernel will do.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pager/base/explain.h"
#include "pager/memory/memory.h"
#include "tests/unit/runner.h"

enum {
    BYTES = 64 * FY_PAGE_BYTES, /* of an operand */
    MIRROR_BYTES = BYTES + 256,
    ALL_BYTES = 3 * BYTES,
};

static struct fy_memory memory;
static struct fy_device *device;
static struct fy_device_ops ops; /* the host device's, with keep() */
static char *host;
static int kept, frees;
static unsigned why; /* the last operand has no object: enum fy_absence */

static void
keep(struct fy_device *of, uint64_t address, bool is_kept)
{
    ck_assert(of == device && address != 0);
    kept += is_kept ? 1 : -1;
}

static void
count_free(struct fy_device *of, uint64_t address)
{
    frees++;
    fy_device_host.free(of, address);
}

static void
begin(void)
{
    memset(&memory, 0, sizeof(memory));
    ck_assert_int_eq(fy_memory_start(&memory, FY_RESIDENCY_COMPARE, 0), 0);
    ck_assert_int_eq(fy_device_host.open(4 << 20, &device), 0);
    ops = fy_device_host;
    ops.keep = keep;
    ops.free = count_free;
    device->ops = &ops;
    host = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(host, MAP_FAILED);
    memset(host, 1, ALL_BYTES);
}

static void
end(void)
{
    fy_memory_evict(&memory, UINT64_MAX);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    ck_assert_int_eq(kept, 0);
    fy_compare_end(&memory.compare);
    device->ops->close(device);
    (void)munmap(host, ALL_BYTES);
}

static struct fy_view
view_of(size_t at, size_t n, enum fy_access access)
{
    return (struct fy_view){.host = host + at,
                            .element_bytes = 1,
                            .access = (uint8_t)access,
                            .naxes = 1,
                            .extent = {(int64_t)n},
                            .stride = {1},
                            .lo = INT64_MIN,
                            .hi = INT64_MAX};
}

static void
hold_view(struct fy_view view, struct fy_hold *hold)
{
    uint64_t budget = 2 << 20;
    fy_memory_hold(&memory, device, &view, 1, &budget, 0, hold);
    for (why = 0; why < FY_ABSENCE_COUNT && hold->absent[why] == 0;) {
        why++;
    }
    for (unsigned i = 0; i < hold->count; i++) {
        hold->rows[i].placed = true;
    }
}

/* One call that reads the bytes. Returns the bytes that it has to copy, or -1 without an
 * object. */
static int64_t
use(size_t at, size_t n)
{
    struct fy_hold hold;
    hold_view(view_of(at, n, FY_ACCESS_IN), &hold);
    int64_t stale = hold.count > 0 ? (int64_t)hold.stale_bytes : -1;
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    return stale;
}

/* Rows: events behind two calls with each of both operands, and the mirror that goes. */
START_TEST(test_eviction_order)
{
    static const struct {
        bool wastes, uses, wants, holds; /* the first operand */
        bool first_goes;
    } rows[] = {
        {false, false, false, false, true}, /* used longer ago */
        {false, true, false, false, false},
        {true, true, false, false, true}, /* its last use was of no use */
        {false, false, true, false, false},
        {true, true, true, false, false}, /* of use to the next call */
        {false, false, false, true, false},
    };
    struct fy_hold hold = {.count = 0};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        begin();
        for (int round = 0; round < 2; round++) {
            ck_assert_int_eq(use(0, BYTES), round == 0 ? BYTES : 0);
        }
        for (int round = 0; round < 2; round++) {
            ck_assert_int_eq(use(BYTES, BYTES), round == 0 ? BYTES : 0);
        }
        for (int round = 2; rows[i].uses && round < 4; round++) {
            memset(host, rows[i].wastes ? round : 1, BYTES);
            ck_assert_int_eq(use(0, BYTES), rows[i].wastes ? BYTES : 0);
        }
        if (rows[i].wants) {
            struct fy_view here = view_of(0, BYTES, FY_ACCESS_IN);
            ck_assert_uint_eq(fy_memory_want(&memory, &here, 1), BYTES);
        }
        if (rows[i].holds) {
            hold_view(view_of(0, BYTES, FY_ACCESS_IN), &hold);
        }
        fy_memory_evict(&memory, 1);
        fy_memory_release(&memory, &hold, FY_HOLD_RAN);
        ck_assert_uint_eq(fy_memory_bytes(&memory), MIRROR_BYTES);
        ck_assert_msg(use(rows[i].first_goes ? BYTES : 0, BYTES) == 0, "row %u",
                      i);
        end();
    }
}
END_TEST

/* A mirror that a call uses stays, also when all are to go. */
START_TEST(test_objects_in_use_stay)
{
    struct fy_hold hold;
    begin();
    hold_view(view_of(0, BYTES, FY_ACCESS_IN), &hold);
    fy_memory_evict(&memory, UINT64_MAX);
    ck_assert_uint_eq(fy_memory_bytes(&memory), MIRROR_BYTES);
    ck_assert_int_eq(frees, 0);
    /* Nor does a call beside it get that object, or one of a part of its bytes. */
    ck_assert_int_eq(use(0, BYTES), -1);
    ck_assert_int_eq(use(BYTES / 4, BYTES / 2), -1);
    ck_assert_int_eq(use(BYTES / 2, BYTES), -1);
    ck_assert_uint_eq(why, FY_ABSENCE_IN_USE);
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    ck_assert_int_eq(use(0, BYTES), 0);
    end();
}
END_TEST

/* An operand that reaches beyond an object gets a new one for all of its bytes. */
START_TEST(test_larger_operand)
{
    begin();
    ck_assert_int_eq(use(0, BYTES), BYTES);
    ck_assert_int_eq(use(BYTES / 2, BYTES), BYTES);
    ck_assert_uint_eq(fy_memory_bytes(&memory), MIRROR_BYTES);
    ck_assert_int_eq(use(BYTES / 2, BYTES), 0);
    end();
}
END_TEST

/* An object that no tile lies in is of no use, and not made again at once. */
START_TEST(test_not_placed)
{
    struct fy_hold hold;
    begin();
    hold_view(view_of(0, BYTES, FY_ACCESS_IN), &hold);
    hold.rows[0].placed = false;
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    ck_assert_int_eq(use(0, BYTES), -1);
    ck_assert_uint_eq(why, FY_ABSENCE_UNUSED);
    end();
}
END_TEST

/* The device is told of each mirror, before it is freed too, and can have all back. */
START_TEST(test_device_may_have_mirrors_back)
{
    begin();
    ck_assert_int_eq(use(0, BYTES), BYTES);
    ck_assert_int_eq(use(BYTES, BYTES), BYTES);
    ck_assert_int_eq(kept, 2);
    device->reclaim(device->reclaim_of, 1);
    ck_assert_int_eq(kept, 1);
    ck_assert_int_eq(frees, 1);
    device->reclaim(device->reclaim_of, UINT64_MAX);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    ck_assert_int_eq(frees, 2);
    end();
}
END_TEST

/* Of a device that is given up nothing is freed; a mirror on another one is not used. */
START_TEST(test_other_device)
{
    struct fy_device *before;
    begin();
    before = device;
    ck_assert_int_eq(use(0, BYTES), BYTES);
    fy_memory_forget(&memory);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    ck_assert_int_eq(frees, 0);
    kept = 0;
    ck_assert_int_eq(use(0, BYTES), BYTES);
    ck_assert_int_eq(fy_device_host.open(4 << 20, &device), 0);
    device->ops = &ops;
    struct fy_device *after = device;
    struct fy_hold hold;
    struct fy_view view = view_of(0, BYTES, FY_ACCESS_IN);
    uint64_t budget = 2 << 20;
    device = before; /* for keep() */
    fy_memory_hold(&memory, after, &view, 1, &budget, 0, &hold);
    ck_assert_uint_eq(hold.count, 0);
    ck_assert_uint_eq(fy_memory_bytes(&memory), 0);
    before->ops->close(before);
    device = after;
    end();
}
END_TEST

/* Mirrors are memory of the call that makes them, as far as it can spare some. */
START_TEST(test_budget)
{
    struct fy_view view = view_of(0, BYTES, FY_ACCESS_IN);
    struct fy_hold hold;
    uint64_t budget = ALL_BYTES;
    begin();
    view.host = host;
    fy_memory_hold(&memory, device, &view, 1, &budget,
                   ALL_BYTES - MIRROR_BYTES + 1, &hold);
    ck_assert_uint_eq(hold.count, 0);
    ck_assert_uint_eq(hold.absent[FY_ABSENCE_NO_ROOM], 1);
    ck_assert_uint_eq(budget, ALL_BYTES);
    fy_memory_hold(&memory, device, &view, 1, &budget, ALL_BYTES - MIRROR_BYTES,
                   &hold);
    ck_assert_uint_eq(hold.count, 1);
    ck_assert_uint_eq(budget, ALL_BYTES - MIRROR_BYTES);
    ck_assert_uint_eq(hold.held_bytes, BYTES);
    hold.rows[0].placed = true;
    fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    /* What a dropped one had comes back. */
    budget = BYTES;
    view.host = host + BYTES / 2;
    fy_memory_hold(&memory, device, &view, 1, &budget, 0, &hold);
    ck_assert_uint_eq(hold.count, 1);
    ck_assert_uint_eq(budget, BYTES);
    fy_memory_release(&memory, &hold, FY_HOLD_FAILED);
    end();
}
END_TEST

/* The decision log has a line for each operand without an object, and for each object that
 * goes, with the reason. */
START_TEST(test_explained)
{
    char path[] = "/tmp/test_objects_XXXXXX", text[4096], line[2][200];
    const int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    fy_explain_to(path);
    begin();
    for (int round = 0; round < 2; round++) {
        (void)use(0, BYTES);
        fy_memory_evict(&memory, 1);
        ck_assert_int_eq(use(0, BYTES), -1);
    }
    end();
    const ssize_t length = read(file, text, sizeof(text) - 1);
    ck_assert_int_gt(length, 0);
    text[length] = '\0';
    for (int i = 0; i < 2; i++) {
        (void)snprintf(line[i], sizeof(line[i]),
                       "operand %p-%p of %d bytes pid=%d: %s\n", (void *)host,
                       (void *)(host + BYTES), BYTES, (int)getpid(),
                       i == 0 ? "dropped, compared, 262144 bytes clean: other "
                                "calls need the memory"
                              : "not kept: unused");
    }
    ck_assert_int_eq(strncmp(text, line[0], strlen(line[0])), 0);
    ck_assert_str_eq(text + strlen(line[0]), line[1]);
    (void)close(file);
    (void)unlink(path);
}
END_TEST

/* Operands that have no object. */
START_TEST(test_operands_without_object)
{
    struct fy_view rows[] = {
        view_of(0, FY_MEMORY_LEAST_BYTES - 1, FY_ACCESS_IN),
        view_of(0, BYTES, FY_ACCESS_SCRATCH),
        view_of(0, BYTES, FY_ACCESS_IN),
        view_of(0, BYTES, FY_ACCESS_IN),
        view_of(0, BYTES / 5, FY_ACCESS_IN),
        view_of(0, FY_MEMORY_LEAST_BYTES, FY_ACCESS_IN),
    };
    struct fy_hold hold;
    const unsigned count = sizeof(rows) / sizeof(*rows);
    begin();
    rows[2].once = true;      /* written over while it is used */
    rows[3].temporary = true; /* not the program's */
    rows[4].stride[0] = 5;    /* more gaps than bytes */
    for (unsigned i = 0; i < count; i++) {
        rows[i].host = host;
        hold_view(rows[i], &hold);
        ck_assert_msg(hold.count == (i + 1 == count), "row %u", i);
        fy_memory_release(&memory, &hold, FY_HOLD_UNUSED);
    }
    end();
}
END_TEST

/* Two operands in the same memory are one only if both are read and no more. */
START_TEST(test_operand_twice)
{
    static const struct {
        enum fy_access one, two;
        unsigned count;
    } rows[] = {
        {FY_ACCESS_IN, FY_ACCESS_IN, 1},
        {FY_ACCESS_IN, FY_ACCESS_OUT, 2},
        {FY_ACCESS_OUT, FY_ACCESS_IN, 2},
        {FY_ACCESS_IN, FY_ACCESS_INOUT, 2},
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t budget = 2 << 20;
        struct fy_hold hold;
        begin();
        const struct fy_view views[] = {view_of(0, BYTES, rows[i].one),
                                        view_of(0, BYTES, rows[i].two)};
        fy_memory_hold(&memory, device, views, 2, &budget, 0, &hold);
        ck_assert_uint_eq(hold.count, rows[i].count);
        ck_assert_uint_eq(hold.operands, 3);
        for (unsigned k = 0; k < hold.count; k++) {
            ck_assert_ptr_eq(hold.rows[k].object, &memory.objects[0]);
            /* What is read, or written, finds the row of what is. */
            ck_assert_ptr_eq(fy_hold_find(&hold, &views[k]), &hold.rows[k]);
        }
        fy_memory_release(&memory, &hold, FY_HOLD_FAILED);
        end();
    }
}
END_TEST

/* A view finds no row of an operand that the call does less with, or that is smaller. */
START_TEST(test_find)
{
    static const struct {
        enum fy_access row, view;
        bool found;
    } rows[] = {
        {FY_ACCESS_IN, FY_ACCESS_IN, true},
        {FY_ACCESS_IN, FY_ACCESS_INOUT, false},
        {FY_ACCESS_IN, FY_ACCESS_OUT, false},
        {FY_ACCESS_OUT, FY_ACCESS_OUT, true},
        {FY_ACCESS_OUT, FY_ACCESS_INOUT, false},
        {FY_ACCESS_OUT, FY_ACCESS_IN, false},
        {FY_ACCESS_INOUT, FY_ACCESS_INOUT, true},
        {FY_ACCESS_INOUT, FY_ACCESS_OUT, true},
        {FY_ACCESS_INOUT, FY_ACCESS_IN, false},
    };
    struct fy_hold hold;
    begin();
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct fy_view view = view_of(BYTES, BYTES, rows[i].view);
        hold_view(view_of(BYTES, BYTES, rows[i].row), &hold);
        ck_assert_msg((fy_hold_find(&hold, &view) != NULL) == rows[i].found,
                      "row %u", i);
        view.extent[0]++;
        ck_assert_ptr_null(fy_hold_find(&hold, &view));
        view.host -= 2;
        view.extent[0] = BYTES;
        ck_assert_ptr_null(fy_hold_find(&hold, &view));
        fy_memory_release(&memory, &hold, FY_HOLD_RAN);
    }
    end();
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("objects");
    TCase *tests = tcase_create("objects");
    tcase_add_test(tests, test_eviction_order);
    tcase_add_test(tests, test_objects_in_use_stay);
    tcase_add_test(tests, test_larger_operand);
    tcase_add_test(tests, test_not_placed);
    tcase_add_test(tests, test_device_may_have_mirrors_back);
    tcase_add_test(tests, test_other_device);
    tcase_add_test(tests, test_budget);
    tcase_add_test(tests, test_explained);
    tcase_add_test(tests, test_operands_without_object);
    tcase_add_test(tests, test_operand_twice);
    tcase_add_test(tests, test_find);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
