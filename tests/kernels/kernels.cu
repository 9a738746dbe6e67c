// SPDX-License-Identifier: Apache-2.0
// A kernel whose name is that of the host's function, as is natural.
extern "C" __global__ void
scale(long long n, double alpha, const double *__restrict__ x, double *y)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = alpha * x[i];
    }
}
