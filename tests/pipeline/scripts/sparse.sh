# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash slow placed=25
# Sparse and empty files, truncate, dd.
truncate -s 50M sparse; du -k sparse | awk '{print $1 < 1000}'
printf end | dd of=sparse bs=1 seek=30000000 conv=notrunc 2>/dev/null
stat -c %s sparse; tr -d '\0' <sparse | wc -c; md5sum sparse
cp --sparse=always sparse sparse2; cmp sparse sparse2 && echo same; du -k sparse2 | awk '{print $1 < 1000}'
tar cSf s.tar sparse; ls -l s.tar | awk '{print $5 < 100000}'
: >empty; wc empty; sort empty; cat empty empty; gzip -k empty; zcat empty.gz | wc -c; md5sum empty; grep x empty; echo $?; tail empty; head empty; sed p empty; uniq empty; split empty e.; ls e.* 2>/dev/null; file empty 2>/dev/null | cut -c1-20
truncate -s 3 notes/a.txt; od -c notes/a.txt; truncate -s +5 notes/a.txt; od -c notes/a.txt
dd if=/dev/zero of=z bs=1k count=100 2>/dev/null; gzip -9 z; ls -l z.gz | awk '{print $5}'; gzip -t z.gz; echo $?
fallocate -l 1M fa 2>/dev/null; cat sparse | head -c 1 | od -c; cmp -n 100 z.gz notes/b.txt >/dev/null; echo $?
