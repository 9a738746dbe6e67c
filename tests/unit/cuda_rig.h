/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the CUDA device on the fake CUDA of tests/fakecuda/. No test
 * here needs a card; tests/gpu/run has those run on one that do not count on
 * the fake, with FERRY_CUDA set.
 */
#ifndef FERRY_TESTS_UNIT_CUDA_RIG_H
#define FERRY_TESTS_UNIT_CUDA_RIG_H

/*
 * Starts the program again with the fake libraries first on the loader's path;
 * returns once that is so. Call it first in main().
 */
void cuda_rig_start(char **argv);

#endif
