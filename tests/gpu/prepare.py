# SPDX-License-Identifier: Apache-2.0
"""Gathers in one archive what a machine with a card and without Debian's
packages needs: ferry as installed, the tests' and benchmarks' programs,
Debian's BLAS and LAPACK testers, and the libraries these need.
"""
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

import card
from card import ferryrun

LIMIT_BYTES = 60 << 20
PROGRAMS = ("tests/unit/test_cuda_device", "bench/gpu_calls",
            "bench/workloads")
TESTERS = (("blas", "xblat3[sdcz]|x[sdcz]cblat3|[sdcz]blat3\\.in|[sdcz]in3|libblas\\.so\\.3"),
           ("lapack", "xlintst[sdcz]|[sdcz]test\\.in|liblapack\\.so\\.3"),
           ("openblas-pthread", "lib(blas|lapack)\\.so\\.3|libopenblas\\.so\\.0"))
# Every machine has these, and they belong together.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s)\.so|ld-linux|"
                    r"linux-vdso|lib(open)?blas|liblapack")


def needed(path):
    """Soname -> path of the libraries that an object needs, all levels."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True,
                          check=False)
    return {name: where for name, where in re.findall(
        r"^\s*(\S+) => (/\S+)", done.stdout, re.M) if not SYSTEM.match(name)}


def copy_testers(root):
    """Debian's testers and both copies of BLAS at their places below root."""
    taken = []
    lib = ferryrun.multiarch()
    for folder, pattern in TESTERS:
        source = os.path.join(lib, folder)
        if not os.path.isdir(source):
            print("not there, left out: %s" % source)
            continue
        to = root + source
        os.makedirs(to)
        for name in sorted(os.listdir(source)):
            if re.fullmatch(pattern, name):
                shutil.copy(os.path.join(source, name), to)  # not the link
                taken.append(os.path.join(source, name))
    return taken


def prepare(folder, build):
    """Fills `folder' with the archive; its size in bytes."""
    stage = tempfile.mkdtemp(prefix="ferry-gpu-")
    try:
        subprocess.run(["make", "-s", "-C", build, *PROGRAMS], check=True)
        subprocess.run(["make", "-s", "-C", build, "install", "prefix=/ferry",
                        "DESTDIR=" + stage], check=True,
                       stdout=subprocess.DEVNULL)
        objects = [os.path.join(stage, "ferry/bin/ferry"),
                   os.path.join(stage, "ferry/lib/ferry/libferry-engine.so")]
        for name in PROGRAMS:
            to = os.path.join(stage, "build", name)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(os.path.join(build, name), to)
            objects.append(to)
        objects += copy_testers(os.path.join(stage, "root"))
        libraries = {}
        for path in objects:
            libraries.update(needed(path))
        os.mkdir(os.path.join(stage, "libraries"))
        for name, path in libraries.items():
            shutil.copy(path, os.path.join(stage, "libraries", name))
        os.makedirs(folder, exist_ok=True)
        archive = os.path.join(folder, card.ARCHIVE)
        with tarfile.open(archive, "w:xz", preset=3) as file:
            for name in sorted(os.listdir(stage)):
                file.add(os.path.join(stage, name), name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return os.path.getsize(archive)
