# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=61
# xargs -P, -0, -I, -n and statuses.
find notes csv -type f -print0 | sort -z | xargs -0 -P4 -n1 md5sum | sort -k2
ls notes | xargs -I{} wc -l notes/{} | sort
find . -name '*.c' | sort | xargs grep -l main
printf '%s\n' 3 1 2 | xargs -n1 -P3 sh -c 'head -$1 notes/a.txt >out.$1' _
wc -l out.*
echo notes/a.txt nosuch | xargs cat | wc -l; 
echo nosuch | xargs cat 2>/dev/null; echo "status $?"
find photos -name '*.jpg' -print0 | xargs -0 stat -c '%s %n' | sort | head -4
find notes -type f | sort | xargs -n2 cat | md5sum
seq 12 | xargs -P4 -I{} sh -c 'gzip -c logs/access.log >z{}.gz'; ls z*.gz | wc -l; cat z*.gz | zcat | md5sum
seq 40 | xargs -P4 -I{} touch made.{}; ls made.* | wc -l; rm made.*
