#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What annotations/lib calls `on cuda' against the headers of a CUDA toolkit: a C
program with every such call, its arguments declared as the annotation has them,
compiles without a warning, and what an argument is made of names the header's
parameter. The fake CUDA could share a misunderstanding; the headers cannot.
Skipped where there is no toolkit (CUDA_HOME). Run by make check; prints TAP.
"""
import os
import re
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(os.environ.get("FERRY_BUILDDIR", "."))
SOURCE = os.path.abspath(os.environ.get("FERRY_SRCDIR") or os.path.join(
    os.path.dirname(__file__), "../.."))
INCLUDE = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")
TYPES = {"float": "float", "double": "double", "complex float": "cuComplex",
         "complex double": "cuDoubleComplex", "integer": "int"}
ENUMS = (("uplo", "cublasFillMode_t"), ("trans", "cublasOperation_t"),
         ("side", "cublasSideMode_t"), ("diag", "cublasDiagType_t"),
         ("jobz", "cusolverEigMode_t"))
HANDLES = {"cublas": "cublasHandle_t", "cusolver": "cusolverDnHandle_t",
           "cufft": "cufftHandle"}
# What headers call it: what annotations may.
ALIASES = {"devipiv": "ipiv", "trans": "transa", "jobu": "jobz", "jobvt": "jobz",
           "idata": "x", "odata": "y", "direction": "sign"}
FRONT = ("#include <stdint.h>\n#include <cublas_v2.h>\n#include <cusolverDn.h>\n"
         "#include <cufft.h>\n")


def split(text):
    """At the commas that no bracket holds."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return parts + [text[start:].strip()]


def prototypes():
    """Of the headers: function -> (types, names) of its parameters."""
    found = {}
    for header in ("cublas_api.h", "cusolverDn.h", "cufft.h"):
        with open(os.path.join(INCLUDE, header), encoding="ascii",
                  errors="replace") as file:
            text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read(), flags=re.S)
        for name, parameters in re.findall(
                r"\b(cublas[A-Z]\w+|cusolverDn\w+|cufftExec\w+)\s*\(([^()]*)\)\s*;", text):
            found[name] = [re.search(r"(\w+)\s*(\[\])?$", x).group(1).lower()
                           for x in split(parameters) if x]
    return found


class Function:
    """One variant of an annotated function in ferry check --dump."""

    def __init__(self, head):
        self.types = {}     # argument -> element type
        self.access = {}    # operand -> in, inout, out
        self.name = re.search(r"(\w+)\(", head).group(1)
        for one in split(re.search(r"\((.*)\)$", head).group(1)):
            found = re.match(r"(?:const )?([\w ]+?) ?[*&]?(\w+)(?: \+ length)?$", one)
            if found:
                self.types[found.group(2)] = found.group(1)

    def again(self):
        other = Function("%s()" % self.name)
        other.types = {x: t for x, t in self.types.items() if x not in self.access}
        other.types.update({x: t for x, t in self.types.items() if "." not in x})
        return other

    def operand(self, line):
        found = re.match(r"(in|out|inout) ([\w ]+?) ((?:p\.)?\w+)\[", line)
        self.access[found.group(3)] = found.group(1)
        self.types[found.group(3)] = found.group(2)


def functions(dump):
    """(variant, called function, its arguments), all on cuda."""
    function, calls = None, []
    for line in dump.splitlines():
        line = line.strip()
        if line.startswith("function "):
            function = Function(line)
        elif re.match(r"(in|out|inout) [\w ]+ (p\.)?\w+\[", line):
            function.operand(line)
        elif re.match(r"on cuda cu(blas|solver|fft)", line):
            name, text = re.match(r"on cuda (\w+)\((.*)\)$", line).groups()
            calls.append((function, name, split(text)))
        elif line == "else the next variant":
            function = function.again()
    return calls


class Maker:
    """The C text of all calls, and what is wrong with their names."""

    def __init__(self, known):
        self.known, self.text, self.wrong, self.count = known, [FRONT], [], 0

    def pointer(self, function, text):
        """Of an operand, or of what may stand in its place."""
        names = re.findall(r"&((?:p\.)?\w+)", text)
        const = all(function.access[x] == "in" for x in names)
        element = TYPES[function.types[names[0]]]
        return "%s%s *" % ("const " if const else "", element), names

    def argument(self, function, text):
        """Its type in C, and the names that it is made of (None: any)."""
        if text in HANDLES:
            return HANDLES[text], None
        if text.startswith("cufft("):
            return "cufftHandle", None
        if text.startswith("address of "):
            name = text.split()[-1]
            return "const %s *" % TYPES[function.types[name]], [name]
        if "&" in re.sub("&&", "", text):
            return self.pointer(function, text)
        if text.startswith("workspace("):
            first = next(iter(function.access))
            return TYPES[function.types[first]] + " *", None
        if text in ("info", "lwork"):
            return {"info": "int *", "lwork": "int"}[text], None
        if "'" in text:
            return "signed char", re.findall(r"[a-z]\w*", text)
        if text == "0":
            return "void *", None
        # What declines, by a division by 0, says nothing of the rest.
        plain = re.sub(r"\(((?:[^()]|\([^()]*\))*) \? \(1 / 0\) : ", "(", text)
        names = re.findall(r"[a-z]\w*", plain)
        for word, kind in ENUMS:
            if any(x.startswith(word) for x in names):
                return kind, names
        return "int", names

    def call(self, function, name, texts):
        double = any(function.types[x] in ("double", "complex double")
                     for x in function.access)
        if name.startswith("cufftExec") and double:
            name = {"C2C": "cufftExecZ2Z", "R2C": "cufftExecD2Z",
                    "C2R": "cufftExecZ2D"}[name[9:]]
        arguments = [self.argument(function, x) for x in texts]
        if name.startswith("cufft"):   # its input is no const, but kept
            arguments = [(t.replace("const ", ""), n) for t, n in arguments]
            if texts[1] == texts[2]:   # in place one of the sides has another type
                arguments[2] = ("void *", None)
        self.emit(name, [t for t, _ in arguments])
        if name + "_64" in self.known:
            self.emit(name + "_64", ["int64_t" if t == "int" else t
                                     for t, _ in arguments])
        for text, (_, names), parameter in zip(texts, arguments, self.known.get(name, [])):
            if "trmm" in name and parameter in ("c", "ldc"):
                parameter = parameter.replace("c", "b")   # in place, as documented
            stripped = [re.sub(r"^p\.", "", x).lower() for x in names or []]
            if names and not {parameter, ALIASES.get(parameter)} & set(stripped):
                self.wrong.append("%s: %s gets %s for %s" % (
                    function.name, name, text, parameter))
        for text in texts:
            if text.startswith("workspace("):
                self.size(text, texts, [t for t, _ in arguments])

    def size(self, text, texts, types):
        """The function that tells the workspace's size takes what stands before."""
        words = text[len("workspace("):-1].split()
        taken = [int(x[1:]) for x in words[1:]] or range(texts.index(text))
        self.emit(words[0], [types[i] for i in taken] + ["int *"])

    def emit(self, name, types):
        parameters = ", ".join("%s a%d" % x for x in zip(types, range(len(types))))
        passed = ", ".join("a%d" % i for i in range(len(types)))
        self.count += 1
        self.text.append("int call%d(%s);\nint call%d(%s) { return (int)%s(%s); }\n" % (
            self.count, parameters, self.count, parameters, name, passed))


def compiled(text):
    with tempfile.TemporaryDirectory(prefix="ferry-arguments-") as folder:
        path = os.path.join(folder, "calls.c")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return subprocess.run(
            [*os.environ.get("CC", "cc").split(), "-isystem", INCLUDE, "-Wall", "-Wextra",
             "-Werror", "-Wenum-conversion", "-fsyntax-only", path],
            capture_output=True, text=True, check=False)


def main():
    if not os.path.exists(os.path.join(INCLUDE, "cusolverDn.h")):
        print("1..0 # SKIP no CUDA toolkit")
        return 77
    dump = subprocess.run([os.path.join(BUILD, "ferry"), "check", "--dump",
                           os.path.join(SOURCE, "annotations/lib")], capture_output=True,
                          text=True, check=True).stdout
    maker = Maker(prototypes())
    calls = functions(dump)
    for function, name, texts in calls:
        maker.call(function, name, texts)
    results = [
        ("calls are found", len(calls) > 400, len(calls)),
        ("the headers are understood", len(maker.known) > 500, len(maker.known)),
        ("parameters' names", not maker.wrong, "\n".join(maker.wrong[:20])),
    ]
    done = compiled("".join(maker.text))
    results.append(("%d calls compile" % maker.count, done.returncode == 0,
                    "\n".join(x for x in done.stderr.splitlines() if "error" in x)[:3000]))
    # It can fail: two integers for one another, a real for a complex factor.
    swapped = "".join(maker.text).replace("cublasOperation_t a1", "cublasFillMode_t a1")
    results.append(("a wrong enumeration does not compile",
                    compiled(swapped).returncode != 0, ""))
    for i, (name, good, detail) in enumerate(results, 1):
        if not good:
            print("# " + str(detail).replace("\n", "\n# "))
        print("%sok %d - %s" % ("" if good else "not ", i, name))
    print("1..%d" % len(results))
    return int(not all(x[1] for x in results))


if __name__ == "__main__":
    sys.exit(main())
