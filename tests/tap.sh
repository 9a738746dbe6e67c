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

# patient SECONDS: how long to wait here for an event that takes SECONDS at most on a
# quiet machine, in whole seconds (FERRY_PATIENCE, see tests/patience.py)
patient()
{
    awk -v n="$1" -v by="${FERRY_PATIENCE:-1}" \
        'BEGIN { printf "%d\n", n * (by >= 1 && by <= 20 ? by : 1) }'
}

# kept FILE COMMAND...: a run; its output in FILE, errors in FILE.err, FILE.status
kept()
{
    tap_file=$1
    shift
    "$@" >"$tap_file" 2>"$tap_file.err" </dev/null
    echo "$?" >"$tap_file.status"
}

# alike NAME PLAIN OTHER [SAID]: ok when two runs did the same: output, and what there
# is of PLAIN.err and PLAIN.status; else shown with the end of the file SAID.
alike()
{
    for tap_what in "" .err .status; do
        [ -e "$2$tap_what" ] || continue
        cmp -s "$2$tap_what" "$3$tap_what" && continue
        diff "$2$tap_what" "$3$tap_what" 2>&1 | head -n 20 | sed 's/^/# /'
        [ -z "${4-}" ] || tail -n 4 "$4" | cut -c 1-200 | sed 's/^/# /'
        not_ok "$1${tap_what:+: ${tap_what#.}}"
        return 1
    done
    ok "$1"
}

finish()
{
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
    exit $?
}
