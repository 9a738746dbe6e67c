# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=15
# As cron has it: an empty environment, another PATH, HOME, mail to stderr.
env -i PATH=/usr/bin:/bin HOME="$HOME" SHELL=/bin/sh /bin/sh -c '
cd "'"$M"'" || exit
find logs -name "*.gz" -mtime +1000 | sort | head
zcat logs/access.log.1.gz | wc -l
sort csv/orders.csv | tail -1
[ -d out ] || mkdir out
gzip -c logs/access.log >out/access.gz
ls out; echo "done" >&2
env | sort'
env -i /bin/sh -c 'cat "$1" | wc -l' _ "$M/notes/a.txt"
env -i LC_ALL=C PATH="$PATH" awk 'BEGIN {while ((getline l < "notes/a.txt") > 0) n++; print n}'
env - /usr/bin/sort notes/b.txt | head -1
( unset PATH; /usr/bin/wc -l notes/a.txt ); sh -c 'cd / && cat "$0/notes/a.txt" | head -1' "$M"
echo 'wc -l notes/a.txt; sort notes/b.txt | head -1' | sh; sh -s x <<'X'
ls notes | head -$#
X
