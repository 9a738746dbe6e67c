# SPDX-License-Identifier: Apache-2.0
"""TAP for the judges of file systems, as tests/tap.sh is for shells."""
import sys

count = 0
failed = 0


def ok(name, good=True, why=""):
    """A result; `why' is what was found, told where it is not good."""
    global count, failed
    count += 1
    if not good:
        failed += 1
        lines = str(why).splitlines()
        for line in lines[:10] + lines[max(10, len(lines) - 50):]:
            print("# " + line)
    print("%sok %d - %s" % ("" if good else "not ", count, name), flush=True)
    return good


def skip(name, reason):
    """A result that this machine cannot have."""
    global count
    count += 1
    print("ok %d - %s # SKIP %s" % (count, name, reason), flush=True)


def finish():
    """The plan; ends the program."""
    print("1..%d" % count)
    sys.exit(1 if failed else 0)
