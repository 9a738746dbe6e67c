#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command line: usage errors, exit statuses, configuration, the report.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
ferry=${FERRY_BUILDDIR:-.}/ferry
. "$srcdir/tests/tap.sh"
[ -x "$ferry" ] || { not_ok "$ferry is built"; finish; }

work=$(mktemp -d "${TMPDIR:-/tmp}/ferry-cli-XXXXXX")
trap 'rm -rf "$work"' EXIT
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
mkdir -p "$HOME" "$XDG_CONFIG_HOME/ferry"
conf=$XDG_CONFIG_HOME/ferry/ferry.conf

# status NAME WANTED COMMAND...: exit status; output is left in $work/out, err
status()
{
    name=$1 wanted=$2
    shift 2
    "$@" >"$work/out" 2>"$work/err"
    equal "$name: exit status" $? "$wanted"
}

# says NAME PATTERN: standard error is exactly one line that matches
says()
{
    if [ "$(wc -l <"$work/err")" -eq 1 ] && grep -q -- "$2" "$work/err"; then
        ok "$1: one clear line"
    else
        sed 's/^/# /' "$work/err"
        not_ok "$1: one clear line"
    fi
}

silent()
{
    empty "$1: nothing on standard error" "$(cat "$work/err")"
}

# Usage errors end with 2 and run nothing.
for line in "" "fly" "run" "run --" "run --sideways touch $work/ran" \
    "run --device moon touch $work/ran" \
    "run --device host,memory=many touch $work/ran" \
    "run --device host,memory=64mib touch $work/ran" \
    "run --device host,memory= touch $work/ran" \
    "run --device host,memory=0 touch $work/ran" \
    "run --device host,speed=3 touch $work/ran" \
    "run --device none,memory=1GiB touch $work/ran" \
    "run --device host,memory=99999999999GiB touch $work/ran" \
    "run --chunk big touch $work/ran" "run --chunk random:x touch $work/ran" \
    "check" "check --sideways x" "report" "report a b" "report --x" \
    "verify" "verify x.ferry" "verify x.ferry --" "verify -- true" \
    "calibrate now" "doctor --x"; do
    # shellcheck disable=SC2086
    status "ferry $line" 2 "$ferry" $line
    empty "ferry $line: nothing on standard output" "$(cat "$work/out")"
    [ -s "$work/err" ] && ok "ferry $line: says why" || not_ok "ferry $line: says why"
done
[ -e "$work/ran" ] && not_ok "a wrong line runs nothing" || ok "a wrong line runs nothing"

status "--version" 0 "$ferry" --version
status "--help" 0 "$ferry" --help
status "--help to a full disk" 1 sh -c "'$ferry' --help >/dev/full"
says "--help to a full disk" "No space left"

# The command's own status, for every device.
for device in auto none host host,memory=64MiB; do
    status "$device: true" 0 "$ferry" run --device $device true
    silent "$device: true"
    status "$device: exit 7" 7 "$ferry" run --device $device -- sh -c 'exit 7'
    silent "$device: exit 7"
done
status "not found" 127 "$ferry" run -- "$work/nothing"
says "not found" "cannot run .*nothing': No such file"
status "not found, with a report" 127 "$ferry" run --report -- "$work/nothing"
says "not found, with a report" "cannot run .*nothing': No such file"
status "not executable" 126 "$ferry" run -- "$srcdir/README.md"
status "a folder" 126 "$ferry" run --report -- "$work"

# Arguments and environment arrive as they are.
status "arguments" 0 "$ferry" run --device host -- printf '%s|' a "b c" '' --report
equal "arguments: kept" "$(cat "$work/out")" "a|b c||--report|"
status "environment" 0 env LD_PRELOAD= "$ferry" run -- sh -c 'echo "${LD_PRELOAD-unset}${FERRY_SETTINGS-unset}"'
equal "an idle run leaves the environment alone" "$(cat "$work/out")" "unset"
status "environment under ferry" 0 env LD_PRELOAD= "$ferry" run --device host -- sh -c 'echo "${LD_PRELOAD-unset}${FERRY_SETTINGS-unset}"'
equal "what ferry adds to the environment is hidden" "$(cat "$work/out")" "unset"
if [ -n "${FERRY_SANITIZED-}" ]; then
    skip "a run without ferry in one with it" "a sanitized ferry cannot be preloaded"
else
    status "a run without ferry in one with it" 0 "$ferry" run --device host -- \
        "$ferry" run --device none -- sh -c 'grep -c ferry-preload- /proc/$$/maps; env | grep -c FERRY_SETTINGS; exit 0'
    equal "the inner one counts" "$(xargs <"$work/out")" "0 0"
    mkdir -p "$work/nested"
    printf '%s\n' a b >"$work/nested/f"
    # Where a stage's sandbox shows files that may not be read.
    cache=$(mktemp -d "${FERRY_BUILDDIR:-.}/nested-XXXXXX")
    cache=$(cd "$cache" && pwd)
    trap 'rm -rf "$work" "$cache"' EXIT
    status "a run with a proxy in one with a device" 0 env XDG_CACHE_HOME="$cache" "$ferry" run --device host -- "$ferry" run --force \
        --mount "$work/nested=loopback://$work/nested" --report="$work/nested.json" -- wc -l "$work/nested/f"
    equal "its stage prints what it prints alone" "$(cat "$work/out" "$work/err")" "2 $work/nested/f"
    status "its stage ran at the proxy" 0 grep -q '"placed": "loopback' "$work/nested.json"
fi

# Input and output go through.
equal "standard input" "$(echo through | "$ferry" run --device host -- cat)" through
equal "standard input, with a report" \
    "$(echo through | "$ferry" run --device host --report=/dev/null -- cat)" through

# Signals and a report.
status "killed" 143 sh -c "'$ferry' run --report=$work/r.json -- sh -c 'kill -TERM \$\$'; exit \$?"
status "the report has the signal" 0 grep -q '"exit_status": 143' "$work/r.json"
status "its table" 0 "$ferry" report "$work/r.json"
status "report into a full disk" 5 "$ferry" run --device host --report=/dev/full -- sh -c 'exit 5'
says "report into a full disk" "cannot write the report /dev/full: No space left"
status "report into no folder" 5 "$ferry" run --device host --report="$work/no/r" -- sh -c 'exit 5'
says "report into no folder" "cannot write the report .*No such file"
echo '{"functions": [' >"$work/broken.json"
status "a broken report" 1 "$ferry" report "$work/broken.json"
says "a broken report" "broken.json is not a report: line 2: '\\]' expected near end of file"
status "no report" 1 "$ferry" report "$work/none.json"
says "no report" "cannot read .*none.json: No such file"

# ferry's own trouble: one line, the program runs, its status counts.
status "little memory" 4 "$ferry" run --device host,memory=100 -- sh -c 'exit 4'
says "little memory" "100 bytes of device memory are too few.*running without ferry"
status "no annotations there" 4 "$ferry" run --device host --annotations "$work/no.ferry" -- sh -c 'exit 4'
says "no annotations there" "cannot read annotations .*no.ferry: No such file.*left out"
status "no annotations there, no device" 4 "$ferry" run --device none --annotations "$work/no.ferry" -- sh -c 'exit 4'
says "no annotations there, no device" "cannot read annotations .*no.ferry: No such file.*left out"
echo 'function void f(' >"$work/bad.ferry"
status "bad annotations" 4 "$ferry" run --device host --annotations "$work/bad.ferry" -- sh -c 'exit 4'
says "bad annotations" "bad.ferry:.*only the shipped annotations are used"
# Also where nothing would have read them: no device, no mount.
for kind in 'function void f(' 'command wc { pure; flag'; do
    echo "$kind" >"$work/wrong.ferry"
    status "$kind, no use for it" 4 "$ferry" run --device none --no-discover --annotations "$work/wrong.ferry" -- sh -c 'exit 4'
    says "$kind, no use for it" "wrong.ferry:[0-9]*:[0-9]*: error: .*only the shipped .*are used"
done
status "check of bad annotations" 1 "$ferry" check "$work/bad.ferry"
status "check of nothing" 1 "$ferry" check "$work/no.ferry"
says "check of nothing" "cannot read .*no.ferry: No such file"
status "check of the shipped annotations" 0 "$ferry" check "$srcdir/annotations/lib"
status "report with trouble" 4 "$ferry" run --device host,memory=1 --report="$work/t.json" -- sh -c 'exit 4'
status "the report names the trouble" 0 grep -q '"trouble": "1 bytes' "$work/t.json"
status "TMPDIR is gone" 4 env TMPDIR="$work/gone" "$ferry" run --device host --no-discover --report=/dev/null -- sh -c 'exit 4'
says "TMPDIR is gone" "cannot make a folder in .*gone.*running without ferry"

# Configuration: used, overruled, bad.
echo 'device = moon' >"$conf"
status "bad value in ferry.conf" 4 "$ferry" run -- sh -c 'exit 4'
says "bad value in ferry.conf" "ferry.conf:1: 'device': expected auto, none, host, cuda or cuda:N; the line is left out"
for gone in defer register; do
    echo "$gone = no" >"$conf"
    status "$gone in ferry.conf" 4 "$ferry" run -- sh -c 'exit 4'
    says "$gone in ferry.conf" "ferry.conf:1: '$gone': this setting was removed; the line is left out"
done
rm "$conf"
status "--defer" 2 "$ferry" run --defer -- true
equal "--defer says so" "$(head -n 1 "$work/err")" "ferry: the option --defer was removed"
printf '# all well\n\n  memory = 100 # tiny\ndevice=host\n' >"$conf"
status "ferry.conf is used" 4 "$ferry" run -- sh -c 'exit 4'
says "ferry.conf is used" "100 bytes of device memory"
status "the line overrules ferry.conf" 4 "$ferry" run --device host,memory=64MiB -- sh -c 'exit 4'
silent "the line overrules ferry.conf"
printf 'device\nmode = 2\nspeed = 1\nx = y\n' >"$conf"
"$ferry" run -- true 2>"$work/err"
equal "at most three complaints" "$(wc -l <"$work/err")" 3
rm "$conf" && mkdir "$conf"
status "unreadable ferry.conf" 4 "$ferry" run -- sh -c 'exit 4'
says "unreadable ferry.conf" "cannot read .*ferry.conf: Is a directory; it is left out"
rmdir "$conf"

# The cache: private, complete, made by many at once, not needed.
status "cold cache" 0 "$ferry" run --device host -- true
equal "the cache is private" "$(stat -c %a "$XDG_CACHE_HOME/ferry")" 700
rm -rf "$XDG_CACHE_HOME"
for _ in 1 2 3 4 5 6 7 8; do
    "$ferry" run --device host -- true >>"$work/many" 2>&1 &
done
wait
empty "eight runs at once with a cold cache" "$(cat "$work/many")"
equal "they leave one object" "$(find "$XDG_CACHE_HOME/ferry" -type f -name "ferry-preload-*" | wc -l)" 1
object=$(find "$XDG_CACHE_HOME/ferry" -name '*.so')
good=$(sha256sum <"$object")
printf 'ferry' | dd of="$object" bs=1 seek=100000 conv=notrunc 2>"$work/err"
status "a damaged cache" 0 "$ferry" run --device host -- true
equal "a damaged cache is made again" "$(sha256sum <"$object")" "$good"
# A new object: of the others those stay that were used last, 64 MiB in all.
for i in 1 2 3 4 5 6 7 8; do
    truncate -s 16M "$XDG_CACHE_HOME/ferry/ferry-preload-$i.so"
    touch -d "@$i" "$XDG_CACHE_HOME/ferry/ferry-preload-$i.so"
done
truncate -s 99M "$XDG_CACHE_HOME/ferry/mine"
echo 'function void another(int n, double *x) { axis n split; inout x[n: 1]; }' >"$work/another.ferry"
status "a full cache" 0 "$ferry" run --device host --annotations "$work/another.ferry" -- true
equal "objects that were used least recently go" \
    "$(cd "$XDG_CACHE_HOME/ferry" && find . -name 'ferry-preload-?.so' -o -name mine | sort | tr '\n' ' ')" \
    "./ferry-preload-6.so ./ferry-preload-7.so ./ferry-preload-8.so ./mine "
chmod 777 "$XDG_CACHE_HOME/ferry"
status "a cache that others can write" 0 "$ferry" run --device host -- \
    sh -c '! grep -q "$XDG_CACHE_HOME/.*ferry-preload-" /proc/$$/maps'
chmod 700 "$XDG_CACHE_HOME/ferry"
rm -rf "$XDG_CACHE_HOME"
status "no file may grow" 6 python3 -c 'import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
os.execv(sys.argv[1], sys.argv[1:])' "$ferry" run --device host --report -- \
    sh -c 'exit 6'
mkdir "$work/a b"
status "a cache that LD_PRELOAD cannot name" 0 env XDG_CACHE_HOME="$work/a b" \
    "$ferry" run --device host -- sh -c 'grep -q "a b" /proc/$$/maps && exit 1; grep -q ferry-preload- /proc/$$/maps'
silent "a cache that LD_PRELOAD cannot name"
# A folder above the cache decides who can exchange what is preloaded from it.
# cached NAME WANTED: whether the object is preloaded from there (1, 0)
cached()
{
    status "$1" 0 "$ferry" run --device host -- sh -c \
        'grep -c "$XDG_CACHE_HOME/ferry/ferry-preload-" /proc/$$/maps; exit 0'
    silent "$1"
    equal "$1: used" "$(head -c 1 "$work/out" | tr 1-9 1)" "$2"
}
mkdir -p "$work/above/between" "$work/real"
plain_cache=$XDG_CACHE_HOME
export XDG_CACHE_HOME="$work/above/between/cache"
cached "a new cache" 1
chmod 777 "$work/above"
cached "a cache below a folder that others can write" 0
chmod 1777 "$work/above"
cached "a cache below a sticky folder" 1
chmod 770 "$work/above"
cached "a cache below a folder that a group can write" 0
equal "doctor says why" "$("$ferry" doctor | grep -c \
    "not a cache .*$work/above: another user could exchange")" 1
chmod 700 "$work/above"
rm -rf "$work/above/between/cache"
ln -s "$work/real" "$work/above/between/cache"
equal "a cache through a link of ours" "$("$ferry" run --device host -- sh -c \
    "grep -q '$work/real/ferry/ferry-preload-' /proc/\$\$/maps && echo used")" used
if [ "$(id -u)" -eq 0 ]; then
    rm "$work/above/between/cache"
    chmod 755 "$work" "$work/above"
    chown 65534 "$work/above/between"
    cached "root's cache below another user's folder" 0
    empty "... where nothing is made" "$(ls "$work/above/between")"
    status "... and --explain says why" 0 "$ferry" run --explain \
        --device host -- true
    equal "... in one line" "$(grep -c "$work/above/between is not used for th\
e cache: another user" "$work/err")" 1
    mkdir "$work/above/between/ferry"
    echo "device = moon" >"$work/above/between/ferry/ferry.conf"
    status "root does not read another user's ferry.conf" 0 \
        env XDG_CONFIG_HOME="$work/above/between" "$ferry" run -- true
    says "root does not read another user's ferry.conf" \
        "ferry.conf can be changed by another user or a group; it is left out"
    # Nor one that a group can write, for its members could name another host in it.
    mkdir -p "$work/grouped/ferry"
    echo "device = moon" >"$work/grouped/ferry/ferry.conf"
    for writable in "$work/grouped" "$work/grouped/ferry/ferry.conf"; do
        chmod g+w "$writable"
        status "a group's $writable is left out" 0 \
            env XDG_CONFIG_HOME="$work/grouped" "$ferry" run -- true
        says "a group's $writable is left out" \
            "ferry.conf can be changed by another user or a group; it is left out"
        chmod g-w "$writable"
    done
    # A link is its owner's choice of a file, also in a folder of root's.
    mkdir -p "$work/linked/ferry"
    echo "device = moon" >"$work/linked/root.conf"
    ln -s ../root.conf "$work/linked/ferry/ferry.conf"
    status "root's link to ferry.conf is followed" 0 \
        env XDG_CONFIG_HOME="$work/linked" "$ferry" run -- true
    chown -h 12345 "$work/linked/ferry/ferry.conf"
    status "another user's link is not" 0 \
        env XDG_CONFIG_HOME="$work/linked" "$ferry" run -- true
    says "another user's link is not" \
        "ferry.conf can be changed by another user or a group; it is left out"
    ln -s linked "$work/alias"
    chown -h 12345 "$work/alias"
    chown -h 0 "$work/linked/ferry/ferry.conf"
    status "nor is one on the way" 0 \
        env XDG_CONFIG_HOME="$work/alias" "$ferry" run -- true
    equal "a run's folder is not in another user's TMPDIR" \
        "$(TMPDIR=$work/above/between "$ferry" run --device host --report=/dev/null \
            -- sh -c 'ls "$TMPDIR" | grep -c held')" 0
else
    skip "root's cache below another user's folder" "needs root"
fi
export XDG_CACHE_HOME="$plain_cache"
# A program with more rights than its caller is told nothing of the run.
as_other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
cp "$(command -v env)" "$work/privileged"
if [ "$(id -u)" -eq 0 ] && as_other "$ferry" --version >"$work/out" 2>&1; then
    chmod 755 "$work" && chmod 4755 "$work/privileged"
    status "a setuid program" 0 as_other "$ferry" run --device host -- \
        "$work/privileged"
    empty "... is not told of the run" "$(grep -aE "FERRY_SET|ferry-preload" "$work/out")"
    chmod 755 "$work/privileged"
    if setcap cap_net_raw+ep "$work/privileged" 2>"$work/err"; then
        status "a program with capabilities" 0 as_other "$ferry" run \
            --device host -- "$work/privileged"
        empty "... is not told of the run" "$(grep -aE "FERRY_SET|ferry-preload" "$work/out")"
    else
        skip "a program with capabilities" "no setcap"
    fi
else
    skip "a setuid program" "needs root, and a ferry that others can run"
fi
status "env -i" 3 env -i "$ferry" run --device host -- /bin/sh -c 'exit 3'
silent "env -i"

# Preloads of others stay, ours comes first, an outer ferry's goes.
if [ -n "${FERRY_SANITIZED-}" ]; then
    skip "preloads" "a sanitized ferry allows none"
    finish
fi
status "preloads" 0 env LD_PRELOAD=libm.so.6 "$ferry" run --device host -- \
    "$ferry" run --device host -- sh -c 'echo "$LD_PRELOAD"
        sed -n "s|.* r.xp .*/\(ferry-preload-\).*|\1|p;s|.* r-xp .*/\(libm\.so\).*|\1|p" /proc/$$/maps'
equal "preloads: one of ours, and the user's" \
    "$(sort -u "$work/out" | xargs)" "ferry-preload- libm.so libm.so.6"
finish
