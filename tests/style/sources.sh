#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the house rules say of the sources that a machine can check: format,
# licence lines, length, and nothing generated in git.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
. "$srcdir/tests/tap.sh"
cd "$srcdir" || exit 1

folders="common annotations pager proxy shim tools tests bench demo"
present=$(for folder in $folders; do [ -d "$folder" ] && echo "$folder"; done)
# shellcheck disable=SC2086
# What bison and flex made of an in-tree build is nobody's style.
c_files=$(find $present -name '*.[ch]' ! -name '*.tab.[ch]' ! -name '*.lex.c' | sort)

if command -v clang-format-14 >/dev/null && [ -f .clang-format ]; then
    # shellcheck disable=SC2086
    empty "clang-format 14 changes nothing" \
        "$(clang-format-14 --dry-run $c_files 2>&1 | grep -F '[-Wclang-format' |
            sort | awk -F: '!seen[$1]++')"
else
    skip "clang-format 14 changes nothing" "clang-format-14 is not installed"
fi

# shellcheck disable=SC2086
empty "every source names its licence in the first three lines" "$(
    for file in $c_files $(find $present -name '*.sh' -o -name '*.py' \
        -o -name '*.ferry' -o -name '*.[lyS]' -o -name '*.mk'); do
        head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
            echo "$file"
    done)"

# shellcheck disable=SC2086
empty "no source is longer than 600 lines without saying why" "$(
    # Tables of tests (*.test) are data.
    # shellcheck disable=SC2046
    for file in $c_files $(find $present -name '*.[lyS]') check quickstart \
        $(grep -lIr '^#!/' $present); do
        lines=$(wc -l <"$file")
        [ "$lines" -gt 600 ] && ! head -n 30 "$file" | grep -qi 'long because' &&
            echo "$file: $lines lines"
    done)"

empty "every lock of shim/ and pager/ has a row in docs/ARCHITECTURE.md" "$(
    sed -n '/^## Locks/,/^## Verification/p' docs/ARCHITECTURE.md >"${TMPDIR:-/tmp}/locks.$$"
    grep -lE '^ *(static )?(pthread_mutex_t|pthread_rwlock_t|pthread_spinlock_t|struct fy_brief) [a-z_]+( =|;)|^static .*lock_word;' \
        -r shim pager --include='*.[ch]' | while read -r file; do
        grep -qF "\`$file\`" "${TMPDIR:-/tmp}/locks.$$" || echo "$file"
    done
    rm -f "${TMPDIR:-/tmp}/locks.$$")"

empty "every mutant that a list of tests has stands in its source" "$(
    python3 tests/mutants --same 2>&1)"

# A machine's own paths, and the words nobody wants to find later.
empty "no path of a developer's machine in the sources" "$(
    # shellcheck disable=SC2086
    grep -rnE '/(home|root|work)/[a-z]' $present --include='*.[chSly]' \
        --include='*.ferry' --include='*.py' --include='*.mk' |
        grep -v 'tests/style/sources.sh')"

# include <...> order and the like are clang-format's; config.h comes first.
empty "every C file of the product includes config.h first" "$(
    # shellcheck disable=SC2044
    for file in $(find common annotations pager proxy shim tools -name '*.c'); do
        first=$(grep -m 1 -E '^#[[:space:]]*include' "$file")
        case $first in '' | '#include "config.h"') ;; *) echo "$file: $first" ;; esac
    done)"

# "!= NULL" stands only where the result is a number.
empty "a pointer is compared as a truth value" "$(
    grep -rnE '== NULL' common annotations pager proxy shim tools --include='*.[chly]')"

if git rev-parse --git-dir >/dev/null 2>&1 && [ -e .git ]; then
    empty "nothing generated is in git" "$(
        git ls-files | grep -E '(^|/)(Makefile\.in|configure|aclocal\.m4|config\.h\.in|ltmain\.sh)$|\.(o|lo|la|so|a|log|trs|pyc)$')"
    empty "no tracked file is larger than 200 kB" "$(
        git ls-files -z | xargs -0 -r ls -l 2>/dev/null | awk '$5 > 200000 { print $9, $5 }')"
else
    skip "nothing generated is in git" "not a git clone"
    skip "no tracked file is larger than 200 kB" "not a git clone"
fi
finish
