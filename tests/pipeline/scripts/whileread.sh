# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,zsh,busybox placed=14
# while read loops that share their input with commands, sums and here-documents.
total=0
while IFS=, read -r id cust date amount; do
    [ "$id" = id ] && continue
    total=$((total + ${amount%.*}))
    [ "$id" -gt 60 ] && break
done <csv/orders.csv
echo "$total"
grep -n main src/*.c | while IFS=: read -r file line text; do echo "$file at $line"; done
find . -name '*.txt' | sort | while read -r f; do wc -c <"$f"; done
while read -r a b; do echo "$b" | tr a-z A-Z; head -1 "$a"; done <<X
notes/a.txt first
notes/b.txt second
X
cat <<E | sort -r | head -2
zero
$(wc -l <notes/a.txt)
`head -c 10 notes/b.txt`
E
exec 3<csv/customers.csv
read -r header <&3
echo "$header"
head -2 <&3 >/dev/null
while read -r l <&3; do n=$((n + 1)); done
exec 3<&-
{ read -r x; wc -l; } <csv/orders.csv
ls notes | while read f; do sed -n 1p "notes/$f"; done
