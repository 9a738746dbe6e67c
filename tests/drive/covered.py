#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the driver and the shipped annotations about the same functions?

  covered.py DUMP LIST REPORT

DUMP: ferry check --dump; LIST: drive --list; REPORT: of a forced run of the
driver. Prints, one a line: what is driven but not annotated, what is annotated
but not driven (apart from calls that only make or free a handle, and those
that are never worth it alone), and what was driven and annotated but never
offloaded.
"""
import json
import re
import sys

with open(sys.argv[1], encoding="utf-8") as dump:
    functions = re.split(r"^(?=function )", dump.read(), flags=re.M)[1:]
with open(sys.argv[2], encoding="utf-8") as listing:
    driven = {line.split("/")[0].strip() for line in listing}
with open(sys.argv[3], encoding="utf-8") as report:
    offloaded = {row["name"]: row["offloaded"]
                 for row in json.load(report)["functions"]}

annotated = {}  # exported name -> function
for text in functions:
    name = re.match(r"function [^(]*?(\w+)\(", text).group(1)
    if re.search(r"^    (makes |frees |worth \(0 > 1\)$)", text, re.M):
        continue
    for symbol in re.findall(r"^    symbol (\S+)", text, re.M):
        annotated[symbol] = name

for symbol in sorted(driven - set(annotated)):
    print("driven but not annotated:", symbol)
reached = {annotated[symbol] for symbol in driven if symbol in annotated}
for name in sorted(set(annotated.values()) - reached):
    print("annotated but not driven:", name)
for name in sorted(reached):
    if not offloaded.get(name):
        print("driven but never offloaded:", name)
