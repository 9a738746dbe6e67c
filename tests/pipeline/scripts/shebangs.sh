# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=7
# Programs in several languages that lie on the mount, and one that edits itself.
mkdir bin; PATH=$M/bin:$PATH; export PATH
printf '#!/bin/sh\necho "$0 $1" | sed "s,.*/,,"; wc -l <"$1"\n' >bin/one
printf '#!/usr/bin/awk -f\n{n++} END {print n}\n' >bin/two
printf '#!/usr/bin/env python3\nimport sys; print(len(open(sys.argv[1]).read()))\n' >bin/three
printf '#!/usr/bin/sed -f\n2q\n' >bin/four
printf '#!/usr/bin/make -f\nall:\n\t@sort notes/b.txt | head -1\n' >bin/five
printf '#!/usr/bin/perl -w\nprint scalar(<>);' >bin/six
printf '#!/nosuch/interpreter\n' >bin/seven
printf 'wc -l notes/c.txt\n' >bin/eight
printf '#! /bin/sh -e\nfalse\necho no\n' >bin/nine
chmod +x bin/*
for p in one two three four five six eight nine; do $p notes/a.txt; echo "$p $?"; done
seven 2>/dev/null; echo $?
cp /bin/cat bin/mycat; mycat notes/a.txt | wc -l; bin/mycat nosuch; echo $?
printf 'sort(){ echo "function sort"; }\nsort notes/a.txt\ncommand sort notes/a.txt | head -1\n' | sh
ln -s /usr/bin/sort bin/grep; grep notes/a.txt | head -1; rm bin/grep; hash -r; grep -c . notes/a.txt
cat >self.sh <<'X'
echo first
echo 'echo added' >>self.sh
wc -l self.sh
X
sh self.sh; which one | sed 's,.*/,,'; type wc | sed 's,.*/,,'
