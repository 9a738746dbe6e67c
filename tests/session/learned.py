#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run leaves in the file of what was learned (proxy/client/history.c): how much
commands read and wrote, at the proxy and here, whatever way their input came.
Prints TAP."""
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

BUILD = os.path.abspath(os.environ.get("FERRY_BUILDDIR", "."))
FERRY = os.path.join(BUILD, "ferry")
LINES = 200000
BYTES = 7 * LINES  # of the file `n'

# name, script, the rows that must be there: key, bytes read, bytes written
SCRIPTS = [
    ("a file that is an operand", "cut -c1-3 n", ("cut -c", BYTES, 4 * LINES)),
    ("a file that is stdin", "sort -r < n", ("sort -r", BYTES, BYTES)),
    ("a joined pipe", "cat n | grep -v 7 | sort -u",
     ("sort -u", None, None)),
    ("a file there as output", "sort n > o", ("sort", BYTES, BYTES)),
    # One that ends at once may have ended before an ordinary user's proxy looks.
    ("nowhere as output", "sort n > /dev/null", ("sort", BYTES, BYTES)),
    ("a sort that needs temporary files", "sort -S 64K n", ("sort -S", BYTES,
                                                            BYTES)),
]


def learned(cache):
    file = sqlite3.connect(os.path.join(cache, "ferry/history.db"))
    tables = [name for (name,) in file.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'")]
    # A run that learned nothing leaves the file as it was.
    rows = file.execute("SELECT key, in_bytes, out_bytes, seconds "
                        "FROM learned2").fetchall() if "learned2" in tables else []
    file.close()
    return {row[0]: row[1:] for row in rows}, tables


def run(top, mount, script):
    """The rows after a run with an empty cache, the tables, and whether the script
    gave what it gives without ferry."""
    cache = tempfile.mkdtemp(dir=top)
    os.mkdir(os.path.join(cache, "ferry"), 0o700)
    path = os.path.join(cache, "ferry/history.db")
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE learned1 (key TEXT PRIMARY KEY, runs REAL,"
                 " in_bytes REAL, out_bytes REAL, seconds REAL, used INTEGER)"
                 " WITHOUT ROWID")
    file.execute("INSERT INTO learned1 VALUES ('cut -c', 9, 1, 1e9, 5, 1)")
    file.commit()
    file.close()
    answers = []
    for words in ([], [FERRY, "run", "--force", "--mount", mount, "--"]):
        done = subprocess.run(
            words + ["bash", "-c", script + "; s=$?; cat o 2>&1; rm -f o; exit $s"],
            cwd=mount.partition("=")[0], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=patient(120),
            env=dict(os.environ, XDG_CACHE_HOME=cache, LC_ALL="C"))
        answers.append((done.returncode, done.stdout))
    return *learned(cache), answers[0] == answers[1]


def near(got, wanted):
    """The kernel also counts what the dynamic linker reads."""
    return wanted is None or abs(got - wanted) < 20000 + wanted / 50


def main():
    top = tempfile.mkdtemp()
    folder = os.path.join(top, "mnt")
    os.mkdir(folder)
    with open(os.path.join(folder, "n"), "w", encoding="ascii") as file:
        file.write("".join(f"{i:06}\n" for i in range(LINES)))
    there = f"{folder}=loopback://{folder}"
    number = failed = 0

    def report(name, good, details):
        nonlocal number, failed
        number += 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# {details}")

    for where, mount, scripts in (
            ("there", there, SCRIPTS),
            ("here", there + "?ferry=/nonexistent",
             [s for s in SCRIPTS if "joined" not in s[0] and
              "temporary" not in s[0] and "file there" not in s[0]])):
        for name, script, (key, read, written) in scripts:
            # The last look at a process here may come too early.
            for _ in range(1 if where == "there" else 20):
                rows, tables, same = run(top, mount, script)
                row = rows.get(key)
                good = same and row and near(row[0], read) and near(row[1], written)
                if good:
                    break
            report(f"{where}: {name}", good, (same, rows))
            if "joined" in name:
                kept = sum(7 for i in range(LINES) if "7" not in f"{i:06}")
                report(f"{where}: {name}, what it read",
                       row and near(row[0], kept) and near(row[1], kept), rows)
    report("rows of an older ferry are gone", tables == ["learned2"], tables)
    shutil.rmtree(top)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
