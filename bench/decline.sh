#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A declined 13-argument dgemm_ against the direct PLT call, in turn, as the
# medians of several runs: make bench-decline
here=$(cd "$(dirname "$0")" && pwd)
build=${FERRY_BUILDDIR:-$PWD}
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
${CC:-cc} -O2 -shared -fPIC -o "$t/libtarget.so" "$here/decline_target.c" &&
    ${CC:-cc} -O2 -I"$build" -o "$t/decline" "$here/decline.c" -L"$t" -ltarget \
        -Wl,-rpath,"$t" || exit 1
"$build/tests/preload/make_preload" "$build/.libs/libferry.so" "$t/preload.so" \
    'dgemm_ f cciiidpipidpi a2 a3 * a4 * 262144 >' >/dev/null || exit 1
"$build/tests/preload/make_preload" record "$t/record" 1 || exit 1
runs=${RUNS:-9}
for _ in $(seq "$runs"); do
    "$t/decline" >>"$t/direct"
    for mode in 0 1 3; do
        LD_PRELOAD=$t/preload.so \
            FERRY_SETTINGS="mode=$mode;record=$t/record" \
            "$t/decline" $((mode == 3 ? 50 : 500)) >>"$t/mode$mode"
    done
done
median()
{
    sort -n "$1" | sed -n "$(((runs + 1) / 2))p"
}
direct=$(median "$t/direct")
printf 'direct PLT call              %7.2f ns\n' "$direct"
for mode in 0 1 3; do
    case $mode in
        0) what="mode 0 (never)" ;;
        1) what="mode 1 (predicate says no)" ;;
        *) what="mode 3 (counted)" ;;
    esac
    echo "$(median "$t/mode$mode") $direct" |
        awk -v what="$what" '{ printf "%-28s %7.2f ns  +%.2f  x%.2f\n", what, $1, $1 - $2, $1 / $2 }'
done
