# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=1
# A counter behind a lock, by several processes.
echo 0 >counter
one() { for i in 1 2 3 4 5; do flock lock sh -c 'n=$(cat counter); echo $((n + 1)) >counter'; done; }
one & one & one & wait
cat counter
(
    flock -n 9 || exit 3
    cat notes/a.txt | wc -l
    flock -n lock true; echo "inner $?"
) 9>lock
echo $?
flock -w 0.2 lock sort notes/a.txt | head -1
exec 8>lock; flock 8; flock -n lock true; echo "held $?"; flock -u 8; flock -n lock echo free
ln lock.$$ x 2>/dev/null || mkdir lockdir && mkdir lockdir 2>/dev/null || echo taken
set -C; echo x >once; (echo y >once) 2>/dev/null || echo exists
