# SPDX-License-Identifier: Apache-2.0
# sh=bash placed=14
# ulimit, nice, timeout, file size limits.
(ulimit -f 100; cat big.txt big.txt >lim; echo $?; ls -l lim | awk '{print $5}')
(ulimit -n 20; sort notes/a.txt | tail -1)
(ulimit -t 100; wc -l <big.txt); (ulimit -v 4000000; sort big.txt | md5sum)
(ulimit -c 0; sh -c 'kill -SEGV $$'; echo $?)
nice -n 5 sort notes/a.txt | head -1; nice -n 5 nice
timeout 5 grep -c . big.txt; timeout 0.3 sleep 5; echo $?
(ulimit -s 1024; find . -name '*.txt' | wc -l)
nohup sort notes/a.txt >nh 2>/dev/null </dev/null; wc -l nh
setsid -w wc -l notes/a.txt; env -u LC_ALL sort notes/a.txt | head -1
time -p true 2>/dev/null; stdbuf -oL grep -m2 . notes/a.txt; ionice -c3 cat notes/b.txt 2>/dev/null | wc -l
taskset 1 md5sum notes/a.txt; exec -a myname sort notes/a.txt >ex; echo not
