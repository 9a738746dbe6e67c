/* SPDX-License-Identifier: Apache-2.0 */
/* In which order the planner visits the parts of a call. */
#include "config.h"

#include <check.h>
#include <string.h>

#include "pager/plan/axes.h"
#include "tests/unit/runner.h"

/* Every combination of parts once; in a snake neighbours share all but one. */
START_TEST(parts_of_a_shape)
{
    struct fy_shape shape = {.norder = 3, .order = {2, 0, 4}, .straight = _i};
    static const unsigned counts[] = {3, 2, 4};
    uint32_t parts[FY_MAX_AXES], before[FY_MAX_AXES];
    bool seen[24] = {false};
    for (unsigned k = 0; k < 3; k++) {
        shape.cuts[shape.order[k]].count = counts[k];
    }
    ck_assert_uint_eq(fy_shape_steps(&shape), 24);
    for (unsigned number = 0; number < 24; number++) {
        unsigned differences = 0, at;
        memset(parts, 0xff, sizeof parts);
        fy_shape_parts(&shape, number, parts);
        at = (parts[2] * 2 + parts[0]) * 4 + parts[4];
        ck_assert_uint_lt(at, 24);
        ck_assert(!seen[at]);
        seen[at] = true;
        ck_assert(!shape.straight || at == number);
        for (unsigned axis = 0; axis < FY_MAX_AXES; axis++) {
            ck_assert(parts[axis] == 0 || shape.cuts[axis].count > 0);
            differences += number > 0 && parts[axis] != before[axis];
        }
        ck_assert(shape.straight || differences == (number > 0));
        memcpy(before, parts, sizeof before);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("plan_axes");
    TCase *cases = tcase_create("plan_axes");
    tcase_add_loop_test(cases, parts_of_a_shape, 0, 2);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
