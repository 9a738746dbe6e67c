/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How every Check program ends its main(): all tests of a suite, told as
 * CK_VERBOSITY says; the exit status of the program.
 */
#ifndef FERRY_TESTS_RUNNER_H
#define FERRY_TESTS_RUNNER_H

#include <check.h>
#include <stdlib.h>

static inline int
run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite); /* owns the suite */
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
