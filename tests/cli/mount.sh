#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ferry mount, ferry umount and mount.ferry: options, messages, exit statuses. A script that
# writes down its words stands for ferry-mount, so that nothing is mounted.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
builddir=$(cd "${FERRY_BUILDDIR:-.}" && pwd)
srcdir=$(cd "$srcdir" && pwd)
. "$srcdir/tests/tap.sh"
[ -x "$builddir/ferry" ] || { not_ok "ferry is built"; finish; }

work=$(mktemp -d "${TMPDIR:-/tmp}/ferry-mount-XXXXXX")
trap 'rm -rf "$work"' EXIT
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
unset XDG_RUNTIME_DIR
mkdir -p "$HOME" "$work/tools" "$work/mnt" "$work/full/x" "$work/sub"
cp "$builddir/ferry" "$work/ferry"
ln -s ferry "$work/mount.ferry"
echo "$srcdir" >"$work/tools/uninstalled"
cat >"$work/ferry-mount" <<'END'
#!/bin/sh
printf '%s\n' "$@" >"$FAKE_WORDS"
case $FAKE in
    ready) exit 0 ;;
    fails) echo "ferry mount: the connection ended at once" >&2; exit 1 ;;
    dies) kill -9 $$ ;;
    hangs) sleep 60 & echo $! >"$FAKE_WORDS.pid"; wait ;;
esac
END
chmod +x "$work/ferry-mount"
export FAKE=ready FAKE_WORDS="$work/words"
cd "$work" || exit 1
ferry=$work/ferry

# mounts NAME WORD...: it succeeds; words has what ferry-mount was given
mounts()
{
    name=$1
    shift
    rm -f words
    "$ferry" mount "$@" >out 2>err
    equal "$name: status" $? 0
    empty "$name: nothing on standard error" "$(cat err)"
}

# word NAME WORD: of the last one
word()
{
    if grep -qxF -e "$2" words; then ok "$1"; else
        sed 's/^/# /' words
        not_ok "$1: $2"
    fi
}

# refused NAME STATUS PATTERN WORD...: it fails and says so; ferry-mount is not started
refused()
{
    name=$1 status=$2 pattern=$3
    shift 3
    rm -f words
    "$ferry" mount "$@" >out 2>err
    equal "$name: status" $? "$status"
    if grep -q -e "$pattern" err; then ok "$name: message"; else
        sed 's/^/# /' err
        not_ok "$name: message"
    fi
    [ ! -e words ]
    equal "$name: nothing was started" $? 0
}

mounts "a host" storage:/srv/data mnt
equal "a success is said" "$(cat out)" "storage:/srv/data is mounted on $work/mnt"
word "its place" "ssh://storage/srv/data"
word "its source" "-orw,source=storage:/srv/data"
word "its folder, absolute" "$work/mnt"
grep -q "^--control=$work/cache/ferry/mounts/[0-9]*\.control$" words
equal "its control socket is private" $? 0
equal "the folder of sockets" "$(stat -c %a "$work/cache/ferry/mounts")" 700
mounts "home" "me@storage:" mnt
word "home" "ssh://me@storage/~"
mounts "below home" "me@storage:a b/c%d" mnt
word "below home" "ssh://me@storage/~/a b/c%25d"
mounts "an IPv6 address" "[::1]:/x" mnt
word "an IPv6 address" "ssh://[::1]/x"
mounts "loopback" "loopback:///srv" mnt
word "loopback" "loopback:///srv"
mounts "a port" -p 2222 storage:/ mnt
word "a port" "ssh://storage:2222/"
mounts "a port as an option" storage:/ mnt -o port=22,ro
word "a port as an option" "ssh://storage:22/"
word "ro" "-oro,source=storage:/"
: >key
mounts "options of ssh" -o IdentityFile=key,StrictHostKeyChecking=no -C storage:/ mnt
word "options of ssh" \
    "ssh://storage/?option=IdentityFile=$work/key&option=StrictHostKeyChecking=no&option=Compression=yes"
mounts "all of ferry's" -o allow_other,strict,async,idmap=none,ac=0.5,soft=30,dev,noatime,nosuid storage:/ mnt
word "all of ferry's" \
    "-orw,strict,async,allow_other,idmap=none,devices,soft=30,ac=0.500,noatime,nosuid,source=storage:/"
mounts "of fstab, of sshfs and of systemd" -o rw,_netdev,noauto,user,reconnect,x-systemd.automount,nofail,default_permissions storage:/ mnt
mounts "a comma" "storage:/a,b" mnt
word "a comma" "ssh://storage/a,b"
word "a comma: no source" "-orw"
mounts "not empty, but asked for" -o nonempty storage:/ full

refused "no operands" 1 "expected HOST:PATH and FOLDER"
refused "one operand" 1 "expected HOST:PATH and FOLDER" storage:/
refused "three operands" 1 "more operands" storage:/ mnt mnt
refused "no host" 1 "is not .USER@.HOST:.PATH." /srv mnt
refused "another user's home" 1 "names a home" "storage:~you/x" mnt
refused "a host that ssh takes for an option" 1 "is not" -- "-oProxyCommand=x:/" mnt
refused "a port that is none" 1 "bad port" -p 0 storage:/ mnt
refused "an unknown option" 1 "option 'wsize=8192' is unknown" -o ro,wsize=8192 storage:/ mnt
refused "an option of sshfs" 1 "option 'follow_symlinks' is not supported" -o follow_symlinks storage:/ mnt
refused "a value that is none" 1 "ac=x': expected a number of seconds" -o ac=x storage:/ mnt
refused "a value where none can be" 1 "ro=1': expected no value" -o ro=1 storage:/ mnt
refused "another idmap" 1 "idmap=user or idmap=none" -o idmap=file storage:/ mnt
refused "an unknown letter" 1 "invalid option" -Z storage:/ mnt
refused "a folder that is not there" 32 "No such file" storage:/ none
refused "a file" 32 "Not a directory" storage:/ ferry
refused "a folder with files" 32 "is not empty" storage:/ full
refused "the root" 32 "root folder" -o nonempty storage:/ /

FAKE=fails "$ferry" mount storage:/ mnt >out 2>err
equal "no connection: status" $? 32
equal "no connection: message" "$(cat err)" "ferry mount: the connection ended at once"
FAKE=dies "$ferry" mount storage:/ mnt >out 2>err
equal "ferry-mount is killed: status" $? 32
equal "ferry-mount is killed: message" "$(cat err)" \
    "ferry: storage:/: ferry-mount has ended before the mount answered"
rm -f words words.pid
FAKE=hangs "$ferry" mount storage:/ mnt >out 2>err &
while [ ! -s words.pid ]; do sleep 0.1; done
kill -TERM $!
wait $!
equal "interrupted: status" $? 8
grep -qs "^State:.[^Z]" "/proc/$(cat words.pid)/status"
equal "interrupted: nothing of it is left" $(($? != 0)) 1

mv ferry-mount away
refused "without ferry-mount" 2 "was built without libfuse3" storage:/ mnt
mv away ferry-mount

rm -f words
FAKE=foreground "$ferry" mount -f storage:/ mnt >out 2>err
equal "in the foreground: its status is ferry-mount's" $? 0
word "in the foreground" -f

# As mount(8) calls it.
rm -f words
"$work/mount.ferry" storage:/srv "$work/mnt" -sn -o rw,user,_netdev,allow_other >out 2>err
equal "mount.ferry: status" $? 0
equal "mount.ferry says nothing" "$(cat out err)" ""
word "mount.ferry" "-orw,allow_other,source=storage:/srv"
rm -f words
"$work/mount.ferry" storage:/srv "$work/mnt" -f
equal "mount.ferry -f: status" $? 0
[ ! -e words ]
equal "mount.ferry -f mounts nothing" $? 0
"$work/mount.ferry" storage:/srv "$work/mnt" -o wsize=1 2>err
equal "mount.ferry: an unknown option" $? 1

# unmounted NAME STATUS PATTERN WORD...
unmounted()
{
    name=$1 status=$2 pattern=$3
    shift 3
    "$ferry" umount "$@" >out 2>err
    equal "$name: status" $? "$status"
    if grep -q -e "$pattern" err; then ok "$name: message"; else
        sed 's/^/# /' err
        not_ok "$name: message"
    fi
}
unmounted "umount of nothing" 1 "expected one folder"
unmounted "umount of a folder" 32 "mnt is not mounted" mnt
unmounted "umount of what is not there" 32 "none is not mounted" none
unmounted "umount below what is not there" 32 "No such file" none/x
unmounted "umount of another mount" 32 "is a mount of type proc: 'umount /proc'" /proc
unmounted "umount --force of another mount" 32 "is a mount of type proc" --force /proc/
finish
