// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void
broken(int n, double *x)
{
    x[0] = no_such_name;
}
