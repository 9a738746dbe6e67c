# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,busybox placed=15
# Full and incremental backup with excludes, then a test restore.
set -eu
touch -d '2020-06-01' stamp
full=backup/full.tar.gz
mkdir -p backup
tar --exclude='*.o' --exclude=.git --sort=name -czf "$full" src photos
tar tzf "$full" | sort | md5sum
tar tzf "$full" | wc -l
echo changed >>src/main.c
find src photos -type f -newer stamp | sort
find src photos -type f -newer stamp -print0 | tar --null -T - -cf backup/incr.tar
tar tf backup/incr.tar
mkdir restore
tar xzf "$full" -C restore
tar xf backup/incr.tar -C restore
diff -r src restore/src && echo same
diff -rq photos restore/photos && echo photos same
(cd restore && find . -type f -exec sha256sum {} + | sort -k2) >restore.sums
wc -l restore.sums
rm -rf restore
ls backup
