#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What commands really touch against what their annotations declare.

Every case runs one command under strace in a folder made for it. Whatever it
looks at, reads or changes below that folder must follow from its declared uses;
what it reads in the home folder and in /etc from `reads "..."'; a read of stdin from
`stdin'; a program that it runs from `reads' too. Pure commands change nothing.
Long because most of it is the list of cases.
With arguments only the cases that match one of these regular expressions run.
Two liberties: what lies above a used path may be looked at, and a file that is
made beside one that is changed in place (sed -i, gzip, split) is part of it.
"""
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import annotated  # noqa: E402
import strace  # noqa: E402

# The C library's, for every program.
SYSTEM = re.compile(
    r"/etc/(ld\.so\.|nsswitch\.conf$|passwd$|group$|locale|"
    r"gai\.conf$|host|resolv|selinux|gcrypt|ssl|fonts|crypto-policies|"
    r"terminfo|debuginfod|inputrc)")

# Command lines; what follows " # " are words about them:
#  stdin=may   it may or may not read stdin although it is declared to
#  status=N    the exit status (default: 0)
#  cwd=DIR     where it runs
#  env=N=V     a variable more
CASES = r"""
cat a.txt
cat -n a.txt b.txt
cat a.txt - b.txt
cat link dir/c.txt
cat -- -dash
cat
tac a.txt
tac -s , a.txt
tac
nl -ba a.txt
nl
rev a.txt b.txt
rev
head a.txt b.txt
head -n 2 - a.txt
head -3 a.txt
head -c 5
tail a.txt b.txt
tail -2 a.txt
tail -n +2 a.txt
tail -c 4 - a.txt
cut -d , -f 2 c.csv
cut -c 1-3 - a.txt
cut -f1
paste a.txt b.txt
paste -d, - - 
paste -s a.txt -
fold -w 10 a.txt
fold -10 a.txt
fmt -20 a.txt
fmt
expand -t 4 a.txt
expand
unexpand -a a.txt
unexpand
tr a-z A-Z
tr -d '\n'
tr -s a
pr a.txt
pr -2 -t a.txt b.txt
pr -m -t a.txt -
column -t a.txt
column -t -s , c.csv
column
tee out1
tee -a a.txt dir/new.txt
tee
split a.txt
split -l 2 a.txt dir/part.
split -b 3 - piece
split -n 2/3 a.txt
csplit a.txt 2
csplit -f dir/p a.txt /b/
sort a.txt b.txt
sort -u -k 2 - a.txt
sort -o sorted a.txt
sort -o a.txt a.txt
sort -m s1.txt s2.txt
sort -c s1.txt
sort -T dir -S 1M a.txt
sort
uniq a.txt
uniq -c
uniq a.txt unique
uniq - -
comm s1.txt s2.txt
comm -12 - s2.txt
join s1.txt s2.txt
join -t , -1 1 -2 1 - c.csv
tsort pairs
tsort
grep b a.txt
grep -n b a.txt b.txt
grep b - a.txt
grep -e a -e b a.txt
grep -f patterns a.txt
grep -f - a.txt # status=1
grep -r b dir
grep -r b
grep -rn b . # cwd=dir
grep -R b dir
grep -r b --include=*.txt --exclude-from=globs dir
grep -d recurse b dir
grep -d skip b dir a.txt
grep -c b a.txt
grep -q b a.txt
grep -lr b dir
grep zzz a.txt # status=1
grep -P 'b\d' a.txt # status=1
grep b nothere # status=2
grep 1
find . -name '*.txt'
find dir -type f
find dir -newer a.txt # status=0
find
find dir -maxdepth 1 -printf '%p %s\n'
find -L dir -type f
find dir -ls
find dir a.txt -samefile a.txt
find dir -empty -delete
find -name nothing -delete # cwd=dir
find dir '(' -name a -o -name b ')' -print0
find dir -perm -u+r -size -10k -mtime -1
find dir -newermt 2020-01-01 -user root
find dir -type f -exec grep -l a {} +
find -type f -exec wc -c {} ';' # cwd=dir
find dir -exec ls {} +
find dir -type f -exec grep -f a.txt {} ';' -exec cat {} +
find dir -type f -exec chmod 600 {} + -exec sed -i s/a/b/ {} ';'
find dir -type f -exec gzip {} ';'
strings a.txt
strings -n 2 -f a.txt b.txt
strings
wc a.txt
wc -l a.txt b.txt
wc -c - a.txt
wc -l
md5sum a.txt b.txt
md5sum - a.txt
sha256sum a.txt
sha1sum
sha512sum -b a.txt
b2sum -l 128 a.txt
cksum a.txt
cksum -a md5 a.txt
cksum
sum a.txt b.txt
sum
cmp a.txt b.txt # status=1
cmp a.txt # status=1
cmp - a.txt # status=1
cmp -n 2 a.txt a.txt 0 0
diff a.txt b.txt # status=1
diff -u - a.txt # status=1
diff -r dir dir2 # status=1
diff dir dir2 # status=1
diff b.txt dir # status=2
diff a.txt dir2
diff --from-file=a.txt b.txt link # status=1
diff -X globs -ru dir dir2 # status=1
diff -q a.txt a.txt
od -c a.txt
od -An -tx1 - a.txt
od
sed s/a/b/ a.txt b.txt
sed -n '/b/p;$=' a.txt
sed -e p -e d - a.txt
sed 5q
sed -i s/a/b/ a.txt dir/c.txt
sed -i.bak -e s/a/b/ a.txt
sed -n -i p link
sed -s -n '$p' a.txt b.txt
awk '{print $1}' a.txt b.txt
awk -F, '$2 > 1 {print $2}' c.csv
awk '{n += $1} END {print n}'
awk '{print x}' x=1 a.txt # stdin=may
awk '{print}' - a.txt
mawk -v n=2 'NR == n' a.txt
mawk '{print}'
gawk -F , '{print $2}' c.csv
gawk '/b/' - a.txt
gawk -b -e '1' a.txt
jq . x.json
jq -r .a x.json x.json
jq -n --slurpfile v x.json '$v' # stdin=may
jq --rawfile v a.txt . x.json
jq -n --args '$ARGS' one two # stdin=may
jq -c .
jq . - x.json
ls
ls -l dir
ls -la dir a.txt link
ls -R dir
ls -lR # cwd=dir
ls -L dir
ls -d dir
ls --color=always dir
ls -tS dir
ls -i linkdir/
stat -c %s a.txt dir
stat -L -c '%n %F %a' link
stat --printf '%U %i\n' a.txt
stat -c %s - # stdin=may
du dir
du -sb dir a.txt
du # cwd=dir
du -L dir
du -X globs dir
file a.txt x.json t.tgz dir
file -b a.txt
file -L link
file -
cp a.txt new.txt
cp a.txt b.txt dir
cp -r dir newdir
cp -a dir newdir2
cp -rL dir newdir3
cp -t dir a.txt b.txt
cp --parents dir/c.txt dir2
cp -l a.txt hard.txt
cp -s a.txt soft.txt
cp -b a.txt b.txt
cp -u a.txt b.txt
cp -p a.txt new.txt
cp --backup=numbered a.txt b.txt
cp -P link newlink
mv a.txt moved.txt
mv a.txt b.txt dir
mv -f a.txt b.txt
mv -t dir a.txt
mv dir newdir
mv -n a.txt b.txt
mv -b a.txt b.txt
rm a.txt
rm -r dir
rm -f a.txt nothere
rm -rf dir dir2 link
rm -d empty
rm nothere # status=1
mkdir newdir
mkdir -p one/two/three
mkdir -m 700 newdir
rmdir empty
rmdir -p deep/deeper
touch a.txt newfile
touch -r a.txt b.txt
touch -d '2020-01-01' a.txt
touch -c nothere
ln a.txt hard.txt
ln -s a.txt soft.txt
ln -sf ../a.txt dir/soft
ln -s a.txt b.txt dir
ln a.txt b.txt dir
ln -sfn a.txt linkdir
ln -sfT a.txt link
chmod 600 a.txt
chmod -R u+w dir
chmod --reference=a.txt b.txt
chmod +x a.txt
truncate -s 3 a.txt new.txt
truncate -r a.txt b.txt
dd if=a.txt of=new.txt bs=2 count=1
dd if=a.txt
dd of=new.txt
tar cf new.tar dir a.txt
tar -cf - dir
tar czf new.tgz dir
tar -cJf new.tar.xz a.txt
tar -acf new.tar.bz2 a.txt
tar --zstd -cf new.tzst a.txt
tar -chf new.tar dir link
tar -C dir -cf - .
tar -C dir -cf - c.txt
tar -X globs -cf new.tar dir
tar tf t.tar
tar tvf t.tgz
tar -tf - # status=2
tar xf ../t.tar # cwd=empty2
tar xf t.tar
tar xzf t.tgz -C empty
tar -xf t.tar -C empty dir/c.txt
tar xOf t.tar dir/c.txt
tar -xf t.tar --strip-components=1 -C empty
tar xkf t.tar -C empty
gzip a.txt
gzip -k a.txt b.txt
gzip -c a.txt
gzip -d z.gz
gzip -dk z.gz
gzip -dc z.gz
gzip -dc - z.gz # stdin=may status=1
gzip -l z.gz
gzip -t z.gz
gzip
gzip -r dir # status=1
gzip -cr dir
gzip -S .zz a.txt
bzip2 a.txt
bzip2 -k a.txt
bzip2 -c a.txt
bzip2 -dc z.bz2
bzip2 -t z.bz2
bzip2
bunzip2 z.bz2
bunzip2 -k z.bz2
bzcat z.bz2
xz a.txt
xz -k a.txt
xz -c - a.txt
xz -dc z.xz
xz -l z.xz
xz -t z.xz
xz
unxz z.xz
xzcat z.xz
xzcat - z.xz # stdin=may status=1
zstd -f a.txt
zstd -qf --rm a.txt # status=0
zstd -c a.txt
zstd -19 -T2 -o out.zst a.txt
zstd -dc z.zst
zstd -d -o plain z.zst
zstd -df z.zst
zstd -t z.zst
zstd -l z.zst
zstd
zstdcat z.zst
unzstd -f z.zst
git status # cwd=repo
git status --short # cwd=repo/sub
git status -s sub # cwd=repo
git -C repo status
git add -A # cwd=repo
git add new.txt # cwd=repo
git commit -q -m message -- tracked.txt # cwd=repo
git commit -qam message # cwd=repo
git commit -q -F /dev/null --allow-empty --allow-empty-message # cwd=repo
git diff # cwd=repo
git diff --cached --stat # cwd=repo
git diff HEAD -- sub # cwd=repo
git log --oneline # cwd=repo
git --no-pager log -p # cwd=repo/sub
git show HEAD # cwd=repo
git log -3 --format=%H -- tracked.txt # cwd=repo
git log --date iso --decorate=short --branches=* # cwd=repo
git rev-parse HEAD # cwd=repo
git rev-parse --show-toplevel --git-dir --show-prefix # cwd=repo/sub
git -C repo rev-parse --abbrev-ref --short=9 HEAD
git rev-parse --verify -q nothing # cwd=repo status=1
git rev-parse HEAD:sub/deep.txt # cwd=repo
git ls-files # cwd=repo
git ls-files -m -d -o --exclude-standard # cwd=repo/sub
git ls-files -s -X ../globs --eol # cwd=repo
git ls-files --error-unmatch nothing # cwd=repo status=1
git ls-tree -r HEAD # cwd=repo
git ls-tree -l HEAD deep.txt # cwd=repo/sub
git rev-list --all --count # cwd=repo
git rev-list --objects -n 1 HEAD -- sub # cwd=repo
git merge-base --is-ancestor HEAD HEAD # cwd=repo
git merge-base HEAD HEAD # cwd=repo/sub
git cat-file -p HEAD # cwd=repo
git cat-file blob HEAD:tracked.txt # cwd=repo
git cat-file -e nothing # cwd=repo status=128
git symbolic-ref --short HEAD # cwd=repo
git show-ref --heads -d # cwd=repo
git show-ref --verify -q refs/heads/none # cwd=repo status=1
git for-each-ref --format=%(refname)%(objectname:short)%(committerdate:iso) refs/heads # cwd=repo
git describe --always --dirty # cwd=repo
git describe --contains --all HEAD # cwd=repo/sub
git name-rev --name-only HEAD # cwd=repo
git branch # cwd=repo
git branch -v -a --contains HEAD # cwd=repo/sub
git branch --show-current # cwd=repo
git tag # cwd=repo
git tag -n -l x* # cwd=repo
git diff-tree -r --root HEAD # cwd=repo
git diff-tree -p HEAD HEAD -- deep.txt # cwd=repo/sub
git diff-index --cached -p --stat HEAD # cwd=repo
git blame HEAD tracked.txt # cwd=repo
git blame -C -L 1,2 HEAD -- deep.txt # cwd=repo/sub
git grep -n b # cwd=repo
git grep -c -e b --and -e 2 HEAD -- sub # cwd=repo
git grep --untracked -l -f ../patterns # cwd=repo
git grep zzz # cwd=repo status=1
git grep -l -e a --and '(' -e b --or -e 4 ')' # cwd=repo
git config user.name # cwd=repo
git config --get-regexp ^user # cwd=repo/sub
git config -l --show-scope # cwd=repo
git config --global --get none.such # cwd=repo status=1
git -C dir rev-parse HEAD # status=128
mogrify -resize 50% +repage p.png
mogrify -format jpg p.png
mogrify -path dir -resize 4x4! p.png
convert p.png -resize 50% q.jpg
identify -format '%w %h\n' p.png
base64 a.txt
base64 -d - # status=1
sha224sum a.txt
sha384sum a.txt
numfmt --to=iec
numfmt --to=iec 1000
iconv -f utf-8 -t latin1 a.txt
iconv -t utf-16
iconv -t utf-16 -o new.txt a.txt
hexdump -C a.txt
hexdump
look b s1.txt
tac -
nl -
rev -- b.txt
fold -
fmt -
expand - a.txt
unexpand -
csplit - 2
cmp a.txt - # status=1
b2sum -
b2sum
cksum -
sum -
md5sum
tsort -
join s1.txt -
comm s1.txt -
uniq a.txt -
basenc --base64 -
basenc --base16
base64
iconv -t utf-16 -
zstdcat -
zstdcat
zstd -dc - # status=1
zstd -o out.zst -
zstd -o out.zst
xz -dc - # status=1
xzcat # status=1
bzcat # status=2
bzip2 -d # status=2
gzip -d # status=1
unxz # status=1
tar -t # status=2
tar -x # status=2
tar -xf - # status=2
tar -xOf - # status=2
tar -xO # status=2
tar -c --add-file=dir
tar -xf t.tar --backup -C empty
du -X - dir
diff -X - -r dir dir2 # status=1
diff --from-file=- a.txt # status=1
diff --to-file=dir a.txt # status=2
diff --to-file=- a.txt # status=1
touch -t 202001010000 a.txt
touch -d yesterday a.txt
find -newermt 2020-01-01 # cwd=dir
find dir -printf %t
du --time dir
stat -c %y a.txt
ls -l --time-style=full-iso
diff -u a.txt b.txt # status=1
gzip -lv z.gz
git commit -q -a -F - # cwd=repo
git -C repo add new.txt
git -C repo/sub status -s deep.txt
git -C repo --no-pager diff --stat
git status --ignored # cwd=repo
gawk '{print}'
awk '{print}' -
sort - a.txt
paste - a.txt
tail -c +2 -
head -n -1 -
cut -f1 -
cat link dir/inner
sed -n '/1/p' -
sed -i -e s/a/b/ dir/inner
sed --in-place -e '$d' dir/sub/d.txt
cp link new.txt
cp -d link new.txt
cp dir/inner dir2
cp -r dir/. empty
cp -rT dir empty
cp -rH linkdir new
cp -f b.txt link
mv link newlink
mv -t empty a.txt link dir2
rm link
rm -r linkdir/ # status=1
rm -rf dir/sub
chmod 600 link
truncate -s 1 link
tee link
sort -o link a.txt
grep -r b linkdir/
grep -r b linkdir
find linkdir
find -H linkdir -type f
find linkdir/ -type f
ls linkdir
ls -lL
ls -RL dir
ls --color=auto -R
wc -l link
du -D linkdir
tar cf new.tar linkdir
tar chf new.tar linkdir
diff -r dir dir2 --no-dereference # status=1
gzip -f link
gzip -c link
tail
paste
fold
pr -t
split
find -name x.o -delete # cwd=dir/sub
tar xOf t.tgz
tar xf t.tgz
"""


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def quiet(*argv, **more):
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   **more)


def have(*names):
    return all(shutil.which(name) for name in names)


def populate(root):
    """The files that the cases name; made once, copied for each case."""
    text = b"a 1\nb 2\nc 3\nab 4\n"
    for name, data in {
            "a.txt": text, "b.txt": b"b 2\nx 9\n", "-dash": text,
            "s1.txt": b"a 1\nb 2\nc 3\n", "s2.txt": b"b 5\nc 6\nd 7\n",
            "c.csv": b"a,1\nb,2\n", "x.json": b'{"a": [1, 2]}\n',
            "patterns": b"b\n", "globs": b"*.o\n", "pairs": b"a b\nb c\n",
            "dir/c.txt": text, "dir/sub/d.txt": text, "dir/sub/x.o": b"x",
            "dir/sub/none": b"", "dir2/c.txt": b"other\n", "dir2/a.txt": text,
            "z.gz": gzip.compress(text, mtime=0)}.items():
        write(os.path.join(root, name), data)
    for name in ("empty", "empty2", "deep/deeper", "dir/hollow"):
        os.makedirs(os.path.join(root, name))
    os.symlink("a.txt", os.path.join(root, "link"))
    os.symlink("dir2", os.path.join(root, "linkdir"))
    os.symlink("c.txt", os.path.join(root, "dir/inner"))
    os.symlink("../dir2", os.path.join(root, "dir/other"))
    for tool, ending in (("bzip2", "bz2"), ("xz", "xz"), ("zstd", "zst")):
        if have(tool):
            with open(os.path.join(root, "z." + ending), "wb") as file:
                subprocess.run([tool, "-c"], input=text, stdout=file,
                               check=True)
    quiet("tar", "cf", "t.tar", "dir", "a.txt", cwd=root)
    quiet("tar", "czf", "t.tgz", "dir", cwd=root)
    if have("convert"):
        for convert in ("/usr/bin/convert", "/usr/bin/convert-im6.q16"):
            if os.access(convert, os.X_OK):
                quiet(convert, "-size", "8x8", "xc:red", "p.png", cwd=root)
                break
    if have("git"):
        populate_repository(os.path.join(root, "repo"), text)


def populate_repository(repo, text):
    write(os.path.join(repo, "tracked.txt"), text)
    write(os.path.join(repo, "sub/deep.txt"), text)
    environment = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null",
                       GIT_CONFIG_NOSYSTEM="1")
    for words in (["init", "-q"], ["config", "user.email", "a@b.c"],
                  ["config", "user.name", "a"], ["config", "gc.auto", "0"],
                  ["add", "-A"], ["commit", "-q", "-m", "first"]):
        quiet("git", *words, cwd=repo, env=environment)
    for hook in os.listdir(os.path.join(repo, ".git/hooks")):
        os.unlink(os.path.join(repo, ".git/hooks", hook))
    write(os.path.join(repo, "tracked.txt"), text + b"more\n")
    write(os.path.join(repo, "new.txt"), text)


class Declared:
    """The uses of one invocation as absolute paths."""

    def __init__(self, call, cwd, root):
        self.call = call
        self.cwd = cwd
        self.root = root
        self.uses = []
        base = cwd
        for access, kind, path in call.uses:
            if "+stream" in kind:
                continue
            path = os.path.normpath(os.path.join(base, path))
            if kind.startswith("folder"):
                base = path
            self.uses.append((access, kind, path))
            # A link that is named means where it leads, too.
            if os.path.realpath(path) != path:
                self.uses.append((access, kind, os.path.realpath(path)))
        # git's folder is the tree that begins there, or above it.
        self.base = base
        self.tree = base
        if call.lines[0].startswith("command git"):
            while self.tree != root and not os.path.exists(
                    os.path.join(self.tree, ".git")):
                self.tree = os.path.dirname(self.tree)

    @staticmethod
    def below(path, top):
        return path == top or path.startswith(top.rstrip("/") + "/")

    def beside(self, path, top):
        """Made beside a file that is changed, and named after it."""
        if os.path.dirname(path) != os.path.dirname(top):
            return False
        name, other = os.path.basename(path), os.path.basename(top)
        stem = other.rsplit(".", 1)[0]
        return (name.startswith(stem) or other.startswith(name) or
                re.match(r"(sed|Cu)\w{6}$", name) is not None)

    def below_link(self, path, top):
        """Where a link inside a tree leads, if links are followed."""
        for folder, folders, files in os.walk(top):
            for name in folders + files:
                link = os.path.join(folder, name)
                if os.path.islink(link) and self.below(
                        path, os.path.realpath(link)):
                    return True
        return False

    def may_change(self, path):
        if any(self.below(path, top) and path != top for top in self.kept()):
            return False
        written = self.call.named("writes") or ["."]
        if self.call.says("writes-cwd") and any(
                self.below(path, os.path.normpath(os.path.join(self.tree, w)))
                for w in written):
            return True
        for access, kind, top in self.uses:
            if access == "in":
                continue
            if path == top or "tree" in kind and self.below(path, top):
                return True
            if self.beside(path, top):
                return True
            # mkdir -p and rmdir -p: what the operand names on its way.
            if self.below(top, path) and self.below(path, self.cwd) and \
                    path != self.cwd:
                return True
        return False

    def kept(self):
        """Below which nothing is changed, whatever is said of its parents."""
        return [os.path.join(self.tree, w) for w in self.call.named("keeps")]

    def made(self):
        """Where a file that is made has a new name."""
        return [os.path.join(self.tree, w) for w in self.call.named("makes")]

    def may_look(self, path):
        """stat and the like."""
        if self.may_read(path):
            return True
        parent = os.path.dirname(path)
        if self.call.says("reads-cwd") and parent == self.base:
            return True
        for _, kind, top in self.uses:
            if self.below(top, path) or parent == top:
                return True
        return self.below(self.cwd, path) or self.below(self.tree, path)

    def may_read(self, path):
        if self.may_change(path):
            return True
        if self.call.says("cwd-tree") and self.below(path, self.tree):
            return True
        if self.call.says("reads-cwd") and path == self.base:
            return True
        for access, kind, top in self.uses:
            if path == top or "tree" in kind and self.below(path, top):
                return True
            if "follows" in kind and self.below_link(path, top):
                return True
            # Whether there are numbered backups already.
            if access != "in" and path == os.path.dirname(top):
                return True
        return False


def inodes(tops):
    """Of every file below them."""
    found = {}
    for top in tops:
        for folder, _, files in os.walk(top):
            for name in files:
                path = os.path.join(folder, name)
                found[path] = os.lstat(path).st_ino
    return found


def judge(case, trace, home, declared, before):
    """What is wrong, a line each."""
    wrong = []
    call, cwd, root = declared.call, declared.cwd, declared.root
    # ImageMagick asks of every word whether it is a file.
    magick = call.lines[0].split()[-1] in ("mogrify", "convert", "identify")

    def ours(path):
        return Declared.below(path, root)

    for path in sorted(trace.changed):
        if ours(path) and call.says("pure"):
            wrong.append("pure, but it changes %s" % path)
        if ours(path) and not declared.may_change(path):
            wrong.append("it changes %s" % path)
    after = inodes(declared.made())
    for path in sorted(set(before) & set(after)):
        if before[path] != after[path]:
            wrong.append("it replaces %s" % path)
    for path in sorted(trace.read):
        if ours(path) and not declared.may_read(path):
            wrong.append("it reads %s" % path)
    for path in sorted(trace.looked):
        if os.path.dirname(path) == cwd and magick and \
                not os.path.exists(path):
            continue
        if ours(path) and not declared.may_look(path):
            wrong.append("it looks at %s" % path)
    configs = {path.replace("~", home, 1) if path.startswith("~/") else path
               for path in call.configs()}
    homely = {p for p in trace.looked if p.startswith(home + "/")}
    for path in sorted(trace.read | homely):
        outside = Declared.below(path, home) or (
            path.startswith("/etc/") and not SYSTEM.match(path))
        if outside and path not in configs:
            wrong.append("it reads %s" % path)
    for program in trace.programs[1:]:
        real = os.path.realpath(program)
        if program not in configs and real not in configs:
            wrong.append("it runs %s" % program)
    if trace.stdin and not call.says("stdin"):
        wrong.append("it reads stdin")
    if call.says("stdin") and not trace.stdin and case["stdin"] != "may":
        wrong.append("it does not read stdin")
    return wrong


def read_cases():
    cases = []
    for line in CASES.splitlines():
        if not line.strip():
            continue
        text, _, words = line.partition(" # ")
        case = {"text": line, "argv": shlex.split(text), "stdin": "",
                "status": 0, "cwd": ".", "env": []}
        for word in words.split():
            key, _, value = word.partition("=")
            case[key] = [value] if key == "env" else value
        cases.append(case)
    return cases


def find_program(name):
    """The system's own: PATH may begin with somebody's wrappers."""
    for folder in ("/usr/bin", "/bin"):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return None


def run_case(tap, case, call, model, scratch):
    root = os.path.join(scratch, "root")
    home = os.path.join(scratch, "home")
    program = find_program(case["argv"][0])
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(model, root, symlinks=True)
    cwd = os.path.normpath(os.path.join(root, case["cwd"]))
    environment = {"PATH": "/usr/bin:/bin", "HOME": home, "LC_ALL": "C.UTF-8",
                   "GIT_EDITOR": "false"}
    declared = Declared(call, cwd, root)
    before = inodes(declared.made())
    trace, status, errors = strace.run(program, case["argv"], cwd,
                                       environment, b"1 1\n2 2\n", scratch)
    if trace is None:
        tap.result(False, case["text"], errors.decode("latin-1"))
        return
    wrong = judge(case, trace, home, declared, before)
    if status != int(case["status"]):
        wrong.append("status %d: %s" % (status, errors.decode("latin-1")))
    if wrong:
        wrong += ["", call.text]
    tap.result(not wrong, case["text"], "\n".join(
        line.replace(root, "ROOT") for line in wrong))


def main():
    tap = annotated.Tap()
    if not have("strace") or subprocess.run(
            ["strace", "-o", "/dev/null", "true"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, check=False).returncode:
        print("1..0 # SKIP strace is missing or not allowed")
        return 77
    cases = read_cases()
    only = sys.argv[1:]
    if only:
        cases = [c for c in cases
                 if any(re.search(w, c["text"]) for w in only)]
    calls = annotated.parse([case["argv"] for case in cases])
    scratch = os.path.realpath(tempfile.mkdtemp(prefix="ferry-touched-"))
    try:
        os.makedirs(os.path.join(scratch, "home"))
        model = os.path.join(scratch, "model")
        os.makedirs(model)
        populate(model)
        for case, call in zip(cases, calls):
            if not find_program(case["argv"][0]):
                tap.skip(case["text"], case["argv"][0] + " is not installed")
            elif call.declined:
                tap.result(False, case["text"], call.text)
            else:
                run_case(tap, case, call, model, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
