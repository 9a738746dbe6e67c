#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the exec wrappers cost a command that a shell starts: microseconds from
# fork to wait of /bin/true, medians of rounds in turn: without the preload, with
# it, in a session, and under an annotated name that touches no mount.
#   make bench-exec
build=${FERRY_BUILDDIR:-$PWD}
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
mkdir "$t/mount"
cp /bin/true "$t/annotated" && cp /bin/true "$t/plain" || exit 1
names=$(for i in {1..99}; do echo "annotated$i:1"; done)
# shellcheck disable=SC2046,SC2086
"$build/tests/exec/make_snapshot" "$t/snapshot" /bin/true /dev/null "$t/mount" - \
    annotated:3 $(printf '%s\n' $names | sort | head -n 60) || exit 1
cat >"$t/loop" <<'END'
start=$EPOCHREALTIME
for i in {1..100}; do $1 a b c </dev/null; done
end=$EPOCHREALTIME
echo $(((${end/./} - ${start/./}) / 100))
END
run()
{
    local kind=$1
    shift
    "$@" >>"$t/times-$kind"
}
preload=$build/.libs/libferry.so
for ((i = 0; i < ${ROUNDS:-31}; i++)); do
    run plain bash "$t/loop" "$t/plain"
    run preload env LD_PRELOAD="$preload" FERRY_SETTINGS=mode=0 \
        bash "$t/loop" "$t/plain"
    run session env LD_PRELOAD="$preload" \
        FERRY_SETTINGS="mode=0;snapshot=$t/snapshot" bash "$t/loop" "$t/plain"
    run annotated env LD_PRELOAD="$preload" \
        FERRY_SETTINGS="mode=0;snapshot=$t/snapshot" bash "$t/loop" "$t/annotated"
done
for kind in plain preload session annotated; do
    printf '%-10s %5s us\n' $kind \
        "$(sort -n "$t/times-$kind" | sed -n "$(((${ROUNDS:-31} + 1) / 2))p")"
done
