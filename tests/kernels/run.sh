#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kernels of the user and maps, from end to end: numbers on the host device and
# on the fake card, the cache of compiled kernels, what cannot be compiled, and
# failures of every call that makes or launches a kernel.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
builddir=${FERRY_BUILDDIR:-$srcdir/_build}
. "$srcdir/tests/tap.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
ferry=$builddir/ferry
program=$builddir/tests/kernels/program
fake=$builddir/tests/fakecuda/.libs
here=$srcdir/tests/kernels
[ -x "$program" ] && [ -x "$ferry" ] || skip_all "the program is not built"
command -v c++ >/dev/null || skip_all "the fake NVRTC needs c++"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
XDG_CACHE_HOME=$work/cache
FAKECUDA_COMPILED=$work/compiled # the same text is compiled once, whoever asks
export XDG_CACHE_HOME FAKECUDA_COMPILED
mkdir "$work/compiled"

# on DEVICE ANNOTATIONS PART: all numbers are right, and as many as without ferry; what
# ferry says in $work/err
on()
{
    LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        FAKECUDA_LOG=$work/log "$ferry" run --no-discover --device "$1" \
        --annotations "$2" --force --explain -- "$program" "$3" \
        >"$work/out" 2>"$work/err" &&
        "$program" "$3" | cmp -s "$work/out"
}

# right NAME DEVICE ANNOTATIONS PART
right()
{
    rm -f "$work/log"
    name=$1
    shift
    if on "$@"; then
        ok "$name: $(tail -n 1 "$work/out")"
    else
        tail -n 6 "$work/out" "$work/err" | sed 's/^/# /'
        not_ok "$name"
    fi
}

# said NAME PATTERN: in a line of --explain
said()
{
    if grep -q -e "$2" "$work/err"; then
        ok "$1"
    else
        sed 's/^/# /' "$work/err" | head -n 12
        not_ok "$1"
    fi
}

compiled()
{
    grep -c nvrtcCompileProgram "$work/log"
}

kernels=$here/kernels.ferry
right "kernels on the host device" host,memory=1MiB "$kernels" kernels
right "kernels on the card" cuda,memory=64MiB "$kernels" kernels
equal "four of them are compiled" "$(compiled)" 4
for name in scale counts grid2; do
    said "$name ran there" "^$name .*offloaded"
done
said "a kernel that does not compile is told of" \
    "^broken .*no-kernel.*kernel broken: broken.cu.*no_such_name"
equal "it was tried once" "$(grep -c 'no_such_name' "$work/err")" 1
right "in chunks" cuda,memory=300KiB "$kernels" kernels
said "several of them" "^scale .*axes.* [2-9] chunks"
equal "from the cache, but for the one that fails" "$(compiled)" 1

for file in "$work"/cache/ferry/kernels/*; do
    # The last bytes are the image's.
    printf 'XXXXXXXX' | dd of="$file" bs=1 conv=notrunc \
        seek=$(($(wc -c <"$file") - 8)) 2>/dev/null
done
right "spoiled files" cuda,memory=64MiB "$kernels" kernels
equal "are made again" "$(compiled)" 4
for file in "$work"/cache/ferry/kernels/*; do
    : >"$file"
done
right "empty files" cuda,memory=64MiB "$kernels" kernels
equal "are made again, too" "$(compiled)" 4
rm -rf "$work/cache/ferry/kernels"
: >"$work/cache/ferry/kernels"
right "no folder for them" cuda,memory=64MiB "$kernels" kernels
equal "they are compiled each time" "$(compiled)" 4
rm -f "$work/cache/ferry/kernels"

for call in nvrtcVersion nvrtcCreateProgram nvrtcCompileProgram \
    nvrtcGetCUBINSize nvrtcGetCUBIN cuModuleLoadDataEx cuModuleGetFunction \
    cuLaunchKernel; do
    rm -rf "$work/cache/ferry/kernels"
    FAKECUDA_FAIL=$call:1
    export FAKECUDA_FAIL
    right "$call fails once" cuda,memory=64MiB "$kernels" kernels
    rm -rf "$work/cache/ferry/kernels"
    FAKECUDA_FAIL=$call:1+
    right "$call fails always" cuda,memory=64MiB "$kernels" kernels
    equal "$call: nothing ran there" "$(grep -c ' offloaded (' "$work/err")" 0
    unset FAKECUDA_FAIL
done

rm -rf "$work/cache/ferry/kernels"
export FAKECUDA_FAIL=cuModuleLoadDataEx:1+:222
right "a driver that is older than the compiler" cuda,memory=64MiB "$kernels" kernels
equal "each is compiled once" "$(compiled)" 4
said "and is not tried again" "^scale .*no-kernel.*UNSUPPORTED_PTX_VERSION"
unset FAKECUDA_FAIL

# check NAME STATUS FOLDER FILE: what it says is in $work/err
check()
{
    LD_LIBRARY_PATH=$3:$fake "$ferry" check "$4" >"$work/err" 2>&1
    equal "$1" "$?" "$2"
}

check "ferry check of kernels with an error" 1 "$fake" "$kernels"
said "at the annotation" "kernels.ferry:35: error: '.*/broken.cu' does not compile for sm_"
said "and in the file" "/broken.cu:5:.*error:.*no_such_name"
check "ferry check of maps" 0 "$fake" "$here/maps.ferry"
said "they are compiled" "^compiled for sm_.* by NVRTC .*: kernels of 3 maps"
check "ferry check of kernels in two steps" 0 "$fake" "$here/shared.ferry"
said "a file once" "^compiled for sm_.*: 1 file of kernels"
# An empty library in the place of each that could be found.
mkdir "$work/none"
echo 'int none;' >"$work/none.c"
c++ -shared -fPIC -o "$work/none/libnvrtc.so.13" "$work/none.c"
for so in libnvrtc.so.12 libnvrtc.so.11.2; do
    cp "$work/none/libnvrtc.so.13" "$work/none/$so"
done
check "ferry check without NVRTC" 0 "$work/none" "$here/maps.ferry"
said "says that it did not" "^kernels not compiled: NVRTC"

right "threads that meet, on the host device" host,memory=1MiB "$here/shared.ferry" shared
right "threads that meet, on the card" cuda,memory=64MiB "$here/shared.ferry" shared
said "two kernels in a row" "^row_shares .*offloaded"
said "numbers by address" "^take_product .*offloaded"
said "too little shared memory: an error of the card" "^row_shares_short .*: original"
right "threads that meet, in chunks" cuda,memory=60KiB "$here/shared.ferry" shared
said "of whole groups" "^row_shares .*axes.* [2-9] chunks"

vml=$srcdir/annotations/lib/vml.ferry
right "vector math on the host device" host,memory=200KiB "$vml" vml
right "vector math on the card" cuda,memory=200KiB "$vml" vml
equal "all of it" "$(grep -c ': original' "$work/err")" 0
finish
