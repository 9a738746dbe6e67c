#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ferry's objects call libc's own functions, also in a program that defines all of them
# itself (imports.c); the program's allocator serves all of the process.
srcdir=$(cd "${FERRY_SRCDIR:-$(dirname "$0")/../..}" && pwd)
build=$(cd "${FERRY_BUILDDIR:-.}" && pwd)
ferry=$build/ferry here=$srcdir/tests/preload
. "$srcdir/tests/tap.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
cc=${CC:-cc}
$cc --version >/dev/null 2>&1 || skip_all "no C compiler"
t=$(mktemp -d) || exit 99
trap 'rm -rf "$t"' EXIT
cd "$t" || exit 99

# Every function that ferry's objects import by a version of glibc's. Those of memory are
# imports.c's; what libc calls at the end of each object is the program's as ever.
readelf -W --dyn-syms "$build/.libs/libferry.so" "$build/.libs/libferry-engine.so" |
    awk '$4 == "FUNC" && $7 == "UND" { split($8, name, "@"); if ($8 ~ /@GLIBC/) print name[1] }' |
    sort -u | grep -vxE 'malloc|calloc|realloc|free|__cxa_finalize' >names
while read -r name; do
    printf '.globl %s\n.type %s, @function\n%s: lea 1f(%%rip), %%rdi\n' "$name" "$name" "$name"
    printf '.section .rodata\n1: .asciz "%s"\n.text\n jmp imports_called\n' "$name"
done <names >own.S
echo '.section .note.GNU-stack,"",@progbits' >>own.S
[ "$(wc -l <names)" -gt 200 ] && ok "ferry imports functions" || not_ok "ferry imports functions"

set -- -w -O1 -fno-builtin -fno-tree-loop-distribute-patterns -fcf-protection=none -fno-stack-protector
$cc "$@" -fPIC -shared -o libdgemm.so "$here/imports_blas.c" && for pie in -pie -no-pie; do
    $cc "$@" -fPIE $pie -rdynamic -o imports$pie "$here/imports.c" own.S -L. -ldgemm \
        -Wl,-rpath,"$t" || exit 99
done

# same NAME COMMAND...: output and status as without ferry; ferry's lines on stderr are none
# of the program's.
same()
{
    name=$1
    shift
    kept output "$@"
    grep '^called' output.err >said
    mv said output.err
    alike "$name" plain output
}
for pie in -pie -no-pie; do
    kept plain ./imports$pie
    equal "without ferry, $pie" "$(tr '\n' ' ' <plain)$(cat plain.status plain.err)" \
        "right right exec spawn system popen 0"
    for options in "--device host" "--device none" "--device host --force" "--device host --force --verify" \
        "--device host --force --explain" "--device host --force --debug"; do
        # shellcheck disable=SC2086
        same "$options, $pie" "$ferry" run --no-discover $options -- ./imports$pie
    done
    for now in "" 1; do
        kept output env LD_BIND_NOW=$now "$ferry" run --no-discover --device host --force --report -- ./imports$pie
        equal "calls are offloaded, LD_BIND_NOW=$now, $pie" "$(awk '$1 == "dgemm" { print $2, $3 }' output.err)" "6 6"
        cmp -s plain output && ok "... output, $pie" || not_ok "... output, $pie"
    done
done

# A command that a session would run elsewhere: its stub is executed in its place.
if $cc -O1 -w -static -o stub "$srcdir/tests/exec/fake_stub.c" 2>error; then
    mkdir mount && echo one >mount/f && : >stubs
    "$build/tests/exec/make_snapshot" "$t/snapshot" "$t/stub" "$t/stubs" "$t/mount" - cat:1 || exit 99
    for pie in -pie -no-pie; do
        kept plain ./imports$pie exec "$t/mount/f"
        kept output env LD_PRELOAD="$build/.libs/libferry.so" FERRY_SETTINGS="mode=0;snapshot=$t/snapshot" \
            ./imports$pie exec "$t/mount/f"
        alike "a command, $pie" plain output
        equal "... by its stub, $pie" "$(grep -c . stubs)" 1
        : >stubs
    done
else
    skip "a command" "no static libc"
fi
finish
