# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=25
# find in all its forms.
find . -name '*.h' -exec wc -l {} \; | sort
find . -type f -name '*.txt' -exec grep -l apple {} + | sort
find . -type d -empty
find . -type l -printf '%p %l\n' | sort
find . -size +100k -printf '%s %p\n' | sort -n
find src -name '*.c' -exec sed -i 's/puts/PUTS/' {} +
grep -c PUTS src/*.c
find notes -name '*.txt' -exec cp {} {}.bak \;
find notes -name '*.bak' | sort
find notes -name '*.bak' -delete; ls notes
find . -newermt 2020-01-05 -not -newermt 2020-02-01 -type f | sort | head
find photos -perm -u+x -o -perm 600 | sort
find . -type f -exec chmod 640 {} +
stat -c '%a %n' notes/* | sort
find nosuch; echo $?
find . -path ./src -prune -o -name '*.txt' -print | sort
find . -type f -printf '%f\n' | sed 's/.*\.//' | sort | uniq -c | sort -k1,1nr -k2 | head -5
find . -maxdepth 1 -type d -exec du -sk --apparent-size {} \; | sort -k2 | cut -f2
