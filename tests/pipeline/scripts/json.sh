# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=30
# jq, xz, zstd, sqlite3 and bc over the mount.
jq -r '.items[] | select(.n > 5) | .name' data.json | sort | head -3
jq '.items | length' data.json; jq -c '.items |= map(.n)' data.json >small.json; cat small.json | head -c 60; echo
xz -k notes/a.txt; xz -dc notes/a.txt.xz | cmp - notes/a.txt && echo xz; zstd -q notes/b.txt; zstdcat notes/b.txt.zst | md5sum; bzip2 -k notes/c.txt; bzcat notes/c.txt.bz2 | wc; ls notes
sqlite3 db.sqlite 'create table t(a, b); insert into t values (1, "x"), (2, "y"); select * from t;'; sqlite3 -csv db.sqlite 'select count(*) from t'; 
tail -n +2 csv/orders.csv | cut -d, -f4 | paste -sd+ | bc
zip -qr z.zip notes 2>/dev/null && unzip -l z.zip | tail -1 | awk "{print \$2}"; rm -f z.zip
base64 big.bin | head -1; xxd big.bin 2>/dev/null | head -1; od -An -tx1 -N8 big.bin; strings big.bin | wc -l; hexdump -C big.bin 2>/dev/null | head -1
column -t -s, csv/customers.csv 2>/dev/null | head -2; nl notes/c.txt | head -2; tac notes/c.txt | head -1; rev notes/c.txt | head -1; fold -w 20 notes/c.txt | head -2; shuf --random-source=big.bin -n 2 notes/a.txt; factor 91; numfmt --to=iec 5000; expand csv/customers.csv | head -1; pr -t -2 notes/c.txt | head -2; csplit -s notes/a.txt 10 20; ls xx*; tsort <<X
a b
b c
X
