#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # build, work and limit are of common.sh
# An sftp server whose root is not the host's: the path of the mount leads a login to another
# folder, which has the same names and times. What a command reads and changes is read and changed
# in the folder that is mounted, and nothing else is.
. "${FERRY_SRCDIR:-$(dirname "$0")/../..}/tests/session/common.sh"
[ "$(id -u)" -eq 0 ] || skip_all "not root"
[ -w /dev/fuse ] || skip_all "no /dev/fuse"
PATH=$PATH:/usr/sbin
for tool in sshfs sshd ssh-keygen fusermount3 chroot; do
    command -v "$tool" >/dev/null || skip_all "$tool is not installed"
done
server=
for path in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server; do
    [ ! -x "$path" ] || server=$path
done
[ -n "$server" ] || skip_all "no sftp-server"

daemon=
clean()
{
    fusermount3 -u -q "$work/point" 2>/dev/null || umount -l "$work/point" 2>/dev/null
    [ -z "$daemon" ] || kill "$daemon"
    umount -q "$work/data"
    umount -q "$work/merged"
    umount -q "$work/upper"
    rm -rf "$work"
}
trap clean EXIT INT TERM

# The jail has the sftp server, and a folder at the path of one of the host.
jail=$work/jail
data=$work/data
mkdir -p "$work/bin" "$work/point" "$jail$data" "$data" "$jail/dev" "$jail/etc"
mknod -m 666 "$jail/dev/null" c 1 3 || skip_all "no devices can be made"
grep '^root:' /etc/passwd >"$jail/etc/passwd"
for file in "$server" $(ldd "$server" | grep -o '/[^ ]*'); do
    mkdir -p "$jail${file%/*}"
    cp -L "$file" "$jail$file"
done
ln -s "$build/ferry" "$work/bin/ferry"
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
cp "$work/key.pub" "$work/authorized"
chmod 600 "$work/authorized"
# fill MOUNTED OTHER: what the two folders hold; they look the same.
fill()
{
    for folder in "$jail$data" "$data"; do
        rm -rf "${folder:?}"/*
        mkdir "$folder/d"
        printf '%s\n' "$1" >"$folder/f"
        seq 100 >"$folder/d/g"
        touch -d '2020-02-02 10:00:00' "$folder/d/g" "$folder/d" "$folder/f" "$folder"
        shift
    done
}
mkdir -p /run/sshd
port=$((20000 + $$ % 20000))
# serve SFTP WORD...: starts a daemon at another port, by these words. In a bash within another one
# no start-up file of root's is read, which may take longer than a login may.
serve()
{
    sftp=$1
    shift
    [ -z "$daemon" ] || kill "$daemon"
    for _ in 1 2 3 4 5; do
        port=$((port + 1))
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
Subsystem sftp $sftp
END
        : >"$work/sshd.log" # of the one before
        "$@" "$(command -v sshd)" -D -e -f "$work/config" 2>"$work/sshd.log" &
        daemon=$!
        waited=0
        until grep -q "Server listening" "$work/sshd.log" 2>/dev/null; do
            kill -0 "$daemon" 2>/dev/null || break
            waited=$((waited + 1))
            [ $waited -lt "$(patient 600)" ] || break
            sleep 0.1
        done
        kill -0 "$daemon" 2>/dev/null && return
        daemon=
    done
    skip_all "sshd does not start: $(tail -n 1 "$work/sshd.log")"
}
serve "$(command -v chroot) $jail $server" env

# The host's folder is old; a copy of it is mounted. What is changed by mistake stays in memory.
old=/usr/share/common-licenses
[ -f "$old/BSD" ] || skip_all "no folder that is old"
cp -a "$old/." "$jail$data"
mkdir "$work/upper" "$work/merged"
mount -t tmpfs none "$work/upper" && mkdir "$work/upper/u" "$work/upper/w" &&
    mount -t overlay none "$work/merged" \
        -o "lowerdir=${old%/*},upperdir=$work/upper/u,workdir=$work/upper/w" &&
    mount --bind "$work/merged/${old##*/}" "$data" || skip_all "no overlay file system"
options=IdentityFile=$work/key,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null
sshfs -p "$port" "root@127.0.0.1:$data" "$work/point" -o "$options,LogLevel=ERROR" \
    2>"$work/mount.log" || skip_all "sshfs does not mount: $(tail -n 1 "$work/mount.log")"
run()
{
    (cd "$work/point" && timeout "$limit" "$build/ferry" run --force --device none \
        --report="$work/report" -- "$@")
}
placed() { grep -c '"placed": "ssh' "$work/report"; }

head -n 1 "$old/BSD" >"$work/first"
run sed -i '1s/$/ changed/' BSD
equal "an effect is not placed in a folder that looks the same" "$(placed)" 0
equal "... and done in the folder that is mounted" "$(head -n 1 "$jail$data/BSD")" \
    "$(cat "$work/first") changed"
equal "... alone" "$(head -n 1 "$data/BSD")" "$(cat "$work/first")"
umount "$data"

# The same names and times, one file more or none at all.
for how in true "touch $data/more" "rm -rf $data" "rm -rf $data; touch $data"; do
    fill mine yours
    sh -c "$how"
    equal "$how: as local" "$(run cat f)" mine
    equal "$how: not placed" "$(placed)" 0
    rm -rf "$data"
    mkdir "$data"
done

# The same folder, bound to the path: placed as ever.
rm -rf "${data:?}"/*
fill mine mine
mount --bind "$jail$data" "$data" 2>/dev/null && {
    equal "the folder itself, read" "$(run cat f) $(placed)" "mine 1"
    status=$(stat -c %z "$data")
    equal "... and again" "$(run cat f) $(placed)" "mine 1"
    equal "... without a change of its status" "$(stat -c %z "$data")" "$status"
    run sed -i 's/$/ changed/' d/g
    equal "the folder itself, changed" "$(head -n 1 "$data/d/g") $(placed)" "1 changed 1"
    umount "$data"
}
umount "$work/point" || umount -l "$work/point"

# Paths of a mount that are not the host's: of the home, or by links of the host.
printf '#!/bin/sh\nmount --bind "%s" "$HOME" && exec "$@"\n' "$work/away" >"$work/at-home"
chmod 755 "$work/at-home"
mkdir -p "$work/away/sub/deep"
ln -s away "$work/link"
home=$(getent passwd root | cut -d : -f 6)
if HOME=$home unshare -m "$work/at-home" true 2>"$work/err"; then
    serve "$server" env "HOME=$home" unshare -m "$work/at-home"
    lines=1
    for path in "" sub ./sub/ "$home/sub" "$work/link/" "$work/link/sub"; do
        case $path in
        *sub*) there=$work/away/sub ;;
        *) there=$work/away ;;
        esac
        seq $lines >"$there/g"
        sshfs -p "$port" "root@127.0.0.1:$path" "$work/point" -o "$options,LogLevel=ERROR" \
            2>"$work/mount.log" || not_ok "sshfs of '$path': $(tail -n 1 "$work/mount.log")"
        equal "sshfs of '$path': read" "$(run grep -c . g) $(placed)" "$lines 1"
        run sed -i 's/$/ changed/' g
        equal "sshfs of '$path': changed" "$(tail -n 1 "$there/g") $(placed)" "$lines changed 1"
        umount "$work/point" || umount -l "$work/point"
        lines=$((lines + 1))
    done
    # The place is told, and the folder is reached by a link of the client.
    ln -s point "$work/here"
    sshfs -p "$port" "root@127.0.0.1:sub" "$work/point" -o "$options,LogLevel=ERROR" 2>"$work/mount.log"
    place="ssh://root@127.0.0.1:$port/~/sub?option=$(echo "$options" | sed 's/,/\&option=/g')"
    (cd "$work/here" && timeout "$limit" "$build/ferry" run --force --device none --no-discover \
        --report="$work/report" --mount "$work/point=$place" -- sh -c "cat g; cat $work/here/g") >"$work/out"
    equal "a place below ~, the working folder by a link" "$(cat "$work/out")" \
        "$(cat "$work/away/sub/g" "$work/away/sub/g")"
    equal "... where it ran" "$(placed)" 1
fi
finish
