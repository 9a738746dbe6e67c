/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's reference BLAS and LAPACK with 64-bit integers, in a namespace of
 * their own: no preloaded library can come between, and none of their names
 * are seen by the program.
 */
#ifndef FERRY_TESTS_FAKECUDA_NETLIB_H
#define FERRY_TESTS_FAKECUDA_NETLIB_H

/* Returns a Fortran routine of BLAS or LAPACK, NULL if there is no such library or
 * name. '?' in its name is the letter of the type, '%' that of a complex type's real
 * one and nothing for real types: "?gemm_", "%?nrm2_". */
void *netlib_routine(const char *pattern, char type);

#endif
