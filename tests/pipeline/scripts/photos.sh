# SPDX-License-Identifier: Apache-2.0
# sh=bash,zsh placed=30
# Renames photos by date, handles spaces and clashes.
set -eu
cd photos
n=0
for f in *.JPG *.jpg; do
    [ -e "$f" ] || continue
    d=$(date -r "$f" +%Y-%m)
    mkdir -p "$d"
    n=$((n + 1))
    new=$d/$(printf 'img_%03d' $n).jpg
    mv -n -- "$f" "$new"
done
find . -type f | LC_ALL=C sort
for f in */*.jpg; do mv "$f" "${f%.jpg}.jpeg"; done
ls -R | cat
for d in */; do tar cf "${d%/}.tar" "$d"; done
ls -l *.tar | awk '{print $5, $9}'
