# SPDX-License-Identifier: Apache-2.0
# sh=bash,zsh,dash placed=16
# Odd descriptors: closed stdin, swapped outputs, /dev/stdin, /dev/fd, here strings.
cat notes/a.txt 3>&1 >/dev/null 2>&3 | wc -l
cat <&- ; echo $?
sort notes/a.txt >&- ; echo $?
ls nosuch 2>&1 >/dev/null | wc -l
cat /dev/stdin <notes/c.txt | head -1; cat /dev/fd/4 4<notes/c.txt | head -1
head -1 notes/a.txt | cat notes/c.txt - | tail -1
grep -c . </dev/null; echo $?; wc -l /dev/null
cat notes/a.txt >/dev/full; echo $?
sort notes/a.txt | sort -c; echo $?; sort -o notes/a.txt notes/a.txt; sort -c notes/a.txt; echo $?
echo x | tee /dev/stderr 2>&1 >/dev/null | cat
cat notes/c.txt >>notes/c.txt; echo $?; cp notes/b.txt notes/b.txt; echo $?
wc -l < notes/b.txt > count; cat count; > notes/b.txt; wc -c notes/b.txt
echo "$(cat notes/c.txt | head -1)$(echo)|"; v=`sort count`; echo "$v"
(cat notes/a.txt; cat nosuch; cat count) >both 2>&1; tail -2 both
exec <notes/d.txt; read -r first; echo "$first"; wc -l; cat
