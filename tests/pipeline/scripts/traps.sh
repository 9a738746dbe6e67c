# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,zsh,busybox placed=3
# Lock, temporary folder on the mount, cleanup by trap, child killed.
set -eu
tmp=$(mktemp -d ./tmp.XXXXXX)
trap 'rc=$?; rm -rf "$tmp"; echo "cleaned, $rc"; exit $rc' EXIT
trap 'echo term; exit 143' TERM
sort csv/orders.csv >"$tmp/sorted"
wc -l <"$tmp/sorted"
split -l 100 csv/orders.csv "$tmp/part."
for p in "$tmp"/part.*; do sort "$p" -o "$p"; done
sort -m "$tmp"/part.* | cmp - "$tmp/sorted" && echo merged
cp "$tmp/sorted" result.csv
(sleep 0.3; kill -TERM $$) &
while :; do grep -c x notes/a.txt >/dev/null || :; done
