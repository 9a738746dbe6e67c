# SPDX-License-Identifier: Apache-2.0
# sh=bash,zsh placed=18
# Two exports joined, and who is missing where.
set -e
export LC_ALL=C
tail -n +2 csv/customers.csv | sort -t, -k1,1 >cust.s
tail -n +2 csv/orders.csv | sort -t, -k2,2 >ord.s
join -t, -1 1 -2 2 -o 1.2,2.1,2.3,2.4 cust.s ord.s >joined.csv
wc -l joined.csv
cut -d, -f1,4 joined.csv | awk -F, '{s[$1] += $2} END {for (k in s) printf "%s,%.2f\n", k, s[k]}' | sort -t, -k2,2nr | head
comm -23 <(cut -d, -f1 cust.s) <(cut -d, -f2 ord.s | sort -u) >never.txt
comm -13 <(cut -d, -f1 cust.s) <(cut -d, -f2 ord.s | sort -u) | head -3
paste -d, <(cut -d, -f1 cust.s) <(cut -d, -f3 cust.s) | head -3
{ head -1 csv/customers.csv; tail -n +2 csv/customers.csv | sort -t, -k2; } >customers.sorted.csv
sed -i 's/,$/,none/' customers.sorted.csv
awk -F, 'NR == FNR {name[$1] = $2; next} $2 in name {print name[$2], $4}' csv/customers.csv csv/orders.csv | sort | tail -3
rm cust.s ord.s
wc -l never.txt joined.csv customers.sorted.csv
