#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A library whose own functions and variables have names of BLAS: a program that uses
# them gets them also under ferry, whether it is position-independent or not.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
ferry=$(cd "${FERRY_BUILDDIR:-.}" && pwd)/ferry
. "$srcdir/tests/tap.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
t=$(mktemp -d) || exit 99
trap 'rm -rf "$t"' EXIT
cd "$t" || exit 99
cat >own.c <<'END'
double drot[4] = {1, 2, 3.5, 4};
int srot = 77;
double (*dscal)(double);
double ddot(int n, const double *x, int incx, const double *y, int incy)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i * incx] * y[i * incy];
    return sum;
}
int isamax(int n, const float *x, int incx) { return x && incx ? n : 0; }
END
cat >use.c <<'END'
#include <stdio.h>
extern double drot[4], (*dscal)(double);
extern int srot;
double ddot(int, const double *, int, const double *, int);
int isamax(int, const float *, int);
int main(void)
{
    double x[3] = {1, 2, 3};
    float f[3] = {1, 2, 3};
    printf("%g %d %d %g %d\n", drot[2], srot, dscal == NULL, ddot(3, x, 1, x, 1), isamax(3, f, 1));
    return 0;
}
END
cc=${CC:-cc}
$cc -shared -fPIC -o libown.so own.c && for pie in -pie -no-pie; do
    $cc -fPIE $pie -o use$pie use.c -L. -lown -Wl,-rpath,"$t" || break
done || skip_all "no compiler"
for pie in -pie -no-pie; do
    for options in "--device host" "--device host --force" "--device host --verify" "--device none"; do
        # shellcheck disable=SC2086
        equal "own names, $pie, $options" "$("$ferry" run --no-discover $options -- ./use$pie 2>error)" \
            "3.5 77 1 14 3"
    done
done
finish
