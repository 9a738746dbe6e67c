// SPDX-License-Identifier: Apache-2.0
// A library function that throws, for throw.cc: half of the negative inputs.
#include <stdexcept>

extern "C" void
scale(int n, double *x)
{
    if (x[0] < 0) {
        throw std::runtime_error("negative");
    }
    for (int i = 0; i < n; i++) {
        x[i] *= 2;
    }
}
