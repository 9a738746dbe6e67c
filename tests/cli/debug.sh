#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The debug log by rooms: each room has lines, and the program sees nothing of it.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
builddir=${FERRY_BUILDDIR:-.}
ferry=$builddir/ferry
program=$builddir/tests/cli/debugged
. "$srcdir/tests/tap.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
[ -x "$ferry" ] && [ -x "$program" ] || { not_ok "$ferry and $program are built"; finish; }

work=$(mktemp -d "${TMPDIR:-/tmp}/ferry-debug-XXXXXX") || exit 1
full=
trap '[ -z "$full" ] || umount "$full"; rm -rf "$work"' EXIT
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
unset FERRY_DEBUG FERRY_DEBUG_FILE
mkdir -p "$HOME" "$work/mount"
log=$work/log
line='^[0-9:]{8}\.[0-9]{6} [0-9]+ [0-9]+ [a-z]+: .'

# logged [OPTION]... -- COMMAND...: runs it on the host device, with a new log
logged()
{
    rm -f "$log"
    "$ferry" run --no-discover --device host --force --debug-file "$log" "$@" \
        >"$work/out" 2>"$work/err"
}

# rooms: those that have lines
rooms() { awk '{ print $4 }' "$log" | sort -u | tr -d ':' | tr '\n' ' '; }

"$program" call >"$work/plain" 2>&1
blas=$?

# Rooms.
if [ "$blas" -eq 0 ]; then
    logged --debug -- sh -c '"$1" call; exit 3' sh "$program"
    equal "the program's status" $? 3
    equal "the program's output" "$(cat "$work/out")" "$(cat "$work/plain")"
    empty "nothing on standard error" "$(cat "$work/err")"
    for room in calls programs engine decide plan execute memory device command; do
        grep -q " $room: ." "$log" && ok "$room has a line" || not_ok "$room has a line"
    done
    empty "each line has its form" "$(grep -vE "$line" "$log")"
    grep -q 'decide: dgemm_ called from 0x[0-9a-f]*: offloaded' "$log" &&
        ok "a decision says of what, and which" || not_ok "a decision says of what, and which"
    logged --debug=decide -- "$program" call
    equal "one room alone" "$(rooms)" "decide "
    logged --debug=pager -- "$program" call
    equal "a group" "$(rooms)" "decide device engine execute memory plan "
else
    skip "rooms of calls" "libblas.so.3 is not installed"
fi
seq 1 200000 >"$work/mount/numbers"
logged --debug=proxy --mount "$work/mount=loopback://$work/mount" -- \
    sh -c 'sort -rn "$1" | head -n 1' sh "$work/mount/numbers"
equal "output of a command that runs elsewhere" "$?$(cat "$work/out" "$work/err")" "0200000"
for room in client wire storage sandbox server; do
    grep -q " $room: ." "$log" && ok "$room has a line" || not_ok "$room has a line"
done
for step in 'client: stage of pid [0-9]*: asked -> runs' \
    'server: stage 1, pid [0-9]*: starts -> runs' 'wire: stream [0-9]*: asks /stage'; do
    grep -q "$step" "$log" && ok "says '$step'" || not_ok "says '$step'"
done
printf 'secret\n' >"$work/mount/words"
SECRET=hidden logged --debug --mount "$work/mount=loopback://$work/mount" -- \
    sh -c 'grep -c secret "$1"' sh "$work/mount/words"
empty "neither contents nor variables are logged" "$(grep -E 'secret|hidden' "$log")"

# Words and files.
logged --debug=decide,clocks -- true
equal "an unknown room: exit status" $? 2
grep -q "no room 'clocks'; rooms are calls, .*; groups are shim, .*all" "$work/err" &&
    ok "... is named, with those that there are" || not_ok "... is named, with those that there are"
[ -e "$log" ] && not_ok "... and nothing runs" || ok "... and nothing runs"
FERRY_DEBUG=,, "$ferry" run true 2>"$work/err"
equal "FERRY_DEBUG with an unknown room" "$?$(grep -c '^ferry: FERRY_DEBUG: ' "$work/err")" 21
logged -- true
[ -e "$log" ] && not_ok "off: no file" || ok "off: no file"
(cd "$work" && FERRY_DEBUG=command FERRY_DEBUG_FILE=log "$ferry" run -- sh -c 'cd /; exit 4')
equal "variables turn it on" "$?$(rooms)" "4command "
"$ferry" run --no-discover --debug=command true >"$work/out" 2>"$work/err"
equal "without a file it is printed afterwards" \
    "$(cat "$work/out")$(grep -cE "$line" "$work/err") $(wc -l <"$work/err")" "2 2"
"$ferry" run --debug --debug-file /proc/none/log -- echo runs >"$work/out" 2>"$work/err"
equal "a file that cannot be written: the program runs" "$?$(cat "$work/out")" 0runs
equal "... and one line says why" \
    "$(grep -c '^ferry: cannot write the debug log /proc/none/log: ' "$work/err") $(wc -l <"$work/err")" "1 1"
mkfifo "$work/fifo"
"$ferry" run --debug --debug-file "$work/fifo" -- echo runs >"$work/out" 2>"$work/err"
equal "a FIFO is not waited for" "$?$(cat "$work/out") $(wc -l <"$work/err")" "0runs 1"
ln -s "$work/target" "$work/link"
"$ferry" run --debug --debug-file "$work/link" -- true 2>"$work/err"
[ -e "$work/target" ] && not_ok "a link is not followed" || ok "a link is not followed"
"$ferry" proxy --stdio --debug </dev/null >"$work/out" 2>"$work/err"
equal "a proxy's log needs a file" "$?$(head -n 1 "$work/err")" "2ferry: --debug: --debug-file is missing"

# The program.
if [ "$blas" -eq 0 ]; then
    logged --debug -- "$program" closes 3 "$work/mine"
    equal "closefrom(3): its files are its own" "$?$(cat "$work/mine")" 0mine
    for first in 0 1 2; do
        logged --debug -- "$program" closes $first "$work/mine"
        equal "closefrom($first): its files are its own" "$?$(head -c 4 "$work/mine")" 0mine
    done
    empty "... and none of its lines is in them" "$(grep -aE "$line" "$work/mine")"
    logged --debug=decide -- "$program" forks
    equal "a forked child" "$?$(cat "$work/out")" "0$(cat "$work/plain")"
    equal "... logs, too" "$(awk '{ print $2 }' "$log" | sort -u | wc -l)" 2
    empty "... whole lines" "$(grep -vE "$line" "$log")"
    logged --debug=decide -- sh -c 'for i in 1 2 3 4 5 6; do "$1" call & done; wait' sh "$program"
    equal "several processes" "$(sort -u "$work/out") $(awk '{ print $2 }' "$log" | sort -u | wc -l)" \
        "$(cat "$work/plain") 6"
    empty "... whole lines" "$(grep -vE "$line" "$log")"
    logged --debug -- "$program" starts
    equal "a path that is no address" "$?$(cat "$work/out")" "0$(cat "$work/plain")"
    logged --debug -- "$program" filters
    equal "a filter of system calls ends no forked child" "$?$(cat "$work/out")" "0$(cat "$work/plain")"
    logged --debug -- "$program" limit
    equal "a limit of file sizes ends no program" "$?$(cat "$work/err")" 0
    mkdir "$work/small"
    if mount -t tmpfs -o size=16k none "$work/small" 2>/dev/null; then
        full=$work/small
        dd if=/dev/zero of="$full/fill" bs=1k count=16 2>/dev/null
        rm -f "$full/log"
        "$ferry" run --no-discover --device host --force --debug --debug-file "$full/log" \
            -- "$program" call >"$work/out" 2>"$work/err"
        equal "a full disk loses lines, nothing else" \
            "$?$(cat "$work/out" "$work/err")" "0$(cat "$work/plain")"
    else
        skip "a full disk" "no mounts may be made"
    fi
else
    skip "what the program sees" "libblas.so.3 is not installed"
fi
as_other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
cp "$(command -v env)" "$work/privileged"
if [ "$(id -u)" -eq 0 ] && as_other "$ferry" --version >"$work/out" 2>&1; then
    chmod 755 "$work" && chmod 4755 "$work/privileged"
    mkdir -m 777 "$work/theirs"
    as_other "$ferry" run --no-discover --device host --debug=shim \
        --debug-file "$work/theirs/log" -- \
        sh -c '"$1"; true' sh "$work/privileged" >"$work/out" 2>"$work/err"
    equal "a setuid program: nothing is logged" \
        "$(grep -c 'privileged' "$work/theirs/log") $(grep -c FERRY_SET "$work/out")" "1 0"
else
    skip "a setuid program" "needs root, and a ferry that others can run"
fi
mkdir "$work/held"
TMPDIR=$work/held "$ferry" run --no-discover --debug=command -- \
    sh -c 'truncate -s 300M "$1"/ferry-held-*/debug' sh "$work/held" \
    >"$work/out" 2>"$work/err"
equal "a log that is too large is not printed, which is said" \
    "$?$(cat "$work/out" "$work/err")" \
    "0ferry: the lines are not shown: 300 MiB are more than 256"
finish
