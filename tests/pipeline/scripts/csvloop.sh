# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,busybox placed=78
# Many tiny commands: a file for each customer, as beginners write it.
mkdir -p by
for id in $(cut -d, -f1 csv/customers.csv | tail -n +2 | head -25); do
    grep ",$id," csv/orders.csv >by/$id.csv
    n=$(wc -l <by/$id.csv)
    if [ "$n" -gt 2 ]; then echo "$id $n" >>by/many; fi
done
wc -l by/many; ls by | wc -l
for f in by/*.csv; do
    if [ ! -s "$f" ]; then rm "$f"; fi
done
ls by | wc -l; cat by/*.csv | sort | md5sum
sum=0; for f in by/*.csv; do x=$(cut -d, -f4 "$f" | head -1); sum=$(expr $sum + ${x%.*}); done; echo $sum
