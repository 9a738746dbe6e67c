# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154
# For the tests of this folder: a snapshot with a stub that writes down what it
# was started for, and a way to run a command with it and without.
# shellcheck source=../tap.sh disable=SC1091
. "$here/../tap.sh"

cc=${CC:-cc}
build=${FERRY_BUILDDIR:?} limit=$(patient 60)
$cc --version >/dev/null 2>&1 || skip_all "no C compiler"

t=$(mktemp -d "${TMPDIR:-/tmp}/ferry-exec.XXXXXX") || exit 99
trap 'rm -rf "$t"' EXIT
trap 'exit 99' INT TERM
mkdir "$t/mount" "$t/work"
library=$build/.libs/libferry.so
printf '%s\n' one two three >"$t/mount/f"

compile()
{
    # shellcheck disable=SC2086
    $cc -O1 -w "$@" || {
        not_ok "compile $*"
        finish
    }
}

$cc -O1 -static -o "$t/stub" "$here/fake_stub.c" 2>/dev/null ||
    skip_all "no static libc"
: >"$t/stubs"
chmod 666 "$t/stubs"
# Flags: 1 reads standard input, 2 reads the working folder.
snapshot()
{
    "$build/tests/exec/make_snapshot" "$t/snapshot" "$t/stub" "$t/stubs" \
        "$@" cat:1 grep:1 head:1 ls:2 ran script sort:1 wc:1 || exit 99
}
snapshot "$t/mount" -

# ferry COMMAND...: as a process of a session. By env(1), as `ferry run' does it:
# a variable keeps its place. Assignments in front of a command move it in bash.
ferry()
{
    : >"$t/stubs"
    env LD_PRELOAD="$library${LD_PRELOAD+:$LD_PRELOAD}" \
        FERRY_SETTINGS="mode=0;snapshot=$t/snapshot" timeout -k 5 "$limit" "$@"
}

# same NAME COMMAND...: output, errors and status are those without ferry.
same()
{
    name=$1
    shift
    kept "$t/plain" env timeout -k 5 "$limit" "$@"
    kept "$t/ferry" ferry "$@"
    read -r plain_status <"$t/plain.status"
    if [ "$plain_status" -eq 124 ] || [ "$plain_status" -ge 132 ]; then
        echo "# status $plain_status without ferry"
        not_ok "$name: the test itself"
    else
        alike "$name" "$t/plain" "$t/ferry"
    fi
}

# stubs NAME LINE...: after same, these were started, in any order.
stubs()
{
    stubs_name=$1
    shift
    equal "$stubs_name: stubs" "$(sort "$t/stubs")" "$(printf '%s\n' "$@" | sort)"
}
