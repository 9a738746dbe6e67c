#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ./check tells what failed, with the lines that say why, and names it once more
# in its last lines: of a run elsewhere often nothing else is kept. Runs its
# functions on logs made here.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
. "$srcdir/tests/tap.sh"
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/tests"
cp "$srcdir/tests/limited" "$srcdir/tests/speed" "$srcdir/tests/patience.py" "$folder/tests"
cat >"$folder/tests/skips" <<'end'
# What is expected here.
*: needs libcheck  if  true
some x: no zsh  if  test -e /proc
*: time  if  true
*: no such thing  if  ! test -e /proc
*: nothing new  if  linux 2.6 && ! linux 99.1
end

# try COMMAND...: the closing part of a run that has done just this, without a second
# look at what failed (`looks': with it).
try()
{
    sed '$d' "$srcdir/check" >"$folder/check"
    [ -n "${looks-}" ] || echo "last=0" >>"$folder/check"
    printf '%s\n' 'source=$root' "$@" finish >>"$folder/check"
    said=$(bash "$folder/check" 2>&1)
    status=$?
}

# said_in LINES NAME TEXT...: these stand in the last LINES, this way round.
said_in()
{
    local lines=$1 name=$2 rest
    shift 2
    rest=$(tail -n "$lines" <<<"$said")
    for text; do
        case $rest in
            *"$text"*) rest=${rest#*"$text"} ;;
            *)
                echo "# no '$text' in:"
                sed 's/^/#   /' <<<"$said"
                not_ok "$name"
                return
                ;;
        esac
    done
    ok "$name"
}

[ "$(tail -n 1 "$srcdir/check")" = main ] || {
    not_ok "check ends by calling main"
    finish
}
build=$folder/build
mkdir "$build"
# log NAME RESULT: a test's log and its result, as automake leaves them
log()
{
    { cat; echo "$2 $1 (exit status: 1)"; } >"$build/$1.log"
    echo ":global-test-result: $2" >"$build/$1.trs"
}
{
    echo "ok 1 - good"
    echo "# before it"
    echo "not ok 2 - the early one"
    echo "# because of this"
    seq -f 'ok %g - of many' 3 80
    echo 1..80
} | log tap.py FAIL
printf '%s\n' 'Running suite(s): x' '66%: Checks: 3, Failures: 1, Errors: 0' \
    'x.c:77:F:core:test_it:0: Assertion failed' | log unit FAIL
printf '%s\n' 'ok 1 - fine' 'Segmentation fault' | log died FAIL
printf '%s\n' 'ok 1 - fine' | log good PASS

try "sum_up plain $build 0"
equal "status of a failing run" "$status" 1
equal "counts" "$(tail -n 1 <<<"$said")" "83 passed, 3 failed, 0 skipped"
said_in 999 "what stands around it" "# before it" "not ok 2 - the early one" \
    "# because of this" " s" passed,
equal "what was good is not repeated" "$(grep -c 'of many' <<<"$said")" 0
said_in 5 "names at the end" " s" "plain died.log: Segmentation" \
    "plain tap.py.log: not ok 2 - the early one" "plain unit.log: x.c:77:F:" \
    "83 passed, 3 failed"
try "script some printf '%s\\n' 'FAIL  x (2 s): wrong' '1 passed, 1 failed, 0 skipped'"
said_in 3 "a script's" " s" "some: FAIL  x (2 s): wrong" "1 passed, 1 failed"
try "script none sh -c 'echo nothing; exit 3'"
said_in 3 "a script that breaks off" "status 3" "0 passed, 1 failed"
try "tap some printf '%s\\n' 'not ok 1 - x' '# why' 'ok 2 - y'"
said_in 999 "a TAP program's reason" "not ok 1 - x" "# why" "some: not ok 1 - x"
try "step build false || add 0 1 0"
said_in 3 "a step's" " s" build "1 failed"
seq -f 'not ok %g - x' 40 | log tap.py FAIL
try "sum_up plain $build 0"
said_in 20 "many" " s" "not ok 9 - x" "... and 27 more" "4 passed, 42 failed"
# What is skipped as a whole is named with its reason.
build=$folder/less
mkdir "$build"
for name in unit/test_a unit/test_b; do
    mkdir -p "$build/unit"
    printf '%s\n' 'needs libcheck' | log $name.absent SKIP
done
printf '%s\n' 'ok 1 - fine' | log good PASS
try "sum_up plain $build 0" \
    "script some printf '%s\\n' 'skip x: no zsh' '1 passed, 0 failed, 1 skipped'"
said_in 4 "skipped suites at the end" " s" \
    "skipped 2, needs libcheck: plain unit/test_a, plain unit/test_b" \
    "skipped 1, no zsh: some x" "2 passed, 0 failed, 3 skipped"
equal "skips that are expected fail nothing" "$status" 0
# Any other does: of a Check program, by TAP, of a script.
mkdir "$folder/others"
build=$folder/others
printf '%s\n' 'skip test_it_fn: no such thing' 'skip old: nothing new' \
    '100%: Checks: 3, Failures: 0, Errors: 0' | log unit PASS
printf '%s\n' 'ok 1 - fine' 'ok 2 - a name # SKIP for no reason' | log tap.sh PASS
printf '%s\n' '1..0 # SKIP not built' | log gone.sh SKIP
try "sum_up plain $build 0" \
    "script other printf '%s\n' 'skip x: no zsh' '1 passed, 0 failed, 1 skipped'" \
    "script mute echo 0 passed, 0 failed, 1 skipped"
said_in 15 "skips that are not expected are failures" \
    "(tests/skips): plain gone.sh: not built" \
    "(tests/skips): plain tap.sh a name: for no reason" \
    "(tests/skips): plain unit test_it_fn: no such thing" \
    "(tests/skips): other x: no zsh" "(tests/skips): mute: no reason is told" \
    "3 passed, 5 failed, 6 skipped"
# What hangs is ended, with all it started, and shown; what comes after it, too.
try seconds="$(patient 3)" last=0 "script first sh -c 'setsid sleep 8765.$$ & sleep 8764.$$'" \
    "script next sleep 8763.$$"
said_in 999 "what hung is shown" ", sleep, S, " ": sleep 8764.$$" \
    "not ok - no end within " " s: sh -c setsid sleep 8765.$$" \
    "not ok - no end within " " s: sleep 8763.$$"
said_in 4 "and has failed" " s" "first: status 124" "next: status 124" \
    "0 passed, 2 failed, 0 skipped"
equal "nothing of it is left" "$(pgrep -fcx "sleep 876[345]\.$$")" 0
mkdir "$folder/slow"
cat >"$folder/slow/Makefile" <<'end'
all:
check:
	echo ok 1 - x >x.log; echo ':global-test-result: PASS' >x.trs; sleep 8766
end
try seconds="$(patient 3)" "source=$folder; mkdir -p \$out/slow; touch \$out/slow/config.status" \
    "cp $folder/slow/Makefile \$out/slow/Makefile" "tests slow"
said_in 4 "a stage that is ended has failed, and the tests that passed have passed" \
    " s" "slow: not ok - no end within" "1 passed, 1 failed, 0 skipped"
# Stages beside each other: what they say in one piece, what they count in one sum.
try lanes=2 running=0 started=0 \
    "stage script long sh -c 'sleep $(patient 1); echo not ok 1 - late; echo 1 passed, 1 failed, 0 skipped'" \
    "stage script quick echo 2 passed, 0 failed, 0 skipped" \
    "stage script last echo 4 passed, 0 failed, 0 skipped" wait
said_in 9 "stages at a time" "quick" "long: not ok 1 - late" "7 passed, 1 failed"
# What draws its cases shares what is left of 1,000 s, less 300 s for the last cases.
printf '%s\n' 'echo "$1 passed, 0 failed, 0 skipped"' >"$folder/share"
try lanes=1 running=0 started=0 seconds=1000 \
    "drawn_stages() { row script one sh $folder/share SECONDS
        row script two sh $folder/share SECONDS; }" draw wait
shares=$(sed -nE 's/^(.* )?([0-9]+) passed.*/\2/p' <<<"$said" | tr '\n' ' ')
read -r one two sum <<<"$shares"
if [ "$((one >= 250 && one <= 290 && two > 2 * one && two <= 640))" = 1 ] &&
    [ "$sum" = $((one + two)) ]; then
    ok "stages that draw share the time that is left"
else
    not_ok "stages that draw share the time that is left: $shares"
fi
equal "a test in a stage has its signals" "$(cat >"$folder/signals" <<<'trap "echo said" INT
    kill -INT $$
    echo 1 passed, 0 failed, 0 skipped'
    try lanes=1 running=0 started=0 "stage script signals sh $folder/signals" wait
    cat "$folder/_build-check/signals.log")" "said
1 passed, 0 failed, 0 skipped"
# A second look: what failed runs again, alone; what passes then is unstable.
looks=yes
cat >"$folder/third" <<'end'
echo x >>"$1"
if [ "$(wc -l <"$1")" -lt "$2" ]; then echo 'not ok 1 - early'; exit 1; fi
echo 'ok 1 - early'
end
rm -f "$folder/times"
try "tap third sh $folder/third $folder/times 3" "tap fine echo ok 1 - x"
said_in 2 "the third time is good enough" "unstable: third: not ok 1 - early" \
    "2 passed, 0 failed, 0 skipped"
equal "status of a run with an unstable test" "$status $(wc -l <"$folder/times")" "0 3"
rm -f "$folder/times"
try "tap third sh $folder/third $folder/times 4"
said_in 3 "the fourth is not" " s" "third: not ok 1 - early" "0 passed, 1 failed, 0 skipped"
equal "status of a run with a failed test" "$status $(wc -l <"$folder/times")" "1 3"
# A script runs only the cases again that failed, and keeps what else it counted.
cat >"$folder/cases" <<'end'
if [ -n "${FERRY_TEST_ONLY-}" ]; then
    echo "again: $(cat "$FERRY_TEST_ONLY")"
    echo '1 passed, 0 failed, 0 skipped'
else
    echo 'skip x: no zsh'
    echo 'not ok - a case'
    echo 'a case' >>"$FERRY_TEST_FAILED"
    echo '7 passed, 1 failed, 1 skipped'
    exit 1
fi
end
try "script some sh $folder/cases"
said_in 2 "a script's cases" "unstable: some: not ok - a case" "8 passed, 0 failed, 1 skipped"
equal "only these run" "$(grep again: "$folder/_build-check/some.log")" "again: a case"
# A test of make check.
mkdir -p "$folder/_build-check/made"
cat >"$folder/_build-check/made/Makefile" <<'end'
check-TESTS:
	echo ok 1 - $(TESTS) >$(TESTS).log; echo ':global-test-result: PASS' >$(TESTS).trs
end
build=$folder/_build-check/made
printf '%s\n' 'ok 1 - fine' 'not ok 2 - bad' | log x FAIL
try "sum_up made \$out/made 0"
said_in 2 "a test of make check" "unstable: made x.log: not ok 2 - bad" \
    "1 passed, 0 failed, 0 skipped"
try last=0 "sum_up made \$out/made 0" "script some sh $folder/cases"
said_in 3 "no time for a second look: failed" "some: not ok - a case" "8 passed, 1 failed, 1 skipped"
looks=
# What cannot begin in time is skipped and named; too much of it fails the run.
late="export FERRY_TEST_UNTIL=1"
try "for i in 1 2 3 4 5 6 7; do tap early\$i echo ok 1 - x; done" "$late" \
    "script one true" "script two true" "script three true"
said_in 2 "tests that could not begin" "skipped 3, time: one, two, three" \
    "7 passed, 0 failed, 3 skipped"
equal "a run without three of ten tests" "$status" 0
try "tap early echo ok 1 - x" "$late" "script one true"
said_in 4 "a run without half of its tests" "1 of 2 tests could not begin in time" \
    "1 passed, 1 failed, 1 skipped"
equal "... its status" "$status" 1
said=$("$srcdir/tests/speed" 2)
case ${said%% *} in
    [1-9] | 1[0-9] | 20) ok "the machine's factor" ;;
    *) not_ok "the machine's factor: $said" ;;
esac
said=$("$srcdir/tests/limited" --seconds "$(patient 30)" sh -c 'kill -9 $$' 2>&1)
equal "a test's signal is told by its status" "$?" 137
said=$(FERRY_PATIENCE=2 FERRY_TEST_SECONDS=0.5 "$srcdir/tests/limited" sleep 8767)
equal "a test's own limit" "$? $(grep -c 'still running' <<<"$said")" "124 2"
said=$(FERRY_TEST_END=$(($(date +%s) + 1)) "$srcdir/tests/limited" sleep 8767)
equal "the end of a run" "$? $(grep -c 'no end within' <<<"$said")" "124 1"
said=$(FERRY_TEST_UNTIL=1 "$srcdir/tests/limited" echo begun)
equal "no test begins late" "$? $said" "77 1..0 # SKIP time"
said=$(FERRY_TEST_SECONDS=soon "$srcdir/tests/limited" true 2>&1)
equal "a limit that is none" "$? $said" "1 limited: not a number of seconds: soon"
equal "a good run" "$(try true; echo "$status" "$(tail -n 1 <<<"$said")")" \
    "0 0 passed, 0 failed, 0 skipped"
finish
