# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,zsh slow placed=2
# A log that is watched while it is written.
timeout 2 tail -n 2 -f logs/access.log >watched 2>/dev/null & t=$!
sleep 0.6; echo 'added one' >>logs/access.log; echo 'added two' >>logs/access.log
wait $t; echo "tail $?"
grep -c added watched
timeout 3 sh -c 'tail -n 0 -f logs/access.log | grep -m1 --line-buffered added >hit' & sleep 0.8; echo 'added three' >>logs/access.log; sleep 0.3; echo 'added four' >>logs/access.log; wait
cat hit
timeout 1 head -c 10 logs/access.log; echo; timeout 0.5 cat; echo $?
timeout -s KILL 0.5 tail -f notes/a.txt >/dev/null; echo $?
( tail -f notes/a.txt & p=$!; sleep 0.4; kill $p; wait $p; echo $? ) | tail -1
