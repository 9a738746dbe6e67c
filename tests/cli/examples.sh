#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every command line that the manual pages show as an example runs, and does what it
# does without ferry. Its folders and hosts are this test's.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
builddir=$(cd "${FERRY_BUILDDIR:-.}" && pwd)
srcdir=$(cd "$srcdir" && pwd)
. "$srcdir/tests/tap.sh"
[ -x "$builddir/ferry" ] || { not_ok "ferry is built"; finish; }
case $FERRY_SANITIZED in ?*) skip "examples" "sanitized libraries cannot be preloaded"; finish ;; esac

work=$(mktemp -d "${TMPDIR:-/tmp}/ferry-examples-XXXXXX")
trap '"$builddir/ferry" umount --force "$work/storage" 2>/dev/null; rm -rf "$work"' EXIT
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config" SHELL=/bin/sh
mkdir -p "$HOME" "$work/mnt/logs" "$work/plain" "$work/storage"
for i in 1 2 3; do
    printf 'a b %s ERROR\nc d e fine\n' "$i"
done >"$work/mnt/logs/app.log"
cd "$work" || exit 1
cp "$work/mnt/logs/app.log" "$srcdir/annotations/lib/commands/search.ferry" .
cat >mylib.ferry <<'EOF'
function void triple(int n, const double *x, double *y)
{
    require n > 0 else empty;
    axis n split;
    in x[n];
    out y[n];
    exact;
}
EOF
cat >mylib.c <<'EOF'
void triple(int n, const double *x, double *y)
{
    for (int i = 0; i < n; i++)
        y[i] = 3 * x[i];
}
EOF
cat >program.c <<'EOF'
void triple(int n, const double *x, double *y);
int main(void)
{
    double x[100] = {1, 2}, y[100];
    triple(100, x, y);
    return y[1] != 6;
}
EOF
: >script.py
${CC:-cc} -shared -fPIC -o libmylib.so mylib.c &&
    ${CC:-cc} -o program program.c -L. -lmylib -Wl,-rpath,"$work" || exit 1

# plain LINE: the command of an example without ferry; nothing: there is none.
plain()
{
    printf '%s\n' "$1" | sed -n 's/^ferry \(run\|explain\|verify\) .*-- \(.*\)/\2/p'
}

count=0
for page in "$srcdir"/docs/*.1; do
    name=$(basename "$page")
    sed -n 's/^\.Dl \(ferry .*\)/\1/p' "$page" >lines
    while read -r line; do
        case $line in
            *" storage:"* | */mnt/storage*)
                [ -x "$builddir/ferry-mount" ] && [ -w /dev/fuse ] || {
                    skip "$name: $line" "no libfuse3 or no /dev/fuse"
                    continue
                } ;;
        esac
        case $line in
            "ferry shell"*) line="echo 'wc -l /mnt/logs/app.log' | $line" ;;
        esac
        here=$(printf '%s\n' "$line" | sed "s# storage:/srv# loopback://$work/mnt#; s#loopback:///srv#loopback://$work/mnt#
            s#/mnt/storage#$work/storage#; s#ssh://storage/srv#loopback://$work/mnt#g; s#/mnt/logs#$work/mnt/logs#g
            s#$work$work#$work#g")
        sh -c "PATH=$builddir:\$PATH; $here" >out 2>err </dev/null
        equal "$name: $line: its status" "$?" 0
        count=$((count + 1))
        original=$(plain "$here")
        if [ -n "$original" ]; then
            sh -c "$original" >expected 2>/dev/null </dev/null
            equal "$name: $line: its output" "$(cat out)" "$(cat expected)"
        elif [ "$line" != "${line#echo}" ]; then
            equal "$name: $line: its output" "$(cat out)" "6 $work/mnt/logs/app.log"
        elif [ ! -s out ] && [ ! -s err ] && [ "$line" = "${line#ferry umount}" ]; then
            not_ok "$name: $line: it says something"
        fi
    done <lines
done
[ "$count" -ge 11 ] && ok "$count examples" || not_ok "$count examples: 11 are expected at least"
finish
