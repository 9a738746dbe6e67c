#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every annotated function, forced onto the host device in random chunks with
# little memory, computes what it computes without ferry. FERRY_DRIVE_CALLS
# calls a function (default 6; 1 for ./check), from seed FERRY_DRIVE_SEED.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
builddir=${FERRY_BUILDDIR:-$srcdir/_build}
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/baddevice/ferry.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
drive=$builddir/tests/drive/drive
ferry=$builddir/ferry
calls=6
[ "${FERRY_TEST_TIER-}" != edit ] || calls=1
calls=${FERRY_DRIVE_CALLS:-$calls}
seed=${FERRY_DRIVE_SEED:-1}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

[ -x "$drive" ] && [ -x "$ferry" ] || skip_all "drive or ferry is not built"
"$drive" --list >"$work/list" 2>&1 || skip_all "a library is missing: $(tail -n 1 "$work/list")"

# whole FILE: what the driver prints is whole: functions that it has, as many calls of
# each, their sum, and none that differs.
whole()
{
    awk 'NR == FNR { listed[$1]; next }
        / of the bound, digest / {
            bad += !($1 in listed) || $3 " " $4 " " $5 != "calls, 0 differ,"
            bad += calls && $2 != calls
            calls = $2
            sum += calls
            next
        }
        { last = $0; others++ }
        END { exit bad || others != 1 || last != sum " calls, 0 differ" || !sum }
    ' "$work/list" "$1"
}

# drives NAME COMMAND...: succeeds, and prints no call that differs
drives()
{
    name=$1
    shift
    if "$@" >"$work/out" 2>"$work/err" && whole "$work/out"; then
        ok "$name: $(tail -n 1 "$work/out")"
    else
        { grep DIFFERS "$work/out"; tail -n 2 "$work/out" "$work/err"; } |
            head -n 12 | sed 's/^/# /'
        not_ok "$name"
    fi
}

drives "plain" "$drive" -s "$seed" -c "$calls"
for memory in 4KiB 48KiB 1MiB 64MiB; do
    seed=$((seed + 1))
    drives "--chunk random:$seed, $memory" \
        "$ferry" run --device "host,memory=$memory" --force \
        --chunk "random:$seed" -- "$drive" -s "$seed" -c "$calls"
done
drives "planned chunks, 16KiB" "$ferry" run --device host,memory=16KiB \
    --force -- "$drive" -s "$seed" -c "$calls"
drives "not forced" "$ferry" run --device host,memory=16MiB -- \
    "$drive" -s "$seed" -c "$calls"

# BLAS on the fake CUDA. (LAPACK and FFTW are compared elsewhere: what they leave of
# workspaces and of destroyed inputs is the library's.)
fake=$builddir/tests/fakecuda/.libs
if [ -e "$fake/libcublas.so.13" ]; then
    seed=$((seed + 1))
    drives "cuda" env LD_LIBRARY_PATH="$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        FAKECUDA_DELAY=0 FAKECUDA_STRICT=1 \
        "$ferry" run --report="$work/json" --device cuda --force -- \
        "$drive" -s "$seed" -c 6 '?axpy_' '?copy_' '?swap_' '?scal_' \
        '??scal_' '?ge[mr]*_' '?gbmv_' '?s[bpy][mr]*_' '?h[bpe][mr]*_' \
        '?t[rbp][ms]?_' 'cblas_*'
    # Levels 1 and 2, which no cost model would send there.
    for function in daxpy zswap csscal dgemv chemv cblas_dsymv ztrsv cblas_dger \
        cblas_zgemv dsyr2 cher sgbmv zhbmv dspmv ctpmv ztpsv cblas_dspr2; do
        if grep "\"name\": \"$function\"" "$work/json" |
            grep -q '"offloaded": [1-9]'; then
            ok "cuda: $function"
        else
            grep "\"name\": \"$function\"" "$work/json" | sed 's/^/# /'
            not_ok "cuda: $function"
        fi
    done
    # Everything cut: what manuals promise is the same (with another algorithm
    # scratch and what a routine destroys are not).
    few=$(((calls + 2) / 3))
    seed=$((seed + 1))
    drives "cuda, --chunk random:$seed, 48KiB" \
        env LD_LIBRARY_PATH="$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        FAKECUDA_DELAY=0 FAKECUDA_STRICT=1 \
        "$ferry" run --device cuda,memory=48KiB --force \
        --chunk "random:$seed" -- "$drive" -s "$seed" -c "$few" --documented
else
    skip "cuda" "the fake CUDA is not built"
fi

# Devices that fail every Nth operation, at once or half done, or answer late.
# The result is the same.
baddevice_ferry "$work/bad"
for faults in every:997 every:1999,late:1 every:2003,latency:20000; do
    seed=$((seed + 1))
    drives "faults $faults, random:$seed, 64KiB" \
        env BADDEVICE="$faults" "$work/bad/ferry" run --report --device host,memory=64KiB --force \
        --chunk "random:$seed" -- "$drive" -s "$seed" -c "$calls"
    failed=$(grep -o 'device-error [0-9]*' "$work/err" |
        awk '{ sum += $2 } END { print sum + 0 }')
    if [ "$failed" -gt 10 ]; then
        ok "faults $faults: $failed calls failed and were done again"
    else
        not_ok "faults $faults: only $failed calls failed"
    fi
done

netlib=/usr/lib/$(cc -dumpmachine 2>/dev/null)
if [ -e "$netlib/blas/libblas.so.3" ] && [ -e "$netlib/lapack/liblapack.so.3" ]; then
    drives "reference libraries, random:$seed, 32KiB" \
        "$ferry" run --device host,memory=32KiB --force \
        --chunk "random:$seed" -- \
        env LD_LIBRARY_PATH="$netlib/blas:$netlib/lapack" \
        "$drive" -s "$seed" -c "$calls"
    # OpenBLAS reads beyond its operands; these do not, so that a fault here is
    # a tile whose buffer is too small.
    drives "reference libraries, tiles between guard pages" \
        env BADDEVICE=guard:1,poison:1 "$work/bad/ferry" run --device host,memory=1MiB --force \
        --chunk "random:$seed" -- \
        env LD_LIBRARY_PATH="$netlib/blas:$netlib/lapack" \
        "$drive" -s "$seed" -c "$calls"
else
    skip "reference libraries" "libblas3 or liblapack3 is missing"
    skip "reference libraries, tiles between guard pages" "the same"
fi
if [ -e "$netlib/blas64/libblas64.so.3" ] && [ -e "$netlib/lapack64/liblapack64.so.3" ]; then
    drives "64-bit integers, random:$seed, 32KiB" \
        "$ferry" run --device host,memory=32KiB --force \
        --chunk "random:$seed" -- \
        "$drive" --ilp64 --blas "$netlib/blas64/libblas64.so.3" \
        --lapack "$netlib/lapack64/liblapack64.so.3" -s "$seed" -c "$calls"
    [ ! -e "$fake/libcublas.so.13" ] || drives "cuda, 64-bit integers, 48KiB" \
        env LD_LIBRARY_PATH="$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        FAKECUDA_DELAY=0 FAKECUDA_STRICT=1 \
        "$ferry" run --device cuda,memory=48KiB --force \
        --chunk "random:$seed" -- \
        "$drive" --ilp64 --blas "$netlib/blas64/libblas64.so.3" \
        --lapack "$netlib/lapack64/liblapack64.so.3" \
        -s "$seed" -c "$few" --documented
else
    skip "64-bit integers" "libblas64-3 or liblapack64-3 is missing"
fi

# Plans of FFTW on a card, as far as it has them: whole, cut by batches, and with
# a device that fails now and then.
fake=$builddir/tests/fakecuda/.libs
if [ -e "$fake/libcufft.so.12" ]; then
    fftw=$(sed -n 's,^\(fftwf*_execute[^/]*\)/.*,\1,p' "$work/list" | sort -u)
    for chunk in "" "--chunk=random:$seed"; do
        # shellcheck disable=SC2086 # names, and nothing or an option
        drives "transforms on cuda ${chunk:-planned}, 32KiB" \
            env LD_LIBRARY_PATH="$fake" FAKECUDA_STRICT=1 FAKECUDA_DELAY=10 \
            FAKECUDA_LOG="$work/log" "$ferry" run --report="$work/cuda" \
            --device cuda,memory=32KiB --force $chunk -- \
            "$drive" -s "$seed" -c "$calls" $fftw
    done
    # Operands stay on the card.
    seed=$((seed + 1))
    # shellcheck disable=SC2086
    drives "transforms on cuda, 1MiB" \
        env LD_LIBRARY_PATH="$fake" FAKECUDA_STRICT=1 FAKECUDA_DELAY=0 \
        FAKECUDA_LOG="$work/log" "$ferry" run \
        --device cuda,memory=1MiB --force --chunk "random:$seed" -- \
        "$drive" -s "$seed" -c "$calls" --max 4000 $fftw
    empty "transforms on cuda: nothing that no caller may do" \
        "$(grep -E 'race:|illegal|bad-|unpinned|free-in-use' "$work/log")"
    # shellcheck disable=SC2086
    drives "transforms on cuda, one call of the driver fails" \
        env LD_LIBRARY_PATH="$fake" FAKECUDA_DELAY=10 FAKECUDA_FAIL_ANY=900 \
        "$ferry" run --device cuda,memory=32KiB --force -- \
        "$drive" -s "$seed" -c "$calls" $fftw
    # shellcheck disable=SC2086
    drives "transforms on cuda, no plan can be made after the tenth" \
        env LD_LIBRARY_PATH="$fake" FAKECUDA_DELAY=10 \
        FAKECUDA_FAIL=cufftMakePlanMany64:11+:2 \
        "$ferry" run --device cuda,memory=32KiB --force -- \
        "$drive" -s "$seed" -c "$calls" $fftw
    # Larger than the card: by axes, undone where it fails.
    [ "$calls" = 1 ] || more=2500
    for fails in 700 ${more-} 0; do
        # shellcheck disable=SC2086
        drives "transforms larger than the card, call $fails fails" \
            env LD_LIBRARY_PATH="$fake" FAKECUDA_STRICT=1 FAKECUDA_DELAY=0 \
            FAKECUDA_FAIL_ANY="$fails" FAKECUDA_LOG="$work/log" \
            "$ferry" run --explain \
            --device cuda,memory=64KiB --force -- \
            "$drive" -s "$seed" -c 1 --max 9000 $fftw
    done
    if grep -q 'offloaded (fft)' "$work/err"; then
        ok "some went through it in passes"
    else
        not_ok "some went through it in passes"
    fi
    empty "transforms larger than the card: nothing that no caller may do" \
        "$(grep -E 'race:|illegal|bad-|unpinned|free-in-use' "$work/log")"
else
    skip "transforms on cuda" "tests/fakecuda is not built"
fi

# Vector math is of MKL, and driven by tests/kernels.
mkdir "$work/lib"
cp "$srcdir"/annotations/lib/*.ferry "$work/lib"
rm -f "$work/lib/vml.ferry"
"$ferry" check --dump "$work/lib" >"$work/dump"
"$ferry" run --device host,memory=1MiB --force --report="$work/report" -- \
    "$drive" -s 1 -c 10 >/dev/null 2>&1
empty "the driver and the annotations know the same functions" \
    "$(python3 "$srcdir/tests/drive/covered.py" "$work/dump" "$work/list" "$work/report" 2>&1)"
finish
