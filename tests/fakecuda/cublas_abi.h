/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS's types as its ABI has them (cuBLAS manual), under the names that the
 * rows use. tests/fakecuda/headers.sh compares them with a toolkit's.
 */
#ifndef FERRY_TESTS_FAKECUDA_CUBLAS_ABI_H
#define FERRY_TESTS_FAKECUDA_CUBLAS_ABI_H

#include "tests/fakecuda/driver_abi.h"

typedef int cublasStatus_t;
typedef int cublasOperation_t;
typedef int cublasFillMode_t;
typedef int cublasSideMode_t;
typedef int cublasDiagType_t;
typedef int cublasPointerMode_t;
typedef int cublasAtomicsMode_t;
typedef int cublasMath_t;
typedef int libraryPropertyType;
typedef CUstream cudaStream_t;
typedef struct fake_blas *cublasHandle_t;

typedef struct {
    float x, y;
} cuComplex;

typedef struct {
    double x, y;
} cuDoubleComplex;

enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
};

enum {
    CUBLAS_FILL_MODE_LOWER = 0,
    CUBLAS_FILL_MODE_UPPER = 1,
    CUBLAS_DIAG_NON_UNIT = 0,
    CUBLAS_DIAG_UNIT = 1,
    CUBLAS_SIDE_LEFT = 0,
    CUBLAS_SIDE_RIGHT = 1,
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
    CUBLAS_OP_C = 2,
    CUBLAS_POINTER_MODE_HOST = 0,
    CUBLAS_POINTER_MODE_DEVICE = 1
};

#endif
