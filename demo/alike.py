#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which modules of Python's standard library are most alike?

Counts the words of every module, weighs them by how rare they are, and
compares all modules with each other: one large matrix product. Then finds the
main topics by a singular value decomposition. Plain NumPy; knows nothing of
ferry.
"""
import glob
import os
import re
import sys

import numpy as np

folder = os.path.dirname(os.__file__)
paths = sorted(glob.glob(os.path.join(folder, "[a-z]*.py")))
counts, index = [], {}
for path in paths:
    with open(path, encoding="utf-8", errors="replace") as file:
        words = re.findall(r"[A-Za-z_]{3,}", file.read())
    row = {}
    for word in words:
        column = index.setdefault(word, len(index))
        row[column] = row.get(column, 0) + 1
    counts.append(row)

names = [os.path.basename(path)[:-3] for path in paths]
a = np.zeros((len(paths), len(index)))
for i, row in enumerate(counts):
    a[i, list(row)] = list(row.values())
rarity = np.log(len(paths) / np.count_nonzero(a, axis=0))
a = np.log1p(a) * rarity
a /= np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-300)
b = a.copy()
print(f"{a.shape[0]} modules, {a.shape[1]} words: {a.nbytes / 2**20:.0f} MiB")

alike = a @ b.T
np.fill_diagonal(alike, 0)
best = np.dstack(np.unravel_index(np.argsort(-alike, axis=None)[:12:2],
                                  alike.shape))[0]
for i, j in best:
    print(f"  {names[min(i, j)]:14} {names[max(i, j)]:14} {alike[i, j]:.6f}")

# The covariance of the commonest words, and its main directions.
common = np.argsort(-np.count_nonzero(a, axis=0), kind="stable")[:512]
x = np.ascontiguousarray(a[:, common])
u, s, vt = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
words = sorted(index, key=index.get)
print("topics by weight:", " ".join(f"{value:.6f}" for value in s[:6]))
for topic in range(3):
    strongest = np.argsort(-np.abs(vt[topic]), kind="stable")[:6]
    print("  " + " ".join(words[common[word]] for word in strongest))
sys.exit(0)
