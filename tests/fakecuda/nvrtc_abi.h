/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC's types as its ABI has them (NVRTC manual), under the names that the
 * rows use. tests/fakecuda/headers.sh compares them with a toolkit's.
 */
#ifndef FERRY_TESTS_FAKECUDA_NVRTC_ABI_H
#define FERRY_TESTS_FAKECUDA_NVRTC_ABI_H

#include <stddef.h>

typedef int nvrtcResult;
typedef struct fake_program *nvrtcProgram;

enum {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,
    NVRTC_ERROR_INTERNAL_ERROR = 11
};

#endif
