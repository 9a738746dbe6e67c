#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The start-up tax of the preload on a short program: of an empty library, and
# of ferry's with the shipped annotations: make bench-startup
here=$(cd "$(dirname "$0")" && pwd)
build=${FERRY_BUILDDIR:-$PWD}
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
: >"$t/empty.c"
${CC:-cc} -O2 -I"$build" -o "$t/startup" "$here/startup.c" &&
    ${CC:-cc} -O2 -shared -fPIC -o "$t/empty.so" "$t/empty.c" || exit 1
# What `ferry run' preloads: programs do not see it in their environment.
preload=$("$build/ferry" run --device host -- cat /proc/self/maps |
    sed -n 's|.* \(/.*/ferry-preload-.*\.so\)$|\1|p' | head -n 1)
[ -n "$preload" ] || exit 1
settings="mode=1;device=host;engine=$build/.libs/libferry-engine.so"
show()
{
    # shellcheck disable=SC2046,SC2183
    printf '%-22s %7.1f us, without %7.1f us: +%.1f us, x%.3f\n' "$1" \
        $("$t/startup" "$2" "$3" "${BATCHES:-601}" 2 | awk '{ print $2, $1, $3, $4 }')
}
show "empty library" "$t/empty.so" ""
show "ferry" "$preload" "$settings"
show "ferry, mode 0" "$preload" ""
