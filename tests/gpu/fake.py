# SPDX-License-Identifier: Apache-2.0
"""What the tests on the fake CUDA share: where it is, the environment that has a
program find it, TAP, and when there is nothing to test with.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(os.environ.get("FERRY_BUILDDIR", "."))
HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(BUILD, "tests/fakecuda/.libs")
FERRY = os.path.join(BUILD, "ferry")

_done = {"tests": 0, "failures": 0}


def check(good, name, detail=""):
    _done["tests"] += 1
    if not good:
        _done["failures"] += 1
        print(re.sub(r"(?m)^", "# ", str(detail).rstrip()))
    print("%sok %d - %s" % ("" if good else "not ", _done["tests"], name),
          flush=True)


def environment(libraries=FAKE, **extra):
    """With these libraries in front; None: as if there were none."""
    env = dict(os.environ)
    for name in ("FERRY_SETTINGS", "LD_LIBRARY_PATH"):
        env.pop(name, None)
    env.update({"FAKECUDA_DELAY": "0", "OPENBLAS_NUM_THREADS": "1",
                "PYTHONDONTWRITEBYTECODE": "1", **extra})
    if libraries:
        env["LD_LIBRARY_PATH"] = libraries
    return env


def calls(*words):
    """A program that makes these calls."""
    return [sys.executable, os.path.join(HERE, "calls.py"), *words]


def main(name, body):
    """Exit status of body(folder), or of skipping it."""
    why = None
    if any(x in os.environ.get("FERRY_SANITIZED", "")
           for x in ("thread", "address")):
        why = "a sanitizer's library cannot be preloaded here"
    elif not os.path.exists(os.path.join(FAKE, "libcuda.so.1")):
        why = "the fake CUDA is not built"
    elif subprocess.run(calls("dgesv:1"), capture_output=True,
                        check=False).returncode:
        why = "no BLAS and LAPACK"
    if why:
        print("1..0 # SKIP " + why)
        return 77
    folder = tempfile.mkdtemp(prefix="ferry-gpu-%s-" % name)
    try:
        body(folder)
    finally:
        shutil.rmtree(folder)
    print("1..%d" % _done["tests"])
    return int(_done["failures"] > 0)
