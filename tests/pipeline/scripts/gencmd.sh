# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,busybox placed=30
# Commands made by awk and sed, and run by sh.
ls notes/*.txt | awk '{n = $1; sub(/\.txt$/, ".bak", n); print "cp " $1 " " n}' | sh -e
ls notes
ls notes/*.bak | sed 's/\(.*\)\.bak/mv & \1.old/' | sh; ls notes
awk -F, 'NR > 1 {print > ("by_" substr($3, 1, 7) ".csv")} END {close("x")}' csv/orders.csv; ls by_* | wc -l; cat by_* | wc -l
awk 'BEGIN {while (("wc -l < notes/a.txt" | getline x) > 0) print x; system("head -1 notes/b.txt"); print "z\na" | "sort"; close("sort"); r = system("exit 3"); print r}'
echo 'cat notes/a.txt | wc -l' >cmd; . ./cmd; sh cmd; chmod +x cmd; ./cmd
eval "$(echo 'for f in notes/*.old; do wc -l <$f; done')"
sed -n -e '/apple/w apples' -e '/fig/w figs' notes/a.txt; wc -l apples figs
find notes -name '*.old' | sed 's/.*/wc -c "&"/' | sort | sh
seq 3 | while read i; do echo "echo $i >f$i"; done | sh; cat f1 f2 f3; rm f?
printf 'sort notes/a.txt | head -1\nexit 5\necho no\n' | sh; echo $?
