#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Deferred calls are not noticed: programs that touch operands in every way see
# with `ferry run --defer' what they see without, and calls are deferred. Random
# sequences: FERRY_DEFER_RANDOM of them (default 12), from FERRY_DEFER_SEED.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
builddir=${FERRY_BUILDDIR:-$srcdir/_build}
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/baddevice/ferry.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
touch=$builddir/tests/defer/touch
random=$builddir/tests/defer/random
ferry=$builddir/ferry
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

[ -x "$touch" ] && [ -x "$random" ] && [ -x "$ferry" ] || skip_all "not built"

# deferred OPTION... -- PROGRAM ARGUMENT...
deferred()
{
    "$ferry" run --no-discover --device host --force --defer --explain \
        --annotations "$srcdir/tests/defer/vec.ferry" "$@"
}

# What deferring takes is asked of the kernel, not of ferry: userfaultfd(2) with
# events, and Linux 6.11. Without it results must be right all the same.
able=true
why=$(python3 - <<'PYTHON' 2>&1
import ctypes, fcntl, os, struct, sys
major, minor = map(int, os.uname().release.split("-")[0].split(".")[:2])
if (major, minor) < (6, 11):
    sys.exit("needs Linux 6.11")
call = {"x86_64": 323, "aarch64": 282}[os.uname().machine]
fd = ctypes.CDLL(None).syscall(call, os.O_CLOEXEC | os.O_NONBLOCK)
if fd < 0:
    sys.exit("userfaultfd(2) is not allowed")
try:  # UFFDIO_API with events of fork, remap, remove and unmap
    fcntl.ioctl(fd, 0xc018aa3f, struct.pack("QQQ", 0xaa, 2 | 4 | 8 | 64, 0))
except OSError as error:
    sys.exit("events of userfaultfd: " + error.strerror)
PYTHON
) || able=false

# same NAME PROGRAM ARGUMENT...
same()
{
    name=$1
    shift
    "$@" >"$work/same" 2>&1
    echo $? >"$work/same.status"
    deferred -- "$@" >"$work/out" 2>"$work/explain"
    echo $? >"$work/out.status"
    alike "$name" "$work/same" "$work/out"
}

# Cases in which nothing is to be deferred; also those that say nothing of it.
for name in $("$touch"); do
    same "$name" "$touch" "$name"
    if ! $able; then
        skip "$name: deferred" "$why"
        continue
    fi
    count=$(grep -c '(deferred)' "$work/explain")
    case $name in
    other-memory)
        if [ "$count" = 0 ]; then ok "$name: nothing deferred"; else not_ok "$name: $count"; fi ;;
    *)
        if [ "$count" != 0 ]; then ok "$name: deferred"; else not_ok "$name: nothing deferred"; fi ;;
    esac
done

if $able; then
    # The chain of three: two inputs in once, one result out once, nothing else.
    deferred -- "$touch" write-output >/dev/null 2>"$work/explain"
    bytes=$(sed -n 's/.*forced by a touch: 3 calls, \([0-9]*\) bytes in, \([0-9]*\) out.*/\1 \2/p' "$work/explain")
    pages=$(((300000 * 8 - 4080) / 4096)) # whole ones of a vector, 16 bytes into one
    if [ "$bytes" = "$((2 * pages * 4096)) $((pages * 4096))" ]; then
        ok "a chain moves its inputs and its result once"
    else
        sed 's/^/# /' "$work/explain"
        not_ok "a chain moves its inputs and its result once: $bytes"
    fi
    # `finite': looked at when it is called.
    deferred -- "$touch" clean >/dev/null 2>"$work/explain"
    if grep -q '^vec_add .*(deferred)' "$work/explain" &&
        ! grep -q '^vec_clean .*(deferred)' "$work/explain"; then
        ok "a function that looks at its input is not deferred"
    else
        sed 's/^/# /' "$work/explain"
        not_ok "a function that looks at its input is not deferred"
    fi
    # Who moved what: inputs by who reads them first, results by who writes last.
    "$ferry" run --no-discover --device host --force --defer --report="$work/report" \
        --annotations "$srcdir/tests/defer/vec.ferry" -- "$touch" write-output >/dev/null
    counts=$(python3 - "$work/report" <<'PYTHON'
import json, sys
rows = {f["name"]: f for f in json.load(open(sys.argv[1]))["functions"]}
print(*(f"{n} {rows[n]['bytes_in']} {rows[n]['bytes_out']}" for n in
        ("vec_add", "vec_mul", "vec_sqrt")), sep="; ")
PYTHON
    )
    equal "bytes belong to the functions that moved them" "$counts" \
        "vec_add $((2 * pages * 4096)) 0; vec_mul 0 0; vec_sqrt 0 $((pages * 4096))"
    # A device that fails leaves the result to the originals.
    baddevice_ferry "$work/bad"
    for row in "fail:40 passed-on" "every:97,late:1 passed-on" "fail:40 kept-old"; do
        fault=${row% *}
        "$touch" "${row#* }" >"$work/plain"
        BADDEVICE=$fault ferry=$work/bad/ferry deferred -- "$touch" "${row#* }" >"$work/out" 2>"$work/explain"
        if cmp -s "$work/plain" "$work/out" && grep -q 'by the originals' "$work/explain"; then
            ok "$row"
        else
            sed 's/^/# /' "$work/explain"
            not_ok "$row"
        fi
    done
else
    skip "what is deferred moves once, and is undone" "$why"
fi

library=$builddir/tests/defer/.libs/libvec.so
same "a library that is closed" "$builddir/tests/defer/unloaded" "$library"
if $able; then
    equal "a library that is closed: deferred" "$(grep -c '(deferred)' "$work/explain")" 2
else
    skip "a library that is closed: deferred" "$why"
fi
# Of the system, at a fixed address; others have no NumPy.
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    same "NumPy" /usr/bin/python3 "$srcdir/tests/defer/array.py" "$library"
    if $able; then
        # One line for each function: all of its calls went the same way.
        equal "NumPy: deferred" "$(grep -c '^vec_.*(deferred)' "$work/explain") $(grep -c '^vec_.*(whole)' "$work/explain")" "3 0"
    else
        skip "NumPy: deferred" "$why"
    fi
else
    skip "NumPy" "/usr/bin/python3 has no NumPy"
fi

seed=${FERRY_DEFER_SEED:-1}
last=$((seed + ${FERRY_DEFER_RANDOM:-12}))
while [ "$seed" -lt "$last" ]; do
    "$random" "$seed" 300 >"$work/plain" 2>&1
    deferred --chunk "random:$seed" -- "$random" "$seed" 300 >"$work/out" 2>"$work/explain"
    alike "random $seed" "$work/plain" "$work/out" "$work/explain"
    seed=$((seed + 1))
done
finish
