#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shell scripts pass shellcheck, Python ones compile and know the names that they
# use, completions load, and tests/standin judges each script.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
. "$srcdir/tests/tap.sh"
cd "$srcdir" || exit 1

scripts=$(find check quickstart autogen.sh .ci tests bench demo -type f 2>/dev/null |
    while read -r file; do
        head -n 1 "$file" | grep -qE '^#!.*\b(ba)?sh$' && echo "$file"
    done)
if command -v shellcheck >/dev/null; then
    for script in $scripts; do
        empty "shellcheck $script" \
            "$(shellcheck -f gcc -S warning -e SC1091 "$script")"
    done
else
    skip "shellcheck" "shellcheck is not installed"
fi

for shell in bash zsh; do
    completion=tools/completion/$([ $shell = bash ] && echo ferry || echo _ferry)
    if command -v $shell >/dev/null; then
        empty "$shell reads its completion" "$($shell -n "$completion" 2>&1)"
    else
        skip "$shell reads its completion" "$shell is not installed"
    fi
done

scripts=$(find tests bench demo -type f |
    while read -r file; do
        case $file in
            *.py) echo "$file" ;;
            *) head -n 1 "$file" | grep -aqE '^#!.*\bpython3$' && echo "$file" ;;
        esac
    done)
# shellcheck disable=SC2086
empty "python3 compiles every script" "$(python3 -c '
import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path, encoding="utf-8").read(), path)' $scripts 2>&1)"
if command -v pyflakes3 >/dev/null; then
    # shellcheck disable=SC2086
    empty "Python scripts know each name that they use" \
        "$(pyflakes3 $scripts 2>&1 | grep -i undefined)"
else
    skip "Python scripts know each name that they use" "pyflakes3 is not installed"
fi
empty "each script has a row in tests/standin/run" "$(python3 tests/standin/run --rows)"
finish
