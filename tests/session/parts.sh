#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # build and work are of common.sh
# Commands over operands of two hosts, of which one has a bad link
# (tests/badlink/fault.h), is slow, refuses or is not there: what they print, write and
# return is what they do without ferry, in the operands' order.
. "${FERRY_SRCDIR:-$(dirname "$0")/../..}/tests/session/common.sh"
mkdir "$work/near" "$work/far"
export N="$work/near" F="$work/far"
seq 1 200000 >"$N/f"
seq 1 7 200000 >"$N/g"
seq 200000 -1 1 >"$F/f"
printf 'no newline 77' >"$F/g"
cd "$work" || exit 1

# shellcheck disable=SC2016 # the inner shell expands it
# Its own output is compressible and longer than any window.
script='cat $N/f $F/f $N/g $F/g >out; echo $?; grep -c 77 $F/f $N/f
    grep 777 $N/g $F/g $F/f | tail -n 2; cat $N/g $F/g | md5sum
    cat $F/f $N/f | while read -r a; do echo "$a"; break; done
    grep nothing $N/f $F/f; echo $?; cat $N/missing $F/g $F/missing; echo $?
    cat $F/missing $N/missing 2>&1; grep -h 9999 $F/f $N/f | head -n 2
    md5sum $N/f $F/f $N/g; grep "[" $N/f $F/f; echo $?
    find $N -name f $F; echo $?; cut -c1 $F/g $N/g | tail -n 2; cat $N/f $F/f | head -c 1000000 | md5sum'

# place HOST FOLDER [FAULT]: of a folder, behind such a link if one is said.
place()
{
    if [ -z "$3" ]; then
        echo "loopback://$2?option=$1=yes"
    else
        badlink "$3" "$2" "$1"
    fi
}

# run NEAR FAR [SCRIPT]: its output, with the file that it wrote; the two are
# the faults of the links.
run()
{
    rm -f out
    if [ "$1" = none ]; then
        sh -c "${3-$script}" 2>&1
    else
        # Descriptors beyond 2 would be an open file of the commands.
        timeout -k 5 "$limit" "$build/ferry" run --no-discover --force --device none \
            --mount "$N=$(place Near "$N" "$1")" \
            --mount "$F=$(place Far "$F" "$2")" -- \
            sh -c "${3-$script}" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
        echo "status $?" | grep -v 'status 0'
    fi
    [ ! -e out ] || cksum <out
}

wanted=$(run none)
equal "two hosts" "$(run "" "")" "$wanted"
# Or nothing below would be at stake.
placed=$("$build/ferry" run --no-discover --force --device none --explain \
    --mount "$N=loopback://$N?option=Near=yes" \
    --mount "$F=loopback://$F?option=Far=yes" -- sh -c "$script" 2>&1 \
    3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- | grep -c 'at loopback://, loopback://')
if [ "$placed" -ge 11 ]; then
    ok "$placed commands run at two proxies"
else
    not_ok "only $placed commands run at two proxies"
fi
for fault in delay=10ms slow=6MiB/s stall=20000,for=200ms cut=0 cut=100 \
    up,cut=1000 up,cut=9000 cut=3000 cut=100000 cut=700000 \
    seed=1,cut=0..200000 seed=2,cut=0..400000; do
    equal "far: $fault" "$(run "" "$fault")" "$wanted"
    equal "near: $fault" "$(run "$fault" "")" "$wanted"
done
equal "both" "$(run "seed=3,cut=0..300000" \
    "seed=4,cut=0..300000")" "$wanted"

# One that refuses, or is not there.
rm -f out
equal "a host without the folder" "$(timeout -k 5 "$limit" "$build/ferry" run \
    --no-discover --force --device none --mount "$N=loopback://$N" \
    --mount "$F=loopback://$work/none?option=Far=yes" -- sh -c "$script" 2>&1 \
    3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; cksum <out)" "$wanted"
chmod 000 "$F/g"
refused='cat $N/g $F/g $N/g | md5sum; cat $F/g $N/f; echo $?'
equal "one that may not be read" "$(run "" "" "$refused")" \
    "$(run none "" "$refused")"
chmod 644 "$F/g"

# A signal ends all of them, and the command by it.
# shellcheck disable=SC2016 # the inner shell expands it
killed='exec 2>/dev/null; for s in INT TERM HUP; do
        sh -c "trap - INT; exec cat $N/f $F/f $N/f" >/dev/null | sleep 0.2 &
        cat $N/f $F/f $N/f $F/f | { sleep 0.3; wc -c >/dev/null; } & p=$!
        sleep 0.1; kill -$s $p 2>/dev/null; wait $p; done; wait; echo ended'
equal "signals" "$(run "" "" "$killed")" "$(run none "" "$killed")"
# shellcheck disable=SC2016 # the inner shell expands it
killed='cat $N/f $F/f $N/f >p & p=$!; sleep 0.3; kill -TERM $p; wait $p; echo $?'
mkfifo p
exec 3<>p
equal "a status of a signal" "$(timeout -k 5 "$limit" "$build/ferry" run --no-discover \
    --force --device none --mount "$N=loopback://$N?option=Near=yes" \
    --mount "$F=loopback://$F?option=Far=yes" -- sh -c "$killed" 2>/dev/null 3>&-)" \
    "$(sh -c "$killed" 2>/dev/null 3>&-)"
# Also when all of it is here already, and the pipe, full by now, has no room.
seq 1 100 | tee "$N/h" >"$F/h"
# shellcheck disable=SC2016 # the inner shell expands it
killed='cat $N/h $F/h >p & p=$!; sleep 1; kill -TERM $p; wait $p; echo $?'
equal "a signal after their ends" "$(timeout -k 5 "$limit" "$build/ferry" run \
    --no-discover --force --device none \
    --mount "$N=loopback://$N?option=Near=yes" \
    --mount "$F=loopback://$F?option=Far=yes" -- sh -c "$killed" 2>/dev/null 3>&-)" \
    "$(sh -c "$killed" 2>/dev/null 3>&-)"
exec 3<&-
finish
