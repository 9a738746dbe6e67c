# SPDX-License-Identifier: Apache-2.0
# sh=bash placed=10
# git: hooks, submodule-like clone, clean, sparse history edits, apply, cherry-pick, reset, mv, ignore, notes.
export GIT_AUTHOR_DATE='1600000000 +0000' GIT_COMMITTER_DATE='1600000000 +0000' GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1
exec 2>&1
git init -q -b main r; cd r || exit; cp -r ../notes ../csv .; printf '*.bak\nout/\n' >.gitignore; git add -A; git commit -qm one
printf '#!/bin/sh\ngrep -r FORBIDDEN notes && exit 1\necho hook; exit 0\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
echo FORBIDDEN >>notes/a.txt; git commit -am bad; echo $?; git checkout -q notes/a.txt; echo fine >>notes/a.txt; git commit -qam two; git mv notes/b.txt notes/bb.txt; git commit -qm three; git status --short
touch x.bak; mkdir out; touch out/y new; git status --short --ignored; git clean -fdq; git status --short; ls; git clean -fdxq; ls -A
git diff HEAD~1 --stat -M | cat; git format-patch -1 -o .. HEAD --zero-commit | cat; git reset -q --hard HEAD~1; git apply --check ../0001-three.patch && git am -q ../0001-three.patch; git log --format=%s; git checkout -q -b s HEAD~2; git cherry-pick main~1 >/dev/null; git log --format=%s; git diff main..s --name-status
git rm -q notes/c.txt; git commit -qm gone; ls notes; git checkout -q main; ls notes; sort -o notes/a.txt notes/a.txt; git diff --shortstat; git stash -q; git stash list; git stash drop -q; git revert --no-edit HEAD >/dev/null; ls notes; git reflog | wc -l; git log --follow --format=%s -- notes/b.txt; git ls-files -s | md5sum; git rev-parse HEAD; git bundle create -q ../b.bundle main; git clone -q -b main ../b.bundle ../c; git -C ../c rev-parse HEAD; git repack -adq; git prune; git cat-file -p HEAD^{tree} | head -3; echo z | git hash-object --stdin; git show HEAD:notes/d.txt | wc -l; git log -p -1 | wc -l; git log --oneline | head -1; git describe --always
