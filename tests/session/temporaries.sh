#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # build and work are of common.sh
# The folder of a loopback proxy's temporary files goes with the session, also when the
# proxy is killed: by its client, since it does not end in time, or by another process.
. "${FERRY_SRCDIR:-$(dirname "$0")/../..}/tests/session/common.sh"
mkdir "$work/data" "$work/tmp"
export TMPDIR="$work/tmp" work
seq 1 20000 >"$work/data/f"
cd "$work/data" || exit 1

left()
{
    ls -d "$TMPDIR"/ferry-proxy-* 2>/dev/null
}

# run SCRIPT: what it prints, after a command at the proxy; $proxy is the proxy's number.
run()
{
    # shellcheck disable=SC2016 # the inner shell expands it
    "$build/ferry" run --no-discover --force --device none \
        --mount "$work/data=loopback://$work/data" -- sh -c '
        grep -c 7 f; ls -d "$TMPDIR"/ferry-proxy-* | wc -l
        for proxy in $(grep -ls -e "--stdi[o]" /proc/[0-9]*/cmdline); do
            proxy=${proxy%/cmdline}
            grep -qs "^PPid:.$PPID\$" "$proxy/status" && break
        done
        proxy=${proxy#/proc/}
        '"$1" 2>&1
    echo "status $?" | grep -v 'status 0'
}

# Or nothing below would be at stake.
equal "a proxy has a folder" "$(run :)" "$(grep -c 7 f; echo 1)"
empty "nothing is left" "$(left)"
# shellcheck disable=SC2016 # as above
{
equal "it does not end in time" "$(run 'kill -STOP $proxy; echo $?')" \
    "$(grep -c 7 f; echo 1; echo 0)"
empty "it does not end in time: nothing is left" "$(left)"
equal "killed" "$(run 'kill -KILL $proxy; sleep 0.2; grep -c 8 f')" \
    "$(grep -c 7 f; echo 1; grep -c 8 f)"
empty "killed: nothing is left" "$(left)"
}
# One of another session, which is in use, stays.
mkfifo "$work/go"
run 'read -r x <"$work/go"; grep -c 9 f' >"$work/other" &
other=$!
until [ -n "$(left)" ]; do sleep 0.05; done
# shellcheck disable=SC2016 # as above
run 'kill -STOP $proxy' >"$work/out"
equal "in use: it stays" "$(left | wc -w)" 1
echo >"$work/go"
wait $other
equal "in use: its session goes on" "$(tail -n 1 "$work/other")" "$(grep -c 9 f)"
empty "in use: nothing is left in the end" "$(left)"
finish
