#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Factorisations, solvers, eigenvalues and singular values of LAPACK and LAPACKE
# by cuSOLVER's names on the fake CUDA: all that manuals promise is what it is
# without ferry, also with little memory, with 64-bit integers, and where a call
# of the driver or of a library fails.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
builddir=${FERRY_BUILDDIR:-$srcdir/_build}
. "$srcdir/tests/tap.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
builddir=$(cd "$builddir" && pwd) || exit 1
drive=$builddir/tests/drive/drive
ferry=$builddir/ferry
fake=$builddir/tests/fakecuda/.libs
calls=${FERRY_DRIVE_CALLS:-2}
seed=${FERRY_DRIVE_SEED:-1}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

[ -x "$drive" ] && [ -x "$ferry" ] && [ -e "$fake/libcusolver.so" ] ||
    skip_all "drive, ferry or the fake CUDA is not built"
"$drive" --list >"$work/list" 2>&1 || skip_all "a library is missing: $(tail -n 1 "$work/list")"
export LD_LIBRARY_PATH="$fake" FAKECUDA_DELAY=0
# OpenBLAS's zgemv reads one element behind a vector, and faults where the heap
# ends there: here it ends far away.
export MALLOC_TOP_PAD_=67108864
set -- '*ge[qlst]*' '*potr*' '*posv*' '*trtri*' '*syev*' '*heev*' '*ormqr*' '*unmqr*' '*orgqr*' '*ungqr*'

# drives NAME DEVICE ARGUMENT...
drives()
{
    name=$1
    device=$2
    shift 2
    if "$ferry" run --no-discover --device "$device" --force ${chunk-} --report="$work/report" -- \
        "$drive" --documented -s "$seed" -c "$calls" "$@" >"$work/out" 2>"$work/err"; then
        ok "$name: $(tail -n 1 "$work/out")"
    else
        { grep DIFFERS "$work/out"; tail -n 2 "$work/out" "$work/err"; } |
            head -n 12 | sed 's/^/# /'
        not_ok "$name"
    fi
    seed=$((seed + 1))
}

"$drive" --documented -s "$seed" -c "$calls" -c 5 "$@" >"$work/plain"
drives "all in memory" cuda -c 5 "$@"
for name in plain out; do
    sed 's/, worst.*//' "$work/$name" >"$work/$name.rows"
done
empty "the same calls, as often" "$(diff "$work/plain.rows" "$work/out.rows")"
# What the language promises to run there is run there.
missing=$(python3 2>&1 -c '
import json, sys
rows = {r["name"]: r["offloaded"] for r in json.load(open(sys.argv[1]))["functions"]}
names = "gesv getrf getrs getri potrf potri potrs posv trtri geqrf gels gesvd gesdd".split()
wanted = [p + n for p in "sdcz" for n in names]
wanted += [p + n for p in "sd" for n in "ormqr orgqr syev syevd".split()]
wanted += [p + n for p in "cz" for n in "unmqr ungqr heev heevd".split()]
wanted += ["LAPACKE_" + w for w in wanted]
print(*(w for w in wanted if not rows.get(w)))' "$work/report")
empty "every routine ran on the device" "$missing"
drives "memory of 64 KiB" cuda,memory=64KiB "$@"
chunk=--chunk=random:$seed
drives "memory of 64 KiB, random chunks" cuda,memory=64KiB "$@"
unset chunk
for n in 60 333 1200; do
    export FAKECUDA_FAIL_ANY=$n
    drives "call $n fails, memory of 64 KiB" cuda,memory=64KiB "$@"
done
unset FAKECUDA_FAIL_ANY
FAKECUDA_FAIL_ASYNC=400
export FAKECUDA_FAIL_ASYNC
drives "operation 400 fails" cuda "$@"
unset FAKECUDA_FAIL_ASYNC
netlib=/usr/lib/$(cc -dumpmachine 2>/dev/null)
if [ -e "$netlib/blas64/libblas64.so.3" ] && [ -e "$netlib/lapack64/liblapack64.so.3" ]; then
    drives "64-bit integers" cuda --ilp64 --blas "$netlib/blas64/libblas64.so.3" \
        --lapack "$netlib/lapack64/liblapack64.so.3" "$@"
else
    skip "64-bit integers" "libblas64-3 or liblapack64-3 is missing"
fi
finish
