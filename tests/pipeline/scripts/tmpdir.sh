# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=18
# The temporary folder is on the mount.
mkdir tmp; TMPDIR=$M/tmp; export TMPDIR
f=$(mktemp); sort notes/a.txt >"$f"; wc -l <"$f"; stat -c %a "$f"; d=$(mktemp -d); cp notes/*.txt "$d"; ls "$d"; tar cf "$d/x.tar" notes; tar tf "$d/x.tar" | wc -l
sort -S 1M big.txt | md5sum; ls tmp | wc -l; sort -T tmp -S 500k big.txt | head -1; 
x=$(cat <<X
$(sort notes/c.txt)
X
); echo "$x" | wc -l
cat <<X >here; cmp here notes/nosuch 2>/dev/null; cat here
line one
$(wc -l <notes/a.txt)
X
python3 -c 'import tempfile, os; f = tempfile.NamedTemporaryFile(); f.write(b"x\n" * 9); f.flush(); os.system("wc -l <" + f.name)'
sed -i s/apple/pear/ "$f"; grep -c pear "$f"; mv "$f" result; rm -r "$d"; ls tmp; vi -es -c ':%s/fig/FIG/g' -c wq notes/c.txt 2>/dev/null </dev/null; printf '1,2d\nw\nq\n' | ed -s notes/b.txt 2>/dev/null; wc -l notes/b.txt
cc -o t -x c - <<X && ./t
#include <stdio.h>
#include <stdlib.h>
int main(void) { FILE *f = tmpfile(); fputs("a\n", f); rewind(f); char b[9]; fgets(b, 9, f); fputs(b, stdout); fflush(stdout); int r = system("sort notes/a.txt | head -1"); FILE *p = popen("wc -l", "w"); fputs("x\ny\n", p); return r + pclose(p); }
X
echo $?
