# SPDX-License-Identifier: Apache-2.0
# sh=bash slow placed=20
# Larger data: what the mount is slow for.
sort -k2,2 big.txt | uniq -f1 | wc -l
grep -c apple big.txt; awk '{n[$1]++} END {for (k in n) print n[k], k}' big.txt | sort -rn | head -3
gzip -c big.txt | wc -c; gzip -k big.txt; zcat big.txt.gz | cut -d' ' -f3 | sort -n | tail -1
sed 's/apple/orange/' big.txt >big2.txt; cmp big.txt big2.txt | head -c 20; echo
sort big.txt -o sorted.txt; sort -c sorted.txt && echo sorted; join -1 1 -2 1 <(head -50 sorted.txt) <(head -50 sorted.txt) | wc -l
tar czf all.tgz big.txt big2.txt logs; tar tzf all.tgz | wc -l; rm big2.txt
cat big.txt big.txt big.txt | wc; cp big.txt copy.txt; cmp big.txt copy.txt; md5sum big.txt copy.txt | cut -c1-32 | uniq | wc -l
wc -l big.txt; tail -1 big.txt; head -1 big.txt
