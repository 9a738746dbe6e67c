#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A real sshfs on a real sshd of our own on loopback: the mount is found with
# its port and key, ssh reaches a proxy by them, and after changes on the server
# the client sees the truth at once, without a changed mtime anywhere.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
program=${FERRY_BUILDDIR:-.}/tests/proxy/mounted
. "$srcdir/tests/tap.sh"
[ -x "$program" ] || skip_all "tests/proxy/mounted is not built"
program=$(realpath "$program")
# A mount may hang, and what looks at it with it.
limit=$(patient 120)
mounted() { timeout -k 5 "$limit" "$program" "$@"; }
[ -w /dev/fuse ] || skip_all "no /dev/fuse"
PATH=$PATH:/usr/sbin
for tool in sshfs sshd ssh-keygen fusermount3; do
    command -v "$tool" >/dev/null || skip_all "$tool is not installed"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/ferry-sshfs-XXXXXX") || exit 1
point=$work/point
root=$work/root
daemon=
attacker=
clean()
{
    [ -z "$attacker" ] || kill "$attacker"
    fusermount3 -u -q "$work/again" 2>/dev/null
    fusermount3 -u -q "$point" 2>/dev/null || umount -l "$point" 2>/dev/null
    [ -z "$daemon" ] || kill "$daemon"
    rm -rf "$work"
}
trap clean EXIT
mkdir "$point" "$root" "$work/bin" "$work/again"

ssh-keygen -q -t ed25519 -N '' -f "$work/key"
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
cp "$work/key.pub" "$work/authorized"
chmod 600 "$work/authorized"
# What stands for ferry there: a login's noise, the magic line, then silence.
cat >"$work/bin/ferry" <<'END'
#!/bin/sh
[ "$*" = "proxy --stdio" ] || exit 2
echo Welcome
echo "ferry-proxy 3"
cat >/dev/null
END
chmod 755 "$work/bin/ferry"

# In a bash within another one (SHLVL) no start-up file of root's is read, which may take
# longer than a command waits for a login.
port=$((20000 + $$ % 20000))
tries=0
: >"$work/sshd.log"
[ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
while [ -z "$daemon" ] && [ $tries -lt 5 ]; do
    port=$((port + 1))
    tries=$((tries + 1))
    cat >"$work/config" <<END
Port $port
ListenAddress 127.0.0.1
HostKey $work/host
AuthorizedKeysFile $work/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
SetEnv PATH=$work/bin:/usr/bin:/bin SHLVL=2
Subsystem sftp internal-sftp
END
    "$(command -v sshd)" -D -e -f "$work/config" 2>"$work/sshd.log" &
    daemon=$!
    waited=0
    until grep -q "Server listening" "$work/sshd.log"; do
        kill -0 "$daemon" 2>/dev/null || break
        waited=$((waited + 1))
        [ $waited -lt "$(patient 600)" ] || break
        sleep 0.1
    done
    kill -0 "$daemon" 2>/dev/null || daemon=
done
[ -n "$daemon" ] || skip_all "sshd does not start: $(tail -n 1 "$work/sshd.log")"

user=$(id -un)
source=$user@127.0.0.1:$root
options=IdentityFile=$work/key,StrictHostKeyChecking=no
options=$options,UserKnownHostsFile=/dev/null,LogLevel=ERROR
mount_there()
{
    sshfs -p "$port" "$source" "$1" -o "$options$2"
}
# mount_again OPTIONS: at a second place, as soon as it can be. What sshfs said last
# is shown, for whoever sees the tests that follow fail.
mount_again()
{
    for _ in $(seq "$(patient 60)"); do
        mount_there "$work/again" "$1" 2>"$work/mount.log" && return
        sleep 0.5
    done
    sed 's/^/# /' "$work/mount.log"
}
# An old one that is still going would be a second that serves the point, and take
# the next mount with it when it ends.
leave_again()
{
    fusermount3 -u "$work/again"
    for _ in $(seq "$(patient 60)"); do
        pgrep -f "sshfs.*$work/again" >/dev/null || return
        sleep 0.5
    done
}
mount_there "$point" "" 2>"$work/mount.log" ||
    skip_all "sshfs does not mount: $(tail -n 1 "$work/mount.log")"

equal "the mount is found with port and options" "$(mounted find "$point")" \
    "ssh://$user@127.0.0.1:$port $root 4 0 0"
equal "ssh reaches the proxy by them" "$(mounted greet "$point")" greeted
rm "$work/bin/ferry"
if command -v ferry >/dev/null; then
    skip "a host without ferry says so" "ferry is installed"
else
    equal "a host without ferry says so" "$(mounted greet "$point")" \
        "ferry is not installed there: ferry deploy HOST copies it to its ~/.cache/ferry"
fi
mount_there "$work/again" ",follow_symlinks" 2>/dev/null
empty "a mount that follows links is left alone" \
    "$(mounted find "$work/again" 2>/dev/null)"
leave_again
mount_again ",ro,idmap=user"
equal "a read-only mount with mapped users is known as such" \
    "$(mounted find "$work/again")" \
    "ssh://$user@127.0.0.1:$port $root 4 1 1"
leave_again

# A mount of fstab has another program's name, one of a relative folder no path
# that tells it. Another user's process that says it serves the same mount, and
# whose files in /proc are shown as root's, is not asked.
found="ssh://$user@127.0.0.1:$port $root 4 0 0"
if [ "$(id -u)" -eq 0 ]; then
    mount -t fuse.sshfs -o "$options,port=$port" "$source" "$work/again" \
        2>"$work/mount.log" || not_ok "mount -t fuse.sshfs"
    equal "a mount of fstab is found" "$(mounted find "$work/again")" "$found"
    leave_again
    mkfifo "$work/ready"
    echo "touch $work/mark" >"$work/steal"
    "$program" pretend -o "ssh_command=sh $work/steal" "$source" \
        "$work/again" >"$work/ready" &
    attacker=$!
    read -r _ <"$work/ready"
    for way in "cd $work && sshfs -p $port $source again -o $options" \
        "mount -t fuse.sshfs -o $options,port=$port $source $work/again"; do
        sh -c "$way" 2>"$work/mount.log" || not_ok "$way"
        equal "another user's process is not believed (${way%% *})" \
            "$(mounted find "$work/again"
            mounted greet "$work/again" >/dev/null 2>&1)" "$found"
        fusermount3 -u "$work/again"
    done
    kill "$attacker"
    wait "$attacker" 2>/dev/null
    attacker=
    empty "... and what it names was not started" "$(ls "$work/mark" 2>&-)"
else
    skip "another user's process is not believed" "needs root"
fi

# Whoever writes the owner that this one shows gives files away.
mount_again ",uid=4711"
mkdir "$root/owned" && echo one >"$root/owned/f"
equal "a mount that shows one owner for all is refreshed, too" \
    "$(mounted fresh "$work/again" \
        "cd $root/owned && echo two >f && echo 3 >g" "$work/again/owned/f" \
        "$work/again/owned" | paste -sd' ')" \
    "[100644 4 one][40755 0 f] [100644 4 two][40755 0 f g] 0 stale"
equal "... and no owner is another one then" \
    "$(stat -c %u "$root/owned" "$root/owned/f" | sort -u)" "$(id -u)"
ferry=$(realpath "${FERRY_BUILDDIR:-.}")/ferry
if [ -n "${FERRY_SANITIZED:-}" ] || [ ! -x "$ferry" ]; then
    skip "... also after a script by ferry run" "not without the preloaded library"
else
    (cd "$work/again/owned" && "$ferry" run --force \
        --mount "$work/again=loopback://$root" -- sh -c 'echo *; sort f >h
            cp f i; sed -i s/two/2/ f; echo *; cat h i f'
        echo "status $?") >"$work/said" 2>&1
    equal "a script by ferry run there sees what it did" \
        "$(paste -sd' ' "$work/said")" "f g f g h i two two 2 status 0"
    equal "... and no owner is another one then" \
        "$(stat -c %u "$root/owned" "$root"/owned/[ghi] | sort -u)" "$(id -u)"
fi
leave_again

# A command that an annotation alone has taught, over a mount that shows other modes.
if [ -n "${FERRY_SANITIZED:-}" ] || [ ! -x "$ferry" ]; then
    skip "what prints modes stays where the mount shows others" \
        "not without the preloaded library"
else
    taught=$(realpath "$srcdir/tests/user")
    mount_again ",umask=057"
    ${CC:-gcc} -std=gnu11 -O2 -o "$work/bin/tree" "$taught/tree.c" || exit 1
    mkdir "$root/modes" && touch "$root/modes/f"
    equal "what prints modes stays where the mount shows others" \
        "$(cd "$work/again/modes" && PATH=$work/bin:$PATH "$ferry" run --force --explain \
            --annotations "$taught/tree.ferry" --mount "$work/again=loopback://$root" \
            -- tree -p 2>&1 | grep -o '^\[.*\|other-names (.*')" \
        "$(printf '%s\n' '[100720] f' \
            'other-names (the mount shows other modes than its host)')"
    leave_again
fi

touch "$root/some file" && mkdir "$root/some folder" && ln -s x "$root/link"
equal "the mount is known by its hash" "$(mounted hash "$point" "$root")" same
mkdir "$root/same"
ln -s x "$root/same/link"
equal "another folder is known as such" \
    "$(mounted hash "$point" "$root/same")" another

# fresh NAME PREPARE CHANGE WANTED PATH...: a folder of its own each time
count=0
fresh()
{
    name=$1 prepare=$2 change=$3 wanted=$4
    shift 4
    count=$((count + 1))
    here=$root/$count
    mkdir "$here"
    (cd "$here" && sh -c "$prepare") || not_ok "prepare $name"
    arguments=
    for path; do
        arguments="$arguments $point/$count/$path"
    done
    # shellcheck disable=SC2086
    got=$(mounted fresh "$point" \
        "cd $here && $change && find . -printf '%p %T@\n' >$work/times" \
        $arguments 2>>"$work/spent" | tail -n +2)
    equal "$name" "$(echo "$got" | paste -sd' ')" "$wanted"
    times=$(cd "$here" && find . -printf '%p %T@\n')
    equal "$name: no time changed" "$times" "$(cat "$work/times")"
}

fresh "a file grown" "echo one >f" "echo two >>f" \
    "[100644 8 one two] 0 stale" f
fresh "a file shrunk" "echo oneone >f" "echo x >f" \
    "[100644 2 x] 0 stale" f
fresh "a file of the same size" "echo one >f" "echo two >f" \
    "[100644 4 two] 0 stale" f
fresh "a file replaced" "echo one >f" "echo newer >g && mv g f" \
    "[100644 6 newer] 0 stale" f
fresh "a file removed" "echo one >f" "rm f" "[none] 0 stale" f
fresh "a file made" "true" "echo one >f" "[100644 4 one] 0 stale" f
fresh "a file that is a folder now" "echo one >f" \
    "rm f && mkdir f && touch f/x" "[40755 0 x] 0 stale" f
fresh "a file that is a link now" "echo one >f" \
    "rm f && ln -s g f" "[120777 1 -> g] 0 stale" f
fresh "a folder that is a file now" "mkdir d" \
    "rmdir d && echo one >d" "[100644 4 one] 0 stale" d
fresh "a file without permissions now" "echo one >f" "chmod 0 f" \
    "$([ "$(id -u)" -eq 0 ] && echo '[100000 4 one] 0 stale' ||
        echo '[100000 4] 0 stale')" f
fresh "a folder's new names" "mkdir d && touch d/a" "touch d/b" \
    "[40755 0 a b] 0 stale" d
fresh "a folder's lost names" "mkdir d && touch d/a d/b" "rm d/a" \
    "[40755 0 b] 0 stale" d
fresh "a folder's mode" "mkdir d" "chmod 700 d" "[40700 0] 0 stale" d
fresh "a folder removed" "mkdir d" "rmdir d" \
    "[40755 0] 1 stale" d
fresh "a link's target is told to be stale" "ln -s a l" "ln -sfn b l" \
    "[120777 1 -> a] 1 stale" l

# sshfs drops what it is told of a file while anybody writes to another.
python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print("ready", flush=True)
while True:
    os.pwrite(fd, b"x", 0)' "$point/busy" >"$work/busy" &
writer=$!
until grep -q ready "$work/busy" || ! kill -0 "$writer"; do sleep 0.05; done
late=0
for i in 1 2 3 4 5 6 7 8 9 10; do
    echo one >"$root/late$i"
    got=$(mounted fresh "$point" "echo two >>$root/late$i" \
        "$point/late$i" 2>>"$work/spent" | tail -n +2 | paste -sd' ')
    [ "$got" = "[100644 8 one two] 0 stale" ] || late=$((late + 1))
done
kill "$writer"
wait "$writer" 2>/dev/null
equal "files changed while another is written: $got" "$late" 0

# Links that the mount cannot read: its default in Debian's 3.7.3.
contained=$(ln -s /x "$root/far" && readlink "$point/far" 2>&1 || echo hidden)

count=$((count + 1))
mkdir "$root/$count"
echo one >"$root/$count/f"
equal "an open descriptor sees what was appended" \
    "$(mounted held "$point" "echo two >>$root/$count/f" "$point/$count/f")" \
    "8 ne
two"
equal "what was written is there before a stage" \
    "$(mounted before "$point" "stat -c %s $root/$count/w" \
        "$point/$count/w")" 4194304
equal "what was written to a mapping is there before a stage" \
    "$(mounted mapped "$point" "$root/$count/m" "$point/$count/m")" 0
equal "... by a process whose first thread has ended" \
    "$(mounted threaded "$point" "$root/$count/t" "$point/$count/t")" all

# A process of another mount namespace has the mount where another one is here, which
# does not answer.
if unshare --mount true 2>/dev/null && mount_again ""; then
    mkfifo "$work/hold" "$work/held"
    truncate -s 4096 "$root/$count/u"
    unshare --mount python3 -c "
import mmap, os, subprocess, sys, time
subprocess.run(['mount', '--bind', '$point', '$work/again'], check=True)
m = mmap.mmap(os.open('$work/again/$count/u', os.O_RDWR), 4096)
print(flush=True)
sys.stdin.read()" <"$work/hold" >"$work/held" &
    exec 8>"$work/hold"
    read -r _ <"$work/held"
    server=$(pgrep -f "^sshfs .*$work/again")
    kill -STOP "$server"
    timeout "$limit" "$program" before "$point" true "$point/$count/v" >/dev/null 2>&1
    equal "a mapped file is not looked for on another mount" $? 1
    kill -CONT "$server"
    exec 8>&-
    wait $!
    leave_again
else
    skip "a mapped file is not looked for on another mount" "no mounts may be made"
fi

# Many files of one folder, some of them replaced.
count=$((count + 1))
mkdir "$root/$count"
paths=
i=0
while [ $i -lt 200 ]; do
    echo old >"$root/$count/$i"
    paths="$paths $point/$count/$i"
    i=$((i + 1))
done
# shellcheck disable=SC2086
got=$(mounted fresh "$point" \
    "cd $root/$count && sed -i s/old/newer/ 1?? && rm 5 && mkdir 6d" \
    $paths "$point/$count" 2>>"$work/spent" | sed -n 2p)
equal "two hundred files: those replaced" \
    "$(echo "$got" | grep -o '\[100644 6 newer\]' | wc -l)" 100
equal "two hundred files: the others" \
    "$(echo "$got" | grep -o '\[100644 4 old\]' | wc -l)" 99
equal "two hundred files: the one removed" \
    "$(echo "$got" | grep -o '\[none\]' | wc -l)" 1
equal "two hundred files: their folder" \
    "$(echo "$got" | grep -c ' 6d ')" 1
grep -h "201 paths" "$work/spent"

# Names that were read ahead are those of then: sshfs remembers them.
for way in ahead late; do
    mkdir -p "$root/$way/a/b/c"
    for i in $(seq 13); do
        mkdir -p "$root/$way/hashes/$i"
    done
done
ln -s "$root/ahead/a" "$root/late/link"
mounted ahead "$point" 60 "$point/ahead"
mounted ahead "$point" 0 "$point/late"
for way in ahead late; do
    for folder in a a/b a/b/c hashes hashes/7; do
        : >"$root/$way/$folder/new"
    done
done
equal "names are read ahead at each depth, not below many folders" \
    "$(cd "$point/ahead" && ls a/new a/b/new a/b/c/new hashes/new \
        hashes/7/new 2>/dev/null; ls a a/b a/b/c hashes/7 | tr '\n' ' ')" \
    "a/b/c/new
a/b/new
a/new
hashes/7/new
hashes/new
a: b  a/b: c  a/b/c:  hashes/7: new "
equal "none when the login is over" \
    "$(cd "$point/late" && ls a a/b a/b/c hashes/7 | tr '\n' ' ')" \
    "a: b new  a/b: c new  a/b/c: new  hashes/7: new "

# explained REPORT: where its commands ran, and why
explained()
{
    grep -o '"argv": [^]]*\]\|"placed": "[^"]*"\|"why": "[^"]*"' "$1" |
        sed 's/^/# /'
}

# Everything together, without any configuration: a script whose commands run
# there and whose shell looks at what they did here at once.
ferry=$(realpath "${FERRY_BUILDDIR:-.}")/ferry
if [ -n "${FERRY_SANITIZED:-}" ] || [ ! -x "$ferry" ]; then
    skip "a script by ferry run" "not without the preloaded library"
    finish
fi
printf '#!/bin/sh\nexec %s "$@"\n' "$ferry" >"$work/bin/ferry"
chmod 755 "$work/bin/ferry"
cat >"$work/script" <<'END'
echo one >f; cat f; echo two >>f; cat f; wc -l f
sed -i s/one/1/ f; read -r line <f; echo "$line"
mkdir d; cp f d/g; ls d; [ -s d/g ] && echo yes
for i in 1 2 3; do echo "$i $i" >"d/$i"; done; cat d/? | sort -rn | head -n 2
sort -r f >s; [ -s s ] && cat s
rm d/1; [ -e d/1 ] || echo gone; echo d/*
rm -r d; [ -d d ] || echo gone; ls
grep -c . no-such-file; echo $?
END
# Nothing of what is told of a tree with such links is told otherwise.
if [ "${contained%hidden}" != "$contained" ]; then
    for way in links linked; do
        mkdir -p "$root/$way/tree/sub" "$root/$way/whole"
        (cd "$root/$way/tree" && echo x >f && ln -s f near && ln -s /x far &&
            ln -s ../f sub/up && cp -P f near ../whole)
    done
    cat >"$work/links" <<'END'
find tree -type l | sort; grep -r x tree | sort; ls -RF whole; cat tree/sub/up
find tree -printf '%p %l\n' | sort; tar cf - tree | tar tf - | sort; ls -F tree
cp -r tree copy; find copy | sort; rm -rf copy; grep -R x tree | sort
(cd tree && grep -R x | sort; ls -F; cd sub && find -lname '*')
(cd whole && grep -R x | sort; tar cf - . | tar tf - | sort); git init -q tree
git -C tree add -A; git -C tree status --short
END
    plain=$(cd "$point/links" && HOME=$work sh "$work/links" 2>"$work/plain.err"
        echo "status $?")
    ferried=$(cd "$point/linked" && HOME=$work "$ferry" run --force \
        --report="$work/links.json" -- sh "$work/links" 2>"$work/ferried.err"
        echo "status $?")
    equal "links that cannot be read here" "$ferried" "$plain"
    # One of a pipeline may complain after the last of it has printed.
    equal "... and what is said of them" "$(sort "$work/ferried.err")" \
        "$(sort "$work/plain.err")"
    explained "$work/links.json"
    equal "... and what does not read them runs there" \
        "$(grep -o '"argv": \["find", "tree", "-type", "l"\][^}]*' \
            "$work/links.json" | grep -c 'placed": "ssh')" 1
else
    skip "links that cannot be read here" "this sshfs reads all"
fi

mkdir "$root/plain" "$root/ferried"
plain=$(cd "$root/plain" && sh "$work/script" 2>&1
    echo "status $?")
ferried=$(cd "$point/ferried" &&
    "$ferry" run --force --report="$work/report.json" -- sh "$work/script" 2>&1
    echo "status $?")
equal "a script by ferry run without configuration" "$ferried" "$plain"
equal "... leaves the same files" \
    "$(cd "$root/ferried" && grep -r . | sort)" \
    "$(cd "$root/plain" && grep -r . | sort)"
placed=$(grep -o "ssh://$user@127.0.0.1:$port" "$work/report.json" | wc -l)
if [ "$placed" -ge 5 ]; then
    ok "... and ran there ($placed)"
else
    not_ok "... and ran there ($placed)"
fi

mkdir "$root/tmp"
(cd "$point/ferried" && TMPDIR=$point/tmp "$ferry" run --force \
    --report="$work/report.json" -- sh -c 'cat f | sort' >/dev/null 2>"$work/err")
explained "$work/report.json"
equal "with TMPDIR on the mount commands run there as well" \
    "$(grep -c '"placed": "ssh' "$work/report.json") $(cat "$work/err")" "2 "
finish
