#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Folders of runs that were killed: a later run removes them, and nothing else.
. "${srcdir:-.}/tests/tap.sh"
ferry=$FERRY_BUILDDIR/ferry
TMPDIR=$(mktemp -d) || exit 1
export TMPDIR
cd "$TMPDIR" || exit 1
trap 'rm -rf "$TMPDIR"' EXIT

# check NAME COMMAND...
check()
{
    name=$1
    shift
    if "$@"; then
        ok "$name"
    else
        find . | sed 's/^/# /'
        not_ok "$name"
    fi
}

# How many folders with six letters after the name there are.
folders()
{
    find . -maxdepth 1 -type d -name 'ferry-held-??????' | wc -l
}

run() { "$ferry" run --no-discover --report=/dev/null -- "$@"; }

equal "a run prints and returns what its program does" \
    "$(run sh -c 'echo said; exit 3'; echo $?)" "said
3"
# One that lives, one that was killed.
"$ferry" run --no-discover --report=/dev/null -- sleep 9999 &
alive=$!
waited=0
until [ "$(folders)" = 1 ] || [ $waited -ge "$(patient 600)" ]; do
    sleep 0.1
    waited=$((waited + 1))
done
check "a run makes a folder" test "$(folders)" = 1
# shellcheck disable=SC2016
run sh -c 'kill -KILL $PPID'
check "a killed run leaves its folder" \
    test "$(folders)" = 2

# What only has the name.
mkdir -m 700 ferry-run-abcdef # of a ferry that did not lock: it may live
mkdir ferry-held-seen-by-all ferry-held-with-folder ferry-held-with-folder/sub elsewhere
chmod 755 ferry-held-seen-by-all
chmod 700 ferry-held-with-folder
echo kept >elsewhere/file
chmod 700 elsewhere
ln -s "$TMPDIR/elsewhere" ferry-held-link
echo kept >ferry-held-file
run true
check "the next run removes it, and not the living one's" \
    test "$(folders)" = 1
check "a folder that others may look into is nobody's of ours" \
    test -d ferry-held-seen-by-all
check "a folder of an older ferry is left alone" test -d ferry-run-abcdef
check "folders in it are not looked into" test -d ferry-held-with-folder/sub
check "no link is followed" test -f elsewhere/file
check "a file is no folder" test -f ferry-held-file
kill "$alive"
wait "$alive" 2>/dev/null
check "the living one ends as ever" \
    test "$(folders)" = 0
finish
