#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Manual pages pass mandoc's lint, and say what the program says.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
ferry=${FERRY_BUILDDIR:-.}/ferry
. "$srcdir/tests/tap.sh"

for page in "$srcdir"/docs/*.[1-9]; do
    name=$(basename "$page")
    if command -v mandoc >/dev/null; then
        # A missing page that another ferry page names is no error of style.
        empty "$name: mandoc -Tlint" \
            "$(mandoc -Tlint -Wwarning "$page" 2>&1)"
    else
        skip "$name: mandoc -Tlint" "mandoc is not installed"
    fi
done

[ -x "$ferry" ] || { not_ok "ferry is built"; finish; }
for subcommand in run shell mount umount proxy check verify explain report doctor calibrate; do
    page=$srcdir/docs/ferry-$subcommand.1
    help=$("$ferry" $subcommand --help 2>&1)
    equal "ferry $subcommand --help succeeds" "$?" 0
    missing=
    for option in $(echo "$help" | grep -oE '^  --[a-z]+' | sort -u); do
        name=${option#--}
        grep -qE "(Fl Fl $name\\b|\\\\-\\\\-$name|-$name)" "$page" ||
            missing="$missing $option"
    done
    empty "ferry-$subcommand.1 has every option of --help" "$missing"
    "$ferry" --help | grep -q "^  ferry $subcommand\\b" &&
        ok "ferry --help lists $subcommand" || not_ok "ferry --help lists $subcommand"
    for completion in ferry _ferry; do
        grep -q "$subcommand" "$srcdir/tools/completion/$completion" &&
            ok "completion $completion knows $subcommand" ||
            not_ok "completion $completion knows $subcommand"
    done
done
"$ferry" explain | sed -n 's/^  \([a-z-]*\) .*/\1/p' | while read -r reason; do
    grep -q "$reason" "$srcdir/docs/ferry-explain.1" || echo "$reason"
done >"${TMPDIR:-/tmp}/ferry-reasons.$$"
empty "ferry-explain.1 has every reason" "$(cat "${TMPDIR:-/tmp}/ferry-reasons.$$")"
rm -f "${TMPDIR:-/tmp}/ferry-reasons.$$"
finish
