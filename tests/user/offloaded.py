# SPDX-License-Identifier: Apache-2.0
"""Exits 0 when a function was offloaded in every report, and cut at least once.

usage: offloaded.py FUNCTION REPORT...
"""
import json
import sys

name = sys.argv[1]
rows = []
for path in sys.argv[2:]:
    with open(path, encoding="utf-8") as report:
        rows += [r for r in json.load(report)["functions"] if r["name"] == name]
ok = len(rows) == len(sys.argv) - 2 and all(r["offloaded"] > 0 for r in rows)
cut = any(r["chunks"] > r["offloaded"] for r in rows)
sys.exit(0 if ok and cut else 1)
