#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ferry proxy as a command: what it prints, when it ends, what it refuses.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
ferry=${FERRY_BUILDDIR:-.}/ferry
. "$srcdir/tests/tap.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

"$ferry" proxy --stdio </dev/null >"$dir/out" 2>"$dir/err"
equal "ends well with its connection" $? 0
empty "nothing on standard error" "$(cat "$dir/err")"
equal "the first line is the agreed one" "$(head -n 1 "$dir/out")" "ferry-proxy 3"

# Standard error may be closed, and the input may be a file.
echo junk >"$dir/junk"
"$ferry" proxy --stdio <"$dir/junk" >"$dir/out" 2>&-
equal "junk ends the connection" $? 0
equal "only the wire is on standard output" "$(head -n 1 "$dir/out")" \
    "ferry-proxy 3"

"$ferry" proxy --stdio --stages 3 --load 0.5 </dev/null >"$dir/out" 2>"$dir/err"
equal "takes its options" "$?$(cat "$dir/err")" 0
"$ferry" proxy --stdio --no-landlock </dev/null >"$dir/out" 2>"$dir/err"
equal "does without Landlock" "$?$(cat "$dir/err")" 0

refuses()
{
    name=$1
    shift
    "$ferry" proxy "$@" </dev/null >"$dir/out" 2>"$dir/err"
    equal "$name: exit status" $? 2
    empty "$name: nothing on standard output" "$(cat "$dir/out")"
    [ -s "$dir/err" ] && ok "$name: a message" || not_ok "$name: a message"
}
refuses "without --stdio"
refuses "an operand" --stdio operand
refuses "no stages" --stdio --stages 0
refuses "a wrong load" --stdio --load inf
for gone in --root=/usr --setid --memory=1GiB --seconds=9; do
    refuses "$gone, which was removed" --stdio "$gone"
    equal "... as a line says" "$(grep -c "were removed" "$dir/err")" 1
done
refuses "an unknown option" --stdio --unknown

echo 'command broken {' >"$dir/broken.ferry"
"$ferry" proxy --stdio --annotations "$dir/broken.ferry" </dev/null \
    >"$dir/out" 2>"$dir/err"
equal "broken annotations are left out" $? 0
equal "... which one line on stderr says" \
    "$(grep -c "broken.ferry:1.*only the shipped" "$dir/err") $(wc -l <"$dir/err")" "1 1"
equal "... and none on the wire" "$(head -n 1 "$dir/out" | cut -c -12)" "ferry-proxy "
"$ferry" proxy --stdio --annotations "$dir/none" </dev/null >"$dir/out" 2>"$dir/err"
equal "annotations that cannot be read are left out" \
    "$? $(grep -c "cannot read annotations $dir/none" "$dir/err")" "0 1"

# Annotations of the proxy's host are known there as well as the shipped ones; a
# command that only the client knows stays.
build=$(cd "${FERRY_BUILDDIR:-.}" && pwd)
if [ -n "${FERRY_SANITIZED-}" ] || [ -z "$(command -v ptx)" ]; then
    skip "annotations of the proxy's host" "sanitized libraries cannot be preloaded, or no ptx"
else
    mkdir "$dir/data"
    seq 9 >"$dir/data/f"
    echo 'command ptx { operand FILE in; pure; }' >"$dir/own.ferry"
    for own in "--annotations $dir/own.ferry" ""; do
        printf '#!/bin/sh\nexec %s "$@" %s\n' "$build/ferry" "$own" >"$dir/there"
        chmod 755 "$dir/there"
        (cd "$dir/data" && "$build/ferry" run --no-discover --force --device none \
            --annotations "$dir/own.ferry" --report="$dir/report" \
            --mount "$dir/data=ssh://bad$dir/data?ferry=$dir/there&command=$build/tests/badlink/badlink%20delay=1ms" \
            -- ptx f >"$dir/out" 2>/dev/null)
        equal "with '${own% *}' there: as without" "$(cat "$dir/out")" "$(ptx "$dir/data/f")"
        equal "with '${own% *}' there: where it ran" \
            "$(grep -o '"placed": [^,]*' "$dir/report")" \
            "\"placed\": $([ -n "$own" ] && echo '"ssh://bad"' || echo null)"
    done
fi

# SIGTERM ends it as the end of the connection does.
mkfifo "$dir/fifo"
rm -f "$dir/out"
"$ferry" proxy --stdio <"$dir/fifo" >"$dir/out" 2>"$dir/err" &
pid=$!
exec 9>"$dir/fifo"
waited=0
until [ -s "$dir/out" ] || [ $waited -ge "$(patient 600)" ]; do
    sleep 0.1
    waited=$((waited + 1))
done
kill -TERM "$pid"
# Whether it is there, and no zombie.
goes_on() { grep -qs '^State:.[^ZX]' "/proc/$pid/status"; }
while goes_on && [ $waited -lt "$(patient 1200)" ]; do
    sleep 0.1
    waited=$((waited + 1))
done
goes_on && kill -KILL "$pid"
wait "$pid"
equal "SIGTERM ends it in order" $? 0
exec 9>&-
finish
