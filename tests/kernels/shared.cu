// SPDX-License-Identifier: Apache-2.0
// A sum over the rows of a matrix in two steps, with shared memory of a size
// that the launch gives, and a fixed one: what an author of kernels would write.
extern "C" __global__ void
row_sums(int n, int m, const double *a, int lda, double *part)
{
    extern __shared__ double sums[];
    int row = blockIdx.x;
    double sum = 0;
    for (int j = threadIdx.x; j < m; j += blockDim.x) {
        sum += a[row * (long long)lda + j];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        part[row] = sums[0];
    }
}

// y(i) := y(i) / the largest |y| of its 32 neighbours
extern "C" __global__ void
scale_by_largest(int n, double *y)
{
    __shared__ double largest[32];
    int i = blockIdx.x * 32 + threadIdx.x;
    largest[threadIdx.x] = i < n ? fabs(y[i]) : 0;
    __syncthreads();
    double most = 0;
    for (int k = 0; k < 32; k++) {
        most = fmax(most, largest[k]);
    }
    if (i < n && most > 0) {
        y[i] /= most;
    }
}
