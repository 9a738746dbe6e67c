# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=32
# Searching code and text.
grep -rn --include='*.c' main . | sort; grep -rl apple . --exclude-dir=odd | sort; printf 'apple\nfig\n' >pats; grep -cFf pats notes/*.txt
grep -oh '[a-z]*e' notes/*.txt | sort | uniq -c | sort -k1,1nr -k2 | head -3; grep -rc apple notes | sort; grep -P '\bfig\b.*\d' notes/a.txt | head -2; grep -z main src/main.c | wc -c
grep apple big.bin; grep -a -c . big.bin; grep -n -A1 -B1 -m1 apple notes/a.txt; grep -v . notes/a.txt; echo $?; grep -e; echo $?; grep '[' notes/a.txt; echo $?
grep -l hello -r src | xargs sed -i 's/hello/bye/'; grep -r bye src; grep -L apple notes/*.txt; echo $?; grep --color=always apple notes/c.txt | head -1 | od -c | head -2; egrep 'apple|fig' notes/c.txt | wc -l; fgrep -x nothing notes/a.txt; echo $?
grep -r . odd | sort | cat -v | head -5; grep apple < notes/a.txt | wc -l; cat notes/*.txt | grep -c apple; grep -H apple /dev/null; grep -s x nosuch; echo $?; grep -q apple nosuch notes/a.txt; echo $?; grep apple notes; echo $?; grep -i APPLE -w notes/a.txt | sort | head -1; GREP_COLORS= grep -b -o fig notes/c.txt
