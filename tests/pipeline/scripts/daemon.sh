# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=3
# Background work: pid files, kill -0, nohup, wait, disown, signals to groups.
sh -c 'echo $$ >pid; trap "echo stopped >state; exit 0" TERM; while :; do sleep 0.1; done' & 
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -s pid ] && break; sleep 0.1; done
kill -0 "$(cat pid)" && echo alive; kill "$(cat pid)"; wait; cat state; kill -0 "$(cat pid)" 2>/dev/null || echo gone
(sort big.txt | uniq -c >u.out) & p=$!; wait $p; echo $?; wc -l u.out
yes | sort >/dev/null & p=$!; sleep 0.4; kill $p 2>/dev/null; wait $p; echo $?
(tail -f notes/a.txt | grep nothing) & p=$!; sleep 0.3; pkill -P $p; wait $p; echo $?
timeout 0.5 sh -c 'cat notes/a.txt; sleep 9' | wc -l; timeout 1 sh -c 'while :; do cat notes/a.txt >/dev/null; done'; echo $?
nohup sh -c 'sleep 0.2; sort notes/b.txt >late' >/dev/null 2>&1 & wait; wc -l late
sh -c 'trap "" TERM; kill -TERM $$; sort notes/c.txt | head -1; echo survived'; sh -c 'kill -9 $$'; echo $?; sh -c 'sort notes/a.txt | (kill -PIPE $$; cat >/dev/null)'; echo $?
trap 'echo usr1' USR1; kill -USR1 $$; wc -l notes/a.txt & wait $!; echo $?; trap 'echo exit' EXIT; sort nosuch; rm -f pid
