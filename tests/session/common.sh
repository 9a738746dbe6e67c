# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
# For the shell tests of this folder: a session's own home below $work, whose ferry and
# tools are in $build, and places behind a bad link.
# shellcheck source=../tap.sh disable=SC1091
. "${FERRY_SRCDIR:-$(dirname "$0")/../..}/tests/tap.sh"
build=$(cd "${FERRY_BUILDDIR:-$(dirname "$0")/../..}" && pwd)
[ -z "${FERRY_SANITIZED-}" ] || skip_all "the preloaded library cannot run so"
[ -x "$build/ferry" ] || skip_all "ferry is not built"

# Seconds for a run of ferry, before it counts as one that hangs.
limit=$(patient 90)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT INT TERM
mkdir "$work/home"
export HOME="$work/home" XDG_CONFIG_HOME="$work/home" XDG_CACHE_HOME="$work/home" LC_ALL=C

# badlink FAULT FOLDER [HOST]: the place of a folder behind such a link.
badlink()
{
    echo "ssh://${3-bad}$2?ferry=$build/ferry&command=$build/tests/badlink/badlink%20$1"
}
