#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What one build needs of a machine's C library: glibc 2.34, the oldest that is
# supported, where it was built with the library of Debian 12 or an older one.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
build=${FERRY_BUILDDIR:-.}
. "$srcdir/tests/tap.sh"

own=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
for file in .libs/libferry.so .libs/libferry-engine.so ferry ferry-stub; do
    if ! command -v objdump >/dev/null; then
        skip "$file runs with glibc 2.34" "objdump is not installed"
    elif [ "$(printf '%s\n' 2.36 "$own" | sort -V | tail -1)" != 2.36 ]; then
        skip "$file runs with glibc 2.34" "built with glibc $own"
    elif objdump -f "$build/$file" | grep -q DYNAMIC; then
        empty "$file runs with glibc 2.34" "$(
            objdump -T "$build/$file" |
                sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\))\{0,1\} *\([^ ]*\)$/\1 \2/p' |
                sort -u | while read -r version name; do
                newest=$(printf '%s\n' 2.34 "$version" | sort -V | tail -1)
                [ "$newest" = 2.34 ] || echo "$name needs $version"
            done)"
    else
        ok "$file needs no glibc"
    fi
done
finish
