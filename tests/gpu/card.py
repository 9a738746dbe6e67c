# SPDX-License-Identifier: Apache-2.0
"""Where things are on a machine with a card: ferry, a BLAS, CUDA's libraries.

Either all of it was built and installed on this machine, or a folder that
`tests/gpu/run --prepare' filled elsewhere was carried here. Changes nothing on
the machine. Also knows the fake CUDA, on which the scripts are tested.
"""
import glob
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/judges"))

import ferryrun  # noqa: E402

ARCHIVE = "tree.tar.xz"

# What a card answers, asked in a child: loading a driver runs its code.
ASK = """
import ctypes
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit("no CUDA driver (libcuda.so.1)")
count, device, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
if status or not count.value:
    raise SystemExit("a CUDA driver, but no card (%d)" % status)
name = ctypes.create_string_buffer(128)
driver.cuDeviceGet(ctypes.byref(device), 0)
driver.cuDeviceGetName(name, 128, device)
driver.cuDriverGetVersion(ctypes.byref(version))
print("%s, driver for CUDA %d.%d" % (name.value.decode(),
      version.value // 1000, version.value % 1000 // 10))
"""


class Machine:
    """ferry, gpu_calls, the copies of BLAS and the folders of libraries."""

    def __init__(self, folder=None, fake=False, model=None):
        self.temporary = []
        self.fake = fake or bool(model)
        self.model = model  # of a card that is simulated in time
        self.prepared = folder and self._unpack(folder)
        if self.prepared:
            self.ferry = os.path.join(self.prepared, "ferry/bin/ferry")
            self.build = os.path.join(self.prepared, "build")
            os.environ["FERRY_JUDGES_ROOT"] = os.path.join(self.prepared,
                                                           "root")
        else:
            self.ferry = ferryrun.find_ferry()
            self.build = self.ferry and os.path.dirname(self.ferry)
        self.libraries = self._libraries()
        os.environ["FERRY_JUDGES_LIBRARIES"] = ":".join(self.libraries)
        if self.ferry:
            os.environ["FERRY"] = self.ferry
        os.environ.pop("FERRY_SETTINGS", None)
        self.python = self._python()
        self.card, self.trouble = self._ask()

    def close(self):
        for folder in self.temporary:
            shutil.rmtree(folder, ignore_errors=True)

    def _unpack(self, folder):
        """A prepared folder travels as one archive."""
        archive = os.path.join(folder, ARCHIVE)
        if not os.path.exists(archive):
            return None
        to = tempfile.mkdtemp(prefix="ferry-gpu-")
        self.temporary.append(to)
        with tarfile.open(archive) as file:
            file.extractall(to, **({"filter": "tar"} if hasattr(
                tarfile, "tar_filter") else {}))
        return to

    def _libraries(self):
        """Folders for LD_LIBRARY_PATH, for what the loader does not find."""
        before = [x for x in os.environ.get("LD_LIBRARY_PATH", "").split(":")
                  if x]
        if self.fake and self.build:
            return [os.path.join(self.build, "tests/fakecuda/.libs")] + before
        if not loads("libcublas.so.13") and not loads("libcublas.so.12"):
            for place in sys.path:
                before += sorted(glob.glob(os.path.join(place,
                                                        "nvidia/*/lib")))
            before += glob.glob("/usr/local/cuda/lib64")
        # Of what was carried here, only what this machine lacks.
        carried = self.prepared and os.path.join(self.prepared, "libraries")
        if carried:
            lacking = os.path.join(self.prepared, "lacking")
            os.mkdir(lacking)
            for name in os.listdir(carried):
                if not loads(name):
                    os.symlink(os.path.join(carried, name),
                               os.path.join(lacking, name))
            before.append(lacking)
        return before

    def _python(self):
        """An interpreter that has NumPy, or None."""
        for python in (sys.executable, "/usr/bin/python3"):
            if os.path.exists(python) and subprocess.run(
                    [python, "-c", "import numpy"],
                    stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return python
        return None

    def _ask(self):
        """(name of the card and its driver, None), or (None, what lacks)."""
        done = subprocess.run([sys.executable, "-c", ASK],
                              capture_output=True, text=True, check=False,
                              env=self.environment())
        if done.returncode == 0:
            return done.stdout.strip(), None
        return None, (done.stderr.strip().splitlines() or ["?"])[-1]

    def environment(self, threads=None, **extra):
        """This process's environment with the folders that are needed."""
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8")
        for name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
            env.pop(name, None)
        if self.libraries:
            env["LD_LIBRARY_PATH"] = ":".join(self.libraries)
        if self.model:
            env.update(FAKECUDA_MODEL=self.model, FAKECUDA_STRICT="1",
                       LD_PRELOAD=self.preloaded("libfakeclock.so"))
        elif self.fake:
            env.update(FAKECUDA_STRICT="1", FAKECUDA_DELAY="0",
                       FAKECUDA_MEMORY="2G")
        if threads:
            env.update(OPENBLAS_NUM_THREADS=str(threads),
                       OMP_NUM_THREADS=str(threads))
        env.update(extra)
        return env

    def preloaded(self, name):
        return os.path.join(self.build, "tests/fakecuda/.libs", name)

    def program(self, name):
        """A built program of the tests or benchmarks, or None."""
        path = self.build and os.path.join(self.build, name)
        return path if path and os.path.exists(path) else None

    def blas(self):
        """(libraries to preload, LD_LIBRARY_PATH) of the fastest BLAS with
        the plain Fortran names; None without one."""
        if self.model:
            return [self.preloaded("libfakeclock.so"),
                    self.preloaded("libhostblas.so")], []
        copies = ferryrun.blas_copies()
        for copy in ("openblas", "netlib"):
            folders = copies.get(copy, "").split(":")
            names = [os.path.join(folder, name) for folder in folders
                     for name in ("libblas.so.3", "liblapack.so.3")]
            found = [x for x in names if os.path.exists(x)]
            if found:
                return found, folders
        return None


def loads(name):
    """Whether the loader finds it; the fake and the testers' never matter."""
    done = subprocess.run([sys.executable, "-c",
                           "import ctypes, sys; ctypes.CDLL(sys.argv[1])",
                           name], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0
