#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The fake CUDA's prototypes, constants, structures and exported names against
# those of a CUDA toolkit; all skipped where there is none. Run by make check;
# CUDA_HOME says where the toolkit is, if not in /usr/local/cuda.
srcdir=$(cd "${FERRY_SRCDIR:-$(dirname "$0")/../..}" && pwd)
builddir=$(cd "${FERRY_BUILDDIR:-$srcdir/_build}" && pwd) || exit 1
. "$srcdir/tests/tap.sh"

cuda=${CUDA_HOME:-/usr/local/cuda}
[ -e "$cuda/include/cuda.h" ] || skip_all "no CUDA toolkit"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
rows=$srcdir/tests/fakecuda

# prototypes HEADER ROWS...: each name is known to the header, and as we have it
prototypes()
{
    header=$1
    shift
    [ -e "$cuda/include/$header" ] || {
        skip "prototypes of $header" "not in this toolkit"
        return
    }
    for file in "$@"; do
        python3 "$rows/generate.py" names "$rows/$file" >>"$work/$header.names"
        python3 "$rows/generate.py" check "$rows/$file" >>"$work/$header.check"
    done
    {
        echo '#include <stddef.h>'
        echo '#include <stdint.h>'
        echo "#include <$header>"
        sed 's/.*/const void *const check_& = (const void *)\&&;/' \
            "$work/$header.names"
        cat "$work/$header.check"
    } >"$work/check.c"
    # The first row of complaints is enough to find the rest.
    empty "prototypes of $header" "$(${CC:-cc} -I"$cuda/include" -w \
        -fsyntax-only "$work/check.c" 2>&1 | grep error | head -n 20)"
}
prototypes cuda.h driver.rows
prototypes cublas_v2.h cublas.rows cublas_routines.rows
prototypes cusolverDn.h cusolver.rows cusolver_routines.rows
for library in cufft nvrtc; do
    [ -e "$rows/$library.rows" ] && prototypes "$library.h" "$library.rows"
done

# constants HEADER ABI: our enumerators have the header's values
constants()
{
    [ -e "$cuda/include/$1" ] || {
        skip "constants of $1" "not in this toolkit"
        return
    }
    {
        echo "#include <$1>"
        grep -oE '\b(CU|NV)[A-Z0-9_]+ = -?[0-9a-fx]+' "$rows/$2" |
            sed 's/\(.*\) = \(.*\)/_Static_assert((long)\1 == \2, "\1");/'
    } >"$work/constants.c"
    empty "constants of $1" "$(${CC:-cc} -I"$cuda/include" -w -fsyntax-only \
        "$work/constants.c" 2>&1 | grep error | head -n 20)"
}
constants cuda.h driver_abi.h
constants cublas_v2.h cublas_abi.h
constants cusolverDn.h cusolver_abi.h
for library in cufft nvrtc; do
    [ -e "$rows/${library}_abi.h" ] && constants "$library.h" "${library}_abi.h"
done

# Structures: the same program prints both layouts.
layout()
{
    {
        echo '#include <stddef.h>'
        echo '#include <stdio.h>'
        echo "#include $1"
        echo 'int main(void) {'
        awk '/^typedef struct \{/ { n = 0; next }
             /^ .*;/ && n >= 0 { gsub(/[*;]/, ""); sub(/\[.*/, ""); field[n++] = $NF }
             /^\} [A-Z]\w*;/ { sub(/;/, "", $2)
                 printf "printf(\"%s %%zu\\n\", sizeof(%s));\n", $2, $2
                 for (i = 0; i < n; i++)
                     printf "printf(\"%s.%s %%zu\\n\", offsetof(%s, %s));\n", \
                         $2, field[i], $2, field[i]
                 n = -1 }' "$rows/driver_abi.h"
        echo 'return 0; }'
    } >"$work/layout.c"
    ${CC:-cc} -w -I"$cuda/include" -I"$srcdir" "$work/layout.c" \
        -o "$work/layout" && "$work/layout"
}
equal "structures of cuda.h" "$(layout '"tests/fakecuda/driver_abi.h"')" \
    "$(layout '<cuda.h>')"

# exports LIBRARY ROWS...: what the fake exports is what its rows say, and the
# real library has it.
exports()
{
    library=$1
    shift
    fake=$builddir/tests/fakecuda/.libs/$library
    [ -e "$fake" ] || {
        skip "names of $library" "not built"
        return
    }
    nm -D --defined-only "$fake" | awk '$2 == "T" { print $3 }' |
        grep -v '^fakecuda_' | sort >"$work/fake"
    for file in "$@"; do
        python3 "$rows/generate.py" names "$rows/$file"
    done | sort >"$work/rows"
    equal "all rows of $library are exported" \
        "$(comm -13 "$work/fake" "$work/rows")" ""
    real=$cuda/lib64/$library
    [ "$library" = libcuda.so.1 ] && real=$cuda/lib64/stubs/libcuda.so
    if [ -e "$real" ]; then
        nm -D --defined-only "$real" | awk '{ sub(/@.*/, "", $3); print $3 }' |
            sort -u >"$work/real"
        equal "$library exports no name that the real one has not" \
            "$(comm -23 "$work/fake" "$work/real")" ""
    else
        skip "names of the real $library" "not in this toolkit"
    fi
}
exports libcuda.so.1 driver.rows
exports libcublas.so.13 cublas.rows cublas_routines.rows
exports libcusolver.so.12 cusolver.rows cusolver_routines.rows
[ -e "$rows/cufft.rows" ] && exports libcufft.so.12 cufft.rows
[ -e "$rows/nvrtc.rows" ] && exports libnvrtc.so.13 nvrtc.rows
finish
