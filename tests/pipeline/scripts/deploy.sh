# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=25
# Releases with a current link, rollback, old ones removed.
set -eu
for v in 1 2 3 4; do
    mkdir -p releases/$v; cp -r src/. releases/$v; echo $v >releases/$v/VERSION
    ln -sfn releases/$v current; cat current/VERSION
done
ln -sfn releases/2 current.new; mv -T current.new current; cat current/VERSION; readlink current
ls -1 releases | sort -n | head -n -2 | while read -r old; do [ "$(readlink current)" = releases/$old ] || rm -rf releases/$old; done
ls releases; readlink -f current | sed 's/.*releases/releases/'
cp -al releases/4 hard; stat -c %h hard/main.c; rm -r hard; stat -c %h releases/4/main.c
cp -rp current/. flat; diff -r flat releases/2 && echo same; touch -r src/main.c flat/main.c; [ flat/main.c -nt src/main.c ] || echo not newer
test -L current && test -d current && echo link; rm current; ls
mv releases old; mv old/4 .; rmdir old 2>/dev/null || echo not empty; ls old 4
