# SPDX-License-Identifier: Apache-2.0
# Small programs compiled and run by tests/program/run, called by ./check.
EXTRA_DIST += tests/program/common.h
EXTRA_DIST += tests/program/copies.c
EXTRA_DIST += tests/program/ends.c
EXTRA_DIST += tests/program/forks.c
EXTRA_DIST += tests/program/numbers.f90
EXTRA_DIST += tests/program/numpy_script.py
EXTRA_DIST += tests/program/odd.c
EXTRA_DIST += tests/program/ownmalloc.c
EXTRA_DIST += tests/program/pointers.c
EXTRA_DIST += tests/program/programs.py
EXTRA_DIST += tests/program/run
EXTRA_DIST += tests/program/setups.py
EXTRA_DIST += tests/program/signals.c
EXTRA_DIST += tests/program/threads.c
EXTRA_DIST += tests/program/values.c
EXTRA_DIST += tests/program/xerbla.c
