# SPDX-License-Identifier: Apache-2.0
# Run by ./check, not by `make check': minutes, and Debian's packages.
EXTRA_DIST += tests/judges/README.md
EXTRA_DIST += tests/judges/algebra.R
EXTRA_DIST += tests/judges/cases.py
EXTRA_DIST += tests/judges/compare.py
EXTRA_DIST += tests/judges/ferryrun.py
EXTRA_DIST += tests/judges/run
EXTRA_DIST += tests/judges/threads.c
