# SPDX-License-Identifier: Apache-2.0
# sh=bash slow placed=16
# Jobs in the background with limits, wait -n, GNU parallel.
max=3; n=0
for f in logs/*.gz; do
    (zcat "$f" | md5sum >"$(basename "$f").md5") &
    n=$((n + 1)); [ $n -ge $max ] && { wait -n; n=$((n - 1)); }
done
wait
cat *.md5
parallel -k -j3 'wc -l {}' ::: notes/*.txt </dev/null
ls notes/*.txt | parallel -k gzip -k {}; ls notes
parallel -k --halt now,fail=1 'cat {} >/dev/null' ::: nosuch 2>/dev/null; echo $?
cat big.txt | parallel -k --pipe -N 2000 wc -l | head -3
make -s -j4 -f - all <<'M'
all: p1 p2 p3 p4
p%:
	@sort notes/a.txt | head -$* >$@
M
wc -l p?
