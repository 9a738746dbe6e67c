# SPDX-License-Identifier: Apache-2.0
# sh=bash placed=5
# A coprocess, named pipes, background jobs.
coproc B { bc -l; }
echo '2^10' >&"${B[1]}"; read -r x <&"${B[0]}"; echo "$x"
eval "exec ${B[1]}>&-"; wait "$B_PID" 2>/dev/null; echo $?
coproc S { sort -n; }
seq 5 -1 1 >&"${S[1]}"; eval "exec ${S[1]}>&-"; cat <&"${S[0]}" | tr '\n' ' '; echo
mkfifo "$L/pipe"; grep apple notes/a.txt >"$L/pipe" & wc -l <"$L/pipe"; wait
mkfifo pipe 2>/dev/null && { sort notes/a.txt >pipe & head -1 <pipe; wait; }; rm -f pipe
for f in notes/*.txt; do md5sum "$f" & done | sort -k2; wait
sort notes/a.txt >s1 & p1=$!; sort nosuch 2>/dev/null & p2=$!; wait $p1; echo $?; wait $p2; echo $?

