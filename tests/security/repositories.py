#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repositories that another user wrote, end to end: each attack with each command of
git, in real runs of `ferry run' beside a proxy without Landlock. git alone is asked
first what it runs: each row of the table is a command that runs a program of the
repository, and that command runs here. With --all, commands that run little, too.
Prints TAP."""
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from chosen import EDIT  # noqa: E402
from patience import patient  # noqa: E402

BUILD = os.path.realpath(os.environ.get("FERRY_BUILDDIR", "."))
FERRY = os.path.join(BUILD, "ferry")

COMMANDS = """
status
diff
diff HEAD^ HEAD
add .
commit -qam x
log -p
log -p -m
show HEAD:f
ls-files -m
describe --always --dirty
diff-tree -p HEAD
blame HEAD f
grep one HEAD
""".strip().splitlines()

# With --all too: git runs little or nothing for them.
MORE = """
diff HEAD
commit -q --amend --no-edit
log
show -m
ls-files -o
ls-tree -r -l HEAD
rev-parse HEAD
rev-list --objects HEAD
cat-file -p HEAD:f
merge-base HEAD HEAD^
symbolic-ref HEAD
for-each-ref --sort=-authordate
name-rev HEAD
branch -v
tag -n
diff-index --cached -p HEAD
grep one
config -l
""".strip().splitlines()

# Tools of the scripts. $E is the attacker's program, $R the repository; the folder
# that all is in is the working one.
PRELUDE = r"""set -e
repo() { git init -q "$1"; (cd "$1"; git config user.email v@v; mkdir -p d; echo one >f; echo one >d/g; git add .
  git commit -qm one; echo two >f; echo two >d/g; git commit -qam two; git tag -am t t
  echo three >f; echo three >d/g); }
nest() { repo "$1/$2"; (cd "$1"; git add "$2" 2>/dev/null; git commit -qm nested); }
set_() { git -C r config "$@"; }
monitored() { git config -f "$1" core.fsmonitor "$E"; }
attributes() { echo "* $1" >r/.git/info/attributes; }
# A merge whose two sides changed one line; and another one that is resolved.
merged() { (cd r; git checkout -q -f -b o HEAD^; echo other >f; git commit -qam o
  git checkout -q -f master; git merge -q o >/dev/null 2>&1 || :; echo both >f
  git commit -qam merged; echo three >f); }
# The object of a file is missing: git asks another repository for it.
partial() { (cd r; rm -f .git/objects/$(git rev-parse HEAD:f | sed 's:..:&/:')
  git config remote.o.url "$1"); }
# A conflict that was resolved once stands in a file again.
rerere() { (cd r; git config rerere.enabled true; git checkout -q -f -b o HEAD^
  echo other >d/g; git commit -qam o; git checkout -q -f master
  git merge -q o >/dev/null 2>&1 || :; cp .git/MERGE_RR ../rr; cp d/g ../conflict
  echo both >d/g; git commit -qam merged 2>/dev/null; cp ../rr .git/MERGE_RR
  sed 's/two/2/' ../conflict >d/g; sed 's/two/2/' ../conflict >f; git add d/g; cp ../conflict d/g); }
"""

ATTACKS = [
    ("a monitor", "repo r; monitored r/.git/config"),
    ("a monitor in a nested repository", "repo r; nest r n; monitored r/n/.git/config"),
    ("a monitor in a repository that nobody added", "repo r; repo r/n; monitored r/n/.git/config"),
    (".git is a file, absolute", "repo r; mv r/.git e; monitored e/config; echo gitdir: $PWD/e >r/.git"),
    (".git is a file, upwards", "repo r; mv r/.git e; monitored e/config; echo gitdir: ../e >r/.git"),
    (".git is a file, /proc", "repo r; mv r/.git e; monitored e/config; echo gitdir: /proc/self/cwd/../e >r/.git"),
    (".git is a file with two lines", "repo r; mv r/.git r/e; monitored r/e/config; printf 'gitdir: e\\n\\n' >r/.git"),
    (".git is a link, absolute", "repo r; mv r/.git e; monitored e/config; ln -s $PWD/e r/.git"),
    (".git is a link, upwards", "repo r; mv r/.git e; monitored e/config; ln -s ../e r/.git"),
    (".git is a link within", "repo r; mv r/.git r/e; monitored r/e/config; ln -s e r/.git"),
    (".git is a link, /proc", "repo r; mv r/.git e; monitored e/config; ln -s /proc/self/cwd/../e r/.git"),
    ("settings are a link, absolute", "repo r; mv r/.git/config c; monitored c; ln -s $PWD/c r/.git/config"),
    ("settings are a link, upwards", "repo r; mv r/.git/config c; monitored c; ln -s ../../c r/.git/config"),
    ("settings are a link within", "repo r; mv r/.git/config r/.git/c; monitored r/.git/c; ln -s c r/.git/config"),
    ("settings are a link, /proc", "repo r; mv r/.git/config r/c; monitored r/c; ln -s /proc/self/cwd/c r/.git/config"),
    ("settings of a working tree", "repo r; set_ extensions.worktreeConfig true; monitored r/.git/config.worktree"),
    ("a further working tree", "repo m; git -C m worktree add -q ../r HEAD; monitored m/.git/config"),
    ("settings of a further working tree",
     "repo m; git -C m worktree add -q ../r HEAD; git -C m config extensions.worktreeConfig true; "
     "monitored m/.git/worktrees/r/config.worktree"),
    ("settings elsewhere", "repo r; repo s; monitored s/.git/config; rm r/.git/config; echo ../../s/.git >r/.git/commondir"),
    ("a bare repository", "repo r; cp -r r/.git/. r/; rm -rf r/.git; git config -f r/config core.bare false; "
     "git config -f r/config core.worktree $PWD/r; monitored r/config"),
    ("a working tree elsewhere", "repo r; repo s; monitored s/.git/config; set_ core.worktree ../../s; "
     "set_ core.hooksPath $PWD/h; mkdir h; cp $E h/post-index-change; touch -d@1 s/f"),
    ("an include", "repo r; monitored c; set_ include.path ../../c"),
    ("an include by folder", "repo r; monitored c; set_ includeIf.gitdir:**.path $PWD/c"),
    ("an include by branch", "repo r; monitored c; set_ includeIf.onbranch:master.path $PWD/c"),
    ("an include by remote", "repo r; monitored c; set_ remote.o.url x; "
     "set_ 'includeIf.hasconfig:remote.*.url:*.path' $PWD/c"),
    ("hooks", "repo r; for h in pre-commit prepare-commit-msg commit-msg post-commit post-rewrite "
     "reference-transaction post-index-change; do cp $E r/.git/hooks/$h; done"),
    ("hooks elsewhere", "repo r; mkdir h; for h in pre-commit post-index-change; do cp $E h/$h; done; "
     "set_ core.hooksPath $PWD/h; touch -d@1 r/f"),
    ("hooks behind a link", "repo r; rm -rf r/.git/hooks; mkdir h; cp $E h/pre-commit; ln -s ../../h r/.git/hooks"),
    ("a hook at collection", "repo r; cp $E r/.git/hooks/pre-auto-gc; set_ gc.auto 1; set_ gc.autoDetach false"),
    ("a filter, info/attributes", "repo r; set_ filter.x.clean $E; attributes filter=x"),
    ("a filter, top", "repo r; set_ filter.x.clean $E; echo '* filter=x' >r/.gitattributes"),
    ("a filter, below", "repo r; set_ filter.x.clean $E; echo '* filter=x' >r/d/.gitattributes"),
    ("a filter, in a macro", "repo r; set_ filter.x.clean $E; echo '[attr]y filter=x' >r/.gitattributes; "
     "echo '* y' >r/d/.gitattributes"),
    ("a filter, attributes elsewhere", "repo r; set_ filter.x.clean $E; echo '* filter=x' >a; "
     "set_ core.attributesFile $PWD/a"),
    ("a filter that smudges", "repo r; set_ filter.x.smudge $E; attributes filter=x"),
    ("a filter that stays", "repo r; set_ filter.x.process $E; attributes filter=x"),
    ("diff.external", "repo r; set_ diff.external $E"),
    ("a diff driver, top", "repo r; set_ diff.x.command $E; echo '* diff=x' >r/.gitattributes"),
    ("a diff driver, below", "repo r; set_ diff.x.command $E; echo '* diff=x' >r/d/.gitattributes"),
    ("a text converter", "repo r; set_ diff.x.textconv $E; attributes diff=x"),
    ("a text converter, below", "repo r; set_ diff.x.textconv $E; echo '* diff=x' >r/d/.gitattributes"),
    ("a text converter of all", "repo r; set_ diff.default.textconv $E"),
    ("a merge driver, again", "repo r; merged; set_ merge.x.driver $E; attributes merge=x; set_ log.diffMerges remerge"),
    ("a merge driver, below", "repo r; rerere; set_ merge.x.driver $E; echo '* merge=x' >r/d/.gitattributes"),
    ("a merge driver of all", "repo r; merged; set_ merge.x.driver $E; set_ merge.default x; set_ log.diffMerges remerge"),
    ("a merge driver of what was resolved", "repo r; rerere; set_ merge.x.driver $E; set_ merge.default x"),
    ("a merge driver, [merge.x]", "repo r; merged; printf '[merge.x]driver=%s\\n[merge]default=x\\n[log]diffMerges=remerge\\n' $E "
     ">>r/.git/config"),
    ("gpg.program", "repo r; set_ gpg.program $E; set_ commit.gpgSign true"),
    ("gpg.ssh.program", "repo r; set_ gpg.format ssh; set_ gpg.ssh.defaultKeyCommand $E; set_ gpg.ssh.program $E; "
     "set_ commit.gpgSign true"),
    ("a signature", "repo r; set_ gpg.program $E; set_ log.showSignature true; tree=$(git -C r rev-parse "
     "HEAD^{tree}); printf 'tree %s\\nauthor a <b> 1 +0000\\ncommitter a <b> 1 +0000\\ngpgsig -----BEGIN PGP "
     "SIGNATURE-----\\n \\n x\\n -----END PGP SIGNATURE-----\\n\\nm\\n' $tree >c; git -C r reset -q "
     "$(git -C r hash-object -t commit -w $PWD/c)"),
    ("a promisor", "repo r; partial .; set_ remote.o.promisor true; set_ remote.o.uploadpack $E"),
    ("a promisor by its filter", "repo r; partial .; set_ remote.o.partialCloneFilter blob:none; "
     "set_ remote.o.uploadpack $E"),
    ("a promisor by its filter, ssh", "repo r; partial ssh://h/x; set_ remote.o.partialCloneFilter blob:none; "
     "set_ core.sshCommand $E"),
    ("a promisor, ext", "repo r; partial \"ext::$E %S\"; set_ extensions.partialClone o; set_ protocol.ext.allow always"),
    ("a promisor by its filter, ext", "repo r; partial \"ext::$E %S\"; set_ remote.o.partialclonefilter blob:none; "
     "set_ protocol.ext.allow always"),
    ("a promisor, vcs", "repo r; partial x::y; set_ remote.o.promisor true; set_ remote.o.vcs ext; "
     "set_ remote.o.url \"$E %S\"; set_ protocol.ext.allow always"),
    ("programs that talk", "repo r; set_ core.sshCommand $E; set_ core.gitProxy $E; set_ core.askPass $E; "
     "set_ credential.helper $E; set_ core.alternateRefsCommand $E; set_ uploadpack.packObjectsHook $E; "
     "set_ remote.o.url ssh://h/x; set_ remote.o.uploadpack $E; set_ remote.o.receivepack $E"),
    ("programs for people", "repo r; set_ core.editor $E; set_ core.pager $E; set_ sequence.editor $E; "
     "set_ interactive.diffFilter $E; set_ web.browser $E; set_ diff.tool x; set_ difftool.x.cmd $E; "
     "set_ alias.status !$E; set_ alias.log !$E; set_ alias.diff !$E"),
    ("alternates with a program", "repo r; repo s; echo $PWD/s/.git/objects >r/.git/objects/info/alternates; "
     "set_ core.alternateRefsCommand $E"),
    ("a submodule's update", "repo r; nest r n; git -C r/n rev-parse HEAD >h; set_ submodule.n.update !$E; "
     "set_ submodule.n.url ./n; set_ status.submoduleSummary true; set_ diff.submodule diff; monitored r/n/.git/config"),
    ("a trailer", "repo r; set_ trailer.x.command $E; set_ trailer.x.key X; set_ trailer.x.ifmissing add"),
]


def renamed(folder, old, new):
    """Puts NEW, which is as long, for OLD in the files and links of a folder."""
    for top, folders, files in os.walk(folder):
        for path in (os.path.join(top, name) for name in folders + files):
            if os.path.islink(path):
                target = os.readlink(path)
                if old in target:
                    os.unlink(path)
                    os.symlink(target.replace(old, new), path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    text = file.read()
                if old.encode() in text:
                    os.chmod(path, os.stat(path).st_mode | 0o200)
                    with open(path, "wb") as file:
                        file.write(text.replace(old.encode(), new.encode()))


def sampled():
    """The numbers of the attacks: in the tier edit the first one of each kind."""
    kinds = {}
    for number, (name, _) in enumerate(ATTACKS):
        kinds.setdefault(" ".join(name.split()[:2]) if EDIT else number, number)
    return set(kinds.values())


class Tests:
    def __init__(self):
        self.count = self.failed = self.skipped = 0
        self.top = os.path.realpath(tempfile.mkdtemp(dir="/var/tmp"))
        self.mount = os.path.join(self.top, "mnt")
        self.home = os.path.join(self.top, "home")
        self.env = {"HOME": self.home, "LC_ALL": "C.UTF-8", "TERM": "dumb",
                    "PATH": os.path.join(self.top, "bin") + ":/usr/bin:/bin",
                    "XDG_CACHE_HOME": self.top + "/cache", "GIT_EDITOR": "true"}
        for folder in ("mnt", "home", "bin"):
            os.mkdir(os.path.join(self.top, folder))
        self.write("making", "[user]\nname = v\nemail = v@v\n[init]\n"
                   "defaultBranch = master\n[protocol \"file\"]\nallow = always\n")
        # Nothing but what is looked for before a stage starts, and seccomp.
        # Only what the attacks write to: copies are made of all of it.
        for folder in ("hooks", "info"):
            os.makedirs(os.path.join(self.top, "template", folder))
        self.write("bin/ssh", "#!/bin/sh\nexec %s proxy --stdio --no-landlock\n" % FERRY, 0o755)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.top, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def result(self, good, name, text=""):
        self.count += 1
        self.failed += not good
        if not good and text:
            print("# " + str(text).replace("\n", "\n# "))
        print(f"{'' if good else 'not '}ok {self.count} - {name}", flush=True)

    def make(self, row, script):
        """A folder with the repository r; the program writes who it is into `mark'."""
        folder = os.path.join(self.mount, row)
        os.mkdir(folder)
        self.write(f"mnt/{row}/evil", "#!/bin/sh\ngrep NoNewPrivs /proc/self/status "
                   f">>{folder}/mark\nexit 1\n", 0o755)
        made = subprocess.run(
            ["sh", "-c", PRELUDE + script], cwd=folder, check=False, capture_output=True,
            env=dict(self.env, E=folder + "/evil", GIT_CONFIG_GLOBAL=self.top + "/making",
                     GIT_TEMPLATE_DIR=self.top + "/template", PATH="/usr/bin:/bin"), text=True)
        self.unmark(row)
        return made

    def mark(self, row):
        try:
            with open(f"{self.mount}/{row}/mark", encoding="ascii") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def unmark(self, row):
        if self.mark(row):
            os.unlink(f"{self.mount}/{row}/mark")

    def hijacked(self, number, script):
        """The commands that run the program; each has its own copy of the folder."""
        first, found = f"{number:02d}.xx", []
        made = self.make(first, script)
        if made.returncode != 0:
            raise RuntimeError(f"{script}: {made.stderr}")
        folder, kept = f"{self.mount}/{first}", f"{self.top}/kept{number}"
        os.rename(folder, kept)
        for at, command in enumerate(COMMANDS):
            row = f"{number:02d}.{at:02d}"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(kept, folder, symlinks=True)
            subprocess.run(["git", *command.split()], cwd=f"{self.mount}/{first}/r",
                           env=dict(self.env, PATH="/usr/bin:/bin"), check=False,
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=patient(60))
            if self.mark(first):
                found.append((row, command))
        shutil.rmtree(folder)
        for row, _ in found:
            shutil.copytree(kept, f"{self.mount}/{row}", symlinks=True)
            renamed(f"{self.mount}/{row}", folder, f"{self.mount}/{row}")
        shutil.rmtree(kept)
        return found

    def run(self, rows):
        """All of it in one session; the words of the stages that were placed."""
        lines = [f"(cd '{self.mount}/{row}/r' && git -c user.name={row} {command} "
                 "</dev/null >/dev/null 2>&1)\n" for row, command in rows]
        report = os.path.join(self.top, "report")
        done = subprocess.run(
            [FERRY, "run", "--no-discover", "--force", "--report=" + report, "--mount",
             f"{self.mount}=ssh://there{self.mount}", "--", "sh", "-c", "".join(lines) + ":"],
            cwd=self.mount, env=self.env, check=False, capture_output=True, text=True)
        with open(report, encoding="utf-8") as file:
            stages = [(s["argv"] + ["", ""])[2].split("user.name=") + [s]
                      for s in json.load(file)["stages"]]
        stages = {name[1]: name[2] for name in stages if len(name) == 3}
        self.result(done.returncode == 0 and len(stages) == len(rows), "all were looked at",
                    f"{done.stderr[-300:]} {len(stages)} of {len(rows)}")
        return stages

    def main(self):
        rows, names = [], {}
        only = sys.argv[1:]
        if "--all" in only:
            only.remove("--all")
            COMMANDS.extend(MORE)
        try:
            todo = [(number, *one) for number, one in enumerate(ATTACKS)
                    if (one[0] in only if only else number in sampled())]
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                hijacked = list(pool.map(lambda one: self.hijacked(one[0], one[2]), todo))
            for (_, name, _), found in zip(todo, hijacked):
                rows += found
                names.update((row, f"{name}: git {command}") for row, command in found)
                if not found:
                    self.skipped += 1
                    print(f"# {name}: git runs nothing")
            self.make("plain", "repo r")
            rows.append(("plain", "log"))
            stages = self.run(rows)
            self.result(stages.get("plain", {}).get("placed"), "git log of a plain one is sent",
                        stages.get("plain"))
            for row, name in names.items():
                stage = stages.get(row, {})
                self.result(not stage.get("placed"), name, stage)
                if "1" in self.mark(row):
                    self.result(False, name + ": it ran there")
        finally:
            shutil.rmtree(self.top, ignore_errors=True)
        print(f"1..{self.count}")
        return 1 if self.failed else 0


if __name__ == "__main__":
    for why, skipped in (("git is not installed", not os.access("/usr/bin/git", os.X_OK)),
                         ("a sanitized ferry cannot be preloaded",
                          os.environ.get("FERRY_SANITIZED"))):
        if skipped:
            print("1..0 # SKIP " + why)
            sys.exit(77)
    sys.exit(Tests().main())
