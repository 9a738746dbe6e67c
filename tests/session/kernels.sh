#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # build, work and limit are of common.sh
# Storage hosts whose kernels offer little: one of 4.18, one that makes no namespaces, and one
# that has no Landlock either. Their programs are other builds. The client's run there by their own linker
# where nothing else could differ; all else runs locally, and it is said why.
. "${FERRY_SRCDIR:-$(dirname "$0")/../..}/tests/session/common.sh"
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
[ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null ||
    skip_all "not root, or no mounts of its own"
cc -O1 -o "$work/confine" "$srcdir/tests/session/confine.c" 2>"$work/err" ||
    skip_all "no C compiler"
"$work/confine" old / true 2>/dev/null || skip_all "no seccomp filter can be set"

data=$work/data
mkdir -p "$data/d/a" "$data/sub" "$work/there" "$work/bin"
chmod 700 "$work/there"
seq 20000 >"$data/f"
seq 300 >"$data/d/a/x"
ln -s d/a "$data/link"
printf 'gr\374n\n' >"$data/latin"
printf 'gr\303\274n\n' >"$data/utf8"
gzip -k "$data/f"
git init -q "$data/repo" 2>/dev/null &&
    (cd "$data/repo" && seq 9 >f && git add f &&
        git -c user.name=n -c user.email=e@f commit -qm first)
python3 "$srcdir/tests/session/rebuilt.py" "$work/bin" grep sort uniq wc cat find sed gawk tar \
    gzip ls git iconv head tail md5sum stat cut tr xz file
for program in "$work/bin"/*; do
    echo "$program $(readlink -f "$(command -v "${program##*/}")") none bind"
done >"$work/fstab"
for host in old flat spaceless; do
    cat >"$work/$host" <<END
#!/bin/sh
unset XDG_CACHE_HOME
HOME=$work/there exec unshare -m sh -c '
    mount --all --fstab "$work/fstab" && exec "$work/confine" $host / \${FERRY_OTHERS-$build/ferry} "\$@"' sh "\$@"
END
done
chmod 755 "$work/old" "$work/flat" "$work/spaceless"

# run HOST COMMAND: as a shell runs it; $work/report has where it ran.
run()
{
    host=$1
    shift
    (cd "$data" && timeout "$limit" "$build/ferry" run --no-discover --force --device none \
        --report="$work/report" \
        --mount "$data=ssh://$host$data?ferry=$work/$host&command=$build/tests/badlink/badlink%20delay=0ms" \
        -- "$@")
}

# Stages that are carried, then the command.
while read -r stages line; do
    case $line in
    *git*) [ -d "$data/repo/.git" ] || continue ;;
    esac
    (cd "$data" && sh -c "$line") >"$work/out" 2>"$work/err"
    echo "status $?" >>"$work/out"
    for host in old flat spaceless; do
        run "$host" sh -c "$line" >"$work/out.$host" 2>"$work/err.$host"
        echo "status $?" >>"$work/out.$host"
        if cmp -s "$work/out" "$work/out.$host" && cmp -s "$work/err" "$work/err.$host"; then
            ok "$host: $line"
        else
            diff "$work/out" "$work/out.$host" | head -n 5 | sed 's/^/# /'
            diff "$work/err" "$work/err.$host" | head -n 5 | sed 's/^/# /'
            not_ok "$host: $line"
        fi
        equal "$host: $line: stages with the client's programs" \
            "$(grep -o ', carried"' "$work/report" | wc -l)" "$stages"
    done
done <<'END'
4 grep 7 f | sort | uniq | wc -l
2 sort -rn f | head -n 3
1 gawk '{s += $1} END {print s}' f
1 sed -n 5p ./f
1 grep -c 7 link/x
1 find d -type f
2 cd sub && cat ../f | tail -n 1
1 cat none
1 grep -c '[' f
1 md5sum f d/a/x
1 LC_ALL=C.UTF-8 wc -m utf8
1 LC_ALL=C.UTF-8 cat none
0 LC_ALL=C.UTF-8 LANGUAGE=de cat none
1 iconv -f latin1 -t utf-8 latin
2 gzip -dc f.gz | tail -n 1
0 ls -l d
1 find d -type f -exec grep -c 7 {} +
END
run old sed -i 's/^1$/one/' d/a/x
equal "an effect is done" "$(head -n 1 "$data/d/a/x")" one
equal "... there" "$(grep -c ', carried"' "$work/report")" 1

# A file that must stand at its own path is another one there.
zone=/usr/share/zoneinfo/Europe/Berlin
if [ -f "$zone" ]; then
    line="TZ=Europe/Berlin stat -c %y f"
    run old sh -c "$line" >"$work/out" 2>&1
    equal "the same file of a zone" "$(grep -c ', carried"' "$work/report")" 1
    cp /usr/share/zoneinfo/UTC "$work/zone"
    sed -i "s|exec \"$work/confine|mount --bind $work/zone $zone; &|" "$work/old"
    run old sh -c "$line" >"$work/out" 2>&1
    equal "another file of a zone: as local" "$(cat "$work/out")" "$(cd "$data" && sh -c "$line")"
    equal "... where it ran, and it is said" \
        "$(grep -c 'Europe/Berlin is another there, where no namespace' "$work/report")" 1
fi

# Libraries that the host puts into every program.
sed "s|exec \"$work/confine|mount --bind $work/etc /etc; &|" "$work/spaceless" >"$work/preloads"
cp -a /etc "$work/etc"
: >"$work/etc/ld.so.preload"
chmod 755 "$work/preloads"
run preloads grep -c 7 f >"$work/out" 2>&1
equal "a host that preloads: as local" "$(cat "$work/out")" "$(grep -c 7 "$data/f")"
equal "... where it ran" "$(grep -c ', carried"' "$work/report")" 0

# Another processor, and a kernel that the C library is too new for.
if cc -shared -fPIC -O1 -o "$work/wrong.so" "$srcdir/tests/session/wrong.c" 2>"$work/err"; then
    while read -r wrong said; do
        sed "s|exec \"$work/confine\" spaceless / .*ferry}|LD_PRELOAD=$work/wrong.so WRONG=$wrong exec \"$build/ferry\"|" \
            "$work/spaceless" >"$work/machine"
        chmod 755 "$work/machine"
        run machine grep -c 7 f >"$work/out" 2>&1
        equal "uname $wrong: as local" "$(cat "$work/out")" "$(grep -c 7 "$data/f")"
        equal "... where it ran, and it is said" \
            "$(grep -c "other-machine.*$said" "$work/report")" 1
    done <<END
aarch64,6.1.0 it is aarch64, and programs are for $(uname -m)
$(uname -m),2.4.9-x its kernel 2.4.9-x is older than [2-9]
END
fi

# The client's path does not exist there.
elsewhere=$work/elsewhere
mkdir "$elsewhere"
mount --bind "$data" "$elsewhere" 2>/dev/null && {
    (cd "$elsewhere" && timeout "$limit" "$build/ferry" run --no-discover --force --device none \
        --report="$work/report" \
        --mount "$elsewhere=ssh://old$data?ferry=$work/old&command=$build/tests/badlink/badlink%20delay=0ms" \
        -- grep -c 7 f) 2>&1 | cat >"$work/out"
    equal "another path: as local" "$(cat "$work/out")" "$(grep -c 7 "$data/f")"
    equal "... where it ran, and it is said" \
        "$(grep -c 'other-names.*makes no namespace' "$work/report")" 1
    umount "$elsewhere"
}

# ferry itself is copied to such hosts.
for host in old flat spaceless; do
    cat >"$work/ssh-$host" <<END
#!/bin/sh
for last; do :; done
unset XDG_CACHE_HOME
export HOME=$work/home-$host
mkdir -p "\$HOME"
exec "$work/confine" $host / sh -c "\$last"
END
    chmod 755 "$work/ssh-$host"
    place="ssh://$host$data?command=$work/ssh-$host"
    "$build/ferry" deploy "$place" >"$work/out" 2>"$work/err"
    equal "$host: ferry deploy" "$? $(cat "$work/err")" "0 "
    (cd "$data" && timeout "$limit" "$build/ferry" run --no-discover --force --device none \
        --report="$work/report" --mount "$data=$place" -- sh -c 'grep 7 f | wc -l') >"$work/out" 2>&1
    equal "... commands run there by the copy" \
        "$(cat "$work/out") $(grep -c '"placed": "ssh://' "$work/report")" "$(grep -c 7 "$data/f") 2"
    "$build/ferry" deploy --remove "$place" >"$work/out" 2>"$work/err"
    equal "... ferry deploy --remove" "$? $(cat "$work/err") $(find "$work/home-$host" -type f)" "0  "
done
finish
