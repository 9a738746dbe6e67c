# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=7
# diff -r and patch.
cp -a src new
sed -i 's/hello/goodbye/' new/main.c
echo '/* end */' >>new/util.h
echo added >new/NEW
rm new/util.c
diff -ruN --label a --label b src/main.c new/main.c
diff -rq src new; echo $?
(diff -ruN src new || :) | sed 's/\t20.*//' >change.patch
grep -c '^[-+]' change.patch
cp -a src patched
patch -d patched -p1 <change.patch | sort
diff -r patched new && echo equal
patch -R -d patched -p1 <change.patch | sort
diff -r patched src && echo back
patch -d patched -p1 --dry-run <change.patch | sort | head -2
echo junk | patch patched/main.c; echo $?
ls patched
