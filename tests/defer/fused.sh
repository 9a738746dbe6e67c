#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Deferred calls that are maps become kernels of several calls on the fake card:
# programs see the same, to the bit where maps are exact; how many kernels there
# are and how much is moved. Random sequences: FERRY_DEFER_RANDOM (default 6).
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
builddir=${FERRY_BUILDDIR:-$srcdir/_build}
. "$srcdir/tests/tap.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
fused=$builddir/tests/defer/fused
random=$builddir/tests/defer/random
workloads=$builddir/bench/workloads
ferry=$builddir/ferry
fake=$builddir/tests/fakecuda/.libs
[ -x "$fused" ] && [ -x "$random" ] && [ -x "$ferry" ] || skip_all "not built"
command -v c++ >/dev/null || skip_all "the fake NVRTC needs c++"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
XDG_CACHE_HOME=$work/cache
XDG_CONFIG_HOME=$work/config
FAKECUDA_DELAY=0
export XDG_CACHE_HOME XDG_CONFIG_HOME FAKECUDA_DELAY
annotations=$srcdir/tests/defer/vec.ferry
device=cuda

# deferred OPTION... -- PROGRAM ARGUMENT...: output, and what ferry says. These
# programs all return 0; another status is put behind the output.
deferred()
{
    rm -f "$work/log"
    LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        FAKECUDA_LOG=$work/log "$ferry" run --no-discover --device "$device" \
        --force --defer --explain --annotations "$annotations" "$@" \
        >"$work/out" 2>"$work/explain" || echo "status $?" >>"$work/out"
}

# kernels that were launched
launched()
{
    grep -c 'cuLaunchKernel' "$work/log"
}

# of each evaluation: calls, bytes in, bytes out, calls in kernels, kernels
evaluations()
{
    sed -n 's/.*forced by.*: \([0-9]*\) calls, \([0-9]*\) bytes in, \([0-9]*\) out, [0-9]* chunks\(, \([0-9]*\) calls as \([0-9]*\) kernels\)*.*/\1 \2 \3 \5 \6/p' \
        "$work/explain" | tr '\n' ';'
}

"$fused" chain >"$work/plain"
deferred -- "$fused" chain
if grep -q 'no call is deferred' "$work/explain"; then
    alike "results, where nothing can be deferred" "$work/plain" "$work/out" "$work/explain"
    finish
    exit
fi
v=77824 # bytes of a vector, but for the page in front, which is not taken
for name in $("$fused"); do
    "$fused" "$name" >"$work/plain"
    deferred -- "$fused" "$name"
    alike "$name" "$work/plain" "$work/out" "$work/explain"
    got="$(evaluations) $(launched)"
    case $name in
    chain) wanted="4 $((2 * v)) $v 4 1; 1" ;;
    in-place) wanted="6 $((2 * v)) $((2 * v)) 6 1; 1" ;;
    # s, r, b and a are all wanted at the first touch
    overwritten) wanted="5 $((2 * v)) $((4 * v)) 5 1; 1" ;;
    # t once more, alone
    passed-on) wanted="3 $((2 * v)) $v 3 1;1 $((2 * v)) $v  ; 2" ;;
    # r as well, without what only s needs
    mixed) wanted="5 $((2 * v)) $v 4 2;3 $((2 * v)) $v 2 1; 3" ;;
    *) continue ;;
    esac
    equal "$name: calls, bytes in and out, calls in kernels, kernels; launches" \
        "$got" "$wanted"
done

for name in many numbers; do
    deferred -- "$fused" "$name"
    got=$(evaluations)
    case $got in
    "56 $((2 * v)) "*" 56 "[2-9]";54 $((2 * v)) $((27 * v)) 54 "[2-9]";") ok "$name: several kernels" ;;
    "40 $v $v 40 "[2-9]";") ok "$name: several kernels" ;;
    *) not_ok "$name: several kernels: $got" ;;
    esac
done

# Of three functions the kernels are made when they are called; the fourth is
# the fused one.
"$fused" chain >"$work/plain"
rm -rf "$work/cache"
FAKECUDA_FAIL=nvrtcCompileProgram:4
export FAKECUDA_FAIL
deferred -- "$fused" chain
unset FAKECUDA_FAIL
alike "a kernel that cannot be compiled" "$work/plain" "$work/out" "$work/explain"
equal "its calls are launched one by one" "$(evaluations) $(launched)" \
    "4 $((2 * v)) $v  ; 4"
FAKECUDA_FAIL=cuLaunchKernel:1
export FAKECUDA_FAIL
deferred -- "$fused" chain
unset FAKECUDA_FAIL
alike "a launch that fails" "$work/plain" "$work/out" "$work/explain"
if grep -q 'by the originals' "$work/explain"; then
    ok "leaves it to the originals"
else
    not_ok "leaves it to the originals"
fi

# The same memory as floats and doubles, where originals run the slices.
"$fused" sizes >"$work/plain"
device=host
deferred -- "$fused" sizes
alike "elements of two sizes on the host device" "$work/plain" "$work/out" "$work/explain"
"$fused" in-place >"$work/plain"
deferred -- "$fused" in-place
alike "in place by another function on the host device" "$work/plain" "$work/out" "$work/explain"
equal "all deferred" "$(grep -c '(deferred)' "$work/explain")" 6
device=cuda

seed=${FERRY_DEFER_SEED:-1}
last=$((seed + ${FERRY_DEFER_RANDOM:-6}))
while [ "$seed" -lt "$last" ]; do
    "$random" "$seed" 150 >"$work/plain" 2>&1
    deferred --chunk "random:$seed" -- "$random" "$seed" 150
    alike "random $seed" "$work/plain" "$work/out" "$work/explain"
    seed=$((seed + 1))
done

# Vector math with MKL's names: inputs once, results once, one kernel.
annotations=$srcdir/annotations/lib/vml.ferry
n=20000
for row in "black-scholes 32 4 2" "haversine 16 2 1"; do
    [ -x "$workloads" ] || continue
    # shellcheck disable=SC2086
    set -- $row
    "$workloads" "$1" "$n" 1 >"$work/plain"
    deferred -- "$workloads" "$1" "$n" 1
    if python3 - "$work/plain" "$work/out" <<'PYTHON'; then
import json, sys
a, b = (json.load(open(name))["sums"] for name in sys.argv[1:])
sys.exit(any(abs(x - y) > 1e-12 * abs(x) for x, y in zip(a, b)))
PYTHON
        ok "$1: sums"
    else
        not_ok "$1: sums: $(cat "$work/plain" "$work/out")"
    fi
    got=$(evaluations)
    bytes=$(((n * 8 - 4080) / 4096 * 4096)) # whole pages of malloc's mapping
    once="$2 $(($3 * bytes)) $(($4 * bytes)) $2 1;"
    equal "$1: everything once" "$got" "$once$once"
    equal "$1: one launch each round" "$(launched)" 2
done
finish
