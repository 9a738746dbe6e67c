# SPDX-License-Identifier: Apache-2.0
# sh=bash,zsh placed=31
# Names with spaces, newlines, UTF-8, invalid UTF-8, leading dashes, globs.
cd odd || exit
for f in *; do printf '%q ' "$f"; wc -c <"$f"; done
ls | cat -A
find . -type f -print0 | sort -z | xargs -0 md5sum
md5sum -- * >../sums; md5sum --quiet -c ../sums && echo ok
cp -- -dash copied; mv -- -dash ./--dash2; rm -- ./--dash2; ls -b
grep -c . -- *
wc -l ./*
for f in ./*' '*; do mv "$f" "${f// /_}"; done; ls -Q
tar cf ../odd.tar -- *; tar tf ../odd.tar | sort
head -n1 ./* | cat -v | head -20
file=$(printf 'x\ny'); touch "$file"; ls -b; rm "$file"
stat -c '%n %s' ./* | cat -v
find . -name '*[[:space:]]*' | cat -A
rm -- ./*\**; ls | wc -l
mkdir 'a dir'; cp ./*.txt 'a dir/'; ls 'a dir' | cat -v; rm -r 'a dir'
