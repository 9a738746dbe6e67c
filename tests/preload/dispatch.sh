#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Calls that an engine answers in every way: the program sees its originals'
# results, errno and floating point whatever the engine leaves behind, and the
# engine is asked what it should be.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../tap.sh disable=SC1091
. "$here/../tap.sh"

cc=${CC:-cc}
build=${FERRY_BUILDDIR:?} limit=$(patient 60)
$cc --version >/dev/null 2>&1 || skip_all "no C compiler"

t=$(mktemp -d "${TMPDIR:-/tmp}/ferry-dispatch.XXXXXX") || exit 99
trap 'rm -rf "$t"' EXIT
trap 'exit 99' INT TERM
log=$t/log

compile()
{
    # shellcheck disable=SC2086
    $cc -O1 -w -I"$here/../.." -I"$build" "$here/dispatch.c" "$@" || {
        not_ok "compile $*"
        finish
    }
}
compile -shared -fPIC -DENGINE -o "$t/engine.so"
compile -shared -fPIC -DLIBRARY -o "$t/libjudged.so"
compile -o "$t/program" -L"$t" -ljudged -Wl,-rpath,"$t"
"$build/tests/preload/make_preload" "$build/.libs/libferry.so" "$t/preload.so" \
    'judged c I' 'judged_inner c I' 'judged_jump c PI' 'judged_make m I' \
    'judged_free x P' 'judged_hop c P' 'judged_leave c I' >/dev/null || exit 99

# asked NAME WANTED...: what the engine was asked, in a run in mode 2 and one that
# counts, whose output is that without ferry.
asked()
{
    name=$1
    shift
    printf '%s\n' "$@" >"$t/wanted"
    "$t/program" "$name" >"$t/plain" 2>&1 || not_ok "$name: the test itself"
    for mode in 2 4; do
        rm -f "$log"
        : >"$log"
        "$build/tests/preload/make_preload" record "$t/record" 7
        LD_PRELOAD=$t/preload.so \
            FERRY_SETTINGS="mode=$mode;engine=$t/engine.so;explain=$log;record=$t/record" \
            timeout -k 5 "$limit" "$t/program" "$name" >"$t/ferry" 2>&1
        equal "$name, mode $mode: status" "$?" 0
        equal "$name, mode $mode: output" "$(cat "$t/ferry")" "$(cat "$t/plain")"
        equal "$name, mode $mode: asked" "$(cat "$log")" "$(cat "$t/wanted")"
    done
}
# What was counted in mode 4: judged(), judged_inner(), and those of other names.
counted()
{
    counted_name=$1
    shift
    printf '%s\n' "$@" >"$t/wanted"
    equal "$counted_name: counted" "$("$build/tests/preload/make_preload" record \
        "$t/record" | grep -v 'calls=0')" "$(cat "$t/wanted")"
}

# What an original calls in turn is not asked about when it is verified.
for name in each flags; do
    asked $name "call judged 1" "call judged 2" "compare judged 1002" \
        "call judged 3" "call judged_inner 4" "ran - 1" \
        "call judged 4" "call judged_inner 4" "call judged 5"
    counted $name "calls=5 unprofitable=1 unsupported=1 verified=1 timed=1" \
        "calls=3 nested=1 unsupported=2 timed=1"
done
# A program that wants signals for floating point gets its originals.
asked traps
counted traps "calls=30 unsupported=30 timed=1" "calls=18 unsupported=18 timed=1"
asked handles "observe judged_make 1" "observe judged_free 0"
counted handles "calls=1 timed=1" "calls=1 timed=1"
asked jumps "call judged_jump 0" "abandon - 0" "call judged 4" "call judged_inner 4"
counted jumps "calls=1 unsupported=1 timed=1" "calls=1 unsupported=1 timed=1" \
    "calls=1 timed=0"
asked hops "call judged_hop 0" "abandon - 0" "call judged 4" "call judged_inner 4" \
    "call judged_hop 0" "abandon - 0" "call judged 4" "call judged_inner 4"
asked leaves "call judged_leave 4" "call judged_leave 7" "abandon - 0" "call judged 1"
# In handlers nothing is held; before the first call, and on the alternate stack, the
# engine is not even asked.
asked handlers "call judged 1" "call judged 1" "not held judged 1" \
    "call judged 1" "not held judged 1" "call judged 1" "not held judged 1" \
    "call judged 1"
counted handlers "calls=5 in-handler=3 timed=1"
asked first "call judged 1"
counted first "calls=4 in-handler=3 timed=1"
asked alternate "call judged 1" "call judged 1"
counted alternate "calls=5 in-handler=3 timed=1"
finish
