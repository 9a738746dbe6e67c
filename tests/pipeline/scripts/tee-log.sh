# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,zsh placed=25
# A job that logs all it does to a file on the mount.
{
    echo start
    for f in notes/*.txt; do
        echo "processing $f"
        sort "$f" | uniq -c | sort -rn | head -1
        cat nosuch
    done
    echo end
} 2>&1 | tee job.log | grep -c processing
wc -l job.log
exec 5>>job.log; echo five >&5; cat notes/a.txt | head -1 >&5; exec 5>&-
tail -2 job.log
(exec >>job.log 2>&1; echo inside; ls nosuch; wc -l notes/a.txt)
tail -3 job.log
for i in 1 2 3; do echo "line $i"; date -d @$i -u +%s; done >>job.log
cat job.log | tee copy1 copy2 >/dev/null; cmp copy1 copy2 && cmp copy1 job.log && echo equal
cat notes/a.txt | tee -a copy1 | tail -1; wc -l copy1; sort copy1 >copy2 2>err; wc -c err
