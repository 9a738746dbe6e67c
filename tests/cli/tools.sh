#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# explain, doctor, verify, calibrate and the report of a real program.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
ferry=${FERRY_BUILDDIR:-.}/ferry
. "$srcdir/tests/tap.sh"
[ -x "$ferry" ] || { not_ok "$ferry is built"; finish; }
ferry=$(realpath "$ferry")
srcdir=$(realpath "$srcdir")

work=$(mktemp -d "${TMPDIR:-/tmp}/ferry-cli-XXXXXX")
trap 'rm -rf "$work"' EXIT
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config"
mkdir -p "$HOME"
cd "$work" || exit 1

# has NAME FILE PATTERN
has()
{
    if grep -q -- "$3" "$2"; then
        ok "$1"
    else
        sed 's/^/# /' "$2" | head -n 20
        not_ok "$1"
    fi
}

"$ferry" explain >out 2>err
equal "explain without a command" $? 0
has "explain knows too-small" out "^  too-small "
has "and reasons of operands" out "^  pinned "

"$ferry" doctor >out 2>err
equal "doctor" $? 0
empty "doctor: nothing on standard error" "$(cat err)"
for word in processor userfaultfd PAGEMAP_SCAN CUDA host engine preload \
    annotations cache configuration calibration libblas.so.3; do
    has "doctor says something of $word" out "^  $word "
done

# The names of the shipped commands are found once and kept in the cache; a kept
# file that is not whole, not private or no list of names is not used.
mkdir mnt
seq 3 >mnt/f
names=$XDG_CACHE_HOME/ferry/names
places()
{
    "$ferry" run --no-discover --force --device none --explain \
        --mount "$work/mnt=loopback://$work/mnt" -- \
        sh -c 'cd mnt; wc -l <f; sort -r f; :' >out 2>err
    equal "$1: output" "$(cat out)" "3
3
2
1"
    equal "$1: placed" "$(grep -c 'at loopback' err)" 2
}
if [ -z "${FERRY_SANITIZED-}" ]; then
    places "no cached names"
    cp "$names" first
    touch -d '2001-01-01' "$names"
    places "cached names"
    equal "they are not found again" "$(stat -c %Y "$names")" \
        "$(date -d 2001-01-01 +%s)"
    for bad in 's/^wc /0\n&/' 's/^wc .*/wc stdin never/' 's/^wc /wc  /'; do
        LC_ALL=C sed "$bad" first >"$names"
        places "cached names changed by $bad"
        cmp -s first "$names"
        equal "names are written again" $? 0
    done
    truncate -s -5 "$names"
    places "cached names that were cut"
    chmod g+w "$names"
    places "cached names that others may write"
fi

# Real programs need a compiler and a BLAS, and an engine without sanitizers.
if [ -n "${FERRY_SANITIZED-}" ]; then
    skip "reports of a real program" "sanitized libraries cannot be preloaded"
    finish
fi
cat >scale.c <<'END'
#include <stdio.h>
void dscal_(const int *, const double *, double *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *,
            const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);
static double a[300 * 300], b[300 * 300], c[300 * 300];
int main(void)
{
    int n = 300, all = 90000, one = 1;
    double two = 2, zero = 0, sum = 0;
    for (int i = 0; i < all; i++)
        a[i] = i % 7, b[i] = i % 5;
    dscal_(&all, &two, a, &one);
    dgemm_("N", "T", &n, &n, &n, &two, a, &n, b, &n, &zero, c, &n);
    for (int i = 0; i < all; i++)
        sum += c[i] * (i % 3);
    printf("%.0f\n", sum);
    return 9;
}
END
if ! ${CC:-cc} -O1 scale.c -o scale -lblas 2>err; then
    skip "reports of a real program" "no compiler or no BLAS to link with"
    finish
fi
./scale >plain
"$ferry" run --device host,memory=256KiB --force --report=r.json --explain -- \
    ./scale >out 2>err
equal "a real program: its exit status" $? 9
equal "a real program: its output" "$(cat out)" "$(cat plain)"
has "its decisions are printed" err "dgemm_.*offloaded"
has "so is the table" err "^dgemm  *1  *1 "
python3 - >out 2>&1 <<'END'
import json
report = json.load(open("r.json"))
assert report["exit_status"] == 9 and report["command"] == ["./scale"]
assert report["device"] == "host" and report["memory_bytes"] == 256 << 10
functions = {f["name"]: f for f in report["functions"]}
assert set(functions) == {"dscal", "dgemm"}, functions
for f in functions.values():
    assert set(f) == {"name", "calls", "offloaded", "declined", "not_kept",
                      "bytes_in", "bytes_out", "kept_bytes", "chunks", "lower_bound_bytes",
                      "original_seconds", "device_seconds", "trials",
                      "trial_seconds"}, f
    assert f["calls"] == 1 and f["offloaded"] == 1 and f["declined"] == {}
    assert f["device_seconds"] > 0 and f["chunks"] > 1
assert functions["dscal"]["bytes_in"] == functions["dscal"]["bytes_out"] == 720000
gemm = functions["dgemm"]
assert gemm["bytes_in"] >= 2 * 720000 and gemm["bytes_out"] >= 720000
assert gemm["lower_bound_bytes"] > 0
END
empty "the JSON report says what happened" "$(cat out)"
"$ferry" report r.json >out
equal "ferry report prints it" $? 0
has "as the same table" out "^dgemm  *1  *1 "
"$ferry" run --device host --report=r.json -- ./scale >out 2>err
python3 - >out 2>&1 <<'END'
import json
for f in json.load(open("r.json"))["functions"]:
    assert f["calls"] == f["offloaded"] + sum(f["declined"].values()), f
END
empty "every call is offloaded or has a reason" "$(cat out)"
"$ferry" run --report=r.json -- ./scale >out 2>err
equal "no device: exit status" $? 9
equal "no device: output" "$(cat out)" "$(cat plain)"
has "no device: the calls are still counted" r.json '"calls": 1'
"$ferry" explain --device none -- ./scale >out 2>err
equal "explain with a command: exit status" $? 9

# The shipped annotations are compiled once: the model is kept in the cache, and
# a kept one that is not whole, not private or of other annotations is not used.
XDG_CACHE_HOME=$work/kept
export XDG_CACHE_HOME
counts()
{
    "$ferry" run --report=r.json -- ./scale >out 2>err
    has "$1: calls are counted" r.json '"calls": 1'
}
model=$XDG_CACHE_HOME/ferry/model
counts "no cached model"
cp "$model" first
touch -d '2001-01-01' "$model"
counts "a cached model"
equal "it is not written again" "$(stat -c %Y "$model")" "$(date -d 2001-01-01 +%s)"
truncate -s 100000 "$model"
counts "a cached model that was cut"
cmp -s first "$model"
equal "it is written again" $? 0
printf 'x' | dd of="$model" bs=1 seek=5000 conv=notrunc 2>/dev/null
counts "a cached model with a changed byte"
chmod g+w "$model"
counts "a cached model that others may write"
XDG_CACHE_HOME=$work/cache

# A user's own annotations.
cat >own.c <<'END'
void own_scale(long n, double f, double *x)
{
    for (long i = 0; i < n; i++)
        x[i] *= f;
}
END
cat >own.ferry <<'END'
# SPDX-License-Identifier: Apache-2.0
# x := f x
function void own_scale(long n, double f, double *x)
{
    require n >= 0;
    axis n split;
    inout x[n: 1];
    flops 1.0 * n;
}
END
cat >use.c <<'END'
#include <stdio.h>
void own_scale(long n, double f, double *x);
static double x[5000];
int main(void)
{
    double sum = 0;
    for (int i = 0; i < 5000; i++)
        x[i] = i;
    own_scale(5000, 3, x);
    for (int i = 0; i < 5000; i++)
        sum += x[i];
    printf("%.0f\n", sum);
    return 0;
}
END
${CC:-cc} -O1 -shared -fPIC own.c -o libown.so &&
    ${CC:-cc} -O1 use.c -o use -L. -lown -Wl,-rpath,"$work"
"$ferry" check own.ferry >out 2>err
equal "check of a user's annotation" $? 0
"$ferry" run --annotations own.ferry --device host,memory=16KiB --force \
    --report=r.json -- ./use >out 2>err
equal "a user's library runs in chunks" "$(cat out)" 37492500
has "and says so" r.json '"name": "own_scale", "calls": 1, "offloaded": 1'

"$ferry" verify own.ferry -- ./use >out 2>err
equal "verify of a right annotation" $? 0
sed 's/inout x/in x/' own.ferry >wrong.ferry
"$ferry" verify wrong.ferry -- ./use >out 2>err
equal "verify of a wrong annotation" $? 3
has "names the line" err "wrong.ferry:7"
"$ferry" verify own.ferry -- sh -c 'exit 4' >out 2>err
equal "verify: the command's own failure" $? 4
"$ferry" verify none.ferry -- ./use >out 2>err
equal "verify: no such file" $? 1

"$ferry" verify own.ferry -- true >out 2>err
equal "verify of nothing" $? 0
has "says so" err "no call"

# A chunk gets a copy of a struct of 256 bytes at most.
for pad in 240 241; do
    cat >holder.h <<END
struct holder { double *x; long n; char pad[$pad]; };
END
    cat >holder.c <<'END'
#include "holder.h"
void own_double(struct holder *h)
{
    for (long i = 0; i < h->n; i++)
        h->x[i] *= 2;
}
END
    cat >hold.c <<'END'
#include <stdio.h>
#include "holder.h"
void own_double(struct holder *h);
static double x[5000];
int main(void)
{
    struct holder h = {x, 5000, ""};
    x[4999] = 21;
    own_double(&h);
    printf("%.0f\n", x[4999]);
    return 0;
}
END
    cat >holder.ferry <<END
struct holder { double *x; long n; char pad[$pad]; };
function void own_double(struct holder *h)
{
    require h->n > 0;
    axis n = h->n split;
    inout h->x[n: 1];
    flops 1.0 * n;
}
END
    ${CC:-cc} -O1 -shared -fPIC holder.c -o libholder.so &&
        ${CC:-cc} -O1 hold.c -o hold -L. -lholder -Wl,-rpath,"$work"
    "$ferry" run --annotations holder.ferry --device host,memory=16KiB --force \
        --report=r.json -- ./hold >out 2>err
    equal "a struct with $pad bytes behind its fields" "$(cat out)" 42
    has "... is copied for a chunk, or the original runs" r.json \
        "\"own_double\", \"calls\": 1, \"offloaded\": $((241 - pad))"
done

# What check says of a command, and how it ends.
"$ferry" check "$srcdir/annotations/lib/commands" --argv cat x >out 2>err
equal "check of a command" $? 0
has "... what it reads" out '^    in "x"$'
"$ferry" check "$srcdir/annotations/lib/commands" --argv find . -exec ./own ';' >out 2>err
equal "check of a command that stays" $? 1
has "... why" out "^not offloaded: find: "

# Of two paths the later one's block counts.
echo 'command cat { operand FILE; pure; }' >plain.ferry
echo 'command cat { operand FILE; pure; streams; }' >streams.ferry
"$ferry" check plain.ferry streams.ferry --argv cat x >out 2>err
has "the later path's block" out "^    pure, streams$"
"$ferry" check streams.ferry plain.ferry --argv cat x >out 2>err
has "... in this order, too" out "^    pure$"

# What the report says of how a stage ended.
mkdir data
seq 20000 >data/f
(cd data && env --default-signal=XFSZ "$ferry" run --no-discover --force --device none --report="$work/r.json" \
    --mount "$work/data=loopback://$work/data" -- sh -c '(ulimit -f 1; cat f >o)
    grep -q nothing f; printf a | sed s/a/b/' >/dev/null 2>&1)
equal "the exit of stages: by a signal, at the proxy, here" "$(python3 - <<'PYTHON'
import json
print(*((s["argv"][0], s["exit"], s["placed"]) for s in json.load(open("r.json"))["stages"]))
PYTHON
)" "('cat', 153, 'loopback://') ('grep', 1, 'loopback://') ('sed', None, None)"

# doctor with a program.
"$ferry" doctor -- ./scale >out 2>err
equal "doctor of a program" $? 0
has "it can be reached" out "^  yes .*scale calls .*dgemm_"
if ${CC:-cc} -O1 -no-pie scale.c -o fixed -lblas 2>err; then
    "$ferry" doctor -- ./fixed >out 2>err
    has "so can one that defines no symbol" out "^  yes .*fixed calls .*dgemm_"
fi
if ${CC:-cc} -O1 -static -x c - -o still 2>err <<'END'
int main(void) { return 0; }
END
then
    "$ferry" doctor -- ./still >out 2>err
    has "a static program cannot" out "^  NO .*still is statically linked"
    "$ferry" run --device host --report=r.json -- ./still
    equal "a static program runs" $? 0
else
    skip "a static program" "no static C library"
fi
"$ferry" doctor -- ./nothing >out 2>err
equal "doctor of nothing" $? 1
equal "doctor of nothing: one line" "$(wc -l <err)" 1

# doctor of a host. That no time passes is poll()'s word.
printf '#!/bin/sh\nexec yes "machine x"\n' >endless
printf '#!/bin/sh\necho "machine x"\nexec sleep 1000\n' >silent
chmod +x endless silent
"$ferry" doctor "ssh://box/?command=$work/endless" >out 2>err
equal "doctor of a host that never ends" "$? $(cat out err)" \
    "1 ferry: ssh://box/?command=$work/endless: the host's answer does not end"
if ${CC:-cc} -O1 -shared -fPIC -x c - -o poll.so 2>err <<'END'
int poll(void *fds, unsigned long n, int ms) { return (void)fds, (void)n, ms < 0 ? -1 : 0; }
END
then
    LD_PRELOAD=$work/poll.so "$ferry" doctor "ssh://box/?command=$work/silent" >out 2>err
    equal "doctor of a host that says nothing" "$? $(cat out err)" \
        "1 ferry: ssh://box/?command=$work/silent: the host does not answer"
fi

# calibrate writes what run reads.
"$ferry" calibrate >out 2>err
equal "calibrate" $? 0
has "the rates are in the cache" "$XDG_CACHE_HOME/ferry/calibration" "cpu_flops_f64="
"$ferry" doctor >out 2>err
has "doctor knows them" out "^  calibration .*cache/ferry/calibration"
finish
