/* SPDX-License-Identifier: Apache-2.0
 *
 * cuFFT's types as its ABI has them (cuFFT manual), under the names that the
 * rows use. tests/fakecuda/headers.sh compares them with a toolkit's.
 */
#ifndef FERRY_TESTS_FAKECUDA_CUFFT_ABI_H
#define FERRY_TESTS_FAKECUDA_CUFFT_ABI_H

#include "tests/fakecuda/cublas_abi.h"

typedef int cufftResult;
typedef int cufftHandle;
typedef int cufftType;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;

enum {
    CUFFT_SUCCESS = 0,
    CUFFT_INVALID_PLAN = 1,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_INVALID_TYPE = 3,
    CUFFT_INVALID_VALUE = 4,
    CUFFT_INTERNAL_ERROR = 5,
    CUFFT_EXEC_FAILED = 6,
    CUFFT_SETUP_FAILED = 7,
    CUFFT_INVALID_SIZE = 8,
    CUFFT_UNALIGNED_DATA = 9,
    CUFFT_NO_WORKSPACE = 13
};

enum {
    CUFFT_R2C = 0x2a,
    CUFFT_C2R = 0x2c,
    CUFFT_C2C = 0x29,
    CUFFT_D2Z = 0x6a,
    CUFFT_Z2D = 0x6c,
    CUFFT_Z2Z = 0x69
};

#define CUFFT_FORWARD (-1)
#define CUFFT_INVERSE 1

#endif
