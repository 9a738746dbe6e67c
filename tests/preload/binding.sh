#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real programs with and without the preload: every way of reaching a function
# must be seen (the number of calls that arrive at the engine is compared), and
# nothing may change (output and exit status are).
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../tap.sh disable=SC1091
. "$here/../tap.sh"

cc=${CC:-cc}
cxx=${CXX:-c++}
build=${FERRY_BUILDDIR:?} limit=$(patient 60)
$cc --version >/dev/null 2>&1 || skip_all "no C compiler"

t=$(mktemp -d "${TMPDIR:-/tmp}/ferry-preload.XXXXXX") || exit 99
trap 'rm -rf "$t"' EXIT
trap 'exit 99' INT TERM
mkdir "$t/hidden" "$t/b"

compile()
{
    # shellcheck disable=SC2086
    $cc -O1 -w -I"$here" "$@" || {
        not_ok "compile $*"
        finish
    }
}

make_preload()
{
    "$build/tests/preload/make_preload" "$build/.libs/libferry.so" "$@" >/dev/null ||
        exit 99
}

preload=$t/preload.so
make_preload "$preload" \
    'work c I' 'work_ifunc c I' 'work_absent c I' 'work_variable c -' \
    'work_seven c IIIIII' 'sum_varargs c I' 'sum_struct c PPPPPPIDL' \
    'make_large c PI' 'sum_many c DIDFDDDDDDLLLLLLD' 'twist c ZCI' \
    'add256 c -' 'add512 c -' 'set_error c I' 'jump_away c PI' \
    'call_back c PI' 'make_thing m I' 'free_thing x P' 'outer c I' \
    'thrower c ID' 'nap c I' 'work_jump c PI' 'work_raise c II' \
    'work_context c PI' 'work_swap c PP' 'work_together c PI'
# The same names with predicates that say no to everything.
small=$t/small.so
make_preload "$small" \
    'work c I a0 1000000 >' 'work_ifunc c I a0 1000000 >' \
    'work_seven c IIIIII a0 a5 * 1000000 >' 'sum_varargs c I a0 1000 >' \
    'sum_struct c PPPPPPIDL a6 1000 >' 'make_large c PI a1 1000 >' \
    'sum_many c DIDFDDDDDDLLLLLLD a1 a10 a11 a12 a13 a14 a15 * * * * * * 100000000000 >' \
    'twist c ZCI a2 1000 >' 'add256 c - 0 1 >' 'add512 c - 0 1 >' \
    'set_error c I a0 1000 >' 'jump_away c PI a1 1000 >' \
    'call_back c PI a1 1000 >' 'outer c I a0 1000 >' \
    'thrower c ID a0 1000 >' 'nap c I a0 1000 >'

engine=$build/tests/preload/.libs/fake_engine.so
log=$t/log
all=yes each=every
[ "${FERRY_TEST_TIER-}" != edit ] || all="" each="each seventh"

# with PRELOAD MODE COMMAND...: run it with ferry; the log starts empty.
with()
{
    with_preload=$1 with_mode=$2
    shift 2
    rm -f "$log"
    LD_PRELOAD="$with_preload${others:+:$others}" \
        FERRY_SETTINGS="mode=$with_mode;engine=$engine;explain=$log" \
        timeout -k 5 "$limit" "$@"
}

# Calls that arrived, as a number.
arrived()
{
    if [ -f "$log" ]; then grep -c . "$log"; else echo 0; fi
}

# same NAME CALLS COMMAND...: in mode 2, same output and status, CALLS arrive.
same()
{
    name=$1 wanted=$2
    shift 2
    LD_PRELOAD=$others timeout -k 5 "$limit" "$@" >"$t/same" 2>&1
    plain_status=$?
    echo "$plain_status" >"$t/same.status"
    with "$preload" 2 "$@" >"$t/ferry" 2>&1
    echo "$?" >"$t/ferry.status"
    if [ "$(arrived)" != "$wanted" ]; then
        echo "# $(arrived) calls arrived, $wanted expected"
        not_ok "$name: calls"
    elif [ "$wanted" -gt 0 ] && [ "$plain_status" -gt 100 ]; then
        echo "# status $plain_status without ferry"
        not_ok "$name: the test itself"
    else
        alike "$name" "$t/same" "$t/ferry"
    fi
}

# quiet NAME COMMAND...: same output in every mode, with and without predicate; for
# ./check in every mode with one of them.
quiet()
{
    name=$1 pairs="0$preload 0$small 1$preload 1$small 2$preload 2$small 3$preload 3$small 4$preload 4$small"
    [ -n "$all" ] || pairs="0$small 1$preload 2$preload 3$small 4$preload"
    shift
    LD_PRELOAD=$others timeout -k 5 "$limit" "$@" >"$t/plain" 2>&1
    plain_status=$?
    for pair in $pairs; do
        object=${pair#?} mode=${pair%"$object"}
        with "$object" "$mode" "$@" >"$t/ferry" 2>&1
        ferry_status=$?
        if ! cmp -s "$t/plain" "$t/ferry" ||
            [ "$plain_status" != "$ferry_status" ]; then
            echo "# mode $mode, ${object##*/}, status $ferry_status ($plain_status)"
            diff "$t/plain" "$t/ferry" | sed 's/^/# /'
            not_ok "$name"
            return
        fi
    done
    ok "$name, any mode"
}

provider()
{
    compile -shared -fPIC -Wl,--version-script="$t/version" "$here/provider.c" "$@"
}
printf 'V_1 { global: *; };\n' >"$t/version"
echo 'int work_variable = 42;' >"$t/variable.c"
provider -o "$t/libprovider.so" "$t/variable.c"
provider -o "$t/libother.so" -DTAG=2000 "$t/variable.c"
provider -o "$t/b/libthird.so" -DTAG=3000 "$t/variable.c"
link="-L$t -Wl,--no-as-needed -lprovider -Wl,-rpath,$t"

# ---- linked programs ------------------------------------------------------
while read -r name flags; do
    # shellcheck disable=SC2086
    compile -DMAIN -o "$t/$name" "$here/caller.c" $flags $link
    same "$name" 6 "$t/$name"
done <<END
plt-lazy -fPIE -pie -Wl,-z,lazy
plt-now -fPIE -pie -Wl,-z,now
no-pie-lazy -fno-pie -no-pie -Wl,-z,lazy
no-pie-now -fno-pie -no-pie -Wl,-z,now
no-plt -fPIE -pie -fno-plt
no-pie-no-plt -fno-pie -no-pie -fno-plt
no-relro -fPIE -pie -Wl,-z,norelro
sysv-hash -fPIE -pie -Wl,--hash-style=sysv
END
# shellcheck disable=SC2086
compile -DMAIN -DEARLY -o "$t/early" "$here/caller.c" $link
same "own constructor" 7 "$t/early"
# shellcheck disable=SC2086
compile -shared -fPIC -DEARLY -o "$t/libearly.so" "$here/caller.c" $link
echo 'int run(int); int main(void) { return run(5) != 1091; }' >"$t/uses.c"
compile -o "$t/uses" "$t/uses.c" -L"$t" -learly -Wl,-rpath,"$t"
same "constructor of a library" 7 "$t/uses"

# ---- reached at run time ----------------------------------------------------
compile -o "$t/host" "$here/host.c" -lpthread
# shellcheck disable=SC2086
compile -shared -fPIC -o "$t/plugin.so" "$here/caller.c" $link
# shellcheck disable=SC2086
compile -shared -fPIC -Wl,-z,now -o "$t/plugin_now.so" "$here/caller.c" $link
# shellcheck disable=SC2086
compile -shared -fPIC -fno-plt -o "$t/plugin_noplt.so" "$here/caller.c" $link
for action in lazy now deep-lazy deep-now; do
    for plugin in plugin plugin_now plugin_noplt; do
        same "dlopen $action $plugin" 12 "$t/host" $action "$t/$plugin.so"
    done
done
same "dlsym of a handle" 2 "$t/host" dlsym "$t/libprovider.so"
same "RTLD_GLOBAL after start" 1 "$t/host" global "$t/libprovider.so"
compile -shared -fPIC -DTAG=9 -o "$t/hidden/libhidden.so" -x c - <<END
int hidden(int n) { return 70 * n; }
END
# shellcheck disable=SC2086
compile -shared -fPIC -o "$t/plugin_dl.so" "$here/plugin_dl.c" \
    $link -Wl,--enable-new-dtags -Wl,-rpath,"$t/hidden"
# What a plugin's RTLD_NEXT finds is the original itself: its calls do not arrive,
# nor do those of what RTLD_DEFAULT finds in a plugin that looks at home first.
same "plugin: RTLD_NEXT, RTLD_DEFAULT, RUNPATH" 4 "$t/host" now "$t/plugin_dl.so"
same "the same, RTLD_DEEPBIND" 2 "$t/host" deep-now "$t/plugin_dl.so"
        # shellcheck disable=SC2043
for python in /usr/bin/python3; do
    if [ -x $python ]; then
        cat >"$t/c.py" <<END
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
print(lib.work(5), lib.work(6), lib.work_ifunc(7), lib.count_calls(2))
lib.sum_many.restype = ctypes.c_double
END
        same "ctypes" 3 $python "$t/c.py" "$t/libprovider.so"
    else
        skip "ctypes" "no $python"
    fi
done

# ---- which original ------------------------------------------------------------
# shellcheck disable=SC2086
compile -shared -fPIC -o "$t/b/plugin.so" "$here/caller.c" -L"$t" -lother \
    -Wl,-rpath,"$t"
compile -shared -fPIC -o "$t/b/plugin3.so" "$here/caller.c" -L"$t/b" -lthird \
    -Wl,-rpath,"$t/b"
same "two copies, each for its callers" 42 "$t/host" two "$t/plugin.so" "$t/b/plugin.so"
same "two copies by handle" 6 "$t/host" two "$t/libprovider.so" "$t/libother.so"
same "dlclose and reopen" 42 "$t/host" reopen "$t/plugin.so" "$t/b/plugin.so"
same "dlclose and reopen, three" 42 "$t/host" reopen "$t/b/plugin3.so" "$t/b/plugin.so"
# What a constructor calls is bound by where it lies; the next plugin lies there, and
# what it calls lies elsewhere in its library.
echo 'int first(int n) { return n * n * 7 + n / 3; }' >"$t/first.c"
compile -shared -fPIC -Wl,--version-script="$t/version" -DTAG=4000 -o "$t/libshifted.so" \
    "$t/first.c" "$here/provider.c" "$t/variable.c"
compile -shared -fPIC -DEARLY -o "$t/early.so" "$here/caller.c" -L"$t" -lprovider \
    -Wl,-rpath,"$t"
compile -shared -fPIC -DEARLY -o "$t/b/early.so" "$here/caller.c" -L"$t" -lshifted \
    -Wl,-rpath,"$t"
same "dlclose and reopen, with constructors" 48 "$t/host" reopen "$t/early.so" "$t/b/early.so"
# Another thread calls in the library's destructor, and what lies at its place as soon
# as the library is gone; a binding for one of those calls must not serve the next.
# Without an engine: the fake one waits for the dynamic linker.
for file in "closed1.so -DLIBRARY -DTAG=1000" "b/closed2.so -DLIBRARY -DBEFORE -DTAG=2000" \
    "closer.so -DTOOL"; do
    # shellcheck disable=SC2086
    compile -shared -fPIC "$here/closing.c" -o "$t/"$file
done
compile -rdynamic -o "$t/closing" "$here/closing.c" -lpthread
others=$t/closer.so fake=$engine engine=/nonexistent
for action in called new at-once memory; do
    set -- "$t/closing" $action "$t/closed1.so" "$t/b/closed2.so"
    LD_PRELOAD=$others timeout -k 5 "$limit" "$@" >"$t/plain" 2>&1
    echo "$?" >"$t/plain.status"
    with "$small" 2 "$@" >"$t/ferry" 2>&1
    echo "$?" >"$t/ferry.status"
    alike "calls and a dlclose, $action" "$t/plain" "$t/ferry"
done
others='' engine=$fake
# A wrapper whose last act is the call: the return address is the program's.
echo 'int work(int); int run(int n) { return work(n); }' >"$t/tail.c"
compile -O2 -shared -fPIC -o "$t/tail.so" "$t/tail.c" -L"$t" -lprovider -Wl,-rpath,"$t"
compile -O2 -shared -fPIC -Wl,-z,now -o "$t/b/tail.so" "$t/tail.c" -L"$t" -lother \
    -Wl,-rpath,"$t"
same "two copies, reached by tail calls" 12 "$t/host" two "$t/tail.so" "$t/b/tail.so"
same "the same, RTLD_DEEPBIND" 2 "$t/host" deep-lazy "$t/b/tail.so"
# Threads that open and close at the same time, each its own plugins.
mkdir "$t/many"
cat >"$t/many.c" <<END
int work(int);
int (*const table[4096])(int) = {[0 ... 4095] = work};
int run(int n) { return table[n](n); }
END
compile -O2 -shared -fPIC -Wl,-z,now -o "$t/many.so" "$t/many.c" -L"$t" -lother \
    -Wl,-rpath,"$t"
i=0
while [ $i -lt 90 ]; do
    cp "$t/many.so" "$t/many/$i.so"
    i=$((i + 1))
done
same "plugins opened by threads at once" 181 "$t/host" at-once "$t/many" "$t/many/0.so"
# Before the engine is loaded a call beside another thread's dlopen goes to its original.
quiet "plugins opened by threads at once, as the first calls" "$t/host" at-once "$t/many"
# More objects than the shim keeps notes of, at the start and opened for all.
mkdir "$t/crowd"
compile -shared -fPIC -o "$t/crowd/0.so" -x c /dev/null
i=1
while [ $i -lt 90 ]; do
    cp "$t/crowd/0.so" "$t/crowd/$i.so"
    i=$((i + 1))
done
# shellcheck disable=SC2086
compile -DMAIN -o "$t/crowded" "$here/caller.c" -Wl,--no-as-needed "$t"/crowd/*.so $link
same "a program of 90 libraries" 6 "$t/crowded"
same "RTLD_GLOBAL after 90 others" 1 "$t/host" global "$t/libprovider.so" "$t/crowd"
# A library that keeps only an old version of the name, for old programs.
cat >"$t/old.c" <<END
int work_old(int n) { return n + 900; }
int work_default(int n) { return n + 800; }
__asm__(".symver work_old,work@V_0");
#ifdef BOTH
__asm__(".symver work_default,work@@V_1");
#endif
END
printf 'V_0 { global: work; local: *; };\nV_1 { global: work; } V_0;\n' >"$t/versions"
echo '#include <stdio.h>
int work(int); int main(void) { printf("%d", work(5)); return 0; }' >"$t/calls.c"
echo 'int work(int n) { return n; }' >"$t/new.c"
printf 'V_0 { global: work; };\n' >"$t/version0"
compile -shared -fPIC -o "$t/libold.so" "$t/new.c" -Wl,--version-script="$t/version0"
compile -o "$t/calls" "$t/calls.c" -L"$t" -lold -Wl,-rpath,"$t"
compile -shared -fPIC -o "$t/libold.so" "$t/old.c" -Wl,--version-script="$t/versions"
same "only an old version is left" 1 "$t/calls"
cat >"$t/own.c" <<END
#include <stdio.h>
int outer(int), call_back(int (*)(int), int);
int work(int n) { return n + 7; }
int main(void) { printf("%d %d\n", outer(5), call_back(work, 3)); return 0; }
END
# shellcheck disable=SC2086
compile -o "$t/own" "$t/own.c" $link -Wl,--export-dynamic
same "the program's own definition" 2 "$t/own"
compile -shared -fPIC -o "$t/wrapper.so" "$here/wrapper.c"
others=$t/wrapper.so
same "another preloaded wrapper with RTLD_NEXT" 6 "$t/plt-lazy"
same "the same, for a plugin" 12 "$t/host" now "$t/plugin.so"
others=

# ---- not broken ----------------------------------------------------------------
while read -r name flags; do
    # shellcheck disable=SC2086
    compile -DMAIN -o "$t/$name" "$here/weak.c" $flags $link
    same "$name" 1 "$t/$name"
done <<END
weak-pie -fPIE -pie
weak-pie-now -fPIE -pie -Wl,-z,now
weak-no-plt -fPIE -pie -fno-plt
weak-no-pie -fno-pie -no-pie
weak-pic -fPIC -pie
END
# shellcheck disable=SC2086
compile -shared -fPIC -o "$t/weak.so" "$here/weak.c" $link
same "weak reference of a plugin" 2 "$t/host" now "$t/weak.so"
same "weak reference of a plugin, lazy" 2 "$t/host" lazy "$t/weak.so"
compile -shared -fPIC -o "$t/weak_only.so" "$here/weak.c"
same "weak references that nothing satisfies" 0 "$t/host" now "$t/weak_only.so"
cat >"$t/missing.c" <<END
#include <stdio.h>
int work_absent(int);
int main(int argc, char **argv) { puts("ran"); return argc > 1 ? work_absent(1) : 0; }
END
echo 'int work_absent(int n) { return n; }' >"$t/absent.c"
compile -shared -fPIC -o "$t/libabsent.so" "$t/absent.c"
compile -o "$t/missing" "$t/missing.c" -Wl,-z,lazy -L"$t" -labsent -Wl,-rpath,"$t"
compile -shared -fPIC -o "$t/libabsent.so" "$t/variable.c"
same "an undefined name that is never called" 0 "$t/missing"
"$t/missing" x >/dev/null 2>&1
plain_status=$?
with "$preload" 2 "$t/missing" x >/dev/null 2>"$t/error"
equal "an undefined name that is called: status" "$?" "$plain_status"
equal "... and its message" "$(grep -c 'undefined symbol: work_absent' "$t/error")" 1

# shellcheck disable=SC2086
compile -o "$t/abi" "$here/abi.c" -lpthread $link
quiet "varargs, structs, stack, complex" "$t/abi" scalars
quiet "errno" "$t/abi" errno
quiet "longjmp" "$t/abi" longjmp
quiet "fork and vfork" "$t/abi" fork
quiet "fork before the first call" "$t/abi" fork-first
quiet "fork while another thread is in dlopen" "$t/abi" fork-linking "$t/libabsent.so"
quiet "threads" "$t/abi" threads
quiet "handles" "$t/abi" handles
quiet "nested" "$t/abi" nested
quiet "exit from a thread" "$t/abi" exit
quiet "signals" "$t/abi" signals
for isa in avx avx512; do
    if [ -n "$("$t/abi" $isa)" ]; then
        quiet "$isa arguments" "$t/abi" $isa
    else
        skip "$isa arguments" "not this CPU"
    fi
done
same "nested calls are decided once" 2 "$t/abi" nested
same "threads: every call arrives" 12003 "$t/abi" threads warm
# Nine calls a thread: each is offloaded, for those that were left are given up.
same "jumps out of a call, with the mask" 18 "$t/abi" left mask
same "jumps out of a call, without it" 18 "$t/abi" left
mkdir "$t/fortified"
provider -o "$t/fortified/libprovider.so" -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 "$t/variable.c"
# shellcheck disable=SC2086
compile -o "$t/fortified/abi" "$here/abi.c" -lpthread -L"$t/fortified" \
    -Wl,-rpath,"$t/fortified" $link
same "jumps that libc checks" 18 "$t/fortified/abi" left mask
same "coroutines that leave a call and come back" 8 "$t/abi" coroutines
same "errors of dlopen stay the program's" 24 "$t/abi" dlerror
same "fork: the child has the stacks of calls that are not its own" 15 "$t/abi" fork-held
# A vfork child's goes to its original.
same "fork: the child's calls arrive" 4 "$t/abi" fork
with "$preload" 1 "$t/abi" handles >/dev/null
equal "a handle's result is observed" "$(grep -c '^observe([1-9a-f][0-9a-f]*) make_thing' "$log")" 1
with "$preload" 2 "$t/abi" environment >/dev/null
equal "settings survive a changed environment" "$(arrived)" 1
if $cxx --version >/dev/null 2>&1; then
    $cxx -O1 -w -shared -fPIC -DTHROWER -o "$t/libthrower.so" "$here/throw.cc" &&
        $cxx -O1 -w -o "$t/throw" "$here/throw.cc" -L"$t" -lthrower -Wl,-rpath,"$t" &&
        quiet "C++ exceptions" "$t/throw"
    same "C++ exceptions" 4 "$t/throw"
else
    skip "C++ exceptions" "no C++ compiler"
fi

# ---- unwinding ---------------------------------------------------------------
make_preload "$t/steps.so" 'work c I a0 a0 a0 * a0 a0 a0 * * + * 1000 >' \
    'work_ifunc c I' 'work_seven c IIIIII a0 a5 * 1000000 >' \
    'sum_varargs c I' 'set_error c I'
cp "$t/libother.so" "$t/hidden/libsteps.so"
# unwinds NAME MODES FLAGS: at every instruction of the preload object. A minute of
# single steps in all; ./check without --both steps through calls only, and unwinds at
# each seventh instruction.
unwinds()
{
    name=$1 modes=$2
    shift 2
    # shellcheck disable=SC2086
    compile -o "$t/steps" "$here/steps.c" $link -Wl,-rpath,"$t/hidden" "$@"
    for action in calls ${all:+"open $t/libother.so" "open libsteps.so"}; do
        # shellcheck disable=SC2086
        LD_PRELOAD='' timeout -k 5 "$limit" "$t/steps" $action >"$t/plain" 2>&1
        for mode in $modes; do
            "$build/tests/preload/make_preload" record "$t/record" 20
            # shellcheck disable=SC2086
            LD_PRELOAD=$t/steps.so FERRY_SETTINGS="mode=$mode;engine=$engine;explain=$log;record=$t/record" \
                timeout -k 5 "$(patient 500)" "$t/steps" $action >"$t/ferry" 2>&1
            ferry_status=$?
            if [ $ferry_status != 0 ] || ! cmp -s "$t/plain" "$t/ferry"; then
                echo "# $action, mode $mode, status $ferry_status"
                sed 's/^/# /' "$t/ferry"
                not_ok "unwinding by $name"
                return
            fi
        done
    done
    ok "unwinding by $name, at $each instruction"
}
unwinds "libgcc" "2${all:+ 3}"
[ -z "$all" ] || unwinds "backtrace()" 2 -DWITH_BACKTRACE # libgcc's tables, too
if echo '#include <libunwind.h>' | $cc -E -x c - >/dev/null 2>&1; then
    unwinds "libunwind" 2 -DWITH_LIBUNWIND -lunwind
else
    skip "unwinding by libunwind" "no libunwind"
fi

# ---- the caller's stack ---------------------------------------------------------
# shellcheck disable=SC2086
compile -o "$t/depth" "$here/depth.c" -lpthread $link
quiet "calls leave a small stack alone" "$t/depth"

# ---- the predicate, and what is missing ------------------------------------------
with "$small" 1 "$t/plt-lazy" >/dev/null
equal "predicates keep small calls out" "$(arrived)" 0
# arrive NAME CALLS SPEC...: with these annotations, mode 1.
arrive()
{
    name=$1 wanted=$2
    shift 2
    make_preload "$t/some.so" "$@"
    with "$t/some.so" 1 "$t/plt-lazy" >"$t/ferry"
    equal "$name" "$(arrived) $(cat "$t/ferry")" "$wanted $plain"
}
plain=$("$t/plt-lazy")
arrive "a predicate that holds" 3 'work c I a0 5 =='
arrive "a predicate that does not" 0 'work c I a0 5 >'
arrive "variants, the second holds" 3 'work c I a0 5 >' 'work v I a0 4 >'
arrive "variants, none holds" 0 'work c I a0 5 >' 'work v I a0 6 ==' \
    'work v I a0 neg 4 >'
arrive "variants, one without a predicate" 3 'work c I a0 5 >' 'work v I'
arrive "a predicate beyond code" 3 'work c I a0 a0 / 5 >'
arrive "an argument on the stack" 1 'work_seven c IIIIII a5 5 ==' \
    'work c I a0 5 >'
with "$small" 0 "$t/plt-lazy" >/dev/null
equal "mode 0 asks nobody" "$(arrived)" 0
plain=$("$t/plt-lazy")
for settings in "" "mode=2" "mode=2;engine=/nowhere/x.so" "mode=9" "mode=" \
    "mode=2;engine=$t/plugin.so" "engine=;mode=2;explain" "mode=21"; do
    equal "settings '$settings'" "$(LD_PRELOAD=$preload \
        FERRY_SETTINGS=${settings} "$t/plt-lazy")" "$plain"
done
equal "no settings" "$(LD_PRELOAD=$preload "$t/plt-lazy")" "$plain"
equal "without a model" "$(LD_PRELOAD=$build/.libs/libferry.so \
    FERRY_SETTINGS="mode=2" "$t/plt-lazy")" "$plain"

# Loaded in a way that the dynamic linker does not refuse to setuid programs.
mkdir "$t/linked" && cp "$preload" "$t/linked/libferry.so"
# shellcheck disable=SC2086
compile -DMAIN -o "$t/secure" "$here/caller.c" -Wl,--no-as-needed \
    "$t/linked/libferry.so" -Wl,-rpath,"$t/linked" $link
with "" 2 "$t/secure" >"$t/ferry"
equal "linked instead of preloaded" "$(arrived) $(cat "$t/ferry")" "6 $plain"
chmod a+rwx "$t" # so that only we keep the log empty
if chown nobody "$t/secure" 2>/dev/null && chmod u+s "$t/secure" &&
    with "" 2 "$t/secure" >"$t/ferry" 2>/dev/null; then
    equal "a setuid program is left alone" "$(arrived) $(cat "$t/ferry")" "0 $plain"
else
    skip "a setuid program is left alone" "not root"
fi

# ---- counting ---------------------------------------------------------------------
counted()
{
    name=$1 mode=$2 wanted=$3
    shift 3
    "$build/tests/preload/make_preload" record "$t/record" 20
    rm -f "$log"
    LD_PRELOAD=$small FERRY_SETTINGS="mode=$mode;engine=$engine;explain=$log;record=$t/record" \
        "$@" >/dev/null 2>&1
    equal "$name" "$("$build/tests/preload/make_preload" record "$t/record" |
        grep -v 'calls=0' | tr '\n' ' ')" "$wanted"
}
counted "counters, predicate says no" 3 "calls=3 too-small=3 timed=1 calls=2 \
too-small=2 timed=1 calls=1 too-small=1 timed=1 " "$t/plt-lazy"
counted "counters, engine is forced" 4 "calls=3 timed=0 calls=2 timed=0 \
calls=1 timed=0 " "$t/plt-lazy"
counted "counters, engine declines" 4 \
    "calls=2 unsupported=2 timed=1 " "$t/abi" errno-only
counted "counters, nested" 3 "calls=1 too-small=1 timed=1 calls=1 too-small=1 \
timed=1 " "$t/abi" nested
counted "counters, threads" 3 "calls=4001 too-small=4001 timed=1 calls=4001 \
too-small=4001 timed=1 calls=4001 too-small=4001 timed=1 " "$t/abi" threads warm
counted "counters, child processes" 3 "calls=3 too-small=3 timed=1 calls=2 \
too-small=2 timed=1 " "$t/abi" fork

# ---- what doctor says ------------------------------------------------------------
reach()
{
    "$build/tests/preload/make_preload" reach "$@" 'work c I' 'work_ifunc c I' \
        'work_seven c IIIIII' 2>&1 | sed "s|$t/||g"
}
equal "reach: a linked program" "$(reach "$t/plt-lazy")" \
    "plt-lazy calls 3 annotated names (work_ifunc, ...): seen"
echo 'int main(void) { return 0; }' >"$t/empty.c"
if $cc -static -o "$t/static" "$t/empty.c" 2>/dev/null; then
    equal "reach: a static program" "$(reach "$t/static")" \
        "static is statically linked: nothing is seen"
else
    skip "reach: a static program" "no static libc"
fi
cp "$t/plt-lazy" "$t/setuid" && chmod u+s "$t/setuid"
equal "reach: setuid" "$(reach "$t/setuid" | head -n 1)" \
    "setuid is setuid or setgid: ferry stays out of it"
printf '#!/usr/bin/env %s\n' "$t/plt-lazy" >"$t/script"
equal "reach: a script" "$(reach "$t/script" | head -n 1)" \
    "script is a script, run by plt-lazy"
printf '\177ELF\001\001\001 32 bits only' >"$t/narrow"
equal "reach: a 32-bit program" "$(reach "$t/narrow")" \
    "narrow is not for x86-64 with glibc: nothing is seen"
equal "reach: no program" "$(reach "$t/version")" \
    "make_preload: reach: version is neither a program nor a script"
equal "reach: nothing there" "$(reach "$t/nowhere")" \
    "make_preload: reach: nowhere cannot be read"

# ---- exports ---------------------------------------------------------------------
if command -v nm >/dev/null; then
    ours=$(sed -n 's/^\t\t\([a-z_0-9]*\);/\1/p' "$here/../../shim/libferry.map" |
        sort | tr '\n' ' ')
    # A libc without them has programs that ask whether they are there.
    nm -D "$(${CC:-cc} -print-file-name=libc.so.6)" | grep -q ' pidfd_spawn@' ||
        ours=$(echo "$ours" | sed 's/pidfd_spawnp* //g')
    equal "exports of libferry.so" \
        "$(nm -D --defined-only "$build/.libs/libferry.so" | awk '{ print $3 }' | sort | tr '\n' ' ')" \
        "$ours"
    equal "exports of the preload object" \
        "$(nm -D --defined-only "$small" | awk '{ print $3 }' | sort -u | tr '\n' ' ')" \
        "$(echo "$ours" add256 add512 call_back jump_away make_large nap outer set_error sum_many sum_struct sum_varargs thrower twist work work_ifunc work_seven |
            xargs -n 1 | sort | tr '\n' ' ')"
else
    skip "exports" "no nm"
fi
equal "needs only libc" "$(readelf -d "$preload" | grep -c NEEDED)" 1
equal "no segment is writable and executable" \
    "$(readelf -lW "$preload" | grep -c 'RWE')" 0
make_preload "$t/again.so" 'dlsym c PP' 'mmap c PLIIIL' 'work c I'
equal "names that we use ourselves are left alone" \
    "$(LD_PRELOAD=$t/again.so FERRY_SETTINGS="mode=2;engine=$engine;explain=$log" "$t/plt-lazy")" "$plain"
finish
