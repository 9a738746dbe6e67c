/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of named cases: `PROGRAM' names them, `PROGRAM CASE' runs one, after
 * what all of them begin with. For main() of shim/programs/touch.c, fused.c, unloaded.c.
 */
#ifndef FERRY_TESTS_DEFER_CASES_H
#define FERRY_TESTS_DEFER_CASES_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct test_case {
    const char *name;
    void (*run)(void);
};

/* `begin' may be NULL. The exit status: 2 without such a case. */
static inline int
run_cases(const struct test_case *cases, size_t count, void (*begin)(void),
          int argc, char **argv)
{
    for (size_t i = 0; i < count; i++) {
        if (argc < 2) {
            puts(cases[i].name);
        } else if (strcmp(argv[1], cases[i].name) == 0) {
            if (begin) {
                begin();
            }
            cases[i].run();
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}

#endif
