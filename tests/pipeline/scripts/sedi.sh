# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,busybox placed=18
# In-place edits over several files, backups, ed-style and awk > tmp && mv.
for f in src/*.c src/*.h; do sed -i -e 's/int/long/g' -e '/^$/d' "$f"; done
cat src/*.c | md5sum
sed -i.orig 's/apple/APPLE/' notes/*.txt
for f in notes/*.txt; do cmp -s "$f" "$f.orig" || echo "changed $f"; done
diff -u notes/a.txt.orig notes/a.txt | grep -c '^[-+]'
awk '{print NR ": " $0}' notes/b.txt >notes/b.tmp && mv notes/b.tmp notes/b.txt
head -2 notes/b.txt
sed -n '2,3p;5q' notes/a.txt
sed -i '1i # header' csv/customers.csv; head -1 csv/customers.csv
sed -i '$ d' csv/customers.csv; tail -1 csv/customers.csv
sed 's/x/y/' nosuch; echo $?
chmod 600 notes/c.txt; sed -i s/a/b/ notes/c.txt; stat -c %a notes/c.txt
printf 'one\ntwo' >nonl; sed -i 's/t/T/' nonl; od -c nonl | head -2
