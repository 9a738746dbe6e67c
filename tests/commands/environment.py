#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which variables of the environment the installed tools ask for, against the
declared ones: a command that runs elsewhere gets no others.

The command lines of touched.py run with asked.c preloaded, which writes down what
is asked of getenv(3), also by what the tools start. What only other command lines
make them ask for is found by reading: `strings' has the names.
With arguments only the cases that match one of these regular expressions run.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import annotated  # noqa: E402
import touched  # noqa: E402

ASKED = os.path.join(annotated.BUILD, "tests/commands/.libs/asked.so")


def ask(case, model, scratch):
    """The names, sorted."""
    root = os.path.join(scratch, "root")
    log = os.path.join(scratch, "asked")
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(model, root, symlinks=True)
    with open(log, "w", encoding="latin-1"):
        pass
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
                   "HOME": os.path.join(scratch, "home"), "LD_PRELOAD": ASKED,
                   "FERRY_ASKED": log, "GIT_EDITOR": "false"}
    subprocess.run(case["argv"], env=environment, check=False, timeout=annotated.LIMIT,
                   executable=touched.find_program(case["argv"][0]),
                   cwd=os.path.join(root, case["cwd"]), input=b"1 1\n2 2\n",
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log, encoding="latin-1") as file:
        return sorted(set(file.read().splitlines()))


def main():
    tap = annotated.Tap()
    if not os.path.exists(ASKED):
        print("1..0 # SKIP %s is not built" % ASKED)
        return 77
    only = sys.argv[1:]
    cases = [case for case in touched.read_cases()
             if touched.find_program(case["argv"][0]) and
             (not only or any(re.search(w, case["text"]) for w in only))]
    scratch = os.path.realpath(tempfile.mkdtemp(prefix="ferry-asked-"))
    try:
        os.makedirs(os.path.join(scratch, "home"))
        model = os.path.join(scratch, "model")
        os.makedirs(model)
        touched.populate(model)
        asked = [ask(case, model, scratch) for case in cases]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    calls = annotated.parse([case["argv"] for case in cases], asked=asked)
    for case, names, call in zip(cases, asked, calls):
        missing = set(names) - set(call.named("wants"))
        tap.result(not missing, case["text"], "it asks for " +
                   " ".join(sorted(missing)))
    seen = {name for names in asked for name in names}
    tap.result(bool(only) or {"LS_COLORS", "GIT_AUTHOR_NAME"} <= seen,
               "what tools ask for is seen")
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
