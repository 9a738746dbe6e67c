#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ferry mount of a folder of this machine: what report, umount and shell say and do, busy,
# killed and stopped mounts; commands of ferry run at the storage and the mount see each
# other's changes at once.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
builddir=$(cd "${FERRY_BUILDDIR:-.}" && pwd)
srcdir=$(cd "$srcdir" && pwd)
. "$srcdir/tests/tap.sh"
limit=$(patient 60)
[ -x "$builddir/ferry" ] || { not_ok "ferry is built"; finish; }
[ -x "$builddir/ferry-mount" ] || skip_all "built without libfuse3"
[ -w /dev/fuse ] || skip_all "no /dev/fuse"
ferry=$builddir/ferry

work=$(realpath "$(mktemp -d "${TMPDIR:-/tmp}/ferry-mounted-XXXXXX")")
trap '"$ferry" umount --force "$work/mnt" 2>/dev/null; rm -rf "$work"' EXIT
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
unset XDG_RUNTIME_DIR
mkdir -p "$HOME" "$work/data/sub/deep" "$work/mnt"
cd "$work" || exit 1
seq 10000 >data/f
for i in 1 2 3; do echo "$i" >data/sub/$i; done
ln -s f data/link
cp -a data plain

mount_it()
{
    timeout "$limit" "$ferry" mount "loopback://$work/data" mnt >out 2>err
}

# says NAME FILE PATTERN
says()
{
    if grep -q -e "$3" "$2"; then ok "$1"; else
        sed 's/^/# /' "$2"
        not_ok "$1: $3"
    fi
}

# ended NAME PID: the process ends within ten seconds.
ended()
{
    for _ in $(seq 100); do
        grep -qs "^State:.[^Z]" "/proc/$2/status" || break
        sleep 0.1
    done
    equal "$1" "$(grep -s "^State:.[^Z]" "/proc/$2/status")" ""
}

# server: the number of the process behind the mount
server()
{
    "$ferry" report mnt | sed -n 's/^  process *//p'
}

mount_it
equal "mount" $? 0
equal "its message" "$(cat out err)" "loopback://$work/data is mounted on $work/mnt"
equal "a file" "$(cksum <mnt/f)" "$(cksum <data/f)"
equal "inodes are the storage's" "$(stat -c '%i %h %s %Y' mnt/f mnt/sub)" "$(stat -c '%i %h %s %Y' data/f data/sub)"
"$ferry" report mnt >out 2>err
equal "report" $? 0
for each in place link requests "sent ahead" notices outstanding; do
    says "report: $each" out "^  $each "
done
"$ferry" doctor >out 2>err
says "doctor has the mount" out "^  $work/mnt: fuse.ferry of loopback://$work/data$"
"$ferry" mount "loopback://$work/plain" mnt >out 2>err
equal "a second mount" $? 32
says "a second mount: message" err "a mount of ferry is there already"

pid=$(server)
(exec sleep 100) 3<mnt/f &
holder=$!
until [ "$(cat "/proc/$holder/comm" 2>/dev/null)" = sleep ]; do sleep 0.05; done
"$ferry" umount mnt >out 2>err
equal "umount of a busy folder" $? 32
says "who holds it" err "process $holder (sleep): open file"
kill $holder
wait $holder 2>/dev/null
"$ferry" umount mnt >out 2>err
equal "umount" $? 0
empty "umount says nothing" "$(cat out err)"
equal "nothing is mounted" "$(grep -c " $work/mnt " /proc/self/mountinfo)" 0
ended "no process is left" "$pid"

mount_it
kill -KILL "$(server)"
until ! ls mnt >/dev/null 2>&1; do sleep 0.1; done
"$ferry" mount "loopback://$work/data" mnt >out 2>err
equal "mount over a killed one" $? 32
says "mount over a killed one: message" err "whose process has ended"
"$ferry" umount mnt >out 2>err
equal "umount of a killed one" $? 0

mount_it
pid=$(server)
kill -STOP "$pid"
timeout "$limit" ls mnt/sub/none >/dev/null 2>&1 &
caller=$!
timeout "$limit" "$ferry" umount --force mnt >out 2>err
equal "umount --force of a stopped one" $? 0
wait $caller
equal "its caller ends" $(($? == 2)) 1
equal "it is gone" "$(grep -s "^State:.[^Z]" "/proc/$pid/status")$(grep -c " $work/mnt " /proc/self/mountinfo)" 0

echo 'pwd; wc -l f; echo here >from-shell; exit 5' |
    SHELL=/bin/sh timeout "$limit" "$ferry" shell --device none "loopback://$work/data" >out 2>err
equal "ferry shell HOST:PATH: its status" $? 5
says "ferry shell HOST:PATH: a private folder" out "^$work/cache/ferry/shell-"
says "ferry shell HOST:PATH: its files" out "^10000 f$"
equal "what it wrote" "$(cat data/from-shell)" here
rm data/from-shell
equal "no folder of it is left" "$(find cache/ferry -name '*shell*' | wc -l)" 0

case $FERRY_SANITIZED in ?*)
    skip "commands at the storage" "sanitized libraries cannot be preloaded"
    finish
    ;;
esac
cat >script <<'END'
cd "$1" || exit 9
wc -l f; sort -rn f | head -2
ls -ln sub | sed 's/^total.*//; s/ [A-Z][a-z][a-z] .* / /'
du -s --apparent-size sub/1; stat -c '%s %h %n' f
echo new >made; cat made; cp -p made made2; cat made2; ln made hard; stat -c %h made
mv made2 sub/moved; read -r x <sub/moved; echo "$x"; ls sub
rm -r sub; [ -e sub ]; echo "sub $?"; echo *
sed -i s/new/old/ made; read -r x <made; echo "$x"; rm made hard; echo *
mkdir -p a/b; touch a/b/c; rmdir a/b; ls a/b; rm -rf a; [ -e a ]; echo "a $?"
for i in 1 2 3 4 5 6 7 8; do
    echo "$i" >>w; wc -l <w
    ln -sf "f$i" link; readlink link; echo "$i" >link; cat "f$i"
    mv "f$i" "g$i"; [ -e "f$i" ]; echo "gone $?"; read -r x <"g$i"; echo "$x"
    cp "g$i" now; read -r x <now; echo "$x"
done
rm -r w g? now; echo *
END
mount_it
sh script plain >expected 2>expected.err
timeout "$(patient 300)" "$ferry" run --force --explain --device none -- sh script "$work/mnt" >out 2>err
equal "commands at the storage, and others on the mount: status" $? 0
cmp -s expected out || diff expected out | sed 's/^/# /' | head -n 20
equal "their output" "$(cksum <out)" "$(cksum <expected)"
for each in "rm -r sub" "mv made2 sub/moved" "ls -ln sub" "stat -c" "du -s" "cp -p made made2" "ln made hard"; do
    says "at the storage: $each" err "\] $each.*: at loopback"
done
cmp -s plain/f data/f
equal "the storage has what the plain folder has" "$(ls data) $?" "$(ls plain) 0"
"$ferry" umount mnt
equal "unmounted at the end" $? 0
finish
