# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=9
# Between the mount and this machine: copies, moves, streams, comparisons.
cp -r notes "$L/n"; diff -r notes "$L/n" && echo same
mv "$L/n/a.txt" moved.txt; mv notes/b.txt "$L/"; ls "$L" notes | sort | grep -v script
tar cf - src | (cd "$L" && tar xf -); diff -r src "$L/src"; echo $?
(cd "$L" && tar cf - src) | tar xf - -C void; ls -R void
sort notes/a.txt >"$L/s"; sort "$L/s" >s2; cmp s2 "$L/s" && echo equal
cat "$L/s" notes/c.txt | wc -l; grep -c apple "$L/s" notes/*.txt | sed "s,$L,L,"
paste "$L/s" notes/c.txt | head -2; comm -12 "$L/s" s2 | wc -l
ln -s "$L/s" tolocal; cat tolocal | wc -l; wc -l tolocal; cp tolocal filled; test -L filled; echo $?; rm tolocal
ln -s "$M/notes" "$L/tomount"; ls "$L/tomount"; wc -l "$L/tomount/a.txt" | sed "s,$L,L,"; (cd "$L/tomount" && ls ../notes 2>/dev/null; cat ../notes/a.txt 2>/dev/null | wc -l; pwd | sed "s,$L,L,"; sort a.txt | head -1)
cd "$L" && sort "$M/notes/a.txt" | tail -1; grep -l apple "$M"/notes/* | sed "s,$M,M,"; cd - >/dev/null
find . "$L" -name s2 | sed "s,$L,L,"; rm "$L/s" s2; cp "$M/big.bin" "$L/"; cmp big.bin "$L/big.bin"; sha256sum <"$L/big.bin" | cut -c1-10
mkfifo "$L/f"; cat notes/c.txt >"$L/f" & sort "$L/f" | head -1; wait
