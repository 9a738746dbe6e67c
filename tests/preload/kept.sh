#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A library that was closed stays as long as without ferry: glibc keeps what an object
# has found by dlsym(RTLD_DEFAULT) or by its own references, while that object is there.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../tap.sh disable=SC1091
. "$here/../tap.sh"

cc=${CC:-cc}
build=${FERRY_BUILDDIR:?} limit=$(patient 60)
$cc --version >/dev/null 2>&1 || skip_all "no C compiler"

t=$(mktemp -d "${TMPDIR:-/tmp}/ferry-kept.XXXXXX") || exit 99
trap 'rm -rf "$t"' EXIT
trap 'exit 99' INT TERM
engine=$build/tests/preload/.libs/fake_engine.so

compile()
{
    $cc -O1 -w "$here/kept.c" "$@" || {
        not_ok "compile $*"
        finish
    }
}
printf 'V_1 { global: work; };\n' >"$t/version"
for tag in 1000 2000; do
    compile -shared -fPIC -DLIBRARY -DTAG=$tag -Wl,--version-script="$t/version" \
        -o "$t/lib$tag.so"
    compile -shared -fPIC -DPLUGIN -o "$t/needs$tag.so" -L"$t" -l$tag -Wl,-rpath,"$t"
done
# In which order this one and lib1000.so go is not said anywhere.
compile -shared -fPIC -DLIBRARY -DTAG=3000 -DSILENT -o "$t/lib3000.so"
compile -shared -fPIC -DPLUGIN -o "$t/needs3000.so" -L"$t" -l3000 -Wl,-rpath,"$t"
compile -shared -fPIC -DPLUGIN -Wl,-z,lazy -o "$t/lazy.so"
compile -shared -fPIC -DPLUGIN -Wl,-z,now -o "$t/now.so"
compile -shared -fPIC -DPLUGIN -DSLOW -Wl,-z,lazy -o "$t/slow.so"
compile -shared -fPIC -DPLUGIN -fno-plt -o "$t/noplt.so"
compile -shared -fPIC -DPLUGIN -DTABLE -Wl,-z,lazy -o "$t/table.so"
# The program's own reference is left to what it opens.
compile -shared -fPIC -DLIBRARY -DTAG=0 -o "$t/libempty.so"
compile -fPIE -pie -Wl,-z,lazy -o "$t/program" "$t/libempty.so" -lpthread
$cc -shared -o "$t/libempty.so" -x c /dev/null || exit 99
"$build/tests/preload/make_preload" "$build/.libs/libferry.so" "$t/preload.so" \
    'work c I' >/dev/null || exit 99

# kept CALLS WORD...: in every mode as without ferry; CALLS reach the engine in mode 2;
# any: a call beside a dlopen may go to its original.
kept()
{
    wanted=$1
    shift
    timeout -k 5 "$limit" "$t/program" "$@" >"$t/plain" 2>&1
    status=$?
    name=$(echo "$*" | sed "s|$t/||g")
    for mode in 0 1 2 3 4; do
        : >"$t/log"
        LD_PRELOAD=$t/preload.so \
            FERRY_SETTINGS="mode=$mode;engine=$engine;explain=$t/log" \
            timeout -k 5 "$limit" "$t/program" "$@" >"$t/ferry" 2>&1
        equal "$name, mode $mode: status" "$?" "$status"
        equal "$name, mode $mode: output" "$(cat "$t/ferry")" "$(cat "$t/plain")"
        [ $mode = 0 ] || [ "$wanted" = any ] ||
            equal "$name, mode $mode: calls" "$(wc -l <"$t/log")" "$wanted"
    done
}
library=$t/lib1000.so
kept 1 program "$library" d
kept 1 program "$library" v
kept 2 program "$library" c
kept 3 handle "$library" -
kept 1 error "$library" -
kept 2 thread "$library" "$t/lazy.so"
for how in d v; do
    kept 2 plugin "$library" "$t/now.so" $how
    kept 2 lazy "$library" "$t/lazy.so" $how
done
kept 4 lazy "$library" "$t/lazy.so" c
kept 4 plugin "$library" "$t/lazy.so" c
for plugin in lazy now noplt; do
    kept 2 plugin "$library" "$t/$plugin.so" -
done
kept 2 lazy "$library" "$t/noplt.so" -
kept 2 plugin "$library" "$t/table.so" t
kept 2 lazy "$library" "$t/table.so" t
kept 2 lazy "$library" "$t/needs1000.so" d
kept 2 lazy "$library" "$t/needs3000.so" d
kept 3 two "$library" "$t/needs1000.so" "$t/lib2000.so" "$t/needs2000.so"
kept 2 address "$library" "$t/lazy.so" "$t/lib2000.so"
kept any opener "$library" "$t/lazy.so" "$t/slow.so"
finish
