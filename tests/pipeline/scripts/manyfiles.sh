# SPDX-License-Identifier: Apache-2.0
# sh=bash slow placed=50
# A folder of 600 small files.
mkdir many; (cd many; seq 600 | split -l 1 -a 3 -d - part.)
ls many | wc -l; cat many/* | wc -l; wc -l many/* | tail -1; grep -l 7 many/* | wc -l
grep -rc . many | awk -F: '{s += $2} END {print s}'
find many -type f | xargs cat | sort -n | tail -1; find many -name '*5' -delete; ls many | wc -l
rm many/*[02468]; ls many | wc -l; md5sum many/* >sums; md5sum -c sums | grep -c OK
tar cf many.tar many; tar tf many.tar | wc -l; rm -r many; tar xf many.tar; ls many | wc -l
for f in many/part.1*; do mv "$f" "$f.x"; done; ls many/*.x | wc -l; chmod 600 many/*; stat -c %a many/* | sort | uniq -c | awk '{print $1, $2}'
cp -r many more; diff -rq many more && echo same; du -s --apparent-size -b many | awk '{print $1 > 0}'; head -qn1 many/* | paste -sd+ | bc
rm -rf many more; ls -d many more; printf '%s\0' many.tar sums | xargs -0 ls
