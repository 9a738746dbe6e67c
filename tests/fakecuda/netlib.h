/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's reference BLAS and LAPACK with 64-bit integers, in a namespace of
 * their own: no preloaded library can come between, and none of their names
 * are seen by the program.
 */
#ifndef FERRY_TESTS_FAKECUDA_NETLIB_H
#define FERRY_TESTS_FAKECUDA_NETLIB_H

/* A Fortran routine of BLAS or LAPACK whose name begins with the letter of the
 * type ("?gemm_", 'D'); NULL when there is no such library or name. */
void *netlib_routine(const char *pattern, char type);

#endif
