# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,zsh,busybox placed=22
# Which pages, clients and hours: gzipped logs of a week.
set -u
zcat logs/access.log.*.gz | awk '$9 >= 400 {print $9, $7}' | sort | uniq -c | sort -k1,1nr -k2 | head -20
zcat logs/access.log.2.gz logs/access.log.1.gz | cut -d' ' -f1 | sort | uniq -c | sort -rn | awk '{print $2, $1}' | head -5
cat logs/access.log | grep -c ' 500 '
zgrep -h ' 404 ' logs/access.log.1.gz | sed 's/.*"GET \([^ ]*\).*/\1/' | sort -u | wc -l
tail -n 200 logs/access.log | awk '{split($4, t, ":"); n[t[2]]++; b += $10} END {for (h in n) print h, n[h] | "sort"; close("sort"); print b}'
grep -E '^10\.0\.1\.' logs/access.log | tee errors.txt | wc -l
sort -u errors.txt | md5sum
for f in logs/*.gz; do printf '%s ' "$f"; gzip -dc "$f" | wc -l; done
