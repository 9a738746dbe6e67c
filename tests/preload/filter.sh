#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Filters of system calls that a program puts upon itself: from then on its calls go
# to their originals and ferry asks the kernel nothing; where the kernel takes no
# filter all is as before. The program's output and status are those without ferry.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../tap.sh disable=SC1091
. "$here/../tap.sh"

cc=${CC:-cc}
build=${FERRY_BUILDDIR:?} limit=$(patient 60)
$cc --version >/dev/null 2>&1 || skip_all "no C compiler"
grep -q '^Seccomp:' /proc/self/status || skip_all "no seccomp filter can be set"

t=$(mktemp -d "${TMPDIR:-/tmp}/ferry-filter.XXXXXX") || exit 99
trap 'rm -rf "$t"' EXIT
trap 'exit 99' INT TERM
engine=$build/tests/preload/.libs/fake_engine.so

# More than ferry has room for without asking the kernel for memory.
numbers=$(seq 0 79)
compile()
{
    # shellcheck disable=SC2046,SC2086
    $cc -O1 -w "-DFUNCTIONS(F)=$(printf 'F(%s) ' $numbers)" "$here/filter.c" \
        "$@" || {
        not_ok "compile $*"
        finish
    }
}
compile -shared -fPIC -DLIBRARY -o "$t/libworks.so"
compile -o "$t/program" -L"$t" -lworks -Wl,-rpath,"$t" -lpthread
for number in $numbers; do
    set -- "$@" "work_$number c I"
done
"$build/tests/preload/make_preload" "$build/.libs/libferry.so" "$t/preload.so" "$@" \
    >/dev/null || exit 99

# filtered WHICH CALLS [MODE]: so many calls reach the engine.
filtered()
{
    timeout -k 5 "$limit" "$t/program" "$1" >"$t/plain" 2>&1
    status=$?
    : >"$t/log"
    LD_PRELOAD=$t/preload.so \
        FERRY_SETTINGS="mode=${3:-2};engine=$engine;explain=$t/log" \
        timeout -k 5 "$limit" "$t/program" "$1" >"$t/ferry" 2>&1
    equal "$1, mode ${3:-2}: status" "$?" "$status"
    equal "$1, mode ${3:-2}: output" "$(cat "$t/ferry")" "$(cat "$t/plain")"
    equal "$1, mode ${3:-2}: calls of the engine" "$(wc -l <"$t/log")" "$2"
}
for mode in asks no-filter no-seccomp no-tsync no-strict no-mode; do
    filtered $mode 84
done
for mode in filter seccomp number tsync again closes strict strict-seccomp; do
    filtered $mode 4
done
filtered first 0
# A vfork child has its parent's memory, not its filter.
for mode in child child-number child-refused child-strict child-limits; do
    filtered $mode 84
done
filtered child 84 1
# Without an engine there is nothing to put back.
filtered no-filter 0 0
filtered filter 0 0
finish
