# SPDX-License-Identifier: Apache-2.0
# sh=bash,zsh placed=21
# set -euo pipefail and early-closing readers.
set -o pipefail
cat logs/access.log | head -1 | wc -l; echo "${PIPESTATUS[*]:-}"
zcat logs/access.log.*.gz | head -n 3 | wc -l; echo $?
sort big.txt | head -1; echo $?
yes | head -2; echo $?
cat big.txt | grep -m1 . >/dev/null; echo $?
grep -q apple notes/a.txt && echo yes
cat big.txt | grep -q zinnia; echo $?
cat nosuch 2>/dev/null | sort | wc -l; echo $?
false | cat notes/a.txt | tail -1; echo $?
grep nothing-like-it notes/a.txt | wc -l; echo $?
(set -eu; x=$(grep -c zzzz notes/a.txt); echo not reached); echo $?
(set -e; for f in notes/a.txt nosuch notes/b.txt; do wc -l "$f" 2>/dev/null; done; echo no); echo $?
(set -e; cat notes/a.txt | sed 3q | wc -l; if ! grep -q zzz notes/a.txt; then echo none; fi)
! cat notes/a.txt | grep -q apple; echo $?
awk 'NR == 3 {exit 4} {print}' notes/a.txt; echo $?
cat big.txt | (read -r x; echo "$x")
python3 -c 'print(open("big.txt").readline(), end="")' | cat; echo $?
