#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # build and work are of common.sh
# Commands next to their files over bad links (tests/badlink/fault.h): what a script
# prints, writes and returns is what it does without ferry, and soon.
. "${FERRY_SRCDIR:-$(dirname "$0")/../..}/tests/session/common.sh"
mkdir "$work/data"
seq 1 200000 >"$work/data/f"
seq 1 7 200000 >"$work/data/g"
cd "$work/data" || exit 1

# shellcheck disable=SC2016 # the inner shell expands it
# Its own output is compressible and longer than any window.
script='cat f f >../out; echo $?; sort -r g | tail -n 3; grep -c 77 f
    cat f | while read -r a; do echo "$a"; break; done
    grep nothing f; echo $?; cat missing 2>&1; echo $?
    sort f | head -n 2; uniq -c g | cut -c1-9 | tail -n 1; yes | head -n 2'

# run FAULT: its output, with the file that it wrote.
run()
{
    rm -f ../out
    if [ "$1" = none ]; then
        sh -c "$script" 2>&1
    else
        # Descriptors beyond 2 would be an open file of the commands.
        timeout -k 5 "$limit" "$build/ferry" run --no-discover --force --device none \
            --mount "$work/data=$(badlink "$1" "$work/data")" -- \
            sh -c "$script" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
        echo "status $?" | grep -v 'status 0'
    fi
    [ ! -e ../out ] || cksum <../out
}

wanted=$(run none)
# Or nothing below would be at stake.
placed=$("$build/ferry" run --no-discover --force --device none --explain \
    --mount "$work/data=loopback://$work/data" -- sh -c "$script" 2>&1 \
    3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- |
    sed -n 's/.* annotated commands, \([0-9]*\) of them at a proxy/\1/p')
if [ "${placed:-0}" -ge 8 ]; then
    ok "$placed commands run at a proxy"
else
    not_ok "only ${placed:-0} commands run at a proxy"
fi
faults="delay=1ms both,chunk=50 both,delay=10ms slow=3MiB/s
    stall=20000,for=200ms cut=0 cut=14 cut=100 up,cut=1000 up,cut=9000
    cut=3000 cut=100000 slow=4MiB/s,cut=700000 cut=2800000
    both,delay=3ms,seed=1,cut=0..200000 seed=2,cut=0..200000
    seed=3,up,cut=0..20000"
times="0.35 0.45 0.5 0.55 0.6 0.7 0.9"
# One of each kind: a delay, a stall, an end in the greeting, an end each way.
[ "${FERRY_TEST_TIER-}" != edit ] || {
    faults="both,delay=10ms stall=20000,for=200ms cut=14 up,cut=1000 slow=4MiB/s,cut=700000"
    times="0.35 0.55 0.9"
}
for fault in $faults; do
    equal "$fault" "$(run "$fault")" "$wanted"
done

# Readers that are killed while they are asked for: what feeds them must end.
# shellcheck disable=SC2016 # the inner shell expands it
script='for t in 0.3 0.4 0.5 0.55 0.6 0.65 0.7 0.8; do
        { cat f | sort >/dev/null & sleep $t; kill $! 2>/dev/null; wait; } &
    done 2>/dev/null; wait; echo ended'
wanted=$(run none)
equal "killed readers" "$(run both,delay=150ms)" "$wanted"

# A signal that comes there when all was written there, but not here.
# shellcheck disable=SC2016 # the inner shell expands it
script='for t in '$times'; do
        { mkfifo ../p$t; sleep 99 <../p$t & r=$!; cat g >../p$t & p=$!
        sleep $t; kill $p; wait $p; echo $?; kill $r; rm ../p$t; } &
        wait
    done 2>/dev/null; echo ended'
wanted=$(run none)
equal "killed while its reader rests" "$(run both,delay=150ms)" "$wanted"

# One that only waits for what it left in the background ends by a signal.
timeout -k "$(patient 20)" 2 "$build/ferry" run --no-discover --force --device none \
    --mount "$work/data=loopback://$work/data" -- \
    sh -c 'cat f f f f 2>/dev/null | sleep '$(($(patient 20) + 9))' & sleep 0.3' \
    3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
equal "a signal while it waits for the background" $? 124

# A proxy that was asked early, whose greeting comes too late, ends by itself: what
# it has made goes with it. The login is known by the cases above.
mkdir "$work/tmp"
TMPDIR="$work/tmp" timeout -k 5 "$limit" "$build/ferry" run --no-discover --force \
    --device none --mount "$work/data=$(badlink down,delay=3s "$work/data")" \
    -- timeout 1 cat f 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
# Its transport may be killed before it has ended.
tries=0
while [ -n "$(ls "$work/tmp")" ] && [ $((tries += 1)) -lt "$(patient 300)" ]; do
    sleep 0.1
done
equal "nothing is left of early requests" "$(ls "$work/tmp")" ""

# No room for the session's files: one line, and all commands run here.
mkdir "$work/full"
if mount -t tmpfs -o size=4k none "$work/full" 2>/dev/null; then
    echo x >"$work/full/a"
    found=$(TMPDIR="$work/full" timeout -k 5 "$limit" "$build/ferry" run \
        --no-discover --force --device none \
        --mount "$work/data=loopback://$work/data" -- \
        sh -c 'tail -n 1 f' 2>/dev/null)
    equal "a full disk" "$found" 200000
    umount "$work/full"
else
    skip "a full disk" "no tmpfs may be mounted"
fi
finish
