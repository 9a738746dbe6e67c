# SPDX-License-Identifier: Apache-2.0
# sh=bash,zsh placed=14
# Process substitution in all forms.
diff <(sort notes/a.txt) <(sort notes/b.txt) | head -5
echo "${PIPESTATUS[0]:-}"
tee >(wc -l >lines) >(md5sum >sum) <logs/access.log | tail -1
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -s lines ] && [ -s sum ] && break; sleep 0.1; done
cat lines sum
while read -r x; do echo "got $x"; done < <(grep -c . notes/*.txt)
paste <(cut -d' ' -f1 notes/a.txt | head -5) <(cut -d' ' -f2 notes/b.txt | head -5)
cat <(zcat logs/access.log.1.gz | head -1) <(zcat logs/access.log.2.gz | head -1)
sort -m <(sort notes/a.txt) <(sort notes/b.txt) | uniq | wc -l
comm -12 <(sort -u notes/a.txt | cut -c1-5 | sort -u) <(sort -u notes/b.txt | cut -c1-5 | sort -u) | head -3
