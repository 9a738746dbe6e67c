#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy 14 over every C file, with the flags the build compiles it
# with (make says them; files that scripts compile get the common ones).
# .clang-tidy files of the folders say what is not asked of them, and why.
# Slow, so not part of `make check': ./check --full calls it, or by hand
#     FERRY_BUILDDIR=_build tests/style/tidy.sh [FILE...]
srcdir=$(cd "${FERRY_SRCDIR:-$(dirname "$0")/../..}" && pwd)
builddir=$(cd "${FERRY_BUILDDIR:-$srcdir/_build}" && pwd) || exit 1

tidy=$(command -v clang-tidy-14 || command -v clang-tidy)
if [ -z "$tidy" ]; then
    echo "skipped: clang-tidy is not installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

cd "$srcdir" || exit 1
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046
    set -- $(find common annotations pager proxy shim tools tests bench demo \
        -name '*.c' | sort)
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# What make would run, were every C file new.
# shellcheck disable=SC2046
(cd "$builddir" && make -nk V=1 check $(find "$srcdir/common" \
    "$srcdir/annotations" "$srcdir/pager" "$srcdir/proxy" "$srcdir/shim" \
    "$srcdir/tools" \
    "$srcdir/tests" "$srcdir/bench" -name '*.c' |
    sed "s,^$srcdir/,-W $(sed -n 's/^srcdir = //p' Makefile)/,")) \
    >"$work/make" 2>/dev/null
common="-DHAVE_CONFIG_H -D_GNU_SOURCE -I$builddir -I$srcdir -std=gnu11"

# A database of compilations: the flags that change what a file means.
{
    echo '['
    comma=
    for file in "$@"; do
        flags=$(grep -E -- " -c .*[/'\` ]$file( |\$)" "$work/make" |
            head -n 1 | grep -oE -- " -([DIUO][^ ]*|std=[^ ]*)" | tr -d '\n' |
            sed 's/\\/\\\\/g; s/"/\\"/g')
        printf '%s{"directory":"%s","file":"%s","command":"cc %s -c %s"}\n' \
            "$comma" "$builddir" "$srcdir/$file" "${flags:-$common}" \
            "$srcdir/$file"
        comma=,
    done
    echo ']'
} >"$work/compile_commands.json"

mkdir "$work/out"
# shellcheck disable=SC2016
printf '%s\n' "$@" | xargs -P 2 -I FILE sh -c '
    log=$3/out/$(echo "$4" | tr / :)
    timeout 600 "$1" --quiet -p "$3" "$2/$4" >"$log" 2>"$log.err" ||
        echo "$4: clang-tidy failed" >>"$log"
    grep -q . "$log" || rm "$log"' sh "$tidy" "$srcdir" "$work" FILE

failed=0
for file in "$@"; do
    log=$work/out/$(echo "$file" | tr / :)
    [ -e "$log" ] || continue
    failed=$((failed + 1))
    echo "FAILED  $file"
    sed "s,$srcdir/,,g" "$log"
done
echo "$(($# - failed)) passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
