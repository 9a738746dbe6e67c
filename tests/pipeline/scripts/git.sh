# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash slow placed=3
# A day with git: branches, conflict, rebase, stash, bisect, blame, worktree, gc.
export GIT_AUTHOR_DATE='1600000000 +0000' GIT_COMMITTER_DATE='1600000000 +0000' GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1
exec 2>&1
git init -q -b main repo; cd repo || exit
git config gc.auto 0
cp ../src/*.[ch] ../src/Makefile .
git add .; git commit -qm base
for i in 1 2 3 4 5 6; do echo "int v$i = $i;" >>util.c; git commit -qam "v$i"; done
git checkout -q -b feature HEAD~3
sed -i '1s/.*/\/* feature *\//' main.c; git commit -qam feature
git checkout -q main
git merge -q -m merged feature && git log --oneline --graph | head -12
git checkout -q -b topic HEAD~1
echo "int t = 1;" >>util.c; git commit -qam topic
git rebase -q main; echo "rebase $?"; git log --oneline | head -3
echo work >>main.c; git stash -q; git status --short; git stash pop -q; git diff --stat; git checkout -q main.c
git checkout -q main
echo "int conflict = 1;" >>util.c; git commit -qam left
git checkout -q -b right HEAD~1; echo "int conflict = 2;" >>util.c; git commit -qam right
git merge main; echo "merge $?"
git status --short; cat util.c | tail -5
git checkout --theirs util.c; git add util.c; git commit -qm resolved
git bisect start -q HEAD HEAD~6 >/dev/null 2>&1
git bisect run sh -c '! grep -q v5 util.c' >/dev/null; git bisect log | grep -c .
git bisect reset -q
git blame -s util.c | tail -4
git worktree add -q ../wt2 topic; ls ../wt2; git -C ../wt2 log -1 --format=%H; git worktree list | wc -l
git worktree remove ../wt2
git gc -q; git fsck --no-progress; echo "fsck $?"; git count-objects -v | grep -E '^(packs|count)'
git tag v1; git archive v1 | tar tf - | sort; git grep -n conflict | head; git shortlog -sn HEAD
git clone -q . ../clone; git -C ../clone rev-parse HEAD; git log --stat -2 --format=%s | cat
