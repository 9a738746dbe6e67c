#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that are started under a small limit of the stack: ferry's own frames need
# more, and what starts without ferry starts with it, under the same limit.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
ferry=${FERRY_BUILDDIR:-.}/ferry
. "$srcdir/tests/tap.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitizers need larger stacks"
[ -x "$ferry" ] || { not_ok "$ferry is built"; finish; }

work=$(mktemp -d "${TMPDIR:-/tmp}/ferry-stack-XXXXXX")
trap 'rm -rf "$work"' EXIT
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
mkdir -p "$HOME" "$work/mount"
printf '%s\n' one two three >"$work/mount/f"

# small KILOBYTES COMMAND...
small()
{
    (
        ulimit -s "$1" || exit 99
        shift
        exec "$@"
    )
}

# same NAME KILOBYTES OPTION... -- COMMAND...
same()
{
    name=$1 size=$2
    shift 2
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    small "$size" "$@" >"$work/plain" 2>&1
    echo $? >"$work/plain.status"
    # shellcheck disable=SC2086
    small "$size" "$ferry" run $options -- "$@" >"$work/ferry" 2>&1
    echo $? >"$work/ferry.status"
    read -r status <"$work/plain.status"
    [ "$status" -lt 99 ] || not_ok "$name: the test itself ($status)"
    alike "$name, $size KiB" "$work/plain" "$work/ferry"
}

cat >"$work/script" <<'END'
ulimit -s
/bin/cat "$1"
/bin/grep t "$1" | /usr/bin/sort
exit 3
END
place=$work/mount=ssh://ferry.invalid/x
for size in 32 64 100; do
    same "a program" $size -- /bin/cat "$work/mount/f"
    same "calls may be offloaded" $size --device host -- /bin/cat "$work/mount/f"
    same "a shell" $size --device host -- sh "$work/script" "$work/mount/f"
    same "a shell, with a mount" $size --mount "$place" --device none -- \
        sh "$work/script" "$work/mount/f"
    same "a debug log" $size --debug --debug-file "$work/log" --device host -- \
        sh "$work/script" "$work/mount/f"
    same "a report" $size --report="$work/report" --device host -- \
        sh "$work/script" "$work/mount/f"
    equal "a report: written, $size KiB" "$(grep -c '^  "seconds"' "$work/report")" 1
    for words in "report $work/report" "explain" "doctor" "--version" \
        "check $srcdir/annotations/lib/blas1.ferry"; do
        # shellcheck disable=SC2086
        small $size "$ferry" $words >"$work/out" 2>&1
        equal "${words%% *}, $size KiB" $? 0
    done
done
finish
