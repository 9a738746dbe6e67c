# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=6
# perl one-liners and scripts.
perl -ne 'print if /apple/ && $n++ < 3' notes/a.txt
perl -pi -e 's/fig/FIG/g' notes/*.txt; grep -c FIG notes/*.txt
perl -pi.bak -e 's/FIG/fig/g' notes/b.txt; ls notes
perl -F, -lane '$s{$F[1]} += $F[3]; END {print "$_ $s{$_}" for (sort keys %s)[0..3]}' csv/orders.csv
perl -e 'open F, "zcat logs/access.log.1.gz |" or die; $n++ while <F>; close F; print "$n $?\n"'
perl -e 'open F, "| sort -u >perl.out"; print F "$_\n" for 3,1,2,3; close F; print `cat perl.out`; print $? >> 8, "\n"'
perl -e 'print scalar(@{[glob "notes/*.txt"]}), "\n"; system("cat", "nosuch"); print $? >> 8, "\n"' 2>&1
perl -e 'if (!fork) {exec "wc", "-l", "notes/a.txt"} wait; print "$?\n"'
perl -MFile::Find -e 'find(sub {$n++ if -f}, "."); print $n > 10, "\n"'
perl -e 'exec {"sort"} "mysort", "nosuch"' 2>&1; echo $?
perl -e '$x = qx{ls notes | wc -l}; print $x; rename "csv/orders.csv", "csv/o.csv" or die; print -s "csv/o.csv", "\n"; print `head -1 csv/o.csv`'
