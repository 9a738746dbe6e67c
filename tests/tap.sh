# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
# TAP for shell tests: source it, call ok or not_ok for each result, and
# finish at the end. The exit status is for automake: 0, 1, or 77 (all skipped).
tap_count=0
tap_failed=0

# ok NAME
ok()
{
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $*"
}

# not_ok NAME; details go to the output before it
not_ok()
{
    tap_count=$((tap_count + 1))
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $*"
    [ -z "${FERRY_TEST_STOP-}" ] || finish # tests/mutants wants to know no more
}

# skip NAME REASON
skip()
{
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# skip_all REASON
skip_all()
{
    echo "1..0 # SKIP $*"
    exit 77
}

# empty NAME TEXT: ok when TEXT is empty, else TEXT is the finding
empty()
{
    if [ -z "$2" ]; then
        ok "$1"
    else
        echo "$2" | sed 's/^/# /'
        not_ok "$1"
    fi
}

# equal NAME GOT WANTED
equal()
{
    if [ "$2" = "$3" ]; then
        ok "$1"
    else
        printf '# got:    %s\n# wanted: %s\n' "$2" "$3"
        not_ok "$1"
    fi
}

finish()
{
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
    exit $?
}
