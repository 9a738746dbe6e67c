#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a command at a proxy gets of the environment: what it reads, so that it says
what it says here, and no more. Prints TAP."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

BUILD = os.path.realpath(os.environ.get("FERRY_BUILDDIR", "."))
FERRY = os.path.join(BUILD, "ferry")
SECRET = "AWS_SECRET_ACCESS_KEY"

# A variable, and commands that it changes; the first word is its value.
ROWS = r"""
LC_ALL      C               wc -m f; sort f
LANGUAGE    de              sort f
TZ          Asia/Tokyo      stat -c %y f; ls -l --full-time f; find f -printf '%t\n'
POSIXLY_CORRECT 1           du big; pr -l 20 f
LS_COLORS   *f=01;31        ls --color=always
COLUMNS     30              ls -C many; column f
TABSIZE     3               ls -C many
QUOTING_STYLE c             ls many; stat -c %N f
TIME_STYLE  +%Y             ls -l f; du --time f
BLOCK_SIZE  1               ls -s big; du big
BLOCKSIZE   2048            ls -s big; du big
LS_BLOCK_SIZE 3             ls -s big
DU_BLOCK_SIZE 3             du big
FIND_BLOCK_SIZE 3           find big -ls
GREP_COLORS mt=01;34        grep --color=always a f
GREP_COLOR  01;35           grep --color=always a f
COLS        20              sed -n l f
JQ_COLORS   4;31:0;37       jq -C . j
ZSTD_CLEVEL 19              zstd -c big | wc -c
XZ_OPT      -0              tar cJf - big | wc -c
SIMPLE_BACKUP_SUFFIX .odd   cp -b f copy; ls copy*
VERSION_CONTROL numbered    cp -b f copy; ls copy*
GIT_AUTHOR_NAME Odd         git -C repo commit -qam x; git -C repo log --format=%an
GIT_AUTHOR_EMAIL odd@example git -C repo commit -qam x; git -C repo log --format=%ae
GIT_COMMITTER_DATE 2001-02-03T04:05:06Z git -C repo commit -qam x; git -C repo log --format=%cd
GIT_DIFF_OPTS -u0           git -C repo diff HEAD
GIT_LITERAL_PATHSPECS 1     git -C repo log --format=%s -- 'a*'
"""

CHARMAPS = "/usr/share/i18n/charmaps"
# A locale, its charset, and a letter of it of which the second byte is a backslash.
ENCODINGS = (("zh_CN", "GBK", b"\x81\\"), ("zh_TW", "BIG5", b"\xa5\\"),
             ("ja_JP", "SJIS", b"\x83\\"))


def populate(folder):
    os.makedirs(os.path.join(folder, "many"))
    for name in ("f", "copy"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write("".join(f"{word}\t{'x' * 9} é\n"
                               for word in ("b", "A", "a", "B", "ä")))
    with open(os.path.join(folder, "big"), "wb") as file:
        file.write(b"".join(b"%d %d\n" % (n, n * n) for n in range(40000)))
    with open(os.path.join(folder, "j"), "w", encoding="utf-8") as file:
        file.write('{"a": [null, "b"]}\n')
    for n in range(30):
        with open(os.path.join(folder, "many", f"a b{n}"), "wb"):
            pass
    repo = os.path.join(folder, "repo")
    os.mkdir(repo)
    with open(os.path.join(repo, "a"), "w", encoding="utf-8") as file:
        file.write("1\n2\n3\n")
    # Without an address in the configuration a commit is not placed.
    for words in (["init", "-q"], ["config", "gc.auto", "0"],
                  ["config", "user.name", "c"], ["config", "user.email", "c@c"],
                  ["add", "a"], ["commit", "-qm", "first"]):
        subprocess.run(["git"] + words, cwd=repo, check=True)
    with open(os.path.join(repo, "a"), "w", encoding="utf-8") as file:
        file.write("1\n2\n4\n")
    shutil.rmtree(os.path.join(repo, ".git/hooks"))
    for top, _, names in os.walk(folder):
        for name in names:
            os.utime(os.path.join(top, name), (10 ** 9, 10 ** 9))


class Tests:
    """One folder, and a copy of its first state."""

    def __init__(self):
        self.count = self.failed = self.skipped = 0
        self.top = os.path.realpath(tempfile.mkdtemp(dir="/var/tmp"))
        self.folder = os.path.join(self.top, "mnt")
        self.model = os.path.join(self.top, "model")
        self.config = os.path.join(self.top, "config/ferry")
        os.makedirs(self.config)
        populate(self.model)
        # Not the user's own folder: its configuration of git would decide.
        self.base = {"PATH": os.environ["PATH"], "HOME": self.top}
        self.base.update({"LC_ALL": "C.UTF-8", "TERM": "xterm", SECRET: "geheim",
                          "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
                          "GIT_COMMITTER_NAME": "c", "GIT_AUTHOR_NAME": "a",
                          "GIT_COMMITTER_EMAIL": "c@c",
                          "XDG_CACHE_HOME": os.path.join(self.top, "cache")})

    def result(self, good, name, text=""):
        self.count += 1
        self.failed += not good
        if not good:
            print("# " + str(text).replace("\n", "\n# "))
        print(f"{'' if good else 'not '}ok {self.count} - {name}", flush=True)

    def reset(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.model, self.folder, symlinks=True)

    def ferry(self, *command):
        return [FERRY, "run", "--no-discover", "--force", "--mount",
                f"{self.folder}=loopback://{self.folder}", *command]

    def row(self, variable, value, script):
        name = f"{variable}={value}: {script}"
        tool = script.split()[0]
        if not shutil.which(tool):
            self.count += 1
            self.skipped += 1
            print(f"ok {self.count} - {name} # SKIP {tool} is not installed", flush=True)
            return
        report = os.path.join(self.top, "report.json")
        said, without = [], None
        for front, wanted in (([], {}), ([], {variable: value}),
                              (self.ferry("--report=" + report, "--"),
                               {variable: value})):
            self.reset()
            done = subprocess.run(
                front + ["sh", "-c", script], cwd=self.folder, check=False,
                env=dict(self.base, **wanted), capture_output=True, timeout=patient(120))
            if not front and not wanted:
                without = done.stdout
            else:
                said.append((done.stdout, done.stderr, done.returncode))
        with open(report, encoding="utf-8") as file:
            stages = json.load(file)["stages"]
        declined = [s["declined"] for s in stages if s.get("declined")]
        self.result(said[0] == said[1] and stages and not declined, name,
                    f"{said} {declined}")
        if variable not in ("LANGUAGE", "GREP_COLOR"):
            self.result(said[0][0] != without, f"... {variable} matters",
                        without)

    def rows(self):
        for line in ROWS.strip().splitlines():
            variable, value, script = line.split(None, 2)
            self.row(variable, value, script)

    def encodings(self):
        """sed reads characters: `s/X/CMD/e #/' is a substitution in which a slash
        is escaped, or runs a command."""
        locales = os.path.join(self.top, "locales")
        within = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" '
                  "/usr/lib/locale && exec \"$@\"", locales]
        os.mkdir(locales)
        for country, charset, letter in ENCODINGS:
            name = f"{country}.{charset}"
            why = self.no_locale(within, locales, country, charset)
            if why:
                self.count += 1
                self.skipped += 1
                print(f"ok {self.count} - sed in {name} # SKIP {why}")
                continue
            script = b"s/" + letter + b"/echo ran/e #/"
            self.encoded(f"what sed runs in {name} runs here", within, name,
                         ["sed", script, "letter"], b"ran\n", False)
            self.encoded(f"what is ASCII in {name} runs there", within, name,
                         ["sed", "s/a/b/", "letter"], letter + b"\n", True)

    @staticmethod
    def no_locale(within, locales, country, charset):
        """Makes it; or why not."""
        if not os.path.exists(CHARMAPS):
            return CHARMAPS + " is not installed"
        subprocess.run(
            ["localedef", "-c", "-i", country, "-f", charset,
             os.path.join(locales, f"{country}.{charset}")],
            capture_output=True, check=False)
        done = subprocess.run(within + ["locale", "charmap"],
                              env={"LC_ALL": f"{country}.{charset}"},
                              capture_output=True, check=False)
        if done.returncode != 0:
            return "not root, or no mounts of its own"
        return None if done.stdout.strip() not in (b"", b"ANSI_X3.4-1968") \
            else "localedef makes none"

    def encoded(self, name, within, locale, command, expected, placed):
        report, said = os.path.join(self.top, "report.json"), []
        letter = dict((f"{c}.{s}", x) for c, s, x in ENCODINGS)[locale]
        for front in ([], self.ferry("--report=" + report, "--")):
            self.reset()
            with open(os.path.join(self.folder, "letter"), "wb") as file:
                file.write(letter + b"\n")
            done = subprocess.run(
                within + front + ["sh", "-c", '"$@"; :', "x"] + command,
                cwd=self.folder, env=dict(self.base, LC_ALL=locale),
                capture_output=True, timeout=patient(120), check=False)
            said.append((done.stdout, done.stderr, done.returncode))
        with open(report, encoding="utf-8", errors="replace") as file:
            stages = [s for s in json.load(file)["stages"]
                      if s["argv"][0] == "sed"]
        self.result(said[0] == said[1] and len(stages) == 1 and
                    said[0][0] == expected and
                    bool(stages[0]["placed"]) == placed, name, (said, stages))

    def outside(self, name, wanted):
        """The environment of a stage as /proc shows it."""
        self.reset()
        # Larger than all that is under way: it is written until it is read.
        hollow = os.path.join(self.folder, f"hollow{os.getpid()}")
        with open(hollow, "wb") as file:
            file.truncate(1 << 28)
        run = subprocess.Popen(
            self.ferry("--", "cat", hollow), cwd=self.folder,
            stdout=subprocess.PIPE,
            env=dict(self.base, TZ="UTC",
                     XDG_CONFIG_HOME=os.path.dirname(self.config)))
        found = None
        try:
            for _ in range(int(patient(1200))):
                found = self.stage(hollow)
                if found is not None or run.poll() is not None:
                    break
                time.sleep(0.05)
        finally:
            run.stdout.close()
            run.wait(patient(60))
        names = {entry.split("=")[0] for entry in found or ()}
        self.result(found is not None and wanted(names), name, sorted(names))

    @staticmethod
    def stage(path):
        """Of the process that runs `cat PATH', not of its stub."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                if words[:2] != [b"cat", path.encode()] or \
                        not os.readlink(f"/proc/{pid}/exe").endswith("/cat"):
                    continue
                with open(f"/proc/{pid}/environ", "rb") as file:
                    return file.read().decode().strip("\0").split("\0")
            except OSError:
                continue
        return None

    def main(self):
        try:
            self.outside("a stage has locale and time zone, and no secret",
                         lambda names: {"TZ", "LC_ALL"} <= names and
                         not {SECRET, "HOME", "TERM", "XDG_CACHE_HOME"} & names)
            with open(os.path.join(self.config, "ferry.conf"), "w",
                      encoding="utf-8") as file:
                file.write("environment = all\n")
            self.outside("environment = all sends the rest, too",
                         lambda names: {SECRET, "HOME", "TZ"} <= names)
            self.rows()
            self.encodings()
        finally:
            shutil.rmtree(self.top, ignore_errors=True)
        print(f"1..{self.count}")
        print(f"# {self.count - self.failed - self.skipped} passed, "
              f"{self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0


if __name__ == "__main__":
    sys.exit(Tests().main())
