/* SPDX-License-Identifier: Apache-2.0
 *
 * cuSOLVER's types as its ABI has them (cuSOLVER manual), under the names that
 * the rows use. tests/fakecuda/headers.sh compares them with a toolkit's.
 */
#ifndef FERRY_TESTS_FAKECUDA_CUSOLVER_ABI_H
#define FERRY_TESTS_FAKECUDA_CUSOLVER_ABI_H

#include "tests/fakecuda/cublas_abi.h"

typedef int cusolverStatus_t;
typedef int cusolverEigMode_t;
typedef struct fake_solver *cusolverDnHandle_t;
typedef int cudaDataType;

enum {
    CUSOLVER_STATUS_SUCCESS = 0,
    CUSOLVER_STATUS_NOT_INITIALIZED = 1,
    CUSOLVER_STATUS_ALLOC_FAILED = 2,
    CUSOLVER_STATUS_INVALID_VALUE = 3,
    CUSOLVER_STATUS_EXECUTION_FAILED = 6,
    CUSOLVER_STATUS_INTERNAL_ERROR = 7,
    CUSOLVER_STATUS_NOT_SUPPORTED = 9
};

enum {
    CUSOLVER_EIG_MODE_NOVECTOR = 0,
    CUSOLVER_EIG_MODE_VECTOR = 1
};

enum {
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    CUDA_C_32F = 4,
    CUDA_C_64F = 5
};

#endif
