#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the exported functions of a fake library from its rows.

    generate.py header driver.rows   what fake_NAME functions must look like
    generate.py source driver.rows   the functions that pass the gate
    generate.py names  driver.rows   the exported names, one a line
    generate.py check  driver.rows   the prototypes alone, for the real headers
    generate.py WHAT cublas_routines.rows   source, names or check of those
                                            (cusolver_routines.rows too)

A row is "need NAME(parameters)"; need is any, init or context. A row of
cublas_routines.rows is "family TYPES NAME(parameters)". Run by make.
"""
import re
import sys

LIBRARIES = {
    "cublas": ("FAKE_CUBLAS", "cublasStatus_t"),
    "driver": ("FAKE_DRIVER", "CUresult"),
    "cusolver": ("FAKE_CUSOLVER", "cusolverStatus_t"),
    "cufft": ("FAKE_CUFFT", "cufftResult"),
    "nvrtc": ("FAKE_NVRTC", "nvrtcResult"),
}


def rows(path):
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            found = re.fullmatch(r"(any|init|context) (\w+)\((.*)\)", line)
            if not found:
                sys.exit(f"{path}:{number}: not a row: {line}")
            yield found.groups()


def parameter_names(text):
    if text == "void":
        return []
    return [re.search(r"(\w+)(\[\])?$", one.strip()).group(1)
            for one in text.split(",")]


ELEMENTS = {"S": ("float", "float"), "D": ("double", "double"),
            "C": ("cuComplex", "float"), "Z": ("cuDoubleComplex", "double")}


def routines(path):
    """Each function: family, letter, name, parameters, their names, and
    the bytes of its integers."""
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            found = re.fullmatch(r"(\w+) ([SDCZ]+) ([\w?%]+)\((.*)\)", line)
            if not found:
                sys.exit(f"{path}:{number}: not a row: {line}")
            family, letters, pattern, parameters = found.groups()
            for letter in letters:
                element, real = ELEMENTS[letter]
                typed = re.sub(r"\bT\b", element, parameters)
                typed = re.sub(r"\bR\b", real, typed)
                name = pattern.replace("?", letter)
                name = name.replace("%", letter.lower())
                yield family, letter, name, typed, parameter_names(typed), 4
                yield (family, letter, name + "_64",
                       re.sub(r"(?<!long )\bint\b", "int64_t", typed),
                       parameter_names(typed), 8)


def routine_source(what, path):
    blas = "cublas" in path
    part = "blas" if blas else "solver"
    result = "cublasStatus_t" if blas else "cusolverStatus_t"
    out = []
    if what == "source":
        out = ["/* Made by generate.py; do not edit. */",
               f'#include "tests/fakecuda/{part}.h"']
    for family, letter, name, parameters, names, width in routines(path):
        if not blas and width == 8:
            continue
        if what == "names":
            out.append(name)
        elif what == "check":
            out.append(f"{result} {name}({parameters});")
        else:
            fields = ",\n        ".join(f".{one} = {one}" for one in names)
            routine = f'"{family}"' if blas else f"&solver_{family}"
            if blas:
                fields = f".integer_bytes = {width},\n        " + fields
            out.append(f"""
FAKE_EXPORT {result} {name}({parameters});
{result} {name}({parameters})
{{
    struct {part}_call call = {{
        .name = "{name}",
        .type = '{letter}',
        {fields}}};

    return {part}_issue(&call, {routine});
}}""")
    print("\n".join(out))


def main():
    what, path = sys.argv[1:]
    if path.endswith("_routines.rows"):
        routine_source(what, path)
        return
    library = re.sub(r".*/|\.rows$", "", path)
    code, result = LIBRARIES[library]
    out = ["/* Made by generate.py; do not edit. */"]
    if what == "source":
        out += [f'#include "tests/fakecuda/{library}_abi.h"',
                '#include "tests/fakecuda/core.h"',
                f'#include "tests/fakecuda/{library}_rows.h"', ""]
    if what == "header":
        out += [f'#include "tests/fakecuda/{library}_abi.h"', ""]
    if what == "names":
        out = []
    for need, name, parameters in rows(path):
        if what == "names":
            out.append(name)
            continue
        if what == "check":
            out.append(f"{result} {name}({parameters});")
            continue
        if what == "header":
            out.append(f"{result} fake_{name}({parameters});")
            continue
        arguments = ", ".join(parameter_names(parameters))
        out.append(f"""
FAKE_EXPORT {result} {name}({parameters});
{result} {name}({parameters})
{{
    struct fake_call call;
    int status = fakecuda_enter(&call, "{name}", {code}, FAKE_{need.upper()});

    if (status == 0) {{
        status = fake_{name}({arguments});
    }}
    return fakecuda_leave(&call, status);
}}""")
    if what == "source":
        names = ["{\"%s\", (void *)%s}" % (name, name)
                 for _, name, _ in rows(path)]
        out.append(f"\nconst struct fake_symbol fake_{library}_symbols[] = {{\n    "
                   + ",\n    ".join(names) + ",\n    {0, 0}};")
    if what == "header":
        out.append(f"""
extern const struct fake_symbol fake_{library}_symbols[];""")
    print("\n".join(out))


main()
