# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash slow placed=25
# Sorting and case by locale.
for l in C C.UTF-8 en_US.UTF-8 de_DE.UTF-8; do
    export LC_ALL=$l
    sort names.txt 2>/dev/null | md5sum
    sort -f names.txt 2>/dev/null | head -2
    ls utf8 2>/dev/null | cat
    tr '[:lower:]' '[:upper:]' <names.txt | head -2
    grep -c '^.....$' names.txt
    wc -m names.txt
    sed 's/^\(.\).*/\1/' names.txt | sort | uniq -c | sort -k2 | head -3
    awk '{print length($0)}' names.txt | tr '\n' ' '; echo
done
unset LC_ALL LANG
sort names.txt | head -3; LC_COLLATE=C sort names.txt | head -3
LC_ALL=C printf '%s\n' utf8/* | cat -v
printf '%s\n' z ä a | LC_ALL=C.UTF-8 sort
date -d @0 +%x; TZ=America/New_York ls -l --time-style=long-iso notes/a.txt | awk '{print $6, $7}'
TZ=Asia/Tokyo date -r notes/a.txt
