/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the fake cuFFT only: transforms of complex numbers on the host.
 */
#ifndef FERRY_TESTS_FAKECUDA_FFT_H
#define FERRY_TESTS_FAKECUDA_FFT_H

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

/* In place: data is rank (1..3) dense axes of n[] elements, last one fastest;
 * sign is -1 or 1, nothing is scaled. False: no memory. */
bool fft_transform(double complex *data, int rank, const int64_t *n, int sign);

#endif
