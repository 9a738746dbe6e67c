# SPDX-License-Identifier: Apache-2.0
"""Running one command plain or under ferry, for the judges and the programs.

Knows where a built ferry lies, which BLAS copies this machine has, and how to
read a report. Changes nothing on the machine: the copy of BLAS is chosen by
LD_LIBRARY_PATH only.
"""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from patience import patient  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))

Result = collections.namedtuple("Result", "status out err seconds")


def find_ferry():
    """The ferry to test: $FERRY, the build directory's, or None."""
    candidates = [os.environ.get("FERRY")]
    for folder in (os.environ.get("FERRY_BUILDDIR"), os.getcwd(),
                   os.path.join(ROOT, "_build"), ROOT):
        candidates.append(folder and os.path.join(folder, "ferry"))
    for path in candidates:
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    return None


def watched_ferry(ferry, build, base):
    """Another ferry in `base', whose engine is that of a build with a
    sanitizer; and the sanitizer's runtime, which programs must preload.

    The object that ferry preloads stays as it is: what it does comes before
    the runtime is there. LookupError or OSError: it cannot be done."""
    for name in ("tools", ".libs"):
        os.mkdir(os.path.join(base, name))
    source = os.path.dirname(ferry)
    for name in ("ferry", "ferry-stub", "tools/uninstalled",
                 ".libs/libferry.so"):
        shutil.copy(os.path.join(source, name), os.path.join(base, name))
    engine = os.path.join(build, ".libs/libferry-engine.so")
    shutil.copy(engine, os.path.join(base, ".libs"))
    needed = subprocess.run(["ldd", engine], capture_output=True, text=True,
                            check=False).stdout
    found = re.search(r"=> (\S*/lib[a-z]+san\.so\S*)", needed)
    if not found:
        raise LookupError("%s is built without a sanitizer" % engine)
    return os.path.join(base, "ferry"), found.group(1)


def multiarch():
    """Debian's library folder of this machine, or of a copy of its parts
    below $FERRY_JUDGES_ROOT (tests/gpu)."""
    name = "%s-linux-gnu" % os.uname().machine
    root = os.environ.get("FERRY_JUDGES_ROOT", "/")
    return os.path.join(root, "usr/lib", name)


def blas_copies():
    """Name -> LD_LIBRARY_PATH of every BLAS this machine has installed."""
    lib = multiarch()
    copies = collections.OrderedDict()
    netlib = [os.path.join(lib, "blas"), os.path.join(lib, "lapack")]
    if all(os.path.exists(os.path.join(netlib[i], name)) for i, name in
           enumerate(("libblas.so.3", "liblapack.so.3"))):
        copies["netlib"] = ":".join(netlib)
    openblas = os.path.join(lib, "openblas-pthread")
    if os.path.exists(os.path.join(openblas, "libblas.so.3")):
        copies["openblas"] = openblas
    return copies


def environment(blas=None, extra=None):
    """This process's environment, quiet, with that copy of BLAS in front."""
    env = dict(os.environ, LC_ALL="C", OPENBLAS_NUM_THREADS="1",
               OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    for name in ("LD_PRELOAD", "FERRY_SETTINGS", "LD_LIBRARY_PATH"):
        env.pop(name, None)
    # What a machine without Debian's packages lacks (tests/gpu).
    path = [x for x in (blas, os.environ.get("FERRY_JUDGES_LIBRARIES")) if x]
    if path:
        env["LD_LIBRARY_PATH"] = ":".join(path)
    env.update(extra or {})
    return env


def execute(argv, cwd, env, stdin=None, timeout=600):
    """Runs argv; status is the exit status or minus the signal's number.

    A run that takes too long is killed with all it started: status "timeout".
    """
    import time
    timeout = patient(timeout)
    begin = time.monotonic()
    source = open(stdin, "rb") if stdin else subprocess.DEVNULL
    try:
        child = subprocess.Popen(argv, cwd=cwd, env=env, stdin=source,
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE,
                                 start_new_session=True)
        try:
            out, err = child.communicate(timeout=timeout)
            status = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            status = "timeout"
            try:
                out, err = child.communicate(timeout=20)
            except subprocess.TimeoutExpired:  # of another group, and it has them
                out = err = b""
                child.stdout.close()
                child.stderr.close()
    finally:
        if stdin:
            source.close()
    return Result(status, out.decode("latin-1"), err.decode("latin-1"),
                  time.monotonic() - begin)


def read_report(path):
    """Function name -> its counters; {} when there is no readable report."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["functions"]
    except (OSError, ValueError, KeyError):
        return None
    functions = {}
    for row in rows:
        total = functions.setdefault(row["name"].rstrip("_"),
                                     collections.Counter())
        for key in ("calls", "offloaded", "chunks", "bytes_in", "bytes_out",
                    "lower_bound_bytes"):
            total[key] += row.get(key, 0)
        for reason, count in row.get("declined", {}).items():
            total["declined " + reason] += count
    return functions


def under_ferry(ferry, options, argv, cwd, env, stdin=None, timeout=600,
                report=True):
    """Runs argv under ferry; returns (Result, report or None)."""
    if not report:
        return execute([ferry, "run"] + list(options) + ["--"] + list(argv),
                       cwd, env, stdin, timeout), None
    handle, path = tempfile.mkstemp(suffix=".json", dir=cwd)
    os.close(handle)
    os.unlink(path)
    command = [ferry, "run"] + list(options) + ["--report=" + path, "--"]
    result = execute(command + list(argv), cwd, env, stdin, timeout)
    return result, read_report(path)
