#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Storage hosts that are no twins: one whose programs are other builds, and one that has no
# programs at all. Commands run there with the client's programs, which are sent once, and
# their output, messages and status are those of a local run.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
build=$(cd "${FERRY_BUILDDIR:-.}" && pwd)
. "$srcdir/tests/tap.sh"
[ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null ||
    skip_all "not root, or no mounts of its own"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
data=$dir/data
mkdir -p "$data/d/a" "$dir/other/home" "$dir/bare/root" "$dir/bin" "$dir/cache"
export XDG_CACHE_HOME="$dir/cache"
chmod 700 "$dir/other/home" "$dir/bare/root" "$dir/cache"
seq 20000 >"$data/f"
seq 300 >"$data/d/a/x"
printf 'gr\374n\n' >"$data/latin"
printf 'gr\303\274n\n' >"$data/utf8"
git init -q "$data/repo" 2>/dev/null &&
    (cd "$data/repo" && seq 9 >f && git add f &&
        git -c user.name=n -c user.email=e@f commit -qm first)

# ---- the hosts ----------------------------------------------------------------------

# other: each program has another build id.
python3 "$srcdir/tests/session/rebuilt.py" "$dir/bin" grep sort uniq wc cat find sed gawk mawk tar \
    gzip ls git iconv head tail md5sum stat cut tr xz
for program in "$dir/bin"/*; do
    echo "$program $(readlink -f "$(command -v "${program##*/}")") none bind"
done >"$dir/fstab"
cat >"$dir/there-other" <<END
#!/bin/sh
unset XDG_CACHE_HOME
HOME=$dir/other/home exec unshare -m sh -c '
    mount --all --fstab "$dir/fstab" && exec "$build/ferry" "\$@"' sh "\$@"
END
# bare: ferry and its libraries, and nothing else; the data are at another path.
root=$dir/bare
mkdir -p "$root/proc" "$root/dev" "$root/sys" "$root/tmp" "$root/old" "$root/srv" "$root/etc" \
    "$root/opt/bin" "$root/opt/share/ferry"
for library in $(ldd "$build/ferry" | grep -o '/[^ ]*'); do
    mkdir -p "$root${library%/*}"
    cp -L "$library" "$root$library"
done
cp "$build/ferry" "$root/opt/bin/"
cp -r "$srcdir/annotations" "$root/opt/share/ferry/"
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
cat >"$dir/there-bare" <<END
#!/bin/sh
unset XDG_CACHE_HOME
HOME=/root exec unshare -m sh -c '
    mount --make-rprivate / && mount --bind $root $root && mount --bind $data $root/srv &&
        mount --rbind /proc $root/proc && mount --rbind /dev $root/dev &&
        mount --rbind /sys $root/sys && mount -t tmpfs none $root/tmp &&
        cd $root && pivot_root . old && exec /opt/bin/ferry "\$@"' sh "\$@"
END
chmod 755 "$dir/there-other" "$dir/there-bare"

forced=--force
# run HOST OPTIONS COMMAND: as a shell runs it; *report has where it ran
run()
{
    host=$1 fault=$2
    shift 2
    case $host in other) at=$data ;; *) at=/srv ;; esac
    # shellcheck disable=SC2086 # the words of an option, and of a launcher
    (cd "$data" && ${within-} "$build/ferry" run --no-discover $forced --device none \
        --report="$dir/report" \
        --mount "$data=ssh://$host$at?ferry=$dir/there-$host&command=$build/tests/badlink/badlink%20$fault" \
        -- "$@")
}

# ---- the same as a local run ------------------------------------------------------------

# Stages that are carried, then the command.
while read -r stages line; do
    case $line in
    *git*) [ -d "$data/repo/.git" ] || continue ;;
    esac
    (cd "$data" && sh -c "$line") >"$dir/out" 2>"$dir/err"
    echo "status $?" >>"$dir/out"
    for host in other bare; do
        run "$host" delay=0ms sh -c "$line" >"$dir/out.$host" 2>"$dir/err.$host"
        echo "status $?" >>"$dir/out.$host"
        if cmp -s "$dir/out" "$dir/out.$host" && cmp -s "$dir/err" "$dir/err.$host"; then
            ok "$host: $line"
        else
            diff "$dir/out" "$dir/out.$host" | head -n 5 | sed 's/^/# /'
            diff "$dir/err" "$dir/err.$host" | head -n 5 | sed 's/^/# /'
            not_ok "$host: $line"
        fi
        equal "$host: $line: stages with the client's programs" \
            "$(grep -o ', carried"' "$dir/report" | wc -l)" "$stages"
    done
done <<'END'
4 grep 7 f | sort | uniq | wc -l
1 find d -type f -exec grep -c 7 {} +
1 gawk '{s += $1} END {print s}' f
3 tar cf - d | tar tf - | head -n 2
1 ls -l d
1 git -C repo log --format=%s
1 iconv -f latin1 -t utf-8 latin
1 sed -n 5p f
1 tar cf - --owner=games --group=daemon d
1 tar cf - --owner=x:1 d
1 tar cf - --owner=x:1 --group=+2 d
1 cat none
1 LC_ALL=C.UTF-8 cat none
1 LC_ALL=C.UTF-8 find none -name x
1 LC_ALL=C.UTF-8 grep -c gr latin
1 grep none f
1 TZ=Europe/Berlin ls -l --time-style=full-iso f
2 sort -rn f | head -n 3
1 LC_ALL=C.UTF-8 wc -m utf8
1 LC_ALL= LANG=C LC_CTYPE=C.UTF-8 grep -c '^....$' utf8
0 LANGUAGE=de LC_ALL=C.UTF-8 cat none
1 LANGUAGE=de LC_ALL=C cat none
1 TZ= ls -l --time-style=full-iso f
1 TZDIR=/usr/share/zoneinfo/Europe TZ=Berlin ls -l --time-style=full-iso f
END
run bare delay=0ms sed -i 's/^1$/one/' d/a/x
equal "bare: an effect is done" "$(head -n 1 "$data/d/a/x")" one

# A home that is mounted: files of ferry that come and go there would be found by some
# commands and not by others.
sed 's|^HOME=/root|HOME=/srv|' "$dir/there-bare" >"$dir/there-home"
chmod 755 "$dir/there-home"
for _ in first second; do
    run home delay=0ms find . -type f >"$dir/out.home" 2>"$dir/err"
done
(cd "$data" && find . -type f) >"$dir/out"
equal "a mounted home: the files are those of a local run" "$(sort "$dir/out.home")" \
    "$(sort "$dir/out")"
equal "... where the command ran" "$(grep -c '"placed": "ssh://home, carried"' "$dir/report")" 1
rm -rf "$data/.cache"

# ---- locales that the host has not -------------------------------------------------------

# The client's list of locales has one that the C library gives another name: as a folder, in an
# archive of all, in one that is too large, and with an old set of characters.
if localedef --help >/dev/null 2>&1 && cp -r /usr/lib/locale/C.utf8 "$dir/xx_XX.utf8" 2>/dev/null; then
    mkdir -p "$dir/folder" "$dir/latin" "$dir/made/usr/lib/locale" "$dir/archive" "$dir/large"
    cp -r "$dir/xx_XX.utf8" "$dir/folder"
    cp -r "$dir/xx_XX.utf8" "$dir/latin/xx_XX"
    localedef --prefix="$dir/made" --add-to-archive "$dir/xx_XX.utf8" >"$dir/err" 2>&1
    for large in archive large; do
        cp "$dir/made/usr/lib/locale/locale-archive" "$dir/$large"
    done
    truncate -s 33M "$dir/large/locale-archive"
    while read -r folder name placed; do
        printf '#!/bin/sh\nexec unshare -m sh -c '\''mount --bind %s /usr/lib/locale && exec "$@"'\'' sh "$@"\n' \
            "$dir/$folder" >"$dir/within"
        chmod 755 "$dir/within"
        within=$dir/within
        (cd "$data" && LC_ALL=$name "$within" wc -m utf8) >"$dir/out"
        LC_ALL=$name run bare delay=0ms wc -m utf8 >"$dir/out.bare"
        within=
        equal "locale $name ($folder): characters" "$(cat "$dir/out.bare")" "$(cat "$dir/out")"
        case $placed in
        yes) equal "... by the client's files" "$(grep -c ', carried"' "$dir/report")" 1 ;;
        no) equal "... where it ran, and it is said" \
            "$(grep -c "other-locale.*the locale $name is not of UTF-8" "$dir/report")" 1 ;;
        esac
    done <<'END'
folder xx_XX.UTF-8 yes
archive xx_XX.utf8 yes
large xx_XX.utf8 no
latin xx_XX no
END
else
    skip "locales that the host has not" "no localedef"
fi

# ---- the second time ----------------------------------------------------------------------

run bare delay=0ms grep -c 7 f >/dev/null
sent=$(grep -o '"bytes_to_link": [0-9]*' "$dir/report" | head -n 1)
equal "nothing is sent twice" "$sent" '"bytes_to_link": 0'

# A store that was deleted is filled again, at the latest by the second run.
find "$root/root/.cache/ferry/store" -type f -delete
run bare delay=0ms grep -c 7 f >"$dir/out" 2>&1
equal "a store that was deleted harms nothing" "$(cat "$dir/out")" "$(grep -c 7 "$data/f")"
run bare delay=0ms grep -c 7 f >"$dir/out" 2>&1
equal "... and is filled again" "$(grep -c ', carried"' "$dir/report")" 1

# What takes longer to send than the command takes locally is not waited for.
rm -rf "$dir/cache"/* "${root:?}/root/.cache"
seq 200000 >"$data/some"
forced=--no-discover
run bare delay=0ms grep -c 7 some >"$dir/out" 2>&1
equal "a program that is not worth the wait: as local" "$(cat "$dir/out")" \
    "$(grep -c 7 "$data/some")"
equal "... where it ran, and it is said" \
    "$(grep -c 'unprofitable.*its program is sent for the next time' "$dir/report")" 1
forced=--force

# ---- a host that cannot be used -----------------------------------------------------------

mkdir -p "$root/root/.cache/ferry"
chmod 777 "$root/root/.cache/ferry"
rm -rf "$dir/cache"/* "$root/root/.cache/ferry/store"
run bare delay=0ms grep -c 7 f >"$dir/out" 2>&1
equal "another user may write to the store: as local" "$(cat "$dir/out")" "$(grep -c 7 "$data/f")"
equal "... where it runs, and it is said" \
    "$(grep -c 'other-tool.*can be changed by another user' "$dir/report")" 1
chmod 700 "$root/root/.cache/ferry"

# A disk without room, a limit of the user's, a home that nobody may write to or execute from.
cc -shared -fPIC -O1 -o "$dir/wrong.so" "$srcdir/tests/session/wrong.c" 2>"$dir/err" || : >"$dir/wrong.so"
while read -r how said; do
    rm -rf "$dir/cache"/* "$root/root/.cache"
    mkdir -p "$root/root/.cache"
    case $how in
    quota)
        [ -s "$dir/wrong.so" ] || continue
        cp "$dir/wrong.so" "$root/wrong.so"
        sed 's|exec /opt|LD_PRELOAD=/wrong.so WRONG=quota &|' "$dir/there-bare" >"$dir/there-$how"
        ;;
    full) mounts="size=64k,mode=700 none $root/root/.cache" ;;
    read-only) mounts="ro,mode=700 none $root/root" ;;
    noexec) mounts="noexec,mode=700 none $root/root" ;;
    esac
    [ "$how" = quota ] ||
        sed "s|cd $root|mount -t tmpfs -o $mounts \\&\\& &|" "$dir/there-bare" >"$dir/there-$how"
    chmod 755 "$dir/there-$how"
    run "$how" delay=0ms grep -c 7 f >"$dir/out" 2>&1
    equal "$how: as local" "$(cat "$dir/out")" "$(grep -c 7 "$data/f")"
    equal "$how: where it runs, and it is said" "$(grep -c "other-tool.*$said" "$dir/report")" 1
done <<'END'
quota store cannot be written to: Disk quota exceeded
full store cannot be written to: No space left
read-only .cache/ferry/store cannot be made: Read-only file system
noexec .cache/ferry/store is on a file system that executes nothing
END
rm -f "$root/wrong.so"

# Two clients at once, and files of another user with the right names.
rm -rf "$dir/cache"/* "$root/root/.cache"
for client in 1 2; do
    (
        export XDG_CACHE_HOME="$dir/cache/$client"
        mkdir "$XDG_CACHE_HOME"
        cd "$data" && "$build/ferry" run --no-discover --force --device none \
            --report="$dir/report.$client" \
            --mount "$data=ssh://bare/srv?ferry=$dir/there-bare&command=$build/tests/badlink/badlink%20delay=0ms" \
            -- sh -c 'grep 7 f | sort | tail -n 1' >"$dir/out.$client" 2>&1
    ) &
    eval "client_$client=\$!"
done
# shellcheck disable=SC2154 # set by eval
wait "$client_1" "$client_2"
equal "two clients at once: their output" "$(cat "$dir/out.1" "$dir/out.2")" "9997
9997"
equal "... of carried programs" "$(cat "$dir/report.1" "$dir/report.2" | grep -o ', carried"' | wc -l)" 6
for file in "$root/root/.cache/ferry/store"/*; do
    echo planted >"$file.other"
    mv "$file.other" "$file"
    chmod 500 "$file"
    chown 65534 "$file"
done
run bare delay=0ms grep -c 7 f >"$dir/out" 2>&1
run bare delay=0ms grep -c 7 f >>"$dir/out" 2>&1
equal "files of another user in the store are not run" "$(cat "$dir/out")" \
    "$(grep -c 7 "$data/f" "$data/f" | cut -d : -f 2)"
equal "... and are replaced" "$(grep -c ', carried"' "$dir/report")" 1

# Cut at bytes all over what is sent: no file that is not whole is ever run.
cuts=8
[ "${FERRY_TEST_TIER-}" = edit ] || cuts=200
wrong=0 cut=0
while [ $cut -lt $cuts ]; do
    rm -rf "$dir/cache"/* "$root/root/.cache/ferry/store"
    run bare "up,cut=$((cut * 3200000 / cuts + 1500))" sh -c 'grep 7 f | sort | tail -n 1' \
        >"$dir/out" 2>/dev/null || wrong=$((wrong + 1))
    [ "$(cat "$dir/out")" = 9997 ] || wrong=$((wrong + 1))
    for file in "$root/root/.cache/ferry/store"/*; do
        case ${file##*/} in
        new-* | image-* | '*') ;;
        *) [ "$(sha256sum <"$file" | cut -c -64)" = "${file##*/}" ] || wrong=$((wrong + 1)) ;;
        esac
    done
    cut=$((cut + 1))
done
equal "$cuts links that break while files are sent" "$wrong" 0

# ---- ferry itself is copied ---------------------------------------------------------------

# A host with sh, tar and few more of its own; ssh runs what it is given in there.
rm -rf "${root:?}/opt" "${root:?}/root/.cache" "${root:?}/bin" "$dir/cache"/*
mkdir -p "$root/bin"
for program in sh tar mkdir rm mv chmod rmdir; do
    path=$(readlink -f "$(command -v "$program")")
    cp "$path" "$root/bin/$program"
    for library in $(ldd "$path" | grep -o '/[^ ]*'); do
        mkdir -p "$root${library%/*}"
        cp -L "$library" "$root$library"
    done
done
cat >"$dir/ssh" <<END
#!/bin/sh
for last; do :; done
LAST=\$last exec unshare -m sh -c '
    mount --make-rprivate / && mount --bind $root $root && mount --bind $data $root/srv &&
        mount --rbind /proc $root/proc && mount --rbind /dev $root/dev &&
        mount --rbind /sys $root/sys && mount -t tmpfs none $root/tmp && cd $root &&
        pivot_root . old && unset XDG_CACHE_HOME && export PATH=/bin &&
        export HOME="\${HOME_THERE:-/root}" && mkdir -p "\$HOME" &&
        exec \${SHELL_THERE:-/bin/sh} -c "\$LAST"'
END
chmod 755 "$dir/ssh"
deployed()
{
    (cd "$data" && "$build/ferry" run --no-discover --force --device none \
        --report="$dir/report" --mount "$data=ssh://box/srv?command=$dir/ssh" -- grep -c 7 f)
}
told()
{
    "$build/ferry" doctor "ssh://box/?command=$dir/ssh" >"$dir/out" 2>"$dir/err" || return
    sed -n "s/^  $1 *//p" "$dir/out"
}
equal "ferry doctor of a host without programs: ferry" "$(told ferry) $(cat "$dir/err")" \
    "not installed "
case $(told copies) in
    "none; 'ferry deploy "*) ok "... names the way out" ;;
    *) not_ok "... names the way out" ;;
esac
equal "... and the programs that are missing there" \
    "$(told 'missing there' | grep -wc grep) $(told 'missing there' | grep -wc tar)" "1 0"
equal "without ferry there: as local" "$(deployed 2>/dev/null)" "$(grep -c 7 "$data/f")"
grep -q 'ferry deploy HOST' "$dir/report" && ok "... and the way out is named" ||
    not_ok "... and the way out is named"
export build dir data
empty "... nobody is told without a terminal" "$(deployed 2>&1 >/dev/null)"
if command -v script >/dev/null; then
    on_terminal()
    {
        deployed >"$dir/out" 2>"$dir/err"
        script -qec "sh '$dir/run.sh'" /dev/null </dev/null 2>&1 | grep -c "'ferry deploy ssh://box"
    }
    cat >"$dir/run.sh" <<END
cd '$data' && '$build/ferry' run --no-discover --force --device none \\
    --mount '$data=ssh://box/srv?command=$dir/ssh' -- grep -c 7 f >/dev/null
END
    equal "... a terminal is told of ferry deploy" "$(on_terminal)" 1
    mkdir -p "$dir/config/ferry"
    export XDG_CONFIG_HOME="$dir/config"
    echo 'deploy = never' >"$dir/config/ferry/ferry.conf"
    equal "... but for deploy = never" "$(on_terminal)" 0
    echo 'deploy = always' >"$dir/config/ferry/ferry.conf"
    equal "... and a word that is none is said" \
        "$(deployed 2>&1 >/dev/null | grep -c 'expected ask, auto or never')" 1
    echo 'deploy = auto' >"$dir/config/ferry/ferry.conf"
    deployed >/dev/null 2>&1
    copied=0
    for _ in $(seq "$(patient 300)"); do
        [ -x "$root/root/.cache/ferry/bin/ferry-$("$build/ferry" --version | cut -d ' ' -f 2)" ] && copied=1 && break
        sleep 0.1
    done
    equal "deploy = auto: it is copied" "$copied" 1
    unset XDG_CONFIG_HOME
    "$build/ferry" deploy --remove "ssh://box/?command=$dir/ssh" >"$dir/out" 2>"$dir/err"
fi
"$build/ferry" deploy "ssh://box/?command=$dir/ssh" >"$dir/out" 2>"$dir/err"
equal "ferry deploy" "$? $(cat "$dir/err")" "0 "
deployed >"$dir/out" 2>&1
equal "... and a command runs there" \
    "$(cat "$dir/out") $(grep -c '"placed": "ssh://box, carried"' "$dir/report")" \
    "$(grep -c 7 "$data/f") 1"
"$build/ferry" deploy "ssh://box/?command=$dir/ssh" >"$dir/out" 2>"$dir/err"
equal "ferry deploy once more" "$? $(cat "$dir/err")" "0 "
equal "ferry doctor sees the copy" "$(told copies)" "$("$build/ferry" --version | cut -d ' ' -f 2)"
cp "$dir/bin/grep" "$root/bin/grep"
cp -L "$(command -v sed)" "$root/bin/sed"
cp -L "$(command -v sha256sum)" "$root/bin/sha256sum"
equal "... tells programs that are the same from other builds" \
    "$(told 'the same' | grep -ow 'grep\|sed\|sha256sum' | tr '\n' ' ')$(told 'other builds')" \
    "sed sha256sum 1: grep"
rm "$root/bin/grep" "$root/bin/sed" "$root/bin/sha256sum"
printf '#!/bin/sh\nprintf "machine a\\033[2Jb\\nhas ../../x y\\nhas\\nend 1\\n"' >"$dir/ssh.lies"
chmod 755 "$dir/ssh.lies"
"$build/ferry" doctor "ssh://box/?command=$dir/ssh.lies" >"$dir/out" 2>"$dir/err"
equal "... and prints no control character of a host" "$? $(sed -n 2p "$dir/out")" \
    "0   machine          a?[2Jb"
rm -rf "$dir/cache"/*
(
    export HOME_THERE="/root/a \"\$b'c"
    "$build/ferry" deploy "ssh://box/?command=$dir/ssh" && deployed
) >"$dir/out" 2>"$dir/err"
equal "... to a home of an odd name: it runs there" \
    "$(cat "$dir/err") $(grep -c '"placed": "ssh://box, carried"' "$dir/report")" " 1"
rm -rf "$root/root/a "* "$dir/cache"/*
equal "... leaves nothing half done" "$(find "$root/root/.cache" -name 'new-*')" ""
# Another copy comes between the removal of the old one and the move: as if nothing were removed.
mv "$root/bin/rm" "$root/bin/rm.kept"
cp -L /bin/true "$root/bin/rm"
"$build/ferry" deploy "ssh://box/?command=$dir/ssh" >"$dir/out" 2>"$dir/err"
equal "ferry deploy beside another: it is said" \
    "$? $(grep -c 'another copy came at the same time' "$dir/err")" "1 1"
mv "$root/bin/rm.kept" "$root/bin/rm"
"$build/ferry" deploy --remove "ssh://box/?command=$dir/ssh" >"$dir/out" 2>"$dir/err"
equal "ferry deploy --remove" "$? $(cat "$dir/err") $(find "$root/root/.cache" -type f)" "0  "
# BusyBox alone, and no glibc where programs look for one, as on a host with musl.
box=$dir/box
mkdir -p "$box/opt" "$box/bin" "$box/etc" "$box/proc" "$box/dev" "$box/sys" "$box/tmp" "$box/old" "$box/srv"
cat >"$dir/start.c" <<'END'
#include <unistd.h>
int main(int n, char **words)
{
    char *all[n + 6];
    all[0] = "/opt/ld";
    all[1] = "--library-path";
    all[2] = "/opt";
    all[3] = "--argv0";
    all[4] = words[0];
    all[5] = "/opt/busybox";
    for (int i = 1; i <= n; i++)
        all[i + 5] = words[i];
    return execv(all[0], all) ? 127 : 0;
}
END
if busybox=$(command -v busybox) && ldd "$busybox" >"$dir/libraries" 2>&1 &&
    ${CC:-gcc} -static -o "$box/bin/sh" "$dir/start.c" 2>/dev/null; then
    cp -L "$busybox" "$box/opt/"
    for library in $(grep -o '/[^ ]*' "$dir/libraries"); do
        cp -L "$library" "$box/opt/"
    done
    ln "$box/opt"/ld-linux-* "$box/opt/ld"
    for program in $(busybox --list); do
        ln "$box/bin/sh" "$box/bin/$program" 2>/dev/null
    done
    seq 9 >"$data/n"
    sed "s|$root|$box|g" "$dir/ssh" >"$dir/ssh.box"
    chmod 755 "$dir/ssh.box"
    rm -rf "$dir/cache"/*
    "$build/ferry" deploy "ssh://box/?command=$dir/ssh.box" >"$dir/out" 2>"$dir/err"
    equal "BusyBox without glibc: ferry deploy" "$? $(cat "$dir/err")" "0 "
    for line in 'grep -c 7 f' 'grep 7 f | sort -r | uniq | wc -l' 'tar cf - d | tar tf -' \
        'git -C repo status --short' 'find d -type f -exec md5sum {} +'; do
        (cd "$data" && sh -c "$line" >"$dir/plain" 2>&1
            "$build/ferry" run --no-discover --force --device none --report="$dir/report" \
                --mount "$data=ssh://box/srv?command=$dir/ssh.box" -- sh -c "$line") >"$dir/out" 2>&1
        equal "... $line" "$(cat "$dir/out")" "$(cat "$dir/plain")"
        equal "... runs there, all of it" "$(grep -c '"placed": "ssh://box, carried"' "$dir/report")" \
            "$(grep -c '"argv"' "$dir/report")"
    done
    (cd "$data" && "$build/ferry" run --no-discover --force --device none --report="$dir/report" \
        --mount "$data=ssh://box/srv?command=$dir/ssh.box" -- sed -i "s/^7$/sieben/" n)
    equal "... an effect" "$? $(grep -c sieben "$data/n") $(grep -c '"placed": "ssh://box, carried"' "$dir/report")" "0 1 1"
    "$build/ferry" deploy --remove "ssh://box/?command=$dir/ssh.box" >"$dir/out" 2>"$dir/err"
    equal "... ferry deploy --remove" "$? $(cat "$dir/err") $(find "$box/root" -type f)" "0  "
else
    skip "BusyBox without glibc" "no busybox, or no static libc"
fi
# A login shell takes quotes and ! in its own way, csh even in single quotes.
cat >"$dir/ssh.say" <<END
#!/bin/sh
for last; do :; done
printf '%s\n' "\$last" >>$dir/said
END
chmod 755 "$dir/ssh.say"
"$build/ferry" deploy "ssh://box/?command=$dir/ssh.say" >"$dir/out" 2>"$dir/err"
"$build/ferry" deploy --remove "ssh://box/?command=$dir/ssh.say" >"$dir/out" 2>"$dir/err"
equal "a script that any login shell can read" "$(tr -cd "!'\n" <"$dir/said")" "''
''"
mkdir -p "$dir/full"
mount -t tmpfs -o size=1m none "$dir/full" 2>/dev/null && {
    rm -rf "$root/root/.cache"
    mkdir -p "$root/root/.cache"
    sed "s|cd \$root|mount --bind $dir/full $root/root/.cache \&\& cd $root|; s|cd $root|mount --bind $dir/full $root/root/.cache \&\& cd $root|" \
        "$dir/ssh" >"$dir/ssh.full"
    chmod 755 "$dir/ssh.full"
    "$build/ferry" deploy "ssh://box/?command=$dir/ssh.full" >"$dir/out" 2>"$dir/err"
    equal "a full disk: status" $? 1
    equal "... one line says so" "$(grep -c 'box.*was not copied' "$dir/err")" 1
    equal "... and nothing is left" "$(find "$dir/full" -type f)" ""
    umount "$dir/full"
}
for wrong in "" "ssh://" "host/with/path?command=x" "-x"; do
    "$build/ferry" deploy "$wrong" >"$dir/out" 2>"$dir/err"
    equal "ferry deploy '$wrong'" $? 2
done

# ---- the setting ------------------------------------------------------------------------

mkdir -p "$dir/config/ferry"
printf 'tools = same\n' >"$dir/config/ferry/ferry.conf"
export XDG_CONFIG_HOME="$dir/config"
run other delay=0ms grep -c 7 f >"$dir/out" 2>&1
equal "tools = same: nothing is carried" \
    "$(cat "$dir/out") $(grep -c 'other-tool' "$dir/report") $(grep -c ', carried' "$dir/report")" \
    "$(grep -c 7 "$data/f") 1 0"

# The host's own programs, which are others: one is a script of the system.
printf '#!/bin/sh\necho "theirs $*"\n' >"$dir/bin/wc"
printf 'tools = same\ntools = host other elsewhere\n' >"$dir/config/ferry/ferry.conf"
explained()
{
    forced="--force --explain"
    run other delay=0ms "$@" 2>&1
    forced=--force
}
explained sh -c 'grep 7 f | sort | wc -l' >"$dir/out"
equal "tools = host: the host's program of that name" "$(head -n 1 "$dir/out")" "theirs -l"
equal "... and each line says so" "$(grep -c "at ssh://other, the host's program" "$dir/out")" 3
explained find d -type f -exec grep -c 7 {} + >"$dir/out"
equal "... with the programs that it runs" "$(head -n 1 "$dir/out")" 57
run other delay=0ms sed -i 's/^one$/1/' d/a/x
equal "... with an effect" "$(head -n 1 "$data/d/a/x") $(grep -c "the host's program" "$dir/report")" "1 1"
LC_ALL=xx_XX.UTF-8 run other delay=0ms sed -n 5p f >"$dir/out"
equal "... in a locale that the host has not, as with ssh" \
    "$(cat "$dir/out") $(grep -c "the host's program" "$dir/report")" "5 1"

# A store that is too small, and one that has room for a few programs.
rm -rf "$dir/cache"/* "$dir/other/home/.cache"
printf 'store = 100k\nstore = 8M other\n' >"$dir/config/ferry/ferry.conf"
for command in "grep -c 7 f" "find d" "sed -n 5p f" "sort f" "env -u XDG_CONFIG_HOME git -C repo log" \
    "head f"; do
    run other delay=0ms sh -c "$command" >"$dir/err"
    printf '%s\n' "$command $(grep -c ', carried"' "$dir/report")"
done >"$dir/out"
equal "store = 8M: all are carried" "$(grep -c ' 1$' "$dir/out")" "$(wc -l <"$dir/out")"
kept=$(cat "$dir/other/home/.cache/ferry/store"/[0-9a-f]* | wc -c)
[ "$kept" -le 8388608 ] && [ "$kept" -gt 4000000 ] && ok "... and no more is kept" ||
    not_ok "... and no more is kept: $kept"
printf 'store = 100k\n' >"$dir/config/ferry/ferry.conf"
rm -rf "$dir/cache"/*
run other delay=0ms grep -c 7 f >"$dir/out"
equal "store = 100k: as local, and it is said" \
    "$(cat "$dir/out") $(grep -c 'other-tool.*do not fit into the store there' "$dir/report")" \
    "$(grep -c 7 "$data/f") 1"
finish
